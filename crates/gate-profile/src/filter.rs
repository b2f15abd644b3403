//! Which users may be in the store: a Bloom filter of which one look-up touches one cache line.

use table::SplitMix64;

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Words of a line.
const LINE_WORDS: usize = 8;
/// Bits that each key sets in its line.
const PROBES: u32 = 6;
/// Bits per key: about 1 % of absent keys are taken for present ones when it holds what it was made for.
const KEY_BITS: usize = 12;

/// Shared by all threads, without a lock; keys are only ever added. Until it is complete every key may be in the store.
///
/// `proof/interleavings` runs this file under all orders in which two threads can meet in it.
#[derive(Debug)]
pub(crate) struct Filter {
    lines: Vec<Line>,
    complete: AtomicBool,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

impl Filter {
    /// A filter for `keys` keys; with more it stays right and says "perhaps" more often.
    pub(crate) fn new(keys: usize) -> Filter {
        let lines = (keys.saturating_mul(KEY_BITS) / (LINE_WORDS * 64)).next_power_of_two();
        let lines = std::iter::repeat_with(Line::default).take(lines).collect();
        Filter { lines, complete: AtomicBool::new(false) }
    }

    pub(crate) fn insert(&self, key: u64) {
        let (line, probes) = self.find(key);
        for (word, bit) in bits(probes) {
            line.0[word].fetch_or(bit, Ordering::Release);
        }
    }

    /// Every key of the store has been inserted.
    pub(crate) fn complete(&self) {
        self.complete.store(true, Ordering::Release);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// False: certainly not. True: perhaps.
    pub(crate) fn may_contain(&self, key: u64) -> bool {
        // Asked first: after the bits, the last keys could come in between, and one of them would be taken for absent.
        if !self.is_complete() {
            return true;
        }
        let (line, probes) = self.find(key);
        bits(probes).all(|(word, bit)| line.0[word].load(Ordering::Acquire) & bit != 0)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    fn find(&self, key: u64) -> (&Line, u64) {
        let mixed = SplitMix64::new(key).draw();
        let at = usize::try_from(mixed).unwrap_or(0) & (self.lines.len() - 1);
        (&self.lines[at], SplitMix64::new(mixed).draw())
    }
}

/// Nine bits a probe: three for the word, six for the bit.
fn bits(probes: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..PROBES).map(move |probe| {
        let nine = probes >> (probe * 9);
        (((nine >> 6) & 7) as usize, 1 << (nine & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missed_and_little_is_mistaken() {
        let filter = Filter::new(100_000);
        assert!(filter.may_contain(1), "nothing is certain before it is complete");
        (0..100_000).for_each(|key| filter.insert(key));
        filter.complete();
        assert!((0..100_000).all(|key| filter.may_contain(key)));
        let mistaken = (100_000..300_000).filter(|&key| filter.may_contain(key)).count();
        assert!(mistaken < 6_000, "{mistaken} of 200,000");
    }
}
