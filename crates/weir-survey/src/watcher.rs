//! The watcher: takes changes of the budgets file, checks them, and hands them over whole, with what the API changed on top.
//!
//! It looks at the file's times, size and inode some times per second rather than asking the kernel to tell: that
//! works the same for editors that replace files, for links, and on file systems of other machines. A file is taken at the
//! second look that finds it unchanged, so that one that is being written is left alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender as Commands, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Monotonic, SystemTime};

use ledger::{BudgetSpec, EditReason, SpecError};
use money::Instant;
use probe::NodeClock;
use weir_budgets::budgets::{self, Budget, BudgetsFile, LineError};
use weir_budgets::campaign_index::{CampaignIndex, ExchangeTerms, of_file};
use weir_budgets::orders::{self, Binding, OrderTerms};
use weir_config::config::Config;
use weir_door::thread::spawn;
use weir_edits::{BankError, BankPort, Edits, Opened, is_live};
use weir_node::bank::{Command, Refusal};
use weir_node::memory::{self, Part};

use crate::StartError;
use crate::admin::Status;
use crate::file_changes::FileTerms;

/// How long the bank's answer is waited for. It comes within milliseconds; a disk may need longer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Steps of time stamps are shorter on every file system: 2 s on FAT, 1 s on old ones, milliseconds elsewhere.
const STAMP_STEP: Duration = Duration::from_millis(2_100);
/// A start looks at a file that changes so many times before it goes on without it.
const FIRST_LOOKS_MAX: u32 = 20;
/// Longest pause between two looks of a start.
const FIRST_LOOK_MAX: Duration = Duration::from_millis(500);
/// After so many looks at a file that goes on changing it is told, and again after as many.
const RESTLESS_LOOKS: u32 = 20;
/// A file that so many looks miss is gone, and told so; one that is being replaced may be missing for a moment.
const GONE_LOOKS: u32 = 2;
/// Budgets that the bank is asked for at once.
const PAGE: u32 = 4_096;

/// What tells that a file changed: when its bytes did, and its inode, in seconds and nanoseconds; its size and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    len: u64,
    inode: u64,
}

/// What was seen of the file. It is to be read at the second look that finds the same stamp.
#[derive(Debug, Default)]
struct Looks {
    /// What was judged last.
    judged: Option<Stamp>,
    /// What the last look saw, where it is newer.
    seen: Option<Stamp>,
    /// Looks since the file began to change.
    restless: u32,
}

impl Looks {
    /// Is the file to be read now? One that is gone for a moment is being replaced; one that stays away ends nothing.
    fn is_still(&mut self, now: Option<Stamp>) -> bool {
        let Some(stamp) = now.filter(|stamp| self.judged != Some(*stamp)) else {
            (self.seen, self.restless) = (None, 0);
            return false;
        };
        self.restless += 1;
        self.seen.replace(stamp) == Some(stamp)
    }

    /// What was read is what had this stamp.
    fn judged(&mut self, stamp: Stamp) {
        *self = Looks { judged: Some(stamp), ..Looks::default() };
    }

    /// The file is to be read again, changed or not.
    fn forget(&mut self) {
        *self = Looks::default();
    }
}

/// Bytes that were read, to be compared with the file once more: a change within one step of the time stamps leaves no other
/// trace.
#[derive(Debug)]
struct FileCheck {
    sum: u32,
    read_at: Monotonic,
}

impl FileCheck {
    fn of(bytes: &[u8]) -> FileCheck {
        FileCheck { sum: crc32c::crc32c(bytes), read_at: Monotonic::now() }
    }
}

/// The running watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    edits: Edits,
}

/// A file's budgets, if there is a file, and its stamp from before it was read.
#[derive(Default)]
pub(crate) struct FirstRead {
    read: Option<(BudgetsFile, CampaignIndex)>,
    looks: Looks,
    proof: Option<FileCheck>,
}

/// Reads the budgets for the start. No file means that nothing is known of budgets yet: those of the journal are kept,
/// but nobody may reserve from them.
pub(crate) fn first_read(config: &Config) -> Result<FirstRead, Vec<LineError>> {
    let path = &config.budgets.file;
    let pause = Duration::from_millis(config.budgets.check_ms).min(FIRST_LOOK_MAX);
    for _ in 0..FIRST_LOOKS_MAX {
        let Some(before) = stamp(path) else {
            tracing::warn!(file = %path.display(), "no budgets file yet: every ask is refused until it appears; write one (`weir sample-budgets` prints lines to try with), or name another with --budgets or budgets.file");
            return Ok(FirstRead::default());
        };
        if !is_old(&before) {
            std::thread::sleep(pause);
        }
        if stamp(path) != Some(before) {
            continue;
        }
        let bytes = budgets::bytes(path)?;
        if stamp(path) != Some(before) {
            continue;
        }
        let mut looks = Looks::default();
        looks.judged(before);
        let terms = (&ExchangeTerms::of(config), &OrderTerms::of(config));
        let read = read(path, &bytes, terms)?;
        return Ok(FirstRead { read: Some(read), looks, proof: Some(FileCheck::of(&bytes)) });
    }
    tracing::warn!(file = %path.display(), "the budgets file keeps changing: every ask is refused until the file stands still");
    Ok(FirstRead::default())
}

