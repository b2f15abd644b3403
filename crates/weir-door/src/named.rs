//! Named holds of a door: whose they are, and what a start makes of them.

use ledger::{Bank, DoorMemos, NamedHold, NamedSay};
use weir_config::config::Config;

/// A door that keeps named holds.
#[derive(Clone, Copy, Debug)]
pub struct NamedDoor {
    /// Under which name the bank has them. Keys are apart by it, so it is of one door in a set.
    pub door: ledger::Door,
    /// Compares its own table with the rows of the recovered bank.
    pub compare: CompareNamed,
}

/// Says what of the bank's rows differs from a door's own table: facts and ends, which are booked and sealed before a worker runs.
/// Called at each start, whether the door is on or not. An error, which says what to do, ends the start.
pub type CompareNamed = fn(&Config, &NamedRows<'_>) -> Result<Vec<NamedSay>, String>;

/// What the recovered bank knows of one door.
#[derive(Debug)]
pub struct NamedRows<'a> {
    bank: &'a Bank,
    door: ledger::Door,
}

impl<'a> NamedRows<'a> {
    /// That of this door.
    #[must_use]
    pub fn of(bank: &'a Bank, door: ledger::Door) -> NamedRows<'a> {
        NamedRows { bank, door }
    }

    /// Its named holds, by key.
    pub fn holds(&self) -> impl Iterator<Item = NamedHold> + use<'a> {
        let door = self.door;
        self.bank.named_holds().filter(move |hold| hold.door == door)
    }

    /// Its memos: such as up to where the ledger knew its table.
    #[must_use]
    pub fn memos(&self) -> DoorMemos<'a> {
        self.bank.memos(self.door)
    }
}
