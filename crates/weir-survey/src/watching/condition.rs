//! How a budget stands and why: a table of rules, of which the first that holds is told.

use gate_auction::Fates;
use ledger::{Amount, Status as Configured};
use money::Instant;
use watch::model::{Reason, Status};
use weir_node::bank::rows::SurveyRow;
use wire::Verdict;

use super::short::Short;
use super::tallies::{Counts, Top};
use crate::pace_text::{self, Under};

/// What the rules look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) now: Instant,
    pub(super) row: &'a SurveyRow,
    /// Of the budgets above it.
    pub(super) above: Above,
    /// Of the last ten seconds.
    pub(super) recent: Counts,
    pub(super) top: Option<Top>,
    /// Whose limit it was that asks for more than is left met, if that is what most met.
    pub(super) short: Short,
    /// Why it is behind its plan, if it is.
    pub(super) under: Option<Under>,
    /// What of the node itself is amiss.
    pub(super) amiss: Amiss,
}

/// What of the node itself keeps its budgets from spending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amiss {
    /// No set of budgets was taken in this run: every ask is answered with `busy`.
    pub(super) none_in_force: bool,
    /// The journal cannot seal.
    pub(super) journal: bool,
}

/// How the budgets above one stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Above {
    /// One is paused, ended, or outside its flight.
    pub(super) closed: bool,
    /// One has nothing left.
    pub(super) drained: bool,
    /// One has nothing left of its day.
    pub(super) day_over: bool,
}

impl Above {
    /// What a budget and those above it are for its children.
    pub(super) fn and(self, row: &SurveyRow, now: Instant) -> Above {
        Above {
            closed: self.closed || row.is_closed(now),
            drained: self.drained || row.is_drained(),
            day_over: self.day_over || row.is_day_over(),
        }
    }

    fn binds(self) -> bool {
        self.closed || self.drained || self.day_over
    }
}

