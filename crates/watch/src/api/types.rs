//! What bodies and addresses hold. These types are both the readers and the description of them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::extract::{FromBody, Named, read_json};
use crate::node::Fields;
use crate::problem::Problem;

/// A text type that holds only what `$check` accepts; `$pattern` says the same in the document.
macro_rules! checked_text {
    ($(#[$about:meta])* $name:ident, $pattern:literal, $example:literal, $expected:literal, $check:expr) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
        pub(super) struct $name(pub(super) String);

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern));
                text.description(Some(concat!("Text: ", $expected))).examples([$example]).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let is_sound: fn(&str) -> bool = $check;
                let read = move |text: &str| is_sound(text).then(|| $name(text.to_string()));
                from.deserialize_str(Text { expected: $expected, read })
            }
        }
    };
}

/// Reads a text by a rule. What is none, or breaks the rule, is told with what was expected.
struct Text<R> {
    expected: &'static str,
    read: R,
}

impl<T, R: Fn(&str) -> Option<T>> Visitor<'_> for Text<R> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let wrong = || E::invalid_value(Unexpected::Str(text), &self.expected);
        (self.read)(text).ok_or_else(wrong)
    }
}

fn has_controls(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

checked_text! {
    /// Why it is done, for the audit.
    Why, r"^[^\u0000-\u001f\u007f-\u009f]{3,500}$", "wrong creative",
    "3 to 500 characters, none of them a control character",
    |text| (3..=500).contains(&text.chars().count()) && !has_controls(text)
}

checked_text! {
    /// A name for people.
    Name, r"^[^\u0000-\u001f\u007f-\u009f]{1,200}$", "Autumn sale",
    "1 to 200 characters, none of them a control character",
    |text| (1..=200).contains(&text.chars().count()) && !has_controls(text)
}

/// A unique text name. What it may be is the node's to say, as of every rule of budgets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HandleText(String);

impl PartialSchema for HandleText {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(HANDLE_PATTERN));
        let about = "Text: 1 to 128 of A-Z a-z 0-9 . _ / : @ -, at least one of them no digit";
        let text = text.min_length(Some(1)).max_length(Some(wire::HANDLE_BYTES_MAX));
        text.description(Some(about)).examples(["team-42/gpt-5"]).into()
    }
}

impl ToSchema for HandleText {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("HandleText")
    }
}

/// An id or a handle.
const NAMED_PATTERN: &str = "^(0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z._/:@-][A-Za-z0-9._/:@-]*)$";

/// What a handle may be, but for its length.
const HANDLE_PATTERN: &str = "^[0-9]*[A-Za-z._/:@-][A-Za-z0-9._/:@-]*$";

checked_text! {
    /// An amount as decimal text in the budget's unit, as in the budgets file.
    Decimal, r"^[0-9]{1,19}(\.[0-9]{1,9})?$", "12.50",
    "decimal text such as \"12.50\": 1 to 19 digits, and a point and 1 to 6 digits where it is a currency, 9 in nanos",
    |text| {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        is_digits(whole) && is_digits(part) && whole.len() <= 19 && part.len() <= 9
    }
}

checked_text! {
    /// An instant, RFC 3339, with `T` and `Z` as capital letters.
    When, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$", "2026-12-01T00:00:00Z",
    "an instant such as \"2026-12-01T00:00:00Z\"",
    is_instant
}

/// The shape of an instant; whether there is such a day is the node's to say.
fn is_instant(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(byte, shape): (&u8, &u8)| {
        if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape }
    };
    let Some((head, rest)) = text.as_bytes().split_at_checked(SHAPE.len()) else { return false };
    // The first bytes are ASCII now, so the rest begins at a character.
    head.iter().zip(SHAPE).all(fits)
        && text.get(text.len() - rest.len()..).is_some_and(is_instant_end)
}

fn is_instant_end(text: &str) -> bool {
    let zone = match text.strip_prefix('.') {
        None => text,
        Some(part) => {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=9).contains(&digits) {
                return false;
            }
            &part[digits..]
        }
    };
    let is_offset = |offset: &str| {
        let (hours, minutes) = offset.split_once(':').unwrap_or_default();
        hours.len() == 2 && minutes.len() == 2 && is_digits(hours) && is_digits(minutes)
    };
    zone == "Z" || zone.strip_prefix(['+', '-']).is_some_and(is_offset)
}

