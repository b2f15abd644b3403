//! The figures of campaigns: the thread that folds the journal into them. No money depends on them: a node runs without, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use figures_store::{Desk, Follow, FollowError};
use ledger_journal::{Disk, Position, Status};
use weir_config::config::Config;

/// The folder of the figures within the data folder.
const FOLDER: &str = "figures";
/// How long a stop waits for the disk.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Takes up the figures of earlier runs, and folds what they do not have yet of the journal, which ends at `tail`. `None` with an empty desk
/// where that cannot be done: the log says why, and the next start tries again.
pub(crate) fn open(
    config: &Config,
    journal: &Disk,
    tail: &Position,
    options: &ledger::Options,
) -> (Option<Follow<Disk>>, Desk) {
    let path = config.node.data_dir.join(FOLDER);
    match caught_up(&path, journal, tail, options) {
        Ok(follow) => {
            let desk = follow.desk().clone();
            (Some(follow), desk)
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "impressions are not counted in this run; no money depends on it");
            (None, Desk::empty())
        }
    }
}

fn caught_up(
    path: &std::path::Path,
    journal: &Disk,
    tail: &Position,
    options: &ledger::Options,
) -> Result<Follow<Disk>, FollowError> {
    let mut follow = Follow::open(path, journal, tail, options)?;
    let mut said = Instant::now();
    follow.catch_up(tail.sequence, &mut |record| {
        if said.elapsed() >= Duration::from_secs(1) {
            said = Instant::now();
            tracing::info!(record, of = tail.sequence, "counting impressions");
        }
    })?;
    follow.save();
    Ok(follow)
}

/// The thread. Dropping this ends it, with all that is sealed by then on the disk, or leaves it behind where that takes too long.
#[derive(Debug)]
pub(crate) struct FiguresThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FiguresThread {
    pub(crate) fn start(follow: Follow<Disk>, journal: Status) -> std::io::Result<FiguresThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("figures".to_owned()).spawn(move || {
            // The stop is read first: what is sealed before it is folded.
            follow.run(|| (!stopped.load(Relaxed), journal.sealed()));
        })?;
        Ok(FiguresThread { stop, thread })
    }
}

impl Drop for FiguresThread {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let began = Instant::now();
        while !self.thread.is_finished() && began.elapsed() < FINISH_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !self.thread.is_finished() {
            tracing::warn!(
                "the disk took too long: the next start counts the latest impressions again"
            );
        }
    }
}
