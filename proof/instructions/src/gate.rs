//! What became dearer, by how much, and who did it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::baseline::{Baseline, Figures};

/// So much dearer a workload may become without a word, percent. Above it the gate is shut.
pub const LIMIT_PERCENT: f64 = 2.0;
/// Functions, and files, that are named.
const NAMED: usize = 8;

/// All workloads of a count beside those of a baseline.
#[derive(Clone, Debug)]
pub struct Comparison {
    rows: Vec<Row>,
}

/// One workload.
#[derive(Clone, Debug)]
struct Row {
    workload: String,
    now: Figures,
    before: Option<Figures>,
}

/// What is said of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// More than the limit dearer.
    Dearer,
    /// More than the limit cheaper.
    Cheaper,
    /// Within the limit.
    Same,
    /// There is nothing to compare with.
    New,
}

impl Comparison {
    /// Compares.
    #[must_use]
    pub fn of(before: &Baseline, now: &BTreeMap<String, Figures>) -> Comparison {
        let row = |(workload, now): (&String, &Figures)| Row {
            workload: workload.clone(),
            before: before.workloads.get(workload).cloned(),
            now: now.clone(),
        };
        Comparison { rows: now.iter().map(row).collect() }
    }

    /// Whether a workload is too much dearer.
    #[must_use]
    pub fn trips(&self) -> bool {
        self.has(Verdict::Dearer)
    }

    /// Whether this is said of a workload.
    #[must_use]
    pub fn has(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| row.verdict() == verdict)
    }
}

impl Row {
    /// Percent; `None` without a figure from before.
    fn change(&self) -> Option<f64> {
        let before = self.before.as_ref()?.instructions;
        Some((self.now.instructions - before) / before * 100.0)
    }

    fn verdict(&self) -> Verdict {
        match self.change() {
            None => Verdict::New,
            Some(change) if change > LIMIT_PERCENT => Verdict::Dearer,
            Some(change) if change < -LIMIT_PERCENT => Verdict::Cheaper,
            Some(_) => Verdict::Same,
        }
    }
}

/// A part of a workload, before and now.
#[derive(Clone, Debug, PartialEq)]
struct Growth {
    name: String,
    before: Option<f64>,
    now: Option<f64>,
}

impl Growth {
    fn instructions(&self) -> f64 {
        self.now.unwrap_or(0.0) - self.before.unwrap_or(0.0)
    }
}

/// The parts that changed, the largest growth first, then those that shrank most: a function that is gone may have become
/// part of one that grew.
fn growths(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> Vec<Growth> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let growth = |name: &String| Growth {
        name: name.clone(),
        before: before.get(name).copied(),
        now: now.get(name).copied(),
    };
    let mut all: Vec<Growth> = names.into_iter().map(growth).collect();
    all.sort_by(|a, b| b.instructions().total_cmp(&a.instructions()));
    let shrunk = all.iter().rev().filter(|growth| growth.instructions() < 0.0).take(NAMED / 2);
    let shrunk: Vec<Growth> = shrunk.cloned().collect();
    all.retain(|growth| growth.instructions() > 0.0);
    all.truncate(NAMED);
    all.extend(shrunk);
    all
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10} {:<10} {:>12} {:>12} {:>10}",
            "workload", "an op is", "before", "now", "change"
        )?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        for row in self.rows.iter().filter(|row| row.verdict() == Verdict::Dearer) {
            let Some(before) = &row.before else { continue };
            let (workload, unit) = (&row.workload, &row.now.unit);
            writeln!(f, "\n{workload}: functions, instructions of their own for each {unit}")?;
            write_growths(f, &growths(&before.functions, &row.now.functions))?;
            writeln!(f, "\n{workload}: source files, wherever their code was inlined")?;
            write_growths(f, &growths(&before.files, &row.now.files))?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { workload, now, before } = self;
        let before = before.as_ref().map_or("-".into(), |f| format!("{:.2}", f.instructions));
        let change = self.change().map_or("-".into(), |change| format!("{change:+.2} %"));
        let said = match self.verdict() {
            Verdict::Dearer => "  TOO MUCH",
            Verdict::Cheaper => "  cheaper",
            Verdict::Same => "",
            Verdict::New => "  new",
        };
        let unit = &now.unit;
        write!(
            f,
            "{workload:<10} {unit:<10} {before:>12} {:>12.2} {change:>10}{said}",
            now.instructions
        )
    }
}

fn write_growths(f: &mut fmt::Formatter<'_>, growths: &[Growth]) -> fmt::Result {
    writeln!(f, "  {:>10} {:>10} {:>10}", "change", "before", "now")?;
    for growth in growths {
        let figure = |figure: Option<f64>, none: &str| {
            figure.map_or_else(|| none.to_string(), |figure| format!("{figure:.2}"))
        };
        let (before, now) = (figure(growth.before, "new"), figure(growth.now, "gone"));
        let (change, name) = (growth.instructions(), &growth.name);
        writeln!(f, "  {change:>+10.2} {before:>10} {now:>10}  {name}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::Toolchain;

    fn figures(instructions: f64, functions: &[(&str, f64)]) -> Figures {
        let functions: BTreeMap<String, f64> =
            functions.iter().map(|(name, part)| (name.to_string(), *part)).collect();
        Figures { instructions, unit: "ask".into(), files: BTreeMap::new(), functions }
    }

    fn comparison(before: f64, now: f64) -> Comparison {
        let toolchain = Toolchain {
            rustc: String::new(),
            profile: String::new(),
            target: String::new(),
            valgrind: String::new(),
            libc: String::new(),
        };
        let parts = [("stays", 50.0), ("grows", 10.0), ("inlined", 5.0)];
        let workloads = [("decide".to_string(), figures(before, &parts))].into();
        let parts = [("stays", 50.0), ("grows", 18.5), ("planted", 1.5)];
        let now = [("decide".to_string(), figures(now, &parts))].into();
        Comparison::of(&Baseline { toolchain, workloads }, &now)
    }

    #[test]
    fn the_limit_is_passed_by_more_than_two_percent() {
        let verdict = |now| comparison(1_000.0, now).rows[0].verdict();
        assert_eq!(verdict(1_020.0), Verdict::Same);
        assert_eq!(verdict(1_020.1), Verdict::Dearer);
        assert_eq!(verdict(980.0), Verdict::Same);
        assert_eq!(verdict(979.9), Verdict::Cheaper);
        assert!(comparison(1_000.0, 1_030.0).trips() && !comparison(1_000.0, 970.0).trips());
    }

    #[test]
    fn who_grew_is_named_the_largest_first() {
        let text = comparison(1_000.0, 1_030.0).to_string();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in\n{text}"));
        assert!(at("decide     ask             1000.00      1030.00    +3.00 %  TOO MUCH") > 0);
        assert!(
            at("+8.50      10.00      18.50  grows") < at("+1.50        new       1.50  planted")
        );
        assert!(at("planted") < at("-5.00       5.00       gone  inlined"));
        assert!(!text.contains("stays"), "{text}");
    }

    #[test]
    fn within_the_limit_nobody_is_named() {
        let text = comparison(1_000.0, 1_010.0).to_string();
        assert!(text.contains("+1.00 %") && !text.contains("grows"), "{text}");
    }

    #[test]
    fn a_workload_without_a_past_is_new() {
        let mut comparison = comparison(1.0, 1.0);
        comparison.rows[0].before = None;
        assert!(comparison.has(Verdict::New) && !comparison.trips());
        assert!(comparison.to_string().contains("new"));
    }
}
