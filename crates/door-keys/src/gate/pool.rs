//! The threads that do large calls, so that no worker is held up by them, nor the keeper, nor a smaller call by a larger one.
//!
//! ```text
//!  worker ──▶ middle lane: up to a MiB ──▶ any thread, before the other lane
//!         ──▶ streams:     a piece     ──▶ any thread, in turns with
//!         ──▶ large lane:  all others  ──▶ the threads but the first
//!         ──▶ spent:       a large body or answer that is done with ──▶ any thread, which wipes it
//!  a change of keys on the way ──▶ keeper ──▶ back: these threads may wait
//! ```
//! The lanes of calls are bounded, together in bytes; that of pieces by the number of streams. What ends the node ends the lanes: the threads do what was left there, and end.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vault::{Change, Keys, WipedBytes};

use super::audit::AuditDesk;
use super::keeper::{Job, KeeperDesk, OwnedRequest};
use super::late::{self, LateAnswer};
use super::live::KeysView;
use super::stream::PieceJob;
use crate::{Gate, NotChanged, NotUnsealed, Unsealing};

/// Calls that may wait in both their lanes.
const JOBS_MAX: usize = 1_024;
/// A call with more bytes is a large one. Such a call takes a thread for some milliseconds.
pub(super) const MIDDLE_BYTES_MAX: usize = 1 << 20;
/// How often a thread with nothing to do looks whether the keys are still those.
const IDLE: Duration = Duration::from_secs(1);
/// Threads, whatever the machine: one keeps a way open beside a large call.
const THREADS_MIN: usize = 2;
const THREADS_MAX: usize = 8;

/// How many threads a machine has that leaves so many cores.
pub(super) fn threads(cores: usize) -> usize {
    cores.clamp(THREADS_MIN, THREADS_MAX)
}

/// What the pool does.
pub(super) enum PoolJob {
    /// A whole call.
    Call(Box<Job>),
    /// A piece of a stream.
    Piece(Box<PieceJob>),
    /// Bytes to be wiped, which takes a worker too long.
    Spent(Spent),
}

/// What is done with, and wipes its bytes when it is dropped.
pub(super) enum Spent {
    /// A large body.
    Request { _wiped: OwnedRequest },
    /// A large answer.
    Answer { _wiped: WipedBytes },
}

/// What waits, and where.
struct Lanes {
    state: Mutex<State>,
    /// Something came, or nobody leaves anything any more.
    news: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    middle: VecDeque<PoolJob>,
    streams: VecDeque<PoolJob>,
    large: VecDeque<PoolJob>,
    spent: Vec<Spent>,
    /// A piece came last, so that a large call comes first.
    is_larges_turn: bool,
    /// Of bodies that wait or are being worked on.
    bytes: usize,
    closed: bool,
}

impl State {
    /// Takes the next one. The first thread takes no large ones.
    fn take(&mut self, takes_large: bool) -> Option<PoolJob> {
        // It takes a tenth of the time in which it was made, and gives its memory back.
        if let Some(spent) = self.spent.pop() {
            return Some(PoolJob::Spent(spent));
        }
        if let Some(job) = self.middle.pop_front() {
            return Some(job);
        }
        if takes_large
            && (self.is_larges_turn || self.streams.is_empty())
            && let Some(job) = self.large.pop_front()
        {
            self.is_larges_turn = false;
            return Some(job);
        }
        let piece = self.streams.pop_front();
        self.is_larges_turn |= piece.is_some();
        piece
    }
}

impl Lanes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next call, doing `idle` each second; `None`: there will be none. The first thread takes no large ones.
    fn next(&self, takes_large: bool, mut idle: impl FnMut()) -> Option<PoolJob> {
        let mut state = self.state();
        loop {
            if let Some(found) = state.take(takes_large) {
                return Some(found);
            }
            if state.closed {
                return None;
            }
            let waited = self.news.wait_timeout(state, IDLE);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = back;
            if timeout.timed_out() {
                idle();
            }
        }
    }
}

