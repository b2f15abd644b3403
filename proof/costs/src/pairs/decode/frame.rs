//! A frame of ten asks: views into it, or structs copied out of it.

use std::hint::black_box;

use probe::compare::Random;
use wire::{Message, decide};

use crate::pairs::{Meaning, Pair};
use crate::race::{Way, each, race};
use crate::{Error, Size};

const ROUNDS: usize = 15;
/// Different frames, so that no value is learnt by heart.
const FRAMES: usize = 64;
const ASKS: usize = 10;
const REPEATS: u64 = 2_000;

pub(super) fn pair(size: Size) -> Result<Pair, Error> {
    let repeats = size.pick(REPEATS, 1);
    let frames = frames();
    let mut kept = Vec::with_capacity(ASKS);
    let ways: Vec<Way<'_>> = vec![
        ("in place", Box::new(|| each(&frames, repeats, |frame| in_place(frame)))),
        (
            "copied into a Vec that is kept",
            Box::new(|| each(&frames, repeats, |frame| copied(frame, &mut kept))),
        ),
        (
            "copied into a fresh Vec",
            Box::new(|| {
                each(&frames, repeats, |frame| copied(frame, &mut Vec::with_capacity(ASKS)))
            }),
        ),
    ];
    let meaning = Meaning {
        rival: Some("copied into a fresh Vec"),
        faster: "frames are read where they were received",
        slower: "copying out would be the better way here",
        level: "frames are read where they were received because nothing needs a copy, not because it is faster",
    };
    let what = format!(
        "A Decide frame of {ASKS} asks is checked, and four fields of each ask are read; ns per frame."
    );
    Ok(Pair::new("decode/in-place", what, "frame", race(size.pick(ROUNDS, 1), ways)?, &meaning))
}

fn frames() -> Vec<Vec<u8>> {
    let mut random = Random::new(21);
    (0..FRAMES).map(|_| frame(&mut random)).collect()
}

fn frame(random: &mut Random) -> Vec<u8> {
    let ask = |_| {
        let amount = (random.draw() >> 40).cast_signed();
        decide::Ask::new(random.draw(), random.draw() >> 50, amount, random.draw(), *b"USD\0", 0, 0)
    };
    let asks: Vec<decide::Ask> = (0..ASKS).map(ask).collect();
    let mut frame = vec![0; decide::encoded_len(asks.len())];
    let encoder = decide::encode(&mut frame, &decide::Block::default());
    encoder.and_then(|encoder| encoder.asks(&asks)).expect("encoded_len is what it takes").finish();
    frame
}

fn in_place(frame: &[u8]) -> u64 {
    let Ok(Message::Decide(batch)) = Message::decode(frame) else { return 0 };
    let asks = batch.asks().as_slice().unwrap_or_default();
    asks.iter().fold(0, |sum, ask| {
        sum ^ ask.request_id() ^ ask.budget_id() ^ ask.amount().cast_unsigned() ^ ask.user_id()
    })
}

/// An ask in types of the machine, as decoders hand it out that copy.
struct Ask {
    request_id: u64,
    budget_id: u64,
    amount: i64,
    user_id: u64,
    unit: [u8; 4],
    pod: u16,
}

fn copied(frame: &[u8], asks: &mut Vec<Ask>) -> u64 {
    let Ok(Message::Decide(batch)) = Message::decode(frame) else { return 0 };
    asks.clear();
    asks.extend(batch.asks().iter().map(|ask| Ask {
        request_id: ask.request_id(),
        budget_id: ask.budget_id(),
        amount: ask.amount(),
        user_id: ask.user_id(),
        unit: ask.unit(),
        pod: ask.pod(),
    }));
    // What reads them must not see through to the frame.
    black_box(&mut *asks).iter().fold(0, |sum, ask| {
        // The two fields that nobody reads are there: a copy does not know what is read later.
        black_box((ask.unit, ask.pod));
        sum ^ ask.request_id ^ ask.budget_id ^ ask.amount.cast_unsigned() ^ ask.user_id
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_the_same_and_something() {
        let frames = frames();
        let sums: Vec<u64> = frames.iter().map(|frame| in_place(frame)).collect();
        let copies = frames.iter().map(|frame| copied(frame, &mut Vec::new()));
        assert!(copies.eq(sums.iter().copied()));
        assert!(sums.iter().all(|sum| *sum != 0) && sums[0] != sums[1]);
    }
}
