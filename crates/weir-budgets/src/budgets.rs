//! The budgets file: `.jsonl` or `.csv`, one budget a line. A line of a `.jsonl` file may be a campaign too, see
//! [`crate::campaigns`]. A file with any bad line is refused whole, with every error and its line.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use gate_pacing::{DayParts, Plan, PlanSpec, Shape, Strategy};
use ledger::spec::{MADE_ID_MIN, SpecError};
use ledger::{Amount, BudgetSpec, OnExpiry, Period, Status, WindowLimit, Windows};
use money::{Instant, Unit, Window, Zone, ZoneCache};
use serde_json::{Map, Value};
use weir_pacer::Pacing;
use wire::Handle;

use crate::alerts::{self, Shares};
use crate::campaigns::fields::{
    Faults, Object, amount, boolean, shown, text, whole_number, whole_number_in, word,
};
use crate::campaigns::{self, CAMPAIGN_FIELDS, Campaign, json};
use crate::orders::{self, Binding};
use crate::templates::{self, Templates};
use crate::windows;

/// A budget as its owner configured it.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Everything that the ledger needs of it.
    pub spec: BudgetSpec,
    /// For people.
    pub name: String,
    /// How its spend is spread.
    pub pacing: Pacing,
    /// The line it stands on, from 1.
    pub line: usize,
    /// What it bids for, if it bids through OpenRTB.
    pub campaign: Option<Campaign>,
    /// The orders that it limits, if it limits any.
    pub orders: Option<Arc<Binding>>,
    /// At which shares of its limits it alerts.
    pub alerts: Shares,
}

/// A line of the file: the budget that it is, and what it says, without a campaign's fields.
#[derive(Clone, Debug)]
pub struct Line {
    /// The budget that it comes to.
    pub budget: Budget,
    /// What it says, by field; without the fields of a campaign.
    pub said: Map<String, Value>,
    /// Where it stands, in a file that has it as text; `None` of a table's row, and of what no file says.
    pub place: Option<Place>,
}

/// Where a line stands in its file, so that it need not be kept: with its creatives it may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    from: u64,
    bytes: u64,
    /// A hash of it: whoever reads it again knows whether it still says the same.
    print: u64,
}

/// Longest line that is shown, in bytes.
pub const SHOWN_BYTES_MAX: u64 = 65_536;

impl Place {
    fn of(line: usize, from: usize, text: &str) -> Place {
        let (from, bytes) = (from as u64, text.len() as u64);
        Place { line, from, bytes, print: print(text.as_bytes()) }
    }

    /// The line, as it stood when it was taken over.
    ///
    /// # Errors
    /// It is too long to be shown, the file cannot be read, or it says something else by now; for people, with what to do.
    pub fn read(&self, file: &Path) -> Result<String, String> {
        use std::io::{Read, Seek, SeekFrom};
        let Place { line, from, bytes, .. } = *self;
        let name = file.display();
        if bytes > SHOWN_BYTES_MAX {
            return Err(format!(
                "line {line} has {bytes} bytes, and at most {SHOWN_BYTES_MAX} are shown; look into {name}"
            ));
        }
        let unread = |error: &dyn fmt::Display| format!("{name} cannot be read: {error}");
        // Opening a pipe would wait for its writer.
        let is_file = std::fs::metadata(file).map_err(|error| unread(&error))?.is_file();
        if !is_file {
            return Err(unread(&"it is no file"));
        }
        let mut found = Vec::new();
        std::fs::File::open(file)
            .and_then(|mut open| {
                open.seek(SeekFrom::Start(from))?;
                open.take(bytes).read_to_end(&mut found)
            })
            .map_err(|error| unread(&error))?;
        let is_same = found.len() as u64 == bytes && print(&found) == self.print;
        String::from_utf8(found).ok().filter(|_| is_same).ok_or_else(|| {
            format!("{name} has changed since line {line} was read; the node keeps the earlier content until the new file is sound")
        })
    }
}

/// A hash for one run: it is never kept.
fn print(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// One thing wrong in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0: the file as a whole.
    pub line: usize,
    /// The value that was found and the one that was expected.
    pub text: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}: {}", self.file, self.text),
        }
    }
}

/// The fields of every budget.
pub const FIELDS: [&str; 24] = [
    "id",
    "handle",
    "name",
    "unit",
    "limit",
    "daily",
    "day_flex",
    "windows",
    "start",
    "end",
    "tz",
    "pacing",
    "plan",
    "day_parts",
    "gain",
    "roi",
    "shade",
    "status",
    "parent",
    "on_expiry",
    "tolerance_ppm",
    "late_reserve_bp",
    "orders",
    "alerts",
];

pub(crate) const STATUSES: [(&str, Status); 3] =
    [("active", Status::Active), ("paused", Status::Paused), ("ended", Status::Ended)];

pub(crate) const ON_EXPIRY: [(&str, OnExpiry); 2] =
    [("hold", OnExpiry::Hold), ("release", OnExpiry::Release)];

/// Reads a file. The ending of its name says which format it has.
pub fn read(path: &Path) -> Result<Vec<Budget>, Vec<LineError>> {
    Ok(read_lines(path)?.into_iter().map(|line| line.budget).collect())
}

/// Reads a file, and keeps what its lines say.
pub fn read_lines(path: &Path) -> Result<Vec<Line>, Vec<LineError>> {
    lines_of(path, &bytes(path)?)
}

/// The longest file of budgets, bytes: 50,000 with campaigns have a twentieth of it.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads the bytes of a file, without waiting for anybody: a pipe or a device is refused.
///
/// # Errors
/// It cannot be read, is no regular file, or is longer than a gibibyte.
pub fn bytes(path: &Path) -> Result<Vec<u8>, Vec<LineError>> {
    let told = |error| whole(path, 0, format!("cannot be read: {error}"));
    access::file::read_regular(path, FILE_BYTES_MAX).map_err(told)
}

/// The lines of a file with this name and these bytes, without its templates.
pub fn lines_of(path: &Path, bytes: &[u8]) -> Result<Vec<Line>, Vec<LineError>> {
    Ok(file_of(path, bytes)?.lines)
}

/// Everything that a budgets file says.
#[derive(Clone, Debug, Default)]
pub struct BudgetsFile {
    /// Its budgets.
    pub lines: Vec<Line>,
    /// What budgets are made from on their first ask.
    pub templates: Templates,
}