/// Where workers leave large calls.
pub(super) struct PoolDesk(Arc<Lanes>);

impl PoolDesk {
    pub(super) fn new(body_bytes_max: usize) -> PoolDesk {
        let (state, news) = (Mutex::default(), Condvar::new());
        PoolDesk(Arc::new(Lanes { state, news, bytes_max: body_bytes_max * 2 }))
    }

    /// Leaves a call, or gives it back: as many wait as may, or as many bytes.
    pub(super) fn ask(&self, job: Box<Job>) -> Result<(), Box<Job>> {
        let bytes = job.request.body_len();
        let mut state = self.0.state();
        let waiting = state.middle.len() + state.large.len();
        if waiting >= JOBS_MAX || state.bytes.saturating_add(bytes) > self.0.bytes_max {
            return Err(job);
        }
        state.bytes += bytes;
        let is_large = bytes > MIDDLE_BYTES_MAX;
        let lane = if is_large { &mut state.large } else { &mut state.middle };
        lane.push_back(PoolJob::Call(job));
        drop(state);
        // A large call wakes all: the first thread would not take it.
        if is_large {
            self.0.news.notify_all()
        } else {
            self.0.news.notify_one()
        }
        Ok(())
    }

    /// Leaves a piece of a stream. There is always room: each stream has one at most, and there are so many streams.
    pub(super) fn leave(&self, piece: Box<PieceJob>) {
        self.0.state().streams.push_back(PoolJob::Piece(piece));
        self.0.news.notify_one();
    }

    /// Leaves what is done with. It is no more than bodies and answers were let in.
    pub(super) fn put_away(&self, spent: Spent) {
        self.0.state().spent.push(spent);
        self.0.news.notify_one();
    }

    /// A thread's side; `number` from 0.
    pub(super) fn hand(&self, number: usize, tools: Tools) -> PoolHand {
        PoolHand { lanes: Arc::clone(&self.0), takes_large: number > 0, tools }
    }
}

impl Drop for PoolDesk {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.news.notify_all();
    }
}

/// What a thread of the pool works with.
pub(super) struct Tools {
    pub(super) door: crate::Door,
    pub(super) keys: KeysView,
    pub(super) keeper: KeeperDesk,
    pub(super) audit: Option<AuditDesk>,
}

/// One thread of the pool, before it runs.
pub(super) struct PoolHand {
    lanes: Arc<Lanes>,
    takes_large: bool,
    tools: Tools,
}

impl PoolHand {
    /// Does calls until there will be none.
    pub(super) fn run(mut self) {
        // A thread that has nothing to do lets go of keys that were sealed or deleted, too.
        while let Some(job) = self.lanes.next(self.takes_large, || self.tools.keys.refresh()) {
            match job {
                PoolJob::Call(job) => {
                    let bytes = job.request.body_len();
                    self.tools.answer(job);
                    self.lanes.state().bytes -= bytes;
                }
                PoolJob::Piece(job) => self.tools.work(*job),
                PoolJob::Spent(spent) => drop(spent),
            }
        }
    }
}

impl Tools {
    fn answer(&mut self, job: Box<Job>) {
        let Tools { door, keys, keeper, audit } = self;
        keys.refresh();
        let answered = late::answer(door, &mut WaitGate { keys, keeper }, job, audit.as_ref());
        // What comes back only the keeper can do.
        if let Err(job) = answered.or_else(|job| keeper.ask(job)) {
            LateAnswer::refuse(job.owed, super::BUSY);
        }
    }

    /// Works on a piece of a stream; this thread may wait, so that there is nothing left of it.
    fn work(&mut self, job: PieceJob) {
        let PieceJob { mut piece, now_s, owed } = job;
        let Tools { keys, keeper, audit, .. } = self;
        keys.refresh();
        piece.work(&mut WaitGate { keys, keeper }, now_s);
        piece.give(audit.as_ref(), owed);
    }
}

