//! A whole node under the hammer's exchange, beside the floor and beside the bidder in Go.
//!
//! What decides runs on core 0: the node's one worker, the floor, the Go bidder. The hammer and Redis run on core 1;
//! the other threads of the node run where the kernel puts them. All servers stay up, the rounds of all cases are
//! interleaved, each figure is the median of its rounds. CPU time is the kernel's account of the threads.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;

use super::go::GoBidder;
use super::{Files, median};
use crate::Size;
use crate::daemon::{Daemon, bound_to_us, folder_on_disk, weir_binary};
use crate::figures::{Case, interleave, rate};
use crate::floor::{self, Floor};
use crate::threads;

/// Requests per second of the open loop.
const OPEN_RATE: u64 = 50_000;
const CONNECTIONS: usize = 8;
/// Requests in flight on each connection.
const DEPTHS: [usize; 2] = [8, 32];
/// Share of the bids that win and are billed: the hammer's default.
const WIN: f64 = 0.05;

/// What the stage table needs, ns per request.
pub(super) struct Figures {
    /// In HTTP sessions of the floor.
    pub(super) http_ns: f64,
    /// The rest of the floor: its event loop and the kernel.
    pub(super) loop_ns: f64,
    /// The node's worker, without notices.
    pub(super) worker_ns: f64,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Floor,
    Unlimited,
    Sampled,
    Go,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Floor => "floor: 204 to everything",
            Who::Unlimited => "Weir, unlimited campaigns",
            Who::Sampled => "Weir, as sampled",
            Who::Go => "Go and Redis, unlimited campaigns",
        }
    }
}

/// How it is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// As fast as answers come, so many in flight a connection; this share of bids wins.
    Closed(usize, f64),
    /// On a timetable.
    Open(u64),
}

/// What one run of the hammer says.
#[derive(Clone, Copy, Debug)]
struct Sample {
    requests_per_s: f64,
    bid_rate: f64,
    /// Of the thread that decides, a request.
    server_ns: f64,
    /// Of what works beside it: the node's other threads, Redis.
    beside_ns: f64,
    tool_ns: f64,
    /// In HTTP sessions; the floor only.
    http_ns: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    behind: bool,
}

/// Prints the tables. `None`: the node was not measured.
pub(super) fn run(size: Size, files: &Files, bodies: usize) -> Option<Figures> {
    match Bench::start(size, files, bodies).and_then(|bench| bench.tables()) {
        Ok(figures) => Some(figures),
        Err(error) => {
            println!("\nthe door: NOT MEASURED: {error}");
            None
        }
    }
}

struct Bench {
    size: Size,
    bodies: usize,
    weir: PathBuf,
    floor: Floor,
    unlimited: Node,
    sampled: Node,
    go: Result<GoBidder, String>,
    /// Faults of the runs, each of them once.
    faults: RefCell<Vec<String>>,
}

impl Bench {
    fn start(size: Size, files: &Files, bodies: usize) -> Result<Bench, String> {
        let weir = weir_binary();
        if !weir.is_file() {
            let place = weir.display();
            return Err(format!(
                "no node at {place}: build the weir binary of the same profile first"
            ));
        }
        Ok(Bench {
            size,
            bodies,
            floor: Floor::start()?,
            unlimited: Node::start(&weir, &files.unlimited)?,
            sampled: Node::start(&weir, &files.sampled)?,
            go: GoBidder::start(size, &files.unlimited),
            faults: RefCell::default(),
            weir,
        })
    }

    fn tables(&self) -> Result<Figures, String> {
        let mut closed: Vec<(Who, Load)> = Vec::new();
        for depth in DEPTHS {
            let load = Load::Closed(depth, WIN);
            closed.extend([Who::Unlimited, Who::Sampled, Who::Floor].map(|who| (who, load)));
            closed.extend(self.go.is_ok().then_some((Who::Go, load)));
        }
        closed.push((Who::Unlimited, Load::Closed(DEPTHS[0], 0.0)));
        let open = [Who::Unlimited, Who::Sampled].map(|who| (who, Load::Open(OPEN_RATE)));
        let all: Vec<(Who, Load)> = closed.iter().copied().chain(open).collect();
        let mut cases: Vec<Case<'_, Sample>> = Vec::new();
        for &(who, load) in &all {
            cases.push(Box::new(move || self.sample(who, load)));
        }
        let rounds = interleave(self.size.pick(3, 1), &mut cases)?;
        let (closed_rounds, open_rounds) = rounds.split_at(closed.len());
        print_closed(&closed, closed_rounds);
        if let Err(error) = &self.go {
            println!("\nGo and Redis: NOT MEASURED: {error}");
        }
        print_open(&open, open_rounds);
        self.faults.borrow().iter().for_each(|fault| println!("\nNOTE: {fault}"));
        let of = |who, load, pick: fn(&Sample) -> f64| {
            let at = all.iter().position(|case| *case == (who, load));
            at.map_or(f64::NAN, |at| median(rounds[at].iter().map(pick)))
        };
        let floor = Load::Closed(DEPTHS[0], WIN);
        let http_ns = of(Who::Floor, floor, |s| s.http_ns);
        Ok(Figures {
            http_ns,
            loop_ns: of(Who::Floor, floor, |s| s.server_ns) - http_ns,
            worker_ns: of(Who::Unlimited, Load::Closed(DEPTHS[0], 0.0), |s| s.server_ns),
        })
    }

