//! The vault's keys and their use.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::budgets::json;
use super::extract::Params;
use super::types::page_max;
use crate::problem::Problem;
use crate::vault::{Vault, VaultPage};

/// Characters of a name, at most.
const NAME_MAX: usize = 512;

/// Which keys.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VaultParams {
    /// Keys behind this name: `next` of the page before.
    #[param(max_length = 512, example = "orders")]
    after: Option<String>,
    /// Keys of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    max: Option<u32>,
}

impl VaultParams {
    fn page(self) -> Result<VaultPage, Problem> {
        let after = self.after.unwrap_or_default();
        let count = after.chars().count();
        if count > NAME_MAX {
            let found = format!("{count} characters");
            return Err(Problem::malformed("after", &found, "the name of a key, at most 512"));
        }
        Ok(VaultPage { after, max: page_max(self.max)? })
    }
}

/// Shows the vault: sealed or not, its keys with their versions, what they were used for. No secret is in the answer.
#[utoipa::path(get, path = "/v1/vault", tag = "node", operation_id = "vault", params(VaultParams),
    responses((status = 200, description = "The vault, with a page of its keys", body = Vault)))]
pub(super) async fn vault(
    State(app): State<App>,
    Params(params): Params<VaultParams>,
) -> Result<Response, Problem> {
    let page = params.page()?;
    let vault = app.wait(move |parts| parts.node.vault(&page)).await?;
    Ok(json(&vault))
}
