//! The budgets file while it is being saved, cut, emptied, replaced or gone: nothing that people changed is lost.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use watch::node::{Action, Edit, EditRows, Fields, RowChange};
use weir_config::config::Config;
use weir_survey::Node;
use wire::Verdict;

use crate::client::{Client, Reply};
use crate::support::{at_any_port, http_get, line, wait_for};

const CHECK_MS: u64 = 20;

/// A node with five budgets; the second is paused by the API, the third lowered from 10 to 4.
struct Bench {
    folder: TempDir,
    node: Option<Node>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("budgets.jsonl"), lines(1..=5)).unwrap();
        let node = Node::start(&config(folder.path())).unwrap();
        let bench = Bench { folder, node: Some(node) };
        bench.set(2, &json!({"status": "paused"}));
        bench.set(3, &json!({"limit": "4"}));
        bench
    }

    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("budgets.jsonl")
    }

    fn set(&self, id: u64, value: &Value) {
        let fields: Fields = value.as_object().unwrap().clone();
        let rows = EditRows::Change(vec![RowChange { id, fields, revision: None }]);
        let (who, why) = ("ada".into(), "a reason".into());
        let edit = Edit {
            who,
            why,
            action: Action::Set,
            rows,
            dry_run: false,
            confirm_large: true,
            key: None,
        };
        assert!(self.node().edits().edit(edit).unwrap().record.is_some());
    }

    /// `budgets_file` of `/stat`: loads, refused, errors.
    fn told(&self) -> (u64, u64, String) {
        let (status, body) = http_get(self.node().address("admin"), "/stat");
        assert_eq!(status, 200, "{body}");
        let stat: Value = serde_json::from_str(&body).unwrap();
        let file = &stat["budgets_file"];
        let count = |name: &str| file[name].as_u64().unwrap();
        (count("loads"), count("refused"), file["errors"].to_string())
    }

    /// Does this, and waits until the file was taken then. What was refused on the way, half saved, does not count.
    fn takes(&self, change: impl FnOnce(&Path)) {
        let (loads, ..) = self.told();
        change(&self.file());
        wait_for("a file that is taken", || self.told().0 > loads);
    }

    /// Does this, and waits until the file was refused then; it was not taken.
    fn refuses(&self, change: impl FnOnce(&Path)) {
        let (loads, refused, _) = self.told();
        change(&self.file());
        wait_for("a file that is refused", || self.told().1 > refused);
        assert_eq!(self.told().0, loads, "it was taken");
    }

    fn field(&self, id: u64, name: &str) -> Value {
        let fields = self.node().edits().fields(id).unwrap_or_default();
        fields.get(name).cloned().unwrap_or_default()
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(self.node().address("batch"));
        let Reply::Welcome { .. } = client.hello() else { panic!("no welcome") };
        client
    }

    /// What people changed is in force, and all five are there.
    fn check_edits(&self) {
        assert_eq!(
            (self.field(2, "status"), self.field(3, "limit")),
            (json!("paused"), json!("4"))
        );
        let mut client = self.client();
        client.wait_verdict(1, 1, Verdict::Granted);
        client.wait_verdict(2, 1, Verdict::Paused);
        client.wait_verdict(5, 1, Verdict::Granted);
        let (_, books) = http_get(self.node().address("admin"), "/stat?budget=3");
        let books: Value = serde_json::from_str(&books).unwrap();
        assert_eq!(books["limit"], 4_000_000, "{books}");
    }

    fn restart(&mut self, change: impl FnOnce(&Path)) {
        assert!(self.node.take().unwrap().stop());
        change(&self.file());
        self.node = Some(Node::start(&config(self.folder.path())).unwrap());
    }
}

fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    config.node.data_dir = folder.join("data");
    config.budgets.file = folder.join("budgets.jsonl");
    config.budgets.check_ms = CHECK_MS;
    at_any_port(&mut config);
    config.workers.pin = false;
    config.journal.segment_bytes = 4 << 20;
    config
}

fn lines(ids: impl Iterator<Item = u64>) -> String {
    ids.map(|id| line(id, "10", "")).collect()
}

/// Saves a file in place, and never empties it on the way: a test that loses its core there would show the node an empty file for longer
/// than two looks.
fn write(text: &str) -> impl FnOnce(&Path) {
    move |path| {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_len(text.len() as u64).unwrap();
    }
}

#[test]
fn a_file_that_is_empty_for_a_moment_ends_nothing() {
    let mut bench = Bench::new();
    for empty in ["", "\n\n"] {
        // An empty set is refused.
        bench.refuses(write(empty));
        let (_, _, errors) = bench.told();
        for what in ["budgets.jsonl", "5 of 5", "ids 1, 2, 3", "\\\"status\\\":\\\"ended\\\""] {
            assert!(errors.contains(what), "{what} not in {errors}");
        }
        bench.check_edits();
        bench.takes(write(&lines(1..=5)));
        assert_eq!(bench.told().2, "[]", "a good file takes the error back");
        bench.check_edits();
    }
    // The same at a start: the node waits for a better file.
    bench.restart(write(""));
    let (_, refused, errors) = bench.told();
    assert!(refused == 1 && errors.contains("5 of 5"), "{errors}");
    assert_eq!(bench.client().verdict(1, 1), Verdict::Busy);
    bench.takes(write(&lines(1..=5)));
    bench.check_edits();
}

