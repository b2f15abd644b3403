//! What the door counts, a worker.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use counters::{Counter, Definition, counters};
use door_http::Refusal;
use openrtb::{BadRequest, NoBidReason, PrivacyCause, Violation};

use super::exchanges::{EXCHANGES_MAX, ExchangeDesk};

/// Names of [`BadRequest`], in the order of their counters.
const BAD_REQUESTS: [&str; 7] =
    ["json", "not_an_object", "id", "imps", "imp_id", "field", "list_too_long"];

macro_rules! happenings {
    ($($name:ident = $word:literal, $doc:literal $(, $method:ident($($arg:expr),*))*;)*) => {
        /// What else happens.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Happening { $(#[doc = $doc] $name,)* }

        impl Happening {
            /// What each happening's counter is, in the order of their numbers.
            pub const DEFINITIONS: [Definition; [$($word),*].len()] =
                [$(Definition::new("doors.openrtb", $word, $doc)$(.$method($($arg),*))*),*];
        }
    };
}

happenings! {
    Requests = "requests", "Bid requests that were read.", elsewhere("weir_requests");
    Answers = "answers_with_bids", "Answers with at least one bid.", elsewhere("weir_decisions");
    Bids = "bids", "Bids in them.";
    Shed = "shed", "Bid requests that waited too long for an answer in time; answered 204. Most were not parsed; the others are in `requests`, too.", elsewhere("weir_decisions");
    AfterTmax = "answers_after_tmax", "Answers with bids that were handed to the socket after the request's `tmax`.";
    Tests = "test_requests", "Requests that said `test`.";
    Surveys = "surveys", "Requests that were surveyed for why-not.";
    ImpsLeftOut = "imps_left_out", "Impressions beyond the limit, not read.";
    UnknownFormat = "unknown_format", "Bid requests whose `Content-Type` is not JSON; answered 415.";
    WrongHost = "wrong_host", "Requests under a `Host` that is not one of the door's names; answered 421.";
    FromPage = "from_page", "Bid requests that a browser sent for a page; answered 403.";
    UnknownPath = "unknown_path", "Requests for a path that the door does not have.";
    WrongMethod = "wrong_method", "Methods that a path does not take.";
    NoUser = "no_user", "Requests without a user that may be told from others.";
    ColdUser = "cold_user", "Requests whose user's profile was still on the disk.";
    Win = "win_notices", "Genuine win notices.";
    Bill = "billing_notices", "Genuine billing notices.";
    Loss = "loss_notices", "Genuine loss notices.";
    Repeat = "repeated_notices", "Notices that repeated an earlier one; nothing was booked.";
    ToppedUp = "topped_up_notices", "Billing notices with a higher price than what was booked for their hold; the difference was booked.";
    TestNotice = "test_notices", "Notices of bids on test requests; nothing was booked.";
    Audit = "audit_notices", "Billing notices with `AUDIT` for a price; nothing was booked.";
    Late = "late_notices", "Billing notices that came after their hold was gone; booked as late.";
    Expired = "expired_notices", "Win and loss notices that came after their hold was gone.";
    Forged = "forged_notices", "Notices with an id that this node did not make.";
    WrongKind = "wrong_kind_notices", "Notices with the id of another kind of notice; answered 404.";
    LossAfterWin = "loss_after_win", "Loss notices of bids that were won; nothing was released.";
    LossIgnored = "loss_ignored", "Loss notices that release nothing: `openrtb.loss_notices` is off, or the bid is of an earlier version.";
    Foreign = "foreign_notices", "Notices of another node's bids.";
    TooOld = "too_old_notices", "Notices of bids that nothing is known of any more.";
    Busy = "busy_notices", "Notices answered 429: too many wait, or nothing can be sealed.";
    NoPrice = "price_missing", "Billing notices without a price, or with the macro itself; booked at the bid's price.";
    OddPrice = "price_absurd", "Billing notices with a price that cannot be meant; booked at the bid's price.";
    EncodedPrice = "price_encoded", "Billing notices with a price that cannot be read; booked at the bid's price.";
    OtherCurrency = "price_other_currency", "Billing notices in another currency than the bid; booked at the bid's price.";
    OverPrice = "price_above_bid", "Billing notices with a price above the bid; booked as they say.";
    LowPrice = "price_too_low", "Billing notices of second-price auctions with a price below `openrtb.price_share_min_bp` of the bid; booked at the bid's price.";
    FirstPrice = "price_not_bid", "Billing notices of first-price auctions with a price that is not near the bid; booked at the bid's price.";
    MarkupPrice = "price_in_markup", "Billing notices from markup with another price than the bid; booked at the bid's price.";
    Click = "clicks", "Genuine clicks, counted or not: `/n/click/`, `/n/track/`.";
    ClickTaken = "clicks_taken", "Clicks that count, with their impression: now, or once it is billed.";
    ClickRepeat = "click_repeats", "Clicks that were taken before; sent on, not counted.";
    ClickCrawler = "click_crawlers", "Clicks of programs, by their `User-Agent` or without one; sent on, not counted.";
    ClickPrefetch = "click_prefetches", "Clicks of browsers that load ahead (`Purpose`, `Sec-Purpose`); sent on, not counted.";
    ClickHead = "click_heads", "Clicks with `HEAD`; sent on, not counted.";
    ClickTest = "click_tests", "Clicks on bids of test requests; sent on, not counted.";
    ClickTooOld = "clicks_too_old", "Clicks on bids that nothing is known of any more; sent on, not counted.";
    ClickCrowd = "clicks_crowded", "Clicks beyond `openrtb.clicks_per_address` of one address; sent on, not counted.";
    ClickUnsealed = "clicks_unsealed", "Clicks while nothing can be sealed, or too many wait; sent on, not counted.";
    ClickGone = "clicks_gone", "Clicks on creatives that are gone or lead nowhere; answered 404, or `openrtb.click_fallback`.";
    ClickHurried = "clicks_hurried", "Clicks answered before their seal, which took longer than 100 ms.";
    CapBusy = "profile_log_full", "Billing notices answered 429: the profiles' log is behind.";
}

