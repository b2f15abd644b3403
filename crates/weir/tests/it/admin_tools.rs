//! The tools that ask the admin door, against a real node that wants tokens and speaks TLS.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Node, Setup, output, stderr, stdout, text, weir};

const OPERATE: &str = "abcdefghijklmnop-operate";
const READ: &str = "abcdefghijklmnop-read";

/// Every tool that asks a node's admin door, with a word of its answer.
const TOOLS: [(&[&str], &str); 5] = [
    (&["stat"], "budgets_file.loads"),
    (&["stat", "--json", "--budget", "1"], "\"free\""),
    (&["why", "1"], "impressions surveyed"),
    (&["costs", "--seconds", "0.1"], "IDLE"),
    (&["top", "--once"], "weir top"),
];

/// A folder with what a locked node needs.
struct Locked {
    folder: TempDir,
}

impl Locked {
    fn new() -> Locked {
        let folder = tempfile::tempdir().unwrap();
        let locked = Locked { folder };
        locked.write("tokens", &format!("ann operate {OPERATE}\nbob read {READ}\n"));
        locked.write("operate", OPERATE);
        locked.write("read", READ);
        locked.write("unknown", "abcdefghijklmnop-unknown");
        locked
    }

    fn write(&self, name: &str, content: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setup(&self) -> Setup {
        // A campaign: `weir why` answers for nothing else.
        let campaigns = output(weir().args(["sample-campaigns", "--count", "1"]));
        Setup::new(&stdout(&campaigns)).with("admin.tokens_file", text(&self.path("tokens")))
    }

    /// The same over TLS, with a certificate for these names.
    fn over_tls(&self, names: &[&str]) -> Setup {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        self.write("ca", &made.cert.pem());
        self.write("key", &made.signing_key.serialize_pem());
        self.setup()
            .with("admin.tls_cert", text(&self.path("ca")))
            .with("admin.tls_key", text(&self.path("key")))
    }
}

fn run(tool: &[&str], more: &[&str]) -> Output {
    output(weir().args(tool).args(more).env_remove("WEIR_TOKEN"))
}

/// The tools succeed, and none shows its token.
fn all_answer(more: &[&str]) {
    for (tool, expected) in TOOLS {
        let found = run(tool, more);
        assert_eq!(found.status.code(), Some(0), "{tool:?}: {}", stderr(&found));
        assert!(stdout(&found).contains(expected), "{tool:?}: {}", stdout(&found));
        assert!(!(stdout(&found) + &stderr(&found)).contains("abcdefghijklmnop"), "{tool:?}");
    }
}

/// The tools fail with one sentence that holds `expected`.
fn all_fail(more: &[&str], code: i32, expected: &str) {
    for (tool, _) in TOOLS {
        let found = run(tool, more);
        let said = stderr(&found);
        assert_eq!(found.status.code(), Some(code), "{tool:?}: {said}");
        assert!(said.contains(expected) && stdout(&found).is_empty(), "{tool:?}: {said}");
        assert!(
            !said.contains("abcdefghijklmnop") && !said.contains("panicked"),
            "{tool:?}: {said}"
        );
        assert!(code == 2 || said.lines().count() == 1, "{tool:?}: {said}");
    }
}

#[test]
fn every_tool_asks_a_node_that_wants_tokens() {
    let locked = Locked::new();
    let node = locked.setup().start();
    let (data, admin) = (node.data(), node.admin.to_string());
    let file = |name| locked.path(name);
    for token in ["read", "operate"] {
        all_answer(&["--data", text(&data), "--token-file", text(&file(token))]);
    }
    all_answer(&["--target", &format!("http://{admin}/"), "--token-file", text(&file("read"))]);
    let by_environment = output(weir().args(["stat", "--target", &admin]).env("WEIR_TOKEN", READ));
    assert_eq!(by_environment.status.code(), Some(0), "{}", stderr(&by_environment));

    all_fail(&["--target", &admin], 1, "--token-file");
    all_fail(
        &["--target", &admin, "--token-file", text(&file("unknown"))],
        1,
        "wants a token that it knows",
    );
    all_fail(
        &["--target", &admin, "--token-file", text(&file("tokens"))],
        1,
        "expected the token alone",
    );
    all_fail(
        &["--target", &admin, "--token-file", text(&file("nowhere"))],
        1,
        &format!("weir: --token-file {}: No such file", text(&file("nowhere"))),
    );
    all_fail(
        &["--target", &format!("https://{admin}"), "--ca", text(&file("nowhere"))],
        1,
        &format!("weir: --ca {}: No such file", text(&file("nowhere"))),
    );
    locked.write("empty", "\n");
    all_fail(&["--target", &admin, "--token-file", text(&file("empty"))], 1, "there is no token");
    all_fail(&["--target", &format!("https://{admin}")], 1, "does not speak TLS");
    all_fail(&["--target", &admin, "--ca", text(&file("read"))], 1, "--ca has no meaning");
    all_fail(&["--target", "nowhere"], 2, "expected http://HOST:PORT");
    all_fail(&["--target", &format!("http://ann:{READ}@{admin}")], 2, "--token-file");
    journal_audit_asks(&node, &file("read"));
}

/// `weir journal audit --live` is a tool as well; its own data folder is that of the node.
fn journal_audit_asks(node: &Node, token: &Path) {
    let audit =
        |more: &[&str]| run(&["journal", "audit", "--live", "--data", text(&node.data())], more);
    let found = audit(&["--token-file", text(token)]);
    assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
    let found = audit(&[]);
    assert_ne!(found.status.code(), Some(0));
    assert!(stderr(&found).contains("--token-file"), "{}", stderr(&found));
}

#[test]
fn a_token_file_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let locked = Locked::new();
    let node = locked.setup().start();
    let token = locked.path("read");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = run(&["stat"], &["--data", text(&node.data()), "--token-file", text(&token)]);
    assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
    let said = stderr(&found);
    assert!(said.contains("others can read this token (mode 644); chmod 600"), "{said}");
    assert!(!said.contains(READ), "{said}");
}

