//! Patience: how often and until when the bank is asked for the money of somebody who waits.

use crate::Till;
use ledger::Amount;

/// How often the bank is asked at once. What it says may have crossed an earlier filling, of which it did not know that it had not come yet.
const AT_ONCE_MAX: u8 = 4;
/// How long after each further question, ms.
const PAUSE_MS: u64 = 5;

/// Who waits for money, as far as the bank is concerned. Its time begins with its first question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillWait {
    time: Time,
    /// The bank is not asked before this, by the steady clock.
    again_ms: u64,
    /// How often it was asked.
    questions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// It does not run: so much is left, ms.
    Left(u64),
    /// It ends at this instant of the steady clock.
    Until(u64),
}

/// What becomes of somebody whose money is not at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The bank was asked: for the echo behind that, at most until this instant of the steady clock.
    ForBank(u64),
    /// The bank was asked often enough for now: until this instant of the steady clock.
    ForTime(u64),
    /// Waiting changes nothing: what is there decides.
    No,
}

impl FillWait {
    /// Somebody who waits so long at most, ms.
    #[must_use]
    pub fn lasting(ms: u64) -> FillWait {
        FillWait { time: Time::Left(ms), again_ms: 0, questions: 0 }
    }

    /// Waits for something else at this instant of the steady clock, which is none of its time. Afterwards the bank may be asked once more at
    /// once.
    pub fn stop(&mut self, steady_ms: u64) {
        if let Time::Until(until_ms) = self.time {
            self.time = Time::Left(until_ms.saturating_sub(steady_ms));
        }
        (self.again_ms, self.questions) = (0, self.questions.min(AT_ONCE_MAX - 1));
    }

    /// The bank was asked for it before.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.questions > 0
    }

    /// Asks with `ask`, if it may: true from there says that the bank was asked.
    pub fn ask(&mut self, steady_ms: u64, ask: impl FnOnce() -> bool) -> Waits {
        let until_ms = match self.time {
            Time::Left(ms) => steady_ms + ms,
            Time::Until(until_ms) => until_ms,
        };
        self.time = Time::Until(until_ms);
        if steady_ms >= until_ms {
            return Waits::No;
        }
        if steady_ms < self.again_ms {
            return Waits::ForTime(self.again_ms.min(until_ms));
        }
        if !ask() {
            return Waits::No;
        }
        self.questions = self.questions.saturating_add(1);
        if self.questions >= AT_ONCE_MAX {
            self.again_ms = steady_ms + PAUSE_MS;
        }
        Waits::ForBank(until_ms)
    }
}

impl Till {
    /// Asks the bank for the money of these asks of a budget where the purse has too little: [`ledger::Purses::call`]. Whoever waits for it says so
    /// with [`Till::echo`] or looks again; how often that makes sense [`FillWait`] knows. False: waiting would change nothing, or nothing
    /// can be sealed.
    pub fn call(&mut self, slot: u32, asks: impl IntoIterator<Item = Amount>) -> bool {
        self.sealing().is_ok() && self.call_bank(slot, asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bank_is_asked_at_once_a_few_times_and_then_now_and_then_until_the_time_is_up() {
        let mut wait = FillWait::lasting(20);
        let mut asked = Vec::new();
        for now_ms in [0, 0, 0, 0, 0, 4, 5, 6, 10, 14, 15, 19, 20, 30] {
            let waits = wait.ask(now_ms, || {
                asked.push(now_ms);
                true
            });
            let expected = match now_ms {
                20.. => Waits::No,
                _ if asked.last() == Some(&now_ms) => Waits::ForBank(20),
                _ => Waits::ForTime((now_ms / 5 * 5 + 5).min(20)),
            };
            if now_ms > 0 {
                assert_eq!(waits, expected, "at {now_ms}");
            }
        }
        assert_eq!(asked, [0, 0, 0, 0, 5, 10, 15]);
    }

    #[test]
    fn who_waited_for_something_else_has_its_time_and_asks_once_more_at_once() {
        let mut wait = FillWait::lasting(20);
        assert!(!wait.has_asked());
        while wait.ask(1, || true) == Waits::ForBank(21) {}
        assert_eq!(wait.ask(2, || true), Waits::ForTime(6));
        wait.stop(3);
        wait.stop(50);
        assert_eq!(wait.ask(72, || true), Waits::ForBank(90));
        assert_eq!(wait.ask(72, || true), Waits::ForTime(77), "once");
        assert!(wait.has_asked());
    }

    #[test]
    fn a_bank_that_has_no_more_ends_the_wait() {
        assert_eq!(FillWait::lasting(20).ask(0, || false), Waits::No);
    }
}
