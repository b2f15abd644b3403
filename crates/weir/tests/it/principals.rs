//! Token files: who enters the doors of a node, and what they may name there.

use std::path::Path;

use weir_config::config::Config;
use weir_survey::Node;
use wire::{Reason, Verdict};

use crate::client::{Client, Reply, ask, books_frame, hello_frame};
use crate::support::{
    Setup, at_any_port, cores, line, output, over_transports, stderr, stdout, text, weir,
};

/// What `weir token new` makes for a file: the token.
pub(crate) fn token(file: &Path, words: &[&str]) -> String {
    let arguments = [&["token", "new", "--append", text(file)], words].concat();
    let made = output(weir().args(arguments));
    assert!(made.status.success(), "{}", stderr(&made));
    stdout(&made).trim().to_owned()
}

fn budgets() -> String {
    [1001, 2001, 2002].map(|id| line(id, "1000", "")).concat()
}

fn enters(client: &mut Client, token: &str) -> bool {
    client.send(&hello_frame((1, 2), 1, token.as_bytes()));
    match client.receive() {
        Reply::Welcome { .. } => true,
        Reply::Refused { reason: Reason::Unauthorised, .. } => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn principals_enter_with_their_tokens_beside_the_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let shop =
        token(&file, &["--name", "shop", "--role", "spend", "--scope", "budget:1001,budget:200*"]);
    let some = token(&file, &["--name", "some", "--role", "spend", "--scope", "budget:2001"]);
    let whole = token(&file, &["--name", "whole", "--role", "spend"]);
    let ann = token(&file, &["--name", "ann", "--role", "operate"]);
    let setup = || {
        Setup::new(&budgets())
            .with("batch.tokens_file", text(&file))
            .with("batch.auth_token", "open sesame")
            .with("admin.tokens_file", text(&file))
    };
    over_transports(setup, |node| {
        for (token, allowed) in [
            (&*shop, [true, true, true]),
            (&some, [false, true, false]),
            (&whole, [true; 3]),
            ("open sesame", [true; 3]),
        ] {
            let mut client = node.stranger();
            assert!(enters(&mut client, token));
            let asks = [1001, 2001, 2002].map(|id| ask(id, id, 1));
            let verdicts = client.decide(&asks).into_iter().map(|(verdict, _)| verdict);
            let known: Vec<bool> = verdicts.map(|v| v != Verdict::UnknownBudget).collect();
            assert_eq!(known, allowed);
        }
        for wrong in [&ann, "", "sha256:", &shop[..52]] {
            let mut client = node.stranger();
            assert!(!enters(&mut client, wrong));
            client.expect_end();
        }
        let mut client = node.stranger();
        assert!(enters(&mut client, &some));
        client.send(&books_frame(9, 0, 10));
        let (frame, detail) = client.expect_refusal(Reason::Unauthorised);
        assert!(frame == 9 && detail.contains("scopes"), "{detail}");
        assert!(!client.decide(&[ask(1, 2001, 1)]).is_empty(), "the connection lives on");
    });
}

/// A node in this process, so that its files can be read again.
fn started(folder: &Path, tokens: &Path) -> (Node, Config) {
    let mut config = Config::default();
    at_any_port(&mut config);
    config.node.data_dir = folder.join("data");
    config.budgets.file = folder.join("budgets.jsonl");
    config.workers.pin = false;
    config.workers.cores = cores(1).parse().unwrap();
    config.journal.segment_bytes = 4 << 20;
    config.batch.tokens_file = tokens.display().to_string();
    std::fs::write(&config.budgets.file, budgets()).unwrap();
    (Node::start(&config).unwrap(), config)
}

#[test]
fn a_file_that_is_read_again_counts_on_connections_that_are_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let shop = token(&file, &["--name", "shop", "--role", "spend"]);
    let (node, config) = started(folder.path(), &file);
    let mut client = Client::connect(node.address("batch"));
    assert!(enters(&mut client, &shop));
    let known = |client: &mut Client| client.verdict(1001, 1) != Verdict::UnknownBudget;
    assert!(known(&mut client));
    // A file that is half saved: what is in force stays.
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let errors = node.tokens().reload(&config).unwrap_err();
    assert!(errors[0].contains("tokens:1: "), "{errors:?}");
    assert!(known(&mut client));
    std::fs::write(&file, format!("{} budget:2001\n", whole.trim_end())).unwrap();
    node.tokens().reload(&config).unwrap();
    assert!(!known(&mut client), "limited on the open connection");
    assert_ne!(client.verdict(2001, 1), Verdict::UnknownBudget);
    // Its token is taken back.
    std::fs::write(&file, "other spend other-0123456789\n").unwrap();
    node.tokens().reload(&config).unwrap();
    client.send(&crate::client::decide_frame(77, wire::DecideFlags::default(), &[ask(1, 2001, 1)]));
    client.expect_refusal(Reason::Unauthorised);
    client.expect_end();
    assert!(!enters(&mut Client::connect(node.address("batch")), &shop));
    assert!(enters(&mut Client::connect(node.address("batch")), "other-0123456789"));
    assert!(node.stop());
}

#[test]
fn a_bad_token_file_stops_the_start_and_the_check_with_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "shop spend short\nann owner aaaaaaaaaaaaaaaa\n").unwrap();
    let setup = Setup::new(&budgets()).with("batch.tokens_file", text(&file));
    let error = setup.clone().try_start().err().expect("a refused start");
    std::fs::write(&file, "ann operate aaaaaaaaaaaaaaaa\n").unwrap();
    let nobody = setup.try_start().err().expect("a refused start");
    for (said, expected) in [
        (&error, "batch.tokens_file"),
        (&error, "tokens:1: the token of shop"),
        (&error, "tokens:2: the role of ann"),
        (&nobody, "no line has the role spend"),
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!error.contains("aaaaaaaa"), "{error}");
}
