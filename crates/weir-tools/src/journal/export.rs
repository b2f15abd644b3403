//! `weir journal export`: every settlement of a period, for finance, and totals that reconcile with the balances.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ledger::{Bank, Door, NamedHold, NamedLeg, Record};
use ledger_journal::{Fault, Start, segment_head};
use money::{Instant, Unit, Zone, day_at};
use serde_json::Value;
use wire::Handle;

use super::text::{self, Fields, Spent};
use super::trail::{Folder, Known, beside};
use super::{JournalError, Outcome, Progress, Where};

#[derive(clap::Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    place: Where,
    /// First instant, as RFC 3339 (2026-11-01T00:00:00Z) or as a date, which means its first instant.
    #[arg(long, value_name = "TIME")]
    from: When,
    /// First instant after the period, in the same form.
    #[arg(long, value_name = "TIME")]
    to: When,
    /// IANA time zone of the dates.
    #[arg(long, value_name = "NAME", default_value = "UTC", value_parser = zone)]
    zone: Zone,
    /// One JSON object per line, or CSV with a header line.
    #[arg(long, value_enum)]
    format: Format,
    /// Write to this file, which appears once it is complete; by default to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// With --format csv: write the totals of each budget to this CSV file.
    #[arg(long, value_name = "FILE")]
    totals: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Jsonl,
    Csv,
}

/// An instant, or a date of a time zone that is not known yet.
#[derive(Clone, Copy, Debug)]
enum When {
    Instant(Instant),
    /// Noon of the date in UTC.
    Date(Instant),
}

impl std::str::FromStr for When {
    type Err = String;
    fn from_str(text: &str) -> Result<When, String> {
        if text.len() == "2026-11-01".len() {
            let noon = Instant::parse(&format!("{text}T12:00:00Z"));
            return noon.map(When::Date).map_err(|error| error.to_string());
        }
        let instant = Instant::parse(text).map(When::Instant);
        instant.map_err(|error| format!("{error}; or a date as 2026-11-01"))
    }
}

fn zone(name: &str) -> Result<Zone, String> {
    Zone::parse(name).map_err(|error| error.to_string())
}

impl When {
    fn instant(self, zone: &Zone) -> Instant {
        match self {
            When::Instant(instant) => instant,
            When::Date(noon) => {
                let offset_ms = zone.offset_at(noon).offset_ms;
                let local = noon.ms().checked_add_signed(-offset_ms).unwrap_or(0);
                day_at(Instant::from_ms(local), zone).start
            }
        }
    }
}

pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, JournalError> {
    let (from, to) = (args.from.instant(&args.zone), args.to.instant(&args.zone));
    if from >= to {
        return Err(JournalError::Usage(format!("--from ({from}) must be before --to ({to})")));
    }
    if args.totals.is_some() && args.format == Format::Jsonl {
        let text = "--totals is for --format csv; with jsonl the totals are the last lines";
        return Err(JournalError::Usage(text.into()));
    }
    let folder = args.place.folder()?;
    let Some(path) = &args.out else {
        let sheet = Sheet::new(args.format, out, &text::SETTLEMENT);
        let mut sheet = sheet.map_err(|source| unwritten(Path::new("standard output"), source))?;
        let export = Export::read(&folder, from, to, &mut sheet)?;
        // A reader that went away (`| head`) is no failure.
        let _ = sheet.end(&export);
        return finish(args, &folder, &export, None);
    };
    let temporary = beside(path, ".tmp");
    match write(args, &folder, (from, to), &temporary) {
        Ok(export) => finish(args, &folder, &export, Some((&temporary, path))),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}

fn unwritten(path: &Path, source: io::Error) -> JournalError {
    JournalError::Write { path: path.to_path_buf(), source }
}

/// Writes the whole export into a file and seals it.
fn write(
    args: &ExportArgs,
    folder: &Folder,
    (from, to): (Instant, Instant),
    path: &Path,
) -> Result<Export, JournalError> {
    let failed = |source| unwritten(path, source);
    let file = File::create(path).map_err(failed)?;
    let mut sheet = Sheet::new(args.format, file, &text::SETTLEMENT).map_err(failed)?;
    let export = Export::read(folder, from, to, &mut sheet)?;
    sheet.end(&export).and_then(|file| file.sync_all()).map_err(failed)?;
    Ok(export)
}

/// Totals, the last word, and the file in its place: under another name if it does not reconcile.
fn finish(
    args: &ExportArgs,
    folder: &Folder,
    export: &Export,
    file: Option<(&Path, &Path)>,
) -> Result<Outcome, JournalError> {
    export.say_sums();
    if let Some(path) = &args.totals {
        export.write_totals(path)?;
    }
    let mut complaints = export.complaints(folder);
    if let Some((temporary, path)) = file {
        let name =
            if export.reconciles() { path.to_path_buf() } else { beside(path, ".unreconciled") };
        fs::rename(temporary, &name).map_err(|source| unwritten(&name, source))?;
        if name != path {
            complaints.push(format!("it was written to {}", name.display()));
        }
    }
    let mut errors = io::stderr().lock();
    let _ = writeln!(
        errors,
        "{} settlements from {} to {}: {}",
        export.count,
        export.from,
        export.to,
        if export.reconciles() { "reconciled with the books" } else { "NOT RECONCILED" }
    );
    for complaint in &complaints {
        let _ = writeln!(errors, "{complaint}");
    }
    Ok(if complaints.is_empty() { Outcome::Well } else { Outcome::Bad })
}

/// What of one budget.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Of its own grants, within the period.
    count: u64,
    spent: Spent,
    /// These include the budgets under it, as its books do. Spent before the period:
    opening: i128,
    /// Within it.
    exported: i128,
    /// From its end on.
    after: i128,
    /// Spent in all, as the replayed books say.
    books: i128,
}

