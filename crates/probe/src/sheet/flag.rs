//! What a reader of a sheet should look at.

use std::fmt;

use super::Row;

/// What is wrong, or only to be known, of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// Nobody said why it may stay.
    NoJustification,
    /// The alternative is cheaper, and the interval of its measurement says so.
    AlternativeCheaper,
    /// It was compared with nothing. Not a fault: some things have no alternative.
    NoAlternative,
    /// It happened, and its mean is less than the timer can resolve.
    BelowResolution,
}

impl Flag {
    /// All of them.
    pub const ALL: [Flag; 4] = [
        Flag::NoJustification,
        Flag::AlternativeCheaper,
        Flag::NoAlternative,
        Flag::BelowResolution,
    ];

    /// What it is called in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flag::NoJustification => "no_justification",
            Flag::AlternativeCheaper => "alternative_cheaper",
            Flag::NoAlternative => "no_alternative",
            Flag::BelowResolution => "below_resolution",
        }
    }

    /// How a table marks it.
    #[must_use]
    pub fn mark(self) -> char {
        match self {
            Flag::NoJustification => '?',
            Flag::AlternativeCheaper => '!',
            Flag::NoAlternative => '-',
            Flag::BelowResolution => '<',
        }
    }

    /// Does a row have it?
    #[must_use]
    pub fn is_on(self, row: &Row) -> bool {
        match self {
            Flag::NoJustification => {
                row.justification.as_ref().is_none_or(|why| why.trim().is_empty())
            }
            Flag::AlternativeCheaper => row.alternative.as_ref().is_some_and(|a| a.is_cheaper()),
            Flag::NoAlternative => row.alternative.is_none(),
            Flag::BelowResolution => row.count > 0.0 && row.mean.is_below(),
        }
    }

    /// All marks of a row.
    pub(super) fn marks(row: &Row) -> String {
        row.flags().into_iter().map(Flag::mark).collect()
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Flag::NoJustification => "no justification",
            Flag::AlternativeCheaper => "the alternative is cheaper",
            Flag::NoAlternative => "compared with nothing",
            Flag::BelowResolution => "below what the timer resolves",
        })
    }
}
