//! How a bank begins, in two halves: the journal is read back ([`ReadBack::of`]), and the run starts ([`ReadBack::begin`]). Between the two a standby
//! follows (`warm`); else the segment that the run writes to is begun, so that a disk that cannot take it is known before any door opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ledger::{Bank, Door, MemoJudge, MemoJudgement, NODE_BYTES_MAX, PurseOptions};
use ledger_cluster::{
    AnyEngine, At, BeginError, CaughtUp, ClusterLog, NodeLog, begin_run, make, settle,
};
use ledger_journal::{
    Disk, JournalOptions, Keep, Known, Log, ReadError, RecoverError, Report, Watermarks, Writer,
};
use probe::{Lease, NodeClock};
use weir_config::config::Config;
use weir_door::DoorFacts;
use weir_pacer::PacerOptions;
use wire::journal::SCHEMA_VERSION;

use super::warm::OfLog;
use super::{Start, figures, keys, named, pacing_store};
use crate::cluster;
use crate::error::StartError;
use crate::known::{self, Permits};
use crate::pulse::{OnLog, Pulse};

/// The node's own memos are as it wants them.
const OF_NODE: (Door, MemoJudge) = (Door::Admin, |_, _| MemoJudgement::New);

/// A journal that was read back: the first half of a start. What a standby follows goes into the same books.
pub(crate) struct ReadBack {
    pub(crate) bank: Bank,
    pub(crate) disk: Disk,
    /// The data folder.
    pub(crate) data: PathBuf,
    /// What the folder knows of the journal.
    pub(crate) known: Known,
    options: ledger::Options,
    report: Report,
}

impl ReadBack {
    /// Reads the journal back, to its end: the writer stands there.
    pub(crate) fn of(
        config: &Config,
        permits: Permits,
        workers: usize,
        doors: &[DoorFacts],
        is_elsewhere: bool,
    ) -> Result<(ReadBack, Writer<Disk>), StartError> {
        let data = &config.node.data_dir;
        settle(data).map_err(|source| StartError::Data { path: data.clone(), source })?;
        let path = config.node.data_dir.join("journal");
        let known = match is_elsewhere {
            false => known::before_start(&config.node.data_dir, permits)?,
            true => known::of_log(&config.node.data_dir, permits)?,
        };
        let failed = |source| StartError::Journal { path: path.clone(), source };
        let disk = Disk::open(&path, config.journal.durability).map_err(failed)?;
        let memo_judges = doors.iter().filter_map(|door| door.judge).chain([OF_NODE]).collect();
        let options = bank_options(config, workers, is_elsewhere);
        let options = ledger::Options { memo_judges, ..options };
        let began = std::time::Instant::now();
        // What a log on other machines has more than the disk is read on behind it.
        let of_disk = if is_elsewhere { Known::default() } else { known };
        let recovered = read_back(&disk, &options, config.node.id, &of_disk);
        let ledger_journal::Recovered { bank, tail, report } =
            recovered.map_err(|error| unreadable(&path, error))?;
        say_read(&bank, &report, began, &disk);
        let writer = Writer::new(disk.clone(), config.node.id, config.journal.segment_bytes, tail);
        let data = config.node.data_dir.clone();
        Ok((ReadBack { bank, disk, data, known, options, report }, writer))
    }

    /// How the journal's housekeeper works, and what its writer renews.
    pub(crate) fn journal(
        &self,
        config: &Config,
        unread: Arc<AtomicU64>,
        lease: Option<Arc<Lease>>,
    ) -> JournalOptions {
        journal_options(config, self.options.clone(), unread, lease)
    }

