//! How a node begins on a log: it stands by until no bank speaks there, makes its disk and the log the same, and appends the record of its run.

use std::time::{Duration, Instant};

use ledger::{Bank, Record};
use ledger_journal::files::Folder;
use ledger_journal::{Gather, Group, Known, Log, NotAppended, Position, Writer};
use probe::Lease;

use crate::{CatchUpError, ClusterError, ClusterLog, Engine, LogFault, NodeLog, OpenError, Tip};

/// An append of a start is repeated after this time...
const RETRY: Duration = Duration::from_millis(200);
/// ...and given up after this one: changes of the log's leader take less.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);

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
    /// Is it a log that does not answer now, or whose answer cannot be read?
    pub fn is_away(&self) -> bool {
        let BeginError::Log(ClusterError { fault, .. }) = self else { return false };
        match fault {
            LogFault::Entry { why, .. } => *why == OpenError::Damaged,
            fault => matches!(fault, LogFault::Away(_) | LogFault::Hole(_)),
        }
    }

    /// Could the start not read the log for want of an answer? Nothing was begun then.
    pub fn is_silence(&self) -> bool {
        match self {
            BeginError::Log(error) | BeginError::CatchUp(CatchUpError::Log(error)) => {
                matches!(error.fault, LogFault::Away(_))
            }
            _ => false,
        }
    }

    /// Is there no such stream?
    pub fn is_no_stream(&self) -> bool {
        matches!(self, BeginError::Log(ClusterError { fault: LogFault::NoStream, .. }))
    }
}

/// What a standby has heard of the log.
#[derive(Debug, Default)]
pub struct Listening {
    last: Option<u64>,
    since_ms: u64,
}

impl Listening {
    /// Is there no bank, by the last entry and its last record, or by silence of so many ms? `None`: the log does not answer, and its silence
    /// counts anew.
    pub fn is_over(&mut self, takeover_ms: Option<u64>, now_ms: u64, tip: Option<&Tip>) -> bool {
        let Some(tip) = tip else {
            self.last = None;
            return false;
        };
        if tip.entry == 0 || matches!(tip.last, Some(Record::Handover { .. })) {
            return true;
        }
        if self.last.replace(tip.entry) != Some(tip.entry) {
            self.since_ms = now_ms;
        }
        takeover_ms.is_some_and(|ms| now_ms - self.since_ms >= ms)
    }

    /// How long nothing new was heard, ms.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        now_ms - self.since_ms
    }
}

/// The log of a node that has read back its own disk: what the log has more is replayed, and what the log has lost it has again from the disk.
///
/// # Errors
/// Disk and log do not belong together, or both lost what was acknowledged.
pub fn begin<F: Folder, E: Engine>(
    mut log: ClusterLog<E>,
    disk: (Writer<F>, &F),
    bank: &mut Bank,
    known: &Known,
) -> Result<NodeLog<F, E>, BeginError> {
    // A log that does not keep what it acknowledges is told before anything is appended.
    log.attest().map_err(BeginError::Refused)?;
    let (writer, folder) = disk;
    let has = *writer.position();
    if has != Position::START && log.tip()?.entry == 0 {
        return Err(BeginError::Refused(format!(
            "the log is empty, and the journal of this data folder has {} records. To begin the cluster with this folder: `weir cluster init`. If the log had records, it is lost: begin with the folder whose journal is the longest",
            has.sequence - 1
        )));
    }
    let (node, caught_up) = NodeLog::begin(log, writer, folder, &mut |group| replay(bank, group))?;
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
    Ok(node)
}

/// Replays the records of a group.
///
/// # Errors
/// Which record does not fit, or is not known here.
pub fn replay(bank: &mut Bank, group: &Group) -> Result<(), String> {
    let mut records = Vec::new();
    group.each_record(|record| records.push(record)).map_err(|fault| {
        format!("{fault}: is this node's version older than the one that wrote it?")
    })?;
    let applied = bank.replay_all(&records);
    applied.map_err(|(index, error)| {
        format!("record {}: {error}", group.before().sequence + index as u64)
    })
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
        let (beat, end) = (|| Record::Beat { at_ms: 1 }, || Record::Handover { at_ms: 1 });
        let rows = [
            (0, Some((7, Some(beat()))), false),
            (2_999, Some((7, Some(beat()))), false),
            (3_000, Some((8, Some(beat()))), false),
            (5_999, Some((8, Some(beat()))), false),
            // It was away: its bank has to find it again first.
            (6_000, None, false),
            (6_500, Some((8, Some(beat()))), false),
            (9_499, Some((8, None)), false),
            (9_500, Some((8, None)), true),
            (9_500, Some((9, Some(end()))), true),
            (9_500, Some((0, None)), true),
        ];
        let [mut auto, mut manual] = [Listening::default(), Listening::default()];
        for (now_ms, tip, expected) in rows {
            let told = tip.clone().map(|(entry, last)| Tip { entry, last, record: 1 });
            let is_over = auto.is_over(Some(3_000), now_ms, told.as_ref());
            assert_eq!(is_over, expected, "{now_ms} {tip:?}");
            let by_hand = matches!(tip, Some((9, _) | (0, _)));
            let is_over = manual.is_over(None, now_ms, told.as_ref());
            assert_eq!(is_over, by_hand, "{now_ms} {tip:?}");
        }
    }
}
