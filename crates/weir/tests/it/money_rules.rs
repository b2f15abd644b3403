//! Limits, days, parents, pods and the lives of holds, end to end.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use wire::{Action, DecideFlags, Verdict};

use crate::client::{Client, ask, fresh_id, pod_ask};
use crate::support::{Node, Setup, cores, line, over_transports, wait_for};

/// Asks until the budget has nothing more to give; returns what was granted.
fn drain(node: &Node, budget: u64, amount: i64) -> (i64, Verdict) {
    let mut client = node.client();
    let (mut granted, mut last) = (0, Verdict::Granted);
    let mut in_vain = 0;
    wait_for("the last coin", || {
        let before = granted;
        let asks: Vec<_> = (0..50).map(|_| ask(fresh_id(), budget, amount)).collect();
        for (verdict, _) in client.decide(&asks) {
            if verdict == Verdict::Granted {
                granted += amount;
            }
            last = verdict;
        }
        if granted > before || !matches!(last, Verdict::Exhausted | Verdict::DayExhausted) {
            in_vain = 0;
        }
        // While money lies in another purse, the answer may be too early by a tenth of a second.
        std::thread::sleep(Duration::from_millis(10));
        in_vain += 1;
        in_vain > 50
    });
    (granted, last)
}

#[test]
fn the_last_coin_is_granted_and_none_after_it() {
    // 1,000 micros and holds that outlive the test.
    let setup = || Setup::new(&line(1, "0.001", "")).with("ledger.hold_ms", "600000");
    over_transports(setup, |node| {
        assert_eq!(drain(node, 1, 7), (994, Verdict::Exhausted));
        assert_eq!(drain(node, 1, 1), (6, Verdict::Exhausted));
        let books = node.wait_budget(1, "all of it held", |books| books.held == 1_000);
        assert_eq!(books.unspent(), 0);
        let stat = node.wait_stat("refusals", |s| {
            s["doors"]["batch"]["verdicts"]["exhausted"].as_u64() > Some(0)
        });
        assert_eq!(stat["bank"]["budgets"], 1);
    });
}

