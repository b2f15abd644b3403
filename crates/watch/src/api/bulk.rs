//! Many budgets are changed at once.

use std::collections::{BTreeMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use money::{Amount, LIMIT_MAX, Rounding, Unit};
use serde_json::Value;

use super::answer::{BulkAnswer, BulkRow, DecimalAmount, Effect, Outcome};
use super::budgets::{json, query};
use super::bulk_body::{BULK_MAX, Bulk, Factors, Select, SwitchAction, WindowFactors};
use super::change::status;
use super::extract::{Asker, Body, Named, required_key};
use super::fresh::etag;
use super::params::KeyUnlessDry;
use super::types::{Id, Why, fields};
use super::{App, Parts};
use crate::board::View;
use crate::node::{
    Action, Edit, EditRows, Edited, EditedRow, Fields, RowChange, RowProblem, RowResult,
    large_change,
};
use crate::problem::{Kind, Problem};
use crate::query::Row;

/// How long the dashboard offers to undo a change.
const UNDO_MS: u64 = 30_000;
/// The factors of a scale are parts of this.
const PPM: u64 = 1_000_000;

/// What is done to each budget.
#[derive(Clone, Debug)]
enum Each {
    Pause,
    Resume,
    /// Fields, and limits of windows by period.
    Set(Fields, Fields),
    Scale(Factors),
}

/// A bulk change, whichever it is.
struct Plan {
    each: Each,
    select: Select,
    expected: u32,
    dry_run: bool,
    confirm_large: bool,
    why: Why,
}

impl Plan {
    fn new(bulk: Bulk) -> Result<Plan, Problem> {
        let none = || Problem::malformed("changes", "no field", "at least one");
        match bulk {
            Bulk::Switch(b) => {
                let each = match b.action {
                    SwitchAction::Pause => Each::Pause,
                    SwitchAction::Resume => Each::Resume,
                };
                Ok(Plan {
                    each,
                    select: b.select,
                    expected: b.expected,
                    dry_run: b.dry_run,
                    confirm_large: true,
                    why: b.why,
                })
            }
            Bulk::Set(b) => {
                let mut each = fields(&b.changes);
                let window = each.remove("window");
                let windows = window.and_then(|of| of.as_object().cloned()).unwrap_or_default();
                if each.is_empty() && windows.is_empty() {
                    return Err(none());
                }
                let each = Each::Set(each, windows);
                Ok(Plan {
                    each,
                    select: b.select,
                    expected: b.expected,
                    dry_run: b.dry_run,
                    confirm_large: b.confirm_large,
                    why: b.why,
                })
            }
            Bulk::Scale(b) => {
                let factors = b.changes;
                let windows = factors.window_ppm.is_some_and(|of| of.each().next().is_some());
                let some = factors.limit_ppm.is_some() || factors.daily_ppm.is_some() || windows;
                let each = some.then_some(Each::Scale(factors)).ok_or_else(none)?;
                Ok(Plan {
                    each,
                    select: b.select,
                    expected: b.expected,
                    dry_run: b.dry_run,
                    // A factor is a hundred at most.
                    confirm_large: true,
                    why: b.why,
                })
            }
        }
    }

    /// The ids of the budgets, each once.
    fn ids(&self, parts: &Parts, view: &View) -> Result<Vec<u64>, Problem> {
        let ids: Vec<u64> = match &self.select {
            Select::Ids(by) => {
                let ids = parts.ids_of("select.ids", &by.ids)?;
                distinct("select.ids", &ids)?;
                ids
            }
            Select::Filter(by) => {
                let query = query(&by.q, &by.filter, "")?;
                let except =
                    distinct("select.except", &parts.ids_of("select.except", &by.except)?)?;
                let rows = view
                    .each()
                    .filter(|row| query.matches(*row) && !except.contains(&row.budget.id));
                rows.map(|row| row.budget.id).collect()
            }
        };
        if ids.len() > BULK_MAX {
            let (found, most) =
                (format!("{} budgets", ids.len()), format!("at most {BULK_MAX} in one change"));
            return Err(Problem::malformed("select", &found, &most));
        }
        if u32::try_from(ids.len()) != Ok(self.expected) {
            let (found, expected) = (ids.len().to_string(), self.expected.to_string());
            let mut problem = Problem::at(Kind::Moved, "expected", &found, &expected);
            problem.detail =
                format!("{expected} budgets were expected, {found} are selected now; look again");
            return Err(problem);
        }
        Ok(ids)
    }

    fn action(&self) -> Action {
        match self.each {
            Each::Pause => Action::Pause,
            Each::Resume => Action::Resume,
            Each::Set(..) | Each::Scale(_) => Action::Set,
        }
    }

    /// The outcome for one budget.
    fn change(&self, parts: &Parts, view: &View, id: u64) -> Result<RowChange, RowProblem> {
        let plain = |fields| RowChange { id, fields, revision: None };
        match &self.each {
            Each::Pause => Ok(plain(status(true))),
            Each::Resume => Ok(plain(status(false))),
            Each::Set(fields, windows) if windows.is_empty() => Ok(plain(fields.clone())),
            Each::Set(fields, limits) => {
                let (mut windows, revision) = parts.windows(id)?;
                for (period, limit) in limits {
                    set_limit(windows.entry(period).or_insert(Value::Null), limit.clone());
                }
                let mut fields = fields.clone();
                fields.insert("windows".into(), windows.into());
                Ok(RowChange { id, fields, revision: Some(revision) })
            }
            Each::Scale(factors) => {
                let row = view.row(id).ok_or(RowProblem::Unknown(id))?;
                let mut change = scale(row, *factors)?;
                let Some(factors) = factors.window_ppm else { return Ok(change) };
                let (windows, revision) = parts.windows(id)?;
                if revision != row.budget.revision && change.fields.is_empty() {
                    change.revision = Some(revision);
                }
                if let Some(windows) = scale_windows(windows, row.budget.unit, factors)? {
                    change.fields.insert("windows".into(), windows.into());
                }
                Ok(change)
            }
        }
    }
}

/// The ids as a set; one that appears twice is an error.
fn distinct(field: &str, ids: &[u64]) -> Result<HashSet<u64>, Problem> {
    let mut set = HashSet::with_capacity(ids.len());
    match ids.iter().find(|id| !set.insert(**id)) {
        Some(id) => Err(Problem::malformed(field, &format!("{id} twice"), "each id once")),
        None => Ok(set),
    }
}

/// The limits of a budget, multiplied and rounded down. Only if it is still at the revision that they were read at.
fn scale(row: Row<'_>, factors: Factors) -> Result<RowChange, RowProblem> {
    let mut fields = Fields::new();
    let (unit, state) = (row.budget.unit, row.state);
    let parts = [
        ("limit", Some(state.limit), factors.limit_ppm),
        ("daily", state.daily, factors.daily_ppm),
    ];
    for (name, amount, ppm) in parts {
        let (Some(amount), Some(ppm)) = (amount, ppm) else { continue };
        fields.insert(name.to_string(), scaled(unit, name, amount, ppm)?);
    }
    Ok(RowChange { id: row.budget.id, fields, revision: Some(row.budget.revision) })
}

/// An amount times a factor, rounded down, as text.
fn scaled(unit: Unit, name: &str, amount: Amount, ppm: u32) -> Result<Value, RowProblem> {
    let scaled = amount.checked_mul_ratio(ppm.into(), PPM, Rounding::Down);
    let scaled = scaled.filter(|scaled| scaled.is_limit()).ok_or_else(|| {
        let (now, most) = (unit.format(amount), unit.format(LIMIT_MAX));
        RowProblem::Field(format!("{name}: {now} times {ppm} millionths, expected at most {most}"))
    })?;
    Ok(Value::from(unit.format(scaled)))
}

/// Windows as configured, some of them with other limits. `None`: it has none of those.
fn scale_windows(
    mut windows: Fields,
    unit: Unit,
    factors: WindowFactors,
) -> Result<Option<Fields>, RowProblem> {
    let mut some = false;
    for (period, ppm) in factors.each() {
        let Some(window) = windows.get_mut(period) else { continue };
        let limit = window.get("limit").unwrap_or(window).as_str();
        let amount = limit.and_then(|limit| unit.parse_amount(limit).ok());
        let Some(amount) = amount else { continue };
        set_limit(window, scaled(unit, period, amount, ppm)?);
        some = true;
    }
    Ok(some.then_some(windows))
}

/// Windows as the budgets file has them: an object, or text as in a table, `month=1000.00;minute=10b`.
fn configured_windows(written: &Value) -> Fields {
    let text = match written {
        Value::Object(windows) => return windows.clone(),
        Value::String(text) => text,
        _ => return Fields::new(),
    };
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    let window = |(period, limit): (&str, &str)| {
        let limit = limit.trim();
        let window = match limit.strip_suffix('b') {
            Some(limit) => serde_json::json!({"limit": limit.trim(), "kind": "bucket"}),
            None => limit.into(),
        };
        (period.trim().to_string(), window)
    };
    parts.map(window).collect()
}

/// Another limit of a window, which keeps its kind: it is text, or an object with its kind.
fn set_limit(window: &mut Value, limit: Value) {
    match window {
        Value::Object(window) => {
            window.insert("limit".into(), limit);
        }
        plain => *plain = limit,
    }
}

impl Parts {
    /// The ids of budgets that are named one by one.
    fn ids_of(&self, field: &str, names: &[Named]) -> Result<Vec<u64>, Problem> {
        if names.len() > BULK_MAX || (names.is_empty() && field == "select.ids") {
            let found = format!("{} ids", names.len());
            return Err(Problem::malformed(field, &found, &format!("1 to {BULK_MAX}")));
        }
        names.iter().map(|name| self.id_of(name)).collect()
    }

    /// The windows of a budget as they are configured, and the revision that they are of at the latest.
    fn windows(&self, id: u64) -> Result<(Fields, u64), RowProblem> {
        let revision = self.node.revision(id).ok_or(RowProblem::Unknown(id))?;
        let fields = self.node.fields(id).ok_or(RowProblem::Unknown(id))?;
        Ok((fields.get("windows").map(configured_windows).unwrap_or_default(), revision))
    }

    fn bulk(
        &self,
        who: &str,
        plan: &Plan,
        key: Option<(Box<str>, [u8; 32])>,
    ) -> Result<Response, Problem> {
        if let Some((key, digest)) = &key {
            // Before anything is selected: by now the filter may match other budgets.
            if let Some(first) = self.node.replay(who, key, digest)? {
                return Ok(self.answer(first, Vec::new(), false));
            }
        }
        let view = self.board.view();
        let ids = plan.ids(self, &view)?;
        let mut changes = Vec::with_capacity(ids.len());
        let mut refused = Vec::new();
        for (place, id) in ids.into_iter().enumerate() {
            match plan.change(self, &view, id) {
                Ok(change) => changes.push(change),
                Err(problem) => refused.push((place, id, problem)),
            }
        }
        let edit = Edit {
            who: who.into(),
            why: (*plan.why.0).into(),
            action: plan.action(),
            rows: EditRows::Change(changes),
            dry_run: plan.dry_run,
            confirm_large: plan.confirm_large,
            key,
        };
        let edited = self.node.edit(edit)?;
        Ok(self.answer(edited, refused, plan.dry_run))
    }

    /// The answer, with the rows that were refused before the node was asked at their places.
    fn answer(
        &self,
        edited: Edited,
        refused: Vec<(usize, u64, RowProblem)>,
        dry_run: bool,
    ) -> Response {
        let view = self.board.view();
        let mut rows = edited.rows;
        for (place, id, problem) in refused {
            let revision = view.row(id).map_or(0, |row| row.budget.revision);
            let (before, after) = (Fields::new(), Fields::new());
            let row =
                EditedRow { id, result: RowResult::Refused(problem), before, after, revision };
            rows.insert(place.min(rows.len()), row);
        }
        let count = |wanted| rows.iter().filter(|row| outcome(&row.result) == wanted).count();
        let answer = BulkAnswer {
            record: edited.record.map(Id),
            dry_run,
            matched: rows.len(),
            changed: count(Outcome::Changed),
            unchanged: count(Outcome::Unchanged),
            refused: count(Outcome::Refused),
            undo_until_ms: now_ms().saturating_add(UNDO_MS),
            effect: effect(&view, &rows),
            rows: rows.into_iter().map(|row| self.bulk_row(row)).collect(),
        };
        marked(json(&answer), edited.replay)
    }

    fn bulk_row(&self, row: EditedRow) -> BulkRow {
        let unit = self.name_and_unit(row.id).and_then(|(_, unit)| Unit::parse(&unit).ok());
        let problem = match &row.result {
            RowResult::Refused(problem) => Some(problem.into()),
            _ => None,
        };
        BulkRow {
            id: Id(row.id),
            result: outcome(&row.result),
            etag: etag(row.revision),
            reach: self.reach(&row),
            large: unit.is_some_and(|unit| large_change(unit, &row.before, &row.after).is_some()),
            before: row.before,
            after: row.after,
            problem,
        }
    }

    /// Takes a record back, or says what that would come to.
    pub(super) fn undo(&self, edit: Edit) -> Result<Response, Problem> {
        let dry_run = edit.dry_run;
        let edited = self.node.edit(edit)?;
        Ok(self.answer(edited, Vec::new(), dry_run))
    }
}

/// An answer that was given before says so.
pub(super) fn marked(mut answer: Response, replay: bool) -> Response {
    if replay {
        answer.headers_mut().insert("idempotent-replay", HeaderValue::from_static("true"));
    }
    answer
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn outcome(result: &RowResult) -> Outcome {
    match result {
        RowResult::Changed => Outcome::Changed,
        RowResult::Unchanged => Outcome::Unchanged,
        RowResult::Refused(_) => Outcome::Refused,
    }
}

/// What the changed rows mean in money, by unit. The sums have more than 64 bits.
fn effect(view: &View, rows: &[EditedRow]) -> Vec<Effect> {
    let mut units: BTreeMap<&'static str, Effect> = BTreeMap::new();
    for edited in rows.iter().filter(|row| row.result == RowResult::Changed) {
        let Some(row) = view.row(edited.id) else { continue };
        let unit = row.budget.unit;
        let name = unit.as_str();
        let sum = units.entry(name).or_insert_with(|| Effect {
            unit: name,
            rows: 0,
            limit_before: DecimalAmount::sum(0, unit),
            limit_after: DecimalAmount::sum(0, unit),
            available_before: DecimalAmount::sum(0, unit),
            spend_minute: DecimalAmount::sum(0, unit),
        });
        let limit = |fields: &Fields| {
            if fields.is_empty() {
                // Before it was made, or after that was taken back, a budget may spend nothing.
                return Amount::ZERO;
            }
            let text = fields.get("limit").and_then(Value::as_str);
            text.and_then(|text| unit.parse_amount(text).ok()).unwrap_or(row.state.limit)
        };
        sum.rows += 1;
        sum.limit_before.add(limit(&edited.before));
        sum.limit_after.add(limit(&edited.after));
        sum.available_before.add(row.state.available);
        sum.spend_minute.add(row.state.spend_minute);
    }
    units.into_values().collect()
}

/// Pauses, resumes, sets or scales many budgets: by their ids, or by a filter. Each row stands for itself.
#[utoipa::path(post, path = "/v1/bulk", tag = "changes", request_body = Bulk,
    params(KeyUnlessDry),
    responses(
        (status = 200, description = "What became of each budget", body = BulkAnswer,
            headers(("Idempotent-Replay" = Option<String>, description = "`true`: this is the first answer again"))),
        (status = 404, description = "No budget has one of the handles; nothing is changed",
            body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Other budgets are selected than expected, or the key was used for something else",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn bulk(
    State(app): State<App>,
    Asker(who): Asker,
    headers: HeaderMap,
    body: Body<Bulk>,
) -> Result<Response, Problem> {
    let plan = Plan::new(body.value)?;
    let key = match plan.dry_run {
        true => None,
        false => Some((required_key(&headers)?, body.digest)),
    };
    Ok(app.wait(move |parts| parts.bulk(&who.name, &plan, key)).await??.into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(of: Value) -> Fields {
        configured_windows(&of)
    }

    #[test]
    fn windows_are_scaled_each_with_its_kind() {
        let windows = fields(json!("month=1000.00; minute = 10b;"));
        let object = json!({"month": "1000.00", "minute": {"limit": "10", "kind": "bucket"}});
        assert_eq!(Value::from(windows.clone()), object);
        let usd = Unit::parse("USD").unwrap();
        let factors = |json: &str| serde_json::from_str::<WindowFactors>(json).unwrap();
        let scaled = |json| scale_windows(windows.clone(), usd, factors(json));
        let halved = scaled(r#"{"minute":500000,"hour":500000}"#).unwrap().unwrap();
        let expected = json!({"month": "1000.00", "minute": {"limit": "5.00", "kind": "bucket"}});
        assert_eq!(Value::from(halved), expected);
        assert_eq!(scaled(r#"{"hour":500000}"#).unwrap(), None, "it has none of an hour");
    }

    #[test]
    fn a_limit_that_is_set_keeps_the_kind() {
        let mut windows = fields(json!({"minute": {"limit": "10", "kind": "bucket"}}));
        for period in ["minute", "week"] {
            set_limit(windows.entry(period).or_insert(Value::Null), json!("7.50"));
        }
        let expected = json!({"minute": {"limit": "7.50", "kind": "bucket"}, "week": "7.50"});
        assert_eq!(Value::from(windows), expected);
    }
}
