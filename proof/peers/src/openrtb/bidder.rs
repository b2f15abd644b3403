//! A worker's bidding without its network: the same calls in the same order as the node's `openrtb` module, able to
//! stop after each stage. Translation, desk, costs, notes and users are the node's own files, included by path because
//! its library does not export them; only the few lines between them are written again here.

use std::collections::HashMap;
use std::path::Path;

use door_transport::ConnId;
use gate_auction::{Choice, Counters, Scratch};
use gate_pacing::Pace;
use gate_profile::{Options, Presence, Profile, Profiles};
use ledger::{Amount, KeyRing, PurseOptions, Purses, ToWorker};
use money::Instant;
use openrtb::{
    Answer, Bid, BidId, BidRequest, Event, Gate, NoBidReason, Notice, NoticeIds, NoticeStatus,
    Noticed, Outcome, Settings,
};
use probe::NodeClock;
use weir_budgets::budgets::Budget;
use weir_budgets::campaign_index::{CampaignIndex, ExchangeTerms};
use weir_config::config::Config;
use weir_till::Money;

use self::currency::BidCurrency;
use self::desk::{BidDesk, Held, TimeLeft, Viewer, hold_id};
use self::note::{Naming, Note};
use self::translate::{Lists, Terms, User, id_hash};

#[path = "../../../../crates/door-openrtb/src/cost.rs"]
mod cost;
#[allow(dead_code, reason = "all bids are in one currency")]
#[path = "../../../../crates/door-openrtb/src/currency.rs"]
mod currency;
#[allow(dead_code, reason = "the node undoes holds, a benchmark lets them lapse")]
#[path = "../../../../crates/door-openrtb/src/desk.rs"]
mod desk;
#[path = "../../../../crates/door-openrtb/src/native.rs"]
mod native;
#[allow(dead_code, reason = "no notice comes back")]
#[path = "../../../../crates/door-openrtb/src/note.rs"]
mod note;
#[path = "../../../../crates/door-openrtb/src/translate.rs"]
mod translate;
#[path = "../../../../crates/door-openrtb/src/user.rs"]
mod user;

/// One auction in so many is surveyed, as by default.
const SURVEY_EVERY: u64 = 128;
const HOLD_MS: u64 = 2_000;
/// Money of each purse: more than all rounds can ask for.
const PURSE_MICROS: i64 = 1_000_000_000_000;

/// How far a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The body is read into a view.
    Read,
    /// The clock is read; the user is looked up.
    Profile,
    /// The request is translated to the auction's keys.
    Translate,
    /// One request in 128 is surveyed.
    Survey,
    /// The auction, with nobody who is paced, capped or out of money.
    Auction,
    /// The auction with plans, caps and purses; holds are made.
    Hold,
    /// Each hold is sealed into what its notices bring back.
    Seal,
    /// Bids are checked and written.
    Write,
}

impl Stage {
    pub(super) const ALL: [Stage; 8] = [
        Stage::Read,
        Stage::Profile,
        Stage::Translate,
        Stage::Survey,
        Stage::Auction,
        Stage::Hold,
        Stage::Seal,
        Stage::Write,
    ];
}

/// Everything a worker has, for a market.
pub(super) struct Bidder<'a> {
    pub(super) market: &'a CampaignIndex,
    /// Where requests end.
    pub(super) until: Stage,
    /// Requests with a bid.
    pub(super) bid: u64,
    settings: Settings,
    terms: Terms,
    keys: KeyRing,
    clock: NodeClock,
    now_ms: u64,
    paces: Vec<Pace>,
    purses: Purses,
    profiles: Profiles,
    why: Counters,
    room: Room,
}

#[derive(Default)]
struct Room {
    lists: Lists,
    scratch: Scratch,
    profile: Profile,
    native: native::NativeRoom,
    multipliers: Vec<i64>,
    held: Vec<Held>,
    choices: Vec<Choice>,
}

