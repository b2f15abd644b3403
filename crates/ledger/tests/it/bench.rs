//! The small world of these tests.

use std::collections::BTreeMap;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Claimed, Door, Hold, Keyed, Line, MADE_SLOT, MemoAnswer,
    OnExpiry, OpenError, Options, Origin, Out, PurseOptions, Purses, Record, Resolution,
    TimedAnswer, TimedAsk, TimedRequest, ToBank, ToWorker, Verdict,
};
use money::Unit;

/// Noon, UTC.
pub(crate) const NOON: u64 = 1_767_268_800_000;
pub(crate) const HOLD_MS: u64 = 400;
pub(crate) const BILLING_MS: u64 = 6_400;
pub(crate) const LATE_MS: u64 = 20_000;
/// Room for everything: larger than any deadline of a hold with its rounding.
pub(crate) const BILLING_OVER_MS: u64 = HOLD_MS + 50 + BILLING_MS + BILLING_MS / 64;

pub(crate) const ORIGIN: Origin = Origin { door: Door::Batch, request_id: 9 };

/// A budget in USD, active for ever, in UTC. What expires is free: `expiry` is about those that hold.
pub(crate) fn spec(id: u64, limit: i64) -> BudgetSpec {
    BudgetSpec {
        on_expiry: OnExpiry::Release,
        ..BudgetSpec::plain(id, Unit::parse("USD").unwrap(), Amount::new(limit))
    }
}

/// The same, under a parent.
pub(crate) fn child(id: u64, limit: i64, parent: u64) -> BudgetSpec {
    BudgetSpec { parent: Some(parent), ..spec(id, limit) }
}

pub(crate) fn options(workers: u16) -> Options {
    let purses = purse_options();
    Options {
        workers,
        hold_ms_max: purses.hold_ms_max(),
        billing_ms: BILLING_MS,
        late_ms: LATE_MS,
        ..Options::default()
    }
}

fn purse_options() -> PurseOptions {
    PurseOptions { node: 1, hold_ms: HOLD_MS }
}

/// The lines of a budget's books, in the order of [`Bank::LINES`], as far as money of grants comes to them.
pub(crate) type Lines = [i64; 8];

pub(crate) struct Bench {
    pub(crate) bank: Bank,
    pub(crate) purses: Vec<Purses>,
    /// Those of budgets that were made on their first ask.
    pub(crate) made: Vec<Purses>,
    pub(crate) now_ms: u64,
    /// Everything that was written, all runs.
    pub(crate) records: Vec<Record>,
    options: Options,
    /// The last answer to a resolve.
    pub(crate) answer: Option<Resolution>,
    /// What claims came to and nobody looked at yet: worker, reply, answer.
    pub(crate) claimed: Vec<(u16, u64, Claimed)>,
    /// What became of memos, the same.
    pub(crate) memos: Vec<(u16, u64, MemoAnswer)>,
    /// What somebody who hears of changes shows of each worker's purses: in holds, and how many were made.
    shown: Vec<BTreeMap<u32, (Amount, u64)>>,
    /// Echoes that were asked for, and those that came back.
    asked: u64,
    echoed: u64,
}

impl Bench {
    pub(crate) fn new(workers: u16, specs: &[BudgetSpec]) -> Bench {
        Bench::with(options(workers), specs)
    }

    pub(crate) fn with(options: Options, specs: &[BudgetSpec]) -> Bench {
        Bench::at(NOON, options, specs)
    }

    pub(crate) fn at(now_ms: u64, options: Options, specs: &[BudgetSpec]) -> Bench {
        let bank = Bank::new(options.clone());
        let mut bench = Bench {
            bank,
            purses: Vec::new(),
            made: Vec::new(),
            now_ms,
            records: Vec::new(),
            options,
            answer: None,
            claimed: Vec::new(),
            memos: Vec::new(),
            shown: Vec::new(),
            asked: 0,
            echoed: 0,
        };
        bench.start();
        bench.configure(specs);
        bench
    }

