//! Keys of idempotency at the spend door: whatever is repeated under one is done once, on any connection and after a crash.

use serde_json::{Value, json};

use crate::openrtb::Answer;
use crate::spend::{Caller, patient};
use crate::support::{Node, cores, line, over_transports};

fn one() -> crate::support::Setup {
    patient(&line(1, "10", ""))
}

fn keyed(node: &Node, key: &str) -> Caller {
    Caller::to(node).with(&format!("Idempotency-Key: {key}"))
}

fn is(answer: &Answer, status: u16, verdict: &str) -> bool {
    answer.status == status && answer.json()["verdict"] == verdict
}

#[test]
fn a_repeat_gets_the_first_answer_byte_for_byte_on_any_connection() {
    over_transports(one, |node| {
        let body = "{\"budget\":1,\"amount\":\"2\"}";
        let first = keyed(node, "order-7").post("/v1/spend", body);
        assert!(is(&first, 200, "settled"), "{first:?}");
        for key in ["order-7", "\"order-7\""] {
            let again = keyed(node, key).post("/v1/spend", body);
            assert_eq!((again.status, &again.body), (200, &first.body), "{key}");
        }
        let other = keyed(node, "order-7").post("/v1/spend", "{\"budget\":1,\"amount\":\"3\"}");
        assert!(is(&other, 409, "key_reused"), "{other:?}");
        // A key of one call is no key of another.
        let other = keyed(node, "order-7").post("/v1/reserve", body);
        assert!(is(&other, 200, "granted"), "{other:?}");
        assert!(is(&keyed(node, "order-8").post("/v1/spend", body), 200, "settled"));
        assert_eq!(node.budget(1).settled, 4_000_000);
        let bad = keyed(node, "\u{e9}").post("/v1/spend", body);
        assert!(is(&bad, 400, "malformed") && bad.json()["field"] == "Idempotency-Key", "{bad:?}");
    });
}

/// Which worker a connection meets is chance: of sixteen, hardly all the one that had the first call.
#[test]
fn a_repeat_at_another_worker_is_done_once() {
    let node = one().with("workers.cores", &cores(2)).start();
    let body = "{\"budget\":1,\"amount\":\"2\",\"confirm\":true}";
    let first = keyed(&node, "work-1").post("/v1/reserve", body);
    assert!(is(&first, 200, "granted"), "{first:?}");
    let settle = json!({"token": first.json()["token"], "amount": "1.5"}).to_string();
    for _ in 0..16 {
        let again = keyed(&node, "work-1").post("/v1/reserve", body);
        assert_eq!((again.status, &again.body), (200, &first.body));
        let settled = keyed(&node, "bill-1").post("/v1/settle", &settle);
        assert!(is(&settled, 200, "settled") && settled.json()["repeat"] == false, "{settled:?}");
    }
    let books = node.budget(1);
    assert_eq!((books.settled, books.held), (1_500_000, 0));
}

#[test]
fn a_confirmed_reservation_is_the_same_hold_after_a_crash() {
    let mut node = one().start();
    let body = "{\"budget\":1,\"amount\":\"2\",\"confirm\":true}";
    let first = keyed(&node, "work-1").post("/v1/reserve", body);
    assert_eq!(first.status, 200, "{first:?}");
    let spent = keyed(&node, "pay-1").post("/v1/spend", "{\"budget\":1,\"amount\":\"1\"}");
    node.signal("KILL");
    node.wait_end();
    let node = node.restart();
    let again = keyed(&node, "work-1").post("/v1/reserve", body);
    assert_eq!((again.status, &again.body), (200, &first.body));
    let paid = keyed(&node, "pay-1").post("/v1/spend", "{\"budget\":1,\"amount\":\"1\"}");
    assert_eq!((paid.status, &paid.body), (200, &spent.body));
    let settle = json!({"token": first.json()["token"], "amount": "1.5"}).to_string();
    let settled = keyed(&node, "bill-1").post("/v1/settle", &settle);
    assert!(is(&settled, 200, "settled"), "{settled:?}");
    assert_eq!(
        keyed(&node, "bill-1").post("/v1/settle", &settle).body,
        settled.body,
        "not a repeat"
    );
    assert_eq!(node.budget(1).settled, 2_500_000, "one hold, one spend");
}

