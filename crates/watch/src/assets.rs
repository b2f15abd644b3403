//! The dashboard's files, packed when the crate was compiled, and the pages of the documentation that errors lead to, which whoever
//! opens the door brings along.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;

/// A packed file, as `build/pack.rs` writes it.
#[derive(Debug)]
pub struct Asset {
    /// Below `/ui/` or `/docs/`.
    pub path: &'static str,
    /// Its hash, in quotes.
    pub etag: &'static str,
    /// Its name says its content: it may be kept for ever.
    pub hashed: bool,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same by gzip, where that is smaller.
    pub gzip: Option<&'static [u8]>,
    /// The same by brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Shown where the dashboard was not built.
const ABSENT: &str = include_str!("assets/absent.html");

/// The hash of the embedded dashboard; `absent` where it was not built when the crate was compiled.
#[must_use]
pub fn ui_version() -> &'static str {
    VERSION
}

/// `/` leads to the dashboard, which owns all of `/ui/`.
pub(crate) fn routes(docs: &'static [Asset]) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/ui/") }))
        .route("/ui", get(|| async { Redirect::permanent("/ui/") }))
        .route("/ui/", get(|headers: HeaderMap| async move { answer("", &headers) }))
        .route(
            "/ui/{*path}",
            get(|Path(path): Path<String>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
                match better(&path) {
                    Some(address) => lead(address, query),
                    None => answer(&path, &headers),
                }
            }),
        )
        .route(
            "/docs/{*name}",
            get(move |Path(name): Path<String>, headers: HeaderMap| async move {
                doc(docs, &name, &headers)
            }),
        )
}

/// A page of the documentation, as text.
fn doc(docs: &[Asset], name: &str, headers: &HeaderMap) -> Response {
    match docs.iter().find(|page| page.path == name) {
        Some(page) => page.answer(headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Where an address leads that people guess: a list has the plural, a campaign's page the singular.
fn better(path: &str) -> Option<String> {
    match path.trim_end_matches('/').split_once('/') {
        None if matches!(path.trim_end_matches('/'), "campaign" | "campaigns") => {
            Some("/ui/".into())
        }
        Some(("campaigns", id)) if is_id(id) => Some(format!("/ui/campaign/{id}")),
        _ => None,
    }
}

/// The view of a list stands in the query; it goes along.
fn lead(mut address: String, query: Option<String>) -> Response {
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        address.push('?');
        address.push_str(&query);
    }
    Redirect::temporary(&address).into_response()
}

fn is_id(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Names and titles of the pages beside the list and a budget's: the browser compiles the same file in.
static PAGES: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../web/src/url/pages.json")).unwrap_or_default()
});

/// Does the dashboard have a page there? The same as `placeOf` in `web/src/url/router.ts`.
fn is_page(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path.is_empty()
        || PAGES.contains_key(path)
        || path.strip_prefix("campaign/").is_some_and(|name| is_id(name) || is_handle(name))
}

/// Can a budget have this handle? It may hold slashes and dots.
fn is_handle(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte);
    (1..=128).contains(&text.len())
        && text.bytes().all(fits)
        && !text.bytes().all(|byte| byte.is_ascii_digit())
}

fn answer(path: &str, headers: &HeaderMap) -> Response {
    match find(ASSETS, path) {
        Some(Found::There(asset)) => asset.answer(headers),
        Some(Found::Nowhere(page)) => page.answer_nowhere(headers),
        None if ASSETS.is_empty() => (StatusCode::OK, Html(ABSENT)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// What is sent for an address.
#[derive(Clone, Copy)]
enum Found<'a> {
    There(&'a Asset),
    /// The dashboard, which says itself that it has no such page.
    Nowhere(&'a Asset),
}

/// The file, or the page for every address that is not a file's: the dashboard reads its own address.
fn find<'a>(assets: &'a [Asset], path: &str) -> Option<Found<'a>> {
    let exact = |wanted: &str| assets.iter().find(|asset| asset.path == wanted);
    let is_file = path.rsplit('/').next().unwrap_or_default().contains('.') && !is_page(path);
    if let Some(asset) = exact(path) {
        return Some(Found::There(asset));
    }
    let page = exact("index.html").filter(|_| !is_file)?;
    Some(if is_page(path) { Found::There(page) } else { Found::Nowhere(page) })
}

impl Asset {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let cache = if self.hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        let common = [
            (header::ETAG, HeaderValue::from_static(self.etag)),
            (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
            (header::VARY, HeaderValue::from_static("Accept-Encoding")),
        ];
        if is_known(headers, self.etag) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        (common, self.body(headers)).into_response()
    }

    /// For an address where nothing is. It is not kept: that something is unchanged there would be no answer.
    fn answer_nowhere(&self, headers: &HeaderMap) -> Response {
        let common = [
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::VARY, HeaderValue::from_static("Accept-Encoding")),
        ];
        (StatusCode::NOT_FOUND, common, self.body(headers)).into_response()
    }

    /// Its bytes, in the form that the client takes.
    fn body(&self, headers: &HeaderMap) -> Response {
        let (encoding, bytes) = self.encoded(headers);
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type(self.path)))];
        let mut response = (kind, bytes).into_response();
        if let Some(encoding) = encoding {
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    }

    /// The smallest form that the client takes.
    fn encoded(&self, headers: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
        let forms = [("br", self.brotli), ("gzip", self.gzip)];
        let taken = forms.into_iter().filter(|(name, _)| accepts(headers, name));
        let form = taken.filter_map(|(name, bytes)| Some((Some(name), bytes?))).next();
        form.unwrap_or((None, self.plain))
    }
}