impl Line {
    /// What the books say was spent up to the end of the period.
    fn closing(&self) -> i128 {
        self.books - self.after
    }

    fn reconciles(&self) -> bool {
        self.opening + self.exported == self.closing()
    }
}

/// Names of the columns of totals.
const TOTAL: [&str; 14] = [
    "budget",
    "parent",
    "unit",
    "settlements",
    "settled",
    "over_settled",
    "late",
    "opening_with_children",
    "exported_with_children",
    "closing_with_children",
    "reconciles",
    "handle",
    "inferred",
    "unknown_order",
];

/// What was exported.
struct Export {
    from: Instant,
    to: Instant,
    known: Known,
    lines: BTreeMap<u64, Line>,
    /// By door and key: what each leg of a named hold has booked, line by line.
    named: BTreeMap<(Door, u128), BTreeMap<u64, [i128; 5]>>,
    count: u64,
    /// Settlements of grants that no kept record tells the budget of.
    unknown: u64,
    first: Option<u64>,
    last: Option<u64>,
    /// When the oldest record that is kept was written, if records before it are gone.
    removed_before: Option<Instant>,
}

impl Export {
    /// Of nothing yet.
    fn new(from: Instant, to: Instant) -> Export {
        Export {
            from,
            to,
            known: Known::default(),
            lines: BTreeMap::new(),
            named: BTreeMap::new(),
            count: 0,
            unknown: 0,
            first: None,
            last: None,
            removed_before: None,
        }
    }

    fn read<W: Write>(
        folder: &Folder,
        from: Instant,
        to: Instant,
        sheet: &mut Sheet<W>,
    ) -> Result<Export, JournalError> {
        let (base, known) = (folder.base()?, folder.known()?);
        let early = folder.early(&base)?;
        let removed_before = removed_before(folder)?;
        let mut export = Export { known, removed_before, ..Export::new(from, to) };
        let (start, mut bank) = (base.start, base.bank);
        for (id, spent) in spent(&bank) {
            export.lines.entry(id).or_default().opening = spent;
        }
        let mut progress = Progress::new();
        if let Some(early) = early {
            export.walk(folder, early, sheet, &mut progress, None)?;
        }
        for hold in bank.named_holds() {
            let legs = hold.legs.iter();
            let booked = |leg: &NamedLeg| leg.amounts.spent.map(|amount| amount.get().into());
            let legs = legs.map(|leg| (leg.budget, booked(leg))).collect();
            export.named.insert((hold.door, hold.key), legs);
        }
        export.walk(folder, start, sheet, &mut progress, Some(&mut bank))?;
        for (id, spent) in spent(&bank) {
            export.lines.entry(id).or_default().books = spent;
        }
        Ok(export)
    }

    fn walk<W: Write>(
        &mut self,
        folder: &Folder,
        start: Start,
        sheet: &mut Sheet<W>,
        progress: &mut Progress,
        mut bank: Option<&mut Bank>,
    ) -> Result<(), JournalError> {
        let mut written = Ok(());
        folder.walk(start, &mut |place, record| {
            progress.count();
            self.known.take(&record);
            let replayed = bank.as_mut().map_or(Ok(()), |bank| bank.replay(&record));
            replayed.map_err(|error| Fault::Replay(error.to_string()))?;
            let rows = self.take(place.at.sequence, &record, bank.is_some());
            written = rows.into_iter().try_for_each(|row| sheet.row("settlement", row));
            written.as_ref().map_err(|_| Fault::Stopped).copied()
        })?;
        written.map_err(|source| JournalError::Write { path: "the export".into(), source })
    }

