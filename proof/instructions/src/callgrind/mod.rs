//! Runs a workload under valgrind's callgrind and reads what it counted.

mod parse;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use parse::{MissCounts, ParseError, Profile, parse};

use crate::workload::{LEFT_OUT, MEASURED, Name};

/// How the program ends on a name that it does not know.
const WRONG_USAGE: i32 = 2;

/// One counted run.
#[derive(Clone, Debug)]
pub struct Run {
    /// This program, or a copy of it.
    pub program: PathBuf,
    /// What it does.
    pub workload: Name,
    /// How often, at least.
    pub ops: u64,
    /// Instructions that are added to each operation.
    pub plant: f64,
    /// What is in the environment; nothing else is, so that no setting of the shell changes a count.
    pub environment: Vec<(OsString, OsString)>,
}

/// What an operation takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// Operations that were counted.
    pub ops: u64,
    /// What callgrind saw, of all of them.
    pub profile: Profile,
}

impl Count {
    /// Instructions per operation.
    #[must_use]
    pub fn instructions(&self) -> f64 {
        self.each(self.profile.instructions)
    }

    /// A part of the instructions, an operation.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts here have far less than 52 bits")]
    pub fn each(&self, instructions: u64) -> f64 {
        instructions as f64 / self.ops.max(1) as f64
    }
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The tool is missing.
    #[error("valgrind cannot be started: {0}; install it (Debian: apt-get install valgrind)")]
    NoValgrind(#[source] std::io::Error),
    /// The tool, or the program in it, failed.
    #[error("valgrind with workload {workload} ended with {status}: {said}")]
    Failed {
        /// What it ran.
        workload: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it wrote.
        said: String,
    },
    /// The program was built from a revision that has no such workload.
    #[error("this program has no workload {workload}")]
    NoWorkload {
        /// What was asked for.
        workload: &'static str,
    },
    /// The program did not say how much it did.
    #[error("workload {workload} printed {printed:?}, expected the number of its operations")]
    NoOperations {
        /// What ran.
        workload: &'static str,
        /// What it printed.
        printed: String,
    },
    /// The function that is counted was never entered.
    #[error(
        "callgrind counted nothing in workload {workload}: is there still a function {MEASURED} that is not inlined?"
    )]
    Nothing {
        /// What ran.
        workload: &'static str,
    },
    /// The file is missing.
    #[error("{path} cannot be read: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not as it should be.
    #[error("what callgrind wrote of workload {workload} is not understood: {source}")]
    Parse {
        /// What ran.
        workload: &'static str,
        /// What is wrong, and where.
        source: ParseError,
    },
}

/// The version of the valgrind that is installed.
///
/// # Errors
/// [`CountError::NoValgrind`].
pub fn version() -> Result<String, CountError> {
    let output =
        Command::new("valgrind").arg("--version").output().map_err(CountError::NoValgrind)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Counts one run. `folder` is for the file that callgrind writes.
///
/// # Errors
/// [`CountError`] says what failed.
pub fn count(run: &Run, folder: &Path) -> Result<Count, CountError> {
    let (workload, path) = (run.workload.as_str(), folder.join("callgrind.out"));
    let output = command(run, &path).output().map_err(CountError::NoValgrind)?;
    if output.status.code() == Some(WRONG_USAGE) {
        return Err(CountError::NoWorkload { workload });
    }
    if !output.status.success() {
        return Err(CountError::Failed { workload, status: output.status, said: end_of(&output) });
    }
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let Ok(ops) = printed.parse() else {
        return Err(CountError::NoOperations { workload, printed });
    };
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| CountError::File { path, source })?;
    let profile =
        parse(&text, LEFT_OUT).map_err(|source| CountError::Parse { workload, source })?;
    if profile.instructions == 0 {
        return Err(CountError::Nothing { workload });
    }
    Ok(Count { ops, profile })
}

/// The caches that are simulated where a workload asks for them: those of a small core of today, the same on every
/// machine. Callgrind would else take those of the processor that it runs on.
const CACHES: [&str; 3] = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64"];

fn command(run: &Run, out: &Path) -> Command {
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(out);
    let mut command = Command::new("valgrind");
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).envs(run.environment.iter().cloned());
    command.args(["--tool=callgrind", "--quiet"]).arg(file);
    command.arg(format!("--toggle-collect={MEASURED}"));
    if run.workload.has_misses() {
        command.args(CACHES).arg(format!("--LL={},16,64", run.workload.cache_bytes()));
    }
    command.arg(&run.program).args(["workload", run.workload.as_str()]);
    command.args(["--ops", &run.ops.to_string()]);
    if run.plant > 0.0 {
        command.args(["--plant-instructions", &run.plant.to_string()]);
    }
    command
}

fn end_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}