/// Does `Accept-Encoding` name it, and not with a weight of 0?
fn accepts(headers: &HeaderMap, name: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings =
        values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (coding, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let zero = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        coding.trim().eq_ignore_ascii_case(name) && zero.is_none_or(|weight| weight > 0.0)
    })
}

/// Does the client have this content already?
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags =
        values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    tags.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        // Browsers show text, and save Markdown.
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assets() -> Vec<Asset> {
        let asset = |path, hashed, gzip, brotli| Asset {
            path,
            etag: "\"1f\"",
            hashed,
            plain: b"plain",
            gzip,
            brotli,
        };
        vec![
            asset("index.html", false, Some(b"gz"), Some(b"br")),
            asset("assets/app-1234.js", true, None, None),
        ]
    }

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn addresses_without_a_file_are_the_page() {
        let assets = assets();
        let found = |path| match find(&assets, path)? {
            Found::There(asset) => Some((asset.path, true)),
            Found::Nowhere(asset) => Some((asset.path, false)),
        };
        assert_eq!(found("assets/app-1234.js"), Some(("assets/app-1234.js", true)));
        let named = ["engine", "costs", "vault", "fix", "orders", "audit"];
        assert!(named.iter().all(|page| PAGES.contains_key(page)), "{PAGES:?}");
        for page in ["", "campaign/17", "audit/", "campaign/x/y.z"].iter().chain(&named) {
            assert_eq!(found(page), Some(("index.html", true)), "{page}");
        }
        for nowhere in ["nowhere", "campaign/a%20b", "engine/1", "campaign/123456789012345678901"] {
            assert_eq!(found(nowhere), Some(("index.html", false)), "{nowhere}");
        }
        assert_eq!(found("assets/app-9999.js"), None, "an old page must not get HTML for a script");
    }

    #[test]
    fn the_smallest_form_that_is_taken_is_sent() {
        let assets = assets();
        let form = |value: &str| assets[0].encoded(&with(header::ACCEPT_ENCODING, value));
        assert_eq!(form("gzip, deflate, br"), (Some("br"), &b"br"[..]));
        assert_eq!(form("gzip, br;q=0"), (Some("gzip"), &b"gz"[..]));
        assert_eq!(form("identity"), (None, &b"plain"[..]));
        assert_eq!(assets[1].encoded(&with(header::ACCEPT_ENCODING, "br")).0, None);
    }

    #[test]
    fn a_budget_has_a_page_by_its_id_and_by_its_handle() {
        for page in ["campaign/17", "campaign/team-42/gpt-5.1", "campaign/a.b", "engine"] {
            assert!(is_page(page), "{page}");
        }
        for other in ["campaign/123456789012345678901", "campaign/a b", "campaign/", "x/a.b"] {
            assert!(!is_page(other), "{other}");
        }
    }

    #[test]
    fn addresses_that_people_guess_lead_on() {
        for (guess, right) in [
            ("campaigns/17", Some("/ui/campaign/17")),
            ("campaigns/17/", Some("/ui/campaign/17")),
            ("campaigns", Some("/ui/")),
            ("campaign", Some("/ui/")),
            ("campaigns/../v1", None),
            ("campaigns//evil.example", None),
            ("campaign/17", None),
        ] {
            assert_eq!(better(guess).as_deref(), right, "{guess}");
        }
        let led = lead("/ui/".into(), Some("f=unit%3AUSD".into()));
        assert_eq!(led.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(led.headers()[header::LOCATION], "/ui/?f=unit%3AUSD");
    }

    #[test]
    fn nowhere_is_never_unchanged() {
        let assets = assets();
        let answer = assets[0].answer_nowhere(&with(header::IF_NONE_MATCH, "*"));
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert!(!answer.headers().contains_key(header::ETAG));
    }

    #[test]
    fn known_content_is_not_sent_again() {
        let assets = assets();
        for known in ["\"1f\"", "W/\"1f\"", "\"2\", \"1f\"", "*"] {
            let answer = assets[0].answer(&with(header::IF_NONE_MATCH, known));
            assert_eq!(answer.status(), StatusCode::NOT_MODIFIED, "{known}");
        }
        let fresh = assets[1].answer(&with(header::IF_NONE_MATCH, "\"2\""));
        assert_eq!(fresh.status(), StatusCode::OK);
        assert!(fresh.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
    }
}
