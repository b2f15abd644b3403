//! The OpenAPI document lists exactly what there is, and every call answers as it says.

use std::collections::BTreeSet;

use access::{LiveTokens, TokenFile};
use serde_json::{Value, json};

use crate::fake::Door;
use crate::http::{call, get};

/// Every call there is. The document must list these and no others.
const CALLS: [(&str, &str); 33] = [
    ("get", "/v1/me"),
    ("get", "/v1/budgets"),
    ("post", "/v1/budgets"),
    ("get", "/v1/budgets.csv"),
    ("get", "/v1/budgets/{id}"),
    ("patch", "/v1/budgets/{id}"),
    ("post", "/v1/budgets/{id}/pause"),
    ("post", "/v1/budgets/{id}/resume"),
    ("get", "/v1/budgets/{id}/refusals"),
    ("post", "/v1/bulk"),
    ("get", "/v1/report"),
    ("get", "/v1/report.csv"),
    ("get", "/v1/audit"),
    ("get", "/v1/audit/{record}"),
    ("post", "/v1/audit/{record}/undo"),
    ("get", "/v1/fix/sessions"),
    ("get", "/v1/fix/sessions/{name}/messages"),
    ("get", "/v1/fix/orders"),
    ("get", "/v1/fix/kill"),
    ("post", "/v1/fix/kill"),
    ("delete", "/v1/fix/kill"),
    ("put", "/v1/fix/sessions/{name}/sequence"),
    ("post", "/v1/fix/sessions/{name}/reset"),
    ("post", "/v1/fix/sessions/{name}/logout"),
    ("post", "/v1/fix/sessions/{name}/resend"),
    ("get", "/v1/vault"),
    ("get", "/v1/cluster"),
    ("get", "/v1/node"),
    ("get", "/v1/costs"),
    ("get", "/v1/costs/history"),
    ("get", "/v1/config"),
    ("get", "/metrics"),
    ("get", "/healthz"),
];

fn document(door: &Door) -> Value {
    get("/v1/openapi.json").send(door.to).expect(200).json()
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &'_ Value)| (path.clone(), item.as_object().unwrap().clone());
    let mut all = Vec::new();
    for (path, methods) in paths.iter().map(of) {
        for method in methods.keys() {
            all.push((method.clone(), path.clone(), &document["paths"][&path][method]));
        }
    }
    all
}

#[test]
fn the_document_lists_exactly_the_calls() {
    let door = Door::open(1);
    let document = document(&door);
    assert_eq!(document["openapi"], "3.1.0");
    let listed: BTreeSet<(String, String)> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    let mut known: BTreeSet<(String, String)> =
        CALLS.iter().map(|(method, path)| (method.to_string(), path.to_string())).collect();
    known.insert(("get".into(), "/readyz".into()));
    known.insert(("get".into(), "/v1/budgets/{id}/history".into()));
    assert_eq!(listed, known);
}

#[test]
fn every_call_answers_a_status_and_a_type_that_are_described() {
    let door = Door::open(3);
    let document = document(&door);
    for (method, path, operation) in operations(&document) {
        let path = path.replace("{id}", "1").replace("{record}", "1");
        let name = match &*method {
            "get" => "GET",
            "post" => "POST",
            "put" => "PUT",
            "delete" => "DELETE",
            _ => "PATCH",
        };
        let answers = [
            call(name, &path).send(door.to),
            call(name, &path).json(&json!({"why": "test"})).send(door.to),
            call(name, &path).with("Host", "evil.example").send(door.to),
            call(name, format!("{path}?max=x")).send(door.to),
        ];
        for answer in answers {
            let described = &operation["responses"][answer.status.to_string()];
            assert!(described.is_object(), "{method} {path} answered {}", answer.status);
            let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
            assert!(
                described["content"].get(kind).is_some(),
                "{method} {path}: {kind} is not {described}"
            );
        }
    }
}

