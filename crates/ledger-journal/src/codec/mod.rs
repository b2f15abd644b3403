//! Records and parts of snapshots as messages of `schema/journal.xml`.
//!
//! - `record`: records, those that are written most often first. `part`: parts of snapshots. Here: what both have in common.

mod part;
mod record;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use ledger::{Amount, BudgetSpec, OnExpiry, Period, PeriodCap, Status};
use money::{Instant, Unit, Zone, ZoneCache};
use wire::EncodeError;
use wire::journal::{self as schema, Budget, BudgetFlags, RunFlags, budget};

pub(crate) use part::part;
pub(crate) use record::record;

/// Something that is written as a message.
pub trait Message {
    /// Writes it to the front of a buffer of `RECORD_BYTES_MAX` bytes; returns its length.
    fn write(&self, buf: &mut [u8]) -> usize;
}

const FITS: &str = "texts and groups of a message are bounded where they are made";

fn run_flags(win_notices: bool) -> RunFlags {
    if win_notices { RunFlags::NONE } else { RunFlags::NO_WIN_NOTICES }
}

/// Runs of the first journals are without flags: whoever won said so.
fn win_notices(flags: Option<RunFlags>) -> bool {
    !flags.unwrap_or(RunFlags::NONE).no_win_notices()
}

fn write_budget(spec: &BudgetSpec, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let status = match spec.status {
        Status::Active => schema::Status::Active,
        Status::Paused => schema::Status::Paused,
        Status::Ended => schema::Status::Ended,
    };
    let mut flags = BudgetFlags::NONE;
    if spec.daily.is_some() {
        flags = flags.with(BudgetFlags::HAS_DAILY);
    }
    if spec.parent.is_some() {
        flags = flags.with(BudgetFlags::HAS_PARENT);
    }
    if spec.on_expiry == OnExpiry::Hold {
        flags = flags.with(BudgetFlags::HOLDS);
    }
    if let Some(PeriodCap { period, .. }) = spec.period {
        flags = flags.with(match period {
            Period::Week => BudgetFlags::CAPS_WEEK,
            Period::Month => BudgetFlags::CAPS_MONTH,
        });
    }
    let block = budget::Block::new(
        spec.id,
        spec.parent.unwrap_or(0),
        spec.limit.get(),
        spec.daily.map_or(0, Amount::get),
        spec.start.ms(),
        spec.end.ms(),
        spec.unit.to_code(),
        spec.late_reserve_bp,
        status,
        flags,
        spec.tolerance_ppm,
        spec.period.map_or(0, |period| period.cap.get()),
    );
    Ok(budget::encode(buf, &block)?.zone(spec.zone.name())?.finish())
}

fn unknown(field: &str, code: u8) -> String {
    format!("{field} {code} is not one that this version knows")
}

#[inline(never)]
fn text(text: Result<&str, std::str::Utf8Error>) -> Result<&str, String> {
    text.map_err(|error| format!("a text is not UTF-8: {error}"))
}

thread_local! {
    /// Budgets share few zones, and to look one up in the database takes long.
    static ZONES: RefCell<ZoneCache> = RefCell::default();
}

fn zone(name: &str) -> Result<Zone, String> {
    ZONES.with_borrow_mut(|zones| zones.get(name)).map_err(|error| error.to_string())
}

fn spec(view: &Budget<'_>) -> Result<BudgetSpec, String> {
    let unit = Unit::from_code(view.unit()).map_err(|error| error.to_string())?;
    let status = match view.status() {
        Some(schema::Status::Active) => Status::Active,
        Some(schema::Status::Paused) => Status::Paused,
        Some(schema::Status::Ended) => Status::Ended,
        None => return Err(unknown("status", view.status_raw())),
    };
    let flags = view.flags();
    let period = match (flags.caps_week(), flags.caps_month()) {
        (false, false) => None,
        (true, false) => Some(Period::Week),
        (false, true) => Some(Period::Month),
        (true, true) => return Err("a budget with a cap that is for weeks and for months".into()),
    };
    let cap = Amount::new(view.period_cap().unwrap_or(0));
    Ok(BudgetSpec {
        id: view.budget_id(),
        unit: unit.ok_or("a budget without a unit")?,
        limit: Amount::new(view.lifetime_limit()),
        daily: flags.has_daily().then(|| Amount::new(view.daily())),
        period: period.map(|period| PeriodCap { period, cap }),
        start: Instant::from_ms(view.start_ms()),
        end: Instant::from_ms(view.end_ms()),
        zone: zone(text(view.zone())?)?,
        status,
        parent: flags.has_parent().then(|| view.parent()),
        late_reserve_bp: view.late_reserve_bp(),
        on_expiry: if flags.holds() { OnExpiry::Hold } else { OnExpiry::Release },
        tolerance_ppm: view.tolerance_ppm().unwrap_or(0),
    })
}
