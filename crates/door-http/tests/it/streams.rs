//! Bodies that are taken in pieces, as they arrive, and answers in chunks.

use door_http::{Limits, PIECE_BYTES_MAX, Refusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{chunked, json, post};
use crate::workbench::{Played, Workbench};

const NEXT: &[u8] = b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n";
const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const OPENING: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nX-Echo: yes\r\n\r\n";

/// The data of an answer in chunks that begins `output`, whether its end is there, and what follows.
fn read(output: &[u8]) -> (Vec<u8>, bool, &[u8]) {
    let shown = output[..output.len().min(200)].escape_ascii();
    let mut rest = output.strip_prefix(OPENING).unwrap_or_else(|| panic!("{shown}"));
    let mut data = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            assert!(rest.is_empty(), "a chunk is cut");
            return (data, false, rest);
        };
        let size = usize::from_str_radix(str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let (chunk, later) = rest[end + 2..].split_at(size);
        data.extend_from_slice(chunk);
        rest = later.strip_prefix(b"\r\n").unwrap();
        if size == 0 {
            return (data, true, rest);
        }
    }
}

fn ask(bench: &mut Workbench, request: &[u8], step: usize) -> Played {
    bench.play(Limits::default(), request.chunks(step).map(<[u8]>::to_vec).collect())
}

#[test]
fn a_body_of_any_size_is_answered_as_it_comes_and_the_next_request_follows() {
    let mut bench = Workbench::start();
    // Three times what a whole body may have.
    let body = json(800_000);
    for path in ["/pieces", "/pieces/later"] {
        for request in [post(path, "", &body), chunked(path, "", &body, 3_000)] {
            for step in [7_001, 300_000, 1 << 20] {
                let played = ask(&mut bench, &[&request, NEXT].concat(), step);
                let (data, is_whole, rest) = read(&played.output);
                assert!(data == body.to_ascii_uppercase() && is_whole, "{path} {step}");
                assert_eq!(
                    (rest, played.closed, played.left),
                    (NO_CONTENT, false, 0),
                    "{path} {step}"
                );
                assert!(played.largest_piece <= PIECE_BYTES_MAX, "{path} {step}");
            }
        }
    }
}

#[test]
fn wherever_it_is_cut_the_answer_is_the_same() {
    let mut bench = Workbench::start();
    let mut runner = TestRunner::new(Config::with_cases(60));
    let law = (0..300_usize, 1..40_usize, vec(1..90_usize, 1..6), any::<bool>());
    let bench = std::cell::RefCell::new(&mut bench);
    let checked = runner.run(&law, |(size, chunk, steps, is_late)| {
        let path = if is_late { "/pieces/later" } else { "/pieces" };
        let body = json(size);
        let request = [chunked(path, "", &body, chunk), NEXT.to_vec()].concat();
        let (mut pieces, mut rest, mut steps) = (Vec::new(), &request[..], steps.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*steps.next().unwrap()).min(rest.len()));
            pieces.push(now.to_vec());
            rest = later;
        }
        let played = bench.borrow_mut().play(Limits::default(), pieces);
        prop_assert_eq!(read(&played.output), (body.to_ascii_uppercase(), true, NO_CONTENT));
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn what_fails_before_the_answer_has_begun_is_answered_and_what_fails_later_has_no_end() {
    let mut bench = Workbench::start();
    let late = [vec![b'a'; 100], b"!".to_vec(), vec![b'b'; 100]].concat();
    for path in ["/pieces", "/pieces/later"] {
        let head = post(path, "", &late).len() - late.len();
        for request in [post(path, "", &late), chunked(path, "", &late, 50)] {
            let at_once = ask(&mut bench, &[&request, NEXT].concat(), 1 << 20);
            let text = String::from_utf8(at_once.output).unwrap();
            assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
            assert!(text.ends_with("Connection: close\r\n\r\nno!") && at_once.closed, "{text}");
        }
        let pieces = ask(&mut bench, &post(path, "", &late), head + 50);
        let (data, is_whole, _) = read(&pieces.output);
        assert_eq!((data, is_whole, pieces.closed), (vec![b'A'; 50], false, true), "{path}");
    }
}

#[test]
fn a_body_that_is_no_sound_http_is_refused_or_has_no_end() {
    let mut bench = Workbench::start();
    let head = b"POST /pieces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (body, begun) in [(&b"x\r\n"[..], 0), (b"3\r\nabcd", 0), (b"3\r\nabc\r\nx\r\n", 8)] {
        let pieces = vec![[&head[..], &body[..begun]].concat(), [&body[begun..], NEXT].concat()];
        let played = bench.play(Limits::default(), pieces);
        assert_eq!((&played.refused[..], played.closed), (&[Refusal::BadChunk][..], true));
        if begun == 0 {
            assert!(
                played.output.starts_with(b"HTTP/1.1 400 "),
                "{}",
                played.output.escape_ascii()
            );
        } else {
            assert_eq!(read(&played.output), (b"ABC".to_vec(), false, &b""[..]));
        }
    }
}

