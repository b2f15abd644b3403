//! What the always-on probes cost: a node that measures itself as by default beside one that does not, under the load
//! tool.
//!
//! In every round each node is started anew, in random order, so that neither chance placements in memory nor a slow
//! minute belong to one of them. The one without probes runs twice: what tells the two apart is noise. The node's worker
//! is pinned to core 0, the load tool to core 1.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe::compare::{MIN_EFFECT, Outcome, Random, Verdict};
use serde_json::Value;
use tempfile::TempDir;

use crate::Size;
use crate::bare::BUDGETS;
use crate::daemon::{Daemon, bound_to_us, folder_on_disk, weir_binary};

/// Of the order of the nodes in each round.
const SEED: u64 = 6;
/// Of the campaigns.
const CAMPAIGNS_SEED: u64 = 1;
/// What the probes may cost.
const BUDGET_PERCENT: f64 = 1.0;

/// The nodes: name, and `probes.every` where it is not the default. The first is what the others are compared with.
const NODES: [(&str, Option<&str>); 3] =
    [("without probes", Some("0")), ("without probes, again", Some("0")), ("with probes", None)];

/// A door and how it is loaded: closed loop, 8 connections.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Frames of 10 asks, so many in flight a connection.
    Batch(usize),
    /// Bid requests, so many in flight a connection.
    OpenRtb(usize),
}

/// One run of the load tool.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Wall time a request, ns: what throughput is made of.
    passed_ns: f64,
    /// CPU time of the node's worker a request, ns.
    worker_ns: f64,
}

/// Prints a table a load.
pub fn run(size: Size) {
    match Bench::new(size) {
        Ok(bench) => {
            for load in [Load::Batch(8), Load::Batch(32), Load::OpenRtb(8)] {
                bench.table(load);
            }
        }
        Err(error) => println!("NOT MEASURED: {error}"),
    }
}

struct Bench {
    size: Size,
    weir: PathBuf,
    _folder: TempDir,
    budgets: PathBuf,
    campaigns: PathBuf,
}

impl Bench {
    fn new(size: Size) -> Result<Bench, String> {
        let weir = weir_binary();
        if !weir.is_file() {
            let place = weir.display();
            return Err(format!(
                "no node at {place}: build the weir binary of the same profile first"
            ));
        }
        let folder = folder_on_disk()?;
        let file = |name| folder.path().join(name);
        let (budgets, campaigns) = (file("budgets.jsonl"), file("campaigns.jsonl"));
        std::fs::write(&budgets, budgets_text()).map_err(|e| e.to_string())?;
        let mut text = Vec::new();
        let count = size.pick(5_000, 50);
        weir_tools::sample_campaigns::write(count, CAMPAIGNS_SEED, &mut text)
            .map_err(|e| e.to_string())?;
        std::fs::write(&campaigns, text).map_err(|e| e.to_string())?;
        Ok(Bench { size, weir, _folder: folder, budgets, campaigns })
    }

    fn table(&self, load: Load) {
        println!("\n### {}\n", load.title());
        match self.rounds(load) {
            Ok(samples) => print_table(&samples),
            Err(error) => println!("NOT MEASURED: {error}"),
        }
    }

    /// Samples by node, paired by round.
    fn rounds(&self, load: Load) -> Result<[Vec<Sample>; NODES.len()], String> {
        let mut random = Random::new(SEED);
        let mut samples = NODES.map(|_| Vec::new());
        for _ in 0..self.size.pick(31, 1) {
            for node in random.order(NODES.len()) {
                let (_, every) = NODES[node];
                samples[node].push(self.sample(load, every)?);
            }
        }
        Ok(samples)
    }

    fn sample(&self, load: Load, every: Option<&str>) -> Result<Sample, String> {
        let node = self.start(load, every)?;
        let before_ns = worker_ns(node.daemon.id())?;
        let report = self.hammer(load, &node)?;
        let worker_ns = worker_ns(node.daemon.id())? - before_ns;
        let (count, rate) = match load {
            Load::Batch(_) => ("decisions", "decisions_per_s"),
            Load::OpenRtb(_) => ("requests", "requests_per_s"),
        };
        let number = |name: &str| report[name].as_f64().filter(|number| *number > 0.0);
        let (Some(count), Some(rate)) = (number(count), number(rate)) else {
            return Err(format!("the load tool says: {report}"));
        };
        Ok(Sample { passed_ns: 1e9 / rate, worker_ns: worker_ns as f64 / count })
    }

    fn start(&self, load: Load, every: Option<&str>) -> Result<Node, String> {
        let folder = folder_on_disk()?;
        let log = folder.path().join("log");
        let mut command = bound_to_us(&self.weir, None);
        command.args(["run", "--admin", "127.0.0.1:0", "--batch", "127.0.0.1:0"]);
        command.args(["--spend", "127.0.0.1:0"]);
        command.args(["--openrtb", "127.0.0.1:0", "--budgets"]).arg(match load {
            Load::Batch(_) => &self.budgets,
            Load::OpenRtb(_) => &self.campaigns,
        });
        command.arg("--data").arg(folder.path().join("data"));
        command.env("WEIR_WORKERS__CORES", "0").env("WEIR_LOG__LEVEL", "error");
        command.env_remove("WEIR_PROBES__EVERY");
        command.envs(every.map(|every| ("WEIR_PROBES__EVERY", every)));
        let mut daemon = Daemon::start(command, folder, 0)?;
        let (batch, openrtb) = daemon.wait_for(|_| addresses(&log))?;
        Ok(Node { daemon, batch, openrtb })
    }

