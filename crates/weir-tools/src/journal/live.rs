//! The books of a running node, from its admin door.

use std::collections::BTreeMap;

use admin_client::Client;
use ledger::Line;
use serde_json::Value;

use super::JournalError;

/// What a node says is spent in a budget, in the order of [`Line::SPENT`].
pub(super) type Spends = BTreeMap<u64, SpentLines>;
pub(super) type SpentLines = [i128; Line::SPENT.len()];

/// Asks for all budgets, page by page.
pub(super) fn spends(client: &Client) -> Result<Spends, JournalError> {
    let (mut spends, mut from) = (Spends::new(), Some(0));
    while let Some(id) = from {
        let page = client.get(&format!("/books?from={id}"));
        let page: Value = page.map_err(|error| JournalError::Live(error.to_string()))?;
        let rows = page.get("budgets").and_then(Value::as_array);
        for row in rows.ok_or_else(|| strange(client, &page))? {
            let (id, spent) = read(row).ok_or_else(|| strange(client, row))?;
            spends.insert(id, spent);
        }
        from = page.get("next").and_then(Value::as_u64);
    }
    Ok(spends)
}

fn read(row: &Value) -> Option<(u64, SpentLines)> {
    let id = row.get("id").and_then(Value::as_u64)?;
    let mut spent = SpentLines::default();
    for (sum, line) in spent.iter_mut().zip(Line::SPENT) {
        *sum = match row.get(line.name()) {
            // A node of an earlier release has nothing on the lines that came later.
            None if line > Line::Late => 0,
            said => said?.as_i64()?.into(),
        };
    }
    Some((id, spent))
}

fn strange(client: &Client, found: &Value) -> JournalError {
    let found: String = found.to_string().chars().take(200).collect();
    JournalError::Live(format!("node at {}: no books in its answer: {found}", client.address()))
}
