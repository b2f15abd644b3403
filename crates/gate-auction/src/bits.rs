//! Bitmaps of campaigns, and the inverted index of one dimension.

/// 512 campaigns, one cache line.
pub(crate) type Block = [u64; 8];
pub(crate) const BLOCK_BITS: u32 = 512;
/// A list is kept as a bitmap when it is longer than this many campaigns a block: joining a block costs about as
/// much as setting two single bits, and the memory stays below 32 bytes an entry.
const DENSE_PER_BLOCK: usize = 2;

/// Blocks for so many campaigns.
pub(crate) fn blocks_for(campaigns: usize) -> usize {
    campaigns.div_ceil(BLOCK_BITS as usize)
}

/// Block, word and mask of a campaign.
#[inline]
fn locate(slot: u32) -> (usize, usize, u64) {
    let (block, rest) = (slot / BLOCK_BITS, slot % BLOCK_BITS);
    (block as usize, (rest / 64) as usize, 1 << (rest % 64))
}

pub(crate) fn set(bits: &mut [Block], slot: u32) {
    let (block, word, mask) = locate(slot);
    bits[block][word] |= mask;
}

fn clear(bits: &mut [Block], slot: u32) {
    let (block, word, mask) = locate(slot);
    bits[block][word] &= !mask;
}

/// Is the campaign among them? Walks the blocks: for explanations.
pub(crate) fn has(live: &Live, slot: u32) -> bool {
    let (block, word, mask) = locate(slot);
    live.iter().any(|(at, bits)| *at == block && bits[word] & mask != 0)
}

/// The blocks that still hold somebody, and where they lie. Campaigns lie sorted by country and format, so these are
/// soon few, and only these are read of any bitmap: bitmaps together are larger than the near caches.
pub(crate) type Live = Vec<(usize, Block)>;

/// Everybody, and the bits behind the last campaign: these no placement admits.
pub(crate) fn all_live(blocks: usize, live: &mut Live) {
    live.clear();
    live.extend((0..blocks).map(|at| (at, [u64::MAX; 8])));
}

#[inline]
fn keep_common(live: &mut Live, map: &[Block]) {
    live.retain_mut(|(at, block)| {
        let mut left = 0;
        for (word, other) in block.iter_mut().zip(&map[*at]) {
            *word &= other;
            left |= *word;
        }
        left != 0
    });
}

/// A set of keys that is emptied at the cost of what is in it. Keys beyond its size are those that no campaign
/// mentions; they are left out.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    words: Vec<u64>,
    keys: Vec<u32>,
}

impl KeySet {
    /// Empties it and makes room for keys below `size`.
    pub(crate) fn resize(&mut self, size: usize) {
        self.words.clear();
        self.words.resize(size.div_ceil(64), 0);
        self.keys.clear();
    }

    /// Holds these and no others.
    #[inline]
    pub(crate) fn fill(&mut self, keys: &[u32]) {
        for key in self.keys.drain(..) {
            self.words[(key / 64) as usize] = 0;
        }
        for &key in keys {
            if let Some(word) = self.words.get_mut((key / 64) as usize) {
                *word |= 1 << (key % 64);
                self.keys.push(key);
            }
        }
    }

    #[inline]
    pub(crate) fn has(&self, key: u32) -> bool {
        self.words.get((key / 64) as usize).is_some_and(|word| word >> (key % 64) & 1 == 1)
    }
}

/// The campaigns of one key.
enum Posting {
    Sparse(Box<[u32]>),
    Dense(Box<[Block]>),
}

impl Posting {
    fn new(slots: Vec<u32>, base: &[Block]) -> Posting {
        if slots.len() <= base.len() * DENSE_PER_BLOCK {
            return Posting::Sparse(slots.into());
        }
        let mut bits = base.to_vec();
        slots.into_iter().for_each(|slot| set(&mut bits, slot));
        Posting::Dense(bits.into())
    }

    /// Adds its campaigns to the live blocks; others may change as they like.
    #[inline]
    fn add_to(&self, live: &Live, bits: &mut [Block]) {
        match self {
            Posting::Sparse(slots) => slots.iter().for_each(|slot| set(bits, *slot)),
            Posting::Dense(own) => each_word(live, bits, own, |word, own| *word |= own),
        }
    }

    /// As [`Posting::add_to`], the other way.
    #[inline]
    fn remove_from(&self, live: &Live, bits: &mut [Block]) {
        match self {
            Posting::Sparse(slots) => slots.iter().for_each(|slot| clear(bits, *slot)),
            Posting::Dense(own) => each_word(live, bits, own, |word, own| *word &= !own),
        }
    }
}

#[inline]
fn each_word(live: &Live, bits: &mut [Block], own: &[Block], change: impl Fn(&mut u64, u64)) {
    for (at, _) in live {
        for (word, own) in bits[*at].iter_mut().zip(&own[*at]) {
            change(word, *own);
        }
    }
}

/// Key to campaigns. Keys are small and dense, so the table is an array.
#[derive(Default)]
struct Postings {
    /// Key to position in `postings`, plus one; 0 where there is none.
    by_key: Vec<u32>,
    postings: Vec<Posting>,
}

