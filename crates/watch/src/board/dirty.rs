//! One bit a row and follower: which rows changed since the follower took them last.

use std::sync::{Arc, Mutex};

use super::{Board, Shown, lock};
use crate::State;

const WORD_BITS: usize = u64::BITS as usize;

/// The bits of one follower, valid for one table.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    table: u64,
    words: Vec<u64>,
}

impl Dirty {
    /// Rows of this table changed. Where the follower still has another one, it needs all rows anyway.
    pub(super) fn mark(&mut self, table: u64, changed: &[u64]) {
        if self.table == table {
            self.words.iter_mut().zip(changed).for_each(|(word, &changed)| *word |= changed);
        }
    }

    /// Takes the first `max` rows.
    fn take(&mut self, max: usize) -> Vec<u32> {
        let marked: usize = self.words.iter().map(|word| word.count_ones() as usize).sum();
        let mut rows = Vec::with_capacity(marked.min(max));
        for (at, word) in self.words.iter_mut().enumerate() {
            while *word != 0 && rows.len() < max {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                rows.extend(u32::try_from(at * WORD_BITS + bit));
            }
        }
        rows
    }

    fn is_clean(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    fn clear(&mut self, from: usize, to: usize) {
        for row in from..to {
            if let Some(word) = self.words.get_mut(row / WORD_BITS) {
                *word &= !(1 << (row % WORD_BITS));
            }
        }
    }
}

/// Sets the bits of the rows whose states differ, and no others.
pub(super) fn compare(before: &[State], now: &[State], changed: &mut Vec<u64>) {
    changed.clear();
    let chunks = before.chunks(WORD_BITS).zip(now.chunks(WORD_BITS));
    changed.extend(chunks.map(|(before, now)| {
        let differ = before.iter().zip(now).map(|(before, now)| u64::from(before != now));
        differ.enumerate().fold(0, |word, (bit, differs)| word | differs << bit)
    }));
}

/// A follower's end of a [`Board`].
///
/// Its bits are locked while the newest view is read, so that no view can come between the bits that are taken and the
/// states that are sent for them: see [`Board::publish`].
#[derive(Debug)]
pub(crate) struct Following {
    board: Arc<Board>,
    dirty: Arc<Mutex<Dirty>>,
}

/// Rows that changed, with the view that has their states.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) shown: Shown,
    /// In their order; empty where `shown` has another table than the follower.
    pub(crate) rows: Vec<u32>,
    /// More rows wait.
    pub(crate) more: bool,
}

impl Following {
    pub(super) fn new(board: Arc<Board>, dirty: Arc<Mutex<Dirty>>) -> Following {
        Following { board, dirty }
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Begins with the newest table: no row of it is marked.
    pub(crate) fn begin(&self) -> Shown {
        let mut dirty = lock(&self.dirty);
        let shown = self.board.shown();
        dirty.table = shown.table;
        dirty.words.clear();
        dirty.words.resize(shown.view.rows().div_ceil(WORD_BITS), 0);
        shown
    }

    /// The view for the states of these rows, which are not marked any more.
    pub(crate) fn clear(&self, from: usize, to: usize) -> Shown {
        let mut dirty = lock(&self.dirty);
        dirty.clear(from, to);
        self.board.shown()
    }

    /// Takes at most `max` of the rows that changed.
    pub(crate) fn take(&self, max: usize) -> Taken {
        let mut dirty = lock(&self.dirty);
        let shown = self.board.shown();
        let rows = if shown.table == dirty.table { dirty.take(max) } else { Vec::new() };
        Taken { more: !dirty.is_clean(), shown, rows }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_the_rows_that_differ(
            changes in proptest::collection::vec(any::<bool>(), 0..300),
            max in 1_usize..100,
        ) {
            let before = vec![State::default(); changes.len()];
            let state = |&asks: &bool| State { asks: u32::from(asks), ..State::default() };
            let now: Vec<State> = changes.iter().map(state).collect();
            let mut words = vec![u64::MAX; 3];
            compare(&before, &now, &mut words);
            let mut dirty = Dirty { table: 1, words: vec![0; changes.len().div_ceil(WORD_BITS)] };
            dirty.mark(2, &words);
            prop_assert!(dirty.is_clean());
            dirty.mark(1, &words);
            let mut rows = Vec::new();
            while !dirty.is_clean() {
                let taken = dirty.take(max);
                prop_assert!(!taken.is_empty() && taken.len() <= max);
                rows.extend(taken);
            }
            let expected: Vec<u32> =
                (0_u32..).zip(&changes).filter(|(_, changed)| **changed).map(|(row, _)| row).collect();
            prop_assert_eq!(rows, expected);
        }
    }
}
