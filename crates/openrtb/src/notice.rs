//! Notices: the addresses that bids carry, and what comes back through them.
//!
//! ```text
//! {base}/n/win/{id}/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}      nurl
//! {base}/n/bill/{id}/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}     burl
//! {base}/n/loss/{id}/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}/l-${AUCTION_LOSS}      lurl
//! ```
//! The id is ours, opaque, base64url; each kind has one of its own, so that nobody can say by the address of one what only
//! another may say. All is path, because `&` would need escapes in XML and HTML. The letter
//! before each macro keeps the segments apart when a macro becomes nothing, and `//` is never sent, which some
//! on the way would shorten. A price may hold slashes (base64), so the end of one segment is the next tag.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use money::CurrencyCode;
use thiserror::Error;

use crate::ad::Piece;
use crate::click::ClickKind;
use crate::price::{self, Decimal};
use crate::read::currency_of;

/// All notices' paths begin with this.
pub const NOTICE_PATH: &str = "/n/";

/// Bytes of a notice id, at most.
pub const NOTICE_ID_BYTES_MAX: usize = 128;

/// Longest text of a macro that is looked into; a longer one is [`PriceText::Encoded`].
const MACRO_LEN_MAX: usize = 96;

/// What a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NoticeKind {
    /// The auction is won (`nurl`): never spend.
    Win,
    /// The impression is billable (`burl`): book it.
    Bill,
    /// The auction is lost (`lurl`): give the hold back.
    Loss,
}

impl NoticeKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Win, Self::Bill, Self::Loss];

    /// Its name in paths, metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Win => "win",
            Self::Bill => "bill",
            Self::Loss => "loss",
        }
    }
}

/// What stands where the price should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceText<'a> {
    /// There is no place for a price.
    Missing,
    /// The macro was replaced by nothing.
    Empty,
    /// The macro was not replaced.
    Literal,
    /// `AUDIT`: somebody checks the markup, nobody pays.
    Audit,
    /// A price in micros, perhaps out of base64, rounded up; below [`PRICE_MICROS_END`](crate::PRICE_MICROS_END).
    Micros(i64),
    /// A number that is no price: negative, not a number, or too high.
    Absurd,
    /// Something else, as sent: an encrypted price, perhaps.
    Encoded(&'a str),
}

/// One notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice<'a> {
    /// Its text.
    pub kind: NoticeKind,
    /// The bytes that the bid gave as its notice id.
    pub id: &'a [u8],
    /// The price.
    pub price: PriceText<'a>,
    /// The currency of the price; `None` when there is none that can be read.
    pub currency: Option<CurrencyCode>,
    /// Why it was lost, as the specification numbers it.
    pub loss_code: Option<u32>,
}

/// Why an address is none of ours; answered 404.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum BadNotice {
    /// Not the path of a notice.
    #[error("the path is not one of win, bill and loss notices")]
    Path,
    /// The id is not base64url of 1 to [`NOTICE_ID_BYTES_MAX`] bytes.
    #[error("the id is not base64url of 1 to 128 bytes")]
    Id,
}

/// Room for the bytes of a notice id.
pub type NoticeId = [u8; NOTICE_ID_BYTES_MAX];

impl<'a> Notice<'a> {
    /// Reads the path of a notice; its id is decoded into `room`. The query plays no part.
    ///
    /// # Errors
    /// Why it is none of ours.
    pub fn parse(path: &'a str, room: &'a mut NoticeId) -> Result<Notice<'a>, BadNotice> {
        let rest = path.strip_prefix(NOTICE_PATH).ok_or(BadNotice::Path)?;
        let (kind, rest) = rest.split_once('/').ok_or(BadNotice::Path)?;
        let kind = NoticeKind::ALL.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or(BadNotice::Path)?;
        let (id, tags) = match rest.find('/') {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        let id = decode_id(id, room)?;
        let (tags, loss) = split_tag(tags, "/l-");
        let (tags, currency) = split_tag(tags, "/c-");
        let (_, price) = split_tag(tags, "/p-");
        Ok(Notice {
            kind,
            id,
            price: price.map_or(PriceText::Missing, price_text),
            currency: currency.and_then(currency_of),
            loss_code: loss.and_then(|code| code.parse().ok()),
        })
    }
}