/// Id of a budget, a u64 as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, pattern = "^(0|[1-9][0-9]{0,19})$", example = "17")]
pub(super) struct Id(pub(super) u64);

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = |text: &str| {
            let canonical = is_digits(text) && (text == "0" || !text.starts_with('0'));
            text.parse().ok().filter(|_| canonical).map(Id)
        };
        let expected = "a number as text such as \"17\": a whole number below 2^64";
        from.deserialize_str(Text { expected, read })
    }
}

impl PartialSchema for Named {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(NAMED_PATTERN));
        let text = text.max_length(Some(wire::HANDLE_BYTES_MAX)).examples(["17"]);
        text.description(Some("The id of a budget, or its handle")).into()
    }
}

impl ToSchema for Named {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Named")
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = "the id of a budget such as \"17\", or its handle";
        from.deserialize_str(Text { expected, read: Named::read })
    }
}

/// What the owner of a budget says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Switch {
    /// It may spend.
    Active,
    /// It may not.
    Paused,
}

/// How spend is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Spread {
    /// As fast as asks come.
    Asap,
    /// No faster than the plan.
    Schedule,
    /// A part of the asks takes part.
    Coin,
    /// Bids follow the plan's curve.
    Curve,
    /// Bids are steered by what is won.
    Steer,
    /// As steer where it is known what impressions cost, else as curve.
    Auto,
}

/// Tells `null` from a field that is not there.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Fields of a budget from now on; the others stay. `null` takes a field away.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"limit": "12500.00", "daily": null}))]
pub(super) struct Changes {
    /// Another unique text name: the one before is free from then on. null: none.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<HandleText>, required = false)]
    handle: Option<Option<HandleText>>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Name, required = false)]
    name: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    limit: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<Decimal>, required = false)]
    daily: Option<Option<Decimal>>,
    /// In place of all that it had; null takes them away.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<WindowLimits>, required = false)]
    windows: Option<Option<WindowLimits>>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Switch, required = false)]
    status: Option<Switch>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<When>, required = false)]
    start: Option<Option<When>>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<When>, required = false)]
    end: Option<Option<When>>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Spread, required = false)]
    pacing: Option<Spread>,
    /// In place of all that it bound; null: it binds none.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<BoundOrders>, required = false)]
    orders: Option<Option<BoundOrders>>,
    /// Shares of its limits at which it alerts, in place of all before; null: none.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<f64>>, required = false, max_items = 8, example = json!([0.5, 0.8, 1]))]
    alerts: Option<Option<Vec<Value>>>,
}

/// The orders of the FIX door that a budget limits: those that have all that is named here, at least one thing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"account": "A1", "side": "buy"}))]
pub(super) struct BoundOrders {
    /// Account (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[ -~]{1,64}$")]
    account: Option<String>,
    /// Name of a session of the FIX door.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[ -~]{1,64}$")]
    session: Option<String>,
    /// Firm of a session of the FIX door.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[ -~]{1,64}$")]
    firm: Option<String>,
    /// Symbol (55).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[ -~]{1,64}$")]
    symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<OrderSide>,
}

/// `sell` has short sales, too; `short` has them alone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OrderSide {
    Any,
    Buy,
    Sell,
    Short,
}

/// What may be spent in each minute, hour, day, week and month of the budget's zone. The day is either here or in `daily`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"minute": {"limit": "10", "kind": "bucket"}, "month": "1000.00"}))]
pub(super) struct WindowLimits {
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowLimit, required = false)]
    minute: Option<WindowLimit>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowLimit, required = false)]
    hour: Option<WindowLimit>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowLimit, required = false)]
    day: Option<WindowLimit>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowLimit, required = false)]
    week: Option<WindowLimit>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowLimit, required = false)]
    month: Option<WindowLimit>,
}

/// A limit of a fixed window, or a limit with its kind.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected an amount as text, such as \"10.00\", or an object with limit and kind"
)]
pub(super) enum WindowLimit {
    /// Whole again when the window ends.
    Fixed(Decimal),
    /// Of either kind.
    Of(KindOfWindow),
}

/// A limit with its kind.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KindOfWindow {
    limit: Decimal,
    kind: WindowKind,
}

/// `fixed`: whole again when the window ends. `bucket`: it refills all the time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WindowKind {
    Fixed,
    Bucket,
}