counters! {
    /// What is counted of each exchange: it stays when the exchange goes, until the node ends.
    #[derive(Debug, Default)]
    pub struct ExchangeCounts of Counter, in "doors.openrtb" {
        requests: "The exchange's bid requests that were read.", by("exchange"), name("exchanges.*.requests"), family("weir_exchange_requests");
        answers: "Its answers with at least one bid.", by("exchange"), name("exchanges.*.answers_with_bids"), family("weir_exchange_answers_with_bids");
        bids: "Bids in them.", by("exchange"), name("exchanges.*.bids"), family("weir_exchange_bids");
        no_bids: "Its requests without a bid.", by("exchange"), name("exchanges.*.no_bids"), family("weir_exchange_no_bids");
        bad_requests: "Its requests answered 400.", by("exchange"), name("exchanges.*.bad_requests"), family("weir_exchange_bad_requests");
        over_qps: "Its requests beyond `qps_max`; not read, answered 204.", by("exchange"), name("exchanges.*.over_qps"), family("weir_exchange_over_qps");
        shed: "Its requests that waited too long for an answer in time; answered 204.", by("exchange"), name("exchanges.*.shed"), family("weir_exchange_shed");
        wins: "Genuine win notices of its bids.", by("exchange"), name("exchanges.*.win_notices"), family("weir_exchange_win_notices");
        bills: "Genuine billing notices of its bids.", by("exchange"), name("exchanges.*.billing_notices"), family("weir_exchange_billing_notices");
        losses: "Genuine loss notices of its bids.", by("exchange"), name("exchanges.*.loss_notices"), family("weir_exchange_loss_notices");
        clicks: "Genuine clicks on its bids, counted or not.", by("exchange"), name("exchanges.*.clicks"), family("weir_exchange_clicks");
    }
}

const SIZES: [usize; 6] = [
    Happening::DEFINITIONS.len(),
    NoBidReason::ALL.len(),
    BAD_REQUESTS.len(),
    Refusal::ALL.len(),
    Violation::ALL.len(),
    PrivacyCause::ALL.len(),
];
const TOTAL: usize = SIZES[0] + SIZES[1] + SIZES[2] + SIZES[3] + SIZES[4] + SIZES[5];
const NO_BID: usize = SIZES[0];
const BAD_REQUEST: usize = NO_BID + SIZES[1];
const REFUSAL: usize = BAD_REQUEST + SIZES[2];
const VIOLATION: usize = REFUSAL + SIZES[3];
const WITHHELD: usize = VIOLATION + SIZES[4];

