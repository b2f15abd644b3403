//! What the threads of a node spend their time on: the stages that [`probe::Laps`] tells apart.
//!
//! A worker's turn is a wake-up: it begins when the kernel call of the loop returns and ends before the next one. A
//! turn of the bank is one round of its loop, from waking to parking. Within a turn the boundaries form a chain: each
//! stage lasts from the boundary before it to its own, so everything between them belongs to some stage. Calls of the
//! kernel in the middle of a turn (epoll's receives and sends) belong to none.

use probe::stages;

pub use weir_till::stages::{JudgePart, WorkerStage};

stages! {
    /// Of the bank.
    BankStage {
        Booking = "booking", "Messages of workers are taken, judged and booked. An item is a message.";
        Timeline = "timeline", "Expiry, days, flights, the end of grants. An item is a turn.";
        Pacing = "pacing", "The slow loop of pacing. An item is a slot.";
        Upkeep = "upkeep", "Keys that rotate, what pacing learned. An item is a round of it.";
        Commands = "commands", "What the watcher and the admin door ask. An item is a turn.";
        JournalAppend = "journal_append", "Records are encoded and handed to the journal. An item is a record.";
        SendDown = "send_down", "Sends messages to workers, and replies, after their seal. An item is one of them.";
    }
}

/// The parts of judging are looked at in one turn of so many that would be sampled: four boundaries an ask would
/// otherwise be most of what is measured.
const PARTS_RARER: u32 = 16;
/// The bank's turns are longer and fewer than a worker's.
const BANK_OFTENER: u32 = 8;

/// How many turns of each kind make one that is sampled; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    /// Of a worker, by its stages.
    pub(crate) worker: u32,
    /// Of a worker, by the parts of judging.
    pub(crate) parts: u32,
    /// Of the bank.
    pub(crate) bank: u32,
    /// Of the journal's writer: a turn is a write to the disk.
    pub(crate) writer: u32,
}

impl Sampling {
    /// What `probes.every` means for each thread.
    pub(crate) fn new(every: u32) -> Sampling {
        Sampling {
            worker: every,
            parts: every.saturating_mul(PARTS_RARER),
            bank: every.div_ceil(BANK_OFTENER),
            writer: every.min(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use probe::Stage;

    use super::*;

    fn indices_and_names<S: Stage>() -> Vec<&'static str> {
        assert!(S::ALL.iter().enumerate().all(|(at, stage)| stage.index() == at));
        S::ALL.iter().map(|stage| stage.name()).collect()
    }

    #[test]
    fn every_stage_has_its_place_and_a_name_of_its_own() {
        let threads = [indices_and_names::<WorkerStage>(), indices_and_names::<BankStage>()];
        for mut names in threads {
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        assert_eq!(indices_and_names::<JudgePart>(), ["check", "pacing", "purse", "verdict"]);
    }

    #[test]
    fn sampling_by_thread() {
        let sampling = |worker, parts, bank, writer| Sampling { worker, parts, bank, writer };
        assert_eq!(Sampling::new(0), sampling(0, 0, 0, 0));
        assert_eq!(Sampling::new(1), sampling(1, 16, 1, 1));
        assert_eq!(Sampling::new(64), sampling(64, 1_024, 8, 1));
        assert_eq!(Sampling::new(u32::MAX).parts, u32::MAX);
    }
}
