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
use std::time::Duration;

use ledger::{BudgetSpec, EditReason, Room, SpecError};
use money::Instant;
use probe::NodeClock;
use weir_budgets::budgets::{self, Budget, BudgetsFile, LineError};
use weir_budgets::campaign_index::{CampaignIndex, ExchangeTerms, of_file};
use weir_budgets::orders::{self, Binding, OrderTerms};
use weir_config::config::Config;
use weir_door::thread::spawn;
use weir_edits::{BankError, BankPort, Edits, Opened, is_live};
use weir_node::bank::{Command, Refusal};
use weir_node::in_force::{Digest, copy_of};
use weir_node::memory::{self, Part};

use crate::StartError;
use crate::admin::Status;
use crate::file_changes::FileTerms;
use crate::in_force::{DIFFERS, Telling};
use crate::looks::{FileCheck, GONE_LOOKS, Looks, Stamp, digest, is_old, stamp};
use crate::prices;

/// How long the bank's answer is waited for. It comes within milliseconds; a disk may need longer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// A start looks at a file that changes so many times before it goes on without it.
const FIRST_LOOKS_MAX: u32 = 20;
/// Longest pause between two looks of a start.
const FIRST_LOOK_MAX: Duration = Duration::from_millis(500);
/// After so many looks at a file that goes on changing it is told, and again after as many.
const RESTLESS_LOOKS: u32 = 20;
/// Budgets that the bank is asked for at once.
const PAGE: u32 = 4_096;

/// The running watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    edits: Edits,
}

/// A file's budgets, if there is a file, and its stamp from before it was read.
#[derive(Default)]
pub(crate) struct FirstRead {
    read: Option<(BudgetsFile, CampaignIndex)>,
    looks: Looks,
    proof: Option<FileCheck>,
    /// It is not this node's own file, but the copy of the one in force.
    kept: Option<Digest>,
}

impl FirstRead {
    /// What counts where this file is in force already, as the log on other machines has it: the node's copy of that one, unless it is the same.
    pub(crate) fn in_force(self, config: &Config, said: Option<Digest>) -> FirstRead {
        let own = self.proof.as_ref().map(FileCheck::digest);
        let Some(said) = said.filter(|said| own != Some(*said)) else { return self };
        let (file, copy) = (config.budgets.file.display(), copy_of(&config.node.data_dir));
        let terms = (&ExchangeTerms::of(config), &OrderTerms::of(config));
        let text = copy.display();
        match read_kept(&copy, said, terms) {
            Ok(read) => {
                tracing::warn!(
                    "{DIFFERS}: {file} waits, and the one in force goes on, which is in {text}. Copy that over {file} on every node; `weir reload` puts {file} in force instead"
                );
                FirstRead { read: Some(read), kept: Some(said), ..self }
            }
            Err(why) => {
                tracing::error!(
                    "{DIFFERS}, and {text} is not it ({why}): {file} counts from now on. If that is wrong, put the right one there"
                );
                self
            }
        }
    }

    /// Is it the copy, and which is its first budget?
    #[cfg(test)]
    pub(crate) fn begins(&self) -> (bool, Option<u64>) {
        let first = self.read.as_ref().and_then(|(file, _)| file.lines.first());
        (self.kept.is_some(), first.map(|line| line.budget.spec.id))
    }

    /// What a node starts with that read this before it stood by: the file as it is now, unless that has an error.
    pub(crate) fn read_again(self, config: &Config) -> FirstRead {
        if self.looks.is_judged(stamp(&config.budgets.file)) {
            return self;
        }
        first_read(config).unwrap_or_else(|error| {
            tracing::error!(%error, "the budgets file has changed since: what was read before counts");
            self
        })
    }
}

/// Reads the budgets for the start. No file means that nothing is known of budgets yet: those of the journal are kept,
/// but nobody may reserve from them.
pub(crate) fn first_read(config: &Config) -> Result<FirstRead, StartError> {
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
        let bytes = budgets::bytes(path).map_err(StartError::Budgets)?;
        if stamp(path) != Some(before) {
            continue;
        }
        let mut looks = Looks::default();
        looks.judged(before);
        let terms = (&ExchangeTerms::of(config), &OrderTerms::of(config));
        let read = read(path, &bytes, terms).map_err(StartError::Budgets)?;
        let proof = Some(FileCheck::of(&bytes));
        return Ok(FirstRead { read: Some(read), looks, proof, kept: None });
    }
    tracing::warn!(file = %path.display(), "the budgets file keeps changing: every ask is refused until the file stands still");
    Ok(FirstRead::default())
}

