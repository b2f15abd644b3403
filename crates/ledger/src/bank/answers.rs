//! The answers that are kept for keys of idempotency, in the order in which they were booked.
//!
//! ```text
//! chunks of 48 KiB:  [ key 16 | digest 16 | ms after the chunk's first 3 | bytes and verdict 2 | answer, up to a multiple of 3 ] ...
//! index:             key ──▶ place of its newest answer, 4 bytes
//! ```
//!
//! A key costs 37 bytes, its answer, and 8 bytes of the index. No step takes long, however many there are: an answer that is
//! over is forgotten when further ones come, a few at a time; the index is cut into parts that grow one after the other; and how many
//! are not over is counted as time passes.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashTable;
use wire::Verdict;

use super::ReplayError;
use crate::keyed::{ANSWER_BYTES_MAX, ANSWER_KEPT_MS_MIN, caller};
use crate::{Kept, KeyBytes, Part};

/// Answers stand at multiples of it.
const UNIT: usize = 3;
const CHUNK_BYTES: usize = 3 << 14;
/// Bits of a place that say where in its chunk an answer stands, in units. The others say in which chunk, so that there are places for
/// 12 GiB: 23 million of the longest answers.
const OFFSET_BITS: u32 = 14;
const _: () = assert!(CHUNK_BYTES == UNIT << OFFSET_BITS);
/// Bytes before the answer.
const HEAD_BYTES: usize = 37;
/// Bits of an answer's length; the others of the two bytes are its verdict.
const LEN_BITS: u32 = 10;
const _: () = assert!(ANSWER_BYTES_MAX < 1 << LEN_BITS);
/// Answers that are over and forgotten with each one that comes.
const FORGET_MAX: usize = 8;
/// Answers that a call of [`Answers::pass`] counts as over at most: a tenth of a millisecond.
const PASS_MAX: usize = 10_000;

/// An answer that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeptAnswer<'a> {
    pub(super) key: u128,
    pub(super) digest: u128,
    /// It may hold a token.
    pub(super) answer: &'a [u8],
    pub(super) verdict: Verdict,
    /// Never before that of an older one.
    pub(super) at_ms: u64,
}

impl KeptAnswer<'_> {
    /// Bytes that it takes in a chunk.
    fn size(&self) -> usize {
        (HEAD_BYTES + self.answer.len()).next_multiple_of(UNIT)
    }
}

/// Answers one behind the other.
#[derive(Clone, Debug)]
struct Chunk {
    /// Stamp of its first.
    since_ms: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn read(&self, offset: usize) -> Option<KeptAnswer<'_>> {
        let rest = self.bytes.get(offset..)?;
        let (key, rest) = rest.split_first_chunk::<16>()?;
        let (digest, rest) = rest.split_first_chunk::<16>()?;
        let ([a, b, c], rest) = rest.split_first_chunk::<3>()?;
        let (shape, rest) = rest.split_first_chunk::<2>()?;
        let shape = u16::from_le_bytes(*shape);
        Some(KeptAnswer {
            key: u128::from_le_bytes(*key),
            digest: u128::from_le_bytes(*digest),
            answer: rest.get(..usize::from(shape % (1 << LEN_BITS)))?,
            verdict: Verdict::from_raw(u8::try_from(shape >> LEN_BITS).ok()?)?,
            at_ms: self.since_ms + u64::from(u32::from_le_bytes([*a, *b, *c, 0])),
        })
    }

    /// False: it does not fit, or comes more than four hours after the chunk's first.
    fn write(&mut self, kept: &KeptAnswer<'_>) -> bool {
        let after_ms = u32::try_from(kept.at_ms.saturating_sub(self.since_ms));
        let len = u16::try_from(kept.answer.len());
        let (Ok(after_ms), Ok(len)) = (after_ms, len) else { return false };
        let [after_ms @ .., longest] = after_ms.to_le_bytes();
        if longest != 0 || self.bytes.len() + kept.size() > CHUNK_BYTES {
            return false;
        }
        let shape = len | u16::from(kept.verdict.as_raw()) << LEN_BITS;
        self.bytes.extend_from_slice(&kept.key.to_le_bytes());
        self.bytes.extend_from_slice(&kept.digest.to_le_bytes());
        self.bytes.extend_from_slice(&after_ms);
        self.bytes.extend_from_slice(&shape.to_le_bytes());
        self.bytes.extend_from_slice(kept.answer);
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT), 0);
        true
    }
}

