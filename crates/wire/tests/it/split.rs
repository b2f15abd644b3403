//! Cutting a stream into frames.

use wire::frame::{Split, split};
use wire::{FRAME_HEADER_LEN, FrameError, Reason};

use crate::samples;

const MAX: u32 = 1_000;

fn header(len: u32, encoding_type: u16) -> Vec<u8> {
    [&len.to_be_bytes()[..], &encoding_type.to_be_bytes()].concat()
}

#[test]
fn asks_for_the_header_first_then_for_the_whole_frame() {
    let frame = samples::named("decide");
    for end in 0..FRAME_HEADER_LEN {
        assert_eq!(split(&frame[..end], MAX), Ok(Split::Incomplete { need: FRAME_HEADER_LEN }));
    }
    for end in FRAME_HEADER_LEN..frame.len() {
        assert_eq!(split(&frame[..end], MAX), Ok(Split::Incomplete { need: frame.len() }));
    }
    assert_eq!(split(&frame, MAX), Ok(Split::Frame(&frame)));
}

#[test]
fn leaves_what_follows() {
    let (one, two) = (samples::named("ping"), samples::named("pong"));
    let both = [one.clone(), two.clone()].concat();
    assert_eq!(split(&both, MAX), Ok(Split::Frame(&one)));
    assert_eq!(split(&both[one.len()..], MAX), Ok(Split::Frame(&two)));
}

#[test]
fn refuses_garbage_as_soon_as_the_header_is_in() {
    let cases = [
        (b"GET / HTTP/1.1\r\n"[..6].to_vec(), FrameError::UnknownEncoding { found: 0x2F20 }),
        (header(100, 0xEB51), FrameError::UnknownEncoding { found: 0xEB51 }),
        (header(0, 0xEB50), FrameError::FrameTooShort { found: 0, min: 14 }),
        (header(13, 0xEB50), FrameError::FrameTooShort { found: 13, min: 14 }),
        (header(MAX + 1, 0xEB50), FrameError::FrameTooLarge { found: MAX + 1, max: MAX }),
        (header(u32::MAX, 0xEB50), FrameError::FrameTooLarge { found: u32::MAX, max: MAX }),
    ];
    for (bytes, error) in cases {
        assert_eq!(split(&bytes, MAX), Err(error));
        assert!(error.is_fatal());
    }
    assert_eq!(split(&header(MAX, 0xEB50), MAX), Ok(Split::Incomplete { need: 1_000 }));
}

#[test]
fn reasons_are_those_of_the_schema() {
    assert_eq!(FrameError::UnknownEncoding { found: 1 }.reason(), Reason::UnknownEncoding);
    assert_eq!(FrameError::FrameTooShort { found: 1, min: 14 }.reason(), Reason::Malformed);
    assert_eq!(FrameError::FrameTooLarge { found: 1, max: 0 }.reason(), Reason::FrameTooLarge);
}

#[test]
fn frame_numbers_are_hinted_even_of_broken_frames() {
    let hint = wire::frame::frame_number_hint;
    let mut frame = samples::named("decide");
    assert_eq!(hint(&frame), 0x0102_0304_0506_0708);
    assert_eq!(hint(&frame[..22]), 0x0102_0304_0506_0708, "the rest may be missing");
    assert_eq!(hint(&frame[..21]), 0, "half a number is none");
    assert_eq!(hint(&samples::named("hello")), 0, "hello has no frame number");
    frame[10] ^= 1;
    assert_eq!(hint(&frame), 0, "another schema's numbers mean something else");
    assert_eq!(hint(b""), 0);
}
