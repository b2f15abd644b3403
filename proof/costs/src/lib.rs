//! What the abstractions of the gates cost beside the alternatives that were not taken.
//!
//! [`pairs`] are comparisons of two and more ways to do the same work. The losers live only here.
#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people: no count here needs more than 52 bits"
)]

pub mod pairs;
pub mod race;
pub mod report;

use thiserror::Error;

/// How much a comparison does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Sizes and rounds for figures that are to be believed.
    Full,
    /// As small as it gets: every line of code once. The figures mean nothing.
    Smoke,
}

impl Size {
    /// Picks one of two values.
    #[must_use]
    pub fn pick<T>(self, full: T, smoke: T) -> T {
        match self {
            Size::Full => full,
            Size::Smoke => smoke,
        }
    }
}

/// Why there are no figures.
#[derive(Debug, Error)]
pub enum Error {
    /// A comparison that compares nothing: a bug of this program.
    #[error(
        "`{other}` did not do the same work as `{first}`: their results differ, so their times say nothing"
    )]
    Unequal {
        /// The first way.
        first: String,
        /// The one that came to another result.
        other: String,
    },
    /// The machine did not give what a comparison needs: a file, a socket, a thread.
    #[error("{action}: {source}")]
    Io {
        /// What was tried, such as "writing target/pairs.md".
        action: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}
