//! The body of a bulk change. These types are both its readers and its description.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::extract::{FromBody, Named, read_json};
use super::types::{Decimal, Why, given, present};
use crate::node::Fields;
use crate::problem::Problem;

/// Budgets of one bulk change.
pub(super) const BULK_MAX: usize = 100_000;

/// Budgets by their ids or handles.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByIds {
    /// At most 100,000, each once.
    #[schema(max_items = 100_000, min_items = 1)]
    pub(super) ids: Vec<Named>,
}

/// Budgets by a filter and a search, less some; without either: all.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByFilter {
    #[serde(default)]
    #[schema(
        max_length = 4096,
        pattern = "^(;*[a-z_]+:[^;]*)*;*$",
        example = "status:active;unit:USD"
    )]
    pub(super) filter: String,
    #[serde(default)]
    #[schema(max_length = 4096, example = "sale")]
    pub(super) q: String,
    #[serde(default)]
    #[schema(max_items = 100_000)]
    pub(super) except: Vec<Named>,
}

/// Which budgets a bulk change is about.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = Select)]
#[serde(untagged)]
pub(super) enum Select {
    Ids(ByIds),
    Filter(ByFilter),
}

impl<'de> Deserialize<'de> for Select {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Fields::deserialize(from)?;
        let by_ids = value.contains_key("ids");
        if by_ids && value.len() > 1 {
            let both = "ids beside something else, expected ids alone, or filter, q and except";
            return Err(D::Error::custom(both));
        }
        let value = serde_json::Value::Object(value);
        let read = match by_ids {
            true => ByIds::deserialize(value).map(Select::Ids),
            false => ByFilter::deserialize(value).map(Select::Filter),
        };
        read.map_err(D::Error::custom)
    }
}

/// Pauses budgets, or lets them go on.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkSwitch {
    pub(super) action: SwitchAction,
    pub(super) select: Select,
    /// The number of budgets the page showed as selected.
    #[schema(maximum = 100_000)]
    pub(super) expected: u32,
    /// Judge only.
    #[serde(default)]
    pub(super) dry_run: bool,
    pub(super) why: Why,
}

/// `pause` or `resume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SwitchAction {
    Pause,
    Resume,
}

/// Sets the same limits for all.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkSet {
    #[expect(dead_code, reason = "read to see that it is `set`")]
    action: SetAction,
    pub(super) changes: Limits,
    pub(super) select: Select,
    /// The number of budgets the page showed as selected.
    #[schema(maximum = 100_000)]
    pub(super) expected: u32,
    /// Judge only.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// Limits, also of windows, may become more than a hundred times as large, or go; without this such rows are refused.
    #[serde(default)]
    pub(super) confirm_large: bool,
    pub(super) why: Why,
}

/// `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SetAction {
    Set,
}

/// A value for some of the periods of windows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"minute": "10.00"}))]
pub(super) struct WindowAmounts {
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    minute: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    hour: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    day: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    week: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    month: Option<Decimal>,
}

/// Factors of windows in millionths, by period.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"minute": 1_100_000}))]
pub(super) struct WindowFactors {
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    minute: Option<u32>,
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    hour: Option<u32>,
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    day: Option<u32>,
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    week: Option<u32>,
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    month: Option<u32>,
}

impl WindowFactors {
    /// Those that are given, by the name of their period.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let WindowFactors { minute, hour, day, week, month } = *self;
        let all =
            [("minute", minute), ("hour", hour), ("day", day), ("week", week), ("month", month)];
        all.into_iter().filter_map(|(period, ppm)| Some((period, ppm?)))
    }
}

/// Limits from now on; at least one of them. `null` takes the daily limit away. A budget without a window of that period gets a
/// fixed one; one that has it keeps its kind, and its other windows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    limit: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<Decimal>, required = false)]
    daily: Option<Option<Decimal>>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowAmounts, required = false)]
    window: Option<WindowAmounts>,
}

/// Multiplies each budget's own limits.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkScale {
    #[expect(dead_code, reason = "read to see that it is `scale`")]
    action: ScaleAction,
    pub(super) changes: Factors,
    pub(super) select: Select,
    /// The number of budgets the page showed as selected.
    #[schema(maximum = 100_000)]
    pub(super) expected: u32,
    /// Judge only.
    #[serde(default)]
    pub(super) dry_run: bool,
    pub(super) why: Why,
}

/// `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScaleAction {
    Scale,
}

/// Factors in millionths, at least one of them; what comes out is rounded down. A budget without a daily limit,
/// or without such a window, keeps none.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"limit_ppm": 1_100_000}))]
pub(super) struct Factors {
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    pub(super) limit_ppm: Option<u32>,
    #[serde(default, deserialize_with = "factor")]
    #[schema(value_type = u32, required = false, maximum = 100_000_000)]
    pub(super) daily_ppm: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = WindowFactors, required = false)]
    pub(super) window_ppm: Option<WindowFactors>,
}

/// 0 to 100 times.
const FACTOR_MAX: u32 = 100_000_000;

fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let ppm = u64::deserialize(from)?;
    let wrong = || D::Error::invalid_value(Unexpected::Unsigned(ppm), &"0 to 100000000 millionths");
    let small = u32::try_from(ppm).ok().filter(|ppm| *ppm <= FACTOR_MAX);
    small.map(Some).ok_or_else(wrong)
}

/// A change of many budgets.
#[derive(Clone, Debug, ToSchema)]
#[serde(untagged)]
pub(super) enum Bulk {
    Switch(BulkSwitch),
    Set(BulkSet),
    Scale(BulkScale),
}

impl FromBody for Bulk {
    fn read(bytes: &[u8]) -> Result<Bulk, Problem> {
        #[derive(Deserialize)]
        struct Peek {
            action: String,
        }
        match &*read_json::<Peek>(bytes)?.action {
            "pause" | "resume" => read_json(bytes).map(Bulk::Switch),
            "set" => read_json(bytes).map(Bulk::Set),
            "scale" => read_json(bytes).map(Bulk::Scale),
            other => Err(Problem::malformed(
                "action",
                &format!("{other:?}"),
                "pause, resume, set or scale",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_where_what_and_what_instead() {
        let error = |json: &str| Bulk::read(json.as_bytes()).unwrap_err();
        let problem = error(
            r#"{"action":"scale","changes":{"limit_ppm":100000001},"select":{},"expected":1,"why":"abc"}"#,
        );
        assert_eq!(problem.field.as_deref(), Some("changes.limit_ppm"));
        assert_eq!(problem.expected.as_deref(), Some("0 to 100000000 millionths"));
        assert_eq!(error(r#"{"action":"stop"}"#).field.as_deref(), Some("action"));
        assert!(error("{").detail.contains("line 1"));
    }
}