/// What a file with this name and these bytes says.
pub fn file_of(path: &Path, bytes: &[u8]) -> Result<BudgetsFile, Vec<LineError>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        whole(path, line, "not UTF-8; save the file as UTF-8".into())
    })?;
    // Some editors put a byte-order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = path.display().to_string();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("jsonl" | "ndjson") => parse(&file, json_lines(text, bytes.len() - text.len())),
        Some("csv") => match cut(text) {
            None => parse(&file, csv_lines(text)),
            Some((line, fault)) => Err(whole(path, line, fault)),
        },
        _ => Err(whole(path, 0, "a budgets file is called *.jsonl or *.csv".into())),
    }
}

fn whole(path: &Path, line: usize, text: String) -> Vec<LineError> {
    vec![LineError { file: path.display().to_string(), line, text }]
}

type Row = (usize, Option<Place>, Result<Map<String, Value>, String>);

/// `offset`: bytes of the file before the text.
fn json_lines(text: &str, offset: usize) -> impl Iterator<Item = Row> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let object = |line: &str| match json::parse(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(format!("found {}, expected one object per line", shown(&other))),
        Err(error) if error.is_data() => Err(error.to_string()),
        Err(error) => Err(format!("not JSON: {error}")),
    };
    let from = move |line: &str| offset + line.as_ptr().addr() - text.as_ptr().addr();
    lines.map(move |(i, line)| (i + 1, Some(Place::of(i + 1, from(line), line)), object(line)))
}

/// Returns where and how a table ends too early. A reader takes the end of a file for the end of a cell, and a cell that is not there
/// for one that says nothing: without its last cells, a paused budget would spend.
fn cut(text: &str) -> Option<(usize, String)> {
    if let Some(line) = open_quote(text) {
        let fault =
            "a cell that begins here with a quote never ends; close the quote, or is the file cut?";
        return Some((line, fault.into()));
    }
    let ends_within = !text.is_empty() && !text.ends_with('\n');
    ends_within.then(|| {
        let fault = "the file ends within this line; end it with a line feed, or is the file cut?";
        (text.lines().count(), fault.into())
    })
}

/// Returns the line of the quote that opens a cell and is never closed. As in RFC 4180, only a quote at the beginning of a cell opens
/// one, and two within it stand for one.
fn open_quote(text: &str) -> Option<usize> {
    let (mut line, mut opened, mut starts) = (1, None, true);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        line += usize::from(byte == b'\n');
        match (byte, opened) {
            (b'"', Some(_)) if bytes.next_if_eq(&b'"').is_none() => opened = None,
            (b'"', None) if starts => opened = Some(line),
            _ => {}
        }
        starts = opened.is_none() && matches!(byte, b',' | b'\n' | b'\r');
    }
    opened
}

fn csv_lines(text: &str) -> Vec<Row> {
    let mut reader =
        csv::ReaderBuilder::new().flexible(false).trim(csv::Trim::All).from_reader(text.as_bytes());
    let names = match reader.headers() {
        Ok(names) => names.clone(),
        Err(error) => {
            return vec![(1, None, Err(format!("the first line names the columns: {error}")))];
        }
    };
    let alone = names.iter().next().filter(|_| names.len() == 1);
    if let Some(other) =
        [';', '\t'].into_iter().find(|other| alone.is_some_and(|name| name.contains(*other)))
    {
        let text = format!(
            "columns are separated by {other:?} here, expected ','; save the file with commas between columns and points in amounts"
        );
        return vec![(1, None, Err(text))];
    }
    let twice = columns_twice(&names);
    if !twice.is_empty() {
        return twice.into_iter().map(|text| (1, None, Err(text))).collect();
    }
    let campaign = names.iter().find(|name| CAMPAIGN_FIELDS.contains(name));
    if let Some(name) = campaign {
        return vec![(1, None, Err(format!("{name}: campaigns are read from .jsonl files only")))];
    }
    let to_usize = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
    let object = |record: csv::Result<csv::StringRecord>| match record {
        Ok(record) => {
            let line = record.position().map_or(0, csv::Position::line);
            let filled = names.iter().zip(&record).filter(|(_, value)| !value.is_empty());
            let fields = filled.map(|(name, value)| (name.to_string(), Value::from(value)));
            (to_usize(line), None, Ok(fields.collect()))
        }
        Err(error) => (to_usize(csv_line(&error)), None, Err(format!("not CSV: {error}"))),
    };
    reader.into_records().map(object).collect()
}

/// Columns that a line could fill twice, in the order of the second ones, counted from 1. Those without a name are none.
fn columns_twice(names: &csv::StringRecord) -> Vec<String> {
    let first = |name: &str| names.iter().position(|other| other == name);
    let named = names.iter().enumerate().filter(|(_, name)| !name.is_empty());
    let again =
        named.filter_map(|(at, name)| Some((name, first(name).filter(|first| *first < at)?, at)));
    again
        .map(|(name, first, at)| {
            format!("{name}: the column appears twice ({} and {})", first + 1, at + 1)
        })
        .collect()
}

fn csv_line(error: &csv::Error) -> u64 {
    error.position().map_or(0, csv::Position::line)
}

/// The line of what is wrong in a set of budgets, and its text with the lines of the other budgets that it is about.
fn placed(error: &SpecError, lines_of: &BTreeMap<u64, Vec<usize>>) -> (usize, String) {
    let of = |id: &u64| lines_of.get(id).map_or(&[] as &[usize], Vec::as_slice);
    let others = match error {
        SpecError::IdTwice { id } => of(id).get(1..).unwrap_or_default(),
        SpecError::HandleTwice { other, .. } => of(other),
        _ => &[],
    };
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let text = match &others[..] {
        [] => error.to_string(),
        [line] => format!("{error}; the other one stands on line {line}"),
        lines => format!("{error}; the others stand on lines {}", lines.join(", ")),
    };
    (of(&error.id()).first().copied().unwrap_or(1), text)
}

