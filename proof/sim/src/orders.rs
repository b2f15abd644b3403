//! Clients that reserve under keys of idempotency: an order is sent again, to any worker and in any run, until its hold was heard of.
//! However often it is sent, it has one hold for as long as the answer is kept; a key that comes with another amount has none.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Action, Amount, Claimed, Door, Hold, Keyed, Origin, ToBank, Verdict};

use crate::Bug;
use crate::oracle::Known;
use crate::rng::Rng;
use crate::world::{Up, World, request_index};

/// Replies from here on are those of orders; below are those of requests.
pub(crate) const ORDERS: u64 = 1 << 62;
/// Keys of orders; below are those of settles.
const ORDER: u128 = 1 << 96;

/// What a client wants once.
#[derive(Debug)]
struct Order {
    budget: usize,
    amount: i64,
    /// The answer that the client heard first, and the stamp by which it was judged at the earliest.
    first: Option<(Box<[u8]>, u64)>,
}

/// A call on its way.
#[derive(Clone, Copy, Debug)]
struct Call {
    order: usize,
    /// Other than the order's where somebody uses its key for something else.
    amount: i64,
    /// The latest stamp of the worker that read it, or once the bank took it: by which it was judged.
    at_ms: u64,
    /// It gives a hold back of which nobody hears.
    gives_back: Option<Hold>,
}

/// What clients know of their orders.
#[derive(Debug)]
pub(crate) struct Orders {
    rng: Rng,
    all: Vec<Order>,
    calls: Vec<Call>,
    /// Holds that were made for calls, with their answers, before the bank knew of them.
    made: BTreeMap<u64, (Hold, Box<[u8]>)>,
    /// Holds that somebody heard of, by grant and number.
    known: BTreeSet<(u64, u32)>,
    /// What could not be given back, each with its budget.
    left: Vec<(usize, i64)>,
}

