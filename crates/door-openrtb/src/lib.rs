//! The OpenRTB door in a node: what a worker does between a bid request and its bids, and with the notices of these.
//!
//! ```text
//!   BidRequest ── Privacy::of ── Profiles::read ── Lists::with ──▶ gate_auction::Request
//!                                                 │ survey, one request in N: why not
//!                                                 ▼
//!   Auction::fill ◀── BidDesk: plan, caps, purse ─▶ a hold a bid
//!                                                 ▼
//!   note + hold ── KeyRing::seal_notes ──▶ Bid ── Answer::push: checked ──▶ JSON
//!
//!   notice ── KeyRing::open_note ── the profiles' log (billed, capped) ── bank ── 204
//! ```

#![forbid(unsafe_code)]

mod click;
mod clickers;
mod cost;
pub mod counts;
mod currency;
mod desk;
pub mod exchanges;
mod keys;
mod named;
mod native;
mod note;
mod overload;
mod surveys;
#[cfg(test)]
mod tests;
pub mod translate;
mod user;
mod viewer;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use door_transport::{ConnId, Out, Peer, Step};
use gate_auction::{Choice, Counters, Fates, Scratch};
use gate_profile::{Cap, Profile, Profiles};
use ledger::note::{NOTE_END_LEN, NOTE_LEN, NOTE_START_LEN, SEALED_END_LEN, SEALED_START_LEN};
use ledger::token::SEQ_MAX;
use ledger::{Action, Amount, Handled, Hold, KeyRing, Resolution};
use money::{CurrencyCode, Instant};
use openrtb::{
    Answer, Bid, BidId, BidRequest, Click, Clicked, Event, Front, Gate, MACRO_BILL, Mtype,
    NoBidForm, NoBidReason, Notice, NoticeIds, NoticeKind, NoticeStatus, Noticed, Outcome, Passed,
    PriceText, Redirect, Violation, asks_click,
};
use weir_budgets::campaign_index::{CampaignIndex, PinnedRate, ServedCreative};
use weir_config::config::Config;
use weir_config::doors::{hosts, http_limits};
use weir_door::{Door, DoorOutbox, Heard, Outcomes, RequestKind, WorkerCounters};
use weir_till::{DueQueue, Pending, Reply, Till, stages::WorkerStage};
use wire::Verdict;

use self::clickers::{Clickers, network};
use self::counts::{Counts, ExchangeCounts, Happening, SeenCounts};
use self::currency::BidCurrency;
pub use self::desk::hold_id;
use self::desk::{BidDesk, Held, TimeLeft, Viewer, give_back};
use self::exchanges::{ExchangeDesk, Exchanges, first_path};
use self::keys::Keys;
pub use self::keys::{Meaning, Meanings, NoMeanings};
use self::named::NamedPrices;
use self::native::NativeRoom;
use self::note::{Naming, Note};
use self::overload::Overload;
use self::surveys::Surveys;
use self::translate::{Lists, User, id_hash};
use self::viewer::{no_bid_reason, read_viewer};
use self::waiting::{Waiting, WaitingClick, WaitingNotice};

/// The door's settings, the same for all workers.
#[derive(Debug)]
pub struct BidTerms {
    settings: openrtb::Settings,
    exchanges: ExchangeDesk,
    /// The auction's.
    currency: CurrencyCode,
    named_prices: NamedPrices,
    survey_every: u64,
    waiting_max: usize,
    /// How long after a hold's deadline its notices are judged.
    judged_ms: u64,
    expires_s: u32,
    /// Where clicks lead that have no place of their own.
    click_fallback: Option<Redirect>,
    /// Clicks of one network that count, in so long a time; 0: all.
    clicks_per_address: u64,
}

impl BidTerms {
    /// Of a door that listens on an address.
    ///
    /// # Errors
    /// The part of the configuration that cannot be used.
    pub fn new(config: &Config, address: SocketAddr) -> Result<BidTerms, String> {
        let o = &config.openrtb;
        let small = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
        let url = match o.public_url.as_str() {
            "" if o.tls_cert.is_empty() => format!("http://{address}"),
            "" => format!("https://{address}"),
            url => url.trim_end_matches('/').to_string(),
        };
        let settings = openrtb::Settings {
            http: http_limits(config),
            hosts: hosts(&o.hosts, &url, address).map_err(|error| format!("hosts: {error}"))?,
            bid_paths: vec![first_path(o)],
            default_currency: o.currency,
            notice_base_url: url,
            margin_ms: small(o.margin_ms),
            tmax_default_ms: small(o.tmax_ms),
            loss_notices: o.loss_notices,
            address_header: o.address_header.clone(),
            no_bid: if o.no_bid_body { NoBidForm::Reason } else { NoBidForm::Empty },
            ..openrtb::Settings::default()
        };
        settings.check().map_err(|error| error.to_string())?;
        Ok(BidTerms {
            settings,
            exchanges: ExchangeDesk::new(config)?,
            currency: o.currency,
            named_prices: NamedPrices {
                factor_max: i64::try_from(o.price_factor_max).unwrap_or(i64::MAX),
                share_min_bp: i64::from(o.price_share_min_bp),
            },
            survey_every: o.survey_every,
            waiting_max: o.notices_waiting_max,
            judged_ms: config.ledger.billing_ms + config.ledger.late_ms,
            expires_s: small(config.ledger.billing_ms / 1_000),
            click_fallback: Redirect::to(&o.click_fallback),
            clicks_per_address: o.clicks_per_address,
        })
    }

