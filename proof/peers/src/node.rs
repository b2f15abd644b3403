//! A whole node under the load tool, beside a bare server that only moves the same bytes.
//!
//! The node's worker and the bare server are pinned to core 0, the load tool runs in a process of its own on core 1
//! (and shares it with the node's bank). Rounds are interleaved; each cell is the median of its rounds.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use door_transport::{Options, TaskRun, Transport};
use serde_json::Value;

use crate::Size;
use crate::bare::{BUDGETS, Bare};
use crate::daemon::weir_binary;

/// How a server is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A node: transport, how io_uring completes, pinned or not.
    Node(Transport, TaskRun, bool),
    /// The bare server.
    Bare(Transport, TaskRun),
}

impl Kind {
    fn name(self) -> String {
        let loop_name = |transport, task_run| match (transport, task_run) {
            (Transport::Epoll, _) => "epoll",
            (_, TaskRun::Defer) => "io_uring, defer",
            (_, TaskRun::Coop) => "io_uring, coop",
        };
        match self {
            Kind::Node(transport, task_run, true) => {
                format!("node, {}", loop_name(transport, task_run))
            }
            Kind::Node(transport, task_run, false) => {
                format!("node, {}, unpinned", loop_name(transport, task_run))
            }
            Kind::Bare(transport, task_run) => format!("bare, {}", loop_name(transport, task_run)),
        }
    }
}

/// One way to load it.
#[derive(Clone, Copy, Debug)]
struct Load {
    batch: u32,
    connections: u32,
    depth: u32,
    /// Decisions per second; without it, as fast as answers come.
    rate: Option<u64>,
    win: f64,
}

/// A server that runs.
enum Server {
    Node { child: Child, address: SocketAddr, _folder: PathBuf },
    Bare(Bare),
}

const NODE: Kind = Kind::Node(Transport::IoUring, TaskRun::Defer, true);
const BARE: Kind = Kind::Bare(Transport::IoUring, TaskRun::Defer);

/// Prints the tables.
pub fn run(size: Size) {
    let weir = weir_binary();
    if !weir.is_file() {
        println!("no node at {}: build the weir binary of the same profile first", weir.display());
        return;
    }
    let bench = Bench { weir, rounds: size.pick(5, 1), seconds: size.pick("1s", "50ms") };
    let closed =
        |batch, connections, depth| Load { batch, connections, depth, rate: None, win: 0.0 };
    let mut loads: Vec<Load> = vec![closed(10, 8, 8), closed(10, 8, 32)];
    if size == Size::Full {
        for batch in [1, 10, 100] {
            loads.extend([1, 8, 64, 512].map(|connections| closed(batch, connections, 8)));
        }
        loads.push(Load { win: 0.05, ..closed(10, 8, 8) });
    }
    bench.table("closed loop: a node and the same bytes without deciding", &[NODE, BARE], &loads);
    let loops = [
        NODE,
        Kind::Node(Transport::IoUring, TaskRun::Coop, true),
        Kind::Node(Transport::Epoll, TaskRun::Defer, true),
        Kind::Node(Transport::IoUring, TaskRun::Defer, false),
    ];
    let few = if size == Size::Full { &[8, 64, 512][..] } else { &[8][..] };
    let loads: Vec<Load> = few.iter().map(|connections| closed(10, *connections, 8)).collect();
    bench.table(
        "event loops: io_uring with DEFER_TASKRUN on and off, epoll, unpinned",
        &loops,
        &loads,
    );
    let open = Load { rate: Some(1_000_000), win: 0.0, ..closed(10, 8, 8) };
    bench.table(
        "open loop: 1 M decisions per second, latency from the intended time",
        &[NODE],
        &[open],
    );
}

struct Bench {
    weir: PathBuf,
    rounds: usize,
    seconds: &'static str,
}

/// What one run of the load tool said.
#[derive(Clone, Copy, Debug)]
struct Sample {
    decisions_per_s: f64,
    server_ns: f64,
    tool_ns: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

impl Bench {
    fn table(&self, title: &str, kinds: &[Kind], loads: &[Load]) {
        println!("\n### {title}\n");
        println!(
            "| server | asks per frame | connections | frames in flight | decisions/s | server ns per ask | of the first | tool ns per ask | p50 us | p99 us | p99.9 us |"
        );
        println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
        for load in loads {
            let mut samples = vec![Vec::new(); kinds.len()];
            for _ in 0..self.rounds {
                for (kind, samples) in kinds.iter().zip(&mut samples) {
                    match self.sample(*kind, *load) {
                        Ok(sample) => samples.push(sample),
                        Err(error) => println!("{}: {error}", kind.name()),
                    }
                }
            }
            let first = median(&samples[0], |s| s.server_ns);
            for (kind, samples) in kinds.iter().zip(&samples) {
                print_row(*kind, *load, samples, first);
            }
        }
    }

    fn sample(&self, kind: Kind, load: Load) -> Result<Sample, String> {
        let server = self.start(kind)?;
        let result = self.hammer(server.address(), load);
        server.stop();
        result
    }