/// Every answer that moved money is remembered, that of a hold which is not confirmed, too: its repeat is the same hold.
#[test]
fn a_reservation_under_a_key_is_one_hold_also_after_a_crash() {
    let mut node = one().start();
    let body = "{\"budget\":1,\"amount\":\"2\"}";
    let first = keyed(&node, "hold-1").post("/v1/reserve", body);
    assert!(is(&first, 200, "granted"), "{first:?}");
    assert_eq!(keyed(&node, "hold-1").post("/v1/reserve", body).body, first.body);
    node.wait_budget(1, "one hold", |books| books.held == 2_000_000);
    node.signal("KILL");
    node.wait_end();
    let node = node.restart();
    let again = keyed(&node, "hold-1").post("/v1/reserve", body);
    assert_eq!((again.status, &again.body), (200, &first.body));
    let settle = json!({"token": first.json()["token"], "amount": "1.5"}).to_string();
    let settled = Caller::to(&node).post("/v1/settle", &settle);
    assert!(is(&settled, 200, "settled"), "{settled:?}");
    assert_eq!(node.budget(1).settled, 1_500_000);
}

/// A call whose token was used before books nothing; its answer is the first under its key nevertheless, whatever happens to the hold after it.
#[test]
fn the_answer_to_a_token_that_was_used_before_is_kept_under_its_key() {
    let mut node = one().start();
    let token = Caller::to(&node).reserve(1, "1");
    let confirm = json!({"token": token}).to_string();
    assert!(is(&Caller::to(&node).post("/v1/confirm", &confirm), 200, "confirmed"));
    let settle = json!({"token": token, "amount": "0.30"}).to_string();
    let again = |node: &Node, call: &str, body: &str| {
        let answer = keyed(node, "late").post(&format!("/v1/{call}"), body);
        (answer.status, answer.body)
    };
    let confirmed = again(&node, "confirm", &confirm);
    assert!(
        confirmed.0 == 200 && String::from_utf8_lossy(&confirmed.1).contains("\"repeat\":true")
    );
    assert!(is(&Caller::to(&node).post("/v1/settle", &settle), 200, "settled"));
    let settled = again(&node, "settle", &settle);
    let text = String::from_utf8_lossy(&settled.1).into_owned();
    assert_eq!(settled.0, 200);
    assert!(text.contains("\"amount\":\"0.30\",\"repeat\":true"), "{text}");
    for _ in 0..2 {
        assert_eq!(again(&node, "confirm", &confirm), confirmed, "although it is settled by now");
        assert_eq!(again(&node, "settle", &settle), settled);
        let other = json!({"token": token, "amount": "0.31"}).to_string();
        assert_eq!(again(&node, "settle", &other).0, 409, "key_reused");
        node = node.restart();
    }
    assert_eq!(node.budget(1).settled, 300_000);
}

/// When no further key is taken, whoever has a token is not refused: its settle is done, and its repeat says so.
#[test]
fn a_full_table_of_keys_refuses_new_money_and_no_settle() {
    let node = one().with("spend.keys_max", "1").start();
    let mut caller = Caller::to(&node);
    let token = caller.reserve(1, "1");
    let spend = "{\"budget\":1,\"amount\":\"1\"}";
    assert!(is(&keyed(&node, "a").post("/v1/spend", spend), 200, "settled"));
    for call in ["/v1/spend", "/v1/reserve"] {
        let refused = keyed(&node, "b").post(call, spend);
        assert!(
            is(&refused, 429, "busy") && refused.header("retry-after").is_some(),
            "{refused:?}"
        );
    }
    let settle = json!({"token": token, "amount": "0.5"}).to_string();
    for repeat in [false, true] {
        let settled = keyed(&node, "c").post("/v1/settle", &settle);
        let expected = json!({"verdict": "settled", "amount": "0.50", "repeat": repeat});
        assert_eq!((settled.status, settled.json()), (200, expected));
    }
    assert_eq!(node.budget(1).settled, 1_500_000);
}

/// A refusal is not remembered: so a copy of a refused ask that comes late may be granted. Who asks once more with its key hears of
/// it, and a hold that nobody confirms lapses by itself.
#[test]
fn a_late_copy_of_a_refused_ask_is_found_by_asking_again() {
    let node = one().with("ledger.hold_ms", "2000").start();
    let body = "{\"budget\":1,\"amount\":\"11\"}";
    assert!(is(&keyed(&node, "late").post("/v1/reserve", body), 402, "exhausted"));
    node.reload(&line(1, "20", ""));
    let copy = crate::support::wait_value("the higher limit", || {
        let copy = keyed(&node, "late").post("/v1/reserve", body);
        (copy.status == 200).then_some(copy)
    });
    assert_eq!(keyed(&node, "late").post("/v1/reserve", body).body, copy.body);
    let books = node.wait_budget(1, "a hold that lapses", |books| books.held == 0);
    assert_eq!(books.settled, 0);
}

