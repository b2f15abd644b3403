//! `weir journal repair`: gets a damaged journal to start again from what is sound.
//!
//! The order of the steps matters, because the repair itself may be interrupted: first the salvage file, then files
//! are set aside under names that the journal ignores, then a new segment continues from the last sound group (and
//! makes whatever stands behind that place count for nothing), and only then the damaged segment is cut.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use ledger::{Amount, Bank, Options, Record};
use ledger_journal::files::{Access, BLOCK_BYTES, File as _, Folder as _};
use ledger_journal::repair::{examine, salvage};
use ledger_journal::snapshot::load;
use ledger_journal::{
    Disk, Durability, Gather, Log, Position, ReadError, Tail, Writer, segment_head,
};
use weir_node::known;

use super::holes::{Segment, Snapshot, Survey};
use super::text::{self, Fields, Spent};
use super::trail::{Folder, Known};
use super::{JournalError, Outcome, Where, verify};

#[derive(clap::Args)]
pub(super) struct RepairArgs {
    #[command(flatten)]
    place: Where,
    /// Continue from the newest sound snapshot and the sound records after it.
    #[arg(long, required = true)]
    from_snapshot: bool,
    /// Do it; without this flag the command only says what it would do.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &RepairArgs, out: &mut dyn Write) -> Result<Outcome, JournalError> {
    let folder = args.place.folder()?;
    let _lock = lock(&folder)?;
    let survey = Survey::of(&folder)?;
    if survey.is_sound() {
        let _ = writeln!(out, "the journal is sound: there is nothing to repair");
        return Ok(Outcome::Well);
    }
    if let (None, Some(refusal)) = (survey.faults().next(), &survey.refusal) {
        return Err(JournalError::NoRepair(format!(
            "there is nothing to repair: the files are whole, but a start refuses them: {refusal}"
        )));
    }
    let Some(plan) = Plan::of(&survey) else { return hopeless(args, &folder, &survey, out) };
    let behind = Behind::read(&folder, &plan)?;
    let _ = plan.print(&behind, out);
    if !args.yes {
        let _ = writeln!(out, "nothing was changed; with --yes this is done");
        return Ok(Outcome::Well);
    }
    let written = write_salvage(&folder, &behind, &plan)?;
    plan.carry_out(&folder, &behind)?;
    if let Some(path) = written {
        let _ = writeln!(out, "written: {}", path.display());
    }
    let after = Survey::of(&folder)?;
    let _ = verify::print(&after, out);
    Ok(if after.is_sound() { Outcome::Well } else { Outcome::Bad })
}

/// The lock that a node holds as long as it runs.
fn lock(folder: &Folder) -> Result<File, JournalError> {
    let path = folder.data.join("lock");
    let failed = |source| JournalError::Write { path: path.clone(), source };
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(JournalError::Running { path: folder.data.clone() })
        }
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// No snapshot is sound and the first segments are gone: there are no books to go on from.
fn hopeless(
    args: &RepairArgs,
    folder: &Folder,
    survey: &Survey,
    out: &mut dyn Write,
) -> Result<Outcome, JournalError> {
    let parts = survey.segments.iter().filter(|segment| segment.head.is_some());
    let plan =
        Plan { lost: parts.map(|s| Lost::whole(s.name.clone())).collect(), ..Plan::default() };
    let behind = Behind::read(folder, &plan)?;
    let _ = behind.print(out);
    let written = if args.yes { write_salvage(folder, &behind, &plan)? } else { None };
    let salvage = match written {
        Some(path) => format!("They were written to {}.", path.display()),
        None => "With --yes they are written to a salvage file.".into(),
    };
    Err(JournalError::NoRepair(format!(
        "journal {}: no snapshot is sound and the first segments are gone, so there are no books to go on from; \
         nothing was changed. Any sound snapshot of a backup helps, together with the segments from the one that its \
         tail begins with: copy them into the folder and run `weir journal verify`. Otherwise begin a new journal: \
         move the folder aside, lower each limit in the budgets file by what was spent (the last export, the \
         dashboards, and the {} settlements that can still be read here), and start. {salvage}",
        folder.path.display(),
        behind.settlements.len(),
    )))
}