    fn start(&self, kind: Kind) -> Result<Server, String> {
        match kind {
            Kind::Bare(transport, cooperative) => {
                let options = Options { transport, cooperative, ..Options::default() };
                Bare::start(options, None).map(Server::Bare)
            }
            Kind::Node(transport, task_run, pin) => self.start_node(transport, task_run, pin),
        }
    }

    fn start_node(
        &self,
        transport: Transport,
        task_run: TaskRun,
        pin: bool,
    ) -> Result<Server, String> {
        let folder = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
        let _ = std::fs::create_dir_all(&folder);
        let budgets = folder.join("budgets.jsonl");
        std::fs::write(&budgets, budgets_text()).map_err(|e| e.to_string())?;
        let task_run = if task_run == TaskRun::Defer { "defer" } else { "coop" };
        let mut child = Command::new(&self.weir)
            .args([
                "run",
                "--batch",
                "127.0.0.1:0",
                "--openrtb",
                "127.0.0.1:0",
                "--spend",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--transport",
            ])
            .arg(transport.to_string())
            .arg("--budgets")
            .arg(&budgets)
            .arg("--data")
            .arg(folder.join("data"))
            .env("WEIR_TRANSPORT__TASK_RUN", task_run)
            .env("WEIR_WORKERS__PIN", pin.to_string())
            .env("WEIR_WORKERS__CORES", "0")
            .env("WEIR_LOG__LEVEL", "error")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let address = child.stdout.take().and_then(|out| read_address(&out_lines(out)));
        match address {
            Some(address) => Ok(Server::Node { child, address, _folder: folder }),
            None => {
                let _ = child.kill();
                Err("the node did not start".into())
            }
        }
    }

    fn hammer(&self, address: SocketAddr, load: Load) -> Result<Sample, String> {
        let mut command = Command::new(&self.weir);
        command.args(["hammer", "--json", "--quiet", "--audit-every", "0s", "--core", "1"]);
        command.args(["--target", &address.to_string(), "--duration", self.seconds]);
        command.args([
            "--connections",
            &load.connections.to_string(),
            "--depth",
            &load.depth.to_string(),
        ]);
        command.args(["--batch", &load.batch.to_string(), "--win", &load.win.to_string()]);
        if let Some(rate) = load.rate {
            command.args(["--rate", &rate.to_string()]);
        }
        let output = command.output().map_err(|e| e.to_string())?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let audit = report["audit"].as_str().unwrap_or("missing");
        if audit != "ok" {
            println!("the audit says: {audit}");
        }
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let latency = &report["latency_us"];
        Ok(Sample {
            decisions_per_s: number(&report["decisions_per_s"]),
            server_ns: number(&report["server_ns_per_request"]),
            tool_ns: number(&report["hammer_ns_per_request"]),
            p50_us: number(&latency["p50"]),
            p99_us: number(&latency["p99"]),
            p999_us: number(&latency["p999"]),
        })
    }
}

impl Server {
    fn address(&self) -> SocketAddr {
        match self {
            Server::Node { address, .. } => *address,
            Server::Bare(bare) => bare.address,
        }
    }

    fn stop(self) {
        match self {
            Server::Bare(bare) => bare.stop(),
            Server::Node { mut child, .. } => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Half of the budgets without a plan, half on a schedule, all with more money than a run can spend, so that
/// nearly every ask takes the whole way through plan, purse and token.
fn budgets_text() -> String {
    let line = |id| {
        let pacing = if id % 2 == 0 { "asap" } else { "schedule" };
        format!(
            "{{\"id\":{id},\"limit\":\"900000000000\",\"daily\":\"900000000000\",\"pacing\":\"{pacing}\"}}\n"
        )
    };
    (1..=BUDGETS).map(line).collect()
}

fn out_lines(out: std::process::ChildStdout) -> Vec<String> {
    use std::io::BufRead;
    let lines = std::io::BufReader::new(out).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    for line in lines {
        let ready = line == "ready";
        seen.push(line);
        if ready {
            break;
        }
    }
    seen
}

fn read_address(lines: &[String]) -> Option<SocketAddr> {
    lines.iter().find_map(|line| line.strip_prefix("batch ")?.parse().ok())
}

fn median(samples: &[Sample], pick: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(pick).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print_row(kind: Kind, load: Load, samples: &[Sample], first_ns: f64) {
    let of = |pick: fn(&Sample) -> f64| median(samples, pick);
    let server_ns = of(|s| s.server_ns);
    let settles =
        if load.win > 0.0 { format!(", {} % won", load.win * 100.0) } else { String::new() };
    println!(
        "| {}{settles} | {} | {} | {} | {:.2} M | {server_ns:.1} | {:.2} | {:.1} | {:.0} | {:.0} | {:.0} |",
        kind.name(),
        load.batch,
        load.connections,
        load.rate.map_or(load.depth.to_string(), |rate| format!("{rate}/s")),
        of(|s| s.decisions_per_s) / 1e6,
        server_ns / first_ns,
        of(|s| s.tool_ns),
        of(|s| s.p50_us),
        of(|s| s.p99_us),
        of(|s| s.p999_us),
    );
}
