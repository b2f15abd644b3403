//! What a caller asks for, as it was read: everything in place, nothing borrowed, so that a call can wait.

use wire::BudgetName;

use crate::text::Text;

/// The calls that move money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CallKind {
    /// Set an amount aside.
    Reserve,
    /// Keep a hold until its billing deadline.
    Confirm,
    /// Book what was spent.
    Settle,
    /// Give a hold back.
    Release,
    /// Reserve and settle in one.
    Spend,
}

impl CallKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [CallKind; 5] =
        [Self::Reserve, Self::Confirm, Self::Settle, Self::Release, Self::Spend];

    /// Its name: in paths, in the member `call` of a batch, in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Confirm => "confirm",
            Self::Settle => "settle",
            Self::Release => "release",
            Self::Spend => "spend",
        }
    }

    /// The call of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<CallKind> {
        CallKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Does it name a budget? The others name a hold.
    #[must_use]
    pub fn asks(self) -> bool {
        matches!(self, Self::Reserve | Self::Spend)
    }
}

/// Which budget, kept in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Its number.
    Id(u64),
    /// The same, written as a text.
    Digits(u64),
    /// Its text name; of the grammar of [`wire::Handle`].
    Handle(Text<{ wire::HANDLE_BYTES_MAX }>),
}

impl Budget {
    /// The name, kept; `None` where it is longer than any handle.
    #[must_use]
    pub fn of(name: BudgetName<'_>) -> Option<Budget> {
        Some(match name {
            BudgetName::Id(id) => Self::Id(id),
            BudgetName::Handle(handle) => Self::Handle(Text::new(handle)?),
        })
    }

    /// The name, as the rest of the node knows it.
    #[must_use]
    pub fn name(&self) -> BudgetName<'_> {
        match self {
            Self::Id(id) | Self::Digits(id) => BudgetName::Id(*id),
            Self::Handle(handle) => BudgetName::Handle(handle.as_str()),
        }
    }
}

/// What a repeat is known by: 128 bits of who asks under which `Idempotency-Key`, and 128 bits of what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The caller, the call and the key.
    pub key: u128,
    /// The bytes of the call.
    pub digest: u128,
}

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A budget to reserve from.
    Budget(Budget),
    /// A hold, by the 32 bytes of its token.
    Hold([u8; 32]),
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub kind: CallKind,
    /// Of what.
    pub subject: Subject,
    /// The amount as it was written; its meaning depends on the budget's unit. `None`: confirm and
    /// release, and a settle of the whole hold.
    pub amount: Option<Text<40>>,
    /// The code of the unit that the caller expects; `None`: whatever the budget has.
    pub unit: Option<[u8; 4]>,
    /// How long the hold lives at least, ms; `None`: as long as the node's holds do.
    pub hold_ms: Option<u32>,
    /// How long to wait for money that is not at hand, ms; `None`: as the door is configured.
    pub wait_ms: Option<u32>,
    /// Confirm at once: for work of unknown length.
    pub confirm: bool,
    /// What a repeat of it is known by.
    pub keyed: Option<Keyed>,
}
