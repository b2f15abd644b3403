//! The pages of `docs/start`: every command of theirs is run, and what they show of the answers is compared.
//!
//! The first block of a page that runs a node (`weir dev` or `weir run`) is kept running; the other blocks are one session of a shell. A
//! block of text behind a block of commands is what these print; `…` in it stands for anything within a line. Addresses are those of
//! the defaults, and are replaced by the free ones of the test.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use weir_config::config::Config;
use weir_config::doors::{DoorSpec, all_doors};

use crate::support::{PATIENCE, Setup, output, stderr, stdout, text};

/// Ends what a block of commands prints.
const END: &str = "-- end of block --";

/// Commands, and what they print where the page shows it.
#[derive(Debug)]
struct Block {
    commands: String,
    printed: Option<String>,
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .fold(String::new(), |all, line| all + line + "\n");
        match kind {
            "sh" => blocks.push(Block { commands: body, printed: None }),
            "text" => {
                blocks.last_mut().expect("commands before what they print").printed = Some(body)
            }
            _ => {}
        }
    }
    blocks
}

/// Is `found` what `shown` says, where `…` stands for anything within a line?
fn is_shown(shown: &str, found: &str) -> bool {
    let line = |(shown, found): (&str, &str)| {
        let mut rest = found;
        let parts: Vec<&str> = shown.split('…').collect();
        for (index, part) in parts.iter().enumerate() {
            let at = if index == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
            let Some(at) = at else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.is_empty() || parts.last() == Some(&"")
    };
    shown.lines().count() == found.lines().count() && shown.lines().zip(found.lines()).all(line)
}

/// A node that a page runs; it ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The environment of a page's commands: the program on the path, free addresses, few and small things.
fn shell(folder: &Path, script: &str) -> Command {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_weir"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).current_dir(folder).env("PATH", path);
    for door in all_doors() {
        shell.env(format!("WEIR_{}__LISTEN", door.name.to_uppercase()), "127.0.0.1:0");
    }
    let cores = crate::support::cores(1);
    shell.env("WEIR_WORKERS__CORES", cores).env("WEIR_WORKERS__PIN", "false");
    shell.env("WEIR_JOURNAL__SEGMENT_BYTES", "4194304");
    // A full machine seals the first filling later than a person would wait.
    shell.env("WEIR_SPEND__WAIT_MS", "1000").env("WEIR_BATCH__WAIT_MS", "1000");
    // The Python client of this checkout, uninstalled.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    shell.env("PYTHONPATH", root.join("clients/python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    shell
}

/// Starts the node of a page; by the usual address of a door, the one that it has.
fn start(folder: &Path, commands: &str) -> (Running, Vec<(String, String)>, Vec<String>) {
    // The shell becomes the node: what ends it ends the node.
    let at = commands.rfind("weir ").expect("a node's command");
    let script = format!("{}exec {}", &commands[..at], &commands[at..]);
    let mut child =
        shell(folder, &script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (send, lines) = channel();
    let out = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let running = Running(child);
    let mut said = Vec::new();
    while said.last().is_none_or(|line: &String| line != "ready") {
        said.push(lines.recv_timeout(PATIENCE).expect("a line of a node that starts"));
    }
    let usual = Config::default();
    let line_of = |name: &str| said.iter().find(|line| line.starts_with(&format!("{name} ")));
    let opens =
        |door: &&DoorSpec| !(door.listen)(&usual).is_unused() || line_of(door.name).is_some();
    let addresses = all_doors().filter(opens).map(|door| {
        let line = line_of(door.name);
        let line = line.unwrap_or_else(|| panic!("no line of the {} door: {said:?}", door.name));
        let at = line.find("127.0.0.1:").expect("an address");
        let address: String =
            line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        // The FIX door is off by default, where no session is configured.
        let listen = if door.name == "fix" { usual.fix.listen } else { (door.listen)(&usual) };
        (listen.to_string(), address)
    });
    let addresses = addresses.collect();
    (running, addresses, said)
}

fn is_node(block: &Block) -> bool {
    block
        .commands
        .lines()
        .last()
        .is_some_and(|line| line.starts_with("weir dev") || line.starts_with("weir run"))
}

/// Runs all of a page; what does not come out as it says.
fn run(page: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(page).unwrap();
    // What a person looks at for a minute, the test does in seconds.
    let text = text.replace("60s", "4s").replace("sleep 20", "sleep 2");
    // The venue of the page about orders listens where nothing else does.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let blocks = blocks(&text.replace("127.0.0.1:7790", &free.to_string()));
    assert!(blocks.len() > 1, "{}: a node and what to do with it", page.display());
    let folder = tempfile::tempdir().unwrap();
    let mut node = None;
    let mut script = String::new();
    for block in &blocks {
        if is_node(block) {
            // What a page prepares for its node is done before it.
            let prepared = output(&mut shell(folder.path(), &script));
            assert!(prepared.status.success(), "{}: {}", page.display(), stderr(&prepared));
            script.clear();
            node = Some(start(folder.path(), &block.commands));
        } else {
            let _ = writeln!(script, "{}\necho; echo '{END}'", block.commands);
        }
    }
    let (_running, addresses, _) = node.expect("a page runs a node");
    for (usual, address) in &addresses {
        script = script.replace(usual.as_str(), address);
    }
    let ran = output(&mut shell(folder.path(), &script));
    let (out, err) = (stdout(&ran), stderr(&ran));
    let mut printed = out.split(END);
    let after = blocks.iter().position(is_node).expect("found above") + 1;
    for block in &blocks[after..] {
        let found = printed.next().unwrap_or_default().trim();
        if let Some(shown) = &block.printed
            && !is_shown(shown.trim(), found)
        {
            return Err(format!(
                "{}:\n{}prints\n{found}\nand not\n{shown}\n{err}",
                page.display(),
                block.commands
            ));
        }
    }
    if ran.status.success() {
        Ok(())
    } else {
        Err(format!("{}: {}\n{out}{err}", page.display(), ran.status))
    }
}

#[test]
fn every_command_of_the_first_pages_does_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/start");
    let pages = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = pages.filter(|path| text(path).ends_with(".md")).collect();
    assert_eq!(
        pages.len(),
        5,
        "an API team, an LLM platform, a bidder, a shop, a trading desk: {pages:?}"
    );
    let wrong: Vec<String> = pages.iter().filter_map(|page| run(page).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The two lines are what the node prints, to the letter but for the port, and any shell runs them.
#[test]
fn what_weir_dev_prints_works_as_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, _, said) =
        start(folder.path(), "weir dev --budget llm=10.00 --budget b=2/count");
    let spend = said.iter().find_map(|line| line.strip_prefix("spend ")).unwrap();
    let from = said.iter().position(|line| line.starts_with("TOKEN=")).unwrap();
    let (first, second) = (&said[from], &said[from + 1]);
    let usual = |line: &str| line.replace(spend, "127.0.0.1:7704");
    assert_eq!(
        usual(first),
        r#"TOKEN=$(curl -s http://127.0.0.1:7704/v1/reserve -d '{"budget":"llm","amount":"0.25","confirm":true}' | sed 's/.*"token":"\([^"]*\)".*/\1/')"#
    );
    assert_eq!(
        usual(second),
        r#"curl -s http://127.0.0.1:7704/v1/settle -d '{"token":"'$TOKEN'","amount":"0.18"}'"#
    );
    let pasted = output(Command::new("sh").args(["-c", &format!("{first}\n{second}")]));
    assert_eq!(stdout(&pasted), r#"{"verdict":"settled","amount":"0.18","repeat":false}"#);
}

/// Another program has the usual port: the node says where it is instead. Its folder goes with it.
#[test]
fn weir_dev_finds_another_port_and_leaves_nothing_behind() {
    // Taken by this test, or by another node beside it.
    let _taken = std::net::TcpListener::bind("127.0.0.1:7704");
    let folder = tempfile::tempdir().unwrap();
    let script = "export TMPDIR=$PWD\nunset WEIR_SPEND__LISTEN\nweir dev --budget llm=10.00";
    let (mut running, _, said) = start(folder.path(), script);
    let moved = "The address 127.0.0.1:7704 is taken; the spend door is at 127.0.0.1:";
    assert!(said.iter().any(|line| line.starts_with(moved)), "{said:?}");
    let here = || std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(here(), 1, "its data");
    let stop = format!("kill -TERM {}", running.0.id());
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    assert!(running.0.wait().unwrap().success());
    assert_eq!(here(), 0, "its data go when it ends");
}

/// An address that somebody wrote is not another one.
#[test]
fn weir_dev_takes_no_other_address_than_it_is_given() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let script = format!("weir dev --budget llm=10.00 --spend {address}");
    let ended = output(&mut shell(folder.path(), &script));
    assert!(!ended.status.success() && stderr(&ended).contains(&address), "{}", stderr(&ended));
}

/// The change of a budget that the page of the API shows.
#[test]
fn the_change_on_the_page_of_the_api_runs_as_pasted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/api.md")).unwrap();
    let commands = page.split_once("```sh\nETAG=").unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let node = Setup::new("{\"id\":1,\"name\":\"a\",\"unit\":\"USD\",\"limit\":\"1000\"}").start();
    let admin = node.said.iter().find_map(|line| line.strip_prefix("admin http://")).unwrap();
    let script = format!("ETAG={commands}").replace("127.0.0.1:7780", admin.trim_end_matches('/'));
    let found = output(Command::new("sh").args(["-c", &script]).current_dir(folder.path()));
    assert!(stdout(&found).contains(r#""limit":"1500.00""#), "{}", stdout(&found));
}

/// The lines of README that a newcomer pastes first, on the sample budgets of `make run`.
#[test]
fn the_first_lines_of_the_readme_reserve_and_settle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let block = blocks(&readme).into_iter().find(|block| block.commands.contains("TOKEN="));
    let commands = block.unwrap().commands;
    let (run, lines) = commands.split_once('\n').unwrap();
    assert!(run.starts_with("make run"), "{run}");
    let budgets = std::fs::read_to_string(root.join("proof/hammer/demo.jsonl")).unwrap();
    let node = Setup::new(&budgets).start();
    let spend = node.said.iter().find_map(|line| line.strip_prefix("spend ")).unwrap();
    let lines = lines.replace("127.0.0.1:7704", spend);
    let found = output(Command::new("sh").args(["-c", &lines]));
    let said = stdout(&found);
    assert!(said.contains(r#""verdict":"settled","amount":"0.042""#), "{said}{}", stderr(&found));
}

/// The two nodes of README in one folder, and the first once more: each finds its own budgets in force.
#[test]
fn the_two_nodes_of_the_readme_do_not_meet() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let of_a_node = |block: &Block| block.commands.contains("\nweir run ");
    let found: Vec<Block> = blocks(&readme).into_iter().filter(of_a_node).collect();
    assert_eq!(found.len(), 2, "budgets, and campaigns");
    let folder = tempfile::tempdir().unwrap();
    for block in found.iter().chain(&found[..1]) {
        // As in the page, but for fewer campaigns and less time.
        let commands = block.commands.replace("50000", "500");
        let lines = commands.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        let lines: Vec<String> =
            lines.map(|line| line.trim_end_matches('&').trim().to_owned()).collect();
        let at = lines.iter().position(|line| line.starts_with("weir run")).unwrap();
        let (_running, addresses, _) = start(folder.path(), &lines[..=at].join("\n"));
        let is_tried = |line: &&String| {
            let tried = ["weir hammer", "weir stat", "weir why", "weir sample-request"];
            tried.iter().any(|name| line.starts_with(name))
        };
        let tried: Vec<&str> = lines[at..].iter().filter(is_tried).map(String::as_str).collect();
        assert!(tried.len() >= 2, "{tried:?}");
        let mut script = tried
            .join("\n")
            .replace("--duration 60s", "--duration 500ms")
            .replace("--duration 10s", "--duration 500ms");
        script += "\ncurl -sf http://127.0.0.1:7780/readyz\n";
        for (usual, address) in &addresses {
            script = script.replace(usual.as_str(), address);
        }
        let ran = output(&mut shell(folder.path(), &script));
        assert!(ran.status.success(), "{script}\n{}{}", stdout(&ran), stderr(&ran));
    }
}

/// A block of README as it stands, but for fewer and shorter things, and addresses that the node chose: the wait becomes one for these.
fn as_it_runs(block: &str) -> String {
    let mut script = String::from("set -m\ntrap 'kill -9 %1 2> /dev/null || true' EXIT\n");
    // What the node of another block said is not waited for.
    script += "rm -f said log\n";
    for line in block.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let line = line.replace("50000", "500").replace("60s", "500ms").replace("10s", "500ms");
        let line = match line.strip_suffix(" &") {
            Some(run) if run.starts_with("weir run ") => format!("{run} > said 2> log &"),
            _ if line.starts_with("until curl ") => AWAIT_READY.to_owned(),
            _ => line,
        };
        let doors = [("127.0.0.1:7700", "$batch"), ("127.0.0.1:7701", "$openrtb")];
        let line = doors.iter().fold(line, |line, (usual, name)| line.replace(usual, name));
        let _ = writeln!(script, "{line}");
    }
    script
}

/// A node that ends before it is ready ends the wait.
const AWAIT_READY: &str = "until grep -qx ready said; do kill -0 %1; sleep 0.1; done
address() { sed -n \"s/^$1 //p\" said; }; batch=$(address batch); openrtb=$(address openrtb)";

#[test]
fn every_command_of_the_readme_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let found = blocks(&readme);
    let found: Vec<&Block> =
        found.iter().filter(|block| block.commands.contains("\nweir run ")).collect();
    assert_eq!(found.len(), 2, "budgets, and campaigns");
    let folder = tempfile::tempdir().unwrap();
    for block in found {
        let script = as_it_runs(&block.commands);
        let ran = output(&mut shell(folder.path(), &script));
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(ran.status.success(), "{script}\n{}{}{log}", stdout(&ran), stderr(&ran));
    }
    for (made, holds) in
        [("hammer.txt", "audit"), ("request.json", "\"imp\""), ("settlements.csv", ",")]
    {
        let made = std::fs::read_to_string(folder.path().join(made)).unwrap();
        assert!(made.contains(holds), "{holds} not in {made}");
    }
}

/// The unit of systemd: both of its commands, in folders of the test, with the configuration that is installed with it.
#[test]
fn the_commands_of_the_unit_run_with_what_is_installed() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    let page = std::fs::read_to_string(dist.join("weir.service")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let here = text(folder.path());
    for name in ["weir.toml", "budgets.jsonl"] {
        std::fs::copy(dist.join(name), folder.path().join(name)).unwrap();
    }
    let command = |key: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        assert!(line.starts_with("/usr/bin/weir "), "{line}");
        line.replace("/usr/bin/", "")
            .replace("/etc/weir", here)
            .replace("/var/lib/weir", &format!("{here}/data"))
    };
    let checked = output(&mut shell(folder.path(), &command("ExecStartPre=")));
    assert!(checked.status.success(), "{}", stderr(&checked));
    let (_running, _, said) = start(folder.path(), &command("ExecStart="));
    assert!(said.iter().any(|line| line == "ready"), "{said:?}");
}

