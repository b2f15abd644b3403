//! A hash table from u64 ids to small values, laid out by cache line.
//!
//! What was tried and lost, each beside `hashbrown` with `foldhash` in the same run (`costs pairs table`
//! prints the figures of what won):
//! - One slot per step, key beside value: hits and misses end after 1, 2 or 3 steps, which no branch
//!   predictor can know. Small tables took 2.5 times as long for hits and 5 times for misses.
//! - Four keys a step without tags: 25 % slower than tags in small tables, the same in large ones.
//! - A load of 1/4: no faster for hits, and at 1 M entries the table no longer fits the L3 cache.
//! - Small pages: at 20 M entries 1.5 times as fast as `hashbrown` one by one instead of 2, and 9.5
//!   times in batches instead of 14; no difference at 10 k and little at 1 M.
//! - Tags only in an array of their own, as `hashbrown` has them: misses are as fast as there, but each
//!   hit waits for memory twice. A copy of the tags for misses alone took 1.2 times as long as
//!   `hashbrown`, so where misses are common the standard map is the better one.
//! - One folded multiplication for mixing (see `mix`): 3 cycles less, and it clusters counters.

use crate::hot;
use crate::mix::Secret;

/// Entries of one line. Four 8-byte keys and four 4-byte values fill one 64-byte cache line.
const LINE_ENTRIES: usize = 4;
/// Keys that [`Map::get_batch`] holds in flight at once; more than a core's outstanding misses.
const IN_FLIGHT: usize = 16;
/// Fewest lines, so that the shift of the mixed key stays below 64.
const LINES_MIN: usize = 2;

/// A table from u64 keys (every value is allowed, 0 too) to `Copy` values.
///
/// Open addressing with linear probing, a power-of-two size and a load of at most one half. What is
/// particular is the step: a probe takes one *line*, four entries in one 64-byte cache line (for
/// values of up to 4 bytes), and compares four one-byte tags at once. At a load of one half seven
/// lines of eight have a free entry, so nearly every hit and nearly every miss ends in the first
/// line, with branches that the processor guesses right.
///
/// One writer changes it; share it between threads as an immutable snapshot.
pub struct Map<V> {
    lines: Vec<Line<V>>,
    secret: Secret,
    /// The first line of a key is the top bits of its mix: `mix >> shift`.
    shift: u32,
    len: usize,
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Line<V> {
    keys: [u64; LINE_ENTRIES],
    values: [V; LINE_ENTRIES],
    tags: Tags,
}

const _: () = assert!(size_of::<Line<u32>>() == 64);

/// A key stood twice in the input of [`Map::build`]: remove one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {key} is given twice; a table is built from distinct keys, so drop one of the two")]
pub struct DuplicateKey {
    /// The key that came again.
    pub key: u64,
}

/// How far keys lie from where they belong, in lines: 1 means "in its first line".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeLengths {
    /// The mean over all keys, in thousandths of a line.
    pub mean_thousandths: u64,
    /// The longest of all keys, lines.
    pub max: usize,
}

impl<V: Copy + Default> Map<V> {
    /// An empty table with room for `capacity` keys before it grows.
    #[must_use]
    pub fn with_capacity(secret: Secret, capacity: usize) -> Map<V> {
        let entries = capacity.saturating_mul(2);
        let count = entries.div_ceil(LINE_ENTRIES).next_power_of_two().max(LINES_MIN);
        let mut lines = hot::vec_with_huge_pages(count);
        lines.resize(count, Line::default());
        Map { lines, secret, shift: 64 - count.trailing_zeros(), len: 0 }
    }

    /// Builds a table from all of `entries`. It allocates once if the iterator knows its length.
    ///
    /// # Errors
    /// [`DuplicateKey`] when a key comes twice: a snapshot with two meanings for one id is refused
    /// whole.
    pub fn build(
        secret: Secret,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<Map<V>, DuplicateKey> {
        let mut entries = entries.into_iter();
        let mut map = Map::with_capacity(secret, entries.size_hint().0);
        let mut ahead = Vec::with_capacity(IN_FLIGHT);
        loop {
            ahead.extend(entries.by_ref().take(IN_FLIGHT));
            if ahead.is_empty() {
                return Ok(map);
            }
            ahead.iter().for_each(|&(key, _)| map.prefetch(key));
            for (key, value) in ahead.drain(..) {
                if map.insert(key, value).is_some() {
                    return Err(DuplicateKey { key });
                }
            }
        }
    }

    /// The value of `key`. Waits for memory once, whether the key is there or not.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<V> {
        let home = self.home(key);
        self.find(home, key).map(|(at, entry)| self.lines[at].values[entry])
    }