    /// Begins the run: the second half of a start. `at`: where a log on other machines ends.
    pub(crate) fn begin(
        self,
        config: &Config,
        doors: &[DoorFacts],
        mut writer: Box<dyn Log + Send>,
        at: Option<Arc<At>>,
    ) -> Result<Start, StartError> {
        let (data, now_ms) = (&config.node.data_dir, NodeClock::new().now_ms());
        let lease = at.as_ref().map(|_| Lease::new(config.cluster.lease_ms));
        let ReadBack { mut bank, disk, known, options, report, .. } = self;
        log_a_future(&bank, now_ms);
        let (keys, mut out) = (keys::Keys::new(config), ledger::Out::default());
        let (before, end) = (bank.run(), *writer.position());
        let first = end.sequence;
        bank.start_run(now_ms, &mut out);
        if let Some(lease) = &lease {
            begin_run(&mut *writer, &out.records.remove(0), bank.now_ms(), lease)?;
        }
        let on_log = lease.clone().zip(at).map(|(lease, at)| OnLog { run: bank.run(), lease, at });
        if report.given_up.is_some() {
            let noted = note_accepted(data, &known, first, &mut bank, &mut out);
            let path = data.join("journal");
            noted.map_err(|source| StartError::Journal { path, source })?;
        } else if known.accepted.is_some() {
            tracing::warn!("{NOTHING_ACCEPTED}");
        }
        keys.ensure(&mut bank, &mut out)?;
        let named = named::compare(doors, config, &mut bank, &mut out)?;
        let figures = figures::open(config, &disk, &end, &options);
        let beat_ms = lease.as_ref().map(|_| config.cluster.beat_ms);
        let journal = (journal_options(config, options, figures.1.unread(), lease), beat_ms);
        let pacing =
            PacerOptions { win_notices: config.ledger.win_notices, ..PacerOptions::default() };
        Ok(Start {
            watermarks: watermarks(config, &disk, first, [before, bank.run()], now_ms),
            bank,
            out,
            named,
            keys,
            disk,
            writer,
            journal,
            figures,
            memory: pacing_store::load(data),
            saver: pacing_store::PacingSaver::start(data)?,
            pacing,
            pulse: Arc::new(Pulse::of(on_log)),
        })
    }
}

/// Reads the journal back, starts the run, and begins the segment that the run writes to: a disk that cannot take
/// it is known before any door opens.
pub(crate) fn recover(
    config: &Config,
    permits: Permits,
    workers: usize,
    doors: &[DoorFacts],
) -> Result<Start, StartError> {
    let (read, mut writer) = ReadBack::of(config, permits, workers, doors, false)?;
    let path = || config.node.data_dir.join("journal");
    let opened = writer.open(NodeClock::new().now_ms());
    opened.map_err(|source| StartError::Journal { path: path(), source })?;
    read.begin(config, doors, Box::new(writer), None)
}

/// Puts the journal of the data folder into a log on other machines, which is made for it, and what that has more into the journal. Returns
/// how many entries there were, too.
///
/// # Errors
/// They do not belong together, or cannot be read or written.
pub(crate) fn put_into(
    config: &Config,
    log: ClusterLog<AnyEngine>,
) -> Result<(u64, CaughtUp), StartError> {
    // A journal that is gone is not put anywhere.
    known::before_start(&config.node.data_dir, Permits::default())?;
    let (mut read, writer) = ReadBack::of(config, Permits::default(), 1, &[], true)?;
    let (mut node, mut of_log) = (NodeLog::new(log, writer), OfLog::default());
    let records = node.measure(&read.disk).map_err(BeginError::from)?;
    // What does not go into the log makes no stream.
    let entries = make(node.log(), records)?;
    let caught_up = node.catch_up(&read.disk, &mut |group| of_log.take(&mut read.bank, group));
    let caught_up = caught_up.map_err(BeginError::from)?;
    let put = cluster::folder(config).put_base(&mut node.into_log(), caught_up.appended > 0);
    put.map_err(BeginError::from)?;
    Ok((entries, caught_up))
}

/// Says what was read, for the log.
fn say_read(bank: &Bank, report: &Report, began: std::time::Instant, disk: &Disk) {
    tracing::info!(
        run = bank.run(),
        budgets = bank.slots(),
        snapshot = report.snapshot,
        records = report.records,
        ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        method = disk.method().name(),
        "journal read, sums checked"
    );
    if let Some(from) = report.version.filter(|found| *found < SCHEMA_VERSION) {
        tracing::info!("journal format raised from {from} to {SCHEMA_VERSION}");
    }
}

