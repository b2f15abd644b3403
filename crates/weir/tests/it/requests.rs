//! Asks that cannot be granted as they stand, and asks that come twice.

use wire::{DecideFlags, Verdict, decide};

use crate::client::{Client, Reply, ask, decide_frame, fresh_id};
use crate::support::{Node, Setup, line, over_transports};

/// The largest amount of an ask, as documented.
const ASK_MAX: i64 = 1_000_000_000_000_000;

fn in_unit(budget: u64, amount: i64, unit: [u8; 4]) -> decide::Ask {
    decide::Ask::new(fresh_id(), budget, amount, 7, unit, 0, 0)
}

/// Waits until so many asks were answered with a verdict.
fn wait_verdicts(node: &Node, verdict: &str, count: u64) {
    node.wait_stat(&format!("{count} times {verdict}"), |stat| {
        stat["doors"]["batch"]["verdicts"][verdict].as_u64() == Some(count)
    });
}

#[test]
fn amounts_and_budgets_that_cannot_be_are_refused_one_by_one() {
    let setup = || Setup::new(&line(1, "1000000000000", ""));
    over_transports(setup, |node| {
        let mut client = node.client();
        let amounts = [0, -1, i64::MIN, ASK_MAX + 1, i64::MAX, 5];
        let mut asks: Vec<_> = amounts.iter().map(|amount| ask(fresh_id(), 1, *amount)).collect();
        asks.push(ask(fresh_id(), 404, 5));
        asks.push(ask(fresh_id(), 0, 5));
        asks.push(ask(fresh_id(), u64::MAX, 5));
        let answers = client.decide(&asks);
        let verdicts: Vec<Verdict> = answers.iter().map(|(verdict, _)| *verdict).collect();
        assert_eq!(verdicts[..5], [Verdict::BadAmount; 5]);
        assert_eq!(verdicts[5], Verdict::Granted, "a good neighbour is not harmed");
        assert_eq!(verdicts[6..], [Verdict::UnknownBudget; 3]);
        for (verdict, token) in &answers {
            assert_eq!(*verdict == Verdict::Granted, *token != [0; 32], "{verdict:?}");
        }
        wait_verdicts(node, "bad_amount", 5);
        wait_verdicts(node, "unknown_budget", 3);
        client.grant(1, ASK_MAX);
    });
}

