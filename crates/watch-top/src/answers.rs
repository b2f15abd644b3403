//! The answers of the admin API that are shown, read leniently: a field that is missing, null or new is no error, for the
//! node may be of another release. Meanings and units are those of `docs/api.md`.

#![allow(missing_docs, reason = "the fields of docs/api.md, under the same names")]

use money::{Amount, Unit};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `GET /v1/node`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub as_of_ms: Option<u64>,
    pub node: Option<u64>,
    pub run: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    pub uptime_ms: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub workers: Vec<Worker>,
    #[serde(deserialize_with = "or_default")]
    pub doors: Vec<Door>,
    #[serde(deserialize_with = "or_default")]
    pub queues: Vec<Queue>,
    #[serde(deserialize_with = "or_default")]
    pub journal: Journal,
    #[serde(deserialize_with = "or_default")]
    pub proof: Proof,
    #[serde(deserialize_with = "or_default")]
    pub errors: Vec<Fault>,
}

/// One core.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Worker {
    pub core: Option<u64>,
    pub busy_ppm: Option<u64>,
    pub wait_ppm: Option<u64>,
    pub decisions_per_s: Option<f64>,
}

/// One door.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Door {
    #[serde(deserialize_with = "or_default")]
    pub door: String,
    /// Where it listens; `None`: it is off; empty: a node of an earlier version, which says nothing of it.
    #[serde(default = "not_said")]
    pub listen: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub verdicts: Vec<VerdictRate>,
    #[serde(deserialize_with = "or_default")]
    pub latency: Latency,
}

fn not_said() -> Option<String> {
    Some(String::new())
}

/// How often a door gave a verdict.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VerdictRate {
    #[serde(deserialize_with = "or_default")]
    pub verdict: String,
    pub per_s: Option<f64>,
}

/// Door to verdict, over the last 10 s.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Latency {
    pub p50_us: Option<u64>,
    pub p99_us: Option<u64>,
    pub p999_us: Option<u64>,
    pub max_us: Option<u64>,
}

/// A bounded queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Queue {
    #[serde(deserialize_with = "or_default")]
    pub queue: String,
    pub depth: Option<u64>,
    pub max: Option<u64>,
}

/// The journal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Journal {
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    pub failure: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub seal_us: SealTimes,
    pub lag_ms: Option<u64>,
    pub unsealed_bytes: Option<u64>,
}

/// How long a seal takes.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SealTimes {
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

/// The last check that no budget is overspent.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Proof {
    pub checked_ms: Option<u64>,
    pub budgets: Option<u64>,
    pub violations: Option<u64>,
    pub held_and_spent_ok: Option<bool>,
}

/// How often something went wrong.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Fault {
    #[serde(deserialize_with = "or_default")]
    pub code: String,
    pub count: Option<u64>,
}

/// `GET /v1/budgets`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Page {
    pub as_of_ms: Option<u64>,
    pub matched: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub budgets: Vec<Budget>,
}

/// One budget of a [`Page`] or a [`Detail`], which have put its amounts into base units.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Budget {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    pub handle: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub unit: String,
    pub campaign: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    pub reason: Option<String>,
    pub since_ms: Option<u64>,
    #[serde(deserialize_with = "amount")]
    pub limit: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub spent: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub debt: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub held: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub available: Option<Amount>,
    pub window_start_ms: Option<u64>,
    pub window_end_ms: Option<u64>,
    #[serde(deserialize_with = "amount")]
    pub window_budget: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub window_planned: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub window_spent: Option<Amount>,
    pub index_ppm: Option<i64>,
    #[serde(deserialize_with = "amount")]
    pub daily: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub day_spent: Option<Amount>,
    pub day_ends_ms: Option<u64>,
    pub asks_per_s: Option<f64>,
    pub grants_per_s: Option<f64>,
    pub refusals_per_s: Option<f64>,
    pub top_refusal: Option<String>,
    pub top_refusals_per_s: Option<f64>,
    #[serde(deserialize_with = "amount")]
    pub spend_minute: Option<Amount>,
    #[serde(deserialize_with = "amounts")]
    pub spark: Vec<Option<Amount>>,
    pub tz: Option<String>,
    pub start_ms: Option<u64>,
    pub end_ms: Option<u64>,
    pub pacing: Option<String>,
    pub parent: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub flags: Vec<String>,
}

impl Budget {
    /// What people who use it call it: its handle, or its name where it has none.
    #[must_use]
    pub fn called(&self) -> &str {
        self.handle.as_deref().unwrap_or(&self.name)
    }
}

