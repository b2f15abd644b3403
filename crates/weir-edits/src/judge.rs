//! Judges an edit row by row: what becomes of each budget, and what the log says of it.

use std::collections::{HashMap, HashSet};

use ledger::Status;
use money::{Unit, ZoneCache};
use serde_json::Value;
use watch::node::{
    Action, AuditRecord, AuditRow, EDITABLE, Fields, LARGE_TIMES, LargeChange, RowChange,
    RowProblem, large_change,
};
use weir_budgets::budgets::{self, Budget};
use wire::Handle;

use super::entry::{Outcome, Row};
use super::overlay::{self, Overlay, same, saying, spoken};
use super::{BankPort, Seen};

/// Longest name of a budget, in characters.
const NAME_CHARS_MAX: usize = 200;

/// A row that was judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) row: Row,
    /// What the budget is from now on; `None` where it stays or goes.
    pub(super) to: Option<Budget>,
}

/// Judges rows of one edit, in their order.
pub(super) struct Judge<'s> {
    seen: &'s Seen,
    bank: &'s dyn BankPort,
    action: Action,
    /// Limits may become many times as large, or go.
    confirm_large: bool,
    zones: ZoneCache,
    named: HashSet<u64>,
    /// Handles that rows before gave, and to whom.
    given: HashMap<Handle, u64>,
}

/// What a row comes to.
struct Change {
    before: Fields,
    after: Fields,
    said: Fields,
    to: Option<Budget>,
}

