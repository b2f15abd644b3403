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

use super::admin::Status;
use super::bank_thread::{Command, Refusal, ask};
use super::{StartError, spawn};
use crate::budgets::{Budget, LineError, read};
use crate::config::Config;

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
    budgets: Option<Vec<Budget>>,
    stamp: Stamp,
}

/// Reads the budgets for the start. No file means that nothing is known of budgets yet: those of the journal are kept,
/// but nobody may reserve from them.
pub(crate) fn first_read(path: &Path) -> Result<FirstRead, Vec<LineError>> {
    let stamp = stamp(path);
    if stamp.is_none() {
        tracing::warn!(file = %path.display(), "no budgets file yet: every ask is refused until it appears");
        return Ok(FirstRead { budgets: None, stamp });
    }
    Ok(FirstRead { budgets: Some(read(path)?), stamp })
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
        let mut watch = Watch { path, stamp: first.stamp, commands, status };
        if let Some(budgets) = first.budgets {
            watch.hand_over(budgets);
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
    commands: Commands<Command>,
    status: Status,
}

impl Watch {
    fn look(&mut self) {
        let stamp = stamp(&self.path);
        if stamp == self.stamp || stamp.is_none() {
            // A file that is gone for a moment is being replaced; one that stays away ends nothing.
            return;
        }
        self.stamp = stamp;
        match read(&self.path) {
            Ok(budgets) => self.hand_over(budgets),
            Err(errors) => self.refuse(errors.iter().map(ToString::to_string).collect()),
        }
    }

    fn hand_over(&mut self, budgets: Vec<Budget>) {
        let count = budgets.len();
        let lines: HashMap<u64, usize> = budgets.iter().map(|b| (b.spec.id, b.line)).collect();
        let names = budgets.iter().map(|b| (b.spec.id, b.name.clone())).collect();
        let why = format!("{} has {count} budgets", self.path.display());
        let answer = ask(&self.commands, |reply| Command::Configure { budgets, why, reply });
        match answer {
            Some(Ok(applied)) => {
                tracing::info!(budgets = count, snapshot = applied.snapshot, "budgets in force");
                self.status.configured(names);
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

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
