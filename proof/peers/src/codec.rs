//! The bid context as SBE (our generated codec) beside the same struct as JSON.
//!
//! A round trip is: write the struct into a reused buffer, then check that buffer and read all fields a decision needs.
//! The JSON libraries get their best case: typed, text borrowed, buffers reused. Every case sums up what it read, and the
//! sums must be equal.

use std::hint::black_box;

use wire::sample::{self, BidContextJson, BidContextOwned};
use wire::{BidContext, Message, Verdict, decide, decided};

use crate::Size;
use crate::rounds::{Case, compare};

/// Different contexts, so that no branch is learnt by heart.
const CONTEXTS: u64 = 64;
const ANSWERS: usize = 10;

/// Prints the tables.
pub fn run(size: Size) {
    let rounds = size.pick(15, 1);
    let repeats = size.pick(40, 1);
    let contexts: Vec<BidContextOwned> = (0..CONTEXTS).map(sample::bid_context).collect();
    let texts: Vec<Vec<u8>> = contexts.iter().map(json).collect();
    let frames: Vec<Vec<u8>> = contexts.iter().map(sbe).collect();
    check(&contexts, &texts, &frames);
    let mean = |all: &[Vec<u8>]| all.iter().map(Vec::len).sum::<usize>() / all.len();
    println!("\nbid context: {} bytes as JSON, {} as SBE", mean(&texts), mean(&frames));
    round_trips(rounds, repeats, &contexts);
    encodes(rounds, repeats, &contexts);
    reads(rounds, repeats, &texts, &frames);
    answers(rounds, repeats * CONTEXTS);
    asks(rounds, repeats * CONTEXTS);
}

fn json(context: &BidContextOwned) -> Vec<u8> {
    serde_json::to_vec(context).expect("a plain struct")
}

fn sbe(context: &BidContextOwned) -> Vec<u8> {
    let mut frame = vec![0; context.encoded_len()];
    context.encode_into(&mut frame).expect("encoded_len says how long it is");
    frame
}

fn read_sbe(frame: &[u8]) -> u64 {
    BidContext::decode(frame).map_or(0, |context| sample::read_all(&context))
}

fn read_serde(text: &[u8]) -> u64 {
    serde_json::from_slice::<BidContextJson<'_>>(text).map_or(0, |context| context.sum_all())
}

fn read_sonic(text: &[u8]) -> u64 {
    sonic_rs::from_slice::<BidContextJson<'_>>(text).map_or(0, |context| context.sum_all())
}

/// All ways to read give the same sum, or the figures compare different work.
fn check(contexts: &[BidContextOwned], texts: &[Vec<u8>], frames: &[Vec<u8>]) {
    for ((context, text), frame) in contexts.iter().zip(texts).zip(frames) {
        let sum = context.sum_all();
        assert_eq!([read_sbe(frame), read_serde(text), read_sonic(text)], [sum; 3]);
        assert_eq!(&sonic_rs::to_vec(context).expect("a plain struct"), text);
    }
}

/// Does `work` on every item, `repeats` times; returns how often.
fn each<T>(items: &[T], repeats: u64, mut work: impl FnMut(&T) -> u64) -> u64 {
    for _ in 0..repeats {
        for item in items {
            black_box(work(black_box(item)));
        }
    }
    repeats * items.len() as u64
}

fn round_trips(rounds: usize, repeats: u64, contexts: &[BidContextOwned]) {
    let (mut sonic, mut serde, mut frame) = (Vec::new(), Vec::new(), vec![0; 1024]);
    let title = "bid context: encode + check + read all decision fields";
    let mut cases: Vec<Case<'_>> = vec![
        (
            "sonic-rs, typed",
            Box::new(move || {
                each(contexts, repeats, |context| {
                    sonic.clear();
                    sonic_rs::to_writer(&mut sonic, context).expect("a plain struct");
                    read_sonic(black_box(&sonic))
                })
            }),
        ),
        (
            "serde_json, typed",
            Box::new(move || {
                each(contexts, repeats, |context| {
                    serde.clear();
                    serde_json::to_writer(&mut serde, context).expect("a plain struct");
                    read_serde(black_box(&serde))
                })
            }),
        ),
        (
            "wire",
            Box::new(move || {
                each(contexts, 50 * repeats, |context| {
                    let len = context.encode_into(&mut frame).expect("it fits");
                    read_sbe(black_box(&frame[..len]))
                })
            }),
        ),
    ];
    compare(title, rounds, &mut cases);
}

