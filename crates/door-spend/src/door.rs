//! The paths of the door, and what HTTP says in each case.

use door_http::{App, Limits, Method, Refusal, RefusedRequest, Reply, Request, Response, Then};
use door_transport::ConnId;
use wire::{BudgetName, Handle};

use access::{HostGuard, KeySecret};

use crate::answer::{AnswerRoom, GET_ONLY, OF_A_PAGE, Outcome, POST_ONLY, refusal};
use crate::call::CallKind;
use crate::document;
use crate::problem::{BadCall, Fault};
use crate::read::{Entry, ReadLimits, Reader, Sender, id, is_digits};
use crate::text::Text;

/// Answers 200 while the node serves, and 503 before its budgets are in force.
pub const HEALTH_PATH: &str = "/healthz";
/// All calls begin with this.
const CALLS_PATH: &str = "/v1/";
const BATCH_PATH: &str = "/v1/batch";
/// Followed by the id or the handle of a budget.
pub const BUDGETS_PATH: &str = "/v1/budgets/";
const DOCUMENT_PATH: &str = "/openapi.json";
const PAGE_PATH: &str = "/docs";
/// Says what this is: the same page.
const ROOT_PATH: &str = "/";

const IN_PATH: &str = "an id (digits without leading zeros) or a handle after /v1/budgets/";
const ALLOW_POST: &[u8] = b"Allow: POST\r\n";
const ALLOW_GET: &[u8] = b"Allow: GET, HEAD\r\n";
const RETRY_SOON: &[u8] = b"Retry-After: 1\r\n";
const BEARER: &[u8] = b"WWW-Authenticate: Bearer\r\n";
/// Headers that two readers would read differently where they stand there twice, and what a sender of two is told.
const ONCE: [(&str, &str); 3] = [
    (
        "content-type",
        "header Content-Type: found twice or more, expected once; one of them would be ignored",
    ),
    (
        "authorization",
        "header Authorization: found twice or more, expected once; one of them would be ignored",
    ),
    (
        "idempotency-key",
        "header Idempotency-Key: found twice or more, expected once; one of them would be ignored",
    ),
];
/// The pages of the door run nothing and load nothing.
const PAGE_HEADERS: &[u8] = b"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\n";

/// What a door is set to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The limits of HTTP.
    pub http: Limits,
    /// The names by which it may be called.
    pub hosts: HostGuard,
    /// What a call may ask for.
    pub read: ReadLimits,
}

/// What stands behind the door.
pub trait Gate {
    /// Lets the sender of a request in, or not. `token`: what it shows as its bearer token; `looks`: it moves no money.
    ///
    /// # Errors
    /// Why not.
    fn enter(&mut self, conn: ConnId, token: Option<&[u8]>, looks: bool) -> Result<(), Denied>;

    /// The name of the principal that was let in last; empty where nobody is told apart.
    fn who(&self) -> &str;

    /// What keys of idempotency are hashed under.
    fn secret(&self) -> &KeySecret;

    /// Judges calls: puts an outcome each into `outcomes`, in order, or keeps them and answers later, with
    /// [`AnswerRoom::one`] or [`AnswerRoom::batch`].
    fn calls(
        &mut self,
        conn: ConnId,
        calls: &[Entry],
        form: Form,
        outcomes: &mut Vec<Outcome>,
    ) -> Taken;

    /// Looks a budget up: answers later, with [`AnswerRoom::standing`], or `Now`: there is none that the caller may see, or
    /// the node is too busy, as the outcome says.
    fn standing(&mut self, conn: ConnId, name: BudgetName<'_>) -> Option<Outcome>;

    /// Are the node's budgets still to come into force? Balancers are told so.
    fn is_starting(&self) -> bool;

    /// HTTP refused a request; for the counters.
    fn refused(&mut self, why: Refusal);

    /// A request was refused before it was a call; for the counters.
    fn fault(&mut self, fault: Fault);

    /// A request has come so far; for a gate that measures where time goes.
    #[inline(always)]
    fn passed(&mut self, _: Passed) {}
}

/// Whether calls came alone or in a batch: so they are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// One object.
    #[default]
    One,
    /// An array.
    Batch,
}

