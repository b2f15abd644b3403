//! Base copies of a data folder beside the log on other machines: what a standby puts there, and how a folder begins from one whose journal ends
//! before the log begins.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ledger_cluster::{AnyEngine, BeginError, ClusterLog, Packed};
use ledger_journal::snapshot::snapshots;
use ledger_journal::{Disk, Tail, Writer, segment_head, segments};
use probe::NodeClock;
use weir_config::config::Config;

use crate::error::StartError;

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

/// Files by their path in the data folder.
pub(crate) type Files = Vec<(&'static str, Vec<u8>)>;

/// The files beside the journal, as they are now. Whoever calls this writes them.
pub(crate) fn files(data: &Path) -> io::Result<Files> {
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
pub(crate) fn put(
    log: &mut ClusterLog<AnyEngine>,
    journal: &Path,
    (sequence, maker): (u64, u64),
    files: &Files,
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
pub(crate) fn newest(journal: &Path) -> u64 {
    snapshots(&Disk::read(journal)).ok().and_then(|all| all.last().copied()).unwrap_or(0)
}

/// Has a data folder begin from the newest base copy. Its own journal, and what else follows the log, are moved aside.
///
/// # Errors
/// [`StartError`]: the folder is as it was, or is made right by the next start.
pub(crate) fn begin(config: &Config, log: &mut ClusterLog<AnyEngine>) -> Result<(), StartError> {
    let (data, making) = (&config.node.data_dir, config.node.data_dir.join(MAKING));
    let base = log.unpack_base(&making).map_err(BeginError::from)?;
    let path = making.join("journal");
    let failed = |source| StartError::Journal { path: path.clone(), source };
    // A snapshot stands where its segment begins.
    let disk = Disk::open(&path, config.journal.durability).map_err(failed)?;
    let tail = Tail { position: base.position(), next_segment: base.segment };
    let mut writer = Writer::new(disk, config.node.id, config.journal.segment_bytes, tail);
    writer.open(NodeClock::new().now_ms()).map_err(failed)?;
    drop(writer);
    let named = fs::rename(&making, data.join(WHOLE)).and_then(|()| sync(data));
    named.map_err(|source| StartError::Data { path: data.clone(), source })?;
    tracing::warn!(
        record = base.position().sequence - 1,
        "this folder's journal ends before the log begins: it begins anew from a base copy"
    );
    settle(data)
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
    for name in ["watermark.weir", "figures", "budgets-in-force", "edits", "vault", "journal"] {
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
pub(crate) fn settle(data: &Path) -> Result<(), StartError> {
    let whole = data.join(WHOLE);
    let failed = |source| StartError::Data { path: data.to_path_buf(), source };
    if !whole.exists() {
        return Ok(());
    }
    let aside = aside(data, "before-base");
    let place = || {
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
        sync(data)
    };
    place().map_err(failed)?;
    if aside.exists() {
        tracing::warn!(aside = %aside.display(), "what this folder had before is kept there");
    }
    Ok(())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