fn unreadable(path: &Path, error: RecoverError) -> StartError {
    let path = path.to_path_buf();
    match error {
        // The disk's trouble is not damage: nobody should reach for a backup or a repair.
        RecoverError::Read(ReadError::Io { file, source }) => {
            let source = std::io::Error::new(source.kind(), format!("{file}: {source}"));
            StartError::Journal { path, source }
        }
        error => StartError::Recover { path, source: Box::new(error) },
    }
}

/// Warns where the journal ends after this time.
fn log_a_future(bank: &Bank, now_ms: u64) {
    if bank.now_ms() > now_ms {
        tracing::warn!(
            ahead_ms = bank.now_ms() - now_ms,
            "the journal's last record is from the future: the node's clock stands still until then"
        );
    }
}

/// Reads the journal, and says each second how far that is, and what a crash had left.
fn read_back(
    disk: &Disk,
    options: &ledger::Options,
    node: u16,
    known: &ledger_journal::Known,
) -> Result<ledger_journal::Recovered, RecoverError> {
    let mut said = std::time::Instant::now();
    let progress = &mut |records| {
        if said.elapsed() >= Duration::from_secs(1) {
            said = std::time::Instant::now();
            tracing::info!(records, "reading the journal");
        }
    };
    let recovered = ledger_journal::recover_known(disk, options, node, known, progress)?;
    if let Some(cut) = &recovered.report.cut {
        tracing::warn!(
            file = cut.file,
            offset = cut.offset,
            bytes = cut.bytes,
            record = cut.sequence,
            "cut off what a crash left half written: it was never acknowledged"
        );
    }
    Ok(recovered)
}

/// For the trail: somebody let the node go on from a journal that ends before what was sealed. What was known of the
/// other one is kept.
fn note_accepted(
    data: &Path,
    known: &ledger_journal::Known,
    first: u64,
    bank: &mut Bank,
    out: &mut ledger::Out,
) -> std::io::Result<()> {
    let Some(before) = known.watermark else { return Ok(()) };
    let aside = known::set_aside(data)?;
    let (sealed, run) = (before.sealed, before.run);
    tracing::warn!(
        first,
        sealed,
        run,
        kept = ?aside,
        "going on, as permitted, from a journal that may end before what was sealed; leave --accept-rollback out next \
         time"
    );
    let why = format!("continues from record {first}; run {run} had sealed all before {sealed}");
    bank.note_operator("weir run --accept-rollback", &why, out);
    // Each lost grant was a record, and some may have been sealed since the last note.
    let lost = before.sealed.saturating_sub(first).saturating_add(NUMBERS_SPARED);
    if lost > NUMBERS_MAX {
        tracing::warn!(
            lost,
            "more is lost than numbers of grants can be passed over: a late notice of a forgotten bid may be booked on \
             another one; let none of that time come any more"
        );
    }
    bank.pass_over(lost.min(NUMBERS_MAX), out);
    Ok(())
}

const NOTHING_ACCEPTED: &str =
    "--accept-rollback does nothing: the journal has all that was sealed; leave the flag out";

/// Numbers of grants that are passed over beyond those that the watermark tells of, which lags behind the journal.
const NUMBERS_SPARED: u64 = 1 << 14;
/// Numbers of grants that are passed over at most: two records each, all in the first group of the run.
const NUMBERS_MAX: u64 = 1 << 17;

