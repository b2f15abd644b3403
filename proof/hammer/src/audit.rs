//! The audit: the node's books against the hammer's own, and both against each budget's limit. Pure.
//!
//! Per budget, with S, O, L the node's `settled`, `over_settled`, `late` since the start of the run:
//!
//! 1. conservation: free + purses + held + settled + `over_settled` + late = limit;
//! 2. the rule of the house: settled + held + purses <= limit;
//! 3. nothing acknowledged is missing: S, O, L are each at least what was acknowledged before the books were asked for;
//! 4. nothing is booked that was not sent: S + O + L is at most what was acknowledged plus what was in flight
//!    (exclusive runs only). After draining nothing is in flight, so 3 and 4 together say *equal*;
//! 5. promises: settled before + acknowledged + holds that must still be alive by the hold clock <= limit. This one
//!    does not believe the node's books at all.

use std::collections::HashMap;

use crate::tally::Sums;

/// Findings kept as text; the rest are only counted.
pub(crate) const FINDINGS_KEPT_MAX: usize = 20;

/// One budget in the node's books, in micros (or items).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// The budget.
    pub id: u64,
    /// The amount that may be spent.
    pub limit: i64,
    /// Neither handed out nor spent.
    pub free: i64,
    /// With the workers.
    pub purses: i64,
    /// In holds.
    pub held: i64,
    /// Spent within holds.
    pub settled: i64,
    /// Spent above holds.
    pub over: i64,
    /// Spent after holds were gone.
    pub late: i64,
    /// ISO 4217 letters padded with NUL.
    pub unit: [u8; 4],
}

impl Row {
    /// What invariant 1 binds: settled + held + purses.
    fn committed(&self) -> i128 {
        i128::from(self.settled) + i128::from(self.held) + i128::from(self.purses)
    }
}

/// A budget over the whole run.
#[derive(Debug)]
struct Watch {
    /// The books when first seen.
    base: Row,
    /// Index in the run's budgets; `None` for budgets the run does not use.
    index: Option<usize>,
    /// The most that could rightly be committed so far: the highest limit, or what was committed before.
    allowed: i128,
    /// The worst excess seen.
    over_max: i128,
    /// Something was booked that no settle of ours explains.
    unexplained: bool,
    /// Something acknowledged is missing.
    missing: bool,
    /// Number of the last audit that listed it.
    listed: u64,
}

/// What an acknowledgement tells about the line of the books it went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Settled, over or late: each line is compared by itself.
    Told,
    /// Only that it was booked: all acknowledgements count as settled here, and the sum of the lines is compared.
    Untold,
}

/// Everything that the audit knows and found.
#[derive(Debug)]
pub(crate) struct Auditor {
    exclusive: bool,
    lines: Lines,
    hold_ns: u64,
    indexes: HashMap<u64, usize>,
    watches: Vec<Watch>,
    /// Place of a budget in `watches`, by id.
    places: HashMap<u64, usize>,
    /// The same by budget index; `None` for budgets that were never listed.
    used: Vec<Option<usize>>,
    before: Option<Reading>,
    /// The first findings, in words.
    pub findings: Vec<String>,
    /// How many there were in all.
    pub findings_count: u64,
    /// Audits made.
    pub audits: u64,
    /// Audits that could also check the promises (rule 5).
    pub promise_checks: u64,
}

/// One reading of the hammer's own counters.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Counters by budget index.
    pub sums: Vec<Sums>,
    /// When the reading began, ns since the start of the run.
    pub begin_ns: u64,
    /// When it was complete.
    pub end_ns: u64,
}

impl Auditor {
    /// Starts from the node's books before the run. `ids[i]` is the budget with index i; `hold_ns` is the node's hold
    /// time; `exclusive` says that no other client moves these budgets.
    #[must_use]
    pub(crate) fn new(base: &[Row], ids: &[u64], hold_ns: u64, exclusive: bool) -> Self {
        let indexes = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let mut auditor = Self {
            exclusive,
            lines: Lines::Told,
            hold_ns,
            indexes,
            watches: Vec::with_capacity(base.len()),
            places: HashMap::with_capacity(base.len()),
            used: vec![None; ids.len()],
            before: None,
            findings: Vec::new(),
            findings_count: 0,
            audits: 0,
            promise_checks: 0,
        };
        for (guess, row) in base.iter().enumerate() {
            auditor.watch(guess, row);
        }
        auditor
    }

