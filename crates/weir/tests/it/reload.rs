//! The configuration read again while the node runs: `weir reload`, `POST /v1/reload`, SIGHUP.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use wire::{DecideFlags, Reason, Verdict};

use crate::client::{Client, Reply, ask, decide_frame, hello_frame};
use crate::support::{Node, Setup, line, output, stderr, stdout, text, wait_for, weir};

const SHOP: &str = "shop-0123456789abcdef";
const OTHER: &str = "other-0123456789abcdef";
const ANN: &str = "ann-0123456789abcdef";
const VIEWER: &str = "viewer-0123456789abcdef";

/// A node's files, with a configuration that can change.
struct Files {
    setup: Setup,
    folder: PathBuf,
}

impl Files {
    fn new(more: &str) -> Files {
        let setup = Setup::new(&line(1, "1000", ""));
        let folder = setup.budgets_file().parent().unwrap().to_owned();
        let files = Files { setup, folder };
        files.configure(more);
        files.write("tokens", &tokens(SHOP));
        files.write("ann", ANN);
        files.write("viewer", VIEWER);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn configure(&self, more: &str) {
        let tokens = self.path("tokens");
        let file = format!("tokens_file = {:?}\n", text(&tokens));
        self.write("weir.toml", &format!("[batch]\n{file}[admin]\n{file}{more}"));
    }

    fn reload_as(&self, who: &str) -> Output {
        let (data, token) = (self.setup.data(), self.path(who));
        output(weir().args(["reload", "--data", text(&data), "--token-file", text(&token)]))
    }

    /// `weir reload` refuses, and says each of these.
    fn refused(&self, expected: &[&str]) -> String {
        let done = self.reload_as("ann");
        let said = stderr(&done);
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(stdout(&done).is_empty() && said.contains("nothing was changed"), "{said}");
        for words in expected {
            assert!(said.contains(words), "{words}: {said}");
        }
        said
    }

    fn reloads(&self) {
        let done = self.reload_as("ann");
        assert!(done.status.success(), "{}", stderr(&done));
        for key in ["batch.tokens_file: ", "admin.tokens_file: "] {
            assert!(stdout(&done).contains(key), "{}", stdout(&done));
        }
    }
}

fn tokens(shop: &str) -> String {
    format!("shop spend {shop}\nann operate {ANN}\nviewer read {VIEWER}\n")
}

fn enters(client: &mut Client, token: &str) -> bool {
    client.send(&hello_frame((1, 2), 1, token.as_bytes()));
    match client.receive() {
        Reply::Welcome { .. } => true,
        Reply::Refused { reason: Reason::Unauthorised, .. } => false,
        other => panic!("{other:?}"),
    }
}

fn entered(node: &Node, token: &str) -> Client {
    let mut client = node.stranger();
    assert!(enters(&mut client, token), "{}", node.log());
    client
}

fn reloads(node: &Node) -> usize {
    node.log().matches("the configuration was reloaded").count()
}

#[test]
fn a_token_that_is_gone_ends_its_open_connection() {
    let files = Files::new("");
    let node = files.setup.clone().start();
    let mut client = entered(&node, SHOP);
    assert_ne!(client.verdict(1, 1), Verdict::UnknownBudget);
    files.write("tokens", &tokens(OTHER));
    assert_ne!(client.verdict(1, 1), Verdict::UnknownBudget, "not read yet");
    files.reloads();
    client.send(&decide_frame(7, DecideFlags::default(), &[ask(1, 1, 1)]));
    client.expect_refusal(Reason::Unauthorised);
    client.expect_end();
    assert!(!enters(&mut node.stranger(), SHOP));
    // By a signal, and twice: the second changes nothing.
    files.write("tokens", &tokens(SHOP));
    node.signal("HUP");
    wait_for("the reload by a signal", || reloads(&node) == 2);
    entered(&node, SHOP);
    files.reloads();
    files.reloads();
    entered(&node, SHOP);
    let config = node.log();
    assert!(config.contains("who=\"ann\"") && config.contains("who=\"a signal\""), "{config}");
}

#[test]
fn what_needs_a_restart_is_refused_by_name_and_nothing_is_changed() {
    let files = Files::new("[ledger]\nhold_ms = 2000\n");
    let node = files.setup.clone().start();
    files.write("tokens", &tokens(OTHER));
    files.configure("[ledger]\nhold_ms = 3000\nlate_ms = 7\n[openrtb]\npath_token = \"sesame\"\n");
    let said = files.refused(&[
        "3 reason(s)",
        "ledger.hold_ms: 2000 is in force, 3000 is configured; restart the node",
        "ledger.late_ms: 3600000 is in force, 7 is configured",
        "openrtb.path_token: \"not set\" is in force, \"set, hidden\" is configured",
    ]);
    assert!(!said.contains("sesame") && !node.log().contains("sesame"), "{said}");
    entered(&node, SHOP);
    node.signal("HUP");
    wait_for("the refusal of a signal", || {
        node.log().matches("the reload was refused whole").count() == 2
    });
    entered(&node, SHOP);
    // A door that asks for tokens does not lose its file.
    files.write("weir.toml", "[ledger]\nhold_ms = 2000\n");
    files.refused(&["batch.tokens_file: a door gets or loses its token file only at a start"]);
    entered(&node, SHOP);
    files.configure("[ledger]\nhold_ms = 2000\n");
    files.reloads();
    entered(&node, OTHER);
}

#[test]
fn a_file_that_is_half_saved_or_gone_changes_nothing() {
    let files = Files::new("");
    let node = files.setup.clone().start();
    let whole = std::fs::read_to_string(files.path("weir.toml")).unwrap();
    files.write("tokens", &tokens(OTHER));
    files.write("weir.toml", &whole[..whole.len() - 3]);
    files.refused(&["weir.toml:"]);
    std::fs::remove_file(files.path("weir.toml")).unwrap();
    files.refused(&["weir.toml: cannot be read"]);
    std::fs::create_dir(files.path("weir.toml")).unwrap();
    files.refused(&["weir.toml: cannot be read"]);
    std::fs::remove_dir(files.path("weir.toml")).unwrap();
    files.write("weir.toml", "[batch]\nlisten = \"nowhere\"\n[ledger]\nhold_ms = 1\n");
    files.refused(&["batch.listen: found \"nowhere\"", "ledger.hold_ms: found 1"]);
    files.write("weir.toml", &whole);
    let half = tokens(OTHER);
    files.write("tokens", &half[..half.find("viewer").unwrap() + 12]);
    files.refused(&["tokens:3: "]);
    std::fs::remove_file(files.path("tokens")).unwrap();
    files.refused(&["batch.tokens_file", "No such file"]);
    entered(&node, SHOP);
    files.write("tokens", &half);
    files.reloads();
    entered(&node, OTHER);
}

#[test]
fn a_viewers_token_reloads_nothing() {
    let files = Files::new("");
    let node = files.setup.clone().start();
    files.write("tokens", &tokens(OTHER));
    let done = files.reload_as("viewer");
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("needs the role operate"), "{}", stderr(&done));
    files.write("nobody", "nobody-0123456789abcdef");
    assert_eq!(files.reload_as("nobody").status.code(), Some(1));
    assert_eq!(reloads(&node), 0);
    entered(&node, SHOP);
}

