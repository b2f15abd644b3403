//! The gate, and the door beside it: `check` and `accept`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::baseline::{Baseline, Entry, Figures, Files, FilesError};
use crate::callgrind::{self, Count, CountError, Run};
use crate::gate::{Comparison, Verdict};
use crate::parallel;
use crate::toolchain::Toolchain;
use crate::workload::{self, Name, Plant};

/// What keeps the gate from saying anything.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Nothing could be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// The files of the repository.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// This program.
    #[error("the path of this program is not known: {0}")]
    Program(#[source] std::io::Error),
    /// A folder for what callgrind writes.
    #[error("no temporary folder: {0}; set TMPDIR to one that can be written")]
    Folder(#[source] std::io::Error),
    /// Accepting without a word.
    #[error(
        "accept needs a reason: why may the hot path cost this? make costs-accept REASON=\"...\""
    )]
    NoReason,
}

/// What the gate says.
#[derive(Debug)]
pub enum Outcome {
    /// It compared.
    Compared(Comparison),
    /// The baseline was counted with other tools: nothing can be said.
    OtherTools {
        /// What is here.
        here: Box<Toolchain>,
        /// What the baseline was counted with.
        baseline: Box<Toolchain>,
        /// What was counted here.
        now: BTreeMap<String, Figures>,
    },
    /// Nothing was accepted so far.
    NoBaseline,
}

/// Counts and compares with the baseline.
///
/// # Errors
/// [`CheckError`]: it could not.
pub fn check(files: &Files) -> Result<Outcome, CheckError> {
    let here = Toolchain::here()?;
    let Some(baseline) = files.read()? else { return Ok(Outcome::NoBaseline) };
    Ok(Outcome::of(here, baseline, figures(&this_program()?)?))
}

impl Outcome {
    /// Figures of other tools, or of another kind of processor, are not compared.
    fn of(here: Toolchain, baseline: Baseline, now: BTreeMap<String, Figures>) -> Outcome {
        if baseline.toolchain == here {
            return Outcome::Compared(Comparison::of(&baseline, &now));
        }
        let (here, baseline) = (Box::new(here), Box::new(baseline.toolchain));
        Outcome::OtherTools { here, baseline, now }
    }
}

/// Counts, and writes the figures down as the ones to compare with from now on.
///
/// # Errors
/// [`CheckError`]: no reason, or it could not.
pub fn accept(files: &Files, reason: &str) -> Result<(Baseline, Entry), CheckError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(CheckError::NoReason);
    }
    let toolchain = Toolchain::here()?;
    let before = files.read()?;
    let after = Baseline { toolchain, workloads: figures(&this_program()?)? };
    let cycles = |name: &str| Name::ALL.into_iter().find(|known| known.as_str() == name);
    let cycles = |name: &str| workload::cycles(cycles(name)?, Plant::NONE);
    let entry = Entry::of(before.as_ref(), &after, reason, head(), cycles);
    files.write(&after, &entry)?;
    Ok((after, entry))
}

/// The path of this program.
///
/// # Errors
/// The system does not say.
pub fn this_program() -> Result<PathBuf, CheckError> {
    std::env::current_exe().map_err(CheckError::Program)
}

/// Counts all workloads, on all cores.
fn figures(program: &Path) -> Result<BTreeMap<String, Figures>, CheckError> {
    let counts = parallel::map(&Name::ALL, |name| Ok((*name, count_once(program, *name, 0.0)?)));
    let counts: Result<Vec<(Name, Count)>, CheckError> = counts.into_iter().collect();
    let figures = |(name, count): &(Name, Count)| (name.as_str().into(), Figures::of(*name, count));
    Ok(counts?.iter().map(figures).collect())
}

/// Counts one workload with so many instructions more an operation.
pub(crate) fn count_once(program: &Path, name: Name, plant: f64) -> Result<Count, CheckError> {
    let folder = tempfile::tempdir().map_err(CheckError::Folder)?;
    let run = Run {
        program: program.to_owned(),
        workload: name,
        ops: name.ops(),
        plant,
        environment: Vec::new(),
    };
    Ok(callgrind::count(&run, folder.path())?)
}

/// The commit that is checked out.
fn head() -> String {
    let asked = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = asked.ok().filter(|output| output.status.success());
    let text = text.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    if text.trim().is_empty() { "unknown".to_string() } else { text.trim().to_string() }
}

/// Says it to whoever ran the gate. True: the commit may pass.
#[must_use]
#[allow(clippy::print_stdout, reason = "a command's answer")]
pub fn report(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Compared(comparison) => {
            println!("{comparison}");
            println!("{}", advice(comparison));
            !comparison.trips()
        }
        Outcome::OtherTools { here, baseline, now } => {
            println!("WARNING: NOTHING WAS COMPARED. The baseline was counted with other tools:");
            println!("  baseline: {baseline}");
            println!("  here:     {here}");
            for (name, Figures { instructions, unit, .. }) in now {
                println!("  {name}: {instructions:.2} instructions a {unit} here");
            }
            println!(
                "To compare from now on with what is here: make costs-accept REASON=\"other tools: ...\""
            );
            true
        }
        Outcome::NoBaseline => {
            println!("WARNING: NOTHING WAS COMPARED. There is no baseline.");
            println!("Take the first one: make costs-accept REASON=\"the first figures\"");
            true
        }
    }
}

fn advice(comparison: &Comparison) -> &'static str {
    if comparison.trips() {
        "The hot path became dearer. Make it cheaper, or say why it may cost this, in the same commit: \
         make costs-accept REASON=\"...\""
    } else if comparison.has(Verdict::Cheaper) {
        "The hot path became cheaper. Keep it: make costs-accept REASON=\"...\", or the next one may spend it unseen."
    } else if comparison.has(Verdict::New) {
        "A workload is new: make costs-accept REASON=\"...\" takes its figure."
    } else {
        "No workload became more than 2 % dearer."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(instructions: f64) -> BTreeMap<String, Figures> {
        let figures = Figures {
            instructions,
            unit: "ask".into(),
            functions: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        [("decide".to_string(), figures)].into()
    }

    fn tools() -> Toolchain {
        Toolchain {
            rustc: "1.95.0".into(),
            profile: "release".into(),
            target: "x86_64 avx2".into(),
            valgrind: "valgrind-3.19.0".into(),
            libc: "glibc 2.36".into(),
        }
    }

    /// Whatever it is that differs: half as much again is no reason to stop, for nobody knows what it comes from.
    #[test]
    fn with_other_tools_or_on_another_kind_of_processor_nothing_is_compared_and_it_passes() {
        let passes = |here: Toolchain| {
            let baseline = Baseline { toolchain: tools(), workloads: figures(100.0) };
            report(&Outcome::of(here, baseline, figures(150.0)))
        };
        assert!(!passes(tools()), "the same tools");
        let other = || "another".to_string();
        assert!(passes(Toolchain { rustc: other(), ..tools() }));
        assert!(passes(Toolchain { valgrind: other(), ..tools() }));
        assert!(passes(Toolchain { libc: other(), ..tools() }));
        assert!(passes(Toolchain { target: "x86_64 avx2 without rdrand".into(), ..tools() }));
        assert!(report(&Outcome::NoBaseline));
    }
}
