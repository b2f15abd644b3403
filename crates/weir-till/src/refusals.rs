//! The last refusals of a worker, for people who ask why a budget does not spend.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::Verdict;

use crate::cells::{are_asks_below, verdict_codes};

/// Refusals that a worker remembers, of all budgets together. A power of two.
pub const LAST_MAX: usize = 1 << 14;

// A refusal is one word: when (the low bits of ms since 1970), the slot of the budget, the verdict.
const VERDICT_BITS: u32 = 5;
const SLOT_BITS: u32 = 24;
const MS_SHIFT: u32 = SLOT_BITS + VERDICT_BITS;

const _: () = assert!(ledger::BUDGETS_MAX <= 1 << SLOT_BITS && LAST_MAX.is_power_of_two());
const _: () = assert!(are_asks_below(&verdict_codes(), 1 << VERDICT_BITS));

/// The last refusals of one worker, in a ring. The worker alone writes: one word a refusal and how many there were, no locked
/// instruction. Anybody reads. A word is a whole refusal, so a reader that is overtaken meets a newer one, never a half.
#[derive(Debug)]
pub struct LastRefusals {
    /// 0: never written, for no refusal has the verdict `Granted`.
    words: Box<[AtomicU64; LAST_MAX]>,
    /// Refusals since the start.
    noted: AtomicU64,
}

/// An ask that got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRefusal {
    /// When, milliseconds of Unix time.
    pub at_ms: u64,
    /// The budget's slot.
    pub slot: u32,
    /// Why.
    pub verdict: Verdict,
}

impl Default for LastRefusals {
    fn default() -> LastRefusals {
        let words: Vec<AtomicU64> = (0..LAST_MAX).map(|_| AtomicU64::new(0)).collect();
        let words = words.into_boxed_slice().try_into().expect("as many as were made");
        LastRefusals { words, noted: AtomicU64::new(0) }
    }
}

impl LastRefusals {
    /// Notes that an ask for the budget in `slot` was refused. There is one writer.
    #[inline(always)]
    pub fn note(&self, slot: u32, verdict: Verdict, now_ms: u64) {
        let noted = self.noted.load(Relaxed);
        let word =
            now_ms << MS_SHIFT | u64::from(slot) << VERDICT_BITS | u64::from(verdict.as_raw());
        self.words[place(noted)].store(word, Relaxed);
        self.noted.store(noted.wrapping_add(1), Relaxed);
    }

    /// How many are remembered.
    pub fn remembered(&self) -> u64 {
        self.noted.load(Relaxed).min(LAST_MAX as u64)
    }

    /// What is remembered, newest first but for those that come meanwhile. `now_ms` may be some seconds off the worker's
    /// clock; a refusal that is older than a year gets a wrong time.
    pub fn read(&self, now_ms: u64) -> impl Iterator<Item = LastRefusal> {
        let noted = self.noted.load(Relaxed);
        let words =
            (1..=LAST_MAX as u64).map(move |back| &self.words[place(noted.wrapping_sub(back))]);
        words.filter_map(move |word| LastRefusal::of(word.load(Relaxed), now_ms))
    }
}

/// Where in the ring the refusal with this number stands.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
fn place(number: u64) -> usize {
    number as usize % LAST_MAX
}

impl LastRefusal {
    #[allow(clippy::cast_possible_truncation, reason = "of a field of so many bits")]
    fn of(word: u64, now_ms: u64) -> Option<LastRefusal> {
        let code = (word & ((1 << VERDICT_BITS) - 1)) as u8;
        let slot = (word >> VERDICT_BITS & ((1 << SLOT_BITS) - 1)) as u32;
        let verdict = Verdict::from_raw(code).filter(|verdict| *verdict != Verdict::Granted)?;
        // Only the low bits are known: of the two instants around now that have them, the nearer one.
        let since = (now_ms << MS_SHIFT).wrapping_sub(word & !0 << MS_SHIFT).cast_signed();
        let at_ms = now_ms.saturating_add_signed((since >> MS_SHIFT).saturating_neg());
        Some(LastRefusal { at_ms, slot, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_795_000_000_000;

    fn refusal(at_ms: u64, slot: u32, verdict: Verdict) -> LastRefusal {
        LastRefusal { at_ms, slot, verdict }
    }

    #[test]
    fn what_is_noted_is_read_newest_first() {
        let last = LastRefusals::default();
        assert_eq!((last.remembered(), last.read(NOW_MS).count()), (0, 0));
        let budgets = u32::try_from(ledger::BUDGETS_MAX).unwrap();
        let refused = Verdict::ALL.iter().filter(|v| (1..32).contains(&v.as_raw()));
        let mut all: Vec<LastRefusal> = (0_u32..)
            .zip(refused)
            .map(|(i, verdict)| refusal(NOW_MS + u64::from(i), budgets - 1 - i, *verdict))
            .collect();
        for one in &all {
            last.note(one.slot, one.verdict, one.at_ms);
        }
        all.reverse();
        // The reader's clock may be behind the worker's.
        for now_ms in [NOW_MS, NOW_MS + 86_400_000] {
            assert_eq!(last.read(now_ms).collect::<Vec<_>>(), all);
        }
        assert_eq!(last.remembered(), all.len() as u64);
    }

    #[test]
    fn the_newest_replace_the_oldest() {
        let last = LastRefusals::default();
        let more = 100;
        for i in 0..(LAST_MAX as u64 + more) {
            last.note(u32::try_from(i).unwrap(), Verdict::Paced, NOW_MS + i);
        }
        let read: Vec<u32> = last.read(NOW_MS).map(|one| one.slot).collect();
        let newest = u32::try_from(LAST_MAX as u64 + more - 1).unwrap();
        let oldest = u32::try_from(more).unwrap();
        assert_eq!(read, (oldest..=newest).rev().collect::<Vec<_>>());
        assert_eq!(last.remembered(), LAST_MAX as u64);
    }

    /// However the two interleave, a reader sees whole refusals only.
    #[test]
    fn a_reader_that_is_overtaken_sees_whole_refusals() {
        let last = LastRefusals::default();
        let verdicts = [Verdict::Paced, Verdict::PurseEmpty];
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for i in 0..20 * LAST_MAX as u64 {
                    let slot = u32::try_from(i).unwrap();
                    last.note(slot, verdicts[slot as usize % 2], NOW_MS + i);
                }
            });
            while !writer.is_finished() {
                for one in last.read(NOW_MS) {
                    assert_eq!(one.at_ms, NOW_MS + u64::from(one.slot));
                    assert_eq!(one.verdict, verdicts[one.slot as usize % 2]);
                }
            }
        });
    }
}
