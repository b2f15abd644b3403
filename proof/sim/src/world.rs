//! The simulated node and its surroundings, the workers, and the steps of a run. What the steps do is also in `client`,
//! `bank`, `owner`, `faults`, `crash` and `rest`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use ledger::{
    Bank, BudgetSpec, Claimed, Keyed, MemoAnswer, No, Options, Out, PurseOptions, Purses, ToBank,
    ToWorker, TokenKey,
};
use ledger_journal::{Position, Tail};
use money::Window;
use wire::Handle;

use crate::clicks::{CLICKS, Clicks};
use crate::client::Request;
use crate::crash::Model;
use crate::engine::{Engine, SharedEngine};
use crate::files::SimFolder;
use crate::journal::{Journal, Sizes};
use crate::keyed::FirstAnswers;
use crate::lease::{Lease, Zombie};
use crate::made::{Made, template_of};
use crate::memos::{self, Memos};
use crate::named::OrderDoor;
use crate::oracle::Oracle;
use crate::orders::{ORDERS, Orders};
use crate::planted::NodeFolder;
use crate::rng::Rng;
use crate::timed::TimedClients;
use crate::{Bug, Stats, draw};

/// A worker with its purses and its two queues.
pub(crate) struct Worker {
    pub(crate) purses: Purses,
    /// Purses of budgets that were made on their first ask...
    pub(crate) made: Purses,
    /// ...and the slots of those that it knows, by template.
    pub(crate) opened: BTreeMap<usize, u32>,
    pub(crate) to_bank: VecDeque<Up>,
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
    /// The bank's last word about each purse that was not money.
    pub(crate) told: BTreeMap<u32, No>,
}

impl Worker {
    /// The bank judges a request that has this stamp. A stamp that went back counts as the latest one.
    pub(crate) fn judged(&mut self, stamp_ms: u64) -> u64 {
        self.judged_ms = self.judged_ms.max(stamp_ms);
        self.judged_ms
    }
}

/// From a worker to the bank's thread.
pub(crate) enum Up {
    Ledger(ToBank),
    Keyed(Keyed),
}

/// From the bank's thread to a worker.
pub(crate) enum Down {
    Ledger(ToWorker),
    /// What became of a claim, by the request that claimed.
    Claimed(u64, Claimed),
    /// What became of a memo, by the request that has it.
    Memo(u64, MemoAnswer),
    /// A budget was made, or was there: which template, and its slot.
    Opened(usize, u32),
    /// A budget that was made ended.
    Ended(Handle),
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
    /// Until when they may grant, where the log is on other machines and the run has a lease.
    pub(crate) lease: Option<Rc<Lease>>,
    /// Workers of banks that were replaced.
    pub(crate) zombies: Vec<Zombie>,
    /// Of how many changes their owners heard.
    pub(crate) changes_told: u64,
    pub(crate) oracle: Oracle,
    /// Budgets that can be made on their first ask, in some runs without a planted bug, and wherever one of theirs is planted.
    pub(crate) made: Option<Made>,
    pub(crate) requests: Vec<Request>,
    pub(crate) first_answers: FirstAnswers,
    pub(crate) memos: Memos,
    pub(crate) orders: Orders,
    pub(crate) clicks: Clicks,
    /// A door that keeps orders, in some runs.
    pub(crate) door: Option<OrderDoor>,
    /// Clients of holds that end by time, in some runs.
    pub(crate) timed: Option<TimedClients>,
    /// The bank said that nothing is left, and it was not so.
    pub(crate) false_no: Option<String>,
    pub(crate) stats: Stats,
}

