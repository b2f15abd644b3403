//! The spend door of a real node: calls as JSON over HTTP, what they come to, and who may make them.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::openrtb::{Answer, Http};
use crate::openrtb_disk::{limit_files, wait_journal};
use crate::openrtb_http::gzip;
use crate::support::{Node, Setup, cores, line, over_transports, wait_for, wait_value};

/// Where the door of a node listens.
pub(crate) fn door(node: &Node) -> SocketAddr {
    let line = node.said.iter().find_map(|line| line.strip_prefix("spend "));
    line.unwrap().parse().unwrap()
}

/// A caller of the door.
pub(crate) struct Caller {
    pub(crate) http: Http,
    /// Header lines of every call.
    pub(crate) headers: String,
}

impl Caller {
    pub(crate) fn to(node: &Node) -> Caller {
        Caller { http: Http::connect(door(node)), headers: String::new() }
    }

    pub(crate) fn with(mut self, header: &str) -> Caller {
        self.headers += &format!("{header}\r\n");
        self
    }

    pub(crate) fn send(&mut self, path: &str, body: &str) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n",
            self.headers,
            body.len()
        );
        self.http.send(&[head.as_bytes(), body.as_bytes()].concat());
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send(path, body);
        self.http.receive()
    }

    /// A call with its status and its answer.
    pub(crate) fn call(&mut self, call: &str, body: &Value) -> (u16, Value) {
        let answer = self.post(&format!("/v1/{call}"), &body.to_string());
        (answer.status, answer.json())
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", self.headers);
        self.http.send(head.as_bytes());
        self.http.receive()
    }

    /// Calls as they would stand in a batch, one by one and all sent at once: the answers as those of a batch.
    fn pipeline(&mut self, calls: &[&Value]) -> Value {
        for call in calls {
            let mut body = (*call).clone();
            let call = body.as_object_mut().unwrap().remove("call").unwrap();
            self.send(&format!("/v1/{}", call.as_str().unwrap()), &body.to_string());
        }
        let answers = calls.iter().map(|_| {
            let answer = self.http.receive();
            json!({"status": answer.status, "body": answer.json()})
        });
        answers.collect()
    }

    /// A granted reservation: its token.
    pub(crate) fn reserve(&mut self, budget: u64, amount: &str) -> String {
        let (status, answer) = self.call("reserve", &json!({"budget": budget, "amount": amount}));
        assert_eq!(status, 200, "{answer}");
        answer["token"].as_str().unwrap().to_owned()
    }
}

/// Holds outlive the test, and money has all the time of a busy machine to come.
pub(crate) fn patient(budgets: &str) -> Setup {
    Setup::new(budgets).with("ledger.hold_ms", "600000").with("spend.wait_ms", "1000")
}

fn one() -> Setup {
    patient(&line(1, "10", ""))
}

#[test]
fn the_first_ask_is_granted_and_settled() {
    over_transports(one, |node| {
        let mut caller = Caller::to(node);
        let body = json!({"budget": 1, "amount": "0.15", "unit": "USD"});
        let (status, granted) = caller.call("reserve", &body);
        assert_eq!((status, &granted["amount"]), (200, &json!("0.15")), "{granted}");
        let token = granted["token"].as_str().unwrap();
        assert_eq!(token.len(), 43);
        assert!(granted["deadline"].as_str().unwrap().ends_with('Z'), "{granted}");
        node.wait_budget(1, "the hold", |books| books.held == 150_000);
        assert_eq!(granted["verdict"], "granted");
        let settle = json!({"token": token, "amount": "0.042"});
        let settled =
            |repeat: bool| json!({"verdict": "settled", "amount": "0.042", "repeat": repeat});
        assert_eq!(caller.call("settle", &settle), (200, settled(false)));
        assert_eq!(caller.call("settle", &settle), (200, settled(true)));
        for amount in ["0.15", "0.01"] {
            let other = json!({"token": token, "amount": amount});
            let again = caller.call("settle", &other);
            assert_eq!(again, (200, settled(true)), "what was booked, not what it names");
        }
        let (status, refused) = caller.call("release", &json!({"token": token}));
        assert_eq!((status, &refused["verdict"]), (409, &json!("already_settled")));
        assert_eq!(node.budget(1).settled, 42_000);
        let (status, spent) = caller.call("spend", &json!({"budget": "1", "amount": "0.000001"}));
        assert_eq!((status, spent), (200, json!({"verdict": "settled", "amount": "0.000001"})));
        let released = caller.reserve(1, "5");
        for repeat in [false, true] {
            let released = caller.call("release", &json!({"token": released}));
            assert_eq!(released, (200, json!({"verdict": "released", "repeat": repeat})));
        }
        let books = node.wait_budget(1, "what is free again", |books| books.held == 0);
        assert_eq!((books.settled, books.limit), (42_001, 10_000_000));
        books.check();
    });
}

/// A token of ours with one character changed, and one of another node, settle nothing; the true one does, once.
#[test]
fn changed_tokens_and_those_of_another_node_move_nothing() {
    let node = patient(&line(1, "10", "")).start();
    let other = patient(&line(1, "10", "")).with("node.id", "2").start();
    let reserve = |node: &Node| {
        let answer = Caller::to(node).post("/v1/reserve", "{\"budget\":1,\"amount\":\"2\"}");
        answer.json()["token"].as_str().unwrap().to_owned()
    };
    let mut caller = Caller::to(&node);
    let mut settle = |token: &str| {
        let body = json!({"token": token, "amount": "1"}).to_string();
        let answer = caller.post("/v1/settle", &body);
        (answer.status, answer.json()["verdict"].as_str().unwrap().to_owned())
    };
    let token = reserve(&node);
    // The last character has bits that no token uses.
    for at in 0..token.len() - 1 {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let (status, verdict) = settle(std::str::from_utf8(&changed).unwrap());
        // A token may also name a node, or a key of an earlier time, that it is not of.
        let refused = ["forged", "foreign", "too_old"].contains(&&*verdict);
        assert!(status >= 400 && refused, "{at}: {verdict}");
    }
    assert_eq!(settle(&reserve(&other)), (403, "foreign".to_owned()));
    assert_eq!(node.budget(1).settled, 0);
    assert_eq!(settle(&token), (200, "settled".to_owned()));
    assert_eq!(node.budget(1).settled, 1_000_000);
}

