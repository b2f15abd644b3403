//! Another Transit that had no key at the start is asked again, until it has or somebody else brings the key.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use super::transit::{Brought, NotBrought, Transit};

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
        let next_at = Instant::now() + PAUSE;
        Again { transit, pause: PAUSE, next_at, running: None, said: String::new() }
    }

    pub(super) fn transit(&self) -> &Transit {
        &self.transit
    }

    /// What an attempt brought that has ended; begins the next one when its time has come.
    pub(super) fn look(&mut self) -> Option<Brought> {
        let Some(running) = &self.running else {
            if Instant::now() >= self.next_at {
                self.begin();
            }
            return None;
        };
        let ended = match running.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(ended) => ended,
            Err(TryRecvError::Disconnected) => {
                Err(NotBrought::Now("the attempt ended without a word".to_owned()))
            }
        };
        self.running = None;
        let why = match ended {
            Ok(brought) => return Some(brought),
            Err(NotBrought::Now(why) | NotBrought::Wrong(why)) => why,
        };
        self.failed(&why);
        None
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
