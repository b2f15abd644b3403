//! Two histories, or a log that is gone: what a person is shown, who decides then. Nothing is decided here, and nothing is deleted that was not written
//! elsewhere before.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::Record;
use ledger_journal::files::Folder;
use ledger_journal::{Disk, Group, Log, Position, segment_head, segments};

use crate::engine::Ask;
use crate::folder::{aside, move_aside, sync};
use crate::{
    BeginError, CatchUpError, ClusterError, ClusterLog, DataFolder, Engine, LogFault, NodeLog,
};

/// What one of two histories has behind the last place that both have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Records.
    pub records: u64,
    /// Bookings of spend by one hold each.
    pub settled: u64,
    /// Runs that began, with the machine.
    pub runs: Vec<(u32, String)>,
    /// The time of its last group, ms since 1970 UTC.
    pub last_ms: u64,
}

/// Both histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histories {
    /// The last place that both have.
    pub common: Position,
    /// The first record of the log, where that was trimmed behind `common`: whether they were the same before is not known.
    pub trimmed: Option<u64>,
    /// `None`: there is no such stream.
    pub log: Option<History>,
    /// The node's own journal.
    pub disk: History,
}

impl History {
    fn take(&mut self, group: &Group) -> Result<(), CatchUpError> {
        let read = group.each_record(|record| {
            self.records += 1;
            match record {
                Record::RunStarted { run, node, .. } => self.runs.push((run, node.into())),
                Record::Resolved { amount, .. } if amount.get() > 0 => self.settled += 1,
                _ => {}
            }
        });
        self.last_ms = group.at_ms();
        read.map_err(|fault| CatchUpError::Disk(fault.to_string()))
    }
}

