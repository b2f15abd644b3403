//! What is answered to which request, byte by byte.

use door_http::{Limits, Refusal, Session};
use door_transport::Step;

use crate::support::{PAGE_BYTES, Shelf, Site, json, post};
use crate::workbench::Workbench;

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const LATE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate";

/// Request, answer, whether the connection ends.
const TABLE: [(&str, &str, bool); 25] = [
    ("GET /none HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", false),
    ("\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", false),
    ("GET /none HTTP/1.1\r\nhOsT:x\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", false),
    (
        "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /none",
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "GET /none HTTP/1.1\r\nHost: x\r\nConnection: TE, Close\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "GET /x HTTP/1.0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n",
        false,
    ),
    (
        "GET /x HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-Echo: yes\r\n\r\nhello",
        false,
    ),
    (
        "HEAD /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-Echo: yes\r\n\r\n",
        false,
    ),
    (
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\nContent-Length: 02\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nX-Echo: yes\r\n\r\nhi",
        false,
    ),
    (
        "POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3",
        false,
    ),
    (
        "POST http://host:80/ask?a=%20b HTTP/1.1\r\nHost: x\r\nX-Test:  a b \r\n\r\n",
        "HTTP/1.1 299 \r\nContent-Length: 45\r\n\r\npost [a=%20b] json=true gzip=false x-test=a b",
        false,
    ),
    (
        "GET /ask HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nContent-Type: text/html\r\n\r\n",
        "HTTP/1.1 299 \r\nContent-Length: 36\r\n\r\nget [] json=false gzip=true x-test=-",
        false,
    ),
    (
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n",
        "LATE NOT_FOUND",
        false,
    ),
    (
        "GET /later HTTP/1.0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate",
        true,
    ),
    (
        "DELETE /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET /x HTTP/1.1\r\nHost: x\r\n\r\n",
        "405 NOT_FOUND",
        false,
    ),
    ("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", "405", false),
    ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "405", false),
    (
        "GET x HTTP/1.1\r\nHost: x\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        false,
    ),
    (
        "GET / HTTP/1.1\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 415 Unsupported Media Type\r\nContent-Length: 0\r\n\r\n",
        false,
    ),
    (
        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 262145\r\n\r\n",
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        true,
    ),
    (
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        true,
    ),
];

const NOT_ALLOWED: &str =
    "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nAllow: GET, HEAD, POST\r\n\r\n";

#[test]
fn requests_get_their_answers() {
    let mut bench = Workbench::start();
    for (request, answer, closed) in TABLE {
        let answer = match answer {
            "LATE NOT_FOUND" => format!("{LATE}{NOT_FOUND}"),
            "405 NOT_FOUND" => format!("{NOT_ALLOWED}{NOT_FOUND}"),
            "405" => NOT_ALLOWED.to_owned(),
            answer => answer.to_owned(),
        };
        let played = bench.ask(request.as_bytes());
        assert_eq!(played.output.escape_ascii().to_string(), answer.escape_default().to_string());
        assert_eq!(played.closed, closed, "{request:?}");
    }
}

/// What a [`Shelf`] answers to one request, and how often it was asked and refused.
fn shelf(bench: &mut Workbench, request: &str) -> (String, usize, Vec<Refusal>) {
    let bytes = request.as_bytes().to_vec();
    let (site, output) = bench.run(move |id, out, room| {
        let mut shelf = Shelf(Site::new(Limits::default()));
        let step = Session::default().received(id, &bytes, out, room, &mut shelf);
        assert_eq!(step, Step::Read { consumed: bytes.len(), need: 0 });
        (shelf.0.requests, shelf.0.refused)
    });
    (String::from_utf8(output).unwrap(), site.0, site.1)
}

