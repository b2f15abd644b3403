//! The exchange's own books: what it billed, by budget, beside what was acknowledged. The audit reads them as it reads
//! those of a batch run; an acknowledged notice does not tell its line, so all of them count as settled.

use std::sync::atomic::{AtomicI64, AtomicU64};

use crate::tally::{Tally, add, count};

use super::notices::{HttpNotice, NoticeKind};

/// Counters that are read while the run goes on.
#[derive(Debug)]
pub(crate) struct Books {
    /// Money by budget, answers, bytes, latency.
    pub tally: Tally,
    /// Bids received.
    pub bids: AtomicU64,
    /// Of them, won.
    pub wins: AtomicU64,
    /// Acknowledged billings, in micros.
    pub spend: AtomicI64,
}

impl Books {
    /// All zero, for this many budgets.
    pub(crate) fn new(budgets: usize) -> Self {
        Self {
            tally: Tally::new(budgets),
            bids: AtomicU64::default(),
            wins: AtomicU64::default(),
            spend: AtomicI64::default(),
        }
    }

    /// A notice is about to be called for the first time: from now on the node may book it.
    pub(crate) fn sending(&self, notice: &HttpNotice) {
        if let (NoticeKind::Bill, Some(index)) = (notice.kind, notice.budget) {
            add(&self.tally.cells[index].sent, notice.amount);
        }
    }

    /// A notice was answered for good: from now on the node must have booked it.
    pub(crate) fn acknowledged(&self, notice: &HttpNotice) {
        if notice.kind != NoticeKind::Bill {
            return;
        }
        count(&self.tally.settles, 1);
        add(&self.spend, notice.amount);
        let Some(index) = notice.budget else { return };
        let cell = &self.tally.cells[index];
        add(&cell.settled, notice.amount);
        if notice.late {
            add(&cell.debts_own, notice.amount);
        }
        // Last: a reader takes this one first, and so never sees more answered than settled.
        add(&cell.answered, notice.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::snapshot;

    fn notice(kind: NoticeKind, budget: Option<usize>, late: bool) -> HttpNotice {
        let (due_ns, number, attempts) = (0, 0, 1);
        HttpNotice {
            due_ns,
            number,
            kind,
            request: Vec::new(),
            amount: 7,
            budget,
            again: false,
            late,
            attempts,
        }
    }

    #[test]
    fn only_billings_are_money_and_repeats_are_none() {
        let books = Books::new(2);
        for kind in [NoticeKind::Win, NoticeKind::Again, NoticeKind::Loss, NoticeKind::Bill] {
            books.sending(&notice(kind, Some(1), false));
            books.acknowledged(&notice(kind, Some(1), false));
        }
        books.sending(&notice(NoticeKind::Bill, Some(1), true));
        books.acknowledged(&notice(NoticeKind::Bill, None, false));
        let sums = snapshot(std::slice::from_ref(&books.tally), 2);
        assert_eq!((sums[1].sent, sums[1].settled, sums[1].answered), (14, 7, 7));
        assert_eq!((sums[0].sent, sums[1].debts_own), (0, 0));
        assert_eq!(books.spend.into_inner(), 14);
    }

    #[test]
    fn a_billing_late_on_purpose_is_a_debt_of_our_own() {
        let books = Books::new(1);
        books.acknowledged(&notice(NoticeKind::Bill, Some(0), true));
        assert_eq!(snapshot(std::slice::from_ref(&books.tally), 1)[0].debts_own, 7);
    }
}
