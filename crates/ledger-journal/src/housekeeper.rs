//! The journal's second thread: it prepares segments, makes snapshots, removes what is old, and notes what is sealed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::files::Folder;
use crate::journal::{JournalOptions, Shared, lock, now_ms};
use crate::snapshot::{Advanced, Keep, advance};
use crate::watermark::Watermarks;
use crate::write::prepare;

/// Files that have become too old are looked for this often.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// The watermark may lag behind what is sealed for so long, and for as long as a snapshot takes.
const NOTE_EVERY: Duration = Duration::from_secs(10);

/// The housekeeper's thread.
pub(crate) struct Housekeeper<F> {
    pub(crate) folder: F,
    pub(crate) options: JournalOptions,
    pub(crate) shared: Arc<Shared>,
    pub(crate) watermarks: Option<Watermarks<F>>,
}

impl<F: Folder> Housekeeper<F> {
    pub(crate) fn run(&mut self, begun: &Receiver<()>) {
        let mut kept = Instant::now();
        loop {
            let job = begun.recv_timeout(NOTE_EVERY);
            self.note();
            match job {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if kept.elapsed() < KEEP_EVERY => {}
                Ok(()) | Err(RecvTimeoutError::Timeout) => {
                    self.keep();
                    kept = Instant::now();
                }
            }
        }
    }

    /// When it fails, the watermark lags; nothing depends on it but the comparison at the next start.
    fn note(&mut self) {
        let sealed = self.shared.handover.sealed();
        let Some(watermarks) = &mut self.watermarks else { return };
        if let Err(error) = watermarks.note(sealed, now_ms()) {
            tracing::warn!(%error, "what is sealed was not noted outside of the journal; it will be tried again");
        }
    }

    fn keep(&self) {
        let start = Instant::now();
        let prepared = prepare(&self.folder, self.options.segment_bytes);
        let options = &self.options;
        let unread = options.unread.as_ref().map_or(u64::MAX, |unread| unread.load(Relaxed));
        let keep = Keep { unread, ..options.keep };
        let advanced = advance(&self.folder, &options.bank, &keep, now_ms(), &self.shared.stop);
        let failure = prepared.map_err(|error| format!("room for the next segment: {error}")).err();
        let failure = failure.or(advanced.as_ref().map_err(ToString::to_string).err());
        if let Some(failure) = &failure
            && !self.shared.stop.load(Relaxed)
        {
            tracing::warn!(failure, "the journal's housekeeper failed; it will try again");
        }
        let mut kept = lock(&self.shared.kept);
        kept.failure = failure;
        if let Ok(advanced) = advanced {
            kept.note(&advanced, start.elapsed());
        }
    }
}

counters::counters! {
    /// What the housekeeper did.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Kept of u64, in "journal" {
        snapshots: "Snapshots made in this run.";
        removed: "Files removed by the retention.", name("files_removed");
    } also {
        /// The newest one: it holds all records before this sequence; 0 if none was made in this run.
        pub snapshot: u64,
        /// How long it took to make, ms.
        pub snapshot_ms: u64,
        /// Why the last attempt at preparing a segment, at a snapshot or at removing old files failed.
        pub failure: Option<String>,
    }
}

impl Kept {
    fn note(&mut self, advanced: &Advanced, took: Duration) {
        self.removed += advanced.removed.len() as u64;
        let Some(snapshot) = advanced.snapshot else { return };
        self.snapshots += 1;
        self.snapshot = snapshot;
        self.snapshot_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            before = snapshot,
            replayed = advanced.replayed,
            ms = self.snapshot_ms,
            "snapshot made"
        );
    }
}