#[test]
fn an_application_that_takes_more_methods_gets_them_and_others_are_told_which() {
    let mut bench = Workbench::start();
    // The body is the request's, whatever the method: what stands in it is asked by nobody.
    let body = "GET /none HTTP/1.1\r\nHost: x\r\n\r\n";
    for name in ["GET", "POST", "PUT", "PATCH", "DELETE", "LIST"] {
        let length = body.len();
        let head = format!("{name} /ask?a HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        let (answer, requests, refused) = shelf(&mut bench, &format!("{head}{body}"));
        let told = format!("\r\n\r\n{} [a] json=true gzip=false x-test=-", name.to_lowercase());
        assert!(answer.starts_with("HTTP/1.1 299 ") && answer.ends_with(&told), "{answer}");
        assert_eq!((requests, refused.len()), (1, 0), "{name}");
    }
    let (answer, ..) = shelf(&mut bench, "HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for name in ["OPTIONS", "TRACE", "put", "List", "PUTS", "DELET"] {
        let request = format!("{name} /ask HTTP/1.1\r\nHost: x\r\n\r\n");
        let (answer, requests, refused) = shelf(&mut bench, &request);
        let allow = "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, LIST\r\n";
        let expected = NOT_ALLOWED.replace("Allow: GET, HEAD, POST\r\n", allow);
        assert_eq!(answer, expected, "{name}");
        assert_eq!((requests, refused), (0, vec![Refusal::UnknownMethod]), "{name}");
    }
}

#[test]
fn other_applications_refuse_these_methods_as_any_that_nobody_knows() {
    let mut bench = Workbench::start();
    for name in ["PUT", "PATCH", "DELETE", "LIST", "BREW"] {
        // Also before anything else that is wrong with the request is told.
        for rest in ["/ask HTTP/1.1", "nowhere HTTP/1.1", "/ask HTTP/1.1\r\nContent-Encoding: br"] {
            let played = bench.ask(format!("{name} {rest}\r\nHost: x\r\n\r\n").as_bytes());
            assert_eq!(String::from_utf8(played.output).unwrap(), NOT_ALLOWED, "{name} {rest}");
            assert_eq!((played.requests, played.closed), (0, false));
        }
    }
}

#[test]
fn who_expects_a_leave_gets_it_once_and_in_order() {
    let mut bench = Workbench::start();
    let head =
        "POST /size HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n";
    let before = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    let size = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n4";
    let leave = "HTTP/1.1 100 Continue\r\n\r\n";
    let cases = [
        (vec![format!("{before}{head}"), "bo".into(), "dy".into()], true),
        (vec![format!("{before}{head}b"), "ody".into()], false),
        (vec![format!("{before}{head}body")], false),
    ];
    for (pieces, waits) in cases {
        let pieces = pieces.into_iter().map(String::into_bytes).collect();
        let played = bench.play(Limits::default(), pieces);
        let expected = format!("{NOT_FOUND}{}{size}", if waits { leave } else { "" });
        assert_eq!(str::from_utf8(&played.output).unwrap(), expected);
    }
    let old = head.replace("1.1", "1.0");
    let played = bench.play(Limits::default(), vec![old.into_bytes(), b"body".to_vec()]);
    assert!(played.output.starts_with(b"HTTP/1.1 200"), "HTTP/1.0 knows no 100");
}

#[test]
fn heads_are_bounded() {
    let mut bench = Workbench::start();
    let limits = Limits {
        head_bytes_max: 1000,
        target_bytes_max: 300,
        headers_max: 10,
        ..Limits::default()
    };
    let lines = |count: usize| "a: b\r\n".repeat(count);
    let cases = [
        (format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(299)), None),
        (
            format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(300)),
            Some(Refusal::TargetTooLong),
        ),
        (format!("GET /{}", "a".repeat(2000)), Some(Refusal::TargetTooLong)),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", lines(9)), None),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", lines(10)), Some(Refusal::TooManyHeaders)),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{}", lines(10_000)), Some(Refusal::TooManyHeaders)),
        (format!("GET / HTTP/1.1\r\nHost: x\r\na: {}\r\n\r\n", "b".repeat(968)), None),
        (
            format!("GET / HTTP/1.1\r\nHost: x\r\na: {}\r\n\r\n", "b".repeat(969)),
            Some(Refusal::HeadTooLarge),
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: x\r\na: {}", "b".repeat(5000)),
            Some(Refusal::HeadTooLarge),
        ),
    ];
    for (request, refused) in cases {
        for piece in [usize::MAX, 1, 7] {
            let pieces = request.as_bytes().chunks(piece).map(<[u8]>::to_vec).collect();
            let played = bench.play(limits, pieces);
            assert_eq!(played.refused, Vec::from_iter(refused), "{request}");
            assert_eq!(played.closed, refused.is_some());
        }
    }
}

#[test]
fn large_answers_are_compressed_for_who_takes_it() {
    let mut bench = Workbench::start();
    let page = json(PAGE_BYTES);
    for (accept, path, packed) in [
        ("gzip", "/page", true),
        ("br;q=1, *;q=0.1", "/page", true),
        ("gzip;q=0", "/page", false),
        ("gzip", "/bid", false),
    ] {
        let played = bench.ask(&post(path, &format!("Accept-Encoding: {accept}\r\n"), b"{}"));
        let text = String::from_utf8_lossy(&played.output).into_owned();
        let head = text.find("\r\n\r\n").unwrap() + 4;
        assert_eq!(text.contains("\r\nContent-Encoding: gzip\r\n"), packed, "{accept}");
        let body = &played.output[head..];
        assert!(text.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
        if packed {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(body), &mut plain)
                .unwrap();
            assert!(plain == page && body.len() < page.len() / 2);
        }
    }
}
