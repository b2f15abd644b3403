//! Walking over the records of a folder, beside a running node too, and what the numbers in them stand for.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::{Bank, BudgetSpec, Options, Part, Record};
use ledger_journal::files::Folder as _;
use ledger_journal::snapshot::{Loaded, load, snapshots};
use ledger_journal::{
    Disk, Fault, Known as Noted, Place, Position, ReadError, RecoverError, Start, Walked,
    read_back, segment_head, segments, walk,
};
use money::Unit;
use weir_node::known;
use wire::Handle;

use super::JournalError;

/// The journal of a data folder.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) data: PathBuf,
    pub(super) path: PathBuf,
    pub(super) disk: Disk,
}

/// Tries after damage in a file that a running node may be writing to.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

impl Folder {
    pub(super) fn open(data: PathBuf) -> Result<Folder, JournalError> {
        let path = data.join("journal");
        let disk = Disk::read(&path);
        match disk.list() {
            Ok(_) => Ok(Folder { data, path, disk }),
            Err(source) => Err(JournalError::NotThere { path, source }),
        }
    }

    pub(super) fn failed(&self, source: ReadError) -> JournalError {
        JournalError::Read { path: self.path.clone(), source }
    }

    pub(super) fn segments(&self) -> Result<Vec<u64>, JournalError> {
        segments(&self.disk).map_err(|error| self.failed(error))
    }

    pub(super) fn snapshots(&self) -> Result<Vec<u64>, JournalError> {
        snapshots(&self.disk).map_err(|error| self.failed(error))
    }

    /// Is there neither a segment nor a snapshot?
    pub(super) fn is_empty(&self) -> Result<bool, JournalError> {
        Ok(self.segments()?.is_empty() && self.snapshots()?.is_empty())
    }

