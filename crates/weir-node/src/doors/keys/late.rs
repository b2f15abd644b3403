//! Answers that other threads make, on their way back to the worker whose connection waits for them.

use std::sync::{Arc, Mutex, PoisonError};

use door_keys::Answer;
use door_transport::{ConnId, Waker};
use zeroize::Zeroizing;

/// An answer that owns its bytes, and wipes them.
#[derive(Debug)]
pub(super) struct LateAnswer {
    pub(super) status: u16,
    pub(super) headers: &'static [u8],
    pub(super) body: Zeroizing<Vec<u8>>,
    /// Items of a call about keys, and those that failed.
    pub(super) items: Option<(u64, u64)>,
}

impl LateAnswer {
    pub(super) fn of(answer: &Answer<'_>) -> LateAnswer {
        let body = Zeroizing::new(answer.body.to_vec());
        let items = items(answer);
        LateAnswer { status: answer.status, headers: answer.headers, body, items }
    }

    /// An answer in the place of one that cannot be given.
    pub(super) fn unavailable(body: &'static [u8]) -> LateAnswer {
        let body = Zeroizing::new(body.to_vec());
        LateAnswer { status: 503, headers: super::RETRY, body, items: None }
    }
}

/// Items of a call about keys, and those that failed.
pub(super) fn items(answer: &Answer<'_>) -> Option<(u64, u64)> {
    answer.audit.verb.map(|_| (answer.audit.items, answer.audit.failed))
}

/// Where one worker's late answers arrive.
pub(super) struct Arrivals {
    answers: Mutex<Vec<(ConnId, LateAnswer)>>,
    waker: Waker,
}

impl Arrivals {
    pub(super) fn new(waker: Waker) -> Arc<Arrivals> {
        Arc::new(Arrivals { answers: Mutex::default(), waker })
    }

    /// Takes what has arrived.
    pub(super) fn take(&self) -> Vec<(ConnId, LateAnswer)> {
        std::mem::take(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, conn: ConnId, answer: LateAnswer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((conn, answer));
        self.waker.wake();
    }
}

/// An answer that a connection waits for. Dropped without one it says so to the client: whatever becomes of the thread that has it, the
/// connection does not hang.
pub(super) struct Owed {
    conn: ConnId,
    to: Arc<Arrivals>,
    is_given: bool,
}

impl Owed {
    pub(super) fn new(conn: ConnId, to: &Arc<Arrivals>) -> Owed {
        Owed { conn, to: Arc::clone(to), is_given: false }
    }

    pub(super) fn give(mut self, answer: LateAnswer) {
        self.is_given = true;
        self.to.push(self.conn, answer);
    }

    /// Nobody waits: the connection was answered at once.
    pub(super) fn forget(mut self) {
        self.is_given = true;
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.is_given {
            self.to.push(self.conn, LateAnswer::unavailable(super::NOT_DONE));
        }
    }
}

#[cfg(test)]
mod tests {
    use door_transport::Handle;

    use super::*;

    #[test]
    fn whoever_waits_gets_one_answer_whatever_happens() {
        let arrivals = Arrivals::new(Handle::new().unwrap().waker());
        let (one, other) = (ConnId::from_bits(1), ConnId::from_bits(2));
        let body = Zeroizing::new(b"{}".to_vec());
        Owed::new(one, &arrivals).give(LateAnswer { status: 200, headers: b"", body, items: None });
        let lost = Owed::new(other, &arrivals);
        let dies = std::thread::spawn(move || {
            let _lost = lost;
            std::panic::resume_unwind(Box::new("a bug"));
        });
        dies.join().unwrap_err();
        let told: Vec<_> =
            arrivals.take().into_iter().map(|(conn, answer)| (conn, answer.status)).collect();
        assert_eq!(told, [(one, 200), (other, 503)]);
        assert!(arrivals.take().is_empty());
    }
}
