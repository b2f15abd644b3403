//! What a data folder knows of its journal beside the journal's own files, and what a start makes of it.

use std::io;
use std::path::{Path, PathBuf};

pub use ledger_journal::Rollback;
use ledger_journal::snapshot::snapshots;
use ledger_journal::{Disk, Known, ReadError, WATERMARK, Watermark, WatermarkError, segments};

use crate::error::StartError;

/// Where a running node says its addresses: the last thing that a start writes. A clean stop takes it away.
pub const ADDRESSES: &str = "addresses.json";

/// What an operator lets a start do once. With neither, a journal that is gone or rolled back is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// Begin a new ledger where the data folder was used before and its journal is gone. Where a journal is, this does
    /// nothing.
    pub new_ledger: bool,
    /// Go on from a journal although this, which was known to be sealed, is given up.
    pub accept_rollback: Option<Rollback>,
}

/// What was noted as sealed in a data folder; `None` if there is no note that can be read.
pub fn watermark(data: &Path) -> Result<Option<Watermark>, WatermarkError> {
    Watermark::read(&Disk::read(data))
}

/// Why a new ledger must not begin silently in a data folder: it was used before, and its journal has no file. `None`
/// if it has some, or if no node ever ran on the folder.
pub fn lost(data: &Path) -> Result<Option<String>, ReadError> {
    let journal = data.join("journal");
    if has_journal(&journal)? {
        return Ok(None);
    }
    let trace = [WATERMARK, ADDRESSES].into_iter().find(|name| data.join(name).exists());
    Ok(trace.map(|trace| {
        format!(
            "data folder {} was used by a node before ({trace} is there), and its journal {} is missing or empty: with \
             a new one all limits would be whole again. Nothing was changed. Is the right disk mounted? Put the folder \
             back, or the newest backup of it. To begin a new ledger on purpose, start once with `weir run --new-ledger`",
            data.display(),
            journal.display()
        )
    }))
}

/// Takes the addresses of a node that has stopped away, so that nobody asks there for it. They stay where nothing else
/// tells that the folder was used, see [`lost`]: tools then find that who answers there is not this node.
pub fn forget_addresses(data: &Path) {
    if matches!(watermark(data), Ok(Some(_)))
        && let Err(error) = std::fs::remove_file(data.join(ADDRESSES))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "{ADDRESSES} was not removed");
    }
}

/// Is there any segment or snapshot?
fn has_journal(journal: &Path) -> Result<bool, ReadError> {
    let disk = Disk::read(journal);
    let empty = |error: &ReadError| matches!(error, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
    match segments(&disk).and_then(|all| Ok(all.len() + snapshots(&disk)?.len())) {
        Ok(files) => Ok(files > 0),
        Err(error) if empty(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a start compares the journal with, and what it says before.
///
/// # Errors
/// The journal is gone and no new ledger is permitted, or the folder cannot be read.
pub(super) fn before_start(data: &Path, permits: Permits) -> Result<Known, StartError> {
    let failed = |error: &dyn ToString| StartError::Journal {
        path: data.join("journal"),
        source: io::Error::other(error.to_string()),
    };
    match (lost(data).map_err(|error| failed(&error))?, permits.new_ledger) {
        (Some(why), false) => return Err(StartError::NoJournal(why)),
        (Some(_), true) => {
            tracing::warn!("a new ledger begins, as permitted: every limit is whole again");
            set_aside(data).map_err(|error| failed(&error))?;
        }
        (None, true) => {
            tracing::warn!(
                "--new-ledger does nothing: there is a journal, or nothing at all; leave the flag out"
            );
        }
        (None, false) => {}
    }
    let watermark = watermark(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "it cannot be seen whether the journal was rolled back; the file is written anew");
        None
    });
    Ok(Known { watermark, accepted: permits.accept_rollback })
}

/// What a start with a log on other machines compares that log with. A journal that is gone comes from there, so nothing is permitted.
///
/// # Errors
/// An operator permits what is not his to permit.
pub(super) fn of_log(data: &Path, permits: Permits) -> Result<Known, StartError> {
    if permits != Permits::default() {
        return Err(StartError::Cluster(
            "--new-ledger and --accept-rollback are for a journal on one disk: with cluster.log the log decides; leave the flag out".into(),
        ));
    }
    let watermark = watermark(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "what this folder knew to be sealed cannot be read; the file is written anew");
        None
    });
    Ok(Known { watermark, accepted: None })
}

/// Keeps the watermark of a journal that is not gone on from, under another name. Returns that.
pub fn set_aside(data: &Path) -> io::Result<Option<PathBuf>> {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let aside = data.join(format!("watermark-before-{}.weir", since.as_millis()));
    match std::fs::rename(data.join(WATERMARK), &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
