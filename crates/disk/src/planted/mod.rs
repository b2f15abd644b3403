//! Faults of the disk of this thread, for the tests of stores.
//!
//! [`at_each_operation`] runs a scenario once for every operation that it asks the disk for, with a fault there. [`Recording`] notes the
//! operations of a scenario, and makes of them what a kill or a loss of power leaves behind each.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod folders;
mod recording;

use std::cell::Cell;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use folders::{at_each_byte, copy, folder};
pub use recording::{Ending, Recording};

use crate::system::op::Op;

/// A fault of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One operation fails, then all is well again.
    Once,
    /// Nothing can be written any more, but files can be cut and removed.
    Full,
    /// Nothing works any more: what a kill leaves.
    Dead,
}

/// All of them.
pub const FAULTS: [Fault; 3] = [Fault::Once, Fault::Full, Fault::Dead];

/// A fault that is planted, and where.
#[derive(Clone, Copy, Debug)]
struct Plan {
    fault: Fault,
    /// So many operations are well before.
    left: u64,
    is_met: bool,
}

/// What a thread asked its disk for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Writes.
    pub writes: u64,
    /// Waits for a file or a folder.
    pub syncs: u64,
}

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    /// Did the scenario that runs meet its fault?
    static MET: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<Calls> = const { Cell::new(Calls { writes: 0, syncs: 0 }) };
}

/// A fault behind a number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Which.
    pub fault: Fault,
    /// So many operations are well before.
    pub after: u64,
}

impl Planted {
    /// Does something while the fault is planted. Returns what that returned, and whether it met the fault.
    pub fn during<T>(self, act: impl FnOnce() -> T) -> (T, bool) {
        let Planted { fault, after } = self;
        PLAN.set(Some(Plan { fault, left: after, is_met: false }));
        let done = act();
        let is_met = PLAN.take().is_some_and(|plan| plan.is_met);
        MET.set(MET.get() | is_met);
        (done, is_met)
    }
}

/// Runs a scenario with each fault, before its first operation, its second and so on, until it meets none any more. It gets a folder of its own,
/// does [`Planted::during`] what is to meet the fault, and judges what is left. Returns how often a fault was met.
pub fn at_each_operation(faults: &[Fault], mut scenario: impl FnMut(&Path, Planted)) -> u64 {
    let mut met = 0;
    for fault in faults {
        for after in 0.. {
            MET.set(false);
            scenario(folder().path(), Planted { fault: *fault, after });
            if !MET.get() {
                break;
            }
            met += 1;
        }
    }
    met
}

/// Counts what something asks the disk for.
pub fn calls_of(act: impl FnOnce()) -> Calls {
    let before = CALLS.get();
    act();
    let Calls { writes, syncs } = CALLS.get();
    Calls { writes: writes - before.writes, syncs: syncs - before.syncs }
}

/// Asks the system, unless there is a fault. A write that fails leaves its first half, as on a full disk.
pub(crate) fn operate<T>(op: Op<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if let Op::Write(file, at, bytes) = op {
        CALLS.set(Calls { writes: CALLS.get().writes + 1, ..CALLS.get() });
        if is_failing(op) {
            let half = &bytes[..bytes.len() / 2];
            file.write_all_at(half, at)?;
            recording::note(Op::Write(file, at, half), true);
            return Err(full());
        }
    } else if is_failing(op) {
        recording::note(op, false);
        return Err(full());
    }
    if let Op::Sync(_) | Op::SyncCut(_) | Op::SyncFolder(_) = op {
        CALLS.set(Calls { syncs: CALLS.get().syncs + 1, ..CALLS.get() });
    }
    let done = act();
    recording::note(op, done.is_ok());
    done
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn is_failing(op: Op<'_>) -> bool {
    let Some(mut plan) = PLAN.get() else { return false };
    let is_cut = matches!(op, Op::Cut(_) | Op::SyncCut(_) | Op::Remove(_));
    if plan.fault == Fault::Full && is_cut || plan.fault == Fault::Once && plan.is_met {
        return false;
    }
    let fails = plan.left == 0;
    plan.is_met |= fails;
    plan.left = plan.left.saturating_sub(1);
    PLAN.set(Some(plan));
    fails
}
