//! `weir stat`: the live counters of a running node.

use std::io::Write;

use admin_client::{Client, FetchError, harmless};
use money::{Amount, Instant, Unit};
use serde_json::Value;

use crate::WhichBudget;

/// Asks a node for its counters, and for the books of one budget.
///
/// # Errors
/// [`FetchError`].
pub fn fetch(client: &Client, budget: Option<&WhichBudget>) -> Result<Value, FetchError> {
    // No character of a handle means anything else in a query.
    client.get(&budget.map_or("/stat".to_string(), |budget| format!("/stat?budget={budget}")))
}

/// The figures for people: all counters of the node, or what is known of the budget that was asked for.
///
/// # Errors
/// `out` cannot be written.
pub fn print(stat: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    let unit = stat.get("unit").and_then(Value::as_str).and_then(|unit| Unit::parse(unit).ok());
    let (Some(id), Some(unit)) = (stat.get("id").and_then(Value::as_u64), unit) else {
        return print_value("", stat, out);
    };
    print_books(stat, id, unit, out)?;
    let windows = stat.get("windows").and_then(Value::as_array).into_iter().flatten();
    for (name, text) in windows.filter_map(|window| window_line(window, unit)) {
        writeln!(out, "{name:<40} {text}")?;
    }
    if let Some(pace) = stat.get("pace") {
        print_pace("pace", pace, unit, out)?;
    }
    writeln!(out, "\nThe node's counters: weir stat. All of both: --json.")
}

/// The figures of a budget's books: as they are called, and what each is.
const BOOKS: [(&str, &str); 10] = [
    ("limit", "what it may spend in its life: the sum of what follows, without expired"),
    ("free", "left to grant, in the bank"),
    ("purses", "left to grant, at the workers"),
    ("held", "promised, not yet settled"),
    ("expired", "of held: kept although its time is over"),
    ("settled", "spent within what was held"),
    ("over_settled", "spent above what was held"),
    ("late", "spent after its hold was gone"),
    ("inferred", "spent as far as a later total says"),
    ("unknown_order", "spent by orders that nobody opened here"),
];

/// The books of a budget in its unit, and an empty line.
fn print_books(stat: &Value, id: u64, unit: Unit, out: &mut dyn Write) -> std::io::Result<()> {
    let text = |field: &str| stat.get(field).and_then(Value::as_str);
    let name = text("name").map_or_else(String::new, |name| format!(" {}", harmless(name)));
    let handle =
        text("handle").map_or_else(String::new, |handle| format!(" ({})", harmless(handle)));
    writeln!(out, "budget {id}{name}{handle}, in {unit}")?;
    let amounts: Vec<(&str, String, &str)> = BOOKS
        .iter()
        .filter_map(|(field, meaning)| {
            let amount = stat.get(*field)?.as_i64()?;
            Some((*field, unit.format(Amount::new(amount)), *meaning))
        })
        .collect();
    let wide = amounts.iter().map(|(_, amount, _)| amount.len()).max().unwrap_or(0);
    for (field, amount, meaning) in amounts {
        writeln!(out, "  {field:<13} {amount:>wide$}  {meaning}")?;
    }
    writeln!(out)
}

/// What is known of the plan: amounts in the unit of the budget, and instants as such.
fn print_pace(name: &str, value: &Value, unit: Unit, out: &mut dyn Write) -> std::io::Result<()> {
    if let Value::Object(fields) = value {
        return fields.iter().try_for_each(|(key, value)| {
            print_pace(&format!("{name}.{}", harmless(key)), value, unit, out)
        });
    }
    let text = match name {
        "pace.budget" | "pace.planned" | "pace.spent" => {
            value.as_i64().map(|amount| format!("{} {unit}", unit.format(Amount::new(amount))))
        }
        "pace.window.start_ms" | "pace.window.end_ms" => {
            value.as_u64().map(|ms| Instant::from_ms(ms).to_string())
        }
        _ => None,
    };
    match text {
        Some(text) => writeln!(out, "{:<40} {text}", name.trim_end_matches("_ms")),
        None => print_value(name, value, out),
    }
}

/// A window of the budget in its unit: its name, and how it stands.
fn window_line(window: &Value, unit: Unit) -> Option<(String, String)> {
    let amount = |field: &str| Some(unit.format(Amount::new(window.get(field)?.as_i64()?)));
    let (limit, used, left) = (amount("limit")?, amount("used")?, amount("left")?);
    let ends = match window.get("bucket")?.as_bool()? {
        true => "refills all the time".into(),
        false => format!("ends {}", Instant::from_ms(window.get("ends_ms")?.as_u64()?)),
    };
    let name = format!("windows.{}", harmless(window.get("period")?.as_str()?));
    Some((name, format!("limit {limit} {unit}, handed out {used}, left {left}, {ends}")))
}

fn print_value(name: &str, value: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            let key = harmless(key);
            let name = if name.is_empty() { key } else { format!("{name}.{key}") };
            print_value(&name, value, out)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| print_value(name, item, out)),
        Value::String(text) => writeln!(out, "{name:<40} {}", harmless(text)),
        other => writeln!(out, "{name:<40} {other}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(stat: &Value) -> String {
        let mut out = Vec::new();
        print(stat, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn of_a_budget_its_books_in_its_unit_its_windows_and_its_plan() {
        let text = printed(&json!({
            "bank": {"asks": 7}, "id": 1, "name": "Spring sale", "handle": null, "unit": "USD",
            "limit": 10_000_000_000_i64, "free": 7_873_687_500_i64, "purses": 26_312_500, "held": 0,
            "expired": 0, "settled": 2_100_000_000_i64, "over_settled": 0, "late": 0, "inferred": 0, "unknown_order": 0, "pace": {"open": true, "planned": 5_334_604, "window": {"end_ms": 1_795_755_600_000_u64}},
            "windows": [{"period": "day", "limit": 5_000_000, "used": 1_000_000, "left": 4_000_000, "bucket": true}],
        }));
        let expected = "\
budget 1 Spring sale, in USD
  limit         10000.00    what it may spend in its life: the sum of what follows, without expired
  free           7873.6875  left to grant, in the bank
  purses           26.3125  left to grant, at the workers
";
        let rest: Vec<String> = text
            .lines()
            .skip(12)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let day = "windows.day limit 5.00 USD, handed out 1.00, left 4.00, refills all the time";
        let hint = "The node's counters: weir stat. All of both: --json.";
        let (planned, end) = ("pace.planned 5.334604 USD", "pace.window.end 2026-11-27T05:00:00Z");
        let wanted = [day, "pace.open true", planned, end, "", hint];
        assert_eq!(rest, wanted, "no counter of the node");
        let shown: Vec<Vec<&str>> =
            text.lines().take(4).map(|line| line.split_whitespace().collect()).collect();
        let wanted: Vec<Vec<&str>> =
            expected.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(shown, wanted);
        assert_eq!(text.lines().take_while(|line| !line.is_empty()).count(), 11, "{text}");
        assert!(printed(&json!({"asks": 7})).starts_with("asks "), "no budget was asked for");
    }
}
