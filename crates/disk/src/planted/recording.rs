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
#[derive(Debug)]
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

fn number_at(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Notes something, if anybody wants to know.
pub(super) fn note(op: Op<'_>, is_done: bool) {
    OPS.with_borrow_mut(|ops| {
        let Some(ops) = ops else { return };
        ops.extend(match op {
            Op::Sync(file) | Op::SyncCut(file) if is_done => Some(Noted::Synced(number(file))),
            Op::Sync(file) | Op::SyncCut(file) => Some(Noted::SyncFailed(number(file))),
            _ if !is_done => None,
            Op::Create(path) => Some(Noted::Made(path.into(), number_at(path))),
            Op::Write(file, at, bytes) => {
                let change = Change::Write(usize::try_from(at).unwrap(), bytes.into());
                Some(Noted::Changed(number(file), change))
            }
            Op::Cut(file) => {
                let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
                Some(Noted::Changed(number(file), Change::Cut(length)))
            }
            Op::Rename(from, to) => {
                Some(Noted::Named(Naming::Move(from.into(), to.into(), number_at(to))))
            }
            Op::Remove(path) => Some(Noted::Named(Naming::Remove(path.into()))),
            Op::SyncFolder(folder) => Some(Noted::FolderSynced(folder.into())),
        });
    });
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
        let is_of = |op: &&Noted| matches!(op, Noted::Named(Naming::Move(from, ..)) if from.ends_with(name));
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
                let random = (loss > 0).then(|| random(at as u64 * 7 + loss));
                disk.leave(&self.root, left.path(), random);
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

/// A change of what the system has: of the bytes of a file, or of names.
trait Apply<S> {
    fn apply(&self, to: &mut S);
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Apply<Vec<u8>> for Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Change::Cut(length) => bytes.resize(*length, 0),
        }
    }
}

type Names = BTreeMap<PathBuf, u64>;

#[derive(Clone, Debug)]
enum Naming {
    Add(PathBuf, u64),
    Move(PathBuf, PathBuf, u64),
    Remove(PathBuf),
}

impl Naming {
    fn is_in(&self, folder: &Path) -> bool {
        let (Naming::Add(path, _) | Naming::Move(_, path, _) | Naming::Remove(path)) = self;
        path.parent() == Some(folder)
    }
}

impl Apply<Names> for Naming {
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

/// What the system has, what the disk has, and what is on its way.
#[derive(Debug)]
struct Cached<S, C> {
    now: S,
    durable: S,
    pending: Vec<C>,
}

impl<S: Default, C> Default for Cached<S, C> {
    fn default() -> Cached<S, C> {
        Cached { now: S::default(), durable: S::default(), pending: Vec::new() }
    }
}

impl<S: Clone, C: Apply<S>> Cached<S, C> {
    fn change(&mut self, change: C) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    fn sync(&mut self, is_synced: impl Fn(&C) -> bool) {
        for change in self.pending.extract_if(.., |change| is_synced(change)) {
            change.apply(&mut self.durable);
        }
    }

    /// What is left: all, or without power what the disk has and any part of what is on its way.
    fn left(&self, random: &mut Option<impl FnMut() -> u64>) -> S {
        let Some(random) = random else { return self.now.clone() };
        let mut left = self.durable.clone();
        let arrived = self.pending.iter().filter(|_| random().is_multiple_of(2));
        arrived.for_each(|change| change.apply(&mut left));
        left
    }
}

/// A disk after some operations.
#[derive(Debug, Default)]
struct Disk {
    files: HashMap<u64, Cached<Vec<u8>, Change>>,
    names: Cached<Names, Naming>,
}

impl Disk {
    fn apply(&mut self, op: &Noted) {
        match op {
            Noted::Made(path, file) if self.names.now.get(path) == Some(file) => {
                self.file(*file).change(Change::Cut(0));
            }
            Noted::Made(path, file) => {
                self.files.insert(*file, Cached::default());
                self.names.change(Naming::Add(path.clone(), *file));
            }
            Noted::Changed(file, change) => self.file(*file).change(change.clone()),
            Noted::Synced(file) => self.file(*file).sync(|_| true),
            // What was on its way is not tried again: the system has it, and the disk never gets it.
            Noted::SyncFailed(file) => self.file(*file).pending.clear(),
            Noted::Named(naming) => self.names.change(naming.clone()),
            Noted::FolderSynced(folder) => self.names.sync(|naming| naming.is_in(folder)),
        }
    }

    fn file(&mut self, file: u64) -> &mut Cached<Vec<u8>, Change> {
        self.files.get_mut(&file).unwrap()
    }

    /// Makes what a kill leaves, or a loss of power: any of the changes of names and of the writes that are on their way.
    fn leave(&self, from: &Path, root: &Path, mut random: Option<impl FnMut() -> u64>) {
        for (path, file) in self.names.left(&mut random) {
            let path = root.join(path.strip_prefix(from).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, self.files[&file].left(&mut random)).unwrap();
        }
    }
}
