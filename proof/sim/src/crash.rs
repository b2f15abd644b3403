//! Crashes of the simulated node, what damages its disk meanwhile, and its recovery.

use ledger::{
    Action, Amount, Bank, Door, Options, Origin, Out, Record, Room, ToBank, ToWorker, Verdict,
};
use ledger_journal::files::{self, Folder};
use ledger_journal::{
    NotAppended, RecoverError, Recovered, Start, Tail, Writer, recover, segments, walk,
};

use crate::Bug;
use crate::draw;
use crate::engine::{CaughtUp, catch_up};
use crate::files::{Crash, SimFolder};
use crate::journal::{Journal, NODE, Sizes};
use crate::planted::{NodeFolder, accept_torn, lose_row, misread};
use crate::rng::Rng;
use crate::world::World;

/// Settled holds that are asked about again after a recovery.
const ASKED_AGAIN: usize = 50;
/// Operations from the start of a recovery within which a crash may meet it: as many as it has.
const RECOVERY_OPERATIONS: u64 = 8;
const BLOCK_BYTES: u64 = files::BLOCK_BYTES as u64;

/// Everything that the node appended and did not lose, and the state that it leads to, replayed record by record
/// from the first one on, without files.
#[derive(Debug)]
pub(crate) struct Model {
    /// By sequence, from 1 on.
    pub(crate) records: Vec<Record>,
    bank: Bank,
    /// How many of the records are in `bank`.
    replayed: usize,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { records: Vec::new(), bank: Bank::new(Options::default()), replayed: 0 }
    }

    /// The digest of the state before the record with this sequence.
    fn digest_at(&mut self, sequence: u64) -> Result<u64, String> {
        let end = usize::try_from(sequence - 1).expect("records are in memory");
        if end < self.replayed {
            // A damaged copy was read further than the crashes in a recovery then left.
            (self.bank, self.replayed) = (Bank::new(Options::default()), 0);
        }
        for record in &self.records[self.replayed..end] {
            self.bank.replay(record).map_err(|error| format!("replay of {record:?}: {error}"))?;
        }
        self.replayed = end;
        Ok(self.bank.digest())
    }

    /// Sequence that the next record will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    /// A bank with a planted bug that replays the records.
    fn replayed_by(
        &self,
        options: &Options,
        bug: Bug,
        snapshot: Option<u64>,
    ) -> Result<Bank, String> {
        let mut options = options.clone();
        if bug == Bug::ForgetAmounts {
            options.amounts_max = 0;
        }
        let mut bank = Bank::new(options);
        for (at, record) in self.records.iter().enumerate() {
            if bug == Bug::LoseRow && snapshot == Some(at as u64 + 1) {
                lose_row(&mut bank, &self.records[at..]);
            }
            let record = misread(record, Some(bug));
            bank.replay(&record).map_err(|error| format!("replay: {error}"))?;
        }
        Ok(bank)
    }
}

/// What a crash may leave of the journal.
struct Bounds {
    /// All records before this sequence were sealed.
    sealed: u64,
    /// No record from this sequence on was made.
    appended: u64,
}

impl World {
    /// Lets a later operation of the disk be the last one.
    pub(crate) fn arm_crash(&mut self) {
        self.faults_before = self.disk.faults();
        self.disk.crash_after_operations(1 + self.rng.below(40));
    }

