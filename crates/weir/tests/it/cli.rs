//! The command line as people and scripts use it.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use wire::{Action, Verdict, resolve};

use crate::client::{Reply, resolve_frame};
use crate::support::{
    Setup, doors_at_any_port, http_get, line, output, over_transports, stderr, stdout, text,
    wait_for, weir,
};

fn run(arguments: &[&str]) -> std::process::Output {
    output(weir().args(arguments))
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in
        ["run", "reload", "check", "hammer", "stat", "costs", "journal", "sample-budgets"]
    {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        let example = format!("weir {command}");
        let help = stdout(&output);
        assert!(help.contains("Example"), "{command}: {help}");
        assert!(help.contains(&example), "{command}: {help}");
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [
        &[][..],
        &["fly"],
        &["run", "--fast"],
        &["run", "--batch", "nowhere"],
        &["run", "--transport", "pigeon"],
        &["stat", "--budget", "one budget"],
        &["why", "18446744073709551616"],
        &["hammer"],
        &["hammer", "--target", "127.0.0.1:1", "--duration", "soon"],
        &["hammer", "--target", "127.0.0.1:1", "--win", "2"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn failure_is_1_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.jsonl");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (arguments, expected) in [
        (vec!["run", "--budgets", text(&missing)], "does not exist"),
        (vec!["check", "--budgets", text(&missing)], "cannot be read"),
        (vec!["check", "--config", text(&missing)], "cannot be read"),
        (vec!["stat", "--data", text(folder.path())], "--target"),
        (vec!["stat", "--target", &port.to_string()], "is it running?"),
        (vec!["hammer", "--target", &port.to_string(), "--timeout", "1s"], &port.to_string()),
        (vec!["run", "--batch", "0.0.0.0:0"], "auth_token"),
        (vec!["run", "--admin", "0.0.0.0:0"], "loopback"),
    ] {
        let output = output(weir().args(&arguments).current_dir(folder.path()));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(
            said.contains(expected) || (expected == "loopback" && said.contains("127.0.0.1")),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn check_prints_every_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (config, budgets) = (folder.path().join("weir.toml"), folder.path().join("b.jsonl"));
    std::fs::write(&config, "[node]\nid = -1\ncolour = 3\n[pacing]\ntick_ms = 1\n").unwrap();
    std::fs::write(&budgets, "{\"id\":1}\n{\"limit\":\"1\"}\n").unwrap();
    let both = ["check", "--config", text(&config), "--budgets", text(&budgets)];
    let output = run(&both);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    for expected in [
        "weir.toml:2: node.id",
        "weir.toml:3: node.colour",
        "pacing.tick_ms",
        "b.jsonl:1: limit",
        "b.jsonl:2: id",
    ] {
        assert!(said.contains(expected), "{expected} not in {said}");
    }

    std::fs::write(&config, "[node]\nid = 3\n").unwrap();
    let said = stderr(&run(&both));
    assert!(said.contains("2 error(s)") && said.contains("b.jsonl:2"), "{said}");

    std::fs::write(&budgets, line(1, "1", "") + &line(2, "1", "")).unwrap();
    let output = run(&both);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("are sound: 2 budgets"), "{}", stderr(&output));
}

/// The file may be for another machine, so a check only warns.
#[test]
fn cores_that_are_not_there_are_a_warning_of_a_check_and_refuse_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    std::fs::write(&config, "[node]\nid = 3\n[workers]\ncores = \"1023\"\n").unwrap();
    let told = "weir.toml:4: workers.cores: found 1023, expected cores of ";
    let at = |name| output(weir().args([name, "--config", text(&config)]).current_dir(&folder));
    let checked = at("check");
    let said = stderr(&checked);
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert!(said.contains("warning: ") && said.contains(told), "{said}");
    let started = at("run");
    let said = stderr(&started);
    assert_eq!(started.status.code(), Some(1), "{said}");
    assert!(said.contains(told), "{said}");
    assert!(!folder.path().join("weir-data").exists());
}

#[test]
fn check_print_is_a_file_that_check_takes() {
    let folder = tempfile::tempdir().unwrap();
    let printed = output(weir().args(["check", "--print"]).current_dir(folder.path()));
    assert_eq!(printed.status.code(), Some(0), "{}", stderr(&printed));
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, &printed.stdout).unwrap();
    let again = output(weir().args(["check", "--config", text(&file)]).current_dir(folder.path()));
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
}

#[test]
fn the_environment_and_flags_override() {
    let node = Setup::new(&line(1, "1", "")).with("node.id", "77").with("batch.batch_max", "5");
    let node = node.start();
    assert_eq!(node.stat()["node"], 77);
    let Reply::Welcome { node: number, batch_max, .. } = node.stranger().hello() else { panic!() };
    assert_eq!((number, batch_max), (77, 5));
    let setup = Setup::new("").with("nothing.here", "1");
    let output = output(&mut setup.command());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("WEIR_NOTHING__HERE: there is no key"), "{}", stderr(&output));
}

