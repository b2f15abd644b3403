//! What a node answers while its budgets are not in force yet: "try again", and never that a budget is not there.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use wire::Verdict;

use crate::openrtb::Http;
use crate::spend::{Caller, patient};
use crate::support::{Client, Setup, line, wait_for};

/// So many that it takes a while until they are in force.
const BUDGETS: u64 = 50_000;

/// An address of these tests alone: nobody else listens there meanwhile.
fn free() -> (SocketAddr, &'static str) {
    let listener = TcpListener::bind("127.0.17.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, address.to_string().leak())
}

/// A connection to a door that may not listen yet; `false`: the test is over.
fn reached(address: SocketAddr, is_over: &AtomicBool) -> bool {
    while TcpStream::connect(address).is_err() {
        if is_over.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// What is asked of the spend door.
fn ask(caller: &mut Caller, what: &str) -> (u16, Value) {
    if let Some(path) = what.strip_prefix("GET ") {
        let answer = caller.get(path);
        let body = if path == "/healthz" { Value::Null } else { answer.json() };
        return (answer.status, body);
    }
    let budget = what.parse::<u64>().map_or_else(|_| json!(what), Value::from);
    caller.call("reserve", &json!({"budget": budget, "amount": "0.01"}))
}

/// Asks for all of them in turn, each until its first 200; how many answers came before. First it settles a hold of the run before.
fn ask_at_spend_door(address: SocketAddr, is_over: &AtomicBool, token: Option<Value>) -> usize {
    if !reached(address, is_over) {
        return 0;
    }
    let mut caller = Caller { http: Http::connect(address), headers: String::new() };
    let mut early = 0;
    if let Some(token) = token {
        let (status, answer) = caller.call("settle", &json!({"token": token}));
        assert_eq!((status, &answer["verdict"]), (200, &json!("settled")), "{answer}");
    }
    let mut left = vec!["GET /healthz", "1", "50000", "team/one", "llm/ann", "GET /v1/budgets/7"];
    left.push("GET /v1/budgets/team/one");
    wait_for("good answers", || {
        left.retain(|what| {
            let (status, answer) = ask(&mut caller, what);
            let is_early = status == 503 && (answer.is_null() || answer["verdict"] == "busy");
            assert!(status == 200 || is_early, "{what}: {status} {answer}");
            early += usize::from(is_early);
            is_early
        });
        left.is_empty()
    });
    early
}

/// The same at the batch door, in its forms of an ask.
fn ask_at_batch_door(address: SocketAddr, is_over: &AtomicBool) {
    if !reached(address, is_over) {
        return;
    }
    let mut client = Client::connect(address);
    client.hello();
    let early = [Verdict::Busy, Verdict::PurseEmpty];
    wait_for("a grant", || {
        let verdict = client.verdict(1, 1);
        assert!(verdict == Verdict::Granted || early.contains(&verdict), "{verdict:?}");
        verdict == Verdict::Granted
    });
    for handle in ["team/one", "llm/bob"] {
        wait_for("a handle", || match client.find(handle) {
            Ok(_) => true,
            Err(verdict) => {
                assert_eq!(verdict, Verdict::Busy, "{handle}");
                false
            }
        });
    }
}

/// On a fresh data folder, and on one whose journal knows the budgets.
#[test]
fn a_start_never_says_that_a_budget_is_not_there() {
    let lines = (1..BUDGETS).map(|id| line(id, "10", ""));
    let budgets: String = lines.chain([line(BUDGETS, "10", r#","handle":"team/one""#)]).collect();
    let ((spend, at_spend), (batch, at_batch)) = (free(), free());
    let setup = patient(&(budgets + "{\"template\":\"llm/{team}\",\"limit\":\"5\"}\n"))
        .with_door("spend", at_spend)
        .with_door("batch", at_batch);
    let mut token = None;
    for run in ["first", "second"] {
        // The kernel closes the doors of a node that was killed a moment after its end.
        let is_closed = |address| TcpStream::connect(address).is_err();
        wait_for("closed doors", || is_closed(spend) && is_closed(batch));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (is_over, before) = (&is_over, token.take());
            let early = scope.spawn(move || ask_at_spend_door(spend, is_over, before));
            scope.spawn(move || ask_at_batch_door(batch, is_over));
            let node = Setup::try_start(setup.clone());
            is_over.store(true, Ordering::Relaxed);
            let node = node.unwrap();
            println!("{run} start: {} answers before their budgets", early.join().unwrap());
            let mut caller = Caller::to(&node);
            assert_eq!(caller.get("/healthz").status, 200, "ready means ready");
            for unknown in ["99999999", "no/such"] {
                let (status, answer) = ask(&mut caller, unknown);
                assert_eq!((status, &answer["verdict"]), (404, &json!("unknown_budget")));
            }
            let hold = json!({"budget": 2, "amount": "1", "confirm": true});
            token = Some(caller.call("reserve", &hold).1["token"].clone());
        });
    }
}

/// A configuration without any budget is one: what it does not have is not there.
#[test]
fn a_file_without_budgets_has_none() {
    let node = Setup::new("\n").start();
    let mut caller = Caller::to(&node);
    wait_for("its configuration", || caller.get("/healthz").status == 200);
    for what in ["1", "no/such", "GET /v1/budgets/1"] {
        let (status, answer) = ask(&mut caller, what);
        assert_eq!((status, &answer["verdict"]), (404, &json!("unknown_budget")), "{what}");
    }
    assert_eq!(node.client().verdict(1, 1), Verdict::UnknownBudget);
}
