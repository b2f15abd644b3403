//! What a node says of its own costs: `/costs`, `/metrics`, `weir costs`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::support::{
    Node, Setup, cores, http_get, line, output, stderr, stdout, text, wait_value, weir,
};

fn setup() -> Setup {
    let budgets: String = (1..=20).map(|id| line(id, "1000", "")).collect();
    Setup::new(&budgets).with("probes.every", "2")
}

/// Load in the background, until it is dropped.
struct Load(std::process::Child);

impl Load {
    fn of(node: &Node) -> Load {
        let mut command = weir();
        command.args(["hammer", "--target", &node.batch.to_string(), "--duration", "10m"]);
        command.args(["--connections", "2", "--depth", "4", "--win", "0.2", "--quiet"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let load = Load(command.spawn().unwrap());
        node.wait_stat("settlements", |stat| stat["doors"]["batch"]["resolves"].as_u64() > Some(0));
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The whole answer, head and body.
fn raw(node: &Node, path: &str) -> (String, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(node.admin).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", node.admin).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_string())
}

/// Every sample belongs to the family before it, none is told twice, and the text has an end. Returns samples by their
/// name and labels.
fn samples(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let mut families = HashSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"# EOF"), "{text}");
    assert!(text.ends_with('\n'), "{text}");
    for line in &lines[..lines.len() - 1] {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", name, is] => {
                assert!(families.insert(name.to_string()), "{name} twice");
                assert!(["counter", "gauge", "histogram", "info"].contains(&is), "{line}");
                (family, kind) = (name.to_string(), is.to_string());
            }
            ["#", "HELP" | "UNIT", name, _] => assert_eq!(name, family, "{line}"),
            _ => {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let name = sample.split('{').next().unwrap();
                let suffix = match kind.as_str() {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                // What a histogram is made of is looked at in `metrics.rs`.
                assert!(
                    kind == "histogram" || name == format!("{family}{suffix}"),
                    "{line} of {family}"
                );
                assert!(!sample.contains('{') || sample.ends_with("\"}"), "{line}");
                let value: f64 = value.parse().unwrap();
                assert!(value.is_finite(), "{line}");
                let twice = samples.insert(sample.to_string(), value);
                assert!(twice.is_none(), "{sample} twice");
            }
        }
    }
    samples
}

fn rows(sheet: &Value) -> impl Iterator<Item = &Value> {
    sheet["groups"].as_array().unwrap().iter().flat_map(|group| group["rows"].as_array().unwrap())
}

#[test]
fn a_loaded_node_says_where_its_time_goes() {
    let node = setup().start();
    let _load = Load::of(&node);
    let expected =
        ["table of budgets", "judging an ask", "purse", "hold token", "booking", "sealed write"];
    let sheet = wait_value("a sheet with all of it", || {
        let (status, body) = node.get("/costs?seconds=1");
        assert_eq!(status, 200, "{body}");
        let sheet: Value = serde_json::from_str(&body).unwrap();
        let has = |name: &&str| rows(&sheet).any(|row| row["name"] == **name);
        expected.iter().all(has).then_some(sheet)
    });
    assert!(sheet["requests"]["count"].as_u64() > Some(0), "{sheet:#}");
    let names: Vec<&str> = rows(&sheet).map(|row| row["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"JSON"), "no bid request came: {names:?}");
    for row in rows(&sheet) {
        assert!(row["justification"].as_str().is_some_and(|why| !why.is_empty()), "{row:#}");
        let mean = &row["mean"];
        let known = mean["ns"].as_f64().or(mean["below_ns"].as_f64());
        assert!(known >= Some(0.0), "never below nothing: {row:#}");
    }
    let notes = sheet["notes"].to_string();
    assert!(notes.contains(" asks and ") && !notes.contains("IDLE"), "{notes}");
}

#[test]
fn costs_come_in_every_format() {
    let node = setup().start();
    for (format, kind, begins) in [
        ("json", "application/json", "{"),
        ("markdown", "text/markdown", "# Cost sheet of weir"),
        ("openmetrics", "application/openmetrics-text; version=1.0.0", "#"),
        ("text", "text/plain", "Cost sheet of weir"),
        ("wide", "text/plain", "Cost sheet of weir"),
    ] {
        let (head, body) = raw(&node, &format!("/costs?seconds=0.1&format={format}"));
        assert!(head.contains(" 200 "), "{head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(body.starts_with(begins), "{format}: {body}");
        if format == "openmetrics" {
            samples(&body);
        }
    }
}

#[test]
fn a_wrong_question_is_told_what_was_expected() {
    let node = setup().start();
    for (query, expected) in [
        ("seconds=0.05", "0.1 to 60"),
        ("seconds=61", "0.1 to 60"),
        ("seconds=NaN", "0.1 to 60"),
        ("seconds=-1", "0.1 to 60"),
        ("seconds=soon", "0.1 to 60"),
        ("format=xml", "markdown"),
        ("second=2", "second"),
    ] {
        let (status, body) = node.get(&format!("/costs?{query}"));
        assert_eq!(status, 400, "{query}: {body}");
        assert!(body.contains(expected), "{query}: {body}");
    }
}

#[test]
fn too_many_askers_are_sent_away() {
    let node = setup().start();
    let admin = node.admin;
    // All at once, unless the machine stands still for as long as a place is taken: then for longer.
    let is_sent_away = |seconds: u32| {
        let path = format!("/costs?seconds={seconds}");
        let ask = |_| {
            let path = path.clone();
            std::thread::spawn(move || http_get(admin, &path).0)
        };
        let askers: Vec<_> = (0..12).map(ask).collect();
        let statuses: Vec<u16> = askers.into_iter().map(|asker| asker.join().unwrap()).collect();
        let count = |status| statuses.iter().filter(|found| **found == status).count();
        assert!(count(200) >= 4, "{statuses:?}");
        assert_eq!(count(200) + count(429), 12, "{statuses:?}");
        count(429) >= 1
    };
    assert!([4, 10, 25].into_iter().any(is_sent_away), "twelve measure at once");
    assert_eq!(node.get("/costs?seconds=0.1").0, 200, "places are given back");
}

/// A node that stops does not wait for those who measure.
#[test]
fn a_stop_ends_a_measurement() {
    let mut node = setup().start();
    let admin = node.admin;
    let asker = std::thread::spawn(move || {
        // The connection may just end.
        std::panic::catch_unwind(|| http_get(admin, "/costs?seconds=60").0)
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    node.terminate();
    assert!(node.wait_end().success(), "{}", node.log());
    assert!(!matches!(asker.join().unwrap(), Ok(200)));
}

#[test]
fn metrics_are_sound_and_their_counters_never_go_back() {
    let node = setup().start();
    let (head, first) = raw(&node, "/metrics");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(kind), "{head}");
    let mut before = samples(&first);
    assert_eq!(before["weir_requests_total{door=\"batch\",kind=\"ask\"}"], 0.0);
    let load = Load::of(&node);
    for _ in 0..5 {
        let now = samples(&node.get("/metrics").1);
        for (sample, value) in before.iter().filter(|(sample, _)| sample.contains("_total")) {
            let later = now.get(sample).unwrap_or_else(|| panic!("{sample} is gone"));
            assert!(later >= value, "{sample}: {value}, then {later}");
        }
        before = now;
    }
    drop(load);
    assert!(before["weir_requests_total{door=\"batch\",kind=\"ask\"}"] > 0.0);
    assert!(before["weir_requests_total{door=\"batch\",kind=\"resolve\"}"] > 0.0);
    assert!(before["weir_door_seconds_total{door=\"batch\"}"] > 0.0);
    assert!(before["weir_door_request_seconds{door=\"batch\"}"] > 0.0);
    assert!(!before.contains_key("weir_door_request_seconds{door=\"openrtb\"}"), "it had none");
    assert!(before["weir_sampled_turns_total{thread=\"worker 0\"}"] > 0.0);
    assert!(before["weir_thread_cpu_seconds_total{thread=\"bank\"}"] > 0.0);
    assert!(before["weir_stage_sampled_items_total{thread=\"worker\",stage=\"lookup\"}"] > 0.0);
    assert!(before["weir_timer_reading_seconds"] > 0.0);
}

fn costs(arguments: &[&str]) -> std::process::Output {
    output(weir().arg("costs").args(arguments))
}

#[test]
fn the_command_shows_the_sheet_of_a_node() {
    let node = setup().start();
    let (data, admin) = (node.data(), node.admin.to_string());
    // Nobody asks anything: it says so, and that is no failure.
    let idle = costs(&["--data", text(&data), "--seconds", "0.2"]);
    assert_eq!(idle.status.code(), Some(0), "{}", stderr(&idle));
    assert!(stdout(&idle).contains("IDLE"), "{}", stdout(&idle));
    let _load = Load::of(&node);
    let file = data.join("sheet.json");
    let json = costs(&["--target", &admin, "--seconds", "0.5", "--json", "--save", text(&file)]);
    assert_eq!(json.status.code(), Some(0), "{}", stderr(&json));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), stdout(&json));
    let sheet: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert!(rows(&sheet).count() > 0, "{sheet:#}");
    // A short measurement of a busy machine may have missed a stage: then again.
    let shows = |format: &[&str], expected: &str| {
        let arguments = [&["--target", &admin, "--seconds", "0.2"], format].concat();
        wait_value(expected, || {
            Some(stdout(&costs(&arguments))).filter(|sheet| sheet.contains(expected))
        })
    };
    let table = shows(&[], "judging an ask");
    assert!(!table.contains("crates/"), "{table}");
    shows(&["--wide"], "crates/table/src/map.rs");
    shows(&["--markdown"], "| hold token |");
    samples(&stdout(&costs(&["--target", &admin, "--seconds", "0.2", "--openmetrics"])));
}

#[test]
fn the_command_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (arguments, code, expected) in [
        (vec!["--data", text(folder.path())], 1, "--target"),
        (vec!["--target", &port.to_string()], 1, "is it running?"),
        (vec!["--seconds", "0"], 2, "0.1 to 60"),
        (vec!["--seconds", "soon"], 2, "not a number"),
        (vec!["--json", "--markdown"], 2, "cannot be used"),
        (vec!["--bench", "--target", "127.0.0.1:1"], 2, "cannot be used"),
        (vec!["--bench", "--openmetrics"], 2, "cannot be used"),
    ] {
        let output = costs(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_benchmark_shows_both_doors_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = weir();
    command.args(["costs", "--bench", "--seconds", "0.5", "--json"]).env("TMPDIR", folder.path());
    command.env("WEIR_WORKERS__PIN", "false").env("WEIR_JOURNAL__SEGMENT_BYTES", "4194304");
    command.env("WEIR_WORKERS__CORES", cores(1));
    // A busy machine wakes a worker some 60 times in half a second: of one in 64 nothing might be recorded.
    command.env("WEIR_PROBES__EVERY", "2");
    let output = output(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let sheets: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let has = |door: &str, name: &str| rows(&sheets[door]).any(|row| row["name"] == name);
    assert!(has("batch", "judging an ask") && !has("batch", "auction"), "{sheets:#}");
    assert!(has("openrtb", "auction") && !has("openrtb", "judging an ask"), "{sheets:#}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folder is gone");
}

#[test]
fn a_benchmark_stops_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = weir();
    command.args(["costs", "--bench", "--seconds", "60"]).env("TMPDIR", folder.path());
    command.env("WEIR_WORKERS__PIN", "false").env("WEIR_JOURNAL__SEGMENT_BYTES", "4194304");
    command.env("WEIR_WORKERS__CORES", cores(1));
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("measuring") {
        told.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut told).unwrap() > 0, "it ended early");
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folder is gone");
}