/// The bytes of an id of an address.
pub(crate) fn decode_id<'a>(id: &str, room: &'a mut NoticeId) -> Result<&'a [u8], BadNotice> {
    match URL_SAFE_NO_PAD.decode_slice(id, room) {
        Ok(len) if len > 0 => Ok(&room[..len]),
        _ => Err(BadNotice::Id),
    }
}

/// Cuts the last such tag and what follows it off.
fn split_tag<'a>(path: &'a str, tag: &str) -> (&'a str, Option<&'a str>) {
    match path.rsplit_once(tag) {
        Some((before, value)) => (before, Some(value)),
        None => (path, None),
    }
}

fn price_text(raw: &str) -> PriceText<'_> {
    let mut room = [0; MACRO_LEN_MAX];
    let Some(text) = unescape(raw, &mut room) else { return PriceText::Encoded(raw) };
    match text.trim() {
        "" => PriceText::Empty,
        "AUDIT" => PriceText::Audit,
        text if text.contains("AUCTION_PRICE") => PriceText::Literal,
        text => number(text).or_else(|| number_in_base64(text)).unwrap_or(PriceText::Encoded(raw)),
    }
}

/// Takes percent-encoding away.
fn unescape<'r>(raw: &str, room: &'r mut [u8]) -> Option<&'r str> {
    let (mut bytes, mut len) = (raw.as_bytes(), 0);
    while let [first, rest @ ..] = bytes {
        let (byte, rest) = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => (hex(*high)? << 4 | hex(*low)?, rest),
            (b'%', _) => return None,
            (byte, rest) => (*byte, rest),
        };
        *room.get_mut(len)? = byte;
        (bytes, len) = (rest, len + 1);
    }
    std::str::from_utf8(&room[..len]).ok()
}

fn hex(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

fn number(text: &str) -> Option<PriceText<'static>> {
    match price::of_text(text) {
        Some(Decimal::Micros(micros)) => Some(PriceText::Micros(micros)),
        Some(Decimal::Negative | Decimal::Absurd) => Some(PriceText::Absurd),
        None => is_no_price(text).then_some(PriceText::Absurd),
    }
}

/// What a float prints that is no price, and numbers too long to be read.
fn is_no_price(text: &str) -> bool {
    let word = text.trim_start_matches(['+', '-']);
    let named = ["nan", "inf", "infinity"].iter().any(|name| word.eq_ignore_ascii_case(name));
    let in_digits = |byte: u8| byte.is_ascii_digit() || b".eE+-".contains(&byte);
    named || (text.len() > 20 && text.bytes().all(in_digits))
}

/// `${AUCTION_PRICE:B64}`. Whatever decodes to something else may be encrypted, and stays as it is.
fn number_in_base64(text: &str) -> Option<PriceText<'static>> {
    let mut room = [0; MACRO_LEN_MAX];
    [URL_SAFE_NO_PAD, URL_SAFE, STANDARD_NO_PAD, STANDARD].into_iter().find_map(|engine| {
        let len = engine.decode_slice(text, &mut room).ok()?;
        number(std::str::from_utf8(&room[..len]).ok()?)
    })
}

/// What the notices of one bid bring back: an id a kind, 1 to [`NOTICE_ID_BYTES_MAX`] bytes each. What the ids have in
/// common stands once, so that it is encoded once.
#[derive(Clone, Copy, Debug)]
pub struct NoticeIds<'a> {
    /// What all of them begin with; a multiple of three bytes, which base64 ends with.
    pub start: &'a [u8],
    /// What follows, by kind as in [`NoticeKind::ALL`].
    pub ends: [&'a [u8]; 3],
    /// What follows in the id of a click; `None`: our macros of clicks stay in markup as they are.
    pub click: Option<&'a [u8]>,
}