type Rule = (fn(&Facts<'_>) -> bool, Status, Reason);

/// From what ends all budgets, and what ends one, to what only slows it down. A node that cannot seal stands before what the plan says: its grants
/// stop, and every plan falls behind for that.
const RULES: [Rule; 25] = [
    (|f| f.amiss.none_in_force, Status::Error, Reason::NotInForce),
    (|f| f.row.status == Configured::Paused, Status::Paused, Reason::Owner),
    (|f| f.row.status == Configured::Ended, Status::Ended, Reason::Removed),
    (|f| f.now >= f.row.flight.end, Status::Ended, Reason::FlightOver),
    (|f| f.now < f.row.flight.start, Status::Waiting, Reason::FlightAhead),
    (is_spent, Status::Exhausted, Reason::Limit),
    (|f| f.row.is_day_over(), Status::Limited, Reason::DayLimit),
    (|f| f.above.binds(), Status::Limited, Reason::Parent),
    // What remains is too little for what was asked, and may do for another ask.
    (|f| f.is_short() && f.short == Short::Above, Status::Limited, Reason::Parent),
    (|f| f.met(Verdict::Exhausted) && f.short == Short::Itself, Status::Limited, Reason::Limit),
    (
        |f| f.met(Verdict::DayExhausted) && f.short == Short::Itself,
        Status::Limited,
        Reason::DayLimit,
    ),
    (
        |f| f.met(Verdict::WindowExhausted) && f.short == Short::Itself,
        Status::Limited,
        Reason::DayLimit,
    ),
    (|f| f.row.is_drained(), Status::Limited, Reason::Held),
    (|f| f.is_shut_by_day_parts(), Status::Limited, Reason::DayParts),
    (
        |f| f.amiss.journal || f.met(Verdict::Journal) || f.met(Verdict::CutOff),
        Status::Error,
        Reason::Journal,
    ),
    (|f| f.met(Verdict::Busy), Status::Error, Reason::Busy),
    (|f| f.met(Verdict::PurseEmpty) && f.has_no_purse(), Status::NoPurse, Reason::PurseDenied),
    (|f| f.under == Some(Under::NoTraffic), Status::Limited, Reason::NoTraffic),
    (|f| f.under == Some(Under::Held), Status::Limited, Reason::Held),
    (|f| f.under == Some(Under::Floor), Status::Limited, Reason::Floor),
    (|f| f.under == Some(Under::Cap), Status::Limited, Reason::Cap),
    (|f| f.under == Some(Under::Blocked), Status::Limited, Reason::Blocked),
    (|f| f.under == Some(Under::Purse), Status::Limited, Reason::Purse),
    (|f| f.met(Verdict::PurseEmpty), Status::Limited, Reason::Purse),
    (|f| f.met(Verdict::Paced), Status::Limited, Reason::Paced),
];

/// Those of a budget that bids and lags, where nothing of the above holds.
const LAGGING: [Rule; 3] = [
    (|f| f.under == Some(Under::Outbid), Status::Limited, Reason::Outbid),
    (|f| f.under == Some(Under::Lost), Status::Limited, Reason::Lost),
    (|f| f.under == Some(Under::CatchingUp), Status::Active, Reason::CatchingUp),
];

/// Status and reason.
pub(super) fn condition(facts: &Facts<'_>) -> (Status, Reason) {
    let mut rules = RULES.iter().chain(&LAGGING);
    let rule = rules.find(|(holds, ..)| holds(facts));
    rule.map_or((Status::Active, Reason::None), |(_, status, reason)| (*status, *reason))
}

/// Nothing is left, and no hold can give any back: with a late reserve that is before the limit is spent.
fn is_spent(facts: &Facts<'_>) -> bool {
    let (row, line) = (facts.row, &facts.row.line);
    row.spent() >= line.limit || (row.is_drained() && line.held <= Amount::ZERO)
}

impl Facts<'_> {
    /// Was it asked for, was nothing granted, and is this what most asks met?
    fn met(&self, verdict: Verdict) -> bool {
        self.recent.grants == 0 && self.top.is_some_and(|top| top.verdict == verdict)
    }

    /// Did most asks meet that less is left than they were for?
    fn is_short(&self) -> bool {
        [Verdict::Exhausted, Verdict::DayExhausted, Verdict::WindowExhausted]
            .into_iter()
            .any(|verdict| self.met(verdict))
    }

    /// Closed by its plan inside its flight: the hour is none of its own.
    fn is_shut_by_day_parts(&self) -> bool {
        self.row.standing.is_some_and(|standing| !standing.progress.open)
    }

    /// The bank has money, and no worker has any of it.
    fn has_no_purse(&self) -> bool {
        self.row.line.purses.get() <= 0 && self.row.line.free.get() > 0
    }
}

/// Why a budget is behind its plan; `fates` is what its bids met by worker, as far as somebody looked.
pub(super) fn under(row: &SurveyRow, fates: &[Fates]) -> Option<Under> {
    let standing = row.standing.as_ref()?;
    let held = i128::from(row.line.held.get()) * 1_000_000;
    let held_ppm = held.checked_div(i128::from(standing.progress.budget.get())).unwrap_or(0);
    pace_text::under(standing, u64::try_from(held_ppm).unwrap_or(0), fates)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{row, standing};
    use super::*;

    const NOW: Instant = Instant::from_ms(1_000_000);

    fn amount(value: i64) -> Amount {
        Amount::new(value)
    }

    fn healthy(row: &SurveyRow) -> Facts<'_> {
        Facts {
            now: NOW,
            row,
            above: Above::default(),
            recent: Counts::default(),
            top: None,
            short: Short::default(),
            under: None,
            amiss: Amiss::default(),
        }
    }

    /// Asked ten times, granted nothing, and this is what all met.
    fn met(verdict: Verdict) -> impl Fn(&mut Facts<'_>) {
        move |facts| {
            facts.recent = Counts { asks: 10, grants: 0, refusals: 10 };
            facts.top = Some(Top { verdict, count: 10 });
        }
    }

    /// The same, and whose limit it was.
    fn short(verdict: Verdict, short: Short) -> impl Fn(&mut Facts<'_>) {
        move |facts| {
            met(verdict)(facts);
            facts.short = short;
        }
    }

    /// One case a rule: what is done to the row and to the facts of a budget that is well, and what is told then.
    type Case<'a> = (fn(&mut SurveyRow), &'a dyn Fn(&mut Facts<'_>), Status, Reason);

    #[test]
    fn every_rule_of_the_books_has_its_case() {
        let same = |_: &mut Facts<'_>| {};
        let above = |above: Above| move |facts: &mut Facts<'_>| facts.above = above;
        judge(&[
            (|_| {}, &same, Status::Active, Reason::None),
            (|r| r.status = Configured::Paused, &same, Status::Paused, Reason::Owner),
            (|r| r.status = Configured::Ended, &same, Status::Ended, Reason::Removed),
            (|r| r.flight.end = NOW, &same, Status::Ended, Reason::FlightOver),
            (
                |r| r.flight.start = Instant::from_ms(1_000_001),
                &same,
                Status::Waiting,
                Reason::FlightAhead,
            ),
            (
                |r| (r.line.settled, r.line.free) = (amount(100), amount(0)),
                &same,
                Status::Exhausted,
                Reason::Limit,
            ),
            (
                // The rest is a late reserve.
                |r| (r.line.settled, r.line.free) = (amount(90), amount(0)),
                &same,
                Status::Exhausted,
                Reason::Limit,
            ),
            (|r| r.calendar_left = Some(amount(0)), &same, Status::Limited, Reason::DayLimit),
            (
                |_| {},
                &above(Above { closed: true, ..Above::default() }),
                Status::Limited,
                Reason::Parent,
            ),
            (
                |_| {},
                &above(Above { drained: true, ..Above::default() }),
                Status::Limited,
                Reason::Parent,
            ),
            (
                |_| {},
                &above(Above { day_over: true, ..Above::default() }),
                Status::Limited,
                Reason::Parent,
            ),
            (
                |r| (r.line.held, r.line.free) = (amount(100), amount(0)),
                &same,
                Status::Limited,
                Reason::Held,
            ),
            (|r| r.standing = Some(standing(false)), &same, Status::Limited, Reason::DayParts),
        ]);
    }

    #[test]
    fn every_rule_of_what_asks_met_has_its_case() {
        let under = |why: Under| move |facts: &mut Facts<'_>| facts.under = Some(why);
        judge(&[
            (|_| {}, &short(Verdict::Exhausted, Short::Itself), Status::Limited, Reason::Limit),
            (
                |_| {},
                &short(Verdict::DayExhausted, Short::Itself),
                Status::Limited,
                Reason::DayLimit,
            ),
            (
                |_| {},
                &short(Verdict::WindowExhausted, Short::Itself),
                Status::Limited,
                Reason::DayLimit,
            ),
            (|_| {}, &short(Verdict::Exhausted, Short::Above), Status::Limited, Reason::Parent),
            (
                |_| {},
                &short(Verdict::WindowExhausted, Short::Above),
                Status::Limited,
                Reason::Parent,
            ),
            (|_| {}, &short(Verdict::Exhausted, Short::Below), Status::Active, Reason::None),
            (|_| {}, &short(Verdict::DayExhausted, Short::Below), Status::Active, Reason::None),
            (|_| {}, &|facts| facts.amiss.journal = true, Status::Error, Reason::Journal),
            (|_| {}, &|facts| facts.amiss.none_in_force = true, Status::Error, Reason::NotInForce),
            (|_| {}, &met(Verdict::Journal), Status::Error, Reason::Journal),
            (|_| {}, &met(Verdict::CutOff), Status::Error, Reason::Journal),
            (|_| {}, &met(Verdict::Busy), Status::Error, Reason::Busy),
            (|_| {}, &met(Verdict::PurseEmpty), Status::NoPurse, Reason::PurseDenied),
            (
                |r| (r.line.purses, r.line.free) = (amount(60), amount(40)),
                &met(Verdict::PurseEmpty),
                Status::Limited,
                Reason::Purse,
            ),
            (|_| {}, &under(Under::NoTraffic), Status::Limited, Reason::NoTraffic),
            (|_| {}, &under(Under::Held), Status::Limited, Reason::Held),
            (|_| {}, &under(Under::Floor), Status::Limited, Reason::Floor),
            (|_| {}, &under(Under::Cap), Status::Limited, Reason::Cap),
            (|_| {}, &under(Under::Blocked), Status::Limited, Reason::Blocked),
            (|_| {}, &under(Under::Purse), Status::Limited, Reason::Purse),
            (|_| {}, &met(Verdict::Paced), Status::Limited, Reason::Paced),
            (|_| {}, &under(Under::Outbid), Status::Limited, Reason::Outbid),
            (|_| {}, &under(Under::Lost), Status::Limited, Reason::Lost),
            (|_| {}, &under(Under::CatchingUp), Status::Active, Reason::CatchingUp),
        ]);
    }

    fn judge(cases: &[Case<'_>]) {
        for (number, &(change, more, status, reason)) in cases.iter().enumerate() {
            let mut row = row(1, 100);
            change(&mut row);
            let mut facts = healthy(&row);
            more(&mut facts);
            assert_eq!(condition(&facts), (status, reason), "case {number}");
        }
    }

    #[test]
    fn the_first_rule_that_holds_is_told() {
        let mut all = row(1, 100);
        (all.line.settled, all.line.free) = (amount(100), amount(0));
        (all.calendar_left, all.status) = (Some(amount(0)), Configured::Paused);
        let mut facts = healthy(&all);
        (facts.amiss.journal, facts.under) = (true, Some(Under::Floor));
        assert_eq!(condition(&facts), (Status::Paused, Reason::Owner));
        let spent = SurveyRow { status: Configured::Active, ..all };
        assert_eq!(condition(&Facts { row: &spent, ..facts }), (Status::Exhausted, Reason::Limit));
        facts.amiss.none_in_force = true;
        assert_eq!(condition(&facts), (Status::Error, Reason::NotInForce), "of a former set");
        facts.amiss.none_in_force = false;
        let sound = row(1, 100);
        let found = condition(&Facts { row: &sound, ..facts });
        assert_eq!(found, (Status::Error, Reason::Journal), "it is what the lag comes from");
    }

    #[test]
    fn who_is_granted_something_is_not_stopped_by_what_others_met() {
        let row = row(1, 100);
        let mut facts = healthy(&row);
        met(Verdict::Paced)(&mut facts);
        facts.recent.grants = 1;
        assert_eq!(condition(&facts), (Status::Active, Reason::None));
    }

    #[test]
    fn a_parent_binds_the_budgets_below_it() {
        let (mut paused, open) = (row(1, 100), row(2, 100));
        paused.status = Configured::Paused;
        let below = Above::default().and(&paused, NOW);
        assert!(below.binds() && below.and(&open, NOW).binds());
        assert!(!Above::default().and(&open, NOW).binds());
    }
}
