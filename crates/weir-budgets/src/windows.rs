//! Windows of a budget as files and programs write them: `{"minute":"10","month":{"limit":"1000.00","kind":"bucket"}}`, or in a table
//! `minute=10;month=1000.00b`.

use ledger::{Amount, Period, WindowKind, WindowLimit, Windows};
use money::Unit;
use serde_json::{Map, Value};

use crate::budgets::bound;
use crate::campaigns::fields::{Object, shown};

/// Reads windows, in either form.
///
/// # Errors
/// The first thing that is wrong, with what was found and what was expected.
pub(crate) fn read(value: &Value, unit: Unit) -> Result<Windows, String> {
    let mut windows = Windows::default();
    for (name, limit) in named(value)? {
        let Some(period) = Period::ALL.into_iter().find(|period| period.name() == name) else {
            let names = Period::ALL.map(Period::name).join(", ");
            return Err(format!(
                "found a window of {}, expected one of {names}",
                shown(&name.into())
            ));
        };
        if windows.get(period).is_some() {
            return Err(format!("found {name} twice, expected one limit of a period"));
        }
        if !limit.is_null() {
            let of = |text: String| format!("{name}: {text}");
            let (kind, limit) = kind_and_limit(&limit, unit).map_err(of)?;
            windows = windows.with(WindowLimit { period, kind, limit });
        }
    }
    Ok(windows)
}

/// The limits by name. In a table the kind of a bucket is a letter behind its amount.
fn named(value: &Value) -> Result<Vec<(String, Value)>, String> {
    let expected = || {
        let found = shown(value);
        format!(
            "found {found}, expected limits by period as {{\"minute\":\"10\"}}, or in a table minute=10;hour=60b"
        )
    };
    match value {
        Value::Object(fields) => {
            Ok(fields.iter().map(|(name, limit)| (name.clone(), limit.clone())).collect())
        }
        Value::String(text) => text
            .split(';')
            .filter(|part| !part.trim().is_empty())
            .map(|part| {
                let (name, limit) = part.split_once('=').ok_or_else(expected)?;
                let limit = limit.trim();
                let limit = match limit.strip_suffix('b') {
                    Some(limit) => bucket(limit.trim().into()),
                    None => limit.into(),
                };
                Ok((name.trim().to_string(), limit))
            })
            .collect(),
        _ => Err(expected()),
    }
}

fn bucket(limit: Value) -> Value {
    Value::Object(Map::from_iter([("limit".into(), limit), ("kind".into(), "bucket".into())]))
}

fn kind_and_limit(value: &Value, unit: Unit) -> Result<(WindowKind, Amount), String> {
    let Value::Object(fields) = value else {
        return Ok((WindowKind::Fixed, bound(value, unit)?));
    };
    if let Some(name) = fields.keys().find(|name| !["limit", "kind"].contains(&name.as_str())) {
        let name = shown(&name.as_str().into());
        return Err(format!("found a field {name}, expected limit and kind"));
    }
    let kind = match fields.get("kind").unwrap_or(&Value::Null) {
        Value::Null => WindowKind::Fixed,
        Value::String(kind) if kind == "fixed" => WindowKind::Fixed,
        Value::String(kind) if kind == "bucket" => WindowKind::Bucket,
        other => {
            return Err(format!("kind: found {}, expected \"fixed\" or \"bucket\"", shown(other)));
        }
    };
    let limit = fields.get("limit").ok_or("found no limit, expected one beside its kind")?;
    Ok((kind, bound(limit, unit)?))
}

/// The limit of each day, which can be said as `daily` or as a fixed window. `None` where it is said twice.
#[allow(clippy::option_option, reason = "the outer one is a fault")]
pub(crate) fn join_day(
    object: &mut Object<'_, '_>,
    daily: Option<Amount>,
    windows: &Windows,
) -> Option<Option<Amount>> {
    if daily.is_some() && windows.get(Period::Day).is_some() {
        object.fault("daily", "the day is among the windows too, expected one of both");
        return None;
    }
    Some(daily.or(windows.day_limit()))
}

/// Do two values say the same of windows? `null` says that there are none.
pub fn same(a: &Value, b: &Value, unit: Unit) -> bool {
    let of = |value: &Value| match value {
        Value::Null => Ok(Windows::default()),
        value => read(value, unit),
    };
    of(a).is_ok_and(|a| of(b) == Ok(a))
}

/// Windows as `read` takes them; `null` where there are none.
pub fn written(windows: &Windows, unit: Unit) -> Value {
    let one = |window: &WindowLimit| {
        let limit: Value = unit.format(window.limit).to_string().into();
        let value = if window.kind == WindowKind::Bucket { bucket(limit) } else { limit };
        (window.period.name().to_string(), value)
    };
    let all: Map<String, Value> = windows.all().iter().map(one).collect();
    if all.is_empty() { Value::Null } else { Value::Object(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn usd(value: &Value) -> Result<Windows, String> {
        read(value, Unit::parse("USD").unwrap())
    }

    #[test]
    fn a_table_says_the_same_as_an_object() {
        let object =
            json!({"minute": {"limit": "10", "kind": "bucket"}, "month": "1000.00", "hour": null});
        let windows = usd(&object).unwrap();
        assert_eq!(Ok(windows.clone()), usd(&json!("month=1000.00; minute = 10b ;")));
        let expected = [
            WindowLimit::bucket(Period::Minute, Amount::new(10_000_000)),
            WindowLimit::fixed(Period::Month, Amount::new(1_000_000_000)),
        ];
        assert_eq!(windows.all(), expected);
        assert_eq!(usd(&json!({})), Ok(Windows::default()));
    }

    #[test]
    fn what_is_no_window_is_told() {
        for (wrong, told) in [
            (json!({"year": "1"}), "found a window of \"year\", expected one of minute"),
            (json!({"minute": "-1"}), "minute: found \"-1\", expected 0 to"),
            (json!({"minute": 1.5}), "minute: found 1.5, expected an amount"),
            (json!({"minute": {"kind": "bucket"}}), "minute: found no limit"),
            (json!({"minute": {"limit": "1", "kind": "leaky"}}), "minute: kind: found \"leaky\""),
            (json!({"minute": {"limit": "1", "burst": 2}}), "minute: found a field \"burst\""),
            (json!("minute=1;minute=2"), "found minute twice"),
            (json!("minute"), "found \"minute\", expected limits by period"),
            (json!("minute=1e3"), "minute: found \"1e3\""),
            (json!([1]), "found [1], expected limits by period"),
        ] {
            let error = usd(&wrong).unwrap_err();
            assert!(error.starts_with(told), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(limits in prop::collection::vec(
            prop::option::of((0..=money::LIMIT_MAX.get(), any::<bool>())), 5)) {
            let windows = Period::ALL.into_iter().zip(limits).filter_map(|(period, limit)| {
                let (limit, bucket) = limit?;
                let kind = if bucket { WindowKind::Bucket } else { WindowKind::Fixed };
                Some(WindowLimit { period, kind, limit: Amount::new(limit) })
            });
            let (windows, unit) = (Windows::of(windows), Unit::parse("USD").unwrap());
            let value = written(&windows, unit);
            let again = if value.is_null() { Windows::default() } else { read(&value, unit).unwrap() };
            prop_assert_eq!(again, windows);
        }
    }
}
