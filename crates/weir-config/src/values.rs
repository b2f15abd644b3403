//! The types that a key of the configuration can have: how each is written, read and printed.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use door_transport::cores::CoreList;
use door_transport::{TaskRun, Transport};
use fix_session::Checks;
use gate_auction::{Conversion, Exclusive, Pricing, Rank};
use ledger_journal::Durability;
use money::{CurrencyCode, Unit};
use openrtb::Purposes;

use crate::listen::Listen;

/// What a key is set to, as it was written.
#[derive(Clone, Debug)]
pub enum Written {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Written>),
    Other(&'static str),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Written::Text(text) => write!(f, "\"{text}\""),
            Written::Integer(number) => write!(f, "{number}"),
            Written::Boolean(yes) => write!(f, "{yes}"),
            Written::List(_) => write!(f, "a list"),
            Written::Other(kind) => write!(f, "a {kind}"),
        }
    }
}

/// A type that a key can have.
pub(crate) trait Value: Sized {
    /// What to write, for errors.
    const EXPECTED: &'static str;
    /// Is it written without quotes, as a number or a boolean?
    const IS_BARE: bool = false;
    fn read(written: &Written) -> Option<Self>;
    /// What was written that is no such value.
    fn found(written: &Written) -> String {
        written.to_string()
    }
    fn print(&self) -> String;
    /// The value, where it is a whole number.
    fn number(&self) -> Option<u64> {
        None
    }
}

macro_rules! integer_value {
    ($($type:ty = $expected:literal),*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            const IS_BARE: bool = true;
            fn read(written: &Written) -> Option<Self> {
                match written {
                    Written::Integer(number) => <$type>::try_from(*number).ok(),
                    Written::Text(text) => text.parse().ok(),
                    Written::Boolean(_) | Written::List(_) | Written::Other(_) => None,
                }
            }
            fn print(&self) -> String {
                self.to_string()
            }
            fn number(&self) -> Option<u64> {
                u64::try_from(*self).ok()
            }
        }
    )*};
}
integer_value!(
    u8 = "a whole number from 0 to 255",
    u16 = "a whole number from 0 to 65535",
    u32 = "a whole number from 0 to 4294967295",
    u64 = "a whole number, 0 or more",
    usize = "a whole number, 0 or more"
);

macro_rules! text_value {
    ($($type:ty = $expected:literal),*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn read(written: &Written) -> Option<Self> {
                match written {
                    Written::Text(text) => <$type>::from_str(text).ok(),
                    _ => None,
                }
            }
            fn print(&self) -> String {
                format!("{:?}", self.to_string())
            }
        }
    )*};
}
text_value!(
    String = "text in quotes",
    Listen = "an address as \"127.0.0.1:7700\", in numbers (for localhost write 127.0.0.1 or [::1]), where port 0 picks a free one, or \"\" for a door that is off",
    Transport = "\"auto\", \"io_uring\" or \"epoll\"",
    CoreList = "\"auto\" or a list of cores as \"0,2-5\""
);

impl Value for PathBuf {
    const EXPECTED: &'static str = "a path in quotes";
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Text(text) if !text.is_empty() => Some(PathBuf::from(text)),
            _ => None,
        }
    }
    fn print(&self) -> String {
        format!("{:?}", self.display().to_string())
    }
}

macro_rules! word_value {
    ($($type:ty = $expected:literal { $($word:literal = $value:path),* })*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn read(written: &Written) -> Option<Self> {
                match written {
                    $(Written::Text(text) if text == $word => Some($value),)*
                    _ => None,
                }
            }
            fn print(&self) -> String {
                let word = match self { $($value => $word,)* };
                format!("{word:?}")
            }
        }
    )*};
}
/// What pods get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// All impressions of a pod, or none.
    Together,
    /// Each impression by itself.
    Apart,
}

/// When a standby takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// By itself, once no bank speaks.
    Auto,
    /// After a clean stop of the bank.
    Manual,
}

/// What one unit of other currencies is worth in ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(Vec<Conversion>);

impl Rates {
    /// One a currency.
    #[must_use]
    pub fn conversions(&self) -> &[Conversion] {
        &self.0
    }
}

impl Value for Rates {
    const EXPECTED: &'static str = "rates as \"EUR=1.0834,JPY=0.0067\", each above 0 with at most 6 decimals, no currency twice";
    fn read(written: &Written) -> Option<Self> {
        let Written::Text(text) = written else { return None };
        let mut rates: Vec<Conversion> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (code, rate) = part.split_once('=')?;
            let from = CurrencyCode::new(code.trim())?;
            let rate = Unit::parse("USD").ok()?.parse_amount(rate.trim()).ok()?.get();
            if rate <= 0 || rates.iter().any(|other| other.from == from) {
                return None;
            }
            rates.push(Conversion { from, micros_per_unit: rate });
        }
        Some(Rates(rates))
    }
    fn print(&self) -> String {
        let micros = |rate: i64| format!("{}.{:06}", rate / 1_000_000, rate % 1_000_000);
        let rate =
            |rate: &Conversion| format!("{}={}", rate.from.as_str(), micros(rate.micros_per_unit));
        format!("{:?}", self.0.iter().map(rate).collect::<Vec<_>>().join(","))
    }
}

