//! An order's way there and back over loopback: client, gate, venue, gate, client; beside a proxy that copies bytes between the same
//! client and the same venue.
//!
//! The gate's worker and the proxy are pinned to core 0, client and venue share core 1. The client keeps a timetable, and a wait counts
//! from when an order was due; so it holds how late the client itself was, of the proxy as of the gate. The rounds of all ways are
//! interleaved over connections that stay.

mod client;
mod proxy;
mod venue;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use probe::compare::median;
use tempfile::TempDir;

use self::client::{Client, Waits};
use self::proxy::Proxy;
use self::venue::Venue;
use crate::Size;
use crate::daemon::{Daemon, bound_to_us, folder_on_disk, weir_binary};
use crate::figures::{Case, interleave};
use crate::threads::{self, Used};

/// Orders a second.
const RATE: u64 = 20_000;
/// What `written` may add to the proxy, us: of the median, and of the 99th percentile.
const P50_US_MAX: f64 = 25.0;
const P99_US_MAX: f64 = 200.0;
/// What the worker may take for an order and its report beyond the proxy, ns.
const CPU_NS_MAX: f64 = 400.0;
/// What a sealed group of one message takes on disk.
const GROUP_BYTES: usize = 4_096;
const CONFIG: &str = r#"
[fix]
listen = "127.0.0.1:0"
[[fix.session]]
sender_comp_id = "GATE"
target_comp_id = "CLIENT1"
limits = "none"
route = "venue1"
durability = "DURABILITY"
validation = "off"
[[fix.venue]]
name = "venue1"
sender_comp_id = "GATE"
target_comp_id = "VENUE"
heart_bt_int_s = 3600
durability = "DURABILITY"
connect = ["VENUE_ADDRESS"]
"#;

/// Prints the table.
pub(super) fn run(size: Size) {
    println!("\n### {RATE} orders a second over loopback, there and back\n");
    if let Err(error) = measure(size) {
        println!("NOT MEASURED: {error}");
    }
}

/// What a round of one way was like.
#[derive(Clone, Debug)]
struct Sample {
    waits: Waits,
    /// Of the thread in the middle.
    used: Used,
    /// Of the client's.
    own: Used,
    orders: u64,
    elapsed: Duration,
}

/// A way from the client to the venue and back.
struct Way {
    name: &'static str,
    process: u32,
    thread: &'static str,
    client: Client,
}

impl Way {
    fn round(&mut self, orders: u64) -> Result<Sample, String> {
        let before = (threads::used(self.process, self.thread)?.0, threads::own());
        let began = Instant::now();
        let waits = self.client.trade(orders, RATE)?;
        let elapsed = began.elapsed();
        let used = threads::used(self.process, self.thread)?.0.since(before.0);
        Ok(Sample { waits, used, own: threads::own().since(before.1), orders, elapsed })
    }
}

fn measure(size: Size) -> Result<(), String> {
    let venue = Venue::start()?;
    let proxy = Proxy::start(venue.address)?;
    let gates = [Gate::start("written", venue.address)?, Gate::start("sealed", venue.address)?];
    // They are started before: what a pinned thread starts is pinned like it.
    threads::client(|| trade(size, &proxy, &gates))
}

fn trade(size: Size, proxy: &Proxy, gates: &[Gate; 2]) -> Result<(), String> {
    let us = std::process::id();
    let way = |name, process, thread, to| {
        Client::log_on(to).map(|client| Way { name, process, thread, client })
    };
    let mut ways = vec![way("bare proxy of bytes", us, proxy::THREAD, proxy.address)?];
    for (gate, name) in gates.iter().zip(["gate, `written`", "gate, `sealed`"]) {
        ways.push(way(name, gate.daemon.id(), "worker", gate.address)?);
    }
    let orders = size.pick(RATE * 2, 200);
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    let mut cases: Vec<Case<'_, Sample>> = Vec::new();
    for way in &mut ways {
        cases.push(Box::new(|| way.round(orders)));
    }
    let rounds = interleave(size.pick(9, 1), &mut cases)?;
    let append_us = append(size)?;
    print(&names, &rounds, append_us);
    Ok(())
}

