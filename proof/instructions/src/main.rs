//! The command line: see `instructions --help`.
#![allow(clippy::print_stdout, reason = "a command's answer")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use instructions::ab;
use instructions::baseline::Files;
use instructions::check::{self, accept};
use instructions::rates::rates;
use instructions::workload::{self, Name, Plant};

/// Counts the instructions of the hot path, and refuses what makes it dearer.
#[derive(Parser)]
#[command(
    after_help = "Example: make costs-check, which is `instructions check` from the repository's root.\n\
                  Exit codes: 0 good, 1 dearer or failed, 2 wrong usage."
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
    /// Counts every workload and compares with the accepted figures
    Check,
    /// Counts every workload and accepts what it costs, with a reason
    Accept {
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
    Ab(ab::Options),
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
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// False: it was done, and the answer is no.
fn run(command: &Cmd, files: &Files) -> Result<bool, String> {
    match command {
        Cmd::Check => Ok(check::report(&check::check(files).map_err(said)?)),
        Cmd::Accept { reason } => {
            let (_, entry) = accept(files, reason).map_err(said)?;
            for (name, step) in &entry.workloads {
                let before = step.before.map_or("-".into(), |before| format!("{before:.2}"));
                println!("{name}: {before} -> {:.2} instructions", step.after);
            }
            println!("accepted: {}", entry.reason);
            Ok(true)
        }
        Cmd::Rates { runs, workloads } => {
            let workloads = if workloads.is_empty() { &Name::ALL[..] } else { workloads };
            let program = check::this_program().map_err(said)?;
            let rates = rates(&program, workloads, usize::from(*runs)).map_err(said)?;
            print!("{rates}");
            Ok(rates.are_right())
        }
        Cmd::Workload { name, ops, plant } => {
            println!("{}", workload::run(*name, *ops, plant.plant(*name, files)?));
            Ok(true)
        }
        Cmd::Time { name, plant } => {
            println!("{:.4}", workload::time(*name, plant.plant(*name, files)?));
            Ok(true)
        }
        Cmd::Ab(options) => {
            println!("{}", ab::compare(options).map_err(said)?);
            Ok(true)
        }
        Cmd::AbRates(options) => {
            let program = check::this_program().map_err(said)?;
            println!("{}", ab::rates(&program, options).map_err(said)?);
            Ok(true)
        }
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
