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
    /// Keep a hold until a later end.
    Extend,
}

impl CallKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [CallKind; 6] =
        [Self::Reserve, Self::Confirm, Self::Settle, Self::Release, Self::Spend, Self::Extend];

    /// Its name: in paths, in the member `call` of a batch, in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Confirm => "confirm",
            Self::Settle => "settle",
            Self::Release => "release",
            Self::Spend => "spend",
            Self::Extend => "extend",
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

    /// The name for people.
    pub(crate) fn shown(&self) -> String {
        match self.name() {
            BudgetName::Id(id) => id.to_string(),
            BudgetName::Handle(handle) => handle.to_owned(),
        }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A budget to reserve from.
    Budget(Budget),
    /// Budgets to reserve the same amount from.
    Budgets(Box<[Budget]>),
    /// A hold, by the 32 bytes of its token.
    Hold([u8; 32]),
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// How long the hold lives from now on, ms; `None`: as confirmed holds do.
    pub confirm_ms: Option<u32>,
    /// What a repeat of it is known by.
    pub keyed: Option<Keyed>,
}

impl Call {
    /// The budgets that it names.
    #[must_use]
    pub fn budgets(&self) -> &[Budget] {
        match &self.subject {
            Subject::Budget(budget) => std::slice::from_ref(budget),
            Subject::Budgets(budgets) => budgets,
            Subject::Hold(_) => &[],
        }
    }

    /// Does it ask for what no grant can be made for: several budgets, or a hold with an end of its own?
    #[must_use]
    pub fn asks_for_row(&self) -> bool {
        matches!(self.subject, Subject::Budgets(_)) || self.confirm_ms.is_some() && self.kind.asks()
    }
}