impl Postings {
    #[inline]
    fn get(&self, key: u32) -> Option<&Posting> {
        let place = *self.by_key.get(key as usize)?;
        self.postings.get((place as usize).wrapping_sub(1))
    }

    fn new(lists: Vec<Vec<u32>>, base: &[Block]) -> Postings {
        let mut made = Postings { by_key: vec![0; lists.len()], postings: Vec::new() };
        for (place, slots) in made.by_key.iter_mut().zip(lists) {
            if !slots.is_empty() {
                made.postings.push(Posting::new(slots, base));
                // Not more postings than keys, and keys have 22 bits.
                *place = u32::try_from(made.postings.len()).unwrap_or(0);
            }
        }
        made
    }
}

/// Collects one dimension.
pub(crate) struct DimensionBuilder {
    open: Vec<Block>,
    any: Vec<Vec<u32>>,
    none: Vec<Vec<u32>>,
    restricted: bool,
}

impl DimensionBuilder {
    pub(crate) fn new(campaigns: usize) -> DimensionBuilder {
        let open = vec![[0; 8]; blocks_for(campaigns)];
        DimensionBuilder { open, any: Vec::new(), none: Vec::new(), restricted: false }
    }

    /// Adds a campaign: it is admitted where it is open or one of `any` is there, and none of `none`.
    pub(crate) fn add(&mut self, slot: u32, open: bool, any: &[u32], none: &[u32]) {
        if open {
            set(&mut self.open, slot);
        }
        self.restricted |= !open || !none.is_empty();
        any.iter().for_each(|key| enter(&mut self.any, *key, slot));
        none.iter().for_each(|key| enter(&mut self.none, *key, slot));
    }

    pub(crate) fn build(self) -> Admission {
        let nobody = vec![[0; 8]; self.open.len()];
        Admission {
            any: Postings::new(self.any, &self.open),
            none: Postings::new(self.none, &nobody),
            open: self.open,
            restricted: self.restricted,
        }
    }
}

fn enter(lists: &mut Vec<Vec<u32>>, key: u32, slot: u32) {
    let at = key as usize;
    if lists.len() <= at {
        lists.resize_with(at + 1, Vec::new);
    }
    lists[at].push(slot);
}

/// Whom one dimension admits.
pub(crate) struct Admission {
    /// Admitted without any key. Part of every bitmap in `any` too, so that one of those alone is an answer.
    open: Vec<Block>,
    any: Postings,
    none: Postings,
    restricted: bool,
}

impl Admission {
    /// Leaves in `live` who is admitted with these keys. `room` is work space for where no finished bitmap exists.
    #[inline]
    pub(crate) fn narrow(&self, keys: &[u32], live: &mut Live, room: &mut Vec<Block>) {
        if !self.restricted {
            return;
        }
        let excluding = keys.iter().any(|key| self.none.get(*key).is_some());
        let mut listed = keys.iter().filter_map(|key| self.any.get(*key));
        match (listed.next(), listed.next()) {
            (None, _) if !excluding => return keep_common(live, &self.open),
            (Some(Posting::Dense(admitted)), None) if !excluding => {
                return keep_common(live, admitted);
            }
            _ => {}
        }
        if room.len() < self.open.len() {
            room.resize(self.open.len(), [0; 8]);
        }
        live.iter().for_each(|(at, _)| room[*at] = self.open[*at]);
        let listed = keys.iter().filter_map(|key| self.any.get(*key));
        listed.for_each(|posting| posting.add_to(live, room));
        let excluded = keys.iter().filter_map(|key| self.none.get(*key));
        excluded.for_each(|posting| posting.remove_from(live, room));
        keep_common(live, room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Lists;
    use proptest::prelude::*;

    #[test]
    fn key_sets_forget() {
        let mut keys = KeySet::default();
        keys.resize(100);
        keys.fill(&[1, 64, 99, 4_000, u32::MAX]);
        let found: Vec<u32> = (0..5_000).filter(|key| keys.has(*key)).collect();
        assert_eq!((found, keys.has(u32::MAX)), (vec![1, 64, 99], false));
        keys.fill(&[2]);
        assert!(keys.has(2) && !keys.has(1) && !keys.has(64));
    }

    fn lists() -> impl Strategy<Value = Lists> {
        let keys = || prop::collection::vec(0_u32..6, 0..3);
        (keys(), keys()).prop_map(|(any, none)| Lists { any, none })
    }

    proptest! {
        /// Both kinds of lists: few campaigns make sparse ones, many make bitmaps.
        #[test]
        fn admits_whom_the_rule_admits(lists in prop::collection::vec(lists(), 0..700),
                                       keys in prop::collection::vec(0_u32..8, 0..4)) {
            let mut builder = DimensionBuilder::new(lists.len());
            for (slot, lists) in (0..).zip(&lists) {
                builder.add(slot, lists.any.is_empty(), &lists.any, &lists.none);
            }
            let admission = builder.build();
            // Work space is never clean.
            let (mut room, mut live) = (vec![[0x5555_5555_5555_5555; 8]; 9], Live::new());
            all_live(blocks_for(lists.len()), &mut live);
            admission.narrow(&keys, &mut live, &mut room);
            for (slot, lists) in (0..).zip(&lists) {
                prop_assert_eq!(has(&live, slot), lists.admit(&keys), "campaign {}", slot);
            }
        }
    }
}
