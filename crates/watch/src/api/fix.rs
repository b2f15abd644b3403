//! FIX sessions: how they stand, and what an operator does to them.

use std::fmt;

use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::App;
use super::budgets::json;
use super::extract::{Asker, Body, FromBody, Named, Params, read_json};
use super::types::{Why, page_max};
use crate::auth::AdminRole;
use crate::fix::{
    FixAct, FixChange, FixError, FixKillChange, FixKillScope, FixKills, FixMessages, FixOrders,
    FixPage, FixSession,
};
use crate::problem::{Kind, Problem};

/// All sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FixSessions {
    /// Clients first, then venues, as in the configuration.
    sessions: Vec<FixSession>,
    /// Connections that were closed in this run because they showed no Logon of a session that they may have; the log names their CompIDs and
    /// addresses.
    refused_logons: u64,
}

/// Both sequence numbers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sequence {
    /// MsgSeqNum (34) of the next message to send.
    #[schema(minimum = 1, maximum = 999_999_999)]
    #[serde(deserialize_with = "sequence_number")]
    next_out: u64,
    /// MsgSeqNum (34) that is expected.
    #[schema(minimum = 1, maximum = 999_999_999)]
    #[serde(deserialize_with = "sequence_number")]
    next_in: u64,
    reason: Why,
}

/// Reads a sequence number. What is none is told with the range that there is; whole numbers outside of it are the node's to refuse.
fn sequence_number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    struct SequenceNumber;
    impl Visitor<'_> for SequenceNumber {
        type Value = u64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number from 1 to 999999999")
        }
        fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }
    }
    from.deserialize_u64(SequenceNumber)
}

/// Which messages the peer is to send again.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resend {
    /// The first; one that has come before.
    #[schema(minimum = 1)]
    from: u64,
    /// The last; 0 for all there are.
    to: u64,
    reason: Why,
}

/// The reason alone.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForReason {
    reason: Why,
}

/// Whose orders.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Killed {
    scope: FixKillScope,
    /// The session, the account or the firm, exactly; at most 128 bytes. There need not be one yet.
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
        example = "CLIENT1"
    )]
    name: String,
    reason: Why,
}

macro_rules! bodies {
    ($($kind:ty),*) => { $(
        impl FromBody for $kind {
            fn read(bytes: &[u8]) -> Result<Self, Problem> {
                read_json(bytes).map_err(unfit_reason)
            }
        }
    )* };
}

bodies!(Sequence, Resend, ForReason, Killed);

/// A reason that is none can be read, and is not enough.
fn unfit_reason(problem: Problem) -> Problem {
    if problem.field.as_deref() != Some("reason") {
        return problem;
    }
    let found = problem.found.as_deref().unwrap_or("nothing");
    let expected = "3 to 500 characters, none of them a control character";
    Problem::at(Kind::Unfit, "reason", found, expected)
}

/// The session of a path.
#[derive(Clone, Debug)]
pub(super) struct SessionName(String);

impl<S: Sync + Send> FromRequestParts<S> for SessionName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params
            .map_err(|error| Problem::malformed("name", &error.to_string(), "a session's name"))?;
        let name = params.iter().next().map(|(_, text)| text.to_owned());
        name.map(SessionName)
            .ok_or_else(|| Problem::malformed("name", "nothing", "a session's name"))
    }
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "only the description is used")]
pub(super) struct SessionParam {
    /// The session's name, percent-encoded
    #[param(min_length = 1, max_length = 80, example = "CLIENT1")]
    name: String,
}

/// Which messages.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MessageParams {
    /// Not before this, ms since 1970 UTC.
    #[param(minimum = 0, maximum = 253_402_041_600_000_i64)]
    from_ms: Option<u64>,
    /// Before this, ms since 1970 UTC.
    #[param(minimum = 0, maximum = 253_402_041_600_000_i64)]
    to_ms: Option<u64>,
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}:[0-9]{1,18}$", example = "2:4096")]
    cursor: Option<String>,
    /// Messages of a page; fewer where they are large.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    max: Option<u32>,
}