#[test]
fn every_tool_asks_over_tls() {
    let locked = Locked::new();
    let node = locked.over_tls(&["localhost", "127.0.0.1"]).start();
    let (ca, token) = (locked.path("ca"), locked.path("read"));
    let (ca, token, data) = (text(&ca), text(&token), node.data());
    let target = format!("https://localhost:{}", node.admin.port());
    // The data folder says that the door speaks TLS.
    all_answer(&["--data", text(&data), "--token-file", token, "--ca", ca]);
    all_answer(&["--target", &target, "--token-file", token, "--ca", ca]);
    all_fail(&["--target", &target, "--token-file", token], 1, "give --ca FILE");
    all_fail(
        &["--data", text(&data), "--token-file", token, "--ca", token],
        1,
        "expected certificates in PEM",
    );
    all_fail(
        &["--target", &node.admin.to_string(), "--token-file", token],
        1,
        "speaks TLS; give --target https://",
    );
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let locked = Locked::new();
    let node = locked.over_tls(&["weir.example"]).start();
    let (ca, token) = (locked.path("ca"), locked.path("read"));
    let more = ["--data", text(&node.data()), "--token-file", text(&token), "--ca", text(&ca)]
        .map(str::to_owned);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    all_fail(&more, 1, "its certificate is not for 127.0.0.1, but for");
}

