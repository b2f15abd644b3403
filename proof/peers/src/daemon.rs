//! Servers of others that a benchmark starts for itself, and ends.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take until it answers, ms.
const START_MS_MAX: u64 = 20_000;
/// How long a server may take to end by itself before it is killed, ms.
const STOP_MS_MAX: u64 = 5_000;

/// The weir binary that was built beside this program.
pub fn weir_binary() -> PathBuf {
    let here = std::env::current_exe().unwrap_or_default();
    let folder = here.parent().unwrap_or(Path::new("."));
    // A test binary lies in a folder of its own, one below.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.join("weir")
}

/// A server of this run; dropping it ends the process, then removes its folder.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    folder: TempDir,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Daemon {
    /// Starts `command`, which is to listen on `port` and to log into the file `log` of `folder`.
    pub fn start(mut command: Command, folder: TempDir, port: u16) -> Result<Daemon, String> {
        let log = std::fs::File::create(folder.path().join("log")).map_err(|e| e.to_string())?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(log).stderr(errors);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|e| format!("{name} does not start: {e}"))?;
        Ok(Daemon { child, folder, port })
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Calls `connect` until it succeeds; an error with the end of the server's log where it never does.
    pub fn wait_for<T, E: std::fmt::Display>(
        &mut self,
        mut connect: impl FnMut(u16) -> Result<T, E>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + Duration::from_millis(START_MS_MAX);
        loop {
            let error = match connect(self.port) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let ended = self.child.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(format!("the server does not answer: {error}\n{}", self.log_end()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log_end(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let from = log.lines().count().saturating_sub(5);
        log.lines().skip(from).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Daemon {
    /// Asks the process to end (Redis and PostgreSQL both shut down fast on SIGINT), and kills it if it does not.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + Duration::from_millis(STOP_MS_MAX);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command whose process ends when this one dies, however it dies; `user` is who it runs as, if not as we do.
pub fn bound_to_us(program: &Path, user: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--init-groups"]);
    }
    command.arg("--").arg(program);
    command
}

/// The first of `folders` (or of PATH) that holds `program`.
pub fn find(program: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = folders.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    known.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A folder on the disk of this binary, because /tmp may be memory; it is removed when dropped.
pub fn folder_on_disk() -> Result<TempDir, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let beside = here.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix("peers-")
        .tempdir_in(beside)
        .map_err(|e| format!("no folder for measuring in {}: {e}", beside.display()))
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|e| e.to_string())
}

/// Whether this process is root's, whom PostgreSQL refuses to run as.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_log() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out of coffee; exit 3"]);
        let mut daemon = Daemon::start(command, folder_on_disk().unwrap(), 1).unwrap();
        let refused = |_| -> Result<(), &str> { Err("refused") };
        let error = daemon.wait_for(refused).unwrap_err();
        assert!(error.contains("refused"), "{error}");
        // The log may be written a moment after the first look.
        let _ = daemon.child.wait();
        assert!(daemon.log_end().contains("out of coffee"));
    }

    #[test]
    fn a_dropped_server_is_gone_with_its_folder() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let daemon = Daemon::start(command, folder_on_disk().unwrap(), 1).unwrap();
        let (process, folder) = (format!("/proc/{}", daemon.id()), daemon.folder.path().to_owned());
        assert!(Path::new(&process).exists() && folder.exists());
        drop(daemon);
        assert!(!Path::new(&process).exists() && !folder.exists());
    }
}
