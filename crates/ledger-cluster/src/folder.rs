//! A data folder and the base copies beside the log: what a standby puts there, and how a folder begins from one whose journal ends
//! before the log begins.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use ledger_journal::snapshot::snapshots;
use ledger_journal::{Disk, Durability, Position, Tail, Writer, segment_head, segments};
use probe::NodeClock;

use crate::{CatchUpError, ClusterLog, Engine, Packed};

/// What of a data folder follows the log beside the journal.
const FILES: [&str; 9] = [
    "edits/log",
    "edits/set",
    "edits/ended-lately",
    "edits/carried",
    "vault/keys",
    "vault/passphrase",
    "vault/kek-of-transit",
    "vault/carried",
    "budgets-in-force",
];
/// A copy that is being unpacked...
const MAKING: &str = "base-making";
/// ...and one that is there whole, and takes the place of what was there.
const WHOLE: &str = "base-whole";

/// Files beside the journal, by their path in the data folder.
type Beside = Vec<(&'static str, Vec<u8>)>;

/// The files beside the journal, as they are now. Whoever calls this writes them.
///
/// # Errors
/// The disk.
fn files(data: &Path) -> io::Result<Beside> {
    let read = |path: &&'static str| match fs::read(data.join(path)) {
        Ok(bytes) => Some(Ok((*path, bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(error)),
    };
    FILES.iter().filter_map(read).collect()
}

/// Puts a copy of the newest snapshot, with these files that are as new or newer, beside the log, which is trimmed then.
///
/// # Errors
/// Why there is no copy.
fn put<E: Engine>(
    log: &mut ClusterLog<E>,
    journal: &Path,
    (sequence, maker): (u64, u64),
    files: &Beside,
    is_over: &dyn Fn() -> bool,
) -> Result<u64, String> {
    let told = |error: &dyn ToString| error.to_string();
    let disk = Disk::read(journal);
    for segment in segments(&disk).map_err(|error| told(&error))?.into_iter().rev() {
        let head = segment_head(&disk, segment).map_err(|error| told(&error))?;
        if head.position.sequence != sequence {
            continue;
        }
        let name = format!("snapshot-{sequence:020}.weir");
        let snapshot = File::open(journal.join(&name)).map_err(|error| told(&error))?;
        let bytes = snapshot.metadata().map_err(|error| told(&error))?.len();
        let snapshot: Box<dyn Read> = Box::new(snapshot);
        let mut packed: Vec<Packed<'_>> = vec![(format!("journal/{name}"), bytes, snapshot)];
        for (path, bytes) in files {
            packed.push(((*path).into(), bytes.len() as u64, Box::new(&bytes[..])));
        }
        let done = log.put_base((&head.position, segment), maker, packed, is_over);
        return done.map_err(|error| told(&error));
    }
    Err(format!("no segment begins with record {sequence}"))
}

/// The newest snapshot of a journal; 0: there is none.
pub fn newest(journal: &Path) -> u64 {
    snapshots(&Disk::read(journal)).ok().and_then(|all| all.last().copied()).unwrap_or(0)
}

/// What a standby's housekeeper and whoever follows the log say to each other.
#[derive(Debug, Default)]
pub struct Asked {
    /// The housekeeper is to end.
    pub stop: AtomicBool,
    /// The files beside the journal are wanted.
    wants: AtomicBool,
    files: Mutex<Option<Beside>>,
}

impl Asked {
    /// Hands the files beside the journal over, where they are wanted: whole, and newer than the snapshot. Were they?
    pub fn hand(&self, data: &Path) -> bool {
        if !self.wants.swap(false, Relaxed) {
            return false;
        }
        match files(data) {
            Ok(files) => {
                *self.files.lock().unwrap_or_else(PoisonError::into_inner) = Some(files);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "no base copy: this folder's files cannot be read");
                false
            }
        }
    }
}

/// Opens a log once more, for another thread.
pub type Connect<E> = Box<dyn Fn() -> Result<ClusterLog<E>, String> + Send>;

/// Base copies of a standby's snapshots.
pub struct Copies<E> {
    journal: PathBuf,
    maker: u64,
    connect: Connect<E>,
    /// The newest one that is there.
    put: u64,
    /// The one that files were asked for.
    wanted: u64,
}

impl<E: Engine> Copies<E> {
    /// Of a data folder; `maker` tells processes apart, whatever their nodes are called.
    pub fn new(data: &Path, maker: u64, connect: Connect<E>) -> Copies<E> {
        Copies { journal: data.join("journal"), maker, connect, put: 0, wanted: 0 }
    }

    /// Puts a copy of the newest snapshot beside the log, once the files are there that go with it.
    pub fn look(&mut self, asked: &Asked) {
        let files = asked.files.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(files) = files else {
            let newest = newest(&self.journal);
            if newest > self.put {
                self.wanted = newest;
                asked.wants.store(true, Relaxed);
            }
            return;
        };
        // A snapshot that was made since may be newer than the files.
        let newest = self.wanted;
        let is_over = || asked.stop.load(Relaxed);
        let (journal, of) = (&self.journal, (newest, self.maker));
        let put = (self.connect)().and_then(|mut log| put(&mut log, journal, of, &files, &is_over));
        match put {
            Ok(trimmed) => {
                self.put = newest;
                tracing::info!(record = newest - 1, trimmed, "a base copy is beside the log");
            }
            Err(_) if is_over() => {}
            Err(error) => {
                tracing::warn!(
                    error,
                    "no base copy beside the log, which is not trimmed; it is tried again"
                );
            }
        }
    }
}

/// A data folder, and what its journal is written with.
#[derive(Clone, Debug)]
pub struct DataFolder {
    /// The folder.
    pub path: PathBuf,
    /// How its journal is sealed.
    pub durability: Durability,
    /// `node.id`.
    pub node: u16,
    /// Length of a segment.
    pub segment_bytes: u64,
}

impl DataFolder {
    /// Begins a journal in a folder, behind a place.
    pub(crate) fn writer(
        &self,
        path: &Path,
        position: Position,
        next_segment: u64,
    ) -> io::Result<Writer<Disk>> {
        let disk = Disk::open(path, self.durability)?;
        let tail = Tail { position, next_segment };
        Ok(Writer::new(disk, self.node, self.segment_bytes, tail))
    }

    /// Puts a copy of its newest snapshot beside the log that was begun from it, with what followed a log before. No other node begins without one where
    /// the journal does not reach back to the first record. Unless it `must` be there, what fails is said only.
    ///
    /// # Errors
    /// Why there is none.
    pub fn put_base<E: Engine>(
        &self,
        log: &mut ClusterLog<E>,
        must: bool,
    ) -> Result<(), CatchUpError> {
        let journal = self.path.join("journal");
        let of = (newest(&journal), std::process::id().into());
        if of.0 == 0 {
            return Ok(());
        }
        let mut files = files(&self.path).map_err(|error| CatchUpError::Disk(error.to_string()))?;
        // What did not is sent by the first run.
        files.retain(|(path, _)| {
            let folder = path.split_once('/').map(|(folder, _)| self.path.join(folder));
            folder.is_none_or(|folder| folder.join("carried").exists())
        });
        match put(log, &journal, of, &files, &|| false) {
            Err(why) if must => Err(CatchUpError::Disk(why)),
            Err(why) => {
                tracing::warn!(why, "no base copy beside the log");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Has it begin from the newest base copy. Its own journal, and what else follows the log, are moved aside.
    ///
    /// # Errors
    /// [`CatchUpError`]: the folder is as it was, or is made right by the next start.
    pub fn begin<E: Engine>(&self, log: &mut ClusterLog<E>) -> Result<(), CatchUpError> {
        let making = self.path.join(MAKING);
        let base = log.unpack_base(&making)?;
        let place = || {
            // A snapshot stands where its segment begins.
            let path = making.join("journal");
            self.writer(&path, base.position(), base.segment)?.open(NodeClock::new().now_ms())?;
            fs::rename(&making, self.path.join(WHOLE))?;
            sync(&self.path)?;
            tracing::warn!(
                record = base.position().sequence - 1,
                "this folder's journal ends before the log begins: it begins anew from a base copy"
            );
            settle(&self.path)
        };
        place().map_err(|error| CatchUpError::Disk(error.to_string()))
    }
}

/// A folder of its own for what is moved aside.
pub(crate) fn aside(data: &Path, what: &str) -> PathBuf {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    data.join(format!("{what}-{}", since.as_millis()))
}

/// Moves the journal and all that follows the log aside: the journal last, so that a kill in between leaves a folder that is refused or whole.
pub(crate) fn move_aside(data: &Path, what: &str) -> io::Result<PathBuf> {
    let aside = aside(data, what);
    fs::create_dir_all(&aside)?;
    for name in [
        "watermark.weir",
        "figures",
        "budgets-in-force",
        "edits",
        "vault",
        "vault-begun",
        "journal",
    ] {
        match fs::rename(data.join(name), aside.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => sync(data)?,
        }
    }
    sync(&aside)?;
    Ok(aside)
}

/// Puts a copy in its place that is there whole: each of its files, one after the other. A kill in between leaves the rest to the next start.
///
/// # Errors
/// The folder cannot be written.
pub fn settle(data: &Path) -> io::Result<()> {
    let whole = data.join(WHOLE);
    if !whole.exists() {
        return Ok(());
    }
    let aside = aside(data, "before-base");
    for name in ["figures", "budgets-in-force", "edits", "vault", "journal"] {
        let (from, to) = (whole.join(name), data.join(name));
        let is_there = from.exists();
        // Figures go by the journal: they are counted anew from where it begins.
        if to.exists() && (is_there || name == "figures") {
            fs::create_dir_all(&aside)?;
            fs::rename(&to, aside.join(name))?;
            sync(&aside)?;
        }
        if is_there {
            fs::rename(from, to)?;
        }
        sync(data)?;
    }
    fs::remove_dir_all(&whole)?;
    sync(data)?;
    if aside.exists() {
        tracing::warn!(aside = %aside.display(), "what this folder had before is kept there");
    }
    Ok(())
}

pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
