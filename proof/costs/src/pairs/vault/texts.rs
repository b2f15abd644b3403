//! What the keys door does with bodies: base64 and JSON.

use std::hint::black_box;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurposeConfig, Simd};
use door_keys::BatchReader;
use serde::Deserialize;

use super::super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

/// Items that the door works on at once.
const PART: usize = 256;
const PLAIN: usize = 32;
const SEALED: usize = 80;
/// Room for the base64 of a message.
const ROOM: usize = 128;
const ROUNDS: usize = 15;
const TIMES: usize = 100;

/// Makes the pairs about texts.
///
/// # Errors
/// The ways did different work.
pub(super) fn run(size: Size) -> Result<Vec<Pair>, Error> {
    Ok(vec![reads(size)?, writes(size)?, json(size)?])
}

const TOGETHER: Meaning = Meaning {
    rival: None,
    faster: "the door handles the texts of a part in one go",
    slower: "texts are better handled one by one",
    level: "texts could be handled one by one",
};

/// Bytes as random as a sealed message's, always the same.
fn message<const N: usize>(at: usize) -> [u8; N] {
    let mut state = at as u64;
    [0; N].map(|_: u8| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    })
}

fn simd() -> Simd {
    Simd::standard(GeneralPurposeConfig::new())
}

/// Does `work` on a part, [`TIMES`] times: it returns a sum that all that was read or written decides.
fn part<'a>(size: Size, mut work: impl FnMut() -> u64 + 'a) -> Box<dyn FnMut() -> Done + 'a> {
    let times = size.pick(TIMES, 1);
    Box::new(move || {
        let mut result = 0;
        (0..times).for_each(|_| result = work());
        Done { operations: (times * PART) as u64, result }
    })
}

/// Mixes the ends of what was read or written into a sum.
fn mixed(sum: u64, bytes: &[u8]) -> u64 {
    let ends = [bytes.first(), bytes.last()].map(|byte| byte.copied().map_or(0, u64::from));
    sum.wrapping_mul(31) ^ ends[0] ^ ends[1] << 8 ^ (bytes.len() as u64) << 16
}

/// Reads texts with an engine, one by one.
fn read_each(engine: &impl base64::Engine, texts: &[String]) -> u64 {
    let mut bytes = [0; ROOM];
    texts.iter().fold(0, |sum, text| {
        let read = engine.decode_slice(black_box(text), &mut bytes).unwrap_or(0);
        mixed(sum, black_box(&bytes[..read]))
    })
}

/// Reads texts behind each other, with symbols in place of what fills the last group.
fn read_together(engine: &Simd, texts: &[String], copy: &mut Vec<u8>, bytes: &mut [u8]) -> u64 {
    copy.clear();
    for text in texts {
        copy.extend_from_slice(black_box(text).as_bytes());
        let last = copy.len() - 2;
        for symbol in &mut copy[last..] {
            *symbol = if *symbol == b'=' { b'A' } else { *symbol };
        }
    }
    let read = engine.decode_slice(&copy[..], bytes).unwrap_or(0);
    let (mut at, bytes) = (0, &bytes[..read]);
    texts.iter().fold(0, |sum, text| {
        let filled = text.bytes().rev().take_while(|byte| *byte == b'=').count();
        let from = at;
        at += text.len() / 4 * 3;
        mixed(sum, bytes.get(from..at - filled).unwrap_or_default())
    })
}

fn reads(size: Size) -> Result<Pair, Error> {
    let texts: Vec<String> = (0..PART).map(|at| STANDARD.encode(message::<PLAIN>(at))).collect();
    let (engine, mut copy, mut bytes) = (simd(), Vec::new(), vec![0; PART * PLAIN * 2]);
    let ways: Vec<Way<'_>> = vec![
        ("256 in one go", part(size, || read_together(&engine, &texts, &mut copy, &mut bytes))),
        ("each, vector ways of the crate", part(size, || read_each(&engine, &texts))),
        ("each, the crate", part(size, || read_each(&STANDARD, &texts))),
    ];
    let what = "256 texts of 44 symbols of base64 are read, as they stand in a body; the copy behind each other counts.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/base64-read", what, "text", outcomes, &TOGETHER))
}