fn read(
    path: &Path,
    bytes: &[u8],
    (exchange, orders): (&ExchangeTerms, &OrderTerms),
) -> Result<(BudgetsFile, CampaignIndex), Vec<LineError>> {
    let file = budgets::file_of(path, bytes)?;
    let budgets: Vec<&Budget> = file.lines.iter().map(|line| &line.budget).collect();
    let build = || of_file(path, exchange, &budgets, now());
    let campaign_index = memory::rebuilt(Part::Campaigns, build);
    let campaign_index = orders::checked(path, orders, &budgets, campaign_index)?;
    Ok((file, campaign_index))
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
        let indexes = Arc::new(Mutex::new(Indexes::default()));
        let clock = Clock::default();
        let to_bank = commands.clone();
        let (at, known) = (clock.clone(), status.clone());
        let link = BankLink { commands, indexes: Arc::clone(&indexes), clock: at, status: known };
        let seen = clock.clone();
        let share = config.budgets.end_share_max_percent;
        let edits =
            Edits::new(opened, run, share, Box::new(link), Box::new(move || seen.now().ms()));
        let mut watch = Watch {
            path: config.budgets.file.clone(),
            looks: first.looks,
            proof: first.proof,
            exchange: ExchangeTerms::of(config),
            indexes,
            edits: edits.clone(),
            commands: to_bank,
            status,
            clock,
            starting: true,
            gone: if stamp(&config.budgets.file).is_none() { GONE_LOOKS } else { 0 },
            said: None,
        };
        watch.status.last_names(edits.names());
        if let Some((file, campaign_index)) = first.read {
            watch.hand_over(file, campaign_index);
        }
        watch.starting = false;
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
    looks: Looks,
    /// Of what was read last, until it is compared once more.
    proof: Option<FileCheck>,
    exchange: ExchangeTerms,
    indexes: Arc<Mutex<Indexes>>,
    edits: Edits,
    commands: Commands<Command>,
    status: Status,
    clock: Clock,
    /// The file of the start is being handed over.
    starting: bool,
    /// Looks since the file is gone.
    gone: u32,
    /// What the file in force says, if one is.
    said: Option<FileTerms>,
}

impl Watch {
    fn look(&mut self) {
        if self.clock.now() >= self.indexes().free_unused() {
            tracing::info!("clocks changed in a campaign's time zone: its hours are read anew");
            self.looks.forget();
        }
        if self.edits.take_unsure() {
            tracing::info!("the budgets are sent to the bank again");
            self.looks.forget();
        }
        let stamp = stamp(&self.path);
        self.miss(stamp.is_none());
        if self.looks.is_still(stamp) {
            stamp.into_iter().for_each(|stamp| self.take(stamp));
        } else if self.looks.restless == 0 {
            self.prove(stamp);
        } else if self.looks.restless.is_multiple_of(RESTLESS_LOOKS) {
            let file = self.path.display();
            tracing::warn!(%file, "the budgets file keeps changing: it is read once two looks find it unchanged");
        }
    }

    /// Says once that the file is gone.
    fn miss(&mut self, is_gone: bool) {
        self.gone = if is_gone { self.gone.saturating_add(1) } else { 0 };
        if self.gone != GONE_LOOKS {
            return;
        }
        let file = self.path.display();
        match self.edits.statics().budgets.len() {
            _ if !self.has_budgets() => tracing::warn!("{file} is gone; no budget is in force"),
            1 => tracing::warn!("{file} is gone; the 1 budget in force stays"),
            count => tracing::warn!("{file} is gone; the {count} budgets in force stay"),
        }
    }

    /// Takes a file that had this stamp at two looks.
    fn take(&mut self, before: Stamp) {
        let bytes = budgets::bytes(&self.path);
        if stamp(&self.path) != Some(before) {
            return;
        }
        self.looks.judged(before);
        self.proof = bytes.as_deref().ok().map(FileCheck::of);
        // Sessions change while the node runs, with `weir reload`.
        let orders = OrderTerms::of(&self.status.config());
        match bytes.and_then(|bytes| read(&self.path, &bytes, (&self.exchange, &orders))) {
            Ok((file, campaign_index)) => self.hand_over(file, campaign_index),
            Err(errors) => self.refuse(errors.iter().map(ToString::to_string).collect()),
        }
    }