    /// Where its exchanges are replaced.
    #[must_use]
    pub fn exchanges(&self) -> &ExchangeDesk {
        &self.exchanges
    }
}

/// One worker's side of the door.
pub struct OpenRtbDoor {
    door: openrtb::Door,
    /// What HTTP works in.
    room: door_http::Room,
    bidder: NodeBidder,
}

/// What stands behind the protocol.
struct NodeBidder {
    /// The door's place among the worker's doors.
    number: u8,
    facts: Arc<BidTerms>,
    /// What is in force, and which version of it.
    exchanges: (u64, Arc<Exchanges>),
    /// What each of them adds to keys.
    added: Vec<u64>,
    /// Whose request is read.
    of: usize,
    seen: Arc<SeenCounts>,
    profiles: Profiles,
    room: BidRoom,
    waiting: Pending<Waiting>,
    /// Those of `waiting` that wait for the profiles' log first.
    logged: DueQueue<u32>,
    /// Clicks of `waiting`, with their numbers: answered by then, sealed or not.
    hurried: DueQueue<(u32, u64)>,
    /// How many waited so far.
    clicks: u64,
    clickers: Clickers,
    keys: Keys,
    /// From where comes what is read now.
    network: u64,
    overload: Overload,
    why: Counters,
    surveys: Surveys,
    counts: Counts,
}

/// One connection of the door.
#[derive(Debug)]
pub struct BidConn {
    http: door_http::Session,
    /// Of who connects.
    network: u64,
}

/// The door with the worker's till, as the protocol asks it.
struct BidGate<'a> {
    openrtb: &'a mut NodeBidder,
    till: &'a mut Till,
}

/// What an auction works in, kept so that nothing is allocated a request.
#[derive(Default)]
struct BidRoom {
    lists: Lists,
    scratch: Scratch,
    profile: Profile,
    viewer: Viewer,
    currency: Option<BidCurrency>,
    multipliers: Vec<i64>,
    native: NativeRoom,
    held: Vec<Held>,
    choices: Vec<Choice>,
}

impl OpenRtbDoor {
    /// The door at this place of its set.
    pub fn new(
        number: u8,
        facts: Arc<BidTerms>,
        profiles: Profiles,
        meanings: Arc<dyn Meanings>,
        counters: &WorkerCounters,
    ) -> OpenRtbDoor {
        let door = openrtb::Door::new(facts.settings.clone());
        let seen: Arc<SeenCounts> = counters.own();
        seen.name_exchanges(&facts.exchanges);
        let mut door = OpenRtbDoor {
            door: door.expect("the settings were checked when the node started"),
            room: door_http::Room::default(),
            bidder: NodeBidder {
                number,
                exchanges: (0, facts.exchanges.in_force()),
                added: Vec::new(),
                of: 0,
                seen,
                profiles,
                room: BidRoom::default(),
                waiting: Pending::new(facts.waiting_max),
                logged: DueQueue::default(),
                hurried: DueQueue::default(),
                clicks: 0,
                clickers: Clickers::new(facts.clicks_per_address),
                keys: Keys::new(meanings),
                network: 0,
                overload: Overload::default(),
                why: Counters::new(0),
                surveys: Surveys::new(facts.survey_every),
                counts: Counts::default(),
                facts,
            },
        };
        door.adopt();
        door
    }

    /// Takes the exchanges that are in force by now.
    #[cold]
    fn adopt(&mut self) {
        let NodeBidder { facts, exchanges, added, of, keys, .. } = &mut self.bidder;
        *of = 0;
        // The version first: what is replaced meanwhile is taken again.
        *exchanges = (facts.exchanges.version(), facts.exchanges.in_force());
        let all = &exchanges.1.all;
        *added = all.iter().map(|one| keys.of_exchange(one.name)).collect();
        self.door.set_exchanges(all[1..].iter().map(|one| one.settings.clone()));
    }
}

impl OpenRtbDoor {
    /// What was counted of the campaigns before is forgotten.
    pub fn configured(&mut self, till: &Till) {
        self.bidder.why = Counters::new(till.snapshot.campaign_index.len());
    }
}

