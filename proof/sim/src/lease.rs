//! A bank that was replaced and does not know: its workers go on granting from their purses until their lease is over, whatever the
//! next bank does.

use std::cell::Cell;
use std::rc::Rc;

use ledger::{Amount, Purses};

use crate::oracle::Known;
use crate::world::World;

/// The lease of one run, as its workers count it. Here all clocks of a node go alike; `probe::Lease` has its own tests.
#[derive(Debug)]
pub(crate) struct Lease {
    term_ms: u64,
    end_ms: Cell<u64>,
}

impl Lease {
    /// One that is over until something is acknowledged.
    pub(crate) fn new(term_ms: u64) -> Rc<Lease> {
        Rc::new(Lease { term_ms, end_ms: Cell::new(0) })
    }

    /// An append that was sent first at this time is acknowledged.
    pub(crate) fn renew(&self, sent_ms: u64) {
        self.end_ms.set(sent_ms + self.term_ms);
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.end_ms.get()
    }
}

/// A worker of a bank that was replaced.
#[derive(Debug)]
pub(crate) struct Zombie {
    purses: Purses,
    lease: Rc<Lease>,
    /// Its machine's clock is ahead of the next bank's.
    ahead_ms: u64,
    run: u32,
    billing_ms: u64,
    /// Budgets by their slots, each with those above it.
    budgets: Vec<(u32, Vec<u64>, i64)>,
}

impl World {
    /// May this worker grant anything?
    pub(crate) fn may_grant(&mut self, worker: usize) -> bool {
        let why = match &self.lease {
            None if self.workers[worker].journal_fails => "ask refused: journal",
            Some(lease) if lease.is_over(self.now_ms) => "ask refused: cut off",
            _ => return true,
        };
        self.stats.one(why);
        false
    }

    /// The bank is replaced by one on another machine: half of the times its workers do not know.
    pub(crate) fn leave_zombies(&mut self) {
        let Some(lease) = self.lease.take().filter(|_| !self.calm && self.rng.chance(500)) else {
            return;
        };
        let slot = |id| Some((self.bank.slot(id)?, self.chain(id)));
        let budgets: Vec<(u32, Vec<u64>, i64)> = (self.specs.iter())
            .filter_map(|spec| slot(spec.id).map(|(slot, chain)| (slot, chain, spec.limit.get())))
            .collect();
        let (run, billing_ms) = (self.bank.run(), self.options.billing_ms);
        for worker in std::mem::take(&mut self.workers) {
            let ahead_ms = self.rng.below(self.options.clock_error_ms);
            let (lease, budgets) = (Rc::clone(&lease), budgets.clone());
            let purses = worker.purses;
            self.zombies.push(Zombie { purses, lease, ahead_ms, run, billing_ms, budgets });
        }
    }

    /// A client asks a worker whose bank was replaced.
    pub(crate) fn ask_zombie(&mut self) -> Result<(), String> {
        let now_ms = self.now_ms;
        self.zombies.retain(|zombie| !zombie.lease.is_over(now_ms));
        if self.zombies.is_empty() {
            return Ok(());
        }
        let index = self.rng.index(self.zombies.len());
        let zombie = &mut self.zombies[index];
        let at_ms = now_ms + zombie.ahead_ms;
        let (slot, chain, limit) = zombie.budgets[self.rng.index(zombie.budgets.len())].clone();
        let amount = Amount::new(self.rng.between(1, (limit / 50).max(2)));
        let at = zombie.purses.at(at_ms);
        let reserved = zombie.purses.reserve(slot, amount, at);
        zombie.purses.turn(at_ms);
        while zombie.purses.next_message().is_some() {}
        let Ok(hold) = reserved else { return Ok(()) };
        self.stats.one("ask granted by a bank that was replaced");
        let (run, billing_ms, price) = (zombie.run, zombie.billing_ms, amount.get());
        let keeps = self.oracle.keeps(hold.grant);
        let known = Known::new(chain, hold, run, billing_ms, now_ms, price);
        self.oracle.granted(Known { keeps, ..known })
    }
}