    fn start(&mut self) {
        let mut out = Out::default();
        self.bank.start_run(self.now_ms, &mut out);
        let slots = self.bank.slots();
        let purses = || Purses::new(purse_options(), slots);
        self.purses = (0..self.options.workers).map(|_| purses()).collect();
        let made = || Purses::new(purse_options(), 0);
        self.made = (0..self.options.workers).map(|_| made()).collect();
        self.shown = self.purses.iter().map(|_| BTreeMap::new()).collect();
        self.bank.open_all(&mut out);
        self.deliver(out);
        self.pump();
    }

    /// Everything in memory is lost; a new run replays the first `records` of what was written.
    pub(crate) fn crash_with(&mut self, options: Options, records: usize) {
        self.records.truncate(records);
        self.options = options;
        self.bank = replay(&self.options, &self.records);
        self.start();
    }

    pub(crate) fn crash(&mut self) {
        self.check();
        self.crash_with(self.options.clone(), self.records.len());
    }

    pub(crate) fn configure(&mut self, specs: &[BudgetSpec]) {
        let mut out = Out::default();
        self.bank.configure(specs, &mut out).unwrap();
        for purses in &mut self.purses {
            purses.grow(self.bank.slots());
        }
        self.deliver(out);
        self.pump();
    }

    /// What an operator does to the bank.
    pub(crate) fn act(&mut self, act: impl FnOnce(&mut Bank, &mut Out)) {
        let mut out = Out::default();
        act(&mut self.bank, &mut out);
        self.deliver(out);
    }

    fn deliver(&mut self, mut out: Out) {
        self.records.append(&mut out.records);
        self.claimed.append(&mut out.claimed);
        self.memos.append(&mut out.memos);
        for (worker, message) in out.messages {
            match message {
                ToWorker::Resolved { resolution, .. } => self.answer = Some(resolution),
                ToWorker::Echo { .. } => self.echoed += 1,
                message => match message.made() {
                    None => self.purses[usize::from(worker)].take(message, self.now_ms),
                    Some((_, message)) => {
                        self.made[usize::from(worker)].take(message, self.now_ms);
                    }
                },
            }
        }
    }

    pub(crate) fn step(&mut self, worker: usize, message: ToBank) {
        let mut out = Out::default();
        self.bank.step(u16::try_from(worker).unwrap(), message, &mut out);
        self.deliver(out);
    }

    /// Somebody clicks what was bought with a hold.
    pub(crate) fn click(&mut self, hold: Hold) -> Resolution {
        let (at_ms, origin) = (self.now_ms, ORIGIN);
        self.step(0, ToBank::Click { hold, at_ms, origin, reply: 7 });
        self.answer.take().unwrap()
    }

    pub(crate) fn step_keyed(&mut self, worker: u16, message: Keyed) -> Option<(Verdict, bool)> {
        let mut out = Out::default();
        self.answer = None;
        self.bank.step_keyed(worker, message, &mut out);
        self.deliver(out);
        self.answer.take().map(told)
    }

    /// What is asked of a hold that ends by time.
    pub(crate) fn timed(&mut self, ask: TimedAsk) -> TimedAnswer {
        self.timed_at(self.now_ms, ask, None)
    }

    pub(crate) fn timed_at(
        &mut self,
        at_ms: u64,
        ask: TimedAsk,
        keyed: Option<(u128, Box<[u8]>)>,
    ) -> TimedAnswer {
        let mut out = Out::default();
        let origin = Origin { door: Door::Spend, request_id: 0 };
        let request = TimedRequest { ask, at_ms, origin, reply: 7, keyed };
        let answer = self.bank.step_timed(0, request, &mut out);
        self.deliver(out);
        answer
    }

    /// A claim of a key: what it comes to, or nothing while it waits.
    pub(crate) fn claim(&mut self, worker: u16, key: u128, digest: u128) -> Option<Claimed> {
        self.claim_as(worker, 0, key, digest)
    }

    pub(crate) fn claim_as(
        &mut self,
        worker: u16,
        reply: u64,
        key: u128,
        digest: u128,
    ) -> Option<Claimed> {
        let at_ms = self.now_ms;
        self.step_keyed(worker, Keyed::Claim { reply, key, digest, at_ms, has_token: false });
        let (of, to, claimed) = self.claimed.pop()?;
        assert_eq!((of, to), (worker, reply), "a claim is answered to who claims");
        Some(claimed)
    }

