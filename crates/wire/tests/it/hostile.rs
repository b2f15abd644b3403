//! Frames that lie: each has one stated answer.

use wire::{FrameError, Message, Reason};

use crate::samples;

/// A hostile frame, its name, and what is wrong with it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) frame: Vec<u8>,
    pub(crate) error: FrameError,
}

/// Offsets in every frame: two headers, then the root block.
const BLOCK_LEN_AT: usize = 6;
const TEMPLATE_AT: usize = 8;
const SCHEMA_AT: usize = 10;
const VERSION_AT: usize = 12;
const BLOCK_AT: usize = 14;
/// In `decide`: behind a root block of 9 bytes.
const ASKS_AT: usize = BLOCK_AT + 9;
/// In `hello`: behind a root block of 12 bytes.
const AUTH_AT: usize = BLOCK_AT + 12;

fn put_u16(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Writes the true length into the framing header, so that only the lie inside remains.
fn mend_len(frame: &mut [u8]) {
    let len = u32::try_from(frame.len()).expect("samples are small");
    frame[..4].copy_from_slice(&len.to_be_bytes());
}

fn changed(sample: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = samples::named(sample);
    change(&mut frame);
    frame
}

fn cut(sample: &str, len: usize) -> Vec<u8> {
    changed(sample, |f| {
        f.truncate(len);
        mend_len(f);
    })
}

fn header_cases() -> Vec<Case> {
    let encoding = changed("ping", |f| f[4] = 0);
    let len = changed("ping", |f| f[3] += 1);
    vec![
        Case {
            name: "nothing",
            frame: vec![],
            error: FrameError::LengthMismatch { said: 0, given: 0 },
        },
        Case {
            name: "half_header",
            frame: samples::named("ping")[..13].to_vec(),
            error: FrameError::LengthMismatch { said: 22, given: 13 },
        },
        Case {
            name: "encoding",
            frame: encoding,
            error: FrameError::UnknownEncoding { found: 0x0050 },
        },
        Case {
            name: "length_lie",
            frame: len,
            error: FrameError::LengthMismatch { said: 23, given: 22 },
        },
        Case {
            name: "other_schema",
            frame: changed("ping", |f| put_u16(f, SCHEMA_AT, 7_701)),
            error: FrameError::UnknownSchema { found: 7_701, expected: 7_700 },
        },
        Case {
            name: "version_too_old",
            frame: changed("ping", |f| put_u16(f, VERSION_AT, 0)),
            error: FrameError::VersionUnsupported { found: 0, min: 1 },
        },
        Case {
            name: "unknown_template",
            frame: changed("ping", |f| put_u16(f, TEMPLATE_AT, 999)),
            error: FrameError::UnknownTemplate { found: 999 },
        },
        Case {
            name: "block_too_short",
            frame: changed("ping", |f| put_u16(f, BLOCK_LEN_AT, 7)),
            error: FrameError::BlockTooShort { found: 7, min: 8 },
        },
        Case {
            name: "block_outside",
            frame: changed("ping", |f| put_u16(f, BLOCK_LEN_AT, u16::MAX)),
            error: FrameError::BlockOutside { block_len: u16::MAX, left: 8 },
        },
        Case {
            name: "trailing_bytes",
            frame: changed("ping", |f| {
                f.extend([0; 3]);
                mend_len(f);
            }),
            error: FrameError::TrailingBytes { left: 3 },
        },
    ]
}

fn group_cases() -> Vec<Case> {
    vec![
        Case {
            name: "group_missing",
            frame: cut("decide", ASKS_AT),
            error: FrameError::GroupSizeOutside { group: "asks", need: 4, left: 0 },
        },
        Case {
            name: "group_size_half",
            frame: cut("decide", ASKS_AT + 3),
            error: FrameError::GroupSizeOutside { group: "asks", need: 4, left: 3 },
        },
        Case {
            name: "group_entry_short",
            frame: changed("decide", |f| put_u16(f, ASKS_AT, 39)),
            error: FrameError::GroupBlockTooShort { group: "asks", found: 39, min: 40 },
        },
        Case {
            name: "group_entry_zero",
            frame: changed("decide", |f| put_u16(f, ASKS_AT, 0)),
            error: FrameError::GroupBlockTooShort { group: "asks", found: 0, min: 40 },
        },
        Case {
            name: "group_count_overflow",
            frame: changed("decide", |f| {
                put_u16(f, ASKS_AT, u16::MAX);
                put_u16(f, ASKS_AT + 2, u16::MAX);
            }),
            error: FrameError::GroupOutside {
                group: "asks",
                count: u16::MAX,
                block_len: u16::MAX,
                left: 120,
            },
        },
        Case {
            name: "group_one_too_many",
            frame: changed("decide", |f| put_u16(f, ASKS_AT + 2, 4)),
            error: FrameError::GroupOutside { group: "asks", count: 4, block_len: 40, left: 120 },
        },
        Case {
            name: "group_one_too_few",
            frame: changed("decide", |f| put_u16(f, ASKS_AT + 2, 2)),
            error: FrameError::TrailingBytes { left: 40 },
        },
    ]
}

fn data_cases() -> Vec<Case> {
    let with_len = |len: u32| {
        changed("hello", |f| f[AUTH_AT..AUTH_AT + 4].copy_from_slice(&len.to_le_bytes()))
    };
    let left = samples::named("hello").len() - AUTH_AT - 4;
    let left_u32 = u32::try_from(left).expect("samples are small");
    vec![
        Case {
            name: "data_missing",
            frame: cut("hello", AUTH_AT),
            error: FrameError::DataLengthOutside { data: "auth", need: 4, left: 0 },
        },
        Case {
            name: "data_length_half",
            frame: cut("hello", AUTH_AT + 2),
            error: FrameError::DataLengthOutside { data: "auth", need: 4, left: 2 },
        },
        Case {
            name: "data_too_long",
            frame: with_len(u32::MAX),
            error: FrameError::DataTooLong { data: "auth", len: u32::MAX, max: 1_048_576 },
        },
        Case {
            name: "data_outside",
            frame: with_len(left_u32 + 1),
            error: FrameError::DataOutside { data: "auth", len: left_u32 + 1, left },
        },
        Case {
            name: "data_swallows_the_next",
            frame: with_len(left_u32),
            error: FrameError::DataLengthOutside { data: "name", need: 4, left: 0 },
        },
    ]
}

/// All hostile frames.
pub(crate) fn cases() -> Vec<Case> {
    [header_cases(), group_cases(), data_cases()].into_iter().flatten().collect()
}

#[test]
fn each_lie_has_its_answer() {
    for Case { name, frame, error } in cases() {
        assert_eq!(Message::decode(&frame).err(), Some(error), "{name}");
    }
}

#[test]
fn errors_say_numbers_and_reasons() {
    for Case { name, error, .. } in cases() {
        assert!(error.to_string().contains(|c: char| c.is_ascii_digit()), "{name}: {error}");
        assert_ne!(error.reason(), Reason::Busy, "{name}");
    }
    let all: Vec<FrameError> = cases().into_iter().map(|c| c.error).collect();
    assert!(all.iter().any(|e| e.reason() == Reason::VersionUnsupported));
    assert!(all.iter().any(|e| e.reason() == Reason::UnknownSchema));
    assert!(all.iter().any(|e| e.reason() == Reason::UnknownTemplate));
}

#[test]
fn every_truncation_of_every_message_is_an_error() {
    for (name, frame) in samples::all() {
        for len in 0..frame.len() {
            assert!(Message::decode(&frame[..len]).is_err(), "{name} cut to {len}");
            if len >= BLOCK_AT {
                assert!(
                    Message::decode(&cut(name, len)).is_err(),
                    "{name} cut to {len}, length mended"
                );
            }
        }
    }
}

#[test]
fn a_newer_writer_may_send_more() {
    let frame = changed("ping", |f| {
        put_u16(f, VERSION_AT, wire::SCHEMA_VERSION + 1);
        f.extend([1, 2, 3]);
        mend_len(f);
    });
    let Ok(Message::Ping(ping)) = Message::decode(&frame) else { panic!("a ping") };
    assert_eq!(ping.frame(), 9);
}

#[test]
fn text_is_checked_when_asked_for() {
    let frame = changed("refused", |f| {
        let last = f.len() - 1;
        f[last] = 0xFF;
    });
    let Ok(Message::Refused(refused)) = Message::decode(&frame) else { panic!("a refusal") };
    assert!(refused.detail().is_err());
    assert_eq!(refused.detail_bytes().last(), Some(&0xFF));
}

#[test]
fn unknown_codes_are_kept_as_numbers() {
    let frame = changed("refused", |f| f[BLOCK_AT + 8] = 200);
    let Ok(Message::Refused(refused)) = Message::decode(&frame) else { panic!("a refusal") };
    assert_eq!((refused.reason(), refused.reason_raw()), (None, 200));
}

#[test]
fn decoding_as_another_message_is_an_error() {
    let error = wire::Decide::decode(&samples::named("ping")).err();
    assert_eq!(error, Some(FrameError::UnknownTemplate { found: 8 }));
}