/// A file, and from where on it is lost to the books.
#[derive(Clone, Debug)]
struct Lost {
    file: String,
    from: u64,
    before: Option<Position>,
}

impl Lost {
    fn whole(file: String) -> Lost {
        Lost { file, from: BLOCK_BYTES as u64, before: None }
    }
}

/// What is done to the files.
#[derive(Debug, Default)]
struct Plan {
    /// The snapshot that counting begins with; `None`: the first record.
    snapshot: Option<u64>,
    /// Where the sound records end, and the number of the segment that goes on there; `None` if no record that a
    /// start needs is lost.
    tail: Option<Tail>,
    node: u16,
    /// The damaged segment, of which this many bytes are sound.
    cut: Option<(String, u64)>,
    /// Files that are set aside.
    aside: Vec<String>,
    /// What is lost to the books, in order.
    lost: Vec<Lost>,
}

impl Plan {
    /// `None` if there is nothing to go on from.
    fn of(survey: &Survey) -> Option<Plan> {
        let (start, newest) = (survey.start()?, survey.newest());
        let mut plan =
            Plan { snapshot: newest.map(|snapshot| snapshot.sequence), ..Plan::default() };
        let head = |segment: &Segment| segment.head.map(|head| head.node);
        let node = newest.and_then(|snapshot| snapshot.head).map(|head| head.node);
        plan.node = node.or_else(|| survey.segments.iter().find_map(head)).unwrap_or(0);
        if let Some(obstacle) = survey.obstacle() {
            plan.cut_at(obstacle, survey, newest);
        }
        plan.set_aside_history(start, survey);
        Some(plan)
    }

    /// Ends the journal at the damage.
    fn cut_at(&mut self, obstacle: &Segment, survey: &Survey, newest: Option<&Snapshot>) {
        let base = newest.and_then(|s| s.head).map_or(Position::START, |head| head.position);
        let kept = obstacle.head.is_some() && obstacle.offset > 0;
        let position = match survey.segments.iter().rfind(|s| s.number < obstacle.number) {
            _ if kept => obstacle.end,
            // What came right before a segment that begins nowhere, if a start reads it.
            Some(last) if last.end.sequence >= base.sequence && last.fault.is_none() => last.end,
            _ => base,
        };
        let next_segment = obstacle.number + u64::from(kept);
        self.tail = Some(Tail { position, next_segment });
        if kept {
            self.cut = Some((obstacle.name.clone(), obstacle.offset));
            let (file, from) = (obstacle.name.clone(), obstacle.offset);
            self.lost.push(Lost { file, from, before: Some(position) });
        }
        let first = obstacle.number + u64::from(kept);
        for segment in survey.segments.iter().filter(|s| s.number >= first && s.bytes > 0) {
            self.aside.push(segment.name.clone());
            self.lost.push(Lost::whole(segment.name.clone()));
        }
    }

    /// Damaged snapshots, and what comes before damage that a start does not read: whatever needs it is of no use.
    fn set_aside_history(&mut self, start: u64, survey: &Survey) {
        let damaged = survey.segments.iter().filter(|s| s.number < start && s.fault.is_some());
        let until = damaged.map(|segment| segment.number).max();
        let useless = |number: u64| until.is_some_and(|until| number <= until);
        for segment in survey.segments.iter().filter(|s| useless(s.number) && s.bytes > 0) {
            self.aside.push(segment.name.clone());
        }
        for snapshot in &survey.snapshots {
            let old = snapshot.head.is_some_and(|head| useless(head.number));
            if snapshot.fault.is_some() || old {
                self.aside.push(snapshot.name.clone());
            }
        }
    }

