//! Changes by the API on a real node: what was answered is in force, whatever happens next.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use watch::node::{Action, Edit, EditRows, Edited, Fields, RowChange, RowProblem, RowResult};
use weir_config::config::Config;
use weir_edits::Edits;
use weir_survey::Node;
use wire::Verdict;

use crate::client::{Client, Reply, ask, fresh_id};
use crate::support::{at_any_port, cores, line, output, stderr, stdout, text, wait_for, weir};

/// Set for the process that is killed: its folder.
const CHILD_FOLDER: &str = "WEIR_TEST_EDITS_FOLDER";
/// The first step it takes.
const CHILD_STEP: &str = "WEIR_TEST_EDITS_STEP";

fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    config.node.data_dir = folder.join("data");
    config.budgets.file = folder.join("budgets.jsonl");
    config.budgets.check_ms = 20;
    at_any_port(&mut config);
    config.workers.pin = false;
    config.workers.cores = cores(1).parse().unwrap();
    config.journal.segment_bytes = 4 << 20;
    config
}

fn start(folder: &Path) -> Node {
    Node::start(&config(folder)).unwrap()
}

fn write_budgets(folder: &Path, text: &str) {
    std::fs::write(folder.join("budgets.jsonl"), text).unwrap();
}

fn connect(node: &Node) -> Client {
    let mut client = Client::connect(node.address("batch"));
    let Reply::Welcome { .. } = client.hello() else { panic!("no welcome") };
    client
}

fn fields(value: Value) -> Fields {
    value.as_object().unwrap().clone()
}

fn edit(action: Action, rows: EditRows) -> Edit {
    Edit {
        who: "ada".into(),
        why: "a reason".into(),
        action,
        rows,
        dry_run: false,
        confirm_large: true,
        key: None,
    }
}

fn rows(ids: impl Iterator<Item = u64>, value: &Value) -> EditRows {
    let row = |id| RowChange { id, fields: fields(value.clone()), revision: None };
    EditRows::Change(ids.map(row).collect())
}

fn set(edits: &Edits, id: u64, value: Value) -> Edited {
    let edited = edits.edit(edit(Action::Set, rows([id].into_iter(), &value))).unwrap();
    assert_eq!(edited.rows[0].result, RowResult::Changed, "{value}");
    edited
}

fn count(edited: &Edited, result: &RowResult) -> usize {
    edited.rows.iter().filter(|row| row.result == *result).count()
}