/// Refuses instants beyond the calendar.
pub(super) fn check_span(from_ms: Option<u64>, to_ms: Option<u64>) -> Result<(), Problem> {
    const MS_MAX: u64 = 253_402_041_600_000;
    for (field, ms) in [("from_ms", from_ms), ("to_ms", to_ms)] {
        if let Some(ms) = ms.filter(|ms| *ms > MS_MAX) {
            let expected = "0 to 253402041600000, ms since 1970 UTC";
            return Err(Problem::malformed(field, &ms.to_string(), expected));
        }
    }
    Ok(())
}

impl MessageParams {
    fn page(&self) -> Result<FixPage, Problem> {
        check_span(self.from_ms, self.to_ms)?;
        let cursor = self.cursor.as_deref().map(|text| {
            let number = |digits: &str| {
                let sound = (1..=18).contains(&digits.len()) && is_digits(digits);
                sound.then(|| digits.parse().ok()).flatten()
            };
            let place = text.split_once(':').and_then(|(file, at)| number(file).zip(number(at)));
            place.ok_or_else(|| {
                Problem::malformed("cursor", &format!("{text:?}"), "`next` of the page before")
            })
        });
        let (from_ms, to_ms) = (self.from_ms, self.to_ms);
        Ok(FixPage { from_ms, to_ms, cursor: cursor.transpose()?, max: page_max(self.max)? })
    }
}

/// Which orders.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OrderParams {
    /// Those that this budget, by its id or its handle, binds.
    #[param(value_type = Option<String>, max_length = 128, pattern = "^(0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z._/:@-][A-Za-z0-9._/:@-]*)$", example = "17")]
    budget: Option<Named>,
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$", example = "4294967552")]
    cursor: Option<String>,
    /// Orders of a page; there may be fewer.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    max: Option<u32>,
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What becomes of something that is done to a session.
#[derive(IntoResponses)]
#[allow(dead_code, clippy::large_enum_variant, reason = "never made")]
pub(super) enum Done {
    /// The session as it is now
    #[response(status = 200)]
    Now(FixSession),
    /// It is logged on, or it is not, and the other was needed
    #[response(status = 409, content_type = "application/problem+json")]
    Connection(Problem),
    /// The reason or a number cannot be
    #[response(status = 422, content_type = "application/problem+json")]
    Unfit(Problem),
}

