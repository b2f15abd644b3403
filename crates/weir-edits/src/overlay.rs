//! What the API changed, on top of what the budgets file says: field by field, until the file says something else.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ledger::{BudgetSpec, Status};
use money::{Instant, Unit, ZoneCache};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use watch::node::{EDITABLE, FieldEdit, Fields};
use weir_budgets::budgets::{self, Budget, Line};
use weir_budgets::campaigns::fields::amount;
use weir_budgets::{alerts, orders, windows};
use wire::Handle;

use super::entry::Row;

/// What the API changed, by budget.
pub(super) type Overlays = BTreeMap<u64, Overlay>;

/// What the API changed of one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Overlay {
    /// It made it: its line.
    Created(Fields),
    /// Fields on top of the file's line.
    Edited(BTreeMap<String, Held>),
    /// The file names the budget no more, or its parent: what was changed waits for [`AWAY_MS`] in case it does again.
    Away {
        /// Since when, ms since 1970 UTC.
        since_ms: u64,
        /// What is applied again then: [`Overlay::Created`] or [`Overlay::Edited`].
        kept: Box<Overlay>,
    },
}

/// How long the edits of a budget are kept that the file does not name any more: a day.
pub(super) const AWAY_MS: u64 = 24 * 3_600_000;

/// A field that holds while the file goes on saying the same of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Held {
    /// What it is; null: it is not there.
    pub(super) value: Value,
    /// What the file said when it was edited; null: nothing.
    pub(super) said: Value,
}

/// Edits that ended because the file had a newer word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// The budget.
    pub(super) id: u64,
    /// The fields; none: all that the API knew of the budget.
    pub(super) fields: Vec<String>,
    /// For people.
    pub(super) why: String,
}

/// A file's lines with the edits on top.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Each budget, with what its own line says.
    pub(super) lines: Vec<Line>,
    /// The edits that hold.
    pub(super) overlays: Overlays,
    /// Those that ended.
    pub(super) ended: Vec<Ended>,
    /// Budgets whose edits wait from now on.
    pub(super) away: Vec<u64>,
    /// Budgets whose edits waited and are applied again.
    pub(super) back: Vec<u64>,
}

const IN_FILE: &str = "the budgets file names the budget now: its line is in force";
const LONG_AWAY: &str = "the budgets file has not named the budget, or its parent, for a day; or has given its handle to another";
const NEWER: &str = "the budgets file says something new of the field";
const TAKEN: &str = "another budget of the file has this handle now";
const UNFIT: &str = "it does not fit what the budgets file says now";

/// Puts the edits on top of a file's lines, at an instant in ms since 1970 UTC. The lines are sound; so is the result.
pub(super) fn merge(lines: Vec<Line>, overlays: &Overlays, now_ms: u64) -> Merged {
    let mut merged = Merged::default();
    let mut zones = ZoneCache::default();
    let ids: BTreeSet<u64> = lines.iter().map(|line| line.budget.spec.id).collect();
    let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
    let mut held: BTreeMap<u64, &Overlay> = BTreeMap::new();
    for (id, overlay) in overlays {
        let Overlay::Away { since_ms, kept } = overlay else {
            held.insert(*id, overlay);
            continue;
        };
        if now_ms.saturating_sub(*since_ms) > AWAY_MS {
            merged.end(*id, Vec::new(), LONG_AWAY);
        } else {
            waiting.insert(*id, *since_ms);
            held.insert(*id, &**kept);
        }
    }
    for line in lines {
        let id = line.budget.spec.id;
        match held.get(&id) {
            None | Some(Overlay::Away { .. }) => merged.lines.push(line),
            Some(Overlay::Created(_)) => {
                merged.end(id, Vec::new(), IN_FILE);
                merged.lines.push(line);
            }
            Some(Overlay::Edited(fields)) => {
                merged.back.extend(waiting.contains_key(&id).then_some(id));
                merged.edited(line, fields, &mut zones);
            }
        }
    }
    merged.settle_handles(&mut zones);
    let mut created = BTreeSet::new();
    // Of two made with one handle, the one that waited goes on waiting: the later one is refused.
    let (late, first): (Vec<_>, Vec<_>) = held
        .into_iter()
        .filter(|(id, _)| !ids.contains(id))
        .partition(|(id, _)| waiting.contains_key(id));
    for (id, overlay) in first.into_iter().chain(late) {
        match overlay {
            Overlay::Created(fields) => {
                created.insert(id);
                merged.created(id, fields, &mut zones);
            }
            Overlay::Edited(_) => merged.wait(id, overlay.clone(), waiting.get(&id), now_ms),
            Overlay::Away { .. } => {}
        }
    }
    merged.part_from_orphans(&waiting, now_ms);
    let is_back = |id: &u64| {
        waiting.contains_key(id) && matches!(merged.overlays.get(id), Some(Overlay::Created(_)))
    };
    merged.back.extend(created.into_iter().filter(is_back));
    merged
}