/// Reads the copy of the file that is in force.
fn read_kept(
    copy: &Path,
    said: Digest,
    terms: (&ExchangeTerms, &OrderTerms),
) -> Result<(BudgetsFile, CampaignIndex), String> {
    let first =
        |errors: Vec<LineError>| errors.first().map_or_else(String::new, LineError::to_string);
    let bytes = budgets::bytes(copy).map_err(first)?;
    if digest(&bytes) != said {
        return Err("it is another one".into());
    }
    read(copy, &bytes, terms).map_err(first)
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
        mut opened: Opened,
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
        let mut link =
            BankLink { commands, indexes: Arc::clone(&indexes), clock: at, status: known };
        let is_elsewhere = link.carries();
        if is_elsewhere {
            let bring = |message| link.carry(message).map_err(|error| format!("{error:?}"));
            opened.bring(bring).map_err(StartError::EditsStay)?;
        }
        let seen = clock.clone();
        let share = config.budgets.end_share_max_percent;
        let telling = is_elsewhere.then(|| {
            let own = first.proof.as_ref().map(FileCheck::digest);
            let (telling, differs) = Telling::new(config, own, first.kept.is_some());
            status.set_files_differ(differs);
            telling
        });
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
            telling,
            copy: copy_of(&config.node.data_dir),
            kept: first.kept,
            kept_due: false,
        };
        watch.status.last_names(edits.names());
        if let Some((file, campaign_index)) = first.read {
            watch.hand_over(file, campaign_index, first.kept);
        }
        watch.starting = false;
        let prices = prices::watch(config, watch.status.fix(), &stop)?;
        let stopped = Arc::clone(&stop);
        let thread = spawn("watcher", move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(every);
                watch.look();
            }
        })?;
        Ok(Watcher { stop, threads: prices.into_iter().chain([thread]).collect(), edits })
    }

    /// The configuration, and changes of it.
    pub(crate) fn edits(&self) -> &Edits {
        &self.edits
    }

    /// No budget changes any more.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
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
    /// What a log on other machines is told of that.
    telling: Option<Telling>,
    /// The node's copy of the file that was in force when the run began...
    copy: PathBuf,
    /// ...which it is still, with this digest...
    kept: Option<Digest>,
    /// ...and is to be read again.
    kept_due: bool,
}

impl Watch {
    fn look(&mut self) {
        if self.status.take_reloaded() && self.kept.is_some() {
            tracing::info!("{} is put in force, as told", self.path.display());
            self.looks.forget();
        }
        if let Some(telling) = &mut self.telling {
            telling.look(&self.commands);
        }
        if self.clock.now() >= self.indexes().free_unused() {
            tracing::info!("clocks changed in a campaign's time zone: its hours are read anew");
            self.anew();
        }
        if self.edits.take_unsure() {
            tracing::info!("the budgets are sent to the bank again");
            self.anew();
        }
        if std::mem::take(&mut self.kept_due) {
            self.take_kept();
        }
        let stamp = stamp(&self.path);
        self.miss(stamp.is_none());
        if self.looks.is_still(stamp) {
            stamp.into_iter().for_each(|stamp| self.take(stamp));
        } else if self.looks.is_at_rest() {
            self.prove();
        } else if self.looks.restless.is_multiple_of(RESTLESS_LOOKS) {
            let file = self.path.display();
            tracing::warn!(%file, "the budgets file keeps changing: it is read once two looks find it unchanged");
        }
    }

    /// What is in force is to be read again.
    fn anew(&mut self) {
        match self.kept {
            Some(_) => self.kept_due = true,
            None => self.looks.forget(),
        }
    }

    fn take_kept(&mut self) {
        let Some(kept) = self.kept else { return };
        let orders = OrderTerms::of(&self.status.config());
        match read_kept(&self.copy, kept, (&self.exchange, &orders)) {
            Ok((file, campaign_index)) => self.hand_over(file, campaign_index, Some(kept)),
            Err(why) => self.refuse(vec![format!("{}: {why}", self.copy.display())]),
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
            Ok((file, campaign_index)) => self.hand_over(file, campaign_index, None),
            Err(errors) => self.refuse(errors.iter().map(ToString::to_string).collect()),
        }
    }

    fn prove(&mut self) {
        if FileCheck::differs(&mut self.proof, &self.path) {
            tracing::info!("the budgets file changed while it was read: it is read again");
            self.looks.forget();
        }
    }

    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        lock(&self.indexes)
    }

    /// `kept`: it is not this node's own file, but the one with this digest that is in force.
    fn hand_over(
        &mut self,
        file: BudgetsFile,
        campaign_index: CampaignIndex,
        kept: Option<Digest>,
    ) {
        let path = if kept.is_some() { &self.copy } else { &self.path };
        let said = FileTerms::of(&file);
        let BudgetsFile { lines, templates } = file;
        let count = lines.len();
        let places: HashMap<u64, usize> =
            lines.iter().map(|line| (line.budget.spec.id, line.budget.line)).collect();
        let why = format!("{} has {count} budgets", path.display());
        let loaded = self.edits.load(lines, campaign_index, &why);
        if matches!(loaded, Ok(()) | Err(BankError::Silent)) {
            // Behind the budgets of the same file, which their parents may be. A bank that is gone needs none.
            let _ = self.commands.send(Command::Templates { templates: Arc::new(templates) });
        }
        match loaded {
            Ok(()) => {
                self.status.configured(self.edits.names());
                self.kept = kept;
                if let Some(before) = &self.said {
                    tracing::info!("{} is in force: {}", path.display(), said.since(before));
                }
                self.said = Some(said);
                let digest = kept.or(self.proof.as_ref().map(FileCheck::digest));
                if let Some((telling, digest)) = self.telling.as_mut().zip(digest)
                    && telling.in_force(digest, path.clone())
                    && kept.is_none()
                {
                    self.status.set_files_differ(false);
                }
            }
            Err(BankError::Journal(error)) => {
                tracing::error!(error, "the journal cannot take new budgets; they are tried again");
                match kept {
                    Some(_) => self.kept_due = true,
                    None => self.looks.forget(),
                }
            }
            Err(BankError::Ends(ending)) => {
                self.refuse(vec![format!("{}: {ending}", path.display())]);
            }
            Err(BankError::Specs(errors)) => {
                let file = path.display();
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

    fn carries(&self) -> bool {
        !self.status.config().cluster.log.is_empty()
    }

    fn carry(&mut self, message: Vec<u8>) -> Result<(), BankError> {
        let carried = self.ask(|reply| Command::Carry { room: Room::Edits, message, reply })?;
        carried.map(|_| ()).map_err(BankError::Journal)
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
