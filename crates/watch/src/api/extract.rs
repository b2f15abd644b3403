//! Reads parameters and bodies, and says exactly what is wrong with them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use sha2::{Digest, Sha256};

use crate::auth::Who;
use crate::problem::{Kind, Problem};

/// What may be sent.
const TOO_LARGE: &str =
    "the body is larger than this call allows: 64 KiB, or 4 MiB of a bulk change";
const _: () = assert!(super::BODY_MAX == 64 << 10 && super::BULK_BODY_MAX == 4 << 20);
/// How long a body may take to come.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// The parameters of the address after `?`. Unknown and repeated ones are refused.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let reader = serde_urlencoded::Deserializer::new(parse_query(query));
        serde_path_to_error::deserialize(reader).map(Params).map_err(|error| {
            let field = error.path().to_string();
            let problem = explain(&field, "the query", &error.into_inner().to_string());
            if problem.expected.is_some() { problem } else { no_number(&field, query) }
        })
    }
}

/// Of a parameter that its reader says nothing of but that it is no number.
fn no_number(field: &str, query: &str) -> Problem {
    let found = parse_query(query).find(|(name, _)| name == field);
    let found = found.map_or_else(|| "nothing".into(), |(_, value)| format!("{value:?}"));
    Problem::malformed(field, &found, "a whole number; GET /v1/openapi.json has its bounds")
}

/// Refuses parameters of calls that take none: `without` has those, as `/GET/v1/budgets/{id}`.
pub(super) async fn no_parameters(
    State(without): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let query = request.uri().query().unwrap_or_default();
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let call = format!("/{method}{}", request.uri().path());
    if query.is_empty() || !without.iter().any(|template| fits(template, &call)) {
        return Ok(next.run(request).await);
    }
    Err(Problem::malformed("the query", &format!("{query:?}"), "none: this call has no parameters"))
}

fn parse_query(query: &str) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(query.as_bytes())
}

/// Is the path one of the template, in which `{name}` stands for any part?
fn fits(template: &str, path: &str) -> bool {
    let same = |(a, b): (&str, &str)| a == b || a.starts_with('{');
    template.split('/').count() == path.split('/').count()
        && template.split('/').zip(path.split('/')).all(same)
}

/// A number in the path: of a budget, or of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) u64);

/// Is it written as a number of at most 20 digits, without zeros in front?
fn is_plain_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
        && (1..=20).contains(&text.len())
        && (text == "0" || !text.starts_with('0'))
}

impl<S: Sync + Send> FromRequestParts<S> for Number {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let expected = "a whole number below 2^64, in digits, without zeros in front";
        let wrong =
            |field: &str, found: &str| Problem::malformed(field, &format!("{found:?}"), expected);
        let params = params.map_err(|error| wrong("path", &error.to_string()))?;
        let (name, text) = params.iter().next().unwrap_or_default();
        if !is_plain_number(text) {
            return Err(wrong(name, text));
        }
        // Readable, but larger than any number there is.
        let what = if name == "id" { "budget" } else { name };
        let text_of = || format!("there is no {what} {text}: numbers are below 2^64");
        let unknown = |_| Problem::new(Kind::Unknown, text_of());
        text.parse().map(Number).map_err(unknown)
    }
}

/// Which budget is meant: in a path a handle has `%2F` for each slash.
#[derive(Clone, Debug)]
pub(super) enum Named {
    Id(u64),
    Handle(Box<str>),
}

/// As it is written in a request.
impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Named::Id(id) => write!(f, "{id}"),
            Named::Handle(handle) => write!(f, "{handle:?}"),
        }
    }
}

impl Named {
    /// An id as it is written everywhere, or a handle.
    pub(super) fn read(text: &str) -> Option<Named> {
        if wire::Handle::check(text).is_ok() {
            return Some(Named::Handle(text.into()));
        }
        is_plain_number(text).then(|| text.parse().ok())?.map(Named::Id)
    }
}

impl<S: Sync + Send> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if let Ok(params) = RawPathParams::from_request_parts(parts, state).await
            && let Some((_, text)) = params.iter().next()
            && let Some(named) = Named::read(text)
        {
            return Ok(named);
        }
        Number::from_request_parts(parts, state).await.map(|Number(id)| Named::Id(id))
    }
}

/// A JSON body, with the digest of its bytes.
#[derive(Debug)]
pub(super) struct Body<T> {
    pub(super) value: T,
    /// Of the method, the path and the bytes: what an idempotency key belongs to.
    pub(super) digest: [u8; 32],
}

/// What a body is read into.
pub(super) trait FromBody: Sized {
    /// Reads the bytes, which may be anything.
    fn read(bytes: &[u8]) -> Result<Self, Problem>;
}

impl<S: Send + Sync, T: FromBody> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let found = request.headers().get(header::CONTENT_TYPE);
            let found = found.map_or("none", |kind| kind.to_str().unwrap_or("bytes"));
            return Err(Problem::at(Kind::MediaType, "Content-Type", found, "application/json"));
        }
        let mut hash = Sha256::new();
        hash.update(request.method().as_str());
        hash.update(request.uri().path());
        let read = tokio::time::timeout(BODY_WAIT, Bytes::from_request(request, state)).await;
        let slow = || Problem::new(Kind::Slow, format!("the body took longer than {BODY_WAIT:?}"));
        let bytes = read.map_err(|_| slow())?.map_err(|rejection| {
            match rejection.into_response().status() {
                StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Kind::TooLarge, TOO_LARGE),
                _ => Problem::new(Kind::Malformed, "the body ended early"),
            }
        })?;
        hash.update(&bytes);
        Ok(Body { value: T::read(&bytes)?, digest: hash.finalize().into() })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// Fields that hold lists; nothing else does.