    /// Resolves a hold for the request that has the claim of a key.
    pub(crate) fn resolve_keyed(
        &mut self,
        worker: u16,
        (action, hold, amount): (Action, Hold, i64),
        key: u128,
        answer: &[u8],
    ) -> (Verdict, bool) {
        let (at_ms, amount, answer) = (self.now_ms, Amount::new(amount), answer.into());
        let (origin, reply) = (ORIGIN, 7);
        let message = Keyed::Resolve { action, hold, amount, at_ms, origin, reply, key, answer };
        self.step_keyed(worker, message).expect("every resolve is answered")
    }

    /// Whoever looks only at purses that changed knows all of them.
    fn look(&mut self) {
        for (purses, shown) in self.purses.iter_mut().zip(&mut self.shown) {
            while let Some(slot) = purses.next_changed() {
                shown.insert(slot, (purses.held(slot), purses.made(slot)));
            }
            for slot in 0..u32::try_from(purses.slots()).expect("few") {
                let known = shown.get(&slot).copied().unwrap_or_default();
                assert_eq!(known, (purses.held(slot), purses.made(slot)), "purse {slot}");
            }
        }
    }

    /// All messages arrive, and those they lead to, until nothing is on its way.
    pub(crate) fn pump(&mut self) {
        let mut out = Out::default();
        self.bank.tick(self.now_ms, &mut out);
        self.deliver(out);
        for worker in 0..self.purses.len() {
            self.purses[worker].turn(self.now_ms);
            self.made[worker].turn(self.now_ms);
        }
        // Twice: what the first ticks set free comes back as messages.
        for _ in 0..2 {
            self.flush();
            for worker in 0..self.purses.len() {
                self.purses[worker].tick(self.now_ms);
            }
        }
        self.flush();
        self.look();
    }

