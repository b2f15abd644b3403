//! The simulated node and its surroundings: workers, bank, disk, owners, faults.

use std::collections::{BTreeSet, VecDeque};

use ledger::{
    Amount, Bank, BudgetSpec, Line, Options, Out, PurseOptions, Purses, Record, Status, ToBank,
    ToWorker,
};
use money::Instant;

use crate::client::Request;
use crate::disk::Disk;
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::{Bug, Stats, draw};

/// A worker with its purses and its two queues.
pub(crate) struct Worker {
    pub(crate) purses: Purses,
    pub(crate) to_bank: VecDeque<ToBank>,
    pub(crate) to_worker: VecDeque<ToWorker>,
    /// Its clock runs this far behind the world's, and at times goes back.
    lag_ms: u64,
    /// The latest stamp of this run that it told the bank.
    pub(crate) latest_ms: u64,
    /// It does nothing before this.
    stalled_until_ms: u64,
}

impl Worker {
    /// The bank hears of this stamp. A stamp that went back counts as the latest one.
    pub(crate) fn told(&mut self, stamp_ms: u64) -> u64 {
        self.latest_ms = self.latest_ms.max(stamp_ms);
        self.latest_ms
    }
}

/// One simulated node.
pub struct World {
    pub(crate) rng: Rng,
    bug: Option<Bug>,
    /// Faults have stopped.
    pub(crate) calm: bool,
    pub(crate) now_ms: u64,
    narrow: bool,
    pub(crate) options: Options,
    purse_options: PurseOptions,
    pub(crate) specs: Vec<BudgetSpec>,
    /// Budgets that are not in the configuration at present.
    ended: BTreeSet<u64>,
    pub(crate) bank: Bank,
    suspended_until_ms: u64,
    pub(crate) disk: Disk,
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
            disk: Disk::default(),
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
    /// What promise was broken, and when.
    pub fn run(mut self, steps: u32) -> Result<Stats, String> {
        for step in 0..steps {
            self.step().map_err(|error| format!("step {step}, {} ms: {error}", self.now_ms))?;
        }
        self.rest().map_err(|error| format!("at rest, {} ms: {error}", self.now_ms))?;
        Ok(self.stats)
    }

    fn start(&mut self) {
        let mut out = Out::default();
        self.bank.start_run(self.now_ms, &mut out);
        self.bank.open_all(&mut out);
        self.disk.append(&mut out);
        self.suspended_until_ms = self.now_ms + self.purse_options.hold_ms_max();
        self.workers = (0..self.options.workers).map(|_| self.worker()).collect();
    }

    fn worker(&mut self) -> Worker {
        Worker {
            purses: Purses::new(self.purse_options, self.bank.slots()),
            to_bank: VecDeque::new(),
            to_worker: VecDeque::new(),
            lag_ms: if self.rng.chance(300) { self.rng.below(200) } else { 0 },
            latest_ms: self.bank.now_ms(),
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
            840..965 => self.disk.seal(self.now_ms, &mut self.rng),
            965..968 => self.disk.stick(self.now_ms + self.rng.below(300)),
            // A full disk: for long nothing is sealed, and purses are all there is.
            973 => self.disk.stick(self.now_ms + self.rng.below(1_500)),
            974..977 => self.stall(),
            977..980 => self.clock_back(),
            980..983 => self.change(),
            983 => self.jump(),
            984..986 => self.crash()?,
            _ => {}
        }
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
        self.workers[index].told(now_ms);
        let purses = &mut self.workers[index].purses;
        purses.turn(now_ms);
        purses.tick(now_ms + ahead_ms);
        self.flush(index);
    }

