//! Who wants a key, as bits of blocks: all campaigns of a block are decided together.

use std::ops::Range;

use crate::campaign::{Campaign, Targeting};
use crate::key::UNKNOWN;
use crate::request::{Dimension, Request};

/// Campaigns of a block: as many as a cache line has bits.
const SLOTS: u32 = 512;
const BLOCK_SLOTS: usize = SLOTS as usize;
/// One bit per campaign.
type Block = [u64; BLOCK_SLOTS / 64];
/// Nobody.
const NOBODY: Block = [0; BLOCK_SLOTS / 64];
/// A key that more campaigns want than this many a block has a row; others have a list, which takes less memory and is
/// as fast where it is that short.
const LISTED_PER_BLOCK_MAX: usize = 2;
/// The order of sets. A block is narrowed from the last to the first, so those that usually leave the fewest are at the
/// end.
const ORDER: [Dimension; Dimension::ALL.len()] = [
    Dimension::Segments,
    Dimension::Categories,
    Dimension::Languages,
    Dimension::Quarters,
    Dimension::Oses,
    Dimension::Domains,
    Dimension::Supply,
    Dimension::Devices,
    Dimension::Geo,
];
/// Behind the dimensions: what a campaign has creatives for.
const PLACEMENTS: usize = Dimension::ALL.len();
/// Behind these, for requests that allow only some: seats, and categories and languages of creatives.
const SEATS: usize = PLACEMENTS + 1;
const CATEGORIES: usize = PLACEMENTS + 2;
const LANGUAGES: usize = PLACEMENTS + 3;
const SETS: usize = PLACEMENTS + 4;

/// A line of a row.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(Block);

const _: () = assert!(size_of::<Line>() == 64);

/// For each key who admits it.
#[derive(Debug)]
pub(crate) struct Rows {
    sets: [Set; SETS],
    /// The number of rows.
    rows: usize,
    /// Block by block, and in a block row by row: an auction seldom needs more than the first blocks, and these lie close
    /// together.
    lines: Vec<Line>,
    /// Of all lists, ascending in each.
    slots: Vec<u32>,
}

/// A dimension's keys.
#[derive(Debug, Default)]
struct Set {
    by_key: Vec<Wanted>,
    /// The row of those who take all. Everybody in it is in the dimension's other rows as well.
    open: u32,
    /// Somebody does not take all.
    restricts: bool,
}

/// Who wants a key.
#[derive(Clone, Copy, Debug, Default)]
enum Wanted {
    #[default]
    Nobody,
    Row(u32),
    List(List),
}

/// A part of the slots.
#[derive(Clone, Copy, Debug)]
struct List {
    /// The slot at `at`, so that a list with nobody in a block is not read for it. At the end beyond all slots.
    next: u32,
    at: u32,
    end: u32,
}

/// What a request demands in one set: a campaign has to be in one of these rows (one at least) and lists.
#[derive(Clone, Debug)]
struct Group {
    rows: Range<usize>,
    lists: Range<usize>,
}

/// A walk over those who want an impression, ascending by slot: falling by bound.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Rows that everybody has to be in.
    only: Vec<u32>,
    groups: Vec<Group>,
    /// Of all groups, one after the other.
    rows: Vec<u32>,
    lists: Vec<List>,
    /// The lists as far as they are not read.
    cursors: Vec<List>,
    /// How much of `only`, `groups`, `rows` and `lists` holds for all impressions.
    request: [usize; 4],
    /// The block that is being read: who of it is left.
    left: Block,
    /// Its word that is being read.
    word: usize,
    /// The first slot behind the block.
    reached: usize,
    /// Where the walk ends.
    end: usize,
    /// The number of blocks that were read for the request.
    pub(crate) blocks_read: usize,
}

impl Scan {
    /// Reads what holds for all impressions of a request.
    pub(crate) fn request(&mut self, rows: &Rows, request: &Request<'_>) {
        self.stop();
        self.blocks_read = 0;
        self.shorten([0; 4]);
        for (set, dimension) in rows.sets.iter().zip(ORDER) {
            if set.restricts {
                self.group(set, request.keys(dimension));
            }
        }
        self.request = [self.only.len(), self.groups.len(), self.rows.len(), self.lists.len()];
    }

    fn shorten(&mut self, [only, groups, rows, lists]: [usize; 4]) {
        self.only.truncate(only);
        self.groups.truncate(groups);
        self.rows.truncate(rows);
        self.lists.truncate(lists);
    }