/// Where an answer stands, or would stand, counted from the first one of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AnswerPlace {
    chunk: u64,
    offset: usize,
}

impl AnswerPlace {
    /// As the index has it: of the chunk's number its lower bits.
    fn packed(self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
        let (chunk, offset) = (self.chunk as u32, (self.offset / UNIT) as u32);
        chunk << OFFSET_BITS | offset
    }
}

/// How many of the answers are not over yet, as far as time was passed.
#[derive(Clone, Debug, Default)]
struct Live {
    /// Of the oldest of them.
    from: AnswerPlace,
    all: usize,
    /// By caller, none of them 0.
    callers: BTreeMap<u32, usize>,
}

/// Keys to places, cut into parts by bits of the key, so that none takes long to grow. Keys are hashes under a secret. The last part has
/// nearly twice as many as the first, and between them it rises evenly: so they grow one after the other, and the index never has twice
/// the room that it needs.
#[derive(Clone, Debug)]
struct Index(Box<[HashTable<u32>; 256]>);

impl Default for Index {
    fn default() -> Index {
        Index(Box::new(std::array::from_fn(|_| HashTable::new())))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "other bits of the key than those of the part")]
fn hash(key: u128) -> u64 {
    key as u64
}

fn part(key: u128) -> usize {
    let [low, high, ..] = (key >> 64).to_le_bytes();
    // The shares of the parts rise evenly where a part is a square root.
    (65_536 + 3 * usize::from(u16::from_le_bytes([low, high]))).isqrt() - 256
}

/// The answers, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// What keys are hashed under; `None` before the first run of this version.
    pub(super) secret: Option<KeyBytes>,
    chunks: VecDeque<Chunk>,
    /// Of the oldest answer.
    first: AnswerPlace,
    len: usize,
    /// How many were ever kept.
    made: u64,
    newest_ms: u64,
    index: Index,
    live: Live,
}

