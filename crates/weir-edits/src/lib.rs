//! Changes of budgets by the API, on top of the budgets file.
//!
//! [`Edits`] owns the configuration: what the file says, what people changed over HTTP, and who, when and why. Both ways of
//! changing it, a newer file and an edit, go through it one at a time. An edit is judged by the parser of the file, written
//! to a log that is synced, and only then told to the bank; its caller hears of it once the journal has sealed it. So an
//! edit that was answered is in force whatever happens, and one that was not is in force whole or not at all.
//!
//! Where to look: `overlay` has the rule by which file and edits go together, `judge` says what an edit may do, `entry` and
//! `log` are what is on disk, `audit` is what can be asked for afterwards, `by_file` is what a file changed.

mod audit;
mod by_file;
mod carried;
mod ending;
mod entry;
mod judge;
mod log;
mod overlay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use gate_pacing::Strategy;
use ledger::room::RoomChange;
use ledger::{BudgetSpec, EditAction, EditReason, EditRecord, SpecError};
use money::Window;
use watch::node::{
    Action, AuditRecord, AuditSession, Edit, EditError, EditRows, Edited, FieldEdit, Fields,
    RowProblem,
};
use weir_budgets::alerts::Shares;
use weir_budgets::budgets::{Budget, Line, Place};
use weir_budgets::campaign_index::CampaignIndex;
use weir_budgets::orders::Binding;
use weir_pacer::Pacing;
use wire::Handle;

use audit::Audit;
use by_file::{FileSet, LastSet, NewSet};
pub use carried::{Carried, NotCarried};
pub use ending::Ending;
use ending::Lately;
use entry::{EditEntry, Entry, Key, Row};
use judge::{Judge, Judged};
pub use log::LogError;
use log::{Log, NotWritten};
use overlay::{Ended, Merged, Overlay, Overlays};

/// Budgets that the bank changes in one go: well below a millisecond.
const SLICE: usize = 2_048;
/// A log that is smaller is not worth being rewritten at a start.
const REWRITE_BYTES_MIN: u64 = 64 << 10;
/// A log that grows beyond this, and to twice what it was, is rewritten while the node runs.
const GROW_BYTES_MAX: u64 = 64 << 20;

/// What edits ask of the bank. Every call waits until what it did is sealed.
pub trait BankPort: Send {
    /// Does the bank know a budget with this id, and could this one be added?
    fn judge(&self, spec: BudgetSpec) -> Result<(bool, Option<SpecError>), BankError>;

    /// The budgets that a set without them would end: those that are not ended, and whose flight is not over.
    fn live(&self) -> Result<Vec<u64>, BankError>;

    /// Takes over all budgets, and other campaigns if there are.
    fn configure(
        &mut self,
        budgets: Vec<Budget>,
        campaign_index: Option<CampaignIndex>,
        reason: EditReason,
    ) -> Result<(), BankError>;

    /// Returns what is wrong with the orders that a budget is to bind: no session of the configuration in force can send them.
    fn judge_orders(&self, binding: &Binding) -> Vec<String>;

    /// Do changes travel in a log on other machines?
    fn carries(&self) -> bool {
        false
    }

    /// Has such a log keep a message about the log of edits, and waits until it has.
    fn carry(&mut self, message: Vec<u8>) -> Result<(), BankError> {
        let _ = message;
        Err(BankError::Gone)
    }

    /// Changes these budgets.
    fn amend(&mut self, budgets: Vec<Budget>, reason: EditReason) -> Result<(), BankError>;
}

/// Why the bank did not do what it was asked for.
#[derive(Debug)]
pub enum BankError {
    /// It cannot be so. Nothing was done.
    Specs(Vec<SpecError>),
    /// A file would end more budgets than it may. Nothing was done.
    Ends(Ending),
    /// Nothing can be sealed at present. Nothing was done.
    Journal(String),
    /// There is no bank any more. Nothing was done.
    Gone,
    /// It does not answer in time: it did it, or will, or the node ends first.
    Silent,
}

/// What of the configured budgets changes only when somebody changes it.
#[derive(Clone, Debug, Default)]
pub struct Statics {
    /// Rises with every change of any of it; 0 before the first budgets.
    pub generation: u64,
    /// Every configured budget, in the order of ids.
    pub budgets: Arc<[watch::Budget]>,
    /// By the same index: is it changed by the API, on top of the budgets file?
    pub edited: Arc<[bool]>,
    /// Those that alert, by id, and at which shares of their limits.
    pub alerts: Arc<HashMap<u64, Shares>>,
}

/// The configuration, and changes of it by the API. A cheap handle.
#[derive(Clone)]
pub struct Edits(Arc<Shared>);

struct Shared {
    /// Whoever changes something holds this from judging until it is in force.
    writer: Mutex<Writer>,
    /// Written for moments only, by who holds the writer's lock.
    seen: RwLock<Seen>,
    statics: Mutex<Statics>,
    /// The bank may have other budgets than this: they are to be handed over again.
    unsure: AtomicBool,
}

/// What somebody does to a FIX session.
#[derive(Clone, Debug)]
pub struct SessionDeed {
    /// Name of the token's owner.
    pub who: String,
    /// The reason.
    pub why: String,
    /// One of those of FIX sessions.
    pub action: Action,
    /// The session, with its numbers before and after.
    pub session: AuditSession,
}

