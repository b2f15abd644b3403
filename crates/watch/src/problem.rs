//! Errors of the API in the form of RFC 9457.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::node::{EditError, RowProblem};

/// Media type of every error.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// Characters of a stranger's text that an error repeats.
const FOUND_MAX: usize = 80;
/// Bytes of a text that becomes the detail of an error.
const SAID_MAX: usize = 16 << 10;

macro_rules! kinds {
    ($($kind:ident = $status:ident, $word:literal, $title:literal;)*) => {
        /// What kind of error it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $(#[doc = $title] $kind,)* }

        impl Kind {
            /// All of them.
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            pub(crate) fn status(self) -> StatusCode {
                match self { $(Kind::$kind => StatusCode::$status,)* }
            }

            pub(crate) fn word(self) -> &'static str {
                match self { $(Kind::$kind => $word,)* }
            }

            pub(crate) fn title(self) -> &'static str {
                match self { $(Kind::$kind => $title,)* }
            }
        }
    };
}

kinds! {
    Malformed = BAD_REQUEST, "malformed", "cannot be read";
    Unauthorised = UNAUTHORIZED, "unauthorised", "no token, or an unknown one";
    Forbidden = FORBIDDEN, "forbidden", "not allowed";
    Unknown = NOT_FOUND, "unknown", "not found";
    Method = METHOD_NOT_ALLOWED, "method", "method not allowed";
    Slow = REQUEST_TIMEOUT, "slow", "the body did not come in time";
    Exists = CONFLICT, "exists", "exists already";
    KeyReused = CONFLICT, "key_reused", "the key was used before";
    Moved = CONFLICT, "moved", "the selection moved";
    Reloading = CONFLICT, "reloading", "a reload is under way";
    LoggedOn = CONFLICT, "logged_on", "the session has a connection";
    NotLoggedOn = CONFLICT, "not_logged_on", "the session is not logged on";
    Undone = CONFLICT, "undone", "undone already";
    Conflict = PRECONDITION_FAILED, "conflict", "changed meanwhile";
    TooLarge = PAYLOAD_TOO_LARGE, "too_large", "the body is too large";
    MediaType = UNSUPPORTED_MEDIA_TYPE, "media_type", "the body is not JSON";
    Host = MISDIRECTED_REQUEST, "host", "not a name of this door";
    Refused = UNPROCESSABLE_ENTITY, "refused", "refused by the rules of budgets";
    RefusedLines = UNPROCESSABLE_ENTITY, "refused_lines", "lines of the file are refused";
    Unfit = UNPROCESSABLE_ENTITY, "unfit", "a value that cannot be";
    NotReloaded = UNPROCESSABLE_ENTITY, "not_reloaded", "the configuration in force stays";
    IfMatch = PRECONDITION_REQUIRED, "if_match", "If-Match is missing";
    TooMany = TOO_MANY_REQUESTS, "too_many", "too many at once";
    Internal = INTERNAL_SERVER_ERROR, "internal", "an error of the node itself";
    NotReady = SERVICE_UNAVAILABLE, "not_ready", "the node is not ready";
    Journal = SERVICE_UNAVAILABLE, "journal", "the journal cannot seal";
    Pending = SERVICE_UNAVAILABLE, "pending", "written down, not in force yet";
    Unsure = SERVICE_UNAVAILABLE, "unsure", "known after the next start";
    Unfinished = SERVICE_UNAVAILABLE, "unfinished", "a part of it is booked";
    Stopping = SERVICE_UNAVAILABLE, "stopping", "the node is stopping";
    Other = BAD_REQUEST, "other", "an error";
}

