//! Who may call the door: not a page in somebody's browser that calls itself by a name of this machine, or asks for money
//! of it. Notices come from browsers all the time, and go on working.

use serde_json::json;

use crate::openrtb::{
    Answer, BID_PATH, Http, campaign, check_no_violation, patient, request, wait_count,
};
use crate::support::{Node, Setup, over_transports};

const JSON: &str = "Content-Type: application/json\r\n";

fn one() -> Setup {
    patient(&[campaign(1, json!({}))])
}

/// A request as it is written, with the `Host` and headers that are given.
fn call(node: &Node, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut http = Http::to(node);
    let head =
        format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    http.send(&[head.as_bytes(), body].concat());
    http.receive()
}

fn reason(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

#[test]
fn on_loopback_only_names_of_this_machine_are_meant() {
    over_transports(one, |node| {
        let mut http = Http::to(node);
        let bid = http.bid_soon(&request("r", json!({})));
        let body = request("s", json!({})).to_string();
        let notice = bid.bill_path();
        let hosts = [
            "evil.example",
            "127.0.0.1.evil.example:7701",
            "localhost.evil.example",
            "127.0.0.2",
            "",
            "localhost:x",
            "[::1",
            "x@localhost",
        ];
        for host in hosts {
            let headers = format!("Host: {host}\r\n{JSON}");
            for (method, path) in
                [("POST", BID_PATH), ("GET", &notice), ("GET", "/health"), ("GET", "/")]
            {
                let body = if method == "POST" { body.as_bytes() } else { b"" };
                let answer = call(node, method, path, &headers, body);
                assert_eq!(answer.status, 421, "{host:?} {path}: {answer:?}");
                assert!(reason(&answer).contains("openrtb.hosts"), "{answer:?}");
            }
        }
        // The address of the target counts, where there is one (RFC 9112, section 3.2.2).
        let target = format!("http://evil.example{BID_PATH}");
        let answer =
            call(node, "POST", &target, &format!("Host: localhost\r\n{JSON}"), body.as_bytes());
        assert_eq!(answer.status, 421);
        wait_count(node, "wrong_host", 4 * hosts.len() as u64 + 1);
        let books = node.budget(1);
        assert_eq!((books.held, books.settled), (2_000, 0), "nothing was reserved or booked");
        for host in ["localhost", "LOCALHOST:7701", "127.0.0.1", "[::1]:80", "localhost:"] {
            let answer = call(node, "GET", "/health", &format!("Host: {host}\r\n"), b"");
            assert_eq!(answer.status, 200, "{host}");
        }
        let target = format!("http://localhost:9{BID_PATH}");
        let answer =
            call(node, "POST", &target, &format!("Host: evil.example\r\n{JSON}"), body.as_bytes());
        assert_eq!(answer.status, 200);
        // No browser speaks HTTP/1.0, which knows no Host.
        let mut old = Http::to(node);
        old.send(b"GET /health HTTP/1.0\r\n\r\n");
        assert_eq!(old.receive().status, 200);
        check_no_violation(node);
    });
}

/// A form or a script of any page may post here; only what a page cannot send is a bid request.
#[test]
fn a_page_in_a_browser_reserves_no_money() {
    over_transports(one, |node| {
        Http::to(node).bid_soon(&request("r", json!({})));
        node.wait_budget(1, "the hold", |books| books.held == 2_000);
        let body = request("s", json!({})).to_string();
        let of = |headers: &str| {
            call(node, "POST", BID_PATH, &format!("Host: localhost\r\n{headers}"), body.as_bytes())
        };
        for origin in ["https://evil.example", "null", "http://localhost:7701", ""] {
            let answer = of(&format!("{JSON}Origin: {origin}\r\n"));
            assert_eq!(answer.status, 403, "{origin}: {answer:?}");
            assert!(reason(&answer).contains("Origin"), "{answer:?}");
        }
        for site in ["cross-site", "same-site", "same-origin", "CROSS-SITE"] {
            assert_eq!(of(&format!("{JSON}Sec-Fetch-Site: {site}\r\n")).status, 403, "{site}");
        }
        wait_count(node, "from_page", 8);
        // What a form, or a script that asks nobody, may send.
        for kind in [
            "text/plain",
            "text/plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonp",
            "",
        ] {
            let answer = of(&format!("Content-Type: {kind}\r\n"));
            assert_eq!(answer.status, 415, "{kind}: {answer:?}");
            assert!(reason(&answer).contains("application/json"), "{answer:?}");
        }
        let answer = of(&format!("{JSON}Content-Type: text/plain\r\n"));
        assert_eq!(answer.status, 415, "one of two is none");
        wait_count(node, "unknown_format", 7);
        // A browser asks before it sends anything else, and is told no.
        let asked = call(
            node,
            "OPTIONS",
            BID_PATH,
            "Host: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
            b"",
        );
        assert_eq!(asked.status, 405);
        assert!(asked.header("access-control-allow-origin").is_none());
        let books = node.budget(1);
        assert_eq!((books.held, books.settled), (2_000, 0), "nothing was reserved");
        // What exchanges send.
        for headers in [
            "",
            JSON,
            "Content-Type: application/json;charset=utf-8\r\n",
            "Content-Type: Application/JSON\r\n",
            "Content-Type: text/json\r\n",
            "Content-Type: application/json\r\nSec-Fetch-Site: none\r\n",
            "Content-Type: application/json\r\nReferer: https://page.example/\r\nx-openrtb-version: 2.6\r\n",
        ] {
            assert_eq!(of(headers).status, 200, "{headers}");
        }
    });
}

/// A pixel in markup is fetched by the browser of whoever sees it, from the page that shows it.
#[test]
fn notices_come_from_any_page() {
    let node = one().start();
    let mut http = Http::to(&node);
    let page = "Host: 127.0.0.1\r\nOrigin: https://publisher.example\r\nReferer: https://publisher.example/a\r\n\
                Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n";
    for (n, method) in ["GET", "HEAD", "POST"].into_iter().enumerate() {
        let bid = http.bid_soon(&request(n, json!({})));
        assert_eq!(call(&node, method, &bid.bill_path(), page, b"").status, 204, "{method}");
    }
    // A beacon of the browser has a body, and says what it is.
    let bid = http.bid_soon(&request("beacon", json!({})));
    let beacon = format!("{page}Content-Type: text/plain;charset=UTF-8\r\n");
    assert_eq!(call(&node, "POST", &bid.bill_path(), &beacon, b"x").status, 204);
    assert_eq!(node.budget(1).settled, 4 * 2_000);
}

#[test]
fn names_are_those_of_the_public_url_and_of_the_configuration() {
    let node = one()
        .with("openrtb.public_url", "https://Win.Example:8443/rtb")
        .with("openrtb.hosts", "bid.example, [2001:db8::1] ,node7.internal")
        .start();
    let status =
        |host: &str| call(&node, "GET", "/health", &format!("Host: {host}\r\n"), b"").status;
    for host in [
        "win.example",
        "WIN.example:443",
        "bid.example:80",
        "[2001:DB8::1]:7701",
        "node7.internal",
        "localhost",
    ] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in ["example", "x.bid.example", "[2001:db8::2]", "win.example.evil.example"] {
        assert_eq!(status(host), 421, "{host}");
    }
}

#[test]
fn a_name_that_is_none_is_refused_at_the_start() {
    for hosts in
        ["https://bid.example", "bid.example:80", "*.example", "a b", "bid.example/x", "[::1"]
    {
        let log = one().with("openrtb.hosts", hosts).try_start().err().unwrap();
        assert!(log.contains("openrtb.hosts"), "{hosts}: {log}");
    }
}