fn print(names: &[&str], rounds: &[Vec<Sample>], append_us: f64) {
    let middle =
        |samples: &[Sample], of: &dyn Fn(&Sample) -> f64| median(samples.iter().map(of).collect());
    // Differences are taken within a round.
    let more = |at: usize, than: usize, of: &dyn Fn(&Sample) -> f64| {
        let pairs = rounds[at].iter().zip(&rounds[than]);
        median(pairs.map(|(own, other)| of(own) - of(other)).collect())
    };
    let p50 = |sample: &Sample| sample.waits.us(0.5);
    let p99 = |sample: &Sample| sample.waits.us(0.99);
    let cpu = |sample: &Sample| sample.used.cpu_ns as f64 / sample.orders as f64;
    let share = |ns: u64, sample: &Sample| ns as f64 / sample.elapsed.as_nanos() as f64 * 100.0;
    println!(
        "| through | p50 us | p99 us | ns of its thread an order | it waited for its core | the client did |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (name, samples) in names.iter().zip(rounds) {
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.1} % | {:.1} % |",
            middle(samples, &p50),
            middle(samples, &p99),
            middle(samples, &cpu),
            middle(samples, &|sample| share(sample.used.waited_ns, sample)),
            middle(samples, &|sample| share(sample.own.waited_ns, sample)),
        );
    }
    println!("\n| more, within a round | measured | bar |\n| --- | ---: | --- |");
    let row = |what: &str, measured: f64, max: f64, unit: &str| {
        let met = if measured <= max { "met" } else { "**missed**" };
        println!("| {what} | {measured:.0} {unit} | {max:.0} {unit}: {met} |");
    };
    row("`written` than the proxy, p50", more(1, 0, &p50), P50_US_MAX, "us");
    row("`written` than the proxy, p99", more(1, 0, &p99), P99_US_MAX, "us");
    row("`written` than the proxy, its thread", more(1, 0, &cpu), CPU_NS_MAX, "ns");
    let two = 2.0 * append_us;
    row("`sealed` than `written`, p50; two bare appends", more(2, 1, &p50), two, "us");
}

/// A node with one worker that has the FIX door.
struct Gate {
    daemon: Daemon,
    address: SocketAddr,
    _folder: TempDir,
}

impl Gate {
    fn start(durability: &str, venue: SocketAddr) -> Result<Gate, String> {
        let weir = weir_binary();
        if !weir.is_file() {
            return Err(format!("no node at {}: build it first", weir.display()));
        }
        let (folder, logs) = (folder_on_disk()?, folder_on_disk()?);
        let [budgets, config] = ["budgets.jsonl", "weir.toml"].map(|name| folder.path().join(name));
        let text = CONFIG.replace("DURABILITY", durability);
        let text = text.replace("VENUE_ADDRESS", &venue.to_string());
        std::fs::write(&config, text).map_err(|e| e.to_string())?;
        let budget = "{\"id\":1,\"unit\":\"USD\",\"limit\":\"1\"}\n";
        std::fs::write(&budgets, budget).map_err(|e| e.to_string())?;
        let log = logs.path().join("log");
        let mut command = bound_to_us(&weir, None);
        command.arg("run");
        for door in ["--admin", "--batch", "--openrtb", "--spend"] {
            command.args([door, "127.0.0.1:0"]);
        }
        command.arg("--config").arg(&config).arg("--budgets").arg(&budgets);
        command.arg("--data").arg(folder.path().join("data"));
        command.env("WEIR_WORKERS__CORES", "0").env("WEIR_LOG__LEVEL", "error");
        let mut daemon = Daemon::start(command, logs, 0)?;
        let address = daemon.wait_for(|_| address(&log))?;
        Ok(Gate { daemon, address, _folder: folder })
    }
}

/// What a node that is ready has printed.
fn address(log: &Path) -> Result<SocketAddr, String> {
    let text = std::fs::read_to_string(log).map_err(|e| e.to_string())?;
    let door = text.lines().find_map(|line| line.strip_prefix("fix ")?.parse().ok());
    let ready = text.lines().any(|line| line == "ready");
    door.filter(|_| ready).ok_or_else(|| "the node is not ready".to_owned())
}

/// A bare append to a file, flushed: its median, us.
fn append(size: Size) -> Result<f64, String> {
    let folder = folder_on_disk()?;
    let failed = |e: std::io::Error| e.to_string();
    let mut file = std::fs::File::create(folder.path().join("appended")).map_err(failed)?;
    let mut took = Vec::new();
    for _ in 0..size.pick(200, 3) {
        let began = Instant::now();
        file.write_all(&[7; GROUP_BYTES]).and_then(|()| file.sync_data()).map_err(failed)?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(took))
}