impl Merged {
    /// Keeps the edits of a budget that is not there; `since_ms`: since when, if they waited before.
    fn wait(&mut self, id: u64, overlay: Overlay, since_ms: Option<&u64>, now_ms: u64) {
        if since_ms.is_none() {
            self.away.push(id);
        }
        let since_ms = since_ms.copied().unwrap_or(now_ms);
        self.overlays.insert(id, Overlay::Away { since_ms, kept: Box::new(overlay) });
    }

    fn end(&mut self, id: u64, fields: Vec<String>, why: &str) {
        self.ended.push(Ended { id, fields, why: why.into() });
    }

    fn edited(&mut self, mut line: Line, held: &BTreeMap<String, Held>, zones: &mut ZoneCache) {
        let (id, unit) = (line.budget.spec.id, line.budget.spec.unit);
        let says =
            |field: &str, said: &Value| same(id, unit, field, said, saying(&line.said, field));
        let (mut held, newer): (BTreeMap<_, _>, BTreeMap<_, _>) =
            held.clone().into_iter().partition(|(field, held)| says(field, &held.said));
        if !newer.is_empty() {
            self.end(id, newer.into_keys().collect(), NEWER);
        }
        let bids = line.budget.campaign.is_some();
        let mut read = judge_held(&line.said, &held, id, bids, zones);
        if read.is_none() {
            // The line alone is sound: those that can be kept are.
            let all = std::mem::take(&mut held);
            for (field, one) in all {
                held.insert(field.clone(), one);
                match judge_held(&line.said, &held, id, bids, zones) {
                    Some(sound) => read = Some(sound),
                    None => {
                        held.remove(&field);
                        self.end(id, vec![field], UNFIT);
                    }
                }
            }
        }
        if let Some(read) = read.filter(|_| !held.is_empty()) {
            let Budget { line: number, campaign, .. } = line.budget;
            line.budget = Budget { line: number, campaign, ..read };
            self.overlays.insert(id, Overlay::Edited(held));
        }
        self.lines.push(line);
    }

    /// Where two budgets of the file would have one handle, edits of it end: the file alone gives each its own. The end of one edit
    /// may bring another to light.
    fn settle_handles(&mut self, zones: &mut ZoneCache) {
        loop {
            let rivals = self.rivals();
            if rivals.is_empty() {
                return;
            }
            for line in self.lines.iter_mut().filter(|line| rivals.contains(&line.budget.spec.id)) {
                let id = line.budget.spec.id;
                let Some(Overlay::Edited(mut held)) = self.overlays.remove(&id) else { continue };
                held.remove("handle");
                let campaign = line.budget.campaign.take();
                let read = judge_held(&line.said, &held, id, campaign.is_some(), zones);
                let read = read.expect("sound with another handle");
                line.budget = Budget { line: line.budget.line, campaign, ..read };
                if !held.is_empty() {
                    self.overlays.insert(id, Overlay::Edited(held));
                }
            }
            rivals.into_iter().for_each(|id| self.end(id, vec!["handle".into()], TAKEN));
        }
    }

