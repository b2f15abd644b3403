//! A bid context on the wire: written, checked and read.

use std::hint::black_box;

use sample::BidContextOwned;
use wire::BidContext;

use super::Workload;

/// Different contexts, so that no branch is learnt by heart.
const CONTEXTS: u64 = 64;

/// Encodes contexts, decodes them, and reads every field that a decision needs.
pub(crate) struct Codec {
    contexts: Vec<BidContextOwned>,
    frame: Vec<u8>,
    next: usize,
}

impl Codec {
    /// Contexts in a step.
    const STEP: u64 = 16;

    pub(crate) fn new() -> Codec {
        let contexts: Vec<BidContextOwned> = (0..CONTEXTS).map(sample::bid_context).collect();
        let longest = contexts.iter().map(BidContextOwned::encoded_len).max().unwrap_or(0);
        Codec { contexts, frame: vec![0; longest], next: 0 }
    }

    fn round_trip(&mut self) -> u64 {
        let context = black_box(&self.contexts[self.next]);
        self.next = (self.next + 1) % self.contexts.len();
        let written = context.encode_into(&mut self.frame);
        let written = written.expect("the frame has room for the longest context");
        let frame = black_box(&self.frame[..written]);
        sample::read_all(&BidContext::decode(frame).expect("what was written is sound"))
    }
}

impl Workload for Codec {
    fn step(&mut self) -> u64 {
        for _ in 0..Codec::STEP {
            black_box(self.round_trip());
        }
        Codec::STEP
    }
}