#[test]
fn edits_reach_the_asks_and_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    write_budgets(folder.path(), &line(1, "100", ""));
    let node = start(folder.path());
    let mut client = connect(&node);
    client.grant(1, 1_000);
    let edits = node.edits();

    set(edits, 1, json!({"status": "paused"}));
    client.wait_verdict(1, 1_000, Verdict::Paused);
    set(edits, 1, json!({"status": "active"}));
    client.wait_verdict(1, 1_000, Verdict::Granted);
    set(edits, 1, json!({"end": "2026-01-02T00:00:00Z", "start": "2026-01-01T00:00:00Z"}));
    client.wait_verdict(1, 1_000, Verdict::Ended);

    assert_eq!(client.verdict(7, 1_000), Verdict::UnknownBudget);
    let new = fields(json!({"id": 7, "limit": "5", "name": "seven"}));
    let created = edits.edit(edit(Action::Create, EditRows::Create(new))).unwrap();
    client.wait_verdict(7, 1_000, Verdict::Granted);
    // The file is read again; what it does not know stays.
    write_budgets(folder.path(), &format!("{}{}", line(1, "100", ""), line(2, "1", "")));
    client.wait_verdict(2, 1_000, Verdict::Granted);
    assert_eq!(client.verdict(1, 1_000), Verdict::Ended);
    client.wait_verdict(7, 1_000, Verdict::Granted);
    let undo = edit(Action::Undo, EditRows::Undo(created.record.unwrap()));
    assert!(edits.edit(undo).unwrap().record.is_some());
    client.wait_verdict(7, 1_000, Verdict::Ended);
    assert!(node.stop());

    let data = folder.path().join("data");
    let args = ["journal", "inspect", "--data", text(&data), "--type", "edited", "--json"];
    let printed = output(weir().args(args));
    let told = stdout(&printed);
    assert!(printed.status.success(), "{}", stderr(&printed));
    assert!(told.contains(r#""type":"edited""#) && told.contains(r#""action":"set""#), "{told}");
    assert!(told.contains(r#"{\"status\":\"paused\"}"#), "{told}");
    assert!(told.contains(r#""action":"create""#) && told.contains("seven"), "{told}");
}

#[test]
fn ten_thousand_rows_at_once() {
    const ROWS: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (1..=ROWS).map(|id| line(id, "10", "")).collect();
    write_budgets(folder.path(), &lines);
    let node = start(folder.path());
    let edits = node.edits();
    let pause = || edit(Action::Pause, rows(1..=ROWS + 1, &json!({})));
    let dry = edits.edit(Edit { dry_run: true, ..pause() }).unwrap();
    assert_eq!((dry.record, count(&dry, &RowResult::Changed)), (None, 10_000));

    let began = std::time::Instant::now();
    let paused = edits.edit(pause()).unwrap();
    println!("10,000 budgets paused and sealed in {:?}", began.elapsed());
    assert_eq!(count(&paused, &RowResult::Changed), 10_000);
    let last = &paused.rows[10_000].result;
    assert_eq!(*last, RowResult::Refused(RowProblem::Unknown(ROWS + 1)));
    let mut client = connect(&node);
    for id in [1, 5_000, ROWS] {
        client.wait_verdict(id, 1_000, Verdict::Paused);
    }
    let again = edits.edit(pause()).unwrap();
    assert_eq!((again.record, count(&again, &RowResult::Unchanged)), (None, 10_000));
    let statics = edits.statics();
    assert_eq!(statics.edited.iter().filter(|edited| **edited).count(), 10_000);

    let undo = edit(Action::Undo, EditRows::Undo(paused.record.unwrap()));
    assert_eq!(count(&edits.edit(undo).unwrap(), &RowResult::Changed), 10_000);
    client.wait_verdict(ROWS, 1_000, Verdict::Granted);
    assert!(edits.statics().generation > statics.generation);
    assert!(node.stop());
}

/// What a worker still has of it is called back, and nothing is handed out above it.
#[test]
fn a_limit_lowered_by_an_edit_is_not_passed() {
    const UNIT: i64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    write_budgets(folder.path(), &line(1, "1000", ""));
    let node = start(folder.path());
    let mut client = connect(&node);
    let mut spent = 0;
    let mut spend = |client: &mut Client| {
        let (verdict, token) = client.decide(&[ask(fresh_id(), 1, UNIT)])[0];
        if verdict == Verdict::Granted {
            assert_eq!(client.settle(token, UNIT).0, Verdict::Settled);
            spent += UNIT;
        }
        spent
    };
    wait_for("50 units", || spend(&mut client) == 50 * UNIT);
    set(node.edits(), 1, json!({"limit": "60"}));
    // While purses are on their way back, it is exhausted for moments.
    wait_for("all that is left", || spend(&mut client) >= 60 * UNIT);
    let last = (0..500).map(|_| spend(&mut client)).last();
    assert_eq!(last, Some(60 * UNIT));
    set(node.edits(), 1, json!({"limit": "61"}));
    wait_for("one more", || spend(&mut client) == 61 * UNIT);
    assert!(node.stop());
}

#[test]
fn edits_end_with_the_node() {
    let folder = tempfile::tempdir().unwrap();
    write_budgets(folder.path(), &line(1, "100", ""));
    let node = start(folder.path());
    let edits = node.edits().clone();
    assert!(node.stop());
    let late = edits.edit(edit(Action::Pause, rows([1].into_iter(), &json!({}))));
    assert_eq!(late.unwrap_err(), watch::node::EditError::Stopping);
}

#[test]
fn a_damaged_log_stops_the_start_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    write_budgets(folder.path(), &line(1, "100", ""));
    let node = start(folder.path());
    set(node.edits(), 1, json!({"limit": "50"}));
    set(node.edits(), 1, json!({"limit": "40"}));
    assert!(node.stop());
    let log = folder.path().join("data/edits/log");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("\"50\"", "\"99\"", 1)).unwrap();
    let error = Node::start(&config(folder.path())).unwrap_err().to_string();
    assert!(
        error.contains("edits/log:") && error.contains("Take the file from a backup"),
        "{error}"
    );
}

/// Budgets that each step changes: more than the bank takes in one go.
const BUDGETS: u64 = 3_000;
/// Cycles of kills.
const KILLS: u64 = 6;

/// What step number `step` makes of every budget: whole, or not at all.
fn step(step: u64) -> Value {
    let status = if step.is_multiple_of(2) { "paused" } else { "active" };
    json!({"status": status, "limit": format!("{}.00", 1_000 + step)})
}

/// The process that is killed: takes step after step, and says when each is answered.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let first: u64 = std::env::var(CHILD_STEP).unwrap().parse().unwrap();
    let node = start(Path::new(&folder));
    let mut out = std::io::stdout().lock();
    let mut found = BTreeMap::new();
    for id in 1..=BUDGETS {
        let fields = node.edits().fields(id).unwrap();
        let both = format!("{} {}", fields["status"], fields["limit"]);
        *found.entry(both).or_insert(0) += 1;
    }
    // In force is what the verdict says, not only what the configuration says.
    let mut client = connect(&node);
    let verdict = loop {
        match client.verdict(BUDGETS, 1_000) {
            Verdict::PurseEmpty => {}
            verdict => break verdict,
        }
    };
    writeln!(out, "\nfound {verdict:?} {}", serde_json::to_string(&found).unwrap()).unwrap();
    for number in first.. {
        let all = rows(1..=BUDGETS, &step(number));
        let edited = node.edits().edit(edit(Action::Set, all)).unwrap();
        assert_eq!(count(&edited, &RowResult::Changed) as u64, BUDGETS);
        writeln!(out, "answered {number}").unwrap();
        out.flush().unwrap();
    }
}

fn spawn_child(folder: &Path, first: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "edits::child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD_FOLDER, folder).env(CHILD_STEP, first.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Killed at any point, also between the log of edits and the bank: what was answered is in force after the start, and
/// what was not is in force for all budgets of the edit or for none.
#[test]
fn an_answered_edit_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (1..=BUDGETS).map(|id| line(id, "1000", "")).collect();
    write_budgets(folder.path(), &lines);
    let mut answered = 0;
    for cycle in 0..KILLS {
        let mut child = spawn_child(folder.path(), answered + 2);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let found = lines.find(|line| line.starts_with("found ")).expect("a started node");
        let (_, found) = found.split_once(' ').unwrap();
        let (verdict, found) = found.split_once(' ').unwrap();
        let found: BTreeMap<String, u64> = serde_json::from_str(found).unwrap();
        if cycle > 0 {
            // The last one that was answered, or the one that was under way.
            let is = |number: u64| {
                let both = step(number);
                found.get(&format!("{} {}", both["status"], both["limit"])) == Some(&BUDGETS)
            };
            let number = [answered, answered + 1].into_iter().find(|number| is(*number));
            let number = number.unwrap_or_else(|| panic!("{found:?}, {answered} was answered"));
            let expected = if number.is_multiple_of(2) { "Paused" } else { "Granted" };
            assert_eq!(verdict, expected, "step {number}");
        }
        let wanted = 1 + cycle % 3;
        for line in lines.by_ref() {
            if let Some(number) = line.strip_prefix("answered ") {
                answered = number.parse().unwrap();
                if answered >= wanted + cycle * 5 {
                    break;
                }
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(7 * cycle));
        child.kill().unwrap();
        // Answers that came before the kill.
        for line in lines {
            if let Some(number) = line.strip_prefix("answered ") {
                answered = number.parse().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(answered >= KILLS);
}
