//! The spend door of a whole node beside a canned answer of the same size on the same loop, and a durable settlement beside a bare
//! append. Beside both the same at Redis.
//!
//! The node's worker and the server of canned answers are pinned to core 0; one client on core 1 drives one of them at a time and
//! sleeps until answers come. The rounds of all cases are interleaved, differences are taken within a round. Time is the kernel's
//! account of the thread that answers; beside it stands what the clock on the wall said, and how long both threads were ready to
//! run while others had their cores. Nothing is audited meanwhile: every answer is only looked at for its status.

use std::cell::RefCell;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use probe::compare::median;

use crate::Size;
use crate::daemon::folder_on_disk;
use crate::figures::{Case, interleave};
use crate::floor::{self, Floor};
use crate::spend_redis::{self, Counters};
use crate::threads::{self, Used};
use crate::web::{Caller, Node, post};

const BUDGETS: usize = 1_000;
/// Asks of a batch.
const BATCH: usize = 100;
/// What a call may take above a canned answer, us, and an ask of a batch.
const CALL_US_MAX: f64 = 1.5;
const ENTRY_US_MAX: f64 = 0.5;
/// What a settlement may take above an append, us.
const SETTLE_US_MAX: f64 = 300.0;

/// What a sealed group of one settlement takes on disk.
const GROUP_BYTES: usize = 4_096;

/// Before a settlement, and before an append: longer than `journal.gather_us`, for which a write waits that follows another.
const PAUSE: Duration = Duration::from_millis(2);

/// A way to ask.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    connections: usize,
    /// Requests that a connection sends before it waits for their answers.
    depth: usize,
    /// Asks of a request.
    asks: usize,
    us_max: f64,
}

const LOADS: [Load; 3] = [
    Load {
        name: "a call on each of 32 connections that stay",
        connections: 32,
        depth: 1,
        asks: 1,
        us_max: CALL_US_MAX,
    },
    Load {
        name: "32 calls pipelined on one connection",
        connections: 1,
        depth: 32,
        asks: 1,
        us_max: CALL_US_MAX,
    },
    Load {
        name: "a batch of 100 on each of 8 connections",
        connections: 8,
        depth: 1,
        asks: BATCH,
        us_max: ENTRY_US_MAX,
    },
];

/// Prints the tables.
pub fn run(size: Size) {
    if let Err(error) = measure(size) {
        println!("\nthe spend door: NOT MEASURED: {error}");
    }
}

fn measure(size: Size) -> Result<(), String> {
    let folder = folder_on_disk()?;
    let (file, data) = (folder.path().join("budgets.jsonl"), folder.path().join("data"));
    let line = |id| format!("{{\"id\":{},\"unit\":\"USD\",\"limit\":\"10000000\"}}\n", 1_001 + id);
    let lines: String = (0..BUDGETS).map(line).collect();
    std::fs::write(&file, lines).map_err(|e| e.to_string())?;
    let node = Node::start(&file, &data)?;
    threads::client(|| {
        let redis = RefCell::new(redis());
        calls(size, &node, &redis)?;
        settles(size, &node, folder.path(), &redis)
    })
}

/// The counters that a node replaces; none where there is no Redis.
fn redis() -> Option<Counters> {
    Counters::start(BUDGETS)
        .inspect_err(|error| println!("\nRedis beside the spend door: NOT MEASURED: {error}"))
        .ok()
}

/// What a round of calls took, by the ask.
#[derive(Clone, Copy, Debug)]
struct Sample {
    server_us: f64,
    wall_us: f64,
    /// Share of the round in which the server, and the client, waited for their cores.
    server_waited: f64,
    client_waited: f64,
}

/// A server with its connections, and what it is asked.
struct Side<'a> {
    process: u32,
    thread: &'static str,
    callers: Vec<Caller>,
    /// Makes the next request.
    request: Box<dyn FnMut() -> Vec<u8> + 'a>,
    protocol: Protocol,
}

#[derive(Clone, Copy)]
enum Protocol {
    /// A batch is one request.
    Http,
    /// Redis's, where a batch is as many commands one after the other.
    Resp,
}

