//! Whether the gate tells what it should: how often it trips over the same program again, over a planted 1 %, and over
//! a planted 3 %.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::baseline::Figures;
use crate::callgrind::{self, Count, Run};
use crate::check::{CheckError, count_once};
use crate::gate::Comparison;
use crate::parallel;
use crate::workload::Name;

/// A planted percentage may read so much larger or smaller.
const PLANT_ERROR: f64 = 0.25;
/// What the gate's table must name.
const PLANTED: &str = "instructions::workload::planted";

/// What is done to the program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trial {
    /// Nothing. It is run once more from another folder, with an environment of another size.
    Again,
    /// More instructions in the measured part, percent.
    Planted(f64),
}

const TRIALS: [Trial; 3] = [Trial::Again, Trial::Planted(1.0), Trial::Planted(3.0)];

/// What came of one kind of trial with one workload.
#[derive(Clone, Debug)]
struct TrialLine {
    workload: Name,
    trial: Trial,
    /// What the count changed by, percent, of each run.
    changes: Vec<f64>,
    tripped: usize,
    /// Runs that tripped and did not name what was planted.
    unnamed: usize,
}

/// What the gate tells, and what it should have told.
#[derive(Clone, Debug)]
pub struct GateRates {
    lines: Vec<TrialLine>,
}

/// Tries the gate with a program: `runs` of each kind with each workload.
///
/// # Errors
/// [`CheckError`]: nothing could be counted.
pub fn rates(program: &Path, workloads: &[Name], runs: usize) -> Result<GateRates, CheckError> {
    let first = parallel::map(workloads, |name| count_once(program, *name, 0.0));
    let first: Vec<Count> = first.into_iter().collect::<Result<_, _>>()?;
    let kinds = workloads.iter().zip(&first);
    let kinds: Vec<(Name, &Count, Trial)> =
        kinds.flat_map(|(name, first)| TRIALS.map(|trial| (*name, first, trial))).collect();
    let all: Vec<(Name, &Count, Trial, usize)> = kinds
        .iter()
        .flat_map(|(name, first, trial)| (0..runs).map(|run| (*name, *first, *trial, run)))
        .collect();
    let counts =
        parallel::map(&all, |(name, first, trial, run)| again(program, *name, first, *trial, *run));
    let counts: Vec<Count> = counts.into_iter().collect::<Result<_, _>>()?;
    let lines = kinds.iter().zip(counts.chunks(runs.max(1)));
    let lines =
        lines.map(|((name, first, trial), counts)| TrialLine::of(*name, *trial, first, counts));
    Ok(GateRates { lines: lines.collect() })
}

/// One more run. Each comes from a folder of its own, whose name has another length, with another environment: what is
/// around a program moves its stack, and must not move a count.
fn again(
    program: &Path,
    name: Name,
    first: &Count,
    trial: Trial,
    run: usize,
) -> Result<Count, CheckError> {
    let folder = tempfile::tempdir().map_err(CheckError::Folder)?;
    let home = folder.path().join("x".repeat(1 + run * 7 % 100));
    let program = copy(program, &home).map_err(CheckError::Folder)?;
    let plant = match trial {
        Trial::Again => 0.0,
        Trial::Planted(percent) => first.instructions() * percent / 100.0,
    };
    let padding = OsString::from("x".repeat(run * 997 % 8_192));
    let environment = vec![(OsString::from("PADDING"), padding)];
    let run = Run { program, workload: name, ops: name.ops(), plant, environment };
    Ok(callgrind::count(&run, folder.path())?)
}

fn copy(program: &Path, folder: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir(folder)?;
    let copy = folder.join("instructions");
    // A second name for the same file is enough, where the two are on one disk.
    std::fs::hard_link(program, &copy).or_else(|_| std::fs::copy(program, &copy).map(drop))?;
    Ok(copy)
}

impl TrialLine {
    fn of(workload: Name, trial: Trial, first: &Count, counts: &[Count]) -> TrialLine {
        let named = |count| (workload.as_str().to_string(), Figures::of(workload, count));
        let before = [named(first)].into();
        let compared = counts.iter().map(|count| Comparison::of(&before, &[named(count)].into()));
        let tripped: Vec<Comparison> = compared.filter(Comparison::trips).collect();
        let unnamed = tripped.iter().filter(|table| !table.to_string().contains(PLANTED)).count();
        let before = first.instructions();
        let change = |count: &Count| (count.instructions() - before) / before * 100.0;
        let changes = counts.iter().map(change).collect();
        TrialLine { workload, trial, changes, tripped: tripped.len(), unnamed }
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        let (runs, tripped) = (self.changes.len(), self.tripped);
        let wanted = match self.trial {
            Trial::Planted(percent) if percent > crate::gate::LIMIT_PERCENT => runs,
            _ => 0,
        };
        let planted = match self.trial {
            Trial::Again => 0.0,
            Trial::Planted(percent) => percent,
        };
        if self.changes.iter().any(|change| (change - planted).abs() > PLANT_ERROR) {
            return Some("the plant has another size: see INSTRUCTIONS_A_TURN".into());
        }
        if tripped != wanted {
            return Some(format!("tripped {tripped} of {runs}, expected {wanted}"));
        }
        (self.unnamed > 0).then(|| format!("{} tables do not name {PLANTED}", self.unnamed))
    }
}

impl GateRates {
    /// Whether the gate told everything, and nothing else.
    #[must_use]
    pub fn are_right(&self) -> bool {
        self.lines.iter().all(|line| line.fault().is_none())
    }
}

impl fmt::Display for GateRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:<18} {:<20} tripped",
            "workload", "what was done", "count changed by, %"
        )?;
        for line in &self.lines {
            let done = match line.trial {
                Trial::Again => "nothing".to_string(),
                Trial::Planted(percent) => format!("planted {percent} %"),
            };
            let least = line.changes.iter().copied().fold(f64::INFINITY, f64::min);
            let most = line.changes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (name, runs) = (line.workload.as_str(), line.changes.len());
            let changed = format!("{least:+.4} to {most:+.4}");
            write!(f, "{name:<10} {done:<18} {changed:<20} {} of {runs}", line.tripped)?;
            match line.fault() {
                Some(fault) => writeln!(f, "  WRONG: {fault}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
