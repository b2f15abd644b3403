//! What people changed, and how it is taken back.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::answer::{BulkAnswer, Record, RecordPage};
use super::budgets::json;
use super::extract::{Asker, Body, Number, Params, required_key};
use super::params::{KeyUnlessDry, RecordNumber};
use super::types::{AuditParams, Id, Undo, page_max};
use super::{App, Parts};
use crate::node::{Action, Edit, EditRows};
use crate::problem::{Kind, Problem};

/// Lists what people changed, newest first.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(AuditParams),
    responses(
        (status = 200, description = "A page of records", body = RecordPage),
        (status = 404, description = "No budget has the handle", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    Params(params): Params<AuditParams>,
) -> Result<Response, Problem> {
    let max = page_max(params.max)?;
    let AuditParams { budget, cursor, .. } = params;
    let before = cursor.map(|id| id.0);
    app.wait(move |parts| {
        let budget = budget.map(|name| parts.id_of(&name)).transpose()?;
        // One more than is shown tells whether there is a next page.
        let mut records = parts.node.audit(budget, before, max.saturating_add(1));
        let more = records.len() > max;
        records.truncate(max);
        let next = records.last().filter(|_| more).map(|last| Id(last.record));
        let known = |id| parts.name_and_unit(id);
        let records = records.into_iter().map(|record| Record::of(record, &known)).collect();
        Ok(json(&RecordPage { records, next }))
    })
    .await?
}

/// Shows one record with all its rows.
#[utoipa::path(get, path = "/v1/audit/{record}", tag = "audit",
    params(RecordNumber),
    responses((status = 200, description = "The record", body = Record)))]
pub(super) async fn one(
    State(app): State<App>,
    Number(number): Number,
) -> Result<Response, Problem> {
    let shown = move |parts: &Parts| {
        let known = |id| parts.name_and_unit(id);
        parts.node.audit_record(number).map(|record| Record::of(record, &known))
    };
    let record = app.wait(shown).await?;
    let record = record
        .ok_or_else(|| Problem::new(Kind::Unknown, format!("there is no record {number}")))?;
    Ok(json(&record))
}

/// Takes a record back, where its budgets still are as it left them. That is a change of its own. Of a budget that the record made,
/// that is its end: it is granted nothing more, its books and its id stay, and to take that back makes it go on.
#[utoipa::path(post, path = "/v1/audit/{record}/undo", tag = "audit", request_body = Undo,
    params(RecordNumber, KeyUnlessDry),
    responses(
        (status = 200, description = "What became of each budget", body = BulkAnswer,
            headers(("Idempotent-Replay" = Option<String>, description = "`true`: this is the first answer again"))),
        (status = 409, description = "It was undone before, or the key was used for something else",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn undo(
    State(app): State<App>,
    Number(record): Number,
    Asker(who): Asker,
    headers: HeaderMap,
    body: Body<Undo>,
) -> Result<Response, Problem> {
    let Undo { dry_run, why } = body.value;
    let key = match dry_run {
        true => None,
        false => Some((required_key(&headers)?, body.digest)),
    };
    let edit = Edit {
        who: (&*who.name).into(),
        why: (*why.0).into(),
        action: Action::Undo,
        rows: EditRows::Undo(record),
        dry_run,
        confirm_large: true,
        key,
    };
    app.wait(move |parts| parts.undo(edit)).await?
}
