//! The answer to one ask, or to one confirm, settle or release.

use std::fmt;

/// A verdict: a value, never an error. Codes up to 255 are the node's; beyond are the client's own.
///
/// A code that is in no schema known here is a no, and keeps its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Verdict(u16);

macro_rules! verdicts {
    ($($(#[$text:meta])* $name:ident = $of:ident;)*) => {
        impl Verdict {
            $($(#[$text])* pub const $name: Verdict = Verdict(wire::Verdict::$of.as_raw() as u16);)*
        }
    };
}

verdicts! {
    /// Reserved: the token stands for the hold.
    GRANTED = Granted;
    /// No budget with this id is configured.
    UNKNOWN_BUDGET = UnknownBudget;
    /// The amount is zero, negative or above the documented maximum.
    BAD_AMOUNT = BadAmount;
    /// The ask names another unit than the budget's.
    UNIT_MISMATCH = UnitMismatch;
    /// The budget's flight has not begun.
    NOT_STARTED = NotStarted;
    /// The budget's flight is over, or the budget was removed.
    ENDED = Ended;
    /// The owner paused the budget.
    PAUSED = Paused;
    /// The plan says not now.
    PACED = Paced;
    /// Less is left of the limit of the budget or of a parent than was asked.
    EXHAUSTED = Exhausted;
    /// Less is left of the daily limit of the budget or of a parent than was asked.
    DAY_EXHAUSTED = DayExhausted;
    /// The worker's share is used up for the moment.
    PURSE_EMPTY = PurseEmpty;
    /// Another member of the all-or-nothing pod was refused.
    POD_REFUSED = PodRefused;
    /// The request id was used before with other content.
    ID_REUSED = IdReused;
    /// A bounded queue or table is full.
    BUSY = Busy;
    /// The journal cannot seal records at the moment.
    JOURNAL = Journal;
    /// The node may not spend at present, as it is cut off from its log: another one may.
    CUT_OFF = CutOff;
    /// The hold now lives until its billing deadline.
    CONFIRMED = Confirmed;
    /// Booked within the hold.
    SETTLED = Settled;
    /// Booked; a part of it is above the hold.
    SETTLED_OVER = SettledOver;
    /// Booked in full on the late line: the hold was gone.
    SETTLED_LATE = SettledLate;
    /// The hold's money is free again.
    RELEASED = Released;
    /// The hold is confirmed, and has the end of the answer.
    EXTENDED = Extended;
    /// Too late to confirm or release.
    EXPIRED = Expired;
    /// The hold was settled before.
    ALREADY_SETTLED = AlreadySettled;
    /// The hold was released before.
    ALREADY_RELEASED = AlreadyReleased;
    /// The token's MAC is wrong.
    FORGED = Forged;
    /// The token was issued by another node.
    FOREIGN = Foreign;
    /// Nothing is known of the token any more.
    TOO_OLD = TooOld;
    /// The action code is not one of the node's schema.
    BAD_ACTION = BadAction;
}

impl Verdict {
    /// The client's own no: no answer came by the deadline. A grant that comes later is released by the client.
    pub const TIMEOUT: Verdict = Verdict(256);
    /// The client's own no: no node took the ask, or its connection was lost before the answer.
    pub const UNREACHABLE: Verdict = Verdict(257);
    /// Not answered while the caller waited; the client goes on repeating it.
    pub const PENDING: Verdict = Verdict(258);
    /// The client's own no: the node is too old to know budgets by their handles, or later ends.
    pub const UNSUPPORTED: Verdict = Verdict(259);

    /// The verdict of a code on the wire.
    #[inline]
    #[must_use]
    pub const fn of_code(code: u8) -> Verdict {
        Verdict(code as u16)
    }

    /// The code: the node's up to 255, the client's own beyond.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Is the money reserved?
    #[inline]
    #[must_use]
    pub const fn is_granted(self) -> bool {
        self.0 == Self::GRANTED.0
    }

    /// Was a confirm, settle, release or later end booked?
    #[must_use]
    pub const fn is_booked(self) -> bool {
        matches!(self.0, 32..40)
    }

    /// A resolve that got this is to be repeated.
    pub(crate) const fn is_passing(self) -> bool {
        matches!(self, Self::BUSY | Self::JOURNAL | Self::CUT_OFF)
    }

    /// The name, as in the node's metrics and logs; `unknown` for a code without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TIMEOUT => "timeout",
            Self::UNREACHABLE => "unreachable",
            Self::PENDING => "pending",
            Self::UNSUPPORTED => "unsupported",
            Self(code) => {
                let known = u8::try_from(code).ok().and_then(wire::Verdict::from_raw);
                known.map_or("unknown", wire::Verdict::name)
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_have_a_name_and_one_is_a_grant() {
        for code in 0..=u8::MAX {
            let verdict = Verdict::of_code(code);
            let is_known = wire::Verdict::from_raw(code).is_some();
            assert_eq!(verdict.name() != "unknown", is_known);
            assert_eq!(verdict.is_granted(), code == 0);
        }
        assert_eq!(Verdict::TIMEOUT.to_string(), "timeout");
        assert_eq!(format!("{:?}", Verdict::of_code(200)), "unknown(200)");
        assert!(!Verdict::UNREACHABLE.is_booked() && Verdict::SETTLED_LATE.is_booked());
        assert!(Verdict::JOURNAL.is_passing() && !Verdict::FOREIGN.is_passing());
        assert!(Verdict::CUT_OFF.is_passing());
    }
}