fn parse(file: &str, rows: impl IntoIterator<Item = Row>) -> Result<BudgetsFile, Vec<LineError>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut templates = Vec::new();
    let mut lines_of: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut errors = Vec::new();
    let mut zones = ZoneCache::default();
    let mut push =
        |line: usize, text: String| errors.push(LineError { file: file.to_string(), line, text });
    let rows: Vec<Row> = rows.into_iter().collect();
    let parents = ParentIds::of(&rows);
    for (line, place, fields) in rows {
        if let Ok(fields) = &fields
            && fields.contains_key("template")
        {
            match templates::template(line, fields, &mut zones) {
                Ok(read) => templates.push(read),
                Err(texts) => texts.into_iter().for_each(|text| push(line, text)),
            }
            continue;
        }
        let resolved = fields.and_then(|mut fields| parents.resolve(&mut fields).map(|()| fields));
        match resolved.map_err(|error| vec![error]).and_then(|fields| {
            budget(line, &fields, &mut zones).map(|budget| Line {
                budget,
                said: plain(fields),
                place,
            })
        }) {
            Ok(read) => {
                lines_of.entry(read.budget.spec.id).or_default().push(line);
                lines.push(read);
            }
            Err(texts) => texts.into_iter().for_each(|text| push(line, text)),
        }
    }
    let specs: Vec<BudgetSpec> = lines.iter().map(|line| line.budget.spec.clone()).collect();
    for error in ledger::spec::check(&specs) {
        let (line, text) = placed(&error, &lines_of);
        push(line, text);
    }
    let templates = Templates::check(templates, &specs).unwrap_or_else(|texts| {
        texts.into_iter().for_each(|(line, text)| push(line, text));
        Templates::default()
    });
    if errors.is_empty() { Ok(BudgetsFile { lines, templates }) } else { Err(errors) }
}

/// What is hardly meant about a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Its flight is over.
    FlightOver,
    /// A day may spend more than the budget's life.
    DayAboveLimit,
    /// Its plan lets a typical ask wait for minutes.
    SlowPlan,
    /// A creative's markup has a macro that nothing takes the place of.
    UnknownMacro,
    /// A creative says where clicks lead, and its markup has no address of a click.
    ClickUnused,
}

/// What is sound and hardly meant: a flight that is over, a limit per day that the lifetime's limit never lets it reach, a plan that
/// lets a typical ask wait for minutes, and creatives whose clicks are never counted. Budgets that have ended are left alone.
#[must_use]
pub fn warnings(budgets: &[Budget], file: &str, now: Instant) -> Vec<(Doubt, LineError)> {
    let live = budgets.iter().filter(|budget| budget.spec.status != Status::Ended);
    let told = live.flat_map(|budget| {
        let spec = &budget.spec;
        let over = (spec.end <= now).then(|| {
            format!(
                "budget {}: its flight is over since {}, so it never spends; set a later `end`, or \"status\":\"ended\"",
                spec.id, spec.end
            )
        });
        let daily = spec.windows.get(Period::Day).filter(|day| day.limit > spec.limit).map(|day| {
            let (day, limit, unit) = (spec.unit.format(day.limit), spec.unit.format(spec.limit), spec.unit);
            format!(
                "budget {}: a day may spend {day} {unit}, which is above the limit of {limit} {unit} for its whole life; are `daily` and \
                 `limit` swapped?",
                spec.id
            )
        });
        let slow = slow_plan(budget, now);
        let [unknown, unused] = campaigns::click_doubts(spec.id, budget.campaign.as_ref());
        let found = [
            (Doubt::FlightOver, over),
            (Doubt::DayAboveLimit, daily),
            (Doubt::SlowPlan, slow),
            (Doubt::UnknownMacro, unknown),
            (Doubt::ClickUnused, unused),
        ];
        let at = |text| LineError { file: file.to_owned(), line: budget.line, text };
        found.into_iter().filter_map(move |(doubt, text)| Some((doubt, at(text?))))
    });
    told.collect()
}

/// A plan that refuses what is ahead of it, and frees less in a minute than a typical ask: an impression at the campaign's bid, or one
/// whole unit where nothing bids.
fn slow_plan(budget: &Budget, now: Instant) -> Option<String> {
    const DAY_MS: i128 = 86_400_000;
    let spec = &budget.spec;
    if budget.pacing.plan.spec().strategy != Strategy::Schedule || spec.end <= now {
        return None;
    }
    let (planned, ms) = match spec.windows.day_limit().or(budget.pacing.day_target) {
        Some(day) => (day.min(spec.limit), DAY_MS),
        None => (spec.limit, i128::from(spec.end.ms_since(spec.start.max(now))?)),
    };
    let one = i128::from(spec.unit.parse_amount("1").ok()?.get());
    let ask = budget
        .campaign
        .as_ref()
        .map_or(one, |campaign| i128::from(campaign.bid_micros) * one / 1_000_000_000);
    let a_minute = i128::from(planned.get()) * 60_000 / ms.max(1);
    if ask <= a_minute {
        return None;
    }
    let shown = |amount: i128| Some(spec.unit.format(Amount::new(i64::try_from(amount).ok()?)));
    let (a_minute, ask, unit) = (shown(a_minute)?, shown(ask)?, spec.unit);
    Some(format!(
        "budget {}: its plan frees about {a_minute} {unit} per minute, so an ask of {ask} {unit} waits longer than that; `pacing` \"asap\" \
         keeps only the limits, \"auto\" is for bids",
        spec.id
    ))
}

/// Without a campaign's fields: they are large, and nobody asks for them again.
fn plain(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|name, _| FIELDS.contains(&name.as_str()));
    fields
}

/// One budget from its fields; every error at once.
fn budget(
    line: usize,
    fields: &Map<String, Value>,
    zones: &mut ZoneCache,
) -> Result<Budget, Vec<String>> {
    let mut faults = Faults::default();
    let mut object = Object::new(fields, &[&FIELDS, &CAMPAIGN_FIELDS], &mut faults);
    let budget = read_budget(line, &mut object, zones, Bids::Read);
    budget.filter(|_| faults.is_empty()).ok_or_else(|| faults.into_texts())
}

/// One budget from its fields but for a campaign's, by the rules of a line of the file; every error at once. `bids`: it is a
/// campaign, whose own fields are known to be sound.
pub fn judge(
    fields: &Map<String, Value>,
    bids: bool,
    zones: &mut ZoneCache,
) -> Result<Budget, Vec<String>> {
    let mut faults = Faults::default();
    let mut object = Object::new(fields, &[&FIELDS], &mut faults);
    let budget = read_budget(0, &mut object, zones, Bids::Known(bids));
    let budget = budget.filter(|_| faults.is_empty()).ok_or_else(|| faults.into_texts())?;
    let errors = ledger::spec::check_one(&budget.spec);
    if errors.is_empty() {
        Ok(budget)
    } else {
        Err(errors.iter().map(ToString::to_string).collect())
    }
}

/// Does a budget bid?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bids {
    /// Its fields say so.
    Read,
    /// It was found out before.
    Known(bool),
}

/// `None` where a fault was told.
/// The unit that a line names: of a budget or a template.
pub(crate) fn read_unit(object: &mut Object<'_, '_>) -> Unit {
    let unit = object.optional("unit", |v| {
        text(v, "a currency such as \"USD\", or \"count\"", |t| Unit::parse(t).ok())
    });
    unit.unwrap_or_else(|| Unit::parse("USD").expect("a currency"))
}

