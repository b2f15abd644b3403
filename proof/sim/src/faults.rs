//! What the simulated disk does while the node lives, and the turns of those who use it.

use crate::Bug;
use crate::world::World;

impl World {
    /// The journal's writer gets to run.
    pub(crate) fn writer_turn(&mut self) -> Result<(), String> {
        let mut sealer = self.journal.sealer_mut();
        sealer.now_ms = self.now_ms;
        sealer.turn();
        drop(sealer);
        self.after_disk("crash in the writer")
    }

    /// The journal's housekeeper gets to run, the writer beside it.
    pub(crate) fn housekeeper_turn(&mut self) -> Result<(), String> {
        self.journal.sealer_mut().now_ms = self.now_ms;
        if self.rng.chance(300) {
            let result = self.journal.prepare();
            self.stats.one(if result.is_ok() { "segment prepared" } else { "housekeeper failed" });
            return self.after_disk("crash in a preparation");
        }
        if self.bug == Some(Bug::EarlySnapshot) {
            // What it makes of errors does not matter: the next recovery judges.
            let _ = self.journal.snapshot_of(&self.bank, &self.options);
            return self.after_disk("crash in a snapshot");
        }
        match self.journal.advance(&self.options, self.now_ms) {
            Ok(advanced) => {
                self.stats.count("snapshot made", u64::from(advanced.snapshot.is_some()));
                let segments = advanced.removed.iter().filter(|name| name.starts_with("segment"));
                self.stats.count("segment removed by retention", segments.count() as u64);
            }
            Err(error) if self.disk.is_stopped() => drop(error),
            Err(ledger_journal::ReadError::Io { .. }) => self.stats.one("housekeeper failed"),
            Err(error) => return Err(format!("the housekeeper found damage: {error}")),
        }
        self.after_disk("crash in a snapshot")
    }

    /// The disk seals nothing for a while.
    pub(crate) fn stick(&mut self, most_ms: u64) {
        let until_ms = self.now_ms + self.rng.below(most_ms);
        let mut sealer = self.journal.sealer_mut();
        sealer.stuck_until_ms = sealer.stuck_until_ms.max(until_ms);
    }

    /// Calls fail, or the disk is full for a while.
    pub(crate) fn disk_fault(&mut self) {
        match self.rng.below(5) {
            0 => self.disk.fail_writes(1 + self.rng.below(3)),
            1 => self.disk.fail_syncs(1 + self.rng.below(3)),
            2 => self.disk.fail_reads(1 + self.rng.below(20)),
            3 => self.disk.fail_folder_syncs(1 + self.rng.below(2)),
            _ => {
                let room = self.disk.used_bytes() + self.rng.below(60_000);
                self.disk.set_room(Some(room));
                self.full_until_ms = self.now_ms + self.rng.below(2_000);
            }
        }
    }

    /// Somebody makes room.
    pub(crate) fn end_full_disk(&mut self) {
        if self.full_until_ms > 0 && self.now_ms >= self.full_until_ms {
            self.disk.set_room(None);
            self.full_until_ms = 0;
        }
    }
}
