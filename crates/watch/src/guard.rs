//! What stands before every call: is the door meant, who asks, may they, and where does the page come from that asks.

use std::net::IpAddr;
use std::sync::Arc;

use access::{BadOrigin, HostGuard, LiveTokens, OriginGuard};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::{AdminRole, Who, token_of};
use crate::problem::{Kind, Problem};

/// Where the live stream is.
pub(crate) const LIVE: &str = "/v1/live";

/// What the dashboard may load: its own files, nothing else. `connect-src` is the live stream too.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";

/// Set on every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The rules of a door.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    tokens: Option<LiveTokens>,
    hosts: HostGuard,
    origins: OriginGuard,
}

impl Gate {
    /// The rules of a door at this address. On loopback a name that is not of this machine means that a stranger's page
    /// calls itself so (DNS rebinding); beyond it the door does not know what it is called.
    pub(crate) fn new(
        tokens: Option<LiveTokens>,
        origins: OriginGuard,
        listens_on: IpAddr,
    ) -> Result<Gate, BadOrigin> {
        let hosts = match listens_on.is_loopback() {
            true => HostGuard::of_machine(listens_on, origins.names())
                .map_err(|bad| BadOrigin { found: bad.found })?,
            false => HostGuard::Any,
        };
        Ok(Gate(Arc::new(Rules { tokens, hosts, origins })))
    }

    fn judge(&self, request: &Request) -> Result<Who, Problem> {
        let rules = &self.0;
        rules.check_host(request)?;
        rules.check_origin(request)?;
        if is_public(request.uri().path()) {
            return Ok(Who::anybody());
        }
        let who = rules.who(request.headers())?;
        let needed = match is_safe(request.method()) {
            true => AdminRole::Read,
            false => AdminRole::Operate,
        };
        if who.role < needed {
            let detail = format!(
                "the token of {} may read only; this call needs the role operate",
                who.name
            );
            return Err(Problem::new(Kind::Forbidden, detail));
        }
        Ok(who)
    }
}

impl Rules {
    fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let host = host_of(request);
        // Only HTTP/1.0 may call the door nothing.
        let is_named = host.is_some() || request.version() < Version::HTTP_11;
        if self.hosts == HostGuard::Any || (is_named && self.hosts.allows(host)) {
            return Ok(());
        }
        let found = host.map_or("none".into(), String::from_utf8_lossy);
        let expected = "localhost, 127.0.0.1, [::1], or a name of admin.origins";
        Err(Problem::at(Kind::Host, "Host", &found, expected))
    }

    /// A page of another origin may neither change anything nor open the live stream.
    fn check_origin(&self, request: &Request) -> Result<(), Problem> {
        let guarded = !is_safe(request.method()) || request.uri().path() == LIVE;
        let origin = request.headers().get(header::ORIGIN).filter(|_| guarded);
        let host = host_of(request).and_then(|host| std::str::from_utf8(host).ok());
        if self.origins.allows(host, origin.map(HeaderValue::as_bytes)) {
            return Ok(());
        }
        let origin = origin.and_then(|origin| origin.to_str().ok());
        let found = origin.unwrap_or("bytes that are not text");
        let expected = "the door's own origin, or one of admin.origins";
        Err(Problem::at(Kind::Forbidden, "Origin", found, expected))
    }

    fn who(&self, headers: &HeaderMap) -> Result<Who, Problem> {
        let Some(tokens) = &self.tokens else { return Ok(Who::local()) };
        let refused = |detail| Problem::new(Kind::Unauthorised, detail);
        let token = token_of(headers)
            .ok_or_else(|| refused("expected the header Authorization: Bearer TOKEN"))?;
        let file = tokens.file();
        let found = file
            .find(token.as_bytes())
            .ok_or_else(|| refused("no token of this node; see the file admin.tokens_file"))?;
        let role = AdminRole::of(found.role()).ok_or_else(|| {
            let (name, role) = (found.name(), found.role());
            let detail = format!(
                "the token of {name} has the role {role}; this door knows read and operate"
            );
            Problem::new(Kind::Forbidden, detail)
        })?;
        if found.scopes().is_limited() {
            let detail = format!(
                "the token of {} is limited to budgets, which this door does not heed",
                found.name()
            );
            return Err(Problem::new(Kind::Forbidden, detail));
        }
        Ok(Who::principal(found, role, tokens))
    }
}

