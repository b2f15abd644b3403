//! A disk that forgets: it notes every write, sync and change of names, and makes of them what is left after any of these by a kill (all that
//! was done), or by a loss of power (all that was synced, and any part of the rest).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

thread_local! {
    static OPS: RefCell<Option<Vec<Op>>> = const { RefCell::new(None) };
}

/// What a disk was asked for; a file is known by the number of its inode.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Made { path: PathBuf, file: u64 },
    Wrote { file: u64, at: u64, bytes: Vec<u8> },
    Cut { file: u64, length: u64 },
    Synced { file: u64 },
    SyncFailed { file: u64 },
    Renamed { from: PathBuf, to: PathBuf },
    Removed { path: PathBuf },
    FolderSynced { folder: PathBuf },
}

pub(crate) fn number(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

/// Notes something, if anybody wants to know.
pub(crate) fn note(op: impl FnOnce() -> Op) {
    OPS.with_borrow_mut(|ops| ops.as_mut().map(|ops| ops.push(op())).unwrap_or_default());
}

pub(super) fn begin() {
    OPS.set(Some(Vec::new()));
}

/// How much was noted.
pub(super) fn length() -> usize {
    OPS.with_borrow(|ops| ops.as_ref().map_or(0, Vec::len))
}

pub(super) fn end() -> Vec<Op> {
    OPS.take().unwrap()
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Cut(u64),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                let at = usize::try_from(*at).unwrap();
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[at..at + new.len()].copy_from_slice(new);
            }
            Change::Cut(length) => bytes.resize(usize::try_from(*length).unwrap(), 0),
        }
    }
}

/// What the system has of a file, what the disk has, and what is on its way.
#[derive(Debug, Default)]
struct Cached {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Cached {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.pending.push(change);
    }
}

#[derive(Clone, Debug)]
enum Naming {
    Add(PathBuf, u64),
    Move(PathBuf, PathBuf, u64),
    Remove(PathBuf),
}

type Names = BTreeMap<PathBuf, u64>;

impl Naming {
    fn folder(&self) -> &Path {
        let (Naming::Add(path, _) | Naming::Move(_, path, _) | Naming::Remove(path)) = self;
        path.parent().unwrap()
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Naming::Add(path, file) => drop(names.insert(path.clone(), *file)),
            Naming::Move(from, to, file) => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Naming::Remove(path) => drop(names.remove(path)),
        }
    }
}

/// A disk after some operations.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: HashMap<u64, Cached>,
    names: Names,
    durable: Names,
    pending: Vec<Naming>,
}

impl Disk {
    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Made { path, file } if self.names.get(path) == Some(file) => {
                self.file(*file).change(Change::Cut(0));
            }
            Op::Made { path, file } => {
                self.files.insert(*file, Cached::default());
                self.name(Naming::Add(path.clone(), *file));
            }
            Op::Wrote { file, at, bytes } => {
                self.file(*file).change(Change::Write(*at, bytes.clone()));
            }
            Op::Cut { file, length } => self.file(*file).change(Change::Cut(*length)),
            Op::Synced { file } => {
                let Cached { durable, pending, .. } = self.file(*file);
                pending.drain(..).for_each(|change| change.apply(durable));
            }
            // What was on its way is not tried again: the system has it, and the disk never gets it.
            Op::SyncFailed { file } => self.file(*file).pending.clear(),
            Op::Renamed { from, to } => {
                self.name(Naming::Move(from.clone(), to.clone(), self.names[from]));
            }
            Op::Removed { path } => self.name(Naming::Remove(path.clone())),
            Op::FolderSynced { folder } => {
                let (synced, rest) = std::mem::take(&mut self.pending)
                    .into_iter()
                    .partition::<Vec<_>, _>(|naming| naming.folder() == folder);
                synced.iter().for_each(|naming| naming.apply(&mut self.durable));
                self.pending = rest;
            }
        }
    }

    fn file(&mut self, file: u64) -> &mut Cached {
        self.files.get_mut(&file).unwrap()
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.pending.push(naming);
    }

    /// Makes what a kill leaves.
    pub(super) fn after_kill(&self, from: &Path, root: &Path) {
        for (path, file) in &self.names {
            put(path, &self.files[file].bytes, from, root);
        }
    }

    /// Makes what a loss of power leaves: any of the changes of names, and any of the writes.
    pub(super) fn after_loss(&self, from: &Path, root: &Path, random: &mut impl FnMut() -> u64) {
        let mut names = self.durable.clone();
        for naming in self.pending.iter().filter(|_| random().is_multiple_of(2)) {
            naming.apply(&mut names);
        }
        for (path, file) in &names {
            let Cached { durable, pending, .. } = &self.files[file];
            let mut bytes = durable.clone();
            for change in pending.iter().filter(|_| random().is_multiple_of(2)) {
                change.apply(&mut bytes);
            }
            put(path, &bytes, from, root);
        }
    }
}

fn put(path: &Path, bytes: &[u8], from: &Path, root: &Path) {
    let path = root.join(path.strip_prefix(from).unwrap());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