/// Lists the FIX sessions, clients and venues.
#[utoipa::path(get, path = "/v1/fix/sessions", tag = "fix", operation_id = "fix_sessions",
    responses(
        (status = 200, description = "All of them; none where the door is off", body = FixSessions),
        (status = 503, description = "The worker of the door does not answer",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn sessions(State(app): State<App>) -> Result<Response, Problem> {
    let found = app.wait(|parts| {
        let sessions = parts.node.fix_sessions()?;
        let refused_logons = parts.node.fix_refused_logons();
        Ok::<_, FixError>(FixSessions { sessions, refused_logons })
    });
    Ok(json(&found.await??))
}

/// Shows the messages of a session in both directions, the oldest first. They are orders: it needs the role `operate`.
#[utoipa::path(get, path = "/v1/fix/sessions/{name}/messages", tag = "fix", operation_id = "fix_messages",
    params(SessionParam, MessageParams),
    responses(
        (status = 200, description = "A page of messages", body = FixMessages),
        (status = 403, description = "The role may not", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The disk does not give them",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn messages(
    State(app): State<App>,
    SessionName(session): SessionName,
    Asker(who): Asker,
    Params(params): Params<MessageParams>,
) -> Result<Response, Problem> {
    may_see_orders(&who)?;
    let page = params.page()?;
    let found = app.wait(move |parts| parts.node.fix_messages(&session, &page)).await??;
    Ok(json(&found))
}

fn may_see_orders(who: &crate::auth::Who) -> Result<(), Problem> {
    if who.role >= AdminRole::Operate {
        return Ok(());
    }
    let detail = format!(
        "the token of {} may read only; messages are orders, which need the role operate",
        who.name
    );
    Err(Problem::new(Kind::Forbidden, detail))
}

/// Lists the orders that the venues know: open ones, and closed ones for a day. An order that opens or closes meanwhile may be missing, none
/// is listed twice. It needs the role `operate`.
#[utoipa::path(get, path = "/v1/fix/orders", tag = "fix", operation_id = "fix_orders",
    params(OrderParams),
    responses(
        (status = 200, description = "A page of orders", body = FixOrders),
        (status = 404, description = "No budget has the handle", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The role may not", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The worker of the door does not answer",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn orders(
    State(app): State<App>,
    Asker(who): Asker,
    Params(params): Params<OrderParams>,
) -> Result<Response, Problem> {
    may_see_orders(&who)?;
    let max = page_max(params.max)?;
    let cursor = params.cursor.as_deref().map(|text| {
        let number = Some(text).filter(|text| text.len() <= 18 && is_digits(text));
        number.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
            Problem::malformed("cursor", &format!("{text:?}"), "`next` of the page before")
        })
    });
    let from: u64 = cursor.transpose()?.unwrap_or(0);
    let found = app.wait(move |parts| {
        let budget = params.budget.map(|name| parts.id_of(&name)).transpose()?;
        parts.node.fix_orders(from, max, budget).map_err(Problem::from)
    });
    Ok(json(&found.await??))
}

/// Sets both sequence numbers of a session that has no connection. Messages that were sent under `next_out` or a greater number are never
/// sent again under it; for numbers that were never used the peer gets gap fills.
#[utoipa::path(put, path = "/v1/fix/sessions/{name}/sequence", tag = "fix", operation_id = "fix_sequence",
    request_body = Sequence, params(SessionParam), responses(Done))]
pub(super) async fn sequence(
    app: State<App>,
    name: SessionName,
    who: Asker,
    body: Body<Sequence>,
) -> Result<Response, Problem> {
    let Sequence { next_out, next_in, reason } = body.value;
    act(app, name, who, reason, FixAct::Sequence { next_out, next_in }).await
}

/// Lets both sequence numbers of a session that has no connection begin again at 1.
#[utoipa::path(post, path = "/v1/fix/sessions/{name}/reset", tag = "fix", operation_id = "fix_reset",
    request_body = ForReason, params(SessionParam), responses(Done))]
pub(super) async fn reset(
    app: State<App>,
    name: SessionName,
    who: Asker,
    body: Body<ForReason>,
) -> Result<Response, Problem> {
    act(app, name, who, body.value.reason, FixAct::Reset).await
}

/// Sends a Logout to a session. A client may log on again, and a venue is connected to again.
#[utoipa::path(post, path = "/v1/fix/sessions/{name}/logout", tag = "fix", operation_id = "fix_logout",
    request_body = ForReason, params(SessionParam), responses(Done))]
pub(super) async fn log_out(
    app: State<App>,
    name: SessionName,
    who: Asker,
    body: Body<ForReason>,
) -> Result<Response, Problem> {
    act(app, name, who, body.value.reason, FixAct::LogOut).await
}

/// Asks the peer of a session to send messages again (ResendRequest). What was taken before is not taken twice. The gate's own messages are
/// sent again only when the peer asks.
#[utoipa::path(post, path = "/v1/fix/sessions/{name}/resend", tag = "fix", operation_id = "fix_resend",
    request_body = Resend, params(SessionParam), responses(Done))]
pub(super) async fn resend(
    app: State<App>,
    name: SessionName,
    who: Asker,
    body: Body<Resend>,
) -> Result<Response, Problem> {
    let Resend { from, to, reason } = body.value;
    act(app, name, who, reason, FixAct::Resend { from, to }).await
}

