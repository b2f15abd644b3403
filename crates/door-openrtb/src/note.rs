//! What a bid's notices bring back: enough to book it without having kept anything.
//!
//! ```text
//!  0          8      16      24           31  32     36         40    48         52  55      56
//!  +----------+------+-------+------------+---+------+----------+-----+----------+---+-------+
//!  | campaign | user | price | multiplier | 0 | rate | creative | key | exchange | 0 | flags |   little-endian
//!  +----------+------+-------+------------+---+------+----------+-----+----------+---+-------+
//!                                                                                    | bit 0 capped, 1 test, 2 and 3 kind, 4 to 6 price, 7 click
//! ```
//!
//! The key stands for exchange, place, creative and country in reports. Notes of earlier versions end before it, and have their flags at 31.
//! The exchange is 0 in bids of the first one, and of earlier versions.
//!
//! The price takes five bytes. The letters of its currency are behind it, zeros where that is the node's own.
//!
//! A bid has a note, and so an id, for each kind of notice (1 win, 2 billing, 3 loss). Earlier versions had one for all of
//! them (0): such an id still confirms and settles, as long as its hold is judged at all, but takes nothing back.
//!
//! Bit 7 is set in the note of a click, whose kind is that of a win: all that an earlier version takes it for.
//!
//! Bit 6 is set in all notes that say which prices a notice may name: bit 4 where the billing notice's address stands in
//! markup, bit 5 in a second-price auction. Notes of earlier versions have none of the three.

use ledger::note::{NOTE_END_LEN, NOTE_LEN, NOTE_START_LEN};
use ledger::{Amount, Door, Hold, Origin};
use money::CurrencyCode;
use openrtb::NoticeKind;
use weir_budgets::campaign_index::PinnedRate;

use super::cost::charged;

const CAPPED: u8 = 1;
const TEST: u8 = 2;
/// Where the kind's two bits are: 0 for none, else its place in [`NoticeKind::ALL`] and 1.
const KIND_SHIFT: u8 = 2;
const IN_MARKUP: u8 = 16;
const SECOND_PRICE: u8 = 32;
const SAYS_PRICES: u8 = 64;
const CLICK: u8 = 128;
const KEY: usize = 40;
const EXCHANGE: usize = 48;
const FLAGS: usize = 55;
const FLAGS_BEFORE: usize = 31;
/// Five bytes: more than a price may be.
const PRICE_MASK: u64 = (1 << 40) - 1;
/// Seven bytes: more people than there are.
const MULTIPLIER_MASK: u64 = (1 << 56) - 1;

/// What the note of a bid says of the prices that its billing notice may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The bid is of a version that did not say it: any price up to a multiple of the bid.
    Earlier,
    /// The notice's address stands in the markup, where who sees it can change the price: the bid alone.
    Markup,
    /// Who wins pays the bid.
    FirstPrice,
    /// Who wins pays what the next one bid.
    SecondPrice,
}

/// What is known of a bid when its notice comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whose bid.
    pub(crate) campaign: u64,
    /// Key of who saw it.
    pub(crate) user: u64,
    /// What was sent, micros for a thousand impressions.
    pub(crate) price_micros: i64,
    /// The price's currency; `None` for the node's own.
    pub(crate) currency: Option<CurrencyCode>,
    /// People who see it, in millionths; 0 to 2^55.
    pub(crate) multiplier_micros: i64,
    /// What the budget's currency was worth in the price's when its money was set aside.
    pub(crate) rate: PinnedRate,
    /// Somebody counts how often the user sees this.
    pub(crate) capped: bool,
    /// No money: the request said `test`.
    pub(crate) test: bool,
    /// Position of the creative in its campaign.
    pub(crate) creative: u32,
    /// What it is counted as in reports; 0 of earlier versions.
    pub(crate) key: u64,
    /// Which exchange bought it: what its name is in notes.
    pub(crate) exchange: u32,
    /// The kind of notice that the id is good for. `None`: it was made before each kind had an id of its own.
    pub(crate) kind: Option<NoticeKind>,
    /// It is the id of a click, and good for no notice.
    pub(crate) click: bool,
    /// The prices that its billing notice may name.
    pub(crate) naming: Naming,
}

impl Note {
    /// What the impression costs its budget at a price; where that cannot be said, all of the hold.
    pub(crate) fn cost(&self, price_micros: i64, hold: &Hold) -> Amount {
        charged(price_micros, self.multiplier_micros, self.rate).unwrap_or(hold.amount)
    }

    /// What a record of the bid says of it: its key in reports; of a bid of an earlier version its campaign.
    pub(crate) fn origin(&self) -> Origin {
        let request_id = if self.key == 0 { self.campaign } else { self.key };
        Origin { door: Door::Openrtb, request_id }
    }