/// Everything that a change needs.
struct Writer {
    bank: Box<dyn BankPort>,
    log: Log,
    clock: Box<dyn Fn() -> u64 + Send>,
    next_record: u64,
    /// What became of edits with a new file, as far as the log does not have it yet.
    unlogged: Vec<String>,
    /// The part of all budgets that one file may end, in percent.
    end_share_max_percent: u8,
    lately: Lately,
    /// The log is rewritten when it is longer.
    rewrite_at: u64,
    stopped: bool,
}

/// What anybody may look at.
#[derive(Default)]
struct Seen {
    /// A file was loaded.
    configured: bool,
    known: BTreeMap<u64, Known>,
    /// Ids of live budgets by handle.
    handles: HashMap<Handle, u64>,
    overlays: Overlays,
    audit: Audit,
    /// Of earlier runs, until this one has a set in force.
    last: Option<LastSet>,
    generation: u64,
    /// Of the newest change: the run, and a number within it.
    revision: u64,
}

/// A budget that is configured.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    spec: BudgetSpec,
    name: Box<str>,
    pacing: Pacing,
    orders: Option<Arc<Binding>>,
    alerts: Shares,
    bids: bool,
    /// What its own line says, as JSON, but for a campaign's fields.
    said: Box<str>,
    /// Where that line stands in the budgets file.
    place: Option<Place>,
    revision: u64,
}

/// The log, read.
pub struct Opened {
    log: Log,
    overlays: Overlays,
    audit: Audit,
    last: Option<LastSet>,
    next_record: u64,
    /// Does it say anything of budgets?
    says: bool,
}

impl Opened {
    /// Opens the log in a folder, which is made where it is not there.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn open(folder: &Path) -> Result<Opened, LogError> {
        let (log, entries) = Log::open(folder)?;
        let is_new = entries.is_empty();
        let old = entries.first().and_then(|(entry, _)| match entry {
            Entry::Head { format, .. } if *format < log::FORMAT => Some(*format),
            _ => None,
        });
        let (overlays, audit) = (Overlays::new(), Audit::default());
        let says = entries.iter().any(|(entry, _)| carried::says(entry));
        let mut opened = Opened { log, overlays, audit, last: None, next_record: 1, says };
        entries.into_iter().for_each(|(entry, line)| opened.replay(entry, line));
        let is_recorded =
            |record| opened.audit.record(record).is_some_and(|one| one.file.is_some());
        opened.last = LastSet::read(folder, is_recorded);
        let kept = u64::try_from(opened.audit.bytes()).unwrap_or(u64::MAX);
        let superseded = opened.log.len() > REWRITE_BYTES_MIN.max(kept.saturating_mul(2));
        if is_new || old.is_some() || superseded {
            let rewritten =
                rewrite(&mut opened.log, opened.next_record, &opened.audit, &opened.overlays);
            if let Some(from) = old.filter(|_| rewritten) {
                tracing::info!("format of the log of edits raised from {from} to {}", log::FORMAT);
            }
        }
        Ok(opened)
    }

    /// Has a log on other machines keep all of it as the first message, where it was written before there was one.
    ///
    /// # Errors
    /// What `carry` says, or the disk.
    pub fn bring(
        &mut self,
        carry: impl FnOnce(Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.log.carried() > 0 || !self.says {
            return Ok(());
        }
        let bytes = std::fs::read(self.log.path()).map_err(|error| error.to_string())?;
        carry(RoomChange::Whole(&bytes).message())?;
        self.log.note_carried().map_err(|error| error.to_string())
    }

    fn replay(&mut self, entry: Entry, line: Box<str>) {
        replay(&mut self.overlays, &entry);
        match entry {
            Entry::Head { next_record, .. } => self.next_record = next_record,
            Entry::Edit(edit) => {
                self.next_record = self.next_record.max(edit.record.saturating_add(1));
                self.audit.push(&edit, line);
            }
            _ => {}
        }
    }
}

/// What an entry of the log leaves on top of the file.
fn replay(overlays: &mut Overlays, entry: &Entry) {
    match entry {
        Entry::Head { .. } => {}
        Entry::Edit(edit) if edit.file.is_some() => {}
        Entry::Edit(edit) => {
            let changed = edit.rows.iter().filter(|row| row.outcome.is_changed());
            changed.for_each(|row| overlay::apply(overlays, row));
        }
        Entry::Ended { ended, .. } => {
            ended.iter().for_each(|ended| overlay::end(overlays, ended));
        }
        Entry::Away { at_ms, ids } => {
            ids.iter().for_each(|id| overlay::leave(overlays, *id, *at_ms));
        }
        Entry::Back { ids } => ids.iter().for_each(|id| overlay::come_back(overlays, *id)),
        Entry::Overlays(all) => *overlays = all.clone(),
    }
}

