//! The lines of a trace: what they look like, and what can be wrong with them. The format is told in
//! [`trace`](super::trace).

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use money::{ASK_MAX, Instant, LIMIT_MAX, Unit};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use super::day::Eligible;
use super::make_rng::hash;

/// Most campaigns of a trace.
pub const CAMPAIGNS_MAX: usize = 1000;
/// Most requests of a trace.
pub const REQUESTS_MAX: usize = 20_000_000;
/// Most bytes of a line.
pub const LINE_BYTES_MAX: u64 = 1 << 20;
/// Reading stops after so many errors.
pub const ERRORS_MAX: usize = 20;

/// What is wrong with a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A file that the operating system does not give us.
    #[error("{file}: cannot be read: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the operating system said.
        why: String,
    },
    /// The name of a file does not tell what is in it.
    #[error("{file}: expected a name that ends in .jsonl, or in .csv for requests alone")]
    Ending {
        /// The file.
        file: String,
    },
    /// A line that cannot be understood, or makes no sense.
    #[error("{file}:{line}: {text}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The value that was found and the one that was expected.
        text: String,
    },
    /// Nothing to simulate.
    #[error("{file}: found no {what}, expected at least one line such as {example}")]
    Nothing {
        /// The file.
        file: String,
        /// What is missing.
        what: &'static str,
        /// A line of that kind.
        example: &'static str,
    },
}

/// The lines of a trace.
#[derive(Debug, Default)]
pub(crate) struct TraceLines {
    pub(crate) campaigns: Vec<CampaignLine>,
    pub(crate) requests: Vec<RequestLine>,
    /// The runs of the requests.
    pub(crate) eligible: Vec<Eligible>,
    /// Where the first day begins, if the trace says so, milliseconds since 1970.
    pub(crate) start_ms: Option<u64>,
    /// Places of the campaigns by their id.
    places: HashMap<u64, u16>,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine {
    /// Where it stands.
    pub(crate) line: u64,
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) id: u64,
    pub(crate) price: i64,
    pub(crate) first: u32,
    pub(crate) count: u16,
}

/// A campaign of a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CampaignLine {
    pub(crate) id: u64,
    budget: Micros,
    #[serde(default)]
    pub(crate) plan: PlanLine,
}

/// The plan of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlanLine {
    /// As its eligible requests came on the first day.
    #[default]
    Learned,
    /// Evenly over the day.
    Linear,
    /// In proportion to weights of the day's 24 hours.
    Hours(Vec<u16>),
}

/// A line of a `.jsonl` file: exactly one of its three kinds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceLine {
    campaign: Option<CampaignLine>,
    start: Option<Millis>,
    t: Option<Millis>,
    id: Option<String>,
    price: Option<Micros>,
    eligible: Option<Values>,
}

impl CampaignLine {
    /// Micros, at least 1.
    pub(crate) fn budget(&self) -> i64 {
        self.budget.0
    }
}

/// Reads a trace. Errors are collected, so that they can be mended at once.
///
/// # Errors
/// All that is wrong with it, at most [`ERRORS_MAX`] of them.
pub(crate) fn read(path: &Path) -> Result<TraceLines, Vec<TraceError>> {
    let mut reader = Reader { file: path.display().to_string(), ..Reader::default() };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("jsonl" | "ndjson") => {
            reader.json_file(path);
            reader.needs_campaigns();
        }
        Some("csv") => {
            reader.json_file(&path.with_extension("campaigns.jsonl"));
            reader.needs_campaigns();
            reader.csv_file(path);
        }
        _ => return Err(vec![TraceError::Ending { file: reader.file }]),
    }
    reader.needs_requests();
    if reader.errors.is_empty() { Ok(reader.lines) } else { Err(reader.errors) }
}

/// State of reading a trace.
#[derive(Default)]
struct Reader {
    /// The file being read.
    file: String,
    lines: TraceLines,
    errors: Vec<TraceError>,
}

