//! The watcher: takes changes of the budgets file, checks them, and hands them over whole, with what the API changed on top.
//!
//! It looks at the file's time, size and inode some times a second rather than asking the kernel to tell: that
//! works the same for editors that replace files, for links, and on file systems of other machines.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender as Commands, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use ledger::{BudgetSpec, SpecError};
use money::Instant;
use probe::NodeClock;

use super::admin::Status;
use super::bank_thread::{Command, Refusal};
use super::{StartError, spawn};
use crate::budgets::{self, Budget, Line, LineError};
use crate::config::Config;
use crate::edits::{Bank, Edits, Note, Opened, Trouble};
use crate::market::{Currencies, Market, of_file};

/// How long the bank's answer is waited for. It comes within milliseconds; a disk may need longer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// What tells that a file changed.
type Stamp = Option<(SystemTime, u64, u64)>;

/// The running watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    edits: Edits,
}

/// A file's budgets, if there is a file, and its stamp from before it was read.
pub(crate) struct FirstRead {
    read: Option<(Vec<Line>, Market)>,
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
    Ok(FirstRead { read: Some(read(path, &Currencies::of(config))?), stamp })
}

fn read(path: &Path, currencies: &Currencies) -> Result<(Vec<Line>, Market), Vec<LineError>> {
    let lines = budgets::read_lines(path)?;
    let budgets: Vec<&Budget> = lines.iter().map(|line| &line.budget).collect();
    let market = of_file(path, currencies, &budgets, now())?;
    Ok((lines, market))
}

impl Watcher {
    /// Hands over the first budgets, waits until they are in force, and watches from then on. `opened` is the log of edits,
    /// `run` the node's run.
    pub(crate) fn start(
        config: &Config,
        first: FirstRead,
        opened: Opened,
        run: u32,
        commands: Commands<Command>,
        status: Status,
    ) -> Result<Watcher, StartError> {
        let every = Duration::from_millis(config.budgets.check_ms);
        let stop = Arc::new(AtomicBool::new(false));
        let markets = Arc::new(Mutex::new(Markets::default()));
        let link = BankLink { commands, markets: Arc::clone(&markets) };
        let edits = Edits::new(opened, run, Box::new(link), Box::new(|| now().ms()));
        let mut watch = Watch {
            path: config.budgets.file.clone(),
            stamp: first.stamp,
            currencies: Currencies::of(config),
            markets,
            edits: edits.clone(),
            status,
        };
        if let Some((lines, market)) = first.read {
            watch.hand_over(lines, market);
        }
        let stopped = Arc::clone(&stop);
        let thread = spawn("watcher", move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(every);
                watch.look();
            }
        })?;
        Ok(Watcher { stop, thread, edits })
    }

    /// The configuration, and changes of it.
    pub(crate) fn edits(&self) -> &Edits {
        &self.edits
    }

    /// No budget changes any more.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        self.edits.stop();
    }
}

struct Watch {
    path: PathBuf,
    stamp: Stamp,
    currencies: Currencies,
    markets: Arc<Mutex<Markets>>,
    edits: Edits,
    status: Status,
}

impl Watch {
    fn look(&mut self) {
        if now() >= self.markets().free_unused() {
            tracing::info!("clocks changed in a campaign's time zone: its hours are read anew");
            self.stamp = None;
        }
        if self.edits.take_unsure() {
            tracing::info!("the budgets are handed over again");
            self.stamp = None;
        }
        let stamp = stamp(&self.path);
        if stamp == self.stamp || stamp.is_none() {
            // A file that is gone for a moment is being replaced; one that stays away ends nothing.
            return;
        }
        self.stamp = stamp;
        match read(&self.path, &self.currencies) {
            Ok((lines, market)) => self.hand_over(lines, market),
            Err(errors) => self.refuse(errors.iter().map(ToString::to_string).collect()),
        }
    }