impl NoticeIds<'_> {
    /// Can they be sent?
    pub(crate) fn are_sound(&self) -> bool {
        let fits =
            |end: &&[u8]| (1..=NOTICE_ID_BYTES_MAX).contains(&(self.start.len() + end.len()));
        let ends = self.ends.iter().chain(&self.click);
        self.start.len().is_multiple_of(3) && ends.copied().all(|end| fits(&end))
    }
}

/// Letters of an id's base64, at most.
const ID_LETTERS_MAX: usize = NOTICE_ID_BYTES_MAX.div_ceil(3) * 4;

/// Bytes of a part of the ids with what fills its last group of three.
const PART_BYTES_MAX: usize = NOTICE_ID_BYTES_MAX.next_multiple_of(3);

/// Room for [`NoticeIds`] as text: their parts one behind the other, each in whole groups of letters.
pub(crate) struct IdRoom {
    bytes: [u8; 5 * PART_BYTES_MAX],
    letters: [u8; 5 * ID_LETTERS_MAX],
}

impl Default for IdRoom {
    fn default() -> IdRoom {
        IdRoom { bytes: [0; 5 * PART_BYTES_MAX], letters: [0; 5 * ID_LETTERS_MAX] }
    }
}

/// [`NoticeIds`] as text.
pub(crate) struct IdText<'a> {
    start: &'a [u8],
    ends: [&'a [u8]; 3],
    click: Option<&'a [u8]>,
}

impl IdRoom {
    /// Encodes ids that are sound: all parts in one call, as a short text takes the encoder hardly less than a long one.
    /// What is behind the end of a part is zero, so its letters are those that it would have alone.
    pub(crate) fn encode(&mut self, ids: &NoticeIds<'_>) -> IdText<'_> {
        let [win, bill, loss] = ids.ends;
        let parts = [ids.start, win, bill, loss, ids.click.unwrap_or_default()];
        let mut len = 0;
        for part in parts {
            let end = len + part.len();
            self.bytes[len..end].copy_from_slice(part);
            len = end.next_multiple_of(3);
            self.bytes[end..len].fill(0);
        }
        let all = URL_SAFE_NO_PAD.encode_slice(&self.bytes[..len], &mut self.letters);
        let mut rest = &self.letters[..all.expect("the length was checked")];
        let [start, win, bill, loss, click] = parts.map(|part| {
            let (groups, behind) = rest.split_at(part.len().div_ceil(3) * 4);
            rest = behind;
            &groups[..(part.len() * 4).div_ceil(3)]
        });
        IdText { start, ends: [win, bill, loss], click: ids.click.map(|_| click) }
    }
}

/// The addresses of our notices and clicks, as far as they are always the same.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    notices: [String; 3],
    click: String,
    click_escaped: String,
    track: String,
}

impl Addresses {
    pub(crate) fn new(base_url: &str) -> Addresses {
        let of = |name: &str| format!("{base_url}{NOTICE_PATH}{name}/");
        let click = of(ClickKind::Click.name());
        Addresses {
            notices: NoticeKind::ALL.map(|kind| of(kind.name())),
            click_escaped: escaped(&click),
            click,
            track: of(ClickKind::Track.name()),
        }
    }

    /// Writes the address of a click, or where the bid has none the macro in its place.
    pub(crate) fn write_click(&self, out: &mut Vec<u8>, piece: &Piece, id: &IdText<'_>) {
        let Some(end) = id.click else {
            return out.extend_from_slice(piece.text().as_bytes());
        };
        let begins = match piece {
            Piece::ClickEscaped => &self.click_escaped,
            Piece::ClickPixel => &self.track,
            _ => &self.click,
        };
        // Letters of base64url need no escape.
        for part in [begins.as_bytes(), id.start, end] {
            out.extend_from_slice(part);
        }
    }