impl Door for OpenRtbDoor {
    const NAME: &'static str = "openrtb";
    const STAGES: &'static [WorkerStage] = &[
        WorkerStage::Http,
        WorkerStage::JsonRead,
        WorkerStage::UserProfile,
        WorkerStage::Translate,
        WorkerStage::Survey,
        WorkerStage::Auction,
        WorkerStage::SealNote,
        WorkerStage::AnswerWrite,
        WorkerStage::HttpWrite,
        WorkerStage::Notice,
    ];
    const ANSWERED: WorkerStage = WorkerStage::HttpWrite;
    const REQUESTS: &'static [RequestKind] = &[
        RequestKind {
            name: "bid_request",
            decides: true,
            stage: WorkerStage::JsonRead,
            count: |counters| counters.of::<SeenCounts>().get(Happening::Requests),
        },
        RequestKind {
            name: "notice",
            decides: false,
            stage: WorkerStage::Notice,
            count: |counters| counts::notices(counters.of()),
        },
    ];
    type Conn = BidConn;
    type Counts = SeenCounts;

    fn outcomes(counters: &[Arc<WorkerCounters>]) -> Outcomes {
        counts::outcomes(counters.iter().map(|counters| counters.of()))
    }

    fn opened(&mut self, _: &mut Till, _: ConnId, peer: Peer) -> BidConn {
        BidConn { http: door_http::Session::default(), network: network(peer) }
    }

    #[inline(always)]
    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut BidConn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        if self.bidder.facts.exchanges.version() != self.bidder.exchanges.0 {
            self.adopt();
        }
        let OpenRtbDoor { door, room, bidder } = self;
        bidder.network = conn.network;
        bidder.overload.arrived_ms = till.at.now_ms.saturating_sub(out.age_ms());
        let gate = &mut BidGate { openrtb: bidder, till };
        conn.http.received(id, input, out, room, &mut Front { door, gate })
    }

    /// The bank has sealed a notice, or refused it.
    fn resolved<S>(
        &mut self,
        till: &mut Till,
        reply: Reply,
        resolution: Resolution,
        outbox: &mut DoorOutbox<'_, '_, S, BidConn>,
    ) {
        let waited = self.bidder.waiting.close(reply.index);
        let mut gate = BidGate { openrtb: &mut self.bidder, till };
        match waited.expect("answered once, while it waits") {
            Waiting::Notice(waiting) => {
                let answer = openrtb::noticed(gate.noticed(&waiting, resolution));
                outbox.answer(waiting.conn, |conn, out| conn.http.answer(out, &answer));
            }
            Waiting::Click(WaitingClick { conn, status, .. }) => {
                gate.count_click(resolution);
                if let Some(status) = status {
                    let answer = openrtb::clicked(&status);
                    outbox.answer(conn, |conn, out| conn.http.answer(out, &answer));
                }
            }
        }
    }

    fn heard<S>(
        &mut self,
        till: &mut Till,
        heard: Heard<'_>,
        _: &mut DoorOutbox<'_, '_, S, BidConn>,
    ) {
        if let Heard::Configured = heard {
            self.configured(till);
        }
    }

    /// Sends to the bank what was waiting for the profiles' log, and sends on who clicked and has waited for a seal.
    fn turn<S>(&mut self, till: &mut Till, outbox: &mut DoorOutbox<'_, '_, S, BidConn>) {
        let NodeBidder { logged, profiles, hurried, waiting, counts, overload, .. } =
            &mut self.bidder;
        if overload.has_answers() {
            counts.add(Happening::AfterTmax, overload.leave(till.clock.now_ms()));
        }
        if !hurried.is_empty() {
            let steady_ms = till.clock.steady_ms();
            while let Some((index, number)) = hurried.next_due(steady_ms) {
                let Some(Waiting::Click(click)) = waiting.get_mut(index) else { continue };
                let Some(status) = click.status.take_if(|_| click.number == number) else {
                    continue;
                };
                counts.add(Happening::ClickHurried, 1);
                let answer = openrtb::clicked(&status);
                outbox.answer(click.conn, |conn, out| conn.http.answer(out, &answer));
            }
        }
        logged.reached(profiles.written());
        while let Some(index) = self.bidder.logged.next_due(0) {
            let waiting = self.bidder.waiting.get_mut(index).expect("it waits until it is closed");
            let Waiting::Notice(waiting) = waiting else { continue };
            let waiting = *waiting;
            BidGate { openrtb: &mut self.bidder, till }.send_notice(index, &waiting);
        }
    }

    fn wait_ms(&self, till: &mut Till) -> Option<u64> {
        let hurried = Some(&self.bidder.hurried).filter(|hurried| !hurried.is_empty())?;
        hurried.wait_ms(till.clock.steady_ms())
    }

    fn waiting(&self) -> usize {
        self.bidder.waiting.len()
    }

    fn publish(&mut self) {
        self.bidder.counts.publish(&self.bidder.seen);
    }

    fn fates(&self, till: &Till, campaign: u64) -> Option<Fates> {
        self.bidder.why.fates(till.snapshot.campaign_index.slot(campaign)?)
    }
}