fn read_budget(
    line: usize,
    object: &mut Object<'_, '_>,
    zones: &mut ZoneCache,
    bids: Bids,
) -> Option<Budget> {
    let id = object.required("id", |value| whole_number_in(value, 0..=MADE_ID_MIN - 1));
    let unit = read_unit(object);
    let limit = object.required("limit", |value| bound(value, unit));
    let daily = object.optional("daily", |value| bound(value, unit));
    let windows =
        object.optional("windows", |value| windows::read(value, unit)).unwrap_or_default();
    let start = object.optional("start", instant).unwrap_or(Window::ALWAYS.start);
    let end = object.optional("end", instant).unwrap_or(Window::ALWAYS.end);
    let zone = object.optional("tz", |value| zone(value, zones)).unwrap_or_else(Zone::utc);
    let flex = object.optional("day_flex", day_flex).unwrap_or_default();
    let daily = windows::join_day(object, daily, &windows)?;
    let said = Said::read(object);
    let status = object.optional("status", |value| word(value, &STATUSES));
    let parent = object.optional("parent", whole_number);
    let handle = object.optional("handle", handle_text).flatten();
    let on_expiry = object.optional("on_expiry", |value| word(value, &ON_EXPIRY));
    let tolerance_ppm = object.optional("tolerance_ppm", |value| up_to(value, 1_000_000));
    let late_reserve_bp = object.optional("late_reserve_bp", |value| up_to(value, 10_000));
    let orders = object.optional("orders", orders::read).map(Arc::new);
    let alerts = object.optional("alerts", alerts::read).unwrap_or_default();
    let name = read_name(object, id.unwrap_or_default());
    let campaign = match bids {
        Bids::Read => campaigns::campaign(object, id.unwrap_or_default(), &name, unit),
        Bids::Known(_) => None,
    };
    let is_campaign = campaign.is_some() || bids == Bids::Known(true);
    let (Some(id), Some(limit), true) = (id, limit, object.is_sound()) else { return None };
    let flight = Window { start, end };
    let base = PlanSpec {
        daily: daily.is_some(),
        ..PlanSpec::new(id, Strategy::Asap, flight, zone.clone())
    };
    let pacing = said.pacing(base, is_campaign);
    let mut pacing = pacing.map_err(|error| object.fault_here(error)).ok()?;
    if flex != DayFlex::default() && daily.is_none() {
        object
            .fault("day_flex", "the budget has no daily limit, expected `daily` beside `day_flex`");
        return None;
    }
    pacing.day_target = daily.filter(|_| flex.percent != PERCENT);
    let period = daily.and_then(|daily| flex.period(daily));
    if period.is_some_and(|period| windows.get(period.period).is_some()) {
        object.fault("day_flex", "it bounds the same time as a window, expected one of both");
        return None;
    }
    let day = daily.map(|daily| WindowLimit::fixed(Period::Day, flex.cap(daily)));
    let spec = BudgetSpec {
        id,
        unit,
        limit,
        windows: day.into_iter().chain(period).fold(windows, Windows::with),
        start,
        end,
        zone,
        status: status.unwrap_or(Status::Active),
        parent,
        on_expiry: on_expiry.unwrap_or_default(),
        tolerance_ppm: tolerance_ppm.unwrap_or(0),
        late_reserve_bp: u16::try_from(late_reserve_bp.unwrap_or(0)).unwrap_or(u16::MAX),
        handle,
        idle_ms: 0,
    };
    Some(Budget { spec, name, pacing, line, campaign, orders, alerts })
}

/// The name that a line gives its budget, or one from its id.
fn read_name(object: &mut Object<'_, '_>, id: u64) -> String {
    let name = object.optional("name", |v| text(v, "text", |t| Some(t.to_string())));
    name.unwrap_or_else(|| format!("budget {id}"))
}

/// What a line says of pacing.
struct Said {
    strategy: Option<Strategy>,
    plan: Option<Planned>,
    day_parts: Option<DayParts>,
    gain: Option<u32>,
    roi_micros: Option<i64>,
    shade: bool,
}

/// The shape of a plan.
enum Planned {
    Learned,
    Given(Shape),
}

impl Said {
    fn read(object: &mut Object<'_, '_>) -> Said {
        Said {
            strategy: object.optional("pacing", |v| {
                let names = Strategy::ALL.map(|one| format!("\"{one}\"")).join(", ");
                text(v, &format!("one of {names}"), |t| Strategy::parse(t).ok())
            }),
            plan: object.optional("plan", planned),
            day_parts: object.optional("day_parts", day_parts),
            gain: object.optional("gain", gain),
            roi_micros: object.optional("roi", roi),
            shade: object.optional("shade", flag).unwrap_or(false),
        }
    }

    /// A campaign follows `auto` where it says nothing and there is a time to follow; anything else is `asap`.
    fn pacing(self, base: PlanSpec, is_campaign: bool) -> Result<Pacing, String> {
        let timed = base.daily
            || (base.flight.start != Window::ALWAYS.start && base.flight.end != Window::ALWAYS.end);
        let strategy = self.strategy.unwrap_or(match is_campaign && timed {
            true => Strategy::Auto,
            false => Strategy::Asap,
        });
        let learned = strategy.follows_time() && matches!(self.plan, None | Some(Planned::Learned));
        let shape = match self.plan {
            Some(Planned::Given(shape)) => shape,
            // Until there is a history: people browse by day, machines buy around the clock.
            _ if is_campaign && learned => Shape::default_day(),
            _ => Shape::linear(),
        };
        let spec = PlanSpec {
            strategy,
            shape,
            day_parts: self.day_parts,
            gain: self.gain.unwrap_or(base.gain),
            roi_micros: self.roi_micros,
            shade: self.shade,
            ..base
        };
        let plan = Plan::new(spec).map_err(|error| error.to_string())?;
        Ok(Pacing { plan, learned, day_target: None })
    }
}

/// All of a whole.
const PERCENT: i128 = 100;

/// How far a day may pass its target, and what bounds several days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DayFlex {
    percent: i128,
    period: Option<Period>,
}

impl Default for DayFlex {
    fn default() -> DayFlex {
        DayFlex { percent: PERCENT, period: None }
    }
}

impl DayFlex {
    const EXPECTED: &str = "\"1.00\" to \"2.00\", \"1.75+week\" or \"2.00+month\"";

    /// The cap of a day with this target; rounded down.
    fn cap(self, target: Amount) -> Amount {
        part(target, self.percent, PERCENT)
    }

