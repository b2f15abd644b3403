//! The figures of campaigns: the thread that folds the journal into them. No money depends on them: a node runs without, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use door_openrtb::{Meaning, Meanings};
use figures_store::{Desk, Follow, FollowError, Limits, NameDesk};
use ledger_journal::{Disk, Position, Status};
use weir_config::config::Config;

/// The folder of the figures within the data folder.
const FOLDER: &str = "figures";
/// How long a stop waits for the disk.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Hours of reports are over by then, in all zones, and so is nearly all that is booked in them.
const CLOSE_AFTER_MS: u64 = 2 * 3_600_000;

/// Where the OpenRTB door says what keys mean.
#[derive(Debug)]
struct ReportNames(NameDesk);

/// What keys of reports mean, as the OpenRTB door notes it.
pub(crate) fn names(desk: &Desk) -> Arc<dyn Meanings> {
    Arc::new(ReportNames(desk.names().clone()))
}

impl Meanings for ReportNames {
    fn secret(&self) -> u128 {
        self.0.secret()
    }

    fn note(&self, key: u64, meaning: Meaning<'_>) -> u64 {
        self.0.note(key, meaning)
    }
}

/// Takes up the figures of earlier runs, and folds what they do not have yet of the journal, which ends at `tail`. `None` with an empty desk
/// where that cannot be done: the log says why, and the next start tries again.
pub(crate) fn open(
    config: &Config,
    journal: &Disk,
    tail: &Position,
    options: &ledger::Options,
) -> (Option<Follow<Disk>>, Desk) {
    let path = config.node.data_dir.join(FOLDER);
    let reports = &config.reports;
    let limits = Limits {
        keep_days: reports.keep_days,
        keep_bytes_max: reports.keep_bytes_max,
        cells_per_hour_max: reports.cells_per_hour_max,
        keys_max: reports.keys_max,
        close_after_ms: CLOSE_AFTER_MS,
    };
    match caught_up(&path, journal, tail, options, &limits) {
        Ok(follow) => {
            let desk = follow.desk().clone();
            (Some(follow), desk)
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "impressions are not counted in this run; no money depends on it");
            (None, Desk::later())
        }
    }
}

fn caught_up(
    path: &std::path::Path,
    journal: &Disk,
    tail: &Position,
    options: &ledger::Options,
    limits: &Limits,
) -> Result<Follow<Disk>, FollowError> {
    let mut follow = Follow::open(path, journal, tail, options, limits)?;
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
