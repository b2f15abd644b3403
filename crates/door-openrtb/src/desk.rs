//! What stands behind an auction in a node: plans, caps, purses.

use std::time::{Duration, Instant};

use gate_auction::{BidContext, Bidder, Choice, Price, Reason};
use gate_profile::{Cap, Profile, Profiles};
use ledger::{Amount, Hold};
use openrtb::{Imp, Mtype, PRICE_MICROS_END};
use weir_budgets::campaign_index::{CampaignIndex, PinnedRate, ServedCreative};
use weir_till::Money;
use wire::Verdict;

use super::cost::charged;
use super::currency::BidCurrency;
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

/// How long until the answer of a request is late. The clock is read when somebody asks, and counts from the first time on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLeft {
    left: Duration,
    since: Option<Instant>,
}

impl TimeLeft {
    pub(super) fn new(left: Duration) -> TimeLeft {
        TimeLeft { left, since: None }
    }

    fn is_up(&mut self) -> bool {
        self.since.get_or_insert_with(Instant::now).elapsed() >= self.left
    }
}

/// One request's desk.
pub(super) struct BidDesk<'a> {
    pub(super) campaign_index: &'a CampaignIndex,
    pub(super) money: Money<'a>,
    pub(super) profiles: &'a Profiles,
    pub(super) profile: &'a Profile,
    pub(super) viewer: Viewer,
    /// Hash of the request's id, for coins.
    pub(super) id_hash: u64,
    /// By impression, in millionths.
    pub(super) multipliers: &'a [i64],
    /// The largest of them: before an impression is known, a bid costs at most this.
    pub(super) multiplier_max: i64,
    /// What the bids are in.
    pub(super) currency: BidCurrency,
    pub(super) time: TimeLeft,
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
    campaign_index: &CampaignIndex,
    money: &mut Money<'_>,
    profiles: &Profiles,
    viewer: Viewer,
) {
    let Some(hold) = &held.hold else { return };
    money.undo(campaign_index.index().place(held.choice.slot), hold);
    if let Viewer::Known(user) = viewer {
        profiles.release(user, hold_id(hold));
    }
}

impl BidDesk<'_> {
    /// What is set aside for a bid at most.
    #[inline]
    fn amount(&self, slot: u32, price: Price, multiplier_micros: i64) -> Option<Amount> {
        let rate = self.campaign_index.rate(slot);
        self.amount_at(slot, price.micros(), rate, multiplier_micros)
    }

    /// The same of a price as it is sent, and of what the budget's currency is worth in its.
    #[inline]
    fn amount_at(
        &self,
        slot: u32,
        price_micros: i64,
        rate: PinnedRate,
        multiplier_micros: i64,
    ) -> Option<Amount> {
        let cost = charged(price_micros, multiplier_micros, rate)?;
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

    /// Can a bid of at most this price be sent in its currency? Its floor is not above it, so rounding that up is the most.
    #[inline]
    fn may_be_sent(&self, bid: Price) -> Result<(), Reason> {
        let fits = self.currency.floor_micros(bid) < PRICE_MICROS_END;
        if fits { Ok(()) } else { Err(Reason::Currency) }
    }

    fn ledger_slot(&self, slot: u32) -> u32 {
        self.campaign_index.index().place(slot)
    }

    /// Can a cap of the campaign or of one of its creatives be reached? Where none can, neither is touched.
    #[inline]
    fn may_be_capped(&self, slot: u32) -> bool {
        let items = self.campaign_index.cap_items(slot);
        match self.viewer {
            Viewer::Known(_) => self.profile.may_be_capped(items),
            Viewer::Unknown => items != 0,
        }
    }

    /// Is one of these caps reached?
    fn capped(&self, caps: &[Cap]) -> bool {
        match self.viewer {
            Viewer::Known(_) => self.profile.capped(caps),
            Viewer::Unknown => !caps.is_empty(),
        }
    }

    /// Is a cap of the whole campaign reached?
    #[inline]
    fn is_campaign_capped(&self, slot: u32) -> bool {
        self.may_be_capped(slot) && self.capped(&self.campaign_index.ad(slot).caps)
    }
}

/// What a hold is called in a profile: grant and number, which fill 64 bits.
pub fn hold_id(hold: &Hold) -> u64 {
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
    if shown.ad.mtype() != Mtype::Native {
        return shown.fits_player(imp);
    }
    let made = imp.native.zip(shown.native.as_ref());
    made.is_some_and(|(native, set)| room.make(&native, set, |_| ()).is_some())
}

