//! Booking reconciliation files: `POST /v1/reconcile`, and what the bank does with a line.

use std::collections::BTreeMap;

use ledger::{Action, Amount, Bank, Door, Hold, KeyRing, Line, Origin, Out, TokenError};
use money::Unit;
use serde_json::{Value, json};
use wire::Verdict;

use super::openrtb::sent_cost;
use crate::reconcile::{Id, Row};

/// Lines that are told one by one in an answer.
const TOLD_MAX: usize = 100;

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    line: usize,
    result: Result<(Verdict, bool), String>,
}

/// Books lines in their order.
pub(crate) fn book_rows(
    rows: &[Row],
    ring: &KeyRing,
    bank: &mut Bank,
    out: &mut Out,
) -> Vec<Outcome> {
    let book = |row: &Row| Outcome { line: row.line, result: book_row(row, ring, bank, out) };
    rows.iter().map(book).collect()
}

fn book_row(
    row: &Row,
    ring: &KeyRing,
    bank: &mut Bank,
    out: &mut Out,
) -> Result<(Verdict, bool), String> {
    let (hold, cost) = open(&row.id, ring).map_err(|error| error.to_string())?;
    let Some(slot) = bank.slot_of(&hold) else { return Ok((Verdict::TooOld, false)) };
    let action = if row.billed { Action::Settle } else { Action::Release };
    let amount = match &row.amount {
        Some(text) => {
            let unit = bank.spec(slot).unit;
            unit.parse_amount(text).map_err(|error| format!("amount: {error}"))?
        }
        None if row.billed => cost,
        None => Amount::ZERO,
    };
    let origin = Origin { door: Door::Admin, request_id: 0 };
    Ok(bank.resolve_direct(action, hold, amount, origin, out))
}

/// The hold, and what it costs if nobody says.
fn open(id: &Id, ring: &KeyRing) -> Result<(Hold, Amount), TokenError> {
    match id {
        Id::Token(token) => ring.open(token).map(|hold| (hold, hold.amount)),
        Id::Noted(noted) => {
            let (hold, note) = ring.open_note(noted)?;
            Ok((hold, sent_cost(&note, &hold)))
        }
    }
}

/// What a complete file freed in one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    budget: u64,
    unit: Unit,
    amount: Amount,
}

/// Frees what is still kept of holds that were decided until then.
pub(crate) fn free_until(until_ms: u64, bank: &mut Bank, out: &mut Out) -> Vec<Freed> {
    let kept = |bank: &Bank, slot: u32| bank.books(slot).line(Line::Expired);
    let before: Vec<(u64, u32, Amount)> =
        bank.slots_from(0).map(|(budget, slot)| (budget, slot, kept(bank, slot))).collect();
    bank.reconcile(None, until_ms, out);
    let freed = |(budget, slot, before): (u64, u32, Amount)| {
        let amount = before.checked_sub(kept(bank, slot)).filter(|freed| *freed > Amount::ZERO)?;
        Some(Freed { budget, unit: bank.spec(slot).unit, amount })
    };
    before.into_iter().filter_map(freed).collect()
}

/// What became of a file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: u64,
    repeats: u64,
    verdicts: BTreeMap<&'static str, u64>,
    refused: u64,
    told: Vec<Value>,
}

impl Report {
    pub(crate) fn lines(&self) -> u64 {
        self.rows
    }

    pub(crate) fn add(&mut self, outcomes: Vec<Outcome>) {
        for Outcome { line, result } in outcomes {
            self.rows += 1;
            match result {
                Ok((verdict, repeat)) => {
                    *self.verdicts.entry(verdict.name()).or_default() += 1;
                    self.repeats += u64::from(repeat);
                }
                Err(text) => {
                    self.refused += 1;
                    if self.told.len() < TOLD_MAX {
                        self.told.push(json!({ "line": line, "detail": text }));
                    }
                }
            }
        }
    }

    pub(crate) fn to_json(&self, freed: Option<&[Freed]>) -> Value {
        let row = |freed: &Freed| {
            let amount = freed.unit.format(freed.amount);
            json!({ "budget": freed.budget, "amount": amount })
        };
        json!({
            "lines": self.rows, "verdicts": self.verdicts, "repeats": self.repeats,
            "refused": self.refused, "refused_lines": self.told,
            "freed": freed.map(|freed| freed.iter().take(TOLD_MAX).map(row).collect::<Vec<_>>()),
            "freed_budgets": freed.map(<[Freed]>::len),
        })
    }
}
