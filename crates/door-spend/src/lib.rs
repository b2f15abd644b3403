//! The spend door: reserve, confirm, settle, release and spend as JSON over HTTP, for programs of any language.
//!
//! The door knows the form of calls and answers and no money rule. What it is asked it hands to a [`Gate`].
//!
//! ```text
//!  body ──▶ Cursor ── members, each once ──▶ Call ──▶ Gate::calls ── now, or later ──▶ Outcome ──▶ JSON, status
//! ```
//!
//! No amount is ever a float: a number of JSON is read as the text that it is. What is read, what is answered and what is counted
//! stands in `docs/spend.md`; for programs, at `/openapi.json`.

#![forbid(unsafe_code)]

mod answer;
mod call;
mod document;
mod door;
pub mod gate;
mod json;
mod key;
mod problem;
mod read;
mod text;
mod write;

pub use answer::{AnswerRoom, Limit, Outcome, Standing, refusal};
pub use call::{Budget, Call, CallKind, Keyed, Subject};
pub use door::{
    BUDGETS_PATH, Denied, Door, Form, Front, Gate, HEALTH_PATH, Passed, Settings, Taken,
};
pub use problem::{BadCall, Fault, Field, status_of};
pub use read::{Entry, ReadLimits, Reader, Sender};
pub use text::Text;
