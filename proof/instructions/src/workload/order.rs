//! Orders that pass the FIX door, from a client's bytes to those for the venue, with their records on the disk.

use super::{WARM_UP, Workload};
use gate::{Gate, ORDERS_PER_WRITE};

#[path = "../../../../crates/door-fix/examples/passed/gate.rs"]
#[allow(clippy::unwrap_used, unreachable_pub, reason = "the door's own benchmark")]
mod gate;

/// Operations that are enough for a count.
pub(super) const OPS: u64 = 8_192;
/// Orders that arrive in one piece.
const STEP: usize = 16;

/// A gate, and orders that are made already: making one is not counted.
pub(super) struct Orders {
    gate: Gate,
    made: (Vec<u8>, Vec<usize>),
    next: usize,
    _folder: tempfile::TempDir,
}

impl Orders {
    pub(super) fn new() -> Orders {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut gate = Gate::open(folder.path(), STEP);
        let all = usize::try_from(OPS).expect("few")
            + usize::try_from(WARM_UP).expect("few") * ORDERS_PER_WRITE;
        let made = gate.make(all);
        Orders { gate, made, next: 0, _folder: folder }
    }
}

impl Workload for Orders {
    fn step(&mut self) -> u64 {
        if self.next + ORDERS_PER_WRITE >= self.made.1.len() {
            (self.made, self.next) = (self.gate.make(self.made.1.len() - 1), 0);
        }
        let (bytes, ends) = &self.made;
        let ends = &ends[self.next..=self.next + ORDERS_PER_WRITE];
        self.gate.pass_on(bytes, ends, || 0);
        self.next += ORDERS_PER_WRITE;
        ORDERS_PER_WRITE as u64
    }
}
