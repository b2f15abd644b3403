//! The simulated node and its surroundings: workers, bank, disk, clients, faults.

use std::collections::VecDeque;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Hold, Line, Options, Out, PurseOptions, Purses, Status,
    ToBank, ToWorker, Verdict,
};
use money::{Instant, Unit, Zone};

use crate::Bug;
use crate::disk::Disk;
use crate::oracle::{Known, Oracle};
use crate::rng::Rng;

const HOLD_MS: u64 = 400;
const BILLING_MS: u64 = 6_400;
const LATE_MS: u64 = 20_000;

/// What happened in a run, so that a reader sees that the run reached the rare cases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Holds granted.
    pub granted: u64,
    /// Asks refused.
    pub refused: u64,
    /// Requests about holds that were answered.
    pub answered: u64,
    /// Of these: settled within, over, late, and answered again.
    pub settled: [u64; 4],
    /// Crashes.
    pub crashes: u64,
    /// Changes of the configuration.
    pub changes: u64,
    /// Days that ended.
    pub days: u64,
    /// Records written.
    pub records: u64,
}

impl Stats {
    /// Adds another run's.
    pub fn add(&mut self, other: &Stats) {
        self.granted += other.granted;
        self.refused += other.refused;
        self.answered += other.answered;
        for (sum, more) in self.settled.iter_mut().zip(other.settled) {
            *sum += more;
        }
        self.crashes += other.crashes;
        self.changes += other.changes;
        self.days += other.days;
        self.records += other.records;
    }
}

/// A worker with its purses and its two queues.
struct Worker {
    purses: Purses,
    to_bank: VecDeque<ToBank>,
    to_worker: VecDeque<ToWorker>,
    /// Its clock may run behind the world's.
    clock_ms: u64,
}

/// A request about a hold, on its way or answered.
#[derive(Clone, Copy, Debug)]
struct Request {
    hold: usize,
    action: Action,
    at_ms: u64,
}

/// One simulated node.
pub struct World {
    rng: Rng,
    bug: Option<Bug>,
    now_ms: u64,
    specs: Vec<BudgetSpec>,
    bank: Bank,
    disk: Disk,
    workers: Vec<Worker>,
    oracle: Oracle,
    requests: Vec<Request>,
    stats: Stats,
}

