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

/// The figures for people.
///
/// # Errors
/// `out` cannot be written.
pub fn print(stat: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    let mut figures = stat.clone();
    let windows = figures.as_object_mut().and_then(|fields| fields.remove("windows"));
    print_value("", &figures, out)?;
    let unit = figures.get("unit").and_then(Value::as_str).and_then(|unit| Unit::parse(unit).ok());
    let windows = windows.as_ref().and_then(Value::as_array).into_iter().flatten();
    windows
        .filter_map(|window| window_line(window, unit?))
        .try_for_each(|(name, text)| writeln!(out, "{name:<40} {text}"))
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
    Some((name, format!("limit {limit} {unit}, used {used}, left {left}, {ends}")))
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
