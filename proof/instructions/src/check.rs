//! The gate, and the door beside it: `check` and `accept`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ab::AbError;
use crate::baseline::{Baseline, Entry, Figures, Files, FilesError, since_release};
use crate::callgrind::{self, Count, CountError, Run};
use crate::gate::{Comparison, LIMIT_PERCENT, Verdict};
use crate::parallel;
use crate::step::{Parent, Step};
use crate::toolchain::Toolchain;
use crate::workload::{self, Name, Plant};

/// What all accepted steps since the last release may come to, percent.
pub const DRIFT_PERCENT: f64 = 5.0;
/// A reason has at least so many letters.
pub const REASON_LETTERS_MIN: usize = 20;

/// What keeps the gate from saying anything.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Nothing could be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// Nothing could be timed.
    #[error(transparent)]
    Clock(#[from] AbError),
    /// The files of the repository.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A program.
    #[error("a program that is to be counted cannot be read: {0}")]
    Program(#[source] std::io::Error),
    /// A folder for what callgrind writes.
    #[error("no temporary folder: {0}; set TMPDIR to one that can be written")]
    Folder(#[source] std::io::Error),
    /// Accepting without saying why.
    #[error(
        "the reason has {letters} letters, at least {REASON_LETTERS_MIN} are needed: why may the hot path cost this? \
         make costs-accept REASON=\"...\""
    )]
    NoReason {
        /// What it has.
        letters: usize,
    },
    /// Accepting more than all steps since the release may come to.
    #[error(
        "{workload}: with this, the accepted steps since the last release come to {percent:+.2} %, at most {DRIFT_PERCENT} \
         are allowed; make something cheaper, or begin a release: make costs-accept RELEASE=... REASON=\"...\""
    )]
    Drift {
        /// Which.
        workload: String,
        /// The sum.
        percent: f64,
    },
}

/// What the gate says.
#[derive(Debug)]
pub struct Outcome {
    accepted: AgainstAccepted,
    /// The step from the parent, or why there is none.
    step: Result<Step, String>,
    /// What each workload comes to since the last release, percent; only with the tools of the accepted figures.
    drift: Vec<(String, f64)>,
}

#[derive(Debug)]
enum AgainstAccepted {
    /// It compared.
    Compared(Comparison),
    /// The baseline was counted with other tools: nothing can be said.
    OtherTools { here: Box<Toolchain>, baseline: Box<Toolchain>, now: BTreeMap<String, Figures> },
    /// Nothing was accepted so far.
    NoBaseline,
}

/// How the gate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The commit may pass.
    Good,
    /// Something became too dear.
    Dearer,
    /// Nothing was compared with what was accepted.
    NotCompared,
}

/// Counts and compares: with what was accepted, with the last release, and with the parent, or `Err` why there is none.
///
/// # Errors
/// [`CheckError`]: it could not.
pub fn check(
    files: &Files,
    workloads: &[Name],
    parent: Result<&Parent, String>,
) -> Result<Outcome, CheckError> {
    let (here, program) = (Toolchain::here()?, this_program()?);
    let (baseline, history) = (files.read()?, files.history()?);
    let now = figures(&program, workloads)?;
    let step = match parent {
        Ok(parent) => Ok(Step::of(parent, (&program, &now), (files.history_path(), &history))?),
        Err(why) => Err(why),
    };
    Ok(Outcome::of(here, baseline, &history, now, step))
}

impl Outcome {
    /// Figures of other tools, or of another kind of processor, are not compared.
    fn of(
        here: Toolchain,
        baseline: Option<Baseline>,
        history: &[Entry],
        now: BTreeMap<String, Figures>,
        step: Result<Step, String>,
    ) -> Outcome {
        let Some(baseline) = baseline else {
            return Outcome { accepted: AgainstAccepted::NoBaseline, step, drift: Vec::new() };
        };
        if baseline.toolchain != here {
            let (here, baseline) = (Box::new(here), Box::new(baseline.toolchain));
            let accepted = AgainstAccepted::OtherTools { here, baseline, now };
            return Outcome { accepted, step, drift: Vec::new() };
        }
        let drift = now.iter().filter_map(|(name, figures)| {
            let accepted = baseline.workloads.get(name)?.instructions;
            let factor = since_release(history, name) * figures.instructions / accepted;
            Some((name.clone(), (factor - 1.0) * 100.0))
        });
        let drift = drift.collect();
        let compared = Comparison::of(&baseline.workloads, &now);
        Outcome { accepted: AgainstAccepted::Compared(compared), step, drift }
    }