impl Reader {
    fn json_file(&mut self, path: &Path) {
        let Some(file) = self.open(path) else { return };
        let mut reader = BufReader::new(file);
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return self.unreadable(&error),
            }
            let whole = text.ends_with(b"\n") || (text.len() as u64) < LINE_BYTES_MAX;
            let done = if whole { self.json_line(line, &text) } else { Err(too_long()) };
            if self.fails(line, done) || !whole {
                break;
            }
        }
    }

    fn csv_file(&mut self, path: &Path) {
        let Some(file) = self.open(path) else { return };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(file);
        let columns = match reader.headers() {
            Ok(names) => Columns::of(names),
            Err(error) => Err(error.to_string()),
        };
        let columns = match columns {
            Ok(columns) => columns,
            Err(text) => return self.errors.push(self.at(1, text)),
        };
        let mut record = csv::StringRecord::new();
        loop {
            let (line, done) = match reader.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) => {
                    let line = record.position().map_or(0, csv::Position::line);
                    (line, self.csv_line(line, &columns, &record))
                }
                Err(error) => {
                    (error.position().map_or(0, csv::Position::line), Err(csv_error(&error)))
                }
            };
            if self.fails(line, done) {
                break;
            }
        }
    }

    fn json_line(&mut self, line: u64, text: &[u8]) -> Result<(), String> {
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        match serde_json::from_slice(text).map_err(|error| json_error(&error))? {
            TraceLine {
                campaign: Some(campaign),
                start: None,
                t: None,
                id: None,
                price: None,
                eligible: None,
            } => self.campaign(campaign),
            TraceLine {
                campaign: None,
                start: Some(start),
                t: None,
                id: None,
                price: None,
                eligible: None,
            } => self.start(start.0),
            TraceLine {
                campaign: None,
                start: None,
                t: Some(at),
                id,
                price: Some(price),
                eligible: Some(values),
            } => self.request(line, at.0, id.as_deref(), price.0, &values),
            other => Err(other.confused()),
        }
    }

    fn csv_line(
        &mut self,
        line: u64,
        columns: &Columns,
        record: &csv::StringRecord,
    ) -> Result<(), String> {
        let field = |column: usize| record.get(column).unwrap_or_default();
        let named = |name: &'static str| move |text: String| format!("{name}: {text}");
        let at = millis(field(columns.t)).map_err(named("t"))?;
        let price = micros(field(columns.price)).map_err(named("price"))?;
        let values = Values::of_csv(field(columns.eligible)).map_err(named("eligible"))?;
        let id = columns.id.map(field).filter(|id| !id.is_empty());
        self.request(line, at, id, price, &values)
    }

    fn campaign(&mut self, campaign: CampaignLine) -> Result<(), String> {
        let id = campaign.id;
        if !(1..=LIMIT_MAX.get()).contains(&campaign.budget()) {
            return Err(range("budget", campaign.budget(), "0.000001", LIMIT_MAX.get()));
        }
        let place = u16::try_from(self.lines.campaigns.len()).unwrap_or(u16::MAX);
        if usize::from(place) >= CAMPAIGNS_MAX {
            return Err(format!("found campaign {id}, expected at most {CAMPAIGNS_MAX} campaigns"));
        }
        if self.lines.places.insert(id, place).is_some() {
            return Err(format!("found campaign {id} again, expected each campaign once"));
        }
        self.lines.campaigns.push(campaign);
        Ok(())
    }

    fn start(&mut self, start_ms: u64) -> Result<(), String> {
        match self.lines.start_ms.replace(start_ms) {
            None => Ok(()),
            Some(_) => Err("found a second \"start\", expected at most one".to_owned()),
        }
    }

    fn request(
        &mut self,
        line: u64,
        at_ms: u64,
        id: Option<&str>,
        price: i64,
        values: &Values,
    ) -> Result<(), String> {
        if self.lines.requests.len() == REQUESTS_MAX {
            return Err(format!("found one more request, expected at most {REQUESTS_MAX}"));
        }
        if !(0..=ASK_MAX.get()).contains(&price) {
            return Err(range("price", price, "0.00", ASK_MAX.get()));
        }
        let first = self.lines.eligible.len();
        for &(id, value) in &values.0 {
            match self.value(id, value) {
                Ok(eligible) => self.lines.eligible.push(eligible),
                Err(text) => {
                    self.lines.eligible.truncate(first);
                    return Err(text);
                }
            }
        }
        // 20 million requests of at most 1,000 values could be more than 32 bits count.
        let [first, count] = [first, values.0.len()].map(u32::try_from);
        let (Ok(first), Ok(count)) = (first, count) else {
            return Err("found more than 4,294,967,295 values, expected fewer".to_owned());
        };
        let id = id.map_or_else(|| hash(line, "line"), |id| hash(0, id));
        // At most `CAMPAIGNS_MAX`, because each is known and named once.
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.lines.requests.push(RequestLine { line, at_ms, id, price, first, count });
        Ok(())
    }

    fn value(&self, id: u64, value: i64) -> Result<Eligible, String> {
        let Some(&campaign) = self.lines.places.get(&id) else {
            return Err(format!(
                "eligible: found campaign {id}, expected a campaign of a line before this one"
            ));
        };
        if !(1..=ASK_MAX.get()).contains(&value) {
            return Err(range("eligible", value, "0.000001", ASK_MAX.get()));
        }
        Ok(Eligible { campaign, value })
    }

    fn needs_campaigns(&mut self) {
        const EXAMPLE: &str = r#"{"campaign":{"id":1,"budget":"100.00"}}"#;
        self.needs("campaign", EXAMPLE, self.lines.campaigns.is_empty());
    }

    fn needs_requests(&mut self) {
        const EXAMPLE: &str =
            r#"{"t":"2026-11-20T08:00:00Z","price":"0.0021","eligible":{"1":"0.004"}}"#;
        self.needs("request", EXAMPLE, self.lines.requests.is_empty());
    }

    /// Notes what is missing from the file just read, unless errors explain it.
    fn needs(&mut self, what: &'static str, example: &'static str, missing: bool) {
        if missing && self.errors.is_empty() {
            self.errors.push(TraceError::Nothing { file: self.file.clone(), what, example });
        }
    }

    /// Opens a file to be read from now on.
    fn open(&mut self, path: &Path) -> Option<File> {
        self.file = path.display().to_string();
        match File::open(path) {
            Ok(file) => Some(file),
            Err(error) => {
                self.unreadable(&error);
                None
            }
        }
    }

    fn unreadable(&mut self, error: &std::io::Error) {
        self.errors
            .push(TraceError::Unreadable { file: self.file.clone(), why: error.to_string() });
    }

    fn at(&self, line: u64, text: String) -> TraceError {
        TraceError::Line { file: self.file.clone(), line, text }
    }

    /// Notes what went wrong with a line; whether to stop.
    fn fails(&mut self, line: u64, done: Result<(), String>) -> bool {
        if let Err(text) = done {
            self.errors.push(self.at(line, text));
        }
        self.errors.len() >= ERRORS_MAX
    }
}

