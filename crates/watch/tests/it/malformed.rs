//! Whatever cannot be read is told where, what and what instead.

use proptest::prelude::*;
use serde_json::json;

use crate::fake::Door;
use crate::http::{call, get};

/// What was found, what was expected, and no words for programmers.
fn is_for_people(problem: &serde_json::Value) {
    assert!(problem["found"].is_string() && problem["expected"].is_string(), "{problem}");
    let text = problem.to_string();
    for word in ["invalid type", "invalid value", "u32", "u64", "EOF", "a string", "target type"] {
        assert!(!text.contains(word), "{word}: {problem}");
    }
}

#[test]
fn parameters_that_cannot_be_read() {
    let door = Door::open(3);
    let table = [
        ("/v1/budgets?max=0", "max"),
        ("/v1/budgets?max=1001", "max"),
        ("/v1/budgets?max=ten", "max"),
        ("/v1/budgets?max=1&max=2", "max"),
        ("/v1/budgets?limit=5", "limit"),
        ("/v1/budgets?sort=price", "sort"),
        ("/v1/budgets?filter=pace:1", "filter"),
        ("/v1/budgets?filter=status:happy", "filter"),
        ("/v1/budgets?cursor=abc", "cursor"),
        ("/v1/budgets.csv?cursor=abc", "cursor"),
        ("/v1/budgets/a%20b", "id"),
        ("/v1/budgets/a%20b/history", "id"),
        ("/v1/budgets/007", "id"),
        ("/v1/audit?budget=007", "budget"),
        ("/v1/audit?max=-1", "max"),
        ("/v1/audit/x", "record"),
        ("/v1/budgets/1/history?from_ms=99999999999999999999", "from_ms"),
        ("/v1/budgets?max=", "max"),
        ("/v1/node?x=1", "the query"),
        ("/v1/budgets/1?x=1", "the query"),
        ("/v1/costs/history?x", "the query"),
        ("/v1/openapi.json?x=1", "the query"),
    ];
    for (path, field) in table {
        let problem = get(path).send(door.to).problem(400, "malformed");
        assert_eq!(problem["field"], field, "{path}: {problem}");
        is_for_people(&problem);
    }
    let create = call("POST", "/v1/budgets?max=1").json(&json!({})).send(door.to);
    assert_eq!(create.problem(400, "malformed")["field"], "the query", "GET has it, POST has not");
    get("/healthz?x=1").send(door.to).expect(200);
    get("/v1/budgets/1/history?step_ms=60000").send(door.to).expect(200);
    let long = "a".repeat(4_097);
    get(format!("/v1/budgets?q={long}")).send(door.to).problem(400, "malformed");
}

#[test]
fn what_is_not_there() {
    let door = Door::open(3);
    for path in [
        "/v1/budgets/4",
        "/v1/budgets/18446744073709551616",
        "/v1/budgets/4/refusals",
        "/v1/audit/9",
        "/nowhere",
        "/v1/",
        "/v1/budgets/",
        "/ui/assets/none.js.map/x/",
    ] {
        let answer = get(path).send(door.to);
        if path.starts_with("/ui/") && watch::ui_version() == "absent" {
            continue;
        }
        if path.starts_with("/ui/") {
            let page = answer.expect(404);
            assert!(page.text().contains("<!doctype html>"), "a page for people, with a way back");
            continue;
        }
        answer.problem(404, "unknown");
    }
    let wrong = call("DELETE", "/v1/budgets/1").send(door.to);
    let allowed = wrong.header("allow").unwrap().to_string();
    assert!(allowed.contains("GET") && allowed.contains("PATCH"), "{allowed}");
    wrong.problem(405, "method");
    call("POST", "/healthz").send(door.to).problem(405, "method");
    // That a method is wrong is said before its query is read.
    call("TRACE", "/v1/audit?max=1").send(door.to).problem(405, "method");
    get("/v1/node?max=1").send(door.to).problem(400, "malformed");
    get("/v1/audit?max=1").send(door.to).expect(200);
    // What the rest of the node says in plain text becomes a problem too.
    get("/stat").send(door.to).problem(502, "internal");
}

