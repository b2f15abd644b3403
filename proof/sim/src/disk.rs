//! A simulated journal: records wait until they are sealed, and a crash tears off what was not.

use std::collections::VecDeque;

use ledger::{Out, Record, ToWorker};

use crate::rng::Rng;

/// The journal's disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Sealed, or at least written: what a restart finds.
    pub(crate) sealed: Vec<Record>,
    unsealed: VecDeque<Record>,
    /// Messages with the number of records that must be sealed before they may go out.
    waiting: VecDeque<(usize, u16, ToWorker)>,
    /// No record is sealed before this: a slow disk, or a full one.
    stuck_until_ms: u64,
}

impl Disk {
    /// Takes over what a step of the bank led to.
    pub(crate) fn append(&mut self, out: &mut Out) {
        self.unsealed.extend(out.records.drain(..));
        let needed = self.sealed.len() + self.unsealed.len();
        self.waiting
            .extend(out.messages.drain(..).map(|(worker, message)| (needed, worker, message)));
    }

    /// Makes the disk seal nothing until then.
    pub(crate) fn stick(&mut self, until_ms: u64) {
        self.stuck_until_ms = self.stuck_until_ms.max(until_ms);
    }

    /// Seals some of what waits.
    pub(crate) fn seal(&mut self, now_ms: u64, rng: &mut Rng) {
        if now_ms < self.stuck_until_ms {
            return;
        }
        let count =
            if rng.chance(800) { self.unsealed.len() } else { rng.index(self.unsealed.len() + 1) };
        self.sealed.extend(self.unsealed.drain(..count));
    }

    /// The next message whose records are sealed; with `early` (a planted bug) whether or not they are.
    pub(crate) fn next_message(&mut self, early: bool) -> Option<(u16, ToWorker)> {
        let (needed, ..) = *self.waiting.front()?;
        if needed > self.sealed.len() && !early {
            return None;
        }
        self.waiting.pop_front().map(|(_, worker, message)| (worker, message))
    }

    /// Does it seal nothing at present?
    pub(crate) fn is_stuck(&self, now_ms: u64) -> bool {
        now_ms < self.stuck_until_ms
    }

    /// A crash: a part of what was not sealed happens to be on disk, in order, the rest is gone. Returns how many
    /// records that were not sealed were kept and lost.
    pub(crate) fn crash(&mut self, rng: &mut Rng) -> (usize, usize) {
        let kept = rng.index(self.unsealed.len() + 1);
        let lost = self.unsealed.len() - kept;
        self.sealed.extend(self.unsealed.drain(..kept));
        self.unsealed.clear();
        self.waiting.clear();
        self.stuck_until_ms = 0;
        (kept, lost)
    }
}