impl Budget {
    /// The unit of its amounts; `None` where this release does not know it.
    #[must_use]
    pub fn unit(&self) -> Option<Unit> {
        Unit::parse(&self.unit).ok()
    }
}

/// `GET /v1/budgets/{id}`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Detail {
    #[serde(flatten)]
    pub budget: Budget,
    #[serde(deserialize_with = "or_default")]
    pub lines: BookLines,
    #[serde(deserialize_with = "or_default")]
    pub holds: Holds,
    #[serde(deserialize_with = "or_default")]
    pub caps: Vec<Cap>,
    #[serde(deserialize_with = "or_default")]
    pub windows: Vec<BudgetWindow>,
}

/// A window of a budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BudgetWindow {
    #[serde(deserialize_with = "or_default")]
    pub period: String,
    #[serde(deserialize_with = "amount")]
    pub left: Option<Amount>,
}

/// The lines of a budget's books.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BookLines {
    #[serde(deserialize_with = "amount")]
    pub free: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub purses: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub held: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub suspended: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub expired: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub settled: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub over_settled: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub late: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub inferred: Option<Amount>,
    #[serde(deserialize_with = "amount")]
    pub unknown_order: Option<Amount>,
}

/// Counts of holds since the start of the run.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Holds {
    pub made: Option<u64>,
    pub open: Option<u64>,
    pub settled: Option<u64>,
    pub released: Option<u64>,
    pub expired: Option<u64>,
    pub late: Option<u64>,
}

/// A frequency cap.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cap {
    pub max: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub per: String,
    #[serde(deserialize_with = "or_default")]
    pub of: String,
}

/// `GET /v1/budgets/{id}/refusals`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Refusals {
    #[serde(deserialize_with = "or_default")]
    pub verdicts: Vec<Counted>,
    #[serde(deserialize_with = "or_default")]
    pub why: Vec<Counted>,
}

/// How often something was the answer; as an object or as a pair.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Counted {
    /// `{"verdict":"paced","count":8120}`, or with `reason`.
    Named {
        /// What.
        #[serde(alias = "verdict", alias = "reason")]
        word: String,
        /// How often.
        count: u64,
    },
    /// `["paced",8120]`.
    Pair(String, u64),
}

impl Counted {
    /// What, and how often.
    #[must_use]
    pub fn parts(&self) -> (&str, u64) {
        match self {
            Counted::Named { word, count } | Counted::Pair(word, count) => (word, *count),
        }
    }
}

/// `GET /v1/audit`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Audit {
    #[serde(deserialize_with = "or_default")]
    pub records: Vec<Record>,
}

/// A change that somebody made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Record {
    pub at_ms: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub who: String,
    #[serde(deserialize_with = "or_default")]
    pub action: String,
    #[serde(deserialize_with = "or_default")]
    pub why: String,
    #[serde(deserialize_with = "or_default")]
    pub changes: Vec<Change>,
}

/// What changed of one budget: fields by name.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Change {
    #[serde(deserialize_with = "or_default")]
    pub id: Value,
    #[serde(deserialize_with = "or_default")]
    pub before: serde_json::Map<String, Value>,
    #[serde(deserialize_with = "or_default")]
    pub after: serde_json::Map<String, Value>,
}

impl<'de> Deserialize<'de> for Page {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Page, D::Error> {
        let mut answer = Value::deserialize(from)?;
        in_base_units(&mut answer);
        Page::deserialize(answer).map_err(Error::custom)
    }
}

impl<'de> Deserialize<'de> for Detail {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Detail, D::Error> {
        let mut answer = Value::deserialize(from)?;
        in_base_units(&mut answer);
        Detail::deserialize(answer).map_err(Error::custom)
    }
}

/// Members that are amounts, of a budget, its books and its windows.
const AMOUNTS: [&str; 23] = [
    "limit",
    "spent",
    "debt",
    "held",
    "available",
    "window_budget",
    "window_planned",
    "window_spent",
    "daily",
    "day_spent",
    "spend_minute",
    "free",
    "purses",
    "suspended",
    "expired",
    "settled",
    "over_settled",
    "late",
    "inferred",
    "unknown_order",
    "used",
    "left",
    "spark",
];

