//! What the hot path cost, commit by commit: the accepted counts of instructions, packed when the crate was compiled.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

use super::budgets::json;
use crate::assets::COSTS_HISTORY;

/// From one accepted count to the next a workload may cost so much more; the gate of `docs/measuring.md`.
const BAND_PPM: u32 = 20_000;

/// What the hot path cost, in instructions, each time that a count was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CostHistory {
    /// A count this much above the last accepted one is refused until somebody accepts it with a reason, in millionths.
    #[schema(example = 20000)]
    band_ppm: u32,
    /// In the order of their names; none where the program was not built from its repository.
    workloads: Vec<WorkloadHistory>,
}

/// One workload of the gate.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorkloadHistory {
    #[schema(example = "decide")]
    workload: String,
    /// Oldest first.
    points: Vec<CostPoint>,
}

/// An accepted count.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CostPoint {
    /// When it was accepted.
    #[schema(format = Date, example = "2026-11-22")]
    date: String,
    /// The commit that the counted tree was made on.
    #[schema(example = "7386655")]
    on_top_of: String,
    /// Why it was accepted.
    reason: String,
    /// The compiler. Counts of two compilers are not comparable.
    rustc: String,
    /// Of one operation.
    #[schema(minimum = 0, example = 454.619)]
    instructions: f64,
}

/// A line of the file: an acceptance.
#[derive(Deserialize)]
struct Line {
    date: String,
    on_top_of: String,
    reason: String,
    rustc: String,
    workloads: BTreeMap<String, Accepted>,
}

#[derive(Deserialize)]
struct Accepted {
    after: f64,
}

impl CostHistory {
    /// Lines that cannot be read are left out: a history is no reason to show nothing.
    fn read(lines: &str) -> CostHistory {
        let mut workloads: BTreeMap<String, Vec<CostPoint>> = BTreeMap::new();
        for line in lines.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            let Line { date, on_top_of, reason, rustc, workloads: accepted } = line;
            for (workload, Accepted { after }) in accepted {
                let (date, on_top_of) = (date.clone(), on_top_of.clone());
                let (reason, rustc) = (reason.clone(), rustc.clone());
                let point = CostPoint { date, on_top_of, reason, rustc, instructions: after };
                workloads.entry(workload).or_default().push(point);
            }
        }
        let history = |(workload, points)| WorkloadHistory { workload, points };
        CostHistory { band_ppm: BAND_PPM, workloads: workloads.into_iter().map(history).collect() }
    }
}

/// Shows what the hot path cost each time that a count of its instructions was accepted.
#[utoipa::path(get, path = "/v1/costs/history", tag = "node",
    responses((status = 200, description = "Accepted counts of instructions, by workload", body = CostHistory)))]
pub(super) async fn history() -> Response {
    json(&CostHistory::read(COSTS_HISTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packed_line_is_read() {
        let lines = COSTS_HISTORY.lines().count();
        let history = CostHistory::read(COSTS_HISTORY);
        let points: Vec<usize> = history.workloads.iter().map(|of| of.points.len()).collect();
        // A workload may be newer than the first line.
        assert_eq!(points.iter().max().copied().unwrap_or(0), lines, "{history:?}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_left_out() {
        let line = |date: &str, after: f64| {
            format!(
                r#"{{"date":"{date}","on_top_of":"abc","reason":"r","rustc":"1","new":1,"workloads":{{"b":{{"after":{after}}},"a":{{"after":1}}}}}}"#
            )
        };
        let lines = [line("2026-11-22", 10.5), "torn".into(), line("2026-11-23", 11.0)].join("\n");
        let history = CostHistory::read(&lines);
        let names: Vec<&str> = history.workloads.iter().map(|of| &*of.workload).collect();
        assert_eq!(names, ["a", "b"]);
        let counts: Vec<f64> =
            history.workloads[1].points.iter().map(|point| point.instructions).collect();
        assert_eq!(counts, [10.5, 11.0]);
        assert!(CostHistory::read("").workloads.is_empty());
    }
}
