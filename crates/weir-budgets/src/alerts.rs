//! At which shares of its limits a budget alerts: `"alerts": [0.5, 0.8, 1]` of its line, or in a table `0.5;0.8;1`.

use std::sync::Arc;

use serde_json::Value;

use crate::campaigns::fields::shown;
use crate::campaigns::parse_decimal;

/// Shares that a budget may have.
pub const SHARES_MAX: usize = 8;
/// All of a limit, in the parts that shares are counted in.
pub const WHOLE: u16 = 10_000;

/// Shares of a limit in ten-thousandths of it, each once, the smallest first; empty: the budget alerts of nothing.
pub type Shares = Arc<[u16]>;

/// Reads shares, in either form.
///
/// # Errors
/// What was found, and what was expected.
pub(crate) fn read(value: &Value) -> Result<Shares, String> {
    let fault = || {
        format!(
            "found {}, expected up to {SHARES_MAX} shares of the limit from 0.0001 to 1, at most 4 decimals, such as [0.5, 0.8, 1], or in a table \
             0.5;0.8;1",
            shown(value)
        )
    };
    let texts: Vec<String> = match value {
        Value::Array(shares) => shares.iter().map(number).collect(),
        Value::String(shares) => shares.split(';').map(|share| share.trim().to_string()).collect(),
        _ => return Err(fault()),
    };
    let share = |text: &String| {
        let share = u16::try_from(parse_decimal(text)?).ok()?;
        (1..=WHOLE).contains(&share).then_some(share)
    };
    let mut shares: Vec<u16> = texts.iter().map(share).collect::<Option<_>>().ok_or_else(fault)?;
    shares.sort_unstable();
    shares.dedup();
    if shares.len() <= SHARES_MAX { Ok(shares.into()) } else { Err(fault()) }
}

/// A number as it stands in JSON, or text of one.
fn number(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Reports whether two values name the same shares; `null` names none.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    let of = |value: &Value| if value.is_null() { Ok(Shares::default()) } else { read(value) };
    of(a).is_ok_and(|a| of(b) == Ok(a))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_by_table() {
        for (value, expected) in [
            (json!([0.5, 0.8, 1]), Some(&[5_000, 8_000, 10_000][..])),
            (json!(["1", 0.0001, "0.0001"]), Some(&[1, 10_000])),
            (json!("0.8; 0.5"), Some(&[5_000, 8_000])),
            (json!([]), Some(&[])),
            (json!([0]), None),
            (json!([1.0001]), None),
            (json!([0.12345]), None),
            (json!([-0.5]), None),
            (json!([1e-3, "x"]), None),
            (json!([50]), None),
            (json!([null]), None),
            (json!(0.5), None),
            (json!(""), None),
            (json!([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]), None),
        ] {
            assert_eq!(read(&value).ok().as_deref(), expected, "{value}");
        }
        assert!(same(&json!([1, 0.5]), &json!("0.50;1")) && same(&json!(null), &json!([])));
        assert!(!same(&json!([1]), &json!(null)) && !same(&json!("x"), &json!("x")));
    }
}