impl TraceLine {
    /// What is wrong with a line that is of no kind, or of two.
    fn confused(&self) -> String {
        let fields = [
            ("campaign", self.campaign.is_some()),
            ("start", self.start.is_some()),
            ("t", self.t.is_some()),
            ("id", self.id.is_some()),
            ("price", self.price.is_some()),
            ("eligible", self.eligible.is_some()),
        ];
        let found: Vec<_> = fields.iter().filter(|field| field.1).map(|field| field.0).collect();
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        format!(
            "found {found}; expected campaign alone, start alone, or t, price, eligible (and id)"
        )
    }
}

/// Where the fields of a request stand in a `.csv` file.
struct Columns {
    t: usize,
    price: usize,
    eligible: usize,
    id: Option<usize>,
}

impl Columns {
    fn of(names: &csv::StringRecord) -> Result<Columns, String> {
        const EXPECTED: &str = "expected t, price, eligible and, if there are any, id";
        let known = ["t", "price", "eligible", "id"];
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(format!("found column {name:?}, {EXPECTED}"));
        }
        let place = |name| names.iter().position(|found| found == name);
        let needed =
            |name| place(name).ok_or_else(|| format!("found no column {name:?}, {EXPECTED}"));
        Ok(Columns {
            t: needed("t")?,
            price: needed("price")?,
            eligible: needed("eligible")?,
            id: place("id"),
        })
    }
}

/// An amount: decimal text, read exactly.
#[derive(Clone, Copy, Debug)]
struct Micros(i64);

/// A point in time, milliseconds since 1970: text of RFC 3339, or seconds.
struct Millis(u64);

/// Values by the id of their campaign.
struct Values(Vec<(u64, i64)>);

impl Values {
    /// `1:0.004 7:0.0025`.
    fn of_csv(text: &str) -> Result<Values, String> {
        let mut values = Values(Vec::new());
        for part in text.split_ascii_whitespace() {
            let Some((id, value)) = part.split_once(':') else {
                return Err(format!("found {part:?}, expected campaign:value such as 1:0.004"));
            };
            values.add(id, micros(value)?)?;
        }
        Ok(values)
    }