/// Sixteen callers send one request at the same time: one of them does it.
#[test]
fn repeats_that_come_together_wait_for_the_first() {
    over_transports(one, |node| {
        let mut callers: Vec<Caller> = (0..16).map(|_| keyed(node, "rush")).collect();
        callers
            .iter_mut()
            .for_each(|caller| caller.send("/v1/spend", "{\"budget\":1,\"amount\":\"1\"}"));
        let answers: Vec<Answer> = callers.iter_mut().map(|caller| caller.http.receive()).collect();
        assert!(
            answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body),
            "{answers:?}"
        );
        assert_eq!(node.budget(1).settled, 1_000_000);
    });
}

/// What booked nothing is told to those who wait for it as it is: a repeat of what was booked before, and a refusal with its time and
/// its member.
#[test]
fn who_waits_for_an_answer_that_booked_nothing_gets_its_bytes() {
    let node = patient(&line(1, "10", r#","daily":"5""#)).start();
    let mut caller = Caller::to(&node);
    let token = caller.reserve(1, "1");
    assert_eq!(caller.call("confirm", &json!({"token": token})).0, 200);
    let entry = json!({"call": "confirm", "token": token, "key": "zz"});
    let (_, answers) = caller.call("batch", &json!([entry, entry, entry]));
    assert_eq!(answers[0]["body"]["repeat"], true, "{answers}");
    assert!(answers[1] == answers[0] && answers[2] == answers[0], "{answers}");
    for body in [
        "{\"budget\":1,\"amount\":\"7\"}",
        "{\"budget\":1,\"amount\":\"0.0000000000000000000000000000000000001\"}",
    ] {
        let mut callers: Vec<Caller> = (0..16).map(|_| keyed(&node, "rush")).collect();
        callers.iter_mut().for_each(|caller| caller.send("/v1/spend", body));
        let mut told = |caller: &mut Caller| {
            let answer = caller.http.receive();
            let seconds: Option<u64> =
                answer.header("retry-after").map(|seconds| seconds.parse().unwrap());
            (answer.status, answer.body, seconds.map(|seconds| seconds > 60))
        };
        let answers: Vec<_> = callers.iter_mut().map(&mut told).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    }
}

#[test]
fn a_refusal_is_not_kept() {
    let node = one().start();
    let body = "{\"budget\":1,\"amount\":\"11\"}";
    let refused = keyed(&node, "large").post("/v1/spend", body);
    assert!(is(&refused, 402, "exhausted"), "{refused:?}");
    node.reload(&line(1, "20", ""));
    let spent = crate::support::wait_value("the higher limit", || {
        let answer = keyed(&node, "large").post("/v1/spend", body);
        (answer.status == 200).then_some(answer)
    });
    assert!(is(&spent, 200, "settled"));
    assert_eq!(keyed(&node, "large").post("/v1/spend", body).body, spent.body);
    assert_eq!(node.budget(1).settled, 11_000_000);
}

#[test]
fn entries_of_a_batch_have_keys_of_their_own() {
    let node = one().start();
    let entry = |key: &str, amount: &str| json!({"call": "spend", "budget": 1, "amount": amount, "key": key});
    let batch =
        json!([entry("a", "1"), entry("b", "1"), entry("a", "1"), entry("a", "2")]).to_string();
    let mut caller = Caller::to(&node);
    let first = caller.post("/v1/batch", &batch).json();
    let status: Vec<&Value> = first.as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(status, [&json!(200), &json!(200), &json!(200), &json!(409)], "{first}");
    assert_eq!((&first[2], caller.post("/v1/batch", &batch).json()), (&first[0], first.clone()));
    // The bytes of an entry are not those of the call alone: the key is the same, and is never spent again.
    let alone = keyed(&node, "a").post("/v1/spend", "{\"budget\":1,\"amount\":\"1\"}");
    assert!(is(&alone, 409, "key_reused"), "{alone:?}");
    assert_eq!(node.budget(1).settled, 2_000_000);
}
