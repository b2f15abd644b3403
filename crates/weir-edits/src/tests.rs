use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use money::Instant;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use serde_json::{Value, json};
use tempfile::TempDir;
use watch::node::{FileChange, RowChange, RowResult};
use weir_budgets::budgets;
use weir_budgets::campaign_index::ExchangeTerms;
use weir_budgets::orders::OrderTerms;
use weir_config::arrays::FixSession;
use weir_config::config::Config;

use super::*;

/// What the bank of these tests says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Well,
    CannotSeal,
    /// It does what it is told and does not answer.
    Mute,
    /// It cannot seal after so many calls.
    FailsAfter(usize),
}

/// A bank that only knows what its budgets are.
#[derive(Default)]
struct Told {
    mood: Mood,
    budgets: BTreeMap<u64, Budget>,
    /// All ids that it ever had.
    ids: BTreeMap<u64, ()>,
    edits: Vec<(u64, u64, EditAction, String, String)>,
    amended: Vec<usize>,
    /// What a log on other machines has; `None`: the log is on the own disk.
    carried: Option<Vec<Vec<u8>>>,
    /// What becomes of the next message.
    carries: Mood,
}

#[derive(Clone, Default)]
struct FakeBank(Arc<Mutex<Told>>);

impl FakeBank {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap()
    }

    fn take(&self, reason: EditReason, change: impl FnOnce(&mut Told)) -> Result<(), BankError> {
        let mut told = self.told();
        match told.mood {
            Mood::CannotSeal | Mood::FailsAfter(0) => {
                return Err(BankError::Journal("the disk is full".into()));
            }
            Mood::FailsAfter(calls) => told.mood = Mood::FailsAfter(calls - 1),
            Mood::Well | Mood::Mute => {}
        }
        for EditRecord { record, budget, action, before, after } in reason.edits {
            told.edits.push((record, budget, action, before, after));
        }
        change(&mut told);
        if told.mood == Mood::Mute { Err(BankError::Silent) } else { Ok(()) }
    }
}

impl BankPort for FakeBank {
    fn judge(&self, spec: BudgetSpec) -> Result<(bool, Option<SpecError>), BankError> {
        Ok((self.told().ids.contains_key(&spec.id), None))
    }

    fn judge_orders(&self, binding: &Binding) -> Vec<String> {
        let mut config = Config::default();
        let session = FixSession { name: "desk".into(), ..FixSession::default() };
        config.arrays.fix_session.push(session);
        OrderTerms::of(&config).faults(binding)
    }

    fn live(&self) -> Result<Vec<u64>, BankError> {
        // What a file may end is tested on a real bank.
        Ok(Vec::new())
    }

    fn configure(
        &mut self,
        budgets: Vec<Budget>,
        _: Option<CampaignIndex>,
        reason: EditReason,
    ) -> Result<(), BankError> {
        self.take(reason, |told| {
            told.ids.extend(budgets.iter().map(|budget| (budget.spec.id, ())));
            told.budgets = budgets.into_iter().map(|budget| (budget.spec.id, budget)).collect();
        })
    }

    fn carries(&self) -> bool {
        self.told().carried.is_some()
    }

    fn carry(&mut self, message: Vec<u8>) -> Result<(), BankError> {
        let mut told = self.told();
        let mood = told.carries;
        if mood == Mood::CannotSeal {
            return Err(BankError::Journal("the log is away".into()));
        }
        told.carried.as_mut().unwrap().push(message);
        if mood == Mood::Mute { Err(BankError::Silent) } else { Ok(()) }
    }

    fn amend(&mut self, budgets: Vec<Budget>, reason: EditReason) -> Result<(), BankError> {
        self.take(reason, |told| {
            told.amended.push(budgets.len());
            for budget in budgets {
                let id = budget.spec.id;
                assert!(told.budgets.insert(id, budget).is_some(), "budget {id} is not configured");
            }
        })
    }
}

/// Edits over a fake bank, a file and a folder.
struct Bench {
    folder: TempDir,
    bank: FakeBank,
    now_ms: Arc<AtomicU64>,
    run: u32,
    edits: Edits,
}

impl Bench {
    fn new(lines: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let (bank, now_ms) = (FakeBank::default(), Arc::new(AtomicU64::new(1_000)));
        let edits = open(&folder, &bank, &now_ms, 1);
        let bench = Bench { folder, bank, now_ms, run: 1, edits };
        bench.load(lines);
        bench
    }

    fn load(&self, lines: &str) {
        self.try_load(lines).unwrap();
    }

    fn try_load(&self, lines: &str) -> Result<(), BankError> {
        let path = self.folder.path().join("budgets.jsonl");
        std::fs::write(&path, lines).unwrap();
        let lines = budgets::read_lines(&path).unwrap();
        let terms = ExchangeTerms::of(&Config::default());
        let campaign_index = CampaignIndex::build(&terms, &[], Instant::from_ms(0)).unwrap();
        self.edits.load(lines, campaign_index, "a test")
    }

    /// Ends without a word and starts again on the same folder, with another bank that knows the same.
    fn restart(&mut self, lines: &str) {
        self.run += 1;
        self.bank.told().mood = Mood::Well;
        self.edits = open(&self.folder, &self.bank, &self.now_ms, self.run);
        self.load(lines);
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("edits/log")
    }

    fn act(&self, action: Action, rows: EditRows) -> Result<Edited, EditError> {
        self.edits.edit(edit(action, rows))
    }

    fn set(&self, id: u64, fields: Value) -> Edited {
        self.act(Action::Set, change(id, fields)).unwrap()
    }

    fn undo(&self, record: u64) -> Edited {
        self.act(Action::Undo, EditRows::Undo(record)).unwrap()
    }

    fn create(&self, fields: Value) -> Edited {
        self.act(Action::Create, EditRows::Create(map(fields))).unwrap()
    }

    fn field(&self, id: u64, field: &str) -> Value {
        let fields = self.edits.fields(id).unwrap_or_default();
        fields.get(field).cloned().unwrap_or_default()
    }

    fn is_edited(&self, id: u64) -> bool {
        let statics = self.edits.statics();
        let row = statics.budgets.iter().position(|budget| budget.id == id).unwrap();
        statics.edited[row]
    }
}