/// What a node with this bank, and with the log of edits in this folder, would say of a file's lines: nothing, if it would take
/// them. Nothing is written.
///
/// # Errors
/// What is wrong with the log.
pub fn judge_as_node(
    folder: &Path,
    lines: Vec<Line>,
    bank: &ledger::Bank,
    end_share_max_percent: u8,
    now: money::Instant,
) -> Result<Vec<(u64, String)>, LogError> {
    let mut overlays = Overlays::new();
    Log::look(folder)?.iter().for_each(|(entry, _)| replay(&mut overlays, entry));
    let is_empty = lines.is_empty();
    let merged = overlay::merge(lines, &overlays, now.ms());
    let live = (0..).zip(0..bank.slots()).map(|(slot, _)| bank.spec(slot));
    let live: Vec<u64> = live.filter(|spec| is_live(spec, now)).map(|spec| spec.id).collect();
    let mut lately = Lately::read(folder);
    lately.forget(now.ms());
    let ending = Ending::of(&live, &merged.lines, is_empty, &lately);
    let ending = ending.beyond(end_share_max_percent);
    if let Some(ending) = ending {
        return Ok(vec![(0, ending.to_string())]);
    }
    let specs: Vec<BudgetSpec> = merged.lines.into_iter().map(|line| line.budget.spec).collect();
    Ok(bank.check(&specs).iter().map(|error| (error.id(), error.to_string())).collect())
}

/// Would a budget end that a file does not name? Not if it has ended, or its flight is over.
pub fn is_live(spec: &BudgetSpec, now: money::Instant) -> bool {
    spec.status != ledger::Status::Ended && now < spec.end
}

/// A file that cannot be written anew stays as it is.
/// Writes the log anew without what is superseded. False where that failed.
fn rewrite(log: &mut Log, next_record: u64, audit: &Audit, overlays: &Overlays) -> bool {
    let head = log::head(next_record);
    let last = log::line(&Entry::Overlays(overlays.clone()));
    let lines: Vec<&str> =
        std::iter::once(&*head).chain(audit.lines()).chain(std::iter::once(&*last)).collect();
    let rewritten = log.rewrite(&lines);
    if let Err(error) = &rewritten {
        tracing::warn!(%error, "the log of edits could not be rewritten; the node continues with the old file");
    }
    rewritten.is_ok()
}

/// The bank did not take all of an edit.
struct Stuck {
    error: BankError,
    /// Budgets that are changed.
    done: usize,
    /// Budgets that were to be changed.
    of: usize,
}

/// What becomes of an edit once all its rows are judged.
struct Planned {
    rows: Vec<Judged>,
    undo_of: Option<u64>,
}

impl Edits {
    /// Before the first budgets. `run` is the node's run, `end_share_max_percent` the part of all budgets that one file may
    /// end (0 to 100), `clock` tells ms since 1970 UTC.
    pub fn new(
        opened: Opened,
        run: u32,
        end_share_max_percent: u8,
        bank: Box<dyn BankPort>,
        clock: Box<dyn Fn() -> u64 + Send>,
    ) -> Edits {
        let Opened { log, overlays, audit, last, next_record, says: _ } = opened;
        let lately = Lately::read(log.folder());
        let rewrite_at = GROW_BYTES_MAX.max(log.len().saturating_mul(2));
        let revision = u64::from(run) << 32;
        Edits(Arc::new(Shared {
            writer: Mutex::new(Writer {
                bank,
                log,
                clock,
                next_record,
                unlogged: Vec::new(),
                end_share_max_percent,
                lately,
                rewrite_at,
                stopped: false,
            }),
            seen: RwLock::new(Seen { overlays, audit, last, revision, ..Seen::default() }),
            statics: Mutex::default(),
            unsure: AtomicBool::new(false),
        }))
    }

    /// Judges every row, carries out and seals what can be, and says of each row what became of it.
    ///
    /// # Errors
    /// Nothing was done, or nothing but what the text says: see [`EditError`].
    pub fn edit(&self, edit: Edit) -> Result<Edited, EditError> {
        let mut writer = self.writer();
        if writer.stopped {
            return Err(EditError::Stopping);
        }
        let now_ms = (writer.clock)();
        let key = edit.key.as_ref().filter(|_| !edit.dry_run);
        let key = key.map(|(key, digest)| Key::new(key, *digest));
        let answered = |key| self.seen().audit.answered(&edit.who, key, now_ms);
        if let Some(answer) = key.as_ref().and_then(answered) {
            return answer;
        }
        let planned = self.plan(&writer, &edit)?;
        if edit.dry_run {
            return Ok(answer(planned.rows.into_iter().map(|judged| judged.row), None));
        }
        self.carry_out(&mut writer, edit, planned, key, now_ms)
    }

    /// Records what somebody does to a FIX session, and does it. What it says is refused is taken back from the log, but for an error of
    /// which `may_be_done` says that it may have been done.
    ///
    /// # Errors
    /// It is not recorded, so it was not done; or, for [`EditError::Unsure`], it was not done and the record could not be taken back.
    pub fn act_on_session<T, E>(
        &self,
        deed: SessionDeed,
        act: impl FnOnce() -> Result<T, E>,
        may_be_done: impl FnOnce(&E) -> bool,
    ) -> Result<Result<T, E>, EditError> {
        let mut writer = self.writer();
        if writer.stopped {
            return Err(EditError::Stopping);
        }
        let (record, at_ms) = (writer.next_record, (writer.clock)());
        let SessionDeed { who, why, action, session } = deed;
        let session = Some(session);
        let (undo_of, key, file, rows) = (None, None, None, Vec::new());
        let entry =
            EditEntry { record, at_ms, who, action, why, undo_of, key, session, file, rows };
        let (entry, line) = entry.written();
        let before = writer.append(&line).map_err(not_written)?;
        let done = act();
        if let Err(error) = &done
            && !may_be_done(error)
        {
            writer.log.cut(before).map_err(EditError::Unsure)?;
            return Ok(done);
        }
        writer.next_record = record.saturating_add(1);
        self.seen_mut().audit.push(&entry, line.into());
        self.rewrite_if_long(&mut writer);
        Ok(done)
    }

