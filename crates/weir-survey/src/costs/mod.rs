//! The cost sheet of a node: what is measured, and the rows that are made of it.
//!
//! ```text
//!  threads ── Laps ──▶ Sources ── Reading, twice ──▶ Measured ─┐
//!  rows.rs: what, where, why ──────────────────────────────────┼─▶ probe::sheet::Sheet ─▶ GET /costs, weir costs
//!  proof/costs: alternatives, instructions ── known.rs ────────┘
//!                      Sources, since the start ── metrics.rs ─▶ GET /metrics
//! ```
//!
//! `docs/measuring.md` says what the figures mean.

mod known;
pub(crate) mod metrics;
mod notes;
pub(crate) mod openmetrics;
mod rows;
mod sheet;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use probe::sheet::Sheet;
use probe::{Machine, Watch};
use weir_node::measured::{Reading, Sources};

use sheet::{Heading, Instruments};

/// The shortest measurement, seconds.
pub const SECONDS_MIN: f64 = 0.1;
/// The longest, seconds.
pub const SECONDS_MAX: f64 = 60.0;

/// How a sheet is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For programs.
    #[default]
    Json,
    /// For documents.
    Markdown,
    /// For Prometheus.
    Openmetrics,
    /// For a terminal.
    Text,
    /// For a wide terminal.
    Wide,
}

impl Format {
    /// What HTTP calls it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Markdown => "text/markdown; charset=utf-8",
            Format::Openmetrics => openmetrics::CONTENT_TYPE,
            Format::Text | Format::Wide => "text/plain; charset=utf-8",
        }
    }
}

/// Measures a running node. `wait` waits for so long, or says false because nobody wants to know any more.
pub(crate) fn measure(
    sources: &Sources,
    seconds: f64,
    wait: impl FnOnce(Duration) -> bool,
) -> Option<Sheet> {
    // First: they are found at their first use, which takes a while.
    let with = Instruments::get();
    let watch = Watch::start();
    let before = Reading::take(sources);
    if !wait(Duration::from_secs_f64(seconds)) {
        return None;
    }
    let measured = Reading::take(sources).since(&before);
    let heading = Heading {
        title: title(),
        machine: Machine::detect().to_string(),
        date: now(),
        notes: notes::of(&measured, &with, &watch.marks()),
    };
    Some(sheet::sheet(&measured, &with, heading))
}

/// The cost sheet of about the last minute, as JSON.
pub(crate) fn last_minute(metrics: &metrics::Metrics) -> serde_json::Value {
    let with = Instruments::get();
    let heading = Heading {
        title: title(),
        machine: Machine::detect().to_string(),
        date: now(),
        notes: Vec::new(),
    };
    let sheet = sheet::sheet(&metrics.last_minute(), &with, heading);
    sheet::json(&sheet)
}

fn title() -> String {
    format!("Cost sheet of weir {}", env!("CARGO_PKG_VERSION"))
}

/// A sheet in one of its forms.
pub(crate) fn write(sheet: &Sheet, format: Format) -> String {
    match format {
        Format::Json => sheet::json_text(sheet) + "\n",
        Format::Markdown => sheet::shown(sheet).markdown(),
        Format::Openmetrics => sheet::shown(sheet).open_metrics("weir_") + "# EOF\n",
        Format::Text => sheet::shown(sheet).table(false),
        Format::Wide => sheet::shown(sheet).table(true),
    }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    money::Instant::from_ms(since.as_secs().saturating_mul(1_000)).to_string()
}
