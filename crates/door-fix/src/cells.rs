//! Places by the hash of a text, eight bytes each.

/// What stands in a cell: the number of an id, or of a row, for as long as it is known.
pub(crate) type Slot = u32;

const CELLS_MIN: usize = 64;

/// A power of two of cells, at most half of them taken: the hash above and the slot, from 1 on, below; 0 is nobody's. A slot stands in the first
/// free cell from the one on that its hash names.
#[derive(Debug)]
pub(crate) struct Cells {
    cells: Box<[u64]>,
    taken: usize,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { cells: vec![0; CELLS_MIN].into(), taken: 0 }
    }
}

impl Cells {
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.cells[..])
    }

    #[inline]
    fn first(&self, hash: u32) -> usize {
        hash as usize & (self.cells.len() - 1)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.cells.len() - 1)
    }

    /// The first slot of this hash that is the one.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let mut at = self.first(hash);
        loop {
            // Half of the cells are free, so one is met.
            let (found, slot) = parts(self.cells[at])?;
            if found == hash && is_it(slot) {
                return Some(slot);
            }
            at = self.next(at);
        }
    }

    /// Has the cell fetched where a hash stands, or would.
    pub(crate) fn prefetch(&self, hash: u32) {
        table::prefetch(&self.cells[self.first(hash)]);
    }

    pub(crate) fn enter(&mut self, hash: u32, slot: Slot) {
        if (self.taken + 1) * 2 > self.cells.len() {
            self.grow();
        }
        self.taken += 1;
        self.put(hash, slot);
    }

    /// The same, in the place of the first of its hash where there are so many of these.
    pub(crate) fn enter_among(&mut self, hash: u32, slot: Slot, max: usize) {
        let (mut same, mut first) = (0, None);
        self.find(hash, |other| {
            first.get_or_insert(other);
            same += 1;
            false
        });
        match first.filter(|_| same >= max) {
            Some(first) => {
                let at = self.cell(hash, first);
                at.into_iter().for_each(|at| self.cells[at] = cell(hash, slot));
            }
            None => self.enter(hash, slot),
        }
    }

    #[inline]
    fn put(&mut self, hash: u32, slot: Slot) {
        let mut at = self.first(hash);
        while self.cells[at] != 0 {
            at = self.next(at);
        }
        self.cells[at] = cell(hash, slot);
    }

    /// Cells hold the hashes, so that no text is looked at.
    fn grow(&mut self) {
        // Each is somewhere else: with small pages its page would have to be looked for first.
        let more = table::in_huge_pages(vec![0; self.cells.len() * 2]).into();
        let before = std::mem::replace(&mut self.cells, more);
        for (hash, slot) in before.iter().filter_map(|cell| parts(*cell)) {
            self.put(hash, slot);
        }
    }

    /// Where a slot stands.
    fn cell(&self, hash: u32, slot: Slot) -> Option<usize> {
        let mut at = self.first(hash);
        while self.cells[at] != cell(hash, slot) {
            at = self.next(at);
            if self.cells[at] == 0 {
                return None;
            }
        }
        Some(at)
    }

    /// Takes a slot out, if it is there. Those behind it that stand further on than their hash says move up, so that none is ever passed over.
    pub(crate) fn take_out(&mut self, hash: u32, slot: Slot) {
        let Some(mut hole) = self.cell(hash, slot) else { return };
        let mask = self.cells.len() - 1;
        let mut at = self.next(hole);
        while let Some((hash, _)) = parts(self.cells[at]) {
            let steps = at.wrapping_sub(self.first(hash)) & mask;
            if steps >= at.wrapping_sub(hole) & mask {
                self.cells[hole] = self.cells[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.cells[hole] = 0;
        self.taken -= 1;
    }
}

#[inline]
fn cell(hash: u32, slot: Slot) -> u64 {
    u64::from(hash) << 32 | (u64::from(slot) + 1)
}

/// The hash and the slot of a cell that is taken.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
#[inline]
fn parts(cell: u64) -> Option<(u32, Slot)> {
    // The lower half of a cell that is taken is not 0.
    let slot = (cell as u32).checked_sub(1)?;
    Some(((cell >> 32) as u32, slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_places_take_less_than_24_bytes_each_and_many_of_one_hash_are_few() {
        let (mut cells, few) = (Cells::default(), 8);
        for slot in 0..1_000_000_u32 {
            cells.enter_among(slot.wrapping_mul(0x9e37_79b1), slot, few);
        }
        assert!(cells.bytes() < 24_000_000);
        let (mut same, mut found) = (Cells::default(), Vec::new());
        (0..100_000).for_each(|slot| same.enter_among(7, slot, few));
        same.find(7, |slot| {
            found.push(slot);
            false
        });
        assert_eq!(found, [99_999, 1, 2, 3, 4, 5, 6, 7]);
        found.iter().for_each(|slot| same.take_out(7, *slot));
        assert_eq!((same.find(7, |_| true), same.taken), (None, 0));
    }
}