impl NodeBidder {
    /// What is counted of the exchange whose request is read.
    #[inline]
    fn own_counts(&self) -> &ExchangeCounts {
        self.seen.of_exchange(self.exchanges.1.all[self.of].slot)
    }
}

impl BidGate<'_> {
    fn send_notice(&mut self, index: u32, waiting: &WaitingNotice) {
        let &WaitingNotice { action, hold, amount, note, .. } = waiting;
        let origin = note.origin();
        let reply = Reply { door: self.openrtb.number, index, entry: 0 };
        self.till.resolve(reply, None, (action, hold, amount), origin);
        self.till.urgent = true;
    }

    /// What a sealed notice means for the user's caps, and what its sender is told.
    fn noticed(&mut self, waiting: &WaitingNotice, resolution: Resolution) -> NoticeStatus {
        let Resolution { verdict, judged, .. } = resolution;
        let counts = &mut self.openrtb.counts;
        match judged {
            Handled::Now => {}
            Handled::Before => counts.add(Happening::Repeat, 1),
            Handled::ToppedUp => counts.add(Happening::ToppedUp, 1),
        }
        // Told to a loss notice, it is what became of the hold before.
        let is_news = (waiting.action, verdict) != (Action::Release, Verdict::Confirmed);
        match verdict {
            Verdict::Confirmed if !is_news => counts.add(Happening::LossAfterWin, 1),
            Verdict::SettledLate if judged == Handled::Now => counts.add(Happening::Late, 1),
            Verdict::Expired => counts.add(Happening::Expired, 1),
            Verdict::TooOld => counts.add(Happening::TooOld, 1),
            Verdict::Busy | Verdict::Journal => counts.add(Happening::Busy, 1),
            _ => {}
        }
        if judged == Handled::Now && is_news && waiting.note.capped {
            self.tell_profile(waiting, verdict);
        }
        match verdict {
            Verdict::TooOld | Verdict::BadAmount => NoticeStatus::Unknown,
            Verdict::Busy | Verdict::Journal => NoticeStatus::Busy,
            _ => NoticeStatus::Taken,
        }
    }

    fn tell_profile(&mut self, waiting: &WaitingNotice, verdict: Verdict) {
        let WaitingNotice { hold, note, .. } = waiting;
        let (profiles, id, now_ms) = (&self.openrtb.profiles, hold_id(hold), self.till.at.now_ms);
        match verdict {
            Verdict::Confirmed => {
                let until_ms = hold.deadline_ms + u64::from(self.till.facts.billing_ms);
                profiles.confirm(note.user, id, until_ms, now_ms);
            }
            Verdict::Released => {
                profiles.release(note.user, id);
            }
            _ => {}
        }
    }
}

/// All caps that count an impression of a bid, as its campaign stands now.
fn caps_of<'a>(campaign_index: &'a CampaignIndex, note: &Note) -> &'a [Cap] {
    let Some(slot) = campaign_index.slot(note.campaign) else { return &[] };
    let mut creatives = campaign_index.ad(slot).creatives.iter();
    let own = creatives.find(|shown| creative_number(shown.item) == note.creative);
    own.map_or(&[], |shown| &shown.caps)
}

/// A creative in a note: it must not be a position, which changes when campaigns do.
fn creative_number(item: u64) -> u32 {
    u32::try_from(item & u64::from(u32::MAX)).unwrap_or(0)
}