    fn print(&self, behind: &Behind, out: &mut dyn Write) -> io::Result<()> {
        match self.snapshot {
            Some(sequence) => {
                writeln!(out, "continues from snapshot {sequence} and the sound records after it")?
            }
            None => writeln!(out, "continues from the first record up to the damage")?,
        }
        if let Some((name, offset)) = &self.cut {
            writeln!(
                out,
                "cut at byte {offset}: {name}; its bytes as they are are kept as a quarantine file"
            )?;
        }
        for name in &self.aside {
            writeln!(out, "set aside: {name}")?;
        }
        let Some(tail) = &self.tail else {
            return writeln!(
                out,
                "no record that a start needs is lost; older records for exports may be"
            );
        };
        let from = tail.position.sequence;
        match behind.last {
            0 => writeln!(
                out,
                "lost to the books: records from {from} on; nothing behind the damage names a record"
            )?,
            last => writeln!(
                out,
                "lost to the books: records {from}..{last}, as far as the remaining records name them"
            )?,
        }
        behind.print(out)?;
        writeln!(
            out,
            "The books will not know what these records did. Lower the limits by the totals above before the node \
             starts, and by a margin for the {} bytes that could not be read; book the salvaged settlements by hand. \
             Tokens of lost grants will be answered with `too_old`.",
            behind.lost_bytes
        )
    }

    fn carry_out(&self, folder: &Folder, behind: &Behind) -> Result<(), JournalError> {
        let failed = |source| JournalError::Write { path: folder.path.clone(), source };
        let disk = Disk::open(&folder.path, Durability::Sealed).map_err(failed)?;
        let mark = format!("quarantine-{}", stamp());
        if let Some((name, _)) = &self.cut {
            copy(folder, name, &format!("{mark}-{name}")).map_err(failed)?;
        }
        // The last ones first: whatever happens in between, what is left has the same damage or less.
        for name in self.aside.iter().rev() {
            disk.rename(name, &format!("{mark}-{name}")).map_err(failed)?;
        }
        disk.sync().map_err(failed)?;
        if let Some(tail) = &self.tail {
            // What was known to be sealed is not there any more, and everybody was told.
            known::set_aside(&folder.data).map_err(failed)?;
            let records = self.closing_records(folder, tail, behind)?;
            self.go_on(&disk, tail, &records).map_err(failed)?;
        }
        if let Some((name, offset)) = &self.cut {
            let file = disk.open(name, Access::Write).map_err(failed)?;
            file.set_len(*offset).and_then(|()| file.sync()).map_err(failed)?;
        }
        Ok(())
    }

    /// What the new segment begins with: who did this, and an end for every grant that may have been made in the lost
    /// records. Their numbers must not be given to new grants, or tokens of the lost ones would be taken for theirs.
    fn closing_records(
        &self,
        folder: &Folder,
        tail: &Tail,
        behind: &Behind,
    ) -> Result<Vec<Record>, JournalError> {
        let bank = self.bank(folder, tail)?;
        let (mut next, mut budget, mut now_ms) = (1, None, bank.now_ms());
        bank.parts(&mut |part| match part {
            ledger::Part::Head { next_grant, .. } => next = next_grant,
            ledger::Part::Budget { spec } => budget = budget.or(Some(spec.id)),
            _ => {}
        });
        now_ms = now_ms.max(clock_ms());
        let why = match behind.last {
            0 => format!("records from {} on are lost", tail.position.sequence),
            last => format!("records {}..{last} are lost", tail.position.sequence),
        };
        let (who, why) = ("weir journal repair".into(), why.into());
        let mut records = vec![Record::Operator { at_ms: now_ms, who, why }];
        let Some(budget) = budget else { return Ok(records) };
        let amount = Amount::ZERO;
        for grant in next..next.max(behind.grants_end(next)) {
            records.push(Record::Granted { grant, budget, worker: 0, amount, at_ms: now_ms });
            records.push(Record::GrantClosed { grant });
        }
        Ok(records)
    }

