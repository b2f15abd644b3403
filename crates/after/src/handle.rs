//! The owner of a running queue.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::figures::{Figures, Gauge};
use crate::items::Items;
use crate::worker::Worker;

/// How long a drop waits for the work.
const DROP_WITHIN: Duration = Duration::from_secs(5);
/// What a worker that stops at the end of its time may take to say so: work that panics at that moment prints a
/// backtrace first, and on a busy machine that alone takes some tenths of a second.
const GRACE: Duration = Duration::from_secs(1);

/// A running worker. Dropping it ends the queue as [`finish`](Self::finish) with five seconds, and logs what was not
/// done.
#[derive(Debug)]
#[must_use = "dropping it ends the queue"]
pub struct After {
    name: &'static str,
    gauge: Gauge,
    /// `None` once it was ended.
    thread: Option<Thread>,
}

/// The thread, and a channel whose closing says that its run is over: a join alone cannot be given a time.
#[derive(Debug)]
struct Thread {
    join: JoinHandle<()>,
    over: Receiver<()>,
}

/// How a queue ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The last figures; [`Figures::depth`] is what was not done. They are exact when no producer pushed meanwhile.
    pub figures: Figures,
    /// The work did not return in time: its thread runs on with the items that it took, and nobody waits for it.
    pub stuck: bool,
}

impl Ended {
    /// Everything that was pushed was done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.stuck && self.figures.done == self.figures.pushed
    }
}

impl After {
    pub(crate) fn start<T, W>(
        name: &'static str,
        gauge: Gauge,
        worker: Worker<T, W>,
    ) -> io::Result<After>
    where
        T: Send + 'static,
        W: FnMut(&mut Items<'_, T>) + Send + 'static,
    {
        let (running, over) = mpsc::channel();
        let run = move || {
            let _running = running;
            worker.run();
        };
        let join = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(After { name, gauge, thread: Some(Thread { join, over }) })
    }

    /// A look at the figures for any thread; it outlives the queue.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    /// Ends the queue: takes nothing more, works off what is there for as long as `within`, and returns a
    /// second later at the latest, whatever the work does. Drop the producers before, or what they push meanwhile may be
    /// among what is not done.
    pub fn finish(mut self, within: Duration) -> Ended {
        self.end(within)
    }

    fn end(&mut self, within: Duration) -> Ended {
        self.gauge.shared().close(within);
        let stuck = match self.thread.take() {
            Some(thread) => !thread.ends(within.saturating_add(GRACE)),
            None => false,
        };
        Ended { figures: self.gauge.read(), stuck }
    }
}

impl Thread {
    /// Waits for its end; false when it has not ended in time.
    fn ends(self, within: Duration) -> bool {
        let ended = self.over.recv_timeout(within) != Err(RecvTimeoutError::Timeout);
        if ended && self.join.join().is_err() {
            tracing::error!("a thread of deferred work panicked while it dropped its work");
        }
        ended
    }
}

impl Drop for After {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        let Ended { figures, stuck } = self.end(DROP_WITHIN);
        if figures.depth() > 0 || stuck {
            let (queue, left) = (self.name, figures.depth());
            tracing::warn!(queue, left, stuck, "deferred work is not all done");
        }
    }
}