    /// The first answer to an idempotency key of `who`, where it is remembered with the same digest.
    ///
    /// # Errors
    /// [`EditError::KeyReused`]: it came with another.
    pub fn replay(
        &self,
        who: &str,
        key: &str,
        digest: &[u8; 32],
    ) -> Result<Option<Edited>, EditError> {
        let now_ms = (self.writer().clock)();
        self.seen().audit.answered(who, &Key::new(key, *digest), now_ms).transpose()
    }

    /// The id of the live budget with this handle that is configured.
    #[must_use]
    pub fn id_of(&self, handle: &str) -> Option<u64> {
        self.seen().handles.get(handle).copied()
    }

    /// The fields of a budget's configuration, as in the budgets file but for a campaign's, with what was changed by the API.
    #[must_use]
    pub fn fields(&self, id: u64) -> Option<Fields> {
        let seen = self.seen();
        let said = seen.known.get(&id)?.said();
        Some(overlay::effective(id, &said, seen.overlays.get(&id)))
    }

    /// Where a budget's line stands in the budgets file, if a file has it as text, and what the API changed on top of it.
    pub fn source(&self, id: u64) -> Option<(Option<Place>, Vec<FieldEdit>)> {
        let seen = self.seen();
        let known = seen.known.get(&id)?;
        Some((known.place, overlay::on_top(&known.said(), seen.overlays.get(&id))))
    }

    /// What was changed by people, newest first; see [`watch::Node::audit`]. Of records about one budget, its row is shown.
    #[must_use]
    pub fn audit(&self, budget: Option<u64>, before: Option<u64>, max: usize) -> Vec<AuditRecord> {
        self.seen().audit.page(budget, before, max)
    }

    /// One record with all its rows.
    #[must_use]
    pub fn audit_record(&self, record: u64) -> Option<AuditRecord> {
        self.seen().audit.record(record)
    }

    /// Revision of a configured budget: rises with each change of its configuration, also over restarts.
    #[must_use]
    pub fn revision(&self, id: u64) -> Option<u64> {
        self.seen().known.get(&id).map(|known| known.revision)
    }

