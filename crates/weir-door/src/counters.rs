//! What a worker counts and others read. Each counter has one writer.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

use ::counters::{Counter, counters};
use weir_till::LastRefusals;

use crate::thread::ThreadMeter;

/// How often the bank took back what calls at other workers than this gave. Written by the bank, before the calls are answered, and read where an
/// ask is refused; on a line of its own, as the worker writes what is beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ReturnedElsewhere(AtomicU64);

impl ReturnedElsewhere {
    /// It is about to be answered.
    #[inline]
    pub fn note(&self) {
        self.0.fetch_add(1, Release);
    }

    /// How often, by now.
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// What one door of a worker counts, for whoever knows of what type it is.
pub type DoorCounts = Arc<dyn Any + Send + Sync>;

counters! {
    /// Counters of one worker, and of its doors. Written by it alone, read by anybody.
    #[derive(Debug, Default)]
    pub struct WorkerCounters of Counter, in "doors.batch" {
        waiting: "Frames and notices that wait for the bank now.", level(), name("resolves_waiting"), elsewhere("weir_queue_depth");
        clock_back: "Backward steps of the system's clock that a worker held back.";
    } also {
        /// What its doors count.
        doors: Vec<DoorCounts>,
        /// The last refused asks.
        pub refusals: Arc<LastRefusals>,
        /// Money that calls at other workers gave back.
        pub returned: ReturnedElsewhere,
        /// Which kernel thread it is, for its CPU time.
        pub thread: ThreadMeter,
    }
}

impl WorkerCounters {
    /// Counters of a worker whose doors count in these.
    pub fn with(doors: Vec<DoorCounts>) -> WorkerCounters {
        WorkerCounters { doors, ..WorkerCounters::default() }
    }

    /// What the door that counts in a `C` counted.
    ///
    /// # Panics
    /// If the worker's set has no such door.
    pub fn of<C: Any>(&self) -> &C {
        self.doors.iter().find_map(|counts| counts.downcast_ref()).expect(NO_SUCH_DOOR)
    }

    /// The same, for the door itself, which writes there.
    pub fn own<C: Any + Send + Sync>(&self) -> Arc<C> {
        let mut own = self.doors.iter().filter_map(|counts| Arc::clone(counts).downcast().ok());
        own.next().expect(NO_SUCH_DOOR)
    }

    /// CPU time of the worker's thread, ns; 0 where the kernel does not tell.
    pub fn cpu_ns(&self) -> u64 {
        self.thread.cpu_ns()
    }
}

const NO_SUCH_DOOR: &str = "each door of a set counts in a type of its own";