/// What became of calls that were handed to a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All have their outcomes.
    Now,
    /// The gate has kept them.
    Later,
}

/// Why nobody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No token, or one that nobody has.
    Unknown,
    /// A role that may not do this.
    Role,
    /// The node is stopping.
    Stopping,
}

/// How far a request has come. Each is told once per request, in this order; the middle two of calls only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It is whole: its head is read, its body at hand.
    Arrived,
    /// Its sender is known and its body is read: so many calls.
    Read(usize),
    /// Its calls are judged, or kept: so many.
    Judged(usize),
    /// The answer is in the connection's output, if it is not left for later.
    Answered,
}

/// The door of one worker: its settings and its work space.
#[derive(Debug)]
pub struct Door {
    settings: Settings,
    reader: Reader,
    outcomes: Vec<Outcome>,
    room: AnswerRoom,
}

impl Door {
    /// A door with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Door {
        let (reader, room) = (Reader::default(), AnswerRoom::default());
        Door { settings, reader, outcomes: Vec::new(), room }
    }

    /// Where answers are written, for those that come later.
    pub fn room(&mut self) -> &mut AnswerRoom {
        &mut self.room
    }
}

/// A door with its gate: what HTTP calls.
pub struct Front<'a, G> {
    /// The door.
    pub door: &'a mut Door,
    /// What stands behind it.
    pub gate: &'a mut G,
}