#[test]
fn who_asks_for_too_much_is_told_what_is_left() {
    let lines = [
        line(1, "1", ""),
        line(2, "1", ",\"daily\":\"0.10\""),
        line(3, "7", ",\"unit\":\"count\""),
        line(4, "9", ",\"windows\":{\"month\":\"0.10\"}"),
    ];
    let node = patient(&lines.concat()).start();
    let mut caller = Caller::to(&node);
    for (budget, first, next, verdict, left) in [
        (json!(1), "0.30", "0.71", "exhausted", "0.70 USD is left: the limit"),
        (json!("2"), "0.08", "0.03", "day_exhausted", "0.02 USD is left of the day's limit"),
        (json!(3), "7", "1", "exhausted", "0 count is left: the limit"),
        (json!(4), "0.08", "0.03", "window_exhausted", "0.02 USD is left of the month's limit"),
    ] {
        let ask = |amount: &str| json!({"budget": budget, "amount": amount});
        assert_eq!(caller.call("spend", &ask(first)).0, 200, "{budget}");
        // A worker hears later of what it may not spend than of what it may.
        let told = wait_value(left, || {
            let problem = caller.call("reserve", &ask(next)).1;
            assert!(problem["status"].as_u64() >= Some(400), "{problem}");
            (problem["verdict"] == verdict).then_some(problem)
        });
        // For programs: the budget as it was written, and how long to wait, where that helps.
        let retry_ms = told["retry_after_ms"].as_u64();
        let window =
            left.split_once("left of the ").map(|(_, rest)| rest.split_once('\'').unwrap().0);
        assert_eq!((&told["budget"], told["left"].as_str()), (&budget, left.split(' ').next()));
        assert_eq!((told["window"].as_str(), retry_ms.is_some()), (window, window.is_some()));
        assert!(retry_ms.is_none_or(|ms| (1..=31 * 86_400_000).contains(&ms)), "{told}");
        let told = told["detail"].as_str().unwrap();
        assert!(told.starts_with(left), "{told}");
        // When there is more is told as an instant, too.
        assert_eq!(left.contains("'s limit"), told.contains("00:00Z on there is more"), "{told}");
    }
}

/// What was released, and answered so, is there for the next ask at whatever worker, also where that had just refused one.
#[test]
fn money_that_was_given_back_at_one_worker_is_there_at_another() {
    let setup = patient(&line(1, "1", "")).with("workers.cores", &cores(2));
    let node = setup.with("spend.wait_ms", "1000").start();
    // Which of the workers each meets is chance: of sixteen, hardly all the same one.
    let mut callers: Vec<Caller> = (0..16).map(|_| Caller::to(&node)).collect();
    let all = json!({"budget": 1, "amount": "1"});
    let mut token = callers[0].reserve(1, "1");
    for turn in 0..64 {
        let (holder, next) = (turn % 16, (turn + 1) % 16);
        let refused = callers[next].call("reserve", &all).1;
        assert_eq!(refused["verdict"], "exhausted", "turn {turn}: {refused}");
        assert_eq!(callers[holder].call("release", &json!({"token": token})).0, 200);
        let (status, granted) = callers[next].call("reserve", &all);
        assert_eq!(status, 200, "turn {turn}: {granted}");
        token = granted["token"].as_str().unwrap().to_owned();
    }
}

/// What lies in purses of the run before comes back in a moment: an ask for it is not refused for good, and is told when.
#[test]
fn after_a_restart_money_of_the_run_before_is_not_used_up() {
    let mut node = patient(&line(1, "1", "")).with("ledger.hold_ms", "2000").start();
    assert_eq!(Caller::to(&node).call("spend", &json!({"budget": 1, "amount": "0.07"})).0, 200);
    node = node.restart();
    let mut caller = Caller::to(&node);
    let rest = json!({"budget": 1, "amount": "0.93"}).to_string();
    wait_for("the money of the run before", || {
        let answer = caller.post("/v1/reserve", &rest);
        if answer.status != 200 {
            assert_eq!((answer.status, &answer.json()["verdict"]), (429, &json!("purse_empty")));
            let retry_s = answer.header("retry-after").map(|text| text.parse::<u64>().unwrap());
            assert!(retry_s.is_some_and(|seconds| (1..=3).contains(&seconds)), "{answer:?}");
        }
        answer.status == 200
    });
    assert_eq!(caller.call("reserve", &json!({"budget": 1, "amount": "0.01"})).0, 402);
}

/// An ask that no window ever has room for is refused for good.
#[test]
fn an_ask_of_more_than_a_whole_window_is_told_that_it_never_fits() {
    let lines = [
        line(1, "1", ",\"daily\":\"0.10\""),
        line(2, "9", ",\"windows\":{\"minute\":{\"limit\":\"0.10\",\"kind\":\"bucket\"}}"),
    ];
    let node = patient(&lines.concat()).start();
    let mut caller = Caller::to(&node);
    for (budget, period) in [(1, "day"), (2, "minute")] {
        let ask = |amount: &str| json!({"budget": budget, "amount": amount}).to_string();
        assert_eq!(caller.post("/v1/spend", &ask("0.04")).status, 200);
        let never = wait_value("the bank's word", || {
            let answer = caller.post("/v1/reserve", &ask("0.11"));
            assert!([402, 429].contains(&answer.status), "{answer:?}");
            (answer.status == 402).then_some(answer)
        });
        assert_eq!(never.header("retry-after"), None, "{never:?}");
        assert_eq!(never.json()["status"], 402);
        assert_eq!(
            never.json()["verdict"],
            if budget == 1 { "day_exhausted" } else { "window_exhausted" }
        );
        let detail = never.json()["detail"].as_str().unwrap().to_owned();
        let expected = format!("an ask of more than 0.10 USD, the {period}'s whole limit");
        assert!(detail.starts_with(&expected), "{detail}");
        assert_eq!(caller.post("/v1/spend", &ask("0.06")).status, 200, "the rest is there");
    }
}

