//! A disk that forgets: it notes every write, sync and change of names, and makes of them what is left after any of these by a kill (all that
//! was done), or by a loss of power (all that was synced, and any part of the rest).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::folders::folder;
use crate::system::op::Op;

thread_local! {
    static OPS: RefCell<Option<Vec<Noted>>> = const { RefCell::new(None) };
}

/// What a disk was asked for; a file is known by the number of its inode.
#[derive(Clone, Debug)]
enum Noted {
    Made(PathBuf, u64),
    Changed(u64, Change),
    Synced(u64),
    SyncFailed(u64),
    Named(Naming),
    FolderSynced(PathBuf),
}

fn number(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

/// Notes something, if anybody wants to know.
pub(super) fn note(op: Op<'_>, is_done: bool) {
    let noted = |op| match op {
        Op::Sync(file) | Op::SyncCut(file) if !is_done => Some(Noted::SyncFailed(number(file))),
        Op::Cut(file) => {
            Some(Noted::Changed(number(file), Change::Cut(file.metadata().unwrap().len())))
        }
        _ if !is_done => None,
        Op::Create(path) => Some(Noted::Made(path.into(), fs::metadata(path).unwrap().ino())),
        Op::Write(file, at, bytes) => {
            Some(Noted::Changed(number(file), Change::Write(at, bytes.into())))
        }
        Op::Sync(file) | Op::SyncCut(file) => Some(Noted::Synced(number(file))),
        Op::Rename(from, to) => Some(Noted::Named(Naming::Move(from.into(), to.into()))),
        Op::Remove(path) => Some(Noted::Named(Naming::Remove(path.into()))),
        Op::SyncFolder(folder) => Some(Noted::FolderSynced(folder.into())),
    };
    OPS.with_borrow_mut(|ops| ops.as_mut().map(|ops| ops.extend(noted(op))).unwrap_or_default());
}

/// What a scenario asked the disk for.
#[derive(Debug)]
pub struct Recording {
    root: PathBuf,
    ops: Vec<Noted>,
}

/// How a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Behind so many operations.
    pub at: usize,
    /// By a loss of power, not by a kill.
    pub is_loss: bool,
}

impl Recording {
    /// Begins to note what this thread does in a folder, which is empty.
    pub fn begin(root: &Path) {
        assert_eq!(fs::read_dir(root).unwrap().count(), 0, "what is there already would be missed");
        OPS.set(Some(Vec::new()));
    }

    /// Returns how much was noted.
    #[must_use]
    pub fn length() -> usize {
        OPS.with_borrow(|ops| ops.as_ref().map_or(0, Vec::len))
    }

    /// Returns what was noted.
    #[must_use]
    pub fn end(root: &Path) -> Recording {
        Recording { root: root.to_owned(), ops: OPS.take().unwrap() }
    }

    /// Counts how often a file got the place of another, by its name before.
    #[must_use]
    pub fn renames_of(&self, name: &str) -> usize {
        let is_of =
            |op: &&Noted| matches!(op, Noted::Named(Naming::Move(from, _)) if from.ends_with(name));
        self.ops.iter().filter(is_of).count()
    }

    /// Ends the scenario behind each operation that `is_end` wants, once by a kill and `losses` times by a loss of power, and lets `check` judge
    /// the folder that is left.
    pub fn at_each_ending(
        &self,
        losses: u64,
        is_end: impl Fn(usize) -> bool,
        mut check: impl FnMut(Ending, &Path),
    ) {
        let mut disk = Disk::default();
        for at in 0..=self.ops.len() {
            if at > 0 {
                disk.apply(&self.ops[at - 1]);
            }
            for loss in (0..=losses).filter(|_| is_end(at)) {
                let left = folder();
                match loss {
                    0 => disk.after_kill(&self.root, left.path()),
                    _ => {
                        disk.after_loss(&self.root, left.path(), &mut random(at as u64 * 7 + loss))
                    }
                }
                check(Ending { at, is_loss: loss > 0 }, left.path());
            }
        }
    }
}

/// A sequence that repeats.
fn random(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    }
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

type Names = BTreeMap<PathBuf, u64>;

#[derive(Clone, Debug)]
enum Naming {
    Add(PathBuf, u64),
    Move(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Naming {
    fn folder(&self) -> &Path {
        let (Naming::Add(path, _) | Naming::Move(_, path) | Naming::Remove(path)) = self;
        path.parent().unwrap()
    }

    /// Changes names; `moved` is the file of a move, which may have lost its old name.
    fn apply(&self, names: &mut Names, moved: Option<u64>) {
        match self {
            Naming::Add(path, file) => drop(names.insert(path.clone(), *file)),
            Naming::Move(from, to) => {
                if names.get(from).copied() == moved {
                    names.remove(from);
                }
                names.extend(moved.map(|file| (to.clone(), file)));
            }
            Naming::Remove(path) => drop(names.remove(path)),
        }
    }
}

/// A disk after some operations.
#[derive(Debug, Default)]
struct Disk {
    files: HashMap<u64, Cached>,
    names: Names,
    durable: Names,
    pending: Vec<(Naming, Option<u64>)>,
}

impl Disk {
    fn apply(&mut self, op: &Noted) {
        match op {
            Noted::Made(path, file) if self.names.get(path) == Some(file) => {
                self.change(*file, Change::Cut(0));
            }
            Noted::Made(path, file) => {
                self.files.insert(*file, Cached::default());
                self.name(Naming::Add(path.clone(), *file));
            }
            Noted::Changed(file, change) => self.change(*file, change.clone()),
            Noted::Synced(file) => {
                let Cached { durable, pending, .. } = self.file(*file);
                pending.drain(..).for_each(|change| change.apply(durable));
            }
            // What was on its way is not tried again: the system has it, and the disk never gets it.
            Noted::SyncFailed(file) => self.file(*file).pending.clear(),
            Noted::Named(naming) => self.name(naming.clone()),
            Noted::FolderSynced(folder) => {
                let is_in = |naming: &mut (Naming, Option<u64>)| naming.0.folder() == folder;
                for (naming, moved) in self.pending.extract_if(.., is_in) {
                    naming.apply(&mut self.durable, moved);
                }
            }
        }
    }

    fn file(&mut self, file: u64) -> &mut Cached {
        self.files.get_mut(&file).unwrap()
    }

    fn change(&mut self, file: u64, change: Change) {
        let file = self.file(file);
        change.apply(&mut file.bytes);
        file.pending.push(change);
    }

    fn name(&mut self, naming: Naming) {
        let moved = match &naming {
            Naming::Move(from, _) => Some(self.names[from]),
            _ => None,
        };
        naming.apply(&mut self.names, moved);
        self.pending.push((naming, moved));
    }

    /// Makes what a kill leaves.
    fn after_kill(&self, from: &Path, root: &Path) {
        for (path, file) in &self.names {
            put(path, &self.files[file].bytes, from, root);
        }
    }

    /// Makes what a loss of power leaves: any of the changes of names, and any of the writes.
    fn after_loss(&self, from: &Path, root: &Path, random: &mut impl FnMut() -> u64) {
        let mut names = self.durable.clone();
        for (naming, moved) in self.pending.iter().filter(|_| random().is_multiple_of(2)) {
            naming.apply(&mut names, *moved);
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
