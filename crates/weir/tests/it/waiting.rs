//! Frames that wait for the bank, with the flag `awaitFill` or because they have a single ask: the first ask of a budget gets what the budget has, not what the worker's purse happened to have.

use wire::{Action, DecideFlags, Verdict, resolve};

use crate::client::{
    Client, Reply, ask, books_frame, decide_frame, fresh_id, pod_ask, resolve_frame,
};
use crate::support::{Setup, line, over_transports};

/// A frame waits for as long as the bank needs, and holds outlive the test.
fn patient(budgets: &str) -> Setup {
    Setup::new(budgets).with("batch.wait_ms", "10000").with("ledger.hold_ms", "600000")
}

fn first(client: &mut Client, budget: u64, amount: i64) -> Verdict {
    client.decide_with(DecideFlags::AWAIT_FILL, &[ask(fresh_id(), budget, amount)])[0].0
}

#[test]
fn the_first_ask_of_a_fresh_budget_is_granted_where_the_money_is_there() {
    let budgets = || {
        patient(
            &[line(1, "10", ""), line(2, "100", ""), line(3, "100", ""), line(4, "100", "")]
                .concat(),
        )
    };
    over_transports(budgets, |node| {
        let mut client = node.client();
        assert_eq!(first(&mut client, 1, 250_000), Verdict::Granted, "0.25 of 10");
        assert_eq!(first(&mut client, 2, 20_000_000), Verdict::Granted, "20 of 100");
        assert_eq!(first(&mut client, 3, 90_000_000), Verdict::Granted, "90 of 100");
        // Without the flag the purse of the start is all there is for several asks.
        let two = [ask(fresh_id(), 4, 40_000_000), ask(fresh_id(), 4, 40_000_000)];
        let answers = client.decide(&two);
        assert!(answers.iter().all(|(verdict, _)| *verdict == Verdict::PurseEmpty), "{answers:?}");
        node.wait_budget(3, "held", |books| books.held == 90_000_000);
    });
}

