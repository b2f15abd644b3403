//! Records back into a bank.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ledger::{Bank, Record};

use crate::files::Folder;
use crate::read::{Fault, ReadError};
use crate::walk::{Start, Walked, walk};

/// Records replayed at once: enough that each is on its way from memory before its turn.
const BATCH: usize = 1024;

/// Walks over the records and replays each into the bank. `progress` hears now and then how many there were; setting
/// `stop` gives up. Returns how many there were.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn replay<F: Folder>(
    folder: &F,
    bank: &mut Bank,
    start: Start,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<(Walked, u64), ReadError> {
    let mut batch = Batch { records: Vec::with_capacity(BATCH), first: 0, count: 0 };
    let mut last = String::new();
    let walked = walk(folder, start, &mut |place, record| {
        if batch.records.is_empty() {
            batch.first = place.at.sequence;
            place.file.clone_into(&mut last);
        }
        batch.records.push(record);
        if batch.records.len() < BATCH {
            return Ok(());
        }
        if stop.load(Relaxed) {
            return Err(Fault::Stopped);
        }
        progress(batch.count);
        batch.apply(bank)
    })?;
    let damaged = |what| {
        let (file, sequence) = (last.clone(), walked.position.sequence);
        crate::read::Damage { file, offset: walked.last_offset, sequence, what }
    };
    batch.apply(bank).map_err(damaged)?;
    Ok((walked, batch.count))
}

struct Batch {
    records: Vec<Record>,
    /// Sequence of the first one.
    first: u64,
    /// All that were replayed before.
    count: u64,
}

impl Batch {
    fn apply(&mut self, bank: &mut Bank) -> Result<(), Fault> {
        let first = self.first;
        let applied = bank.replay_all(&self.records).map_err(|(index, error)| {
            Fault::Replay(format!("record {} does not fit: {error}", first + index as u64))
        });
        self.count += self.records.len() as u64;
        self.records.clear();
        applied
    }
}