/// What keeps the watermark, which says from now on that the segment of this run has begun. Where it cannot be
/// written the node runs all the same, and it is tried again.
fn watermarks(
    config: &Config,
    journal: &Disk,
    first: u64,
    runs: [u32; 2],
    now_ms: u64,
) -> Option<Watermarks<Disk>> {
    let data = Disk::open(&config.node.data_dir, ledger_journal::Durability::Sealed);
    let data = data.map_err(|error| tracing::warn!(%error, "no watermark is kept in this run"));
    let mut watermarks =
        Watermarks::new(data.ok()?, journal.syncing(), config.node.id, first, runs);
    if let Err(error) = watermarks.note(first, now_ms) {
        tracing::warn!(%error, "what is sealed was not noted outside of the journal");
    }
    Some(watermarks)
}

fn journal_options(
    config: &Config,
    bank: ledger::Options,
    unread: Arc<AtomicU64>,
    lease: Option<Arc<Lease>>,
) -> JournalOptions {
    let j = &config.journal;
    JournalOptions {
        gather: Duration::from_micros(j.gather_us),
        gather_idle: Duration::from_micros(j.gather_idle_us),
        unsealed_bytes_max: j.unsealed_bytes_max,
        durability: j.durability,
        segment_bytes: j.segment_bytes,
        keep: Keep {
            snapshot_bytes: j.snapshot_bytes,
            bytes_max: j.keep_bytes_max,
            ms_max: j.keep_days_max * 86_400_000,
            unread: u64::MAX,
        },
        unread: Some(unread),
        bank,
        lease,
    }
}

/// What the record of a run says of its machine: the name, and which start of it this is. Two nodes of one name that begin within a millisecond would
/// write the same bytes else, and each would take the other one's record for its own.
fn of_start(name: String) -> Box<str> {
    let start = keys::random().unwrap_or_default();
    let name = &name[..name.floor_char_boundary(NODE_BYTES_MAX - START_LETTERS)];
    format!("{name}#{:08x}", u32::from_le_bytes([start[0], start[1], start[2], start[3]])).into()
}

/// The name alone.
pub(crate) fn machine(node: &str) -> &str {
    let start = node.len().checked_sub(START_LETTERS).and_then(|at| node.split_at_checked(at));
    start.filter(|(_, start)| start.starts_with('#')).map_or(node, |(name, _)| name)
}

/// `#` and 8 digits.
const START_LETTERS: usize = 9;

fn bank_options(config: &Config, workers: usize, is_elsewhere: bool) -> ledger::Options {
    let (l, c) = (&config.ledger, &config.cluster);
    let purses = PurseOptions { node: config.node.id, hold_ms: l.hold_ms };
    ledger::Options {
        lease_ms: if is_elsewhere { c.lease_ms } else { 0 },
        clock_error_ms: c.clock_error_ms,
        node: cluster::node_name(config)
            .filter(|_| is_elsewhere)
            .map_or_else(Box::default, of_start),
        workers: u16::try_from(workers).unwrap_or(u16::MAX),
        hold_ms_max: purses.hold_ms_max(),
        billing_ms: l.billing_ms,
        late_ms: l.late_ms,
        win_notices: l.win_notices,
        refresh_ms: l.refresh_ms,
        grants_max: l.grants_max,
        named_max: l.named_max,
        pages_max: l.mark_pages_max,
        amounts_max: l.amounts_max,
        keep_rests: config.openrtb.keep_rests,
        made_max: config.budgets.templates_max,
        made_under_max: config.budgets.templates_under_max,
        answers_max: config.spend.keys_max,
        answers_kept_ms: config.spend.keys_keep_s * 1_000,
        ..ledger::Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_of_one_name_write_different_records_and_the_name_is_told() {
        let long = "\u{e4}".repeat(NODE_BYTES_MAX);
        for (name, told) in [("a", "a"), ("a#b", "a#b"), ("", ""), (&long, &long[..54])] {
            let [one, other] = [(); 2].map(|()| of_start(name.into()));
            assert!(one != other && one.len() <= NODE_BYTES_MAX, "{one}");
            assert_eq!([machine(&one), machine(&other)], [told; 2]);
        }
        // As earlier versions wrote it.
        assert_eq!([machine("a"), machine("eu-west-node")], ["a", "eu-west-node"]);
    }
}
