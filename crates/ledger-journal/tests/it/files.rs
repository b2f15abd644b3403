//! Folders for tests: one in memory whose bytes can be changed, and one that fails when told to.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use ledger_journal::files::{Access, BLOCK_BYTES, File, Folder};
use ledger_journal::{Gather, Group, Place, Position, Start, Tail, Walked, Writer, walk};

use ledger::Record;

pub(crate) const NODE: u16 = 3;
/// When files of these tests are made.
pub(crate) const AT_MS: u64 = 1_767_268_800_000;

/// Before anything was written.
pub(crate) const EMPTY: Tail = Tail { position: Position::START, next_segment: 1 };

type Bytes = Arc<Mutex<Vec<u8>>>;

/// A folder in memory. Clones are the same folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mem {
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl Mem {
    pub(crate) fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    fn bytes(&self, name: &str) -> io::Result<Bytes> {
        self.files.lock().unwrap().get(name).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        self.bytes(name).unwrap().lock().unwrap().clone()
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.files.lock().unwrap().insert(name.to_string(), Arc::new(Mutex::new(bytes)));
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes(name).unwrap().lock().unwrap());
    }

    /// Another folder with the same files.
    pub(crate) fn copy(&self) -> Mem {
        let copy = Mem::default();
        self.names().iter().for_each(|name| copy.put(name, self.get(name)));
        copy
    }
}

#[derive(Debug)]
pub(crate) struct MemFile(Bytes);

fn aligned(offset: u64, bytes: &[u8]) {
    let block = BLOCK_BYTES as u64;
    assert!(offset.is_multiple_of(block) && bytes.len().is_multiple_of(BLOCK_BYTES));
    assert!(bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES), "as direct writes need it");
}

impl File for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.0.lock().unwrap();
        let from = usize::try_from(offset).unwrap();
        let found = file.get(from..from + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        aligned(offset, bytes);
        let mut file = self.0.lock().unwrap();
        let from = usize::try_from(offset).unwrap();
        let end = file.len().max(from + bytes.len());
        file.resize(end, 0);
        file[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(usize::try_from(bytes).unwrap(), 0);
        Ok(())
    }
}

impl Folder for Mem {
    type File = MemFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn create(&self, name: &str) -> io::Result<MemFile> {
        if self.bytes(name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.put(name, Vec::new());
        self.open(name, Access::Write)
    }

    fn open(&self, name: &str, _: Access) -> io::Result<MemFile> {
        Ok(MemFile(self.bytes(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What a folder was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create,
    Write,
    Sync,
    Rename,
    Remove,
    SyncFolder,
}

/// How much of a write that fails gets to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lands {
    Nothing,
    Half,
    All,
}

#[derive(Debug)]
struct Plan {
    /// Operations that fail, by their number.
    fails: std::ops::Range<usize>,
    lands: Lands,
    done: Vec<Op>,
}

/// A folder whose operations fail for a while.
#[derive(Clone, Debug)]
pub(crate) struct Flaky {
    inner: Mem,
    plan: Arc<Mutex<Plan>>,
}

impl Flaky {
    pub(crate) fn new(inner: Mem) -> Flaky {
        let plan = Plan { fails: 0..0, lands: Lands::Nothing, done: Vec::new() };
        Flaky { inner, plan: Arc::new(Mutex::new(plan)) }
    }

    pub(crate) fn fail(&self, fails: std::ops::Range<usize>, lands: Lands) {
        let mut plan = self.plan.lock().unwrap();
        (plan.fails, plan.lands) = (fails, lands);
    }

    pub(crate) fn done(&self) -> Vec<Op> {
        self.plan.lock().unwrap().done.clone()
    }

    /// `Err` if the operation is to fail, with how much of it is done all the same.
    fn ask(&self, op: Op) -> Result<(), Lands> {
        let mut plan = self.plan.lock().unwrap();
        plan.done.push(op);
        let number = plan.done.len() - 1;
        if plan.fails.contains(&number) { Err(plan.lands) } else { Ok(()) }
    }

    fn run<T>(&self, op: Op, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.ask(op) {
            Ok(()) => run(),
            Err(lands) => {
                if lands == Lands::All {
                    run()?;
                }
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct FlakyFile {
    inner: MemFile,
    folder: Flaky,
}

impl Folder for Flaky {
    type File = FlakyFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn create(&self, name: &str) -> io::Result<FlakyFile> {
        let inner = self.run(Op::Create, || self.inner.create(name))?;
        Ok(FlakyFile { inner, folder: self.clone() })
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FlakyFile> {
        Ok(FlakyFile { inner: self.inner.open(name, access)?, folder: self.clone() })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.run(Op::Rename, || self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.run(Op::Remove, || self.inner.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.run(Op::SyncFolder, || self.inner.sync())
    }
}

impl File for FlakyFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Err(lands) = self.folder.ask(Op::Write) else {
            return self.inner.write_at(offset, bytes);
        };
        if lands == Lands::All {
            self.inner.write_at(offset, bytes)?;
        }
        if lands == Lands::Half {
            let mut file = self.inner.0.lock().unwrap();
            let (from, half) = (usize::try_from(offset).unwrap(), bytes.len() / 2);
            let end = file.len().max(from + half);
            file.resize(end, 0);
            file[from..from + half].copy_from_slice(&bytes[..half]);
        }
        Err(io::ErrorKind::StorageFull.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.run(Op::Sync, || self.inner.sync())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }
}

/// Closes records into groups of these sizes, repeated.
pub(crate) fn groups(at: Position, records: &[Record], sizes: &[usize]) -> Vec<Group> {
    let (mut gather, mut groups, mut rest) = (Gather::new(at), Vec::new(), records);
    for size in sizes.iter().cycle() {
        let (now, later) = rest.split_at((*size).max(1).min(rest.len()));
        for record in now {
            gather.append(record, AT_MS);
        }
        groups.extend(std::iter::from_fn(|| gather.take()));
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    groups
}

/// Every record of the folder with its sequence, and where the walk ended.
pub(crate) fn read_all<F: Folder>(folder: &F) -> (Vec<(u64, Record)>, Walked) {
    let start = Start { segment: 1, position: Some(Position::START), until: None };
    let mut records = Vec::new();
    let mut each = |place: &Place<'_>, record| {
        records.push((place.at.sequence, record));
        Ok(())
    };
    let walked = walk(folder, start, &mut each).unwrap();
    (records, walked)
}

/// The folder holds exactly these records, numbered without gaps.
pub(crate) fn assert_holds<F: Folder>(folder: &F, expected: &[Record]) -> Walked {
    let (found, walked) = read_all(folder);
    assert_eq!(found.len(), expected.len());
    for (index, ((sequence, found), expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!((*sequence, found), (index as u64 + 1, expected));
    }
    assert_eq!(walked.position.sequence, expected.len() as u64 + 1);
    walked
}

/// Where the next run goes on.
pub(crate) fn tail(walked: &Walked) -> Tail {
    let next_segment = walked.last_segment.map_or(1, |last| last + 1);
    Tail { position: walked.position, next_segment }
}

/// A writer of the smallest segments.
pub(crate) fn writer<F: Folder>(folder: F, tail: Tail) -> Writer<F> {
    Writer::new(folder, NODE, 0, tail)
}