/// Whoever is refused by the head alone has not been read, so that its connection ends; no `100 Continue` invites it.
#[test]
fn a_refusal_by_the_head_ends_the_connection_and_leave_to_send_is_given_to_others_only() {
    let mut bench = Workbench::start();
    let expects = "Expect: 100-continue\r\n";
    for (path, text) in
        [("/pieces/refused", "no!"), ("/pieces/refused-later", "late"), ("/pieces-", "")]
    {
        let head = post(path, expects, b"");
        let head =
            String::from_utf8(head).unwrap().replace("Content-Length: 0", "Content-Length: 99");
        let played = ask(&mut bench, head.as_bytes(), 1 << 20);
        let told = String::from_utf8(played.output).unwrap();
        assert!(told.contains("Connection: close\r\n") && told.ends_with(text), "{told}");
        assert!(played.closed && !told.contains("100 Continue"), "{told}");
    }
    let request = post("/pieces", expects, &[b'x'; 99]);
    let played = ask(&mut bench, &request, request.len() - 99);
    let output = played.output.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert_eq!(read(output), (vec![b'X'; 99], true, &b""[..]));
}

/// A body that is gathered has one answer, as one that came whole, whose own body is written part by part.
#[test]
fn a_gathered_body_is_answered_once_it_is_whole_and_the_next_request_follows() {
    let mut bench = Workbench::start();
    let body = json(300_000);
    for close in ["", "Connection: close\r\n"] {
        for request in [
            post("/pieces/gathered", close, &body),
            chunked("/pieces/gathered", close, &body, 9_000),
        ] {
            for step in [7_001, 100_000, 1 << 20] {
                let played = ask(&mut bench, &[&request, NEXT].concat(), step);
                let length = format!("Content-Length: {}\r\n", body.len());
                let end = played.output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
                let (head, rest) = played.output.split_at(end + 4);
                let head = str::from_utf8(head).unwrap();
                assert!(head.contains(&length) && head.contains(close), "{step}: {head}");
                let (data, rest) = rest.split_at(body.len());
                assert!(data == body.to_ascii_uppercase(), "{step}");
                let follows = if close.is_empty() { NO_CONTENT } else { b"" };
                assert_eq!((rest, played.closed), (follows, !close.is_empty()), "{step}");
                assert!(played.largest_piece <= PIECE_BYTES_MAX, "{step}");
            }
        }
    }
    for refused in ["/pieces/gathered", "/pieces"] {
        let played = ask(&mut bench, &[&post(refused, "", b"aaaaaaaaaa!"), NEXT].concat(), 1 << 20);
        let text = String::from_utf8(played.output).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 ") && text.ends_with("no!") && played.closed);
    }
}

/// A client that cannot read chunks, a packed body, a small one: as ever, whole.
#[test]
fn what_cannot_come_in_pieces_comes_whole_within_its_limits() {
    let mut bench = Workbench::start();
    let old = b"POST /pieces HTTP/1.0\r\nContent-Length: 20\r\n\r\n01234567890123456789";
    let packed = post("/pieces", "Content-Encoding: gzip\r\n", &crate::support::gzip(&json(100)));
    for request in [&old[..], &packed, &post("/pieces", "", b"small"), &post("/pieces", "", b"")] {
        let played = ask(&mut bench, request, 1 << 20);
        assert!(played.output.starts_with(b"HTTP/1.1 404 "), "{}", played.output.escape_ascii());
        assert_eq!(played.largest_piece, 0);
    }
    let large = b"POST /pieces HTTP/1.0\r\nContent-Length: 999999999\r\n\r\n";
    assert_eq!(ask(&mut bench, large, 1 << 20).refused, [Refusal::BodyTooLarge]);
    let closing = ask(&mut bench, &post("/pieces", "Connection: close\r\n", &[b'x'; 20]), 1 << 20);
    assert!(closing.closed && closing.output.ends_with(b"\r\n0\r\n\r\n"));
    assert!(closing.output.windows(19).any(|text| text == b"Connection: close\r\n"));
}
