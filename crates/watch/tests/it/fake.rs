//! A node in memory behind a real door.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};

use money::{Amount, Unit};
use serde_json::{Value, json};
use watch::board::View;
use watch::model::{Period, WindowUse, WindowUses};
use watch::node::{
    Action, AuditRecord, AuditRow, Detail, Edit, EditError, EditRows, Edited, EditedRow, Fields,
    NamedHolds, Refusals, Refused, RowChange, RowProblem, RowResult,
};
use watch::{Budget, Counted, Flags, Node, Options, Pacing, Reason, Server, State, Status};

type Answers = HashMap<Box<str>, ([u8; 32], Edited)>;

/// A node that keeps configurations in memory and knows no money.
#[derive(Default)]
pub(crate) struct Fake {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    budgets: BTreeMap<u64, (Fields, u64)>,
    answers: Answers,
    records: Vec<AuditRecord>,
    unready: Option<String>,
    edits: usize,
}

impl Fake {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(crate) fn unready(&self, why: Option<&str>) {
        self.lock().unready = why.map(ToString::to_string);
    }

    pub(crate) fn field(&self, id: u64, name: &str) -> Value {
        self.lock().budgets[&id].0.get(name).cloned().unwrap_or_default()
    }

    /// How often something was really changed.
    pub(crate) fn edits(&self) -> usize {
        self.lock().edits
    }

    /// The view of the configurations, with figures made of the ids.
    pub(crate) fn view(&self, as_of_ms: u64) -> View {
        let inner = self.lock();
        let rows = inner
            .budgets
            .iter()
            .map(|(id, (fields, revision))| row(*id, fields, *revision, as_of_ms));
        let (budgets, states): (Vec<Budget>, Vec<State>) = rows.unzip();
        let (budgets, states) = (budgets.into(), states.into());
        View { as_of_ms, run: 1, generation: 1, budgets, states, ..View::default() }
    }
}

fn text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn row(id: u64, fields: &Fields, revision: u64, now_ms: u64) -> (Budget, State) {
    let unit = Unit::parse(text(fields, "unit").unwrap_or("USD")).unwrap();
    let amount = |name| text(fields, name).map(|text| unit.parse_amount(text).unwrap());
    let budget = Budget {
        id,
        name: text(fields, "name").unwrap_or("nameless").into(),
        handle: text(fields, "handle").map(Into::into),
        unit,
        parent: id.is_multiple_of(7).then_some(1),
        campaign: id.is_multiple_of(2),
        start_ms: None,
        end_ms: id.is_multiple_of(3).then_some(1_900_000_000_000),
        zone: if id.is_multiple_of(2) { "Europe/Berlin" } else { "UTC" }.into(),
        pacing: Pacing::ALL[usize::try_from(id).unwrap() % Pacing::ALL.len()],
        revision,
    };
    let paused = text(fields, "status") == Some("paused");
    let seed = i64::try_from(id.wrapping_mul(2_654_435_761) % 1_000_000).unwrap();
    let limit = amount("limit").unwrap();
    let (spent, held) = (Amount::new(seed), Amount::new(seed / 10));
    let out = spent.checked_add(held).unwrap();
    let asks = u32::try_from(seed % 10_000).unwrap();
    let mut windows = WindowUses::default();
    let hour = WindowUse { bucket: id.is_multiple_of(2), limit, used: spent };
    windows[usize::from(Period::Hour.code())] = id.is_multiple_of(3).then_some(hour);
    let state = State {
        windows,
        status: if paused { Status::Paused } else { Status::ALL[usize::try_from(id).unwrap() % 2] },
        reason: if paused { Reason::Owner } else { Reason::ALL[usize::try_from(id).unwrap() % 5] },
        since_ms: now_ms - 5_000,
        top_refusal: [0, 7, 10][usize::try_from(id).unwrap() % 3],
        flags: Flags(u8::try_from(id % 16).unwrap()),
        limit,
        spent,
        debt: Amount::ZERO,
        held,
        available: limit.checked_sub(out).unwrap(),
        window_start_ms: now_ms - 3_600_000,
        window_end_ms: now_ms + 3_600_000,
        window_budget: (!id.is_multiple_of(5)).then_some(limit),
        window_planned: (!id.is_multiple_of(5)).then_some(Amount::new(500_000)),
        window_spent: (!id.is_multiple_of(5)).then_some(spent),
        daily: amount("daily"),
        day_spent: spent,
        day_ends_ms: amount("daily").map(|_| now_ms + 1_000),
        spend_minute: held,
        asks,
        grants: asks / 2,
        refusals: asks - asks / 2,
        top_refusals: asks / 3,
        counted: id.is_multiple_of(2).then_some(Counted {
            impressions: id % 4 * 1_000,
            clicks: (!id.is_multiple_of(6)).then_some(id % 4 * 3),
            spend: spent,
        }),
    };
    (budget, state)
}