    /// Rises when anything of [`Edits::statics`] changes; 0 before the first budgets.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.seen().generation
    }

    /// What of the configured budgets changes only when somebody changes it. Made anew only where it did.
    #[must_use]
    pub fn statics(&self) -> Statics {
        let mut statics = self.0.statics.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.seen();
        if statics.generation != seen.generation {
            *statics = seen.statics();
        }
        statics.clone()
    }

    /// Takes over what a file says, with the edits on top.
    ///
    /// # Errors
    /// The bank's, and [`BankError::Ends`] for a file that looks cut or emptied; the budgets before stay in force, and so do
    /// all edits.
    pub fn load(
        &self,
        lines: Vec<Line>,
        campaign_index: CampaignIndex,
        why: &str,
    ) -> Result<(), BankError> {
        let mut writer = self.writer();
        if writer.stopped {
            return Err(BankError::Gone);
        }
        let now_ms = (writer.clock)();
        let is_empty = lines.is_empty();
        let merged = overlay::merge(lines, &self.seen().overlays, now_ms);
        let live = writer.bank.live().inspect_err(|error| {
            // Nothing was handed over yet: it is tried again.
            if matches!(error, BankError::Silent) {
                self.0.unsure.store(true, Ordering::Release);
            }
        })?;
        writer.lately.forget(now_ms);
        let ending = Ending::of(&live, &merged.lines, is_empty, &writer.lately);
        if let Some(ending) = ending.clone().beyond(writer.end_share_max_percent) {
            return Err(BankError::Ends(ending));
        }
        let budgets = merged.lines.iter().map(|line| plain(&line.budget)).collect();
        let reason = EditReason { who: "budgets file".into(), why: why.into(), edits: Vec::new() };
        let answer = writer.bank.configure(budgets, Some(campaign_index), reason);
        match answer {
            Ok(()) => {}
            Err(BankError::Silent) => self.0.unsure.store(true, Ordering::Release),
            Err(error) => return Err(error),
        }
        if let Some(done) = ending.done() {
            tracing::warn!("{why} and {done}");
        }
        if writer.lately.note(now_ms, ending) {
            writer.lately.write(writer.log.folder());
        }
        self.record_file(&mut writer, &merged, why, now_ms);
        let Merged { lines, overlays, ended, away, back } = merged;
        tell(&ended, &away, &back);
        // In this order: what is back may end in part.
        if !back.is_empty() {
            writer.note_load(&Entry::Back { ids: back });
        }
        if !away.is_empty() {
            writer.note_load(&Entry::Away { at_ms: now_ms, ids: away });
        }
        if !ended.is_empty() {
            writer.note_load(&Entry::Ended { at_ms: now_ms, ended });
        }
        self.seen_mut().configured(lines, overlays);
        answer
    }

    /// Records what a file changed, before what became of edits with it: a start that finds the file anew finds the same of those
    /// again. The set is kept under its name once the record is in the log, so that no crash tells a change twice, or never.
    fn record_file(&self, writer: &mut Writer, merged: &Merged, why: &str, at_ms: u64) {
        let set = NewSet::of(&merged.lines, &merged.overlays);
        let (change, rows, is_kept) = {
            let seen = self.seen();
            let before = seen.file_set();
            let (change, rows) =
                before.as_ref().map_or_else(Default::default, |was| set.since(was));
            (change, rows, before.is_some_and(|was| set.is_said_by(&was)))
        };
        if is_kept && change.total() == 0 {
            return;
        }
        let record = writer.next_record;
        let kept = set.write_new(writer.log.folder(), record);
        let mut is_logged = true;
        if change.total() > 0 {
            let entry = EditEntry {
                record,
                at_ms,
                who: "budgets file".into(),
                action: Action::File,
                why: why.into(),
                undo_of: None,
                key: None,
                session: None,
                file: Some(change),
                rows,
            };
            let (entry, line) = entry.written();
            is_logged = writer.note_line(line.clone());
            writer.next_record = record.saturating_add(1);
            self.seen_mut().audit.push(&entry, line.into());
            if is_logged {
                self.rewrite_if_long(writer);
            }
        }
        if let Err(error) =
            kept.and_then(|kept| if is_logged { kept.put_in_place() } else { Ok(()) })
        {
            tracing::warn!(%error, "the set of budgets in force was not kept beside the log of edits: the next start may record its changes again");
        }
    }

    /// Names of the last set in force: of this run, or of an earlier one.
    #[must_use]
    pub fn names(&self) -> HashMap<u64, String> {
        let seen = self.seen();
        match &seen.last {
            Some(last) => FileSet::with(last.lines(), &seen.overlays).names().collect(),
            None => seen.known.iter().map(|(id, known)| (*id, known.name.to_string())).collect(),
        }
    }

    /// Are the budgets to be handed over again, because the bank may have others? Whoever asks does it.
    pub fn take_unsure(&self) -> bool {
        self.0.unsure.swap(false, Ordering::AcqRel)
    }

    /// Refuses every change from now on; waits for the one that is under way.
    pub fn stop(&self) {
        self.writer().stopped = true;
    }

    fn plan(&self, writer: &Writer, edit: &Edit) -> Result<Planned, EditError> {
        let seen = self.seen();
        let mut judge = Judge::new(&seen, &*writer.bank, edit.action, edit.confirm_large);
        let (mut rows, undo_of) = match &edit.rows {
            EditRows::Change(rows) => (rows.iter().map(|row| judge.change(row)).collect(), None),
            EditRows::Create(fields) => (vec![judge.create(fields)], None),
            EditRows::Undo(record) => {
                let found = seen.audit.record(*record).ok_or(EditError::NoRecord(*record))?;
                if let Some(by) = found.undone_by {
                    return Err(EditError::Undone(*record, by));
                }
                if found.session.is_some() {
                    return Err(EditError::Refused(format!(
                        "record {record} is of a FIX session, and what was done to one is not taken back; set its numbers instead"
                    )));
                }
                if found.file.is_some() {
                    return Err(EditError::Refused(format!(
                        "record {record} is a load of the budgets file, whose word would still be in force; change the file back instead"
                    )));
                }
                (judge::undo(&seen, &*writer.bank, &found), Some(*record))
            }
        };
        for judged in &mut rows {
            writer.ask(&seen, judged, undo_of.is_some())?;
        }
        Ok(Planned { rows, undo_of })
    }

    fn carry_out(
        &self,
        writer: &mut Writer,
        edit: Edit,
        planned: Planned,
        key: Option<Key>,
        now_ms: u64,
    ) -> Result<Edited, EditError> {
        let Planned { mut rows, undo_of } = planned;
        let record = writer.next_record;
        let changed = rows.iter().any(|judged| judged.row.outcome.is_changed());
        if !changed && key.is_none() {
            return Ok(answer(rows.into_iter().map(|judged| judged.row), None));
        }
        let revision = self.seen().revision + 1;
        let of_change = |judged: &&mut Judged| judged.row.outcome.is_changed();
        rows.iter_mut().filter(of_change).for_each(|judged| judged.row.revision = revision);
        let (rows, budgets): (Vec<Row>, Vec<Option<Budget>>) =
            rows.into_iter().map(|judged| (judged.row, judged.to)).unzip();
        let Edit { who, why, action, .. } = edit;
        let (who, why) = (who.into(), why.into());
        let (session, file, at_ms) = (None, None, now_ms);
        let entry =
            EditEntry { record, at_ms, who, action, why, undo_of, key, session, file, rows };
        let (entry, line) = entry.written();
        // Where lines travel in a log on other machines they cannot be taken back from it: then the bank is told first, and what it took without a line
        // is gone with the next load of the file, or with this node.
        let is_carried = writer.bank.carries();
        writer.log.check().map_err(not_written)?;
        let before = match is_carried {
            true => Ok(writer.log.len()),
            false => writer.append(&line).map_err(not_written),
        }?;
        let done = match changed {
            true => self.put_in_force(writer, &entry, &budgets),
            false => Ok(()),
        };
        let pending = match done {
            Ok(()) => None,
            Err(stuck) if stuck.is_undone() => return Err(writer.take_back(before, stuck.error)),
            Err(stuck) => Some(stuck.pending(record)),
        };
        if is_carried && let Err(error) = writer.append(&line) {
            self.0.unsure.store(true, Ordering::Release);
            return Err(not_written(error));
        }
        writer.next_record = record.saturating_add(1);
        self.seen_mut().edited(&entry, line.into(), budgets, revision);
        self.rewrite_if_long(writer);
        if let Some(pending) = pending {
            // The next load of the file hands everything over again.
            self.0.unsure.store(true, Ordering::Release);
            return Err(pending);
        }
        Ok(answer(entry.rows.into_iter(), changed.then_some(record)))
    }

    /// Tells the bank.
    fn put_in_force(
        &self,
        writer: &mut Writer,
        entry: &EditEntry,
        budgets: &[Option<Budget>],
    ) -> Result<(), Stuck> {
        let changed: Vec<(&Row, &Option<Budget>)> =
            entry.rows.iter().zip(budgets).filter(|(row, _)| row.outcome.is_changed()).collect();
        let comes_or_goes =
            |(row, _): &(&Row, &Option<Budget>)| row.before.is_empty() || row.after.is_empty();
        if changed.iter().any(comes_or_goes) {
            let all = self.seen().all_with(&changed);
            let answer = writer.bank.configure(all, None, reason(entry, &changed));
            return answer.map_err(|error| Stuck { error, done: 0, of: changed.len() });
        }
        for (number, slice) in changed.chunks(SLICE).enumerate() {
            let budgets = slice.iter().filter_map(|(_, to)| to.as_ref().map(plain)).collect();
            let answer = writer.bank.amend(budgets, reason(entry, slice));
            let done = number * SLICE;
            answer.map_err(|error| Stuck { error, done, of: changed.len() })?;
        }
        Ok(())
    }

    fn rewrite_if_long(&self, writer: &mut Writer) {
        if writer.log.len() > writer.rewrite_at {
            let seen = self.seen();
            rewrite(&mut writer.log, writer.next_record, &seen.audit, &seen.overlays);
            writer.rewrite_at = GROW_BYTES_MAX.max(writer.log.len().saturating_mul(2));
        }
    }

    // Each of the three holds values that are replaced whole: a thread that died left nothing half done.

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.0.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> RwLockReadGuard<'_, Seen> {
        self.0.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen_mut(&self) -> RwLockWriteGuard<'_, Seen> {
        self.0.seen.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Edits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edits").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl Writer {
    /// Nothing of the edit is in force: its line must not bring it about at the next start.
    fn take_back(&mut self, len: u64, error: BankError) -> EditError {
        if len == self.log.len() {
            return nothing_done(error);
        }
        match self.log.cut(len) {
            Ok(()) => nothing_done(error),
            Err(text) => EditError::Unsure(format!("{}. {text}", why(&error))),
        }
    }

    /// Writes a line to the log; returns how long it was before.
    fn append(&mut self, line: &str) -> Result<u64, NotWritten> {
        while let Some(earlier) = self.unlogged.first().cloned() {
            self.write(&earlier)?;
            self.unlogged.remove(0);
        }
        let before = self.log.len();
        self.write(line)?;
        Ok(before)
    }

    /// Writes one line, first to the log on other machines where lines travel in one.
    fn write(&mut self, line: &str) -> Result<(), NotWritten> {
        if !self.bank.carries() {
            return self.log.append(&[line]);
        }
        self.log.check()?;
        let carried = self.bank.carry(RoomChange::Append(line.as_bytes()).message());
        carried.map_err(|error| match error {
            BankError::Silent => {
                self.log.doubt();
                let text = "the log on other machines does not answer, and may have the change; a restart shows whether it is in force, and until then there are no edits";
                NotWritten::Unsure(text.into())
            }
            error => NotWritten::Nothing(why(&error)),
        })?;
        self.log.append_carried(line);
        Ok(())
    }

    /// What became of edits with a new file. A start finds the same again, unless the file changes back before: so it is
    /// tried again.
    fn note_load(&mut self, entry: &Entry) {
        self.note_line(log::line(entry));
    }

    /// Is it in the log now?
    fn note_line(&mut self, line: String) -> bool {
        let written = self.append(&line);
        if let Err(error) = &written {
            tracing::error!(%error, "the results of edits are not in their log yet");
            self.unlogged.push(line);
        }
        written.is_ok()
    }

    /// Asks the bank of a budget that is to be new.
    fn ask(&self, seen: &Seen, judged: &mut Judged, again: bool) -> Result<(), EditError> {
        let (Some(budget), true) = (&judged.to, judged.row.before.is_empty()) else {
            return Ok(());
        };
        let id = budget.spec.id;
        let parent = budget.spec.parent.filter(|parent| !seen.known.contains_key(parent));
        let (known, error) = match self.bank.judge(budget.spec.clone()) {
            Ok(judgement) => judgement,
            Err(error) => return Err(nothing_done(error)),
        };
        let problem = match (known && !again, error, parent) {
            (true, _, _) => Some(RowProblem::Exists(id)),
            (_, Some(error), _) => Some(RowProblem::Field(error.to_string())),
            (_, None, Some(parent)) => {
                Some(RowProblem::Field(SpecError::NoParent { id, parent }.to_string()))
            }
            (false, None, None) => None,
        };
        if let Some(problem) = problem {
            let Row { id, revision, .. } = judged.row;
            let (before, after, said) = (Fields::new(), Fields::new(), Fields::new());
            let outcome = problem.into();
            judged.row = Row { id, outcome, before, after, said, revision };
            judged.to = None;
        }
        Ok(())
    }
}

