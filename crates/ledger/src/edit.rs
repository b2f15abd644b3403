//! What people change of budgets, and why: for the trail.

use crate::record::EditAction;

/// What somebody edits of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit<'t> {
    /// Number of the edit; one edit may be about many budgets.
    pub record: u64,
    /// The budget.
    pub budget: u64,
    /// What is done.
    pub action: EditAction,
    /// The fields that change, before, as a JSON object.
    pub before: &'t str,
    /// The same fields after.
    pub after: &'t str,
}

/// Who changes a configuration, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditReason {
    /// The name of who changes it.
    pub who: Box<str>,
    /// The reason that was given.
    pub why: Box<str>,
    /// What was asked for, budget by budget.
    pub edits: Vec<EditRecord>,
}

/// An [`Edit`] that owns its texts, for the way from who asks to the bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRecord {
    /// Number of the edit; one edit may be about many budgets.
    pub record: u64,
    /// The budget that changed.
    pub budget: u64,
    /// What was done.
    pub action: EditAction,
    /// The fields that changed as they were, as a JSON object.
    pub before: String,
    /// The same fields as they are now.
    pub after: String,
}

impl EditRecord {
    /// Returns what the bank notes of it.
    #[must_use]
    pub fn as_edit(&self) -> Edit<'_> {
        let EditRecord { record, budget, action, ref before, ref after } = *self;
        Edit { record, budget, action, before, after }
    }
}
