//! Any bytes at all: never a panic, a hang, an answer that is not 200, 204 or 400, or memory that stays.

use openrtb::{BadRequest, Door, Event};

use crate::bidder::{Bidder, door};
use crate::bodies::{self, Numbers};
use crate::corpus::checks;

fn status(door: &mut Door, body: &[u8]) -> u16 {
    let status = door.bid(&mut body.to_vec(), &mut Bidder::default()).status;
    assert!([200, 204, 400].contains(&status), "{status}");
    status
}

/// Changes a body in one of many ways.
fn mutated(body: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut body = body.to_vec();
    let at = numbers.below(body.len());
    match numbers.below(10) {
        0 => body.truncate(at),
        1 | 2 => body[at] ^= 1 << numbers.below(8),
        3 => body.insert(at, numbers.next().to_le_bytes()[0]),
        4 => drop(body.remove(at)),
        5 => swap_value(&mut body, numbers, at),
        6 => drop(body.drain(..at)),
        7 => body.extend_from_within(at..),
        8 => {
            let end = (at + numbers.below(64)).min(body.len());
            let piece = body[at..end].to_vec();
            let to = numbers.below(body.len());
            body.splice(to..to, piece);
        }
        _ => (0..8).for_each(|_| {
            let at = numbers.below(body.len());
            body[at] = numbers.next().to_le_bytes()[0];
        }),
    }
    body
}

/// Puts a value of another type behind the next colon.
fn swap_value(body: &mut Vec<u8>, numbers: &mut Numbers, at: usize) {
    let values: [&[u8]; 14] = [
        b"null",
        b"true",
        b"0",
        b"-1",
        b"2.0",
        b"1e308",
        b"1e999",
        b"\"\"",
        b"\"7\"",
        b"[]",
        b"{}",
        b"[null,[{}],\"x\"]",
        b"18446744073709551616",
        b"NaN",
    ];
    let Some(colon) = body[at..].iter().position(|byte| *byte == b':') else { return };
    let start = at + colon + 1;
    let end = body[start..].iter().position(|byte| b",}]".contains(byte));
    let end = end.map_or(body.len(), |len| start + len);
    body.splice(start..end, values[numbers.below(values.len())].iter().copied());
}

#[test]
fn mutations_of_our_own_bodies() {
    let (mut door, mut numbers) = (door(), Numbers::new(1));
    let (mut sound, mut refused) = (0, 0);
    for round in 0..400 {
        for (_, seed) in bodies::seeds().iter().filter(|(_, seed)| !seed.is_empty()) {
            let body = mutated(seed, &mut numbers);
            match status(&mut door, &body) {
                400 => refused += 1,
                _ => sound += 1,
            }
            if round % 8 == 0 {
                checks::openrtb_body(&body);
            }
        }
    }
    // A mutation that never breaks anything, or always, would test nothing.
    assert!(sound > 500 && refused > 500, "{sound} sound, {refused} refused");
}

#[test]
fn the_three_sizes_are_what_they_are_called() {
    let sizes = [bodies::small(), bodies::usual(), bodies::large()].map(|body| body.len());
    let expected = [250..350, 1_600..1_900, 2_200..2_600];
    let fit = sizes.iter().zip(&expected).all(|(size, range)| range.contains(size));
    assert!(fit, "{sizes:?} bytes");
}

/// Real bodies, where the environment names their folder.
#[test]
fn the_real_corpus_and_its_mutations() {
    let Some(folder) = std::env::var_os("CORPUS") else {
        println!("CORPUS is not set: the real bodies are not tried");
        return;
    };
    let path = std::path::Path::new(&folder).join("openrtb/bodies.jsonl");
    let lines = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut door, mut gate, mut numbers) = (door(), Bidder::default(), Numbers::new(2));
    let (mut bodies, mut bids) = (0, 0);
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let answer = door.bid(&mut line.to_vec(), &mut gate).status;
        assert_ne!(answer, 400, "{:?}: {}", gate.events.last(), String::from_utf8_lossy(line));
        bodies += 1;
        bids += usize::from(answer == 200);
        checks::openrtb_body(line);
        for _ in 0..20 {
            status(&mut door, &mutated(line, &mut numbers));
        }
    }
    assert!(bodies > 0, "{}: no bodies", path.display());
    println!("{bodies} real bodies read, {bids} answered with bids");
    println!("refused by the door's own check: {:?}", gate.violations);
}

