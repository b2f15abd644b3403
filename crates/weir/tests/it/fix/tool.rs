//! `weir fix`, beside a running node and over what a stopped one left.

use std::process::Output;

use super::{Client, SESSION, field, setup};
use crate::support::{Node, Setup, output, stderr, stdout, text, weir};

fn run(setup: &Setup, arguments: &[&str]) -> Output {
    let data = setup.data();
    output(weir().arg("fix").args(arguments).args(["--data", text(&data)]))
}

/// What a command prints that succeeds.
fn printed(setup: &Setup, arguments: &[&str]) -> String {
    let ran = run(setup, arguments);
    assert!(ran.status.success(), "{arguments:?}: {}", stderr(&ran));
    stdout(&ran)
}

/// What a command says that fails.
fn refused(setup: &Setup, arguments: &[&str]) -> String {
    let ran = run(setup, arguments);
    assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {}", stdout(&ran));
    stderr(&ran)
}

fn acts_on_client(of: &[&'static str]) -> Vec<&'static str> {
    [of, &["--session", "CLIENT1", "--reason", "end of the day"]].concat()
}

/// A node whose client has sent an order and got it back.
fn with_an_order() -> (Setup, Node, Client) {
    let setup = setup(&SESSION.replace("\"echo\"", "\"echo\"\nvalidation = \"off\""));
    let node = setup.clone().start();
    let mut client = Client::log_on(&node, 1);
    client.order("first");
    assert_eq!(field(&client.receive_message(), "11"), "first");
    (setup, node, client)
}

/// The message of a line, without the parts that change.
fn kinds(lines: &str) -> Vec<String> {
    let kind = |line: &str| {
        let [at, direction, session, message] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert!(at.len() == "2026-11-23T10:00:00.000123Z".len() && at.ends_with('Z'), "{line}");
        assert_eq!(session, "CLIENT1");
        assert!(message.starts_with("8=FIX.4.4|9=") && message.ends_with('|'), "{line}");
        format!("{direction} {}", field(message, "35"))
    };
    lines.lines().map(kind).collect()
}

#[test]
fn sessions_and_messages_are_shown_of_a_node_that_runs_and_of_one_that_was_killed() {
    let (setup, node, client) = with_an_order();
    let status = printed(&setup, &["status"]);
    let words: Vec<&str> = status.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..5], ["CLIENT1", "client", "logged_on", "3", "3"], "{status}");
    let json: serde_json::Value =
        serde_json::from_str(&printed(&setup, &["status", "--json", "--session", "CLIENT1"]))
            .unwrap();
    assert_eq!(json["sessions"][0]["messages_in"], 2, "{json}");
    let live = printed(&setup, &["messages", "--session", "CLIENT1"]);
    assert_eq!(kinds(&live), ["in A", "out A", "in D", "out D"]);
    let raw = printed(&setup, &["messages", "--session", "CLIENT1", "--raw"]);
    assert_eq!(raw.replace('\x01', "|"), live);
    let json = printed(&setup, &["messages", "--session", "CLIENT1", "--json"]);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["direction"], &first["session"]), (&"in".into(), &"CLIENT1".into()));
    assert!(first["message"].as_str().unwrap().contains("\x0135=A\x01"), "{first}");
    let (long_ago, in_future) = ("2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z");
    let messages = ["messages", "--session", "CLIENT1"];
    assert_eq!(printed(&setup, &[&messages[..], &["--from", in_future]].concat()), "");
    assert_eq!(printed(&setup, &[&messages[..], &["--to", long_ago]].concat()), "");
    drop(client);
    drop(node);
    // It was killed: its address is still in the folder.
    for _ in 0..2 {
        let ran = run(&setup, &messages);
        assert!(stderr(&ran).contains("no node runs on"), "{}", stderr(&ran));
        assert_eq!(stdout(&ran), live);
        let _ = std::fs::remove_file(setup.data().join("addresses.json"));
    }
    assert_eq!(printed(&setup, &[&messages[..], &["--to", long_ago]].concat()), "");
    let status = printed(&setup, &["status"]);
    let words: Vec<&str> = status.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((words[..3].to_vec(), words.len()), (vec!["CLIENT1", "3", "3"], 5), "{status}");
    for of in ["status", "messages"] {
        let told = refused(&setup, &[of, "--session", "NOBODY"]);
        assert!(told.contains("there is no FIX session \"NOBODY\"; there are: CLIENT1"), "{told}");
    }
    let told = refused(&setup, &["logout", "--session", "CLIENT1", "--reason", "a test"]);
    assert!(told.contains("is a node running on this data folder?"), "{told}");
}

#[test]
fn every_byte_of_a_message_is_there_whatever_it_is() {
    let (setup, node, mut client) = with_an_order();
    let text = b"11=second\x0155=ACME\x0158=caf\xe9\x01";
    client.send_bytes("D", text);
    assert_eq!(field(&client.receive_message(), "11"), "second");
    let raw = ["messages", "--session", "CLIENT1", "--raw"];
    let live = run(&setup, &raw).stdout;
    assert!(live.windows(text.len()).any(|part| part == text), "{live:?}");
    drop(node);
    assert_eq!(run(&setup, &raw).stdout, live);
}