impl Value for Purposes {
    const EXPECTED: &'static str =
        "purposes of the TCF as \"1,3,4\": at least one, each from 1 to 11, none twice";
    fn read(written: &Written) -> Option<Self> {
        let Written::Text(text) = written else { return None };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let numbers = text.split(',').map(str::trim);
        let numbers: Option<Vec<u8>> =
            numbers.map(|part| part.parse().ok().filter(|_| digits(part))).collect();
        Purposes::of(numbers?)
    }
    fn print(&self) -> String {
        let numbers: Vec<String> = self.numbers().map(|number| number.to_string()).collect();
        format!("{:?}", numbers.join(","))
    }
}

impl Value for CurrencyCode {
    const EXPECTED: &'static str = "three letters of a currency, as \"USD\"";
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Text(text) => CurrencyCode::new(text),
            _ => None,
        }
    }
    fn print(&self) -> String {
        format!("{:?}", self.as_str())
    }
}

pub(crate) fn usd() -> CurrencyCode {
    CurrencyCode::new("USD").expect("a currency")
}

/// The worker that has a door which lives on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The worker with this number, from 0.
    Number(u16),
    /// The last.
    Last,
}

impl Home {
    /// Returns the worker's number among so many, from 0; `None` if there is no such worker.
    #[must_use]
    pub fn of(self, workers: usize) -> Option<usize> {
        match self {
            Home::Number(number) => Some(number.into()).filter(|number| *number < workers),
            Home::Last => workers.checked_sub(1),
        }
    }
}

impl Value for Home {
    const EXPECTED: &'static str = "\"last\" or the number of a worker, from 0";
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Text(text) if text == "last" => Some(Home::Last),
            written => u16::read(written).map(Home::Number),
        }
    }
    fn print(&self) -> String {
        match self {
            Home::Last => "\"last\"".into(),
            Home::Number(number) => number.to_string(),
        }
    }
}

impl Value for Vec<String> {
    const EXPECTED: &'static str = "a list of texts as [\"a\", \"b\"]";
    fn read(written: &Written) -> Option<Self> {
        let Written::List(entries) = written else { return None };
        entries.iter().map(String::read).collect()
    }
    fn found(written: &Written) -> String {
        let Written::List(entries) = written else { return written.to_string() };
        let other = entries.iter().position(|entry| String::read(entry).is_none());
        let told = |at: usize| format!("{} as entry {} of the list", entries[at], at + 1);
        other.map_or_else(|| written.to_string(), told)
    }
    fn print(&self) -> String {
        format!("{self:?}")
    }
}

word_value!(
    Checks = "\"off\", \"structure\" or \"full\"" {
        "off" = Checks::Off, "structure" = Checks::Structure, "full" = Checks::Full
    }
    fix_session::Durability = "\"written\" or \"sealed\"" {
        "written" = fix_session::Durability::Written, "sealed" = fix_session::Durability::Sealed
    }
    Pricing = "\"at\", \"first\" or \"second\"" {
        "at" = Pricing::ByAt, "first" = Pricing::First, "second" = Pricing::Second
    }
    Rank = "\"bid\" or \"value\"" { "bid" = Rank::Bid, "value" = Rank::Value }
    Exclusive = "\"no\", \"campaign\" or \"advertiser\"" {
        "no" = Exclusive::No, "campaign" = Exclusive::Campaign, "advertiser" = Exclusive::Advertiser
    }
    Pods = "\"together\" or \"apart\"" { "together" = Pods::Together, "apart" = Pods::Apart }
    Takeover = "\"auto\" or \"manual\"" { "auto" = Takeover::Auto, "manual" = Takeover::Manual }
    TaskRun = "\"defer\" or \"coop\"" { "defer" = TaskRun::Defer, "coop" = TaskRun::Coop }
    Durability = "\"sealed\" or \"os\"" { "sealed" = Durability::Sealed, "os" = Durability::Os }
);

/// A key of an entry that may be left to its section: empty, it is.
impl<T: Value> Value for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Text(text) if text.is_empty() => Some(None),
            written => T::read(written).map(Some),
        }
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "\"\"".to_owned(), T::print)
    }
    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(T::number)
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    const IS_BARE: bool = true;
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Boolean(yes) => Some(*yes),
            Written::Text(text) => text.parse().ok(),
            Written::Integer(_) | Written::List(_) | Written::Other(_) => None,
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

/// What to write; of a number that has a range of its own, one of that range.
pub(crate) fn expected<T: Value>(range: &[RangeInclusive<u64>]) -> String {
    match range.first() {
        Some(range) => format!("a whole number from {} to {}", range.start(), range.end()),
        None => T::EXPECTED.to_owned(),
    }
}

/// What was written, and what would be right.
pub(crate) fn wrong<T: Value>(written: &Written, range: &[RangeInclusive<u64>]) -> String {
    format!("found {}, expected {}", T::found(written), expected::<T>(range))
}

/// What stands in the file.
pub(crate) fn written(value: &toml::de::DeValue<'_>) -> Written {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
            parsed.map_or(Written::Other("number beyond 64 bits"), Written::Integer)
        }
        DeValue::Float(_) => Written::Other("number with a fraction"),
        DeValue::Boolean(yes) => Written::Boolean(*yes),
        DeValue::Datetime(_) => Written::Other("date"),
        DeValue::Array(entries) => {
            Written::List(entries.iter().map(|entry| written(entry.get_ref())).collect())
        }
        DeValue::Table(_) => Written::Other("table"),
    }
}
