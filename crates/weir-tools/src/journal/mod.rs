//! `weir journal`: what people do with a journal beside the node: prove it, read it, hand it to finance, recompute the
//! balances from it, and get out of it what is sound after damage.
//!
//! All commands but `repair` only read, and work beside a running node: they see what is sealed.
//!
//! - `trail`: walking over the records, where a walk can begin, and what the numbers in records stand for.
//! - `holes`: every file judged; what `verify` prints and `repair` plans with.
//! - `text`: a record as a line or as JSON.
//! - `balances`: a second reader of the records with arithmetic of its own, for `audit`.

mod audit;
mod balances;
mod export;
mod holes;
mod inspect;
mod live;
mod repair;
mod text;
mod trail;
mod verify;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use ledger_journal::{Disk, ReadError};
use weir_config::config;
use weir_node::doors::JUDGES;
use weir_node::known;

use trail::{Folder, Refusal};

/// Inspect, verify, export, audit or repair the journal of a node.
#[derive(clap::Args)]
pub struct JournalArgs {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(Subcommand)]
enum JournalCommand {
    /// Read every file whole and prove that nothing is missing or changed.
    #[command(
        after_help = "Example: weir journal verify --data weir-data\n\nPrints one line per file. The exit code is 0 for a sound journal; for a damaged one it is 1, and the output says what to do. A torn end of the last segment is no damage: a crash left it, it was never acknowledged, and the next start cuts it off. Works beside a running node."
    )]
    Verify(verify::VerifyArgs),
    /// Print records, one per line.
    #[command(
        after_help = "Example: weir journal inspect --budget 7 --type settled,settled_over,settled_late --limit 20\n\nTimes are UTC; amounts are in the budget's unit. Token keys are never printed. Exit code 1 if damage ends the reading. Works beside a running node."
    )]
    Inspect(inspect::InspectArgs),
    /// Export every settlement of a period for finance, with totals that reconcile with the balances.
    #[command(
        after_help = "Example: weir journal export --from 2026-11-01 --to 2026-12-01 --zone Europe/Paris --format csv --out november.csv --totals november-totals.csv\n\nThe period begins with --from and ends before --to; the instant at which a settlement was judged decides whether it belongs to the period. The exit code is 1 if a part of the period is gone, or if the totals do not reconcile; then the file is named FILE.unreconciled. Works beside a running node."
    )]
    Export(export::ExportArgs),
    /// Recompute every balance from the records alone, and compare it with the books.
    #[command(
        after_help = "Example: weir journal audit --live\n\nCompares an arithmetic of its own with the books that a start would have, and with --live or --target with those of the running node. These are equal only while no settles come in; otherwise they are compared as bounds. Exit code 1 at any difference."
    )]
    Audit(audit::AuditArgs),
    /// Make a damaged journal usable again from its sound part.
    #[command(
        after_help = "Example: weir journal repair --from-snapshot (shows what would be done), then: weir journal repair --from-snapshot --yes\n\nOnly with the node stopped, and only where no backup can be restored. Takes the newest sound snapshot and the sound records after it. What follows the damage is set aside under `quarantine-...`; what of it can still be read is written to a salvage file.\n\nThe risk: grants and settlements behind the damage are not in the books. Tokens of lost grants are answered with `too_old`, so they cannot be mistaken for others; money that they spend is not seen by Weir. Before the node starts again, lower the limits by the salvage totals, and by a margin for records that could not be read. Book the salvaged settlements by hand."
    )]
    Repair(repair::RepairArgs),
}