    fn add(&mut self, id: &str, value: i64) -> Result<(), String> {
        let Ok(id) = id.parse() else {
            return Err(format!("found campaign {id:?}, expected the number of a campaign"));
        };
        if self.0.iter().any(|(other, _)| *other == id) {
            return Err(format!("found campaign {id} twice, expected it once"));
        }
        self.0.push((id, value));
        Ok(())
    }
}

/// Reads exact decimal text of a currency; all of them have the same six decimals here.
fn micros(text: &str) -> Result<i64, String> {
    let unit = Unit::parse("USD").map_err(|error| error.to_string())?;
    unit.parse_amount(text).map(money::Amount::get).map_err(|error| error.to_string())
}

/// Reads RFC 3339, or seconds with or without decimals.
fn millis(text: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || text.is_empty() {
        return Instant::parse(text).map(Instant::ms).map_err(|error| error.to_string());
    }
    // Seconds have the decimals of an amount, of which three are kept.
    micros(text).and_then(|micros| checked_millis(micros.unsigned_abs() / 1000))
}

fn checked_millis(ms: u64) -> Result<u64, String> {
    let expected =
        || format!("found a time after the year 9999, expected at most {}", Instant::MAX);
    Instant::checked_from_ms(ms).map(Instant::ms).ok_or_else(expected)
}

fn range(what: &str, found: i64, least: &str, most: i64) -> String {
    let text = |micros: i64| match Unit::parse("USD") {
        Ok(unit) => unit.format(money::Amount::new(micros)),
        Err(_) => micros.to_string(),
    };
    format!("{what}: found {}, expected {least} to {}", text(found), text(most))
}

fn too_long() -> String {
    format!("found more than {LINE_BYTES_MAX} bytes without an end, expected a shorter line")
}

/// Without the library's own line number, which counts within our line.
fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    format!("column {}: {}", error.column(), text.strip_suffix(&place).unwrap_or(&text))
}

fn csv_error(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("found {len} fields, expected {expected_len}")
        }
        csv::ErrorKind::Utf8 { err, .. } => {
            format!("found bytes that are not UTF-8 in field {}, expected text", err.field() + 1)
        }
        _ => error.to_string(),
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Micros, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Micros;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount as text in quotes, such as \"0.0021\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Micros, E> {
                micros(text).map(Micros).map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
        struct Time;
        impl Visitor<'_> for Time {
            type Value = Millis;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"2026-11-20T08:00:00Z\", or seconds from 0 on")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
                millis(text).map(Millis).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Millis, E> {
                checked_millis(seconds.saturating_mul(1000)).map(Millis).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Millis, E> {
                if seconds < 0.0 {
                    return Err(E::invalid_value(de::Unexpected::Float(seconds), &self));
                }
                let ms = super::make_rng::whole(seconds * 1000.0);
                checked_millis(ms).map(Millis).map_err(E::custom)
            }
        }
        from.deserialize_any(Time)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Values, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Values;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("values by campaign, such as {\"1\":\"0.004\"}")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut values = Values(Vec::new());
                while let Some((id, value)) = map.next_entry::<String, Micros>()? {
                    values.add(&id, value.0).map_err(de::Error::custom)?;
                }
                Ok(values)
            }
        }
        from.deserialize_map(Pairs)
    }
}

impl<'de> Deserialize<'de> for PlanLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PlanLine, D::Error> {
        struct Plan;
        impl<'de> Visitor<'de> for Plan {
            type Value = PlanLine;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"learned\", \"linear\" or 24 weights, 0 to 65535 and not all 0")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PlanLine, E> {
                match text {
                    "learned" => Ok(PlanLine::Learned),
                    "linear" => Ok(PlanLine::Linear),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<PlanLine, A::Error> {
                let mut hours: Vec<u16> = Vec::with_capacity(24);
                while let Some(weight) = sequence.next_element()? {
                    hours.push(weight);
                    if hours.len() > 24 {
                        return Err(de::Error::invalid_length(hours.len(), &self));
                    }
                }
                if hours.len() < 24 {
                    return Err(de::Error::invalid_length(hours.len(), &self));
                }
                if hours.iter().all(|&weight| weight == 0) {
                    return Err(de::Error::invalid_value(de::Unexpected::Seq, &self));
                }
                Ok(PlanLine::Hours(hours))
            }
        }
        from.deserialize_any(Plan)
    }
}