    fn ending(&self) -> Ending {
        let dearer = match &self.accepted {
            AgainstAccepted::Compared(comparison) => comparison.trips(),
            _ => false,
        };
        let stepped = self.step.as_ref().is_ok_and(|step| !step.tripped().is_empty());
        let drifted = self.drift.iter().any(|(_, percent)| *percent > DRIFT_PERCENT);
        match &self.accepted {
            _ if dearer || stepped || drifted => Ending::Dearer,
            AgainstAccepted::Compared(_) => Ending::Good,
            _ => Ending::NotCompared,
        }
    }
}

/// Counts, and writes the figures of `workloads` down as the ones to compare with from now on; those of the others stay.
///
/// # Errors
/// [`CheckError`]: no reason, too much since the release, or it could not.
pub fn accept(
    files: &Files,
    workloads: &[Name],
    reason: &str,
    release: Option<&str>,
) -> Result<(Baseline, Entry), CheckError> {
    let reason = reason.trim();
    let letters = reason.chars().filter(|c| c.is_alphabetic()).count();
    if letters < REASON_LETTERS_MIN {
        return Err(CheckError::NoReason { letters });
    }
    let toolchain = Toolchain::here()?;
    let (before, mut history) = (files.read()?, files.history()?);
    let mut now = figures(&this_program()?, workloads)?;
    // With other tools all figures are other ones.
    if let Some(before) = before.as_ref().filter(|before| before.toolchain == toolchain) {
        for (name, figures) in &before.workloads {
            now.entry(name.clone()).or_insert_with(|| figures.clone());
        }
    }
    let after = Baseline { toolchain, workloads: now };
    let cycles = |name: &str| Name::ALL.iter().copied().find(|known| known.as_str() == name);
    let cycles = |name: &str| workload::cycles(cycles(name)?, Plant::NONE);
    let mut entry = Entry::of(before.as_ref(), &after, reason, head(), cycles);
    entry.release = release.map(str::to_string);
    history.push(entry.clone());
    within_drift(&history)?;
    files.write(&after, &entry)?;
    Ok((after, entry))
}

/// Whether the steps since the release stay within what they may come to.
fn within_drift(history: &[Entry]) -> Result<(), CheckError> {
    let Some(last) = history.last() else { return Ok(()) };
    for workload in last.workloads.keys() {
        let percent = (since_release(history, workload) - 1.0) * 100.0;
        if percent > DRIFT_PERCENT {
            return Err(CheckError::Drift { workload: workload.clone(), percent });
        }
    }
    Ok(())
}

/// The path of this program.
///
/// # Errors
/// The system does not say.
pub fn this_program() -> Result<PathBuf, CheckError> {
    std::env::current_exe().map_err(CheckError::Program)
}

