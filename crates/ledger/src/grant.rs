//! Grants: numbered purse fillings, and what became of the holds made from them.

use std::collections::VecDeque;

use crate::page::{Mark, PAGE_HOLDS, Page};
use crate::part::{Keeps, Stage};
use crate::spec::LEVELS_MAX;
use crate::token::SEQ_MAX;
use crate::{Amount, Hold};

/// Expired money is kept in sums by deadlines rounded up to this. Part of what records mean: it never changes.
const EXPIRED_WIDTH_MS: u64 = 10_000;
/// A grant with so many of them gets no more holds, so that it fits a record.
const EXPIRED_SUMS_MAX: usize = 1_000;
/// One grant.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// Its number, once it is among [`Grants`].
    pub(crate) number: u64,
    pub(crate) slot: u32,
    pub(crate) worker: u16,
    pub(crate) billing_ms: u64,
    /// First instant of the day, on each level, that its spend belongs to.
    pub(crate) days: [u64; LEVELS_MAX],
    /// With the worker (or suspended): unreserved or in unconfirmed holds.
    pub(crate) out: Amount,
    /// In confirmed holds, and in the rests of settled ones.
    pub(crate) held: Amount,
    pub(crate) stage: Stage,
    pub(crate) keeps: Keeps,
    /// Latest deadline of the holds that the worker reported; 0 before the first.
    pub(crate) reported_ms: u64,
    /// Per deadline not yet passed: what of its holds was confirmed, settled or released.
    pub(crate) resolved: Sums,
    /// Per billing deadline: what is confirmed and not yet settled.
    pub(crate) billing: Sums,
    /// Per billing deadline: what settled holds keep, in case that a later notice names a higher price.
    pub(crate) rests: Sums,
    /// Pages of marks by their number, rising; only those that have a mark.
    marks: Vec<(u32, Box<Page>)>,
    /// What is kept of holds whose time is over.
    pub(crate) expired: Expired,
}

/// What is kept of a grant's holds whose time is over, until it is reconciled. What was suspended is not in here: it
/// stays in `out`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expired {
    /// Latest deadline of unconfirmed holds that expired. They expire in the order of their deadlines, so every hold
    /// with one up to here that nobody spoke of is in the sums.
    pub(crate) until_ms: u64,
    /// Of unconfirmed holds, per deadline, rounded up by [`Expired::deadline_ms`].
    pub(crate) unconfirmed: Sums,
    /// Of confirmed holds, per billing deadline, rounded up in the same way.
    pub(crate) unbilled: Sums,
}

impl Expired {
    /// Under which deadline the sum stands that holds with this one are in: a grant has few of them.
    pub(crate) fn deadline_ms(deadline_ms: u64) -> u64 {
        deadline_ms.div_ceil(EXPIRED_WIDTH_MS) * EXPIRED_WIDTH_MS
    }

    /// Are there so many sums that the grant should end?
    pub(crate) fn is_full(&self) -> bool {
        self.unconfirmed.all().len().max(self.unbilled.all().len()) >= EXPIRED_SUMS_MAX
    }

    pub(crate) fn total(&self) -> Amount {
        crate::books::plus(self.unconfirmed.total(), self.unbilled.total())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unconfirmed.total() == Amount::ZERO && self.unbilled.total() == Amount::ZERO
    }
}

impl Grant {
    pub(crate) fn new(slot: u32, worker: u16, billing_ms: u64, keeps: Keeps) -> Grant {
        Grant {
            number: 0,
            slot,
            worker,
            billing_ms,
            days: [0; LEVELS_MAX],
            out: Amount::ZERO,
            held: Amount::ZERO,
            stage: Stage::Open,
            keeps,
            reported_ms: 0,
            resolved: Sums::default(),
            billing: Sums::default(),
            rests: Sums::default(),
            marks: Vec::new(),
            expired: Expired::default(),
        }
    }

    pub(crate) fn mark(&self, seq: u32) -> Mark {
        self.page(seq).map_or(Mark::Open, |page| page.mark(seq))
    }

    /// The page with this hold, if it has one.
    #[inline]
    pub(crate) fn page(&self, seq: u32) -> Option<&Page> {
        let number = seq / PAGE_HOLDS;
        match self.marks.last() {
            Some((last, page)) if *last == number => Some(page),
            _ => Some(&self.marks[self.find_page(seq).ok()?].1),
        }
    }

    /// The mark of a hold whose page was looked up, and whether it was clicked.
    #[inline]
    pub(crate) fn state_in(&self, found: Result<usize, usize>, seq: u32) -> (Mark, bool) {
        found.map_or((Mark::Open, false), |found| self.marks[found].1.state(seq))
    }