impl Stuck {
    /// Is nothing at all in force? Of a bank that does not answer nobody knows.
    fn is_undone(&self) -> bool {
        self.done == 0 && !matches!(self.error, BankError::Silent)
    }

    fn pending(&self, record: u64) -> EditError {
        let Stuck { done, of, error } = self;
        EditError::Pending { record, done: *done, of: *of, why: why(error) }
    }
}

/// What the bank says.
fn why(error: &BankError) -> String {
    match error {
        BankError::Journal(text) => format!("the journal cannot seal: {text}"),
        BankError::Silent => "the bank does not answer".into(),
        BankError::Gone => "the node is stopping".into(),
        BankError::Ends(ending) => ending.to_string(),
        BankError::Specs(errors) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            texts.join("; ")
        }
    }
}

fn nothing_done(error: BankError) -> EditError {
    match &error {
        BankError::Journal(_) | BankError::Silent => {
            EditError::Journal(format!("{}; try again when GET /readyz answers 200", why(&error)))
        }
        BankError::Specs(_) | BankError::Ends(_) => EditError::Refused(why(&error)),
        BankError::Gone => EditError::Stopping,
    }
}

fn not_written(error: NotWritten) -> EditError {
    match error {
        NotWritten::Nothing(text) => EditError::Journal(text),
        NotWritten::Unsure(text) => EditError::Unsure(text),
    }
}

