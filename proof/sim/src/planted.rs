//! The folder as the node sees it: the simulated disk, with what runs beside a call, and with planted faults.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use ledger::spec::MADE_ID_MIN;
use ledger::{
    Amount, Bank, KeptWith, OnExpiry, Out, Period, Record, Verdict, WindowKind, WindowLimit,
};
use ledger_journal::files::{Access, BLOCK_BYTES, File, Folder};
use ledger_journal::{Cut, Position};
use sha2::{Digest, Sha256};
use wire::Handle;

use crate::Bug;
use crate::files::{SimFile, SimFolder};
use crate::journal::Sealer;

/// A handle of the folder.
#[derive(Clone, Debug)]
pub(crate) struct NodeFolder {
    disk: SimFolder,
    bug: Option<Bug>,
    /// The writer, where it runs beside whoever has this handle: any of the calls may come after some of its own.
    beside: Option<Rc<RefCell<Sealer>>>,
}

/// A file of it.
#[derive(Debug)]
pub(crate) struct NodeFile {
    file: SimFile,
    bug: Option<Bug>,
    beside: Option<Rc<RefCell<Sealer>>>,
}

impl NodeFolder {
    pub(crate) fn new(disk: SimFolder, bug: Option<Bug>) -> NodeFolder {
        NodeFolder { disk, bug, beside: None }
    }

    /// The same folder for the housekeeper, whose calls the writer interrupts.
    pub(crate) fn beside(&self, writer: &Rc<RefCell<Sealer>>) -> NodeFolder {
        NodeFolder { beside: Some(Rc::clone(writer)), ..self.clone() }
    }

    pub(crate) fn bug(&self) -> Option<Bug> {
        self.bug
    }

    fn turn(&self) {
        interrupt(self.beside.as_ref());
    }

    fn file(&self, file: SimFile) -> NodeFile {
        NodeFile { file, bug: self.bug, beside: self.beside.clone() }
    }
}

fn interrupt(writer: Option<&Rc<RefCell<Sealer>>>) {
    if let Some(writer) = writer {
        writer.borrow_mut().interrupt();
    }
}