impl Orders {
    pub(crate) fn new(seed: u64) -> Orders {
        let rng = Rng::new(seed ^ 0x6f72_6465_7273);
        Orders {
            rng,
            all: Vec::new(),
            calls: Vec::new(),
            made: BTreeMap::new(),
            known: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    /// The bank judges a call by this stamp.
    pub(crate) fn stamp(&mut self, reply: u64) -> &mut u64 {
        &mut self.calls[request_index(reply - ORDERS)].at_ms
    }
}

/// What a hold was made by.
#[derive(Clone, Copy, Debug)]
struct Making {
    run: u32,
    billing_ms: u64,
    made_ms: u64,
    /// The stamp of its worker, by which it was judged at the earliest.
    at_ms: u64,
}

/// What an answer keeps of a hold: enough to make its token again.
fn answer(hold: &Hold, making: Making) -> Box<[u8]> {
    let words = [hold.grant, hold.seq.into(), hold.node.into(), hold.deadline_ms];
    let Making { run, billing_ms, made_ms, at_ms } = making;
    let more = [hold.amount.get().unsigned_abs(), run.into(), billing_ms, made_ms, at_ms];
    words.into_iter().chain(more).flat_map(u64::to_le_bytes).collect()
}

fn read(answer: &[u8]) -> (Hold, Making) {
    let (words, _) = answer.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let small = |at: usize| u32::try_from(words[at]).expect("written above");
    let amount = Amount::new(i64::try_from(words[4]).expect("written above"));
    let node = u16::try_from(words[2]).expect("written above");
    let hold = Hold { grant: words[0], seq: small(1), node, deadline_ms: words[3], amount };
    let (run, billing_ms, made_ms, at_ms) = (small(5), words[6], words[7], words[8]);
    (hold, Making { run, billing_ms, made_ms, at_ms })
}

impl World {
    /// A client sends a new order, or one again; now and then somebody uses its key for another amount.
    pub(crate) fn send_orders(&mut self) {
        if !self.orders.rng.chance(40) {
            return;
        }
        let count = self.orders.all.len();
        if count == 0 || self.orders.rng.chance(400) {
            let budget = self.orders.rng.index(self.specs.len());
            let most = (self.specs[budget].limit.get() / 400).max(2);
            let amount = self.orders.rng.between(1, most);
            self.orders.all.push(Order { budget, amount, first: None });
            return self.send_order(count, amount);
        }
        let order = count - 1 - self.orders.rng.index(count.min(12));
        let known = &self.orders.all[order];
        let other = known.first.is_some() && self.orders.rng.chance(150);
        let amount = known.amount + i64::from(other);
        self.send_order(order, amount);
    }

    /// What of a budget, or of those below it, is in holds that nobody heard of and that could not be given back.
    pub(crate) fn left_of_orders(&self, id: u64) -> i128 {
        let below = self
            .orders
            .left
            .iter()
            .filter(|(budget, _)| self.chain(self.specs[*budget].id).contains(&id));
        below.map(|(_, amount)| i128::from(*amount)).sum()
    }

    fn send_order(&mut self, order: usize, amount: i64) {
        let Some(worker) = self.awake_worker() else { return };
        let stamp = self.read_clock(worker);
        let at_ms = self.workers[worker].latest_ms.max(stamp);
        let call = Call { order, amount, at_ms, gives_back: None };
        let reply = self.call(call);
        let key = ORDER | order as u128;
        // A planted bug: the digest of what is asked leaves the amount out.
        let of_amount = if self.bug == Some(Bug::DigestOfKey) { 0 } else { amount };
        let digest = !key ^ u128::from(of_amount.unsigned_abs());
        let claim = Keyed::Claim { reply, key, digest, at_ms: stamp, has_token: false };
        self.flush(worker);
        self.workers[worker].to_bank.push_back(Up::Keyed(claim));
    }

    fn call(&mut self, call: Call) -> u64 {
        self.orders.calls.push(call);
        ORDERS | (self.orders.calls.len() - 1) as u64
    }

    /// A worker hears what became of the claim of an order.
    pub(crate) fn order_claimed(
        &mut self,
        worker: usize,
        reply: u64,
        claimed: Claimed,
        now_ms: u64,
    ) -> Result<(), String> {
        let call = self.orders.calls[request_index(reply - ORDERS)];
        let order = &self.orders.all[call.order];
        let is_other = call.amount != order.amount;
        let is_kept = order.first.as_ref().is_some_and(|(_, first_ms)| {
            call.at_ms.max(now_ms) < first_ms.saturating_add(self.options.answers_kept_ms)
        });
        let key = ORDER | call.order as u128;
        match claimed {
            Claimed::New if is_kept => {
                Err(format!("order {}: its first answer is forgotten: {order:?}", call.order))
            }
            Claimed::New if is_other || !self.calm && self.orders.rng.chance(80) => {
                self.refuse_order(worker, key, Verdict::Busy);
                Ok(())
            }
            Claimed::New => {
                self.reserve_order(worker, reply, now_ms);
                Ok(())
            }
            Claimed::Answer { verdict: Verdict::Granted, .. } if is_other => Err(format!(
                "order {}: {} was answered under the key of {order:?}",
                call.order, call.amount
            )),
            Claimed::Answer { verdict: Verdict::Granted, answer } => {
                self.stats.one("order: first answer again");
                self.order_heard(call, answer)
            }
            Claimed::Conflict if is_other => {
                self.stats.one("order: key reused");
                Ok(())
            }
            Claimed::Conflict if is_kept => {
                Err(format!("order {}: its key is said to be another's", call.order))
            }
            Claimed::Unkept => Err(format!("order {}: done without its key", call.order)),
            // Refused, which nothing keeps, or there is no room: it is asked again.
            Claimed::Answer { .. } | Claimed::Busy | Claimed::Conflict => Ok(()),
        }
    }

    /// Nobody else does this order: a hold is made for it, and kept with its answer.
    fn reserve_order(&mut self, worker: usize, reply: u64, now_ms: u64) {
        let call = self.orders.calls[request_index(reply - ORDERS)];
        let key = ORDER | call.order as u128;
        let spec = self.specs[self.orders.all[call.order].budget].clone();
        let slot = self.bank.slot(spec.id).filter(|_| self.may_grant(worker));
        let Some(slot) = slot else {
            return self.refuse_order(worker, key, Verdict::Busy);
        };
        let purses = &mut self.workers[worker].purses;
        let at = purses.at(now_ms);
        let hold = match purses.reserve(slot, Amount::new(call.amount), at) {
            Ok(hold) => hold,
            Err(verdict) => {
                self.stats.one("order: refused");
                return self.refuse_order(worker, key, verdict);
            }
        };
        let at_ms = self.workers[worker].latest_ms.max(now_ms);
        self.orders.calls[request_index(reply - ORDERS)].at_ms = at_ms;
        let (run, billing_ms) = (self.bank.run(), self.options.billing_ms);
        let answer = answer(&hold, Making { run, billing_ms, made_ms: now_ms, at_ms });
        self.orders.made.insert(reply, (hold, answer.clone()));
        let origin = Origin { door: Door::Spend, request_id: call.order as u64 };
        self.say(worker, Keyed::Keep { hold, at_ms: now_ms, origin, reply, key, answer });
    }

    /// Nothing is done for an order, and those who wait for it hear so.
    fn refuse_order(&mut self, worker: usize, key: u128, verdict: Verdict) {
        self.say(worker, Keyed::Answered { key, verdict, answer: Box::default() });
    }

    /// A worker hears whether the hold of an order is kept. One that is not is given back.
    pub(crate) fn order_kept(
        &mut self,
        worker: usize,
        reply: u64,
        verdict: Verdict,
        now_ms: u64,
    ) -> Result<(), String> {
        let call = self.orders.calls[request_index(reply - ORDERS)];
        if let Some(hold) = call.gives_back {
            // While nothing can be sealed it is given back later.
            match verdict {
                Verdict::Journal => self.give_back(worker, call, hold, now_ms),
                Verdict::Released => {}
                // Its time was over: it is kept until it is reconciled, as any hold of which nothing was heard.
                _ => self.orders.left.push((self.orders.all[call.order].budget, hold.amount.get())),
            }
            return Ok(());
        }
        let (hold, answer) = self.orders.made.remove(&reply).expect("made before it was kept");
        if verdict == Verdict::Granted {
            self.stats.one("order: granted");
            return self.order_heard(call, answer);
        }
        self.stats.one("order: not kept, given back");
        self.refuse_order(worker, ORDER | call.order as u128, verdict);
        self.give_back(worker, call, hold, now_ms);
        Ok(())
    }

    fn give_back(&mut self, worker: usize, call: Call, hold: Hold, now_ms: u64) {
        let reply = self.call(Call { gives_back: Some(hold), at_ms: now_ms, ..call });
        let origin = Origin { door: Door::Spend, request_id: call.order as u64 };
        let (action, amount) = (Action::Release, Amount::ZERO);
        let back = ToBank::Resolve { action, hold, amount, at_ms: now_ms, origin, reply };
        self.flush(worker);
        self.workers[worker].to_bank.push_back(Up::Ledger(back));
    }

    /// A worker, and mostly its client, hears of the hold of an order.
    fn order_heard(&mut self, call: Call, answer: Box<[u8]>) -> Result<(), String> {
        let (hold, Making { run, billing_ms, made_ms, at_ms }) = read(&answer);
        let order = &mut self.orders.all[call.order];
        let kept_ms = self.options.answers_kept_ms;
        if let Some((first, first_ms)) = &order.first
            && **first != *answer
            && call.at_ms < first_ms.saturating_add(kept_ms)
            // What was on its way since before the first one was judged may be over.
            && *first_ms < at_ms.saturating_add(kept_ms)
        {
            return Err(format!(
                "order {}: a second hold {hold:?} beside {:?}",
                call.order,
                read(first).0
            ));
        }
        // Lost on its way, the order is sent again.
        let is_late = order.first.as_ref().is_some_and(|(_, first_ms)| at_ms < *first_ms);
        if !is_late && (self.calm || !self.orders.rng.chance(200)) {
            order.first = Some((answer, at_ms));
        }
        let budget = self.specs[order.budget].id;
        if !self.orders.known.insert((hold.grant, hold.seq)) {
            return Ok(());
        }
        let chain = self.chain(budget);
        let price = self.orders.rng.between(0, hold.amount.get());
        let known = Known::new(chain, hold, run, billing_ms, made_ms, price);
        let keeps = self.oracle.keeps(hold.grant);
        self.oracle.granted(Known { keeps, ..known })
    }
}
