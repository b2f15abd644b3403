//! Redis as ad shops use it for budgets: scripts in Lua that check and decrement, sent by hash, pipelined.
//!
//! A hash a budget, a hash with a lifetime a reservation, and a sorted set of deadlines from which a sweeper (which
//! is not measured) gives expired money back. Its append-only file is synced `always` (before an answer) or
//! `everysec` (a crash forgets the last second, although it was acknowledged).

use std::path::PathBuf;

use ::redis::{Client, Connection, Pipeline, Script, Value};

use crate::Size;
use crate::daemon::{Daemon, bound_to_us, find, folder_on_disk, free_port};
use crate::figures::{Case, Round, interleave};
use crate::settling::{
    Answer, Books, DAY, LIMIT_MICROS, Load, Pairs, Peer, Request, Settling, print_table,
};

/// How long Redis remembers a request's id, ms.
const REMEMBERED_MS: u64 = 60_000;
const DEADLINES: &str = "deadlines";
const CONNECTIONS_MAX: usize = 4;
/// Connections, and requests in each one's pipeline.
const LOADS: [(usize, usize); 5] = [(1, 1), (1, 64), (4, 16), (4, 64), (4, 256)];
/// What [`settler`] runs: at more depth an answer waits longer and hardly more come.
const BEST_LOAD: (usize, usize) = (4, 64);
const ROUNDS: usize = 5;

/// KEYS: budget, reservation, deadlines. ARGV: amount, day, deadline, lifetime. A new day starts with the whole
/// daily limit.
const RESERVE: &str = "
if redis.call('EXISTS', KEYS[2]) == 1 then return 2 end
local b = redis.call('HMGET', KEYS[1], 'left', 'day', 'day_left', 'day_limit', 'reserved')
if not b[1] then return 0 end
local amount = tonumber(ARGV[1])
local day_left = tonumber(b[2] == ARGV[2] and b[3] or b[4])
if tonumber(b[1]) < amount or day_left < amount then return 0 end
redis.call('HSET', KEYS[1], 'left', b[1] - amount, 'day', ARGV[2], 'day_left', day_left - amount,
  'reserved', b[5] + amount)
redis.call('HSET', KEYS[2], 'amount', ARGV[1], 'state', 'held')
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[3], ARGV[3], KEYS[2])
return 1";

/// KEYS as in RESERVE. ARGV: price, day.
const SETTLE: &str = "
local r = redis.call('HMGET', KEYS[2], 'amount', 'state')
if not r[1] then return 0 end
if r[2] ~= 'held' then return 2 end
local price = tonumber(ARGV[1])
if price > tonumber(r[1]) then return 0 end
local b = redis.call('HMGET', KEYS[1], 'left', 'day', 'day_left', 'reserved', 'spent')
local refund = r[1] - price
local day_refund = b[2] == ARGV[2] and refund or 0
redis.call('HSET', KEYS[1], 'left', b[1] + refund, 'day_left', b[3] + day_refund,
  'reserved', b[4] - r[1], 'spent', b[5] + price)
redis.call('HSET', KEYS[2], 'state', 'settled')
redis.call('ZREM', KEYS[3], KEYS[2])
return 1";

/// ARGV: budgets. Sums every budget.
const BOOKS: &str = "
local left, reserved, spent = 0, 0, 0
for id = 1, ARGV[1] do
  local b = redis.call('HMGET', 'budget:' .. id, 'left', 'reserved', 'spent')
  left, reserved, spent = left + b[1], reserved + b[2], spent + b[3]
end
return {left, reserved, spent}";

/// ARGV: budgets, limit, day. Funds every budget.
const FUND: &str = "
for id = 1, ARGV[1] do
  redis.call('HSET', 'budget:' .. id, 'left', ARGV[2], 'day', ARGV[3], 'day_left', ARGV[2],
    'day_limit', ARGV[2], 'reserved', 0, 'spent', 0)
end
return 1";

