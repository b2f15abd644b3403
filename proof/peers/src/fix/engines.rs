//! Engines of others, each in a small program of its own (`proof/fix-peers`): it reads the messages once, and parses all of them
//! whenever it is told to.
//!
//! Go builds with what its module cache has or the proxy gives, Maven likewise; QuickFIX C++ is Debian's `libquickfix-dev`, in `/usr`
//! or where `QUICKFIX_PREFIX` says. An engine that is not to be had has a row that says why. A smoke run uses no network.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::messages::Kind;
use crate::Size;
use crate::daemon::{bound_to_us, find, folder_on_disk};

/// Where Go is installed when it is not in PATH.
const GO_FOLDERS: [&str; 1] = ["/usr/local/go/bin"];

/// A running program; dropping it ends the process.
pub(super) struct Engine {
    pub(super) name: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    messages: u64,
    _folder: TempDir,
}

/// How to come by the command that runs a program.
type Build = fn(Size) -> Result<Command, String>;

const ENGINES: [(&str, Build); 3] = [
    ("quickfixgo 0.9.10 `ParseMessage`, no checksum", go),
    ("QuickFIX/J 2.3.2 `fromString`", java),
    ("QuickFIX C++ 1.15.1 `setString`", cpp),
];

impl Engine {
    /// Starts all engines on these messages; an error names the engine and why it is not there.
    pub(super) fn start_all(size: Size, kind: &Kind) -> Vec<Result<Engine, String>> {
        let start = |(name, build): &(&'static str, Build)| {
            let made = build(size).and_then(|command| Engine::start(name, command, size, kind));
            made.map_err(|error| format!("{name}: NOT MEASURED: {error}"))
        };
        ENGINES.iter().map(start).collect()
    }

    /// Starts `command` with a file of the messages, one per line, and how often it is to parse them before the first round.
    fn start(
        name: &'static str,
        mut command: Command,
        size: Size,
        kind: &Kind,
    ) -> Result<Engine, String> {
        let folder = folder_on_disk()?;
        let file = folder.path().join("messages");
        let lines: Vec<u8> =
            kind.messages.iter().flat_map(|one| [one.as_slice(), b"\n"].concat()).collect();
        std::fs::write(&file, lines).map_err(|e| e.to_string())?;
        command.arg(&file).arg(size.pick(200, 1).to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else { return Err("no pipes".into()) };
        let output = BufReader::new(output);
        let messages = kind.messages.len() as u64;
        let mut engine = Engine { name, child, input, output, messages, _folder: folder };
        match engine.line()?.as_str() {
            "ready" => Ok(engine),
            other => Err(format!("it says {other:?}")),
        }
    }

    /// Lets it parse all messages once. An engine that ends has an endless round, which its row shows.
    pub(super) fn round(&mut self) -> (u64, Duration) {
        let told = self.input.write_all(b"\n").and_then(|()| self.input.flush());
        let took = told.map_err(|e| e.to_string()).and_then(|()| self.line());
        let ns = took.ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX / 2);
        (self.messages, Duration::from_nanos(ns))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|e| e.to_string())?;
        if read == 0 { Err("it ended".into()) } else { Ok(line.trim_end().to_owned()) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fix-peers")
}

/// Where a program that is built for this run goes.
fn beside_us(name: &str) -> Result<PathBuf, String> {
    std::env::current_exe().map(|here| here.with_file_name(name)).map_err(|e| e.to_string())
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(format!("{name}: {}", said.lines().next_back().unwrap_or("it failed")))
}

fn go(size: Size) -> Result<Command, String> {
    go_program(size, "parse")
}

fn java(size: Size) -> Result<Command, String> {
    java_program(size, "Parse")
}

/// Builds a program of `proof/fix-peers/go`.
pub(super) fn go_program(size: Size, name: &str) -> Result<Command, String> {
    let go = find("go", &GO_FOLDERS).ok_or("go is not installed")?;
    let program = beside_us(&format!("fix-{name}-go"))?;
    let mut build = Command::new(go);
    build.current_dir(sources().join("go")).env("CGO_ENABLED", "0");
    build
        .args(["build", "-mod=readonly", "-trimpath", "-o"])
        .arg(&program)
        .arg(format!("./{name}"));
    if size == Size::Smoke {
        build.env("GOPROXY", "off");
    }
    succeeds(&mut build)?;
    Ok(bound_to_us(&program, None))
}

/// Builds `proof/fix-peers/java`, and runs one of its classes.
pub(super) fn java_program(size: Size, class: &str) -> Result<Command, String> {
    let java = find("java", &[]).ok_or("java is not installed")?;
    let maven = find("mvn", &[]).ok_or("mvn is not installed")?;
    let mut build = Command::new(maven);
    build.args(["-B", "-q", "-f"]).arg(sources().join("java/pom.xml")).arg("compile");
    if size == Size::Smoke {
        build.arg("-o");
    }
    succeeds(&mut build)?;
    let built = sources().join("../../target/fix-peers/java");
    let path = std::fs::read_to_string(built.join("class-path")).map_err(|e| e.to_string())?;
    let mut command = bound_to_us(&java, None);
    command.args(["-XX:+UseSerialGC", "-Xmx256m", "-cp"]);
    command.arg(format!("{}:{}", built.join("classes").display(), path.trim()));
    command.arg(format!("weir.fixpeers.{class}"));
    Ok(command)
}

fn cpp(_: Size) -> Result<Command, String> {
    let prefix = std::env::var_os("QUICKFIX_PREFIX").map_or("/usr".into(), PathBuf::from);
    if !prefix.join("include/quickfix/Message.h").is_file() {
        return Err(format!("libquickfix-dev is not in {}", prefix.display()));
    }
    let compiler = find("g++", &[]).ok_or("g++ is not installed")?;
    let program = beside_us("fix-parse-cpp")?;
    let library = prefix.join("lib/x86_64-linux-gnu");
    let mut build = Command::new(compiler);
    build.args(["-std=c++14", "-O3", "-march=native", "-w", "-I"]).arg(prefix.join("include"));
    build.arg("-o").arg(&program).arg(sources().join("cpp/parse.cpp"));
    build.arg("-L").arg(&library).arg(format!("-Wl,-rpath,{}", library.display()));
    build.arg("-lquickfix");
    succeeds(&mut build)?;
    Ok(bound_to_us(&program, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Engine, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        let [orders, _] = Kind::both();
        Engine::start("a shell", command, Size::Smoke, &orders)
    }

    #[test]
    fn a_round_is_what_the_program_says() {
        let mut engine =
            shell("wc -l < $1 >&2; echo ready; while read line; do echo 42; done").unwrap();
        assert_eq!(engine.round(), (512, Duration::from_nanos(42)));
        assert_eq!(engine.round(), (512, Duration::from_nanos(42)));
    }

    #[test]
    fn a_program_that_ends_or_says_something_else_is_no_engine() {
        assert_eq!(shell("exit 3").err(), Some("it ended".to_owned()));
        assert_eq!(shell("echo no such file").err(), Some("it says \"no such file\"".to_owned()));
        let mut engine = shell("echo ready").unwrap();
        assert!(engine.round().1 > Duration::from_secs(1_000_000));
    }
}