    fn group(&mut self, set: &Set, keys: &[u32]) {
        let (rows, lists) = (self.rows.len(), self.lists.len());
        for key in keys {
            match set.by_key.get(*key as usize).copied().unwrap_or_default() {
                Wanted::Nobody => {}
                Wanted::Row(row) => self.rows.push(row),
                Wanted::List(list) => self.lists.push(list),
            }
        }
        if self.rows.len() == rows {
            self.rows.push(set.open);
        }
        if (self.rows.len(), self.lists.len()) == (rows + 1, lists) {
            self.only.extend(self.rows.pop());
            return;
        }
        self.groups.push(Group { rows: rows..self.rows.len(), lists: lists..self.lists.len() });
    }

    /// Begins to walk over those who want the request and have a creative for one of the placements, if some are given.
    /// `allowed`: leaves out most that the request's allowlists exclude.
    pub(crate) fn begin(
        &mut self,
        rows: &Rows,
        request: &Request<'_>,
        placements: Option<&[u32]>,
        allowed: bool,
    ) {
        self.shorten(self.request);
        if let Some(placements) = placements {
            self.group(&rows.sets[PLACEMENTS], placements);
        }
        let allowlists = [
            (SEATS, request.seats_allowed),
            (CATEGORIES, request.categories_allowed),
            (LANGUAGES, request.languages_allowed),
        ];
        for (set, keys) in allowlists {
            if allowed && !keys.is_empty() {
                self.group(&rows.sets[set], keys);
            }
        }
        self.cursors.clear();
        self.cursors.extend_from_slice(&self.lists);
        (self.left, self.word) = (NOBODY, NOBODY.len());
        (self.reached, self.end) = (0, rows.blocks() * BLOCK_SLOTS);
    }

    /// Finds nobody beside these slots, of whole blocks.
    pub(crate) fn only_within(&mut self, slots: &Range<u32>) {
        self.reached = self.end.min(slots.start as usize);
        self.end = self.end.min(slots.end as usize);
    }

    /// Finds nobody from now on.
    #[inline]
    pub(crate) fn stop(&mut self) {
        (self.word, self.reached, self.end) = (NOBODY.len(), 0, 0);
    }

    /// A slot before which nobody is left; `None` where nobody is left at all.
    #[inline]
    pub(crate) fn reach(&mut self) -> Option<u32> {
        while self.word < self.left.len() {
            let left = self.left[self.word];
            if left != 0 {
                let start = self.reached - BLOCK_SLOTS + self.word * 64;
                return Some(small(start) + left.trailing_zeros());
            }
            self.word += 1;
        }
        (self.reached < self.end).then(|| small(self.reached))
    }

    /// All that are left.
    pub(crate) fn take_all(&mut self, rows: &Rows, slots: &mut Vec<u32>) {
        loop {
            let start = self.reached.wrapping_sub(BLOCK_SLOTS);
            for at in self.word..self.left.len() {
                let (mut left, first) = (self.left[at], small(start.wrapping_add(at * 64)));
                while left != 0 {
                    slots.push(first + left.trailing_zeros());
                    left &= left - 1;
                }
            }
            self.word = self.left.len();
            if self.reached >= self.end {
                return;
            }
            self.next_block(rows);
        }
    }

    /// The slot that [`Scan::reach`] said, if its campaign wants the impression.
    #[inline]
    pub(crate) fn take(&mut self, rows: &Rows) -> Option<u32> {
        if self.word == self.left.len() {
            self.next_block(rows);
            return None;
        }
        let slot = self.reach();
        self.left[self.word] &= self.left[self.word] - 1;
        slot
    }

    fn next_block(&mut self, rows: &Rows) {
        let block = self.reached / BLOCK_SLOTS;
        // The first block is often enough; whoever needs the second likely needs more.
        let next = if block == 0 { &[] } else { rows.block(block + 1) };
        let lines = rows.block(block);
        let line = |row: u32| {
            next.get(row as usize).into_iter().for_each(table::prefetch);
            &lines[row as usize].0
        };
        let start = small(self.reached);
        self.reached += BLOCK_SLOTS;
        self.blocks_read += 1;
        let mut left = [u64::MAX; NOBODY.len()];
        for row in &self.only {
            left.iter_mut().zip(line(*row)).for_each(|(word, other)| *word &= other);
        }
        for group in self.groups.iter().rev() {
            if left.iter().fold(0, |all, word| all | word) == 0 {
                break;
            }
            let mut admitted = NOBODY;
            for row in &self.rows[group.rows.clone()] {
                admitted.iter_mut().zip(line(*row)).for_each(|(word, other)| *word |= other);
            }
            for cursor in &mut self.cursors[group.lists.clone()] {
                cursor.add(&rows.slots, start..start + SLOTS, &mut admitted);
            }
            left.iter_mut().zip(&admitted).for_each(|(word, other)| *word &= other);
        }
        (self.left, self.word) = (left, 0);
    }
}

