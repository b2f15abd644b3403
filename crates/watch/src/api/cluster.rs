//! The log on other machines.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::budgets::json;
use crate::cluster::Cluster;
use crate::problem::{Kind, Problem};

/// Shows how the node stands in its cluster: who is the bank, where the log ends, and whether it answers.
#[utoipa::path(get, path = "/v1/cluster", tag = "node", operation_id = "cluster",
    responses(
        (status = 200, description = "Role, bank, position, lease and log", body = Cluster),
        (status = 404, description = "The log is on the own disk", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cluster(State(app): State<App>) -> Result<Response, Problem> {
    let none = || {
        Problem::new(Kind::Unknown, "the log of this node is on its own disk: cluster.log is empty")
    };
    app.wait(|parts| parts.node.cluster()).await?.map(|cluster| json(&cluster)).ok_or_else(none)
}