/// What a path leads to.
enum Route<'p> {
    Call(CallKind),
    Batch,
    Budget(&'p str),
    Fixed(&'static str, &'static [u8], &'static [u8]),
    Health,
    Unknown,
}

impl<'p> Route<'p> {
    fn of(path: &'p str) -> Route<'p> {
        if let Some(name) = path.strip_prefix(BUDGETS_PATH) {
            return Route::Budget(name);
        }
        if let Some(kind) = path.strip_prefix(CALLS_PATH).and_then(CallKind::of) {
            return Route::Call(kind);
        }
        match path {
            BATCH_PATH => Route::Batch,
            DOCUMENT_PATH => Route::Fixed("application/json", document::JSON.as_bytes(), b""),
            PAGE_PATH | ROOT_PATH => {
                Route::Fixed("text/html; charset=utf-8", document::page(), PAGE_HEADERS)
            }
            HEALTH_PATH => Route::Health,
            _ => Route::Unknown,
        }
    }
}

/// Why a sender is not let in.
struct Refused(Fault, &'static str, &'static [u8]);

impl<G: Gate> Front<'_, G> {
    fn refuse(&mut self, Refused(fault, detail, headers): Refused, reply: Reply<'_, '_>) -> Then {
        self.gate.fault(fault);
        reply.send(&self.door.room.fault(fault, detail, headers))
    }

    /// Who sends it, and may it? `looks`: it moves no money.
    fn enter(&mut self, conn: ConnId, request: &Request<'_>, looks: bool) -> Result<(), Refused> {
        for (name, detail) in ONCE {
            if request.has_several(name) {
                return Err(Refused(Fault::Malformed, detail, b""));
            }
        }
        let token = request.header("authorization").and_then(bearer);
        self.gate.enter(conn, token, looks).map_err(|denied| match denied {
            Denied::Unknown => Refused(
                Fault::Unauthorised,
                "expected Authorization: Bearer and a token of spend.tokens_file",
                BEARER,
            ),
            Denied::Role => Refused(
                Fault::Forbidden,
                "the token's role may not do this: spend may do all, read may GET",
                b"",
            ),
            Denied::Stopping => Refused(
                Fault::ShuttingDown,
                "the node is stopping and takes no calls any more; nothing was booked",
                RETRY_SOON,
            ),
        })
    }

    fn call(
        &mut self,
        conn: ConnId,
        kind: Option<CallKind>,
        request: Request<'_>,
        reply: Reply<'_, '_>,
    ) -> Then {
        if let Err(refused) = self.enter(conn, &request, false) {
            return self.refuse(refused, reply);
        }
        if !request.header("content-type").is_none_or(is_json) {
            let detail = "expected Content-Type: application/json, application/*+json, none, or what curl -d sends";
            return self.refuse(Refused(Fault::MediaType, detail, b""), reply);
        }
        let Door { settings, reader, outcomes, room } = &mut *self.door;
        outcomes.clear();
        let key = request.header("idempotency-key");
        let sender = Sender { secret: self.gate.secret(), who: self.gate.who(), key };
        let form = match kind {
            Some(kind) => {
                reader.one(kind, request.body, &sender, &settings.read);
                Form::One
            }
            None => {
                if let Err(why) = reader.batch(request.body, &sender, &settings.read) {
                    self.gate.fault(why.fault());
                    return reply.send(&room.one(&Outcome::Bad(why)));
                }
                Form::Batch
            }
        };
        let calls = reader.calls();
        self.gate.passed(Passed::Read(calls.len()));
        let taken = self.gate.calls(conn, calls, form, outcomes);
        self.gate.passed(Passed::Judged(calls.len()));
        match (taken, form, outcomes.as_slice()) {
            (Taken::Later, ..) => reply.later(),
            (Taken::Now, Form::One, [outcome]) => reply.send(&room.one(outcome)),
            (Taken::Now, ..) => reply.send(&room.batch(outcomes)),
        }
    }

    fn budget(
        &mut self,
        conn: ConnId,
        name: &str,
        request: &Request<'_>,
        reply: Reply<'_, '_>,
    ) -> Then {
        if let Err(refused) = self.enter(conn, request, true) {
            return self.refuse(refused, reply);
        }
        let mut room = [0; wire::HANDLE_BYTES_MAX];
        let Some(name) = budget_name(name, &mut room) else {
            let bad = BadCall::Path { found: Text::cut(name), expected: IN_PATH };
            self.gate.fault(bad.fault());
            return reply.send(&self.door.room.one(&Outcome::Bad(bad)));
        };
        match self.gate.standing(conn, name) {
            Some(outcome) => reply.send(&self.door.room.one(&outcome)),
            None => reply.later(),
        }
    }

    /// Answers by path and method.
    fn route(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        if is_of_page(|name| request.headers(name)) {
            self.gate.fault(Fault::Page);
            return reply.send(&OF_PAGE);
        }
        if !self.door.settings.hosts.allows(request.host) {
            let detail = "this door has another name: expected as Host localhost, 127.0.0.1, [::1], the address that it listens on, \
                or one of spend.hosts";
            return self.refuse(Refused(Fault::Host, detail, b""), reply);
        }
        let is_post = request.method == Method::Post;
        match Route::of(request.path) {
            Route::Call(kind) if is_post => self.call(conn, Some(kind), request, reply),
            Route::Batch if is_post => self.call(conn, None, request, reply),
            Route::Call(_) | Route::Batch => {
                self.refuse(Refused(Fault::Method, "expected POST", ALLOW_POST), reply)
            }
            Route::Budget(_) | Route::Fixed(..) | Route::Health if is_post => {
                self.refuse(Refused(Fault::Method, "expected GET or HEAD", ALLOW_GET), reply)
            }
            Route::Budget(name) => self.budget(conn, name, &request, reply),
            Route::Health if self.gate.is_starting() => reply.send(&STARTING),
            Route::Health => reply.send(&HEALTHY),
            Route::Fixed(kind, body, headers) => {
                reply.send(&Response { status: 200, content_type: Some(kind), headers, body })
            }
            Route::Unknown => {
                let detail =
                    "the calls of this door stand at /openapi.json, and for people at /docs";
                self.refuse(Refused(Fault::UnknownPath, detail, b""), reply)
            }
        }
    }
}

impl<G: Gate> App for Front<'_, G> {
    fn limits(&self) -> &Limits {
        &self.door.settings.http
    }

    fn request(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        self.gate.passed(Passed::Arrived);
        let then = self.route(conn, request, reply);
        self.gate.passed(Passed::Answered);
        then
    }

    fn refused(&mut self, why: Refusal) {
        self.gate.refused(why);
    }

    fn refusal(&self, why: Refusal, of: &RefusedRequest<'_>) -> Response<'static> {
        let path = of.target.split('?').next().unwrap_or_default();
        match (why, Route::of(path)) {
            (Refusal::UnknownMethod, _) if is_of_page(|name| of.headers(name)) => OF_PAGE,
            (Refusal::UnknownMethod, Route::Call(_) | Route::Batch) => {
                Response { headers: ALLOW_POST, body: POST_ONLY, ..refusal(why) }
            }
            (Refusal::UnknownMethod, Route::Budget(_) | Route::Fixed(..) | Route::Health) => {
                Response { headers: ALLOW_GET, body: GET_ONLY, ..refusal(why) }
            }
            _ => refusal(why),
        }
    }
}

const HEALTHY: Response<'static> =
    Response { status: 200, content_type: Some("text/plain"), headers: b"", body: b"ok\n" };

/// What a balancer gets that asks too early.
const STARTING: Response<'static> = Response {
    status: 503,
    content_type: Some("text/plain"),
    headers: RETRY_SOON,
    body: b"starting: the budgets are not in force yet\n",
};

