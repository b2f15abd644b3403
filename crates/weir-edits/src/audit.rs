//! What was edited, by whom and why, and the answers that are given again.

use std::collections::{HashMap, VecDeque};

use watch::node::{AuditRecord, AuditRow, EditError, Edited, EditedRow, FileChange};

use super::entry::{EditEntry, Entry, Key, Row};

/// How long records are kept: a year, and time to close its books.
const KEEP_MS: u64 = 400 * 86_400_000;
/// How long an idempotency key is remembered.
const KEY_MS: u64 = 24 * 3_600_000;
/// Bytes of all lines that are kept; the oldest go first. They are in memory too.
const BYTES_MAX: usize = 64 << 20;
/// Rows of a record in a list.
pub(super) const ROWS_SHOWN: usize = 20;

/// One edit.
#[derive(Debug)]
struct Kept {
    /// With the first rows.
    record: AuditRecord,
    key: Option<Key>,
    /// All budgets it changed, in order; none where the record has them all.
    ids: Box<[u64]>,
    /// Its line in the log.
    line: Box<str>,
}

/// All that is kept, in the order of numbers.
#[derive(Debug, Default)]
pub(super) struct Audit {
    kept: VecDeque<Kept>,
    /// Number of the edit for which somebody used a key: one caller's key is not another's.
    keys: HashMap<(Box<str>, String), u64>,
    bytes: usize,
}

impl Audit {
    /// Takes an edit that is in force; `line` is its line in the log.
    pub(super) fn push(&mut self, entry: &EditEntry, line: Box<str>) {
        if let Some(key) = &entry.key {
            self.keys.insert((entry.who.as_str().into(), key.key.clone()), entry.record);
        }
        self.bytes += line.len();
        let changed = |row: &&Row| row.outcome.is_changed();
        let kept = entry.rows.iter().filter(changed).count();
        let rows = entry.file.map_or(kept, FileChange::total);
        if let Some(undone) = entry.undo_of.filter(|_| rows > 0)
            && let Some(kept) = self.find_mut(undone)
        {
            kept.record.undone_by = Some(entry.record);
        }
        let mut ids: Vec<u64> = Vec::new();
        if kept > ROWS_SHOWN {
            ids.extend(entry.rows.iter().filter(changed).map(|row| row.id));
            ids.sort_unstable();
        }
        let (now_ms, key) = (entry.at_ms, entry.key.clone());
        let record = AuditRecord { rows, ..record(entry, ROWS_SHOWN) };
        self.kept.push_back(Kept { record, key, ids: ids.into(), line });
        self.forget(now_ms);
    }

    fn forget(&mut self, now_ms: u64) {
        let is_old = |kept: &Kept| {
            let age_ms = now_ms.saturating_sub(kept.record.at_ms);
            age_ms > KEEP_MS || (!kept.is_shown() && age_ms > KEY_MS)
        };
        while let Some(first) = self.kept.front()
            && (is_old(first) || self.bytes > BYTES_MAX)
            && self.kept.len() > 1
        {
            let Some(gone) = self.kept.pop_front() else { return };
            self.bytes -= gone.line.len();
            let Some(key) = gone.key else { continue };
            let used = (gone.record.who.as_str().into(), key.key);
            if self.keys.get(&used) == Some(&gone.record.record) {
                self.keys.remove(&used);
            }
        }
    }

    /// Bytes of all lines that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The lines that are kept, oldest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|kept| &*kept.line)
    }

    /// The first answer to a request of `who` with this key, if it came in time.
    pub(super) fn answered(
        &self,
        who: &str,
        key: &Key,
        now_ms: u64,
    ) -> Option<Result<Edited, EditError>> {
        let kept = self.find(*self.keys.get(&(who.into(), key.key.clone()))?)?;
        if now_ms.saturating_sub(kept.record.at_ms) > KEY_MS {
            return None;
        }
        if kept.key.as_ref() != Some(key) {
            return Some(Err(EditError::KeyReused));
        }
        let entry = kept.entry()?;
        let record = entry.rows.iter().any(|row| row.outcome.is_changed()).then_some(entry.record);
        let rows = entry.rows.into_iter().map(EditedRow::from).collect();
        Some(Ok(Edited { record, replay: true, rows }))
    }

    /// At most `max` records older than `before`, newest first. Of those about one budget, its row is shown.
    pub(super) fn page(
        &self,
        budget: Option<u64>,
        before: Option<u64>,
        max: usize,
    ) -> Vec<AuditRecord> {
        let older = |kept: &&Kept| before.is_none_or(|before| kept.record.record < before);
        let newest = self.kept.iter().rev().filter(older).filter(|kept| kept.is_shown());
        match budget {
            None => newest.take(max).map(|kept| kept.record.clone()).collect(),
            Some(id) => newest.filter_map(|kept| kept.about(id)).take(max).collect(),
        }
    }

    /// A record with all its rows.
    pub(super) fn record(&self, number: u64) -> Option<AuditRecord> {
        let kept = self.find(number).filter(|kept| kept.is_shown())?;
        let AuditRecord { rows, undone_by, .. } = kept.record;
        Some(AuditRecord { rows, undone_by, ..record(&kept.entry()?, usize::MAX) })
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&number, |kept| kept.record.record).ok()
    }

    fn find(&self, number: u64) -> Option<&Kept> {
        self.kept.get(self.place(number)?)
    }

    fn find_mut(&mut self, number: u64) -> Option<&mut Kept> {
        let place = self.place(number)?;
        self.kept.get_mut(place)
    }
}

impl Kept {
    /// Was anything done?
    fn is_shown(&self) -> bool {
        self.record.rows > 0 || self.record.session.is_some()
    }