    /// Counts settlements; returns the fields of those in the period. `replayed`: the bank has it, too.
    fn take(&mut self, sequence: u64, record: &Record, replayed: bool) -> Vec<Fields> {
        match record {
            Record::Resolved { hold, at_ms, .. } | Record::ToppedUp { hold, at_ms, .. } => {
                let Some(spent) = Spent::of(record) else { return Vec::new() };
                let budget = self.known.budget_of(hold.grant);
                let inside = self.count((sequence, *at_ms), budget, &spent, replayed);
                let fields = inside.then(|| text::settlement(sequence, record, &self.known));
                fields.flatten().into_iter().collect()
            }
            Record::Named { hold, opens, at_ms, .. } => {
                self.take_named((sequence, *at_ms), hold, *opens, replayed)
            }
            Record::Timed(change) => {
                let at = (sequence, change.at_ms);
                self.take_named(at, &change.row.hold, change.opens, replayed)
            }
            Record::NamedEnded { door, key, .. } => {
                self.named.remove(&(*door, *key));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// What the legs of a named hold have booked since they were told of before.
    fn take_named(
        &mut self,
        at: (u64, u64),
        hold: &NamedHold,
        opens: bool,
        replayed: bool,
    ) -> Vec<Fields> {
        let mut rows = Vec::new();
        let place = (hold.door, hold.key);
        let is_known = opens || self.named.contains_key(&place);
        for leg in &hold.legs {
            let booked = leg.amounts.spent.map(|amount| i128::from(amount.get()));
            if !is_known {
                // What it had booked before stood in records that are gone: nobody can say what it books now.
                self.unknown += u64::from(booked != [0; 5]);
                continue;
            }
            let legs = self.named.entry(place).or_default();
            let before = legs.insert(leg.budget, booked).unwrap_or_default();
            let spent = Spent::from_lines(std::array::from_fn(|line| booked[line] - before[line]));
            if spent != Spent::default() && self.count(at, Some(leg.budget), &spent, replayed) {
                rows.push(text::leg_settlement(at.0, (hold, leg, at.1), &spent, &self.known));
            }
        }
        rows
    }

    /// Counts what was spent; is it in the period?
    fn count(
        &mut self,
        (sequence, at_ms): (u64, u64),
        budget: Option<u64>,
        spent: &Spent,
        replayed: bool,
    ) -> bool {
        let amount = spent.total();
        let inside = (self.from.ms()..self.to.ms()).contains(&at_ms);
        for id in budget.into_iter().flat_map(|id| self.known.chain(id).collect::<Vec<_>>()) {
            let line = self.lines.entry(id).or_default();
            // The books that counting begins with hold the spend of earlier records, whatever their time.
            match (replayed, at_ms < self.from.ms()) {
                (true, true) => line.opening += amount,
                (false, false) => line.opening -= amount,
                _ => {}
            }
            line.exported += if inside { amount } else { 0 };
            line.after += if at_ms >= self.to.ms() { amount } else { 0 };
        }
        if !inside {
            return false;
        }
        match budget {
            Some(id) => self.lines.entry(id).or_default().take(spent),
            None => self.unknown += 1,
        }
        self.count += 1;
        self.first = self.first.or(Some(sequence));
        self.last = Some(sequence);
        true
    }

    fn reconciles(&self) -> bool {
        self.unknown == 0 && self.lines.values().all(Line::reconciles)
    }

    fn complete(&self) -> bool {
        self.removed_before.is_none_or(|removed| removed <= self.from)
    }

    /// What is not as finance needs it.
    fn complaints(&self, folder: &Folder) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(removed) = self.removed_before.filter(|_| !self.complete()) {
            all.push(format!(
                "NOT THE WHOLE PERIOD: records before {removed} were removed by the retention (journal.keep_bytes_max, \
                 journal.keep_days_max); restore {} of an older backup into a folder of its own and export from there, \
                 and keep more",
                folder.path.display()
            ));
        }
        if self.unknown > 0 {
            all.push(format!(
                "{} settlements are of grants whose budget, or of named holds whose beginning, stood in records that the \
                 retention removed; they are exported without a budget, or not at all, and are in no total",
                self.unknown
            ));
        }
        for (id, line) in self.lines.iter().filter(|(_, line)| !line.reconciles()) {
            let money = |value| text::amount(self.known.unit_of(*id), value);
            all.push(format!(
                "budget {id} does not reconcile: opening {} + exported {} is not closing {}; run `weir journal audit`",
                money(line.opening),
                money(line.exported),
                money(line.closing())
            ));
        }
        all
    }

    /// A row for each budget that something was spent of.
    fn totals(&self) -> impl Iterator<Item = Fields> {
        let moved = |line: &Line| line.opening != 0 || line.exported != 0 || !line.reconciles();
        let rows = self.lines.iter().filter(move |(_, line)| line.count > 0 || moved(line));
        rows.map(|(id, line)| {
            let unit = self.known.unit_of(*id);
            let money = |value: i128| Value::from(text::amount(unit, value));
            let parent = self.known.budgets.get(id).and_then(|named| named.parent);
            let values: [Value; 14] = [
                (*id).into(),
                parent.into(),
                unit.map(|unit| unit.to_string()).into(),
                line.count.into(),
                money(line.spent.settled),
                money(line.spent.over),
                money(line.spent.late),
                money(line.opening),
                money(line.exported),
                money(line.closing()),
                line.reconciles().into(),
                self.known.handle_of(*id).map(Handle::as_str).into(),
                money(line.spent.inferred),
                money(line.spent.unknown),
            ];
            TOTAL.into_iter().zip(values).collect()
        })
    }

    fn summary(&self) -> Fields {
        vec![
            ("from", self.from.to_string().into()),
            ("to", self.to.to_string().into()),
            ("settlements", self.count.into()),
            ("first_sequence", self.first.into()),
            ("last_sequence", self.last.into()),
            ("whole_period", self.complete().into()),
            ("without_budget", self.unknown.into()),
            ("reconciles", self.reconciles().into()),
        ]
    }

    /// Sums over all budgets of a unit, for people.
    fn say_sums(&self) {
        let mut sums: BTreeMap<String, (Option<Unit>, u64, Spent)> = BTreeMap::new();
        for (id, line) in &self.lines {
            let unit = self.known.unit_of(*id);
            let name = unit.map_or("unknown unit".to_string(), |unit| unit.to_string());
            let (_, count, spent) = sums.entry(name).or_insert((unit, 0, Spent::default()));
            *count += line.count;
            spent.add(&line.spent);
        }
        let mut errors = io::stderr().lock();
        for (name, (unit, count, spent)) in sums {
            let lines = ledger::Line::SPENT.into_iter().zip(spent.lines());
            let lines = lines.map(|(line, sum)| (line.name(), text::amount(unit, sum)));
            let lines: String = lines.map(|(line, sum)| format!(", {line} {sum}")).collect();
            let _ = writeln!(errors, "{name}: {count} settlements{lines}");
        }
    }

    /// The totals of a CSV export, a line a budget.
    fn write_totals(&self, path: &Path) -> Result<(), JournalError> {
        let (failed, temporary) = (|source| unwritten(path, source), beside(path, ".tmp"));
        let file = File::create(&temporary).map_err(failed)?;
        let mut sheet = Sheet::new(Format::Csv, file, &TOTAL).map_err(failed)?;
        self.totals().try_for_each(|row| sheet.row("total", row)).map_err(failed)?;
        let file = sheet.into_inner().map_err(failed)?;
        file.sync_all().and_then(|()| fs::rename(&temporary, path)).map_err(failed)
    }
}

impl Line {
    fn take(&mut self, spent: &Spent) {
        self.count += 1;
        self.spent.add(spent);
    }
}

/// What each budget has spent.
fn spent(bank: &Bank) -> impl Iterator<Item = (u64, i128)> {
    bank.slots_from(0).map(|(id, slot)| (id, bank.books(slot).spent().get().into()))
}

fn removed_before(folder: &Folder) -> Result<Option<Instant>, JournalError> {
    let Some(first) = folder.segments()?.first().copied() else { return Ok(None) };
    let head = segment_head(&folder.disk, first).map_err(|error| folder.failed(error))?;
    Ok((head.position.sequence > 1).then(|| Instant::from_ms(head.at_ms)))
}

/// Rows on their way out.
enum Sheet<W: Write> {
    Jsonl(BufWriter<W>),
    /// It has a buffer of its own.
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> Sheet<W> {
    fn new(format: Format, out: W, header: &[&str]) -> io::Result<Sheet<W>> {
        if format == Format::Jsonl {
            return Ok(Sheet::Jsonl(BufWriter::new(out)));
        }
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(header)?;
        Ok(Sheet::Csv(Box::new(csv)))
    }

    fn row(&mut self, kind: &str, fields: Fields) -> io::Result<()> {
        match self {
            Sheet::Jsonl(out) => {
                let mut all: Fields = vec![("kind", kind.into())];
                all.extend(fields);
                writeln!(out, "{}", text::json(&all))
            }
            Sheet::Csv(csv) => {
                Ok(csv.write_record(fields.iter().map(|(name, value)| cell(name, value)))?)
            }
        }
    }

    /// In JSON lines the totals and the summary are the last ones.
    fn end(mut self, export: &Export) -> io::Result<W> {
        if let Sheet::Jsonl(_) = self {
            export.totals().try_for_each(|row| self.row("total", row))?;
            self.row("summary", export.summary())?;
        }
        self.into_inner()
    }

    fn into_inner(self) -> io::Result<W> {
        match self {
            Sheet::Jsonl(out) => out.into_inner().map_err(io::IntoInnerError::into_error),
            Sheet::Csv(csv) => csv.into_inner().map_err(|error| error.into_error()),
        }
    }
}

/// A handle that a spreadsheet would run as a formula gets a quote in front.
fn cell(name: &str, value: &Value) -> String {
    let plain = text::plain(value);
    if name == "handle" && plain.starts_with(['-', '@']) { format!("'{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row for each leg that booked something: the difference to what was told before, a credit below zero.
    #[test]
    fn legs_of_named_holds_are_settlements() {
        let mut export = Export::new(Instant::from_ms(100), Instant::from_ms(200));
        let unit = Unit::parse("USD").unwrap();
        for (id, parent) in [(1, None), (2, Some(1)), (3, None)] {
            let spec = ledger::BudgetSpec::plain(id, unit, ledger::Amount::new(1));
            let spec = ledger::BudgetSpec { parent, ..spec };
            export.known.take(&Record::Budget { spec: Box::new(spec) });
        }
        let mut say = |at_ms, opens, legs: &[(u64, i64, i64)]| {
            let leg = |(budget, settled, unknown): &(u64, i64, i64)| {
                let spent = [*settled, 0, 0, 0, *unknown].map(ledger::Amount::new);
                let hold = ledger::Amount::ZERO;
                NamedLeg { budget: *budget, amounts: ledger::LegAmounts { hold, spent } }
            };
            let legs = legs.iter().map(leg).collect();
            let hold = NamedHold { door: Door::Fix, key: 0xAB, label: "".into(), legs };
            let record = Record::Named { hold: Box::new(hold), fact: true, opens, at_ms };
            let told = export.take(7, &record, true);
            let told = told.iter().map(|row| {
                let of = |name| {
                    row.iter().find(|(of, _)| *of == name).map(|(_, value)| text::plain(value))
                };
                ["budget", "amount", "unknown_order"].map(|name| of(name).unwrap()).join(" ")
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(say(50, true, &[(2, 1_000_000, 0)]), [""; 0], "before the period");
        assert_eq!(
            say(150, false, &[(2, 3_000_000, 500_000), (3, 20_000, 0)]),
            ["2 2.50 0.50", "3 0.02 0.00"]
        );
        assert_eq!(say(160, false, &[(2, 2_000_000, 500_000)]), ["2 -1.00 0.00"]);
        assert_eq!(say(250, false, &[(2, 9_000_000, 500_000)]), [""; 0], "after it");
        let line = &export.lines[&1];
        let sums = [line.opening, line.exported, line.after];
        assert_eq!(sums, [1_000_000, 1_500_000, 7_000_000], "the parent has what its child has");
    }

    fn start(text: &str, zone: &str) -> String {
        text.parse::<When>().unwrap().instant(&Zone::parse(zone).unwrap()).to_string()
    }

    #[test]
    fn dates_begin_in_their_zone() {
        assert_eq!(start("2026-11-01", "UTC"), "2026-11-01T00:00:00Z");
        assert_eq!(start("2026-11-01", "Pacific/Kiritimati"), "2026-10-31T10:00:00Z");
        assert_eq!(start("2026-11-01", "Pacific/Pago_Pago"), "2026-11-01T11:00:00Z");
        assert_eq!(start("2026-03-29", "Europe/Paris"), "2026-03-28T23:00:00Z");
        assert_eq!(start("2026-11-01T05:00:00+01:00", "Asia/Tokyo"), "2026-11-01T04:00:00Z");
        assert!("2026-13-01".parse::<When>().is_err());
        assert!("yesterday".parse::<When>().unwrap_err().contains("2026-11-01"));
    }
}