impl Answers {
    /// How many there are, with those that are over and not yet forgotten.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many were ever kept.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    fn read(&self, place: AnswerPlace) -> Option<KeptAnswer<'_>> {
        let chunk = usize::try_from(place.chunk.checked_sub(self.first.chunk)?).ok()?;
        self.chunks.get(chunk)?.read(place.offset)
    }

    fn read_packed(&self, packed: u32) -> Option<KeptAnswer<'_>> {
        read_packed(&self.chunks, self.first.chunk, packed)
    }

    /// The answer here, or at the beginning of the next chunk where this one ends, and the place behind it.
    fn step(&self, place: AnswerPlace) -> Option<(AnswerPlace, KeptAnswer<'_>, AnswerPlace)> {
        let begun = AnswerPlace { chunk: place.chunk + 1, offset: 0 };
        let at = |place: AnswerPlace| Some((place, self.read(place)?));
        let (place, kept) = at(place).or_else(|| at(begun))?;
        Some((place, kept, AnswerPlace { offset: place.offset + kept.size(), ..place }))
    }

    fn iter(&self) -> impl Iterator<Item = (AnswerPlace, KeptAnswer<'_>)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let (place, kept, next) = self.step(at)?;
            at = next;
            Some((place, kept))
        })
    }

    pub(super) fn get(&self, key: u128, at_ms: u64, kept_ms: u64) -> Option<KeptAnswer<'_>> {
        let is_it = |packed: &u32| self.read_packed(*packed).is_some_and(|kept| kept.key == key);
        let packed = self.index.0[part(key)].find(hash(key), is_it)?;
        self.read_packed(*packed).filter(|kept| at_ms < kept.at_ms.saturating_add(kept_ms))
    }

    /// Counts those as over that are, some at a time. It changes nothing but what [`Answers::taken`] and [`Answers::callers`] say.
    #[inline]
    pub(super) fn pass(&mut self, now_ms: u64, kept_ms: u64) {
        if self.live.all > 0 {
            self.pass_some(now_ms, kept_ms);
        }
    }

    fn pass_some(&mut self, now_ms: u64, kept_ms: u64) {
        for _ in 0..PASS_MAX {
            let next = self.step(self.live.from);
            let over = next.filter(|(_, kept, _)| kept.at_ms.saturating_add(kept_ms) <= now_ms);
            let Some((_, kept, next)) = over else { return };
            let of = caller(kept.key);
            self.live.from = next;
            self.live.all -= 1;
            less_one(&mut self.live.callers, of);
        }
    }

    /// How many are not over, and how many of these are the caller's.
    pub(super) fn taken(&self, of: u32) -> (usize, usize) {
        (self.live.all, self.live.callers.get(&of).copied().unwrap_or(0))
    }

    /// How many are not over, by caller.
    pub(super) fn callers(&self) -> impl Iterator<Item = (u32, usize)> {
        self.live.callers.iter().map(|(caller, count)| (*caller, *count))
    }

    /// Those that every setting keeps, as far as the newest one says: what a digest can be made of.
    pub(super) fn certain(&self) -> impl Iterator<Item = KeptAnswer<'_>> {
        let newest_ms = self.newest_ms;
        let certain = move |kept: &KeptAnswer<'_>| kept.at_ms + ANSWER_KEPT_MS_MIN > newest_ms;
        self.iter().map(|(_, kept)| kept).filter(certain)
    }

    /// Would [`Answers::keep`] take it?
    pub(super) fn check(&self, kept: &Kept, at_ms: u64) -> Result<(), ReplayError> {
        let refused = ReplayError::Answer { key: kept.key };
        let is_free = self.get(kept.key, at_ms, ANSWER_KEPT_MS_MIN).is_none();
        let fits = kept.answer.len() <= ANSWER_BYTES_MAX && is_free;
        if fits { Ok(()) } else { Err(refused) }
    }

    /// Keeps one more, and forgets a few that are over by then.
    pub(super) fn keep(&mut self, kept: &Kept, verdict: Verdict, at_ms: u64, kept_ms: u64) {
        // Stamps of different workers need not rise.
        let at_ms = at_ms.max(self.newest_ms);
        for _ in 0..FORGET_MAX {
            self.forget(at_ms, kept_ms);
        }
        let Kept { key, digest, answer } = kept;
        let new = KeptAnswer { key: *key, digest: *digest, answer, verdict, at_ms };
        let place = self.write(&new);
        self.enter(*key, place);
        (self.len, self.made, self.newest_ms) = (self.len + 1, self.made + 1, at_ms);
        self.live.all += 1;
        *self.live.callers.entry(caller(*key)).or_default() += 1;
    }

    fn write(&mut self, new: &KeptAnswer<'_>) -> AnswerPlace {
        let last = self.chunks.back_mut();
        let offset = last.and_then(|chunk| {
            let offset = chunk.bytes.len();
            chunk.write(new).then_some(offset)
        });
        let offset = offset.unwrap_or_else(|| {
            let bytes = Vec::with_capacity(CHUNK_BYTES);
            let mut chunk = Chunk { since_ms: new.at_ms, bytes };
            chunk.write(new);
            self.chunks.push_back(chunk);
            0
        });
        AnswerPlace { chunk: self.first.chunk + self.chunks.len() as u64 - 1, offset }
    }

    /// Lets the index lead to the newest answer of a key: an older one may be there, where an earlier run kept answers for less long.
    fn enter(&mut self, key: u128, place: AnswerPlace) {
        let Answers { index, chunks, first, .. } = self;
        let key_of = |packed: u32| read_packed(chunks, first.chunk, packed).map(|kept| kept.key);
        let of_it = |packed: &u32| key_of(*packed) == Some(key);
        match index.0[part(key)].find_mut(hash(key), of_it) {
            Some(older) => *older = place.packed(),
            None => {
                let rehash = |packed: &u32| key_of(*packed).map_or(0, hash);
                index.0[part(key)].insert_unique(hash(key), place.packed(), rehash);
            }
        }
    }

    /// Forgets the oldest one, if it is over.
    fn forget(&mut self, at_ms: u64, kept_ms: u64) {
        let next = self.step(self.first);
        let over = next.filter(|(_, old, _)| old.at_ms.saturating_add(kept_ms) <= at_ms);
        let Some((place, old, next)) = over else { return };
        let key = old.key;
        // Not counted as over yet: it is now.
        if self.live.all == self.len {
            self.live.from = next;
            self.live.all -= 1;
            less_one(&mut self.live.callers, caller(key));
        }
        let is_it = |packed: &u32| *packed == place.packed();
        if let Ok(entry) = self.index.0[part(key)].find_entry(hash(key), is_it) {
            entry.remove();
        }
        self.len -= 1;
        // It may have stood in the chunk behind one whose answers are all forgotten.
        while self.first.chunk < next.chunk {
            self.first_chunk_goes();
        }
        self.first = next;
        // What the oldest chunk has left is nothing: it goes.
        while self.chunks.len() > 1 && self.read(self.first).is_none() {
            self.first_chunk_goes();
        }
    }

    fn first_chunk_goes(&mut self) {
        self.chunks.pop_front();
        self.first = AnswerPlace { chunk: self.first.chunk + 1, offset: 0 };
    }

    /// Are the index and the counts what the answers say?
    pub(super) fn audit(&self) -> Result<(), String> {
        let (mut newest, mut callers, mut count) = (BTreeMap::new(), BTreeMap::new(), 0);
        let (mut before_ms, mut is_live) = (0, false);
        for (place, kept) in self.iter() {
            if kept.at_ms < before_ms {
                return Err(format!("the answer to key {:032x} is out of order", kept.key));
            }
            (before_ms, count) = (kept.at_ms, count + 1);
            newest.insert(kept.key, place.packed());
            is_live |= self.step(self.live.from).is_some_and(|(from, ..)| from == place);
            if is_live {
                *callers.entry(caller(kept.key)).or_default() += 1;
            }
        }
        let entered: usize = self.index.0.iter().map(HashTable::len).sum();
        let found = |(key, packed): (&u128, &u32)| {
            self.index.0[part(*key)].find(hash(*key), |at| at == packed).is_some()
        };
        let live: usize = callers.values().sum();
        let whole = count == self.len
            && entered == newest.len()
            && newest.iter().all(found)
            && callers == self.live.callers
            && live == self.live.all;
        if whole { Ok(()) } else { Err("the index of answers is not that of its row".into()) }
    }

    pub(super) fn parts(&self, each: &mut dyn FnMut(Part)) {
        self.secret.into_iter().for_each(|secret| each(Part::AnswerSecret(secret)));
        for (_, KeptAnswer { key, digest, answer, verdict, at_ms }) in self.iter() {
            let kept = Kept { key, digest, answer: answer.into() };
            each(Part::Answer { kept, verdict, at_ms });
        }
    }
}