#[test]
fn refusals_are_objects_with_their_status() {
    let budgets = [
        line(1, "1", ""),
        line(2, "1", ",\"status\":\"paused\""),
        line(3, "1", ",\"start\":\"2099-01-01T00:00:00Z\""),
        line(4, "1", ",\"end\":\"2001-01-01T00:00:00Z\",\"start\":\"2000-01-01T00:00:00Z\""),
        line(5, "1", ",\"daily\":\"0.10\""),
        line(6, "100", ",\"unit\":\"count\""),
    ];
    let node = patient(&budgets.concat()).with("spend.wait_ms", "50").start();
    let mut caller = Caller::to(&node);
    let mut refusal = |call: &str, body: Value, expected: &str| {
        // Purses hear of their budgets soon after the start.
        let path = format!("/v1/{call}");
        let answer = wait_value(expected, || {
            let answer = caller.post(&path, &body.to_string());
            (answer.status >= 400 && answer.json()["verdict"] == expected).then_some(answer)
        });
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{expected}");
        let problem = answer.json();
        assert_eq!(problem["status"], answer.status, "{problem}");
        assert_eq!(problem["type"], format!("/docs#{expected}"));
        assert!(
            !problem["title"].as_str().unwrap().is_empty()
                && !problem["detail"].as_str().unwrap().is_empty()
        );
        let retry_s = answer.header("retry-after");
        assert_eq!(retry_s.is_some(), problem["retry_after_ms"].is_u64(), "{problem}");
        (answer.status, retry_s.is_some())
    };
    let reserve = |budget: u64, amount: &str| json!({"budget": budget, "amount": amount});
    assert_eq!(refusal("reserve", reserve(1, "1.000001"), "exhausted"), (402, false));
    assert_eq!(refusal("spend", reserve(1, "1.000001"), "exhausted"), (402, false));
    assert_eq!(refusal("reserve", reserve(2, "0.1"), "paused"), (403, false));
    assert_eq!(refusal("reserve", reserve(3, "0.1"), "not_started"), (403, false));
    assert_eq!(refusal("reserve", reserve(4, "0.1"), "ended"), (403, false));
    assert_eq!(refusal("reserve", reserve(5, "0.11"), "day_exhausted"), (402, false));
    assert_eq!(refusal("reserve", reserve(99, "0.1"), "unknown_budget"), (404, false));
    let of = |budget: Value, amount: Value| json!({"budget": budget, "amount": amount});
    assert_eq!(
        refusal("reserve", of(json!("no/such"), json!("1")), "unknown_budget"),
        (404, false)
    );
    let amounts = "0 -1 -0 01 1e3 0.0000001 0.1000000 1000000000.000001 9223372036854775808 1. +1";
    for amount in amounts.split(' ') {
        assert_eq!(refusal("reserve", reserve(1, amount), "bad_amount"), (400, false), "{amount}");
    }
    for amount in ["0.5", "1.0", "1."] {
        assert_eq!(refusal("reserve", reserve(6, amount), "bad_amount"), (400, false), "{amount}");
    }
    let other = json!({"budget": 6, "amount": 1, "unit": "USD"});
    assert_eq!(refusal("reserve", other, "unit_mismatch"), (400, false));
    let foreign = json!({"token": "A".repeat(43)});
    for call in ["settle", "confirm", "release"] {
        assert_eq!(refusal(call, foreign.clone(), "foreign"), (403, false));
        assert_eq!(refusal(call, json!({"token": "A".repeat(44)}), "bad_token"), (400, false));
        assert_eq!(refusal(call, json!({"token": 7}), "bad_token"), (400, false));
    }
    let malformed = json!({"budget": 1, "amount": "1", "hold_ms": 600_001});
    assert_eq!(refusal("reserve", malformed, "malformed"), (400, false));
    node.wait_stat("the counter", |stat| stat["doors"]["spend"]["faults"]["bad_token"] == 6);
}

#[test]
fn work_of_unknown_length_is_confirmed_at_once() {
    let node = one().with("ledger.hold_ms", "80").start();
    let mut caller = Caller::to(&node);
    let body = json!({"budget": 1, "amount": "1", "confirm": true});
    let (status, granted) = caller.call("reserve", &body);
    assert_eq!(status, 200, "{granted}");
    node.wait_budget(1, "a confirmed hold", |books| books.held == 1_000_000);
    let deadline = money::Instant::parse(granted["deadline"].as_str().unwrap()).unwrap();
    // Longer than an unconfirmed hold lives.
    std::thread::sleep(std::time::Duration::from_millis(400));
    let settle = json!({"token": granted["token"], "amount": "0.5"});
    let settled = json!({"verdict": "settled", "amount": "0.50", "repeat": false});
    assert_eq!(caller.call("settle", &settle).1, settled);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(u128::from(deadline.ms()) > now.as_millis() + 3_000_000, "the billing deadline");
    let token = caller.reserve(1, "1");
    let confirmed = caller.call("confirm", &json!({"token": token}));
    assert_eq!((confirmed.0, &confirmed.1["verdict"]), (200, &json!("confirmed")));
    let again = caller.call("confirm", &json!({"token": token})).1;
    assert_eq!((&again["repeat"], &again["deadline"]), (&json!(true), &confirmed.1["deadline"]));
    let until = money::Instant::parse(again["deadline"].as_str().unwrap()).unwrap();
    assert!(until >= deadline);
    // Without an amount the whole hold is settled.
    let settled = json!({"verdict": "settled", "amount": "1.00", "repeat": false});
    assert_eq!(caller.call("settle", &json!({"token": token})).1, settled);
}