#[test]
fn what_a_hostile_node_answers_cannot_harm_the_terminal() {
    for (tool, body) in [
        (&["stat"][..], r#"{"a\u001b[2J":"b\u001b]0;x\u0007\u202e"}"#.to_owned()),
        (
            &["why", "1"],
            r#"{"name":"\u001b[2J","campaign":1,"counts":{"\u001b[31m":3}}"#.to_owned(),
        ),
        (&["costs", "--seconds", "0.1"], "a\u{1b}[2J\nb\u{7}\n".to_owned()),
        (&["stat", "--json"], r#"{"a":"\u001b[2J"}"#.to_owned()),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        });
        let found = run(tool, &["--target", &address]);
        thread.join().unwrap();
        assert_eq!(found.status.code(), Some(0), "{tool:?}: {}", stderr(&found));
        let harmful = |c: char| c == '\u{202e}' || (c.is_control() && c != '\n');
        assert!(!stdout(&found).contains(harmful), "{tool:?}: {:?}", stdout(&found));
    }
}

#[test]
fn the_other_doors_are_no_admin_door() {
    let node = Setup::new("").start();
    let openrtb = node.said[1].strip_prefix("openrtb ").unwrap();
    all_fail(
        &["--target", openrtb],
        1,
        "it is not the admin door; is it another door of the node?",
    );
    all_fail(&["--target", &node.batch.to_string()], 1, "door");
    let found = run(&["stat", "--budget", "9"], &["--target", &node.admin.to_string()]);
    let expected = format!("weir: there is no budget 9 at {}\n", node.admin);
    assert_eq!((found.status.code(), stderr(&found)), (Some(1), expected));
}

/// The folder's node was killed, and another one took its address.
#[test]
fn another_node_at_the_address_of_a_data_folder_is_told() {
    let campaigns = stdout(&output(weir().args(["sample-campaigns", "--count", "1"])));
    let before = Setup::new(&campaigns);
    let gone = before.clone().start();
    let setup = Setup::new(&campaigns);
    let (data, file) = (gone.data(), gone.data().join("addresses.json"));
    let was = gone.admin.to_string();
    all_answer(&["--data", text(&data)]);
    drop(gone);
    let other = setup.start();
    let left = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, left.replace(&was, &other.admin.to_string())).unwrap();
    let expected = format!("node at {} does not run on {}", other.admin, data.display());
    all_fail(&["--data", text(&data)], 1, &expected);
    let audit = run(&["journal", "audit", "--live", "--data", text(&data)], &[]);
    assert_eq!(audit.status.code(), Some(1), "{}", stderr(&audit));
    assert!(stderr(&audit).contains(&expected), "{}", stderr(&audit));
    // Who names the address means who is there.
    all_answer(&["--target", &other.admin.to_string(), "--data", text(&data)]);
    // A file of an earlier release says nothing of a run.
    std::fs::write(&file, format!("{{\"admin\":\"{}\"}}", other.admin)).unwrap();
    all_answer(&["--data", text(&data)]);
}

/// A kill leaves the address, a stop does not; one whose run was never noted elsewhere is kept as a trace of it.
#[test]
fn a_clean_stop_takes_the_addresses_away() {
    let setup = Setup::new("");
    let file = setup.data().join("addresses.json");
    for noted in [true, false] {
        if !noted {
            std::fs::remove_file(setup.data().join("watermark.weir")).unwrap();
            std::fs::create_dir(setup.data().join("watermark.tmp")).unwrap();
        }
        let mut node = setup.clone().start();
        assert!(file.exists());
        node.terminate();
        assert_eq!(node.wait_end().code(), Some(0), "{}", node.log());
        assert_eq!(file.exists(), !noted);
    }
}

#[test]
fn the_benchmark_of_costs_needs_no_token_of_the_environment() {
    let (locked, folder) = (Locked::new(), tempfile::tempdir().unwrap());
    let mut command = weir();
    command.args(["costs", "--bench", "--seconds", "0.1", "--json"]).env("TMPDIR", folder.path());
    command.env("WEIR_WORKERS__PIN", "false").env("WEIR_JOURNAL__SEGMENT_BYTES", "4194304");
    command.env("WEIR_ADMIN__TOKENS_FILE", locked.path("tokens"));
    let found = output(&mut command);
    assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
    serde_json::from_str::<Value>(&stdout(&found)).unwrap();
}