impl List {
    /// Adds those of a block, and forgets those before it.
    #[inline]
    fn add(&mut self, slots: &[u32], block: Range<u32>, admitted: &mut Block) {
        while self.next < block.end {
            if self.next >= block.start {
                let within = (self.next - block.start) as usize;
                admitted[within / 64] |= 1 << (within % 64);
            }
            self.at += 1;
            let left = slots.get(self.at as usize..self.end as usize);
            self.next = left.and_then(|left| left.first()).copied().unwrap_or(u32::MAX);
        }
    }
}

impl Rows {
    /// The lines of a block; none where there is no such block.
    #[inline]
    fn block(&self, at: usize) -> &[Line] {
        self.lines.get(at * self.rows..(at + 1) * self.rows).unwrap_or_default()
    }

    fn blocks(&self) -> usize {
        self.lines.len().checked_div(self.rows).unwrap_or(0)
    }

    fn set(&mut self, row: u32, slot: u32) {
        let (block, within) = (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS);
        let line = &mut self.lines[block * self.rows + row as usize];
        line.0[within / 64] |= 1 << (within % 64);
    }
}

/// Collects [`Rows`].
#[derive(Default)]
pub(crate) struct RowsBuilder {
    sets: [SetBuilder; SETS],
    /// One more than the largest slot.
    slots: usize,
}

#[derive(Default)]
struct SetBuilder {
    /// Key, and who wants it.
    wanted: Vec<(u32, u32)>,
    /// Who takes all.
    open: Vec<u32>,
}

impl RowsBuilder {
    /// Enters a campaign with the placements that it has creatives for.
    pub(crate) fn add(&mut self, slot: u32, campaign: &Campaign, placements: &[u32]) {
        let targeting = &campaign.targeting;
        self.slots = self.slots.max(slot as usize + 1);
        for (set, dimension) in self.sets.iter_mut().zip(ORDER) {
            let any = &targeting.lists(dimension).any;
            match rarest(targeting) {
                Some(key) if any.is_empty() && dimension == Dimension::Segments => {
                    set.wanted.push((key, slot));
                }
                _ if any.is_empty() => set.open.push(slot),
                _ => set.wanted.extend(any.iter().map(|key| (*key, slot))),
            }
        }
        let mut enter = |set: usize, keys: &mut dyn Iterator<Item = u32>| {
            self.sets[set].wanted.extend(keys.map(|key| (key, slot)));
        };
        let creatives = &campaign.creatives;
        enter(PLACEMENTS, &mut placements.iter().copied());
        enter(SEATS, &mut Some(campaign.seat).filter(|seat| *seat != UNKNOWN).into_iter());
        enter(CATEGORIES, &mut creatives.iter().flat_map(|creative| &creative.categories).copied());
        if creatives.iter().any(|creative| creative.language.is_none()) {
            // One that says none may be shown in all languages.
            self.sets[LANGUAGES].open.push(slot);
        } else {
            enter(LANGUAGES, &mut creatives.iter().filter_map(|creative| creative.language));
        }
    }

    pub(crate) fn build(self) -> Rows {
        let blocks = self.slots.div_ceil(BLOCK_SLOTS);
        let mut rows =
            Rows { sets: Default::default(), rows: 0, lines: Vec::new(), slots: Vec::new() };
        let mut sets = self.sets;
        for (set, own) in sets.iter_mut().zip(&mut rows.sets) {
            set.wanted.sort_unstable();
            set.wanted.dedup();
            own.open = small(rows.rows);
            own.restricts = !set.wanted.is_empty();
            rows.rows += 1;
            for wanted in set.wanted.chunk_by(|one, other| one.0 == other.0) {
                *place(&mut own.by_key, wanted[0].0) =
                    if wanted.len() > blocks * LISTED_PER_BLOCK_MAX {
                        rows.rows += 1;
                        Wanted::Row(small(rows.rows - 1))
                    } else {
                        let at = small(rows.slots.len());
                        rows.slots.extend(wanted.iter().map(|(_, slot)| *slot));
                        Wanted::List(List { next: wanted[0].1, at, end: small(rows.slots.len()) })
                    };
            }
        }
        rows.lines = table::in_huge_pages(vec![Line(NOBODY); blocks * rows.rows]);
        for (at, set) in sets.iter().enumerate() {
            for &(key, slot) in &set.wanted {
                if let Wanted::Row(row) = rows.sets[at].by_key[key as usize] {
                    rows.set(row, slot);
                }
            }
            let open = rows.sets[at].open;
            let next = rows.sets.get(at + 1).map_or(small(rows.rows), |set| set.open);
            for slot in &set.open {
                (open..next).for_each(|row| rows.set(row, *slot));
            }
        }
        rows
    }
}

