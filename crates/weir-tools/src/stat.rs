//! `weir stat`: the live counters of a running node.

use std::io::Write;

use admin_client::{Client, FetchError, harmless};
use serde_json::Value;

/// Asks a node for its counters, and for the books of one budget.
///
/// # Errors
/// [`FetchError`].
pub fn fetch(client: &Client, budget: Option<u64>) -> Result<Value, FetchError> {
    client.get(&budget.map_or("/stat".to_string(), |id| format!("/stat?budget={id}")))
}

/// The figures for people.
///
/// # Errors
/// `out` cannot be written.
pub fn print(stat: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    print_value("", stat, out)
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