/// The keys where one may wait for the keeper.
struct WaitGate<'a> {
    keys: &'a mut KeysView,
    keeper: &'a KeeperDesk,
}

impl Gate for WaitGate<'_> {
    fn keys(&self) -> &Keys {
        self.keys.keys()
    }

    fn change(&mut self, change: Change, now_s: u64) -> Result<bool, NotChanged> {
        let changed = self.keeper.change(change, now_s);
        self.keys.refresh();
        changed
    }

    fn unseal(&mut self, _: Unsealing) -> Result<(), NotUnsealed> {
        Err(NotUnsealed::Elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use crate::Method;
    use door_transport::Handle;

    use super::super::late::{Arrivals, Owed};
    use super::*;

    const BODY_BYTES_MAX: usize = 2 * MIDDLE_BYTES_MAX;

    fn job(arrivals: &Arc<Arrivals>, place: u32, bytes: usize) -> Box<Job> {
        let body = vec![b' '; bytes];
        let request = crate::Request {
            method: Method::Post,
            path: "/v1/transit/encrypt/a",
            query: "",
            namespace: None,
            wrap_ttl: None,
            token: None,
            body: &body,
            now_s: 1,
        };
        let request = OwnedRequest::of(&request);
        Box::new(Job { request, asker: None, owed: Owed::new(place, arrivals) })
    }

    /// Returns the length of the next call's body.
    fn next(desk: &PoolDesk, takes_large: bool) -> Option<usize> {
        let PoolJob::Call(job) = desk.0.next(takes_large, || {})? else {
            panic!("no piece was left")
        };
        let bytes = job.request.body_len();
        job.owed.forget();
        desk.0.state().bytes -= bytes;
        Some(bytes)
    }

    #[test]
    fn a_smaller_call_passes_larger_ones_and_has_a_thread_that_takes_none_of_them() {
        let arrivals = Arrivals::new(Handle::new().unwrap().waker());
        let desk = PoolDesk::new(BODY_BYTES_MAX);
        let (middle, large) = (MIDDLE_BYTES_MAX, MIDDLE_BYTES_MAX + 1);
        let sizes = [large, middle, large, middle - 2];
        for (place, bytes) in (0..).zip(sizes) {
            assert!(desk.ask(job(&arrivals, place, bytes)).is_ok());
        }
        assert_eq!((next(&desk, true), next(&desk, false)), (Some(middle), Some(middle - 2)));
        desk.0.state().closed = true;
        assert_eq!(next(&desk, false), None, "large ones are not its own");
        assert_eq!((next(&desk, true), next(&desk, true)), (Some(large), Some(large)), "in order");
        assert_eq!(next(&desk, true), None, "what was left is done before a thread ends");
    }

    #[test]
    fn calls_and_bytes_that_wait_are_bounded_and_what_is_too_much_comes_back() {
        let arrivals = Arrivals::new(Handle::new().unwrap().waker());
        let desk = PoolDesk::new(BODY_BYTES_MAX);
        for place in 0..2 {
            assert!(desk.ask(job(&arrivals, place, BODY_BYTES_MAX)).is_ok());
        }
        let too_much = desk.ask(job(&arrivals, 2, 1)).err().unwrap();
        too_much.owed.forget();
        // A call counts until it is answered, not until a thread has it.
        let Some(PoolJob::Call(working)) = desk.0.next(true, || {}) else {
            panic!("a call was left")
        };
        assert!(desk.ask(job(&arrivals, 3, 1)).is_err());
        desk.0.state().bytes -= working.request.body_len();
        assert!(
            (4..4 + JOBS_MAX).filter(|_| desk.ask(job(&arrivals, 4, 1)).is_ok()).count() < JOBS_MAX
        );
        assert!(desk.ask(job(&arrivals, 5, 1)).is_err(), "as many as may");
    }

    #[test]
    fn a_machine_has_two_threads_at_least_and_eight_at_most() {
        assert_eq!([0, 1, 2, 5, 64].map(threads), [2, 2, 2, 5, 8]);
    }
}