impl Gate for BidGate<'_> {
    fn now_ms(&self) -> u64 {
        self.till.at.now_ms
    }

    #[inline(always)]
    fn arrived_ms(&self) -> u64 {
        self.openrtb.overload.arrived_ms
    }

    #[inline(always)]
    fn clock_ms(&mut self) -> u64 {
        self.till.clock.now_ms()
    }

    #[inline(always)]
    fn of_exchange(&mut self, at: usize) -> bool {
        self.openrtb.of = at;
        let exchange = &self.openrtb.exchanges.1.all[at];
        let takes = exchange.rate.take(|| self.till.clock.steady_ms());
        if !takes {
            self.openrtb.own_counts().over_qps.add(1);
        }
        takes
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        self.openrtb.counts.add(Happening::Requests, 1);
        self.openrtb.own_counts().requests.add(1);
        // Requests of one wake-up wait for each other: only a fresh look at the clock tells how long.
        let now_ms = self.till.clock.now_ms();
        let left_ms = answer.deadline_ms().saturating_sub(now_ms);
        if left_ms <= self.openrtb.overload.slowest_ms(now_ms) {
            return Outcome::Shed;
        }
        let reason = self.auction(request, Duration::from_millis(left_ms));
        let outcome = match self.openrtb.room.held.is_empty() {
            true => Outcome::NoBid(reason),
            false => self.push_all(request, answer),
        };
        let took_ms = self.till.clock.now_ms().saturating_sub(now_ms);
        let NodeBidder { overload, exchanges, of, .. } = &mut *self.openrtb;
        let margin_ms = exchanges.1.all[*of].settings.margin_ms;
        let tmax_ms = answer.deadline_ms() + u64::from(margin_ms);
        overload.answered((outcome == Outcome::Bids).then_some(tmax_ms), took_ms);
        outcome
    }

    fn notice(&mut self, conn: ConnId, notice: &Notice<'_>) -> Noticed {
        let noticed = self.take(conn, notice);
        self.till.lap(WorkerStage::Notice, 1);
        noticed
    }

    fn click(&mut self, conn: ConnId, click: &Click<'_>) -> Clicked {
        self.take_click(conn, click)
    }

    fn is_starting(&self) -> bool {
        self.till.is_starting()
    }

    fn refused(&mut self, why: door_http::Refusal) {
        self.openrtb.counts.refusal(why);
    }

    #[inline(always)]
    fn passed(&mut self, boundary: Passed) {
        match boundary {
            Passed::Arrived => self.till.lap(WorkerStage::Http, 1),
            Passed::Read => self.till.lap(WorkerStage::JsonRead, 1),
            Passed::Written => self.till.lap(WorkerStage::AnswerWrite, 0),
            Passed::Answered => self.till.lap(WorkerStage::HttpWrite, 1),
        }
    }

    fn count(&mut self, event: Event) {
        let own = self.openrtb.own_counts();
        match event {
            Event::Bids(bids) => {
                own.answers.add(1);
                own.bids.add(bids as usize);
            }
            Event::NoBid(_) => own.no_bids.add(1),
            Event::Shed => own.shed.add(1),
            Event::BadRequest(_) => own.bad_requests.add(1),
            _ => {}
        }
        let counts = &mut self.openrtb.counts;
        match event {
            Event::Bids(bids) => {
                counts.add(Happening::Answers, 1);
                counts.add(Happening::Bids, bids);
            }
            Event::NoBid(reason) => counts.no_bid(reason),
            Event::Shed => counts.add(Happening::Shed, 1),
            Event::BadRequest(why) => counts.bad_request(why),
            Event::ImpsLeftOut(imps) => counts.add(Happening::ImpsLeftOut, imps),
            Event::UnknownFormat => counts.add(Happening::UnknownFormat, 1),
            Event::WrongHost => counts.add(Happening::WrongHost, 1),
            Event::FromPage => counts.add(Happening::FromPage, 1),
            Event::UnknownPath => counts.add(Happening::UnknownPath, 1),
            Event::WrongMethod => counts.add(Happening::WrongMethod, 1),
            Event::BadNotice(_) => counts.add(Happening::Forged, 1),
        }
    }
}

impl BidGate<'_> {
    /// Judges a notice; what is genuine is on its way to the bank.
    fn take(&mut self, conn: ConnId, notice: &Notice<'_>) -> Noticed {
        let BidGate { openrtb, till } = self;
        let counts = &mut openrtb.counts;
        let (hold, note) = match till.open_note(notice.id) {
            Ok((hold, note)) => (hold, Note::from_bytes(&note)),
            Err(why) => {
                counts.add(unknown(why), 1);
                return Noticed::Now(NoticeStatus::Unknown);
            }
        };
        if note.click || note.kind.is_some_and(|kind| kind != notice.kind) {
            counts.add(Happening::WrongKind, 1);
            return Noticed::Now(NoticeStatus::Unknown);
        }
        let (action, happening) = match notice.kind {
            NoticeKind::Win => (Action::Confirm, Happening::Win),
            NoticeKind::Bill => (Action::Settle, Happening::Bill),
            NoticeKind::Loss => (Action::Release, Happening::Loss),
        };
        counts.add(happening, 1);
        if let Some(slot) = openrtb.exchanges.1.slot(note.exchange) {
            let own = openrtb.seen.of_exchange(slot);
            match notice.kind {
                NoticeKind::Win => own.wins.add(1),
                NoticeKind::Bill => own.bills.add(1),
                NoticeKind::Loss => own.losses.add(1),
            }
        }
        if self.till.at.now_ms > hold.deadline_ms.saturating_add(openrtb.facts.judged_ms) {
            // Nothing is known of it any more; what is not booked must not be counted for the user either.
            counts.add(Happening::TooOld, 1);
            return Noticed::Now(NoticeStatus::Unknown);
        }
        if note.test {
            counts.add(Happening::TestNotice, 1);
            return Noticed::Now(NoticeStatus::Taken);
        }
        // One that is gone had them, where there is one.
        let exchange = openrtb.exchanges.1.of(note.exchange);
        let sent = exchange.is_none_or(|exchange| exchange.settings.loss_notices);
        let loses = sent && note.kind.is_some();
        if action == Action::Release && !loses {
            counts.add(Happening::LossIgnored, 1);
            return Noticed::Now(NoticeStatus::Taken);
        }
        if action == Action::Settle && notice.price == PriceText::Audit {
            counts.add(Happening::Audit, 1);
            return Noticed::Now(NoticeStatus::Taken);
        }
        if self.till.sealing().is_err() || openrtb.waiting.is_full() {
            counts.add(Happening::Busy, 1);
            return Noticed::Now(NoticeStatus::Busy);
        }
        let amount = match action {
            Action::Settle => self.billed(notice, &note, &hold),
            _ => Amount::ZERO,
        };
        self.take_notice(WaitingNotice { conn, action, hold, amount, note })
    }
}