impl World {
    /// A world drawn from a seed, before its first step.
    pub fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut rng = Rng::new(seed);
        let now_ms = draw::start_ms(&mut rng);
        let narrow = draw::narrow(&mut rng);
        let (options, purse_options) = draw::options(&mut rng, narrow, bug);
        let options = Options { memo_judges: memos::judges(bug), ..options };
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
            lease: None,
            zombies: Vec::new(),
            changes_told: 0,
            oracle: Oracle::default(),
            made: Made::draw(seed, bug),
            requests: Vec::new(),
            first_answers: FirstAnswers::default(),
            memos: Memos::new(seed),
            orders: Orders::new(seed),
            clicks: Clicks::new(seed),
            door: None,
            timed: TimedClients::draw(seed, bug),
            false_no: None,
            stats: Stats::default(),
        };
        let chains = world.specs.iter().map(|spec| (spec.id, world.chain(spec.id)));
        world.door = OrderDoor::draw(seed, bug, chains.collect());
        world.start().expect("nothing was promised yet");
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

    pub(crate) fn start(&mut self) -> Result<(), String> {
        let mut out = Out::default();
        self.bank.start_run(self.now_ms, &mut out);
        self.check_early()?;
        if self.bank.keys().is_empty() {
            self.add_key(1, &mut out);
        }
        if self.bank.answer_secret().is_none() && self.rng.chance(500) {
            self.bank.add_answer_secret([7; 16].into(), &mut out);
        }
        self.bank.open_all(&mut out);
        self.append(&mut out);
        self.suspended_until_ms = self.now_ms + self.purse_options.hold_ms_max();
        self.workers = (0..self.options.workers).map(|_| self.worker()).collect();
        let lease = Some(self.options.lease_ms).filter(|ms| *ms > 0 && self.engine.is_some());
        self.lease = lease.map(Lease::new);
        self.journal.sealer_mut().lease.clone_from(&self.lease);
        Ok(())
    }

    fn worker(&mut self) -> Worker {
        Worker {
            purses: Purses::new(self.purse_options, self.bank.slots()),
            made: Purses::new(self.purse_options, 0),
            opened: BTreeMap::new(),
            to_bank: VecDeque::new(),
            to_worker: VecDeque::new(),
            journal_fails: false,
            lag_ms: if self.rng.chance(300) { self.rng.below(200) } else { 0 },
            latest_ms: self.bank.now_ms(),
            judged_ms: 0,
            stalled_until_ms: 0,
            told: BTreeMap::new(),
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
        self.ask_zombie()?;
        self.step_made()?;
        self.send_number();
        self.send_orders();
        self.send_click();
        self.step_named()?;
        self.send_timed();
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
        let Worker { purses, made, .. } = &mut self.workers[index];
        purses.turn(now_ms);
        made.turn(now_ms);
        while let Some(message) = made.next_message() {
            purses.send(message.of_made());
        }
        purses.send(ToBank::Echo { reply: 0 });
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
            Down::Ledger(ToWorker::Resolved { reply, resolution }) if reply >= CLICKS => {
                return self.clicked(reply, resolution);
            }
            Down::Ledger(ToWorker::Resolved { reply, resolution }) if reply >= ORDERS => {
                return self.order_kept(index, reply, resolution.verdict, now_ms);
            }
            Down::Ledger(ToWorker::Resolved { reply, resolution }) => {
                return self.resolved(index, reply, resolution);
            }
            Down::Claimed(reply, claimed) if reply >= ORDERS => {
                return self.order_claimed(index, reply, claimed, now_ms);
            }
            Down::Claimed(reply, claimed) => {
                return self.claimed(index, reply, claimed, now_ms);
            }
            Down::Memo(reply, answer) => return self.recorded(reply, answer),
            Down::Ledger(message) => {
                self.note_word(index, &message);
                let Worker { purses, made, .. } = &mut self.workers[index];
                match message.made() {
                    None => purses.take(message, now_ms),
                    Some((slot, message)) if (slot as usize) < made.slots() => {
                        made.take(message, now_ms);
                    }
                    Some(_) => {}
                }
            }
            Down::Opened(template, slot) => self.opened_made(index, template, slot),
            Down::Ended(handle) => self.ended_made(index, &handle),
            Down::JournalFails(fails) => self.workers[index].journal_fails = fails,
        }
        Ok(())
    }

    /// Moves what the purses want to say into the queue to the bank.
    pub(crate) fn flush(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        while let Some(message) = worker.purses.next_message() {
            match (message, self.bug) {
                (ToBank::Lapse { .. }, Some(Bug::LapseTwice)) => {
                    worker.to_bank.push_back(Up::Ledger(message));
                }
                (ToBank::Retire { .. }, Some(Bug::LoseRetire)) => continue,
                _ => {}
            }
            worker.to_bank.push_back(Up::Ledger(message));
        }
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(error) = self.false_no.take() {
            return Err(error);
        }
        if self.rng.chance(100) {
            self.bank.audit()?;
            let timed = self.timed_sums();
            let named = |id| {
                let books = self.door.as_ref().map(|door| &door.books);
                let timed = timed.get(&id).map_or(0, |sums| sums.within);
                books.map_or(0, |books| books.within(id) - books.forced(id)) + timed
            };
            self.oracle.check_exposure(self.now_ms, self.narrow, |id| self.day_of(id), named)?;
        }
        self.oracle.check_windows()?;
        self.fold()?;
        self.check_named()?;
        for spec in &self.specs {
            // A budget can end before its first record is sealed, and the crash comes between.
            let Some(slot) = self.bank.slot(spec.id) else { continue };
            let books = self.bank.books(slot);
            let within = i128::from(books.exposure().get()) - i128::from(books.debts().get());
            let forced = self.door.as_ref().map_or(0, |door| door.books.forced(spec.id));
            let above = self.oracle.check_cap(spec.id, within, forced)?;
            if let Some(door) = &mut self.door {
                door.books.settle_forced(spec.id, above);
            }
            if within > i128::from(spec.limit.get()) && spec.tolerance_ppm > 0 {
                self.stats.one("expired money handed out again");
            }
        }
        Ok(())
    }

    fn day_of(&self, id: u64) -> Window {
        let made = self.made.as_ref().zip(template_of(id));
        let slot = match made {
            Some((made, template)) => self.bank.made(made.templates[template].handle()),
            None => self.bank.slot(id),
        };
        slot.map(|slot| self.bank.day(slot).0).unwrap_or_default()
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
