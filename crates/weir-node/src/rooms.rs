//! Rooms: what of the data folder follows from the log on other machines beside the books. A node that reads the log brings its files to where the
//! log is; the bank's own are written behind each seal, and what a crash kept from them is in its journal.
//!
//! The bank's state says how many messages about a room there were, each file how many it has. So a start knows what is missing, and takes it from the
//! end of the own journal, which has all of the log by then.

use std::ops::ControlFlow;
use std::sync::mpsc::{Sender as Commands, channel};
use std::time::Duration;

use ledger::room::{Messages, RoomChange};
use ledger::{Bank, Record, Room};
use ledger_journal::{Disk, Follower, segment_head, segments};
use vault_store::{CarriedKeys, Carrier, NotSent, NotTaken, Options, Travelling};
use weir_config::config::Config;
use weir_edits::Carried;

use crate::bank::Command;
use crate::error::StartError;
use crate::in_force::{Digest, FileInForce, digest_of};

/// How long a change of keys waits for the log.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The rooms of a data folder.
pub(crate) struct Rooms {
    messages: Messages,
    /// By [`Room::ALL`]: whole messages that were read.
    seen: [u64; Room::ALL.len()],
    edits: Carried,
    vault: CarriedKeys,
    budgets: FileInForce,
    /// The last message was not taken, and that was said.
    pub(crate) failed: bool,
    /// By [`Room::ALL`]: the last record was not the end of a message.
    begun: [bool; Room::ALL.len()],
}

/// Whole messages in the order of the log; `None`: its beginning was not read.
type Found = Vec<(Room, Option<Vec<u8>>)>;

impl Rooms {
    /// Opens the files of a data folder whose journal was read back into `bank`, and brings them to where the journal ends.
    pub(crate) fn open(
        config: &Config,
        bank: &Bank,
        disk: (&Disk, u64),
    ) -> Result<Rooms, StartError> {
        let data = &config.node.data_dir;
        let options = Options { keys_max: config.keys.keys_max, ..Options::default() };
        let vault = CarriedKeys::new(&data.join("vault"), options);
        let vault = vault.map_err(|error| StartError::Cluster(format!("vault: {error}")))?;
        let edits = Carried::open(&data.join("edits"));
        let edits = edits.map_err(|error| StartError::Cluster(format!("edits: {error}")))?;
        let seen = Room::ALL.map(|room| bank.kept(room));
        let (messages, budgets) = (Messages::default(), FileInForce::open(data));
        let begun = Default::default();
        let mut rooms = Rooms { messages, seen, edits, vault, budgets, failed: false, begun };
        // Those of a base copy are newer than its books: once all of the log was read they settle.
        if !Room::ALL.iter().any(|room| rooms.count(*room) > Some(rooms.seen(*room))) {
            rooms.settle(disk)?;
        }
        Ok(rooms)
    }

    /// The digest of the budgets file that is in force, as far as the log was read.
    pub(crate) fn budgets(&self) -> Option<Digest> {
        self.budgets.digest()
    }

    /// Takes the next record of the log. What cannot be taken now is taken when the rooms settle.
    pub(crate) fn take(&mut self, record: &Record) {
        if let Record::RunStarted { .. } = record {
            // What the bank before did not end never ends.
            self.begun = Default::default();
        }
        let Record::Kept { room, last, .. } = record else { return };
        let message = self.messages.take(record);
        self.begun[*room as usize - 1] = !last;
        if !last {
            return;
        }
        self.seen[*room as usize - 1] += 1;
        if let Ok(Some((_, message))) = message
            && self.count(*room).is_none_or(|has| has + 1 == self.seen(*room))
            && let Err(error) = self.apply(*room, &message)
            && !std::mem::replace(&mut self.failed, true)
        {
            tracing::error!(
                error,
                "this node's files do not follow the log; it is tried again before it takes over"
            );
        }
    }

    /// Brings the files to where the books are: `disk` has all records before the given one.
    pub(crate) fn settle(&mut self, disk: (&Disk, u64)) -> Result<(), StartError> {
        let count = |rooms: &Rooms, room| rooms.count(room).unwrap_or(rooms.seen(room));
        for room in Room::ALL {
            let (has, seen, name) = (count(self, room), self.seen(room), room.name());
            if has > seen {
                return Err(StartError::Cluster(format!(
                    "the folder {name} has {has} changes of a log, and this log has {seen}: it is another cluster's, or the log lost them. Move it aside to have what the log has"
                )));
            }
        }
        let missing = Room::ALL.map(|room| self.seen(room) - count(self, room));
        if missing != [0; Room::ALL.len()] {
            for (room, message) in self.find(disk, missing)? {
                self.apply(room, &message).map_err(StartError::Cluster)?;
            }
        }
        self.failed = false;
        self.settle_budgets(disk);
        Ok(())
    }

