//! Whether calls gave money back lately, at this worker or another: what the bank said before it heard of that is no last word. Whose money it is does not
//! matter: what comes back to one budget may be there for another below the same parent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_door::WorkerCounters;

/// A call that has not asked yet trusts the bank's word when this time has passed since money came back, ms: the word is newer then.
const HEARD_MS: u64 = 50;

/// Slots of which it is remembered that the bank's word is newer than what came back; calls for others ask once more each.
const NEWER_MAX: usize = 4_096;

/// How long a call that does not wait trusts the word that the last doubt of it brought, ms, whatever came back since.
const TRUSTED_MS: u64 = 2_000;

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// Where the bank counts what calls at other workers gave back...
    counters: Arc<WorkerCounters>,
    /// ...and how much of that is noted.
    elsewhere: u64,
    /// How often.
    count: u64,
    /// When the bank was last told of some, by the steady clock.
    at_ms: u64,
    /// Slots whose money the bank was asked for since, and had no more.
    newer: HashSet<u32>,
    /// Slots of which calls that do not wait doubted the bank's word: [`Returns::count`] then, and when.
    doubted: HashMap<u32, (u64, u64)>,
}

impl Returns {
    pub(super) fn of(counters: Arc<WorkerCounters>) -> Returns {
        Returns { elsewhere: counters.returned.count(), counters, ..Returns::default() }
    }

    /// Looks at what calls at other workers gave back.
    pub(super) fn look(&mut self, now_ms: u64) {
        let elsewhere = self.counters.returned.count();
        if self.elsewhere != elsewhere {
            self.elsewhere = elsewhere;
            self.note(now_ms);
        }
    }

    /// The bank is told of money that comes back.
    pub(super) fn note(&mut self, now_ms: u64) {
        (self.count, self.at_ms) = (self.count + 1, now_ms);
        self.newer.clear();
    }

    /// The bank had no more for a slot when it was asked: `asked` is [`Returns::count`] then. Calls that come until money is given back
    /// trust its word.
    pub(super) fn note_no(&mut self, slot: u32, asked: u64) {
        if asked == self.count && self.newer.len() < NEWER_MAX {
            self.newer.insert(slot);
        }
    }

    /// How often money came back before a question that is sent to the bank now.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Did money come back after the bank was asked for a slot's? `asked` is [`Returns::count`] then; `None`: it was not asked for this call, and what it
    /// said to others may be older.
    pub(super) fn came_after(&self, asked: Option<u64>, slot: u32, now_ms: u64) -> bool {
        match asked {
            Some(asked) => self.count > asked,
            None => self.count > 0 && now_ms < self.at_ms + HEARD_MS && !self.newer.contains(&slot),
        }
    }

    /// Is the bank's last word of a slot to be doubted by a call that does not wait for another? Once after money came back: what the bank says
    /// to that is the word for the calls behind.
    pub(super) fn doubts(&mut self, slot: u32, now_ms: u64) -> bool {
        let trusted = |(count, at_ms): &(u64, u64)| {
            *count == self.count || now_ms < at_ms.saturating_add(TRUSTED_MS)
        };
        if self.count == 0
            || self.newer.contains(&slot)
            || self.doubted.get(&slot).is_some_and(trusted)
        {
            return false;
        }
        if self.doubted.len() >= NEWER_MAX {
            self.doubted.clear();
        }
        self.doubted.insert(slot, (self.count, now_ms));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_makes_earlier_words_old() {
        let mut returns = Returns::default();
        assert!(!returns.came_after(None, 7, 0) && !returns.came_after(Some(0), 7, 0));
        let before = returns.count();
        returns.note(1_000);
        assert!(returns.came_after(Some(before), 7, 9_000), "however long ago");
        assert!(!returns.came_after(Some(returns.count()), 7, 1_000), "asked since");
        assert!(returns.came_after(None, 7, 1_049) && !returns.came_after(None, 7, 1_050));
    }

    #[test]
    fn what_calls_at_other_workers_gave_back_is_seen_where_it_is_looked_for() {
        let counters = Arc::new(WorkerCounters::default());
        let mut returns = Returns::of(Arc::clone(&counters));
        returns.look(1_000);
        assert!(!returns.came_after(None, 7, 1_000));
        let asked = returns.count();
        counters.returned.note();
        returns.look(2_000);
        assert!(returns.came_after(None, 7, 2_000) && returns.came_after(Some(asked), 7, 2_000));
        returns.note_no(7, returns.count());
        returns.look(2_001);
        assert!(!returns.came_after(None, 7, 2_001), "asked since");
    }

    #[test]
    fn a_call_that_does_not_wait_doubts_a_word_once_after_money_came_back() {
        let mut returns = Returns::default();
        assert!(!returns.doubts(7, 0), "nothing came back");
        returns.note(1_000);
        assert!(returns.doubts(7, 90_000), "however long ago");
        assert!(!returns.doubts(7, 99_000) && returns.doubts(8, 99_000), "asked since");
        returns.note(99_000);
        assert!(returns.doubts(7, 99_001));
        returns.note(99_002);
        assert!(!returns.doubts(7, 101_000) && returns.doubts(7, 101_001), "now and then");
        returns.note(200_000);
        returns.note_no(7, returns.count());
        assert!(!returns.doubts(7, 300_000), "who waited asked since");
    }

    #[test]
    fn one_question_after_money_came_back_is_enough_for_all() {
        let mut returns = Returns::default();
        returns.note(1_000);
        let asked = returns.count();
        returns.note_no(7, asked);
        assert!(!returns.came_after(None, 7, 1_001) && returns.came_after(None, 8, 1_001));
        returns.note(1_002);
        returns.note_no(7, asked);
        assert!(returns.came_after(None, 7, 1_003), "asked before the second came back");
    }
}
