//! Reports: what was counted, by hour or day and by what is known of an impression.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use money::{Amount, Instant, Unit};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::answer::DecimalAmount;
use super::extract::Params;
use super::fix::check_span;
use super::table::{harmless, lines, ratio};
use super::types::Id;
use crate::model::Counted;
use crate::problem::{Kind, Problem};
use crate::report::{Dimension, Report, ReportAsk, ReportError, ReportRow};

/// Rows that are written in one go: the loop serves others in between.
const ROWS: usize = 512;
/// Calls that are made or wait for it, at most, until they are sent; one is made at a time.
const IN_LINE_MAX: usize = 5;
/// Budgets of one call, at most.
const BUDGETS_MAX: usize = 1_000;
/// Characters of their list: it stands in an address.
const BUDGETS_CHARS_MAX: usize = 8_192;
/// Columns behind those that were asked for.
const COUNTED: [&str; 7] = ["unit", "impressions", "clicks", "spent", "ctr", "cpm", "cpc"];

/// What a report is of.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportParams {
    /// What stands in a row, separated by commas, and in which order: `campaign`, `exchange`, `place`, `creative`, `country`, and one of `hour`
    /// and `day`; empty: a row for each unit
    #[serde(default = "by_campaign")]
    #[param(
        pattern = "^([a-z]+(,[a-z]+)*)?$",
        default = "campaign",
        example = "campaign,place,day"
    )]
    by: String,
    /// Hours that begin from then on, ms since 1970 UTC; all that are kept, where it is not said
    #[param(minimum = 0, maximum = 253_402_041_600_000_i64, example = 1_764_288_000_000_u64)]
    from_ms: Option<u64>,
    /// Hours that begin before; now, where it is not said
    #[param(minimum = 0, maximum = 253_402_041_600_000_i64, example = 1_764_374_400_000_u64)]
    to_ms: Option<u64>,
    /// Ids or handles of budgets, separated by commas, at most 1000: what they and those under them booked
    #[param(max_length = 8_192, pattern = "^[A-Za-z0-9._:@/,-]*$", example = "17,team-42/gpt-5")]
    budgets: Option<String>,
}

fn by_campaign() -> String {
    Dimension::Campaign.word().to_owned()
}

/// A row; what was not asked for is not in it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReportRow)]
pub(super) struct RowShown<'a> {
    /// The budget that booked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<&'a str>,
    /// The domain, or the bundle of an app; empty where the request said neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    creative: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<&'a str>,
    /// When the hour of the budget's zone began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-28T18:30:00Z")]
    hour: Option<String>,
    /// The date of the budget's zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-28")]
    day: Option<String>,
    #[serde(flatten)]
    counted: CountedShown,
}

/// What was counted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReportTotal)]
pub(super) struct CountedShown {
    /// Units are never added up.
    #[schema(example = "USD")]
    unit: &'static str,
    impressions: u64,
    clicks: u64,
    spent: DecimalAmount,
    /// Clicks per impression, rounded down; null without impressions.
    #[schema(required, example = "0.012500")]
    ctr: Option<String>,
    /// The price of a thousand impressions, rounded up to a base unit; null without any.
    #[schema(required)]
    cpm: Option<DecimalAmount>,
    /// The price of a click, rounded up to a base unit; null without any.
    #[schema(required)]
    cpc: Option<DecimalAmount>,
}

/// A report.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Report)]
#[allow(dead_code, reason = "it is written row by row")]
pub(super) struct ReportShown<'a> {
    /// When it was made: what was booked until then is in it.
    as_of_ms: u64,
    /// As it was asked for; null: from `kept_from_ms` on.
    #[schema(required)]
    from_ms: Option<u64>,
    to_ms: u64,
    /// Hours from then on are complete; null: nothing was counted yet.
    #[schema(required)]
    kept_from_ms: Option<u64>,
    by: Vec<&'static str>,
    rows: Vec<RowShown<'a>>,
    /// The sums of all rows, by unit.
    totals: Vec<CountedShown>,
}