/// What a page in a browser gets.
const OF_PAGE: Response<'static> = Response {
    status: 403,
    content_type: Some("application/problem+json"),
    headers: b"",
    body: OF_A_PAGE,
};

/// Does a browser send it for a page? Such a request has an `Origin`, the door's own too, or says that another site asked for it.
/// What somebody types is `none`; a page of the door itself, which runs nothing, is `same-origin`.
fn is_of_page<'a, I: Iterator<Item = &'a [u8]>>(headers: impl Fn(&'static str) -> I) -> bool {
    let is_own = |site: &[u8]| {
        [&b"none"[..], b"same-origin"].iter().any(|own| site.eq_ignore_ascii_case(own))
    };
    headers("origin").next().is_some() || !headers("sec-fetch-site").all(is_own)
}

/// `application/json`, `application/...+json`, or what `curl -d` sends, whatever the parameters.
fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let Some((kind, name)) = essence.split_at_checked(b"application/".len()) else { return false };
    let (_, suffix) = name.split_at(name.len().saturating_sub(b"+json".len()));
    kind.eq_ignore_ascii_case(b"application/")
        && (name.eq_ignore_ascii_case(b"json")
            || name.eq_ignore_ascii_case(b"x-www-form-urlencoded")
            || suffix.eq_ignore_ascii_case(b"+json"))
}

/// What follows the scheme `Bearer`, in any case of letters.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// The budget that the rest of a path names: percent-encoding is taken away, slashes belong to the name.
fn budget_name<'r>(
    path: &str,
    room: &'r mut [u8; wire::HANDLE_BYTES_MAX],
) -> Option<BudgetName<'r>> {
    let (mut bytes, mut len) = (path.as_bytes(), 0);
    while let [first, rest @ ..] = bytes {
        let (byte, rest) = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => (hex(*high)? << 4 | hex(*low)?, rest),
            (b'%', _) => return None,
            (byte, rest) => (*byte, rest),
        };
        *room.get_mut(len)? = byte;
        (bytes, len) = (rest, len + 1);
    }
    let name = std::str::from_utf8(&room[..len]).ok()?;
    if is_digits(name) {
        return id(name).map(BudgetName::Id);
    }
    Handle::check(name).ok().map(|()| BudgetName::Handle(name))
}