    /// The state at the end of the sound records.
    fn bank(&self, folder: &Folder, tail: &Tail) -> Result<Bank, JournalError> {
        let (mut bank, mut segment) = (Bank::new(Options::default()), 1);
        if let Some(sequence) = self.snapshot {
            let loaded = load(&folder.disk, sequence, &Options::default());
            let loaded = loaded.map_err(|error| folder.failed(error))?;
            (bank, segment) = (loaded.bank, loaded.head.number);
        }
        let end = tail.position.sequence;
        let mut wrong = None;
        while segment < tail.next_segment {
            // A group that could not be sealed appears twice: what counts is where the next segment continues.
            let next = segment_head(&folder.disk, segment + 1).ok();
            let next = next.map(|head| (segment + 1, head.position));
            let examined = examine(&folder.disk, segment, None, next, &mut |place, record| {
                if place.at.sequence < end
                    && let Err(error) = bank.replay(&record)
                {
                    wrong.get_or_insert(format!("record {}: {error}", place.at.sequence));
                }
                Ok(())
            });
            examined.map_err(|error| folder.failed(error))?;
            segment += 1;
        }
        match wrong {
            None => Ok(bank),
            Some(text) => Err(folder.replay_failed(text)),
        }
    }

    fn go_on(&self, disk: &Disk, tail: &Tail, records: &[Record]) -> io::Result<()> {
        let (now_ms, mut gather) = (clock_ms(), Gather::new(tail.position));
        let mut writer = Writer::new(disk.clone(), self.node, 0, *tail);
        for record in records {
            gather.append(record, now_ms);
        }
        while let Some(group) = gather.take() {
            writer.append(&group)?;
        }
        Ok(())
    }
}

/// A copy beside the journal, sealed; only the node's user may read it, it may hold token keys.
fn copy(folder: &Folder, name: &str, to: &str) -> io::Result<()> {
    let mut source = File::open(folder.path.join(name))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut copy = options.open(folder.path.join(to))?;
    io::copy(&mut source, &mut copy)?;
    copy.sync_all()
}

/// What can still be read of what is lost to the books.
#[derive(Debug, Default)]
struct Behind {
    known: Known,
    /// By sequence: the record, and whether a checksum proves it.
    settlements: BTreeMap<u64, (Record, bool)>,
    granted: BTreeMap<u64, i128>,
    seen: BTreeSet<u64>,
    /// The highest grant number that any record names.
    grant_last: u64,
    /// The highest sequence that any group names; 0 if none does.
    last: u64,
    lost_bytes: u64,
}

/// No record of a grant is shorter, so more grants cannot have been in bytes that cannot be read.
const GRANTED_BYTES: u64 = 64;

impl Behind {
    fn read(folder: &Folder, plan: &Plan) -> Result<Behind, JournalError> {
        let mut behind = Behind { known: folder.known()?, ..Behind::default() };
        if plan.lost.is_empty() {
            return Ok(behind);
        }
        // The names of the sound records, as far as any can be read.
        for number in folder.segments()? {
            let known = &mut behind.known;
            let read = examine(&folder.disk, number, None, None, &mut |_, record| {
                known.take(&record);
                Ok(())
            });
            read.map_err(|error| folder.failed(error))?;
        }
        for lost in &plan.lost {
            let found =
                salvage(&folder.disk, &lost.file, lost.from, lost.before, &mut |at, record| {
                    behind.take(at.sequence, at.proven, record);
                });
            let found = found.map_err(|error: ReadError| folder.failed(error))?;
            behind.last = behind.last.max(found.last);
            behind.lost_bytes += found.lost_bytes;
        }
        Ok(behind)
    }