impl<F: Folder, E: Engine> NodeLog<F, E> {
    /// Finds where log and disk part, and what each has behind that.
    ///
    /// # Errors
    /// [`CatchUpError`], also where they have nothing in common.
    pub fn compare(&mut self, folder: &F) -> Result<Histories, CatchUpError> {
        let mut places = Vec::new();
        let mut place = |group: &Group| {
            if places.is_empty() {
                places.push(*group.before());
            }
            places.push(*group.after());
            Ok(())
        };
        self.each_on_disk(folder, 0, &mut place)?;
        let mut disk = History::default();
        let Some((common, trimmed)) = self.log().common(&places)? else {
            self.each_on_disk(folder, 0, &mut |group| disk.take(group))?;
            let common = places.first().copied().unwrap_or(Position::START);
            return Ok(Histories { common, trimmed: None, log: None, disk });
        };
        self.each_on_disk(folder, common.sequence, &mut |group| disk.take(group))?;
        let (mut log, mut taken) = (History::default(), Ok(()));
        match trimmed {
            Some(_) => self.log().seek_oldest()?,
            None => self.log().seek(&common)?,
        };
        self.log().read_on(&mut |_, group| {
            taken = log.take(group);
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        taken?;
        Ok(Histories { common, trimmed, log: Some(log), disk })
    }

    /// Hands out the groups of the disk that begin with this record or behind it.
    pub(crate) fn each_on_disk(
        &mut self,
        folder: &F,
        from: u64,
        each: &mut dyn FnMut(&Group) -> Result<(), CatchUpError>,
    ) -> Result<(), CatchUpError> {
        let damaged = |error: &dyn ToString| CatchUpError::Disk(error.to_string());
        let first = segments(folder).map_err(|error| damaged(&error))?.first().copied();
        let Some(first) = first else { return Ok(()) };
        let begin = segment_head(folder, first).map_err(|error| damaged(&error))?.position;
        let (mut at, mut failed) = (begin, Ok(()));
        let read = self.read(&begin, &mut |entry| {
            let taken = Group::read(entry, &at).map_err(|fault| damaged(&fault));
            failed = taken.and_then(|group| {
                at = *group.after();
                if group.before().sequence >= from { each(&group) } else { Ok(()) }
            });
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.map_err(|error| damaged(&error))?;
        failed
    }
}

impl<E: Engine> ClusterLog<E> {
    /// The last of these places, rising, that the log has, and with which record it begins where it was trimmed behind that; `None`: there is no such
    /// stream.
    fn common(
        &mut self,
        places: &[Position],
    ) -> Result<Option<(Position, Option<u64>)>, ClusterError> {
        let (mut low, mut high) = (0, places.len());
        while low < high {
            let middle = low.midpoint(high);
            // What was trimmed was the same.
            match self.seek_again(&places[middle]).map_err(|error| error.fault) {
                Ok(_) | Err(LogFault::Trimmed { .. }) => low = middle + 1,
                Err(LogFault::Fork { .. } | LogFault::Behind { .. }) => high = middle,
                Err(LogFault::NoStream) => return Ok(None),
                Err(fault) => return Err(self.error(fault)),
            }
        }
        let common = low.checked_sub(1).map_or(Position::START, |at| places[at]);
        match self.seek_again(&common) {
            Err(ClusterError { fault: LogFault::Trimmed { first, .. }, .. }) => {
                Ok(Some((common, Some(first))))
            }
            sought => sought.map(|_| Some((common, None))),
        }
    }

    /// Writes what the log has into a folder: all of it, or behind `common` where it was trimmed.
    fn save(
        &mut self,
        common: &Position,
        folder: &DataFolder,
        path: &Path,
    ) -> Result<(), CatchUpError> {
        let extent = self.extent().map_err(|fault| self.error(fault))?;
        let begins = if extent.first <= 1 { &Position::START } else { common };
        self.seek_again(begins)?;
        let failed = |error: std::io::Error| CatchUpError::Disk(error.to_string());
        let (mut disk, mut copied) = (folder.writer(path, *begins, 1).map_err(failed)?, Ok(()));
        self.read_on(&mut |_, group| {
            copied = disk.copy(group);
            if copied.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        copied.and_then(|()| disk.seal_copied()).map_err(failed)?;
        if self.place.entry != extent.last {
            return Err(self.error(LogFault::Away(format!(
                "it was read up to entry {}, and ends with entry {}: nothing was removed, try again",
                self.place.entry, extent.last
            ))))?;
        }
        // Durable, however the node's own journal is.
        let mut all = fs::read_dir(path).map_err(failed)?;
        all.try_for_each(|file| sync(&file?.path())).map_err(failed)?;
        path.ancestors().take(3).try_for_each(sync).map_err(failed)
    }

    /// The number of the last entry; `None`: there is no such stream.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn there(&mut self) -> Result<Option<u64>, ClusterError> {
        match self.extent() {
            Err(LogFault::NoStream) => Ok(None),
            extent => extent.map(|extent| Some(extent.last)).map_err(|fault| self.error(fault)),
        }
    }

    /// Removes the stream, and the base copies of it.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn remove(&mut self) -> Result<(), ClusterError> {
        self.keep_only("copy", &|_| false)?;
        match self.ask(&mut || Ask::Drop) {
            Ok(_) | Err(LogFault::NoStream) => Ok(()),
            Err(fault) => Err(self.error(fault)),
        }
    }
}

/// Which of two histories stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The log's: the folder begins anew from it.
    Log,
    /// The folder's: the log begins anew from it.
    Disk,
}

/// What [`heal`] found and did.
#[derive(Debug)]
pub struct Healed {
    /// Both histories.
    pub found: Histories,
    /// Where the other one is kept from now on, in the data folder.
    pub aside: Option<PathBuf>,
}

/// Shows where a log and a folder's journal part, and keeps the one that is named; the other one is moved aside. Where the disk is kept there is no
/// stream then: one is to be made, and the journal put into it. `silence`: for so long no bank may append.
///
/// # Errors
/// They cannot be read, a node runs, or what is to be kept cannot be.
pub fn heal<E: Engine>(
    mut node: NodeLog<Disk, E>,
    disk: &Disk,
    folder: &DataFolder,
    keep: Option<(Side, &str)>,
    silence: Duration,
) -> Result<Healed, BeginError> {
    let found = node.compare(disk)?;
    let Some((keep, why)) = keep else { return Ok(Healed { found, aside: None }) };
    let refused = |text: &str| Err(BeginError::Refused(text.to_string()));
    let failed = |error: std::io::Error| CatchUpError::Disk(error.to_string());
    let mut log = node.into_log();
    let aside = match keep {
        Side::Log if found.log.is_none() => {
            return refused(
                "there is no such stream, so there is no log to be kept: keep the disk, of the node whose journal is the longest",
            );
        }
        Side::Log if found.log.as_ref().is_some_and(|log| log.records == 0) => {
            return refused(
                "the log has nothing that this folder has not: a start appends to it what is missing there",
            );
        }
        Side::Log => {
            let extent = log.extent().map_err(|fault| log.error(fault))?;
            if extent.first > 1 {
                // The folder begins anew from a base copy.
                log.seek_oldest()?;
            }
            move_aside(&folder.path, "before-heal").map_err(failed)?
        }
        Side::Disk if found.disk.records == 0 => {
            return refused(
                "this folder has nothing that the log has not: there is nothing to be kept",
            );
        }
        Side::Disk if found.trimmed.is_some() => {
            return refused(
                "the log was trimmed behind the place where they part, so it cannot be written into this folder: keep the log",
            );
        }
        Side::Disk => {
            let aside = aside(&folder.path, "log-before-heal");
            // That there is no stream may be an old answer, or of a server that is apart.
            let before = found.log.is_some().then(|| log.last_entry()).transpose()?;
            std::thread::sleep(silence);
            if log.there()? != before {
                return refused(
                    "the log changes, or is there again: stop all nodes of the cluster first",
                );
            }
            if before.is_some() {
                log.save(&found.common, folder, &aside.join("journal"))?;
                log.remove()?;
            }
            aside
        }
    };
    fs::create_dir_all(&aside).map_err(failed)?;
    fs::write(aside.join("why"), format!("kept: {keep:?}\n{why}\n")).map_err(failed)?;
    tracing::warn!(?keep, why, aside = %aside.display(), "one of two histories is kept");
    Ok(Healed { found, aside: Some(aside) })
}