#[test]
fn units_never_mix() {
    let budgets = line(1, "100", "") + &line(2, "100", r#","unit":"EUR""#);
    let budgets = budgets + &line(3, "100", r#","unit":"count""#);
    over_transports(
        || Setup::new(&budgets),
        |node| {
            let mut client = node.client();
            let answers = client.decide(&[
                in_unit(1, 1, *b"EUR\0"),
                in_unit(2, 1, *b"USD\0"),
                in_unit(3, 1, *b"USD\0"),
                in_unit(1, 1, *b"COUN"),
                in_unit(1, 1, *b"usd\0"),
                in_unit(1, 1, *b"USD\0"),
                in_unit(2, 1, *b"EUR\0"),
                in_unit(3, 1, *b"COUN"),
                in_unit(2, 1, [0; 4]),
            ]);
            let verdicts: Vec<Verdict> = answers.iter().map(|(verdict, _)| *verdict).collect();
            assert_eq!(verdicts[..5], [Verdict::UnitMismatch; 5]);
            assert_eq!(verdicts[5..], [Verdict::Granted; 4]);
            wait_verdicts(node, "unit_mismatch", 5);
            assert_eq!(client.books(3, 1).1[0].unit, *b"COUN");
            assert_eq!(client.books(3, 1).1[0].limit, 100, "a count has no micros");
        },
    );
}

fn remembered(client: &mut Client, frame: u64, asks: &[decide::Ask]) -> Vec<u8> {
    client.send(&decide_frame(frame, DecideFlags::REMEMBER, asks));
    client.receive_bytes()
}

fn verdicts(bytes: &[u8]) -> Vec<Verdict> {
    match crate::client::reply(bytes) {
        Reply::Decided { answers, .. } => answers.into_iter().map(|(verdict, _)| verdict).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_repeated_request_gets_the_first_answer_byte_for_byte() {
    // An hour, so that nothing of it is forgotten or lapses while the test runs.
    let setup = || Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "600000");
    over_transports(setup, |node| {
        let mut client = node.client();
        let (granted, refused) = (ask(fresh_id(), 1, 1_000), ask(fresh_id(), 404, 1));
        let first = remembered(&mut client, 7, &[granted, refused]);
        assert_eq!(verdicts(&first), [Verdict::Granted, Verdict::UnknownBudget]);
        for _ in 0..3 {
            assert_eq!(remembered(&mut client, 7, &[granted, refused]), first);
        }
        let books = node.wait_budget(1, "the hold", |books| books.held == 1_000);
        assert_eq!(books.settled, 0, "held once");

        // Other content under the id of a request that is remembered.
        let id = granted.request_id();
        for other in [ask(id, 1, 1_001), ask(id, 2, 1_000), in_unit_as(id, *b"USD\0")] {
            let answer = remembered(&mut client, 8, &[other]);
            assert_eq!(verdicts(&answer), [Verdict::IdReused]);
        }
        assert_eq!(remembered(&mut client, 7, &[granted, refused]), first, "still the first one");
        wait_verdicts(node, "id_reused", 3);
        node.wait_stat("answers from memory", |s| s["doors"]["batch"]["remembered"] == 8);
    });
}

fn in_unit_as(id: u64, unit: [u8; 4]) -> decide::Ask {
    decide::Ask::new(id, 1, 1_000, 7, unit, 0, 0)
}

#[test]
fn a_refusal_stays_a_refusal_for_its_lifetime() {
    let setup = || Setup::new(&line(1, "0.001", "")).with("ledger.hold_ms", "600000");
    over_transports(setup, |node| {
        let mut client = node.client();
        let big = ask(fresh_id(), 1, 2_000);
        let first = remembered(&mut client, 1, &[big]);
        assert_ne!(verdicts(&first), [Verdict::Granted]);
        node.reload(&line(1, "1000", ""));
        client.wait_verdict(1, 2_000, Verdict::Granted);
        let again = remembered(&mut client, 1, &[big]);
        assert_eq!(verdicts(&again), verdicts(&first), "under another snapshot, still no");
    });
}

#[test]
fn request_ids_are_the_clients_own() {
    let setup = || Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "600000");
    over_transports(setup, |node| {
        let mut clients = [node.stranger(), node.stranger()];
        let id = fresh_id();
        let mut tokens = Vec::new();
        for (client, name) in clients.iter_mut().zip([501, 502]) {
            client.hello_as(name);
            let answer = client.decide_with(DecideFlags::REMEMBER, &[ask(id, 1, 10)]);
            assert_eq!(answer[0].0, Verdict::Granted);
            tokens.push(answer[0].1);
        }
        assert_ne!(tokens[0], tokens[1]);
        // The same client on another connection is the same client. (One worker: memory is the worker's.)
        let mut again = node.stranger();
        again.hello_as(501);
        let answer = again.decide_with(DecideFlags::REMEMBER, &[ask(id, 1, 10)]);
        assert_eq!(answer[0], (Verdict::Granted, tokens[0]));
    });
}

#[test]
fn without_the_flag_every_request_is_new() {
    let setup = || Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "600000");
    over_transports(setup, |node| {
        let mut client = node.client();
        let twice = ask(fresh_id(), 1, 1_000);
        let (first, second) = (client.decide(&[twice])[0], client.decide(&[twice])[0]);
        assert_eq!((first.0, second.0), (Verdict::Granted, Verdict::Granted));
        assert_ne!(first.1, second.1);
        node.wait_budget(1, "two holds", |books| books.held == 2_000);
    });
}

#[test]
fn a_memory_that_is_full_refuses_rather_than_forgets() {
    // The smallest table: 64 sets of eight.
    let setup = || {
        Setup::new(&line(1, "1000", ""))
            .with("ledger.hold_ms", "600000")
            .with("ledger.remember_max", "64")
    };
    over_transports(setup, |node| {
        let mut client = node.client();
        let mut busy = 0;
        for _ in 0..4 {
            let asks: Vec<_> = (0..1_000).map(|_| ask(fresh_id(), 404, 1)).collect();
            let answers = client.decide_with(DecideFlags::REMEMBER, &asks);
            busy += answers.iter().filter(|(verdict, _)| *verdict == Verdict::Busy).count();
        }
        assert_eq!(busy, 4_000 - 512);
        wait_verdicts(node, "busy", 4_000 - 512);
        assert_eq!(client.verdict(1, 1), Verdict::Granted, "others are served");
    });
}