fn unknown(why: Verdict) -> Happening {
    match why {
        Verdict::Foreign => Happening::Foreign,
        Verdict::TooOld => Happening::TooOld,
        _ => Happening::Forged,
    }
}

impl BidGate<'_> {
    /// Finds who bids and sets the money aside: `room.held`. Returns why nobody does, if nobody does.
    fn auction(&mut self, request: &BidRequest<'_>, left: Duration) -> NoBidReason {
        let BidGate { openrtb, till } = self;
        // Of the request before.
        openrtb.room.held.clear();
        let Ok((snapshot, money, probes)) = till.auction() else {
            return NoBidReason::Technical;
        };
        let NodeBidder { facts, exchanges, of, profiles, room, why, surveys, counts, .. } = openrtb;
        let terms = &exchanges.1.all[*of].terms;
        let BidRoom {
            lists,
            scratch,
            profile,
            viewer,
            currency,
            multipliers,
            native,
            held,
            choices,
        } = room;
        // Without one in common the auction finds that no campaign may bid.
        *currency = terms.bid_currency(&request.top);
        let (campaign_index, now_ms) = (&*snapshot.campaign_index, money.at.now_ms);
        let privacy = terms.privacy(&request.top);
        *viewer = read_viewer(request, privacy, profiles, profile, now_ms, counts);
        probes.lap(WorkerStage::UserProfile, 1);
        multipliers.clear();
        multipliers.extend(request.imps.iter().map(|imp| imp.multiplier_micros));
        let test = request.top.test;
        counts.add(Happening::Tests, u32::from(test));
        let id_hash = id_hash(request.id);
        let mut desk = BidDesk {
            campaign_index,
            money,
            profiles,
            profile,
            viewer: *viewer,
            id_hash,
            multiplier_max: multipliers.iter().copied().max().unwrap_or(0),
            multipliers,
            currency: currency.unwrap_or(BidCurrency::own(facts.currency)),
            time: TimeLeft::new(left),
            test,
            held,
            imps: request.imps,
            native,
        };
        let now = Instant::from_ms(now_ms);
        let user = User { profile: desk.profile, privacy };
        lists.with(request, campaign_index, terms, &user, now, |keys| {
            probes.lap(WorkerStage::Translate, 1);
            why.auctioned(keys.impressions.len());
            if surveys.is_due(id_hash, now_ms) {
                let began = std::time::Instant::now();
                counts.add(Happening::Surveys, 1);
                let index = campaign_index.index();
                let part = surveys.part(index.survey_parts());
                index.survey_part(part, keys, scratch, &desk, why);
                surveys.took(now_ms, began.elapsed());
                probes.lap(WorkerStage::Survey, 1);
            }
            let mut auction = campaign_index.index().auction(keys, scratch);
            auction.fill(&mut desk, choices);
            let reason = no_bid_reason(auction.refusal(), privacy);
            probes.lap(WorkerStage::Auction, 1);
            reason
        })
    }

    /// Writes the bids. One that breaks a rule of its request, which is a bug of ours, does not leave and holds no money, nor do the
    /// others of its pod.
    fn push_all(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        let start = answer.mark();
        while let Err((at, violation)) = self.push_each(request, answer) {
            answer.undo_to(start);
            self.tell_violation(request, violation);
            self.drop_bid(at);
        }
        match self.openrtb.room.held.is_empty() {
            true => Outcome::NoBid(NoBidReason::SelfCheck),
            false => Outcome::Bids,
        }
    }

    /// Fails with the place of the first bid that is wrong.
    fn push_each(
        &mut self,
        request: &BidRequest<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), (usize, Violation)> {
        for at in 0..self.openrtb.room.held.len() {
            let held = self.openrtb.room.held[at];
            self.push(request, at, &held, answer).map_err(|violation| (at, violation))?;
        }
        Ok(())
    }

    #[cold]
    fn tell_violation(&mut self, request: &BidRequest<'_>, violation: Violation) {
        let times = self.openrtb.counts.violation(violation);
        // Now and then: a log line a request would be a way to fill a disk.
        if times.is_power_of_two() {
            let (request, violation) = (request.id, violation.name());
            tracing::warn!(request, violation, times, "a bid could not be sent");
        }
    }

    /// Gives back what is held for a bid and for the others of its pod.
    #[cold]
    fn drop_bid(&mut self, at: usize) {
        let BidGate { openrtb, till } = self;
        let (snapshot, mut money, _) = till.parts();
        let BidRoom { held, viewer, lists, .. } = &mut openrtb.room;
        let group = lists.group(held[at].choice.impression);
        for place in (0..held.len()).rev() {
            let same_pod = || lists.group(held[place].choice.impression) == group;
            if place == at || group.is_some() && same_pod() {
                let held = held.remove(place);
                give_back(&held, &snapshot.campaign_index, &mut money, &openrtb.profiles, *viewer);
            }
        }
    }

    fn push(
        &mut self,
        request: &BidRequest<'_>,
        position: usize,
        held: &Held,
        answer: &mut Answer<'_>,
    ) -> Result<(), Violation> {
        let hold = held.hold.unwrap_or_else(|| self.no_hold(request, position));
        let Till { keys, snapshot, probes, at, .. } = &mut *self.till;
        let NodeBidder { facts, exchanges, added, of, room, keys: names, .. } = &mut *self.openrtb;
        let (facts, room, exchange) = (&*facts, &*room, &exchanges.1.all[*of]);
        let (choice, imp) = (&held.choice, &request.imps[held.choice.impression]);
        let ad = snapshot.campaign_index.ad(choice.slot);
        let shown = &ad.creatives[choice.creative];
        // Nothing is booked of a test.
        let of = (exchange.name, added[*of]);
        let key = held.hold.map_or(0, |_| names.key(of, &request.top, &shown.id, at.now_ms));
        let currency = room.currency.unwrap_or(BidCurrency::own(facts.currency));
        let price_micros = currency.price_micros(choice.price, choice.floor);
        let sent = (price_micros, Some(currency.code()).filter(|code| *code != facts.currency));
        let rate = currency.rate(snapshot.campaign_index.rate(choice.slot));
        let rate = rate.expect("who cannot bid in the currency does not");
        let note = note_of(held, shown, room.viewer.key(), (imp.multiplier_micros, sent, rate));
        let naming = Naming::of(request, imp, choice.deal);
        let note = Note { naming, key, exchange: exchange.mark, ..note };
        // Where the notice's address will stand is known once there is markup.
        let mut send = |tells_bill: bool, asks_click: bool, made: Option<&str>| {
            let naming = if tells_bill { Naming::Markup } else { note.naming };
            let (start, ends) = Note { naming, ..note }.for_each_kind();
            let (start, ends) = seal(keys, &hold, (&start, &ends), asks_click);
            let [win, bill, loss, click] = &ends;
            probes.lap(WorkerStage::SealNote, 1);
            let bid = Bid {
                id: BidId::Number(bid_id(&hold, position)),
                imp: choice.impression,
                deal: choice.deal,
                ad: &shown.ad,
                price_micros,
                currency: currency.code(),
                floor_micros: Some(currency.floor_micros(choice.floor)),
                seat: exchange.terms.seat().unwrap_or(&ad.seat),
                group: room.lists.group(choice.impression),
                cid: &ad.cid,
                width: choice.placement.width.into(),
                height: choice.placement.height.into(),
                notice_ids: NoticeIds {
                    start: &start,
                    ends: [win, bill, loss],
                    click: asks_click.then_some(click),
                },
                expires_s: Some(imp.expires_s.map_or(facts.expires_s, |s| s.min(facts.expires_s))),
                slot_in_pod: slot_in_pod(imp, shown.ad.mtype()),
            };
            match made {
                None => answer.push(&bid),
                Some(markup) => answer.push_made(&bid, markup),
            }
        };
        let pushed = match imp.native.zip(shown.native.as_ref()) {
            None => send(shown.ad.tells_bill(), shown.ad.asks_click(), None),
            Some((native, set)) => room
                .native
                .make(&native, set, |markup| {
                    send(markup.contains(MACRO_BILL), asks_click(markup), Some(markup))
                })
                .unwrap_or(Err(Violation::Markup)),
        };
        probes.lap(WorkerStage::AnswerWrite, 1);
        pushed
    }

    /// What the notices of a test bid name: nothing. No grant is 0; the number only tells notes apart, which are enciphered by
    /// it.
    fn no_hold(&self, request: &BidRequest<'_>, position: usize) -> Hold {
        let (node, deadline_ms) = (self.till.facts.node, self.till.at.deadline_ms);
        let number = id_hash(request.id).wrapping_add(position as u64);
        let seq = u32::try_from(number & u64::from(SEQ_MAX)).unwrap_or(SEQ_MAX);
        Hold { grant: 0, seq, node, deadline_ms, amount: Amount::ZERO }
    }

    /// What a billing notice books: the price that it names, or where that cannot be meant the one that was sent.
    fn billed(&mut self, notice: &Notice<'_>, note: &Note, hold: &Hold) -> Amount {
        let NodeBidder { facts, counts, .. } = &mut *self.openrtb;
        let sent = note.price_micros;
        let currency = note.currency.unwrap_or(facts.currency);
        let own_currency = notice.currency.is_none_or(|found| found == currency);
        let price = match notice.price {
            PriceText::Micros(_) if !own_currency => {
                counts.add(Happening::OtherCurrency, 1);
                sent
            }
            PriceText::Micros(price) => match facts.named_prices.judge(note.naming, sent, price) {
                Ok(()) => {
                    counts.add(Happening::OverPrice, u32::from(price > sent));
                    price
                }
                Err(wrong) => {
                    counts.add(wrong, 1);
                    sent
                }
            },
            PriceText::Absurd => {
                counts.add(Happening::OddPrice, 1);
                sent
            }
            PriceText::Encoded(_) => {
                counts.add(Happening::EncodedPrice, 1);
                sent
            }
            PriceText::Missing | PriceText::Empty | PriceText::Literal | PriceText::Audit => {
                counts.add(Happening::NoPrice, 1);
                sent
            }
        };
        note.cost(price, hold)
    }

    /// A genuine notice goes to the bank; a billed impression that somebody counts is written down first.
    fn take_notice(&mut self, waiting: WaitingNotice) -> Noticed {
        let WaitingNotice { action, note, hold, .. } = waiting;
        let NodeBidder { waiting: all, logged, profiles, counts, .. } = &mut *self.openrtb;
        let index = all.open(Waiting::Notice(waiting)).expect("it was asked whether there is room");
        if action != Action::Settle || !note.capped {
            self.send_notice(index, &waiting);
            return Noticed::Later;
        }
        let caps = caps_of(&self.till.snapshot.campaign_index, &note);
        match profiles.count(note.user, hold_id(&hold), caps, self.till.at.now_ms) {
            Ok(counted) => {
                logged.push_numbered(index, counted.seq());
                Noticed::Later
            }
            Err(_) => {
                all.close(index);
                counts.add(Happening::CapBusy, 1);
                Noticed::Now(NoticeStatus::Busy)
            }
        }
    }
}