/// A field that may be absent but not null.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// As the node takes it: fields by name; those that are absent are left out.
pub(super) fn fields(of: &impl Serialize) -> Fields {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::Object(fields)) => fields,
        // Only structs with text fields come here.
        _ => Fields::new(),
    }
}

/// A change of one budget.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Patch {
    pub(super) changes: Changes,
    /// The limit, the daily limit or that of a window may become more than a hundred times as large, or go; without this such a change is
    /// refused.
    #[serde(default)]
    pub(super) confirm_large: bool,
    pub(super) why: Why,
}

/// A reason alone.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reasoned {
    pub(super) why: Why,
}

/// Why a record is taken back.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Undo {
    /// Judge only.
    #[serde(default)]
    pub(super) dry_run: bool,
    pub(super) why: Why,
}

/// A new budget: fields as in the budgets file. A campaign, day parts and a plan of its own are made there only.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "4711", "name": "Autumn sale", "unit": "USD", "limit": "1000.00", "daily": "50"}))]
pub(super) struct NewBudget {
    #[serde(serialize_with = "as_number")]
    pub(super) id: Id,
    /// A unique text name beside the id.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = HandleText, required = false)]
    handle: Option<HandleText>,
    name: Name,
    /// A currency of ISO 4217 in micros (`USD`) or nanos (`USDn`), or `count`.
    #[schema(pattern = "^([A-Z]{3}n?|count)$", example = "USD")]
    unit: String,
    limit: Decimal,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Decimal, required = false)]
    daily: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = WindowLimits, required = false)]
    windows: Option<WindowLimits>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = When, required = false)]
    start: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = When, required = false)]
    end: Option<When>,
    /// IANA name of the time zone of its days.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, max_length = 64, example = "Europe/Berlin")]
    tz: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Spread, required = false)]
    pacing: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Switch, required = false)]
    status: Option<Switch>,
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = BoundOrders, required = false)]
    orders: Option<BoundOrders>,
    /// Shares of its limits at which it alerts.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "given")]
    #[schema(value_type = Vec<f64>, required = false, max_items = 8)]
    alerts: Option<Vec<Value>>,
    /// The budget that binds it too: its id or its handle.
    #[serde(skip_serializing, default, deserialize_with = "given")]
    #[schema(value_type = Named, required = false)]
    pub(super) parent: Option<Named>,
}

fn as_number<S: serde::Serializer>(id: &Id, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(id.0)
}

/// A new budget, and why.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    pub(super) budget: NewBudget,
    pub(super) why: Why,
}

macro_rules! plain_bodies {
    ($($kind:ty),*) => { $(
        impl FromBody for $kind {
            fn read(bytes: &[u8]) -> Result<Self, Problem> {
                read_json(bytes)
            }
        }
    )* };
}

plain_bodies!(Patch, Reasoned, Undo, Create);

/// Which budgets, in which order.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TableParams {
    /// Searched in id and name, case folded.
    #[serde(default)]
    #[param(max_length = 4096, required = false, example = "sale")]
    pub(super) q: String,
    /// Terms `column:word,word`, `column:from..to` or `column:~text`, joined by `;`.
    #[serde(default)]
    #[param(
        max_length = 4096,
        required = false,
        pattern = "^(;*[a-z_]+:[^;]*)*;*$",
        example = "status:limited,error;pace:..0.95"
    )]
    pub(super) filter: String,
    /// Columns joined by `,`; `-` before one: largest first.
    #[serde(default)]
    #[param(
        max_length = 4096,
        required = false,
        pattern = "^(-?[a-z_]+(,-?[a-z_]+)*)?$",
        example = "-spent,name"
    )]
    pub(super) sort: String,
}

/// Which budgets, in which order, and which page of them: [`TableParams`] and [`PageParams`], which describe it. The readers of
/// addresses cannot put two into one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    #[serde(default)]
    pub(super) q: String,
    #[serde(default)]
    pub(super) filter: String,
    #[serde(default)]
    pub(super) sort: String,
    pub(super) cursor: Option<String>,
    pub(super) max: Option<u32>,
}

/// Which page.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "only its description is used")]
pub(super) struct PageParams {
    /// `next` of the page before.
    #[param(min_length = 1, max_length = 8192, pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
    /// Budgets of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    max: Option<u32>,
}

