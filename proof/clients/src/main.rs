//! What a client library costs its program: processor time of the whole process for each ask, beside the load tool's own loop, which
//! does nothing but write and read frames, against the same node in the same run.
//!
//! `clients` starts the `weir` beside it; `clients ADDRESS [BUDGETS]` uses a node that runs, whose budgets from 1 on have money in
//! plenty.

#![allow(clippy::print_stdout)] // reason: the figures are what it is for

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_client::{Amount, Answer, Ask, Client, Options, Unit};

/// Budgets of a node that this program starts.
const BUDGETS: u64 = 64;
/// Frames that a call of many asks is sent in: what the client has in flight.
const FRAMES: usize = 24;
const ROUNDS: usize = 5;
const WARM_MAX: Duration = Duration::from_secs(30);
const ROUND: Duration = Duration::from_secs(1);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let weir = std::env::current_exe()?.with_file_name("weir");
    let folder = tempfile::tempdir()?;
    let mut node = None;
    let budgets = std::env::args().nth(2).and_then(|word| word.parse().ok());
    let address = match std::env::args().nth(1) {
        Some(address) => address,
        None => {
            let (child, address) = start(&weir, folder.path())?;
            node = Some(child);
            address
        }
    };
    let measured = measure(&weir, &address, budgets.unwrap_or(BUDGETS));
    if let Some(mut node) = node {
        node.kill()?;
        node.wait()?;
    }
    measured
}

/// A node on core 0.
fn start(weir: &Path, folder: &Path) -> Result<(Child, String)> {
    let budgets = folder.join("budgets.jsonl");
    let lines = (1..=BUDGETS).map(|id| format!("{{\"id\":{id},\"limit\":\"900000000000\"}}\n"));
    std::fs::write(&budgets, lines.collect::<String>())?;
    let mut child = Command::new(weir)
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
        ])
        .arg("--budgets")
        .arg(&budgets)
        .arg("--data")
        .arg(folder.join("data"))
        .env("WEIR_WORKERS__CORES", "0")
        .env("WEIR_LOG__LEVEL", "error")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}; build it first", weir.display()))?;
    let out = child.stdout.take().ok_or("no output")?;
    let mut address = None;
    for line in BufReader::new(out).lines() {
        let line = line?;
        address = line.strip_prefix("batch ").map(str::to_string).or(address);
        if line == "ready" {
            break;
        }
    }
    let address = address.ok_or("the node did not say where its batch door is")?;
    Ok((child, address))
}

fn measure(weir: &PathBuf, address: &str, budgets: u64) -> Result<()> {
    if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.get(1).copied()) {
        core_affinity::set_for_current(core);
    }
    println!(
        "| asks in a frame | client, CPU ns per ask | load tool, CPU ns per ask | ratio | client, asks/s |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for batch in [1, 10, 100] {
        let (mut ours, mut theirs, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (ns, rate) = client(address, batch, budgets)?;
            ours.push(ns);
            rates.push(rate);
            theirs.push(hammer(weir, address, batch)?);
        }
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        let rate = median(&mut rates) / 1e6;
        println!("| {batch} | {ours:.0} | {theirs:.0} | {:.2} | {rate:.2} M |", ours / theirs);
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time of this process with all its threads.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let whole = Duration::from_secs(u64::try_from(now.tv_sec).unwrap_or(0));
    whole + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// Calls of many asks, one after the other, over one connection: CPU ns per ask, and asks per second.
fn client(address: &str, batch: usize, budgets: u64) -> Result<(f64, f64)> {
    let options = Options::new(address)
        .connections(1)
        .batch_max(batch)
        .linger(Duration::ZERO)
        .deadline(Duration::from_secs(1));
    let client = Client::open(options)?;
    let ask = |id| Ask { unit: None, ..Ask::new(id, Amount::new(1), Unit::Count) };
    let asks: Vec<Ask> = (1..=budgets).cycle().map(ask).take(FRAMES * batch).collect();
    let mut answers: Vec<Answer> = Vec::new();
    // The first asks wait until the bank has filled the purses, and on a busy disk that takes its time.
    let warm = Instant::now();
    let mut granted_calls = 0;
    while granted_calls < 100 {
        client.reserve_all(&asks, &mut answers)?;
        granted_calls += usize::from(answers.iter().all(|answer| answer.verdict.is_granted()));
        if warm.elapsed() > WARM_MAX {
            let last = answers.last().map(|answer| answer.verdict);
            return Err(format!("asks are not granted: {last:?}").into());
        }
    }
    let (begun, cpu_begun) = (Instant::now(), cpu());
    let (mut count, mut granted) = (0, 0);
    while begun.elapsed() < ROUND {
        client.reserve_all(&asks, &mut answers)?;
        count += answers.len();
        granted += answers.iter().filter(|answer| answer.verdict.is_granted()).count();
    }
    let (wall, used) = (begun.elapsed(), cpu() - cpu_begun);
    if granted * 10 < count * 9 {
        return Err(format!("only {granted} of {count} asks were granted").into());
    }
    let count = count as f64;
    Ok((used.as_nanos() as f64 / count, count / wall.as_secs_f64()))
}

/// The load tool with one connection and as many frames in flight: its CPU ns per ask.
fn hammer(weir: &PathBuf, address: &str, batch: usize) -> Result<f64> {
    let output = Command::new(weir)
        .args(["hammer", "--json", "--quiet", "--audit-every", "0s", "--core", "1", "--win", "0"])
        .args(["--target", address, "--duration", "1s", "--connections", "1"])
        .args(["--depth", &FRAMES.to_string(), "--batch", &batch.to_string()])
        .output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    report["hammer_ns_per_request"].as_f64().ok_or_else(|| format!("no figure in {report}").into())
}
