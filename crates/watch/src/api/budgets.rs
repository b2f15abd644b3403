//! Budgets are listed, and one is shown.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use super::answer::{BudgetPage, BudgetRow, BudgetWhole};
use super::extract::{Named, Params};
use super::params::BudgetName;
use super::types::{ListParams, PageParams, TableParams, page_max};
use crate::problem::Problem;
use crate::query::{Cursor, Filter, Query, Search, Sort, TEXT_MAX};

/// The question that three texts ask.
pub(super) fn query(q: &str, filter: &str, sort: &str) -> Result<Query, Problem> {
    for (field, text) in [("q", q), ("filter", filter), ("sort", sort)] {
        let length = text.chars().count();
        if length > TEXT_MAX {
            let (found, most) = (format!("{length} characters"), format!("at most {TEXT_MAX}"));
            return Err(Problem::malformed(field, &found, &most));
        }
    }
    Ok(Query { search: Search::new(q), filter: Filter::parse(filter)?, sort: Sort::parse(sort)? })
}

/// JSON of something that borrows.
pub(super) fn json(of: &impl serde::Serialize) -> Response {
    // Plain data with text keys: it cannot fail.
    let body = serde_json::to_vec(of).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Lists budgets: searched, filtered, sorted, page by page.
#[utoipa::path(get, path = "/v1/budgets", tag = "budgets", params(TableParams, PageParams),
    responses((status = 200, description = "A page of them", body = BudgetPage<'static>)))]
pub(super) async fn list(
    State(app): State<App>,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    let query = query(&params.q, &params.filter, &params.sort)?;
    let max = page_max(params.max)?;
    let cursor = params.cursor.map(|text| Cursor::decode(&text, &query.sort)).transpose()?;
    app.wait(move |parts| {
        let view = parts.board.view();
        let page = query.page(&view, cursor.as_ref(), max);
        json(&BudgetPage {
            as_of_ms: view.as_of_ms,
            figures_since_ms: view.figures_since_ms,
            matched: page.matched,
            budgets: page.rows.iter().map(|row| BudgetRow::new(*row)).collect(),
            next: page.next.map(|next| next.encode(&query.sort)),
        })
    })
    .await
}

/// Shows one budget, with its books, holds and configuration.
#[utoipa::path(get, path = "/v1/budgets/{id}", tag = "budgets",
    params(BudgetName),
    responses((status = 200, description = "The budget", body = BudgetWhole<'static>,
        headers(("ETag" = String, description = "Revision of its configuration, not of its balances")))))]
pub(super) async fn one(State(app): State<App>, name: Named) -> Result<Response, Problem> {
    app.wait(move |parts| {
        let id = parts.id_of(&name)?;
        let mut fresh = parts.fresh(id)?;
        Ok(([(header::ETAG, fresh.etag())], json(&parts.whole(&mut fresh))).into_response())
    })
    .await?
}
