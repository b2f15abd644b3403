//! The clients of the simulated node: they ask for money, tell what became of it, lose messages on the way, and
//! repeat every settle until it is acknowledged.

use ledger::{
    Action, Amount, BudgetSpec, Door, Handled, Hold, Origin, Resolution, ToBank, Verdict,
};

use crate::oracle::Known;
use crate::world::{Up, World, request_index};

/// A request about a hold, on its way or answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) hold: usize,
    pub(crate) action: Action,
    /// The latest stamp of the worker that read it, or once the bank took it: by which it was judged.
    pub(crate) at_ms: u64,
    /// It came with a key.
    pub(crate) keyed: bool,
    /// Settle: what it names.
    pub(crate) amount: i64,
    /// It is a billing notice.
    pub(crate) notice: bool,
}

impl World {
    /// A client asks a worker for money, from one budget or from several, all or nothing.
    pub(crate) fn ask(&mut self) -> Result<(), String> {
        let Some(worker) = self.awake_worker() else { return Ok(()) };
        let now_ms = self.read_clock(worker);
        if !self.may_grant(worker) {
            return Ok(());
        }
        let members = if self.rng.chance(150) { 2 + self.rng.index(2) } else { 1 };
        let before = self.purse_sums(worker);
        let mut pod: Vec<(BudgetSpec, u32, Hold)> = Vec::new();
        for _ in 0..members {
            let spec = self.specs[self.rng.index(self.specs.len())].clone();
            let Some(slot) = self.bank.slot(spec.id) else { break };
            // A few ask for more than there may be.
            let most = if self.rng.chance(20) { spec.limit.get() } else { spec.limit.get() / 200 };
            let amount = Amount::new(self.rng.between(1, most.max(2)));
            let purses = &mut self.workers[worker].purses;
            let at = purses.at(now_ms);
            // A client that waits has the bank asked for what is missing; here it does not wait for long.
            if self.rng.chance(200) && purses.call(slot, [amount], at) {
                self.stats.one("ask that waits");
            }
            match purses.reserve(slot, amount, at) {
                Ok(hold) => pod.push((spec, slot, hold)),
                Err(why) => {
                    self.check_refusal(worker, slot, amount, why)?;
                    self.refused(why);
                    break;
                }
            }
        }
        if pod.len() < members {
            self.undo(worker, &pod, before)?;
            return Ok(());
        }
        if members > 1 {
            self.stats.one("pod granted");
        }
        pod.into_iter()
            .try_for_each(|(spec, _, hold)| self.granted(self.chain(spec.id), hold, now_ms))
    }

    fn purse_sums(&self, worker: usize) -> (i64, i64) {
        let purses = &self.workers[worker].purses;
        let slots = 0..u32::try_from(purses.slots()).expect("few");
        slots.fold((0, 0), |(free, held), slot| {
            (free + purses.free(slot).get(), held + purses.held(slot).get())
        })
    }

    /// A member of a pod was refused: the others are taken back.
    fn undo(
        &mut self,
        worker: usize,
        pod: &[(BudgetSpec, u32, Hold)],
        before: (i64, i64),
    ) -> Result<(), String> {
        if pod.is_empty() {
            return Ok(());
        }
        for (_, slot, hold) in pod {
            self.workers[worker].purses.undo(*slot, hold);
        }
        self.stats.one("pod refused and undone");
        let after = self.purse_sums(worker);
        if after != before {
            return Err(format!("a refused pod left a trace: {before:?} before, {after:?} after"));
        }
        Ok(())
    }

    fn refused(&mut self, why: Verdict) {
        self.stats.one("ask refused");
        match why {
            Verdict::DayExhausted => self.stats.one("ask refused: day exhausted"),
            Verdict::WindowExhausted => self.stats.one("ask refused: window exhausted"),
            Verdict::Exhausted => self.stats.one("ask refused: exhausted"),
            Verdict::Busy => self.stats.one("ask refused: busy"),
            _ => {}
        }
    }

    pub(crate) fn granted(
        &mut self,
        chain: Vec<u64>,
        hold: Hold,
        made_ms: u64,
    ) -> Result<(), String> {
        self.stats.one("ask granted");
        if self.journal.sealer().is_stuck() {
            self.stats.one("ask granted while the disk is stuck");
        }
        let amount = hold.amount.get();
        let price = match self.rng.below(10) {
            0 => amount + self.rng.between(1, amount),
            1 => 0,
            2..6 => amount,
            _ => self.rng.between(0, amount),
        };
        let run = self.bank.run();
        let billing_ms = self.options.billing_ms;
        let keeps = self.oracle.keeps(hold.grant);
        let known = Known::new(chain, hold, run, billing_ms, made_ms, price);
        self.oracle.granted(Known { keeps, ..known })
    }

