//! What the abstractions of the gates cost beside the alternatives that were not taken.
//!
//! Each table says what was measured against what. The losers live only here.
#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people: no count here needs more than 52 bits"
)]

pub mod dispatch;
pub mod policies;
pub mod rounds;

/// How much work a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rounds of each comparison.
    pub rounds: usize,
    /// Calls of a policy, or requests, in one round.
    pub calls: u64,
    /// Counter increments that go into each store.
    pub increments: u64,
    /// Keys they are spread over.
    pub keys: u64,
    /// Point reads in one round.
    pub reads: u64,
}

impl Size {
    /// What the tables are made of.
    pub const FULL: Size =
        Size { rounds: 7, calls: 2_000, increments: 1_000_000, keys: 200_000, reads: 20_000 };
    /// The same work in small, to see that it runs.
    pub const SMOKE: Size =
        Size { rounds: 2, calls: 50, increments: 20_000, keys: 4_000, reads: 1_000 };
}

/// All tables, as Markdown.
///
/// # Errors
/// The stores that are measured could not be written or read.
pub fn tables(size: Size) -> Result<String, gate_store::StoreError> {
    let mut text = dispatch::policies(size);
    text += &dispatch::candidates(size);
    text += &policies::table(size)?;
    Ok(text)
}
