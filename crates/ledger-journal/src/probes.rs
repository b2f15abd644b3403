//! What the writer's thread spends its time on.

use std::fmt;

use probe::{Laps, Stage};

/// The stages of a turn of the writer, which is one group. Waiting for records, and for more of them, is none of its
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterStage {
    /// The group is closed: its hash, its head. An item is a record.
    Close,
    /// The group is written, and sealed by the disk: most of it is waiting, no processor time. An item is a group.
    SealWait,
    /// Those who wait are told, the memory is given back. An item is a group.
    Tell,
}

impl Stage for WriterStage {
    const ALL: &'static [WriterStage] =
        &[WriterStage::Close, WriterStage::SealWait, WriterStage::Tell];
    const WAITS: bool = true;

    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            WriterStage::Close => "close",
            WriterStage::SealWait => "seal_wait",
            WriterStage::Tell => "tell",
        }
    }
}

/// What the writer's thread measures itself with.
pub struct WriterProbes {
    /// Where it notes its stages.
    pub laps: Laps<WriterStage>,
    /// Called on the thread when it begins.
    pub begun: Box<dyn FnOnce() + Send>,
}

impl WriterProbes {
    /// Probes that measure nothing.
    #[must_use]
    pub fn none() -> WriterProbes {
        WriterProbes { laps: Laps::new(0).0, begun: Box::new(|| {}) }
    }
}

impl fmt::Debug for WriterProbes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterProbes").field("laps", &self.laps).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_place() {
        assert!(WriterStage::ALL.iter().enumerate().all(|(at, stage)| stage.index() == at));
        let names = WriterStage::ALL.iter().map(|stage| stage.name());
        assert_eq!(names.collect::<Vec<_>>(), ["close", "seal_wait", "tell"]);
    }
}