/// An error: what was asked for, what is wrong with it, and what was expected (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(title = "Problem")]
pub(crate) struct Problem {
    /// Which kind of error, as a reference to these pages; ends in a word for programs (`#conflict`).
    #[serde(rename = "type")]
    #[schema(example = "/docs/api#malformed", pattern = "^/docs/api#[a-z_]+$")]
    pub(crate) kind: String,
    /// The kind of error, for people.
    #[schema(example = "cannot be read")]
    pub(crate) title: &'static str,
    /// The status of the answer; of a row of a bulk change, what the status would have been alone.
    #[schema(example = 400, minimum = 400, maximum = 599)]
    pub(crate) status: u16,
    /// What is wrong here, and what to do.
    pub(crate) detail: String,
    /// Which field, parameter or header is wrong.
    #[schema(required, value_type = Option<String>, example = "max")]
    pub(crate) field: Option<Box<str>>,
    /// What was found there.
    #[schema(required, value_type = Option<String>, example = "0")]
    pub(crate) found: Option<Box<str>>,
    /// The value that was expected there.
    #[schema(required, value_type = Option<String>, example = "a whole number from 1 to 1000")]
    pub(crate) expected: Option<Box<str>>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("/docs/api#{}", kind.word()),
            title: kind.title(),
            status: kind.status().as_u16(),
            detail: detail.into(),
            field: None,
            found: None,
            expected: None,
        }
    }

    /// With the place, what was found and what was expected, also as the detail.
    pub(crate) fn at(kind: Kind, field: &str, found: &str, expected: &str) -> Problem {
        let found = shorten(found);
        let mut problem =
            Problem::new(kind, format!("{field}: found {found}, expected {expected}"));
        problem.field = Some(field.into());
        problem.found = Some(found.into());
        problem.expected = Some(expected.into());
        problem
    }

    /// Something that cannot be read.
    pub(crate) fn malformed(field: &str, found: &str, expected: &str) -> Problem {
        Problem::at(Kind::Malformed, field, found, expected)
    }

    pub(crate) fn no_budget(id: u64) -> Problem {
        Problem::new(Kind::Unknown, format!("there is no budget {id}"))
    }

    pub(crate) fn stopping() -> Problem {
        Problem::new(Kind::Stopping, "the node is stopping; nothing was done")
    }

    /// Of an error that something else than the API made, such as the router: what its status says, and what `said` says
    /// where it said something.
    fn of_status(status: StatusCode, call: &Call, said: Option<String>) -> Problem {
        let Call { method, path } = call;
        let reason = status.canonical_reason().unwrap_or("an error");
        let (kind, detail) = match status {
            StatusCode::BAD_REQUEST => (Kind::Malformed, format!("{path}: {reason}")),
            StatusCode::NOT_FOUND => (
                Kind::Unknown,
                format!("there is no {path}; GET /v1/openapi.json lists what there is"),
            ),
            StatusCode::METHOD_NOT_ALLOWED => (
                Kind::Method,
                format!("{path} does not take {method}; the header Allow names what it takes"),
            ),
            StatusCode::PAYLOAD_TOO_LARGE => {
                (Kind::TooLarge, format!("{path}: the body is larger than this call allows"))
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                (Kind::MediaType, format!("{path}: expected Content-Type: application/json"))
            }
            StatusCode::TOO_MANY_REQUESTS => (
                Kind::TooMany,
                format!("{path}: too many callers ask for it at once; try again soon"),
            ),
            StatusCode::SERVICE_UNAVAILABLE => (Kind::NotReady, format!("{path}: {reason}")),
            status if status.is_server_error() => (Kind::Internal, reason.to_string()),
            _ => (Kind::Other, reason.to_string()),
        };
        Problem { status: status.as_u16(), ..Problem::new(kind, said.unwrap_or(detail)) }
    }
}

/// What was asked for, as far as errors tell it.
struct Call {
    method: String,
    path: String,
}

/// At most [`FOUND_MAX`] characters.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(FOUND_MAX) {
        None => text.to_string(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// An error of a call beside those of this crate, in the form of them all, with `members` of its own (RFC 9457,
/// section 3.2).
pub fn problem(kind: Kind, detail: String, mut members: Map<String, Value>) -> Response {
    let problem = Problem::new(kind, detail);
    if let Ok(Value::Object(own)) = serde_json::to_value(&problem) {
        members.extend(own);
    }
    problem.answer(serde_json::to_vec(&members).unwrap_or_default())
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        self.answer(body)
    }
}

impl Problem {
    fn answer(&self, body: Vec<u8>) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"weir\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        response
    }
}

