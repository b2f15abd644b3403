//! How parameters that several calls share are described, each once. They are read by the types of `extract`.

#![allow(dead_code, reason = "only the descriptions are used")]

use utoipa::{IntoParams, IntoResponses};

use super::answer::BudgetWhole;
use crate::problem::Problem;

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct BudgetName {
    /// The budget's id, or its handle with %2F for each slash
    #[param(
        pattern = "^(0|[1-9][0-9]{0,19}|[A-Za-z0-9_:@-]{0,63}[A-Za-z_:@-][A-Za-z0-9._/:@-]{0,64})$",
        example = "17"
    )]
    id: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct RecordNumber {
    /// The record
    #[param(pattern = "^(0|[1-9][0-9]{0,19})$", example = "8812")]
    record: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct IfMatch {
    /// The ETag of what the caller saw
    #[param(rename = "If-Match", pattern = "^\"[0-9]{1,19}\"$", example = "\"9\"")]
    etag: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct IfMatchOptional {
    /// The ETag of what the caller saw
    #[param(rename = "If-Match", pattern = "^\"[0-9]{1,19}\"$")]
    etag: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct KeyUnlessDry {
    /// Needed unless it is a dry run. The same key and body within 24 hours do nothing more, and get the first answer again
    #[param(rename = "Idempotency-Key", pattern = "^[A-Za-z0-9-]{8,64}$")]
    key: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct KeyOptional {
    /// The same key and body within 24 hours do nothing more, and get the first answer again
    #[param(rename = "Idempotency-Key", pattern = "^[A-Za-z0-9-]{8,64}$")]
    key: Option<String>,
}

/// What becomes of a change of one known budget.
#[derive(IntoResponses)]
#[allow(clippy::large_enum_variant, reason = "never made")]
pub(super) enum Changed {
    /// The budget as it is now
    #[response(status = 200, headers(("ETag" = String, description = "Revision of its configuration")))]
    Now(BudgetWhole<'static>),
    /// Somebody changed it meanwhile
    #[response(status = 412, content_type = "application/problem+json")]
    Conflict(Problem),
    /// The rules of budgets forbid it
    #[response(status = 422, content_type = "application/problem+json")]
    Refused(Problem),
}