impl<'s> Judge<'s> {
    pub(super) fn new(
        seen: &'s Seen,
        bank: &'s dyn BankPort,
        action: Action,
        confirm_large: bool,
    ) -> Judge<'s> {
        let (named, given) = (HashSet::new(), HashMap::new());
        Judge { seen, bank, action, confirm_large, zones: ZoneCache::default(), named, given }
    }

    /// Fields of a known budget.
    pub(super) fn change(&mut self, row: &RowChange) -> Judged {
        let fields = match self.action {
            Action::Pause => status("paused"),
            Action::Resume => status("active"),
            _ => row.fields.clone(),
        };
        let expected = row.revision;
        let judged = self.once(row.id).and_then(|()| {
            let found = self.seen.known.get(&row.id).ok_or(RowProblem::Unknown(row.id))?.revision;
            match expected.filter(|expected| *expected != found) {
                Some(expected) => Err(RowProblem::Revision { found, expected }),
                None => self.set(row.id, &fields),
            }
        });
        self.row(row.id, judged)
    }

    /// A new budget, as far as it can be judged without the bank.
    pub(super) fn create(&mut self, fields: &Fields) -> Judged {
        let id = saying(fields, "id");
        let id = id.as_u64().or_else(|| id.as_str()?.parse().ok()).unwrap_or(0);
        let judged = self.begin(id, fields);
        self.row(id, judged)
    }

    /// Puts one row of a record back.
    pub(super) fn undo(&mut self, row: &AuditRow) -> Judged {
        let judged = self.put_back(row);
        self.row(row.id, judged)
    }

    fn row(&self, id: u64, judged: Result<Option<Change>, RowProblem>) -> Judged {
        let revision = self.seen.known.get(&id).map_or(0, |known| known.revision);
        let empty = |outcome| Row {
            id,
            outcome,
            before: Fields::new(),
            after: Fields::new(),
            said: Fields::new(),
            revision,
        };
        match judged {
            Err(problem) => Judged { row: empty(problem.into()), to: None },
            Ok(None) => Judged { row: empty(Outcome::Unchanged), to: None },
            Ok(Some(Change { before, after, said, to })) => {
                Judged { row: Row { before, after, said, ..empty(Outcome::Changed) }, to }
            }
        }
    }

    fn once(&mut self, id: u64) -> Result<(), RowProblem> {
        match self.named.insert(id) {
            true => Ok(()),
            false => Err(RowProblem::Field(format!(
                "id: budget {id} is named twice, expected one row for each budget"
            ))),
        }
    }

    fn set(&mut self, id: u64, changes: &Fields) -> Result<Option<Change>, RowProblem> {
        let known = self.seen.known.get(&id).ok_or(RowProblem::Unknown(id))?;
        let (said, overlay) = (known.said(), self.seen.overlays.get(&id));
        let unit = known.spec.unit;
        let mut fields = overlay::effective(id, &said, overlay);
        let (mut before, mut after, mut held) = (Fields::new(), Fields::new(), Fields::new());
        for (field, value) in changes {
            check_field(field, value)?;
            if same(id, unit, field, saying(&fields, field), value) {
                continue;
            }
            before.insert(field.clone(), saying(&fields, field).clone());
            after.insert(field.clone(), spoken(id, field, value));
            if !same(id, unit, field, saying(&said, field), value) {
                held.insert(field.clone(), saying(&said, field).clone());
            }
        }
        if after.is_empty() {
            return Ok(None);
        }
        if after.contains_key("status") && saying(&fields, "status") == "ended" {
            return Err(field("status", "the budget has ended; take it back in the budgets file"));
        }
        overlay::set(&mut fields, &after);
        let budget = budgets::judge(&fields, known.bids, &mut self.zones);
        let budget = budget.map_err(|texts| RowProblem::Field(texts.join("; ")))?;
        self.check_orders(&budget, &after)?;
        if !self.confirm_large {
            check_large(unit, &before, &after)?;
        }
        if matches!(overlay, Some(Overlay::Created(_))) {
            held.clear();
        }
        if after.contains_key("handle") {
            self.give_handle(&budget)?;
        }
        Ok(Some(Change { before, after, said: held, to: Some(budget) }))
    }

    fn begin(&mut self, id: u64, fields: &Fields) -> Result<Option<Change>, RowProblem> {
        if !self.seen.configured {
            let text = "there is no budgets file yet, and without it nothing is in force; make one, it may be empty";
            return Err(RowProblem::Field(text.into()));
        }
        for name in ["name", "status"] {
            check_value(name, saying(fields, name))?;
        }
        let mut after = fields.clone();
        after.retain(|name, value| !value.is_null() && !spoken(id, name, value).is_null());
        let budget = budgets::judge(&after, false, &mut self.zones);
        let budget = budget.map_err(|texts| RowProblem::Field(texts.join("; ")))?;
        if self.seen.known.contains_key(&id) {
            return Err(RowProblem::Exists(id));
        }
        self.check_orders(&budget, &after)?;
        self.give_handle(&budget)?;
        Ok(Some(Change { before: Fields::new(), after, said: Fields::new(), to: Some(budget) }))
    }

    /// Refuses orders that no session can send, where a change names them.
    fn check_orders(&self, budget: &Budget, after: &Fields) -> Result<(), RowProblem> {
        let orders = budget.orders.as_ref().filter(|_| after.contains_key("orders"));
        let faults = orders.map_or_else(Vec::new, |orders| self.bank.judge_orders(orders));
        if faults.is_empty() { Ok(()) } else { Err(RowProblem::Field(faults.join("; "))) }
    }

    /// A budget is to have its handle, which no other live one may have: judged here, before anything is written, because what
    /// is in the log is in force.
    fn give_handle(&mut self, budget: &Budget) -> Result<(), RowProblem> {
        let id = budget.spec.id;
        let handle = budget.spec.handle.as_ref().filter(|_| budget.spec.status != Status::Ended);
        let Some(handle) = handle else { return Ok(()) };
        let holder = self.seen.handles.get(handle).or_else(|| self.given.get(handle));
        if let Some(&holder) = holder.filter(|holder| **holder != id) {
            return Err(RowProblem::HandleTaken { handle: handle.to_string(), holder });
        }
        self.given.insert(handle.clone(), id);
        Ok(())
    }

    fn put_back(&mut self, row: &AuditRow) -> Result<Option<Change>, RowProblem> {
        if row.after.is_empty() {
            return self.begin(row.id, &row.before);
        }
        let known = self.seen.known.get(&row.id).ok_or(RowProblem::Unknown(row.id))?;
        let overlay = self.seen.overlays.get(&row.id);
        let fields = overlay::effective(row.id, &known.said(), overlay);
        let is_new = row.before.is_empty();
        if is_new && !matches!(overlay, Some(Overlay::Created(_))) {
            return Err(field("id", "the budgets file names the budget now; remove it there"));
        }
        for (name, expected) in &row.after {
            let found = saying(&fields, name);
            let is_same = match EDITABLE.contains(&name.as_str()) {
                true => same(row.id, known.spec.unit, name, found, expected),
                false => found == expected,
            };
            if !is_same {
                let text = format!("found {found}, expected {expected}: it has changed since");
                return Err(field(name, &text));
            }
        }
        if !is_new {
            return self.set(row.id, &row.before);
        }
        if let Some((name, found)) =
            known.said().iter().find(|(name, _)| !row.after.contains_key(*name))
        {
            let text = format!("found {found}, expected nothing: it has changed since");
            return Err(field(name, &text));
        }
        if self.seen.known.values().any(|other| other.spec.parent == Some(row.id)) {
            return Err(field("id", "other budgets have it as their parent; remove them first"));
        }
        let before = row.after.clone();
        Ok(Some(Change { before, after: Fields::new(), said: Fields::new(), to: None }))
    }
}

