//! Requests that two readers could cut differently: each is refused, and nothing behind it is read.

use door_http::Refusal::{
    self, AmbiguousLength, BadChunk, BadContentLength, BadHost, BadTransferEncoding, MalformedHead,
};

use crate::workbench::Workbench;

/// The lines below `POST / HTTP/1.1` and `Host`, and the body. Behind each comes a request that must stay
/// unseen.
const VECTORS: [(&str, Refusal); 36] = [
    ("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", AmbiguousLength),
    ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n", AmbiguousLength),
    ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", AmbiguousLength),
    ("Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", AmbiguousLength),
    ("Content-Length: 5, 6\r\n\r\nhello", AmbiguousLength),
    ("Content-Length: 0\r\nContent-length: 5\r\n\r\nhello", AmbiguousLength),
    ("Content-Length: +5\r\n\r\nhello", BadContentLength),
    ("Content-Length: -5\r\n\r\nhello", BadContentLength),
    ("Content-Length: 0x5\r\n\r\nhello", BadContentLength),
    ("Content-Length: 5 5\r\n\r\nhello", BadContentLength),
    ("Content-Length: 5,\r\n\r\nhello", BadContentLength),
    ("Content-Length: ,\r\n\r\n", BadContentLength),
    ("Content-Length:\r\n\r\n", BadContentLength),
    ("Content-Length: five\r\n\r\n", BadContentLength),
    ("Content-Length: 5.0\r\n\r\nhello", BadContentLength),
    ("Transfer-Encoding: xchunked\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding: chunked, identity\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding: identity\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding: \"chunked\"\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding: chunked;a=b\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding:\r\n\r\n", BadTransferEncoding),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BadTransferEncoding,
    ),
    ("Transfer-Encoding: chunked\r\nTransfer-encoding: x\r\n\r\n0\r\n\r\n", BadTransferEncoding),
    ("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", MalformedHead),
    ("Content-Length : 5\r\n\r\nhello", MalformedHead),
    (" Content-Length: 5\r\n\r\nhello", MalformedHead),
    ("A: b\r\n folded\r\n\r\n", MalformedHead),
    ("Transfer-Encoding:\r\n chunked\r\n\r\n", MalformedHead),
    ("A: b\rTransfer-Encoding: chunked\r\n\r\n", MalformedHead),
    ("A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", MalformedHead),
    ("Transfer-Encoding: \x0bchunked\r\n\r\n", MalformedHead),
    ("Content-Length: 5\0\r\n\r\nhello", MalformedHead),
    ("Host: y\r\n\r\n", BadHost),
    ("Transfer-Encoding: chunked\r\n\r\n5;\nxx\r\n4c\r\n", BadChunk),
    ("Transfer-Encoding: chunked\r\n\r\n1\r\naX\r\n0\r\n\r\n", BadChunk),
];

#[test]
fn no_vector_gets_through() {
    let mut bench = Workbench::start();
    let answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (rest, why) in VECTORS {
        let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
        let bytes = format!("POST / HTTP/1.1\r\nHost: x\r\n{rest}{hidden}").into_bytes();
        for piece in [bytes.len(), 1, 5] {
            let pieces = bytes.chunks(piece).map(<[u8]>::to_vec).collect();
            let played = bench.play(door_http::Limits::default(), pieces);
            assert_eq!((played.refused, played.requests), (vec![why], 0), "{rest:?}");
            assert!(played.closed);
            assert_eq!(played.output, answer.as_bytes(), "{rest:?}");
        }
    }
}

#[test]
fn request_lines_are_strict() {
    let mut bench = Workbench::start();
    let lines = [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/0.9",
        "GET / http/1.1",
        "GET /",
        "G\0T / HTTP/1.1",
        "G(T / HTTP/1.1",
        "/ HTTP/1.1",
    ];
    for line in lines {
        let played = bench.ask(format!("{line}\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!((played.refused, played.closed), (vec![MalformedHead], true), "{line:?}");
    }
    for ends in [
        "GET / HTTP/1.1\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\n\n",
        "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let played = bench.ask(ends.as_bytes());
        assert_eq!((played.refused, played.closed), (vec![MalformedHead], true), "{ends:?}");
    }
    let played = bench.ask(b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!((played.refused, played.closed), (vec![BadTransferEncoding], true));
}