impl From<&RowProblem> for Problem {
    fn from(problem: &RowProblem) -> Problem {
        let kind = match problem {
            RowProblem::Unknown(_) => Kind::Unknown,
            RowProblem::Exists(_) | RowProblem::HandleTaken { .. } => Kind::Exists,
            RowProblem::Revision { .. } => Kind::Conflict,
            RowProblem::Field(_) => Kind::Refused,
        };
        let mut answer = Problem::new(kind, problem.to_string());
        match problem {
            RowProblem::Revision { found, expected } => {
                answer.found = Some(format!("\"{found}\"").into());
                answer.expected = Some(format!("\"{expected}\"").into());
            }
            // The texts of the budgets file begin with the field.
            RowProblem::Field(text) => {
                let field = text.split(':').next().unwrap_or_default();
                let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
                answer.field =
                    Some(field).filter(|field| field.chars().all(is_word)).map(Into::into);
            }
            RowProblem::HandleTaken { handle, .. } => {
                answer.field = Some("handle".into());
                answer.found = Some(shorten(handle).into());
                answer.expected = Some("a handle that no live budget has".into());
            }
            RowProblem::Unknown(_) | RowProblem::Exists(_) => {}
        }
        answer
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Problem {
        let kind = match &error {
            EditError::KeyReused => Kind::KeyReused,
            EditError::NoRecord(_) => Kind::Unknown,
            EditError::Undone(..) => Kind::Undone,
            EditError::Journal(_) => Kind::Journal,
            EditError::Refused(_) => Kind::Refused,
            EditError::Pending { .. } => Kind::Pending,
            EditError::Unsure(_) => Kind::Unsure,
            EditError::Stopping => Kind::Stopping,
        };
        Problem::new(kind, error.to_string())
    }
}

/// Turns every error that has another form, whoever made it, into a [`Problem`]; its headers stay. So does a page: people read it.
pub(crate) async fn mend(request: Request, next: Next) -> Response {
    let path = shorten(request.uri().path());
    let call = Call { method: shorten(request.method().as_str()), path };
    let response = next.run(request).await;
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || is_kind(&response, PROBLEM_JSON) || is_kind(&response, "text/html") {
        return response;
    }
    let (mut old, body) = response.into_parts();
    let said = said(&old.headers, body).await;
    let (new, body) = Problem::of_status(status, &call, said).into_response().into_parts();
    old.headers.remove(header::CONTENT_LENGTH);
    old.headers.extend(new.headers);
    Response::from_parts(old, body)
}

/// The text of an error, where it has one.
async fn said(headers: &HeaderMap, body: Body) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?;
    if !kind.as_bytes().starts_with(b"text/plain") {
        return None;
    }
    let bytes = axum::body::to_bytes(body, SAID_MAX).await.ok()?;
    String::from_utf8(bytes.into()).ok().filter(|text| !text.is_empty())
}

fn is_kind(response: &Response, wanted: &str) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unlike_and_statuses_are_errors() {
        let mut words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| kind.status().as_u16() >= 400));
    }

    #[test]
    fn a_field_that_the_rules_refuse_is_named() {
        let field = |text: &str| Problem::from(&RowProblem::Field(text.into())).field;
        assert_eq!(field("limit: found \"x\", expected digits").as_deref(), Some("limit"));
        assert_eq!(field("budget 1: end is not after start"), None);
    }

    /// A client must be able to tell a change that was not made from one that will be.
    #[test]
    fn what_became_of_a_change_is_told() {
        let pending = EditError::Pending { record: 7, done: 2, of: 9, why: "a full disk".into() };
        let told = |error: EditError| {
            let Problem { kind, detail, status, .. } = error.into();
            (kind, detail, status)
        };
        let (kind, detail, status) = told(pending);
        assert_eq!((&*kind, status), ("/docs/api#pending", 503));
        for part in ["comes into force by itself", "2 of 9", "a full disk", "/v1/audit/7"] {
            assert!(detail.contains(part), "{part}: {detail}");
        }
        let (kind, detail, _) = told(EditError::Unsure("EIO".into()));
        assert_eq!(&*kind, "/docs/api#unsure");
        assert!(detail.starts_with("it is not in force"), "{detail}");
        for undone in
            [EditError::Journal("EIO".into()), EditError::Refused("no".into()), EditError::Stopping]
        {
            assert!(told(undone).1.starts_with("nothing was done"));
        }
    }

    #[test]
    fn a_strangers_text_is_cut() {
        let problem = Problem::malformed("q", &"ü".repeat(5_000), "less");
        assert_eq!(problem.found.unwrap().chars().count(), FOUND_MAX + 1);
        assert!(problem.detail.len() < 400);
    }
}