#[test]
fn batches_in_flight_are_answered_while_the_node_reloads() {
    const FRAMES: u64 = 2_000;
    let files = Files::new("");
    let node = files.setup.clone().start();
    let mut client = entered(&node, SHOP);
    let mut writer = client.writer();
    let asks = std::thread::spawn(move || {
        for frame in 0..FRAMES {
            let asks = [ask(2 * frame, 1, 1), ask(2 * frame + 1, 1, 1)];
            writer.write_all(&decide_frame(frame, DecideFlags::default(), &asks)).unwrap();
        }
    });
    for _ in 0..20 {
        node.signal("HUP");
    }
    for _ in 0..FRAMES {
        let answer = client.receive();
        assert!(matches!(answer, Reply::Decided { .. }), "{answer:?}");
    }
    asks.join().unwrap();
    wait_for("a reload", || reloads(&node) > 0);
}

/// The node waits for its configuration, which comes out of a pipe, when the signal arrives.
#[test]
fn a_signal_before_the_node_is_ready_is_taken_up_then() {
    let files = Files::new("");
    let (path, whole) = (files.path("weir.toml"), std::fs::read_to_string(files.path("weir.toml")));
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut command = files.setup.command();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = child.stderr.take().unwrap();
    // Opens once the node reads.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let hang_up = format!("kill -HUP {}", child.id());
    assert!(Command::new("sh").args(["-c", &hang_up]).status().unwrap().success());
    files.write("after.toml", whole.as_ref().unwrap());
    std::fs::rename(files.path("after.toml"), &path).unwrap();
    pipe.write_all(whole.unwrap().as_bytes()).unwrap();
    drop(pipe);
    let mut lines = std::io::BufReader::new(log).lines().map_while(Result::ok);
    let found = lines.any(|line| line.contains("the configuration was reloaded"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found, "the log ended without a reload");
}

/// Somebody puts a pipe into the place of a file: nothing waits for it, and the node stops when it is told to.
#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_stops_nothing() {
    let files = Files::new("");
    let mut node = files.setup.clone().start();
    for name in ["tokens", "weir.toml"] {
        let (path, aside) = (files.path(name), files.path("aside"));
        std::fs::rename(&path, &aside).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        files.refused(&[name, "expected a regular file"]);
        let before = node.log().matches("nothing was changed").count();
        node.signal("HUP");
        wait_for("the log", || node.log().matches("nothing was changed").count() > before);
        std::fs::rename(&aside, &path).unwrap();
    }
    // One without an end, and one that never answers, where whoever is not root may not even open it.
    let (path, aside) = (files.path("weir.toml"), files.path("aside"));
    std::fs::rename(&path, &aside).unwrap();
    for (target, told) in
        [("/dev/zero", "expected a regular file"), ("/proc/kmsg", "cannot be read")]
    {
        std::os::unix::fs::symlink(target, &path).unwrap();
        files.refused(&["weir.toml", told]);
        std::fs::remove_file(&path).unwrap();
    }
    let large = std::fs::File::create(&path).unwrap();
    large.set_len(3 << 30).unwrap();
    files.refused(&["weir.toml", "longer than 1048576 bytes"]);
    std::fs::rename(&aside, &path).unwrap();
    files.reloads();
    node.signal("HUP");
    node.terminate();
    assert!(node.wait_end().success(), "{}", node.log());
}