    fn markets(&self) -> MutexGuard<'_, Markets> {
        lock(&self.markets)
    }

    fn hand_over(&mut self, lines: Vec<Line>, market: Market) {
        let count = lines.len();
        let places: HashMap<u64, usize> =
            lines.iter().map(|line| (line.budget.spec.id, line.budget.line)).collect();
        let why = format!("{} has {count} budgets", self.path.display());
        match self.edits.load(lines, market, &why) {
            Ok(()) => self.status.configured(self.names()),
            Err(Trouble::Journal(error)) => {
                tracing::error!(error, "the journal cannot take new budgets; they are tried again");
                self.stamp = None;
            }
            Err(Trouble::Specs(errors)) => {
                let file = self.path.display();
                let line = |id| places.get(&id).copied().unwrap_or(1);
                let told =
                    errors.iter().map(|error| format!("{file}:{}: {error}", line(error.id())));
                self.refuse(told.collect());
            }
            Err(Trouble::Gone | Trouble::Silent) => tracing::error!(
                "the bank does not answer: the budgets come into force when the journal takes them"
            ),
        }
    }

    fn names(&self) -> HashMap<u64, String> {
        let statics = self.edits.statics();
        statics.budgets.iter().map(|budget| (budget.id, budget.name.to_string())).collect()
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

/// The campaigns in force, and former ones.
struct Markets {
    market: Arc<Market>,
    /// Until the last worker has let them go: they are freed here, for that takes long.
    replaced: Vec<Arc<Market>>,
}

impl Default for Markets {
    fn default() -> Markets {
        Markets { market: Market::empty(), replaced: Vec::new() }
    }
}

impl Markets {
    /// Frees what nobody uses any more, and tells until when the present one is right.
    fn free_unused(&mut self) -> Instant {
        self.replaced.retain(|market| Arc::strong_count(market) > 1);
        self.market.until()
    }

    fn replace(&mut self, market: Arc<Market>) {
        if !Arc::ptr_eq(&market, &self.market) {
            self.replaced.push(std::mem::replace(&mut self.market, market));
        }
    }
}

fn lock(markets: &Mutex<Markets>) -> MutexGuard<'_, Markets> {
    // Replaced whole: a thread that died while it held this left nothing half done.
    markets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way to the bank.
struct BankLink {
    commands: Commands<Command>,
    markets: Arc<Mutex<Markets>>,
}

impl BankLink {
    fn ask<T>(
        &self,
        command: impl FnOnce(std::sync::mpsc::Sender<T>) -> Command,
    ) -> Result<T, Trouble> {
        let (reply, answer) = channel();
        self.commands.send(command(reply)).map_err(|_| Trouble::Gone)?;
        answer.recv_timeout(ANSWER_WAIT).map_err(|_| Trouble::Silent)
    }
}

impl Bank for BankLink {
    fn judge(&self, spec: BudgetSpec) -> Result<(bool, Option<SpecError>), Trouble> {
        let judged = self.ask(|reply| Command::Judge { spec: Box::new(spec), reply })?;
        Ok((judged.known, judged.error))
    }

    fn configure(
        &mut self,
        budgets: Vec<Budget>,
        market: Option<Market>,
        note: Note,
    ) -> Result<(), Trouble> {
        let present = || Arc::clone(&lock(&self.markets).market);
        let market = market.map_or_else(present, Arc::new);
        let (count, campaigns, handed) = (budgets.len(), market.len(), Arc::clone(&market));
        let configure = |reply| Command::Configure { budgets, market: handed, note, reply };
        let answer = self.ask(configure);
        if matches!(answer, Ok(Ok(_)) | Err(Trouble::Silent)) {
            lock(&self.markets).replace(market);
        }
        let snapshot = answer?.map_err(trouble)?.snapshot;
        tracing::info!(budgets = count, campaigns, snapshot, "budgets in force");
        Ok(())
    }

    fn amend(&mut self, budgets: Vec<Budget>, note: Note) -> Result<(), Trouble> {
        self.ask(|reply| Command::Amend { budgets, note, reply })?.map_err(trouble)
    }
}

fn trouble(refusal: Refusal) -> Trouble {
    match refusal {
        Refusal::Specs(errors) => Trouble::Specs(errors),
        Refusal::Journal(text) => Trouble::Journal(text),
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