/// The server of HTTP answers these before a call does.
#[test]
fn heads_that_are_too_long_are_described_as_they_are_answered() {
    let door = Door::open(1);
    let described = &document(&door)["paths"]["/v1/budgets.csv"]["get"]["responses"];
    let long = get(format!("/v1/budgets.csv?q={}", "x".repeat(65_600)));
    let headers = (0..70).fold(get("/v1/budgets.csv"), |call, n| call.with(&format!("X-{n}"), "1"));
    for (call, status) in [(long, 414), (headers, 431)] {
        let answer = call.send(door.to);
        assert_eq!((answer.status, answer.body.len()), (status, 0));
        let described = &described[status.to_string()];
        assert!(described["description"].is_string() && described["content"].is_null());
    }
}

/// All references of a document.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_document_is_whole_and_strict() {
    let door = Door::open(1);
    let document = document(&door);
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let schemas = &document["components"]["schemas"];
    for body in [
        "Patch",
        "Changes",
        "BoundOrders",
        "Reasoned",
        "Undo",
        "Create",
        "NewBudget",
        "ByIds",
        "ByFilter",
        "BulkSwitch",
        "BulkSet",
        "BulkScale",
        "Limits",
        "Factors",
        "Sequence",
        "Resend",
        "ForReason",
    ] {
        assert_eq!(schemas[body]["additionalProperties"], false, "{body}");
        assert!(schemas[body].get("properties").is_some(), "{body}");
    }
    assert_eq!(schemas["Changes"]["minProperties"], 1);
    for (method, path, operation) in operations(&document) {
        assert!(
            operation["summary"].as_str().or(operation["description"].as_str()).is_some(),
            "{method} {path}"
        );
        assert!(operation["tags"][0].is_string(), "{method} {path}");
        assert!(operation["operationId"].is_string(), "{method} {path}");
        let has_body = operation.get("requestBody").is_some();
        assert_eq!(has_body, method != "get", "{method} {path}");
    }
}

/// The fields of a schema with those of its parts.
fn fields_of(schemas: &Value, schema: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut required) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![schema.clone()];
    while let Some(schema) = open.pop() {
        if let Some(name) = schema["$ref"].as_str() {
            open.push(schemas[name.rsplit('/').next().unwrap()].clone());
        }
        open.extend(schema["allOf"].as_array().into_iter().flatten().cloned());
        all.extend(
            schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()),
        );
        let names = schema["required"].as_array().into_iter().flatten();
        required.extend(names.map(|name| name.as_str().unwrap().to_string()));
    }
    (all, required)
}

#[test]
fn answers_have_the_fields_that_are_described() {
    let door = Door::open(3);
    call("POST", "/v1/budgets/1/pause").json(&json!({"why": "test"})).send(door.to).expect(200);
    let document = document(&door);
    let schemas = &document["components"]["schemas"];
    let check = |schema: &str, value: &Value| {
        let (all, required) = fields_of(schemas, &schemas[schema]);
        let found: BTreeSet<String> = value.as_object().unwrap().keys().cloned().collect();
        assert_eq!(found, all, "{schema}");
        assert_eq!(required, all, "{schema}: nothing is ever left out");
    };
    let of = |path: &str| get(path).send(door.to).json();
    check("Budget", &of("/v1/budgets")["budgets"][0]);
    check("BudgetPage", &of("/v1/budgets"));
    check("BudgetWhole", &of("/v1/budgets/1"));
    check("RecordPage", &of("/v1/audit"));
    check("Record", &of("/v1/audit/1"));
    check("Me", &of("/v1/me"));
    let refusals = of("/v1/budgets/1/refusals");
    check("RefusalAnswer", &refusals);
    check("RecentRefusal", &refusals["recent"][0]);
    check("ReasonCount", &refusals["why"][0]);
    let costs = of("/v1/costs/history");
    check("CostHistory", &costs);
    check("WorkloadHistory", &costs["workloads"][0]);
    check("CostPoint", &costs["workloads"][0]["points"][0]);
    check("Problem", &of("/v1/budgets/77"));
    let body =
        json!({"action": "resume", "select": {}, "expected": 3, "dry_run": true, "why": "test"});
    let bulk = call("POST", "/v1/bulk").json(&body).send(door.to).expect(200).json();
    check("BulkAnswer", &bulk);
    check("BulkRow", &bulk["rows"][0]);
    check("Effect", &bulk["effect"][0]);
}

