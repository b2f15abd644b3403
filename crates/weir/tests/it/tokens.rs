//! Confirms, settles and releases, and the tokens they should not be made with.

use serde_json::Value;
use wire::{Action, Reason, Verdict, resolve};

use crate::client::{Client, Token, resolve_frame};
use crate::support::{Node, Setup, line, over_transports};

/// Holds that do not lapse while a test runs.
fn lasting() -> Setup {
    Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "600000")
}

/// Holds that lapse at once.
fn fleeting() -> Setup {
    Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "80")
}

fn wait_resolved(node: &Node, verdict: &str, count: u64) {
    node.wait_stat(&format!("{count} resolved as {verdict}"), |stat: &Value| {
        stat["doors"]["batch"]["resolved"][verdict].as_u64() == Some(count)
    });
}

#[test]
fn the_life_of_a_hold() {
    over_transports(lasting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        node.wait_budget(1, "the hold", |books| books.held == 5_000);
        assert_eq!(client.resolve(token, 0, Action::Confirm), (Verdict::Confirmed, false));
        assert_eq!(client.resolve(token, 0, Action::Confirm), (Verdict::Confirmed, true));
        assert_eq!(client.settle(token, 3_000), (Verdict::Settled, false));
        let books = node.wait_budget(1, "the settlement", |books| books.held == 0);
        assert_eq!((books.settled, books.over_settled, books.late), (3_000, 0, 0));
        assert_eq!(client.resolve(token, 0, Action::Release), (Verdict::AlreadySettled, false));
        assert_eq!(client.resolve(token, 0, Action::Confirm), (Verdict::AlreadySettled, false));

        let token = client.grant(1, 5_000);
        assert_eq!(client.resolve(token, 0, Action::Release), (Verdict::Released, false));
        assert_eq!(client.resolve(token, 0, Action::Release), (Verdict::Released, true));
        assert_eq!(client.resolve(token, 0, Action::Confirm), (Verdict::AlreadyReleased, false));
        let books = node.wait_budget(1, "the release", |books| books.held == 0);
        assert_eq!(books.unspent(), 1_000_000_000 - 3_000);
        for (verdict, count) in [
            ("confirmed", 2),
            ("settled", 1),
            ("already_settled", 2),
            ("released", 2),
            ("already_released", 1),
        ] {
            wait_resolved(node, verdict, count);
        }
    });
}

#[test]
fn a_replayed_settle_is_booked_once() {
    over_transports(lasting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        assert_eq!(client.settle(token, 4_000), (Verdict::Settled, false));
        for amount in [4_000, 4_000, 1, 5_000] {
            assert_eq!(client.settle(token, amount), (Verdict::Settled, true));
        }
        // On another connection, and several times in one frame.
        let mut other = node.client();
        let items = [resolve::Item::new(token, 4_000, Action::Settle, 0); 5];
        assert_eq!(other.resolve_all(&items), [(Verdict::Settled, true); 5]);
        let fresh = client.grant(1, 5_000);
        let items = [resolve::Item::new(fresh, 1_000, Action::Settle, 0); 3];
        let once = [(Verdict::Settled, false), (Verdict::Settled, true), (Verdict::Settled, true)];
        assert_eq!(other.resolve_all(&items), once);
        assert_eq!(node.budget(1).settled, 5_000);
        node.wait_stat("repeats", |stat| stat["doors"]["batch"]["repeats"] == 11);
    });
}

#[test]
fn a_settle_above_its_hold_is_booked_whole_on_two_lines() {
    over_transports(lasting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        assert_eq!(client.settle(token, 7_000), (Verdict::SettledOver, false));
        assert_eq!(client.settle(token, 7_000), (Verdict::SettledOver, true));
        let books = node.budget(1);
        assert_eq!((books.settled, books.over_settled, books.late), (5_000, 2_000, 0));
        wait_resolved(node, "settled_over", 2);
    });
}