/// The market of a file's campaigns.
pub(super) fn market(budgets: &[Budget]) -> Result<CampaignIndex, String> {
    let terms = ExchangeTerms::of(&Config::default());
    let now = Instant::from_ms(NodeClock::new().now_ms());
    CampaignIndex::build(&terms, budgets, now).map_err(|errors| format!("{:?}", errors.first()))
}

impl<'a> Bidder<'a> {
    pub(super) fn new(
        market: &'a CampaignIndex,
        budgets: &[Budget],
        folder: &Path,
    ) -> Result<Bidder<'a>, String> {
        let profiles = Profiles::open(folder, &Options::default()).map_err(|e| e.to_string())?;
        let mut clock = NodeClock::new();
        let config = Config::default();
        // The ledger's slots are in the order of the file, the market's in the order of bids.
        let slots: HashMap<u64, u32> = budgets.iter().map(|b| b.spec.id).zip(0..).collect();
        market.index().put(|id| slots[&id]);
        Ok(Bidder {
            market,
            until: Stage::Write,
            bid: 0,
            settings: Settings {
                margin_ms: config.openrtb.margin_ms as u32,
                tmax_default_ms: config.openrtb.tmax_ms as u32,
                ..Settings::default()
            },
            terms: Terms::new(&config),
            keys: KeyRing::new(1, 1, [7; 16]),
            now_ms: clock.now_ms(),
            clock,
            paces: vec![Pace::OPEN; budgets.len()],
            purses: purses(budgets.len()),
            profiles,
            why: Counters::new(market.len()),
            room: Room::default(),
        })
    }

    /// What a door in front of it works by.
    pub(super) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// Time passes: all holds and reservations lapse.
    pub(super) fn lapse(&mut self) {
        self.now_ms += 3 * HOLD_MS;
        self.purses.turn(self.now_ms);
        while self.purses.next_message().is_some() {}
    }

    /// Translates a request and hands it on.
    pub(super) fn translated<R>(
        &mut self,
        request: &BidRequest<'_>,
        use_it: impl FnOnce(&gate_auction::Request<'_>, &CampaignIndex) -> R,
    ) -> R {
        let Bidder { market, terms, now_ms, room, .. } = self;
        let now = Instant::from_ms(*now_ms);
        let use_it = |keys: &gate_auction::Request<'_>| use_it(keys, market);
        let user = User { profile: &room.profile, privacy: terms.privacy(&request.top) };
        room.lists.with(request, market, terms, &user, now, use_it)
    }

    fn viewer(&mut self, request: &BidRequest<'_>) -> Viewer {
        let profile = &mut self.room.profile;
        let Some(user) = user::user_of(&request.top, self.terms.privacy(&request.top)) else {
            profile.clear();
            return Viewer::Unknown;
        };
        match self.profiles.read(user, self.now_ms, profile) {
            Presence::Hot | Presence::New => Viewer::Known(user),
            Presence::Cold => Viewer::Unknown,
        }
    }

    fn auction(&mut self, request: &BidRequest<'_>, viewer: Viewer) {
        let Bidder { market, until, terms, now_ms, purses, profiles, why, room, .. } = self;
        let Room { lists, scratch, profile, multipliers, native, held, choices } = room;
        held.clear();
        multipliers.clear();
        multipliers.extend(request.imps.iter().map(|imp| imp.multiplier_micros));
        let id_hash = id_hash(request.id);
        let mut desk = BidDesk {
            time: TimeLeft::new(std::time::Duration::MAX),
            campaign_index: market,
            money: Money { at: purses.at(*now_ms), paces: &mut self.paces, purses },
            profiles,
            profile,
            viewer,
            id_hash,
            multiplier_max: multipliers.iter().copied().max().unwrap_or(0),
            multipliers,
            currency: BidCurrency::own(self.settings.default_currency),
            test: request.top.test,
            held,
            imps: request.imps,
            native,
        };
        let now = Instant::from_ms(*now_ms);
        let user = User { profile: desk.profile, privacy: terms.privacy(&request.top) };
        lists.with(request, market, terms, &user, now, |keys| {
            if *until >= Stage::Survey && (id_hash >> 32).is_multiple_of(SURVEY_EVERY) {
                market.index().survey(keys, scratch, &desk, why);
            }
            match *until {
                Stage::Read | Stage::Profile | Stage::Translate | Stage::Survey => {
                    std::hint::black_box(keys.impressions.len());
                }
                Stage::Auction => market.index().auction(keys, scratch).fill(&mut (), choices),
                _ => market.index().auction(keys, scratch).fill(&mut desk, choices),
            }
        });
    }

    fn push_all(&self, request: &BidRequest<'_>, viewer: Viewer, answer: &mut Answer<'_>) {
        for held in &self.room.held {
            let choice = &held.choice;
            let imp = &request.imps[choice.impression];
            let offer = self.market.ad(choice.slot);
            let shown = &offer.creatives[choice.creative];
            let Some(hold) = held.hold else { continue };
            let note = Note {
                campaign: choice.campaign,
                user: viewer.key(),
                price_micros: choice.price.micros(),
                currency: None,
                multiplier_micros: imp.multiplier_micros,
                rate: self.market.rate(choice.slot),
                capped: !shown.caps.is_empty(),
                test: false,
                creative: shown.item as u32,
                key: 1,
                exchange: 0,
                kind: None,
                click: false,
                naming: Naming::SecondPrice,
            };
            let (start, [win, bill, loss, _]) = note.for_each_kind();
            let sealed = self.keys.seal_notes(&hold, &start, &[win, bill, loss]);
            if self.until < Stage::Write {
                std::hint::black_box(&sealed);
                continue;
            }
            let [win, bill, loss] = &sealed.ends;
            let id = u128::from(hold_id(&hold)) << 16 | choice.impression as u128;
            let pushed = answer.push(&Bid {
                id: BidId::Number(id),
                imp: choice.impression,
                deal: choice.deal,
                ad: &shown.ad,
                price_micros: choice.price.micros(),
                currency: self.settings.default_currency,
                floor_micros: Some(choice.floor.micros()),
                seat: &offer.seat,
                group: self.room.lists.group(choice.impression),
                cid: &offer.cid,
                width: choice.placement.width.into(),
                height: choice.placement.height.into(),
                notice_ids: NoticeIds {
                    start: &sealed.start,
                    ends: [win, bill, loss],
                    click: None,
                },
                expires_s: imp.expires_s,
                slot_in_pod: None,
            });
            assert_eq!(pushed, Ok(()), "a bid of the auction passes the check");
        }
    }
}

/// Purses with more money than the rounds can ask for.
fn purses(slots: usize) -> Purses {
    let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: HOLD_MS }, slots);
    for slot in 0..slots as u32 {
        let amount = Amount::new(PURSE_MICROS);
        let fill =
            ToWorker::Fill { slot, grant: 7, amount, valid_from_ms: 0, valid_until_ms: u64::MAX };
        purses.take(fill, 1_000_000);
    }
    purses
}

impl Gate for Bidder<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        const NONE: Outcome = Outcome::NoBid(NoBidReason::NoMatch);
        if self.until == Stage::Read || self.clock.now_ms() >= answer.deadline_ms() {
            return NONE;
        }
        let viewer = self.viewer(request);
        if self.until == Stage::Profile {
            return NONE;
        }
        self.auction(request, viewer);
        if self.until < Stage::Seal || self.room.held.is_empty() {
            return NONE;
        }
        self.push_all(request, viewer, answer);
        self.bid += 1;
        if self.until == Stage::Write { Outcome::Bids } else { NONE }
    }

    fn notice(&mut self, _: ConnId, _: &Notice<'_>) -> Noticed {
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, _: door_http::Refusal) {}

    fn count(&mut self, _: Event) {}
}