impl Seen {
    /// The set in force, or the last one of an earlier run; `None` where nobody knows of any.
    fn file_set(&self) -> Option<FileSet<'_>> {
        match &self.last {
            _ if self.configured => {
                let said = self.known.iter().map(|(id, known)| (*id, &*known.said));
                Some(FileSet::with(said, &self.overlays))
            }
            Some(last) => Some(FileSet::with(last.lines(), &self.overlays)),
            None => None,
        }
    }

    /// A file's lines are in force.
    fn configured(&mut self, lines: Vec<Line>, overlays: Overlays) {
        self.revision += 1;
        self.generation += 1;
        self.configured = true;
        self.last = None;
        let mut before = std::mem::take(&mut self.known);
        let edited = |overlays: &Overlays, id: u64| overlays.get(&id).cloned();
        for Line { budget, said, place } in lines {
            let id = budget.spec.id;
            let mut known = Known { place, ..Known::new(budget, &said, self.revision) };
            if let Some(old) = before.remove(&id) {
                // A line that moved says nothing new.
                let is_same = Known { revision: old.revision, place: old.place, ..known.clone() }
                    == old
                    && edited(&self.overlays, id) == edited(&overlays, id);
                known.revision = if is_same { old.revision } else { known.revision };
            }
            self.known.insert(id, known);
        }
        self.handles = self.known.values().filter_map(Known::live_handle).collect();
        self.overlays = overlays;
    }

    /// An edit is in force.
    fn edited(
        &mut self,
        entry: &EditEntry,
        line: Box<str>,
        budgets: Vec<Option<Budget>>,
        revision: u64,
    ) {
        for (row, to) in entry.rows.iter().zip(budgets) {
            if !row.outcome.is_changed() {
                continue;
            }
            self.revision = revision;
            overlay::apply(&mut self.overlays, row);
            match to {
                None => drop(self.forget(row.id)),
                Some(budget) => self.known_now(budget, revision),
            }
        }
        self.generation += 1;
        self.audit.push(entry, line);
    }

    fn known_now(&mut self, budget: Budget, revision: u64) {
        let id = budget.spec.id;
        let old = self.forget(id);
        let said = match (self.overlays.get(&id), &old) {
            (Some(Overlay::Created(fields)), _) => fields.clone(),
            (_, Some(old)) => old.said(),
            (_, None) => Fields::new(),
        };
        let (bids, place) = old.map_or((false, None), |old| (old.bids, old.place));
        let known = Known { bids, place, ..Known::new(budget, &said, revision) };
        self.handles.extend(known.live_handle());
        self.known.insert(id, known);
    }

    /// A budget goes, or is about to be another. Its handle may be another's already.
    fn forget(&mut self, id: u64) -> Option<Known> {
        let old = self.known.remove(&id)?;
        if let Some((handle, _)) = old.live_handle()
            && self.handles.get(&handle) == Some(&id)
        {
            self.handles.remove(&handle);
        }
        Some(old)
    }

    /// All budgets, with those that come and without those that go.
    fn all_with(&self, changed: &[(&Row, &Option<Budget>)]) -> Vec<Budget> {
        let mut all: BTreeMap<u64, Budget> =
            self.known.iter().map(|(id, known)| (*id, known.budget())).collect();
        for (row, to) in changed {
            match to {
                Some(budget) => drop(all.insert(row.id, plain(budget))),
                None => drop(all.remove(&row.id)),
            }
        }
        all.into_values().collect()
    }

    fn statics(&self) -> Statics {
        let alerts = self.known.iter().filter(|(_, known)| !known.alerts.is_empty());
        Statics {
            generation: self.generation,
            budgets: self.known.values().map(Known::shown).collect(),
            edited: self.known.keys().map(|id| self.overlays.contains_key(id)).collect(),
            alerts: Arc::new(alerts.map(|(id, known)| (*id, known.alerts.clone())).collect()),
        }
    }
}

