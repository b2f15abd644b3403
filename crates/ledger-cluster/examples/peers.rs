//! The log over three real nats-servers, which are stopped, killed and put back: `proof/cluster/run`.
//!
//! usage: peers NATS-SERVER FOLDER. Exit code 1: something does not hold.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool that prints and may fail")]

use std::fs;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ledger::Record;
use ledger_cluster::{
    CaughtUp, ClusterLog, ClusterName, Engine, EntryKey, JetStream, LogFault, NodeLog, Packed,
    Reply, Servers,
};
use ledger_journal::{Disk, Durability, Gather, Group, Log, NotAppended, Position, Tail, Writer};

const PATIENCE: Duration = Duration::from_secs(60);

/// Three servers.
struct Cluster {
    binary: PathBuf,
    folder: PathBuf,
    ports: Vec<u16>,
    running: [Option<Child>; 3],
}

impl Cluster {
    fn new(binary: PathBuf, folder: PathBuf) -> Cluster {
        // Below the ports that the system gives to connections, of which the servers have many.
        let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let ports = (first..).filter(is_free).take(9).collect();
        let mut cluster = Cluster { binary, folder, ports, running: [None, None, None] };
        (0..3).for_each(|at| cluster.start(at, "always"));
        cluster
    }

    fn start(&mut self, at: usize, sync: &str) {
        let routes = self.ports[6..].iter().map(|port| format!("nats://127.0.0.1:{port}"));
        let config = format!(
            "server_name: n{at}\nlisten: 127.0.0.1:{}\nhttp: 127.0.0.1:{}\njetstream {{ store_dir: \"{}\", sync_interval: {sync} }}\n\
             cluster {{ name: weir, listen: 127.0.0.1:{}, routes: [{}] }}\n",
            self.ports[at],
            self.ports[3 + at],
            self.folder.join(format!("store{at}")).display(),
            self.ports[6 + at],
            routes.collect::<Vec<_>>().join(", "),
        );
        let (file, log) =
            (self.folder.join(format!("n{at}.conf")), self.folder.join(format!("n{at}.log")));
        fs::write(&file, config).unwrap();
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        let started = Command::new(&self.binary)
            .arg("-c")
            .arg(file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.running[at] = Some(started.unwrap());
    }

    fn signal(&self, at: usize, signal: &str) {
        let child = self.running[at].as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &child]).status().unwrap().success());
    }

    fn kill(&mut self, at: usize) {
        let mut child = self.running[at].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn servers(&self) -> Servers {
        let address = |scheme: &str, ports: &[u16]| {
            ports.iter().map(|port| format!("{scheme}://127.0.0.1:{port}")).collect()
        };
        Servers {
            addresses: address("nats", &self.ports[..3]),
            monitors: address("http", &self.ports[3..6]),
            credentials: None,
            ca: None,
            answer: Duration::from_millis(400),
        }
    }

    fn engine(&self, name: &ClusterName) -> JetStream {
        until("a connection", || JetStream::connect(name, self.servers()).ok())
    }

    fn open(&self, name: &str, secret: u8) -> ClusterLog {
        let name: ClusterName = name.parse().unwrap();
        let secret = vault::SecretKey::from_bytes(&[secret; 32]);
        let key = EntryKey::new(&name, &secret).unwrap();
        ClusterLog::new(self.engine(&name), name, 1, key, &self.servers().shown())
    }

    /// Which server leads the stream.
    fn leader(&self, name: &str) -> usize {
        let mut engine = self.engine(&name.parse().unwrap());
        until("a leader", || {
            let Reply::Answer(info) = engine.info() else { return None };
            let info: serde_json::Value = serde_json::from_slice(&info).ok()?;
            info["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok()
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.iter_mut().flatten().for_each(|child| drop(child.kill()));
        self.running.iter_mut().flatten().for_each(|child| drop(child.wait()));
    }
}

fn until<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Groups of a bank, which are appended as the journal does.
struct Work {
    gather: Gather,
    groups: Vec<Group>,
    /// Appends that nobody knew the outcome of.
    unknown: u32,
}

impl Work {
    fn new() -> Work {
        Work { gather: Gather::new(Position::START), groups: Vec::new(), unknown: 0 }
    }

    fn next(&mut self, bytes: usize) {
        let mut grant = self.gather.next_sequence();
        while self.gather.is_empty() || self.gather.bytes() < bytes {
            grant = self.gather.append(&Record::GrantClosed { grant }, 1_000);
        }
        self.groups.push(self.gather.take().unwrap());
    }

    /// Appends one group until it is certain. Returns how long that took.
    fn append(&mut self, log: &mut ClusterLog, bytes: usize) -> Duration {
        self.next(bytes);
        let (start, group) = (Instant::now(), self.groups.last().unwrap());
        until("an append", || match log.append(group) {
            Ok(()) => Some(()),
            Err(NotAppended::Unknown(_)) => {
                self.unknown += 1;
                None
            }
            Err(error) => panic!("{error}"),
        });
        start.elapsed()
    }

    fn append_for(&mut self, log: &mut ClusterLog, time: Duration) -> Duration {
        let (start, mut longest) = (Instant::now(), Duration::ZERO);
        while start.elapsed() < time {
            longest = longest.max(self.append(log, 4 << 10));
        }
        longest
    }

    /// All of it is in the log, once and in order.
    fn audit(&self, cluster: &Cluster, name: &str) {
        let (mut log, mut read) = (cluster.open(name, 1), Vec::new());
        until("the log's end", || {
            let done = log.read_on(&mut |_, group| {
                read.push(group.entry().to_vec());
                ControlFlow::Continue(())
            });
            (done.is_ok() && read.len() >= self.groups.len()).then_some(())
        });
        assert!(read.iter().eq(self.groups.iter().map(|group| group.entry())));
    }
}

fn row(what: &str, text: &str) {
    println!("{what:32} {text}");
}

/// Waits until a log is refused for a reason.
fn refused(log: &mut ClusterLog, reason: &str) {
    until(reason, || log.attest().err().filter(|text| text.contains(reason)));
}

fn attested(log: &mut ClusterLog) {
    until("an attested log", || (log.attest() == Ok(Durability::Sealed)).then_some(()));
}

fn settings_are_judged(cluster: &mut Cluster) {
    let mut log = cluster.open("a", 1);
    refused(&mut log, "there is no such stream");
    until("a stream", || log.create(0).ok());
    attested(&mut log);
    until("the same settings again", || log.create(0).ok());
    let settings = r#"{"name":"WEIR_r1","subjects":["weir.r1.log"],"num_replicas":1,
        "storage":"memory","retention":"limits","discard":"old","metadata":{"weir_node_id":"1"}}"#;
    let reply = cluster.engine(&"r1".parse().unwrap()).create(settings);
    assert!(matches!(reply, Reply::Answer(_)), "{reply:?}");
    let mut bare = cluster.open("r1", 1);
    for reason in ["num_replicas is 1", "storage is \"memory\"", "discard is \"old\""] {
        refused(&mut bare, reason);
    }
    cluster.kill(2);
    until("a server that is gone", || {
        log.attest_all().err().filter(|text| text.contains("log_monitors) does not answer"))
    });
    attested(&mut log);
    cluster.start(2, "2m");
    refused(&mut log, "the server n2 (");
    refused(&mut log, "set `sync_interval: always`");
    cluster.kill(2);
    cluster.start(2, "always");
    attested(&mut log);
    row("settings", "one copy, in memory; a server away, one that does not sync: refused by name");
}

fn groups_of_all_sizes(cluster: &Cluster, log: &mut ClusterLog, work: &mut Work) {
    let mut took: Vec<_> =
        (0..400).map(|at| work.append(log, [100, 4 << 10, 64 << 10, 255 << 10][at % 4])).collect();
    took.sort();
    work.audit(cluster, "a");
    for at in [0, 1, 200, 399] {
        let seen = cluster.open("a", 1).seek(work.groups[at].after()).unwrap();
        assert_eq!(seen.entry, at as u64 + 1);
    }
    let error = cluster.open("a", 2).read_on(&mut |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().contains("another secret"), "{error}");
    row(
        "400 groups, 100 B to 255 KiB",
        &format!("p50 {:.1?}, p99 {:.1?}; read back byte for byte", took[200], took[395]),
    );
}

fn the_second_bank_wins(cluster: &Cluster, log: &mut ClusterLog, work: &mut Work) {
    let mut second = cluster.open("a", 1);
    second.seek(log.position()).unwrap();
    work.append(&mut second, 100);
    let mut lost = Work::new();
    lost.gather = Gather::new(*log.position());
    lost.next(5_000);
    for _ in 0..2 {
        assert!(matches!(log.append(&lost.groups[0]), Err(NotAppended::Fenced)));
    }
    *log = second;
    row("two banks", "the first one is fenced, and nothing of it is stored");
}

fn leaders_end(cluster: &mut Cluster, log: &mut ClusterLog, work: &mut Work) {
    for (what, signal) in [("leader killed", ""), ("leader stopped", "-STOP")] {
        let (leader, before) = (cluster.leader("a"), work.groups.len());
        work.append_for(log, Duration::from_secs(1));
        if signal.is_empty() {
            cluster.kill(leader)
        } else {
            cluster.signal(leader, signal)
        }
        let gap = work.append_for(log, Duration::from_secs(3));
        if signal.is_empty() {
            cluster.start(leader, "always")
        } else {
            cluster.signal(leader, "-CONT")
        }
        work.append_for(log, Duration::from_secs(2));
        work.audit(cluster, "a");
        row(
            what,
            &format!("gap {gap:.1?}; {} appends, each once, in order", work.groups.len() - before),
        );
    }
}

/// A node with a folder whose journal ends at a position.
fn begin(cluster: &Cluster, position: &Position) -> (NodeLog<Disk>, CaughtUp) {
    let disk = Disk::open(&cluster.folder.join("journal"), Durability::Sealed).unwrap();
    until("a start", || {
        let next_segment =
            ledger_journal::segments(&disk).unwrap().last().map_or(1, |last| last + 1);
        let tail = Tail { position: *position, next_segment };
        let writer = Writer::new(disk.clone(), 1, 1 << 26, tail);
        let mut node = NodeLog::new(cluster.open("a", 1), writer);
        let caught_up = node.catch_up(&disk, &mut |_| Ok(())).ok()?;
        Some((node, caught_up))
    })
}

fn all_end_and_forget(cluster: &mut Cluster, log: &mut ClusterLog, work: &mut Work) {
    (0..3).for_each(|at| cluster.kill(at));
    let copies = [0, 1, 2].map(|at| {
        (cluster.folder.join(format!("store{at}")), cluster.folder.join(format!("copy{at}")))
    });
    copies.iter().for_each(|(store, copy)| copy_folder(store, copy));
    work.next(100);
    let group = work.groups.last().unwrap();
    assert!(matches!(log.append(group), Err(NotAppended::Unknown(_))));
    (0..3).for_each(|at| cluster.start(at, "always"));
    until("the engine", || log.append(group).ok());
    work.audit(cluster, "a");
    row("all servers killed", "nothing lost, and the group that waited is there once");
    work.append_for(log, Duration::from_secs(1));
    let (node, caught_up) = begin(cluster, &Position::START);
    assert_eq!(caught_up, CaughtUp { read: work.groups.len() as u64, appended: 0 });
    assert_eq!(node.position(), log.position());
    row("an empty folder", &format!("begins from the log: {} groups", caught_up.read));
    drop(node);
    (0..3).for_each(|at| cluster.kill(at));
    for (store, copy) in &copies {
        fs::remove_dir_all(store).unwrap();
        fs::rename(copy, store).unwrap();
    }
    (0..3).for_each(|at| cluster.start(at, "always"));
    let known = *log.position();
    work.next(100);
    let last = until("the engine", || match log.append(work.groups.last().unwrap()) {
        Err(NotAppended::Forgot { last }) => Some(last),
        Err(NotAppended::Unknown(_)) => None,
        other => panic!("{other:?}"),
    });
    let mut fresh = cluster.open("a", 1);
    let fault = until("the engine", || match fresh.seek(&known).map_err(|error| error.fault) {
        Err(LogFault::Away(_)) => None,
        other => Some(other.unwrap_err()),
    });
    assert_eq!(fault, LogFault::Behind { last, known: known.sequence - 1 });
    let (mut node, caught_up) = begin(cluster, &known);
    let is_known = |group: &&Group| group.before().sequence <= last;
    let known = work.groups.iter().filter(is_known).count();
    let missing = work.groups.len() - 1 - known;
    assert_eq!(caught_up, CaughtUp { read: 0, appended: missing as u64 });
    until("an append", || node.append(work.groups.last().unwrap()).ok());
    work.audit(cluster, "a");
    row(
        "stores put back to a copy",
        &format!("forgot {missing} groups: told, and appended again from a node's disk"),
    );
}

fn a_log_is_trimmed(cluster: &Cluster) {
    let (log, work) = (&mut cluster.open("t", 1), &mut Work::new());
    until("a stream", || log.create(0).ok());
    attested(log);
    let (bytes, folder) = (vec![7_u8; 3 << 20], cluster.folder.join("base"));
    let (mut at, mut trimmed, began) = (Position::START, Vec::new(), Instant::now());
    for _ in 0..3 {
        work.append(log, 4_000);
        at = log.place().position;
        work.append(log, 4_000);
        let put = || -> Result<u64, _> {
            let file: Packed<'_> = ("x".into(), bytes.len() as u64, Box::new(&bytes[..]));
            cluster.open("t", 1).put_base((&at, 1), 1, vec![file], &|| false)
        };
        trimmed.push(until("a base copy", || put().map_err(|error| println!("{error}")).ok()));
    }
    assert!(trimmed[0] == 0 && trimmed[1] > 0 && trimmed[2] == trimmed[1] + 2, "{trimmed:?}");
    let mut other = cluster.open("t", 1);
    assert_eq!(other.all_kept("copy").unwrap().len(), 2);
    let cut = other.read_on(&mut |_, _| ControlFlow::Continue(())).unwrap_err().fault;
    assert!(matches!(cut, LogFault::Trimmed { .. }), "{cut}");
    assert_eq!(other.unpack_base(&folder).unwrap().position(), at);
    assert_eq!(fs::read(folder.join("x")).unwrap(), bytes);
    other.seek(&at).unwrap();
    work.append(log, 4_000);
    let mut read = 0;
    let count = &mut |_, _: &Group| {
        read += 1;
        ControlFlow::Continue(())
    };
    other.read_on(count).unwrap();
    assert_eq!(read, 2);
    row("three base copies of 3 MiB", &format!("{:.2} s", began.elapsed().as_secs_f64()));
}

fn copy_folder(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(binary), Some(folder)) = (arguments.next(), arguments.next()) else {
        println!("usage: peers NATS-SERVER FOLDER");
        std::process::exit(2);
    };
    fs::create_dir_all(&folder).unwrap();
    let mut cluster = Cluster::new(binary, folder);
    let mut work = Work::new();
    settings_are_judged(&mut cluster);
    let mut log = cluster.open("a", 1);
    groups_of_all_sizes(&cluster, &mut log, &mut work);
    the_second_bank_wins(&cluster, &mut log, &mut work);
    leaders_end(&mut cluster, &mut log, &mut work);
    all_end_and_forget(&mut cluster, &mut log, &mut work);
    a_log_is_trimmed(&cluster);
    row("appends in doubt", &work.unknown.to_string());
}