    fn take(&mut self, index: usize, message: ToWorker, now_ms: u64) -> Result<(), String> {
        if let ToWorker::Resolved { reply, verdict, repeat } = message {
            return self.answer(reply, verdict, repeat);
        }
        self.workers[index].purses.take(message, now_ms);
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

    fn bank_turn(&mut self) {
        let mut out = Out::default();
        for index in 0..self.workers.len() {
            for _ in 0..self.rng.below(30) {
                let Some(message) = self.workers[index].to_bank.pop_front() else { break };
                self.bank.step(u16::try_from(index).expect("few workers"), message, &mut out);
            }
        }
        self.bank.tick(self.now_ms, &mut out);
        self.disk.append(&mut out);
    }

    /// Messages whose records are sealed reach the workers' queues.
    fn deliver(&mut self) {
        let early = self.bug == Some(Bug::AnswerBeforeSeal);
        while let Some((worker, message)) = self.disk.next_message(early) {
            self.workers[usize::from(worker)].to_worker.push_back(message);
        }
    }

    /// An owner changes a budget: limits, status, flight, or whether it is there at all.
    fn change(&mut self) {
        let index = self.rng.index(self.specs.len());
        let most = if self.rng.chance(500) { 20_000 } else { 500 };
        let limit = Amount::new(self.rng.between(100, most));
        let end = Instant::from_ms(self.now_ms + 1_000 + self.rng.below(100_000_000));
        let pick = self.rng.below(6);
        let pause = self.rng.chance(500);
        let id = self.specs[index].id;
        let below = limit.get() < self.out_of(id).0;
        let leaf = self.specs.iter().all(|spec| spec.parent != Some(id));
        let spec = &mut self.specs[index];
        match pick {
            0 => {
                spec.limit = limit;
                self.stats.count("limit lowered below what is out", u64::from(below));
            }
            1 if pause => spec.status = Status::Paused,
            1 | 2 => spec.status = Status::Active,
            3 if leaf && spec.status == Status::Active => {
                self.stats.one("budget ended or back");
                if !self.ended.remove(&id) {
                    self.ended.insert(id);
                }
            }
            4 if end > spec.start => {
                self.stats.one("flight moved");
                spec.end = end;
            }
            _ => spec.daily = spec.daily.map(|_| Amount::new(limit.get() / 2)),
        }
        self.stats.one("configuration changed");
        self.configure();
    }

    fn configure(&mut self) {
        let before: Vec<(i64, i64)> = self.specs.iter().map(|spec| self.out_of(spec.id)).collect();
        let present: Vec<BudgetSpec> =
            self.specs.iter().filter(|spec| !self.ended.contains(&spec.id)).cloned().collect();
        let mut out = Out::default();
        self.bank.configure(&present, &mut out).expect("drawn to be sound");
        self.disk.append(&mut out);
        for (spec, (exposure, used)) in self.specs.iter().zip(before) {
            let daily = spec.daily.map(|daily| daily.get().max(used));
            self.oracle.set_cap(spec.id, spec.limit.get(), exposure, daily);
        }
        for worker in &mut self.workers {
            worker.purses.grow(self.bank.slots());
        }
    }

    /// What is out or spent in the budget's life, and of its day.
    fn out_of(&self, id: u64) -> (i64, i64) {
        let Some(slot) = self.bank.slot(id) else { return (0, 0) };
        (self.bank.books(slot).exposure().get(), self.bank.day(slot).1.get())
    }

    /// kill -9: workers and queues are gone, the bank is what the disk says.
    fn crash(&mut self) -> Result<(), String> {
        self.stats.one("crash");
        self.stats.bank(self.bank.counts());
        if self.disk.is_stuck(self.now_ms) {
            self.stats.one("crash: disk stuck");
        }
        if self.now_ms < self.suspended_until_ms && self.bank.run() > 1 {
            self.stats.one("crash during a suspension");
        }
        let before = self.bank.digest();
        let (kept, lost) = self.disk.crash(&mut self.rng);
        self.stats.count("crash: records lost", u64::from(lost > 0));
        self.stats.count("crash: records torn in the middle", u64::from(lost > 0 && kept > 0));
        if self.rng.chance(500) {
            self.stats.one("crash: the next run has other options");
            (self.options, self.purse_options) = draw::options(&mut self.rng, self.narrow);
        }
        self.bank = self.replay()?;
        if lost == 0 {
            self.stats.one("crash: nothing lost, digests equal");
            if self.bank.digest() != before {
                return Err("replayed state differs from the live one".into());
            }
        }
        self.bank.audit()?;
        self.start();
        // Changes whose records were lost are made again by the watcher.
        self.configure();
        Ok(())
    }

    fn replay(&self) -> Result<Bank, String> {
        let mut bank = Bank::new(self.options.clone());
        for record in &self.disk.sealed {
            let mut record = record.clone();
            if self.bug == Some(Bug::ForgetSuspension)
                && let Record::RunStarted { hold_ms_max, .. } = &mut record
            {
                *hold_ms_max = 0;
            }
            bank.replay(&record).map_err(|error| format!("replay: {error}"))?;
        }
        Ok(bank)
    }

    fn check(&mut self) -> Result<(), String> {
        if self.rng.chance(100) {
            self.bank.audit()?;
            self.oracle.check_exposure(self.now_ms, |id| self.day_of(id))?;
        }
        for spec in &self.specs {
            // A budget can end before its first record is sealed, and the crash comes between.
            let Some(slot) = self.bank.slot(spec.id) else { continue };
            let books = self.bank.books(slot);
            let debts = books.line(Line::OverSettled).get() + books.line(Line::Late).get();
            let within = i128::from(books.exposure().get()) - i128::from(debts);
            self.oracle.check_cap(spec.id, within)?;
        }
        Ok(())
    }

    fn day_of(&self, id: u64) -> (u64, u64) {
        let Some(slot) = self.bank.slot(id) else { return (0, 0) };
        let day = self.bank.day(slot).0;
        (day.start.ms(), day.end.ms())
    }

    /// Faults stop, every budget is paused, clients get their answers, every deadline passes.
    fn rest(&mut self) -> Result<(), String> {
        self.calm = true;
        for spec in &mut self.specs {
            spec.status = Status::Paused;
        }
        self.configure();
        for second in 0..60 {
            if second < 10 {
                self.repeat_all();
            }
            for index in 0..self.workers.len() {
                self.workers[index].lag_ms = 0;
                let now_ms = self.read_clock(index);
                while let Some(message) = self.workers[index].to_worker.pop_front() {
                    self.take(index, message, now_ms)?;
                }
                self.turn(index, now_ms);
            }
            while self.workers.iter().any(|worker| !worker.to_bank.is_empty()) {
                self.bank_turn();
            }
            self.disk.seal(u64::MAX, &mut self.rng);
            self.deliver();
            self.now_ms += if second < 10 { 1 } else { 1_000 };
        }
        self.stats.bank(self.bank.counts());
        self.stats.records(&self.disk.sealed, &self.bank);
        self.bank.audit()?;
        self.check_rest()
    }

    /// No money is anywhere but free or spent, and what is spent is what clients were told, to the unit.
    fn check_rest(&self) -> Result<(), String> {
        let replayed = self.replay()?;
        if self.bug.is_none() && replayed.digest() != self.bank.digest() {
            return Err("replayed state differs from the live one".into());
        }
        let spent = self.oracle.spent(&self.disk.sealed, self.narrow)?;
        for spec in &self.specs {
            let books =
                self.bank.slot(spec.id).map(|slot| *self.bank.books(slot)).unwrap_or_default();
            for line in [Line::Purses, Line::Held, Line::Suspended] {
                if books.line(line) != Amount::ZERO {
                    return Err(format!("budget {}: money left behind: {books:?}", spec.id));
                }
            }
            let booked = i128::from(books.spent().get());
            let told = spent.get(&spec.id).copied().unwrap_or(0);
            if told != booked {
                return Err(format!("budget {}: clients know of {told}, {booked} booked", spec.id));
            }
        }
        if self.bank.grants() != 0 {
            return Err(format!("{} grants never closed", self.bank.grants()));
        }
        Ok(())
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