/// Where the journal is.
#[derive(clap::Args)]
struct Where {
    /// The node's data folder; otherwise the configuration's, `weir-data`.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The node's configuration.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Why a command could not do what it was asked. Every text says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(String),
    /// Arguments that do not fit each other.
    #[error("{0}")]
    Usage(String),
    /// There is no journal.
    #[error(
        "journal {path}: {source}; has a node run on this data folder? Give it with --data, or as the user of the node"
    )]
    NotThere {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// It cannot be read, or is damaged.
    #[error(
        "journal {path}: {source}\nnothing was changed. `weir journal verify` shows how much is sound; restore the \
         folder from a backup, or see `weir journal repair --help`"
    )]
    Read {
        /// The folder.
        path: PathBuf,
        /// What, and where.
        source: ReadError,
    },
    /// There is nothing that balances could be counted from.
    #[error(
        "journal {path}: its first segments are gone and no snapshot is sound{last}. Balances cannot be counted from \
         the records that are left. Put a sound snapshot of a backup, with the segments from the one it names on, \
         into the folder; see `weir journal repair --help`"
    )]
    NoBase {
        /// The folder.
        path: PathBuf,
        /// What is wrong with the newest snapshot, as a text to append.
        last: String,
    },
    /// The records are sound and do not follow from each other.
    #[error("journal {path}: {text}; please report this with the folder")]
    Replay {
        /// The folder.
        path: PathBuf,
        /// What does not follow.
        text: String,
    },
    /// A file cannot be written.
    #[error("{path}: {source}; is there room, and may you write there?")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The running node.
    #[error("{0}")]
    Live(String),
    /// A node runs on the folder.
    #[error(
        "data folder {path} is in use by a running node: stop it first (Ctrl-C or SIGTERM), a repair changes files"
    )]
    Running {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be repaired.
    #[error("{0}")]
    NoRepair(String),
}

/// What a command came to.
enum Outcome {
    Well,
    /// It did its work, and what it found is not well; it has said so.
    Bad,
}

/// Runs a command. What it prints goes to `out`, what it has to say beside that to standard error.
///
/// # Errors
/// [`JournalError`].
pub fn main(args: &JournalArgs, out: &mut dyn Write) -> Result<ExitCode, JournalError> {
    let done = match &args.command {
        JournalCommand::Verify(args) => verify::run(args, out),
        JournalCommand::Inspect(args) => inspect::run(args, out),
        JournalCommand::Export(args) => export::run(args, out),
        JournalCommand::Audit(args) => audit::run(args, out),
        JournalCommand::Repair(args) => repair::run(args, out),
    };
    match done {
        Ok(Outcome::Well) => Ok(ExitCode::SUCCESS),
        Ok(Outcome::Bad) => Ok(ExitCode::FAILURE),
        Err(JournalError::Usage(text)) => {
            let _ = writeln!(io::stderr(), "error: {text}");
            Ok(ExitCode::from(2))
        }
        Err(error) => Err(error),
    }
}

/// The bank that a start of this node on a data folder would go on from, read only, also beside a running node; `None`: there is
/// no journal, and none is missing.
///
/// # Errors
/// Why the start would refuse, in its own words.
pub(crate) fn bank_of_start(
    data: &std::path::Path,
    node: u16,
) -> Result<Option<ledger::Bank>, String> {
    let path = data.join("journal");
    let folder = Folder { data: data.to_path_buf(), disk: Disk::read(&path), path };
    let is_lost = known::lost(data).map_err(|error| folder.failed(error).to_string())?;
    if let Some(why) = is_lost {
        return Err(why);
    }
    let told = |refusal: Refusal| match refusal {
        Refusal::Lost(why) => why,
        Refusal::Recover(error) => format!("journal {}: {error}", folder.path.display()),
    };
    if !folder.path.is_dir() || folder.is_empty().map_err(|error| error.to_string())? {
        return Ok(None);
    }
    folder.is_of(node).map_err(told)?;
    let found = folder.read_back().map_err(|error| error.to_string())?;
    found.map(Some).map_err(told)
}

impl Where {
    fn folder(&self) -> Result<Folder, JournalError> {
        let data = match &self.data {
            Some(data) if self.config.is_none() => data.clone(),
            data => {
                let loaded = config::load(self.config.as_deref(), config::environment(), JUDGES);
                let config = loaded.map_err(|errors| {
                    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                    JournalError::Config(lines.join("\n"))
                })?;
                data.clone().unwrap_or(config.node.data_dir)
            }
        };
        Folder::open(data)
    }
}

/// Tells a person at a terminal how far a long reading is.
struct Progress {
    shown: bool,
    records: u64,
}

impl Progress {
    fn new() -> Progress {
        Progress { shown: io::stderr().is_terminal(), records: 0 }
    }

    fn count(&mut self) {
        self.records += 1;
        if self.shown && self.records.is_multiple_of(1 << 18) {
            let _ = write!(io::stderr(), "\r{} records read", self.records);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown && self.records >= 1 << 18 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