fn hex(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_named_in_paths() {
        let named = |path: &str| {
            let mut room = [0; wire::HANDLE_BYTES_MAX];
            budget_name(path, &mut room).map(|name| format!("{name:?}"))
        };
        assert_eq!(named("1001").as_deref(), Some("Id(1001)"));
        assert_eq!(named("18446744073709551615").as_deref(), Some("Id(18446744073709551615)"));
        for path in ["team-42/gpt-5", "team-42%2Fgpt-5", "team-42%2fgpt%2D5"] {
            assert_eq!(named(path).as_deref(), Some("Handle(\"team-42/gpt-5\")"));
        }
        for bad in [
            "",
            "007",
            "18446744073709551616",
            "a%2",
            "a%zz",
            "a%00",
            "a b",
            "%ff",
            &"h".repeat(129),
        ] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_curl_and_programs_send_is_json_and_what_else_a_form_can_send_is_not() {
        for json in [
            "application/json",
            "APPLICATION/JSON; charset=utf-8",
            "application/vnd.api+json",
            "application/x-www-form-urlencoded",
        ] {
            assert!(is_json(json.as_bytes()), "{json}");
        }
        for other in [
            "",
            "text/json",
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/jsonx",
            "application/xml",
            "image/svg+json",
            "json",
        ] {
            assert!(!is_json(other.as_bytes()), "{other}");
        }
    }

    /// A gate that lets nobody in, for one reason.
    struct Shut {
        why: Denied,
        secret: KeySecret,
        is_starting: bool,
    }

    impl Gate for Shut {
        fn enter(&mut self, _: ConnId, _: Option<&[u8]>, _: bool) -> Result<(), Denied> {
            Err(self.why)
        }

        fn who(&self) -> &str {
            ""
        }

        fn secret(&self) -> &KeySecret {
            &self.secret
        }

        fn calls(&mut self, _: ConnId, _: &[Entry], _: Form, _: &mut Vec<Outcome>) -> Taken {
            unreachable!("nobody was let in")
        }

        fn standing(&mut self, _: ConnId, _: BudgetName<'_>) -> Option<Outcome> {
            unreachable!("nobody was let in")
        }

        fn is_starting(&self) -> bool {
            self.is_starting
        }

        fn refused(&mut self, _: Refusal) {}

        fn fault(&mut self, _: Fault) {}
    }

    #[test]
    fn who_is_not_let_in_is_told_why_and_a_stopping_node_begins_nothing() {
        let read = ReadLimits { hold_ms_max: 2_000, confirm_ms_max: 3_600_000, entries_max: 3 };
        let hosts = HostGuard::of_machine([127, 0, 0, 1].into(), [""; 0]).unwrap();
        let mut door = Door::new(Settings { http: Limits::default(), hosts, read });
        let mut told = |why, is_starting, request: &str| {
            let (mut session, mut room) =
                (door_http::Session::default(), door_http::Room::default());
            let mut wire = door_transport::Unconnected::<()>::default();
            let secret = KeySecret::new([7; 16]);
            let gate = &mut Shut { why, secret, is_starting };
            let front = &mut Front { door: &mut door, gate };
            let id = ConnId::from_bits(1);
            let _ = session.received(id, request.as_bytes(), &mut wire.out(), &mut room, front);
            let mut answer = String::new();
            wire.sent(|bytes| answer = String::from_utf8_lossy(bytes).to_lowercase());
            answer
        };
        let call = "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
        let look = "GET /v1/budgets/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for request in [call, look] {
            for (denied, parts) in [
                (Denied::Unknown, ["401 ", "www-authenticate: bearer", "\"unauthorised\""]),
                (Denied::Role, ["403 ", "problem+json", "\"forbidden\""]),
                (Denied::Stopping, ["503 ", "retry-after: 1", "\"shutting_down\""]),
            ] {
                let answer = told(denied, false, request);
                assert!(parts.iter().all(|part| answer.contains(part)), "{denied:?}: {answer}");
            }
        }
        let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let starting = told(Denied::Unknown, true, health);
        assert!(starting.contains("503 ") && starting.contains("retry-after: 1"), "{starting}");
        assert!(told(Denied::Unknown, false, health).contains("200 "));
    }

    #[test]
    fn the_scheme_of_a_token_is_bearer() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        for other in [&b"Basic abc"[..], b"Bearer", b"Bearerabc", b""] {
            assert_eq!(bearer(other), None);
        }
    }
}
