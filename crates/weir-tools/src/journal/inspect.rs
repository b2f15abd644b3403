//! `weir journal inspect`: records, one per line.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use ledger_journal::{Fault, Start};

use super::text::{self, Fields, TYPES};
use super::{JournalError, Outcome, Where};
use crate::WhichBudget;
use crate::numbers::number;

#[derive(clap::Args)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    place: Where,
    /// First record to print.
    #[arg(long, value_name = "SEQ", value_parser = number)]
    from: Option<u64>,
    /// Last record to print.
    #[arg(long, value_name = "SEQ", value_parser = number)]
    to: Option<u64>,
    /// Only records about this budget; by a handle, those from when the budget had it.
    #[arg(long, value_name = "ID|HANDLE")]
    budget: Option<WhichBudget>,
    /// Only records about this grant.
    #[arg(long, value_name = "N", value_parser = number)]
    grant: Option<u64>,
    /// Only records of these types, separated by commas.
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = PossibleValuesParser::new(TYPES))]
    types: Vec<String>,
    /// Print at most this many records.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &InspectArgs, out: &mut dyn Write) -> Result<Outcome, JournalError> {
    let (from, to) = (args.from.unwrap_or(0), args.to.unwrap_or(u64::MAX));
    if from > to {
        return Err(JournalError::Usage(format!("--from {from} is after --to {to}")));
    }
    let folder = args.place.folder()?;
    // What a grant or a unit is called stands in earlier records, so all that are kept are read.
    let mut known = folder.known()?;
    let first = folder.segments()?.first().copied().unwrap_or(1);
    let (mut left, mut out) = (args.limit.unwrap_or(u64::MAX), std::io::BufWriter::new(out));
    let start = Start { segment: first, position: None, until: None };
    folder.walk(start, &mut |place, record| {
        let sequence = place.at.sequence;
        if sequence > to || left == 0 {
            return Err(Fault::Stopped);
        }
        known.take(&record);
        let kind = text::type_of(&record);
        let wanted = sequence >= from
            && (args.types.is_empty() || args.types.iter().any(|wanted| wanted == kind))
            && args.grant.is_none_or(|grant| text::grant_of(&record) == Some(grant))
            && args.budget.as_ref().is_none_or(|named| {
                let ids = text::budgets_of(&record, &known);
                ids.into_iter().any(|id| named.is(id, known.handle_of(id)))
            });
        if !wanted {
            return Ok(());
        }
        left -= 1;
        let fields = text::fields(&record, &known);
        let line = if args.json {
            json(sequence, place.at.at_ms, kind, fields)
        } else {
            human(sequence, place.at.at_ms, kind, &fields)
        };
        // A reader that went away (`| head`) has seen enough.
        writeln!(out, "{line}").map_err(|_| Fault::Stopped)
    })?;
    let _ = out.flush();
    Ok(Outcome::Well)
}

fn json(sequence: u64, at_ms: u64, kind: &str, fields: Fields) -> String {
    let mut all: Fields = vec![
        ("sequence", sequence.into()),
        ("gathered", text::time(at_ms).into()),
        ("type", kind.into()),
    ];
    all.extend(fields);
    text::json(&all)
}

fn human(sequence: u64, at_ms: u64, kind: &str, fields: &Fields) -> String {
    let said = fields.iter().filter(|(_, value)| !value.is_null());
    let said: Vec<String> = said.map(|(key, value)| format!("{key}={}", shown(value))).collect();
    format!("{sequence:>10}  {:<24}  {kind:<14}  {}", text::time(at_ms), said.join(" "))
}

/// Texts with spaces in quotes; the rest plain.
fn shown(value: &serde_json::Value) -> String {
    let plain = text::plain(value);
    if plain.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return value.to_string();
    }
    plain
}