    fn sample(&self, who: Who, load: Load) -> Result<Sample, String> {
        let before = self.spent(who)?;
        let report = self.hammer(who, load)?;
        let after = self.spent(who)?;
        self.note_faults(who, &report);
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let requests = number(&report["requests"]).max(1.0);
        // What a thread had spent that has ended since is in no account any more.
        let each =
            |pick: fn(&Spent) -> u64| pick(&after).saturating_sub(pick(&before)) as f64 / requests;
        let latency = &report["latency_us"];
        Ok(Sample {
            requests_per_s: number(&report["requests_per_s"]),
            bid_rate: number(&report["bid_rate"]),
            server_ns: each(|spent| spent.server_ns),
            beside_ns: each(|spent| spent.beside_ns),
            http_ns: each(|spent| spent.http_ns),
            tool_ns: number(&report["hammer_ns_per_request"]),
            p50_us: number(&latency["p50"]),
            p99_us: number(&latency["p99"]),
            p999_us: number(&latency["p999"]),
            behind: report["schedule"]["behind"].as_bool().unwrap_or(false),
        })
    }

    fn hammer(&self, who: Who, load: Load) -> Result<Value, String> {
        let mut command = Command::new(&self.weir);
        command.args(["hammer", "--openrtb", "--json", "--quiet", "--audit-every", "0s"]);
        // Billing comes soon, so that a run is over soon.
        command.args(["--core", "1", "--settle-delay", "5ms"]);
        command.args(["--duration", self.size.pick("1s", "50ms")]);
        command.args(["--bodies", &self.bodies.to_string()]);
        command.args(["--connections", &CONNECTIONS.to_string()]);
        match load {
            Load::Closed(depth, win) => {
                command.args(["--depth", &depth.to_string(), "--win", &win.to_string()]);
            }
            Load::Open(rate) => {
                command.args(["--rate", &rate.to_string(), "--win", &WIN.to_string()]);
            }
        }
        let (target, books) = match who {
            Who::Floor => (self.floor.address, None),
            Who::Unlimited => (self.unlimited.openrtb, Some(self.unlimited.batch)),
            Who::Sampled => (self.sampled.openrtb, Some(self.sampled.batch)),
            Who::Go => (self.go.as_ref().map_err(Clone::clone)?.address, None),
        };
        command.args(["--target", &target.to_string()]);
        if let Some(books) = books {
            command.args(["--books", &books.to_string()]);
        }
        let output = command.output().map_err(|e| e.to_string())?;
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).map_err(|_| format!("{}: {}", who.name(), said()))
    }

    /// Books that do not add up, answers that are wrong: said once for each server.
    fn note_faults(&self, who: Who, report: &Value) {
        let audit = report["audit"].as_str().unwrap_or("no audit");
        let mut faults = self.faults.borrow_mut();
        let known = faults.iter().any(|fault| fault.starts_with(who.name()));
        if !known && !matches!(audit, "ok" | "not audited") {
            faults.push(format!("{}: the hammer says: {audit}", who.name()));
        }
    }

    fn spent(&self, who: Who) -> Result<Spent, String> {
        let node = |node: &Node| {
            let (worker, others) = threads::used(node.daemon.id(), "worker")?;
            Ok(Spent { server_ns: worker.cpu_ns, beside_ns: others.cpu_ns, http_ns: 0 })
        };
        match who {
            Who::Unlimited => node(&self.unlimited),
            Who::Sampled => node(&self.sampled),
            Who::Floor => {
                let (server, _) = threads::used(std::process::id(), floor::THREAD)?;
                let http_ns = self.floor.counts.http_ns.load(Relaxed);
                Ok(Spent { server_ns: server.cpu_ns, beside_ns: 0, http_ns })
            }
            Who::Go => {
                let go = self.go.as_ref().map_err(Clone::clone)?;
                let all =
                    |daemon: &Daemon| threads::used(daemon.id(), "").map(|(all, _)| all.cpu_ns);
                Ok(Spent { server_ns: all(&go.bidder)?, beside_ns: all(&go.redis)?, http_ns: 0 })
            }
        }
    }
}

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    server_ns: u64,
    beside_ns: u64,
    http_ns: u64,
}

