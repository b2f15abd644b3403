//! The simulated node and its surroundings, the workers, and the steps of a run. What the steps do is also in `client`,
//! `bank`, `owner`, `faults`, `crash` and `rest`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ledger::{
    Bank, BudgetSpec, Line, Options, Out, PurseOptions, Purses, ToBank, ToWorker, TokenKey,
};
use ledger_journal::{Position, Tail};

use crate::client::Request;
use crate::crash::Model;
use crate::engine::{Engine, SharedEngine};
use crate::files::SimFolder;
use crate::journal::{Journal, Sizes};
use crate::oracle::{Calendar, Oracle};
use crate::planted::NodeFolder;
use crate::rng::Rng;
use crate::{Bug, Stats, draw};

/// A worker with its purses and its two queues.
pub(crate) struct Worker {
    pub(crate) purses: Purses,
    pub(crate) to_bank: VecDeque<ToBank>,
    pub(crate) to_worker: VecDeque<Down>,
    /// It was told that nothing can be sealed, and refuses every ask.
    pub(crate) journal_fails: bool,
    /// Its clock runs this far behind the world's, and at times goes back.
    lag_ms: u64,
    /// The latest stamp of this run that it promised the bank to keep to.
    pub(crate) latest_ms: u64,
    /// The latest one by which the bank judged a request of it. A refused request leaves no trace.
    judged_ms: u64,
    /// It does nothing before this.
    stalled_until_ms: u64,
}

impl Worker {
    /// The bank judges a request that has this stamp. A stamp that went back counts as the latest one.
    pub(crate) fn judged(&mut self, stamp_ms: u64) -> u64 {
        self.judged_ms = self.judged_ms.max(stamp_ms);
        self.judged_ms
    }
}

/// From the bank's thread to a worker.
pub(crate) enum Down {
    Ledger(ToWorker),
    /// The journal cannot seal, or can again.
    JournalFails(bool),
}

/// One simulated node.
pub struct World {
    pub(crate) rng: Rng,
    pub(crate) bug: Option<Bug>,
    /// Faults have stopped.
    pub(crate) calm: bool,
    pub(crate) now_ms: u64,
    pub(crate) narrow: bool,
    pub(crate) options: Options,
    pub(crate) purse_options: PurseOptions,
    pub(crate) specs: Vec<BudgetSpec>,
    /// Budgets that are not in the configuration at present.
    pub(crate) ended: BTreeSet<u64>,
    pub(crate) bank: Bank,
    pub(crate) suspended_until_ms: u64,
    pub(crate) disk: SimFolder,
    /// The disk has no room before this.
    pub(crate) full_until_ms: u64,
    /// What had gone wrong on the disk when the last crash was armed.
    pub(crate) faults_before: BTreeMap<&'static str, u64>,
    pub(crate) sizes: Sizes,
    /// The log on other machines, in some runs.
    pub(crate) engine: Option<SharedEngine>,
    pub(crate) journal: Journal,
    pub(crate) model: Model,
    /// Token keys that workers may have used.
    pub(crate) keys: Vec<TokenKey>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) oracle: Oracle,
    pub(crate) requests: Vec<Request>,
    pub(crate) stats: Stats,
}

