//! Where other threads read figures.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use counters::counters;
use figures::{Figures, Total};

use crate::names::NameDesk;

counters! {
    /// How far the figures of campaigns are.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Progress of u64, in "figures" {
        records: "The first record of the journal that is not counted; it follows `journal.sealed` within a second. 0: nothing is counted in this run, the log says why.", level();
        saved: "The first record that is not in figures on the disk; where it stands still, the disk refuses them.", level();
        clashes: "Times that two names in reports were found to have one key, at most once per hour and worker; both count as the first.";
    }
}

/// The figures as they stand. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk {
    figures: Arc<Mutex<Figures>>,
    /// All records before this sequence are in figures that are on the disk.
    unread: Arc<AtomicU64>,
    names: NameDesk,
    /// Where the files of cells are.
    folder: Arc<PathBuf>,
}

impl Desk {
    pub(crate) fn new(figures: Figures, names: NameDesk, folder: &Path) -> Desk {
        let unread = Arc::new(AtomicU64::new(figures.sequence()));
        let folder = Arc::new(folder.to_owned());
        Desk { figures: Arc::new(Mutex::new(figures)), unread, names, folder }
    }

    /// Returns a desk that nobody counts for.
    #[must_use]
    pub fn empty() -> Desk {
        Desk::new(Figures::begin(u64::MAX), NameDesk::empty(), Path::new(""))
    }

    /// Returns a desk that nobody counts for in this run, but a later one will: the journal keeps its records, as far as its limits let it.
    #[must_use]
    pub fn later() -> Desk {
        let desk = Desk::empty();
        desk.unread.store(0, Relaxed);
        desk
    }

    /// Whether somebody counts.
    pub(crate) fn is_counting(&self) -> bool {
        self.sequence() != u64::MAX
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Figures> {
        // Figures change by whole records: those of a thread that panicked are sound.
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what keys mean in reports.
    #[must_use]
    pub fn names(&self) -> &NameDesk {
        &self.names
    }

    /// Notes that what is folded is on the disk.
    pub(crate) fn note_saved(&self) {
        let mut figures = self.lock();
        figures.saved();
        self.unread.store(figures.sequence(), Relaxed);
    }

    /// Returns what was counted of each of these budgets and of those under it; zero where nothing was.
    #[must_use]
    pub fn totals(&self, ids: impl Iterator<Item = u64>) -> Vec<Total> {
        let figures = self.lock();
        ids.map(|id| figures.total(id).unwrap_or_default()).collect()
    }

    /// Returns when the first record that was folded was made, ms since the Unix epoch; `None`: nothing was folded yet.
    #[must_use]
    pub fn since_ms(&self) -> Option<u64> {
        self.lock().since_ms()
    }

    /// Returns the sequence of the next record: all before it are in the figures.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.lock().sequence()
    }

    /// Returns how far the figures are.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let counted = |sequence| if sequence == u64::MAX { 0 } else { sequence };
        Progress {
            records: counted(self.sequence()),
            saved: counted(self.unread.load(Relaxed)),
            clashes: self.names.clashes(),
        }
    }

    /// Returns the sequence of the first record that a start would read again: the journal keeps its segment and what follows.
    #[must_use]
    pub fn unread(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.unread)
    }
}