impl Protocol {
    /// Requests that a connection sends before it waits for their answers.
    fn depth(self, load: Load) -> usize {
        match self {
            Protocol::Http => load.depth,
            Protocol::Resp => load.depth * load.asks,
        }
    }

    /// Takes the answers of one burst; how many asks were refused.
    fn take(self, caller: &mut Caller, load: Load) -> Result<usize, String> {
        match self {
            Protocol::Resp => caller.integers(self.depth(load)),
            Protocol::Http => {
                let mut refused = 0;
                caller.answers(load.depth, |body| refused += refusals(body, load.asks))?;
                Ok(refused)
            }
        }
    }
}

impl Side<'_> {
    fn used(&self) -> Result<Used, String> {
        threads::used(self.process, self.thread).map(|(named, _)| named)
    }

    /// So many bursts: every connection sends, then every connection takes its answers.
    fn round(&mut self, load: Load, bursts: usize) -> Result<Sample, String> {
        let (before, own, began) = (self.used()?, threads::own(), Instant::now());
        let Side { callers, request, protocol, .. } = self;
        let mut refused = 0;
        for _ in 0..bursts {
            for caller in &mut *callers {
                let burst: Vec<u8> = (0..protocol.depth(load)).flat_map(|_| request()).collect();
                caller.send(&burst)?;
            }
            for caller in &mut *callers {
                refused += protocol.take(caller, load)?;
            }
        }
        let wall_ns = began.elapsed().as_nanos() as f64;
        let (server, client) = (self.used()?.since(before), threads::own().since(own));
        if refused > 0 {
            return Err(format!("{refused} asks of a round were refused"));
        }
        let asks = (bursts * load.connections * load.depth * load.asks) as f64;
        Ok(Sample {
            server_us: server.cpu_ns as f64 / asks / 1e3,
            wall_us: wall_ns / asks / 1e3,
            server_waited: server.waited_ns as f64 / wall_ns,
            client_waited: client.waited_ns as f64 / wall_ns,
        })
    }
}

/// Entries of a batch that were not granted.
fn refusals(body: &[u8], asks: usize) -> usize {
    if asks == 1 {
        return 0;
    }
    let granted = body.windows(8).filter(|eight| eight == b"\"token\":").count();
    asks - granted.min(asks)
}

fn calls(size: Size, node: &Node, redis: &RefCell<Option<Counters>>) -> Result<(), String> {
    println!("\n### what an ask costs the thread that answers it\n");
    println!(
        "| | canned answer, us per ask | reserve | more (quartiles) | at most | Redis | wall us: canned, reserve, Redis | waited for its \
         core: canned, node, Redis, client of the node |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for load in LOADS {
        let rounds = rounds(size, node, redis, load)?;
        print(load, &rounds);
    }
    println!(
        "\nWaits and wall are shares and times of a machine that may be shared; the account of the thread is not. Redis runs a script \
         that checks and decrements, and syncs its file before it answers; a batch is as many commands in one pipeline."
    );
    Ok(())
}

/// The rounds of canned answers, of the node, and of Redis where there is one.
fn rounds(
    size: Size,
    node: &Node,
    redis: &RefCell<Option<Counters>>,
    load: Load,
) -> Result<Vec<Vec<Sample>>, String> {
    let requests = requests(load);
    let mut of_node = Side {
        process: node.id(),
        thread: "worker",
        callers: callers(node.spend, load)?,
        request: in_turn(&requests),
        protocol: Protocol::Http,
    };
    let answer = warm(&mut of_node, requests.len(), load)?;
    // One server of canned answers at a time has this name.
    let canned = Floor::canned(answer)?;
    let of_canned = Side {
        process: std::process::id(),
        thread: floor::THREAD,
        callers: callers(canned.address, load)?,
        request: in_turn(&requests),
        protocol: Protocol::Http,
    };
    let of_redis = of_redis(redis, load)?;
    let sides: Vec<_> =
        [of_canned, of_node].into_iter().chain(of_redis).map(RefCell::new).collect();
    let bursts = size.pick(20_000, 64) / (load.connections * load.depth * load.asks.div_ceil(5));
    let cases = sides.iter().enumerate().map(|(which, side)| -> Case<'_, Sample> {
        // Redis keeps every reservation, and writes each into its file.
        let bursts = if which == 2 { bursts / 4 } else { bursts };
        Box::new(move || side.borrow_mut().round(load, bursts.max(1)))
    });
    interleave(size.pick(21, 1), &mut cases.collect::<Vec<_>>())
}

