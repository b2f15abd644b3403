//! Who may log on with which password, and where passwords are not.

use std::net::TcpStream;
use std::path::Path;

use super::operating::wait_state;
use super::venues::{listeners, with_venue};
use super::{Client, SESSION, door, field, setup};
use crate::keys::write_secret;
use crate::support::{Node, Setup, output, stderr, stdout, text, weir};

/// Made by the reference's tool: `printf WORD | argon2 somesalt -id -t 1 -k 64 -p 1 -l 32 -e`.
const SECRET: &str =
    "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$4mqQiyq0VpIzuZmp+8eSF3YJ7Av58TkEJ4LIdOVsAc4";

fn with_file(lines: &str) -> Setup {
    let setup = setup("");
    let file = setup.folder().join("fix-passwords");
    std::fs::write(&file, lines).unwrap();
    let config = format!("{SESSION}validation = \"off\"\npassword_file = {:?}\n", text(&file));
    std::fs::write(setup.folder().join("weir.toml"), config).unwrap();
    setup
}

/// What the node answers to a Logon with further fields.
fn answer(node: &Node, next_out: u64, more: &str) -> (Client, Option<String>) {
    let mut client = Client { next_out, ..Client::connect(node) };
    client.send("A", &format!("98=0|108=30|{more}"));
    let answer = client.receive();
    (client, answer)
}

#[test]
fn who_has_no_user_and_password_is_told_nothing() {
    let node = with_file(&format!("# the desk\nann {SECRET}\n")).start();
    let wrong = [
        "",
        "553=ann|",
        "554=secret|",
        "553=ann|554=Secret|",
        "553=bob|554=secret|",
        "553=ann|554=secret2|",
    ];
    for more in wrong {
        assert_eq!(answer(&node, 1, more).1, None, "{more}");
    }
    let long = format!("553=ann|554={}|", "x".repeat(2_000));
    assert_eq!(answer(&node, 1, &long).1, None);
    let (mut client, logon) = answer(&node, 1, "553=ann|554=secret|");
    assert_eq!(field(&logon.expect("a Logon"), "35"), "A");
    client.order("first");
    assert_eq!(field(&client.receive_message(), "11"), "first");
    node.wait_stat("all but one refused", |stat| {
        stat["doors"]["fix"]["refused_logons"] == wrong.len() + 1
    });
}

#[test]
fn what_comes_with_the_logon_waits_for_it() {
    let node = with_file(&format!("ann {SECRET}")).start();
    let mut client = Client::connect(&node);
    client.send("A", "98=0|108=30|553=ann|554=secret|");
    client.send("1", "112=behind it|");
    client.order("and more");
    assert_eq!(field(&client.receive().unwrap(), "35"), "A");
    assert_eq!(field(&client.receive().unwrap(), "112"), "behind it");
    assert_eq!(field(&client.receive_message(), "11"), "and more");
}

#[test]
fn a_crowd_that_guesses_keeps_nobody_out() {
    let node = with_file(&format!("ann {SECRET}")).start();
    let guess = |number: u32| {
        let stream = TcpStream::connect(door(&node)).unwrap();
        let mut client = Client::over(stream, ("CLIENT1", "GATE"));
        client.send("A", &format!("98=0|108=30|553=ann|554=guess{number}|"));
        client
    };
    let crowd: Vec<Client> = (0..100).map(guess).collect();
    for mut guesser in crowd {
        assert_eq!(guesser.receive(), None);
    }
    assert!(answer(&node, 1, "553=ann|554=secret|").1.is_some());
}

#[test]
fn a_node_stops_while_a_password_is_checked() {
    // Many passes over much memory: the check is under way when the node is to stop.
    let slow = SECRET.replace("m=64,t=1", "m=262144,t=16");
    let mut node = with_file(&format!("ann {slow}")).start();
    let mut client = Client::connect(&node);
    client.send("A", "98=0|108=30|553=ann|554=secret|");
    node.interrupt();
    assert_eq!(client.receive(), None);
    assert!(node.wait_end().success());
}

/// Every file below a folder that has these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path).unwrap().windows(bytes.len()).any(|part| part == bytes) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn no_password_and_no_hash_is_ever_kept_or_told() {
    let setup = with_file(&format!("ann {SECRET}")).with("log.level", "debug");
    let node = setup.clone().start();
    let planted = "planted-4711";
    assert_eq!(answer(&node, 1, &format!("553=ann|554={planted}|925={planted}|")).1, None);
    let (mut client, logon) =
        answer(&node, 1, &format!("553=ann|554=secret|95=12|96={planted}|925={planted}|"));
    assert!(logon.is_some());
    let request = format!("923=1|924=3|553=ann|554={planted}|925={planted}|1402={planted}|");
    client.send("BE", &request);
    client.send("1", "112=after it|");
    while field(&client.receive().unwrap(), "35") != "0" {}
    let hash = SECRET.rsplit('$').next().unwrap();
    let data = setup.data();
    let tool = ["fix", "messages", "--session", "CLIENT1", "--raw", "--data", text(&data)];
    let shown = stdout(&output(weir().args(tool)));
    assert!(shown.contains("\x01554=***\x01"), "{shown}");
    let calls = ["/v1/fix/sessions", "/v1/fix/sessions/CLIENT1/messages", "/v1/config", "/metrics"];
    let told: String = calls.iter().map(|path| node.get(path).1).collect();
    for secret in [planted, "=secret", hash] {
        assert_eq!(files_with(&data, secret.as_bytes()), [""; 0], "{secret}");
        for text in [&shown, &told, &node.log()] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_told_with_its_lines_and_stops_the_start() {
    let told = |setup: &Setup| {
        let config = setup.folder().join("weir.toml");
        let ran = output(weir().args(["check", "--config", text(&config)]));
        assert_eq!(ran.status.code(), Some(1), "{}", stdout(&ran));
        stderr(&ran)
    };
    let setup = with_file(&format!("ann {SECRET}\nann {SECRET}\nbob secret\n"));
    for text in [told(&setup), setup.clone().try_start().err().expect("it does not start")] {
        assert!(text.contains("fix.session.password_file: ") && text.contains(":2: user \"ann\""));
        assert!(text.contains(":3: user \"bob\": found no such hash"), "{text}");
        assert!(!text.contains(SECRET), "{text}");
    }
    std::fs::remove_file(setup.folder().join("fix-passwords")).unwrap();
    assert!(told(&setup).contains("fix-passwords: No such file"), "{}", told(&setup));
}

/// A venue that wants user and password gets them, and nobody else does.
#[test]
fn a_venue_is_shown_user_and_password_and_nobody_else_is() {
    let ([listener], addresses) = listeners();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    write_secret(&file, "marked-s3cret\n");
    let shown = format!("username = \"desk\"\npassword_file = {:?}\n", text(&file));
    let setup = with_venue(&addresses, &shown);
    let node = setup.start();
    let mut venue = Client::over(listener.accept().unwrap().0, ("VENUE", "GATE"));
    let logon = venue.receive().expect("a Logon");
    assert!(logon.contains("|98=0|108=30|553=desk|554=marked-s3cret|"), "{logon}");
    venue.send("A", "98=0|108=30|");
    wait_state(&node, "venue1", "logged_on");
    let data = node.data();
    let messages = ["fix", "messages", "--session", "venue1", "--data", text(&data)];
    let told = stdout(&output(weir().args(messages)));
    assert!(told.contains("553=desk|554=***|"), "{told}");
    assert_eq!(files_with(&data, b"marked-s3cret"), Vec::<String>::new());
    assert!(!node.log().contains("marked-s3cret"));
}
