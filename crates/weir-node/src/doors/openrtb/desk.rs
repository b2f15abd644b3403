//! What stands behind an auction in a node: plans, caps, purses.

use door_openrtb::{Imp, Mtype, Stream};
use gate_auction::{BidContext, Bidder, Choice, Price, Reason};
use gate_pacing::Pace;
use gate_profile::{Profile, Profiles};
use ledger::{Amount, At, Hold, Purses};
use weir_config::campaign_index::{CampaignAd, CampaignIndex, ServedCreative};
use wire::Verdict;

use super::cost::cost;
use super::native::NativeRoom;

/// Who looks at the impressions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Viewer {
    /// Somebody whose profile is at hand; the profile's key.
    Known(u64),
    /// Nobody that could be told from others, or whose profile is on its way from the disk: whether a cap is reached
    /// cannot be said, so who has one does not bid.
    #[default]
    Unknown,
}

impl Viewer {
    /// The profile's key; any, where there is none.
    pub(super) fn key(self) -> u64 {
        match self {
            Viewer::Known(user) => user,
            Viewer::Unknown => 0,
        }
    }
}

/// A bid whose money is set aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) choice: Choice,
    /// `None`: the request is a test, no money moves.
    pub(super) hold: Option<Hold>,
}

/// One request's desk.
pub(super) struct BidDesk<'a> {
    pub(super) campaign_index: &'a CampaignIndex,
    /// Slots of the ledger by slots of the campaign index.
    pub(super) slots: &'a [u32],
    pub(super) paces: &'a mut [Pace],
    pub(super) purses: &'a mut Purses,
    pub(super) profiles: &'a Profiles,
    pub(super) profile: &'a Profile,
    pub(super) viewer: Viewer,
    pub(super) at: At,
    /// Hash of the request's id, for coins.
    pub(super) id_hash: u64,
    /// By impression, in millionths.
    pub(super) multipliers: &'a [i64],
    /// The largest of them: before an impression is known, a bid costs at most this.
    pub(super) multiplier_max: i64,
    /// No money moves.
    pub(super) test: bool,
    /// What is set aside so far.
    pub(super) held: &'a mut Vec<Held>,
    /// The request's.
    pub(super) imps: &'a [Imp<'a>],
    /// Where native requests are read.
    pub(super) native: &'a NativeRoom,
}

/// Takes back what was set aside for a bid that does not leave.
pub(super) fn give_back(
    held: &Held,
    slots: &[u32],
    paces: &mut [Pace],
    purses: &mut Purses,
    profiles: &Profiles,
    viewer: Viewer,
) {
    let Some(hold) = &held.hold else { return };
    let slot = slots[held.choice.slot as usize];
    purses.undo(slot, hold);
    paces[slot as usize].give_back(hold.amount);
    if let Viewer::Known(user) = viewer {
        profiles.release(user, hold_id(hold));
    }
}

impl BidDesk<'_> {
    /// What is set aside for a bid at most.
    #[inline]
    fn amount(&self, slot: u32, price: Price, multiplier_micros: i64) -> Option<Amount> {
        let cost = cost(price.micros(), multiplier_micros)?;
        let cost = self.campaign_index.rate(slot).to_budget(cost)?;
        Some(Amount::new(self.campaign_index.reserve_rule(slot).amount(cost.get())))
            .filter(|amount| amount.is_ask())
    }

    /// The price that pacing left of a bid, and what it costs at most.
    #[inline]
    fn paced(&self, slot: u32, paced: Option<i64>) -> Result<(Price, Amount), Reason> {
        let price = paced.and_then(Price::from_micros).ok_or(Reason::Paced)?;
        let amount = self.amount(slot, price, self.multiplier_max).ok_or(Reason::Budget)?;
        Ok((price, amount))
    }

    fn ledger_slot(&self, slot: u32) -> u32 {
        self.slots[slot as usize]
    }

    /// Is a cap of the whole campaign reached?
    fn capped(&self, ad: &CampaignAd) -> bool {
        match self.viewer {
            Viewer::Known(_) => self.profile.capped(&ad.caps),
            Viewer::Unknown => !ad.caps.is_empty(),
        }
    }

    fn reserve_caps(&self, choice: &Choice, hold: &Hold) -> Result<(), Reason> {
        let caps = &self.campaign_index.ad(choice.slot).creatives[choice.creative].caps;
        let Viewer::Known(user) = self.viewer else { return Ok(()) };
        let (id, now_ms) = (hold_id(hold), self.at.now_ms);
        let reserved = self.profiles.reserve(user, id, caps, hold.deadline_ms, now_ms);
        reserved.map_err(|_| Reason::Cap)
    }
}

