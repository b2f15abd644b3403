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
    drop_within: Duration,
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
        let thread = Some(Thread { join, over });
        Ok(After { name, gauge, drop_within: DROP_WITHIN, thread })
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
        self.end(within, GRACE)
    }

    fn end(&mut self, within: Duration, grace: Duration) -> Ended {
        self.gauge.shared().close(within);
        let stuck = match self.thread.take() {
            Some(thread) => !thread.ends(within.saturating_add(grace)),
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
        let Ended { figures, stuck } = self.end(self.drop_within, GRACE);
        if figures.depth() > 0 || stuck {
            let (queue, left) = (self.name, figures.depth());
            tracing::warn!(queue, left, stuck, "some deferred work is not done");
        }
    }
}

/// How a queue ends where time plays a part, with more of it than any machine takes from a thread.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{PushError, Setup};

    const LONG: Duration = Duration::from_secs(600);
    const WITHIN: Duration = Duration::from_millis(20);

    #[test]
    fn a_drop_works_off_the_queue() {
        let done = Arc::new(AtomicU64::new(0));
        let mut setup = Setup::new("drop", 1_000);
        let mut producer = setup.producer();
        let counted = Arc::clone(&done);
        let work = move |items: &mut Items<'_, u64>| {
            // Slower than the pushes, so that the drop finds a queue with something in it.
            std::thread::sleep(Duration::from_millis(2));
            counted.fetch_add(items.take(100).sum(), Ordering::Relaxed);
        };
        let mut after = setup.start(work).unwrap();
        after.drop_within = LONG;
        (0..1_000).for_each(|_| producer.push(1).unwrap());
        let gauge = after.gauge();
        drop(after);
        assert_eq!(done.load(Ordering::Relaxed), 1_000);
        assert_eq!((gauge.read().done, gauge.read().depth()), (1_000, 0));
        assert_eq!(producer.push(1), Err(PushError::Closed(1)));
        assert!(producer.is_closed());
    }

    /// The work takes one item, and holds it until the queue is closed and its time is over.
    #[test]
    fn what_was_not_done_in_time_is_said() {
        let mut setup = Setup::new("late", 1_000);
        let (mut producer, looks) = (setup.producer(), setup.producer());
        (0..1_000).for_each(|item| producer.push(item).unwrap());
        let (started, begun) = mpsc::channel();
        let work = move |items: &mut Items<'_, u64>| {
            let _ = items.next();
            started.send(()).unwrap();
            while !looks.is_closed() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(WITHIN);
        };
        let mut after = setup.start(work).unwrap();
        begun.recv().unwrap();
        let ended = after.end(WITHIN, LONG);
        assert!(!ended.is_complete() && !ended.stuck, "{ended:?}");
        assert_eq!((ended.figures.done, ended.figures.depth()), (1, 999), "{ended:?}");
    }

    #[test]
    fn work_that_always_panics_still_ends() {
        let mut setup = Setup::new("always", 4);
        let mut producer = setup.producer();
        (0..4).for_each(|item| producer.push(item).unwrap());
        // A panic without a message: printing thousands of backtraces would be what this test waits for.
        let work = |_: &mut Items<'_, u32>| std::panic::resume_unwind(Box::new("planted"));
        let ended = setup.start(work).unwrap().end(WITHIN, LONG);
        assert_eq!((ended.figures.done, ended.figures.in_doubt, ended.figures.depth()), (0, 0, 4));
        assert!(!ended.stuck, "{ended:?}");
    }
}