    /// The same where acknowledgements do not tell their line, and promises (rule 5) are not known.
    #[must_use]
    pub(crate) fn untold(base: &[Row], ids: &[u64], exclusive: bool) -> Self {
        Self { lines: Lines::Untold, ..Self::new(base, ids, 0, exclusive) }
    }

    /// Compares the books with the counters read before (`low`) and after (`high`) they were asked for.
    /// `latency_ns_max` is the slowest answer since the reading before; `last` says that everything is drained.
    pub(crate) fn check(
        &mut self,
        rows: &[Row],
        low: &Reading,
        high: &Reading,
        latency_ns_max: u64,
        last: bool,
    ) {
        self.audits += 1;
        self.check_order(rows);
        let alive_since = self.alive_since(low, latency_ns_max);
        for (guess, row) in rows.iter().enumerate() {
            let place = self.watch(guess, row);
            self.check_row(place, row);
            let Some(index) = self.watches[place].index else { continue };
            let (low_sums, high_sums) = (low.sums[index], high.sums[index]);
            self.check_sums(place, row, &low_sums, &high_sums, last);
            if let Some(since) = &alive_since {
                self.check_promises(place, row, &since.sums[index], &low_sums);
            }
        }
        self.check_absent(low);
        self.promise_checks += u64::from(alive_since.is_some());
        self.before = Some(low.clone());
    }

    /// The sum over budgets of the worst excess of each, in micros.
    #[must_use]
    pub(crate) fn over_micros(&self) -> i64 {
        let sum: i128 = self.watches.iter().map(|w| w.over_max).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    }

    /// Budgets in which more is booked than the settles sent explain.
    #[must_use]
    pub(crate) fn unexplained_budgets(&self) -> u64 {
        self.watches.iter().filter(|w| w.unexplained).count() as u64
    }

    /// Budgets in which something acknowledged is missing.
    #[must_use]
    pub(crate) fn missing_budgets(&self) -> u64 {
        self.watches.iter().filter(|w| w.missing).count() as u64
    }

    /// Notes something that is wrong.
    pub(crate) fn find(&mut self, what: String) {
        self.findings_count += 1;
        if self.findings.len() < FINDINGS_KEPT_MAX && !self.findings.contains(&what) {
            self.findings.push(what);
        }
    }

    /// The place of a budget in `watches`, where it is put when it is new. Books list the same budgets in the same order
    /// nearly always: then the guess is right, and an audit of many budgets stays cheap.
    fn watch(&mut self, guess: usize, row: &Row) -> usize {
        let guessed = self.watches.get(guess).is_some_and(|watch| watch.base.id == row.id);
        let known = if guessed { Some(guess) } else { self.places.get(&row.id).copied() };
        let place = known.unwrap_or_else(|| self.add(row));
        let watch = &mut self.watches[place];
        watch.allowed = watch.allowed.max(i128::from(row.limit));
        watch.listed = self.audits;
        place
    }

    fn add(&mut self, row: &Row) -> usize {
        let place = self.watches.len();
        let index = self.indexes.get(&row.id).copied();
        if let Some(index) = index {
            self.used[index] = Some(place);
        }
        self.places.insert(row.id, place);
        self.watches.push(Watch {
            base: *row,
            index,
            allowed: row.committed(),
            over_max: 0,
            unexplained: false,
            missing: false,
            listed: 0,
        });
        place
    }