    /// Notes where an operation stopped that the crash met.
    fn note_stopped(&mut self, by: &'static str) {
        let met = |name: &&'static str| {
            let before = self.faults_before.get(name).copied().unwrap_or(0);
            self.disk.faults().get(name).copied().unwrap_or(0) > before
        };
        let begins = ["crash in a create", "crash in a rename", "crash in a folder sync"];
        let begins = begins.iter().any(met);
        self.stats.one(match by {
            _ if self.journal.sealer().stopped && begins => "crash in a rotation",
            _ if self.journal.sealer().stopped => "crash in the writer",
            by => by,
        });
    }

    /// Something that uses the disk has run: did the crash come within it?
    pub(crate) fn after_disk(&mut self, by: &'static str) -> Result<(), String> {
        let events = std::mem::take(&mut self.journal.sealer_mut().events);
        events.into_iter().for_each(|event| self.stats.one(event));
        self.note_engine();
        if !self.disk.is_stopped() {
            return self.after_append();
        }
        self.note_stopped(by);
        self.crash()
    }

    /// A bank whose group the log refused for good stops, and starts again. One that was replaced without being told, as its append
    /// had arrived before and was repeated, goes on for as long as its lease lasts; without a lease it is stopped here.
    fn after_append(&mut self) -> Result<(), String> {
        let replaced =
            self.engine.as_ref().is_some_and(|engine| engine.borrow_mut().take_replaced());
        let Some(refused) = self.journal.sealer_mut().refused.take() else {
            if !replaced || self.lease.is_some() || self.bug == Some(Bug::FenceIgnored) {
                return Ok(());
            }
            self.stats.one("bank replaced, and not told");
            return self.crash();
        };
        self.journal.sealer().check_refused(&refused)?;
        self.stats.one(match refused {
            NotAppended::Forgot { .. } => "bank stopped: the log forgot",
            _ => "bank fenced",
        });
        self.crash()
    }

    /// kill -9, or the power goes: workers and queues are gone, the bank is what the disk says.
    pub(crate) fn crash(&mut self) -> Result<(), String> {
        self.note_crash();
        let bounds = Bounds { sealed: self.journal.sealed(), appended: self.model.next_sequence() };
        let before = self.bank.digest();
        self.leave_zombies();
        self.end_faults();
        self.cut_off();
        if self.rng.chance(400) && self.bug.is_none() {
            self.try_damage(&bounds)?;
        }
        if self.rng.chance(500) {
            self.stats.one("crash: the next run has other options");
            (self.options, self.purse_options) =
                draw::options(&mut self.rng, self.narrow, self.bug);
            self.options.memo_judges = crate::memos::judges(self.bug);
        }
        if self.bug == Some(Bug::AcceptTorn) {
            self.accept_torn()?;
        }
        let recovered = self.recover_at_last()?;
        self.note_recovered(&recovered, &bounds)?;
        let lost = bounds.appended - recovered.tail.position.sequence;
        if lost == 0 {
            self.stats.one("crash: nothing lost, digests equal");
            if self.plain() && recovered.bank.digest() != before {
                return Err("the recovered state differs from the live one".into());
            }
        }
        let recovered = self.catch_up(recovered)?;
        self.check_folded()?;
        self.go_on(recovered)
    }

    /// What the engine has and the disk does not is read on; what only the disk has is appended to the engine again.
    fn catch_up(&mut self, mut recovered: Recovered) -> Result<Recovered, String> {
        let found = usize::try_from(recovered.tail.position.sequence - 1).expect("few");
        self.model.records.truncate(found);
        let Some(engine) = &self.engine else { return Ok(recovered) };
        let Tail { next_segment, .. } = recovered.tail;
        let folder = NodeFolder::new(self.disk.clone(), self.bug);
        let disk =
            Writer::with_short_segments(folder, NODE, self.sizes.segment_bytes, recovered.tail);
        let CaughtUp { records, tail } = catch_up(engine, disk, next_segment)?;
        for record in &records {
            let replayed = recovered.bank.replay(record);
            replayed.map_err(|error| format!("read from the log: {error}"))?;
        }
        recovered.bank.audit()?;
        self.model.records.extend(records);
        recovered.tail = tail;
        self.note_engine();
        Ok(recovered)
    }

    fn note_engine(&mut self) {
        let Some(engine) = &self.engine else { return };
        let events = std::mem::take(&mut engine.borrow_mut().events);
        events.into_iter().for_each(|event| self.stats.one(event));
    }

    /// The engine's faults stop; a bank that would learn at its next append that it has to stop does so now.
    pub(crate) fn end_engine_faults(&mut self) -> Result<(), String> {
        let Some(engine) = self.engine.clone() else { return Ok(()) };
        engine.borrow_mut().come_to_rest();
        self.crash()
    }

    fn note_crash(&mut self) {
        self.stats.one("crash");
        self.stats.bank(self.bank.counts());
        if self.journal.sealer().is_stuck() {
            self.stats.one("crash: disk stuck");
        }
        if self.journal.is_failing() {
            self.stats.one("crash: writer failing");
        }
        if self.now_ms < self.suspended_until_ms && self.bank.run() > 1 {
            self.stats.one("crash during a suspension");
        }
    }

    /// The disk works again: nothing is drawn from a state before the crash.
    pub(crate) fn end_faults(&mut self) {
        self.disk.set_room(None);
        self.disk.fail_reads(0);
        self.disk.fail_writes(0);
        self.disk.fail_syncs(0);
        self.disk.fail_folder_syncs(0);
        self.disk.crash_after_operations(0);
        self.full_until_ms = 0;
    }

    fn cut_off(&mut self) {
        let crash = if self.rng.chance(500) { Crash::Process } else { Crash::Power };
        self.disk.crash(crash);
    }

    /// Do the bank's states follow from the records as they are?
    pub(crate) fn plain(&self) -> bool {
        !matches!(
            self.bug,
            Some(
                Bug::ForgetSuspension
                    | Bug::NoLeaseTerm
                    | Bug::EndEarly
                    | Bug::ForgetMarks
                    | Bug::FreeExpired
                    | Bug::ForgetAnswers
                    | Bug::ForgetOrders
                    | Bug::CountReturnsAnew
                    | Bug::RollEarly
                    | Bug::ForgetHandles
                    | Bug::ForgetAmounts
                    | Bug::LoseRow
            )
        )
    }

    /// Recovers; crashes and failures meet the recovery itself, then it begins anew.
    fn recover_at_last(&mut self) -> Result<Recovered, String> {
        for attempt in 0.. {
            let calm = attempt > 3 || self.calm;
            if !calm && self.rng.chance(300) {
                self.disk.crash_after_operations(1 + self.rng.below(RECOVERY_OPERATIONS));
            } else if !calm && self.rng.chance(100) {
                self.disk.fail_reads(1 + self.rng.below(20));
            } else if !calm && self.rng.chance(100) {
                self.disk.fail_syncs(1);
            }
            let folder = NodeFolder::new(self.disk.clone(), self.bug);
            let result = recover(&folder, &self.options, NODE, &mut |_| {});
            if self.disk.is_stopped() {
                self.stats.one("crash in a recovery");
                self.cut_off();
                continue;
            }
            self.end_faults();
            match result {
                Ok(recovered) => return Ok(recovered),
                Err(error) if is_of_the_disk(&error) && !calm => {
                    self.stats.one("recovery failed by the disk");
                    if self.rng.chance(500) {
                        self.cut_off();
                    }
                }
                Err(error) => return Err(format!("a recovery was refused: {error}")),
            }
        }
        unreachable!("a calm attempt succeeds or fails for good")
    }

    /// A recovery gives everything that was sealed, nothing that was never made, and the same state as the records.
    fn check_recovered(&mut self, found: &Recovered, bounds: &Bounds) -> Result<(), String> {
        let Bounds { sealed, appended } = *bounds;
        let sequence = found.tail.position.sequence;
        if !(sealed..=appended).contains(&sequence) {
            return Err(format!(
                "recovered up to record {sequence}, sealed up to {sealed}, made up to {appended}"
            ));
        }
        found.bank.audit()?;
        if self.plain() && found.bank.digest() != self.model.digest_at(sequence)? {
            return Err(format!(
                "the state recovered up to record {sequence} is not that of the records"
            ));
        }
        Ok(())
    }

    fn note_recovered(&mut self, found: &Recovered, bounds: &Bounds) -> Result<(), String> {
        self.check_recovered(found, bounds)?;
        let sequence = found.tail.position.sequence;
        let (kept, lost) = (sequence - bounds.sealed, bounds.appended - sequence);
        self.stats.count("crash: records lost", u64::from(lost > 0));
        self.stats.count("crash: unsealed records kept", u64::from(kept > 0));
        self.stats.count("crash: unsealed records kept and lost", u64::from(kept > 0 && lost > 0));
        self.stats.count("recovery: torn group cut", u64::from(found.report.cut.is_some()));
        self.stats.count("recovery: snapshot used", u64::from(found.report.snapshot.is_some()));
        for key in &self.keys {
            if !found.bank.keys().contains(key) {
                return Err(format!("token key {} was in use and is lost", key.id));
            }
        }
        let (kept, told) = (found.bank.kept(Room::Edits), self.changes_told);
        if kept < told {
            return Err(format!("{told} changes were told to their owners, {kept} are there"));
        }
        Ok(())
    }

    /// The next run begins where the recovery ended.
    fn go_on(&mut self, recovered: Recovered) -> Result<(), String> {
        let Recovered { bank, tail, report } = recovered;
        self.oracle.read_again(&self.model.records);
        self.bank = match self.bug {
            Some(bug) if !self.plain() => {
                self.model.replayed_by(&self.options, bug, report.snapshot)?
            }
            _ => bank,
        };
        let sizes = if self.rng.chance(500) { Sizes::draw(&mut self.rng) } else { self.sizes };
        self.sizes = sizes;
        let folder = NodeFolder::new(self.disk.clone(), self.bug);
        let rng = Rng::new(self.rng.next());
        self.journal = Journal::new(folder, sizes, tail, self.engine.clone(), rng);
        self.start()?;
        self.ask_again()?;
        self.recover_named()?;
        // Changes whose records were lost are made again by the watcher.
        self.configure();
        self.start_named()
    }

    /// What clients were told about settles is what the recovered bank tells them again, and books nothing.
    fn ask_again(&mut self) -> Result<(), String> {
        let mut bank = self.bank.clone();
        let settled = self.oracle.holds.iter().rev().filter(|known| known.settled.is_some());
        for known in settled.take(ASKED_AGAIN) {
            // A notice with the price that counts so far books nothing, either.
            let (door, named) = match known.billed {
                true => (Door::Openrtb, known.told),
                false => (Door::Batch, known.price),
            };
            let message = ToBank::Resolve {
                action: Action::Settle,
                hold: known.hold,
                amount: Amount::new(named),
                at_ms: self.now_ms,
                origin: Origin { door, request_id: 0 },
                reply: 0,
            };
            let mut out = Out::default();
            bank.step(0, message, &mut out);
            let answer = out.messages.iter().find_map(|(_, message)| match message {
                ToWorker::Resolved { resolution, .. } => Some(*resolution),
                _ => None,
            });
            let again = answer.is_some_and(|again| known.is_told(&again, self.narrow));
            if !again && answer.is_none_or(|answer| answer.verdict != Verdict::TooOld) {
                return Err(format!("after a recovery answered {answer:?}: {known:?}"));
            }
        }
        Ok(())
    }

    /// Damages a copy of the disk: a recovery from it must be refused, or give all that was sealed.
    fn try_damage(&mut self, bounds: &Bounds) -> Result<(), String> {
        let copy = self.disk.copy();
        let Some(what) = damage(&copy, &mut self.rng, bounds.sealed)? else { return Ok(()) };
        self.stats.faults(&copy.faults());
        let newest = ledger_journal::snapshot::snapshots(&copy).map_err(|e| e.to_string())?.pop();
        match recover(&copy, &self.options, NODE, &mut |_| {}) {
            Err(_) => self.stats.one("damage: refused"),
            Ok(recovered) => {
                self.check_recovered(&recovered, bounds)
                    .map_err(|error| format!("after damage ({what}): {error}"))?;
                self.stats.one("damage: survived");
                let used = recovered.report.snapshot;
                self.stats.count("damage: an older snapshot used", u64::from(used < newest));
            }
        }
        Ok(())
    }

    /// A planted bug: the next recovery takes what a crash left of a group.
    fn accept_torn(&mut self) -> Result<(), String> {
        let copy = self.disk.copy();
        let Ok(found) = recover(&copy, &self.options, NODE, &mut |_| {}) else { return Ok(()) };
        let Some(cut) = &found.report.cut else { return Ok(()) };
        accept_torn(&self.disk, cut, &found.tail.position).map_err(|error| error.to_string())
    }
}

