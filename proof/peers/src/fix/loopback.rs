//! An order's way there and back over loopback: client, gate, venue, gate, client; beside a proxy that copies bytes between the same
//! client and the same venue, and beside gates made of the engines of others.
//!
//! The gate's worker and the proxy are pinned to core 0, client and venue share core 1, engines of others may have both. The client keeps a timetable, and a wait counts
//! from when an order was due; so it holds how late the client itself was, of the proxy as of the gate. The rounds of all ways are
//! interleaved over connections that stay.

mod bridges;
mod client;
mod proxy;
mod venue;

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use probe::compare::median;
use tempfile::TempDir;

use self::bridges::Bridge;
use self::client::{Client, Waits};
use self::proxy::Proxy;
use self::venue::Venue;
use crate::Size;
use crate::daemon::{Daemon, bound_to_us, folder_on_disk, weir_binary};
use crate::figures::{Case, interleave};
use crate::threads::{self, Used};

/// Orders a second.
const RATE: u64 = 20_000;
/// A rate that most engines keep up with, and one that those do which flush each message.
const CALM_RATE: u64 = 1_000;
const SLOW_RATE: u64 = 50;
const ROUNDS: usize = 9;
/// What `written` may add to the proxy, us: of the median, and of the 99th percentile.
const P50_US_MAX: f64 = 25.0;
const P99_US_MAX: f64 = 200.0;
/// What the worker may take for an order and its report beyond the proxy, ns.
const CPU_NS_MAX: f64 = 400.0;
/// What money may add to `written`'s p50 beside an echo of the bank, which is not taken off here, us.
const MONEY_P50_US_MAX: f64 = 15.0;
/// What the bank may take for an order and its fill, ns.
const BANK_NS_MAX: f64 = 800.0;
/// What a sealed group of one message takes on disk.
const GROUP_BYTES: usize = 4_096;
const CONFIG: &str = r#"
[fix]
listen = "127.0.0.1:0"
[[fix.session]]
sender_comp_id = "GATE"
target_comp_id = "CLIENT1"
LIMITS
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

const GATES: [&str; 4] = [
    "gate, `written`",
    "gate, `sealed`",
    "gate with money, `written`",
    "gate with money, `sealed`",
];
/// What the session says of limits, and the only budget of orders: they pass, or every order asks it.
const LIMITS: [[&str; 2]; 2] = [
    ["limits = \"none\"", ""],
    ["limits = \"budgets\"\nfirm = \"DESK\"", ",\"orders\":{\"firm\":\"DESK\"}"],
];

/// Prints the tables.
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
    /// Of what is in the middle, of the client's thread, of the venue's, and of the bank's.
    used: [Used; 4],
    orders: u64,
    elapsed: Duration,
}

impl Sample {
    fn per_order_ns(&self) -> f64 {
        self.used[0].cpu_ns as f64 / self.orders as f64
    }

    fn bank_ns(&self) -> f64 {
        self.used[3].cpu_ns as f64 / self.orders as f64
    }

    /// How much of the round a thread was ready and had no core, %.
    fn waited(&self, thread: usize) -> f64 {
        self.used[thread].waited_ns as f64 / self.elapsed.as_nanos() as f64 * 100.0
    }

    fn per_second(&self) -> f64 {
        self.orders as f64 / self.elapsed.as_secs_f64()
    }
}

/// A way from the client to the venue and back.
struct Way {
    name: &'static str,
    process: u32,
    /// The threads whose time counts: those whose names begin so.
    thread: &'static str,
    client: RefCell<Client>,
    /// Why it is measured no more.
    failed: RefCell<Option<String>>,
}

impl Way {
    fn new(
        name: &'static str,
        process: u32,
        thread: &'static str,
        to: SocketAddr,
    ) -> Result<Way, String> {
        let client = Client::log_on(to).map_err(|error| format!("{name}: {error}"))?;
        let (client, failed) = (RefCell::new(client), RefCell::new(None));
        Ok(Way { name, process, thread, client, failed })
    }

    fn round(&self, orders: u64, rate: u64) -> Result<Sample, String> {
        let used = || -> Result<[Used; 4], String> {
            let middle = threads::used(self.process, self.thread)?.0;
            let venue = threads::used(std::process::id(), venue::THREAD)?.0;
            let bank = threads::used(self.process, "bank")?.0;
            Ok([middle, threads::own(), venue, bank])
        };
        let before = used()?;
        let began = Instant::now();
        let traded = self.client.borrow_mut().trade(orders, rate);
        let waits = traded.map_err(|error| format!("{}: {error}", self.name))?;
        let elapsed = began.elapsed();
        let after = used()?;
        let used = [0, 1, 2, 3].map(|at| after[at].since(before[at]));
        Ok(Sample { waits, used, orders, elapsed })
    }
}