impl Known {
    fn new(budget: Budget, said: &Fields, revision: u64) -> Known {
        let Budget { spec, name, pacing, campaign, orders, alerts, .. } = budget;
        let said = serde_json::to_string(said).expect("a map with text keys");
        let (name, said, bids) = (name.into(), said.into(), campaign.is_some());
        Known { spec, name, pacing, orders, alerts, bids, said, place: None, revision }
    }

    /// Its handle and its id, unless it ended: then the handle is free for another.
    fn live_handle(&self) -> Option<(Handle, u64)> {
        let handle = self.spec.handle.clone().filter(|_| self.spec.status != ledger::Status::Ended);
        handle.map(|handle| (handle, self.spec.id))
    }

    fn said(&self) -> Fields {
        serde_json::from_str(&self.said).expect("written by ourselves")
    }

    fn budget(&self) -> Budget {
        let Known { spec, name, pacing, orders, alerts, .. } = self.clone();
        Budget { spec, name: name.into(), pacing, line: 0, campaign: None, orders, alerts }
    }

    fn shown(&self) -> watch::Budget {
        let spec = &self.spec;
        watch::Budget {
            id: spec.id,
            name: self.name.clone(),
            handle: spec.handle.as_ref().map(|handle| handle.as_str().into()),
            unit: spec.unit,
            parent: spec.parent,
            campaign: self.bids,
            start_ms: (spec.start != Window::ALWAYS.start).then(|| spec.start.ms()),
            end_ms: (spec.end != Window::ALWAYS.end).then(|| spec.end.ms()),
            zone: spec.zone.name().into(),
            pacing: pacing(self.pacing.plan.spec().strategy),
            revision: self.revision,
        }
    }
}

/// How a strategy is shown.
fn pacing(strategy: Strategy) -> watch::Pacing {
    match strategy {
        Strategy::Asap => watch::Pacing::Asap,
        Strategy::Schedule => watch::Pacing::Schedule,
        Strategy::Coin => watch::Pacing::Coin,
        Strategy::Curve => watch::Pacing::Curve,
        Strategy::Steer => watch::Pacing::Steer,
        Strategy::Auto => watch::Pacing::Auto,
    }
}

/// Everything that the bank needs of a budget.
fn plain(budget: &Budget) -> Budget {
    let Budget { spec, name, pacing, line, orders, alerts, .. } = budget;
    let (spec, name, pacing) = (spec.clone(), name.clone(), pacing.clone());
    let (orders, alerts) = (orders.clone(), alerts.clone());
    Budget { spec, name, pacing, line: *line, campaign: None, orders, alerts }
}

fn reason(entry: &EditEntry, changed: &[(&Row, &Option<Budget>)]) -> EditReason {
    let action = match entry.action {
        Action::Create => EditAction::Create,
        // Of FIX sessions the bank does not hear, and what the file says comes with the file.
        Action::Set
        | Action::File
        | Action::FixSequence
        | Action::FixReset
        | Action::FixResend
        | Action::FixLogout
        | Action::FixKill
        | Action::FixEnable => EditAction::Set,
        Action::Pause => EditAction::Pause,
        Action::Resume => EditAction::Resume,
        Action::Undo => EditAction::Undo,
    };
    let text = |fields: &Fields| serde_json::to_string(fields).expect("a map with text keys");
    let edit = |(row, _): &(&Row, &Option<Budget>)| EditRecord {
        record: entry.record,
        budget: row.id,
        action,
        before: text(&row.before),
        after: text(&row.after),
    };
    let edits = changed.iter().map(edit).collect();
    EditReason { who: entry.who.as_str().into(), why: entry.why.as_str().into(), edits }
}

fn answer(rows: impl Iterator<Item = Row>, record: Option<u64>) -> Edited {
    Edited { record, replay: false, rows: rows.map(Into::into).collect() }
}

fn tell(ended: &[Ended], away: &[u64], back: &[u64]) {
    for id in away {
        tracing::warn!(
            budget = id,
            "the budgets file no longer names the budget or its parent, or gives its handle to another: its edits wait for a day"
        );
    }
    for id in back {
        tracing::info!(
            budget = id,
            "the budgets file names the budget again: its edits are in force"
        );
    }
    for Ended { id, fields, why } in ended {
        let fields = if fields.is_empty() { "all".into() } else { fields.join(", ") };
        tracing::warn!(
            budget = id,
            fields,
            why,
            "what the API had set of a budget is no longer in force"
        );
    }
}