impl BidContext for BidDesk<'_> {
    fn has_time(&mut self) -> bool {
        !self.time.is_up()
    }

    #[inline]
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        // What is worth too little in the other currency is not bid there.
        self.currency.rate(self.campaign_index.rate(bidder.slot)).ok_or(Reason::Currency)?;
        let slot = self.ledger_slot(bidder.slot);
        let paced = self.money.bid(slot, self.id_hash, bid.micros());
        let (price, amount) = self.paced(bidder.slot, paced)?;
        if self.money.may_bid(slot, amount) { Ok(price) } else { Err(Reason::Paced) }
    }

    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        self.may_be_sent(bid)?;
        if self.is_campaign_capped(bidder.slot) {
            return Err(Reason::Cap);
        }
        let amount = self.amount(bidder.slot, bid, self.multiplier_max).ok_or(Reason::Budget)?;
        let slot = self.ledger_slot(bidder.slot);
        self.money.able(slot, amount).map_err(reason)
    }

    fn may_show(&self, bidder: Bidder, impression: usize, creative: usize) -> Result<(), Reason> {
        let asks_player = self.campaign_index.asks_player(bidder.slot);
        let may_be_capped = self.may_be_capped(bidder.slot);
        if !asks_player && !may_be_capped {
            return Ok(());
        }
        let ad = self.campaign_index.ad(bidder.slot);
        let (imp, shown) = (&self.imps[impression], &ad.creatives[creative]);
        if asks_player && !ad.wants_player(creative, imp) {
            return Err(Reason::Targeting);
        }
        if asks_player && !suits(imp, shown, self.native) {
            return Err(Reason::Blocked);
        }
        if may_be_capped && self.capped(&shown.caps) { Err(Reason::Cap) } else { Ok(()) }
    }

    #[inline]
    fn prefetch(&self, slot: u32) {
        self.money.prefetch(self.ledger_slot(slot));
    }

    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        if self.test {
            self.held.push(Held { choice: *choice, hold: None });
            return Ok(());
        }
        let multiplier = self.multipliers[choice.impression];
        let rate = self.currency.rate(self.campaign_index.rate(choice.slot));
        let price_micros = self.currency.price_micros(choice.price, choice.floor);
        let amount = self
            .amount_at(choice.slot, price_micros, rate.ok_or(Reason::Currency)?, multiplier)
            .ok_or(Reason::Budget)?;
        let slot = self.ledger_slot(choice.slot);
        let caps = &self.campaign_index.ad(choice.slot).creatives[choice.creative].caps;
        let (viewer, profiles, now_ms) = (self.viewer, self.profiles, self.money.at.now_ms);
        let hold = self.money.reserve_bid(slot, amount, |hold| {
            let Viewer::Known(user) = viewer else { return true };
            profiles.reserve(user, hold_id(hold), caps, hold.deadline_ms, now_ms).is_ok()
        });
        let hold = hold.map_err(|why| why.map_or(Reason::Cap, reason))?;
        self.held.push(Held { choice: *choice, hold: Some(hold) });
        Ok(())
    }

    fn release(&mut self, choice: &Choice) {
        let same = |held: &Held| {
            (held.choice.impression, held.choice.slot) == (choice.impression, choice.slot)
        };
        let Some(at) = self.held.iter().position(same) else { return };
        let held = self.held.remove(at);
        give_back(&held, self.campaign_index, &mut self.money, self.profiles, self.viewer);
    }

    fn peek_price(&self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        // What is worth too little in the other currency is not bid there.
        self.currency.rate(self.campaign_index.rate(bidder.slot)).ok_or(Reason::Currency)?;
        let slot = self.ledger_slot(bidder.slot);
        let paced = self.money.peek_bid(slot, self.id_hash, bid.micros());
        let (price, amount) = self.paced(bidder.slot, paced)?;
        if self.money.peek_may_bid(slot, amount) { Ok(price) } else { Err(Reason::Paced) }
    }

    fn peek_able(&self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        self.may_be_sent(bid)?;
        if self.is_campaign_capped(bidder.slot) {
            return Err(Reason::Cap);
        }
        let amount = self.amount(bidder.slot, bid, self.multiplier_max).ok_or(Reason::Budget)?;
        self.money.peek_able(self.ledger_slot(bidder.slot), amount).map_err(reason)
    }
}