    /// Live budgets whose handle is an edit, and another's too.
    fn rivals(&self) -> BTreeSet<u64> {
        let edits_handle = |id: &u64| matches!(self.overlays.get(id), Some(Overlay::Edited(held)) if held.contains_key("handle"));
        if !self.overlays.keys().any(edits_handle) {
            return BTreeSet::new();
        }
        let mut by_handle: HashMap<&Handle, Vec<u64>> = HashMap::new();
        let specs = self.lines.iter().map(|line| &line.budget.spec);
        for spec in specs.filter(|spec| spec.status != Status::Ended) {
            if let Some(handle) = &spec.handle {
                by_handle.entry(handle).or_default().push(spec.id);
            }
        }
        let shared = by_handle.into_values().filter(|ids| ids.len() > 1);
        shared.flatten().filter(edits_handle).collect()
    }

    fn created(&mut self, id: u64, fields: &Fields, zones: &mut ZoneCache) {
        match budgets::judge(fields, false, zones) {
            Ok(budget) => {
                self.lines.push(Line { budget, said: fields.clone(), place: None });
                self.overlays.insert(id, Overlay::Created(fields.clone()));
            }
            Err(texts) => self.end(id, Vec::new(), &texts.join("; ")),
        }
    }

    /// Created budgets whose parent is gone, or became another, wait until it is back; those whose handle is another's, until it is
    /// free.
    fn part_from_orphans(&mut self, waiting: &BTreeMap<u64, u64>, now_ms: u64) {
        let is_created = |overlay: &Overlay| matches!(overlay, Overlay::Created(_));
        while self.overlays.values().any(is_created) {
            let specs: Vec<BudgetSpec> =
                self.lines.iter().map(|line| line.budget.spec.clone()).collect();
            let wrong: BTreeSet<u64> = ledger::spec::check(&specs)
                .into_iter()
                .map(|error| error.id())
                .filter(|id| self.overlays.get(id).is_some_and(is_created))
                .collect();
            if wrong.is_empty() {
                return;
            }
            self.lines.retain(|line| !wrong.contains(&line.budget.spec.id));
            for id in wrong {
                let overlay = self.overlays.remove(&id).expect("found above");
                self.wait(id, overlay, waiting.get(&id), now_ms);
            }
        }
    }
}

fn judge_held(
    said: &Fields,
    held: &BTreeMap<String, Held>,
    id: u64,
    bids: bool,
    zones: &mut ZoneCache,
) -> Option<Budget> {
    budgets::judge(&with_held(said, held, id), bids, zones).ok()
}

/// What lies on top of the file's line, field by field; nothing of a budget that no file has.
pub(super) fn on_top(said: &Fields, overlay: Option<&Overlay>) -> Vec<FieldEdit> {
    let Some(Overlay::Edited(held)) = overlay else { return Vec::new() };
    let edit = |(field, held): (&String, &Held)| FieldEdit {
        field: field.clone(),
        in_file: saying(said, field).clone(),
        in_force: held.value.clone(),
    };
    held.iter().map(edit).collect()
}

/// What a row of an edit leaves on top of the file.
pub(super) fn apply(overlays: &mut Overlays, row: &Row) {
    if row.after.is_empty() {
        overlays.remove(&row.id);
    } else if row.before.is_empty() {
        overlays.insert(row.id, Overlay::Created(row.after.clone()));
    } else {
        come_back(overlays, row.id);
        let overlay = overlays.entry(row.id).or_insert_with(|| Overlay::Edited(BTreeMap::new()));
        match overlay {
            Overlay::Created(fields) => set(fields, &row.after),
            Overlay::Edited(held) => hold(held, row),
            Overlay::Away { .. } => {}
        }
        if matches!(overlay, Overlay::Edited(held) if held.is_empty()) {
            overlays.remove(&row.id);
        }
    }
}

fn hold(held: &mut BTreeMap<String, Held>, row: &Row) {
    for (field, value) in &row.after {
        match row.said.get(field) {
            Some(said) => {
                held.insert(field.clone(), Held { value: value.clone(), said: said.clone() });
            }
            // The file says the same.
            None => drop(held.remove(field)),
        }
    }
}

/// The edits of a budget wait from an instant on, in ms since 1970 UTC.
pub(super) fn leave(overlays: &mut Overlays, id: u64, since_ms: u64) {
    let waits = |overlay: &Overlay| matches!(overlay, Overlay::Away { .. });
    if let Some(overlay) = overlays.remove(&id) {
        let away = match waits(&overlay) {
            true => overlay,
            false => Overlay::Away { since_ms, kept: Box::new(overlay) },
        };
        overlays.insert(id, away);
    }
}

