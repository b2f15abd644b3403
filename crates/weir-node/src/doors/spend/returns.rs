//! Which money this worker's calls gave back lately: what the bank said of a budget before it heard of that is no last word.

/// Budgets share so many places: one that shares a place with another asks the bank once more than it must.
const PLACES: usize = 64;
/// A call that has not asked yet trusts the bank's word when this time has passed since money came back, ms: the word is newer then.
const HEARD_MS: u64 = 50;

/// What came back, by number.
#[derive(Debug)]
pub(super) struct Returns {
    /// Of all budgets.
    last: u64,
    /// The last of each place, and when it was told to the bank, by the steady clock.
    places: [(u64, u64); PLACES],
}

impl Default for Returns {
    fn default() -> Returns {
        Returns { last: 0, places: [(0, 0); PLACES] }
    }
}

impl Returns {
    /// The bank is told of money of a budget that comes back.
    pub(super) fn note(&mut self, slot: u32, now_ms: u64) {
        self.last += 1;
        self.places[place(slot)] = (self.last, now_ms);
    }

    /// What a question that is sent to the bank now comes behind.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Did money of the budget come back after the bank was asked? `asked` is [`Returns::last`] then; `None`: it was not asked for this
    /// call, and what it said to others may be older.
    pub(super) fn came_after(&self, slot: u32, asked: Option<u64>, now_ms: u64) -> bool {
        let (number, at_ms) = self.places[place(slot)];
        match asked {
            Some(asked) => number > asked,
            None => number > 0 && now_ms < at_ms + HEARD_MS,
        }
    }
}

fn place(slot: u32) -> usize {
    slot as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_makes_earlier_words_old() {
        let mut returns = Returns::default();
        assert!(!returns.came_after(7, None, 0) && !returns.came_after(7, Some(0), 0));
        let before = returns.last();
        returns.note(7, 1_000);
        assert!(returns.came_after(7, Some(before), 9_000), "however long ago");
        assert!(!returns.came_after(7, Some(returns.last()), 1_000), "asked since");
        assert!(returns.came_after(7, None, 1_049) && !returns.came_after(7, None, 1_050));
        assert!(!returns.came_after(8, Some(before), 1_000), "of another budget");
    }
}