/// Everything but the rows: these are between `by` and `totals`.
struct Made {
    as_of_ms: u64,
    ask: ReportAsk,
    report: Report,
    /// So that no more are kept in memory at once.
    _place: OwnedSemaphorePermit,
}

/// Who waits for a report: one is made at a time.
#[derive(Debug)]
pub(super) struct ReportQueue {
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

impl Default for ReportQueue {
    fn default() -> ReportQueue {
        let (places, turn) = (Semaphore::new(IN_LINE_MAX), Semaphore::new(1));
        ReportQueue { places: Arc::new(places), turn: Arc::new(turn) }
    }
}

impl ReportQueue {
    /// Takes a place in the line, and waits for the turn; fails at once where the line is full.
    async fn enter(&self) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let why = "reports are made one at a time, and four wait already: ask again soon";
            Problem::new(Kind::TooMany, why)
        })?;
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        Ok((place, turn.map_err(|_| Problem::stopping())?))
    }
}

async fn make(app: &App, params: ReportParams) -> Result<Made, Problem> {
    check_span(params.from_ms, params.to_ms)?;
    let (place, turn) = app.0.reports.enter().await?;
    let made = app.wait(move |parts| {
        // Kept until it is made, also for a caller that has gone meanwhile.
        let _turn = turn;
        let as_of_ms = parts.board.view().as_of_ms;
        let ask = ReportAsk {
            by: read_by(&params.by)?,
            from_ms: params.from_ms,
            to_ms: params.to_ms.unwrap_or(as_of_ms.saturating_add(1)),
            budgets: match &params.budgets {
                Some(text) => Some(read_budgets(text, &*parts.node)?),
                None => None,
            },
        };
        if let Some(from_ms) = ask.from_ms.filter(|from_ms| *from_ms >= ask.to_ms) {
            let expected = format!("a time before to_ms, {}", ask.to_ms);
            return Err(Problem::malformed("from_ms", &from_ms.to_string(), &expected));
        }
        let report = parts.node.report(&ask).map_err(|error| match error {
            ReportError::TooLong(why) => Problem::new(Kind::Unfit, why),
            ReportError::Unread(why) => Problem::new(Kind::Internal, why),
        })?;
        Ok(Made { as_of_ms, ask, report, _place: place })
    });
    made.await?
}

fn read_by(text: &str) -> Result<Vec<Dimension>, Problem> {
    let mut by = Vec::new();
    for word in text.split(',').filter(|_| !text.is_empty()) {
        let found = Dimension::ALL.into_iter().find(|one| one.word() == word);
        let expected = "campaign, exchange, place, creative, country, and hour or day";
        let wrong = |expected| Problem::malformed("by", &format!("{word:?}"), expected);
        let found = found.ok_or_else(|| wrong(expected))?;
        by.push(found);
        let times = [Dimension::Hour, Dimension::Day];
        if by.iter().filter(|one| **one == found).count() > 1 {
            return Err(wrong("each once"));
        }
        if times.iter().all(|time| by.contains(time)) {
            return Err(wrong("one of hour and day"));
        }
    }
    Ok(by)
}

fn read_budgets(
    text: &str,
    node: &dyn crate::Node,
) -> Result<std::collections::BTreeSet<u64>, Problem> {
    if text.chars().count() > BUDGETS_CHARS_MAX {
        return Err(Problem::malformed("budgets", "a longer text", "at most 8192 characters"));
    }
    if text.split(',').count() > BUDGETS_MAX {
        return Err(Problem::malformed("budgets", "more", "at most 1000 budgets"));
    }
    let id = |word: &str| {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let id = if is_number { word.parse().ok() } else { node.id_of(word) };
        id.ok_or_else(|| {
            Problem::malformed("budgets", &format!("{word:?}"), "ids or handles of budgets")
        })
    };
    text.split(',').map(id).collect()
}

fn counted(unit: Unit, counted: &Counted) -> CountedShown {
    CountedShown {
        unit: unit.as_str(),
        impressions: counted.impressions,
        clicks: counted.clicks.unwrap_or(0),
        spent: DecimalAmount::of(counted.spend, unit),
        ctr: counted.ctr_ppm().map(ratio),
        cpm: counted.cpm().map(|price| DecimalAmount::sum(price, unit)),
        cpc: counted.cpc().map(|price| DecimalAmount::sum(price, unit)),
    }
}

