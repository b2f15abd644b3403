//! What edits do to pacing on a real node: nothing, where the day's target stays.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use watch::node::{Action, Edit, EditRows, Edited, Fields, RowChange};
use weir_config::config::Config;
use weir_survey::Node;
use wire::Verdict;

use crate::client::{Client, Reply, ask, fresh_id};
use crate::support::{at_any_port, http_get, line, wait_for};

const USD: i64 = 1_000_000;
/// Where a budget's multiplier begins while nothing is known of its traffic, and how low the test's spend pushes it.
const FRESH_PPM: u64 = 400_000;
const LEARNED_PPM: u64 = 200_000;

/// Two budgets of 100 a day, and a third that only its parent's plan of 100 a day slows down; what was spent has pushed the
/// multipliers down.
struct Bench {
    node: Node,
    folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let zone = zone_at_noon();
        let curve = format!(r#","daily":"100","pacing":"curve","plan":"linear","tz":"{zone}""#);
        let lines = [line(1, "1000", &curve), line(2, "1000", &curve), line(9, "5000", &curve)];
        let child = format!(r#","parent":9,"tz":"{zone}""#);
        let lines = [lines.concat(), line(3, "1000", &child)];
        std::fs::write(folder.path().join("budgets.jsonl"), lines.concat()).unwrap();
        let node = Node::start(&config(folder.path())).unwrap();
        let bench = Bench { node, folder };
        let mut client = Client::connect(bench.node.address("batch"));
        let Reply::Welcome { .. } = client.hello() else { panic!("no welcome") };
        for id in [1, 2, 3] {
            wait_for("spend that pushes the multiplier down", || {
                let (verdict, token) = client.decide(&[ask(fresh_id(), id, USD / 4)])[0];
                if verdict == Verdict::Granted {
                    assert_eq!(client.settle(token, USD / 4), (Verdict::Settled, false));
                }
                bench.multiplier(id) < LEARNED_PPM
            });
        }
        bench
    }

    fn pace(&self, id: u64) -> Value {
        let (status, body) = http_get(self.node.address("admin"), &format!("/stat?budget={id}"));
        assert_eq!(status, 200, "{body}");
        body.parse::<Value>().unwrap()["pace"].clone()
    }

    fn multiplier(&self, id: u64) -> u64 {
        self.pace(id)["multiplier_ppm"].as_u64().unwrap()
    }

    /// Over some ticks.
    fn check(&self, what: &str) {
        for _ in 0..15 {
            for id in [1, 2, 3] {
                let found = self.multiplier(id);
                assert!(
                    found < LEARNED_PPM + 20_000,
                    "{what}: budget {id} is at {found}, as if {FRESH_PPM} were all it knew"
                );
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn act(&self, action: Action, rows: EditRows) -> Edited {
        let (who, why) = ("ada".into(), "a reason".into());
        self.node
            .edits()
            .edit(Edit { who, why, action, rows, dry_run: false, confirm_large: true, key: None })
            .unwrap()
    }

    fn set(&self, ids: &[u64], value: &Value) -> u64 {
        let fields: Fields = value.as_object().unwrap().clone();
        let row = |id: &u64| RowChange { id: *id, fields: fields.clone(), revision: None };
        let rows = EditRows::Change(ids.iter().map(row).collect());
        self.act(Action::Set, rows).record.unwrap()
    }
}

/// A zone in which it is about noon: no day ends while a test runs.
fn zone_at_noon() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let hour = i64::try_from(since / 3_600 % 24).unwrap();
    // These names count the hours to UTC, not from it.
    match hour - 12 {
        0 => "Etc/GMT".to_owned(),
        hours => format!("Etc/GMT{hours:+}"),
    }
}

fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    config.node.data_dir = folder.join("data");
    config.budgets.file = folder.join("budgets.jsonl");
    config.budgets.check_ms = 20;
    config.pacing.tick_ms = 20;
    at_any_port(&mut config);
    config.workers.pin = false;
    config.journal.segment_bytes = 4 << 20;
    config
}

#[test]
fn a_limit_that_does_not_bind_changes_nothing() {
    let bench = Bench::new();
    let record = bench.set(&[1], &json!({"limit": "1001"}));
    bench.check("a raised limit beside a daily limit");
    bench.act(Action::Undo, EditRows::Undo(record));
    bench.check("its undo");
    bench.set(&[1, 2], &json!({"limit": "1100"}));
    bench.check("in bulk");
    bench.set(&[9], &json!({"limit": "6000"}));
    bench.check("of the parent");
    bench.set(&[1], &json!({"name": "another"}));
    bench.check("a name");
    // By the file as well.
    let file = bench.folder.path().join("budgets.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(r#""limit":"5000""#, r#""limit":"7000""#)).unwrap();
    wait_for("the file", || bench.node.edits().fields(9).unwrap()["limit"] == "7000");
    bench.check("by the file");
}

#[test]
fn a_pause_keeps_what_was_learned() {
    let bench = Bench::new();
    for ids in [&[1][..], &[1, 2], &[9], &[3]] {
        bench.set(ids, &json!({"status": "paused"}));
        bench.check("paused");
        bench.set(ids, &json!({"status": "active"}));
        bench.check("resumed");
    }
}

#[test]
fn another_target_is_followed_from_the_multiplier_that_was_live() {
    let bench = Bench::new();
    bench.set(&[1, 2, 9], &json!({"daily": "110"}));
    assert_eq!(bench.pace(1)["budget"], 110 * USD);
    bench.check("a tenth more");
    bench.set(&[1, 2, 9], &json!({"daily": "90"}));
    bench.check("less");
}