/// When Redis syncs its append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before it answers.
    Always,
    /// Once per second.
    Everysec,
}

impl Fsync {
    fn name(self) -> &'static str {
        match self {
            Fsync::Always => "always",
            Fsync::Everysec => "everysec",
        }
    }
}

/// Prints the table.
pub fn run(size: Size) {
    if let Err(error) = compare(size) {
        println!("\nRedis: NOT MEASURED: {error}");
    }
}

fn compare(size: Size) -> Result<(), String> {
    let mut always = Server::start(settings(size, Fsync::Always))?;
    let mut everysec = Server::start(settings(size, Fsync::Everysec))?;
    // One server is measured at a time, so the two cases of a load share the machine only with an idle one.
    let servers = std::cell::RefCell::new([&mut always, &mut everysec]);
    let mut names = Vec::new();
    let mut cases: Vec<Case<'_, Pairs>> = Vec::new();
    for (connections, depth) in LOADS {
        for (at, fsync) in [Fsync::Always, Fsync::Everysec].into_iter().enumerate() {
            names.push(name(fsync, connections, depth));
            let load = load(size, connections, depth);
            let servers = &servers;
            cases.push(Box::new(move || servers.borrow_mut()[at].round(load)));
        }
    }
    let rounds = interleave(size.pick(ROUNDS, 1), &mut cases)?;
    print_table("Redis: reserve and settle in Lua", &names, &rounds);
    Ok(())
}

fn name(fsync: Fsync, connections: usize, depth: usize) -> String {
    format!("Redis `{}`, {connections} connections, {depth} deep", fsync.name())
}

/// A case that runs one round of settlements, to be interleaved with others; its server ends with it.
pub fn settler(size: Size, fsync: Fsync) -> Result<Case<'static, Round>, String> {
    let mut server = Server::start(settings(size, fsync))?;
    let load = load(size, BEST_LOAD.0, BEST_LOAD.1);
    Ok(Box::new(move || server.round(load).map(|pairs| pairs.settles)))
}

fn load(size: Size, connections: usize, depth: usize) -> Load {
    Load {
        connections,
        depth,
        // Bounds the append-only file: about 500 bytes per pair.
        requests_max: size.pick(20_000, 20),
        reserve_ms_max: 500,
    }
}

fn settings(size: Size, fsync: Fsync) -> Settings {
    Settings { budgets: size.pick(50_000, 50), fsync, core: None }
}

/// What a Redis of our own is started with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Budgets with the ids from 1.
    pub budgets: usize,
    pub fsync: Fsync,
    /// The core of the thread that runs its commands; `None`: where the system wants.
    pub core: Option<usize>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { budgets: 50, fsync: Fsync::Always, core: None }
    }
}

/// A Redis of our own, with its connections. Fields drop in order: connections before the process.
pub struct Server {
    settling: Settling<Link>,
    scripts: [String; 2],
    daemon: Daemon,
}

impl Server {
    fn round(&mut self, load: Load) -> Result<Pairs, String> {
        self.settling.round(load)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.daemon.port
    }

    /// The hashes by which the scripts are called: to reserve, and to settle.
    pub fn scripts(&self) -> [&str; 2] {
        self.scripts.each_ref().map(String::as_str)
    }

    /// Starts one and funds its budgets.
    pub fn start(settings: Settings) -> Result<Server, String> {
        let program = find("redis-server", &[])
            .ok_or("redis-server is not installed; on Debian: apt-get install redis-server")?;
        let mut daemon = daemon(program, settings)?;
        let client = |port: u16| Client::open(format!("redis://127.0.0.1:{port}/"));
        let mut first = daemon.wait_for(|port| client(port)?.get_connection())?;
        refuse_another(&mut first, &daemon)?;
        let budgets = settings.budgets;
        let fund = Script::new(FUND);
        let funded: i64 = fund
            .arg(budgets)
            .arg(LIMIT_MICROS)
            .arg(DAY)
            .invoke(&mut first)
            .map_err(|e| e.to_string())?;
        assert_eq!(funded, 1, "the script returns 1");
        let first = Link::new(first, budgets)?;
        let scripts = [first.reserve.clone(), first.settle.clone()];
        let mut links = vec![first];
        for _ in 1..CONNECTIONS_MAX {
            let connection = client(daemon.port).and_then(|client| client.get_connection());
            links.push(Link::new(connection.map_err(|e| e.to_string())?, budgets)?);
        }
        Ok(Server { settling: Settling::new(links, budgets)?, scripts, daemon })
    }
}

