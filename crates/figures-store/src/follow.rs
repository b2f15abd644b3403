//! Follows the journal and folds.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use figures::{Figures, FoldError};
use ledger_journal::files::Folder;
use ledger_journal::snapshot::{load, snapshots};
use ledger_journal::{Follower, Position, ReadError, segment_head, segments};

use crate::desk::Desk;
use crate::file::{FigureFile, Mark};
use crate::kept;
use crate::names::NameFile;

/// What was folded is on the disk after this time at most.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at what is sealed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Groups that are folded under one lock: readers wait no longer.
const GROUPS_AT_ONCE: u32 = 64;

/// What reports may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Hours are kept for so many days.
    pub keep_days: u64,
    /// And for so many bytes.
    pub keep_bytes_max: u64,
    /// Cells of an hour with keys of their own.
    pub cells_per_hour_max: u64,
    /// Keys that have a meaning.
    pub keys_max: u64,
    /// An hour is written to a file of its own so long after it began: hours end before, and what comes later is another cell.
    pub close_after_ms: u64,
}

/// Why figures cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The disk of the figures refuses.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// The same, or records that come next are gone.
    #[error(transparent)]
    Groups(#[from] ledger_journal::FollowError),
    /// Records that cannot be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// Folds the journal of a folder.
pub struct Follow<F: Folder> {
    follower: Follower<F>,
    file: FigureFile,
    desk: Desk,
    mark: Mark,
    names: NameFile,
    /// When the latest group that was folded was made.
    at_ms: u64,
    limits: Limits,
    /// When it was saved last, or that was tried.
    saved: Instant,
    is_failing: bool,
}

impl<F: Folder + Clone> Follow<F> {
    /// Takes up the figures that the file of `folder` has, or begins at the oldest record of the journal. `journal` ends at `tail`, and all of
    /// it is sealed; `options` are those of its bank.
    ///
    /// # Errors
    /// [`FollowError`].
    pub fn open(
        folder: &Path,
        journal: &F,
        tail: &Position,
        options: &ledger::Options,
        limits: &Limits,
    ) -> Result<Follow<F>, FollowError> {
        let (mut file, mut found) = FigureFile::open(folder)?;
        if let Some(why) = found.as_ref().and_then(|found| stranger(found, journal, tail)) {
            drop(file);
            (file, found) = (FigureFile::anew(folder, &why)?, None);
        }
        let (mut figures, mark) = match found {
            Some(found) => found,
            None => (begin(journal, options)?, Mark::NONE),
        };
        let follower = Follower::new(journal.clone(), figures.sequence());
        figures.cells_mut().set_max(limits.cells_per_hour_max);
        kept::remove_others(folder, figures.cells().kept());
        let names = NameFile::open(&folder.join("names"), limits.keys_max, limits.keep_days)?;
        let (desk, saved) = (Desk::new(figures, names.desk().clone(), folder), Instant::now());
        let (limits, at_ms) = (*limits, 0);
        Ok(Follow { follower, file, names, desk, mark, at_ms, limits, saved, is_failing: false })
    }
}

impl<F: Folder> Follow<F> {
    /// Returns where other threads read the figures.
    #[must_use]
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Folds all records before this sequence, which are sealed. `progress` is told how far it came, after some groups.
    ///
    /// # Errors
    /// [`FollowError`]; what was folded before it stays.
    pub fn catch_up(
        &mut self,
        sealed: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), FollowError> {
        while self.follower.sequence() < sealed {
            let (before, mut left) = (self.follower.sequence(), GROUPS_AT_ONCE);
            let (mut figures, mut folded) = (self.desk.lock(), Ok(()));
            let (mark, at_ms) = (&mut self.mark, &mut self.at_ms);
            self.follower.read_groups(sealed, &mut |group| {
                folded = figures.fold(group.before.sequence, group.at_ms, group.records);
                *mark = Mark::of(group);
                *at_ms = group.at_ms;
                left -= 1;
                if folded.is_err() || left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            drop(figures);
            folded?;
            progress(self.follower.sequence());
            if self.follower.sequence() == before {
                // A group that ends behind what is sealed.
                break;
            }
        }
        Ok(())
    }

    /// Has hours that are over in a file of their own, and forgets what is older than it may be. Returns whether something was forgotten.
    /// Nobody else folds, so nothing changes between the locks. Where the disk refuses, hours stay open.
    fn close_hours(&mut self) -> bool {
        if self.at_ms == 0 || !self.desk.lock().is_unsaved() {
            return false;
        }
        let hour = |ms: u64| u32::try_from(ms / 60_000).unwrap_or(u32::MAX);
        let before = hour(self.at_ms.saturating_sub(self.limits.close_after_ms));
        let (sequence, cells) = {
            let figures = self.desk.lock();
            (figures.sequence(), figures.cells().open(0, before).collect::<Vec<_>>())
        };
        if !cells.is_empty() {
            match kept::write(self.desk.folder(), sequence, &cells) {
                Ok(file) => self.desk.lock().cells_mut().close(before, file),
                Err(error) if !self.is_failing => {
                    tracing::warn!(%error, "hours of reports that are over are not written; it will be tried again each second");
                }
                Err(_) => {}
            }
        }
        let oldest = hour(self.at_ms.saturating_sub(self.limits.keep_days * 86_400_000));
        let mut figures = self.desk.lock();
        let kept = figures.cells().kept().len();
        figures.cells_mut().retire(oldest, self.limits.keep_bytes_max);
        figures.cells().kept().len() < kept
    }

    /// Has what was folded on the disk. Where the disk refuses, that is logged once, and tried again later.
    pub fn save(&mut self) {
        self.saved = Instant::now();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.names.save(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let retires = self.close_hours();
        let Some(unsaved) = self.desk.lock().unsaved() else { return };
        // Nobody else folds: readers need not wait for the disk.
        match self.file.append(unsaved, self.mark) {
            Ok(()) => {
                self.desk.note_saved();
                self.file.shorten(|| self.desk.lock().whole(), self.mark);
                if retires {
                    kept::remove_others(self.desk.folder(), self.desk.lock().cells().kept());
                }
                self.is_failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the figures of campaigns are not saved; it will be tried again each second");
                }
            }
        }
    }

    /// Follows, ten times per second, until `sealed` returns false, and saves at the end. `sealed` also returns the sequence before which all
    /// records are sealed. A journal that cannot be read, as in a process without descriptors, is read again at the next look.
    pub fn run(mut self, sealed: impl Fn() -> (bool, u64)) {
        let mut is_behind = false;
        loop {
            let (goes_on, sealed) = sealed();
            match self.catch_up(sealed, &mut |_| ()) {
                Ok(()) => is_behind = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_behind, true) {
                        tracing::error!(%error, "impressions are not counted; it is tried again all the time, and no money depends on it");
                    }
                }
            }
            if !goes_on || self.saved.elapsed() >= SAVE_EVERY {
                self.save();
            }
            if !goes_on {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Says why figures do not belong to a journal, if they do not.
fn stranger<F: Folder + Clone>(
    (figures, mark): &(Figures, Mark),
    journal: &F,
    tail: &Position,
) -> Option<String> {
    let sequence = figures.sequence();
    if sequence > tail.sequence {
        return Some(format!(
            "they stand at record {sequence}, and the journal ends before record {}",
            tail.sequence
        ));
    }
    if *mark == Mark::NONE {
        return None;
    }
    let mut found = None;
    let last =
        Follower::new(journal.clone(), sequence - 1).read_groups(tail.sequence, &mut |group| {
            found = Some(Mark::of(group));
            ControlFlow::Break(())
        });
    match (last, found) {
        (Err(error), _) => Some(format!("the records before {sequence} cannot be read: {error}")),
        (Ok(()), Some(found)) if found == *mark => None,
        (Ok(()), _) => {
            Some(format!("the records before {sequence} are not those that were counted"))
        }
    }
}

/// Figures that begin at the oldest record of a journal.
fn begin<F: Folder>(journal: &F, options: &ledger::Options) -> Result<Figures, FollowError> {
    let oldest = match segments(journal)?.first() {
        Some(number) => segment_head(journal, *number)?.position.sequence,
        None => Position::START.sequence,
    };
    let mut figures = Figures::begin(oldest);
    // The retention leaves a snapshot where the oldest segment begins.
    if snapshots(journal)?.contains(&oldest) {
        load(journal, oldest, options)?.bank.parts(&mut |part| figures.learn(&part));
    }
    Ok(figures)
}