    fn flush(&mut self) {
        for round in 0.. {
            assert!(round < 100, "messages beget messages");
            let mut quiet = true;
            for worker in 0..self.purses.len() {
                while let Some(message) = self.made[worker].next_message() {
                    self.step(worker, message.of_made());
                    quiet = false;
                }
                while let Some(message) = self.purses[worker].next_message() {
                    self.step(worker, message);
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
        self.pump();
    }

    pub(crate) fn reserve(&mut self, worker: usize, id: u64, amount: i64) -> Result<Hold, Verdict> {
        let slot = self.bank.slot(id).unwrap();
        let at = self.purses[worker].at(self.now_ms);
        match slot.checked_sub(MADE_SLOT) {
            None => self.purses[worker].reserve(slot, Amount::new(amount), at),
            Some(made) => self.made[worker].reserve(made, Amount::new(amount), at),
        }
    }

    /// The budget with this handle as all workers know it: its id.
    pub(crate) fn open(&mut self, spec: BudgetSpec) -> Result<u64, OpenError> {
        let handle = spec.handle.clone().unwrap();
        let live = self.bank.made(&handle).is_some();
        let mut out = Out::default();
        let slot = self.bank.open(spec, &mut out)?;
        self.deliver(out);
        let made = slot - MADE_SLOT;
        for purses in &mut self.made {
            purses.grow_to(made as usize + 1, 4);
            if !live {
                purses.forget(made);
            }
        }
        Ok(self.bank.spec(slot).id)
    }

    /// As a client that waits for the bank where the purse is short: at most a tenth of a second.
    pub(crate) fn wait_for(
        &mut self,
        worker: usize,
        id: u64,
        amount: i64,
    ) -> Result<Hold, Verdict> {
        self.call(worker, id, amount);
        self.hear();
        self.reserve(worker, id, amount)
    }

    /// An ask that waits; see [`Bench::hear`].
    pub(crate) fn call(&mut self, worker: usize, id: u64, amount: i64) {
        let slot = self.bank.slot(id).unwrap();
        let purses = &mut self.purses[worker];
        let at = purses.at(self.now_ms);
        if purses.call(slot, [Amount::new(amount)], at) {
            self.asked += 1;
            let now_ms = self.now_ms;
            self.act(|bank, out| bank.tick(now_ms, out));
            let purses = &mut self.purses[worker];
            purses.turn(self.now_ms);
            purses.send(ToBank::Echo { reply: self.asked });
        }
    }

    /// Until the bank has answered everything that waits.
    pub(crate) fn hear(&mut self) {
        self.flush();
        for _ in 0..100 {
            if self.echoed >= self.asked {
                return;
            }
            self.advance(1);
        }
        panic!("the bank does not answer");
    }

    /// As a client that asks again some times: every refusal makes the purse want money.
    pub(crate) fn insist(&mut self, worker: usize, id: u64, amount: i64) -> Result<Hold, Verdict> {
        let mut answer = self.reserve(worker, id, amount);
        for _ in 0..20 {
            if answer.is_ok() {
                break;
            }
            self.advance(25);
            answer = self.reserve(worker, id, amount);
        }
        answer
    }

    pub(crate) fn resolve_at(
        &mut self,
        worker: usize,
        action: Action,
        hold: Hold,
        amount: i64,
        at_ms: u64,
    ) -> (Verdict, bool) {
        self.resolve_from(ORIGIN, worker, action, hold, amount, at_ms)
    }

    pub(crate) fn resolve_from(
        &mut self,
        origin: Origin,
        worker: usize,
        action: Action,
        hold: Hold,
        amount: i64,
        at_ms: u64,
    ) -> (Verdict, bool) {
        let amount = Amount::new(amount);
        self.answer = None;
        self.step(worker, ToBank::Resolve { action, hold, amount, at_ms, origin, reply: 7 });
        told(self.answer.expect("every resolve is answered"))
    }

    pub(crate) fn resolve(&mut self, action: Action, hold: Hold, amount: i64) -> (Verdict, bool) {
        self.resolve_at(0, action, hold, amount, self.now_ms)
    }

    pub(crate) fn settle(&mut self, hold: Hold, amount: i64) -> Verdict {
        self.resolve(Action::Settle, hold, amount).0
    }

    /// Reserves and settles until nobody gets anything any more; returns what was spent and the last "no".
    pub(crate) fn spend_all(&mut self, id: u64, amount: i64) -> (i64, Verdict) {
        let (mut spent, mut why) = (0, Verdict::Granted);
        for worker in (0..self.purses.len()).cycle().take(100_000) {
            match self.insist(worker, id, amount) {
                Ok(hold) => {
                    assert_eq!(self.settle(hold, amount), Verdict::Settled);
                    spent += amount;
                }
                Err(no) if worker + 1 == self.purses.len() => {
                    why = no;
                    break;
                }
                Err(_) => {}
            }
        }
        (spent, why)
    }

    pub(crate) fn line(&self, id: u64, line: Line) -> i64 {
        self.bank.books(self.bank.slot(id).unwrap()).line(line).get()
    }

    pub(crate) fn lines(&self, id: u64) -> Lines {
        std::array::from_fn(|line| self.line(id, Bank::LINES[line]))
    }

    /// The books add up, and what was written leads to the same state.
    pub(crate) fn check(&self) {
        self.bank.audit().unwrap();
        let copy = replay(&self.options, &self.records);
        assert_eq!(copy.digest(), self.bank.digest(), "replay and live state differ");
        assert_eq!(copy.amounts_digest(), self.bank.amounts_digest(), "what was settled");
        for (id, slot) in self.bank.slots_from(0) {
            let books = self.bank.books(slot);
            let sum: i64 = Bank::LINES.iter().map(|line| self.line(id, *line)).sum();
            assert_eq!(sum, books.limit().get(), "budget {id}");
        }
    }
}

/// The verdict, and whether it is the first answer again.
pub(crate) fn told(resolution: Resolution) -> (Verdict, bool) {
    (resolution.verdict, resolution.is_repeat())
}

pub(crate) fn replay(options: &Options, records: &[Record]) -> Bank {
    let mut bank = Bank::new(options.clone());
    for (index, record) in records.iter().enumerate() {
        let done = bank.replay(record);
        assert!(done.is_ok(), "record {index} of {}: {done:?}: {record:?}", records.len());
    }
    bank.audit().unwrap();
    let mut at_once = Bank::new(options.clone());
    at_once.replay_all(records).unwrap();
    assert_eq!(at_once.digest(), bank.digest());
    bank
}