/// Counters of one worker.
#[derive(Debug)]
pub struct Counts([u64; TOTAL]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; TOTAL])
    }
}

impl Counts {
    /// It happened so often.
    #[inline]
    pub fn add(&mut self, happening: Happening, count: u32) {
        self.0[happening as usize] += u64::from(count);
    }

    #[inline]
    pub(crate) fn no_bid(&mut self, reason: NoBidReason) {
        self.0[NO_BID + reason as usize] += 1;
    }

    pub(crate) fn bad_request(&mut self, why: BadRequest) {
        let at = BAD_REQUESTS.iter().position(|name| *name == why.name());
        self.0[BAD_REQUEST + at.expect("every reason is listed")] += 1;
    }

    pub(crate) fn refusal(&mut self, why: Refusal) {
        self.0[REFUSAL + why as usize] += 1;
    }

    #[inline]
    pub(crate) fn withheld(&mut self, cause: PrivacyCause) {
        self.0[WITHHELD + cause as usize] += 1;
    }

    /// Returns how often it happened by now.
    pub(crate) fn violation(&mut self, what: Violation) -> u64 {
        let count = &mut self.0[VIOLATION + what as usize];
        *count += 1;
        *count
    }

    /// Lets other threads see them.
    pub fn publish(&self, seen: &SeenCounts) {
        seen.0.iter().zip(&self.0).for_each(|(seen, count)| seen.store(*count, Relaxed));
    }
}

/// `Counts` for other threads.
#[derive(Debug)]
pub struct SeenCounts(Vec<AtomicU64>, EachExchange);

#[derive(Debug, Default)]
struct EachExchange {
    /// By place of an exchange.
    counts: Vec<ExchangeCounts>,
    /// Who knows their names.
    desk: OnceLock<ExchangeDesk>,
}

impl SeenCounts {
    /// How often it happened, as far as it was published.
    pub fn get(&self, happening: Happening) -> u64 {
        self.0[happening as usize].load(Relaxed)
    }

    /// What is counted of the exchange at a place.
    #[inline]
    pub(crate) fn of_exchange(&self, slot: usize) -> &ExchangeCounts {
        &self.1.counts[slot]
    }

    pub(crate) fn name_exchanges(&self, desk: &ExchangeDesk) {
        self.1.desk.get_or_init(|| desk.clone());
    }
}

/// What each exchange counted, by name: the sum of all workers, in the order of [`ExchangeCounts::DEFINITIONS`].
pub fn by_exchange<'a>(
    workers: impl Iterator<Item = &'a SeenCounts> + Clone,
) -> Vec<(&'static str, Vec<u64>)> {
    let Some(desk) = workers.clone().find_map(|seen| seen.1.desk.get()) else { return Vec::new() };
    let sums = |slot: usize| {
        let mut sums = vec![0_u64; ExchangeCounts::DEFINITIONS.len()];
        for seen in workers.clone() {
            let values = seen.of_exchange(slot).values();
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        sums
    };
    desk.names().into_iter().enumerate().map(|(slot, name)| (name, sums(slot))).collect()
}

impl Default for SeenCounts {
    fn default() -> SeenCounts {
        let counts = (0..EXCHANGES_MAX).map(|_| ExchangeCounts::default()).collect();
        let each = EachExchange { counts, desk: OnceLock::new() };
        SeenCounts((0..TOTAL).map(|_| AtomicU64::new(0)).collect(), each)
    }
}

/// What became of requests, and how often, as far as it was published: a bid, or why there was none.
pub(crate) fn outcomes<'a>(
    workers: impl Iterator<Item = &'a SeenCounts> + Clone,
) -> Vec<(&'static str, u64)> {
    let sum = |from: usize, to: usize| {
        let counts = workers.clone().flat_map(|seen| &seen.0[from..to]);
        counts.map(|count| count.load(Relaxed)).fold(0, u64::saturating_add)
    };
    let one = |at: usize| sum(at, at + 1);
    let mut outcomes = vec![("bid", one(Happening::Answers as usize))];
    let reasons = NoBidReason::ALL.iter();
    outcomes.extend(reasons.map(|reason| (reason.name(), one(NO_BID + *reason as usize))));
    outcomes.push(("shed", one(Happening::Shed as usize)));
    outcomes.push(("bad_request", sum(BAD_REQUEST, REFUSAL)));
    outcomes.push(("refused_http", sum(REFUSAL, VIOLATION)));
    outcomes
}