    /// Does a node run on the folder? Asked only where it matters: for a moment it holds the lock itself.
    pub(super) fn is_running(&self) -> bool {
        let Ok(lock) = File::open(self.data.join("lock")) else { return false };
        matches!(lock.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
    }

    /// Walks over records. A node that writes at the same time may be seen in the middle of it: then the place is
    /// read again. False if `each` stopped the walk.
    pub(super) fn walk(
        &self,
        start: Start,
        each: &mut dyn FnMut(&Place<'_>, Record) -> Result<(), Fault>,
    ) -> Result<bool, JournalError> {
        let (mut start, mut next, mut tries) = (start, 0, 0);
        loop {
            let before = next;
            let walked = walk(&self.disk, start, &mut |place, record| {
                if place.at.sequence < next {
                    return Ok(());
                }
                each(place, record)?;
                next = place.at.sequence + 1;
                Ok(())
            });
            let error = match walked {
                Ok(Walked { .. }) => return Ok(true),
                Err(ReadError::Damage(damage)) if damage.what == Fault::Stopped => {
                    return Ok(false);
                }
                Err(error) => error,
            };
            tries = if next > before { 0 } else { tries + 1 };
            if next == 0 || tries == TRIES || !self.is_running() {
                return Err(self.failed(error));
            }
            std::thread::sleep(PAUSE);
            start = Start { segment: self.segment_of(next)?, position: None, ..start };
        }
    }

    /// The segment that a record is in, or will be.
    fn segment_of(&self, sequence: u64) -> Result<u64, JournalError> {
        for number in self.segments()?.into_iter().rev() {
            let head = segment_head(&self.disk, number).map_err(|error| self.failed(error))?;
            if head.position.sequence <= sequence {
                return Ok(number);
            }
        }
        Ok(1)
    }

    /// Why a start would refuse the journal, in the start's own judgement; `None` if it would not. A node that writes
    /// at the same time may be seen in the middle of it: then it is asked again.
    pub(super) fn refusal(&self) -> Result<Option<Refusal>, JournalError> {
        Ok(self.read_back()?.err())
    }

    /// Whether a journal that is there was written by this node; the start asks the same first.
    pub(super) fn is_of(&self, node: u16) -> Result<(), Refusal> {
        let segments = segments(&self.disk).unwrap_or_default();
        // What cannot be read is told by who reads all of it.
        let head = segments.last().and_then(|last| segment_head(&self.disk, *last).ok());
        match head.map(|head| head.node).filter(|found| *found != node) {
            Some(found) => Err(Refusal::Recover(RecoverError::OtherNode { found, expected: node })),
            None => Ok(()),
        }
    }

    /// The bank that a start would go on from, or why it would refuse.
    pub(super) fn read_back(&self) -> Result<Result<Bank, Refusal>, JournalError> {
        if let Some(why) = known::lost(&self.data).map_err(|error| self.failed(error))? {
            return Ok(Err(Refusal::Lost(why)));
        }
        let mut tries = 0;
        loop {
            // Before the journal, which may go on meanwhile. One that cannot be read holds no start up.
            let watermark = known::watermark(&self.data).unwrap_or_default();
            let known = Noted { watermark, accepted: None };
            let error = match read_back(&self.disk, &Options::default(), &known, &mut |_| {}) {
                Ok(found) => return Ok(Ok(found.bank)),
                Err(RecoverError::Read(error @ ReadError::Io { .. })) => {
                    return Err(self.failed(error));
                }
                Err(error) => Refusal::Recover(error),
            };
            tries += 1;
            if tries == TRIES || !self.is_running() {
                return Ok(Err(error));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The earliest state from which all later records are there: nothing, or the oldest sound snapshot.
    pub(super) fn base(&self) -> Result<Base, JournalError> {
        let first = self.segments()?.first().copied();
        let found = self.snapshots()?;
        if first == Some(1) || (first.is_none() && found.is_empty()) {
            let start = Start { segment: 1, position: Some(Position::START), until: None };
            return Ok(Base { bank: Bank::new(Options::default()), start, snapshot: None });
        }
        let mut last = String::new();
        for sequence in found {
            match load(&self.disk, sequence, &Options::default()) {
                Ok(Loaded { bank, head, .. }) if first.is_none_or(|first| head.number >= first) => {
                    let position = Some(head.position);
                    let start = Start { segment: head.number, position, until: None };
                    return Ok(Base { bank, start, snapshot: Some(sequence) });
                }
                Ok(_) => last = format!(": snapshot {sequence} lacks the segments behind it"),
                Err(error) => last = format!(" ({error})"),
            }
        }
        Err(JournalError::NoBase { path: self.path.clone(), last })
    }

    /// The walk over records that are kept from before the base; `None` if there are none.
    pub(super) fn early(&self, base: &Base) -> Result<Option<Start>, JournalError> {
        let first = self.segments()?.first().copied().unwrap_or(base.start.segment);
        let until = Some(base.start.segment);
        let early = first < base.start.segment;
        Ok(early.then_some(Start { segment: first, position: None, until }))
    }

    /// The names that the snapshots give to numbers; those that cannot be read are left out.
    pub(super) fn known(&self) -> Result<Known, JournalError> {
        let mut known = Known::default();
        for sequence in self.snapshots()? {
            if let Ok(loaded) = load(&self.disk, sequence, &Options::default()) {
                known.take_bank(&loaded.bank);
            }
        }
        Ok(known)
    }

    pub(super) fn replay_failed(&self, text: String) -> JournalError {
        JournalError::Replay { path: self.path.clone(), text }
    }
}

/// Why a start refuses a journal.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// All of it is gone.
    #[error("{0}")]
    Lost(String),
    /// It cannot be read back.
    #[error("{0}")]
    Recover(RecoverError),
}

/// A file beside the journal.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

/// Where counting begins.
pub(super) struct Base {
    pub(super) bank: Bank,
    pub(super) start: Start,
    /// The snapshot; `None` if all records are there.
    pub(super) snapshot: Option<u64>,
}

/// What is known of the budgets and grants that records name.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) budgets: BTreeMap<u64, Named>,
    grants: HashMap<u64, u64>,
    /// By budget.
    handles: HashMap<u64, Handle>,
}

/// A budget's unit and place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) unit: Unit,
    pub(super) parent: Option<u64>,
}

impl Known {
    pub(super) fn take_bank(&mut self, bank: &Bank) {
        bank.parts(&mut |part| match part {
            Part::Budget { spec } => {
                self.budget(&spec);
            }
            Part::Grant { grant, budget, .. } => {
                self.grants.insert(grant, budget);
            }
            _ => {}
        });
    }

    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::Budget { spec } => {
                self.budget(spec);
            }
            Record::Granted { grant, budget, .. } => {
                self.grants.insert(*grant, *budget);
            }
            _ => {}
        }
    }

    fn budget(&mut self, spec: &BudgetSpec) {
        self.budgets.insert(spec.id, Named { unit: spec.unit, parent: spec.parent });
        match &spec.handle {
            Some(handle) => drop(self.handles.insert(spec.id, handle.clone())),
            None => drop(self.handles.remove(&spec.id)),
        }
    }

    /// The handle that a budget has at this place of the walk.
    pub(super) fn handle_of(&self, budget: u64) -> Option<&Handle> {
        self.handles.get(&budget)
    }

    pub(super) fn budget_of(&self, grant: u64) -> Option<u64> {
        self.grants.get(&grant).copied()
    }

    pub(super) fn unit_of(&self, budget: u64) -> Option<Unit> {
        self.budgets.get(&budget).map(|named| named.unit)
    }

    /// A budget and those above it.
    pub(super) fn chain(&self, budget: u64) -> impl Iterator<Item = u64> {
        let above = |id: &u64| self.budgets.get(id).and_then(|named| named.parent);
        std::iter::successors(Some(budget), above).take(ledger::spec::LEVELS_MAX)
    }
}