/// The same with the budgets file: it is refused, read again once it is a file, and the node stops when it is told to.
#[test]
fn a_pipe_or_a_device_in_the_place_of_the_budgets_file_is_refused() {
    let mut node = Setup::new(&line(1, "10", "")).start();
    let file = node.budgets_file();
    for replace in [["mkfifo", "", ""], ["ln", "-s", "/dev/zero"]] {
        std::fs::remove_file(&file).unwrap();
        let [program, flag, target] = replace;
        let words = [flag, target].into_iter().filter(|word| !word.is_empty());
        assert!(Command::new(program).args(words).arg(&file).status().unwrap().success());
        node.wait_stat("the refusal", |stat| {
            stat["budgets_file"]["errors"].to_string().contains("expected a regular file")
        });
        let told = output(weir().args(["check", "--budgets", text(&file)]));
        assert!(stderr(&told).contains("expected a regular file"), "{}", stderr(&told));
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, line(1, "20", "")).unwrap();
        node.wait_stat("no error", |stat| {
            !stat["budgets_file"]["errors"].to_string().contains("expected a regular file")
        });
    }
    node.terminate();
    assert!(node.wait_end().success(), "{}", node.log());
}

fn certificate(files: &Files, name: &str) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
    files.write(name, &made.cert.pem());
    files.write("cert.pem", &made.cert.pem());
    files.write("key.pem", &made.signing_key.serialize_pem());
}

#[test]
fn the_admin_doors_certificate_is_read_again() {
    let files = Files::new("");
    certificate(&files, "first.pem");
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| files.path(name));
    files.configure(&format!("tls_cert = {:?}\ntls_key = {:?}\n", text(&cert), text(&key)));
    let node = files.setup.clone().start();
    let target = format!("https://{}", node.admin);
    let run = |command: &str, ca: &Path| {
        let token = files.path("ann");
        let options = ["--target", &target, "--token-file", text(&token), "--ca", text(ca)];
        output(weir().arg(command).args(options)).status.success()
    };
    let first = files.path("first.pem");
    assert!(run("stat", &first));
    // A key that does not belong to the certificate.
    let before = std::fs::read_to_string(&key).unwrap();
    certificate(&files, "second.pem");
    let second = files.path("second.pem");
    let after = std::fs::read_to_string(&key).unwrap();
    std::fs::write(&key, before).unwrap();
    assert!(!run("reload", &first), "a certificate with another's key");
    assert!(run("stat", &first));
    std::fs::write(&key, after).unwrap();
    assert!(run("reload", &first));
    assert!(run("stat", &second) && !run("stat", &first));
}
