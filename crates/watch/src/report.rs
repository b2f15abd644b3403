//! What reports are asked for by, and what they hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use money::Unit;

use crate::model::Counted;

/// What stands in a row, beside what was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// The budget that booked it.
    Campaign,
    /// The exchange.
    Exchange,
    /// The domain or bundle.
    Place,
    /// The creative.
    Creative,
    /// The country.
    Country,
    /// The hour of the budget's zone.
    Hour,
    /// The day there.
    Day,
}

impl Dimension {
    /// All of them.
    pub const ALL: [Dimension; 7] = [
        Dimension::Campaign,
        Dimension::Exchange,
        Dimension::Place,
        Dimension::Creative,
        Dimension::Country,
        Dimension::Hour,
        Dimension::Day,
    ];

    /// Its name, as a parameter, a field and a column.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Dimension::Campaign => "campaign",
            Dimension::Exchange => "exchange",
            Dimension::Place => "place",
            Dimension::Creative => "creative",
            Dimension::Country => "country",
            Dimension::Hour => "hour",
            Dimension::Day => "day",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportAsk {
    /// Each once, and not both hour and day.
    pub by: Vec<Dimension>,
    /// Hours that begin from then on; `None`: all that are kept.
    pub from_ms: Option<u64>,
    /// Hours that begin before.
    pub to_ms: u64,
    /// Of these budgets and those under them; `None`: of all.
    pub budgets: Option<BTreeSet<u64>>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRow {
    /// The budget, where it was asked for.
    pub campaign: Option<u64>,
    /// Exchange, place, creative and country, where they were asked for.
    pub names: [Option<Arc<str>>; 4],
    /// When the hour began, or midnight of the date as if that were one of UTC, where it was asked for.
    pub time_ms: Option<u64>,
    /// The unit.
    pub unit: Unit,
    /// What was counted.
    pub counted: Counted,
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Hours from then on are complete; `None`: nothing was counted yet.
    pub kept_from_ms: Option<u64>,
    /// The rows.
    pub rows: Vec<ReportRow>,
    /// Of all rows, by unit.
    pub totals: Vec<(Unit, Counted)>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// It would have too many rows.
    TooLong(String),
    /// It cannot be read.
    Unread(String),
}