/// Who settles a hundred times the hold has put a point in the wrong place.
/// The deadline that is told is that of the books, whatever a later run is set to.
#[test]
fn a_confirmed_hold_keeps_the_deadline_that_was_told() {
    let node = one().with("ledger.hold_ms", "60000").with("ledger.billing_ms", "640000").start();
    let mut caller = Caller::to(&node);
    let token = caller.reserve(1, "1");
    let (_, first) = caller.call("confirm", &json!({"token": token}));
    let deadline = first["deadline"].as_str().unwrap();
    assert_eq!(first["verdict"], "confirmed", "{first}");
    // Rounded up to a 64th of the billing time: ten seconds.
    assert!(deadline.ends_with("0.000Z"), "{deadline}");
    let body = json!({"budget": 1, "amount": "1", "confirm": true});
    let (_, at_once) = caller.call("reserve", &body);
    assert!(at_once["deadline"].as_str().unwrap().ends_with("0.000Z"), "{at_once}");
    let node = node.restart_as(|setup| setup.with("ledger.billing_ms", "6400000"));
    let (status, again) = Caller::to(&node).call("confirm", &json!({"token": token}));
    let expected = json!({"verdict": "confirmed", "repeat": true, "deadline": deadline});
    assert_eq!((status, again), (200, expected));
}

#[test]
fn a_settle_far_above_its_hold_is_refused_and_the_hold_stays() {
    let setup = || patient(&line(1, "1000", ""));
    let node = setup().start();
    let mut caller = Caller::to(&node);
    let token = caller.reserve(1, "0.10");
    let settle = |amount: &str| json!({"token": token, "amount": amount});
    let too_much = |caller: &mut Caller, amount: &str| {
        let (status, problem) = caller.call("settle", &settle(amount));
        assert_eq!((status, &problem["verdict"]), (400, &json!("bad_amount")));
        let told = (&problem["field"], &problem["found"]);
        assert_eq!(told, (&json!("amount"), &json!(amount)), "as it was written");
        let expected = problem["expected"].as_str().unwrap();
        assert!(expected.contains("at most 10.00 USD") && !expected.contains("stays"), "{problem}");
    };
    too_much(&mut caller, "10.000001");
    too_much(&mut caller, "900");
    assert_eq!(node.budget(1).settled, 0);
    node.wait_budget(1, "the hold", |books| books.held == 100_000);
    let over = json!({"verdict": "settled_over", "amount": "10.00", "repeat": false});
    assert_eq!(caller.call("settle", &settle("10")), (200, over));
    too_much(&mut caller, "11");
    assert_eq!(node.budget(1).settled, 100_000, "what is above the hold is a line of its own");
    let node = setup().with("spend.over_factor_max", "0").start();
    let mut caller = Caller::to(&node);
    let token = caller.reserve(1, "0.000001");
    let (status, settled) = caller.call("settle", &json!({"token": token, "amount": "500"}));
    assert_eq!((status, &settled["verdict"]), (200, &json!("settled_over")));
}

