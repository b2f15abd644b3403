//! The dashboard's files, and the pages of the documentation that errors lead to; packed when the crate was compiled.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;

/// A file.
struct Asset {
    /// Below `/ui/` or `/docs/`.
    path: &'static str,
    /// Its hash, in quotes.
    etag: &'static str,
    /// Its name says its content: it may be kept for ever.
    hashed: bool,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
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
pub(crate) fn routes() -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/ui/") }))
        .route("/ui", get(|| async { Redirect::permanent("/ui/") }))
        .route("/ui/", get(|headers: HeaderMap| async move { answer("", &headers) }))
        .route(
            "/ui/{*path}",
            get(|Path(path): Path<String>, headers: HeaderMap| async move { answer(&path, &headers) }),
        )
        .route(
            "/docs/{name}",
            get(|Path(name): Path<String>, headers: HeaderMap| async move { doc(&name, &headers) }),
        )
}

/// A page of the documentation, as text.
fn doc(name: &str, headers: &HeaderMap) -> Response {
    match DOCS.iter().find(|page| page.path == name) {
        Some(page) => page.answer(headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn answer(path: &str, headers: &HeaderMap) -> Response {
    match find(ASSETS, path) {
        Some(asset) => asset.answer(headers),
        None if ASSETS.is_empty() => (StatusCode::OK, Html(ABSENT)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The file, or the page for every address that is not a file's: the dashboard reads its own address.
fn find<'a>(assets: &'a [Asset], path: &str) -> Option<&'a Asset> {
    let exact = |wanted: &str| assets.iter().find(|asset| asset.path == wanted);
    let is_page = !path.rsplit('/').next().unwrap_or_default().contains('.');
    exact(path).or_else(|| exact("index.html").filter(|_| is_page))
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
        let (encoding, bytes) = self.encoded(headers);
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type(self.path)))];
        let mut response = (common, kind, bytes).into_response();
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
        let found = |path| find(&assets, path).map(|asset| asset.path);
        assert_eq!(found("assets/app-1234.js"), Some("assets/app-1234.js"));
        for page in ["", "campaigns", "campaign/17"] {
            assert_eq!(found(page), Some("index.html"), "{page}");
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
