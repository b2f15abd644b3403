//! The command line: see `instructions --help`.
#![allow(clippy::print_stdout, reason = "a command's answer")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use instructions::ab;
use instructions::baseline::{Entry, Files, since_release};
use instructions::check::{self, Ending, accept};
use instructions::rates::rates;
use instructions::step::Parent;
use instructions::workload::{self, Name, Plant};

/// Counts the instructions of the hot path, and refuses what makes it dearer.
#[derive(Parser)]
#[command(
    after_help = "Example: make costs-check, which is `instructions check` from the repository's root.\n\
                  Exit codes: 0 good, 1 dearer or failed, 2 wrong usage, 3 nothing was compared with what was accepted."
)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
    /// The accepted figures; their history lies beside them
    #[arg(long, global = true, value_name = "FILE", default_value = "proof/costs/baseline.json")]
    baseline: PathBuf,
}

#[derive(Subcommand)]
enum Cmd {
    /// Counts every workload and compares with the accepted figures, the last release and the parent
    Check {
        /// Which workloads; all without
        workloads: Vec<Name>,
        /// This program, built from the parent of what is judged
        #[arg(long, value_name = "PATH", requires = "parent_revision")]
        parent: Option<PathBuf>,
        /// The commit that it was built from
        #[arg(long, value_name = "COMMIT")]
        parent_revision: Option<String>,
        /// Why there is no parent to compare with
        #[arg(
            long,
            value_name = "WHY",
            conflicts_with = "parent",
            default_value = "no --parent was given"
        )]
        no_parent: String,
        /// Rounds by the clock, of this program and the parent's; 0 for none
        #[arg(long, value_name = "N", default_value_t = 15)]
        rounds: u16,
    },
    /// Counts and accepts what workloads cost, with a reason
    Accept {
        /// The version that is released with these figures; the steps after it are added up from here
        #[arg(long, value_name = "VERSION")]
        release: Option<String>,
        /// Which workloads; all without
        workloads: Vec<Name>,
        /// Why the hot path may cost this
        #[arg(long)]
        reason: String,
    },
    /// Tries whether the gate tells: the same program again, 1 % planted, 3 % planted
    Rates {
        /// Runs of each kind
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// Which workloads; all without
        workloads: Vec<Name>,
    },
    /// Does one workload and prints how many operations it were: what callgrind runs
    Workload {
        /// Which
        name: Name,
        /// Operations, at least
        #[arg(long)]
        ops: u64,
        #[command(flatten)]
        plant: PlantArgs,
    },
    /// Prints the nanoseconds an operation took, of one short run
    Time {
        /// Which
        name: Name,
        #[command(flatten)]
        plant: PlantArgs,
    },
    /// Compares two builds of this program by the clock
    Ab(ab::AbOptions),
    /// Measures how often that comparison is right
    AbRates(ab::RatesOptions),
}

#[derive(clap::Args)]
#[group(multiple = false)]
struct PlantArgs {
    /// Adds instructions, percent of the accepted figure
    #[arg(long, value_name = "PERCENT")]
    plant: Option<f64>,
    /// Adds so many instructions to each operation
    #[arg(long, value_name = "N")]
    plant_instructions: Option<f64>,
}

impl PlantArgs {
    fn plant(&self, name: Name, files: &Files) -> Result<Plant, String> {
        let accepted = || files.figures(name).map_err(|error| error.to_string());
        match (self.plant, self.plant_instructions) {
            (Some(percent), _) => {
                Ok(Plant::instructions(accepted()?.instructions * percent / 100.0))
            }
            (_, Some(instructions)) => Ok(Plant::instructions(instructions)),
            (None, None) => Ok(Plant::NONE),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command, &Files::new(&cli.baseline)) {
        Ok(Ending::Good) => ExitCode::SUCCESS,
        Ok(Ending::Dearer) => ExitCode::FAILURE,
        Ok(Ending::NotCompared) => ExitCode::from(NOT_COMPARED),
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The exit code where nothing was compared with what was accepted.
const NOT_COMPARED: u8 = 3;

fn run(command: &Cmd, files: &Files) -> Result<Ending, String> {
    match command {
        Cmd::Check { workloads, parent, parent_revision, no_parent, rounds } => {
            let both = parent.clone().zip(parent_revision.clone());
            let parent =
                both.map(|(program, revision)| Parent { program, revision, rounds: *rounds });
            let parent = parent.as_ref().ok_or_else(|| no_parent.clone());
            Ok(check::report(&check::check(files, all_if_none(workloads), parent).map_err(said)?))
        }
        Cmd::Accept { reason, release, workloads } => {
            let (_, entry) =
                accept(files, all_if_none(workloads), reason, release.as_deref()).map_err(said)?;
            say_accepted(&entry, &files.history().map_err(said)?);
            Ok(Ending::Good)
        }
        Cmd::Rates { runs, workloads } => {
            let workloads = all_if_none(workloads);
            let program = check::this_program().map_err(said)?;
            let rates = rates(&program, workloads, usize::from(*runs)).map_err(said)?;
            print!("{rates}");
            Ok(if rates.are_right() { Ending::Good } else { Ending::Dearer })
        }
        Cmd::Workload { name, ops, plant } => {
            println!("{}", workload::run(*name, *ops, plant.plant(*name, files)?));
            Ok(Ending::Good)
        }
        Cmd::Time { name, plant } => {
            println!("{:.4}", workload::time(*name, plant.plant(*name, files)?));
            Ok(Ending::Good)
        }
        Cmd::Ab(options) => {
            println!("{}", ab::compare(options).map_err(said)?);
            Ok(Ending::Good)
        }
        Cmd::AbRates(options) => {
            let program = check::this_program().map_err(said)?;
            println!("{}", ab::rates(&program, options).map_err(said)?);
            Ok(Ending::Good)
        }
    }
}

fn all_if_none(workloads: &[Name]) -> &[Name] {
    if workloads.is_empty() { Name::ALL } else { workloads }
}

fn say_accepted(entry: &Entry, history: &[Entry]) {
    for (name, step) in &entry.workloads {
        let before = step.before.map_or("-".into(), |before| format!("{before:.2}"));
        let sum = (since_release(history, name) - 1.0) * 100.0;
        let after = step.after;
        println!("{name}: {before} -> {after:.2} instructions; since the release {sum:+.2} %");
    }
    println!("accepted: {}", entry.reason);
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