/// In an answer of the node each control character takes six bytes: a page with such a message is larger than other answers may be.
#[test]
fn messages_of_any_size_are_shown_and_so_are_those_behind_them() {
    let session = format!(
        "{}validation = \"off\"\nbody_bytes_max = 4000000\noutbound_bytes_max = 8000000\n",
        SESSION
    );
    let setup = setup(&session);
    let node = setup.clone().start();
    let mut client = Client::log_on(&node, 1);
    let data = vec![2; 1_500_000];
    let mut large = format!("11=large\x0155=ACME\x01354={}\x01355=", data.len()).into_bytes();
    large.extend_from_slice(&data);
    large.push(1);
    client.send_bytes("D", &large);
    assert_eq!(field(&client.receive_message(), "11"), "large");
    client.order("behind it");
    assert_eq!(field(&client.receive_message(), "11"), "behind it");
    let shown = printed(&setup, &["messages", "--session", "CLIENT1"]);
    assert_eq!(kinds(&shown), ["in A", "out A", "in D", "out D", "in D", "out D"]);
    let raw = run(&setup, &["messages", "--session", "CLIENT1", "--raw"]).stdout;
    assert_eq!(raw.iter().filter(|byte| **byte == 2).count(), 3_000_000, "both ways, whole");
}

#[test]
fn sessions_are_acted_upon_with_a_reason() {
    let (setup, node, mut client) = with_an_order();
    let act = acts_on_client;
    assert!(refused(&setup, &act(&["reset"])).contains("409: nothing was done: the session has"));
    let told = refused(&setup, &["logout", "--session", "CLIENT1", "--reason", "no"]);
    assert!(told.contains("422: reason: found") && told.contains("3 to 500 characters"), "{told}");
    let told = refused(&setup, &["logout", "--session", "a/b", "--reason", "a test"]);
    assert!(told.contains("there is no FIX session \"a/b\""), "{told}");
    let ran = run(&setup, &["logout", "--session", "CLIENT1"]);
    assert!(stderr(&ran).contains("--reason <TEXT>"), "{}", stderr(&ran));
    printed(&setup, &act(&["resend", "--from", "1"]));
    let asked = client.receive_message();
    assert_eq!(["35", "7", "16"].map(|tag| field(&asked, tag)), ["2", "1", "0"]);
    assert!(printed(&setup, &act(&["logout"])).contains("logging_out"));
    assert_eq!(field(&client.receive_message(), "35"), "5");
    client.send("5", "");
    assert_eq!(client.receive(), None);
    let after = printed(&setup, &act(&["reset"]));
    let words: Vec<&str> = after.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..5], ["CLIENT1", "client", "waiting", "1", "1"], "{after}");
    let (_, audit) = node.get("/v1/audit");
    for action in ["fix_resend", "fix_logout", "fix_reset"] {
        assert!(audit.contains(action), "{audit}");
    }
    assert_eq!(audit.matches("end of the day").count(), 3, "{audit}");
}

#[test]
fn messages_are_orders_and_need_the_role_operate() {
    let setup = setup(SESSION);
    let [tokens, reader, operator] =
        ["tokens", "reader", "operator"].map(|name| setup.folder().join(name));
    let (read, operate) = ("r".repeat(32), "o".repeat(32));
    std::fs::write(&tokens, format!("ann read {read}\nbob operate {operate}\n")).unwrap();
    std::fs::write(&reader, read).unwrap();
    std::fs::write(&operator, operate).unwrap();
    let node = setup.clone().with("admin.tokens_file", text(&tokens)).start();
    let _client = Client::connect(&node);
    let with = |file, of: &[&str]| run(&setup, &[of, &["--token-file", text(file)]].concat());
    let status = with(&reader, &["status"]);
    assert!(stdout(&status).contains("CLIENT1"), "{}", stderr(&status));
    let messages = ["messages", "--session", "CLIENT1"];
    for of in [&messages[..], &["orders"]] {
        let told = stderr(&with(&reader, of));
        assert!(told.contains("messages are orders, which need the role operate"), "{told}");
    }
    assert!(with(&operator, &messages).status.success());
    let logout = ["logout", "--session", "CLIENT1", "--reason", "a test"];
    assert!(stderr(&with(&reader, &logout)).contains("needs the role operate"));
}

/// A token is shown once: one that nobody could read is in no file, and that is told.
#[test]
fn a_token_that_nobody_read_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = weir();
    command.args(["token", "new", "--name", "shop", "--role", "spend", "--append", text(&file)]);
    let ran = command.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{}", stderr(&ran));
    assert!(stderr(&ran).contains("output cannot be written"), "{}", stderr(&ran));
    assert!(!std::fs::read_to_string(&file).unwrap_or_default().contains("shop"));
}

/// `| head -1` that has what it wants: a command ends quietly, and with the code that it has otherwise.
#[test]
fn commands_end_quietly_when_their_reader_is_gone() {
    let (setup, node, client) = with_an_order();
    let data = setup.data();
    let quiet = |words: &str, code: i32| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = weir();
        command.args(words.split(' ')).args(["--data", text(&data)]).stdout(writer);
        let ran = command.stderr(std::process::Stdio::piped()).output().unwrap();
        let told = stderr(&ran);
        let is_told = ["roken pipe", "os error", "panicked"].iter().any(|word| told.contains(word));
        assert!(!is_told, "{words}: {told}");
        assert_eq!(ran.status.code(), Some(code), "{words}: {told}");
    };
    for words in ["fix status", "fix status --json", "fix messages --session CLIENT1", "stat"] {
        quiet(words, 0);
    }
    quiet("vault status", 2);
    drop((client, node));
    for words in [
        "fix status",
        "fix messages --session CLIENT1",
        "fix messages --session CLIENT1 --json",
        "journal inspect",
        "journal verify",
        "journal audit",
        "journal export --from 2026-01-01 --to 2027-01-01 --format csv",
    ] {
        quiet(words, 0);
    }
}