    /// Looks up all of `keys` into `out`, same order: mixes and prefetches first, then probes, so
    /// that the waits for memory overlap. Any length will do; a frame's worth is best.
    ///
    /// # Panics
    /// When `out` is shorter than `keys`: a mistake of the caller, not of any peer.
    #[inline]
    pub fn get_batch(&self, keys: &[u64], out: &mut [Option<V>]) {
        assert!(out.len() >= keys.len(), "get_batch needs an out slot for every key");
        let mut mixes = [0; IN_FLIGHT];
        for (keys, out) in keys.chunks(IN_FLIGHT).zip(out.chunks_mut(IN_FLIGHT)) {
            for (mix, &key) in mixes.iter_mut().zip(keys) {
                *mix = self.secret.mix(key);
                hot::prefetch(&self.lines[self.home_of(*mix).line]);
            }
            for ((out, &mix), &key) in out.iter_mut().zip(&mixes).zip(keys) {
                let found = self.find(self.home_of(mix), key);
                *out = found.map(|(at, entry)| self.lines[at].values[entry]);
            }
        }
    }

    /// Asks for the memory of `key` ahead of a later [`Map::get`].
    #[inline]
    pub fn prefetch(&self, key: u64) {
        hot::prefetch(&self.lines[self.home(key).line]);
    }

    /// Puts `value` at `key` and returns what stood there. Grows (allocates, and moves every entry)
    /// when the load would exceed one half; see [`Map::with_capacity`].
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        if let Some((line, entry)) = self.whereabouts(key) {
            return Some(core::mem::replace(&mut self.lines[line].values[entry], value));
        }
        if (self.len + 1).saturating_mul(2) > self.entries() {
            self.grow();
        }
        self.place(key, value);
        self.len += 1;
        None
    }

    /// Removes `key` and returns its value. Entries behind it move up, so no tombstones are left and
    /// lookups stay as short as in a freshly built table.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let (line, entry) = self.whereabouts(key)?;
        let value = self.lines[line].values[entry];
        self.len -= 1;
        self.close_gap(line, entry);
        Some(value)
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that the entries take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line<V>>()
    }

    /// All entries, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> + '_ {
        self.lines
            .iter()
            .flat_map(|line| line.entries().map(|entry| (line.keys[entry], line.values[entry])))
    }

    /// Measures how far keys lie from home; walks the whole table, so for tests and reports only.
    #[must_use]
    pub fn probe_lengths(&self) -> ProbeLengths {
        let (mut total, mut max) = (0u64, 0);
        for (at, line) in self.lines.iter().enumerate() {
            for entry in line.entries() {
                let length = self.distance(self.home(line.keys[entry]).line, at) + 1;
                total += length as u64;
                max = max.max(length);
            }
        }
        let mean_thousandths = (total * 1000).checked_div(self.len as u64).unwrap_or(0);
        ProbeLengths { mean_thousandths, max }
    }

    /// Line and entry of `key`.
    #[inline(always)]
    fn find(&self, home: Home, key: u64) -> Option<(usize, usize)> {
        let mut at = home.line;
        loop {
            let tags = self.lines[at].tags;
            let mut candidates = tags.candidates(home.tag);
            while candidates != 0 {
                let entry = entry_of(candidates);
                if self.lines[at].keys[entry] == key {
                    return Some((at, entry));
                }
                candidates &= candidates - 1;
            }
            if !tags.all_used() {
                return None;
            }
            at = self.after(at);
        }
    }

    fn whereabouts(&self, key: u64) -> Option<(usize, usize)> {
        self.find(self.home(key), key)
    }

    /// Writes a key that is not in the table; there is always a free entry, as the load is <= 1/2.
    fn place(&mut self, key: u64, value: V) {
        let home = self.home(key);
        let mut at = home.line;
        while self.lines[at].tags.all_used() {
            at = self.after(at);
        }
        let entry = self.lines[at].tags.first_free();
        self.put(at, entry, home.tag, key, value);
    }

    fn put(&mut self, at: usize, entry: usize, tag: u8, key: u64, value: V) {
        let line = &mut self.lines[at];
        line.keys[entry] = key;
        line.values[entry] = value;
        line.tags.0[entry] = tag;
    }

    fn clear(&mut self, at: usize, entry: usize) {
        self.lines[at].tags.0[entry] = FREE;
    }

    /// Frees an entry. A key may lie behind a line only while that line is full, so when a full line
    /// gets a gap, a key from behind that passed over it must move into the gap, and so on.
    fn close_gap(&mut self, mut gap_line: usize, mut gap_entry: usize) {
        let mut was_full = self.lines[gap_line].tags.all_used();
        self.clear(gap_line, gap_entry);
        let mut at = gap_line;
        while was_full {
            at = self.after(at);
            was_full = self.lines[at].tags.all_used();
            if let Some(entry) = self.passed_over(gap_line, at) {
                let Line { keys, values, tags } = self.lines[at];
                self.put(gap_line, gap_entry, tags.0[entry], keys[entry], values[entry]);
                self.clear(at, entry);
                (gap_line, gap_entry) = (at, entry);
            }
        }
    }

    /// An entry of line `at` whose home is `gap` or before it, on the way to `at`.
    fn passed_over(&self, gap: usize, at: usize) -> Option<usize> {
        let line = &self.lines[at];
        line.entries().find(|&entry| {
            let home = self.home(line.keys[entry]).line;
            self.distance(home, at) >= self.distance(gap, at)
        })
    }

    fn grow(&mut self) {
        let mut larger = Map::with_capacity(self.secret, self.entries());
        for (key, value) in self.iter() {
            larger.place(key, value);
        }
        larger.len = self.len;
        *self = larger;
    }

    #[inline(always)]
    fn home(&self, key: u64) -> Home {
        self.home_of(self.secret.mix(key))
    }

    #[inline(always)]
    fn home_of(&self, mix: u64) -> Home {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the line is below the number of lines, a usize; of the tag, 7 bits are wanted"
        )]
        let (line, tag) = (mix.wrapping_shr(self.shift) as usize, (mix >> TAG_SHIFT) as u8 | USED);
        Home { line, tag }
    }

    #[inline(always)]
    fn after(&self, line: usize) -> usize {
        (line + 1) & (self.lines.len() - 1)
    }

    /// Lines from `from` forward to `to`, around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.lines.len() - 1)
    }

    fn entries(&self) -> usize {
        self.lines.len() * LINE_ENTRIES
    }
}

