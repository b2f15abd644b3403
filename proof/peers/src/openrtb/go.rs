//! The same campaigns and requests for a bidder as a team would build it: Go's `net/http` and `encoding/json`, Redis on
//! loopback for budgets and caps. What it does not do stands in its README.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Size;
use crate::daemon::{Daemon, bound_to_us, find, folder_on_disk, free_port};

/// Where Go is installed when it is not in PATH.
const GO_FOLDERS: [&str; 1] = ["/usr/local/go/bin"];

/// The bidder on core 0, one thread of Go at a time; its Redis on core 1, without persistence. Fields drop in order.
pub(super) struct GoBidder {
    pub(super) bidder: Daemon,
    pub(super) redis: Daemon,
    pub(super) address: SocketAddr,
}

impl GoBidder {
    pub(super) fn start(size: Size, campaigns: &Path) -> Result<GoBidder, String> {
        let redis = find("redis-server", &[])
            .ok_or("redis-server is not installed; on Debian: apt-get install redis-server")?;
        let program = build(size)?;
        let redis = start_redis(&redis)?;
        let (folder, port) = (folder_on_disk()?, free_port()?);
        let log = folder.path().join("log");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = pinned(0, &program);
        command.env("GOMAXPROCS", "1").args(["-listen", &address.to_string()]);
        command.args(["-redis", &format!("127.0.0.1:{}", redis.port)]);
        command.arg("-campaigns").arg(campaigns);
        let mut bidder = Daemon::start(command, folder, port)?;
        bidder.wait_for(|_| match std::fs::read_to_string(&log) {
            Ok(text) if text.lines().any(|line| line == "ready") => Ok(()),
            _ => Err("the Go bidder is not ready"),
        })?;
        Ok(GoBidder { bidder, redis, address })
    }
}

/// Builds it, and says where it lies. A smoke run uses no network for that.
fn build(size: Size) -> Result<PathBuf, String> {
    let go = find("go", &GO_FOLDERS).ok_or("go is not installed")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("go-bidder");
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let program = here.with_file_name("go-bidder");
    let mut command = Command::new(go);
    command.current_dir(source).args(["build", "-o"]).arg(&program).arg(".");
    if size == Size::Smoke {
        command.env("GOPROXY", "off");
    }
    let output = command.output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(program),
        false => Err(format!("go build: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn start_redis(program: &Path) -> Result<Daemon, String> {
    let (folder, port) = (folder_on_disk()?, free_port()?);
    let mut command = pinned(1, program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
    command.args(["--save", "", "--appendonly", "no"]);
    let mut redis = Daemon::start(command, folder, port)?;
    redis.wait_for(|port| TcpStream::connect(("127.0.0.1", port)))?;
    Ok(redis)
}

/// A command on one core, where there is such a core, that ends with this process.
fn pinned(core: usize, program: &Path) -> Command {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(taskset) = find("taskset", &[]).filter(|_| core < cores) else {
        return bound_to_us(program, None);
    };
    let mut command = bound_to_us(&taskset, None);
    command.args(["-c", &core.to_string()]).arg(program);
    command
}
