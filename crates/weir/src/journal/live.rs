//! The books of a running node, from its admin door.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

use super::JournalError;
use crate::stat;

/// What a node says is spent in a budget: settled, over-settled, late.
pub(super) type Spends = BTreeMap<u64, [i128; 3]>;

/// Asks for all budgets, page by page.
pub(super) fn spends(address: SocketAddr) -> Result<Spends, JournalError> {
    let (mut spends, mut from) = (Spends::new(), Some(0));
    while let Some(id) = from {
        let page = stat::get(address, &format!("/books?from={id}"));
        let page = page.map_err(|error| JournalError::Live(error.to_string()))?;
        let rows = page.get("budgets").and_then(Value::as_array);
        for row in rows.ok_or_else(|| strange(address, &page))? {
            let (id, spent) = read(row).ok_or_else(|| strange(address, row))?;
            spends.insert(id, spent);
        }
        from = page.get("next").and_then(Value::as_u64);
    }
    Ok(spends)
}

fn read(row: &Value) -> Option<(u64, [i128; 3])> {
    let line = |name| row.get(name).and_then(Value::as_i64).map(i128::from);
    let id = row.get("id").and_then(Value::as_u64)?;
    Some((id, [line("settled")?, line("over_settled")?, line("late")?]))
}

fn strange(address: SocketAddr, found: &Value) -> JournalError {
    JournalError::Live(format!("node at {address}: no books in its answer: {found}"))
}
