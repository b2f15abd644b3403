//! A fresh set of buffers a request against buffers that are kept.
//!
//! Allocating is inside the timed region: it is what is measured. One thread allocates and frees what it allocated, in the
//! same order each time: the best case of an allocator. Threads that free what others allocated pay more.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;

use door_openrtb::{BidRequest, ReadLimits, Reader};
use probe::compare::Random;
use wire::{Verdict, decided};

use super::{Meaning, Pair};
use crate::race::{Way, each, race};
use crate::{Error, Size};

const ROUNDS: usize = 15;
const SEED: u64 = 2;
const BODIES: u64 = 500;
/// Frames of answers, and how often each is written in a round.
const FRAMES: usize = 64;
const REPEATS: u64 = 1_000;
const ANSWERS: usize = 10;

const MEANING: Meaning = Meaning {
    rival: None,
    faster: "the hot path allocates nothing",
    slower: "keeping buffers does not pay here",
    level: "buffers are kept for steady latencies, not because the mean is lower",
};

/// Makes `allocation/request`, `allocation/answer` and `allocation/frame`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    Ok(vec![request(size)?, answer(size)?, frame(size)?])
}

fn bodies(size: Size) -> Vec<Vec<u8>> {
    hammer::openrtb::generate(SEED, size.pick(BODIES, 30)).map(String::into_bytes).collect()
}

/// A whole request: its body copied, read, and answered with a bid for each impression.
fn request(size: Size) -> Result<Pair, Error> {
    let bodies = bodies(size);
    let (mut reader, mut body_kept, mut answer_kept) = (Reader::default(), Vec::new(), Vec::new());
    let ways: Vec<Way<'_>> = vec![
        (
            "buffers kept",
            Box::new(|| {
                each(&bodies, 1, |body| {
                    body_kept.clear();
                    body_kept.extend_from_slice(body);
                    serve(&mut reader, &mut body_kept, &mut answer_kept)
                })
            }),
        ),
        (
            "fresh buffers a request",
            Box::new(|| {
                each(&bodies, 1, |body| {
                    serve(&mut Reader::default(), &mut body.clone(), &mut Vec::new())
                })
            }),
        ),
    ];
    let what = "A bid request is copied, read in place, and answered with a bid for each impression: tape, lists, body and answer \
                in buffers that are kept, or in fresh ones.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("allocation/request", what, "request", outcomes, &MEANING))
}

fn serve(reader: &mut Reader, body: &mut [u8], answer: &mut Vec<u8>) -> u64 {
    let written = |request: &BidRequest<'_>| {
        answer.clear();
        let bids = request
            .imps
            .iter()
            .map(|imp| Bid { imp: imp.id, price_micros: imp.floor.micros + 10_000 });
        write_answer(answer, request.id, bids);
        mark(black_box(answer))
    };
    reader.read(body, &ReadLimits::default(), written).unwrap_or(0)
}

/// What tells one answer from another without reading all of it, which would take longer than writing it.
fn mark(bytes: &[u8]) -> u64 {
    let middle = bytes.get(bytes.len() / 2).copied().unwrap_or(0);
    bytes.len() as u64 * 257 + u64::from(middle)
}

struct Bid<'a> {
    imp: &'a str,
    price_micros: i64,
}

const MARKUP: &str =
    "<a href=\\\"https://shop.example/?c=7\\\"><img src=\\\"https://cdn.example/7.png\\\"></a>";

/// Every part straight into the one buffer.
fn write_answer<'a>(out: &mut Vec<u8>, id: &str, bids: impl Iterator<Item = Bid<'a>>) {
    let wrote = write!(out, "{{\"id\":\"{id}\",\"seatbid\":[{{\"bid\":[");
    wrote.expect("a Vec takes everything");
    for (at, Bid { imp, price_micros }) in bids.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (units, micros) = (price_micros / 1_000_000, price_micros % 1_000_000);
        let wrote = write!(
            out,
            "{comma}{{\"impid\":\"{imp}\",\"price\":{units}.{micros:06},\"adm\":\"{MARKUP}\"}}"
        );
        wrote.expect("a Vec takes everything");
    }
    out.extend_from_slice(b"]}]}");
}

/// The same bytes as many write them: a text for every part, put together in the end.
fn answer_of_texts<'a>(id: &str, bids: impl Iterator<Item = Bid<'a>>) -> String {
    let bid = |Bid { imp, price_micros }: Bid<'_>| {
        let mut price = String::new();
        let wrote = write!(price, "{}.{:06}", price_micros / 1_000_000, price_micros % 1_000_000);
        wrote.expect("a String takes everything");
        let adm = MARKUP.to_owned();
        format!("{{\"impid\":\"{imp}\",\"price\":{price},\"adm\":\"{adm}\"}}")
    };
    let bids: Vec<String> = bids.map(bid).collect();
    format!("{{\"id\":\"{id}\",\"seatbid\":[{{\"bid\":[{}]}}]}}", bids.join(","))
}

/// What an answer is made of.
struct Inputs {
    id: String,
    imps: Vec<String>,
    price_micros: i64,
}

impl Inputs {
    fn all() -> Vec<Inputs> {
        let mut random = Random::new(31);
        let mut one = |_| Inputs {
            id: format!("{:016x}", random.draw()),
            imps: (0..1 + random.below(4)).map(|at| (at + 1).to_string()).collect(),
            price_micros: i64::try_from(random.below(9_000_000)).unwrap_or(0),
        };
        (0..FRAMES).map(&mut one).collect()
    }

