//! The bid context as SBE (our generated codec) beside the same struct as JSON.
//!
//! A round trip is: write the struct into a reused buffer, then check that buffer and read all fields that a decision needs.
//! The JSON libraries get their best case: typed, text borrowed, buffers reused. Every way sums up what it read.

use std::hint::black_box;

use sample::{BidContextJson, BidContextOwned};
use wire::BidContext;

use super::{Meaning, Pair};
use crate::race::{Done, Way, each, race};
use crate::{Error, Size};

/// Different contexts, so that no branch is learnt by heart.
const CONTEXTS: u64 = 64;
const ROUNDS: usize = 15;
/// Times that the wire does the work of a round: it would be over too soon.
const WIRE_REPEATS: u64 = 40;
/// More than a context takes as SBE.
const FRAME_BYTES_MAX: usize = 1_024;

/// Makes `json/wire`, `json/encode` and `json/read`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let rounds = size.pick(ROUNDS, 1);
    let inputs = Inputs::new(size.pick(40, 1));
    Ok(vec![
        Pair::new("json/wire", inputs.what(), "round trip", inputs.round_trips(rounds)?, &KEPT),
        Pair::new(
            "json/encode",
            "The writing alone, into a buffer that is kept.",
            "context",
            inputs.encodes(rounds)?,
            &KEPT,
        ),
        Pair::new(
            "json/read",
            "The checking and reading alone. simd-json unescapes in place, so it works on a copy, which is counted.",
            "context",
            inputs.reads(rounds)?,
            &KEPT,
        ),
    ])
}

const KEPT: Meaning = Meaning {
    rival: None,
    faster: "the batch door speaks SBE; JSON stays where the outside world speaks it",
    slower: "the batch door would be better off with JSON",
    level: "the batch door could as well speak JSON",
};

struct Inputs {
    contexts: Vec<BidContextOwned>,
    texts: Vec<Vec<u8>>,
    frames: Vec<Vec<u8>>,
    repeats: u64,
}

impl Inputs {
    fn new(repeats: u64) -> Inputs {
        let contexts: Vec<BidContextOwned> = (0..CONTEXTS).map(sample::bid_context).collect();
        let texts = contexts.iter().map(|context| write_serde(context, Vec::new())).collect();
        let frames = contexts.iter().map(|context| {
            let mut frame = vec![0; context.encoded_len()];
            write_wire(context, &mut frame);
            frame
        });
        Inputs { frames: frames.collect(), texts, contexts, repeats }
    }

    fn what(&self) -> String {
        let mean = |all: &[Vec<u8>]| all.iter().map(Vec::len).sum::<usize>() / all.len();
        format!(
            "A bid context is encoded, checked, and all fields that a decision needs are read: {} bytes as JSON, {} as SBE. Types \
             are known, text is borrowed, buffers are kept.",
            mean(&self.texts),
            mean(&self.frames)
        )
    }