impl Inner {
    fn judge(&self, change: &RowChange) -> (RowResult, Fields, Fields) {
        let none = Fields::new;
        let Some((fields, revision)) = self.budgets.get(&change.id) else {
            return (RowResult::Refused(RowProblem::Unknown(change.id)), none(), none());
        };
        if let Some(expected) = change.revision.filter(|expected| expected != revision) {
            let problem = RowProblem::Revision { found: *revision, expected };
            return (RowResult::Refused(problem), none(), none());
        }
        if text(&change.fields, "limit") == Some("666.00") {
            let problem = RowProblem::Field("limit: found 666.00, expected another number".into());
            return (RowResult::Refused(problem), none(), none());
        }
        let of = |name: &String| fields.get(name).cloned().unwrap_or_default();
        let differs = |(name, value): &(&String, &Value)| of(name) != **value;
        let changed: Vec<(&String, &Value)> = change.fields.iter().filter(differs).collect();
        let before = changed.iter().map(|(name, _)| ((*name).clone(), of(name))).collect();
        let after: Fields =
            changed.iter().map(|(name, value)| ((*name).clone(), (*value).clone())).collect();
        let result = if after.is_empty() { RowResult::Unchanged } else { RowResult::Changed };
        (result, before, after)
    }

    fn change(&mut self, change: &RowChange, dry_run: bool) -> EditedRow {
        let (result, before, after) = self.judge(change);
        let applies = !dry_run && result == RowResult::Changed;
        if let Some((fields, revision)) = self.budgets.get_mut(&change.id).filter(|_| applies) {
            fields.extend(after.clone());
            *revision += 1;
        }
        let revision = self.budgets.get(&change.id).map_or(0, |(_, revision)| *revision);
        EditedRow { id: change.id, result, before, after, revision }
    }

    fn create(&mut self, fields: Fields) -> EditedRow {
        let id = fields["id"].as_u64().unwrap();
        let (before, after) = (Fields::new(), fields.clone());
        let result = match self.budgets.contains_key(&id) {
            true => RowResult::Refused(RowProblem::Exists(id)),
            false => RowResult::Changed,
        };
        let (_, revision) = self.budgets.entry(id).or_insert((fields, 1));
        EditedRow { id, result, before, after, revision: *revision }
    }

    fn undo(&mut self, record: u64, dry_run: bool) -> Result<Vec<RowChange>, EditError> {
        let next = u64::try_from(self.records.len()).unwrap() + 1;
        let found = self.records.iter_mut().find(|known| known.record == record);
        let found = found.ok_or(EditError::NoRecord(record))?;
        if let Some(by) = found.undone_by {
            return Err(EditError::Undone(record, by));
        }
        if !dry_run {
            found.undone_by = Some(next);
        }
        let row =
            |row: &AuditRow| RowChange { id: row.id, fields: row.before.clone(), revision: None };
        Ok(found.changes.iter().map(row).collect())
    }

    fn note(&mut self, edit: &Edit, rows: &[EditedRow], undo_of: Option<u64>) -> Option<u64> {
        let changed: Vec<AuditRow> = rows
            .iter()
            .filter(|row| row.result == RowResult::Changed)
            .map(|row| AuditRow {
                id: row.id,
                before: row.before.clone(),
                after: row.after.clone(),
            })
            .collect();
        if changed.is_empty() || edit.dry_run {
            return None;
        }
        self.edits += 1;
        let record = u64::try_from(self.records.len()).unwrap() + 1;
        self.records.push(AuditRecord {
            record,
            at_ms: 1_795_000_000_000,
            who: edit.who.to_string(),
            action: edit.action,
            why: edit.why.to_string(),
            undo_of,
            undone_by: None,
            rows: changed.len(),
            changes: changed,
            session: None,
            file: None,
        });
        Some(record)
    }
}

impl Node for Fake {
    fn edit(&self, edit: Edit) -> Result<Edited, EditError> {
        let mut inner = self.lock();
        if let Some(first) =
            edit.key.as_ref().and_then(|(key, digest)| inner.first(key, digest).transpose())
        {
            return first;
        }
        if let Some(why) = inner.unready.clone().filter(|_| !edit.dry_run) {
            return Err(EditError::Journal(why));
        }
        let (rows, undo_of) = match &edit.rows {
            EditRows::Create(fields) => (vec![inner.create(fields.clone())], None),
            EditRows::Change(changes) => {
                (changes.iter().map(|change| inner.change(change, edit.dry_run)).collect(), None)
            }
            EditRows::Undo(record) => {
                let changes = inner.undo(*record, edit.dry_run)?;
                (
                    changes.iter().map(|change| inner.change(change, edit.dry_run)).collect(),
                    Some(*record),
                )
            }
        };
        let record = inner.note(&edit, &rows, undo_of);
        let edited = Edited { record, replay: false, rows };
        if let Some((key, digest)) = edit.key.filter(|_| !edit.dry_run) {
            inner.answers.insert(key, (digest, edited.clone()));
        }
        Ok(edited)
    }

    fn replay(
        &self,
        _who: &str,
        key: &str,
        digest: &[u8; 32],
    ) -> Result<Option<Edited>, EditError> {
        self.lock().first(key, digest)
    }