    fn bids(&self) -> impl Iterator<Item = Bid<'_>> {
        self.imps.iter().map(|imp| Bid { imp, price_micros: self.price_micros })
    }
}

fn answer(size: Size) -> Result<Pair, Error> {
    let (inputs, repeats) = (Inputs::all(), size.pick(REPEATS / 10, 1));
    let mut kept = Vec::new();
    let ways: Vec<Way<'_>> = vec![
        (
            "buffer kept",
            Box::new(|| {
                each(&inputs, repeats, |input| {
                    kept.clear();
                    write_answer(&mut kept, &input.id, input.bids());
                    mark(black_box(&kept))
                })
            }),
        ),
        (
            "a fresh buffer",
            Box::new(|| {
                each(&inputs, repeats, |input| {
                    let mut fresh = Vec::new();
                    write_answer(&mut fresh, &input.id, input.bids());
                    mark(black_box(&fresh))
                })
            }),
        ),
        (
            "a String for every part",
            Box::new(|| {
                each(&inputs, repeats, |input| {
                    mark(black_box(answer_of_texts(&input.id, input.bids()).as_bytes()))
                })
            }),
        ),
    ];
    let what =
        "The JSON of an answer with 1 to 4 bids is written. The three ways write the same bytes.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("allocation/answer", what, "answer", outcomes, &MEANING))
}

type Tokens = [[u8; 32]; ANSWERS];

fn tokens() -> Vec<Tokens> {
    let mut random = Random::new(7);
    let mut token = |_| {
        let mut token = [0; 32];
        token.fill_with(|| random.draw().to_le_bytes()[0]);
        token
    };
    (0..FRAMES).map(|_| std::array::from_fn(&mut token)).collect()
}

/// The hot path of the batch door: one frame of answers.
fn frame(size: Size) -> Result<Pair, Error> {
    let (tokens, repeats) = (tokens(), size.pick(REPEATS, 1));
    let mut kept = vec![0; decided::encoded_len(ANSWERS)];
    let ways: Vec<Way<'_>> = vec![
        (
            "filled in place, buffer kept",
            Box::new(|| {
                each(&tokens, repeats, |tokens| {
                    fill(&mut kept, tokens);
                    mark(black_box(&kept))
                })
            }),
        ),
        (
            "filled in place, a fresh buffer",
            Box::new(|| {
                each(&tokens, repeats, |tokens| {
                    let mut fresh = vec![0; decided::encoded_len(ANSWERS)];
                    fill(&mut fresh, tokens);
                    mark(black_box(&fresh))
                })
            }),
        ),
        (
            "a fresh list of answers, then a fresh buffer",
            Box::new(|| each(&tokens, repeats, |tokens| mark(black_box(&collect(tokens))))),
        ),
    ];
    let what = format!("A Decided frame of {ANSWERS} answers is written; ns per frame.");
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("allocation/frame", what, "frame", outcomes, &MEANING))
}

const BLOCK: (u64, u32) = (7, 1);

fn granted(token: &[u8; 32]) -> decided::Answer {
    decided::Answer::new(*token, Verdict::Granted)
}

fn fill(frame: &mut [u8], tokens: &Tokens) {
    let encoder = decided::encode(frame, &decided::Block::new(BLOCK.0, BLOCK.1));
    let room = encoder.and_then(|encoder| encoder.answers_mut(ANSWERS));
    let (answers, encoder) = room.expect("encoded_len is what it takes");
    answers.iter_mut().zip(tokens).for_each(|(answer, token)| *answer = granted(token));
    encoder.finish();
}

fn collect(tokens: &Tokens) -> Vec<u8> {
    let answers: Vec<decided::Answer> = black_box(tokens.iter().map(granted).collect());
    let mut frame = vec![0; decided::encoded_len(answers.len())];
    let encoder = decided::encode(&mut frame, &decided::Block::new(BLOCK.0, BLOCK.1));
    let written = encoder.and_then(|encoder| encoder.answers(&answers));
    written.expect("encoded_len is what it takes").finish();
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_write_the_same_answer() {
        for input in Inputs::all() {
            let mut written = Vec::new();
            write_answer(&mut written, &input.id, input.bids());
            assert_eq!(written, answer_of_texts(&input.id, input.bids()).into_bytes());
            assert!(serde_json::from_slice::<serde_json::Value>(&written).is_ok());
        }
    }

    #[test]
    fn all_ways_write_the_same_frame() {
        for tokens in tokens() {
            let mut frame = vec![0xff; decided::encoded_len(ANSWERS)];
            fill(&mut frame, &tokens);
            assert_eq!(frame, collect(&tokens));
        }
    }

    #[test]
    fn fresh_and_kept_buffers_answer_alike() {
        let (mut reader, mut kept) = (Reader::default(), Vec::new());
        for body in bodies(Size::Smoke) {
            let mut fresh = Vec::new();
            let first = serve(&mut reader, &mut body.clone(), &mut kept);
            assert_eq!(first, serve(&mut Reader::default(), &mut body.clone(), &mut fresh));
            assert_eq!(kept, fresh);
            assert_ne!(first, 0);
        }
    }
}