#[test]
fn depth_bombs_need_no_stack() {
    let mut door = door();
    for bomb in ["[", "{\"a\":", "[{\"imp\":"] {
        assert_eq!(status(&mut door, bomb.repeat(100_000).as_bytes()), 400);
    }
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_eq!(status(&mut door, deep.as_bytes()), 400);
    let unknown =
        format!(r#"{{"ext":{deep},"id":"r","imp":[{{"id":"1","banner":{{}},"ext":{deep}}}]}}"#);
    assert_eq!(status(&mut door, unknown.as_bytes()), 200);
    let known = format!(
        r#"{{"id":"r","imp":[{{"id":"1","banner":{{"format":{deep}}}}}],"user":{{"data":{deep},"eids":{deep}}}}}"#
    );
    assert_eq!(status(&mut door, known.as_bytes()), 200);
    let restricting = format!(r#"{{"id":"r","imp":[{{"id":"1"}}],"bcat":{deep}}}"#);
    assert_eq!(status(&mut door, restricting.as_bytes()), 400);
}

/// The largest body that HTTP lets through by default; beyond it is a 413 (see `http.rs`).
#[test]
fn a_megabyte_of_anything() {
    const BYTES: usize = 1 << 20;
    let mut door = door();
    for filler in ["\"", "\\", "1", " ", ",", "[", "\u{0}"] {
        assert_eq!(status(&mut door, filler.repeat(BYTES).as_bytes()), 400, "{filler:?}");
    }
    let imps = r#"{"id":"1","banner":{}},"#.repeat(BYTES / 23);
    let body = format!(r#"{{"id":"r","imp":[{imps}{{"id":"2"}}]}}"#);
    assert_ne!(status(&mut door, body.as_bytes()), 400);
    let keys = r#""imp":[{"id":"1","pmp":{"deals":[{"id":"d"}]}}],"#.repeat(BYTES / 48);
    assert_ne!(status(&mut door, format!("{{{keys}\"id\":\"r\"}}").as_bytes()), 400);
    let name = "x".repeat(BYTES);
    let body = format!(r#"{{"id":"{name}","imp":[{{"id":"1"}}]}}"#);
    assert_eq!(status(&mut door, body.as_bytes()), 400);
}

#[test]
fn a_list_that_only_describes_may_be_long() {
    let mut door = door();
    let numbers: Vec<String> = (0..60_000).map(|n| format!("\"c{n}\"")).collect();
    let body = format!(
        r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}],"site":{{"cat":[{}]}}}}"#,
        numbers.join(",")
    );
    assert_eq!(status(&mut door, body.as_bytes()), 200);
}

#[test]
fn refusals_are_counted_by_reason_and_name_the_field() {
    let (mut door, mut gate) = (door(), Bidder::default());
    assert_eq!(door.bid(&mut b"{".to_vec(), &mut gate).status, 400);
    assert_eq!(gate.events, [Event::BadRequest(BadRequest::Json)]);
    for (body, told) in [
        ("{", "the body is not JSON\n"),
        (r#"{"imp":[{"id":"1"}]}"#, "id: expected a text, or a whole number"),
        (r#"{"id":"r","imp":[]}"#, "imp: expected at least one object"),
        (r#"{"id":"r","imp":[{"id":"1"}],"bcat":[1.5]}"#, "bcat: a value of this type"),
    ] {
        let answer = door.bid(&mut body.as_bytes().to_vec(), &mut gate);
        let text = std::str::from_utf8(answer.body).unwrap();
        assert_eq!((answer.status, answer.content_type), (400, Some("text/plain")));
        assert!(text.starts_with(told), "{body}: {text}");
    }
}
