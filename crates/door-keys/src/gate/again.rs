//! Another Transit is asked for the key beside the node, which waits only a moment for it at its start, and again until it brings the key or
//! somebody else does.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::transit::{Brought, NotBrought, Transit};

/// How long a start waits for the first attempt, which then goes on beside the node.
const START_WAIT: Duration = Duration::from_secs(2);
/// How long after a vain attempt the next one begins; each next one waits twice as long.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether an attempt has ended.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// Attempts, one after the other, each on a thread of its own: the keeper waits for none.
pub(super) struct Again {
    transit: Transit,
    pause: Duration,
    next_at: Instant,
    running: Option<Receiver<Result<Brought, NotBrought>>>,
    /// What was said last; the same is not said again.
    said: String,
}

impl Again {
    pub(super) fn new(transit: Transit) -> Again {
        let next_at = Instant::now();
        Again { transit, pause: PAUSE, next_at, running: None, said: String::new() }
    }

    /// The first attempt, as far as a start waits for it; `None`: the other has not answered yet, or there is no thread.
    pub(super) fn start(&mut self) -> Option<Result<Brought, NotBrought>> {
        self.begin();
        let ended = self.ended(START_WAIT);
        if ended.is_none() && self.running.is_some() {
            tracing::warn!(
                "{}: no whole answer within {} ms; the keys stay sealed until it comes",
                self.transit,
                START_WAIT.as_millis()
            );
        }
        ended
    }

    pub(super) fn transit(&self) -> &Transit {
        &self.transit
    }

    /// What an attempt brought that has ended; begins the next one when its time has come.
    pub(super) fn look(&mut self) -> Option<Brought> {
        if self.running.is_none() {
            if Instant::now() >= self.next_at {
                self.begin();
            }
            return None;
        }
        let why = match self.ended(Duration::ZERO)? {
            Ok(brought) => return Some(brought),
            Err(NotBrought::Now(why) | NotBrought::Wrong(why)) => why,
        };
        self.failed(&why);
        None
    }

    /// What the running attempt came to, if it ends within this time.
    fn ended(&mut self, wait: Duration) -> Option<Result<Brought, NotBrought>> {
        let ended = match self.running.as_ref()?.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => return None,
            Ok(ended) => ended,
            Err(RecvTimeoutError::Disconnected) => {
                Err(NotBrought::Now("the attempt ended without a word".to_owned()))
            }
        };
        self.running = None;
        Some(ended)
    }

    /// Notes that an attempt was in vain.
    pub(super) fn failed(&mut self, why: &str) {
        if self.said != why {
            let transit = &self.transit;
            tracing::warn!("{transit}: {why}; the keys stay sealed, and it is asked again");
            why.clone_into(&mut self.said);
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.next_at = Instant::now() + self.pause;
    }

    fn begin(&mut self) {
        let (transit, (reply, running)) = (self.transit.clone(), sync_channel(1));
        let attempt = std::thread::Builder::new().name("vault-transit".into());
        // Whoever asked may be gone: the node stops, or was unsealed.
        let begun = attempt.spawn(move || drop(reply.send(transit.bring())));
        match begun {
            Ok(_) => self.running = Some(running),
            Err(error) => self.failed(&format!("no thread: {error}")),
        }
    }
}