/// A shop's budget, and a client that sets no flag: what the limit covers is granted, and the next one is told that it is not.
#[test]
fn a_single_ask_waits_without_the_flag() {
    over_transports(
        || patient(&(line(1, "50.00", "") + &line(2, "50.00", r#","daily":"10.00""#))),
        |node| {
            let mut client = node.client();
            let verdicts = |client: &mut Client, id, times: usize| -> Vec<Verdict> {
                (0..times).map(|_| client.verdict(id, 3_000_000)).collect()
            };
            assert_eq!(verdicts(&mut client, 1, 16), [Verdict::Granted; 16], "48.00 of 50.00");
            client.wait_verdict(1, 3_000_000, Verdict::Exhausted);
            assert_eq!(verdicts(&mut client, 2, 3), [Verdict::Granted; 3], "9.00 of 10.00");
            client.wait_verdict(2, 3_000_000, Verdict::DayExhausted);
            client.wait_verdict(2, 1_000_000, Verdict::Granted);
        },
    );
}

/// It waits alone: frames behind it on the same connection are answered first, and each answer names its frame.
#[test]
fn a_single_ask_that_waits_holds_up_no_frame_behind_it() {
    let budgets =
        || patient(&(line(1, "100", "") + &line(2, "100", ""))).with("journal.gather_us", "200000");
    over_transports(budgets, |node| {
        let mut client = node.client();
        let small = [ask(fresh_id(), 2, 1), ask(fresh_id(), 2, 1)];
        let flags = DecideFlags::default();
        let frames = [
            decide_frame(1, flags, &[ask(fresh_id(), 1, 90_000_000)]),
            decide_frame(2, flags, &small),
        ];
        client.send(&frames.concat());
        let mut answered = || match client.receive() {
            Reply::Decided { frame, answers } => (frame, answers[0].0),
            other => panic!("{other:?}"),
        };
        let (first, second) = (answered(), answered());
        assert_eq!((first.0, second), (2, (1, Verdict::Granted)), "{first:?}");
    });
}

#[test]
fn asks_of_a_frame_add_up() {
    let budgets = || patient(&[line(1, "10", ""), line(2, "10", ""), line(3, "10", "")].concat());
    over_transports(budgets, |node| {
        let mut client = node.client();
        let asks: Vec<_> = (0..10).map(|_| ask(fresh_id(), 1, 990_000)).collect();
        let answers = client.decide_with(DecideFlags::AWAIT_FILL, &asks);
        assert!(answers.iter().all(|(verdict, _)| *verdict == Verdict::Granted), "{answers:?}");
        // A pod over two fresh budgets.
        let pod = [pod_ask(2, 9_000_000, 1), pod_ask(3, 9_000_000, 1)];
        let answers = client.decide_with(DecideFlags::AWAIT_FILL, &pod);
        assert!(answers.iter().all(|(verdict, _)| *verdict == Verdict::Granted), "{answers:?}");
        // All or none: of one member there is not enough any more.
        let pod = [pod_ask(2, 500_000, 1), pod_ask(3, 2_000_000, 1)];
        let answers = client.decide_with(DecideFlags::AWAIT_FILL, &pod);
        assert_eq!(answers[0].0, Verdict::PodRefused, "{answers:?}");
        assert_ne!(answers[1].0, Verdict::Granted, "{answers:?}");
        node.wait_budget(2, "nothing more held", |books| books.held == 9_000_000);
    });
}

#[test]
fn where_there_is_no_money_the_answer_is_no() {
    let child = line(2, "100", r#","parent":1"#);
    let budgets = || patient(&[line(1, "10", ""), child.clone(), line(3, "5", "")].concat());
    over_transports(budgets, |node| {
        let mut client = node.client();
        let short = [Verdict::PurseEmpty, Verdict::Exhausted];
        assert!(short.contains(&first(&mut client, 3, 6_000_000)));
        assert!(short.contains(&first(&mut client, 2, 20_000_000)), "the parent has 10");
        assert_eq!(first(&mut client, 2, 8_000_000), Verdict::Granted);
        assert_eq!(first(&mut client, 99, 1), Verdict::UnknownBudget);
        assert_eq!(first(&mut client, 3, 0), Verdict::BadAmount);
    });
}

#[test]
fn a_remembered_answer_is_the_first_one() {
    over_transports(
        || patient(&line(1, "100", "")),
        |node| {
            let mut client = node.client();
            let asks = [ask(fresh_id(), 1, 50_000_000)];
            let flags = DecideFlags::AWAIT_FILL.with(DecideFlags::REMEMBER);
            // Both are under way before the first is judged.
            let frames = [decide_frame(1, flags, &asks), decide_frame(2, flags, &asks)].concat();
            client.send(&frames);
            let answers: Vec<_> = (0..2)
                .map(|_| match client.receive() {
                    Reply::Decided { answers, .. } => answers[0],
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(answers[0].0, Verdict::Granted);
            assert_eq!(answers[0], answers[1], "one hold");
            node.wait_budget(1, "held once", |books| books.held == 50_000_000);
        },
    );
}

/// The reason that the purse noted when its money was called in is old by then.
#[test]
fn a_limit_that_was_lowered_below_the_purse_is_there_at_the_first_ask() {
    over_transports(
        || patient(&line(1, "1000", "")),
        |node| {
            node.wait_budget(1, "a filled purse", |books| books.purses > 0);
            node.reload(&line(1, "5", ""));
            // Empty, or with a share of the new limit if the worker asked for one at the wrong moment.
            node.wait_budget(1, "a smaller purse", |books| books.purses < 4_000_000);
            // As long as the bank is left alone after its last word.
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert_eq!(first(&mut node.client(), 1, 4_000_000), Verdict::Granted);
        },
    );
}

/// A client that finishes sending before it reads: settles, books and frames that wait for the bank are answered all the same.
#[test]
fn a_half_closed_client_gets_all_that_it_is_owed() {
    let budgets = || patient(&line(1, "100", "")).with("journal.gather_us", "20000");
    over_transports(budgets, |node| {
        for _ in 0..20 {
            let token = node.client().grant(1, 1_000);
            let mut client = node.client();
            client.send(&resolve_frame(1, &[resolve::Item::new(token, 1_000, Action::Settle, 0)]));
            client.send(&books_frame(2, 1, 1));
            let ask = ask(fresh_id(), 1, 1_000_000);
            client.send(&decide_frame(3, DecideFlags::AWAIT_FILL, &[ask]));
            client.stream.shutdown(std::net::Shutdown::Write).unwrap();
            let (mut settled, mut books, mut decided) = (0, 0, 0);
            for _ in 0..3 {
                match client.receive() {
                    Reply::Resolved { answers, .. } => {
                        settled += 1;
                        assert_eq!(answers, [(Verdict::Settled, false)]);
                    }
                    Reply::Decided { .. } => decided += 1,
                    Reply::Books { .. } => books += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((settled, books, decided), (1, 1, 1));
            client.expect_end();
        }
    });
}