/// Notices of all kinds, as far as they were published.
pub(crate) fn notices(seen: &SeenCounts) -> u64 {
    let kinds = [Happening::Win, Happening::Bill, Happening::Loss];
    kinds.map(|kind| seen.get(kind)).into_iter().fold(0, u64::saturating_add)
}

/// The sum of all workers' happenings, in the order of [`Happening::DEFINITIONS`].
pub fn happenings<'a>(workers: impl Iterator<Item = &'a SeenCounts>) -> Vec<u64> {
    let mut sums = vec![0_u64; Happening::DEFINITIONS.len()];
    for seen in workers {
        sums.iter_mut().zip(&seen.0).for_each(|(sum, seen)| *sum += seen.load(Relaxed));
    }
    sums
}

/// A kind of thing that the door counts by its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasons {
    /// Requests without a bid.
    NoBids,
    /// Requests that could not be read.
    BadRequests,
    /// What the HTTP session refused.
    Refusals,
    /// Bids of ours that failed their own check.
    Violations,
    /// Requests of whose data something was not used.
    Withheld,
}

impl Reasons {
    /// The sum of all workers, by reason.
    pub fn sums<'a>(
        self,
        workers: impl Iterator<Item = &'a SeenCounts> + Clone,
    ) -> Vec<(&'static str, u64)> {
        let (from, names): (usize, Vec<&'static str>) = match self {
            Reasons::NoBids => (NO_BID, NoBidReason::ALL.iter().map(|why| why.name()).collect()),
            Reasons::BadRequests => (BAD_REQUEST, BAD_REQUESTS.to_vec()),
            Reasons::Refusals => (REFUSAL, Refusal::ALL.iter().map(|why| why.name()).collect()),
            Reasons::Violations => {
                (VIOLATION, Violation::ALL.iter().map(|what| what.name()).collect())
            }
            Reasons::Withheld => {
                (WITHHELD, PrivacyCause::ALL.iter().map(|cause| cause.name()).collect())
            }
        };
        let sum = |at: usize| {
            let counts = workers.clone().map(|seen| seen.0[at].load(Relaxed));
            counts.fold(0, u64::saturating_add)
        };
        names.into_iter().zip(from..).map(|(name, at)| (name, sum(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_comes_out_under_its_name() {
        let (mut counts, seen) = (Counts::default(), SeenCounts::default());
        counts.add(Happening::Bids, 3);
        counts.add(Happening::CapBusy, 1);
        counts.no_bid(NoBidReason::Busy);
        for why in [BadRequest::Json, BadRequest::ListTooLong { field: "bcat" }] {
            counts.bad_request(why);
        }
        counts.refusal(Refusal::ALL[Refusal::ALL.len() - 1]);
        counts.violation(Violation::ALL[0]);
        counts.withheld(PrivacyCause::DoNotTrack);
        counts.publish(&seen);
        let both = [&seen, &seen];
        let sums = happenings(both.into_iter());
        let named = |name| Happening::DEFINITIONS.iter().position(|one| one.name == name);
        assert_eq!(
            (sums[named("bids").unwrap()], sums[named("profile_log_full").unwrap()]),
            (6, 2)
        );
        assert_eq!(seen.get(Happening::Bids), 3);
        let counted = |reasons: Reasons| -> Vec<(&str, u64)> {
            reasons.sums(both.into_iter()).into_iter().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(counted(Reasons::NoBids), [("busy", 2)]);
        assert_eq!(counted(Reasons::BadRequests), [("json", 2), ("list_too_long", 2)]);
        assert_eq!(counted(Reasons::Refusals).len(), 1);
        assert_eq!(counted(Reasons::Violations), [(Violation::ALL[0].name(), 2)]);
        assert_eq!(counted(Reasons::Withheld), [("dnt", 2)]);
        let outcomes = outcomes([&seen, &seen].into_iter());
        let of = |name| outcomes.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((of("busy"), of("bad_request"), of("refused_http"), of("bid")), (2, 4, 2, 0));
    }
}
