//! Where messages begin and end, and what is garbled.

use crate::made::{BODY_BYTES_MAX, made, order, whole};
use fix::{Framing, Garbled, frame};

const HEARTBEAT: &str = "35=0|49=A|56=B|34=2|52=20261123-10:00:00.000|";

fn ignored(bytes: &[u8]) -> (usize, Garbled) {
    match frame(bytes, BODY_BYTES_MAX) {
        Framing::Ignored { skip, cause } => (skip, cause),
        other => panic!("{other:?}"),
    }
}

fn soh(text: &str) -> Vec<u8> {
    text.replace('|', "\x01").into_bytes()
}

#[test]
fn a_message_in_pieces_is_whole_with_its_last_byte() {
    let message = order(7);
    assert_eq!(message.len(), 223);
    for cut in 0..message.len() {
        match frame(&message[..cut], BODY_BYTES_MAX) {
            Framing::Partial { more } => assert!(more >= 1 && cut + more <= message.len(), "{cut}"),
            other => panic!("{other:?} at {cut}"),
        }
    }
    let mut two = message.clone();
    two.extend_from_slice(&order(8));
    let Framing::Whole(first) = frame(&two, BODY_BYTES_MAX) else { panic!("no message") };
    assert_eq!(first.bytes(), message);
    assert!(first.bytes()[first.body_start()..].starts_with(b"35=D"));
    assert!(first.bytes()[first.trailer_start()..].starts_with(b"10="));
}

#[test]
fn padded_lengths_are_lengths() {
    let plain = made("FIX.4.4", HEARTBEAT);
    let text = String::from_utf8(plain).unwrap();
    let padded = text.replacen("\x019=", "\x019=0000", 1);
    let body = &padded[..padded.len() - 7];
    let sum = fix::sum(body.as_bytes());
    whole(format!("{body}10={sum:03}\x01").as_bytes());
}

/// Row G1: what is garbled is skipped as a whole, and the message behind it is good.
#[test]
fn garbled_messages_are_skipped_and_the_next_one_is_good() {
    let good = made("FIX.4.4", HEARTBEAT);
    let text = String::from_utf8(good.clone()).unwrap();
    let before = &text[..text.len() - 7];
    let first_after_head = &text[text.find("35=").unwrap()..];
    let cases = [
        (format!("{before}10=256\x01"), Garbled::CheckSumNoNumber),
        (format!("{before}10=1\x01"), Garbled::CheckSumNoNumber),
        (format!("{before}10=ab1\x01"), Garbled::CheckSumNoNumber),
        (format!("{before}10=1234\x01"), Garbled::CheckSumNoNumber),
        (text.replace("34=2", "34=3"), Garbled::CheckSum),
        (text.replacen("\x019=", "\x01x=", 1), Garbled::BodyLengthNotSecond),
        (format!("8=FIX.4.4\x019=\x01{first_after_head}"), Garbled::BodyLengthNoNumber),
        (format!("8=FIX.4.4\x019=-5\x01{first_after_head}"), Garbled::BodyLengthNoNumber),
        (format!("8=FIX.4.4\x019=5x\x01{first_after_head}"), Garbled::BodyLengthNoNumber),
        (format!("8=FIX.4.4\x019=5\x01{first_after_head}"), Garbled::BodyLength),
        (format!("8=FIX.4.4\x0134=2\x019=5\x01{first_after_head}"), Garbled::BodyLengthNotSecond),
        (text.replacen("8=FIX", "8=FXI", 1), Garbled::NoBeginString),
        (first_after_head.to_string(), Garbled::NoBeginString),
    ];
    for (bad, cause) in cases {
        let mut bytes = bad.clone().into_bytes();
        bytes.extend_from_slice(&good);
        let (skip, found) = ignored(&bytes);
        assert_eq!((skip, found), (bad.len(), cause), "{bad:?}");
        whole(&bytes[skip..]);
    }
}

/// Row G3, with a right length and a right sum.
#[test]
fn the_third_field_is_the_type() {
    let bytes = made("FIX.4.4", "34=3|35=0|49=A|56=B|52=20261123-10:00:00.000|");
    assert_eq!(ignored(&bytes), (bytes.len(), Garbled::MsgTypeNotThird));
    let empty = made("FIX.4.4", "");
    assert_eq!(ignored(&empty), (empty.len(), Garbled::MsgTypeNotThird));
}

#[test]
fn a_length_is_known_to_be_wrong_before_its_message_ends() {
    let misled = b"8=FIX.4.4\x019=20\x0135=A\x0134=1\x0110=000\x018=FIX";
    for len in 0..misled.len() {
        let is_there = len >= b"8=FIX.4.4\x019=20\x01".len() + 20 + 3;
        assert_eq!(fix::is_misled(&misled[..len]), is_there, "{len}");
    }
    let whole = b"8=FIX.4.4\x019=10\x0135=A\x0134=1\x0110=000\x01";
    assert!((0..=whole.len()).all(|len| !fix::is_misled(&whole[..len])));
    assert!(!fix::is_misled(b"8=FIX.4.4\x019=999999999999999999\x01"));
}

/// Row G2: a length that is too long swallows the following message; both are one garbled message.
#[test]
fn a_length_that_is_too_long_swallows_the_next_message() {
    let good = made("FIX.4.4", HEARTBEAT);
    let text = String::from_utf8(good.clone()).unwrap();
    let long = text.replacen("\x019=", "\x019=1", 1);
    let mut bytes = long.clone().into_bytes();
    for _ in 0..3 {
        bytes.extend_from_slice(&good);
    }
    // 9=1xx ends within the second message behind the bad one.
    let (skip, cause) = ignored(&bytes);
    assert_eq!(cause, Garbled::BodyLength);
    assert!(skip > long.len() && (skip - long.len()).is_multiple_of(good.len()), "{skip}");
    whole(&bytes[skip..skip + good.len()]);
}

#[test]
fn a_length_above_the_limit_closes_the_connection() {
    for (length, limit) in [("65537", 65_536), ("9999999999", usize::MAX), ("101", 100)] {
        let bytes = soh(&format!("8=FIX.4.4|9={length}|35=0|"));
        assert_eq!(
            frame(&bytes, limit),
            Framing::TooLong { body_bytes: length.parse().unwrap() },
            "{length}"
        );
    }
    assert!(matches!(frame(&soh("8=FIX.4.4|9=100|35=0|"), 100), Framing::Partial { .. }));
}

/// Data may hold what looks like the end of a message, and like the start of another.
#[test]
fn nothing_searches_for_the_trailer() {
    let data = "10=123|8=FIX.4.4|9=5|35=0|10=000|";
    let body = format!("{HEARTBEAT}95={}|96={data}|", data.len());
    whole(&made("FIX.4.4", &body));
}

#[test]
fn the_start_of_a_start_is_kept() {
    let (skip, cause) = ignored(b"garbage\x018=F");
    assert_eq!((skip, cause), (8, Garbled::NoBeginString));
    assert_eq!(ignored(b"garbage").0, 7);
    assert!(matches!(frame(b"8=F", 100), Framing::Partial { .. }));
    assert!(matches!(frame(b"", 100), Framing::Partial { .. }));
}
