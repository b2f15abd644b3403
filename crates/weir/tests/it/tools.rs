//! All commands, used as nobody should: readers that go away, closed streams, signals, arguments and an environment that
//! are no text, and a node that never answers.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Setup, line, output, stderr, stdout, text, wait_value, weir};

/// Runs a command whose output nobody reads, and says how it ended and what it complained of.
fn unread(command: &mut Command) -> (ExitStatus, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let found = child.wait_with_output().unwrap();
    (found.status, stderr(&found))
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let node = Setup::new(&line(1, "5", "")).start();
    let (data, admin, batch) = (node.data(), node.admin.to_string(), node.batch.to_string());
    let budgets = node.budgets_file();
    let request = data.join("request.json");
    let made = output(weir().args(["hammer", "--generate-openrtb", "1"]));
    std::fs::write(&request, &made.stdout).unwrap();
    for arguments in [
        &["check", "--print"][..],
        &["sample-budgets", "--count", "20000"],
        &["sample-campaigns", "--count", "2000"],
        &["hammer", "--generate-openrtb", "5000"],
        &["hammer", "--target", &batch, "--duration", "100ms", "--quiet"],
        &["hammer", "--target", &batch, "--duration", "100ms", "--quiet", "--json"],
        &["stat", "--target", &admin],
        &["stat", "--target", &admin, "--json"],
        &["costs", "--target", &admin, "--seconds", "0.1"],
        &["top", "--target", &admin],
        &["why", "--request", text(&request), "--budgets", text(&budgets)],
        &["journal", "verify", "--data", text(&data)],
        &["journal", "inspect", "--data", text(&data)],
    ] {
        let (status, said) = unread(weir().args(arguments));
        assert_eq!(status.code(), Some(0), "{arguments:?}: {status}: {said}");
        assert!(!said.contains("pipe") && !said.contains("panicked"), "{arguments:?}: {said}");
    }
}

/// What was cut must not look whole.
#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let node = Setup::new(&line(1, "5", "")).start();
    let (data, admin, batch) = (node.data(), node.admin.to_string(), node.batch.to_string());
    for arguments in [
        &["check", "--print"][..],
        &["sample-budgets", "--count", "20"],
        &["sample-campaigns", "--count", "2"],
        &["hammer", "--target", &batch, "--duration", "100ms", "--quiet"],
        &["stat", "--target", &admin],
        &["stat", "--target", &admin, "--json"],
        &["costs", "--target", &admin, "--seconds", "0.1"],
        &["top", "--target", &admin, "--once"],
        &["journal", "verify", "--data", text(&data)],
        &["journal", "inspect", "--data", text(&data)],
        &["journal", "audit", "--data", text(&data), "--json"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let found = weir().args(arguments).stdout(full).output().unwrap();
        let said = stderr(&found);
        assert_eq!(found.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains("weir: standard output: No space left on device"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn closed_streams_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code) in [
        ("check", 0),
        ("sample-budgets --count 10", 0),
        ("stat --data nowhere", 1),
        ("top --data nowhere", 1),
        ("fly", 2),
    ] {
        let script = format!("exec {} {arguments} <&- >&- 2>&-", env!("CARGO_BIN_EXE_weir"));
        let status =
            Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments}: {status}");
    }
}

#[test]
fn what_is_no_text_is_refused_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let wild = OsStr::from_bytes(b"\xff\xfe");
    for (arguments, code) in [
        (&["stat", "--target"][..], 2),
        (&["why", "--target"], 2),
        (&["costs", "--target"], 2),
        (&["top", "--target"], 2),
        (&["hammer", "--target"], 2),
        (&["journal", "verify", "--data"], 1),
        (&["stat", "--data"], 1),
        (&["stat", "--target", "127.0.0.1:1", "--token-file"], 1),
        (&["check", "--config"], 1),
        (&["check", "--budgets"], 1),
        (&["profiles", "--data"], 2),
        (&["pace", "--seeds"], 2),
        (&["sample-budgets", "--count"], 2),
        (&[], 2),
    ] {
        let found = output(weir().args(arguments).arg(wild).current_dir(folder.path()));
        assert_eq!(found.status.code(), Some(code), "{arguments:?}: {}", stderr(&found));
        assert!(
            !stderr(&found).contains("panicked") && !stderr(&found).is_empty(),
            "{}",
            stderr(&found)
        );
    }
}

#[test]
fn an_environment_that_is_no_text_is_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let wild = OsStr::from_bytes(b"\xff");
    let check =
        |name: &OsStr| output(weir().arg("check").env(name, wild).current_dir(folder.path()));
    for foreign in [
        OsStr::new("FOREIGN"),
        OsStr::from_bytes(b"FOREIGN\xff"),
        OsStr::from_bytes(b"WEIR_\xff__ID"),
    ] {
        let found = check(foreign);
        assert!(!stderr(&found).contains("panicked"), "{foreign:?}: {}", stderr(&found));
    }
    assert_eq!(check(OsStr::new("FOREIGN")).status.code(), Some(0));
    let found = check(OsStr::new("WEIR_NODE__ID"));
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    assert!(stderr(&found).contains("WEIR_NODE__ID: found"), "{}", stderr(&found));
}

/// A shell starts what it puts into the background with SIGINT ignored, and all that is started from there inherits that.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    let is_ignored = mask >> (signal.as_raw() - 1) & 1 == 1;
    if is_ignored {
        eprintln!("SKIPPED for {signal:?}: this process was started with it ignored");
    }
    is_ignored
}

#[test]
fn a_signal_ends_a_tool_that_waits_for_a_node() {
    // The kernel takes the connections; nobody answers.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = hung.local_addr().unwrap().to_string();
    for arguments in [&["stat"][..], &["why", "1"], &["costs", "--seconds", "60"], &["top"]] {
        for signal in [Signal::TERM, Signal::INT].into_iter().filter(|signal| !is_ignored(*signal))
        {
            let mut command = weir();
            command.args(arguments).args(["--target", &target]).stdin(Stdio::null());
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            // Connected, and held: what is done at the start is done.
            let held = hung.accept().unwrap();
            // Without a shell in between, whose start can take longer than the tool's patience.
            let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
            kill_process(process, signal).unwrap();
            wait_value("the tool ends", || child.try_wait().unwrap());
            let ended = child.wait_with_output().unwrap();
            let (status, said) = (ended.status, stderr(&ended));
            assert!(status.signal().is_some(), "{arguments:?}: {status}: {said}");
            drop(held);
        }
    }
}

#[test]
fn a_node_that_never_answers_is_given_up() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = hung.local_addr().unwrap().to_string();
    let found = output(weir().args(["top", "--once", "--target", &target]));
    assert_eq!(found.status.code(), Some(1));
    assert!(
        stderr(&found).contains("no whole answer to /v1/node within 5000 ms"),
        "{}",
        stderr(&found)
    );
    assert!(stdout(&found).is_empty());
}