    fn revision(&self, id: u64) -> Option<u64> {
        self.lock().budgets.get(&id).map(|(_, revision)| *revision)
    }

    fn id_of(&self, handle: &str) -> Option<u64> {
        let inner = self.lock();
        let mut all = inner.budgets.iter();
        all.find(|(_, (fields, _))| text(fields, "handle") == Some(handle)).map(|(id, _)| *id)
    }

    fn fields(&self, id: u64) -> Option<Fields> {
        self.lock().budgets.get(&id).map(|(fields, _)| fields.clone())
    }

    fn detail(&self, _: u64) -> Option<Detail> {
        let named_holds = NamedHolds { count: 3, hold: Amount::new(1_500_000) };
        Some(Detail { named_holds, ..Detail::default() })
    }

    fn refusals(&self, id: u64) -> Option<Refusals> {
        let recent = vec![Refused { at_ms: 1, verdict: "paced".into(), budget: id }];
        let known = self.lock().budgets.contains_key(&id);
        known.then(|| Refusals {
            verdicts: vec![("paced".into(), 3)],
            survey_every: 1_024,
            auctioned: 409_600,
            surveyed: 400,
            why: vec![("targeting".into(), 300), ("floor".into(), 80)],
            recent,
            recent_of: 16_384,
        })
    }

    fn audit(&self, budget: Option<u64>, before: Option<u64>, max: usize) -> Vec<AuditRecord> {
        let inner = self.lock();
        let wanted = |record: &&AuditRecord| {
            let of = budget.is_none_or(|id| record.changes.iter().any(|row| row.id == id));
            of && before.is_none_or(|before| record.record < before)
        };
        let cut = |mut record: AuditRecord| {
            record.changes.truncate(20);
            record
        };
        inner.records.iter().rev().filter(wanted).take(max).cloned().map(cut).collect()
    }

    fn audit_record(&self, record: u64) -> Option<AuditRecord> {
        self.lock().records.iter().find(|known| known.record == record).cloned()
    }

    fn status(&self) -> Value {
        json!({"node": 1})
    }

    fn costs(&self) -> Value {
        json!({"rows": []})
    }

    fn config(&self) -> Value {
        json!({"admin": {"tick_ms": 2000}})
    }

    fn metrics(&self) -> axum::body::Bytes {
        "# EOF\n".into()
    }

    fn ready(&self) -> Result<(), String> {
        self.lock().unready.clone().map_or(Ok(()), Err)
    }
}

impl Inner {
    fn first(&self, key: &str, digest: &[u8; 32]) -> Result<Option<Edited>, EditError> {
        match self.answers.get(key) {
            None => Ok(None),
            Some((known, first)) if known == digest => {
                Ok(Some(Edited { replay: true, ..first.clone() }))
            }
            Some(_) => Err(EditError::KeyReused),
        }
    }
}

/// A door with budgets behind it.
pub(crate) struct Door {
    pub(crate) node: Arc<Fake>,
    pub(crate) server: Server,
    pub(crate) to: SocketAddr,
    _folder: tempfile::TempDir,
}

/// The clock of the first view.
pub(crate) const NOW_MS: u64 = 1_795_000_000_000;

impl Door {
    /// With budgets 1 to `count`, all of 1,000 USD or items.
    pub(crate) fn open(count: u64) -> Door {
        Door::with(count, |_| {})
    }

    pub(crate) fn with(count: u64, change: impl FnOnce(&mut Options)) -> Door {
        let node = Arc::new(Fake::default());
        for id in 1..=count {
            let unit = if id.is_multiple_of(10) { "count" } else { "USD" };
            let limit = if unit == "count" { "2000000" } else { "1000.00" };
            let fields = json!({"id": id, "name": format!("Budget {id} of Ann"), "unit": unit, "limit": limit});
            let Value::Object(mut fields) = fields else { unreachable!() };
            if id == 7 {
                fields.insert("handle".into(), "team-42/gpt-5".into());
            }
            node.lock().budgets.insert(id, (fields, 1));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options {
            live_max: 4,
            live_rows: watch::board::LIVE_ROWS,
            tokens: None,
            tls: None,
            origins: Vec::new(),
            history: folder.path().join("history"),
            keep_days: 7,
            run_id: String::new(),
            version: "0.0.0".into(),
            docs: &[],
        };
        change(&mut options);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let extra = axum::Router::new().route(
            "/stat",
            axum::routing::get(|| async { (axum::http::StatusCode::BAD_GATEWAY, "plain") }),
        );
        let server =
            Server::start(listener, options, Arc::clone(&node) as Arc<dyn Node>, extra).unwrap();
        server.board().publish(node.view(NOW_MS));
        let to = server.address();
        Door { node, server, to, _folder: folder }
    }

    pub(crate) fn publish(&self, as_of_ms: u64) {
        self.server.board().publish(self.node.view(as_of_ms));
    }
}

/// Not used by the fake itself, but by what it is told.
pub(crate) fn is_pause(record: &Value) -> bool {
    record["action"] == serde_json::to_value(Action::Pause).unwrap()
}
