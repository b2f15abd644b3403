//! The calls under `/v1`, and the document that describes them.

mod answer;
mod audit;
mod budgets;
mod bulk;
mod bulk_body;
mod change;
mod cluster;
mod costs;
mod document;
mod exposition;
mod extract;
mod fix;
mod fresh;
pub(crate) mod node;
mod params;
mod report;
mod series;
mod table;
mod types;
mod vault;

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::{Board, History, Node};

/// Bytes of a body, but for a bulk change.
const BODY_MAX: usize = 64 << 10;
/// Bytes of a bulk change: 100,000 ids of 20 digits fit.
const BULK_BODY_MAX: usize = 4 << 20;

/// The parts that every call needs.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

struct Parts {
    node: Arc<dyn Node>,
    board: Arc<Board>,
    history: Arc<History>,
    reports: report::ReportQueue,
}

impl App {
    pub(crate) fn new(node: Arc<dyn Node>, board: Arc<Board>, history: Arc<History>) -> App {
        App(Arc::new(Parts { node, board, history, reports: report::ReportQueue::default() }))
    }

    /// Does what may wait, on a thread that may wait.
    async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Parts) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let parts = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&parts)).await.map_err(|error| {
            if error.is_panic() {
                return Problem::new(
                    crate::problem::Kind::Internal,
                    "the call failed; see the log of the node",
                );
            }
            Problem::stopping()
        })
    }
}

/// All calls, and their description; `secured`: the door asks for tokens.
pub(crate) fn routes(app: App, version: &str, secured: bool) -> Router {
    let (routes, mut described) = described().split_for_parts();
    document::complete(&mut described, version, secured);
    let without = document::without_parameters(&described);
    let check = axum::middleware::from_fn_with_state(without, extract::no_parameters);
    // Plain data: it cannot fail.
    let text: Arc<str> = serde_json::to_string_pretty(&described).unwrap_or_default().into();
    let served = move || {
        let text = Arc::clone(&text);
        async move { ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response() }
    };
    let routes = routes.route("/v1/openapi.json", get(served)).route_layer(check);
    routes.merge(document::pages()).with_state(app)
}

/// The calls with what the document says of each.
fn described() -> OpenApiRouter<App> {
    let large = axum::extract::DefaultBodyLimit::max(BULK_BODY_MAX);
    OpenApiRouter::with_openapi(OpenApi::default())
        .routes(routes!(node::me))
        .routes(routes!(budgets::list, change::create))
        .routes(routes!(table::download))
        .routes(routes!(report::report))
        .routes(routes!(report::download))
        .routes(routes!(budgets::one, change::patch))
        .routes(routes!(change::pause))
        .routes(routes!(change::resume))
        .routes(routes!(series::history))
        .routes(routes!(series::refusals))
        .routes(routes!(audit::list))
        .routes(routes!(audit::one))
        .routes(routes!(audit::undo))
        .routes(routes!(fix::sessions))
        .routes(routes!(fix::messages))
        .routes(routes!(fix::orders))
        .routes(routes!(fix::kills, fix::kill, fix::enable))
        .routes(routes!(fix::sequence))
        .routes(routes!(fix::reset))
        .routes(routes!(fix::log_out))
        .routes(routes!(fix::resend))
        .routes(routes!(vault::vault))
        .routes(routes!(cluster::cluster))
        .routes(routes!(node::status))
        .routes(routes!(node::costs))
        .routes(routes!(costs::history))
        .routes(routes!(node::config))
        .routes(routes!(node::metrics))
        .routes(routes!(node::healthz))
        .routes(routes!(node::readyz))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_MAX))
        .merge(OpenApiRouter::new().routes(routes!(bulk::bulk)).layer(large))
}
