//! The cold end: the thread that does the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;

use crate::items::{Items, Ring};
use crate::shared::Shared;

/// With nothing to do, the worker looks again by itself after so long before it falls asleep: a busy producer never
/// finds it asleep.
const NAP: Duration = Duration::from_micros(100);
/// The first look after falling asleep, for a push that came at that very moment and missed the flag. Any processor
/// has made a store visible long before.
pub(crate) const FIRST_SLEEP: Duration = Duration::from_millis(1);
/// The looks after that are not needed; they bound what a mistake above could do.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Items of a batch once the queue is closed, so that the time that is left is looked at in between.
const CLOSING_MAX: usize = 64;

pub(crate) struct Worker<T, W> {
    name: &'static str,
    shared: Arc<Shared>,
    rings: Vec<Ring<T>>,
    work: W,
    /// What is in the rings came after this, ns.
    since: u64,
}

/// What a look into the rings came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Nothing was there.
    Empty,
    /// Something was there, and the work took none of it.
    Declined,
    /// The work took something.
    Worked,
}

impl<T, W: FnMut(&mut Items<'_, T>)> Worker<T, W> {
    pub(crate) fn new(
        name: &'static str,
        shared: Arc<Shared>,
        rings: Vec<Ring<T>>,
        work: W,
    ) -> Worker<T, W> {
        Worker { name, shared, rings, work, since: 0 }
    }

    /// Until the queue is closed and empty, or the time after closing is over.
    pub(crate) fn run(mut self) {
        self.shared.enlist();
        loop {
            // Read before looking: what was pushed before the closing is seen by the look.
            let closed = self.shared.is_closed();
            if closed && self.shared.is_time_over() {
                break;
            }
            match self.look(if closed { CLOSING_MAX } else { usize::MAX }) {
                Look::Worked => {}
                Look::Declined => park_timeout(NAP),
                Look::Empty if closed => break,
                Look::Empty => self.rest(),
            }
        }
    }

    fn look(&mut self, max: usize) -> Look {
        let looked_at = self.shared.now();
        let mut items = Items::look(&mut self.rings, max);
        if items.len() == 0 {
            self.since = looked_at;
            return Look::Empty;
        }
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(&mut items)));
        let (taken, all) = (items.taken(), items.len() == 0);
        match result {
            Ok(()) => self.shared.count_done(taken),
            Err(panic) => {
                self.shared.count_panic(taken);
                let text = text_of(&*panic);
                tracing::error!(
                    queue = self.name,
                    in_doubt = taken,
                    "deferred work panicked: {text}; the items of this call may be lost, and the worker continues with the next call"
                );
            }
        }
        if all {
            let waited = self.shared.now().saturating_sub(self.since);
            self.shared.count_wait(waited);
            self.since = looked_at;
        }
        if taken == 0 { Look::Declined } else { Look::Worked }
    }

    /// Returns when there is something to do, or the queue is closed.
    fn rest(&mut self) {
        park_timeout(NAP);
        if !self.is_idle() || !self.shared.fall_asleep() {
            return;
        }
        let mut sleep = FIRST_SLEEP;
        while self.is_idle() && self.shared.is_asleep() {
            self.since = self.shared.now();
            park_timeout(sleep);
            sleep = SLEEP_MAX;
        }
        self.shared.get_up();
        self.since = self.since.max(self.shared.woken_at());
    }

    fn is_idle(&self) -> bool {
        self.rings.iter().all(Ring::is_empty)
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