fn encodes(rounds: usize, repeats: u64, contexts: &[BidContextOwned]) {
    let (mut sonic, mut serde, mut frame) = (Vec::new(), Vec::new(), vec![0; 1024]);
    let mut cases: Vec<Case<'_>> = vec![
        (
            "sonic-rs",
            Box::new(move || {
                each(contexts, repeats, |context| {
                    sonic.clear();
                    sonic_rs::to_writer(&mut sonic, context).expect("a plain struct");
                    black_box(&sonic).len() as u64
                })
            }),
        ),
        (
            "serde_json",
            Box::new(move || {
                each(contexts, repeats, |context| {
                    serde.clear();
                    serde_json::to_writer(&mut serde, context).expect("a plain struct");
                    black_box(&serde).len() as u64
                })
            }),
        ),
        (
            "wire",
            Box::new(move || {
                each(contexts, 50 * repeats, |context| {
                    let len = context.encode_into(&mut frame).expect("it fits");
                    black_box(&frame[..len]).len() as u64
                })
            }),
        ),
    ];
    compare("bid context: encode", rounds, &mut cases);
}

fn reads(rounds: usize, repeats: u64, texts: &[Vec<u8>], frames: &[Vec<u8>]) {
    let mut cases: Vec<Case<'_>> = vec![
        ("sonic-rs, typed", Box::new(move || each(texts, repeats, |text| read_sonic(text)))),
        ("serde_json, typed", Box::new(move || each(texts, repeats, |text| read_serde(text)))),
        ("wire", Box::new(move || each(frames, 50 * repeats, |frame| read_sbe(frame)))),
        (
            "wire, check only",
            Box::new(move || {
                each(frames, 50 * repeats, |frame| u64::from(BidContext::decode(frame).is_ok()))
            }),
        ),
    ];
    compare("bid context: check + read all decision fields", rounds, &mut cases);
}

/// The hot path of the batch door: one frame of answers.
fn answers(rounds: usize, repeats: u64) {
    let mut tokens = [[0; 32]; ANSWERS];
    let mut random = crate::rounds::Random::new(7);
    tokens.iter_mut().flatten().for_each(|byte| *byte = random.next() as u8);
    let mut frame = vec![0; decided::encoded_len(ANSWERS)];
    let mut plain = frame.clone();
    let ready = frame.clone();
    let mut cases: Vec<Case<'_>> = vec![
        (
            "memcpy of the same bytes",
            Box::new(move || {
                each(&[ready.as_slice()], 50 * repeats, |ready| {
                    plain.copy_from_slice(ready);
                    black_box(&plain).len() as u64
                })
            }),
        ),
        (
            "wire, filled in place",
            Box::new(move || {
                each(&[tokens], 50 * repeats, |tokens| {
                    let block = decided::Block::new(7, 1);
                    let encoder = decided::encode(&mut frame, &block).expect("it fits");
                    let (answers, encoder) = encoder.answers_mut(ANSWERS).expect("it fits");
                    for (answer, token) in answers.iter_mut().zip(tokens) {
                        *answer = decided::Answer::new(*token, Verdict::Granted);
                    }
                    let len = encoder.finish();
                    black_box(&frame[..len]).len() as u64
                })
            }),
        ),
    ];
    compare("Decided with 10 answers: encode, ns a frame", rounds, &mut cases);
}

/// What the batch door does first: check a frame and look at every ask.
fn asks(rounds: usize, repeats: u64) {
    let asks: Vec<decide::Ask> = (1..=10)
        .map(|id| decide::Ask::new(id, id * 7, 1_500_000, id * 3, *b"USD\0", 0, 0))
        .collect();
    let mut frame = vec![0; decide::encoded_len(asks.len())];
    let encoder = decide::encode(&mut frame, &decide::Block::default()).expect("it fits");
    encoder.asks(&asks).expect("it fits").finish();
    let other = frame.clone();
    let sum = |ask: &decide::Ask| {
        ask.request_id() ^ ask.budget_id() ^ ask.amount().cast_unsigned() ^ ask.user_id()
    };
    let mut cases: Vec<Case<'_>> = vec![
        (
            "check + entries as one slice",
            Box::new(move || {
                each(&[frame.as_slice()], 50 * repeats, |frame| match Message::decode(frame) {
                    Ok(Message::Decide(batch)) => {
                        let asks = batch.asks().as_slice().unwrap_or_default();
                        asks.iter().fold(0, |all, ask| all ^ sum(ask))
                    }
                    _ => 0,
                })
            }),
        ),
        (
            "check + entries by stride",
            Box::new(move || {
                each(&[other.as_slice()], 50 * repeats, |frame| match Message::decode(frame) {
                    Ok(Message::Decide(batch)) => {
                        batch.asks().iter().fold(0, |all, ask| all ^ sum(ask))
                    }
                    _ => 0,
                })
            }),
        ),
    ];
    compare("Decide with 10 asks: check + read four fields each, ns a frame", rounds, &mut cases);
}
