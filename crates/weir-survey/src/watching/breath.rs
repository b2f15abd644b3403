//! Breaks in long sums: others need the core, too.

use std::time::{Duration, Instant};

/// How long a thread sums up before it sleeps...
const WORK: Duration = Duration::from_micros(400);
/// ...for so long.
const REST: Duration = Duration::from_micros(50);
/// Steps between two looks at the clock.
const STEPS: u32 = 64;

/// What a thread that sums up takes breath by: once for each step.
#[derive(Debug)]
pub(super) struct Breath {
    steps: u32,
    since: Instant,
}

impl Breath {
    /// Begins.
    pub(super) fn new() -> Breath {
        Breath { steps: 0, since: Instant::now() }
    }

    /// One step was done.
    #[inline]
    pub(super) fn take(&mut self) {
        self.steps += 1;
        if self.steps >= STEPS {
            self.took_long();
        }
    }

    /// One step was done that counts as many.
    pub(super) fn took_long(&mut self) {
        self.steps = 0;
        if self.since.elapsed() >= WORK {
            std::thread::sleep(REST);
            self.since = Instant::now();
        }
    }
}