/// What a bid costs its budget at the price that was sent, and what it counts as in reports, as its note says.
pub fn sent_cost_and_key(note: &[u8; NOTE_LEN], hold: &Hold) -> (Amount, u64) {
    let note = Note::from_bytes(note);
    (note.cost(note.price_micros, hold), note.key)
}

/// The note of a bid, before it is said of which kind. `terms`: for how many people, at which price and currency, at which rate.
fn note_of(
    held: &Held,
    shown: &ServedCreative,
    user: u64,
    terms: (i64, (i64, Option<CurrencyCode>), PinnedRate),
) -> Note {
    let (multiplier_micros, (price_micros, currency), rate) = terms;
    Note {
        campaign: held.choice.campaign,
        user,
        price_micros,
        currency,
        multiplier_micros,
        rate,
        capped: !shown.caps.is_empty(),
        test: held.hold.is_none(),
        creative: creative_number(shown.item),
        key: 0,
        exchange: 0,
        kind: None,
        click: false,
        naming: Naming::Earlier,
    }
}

/// Seals a bid's notes: those of notices, and where it is asked for that of a click, behind them.
fn seal(
    keys: &KeyRing,
    hold: &Hold,
    (start, ends): (&[u8; NOTE_START_LEN], &[[u8; NOTE_END_LEN]; 4]),
    asks_click: bool,
) -> ([u8; SEALED_START_LEN], [[u8; SEALED_END_LEN]; 4]) {
    if asks_click {
        let sealed = keys.seal_notes(hold, start, ends);
        return (sealed.start, sealed.ends);
    }
    let [win, bill, loss, _] = *ends;
    let sealed = keys.seal_notes(hold, start, &[win, bill, loss]);
    let [win, bill, loss] = sealed.ends;
    (sealed.start, [win, bill, loss, [0; SEALED_END_LEN]])
}

/// One of a kind in the node: the hold's number. Bids of tests have no hold, so their place in the answer tells them
/// apart.
fn bid_id(hold: &Hold, position: usize) -> u128 {
    u128::from(hold_id(hold)) << 16 | (position as u128 & 0xffff)
}

/// Where in its pod a bid may run: a banner of the same impression is in none.
fn slot_in_pod(imp: &openrtb::Imp<'_>, mtype: Mtype) -> Option<i8> {
    let stream = match mtype {
        Mtype::Video => imp.video?,
        Mtype::Audio => imp.audio?,
        Mtype::Banner | Mtype::Native => return None,
    };
    // An ad of a dynamic pod may run anywhere in it.
    let slot = stream.slot_in_pod.filter(|_| stream.pod_duration_s.is_none());
    slot.and_then(|slot| i8::try_from(slot).ok())
}
