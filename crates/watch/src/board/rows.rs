//! Sets of rows, one bit each.

use std::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// Some rows of one table. Rows that the table does not have are never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowSet {
    rows: usize,
    words: Vec<u64>,
}

impl RowSet {
    /// None of a table of so many rows.
    pub(super) fn clear(&mut self, rows: usize) {
        self.rows = rows;
        self.words.clear();
        self.words.resize(rows.div_ceil(WORD_BITS), 0);
    }

    /// Those of a table of so many rows of which this is true; asked once for each, in their order.
    pub(super) fn select(&mut self, rows: usize, mut is_in: impl FnMut(usize) -> bool) {
        self.rows = rows;
        self.words.clear();
        self.words.extend((0..rows).step_by(WORD_BITS).map(|from| {
            let bits = (from..rows.min(from + WORD_BITS)).map(|row| u64::from(is_in(row)));
            bits.enumerate().fold(0, |word, (bit, is_in)| word | is_in << bit)
        }));
    }

    pub(super) fn insert(&mut self, row: usize) {
        if row < self.rows
            && let Some(word) = self.words.get_mut(row / WORD_BITS)
        {
            *word |= 1 << (row % WORD_BITS);
        }
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.words.get(row / WORD_BITS).is_some_and(|word| word >> (row % WORD_BITS) & 1 == 1)
    }

    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds those of the other set.
    pub(super) fn unite(&mut self, other: &RowSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Adds those that are in both of two sets.
    pub(super) fn unite_common(&mut self, a: &RowSet, b: &RowSet) {
        let common = a.words.iter().zip(&b.words).map(|(a, b)| a & b);
        self.words.iter_mut().zip(common).for_each(|(word, common)| *word |= common);
    }

    /// Takes the row, if it is in.
    pub(super) fn take_row(&mut self, row: usize) -> bool {
        let Some(word) = self.words.get_mut(row / WORD_BITS) else { return false };
        let bit = 1 << (row % WORD_BITS);
        let was_in = *word & bit != 0;
        *word &= !bit;
        was_in
    }

    /// Takes the first `max` rows of a range, in their order.
    pub(super) fn take(&mut self, range: Range<usize>, max: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        let words = range.start / WORD_BITS..range.end.min(self.rows).div_ceil(WORD_BITS);
        for at in words {
            let Some(word) = self.words.get_mut(at) else { break };
            let first = at * WORD_BITS;
            let mut bits = *word & mask(first, &range);
            while bits != 0 && taken.len() < max {
                let bit = bits & bits.wrapping_neg();
                bits ^= bit;
                *word ^= bit;
                taken.extend(u32::try_from(first + bit.trailing_zeros() as usize));
            }
        }
        taken
    }
}

/// The bits of the word of row `first` and the next ones that are in the range.
fn mask(first: usize, range: &Range<usize>) -> u64 {
    let below = |row: usize| match row.saturating_sub(first) {
        0 => 0,
        bits if bits >= WORD_BITS => u64::MAX,
        bits => (1 << bits) - 1,
    };
    below(range.end) & !below(range.start)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const ROWS: usize = 200;

    fn set(rows: &BTreeSet<usize>) -> RowSet {
        let mut set = RowSet::default();
        set.select(ROWS, |row| rows.contains(&row));
        set
    }

    fn some() -> impl Strategy<Value = BTreeSet<usize>> {
        proptest::collection::btree_set(0..ROWS, 0..ROWS)
    }

    proptest! {
        /// As a tree of rows does it.
        #[test]
        fn it_is_a_set_of_rows(a in some(), b in some(), from in 0..250_usize, to in 0..250_usize, max in 0..99_usize) {
            let mut united = set(&a);
            united.unite(&set(&b));
            prop_assert_eq!(&united, &set(&a.union(&b).copied().collect()));
            let mut common = RowSet::default();
            common.clear(ROWS);
            common.unite_common(&set(&a), &set(&b));
            prop_assert_eq!(common, set(&a.intersection(&b).copied().collect()));
            prop_assert!((0..250).all(|row| united.contains(row) == (a.contains(&row) || b.contains(&row))));
            let expected: Vec<usize> =
                a.iter().copied().filter(|row| (from..to).contains(row)).take(max).collect();
            let mut left = set(&a);
            let taken: Vec<usize> =
                left.take(from..to, max).into_iter().map(|row| row as usize).collect();
            prop_assert_eq!(&taken, &expected);
            prop_assert_eq!((left.len(), left.is_empty()), (a.len() - taken.len(), a.len() == taken.len()));
            taken.into_iter().for_each(|row| left.insert(row));
            prop_assert_eq!(left, set(&a));
        }
    }

    #[test]
    fn rows_beyond_the_table_are_never_in() {
        let mut set = RowSet::default();
        set.select(70, |_| true);
        set.insert(70);
        assert_eq!((set.len(), set.contains(69), set.contains(70)), (70, true, false));
        assert!(set.take_row(69) && !set.take_row(69) && !set.take_row(usize::MAX));
        set.clear(3);
        assert_eq!((set.is_empty(), set.take(0..9, 9)), (true, vec![]));
    }
}