/// `make install` with a program that is built already.
#[test]
fn make_install_puts_the_program_where_it_is_told() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (folder, program) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_weir"));
    let mut make = Command::new("make");
    make.arg("-C").arg(root).args(["-o", program, "install", "PREFIX=/usr"]);
    make.arg(format!("WEIR={program}")).arg(format!("DESTDIR={}", text(folder.path())));
    let made = output(&mut make);
    assert!(made.status.success(), "{}{}", stdout(&made), stderr(&made));
    let installed = output(Command::new(folder.path().join("usr/bin/weir")).arg("--version"));
    assert!(stdout(&installed).starts_with("weir "), "{}", stderr(&installed));
}

#[test]
fn what_a_page_shows_is_compared() {
    assert!(is_shown(
        "{\"token\":\"…\",\"amount\":\"1.00\"}",
        "{\"token\":\"abc\",\"amount\":\"1.00\"}"
    ));
    assert!(is_shown("a\n…", "a\nanything"));
    for (shown, found) in [("a", "ab"), ("a…c", "abd"), ("a", "a\nb"), ("b…", "ab")] {
        assert!(!is_shown(shown, found), "{shown} {found}");
    }
    let page = "# A\n```sh\nweir dev\n```\n```sh\necho 1\n```\nprints\n```text\n1\n```\n```json\n{}\n```\n";
    let blocks = blocks(page);
    assert_eq!((blocks.len(), is_node(&blocks[0]), is_node(&blocks[1])), (2, true, false));
    assert_eq!(blocks[1].printed.as_deref(), Some("1\n"));
}
