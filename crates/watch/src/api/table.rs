//! The view as a file for spreadsheets.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use money::{Amount, Instant};

use super::App;
use super::budgets::query;
use super::extract::Params;
use super::types::TableParams;
use crate::board::View;
use crate::model::Period;
use crate::problem::Problem;
use crate::query::{Row, index_ppm, verdict_word};
use crate::{Budget, Flags, Reason};

/// Budgets that are written in one go: the loop serves others in between.
const ROWS: usize = 512;

const HEAD: [&str; 36] = [
    "id",
    "handle",
    "name",
    "unit",
    "campaign",
    "status",
    "reason",
    "since",
    "limit",
    "spent",
    "debt",
    "held",
    "available",
    "window_start",
    "window_end",
    "window_budget",
    "window_planned",
    "window_spent",
    "index_ppm",
    "daily",
    "day_spent",
    "day_ends",
    "windows",
    "spend_minute",
    "top_refusal",
    "tz",
    "start",
    "end",
    "pacing",
    "parent",
    "flags",
    "impressions",
    "clicks",
    "ctr",
    "cpm",
    "cpc",
];

/// Downloads all budgets that match as CSV: amounts as decimal text in the budget's unit, windows as in a budgets file, times in RFC 3339, UTC.
#[utoipa::path(get, path = "/v1/budgets.csv", tag = "budgets", params(TableParams),
    responses((status = 200, description = "A head and a line for each budget", body = String, content_type = "text/csv",
        headers(("Content-Disposition" = String, description = "The name of the file")))))]
pub(super) async fn download(
    State(app): State<App>,
    Params(params): Params<TableParams>,
) -> Result<Response, Problem> {
    let query = query(&params.q, &params.filter, &params.sort)?;
    let selected = app.wait(move |parts| {
        let view = parts.board.view();
        // Places instead of rows: they outlive this call.
        let place = |row: &Row<'_>| {
            view.budgets.binary_search_by_key(&row.budget.id, |budget| budget.id).ok()
        };
        let places: Vec<usize> = query.all(&view).iter().filter_map(place).collect();
        (view, places)
    });
    let (view, places) = selected.await?;
    let name = format!("budgets-{}.csv", Instant::from_ms(view.as_of_ms)).replace(':', "");
    let parts = places.len().div_ceil(ROWS);
    let head = std::iter::once_with(|| lines([HEAD.map(String::from).to_vec()].into_iter()));
    let rows = (0..parts).map(move |part| {
        let places = places.iter().skip(part * ROWS).take(ROWS);
        lines(places.filter_map(|place| line(&view, *place)))
    });
    let body = Body::from_stream(stream::iter(head.chain(rows).map(Ok::<_, Infallible>)));
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, body).into_response())
}

pub(super) fn lines(records: impl Iterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for record in records {
        // Into memory: it cannot fail.
        let _ = writer.write_record(&record);
    }
    writer.into_inner().unwrap_or_default()
}

fn line(view: &View, place: usize) -> Option<Vec<String>> {
    let (budget, state) = (view.budgets.get(place)?, view.states.get(place)?);
    let amount = |amount: Amount| budget.unit.format(amount);
    let maybe = |value: Option<Amount>| value.map(amount).unwrap_or_default();
    let time = |ms: u64| Instant::from_ms(ms).to_string();
    let moment = |ms: Option<u64>| ms.map(time).unwrap_or_default();
    let reason = if state.reason == Reason::None { "" } else { state.reason.word() };
    let flags = Flags::ALL.iter().filter(|(bit, _)| state.flags.has(*bit)).map(|(_, name)| *name);
    let flags: Vec<&str> = flags.collect();
    let index = index_ppm(Row { budget, state, template: None });
    let counted = state.counted;
    let count = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
    let price = |price: Option<i128>| {
        price.map(|price| budget.unit.format_sum(price).to_string()).unwrap_or_default()
    };
    let ctr = counted.and_then(|counted| counted.ctr_ppm());
    Some(vec![
        budget.id.to_string(),
        harmless(budget.handle.as_deref().unwrap_or_default()),
        harmless(&budget.name),
        budget.unit.as_str().to_string(),
        if budget.campaign { "yes" } else { "no" }.to_string(),
        state.status.word().to_string(),
        reason.to_string(),
        time(state.since_ms),
        amount(state.limit),
        amount(state.spent),
        amount(state.debt),
        amount(state.held),
        amount(state.available),
        time(state.window_start_ms),
        time(state.window_end_ms),
        maybe(state.window_budget),
        maybe(state.window_planned),
        maybe(state.window_spent),
        index.map(|index| index.to_string()).unwrap_or_default(),
        maybe(state.daily),
        amount(state.day_spent),
        moment(state.day_ends_ms),
        windows(budget, state),
        amount(state.spend_minute),
        verdict_word(state.top_refusal).unwrap_or_default().to_string(),
        budget.zone.to_string(),
        moment(budget.start_ms),
        moment(budget.end_ms),
        budget.pacing.word().to_string(),
        budget.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        flags.join(" "),
        count(counted.map(|counted| counted.impressions)),
        count(counted.and_then(|counted| counted.clicks)),
        ctr.map(ratio).unwrap_or_default(),
        price(counted.and_then(|counted| counted.cpm())),
        price(counted.and_then(|counted| counted.cpc())),
    ])
}

/// The windows as a budgets file of this form has them, `minute=10.00;month=1000.00b`; a daily limit has a column of its own.
fn windows(budget: &Budget, state: &crate::State) -> String {
    let all = Period::ALL.iter().zip(&state.windows);
    let parts = all.filter_map(|(period, window)| {
        let window = window.as_ref()?;
        let is_daily = *period == Period::Day && !window.bucket && state.daily.is_some();
        let (limit, kind) =
            (budget.unit.format(window.limit), if window.bucket { "b" } else { "" });
        (!is_daily).then(|| format!("{}={limit}{kind}", period.word()))
    });
    parts.collect::<Vec<String>>().join(";")
}

/// Millionths as a decimal number.
pub(super) fn ratio(ppm: u64) -> String {
    format!("{}.{:06}", ppm / 1_000_000, ppm % 1_000_000)
}

/// A name that a spreadsheet would run as a formula gets a quote in front.
pub(super) fn harmless(name: &str) -> String {
    let formula = name.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula { format!("'{name}") } else { name.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_never_formulas() {
        let record = ["=1+1".to_string(), "a \"b\", c".to_string()];
        let record = record.iter().map(|name| harmless(name)).collect();
        let text = String::from_utf8(lines([record].into_iter())).unwrap();
        assert_eq!(text, "'=1+1,\"a \"\"b\"\", c\"\r\n");
    }
}