    fn take(&mut self, sequence: u64, proven: bool, record: Record) {
        // A group that could not be sealed was written again, so it may be there twice.
        if !self.seen.insert(sequence) {
            return;
        }
        self.known.take(&record);
        self.grant_last = self.grant_last.max(text::grant_of(&record).unwrap_or(0));
        if let Record::Granted { budget, amount, .. } = &record {
            *self.granted.entry(*budget).or_default() += i128::from(amount.get());
        }
        if Spent::of(&record).is_some() {
            self.settlements.insert(sequence, (record, proven));
        }
    }

    /// No grant of the lost records has this number or a higher one.
    fn grants_end(&self, next: u64) -> u64 {
        self.grant_last.max(next - 1) + 1 + self.lost_bytes.div_ceil(GRANTED_BYTES)
    }

    fn totals(&self) -> BTreeMap<Option<u64>, (u64, Spent)> {
        let mut totals: BTreeMap<Option<u64>, (u64, Spent)> = BTreeMap::new();
        for (record, _) in self.settlements.values() {
            let budget = text::budget_of(record, &self.known);
            let (count, sum) = totals.entry(budget).or_default();
            let spent = Spent::of(record).unwrap_or_default();
            *count += 1;
            sum.add(&spent);
        }
        for budget in self.granted.keys() {
            totals.entry(Some(*budget)).or_default();
        }
        totals
    }

    fn rows(&self) -> impl Iterator<Item = Fields> {
        self.totals().into_iter().map(|(budget, (count, spent))| {
            let unit = budget.and_then(|id| self.known.unit_of(id));
            let granted = budget.and_then(|id| self.granted.get(&id)).copied().unwrap_or(0);
            vec![
                ("budget", budget.into()),
                ("unit", unit.map(|unit| unit.to_string()).into()),
                ("settlements", count.into()),
                ("settled", text::amount(unit, spent.settled).into()),
                ("over_settled", text::amount(unit, spent.over).into()),
                ("late", text::amount(unit, spent.late).into()),
                ("granted", text::amount(unit, granted).into()),
            ]
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let (found, lost) = (self.settlements.len(), self.lost_bytes);
        writeln!(out, "can still be read there: {found} settlements; {lost} bytes say nothing")?;
        for row in self.rows() {
            let said: Vec<String> =
                row.iter().map(|(key, value)| format!("{key} {}", text::plain(value))).collect();
            writeln!(out, "  {}", said.join(", "))?;
        }
        Ok(())
    }
}

/// The settlements behind the damage, for finance. `None` if nothing is lost to the books.
fn write_salvage(
    folder: &Folder,
    behind: &Behind,
    plan: &Plan,
) -> Result<Option<PathBuf>, JournalError> {
    if plan.lost.is_empty() {
        return Ok(None);
    }
    let path = folder.data.join(format!("salvage-{}.jsonl", stamp()));
    let failed = |source| JournalError::Write { path: path.clone(), source };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut out = BufWriter::new(file.map_err(failed)?);
    let mut line = |kind: &str, fields: Fields| {
        let mut all: Fields = vec![("kind", kind.into())];
        all.extend(fields);
        writeln!(out, "{}", text::json(&all))
    };
    for (sequence, (record, proven)) in &behind.settlements {
        let mut fields = text::settlement(*sequence, record, &behind.known).unwrap_or_default();
        fields.push(("proven", (*proven).into()));
        line("settlement", fields).map_err(failed)?;
    }
    behind.rows().try_for_each(|row| line("total", row)).map_err(failed)?;
    let from = plan.tail.map(|tail| tail.position.sequence);
    let lost: Fields = vec![
        ("from", from.into()),
        ("to", (behind.last > 0).then_some(behind.last).into()),
        ("unread_bytes", behind.lost_bytes.into()),
    ];
    line("lost", lost).map_err(failed)?;
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    Ok(Some(path))
}

fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time as a part of a name.
fn stamp() -> String {
    text::time(clock_ms()).replace([':', '.', '-'], "")
}
