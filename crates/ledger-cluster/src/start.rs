//! How a node begins on a log: it stands by until no bank speaks there, makes its disk and the log the same, and appends the record of its run.

use std::time::{Duration, Instant};

use ledger::{Bank, Record};
use ledger_journal::files::Folder;
use ledger_journal::{Gather, Group, Known, Log, NotAppended, Position};
use probe::Lease;

use crate::{
    CatchUpError, CaughtUp, ClusterError, ClusterLog, Engine, LogFault, NodeLog, OpenError,
};

/// An append of a start is repeated after this time...
const RETRY: Duration = Duration::from_millis(200);
/// ...and given up after this one: changes of the log's leader take less.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// A stream that was made just now has no leader for this time at most.
const LEADER_WITHIN: Duration = Duration::from_secs(10);

/// Why a run does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// What is wrong, and what to do.
    #[error("{0}")]
    Refused(String),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ClusterError),
    /// The own disk and the log do not belong together.
    #[error(transparent)]
    CatchUp(#[from] CatchUpError),
    /// Another node is the bank.
    #[error("another node began a run of this log first")]
    Replaced,
}

impl BeginError {
    /// Is it a log that does not answer now, whose answer cannot be read, or that is being made?
    pub fn is_away(&self) -> bool {
        let Some(fault) = self.fault() else { return false };
        match fault {
            LogFault::Entry { why, .. } => *why == OpenError::Damaged,
            fault => {
                matches!(fault, LogFault::Away(_) | LogFault::Hole(_) | LogFault::Unfinished { .. })
            }
        }
    }

    /// Could the start not read the log for want of an answer? Nothing was begun then.
    pub fn is_silence(&self) -> bool {
        matches!(self.fault(), Some(LogFault::Away(_)))
    }

    /// Is there no such stream?
    pub fn is_no_stream(&self) -> bool {
        matches!(self.fault(), Some(LogFault::NoStream))
    }

    /// Does the log begin behind what this node has? Then it begins anew from a base copy.
    pub fn is_trimmed(&self) -> bool {
        matches!(self.fault(), Some(LogFault::Trimmed { .. }))
    }

    /// Is it the own disk, which cannot be read or written now?
    pub fn is_disk(&self) -> bool {
        matches!(self, BeginError::CatchUp(CatchUpError::Disk(_)))
            || matches!(self.fault(), Some(LogFault::Unpacked(_)))
    }

    fn fault(&self) -> Option<&LogFault> {
        match self {
            BeginError::Log(error) | BeginError::CatchUp(CatchUpError::Log(error)) => {
                Some(&error.fault)
            }
            _ => None,
        }
    }
}

/// What a standby has heard of the log.
#[derive(Debug, Default)]
pub struct Listening {
    last: Option<u64>,
    since_ms: u64,
}

impl Listening {
    /// Is there no bank, by the number of the last entry, or by silence of so many ms? `None`: the log does not answer, and its silence counts
    /// anew. `is_free`: what is known ends with a clean stop.
    pub fn is_over(
        &mut self,
        takeover_ms: Option<u64>,
        now_ms: u64,
        entry: Option<u64>,
        is_free: bool,
    ) -> bool {
        let Some(entry) = entry else {
            self.last = None;
            return false;
        };
        if entry == 0 || is_free {
            return true;
        }
        if self.last.replace(entry) != Some(entry) {
            self.since_ms = now_ms;
        }
        takeover_ms.is_some_and(|ms| now_ms - self.since_ms >= ms)
    }
}

/// Makes the stream, unless it is there, for a journal that ends with this record, and judges it and all its servers. Returns how many entries it has.
///
/// # Errors
/// What of the engine is not as it must be, or the stream was made for another journal.
pub fn make<E: Engine>(log: &mut ClusterLog<E>, records: u64) -> Result<u64, BeginError> {
    let (of, began) = (log.create(records)?, Instant::now());
    while let Err(why) = log.attest_all() {
        if began.elapsed() >= LEADER_WITHIN {
            return Err(BeginError::Refused(why));
        }
        std::thread::sleep(RETRY);
    }
    let entries = log.last_entry()?;
    if records > of && entries == 0 {
        return Err(BeginError::Refused(format!(
            "the stream was made for a journal of {of} records, and is empty; the journal of this data folder has {records}. `weir cluster heal --keep disk` makes the stream anew from it"
        )));
    }
    Ok(entries)
}

