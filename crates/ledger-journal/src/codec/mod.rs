//! Records and parts of snapshots as messages of `schema/journal.xml`.
//!
//! - `record`: records, those that are written most often first. `part`: parts of snapshots. Here: what both have in common.

mod part;
mod record;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use ledger::{Amount, BudgetSpec, OnExpiry, Period, Status, WindowKind, WindowLimit, Windows};
use money::{Instant, Unit, Zone, ZoneCache};
use wire::journal::{self as schema, Budget, BudgetFlags, Periods, RunFlags, budget};
use wire::{EncodeError, Handle};

pub(crate) use part::part;
pub(crate) use record::record;

/// Something that is written as a message.
pub trait Message {
    /// Writes it to the front of a buffer of `RECORD_BYTES_MAX` bytes; returns its length.
    fn write(&self, buf: &mut [u8]) -> usize;
}

const FITS: &str = "texts and groups of a message are bounded where they are made";

/// In the order of the limits in a message.
const PERIODS: [(Period, Periods); 5] = [
    (Period::Minute, Periods::MINUTE),
    (Period::Hour, Periods::HOUR),
    (Period::Day, Periods::DAY),
    (Period::Week, Periods::WEEK),
    (Period::Month, Periods::MONTH),
];

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
    let daily = spec.windows.day_limit();
    if daily.is_some() {
        flags = flags.with(BudgetFlags::HAS_DAILY);
    }
    if spec.parent.is_some() {
        flags = flags.with(BudgetFlags::HAS_PARENT);
    }
    if spec.on_expiry == OnExpiry::Hold {
        flags = flags.with(BudgetFlags::HOLDS);
    }
    let (mut limits, mut windows, mut buckets) = ([0; 5], Periods::NONE, Periods::NONE);
    for (at, (period, flag)) in PERIODS.into_iter().enumerate() {
        let Some(window) = spec.windows.get(period) else { continue };
        let is_bucket = window.kind == WindowKind::Bucket;
        if period == Period::Day && !is_bucket {
            continue;
        }
        (limits[at], windows) = (window.limit.get(), windows.with(flag));
        buckets = if is_bucket { buckets.with(flag) } else { buckets };
    }
    let [minute, hour, day, week, month] = limits;
    let block = budget::Block::new(
        spec.id,
        spec.parent.unwrap_or(0),
        spec.limit.get(),
        daily.map_or(0, Amount::get),
        spec.start.ms(),
        spec.end.ms(),
        spec.unit.to_code(),
        spec.late_reserve_bp,
        status,
        flags,
        spec.tolerance_ppm,
        0,
        minute,
        hour,
        day,
        week,
        month,
        windows,
        buckets,
        spec.idle_ms,
    );
    let handle = spec.handle.as_ref().map_or("", Handle::as_str);
    Ok(budget::encode(buf, &block)?.zone(spec.zone.name())?.handle(handle)?.finish())
}

/// Budgets of earlier journals have none; an empty text says the same.
fn handle(view: &Budget<'_>) -> Result<Option<Handle>, String> {
    match view.handle() {
        None => Ok(None),
        Some(written) => match text(written)? {
            "" => Ok(None),
            written => Handle::parse(written).map(Some).map_err(|error| error.to_string()),
        },
    }
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

/// The windows of a budget. Before version 4 there was the day, and either the week or the month.
fn windows(view: &Budget<'_>) -> Result<Windows, String> {
    let flags = view.flags();
    let period = match (flags.caps_week(), flags.caps_month()) {
        (false, false) => None,
        (true, false) => Some(Period::Week),
        (false, true) => Some(Period::Month),
        (true, true) => return Err("a budget with a cap that is for weeks and for months".into()),
    };
    let cap = Amount::new(view.period_cap().unwrap_or(0));
    let daily = flags.has_daily().then(|| Amount::new(view.daily()));
    let mut windows = Windows::daily(daily);
    if let Some(period) = period {
        windows = windows.with(WindowLimit::fixed(period, cap));
    }
    let limits = [
        view.minute_limit(),
        view.hour_limit(),
        view.day_limit(),
        view.week_limit(),
        view.month_limit(),
    ];
    let meant = view.windows().unwrap_or(Periods::NONE);
    let buckets = view.buckets().unwrap_or(Periods::NONE);
    for ((period, flag), limit) in PERIODS.into_iter().zip(limits) {
        if !meant.contains(flag) {
            continue;
        }
        let is_bucket = buckets.contains(flag);
        let kind = if is_bucket { WindowKind::Bucket } else { WindowKind::Fixed };
        let limit = Amount::new(limit.unwrap_or(0));
        windows = windows.with(WindowLimit { period, kind, limit });
    }
    Ok(windows)
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
    Ok(BudgetSpec {
        id: view.budget_id(),
        unit: unit.ok_or("a budget without a unit")?,
        limit: Amount::new(view.lifetime_limit()),
        windows: windows(view)?,
        start: Instant::from_ms(view.start_ms()),
        end: Instant::from_ms(view.end_ms()),
        zone: zone(text(view.zone())?)?,
        status,
        parent: flags.has_parent().then(|| view.parent()),
        late_reserve_bp: view.late_reserve_bp(),
        on_expiry: if flags.holds() { OnExpiry::Hold } else { OnExpiry::Release },
        tolerance_ppm: view.tolerance_ppm().unwrap_or(0),
        idle_ms: view.idle_ms().unwrap_or(0),
        handle: handle(view)?,
    })
}
