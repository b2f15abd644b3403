//! A client's messages that wait: orders for the ledger's answer, and what came behind them.

use std::collections::VecDeque;

use gate_orders::{Leg, Order, Size};

use crate::gate::limits::Denied;
use crate::rows::RowPlace;

/// A client whose messages so many wait for is read no further.
const WAITING_MAX: usize = 1_024;
/// How long an order waits for the ledger.
pub(crate) const ANSWER_MS: u64 = 2_000;

/// What budgets granted.
#[derive(Debug)]
pub(crate) struct Grant {
    /// Of its named hold.
    pub(crate) key: u128,
    /// The venue that it was asked for.
    pub(crate) venue: usize,
    pub(crate) what: Granted,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a grant is in a box")]
pub(crate) enum Granted {
    /// A new order.
    Order(Order),
    /// A replace of the order at this place, which has these legs, to this.
    Replace(RowPlace, Box<[Leg]>, Size),
}

impl Grant {
    /// What a replace makes of its order.
    pub(crate) fn size(&self) -> Option<Size> {
        if let Granted::Replace(.., size) = self.what { Some(size) } else { None }
    }

    pub(crate) fn legs(&self) -> &[Leg] {
        match &self.what {
            Granted::Order(order) => order.legs(),
            Granted::Replace(_, legs, _) => legs,
        }
    }
}

/// How far a message is that waits.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It waits for those before it.
    Behind,
    /// The ledger was asked, under this number.
    Asked(u64),
    Granted(Box<Grant>),
    Denied(Denied),
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) bytes: Box<[u8]>,
    /// Its number (34), in the life of the session that began then.
    pub(crate) seq: u64,
    pub(crate) life_ms: i64,
    pub(crate) since_ms: u64,
    pub(crate) progress: Progress,
}

/// Messages that wait, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct LineUp(VecDeque<Waiter>);

impl LineUp {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= WAITING_MAX
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        self.0.push_back(waiter);
    }

    /// Puts a message back before all others.
    pub(crate) fn put_back(&mut self, waiter: Waiter) {
        self.0.push_front(waiter);
    }

    /// The number of the oldest message in the life of its session that began then.
    pub(crate) fn first_seq(&self, life_ms: i64) -> Option<u64> {
        self.0.iter().find(|one| one.life_ms == life_ms).map(|one| one.seq)
    }

    /// When the oldest message has waited long enough.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.0.front().map(|first| first.since_ms + ANSWER_MS)
    }

    /// Takes the oldest message, if nothing keeps it any more.
    pub(crate) fn take_ready(&mut self) -> Option<Waiter> {
        self.0.pop_front_if(|first| !matches!(first.progress, Progress::Asked(_)))
    }

    /// Takes all.
    pub(crate) fn take(&mut self) -> VecDeque<Waiter> {
        std::mem::take(&mut self.0)
    }

    /// Says what became of an ask. `None`: nobody waits for it.
    pub(crate) fn answer(&mut self, number: u64, progress: Progress) -> Result<(), Progress> {
        let is_it =
            |one: &&mut Waiter| matches!(one.progress, Progress::Asked(asked) if asked == number);
        match self.0.iter_mut().find(is_it) {
            Some(waiter) => {
                waiter.progress = progress;
                Ok(())
            }
            None => Err(progress),
        }
    }

    /// Orders that have waited long enough wait no more.
    pub(crate) fn give_up(&mut self, now_ms: u64) {
        let late = self.0.iter_mut().filter(|one| one.since_ms + ANSWER_MS <= now_ms);
        for waiter in late {
            if let Progress::Asked(_) = waiter.progress {
                waiter.progress = Progress::Denied(Denied::Unanswered);
            }
        }
    }
}