const LISTS: [&str; 3] = ["ids", "except", "alerts"];

/// The derived readers take a list of values for an object of fields, in order; nobody means that.
fn check_lists(value: &Value, field: &str) -> Result<(), Problem> {
    match value {
        Value::Array(_) if !LISTS.contains(&field) => {
            Err(Problem::malformed(field, "a list", "an object, or text"))
        }
        Value::Object(fields) => {
            fields.iter().try_for_each(|(name, value)| check_lists(value, name))
        }
        _ => Ok(()),
    }
}

/// Reads JSON into a type; a repeated or unknown field is an error.
pub(super) fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // What is not JSON at all is told by the reader below, with its place.
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        check_lists(&value, "the body")?;
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = error.path().to_string();
        let error = error.into_inner();
        match error.classify() {
            Category::Data => explain(&field, "the body", &error.to_string()),
            _ => no_json(bytes, &error),
        }
    });
    let value = read?;
    reader.end().map_err(|error| no_json(bytes, &error))?;
    Ok(value)
}

/// Of a body that is no JSON.
fn no_json(bytes: &[u8], error: &serde_json::Error) -> Problem {
    let found = match error.classify() {
        Category::Eof if bytes.trim_ascii().is_empty() => "nothing".to_string(),
        Category::Eof => format!("its end at line {} column {}", error.line(), error.column()),
        _ => format!("no JSON: {error}"),
    };
    Problem::malformed("the body", &found, "one whole JSON object")
}

/// What serde says, cut into its parts.
fn explain(path: &str, whole: &str, message: &str) -> Problem {
    let (text, place) = message.split_once(" at line ").unwrap_or((message, ""));
    let (field, found, expected) = match field_alone(text) {
        Some((name, found, expected)) => (within(path, name), found, expected),
        None if is_root(path) => (whole.to_string(), text, ""),
        None => (path.to_string(), text, ""),
    };
    let mut problem = match found.split_once(", expected ") {
        Some((found, expected)) => Problem::malformed(&field, plain(found), bounds(expected)),
        None if expected.is_empty() => Problem::new(Kind::Malformed, format!("{field}: {found}")),
        None => Problem::malformed(&field, found, expected),
    };
    if !place.is_empty() {
        problem.detail.push_str(&format!(" (line {place})"));
    }
    problem.field = Some(field.into());
    problem
}

/// Without the words for programmers.
fn plain(found: &str) -> &str {
    let parts = ["invalid type: ", "invalid value: "];
    parts.into_iter().find_map(|part| found.strip_prefix(part)).unwrap_or(found)
}

/// The same.
fn bounds(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 18446744073709551615",
        "a string" => "text in quotes",
        other => other,
    }
}

/// The name of a field that appears twice or not at all; what was found, and what was expected.
fn field_alone(text: &str) -> Option<(&str, &'static str, &'static str)> {
    let (rest, found, expected) = match text.strip_prefix("duplicate field `") {
        Some(rest) => (rest, "it twice", "it once"),
        None => (text.strip_prefix("missing field `")?, "nothing", "a value"),
    };
    Some((rest.strip_suffix('`')?, found, expected))
}

fn is_root(path: &str) -> bool {
    path == "." || path == "?"
}

/// The path of a field of what is at `path`, which may name that field already.
fn within(path: &str, name: &str) -> String {
    let named = path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    match (is_root(path), named) {
        (true, _) => name.to_string(),
        (_, true) => path.to_string(),
        _ => format!("{path}.{name}"),
    }
}

/// The header `Idempotency-Key`.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<Box<str>>, Problem> {
    const NAME: &str = "Idempotency-Key";
    let Some(value) = headers.get(NAME) else { return Ok(None) };
    let text = value.to_str().unwrap_or("bytes that are not text");
    let is_key = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    if !(8..=64).contains(&text.len()) || !text.bytes().all(is_key) {
        return Err(Problem::malformed(NAME, text, "8 to 64 of A-Za-z0-9-"));
    }
    Ok(Some(text.into()))
}

/// The same where it must be there.
pub(super) fn required_key(headers: &HeaderMap) -> Result<Box<str>, Problem> {
    key_of(headers)?.ok_or_else(|| {
        Problem::malformed(
            "Idempotency-Key",
            "none",
            "8 to 64 of A-Za-z0-9-, a new one for each change",
        )
    })
}

/// The revision that `If-Match` names.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    const NAME: &str = "If-Match";
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or("bytes that are not text");
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let digits = inner.filter(|inner| inner.bytes().all(|byte| byte.is_ascii_digit()));
    let revision = digits.and_then(|digits| digits.parse().ok());
    let wrong =
        || Problem::malformed(NAME, text, "an ETag of this budget, such as \"9\" with its quotes");
    revision.map(Some).ok_or_else(wrong)
}

/// Who asks, as the guard found out.
#[derive(Clone, Debug)]
pub(super) struct Asker(pub(super) Who);

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let who = parts.extensions.get::<Who>().cloned();
        who.map(Asker).ok_or_else(|| Problem::new(Kind::Unauthorised, "the caller is not known"))
    }
}