/// A segment that the user must be in. Keys are numbered as texts come up, so the largest is likely the rarest.
fn rarest(targeting: &Targeting) -> Option<u32> {
    targeting.segments_all.iter().copied().max()
}

/// The place of a key, made if it is missing.
fn place(by_key: &mut Vec<Wanted>, key: u32) -> &mut Wanted {
    let at = key as usize;
    if by_key.len() <= at {
        by_key.resize(at + 1, Wanted::Nobody);
    }
    &mut by_key[at]
}

/// Slots have 20 bits; entries of lists fill the memory of today before they fill 32 bits.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Creative;
    use crate::price::Price;
    use crate::request::Format;
    use proptest::prelude::*;

    fn campaign(any: &[(Dimension, Vec<u32>)], segments_all: &[u32]) -> Campaign {
        let mut targeting = Targeting::default();
        targeting.segments_all = segments_all.to_vec();
        any.iter()
            .for_each(|(dimension, keys)| targeting.lists_mut(*dimension).any.clone_from(keys));
        let creative = Creative {
            id: 0,
            format: Format::Banner,
            sizes: vec![(0, 0)],
            domains: Vec::new(),
            categories: Vec::new(),
            attributes: Vec::new(),
            secure: true,
            duration_s: 0,
            bundle: None,
            language: None,
        };
        let (modifiers, creatives) = (Vec::new(), vec![creative]);
        Campaign {
            id: 0,
            bid: Price::STEP,
            advertiser: 0,
            seat: 0,
            modifiers,
            targeting,
            creatives,
        }
    }

    fn request<'a>(geo: &'a [u32], segments: &'a [u32]) -> Request<'a> {
        Request {
            id_hash: 0,
            geo,
            devices: &[],
            oses: &[],
            languages: &[],
            supply: &[],
            domains: &[],
            categories: &[],
            categories_possible: &[],
            segments,
            unknown: &[],
            quarter_of_week: 0,
            at: crate::PriceRule::First,
            currencies: &[],
            conversions: &[],
            seats_allowed: &[],
            seats_blocked: &[],
            categories_allowed: &[],
            categories_blocked: &[],
            advertisers_blocked: &[],
            bundles_blocked: &[],
            languages_allowed: &[],
            impressions: &[],
            rules: crate::Rules::default(),
        }
    }

    /// Few keys that many want and many that few want: rows and lists.
    fn keys() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![0_u32..3, 0_u32..400], 0..3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_scan_finds_whom_the_lists_admit(
            wanted in prop::collection::vec((keys(), keys(), 0_u32..4), 0..1_800),
            geo in keys(), segments in keys(), placements in prop::collection::vec(0_u32..5, 0..3),
        ) {
            let mut builder = RowsBuilder::default();
            for (slot, (geo, segments, placement)) in (0..).zip(&wanted) {
                // A third want all of their segments instead of any.
                let (any, all) = if slot % 3 == 0 { (&[][..], &segments[..]) } else { (&segments[..], &[][..]) };
                let any = [(Dimension::Geo, geo.clone()), (Dimension::Segments, any.to_vec())];
                builder.add(slot, &campaign(&any, all), &[*placement]);
            }
            let (rows, request) = (builder.build(), request(&geo, &segments));
            let admits = |(slot, (of_geo, of_segments, placement)): &(u32, &(Vec<u32>, Vec<u32>, u32))| {
                let meets = |own: &[u32], keys: &[u32]| own.is_empty() || keys.iter().any(|key| own.contains(key));
                // Of all segments the rows know one.
                let known = if slot % 3 == 0 { of_segments.iter().max().as_slice().iter().map(|key| **key).collect() } else { of_segments.clone() };
                meets(of_geo, &geo) && meets(&known, &segments) && placements.contains(placement)
            };
            let expected: Vec<u32> = (0..).zip(&wanted).filter(admits).map(|(slot, _)| slot).collect();
            // Work space is never clean.
            let (mut scan, mut one_by_one, mut at_once) = (Scan::default(), Vec::new(), Vec::new());
            for _ in 0..2 {
                scan.request(&rows, &request);
                scan.begin(&rows, &request, Some(&placements), true);
                one_by_one.clear();
                while let Some(reach) = scan.reach() {
                    let taken = scan.take(&rows);
                    prop_assert!(taken.is_none_or(|slot| slot == reach));
                    one_by_one.extend(taken);
                }
                prop_assert_eq!(&one_by_one, &expected);
                scan.begin(&rows, &request, Some(&placements), false);
                at_once.clear();
                scan.take_all(&rows, &mut at_once);
                prop_assert_eq!(&at_once, &expected);
                scan.stop();
                prop_assert_eq!(scan.reach(), None);
            }
            prop_assert_eq!(scan.blocks_read, 2 * wanted.len().div_ceil(BLOCK_SLOTS));
        }
    }
}
