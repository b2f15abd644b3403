//! One store, one budget, two kills.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::provider::{self, Tally};

/// The budget: one dollar, in nanos.
pub(crate) const BUDGET: u64 = 1_000_000_000;
/// How long the store is away.
const AWAY: Duration = Duration::from_millis(300);
/// No scene takes longer.
const PATIENCE: Duration = Duration::from_secs(180);

/// How a budget is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A counter in Redis as it comes, estimate reserved, calls pass where it does not answer.
    ReserveOpen,
    /// The same with a log that is sealed at each command.
    ReserveOpenSealed,
    /// The same, and calls are refused where it does not answer.
    ReserveClosedSealed,
    /// Checked before and added to after.
    Check,
    /// The same with a log that is sealed at each command.
    CheckSealed,
    /// Holds of a Weir node.
    Weir,
}

impl Way {
    pub(crate) const ALL: [Way; 6] = [
        Way::ReserveOpen,
        Way::ReserveOpenSealed,
        Way::ReserveClosedSealed,
        Way::Check,
        Way::CheckSealed,
        Way::Weir,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::ReserveOpen => "reserve-open",
            Way::ReserveOpenSealed => "reserve-open-sealed",
            Way::ReserveClosedSealed => "reserve-closed-sealed",
            Way::Check => "check",
            Way::CheckSealed => "check-sealed",
            Way::Weir => "weir",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Way::ReserveOpen => {
                "Redis as it comes: estimate reserved with `INCRBYFLOAT`, reconciled; passes without a store"
            }
            Way::ReserveOpenSealed => "the same, `appendfsync always`",
            Way::ReserveClosedSealed => "the same, `appendfsync always`, refuses without a store",
            Way::Check => "Redis as it comes: checked, then added",
            Way::CheckSealed => "the same, `appendfsync always`",
            Way::Weir => "Weir: reserve with confirm, settle, each with a key",
        }
    }

    fn caller(self) -> &'static str {
        match self {
            Way::ReserveOpen | Way::ReserveOpenSealed => "reserve-open",
            Way::ReserveClosedSealed => "reserve-closed",
            Way::Check | Way::CheckSealed => "check",
            Way::Weir => "weir",
        }
    }

    fn is_sealed(self) -> bool {
        matches!(self, Way::ReserveOpenSealed | Way::ReserveClosedSealed | Way::CheckSealed)
    }
}

/// What a scene came to.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What the provider charged, nanos.
    pub(crate) charged: u64,
    /// For so many calls.
    pub(crate) calls: u64,
}

/// A process that ends with its owner.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        // SIGKILL, and the child is gone when this returns.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One store and its budget.
pub(crate) struct Scene {
    way: Way,
    weir: String,
    seed: u64,
    folder: TempDir,
    port: u16,
}

impl Scene {
    /// # Errors
    /// No folder, or no port.
    pub(crate) fn new(way: Way, weir: &str, seed: u64) -> Result<Scene, String> {
        let text = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(text)?;
        let free =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(text)?;
        Ok(Scene { way, weir: weir.to_owned(), seed, folder, port: free.port() })
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn start_store(&self) -> Result<Process, String> {
        let mut command = match self.way {
            Way::Weir => self.weir(),
            _ => self.redis(),
        }?;
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let store = Process(child.map_err(|error| format!("{command:?}: {error}"))?);
        self.wait(store)
    }

    /// Until it takes connections.
    fn wait(&self, mut store: Process) -> Result<Process, String> {
        if self.way == Way::Weir {
            let stdout = store.0.stdout.take().ok_or("no output")?;
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.find(|line| line == "ready").ok_or("the node did not start")?;
            // Nobody reads on: it says no more.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(store);
        }
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address()).is_err() {
            if Instant::now() > until {
                return Err("the store does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(store)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other one")]
    fn redis(&self) -> Result<Command, String> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"]);
        command.arg(self.folder.path()).stdout(Stdio::null());
        if self.way.is_sealed() {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        Ok(command)
    }

    fn weir(&self) -> Result<Command, String> {
        let budgets = self.folder.path().join("budgets.jsonl");
        let line = format!("{{\"id\":1,\"unit\":\"count\",\"limit\":\"{BUDGET}\"}}\n");
        std::fs::write(&budgets, line).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.weir);
        command
            .arg("run")
            .arg("--budgets")
            .arg(budgets)
            .arg("--data")
            .arg(self.folder.path().join("data"));
        command.args([
            "--batch",
            "127.0.0.1:0",
            "--openrtb",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ]);
        command.args(["--spend", &self.address().to_string()]).stdout(Stdio::piped());
        Ok(command)
    }

    fn start_caller(&self, provider: SocketAddr, life: u64) -> Result<Process, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let seed = self.seed * 10 + life;
        let mut command = Command::new(program);
        command.args(["caller", self.way.caller(), &self.address().to_string()]);
        command.args([provider.to_string(), seed.to_string()]).stdin(Stdio::null());
        command.spawn().map(Process).map_err(|error| format!("the caller: {error}"))
    }

    /// Calls until the budget refuses, with the two kills on the way.
    ///
    /// # Errors
    /// Something did not start, or it takes too long.
    pub(crate) fn play(&self) -> Result<Seen, String> {
        let tally = Arc::new(Tally::default());
        let provider = provider::start(Arc::clone(&tally))?;
        let mut store = self.start_store()?;
        let mut caller = self.start_caller(provider, 1)?;
        let until = Instant::now() + PATIENCE;
        let reached = |percent: u64| {
            while tally.charged.load(Relaxed) < BUDGET / 100 * percent {
                if Instant::now() > until {
                    return Err(format!("{}: {percent} % is not reached", self.way.name()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        reached(40)?;
        caller.kill();
        caller = self.start_caller(provider, 2)?;
        reached(70)?;
        store.kill();
        std::thread::sleep(AWAY);
        store = self.start_store()?;
        while caller.0.try_wait().map_err(|error| error.to_string())?.is_none() {
            if Instant::now() > until {
                return Err(format!("{}: the streams do not end", self.way.name()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        store.kill();
        Ok(Seen { charged: tally.charged.load(Relaxed), calls: tally.calls.load(Relaxed) })
    }
}
