//! `weir report`: what campaigns did, by hour or day, exchange, place, creative and country.

use std::io::Write;

use admin_client::{Client, FetchError, OpenError, Options, encode, harmless};
use clap::{Args, ValueEnum};
use money::Instant;
use serde_json::Value;

/// Bytes of a report, at most: a million rows.
const BYTES_MAX: u64 = 1 << 30;

/// How it is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReportFormat {
    /// For people.
    Table,
    /// For spreadsheets.
    Csv,
    /// As the admin API has it.
    Json,
}

/// Adds up impressions, clicks and spend of campaigns.
#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(flatten)]
    node: Options,
    /// What stands in a row, separated by commas: campaign, exchange, place, creative, country, and hour or day.
    #[arg(long, value_name = "LIST", default_value = "campaign")]
    by: String,
    /// Hours that begin from then on, RFC 3339 or milliseconds since 1970; without it all that are kept.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Option<u64>,
    /// Hours that begin before, the same; without it until now.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    to: Option<u64>,
    /// Ids or handles of budgets, separated by commas: what they and those under them booked.
    #[arg(long, value_name = "LIST")]
    budgets: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "table")]
    format: ReportFormat,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportFailure {
    /// The node cannot be asked.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It gave no answer, or an error.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Nobody reads.
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
    /// Another version.
    #[error("the node's answer has no {0}: is it of another version?")]
    Form(&'static str),
}

fn instant(text: &str) -> Result<u64, String> {
    let at = Instant::parse(text).map(Instant::ms);
    at.or_else(|error| text.parse().map_err(|_| error.to_string()))
}

/// Prints the report.
///
/// # Errors
/// [`ReportFailure`].
pub fn main(args: &ReportArgs, out: &mut dyn Write) -> Result<(), ReportFailure> {
    let client = args.node.open()?.with_body_bytes_max(BYTES_MAX);
    match args.format {
        ReportFormat::Csv => write!(out, "{}", client.get_text(&args.path("/v1/report.csv"))?)?,
        ReportFormat::Json => writeln!(out, "{}", client.get_text(&args.path("/v1/report"))?)?,
        ReportFormat::Table => table(&client, args, out)?,
    }
    Ok(())
}

impl ReportArgs {
    fn path(&self, call: &str) -> String {
        let mut path = format!("{call}?by={}", encode(&self.by));
        for (name, value) in [("from_ms", self.from), ("to_ms", self.to)] {
            if let Some(value) = value {
                path += &format!("&{name}={value}");
            }
        }
        if let Some(budgets) = &self.budgets {
            path += &format!("&budgets={}", encode(budgets));
        }
        path
    }
}

fn table(client: &Client, args: &ReportArgs, out: &mut dyn Write) -> Result<(), ReportFailure> {
    let found: Value = client.get(&args.path("/v1/report"))?;
    let list = |name: &'static str| found[name].as_array().ok_or(ReportFailure::Form(name));
    let by = list("by")?.iter().filter_map(Value::as_str);
    let counted = ["unit", "impressions", "clicks", "spent", "ctr", "cpm", "cpc"];
    let columns: Vec<&str> = by.chain(counted).collect();
    let text = |row: &Value, name: &str| match &row[name] {
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => harmless(text),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut lines = vec![columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    let mut rows = |rows: &[Value], first: &str| {
        lines.extend(rows.iter().map(|row| {
            let mut line: Vec<String> = columns.iter().map(|name| text(row, name)).collect();
            if !first.is_empty() && columns.len() > counted.len() {
                line[..columns.len() - counted.len()].fill(String::new());
                first.clone_into(&mut line[0]);
            }
            line
        }));
    };
    rows(list("rows")?, "");
    rows(list("totals")?, "all");
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let names = columns.len() - counted.len() + 1;
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if at < names { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
