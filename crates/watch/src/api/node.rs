//! How the node itself is.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::App;
use super::answer::Me;
use super::exposition::Format;
use super::extract::Asker;
use crate::problem::{Kind, Problem};

/// Says who the token belongs to, and what it allows.
#[utoipa::path(get, path = "/v1/me", tag = "node", responses((status = 200, description = "Who asks", body = Me)))]
pub(super) async fn me(Asker(who): Asker) -> Json<Me> {
    Json(Me { name: who.name.to_string(), role: who.role })
}

/// Shows how the node stands: workers, doors, queues, journal, the proof that nothing is overspent.
#[utoipa::path(get, path = "/v1/node", tag = "node",
    responses((status = 200, description = "How the node stands", body = Object)))]
pub(super) async fn status(State(app): State<App>) -> Result<Json<Value>, Problem> {
    app.wait(|parts| parts.node.status()).await.map(Json)
}

/// Shows the cost sheet over the last minute.
#[utoipa::path(get, path = "/v1/costs", tag = "node",
    responses((status = 200, description = "What each part of the path costs", body = Object)))]
pub(super) async fn costs(State(app): State<App>) -> Result<Json<Value>, Problem> {
    app.wait(|parts| parts.node.costs()).await.map(Json)
}

/// Shows the configuration, secrets hidden.
#[utoipa::path(get, path = "/v1/config", tag = "node",
    responses((status = 200, description = "Sections with their keys", body = Object)))]
pub(super) async fn config(State(app): State<App>) -> Result<Json<Value>, Problem> {
    app.wait(|parts| parts.node.config()).await.map(Json)
}

/// All metrics, for Prometheus: OpenMetrics, or the older text format for who takes that only.
#[utoipa::path(get, path = "/metrics", tag = "node", responses(
    (status = 200, description = "The metrics", content(
        (String = "application/openmetrics-text"), (String = "text/plain"))),
))]
pub(super) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let text = app.wait(|parts| parts.node.metrics()).await?;
    Ok(exposed(&headers, text))
}

/// Metrics in the form that the caller takes.
pub(crate) fn exposed(headers: &HeaderMap, text: Bytes) -> Response {
    let format = Format::of(headers);
    ([(header::CONTENT_TYPE, format.media_type())], format.write(text)).into_response()
}

/// Says that the process lives.
#[utoipa::path(get, path = "/healthz", tag = "node",
    responses((status = 200, description = "It lives", body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Says whether the node answers asks, and seals what it answers.
#[utoipa::path(get, path = "/readyz", tag = "node",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    let ready = app.wait(|parts| parts.node.ready()).await?;
    ready.map(|()| "ready\n").map_err(|why| Problem::new(Kind::NotReady, why))
}
