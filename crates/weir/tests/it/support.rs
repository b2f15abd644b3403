//! The real binary as a child process, and a blocking client of its batch door.
//!
//! Every wait is bounded by [`PATIENCE`]; a node is killed when its value is dropped; every node has free ports and
//! folders of its own, so that tests run side by side.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use weir_config::config::Config;
use weir_config::doors::all_doors;

/// Nothing here takes longer on a healthy machine, however busy it is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Both event loops.
pub(crate) const TRANSPORTS: [&str; 2] = ["epoll", "io_uring"];

/// Workers of a node, unless a test says otherwise.
const WORKERS: usize = 1;

/// The program under test.
pub(crate) fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// The first `count` of the cores that this process may use, as `workers.cores` wants them; fewer where there are fewer.
pub(crate) fn cores(count: usize) -> String {
    let allowed = door_transport::cores::allowed().unwrap();
    allowed.iter().take(count).map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Runs a command that ends by itself.
pub(crate) fn output(command: &mut Command) -> Output {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait_exit(&mut child);
    Output { status, stdout: out.recv().unwrap(), stderr: err.recv().unwrap() }
}

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = pipe.unwrap().read_to_end(&mut all);
        let _ = send.send(all);
    });
    receive
}

/// Standard output of a command, as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error of a command, as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn wait_exit(child: &mut Child) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("the process does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for something that other threads or processes bring about.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "still waiting for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same for something that tells what it found.
pub(crate) fn wait_value<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_for(what, || {
        found = look();
        found.is_some()
    });
    found.unwrap()
}

/// How a node is to be started.
#[derive(Clone)]
pub(crate) struct Setup {
    folder: Arc<TempDir>,
    transport: &'static str,
    environment: Vec<(String, String)>,
    /// What the shell does before it becomes the node.
    prelude: Option<String>,
    /// What the flags of some doors say instead of a free port; `None`: they have no flag.
    doors: Vec<(&'static str, Option<&'static str>)>,
}

