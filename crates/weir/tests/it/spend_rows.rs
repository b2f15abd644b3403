//! Holds of several budgets, and with an end of their own, at the spend door of a real node.

use serde_json::{Value, json};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use wire::{Action, Verdict};

use crate::client::Token;
use crate::reconciling::reconcile;
use crate::spend::{Caller, patient};
use crate::support::{Setup, line, text, wait_for, wait_value};

fn verdict(answer: &(u16, Value), status: u16, verdict: &str) {
    assert_eq!((answer.0, &answer.1["verdict"]), (status, &json!(verdict)), "{}", answer.1);
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn deadline_ms(answer: &Value) -> u64 {
    money::Instant::parse(answer["deadline"].as_str().unwrap()).unwrap().ms()
}

fn tree() -> Setup {
    let lines = [
        line(1, "10", ""),
        line(2, "1", ",\"handle\":\"model/a\""),
        line(3, "7", ",\"unit\":\"count\""),
        line(4, "5", ",\"daily\":\"0.10\""),
        line(10, "10", ""),
        line(11, "10", ",\"parent\":10"),
        line(12, "10", ",\"parent\":10"),
        line(13, "10", ",\"status\":\"paused\""),
    ];
    patient(&lines.concat())
}

#[test]
fn several_budgets_are_asked_for_together_or_not_at_all() {
    let node = tree().start();
    let mut caller = Caller::to(&node);
    let mut ask = |call: &str, budgets: Value, amount: &str| {
        caller.call(call, &json!({"budgets": budgets, "amount": amount}))
    };
    let held = |id: u64| node.budget(id).held;
    let granted = ask("reserve", json!([1, "model/a"]), "0.6");
    verdict(&granted, 200, "granted");
    assert_eq!((&granted.1["amount"], held(1), held(2)), (&json!("0.60"), 600_000, 600_000));
    let refused = ask("reserve", json!([1, "model/a"]), "0.6");
    verdict(&refused, 402, "exhausted");
    let told = (&refused.1["budget"], &refused.1["left"], &refused.1["retry_after_ms"]);
    assert_eq!(told, (&json!("model/a"), &json!("0.40"), &Value::Null));
    assert_eq!((held(1), held(2)), (600_000, 600_000), "all or none");
    // What two children have is in their parent twice.
    let twice = ask("reserve", json!([11, "12"]), "6");
    verdict(&twice, 402, "exhausted");
    assert_eq!(twice.1["budget"], "12");
    verdict(&ask("spend", json!([11, 12]), "5"), 200, "settled");
    assert_eq!([10, 11, 12].map(|id| node.budget(id).settled), [10_000_000, 5_000_000, 5_000_000]);
    // A window has more later, but for an ask that is larger than all of it.
    verdict(&ask("spend", json!([1, 4]), "0.08"), 200, "settled");
    let later = ask("reserve", json!([1, 4]), "0.03");
    verdict(&later, 429, "day_exhausted");
    let told = (&later.1["budget"], &later.1["window"], &later.1["left"]);
    assert_eq!(told, (&json!(4), &json!("day"), &json!("0.02")));
    assert!(later.1["retry_after_ms"].as_u64() <= Some(86_400_000), "{}", later.1);
    let never = ask("reserve", json!([1, 4]), "0.11");
    verdict(&never, 402, "day_exhausted");
    assert_eq!(never.1["retry_after_ms"], Value::Null);
    let paused = ask("reserve", json!([1, 13]), "0.1");
    verdict(&paused, 403, "paused");
    assert_eq!(paused.1["budget"], 13);
    let unknown = ask("reserve", json!([1, "no/such"]), "0.1");
    verdict(&unknown, 404, "unknown_budget");
    assert_eq!(unknown.1["budget"], "no/such");
    let nine: Vec<u64> = (1..10).collect();
    for wrong in [
        json!([]),
        json!([1]),
        json!(nine),
        json!([1, 1]),
        json!([1, "1"]),
        json!([2, "model/a"]),
        json!([10, 11]),
        json!([11, 10]),
        json!([1, 3]),
        json!([1, 2.5]),
        json!([1, [2]]),
        json!({"1": 2}),
        json!(7),
    ] {
        let answer = ask("reserve", wrong.clone(), "0.1");
        verdict(&answer, 400, "malformed");
        assert_eq!(answer.1["field"], "budgets", "{wrong}: {}", answer.1);
    }
    verdict(&ask("reserve", json!([1, 2]), "0.0000001"), 400, "bad_amount");
    let both = json!({"budget": 1, "budgets": [1, 2], "amount": "1"});
    let settle = |amount: &str| json!({"token": granted.1["token"], "amount": amount});
    verdict(&caller.call("reserve", &both), 400, "malformed");
    verdict(&caller.call("settle", &settle("60.000001")), 400, "bad_amount");
    for repeat in [false, true] {
        let settled = json!({"verdict": "settled", "amount": "0.50", "repeat": repeat});
        assert_eq!(caller.call("settle", &settle("0.5")), (200, settled));
    }
    assert_eq!([1, 2].map(|id| node.budget(id).settled), [580_000, 500_000]);
    verdict(&caller.call("release", &json!({"token": granted.1["token"]})), 409, "already_settled");
    node.budget(10).check();
}

/// Purses have all of it, and give it back to who waits; with a key the first answer is the only one, after a crash, too.
#[test]
fn several_budgets_under_a_key_are_asked_for_once() {
    let node = tree().start();
    let mut caller = Caller::to(&node).with("Idempotency-Key: one");
    let lone = Caller::to(&node).reserve(2, "0.2");
    let body = "{\"budgets\":[1,2],\"amount\":\"0.8\",\"confirm\":true,\"wait_ms\":1000}";
    let first = caller.post("/v1/reserve", body);
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(caller.post("/v1/reserve", body).body, first.body);
    let spend = "{\"budgets\":[1,11],\"amount\":\"0.3\"}";
    let spent = caller.post("/v1/spend", spend);
    let calls = json!([
        {"call": "reserve", "budgets": [1, 12], "amount": "1", "key": "two"},
        {"call": "settle", "token": first.json()["token"], "amount": "0.7"},
        {"call": "reserve", "budgets": [1, 2], "amount": "0.1"},
        {"call": "extend", "token": first.json()["token"], "confirm_ms": 5000},
    ]);
    let node = node.restart();
    let mut caller = Caller::to(&node).with("Idempotency-Key: one");
    assert_eq!(caller.post("/v1/reserve", body).body, first.body, "after a crash");
    assert_eq!(caller.post("/v1/spend", spend).body, spent.body);
    assert_eq!(node.budget(11).settled, 300_000, "once");
    caller.headers.clear();
    let answers = caller.post("/v1/batch", &calls.to_string()).json();
    let statuses = [0, 1, 2, 3].map(|at| answers[at]["status"].as_u64().unwrap());
    assert_eq!(statuses, [200, 200, 200, 409], "{answers}");
    assert_eq!(caller.call("settle", &json!({"token": lone})).0, 200);
    assert_eq!([1, 2].map(|id| node.budget(id).settled), [1_000_000, 900_000]);
}

#[test]
fn a_confirmed_hold_has_the_end_that_it_is_given() {
    let node = tree().start();
    let mut caller = Caller::to(&node);
    let reserve = |ms: u64| json!({"budget": 1, "amount": "1", "confirm": true, "confirm_ms": ms});
    for (body, field) in [
        (reserve(999), "confirm_ms"),
        (reserve(3_600_001), "confirm_ms"),
        (json!({"budget": 1, "amount": "1", "confirm_ms": 1000}), "confirm_ms"),
        (json!({"budget": 1, "amount": "1", "confirm": true, "confirm_ms": 1.5e3}), "confirm_ms"),
    ] {
        let answer = caller.call("reserve", &body);
        verdict(&answer, 400, "malformed");
        assert_eq!(answer.1["field"], field);
    }
    let before = now_ms();
    let (status, granted) = caller.call("reserve", &reserve(60_000));
    let end = deadline_ms(&granted);
    assert!(status == 200 && (before + 60_000..=now_ms() + 60_000).contains(&end), "{granted}");
    let token = &granted["token"];
    let (status, confirmed) = caller.call("confirm", &json!({"token": token}));
    let expected = json!({"verdict": "confirmed", "repeat": true, "deadline": granted["deadline"]});
    assert_eq!((status, confirmed), (200, expected), "it moves no deadline");
    let extend = |token: &Value, ms: u64| json!({"token": token, "confirm_ms": ms});
    let shorter = caller.call("extend", &extend(token, 1_000));
    let expected = json!({"verdict": "extended", "repeat": true, "deadline": granted["deadline"]});
    assert_eq!(shorter, (200, expected));
    let (status, longer) = caller.call("extend", &extend(token, 600_000));
    assert!(status == 200 && deadline_ms(&longer) > end + 500_000, "{longer}");
    assert_eq!((&longer["verdict"], &longer["repeat"]), (&json!("extended"), &json!(false)));
    // Holds of grants: one that is not confirmed, and one that has an hour.
    let plain = json!(caller.reserve(1, "1"));
    let moved = caller.call("extend", &extend(&plain, 900_000));
    assert!(moved.0 == 200 && moved.1["repeat"] == false, "{}", moved.1);
    let (_, again) = caller.call("confirm", &json!({"token": plain}));
    assert_eq!((&again["repeat"], &again["deadline"]), (&json!(true), &moved.1["deadline"]));
    let hour = caller.call("reserve", &json!({"budget": 1, "amount": "1", "confirm": true})).1;
    let kept = caller.call("extend", &extend(&hour["token"], 1_000)).1;
    assert_eq!((&kept["repeat"], &kept["deadline"]), (&json!(true), &hour["deadline"]));
    // Under a key the first answer is the answer.
    let mut keyed = Caller::to(&node).with("Idempotency-Key: later");
    let first = keyed.post("/v1/extend", &extend(&plain, 1_800_000).to_string());
    assert_eq!(keyed.post("/v1/extend", &extend(&plain, 1_800_000).to_string()).body, first.body);
    assert_eq!(keyed.call("extend", &extend(&plain, 1_900_000)).0, 409);
    assert_eq!(caller.call("settle", &json!({"token": plain, "amount": "0.4"})).0, 200);
    verdict(&caller.call("extend", &extend(&plain, 5_000)), 409, "already_settled");
    assert_eq!(caller.call("release", &json!({"token": token})).0, 200);
    verdict(&caller.call("extend", &extend(token, 5_000)), 409, "already_released");
    let foreign = json!("A".repeat(43));
    verdict(&caller.call("extend", &extend(&foreign, 5_000)), 403, "foreign");
    assert_eq!(caller.call("extend", &json!({"token": plain})).1["field"], "confirm_ms");
    assert_eq!(node.wait_budget(1, "the rest", |books| books.held == 1_000_000).settled, 400_000);
}

/// The holds of one door are those of the other: a token keeps its name when its hold gets an end of its own.
#[test]
fn the_batch_door_extends_the_same_holds() {
    let node = tree().start();
    let (mut client, mut caller) = (node.client(), Caller::to(&node));
    let [first, second, plain] = [(); 3].map(|()| client.grant(1, 100_000));
    let mut held = |budgets: Value, ms: u64| -> Token {
        let body = json!({"budgets": budgets, "amount": "0.1", "confirm": true, "confirm_ms": ms});
        let token = caller.call("reserve", &body).1["token"].as_str().map(str::to_string);
        BASE64.decode(token.unwrap()).unwrap().try_into().unwrap()
    };
    let (both, short) = (held(json!([1, 2]), 9_000), held(json!([1, 2]), 3_000));
    let (before, ms) = (now_ms(), [900_000, 999, 3_600_001, 5_000, 60_000]);
    let of_each = [first, second, second, short, both];
    let answers = client.extend(&of_each.into_iter().zip(ms).collect::<Vec<_>>());
    let verdicts: Vec<_> = answers.iter().map(|(verdict, repeat, _)| (*verdict, *repeat)).collect();
    let (done, wrong) = ((Verdict::Extended, false), (Verdict::BadAmount, false));
    assert_eq!(verdicts, [done, wrong, wrong, done, done]);
    for at in [0, 3, 4] {
        let in_time = before + u64::from(ms[at])..=now_ms() + u64::from(ms[at]);
        assert!(in_time.contains(&answers[at].2), "{at}: {answers:?}");
    }
    assert_eq!(client.extend(&[(first, 5_000)]), [(Verdict::Extended, true, answers[0].2)]);
    let text = |token: &Token| json!({"token": BASE64.encode(token)});
    let (status, confirmed) = caller.call("confirm", &text(&first));
    assert_eq!((status, deadline_ms(&confirmed)), (200, answers[0].2), "{confirmed}");
    assert_eq!(client.settle(both, 100_000), (Verdict::Settled, false));
    assert_eq!(client.settle(first, 40_000), (Verdict::Settled, false));
    assert_eq!(client.resolve(second, 0, Action::Release), (Verdict::Released, false));
    assert_eq!(client.settle(plain, 1), (Verdict::Settled, false), "of a grant");
    let (mut forged, foreign) = (short, [0; 32]);
    forged[31] ^= 1;
    let noes =
        client.extend(&[first, both, second, plain, forged, foreign].map(|token| (token, 60_000)));
    let noes: Vec<Verdict> = noes.into_iter().map(|(verdict, _, _)| verdict).collect();
    let (settled, released) = (Verdict::AlreadySettled, Verdict::AlreadyReleased);
    assert_eq!(noes, [settled, settled, released, settled, Verdict::Forged, Verdict::Foreign]);
    // What is extended survives a crash, and is over at its end.
    let node = node.restart();
    let mut client = node.client();
    wait_for("the end", || now_ms() > answers[3].2);
    assert_eq!(client.extend(&[(short, 60_000)]), [(Verdict::Expired, false, 0)]);
    assert_eq!(node.budget(1).settled, 140_001);
}

/// What a file says of such holds is booked as it is said, alive or expired, and once.
#[test]
fn a_file_books_holds_of_several_budgets() {
    let lines = [line(1, "5", ",\"on_expiry\":\"hold\""), line(2, "5", ",\"on_expiry\":\"hold\"")];
    let node = patient(&lines.concat()).with("ledger.hold_ms", "2000").start();
    let mut caller = Caller::to(&node);
    let mut hold = |whom: Value| {
        let body = json!({"amount": "0.4", "confirm": true, "confirm_ms": 1000});
        let body = body.as_object().unwrap().iter().chain(whom.as_object().unwrap());
        let body = body.map(|(name, value)| (name.clone(), value.clone()));
        caller.call("reserve", &Value::Object(body.collect())).1
    };
    let both = hold(json!({"budgets": [1, 2]}));
    let (one, whole) = (hold(json!({"budget": 1})), hold(json!({"budget": 1})));
    wait_for("the end", || now_ms() > deadline_ms(&whole));
    let alive = hold(json!({"budgets": [2, 1]}));
    let line = |hold: &Value, says: &str| format!("{},{says}\n", hold["token"].as_str().unwrap());
    let file = [
        line(&both, "true,0.25"),
        line(&one, "false,"),
        line(&whole, "true,"),
        line(&alive, "true,0.1"),
    ];
    let file = format!("id,billed,amount\n{}", file.concat());
    for repeats in [0, 4] {
        let (status, answer) = reconcile(&node, "", &file);
        assert_eq!((status, &answer["repeats"]), (200, &json!(repeats)), "{answer}");
        let books = [1, 2].map(|id| node.wait_budget(id, "the rest", |books| books.held == 0));
        assert_eq!(books.map(|books| (books.settled, books.late)), [(750_000, 0), (350_000, 0)]);
    }
}

/// A program dies, and the node with it, between grant and settle: the money is free at the end, or expired.
#[test]
fn what_nobody_settles_ends_by_itself() {
    let lines =
        [line(1, "1", ",\"on_expiry\":\"release\""), line(2, "1", ",\"on_expiry\":\"hold\"")];
    let node = patient(&lines.concat()).with("ledger.hold_ms", "2000").start();
    let body = |budgets: Value| json!({"budgets": budgets, "amount": "0.2", "confirm": true, "confirm_ms": 3000});
    let mut caller = Caller::to(&node);
    let lost = caller.call("reserve", &body(json!([1, 2]))).1;
    let (_, settled) = caller.call("reserve", &body(json!([2, 1])));
    let node = node.restart();
    let mut caller = Caller::to(&node);
    let settle = json!({"token": settled["token"], "amount": "0.1"});
    assert_eq!(caller.call("settle", &settle).1["verdict"], "settled", "of the run before");
    wait_for("the end", || now_ms() > deadline_ms(&lost));
    verdict(
        &caller.call("extend", &json!({"token": lost["token"], "confirm_ms": 3000})),
        410,
        "expired",
    );
    let line = |id: u64, name: &str| {
        let stat: Value = serde_json::from_str(&node.get(&format!("/stat?budget={id}")).1).unwrap();
        stat[name].as_i64().unwrap()
    };
    wait_for("the end of both legs", || line(1, "held") == 0 && line(2, "expired") == 200_000);
    assert_eq!([1, 2].map(|id| line(id, "settled")), [100_000, 100_000]);
    assert_eq!(line(1, "expired"), 0);
    let whole = wait_value("all that is free", || {
        let asked = caller.call("spend", &json!({"budget": 1, "amount": "0.9", "wait_ms": 1000}));
        (asked.0 == 200).then_some(asked.1)
    });
    assert_eq!(whole["verdict"], "settled");
}

#[test]
fn a_hold_of_several_budgets_is_anothers_where_one_of_them_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let tokens =
        "shop spend shop-0123456789a budget:1\nall spend all-00123456789a budget:1,budget:2\n";
    std::fs::write(&file, tokens).unwrap();
    let node = tree().with("spend.tokens_file", text(&file)).start();
    let mut shop = Caller::to(&node).with("Authorization: Bearer shop-0123456789a");
    let mut all = Caller::to(&node).with("Authorization: Bearer all-00123456789a");
    let both = json!({"budgets": [1, 2], "amount": "0.1", "confirm": true, "confirm_ms": 60_000});
    let hidden = shop.call("reserve", &both);
    verdict(&hidden, 404, "unknown_budget");
    assert_eq!(hidden.1["budget"], 2);
    let token = all.call("reserve", &both).1["token"].clone();
    let moved = json!(all.reserve(2, "0.1"));
    let extend = json!({"token": moved, "confirm_ms": 60_000});
    verdict(&shop.call("extend", &extend), 404, "unknown_budget");
    assert_eq!(all.call("extend", &extend).0, 200);
    for token in [&token, &moved] {
        for call in ["settle", "confirm", "release", "extend"] {
            let mut body = json!({"token": token});
            if call == "extend" {
                body["confirm_ms"] = json!(120_000);
            }
            verdict(&shop.call(call, &body), 404, "unknown_budget");
        }
        assert_eq!(all.call("settle", &json!({"token": token})).0, 200);
    }
    assert_eq!([1, 2].map(|id| node.budget(id).settled), [100_000, 200_000]);
}