fn is_of_the_disk(error: &RecoverError) -> bool {
    matches!(error, RecoverError::Read(ledger_journal::ReadError::Io { .. }))
}

/// A group in a segment.
#[derive(Clone, Debug)]
struct Group {
    file: String,
    offset: u64,
}

/// Groups whose first record is before this sequence, in order.
fn groups_before(
    folder: &SimFolder,
    sequence: u64,
) -> Result<Vec<Group>, ledger_journal::ReadError> {
    let mut groups: Vec<Group> = Vec::new();
    let numbers = segments(folder)?;
    // A removal that a failed sync forgot may have come back, in front of a hole that no recovery needs.
    let first = numbers.windows(2).rposition(|pair| pair[0] + 1 != pair[1]);
    let first = first.map_or(0, |hole| hole + 1);
    let Some(segment) = numbers.get(first).copied() else { return Ok(groups) };
    let start = Start { segment, position: None, until: None };
    walk(folder, start, &mut |place, _| {
        let (file, offset) = (place.file, place.at.offset);
        let known = groups.last().is_some_and(|last| last.file == file && last.offset == offset);
        if !known && place.at.sequence < sequence {
            groups.push(Group { file: file.to_string(), offset });
        }
        Ok(())
    })?;
    Ok(groups)
}

/// Damages a folder somewhere, in what is sealed, and says how. `None` if there is nothing to damage.
///
/// Spared is what no reader of the folder alone can know: a sector of zeros in the last group that was sealed looks
/// like one that was never written, and a last segment that is gone like one that was never begun.
fn damage(folder: &SimFolder, rng: &mut Rng, sealed: u64) -> Result<Option<String>, String> {
    let mut names = folder.list().map_err(|error| error.to_string())?;
    names.retain(|name| name.ends_with(".weir"));
    let groups =
        groups_before(folder, sealed).map_err(|error| format!("before damage: {error}"))?;
    let name = |names: &[String], rng: &mut Rng| names.get(rng.index(names.len())).cloned();
    Ok(match rng.below(10) {
        0 => {
            let last = segments(folder).map_err(|error| error.to_string())?.pop();
            let last = last.map(ledger_journal::repair::segment_name);
            names.retain(|name| Some(name) != last.as_ref());
            let Some(name) = name(&names, rng) else { return Ok(None) };
            folder.remove(&name).map_err(|error| error.to_string())?;
            Some(format!("{name} removed"))
        }
        1 | 2 => {
            let Some(name) = name(&names, rng) else { return Ok(None) };
            let end = if rng.chance(500) { BLOCK_BYTES } else { u64::MAX };
            folder.flip_bit(&name, 0..end).map(|at| format!("{name}: a bit of byte {at}"))
        }
        3 => {
            names.retain(|name| name.starts_with("snapshot"));
            let Some(name) = name(&names, rng) else { return Ok(None) };
            folder.clear_sector(&name, 0..u64::MAX).map(|at| format!("{name}: sector at {at}"))
        }
        4..7 => {
            let Some(Group { file, offset }) = groups.get(rng.index(groups.len())) else {
                return Ok(None);
            };
            let at = folder.flip_bit(file, *offset..offset + BLOCK_BYTES);
            at.map(|at| format!("{file}: a bit of byte {at}"))
        }
        _ => {
            let before = &groups[..groups.len().saturating_sub(1)];
            let Some(Group { file, offset }) = before.get(rng.index(before.len())) else {
                return Ok(None);
            };
            let at = folder.clear_sector(file, *offset..offset + BLOCK_BYTES);
            at.map(|at| format!("{file}: sector at {at}"))
        }
    })
}
