//! What is known of an abstraction from elsewhere: what its alternatives cost on the same work, and how many
//! instructions it takes. Both files are made by tools of `proof/` and compiled in.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use probe::Machine;
use serde::Deserialize;

const ALTERNATIVES: &str = include_str!("../../../../proof/costs/alternatives.json");
const BASELINE: &str = include_str!("../../../../proof/costs/baseline.json");

/// Every pair that was measured, on one machine in one run but for those that say another.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Alternatives {
    /// The machine.
    #[serde(default)]
    pub(crate) machine: String,
    /// The day, as `2026-11-21`.
    #[serde(default)]
    pub(crate) date: String,
    /// The comparisons.
    pub(crate) pairs: Vec<Pair>,
}

/// One comparison. The first case is ours.
#[derive(Debug, Deserialize)]
pub(crate) struct Pair {
    /// Its name, as `table/lookup`.
    pub(crate) id: String,
    /// The machine, if it is another one than that of the file.
    #[serde(default)]
    machine: Option<String>,
    /// The day, if it is another one.
    #[serde(default)]
    date: Option<String>,
    /// Of what the figures are, as `lookup`.
    pub(crate) operation: String,
    /// What was compared.
    pub(crate) cases: Vec<Case>,
}

/// One way to do the work.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    /// What it is.
    pub(crate) name: String,
    /// Median, ns per operation.
    pub(crate) ns: f64,
    /// Its time over ours: above 1 it is slower.
    pub(crate) ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub(crate) ratio_low: f64,
    /// Upper end.
    pub(crate) ratio_high: f64,
}

/// Instructions of the fixed workloads, counted under callgrind.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Baseline {
    /// By name.
    pub(crate) workloads: BTreeMap<String, Workload>,
}

/// One workload.
#[derive(Debug, Deserialize)]
pub(crate) struct Workload {
    /// Of one operation.
    pub(crate) instructions: f64,
    /// What an operation is, as `ask`.
    pub(crate) unit: String,
}

/// The pairs that this version was compared in on a processor like this one.
pub(crate) fn alternatives() -> &'static Alternatives {
    static HERE: OnceLock<Alternatives> = OnceLock::new();
    HERE.get_or_init(|| {
        let (mut all, here) = (measured(), Machine::detect().model);
        let Alternatives { machine, pairs, .. } = &mut all;
        pairs.retain(|pair| pair.machine.as_ref().unwrap_or(machine).contains(&here));
        all
    })
}

/// The machine on which most pairs were measured, where that is another one than this.
pub(crate) fn elsewhere() -> Option<String> {
    let all = measured();
    (!all.are_of(&Machine::detect().model)).then_some(all.machine)
}

/// The pairs, wherever they were measured.
pub(crate) fn measured() -> Alternatives {
    serde_json::from_str(ALTERNATIVES).expect("compiled in; a test reads it")
}

/// The instructions of this version.
pub(crate) fn baseline() -> &'static Baseline {
    static READ: OnceLock<Baseline> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(BASELINE).expect("compiled in; a test reads it"))
}

impl Alternatives {
    /// Were they measured on a processor that calls itself so?
    fn are_of(&self, model: &str) -> bool {
        self.machine.contains(model)
    }

    /// Of what, where and when a pair was measured.
    pub(crate) fn origin(&self, pair: &Pair) -> String {
        let Pair { id, operation, machine, date, .. } = pair;
        let (machine, date) =
            (machine.as_ref().unwrap_or(&self.machine), date.as_ref().unwrap_or(&self.date));
        format!("{operation} of {id}, {machine}, {date}")
    }

    /// Our case of a pair, and another one, or the fastest other one; `None` where this was not measured.
    pub(crate) fn find(&self, id: &str, case: Option<&str>) -> Option<(&Pair, &Case, &Case)> {
        let pair = self.pairs.iter().find(|pair| pair.id == id)?;
        let (ours, others) = pair.cases.split_first()?;
        let others = others.iter().filter(|other| case.is_none_or(|case| case == other.name));
        Some((pair, ours, others.min_by(|one, other| one.ratio.total_cmp(&other.ratio))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_in_can_be_read() {
        for pair in &measured().pairs {
            assert!(pair.cases.len() > 1, "{} compares nothing", pair.id);
            for case in &pair.cases {
                let (low, high) = (case.ratio_low, case.ratio_high);
                assert!(case.ns > 0.0 && low <= high, "{}: {case:?}", pair.id);
            }
        }
        for (name, workload) in &baseline().workloads {
            assert!(workload.instructions > 0.0, "{name}");
            assert!(!workload.unit.is_empty(), "{name}");
        }
    }

    #[test]
    fn pairs_of_another_processor_are_told_apart() {
        let machine = "2 CPUs of Intel(R) Xeon(R) Processor, Linux 6.18".to_string();
        let all = Alternatives { machine, ..Alternatives::default() };
        assert!(all.are_of("Intel(R) Xeon(R) Processor") && !all.are_of("AMD EPYC 9B45"));
    }

    #[test]
    fn what_was_not_measured_is_not_found() {
        let alternatives: Alternatives = serde_json::from_str(
            r#"{"machine":"m","date":"d","pairs":[{"id":"a/b","operation":"call","cases":[
                {"name":"ours","ns":2.0,"ratio":1.0,"ratio_low":1.0,"ratio_high":1.0},
                {"name":"slow","ns":9.0,"ratio":4.5,"ratio_low":4.4,"ratio_high":4.6},
                {"name":"other","ns":5.0,"ratio":2.5,"ratio_low":2.4,"ratio_high":2.6}]},
                {"id":"a/d","machine":"n","date":"e","operation":"call","cases":[]}]}"#,
        )
        .unwrap();
        assert_eq!(alternatives.origin(&alternatives.pairs[0]), "call of a/b, m, d");
        assert_eq!(alternatives.origin(&alternatives.pairs[1]), "call of a/d, n, e");
        let (pair, ours, other) = alternatives.find("a/b", None).unwrap();
        assert_eq!((pair.operation.as_str(), ours.ns, other.ns), ("call", 2.0, 5.0));
        assert_eq!(alternatives.find("a/b", Some("slow")).unwrap().2.ns, 9.0);
        assert!(alternatives.find("a/b", Some("ours")).is_none(), "ours is no alternative");
        assert!(alternatives.find("a/b", Some("third")).is_none());
        assert!(alternatives.find("a/c", None).is_none());
    }
}