impl Setup {
    /// A node with these lines in its budgets file.
    pub(crate) fn new(budgets: &str) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("budgets.jsonl"), budgets).unwrap();
        // Tests share the cores: pinned workers of many nodes would all sit on the same one.
        let folder = Arc::new(folder);
        Setup {
            folder,
            transport: "auto",
            environment: Vec::new(),
            prelude: None,
            doors: Vec::new(),
        }
        .with("workers.pin", "false")
        // Connections, purses, limits and probes are each worker's own, and which one a connection meets is chance: one
        // worker, however many cores the machine has.
        .with("workers.cores", &cores(WORKERS))
        // Small files: many nodes start at once.
        .with("journal.segment_bytes", "4194304")
        .with("budgets.check_ms", "20")
    }

    /// Sets a key of the configuration.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Setup {
        let name = format!("WEIR_{}", key.replace('.', "__").to_uppercase());
        self.environment.push((name, value.into()));
        self
    }

    /// Says by its flag where a door listens.
    pub(crate) fn with_door(mut self, name: &'static str, listen: &'static str) -> Setup {
        self.doors.push((name, Some(listen)));
        self
    }

    /// Leaves a door where it is by default.
    pub(crate) fn with_default_door(mut self, name: &'static str) -> Setup {
        self.doors.push((name, None));
        self
    }

    pub(crate) fn over(self, transport: &'static str) -> Setup {
        Setup { transport, ..self }
    }

    /// As many descriptors as the system lets a process have.
    pub(crate) fn with_all_descriptors(self) -> Setup {
        self.with_descriptors("$(ulimit -H -n)")
    }

    /// So many descriptors: a number, or words of the shell for one.
    pub(crate) fn with_descriptors(self, count: &'static str) -> Setup {
        self.after(&format!("ulimit -n {count}"))
    }

    /// A node whose shell does this first.
    pub(crate) fn after(self, prelude: &str) -> Setup {
        Setup { prelude: Some(prelude.into()), ..self }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn budgets_file(&self) -> PathBuf {
        self.folder.path().join("budgets.jsonl")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The command line; not started yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = if let Some(prelude) = &self.prelude {
            let mut shell = Command::new("sh");
            let script = format!("{prelude}; exec \"$0\" \"$@\"");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_weir")]);
            shell
        } else {
            weir()
        };
        command.arg("run").arg("--budgets").arg(self.budgets_file());
        command.arg("--data").arg(self.data());
        for door in all_doors().map(|door| door.name) {
            let told = self.doors.iter().find(|(name, _)| *name == door);
            if let Some(listen) = told.map_or(Some("127.0.0.1:0"), |(_, listen)| *listen) {
                command.arg(format!("--{door}")).arg(listen);
            }
        }
        // Where a test has written one.
        let config = self.folder.path().join("weir.toml");
        if config.exists() {
            command.arg("--config").arg(config);
        }
        command.args(["--transport", self.transport]);
        command.envs(self.environment.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(self) -> Node {
        let transport = self.transport;
        self.try_start().unwrap_or_else(|log| panic!("no node over {transport}:\n{log}"))
    }

    /// The same; where it does not start, what it said.
    pub(crate) fn try_start(self) -> Result<Node, String> {
        let piped = &mut self.command();
        let mut child = piped.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let errors = follow(child.stderr.take().unwrap(), {
            let log = Arc::clone(&log);
            move |line| {
                let mut log = log.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let (send, lines) = channel();
        follow(child.stdout.take().unwrap(), move |line| {
            let _ = send.send(line);
        });
        let mut said = Vec::new();
        while said.last().is_none_or(|line| line != "ready") {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => said.push(line),
                Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let _ = errors.join();
                    let log = log.lock().unwrap().clone();
                    return Err(log);
                }
            }
        }
        let address = |prefix: &str| -> SocketAddr {
            let line = said.iter().find_map(|line| line.strip_prefix(prefix));
            line.unwrap_or_else(|| panic!("no {prefix}: {said:?}")).parse().unwrap()
        };
        let batch = address("batch ");
        let admin = said.iter().find_map(|line| line.strip_prefix("admin http")).unwrap();
        let admin = admin.trim_start_matches('s').trim_start_matches("://");
        let admin = admin.trim_end_matches('/').parse().unwrap();
        Ok(Node { child, batch, admin, said, log, setup: self })
    }
}

/// Hands each line of a pipe on, until it ends.
fn follow(
    pipe: impl Read + Send + 'static,
    mut take: impl FnMut(String) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        BufReader::new(pipe).lines().map_while(Result::ok).for_each(&mut take)
    })
}

/// A running node.
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) batch: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The lines on its standard output up to `ready`.
    pub(crate) said: Vec<String>,
    log: Arc<Mutex<String>>,
    setup: Setup,
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let books = std::panic::catch_unwind(|| http_get(self.admin, "/books?max=5").1);
            eprintln!("books: {books:?}\nlog of the node:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// A connection that has said Hello.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.stranger();
        client.hello();
        client
    }

    /// A connection that has said nothing.
    pub(crate) fn stranger(&self) -> Client {
        Client::connect(self.batch)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.setup.data()
    }

    pub(crate) fn budgets_file(&self) -> PathBuf {
        self.setup.budgets_file()
    }

    /// Replaces the budgets file at once, as a good editor does.
    pub(crate) fn replace_budgets(&self, text: &str) {
        let new = self.budgets_file().with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.budgets_file()).unwrap();
    }

    /// Replaces the budgets file and waits until it is in force.
    pub(crate) fn reload(&self, text: &str) {
        let loads = |stat: &Value| stat["budgets_file"]["loads"].as_u64().unwrap();
        let before = loads(&self.stat());
        self.replace_budgets(text);
        self.wait_stat("the new budgets", |stat| loads(stat) > before);
    }

    /// `GET path` of the admin door: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        http_get(self.admin, path)
    }

    /// `/stat`.
    pub(crate) fn stat(&self) -> Value {
        let (status, body) = self.get("/stat");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The door's part of `/stat`.
    pub(crate) fn door(&self) -> Value {
        self.stat()["doors"]["batch"].clone()
    }

    /// The books of one budget, in micros: what is asked for by name.
    pub(crate) fn budget(&self, id: u64) -> Books {
        let (status, body) = self.get(&format!("/stat?budget={id}"));
        assert_eq!(status, 200, "{body}");
        let stat: Value = serde_json::from_str(&body).unwrap();
        let line = |name: &str| stat[name].as_i64().unwrap_or_else(|| panic!("{name} in {stat}"));
        let books = Books {
            limit: line("limit"),
            free: line("free"),
            purses: line("purses"),
            held: line("held"),
            settled: line("settled"),
            over_settled: line("over_settled"),
            late: line("late"),
        };
        books.check();
        books
    }

    /// Waits until `/stat` says what is wanted; the counters follow their events by some milliseconds.
    pub(crate) fn wait_stat(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let stat = self.stat();
            if holds(&stat) {
                return stat;
            }
            assert!(Instant::now() < end, "still waiting for {what}: {stat:#}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until at least so many frames were refused for a reason: a client of an ended test may meet the port, too.
    pub(crate) fn wait_refused(&self, reason: &str, count: u64) {
        self.wait_stat(&format!("{count} frames refused as {reason}"), |stat| {
            stat["doors"]["batch"]["refused_frames"][reason].as_u64() >= Some(count)
        });
    }

    /// Waits until at least so many connections were closed for a reason.
    pub(crate) fn wait_closed(&self, reason: &str, count: u64) {
        self.wait_stat(&format!("{count} closed as {reason}"), |stat| {
            stat["doors"]["batch"]["closed"][reason].as_u64() >= Some(count)
        });
    }

    /// Waits until the books of a budget are as wanted; conservation is checked at every look.
    pub(crate) fn wait_budget(&self, id: u64, what: &str, holds: impl Fn(&Books) -> bool) -> Books {
        let end = Instant::now() + PATIENCE;
        loop {
            let books = self.budget(id);
            if holds(&books) {
                return books;
            }
            assert!(Instant::now() < end, "still waiting for {what}: {books:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Memory in use, bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Kills it at once, and starts it again on the same folder.
    pub(crate) fn restart(self) -> Node {
        self.restart_as(|setup| setup)
    }

    /// The same with other settings.
    pub(crate) fn restart_as(self, change: impl FnOnce(Setup) -> Setup) -> Node {
        let setup = change(self.setup.clone());
        drop(self);
        setup.start()
    }

    /// Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// What a service manager sends to stop it.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal, by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// How it ended.
    pub(crate) fn wait_end(&mut self) -> ExitStatus {
        wait_exit(&mut self.child)
    }
}

/// The lines of one budget's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) limit: i64,
    pub(crate) free: i64,
    pub(crate) purses: i64,
    pub(crate) held: i64,
    pub(crate) settled: i64,
    pub(crate) over_settled: i64,
    pub(crate) late: i64,
}

impl Books {
    /// Every micro is on exactly one line.
    pub(crate) fn check(&self) {
        let sum = self.free + self.purses + self.held;
        let spent = self.settled + self.over_settled + self.late;
        assert_eq!(sum + spent, self.limit, "{self:?}");
    }

    /// The amount that can be reserved now or after a filling.
    pub(crate) fn unspent(&self) -> i64 {
        self.free + self.purses
    }
}

pub(crate) fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// A budget line with an id and a limit; `more` is further fields, as `,"daily":"1"`.
pub(crate) fn line(id: u64, limit: &str, more: &str) -> String {
    format!("{{\"id\":{id},\"limit\":\"{limit}\"{more}}}\n")
}

/// Runs a case over each event loop; skips, with the reason, what the kernel refuses.
pub(crate) fn over_transports(setup: impl Fn() -> Setup, case: impl Fn(&mut Node)) {
    for transport in TRANSPORTS {
        match setup().over(transport).try_start() {
            Ok(mut node) => {
                println!("over {transport}");
                case(&mut node);
                assert!(node.child.try_wait().unwrap().is_none(), "the node lives on");
            }
            Err(log) if transport == "io_uring" && log.contains("transport:") => {
                println!("skipped: io_uring is refused here: {log}");
            }
            Err(log) => panic!("no node over {transport}:\n{log}"),
        }
    }
}

pub(crate) use crate::client::Client;

/// A path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The flags that place each door of a node at a free port.
pub(crate) fn doors_at_any_port() -> impl Iterator<Item = String> {
    all_doors().flat_map(|door| [format!("--{}", door.name), "127.0.0.1:0".to_owned()])
}

/// Places each door of a node in this process at a free port.
pub(crate) fn at_any_port(config: &mut Config) {
    for door in all_doors() {
        (door.set_listen)(config, SocketAddr::from(([127, 0, 0, 1], 0)).into());
    }
}