    /// Only the last message counts, and a node can do without: the next one that is sent says it again.
    fn settle_budgets(&mut self, disk: (&Disk, u64)) {
        if self.budgets.number() == self.seen(Room::Budgets) {
            return;
        }
        let one = Room::ALL.map(|room| u64::from(room == Room::Budgets && self.seen(room) > 0));
        let found = self.find(disk, one).unwrap_or_default();
        let found = found.iter().try_for_each(|(room, message)| self.apply(*room, message));
        if let Err(error) = found {
            tracing::warn!(error, "which budgets file is in force was not noted");
        }
    }

    /// The last messages, so many by room. They are nearly always in the newest segment.
    fn find(
        &self,
        (disk, end): (&Disk, u64),
        missing: [u64; Room::ALL.len()],
    ) -> Result<Vec<(Room, Vec<u8>)>, StartError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            StartError::Cluster(format!("this node's journal: {error}"))
        };
        let numbers = segments(disk).map_err(|error| unreadable(&error))?;
        let mut back = 1;
        while back / 2 < numbers.len() {
            let first = numbers[numbers.len().saturating_sub(back)];
            let head = segment_head(disk, first).map_err(|error| unreadable(&error))?;
            let found =
                read(disk, head.position.sequence, end).map_err(|error| unreadable(&error))?;
            if let Some(all) = last_of(found, missing) {
                return Ok(all);
            }
            back *= 2;
        }
        Err(StartError::Cluster(
            "this node's journal does not reach back to what its files edits and vault do not have: start with an empty data folder".into(),
        ))
    }

    /// Do the files have all that was read, and no message was read in part?
    pub(crate) fn are_whole(&self) -> bool {
        let is_even = |room: &Room| self.count(*room).is_none_or(|has| has == self.seen(*room));
        self.begun == [false; Room::ALL.len()] && Room::ALL.iter().all(is_even)
    }

    /// How many messages a file has; `None`: only the last one counts.
    fn count(&self, room: Room) -> Option<u64> {
        match room {
            Room::Edits => Some(self.edits.count()),
            Room::Vault => Some(self.vault.count()),
            Room::Budgets => None,
        }
    }

    fn seen(&self, room: Room) -> u64 {
        self.seen[room as usize - 1]
    }

    fn apply(&mut self, room: Room, message: &[u8]) -> Result<(), String> {
        match room {
            Room::Edits => self.edits.take(message).map_err(|error| error.to_string()),
            Room::Budgets => {
                let digest = digest_of(message).ok_or("a message about the budgets file that this version does not know: is it older than the one that wrote it?")?;
                let noted = self.budgets.set(self.seen(room), digest);
                noted.map_err(|error| error.to_string())
            }
            Room::Vault => {
                let what = match RoomChange::of(message) {
                    Some(RoomChange::Whole(bytes)) => Travelling::Whole(bytes.into()),
                    Some(RoomChange::Append(record)) => Travelling::Record(record.into()),
                    None => return Err(NotTaken::Unknown.to_string()),
                };
                self.vault.take(&what).map_err(|error| error.to_string())
            }
        }
    }
}

/// Sends changes of keys to the log through the bank, which may not run yet.
pub(crate) fn carrier(commands: Commands<Command>) -> Carrier {
    Carrier::new(move |what| {
        let message = match &what {
            Travelling::Whole(bytes) => RoomChange::Whole(bytes).message(),
            Travelling::Record(record) => RoomChange::Append(record).message(),
        };
        let (reply, answer) = channel();
        let sent = commands.send(Command::Carry { room: Room::Vault, message, reply });
        sent.map_err(|_| NotSent::Nothing("the bank has ended".into()))?;
        match answer.recv_timeout(ANSWER_WAIT) {
            Ok(carried) => carried.map(drop).map_err(NotSent::Nothing),
            Err(_) => Err(NotSent::Unsure(
                "the log on other machines does not answer, and may have the change".into(),
            )),
        }
    })
}

/// All messages that end in records from one on, up to another.
fn read(disk: &Disk, from: u64, end: u64) -> Result<Found, ledger_journal::FollowError> {
    let (mut messages, mut found) = (Messages::default(), Vec::new());
    Follower::new(disk.clone(), from).read_groups(end, &mut |group| {
        for record in group.records {
            let Record::Kept { room, last, .. } = record else { continue };
            let message = messages.take(record).ok().flatten().map(|(_, message)| message);
            if *last {
                found.push((*room, message));
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The last messages, so many by room, in order; `None`: they are not all there.
fn last_of(found: Found, missing: [u64; Room::ALL.len()]) -> Option<Vec<(Room, Vec<u8>)>> {
    let mut left = missing;
    let mut all = Vec::new();
    for (room, message) in found.into_iter().rev() {
        let left = &mut left[room as usize - 1];
        if *left > 0 {
            all.push((room, message?));
            *left -= 1;
        }
    }
    all.reverse();
    (left == [0; Room::ALL.len()]).then_some(all)
}