#[test]
fn a_day_has_its_limit() {
    let setup = || {
        Setup::new(&line(1, "10", r#","daily":"0.001","tz":"Asia/Kathmandu""#))
            .with("ledger.hold_ms", "600000")
    };
    over_transports(setup, |node| {
        // Around midnight there the test would see two days.
        let before = node.client().grant(1, 1);
        assert_ne!(before, [0; 32]);
        assert_eq!(drain(node, 1, 9), (999, Verdict::DayExhausted));
        let books = node.wait_budget(1, "the day's money held", |books| books.held == 1_000);
        assert_eq!(books.unspent(), 10_000_000 - 1_000, "the rest is for other days");
    });
}

#[test]
fn parents_bind_their_children() {
    let setup = || {
        let budgets = line(1, "0.001", "")
            + &line(2, "10", r#","parent":1"#)
            + &line(3, "0.0001", r#","parent":1"#)
            + &line(4, "10", r#","parent":2"#);
        Setup::new(&budgets).with("ledger.hold_ms", "600000")
    };
    over_transports(setup, |node| {
        assert_eq!(drain(node, 3, 10), (100, Verdict::Exhausted), "its own limit");
        assert_eq!(drain(node, 4, 10), (900, Verdict::Exhausted), "what its parents have left");
        assert_eq!(drain(node, 2, 10), (0, Verdict::Exhausted));
        assert_eq!(drain(node, 1, 10), (0, Verdict::Exhausted));
        let out = |id| node.wait_budget(id, "what is out", |books| books.free >= 0);
        assert_eq!((out(1).free, out(1).held + out(1).purses), (0, 1_000));
        assert_eq!(out(3).held + out(3).purses, 100);
        assert_eq!(out(2).held + out(2).purses, 900, "a child's money is its parent's too");
    });
}

#[test]
fn flights_begin_and_end() {
    let setup = || {
        let budgets = line(1, "1", r#","start":"2100-01-01T00:00:00Z""#)
            + &line(2, "1", r#","end":"2020-01-01T00:00:00Z""#)
            + &line(3, "1", r#","status":"paused""#)
            + &line(4, "1", r#","parent":3"#)
            + &line(5, "0", "");
        Setup::new(&budgets)
    };
    over_transports(setup, |node| {
        let mut client = node.client();
        client.wait_verdict(1, 1, Verdict::NotStarted);
        client.wait_verdict(2, 1, Verdict::Ended);
        client.wait_verdict(3, 1, Verdict::Paused);
        client.wait_verdict(4, 1, Verdict::Paused);
        client.wait_verdict(5, 1, Verdict::Exhausted);
        node.wait_stat("the reasons", |stat| {
            let verdicts = &stat["doors"]["batch"]["verdicts"];
            ["not_started", "ended", "paused", "exhausted"].iter().all(|v| verdicts[v].is_u64())
        });
    });
}

#[test]
fn pods_are_granted_all_or_none() {
    let setup = || {
        let budgets = line(1, "10", "") + &line(2, "10", "") + &line(3, "0.0001", "");
        Setup::new(&budgets).with("ledger.hold_ms", "600000")
    };
    over_transports(setup, |node| {
        let mut client = node.client();
        [1, 2].into_iter().for_each(|budget| {
            client.grant(budget, 1);
        });
        let verdicts = |answers: &[(Verdict, [u8; 32])]| -> Vec<Verdict> {
            answers.iter().map(|(verdict, _)| *verdict).collect()
        };
        use Verdict::{Exhausted, Granted, PodRefused, UnknownBudget};

        let answers = client.decide(&[pod_ask(1, 10, 1), pod_ask(2, 10, 1)]);
        assert_eq!(verdicts(&answers), [Granted, Granted]);
        node.wait_budget(1, "the pod", |books| books.held == 11);
        node.wait_budget(2, "the pod", |books| books.held == 11);

        // Wherever the member stands that cannot be had; pods beside it and single asks are not harmed.
        client.wait_verdict(3, 1_000, Exhausted);
        let answers = client.decide(&[
            pod_ask(1, 10, 1),
            pod_ask(3, 1_000, 1),
            pod_ask(2, 10, 1),
            pod_ask(2, 20, 2),
            pod_ask(1, 20, 2),
            ask(fresh_id(), 1, 30),
            pod_ask(404, 1, 3),
            pod_ask(1, 10, 3),
        ]);
        let expected = [
            PodRefused,
            Exhausted,
            PodRefused,
            Granted,
            Granted,
            Granted,
            UnknownBudget,
            PodRefused,
        ];
        assert_eq!(verdicts(&answers), expected);
        for (verdict, token) in &answers {
            assert_eq!(*verdict == Granted, *token != [0; 32]);
        }
        let held = |id| {
            node.wait_budget(id, "what was granted", |books| {
                books.held == 11 + 20 + if id == 1 { 30 } else { 0 }
            })
        };
        assert_eq!((held(1).settled, held(2).settled), (0, 0));
        node.wait_stat("the counters", |stat| {
            let verdicts = &stat["doors"]["batch"]["verdicts"];
            verdicts["pod_refused"] == 3 && stat["doors"]["batch"]["granted"] == 7
        });
        // A neighbour with the number of an earlier pod is another pod.
        let split = [pod_ask(1, 1, 1), ask(fresh_id(), 1, 1), pod_ask(404, 1, 1)];
        assert_eq!(verdicts(&client.decide(&split)), [Granted, Granted, UnknownBudget]);
    });
}

#[test]
fn pods_are_not_remembered_and_say_so() {
    over_transports(
        || Setup::new(&line(1, "10", "")),
        |node| {
            let answers = node
                .client()
                .decide_with(DecideFlags::REMEMBER, &[pod_ask(1, 1, 1), pod_ask(1, 1, 1)]);
            assert!(answers.iter().all(|(verdict, _)| *verdict == Verdict::PodRefused));
        },
    );
}

#[test]
fn lost_holds_come_back_by_themselves_and_every_micro_is_always_somewhere() {
    let setup = || {
        Setup::new(&line(1, "0.1", r#","on_expiry":"release""#))
            .with("ledger.hold_ms", "200")
            .with("ledger.billing_ms", "1000")
    };
    over_transports(setup, |node| {
        let mut client = node.client();
        let mut settled = 0;
        for round in 0..20 {
            // `budget` checks conservation at every look.
            let tokens: Vec<_> = (0..5).map(|_| client.grant(1, 700)).collect();
            node.budget(1);
            if round % 2 == 0 {
                let (verdict, _) = client.settle(tokens[0], 500);
                settled += i64::from(verdict == Verdict::Settled) * 500;
            }
            client.resolve(tokens[1], 0, Action::Confirm);
            client.resolve(tokens[2], 0, Action::Release);
            node.budget(1);
        }
        // What nobody settled is free again: also what was confirmed and never billed.
        let books = node.wait_budget(1, "the end of all holds", |books| books.held == 0);
        assert_eq!(books.settled, settled);
        assert_eq!(books.settled + books.late + books.over_settled + books.unspent(), 100_000);
        // And it can be had again, to the last coin.
        let rest = books.unspent();
        let (mut got, mut another) = (0, node.client());
        wait_for("the rest of the money", || {
            if another.verdict(1, 2_000) == Verdict::Granted {
                got += 2_000;
            }
            got >= rest / 2
        });
    });
}

#[test]
fn several_clients_never_get_more_than_there_is() {
    // Two workers where there are two cores: their purses compete, too.
    let setup = || {
        let budgets = line(1, "0.01", "") + &line(2, "10", r#","parent":1"#);
        Setup::new(&budgets).with("ledger.hold_ms", "600000").with("workers.cores", &cores(2))
    };
    over_transports(setup, |node| {
        let granted = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for seed in 0..6 {
                let (node, granted) = (&*node, &granted);
                scope.spawn(move || {
                    let (mut client, mut done, mut turn) = (node.client(), 0, seed);
                    wait_for("exhaustion", || {
                        turn += 1;
                        let (budget, amount) =
                            (1 + turn % 2, 1 + i64::try_from(turn % 13).unwrap());
                        match client.verdict(budget, amount) {
                            Verdict::Granted => _ = granted.fetch_add(amount, Ordering::Relaxed),
                            Verdict::Exhausted => done += 1,
                            Verdict::PurseEmpty => {}
                            other => panic!("{other:?}"),
                        }
                        done > 20
                    });
                });
            }
        });
        let mut granted = granted.into_inner();
        // The last coins may lie in the purse of the other worker, which is asked for them but takes its time.
        let mut clients: Vec<_> = (0..4).map(|_| node.client()).collect();
        wait_for("the last coin", || {
            for client in &mut clients {
                granted += i64::from(client.verdict(1, 1) == Verdict::Granted);
            }
            assert!(granted <= 10_000, "{granted} of 10,000 micros");
            granted == 10_000
        });
        for client in &mut clients {
            assert_ne!(client.verdict(1, 1), Verdict::Granted);
        }
        node.wait_budget(1, "all of it out", |books| books.held + books.purses == 10_000);
    });
}

/// Where a seal takes long, two workers that both want a small budget do not take it from each other before either can use it.
#[test]
fn a_small_budget_is_spent_by_two_workers_on_a_slow_disk() {
    let node = Setup::new(&line(1, "10", ""))
        .with("ledger.hold_ms", "600000")
        .with("workers.cores", &cores(2))
        .with("journal.gather_us", "1000000")
        .with("journal.gather_idle_us", "1000000")
        .start();
    let mut clients: Vec<Client> = (0..8).map(|_| node.client()).collect();
    let mut granted = 0;
    wait_for("all of the budget", || {
        for client in &mut clients {
            granted += u32::from(client.verdict(1, 1_000_000) == Verdict::Granted);
        }
        granted == 10
    });
}