    /// Somebody confirms, settles or releases a hold: a recent one mostly, by any worker, perhaps twice.
    pub(crate) fn request(&mut self) {
        let holds = self.oracle.holds.len();
        if holds == 0 {
            return;
        }
        let recent = self.rng.chance(900);
        let back = self.rng.index(if recent { holds.min(60) } else { holds });
        let hold = holds - 1 - back;
        let action = match self.rng.below(10) {
            0..4 => Action::Confirm,
            4..8 => Action::Settle,
            _ => Action::Release,
        };
        for _ in 0..1 + self.rng.below(5) / 4 {
            self.send(hold, action);
        }
    }

    /// A settle without an answer is sent again.
    pub(crate) fn repeat(&mut self) {
        let holds = self.oracle.holds.len();
        for index in holds.saturating_sub(200)..holds {
            if self.oracle.holds[index].waits() && self.rng.chance(100) {
                self.stats.one("request repeated");
                self.send(index, Action::Settle);
            }
        }
    }

    /// Every settle without an answer is sent again, and nothing is lost.
    pub(crate) fn repeat_all(&mut self) {
        for index in 0..self.oracle.holds.len() {
            if self.oracle.holds[index].waits() {
                self.deliver_request(index % self.workers.len(), index, Action::Settle);
            }
        }
    }

    fn send(&mut self, hold: usize, action: Action) {
        let known = &mut self.oracle.holds[hold];
        known.asks(action);
        let lost = self.rng.chance(80);
        match self.awake_worker() {
            Some(worker) if !lost => self.deliver_request(worker, hold, action),
            _ => self.stats.one("request lost"),
        }
    }

    fn deliver_request(&mut self, worker: usize, hold: usize, action: Action) {
        let stamp = self.read_clock(worker);
        let notice = World::is_billed(hold, action);
        let amount = match action {
            Action::Settle if notice => self.named_price(hold),
            Action::Settle => self.oracle.holds[hold].price,
            _ => 0,
        };
        let known = &mut self.oracle.holds[hold];
        if action == Action::Settle {
            known.named.push(amount);
        }
        let door = if notice { Door::Openrtb } else { Door::Batch };
        let message = ToBank::Resolve {
            action,
            hold: known.hold,
            amount: Amount::new(amount),
            at_ms: stamp,
            origin: Origin { door, request_id: hold as u64 },
            reply: self.requests.len() as u64,
        };
        let at_ms = self.workers[worker].latest_ms.max(stamp);
        let keyed = World::has_key(hold, action);
        self.requests.push(Request { hold, action, at_ms, keyed, amount, notice });
        self.flush(worker);
        let message = match (keyed, World::has_memo(hold, action)) {
            (true, _) => self.claim_of(message),
            (_, true) => self.memo_of(message),
            _ => Up::Ledger(message),
        };
        self.workers[worker].to_bank.push_back(message);
    }

    /// Is the hold of an exchange, which settles it by billing notices? Neither has a key or a memo.
    pub(crate) fn is_billed(hold: usize, action: Action) -> bool {
        action == Action::Settle && hold % 6 == 2
    }

    /// What a billing notice names: whoever sees one may send it first, with a price of his own.
    fn named_price(&mut self, hold: usize) -> i64 {
        let price = self.oracle.holds[hold].price;
        match self.rng.below(4) {
            0 => price / 2,
            1 => price + self.rng.between(1, price.max(2)),
            _ => price,
        }
    }

    /// An answer is on its way to its client.
    pub(crate) fn answer(&mut self, reply: u64, resolution: Resolution) -> Result<(), String> {
        let (verdict, repeat) = (resolution.verdict, resolution.is_repeat());
        let request = self.requests[request_index(reply)];
        if !self.calm && self.rng.chance(100) {
            self.stats.one("answer lost");
            return Ok(());
        }
        self.stats.answer(verdict, repeat);
        self.stats.count("topped up", u64::from(resolution.judged == Handled::ToppedUp));
        let known = &self.oracle.holds[request.hold];
        if verdict == Verdict::SettledLate && !repeat && known.released {
            self.stats.one("settled late after release");
        }
        let over = request.at_ms >= known.hold.deadline_ms && !known.confirmed;
        if over && !repeat && verdict == Verdict::Settled {
            self.stats.one("settled after its time");
        }
        if over && !repeat && verdict == Verdict::Released {
            self.stats.one("released after its time");
        }
        if verdict == Verdict::SettledLate && !repeat && self.oracle.is_reconciled(known) {
            self.stats.one("settled late after reconciliation");
        }
        if verdict == Verdict::Settled && !repeat && known.run < self.bank.run() {
            self.stats.one("settled a hold of an earlier run");
            if !known.confirmed {
                self.stats.one("settled while suspended");
            }
        }
        // What waited for another request under its key is judged when that is over.
        let judged_ms = if request.keyed { self.now_ms } else { request.at_ms };
        self.oracle.answered(&request, resolution, judged_ms, self.narrow)
    }
}
