//! The figures of campaigns: the thread that folds the journal into them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use figures_store::{Follow, FollowError};
use ledger_journal::{Disk, Position, Status};
use weir_config::config::Config;

use crate::error::StartError;

/// The folder of the figures within the data folder.
const FOLDER: &str = "figures";

/// Takes up the figures of earlier runs, and folds what they do not have yet of the journal, which ends at `tail`.
pub(crate) fn open(
    config: &Config,
    journal: &Disk,
    tail: &Position,
    options: &ledger::Options,
) -> Result<Follow<Disk>, StartError> {
    let path = config.node.data_dir.join(FOLDER);
    let failed = |error: FollowError| StartError::Figures(format!("{}: {error}", path.display()));
    let mut follow = Follow::open(&path, journal, tail, options).map_err(failed)?;
    let mut said = Instant::now();
    let progress = &mut |record| {
        if said.elapsed() >= Duration::from_secs(1) {
            said = Instant::now();
            tracing::info!(record, of = tail.sequence, "counting impressions");
        }
    };
    follow.catch_up(tail.sequence, progress).map_err(failed)?;
    follow.save();
    Ok(follow)
}

/// The thread. It ends when this is dropped, with all that is sealed by then on the disk.
#[derive(Debug)]
pub(crate) struct FiguresThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FiguresThread {
    pub(crate) fn start(follow: Follow<Disk>, journal: Status) -> std::io::Result<FiguresThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("figures".to_owned()).spawn(move || {
            // The stop is read first: what is sealed before it is folded.
            follow.run(|| (!stopped.load(Relaxed), journal.sealed()));
        })?;
        Ok(FiguresThread { stop, thread: Some(thread) })
    }
}

impl Drop for FiguresThread {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the thread of the figures of campaigns ended by a panic");
        }
    }
}