    fn entry(&self) -> Option<EditEntry> {
        match serde_json::from_str(&self.line) {
            Ok(Entry::Edit(entry)) => Some(*entry),
            _ => None,
        }
    }

    fn about(&self, id: u64) -> Option<AuditRecord> {
        let row = match self.ids.is_empty() {
            true => self.record.changes.iter().find(|row| row.id == id).cloned()?,
            false => {
                self.ids.binary_search(&id).ok()?;
                let rows = self.entry()?.rows;
                rows.iter().find(|row| row.id == id && row.outcome.is_changed()).map(shown)?
            }
        };
        Some(AuditRecord { changes: vec![row], ..self.record.clone() })
    }
}

/// A record with its first `max` rows.
fn record(entry: &EditEntry, max: usize) -> AuditRecord {
    let changes = entry.rows.iter().filter(|row| row.outcome.is_changed());
    AuditRecord {
        record: entry.record,
        at_ms: entry.at_ms,
        who: entry.who.clone(),
        action: entry.action,
        why: entry.why.clone(),
        undo_of: entry.undo_of,
        undone_by: None,
        rows: 0,
        changes: changes.take(max).map(shown).collect(),
        session: entry.session.clone(),
        file: entry.file,
    }
}

fn shown(row: &Row) -> AuditRow {
    AuditRow { id: row.id, before: row.before.clone(), after: row.after.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watch::node::{Action, Fields};

    use super::super::entry::Outcome;
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn fields(value: serde_json::Value) -> Fields {
        value.as_object().unwrap().clone()
    }

    fn edit(record: u64, at_ms: u64, ids: &[u64], key: Option<Key>) -> EditEntry {
        let row = |id: &u64| Row {
            id: *id,
            outcome: Outcome::Changed,
            before: fields(json!({"status": "active"})),
            after: fields(json!({"status": "paused"})),
            said: fields(json!({"status": null})),
            revision: record,
        };
        EditEntry {
            record,
            at_ms,
            who: "ada".into(),
            action: Action::Pause,
            why: "a reason".into(),
            undo_of: None,
            key,
            session: None,
            file: None,
            rows: ids.iter().map(row).collect(),
        }
    }

    fn push(audit: &mut Audit, entry: EditEntry) {
        let (entry, line) = entry.written();
        audit.push(&entry, line.into());
    }

    fn numbers(records: &[AuditRecord]) -> Vec<u64> {
        records.iter().map(|record| record.record).collect()
    }

    #[test]
    fn pages_go_back_in_time_and_show_a_budget_its_own_row() {
        let mut audit = Audit::default();
        let many: Vec<u64> = (1..=100).collect();
        push(&mut audit, edit(1, 0, &many, None));
        push(&mut audit, edit(2, 1, &[7], None));
        push(&mut audit, edit(4, 2, &[], None));
        push(&mut audit, edit(5, 3, &[8], None));
        assert_eq!(numbers(&audit.page(None, None, 9)), [5, 2, 1]);
        assert_eq!(numbers(&audit.page(None, Some(5), 1)), [2]);
        let about = audit.page(Some(99), None, 9);
        assert_eq!((numbers(&about), about[0].changes[0].id), (vec![1], 99));
        assert_eq!(numbers(&audit.page(Some(7), None, 9)), [2, 1]);
        assert!(audit.page(Some(101), None, 9).is_empty());
        let listed = &audit.page(None, Some(2), 9)[0];
        assert_eq!((listed.rows, listed.changes.len()), (100, ROWS_SHOWN));
        assert_eq!(audit.record(1).unwrap().changes.len(), 100);
        assert!(audit.record(4).is_none() && audit.record(3).is_none());
    }

    #[test]
    fn a_key_is_remembered_for_a_day() {
        let mut audit = Audit::default();
        let key = |digest| Key::new("key-1", [digest; 32]);
        push(&mut audit, edit(1, 0, &[7, 8], Some(key(1))));
        let first = audit.answered("ada", &key(1), DAY_MS).unwrap().unwrap();
        assert_eq!((first.record, first.replay, first.rows.len()), (Some(1), true, 2));
        assert_eq!(
            audit.answered("ada", &key(2), DAY_MS).unwrap().unwrap_err(),
            EditError::KeyReused
        );
        assert!(audit.answered("ada", &key(1), DAY_MS + 1).is_none());
        assert!(audit.answered("ada", &Key::new("key-2", [1; 32]), 0).is_none());
        assert!(audit.answered("bob", &key(1), DAY_MS).is_none(), "another's key");
        let entry = EditEntry { who: "bob".into(), ..edit(2, 0, &[9], Some(key(2))) };
        push(&mut audit, entry);
        let record = |who, key| audit.answered(who, &key, DAY_MS).unwrap().unwrap().record;
        assert_eq!((record("ada", key(1)), record("bob", key(2))), (Some(1), Some(2)));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut audit = Audit::default();
        push(&mut audit, edit(1, 0, &[1], None));
        push(&mut audit, edit(2, 5 * DAY_MS, &[], Some(Key::new("key", [1; 32]))));
        push(&mut audit, edit(3, 300 * DAY_MS, &[1], None));
        assert_eq!(audit.lines().count(), 3);
        push(&mut audit, edit(4, 401 * DAY_MS, &[1], None));
        assert_eq!(numbers(&audit.page(None, None, 9)), [4, 3]);
        assert_eq!(audit.lines().count(), 2);
        assert!(audit.keys.is_empty());
        assert_eq!(audit.bytes(), audit.lines().map(str::len).sum::<usize>());
    }
}