/// What a hold is called in a profile: grant and number, which fill 64 bits.
pub(crate) fn hold_id(hold: &Hold) -> u64 {
    hold.grant << 24 | u64::from(hold.seq)
}

/// Why the ledger would not give money.
pub(super) fn reason(verdict: Verdict) -> Reason {
    match verdict {
        Verdict::PurseEmpty | Verdict::Busy => Reason::Purse,
        _ => Reason::Budget,
    }
}

/// Can the impression's player show it, or does it have all that a native ad needs here? Formats and durations are looked
/// at before.
fn suits(imp: &Imp<'_>, shown: &ServedCreative, room: &NativeRoom) -> bool {
    let plays = |stream: Option<Stream<'_>>| {
        stream.is_none_or(|stream| shown.ad.fits_player(&stream).is_ok())
    };
    match shown.ad.mtype() {
        Mtype::Banner => true,
        Mtype::Video => plays(imp.video),
        Mtype::Audio => plays(imp.audio),
        Mtype::Native => {
            let made = imp.native.zip(shown.native.as_ref());
            made.is_some_and(|(native, set)| room.make(&native, set, |_| ()).is_some())
        }
    }
}

impl BidContext for BidDesk<'_> {
    #[inline]
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let slot = self.ledger_slot(bidder.slot) as usize;
        let paced = self.paces[slot].bid(self.id_hash, bid.micros());
        let (price, amount) = self.paced(bidder.slot, paced)?;
        self.paces[slot].note_ask(amount);
        if self.paces[slot].allows(amount) { Ok(price) } else { Err(Reason::Paced) }
    }

    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        let ad = self.campaign_index.ad(bidder.slot);
        if self.capped(ad) {
            return Err(Reason::Cap);
        }
        let amount = self.amount(bidder.slot, bid, self.multiplier_max).ok_or(Reason::Budget)?;
        let slot = self.ledger_slot(bidder.slot);
        let able = self.purses.able(slot, amount, self.at);
        able.map_err(reason)
    }

    fn may_show(&self, bidder: Bidder, impression: usize, creative: usize) -> Result<(), Reason> {
        if !self.campaign_index.asks_of_creatives(bidder.slot) {
            // The campaign's own caps are looked at in `able`.
            return Ok(());
        }
        let shown = &self.campaign_index.ad(bidder.slot).creatives[creative];
        if !suits(&self.imps[impression], shown, self.native) {
            return Err(Reason::Blocked);
        }
        let capped = match self.viewer {
            Viewer::Known(_) => self.profile.capped(&shown.caps),
            Viewer::Unknown => !shown.caps.is_empty(),
        };
        if capped { Err(Reason::Cap) } else { Ok(()) }
    }

    #[inline]
    fn prefetch(&self, slot: u32) {
        let slot = self.ledger_slot(slot);
        table::prefetch(&self.paces[slot as usize]);
        self.purses.prefetch(slot);
    }

    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        if self.test {
            self.held.push(Held { choice: *choice, hold: None });
            return Ok(());
        }
        let multiplier = self.multipliers[choice.impression];
        let amount = self.amount(choice.slot, choice.price, multiplier).ok_or(Reason::Budget)?;
        let slot = self.ledger_slot(choice.slot);
        let reserved = self.purses.reserve(slot, amount, self.at);
        let hold = reserved.map_err(reason)?;
        if let Err(reason) = self.reserve_caps(choice, &hold) {
            self.purses.undo(slot, &hold);
            return Err(reason);
        }
        self.paces[slot as usize].take(amount);
        self.held.push(Held { choice: *choice, hold: Some(hold) });
        Ok(())
    }

    fn release(&mut self, choice: &Choice) {
        let same = |held: &Held| {
            (held.choice.impression, held.choice.slot) == (choice.impression, choice.slot)
        };
        let Some(at) = self.held.iter().position(same) else { return };
        let held = self.held.remove(at);
        give_back(&held, self.slots, self.paces, self.purses, self.profiles, self.viewer);
    }

    fn peek_price(&self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let slot = self.ledger_slot(bidder.slot) as usize;
        let paced = self.paces[slot].peek_bid(self.id_hash, bid.micros());
        let (price, amount) = self.paced(bidder.slot, paced)?;
        if self.paces[slot].allows(amount) { Ok(price) } else { Err(Reason::Paced) }
    }

    fn peek_able(&self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        let ad = self.campaign_index.ad(bidder.slot);
        if self.capped(ad) {
            return Err(Reason::Cap);
        }
        let amount = self.amount(bidder.slot, bid, self.multiplier_max).ok_or(Reason::Budget)?;
        self.purses.peek(self.ledger_slot(bidder.slot), amount, self.at).map_err(reason)
    }
}