/// A node with one worker, on core 0.
struct Node {
    daemon: Daemon,
    batch: SocketAddr,
    openrtb: SocketAddr,
}

impl Node {
    fn start(weir: &Path, campaigns: &Path) -> Result<Node, String> {
        let folder = folder_on_disk()?;
        let log = folder.path().join("log");
        let mut command = bound_to_us(weir, None);
        command.args(["run", "--admin", "127.0.0.1:0", "--batch", "127.0.0.1:0"]);
        command.args(["--spend", "127.0.0.1:0"]);
        command.args(["--openrtb", "127.0.0.1:0"]).arg("--budgets").arg(campaigns);
        command.arg("--data").arg(folder.path().join("data")).env("WEIR_WORKERS__CORES", "0");
        command.env("WEIR_LOG__LEVEL", "error");
        let mut daemon = Daemon::start(command, folder, 0)?;
        let (batch, openrtb) = daemon.wait_for(|_| addresses(&log))?;
        Ok(Node { daemon, batch, openrtb })
    }
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

fn print_closed(cases: &[(Who, Load)], rounds: &[Vec<Sample>]) {
    println!("\n### closed loop, {CONNECTIONS} connections\n");
    println!(
        "| server | in flight each | auctions/s | of Weir's | bid | server ns per request | beside it ns | tool ns | \
         p50 us | p99 us | p99.9 us |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for ((who, load), samples) in cases.iter().zip(rounds) {
        let Load::Closed(depth, win) = *load else { continue };
        let first =
            cases.iter().position(|case| *case == (Who::Unlimited, Load::Closed(depth, win)));
        let first = first.map_or(samples, |first| &rounds[first]);
        let ratios =
            samples.iter().zip(first).map(|(own, first)| own.requests_per_s / first.requests_per_s);
        let of = |pick: fn(&Sample) -> f64| median(samples.iter().map(pick));
        let notices = if win > 0.0 { "" } else { ", no notices" };
        println!(
            "| {}{notices} | {depth} | {} | {:.3} | {:.0} % | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            who.name(),
            rate(of(|s| s.requests_per_s)),
            median(ratios),
            of(|s| s.bid_rate) * 100.0,
            of(|s| s.server_ns),
            of(|s| s.beside_ns),
            of(|s| s.tool_ns),
            of(|s| s.p50_us),
            of(|s| s.p99_us),
            of(|s| s.p999_us),
        );
    }
    println!("\nTarget: 100,000 auctions/s on the worker's core.");
}

fn print_open(cases: &[(Who, Load)], rounds: &[Vec<Sample>]) {
    println!("\n### open loop, {OPEN_RATE} requests per second, latency from the intended time\n");
    println!(
        "| server | answered per second | bid | p50 us | p99 us | p99.9 us | rounds in which the hammer fell behind |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for ((who, _), samples) in cases.iter().zip(rounds) {
        let of = |pick: fn(&Sample) -> f64| median(samples.iter().map(pick));
        println!(
            "| {} | {} | {:.0} % | {:.0} | {:.0} | {:.0} | {} of {} |",
            who.name(),
            rate(of(|s| s.requests_per_s)),
            of(|s| s.bid_rate) * 100.0,
            of(|s| s.p50_us),
            of(|s| s.p99_us),
            of(|s| s.p999_us),
            samples.iter().filter(|s| s.behind).count(),
            samples.len(),
        );
    }
    println!("\nTarget: p99 below 2,000 us.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_when_it_says_so() {
        let folder = folder_on_disk().unwrap();
        let log = folder.path().join("log");
        let lines = "batch 127.0.0.1:1\nopenrtb 127.0.0.1:2\n";
        std::fs::write(&log, lines).unwrap();
        assert!(addresses(&log).is_err());
        std::fs::write(&log, format!("{lines}ready\n")).unwrap();
        let (batch, openrtb) = addresses(&log).unwrap();
        assert_eq!((batch.port(), openrtb.port()), (1, 2));
    }
}