fn read_packed(chunks: &VecDeque<Chunk>, first: u64, packed: u32) -> Option<KeptAnswer<'_>> {
    #[allow(clippy::cast_possible_truncation, reason = "the lower bits are compared")]
    let chunk = (packed >> OFFSET_BITS).wrapping_sub(first as u32) << OFFSET_BITS >> OFFSET_BITS;
    let offset = (packed & ((1 << OFFSET_BITS) - 1)) as usize * UNIT;
    chunks.get(chunk as usize)?.read(offset)
}

/// Takes one from a count that goes with its last.
pub(super) fn less_one(counts: &mut BTreeMap<u32, usize>, of: u32) {
    let Some(count) = counts.get_mut(&of) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(&of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT_MS: u64 = ANSWER_KEPT_MS_MIN;

    fn kept(key: u128, bytes: usize) -> Kept {
        Kept { key, digest: !key, answer: vec![key.to_le_bytes()[0]; bytes].into() }
    }

    #[test]
    fn answers_are_found_until_they_are_over_and_forgotten_a_few_at_a_time() {
        let mut answers = Answers::default();
        // Several chunks, and answers of every length.
        let sizes = 0..=ANSWER_BYTES_MAX;
        for (number, bytes) in (0_u64..).zip(sizes.clone().chain(sizes.clone())) {
            let wide = u128::from(number);
            let key = wide << 90 | wide << 60 | wide;
            answers.check(&kept(key, bytes), 1_000).unwrap();
            answers.keep(&kept(key, bytes), Verdict::Settled, 1_000 + number, KEPT_MS);
            let found = answers.get(key, 2_000, KEPT_MS).unwrap();
            assert_eq!(
                (found.digest, found.answer.len(), found.at_ms),
                (!key, bytes, 1_000 + number)
            );
            answers.check(&kept(key, bytes), 1_000).unwrap_err();
        }
        answers.audit().unwrap();
        let all = answers.len();
        assert!(answers.chunks.len() > 3 && all == 2 * (ANSWER_BYTES_MAX + 1));
        assert!(answers.get(0, KEPT_MS + 1_000, KEPT_MS).is_none());
        let late_ms = 3 * KEPT_MS;
        answers.pass(late_ms, KEPT_MS);
        assert_eq!((answers.len(), answers.taken(0).0), (all, 0), "over, and still there");
        answers.audit().unwrap();
        let mut left = all;
        for number in 0..400_u128 {
            answers.keep(&kept(1 << 70 | number, 20), Verdict::Settled, late_ms, KEPT_MS);
            left = left.saturating_sub(FORGET_MAX);
            let fresh = usize::try_from(number).unwrap() + 1;
            assert_eq!((answers.len(), answers.taken(0).0), (left + fresh, fresh));
        }
        answers.audit().unwrap();
        assert!(answers.chunks.len() <= 2 && answers.first.chunk > 3);
        assert_eq!(answers.get(1 << 70, late_ms, KEPT_MS).unwrap().answer.len(), 20);
    }

    #[test]
    fn a_key_that_comes_again_has_its_newest_answer_also_when_the_older_is_forgotten() {
        let mut answers = Answers::default();
        let (early_ms, late_ms) = (5, 5 + 2 * KEPT_MS);
        answers.keep(&kept(7, 1), Verdict::Settled, early_ms, u64::MAX);
        answers.keep(&kept(7, 2), Verdict::Released, late_ms, u64::MAX);
        answers.audit().unwrap();
        assert_eq!(answers.get(7, late_ms, KEPT_MS).unwrap().answer.len(), 2);
        answers.keep(&kept(8, 3), Verdict::Settled, late_ms, KEPT_MS);
        answers.audit().unwrap();
        assert_eq!(
            (answers.len(), answers.get(7, late_ms, KEPT_MS).unwrap().verdict),
            (2, Verdict::Released)
        );
    }

    /// What the documents say of memory.
    #[test]
    fn a_key_costs_at_most_a_hundred_bytes_with_the_answer_to_a_reservation() {
        let mut answers = Answers::default();
        let mut most = 0;
        for number in 0..1_u64 << 18 {
            let key = u128::from(table::spread(number)) << 64 | u128::from(table::spread(!number));
            answers.keep(&kept(key, 53), Verdict::Granted, number, u64::MAX);
            // Also just after parts of the index have grown.
            if number >= 1 << 17 && number % 1_000 == 0 {
                let chunks = answers.chunks.len() * (CHUNK_BYTES + size_of::<Chunk>());
                let index: usize = answers.index.0.iter().map(HashTable::allocation_size).sum();
                most = most.max((chunks + index) as u64 / (number + 1));
            }
        }
        assert!((95..=100).contains(&most), "{most} bytes per key");
    }

    /// The one answer is over when the next comes, which has no place in the same chunk.
    #[test]
    fn a_chunk_whose_answers_are_all_over_goes_before_the_next_is_forgotten() {
        let mut answers = Answers::default();
        for number in 0..100_u64 {
            let new = kept(number.into(), 9);
            answers.keep(&new, Verdict::Settled, number * (1 << 32), KEPT_MS);
            answers.audit().unwrap();
            assert_eq!((answers.len(), answers.chunks.len()), (1, 1 + usize::from(number > 0)));
        }
        // By size, not by time: as many as a chunk has place for, all over at once.
        let mut answers = Answers::default();
        for number in 0..20_000_u64 {
            let hour = number / (FORGET_MAX as u64 * 60);
            answers.keep(&kept(number.into(), 300), Verdict::Settled, hour * 4 * KEPT_MS, KEPT_MS);
        }
        answers.audit().unwrap();
    }

    #[test]
    fn each_verdict_is_kept_beside_the_longest_answer() {
        let mut answers = Answers::default();
        let verdicts: Vec<Verdict> = (0..=u8::MAX).filter_map(Verdict::from_raw).collect();
        for (number, verdict) in (0..).zip(&verdicts) {
            answers.keep(&kept(number, ANSWER_BYTES_MAX), *verdict, 5, KEPT_MS);
        }
        let found: Vec<Verdict> = answers.iter().map(|(_, kept)| kept.verdict).collect();
        assert_eq!(found, verdicts);
    }

    #[test]
    fn answers_hours_apart_keep_their_times() {
        let mut answers = Answers::default();
        let times = [5, 6, 1 << 24, (1 << 24) + 5, 1 << 25, 1 << 40];
        for (number, at_ms) in (0..).zip(times) {
            answers.keep(&kept(number, 9), Verdict::Settled, at_ms, u64::MAX);
        }
        let found: Vec<u64> = answers.iter().map(|(_, kept)| kept.at_ms).collect();
        assert_eq!(found, times);
        answers.audit().unwrap();
    }
}
