//! The description of the door's calls: for programs (OpenAPI 3.1), and for people a page that is made of it.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;
use wire::Verdict;

use crate::problem::{Fault, NEVER, about, status_of};

/// `/openapi.json`.
pub(crate) const JSON: &str = include_str!("openapi.json");

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    pre{background:#8882;padding:.7rem;overflow-x:auto}code{font-family:ui-monospace,monospace}\
    table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}h2{margin-top:2.5rem}\
    :root{color-scheme:light dark}";

/// `/docs`: a page without scripts. It has a place for the `type` of every error.
pub(crate) fn page() -> &'static [u8] {
    static PAGE: LazyLock<String> = LazyLock::new(|| {
        // A test reads the document; a node serves what there is.
        render(&serde_json::from_str(JSON).unwrap_or_default())
    });
    PAGE.as_bytes()
}

fn render(document: &Value) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Weir: the spend door</title>\
         <style>{STYLE}</style></head><body><main><h1>Weir: the spend door</h1>"
    );
    for part in text(&document["info"]["description"]).split("\n\n") {
        let _ = write!(out, "<p>{}</p>", marked(part));
    }
    out += "<p>For programs: <a href=\"/openapi.json\">/openapi.json</a>.</p>";
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(methods) {
            operation_to(&mut out, path, method, operation);
        }
    }
    out += "<h2>Errors</h2><table><tr><th>verdict</th><th>status</th><th>meaning</th></tr>";
    let refusals = refusals().map(|v| (v.name(), status_of(v), about(v).1));
    let faults = Fault::ALL.iter().map(|fault| (fault.verdict(), fault.status(), fault.title()));
    let mut placed = Vec::new();
    for (word, status, meaning) in refusals.chain(faults) {
        // Several faults may have one verdict: its place is the first.
        let id = match placed.contains(&word) {
            true => String::new(),
            false => format!(" id=\"{word}\""),
        };
        placed.push(word);
        let meaning = escaped(meaning);
        let _ = write!(
            out,
            "<tr{id}><td><code>{word}</code></td><td>{status}</td><td>{meaning}</td></tr>"
        );
    }
    out + "</table></main></body></html>\n"
}

/// The ledger's verdicts that a call may be refused with.
fn refusals() -> impl Iterator<Item = Verdict> {
    let all = Verdict::ALL.iter().copied();
    all.filter(|verdict| status_of(*verdict) >= 400 && !NEVER.contains(verdict))
}

fn operation_to(out: &mut String, path: &str, method: &str, operation: &Value) {
    let method = method.to_ascii_uppercase();
    let (id, summary) = (text(&operation["operationId"]), text(&operation["summary"]));
    let _ = write!(out, "<h2 id=\"{id}\"><code>{method} {path}</code></h2><p><b>{summary}.</b> ");
    let _ = write!(out, "{}</p>", marked(text(&operation["description"])));
    let asked = &operation["requestBody"]["content"]["application/json"]["example"];
    let answered = &operation["responses"]["200"]["content"]["application/json"]["example"];
    for (name, example) in [("Body", asked), ("Answer", answered)] {
        if !example.is_null() {
            let _ = write!(
                out,
                "<p>{name}</p><pre><code>{}</code></pre>",
                escaped(&example.to_string())
            );
        }
    }
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Escaped, with what stands between backquotes as code.
fn marked(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate().map(|(place, part)| match place % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use door_http::Refusal;

    use super::*;
    use crate::call::CallKind;

    fn document() -> Value {
        serde_json::from_str(JSON).unwrap()
    }

    #[test]
    fn the_document_has_every_call_and_every_reference_leads_somewhere() {
        let document = document();
        for kind in CallKind::ALL {
            let path = format!("/v1/{}", kind.name());
            assert_eq!(document["paths"][&path]["post"]["operationId"], kind.name());
        }
        let all = JSON.split("\"$ref\": \"#").skip(1);
        let places: Vec<&str> = all.map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(places.len() > 50);
        for place in places {
            assert!(document.pointer(place).is_some(), "{place}");
        }
    }

    /// Under each status of the document stand the verdicts that have it.
    #[test]
    fn every_refusal_stands_under_its_status() {
        let document = document();
        let names = [
            (400, "Malformed"),
            (401, "Unauthorised"),
            (402, "Exhausted"),
            (403, "Forbidden"),
            (404, "Unknown"),
            (409, "Conflict"),
            (410, "Gone"),
            (413, "TooLarge"),
            (414, "TargetTooLong"),
            (415, "MediaType"),
            (417, "Expectation"),
            (421, "Host"),
            (429, "Later"),
            (431, "HeadTooLarge"),
            (503, "Unsealed"),
        ];
        let of = |status: u16| {
            let name = names.iter().find(|(known, _)| *known == status).unwrap().1;
            text(&document["components"]["responses"][name]["description"]).to_owned()
        };
        for verdict in refusals() {
            assert!(
                of(status_of(verdict)).contains(&format!("`{}`", verdict.name())),
                "{verdict:?}"
            );
        }
        for why in Refusal::ALL.iter().filter(|why| why.status() != 405) {
            let answer = crate::answer::refusal(*why);
            let problem: Value = serde_json::from_slice(answer.body).unwrap();
            let word = text(&problem["verdict"]);
            assert!(of(why.status()).contains(&format!("`{word}`")), "{why:?}");
            for (path, methods) in members(&document["paths"]) {
                for (method, operation) in members(methods) {
                    let status = why.status().to_string();
                    assert!(
                        operation["responses"][&status].is_object(),
                        "{method} {path} {status}"
                    );
                }
            }
        }
        let paths = [Fault::UnknownPath, Fault::Method];
        for fault in Fault::ALL.iter().filter(|fault| !paths.contains(fault)) {
            assert!(of(fault.status()).contains(&format!("`{}`", fault.verdict())), "{fault:?}");
        }
    }

    #[test]
    fn the_page_has_a_place_for_every_error_and_runs_nothing() {
        let page = std::str::from_utf8(page()).unwrap();
        let words = refusals().map(|verdict| verdict.name());
        for word in words.chain(Fault::ALL.iter().map(|fault| fault.verdict())) {
            assert_eq!(page.matches(&format!("<tr id=\"{word}\">")).count(), 1, "{word}");
        }
        assert!(page.contains("<h2 id=\"reserve\">") && !page.contains("<script"));
        assert!(page.contains("\"budget\":1001"), "examples");
        assert_eq!(marked("a `b<c` d"), "a <code>b&lt;c</code> d");
    }
}