    /// Seven days' targets a week, 30.4 a month.
    fn period(self, target: Amount) -> Option<WindowLimit> {
        let period = self.period?;
        let tenths = if period == Period::Week { 70 } else { 304 };
        Some(WindowLimit::fixed(period, part(target, tenths, 10)))
    }
}

fn part(amount: Amount, times: i128, of: i128) -> Amount {
    let wide = i128::from(amount.get()) * times / of;
    Amount::new(i64::try_from(wide).unwrap_or(i64::MAX)).min(money::LIMIT_MAX)
}

fn day_flex(value: &Value) -> Result<DayFlex, String> {
    text(value, DayFlex::EXPECTED, |written| {
        let (factor, period) = match written.split_once('+') {
            None => (written, None),
            Some((factor, "week")) => (factor, Some(Period::Week)),
            Some((factor, "month")) => (factor, Some(Period::Month)),
            Some(_) => return None,
        };
        let micros = Unit::parse("USD").ok()?.parse_amount(factor).ok()?.get();
        let percent = i128::from(micros / 10_000);
        let sound = micros % 10_000 == 0 && (PERCENT..=2 * PERCENT).contains(&percent);
        sound.then_some(DayFlex { percent, period })
    })
}

/// `""` is none, as `null` is.
fn handle_text(value: &Value) -> Result<Option<Handle>, String> {
    match value.as_str() {
        Some("") => Ok(None),
        Some(text) => Handle::parse(text).map(Some).map_err(|error| error.to_string()),
        None => Err(format!("found {}, expected text such as \"team-42/gpt-5\"", shown(value))),
    }
}

/// Ids of the budgets of a file by handle: a parent may be told by its handle, also one that stands below. Of two with one handle
/// the first counts; the file is refused for it.
#[derive(Debug, Default)]
struct ParentIds(HashMap<String, u64>);

impl ParentIds {
    /// What is no budget here, or not sound, is told where it is read.
    fn of(rows: &[Row]) -> ParentIds {
        let mut ids = HashMap::new();
        for fields in rows.iter().filter_map(|(_, _, fields)| fields.as_ref().ok()) {
            let id = fields.get("id").and_then(|id| whole_number(id).ok());
            let ended = fields.get("status").and_then(Value::as_str) == Some("ended");
            if let (Some(Value::String(handle)), Some(id), false) =
                (fields.get("handle"), id, ended)
            {
                ids.entry(handle.clone()).or_insert(id);
            }
        }
        ParentIds(ids)
    }

    /// Writes the id where the handle of a parent stands: from here on a budget's parent is an id, whatever it is called later.
    fn resolve(&self, fields: &mut Map<String, Value>) -> Result<(), String> {
        let Some(Value::String(parent)) = fields.get("parent") else { return Ok(()) };
        if Handle::check(parent).is_err() {
            return Ok(());
        }
        let Some(id) = self.0.get(parent) else {
            return Err(format!(
                "parent: found {parent:?}, expected the id or the handle of a budget of this file"
            ));
        };
        fields.insert("parent".to_owned(), Value::from(*id));
        Ok(())
    }
}

/// An amount that a limit may be, told in the unit as it was written.
pub(crate) fn bound(value: &Value, unit: Unit) -> Result<Amount, String> {
    let found = amount(value, unit)?;
    if (Amount::ZERO..=money::LIMIT_MAX).contains(&found) {
        return Ok(found);
    }
    let most = unit.format(money::LIMIT_MAX);
    Err(format!("found {}, expected 0 to {most} {unit}", shown(value)))
}

fn instant(value: &Value) -> Result<Instant, String> {
    text(value, "an instant as \"2026-01-01T00:00:00Z\"", |t| Instant::parse(t).ok())
}

/// In CSV it is text.
fn flag(value: &Value) -> Result<bool, String> {
    match value.as_str() {
        Some(_) => word(value, &[("true", true), ("false", false)]),
        None => boolean(value),
    }
}

pub(crate) fn up_to(value: &Value, most: u32) -> Result<u32, String> {
    let number = whole_number(value).ok().and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| *number <= most);
    number.ok_or_else(|| format!("found {}, expected 0 to {most}", shown(value)))
}

fn gain(value: &Value) -> Result<u32, String> {
    let number = whole_number(value).ok().and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| gate_pacing::GAINS.contains(number));
    let (least, most) = (gate_pacing::GAINS.start(), gate_pacing::GAINS.end());
    number.ok_or_else(|| format!("found {}, expected {least} to {most}", shown(value)))
}

/// Value wanted for each unit spent, as decimal text.
fn roi(value: &Value) -> Result<i64, String> {
    let unit = Unit::parse("USD").expect("a currency");
    let factor = amount(value, unit).map(Amount::get);
    factor.ok().filter(|micros| (1..=1_000_000_000).contains(micros)).ok_or_else(|| {
        format!(
            "found {}, expected the value wanted for each unit spent, as \"1.5\"; at most \"1000\"",
            shown(value)
        )
    })
}

fn day_parts(value: &Value) -> Result<DayParts, String> {
    let Some(written) = value.as_str() else {
        return Err(format!(
            "found {}, expected text such as \"mon-fri 08:00-20:00\"",
            shown(value)
        ));
    };
    DayParts::parse(written).map_err(|error| error.to_string())
}

pub(crate) fn zone(value: &Value, zones: &mut ZoneCache) -> Result<Zone, String> {
    let Some(name) = value.as_str() else {
        return Err(format!(
            "found {}, expected a time zone such as \"Europe/Paris\"",
            shown(value)
        ));
    };
    zones.get(name).map_err(|error| error.to_string())
}