fn of_redis(redis: &RefCell<Option<Counters>>, load: Load) -> Result<Option<Side<'_>>, String> {
    let counters = redis.borrow();
    let Some(counters) = counters.as_ref() else { return Ok(None) };
    let connect = |_| counters.connect();
    Ok(Some(Side {
        process: counters.id(),
        thread: spend_redis::THREAD,
        callers: (0..load.connections).map(connect).collect::<Result<_, _>>()?,
        request: Box::new(|| redis.borrow_mut().as_mut().map_or_else(Vec::new, Counters::reserve)),
        protocol: Protocol::Resp,
    }))
}

fn in_turn(requests: &[Vec<u8>]) -> Box<dyn FnMut() -> Vec<u8> + '_> {
    let mut next = requests.iter().cycle();
    Box::new(move || next.next().cloned().unwrap_or_default())
}

/// One row; the rounds are those of [`rounds`].
fn print(load: Load, rounds: &[Vec<Sample>]) {
    let of = |which: usize, pick: fn(&Sample) -> f64| -> Option<f64> {
        Some(median(rounds.get(which)?.iter().map(pick).collect()))
    };
    let text = |value: Option<f64>| value.map_or("not measured".into(), |us| format!("{us:.2}"));
    let share = |value: Option<f64>| value.map_or("-".into(), |s| format!("{:.0} %", s * 100.0));
    let (canned, node) = (&rounds[0], &rounds[1]);
    let mut more: Vec<f64> =
        node.iter().zip(canned).map(|(node, canned)| node.server_us - canned.server_us).collect();
    more.sort_by(f64::total_cmp);
    let quartile = |quarter| more[(more.len() - 1) * quarter / 4];
    let [canned_us, node_us, redis_us] = [0, 1, 2].map(|which| text(of(which, |s| s.server_us)));
    let wall = [0, 1, 2].map(|which| text(of(which, |s| s.wall_us)));
    let mut waited = [0, 1, 2].map(|which| share(of(which, |s| s.server_waited))).to_vec();
    waited.push(share(of(1, |s| s.client_waited)));
    println!(
        "| {} | {canned_us} | {node_us} | **{:.2}** ({:.2} to {:.2}) | {:.1} | {redis_us} | {} | {} |",
        load.name,
        quartile(2),
        quartile(1),
        quartile(3),
        load.us_max,
        wall.join(", "),
        waited.join(", ")
    );
}

fn callers(to: std::net::SocketAddr, load: Load) -> Result<Vec<Caller>, String> {
    (0..load.connections).map(|_| Caller::connect(to)).collect()
}

fn requests(load: Load) -> Vec<Vec<u8>> {
    if load.asks == 1 {
        let body =
            |id| format!("{{\"budget\":{},\"amount\":\"0.000015\",\"unit\":\"USD\"}}", 1_001 + id);
        return (0..BUDGETS).map(|id| post("/v1/reserve", &body(id))).collect();
    }
    let entry = |id: usize| {
        let id = 1_001 + id % BUDGETS;
        format!("{{\"call\":\"reserve\",\"budget\":{id},\"amount\":\"0.000015\"}}")
    };
    let batch = |at: usize| (0..BATCH).map(|place| entry(at * BATCH + place)).collect::<Vec<_>>();
    (0..BUDGETS / BATCH)
        .map(|at| post("/v1/batch", &format!("[{}]", batch(at).join(","))))
        .collect()
}

/// Asks of every budget, so that the bank has filled all purses; the body of the last answer.
fn warm(side: &mut Side<'_>, requests: usize, load: Load) -> Result<Vec<u8>, String> {
    let (mut answer, mut refused) = (Vec::new(), 0);
    for _ in 0..requests {
        let request = (side.request)();
        answer = side.callers[0].ask(&request)?;
        refused += refusals(&answer, load.asks);
    }
    if refused > 0 { Err(format!("{refused} first asks were refused")) } else { Ok(answer) }
}