#[test]
fn a_settle_after_its_hold_is_gone_is_booked_late() {
    over_transports(fleeting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        let unconfirmed = client.grant(1, 100);
        node.wait_budget(1, "the end of the holds", |books| books.held == 0);
        // The hold's money is back; what was spent without it is a debt.
        std::thread::sleep(std::time::Duration::from_millis(120));
        assert_eq!(client.resolve(unconfirmed, 0, Action::Confirm), (Verdict::Expired, false));
        assert_eq!(client.resolve(unconfirmed, 0, Action::Release), (Verdict::Expired, false));
        assert_eq!(client.settle(token, 4_000), (Verdict::SettledLate, false));
        assert_eq!(client.settle(token, 4_000), (Verdict::SettledLate, true));
        let books = node.wait_budget(1, "the end of the holds", |books| books.held == 0);
        assert_eq!((books.settled, books.over_settled, books.late), (0, 0, 4_000));
        assert_eq!(books.unspent(), 1_000_000_000 - 4_000);
        wait_resolved(node, "settled_late", 2);
        wait_resolved(node, "expired", 2);
    });
}

#[test]
fn a_confirmed_hold_outlives_its_first_deadline() {
    over_transports(fleeting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        // On a machine that stands still for 80 ms the hold may be gone before it is confirmed: then again.
        let mut confirmed = (token, client.resolve(token, 0, Action::Confirm));
        while confirmed.1.0 == Verdict::Expired {
            let token = client.grant(1, 5_000);
            confirmed = (token, client.resolve(token, 0, Action::Confirm));
        }
        assert_eq!(confirmed.1, (Verdict::Confirmed, false));
        let other = client.grant(1, 70);
        node.wait_budget(1, "the end of the others", |books| books.held == 5_000);
        std::thread::sleep(std::time::Duration::from_millis(120));
        assert_eq!(client.resolve(other, 0, Action::Confirm).0, Verdict::Expired);
        assert_eq!(client.settle(confirmed.0, 5_000), (Verdict::Settled, false));
        let books = node.budget(1);
        assert_eq!((books.settled, books.late), (5_000, 0));
    });
}

#[test]
fn forged_tokens_move_nothing() {
    over_transports(lasting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        let before = node.wait_budget(1, "the hold", |books| books.held == 5_000);
        // Any byte of it; those of the node and key number tell more than that it is wrong.
        for at in (0..32).filter(|at| !(8..=10).contains(at)) {
            let mut forged = token;
            forged[at] ^= 1;
            for action in [Action::Confirm, Action::Settle, Action::Release] {
                assert_eq!(client.resolve(forged, 9, action), (Verdict::Forged, false), "{at}");
            }
        }
        let mut key = token;
        key[10] ^= 0xff;
        assert_eq!(client.settle(key, 9).0, Verdict::TooOld);
        assert_eq!(client.settle([0; 32], 9).0, Verdict::Foreign, "node 0");
        assert_eq!(client.settle([0xff; 32], 9).0, Verdict::Foreign, "node 65,535");
        let after = node.budget(1);
        assert_eq!((after.held, after.settled, after.late), (before.held, 0, 0));
        wait_resolved(node, "forged", 29 * 3);
        assert_eq!(client.settle(token, 9), (Verdict::Settled, false), "the true one still counts");
    });
}

#[test]
fn foreign_tokens_are_told_from_forged_ones() {
    let other = lasting().with("node.id", "2").start();
    let foreign = other.client().grant(1, 5_000);
    over_transports(lasting, |node| {
        let mut client = node.client();
        for action in [Action::Confirm, Action::Settle, Action::Release] {
            assert_eq!(client.resolve(foreign, 9, action), (Verdict::Foreign, false));
        }
        assert_eq!(node.budget(1).late, 0);
        wait_resolved(node, "foreign", 3);
    });
    assert_eq!(other.client().settle(foreign, 9), (Verdict::Settled, false), "at home it counts");
}

#[test]
fn tokens_of_an_earlier_run_settle_once() {
    for transport in ["epoll", "auto"] {
        let first = lasting().over(transport).start();
        let mut client = first.client();
        let (early, late) = (client.grant(1, 5_000), client.grant(1, 5_000));
        assert_eq!(client.settle(early, 9), (Verdict::Settled, false));
        let node = first.restart();
        let mut client = node.client();
        assert_eq!(node.budget(1).settled, 9);
        assert_ne!(client.grant(1, 5_000)[..8], late[..8], "no number is given twice");
        assert_eq!(client.settle(early, 9), (Verdict::Settled, true), "the first answer again");
        assert_eq!(client.settle(late, 10), (Verdict::Settled, false));
        assert_eq!(node.budget(1).settled, 19);
        let node = node.restart();
        assert_eq!(node.client().settle(late, 10), (Verdict::Settled, true));
        assert_eq!(node.budget(1).settled, 19);
    }
}