    /// Reads a file a second time, once no change can have the time stamp of the first.
    fn prove(&mut self, now: Option<Stamp>) {
        let Some(proof) = self.proof.take_if(|proof| proof.read_at.elapsed() > STAMP_STEP) else {
            return;
        };
        let bytes = now.and_then(|_| budgets::bytes(&self.path).ok());
        if bytes.is_some_and(|bytes| crc32c::crc32c(&bytes) != proof.sum) {
            tracing::info!("the budgets file changed while it was read: it is read again");
            self.looks.forget();
        }
    }

    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        lock(&self.indexes)
    }

    fn hand_over(&mut self, file: BudgetsFile, campaign_index: CampaignIndex) {
        let said = FileTerms::of(&file);
        let BudgetsFile { lines, templates } = file;
        let count = lines.len();
        let places: HashMap<u64, usize> =
            lines.iter().map(|line| (line.budget.spec.id, line.budget.line)).collect();
        let why = format!("{} has {count} budgets", self.path.display());
        let loaded = self.edits.load(lines, campaign_index, &why);
        if matches!(loaded, Ok(()) | Err(BankError::Silent)) {
            // Behind the budgets of the same file, which their parents may be. A bank that is gone needs none.
            let _ = self.commands.send(Command::Templates { templates: Arc::new(templates) });
        }
        match loaded {
            Ok(()) => {
                self.status.configured(self.edits.names());
                if let Some(before) = &self.said {
                    tracing::info!("{} is in force: {}", self.path.display(), said.since(before));
                }
                self.said = Some(said);
            }
            Err(BankError::Journal(error)) => {
                tracing::error!(error, "the journal cannot take new budgets; they are tried again");
                self.looks.forget();
            }
            Err(BankError::Ends(ending)) => {
                self.refuse(vec![format!("{}: {ending}", self.path.display())]);
            }
            Err(BankError::Specs(errors)) => {
                let file = self.path.display();
                let line = |id| places.get(&id).copied().unwrap_or(1);
                let told =
                    errors.iter().map(|error| format!("{file}:{}: {error}", line(error.id())));
                self.refuse(told.collect());
            }
            Err(BankError::Gone | BankError::Silent) => tracing::error!(
                "the bank does not answer: the budgets come into force when the journal takes them"
            ),
        }
    }

    /// The running budgets stay as they are, if there are any.
    fn refuse(&self, errors: Vec<String>) {
        for error in errors.iter().take(20) {
            tracing::error!("{error}");
        }
        let more = errors.len().saturating_sub(20);
        let what = match self.has_budgets() {
            true => "budgets refused whole; the running ones stay".into(),
            false => self.none_in_force(),
        };
        tracing::error!(errors = errors.len(), unprinted = more, "{what}");
        if self.starting {
            self.status.refused_at_start(what);
        }
        self.status.refused(errors, self.clock.now());
    }

    /// Was a set of budgets taken in this run?
    fn has_budgets(&self) -> bool {
        self.edits.generation() > 0
    }

    fn none_in_force(&self) -> String {
        let when = if self.starting { " at this start" } else { "" };
        format!(
            "{} was refused{when}, so no budget is in force: every ask is answered with busy until the file is right",
            self.path.display()
        )
    }
}

/// The campaigns in force, and former ones.
struct Indexes {
    campaign_index: Arc<CampaignIndex>,
    /// Until the last worker has let them go: they are freed here, for that takes long.
    replaced: Vec<Arc<CampaignIndex>>,
}

impl Default for Indexes {
    fn default() -> Indexes {
        Indexes { campaign_index: CampaignIndex::empty(), replaced: Vec::new() }
    }
}

impl Indexes {
    /// Frees what nobody uses any more, and tells until when the present one is right.
    fn free_unused(&mut self) -> Instant {
        self.replaced.retain(|campaign_index| Arc::strong_count(campaign_index) > 1);
        self.campaign_index.until()
    }