impl Folder for NodeFolder {
    type File = NodeFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.turn();
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<NodeFile> {
        self.turn();
        self.disk.create(name).map(|file| self.file(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<NodeFile> {
        self.turn();
        self.disk.open(name, access).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.turn();
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.turn();
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.turn();
        match self.bug {
            Some(Bug::LoseNames) => Ok(()),
            _ => self.disk.sync(),
        }
    }
}

impl File for NodeFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        interrupt(self.beside.as_ref());
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        interrupt(self.beside.as_ref());
        match (self.file.sync(), self.bug) {
            (Err(error), Some(Bug::SyncAgain)) if !SimFolder::is_crash(&error) => self.file.sync(),
            (result, _) => result,
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
}

/// What a bank that has the bug replays instead of a record.
pub(crate) fn misread(record: &Record, bug: Option<Bug>) -> Record {
    let mut record = record.clone();
    match (&mut record, bug) {
        (Record::RunStarted { hold_ms_max, .. }, Some(Bug::ForgetSuspension)) => *hold_ms_max = 0,
        (Record::RunStarted { lease_ms, .. }, Some(Bug::NoLeaseTerm)) => *lease_ms = 0,
        (Record::Resolved { verdict: Verdict::Granted, kept, .. }, Some(Bug::ForgetOrders)) => {
            // Under another key nobody finds it.
            if let Some(KeptWith::Answer(answer)) = kept.as_deref_mut() {
                answer.key ^= 1 << 80;
            }
        }
        (Record::Resolved { verdict, kept, .. }, Some(Bug::ForgetAnswers))
            if *verdict != Verdict::Granted
                && matches!(kept.as_deref(), Some(KeptWith::Answer(_))) =>
        {
            *kept = None;
        }
        // The money is booked, but on another hold's mark.
        (Record::Resolved { hold, .. }, Some(Bug::ForgetMarks)) => hold.seq ^= 1 << 15,
        // Grants that were made keep nothing when the time of their holds is over.
        (Record::RunStarted { win_notices, .. }, Some(Bug::FreeExpired)) => *win_notices = true,
        (Record::Budget { spec }, Some(Bug::CountReturnsAnew)) => {
            let shorter = |window: &&WindowLimit| window.period < Period::Day;
            let limits: Vec<WindowLimit> =
                spec.windows.all().iter().filter(shorter).copied().collect();
            spec.windows = limits.into_iter().fold(spec.windows.clone(), |windows, limit| {
                windows.with(WindowLimit { kind: WindowKind::Bucket, ..limit })
            });
        }
        (Record::Budget { spec }, Some(Bug::ForgetHandles)) if spec.id >= MADE_ID_MIN => {
            spec.handle = Handle::parse(&format!("other/{}", spec.id)).ok();
        }
        (Record::Timed(change), Some(Bug::EndEarly)) => {
            change.row.until_ms -= change.row.until_ms.saturating_sub(change.at_ms) / 2;
        }
        (Record::WindowRolled { start_ms, end_ms, .. }, Some(Bug::RollEarly)) => {
            *end_ms -= (*end_ms - *start_ms) / 2;
        }
        (Record::Budget { spec }, Some(Bug::FreeExpired)) => spec.on_expiry = OnExpiry::Release,
        _ => {}
    }
    record
}

/// A snapshot has all rows of named holds but one, of which nothing is said after it.
pub(crate) fn lose_row(bank: &mut Bank, later: &[Record]) {
    let is_said = |key: u128| {
        later.iter().any(|record| match record {
            Record::Named { hold, .. } => hold.key == key,
            Record::NamedEnded { key: ended, .. } => *ended == key,
            _ => false,
        })
    };
    let Some(mut hold) = bank
        .named_holds()
        .find(|hold| hold.door == crate::named_oracle::DOOR && !is_said(hold.key))
    else {
        return;
    };
    hold.legs.iter_mut().for_each(|leg| leg.amounts.hold = Amount::ZERO);
    let (mut out, door, key) = (Out::default(), hold.door, hold.key);
    let lost = bank.state_named(hold, &mut out).and_then(|_| bank.end_named(door, key, &mut out));
    assert_eq!(lost, Ok(true), "it holds nothing");
}

/// The whole later price is booked beside what was booked.
pub(crate) fn top_up_in_full(record: &mut Record) {
    if let Record::ToppedUp { amount, total, .. } = record {
        let before = total.get() - amount.get();
        (*amount, *total) = (*total, Amount::new(before + total.get()));
    }
}

const HEAD_BYTES: usize = 64;
const RECORD_HEAD_BYTES: usize = 16;

#[repr(C, align(4096))]
pub(crate) struct Block(pub(crate) [u8; BLOCK_BYTES]);

/// Makes the sums of a torn group fit what is there of it, so that a recovery takes it: a reader that does not check
/// them.
pub(crate) fn accept_torn(disk: &SimFolder, cut: &Cut, before: &Position) -> io::Result<()> {
    let file = disk.open(&cut.file, Access::Write)?;
    let mut head = [0; HEAD_BYTES];
    file.read_at(cut.offset, &mut head)?;
    let said = usize::try_from(word(&head, 8)).unwrap_or(0);
    let there = usize::try_from(file.len()? - cut.offset).unwrap_or(0);
    if said < HEAD_BYTES || said > there {
        // Not even a length of it was written.
        return Ok(());
    }
    let mut group = vec![0; said.next_multiple_of(BLOCK_BYTES).min(there)];
    file.read_at(cut.offset, &mut group)?;
    let (end, records) = close_records(&mut group[..said], before);
    group.truncate(end.next_multiple_of(BLOCK_BYTES));
    group[end..].fill(0xA5);
    close_head(&mut group, end, records, before);
    for (index, bytes) in group.chunks_exact(BLOCK_BYTES).enumerate() {
        let block = Block(bytes.try_into().expect("a whole block"));
        file.write_at(cut.offset + (index * BLOCK_BYTES) as u64, &block.0)?;
    }
    file.sync()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns where the last record ends that has a length, and how many there are.
fn close_records(group: &mut [u8], before: &Position) -> (usize, u32) {
    let (mut at, mut records, mut crc) = (HEAD_BYTES, 0, before.crc);
    while at + RECORD_HEAD_BYTES <= group.len() {
        let bytes = usize::try_from(word(group, at + 4)).unwrap_or(0).next_multiple_of(8);
        if bytes <= RECORD_HEAD_BYTES || at + bytes > group.len() {
            break;
        }
        crc = crc32c::crc32c_append(crc, &group[at + 4..at + bytes]);
        group[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at += bytes;
        records += 1;
    }
    (at, records)
}

fn close_head(group: &mut [u8], bytes: usize, records: u32, before: &Position) {
    let said = u32::try_from(bytes).expect("within a group");
    group[8..12].copy_from_slice(&said.to_le_bytes());
    group[12..16].copy_from_slice(&records.to_le_bytes());
    let mut sum = Sha256::new();
    sum.update(before.hash);
    sum.update(&group[8..32]);
    sum.update(&group[HEAD_BYTES..bytes]);
    group[32..HEAD_BYTES].copy_from_slice(&sum.finalize());
    let crc = crc32c::crc32c(&group[8..HEAD_BYTES]);
    group[4..8].copy_from_slice(&crc.to_le_bytes());
}