    /// Pages must come in the order of ids, each once.
    fn check_order(&mut self, rows: &[Row]) {
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            self.find(format!(
                "the books list budget {} before {}; expected ascending ids, each once",
                pair[0].id, pair[1].id
            ));
        }
    }

    /// Rules 1 and 2, which need only the node's own figures.
    fn check_row(&mut self, place: usize, row: &Row) {
        let parts =
            i128::from(row.free) + row.committed() + i128::from(row.over) + i128::from(row.late);
        if parts != i128::from(row.limit) {
            self.find(format!(
                "budget {}: free {} + purses {} + held {} + settled {} + over {} + late {} = {parts}, the limit is {}",
                row.id, row.free, row.purses, row.held, row.settled, row.over, row.late, row.limit
            ));
        }
        let negative = [row.purses, row.held, row.settled, row.over, row.late];
        if negative.iter().any(|&part| part < 0) {
            self.find(format!("budget {}: a part of the books is negative: {row:?}", row.id));
        }
        let watch = &mut self.watches[place];
        let excess = row.committed() - watch.allowed;
        if excess > 0 {
            watch.over_max = watch.over_max.max(excess);
            let allowed = watch.allowed;
            self.find(format!(
                "budget {}: settled {} + held {} + purses {} is {excess} above {allowed}",
                row.id, row.settled, row.held, row.purses
            ));
        }
    }

    /// Rules 3 and 4, and debts that nobody made.
    fn check_sums(&mut self, place: usize, row: &Row, low: &Sums, high: &Sums, last: bool) {
        let watch = &mut self.watches[place];
        let since = |now: i64, base: i64| i128::from(now) - i128::from(base);
        let moved = [
            since(row.settled, watch.base.settled),
            since(row.over, watch.base.over),
            since(row.late, watch.base.late),
        ];
        let told = [
            ("settled", moved[0], low.settled),
            ("over_settled", moved[1], low.over),
            ("late", moved[2], low.late),
        ];
        let untold = [("settled, over and late", moved.iter().sum(), low.settled)];
        let booked = if self.lines == Lines::Told { &told[..] } else { &untold[..] };
        let in_flight = (i128::from(high.sent) - i128::from(low.answered)).max(0);
        let mut found = Vec::new();
        for &(line, moved, acknowledged) in booked {
            let acknowledged = i128::from(acknowledged);
            if moved < acknowledged {
                watch.missing = true;
                found.push(format!(
                    "budget {}: {acknowledged} were acknowledged as {line}, the books moved by {moved}",
                    row.id
                ));
            }
            if self.exclusive && moved > acknowledged + in_flight {
                watch.unexplained = true;
                found.push(format!(
                    "budget {}: the books moved by {moved} in {line}, but only {acknowledged} were \
                     acknowledged and {in_flight} are in flight",
                    row.id
                ));
            }
        }
        let all: i128 = booked.iter().map(|b| b.1).sum();
        let explained = booked.iter().map(|b| i128::from(b.2)).sum::<i128>() + in_flight;
        if self.exclusive && all > explained {
            watch.unexplained = true;
            if found.is_empty() {
                found.push(format!(
                    "budget {}: {all} booked, but the settles sent explain {explained} at most{}",
                    row.id,
                    if last { " (drained)" } else { "" }
                ));
            }
        }
        if self.exclusive {
            let debts = moved[1] + moved[2];
            let foreign = (debts - i128::from(low.debts_own) - in_flight).max(0);
            let excess = row.committed() + foreign - watch.allowed;
            watch.over_max = watch.over_max.max(excess);
        }
        for text in found {
            self.find(text);
        }
    }

    /// The earlier reading whose grants since then must all be alive now; `None` if the hold time is too short for it.
    fn alive_since(&self, low: &Reading, latency_ns_max: u64) -> Option<Reading> {
        let before = self.before.as_ref()?;
        // A grant we counted after `begin_ns` was made at most one latency before; it lives `hold_ns` from then.
        let oldest_end = before.begin_ns.checked_add(self.hold_ns)?.checked_sub(latency_ns_max)?;
        (low.end_ns < oldest_end).then(|| before.clone())
    }

    /// Rule 5. `then` and `now` are two readings less than a hold time apart.
    fn check_promises(&mut self, place: usize, row: &Row, then: &Sums, now: &Sums) {
        let watch = &mut self.watches[place];
        let granted = i128::from(now.granted) - i128::from(then.granted);
        let ended = i128::from(now.ended_high) - i128::from(then.ended_low);
        let alive = (granted - ended).max(0);
        let promised = i128::from(watch.base.settled) + i128::from(now.settled) + alive;
        let excess = promised - watch.allowed;
        if excess > 0 {
            watch.over_max = watch.over_max.max(excess);
            let (allowed, settled, before) = (watch.allowed, now.settled, watch.base.settled);
            self.find(format!(
                "budget {}: promised {excess} above {allowed}: {settled} acknowledged in this run, {alive} in holds \
                 that have not expired, {before} settled before",
                row.id
            ));
        }
    }

    /// A budget that gave money must be in the books.
    fn check_absent(&mut self, low: &Reading) {
        for index in 0..self.used.len() {
            let place = self.used[index];
            let is_listed = place.is_some_and(|place| self.watches[place].listed == self.audits);
            if is_listed || low.sums[index].granted == 0 {
                continue;
            }
            let id = self.indexes.iter().find(|&(_, &i)| i == index).map_or(0, |(&id, _)| id);
            self.find(format!("budget {id} granted holds, but the books do not list it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD_NS: u64 = 2_000_000_000;

    fn row(settled: i64, held: i64) -> Row {
        Row { id: 1, limit: 1_000, free: 1_000 - settled - held, settled, held, ..Row::default() }
    }

    fn reading(sums: Sums, at_ns: u64) -> Reading {
        Reading { sums: vec![sums], begin_ns: at_ns, end_ns: at_ns }
    }

    /// One audit of one budget that began empty.
    fn audit(row_now: Row, low: Sums, high: Sums) -> Auditor {
        let mut auditor = Auditor::new(&[row(0, 0)], &[1], HOLD_NS, true);
        auditor.check(&[row_now], &reading(low, 0), &reading(high, 0), 0, true);
        auditor
    }

    fn acknowledged(settled: i64) -> Sums {
        Sums { settled, answered: settled, sent: settled, ..Sums::default() }
    }

    #[test]
    fn equal_books_are_ok() {
        let auditor = audit(row(300, 100), acknowledged(300), acknowledged(300));
        assert!(auditor.findings.is_empty(), "{:?}", auditor.findings);
        assert_eq!((auditor.over_micros(), auditor.unexplained_budgets()), (0, 0));
    }

    #[test]
    fn where_the_line_is_untold_the_sum_is_compared() {
        let audit = |row_now: Row, sums: Sums| {
            let mut auditor = Auditor::untold(&[row(0, 0)], &[1], true);
            auditor.check(&[row_now], &reading(sums, 0), &reading(sums, 0), 0, true);
            auditor
        };
        let some_late = Row { late: 50, free: 700, ..row(250, 0) };
        assert_eq!(audit(some_late, acknowledged(300)).findings, Vec::<String>::new());
        assert_eq!(audit(some_late, acknowledged(301)).missing_budgets(), 1);
        assert_eq!(audit(some_late, acknowledged(299)).unexplained_budgets(), 1);
        let in_debt = Row { late: 50, free: -50, ..row(1_000, 0) };
        assert_eq!(audit(in_debt, acknowledged(1_050)).over_micros(), 50);
        let on_purpose = Sums { debts_own: 50, ..acknowledged(1_050) };
        assert_eq!(audit(in_debt, on_purpose).over_micros(), 0);
    }

    #[test]
    fn a_micro_that_is_nowhere_is_found() {
        let auditor = audit(Row { free: 699, ..row(300, 0) }, acknowledged(300), acknowledged(300));
        assert!(auditor.findings[0].contains("the limit is 1000"), "{:?}", auditor.findings);
    }

    #[test]
    fn overspending_is_measured_in_micros() {
        let over = Row { free: -5, ..row(1_000, 5) };
        let auditor = audit(over, acknowledged(1_000), acknowledged(1_000));
        assert_eq!(auditor.over_micros(), 5);
    }

    #[test]
    fn a_settle_booked_twice_is_found() {
        let auditor = audit(row(310, 0), acknowledged(300), acknowledged(300));
        assert_eq!(auditor.unexplained_budgets(), 1);
        assert_eq!(auditor.missing_budgets(), 0);
    }

    #[test]
    fn an_acknowledged_settle_that_is_not_booked_is_found() {
        let auditor = audit(row(290, 0), acknowledged(300), acknowledged(300));
        assert_eq!(auditor.missing_budgets(), 1);
    }

    #[test]
    fn settles_in_flight_may_be_booked_or_not() {
        let low = acknowledged(300);
        let high = Sums { sent: 350, ..low };
        for booked in [300, 320, 350] {
            assert!(audit(row(booked, 0), low, high).findings.is_empty(), "{booked}");
        }
        assert!(!audit(row(351, 0), low, high).findings.is_empty());
    }

    #[test]
    fn other_clients_may_book_more_but_never_less() {
        let mut auditor = Auditor::new(&[row(0, 0)], &[1], HOLD_NS, false);
        let own = acknowledged(300);
        auditor.check(&[row(500, 0)], &reading(own, 0), &reading(own, 0), 0, true);
        assert!(auditor.findings.is_empty());
        auditor.check(&[row(299, 0)], &reading(own, 0), &reading(own, 0), 0, true);
        assert_eq!(auditor.missing_budgets(), 1);
    }

    #[test]
    fn own_debts_may_exceed_the_limit_but_nobody_elses() {
        let in_debt = Row { over: 50, free: -50, ..row(1_000, 0) };
        let own =
            Sums { over: 50, debts_own: 50, sent: 1_050, answered: 1_050, ..acknowledged(1_000) };
        let auditor = audit(in_debt, own, own);
        assert!(auditor.findings.is_empty(), "{:?}", auditor.findings);
        assert_eq!(auditor.over_micros(), 0);
        let foreign = Sums { debts_own: 0, ..own };
        assert_eq!(audit(in_debt, foreign, foreign).over_micros(), 50);
    }

    #[test]
    fn a_limit_that_was_lowered_is_no_overspending() {
        let mut auditor = Auditor::new(&[row(900, 0)], &[1], HOLD_NS, true);
        let lowered = Row { limit: 500, free: -400, ..row(900, 0) };
        let nothing = Sums::default();
        auditor.check(&[lowered], &reading(nothing, 0), &reading(nothing, 0), 0, true);
        assert_eq!((auditor.over_micros(), auditor.findings_count), (0, 0));
    }

    #[test]
    fn promises_above_the_limit_are_found_whatever_the_books_say() {
        let mut auditor = Auditor::new(&[row(0, 0)], &[1], HOLD_NS, true);
        let at = |granted, ns| reading(Sums { granted, ..Sums::default() }, ns);
        auditor.check(&[row(0, 0)], &at(0, 0), &at(0, 0), 0, false);
        auditor.check(&[row(0, 900)], &at(1_000, 1_000_000_000), &at(1_000, 0), 0, false);
        assert_eq!(auditor.over_micros(), 0, "the limit itself may be promised");
        auditor.check(&[row(0, 900)], &at(2_001, 2_000_000_000), &at(2_001, 0), 0, false);
        assert_eq!(auditor.over_micros(), 1);
        assert_eq!(auditor.promise_checks, 2);
    }

    #[test]
    fn holds_that_may_have_expired_are_no_promises() {
        let mut auditor = Auditor::new(&[row(0, 0)], &[1], HOLD_NS, true);
        let at = |granted, ns| reading(Sums { granted, ..Sums::default() }, ns);
        auditor.check(&[row(0, 0)], &at(0, 0), &at(0, 0), 0, false);
        auditor.check(&[row(0, 0)], &at(5_000, HOLD_NS), &at(5_000, HOLD_NS), 0, false);
        assert_eq!((auditor.over_micros(), auditor.promise_checks), (0, 0));
        let slow = 500_000_000;
        auditor.check(
            &[row(0, 0)],
            &at(9_000, HOLD_NS + 1_600_000_000),
            &at(9_000, 0),
            slow,
            false,
        );
        assert_eq!(auditor.promise_checks, 0, "a slow answer shortens the hold as we see it");
    }

    #[test]
    fn holds_ended_by_us_are_no_promises() {
        let mut auditor = Auditor::new(&[row(0, 0)], &[1], HOLD_NS, true);
        let none = reading(Sums::default(), 0);
        auditor.check(&[row(0, 0)], &none, &none, 0, false);
        let sums = Sums { granted: 1_500, ended_low: 600, ended_high: 600, ..acknowledged(100) };
        let now = reading(sums, 1_000_000_000);
        auditor.check(&[row(100, 0)], &now, &now, 0, false);
        assert_eq!(auditor.over_micros(), 0);
    }

    #[test]
    fn a_budget_that_grants_must_be_listed() {
        let mut auditor = Auditor::new(&[], &[1], HOLD_NS, true);
        let granted = reading(Sums { granted: 5, ..Sums::default() }, 0);
        auditor.check(&[], &granted, &granted, 0, true);
        assert!(auditor.findings[0].contains("do not list it"));
    }

    #[test]
    fn pages_out_of_order_are_found() {
        let mut auditor = Auditor::new(&[], &[], HOLD_NS, true);
        let none = Reading { sums: Vec::new(), begin_ns: 0, end_ns: 0 };
        let rows = [Row { id: 2, ..row(0, 0) }, Row { id: 1, ..row(0, 0) }];
        auditor.check(&rows, &none, &none, 0, true);
        assert!(auditor.findings[0].contains("ascending"));
    }
}