    /// What a hold was settled with; `None` if that is not known, or it is not settled.
    pub(crate) fn spent(&self, hold: &Hold) -> Option<Amount> {
        let found = self.find_page(hold.seq).ok()?;
        self.marks[found].1.amount(hold.seq, hold.amount)
    }

    /// The page with this hold, which was looked up, and how many were made for it (0 or 1).
    #[inline(always)]
    pub(crate) fn page_mut(&mut self, found: Result<usize, usize>, seq: u32) -> (&mut Page, usize) {
        match found {
            Ok(index) => (&mut self.marks[index].1, 0),
            Err(index) => (self.new_page(index, seq), 1),
        }
    }

    #[cold]
    fn new_page(&mut self, index: usize, seq: u32) -> &mut Page {
        self.marks.insert(index, (seq / PAGE_HOLDS, Box::new(Page::new())));
        &mut self.marks[index].1
    }

    /// Where the page with this hold is, or would be. Mostly it is the last.
    #[inline]
    pub(crate) fn find_page(&self, seq: u32) -> Result<usize, usize> {
        let number = seq / PAGE_HOLDS;
        match self.marks.last() {
            Some((last, _)) if *last == number => Ok(self.marks.len() - 1),
            _ => self.marks.binary_search_by_key(&number, |(page, _)| *page),
        }
    }

    /// Fetches where the pages of marks are.
    pub(crate) fn prefetch_marks(&self) {
        self.marks.last().into_iter().for_each(table::prefetch);
    }

    /// Fetches the mark of a hold.
    pub(crate) fn prefetch_mark(&self, seq: u32) {
        if let Ok(found) = self.find_page(seq) {
            self.marks[found].1.prefetch(seq);
        }
    }

    /// The pages of marks, rising.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (u32, &Page)> {
        self.marks.iter().map(|(number, page)| (*number, &**page))
    }

    /// Adds a page that was read. False if it does not follow the last one, or no grant could have it.
    pub(crate) fn add_page(&mut self, number: u32, page: Page) -> bool {
        let follows = self.marks.last().is_none_or(|(last, _)| *last < number);
        let fits = follows && number <= SEQ_MAX / PAGE_HOLDS;
        if fits {
            self.marks.push((number, Box::new(page)));
        }
        fits
    }

    /// No hold of the grant is alive from this instant on, whatever its token says.
    pub(crate) fn over_ms(&self) -> u64 {
        match self.stage {
            Stage::Open => u64::MAX,
            Stage::Retired { deadline_ms } => deadline_ms,
            Stage::Suspended { until_ms } | Stage::Expired { until_ms } => until_ms,
        }
    }

    pub(crate) fn pages(&self) -> usize {
        self.marks.len()
    }

    /// Amounts that its pages have entries of.
    pub(crate) fn amounts(&self) -> usize {
        self.marks.iter().map(|(_, page)| page.amounts().len()).sum()
    }

    /// The billing deadline of the holds with this first deadline.
    pub(crate) fn billing_deadline_ms(&self, deadline_ms: u64) -> u64 {
        crate::billing_deadline_ms(deadline_ms, self.billing_ms)
    }

    /// Is a hold that nobody spoke of yet in time? It ends with its grant even where its token says more: after a restart with a clock that
    /// went back. And a token of books that were lost since may name money that is not there: nothing to take, nothing alive.
    pub(crate) fn is_alive(&self, hold: &Hold, at_ms: u64) -> bool {
        at_ms < hold.deadline_ms.min(self.over_ms()) && self.has_unconfirmed(hold)
    }

    /// Is the money of a hold that nobody spoke of yet still set aside?
    pub(crate) fn has_unconfirmed(&self, hold: &Hold) -> bool {
        hold.amount <= self.set_aside(hold)
    }

    fn set_aside(&self, hold: &Hold) -> Amount {
        match self.has_expired(hold) {
            true => self.expired.unconfirmed.get(Expired::deadline_ms(hold.deadline_ms)),
            false => self.out,
        }
    }

    /// Is a hold that nobody spoke of among the expired ones?
    pub(crate) fn has_expired(&self, hold: &Hold) -> bool {
        hold.deadline_ms <= self.expired.until_ms
    }

    /// Is the money of a confirmed hold still set aside?
    pub(crate) fn has_confirmed(&self, hold: &Hold) -> bool {
        let deadline_ms = self.billing_deadline_ms(hold.deadline_ms);
        hold.amount <= self.billing.get(deadline_ms)
            || hold.amount <= self.expired.unbilled.get(Expired::deadline_ms(deadline_ms))
    }

    /// What a settled hold keeps of which this much is spent: nothing once its billing time is over.
    pub(crate) fn rest(&self, hold: &Hold, spent: Amount) -> Amount {
        let rest = crate::books::minus(hold.amount, spent);
        let is_kept = self.mark(hold.seq) == Mark::SettledKeepsRest
            && (Amount::ZERO..=self.rests.get(self.billing_deadline_ms(hold.deadline_ms)))
                .contains(&rest);
        if is_kept { rest } else { Amount::ZERO }
    }

    /// All that is left in it is expired: it will be looked at again when that is reconciled.
    pub(crate) fn waits_for_reconciliation(&self) -> bool {
        let out = self.out == Amount::ZERO || matches!(self.stage, Stage::Expired { .. });
        out && self.held == Amount::ZERO && !self.is_empty()
    }

    /// Nothing of the grant's money is anywhere but free or spent.
    pub(crate) fn is_empty(&self) -> bool {
        self.out == Amount::ZERO && self.held == Amount::ZERO && self.expired.is_empty()
    }
}