fn open(folder: &TempDir, bank: &FakeBank, now_ms: &Arc<AtomicU64>, run: u32) -> Edits {
    let opened = Opened::open(&folder.path().join("edits")).unwrap();
    let clock = Arc::clone(now_ms);
    Edits::new(opened, run, 20, Box::new(bank.clone()), Box::new(move || clock.load(Relaxed)))
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

fn change(id: u64, fields: Value) -> EditRows {
    EditRows::Change(vec![RowChange { id, fields: map(fields), revision: None }])
}

fn map(value: Value) -> Fields {
    value.as_object().unwrap().clone()
}

fn problem(edited: &Edited) -> String {
    match &edited.rows[0].result {
        RowResult::Refused(problem) => problem.to_string(),
        other => panic!("{other:?}"),
    }
}

const ONE: &str = r#"{"id":1,"limit":"10"}"#;

/// A file, an edit, a file later on: what is in force of a field then, and is it the edit?
type NewerWord = (&'static str, Value, &'static str, &'static str, Value, bool);

#[test]
fn the_newer_word_wins_field_by_field() {
    let half = r#"{"id":1,"limit":"10","alerts":[0.5]}"#;
    let same = r#"{"id":1,"limit":"10","alerts":"0.50"}"#;
    judge_newer_words([
        // The file goes on saying the same.
        (ONE, json!({"limit": "20"}), ONE, "limit", json!("20"), true),
        // In other words.
        (ONE, json!({"limit": "20"}), r#"{"id":1,"limit":"10.00"}"#, "limit", json!("20"), true),
        (ONE, json!({"limit": "20"}), r#"{"id":1,"limit":10}"#, "limit", json!("20"), true),
        // Something else of another field.
        (
            ONE,
            json!({"limit": "20"}),
            r#"{"id":1,"limit":"10","daily":"3"}"#,
            "limit",
            json!("20"),
            true,
        ),
        // Something else of this field.
        (ONE, json!({"limit": "20"}), r#"{"id":1,"limit":"11"}"#, "limit", json!("11"), false),
        // The same as the edit.
        (ONE, json!({"limit": "20"}), r#"{"id":1,"limit":"20"}"#, "limit", json!("20"), false),
        // What it did not say is said, and means the same.
        (
            ONE,
            json!({"status": "paused"}),
            r#"{"id":1,"limit":"10","status":"active"}"#,
            "status",
            json!("paused"),
            true,
        ),
        (
            ONE,
            json!({"status": "paused"}),
            r#"{"id":1,"limit":"10","status":"ended"}"#,
            "status",
            json!("ended"),
            false,
        ),
        (
            ONE,
            json!({"name": "x"}),
            r#"{"id":1,"limit":"10","name":"budget 1"}"#,
            "name",
            json!("x"),
            true,
        ),
        // A table says the same as an object.
        (
            r#"{"id":1,"limit":"10","orders":{"account":"A","side":"buy"}}"#,
            json!({"orders": {"session": "desk"}}),
            r#"{"id":1,"limit":"10","orders":"side=buy;account=A"}"#,
            "orders",
            json!({"session": "desk"}),
            true,
        ),
        (half, json!({"alerts": [1]}), same, "alerts", json!([1]), true),
        (
            r#"{"id":1,"limit":"10","orders":{"account":"A"}}"#,
            json!({"orders": null}),
            r#"{"id":1,"limit":"10","orders":{"account":"B"}}"#,
            "orders",
            json!({"account": "B"}),
            false,
        ),
    ]);
}

#[test]
fn the_newer_word_wins_where_a_field_is_taken_away_or_does_not_fit() {
    judge_newer_words([
        // Taken away by the API.
        (
            r#"{"id":1,"limit":"10","daily":"3"}"#,
            json!({"daily": null}),
            r#"{"id":1,"limit":"10","daily":"3"}"#,
            "daily",
            Value::Null,
            true,
        ),
        (
            r#"{"id":1,"limit":"10","daily":"3"}"#,
            json!({"daily": null}),
            r#"{"id":1,"limit":"10","daily":"4"}"#,
            "daily",
            json!("4"),
            false,
        ),
        // Taken away by the file.
        (
            r#"{"id":1,"limit":"10","daily":"3"}"#,
            json!({"daily": "5"}),
            ONE,
            "daily",
            Value::Null,
            false,
        ),
        // An edit that says what the file says is none.
        (ONE, json!({"status": "active"}), ONE, "status", json!("active"), false),
        // It does not fit what the file says now: a day can only be flexible about a limit of its own.
        (
            r#"{"id":1,"limit":"10","daily":"3"}"#,
            json!({"daily": null}),
            r#"{"id":1,"limit":"10","daily":"3","day_flex":"1.50"}"#,
            "daily",
            json!("3"),
            false,
        ),
        (
            ONE,
            json!({"start": "2026-05-01T00:00:00Z"}),
            r#"{"id":1,"limit":"10","end":"2026-04-01T00:00:00Z"}"#,
            "start",
            Value::Null,
            false,
        ),
    ]);
}

fn judge_newer_words<const N: usize>(table: [NewerWord; N]) {
    for (before, edit, after, field, expected, is_edited) in table {
        let mut bench = Bench::new(before);
        bench.set(1, edit.clone());
        bench.load(after);
        let told = format!("{before} {edit} {after}");
        assert_eq!(bench.field(1, field), expected, "{told}");
        assert_eq!(bench.is_edited(1), is_edited, "{told}");
        // What ended does not come back, whatever the file says.
        bench.load(before);
        let then = bench.field(1, field);
        bench.restart(before);
        assert_eq!(bench.field(1, field), then, "{told}");
        assert!(is_edited || !bench.is_edited(1), "{told}");
    }
}

const DAY_MS: u64 = 86_400_000;

#[test]
fn edits_of_a_removed_budget_wait_for_a_day() {
    let two = format!("{ONE}\n{}", r#"{"id":2,"limit":"5"}"#);
    for (away_ms, expected) in [(DAY_MS, "6"), (DAY_MS + 1, "5")] {
        for restarts in [false, true] {
            let mut bench = Bench::new(&two);
            bench.set(2, json!({"limit": "6"}));
            bench.load(ONE);
            assert_eq!(bench.edits.fields(2), None);
            bench.now_ms.fetch_add(away_ms / 2, Relaxed);
            // Loads in between do not begin the day anew.
            bench.load(ONE);
            if restarts {
                bench.restart(ONE);
            }
            bench.now_ms.fetch_add(away_ms - away_ms / 2, Relaxed);
            bench.load(&two);
            assert_eq!(bench.field(2, "limit"), expected, "{away_ms} {restarts}");
            bench.restart(&two);
            assert_eq!(bench.field(2, "limit"), expected, "{away_ms} {restarts}");
        }
    }
}

#[test]
fn a_line_that_comes_back_with_a_newer_word_has_it() {
    let two = |limit: &str| format!("{ONE}\n{{\"id\":2,\"limit\":\"{limit}\"}}");
    let mut bench = Bench::new(&two("5"));
    bench.set(2, json!({"limit": "6", "status": "paused"}));
    bench.load(ONE);
    bench.load(&two("7"));
    let expect = |bench: &Bench| {
        assert_eq!(
            (bench.field(2, "limit"), bench.field(2, "status")),
            (json!("7"), json!("paused"))
        );
    };
    expect(&bench);
    bench.restart(&two("7"));
    expect(&bench);
}

#[test]
fn a_created_budget_waits_for_its_parent() {
    let two = format!("{ONE}\n{}", r#"{"id":2,"limit":"5"}"#);
    let mut bench = Bench::new(&two);
    bench.create(json!({"id": 7, "limit": "3", "parent": 2}));
    bench.create(json!({"id": 8, "limit": "2", "parent": 7}));
    bench.load(ONE);
    assert_eq!((bench.edits.fields(7), bench.edits.fields(8)), (None, None));
    bench.restart(ONE);
    bench.load(&two);
    assert_eq!((bench.field(7, "limit"), bench.field(8, "limit")), (json!("3"), json!("2")));
    bench.restart(&two);
    assert_eq!((bench.field(7, "limit"), bench.is_edited(8)), (json!("3"), true));
    bench.load(ONE);
    bench.now_ms.fetch_add(DAY_MS + 1, Relaxed);
    bench.load(&two);
    assert_eq!((bench.edits.fields(7), bench.edits.fields(8)), (None, None));
}

#[test]
fn a_log_of_the_first_format_is_read_and_written_anew() {
    let mut bench = Bench::new(ONE);
    bench.set(1, json!({"limit": "6"}));
    let sum = |json: &str| format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()));
    let log = std::fs::read_to_string(bench.log()).unwrap();
    let (_, rest) = log.split_once('\n').unwrap();
    let head = sum(r#"{"head":{"format":1,"next_record":1}}"#);
    std::fs::write(bench.log(), head + rest).unwrap();
    bench.restart(ONE);
    assert_eq!(bench.field(1, "limit"), "6");
    let log = std::fs::read_to_string(bench.log()).unwrap();
    assert!(log.lines().next().unwrap().contains(r#""format":4"#), "{log}");
}

#[test]
fn rows_are_judged_as_lines_of_the_file_are() {
    let bench = Bench::new(r#"{"id":1,"limit":"10","end":"2027-01-01T00:00:00Z"}"#);
    for (fields, expected) in [
        (json!({"limit": "1.0000001"}), "limit: found \"1.0000001\""),
        (json!({"limit": null}), "limit: missing"),
        (json!({"limit": "-1"}), "limit: found \"-1\", expected 0 to 1000000000000.00 USD"),
        (json!({"pacing": "fast"}), "pacing: found \"fast\", expected one of"),
        (json!({"pacing": "schedule"}), "schedule"),
        (
            json!({"unit": "EUR"}),
            "unit: it cannot be changed here; these fields can: handle, name, limit",
        ),
        (json!({"status": "ended"}), "status: found \"ended\", expected \"active\" or \"paused\""),
        (json!({"status": 1}), "status: found 1"),
        (json!({"name": "a\nb"}), "name: it has control characters"),
        (json!({"start": "2028-01-01T00:00:00Z"}), "budget 1: end"),
        (json!({"orders": {}}), "orders: found nothing in it"),
        (json!({"alerts": [50]}), "alerts: found [50], expected up to 8 shares"),
        (json!({"orders": {"session": "desc"}}), "orders.session: found \"desc\""),
    ] {
        let edited = bench.set(1, fields.clone());
        let text = problem(&edited);
        assert!(text.contains(expected), "{fields}: {text}");
        assert_eq!(edited.record, None);
    }
    let created = bench.create(json!({"id": 2, "limit": "1", "orders": {"firm": "F"}}));
    assert!(problem(&created).starts_with("orders.firm: found \"F\""), "{created:?}");
    assert_eq!(problem(&bench.set(9, json!({"limit": "1"}))), "there is no budget 9");
    let made = problem(&bench.set(ledger::spec::MADE_ID_MIN, json!({"limit": "1"})));
    assert!(made.ends_with("change the template in the budgets file"), "{made}");
    let rows =
        [1, 1].map(|id| RowChange { id, fields: map(json!({"limit": "1"})), revision: None });
    let edited = bench.act(Action::Set, EditRows::Change(rows.to_vec())).unwrap();
    assert_eq!(edited.rows[0].result, RowResult::Changed);
    assert!(
        matches!(&edited.rows[1].result, RowResult::Refused(RowProblem::Field(text)) if text.contains("named twice"))
    );
}

#[test]
fn a_revision_is_held_to() {
    let mut bench = Bench::new(ONE);
    let first = bench.edits.revision(1).unwrap();
    let at = |revision| {
        EditRows::Change(vec![RowChange { id: 1, fields: map(json!({"limit": "3"})), revision }])
    };
    let refused = bench.act(Action::Set, at(Some(first + 1))).unwrap();
    assert_eq!(
        problem(&refused),
        RowProblem::Revision { found: first, expected: first + 1 }.to_string()
    );
    let edited = bench.act(Action::Set, at(Some(first))).unwrap();
    let second = edited.rows[0].revision;
    assert!(second > first && bench.edits.revision(1) == Some(second));
    // A load that changes nothing of it, and an edit that changes nothing, keep it.
    bench.load(ONE);
    let again = bench.act(Action::Set, at(Some(second))).unwrap();
    assert_eq!((again.rows[0].result.clone(), again.record), (RowResult::Unchanged, None));
    bench.restart(ONE);
    assert!(bench.edits.revision(1) > Some(second), "no tag of an earlier run fits");
}

#[test]
fn a_budget_is_created_kept_and_removed_again() {
    let mut bench = Bench::new(ONE);
    let made = json!({"id": 7, "limit": "5", "parent": 1, "name": "new"});
    let created = bench.create(made.clone());
    assert_eq!((created.rows[0].id, created.rows[0].result.clone()), (7, RowResult::Changed));
    assert_eq!(problem(&bench.create(made)), "there is a budget 7 already; choose another id");
    assert!(problem(&bench.create(json!({"id": 8}))).contains("limit: missing"));
    assert!(
        problem(&bench.create(json!({"id": 8, "limit": "1", "bid": "1"})))
            .contains("no such field")
    );
    assert!(
        problem(&bench.create(json!({"id": 8, "limit": "1", "parent": 77}))).contains("parent 77")
    );
    bench.set(7, json!({"limit": "6"}));
    bench.restart(ONE);
    assert_eq!((bench.field(7, "limit"), bench.is_edited(7)), (json!("6"), true));
    assert!(bench.bank.told().budgets.contains_key(&7));
    // It changed since.
    let record = created.record.unwrap();
    assert!(problem(&bench.undo(record)).contains("limit: found \"6\", expected \"5\""));
    bench.set(7, json!({"limit": "5"}));
    let undone = bench.undo(record);
    assert_eq!(undone.rows[0].result, RowResult::Changed);
    assert!(!bench.bank.told().budgets.contains_key(&7));
    bench.restart(ONE);
    assert_eq!(bench.edits.fields(7), None);
    // Its id is used, but an undo of the undo means the same budget.
    assert!(problem(&bench.create(json!({"id": 7, "limit": "1"}))).contains("already"));
    assert_eq!(bench.undo(undone.record.unwrap()).rows[0].result, RowResult::Changed);
    assert_eq!(bench.field(7, "name"), "new");
}

#[test]
fn the_file_takes_over_created_budgets_and_their_parents() {
    let bench = Bench::new(ONE);
    bench.create(json!({"id": 7, "limit": "5", "parent": 1}));
    bench.create(json!({"id": 8, "limit": "4", "parent": 7}));
    bench.load(&format!("{ONE}\n{}", r#"{"id":7,"limit":"50","parent":1}"#));
    assert_eq!((bench.field(7, "limit"), bench.is_edited(7)), (json!("50"), false));
    assert_eq!((bench.field(8, "limit"), bench.is_edited(8)), (json!("4"), true));
    bench.load(ONE);
    assert_eq!((bench.edits.fields(7), bench.edits.fields(8)), (None, None));
}

#[test]
fn an_undo_puts_back_what_is_still_as_it_left_it() {
    let lines: String = (1..=30).map(|id| format!("{{\"id\":{id},\"limit\":\"10\"}}\n")).collect();
    let bench = Bench::new(&lines);
    let row = |id| RowChange { id, fields: Fields::new(), revision: None };
    let paused = bench.act(Action::Pause, EditRows::Change((1..=30).map(row).collect())).unwrap();
    let record = paused.record.unwrap();
    bench.act(Action::Resume, EditRows::Change(vec![row(30)])).unwrap();
    bench.set(29, json!({"limit": "11"}));
    let undone = bench.undo(record);
    let changed = undone.rows.iter().filter(|row| row.result == RowResult::Changed).count();
    assert_eq!(changed, 29);
    let RowResult::Refused(RowProblem::Field(text)) = &undone.rows[29].result else {
        panic!("{:?}", undone.rows[29])
    };
    assert_eq!(text, "status: found \"active\", expected \"paused\": it has changed since");
    assert_eq!(
        (bench.field(29, "limit"), bench.field(29, "status")),
        (json!("11"), json!("active"))
    );
    assert!(!bench.is_edited(1) && bench.is_edited(29));
    let by = undone.record.unwrap();
    let again = bench.act(Action::Undo, EditRows::Undo(record));
    assert_eq!(again.unwrap_err(), EditError::Undone(record, by));
    assert_eq!(bench.act(Action::Undo, EditRows::Undo(99)).unwrap_err(), EditError::NoRecord(99));
    let told = bench.edits.audit_record(record).unwrap();
    assert_eq!((told.undone_by, told.rows, told.changes.len()), (Some(by), 30, 30));
    let told = &bench.edits.audit(None, None, 1)[0];
    assert_eq!((told.record, told.undo_of, told.rows), (by, Some(record), 29));
}

/// What the bank hears of orders, and what the trail has of it.
#[test]
fn a_binding_is_set_kept_told_and_put_back() {
    let mut bench = Bench::new(ONE);
    let bound = |bench: &Bench| bench.bank.told().budgets[&1].orders.is_some();
    let orders = json!({"orders": {"session": "desk", "side": "sell"}});
    let record = bench.set(1, orders.clone()).record.unwrap();
    assert!(bound(&bench) && bench.is_edited(1));
    bench.create(json!({"id": 2, "limit": "1"}));
    assert!(bound(&bench), "all budgets were told anew");
    bench.restart(ONE);
    assert!(bound(&bench) && bench.field(1, "orders") == orders["orders"]);
    let told = &bench.edits.audit_record(record).unwrap().changes[0];
    let before = Value::from(told.before.clone());
    assert_eq!((before, Value::from(told.after.clone())), (json!({"orders": null}), orders));
    bench.undo(record);
    assert!(!bound(&bench) && !bench.is_edited(1));
}

#[test]
fn a_dry_run_changes_nothing() {
    let bench = Bench::new(ONE);
    let key = Some(("key-0001".into(), [1; 32]));
    let before = std::fs::read(bench.log()).unwrap();
    let rows = change(1, json!({"limit": "3"}));
    let dry = bench.edits.edit(Edit { dry_run: true, key, ..edit(Action::Set, rows) }).unwrap();
    assert_eq!((dry.record, dry.rows[0].result.clone()), (None, RowResult::Changed));
    assert_eq!(dry.rows[0].after, map(json!({"limit": "3"})));
    assert_eq!(bench.field(1, "limit"), "10");
    assert_eq!(std::fs::read(bench.log()).unwrap(), before);
}

#[test]
fn the_same_key_has_the_same_answer_also_after_a_restart() {
    let mut bench = Bench::new(ONE);
    let keyed = |fields, digest: u8| Edit {
        key: Some(("key-0001".into(), [digest; 32])),
        ..edit(Action::Set, change(1, fields))
    };
    let first = bench.edits.edit(keyed(json!({"limit": "3"}), 1)).unwrap();
    bench.set(1, json!({"limit": "4"}));
    bench.restart(ONE);
    let again = bench.edits.edit(keyed(json!({"limit": "3"}), 1)).unwrap();
    assert!(!first.replay && again.replay);
    assert_eq!((again.record, again.rows[0].revision), (first.record, first.rows[0].revision));
    assert_eq!(bench.field(1, "limit"), "4");
    let other = bench.edits.edit(keyed(json!({"limit": "5"}), 2));
    assert_eq!(other.unwrap_err(), EditError::KeyReused);
    // Another caller's key is his own, whatever is asked with it.
    let stranger = Edit { who: "a stranger".into(), ..keyed(json!({"limit": "4"}), 1) };
    assert!(!bench.edits.edit(stranger).unwrap().replay);
    bench.now_ms.fetch_add(86_400_001, Relaxed);
    assert!(!bench.edits.edit(keyed(json!({"limit": "5"}), 2)).unwrap().replay);
    assert_eq!(bench.field(1, "limit"), "5");
}

#[test]
fn a_journal_that_cannot_seal_leaves_no_trace() {
    let mut bench = Bench::new(ONE);
    let before = std::fs::read(bench.log()).unwrap();
    bench.bank.told().mood = Mood::CannotSeal;
    for rows in
        [change(1, json!({"limit": "3"})), EditRows::Create(map(json!({"id": 2, "limit": "1"})))]
    {
        let failed = bench.act(Action::Set, rows).unwrap_err();
        let EditError::Journal(text) = failed else { panic!("{failed:?}") };
        assert!(text.contains("the disk is full") && text.contains("/readyz"), "{text}");
        assert_eq!(std::fs::read(bench.log()).unwrap(), before);
    }
    assert!(bench.edits.audit(None, None, 9).is_empty() && !bench.edits.take_unsure());
    bench.restart(ONE);
    assert_eq!((bench.field(1, "limit"), bench.edits.fields(2)), (json!("10"), None));
}

#[test]
fn what_is_in_force_in_part_is_brought_about_by_the_next_load() {
    let lines: String =
        (1..=5_000).map(|id| format!("{{\"id\":{id},\"limit\":\"10\"}}\n")).collect();
    for (mood, done) in [(Mood::FailsAfter(1), SLICE), (Mood::Mute, SLICE)] {
        let bench = Bench::new(&lines);
        bench.bank.told().mood = mood;
        let row = |id| RowChange { id, fields: Fields::new(), revision: None };
        let keyed = || {
            let rows = EditRows::Change((1..=5_000).map(row).collect());
            let key = Some(("key-0001".into(), [7; 32]));
            bench.edits.edit(Edit { key, ..edit(Action::Pause, rows) })
        };
        let EditError::Pending { record: 1, done: known, of: 5_000, .. } = keyed().unwrap_err()
        else {
            panic!("{mood:?}")
        };
        // Of a bank that does not answer nobody knows what it did.
        assert_eq!(known, if mood == Mood::Mute { 0 } else { SLICE });
        assert_eq!(bench.edits.audit_record(1).unwrap().rows, 5_000);
        let again = keyed().unwrap();
        assert!(again.replay && again.record == Some(1), "who asks again gets the record");
        let paused = || {
            let told = bench.bank.told();
            told.budgets.values().filter(|b| b.spec.status == ledger::Status::Paused).count()
        };
        assert_eq!(paused(), done, "{mood:?}");
        assert!(bench.edits.take_unsure());
        bench.bank.told().mood = Mood::Well;
        bench.load(&lines);
        assert_eq!(paused(), 5_000, "{mood:?}");
    }
}

#[test]
fn many_rows_go_to_the_bank_in_slices_with_their_notes() {
    let lines: String =
        (1..=5_000).map(|id| format!("{{\"id\":{id},\"limit\":\"10\"}}\n")).collect();
    let bench = Bench::new(&lines);
    let row = |id| RowChange { id, fields: map(json!({"limit": "9.50"})), revision: None };
    let rows = EditRows::Change((1..=5_001).map(row).collect());
    let edited = bench.act(Action::Set, rows).unwrap();
    assert_eq!(edited.rows.len(), 5_001);
    assert_eq!(edited.rows[5_000].result, RowResult::Refused(RowProblem::Unknown(5_001)));
    let told = bench.bank.told();
    assert_eq!(told.amended, [SLICE, SLICE, 5_000 - 2 * SLICE]);
    assert_eq!(told.edits.len(), 5_000);
    let note = (1, 1, EditAction::Set, r#"{"limit":"10"}"#.into(), r#"{"limit":"9.50"}"#.into());
    assert_eq!(told.edits[0], note);
    assert_eq!(told.budgets[&5_000].spec.limit, ledger::Amount::new(9_500_000));
}

#[test]
fn a_log_that_is_mostly_superseded_is_written_anew_and_means_the_same() {
    let mut bench = Bench::new(ONE);
    // Ends that nobody needs any more.
    for limit in 11..900 {
        bench.set(1, json!({"limit": "1"}));
        bench.load(&format!("{{\"id\":1,\"limit\":\"{limit}\"}}"));
    }
    bench.set(1, json!({"daily": "2"}));
    let long = std::fs::metadata(bench.log()).unwrap().len();
    let audit = bench.edits.audit(None, None, 2_000);
    let file = "{\"id\":1,\"limit\":\"899\"}";
    // Its records are old by then.
    bench.now_ms.fetch_add(401 * 86_400_000, Relaxed);
    bench.set(1, json!({"name": "x"}));
    bench.restart(file);
    let short = std::fs::metadata(bench.log()).unwrap().len();
    assert!(short * 10 < long, "{short} of {long}");
    bench.restart(file);
    assert_eq!((bench.field(1, "daily"), bench.field(1, "name")), (json!("2"), json!("x")));
    let newest = bench.edits.audit(None, None, 9);
    assert_eq!(newest.len(), 1);
    assert!(newest[0].record > audit[0].record);
    let next = bench.set(1, json!({"name": "y"})).record.unwrap();
    assert_eq!(next, newest[0].record + 1);
}

/// What can happen.
#[derive(Clone, Debug)]
enum Step {
    /// The file says this from now on: by id 1 to 3, limit, daily and status; 0 is nothing.
    File([Option<(u8, u8, u8)>; 3]),
    Set {
        id: u64,
        field: &'static str,
        value: Option<u8>,
    },
    PauseAll,
    Create {
        id: u64,
        limit: u8,
    },
    Undo(usize),
    /// So many hours pass.
    Later(u8),
    /// Kill, with so many bytes of a line half written, and start.
    Restart(usize),
    Mood(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let line = prop::option::weighted(0.9, (1..4_u8, 0..3_u8, 0..3_u8));
    let field = prop::sample::select(vec!["limit", "daily", "status", "name"]);
    let set = (1..6_u64, field, prop::option::of(1..4_u8));
    prop_oneof![
        3 => [line.clone(), line.clone(), line].prop_map(Step::File),
        6 => set.prop_map(|(id, field, value)| Step::Set { id, field, value }),
        1 => Just(Step::PauseAll),
        2 => (4..6_u64, 1..4_u8).prop_map(|(id, limit)| Step::Create { id, limit }),
        3 => (0..20_usize).prop_map(Step::Undo),
        1 => (1..20_u8).prop_map(Step::Later),
        3 => (0..9_usize).prop_map(Step::Restart),
        2 => prop::bool::weighted(0.7).prop_map(Step::Mood),
    ]
}

/// One value a (field, number): then two are the same if they are written alike.
fn value(field: &str, number: Option<u8>) -> Value {
    match (field, number) {
        (_, None | Some(0)) => Value::Null,
        ("status", Some(number)) => if number == 1 { "active" } else { "paused" }.into(),
        ("name", Some(number)) => format!("name {number}").into(),
        (_, Some(number)) => number.to_string().into(),
    }
}

const MODELLED: [&str; 4] = ["limit", "daily", "status", "name"];
type Words = BTreeMap<&'static str, Value>;

/// The rule as docs/decisions say it, without logs, banks or parsers.
#[derive(Clone, Default)]
struct Model {
    file: BTreeMap<u64, Words>,
    created: BTreeMap<u64, Words>,
    ever: BTreeMap<u64, ()>,
    /// What is edited, and what the file said then.
    held: BTreeMap<(u64, &'static str), (Value, Value)>,
    now_ms: u64,
    /// Since when the file does not name budgets that it named.
    away: BTreeMap<u64, u64>,
}

impl Model {
    fn load(&mut self, file: BTreeMap<u64, Words>) {
        let (now_ms, away) = (self.now_ms, &self.away);
        let is_long = |id: &u64| away.get(id).is_some_and(|since| now_ms - since > DAY_MS);
        self.held.retain(|(id, field), (_, said)| {
            let says = |words| meaning(*id, field, said_of(words, field));
            let holds = |words| says(words) == meaning(*id, field, said.clone());
            !is_long(id) && file.get(id).is_none_or(holds)
        });
        for id in self.file.keys().filter(|id| !file.contains_key(id)) {
            self.away.insert(*id, now_ms);
        }
        self.away.retain(|id, _| !file.contains_key(id));
        self.created.retain(|id, _| !file.contains_key(id));
        self.ever.extend(file.keys().map(|id| (*id, ())));
        self.file = file;
    }

    fn word(&self, id: u64, field: &'static str) -> Option<Value> {
        let words = self.created.get(&id).or_else(|| self.file.get(&id))?;
        let edited = self.held.get(&(id, field)).map(|(value, _)| value.clone());
        let value = edited.unwrap_or_else(|| words.get(field).cloned().unwrap_or_default());
        Some(meaning(id, field, value))
    }

    fn set(&mut self, id: u64, field: &'static str, value: Value) {
        if let Some(words) = self.created.get_mut(&id) {
            words.insert(field, value);
            return;
        }
        let said = said_of(&self.file[&id], field);
        self.held.remove(&(id, field));
        if meaning(id, field, said.clone()) != meaning(id, field, value.clone()) {
            self.held.insert((id, field), (value, said));
        }
    }

    fn ids(&self) -> Vec<u64> {
        self.file.keys().chain(self.created.keys()).copied().collect()
    }
}

fn said_of(words: &Words, field: &str) -> Value {
    words.get(field).cloned().unwrap_or_default()
}

fn meaning(id: u64, field: &str, value: Value) -> Value {
    overlay::spoken(id, field, &value)
}

fn text(file: &BTreeMap<u64, Words>) -> String {
    let line = |(id, words): (&u64, &Words)| {
        let mut line = map(json!({"id": id}));
        line.extend(words.iter().map(|(field, value)| (field.to_string(), value.clone())));
        format!("{}\n", Value::Object(line))
    };
    file.iter().map(line).collect()
}

/// A change that was answered, as the model remembers it: by (budget, field) before and after.
type Done = Vec<((u64, &'static str), Value, Value)>;

fn take(bench: &mut Bench, model: &mut Model, done: &mut BTreeMap<u64, Done>, step: Step) {
    match step {
        Step::File(lines) => {
            let words = |(limit, daily, status): (u8, u8, u8)| {
                let words = [("limit", limit), ("daily", daily), ("status", status)];
                words.map(|(field, number)| (field, value(field, Some(number)))).into()
            };
            let lines = (1..=3).zip(lines);
            let file: BTreeMap<u64, Words> =
                lines.filter_map(|(id, line)| Some((id, words(line?)))).collect();
            if bench.try_load(&text(&file)).is_ok() {
                model.load(file);
            }
        }
        Step::Set { id, field, value } => take_set(bench, model, done, (id, field), value),
        Step::PauseAll => take_pause_all(bench, model, done),
        Step::Create { id, limit } => {
            let limit = value("limit", Some(limit));
            let fields = map(json!({"id": id, "limit": limit.clone()}));
            let Ok(edited) = bench.act(Action::Create, EditRows::Create(fields)) else { return };
            let is_new = !model.ever.contains_key(&id);
            assert_eq!(edited.record.is_some(), is_new, "{:?}", edited.rows);
            if is_new {
                model.ever.insert(id, ());
                model.created.insert(id, [("limit", limit)].into());
            }
        }
        Step::Undo(number) => take_undo(bench, model, done, number),
        Step::Later(hours) => {
            let ms = u64::from(hours) * 3_600_000;
            bench.now_ms.fetch_add(ms, Relaxed);
            model.now_ms += ms;
        }
        Step::Restart(torn) => {
            let mut log = std::fs::File::options().append(true).open(bench.log()).unwrap();
            log.write_all(&b"12345678 {\"edit\":"[..torn]).unwrap();
            bench.restart(&text(&model.file));
        }
        Step::Mood(is_well) => {
            bench.bank.told().mood = if is_well { Mood::Well } else { Mood::CannotSeal };
        }
    }
}

fn take_set(
    bench: &mut Bench,
    model: &mut Model,
    done: &mut BTreeMap<u64, Done>,
    (id, field): (u64, &'static str),
    number: Option<u8>,
) {
    // A limit has to be there, and a name is not taken away here.
    let number = number.or((field == "limit").then_some(1));
    let value = value(field, number);
    let rows = change(id, json!({field: value.clone()}));
    let Ok(edited) = bench.act(Action::Set, rows) else { return };
    let before = model.word(id, field);
    let is_new = before.as_ref().is_some_and(|before| *before != meaning(id, field, value.clone()));
    assert_eq!(edited.record.is_some(), is_new, "{:?}", edited.rows);
    if let (Some(record), Some(before)) = (edited.record, before) {
        model.set(id, field, meaning(id, field, value.clone()));
        done.insert(record, vec![((id, field), before, meaning(id, field, value))]);
    }
}

fn take_pause_all(bench: &mut Bench, model: &mut Model, done: &mut BTreeMap<u64, Done>) {
    let row = |id| RowChange { id, fields: Fields::new(), revision: None };
    let rows = EditRows::Change(model.ids().into_iter().map(row).collect());
    let Ok(edited) = bench.act(Action::Pause, rows) else { return };
    let mut changed = Vec::new();
    for id in model.ids() {
        if model.word(id, "status") == Some("active".into()) {
            model.set(id, "status", "paused".into());
            changed.push(((id, "status"), "active".into(), "paused".into()));
        }
    }
    assert_eq!(edited.record.is_some(), !changed.is_empty());
    edited.record.map(|record| done.insert(record, changed));
}

fn take_undo(bench: &mut Bench, model: &mut Model, done: &mut BTreeMap<u64, Done>, number: usize) {
    let Some((record, changes)) = done.iter().nth(number) else { return };
    let record = *record;
    let Ok(edited) = bench.act(Action::Undo, EditRows::Undo(record)) else { return };
    let mut undone = Vec::new();
    for ((id, field), before, after) in changes {
        if model.word(*id, field).as_ref() == Some(after) {
            model.set(*id, field, before.clone());
            undone.push(((*id, *field), after.clone(), before.clone()));
        }
    }
    assert_eq!(edited.record.is_some(), !undone.is_empty(), "{:?}", edited.rows);
    if let Some(by) = edited.record {
        done.remove(&record);
        done.insert(by, undone);
    }
}

fn check(bench: &Bench, model: &Model) {
    for id in 1..6 {
        for field in MODELLED {
            let found = bench.edits.fields(id).map(|_| bench.field(id, field));
            assert_eq!(found, model.word(id, field), "budget {id}, {field}");
        }
    }
    let told = bench.bank.told();
    assert_eq!(told.budgets.len(), model.ids().len());
    for (id, budget) in &told.budgets {
        let word = |field| model.word(*id, field).unwrap();
        let micros = |value: &Value| Some(value.as_str()?.parse::<i64>().unwrap() * 1_000_000);
        assert_eq!(Some(budget.spec.limit.get()), micros(&word("limit")), "budget {id}");
        assert_eq!(
            budget.spec.windows.day_limit().map(ledger::Amount::get),
            micros(&word("daily")),
            "budget {id}"
        );
        let is_active = budget.spec.status == ledger::Status::Active;
        assert_eq!(is_active, word("status") == "active", "budget {id}");
        let edited =
            model.created.contains_key(id) || model.held.keys().any(|(held, _)| held == id);
        assert_eq!(bench.is_edited(*id), edited, "budget {id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    /// Whatever files, edits, failures and restarts come in whatever order: what is in force is what the rule says, and
    /// the bank has the same.
    #[test]
    fn files_edits_and_restarts_agree_with_a_naive_model(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let first: BTreeMap<u64, Words> = (1..=3).map(|id| (id, [("limit", "1".into())].into())).collect();
        let mut bench = Bench::new(&text(&first));
        let (mut model, mut done) = (Model::default(), BTreeMap::new());
        model.load(first);
        for step in steps {
            take(&mut bench, &mut model, &mut done, step);
            check(&bench, &model);
        }
    }
}

/// The line is found again where it moved to, and what lies on top of it is told beside it.
#[test]
fn a_budget_knows_its_line_and_what_lies_on_top_of_it() {
    let mut bench = Bench::new(ONE);
    let path = bench.folder.path().join("budgets.jsonl");
    let source = |bench: &Bench, id| bench.edits.source(id).unwrap();
    let (place, changed) = source(&bench, 1);
    assert_eq!(place.unwrap().read(&path).unwrap(), ONE);
    assert!(changed.is_empty());
    bench.set(1, json!({"limit": "20", "daily": "5"}));
    let told = |bench: &Bench| {
        let (place, changed) = source(bench, 1);
        let field = |of: &FieldEdit| (of.field.clone(), of.in_file.clone(), of.in_force.clone());
        (place.unwrap().read(&path), changed.iter().map(field).collect::<Vec<_>>())
    };
    let changed = vec![
        ("daily".to_string(), Value::Null, json!("5")),
        ("limit".to_string(), json!("10"), json!("20")),
    ];
    assert_eq!(told(&bench), (Ok(ONE.to_string()), changed.clone()));
    let revision = bench.edits.revision(1);
    bench.load(&format!("{{\"id\":2,\"limit\":\"1\",\"name\":\"é\"}}\r\n\n{ONE}\r\n"));
    assert_eq!(source(&bench, 1).0.unwrap().line, 3);
    assert_eq!(told(&bench), (Ok(ONE.to_string()), changed));
    assert_eq!(bench.edits.revision(1), revision, "a line that moved says nothing new");
    bench.create(json!({"id": 9, "limit": "1"}));
    assert_eq!(source(&bench, 9), (None, Vec::new()), "no file says it");
    assert!(bench.edits.source(77).is_none());
    bench.restart(ONE);
    assert_eq!(told(&bench).1.len(), 2);
}

const NAMED: &str = r#"{"id":1,"handle":"llm/a","limit":"10"}
{"id":2,"handle":"llm/b","limit":"10"}"#;

#[test]
fn a_handle_is_refused_before_anything_is_written() {
    let mut bench = Bench::new(NAMED);
    let taken = "handle: found \"llm/a\", which is that of budget 1;";
    let log = std::fs::read(bench.log()).unwrap();
    let renamed = bench.set(2, json!({"handle": "llm/a"}));
    assert!(problem(&renamed).starts_with(taken), "{renamed:?}");
    let made = json!({"id": 3, "handle": "llm/a", "limit": "1"});
    assert!(problem(&bench.create(made)).starts_with(taken));
    let wrong = bench.set(2, json!({"handle": "llm b"}));
    assert!(problem(&wrong).contains("found ' ' at character 4, expected one of"), "{wrong:?}");
    let digits = bench.create(json!({"id": 3, "handle": "77", "limit": "1"}));
    assert!(problem(&digits).contains("digits only"), "{digits:?}");
    assert_eq!(std::fs::read(bench.log()).unwrap(), log);
    // One that is given up is free at once, and two rows of one edit do not both get it.
    bench.set(1, json!({"handle": "llm/c"}));
    assert_eq!((bench.edits.id_of("llm/a"), bench.edits.id_of("llm/c")), (None, Some(1)));
    let rows =
        [1, 2].map(|id| RowChange { id, fields: map(json!({"handle": "llm/a"})), revision: None });
    let both = bench.act(Action::Set, EditRows::Change(rows.into())).unwrap();
    assert_eq!(both.rows[0].result, RowResult::Changed);
    assert!(matches!(
        both.rows[1].result,
        RowResult::Refused(RowProblem::HandleTaken { holder: 1, .. })
    ));
    bench.set(1, json!({"handle": null}));
    bench.create(json!({"id": 3, "handle": "llm/a", "limit": "1"}));
    bench.restart(NAMED);
    assert_eq!((bench.edits.id_of("llm/a"), bench.edits.id_of("llm/b")), (Some(3), Some(2)));
    assert_eq!(bench.edits.fields(1).unwrap().get("handle"), None);
}

#[test]
fn a_refusal_for_a_handle_is_given_again() {
    let bench = Bench::new(NAMED);
    let ask = || {
        let fields = map(json!({"id": 3, "handle": "llm/a", "limit": "1"}));
        let edit = edit(Action::Create, EditRows::Create(fields));
        bench.edits.edit(Edit { key: Some(("key-1".into(), [1; 32])), ..edit }).unwrap()
    };
    let first = ask();
    bench.set(1, json!({"handle": "llm/c"}));
    let again = ask();
    assert!(again.replay);
    assert_eq!(again.rows[0].result, first.rows[0].result);
}

#[test]
fn a_rename_is_taken_back_unless_the_name_is_anothers() {
    let bench = Bench::new(NAMED);
    let record = bench.set(1, json!({"handle": "llm/c"})).record.unwrap();
    bench.set(2, json!({"handle": "llm/a"}));
    let undone = bench.undo(record);
    assert!(problem(&undone).contains("that of budget 2"), "{undone:?}");
    bench.set(2, json!({"handle": "llm/b"}));
    assert_eq!(bench.undo(record).rows[0].result, RowResult::Changed);
    assert_eq!(bench.edits.id_of("llm/a"), Some(1));
    assert!(!bench.is_edited(1) && !bench.is_edited(2));
}

#[test]
fn a_file_that_gives_a_handle_to_another_ends_the_edit() {
    let mut bench = Bench::new(NAMED);
    bench.set(1, json!({"handle": "llm/c"}));
    bench.set(2, json!({"handle": "llm/a", "limit": "11"}));
    // A third budget gets the first one's handle: both edits end, as the second needs the first.
    let three = format!("{NAMED}\n{}", r#"{"id":3,"handle":"llm/c","limit":"10"}"#);
    bench.load(&three);
    for id in [1, 2, 3] {
        let handle = ["llm/a", "llm/b", "llm/c"][id - 1];
        assert_eq!(bench.edits.id_of(handle), u64::try_from(id).ok());
    }
    assert_eq!((bench.field(2, "limit"), bench.is_edited(1)), (json!("11"), false));
    bench.restart(&three);
    assert_eq!((bench.field(2, "handle"), bench.field(2, "limit")), (json!("llm/b"), json!("11")));
}

#[test]
fn a_made_budget_waits_while_the_file_has_its_handle() {
    let mut bench = Bench::new(ONE);
    bench.create(json!({"id": 5, "handle": "llm/x", "limit": "1"}));
    let with = format!("{ONE}\n{}", r#"{"id":2,"handle":"llm/x","limit":"10"}"#);
    bench.load(&with);
    assert_eq!((bench.edits.id_of("llm/x"), bench.edits.fields(5)), (Some(2), None));
    bench.load(ONE);
    assert_eq!(bench.edits.id_of("llm/x"), Some(5));
    // One that is made meanwhile keeps it.
    bench.load(&with);
    bench.load(&with.replace("llm/x", "llm/y"));
    assert_eq!(bench.edits.id_of("llm/x"), Some(5));
    bench.load(&with);
    bench.set(2, json!({"handle": "llm/z"}));
    bench.create(json!({"id": 9, "handle": "llm/x", "limit": "1"}));
    bench.restart(&with);
    assert_eq!((bench.edits.id_of("llm/x"), bench.edits.fields(5)), (Some(9), None));
}

fn deed(action: Action, name: &str) -> SessionDeed {
    let session = AuditSession {
        name: name.into(),
        before: map(json!({"next_out": 7, "next_in": 9})),
        after: map(json!({"next_out": 1, "next_in": 1})),
    };
    SessionDeed { who: "ada".into(), why: "a reason".into(), action, session }
}

#[test]
fn what_is_done_to_a_session_is_recorded_before_and_what_is_refused_is_not() {
    let mut bench = Bench::new(r#"{"id":1,"limit":"10"}"#);
    let seen = bench.set(1, json!({"limit": "11"})).record.unwrap();
    let log = || std::fs::read_to_string(bench.log()).unwrap();
    let act = || {
        assert!(log().contains("fix_reset"), "it is in the log before it is done");
        Ok::<_, String>(5)
    };
    let done = bench.edits.act_on_session(deed(Action::FixReset, "A"), act, |_| false);
    assert_eq!(done, Ok(Ok(5)));
    let refuse = || Err::<(), _>("logged on".to_string());
    let done = bench.edits.act_on_session(deed(Action::FixLogout, "A"), refuse, |_| false);
    assert_eq!(done, Ok(Err("logged on".to_string())));
    assert!(!log().contains("fix_logout"));
    // Of one that does not answer nobody knows: the record stays.
    let done = bench.edits.act_on_session(deed(Action::FixResend, "B"), refuse, |_| true);
    assert_eq!(done, Ok(Err("logged on".to_string())));
    for again in [false, true] {
        if again {
            bench.restart(r#"{"id":1,"limit":"10"}"#);
        }
        let all = bench.edits.audit(None, None, 9);
        let shown: Vec<_> = all.iter().map(|one| (one.record, one.action)).collect();
        let resend = (seen + 2, Action::FixResend);
        assert_eq!(shown, [resend, (seen + 1, Action::FixReset), (seen, Action::Set)]);
        let reset = bench.edits.audit_record(seen + 1).unwrap();
        assert_eq!(reset.session, Some(deed(Action::FixReset, "A").session));
        assert_eq!((reset.rows, reset.who.as_str()), (0, "ada"));
        assert_eq!(bench.edits.audit(Some(1), None, 9).len(), 1, "it is about no budget");
    }
    let undo = bench.act(Action::Undo, EditRows::Undo(seen + 1)).unwrap_err();
    assert!(matches!(&undo, EditError::Refused(text) if text.contains("FIX session")), "{undo}");
    assert_eq!(bench.set(1, json!({"limit": "12"})).record, Some(seen + 3));
}

#[test]
fn what_cannot_be_recorded_is_not_done() {
    let bench = Bench::new(r#"{"id":1,"limit":"10"}"#);
    bench.edits.stop();
    let act = || -> Result<(), ()> { panic!("it is not done") };
    let done = bench.edits.act_on_session(deed(Action::FixReset, "A"), act, |()| false);
    assert_eq!(done, Err(EditError::Stopping));
}

#[test]
fn a_limit_of_more_than_a_hundred_times_needs_one_more_word() {
    let bench = Bench::new("{\"id\":1,\"limit\":\"10100.00\",\"daily\":\"1\"}\n");
    let set = |fields: Value, confirm_large: bool| {
        let asked = Edit { confirm_large, ..edit(Action::Set, change(1, fields)) };
        bench.edits.edit(asked).unwrap()
    };
    let told = problem(&set(json!({"limit": "10100000000"}), false));
    assert!(
        told.contains("limit: found \"10100000000\"") && told.contains("confirm_large"),
        "{told}"
    );
    assert!(problem(&set(json!({"daily": "100.01"}), false)).starts_with("daily: found"));
    assert_eq!((records(&bench), bench.field(1, "limit")), (0, json!("10100.00")));
    assert_eq!(set(json!({"daily": "100"}), false).rows[0].result, RowResult::Changed);
    let raised = set(json!({"limit": "10100000000"}), true);
    assert_eq!(raised.rows[0].result, RowResult::Changed);
    // Down, and back up by an undo: nobody is asked.
    let lowered = set(json!({"limit": "5"}), false).record.unwrap();
    assert_eq!(bench.undo(lowered).rows[0].result, RowResult::Changed);
    assert_eq!(bench.field(1, "limit"), "10100000000");
}

#[test]
fn a_limit_that_goes_needs_one_more_word() {
    let bench = Bench::new(
        r#"{"id":1,"limit":"10","windows":{"minute":"1","month":"7"}}
{"id":2,"limit":"10","daily":"2"}"#,
    );
    let set = |id: u64, fields: Value, confirm_large: bool| {
        let asked = Edit { confirm_large, ..edit(Action::Set, change(id, fields)) };
        bench.edits.edit(asked).unwrap()
    };
    let told = problem(&set(1, json!({"windows": {"minute": "1"}}), false));
    assert!(told.starts_with("windows: found"), "{told}");
    assert!(told.contains("no limit per month") && told.contains("confirm_large"), "{told}");
    let told = problem(&set(1, json!({"windows": null}), false));
    assert!(told.contains("no limit per minute, per month"), "{told}");
    assert!(problem(&set(2, json!({"daily": null}), false)).contains("no limit per day"));
    // What is wrong besides is said first.
    let told = problem(&set(1, json!({"windows": {"minute": "1", "month": "x"}}), false));
    assert!(!told.contains("confirm_large"), "{told}");
    assert_eq!(records(&bench), 0);
    // Others may come, and what there is may move.
    let moved = json!({"daily": null, "windows": {"day": "2", "hour": "1"}});
    assert_eq!(set(2, moved, false).rows[0].result, RowResult::Changed);
    let gone = set(1, json!({"windows": {"minute": "1"}}), true);
    assert_eq!(gone.rows[0].result, RowResult::Changed);
    assert_eq!(bench.field(1, "windows"), json!({"minute": "1"}));
    // Back, and away by the undo of the undo: nobody is asked.
    let back = bench.undo(gone.record.unwrap()).record.unwrap();
    assert_eq!(bench.undo(back).rows[0].result, RowResult::Changed);
}

/// The rows of the newest record, which is one of the file.
fn newest_file(bench: &Bench) -> (FileChange, Vec<(u64, Value, Value)>) {
    let newest = bench.edits.audit(None, None, 1).remove(0);
    assert_eq!(
        (newest.action, &*newest.who, &*newest.why),
        (Action::File, "budgets file", "a test")
    );
    let file = newest.file.unwrap();
    assert_eq!(newest.rows, file.total());
    let rows = bench.edits.audit_record(newest.record).unwrap().changes.into_iter();
    (file, rows.map(|row| (row.id, row.before.into(), row.after.into())).collect())
}

fn records(bench: &Bench) -> usize {
    bench.edits.audit(None, None, 1_000).len()
}

const THREE: &str = "{\"id\":1,\"limit\":\"10\"}\n{\"id\":2,\"limit\":\"10\",\"daily\":\"4\"}\n{\"id\":3,\"limit\":\"10\"}\n";
/// Budget 2 has another limit, and no daily one; 3 is gone, 4 is new.
const OTHER: &str =
    "{\"id\":1,\"limit\":\"10.00\"}\n{\"id\":2,\"limit\":\"777\"}\n{\"id\":4,\"limit\":\"3\"}\n";

fn other_rows() -> Vec<(u64, Value, Value)> {
    vec![
        (2, json!({"limit": "10", "daily": "4"}), json!({"limit": "777", "daily": null})),
        (3, json!({"limit": "10", "name": "budget 3", "status": "active"}), json!({})),
        (4, json!({}), json!({"limit": "3", "name": "budget 4", "status": "active"})),
    ]
}

#[test]
fn what_a_file_changes_is_a_record_and_what_it_does_not_is_none() {
    let mut bench = Bench::new(THREE);
    assert_eq!(records(&bench), 0, "of the first set nobody knows one before");
    // Another order and another way to write a number.
    bench.load(&THREE.replace("\"id\":3,\"limit\":\"10\"", "\"limit\":\"10.00\",\"id\":3"));
    assert_eq!(records(&bench), 0);
    bench.load(THREE);
    bench.load(OTHER);
    let told = (FileChange { added: 1, changed: 1, ended: 1 }, other_rows());
    assert_eq!(newest_file(&bench), told);
    bench.load(OTHER);
    for restart in 0..3 {
        assert_eq!((records(&bench), newest_file(&bench)), (1, told.clone()), "start {restart}");
        bench.restart(OTHER);
    }
    let about = bench.edits.audit(Some(3), None, 9);
    assert_eq!((about.len(), about[0].changes[0].id), (1, 3));
    let undo = bench.act(Action::Undo, EditRows::Undo(about[0].record)).unwrap_err();
    assert!(undo.to_string().contains("change the file back"), "{undo}");
    // While no node runs.
    bench.restart(THREE);
    let (file, rows) = newest_file(&bench);
    assert_eq!((file.added, file.changed, file.ended, rows.len()), (1, 1, 1, 3));
    assert_eq!((records(&bench), rows[0].2.clone()), (2, json!({"limit": "10", "daily": "4"})));
}

#[test]
fn an_edit_is_no_change_of_the_file_and_its_end_is_one() {
    let mut bench = Bench::new(THREE);
    bench.set(1, json!({"limit": "15"}));
    bench.create(json!({"id": 9, "limit": "5"}));
    bench.restart(THREE);
    bench.set(9, json!({"limit": "6"}));
    bench.restart(THREE);
    assert_eq!(records(&bench), 3, "the edits alone");
    bench.restart(&THREE.replace("\"id\":1,\"limit\":\"10\"", "\"id\":1,\"limit\":\"20\""));
    let row = (1, json!({"limit": "15"}), json!({"limit": "20"}));
    assert_eq!(newest_file(&bench), (FileChange { added: 0, changed: 1, ended: 0 }, vec![row]));
    assert_eq!(bench.field(9, "limit"), "6");
}

#[test]
fn a_record_that_the_disk_did_not_take_is_made_by_the_next_start() {
    let mut bench = Bench::new(THREE);
    bench.edits.writer().log.fail();
    bench.load(OTHER);
    let told = newest_file(&bench);
    assert_eq!(records(&bench), 1, "it is shown meanwhile");
    assert!(!std::fs::read_to_string(bench.log()).unwrap().contains("\"file\""));
    for _ in 0..2 {
        bench.restart(OTHER);
        assert_eq!((records(&bench), newest_file(&bench)), (1, told.clone()));
    }
}

/// Killed at any point of a load, the change is told once by the log of the next start.
#[test]
fn a_crash_tells_a_change_of_the_file_once() {
    let folder = |bench: &Bench| bench.folder.path().join("edits");
    let copy = |from: &Path, to: &Path| std::fs::copy(from, to).unwrap();
    // The set is written, and its record is not.
    let mut bench = Bench::new(THREE);
    let (log, set) = (bench.log(), folder(&bench).join("set"));
    let (old_log, old_set) = (log.with_extension("old"), set.with_extension("old"));
    copy(&log, &old_log);
    copy(&set, &old_set);
    bench.load(OTHER);
    let told = newest_file(&bench);
    copy(&set, &set.with_extension("new"));
    copy(&old_set, &set);
    copy(&old_log, &log);
    bench.restart(OTHER);
    assert_eq!((records(&bench), newest_file(&bench)), (1, told.clone()));
    // Both are, and the set has not its name.
    copy(&set, &set.with_extension("new"));
    copy(&old_set, &set);
    bench.restart(OTHER);
    assert_eq!((records(&bench), newest_file(&bench)), (1, told));
    // A damaged set is none: nothing can be told, and the next change can.
    std::fs::write(&set, "damage").unwrap();
    bench.restart(THREE);
    assert_eq!(records(&bench), 1);
    bench.restart(OTHER);
    assert_eq!(records(&bench), 2);
}

#[test]
fn a_change_of_all_budgets_keeps_the_first_rows_and_counts_all() {
    let lines = |limit: &str| -> String {
        (1..=5_000).map(|id| format!("{{\"id\":{id},\"limit\":\"{limit}\"}}\n")).collect()
    };
    let bench = Bench::new(&lines("1"));
    bench.load(&lines("2"));
    let (file, rows) = newest_file(&bench);
    assert_eq!((file.changed, rows.len(), rows[99].0), (5_000, by_file::ROWS_MAX, 100));
    let listed = &bench.edits.audit(None, None, 1)[0];
    assert_eq!((listed.rows, listed.changes.len()), (5_000, audit::ROWS_SHOWN));
    assert_eq!(bench.edits.audit(Some(77), None, 9).len(), 1);
}

#[test]
fn names_are_those_of_the_last_set_until_another_is_in_force() {
    let named = |name: &str| format!("{{\"id\":1,\"limit\":\"10\",\"name\":\"{name}\"}}\n");
    let mut bench = Bench::new(&named("shoes"));
    bench.create(json!({"id": 9, "limit": "5", "name": "made"}));
    let both = HashMap::from([(1, "shoes".to_string()), (9, "made".to_string())]);
    bench.edits = open(&bench.folder, &bench.bank, &bench.now_ms, 2);
    assert_eq!(bench.edits.names(), both);
    bench.load(&named("books"));
    assert_eq!(bench.edits.names()[&1], "books");
    bench.edits = open(&bench.folder, &bench.bank, &bench.now_ms, 3);
    std::fs::write(bench.folder.path().join("edits/set"), "").unwrap();
    assert_eq!(bench.edits.names()[&1], "books", "read before");
    bench.edits = open(&bench.folder, &bench.bank, &bench.now_ms, 4);
    assert!(bench.edits.names().is_empty());
}

/// A bench whose log is on other machines.
fn carried_bench(lines: &str) -> Bench {
    let bench = Bench::new(lines);
    bench.bank.told().carried = Some(Vec::new());
    bench
}

impl Bench {
    fn carried(&self) -> Vec<Vec<u8>> {
        self.bank.told().carried.clone().unwrap_or_default()
    }

    /// Lines of the log of edits but for the first.
    fn lines(&self) -> Vec<String> {
        said_in(self.folder.path())
    }
}

fn said_in(folder: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("edits/log")).unwrap();
    let says = |line: &&str| !line.contains("{\"head\":") && !line.ends_with("{\"overlays\":{}}");
    text.lines().filter(says).map(str::to_string).collect()
}

/// Another node's folder, which takes the messages from a number on.
fn follow(folder: &TempDir, messages: &[Vec<u8>]) -> Result<(), String> {
    let mut carried = Carried::open(&folder.path().join("edits")).unwrap();
    let from = usize::try_from(carried.count()).unwrap();
    messages[from..]
        .iter()
        .try_for_each(|message| carried.take(message).map_err(|error| error.to_string()))
}

#[test]
fn what_travels_makes_the_same_log_of_edits_elsewhere_once() {
    let bench = carried_bench(ONE);
    bench.set(1, json!({"limit": "20"}));
    bench.create(json!({"id": 9, "name": "nine", "unit": "USD", "limit": "5"}));
    let key = Some(("k".into(), [7; 32]));
    let unknown = edit(Action::Set, change(77, json!({"limit": "1"})));
    bench.edits.edit(Edit { key, ..unknown }).unwrap();
    // The file has a newer word, and then names the budget no more.
    bench.load(r#"{"id":1,"limit":"30"}"#);
    bench.set(1, json!({"limit": "31"}));
    bench.load(r#"{"id":2,"limit":"30"}"#);
    let messages = bench.carried();
    assert_eq!(messages.len(), bench.lines().len());
    let elsewhere = tempfile::tempdir().unwrap();
    for end in 0..=messages.len() {
        follow(&elsewhere, &messages[..end]).unwrap();
        // A crash between the line and its number: it comes again.
        let mark = elsewhere.path().join("edits/carried");
        if end > 0 {
            std::fs::write(&mark, format!("{}\n", end - 1)).unwrap();
            follow(&elsewhere, &messages[..end]).unwrap();
            // And within the line.
            let log = elsewhere.path().join("edits/log");
            let bytes = std::fs::read(&log).unwrap();
            std::fs::write(&log, &bytes[..bytes.len() - 2]).unwrap();
            std::fs::write(&mark, format!("{}\n", end - 1)).unwrap();
            follow(&elsewhere, &messages[..end]).unwrap();
            assert_eq!(std::fs::read(&log).unwrap(), bytes);
        }
        assert_eq!(said_in(elsewhere.path()), bench.lines()[..end]);
    }
    let edits = open(&elsewhere, &bench.bank, &bench.now_ms, 2);
    let audit = |edits: &Edits| format!("{:?}", edits.audit(None, None, 100));
    assert_eq!(audit(&edits), audit(&bench.edits));
    assert_eq!(edits.seen().overlays, bench.edits.seen().overlays);
    // What was answered to a key is, there too.
    assert!(edits.replay("ada", "k", &[7; 32]).unwrap().is_some());
}

#[test]
fn an_edit_that_the_log_on_other_machines_does_not_take_is_not_made() {
    let bench = carried_bench(ONE);
    bench.bank.told().carries = Mood::CannotSeal;
    let refused = bench.act(Action::Set, change(1, json!({"limit": "20"}))).unwrap_err();
    assert!(matches!(&refused, EditError::Journal(text) if text.contains("away")), "{refused}");
    assert!(bench.edits.take_unsure(), "the bank gets the file\'s word again");
    assert_eq!((bench.field(1, "limit"), bench.lines()), (json!("10"), Vec::new()));
    // What the bank refuses does not travel.
    (bench.bank.told().carries, bench.bank.told().mood) = (Mood::Well, Mood::CannotSeal);
    bench.act(Action::Set, change(1, json!({"limit": "20"}))).unwrap_err();
    bench.bank.told().mood = Mood::Well;
    assert_eq!((bench.carried(), bench.lines()), (Vec::new(), Vec::new()));
    bench.set(1, json!({"limit": "21"}));
    // Nobody knows whether the next one is in the log: what follows waits for a restart, which knows.
    bench.bank.told().carries = Mood::Mute;
    let unsure = bench.act(Action::Set, change(1, json!({"limit": "22"}))).unwrap_err();
    assert!(matches!(unsure, EditError::Unsure(_)), "{unsure}");
    bench.bank.told().carries = Mood::Well;
    bench.act(Action::Set, change(1, json!({"limit": "23"}))).unwrap_err();
    assert_eq!((bench.carried().len(), bench.lines().len()), (2, 1));
    follow(&bench.folder, &bench.carried()).unwrap();
    let edits = open(&bench.folder, &bench.bank, &bench.now_ms, 2);
    assert_eq!(edits.audit(None, None, 100).len(), 2);
}

#[test]
fn messages_that_do_not_fit_a_log_of_edits_are_refused() {
    let bench = carried_bench(ONE);
    bench.set(1, json!({"limit": "20"}));
    let [message] = &bench.carried()[..] else { panic!() };
    let bytes = std::fs::read(bench.log()).unwrap();
    let whole = RoomChange::Whole(&bytes).message();
    let own = |lines: &str| {
        let own = Bench::new(lines);
        own.set(1, json!({"limit": "12"}));
        own.folder
    };
    let empty = || tempfile::tempdir().unwrap();
    let cut = RoomChange::Whole(&bytes[..bytes.len() - 2]).message();
    let rows = [
        (empty(), b"".to_vec(), Some("a message that this version does not know")),
        (empty(), b"\x07{}".to_vec(), Some("a message that this version does not know")),
        (empty(), b"\x01{}".to_vec(), Some("a line that this version does not know")),
        (empty(), b"\x01\xff".to_vec(), Some("a line that this version does not know")),
        (empty(), cut, Some("a log of edits that this version cannot read")),
        (own(ONE), message.clone(), Some("move the folder edits aside")),
        (own(ONE), whole.clone(), Some("move the folder edits aside")),
        (empty(), message.clone(), None),
        (empty(), whole, None),
    ];
    for (folder, message, expected) in rows {
        let taken = follow(&folder, &[message]).err();
        assert_eq!(taken.is_some(), expected.is_some(), "{taken:?}");
        assert!(expected.is_none_or(|text| taken.as_ref().unwrap().contains(text)), "{taken:?}");
    }
}

#[test]
fn a_log_of_edits_from_before_is_brought_whole_and_once() {
    let mut bench = Bench::new(ONE);
    bench.set(1, json!({"limit": "20"}));
    let mut brought = Vec::new();
    for _ in 0..2 {
        let mut opened = Opened::open(&bench.folder.path().join("edits")).unwrap();
        let mut bring = |message| brought.push(message);
        opened
            .bring(|message| {
                bring(message);
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(brought.len(), 1);
    bench.bank.told().carried = Some(brought);
    bench.restart(ONE);
    bench.set(1, json!({"limit": "30"}));
    let elsewhere = tempfile::tempdir().unwrap();
    follow(&elsewhere, &bench.carried()).unwrap();
    assert_eq!(said_in(elsewhere.path()), bench.lines());
    // It was sealed, and the crash came before its number: the folder has it already.
    std::fs::remove_file(bench.folder.path().join("edits/carried")).unwrap();
    let again = Bench::new(ONE);
    again.set(1, json!({"limit": "20"}));
    let whole = RoomChange::Whole(&std::fs::read(again.log()).unwrap()).message();
    follow(&again.folder, &[whole]).unwrap();
    assert_eq!(again.lines().len(), 1);
    let mut opened = Opened::open(&tempfile::tempdir().unwrap().path().join("edits")).unwrap();
    opened.bring(|_| panic!("there is nothing to bring")).unwrap();
}
