//! What every door needs of its worker: clock, keys, plans, purses, the configuration in force, and the tallies of refusals.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use door_batch::Question;
use door_transport::ConnId;
use gate_pacing::Pace;
use ledger::{Action, Amount, At, Hold, KeyRing, Origin, Purses, ToBank};
use probe::NodeClock;
use wire::{Reason, Verdict};

use crate::counters::WorkerCounters;
use crate::doors::Reply;
use crate::messages::{Facts, Snapshot};
use crate::questions::Questions;
use crate::stages::{WorkerProbes, WorkerStage};

/// One worker's part that all of its doors share. A door gets it with each call and keeps nothing of it.
pub(crate) struct Till {
    /// Number of the worker.
    pub(crate) number: u16,
    pub(crate) facts: Arc<Facts>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) clock: NodeClock,
    /// The instant of this wake-up, and the deadline of the holds made in it.
    pub(crate) at: At,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) paces: Box<[Pace]>,
    pub(crate) purses: Purses,
    /// A message went to the bank that it should not sleep over.
    pub(crate) urgent: bool,
    /// The journal cannot seal: nothing is granted.
    pub(crate) journal_fails: bool,
    pub(crate) probes: WorkerProbes,
    pub(crate) questions: Questions,
}

impl Till {
    pub(crate) fn new(
        number: u16,
        facts: Arc<Facts>,
        counters: Arc<WorkerCounters>,
        mut purses: Purses,
        keys: Arc<KeyRing>,
        probes: WorkerProbes,
    ) -> Till {
        let mut clock = NodeClock::not_before(facts.earliest_ms);
        let at = purses.at(clock.now_ms());
        purses.steady(clock.steady_ms());
        let snapshot = Snapshot::empty(table::Secret::new(facts.secret));
        Till {
            number,
            facts,
            keys,
            counters,
            clock,
            at,
            snapshot,
            paces: Box::default(),
            purses,
            urgent: false,
            journal_fails: false,
            probes,
            questions: Questions::default(),
        }
    }

    /// The loop came back from the kernel: the clock is read.
    pub(crate) fn wake(&mut self) {
        self.probes.begin();
        self.at = self.purses.at(self.clock.now_ms());
        self.purses.steady(self.clock.steady_ms());
    }

    /// A stage of the worker's turn ends.
    #[inline(always)]
    pub(crate) fn lap(&mut self, stage: WorkerStage, items: usize) {
        self.probes.lap(stage, items);
    }

    /// Asks the bank to confirm, settle or release a hold. The door that `reply` names hears what became of it once that is sealed.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        reply: Reply,
        action: Action,
        hold: Hold,
        amount: Amount,
        origin: Origin,
    ) {
        let (at_ms, reply) = (self.at.now_ms, reply.to_bits());
        self.purses.send(ToBank::Resolve { action, hold, amount, at_ms, origin, reply });
    }

    /// Asks the bank for a sign behind everything that was said to it so far: [`crate::doors::Door::echoed`].
    pub(crate) fn echo(&mut self, reply: Reply) {
        self.purses.send(ToBank::Echo { reply: reply.to_bits() });
    }

    /// Takes a question of a client about books or counters; its answer comes to the connection.
    ///
    /// # Errors
    /// `Busy`: too many wait.
    pub(crate) fn question(&mut self, conn: ConnId, question: Question) -> Result<(), Reason> {
        self.questions.take(conn.to_bits(), question)?;
        self.urgent = true;
        Ok(())
    }

    /// Counts a refused ask of a budget, and remembers it for a while.
    #[inline(always)]
    pub(crate) fn refused(&self, slot: u32, why: Verdict) {
        if let Some(tally) = self.snapshot.cells.tallies.get(slot as usize) {
            tally.refused(why);
            self.counters.refusals.note(slot, why, self.at.now_ms);
        }
    }
}

/// Adds one to a counter that this thread alone writes.
pub(crate) fn add_one(counter: &std::sync::atomic::AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}