#[test]
fn bodies_that_cannot_be_read() {
    let door = Door::open(3);
    let bodies: [(&str, &str); 14] = [
        ("", "the body"),
        ("{", "the body"),
        ("[]", "the body"),
        ("null", "the body"),
        (r#"{"why":"abc"} x"#, "the body"),
        ("{}", "why"),
        (r#"{"why":"ab"}"#, "why"),
        (r#"{"why":5}"#, "why"),
        (r#"{"why":null}"#, "why"),
        (r#"{"why":"a\u0000bc"}"#, "why"),
        (r#"{"why":"abc","who":"me"}"#, "who"),
        (r#"{"why":"abc","why":"abd"}"#, "why"),
        ("{\"why\":\"\u{feff}\"}", "why"),
        ("\"abc\"", "the body"),
    ];
    for (body, field) in bodies {
        let call = call("POST", "/v1/budgets/1/pause").with("Content-Type", "application/json");
        // Without a body there is no length either.
        let answer = call.with("Content-Length", body.len().to_string()).text(body).send(door.to);
        let problem = answer.problem(400, "malformed");
        assert_eq!(problem["field"], field, "{body}: {problem}");
        is_for_people(&problem);
    }
    let invalid = call("POST", "/v1/budgets/1/pause")
        .with("Content-Type", "application/json")
        .text([b'"', 0xFF, b'"']);
    invalid.send(door.to).problem(400, "malformed");
    let deep = "[".repeat(5_000);
    let deep = call("POST", "/v1/bulk").with("Content-Type", "application/json").text(deep);
    deep.send(door.to).problem(400, "malformed");
    let plain = call("POST", "/v1/budgets/1/pause")
        .with("Content-Type", "text/plain")
        .text("{\"why\":\"abc\"}");
    plain.send(door.to).problem(415, "media_type");
    let none = call("POST", "/v1/budgets/1/pause").text("{\"why\":\"abc\"}");
    none.send(door.to).problem(415, "media_type");
    let large = call("POST", "/v1/budgets/1/pause").json(&json!({"why": "x".repeat(70_000)}));
    large.send(door.to).problem(413, "too_large");
    assert_eq!(door.node.edits(), 0);
}

#[test]
fn changes_that_cannot_be_read() {
    let door = Door::open(3);
    let bulk = |body: &str, field: &str| {
        let call = call("POST", "/v1/bulk").with("Content-Type", "application/json");
        let problem = call
            .with("Idempotency-Key", "12345678")
            .text(body)
            .send(door.to)
            .problem(400, "malformed");
        assert_eq!(problem["field"], field, "{body}: {problem}");
        is_for_people(&problem);
    };
    bulk(r#"{"action":"stop","select":{},"expected":3,"why":"abc"}"#, "action");
    bulk(r#"{"action":"set","changes":{},"select":{},"expected":3,"why":"abc"}"#, "changes");
    bulk(r#"{"action":"scale","changes":{},"select":{},"expected":3,"why":"abc"}"#, "changes");
    bulk(
        r#"{"action":"set","changes":{"name":"x"},"select":{},"expected":3,"why":"abc"}"#,
        "changes.name",
    );
    bulk(r#"{"action":"pause","changes":{},"select":{},"expected":3,"why":"abc"}"#, "changes");
    bulk(r#"{"action":"pause","select":{"ids":["1","1"]},"expected":2,"why":"abc"}"#, "select.ids");
    bulk(r#"{"action":"pause","select":{"ids":[]},"expected":0,"why":"abc"}"#, "select.ids");
    bulk(r#"{"action":"pause","select":{"filter":"x"},"expected":0,"why":"abc"}"#, "filter");
    bulk(r#"{"action":"pause","select":{},"expected":-1,"why":"abc"}"#, "expected");
    bulk(
        r#"{"action":"pause","select":{"ids":["1"],"filter":"id:1"},"expected":1,"why":"abc"}"#,
        "select",
    );
    bulk(
        r#"{"action":"scale","changes":{"limit_ppm":9999999999},"select":{},"expected":3,"why":"abc"}"#,
        "changes.limit_ppm",
    );
    let body = json!({"action": "pause", "select": {}, "expected": 3, "why": "abc"});
    let problem = call("POST", "/v1/bulk").json(&body).send(door.to).problem(400, "malformed");
    assert_eq!(problem["field"], "Idempotency-Key");
    for key in ["short", "with space in it", &"k".repeat(65)] {
        call("POST", "/v1/bulk")
            .json(&body)
            .with("Idempotency-Key", key)
            .send(door.to)
            .problem(400, "malformed");
    }
    let patch = |tag: &str| call("PATCH", "/v1/budgets/1").with("If-Match", tag);
    let number = json!({"changes": {"windows": {"day": 5}}, "why": "abc"});
    let told = patch("\"1\"").json(&number).send(door.to).problem(400, "malformed").to_string();
    assert!(told.contains("expected an amount as text, such as"), "{told}");
    let body = json!({"changes": {"limit": "5.00"}, "why": "abc"});
    for tag in ["1", "W/\"1\"", "*", "\"x\"", "\"\""] {
        patch(tag).json(&body).send(door.to).problem(400, "malformed");
    }
    let body = json!({"changes": {}, "why": "abc"});
    assert_eq!(
        patch("\"1\"").json(&body).send(door.to).problem(400, "malformed")["field"],
        "changes"
    );
    assert_eq!(door.node.edits(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_bytes_are_answered(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 8)) {
        let door = Door::open(1);
        for body in bodies {
            let call = call("POST", "/v1/bulk").with("Content-Type", "application/json").text(body);
            call.send(door.to).problem(400, "malformed");
        }
    }
}