/// The hour or the date of a row.
fn time(row: &ReportRow, by: Dimension) -> Option<String> {
    let text = Instant::from_ms(row.time_ms?).to_string();
    Some(if by == Dimension::Day { text.chars().take(10).collect() } else { text })
}

fn shown<'a>(row: &'a ReportRow, by: &[Dimension]) -> RowShown<'a> {
    let [exchange, place, creative, country] = row.names.each_ref().map(|name| name.as_deref());
    let at = |dimension| by.contains(&dimension).then(|| time(row, dimension)).flatten();
    RowShown {
        campaign: row.campaign.map(Id),
        exchange,
        place,
        creative,
        country,
        hour: at(Dimension::Hour),
        day: at(Dimension::Day),
        counted: counted(row.unit, &row.counted),
    }
}

/// Adds up impressions, clicks and spend of campaigns, by what is asked for. Sums are those of the books, also over a crash; what was booked in
/// an hour of the budget's zone is in that hour.
#[utoipa::path(get, path = "/v1/report", tag = "budgets", operation_id = "report", params(ReportParams),
    responses(
        (status = 200, description = "The report", body = ReportShown<'static>),
        (status = 422, description = "It would have more than 1,000,000 rows",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn report(
    State(app): State<App>,
    Params(params): Params<ReportParams>,
) -> Result<Response, Problem> {
    let made = Arc::new(make(&app, params).await?);
    let Made { as_of_ms, ask, report, .. } = &*made;
    let text = |value: Option<u64>| value.map_or("null".to_owned(), |value| value.to_string());
    let by: Vec<&str> = ask.by.iter().map(|one| one.word()).collect();
    let totals: Vec<_> = report.totals.iter().map(|(unit, all)| counted(*unit, all)).collect();
    // Plain data: it cannot fail.
    let json = |value: Result<String, serde_json::Error>| value.unwrap_or_default();
    let head = format!(
        "{{\"as_of_ms\":{as_of_ms},\"from_ms\":{},\"to_ms\":{},\"kept_from_ms\":{},\"by\":{},\"rows\":[",
        text(ask.from_ms),
        ask.to_ms,
        text(report.kept_from_ms),
        json(serde_json::to_string(&by)),
    );
    let tail = format!("],\"totals\":{}}}", json(serde_json::to_string(&totals)));
    let parts = report.rows.len().div_ceil(ROWS);
    let rows = (0..parts).map(move |part| {
        let rows = made.report.rows.iter().enumerate().skip(part * ROWS).take(ROWS);
        let rows = rows.map(|(at, row)| {
            let comma = if at == 0 { "" } else { "," };
            let row = serde_json::to_string(&shown(row, &made.ask.by)).unwrap_or_default();
            format!("{comma}{row}")
        });
        rows.collect::<String>()
    });
    let all = std::iter::once(head).chain(rows).chain(std::iter::once(tail));
    let body = Body::from_stream(stream::iter(all.map(Ok::<_, Infallible>)));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Downloads the same rows as CSV.
#[utoipa::path(get, path = "/v1/report.csv", tag = "budgets", operation_id = "report_csv", params(ReportParams),
    responses(
        (status = 200, description = "A head and a line for each row", body = String, content_type = "text/csv",
            headers(("Content-Disposition" = String, description = "The name of the file"))),
        (status = 422, description = "It would have more than 1,000,000 rows",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn download(
    State(app): State<App>,
    Params(params): Params<ReportParams>,
) -> Result<Response, Problem> {
    let made = Arc::new(make(&app, params).await?);
    let name = format!("report-{}.csv", Instant::from_ms(made.as_of_ms)).replace(':', "");
    let by = made.ask.by.iter().map(|one| one.word());
    let head = lines(std::iter::once(by.chain(COUNTED).map(String::from).collect()));
    let parts = made.report.rows.len().div_ceil(ROWS);
    let rows = (0..parts).map(move |part| {
        let rows = made.report.rows.iter().skip(part * ROWS).take(ROWS);
        lines(rows.map(|row| line(row, &made.ask.by)))
    });
    let all = std::iter::once(head).chain(rows);
    let body = Body::from_stream(stream::iter(all.map(Ok::<_, Infallible>)));
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, body).into_response())
}

fn line(row: &ReportRow, by: &[Dimension]) -> Vec<String> {
    let name = |at: usize| harmless(row.names[at].as_deref().unwrap_or_default());
    let field = |dimension: &Dimension| match dimension {
        Dimension::Campaign => row.campaign.map(|id| id.to_string()).unwrap_or_default(),
        Dimension::Exchange => name(0),
        Dimension::Place => name(1),
        Dimension::Creative => name(2),
        Dimension::Country => name(3),
        Dimension::Hour | Dimension::Day => time(row, *dimension).unwrap_or_default(),
    };
    let (unit, counted) = (row.unit, &row.counted);
    let price = |price: Option<i128>| {
        price.map(|price| unit.format_sum(price).to_string()).unwrap_or_default()
    };
    let spent = |amount: Amount| unit.format(amount);
    let behind = [
        unit.as_str().to_string(),
        counted.impressions.to_string(),
        counted.clicks.unwrap_or(0).to_string(),
        spent(counted.spend),
        counted.ctr_ppm().map(ratio).unwrap_or_default(),
        price(counted.cpm()),
        price(counted.cpc()),
    ];
    by.iter().map(field).chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_row_is_each_once_and_of_one_time() {
        use Dimension::{Campaign, Day, Place};
        assert_eq!(read_by("").unwrap(), []);
        assert_eq!(read_by("day,place,campaign").unwrap(), [Day, Place, Campaign]);
        for wrong in ["x", "day,", ",", "day,day", "day,hour", "hour,place,day", "Campaign"] {
            assert_eq!(read_by(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }

    fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn one_report_is_made_at_a_time_and_few_wait() {
        let line = ReportQueue::default();
        let first = line.enter().await.unwrap();
        let mut second = Box::pin(line.enter());
        assert!(waits(second.as_mut()), "it is not its turn");
        let mut others: Vec<_> = (2..IN_LINE_MAX).map(|_| Box::pin(line.enter())).collect();
        for other in &mut others {
            assert!(waits(other.as_mut()));
        }
        assert_eq!(line.enter().await.unwrap_err().status, 429);
        let (place, turn) = first;
        drop(turn);
        let second = second.await.unwrap();
        assert_eq!(line.enter().await.unwrap_err().status, 429, "the first is not sent yet");
        drop((place, second));
        others.truncate(1);
        drop(others.pop().unwrap().await.unwrap());
    }

    #[test]
    fn a_row_is_the_same_in_both_formats() {
        let usd = Unit::parse("USD").unwrap();
        let counted = Counted { impressions: 3, clicks: Some(2), spend: Amount::new(2_000_001) };
        let row = ReportRow {
            campaign: Some(17),
            names: [None, Some("=news.example".into()), None, Some("".into())],
            time_ms: Some(1_795_890_600_000),
            unit: usd,
            counted,
        };
        let by = [Dimension::Hour, Dimension::Place, Dimension::Country, Dimension::Campaign];
        assert_eq!(
            line(&row, &by),
            [
                "2026-11-28T18:30:00Z",
                "'=news.example",
                "",
                "17",
                "USD",
                "3",
                "2",
                "2.000001",
                "0.666666",
                "666.667",
                "1.000001",
            ]
        );
        assert_eq!(
            serde_json::to_value(shown(&row, &by)).unwrap(),
            serde_json::json!({
                "campaign": "17", "place": "=news.example", "country": "", "hour": "2026-11-28T18:30:00Z", "unit": "USD",
                "impressions": 3, "clicks": 2, "spent": "2.000001", "ctr": "0.666666", "cpm": "666.667", "cpc": "1.000001",
            })
        );
        assert_eq!(line(&row, &[Dimension::Day])[0], "2026-11-28");
    }
}