/// Writes messages with an engine, one by one.
fn write_each(engine: &impl base64::Engine, messages: &[[u8; SEALED]], out: &mut Vec<u8>) -> u64 {
    out.clear();
    messages.iter().fold(0, |sum, message| {
        let from = out.len();
        out.resize(from + SEALED.div_ceil(3) * 4, 0);
        let written = engine.encode_slice(black_box(message), &mut out[from..]).unwrap_or(0);
        mixed(sum, &out[from..from + written])
    })
}

/// Writes messages that begin at multiples of three bytes in one go, and copies each text with what fills its last group.
fn write_together(engine: &Simd, sealed: &[u8], texts: &mut [u8], out: &mut Vec<u8>) -> u64 {
    out.clear();
    let written = engine.encode_slice(black_box(sealed), texts).unwrap_or(0);
    let stride = SEALED.div_ceil(3) * 4;
    texts[..written].chunks_exact(stride).fold(0, |sum, text| {
        let from = out.len();
        out.extend_from_slice(&text[..stride - 1]);
        out.push(b'=');
        mixed(sum, &out[from..])
    })
}

fn writes(size: Size) -> Result<Pair, Error> {
    let messages: Vec<[u8; SEALED]> = (0..PART).map(message).collect();
    // 80 bytes and one that fills the last group.
    let sealed: Vec<u8> =
        messages.iter().flat_map(|message| message.iter().copied().chain([0])).collect();
    let (engine, mut texts) = (simd(), vec![0; PART * ROOM]);
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    let ways: Vec<Way<'_>> = vec![
        ("256 in one go", part(size, || write_together(&engine, &sealed, &mut texts, &mut first))),
        (
            "each, vector ways of the crate",
            part(size, || write_each(&engine, &messages, &mut second)),
        ),
        ("each, the crate", part(size, || write_each(&STANDARD, &messages, &mut third))),
    ];
    let what = "The base64 of 256 messages of 80 bytes is written into an answer; the copy out of one text counts.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/base64-write", what, "text", outcomes, &TOGETHER))
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    batch_input: Vec<BodyItem<'a>>,
}

#[derive(Deserialize)]
struct BodyItem<'a> {
    plaintext: &'a str,
}

fn bytes_of(body: Option<Body<'_>>) -> u64 {
    let body = body.map(|body| body.batch_input).unwrap_or_default();
    body.iter().map(|item| item.plaintext.len() as u64).sum()
}

fn json(size: Size) -> Result<Pair, Error> {
    let item = |at| format!("{{\"plaintext\":\"{}\"}}", STANDARD.encode(message::<PLAIN>(at)));
    let items: Vec<String> = (0..PART).map(item).collect();
    let body = format!("{{\"batch_input\":[{}]}}", items.join(",")).into_bytes();
    let mut reader = BatchReader::default();
    let ways: Vec<Way<'_>> = vec![
        (
            "the door's reader",
            part(size, || reader.text_bytes(black_box(&body)).unwrap_or(0) as u64),
        ),
        (
            "serde_json, typed, text borrowed",
            part(size, || bytes_of(serde_json::from_slice(black_box(&body)).ok())),
        ),
        (
            "sonic-rs, typed, text borrowed",
            part(size, || bytes_of(sonic_rs::from_slice(black_box(&body)).ok())),
        ),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "the door keeps its own reader",
        slower: "a general reader would be faster, where a text has no escapes and one fault may fail the whole batch",
        level: "the door's reader costs no more than a general one, and judges each item alone",
    };
    let what = format!(
        "A batch of 256 items of 32 bytes, {} bytes of JSON: where each text is. The general readers take no text with escapes.",
        body.len()
    );
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/json", what, "item", outcomes, &meaning))
}