#[test]
fn doors_are_told_then_ready() {
    let node = Setup::new("").start();
    assert_eq!(node.said.len(), 7, "{:?}", node.said);
    assert!(node.said[0].starts_with("batch 127.0.0.1:") && node.batch.port() != 0);
    assert!(node.said[1].starts_with("openrtb 127.0.0.1:") && !node.said[1].ends_with(":0"));
    assert!(node.said[2].starts_with("spend 127.0.0.1:") && !node.said[2].ends_with(":0"));
    assert!(node.said[3].starts_with("keys 127.0.0.1:") && !node.said[3].ends_with(":0"));
    assert!(node.said[4].starts_with("admin http://127.0.0.1:") && node.admin.port() != 0);
    assert_eq!(node.said[5], format!("dashboard http://{}/ui/", node.admin));
    assert_eq!(node.said[6], "ready");
    let addresses = std::fs::read_to_string(node.data().join("addresses.json")).unwrap();
    let addresses: Value = serde_json::from_str(&addresses).unwrap();
    assert_eq!(addresses["batch"], node.batch.to_string());
    assert_eq!(node.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(node.get("/nothing").0, 404);
    assert_eq!(node.get("/").0, 307);
    assert_eq!(node.get("/ui/").0, 200);
}

#[test]
fn stat_shows_a_running_node() {
    let node = Setup::new(&(line(1, "5", "") + &line(2, "5", ""))).start();
    let mut client = node.client();
    let token = client.grant(2, 1_000);
    assert_eq!(client.settle(token, 900), (Verdict::Settled, false));
    let (data, admin) = (node.data(), node.admin.to_string());
    for place in [["--data", text(&data)], ["--target", &admin]] {
        let output = output(weir().args(["stat", "--json", "--budget", "2"]).args(place));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let stat: Value = serde_json::from_str(&stdout(&output)).unwrap();
        for name in ["limit", "free", "purses", "held", "settled", "late", "over_settled"] {
            assert!(stat[name].is_i64(), "{name} in {stat:#}");
        }
        assert_eq!((&stat["limit"], &stat["settled"]), (&5_000_000.into(), &900.into()));
        assert!(stat["doors"]["batch"]["refused_frames"].is_object());
        assert!(stat["doors"]["batch"]["verdicts"].is_object());
    }
    let plain = output(weir().args(["stat", "--target", &admin]));
    assert_eq!(plain.status.code(), Some(0));
    assert!(stdout(&plain).contains("doors.batch.granted"), "{}", stdout(&plain));
    let output = output(weir().args(["stat", "--target", &admin, "--budget", "404"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no budget 404"), "{}", stderr(&output));
    assert_eq!(http_get(node.admin, "/stat?budget=x").0, 404);
    for query in ["/stat?budget=x%20y", "/stat?budgt=1", "/books?x=1", "/metrics?x=1"] {
        assert_eq!(http_get(node.admin, query).0, 400, "{query}");
    }
}

#[test]
fn stat_shows_a_budget_by_its_handle_with_its_windows() {
    let windows = r#","handle":"llm/a","windows":{"hour":"2","day":{"limit":"4","kind":"bucket"}}"#;
    let node = Setup::new(&line(2, "5", windows)).start();
    let mut client = node.client();
    let token = client.grant(2, 1_500_000);
    assert_eq!(client.settle(token, 1_500_000), (Verdict::Settled, false));
    let admin = node.admin.to_string();
    let asked = |more: &[&str]| {
        let output = output(weir().args(["stat", "--target", &admin, "--budget"]).args(more));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let stat: Value = serde_json::from_str(&asked(&["llm/a", "--json"])).unwrap();
    assert_eq!((&stat["id"], &stat["handle"]), (&2.into(), &"llm/a".into()));
    let hour = &stat["windows"][0];
    assert_eq!((&hour["period"], &hour["limit"]), (&"hour".into(), &2_000_000.into()));
    assert!(hour["used"].as_i64().unwrap() >= 1_500_000 && hour["ends_ms"].is_u64(), "{hour}");
    assert_eq!(hour["left"].as_i64().unwrap(), 2_000_000 - hour["used"].as_i64().unwrap());
    let plain = asked(&["2"]);
    let row = |name: &str| plain.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("budget 2 ").ends_with("(llm/a), in USD"), "{plain}");
    let hour = row("windows.hour");
    assert!(hour.contains("limit 2.00 USD, handed out ") && hour.contains(", ends 20"), "{hour}");
    assert!(row("windows.day").ends_with("refills all the time"), "{plain}");
    let nobody = output(weir().args(["stat", "--target", &admin, "--budget", "llm/b"]));
    assert!(stderr(&nobody).contains("there is no budget with the handle \"llm/b\""));
}

#[test]
fn books_are_paged() {
    let lines: String = (1..=1_500).map(|id| line(id, "1", "")).collect();
    let node = Setup::new(&lines).start();
    let page = |path: &str| -> Value { serde_json::from_str(&node.get(path).1).unwrap() };
    // A page ends by time, too: whoever wants all follows `next`.
    let (mut ids, mut next) = (Vec::new(), Some(1));
    while let Some(from) = next {
        let found = page(&format!("/books?from={from}"));
        let budgets = found["budgets"].as_array().unwrap();
        assert!((1..=1_000).contains(&budgets.len()), "{}", budgets.len());
        ids.extend(budgets.iter().map(|budget| budget["id"].as_u64().unwrap()));
        next = found["next"].as_u64();
    }
    assert!(ids.iter().copied().eq(1..=1_500), "{}", ids.len());
    assert_eq!(page("/books?from=7&max=2")["budgets"][1]["id"], 8);
}

#[test]
fn a_second_node_on_the_same_folder_is_refused() {
    let first = Setup::new(&line(1, "1", "")).start();
    let mut second = weir();
    second.arg("run").arg("--budgets").arg(first.budgets_file()).arg("--data").arg(first.data());
    second.args(doors_at_any_port());
    let refused = output(&mut second);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains("in use by another node") && said.contains("--data"), "{said}");
    first.client().grant(1, 1);
    let addresses = std::fs::read_to_string(first.data().join("addresses.json")).unwrap();
    assert!(addresses.contains(&first.admin.to_string()), "the first one's are still there");
}

#[test]
fn a_taken_port_is_told() {
    let first = Setup::new("").start();
    let folder = tempfile::tempdir().unwrap();
    let doors = ["--batch", "--openrtb", "--spend", "--admin"];
    let openrtb = first.said[1].strip_prefix("openrtb ").unwrap().to_string();
    let spend = first.said[2].strip_prefix("spend ").unwrap().to_string();
    for (door, taken) in
        doors.into_iter().zip([first.batch.to_string(), openrtb, spend, first.admin.to_string()])
    {
        let others = doors.into_iter().filter(|other| *other != door);
        let others = others.flat_map(|other| [other, "127.0.0.1:0"]);
        let mut second = weir();
        second.args(["run", door, &taken]).args(others).current_dir(folder.path());
        let output = output(&mut second);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(&taken), "{}", stderr(&output));
    }
}

#[test]
fn ctrl_c_answers_what_is_in_flight_and_ends_well() {
    over_stop(|node, client| {
        // Many frames are on their way when the stop comes; whatever was read is answered whole.
        let tokens: Vec<_> = (0..200).map(|_| client.grant(1, 10)).collect();
        let mut bytes = Vec::new();
        for (number, token) in tokens.iter().enumerate() {
            let item = resolve::Item::new(*token, 10, Action::Settle, 0);
            bytes.extend(resolve_frame(u64::try_from(number).unwrap(), &[item]));
        }
        client.send(&bytes);
        node.wait_stat("the frames", |stat| stat["doors"]["batch"]["resolves"] == 200);
        node.interrupt();
        let mut frames = std::collections::BTreeSet::new();
        while frames.len() < 200 {
            let Reply::Resolved { frame, answers } = client.receive() else { panic!("no answer") };
            assert_eq!(answers, [(Verdict::Settled, false)]);
            assert!(frame < 200 && frames.insert(frame), "one answer a frame");
        }
        client.expect_end();
    });
}

/// Its log goes nowhere from then on.
#[test]
fn a_terminal_that_is_closed_stops_a_node_well() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    if u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 != 0 {
        println!("skipped: SIGHUP is ignored here, and so it is in what this starts");
        return;
    }
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap();
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let far = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
    let setup = Setup::new(&line(1, "1", ""));
    let plain = setup.command();
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(far.try_clone().unwrap()).stderr(far).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    drop((lines, near));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// As `nohup` starts it.
#[test]
fn a_node_that_is_to_outlive_its_terminal_does() {
    let node = Setup::new(&line(1, "1", "")).after("trap '' HUP").start();
    node.signal("HUP");
    wait_for("a reload", || node.log().contains("the configuration was reloaded"));
    node.client().grant(1, 1);
    assert!(!node.log().contains("stopping"), "{}", node.log());
}

#[test]
fn ctrl_c_closes_idle_and_half_said_connections() {
    over_stop(|node, client| {
        client.send(&[0, 0, 1]);
        let mut idle: Vec<_> = (0..50).map(|_| node.client()).collect();
        node.interrupt();
        client.expect_end();
        idle.iter_mut().for_each(|client| client.expect_end());
    });
}

fn over_stop(case: impl Fn(&mut crate::support::Node, &mut crate::client::Client)) {
    for transport in crate::support::TRANSPORTS {
        let setup =
            Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "600000").over(transport);
        let mut node = match setup.try_start() {
            Ok(node) => node,
            Err(log) if log.contains("transport:") => {
                println!("skipped: io_uring is refused here: {log}");
                continue;
            }
            Err(log) => panic!("{log}"),
        };
        let mut client = node.client();
        case(&mut node, &mut client);
        assert_eq!(node.wait_end().code(), Some(0), "{}", node.log());
        let refused = std::net::TcpStream::connect(node.batch).is_err();
        assert!(refused, "nobody listens any more");
        // The folder is free again.
        let mut again = Command::new(env!("CARGO_BIN_EXE_weir"));
        again.args(["stat", "--data"]).arg(node.data());
        assert_eq!(output(&mut again).status.code(), Some(1), "and stat says that nobody is there");
    }
}

#[test]
fn sample_budgets_are_sound() {
    let made = run(&["sample-budgets", "--count", "300", "--seed", "9"]);
    assert_eq!(made.status.code(), Some(0));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.jsonl");
    std::fs::write(&file, &made.stdout).unwrap();
    let checked = run(&["check", "--budgets", text(&file)]);
    assert!(stderr(&checked).contains("are sound: 300 budgets"), "{}", stderr(&checked));
    assert_eq!(run(&["sample-budgets", "--count", "300", "--seed", "9"]).stdout, made.stdout);
}

#[test]
fn both_transports_can_be_chosen() {
    over_transports(|| Setup::new(""), |node| node.client().ping());
}