/// A round of a way that may fail: engines of others were seen to lose orders when they get more than they keep up with. `None` from then on.
fn try_round(way: &Way, plan: &Plan) -> Option<Sample> {
    if way.failed.borrow().is_some() {
        return None;
    }
    let sample = way.round(plan.orders, plan.rate);
    sample.map_err(|error| *way.failed.borrow_mut() = Some(error)).ok()
}

/// So many orders at a rate, through one of the ways.
struct Plan {
    way: usize,
    rate: u64,
    orders: u64,
}

fn measure(size: Size) -> Result<(), String> {
    let venue = Venue::start()?;
    let proxy = Proxy::start(venue.address, None)?;
    let folder = folder_on_disk()?;
    let kept = File::create(folder.path().join("passed")).map_err(|e| e.to_string())?;
    let writing = Proxy::start(venue.address, Some(kept))?;
    let gates = LIMITS.map(|limits| {
        ["written", "sealed"].map(|durability| Gate::start(durability, limits, venue.address))
    });
    let gates: Vec<Gate> = gates.into_iter().flatten().collect::<Result<_, _>>()?;
    let bridges = Bridge::start_all(size, venue.address);
    // They are started before: what a pinned thread starts is pinned like it.
    threads::client(|| trade(size, [&proxy, &writing], &gates, &bridges))
}

fn trade(
    size: Size,
    [proxy, writing]: [&Proxy; 2],
    gates: &[Gate],
    bridges: &[Result<Bridge, String>],
) -> Result<(), String> {
    let us = std::process::id();
    let mut ways = vec![Way::new("bare proxy of bytes", us, proxy::THREAD, proxy.address)?];
    for (gate, name) in gates.iter().zip(GATES) {
        ways.push(Way::new(name, gate.daemon.id(), "worker", gate.address)?);
    }
    let name = "proxy that writes the bytes to a file first";
    ways.push(Way::new(name, us, proxy::WRITING_THREAD, writing.address)?);
    let mut plans: Vec<Plan> = Vec::new();
    let mut plan = |way, rate: u64, ms: u64| {
        plans.push(Plan { way, rate, orders: size.pick((rate * ms / 1_000).max(1), 20) });
    };
    for way in 0..ways.len() {
        plan(way, RATE, 2_000);
    }
    for way in 0..ways.len() {
        plan(way, CALM_RATE, 1_000);
    }
    for bridge in bridges {
        let made = bridge.as_ref().map_err(Clone::clone);
        let made =
            made.and_then(|one| Ok((one, Way::new(one.name, one.daemon.id(), "", one.address)?)));
        match made {
            Ok((bridge, way)) => {
                // It does not keep up, so that a round of the rate is short.
                plan(ways.len(), RATE, if bridge.flushes { 25 } else { 250 });
                plan(ways.len(), if bridge.flushes { SLOW_RATE } else { CALM_RATE }, 1_000);
                ways.push(way);
            }
            Err(error) => println!("{error}\n"),
        }
    }
    let mut cases: Vec<Case<'_, Option<Sample>>> = Vec::new();
    for plan in &plans {
        let way = &ways[plan.way];
        cases.push(Box::new(|| Ok(try_round(way, plan))));
    }
    let rounds = interleave(size.pick(ROUNDS, 1), &mut cases)?;
    drop(cases);
    let rounds: Vec<Vec<Sample>> =
        rounds.into_iter().map(|samples| samples.into_iter().flatten().collect()).collect();
    print_rows(&plans, &ways, &rounds);
    for way in &ways {
        if let Some(error) = way.failed.borrow().as_ref() {
            println!("\nNot measured any more from here on: {error}");
        }
    }
    print_bars(&rounds, append(size)?);
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..size.pick(ROUNDS, 1) {
        took[0].push(in_place(size, false)?);
        took[1].push(in_place(size, true)?);
    }
    let [alone, beside] = took.map(median);
    println!(
        "\nA write within a file and its flush: {alone:.0} us alone, {beside:.0} us where another thread does the same to that file all the time."
    );
    Ok(())
}

fn middle(samples: &[Sample], of: &dyn Fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(of).collect())
}

fn print_rows(plans: &[Plan], ways: &[Way], rounds: &[Vec<Sample>]) {
    println!(
        "| through | rounds | orders/s wanted | done | p50 us | p99 us | ns of its threads an order | of its bank's | they waited for a core | the client did | the venue did |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (plan, samples) in plans.iter().zip(rounds) {
        println!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} % | {:.1} % | {:.1} % |",
            ways[plan.way].name,
            samples.len(),
            plan.rate,
            middle(samples, &Sample::per_second),
            middle(samples, &|sample| sample.waits.us(0.5)),
            middle(samples, &|sample| sample.waits.us(0.99)),
            middle(samples, &Sample::per_order_ns),
            middle(samples, &Sample::bank_ns),
            middle(samples, &|sample| sample.waited(0)),
            middle(samples, &|sample| sample.waited(1)),
            middle(samples, &|sample| sample.waited(2)),
        );
    }
}