/// A settlement from the call to the answer, beside appends of a sealed group's size that nobody else shares.
fn settles(
    size: Size,
    node: &Node,
    folder: &Path,
    redis: &RefCell<Option<Counters>>,
) -> Result<(), String> {
    let (mut caller, mut redis) = (Caller::connect(node.spend)?, redis.borrow_mut());
    let count = size.pick(100, 3);
    let caller = RefCell::new(&mut caller);
    let caller = &caller;
    let mut cases: Vec<Case<'_, f64>> = vec![
        Box::new(|| p50_of_settles(&mut caller.borrow_mut(), count, PAUSE)),
        Box::new(|| p50_of_appends(folder, count, false)),
        Box::new(|| p50_of_appends(folder, count, true)),
        Box::new(|| p50_of_settles(&mut caller.borrow_mut(), count, Duration::ZERO)),
    ];
    let has_redis = redis.is_some();
    if let Some(counters) = redis.as_mut() {
        let mut caller = counters.connect()?;
        cases.push(Box::new(move || counters.p50_of_settles(&mut caller, count, PAUSE)));
    }
    let rounds = interleave(size.pick(11, 1), &mut cases)?;
    println!("\n### a durable settlement, one at a time, with a pause before each, p50\n");
    println!("| | us | settle takes more | at most |\n| --- | ---: | ---: | ---: |");
    println!(
        "| settle, from the call to its sealed answer | {:.0} | | |",
        median(rounds[0].clone())
    );
    let names =
        ["append of 4,096 bytes and fdatasync", "the same in a file that has the room already"];
    for (name, appends) in names.iter().zip(&rounds[1..3]) {
        let more = rounds[0].iter().zip(appends).map(|(settle, append)| settle - append).collect();
        let (us, more) = (median(appends.clone()), median(more));
        println!("| {name} | {us:.0} | {more:.0} | {SETTLE_US_MAX:.0} |");
    }
    drop(cases);
    if has_redis {
        let us = median(rounds[4].clone());
        println!(
            "| the same settlement at Redis, a script and `appendfsync always` | {us:.0} | | |"
        );
    }
    let us = median(rounds[3].clone());
    println!(
        "| settle right after the one before: two writes begin `journal.gather_us` apart | {us:.0} | | |"
    );
    Ok(())
}

/// Reserves and settles, one after the other; the middle time of a settlement, us.
fn p50_of_settles(caller: &mut Caller, count: usize, pause: Duration) -> Result<f64, String> {
    let reserve = post("/v1/reserve", "{\"budget\":1001,\"amount\":\"0.000015\"}");
    let mut times_us = Vec::with_capacity(count);
    for _ in 0..count {
        std::thread::sleep(pause);
        let granted = caller.ask(&reserve)?;
        let granted = String::from_utf8_lossy(&granted);
        let token = granted.split('"').nth(7).ok_or("a grant without a token")?;
        let body = format!("{{\"token\":\"{token}\",\"amount\":\"0.00001\"}}");
        let (settle, began) = (post("/v1/settle", &body), Instant::now());
        caller.ask(&settle)?;
        times_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times_us))
}

/// The middle time of an append that is on disk, us; `has_room`: the file is as large before.
fn p50_of_appends(folder: &Path, count: usize, has_room: bool) -> Result<f64, String> {
    let appends = || -> std::io::Result<Vec<f64>> {
        let mut file = std::fs::File::create(folder.join("bare"))?;
        if has_room {
            file.write_all(&vec![0; count * GROUP_BYTES])?;
            file.sync_all()?;
            file.seek(SeekFrom::Start(0))?;
        }
        let group = vec![0xA5; GROUP_BYTES];
        let mut times_us = Vec::with_capacity(count);
        for _ in 0..count {
            std::thread::sleep(PAUSE);
            let began = Instant::now();
            file.write_all(&group)?;
            file.sync_data()?;
            times_us.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(times_us)
    };
    appends().map(median).map_err(|e| e.to_string())
}
