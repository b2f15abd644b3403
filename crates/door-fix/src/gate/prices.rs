//! What symbols cost, for the door of a node: the file of `fix.reference_prices` at the start. Later changes come over the desk.

use std::path::Path;
use std::sync::Arc;

use weir_budgets::budgets;
use weir_budgets::prices::Prices;
use weir_config::config::{Config, ConfigError};

use super::Sessions;
use crate::PriceTerms;

/// Reads the file, whole or not at all.
///
/// # Errors
/// What is wrong, a line each.
pub fn read(file: &str) -> Result<Prices, Vec<String>> {
    let path = Path::new(file);
    let read = budgets::bytes(path).and_then(|bytes| Prices::of(path, &bytes));
    read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// Returns what is wrong with the file that a configuration names.
pub(super) fn judge(config: &Config) -> Vec<ConfigError> {
    let file = &config.fix.reference_prices;
    let errors = if file.is_empty() { None } else { read(file).err() };
    let told = |text| ConfigError { place: "fix.reference_prices".into(), text };
    errors.into_iter().flatten().map(told).collect()
}

/// Says how prices are used, and takes those of the file before any order comes. A start goes on without it: cancels have to pass, and who watches
/// the file tells of it.
pub(super) fn begin(sessions: &mut Sessions, config: &Config) {
    let fix = &config.fix;
    let max_age_ms = i64::try_from(fix.reference_max_age_s.saturating_mul(1_000));
    let (collar_bp, max_age_ms) = (fix.collar_bp, max_age_ms.unwrap_or(i64::MAX));
    sessions.set_price_terms(PriceTerms { collar_bp, max_age_ms });
    if !fix.reference_prices.is_empty()
        && let Ok(prices) = read(&fix.reference_prices)
    {
        sessions.set_prices(Arc::new(prices));
    }
}
