//! What stands before every call: is the door meant, who asks, may they, and where does the page come from that asks.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::{Role, Tokens, Who, token_of};
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
    tokens: Option<Tokens>,
    /// Other pages that may ask, as a browser writes them: `https://ops.example`.
    origins: Vec<String>,
    /// The names of those.
    hosts: Vec<String>,
    /// `http` or `https`.
    scheme: &'static str,
    /// On loopback a name that is not of this machine means that a stranger's page calls itself so (DNS rebinding).
    loopback: bool,
}

impl Gate {
    pub(crate) fn new(
        tokens: Option<Tokens>,
        origins: Vec<String>,
        tls: bool,
        loopback: bool,
    ) -> Gate {
        let name = |origin: &String| {
            let authority: Authority = origin.split_once("://")?.1.parse().ok()?;
            Some(authority.host().to_ascii_lowercase())
        };
        let hosts = origins.iter().filter_map(name).collect();
        let scheme = if tls { "https" } else { "http" };
        Gate(Arc::new(Rules { tokens, origins, hosts, scheme, loopback }))
    }

    fn judge(&self, request: &Request) -> Result<Who, Problem> {
        let rules = &self.0;
        rules.check_host(request)?;
        rules.check_origin(request)?;
        if is_public(request.uri().path()) {
            return Ok(Who { name: "".into(), role: Role::Read });
        }
        let who = rules.who(request.headers())?;
        let needed = if is_safe(request.method()) { Role::Read } else { Role::Operate };
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
        let known = host.as_ref().is_some_and(|host| self.is_own(host.host()));
        if known || !self.loopback {
            return Ok(());
        }
        let found = host.map_or_else(|| "none".to_string(), |host| host.to_string());
        let expected = "localhost, 127.0.0.1, [::1], or a name of admin.origins";
        Err(Problem::at(Kind::Host, "Host", &found, expected))
    }

    fn is_own(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        matches!(&*host, "localhost" | "127.0.0.1" | "[::1]") || self.hosts.contains(&host)
    }

    /// A page of another origin may neither change anything nor open the live stream.
    fn check_origin(&self, request: &Request) -> Result<(), Problem> {
        let guarded = !is_safe(request.method()) || request.uri().path() == LIVE;
        let Some(origin) = request.headers().get(header::ORIGIN).filter(|_| guarded) else {
            return Ok(());
        };
        let own = host_of(request).map(|host| format!("{}://{host}", self.scheme));
        let origin = origin.to_str().unwrap_or("bytes that are not text");
        if own.as_deref() == Some(origin) || self.origins.iter().any(|known| known == origin) {
            return Ok(());
        }
        let expected = "the door's own origin, or one of admin.origins";
        Err(Problem::at(Kind::Forbidden, "Origin", origin, expected))
    }

    fn who(&self, headers: &HeaderMap) -> Result<Who, Problem> {
        let Some(tokens) = &self.tokens else { return Ok(Who::local()) };
        let refused = |detail| Problem::new(Kind::Unauthorised, detail);
        let token = token_of(headers)
            .ok_or_else(|| refused("expected the header Authorization: Bearer TOKEN"))?;
        let who = tokens.find(token).cloned();
        who.ok_or_else(|| refused("no token of this node; see the file admin.tokens_file"))
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

/// The name that the client calls the door by.
fn host_of(request: &Request) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    request.headers().get(header::HOST)?.to_str().ok()?.parse().ok()
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

    fn local(origins: &[&str]) -> Gate {
        Gate::new(None, origins.iter().map(ToString::to_string).collect(), false, true)
    }

    #[test]
    fn only_names_of_this_machine_are_meant() {
        let gate = local(&["https://ops.example:8443"]);
        for host in ["localhost", "LOCALHOST:7780", "127.0.0.1:1", "[::1]:7780", "ops.example"] {
            assert_eq!(status(&gate, "GET", "/v1/me", &[("host", host)]), 200, "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "127.0.0.2"]
        {
            assert_eq!(status(&gate, "GET", "/ui/", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(status(&gate, "GET", "/v1/me", &[]), 421);
        let open = Gate::new(None, Vec::new(), true, false);
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
        let tokens = Tokens::parse("a operate aaaaaaaaaaaaaaaa\nb read bbbbbbbbbbbbbbbb").unwrap();
        let gate = Gate::new(Some(tokens), Vec::new(), false, true);
        let of = |method, path, token: &str| {
            status(&gate, method, path, &[("host", "localhost"), ("authorization", token)])
        };
        let (operate, read) = ("Bearer aaaaaaaaaaaaaaaa", "Bearer bbbbbbbbbbbbbbbb");
        assert_eq!((of("GET", "/v1/me", read), of("POST", "/v1/bulk", read)), (200, 403));
        assert_eq!((of("GET", "/v1/me", operate), of("POST", "/v1/bulk", operate)), (200, 200));
        assert_eq!((of("GET", "/v1/me", "Bearer x"), of("GET", "/metrics", "")), (401, 401));
        for public in ["/", "/ui/", "/ui/assets/x.js", "/healthz", "/docs/api", "/v1/openapi.json"]
        {
            assert_eq!(of("GET", public, ""), 200, "{public}");
        }
        for private in ["/stat", "/v1/openapi.jsonx", "/uix", "/docsx"] {
            assert_eq!(of("GET", private, ""), 401, "{private}");
        }
    }
}