/// Parameters that calls share are described at each of them.
#[test]
fn parameters_are_those_that_are_read() {
    let door = Door::open(1);
    let document = document(&door);
    let parameters = |method: &str, path: &str| -> Vec<String> {
        let all = document["paths"][path][method]["parameters"].as_array().unwrap().iter();
        let text = |one: &Value| {
            let must = if one["required"] == true { "!" } else { "" };
            format!("{} {}{must}", one["in"].as_str().unwrap(), one["name"].as_str().unwrap())
        };
        all.map(text).collect()
    };
    let table = ["query q", "query filter", "query sort"];
    assert_eq!(parameters("get", "/v1/budgets.csv"), table);
    let page = [&table[..], &["query cursor", "query max"]].concat();
    assert_eq!(parameters("get", "/v1/budgets"), page);
    for call in ["pause", "resume"] {
        let path = format!("/v1/budgets/{{id}}/{call}");
        assert_eq!(parameters("post", &path), ["path id!", "header If-Match"]);
    }
    assert_eq!(parameters("patch", "/v1/budgets/{id}"), ["path id!", "header If-Match!"]);
    let undo = parameters("post", "/v1/audit/{record}/undo");
    assert_eq!(undo, ["path record!", "header Idempotency-Key"]);
    let patch = &document["paths"]["/v1/budgets/{id}"]["patch"]["responses"];
    for (status, kind) in [("200", "json"), ("412", "problem+json"), ("422", "problem+json")] {
        let kind = format!("application/{kind}");
        assert!(patch[status]["content"][&kind]["schema"]["$ref"].is_string(), "{patch:#}");
    }
    assert!(patch["200"]["headers"]["ETag"].is_object(), "{patch:#}");
}

#[test]
fn the_type_of_an_error_leads_somewhere() {
    let door = Door::open(1);
    let document = document(&door);
    let words = document["x-problems"].as_array().unwrap().iter().map(|one| &one["word"]);
    let words: BTreeSet<&str> = words.map(|word| word.as_str().unwrap()).collect();
    for path in ["/nowhere", "/v1/budgets?max=0"] {
        let problem = get(path).send(door.to).json();
        let word = problem["type"].as_str().unwrap().strip_prefix("/docs/api#").unwrap();
        assert!(words.contains(word), "{word}");
    }
}

#[test]
fn security_is_described_where_it_is_asked_for() {
    let open = Door::open(1);
    assert!(document(&open)["components"].get("securitySchemes").is_none());
    let tokens = LiveTokens::new(TokenFile::parse("ann operate aaaaaaaaaaaaaaaa").unwrap());
    let guarded = Door::with(1, |options| options.tokens = Some(tokens));
    let document = document(&guarded);
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    for (method, path, operation) in operations(&document) {
        let public = ["/healthz", "/readyz"].contains(&&*path);
        assert_eq!(operation.get("security").is_none(), public, "{method} {path}");
        let answer = get(path.replace("{id}", "1").replace("{record}", "1")).send(guarded.to);
        assert_eq!(answer.status != 401, public, "{method} {path}");
    }
}

#[test]
fn the_page_of_the_document_loads_only_its_own_files() {
    let door = Door::open(1);
    let page = get("/docs/api").send(door.to).expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    assert!(!text.contains("style=") && !text.contains("<style") && !text.contains("onload"));
    for (file, kind) in
        [("page.js", "text/javascript; charset=utf-8"), ("page.css", "text/css; charset=utf-8")]
    {
        assert!(text.contains(&format!("/docs/api/{file}")));
        let answer = get(format!("/docs/api/{file}")).send(door.to).expect(200);
        assert_eq!(answer.header("content-type"), Some(kind));
    }
    assert!(!text.contains("//cdn") && !text.contains("https://"));
}