impl World {
    /// A world drawn from a seed, before its first step.
    pub fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut rng = Rng::new(seed);
        // Shortly before a midnight of one of the zones, some of them on a day with a change of the clocks.
        let midnights =
            [1_774_738_800_000, 1_774_832_400_000, 1_793_484_000_000, 1_767_225_600_000];
        let now_ms = midnights[rng.index(midnights.len())] - rng.below(20_000);
        let workers = 1 + rng.index(3);
        let specs = draw_budgets(&mut rng, now_ms);
        let bank = Bank::new(options(workers));
        let mut world = World {
            rng,
            bug,
            now_ms,
            specs,
            bank,
            disk: Disk::default(),
            workers: Vec::new(),
            oracle: Oracle::new(BILLING_MS),
            requests: Vec::new(),
            stats: Stats::default(),
        };
        world.start(workers);
        world.configure();
        world
    }

    /// Runs some thousand steps, then lets everything come to rest and checks that all money is accounted for.
    pub fn run(mut self, steps: u32) -> Result<Stats, String> {
        for step in 0..steps {
            self.step().map_err(|error| format!("step {step}, {} ms: {error}", self.now_ms))?;
        }
        self.rest()?;
        Ok(self.stats)
    }

    fn start(&mut self, workers: usize) {
        let mut out = Out::default();
        self.bank.start_run(self.now_ms, &mut out);
        self.bank.open_all(&mut out);
        self.disk.append(&mut out);
        let slots = self.bank.slots();
        let worker = || Worker {
            purses: Purses::new(purse_options(), slots),
            to_bank: VecDeque::new(),
            to_worker: VecDeque::new(),
            clock_ms: self.now_ms,
        };
        self.workers = (0..workers).map(|_| worker()).collect();
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(100) {
            0..30 => self.ask()?,
            30..50 => self.request(),
            50..56 => self.pass_time(),
            56..70 => self.worker_turn()?,
            70..84 => self.bank_turn(),
            84..97 => self.disk.seal(self.now_ms, &mut self.rng),
            97 => self.disk.stick(self.now_ms + self.rng.below(300)),
            98 if self.rng.chance(300) => self.change(),
            98 if self.rng.chance(100) => self.jump(),
            99 if self.rng.chance(150) => self.crash()?,
            _ => {}
        }
        self.deliver();
        self.check()
    }

    /// A client asks a worker for money.
    fn ask(&mut self) -> Result<(), String> {
        let worker = self.rng.index(self.workers.len());
        let spec = self.specs[self.rng.index(self.specs.len())].clone();
        let Some(slot) = self.bank.slot(spec.id) else { return Ok(()) };
        let amount = self.rng.between(1, (spec.limit.get() / 200).max(2));
        let made_ms = self.read_clock(worker);
        let purses = &mut self.workers[worker].purses;
        if slot as usize >= purses.slots() {
            return Ok(());
        }
        let at = purses.at(made_ms);
        match purses.reserve(slot, Amount::new(amount), at) {
            Err(_) => self.stats.refused += 1,
            // Some holds are taken back at once, as for a pod of which another member was refused.
            Ok(hold) if self.rng.chance(50) => self.workers[worker].purses.undo(slot, &hold),
            Ok(hold) => return self.granted(&spec, hold, made_ms),
        }
        Ok(())
    }

    fn granted(&mut self, spec: &BudgetSpec, hold: Hold, made_ms: u64) -> Result<(), String> {
        self.stats.granted += 1;
        let amount = hold.amount.get();
        let price = match self.rng.below(10) {
            0 => amount + self.rng.between(1, amount),
            1 => 0,
            2..6 => amount,
            _ => self.rng.between(0, amount),
        };
        let mut chain = vec![spec.id];
        while let Some(parent) = self.spec(*chain.last().expect("not empty")).parent {
            chain.push(parent);
        }
        self.oracle.granted(Known {
            chain,
            hold,
            made_ms,
            price,
            confirmed: false,
            release_asked: false,
            settle_asked: false,
            released: false,
            settled: None,
            bookings: 0,
        })
    }

    /// Somebody confirms, settles or releases a hold: a recent one mostly, any worker, perhaps again.
    fn request(&mut self) {
        let holds = self.oracle.holds.len();
        if holds == 0 {
            return;
        }
        let back = if self.rng.chance(900) {
            self.rng.index(holds.min(60))
        } else {
            self.rng.index(holds)
        };
        let hold = holds - 1 - back;
        let action = match self.rng.below(10) {
            0..4 => Action::Confirm,
            4..8 => Action::Settle,
            _ => Action::Release,
        };
        for _ in 0..1 + self.rng.below(5) / 4 {
            let worker = self.rng.index(self.workers.len());
            self.send(worker, hold, action);
        }
    }

    fn send(&mut self, worker: usize, hold: usize, action: Action) {
        let at_ms = self.read_clock(worker);
        let known = &mut self.oracle.holds[hold];
        known.release_asked |= action == Action::Release;
        known.settle_asked |= action == Action::Settle;
        let amount = if action == Action::Settle { known.price } else { 0 };
        let message = ToBank::Resolve {
            action,
            hold: known.hold,
            amount: Amount::new(amount),
            at_ms,
            reply: self.requests.len() as u64,
        };
        self.requests.push(Request { hold, action, at_ms });
        self.flush(worker);
        self.workers[worker].to_bank.push_back(message);
    }

    fn pass_time(&mut self) {
        self.now_ms += self.rng.below(60);
    }

    /// A long pause, or a jump of the clock: seconds, or hours over a midnight.
    fn jump(&mut self) {
        let far = self.rng.chance(100);
        self.now_ms += if far { self.rng.below(30 * 3_600_000) } else { self.rng.below(10_000) };
    }

    /// A worker's clock follows the world's, at times late, never backwards.
    fn read_clock(&mut self, worker: usize) -> u64 {
        let lag = if self.rng.chance(200) { self.rng.below(50) } else { 0 };
        let clock = &mut self.workers[worker].clock_ms;
        *clock = (*clock).max(self.now_ms.saturating_sub(lag));
        *clock
    }

    fn worker_turn(&mut self) -> Result<(), String> {
        let index = self.rng.index(self.workers.len());
        let now_ms = self.read_clock(index);
        for _ in 0..self.rng.below(40) {
            let Some(message) = self.workers[index].to_worker.pop_front() else { break };
            self.take(index, message, now_ms)?;
        }
        self.workers[index].purses.turn(now_ms);
        self.workers[index].purses.tick(now_ms);
        self.flush(index);
        Ok(())
    }

    fn take(&mut self, index: usize, message: ToWorker, now_ms: u64) -> Result<(), String> {
        let ToWorker::Resolved { reply, verdict, repeat } = message else {
            let worker = &mut self.workers[index];
            worker.purses.grow(self.bank.slots());
            worker.purses.take(message, now_ms);
            return Ok(());
        };
        let request = self.requests[usize::try_from(reply).expect("an index")];
        // The answer may be lost on its way to the client.
        if self.rng.chance(100) {
            return Ok(());
        }
        self.stats.answered += 1;
        let kind = match (verdict, repeat) {
            (_, true) => Some(3),
            (Verdict::Settled, _) => Some(0),
            (Verdict::SettledOver, _) => Some(1),
            (Verdict::SettledLate, _) => Some(2),
            _ => None,
        };
        if let Some(kind) = kind {
            self.stats.settled[kind] += 1;
        }
        self.oracle.answered(request.hold, request.action, request.at_ms, verdict, repeat)
    }

    /// Moves what the purses want to say into the queue to the bank.
    fn flush(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        while let Some(message) = worker.purses.next_message() {
            if matches!(message, ToBank::Lapse { .. }) && self.bug == Some(Bug::LapseTwice) {
                worker.to_bank.push_back(message);
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

    /// An owner changes budgets: limits, status, daily limits.
    fn change(&mut self) {
        self.stats.changes += 1;
        let index = self.rng.index(self.specs.len());
        let limit = self.rng.between(100, 20_000);
        let pick = self.rng.below(4);
        let pause = self.rng.chance(500);
        let spec = &mut self.specs[index];
        match pick {
            0 => spec.limit = Amount::new(limit),
            1 if pause => spec.status = Status::Paused,
            1 | 2 => spec.status = Status::Active,
            _ => spec.daily = spec.daily.map(|_| Amount::new(limit / 2)),
        }
        self.configure();
    }

    fn configure(&mut self) {
        let before: Vec<(u64, i64, i64)> =
            self.specs.iter().map(|spec| self.out_of(spec.id)).collect();
        let mut out = Out::default();
        self.bank.configure(&self.specs, &mut out).expect("drawn to be sound");
        self.disk.append(&mut out);
        for (spec, (_, exposure, used)) in self.specs.iter().zip(before) {
            let daily = spec.daily.map(|daily| daily.get().max(used));
            self.oracle.set_cap(spec.id, spec.limit.get(), exposure, daily);
        }
        for worker in &mut self.workers {
            worker.purses.grow(self.bank.slots());
        }
    }

    fn out_of(&self, id: u64) -> (u64, i64, i64) {
        let Some(slot) = self.bank.slot(id) else { return (id, 0, 0) };
        (id, self.bank.books(slot).exposure().get(), self.bank.day(slot).1.get())
    }

    /// kill -9: workers and queues are gone, the bank is what the disk says.
    fn crash(&mut self) -> Result<(), String> {
        self.stats.crashes += 1;
        let whole = self.disk.is_clean();
        let before = self.bank.digest();
        self.disk.crash(&mut self.rng);
        let workers = self.workers.len();
        let mut options = options(workers);
        if self.bug == Some(Bug::ForgetSuspension) {
            options.hold_ms_max = 0;
        }
        self.bank = Bank::new(options);
        for record in &self.disk.sealed {
            self.bank.replay(record).map_err(|error| format!("replay: {error}"))?;
        }
        if whole && self.bank.digest() != before {
            return Err("replayed state differs from the live one".into());
        }
        self.bank.audit()?;
        self.start(workers);
        // Changes whose records were lost are made again by the watcher.
        self.configure();
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        if self.rng.chance(100) {
            self.bank.audit()?;
            self.oracle.check_exposure(self.now_ms, |id| self.day_of(id))?;
        }
        for spec in &self.specs {
            let slot = self.bank.slot(spec.id).expect("configured");
            let books = self.bank.books(slot);
            let debts = books.line(Line::OverSettled).get() + books.line(Line::Late).get();
            let within = i128::from(books.exposure().get()) - i128::from(debts);
            self.oracle.check_cap(spec.id, within)?;
        }
        Ok(())
    }

    fn day_of(&self, id: u64) -> (u64, u64) {
        let slot = self.bank.slot(id).expect("configured");
        let day = self.bank.day(slot).0;
        (day.start.ms(), day.end.ms())
    }

    /// Faults stop, every budget is paused, every deadline passes: then no money is anywhere but free or spent,
    /// and what was acknowledged is booked.
    fn rest(&mut self) -> Result<(), String> {
        for spec in &mut self.specs {
            spec.status = Status::Paused;
        }
        self.configure();
        for _ in 0..60 {
            self.now_ms += 1_000;
            for index in 0..self.workers.len() {
                let now_ms = self.now_ms;
                self.workers[index].clock_ms = now_ms;
                while let Some(message) = self.workers[index].to_worker.pop_front() {
                    self.take(index, message, now_ms)?;
                }
                self.workers[index].purses.turn(now_ms);
                self.workers[index].purses.tick(now_ms);
                self.flush(index);
            }
            while self.workers.iter().any(|worker| !worker.to_bank.is_empty()) {
                self.bank_turn();
            }
            self.disk.seal(u64::MAX, &mut self.rng);
            self.deliver();
        }
        self.stats.records = self.disk.sealed.len() as u64;
        let rolled = |record: &&ledger::Record| matches!(record, ledger::Record::DayRolled { .. });
        self.stats.days = self.disk.sealed.iter().filter(rolled).count() as u64;
        self.bank.audit()?;
        self.check_rest()
    }

    fn check_rest(&self) -> Result<(), String> {
        let acknowledged = self.oracle.spent();
        for spec in &self.specs {
            let books = self.bank.books(self.bank.slot(spec.id).expect("configured"));
            for line in [Line::Purses, Line::Held, Line::Suspended] {
                if books.line(line) != Amount::ZERO {
                    return Err(format!("budget {}: money left behind: {books:?}", spec.id));
                }
            }
            let spent = i128::from(books.spent().get());
            let acknowledged = acknowledged.get(&spec.id).copied().unwrap_or(0);
            if acknowledged > spent {
                return Err(format!(
                    "budget {}: {acknowledged} acknowledged, {spent} booked",
                    spec.id
                ));
            }
        }
        if self.bank.grants() != 0 {
            return Err(format!("{} grants never closed", self.bank.grants()));
        }
        Ok(())
    }

    fn spec(&self, id: u64) -> &BudgetSpec {
        self.specs.iter().find(|spec| spec.id == id).expect("drawn with its parents")
    }
}

fn purse_options() -> PurseOptions {
    PurseOptions { node: 1, hold_ms: HOLD_MS }
}

fn options(workers: usize) -> Options {
    Options {
        workers: u16::try_from(workers).expect("few workers"),
        hold_ms_max: purse_options().hold_ms_max(),
        billing_ms: BILLING_MS,
        late_ms: LATE_MS,
        grant_ms_max: 5_000,
        ..Options::default()
    }
}

/// A few budgets: some alone, some under a parent, some with daily limits in zones with odd days.
fn draw_budgets(rng: &mut Rng, now_ms: u64) -> Vec<BudgetSpec> {
    let zones = ["UTC", "Europe/Paris", "Australia/Lord_Howe", "America/Havana"];
    (1..=2 + rng.below(6))
        .map(|id| BudgetSpec {
            id,
            unit: Unit::parse("USD").expect("a currency"),
            limit: Amount::new(rng.between(100, 20_000)),
            daily: rng.chance(500).then(|| Amount::new(rng.between(50, 5_000))),
            start: Instant::from_ms(now_ms - rng.below(1000)),
            end: Instant::from_ms(now_ms + 10_000 + rng.below(100_000_000)),
            zone: Zone::parse(zones[rng.index(zones.len())]).expect("a zone"),
            status: Status::Active,
            parent: (id > 1 && rng.chance(400)).then_some(1),
            late_reserve_bp: if rng.chance(200) { 500 } else { 0 },
        })
        .collect()
}