    fn hammer(&self, load: Load, node: &Node) -> Result<Value, String> {
        let mut command = Command::new(&self.weir);
        command.args(["hammer", "--json", "--quiet", "--audit-every", "0s", "--core", "1"]);
        command.args(["--win", "0", "--connections", "8", "--duration"]);
        command.arg(self.size.pick("1s", "50ms"));
        match load {
            Load::Batch(depth) => {
                command.args(["--target", &node.batch.to_string(), "--batch", "10"]);
                command.args(["--depth", &depth.to_string()]);
            }
            Load::OpenRtb(depth) => {
                let (target, books) = (node.openrtb.to_string(), node.batch.to_string());
                command.args(["--openrtb", "--target", &target, "--books", &books]);
                let bodies = self.size.pick("5000", "50");
                command.args(["--depth", &depth.to_string(), "--bodies", bodies]);
            }
        }
        let output = command.output().map_err(|e| e.to_string())?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Load {
    fn title(self) -> String {
        match self {
            Load::Batch(depth) => {
                format!(
                    "probes, batch door: frames of 10, {depth} in flight on each of 8 connections"
                )
            }
            Load::OpenRtb(depth) => {
                format!("probes, OpenRTB door: {depth} requests in flight on each of 8 connections")
            }
        }
    }
}

/// Fields drop in order.
struct Node {
    daemon: Daemon,
    batch: SocketAddr,
    openrtb: SocketAddr,
}

/// What a node that is ready has printed.
fn addresses(log: &Path) -> Result<(SocketAddr, SocketAddr), String> {
    let text = std::fs::read_to_string(log).map_err(|e| e.to_string())?;
    let after = |name| text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    match (text.lines().any(|line| line == "ready"), after("batch "), after("openrtb ")) {
        (true, Some(batch), Some(openrtb)) => Ok((batch, openrtb)),
        _ => Err("the node is not ready".into()),
    }
}

/// CPU time of a node's workers so far.
fn worker_ns(process: u32) -> Result<u64, String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).map_err(|e| e.to_string())?;
    let mut sum = 0;
    for task in tasks.flatten() {
        // A thread that ended meanwhile has no account any more.
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim_end() == "worker" {
            let account = read("schedstat");
            sum += account.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Half of the budgets without a plan, half on a schedule, all with more money than a run can spend.
fn budgets_text() -> String {
    let line = |id| {
        let pacing = if id % 2 == 0 { "asap" } else { "schedule" };
        format!(
            "{{\"id\":{id},\"limit\":\"900000000000\",\"daily\":\"900000000000\",\"pacing\":\"{pacing}\"}}\n"
        )
    };
    (1..=BUDGETS).map(line).collect()
}

fn print_table(samples: &[Vec<Sample>; NODES.len()]) {
    println!(
        "| node | requests/s | wall time, ratio | 95 % interval | worker ns per request | ratio | 95 % interval |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let outcomes = |pick: fn(&Sample) -> f64| {
        let first: Vec<f64> = samples[0].iter().map(pick).collect();
        let of = |(node, (name, _)): (usize, &(&str, _))| {
            let own: Vec<f64> = samples[node].iter().map(pick).collect();
            Outcome::of(name, &own, &first)
        };
        NODES.iter().enumerate().map(of).collect::<Vec<_>>()
    };
    let (passed, worked) = (outcomes(|s| s.passed_ns), outcomes(|s| s.worker_ns));
    for (passed, worked) in passed.iter().zip(&worked) {
        println!(
            "| {} | {:.0} | {:.4} | {:.4} to {:.4} | {:.1} | {:.4} | {:.4} to {:.4} |",
            passed.name,
            1e9 / passed.median_ns,
            passed.ratio,
            passed.ratio_low,
            passed.ratio_high,
            worked.median_ns,
            worked.ratio,
            worked.ratio_low,
            worked.ratio_high,
        );
    }
    println!("\n{}", conclusion(&passed[NODES.len() - 1], &worked[NODES.len() - 1]));
}

/// Whether the probes cost less than they may, as far as the rounds can tell.
fn conclusion(passed: &Outcome, worked: &Outcome) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let judged = |outcome: &Outcome| match outcome.verdict(MIN_EFFECT) {
        _ if percent(outcome.ratio_high) < BUDGET_PERCENT => "less than the 1 % they may cost",
        Verdict::Slower if percent(outcome.ratio_low) >= BUDGET_PERCENT => "MORE than 1 %",
        _ => "more rounds are needed to tell it from 1 %",
    };
    let say = |outcome: &Outcome| format!("{:+.2} % ({})", percent(outcome.ratio), judged(outcome));
    format!("Probes: throughput's time {}; the worker's time {}.", say(passed), say(worked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ratios: &[f64]) -> String {
        let first = vec![100.0; ratios.len()];
        let own: Vec<f64> = ratios.iter().map(|ratio| ratio * 100.0).collect();
        let outcome = Outcome::of("probes", &own, &first);
        conclusion(&outcome, &outcome)
    }

    #[test]
    fn the_conclusion_goes_by_the_interval() {
        let around = |middle: f64, spread: f64| -> Vec<f64> {
            (-10..=10).map(|step| middle + f64::from(step) * spread / 10.0).collect()
        };
        assert!(said(&around(1.002, 0.002)).contains("less than the 1 %"));
        assert!(said(&around(1.05, 0.01)).contains("MORE than 1 %"));
        assert!(said(&around(1.005, 0.05)).contains("more rounds"));
    }
}