/// Counts those of some workloads that a program has, on all cores.
///
/// # Errors
/// [`CheckError`]: nothing could be counted.
pub fn figures(
    program: &Path,
    workloads: &[Name],
) -> Result<BTreeMap<String, Figures>, CheckError> {
    let counts = parallel::map(workloads, |name| match count_once(program, *name, 0.0) {
        Ok(count) => Ok(Some((*name, count))),
        Err(CheckError::Count(CountError::NoWorkload { .. })) => Ok(None),
        Err(error) => Err(error),
    });
    let counts: Result<Vec<Option<(Name, Count)>>, CheckError> = counts.into_iter().collect();
    let figures = |(name, count): &(Name, Count)| (name.as_str().into(), Figures::of(*name, count));
    Ok(counts?.iter().flatten().map(figures).collect())
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

/// Says it to whoever ran the gate.
#[must_use]
#[allow(clippy::print_stdout, reason = "a command's answer")]
pub fn report(outcome: &Outcome) -> Ending {
    match &outcome.accepted {
        AgainstAccepted::Compared(comparison) => {
            println!("Against what was accepted:\n{comparison}");
            println!("{}", advice(comparison));
        }
        AgainstAccepted::OtherTools { here, baseline, now } => {
            println!("NOT COMPARED with what was accepted, which was counted with other tools:");
            println!("  accepted: {baseline}");
            println!("  here:     {here}");
            for (name, Figures { instructions, unit, .. }) in now {
                println!("  {name}: {instructions:.2} instructions per {unit} here");
            }
            println!("Use the accepted tools, or make costs-accept REASON=\"other tools: ...\".");
        }
        AgainstAccepted::NoBaseline => {
            println!("NOT COMPARED: there is no baseline. make costs-accept REASON=\"...\"");
        }
    }
    for (workload, percent) in &outcome.drift {
        let left = DRIFT_PERCENT - percent;
        let said = if left < 0.0 { "  TOO MUCH" } else { "" };
        println!("since the release, {workload}: {percent:+.2} %, {left:.2} left{said}");
    }
    match &outcome.step {
        Ok(step) => {
            print!("\n{step}");
            let tripped = step.tripped();
            if !tripped.is_empty() {
                println!(
                    "This change makes {} dearer. Make it cheaper, or say in the same commit why it may cost this: \
                     make costs-accept REASON=\"...\"",
                    tripped.join(" and ")
                );
            }
        }
        Err(why) => println!("\nNO STEP: {why}; only what was accepted is compared."),
    }
    outcome.ending()
}

fn advice(comparison: &Comparison) -> String {
    if comparison.trips() {
        "The hot path became dearer. Make it cheaper, or say why it may cost this, in the same commit: \
         make costs-accept REASON=\"...\""
            .into()
    } else if comparison.has(Verdict::Cheaper) {
        "The hot path became cheaper. If the clock agrees, keep it: make costs-accept REASON=\"...\", or the next one may \
         spend it unseen."
            .into()
    } else if comparison.has(Verdict::New) {
        "A workload is new: make costs-accept REASON=\"...\" takes its figure.".into()
    } else {
        format!("No workload became more than {LIMIT_PERCENT} % dearer.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline;

    fn figures(instructions: f64) -> BTreeMap<String, Figures> {
        let figures = Figures {
            instructions,
            unit: "ask".into(),
            functions: BTreeMap::new(),
            files: BTreeMap::new(),
            crates: BTreeMap::new(),
            misses: None,
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

    fn entry(before: Option<f64>, after: f64, toolchain: Toolchain) -> Entry {
        let step = baseline::FigureStep { before, after, cycles: None };
        Entry {
            date: "2026-11-22".into(),
            on_top_of: "0123abc".into(),
            reason: "a reason".into(),
            release: None,
            toolchain,
            workloads: [("decide".to_string(), step)].into(),
        }
    }

    fn outcome(here: Toolchain, history: &[Entry], now: f64) -> Outcome {
        let accepted = history.last().map_or(100.0, |last| last.workloads["decide"].after);
        let baseline = Baseline { toolchain: tools(), workloads: figures(accepted) };
        Outcome::of(here, Some(baseline), history, figures(now), Err("no parent".into()))
    }

    /// Half as much again is not called dearer, for nobody knows what it comes from; it does not pass either.
    #[test]
    fn with_other_tools_or_on_another_kind_of_processor_it_says_so_and_does_not_pass() {
        let ending = |here: Toolchain| report(&outcome(here, &[], 150.0));
        assert_eq!(ending(tools()), Ending::Dearer, "the same tools");
        let other = || "another".to_string();
        assert_eq!(ending(Toolchain { rustc: other(), ..tools() }), Ending::NotCompared);
        assert_eq!(ending(Toolchain { valgrind: other(), ..tools() }), Ending::NotCompared);
        assert_eq!(ending(Toolchain { libc: other(), ..tools() }), Ending::NotCompared);
        let lacking = Toolchain { target: "x86_64 avx2 without rdrand".into(), ..tools() };
        assert_eq!(ending(lacking), Ending::NotCompared);
        let none = Outcome::of(tools(), None, &[], figures(1.0), Err("no parent".into()));
        assert_eq!(report(&none), Ending::NotCompared);
        assert_eq!(report(&outcome(tools(), &[], 101.0)), Ending::Good);
    }

    #[test]
    fn small_steps_add_up_until_the_release_stops_them() {
        let mut history = vec![entry(None, 100.0, tools()), entry(Some(100.0), 103.0, tools())];
        assert_eq!(outcome(tools(), &history, 104.0).ending(), Ending::Good);
        let creeping = outcome(tools(), &history, 105.01);
        assert!(creeping.drift[0].1 > DRIFT_PERCENT);
        assert_eq!(creeping.ending(), Ending::Dearer, "1.95 % over what was accepted last");
        assert!(within_drift(&history).is_ok());
        history.push(entry(Some(103.0), 105.01, tools()));
        assert!(matches!(within_drift(&history), Err(CheckError::Drift { .. })));
        history[2].release = Some("0.2.0".into());
        assert!(within_drift(&history).is_ok(), "counted from here");
    }

    #[test]
    fn a_step_to_other_tools_is_not_added_up() {
        let newer = Toolchain { rustc: "1.96.0".into(), ..tools() };
        let mut history =
            vec![entry(None, 100.0, tools()), entry(Some(100.0), 150.0, newer.clone())];
        assert!(within_drift(&history).is_ok());
        history.push(entry(Some(150.0), 160.0, newer));
        assert!(within_drift(&history).is_err());
    }
}