    fn round_trips(&self, rounds: usize) -> Result<Vec<probe::compare::Outcome>, Error> {
        let mut frame = vec![0; FRAME_BYTES_MAX];
        let mut simd_buffers = simd_json::Buffers::default();
        let ways: Vec<Way<'_>> = vec![
            (
                "wire",
                self.wire(move |context| {
                    let len = write_wire(context, &mut frame);
                    read_wire(black_box(&frame[..len]))
                }),
            ),
            ("sonic-rs", self.texts(write_sonic, read_sonic)),
            ("simd-json", self.texts(write_simd, move |text| read_simd(text, &mut simd_buffers))),
            ("serde_json", self.texts(write_serde, read_serde)),
        ];
        race(rounds, ways)
    }

    /// A round trip through text in a buffer that is kept.
    fn texts<'a>(
        &'a self,
        write: fn(&BidContextOwned, Vec<u8>) -> Vec<u8>,
        mut read: impl FnMut(&mut [u8]) -> u64 + 'a,
    ) -> Box<dyn FnMut() -> Done + 'a> {
        let mut kept = Vec::new();
        Box::new(move || {
            each(&self.contexts, self.repeats, |context| {
                kept = write(context, std::mem::take(&mut kept));
                read(black_box(&mut kept))
            })
        })
    }

    fn wire<'a>(
        &'a self,
        mut work: impl FnMut(&BidContextOwned) -> u64 + 'a,
    ) -> Box<dyn FnMut() -> Done + 'a> {
        Box::new(move || each(&self.contexts, WIRE_REPEATS * self.repeats, &mut work))
    }

    /// The results are checked by the round trips: here a JSON text and a frame differ in all but what they mean.
    fn encodes(&self, rounds: usize) -> Result<Vec<probe::compare::Outcome>, Error> {
        let mut frame = vec![0; FRAME_BYTES_MAX];
        let written = |text: &mut [u8]| u64::from(!black_box(text).is_empty());
        let ways: Vec<Way<'_>> = vec![
            (
                "wire",
                self.wire(move |context| {
                    let len = write_wire(context, &mut frame);
                    u64::from(!black_box(&frame[..len]).is_empty())
                }),
            ),
            ("sonic-rs", self.texts(write_sonic, written)),
            ("simd-json", self.texts(write_simd, written)),
            ("serde_json", self.texts(write_serde, written)),
        ];
        race(rounds, ways)
    }

    fn reads(&self, rounds: usize) -> Result<Vec<probe::compare::Outcome>, Error> {
        let (mut room, mut buffers) = (Vec::new(), simd_json::Buffers::default());
        let ways: Vec<Way<'_>> = vec![
            (
                "wire",
                Box::new(|| {
                    each(&self.frames, WIRE_REPEATS * self.repeats, |frame| read_wire(frame))
                }),
            ),
            ("sonic-rs", Box::new(|| each(&self.texts, self.repeats, |text| sonic_sum(text)))),
            (
                "simd-json, of a copy",
                Box::new(move || {
                    each(&self.texts, self.repeats, |text| {
                        room.clear();
                        room.extend_from_slice(text);
                        read_simd(&mut room, &mut buffers)
                    })
                }),
            ),
            ("serde_json", Box::new(|| each(&self.texts, self.repeats, |text| serde_sum(text)))),
        ];
        race(rounds, ways)
    }
}

fn write_wire(context: &BidContextOwned, frame: &mut [u8]) -> usize {
    context.encode_into(frame).expect("a context is shorter than its frame")
}

fn write_sonic(context: &BidContextOwned, mut kept: Vec<u8>) -> Vec<u8> {
    kept.clear();
    sonic_rs::to_writer(&mut kept, context).expect("a plain struct");
    kept
}

fn write_simd(context: &BidContextOwned, mut kept: Vec<u8>) -> Vec<u8> {
    kept.clear();
    simd_json::to_writer(&mut kept, context).expect("a plain struct");
    kept
}

fn write_serde(context: &BidContextOwned, mut kept: Vec<u8>) -> Vec<u8> {
    kept.clear();
    serde_json::to_writer(&mut kept, context).expect("a plain struct");
    kept
}

fn read_wire(frame: &[u8]) -> u64 {
    BidContext::decode(frame).map_or(0, |context| sample::read_all(&context))
}

fn read_sonic(text: &mut [u8]) -> u64 {
    sonic_sum(text)
}

fn sonic_sum(text: &[u8]) -> u64 {
    sonic_rs::from_slice::<BidContextJson<'_>>(text).map_or(0, |context| context.sum_all())
}

fn read_simd(text: &mut [u8], buffers: &mut simd_json::Buffers) -> u64 {
    let context = simd_json::serde::from_slice_with_buffers::<BidContextJson<'_>>(text, buffers);
    context.map_or(0, |context| context.sum_all())
}

fn read_serde(text: &mut [u8]) -> u64 {
    serde_sum(text)
}

fn serde_sum(text: &[u8]) -> u64 {
    serde_json::from_slice::<BidContextJson<'_>>(text).map_or(0, |context| context.sum_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums that are all 0 would be equal too.
    #[test]
    fn every_library_reads_what_every_other_wrote() {
        let inputs = Inputs::new(1);
        for (context, text) in inputs.contexts.iter().zip(&inputs.texts) {
            let sum = context.sum_all();
            assert_ne!(sum, 0);
            for write in [write_sonic, write_simd, write_serde] {
                let mut written = write(context, Vec::new());
                assert_eq!(&written, text);
                let sums = [sonic_sum(&written), serde_sum(&written)];
                assert_eq!(sums, [sum; 2]);
                assert_eq!(read_simd(&mut written, &mut simd_json::Buffers::default()), sum);
            }
        }
    }
}
