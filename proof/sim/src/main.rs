//! `sim`: runs seeds of the simulator from the command line.
#![allow(clippy::print_stdout, reason = "a command line tool speaks on standard output")]

use std::process::ExitCode;

use sim::Bug;

const HELP: &str = "\
Runs the ledger in simulated nodes: crashes, delays, repeats, lost messages, slow disks, odd clocks.

Usage: sim [--seeds N] [--from SEED] [--steps N] [--bug NAME]

  --seeds N    how many seeds to run              [default: 1000]
  --from SEED  the first seed                     [default: 1]
  --steps N    steps of each run                  [default: 2000]
  --bug NAME   plant a fault, then finding it is success: answer-before-seal, lapse-twice,
               forget-suspension, tick-ahead or lose-retire

Example: replay one seed    sim --from 4711 --seeds 1
Exit codes: 0 all promises held (or the planted fault was found), 1 not so, 2 wrong usage.";

struct Args {
    seeds: u64,
    from: u64,
    steps: u32,
    bug: Option<Bug>,
}

fn parse() -> Result<Args, String> {
    let mut args = Args { seeds: 1000, from: 1, steps: 2000, bug: None };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let mut number = || {
            let word = words.next().ok_or(format!("{flag}: a value is missing"))?;
            word.parse().map_err(|_| format!("{flag}: found {word}, expected a whole number"))
        };
        match flag.as_str() {
            "--seeds" => args.seeds = number()?,
            "--from" => args.from = number()?,
            "--steps" => args.steps = u32::try_from(number()?).map_err(|_| "--steps: too many")?,
            "--bug" => args.bug = Some(bug(&words.next().unwrap_or_default())?),
            _ => return Err(format!("{flag}: there is no such flag")),
        }
    }
    Ok(args)
}

fn bug(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.into_iter().find(|bug| bug.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        format!("--bug: found \"{name}\", expected one of {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help" || word == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let args = match parse() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("sim: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let outcome = sim::run_seeds(args.from, args.seeds, args.steps, args.bug);
    println!("{outcome}");
    let found = outcome.violation.is_some();
    if found == args.bug.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
