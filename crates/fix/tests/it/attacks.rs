//! What strangers send.

use crate::made::{BODY_BYTES_MAX, indexes, made, whole};
use fix::{Framing, Garbled, frame};

/// Reads a stream to its end, and counts messages and stretches that were ignored.
fn counts(mut bytes: &[u8]) -> (usize, usize) {
    let mut found = (0, 0);
    loop {
        match frame(bytes, BODY_BYTES_MAX) {
            Framing::Whole(frame) => {
                found.0 += 1;
                bytes = &bytes[frame.bytes().len()..];
            }
            Framing::Ignored { skip, .. } => {
                found.1 += 1;
                bytes = &bytes[skip..];
            }
            Framing::Partial { .. } | Framing::TooLong { .. } => return found,
        }
    }
}

#[test]
fn a_tag_of_64_kib_is_garbled() {
    let body = format!("35=D|{}=x|", "1".repeat(65_000));
    let bytes = made("FIX.4.4", &body);
    for mut index in indexes() {
        assert!(matches!(index.read(whole(&bytes)), Err(Garbled::Tag { .. })));
    }
}

#[test]
fn an_endless_begin_string_is_garbled_at_once() {
    let endless = format!("8=FIX{}", "4".repeat(14));
    assert!(matches!(frame(endless.as_bytes(), 100), Framing::Ignored { .. }));
    let digits = format!("8=FIX.4.4\x019={}", "0".repeat(11));
    let Framing::Ignored { cause, .. } = frame(digits.as_bytes(), 100) else { panic!("kept") };
    assert_eq!(cause, Garbled::BodyLengthNoNumber);
}

/// A length that leads nowhere keeps a bounded number of bytes.
#[test]
fn a_misleading_length_does_not_wait_for_ever() {
    let mut bytes = b"8=FIX.4.4\x019=5\x0135=0\x01".to_vec();
    bytes.resize(BODY_BYTES_MAX, b'x');
    assert!(matches!(frame(&bytes, BODY_BYTES_MAX), Framing::Partial { .. }));
    bytes.resize(BODY_BYTES_MAX + 100, b'x');
    let Framing::Ignored { skip, cause } = frame(&bytes, BODY_BYTES_MAX) else { panic!("kept") };
    assert_eq!((skip, cause), (bytes.len(), Garbled::BodyLength));
}

#[test]
fn a_stream_without_soh_is_skipped() {
    assert_eq!(counts(&vec![b'8'; 100_000]).0, 0);
    assert_eq!(counts(&b"8=FIX".repeat(1_000)).0, 0);
    assert_eq!(counts(&b"8=FIX.4.4\x01".repeat(1_000)).0, 0);
    assert_eq!(counts(&[1; 5_000]), (0, 1));
}

#[test]
fn messages_between_garbage_are_found() {
    let good = made("FIX.4.2", "35=0|49=A|56=B|34=1|52=20261123-10:00:00|");
    let mut stream = Vec::new();
    for garbage in [
        &b"\x01\x01"[..],
        b"10=000\x01",
        b"8=",
        b"9=5\x01",
        b"8=FIX.4.2\x019=0\x0110=000\x01",
        b"\xff\x00",
    ] {
        stream.extend_from_slice(garbage);
        stream.extend_from_slice(&good);
    }
    assert_eq!(counts(&stream), (6, 6));
}

/// A value that ends with the message instead of SOH: BodyLength leads to a byte that is not behind an SOH.
#[test]
fn a_missing_soh_is_garbled() {
    let text = "8=FIX.4.4\x019=9\x0135=0\x0158=x10=";
    let sum = fix::sum(&text.as_bytes()[..text.len() - 3]);
    let bytes = format!("{text}{sum:03}\x01").into_bytes();
    assert!(matches!(frame(&bytes, 100), Framing::Partial { .. }), "waits for a CheckSum");
    let mut more = bytes.clone();
    more.extend_from_slice(&made("FIX.4.4", "35=0|"));
    let Framing::Ignored { skip, cause } = frame(&more, 100) else { panic!("taken") };
    assert_eq!((skip, cause), (more.len(), Garbled::BodyLength));
}
