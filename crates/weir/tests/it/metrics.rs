//! `GET /metrics`: it is OpenMetrics to the letter, and the dashboard in `docs/grafana` asks for what is there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wire::Verdict;

use crate::client::{ask, fresh_id};
use crate::openrtb::{Http, campaign, patient, request, wait_warm};
use crate::support::Node;

/// A family: its kind, and its samples as name, labels and value.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: bool,
    unit: Option<String>,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Suffixes of the samples of each kind.
fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total", "_created"],
        "gauge" => &[""],
        "info" => &["_info"],
        "histogram" => &["_bucket", "_count", "_sum", "_created"],
        other => panic!("a kind that we do not write: {other}"),
    }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':')
}

/// Reads an exposition and panics at the first thing that the format forbids.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with EOF and a line feed");
    assert!(!body.contains("# EOF") && !body.contains('\r') && !body.contains("\n\n"));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        if let Some(meta) = line.strip_prefix("# ") {
            let mut words = meta.splitn(3, ' ');
            let (keyword, name, rest) =
                (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            assert!(is_name(name), "{line}");
            if name != current {
                assert!(!families.contains_key(name), "a family in two pieces: {line}");
                current = name.to_string();
            }
            let family = families.entry(current.clone()).or_default();
            assert!(family.samples.is_empty(), "metadata behind samples: {line}");
            match keyword {
                "TYPE" => family.kind = rest.to_string(),
                "HELP" => family.help = !rest.is_empty(),
                "UNIT" => {
                    assert!(name.ends_with(&format!("_{rest}")), "{line}");
                    family.unit = Some(rest.to_string());
                }
                other => panic!("{other} in {line}"),
            }
            continue;
        }
        let (name, labels, value) = sample(line);
        let family = families.get_mut(&current).unwrap_or_else(|| panic!("no family: {line}"));
        let suffix = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line}"));
        assert!(suffixes(&family.kind).contains(&suffix), "{line} of a {}", family.kind);
        let same =
            |known: &(String, BTreeMap<String, String>, f64)| known.0 == name && known.1 == labels;
        assert!(!family.samples.iter().any(same), "twice: {line}");
        family.samples.push((name, labels, value));
    }
    families
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').unwrap(), line)),
    };
    assert!(is_name(name), "{line}");
    (name.to_string(), labels, value)
}

/// `a="b",c="d"` with the three escapes of the format.
fn labels(mut text: &str, line: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(name) && !name.contains(':'), "{line}");
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("no end of a label: {line}")) {
                (at, '"') => break at,
                (_, '\\') => match chars.next().unwrap().1 {
                    'n' => value.push('\n'),
                    escaped @ ('\\' | '"') => value.push(escaped),
                    other => panic!("\\{other} in {line}"),
                },
                (_, plain) => value.push(plain),
            }
        };
        assert!(labels.insert(name.to_string(), value).is_none(), "{line}");
        match rest[end + 1..].strip_prefix(',') {
            None => {
                assert_eq!(&rest[end + 1..], "", "{line}");
                return labels;
            }
            Some(more) => text = more,
        }
    }
}

/// What the format wants of values.
fn check(name: &str, family: &Family) {
    assert!(family.help && !family.kind.is_empty(), "{name}");
    let wrong = ["_ms", "_us", "_ns", "_ppm", "_total"];
    assert!(
        !wrong.iter().any(|end| name.ends_with(end)),
        "{name}: base units, and no suffix of samples"
    );
    assert_eq!(
        family.unit.is_some(),
        name.ends_with("_seconds") || name.ends_with("_bytes"),
        "{name}"
    );
    assert!(name.starts_with("weir_"), "{name}");
    if matches!(family.kind.as_str(), "counter" | "histogram") {
        assert!(family.samples.iter().all(|(.., value)| *value >= 0.0), "{name}");
    }
    if family.kind == "histogram" {
        check_histogram(name, family);
    }
}

fn check_histogram(name: &str, family: &Family) {
    let doors: BTreeSet<&str> =
        family.samples.iter().map(|(_, labels, _)| labels["door"].as_str()).collect();
    for door in doors {
        let of = |suffix: &str| -> Vec<(&BTreeMap<String, String>, f64)> {
            let wanted = format!("{name}{suffix}");
            let own = family
                .samples
                .iter()
                .filter(|(name, labels, _)| *name == wanted && labels["door"] == door);
            own.map(|(_, labels, value)| (labels, *value)).collect()
        };
        let buckets = of("_bucket");
        let bounds: Vec<f64> =
            buckets.iter().map(|(labels, _)| labels["le"].parse().unwrap()).collect();
        assert!(
            bounds.is_sorted_by(|a, b| a < b) && bounds.last() == Some(&f64::INFINITY),
            "{bounds:?}"
        );
        let counts: Vec<f64> = buckets.iter().map(|(_, count)| *count).collect();
        assert!(counts.is_sorted(), "cumulative: {counts:?}");
        assert_eq!(counts.last(), Some(&of("_count")[0].1));
    }
}

