//! `sim`: runs seeds of the simulator from the command line.
#![allow(clippy::print_stdout, reason = "a command line tool speaks on standard output")]

use std::process::ExitCode;

use sim::{Bug, STEPS};

const HELP: &str = "\
Runs ledger and journal in simulated nodes: crashes, delays, repeats, lost messages, bad disks, odd clocks.

Usage: sim [--seeds N] [--from SEED] [--steps N] [--bug NAME]
       sim --planted [--steps N]

  --seeds N    how many seeds to run              [default: 1000]
  --from SEED  the first seed                     [default: 1]
  --steps N    steps of each run                  [default: 2000]
  --bug NAME   plant a fault, then finding it is success: answer-before-seal, lapse-twice,
               forget-suspension, tick-ahead, lose-retire, forget-marks, free-expired,
               count-returns-anew, roll-early, accept-torn,
               sync-again, lose-names, early-snapshot, doubt-is-done, doubt-is-failure, no-compare,
               fence-ignored, empty-is-final, memo-before-seal, memo-without-money,
               memo-twice, forget-orders, digest-of-key, drop-top-ups, top-up-in-full, forget-amounts,
               free-rests, order-before-seal, leg-alone, add-amounts, free-twice, lose-row
               day-forgets-holds, lean-on-unsealed, count-before-seal, count-twice, count-unbilled,
               end-early, no-lease-term, lease-from-receipt or kept-after-answer
  --planted    plant each of them in turn; each must be found within a stated number of seeds

Example: replay one seed    sim --from 4711 --seeds 1
Exit codes: 0 all promises held and, from 1,000 seeds on, every rare case was reached (or: the planted fault was
found), 1 not so, 2 wrong usage.";

struct Args {
    seeds: u64,
    from: u64,
    steps: u32,
    bug: Option<Bug>,
    planted: bool,
}

fn parse() -> Result<Args, String> {
    let mut args = Args { seeds: 1000, from: 1, steps: STEPS, bug: None, planted: false };
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
            "--planted" => args.planted = true,
            "--bug" => args.bug = Some(bug(&words.next().unwrap_or_default())?),
            _ => return Err(format!("{flag}: there is no such flag")),
        }
    }
    Ok(args)
}

fn bug(name: &str) -> Result<Bug, String> {
    let mut all = Bug::ALL.into_iter().map(|(bug, _)| bug);
    all.find(|bug| bug.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Bug::ALL.iter().map(|(bug, _)| bug.name()).collect();
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
    let good = if args.planted { find_planted(args.steps) } else { run(&args) };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(args: &Args) -> bool {
    let outcome = sim::run_seeds(args.from, args.seeds, args.steps, args.bug);
    println!("{outcome}");
    match args.bug {
        Some(_) => outcome.violation.is_some(),
        None => outcome.violation.is_none() && outcome.missed().is_empty(),
    }
}

/// True if every planted fault was found.
fn find_planted(steps: u32) -> bool {
    // An assertion that fires is a way to find one; its trace is of no interest.
    std::panic::set_hook(Box::new(|_| {}));
    let mut all = true;
    for (bug, seeds) in Bug::ALL {
        let name = bug.name();
        match sim::run_seeds(1, seeds, steps, Some(bug)).violation {
            Some((seed, error)) => {
                let error = error.lines().next().unwrap_or_default();
                println!("{name:<20} found by seed {seed}, must be within {seeds}: {error}");
            }
            None => {
                println!("{name:<20} not found within {seeds} seeds");
                all = false;
            }
        }
    }
    all
}
