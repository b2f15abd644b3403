//! Whether this worker's calls gave money back lately: what the bank said before it heard of that is no last word. Whose money it is does not
//! matter: what comes back to one budget may be there for another below the same parent.

/// A call that has not asked yet trusts the bank's word when this time has passed since money came back, ms: the word is newer then.
const HEARD_MS: u64 = 50;

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// How often.
    count: u64,
    /// When the bank was last told of some, by the steady clock.
    at_ms: u64,
}

impl Returns {
    /// The bank is told of money that comes back.
    pub(super) fn note(&mut self, now_ms: u64) {
        (self.count, self.at_ms) = (self.count + 1, now_ms);
    }

    /// How often money came back before a question that is sent to the bank now.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Did money come back after the bank was asked? `asked` is [`Returns::count`] then; `None`: it was not asked for this call, and what it
    /// said to others may be older.
    pub(super) fn came_after(&self, asked: Option<u64>, now_ms: u64) -> bool {
        match asked {
            Some(asked) => self.count > asked,
            None => self.count > 0 && now_ms < self.at_ms + HEARD_MS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_makes_earlier_words_old() {
        let mut returns = Returns::default();
        assert!(!returns.came_after(None, 0) && !returns.came_after(Some(0), 0));
        let before = returns.count();
        returns.note(1_000);
        assert!(returns.came_after(Some(before), 9_000), "however long ago");
        assert!(!returns.came_after(Some(returns.count()), 1_000), "asked since");
        assert!(returns.came_after(None, 1_049) && !returns.came_after(None, 1_050));
    }
}
