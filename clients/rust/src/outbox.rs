//! Confirms, settles and releases, until they are answered for good.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::{Action, resolve};

use crate::conn::Conn;
use crate::flights::NoPlace;
use crate::options::{Options, What};
use crate::pool::{Pool, Way};
use crate::spool::Spool;
use crate::{Error, Token, Verdict};

/// The first time between two attempts; it doubles with each.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// The longest.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// When every connection of a node has as many frames of resolves in flight as may be.
const FULL: Duration = Duration::from_millis(1);

/// One confirm, settle or release.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) token: Token,
    pub(crate) action: Action,
    /// In base units; 0 but for a settle.
    pub(crate) amount: i64,
    pub(crate) request_id: u64,
    /// The node that granted the hold, where that is known.
    pub(crate) issuer: Option<usize>,
}

/// What a caller waits at.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    answer: Mutex<Option<(Verdict, bool)>>,
    changed: Condvar,
}

impl Waiter {
    /// The verdict for good and whether it is a repeat; `None` when the time is over.
    pub(crate) fn wait(&self, limit: Duration) -> Option<(Verdict, bool)> {
        let guard = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(guard, limit, |answer| answer.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn tell(&self, verdict: Verdict, repeat: bool) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some((verdict, repeat));
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Item {
    order: Order,
    /// A bit for each node that does not know the token.
    foreign: u64,
    attempts: u32,
    /// Changes with each plan for the item: plans of before are void.
    plan: u64,
    begun: Instant,
    waiter: Option<Arc<Waiter>>,
}

#[derive(Debug, Default)]
struct Queue {
    items: HashMap<u64, Item>,
    /// When to look at which item, under which plan.
    due: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    /// Items that wait for a connection.
    parked: HashSet<u64>,
    last: u64,
    plans: u64,
    closed: bool,
}

/// What is not answered yet.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<Queue>,
    changed: Condvar,
    emptied: Condvar,
    /// Locked after the state where both are.
    spool: Mutex<Option<Spool>>,
}

impl Queue {
    fn plan(&mut self, id: u64, at: Instant) {
        self.plans += 1;
        let plan = self.plans;
        if let Some(item) = self.items.get_mut(&id) {
            item.plan = plan;
            self.due.push(Reverse((at, id, plan)));
        }
    }

    /// Plans the next attempt.
    fn again(&mut self, id: u64) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let wait = backoff(item.attempts, id);
        item.attempts += 1;
        self.plan(id, Instant::now() + wait);
    }
}

/// The time before the next attempt, with a quarter of jitter so that many clients do not come at once.
pub(crate) fn backoff(attempts: u32, id: u64) -> Duration {
    let whole = BACKOFF_MIN.saturating_mul(1 << attempts.min(12)).min(BACKOFF_MAX);
    // A multiplicative hash of id and attempt.
    let mixed = (id ^ u64::from(attempts) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    whole - whole / 4 * u32::from(mixed.to_be_bytes()[0]) / 255
}

impl Outbox {
    pub(crate) fn new(spool: Option<Spool>) -> Outbox {
        let (changed, emptied) = (Condvar::new(), Condvar::new());
        Outbox { state: Mutex::default(), changed, emptied, spool: Mutex::new(spool) }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spool(&self) -> MutexGuard<'_, Option<Spool>> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an order; it is in the spool when this returns.
    pub(crate) fn push(
        &self,
        order: Order,
        waiter: Option<Arc<Waiter>>,
        options: &Options,
    ) -> Result<(), Error> {
        {
            let state = self.lock();
            if state.closed {
                return Err(Error::Closed);
            }
            if state.items.len() >= options.unsettled_max {
                return Err(Error::Full { max: options.unsettled_max });
            }
        }
        if let Some(spool) = self.spool().as_mut() {
            spool.note(&order).map_err(|error| Error::Spool(Arc::new(error)))?;
        }
        self.take(order, waiter);
        Ok(())
    }

    /// Takes an order that is in the spool, or need not be.
    pub(crate) fn take(&self, order: Order, waiter: Option<Arc<Waiter>>) {
        let mut state = self.lock();
        state.last += 1;
        let (id, begun) = (state.last, Instant::now());
        let item = Item { order, foreign: 0, attempts: 0, plan: 0, begun, waiter };
        state.items.insert(id, item);
        state.plan(id, begun);
        self.changed.notify_one();
    }

    /// An answer came.
    pub(crate) fn resolved(
        &self,
        id: u64,
        verdict: Verdict,
        repeat: bool,
        node: usize,
        options: &Options,
    ) {
        let mut state = self.lock();
        let Some(item) = state.items.get_mut(&id) else { return };
        if verdict.is_passing() {
            state.again(id);
            self.changed.notify_one();
            return;
        }
        if verdict == Verdict::FOREIGN && item.order.issuer != Some(node) {
            item.foreign |= 1 << node;
            if item.foreign.count_ones() as usize != options.nodes.len() {
                let now = Instant::now();
                state.plan(id, now);
                self.changed.notify_one();
                return;
            }
        }
        let Some(item) = state.items.remove(&id) else { return };
        let is_empty = state.items.is_empty();
        if let Some(spool) = self.spool().as_mut()
            && let Err(error) = spool.done(&item.order)
        {
            (options.log)(&format!(
                "the spool file: {error}; what it holds is sent again at the next start"
            ));
        }
        drop(state);
        if is_empty {
            self.emptied.notify_all();
        }
        let ns = u64::try_from(item.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let what = match item.order.action {
            Action::Confirm => What::Confirm,
            Action::Settle => What::Settle,
            Action::Release => What::Release,
        };
        options.tell(what, verdict, ns);
        if let Some(waiter) = item.waiter {
            waiter.tell(verdict, repeat);
        }
    }

    /// No answer will come to what was sent.
    pub(crate) fn unanswered(&self, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        let mut state = self.lock();
        ids.iter().for_each(|id| state.again(*id));
        self.changed.notify_one();
    }

    /// There may be a way now for what had none.
    pub(crate) fn unpark(&self) {
        let mut state = self.lock();
        let now = Instant::now();
        for id in std::mem::take(&mut state.parked) {
            state.plan(id, now);
        }
        self.changed.notify_one();
    }

    /// Waits until nothing is left; true if so.
    pub(crate) fn wait_until_empty(&self, limit: Duration) -> bool {
        let waited =
            self.emptied.wait_timeout_while(self.lock(), limit, |state| !state.items.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.items.is_empty()
    }

    /// How many wait for their answers.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Takes nothing further, and ends the thread that sends.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
        // Another client may open it now, whoever still holds this.
        drop(self.spool().take());
    }

    /// Sends what is due until the outbox is closed.
    pub(crate) fn keep(&self, pool: &Pool, options: &Options) {
        while let Some(due) = self.wait_for_due() {
            self.send(due, pool, options);
        }
    }

    /// What is due now; `None` when the outbox is closed.
    fn wait_for_due(&self) -> Option<Vec<u64>> {
        let mut state = self.lock();
        let mut found = Vec::new();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            let mut next = None;
            while let Some(Reverse((at, id, plan))) = state.due.peek().copied() {
                if at > now {
                    next = Some(at - now);
                    break;
                }
                state.due.pop();
                if state.items.get(&id).is_some_and(|item| item.plan == plan) {
                    found.push(id);
                }
            }
            if !found.is_empty() {
                return Some(found);
            }
            let waited = self.changed.wait_timeout(state, next.unwrap_or(BACKOFF_MAX));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn order_of(&self, id: u64) -> Option<(Order, u64)> {
        self.lock().items.get(&id).map(|item| (item.order.clone(), item.foreign))
    }

    fn send(&self, due: Vec<u64>, pool: &Pool, options: &Options) {
        let mut frames: Vec<(Arc<Conn>, Vec<u64>, Vec<resolve::Item>)> = Vec::new();
        for id in due {
            let Some((order, foreign)) = self.order_of(id) else { continue };
            // Without the lock: who makes connections takes the two locks in the other order.
            let way = pool.way(order.issuer, foreign);
            let mut state = self.lock();
            let Way::Conn(conn) = way else {
                state.again(id);
                // Tried as soon as there is a connection.
                state.parked.insert(id);
                continue;
            };
            // Whatever becomes of the frame: looked at again after this time, unless it was answered.
            state.parked.remove(&id);
            state.plan(id, Instant::now() + options.answer);
            drop(state);
            let entry =
                resolve::Item::new(order.token.0, order.amount, order.action, order.request_id);
            let has_room = |frame: &&mut (Arc<Conn>, Vec<u64>, Vec<resolve::Item>)| {
                Arc::ptr_eq(&frame.0, &conn) && frame.1.len() < conn.batch_max
            };
            match frames.iter_mut().rev().find(has_room) {
                Some((_, ids, entries)) => {
                    ids.push(id);
                    entries.push(entry);
                }
                None => frames.push((conn, vec![id], vec![entry])),
            }
        }
        for (conn, ids, entries) in frames {
            match conn.send_resolves(&ids, &entries) {
                Ok(()) => {}
                Err(NoPlace::Full) => {
                    conn.end_if_silent();
                    let mut state = self.lock();
                    ids.iter().for_each(|id| state.plan(*id, Instant::now() + FULL));
                }
                Err(NoPlace::Lost) => self.unanswered(&ids),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_later_and_later_up_to_a_limit() {
        let mut before = Duration::ZERO;
        for attempts in 0..40 {
            let wait = backoff(attempts, 7);
            let whole = BACKOFF_MIN.saturating_mul(1 << attempts.min(12)).min(BACKOFF_MAX);
            assert!(wait <= whole && wait >= whole / 4 * 3, "{attempts}: {wait:?} of {whole:?}");
            assert!(wait > before || whole == BACKOFF_MAX);
            before = wait;
        }
        assert_ne!(backoff(5, 1), backoff(5, 2), "clients do not come at once");
    }
}
