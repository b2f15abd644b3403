//! Holds with a name: money set aside for an order, without a clock, booked in parts. See docs/ledger.md.

use wire::Verdict;

use crate::books::SPENT;
use crate::{Amount, Door, Line};

/// Legs of a named hold at most.
pub const LEGS_MAX: usize = 8;
/// Bytes of its label at most.
pub const LABEL_BYTES_MAX: usize = 128;

/// What stands in a budget's books for a leg. Absolute: to say it again changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegAmounts {
    /// Set aside.
    pub hold: Amount,
    /// Booked, in the order of [`Line::SPENT`].
    pub spent: [Amount; SPENT],
}

impl LegAmounts {
    /// Each line that it is on, with what is there.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Line, Amount)> + use<> {
        let spent = Line::SPENT.into_iter().zip(self.spent);
        std::iter::once((Line::Held, self.hold)).chain(spent)
    }

    /// All that it books.
    #[must_use]
    pub fn booked(&self) -> i128 {
        self.spent.iter().map(|amount| i128::from(amount.get())).sum()
    }
}

/// A budget that an order draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedLeg {
    /// Its id.
    pub budget: u64,
    /// What is to stand in its books, and those above it.
    pub amounts: LegAmounts,
}

/// A named hold, or what is said of one: legs that are not named stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedHold {
    /// Whose it is.
    pub door: Door,
    /// What the door calls it.
    pub key: u128,
    /// What people call it, at most [`LABEL_BYTES_MAX`] bytes; that of the first time counts.
    pub label: Box<str>,
    /// At most [`LEGS_MAX`], each of another budget.
    pub legs: Vec<NamedLeg>,
}

/// What a door says of one of its named holds. Whose it is the bank knows, not the door's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSay {
    /// Which of the three it is.
    pub kind: NamedKind,
    /// See [`NamedHold::key`].
    pub key: u128,
    /// See [`NamedHold::label`]. Of an end: none.
    pub label: Box<str>,
    /// See [`NamedHold::legs`]. Of an end: none.
    pub legs: Vec<NamedLeg>,
}

/// What [`NamedSay`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedKind {
    /// [`crate::Bank::ask_named`].
    Ask,
    /// [`crate::Bank::state_named`].
    Fact,
    /// [`crate::Bank::end_named`].
    End,
}

/// What became of a [`NamedSay`]: done, or so before (false), or why not.
pub type NamedAnswer = Result<bool, NamedRefusal>;

impl NamedSay {
    /// The end of the hold with this key.
    #[must_use]
    pub fn end(key: u128) -> NamedSay {
        NamedSay { kind: NamedKind::End, key, label: "".into(), legs: Vec::new() }
    }
}

/// What is wrong with what is said of a named hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamedError {
    /// None, or too many.
    #[error("{0} legs: a named hold has 1 to {LEGS_MAX}, with those that it has already")]
    Legs(usize),
    /// A budget has one leg.
    #[error("two legs of budget {0}: add them up")]
    Twice(u64),
    /// There is no such budget.
    #[error("budget {0} is not known")]
    Unknown(u64),
    /// Amounts are absolute.
    #[error("an amount of budget {0} is below zero: say what is held and booked in all")]
    Negative(u64),
    /// The label is too long.
    #[error("a label of {0} bytes: at most {LABEL_BYTES_MAX}")]
    Label(usize),
    /// An ask raises holds only.
    #[error("an ask lowers a hold of budget {0}, or books: that is for a fact to say")]
    NotAsk(u64),
    /// More than can be counted.
    #[error("what budget {0} would have out or spent is more than can be counted")]
    TooMuch(u64),
    /// Something is set aside still.
    #[error("it holds money of budget {0} still: state that nothing is held before it ends")]
    Holds(u64),
    /// Money of the same limit, twice.
    #[error(
        "budget {0} is above another one of the ask, which counts in it anyway: name the lower one alone"
    )]
    Above(u64),
    /// Amounts of one hold are one amount.
    #[error("the budgets of one hold count in one unit: {0} counts in another")]
    Units(u64),
    /// What is said of a hold that ends by time.
    #[error(
        "it ends by time, and that does not follow from what it is, or is not said in this way"
    )]
    Timed,
    /// The records of its beginning or end are missing.
    #[error("it is there before it begins, or not there when it changes")]
    Missing,
}

/// Why an ask, a fact or an end changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedRefusal {
    /// It cannot be so.
    Wrong(NamedError),
    /// A limit has less left, or the budget is closed.
    Leg {
        /// Which leg, from 0 on.
        leg: usize,
        /// `Paused`, `NotStarted`, `Ended`, `Exhausted`, `DayExhausted`, `WindowExhausted`, or `PurseEmpty`: what is missing lies in
        /// purses, which are called back: ask again in a moment.
        why: Verdict,
        /// By how much the hold of the leg could rise now.
        left: Amount,
    },
    /// There is no room for another named hold.
    Busy,
    /// The journal cannot seal records at the moment: ask or state it again.
    Journal,
    /// The door keeps no named holds: see `weir_door::Door::NAMED`.
    NoDoor,
}

impl From<NamedError> for NamedRefusal {
    fn from(error: NamedError) -> NamedRefusal {
        NamedRefusal::Wrong(error)
    }
}
