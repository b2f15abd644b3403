//! Reports of what was counted, as the admin API asks for them.

use figures_store::{Ask, By, ByTime, Desk, Total};
use watch::Counted;
use watch::report::{Dimension, Report, ReportAsk, ReportError, ReportRow};

pub(super) fn report(desk: &Desk, ask: &ReportAsk) -> Result<Report, ReportError> {
    let has = |dimension| ask.by.contains(&dimension);
    let time = match (has(Dimension::Hour), has(Dimension::Day)) {
        (true, _) => ByTime::Hour,
        (_, true) => ByTime::Day,
        _ => ByTime::All,
    };
    let names =
        [Dimension::Exchange, Dimension::Place, Dimension::Creative, Dimension::Country].map(has);
    let by = By { campaign: has(Dimension::Campaign), names, time };
    let (from_ms, to_ms, budgets) = (ask.from_ms, ask.to_ms, ask.budgets.clone());
    let made = desk.report(&Ask { by, from_ms, to_ms, budgets }).map_err(|error| match error {
        figures_store::ReportError::TooLong => ReportError::TooLong(error.to_string()),
        error => ReportError::Unread(error.to_string()),
    })?;
    let row = |row: figures_store::Row| ReportRow {
        campaign: row.campaign,
        names: row.names,
        time_ms: row.time_ms,
        unit: row.unit,
        counted: counted(row.total),
    };
    Ok(Report {
        kept_from_ms: made.kept_from_ms,
        rows: made.rows.into_iter().map(row).collect(),
        totals: made.totals.into_iter().map(|(unit, total)| (unit, counted(total))).collect(),
    })
}

fn counted(total: Total) -> Counted {
    let Total { impressions, clicks, spend } = total;
    Counted { impressions, clicks: Some(clicks), spend }
}
