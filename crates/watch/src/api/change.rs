//! One budget is made, changed, paused or resumed.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::answer::{BudgetWhole, Reach};
use super::budgets::json;
use super::extract::{Asker, Body, Named, if_match, key_of};
use super::params::{BudgetName, Changed, IfMatch, IfMatchOptional, KeyOptional};
use super::types::{Create, NewBudget, Patch, Reasoned, fields};
use super::{App, Parts};
use crate::node::{Action, Edit, EditRows, EditedRow, Fields, RowChange, RowProblem, RowResult};
use crate::problem::{Kind, Problem};

impl Parts {
    /// Carries out a change of one budget, and answers the budget.
    fn edit_one(&self, edit: Edit) -> Result<(bool, Response), Problem> {
        let edited = self.node.edit(edit)?;
        let row = edited.rows.first();
        let row =
            row.ok_or_else(|| Problem::new(Kind::Internal, "the node said nothing of the budget"))?;
        let EditedRow { id, result, .. } = row;
        if let RowResult::Refused(problem) = result {
            return Err(problem.into());
        }
        let mut fresh = self.fresh(*id)?;
        let etag = fresh.etag();
        let whole = BudgetWhole { reach: self.reach(row), ..self.whole(&mut fresh) };
        let answer = ([(header::ETAG, etag)], json(&whole)).into_response();
        Ok((edited.replay, answer))
    }

    /// What a row means for the scopes of access tokens.
    pub(super) fn reach(&self, row: &EditedRow) -> Vec<Reach> {
        let handle = |fields: &Fields| {
            let text = fields.get("handle").and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_string)
        };
        let (before, after) = (handle(&row.before), handle(&row.after));
        if before == after || row.result != RowResult::Changed {
            return Vec::new();
        }
        let reach = self.node.reach(row.id, before.as_deref(), after.as_deref());
        reach.into_iter().map(Reach::from).collect()
    }

    /// The fields of a new budget, whose parent is named by its id as in the budgets file.
    fn fields_of(&self, budget: &NewBudget) -> Result<Fields, Problem> {
        let mut fields = fields(budget);
        if let Some(parent) = &budget.parent {
            let id = self.id_of(parent).map_err(|_| {
                let expected = "the id or the handle of a budget that is there";
                Problem::from(&RowProblem::Field(format!(
                    "parent: found {parent}, expected {expected}"
                )))
            })?;
            fields.insert("parent".into(), id.into());
        }
        Ok(fields)
    }

    /// Carries out a change of the budget that is meant, and answers it.
    fn edit_named(
        &self,
        name: &Named,
        edit: impl FnOnce(u64) -> Edit,
    ) -> Result<Response, Problem> {
        let id = self.id_of(name)?;
        self.edit_one(edit(id)).map(|(_, answer)| answer)
    }
}

/// A change of the fields of one budget.
fn edit(who: &Asker, why: &str, action: Action, change: RowChange) -> Edit {
    Edit {
        who: (&*who.0.name).into(),
        why: why.into(),
        action,
        rows: EditRows::Change(vec![change]),
        dry_run: false,
        confirm_large: false,
        key: None,
    }
}

/// Makes a budget. It lives until its flight is over.
#[utoipa::path(post, path = "/v1/budgets", tag = "changes", request_body = Create,
    params(KeyOptional),
    responses(
        (status = 201, description = "It is made", body = BudgetWhole<'static>, headers(
            ("ETag" = String, description = "Revision of its configuration"),
            ("Location" = String, description = "Where it is"))),
        (status = 409, description = "There is one with this id or handle, or the key was used for something else",
            body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The rules of budgets forbid it", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    who: Asker,
    headers: HeaderMap,
    body: Body<Create>,
) -> Result<Response, Problem> {
    let key = key_of(&headers)?.map(|key| (key, body.digest));
    let Create { budget, why } = body.value;
    let location = [(header::LOCATION, format!("/v1/budgets/{}", budget.id.0))];
    let (who, why) = ((&*who.0.name).into(), why.0.into());
    let made = app.wait(move |parts| {
        let rows = EditRows::Create(parts.fields_of(&budget)?);
        parts.edit_one(Edit {
            who,
            why,
            action: Action::Create,
            rows,
            dry_run: false,
            confirm_large: true,
            key,
        })
    });
    let (replay, answer) = made.await??;
    let answer = (StatusCode::CREATED, location, answer).into_response();
    Ok(super::bulk::marked(answer, replay))
}

/// Changes fields of a budget, if nobody else did since the caller looked.
#[utoipa::path(patch, path = "/v1/budgets/{id}", tag = "changes", request_body = Patch,
    params(BudgetName, IfMatch),
    responses(Changed,
        (status = 428, description = "If-Match is missing", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn patch(
    State(app): State<App>,
    name: Named,
    who: Asker,
    headers: HeaderMap,
    body: Body<Patch>,
) -> Result<Response, Problem> {
    let revision = if_match(&headers)?.ok_or_else(|| {
        Problem::new(
            Kind::IfMatch,
            "a change needs the header If-Match with the ETag of what was seen",
        )
    })?;
    let Patch { changes, confirm_large, why } = body.value;
    let fields = fields(&changes);
    if fields.is_empty() {
        return Err(Problem::malformed("changes", "no field", "at least one"));
    }
    let set = move |id| {
        let change = RowChange { id, fields, revision: Some(revision) };
        Edit { confirm_large, ..edit(&who, &why.0, Action::Set, change) }
    };
    app.wait(move |parts| parts.edit_named(&name, set)).await?
}

/// Pauses a budget. One that is paused stays so; nothing is recorded then.
#[utoipa::path(post, path = "/v1/budgets/{id}/pause", tag = "changes", request_body = Reasoned,
    params(BudgetName, IfMatchOptional), responses(Changed))]
pub(super) async fn pause(
    app: State<App>,
    name: Named,
    who: Asker,
    headers: HeaderMap,
    body: Body<Reasoned>,
) -> Result<Response, Problem> {
    switch(app, name, who, &headers, body, Action::Pause).await
}

/// Lets a paused budget go on.
#[utoipa::path(post, path = "/v1/budgets/{id}/resume", tag = "changes", request_body = Reasoned,
    params(BudgetName, IfMatchOptional), responses(Changed))]
pub(super) async fn resume(
    app: State<App>,
    name: Named,
    who: Asker,
    headers: HeaderMap,
    body: Body<Reasoned>,
) -> Result<Response, Problem> {
    switch(app, name, who, &headers, body, Action::Resume).await
}

async fn switch(
    State(app): State<App>,
    name: Named,
    who: Asker,
    headers: &HeaderMap,
    body: Body<Reasoned>,
    action: Action,
) -> Result<Response, Problem> {
    let (revision, fields) = (if_match(headers)?, status(action == Action::Pause));
    let set = move |id| edit(&who, &body.value.why.0, action, RowChange { id, fields, revision });
    app.wait(move |parts| parts.edit_named(&name, set)).await?
}

/// The fields of a pause, or of its end.
pub(super) fn status(paused: bool) -> Fields {
    let word = if paused { "paused" } else { "active" };
    Fields::from_iter([("status".to_string(), Value::from(word))])
}