/// Which records.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParams {
    /// Only those that changed this budget: its id or its handle.
    #[param(value_type = Option<String>, max_length = 128, pattern = "^(0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z._/:@-][A-Za-z0-9._/:@-]*)$", example = "17")]
    pub(super) budget: Option<Named>,
    /// `next` of the page before.
    #[param(value_type = Option<String>, pattern = "^(0|[1-9][0-9]{0,19})$")]
    pub(super) cursor: Option<Id>,
    /// Records of a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub(super) max: Option<u32>,
}

/// Which minutes.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryParams {
    /// From here, ms since 1970 UTC; a day before `to_ms` where it is missing.
    #[param(minimum = 0, maximum = 253_402_041_600_000_i64)]
    pub(super) from_ms: Option<u64>,
    /// To here; now where it is missing.
    #[param(minimum = 0, maximum = 253_402_041_600_000_i64)]
    pub(super) to_ms: Option<u64>,
    /// A multiple of 60,000; so that there are about 720 points where it is missing.
    #[param(minimum = 60_000, maximum = 86_400_000, multiple_of = 60_000)]
    pub(super) step_ms: Option<u64>,
}

/// Entries of a page: 1 to 1,000, 100 where nothing is said.
pub(super) fn page_max(max: Option<u32>) -> Result<usize, Problem> {
    match max {
        None => Ok(100),
        Some(max @ 1..=1_000) => Ok(usize::try_from(max).unwrap_or(100)),
        Some(max) => {
            Err(Problem::malformed("max", &max.to_string(), "a whole number from 1 to 1000"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads<T: serde::de::DeserializeOwned>(json: &str) -> bool {
        read_json::<T>(json.as_bytes()).is_ok()
    }

    #[test]
    fn texts_hold_what_they_say() {
        for good in ["\"12\"", "\"0.000001\"", "\"0012.50\""] {
            assert!(reads::<Decimal>(good), "{good}");
        }
        for bad in [
            "12",
            "\"-1\"",
            "\".5\"",
            "\"1.\"",
            "\"1e3\"",
            "\"1.0000000000\"",
            "\"\"",
            "null",
            "\"1 \"",
        ] {
            assert!(!reads::<Decimal>(bad), "{bad}");
        }
        for good in ["\"2026-12-01T00:00:00Z\"", "\"2026-12-01T00:00:00.5+01:00\""] {
            assert!(reads::<When>(good), "{good}");
        }
        let bad = [
            "2026-12-01",
            "2026-12-01T00:00:00",
            "2026-12-01t00:00:00z",
            "2026-12-01T00:00:00.Z",
            "2026-12-01T00:00:0éZ",
            "2026-12-01T00:00:00+1:00",
            "2026-12-01T00:00:00é",
        ];
        for bad in bad {
            assert!(!reads::<When>(&format!("{bad:?}")), "{bad}");
        }
        assert!(
            reads::<Why>("\"äöü\"") && !reads::<Why>("\"ab\"") && !reads::<Why>("\"a\\u0007bc\"")
        );
        assert!(reads::<Id>("\"0\"") && reads::<Id>("\"18446744073709551615\""));
        for bad in ["17", "\"007\"", "\"+1\"", "\"18446744073709551616\"", "\"\""] {
            assert!(!reads::<Id>(bad), "{bad}");
        }
    }

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        let read = |json: &str| fields(&read_json::<Changes>(json.as_bytes()).unwrap());
        assert_eq!(read("{}").len(), 0);
        assert_eq!(read(r#"{"daily":null}"#)["daily"], serde_json::Value::Null);
        assert_eq!(read(r#"{"limit":"1.5","status":"paused"}"#)["limit"], "1.5");
        let orders = r#"{"account":"A 1","side":"short"}"#;
        assert_eq!(read(&format!(r#"{{"orders":{orders}}}"#))["orders"].to_string(), orders);
        assert_eq!(read(r#"{"orders":null}"#)["orders"], serde_json::Value::Null);
        assert_eq!(read(r#"{"alerts":[0.5,"1"]}"#)["alerts"].to_string(), r#"[0.5,"1"]"#);
        for bad in [
            r#"{"orders":{"side":"long"}}"#,
            r#"{"orders":{"acount":"A"}}"#,
            r#"{"limit":null}"#,
            r#"{"limt":"1"}"#,
            r#"{"limit":"1","limit":"2"}"#,
            "[]",
            "{} {}",
        ] {
            assert!(!reads::<Changes>(bad), "{bad}");
        }
    }
}
