//! What one change did: this program beside the one that was built from its parent, counted and timed in the same run.
//!
//! The accepted figures tell how far the hot path has come; whoever changes something should hear of that alone. Both
//! programs are counted here, so the tools need not be those of the accepted figures.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ab::{self, Interval};
use crate::baseline::{Entry, Figures};
use crate::check::{CheckError, figures};
use crate::gate::Comparison;
use crate::workload::Name;

/// Slower than this with 95 % confidence, and the gate is shut.
pub const CLOCK_LIMIT: f64 = 1.02;
/// A comparison that trips is made once more, with so many times the rounds: both must say it.
const SURER: u16 = 2;

/// What to compare with.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The program that was built from it.
    pub program: PathBuf,
    /// The commit.
    pub revision: String,
    /// Rounds of the comparison by the clock; 0 for none.
    pub rounds: u16,
}

/// What a change did.
#[derive(Debug)]
pub struct Step {
    revision: String,
    counted: Counted,
    /// What the change itself accepted: a reason, and the workloads whose figures it moved.
    accepted: Option<Accepted>,
}

#[derive(Debug)]
enum Counted {
    /// Byte for byte the same program: there is nothing to count.
    Same,
    Compared {
        instructions: Comparison,
        clock: Vec<(Name, Interval)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Accepted {
    reason: String,
    workloads: Vec<String>,
}

impl Step {
    /// Counts and times the parent beside this program, whose figures are `now`.
    ///
    /// # Errors
    /// [`CheckError`]: it could not.
    pub fn of(
        parent: &Parent,
        (program, now): (&Path, &BTreeMap<String, Figures>),
        history: (&Path, &[Entry]),
    ) -> Result<Step, CheckError> {
        let revision = parent.revision.clone();
        let accepted = accepted(&revision, history.0, history.1);
        if same_bytes(&parent.program, program).map_err(CheckError::Program)? {
            return Ok(Step { revision, counted: Counted::Same, accepted });
        }
        let named = Name::ALL.iter().copied().filter(|name| now.contains_key(name.as_str()));
        let workloads: Vec<Name> = named.collect();
        let before = figures(&parent.program, &workloads)?;
        let instructions = Comparison::of(&before, now);
        let clock = clock(parent, program, &before)?;
        Ok(Step { revision, counted: Counted::Compared { instructions, clock }, accepted })
    }

    /// Workloads that became too much dearer and that the change did not accept, by count and by clock.
    #[must_use]
    pub fn tripped(&self) -> Vec<String> {
        let Counted::Compared { instructions, clock } = &self.counted else { return Vec::new() };
        let slower = clock.iter().filter(|(_, ratio)| ratio.low > CLOCK_LIMIT);
        let slower = slower.map(|(name, _)| name.as_str());
        let excused = |name: &str| {
            let accepted = self.accepted.iter().flat_map(|accepted| &accepted.workloads);
            accepted.into_iter().any(|accepted| accepted == name)
        };
        let mut all: Vec<String> = instructions
            .tripped()
            .chain(slower)
            .filter(|name| !excused(name))
            .map(String::from)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Times both; what trips is timed again, for longer.
fn clock(
    parent: &Parent,
    program: &Path,
    before: &BTreeMap<String, Figures>,
) -> Result<Vec<(Name, Interval)>, CheckError> {
    let both: Vec<Name> =
        Name::ALL.iter().copied().filter(|name| before.contains_key(name.as_str())).collect();
    let compare = |workloads: Vec<Name>, rounds: u16| -> Result<Vec<_>, CheckError> {
        if workloads.is_empty() || rounds == 0 {
            return Ok(Vec::new());
        }
        let (base, head) = (parent.program.clone(), program.to_owned());
        let report = ab::compare(&ab::AbOptions { base, head, rounds, workloads })?;
        Ok(report.ratios().collect())
    };
    let mut all = compare(both, parent.rounds)?;
    let slower: Vec<Name> = slower(&all).collect();
    for (name, surer) in compare(slower, parent.rounds.saturating_mul(SURER))? {
        all.iter_mut().filter(|(of, _)| *of == name).for_each(|(_, ratio)| *ratio = surer);
    }
    Ok(all)
}

fn slower(all: &[(Name, Interval)]) -> impl Iterator<Item = Name> {
    all.iter().filter(|(_, ratio)| ratio.low > CLOCK_LIMIT).map(|(name, _)| *name)
}

/// What the history has on top of the parent's. Nothing is excused if the parent's cannot be read, or is not there.
fn accepted(revision: &str, path: &Path, history: &[Entry]) -> Option<Accepted> {
    let object = format!("{revision}:./{}", path.display());
    let shown = Command::new("git").args(["show", &object]).output().ok()?;
    if !shown.status.success() {
        return None;
    }
    accepted_since(history, String::from_utf8_lossy(&shown.stdout).lines().count())
}

fn accepted_since(history: &[Entry], known: usize) -> Option<Accepted> {
    let new = history.get(known..)?;
    let moved = new.iter().flat_map(|entry| &entry.workloads);
    let moved = moved.filter(|(_, step)| step.before != Some(step.after));
    let workloads = moved.map(|(name, _)| name.clone()).collect();
    Some(Accepted { reason: new.last()?.reason.clone(), workloads })
}

/// Whether two files hold the same bytes.
///
/// # Errors
/// One of them cannot be read.
pub fn same_bytes(one: &Path, other: &Path) -> std::io::Result<bool> {
    Ok(std::fs::metadata(one)?.len() == std::fs::metadata(other)?.len()
        && std::fs::read(one)? == std::fs::read(other)?)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The step from {}:", self.revision)?;
        if let Some(Accepted { reason, workloads }) = &self.accepted {
            writeln!(f, "it accepts {}: {reason}", workloads.join(", "))?;
        }
        let Counted::Compared { instructions, clock } = &self.counted else {
            return writeln!(f, "the program is the same, byte for byte.");
        };
        writeln!(f, "{instructions}")?;
        for (name, Interval { ratio, low, high }) in clock {
            let said = if *low > CLOCK_LIMIT { "  TOO SLOW" } else { "" };
            let name = name.as_str();
            writeln!(f, "{name:<10} by the clock {ratio:.3} [{low:.3}..{high:.3}]{said}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline;
    use crate::toolchain::Toolchain;

    fn entry(reason: &str, before: Option<f64>, after: f64) -> Entry {
        let step = |before, after| baseline::FigureStep { before, after, cycles: None };
        Entry {
            date: "2026-11-22".into(),
            on_top_of: "0123abc".into(),
            reason: reason.into(),
            release: None,
            toolchain: Toolchain::default(),
            workloads: [
                ("decide".to_string(), step(before, after)),
                ("codec".to_string(), step(Some(10.0), 10.0)),
            ]
            .into(),
        }
    }

    #[test]
    fn a_change_is_excused_for_what_it_accepts_itself() {
        let history = [entry("the first", None, 400.0), entry("pods", Some(400.0), 420.0)];
        assert_eq!(accepted_since(&history, 2), None, "the parent's own reason is no excuse");
        let pods = Accepted { reason: "pods".into(), workloads: vec!["decide".into()] };
        assert_eq!(accepted_since(&history, 1), Some(pods));
        assert_eq!(accepted_since(&history, 7), None, "a history that became shorter");
    }

    fn step(ratio_low: f64, accepted: Option<Accepted>) -> Step {
        let figures = |instructions| Figures {
            instructions,
            unit: "ask".into(),
            functions: BTreeMap::new(),
            files: BTreeMap::new(),
            crates: BTreeMap::new(),
            misses: None,
        };
        let of = |instructions| [("decide".to_string(), figures(instructions))].into();
        let clock = Interval { ratio: 1.03, low: ratio_low, high: 1.04 };
        let instructions = Comparison::of(&of(100.0), &of(103.0));
        let counted = Counted::Compared { instructions, clock: vec![(Name::Table, clock)] };
        Step { revision: "0123abc".into(), counted, accepted }
    }

    #[test]
    fn counts_and_the_clock_shut_the_gate_but_for_what_was_accepted() {
        assert_eq!(step(1.019, None).tripped(), ["decide"]);
        assert_eq!(step(1.021, None).tripped(), ["decide", "table"]);
        let accepted = Accepted { reason: "pods".into(), workloads: vec!["decide".into()] };
        let step = step(1.021, Some(accepted));
        assert_eq!(step.tripped(), ["table"]);
        let text = step.to_string();
        assert!(text.contains("it accepts decide: pods") && text.contains("TOO SLOW"), "{text}");
    }

    #[test]
    fn the_same_program_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        std::fs::write(&one, "the same").unwrap();
        std::fs::write(&other, "the same").unwrap();
        let parent = Parent { program: one, revision: "0123abc".into(), rounds: 3 };
        let history = (Path::new("no/history.jsonl"), &[][..]);
        let step = Step::of(&parent, (&other, &BTreeMap::new()), history).unwrap();
        assert!(step.tripped().is_empty() && step.to_string().contains("byte for byte"));
    }
}