/// A name, a list of numbers, or numbers with spaces between them as CSV has it.
fn planned(value: &Value) -> Result<Planned, String> {
    match value.as_str() {
        Some("learned") => return Ok(Planned::Learned),
        Some("linear") => return Ok(Planned::Given(Shape::linear())),
        Some("day") => return Ok(Planned::Given(Shape::default_day())),
        _ => {}
    }
    let numbers: Option<Vec<u16>> = match value {
        Value::Array(list) => {
            list.iter().map(|number| u16::try_from(number.as_u64()?).ok()).collect()
        }
        Value::String(text) => text.split_whitespace().map(|number| number.parse().ok()).collect(),
        _ => None,
    };
    let weights = numbers.ok_or_else(|| {
        let most = gate_pacing::WEIGHT_MAX;
        format!(
            "found {}, expected \"learned\", \"linear\", \"day\", or 24 or 168 whole numbers from 0 to {most}",
            shown(value)
        )
    })?;
    Shape::hourly(&weights).map(Planned::Given).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use ledger::Amount;

    use super::*;

    fn read_text(ending: &str, text: &str) -> Result<Vec<Budget>, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("b.{ending}"));
        std::fs::write(&path, text).unwrap();
        read(&path).map_err(|errors| {
            let place = format!("{}:", path.display());
            errors.iter().map(|e| e.to_string().replace(&place, "")).collect()
        })
    }

    #[test]
    fn what_is_sound_and_hardly_meant_is_warned_of() {
        let text = r#"{"id":1,"limit":"5","end":"2026-01-01T00:00:00Z"}
{"id":2,"limit":"5","daily":"50"}
{"id":3,"limit":"5","daily":"5","start":"2025-01-01T00:00:00Z","end":"2026-01-01T00:00:01Z"}
{"id":4,"limit":"5","daily":"50","end":"2026-01-01T00:00:00Z","status":"ended"}
{"id":5,"limit":"1000.00","daily":"100.00","pacing":"schedule"}
{"id":6,"limit":"100000","daily":"1440","pacing":"schedule"}
{"id":7,"limit":"60","pacing":"schedule","start":"2026-01-01T00:00:00Z","end":"2026-01-01T01:00:00Z"}
{"id":8,"limit":"59","pacing":"schedule","start":"2026-01-01T00:00:00Z","end":"2026-01-01T01:00:00Z"}
{"id":9,"limit":"9","bid":"1","creatives":[{"id":"a","format":"banner","sizes":"any","adomain":["a.example"],"click":"https://a.example","markup":"${WEIR_CLICK}${WEIR_CLIK}"}]}
{"id":10,"limit":"9","bid":"1","creatives":[{"id":"a","format":"banner","sizes":"any","adomain":["a.example"],"click":"https://a.example","markup":"${WEIR_BURL}"}]}
"#;
        let budgets = read_text("jsonl", text).unwrap();
        let now = Instant::parse("2026-01-01T00:00:00Z").unwrap();
        let told: Vec<String> =
            warnings(&budgets, "b.jsonl", now).iter().map(|(_, told)| told.to_string()).collect();
        let expected = [
            "b.jsonl:1: budget 1: its flight is over since 2026-01-01T00:00:00Z, so it never spends;",
            "b.jsonl:2: budget 2: a day may spend 50.00 USD, which is above the limit of 5.00 USD",
            "b.jsonl:5: budget 5: its plan frees about 0.069444 USD per minute, so an ask of 1.00 USD waits longer",
            "b.jsonl:8: budget 8: its plan frees about 0.983333 USD per minute",
            "b.jsonl:9: budget 9: creative a: ${WEIR_CLIK} in its markup is no macro",
            "b.jsonl:10: budget 10: creative a: nothing leads to its `click`",
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.starts_with(expected), "{expected} not in {told}");
        }
    }

    /// The budgets in the blocks of a page: lines of `jsonl`, and `json` of one object or one per line.
    fn examples(page: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            if !matches!(line, "```json" | "```jsonl") {
                continue;
            }
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let is_spread = body.first() == Some(&"{");
            let objects = if is_spread {
                vec![body.concat()]
            } else {
                body.iter().map(ToString::to_string).collect()
            };
            found.extend(
                objects
                    .into_iter()
                    .filter(|object| object.contains("\"id\"") && object.contains("\"limit\"")),
            );
        }
        found
    }

    #[test]
    fn the_examples_of_the_pages_spend_as_pasted() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let now = Instant::from_ms(u64::try_from(since.as_millis()).unwrap());
        for (page, count) in [("README.md", 1), ("docs/campaigns.md", 3)] {
            let text = std::fs::read_to_string(root.join(page)).unwrap();
            let examples = examples(&text);
            assert!(examples.len() >= count, "{page}: {examples:#?}");
            for example in examples {
                let read =
                    read_text("jsonl", &example).unwrap_or_else(|told| panic!("{page}: {told:?}"));
                assert_eq!(warnings(&read, page, now), [], "{page}");
                let budget = &read[0];
                let strategy = budget.pacing.plan.spec().strategy;
                let refuses = matches!(strategy, Strategy::Schedule | Strategy::Coin);
                assert!(
                    budget.spec.start <= now && budget.spec.status == Status::Active,
                    "{page}: {example}"
                );
                assert!(!refuses, "{page}: its first asks are refused: {example}");
            }
        }
    }

    /// The file is being saved, was cut, is gone, became a folder or a pipe, or the line is huge: each is told, and none waits.
    #[test]
    fn a_line_that_cannot_be_shown_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.jsonl");
        let long = "x".repeat(70_000);
        let text = format!(
            "{{\"id\":1,\"limit\":\"5\"}}\n{{\"id\":2,\"limit\":\"5\",\"name\":\"{long}\"}}\n"
        );
        std::fs::write(&path, &text).unwrap();
        let lines = read_lines(&path).unwrap_or_default();
        let places: Vec<Place> = lines.iter().filter_map(|line| line.place).collect();
        let Some(place) = places.first() else { panic!("no line has a place") };
        assert_eq!(place.read(&path).unwrap(), r#"{"id":1,"limit":"5"}"#);
        std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
        let marked = read_lines(&path).unwrap_or_default();
        let behind_the_mark = marked.first().and_then(|line| line.place);
        assert_eq!(behind_the_mark.unwrap().read(&path).unwrap(), r#"{"id":1,"limit":"5"}"#);
        if let Some(huge) = places.get(1) {
            let told = huge.read(&path).unwrap_err();
            assert!(told.contains("line 2 has") && told.contains("at most 65536"), "{told}");
        }
        for other in
            [text.replace('5', "6"), text[..9].to_string(), String::new(), "\u{fffd}".repeat(20)]
        {
            std::fs::write(&path, other).unwrap();
            let told = place.read(&path).unwrap_err();
            assert!(told.contains("has changed since line 1 was read"), "{told}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(place.read(&path).unwrap_err().contains("cannot be read"));
        std::fs::create_dir(&path).unwrap();
        assert!(place.read(&path).unwrap_err().contains("it is no file"));
    }

    #[test]
    fn budgets_and_their_parents_are_named_by_handle() {
        let text = r#"{"id":2,"handle":"llm/a/bob","parent":"llm/a","limit":"5"}
            {"id":1,"handle":"llm/a","limit":"9"}
            {"id":3,"parent":"1","limit":"5"}
            {"id":4,"handle":"old","status":"ended","limit":"5"}
            {"id":5,"handle":"old","parent":null,"limit":"5"}"#;
        let read = read_text("jsonl", text).unwrap();
        let names: Vec<_> = read
            .iter()
            .map(|budget| (budget.spec.handle.as_ref().map(Handle::as_str), budget.spec.parent))
            .collect();
        let expected = [
            (Some("llm/a/bob"), Some(1)),
            (Some("llm/a"), None),
            (None, Some(1)),
            (Some("old"), None),
            (Some("old"), None),
        ];
        assert_eq!(names, expected);
        let text = "id,handle,parent,limit\n1,llm/a,,9\n2,llm/a/bob,llm/a,5\n3,,1,5\n";
        let read = read_text("csv", text).unwrap();
        assert_eq!(
            read.iter().map(|b| b.spec.parent).collect::<Vec<_>>(),
            [None, Some(1), Some(1)]
        );
        assert_eq!(read[1].spec.handle, Some(Handle::parse("llm/a/bob").unwrap()));
    }

    #[test]
    fn wrong_handles_are_told_with_their_line() {
        let long = "h".repeat(10_240);
        let text = format!(
            "{{\"id\":1,\"handle\":\"a\",\"limit\":\"9\"}}
{{\"id\":2,\"handle\":\"a\",\"limit\":\"9\"}}
{{\"id\":3,\"handle\":\"{long}\",\"limit\":\"9\"}}
{{\"id\":4,\"handle\":\"1001\",\"limit\":\"9\"}}
{{\"id\":5,\"handle\":\"te\u{430}m\",\"limit\":\"9\"}}
{{\"id\":6,\"handle\":7,\"limit\":\"9\"}}
{{\"id\":7,\"parent\":\"nobody\",\"limit\":\"9\"}}
{{\"id\":8,\"handle\":\"self\",\"parent\":\"self\",\"limit\":\"9\"}}"
        );
        let errors = read_text("jsonl", &text).unwrap_err();
        let expected = [
            "2: budget 2: handle \"a\" is that of budget 1; a handle names one live budget; the other one stands on line 1",
            "3: handle: found 10240 bytes, a handle has 1 to 128",
            "4: handle: found \"1001\", which has digits only and is an id",
            "5: handle: found '\u{430}' at character 3, expected one of",
            "6: handle: found 7, expected text such as",
            "7: parent: found \"nobody\", expected the id or the handle of a budget of this file",
            "8: budget 8: more than 4 levels of parents, or a circle",
        ];
        for expected in expected {
            let told = errors.iter().any(|error| error.trim_start().starts_with(expected));
            assert!(told, "{expected} not in {errors:#?}");
        }
        assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    }

    #[test]
    fn an_empty_handle_is_none() {
        let text = "{\"id\":1,\"handle\":\"\",\"limit\":\"9\"}\n{\"id\":2,\"handle\":\"\",\"limit\":\"9\"}\n{\"id\":3,\"handle\":null,\"limit\":\"9\"}\n";
        let read = read_text("jsonl", text).unwrap();
        assert!(read.len() == 3 && read.iter().all(|budget| budget.spec.handle.is_none()));
    }

    #[test]
    fn a_full_line_and_a_short_one() {
        let text = r#"{"id":1,"name":"spring","unit":"USD","limit":"1000.00","daily":"100.00","start":"2026-01-01T00:00:00Z","end":"2027-01-01T00:00:00Z","tz":"Europe/Paris","pacing":"schedule","plan":"linear","status":"active","parent":null}

{"id":2,"limit":"5","unit":"count","parent":null}
"#;
        let budgets = read_text("jsonl", text).unwrap();
        assert_eq!(budgets[0].spec.limit, Amount::new(1_000_000_000));
        assert_eq!(budgets[0].spec.windows.day_limit(), Some(Amount::new(100_000_000)));
        assert_eq!(budgets[0].name, "spring");
        assert_eq!(budgets[1].spec.limit, Amount::new(5));
        assert_eq!(budgets[1].name, "budget 2");
    }

    #[test]
    fn a_flexible_day_has_a_target_a_cap_and_perhaps_a_period() {
        let one = |fields: &str| {
            let line = format!("{{\"id\":1,\"limit\":\"1000\"{fields}}}\n");
            read_text("jsonl", &line).map(|mut budgets| budgets.remove(0))
        };
        let micros = |units: i64| Some(Amount::new(units * 1_000_000));
        let hard = one(r#","daily":"100""#).unwrap();
        assert_eq!(
            (hard.spec.windows.day_limit(), hard.pacing.day_target, hard.spec.windows.all().len()),
            (micros(100), None, 1)
        );
        let flexible = one(r#","daily":"100","day_flex":"1.25""#).unwrap();
        assert_eq!(
            (flexible.spec.windows.day_limit(), flexible.pacing.day_target),
            (micros(125), micros(100))
        );
        for (flex, period, cap) in
            [("1.75+week", Period::Week, 700), ("2.00+month", Period::Month, 3_040)]
        {
            let budget = one(&format!(r#","daily":"100","day_flex":"{flex}""#)).unwrap();
            let cap = Amount::new(cap * 1_000_000);
            let expected = Some(WindowLimit::fixed(period, cap));
            assert_eq!(budget.spec.windows.get(period), expected, "{flex}");
            assert_eq!(budget.pacing.day_target, micros(100), "{flex}");
        }
        for wrong in ["0.99", "2.01", "1.001", "1.5+year", "much"] {
            let errors = one(&format!(r#","daily":"100","day_flex":"{wrong}""#)).unwrap_err();
            assert!(errors[0].starts_with("1: day_flex: found"), "{errors:?}");
        }
        let errors = one(r#","day_flex":"1.25""#).unwrap_err();
        assert!(errors[0].contains("expected `daily` beside `day_flex`"), "{errors:?}");
    }

    #[test]
    fn a_campaign_with_a_day_follows_auto_and_learns_its_plan() {
        let creative = r#","bid":"2","creatives":[{"id":"c","format":"banner","sizes":["300x250"],"adomain":["a.example"],"markup":"x"}]"#;
        let one = |fields: String| {
            let line = format!("{{\"id\":1,\"limit\":\"1000\"{fields}}}\n");
            read_text("jsonl", &line).unwrap().remove(0).pacing
        };
        let campaign = one(format!(r#","daily":"10"{creative}"#));
        assert_eq!((campaign.plan.spec().strategy, campaign.learned), (Strategy::Auto, true));
        let endless = one(creative.to_string());
        assert_eq!((endless.plan.spec().strategy, endless.learned), (Strategy::Asap, false));
        let plain = one(r#","daily":"10""#.to_string());
        assert_eq!(plain.plan.spec().strategy, Strategy::Asap);
        let given =
            one(r#","daily":"10","pacing":"schedule","plan":"day","gain":128,"roi":"1.5""#
                .to_string());
        assert_eq!((given.learned, given.plan.spec().gain), (false, 128));
        assert_eq!(given.plan.spec().roi_micros, Some(1_500_000));
        assert_eq!(given.plan.spec().shape, Shape::default_day());
    }

    #[test]
    fn csv_says_the_same_as_jsonl() {
        let csv = "id,limit,daily,pacing,parent\n1,1000.00,100.00,schedule,\n2,10,,asap,1\n";
        let json = "\n{\"id\":1,\"limit\":\"1000.00\",\"daily\":\"100.00\",\"pacing\":\"schedule\"}\n{\"id\":2,\"limit\":\"10\",\"pacing\":\"asap\",\"parent\":1}\n";
        assert_eq!(read_text("csv", csv), read_text("jsonl", json));
    }

    #[test]
    fn a_table_that_ends_within_a_line_or_a_quote_is_refused_at_every_byte() {
        let whole = "id,limit,name,status\r\n1,30.00,\"a, \"\"b\"\" \nc\",paused\r\n2,5.00,d\"e,\n";
        assert_eq!(read_text("csv", whole).unwrap().len(), 2);
        let line_ends = ["id,limit,name,status\r\n".len(), whole.len() - "2,5.00,d\"e,\n".len()];
        for bytes in (1..whole.len()).filter(|bytes| !line_ends.contains(bytes)) {
            let errors = read_text("csv", &whole[..bytes]).unwrap_err();
            let told = ["the file ends within this line", "never ends"];
            assert!(told.iter().any(|told| errors[0].contains(told)), "{bytes}: {errors:?}");
        }
        assert_eq!(
            read_text("csv", "id,limit,name\n1,5,a\n2,5,\"b\n3,5,c\n").unwrap_err(),
            [
                "3: a cell that begins here with a quote never ends; close the quote, or is the file cut?"
            ]
        );
        assert_eq!(
            read_text("csv", "id,limit,status\n1,30.00,").unwrap_err(),
            ["2: the file ends within this line; end it with a line feed, or is the file cut?"]
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let json = "{\"id\":1,\"limit\":\"10\"}\n";
        let csv = "id,limit\n1,10\n";
        for (ending, text) in [("jsonl", json), ("csv", csv)] {
            assert_eq!(read_text(ending, &format!("\u{feff}{text}")), read_text(ending, text));
            assert!(read_text(ending, &format!("{text}\u{feff}{text}")).is_err(), "only in front");
        }
    }

    #[test]
    fn other_separators_are_told_with_what_to_do() {
        for other in [';', '\t'] {
            let text = format!("id{other}limit\n1{other}10,00\n");
            let errors = read_text("csv", &text).unwrap_err();
            assert_eq!(errors.len(), 1, "{errors:?}");
            let expected = format!("1: columns are separated by {other:?} here, expected ','");
            assert!(errors[0].starts_with(&expected), "{errors:?}");
        }
        assert_eq!(read_text("csv", "id,limit\n").unwrap().len(), 0);
    }

    #[test]
    fn a_column_that_is_there_twice_is_refused() {
        let twice = "id,name,limit,limit,name\n1,a,5,7,b\n";
        assert_eq!(
            read_text("csv", twice).unwrap_err(),
            [
                "1: limit: the column appears twice (3 and 4)",
                "1: name: the column appears twice (2 and 5)"
            ]
        );
        // Spreadsheets leave columns without a name, and without anything in them.
        assert_eq!(read_text("csv", "id,limit,,\n1,5,,\n").unwrap().len(), 1);
    }

    #[test]
    fn limits_out_of_range_are_told_in_their_unit() {
        for (line, expected) in [
            (
                r#"{"id":1,"limit":"-5.00"}"#,
                r#"1: limit: found "-5.00", expected 0 to 1000000000000.00 USD"#,
            ),
            (
                r#"{"id":1,"limit":"5","daily":-1}"#,
                "1: daily: found -1, expected 0 to 1000000000000.00 USD",
            ),
            (
                r#"{"id":1,"unit":"count","limit":-5}"#,
                "1: limit: found -5, expected 0 to 1000000000000000000 count",
            ),
        ] {
            assert_eq!(read_text("jsonl", line).unwrap_err(), [expected]);
        }
    }

    #[test]
    fn an_id_may_be_written_as_text() {
        let ids = |text: &str| read_text("jsonl", text).map(|budgets| budgets[0].spec.id);
        assert_eq!(ids(r#"{"id":"7","limit":"1"}"#), Ok(7));
        let twice = "{\"id\":\"7\",\"limit\":\"1\"}\n{\"id\":7,\"limit\":\"1\"}\n";
        assert!(ids(twice).unwrap_err()[0].contains("used twice"), "it is the same id");
        assert!(
            ids(r#"{"id":"seven","limit":"1"}"#).unwrap_err()[0]
                .starts_with("1: id: found \"seven\"")
        );
    }

    #[test]
    fn every_bad_line_is_told() {
        let text = r#"{"id":1,"limit":"10.0000001"}
{"id":2}
nonsense
{"id":3,"limit":"1","colour":"red","pacing":"fast","tz":"Mars/Base"}
{"id":4,"limit":1.5}
{"id":5,"limit":"1","parent":77}
{"id":5,"limit":"1"}
[1]
{"id":6,"limit":"1","limit":"2"}
"#;
        let errors = read_text("jsonl", text).unwrap_err();
        for expected in [
            "1: limit: found \"10.0000001\"",
            "2: limit: missing",
            "3: not JSON",
            "4: colour: there is no such field",
            "4: pacing: found \"fast\", expected one of \"asap\"",
            "4: tz:",
            "5: limit: found 1.5, expected an amount as text",
            "6: budget 5: parent 77 is not a budget",
            "6: budget 5: the id is used twice; ids must be unique; the other one stands on line 7",
            "8: found [1], expected one object per line",
            "9: field \"limit\" appears twice",
        ] {
            assert!(
                errors.iter().any(|e| e.starts_with(expected)),
                "{expected} not in {errors:#?}"
            );
        }
    }

    #[test]
    fn fifty_thousand_budgets_are_read() {
        let line = |id| {
            format!(
                "{{\"id\":{id},\"limit\":\"1000.00\",\"daily\":\"10\",\"pacing\":\"schedule\"}}\n"
            )
        };
        let text: String = (1..=50_000).map(line).collect();
        assert_eq!(read_text("jsonl", &text).unwrap().len(), 50_000);
    }
}