#[test]
fn a_file_that_is_cut_at_a_line_end_ends_nothing() {
    let bench = Bench::new();
    for rest in 1..=3 {
        bench.refuses(write(&lines(1..=rest)));
        let (_, _, errors) = bench.told();
        assert!(errors.contains(&format!("{} of 5", 5 - rest)), "{errors}");
        assert!(errors.contains("budgets.end_share_max_percent"), "{errors}");
        bench.check_edits();
    }
    bench.takes(write(&lines(1..=5)));
    bench.check_edits();
}

#[test]
fn files_that_shrink_in_small_steps_end_no_more_than_one() {
    let mut bench = Bench::new();
    bench.takes(write(&lines(1..=4)));
    bench.refuses(write(&lines(1..=3)));
    let (_, _, errors) = bench.told();
    assert!(errors.contains("1 of 4") && errors.contains("after 1 that files ended"), "{errors}");
    // A restart is no way around.
    bench.takes(write(&lines(1..=4)));
    bench.restart(write(&lines(1..=3)));
    let (loads, refused, errors) = bench.told();
    assert!((loads, refused) == (0, 1) && errors.contains("after 1 that files ended"), "{errors}");
    // What is named again did not end.
    bench.takes(write(&lines(1..=5)));
    bench.takes(write(&lines(1..=4)));
}

#[test]
fn edits_of_a_budget_that_was_gone_are_applied_again() {
    let mut bench = Bench::new();
    for gone in [2, 3] {
        bench.takes(write(&lines((1..=5).filter(|id| *id != gone))));
        bench.client().wait_verdict(gone, 1, Verdict::Ended);
        assert_eq!(bench.field(gone, "limit"), Value::Null);
        // A restart does not forget them.
        bench.restart(|_| ());
        bench.takes(write(&lines(1..=5)));
        bench.check_edits();
    }
}

#[test]
fn what_ends_on_purpose_is_taken() {
    let bench = Bench::new();
    let ended = |id| line(id, "10", r#","status":"ended""#);
    let all: String = (1..=5).map(ended).collect();
    bench.takes(write(&all));
    bench.client().wait_verdict(1, 1, Verdict::Ended);
    // What has ended may leave the file, all at once.
    bench.takes(write(""));
}

#[test]
fn a_share_may_be_allowed_but_never_all() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("budgets.jsonl"), lines(1..=5)).unwrap();
    let mut config = config(folder.path());
    config.budgets.end_share_max_percent = 100;
    let bench = Bench { node: Some(Node::start(&config).unwrap()), folder };
    bench.takes(write(&lines(1..=1)));
    for none in ["", &lines(7..=9)] {
        // The last one.
        bench.refuses(write(none));
    }
    let (_, _, errors) = bench.told();
    assert!(errors.contains("1 of 1") && !errors.contains("end_share_max_percent"), "{errors}");
}

#[test]
fn other_bytes_are_seen_whatever_time_and_size_say() {
    let bench = Bench::new();
    let stamped = |path: &Path, text: &str, time| {
        write(text)(path);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let time = std::fs::metadata(bench.file()).unwrap().modified().unwrap();
    let limit = |limit: &str| lines(1..=4) + &line(5, limit, "");
    // Another inode of the same size and time.
    bench.takes(|path| {
        stamped(&path.with_extension("new"), &limit("11"), time);
        std::fs::rename(path.with_extension("new"), path).unwrap();
    });
    assert_eq!(bench.field(5, "limit"), "11");
    // The same inode, with its time set back.
    bench.takes(|path| stamped(path, &limit("12"), time));
    assert_eq!(bench.field(5, "limit"), "12");
    bench.check_edits();
}

#[test]
fn a_touch_a_rename_and_a_file_that_comes_back_keep_edits() {
    let bench = Bench::new();
    let now = std::time::SystemTime::now();
    let touch = |path: &Path| {
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(now).unwrap();
    };
    bench.takes(touch);
    bench.check_edits();
    let away = bench.folder.path().join("away");
    std::fs::rename(bench.file(), &away).unwrap();
    std::thread::sleep(Duration::from_millis(5 * CHECK_MS));
    bench.check_edits();
    bench.takes(|path| {
        std::fs::rename(&away, path).unwrap();
        touch(path);
    });
    bench.check_edits();
    bench.takes(|path| {
        std::fs::write(path.with_extension("new"), lines(1..=6)).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    });
    assert_eq!(bench.field(6, "limit"), "10");
    bench.check_edits();
}

#[test]
fn a_file_that_is_written_slowly_is_taken_once_it_stands_still() {
    let bench = Bench::new();
    let text = lines(1..=60);
    let mut file = std::fs::File::create(bench.file()).unwrap();
    // Some of these pauses are longer than a look: what stands still for so long is judged, and ends nothing.
    for (number, chunk) in text.as_bytes().chunks(7).enumerate() {
        file.write_all(chunk).unwrap();
        let pause = if number % 40 == 0 { 4 * CHECK_MS } else { CHECK_MS / 4 };
        std::thread::sleep(Duration::from_millis(pause));
    }
    wait_for("all budgets", || bench.field(60, "limit") == "10");
    bench.check_edits();
    bench.client().wait_verdict(60, 1, Verdict::Granted);
}