/// All rows of a record, put back.
pub(super) fn undo(seen: &Seen, bank: &dyn BankPort, record: &AuditRecord) -> Vec<Judged> {
    let mut judge = Judge::new(seen, bank, Action::Undo, true);
    record.changes.iter().map(|row| judge.undo(row)).collect()
}

fn status(word: &str) -> Fields {
    Fields::from_iter([("status".to_string(), Value::from(word))])
}

fn field(name: &str, text: &str) -> RowProblem {
    RowProblem::Field(format!("{name}: {text}"))
}

/// A slip of a million, which is what base units are beside units, is asked back; so is a limit that goes, which is more than any slip.
fn check_large(unit: Unit, before: &Fields, after: &Fields) -> Result<(), RowProblem> {
    let Some(large) = large_change(unit, before, after) else { return Ok(()) };
    let name = large.field();
    let (found, was) = (saying(after, name), saying(before, name));
    let what = match large {
        LargeChange::Grows(_) => format!("which is more than {LARGE_TIMES} times the {was} before"),
        LargeChange::Goes(_, periods) => {
            format!("which leaves no limit per {}, where there was {was}", periods.join(", per "))
        }
    };
    let text = format!(
        "found {found}, {what}; say \"confirm_large\": true beside \"changes\" if it is meant"
    );
    Err(field(name, &text))
}

fn check_field(name: &str, value: &Value) -> Result<(), RowProblem> {
    if !EDITABLE.contains(&name) {
        let text = format!("it cannot be changed here; these fields can: {}", EDITABLE.join(", "));
        return Err(field(name, &text));
    }
    check_value(name, value)
}

/// What a line of the file may say and the API may not.
fn check_value(name: &str, value: &Value) -> Result<(), RowProblem> {
    let text = value.as_str().unwrap_or_default();
    match name {
        "status" if text == "ended" => {
            Err(field(name, "found \"ended\", expected \"active\" or \"paused\""))
        }
        "name" if text.chars().count() > NAME_CHARS_MAX => {
            Err(field(name, &format!("it is longer than {NAME_CHARS_MAX} characters")))
        }
        "name" if text.chars().any(char::is_control) => {
            Err(field(name, "it has control characters, expected a line of text"))
        }
        _ => Ok(()),
    }
}
