//! What is kept by slot: configured budgets from 0 on, budgets made on their first ask from [`MADE_SLOT`] on.

use std::ops::{Index, IndexMut};

use crate::spec::MADE_SLOT;

const MADE: usize = MADE_SLOT as usize;

/// A value by slot.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    /// Slots from 0 on: only ever more.
    pub(super) configured: Vec<T>,
    /// Slots from [`MADE_SLOT`] on: some of them vacant.
    pub(super) made: Vec<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { configured: Vec::new(), made: Vec::new() }
    }
}

impl<T: Clone> Slots<T> {
    /// The same value for all slots that another has.
    pub(super) fn like<U>(other: &Slots<U>, value: T) -> Slots<T> {
        Slots {
            configured: vec![value.clone(); other.configured.len()],
            made: vec![value; other.made.len()],
        }
    }
}

impl<T> Slots<T> {
    /// For each slot what `of` says of it.
    pub(super) fn map<U>(&self, mut of: impl FnMut(&T) -> U) -> Slots<U> {
        Slots {
            configured: self.configured.iter().map(&mut of).collect(),
            made: self.made.iter().map(&mut of).collect(),
        }
    }

    /// Those of all slots, configured ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.configured.iter().chain(&self.made)
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, slot: usize) -> &T {
        match slot.checked_sub(MADE) {
            None => &self.configured[slot],
            Some(made) => &self.made[made],
        }
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    #[inline(always)]
    fn index_mut(&mut self, slot: usize) -> &mut T {
        match slot.checked_sub(MADE) {
            None => &mut self.configured[slot],
            Some(made) => &mut self.made[made],
        }
    }
}