/// A node that has answered on both doors, with all that it tells.
fn loaded() -> (Node, BTreeMap<String, Family>) {
    let setup =
        patient(&[campaign(1, json!({}))]).with("probes.every", "1").with("admin.tick_ms", "50");
    let node = setup.start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let bid = http.bid_soon(&request(1, json!({})));
    assert_eq!([http.win(&bid), http.bill(&bid)], [204; 2]);
    let mut client = node.client();
    client.decide(&[ask(fresh_id(), 99, 1)]);
    let token = client.grant(1, 1);
    assert_eq!(client.settle(token, 1), (Verdict::Settled, false));
    let families = crate::support::wait_value("figures of both doors", || {
        let (status, text) = node.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let families = parse(&text);
        let seen = |door: &str| {
            let latency = families.get("weir_latency_seconds")?;
            let counts = latency.samples.iter().filter(|(name, ..)| name.ends_with("_count"));
            counts
                .into_iter()
                .find(|(_, labels, _)| labels["door"] == door)
                .map(|(.., count)| *count)
        };
        let both = seen("batch") > Some(0.0) && seen("openrtb") > Some(0.0);
        let settled = |(_, labels, count): &(String, BTreeMap<String, String>, f64)| {
            labels["verdict"] == "settled" && *count == 1.0
        };
        let resolves = families.get("weir_resolves")?;
        (both && resolves.samples.iter().any(settled)).then_some(families)
    });
    (node, families)
}

#[test]
fn metrics_are_openmetrics_to_the_letter() {
    let (_node, families) = loaded();
    families.iter().for_each(|(name, family)| check(name, family));
    let value = |name: &str, label: (&str, &str)| -> f64 {
        let family = families.values().flat_map(|family| &family.samples);
        let mut found = family.filter(|(of, labels, _)| {
            of == name && labels.get(label.0).is_some_and(|v| v == label.1)
        });
        found.next().unwrap_or_else(|| panic!("no {name} {label:?}")).2
    };
    assert_eq!(value("weir_decisions_total", ("verdict", "unknown_budget")), 1.0);
    assert!(value("weir_decisions_total", ("verdict", "bid")) >= 1.0);
    assert_eq!(value("weir_resolves_total", ("verdict", "settled")), 1.0);
    assert!(families["weir_proof_violations"].samples.iter().all(|(.., value)| *value == 0.0));
}

/// The metrics of a query with the labels that it wants of them.
fn asked(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut asked: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find("weir_") {
        let name: String =
            rest[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        rest = &rest[at + name.len()..];
        let matchers = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(inside, _)| inside);
        let labels = matchers.split(',').filter_map(|matcher| matcher.split(['=', '!']).next());
        asked.push((name, labels.filter(|label| !label.is_empty()).map(String::from).collect()));
    }
    // What is grouped by must be there in every metric of the query.
    for group in query.split("by (").skip(1) {
        let labels: Vec<&str> =
            group.split(')').next().unwrap().split(',').map(str::trim).collect();
        asked
            .iter_mut()
            .for_each(|(_, wanted)| wanted.extend(labels.iter().map(ToString::to_string)));
    }
    asked
}

/// All texts under `expr` and `query`, with the labels that legends show.
fn queries(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_string);
            for query in ["expr", "query"].iter().filter_map(|key| text(key)) {
                found.push((query, text("legendFormat").unwrap_or_default()));
            }
            fields.values().for_each(|value| queries(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_asks_for_what_is_there() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/weir.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut texts = Vec::new();
    queries(&dashboard, &mut texts);
    let (_node, families) = loaded();
    let samples = || families.values().flat_map(|family| &family.samples);
    let mut metrics = 0;
    for (query, legend) in &texts {
        for (name, mut wanted) in asked(query) {
            metrics += 1;
            let shown = legend.split("{{").skip(1).filter_map(|part| part.split_once("}}"));
            wanted.extend(shown.map(|(label, _)| label.trim().to_string()));
            // Prometheus adds it to everything that it scrapes.
            wanted.remove("instance");
            let mut of = samples().filter(|(known, ..)| *known == name).peekable();
            assert!(of.peek().is_some(), "no metric {name}: {query}");
            assert!(
                of.any(|(_, labels, _)| wanted.iter().all(|label| labels.contains_key(label))),
                "{name} has not all of {wanted:?}: {query}"
            );
        }
    }
    assert!(metrics > 30, "the queries were not found: {metrics}");
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "ids of panels are unique");
}
