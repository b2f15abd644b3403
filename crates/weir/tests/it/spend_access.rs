//! Who may call the spend door: principals within their scopes, no page in a browser, nobody beyond this machine without a token
//! and TLS.

use std::path::Path;

use serde_json::json;
use weir_config::config::Config;

use crate::spend::{Caller, patient};
use crate::support::{Setup, cores, line, over_transports, text, wait_for, wait_value};

fn budgets() -> String {
    [1, 2].map(|id| line(id, "10", "")).concat()
}

const TOKENS: &str = "shop spend shop-0123456789a budget:1\nbank spend bank-0123456789a budget:2\nall spend all-00123456789a\n\
    ann operate ann-0123456789ab\n";

fn with_tokens(folder: &Path) -> Setup {
    let file = folder.join("tokens");
    std::fs::write(&file, TOKENS).unwrap();
    patient(&budgets()).with("spend.tokens_file", text(&file))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn a_caller_needs_a_token_and_meets_only_what_it_may_use() {
    let folder = tempfile::tempdir().unwrap();
    over_transports(
        || with_tokens(folder.path()),
        |node| {
            let body = json!({"budget": 1, "amount": "1"});
            for header in
                ["X: y", "Authorization: Basic YTpi", &bearer("shop-0123456789b"), &bearer("")]
            {
                let answer = Caller::to(node).with(header).post("/v1/reserve", &body.to_string());
                assert_eq!(
                    (answer.status, answer.header("www-authenticate")),
                    (401, Some("bearer")),
                    "{header}"
                );
            }
            let ann = Caller::to(node).with(&bearer("ann-0123456789ab")).call("reserve", &body);
            assert_eq!((ann.0, &ann.1["verdict"]), (403, &json!("forbidden")));
            let mut shop = Caller::to(node).with(&bearer("shop-0123456789a"));
            let mut bank = Caller::to(node).with(&bearer("bank-0123456789a"));
            let mut all = Caller::to(node).with("authorization: bearer all-00123456789a");
            let token = shop.reserve(1, "1");
            // Out of scope and not there are the same.
            let mut hidden = bank.post("/v1/reserve", &body.to_string());
            let unknown = bank.post("/v1/reserve", "{\"budget\":3,\"amount\":\"1\"}");
            assert_eq!((hidden.status, &hidden.body), (404, &unknown.body));
            for path in ["/v1/budgets/1", "/v1/budgets/3"] {
                let answer = bank.get(path);
                assert_eq!((answer.status, &answer.body), (404, &unknown.body), "{path}");
            }
            // So is the hold of another.
            let settle = json!({"token": token}).to_string();
            for call in ["settle", "confirm", "release"] {
                hidden = bank.post(&format!("/v1/{call}"), &settle);
                assert_eq!(
                    (hidden.status, &hidden.json()["verdict"]),
                    (404, &json!("unknown_budget")),
                    "{call}"
                );
            }
            assert_eq!(node.budget(1).settled, 0);
            assert_eq!(all.call("settle", &json!({"token": token, "amount": "1"})).0, 200);
            assert_eq!(node.budget(1).settled, 1_000_000);
            // One connection, several callers, as behind a proxy.
            shop.headers = format!("{}\r\n", bearer("bank-0123456789a"));
            assert_eq!(shop.call("reserve", &body).0, 404);
            shop.headers.clear();
            assert_eq!(shop.call("reserve", &body).0, 401);
            // A key is its principal's own.
            let spend = "{\"budget\":2,\"amount\":\"1\"}";
            bank.headers += "Idempotency-Key: same\r\n";
            all.headers += "Idempotency-Key: same\r\n";
            for _ in 0..2 {
                assert_eq!(bank.post("/v1/spend", spend).status, 200);
                assert_eq!(all.post("/v1/spend", spend).status, 200);
            }
            assert_eq!(node.budget(2).settled, 2_000_000);
            for path in ["/healthz", "/docs", "/openapi.json", "/"] {
                assert_eq!(Caller::to(node).get(path).status, 200, "{path}");
            }
        },
    );
}

#[test]
fn no_page_in_a_browser_spends_and_no_other_name_leads_here() {
    over_transports(
        || patient(&budgets()),
        |node| {
            let body = "{\"budget\":1,\"amount\":\"1\"}";
            for header in [
                "Origin: https://evil.example",
                "Origin: null",
                "Origin: http://localhost:7704",
                "Sec-Fetch-Site: cross-site",
                "Sec-Fetch-Site: same-site",
                "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site",
            ] {
                let mut caller = Caller::to(node).with(header);
                let answer = caller.post("/v1/spend", body);
                assert_eq!(
                    (answer.status, &answer.json()["verdict"]),
                    (403, &json!("forbidden")),
                    "{header}"
                );
                for path in ["/v1/budgets/1", "/openapi.json", "/", "/healthz", "/nothing"] {
                    assert_eq!(caller.get(path).status, 403, "{header}: {path}");
                }
                for method in ["OPTIONS", "HEAD", "DELETE"] {
                    let mut caller = Caller::to(node);
                    let head = format!(
                        "{method} /v1/spend HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n"
                    );
                    caller.http.send(head.as_bytes());
                    caller.http.finish();
                    let answer = String::from_utf8_lossy(&caller.http.rest()).to_lowercase();
                    assert!(answer.starts_with("http/1.1 403 "), "{method}: {answer}");
                    assert!(!answer.contains("access-control"), "{answer}");
                }
            }
            for own in ["Sec-Fetch-Site: none", "sec-fetch-site: Same-Origin"] {
                assert_eq!(Caller::to(node).with(own).get("/v1/budgets/1").status, 200, "{own}");
            }
            for host in ["evil.example", "localhost.evil.example", "127.0.0.2", ""] {
                let mut caller = Caller::to(node);
                let head = format!(
                    "POST /v1/spend HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                caller.http.send(head.as_bytes());
                let answer = caller.http.receive();
                assert_eq!(
                    (answer.status, &answer.json()["verdict"]),
                    (421, &json!("malformed")),
                    "{host}"
                );
                assert!(answer.json()["detail"].as_str().unwrap().contains("spend.hosts"));
            }
            // What a page can send without asking is no JSON.
            let mut caller = Caller::to(node);
            let head = format!(
                "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            caller.http.send(head.as_bytes());
            assert_eq!(caller.http.receive().status, 415);
            assert_eq!(node.budget(1).settled, 0);
        },
    );
}

#[test]
fn beyond_loopback_tokens_and_tls_are_required() {
    let mut config = Config::default();
    assert!(config.check_doors().is_ok());
    config.spend.listen = "0.0.0.0:7704".parse().unwrap();
    let refused = |config: &Config| {
        let errors = config.check_doors().unwrap_err();
        assert!(
            errors[0].text.contains(
                "set spend.tls_cert and spend.tls_key, and spend.tokens_file or spend.tls_clients"
            ),
            "{errors:?}"
        );
    };
    refused(&config);
    config.spend.tokens_file = "tokens".into();
    refused(&config);
    config.spend.tls_cert = "cert".into();
    assert!(config.check_doors().is_ok());
    config.spend.tokens_file.clear();
    refused(&config);
    config.spend.tls_clients = "clients".into();
    assert!(config.check_doors().is_ok());
    config.spend.tls_cert.clear();
    refused(&config);
}

/// Who may look sees what its scopes cover, and moves nothing.
#[test]
fn a_reader_looks_and_does_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let tokens = "board read board-0123456789 budget:1,handle:team/*\nshop spend shop-0123456789a\nann operate ann-0123456789ab\n";
    std::fs::write(&file, tokens).unwrap();
    let budgets = budgets() + &line(3, "10", ",\"handle\":\"team/a\"");
    let node = patient(&budgets).with("spend.tokens_file", text(&file)).start();
    let mut board = Caller::to(&node).with(&bearer("board-0123456789"));
    let status =
        ["1", "2", "3", "team/a"].map(|name| board.get(&format!("/v1/budgets/{name}")).status);
    assert_eq!(status, [200, 404, 200, 200]);
    for call in ["reserve", "spend", "batch", "settle"] {
        let (status, problem) = board.call(call, &json!({"budget": 1, "amount": "1"}));
        assert_eq!((status, &problem["verdict"]), (403, &json!("forbidden")), "{call}");
    }
    let ann = Caller::to(&node).with(&bearer("ann-0123456789ab")).get("/v1/budgets/1");
    assert_eq!((ann.status, &ann.json()["verdict"]), (403, &json!("forbidden")));
    // One connection, several callers: what the last one might is not what this one may.
    board.headers = format!("{}\r\n", bearer("shop-0123456789a"));
    assert_eq!(board.call("spend", &json!({"budget": 1, "amount": "1"})).0, 200);
    board.headers = format!("{}\r\n", bearer("board-0123456789"));
    assert_eq!(board.call("spend", &json!({"budget": 1, "amount": "1"})).0, 403);
}

/// Slow clients, cut requests, smuggled lengths: each is refused or ends, and moves no money.
#[test]
fn broken_requests_move_no_money() {
    over_transports(
        || patient(&budgets()).with("transport.partial_ms_max", "300"),
        |node| {
            let body = "{\"budget\":1,\"amount\":\"1\"}";
            let head = |more: &str| {
                format!(
                    "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}\r\n"
                )
            };
            // Cut in the middle of its body: it never was a request.
            let mut cut = Caller::to(node);
            cut.http.send(format!("{}{}", head("Content-Length: 26\r\n"), &body[..20]).as_bytes());
            cut.http.finish();
            assert!(cut.http.try_receive().is_none_or(|answer| answer.status >= 400));
            let mut slow = Caller::to(node);
            slow.http.send(format!("{}{}", head("Content-Length: 26\r\n"), &body[..20]).as_bytes());
            assert!(slow.http.try_receive().is_none(), "it has had its time");
            for lengths in [
                "Content-Length: 26\r\nTransfer-Encoding: chunked\r\n",
                "Content-Length: 26\r\nContent-Length: 25\r\n",
                "Transfer-Encoding: gzip, chunked\r\n",
            ] {
                let mut caller = Caller::to(node);
                caller.http.send(format!("{}{body}", head(lengths)).as_bytes());
                let answer = caller.http.receive();
                assert_eq!(
                    (answer.status, &answer.json()["verdict"]),
                    (400, &json!("malformed")),
                    "{lengths}"
                );
                assert!(caller.http.try_receive().is_none());
            }
            assert_eq!(node.budget(1).settled, 0);
            // In chunks and after a 100 it is a call like any other.
            let mut caller = Caller::to(node);
            caller
                .http
                .send(head("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n").as_bytes());
            assert_eq!(caller.http.receive().status, 100);
            caller.http.send(
                format!("10\r\n{}\r\n9\r\n{}\r\n0\r\n\r\n", &body[..16], &body[16..]).as_bytes(),
            );
            assert_eq!(caller.http.receive().status, 200);
            assert_eq!(node.budget(1).settled, 1_000_000);
        },
    );
}

/// A worker that never met a budget hears of it with the owner of the grant: scopes may name it by its handle alone.
#[test]
fn a_scope_of_handles_settles_at_whichever_worker_a_connection_meets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let tokens = "ours spend ours-0123456789a handle:llm/a/*\ntheirs spend theirs-012345678 handle:llm/b/*\n";
    std::fs::write(&file, tokens).unwrap();
    let template = "{\"template\":\"llm/{team}/{user}\",\"limit\":\"5\"}\n";
    over_transports(
        || {
            patient(&(line(1, "10", "") + template))
                .with("spend.tokens_file", text(&file))
                .with("workers.cores", &cores(2))
        },
        |node| {
            let of = |token: &str| Caller::to(node).with(&bearer(token));
            let (mut ours, mut theirs) = (of("ours-0123456789a"), of("theirs-012345678"));
            let body = json!({"budget": "llm/a/ann", "amount": "0.10"});
            let reserve = |caller: &mut Caller| {
                let granted = wait_value("the template", || {
                    let (status, answer) = caller.call("reserve", &body);
                    (status == 200).then_some(answer)
                });
                granted["token"].as_str().unwrap().to_owned()
            };
            for _ in 0..16 {
                let token = reserve(&mut ours);
                let settle = json!({"token": token, "amount": "0.04"});
                // Which of the workers it meets is chance: of sixteen, hardly all the one that reserved.
                let (status, answer) = of("theirs-012345678").call("settle", &settle);
                assert_eq!((status, &answer["verdict"]), (404, &json!("unknown_budget")));
                let (status, answer) = of("ours-0123456789a").call("settle", &settle);
                let settled = json!({"verdict": "settled", "amount": "0.04", "repeat": false});
                assert_eq!((status, answer), (200, settled));
                // Money that its worker has stays with it when it hears of the budget once more.
                assert_eq!(ours.call("settle", &settle).1["repeat"], true);
            }
            assert_eq!(theirs.call("reserve", &body).0, 404);
            // 0.64 of 5 are spent, and all the rest can be had, wherever its purses are.
            for ask in 0..43 {
                let (status, answer) = of("ours-0123456789a").call("reserve", &body);
                assert_eq!(status, 200, "{ask}: {answer}");
            }
        },
    );
}

/// Who may name a budget by its handle may settle what was held of it when the file names it no more.
#[test]
fn a_scope_of_handles_settles_what_a_budget_held_that_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "ours spend ours-0123456789a handle:team/*\n").unwrap();
    let node = patient(&(line(1, "10", r#","handle":"team/a""#) + &line(2, "10", "")))
        .with("spend.tokens_file", text(&file))
        .with("budgets.end_share_max_percent", "100")
        .start();
    let mut ours = Caller::to(&node).with(&bearer("ours-0123456789a"));
    let ask = json!({"budget": "team/a", "amount": "1.00", "confirm": true});
    let (status, held) = ours.call("reserve", &ask);
    assert_eq!(status, 200, "{held}");
    std::fs::write(node.budgets_file(), line(2, "10", "")).unwrap();
    wait_for("the end", || ours.call("reserve", &ask).0 == 404);
    let (status, answer) = ours.call("settle", &json!({"token": held["token"], "amount": "0.40"}));
    assert_eq!((status, &answer["verdict"]), (200, &json!("settled")), "{answer}");
}

/// Where a budget stands is the bank's word: a worker that never met it knows as well, and a look makes none.
#[test]
fn a_made_budget_is_seen_at_whichever_worker_a_connection_meets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let tokens = "ours spend ours-0123456789a handle:llm/a/*\ntheirs spend theirs-012345678 handle:llm/b/*\n";
    std::fs::write(&file, tokens).unwrap();
    let template = "{\"template\":\"llm/{team}/{user}\",\"limit\":\"5\"}\n";
    let node = patient(&(line(1, "10", "") + template))
        .with("spend.tokens_file", text(&file))
        .with("workers.cores", &cores(2))
        .start();
    let ours = || Caller::to(&node).with(&bearer("ours-0123456789a"));
    let theirs = || Caller::to(&node).with(&bearer("theirs-012345678"));
    wait_value("the template", || {
        let body = json!({"budget": "llm/a/ann", "amount": "0.10"});
        (ours().call("spend", &body).0 == 200).then_some(())
    });
    let id = ours().get("/v1/budgets/llm/a/ann").json()["id"].as_str().unwrap().to_owned();
    // Which of the workers each connection meets is chance: of sixteen, hardly all the one that made it.
    for _ in 0..16 {
        for name in ["llm/a/ann", &id] {
            let path = format!("/v1/budgets/{name}");
            let answer = ours().get(&path);
            let shown = answer.json();
            assert_eq!((answer.status, &shown["id"]), (200, &json!(id)), "{name}");
            assert_eq!(
                (&shown["handle"], &shown["settled"]),
                (&json!("llm/a/ann"), &json!("0.10"))
            );
            assert_eq!(theirs().get(&path).status, 404, "{name}");
        }
        assert_eq!(ours().get("/v1/budgets/llm/a/bob").status, 404);
    }
    assert_eq!(node.stat()["bank"]["budgets_made"], 1);
    // What is held is told before anybody confirms it, whichever workers hold it.
    for held in 1..=4 {
        let body = json!({"budget": "llm/a/ann", "amount": "1.00", "wait_ms": 1_000});
        assert_eq!(ours().call("reserve", &body).0, 200);
        wait_value("what is held", || {
            let shown = ours().get("/v1/budgets/llm/a/ann").json();
            let (is, left) = (format!("{held}.00"), format!("{}.90", 4 - held));
            (shown["held"] == is && shown["available"] == left).then_some(())
        });
    }
}

/// Whoever operates the node sees whose keys fill the table, before a caller has no room.
#[test]
fn the_keys_of_idempotency_are_shown_by_caller() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_tokens(folder.path()).start();
    let spend = |token: &str, budget: u32, key: &str| {
        let body = json!({"budget": budget, "amount": "1"}).to_string();
        let mut caller =
            Caller::to(&node).with(&format!("{}\r\nIdempotency-Key: {key}", bearer(token)));
        assert_eq!(caller.post("/v1/spend", &body).status, 200);
    };
    for (token, budget, key) in [
        ("shop-0123456789a", 1, "a"),
        ("bank-0123456789a", 2, "a"),
        ("bank-0123456789a", 2, "b"),
        ("bank-0123456789a", 2, "b"),
    ] {
        spend(token, budget, key);
    }
    let shown = wait_value("the keys of both callers", || {
        let text = node.get("/metrics").1;
        let lines = text.lines().filter(|line| line.starts_with("weir_idempotency_keys{"));
        let lines: Vec<String> = lines.map(str::to_string).collect();
        (lines.len() == 2).then_some(lines)
    });
    let expected =
        ["weir_idempotency_keys{caller=\"bank\"} 2", "weir_idempotency_keys{caller=\"shop\"} 1"];
    assert_eq!(shown, expected);
}
