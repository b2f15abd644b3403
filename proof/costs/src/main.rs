//! `costs pairs` compares ways to do the same work.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use costs::pairs::{GROUPS, Pair};
use costs::report::{Origin, json, json_beside, markdown, tables};
use costs::{Error, Size};

/// What the abstractions of Weir cost beside the alternatives that were not taken.
#[derive(Debug, Parser)]
#[command(after_help = "Example: costs pairs table queue --markdown before-after.md")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compares ways to do the same work, and prints a table for each comparison.
    Pairs(PairsArgs),
}

#[derive(Debug, clap::Args)]
struct PairsArgs {
    /// Which groups of pairs; all of them where none is named.
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(GROUPS.iter().map(|group| group.name)))]
    names: Vec<String>,
    /// The same work in small, to see that it runs: the figures mean nothing.
    #[arg(long)]
    smoke: bool,
    /// Writes the figures as JSON, for the cost sheet. Pairs of other groups that are in the file stay there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the figures as a document.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Command::Pairs(args) = Args::parse().command;
    match pairs(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("costs: {error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "a program whose output this is")]
fn pairs(args: &PairsArgs) -> Result<(), Error> {
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|one| one == name);
    let (origin, mut made): (Origin, Vec<Pair>) = (Origin::here(), Vec::new());
    let size = if args.smoke { Size::Smoke } else { Size::Full };
    for group in GROUPS.iter().filter(|group| wanted(group.name)) {
        let pairs = (group.run)(size)?;
        print!("{}", tables(&pairs));
        made.extend(pairs);
    }
    let known = args.json.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let sheet = match known {
        Some(known) => json_beside(&known, &origin, &made)?,
        None => json(&origin, &made),
    };
    write(args.json.as_deref(), || sheet)?;
    write(args.markdown.as_deref(), || markdown(&origin, &made))
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let failed =
        |source: io::Error| Error::Io { action: format!("writing {}", path.display()), source };
    std::fs::write(path, text()).map_err(failed)
}