async fn act(
    State(app): State<App>,
    SessionName(session): SessionName,
    Asker(who): Asker,
    reason: Why,
    act: FixAct,
) -> Result<Response, Problem> {
    let change = FixChange { who: (&*who.name).into(), why: reason.0.into(), session, act };
    let session = app.wait(move |parts| parts.node.fix_act(change)).await??;
    Ok(json(&session))
}

/// What becomes of a kill.
#[derive(IntoResponses)]
#[allow(dead_code, clippy::large_enum_variant, reason = "never made")]
pub(super) enum KillDone {
    /// What is stopped now
    #[response(status = 200)]
    Now(FixKills),
    /// The role may not, or the token is the one that killed
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// These orders are not stopped, or the door is off
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(Problem),
    /// The reason or the name cannot be
    #[response(status = 422, content_type = "application/problem+json")]
    Unfit(Problem),
    /// The journal cannot seal, or the worker of the door does not answer; of a kill the detail says whether the orders are stopped
    #[response(status = 503, content_type = "application/problem+json")]
    NotReady(Problem),
}

/// Lists whose orders are stopped.
#[utoipa::path(get, path = "/v1/fix/kill", tag = "fix", operation_id = "fix_kills",
    responses(
        (status = 200, description = "All of them", body = FixKills),
        (status = 503, description = "The worker of the door does not answer",
            body = Problem, content_type = "application/problem+json")))]
pub(super) async fn kills(State(app): State<App>) -> Result<Response, Problem> {
    Ok(json(&app.wait(|parts| parts.node.fix_kills()).await??))
}

/// Stops orders of a session, an account or a firm: new ones and replaces are refused from now on, and open ones are cancelled. It is answered
/// once it outlives a restart. What is stopped already is cancelled again.
#[utoipa::path(post, path = "/v1/fix/kill", tag = "fix", operation_id = "fix_kill",
    request_body = Killed, responses(KillDone))]
pub(super) async fn kill(
    app: State<App>,
    who: Asker,
    body: Body<Killed>,
) -> Result<Response, Problem> {
    change_kill(app, who, body.value, true).await
}

/// Lets orders pass again that were stopped. Where there are tokens, it needs another one than that which stopped them.
#[utoipa::path(delete, path = "/v1/fix/kill", tag = "fix", operation_id = "fix_enable",
    request_body = Killed, responses(KillDone))]
pub(super) async fn enable(
    app: State<App>,
    who: Asker,
    body: Body<Killed>,
) -> Result<Response, Problem> {
    change_kill(app, who, body.value, false).await
}

async fn change_kill(
    State(app): State<App>,
    Asker(who): Asker,
    Killed { scope, name, reason }: Killed,
    stops: bool,
) -> Result<Response, Problem> {
    if !(1..=128).contains(&name.len()) || name.contains(char::is_control) {
        let expected = "1 to 128 bytes, none of them a control character";
        return Err(Problem::at(Kind::Unfit, "name", &format!("{name:?}"), expected));
    }
    let (has_token, who) = (who.has_token(), (&*who.name).into());
    let change = FixKillChange { who, has_token, why: reason.0.into(), scope, name, stops };
    Ok(json(&app.wait(move |parts| parts.node.fix_kill(change)).await??))
}

impl From<FixError> for Problem {
    fn from(error: FixError) -> Problem {
        let kind = match error {
            FixError::Unknown(_) => Kind::Unknown,
            FixError::LoggedOn(_) => Kind::LoggedOn,
            FixError::NotLoggedOn(_) => Kind::NotLoggedOn,
            FixError::Forbidden(_) => Kind::Forbidden,
            FixError::NotReady(_) => Kind::NotReady,
            FixError::Unfit(field, found, expected) => {
                return Problem::at(Kind::Unfit, field, &found.to_string(), &expected);
            }
            FixError::NotRecorded(error) => return error.into(),
        };
        Problem::new(kind, error.to_string())
    }
}