/// What `curl -d` sends, and whatever else says that it is JSON or says nothing.
#[test]
fn bodies_are_json_whatever_curl_calls_them() {
    let node = one().start();
    let mut caller = Caller::to(&node);
    let body = "\u{feff}{\"budget\":1,\"amount\":\"0.01\"}";
    let mut post = |kind: &str| {
        let head = format!(
            "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        caller.http.send(head.as_bytes());
        caller.http.receive().status
    };
    for kind in [
        "",
        "Content-Type: application/json; charset=utf-8\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/vnd.weir+json\r\n",
    ] {
        assert_eq!(post(kind), 200, "{kind}");
    }
    for kind in ["text/plain", "text/json", "multipart/form-data; boundary=x", "application/xml"] {
        assert_eq!(post(&format!("Content-Type: {kind}\r\n")), 415, "{kind}");
    }
    assert_eq!(post("Content-Type: application/json\r\nContent-Type: text/plain\r\n"), 400);
    assert_eq!(node.budget(1).settled, 40_000);
}

#[test]
fn a_hold_can_be_shorter_than_all_others_and_ends_by_itself() {
    let node = one().start();
    let mut caller = Caller::to(&node);
    let (_, long) = caller.call("reserve", &json!({"budget": 1, "amount": "1"}));
    let (_, short) = caller.call("reserve", &json!({"budget": 1, "amount": "1", "hold_ms": 1}));
    let at =
        |answer: &Value| money::Instant::parse(answer["deadline"].as_str().unwrap()).unwrap().ms();
    // Both are rounded up by an eighth of the node's time at most.
    assert!(at(&long) - at(&short) > 400_000, "{long} {short}");
}

#[test]
fn a_batch_answers_each_call_with_its_own_status() {
    over_transports(one, |node| {
        let mut caller = Caller::to(node);
        let token = caller.reserve(1, "1");
        let batch = json!([
            {"call": "reserve", "budget": 1, "amount": "0.5"},
            {"call": "settle", "token": token, "amount": "0.25"},
            {"call": "spend", "budget": 1, "amount": "0.125"},
            {"call": "reserve", "budget": 2, "amount": "1"},
            {"call": "reserve", "budget": 1, "amount": "1e1"},
            {"call": "settle", "token": token, "amount": "0.25"},
        ]);
        let answer = caller.post("/v1/batch", &batch.to_string());
        assert_eq!(answer.status, 200);
        let all = answer.json();
        let status: Vec<u64> =
            all.as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect();
        assert_eq!(status, [200, 200, 200, 404, 400, 200], "{all}");
        let settled = |repeat: bool| json!({"status": 200, "body": {"verdict": "settled", "amount": "0.25", "repeat": repeat}});
        assert_eq!((&all[1], &all[5]), (&settled(false), &settled(true)));
        assert_eq!(
            all[2],
            json!({"status": 200, "body": {"verdict": "settled", "amount": "0.125"}})
        );
        assert_eq!(all[0]["body"]["token"].as_str().unwrap().len(), 43);
        assert_eq!(all[4]["body"]["field"], "amount");
        // A bad entry refuses itself, whatever it is.
        let alone = caller.post("/v1/reserve", "{\"budget\":2,\"amount\":\"1\"}").json();
        let mixed = caller
            .post("/v1/batch", "[1,{\"call\":\"reserve\",\"budget\":2,\"amount\":\"1\"}]")
            .json();
        assert_eq!((&mixed[0]["status"], &mixed[1]["body"]), (&json!(400), &alone));
        assert_eq!(node.budget(1).settled, 375_000);
        assert_eq!(caller.post("/v1/batch", " [ ] ").json(), json!([]));
        for body in ["{}", "[1", "1", "[{}"] {
            let answer = caller.post("/v1/batch", body);
            assert_eq!(
                (answer.status, &answer.json()["verdict"]),
                (400, &json!("malformed")),
                "{body}"
            );
        }
        let keyed = caller.with("Idempotency-Key: k").post("/v1/batch", &batch.to_string());
        assert_eq!((keyed.status, &keyed.json()["field"]), (400, &json!("Idempotency-Key")));
    });
}

/// Whatever an entry waits for, those behind it find the money that it left.
#[test]
fn entries_of_a_batch_are_judged_in_their_order() {
    let node = patient(r#"{"id":1,"name":"a","unit":"count","limit":100}"#).start();
    let mut caller = Caller::to(&node);
    let spend = |amount: u32| json!({"call": "spend", "budget": 1, "amount": amount});
    let reserve = |amount: u32| json!({"call": "reserve", "budget": 1, "amount": amount});
    // On a busy machine the bank's last word on what is left may come after the call's time: then a refusal is 429 in place of 402.
    let mut has_money = |batch: &[Value]| -> Vec<bool> {
        let (status, answers) = caller.call("batch", &json!(batch));
        assert_eq!(status, 200, "{answers}");
        let all = answers.as_array().unwrap().iter();
        let is_known = |answer: &Value| [200, 402, 429].iter().any(|one| answer["status"] == *one);
        assert!(all.clone().all(is_known), "{answers}");
        all.map(|answer| answer["status"] == 200).collect()
    };
    assert_eq!(has_money(&[reserve(30)]), [true]);
    let keyed = json!({"call": "spend", "budget": 1, "amount": 31, "key": "a"});
    let confirmed = json!({"call": "reserve", "budget": 1, "amount": 10, "confirm": true});
    let batch = [spend(39), reserve(32), keyed.clone(), reserve(1)];
    assert_eq!(has_money(&batch), [true, false, true, false]);
    assert_eq!(has_money(&[keyed, confirmed, reserve(1)]), [true, false, false]);
    assert_eq!(node.budget(1).settled, 70);
}

/// What a call gives back is there for the one behind it, in a batch and on one connection, for its own budget and for another below the same
/// parent, although the bank said no a moment before.
#[test]
fn money_that_was_given_back_is_there_for_the_next_ask() {
    let budgets = r#"{"id":1,"unit":"count","limit":100}
{"id":2,"unit":"count","limit":100,"parent":1}
{"id":3,"unit":"count","limit":100,"parent":1}"#;
    let mut node = patient(budgets).start();
    let mut caller = Caller::to(&node);
    let ask =
        |budget: u32| json!({"call": "reserve", "budget": budget, "amount": 100, "wait_ms": 1_000});
    let token_of = |answer: &Value| {
        assert_eq!(answer["status"], 200, "{answer}");
        answer["body"]["token"].clone()
    };
    let (_, first) = caller.call("batch", &json!([ask(2)]));
    let mut token = token_of(&first[0]);
    for round in 0..40 {
        if round % 5 == 4 {
            // Whose the hold is must be asked first: the ask behind it hears the bank's no before the release is judged.
            node = node.restart();
            caller = Caller::to(&node);
        }
        let all = ask(2 + round / 2 % 2);
        let refused = caller.call("batch", &json!([all])).1;
        assert_ne!(refused[0]["status"], 200, "{refused}");
        let release = json!({"call": "release", "token": token});
        let answers = match round % 2 {
            0 => caller.call("batch", &json!([release, all])).1,
            // The second is on its way before the first is answered.
            _ => caller.pipeline(&[&release, &all]),
        };
        assert_eq!(answers[0]["status"], 200, "round {round}: {answers}");
        token = token_of(&answers[1]);
    }
}

/// Calls that came before a stop are answered, also those behind one that waits: that one with what it came to, the others that they were
/// not begun.
#[test]
fn a_stop_answers_calls_behind_one_that_waits() {
    let mut node = one().start();
    let mut caller = Caller::to(&node);
    let token = caller.reserve(1, "1");
    limit_files(&node, "4096");
    let settle = json!({"token": token, "amount": "0.5"}).to_string();
    caller.send("/v1/settle", &settle);
    wait_journal(&node, "failing");
    let spend = "{\"budget\":1,\"amount\":\"0.25\"}";
    (0..2).for_each(|_| caller.send("/v1/spend", spend));
    node.terminate();
    wait_for("a door that is closed", || TcpStream::connect(door(&node)).is_err());
    limit_files(&node, "unlimited");
    // Told what became of it, or that nobody knows yet.
    let settled = caller.http.receive();
    assert!([200, 503].contains(&settled.status), "{}", settled.json());
    for _ in 0..2 {
        let answer = caller.http.receive();
        assert_eq!((answer.status, &answer.json()["verdict"]), (503, &json!("shutting_down")));
    }
    assert!(caller.http.try_receive().is_none());
    assert!(node.wait_end().success());
    assert_eq!(node.restart().budget(1).settled, 500_000);
}

/// Only calls that wait take a place.
#[test]
fn entries_that_need_not_wait_take_no_place() {
    let node = patient(&line(1, "10000", ""))
        .with("spend.calls_waiting_max", "4")
        .with("spend.batch_max", "4")
        .start();
    let mut callers: Vec<Caller> = (0..4).map(|_| Caller::to(&node)).collect();
    let token = callers[0].reserve(1, "1");
    let ask = json!({"call": "reserve", "budget": 1, "amount": "0.01"});
    let settle = json!({"call": "settle", "token": token});
    let batch = json!([ask, ask, settle, ask]).to_string();
    callers.iter_mut().for_each(|caller| caller.send("/v1/batch", &batch));
    for caller in &mut callers {
        let answers = caller.http.receive().json();
        let all = answers.as_array().unwrap();
        assert!(all.len() == 4 && all.iter().all(|one| one["status"] == 200), "{answers}");
    }
}

#[test]
fn a_batch_has_ten_thousand_calls_and_no_more() {
    let node = patient(&(line(1, "10", "") + &line(2, "10", ""))).start();
    let mut caller = Caller::to(&node);
    let batch = |count: usize| {
        let entry = r#"{"call":"reserve","budget":1,"amount":"0.000001"}"#;
        format!("[{}]", vec![entry; count].join(","))
    };
    let answer = caller.post("/v1/batch", &batch(10_000));
    let all = answer.json();
    let all = all.as_array().unwrap();
    assert_eq!((answer.status, all.len()), (200, 10_000));
    assert!(
        all.iter().all(|one| one["status"] == 200),
        "{:?}",
        all.iter().find(|one| one["status"] != 200)
    );
    node.wait_budget(1, "the holds", |books| books.held == 10_000);
    // More than the first purse of a fresh budget has: each entry waits for it, as the call alone would.
    let entry = r#"{"call":"reserve","budget":2,"amount":"0.001"}"#;
    let answer = caller.post("/v1/batch", &format!("[{}]", vec![entry; 9_000].join(",")));
    let refused =
        answer.json().as_array().unwrap().iter().filter(|one| one["status"] != 200).count();
    assert_eq!(refused, 0);
    let answer = caller.post("/v1/batch", &batch(10_001));
    assert_eq!((answer.status, answer.json()["verdict"].clone()), (413, json!("malformed")));
    node.wait_budget(1, "no more holds", |books| books.held == 10_000);
}

#[test]
fn pipelined_calls_are_answered_in_order() {
    over_transports(one, |node| {
        let mut caller = Caller::to(node);
        let token = caller.reserve(1, "1");
        caller.send("/v1/reserve", "{\"budget\":1,\"amount\":\"0.5\"}");
        caller.send("/v1/settle", &json!({"token": token, "amount": "0.25"}).to_string());
        caller.send("/v1/reserve", "{\"budget\":2,\"amount\":1}");
        caller.send("/v1/spend", "{\"budget\":1,\"amount\":\"0.125\"}");
        caller.http.finish();
        let status: Vec<u16> = (0..4).map(|_| caller.http.receive().status).collect();
        assert_eq!(status, [200, 200, 404, 200]);
        assert!(caller.http.try_receive().is_none(), "half closed, so it ends");
        assert_eq!(node.budget(1).settled, 375_000);
    });
}

#[test]
fn whoever_goes_before_the_answer_is_booked_all_the_same() {
    let node = one().start();
    let token = Caller::to(&node).reserve(1, "1");
    let settle = json!({"token": token, "amount": "0.5"});
    let mut hasty = Caller::to(&node);
    hasty.send("/v1/settle", &settle.to_string());
    drop(hasty);
    node.wait_budget(1, "the settle", |books| books.settled == 500_000);
    assert_eq!(
        Caller::to(&node).call("settle", &settle).1,
        json!({"verdict": "settled", "amount": "0.50", "repeat": true})
    );
}

#[test]
fn a_client_that_finished_sending_and_one_that_sends_byte_by_byte_are_answered() {
    over_transports(one, |node| {
        // The first ask waits for the bank; the settlement of the next one waits for the disk.
        let mut last = Caller::to(node);
        last.send("/v1/reserve", "{\"budget\":1,\"amount\":\"0.5\"}");
        last.send("/v1/spend", "{\"budget\":1,\"amount\":\"0.25\"}");
        last.http.finish();
        let answers = [last.http.receive(), last.http.receive()];
        assert_eq!(answers.map(|answer| answer.status), [200, 200]);
        assert!(last.http.try_receive().is_none());
        let mut slow = Http::connect(door(node));
        let body = "{\"budget\":1,\"amount\":\"0.125\"}";
        let head =
            format!("POST /v1/spend HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n", body.len());
        let head =
            head.replace("Host: a", "Host: localhost") + "Content-Type: application/json\r\n\r\n";
        for byte in head.bytes().chain(body.bytes()) {
            slow.send(&[byte]);
        }
        assert_eq!(slow.receive().status, 200);
        assert_eq!(node.budget(1).settled, 375_000);
    });
}

#[test]
fn calls_may_be_packed_and_what_unpacks_to_too_much_is_refused() {
    let node = one().with("spend.body_bytes_max", "65536").start();
    let mut caller = Caller::to(&node).with("Content-Encoding: gzip");
    let mut post = |body: &[u8]| {
        let packed = gzip(body);
        let head = format!(
            "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n",
            caller.headers,
            packed.len()
        );
        caller.http.send(&[head.as_bytes(), &packed].concat());
        caller.http.receive()
    };
    let spend = json!({"call": "spend", "budget": 1, "amount": "0.001"});
    let answer = post(json!([spend, spend]).to_string().as_bytes());
    assert_eq!((answer.status, answer.json().as_array().unwrap().len()), (200, 2));
    assert_eq!(post(&vec![b' '; 1 << 20]).status, 413, "a kilobyte that unpacks to a megabyte");
    let mut plain = Caller::to(&node).with("Accept-Encoding: gzip");
    let entries = vec![json!({"call": "reserve", "budget": 1, "amount": "0.000001"}); 200];
    let answer = plain.post("/v1/batch", &Value::from(entries).to_string());
    assert_eq!((answer.status, answer.header("content-encoding")), (200, Some("gzip")));
    assert_eq!(node.budget(1).settled, 2_000);
}

#[test]
fn where_a_budget_stands_is_shown() {
    over_transports(one, |node| {
        let mut caller = Caller::to(node);
        let token = caller.reserve(1, "4");
        caller.call("settle", &json!({"token": token, "amount": "3"}));
        node.wait_budget(1, "the settle", |books| books.held == 0);
        let answer = caller.get("/v1/budgets/1");
        let expected = json!({
            "id": 1, "handle": null, "name": "budget 1", "unit": "USD", "limit": "10.00", "available": "7.00", "held": "0.00",
            "settled": "3.00", "status": "active",
        });
        assert_eq!((answer.status, answer.json()), (200, expected));
        for (path, status) in [("2", 404), ("no/such", 404), ("", 400), ("007", 400), ("%ff", 400)]
        {
            assert_eq!(caller.get(&format!("/v1/budgets/{path}")).status, status, "{path}");
        }
        let bad = caller.get("/v1/budgets/007").json();
        let told = ["verdict", "field", "found"].map(|name| bad[name].as_str().unwrap());
        assert_eq!(told, ["malformed", "budget", "007"], "{bad}");
        assert!(bad["expected"].as_str().unwrap().starts_with("an id (digits without"), "{bad}");
        for _ in 0..200 {
            assert_eq!(caller.get("/v1/budgets/1").status, 200);
        }
    });
}

/// What is left is the least of all that binds: the life, the windows, the parents.
#[test]
fn what_is_available_is_that_of_the_narrowest_limit() {
    let budgets = [
        line(1, "3", ""),
        line(2, "10", ",\"parent\":1,\"handle\":\"team/a\",\"name\":\"A\""),
        line(3, "10", ",\"daily\":\"0.50\""),
        line(4, "10", ",\"status\":\"paused\""),
        line(5, "10", ",\"start\":\"2099-01-01T00:00:00Z\""),
    ];
    let node = patient(&budgets.concat()).start();
    let mut caller = Caller::to(&node);
    caller.reserve(2, "1");
    let spent = json!({"budget": 3, "amount": "0.20"});
    assert_eq!(caller.call("spend", &spent).0, 200);
    let look = |name: &str| Caller::to(&node).get(&format!("/v1/budgets/{name}")).json();
    let of_parent = wait_value("the hold", || {
        let shown = look("team%2Fa");
        (shown["held"] == "1.00").then_some(shown)
    });
    assert_eq!((&of_parent["available"], &of_parent["name"]), (&json!("2.00"), &json!("A")));
    assert_eq!((&of_parent["id"], &look("team/a")["handle"]), (&json!(2), &json!("team/a")));
    assert_eq!(look("3")["available"], "0.30");
    let status = ["1", "4", "5"].map(|name| look(name)["status"].clone());
    assert_eq!(status, [json!("active"), json!("paused"), json!("not_started")]);
}

#[test]
fn what_is_no_call_is_told_what_would_be() {
    over_transports(one, |node| {
        let mut caller = Caller::to(node);
        for path in ["/v1", "/v1/refund", "/v1/reserve/", "/v1/Reserve", "/v2/reserve", "/x"] {
            assert_eq!(caller.post(path, "{}").status, 404, "{path}");
        }
        let answer = caller.get("/v1/reserve");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("post")));
        for path in ["/v1/budgets/1", "/", "/openapi.json"] {
            let answer = caller.post(path, "{}");
            assert_eq!((answer.status, answer.header("allow")), (405, Some("get, head")));
        }
        caller.http.send(b"DELETE /v1/reserve HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = caller.http.receive();
        assert_eq!((answer.status, answer.json()["verdict"].clone()), (405, json!("malformed")));
        assert_eq!(answer.header("allow"), Some("post"));
        for path in ["/healthz", "/openapi.json", "/docs", "/"] {
            assert_eq!(caller.get(path).status, 200, "{path}");
        }
        let root = String::from_utf8(caller.get("/").body).unwrap();
        assert!(root.contains("the spend door") && root.contains("href=\"/openapi.json\""));
        // A body that is too large is refused before it is sent.
        let head = "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2097153\r\n\r\n";
        caller.http.send(head.as_bytes());
        let answer = caller.http.receive();
        assert_eq!((answer.status, answer.json()["verdict"].clone()), (413, json!("malformed")));
        assert!(caller.http.try_receive().is_none());
        node.wait_stat("the counter", |stat| stat["doors"]["spend"]["faults"]["unknown_path"] == 6);
    });
}

/// Another reader might take the other one.
#[test]
fn a_header_that_stands_there_twice_is_refused() {
    over_transports(one, |node| {
        let body = r#"{"budget":1,"amount":"1"}"#;
        let answer_to = |headers: &str| {
            let mut http = Http::connect(door(node));
            let head = "POST /v1/spend HTTP/1.1\r\nContent-Type: application/json\r\n";
            http.send(format!("{head}{headers}\r\n{body}").as_bytes());
            let answer = http.receive();
            (answer.status, answer.json())
        };
        let (host, length) = ("Host: localhost\r\n", "Content-Length: 25\r\n");
        for (twice, name) in [
            ("Idempotency-Key: a\r\nidempotency-key: b\r\n", "Idempotency-Key"),
            ("Idempotency-Key: a\r\nIdempotency-Key: a\r\n", "Idempotency-Key"),
            ("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", "Authorization"),
            ("Host: localhost\r\n", "Host"),
            ("Content-Length: 24\r\n", "length"),
        ] {
            let (status, problem) = answer_to(&[host, length, twice].concat());
            assert_eq!((status, &problem["verdict"]), (400, &json!("malformed")), "{twice}");
            assert!(problem["detail"].as_str().unwrap().contains(name), "{problem}");
        }
        assert_eq!(node.budget(1).settled, 0);
        // The same length twice says one thing (RFC 9112, section 6.3).
        assert_eq!(answer_to(&[host, length, length].concat()).0, 200);
    });
}

#[test]
fn a_refusal_says_what_was_expected_and_which_limit_was_met() {
    let template = "{\"template\":\"llm/{user}\",\"limit\":\"5\"}\n";
    let node = patient(&(line(1, "10", "") + &line(2, "10", ",\"unit\":\"count\"") + template))
        .with("budgets.templates_max", "1")
        .with("spend.keys_max", "1")
        .start();
    let mut caller = Caller::to(&node);
    wait_value("the template", || {
        let body = json!({"budget": "llm/ann", "amount": "0.10"});
        (caller.call("spend", &body).0 == 200).then_some(())
    });
    let token = caller.reserve(1, "1");
    let long = "t".repeat(44);
    let reserve = |of: Value, amount: &str| json!({"budget": of, "amount": amount});
    for (call, body, status, part) in [
        ("reserve", reserve(json!(1), "2000000000"), 400, "0.000001 to 1000000000.00 USD"),
        ("reserve", reserve(json!(1), "99999999999999"), 400, "0.000001 to 1000000000.00 USD"),
        ("reserve", reserve(json!(2), "1000000000000001"), 400, "1 to 1000000000000000 count"),
        (
            "settle",
            json!({"token": token, "amount": "1000000000.000001"}),
            400,
            "0.00 to 1000000000.00 USD",
        ),
        ("reserve", reserve(json!(1), "9.5"), 402, "less left than was asked"),
        ("spend", reserve(json!("llm/bob"), "1"), 429, "budgets.templates_max (1)"),
        ("reserve", json!({"budget": 1, "amount": "1", "hold_ms": 600_001}), 400, "1 to 600000"),
        ("release", json!({"token": long}), 400, "44 characters"),
        ("release", json!({"token": long}), 400, "43 characters"),
    ] {
        let (found, problem) = caller.call(call, &body);
        assert_eq!(found, status, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{part}: {problem}");
    }
    let mut keyed = Caller::to(&node).with("Idempotency-Key: one");
    assert_eq!(keyed.call("spend", &reserve(json!(1), "1")).0, 200);
    let mut keyed = Caller::to(&node).with("Idempotency-Key: two");
    let (status, problem) = keyed.call("spend", &reserve(json!(1), "1"));
    assert_eq!((status, &problem["verdict"]), (429, &json!("busy")));
    assert!(problem["detail"].as_str().unwrap().contains("spend.keys_max (1)"), "{problem}");
    for (method, path, expected) in [
        ("DELETE", "/v1/reserve", ("post", "expected POST")),
        ("PUT", "/v1/budgets/1", ("get, head", "expected GET or HEAD")),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        caller.http.send(head.as_bytes());
        let answer = caller.http.receive();
        let problem = answer.json();
        let told = (answer.header("allow").unwrap(), problem["detail"].as_str().unwrap());
        assert_eq!((answer.status, told), (405, expected));
    }
}

/// Nobody waits for a disk without a bound; what was under way is booked once, whoever repeats it.
#[test]
fn while_nothing_can_be_sealed_a_batch_is_answered_and_then_booked_once() {
    over_transports(one, |node| {
        let mut caller = Caller::to(node);
        let token = caller.reserve(1, "1");
        limit_files(node, "4096");
        let settle = json!({"call": "settle", "token": token, "amount": "0.5"});
        let confirmed = json!({"call": "reserve", "budget": 1, "amount": "2", "confirm": true});
        let spend = json!({"call": "spend", "budget": 1, "amount": "0.25", "key": "k"});
        let unread = json!({"call": "refund"});
        let batch = json!([settle, confirmed, spend, unread]).to_string();
        let begun = std::time::Instant::now();
        let answer = caller.post("/v1/batch", &batch);
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
        let entries = answer.json();
        for entry in 0..3 {
            let entry = &entries[entry];
            let found = (&entry["status"], &entry["body"]["verdict"]);
            assert_eq!(found, (&json!(503), &json!("journal")));
        }
        assert_eq!(entries[3]["status"], 400);
        let settle = json!({"token": token, "amount": "0.5"});
        assert_eq!(caller.call("settle", &settle).0, 503, "on the same connection");
        limit_files(node, "unlimited");
        wait_journal(node, "sealing");
        wait_value("the settle", || (caller.call("settle", &settle).0 == 200).then_some(()));
        assert_eq!(caller.call("settle", &settle).1["repeat"], true);
        wait_value("the entry with a key", || {
            let batch = json!([spend]).to_string();
            (caller.post("/v1/batch", &batch).json()[0]["status"] == 200).then_some(())
        });
        // Nobody has the token of the confirmed hold: it is released.
        let books = node.wait_budget(1, "what is free again", |books| books.held == 0);
        assert_eq!(books.settled, 750_000);
    });
}