#[test]
fn tokens_outlive_the_rotation_of_their_key() {
    // The shortest life of a key, and lives of holds that allow it.
    let setup = || {
        Setup::new(&line(1, "1000", ""))
            .with("ledger.key_ms", "1000")
            .with("ledger.hold_ms", "10000")
            .with("ledger.billing_ms", "60000")
            .with("ledger.late_ms", "10000")
            .with("ledger.reconcile_ms", "10000")
    };
    over_transports(setup, |node| {
        let mut client = node.client();
        let old = client.grant(1, 5_000);
        assert_eq!(client.resolve(old, 0, Action::Confirm), (Verdict::Confirmed, false));
        // Byte 10 of a token is the number of its key.
        crate::support::wait_for("another key", || client.grant(1, 1)[10] != old[10]);
        assert_eq!(client.settle(old, 5_000), (Verdict::Settled, false));
        assert_eq!(client.settle(old, 5_000), (Verdict::Settled, true));
    });
}

#[test]
fn amounts_and_actions_that_cannot_be_are_refused() {
    over_transports(lasting, |node| {
        let mut client = node.client();
        let token = client.grant(1, 5_000);
        for amount in [-1, i64::MIN, i64::MAX, 1_000_000_000_000_001] {
            assert_eq!(client.settle(token, amount), (Verdict::BadAmount, false), "{amount}");
        }
        for action in [0, 4, 255] {
            let mut item = resolve::Item::new(token, 1, Action::Settle, 0);
            item.set_action_raw(action);
            assert_eq!(client.resolve_all(&[item]), [(Verdict::BadAction, false)], "{action}");
        }
        wait_resolved(node, "bad_amount", 4);
        wait_resolved(node, "bad_action", 3);
        assert_eq!(client.settle(token, 0), (Verdict::Settled, false), "nothing is an amount, too");
        assert_eq!(node.budget(1).settled, 0);
    });
}

#[test]
fn one_frame_may_hold_everything() {
    over_transports(lasting, |node| {
        let mut client = node.client();
        let tokens: Vec<Token> = (0..4).map(|_| client.grant(1, 100)).collect();
        let answers = client.resolve_all(&[
            resolve::Item::new(tokens[0], 100, Action::Settle, 0),
            resolve::Item::new([1; 32], 100, Action::Settle, 0),
            resolve::Item::new(tokens[1], 0, Action::Release, 0),
            resolve::Item::new(tokens[2], 0, Action::Confirm, 0),
            resolve::Item::new(tokens[3], 150, Action::Settle, 0),
        ]);
        let verdicts: Vec<Verdict> = answers.iter().map(|(verdict, _)| *verdict).collect();
        use Verdict::{Confirmed, Foreign, Released, Settled, SettledOver};
        assert_eq!(verdicts, [Settled, Foreign, Released, Confirmed, SettledOver]);
    });
}

#[test]
fn frames_that_wait_are_bounded() {
    let setup = || lasting().with("batch.resolves_waiting_max", "0");
    over_transports(setup, |node| {
        let mut client = node.client();
        let token = client.grant(1, 100);
        client.send(&resolve_frame(5, &[resolve::Item::new(token, 1, Action::Settle, 0)]));
        let (frame, detail) = client.expect_refusal(Reason::Busy);
        assert_eq!(frame, 5);
        assert!(detail.contains("again later"), "{detail}");
        node.wait_refused("busy", 1);
        assert_eq!(node.budget(1).settled, 0, "nothing of it took effect");
    });
}

#[test]
fn whoever_goes_before_the_answer_is_booked_all_the_same() {
    over_transports(lasting, |node| {
        for _ in 0..20 {
            let mut client: Client = node.client();
            let token = client.grant(1, 100);
            client.send(&resolve_frame(1, &[resolve::Item::new(token, 100, Action::Settle, 0)]));
            // Closed with the answer under way: it must reach nobody else.
            drop(client);
            node.client().ping();
        }
        node.wait_budget(1, "all settlements", |books| books.settled == 2_000);
        node.wait_stat("no frame waits", |s| s["doors"]["batch"]["resolves_waiting"] == 0);
    });
}