/// Budgets of an answer with their amounts in base units, which every unit has; those of a unit that this release does not know are
/// left out.
fn in_base_units(answer: &mut Value) {
    if let Some(budgets) = answer.get_mut("budgets").and_then(Value::as_array_mut) {
        budgets.iter_mut().for_each(in_base_units);
    }
    let unit = answer.get("unit").and_then(Value::as_str).map(Unit::parse);
    if let Some(unit) = unit {
        convert(answer, unit.ok());
    }
}

fn convert(value: &mut Value, unit: Option<Unit>) {
    let Value::Object(members) = value else { return };
    for (name, member) in members {
        match member {
            Value::Object(_) if name != "config" && name != "holds" => convert(member, unit),
            Value::Array(all) if name == "windows" => {
                all.iter_mut().for_each(|window| convert(window, unit));
            }
            Value::Array(all) if name == "spark" => {
                all.iter_mut().for_each(|amount| exact(amount, unit));
            }
            Value::String(_) if AMOUNTS.contains(&name.as_str()) => exact(member, unit),
            _ => {}
        }
    }
}

/// What is no amount stays: it is an error where it is read.
fn exact(amount: &mut Value, unit: Option<Unit>) {
    match (amount.as_str(), unit) {
        (Some(_), None) => *amount = Value::Null,
        (Some(text), Some(unit)) => {
            if let Ok(read) = unit.parse_amount(text) {
                *amount = read.get().to_string().into();
            }
        }
        (None, _) => {}
    }
}

/// Null is nothing.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Base units as text, or null.
fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    Option::<String>::deserialize(from)?.map(base_units).transpose().map_err(Error::custom)
}

/// A list of base units as text, or null.
fn amounts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Option<Amount>>, D::Error> {
    let texts = Option::<Vec<Option<String>>>::deserialize(from)?.unwrap_or_default();
    let read = texts.into_iter().map(|text| text.map(base_units).transpose());
    read.collect::<Result<_, _>>().map_err(Error::custom)
}

fn base_units(text: String) -> Result<Amount, String> {
    let wrong = |_| format!("amount {text:?}: expected a whole number of base units");
    text.parse().map(Amount::new).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_null_or_new_is_no_error() {
        let node: Node = serde_json::from_str(
            r#"{"node":null,"doors":null,"journal":null,"proof":{"violations":0},"new":1}"#,
        )
        .unwrap();
        assert_eq!((node.node, node.doors.len(), node.proof.violations), (None, 0, Some(0)));
        let page: Page = serde_json::from_str("{}").unwrap();
        assert!(page.budgets.is_empty());
    }

    #[test]
    fn amounts_are_whole_numbers_in_text() {
        let read = |text: &str| serde_json::from_str::<Budget>(text);
        let budget = read(r#"{"limit":"-9223372036854775808","spark":["1",null]}"#).unwrap();
        assert_eq!(budget.limit, Some(Amount::new(i64::MIN)));
        assert_eq!(budget.spark, [Some(Amount::new(1)), None]);
        for wrong in [r#"{"limit":1}"#, r#"{"limit":"1.5"}"#, r#"{"limit":"9223372036854775808"}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_detail_is_a_budget_with_more() {
        let text = r#"{"id":"17","unit":"EUR","limit":"-0.5","spark":["1.000001"],"lines":{"free":"5.00"},"windows":[{"period":"hour","left":"2"}],"holds":{"open":null}}"#;
        let detail: Detail = serde_json::from_str(text).unwrap();
        assert_eq!(detail.budget.id, "17");
        assert_eq!(detail.lines.free, Some(Amount::new(5_000_000)));
        assert_eq!(detail.budget.limit, Some(Amount::new(-500_000)));
        assert_eq!(detail.budget.spark, [Some(Amount::new(1_000_001))]);
        assert_eq!(detail.windows[0].left, Some(Amount::new(2_000_000)));
        let read = |text: &str| serde_json::from_str::<Detail>(text);
        assert!(read(r#"{"unit":"EUR","limit":"much"}"#).is_err(), "no amount");
        let strange = read(r#"{"unit":"XYZ9","limit":"5.00"}"#).unwrap();
        assert_eq!(strange.budget.limit, None, "of a unit that this release does not know");
    }

    #[test]
    fn counts_come_as_objects_and_as_pairs() {
        let text = r#"{"verdicts":[{"verdict":"paced","count":2},["busy",1]],"why":[{"reason":"floor","count":3}]}"#;
        let refusals: Refusals = serde_json::from_str(text).unwrap();
        let parts: Vec<_> =
            refusals.verdicts.iter().chain(&refusals.why).map(Counted::parts).collect();
        assert_eq!(parts, [("paced", 2), ("busy", 1), ("floor", 3)]);
    }
}