impl<V> core::fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Map").field("len", &self.len).field("lines", &self.lines.len()).finish()
    }
}

impl<V> Line<V> {
    /// The entries in use.
    fn entries(&self) -> impl Iterator<Item = usize> + '_ {
        (0..LINE_ENTRIES).filter(|&entry| self.tags.0[entry] != FREE)
    }
}

/// One byte per entry: [`FREE`], or [`USED`] with seven bits of the key's mix, so that of the entries
/// that are not the right one, 127 in 128 are told apart without looking at their keys.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
struct Tags([u8; LINE_ENTRIES]);

const FREE: u8 = 0;
const USED: u8 = 0x80;
/// Where in the mix the tag's bits lie: below the bits of the line, for up to 2^33 lines.
const TAG_SHIFT: u32 = 24;

/// Where the search for a key starts, and its tag.
#[derive(Clone, Copy, Default)]
struct Home {
    line: usize,
    tag: u8,
}

impl Tags {
    /// The high bit of each byte that equals `tag`. A byte above a right one may be marked wrongly
    /// (a borrow runs into it), so the caller compares keys; no right one is missed, no free one is
    /// marked.
    #[inline(always)]
    fn candidates(self, tag: u8) -> u32 {
        let differing = self.bits() ^ u32::from_le_bytes([tag; LINE_ENTRIES]);
        differing.wrapping_sub(0x0101_0101) & !differing & 0x8080_8080
    }

    #[inline(always)]
    fn all_used(self) -> bool {
        self.bits() & 0x8080_8080 == 0x8080_8080
    }

    /// The first free entry of a line that has one.
    fn first_free(self) -> usize {
        entry_of(!self.bits() & 0x8080_8080)
    }

    /// The first entry is the lowest byte, on every machine.
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from_le_bytes(self.0)
    }
}

/// The entry of the lowest byte that is marked.
#[inline(always)]
fn entry_of(marks: u32) -> usize {
    // The remainder changes nothing (there are four bytes) and tells the compiler so.
    (marks.trailing_zeros() / 8) as usize % LINE_ENTRIES
}