impl World {
    /// A world drawn from a seed, before its first step.
    pub fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut rng = Rng::new(seed);
        let now_ms = draw::start_ms(&mut rng);
        let narrow = draw::narrow(&mut rng);
        let (options, purse_options) = draw::options(&mut rng, narrow);
        let specs = draw::budgets(&mut rng, now_ms);
        let disk = SimFolder::new(rng.next());
        let sizes = Sizes::draw(&mut rng);
        let empty = Tail { position: Position::START, next_segment: 1 };
        let folder = NodeFolder::new(disk.clone(), bug);
        let engine = Engine::draw(seed, bug);
        let journal = Journal::new(folder, sizes, empty, engine.clone(), Rng::new(rng.next()));
        let mut world = World {
            rng,
            bug,
            calm: false,
            now_ms,
            bank: Bank::new(options.clone()),
            narrow,
            options,
            purse_options,
            specs,
            ended: BTreeSet::new(),
            suspended_until_ms: 0,
            disk,
            full_until_ms: 0,
            faults_before: BTreeMap::new(),
            sizes,
            engine,
            journal,
            model: Model::new(),
            keys: Vec::new(),
            workers: Vec::new(),
            oracle: Oracle::default(),
            requests: Vec::new(),
            stats: Stats::default(),
        };
        world.start();
        world.configure();
        world
    }

    /// Runs some thousand steps, then lets everything come to rest and checks that all money is accounted for.
    ///
    /// # Errors
    /// The promise that was broken, and when.
    pub fn run(mut self, steps: u32) -> Result<Stats, String> {
        for step in 0..steps {
            self.step().map_err(|error| format!("step {step}, {} ms: {error}", self.now_ms))?;
        }
        self.rest().map_err(|error| format!("at rest, {} ms: {error}", self.now_ms))?;
        Ok(self.stats)
    }

    pub(crate) fn start(&mut self) {
        let mut out = Out::default();
        self.bank.start_run(self.now_ms, &mut out);
        if self.bank.keys().is_empty() {
            self.add_key(1, &mut out);
        }
        self.bank.open_all(&mut out);
        self.append(&mut out);
        self.suspended_until_ms = self.now_ms + self.purse_options.hold_ms_max();
        self.workers = (0..self.options.workers).map(|_| self.worker()).collect();
    }

    fn worker(&mut self) -> Worker {
        Worker {
            purses: Purses::new(self.purse_options, self.bank.slots()),
            to_bank: VecDeque::new(),
            to_worker: VecDeque::new(),
            journal_fails: false,
            lag_ms: if self.rng.chance(300) { self.rng.below(200) } else { 0 },
            latest_ms: self.bank.now_ms(),
            judged_ms: 0,
            stalled_until_ms: 0,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(1000) {
            0..300 => self.ask()?,
            300..480 => self.request(),
            480..500 => self.repeat(),
            500..560 => self.now_ms += self.rng.below(60),
            560..700 => self.worker_turn()?,
            700..840 => self.bank_turn(),
            840..965 => self.writer_turn()?,
            965..968 => self.stick(300),
            968..973 => self.reconcile(),
            // A disk that does nothing for long: purses are all there is.
            973 => self.stick(1_500),
            974..977 => self.stall(),
            977..980 => self.clock_back(),
            980..983 => self.change(),
            983 => self.jump(),
            984 => self.crash()?,
            985 => self.arm_crash(),
            986..990 => self.disk_fault(),
            990 => self.rotate_key(),
            991..1000 => self.housekeeper_turn()?,
            _ => {}
        }
        self.end_full_disk();
        self.deliver();
        self.check()
    }

    fn stall(&mut self) {
        self.stats.one("worker stalled");
        let until_ms = self.now_ms + self.rng.below(400);
        let index = self.rng.index(self.workers.len());
        self.workers[index].stalled_until_ms = until_ms;
    }

    fn clock_back(&mut self) {
        let far = if self.rng.chance(100) { 5_000 } else { 400 };
        let index = self.rng.index(self.workers.len());
        self.workers[index].lag_ms = self.rng.below(far);
    }

    /// A long pause, or a jump of the clock: seconds, or hours over a midnight.
    fn jump(&mut self) {
        if self.rng.chance(150) {
            self.stats.one("clock jumped hours");
            self.now_ms += 3_600_000 + self.rng.below(30 * 3_600_000);
        } else {
            self.stats.one("clock jumped seconds");
            self.now_ms += self.rng.below(10_000);
        }
    }

    /// A worker that is not stalled.
    pub(crate) fn awake_worker(&mut self) -> Option<usize> {
        let index = self.rng.index(self.workers.len());
        (self.workers[index].stalled_until_ms <= self.now_ms).then_some(index)
    }

    /// What a worker's clock says. It may lag, and go back.
    pub(crate) fn read_clock(&mut self, worker: usize) -> u64 {
        let worker = &mut self.workers[worker];
        if self.rng.chance(20) && worker.lag_ms > 0 {
            worker.lag_ms -= self.rng.below(worker.lag_ms + 1);
        }
        self.now_ms - worker.lag_ms
    }

    fn worker_turn(&mut self) -> Result<(), String> {
        let Some(index) = self.awake_worker() else { return Ok(()) };
        let now_ms = self.read_clock(index);
        for _ in 0..self.rng.below(40) {
            let Some(message) = self.workers[index].to_worker.pop_front() else { break };
            self.take(index, message, now_ms)?;
        }
        self.turn(index, now_ms);
        Ok(())
    }

    fn turn(&mut self, index: usize, now_ms: u64) {
        let ahead_ms = if self.bug == Some(Bug::TickAhead) { 300 } else { 0 };
        self.workers[index].latest_ms = self.workers[index].latest_ms.max(now_ms);
        let purses = &mut self.workers[index].purses;
        purses.turn(now_ms);
        purses.tick(now_ms + ahead_ms);
        self.flush(index);
    }

    /// A worker that has nothing to wait for.
    pub(crate) fn workers_rest(&mut self, index: usize) -> Result<(), String> {
        self.workers[index].lag_ms = 0;
        let now_ms = self.read_clock(index);
        while let Some(message) = self.workers[index].to_worker.pop_front() {
            self.take(index, message, now_ms)?;
        }
        self.turn(index, now_ms);
        Ok(())
    }

    fn take(&mut self, index: usize, message: Down, now_ms: u64) -> Result<(), String> {
        match message {
            Down::Ledger(ToWorker::Resolved { reply, verdict, repeat }) => {
                return self.answer(reply, verdict, repeat);
            }
            Down::Ledger(message) => self.workers[index].purses.take(message, now_ms),
            Down::JournalFails(fails) => self.workers[index].journal_fails = fails,
        }
        Ok(())
    }

    /// Moves what the purses want to say into the queue to the bank.
    pub(crate) fn flush(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        while let Some(message) = worker.purses.next_message() {
            match (message, self.bug) {
                (ToBank::Lapse { .. }, Some(Bug::LapseTwice)) => worker.to_bank.push_back(message),
                (ToBank::Retire { .. }, Some(Bug::LoseRetire)) => continue,
                _ => {}
            }
            worker.to_bank.push_back(message);
        }
    }

    fn check(&mut self) -> Result<(), String> {
        if self.rng.chance(100) {
            self.bank.audit()?;
            self.oracle.check_exposure(self.now_ms, |id| self.calendar_of(id))?;
        }
        for spec in &self.specs {
            // A budget can end before its first record is sealed, and the crash comes between.
            let Some(slot) = self.bank.slot(spec.id) else { continue };
            let books = self.bank.books(slot);
            let debts = books.line(Line::OverSettled).get() + books.line(Line::Late).get();
            let within = i128::from(books.exposure().get()) - i128::from(debts);
            self.oracle.check_cap(spec.id, within)?;
            if within > i128::from(spec.limit.get()) && spec.tolerance_ppm > 0 {
                self.stats.one("expired money handed out again");
            }
        }
        Ok(())
    }

    fn calendar_of(&self, id: u64) -> Calendar {
        let Some(slot) = self.bank.slot(id) else { return Calendar::default() };
        let period = self.bank.period(slot).map(|(period, _)| period);
        Calendar { day: self.bank.day(slot).0, period: period.unwrap_or_default() }
    }

    /// Ids of a budget and its parents.
    pub(crate) fn chain(&self, id: u64) -> Vec<u64> {
        let mut chain = vec![id];
        let parent = |id: u64| self.specs.iter().find(|spec| spec.id == id)?.parent;
        while let Some(above) = parent(*chain.last().expect("not empty")) {
            chain.push(above);
        }
        chain
    }
}

/// Which request an answer is for.
pub(crate) fn request_index(reply: u64) -> usize {
    usize::try_from(reply).expect("an index")
}
