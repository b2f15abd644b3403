//! What the log of edits holds: one entry per line.

use serde::{Deserialize, Serialize};
use watch::node::{Action, AuditSession, EditedRow, Fields, FileChange, RowProblem, RowResult};

use super::overlay::{Ended, Overlays};

/// One line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Entry {
    /// The first line.
    Head {
        /// Version of the format.
        format: u32,
        /// Number that the next edit has.
        next_record: u64,
    },
    /// Somebody edited budgets.
    Edit(Box<EditEntry>),
    /// The file had a newer word.
    Ended {
        /// When, ms since 1970 UTC.
        at_ms: u64,
        /// What ended.
        ended: Vec<Ended>,
    },
    /// The file names these budgets no more; what was changed of them waits.
    Away {
        /// Since when, ms since 1970 UTC.
        at_ms: u64,
        /// Of which budgets.
        ids: Vec<u64>,
    },
    /// The file names these budgets again; what waited is in force.
    Back {
        /// Of which budgets.
        ids: Vec<u64>,
    },
    /// All that holds at this point, whatever stands before.
    Overlays(Overlays),
}

/// An edit and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EditEntry {
    /// Its number.
    pub(super) record: u64,
    /// When, ms since 1970 UTC.
    pub(super) at_ms: u64,
    pub(super) who: String,
    pub(super) action: Action,
    pub(super) why: String,
    /// The edit that it takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undo_of: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Key>,
    /// The FIX session that it is about; it has no rows then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<AuditSession>,
    /// How many budgets the budgets file changed: the rows are the first of them, and nothing is on top of the file by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<FileChange>,
    /// All rows that were asked for, in their order.
    pub(super) rows: Vec<Row>,
}

impl EditEntry {
    /// With its line in the log.
    pub(super) fn written(self) -> (EditEntry, String) {
        // Copied it would be large.
        let entry = Entry::Edit(Box::new(self));
        let line = super::log::line(&entry);
        match entry {
            Entry::Edit(entry) => (*entry, line),
            _ => unreachable!("made above"),
        }
    }
}

/// What makes a repeat harmless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) key: String,
    /// Of the request, in hexadecimal digits.
    pub(super) digest: String,
}

impl Key {
    pub(super) fn new(key: &str, digest: [u8; 32]) -> Key {
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Key { key: key.into(), digest }
    }
}

/// One row of an edit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) id: u64,
    #[serde(default, skip_serializing_if = "Outcome::is_changed")]
    pub(super) outcome: Outcome,
    /// The changed fields; none: the budget is new.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub(super) before: Fields,
    /// None: the budget is removed.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub(super) after: Fields,
    /// What the file says of those fields that are other than it says.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub(super) said: Fields,
    pub(super) revision: u64,
}

/// What became of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    #[default]
    Changed,
    Unchanged,
    Unknown,
    Exists,
    HandleTaken {
        handle: String,
        holder: u64,
    },
    Revision {
        found: u64,
        expected: u64,
    },
    Field(String),
}

impl Outcome {
    pub(super) fn is_changed(&self) -> bool {
        *self == Outcome::Changed
    }
}

impl From<RowProblem> for Outcome {
    fn from(problem: RowProblem) -> Outcome {
        match problem {
            RowProblem::Unknown(_) => Outcome::Unknown,
            RowProblem::Exists(_) => Outcome::Exists,
            RowProblem::HandleTaken { handle, holder } => Outcome::HandleTaken { handle, holder },
            RowProblem::Revision { found, expected } => Outcome::Revision { found, expected },
            RowProblem::Field(text) => Outcome::Field(text),
        }
    }
}

impl From<Row> for EditedRow {
    fn from(row: Row) -> EditedRow {
        let Row { id, outcome, before, after, revision, .. } = row;
        let refused = RowResult::Refused;
        let result = match outcome {
            Outcome::Changed => RowResult::Changed,
            Outcome::Unchanged => RowResult::Unchanged,
            Outcome::Unknown => refused(RowProblem::Unknown(id)),
            Outcome::Exists => refused(RowProblem::Exists(id)),
            Outcome::HandleTaken { handle, holder } => {
                refused(RowProblem::HandleTaken { handle, holder })
            }
            Outcome::Revision { found, expected } => {
                refused(RowProblem::Revision { found, expected })
            }
            Outcome::Field(text) => refused(RowProblem::Field(text)),
        };
        EditedRow { id, result, before, after, revision }
    }
}