    fn replace(&mut self, campaign_index: Arc<CampaignIndex>) {
        if !Arc::ptr_eq(&campaign_index, &self.campaign_index) {
            self.replaced.push(std::mem::replace(&mut self.campaign_index, campaign_index));
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Replaced whole: a thread that died while it held this left nothing half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way to the bank.
struct BankLink {
    commands: Commands<Command>,
    indexes: Arc<Mutex<Indexes>>,
    clock: Clock,
    /// Has the configuration in force.
    status: Status,
}

impl BankLink {
    fn ask<T>(
        &self,
        command: impl FnOnce(std::sync::mpsc::Sender<T>) -> Command,
    ) -> Result<T, BankError> {
        let (reply, answer) = channel();
        self.commands.send(command(reply)).map_err(|_| BankError::Gone)?;
        answer.recv_timeout(ANSWER_WAIT).map_err(|_| BankError::Silent)
    }
}

impl BankPort for BankLink {
    fn judge(&self, spec: BudgetSpec) -> Result<(bool, Option<SpecError>), BankError> {
        let judged = self.ask(|reply| Command::Judge { spec: Box::new(spec), reply })?;
        Ok((judged.known, judged.error))
    }

    fn live(&self) -> Result<Vec<u64>, BankError> {
        let (now, mut live) = (self.clock.now(), Vec::new());
        for from_slot in (0..).step_by(PAGE as usize) {
            let page = self.ask(|reply| Command::Specs { from_slot, max: PAGE, reply })?;
            live.extend(page.iter().filter(|one| is_live(&one.spec, now)).map(|one| one.spec.id));
            if page.len() < PAGE as usize {
                break;
            }
        }
        Ok(live)
    }

    fn configure(
        &mut self,
        budgets: Vec<Budget>,
        campaign_index: Option<CampaignIndex>,
        reason: EditReason,
    ) -> Result<(), BankError> {
        let present = || Arc::clone(&lock(&self.indexes).campaign_index);
        let campaign_index = campaign_index.map_or_else(present, Arc::new);
        let (count, campaigns, handed) =
            (budgets.len(), campaign_index.len(), Arc::clone(&campaign_index));
        let configure =
            |reply| Command::Configure { budgets, campaign_index: handed, reason, reply };
        let answer = self.ask(configure);
        if matches!(answer, Ok(Ok(_)) | Err(BankError::Silent)) {
            lock(&self.indexes).replace(campaign_index);
        }
        let snapshot = answer?.map_err(trouble)?.snapshot;
        tracing::info!(budgets = count, campaigns, snapshot, "budgets in force");
        Ok(())
    }

    fn judge_orders(&self, binding: &Binding) -> Vec<String> {
        OrderTerms::of(&self.status.config()).faults(binding)
    }

    fn amend(&mut self, budgets: Vec<Budget>, reason: EditReason) -> Result<(), BankError> {
        self.ask(|reply| Command::Amend { budgets, reason, reply })?.map_err(trouble)
    }
}

fn trouble(refusal: Refusal) -> BankError {
    match refusal {
        Refusal::Specs(errors) => BankError::Specs(errors),
        Refusal::Journal(text) => BankError::Journal(text),
    }
}

/// The time of day, by one clock for all looks: a wrong second ends no edit that waits, and no flight.
#[derive(Clone, Default)]
struct Clock(Arc<Mutex<NodeClock>>);

impl Clock {
    fn now(&self) -> Instant {
        Instant::from_ms(lock(&self.0).now_ms())
    }
}

/// The system's time of day, for a start.
fn now() -> Instant {
    Instant::from_ms(NodeClock::new().now_ms())
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        len: metadata.len(),
        inode: metadata.ino(),
    })
}

/// Did the file stand still for so long that one look is enough?
fn is_old(stamp: &Stamp) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (seconds, _) = stamp.modified.max(stamp.changed);
    let since =
        Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX)).saturating_add(STAMP_STEP);
    now > since.saturating_add(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Option<Stamp> {
        Some(Stamp { modified: (1, ns), changed: (1, ns), len: 7, inode: 3 })
    }

    #[test]
    fn a_file_is_read_at_the_second_look_that_finds_it_unchanged() {
        let mut looks = Looks::default();
        // While it is written every look finds another stamp.
        assert!((0..100).all(|ns| !looks.is_still(at(ns))));
        assert_eq!(looks.restless, 100);
        assert!(looks.is_still(at(99)) && looks.is_still(at(99)), "until it is judged");
        looks.judged(at(99).unwrap());
        assert!(!looks.is_still(at(99)) && !looks.is_still(at(99)));
        // Gone and back: the same file.
        assert!(!looks.is_still(None) && !looks.is_still(at(99)));
        // Gone between two looks at a newer one: it begins anew.
        assert!(!looks.is_still(at(5)) && !looks.is_still(None) && !looks.is_still(at(5)));
        assert!(looks.is_still(at(5)));
        looks.forget();
        assert!(!looks.is_still(at(5)) && looks.is_still(at(5)));
    }

    #[test]
    fn any_part_of_a_stamp_makes_another_file() {
        let stamp = at(0).unwrap();
        let others = [
            Stamp { modified: (1, 1), ..stamp },
            Stamp { changed: (1, 1), ..stamp },
            Stamp { len: 8, ..stamp },
            Stamp { inode: 4, ..stamp },
        ];
        for other in others {
            let mut looks = Looks::default();
            looks.judged(stamp);
            assert!(!looks.is_still(Some(other)) && looks.is_still(Some(other)), "{other:?}");
        }
    }
}
