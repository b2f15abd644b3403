//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod corpus;
mod dictionaries;
mod fields;
mod framing;
mod groups;
mod made;
mod page_end;
mod rewriting;
mod validation;
mod ways;