    /// Writes a notice's address, with its id in two parts; no byte of it needs an escape in JSON, XML or HTML.
    pub(crate) fn write(&self, out: &mut Vec<u8>, kind: NoticeKind, id: &IdText<'_>) {
        out.extend_from_slice(self.notices[kind as usize].as_bytes());
        out.extend_from_slice(id.start);
        out.extend_from_slice(id.ends[kind as usize]);
        out.extend_from_slice(b"/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}");
        if kind == NoticeKind::Loss {
            out.extend_from_slice(b"/l-${AUCTION_LOSS}");
        }
    }

    /// Are they HTTPS?
    pub(crate) fn is_secure(&self) -> bool {
        self.notices[0].starts_with("https:")
    }
}

/// Percent-encoded.
fn escaped(address: &str) -> String {
    let mut all = String::new();
    for byte in address.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                all.push(char::from(byte));
            }
            byte => _ = write!(all, "%{byte:02X}"),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Said<'a> = (NoticeKind, PriceText<'a>, Option<String>, Option<u32>);

    fn parse(path: &str) -> Result<Said<'_>, BadNotice> {
        let room = Box::leak(Box::new([0; NOTICE_ID_BYTES_MAX]));
        let notice = Notice::parse(path, room)?;
        assert_eq!(notice.id, b"hold");
        let currency = notice.currency.map(|code| code.as_str().to_string());
        Ok((notice.kind, notice.price, currency, notice.loss_code))
    }

    #[test]
    fn what_may_stand_for_a_price() {
        let encoded = "cGFzc3dvcmQ_";
        for (text, expected) in [
            ("1.25", PriceText::Micros(1_250_000)),
            ("0", PriceText::Micros(0)),
            ("1%2E25", PriceText::Micros(1_250_000)),
            ("%201.25%20", PriceText::Micros(1_250_000)),
            ("1.0000001", PriceText::Micros(1_000_001)),
            ("", PriceText::Empty),
            ("%20", PriceText::Empty),
            ("${AUCTION_PRICE}", PriceText::Literal),
            ("$%7BAUCTION_PRICE%7D", PriceText::Literal),
            ("%24%7bAUCTION_PRICE%7d", PriceText::Literal),
            ("${AUCTION_PRICE:B64}", PriceText::Literal),
            ("AUDIT", PriceText::Audit),
            ("MS4yNQ==", PriceText::Micros(1_250_000)),
            ("MS4yNQ", PriceText::Micros(1_250_000)),
            ("MS4yNQ%3D%3D", PriceText::Micros(1_250_000)),
            ("-1", PriceText::Absurd),
            ("NaN", PriceText::Absurd),
            ("-Infinity", PriceText::Absurd),
            ("1e300", PriceText::Absurd),
            ("1000000", PriceText::Absurd),
            ("999999999999999999999999999999999999999999999", PriceText::Absurd),
            ("1,25", PriceText::Encoded("1,25")),
            ("100%", PriceText::Encoded("100%")),
            ("%zz", PriceText::Encoded("%zz")),
            ("%ff", PriceText::Encoded("%ff")),
            (encoded, PriceText::Encoded(encoded)),
            ("YWJ/jKz+9/8=", PriceText::Encoded("YWJ/jKz+9/8=")),
        ] {
            assert_eq!(price_text(text), expected, "{text:?}");
            let path = format!("/n/bill/aG9sZA/p-{text}/c-EUR");
            assert_eq!(
                parse(&path),
                Ok((NoticeKind::Bill, expected, Some("EUR".into()), None)),
                "{path}"
            );
        }
    }

    #[test]
    fn segments_may_be_missing_and_macros_unreplaced() {
        use NoticeKind::{Loss, Win};
        let usd = || Some("USD".to_string());
        for (rest, expected) in [
            ("", (Win, PriceText::Missing, None, None)),
            ("/", (Win, PriceText::Missing, None, None)),
            ("/p-", (Win, PriceText::Empty, None, None)),
            ("/p-/c-", (Win, PriceText::Empty, None, None)),
            ("/p-2/c-usd", (Win, PriceText::Micros(2_000_000), usd(), None)),
            ("/p-2/c-${AUCTION_CURRENCY}", (Win, PriceText::Micros(2_000_000), None, None)),
            ("/c-USD", (Win, PriceText::Missing, usd(), None)),
        ] {
            assert_eq!(parse(&format!("/n/win/aG9sZA{rest}")), Ok(expected), "{rest}");
        }
        let lost = parse("/n/loss/aG9sZA/p-2/c-USD/l-102");
        assert_eq!(lost, Ok((Loss, PriceText::Micros(2_000_000), usd(), Some(102))));
        let lost = parse("/n/loss/aG9sZA/p-/c-/l-${AUCTION_LOSS}");
        assert_eq!(lost, Ok((Loss, PriceText::Empty, None, None)));
    }

    #[test]
    fn what_is_no_notice_of_ours() {
        for path in ["", "/", "/n", "/n/", "/n/win", "/n/won/aG9sZA", "/n//aG9sZA", "/m/win/aG9sZA"]
        {
            assert_eq!(parse(path), Err(BadNotice::Path), "{path}");
        }
        let long = format!("/n/win/{}", "A".repeat(172));
        for path in
            ["/n/win/", "/n/win//p-1", "/n/win/a", "/n/win/aG9sZA==", "/n/win/aG9s%5A", &long]
        {
            assert_eq!(parse(path), Err(BadNotice::Id), "{path}");
        }
    }

    proptest! {
        #[test]
        fn an_address_comes_back(
            id in proptest::collection::vec(any::<u8>(), 1..=NOTICE_ID_BYTES_MAX),
            micros in 0_u64..999_999_999_999, shared in 0_usize..=NOTICE_ID_BYTES_MAX,
        ) {
            let shared = shared.min(id.len());
            let ids = NoticeIds { start: &id[..shared / 3 * 3], ends: [&id[shared / 3 * 3..]; 3], click: Some(&id[shared / 3 * 3..]) };
            for kind in NoticeKind::ALL {
                let (mut address, mut price) = (Vec::new(), Vec::new());
                let mut room = IdRoom::default();
                Addresses::new("https://rtb.example").write(&mut address, kind, &room.encode(&ids));
                crate::price::write_micros(&mut price, micros);
                let address = String::from_utf8(address).unwrap();
                let path = address.strip_prefix("https://rtb.example").unwrap();
                let path = path
                    .replace("${AUCTION_PRICE}", std::str::from_utf8(&price).unwrap())
                    .replace("${AUCTION_CURRENCY}", "EUR")
                    .replace("${AUCTION_LOSS}", "102");
                let mut room = [0; NOTICE_ID_BYTES_MAX];
                let notice = Notice::parse(&path, &mut room).unwrap();
                prop_assert_eq!(notice.kind, kind);
                prop_assert_eq!(notice.id, &id[..]);
                prop_assert_eq!(notice.price, PriceText::Micros(i64::try_from(micros).unwrap()));
                prop_assert_eq!(notice.currency, CurrencyCode::new("EUR"));
                prop_assert_eq!(notice.loss_code, (kind == NoticeKind::Loss).then_some(102));
            }
            let of = |piece| {
                let (mut address, mut room) = (Vec::new(), IdRoom::default());
                Addresses::new("http://rtb.example").write_click(&mut address, &piece, &room.encode(&ids));
                String::from_utf8(address).unwrap()
            };
            let click = of(Piece::Click);
            prop_assert_eq!(of(Piece::ClickEscaped), click.replace(':', "%3A").replace('/', "%2F"));
            for (address, expected) in [(click, ClickKind::Click), (of(Piece::ClickPixel), ClickKind::Track)] {
                let (kind, rest) = ClickKind::of(address.strip_prefix("http://rtb.example").unwrap()).unwrap();
                let mut room = [0; NOTICE_ID_BYTES_MAX];
                prop_assert_eq!((kind, decode_id(rest, &mut room)), (expected, Ok(&id[..])));
            }
        }

        #[test]
        fn any_path_is_read_without_a_panic(path in "(/n/(win|bill|loss)/)?.{0,60}") {
            let mut room = [0; NOTICE_ID_BYTES_MAX];
            let _ = Notice::parse(&path, &mut room);
        }
    }
}