/// What anybody may see: the pages without figures, and whether the node lives.
fn is_public(path: &str) -> bool {
    matches!(path, "/" | "/ui" | "/healthz" | "/readyz" | "/v1/openapi.json")
        || path.starts_with("/ui/")
        || path.starts_with("/docs/")
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// The name that the client calls the door by, with the port.
fn host_of(request: &Request) -> Option<&[u8]> {
    let authority = request.uri().authority().map(Authority::as_str);
    authority.map(str::as_bytes).or_else(|| Some(request.headers().get(header::HOST)?.as_bytes()))
}

/// Lets in who may, and says who it is in the request's extensions.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    match gate.judge(&request) {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Sets the headers that keep browsers from doing what nobody meant; answers that say nothing of it are not stored.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::TokenFile;
    use axum::body::Body;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(gate: &Gate, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        gate.judge(&request(method, path, headers)).map_or_else(|problem| problem.status, |_| 200)
    }

    fn gate(tokens: Option<&str>, origins: &[&str], ip: &str) -> Gate {
        let tokens = tokens.map(|text| LiveTokens::new(TokenFile::parse(text).unwrap()));
        let origins = origins.iter().map(ToString::to_string).collect();
        let origins = OriginGuard::new(false, origins).unwrap();
        Gate::new(tokens, origins, ip.parse().unwrap()).unwrap()
    }

    fn local(origins: &[&str]) -> Gate {
        gate(None, origins, "127.0.0.1")
    }

    #[test]
    fn only_names_of_this_machine_are_meant() {
        let gate = local(&["https://ops.example:8443"]);
        for host in ["localhost", "LOCALHOST:7780", "127.0.0.1:1", "[::1]:7780", "ops.example"] {
            assert_eq!(status(&gate, "GET", "/v1/me", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "",
            "127.0.0.2",
            "x@localhost",
        ] {
            assert_eq!(status(&gate, "GET", "/ui/", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(status(&gate, "GET", "/v1/me", &[]), 421);
        let mut old = request("GET", "/healthz", &[]);
        *old.version_mut() = Version::HTTP_10;
        assert!(gate.judge(&old).is_ok(), "a probe without a Host, which no browser sends");
        let open = self::gate(None, &[], "10.0.0.7");
        assert_eq!(status(&open, "GET", "/v1/me", &[("host", "node7.example")]), 200);
    }

    #[test]
    fn pages_of_strangers_change_nothing() {
        let gate = local(&["https://ops.example"]);
        let host = ("host", "127.0.0.1:7780");
        let of = |method, path, origin| status(&gate, method, path, &[host, ("origin", origin)]);
        for origin in ["http://127.0.0.1:7780", "https://ops.example"] {
            assert_eq!(of("POST", "/v1/bulk", origin), 200, "{origin}");
            assert_eq!(of("GET", LIVE, origin), 200, "{origin}");
        }
        let strangers =
            ["http://evil.example", "null", "https://127.0.0.1:7780", "http://127.0.0.1:7781", ""];
        for origin in strangers {
            assert_eq!(of("POST", "/v1/bulk", origin), 403, "{origin}");
            assert_eq!(of("GET", LIVE, origin), 403, "{origin}");
            assert_eq!(of("GET", "/v1/me", origin), 200, "{origin} cannot read the answer");
        }
    }

    #[test]
    fn roles_say_what_may_be_done() {
        let tokens =
            "a operate aaaaaaaaaaaaaaaa\nb read bbbbbbbbbbbbbbbb\nc spend cccccccccccccccc";
        let gate = gate(Some(tokens), &[], "127.0.0.1");
        let of = |method, path, token: &str| {
            status(&gate, method, path, &[("host", "localhost"), ("authorization", token)])
        };
        let (operate, read) = ("Bearer aaaaaaaaaaaaaaaa", "Bearer bbbbbbbbbbbbbbbb");
        assert_eq!((of("GET", "/v1/me", read), of("POST", "/v1/bulk", read)), (200, 403));
        assert_eq!((of("GET", "/v1/me", operate), of("POST", "/v1/bulk", operate)), (200, 200));
        assert_eq!((of("GET", "/v1/me", "Bearer x"), of("GET", "/metrics", "")), (401, 401));
        let spend = "Bearer cccccccccccccccc";
        assert_eq!((of("GET", "/v1/me", spend), of("POST", "/v1/bulk", spend)), (403, 403));
        for public in ["/", "/ui/", "/ui/assets/x.js", "/healthz", "/docs/api", "/v1/openapi.json"]
        {
            assert_eq!(of("GET", public, ""), 200, "{public}");
        }
        for private in ["/stat", "/v1/openapi.jsonx", "/uix", "/docsx"] {
            assert_eq!(of("GET", private, ""), 401, "{private}");
        }
    }
}