/// Makes disk and log of a node the same: what the log has more is handed to `each`, and what the log has lost it has again from the disk.
///
/// # Errors
/// Disk and log do not belong together, or both lost what was acknowledged.
pub fn catch_up<F: Folder, E: Engine>(
    (node, folder): (&mut NodeLog<F, E>, &F),
    bank: &mut Bank,
    known: &Known,
    each: &mut dyn FnMut(&mut Bank, &Group) -> Result<(), String>,
) -> Result<CaughtUp, BeginError> {
    // A log that does not keep what it acknowledges is told before anything is appended.
    node.log().attest().map_err(BeginError::Refused)?;
    let has = *node.position();
    if has != Position::START && node.log().last_entry()? == 0 {
        return Err(BeginError::Refused(format!(
            "the log is empty, and the journal of this data folder has {} records. To begin the cluster with this folder: `weir cluster init`. If the log had records, it is lost: begin with the folder whose journal is the longest",
            has.sequence - 1
        )));
    }
    let caught_up = node.catch_up(folder, &mut |group| each(bank, group))?;
    bank.audit().map_err(|why| {
        BeginError::Refused(format!(
            "the books of the log do not add up: {why}; nothing was appended, please report this"
        ))
    })?;
    let ends = node.position().sequence;
    if let Some(known) =
        known.watermark.filter(|known| ends < known.sealed || bank.run() < known.run)
    {
        return Err(BeginError::Refused(format!(
            "the log and this folder's journal end before record {ends}, and the folder knows that run {} had sealed all before {}: both lost acknowledged records. Start a node whose journal reaches further",
            known.run, known.sealed
        )));
    }
    tracing::info!(
        read = caught_up.read,
        again = caught_up.appended,
        record = ends - 1,
        "disk and log are the same"
    );
    Ok(caught_up)
}

/// Replays the records of a group, and returns them.
///
/// # Errors
/// Which record does not fit, or is not known here.
pub fn replay(bank: &mut Bank, group: &Group) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    group.each_record(|record| records.push(record)).map_err(|fault| {
        format!("{fault}: is this node's version older than the one that wrote it?")
    })?;
    let applied = bank.replay_all(&records);
    applied.map_err(|(index, error)| {
        format!("record {}: {error}", group.before().sequence + index as u64)
    })?;
    Ok(records)
}

/// Appends the record that begins a run, alone, until it is certain: before that there is no run, and another node may be the bank.
///
/// # Errors
/// Another node began a run first, or nobody can tell.
pub fn begin_run(
    log: &mut dyn Log,
    record: &Record,
    at_ms: u64,
    lease: &Lease,
) -> Result<(), BeginError> {
    let mut gather = Gather::new(*log.position());
    gather.append(record, at_ms);
    let group = gather.take().expect("it has a record");
    // Once for all repeats: which of them the log took is not known.
    let (sent, began) = (lease.send(), Instant::now());
    let mut is_said = false;
    loop {
        match log.append(&group) {
            Ok(()) => {
                lease.renew(sent);
                return Ok(());
            }
            Err(NotAppended::Fenced) => return Err(BeginError::Replaced),
            Err(NotAppended::Unknown(error)) if began.elapsed() < BEGIN_WITHIN => {
                if !std::mem::replace(&mut is_said, true) {
                    tracing::warn!(%error, "the run begins once the log has its first record");
                }
                std::thread::sleep(RETRY);
            }
            Err(error) => {
                return Err(BeginError::Refused(format!(
                    "this run did not begin: {error}. Start it again: that is safe"
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what the log says at a time, and whether a standby may begin.
    #[test]
    fn a_standby_waits_for_silence_that_the_log_itself_does_not_make() {
        let rows = [
            (0, Some(7), false, false),
            (2_999, Some(7), false, false),
            (3_000, Some(8), false, false),
            (5_999, Some(8), false, false),
            // It was away: its bank has to find it again first.
            (6_000, None, false, false),
            (6_500, Some(8), false, false),
            (9_499, Some(8), false, false),
            (9_500, Some(8), false, true),
            (9_500, Some(9), true, true),
            (9_500, Some(0), false, true),
        ];
        let [mut auto, mut manual] = [Listening::default(), Listening::default()];
        for (now_ms, entry, is_free, expected) in rows {
            let is_over = auto.is_over(Some(3_000), now_ms, entry, is_free);
            assert_eq!(is_over, expected, "{now_ms} {entry:?}");
            let by_hand = is_free || entry == Some(0);
            let is_over = manual.is_over(None, now_ms, entry, is_free);
            assert_eq!(is_over, by_hand, "{now_ms} {entry:?}");
        }
    }
}
