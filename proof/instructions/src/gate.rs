//! What became dearer, by how much, and who did it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::baseline::Figures;

/// So much dearer a workload may become without a word, percent. Above it the gate is shut.
pub const LIMIT_PERCENT: f64 = 2.0;
/// So much dearer a crate's part of a workload may become, percent, if it is also more than [`CRATE_MIN`].
pub const CRATE_PERCENT: f64 = 5.0;
/// Instructions per operation that a crate may grow by, whatever part of its own that is.
pub const CRATE_MIN: f64 = 20.0;
/// So many more misses of a simulated cache an operation may have, percent, if it is also more than [`MISSES_MIN`].
/// Addresses of the stack move the first level's by 0.5 %.
pub const MISSES_PERCENT: f64 = 5.0;
/// Misses an operation that may come on top, whatever part that is.
pub const MISSES_MIN: f64 = 0.1;
/// The crate of the workloads themselves: no part of a node, so it has no limit of its own.
const OWN_CRATE: &str = "proof/instructions";
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
    pub fn of(before: &BTreeMap<String, Figures>, now: &BTreeMap<String, Figures>) -> Comparison {
        let row = |(workload, now): (&String, &Figures)| Row {
            workload: workload.clone(),
            before: before.get(workload).cloned(),
            now: now.clone(),
        };
        Comparison { rows: now.iter().map(row).collect() }
    }

    /// Whether a workload is too much dearer.
    #[must_use]
    pub fn trips(&self) -> bool {
        self.tripped().next().is_some()
    }

    /// The workloads of which something is too much.
    pub fn tripped(&self) -> impl Iterator<Item = &str> {
        let tripped = self.rows.iter().filter(|row| !row.breaches().is_empty());
        tripped.map(|row| row.workload.as_str())
    }

    /// The workloads that were compared.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|row| row.before.is_some()).count()
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

    /// Instructions per operation that are left until the gate is shut.
    fn slack(&self) -> Option<f64> {
        let before = self.before.as_ref()?.instructions;
        Some(before * (1.0 + LIMIT_PERCENT / 100.0) - self.now.instructions)
    }

    /// Everything about it that is too much, in words.
    fn breaches(&self) -> Vec<String> {
        let Some(before) = &self.before else { return Vec::new() };
        let mut all = Vec::new();
        if self.verdict() == Verdict::Dearer {
            all.push(format!("more than {LIMIT_PERCENT} % dearer"));
        }
        all.extend(crates_grown(&before.crates, &self.now.crates).iter().map(Growth::told));
        if let (Some(before), Some(now)) = (before.misses, self.now.misses) {
            all.extend(more_misses("first", before.first, now.first));
            all.extend(more_misses("last", before.last, now.last));
        }
        all
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

fn more_misses(level: &str, before: f64, now: f64) -> Option<String> {
    let too_many = now - before > MISSES_MIN && now > before * (1.0 + MISSES_PERCENT / 100.0);
    too_many.then(|| format!("misses of the {level} level of cache: {before:.3} -> {now:.3}"))
}

/// The crates that grew too much. Whose files moved to a crate of another name has not grown: what is gone whole is taken
/// off what is new, the largest first.
fn crates_grown(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> Vec<Growth> {
    if before.is_empty() {
        return Vec::new();
    }
    let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
    let mut gone: f64 = gone.map(|(_, part)| part).sum();
    let mut grown: Vec<Growth> = now
        .iter()
        .filter(|(name, _)| *name != OWN_CRATE)
        .map(|(name, part)| Growth {
            name: name.clone(),
            before: before.get(name).copied(),
            now: Some(*part),
        })
        .collect();
    grown.sort_by(|a, b| b.instructions().total_cmp(&a.instructions()));
    for growth in grown.iter_mut().filter(|growth| growth.before.is_none()) {
        let moved = growth.now.unwrap_or(0.0).min(gone);
        gone -= moved;
        growth.before = (moved > 0.0).then_some(moved);
    }
    grown.retain(|growth| {
        let (before, more) = (growth.before.unwrap_or(0.0), growth.instructions());
        more > CRATE_MIN && more > before * CRATE_PERCENT / 100.0
    });
    grown
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

    fn told(&self) -> String {
        let (name, before, now) = (&self.name, self.before.unwrap_or(0.0), self.now.unwrap_or(0.0));
        format!("lines of {name}: {before:.2} -> {now:.2} instructions")
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
            "{:<10} {:<10} {:>12} {:>12} {:>10} {:>12}",
            "workload", "an op is", "before", "now", "change", "slack left"
        )?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        for row in &self.rows {
            for breach in row.breaches() {
                writeln!(f, "  {}: {breach}", row.workload)?;
            }
        }
        for row in self.rows.iter().filter(|row| !row.breaches().is_empty()) {
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
        let slack = self.slack().map_or("-".into(), |slack| format!("{slack:+.2}"));
        let verdict = if self.breaches().is_empty() { self.verdict() } else { Verdict::Dearer };
        let said = match verdict {
            Verdict::Dearer => "  TOO MUCH",
            Verdict::Cheaper => "  cheaper",
            Verdict::Same => "",
            Verdict::New => "  new",
        };
        let unit = &now.unit;
        write!(
            f,
            "{workload:<10} {unit:<10} {before:>12} {:>12.2} {change:>10} {slack:>12}{said}",
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

    fn figures(instructions: f64, functions: &[(&str, f64)]) -> Figures {
        let functions: BTreeMap<String, f64> =
            functions.iter().map(|(name, part)| (name.to_string(), *part)).collect();
        let (files, crates) = (BTreeMap::new(), BTreeMap::new());
        Figures { instructions, unit: "ask".into(), files, functions, crates, misses: None }
    }

    fn comparison(before: f64, now: f64) -> Comparison {
        let parts = [("stays", 50.0), ("grows", 10.0), ("inlined", 5.0)];
        let workloads = [("decide".to_string(), figures(before, &parts))].into();
        let parts = [("stays", 50.0), ("grows", 18.5), ("planted", 1.5)];
        let now = [("decide".to_string(), figures(now, &parts))].into();
        Comparison::of(&workloads, &now)
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
        assert!(
            at("decide     ask             1000.00      1030.00    +3.00 %       -10.00  TOO MUCH")
                > 0
        );
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

    fn grown(before: &[(&str, f64)], now: &[(&str, f64)]) -> Vec<String> {
        let parts = |all: &[(&str, f64)]| all.iter().map(|(n, p)| (n.to_string(), *p)).collect();
        crates_grown(&parts(before), &parts(now)).iter().map(Growth::told).collect()
    }

    #[test]
    fn a_crate_has_a_limit_of_its_own() {
        let before = [("crates/gate-auction", 5_000.0), ("crates/money", 10.0)];
        let now = |auction, money| [("crates/gate-auction", auction), ("crates/money", money)];
        assert!(grown(&before, &now(5_250.0, 30.0)).is_empty(), "5 %, and 20 instructions");
        let told = grown(&before, &now(5_251.0, 30.1));
        assert_eq!(
            told,
            [
                "lines of crates/gate-auction: 5000.00 -> 5251.00 instructions",
                "lines of crates/money: 10.00 -> 30.10 instructions"
            ]
        );
        let with_malloc = [now(5_000.0, 10.0).to_vec(), vec![("malloc", 700.0)]].concat();
        assert_eq!(grown(&before, &with_malloc), ["lines of malloc: 0.00 -> 700.00 instructions"]);
        assert!(grown(&[], &with_malloc).is_empty(), "figures that have no crates");
    }

    #[test]
    fn a_crate_that_is_renamed_or_split_has_not_grown() {
        let before = [("crates/weir", 1_000.0)];
        let after = [("crates/weir-config", 300.0), ("crates/weir-node", 700.0)];
        assert!(grown(&before, &after).is_empty());
        let dearer = [("crates/weir-config", 300.0), ("crates/weir-node", 800.0)];
        assert_eq!(
            grown(&before, &dearer),
            ["lines of crates/weir-config: 200.00 -> 300.00 instructions"]
        );
    }

    #[test]
    fn more_misses_trip_where_they_are_more_than_noise() {
        assert!(more_misses("last", 1.0, 1.09).is_none(), "no more than 0.1");
        assert!(more_misses("last", 10.0, 10.4).is_none(), "no more than 5 %");
        assert!(more_misses("last", 1.0, 1.2).is_some());
    }

    #[test]
    fn a_workload_without_a_past_is_new() {
        let mut comparison = comparison(1.0, 1.0);
        comparison.rows[0].before = None;
        assert!(comparison.has(Verdict::New) && !comparison.trips());
        assert!(comparison.to_string().contains("new"));
    }
}