fn daemon(program: PathBuf, settings: Settings) -> Result<Daemon, String> {
    let (folder, port) = (folder_on_disk()?, free_port()?);
    let mut command = bound_to_us(&program, None);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", settings.fsync.name()]);
    if let Some(core) = settings.core {
        command.args(["--server_cpulist", &core.to_string()]);
    }
    // No rewrite in the middle of a round.
    command.args(["--auto-aof-rewrite-percentage", "0"]).arg("--dir").arg(folder.path());
    Daemon::start(command, folder, port)
}

/// The port was free a moment ago; whoever answers now must be the process that we started.
fn refuse_another(connection: &mut Connection, daemon: &Daemon) -> Result<(), String> {
    let info: String =
        ::redis::cmd("INFO").arg("server").query(connection).map_err(|e| e.to_string())?;
    let ours = format!("process_id:{}", daemon.id());
    if !info.lines().any(|line| line == ours) {
        return Err(format!("another server answers on port {}", daemon.port));
    }
    Ok(())
}

/// A connection, and the hashes by which the scripts are called.
struct Link {
    connection: Connection,
    reserve: String,
    settle: String,
    budgets: usize,
}

impl Link {
    fn new(mut connection: Connection, budgets: usize) -> Result<Link, String> {
        let mut load = |script: &str| {
            let command = ::redis::cmd("SCRIPT").arg("LOAD").arg(script).to_owned();
            command.query::<String>(&mut connection).map_err(|e| e.to_string())
        };
        let (reserve, settle) = (load(RESERVE)?, load(SETTLE)?);
        Ok(Link { connection, reserve, settle, budgets })
    }

    fn send(&mut self, pipeline: &Pipeline) -> Result<Vec<Answer>, String> {
        let codes: Vec<i64> = pipeline.query(&mut self.connection).map_err(|e| e.to_string())?;
        codes.into_iter().map(Answer::from_code).collect()
    }
}

impl Peer for Link {
    fn reserve(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for request in batch {
            call(&mut pipeline, &self.reserve, request)
                .arg(request.amount_micros)
                .arg(DAY)
                .arg(request.id)
                .arg(REMEMBERED_MS);
        }
        self.send(&pipeline)
    }

    fn settle(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        for request in batch {
            call(&mut pipeline, &self.settle, request).arg(request.price_micros).arg(DAY);
        }
        self.send(&pipeline)
    }

    fn books(&mut self) -> Result<Books, String> {
        let sums: Value = Script::new(BOOKS)
            .arg(self.budgets)
            .invoke(&mut self.connection)
            .map_err(|e| e.to_string())?;
        match sums {
            Value::Array(sums) => match sums[..] {
                [Value::Int(left), Value::Int(reserved), Value::Int(spent)] => {
                    Ok(Books { left, reserved, spent })
                }
                _ => Err(format!("three sums expected, not {sums:?}")),
            },
            other => Err(format!("three sums expected, not {other:?}")),
        }
    }
}

fn call<'a>(pipeline: &'a mut Pipeline, hash: &str, request: &Request) -> &'a mut Pipeline {
    let (budget, hold) = (format!("budget:{}", request.budget), format!("hold:{}", request.id));
    pipeline.cmd("EVALSHA").arg(hash).arg(3).arg(budget).arg(hold).arg(DEADLINES)
}
