//! The watcher: takes changes of the budgets file, checks them, and hands them to the bank whole.
//!
//! It looks at the file's time, size and inode some times a second rather than asking the kernel to tell: that
//! works the same for editors that replace files, for links, and on file systems of other machines.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender as Commands;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use money::Instant;
use probe::NodeClock;

use super::admin::Status;
use super::bank_thread::{Command, Refusal, ask};
use super::{StartError, spawn};
use crate::budgets::{Budget, LineError};
use crate::config::Config;
use crate::market::{Currencies, Market, read};

/// What tells that a file changed.
type Stamp = Option<(SystemTime, u64, u64)>;

/// The running watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A file's budgets, if there is a file, and its stamp from before it was read.
pub(crate) struct FirstRead {
    read: Option<(Vec<Budget>, Market)>,
    stamp: Stamp,
}

/// Reads the budgets for the start. No file means that nothing is known of budgets yet: those of the journal are kept,
/// but nobody may reserve from them.
pub(crate) fn first_read(config: &Config) -> Result<FirstRead, Vec<LineError>> {
    let path = &config.budgets.file;
    let stamp = stamp(path);
    if stamp.is_none() {
        tracing::warn!(file = %path.display(), "no budgets file yet: every ask is refused until it appears");
        return Ok(FirstRead { read: None, stamp });
    }
    Ok(FirstRead { read: Some(read(path, &Currencies::of(config), now())?), stamp })
}

impl Watcher {
    /// Hands over the first budgets, waits until they are in force, and watches from then on.
    pub(crate) fn start(
        config: &Config,
        first: FirstRead,
        commands: Commands<Command>,
        status: Status,
    ) -> Result<Watcher, StartError> {
        let path = config.budgets.file.clone();
        let every = Duration::from_millis(config.budgets.check_ms);
        let stop = Arc::new(AtomicBool::new(false));
        let mut watch = Watch {
            path,
            stamp: first.stamp,
            currencies: Currencies::of(config),
            market: Market::empty(),
            replaced: Vec::new(),
            commands,
            status,
        };
        if let Some((budgets, market)) = first.read {
            watch.hand_over(budgets, market);
        }
        let stopped = Arc::clone(&stop);
        let thread = spawn("watcher", move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(every);
                watch.look();
            }
        })?;
        Ok(Watcher { stop, thread })
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

struct Watch {
    path: PathBuf,
    stamp: Stamp,
    currencies: Currencies,
    /// The campaigns in force.
    market: Arc<Market>,
    /// Former ones, until the last worker has let them go: they are freed here, for that takes long.
    replaced: Vec<Arc<Market>>,
    commands: Commands<Command>,
    status: Status,
}

impl Watch {
    fn look(&mut self) {
        self.replaced.retain(|market| Arc::strong_count(market) > 1);
        if now() >= self.market.until() {
            tracing::info!("clocks changed in a campaign's time zone: its hours are read anew");
            self.stamp = None;
        }
        let stamp = stamp(&self.path);
        if stamp == self.stamp || stamp.is_none() {
            // A file that is gone for a moment is being replaced; one that stays away ends nothing.
            return;
        }
        self.stamp = stamp;
        match read(&self.path, &self.currencies, now()) {
            Ok((budgets, market)) => self.hand_over(budgets, market),
            Err(errors) => self.refuse(errors.iter().map(ToString::to_string).collect()),
        }
    }

    fn hand_over(&mut self, budgets: Vec<Budget>, market: Market) {
        let market = Arc::new(market);
        let (count, campaigns) = (budgets.len(), market.len());
        let lines: HashMap<u64, usize> = budgets.iter().map(|b| (b.spec.id, b.line)).collect();
        let names = budgets.iter().map(|b| (b.spec.id, b.name.clone())).collect();
        let why = format!("{} has {count} budgets", self.path.display());
        let handed = Arc::clone(&market);
        let answer =
            ask(&self.commands, |reply| Command::Configure { budgets, market: handed, why, reply });
        match answer {
            Some(Ok(applied)) => {
                let snapshot = applied.snapshot;
                tracing::info!(budgets = count, campaigns, snapshot, "budgets in force");
                self.status.configured(names);
                self.replaced.push(std::mem::replace(&mut self.market, market));
            }
            Some(Err(Refusal::Journal(error))) => {
                tracing::error!(error, "the journal cannot take new budgets; they are tried again");
                self.stamp = None;
            }
            Some(Err(Refusal::Specs(errors))) => {
                let file = self.path.display();
                let line = |id| lines.get(&id).copied().unwrap_or(1);
                let told =
                    errors.iter().map(|error| format!("{file}:{}: {error}", line(error.id())));
                self.refuse(told.collect());
            }
            None => tracing::error!(
                "the bank does not answer: the budgets come into force when the journal takes them"
            ),
        }
    }

    /// The running budgets stay as they are.
    fn refuse(&self, errors: Vec<String>) {
        for error in errors.iter().take(20) {
            tracing::error!("{error}");
        }
        let more = errors.len().saturating_sub(20);
        tracing::error!(
            errors = errors.len(),
            unprinted = more,
            "budgets refused whole; the running ones stay"
        );
        self.status.refused(errors);
    }
}

/// The system's time of day; the watcher needs no better one.
fn now() -> Instant {
    Instant::from_ms(NodeClock::new().now_ms())
}

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