/// What holds with one deadline come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) deadline_ms: u64,
    pub(crate) amount: Amount,
    /// How many holds that is. Known of grants of this run only: it is no part of the state.
    pub(crate) holds: u32,
}

/// A short list of sums by deadline; entries appear and vanish in about the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(Vec<Sum>);

impl Sums {
    /// Of sums that were read.
    pub(crate) fn of(sums: impl IntoIterator<Item = (u64, Amount)>) -> Sums {
        let sum = |(deadline_ms, amount)| Sum { deadline_ms, amount, holds: 0 };
        Sums(sums.into_iter().map(sum).collect())
    }

    /// Adds a hold to a deadline's sum. Returns true if the deadline is new.
    pub(crate) fn add(&mut self, deadline_ms: u64, amount: Amount) -> bool {
        self.add_sum(Sum { deadline_ms, amount, holds: 1 })
    }

    /// Adds what some holds come to.
    pub(crate) fn add_uncounted(&mut self, deadline_ms: u64, amount: Amount) {
        self.add_sum(Sum { deadline_ms, amount, holds: 0 });
    }

    fn add_sum(&mut self, more: Sum) -> bool {
        match self.0.iter_mut().rev().find(|sum| sum.deadline_ms == more.deadline_ms) {
            Some(sum) => {
                sum.amount = crate::books::plus(sum.amount, more.amount);
                sum.holds = sum.holds.saturating_add(more.holds);
                false
            }
            None => {
                self.0.push(more);
                true
            }
        }
    }

    /// The sum of a deadline; zero where there is none.
    pub(crate) fn sum(&self, deadline_ms: u64) -> Sum {
        let found = self.0.iter().find(|sum| sum.deadline_ms == deadline_ms);
        found.copied().unwrap_or_default()
    }

    /// Has the deadline a sum, if only of nothing?
    pub(crate) fn has(&self, deadline_ms: u64) -> bool {
        self.0.iter().any(|sum| sum.deadline_ms == deadline_ms)
    }

    pub(crate) fn get(&self, deadline_ms: u64) -> Amount {
        self.sum(deadline_ms).amount
    }

    /// Takes a hold from a deadline's sum.
    pub(crate) fn subtract(&mut self, deadline_ms: u64, amount: Amount) {
        let entry = self.0.iter_mut().find(|sum| sum.deadline_ms == deadline_ms);
        let sum = entry.expect("only what was added is subtracted");
        sum.amount = crate::books::minus(sum.amount, amount);
        sum.holds = sum.holds.saturating_sub(1);
        assert!(sum.amount >= Amount::ZERO, "only what was added is subtracted");
    }

    pub(crate) fn take(&mut self, deadline_ms: u64) -> Sum {
        match self.0.iter().position(|sum| sum.deadline_ms == deadline_ms) {
            Some(index) => self.0.remove(index),
            None => Sum::default(),
        }
    }

    /// Takes all sums with deadlines up to this one.
    pub(crate) fn take_until(&mut self, deadline_ms: u64) -> Amount {
        let taken = self.0.extract_if(.., |sum| sum.deadline_ms <= deadline_ms);
        taken.fold(Amount::ZERO, |all, sum| crate::books::plus(all, sum.amount))
    }

    /// The sum of those with deadlines up to this one.
    pub(crate) fn until(&self, deadline_ms: u64) -> Amount {
        let until = self.0.iter().filter(|sum| sum.deadline_ms <= deadline_ms);
        until.fold(Amount::ZERO, |all, sum| crate::books::plus(all, sum.amount))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn all(&self) -> &[Sum] {
        &self.0
    }

    /// Deadlines with their amounts.
    pub(crate) fn to_vec(&self) -> Vec<(u64, Amount)> {
        self.0.iter().map(|sum| (sum.deadline_ms, sum.amount)).collect()
    }

    pub(crate) fn total(&self) -> Amount {
        self.0.iter().fold(Amount::ZERO, |total, sum| crate::books::plus(total, sum.amount))
    }
}

/// Numbers from the first open grant to the last, those that are closed included: eight bytes each.
pub(crate) const GRANT_SPAN_MAX: usize = 1 << 25;

/// The open grants, found by number. Numbers rise by one and old ones close first, more or less, so a
/// double-ended queue is an exact index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    first: u64,
    queue: VecDeque<Option<Box<Grant>>>,
    count: usize,
}