    pub(crate) fn to_bytes(self) -> [u8; NOTE_LEN] {
        let mut bytes = [0; NOTE_LEN];
        let flags = (u8::from(self.capped) * CAPPED) | (u8::from(self.test) * TEST);
        let flags = flags | self.kind.map_or(0, kind_bits) | naming_bits(self.naming);
        let flags = flags | (u8::from(self.click) * CLICK);
        bytes[0..8].copy_from_slice(&self.campaign.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.user.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.price_micros.to_le_bytes());
        if let Some(currency) = self.currency {
            bytes[21..24].copy_from_slice(currency.as_str().as_bytes());
        }
        bytes[24..32].copy_from_slice(&self.multiplier_micros.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.rate.micros().to_le_bytes());
        bytes[36..40].copy_from_slice(&self.creative.to_le_bytes());
        bytes[KEY..KEY + 8].copy_from_slice(&self.key.to_le_bytes());
        bytes[EXCHANGE..EXCHANGE + 4].copy_from_slice(&self.exchange.to_le_bytes());
        bytes[FLAGS] = flags;
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; NOTE_LEN]) -> Note {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            word
        };
        let half = |at: usize| {
            let mut half = [0; 4];
            half.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(half)
        };
        // One of the two is zero.
        let flags = bytes[FLAGS] | bytes[FLAGS_BEFORE];
        let multiplier = u64::from_le_bytes(word(24)) & MULTIPLIER_MASK;
        Note {
            campaign: u64::from_le_bytes(word(0)),
            user: u64::from_le_bytes(word(8)),
            price_micros: (u64::from_le_bytes(word(16)) & PRICE_MASK).cast_signed(),
            currency: std::str::from_utf8(&bytes[21..24]).ok().and_then(CurrencyCode::new),
            multiplier_micros: multiplier.cast_signed(),
            rate: PinnedRate::from_micros(half(32)).unwrap_or(PinnedRate::ONE),
            capped: flags & CAPPED != 0,
            test: flags & TEST != 0,
            creative: half(36),
            key: u64::from_le_bytes(word(KEY)),
            exchange: half(EXCHANGE),
            kind: NoticeKind::ALL.into_iter().find(|kind| kind_bits(*kind) == flags & KIND_MASK),
            click: flags & CLICK != 0,
            naming: naming(flags),
        }
    }

    /// The notes for all kinds, in the order of [`NoticeKind::ALL`], then that of a click: what they begin with, and how each of them ends.
    pub(crate) fn for_each_kind(self) -> ([u8; NOTE_START_LEN], [[u8; NOTE_END_LEN]; 4]) {
        let bytes = Note { kind: None, ..self }.to_bytes();
        let (mut start, mut end) = ([0; NOTE_START_LEN], [0; NOTE_END_LEN]);
        start.copy_from_slice(&bytes[..NOTE_START_LEN]);
        end.copy_from_slice(&bytes[NOTE_START_LEN..]);
        let of = |flags: u8| {
            let mut end = end;
            end[FLAGS - NOTE_START_LEN] |= flags;
            end
        };
        let [win, bill, loss] = NoticeKind::ALL.map(kind_bits);
        (start, [win, bill, loss, win | CLICK].map(of))
    }
}

const KIND_MASK: u8 = 3 << KIND_SHIFT;

fn kind_bits(kind: NoticeKind) -> u8 {
    (kind as u8 + 1) << KIND_SHIFT
}

fn naming_bits(naming: Naming) -> u8 {
    match naming {
        Naming::Earlier => 0,
        Naming::Markup => SAYS_PRICES | IN_MARKUP,
        Naming::FirstPrice => SAYS_PRICES,
        Naming::SecondPrice => SAYS_PRICES | SECOND_PRICE,
    }
}

fn naming(flags: u8) -> Naming {
    match flags & (SAYS_PRICES | IN_MARKUP | SECOND_PRICE) {
        flags if flags & SAYS_PRICES == 0 => Naming::Earlier,
        flags if flags & IN_MARKUP != 0 => Naming::Markup,
        flags if flags & SECOND_PRICE != 0 => Naming::SecondPrice,
        _ => Naming::FirstPrice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_as_it_went(
            campaign: u64, user: u64, price_micros in 0_i64..1 << 40, multiplier_micros in 0_i64..1 << 55,
            rate in 1_u32.., capped: bool, test: bool, creative: u32, key: u64, exchange: u32, kind in 0_usize..4,
            currency in prop::option::of(prop::sample::select(vec!["EUR", "USD", "JPY"])),
            naming in prop::sample::select(vec![
                Naming::Earlier, Naming::Markup, Naming::FirstPrice, Naming::SecondPrice,
            ]),
        ) {
            let kind = NoticeKind::ALL.get(kind).copied();
            let currency = currency.map(|letters| CurrencyCode::new(letters).unwrap());
            let rate = PinnedRate::from_micros(rate).unwrap();
            let note = Note {
                campaign, user, price_micros, currency, multiplier_micros, rate, capped, test, creative, key, exchange, kind, naming,
                click: false,
            };
            prop_assert_eq!(Note::from_bytes(&note.to_bytes()), note);
            // As earlier versions wrote it.
            let mut before = note.to_bytes();
            before.swap(FLAGS, FLAGS_BEFORE);
            before[KEY..].fill(0);
            prop_assert_eq!(Note::from_bytes(&before), Note { key: 0, exchange: 0, ..note });
            let (start, ends) = note.for_each_kind();
            for (kind, end) in NoticeKind::ALL.into_iter().zip(ends) {
                let bytes = [&start[..], &end].concat().try_into().unwrap();
                prop_assert_eq!(Note::from_bytes(&bytes), Note { kind: Some(kind), ..note });
            }
            let bytes = [&start[..], &ends[3]].concat().try_into().unwrap();
            let kind = Some(NoticeKind::Win);
            prop_assert_eq!(Note::from_bytes(&bytes), Note { kind, click: true, ..note });
        }
    }
}
