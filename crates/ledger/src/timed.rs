//! Named holds that end by time: the same amount of 1 to 8 budgets under one token, settled once. See docs/ledger.md.

use wire::Verdict;

use crate::{Amount, Handled, Hold, Kept, NamedError, NamedHold, Origin, WindowUsedUp};

/// A named hold with an end, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedHold {
    /// Whose it is, its key, and what all of its legs hold and have booked.
    pub hold: NamedHold,
    /// What each leg set aside when it was made.
    pub amount: Amount,
    /// Its end: from this instant on it is over, ms since 1970. Of one that was resolved: until when its first answer is known.
    pub until_ms: u64,
    /// What became of it: `Granted` until it is confirmed, `Confirmed`, `Expired` once its time was over; or `Released`, `Settled`,
    /// `SettledOver`, `SettledLate`. What an expired one holds is on the line of expired money.
    pub state: Verdict,
}

/// What a timed hold is from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedChange {
    /// It.
    pub row: TimedHold,
    /// It begins.
    pub opens: bool,
    /// It begins with the money of this hold of a grant, which is over; its token names the timed hold from then on.
    pub moved: Option<Hold>,
    /// The stamp that the request was judged by; of an end when it was found to be over.
    pub at_ms: u64,
    /// Who asked for it.
    pub origin: Origin,
    /// What repeats of the request are answered, where it had a key.
    pub kept: Option<Kept>,
}

/// What is asked of timed holds, beside what is asked of every hold: [`crate::ToBank::Resolve`].
#[derive(Clone, Debug, PartialEq)]
pub enum TimedAsk {
    /// Set the same amount aside for each of these budgets, or for none.
    Open {
        /// What it is called: [`Hold::of_key`].
        key: u128,
        /// Each once, none beside one above it, all of one unit.
        budgets: Box<[u64]>,
        /// More than nothing.
        amount: Amount,
        /// When it ends.
        until_ms: u64,
        /// `Granted`, `Confirmed`; `Settled`: it is spent at once.
        state: Verdict,
    },
    /// Give a hold that is alive a later end, and confirm it where that was not done: of a grant too, which makes it a timed one.
    Extend {
        /// The hold, from its token.
        hold: Hold,
        /// Its end, or a later one that it has. At most the run's billing time after the stamp.
        until_ms: u64,
        /// The end of a hold that is confirmed already stays.
        confirms: bool,
    },
}

/// A [`TimedAsk`] on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRequest {
    /// What is asked.
    pub ask: TimedAsk,
    /// When the worker read the request.
    pub at_ms: u64,
    /// Who asks.
    pub origin: Origin,
    /// Comes back unchanged.
    pub reply: u64,
    /// The hash of its key, where it has the claim of one, and what repeats get beside the verdict; of [`TimedAsk::Extend`] without the
    /// 8 bytes of the end, which the bank adds. Where something is booked the answer is kept with it and the claim is over.
    pub keyed: Option<(u128, Box<[u8]>)>,
}

/// What became of a [`TimedAsk`].
pub type TimedAnswer = Result<Timed, TimedRefusal>;

/// It is so now, or was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// What the hold is.
    pub verdict: Verdict,
    /// Its end.
    pub until_ms: u64,
    /// `Before`: nothing was booked now.
    pub judged: Handled,
}

/// Why nothing became of a [`TimedAsk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedRefusal {
    /// A limit has less left, or a budget is closed.
    Leg {
        /// Which budget, from 0 on.
        leg: usize,
        /// As in [`crate::NamedRefusal::Leg`].
        why: Verdict,
        /// What the leg could set aside now, or with every purse emptied where a limit has less left.
        left: Amount,
        /// The window that has no more; `None`: the limit of a life, or none.
        window: Option<WindowUsedUp>,
    },
    /// The budgets cannot be asked for together.
    Wrong(NamedError),
    /// Anything else: as a resolve is refused; or `Journal`, or `UnknownBudget` where the caller may not name all of its budgets.
    No(Verdict),
}

/// What a door must know of a timed hold that it is shown a token of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedFacts {
    /// What each leg set aside.
    pub amount: Amount,
    /// Its end.
    pub until_ms: u64,
}

impl Hold {
    /// The timed hold with this key, as its token has it: grant 0, which no grant has.
    #[must_use]
    pub fn of_key(node: u16, key: u128) -> Hold {
        let part = |shift: u32, bits: u32| {
            u64::try_from(key >> shift & ((1 << bits) - 1)).expect("at most 64 bits")
        };
        Hold {
            grant: 0,
            seq: u32::try_from(part(0, 24)).expect("24 bits"),
            node,
            deadline_ms: part(24, 40) * crate::token::DEADLINE_UNIT_MS,
            amount: Amount::new(part(64, 64).cast_signed()),
        }
    }

    /// Under which key it is kept where it is a timed hold: the one of [`Hold::of_key`], or that of a hold of a grant which became one.
    #[must_use]
    pub fn timed_key(&self) -> u128 {
        let low = u128::from(self.seq);
        if self.grant > 0 {
            return u128::from(self.grant) << 24 | low;
        }
        let units = u128::from(self.deadline_ms / crate::token::DEADLINE_UNIT_MS);
        u128::from(self.amount.get().cast_unsigned()) << 64 | units << 24 | low
    }
}

/// Keys that doors choose have this bit, so that they are none of a hold that was made from a grant.
pub const CHOSEN: u128 = 1 << 127;

impl From<NamedError> for TimedRefusal {
    fn from(error: NamedError) -> TimedRefusal {
        TimedRefusal::Wrong(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_token_and_is_none_of_a_grants_hold() {
        for key in [CHOSEN, u128::MAX, CHOSEN | 0x0123_4567_89ab_cdef_0011_2233_4455_6677] {
            let hold = Hold::of_key(7, key);
            assert_eq!((hold.grant, hold.node, hold.timed_key()), (0, 7, key));
            let ring = crate::KeyRing::new(7, 1, [9; 16]);
            let mut token = [[0; 32]];
            ring.write(&hold, &mut token[0]);
            ring.seal(&mut token, &[0], |token| token);
            assert_eq!(ring.open(&token[0]), Ok(hold));
        }
        let (grant, seq) = (crate::token::GRANT_MAX, crate::token::SEQ_MAX);
        let hold = Hold { grant, seq, ..Hold::of_key(7, 0) };
        assert_eq!((hold.timed_key() & CHOSEN, hold.timed_key() >> 64), (0, 0));
    }
}