/// The edits of a budget wait no more: they are applied again.
pub(super) fn come_back(overlays: &mut Overlays, id: u64) {
    if let Some(Overlay::Away { kept, .. }) = overlays.get_mut(&id) {
        let kept = std::mem::replace(&mut **kept, Overlay::Edited(BTreeMap::new()));
        overlays.insert(id, kept);
    }
}

/// Takes back what a newer word of the file ended.
pub(super) fn end(overlays: &mut Overlays, ended: &Ended) {
    let Some(Overlay::Edited(held)) = overlays.get_mut(&ended.id) else {
        overlays.remove(&ended.id);
        return;
    };
    held.retain(|field, _| !ended.fields.contains(field));
    if ended.fields.is_empty() || held.is_empty() {
        overlays.remove(&ended.id);
    }
}

/// All fields of a budget: its line's, with the edits. Name and status are said even where the line leaves them out.
pub(super) fn effective(id: u64, said: &Fields, overlay: Option<&Overlay>) -> Fields {
    match overlay {
        Some(Overlay::Edited(held)) => with_held(said, held, id),
        Some(Overlay::Created(_) | Overlay::Away { .. }) | None => {
            with_held(said, &BTreeMap::new(), id)
        }
    }
}

fn with_held(said: &Fields, held: &BTreeMap<String, Held>, id: u64) -> Fields {
    let mut fields = said.clone();
    held.iter().for_each(|(field, held)| put(&mut fields, field, &held.value));
    fields.retain(|_, value| !value.is_null());
    for field in ["name", "status"] {
        let value = spoken(id, field, saying(&fields, field));
        fields.insert(field.into(), value);
    }
    for field in ["limit", "daily"] {
        fields.get_mut(field).into_iter().for_each(as_text);
    }
    for window in fields.get_mut("windows").and_then(Value::as_object_mut).into_iter().flatten() {
        match window.1 {
            Value::Object(window) => window.get_mut("limit").into_iter().for_each(as_text),
            plain => as_text(plain),
        }
    }
    fields
}

/// An amount that a line has as a whole number, as text: what is shown can be written back.
fn as_text(amount: &mut Value) {
    if let Value::Number(number) = amount {
        *amount = number.to_string().into();
    }
}

/// With these fields; null takes one away.
pub(super) fn set(fields: &mut Fields, changes: &Fields) {
    changes.iter().for_each(|(field, value)| put(fields, field, value));
}

fn put(fields: &mut Fields, field: &str, value: &Value) {
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.into(), value.clone());
    }
}

/// What a line says of a field; null: nothing.
pub(super) fn saying<'f>(fields: &'f Fields, field: &str) -> &'f Value {
    fields.get(field).unwrap_or(&Value::Null)
}

/// A value, or what a line means that says nothing of the field.
pub(super) fn spoken(id: u64, field: &str, value: &Value) -> Value {
    match (field, value) {
        ("status", Value::Null) => "active".into(),
        ("name", Value::Null) => format!("budget {id}").into(),
        ("handle", Value::String(text)) if text.is_empty() => Value::Null,
        _ => value.clone(),
    }
}

/// Do two values mean the same? `12.5` and `"12.50"` do.
pub(super) fn same(id: u64, unit: Unit, field: &str, a: &Value, b: &Value) -> bool {
    debug_assert!(EDITABLE.contains(&field));
    let (a, b) = (spoken(id, field, a), spoken(id, field, b));
    let alike = |read: &dyn Fn(&Value) -> Option<i128>| {
        let (a, b) = (read(&a), read(&b));
        a.is_some() && a == b
    };
    a == b
        || match field {
            "limit" | "daily" => alike(&|value| Some(amount(value, unit).ok()?.get().into())),
            "windows" => windows::same(&a, &b, unit),
            "orders" => orders::same(&a, &b),
            "alerts" => alerts::same(&a, &b),
            "start" | "end" => {
                alike(&|value| Some(Instant::parse(value.as_str()?).ok()?.ms().into()))
            }
            _ => false,
        }
}