/// The proxy, the four gates and the proxy that writes at the full rate are the first six rows.
fn print_bars(rounds: &[Vec<Sample>], append_us: f64) {
    // Differences are taken within a round.
    let more = |at: usize, than: usize, of: &dyn Fn(&Sample) -> f64| {
        let pairs = rounds[at].iter().zip(&rounds[than]);
        median(pairs.map(|(own, other)| of(own) - of(other)).collect())
    };
    let p50 = |sample: &Sample| sample.waits.us(0.5);
    let p99 = |sample: &Sample| sample.waits.us(0.99);
    println!("\n| more, within a round | measured | bar |\n| --- | ---: | --- |");
    let row = |what: &str, measured: f64, max: f64, unit: &str| {
        let met = if measured <= max { "met" } else { "**missed**" };
        println!("| {what} | {measured:.0} {unit} | {max:.0} {unit}: {met} |");
    };
    row("`written` than the proxy, p50", more(1, 0, &p50), P50_US_MAX, "us");
    row("`written` than the proxy, p99", more(1, 0, &p99), P99_US_MAX, "us");
    row(
        "`written` than the proxy, its thread",
        more(1, 0, &Sample::per_order_ns),
        CPU_NS_MAX,
        "ns",
    );
    for (what, of) in [("p50", &p50 as &dyn Fn(&Sample) -> f64), ("p99", &p99)] {
        println!("| `written` than the proxy that writes, {what} | {:.0} us | |", more(1, 5, of));
    }
    let thread_ns = more(1, 5, &Sample::per_order_ns);
    println!("| `written` than the proxy that writes, its thread | {thread_ns:.0} ns | |");
    let two = 2.0 * append_us;
    row("`sealed` than `written`, p50; two bare appends", more(2, 1, &p50), two, "us");
    row("with money than without, `written`, p50", more(3, 1, &p50), MONEY_P50_US_MAX, "us");
    row("with money than without, `written`, p99", more(3, 1, &p99), P99_US_MAX, "us");
    row("with money than without, its worker", more(3, 1, &Sample::per_order_ns), CPU_NS_MAX, "ns");
    row("with money than without, its bank", more(3, 1, &Sample::bank_ns), BANK_NS_MAX, "ns");
    row("with money than without, `sealed`, p50; two bare appends", more(4, 2, &p50), two, "us");
}

/// A node with one worker that has the FIX door.
struct Gate {
    daemon: Daemon,
    address: SocketAddr,
    _folder: TempDir,
}

impl Gate {
    fn start(
        durability: &str,
        [limits, orders]: [&str; 2],
        venue: SocketAddr,
    ) -> Result<Gate, String> {
        let weir = weir_binary();
        if !weir.is_file() {
            return Err(format!("no node at {}: build it first", weir.display()));
        }
        let (folder, logs) = (folder_on_disk()?, folder_on_disk()?);
        let [budgets, config] = ["budgets.jsonl", "weir.toml"].map(|name| folder.path().join(name));
        let text = CONFIG.replace("DURABILITY", durability).replace("LIMITS", limits);
        let text = text.replace("VENUE_ADDRESS", &venue.to_string());
        std::fs::write(&config, text).map_err(|e| e.to_string())?;
        let budget = format!("{{\"id\":1,\"unit\":\"USD\",\"limit\":\"1000000000000\"{orders}}}\n");
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

/// A write of one group within a file, flushed, alone or while another thread flushes its own to the same file: its median, us.
fn in_place(size: Size, is_beside: bool) -> Result<f64, String> {
    let folder = folder_on_disk()?;
    let failed = |e: std::io::Error| e.to_string();
    let file = File::create(folder.path().join("kept")).map_err(failed)?;
    let groups = size.pick(100, 4);
    let place = |group: usize| (group * GROUP_BYTES) as u64;
    file.write_all_at(&vec![0; 2 * groups * GROUP_BYTES], 0).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let write = |group| {
        let began = Instant::now();
        let written = file.write_all_at(&[7; GROUP_BYTES], place(group));
        written.and_then(|()| file.sync_data()).map(|()| began.elapsed())
    };
    let is_over = AtomicBool::new(!is_beside);
    let mut took = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for group in (groups..2 * groups).cycle() {
                if is_over.load(Relaxed) || write(group).is_err() {
                    return;
                }
            }
        });
        let done = (0..groups).try_for_each(|group| {
            took.push(write(group)?.as_secs_f64() * 1e6);
            Ok(())
        });
        is_over.store(true, Relaxed);
        done.map_err(failed)
    })?;
    Ok(median(took))
}