impl Grants {
    /// The number the next grant will have. The first grant is 1: 0 means none.
    pub(crate) fn next_number(&self) -> u64 {
        self.first.max(1) + self.queue.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, mut grant: Grant) {
        grant.number = self.next_number();
        self.first = self.first.max(1);
        self.queue.push_back(Some(Box::new(grant)));
        self.count += 1;
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&Grant> {
        self.queue.get(self.index(number)?)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Grant> {
        let index = self.index(number)?;
        self.queue.get_mut(index)?.as_deref_mut()
    }

    /// Fetches where a grant is.
    pub(crate) fn prefetch_place(&self, number: u64) {
        let place = self.index(number).and_then(|index| self.queue.get(index));
        place.into_iter().for_each(table::prefetch);
    }

    /// Fetches a grant.
    pub(crate) fn prefetch(&self, number: u64) {
        if let Some(grant) = self.get(number) {
            table::prefetch(&grant.slot);
            table::prefetch(&grant.days);
            table::prefetch(&grant.out);
            table::prefetch(&grant.marks);
            table::prefetch(&grant.billing);
            table::prefetch(&grant.expired.until_ms);
        }
    }

    pub(crate) fn close(&mut self, number: u64) -> Option<Box<Grant>> {
        let index = self.index(number)?;
        let grant = self.queue.get_mut(index)?.take()?;
        self.count -= 1;
        while self.queue.front().is_some_and(Option::is_none) {
            self.queue.pop_front();
            self.first += 1;
        }
        Some(grant)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = (u64, &Grant)> {
        let first = self.first;
        let open = self.queue.iter().enumerate();
        open.filter_map(move |(i, grant)| Some((first + i as u64, grant.as_deref()?)))
    }

    /// Puts a grant that was read in its place. False if its number does not follow, or is too far from the first.
    pub(crate) fn place(&mut self, number: u64, grant: Grant) -> bool {
        let fits = number >= self.next_number() && self.skip_to(number);
        if fits {
            self.push(grant);
        }
        fits
    }

    /// Numbers up to this one were given to grants that are closed. False if that are more than can be.
    pub(crate) fn skip_to(&mut self, number: u64) -> bool {
        if self.count == 0 {
            self.queue.clear();
            self.first = number;
        }
        let span = number.checked_sub(self.first).and_then(|span| usize::try_from(span).ok());
        let Some(span) = span.filter(|span| *span < GRANT_SPAN_MAX) else { return false };
        if span > self.queue.len() {
            self.queue.resize_with(span, || None);
        }
        span == self.queue.len()
    }

    /// Is the first open grant so old that no number is left for another?
    pub(crate) fn span_full(&self) -> bool {
        self.queue.len() >= GRANT_SPAN_MAX
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first.max(1))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_per_hold() {
        let mut grant = Grant::new(0, 0, 1000, Keeps::default());
        let marks = [Mark::Confirmed, Mark::SettledLate, Mark::Released, Mark::Open, Mark::Settled];
        for seq in 0..2000 {
            let found = grant.find_page(seq);
            grant.page_mut(found, seq).0.set_mark(seq, marks[seq as usize % marks.len()]);
        }
        for seq in 0..2000 {
            assert_eq!(grant.mark(seq), marks[seq as usize % marks.len()], "hold {seq}");
        }
        assert_eq!(grant.mark(1 << 23), Mark::Open);
        assert_eq!(grant.pages(), 8);
    }

    #[test]
    fn billing_deadlines_are_rounded_up_never_down() {
        let grant = Grant::new(0, 0, 3_600_000, Keeps::default());
        for deadline in [0, 1, 56_249, 56_250, 1_700_000_000_250] {
            let billing = grant.billing_deadline_ms(deadline);
            assert!(billing >= deadline + 3_600_000 && billing < deadline + 3_600_000 + 56_250);
        }
    }

    #[test]
    fn grants_are_found_until_closed() {
        let mut grants = Grants::default();
        for i in 0..10 {
            assert_eq!(grants.next_number(), i + 1);
            grants.push(Grant::new(u32::try_from(i).unwrap(), 0, 1, Keeps::default()));
        }
        assert!(grants.get(0).is_none() && grants.get(11).is_none());
        grants.close(2);
        grants.close(1);
        assert_eq!(grants.get(3).map(|g| g.slot), Some(2));
        assert!(grants.get(2).is_none() && grants.close(2).is_none());
        assert_eq!((grants.len(), grants.next_number()), (8, 11));
    }
}
