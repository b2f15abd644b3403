//! The waiting room of a door: what waits for an answer that comes later, from the bank or from another thread.
//!
//! ```text
//!  Pending    by place      the place travels with the question and comes back with the answer
//!  DueQueue   in order      until a number that rises has come so far, or a time is up
//!  Arrivals   from outside  an answer that another thread makes, or the news that it will make none
//! ```

mod arrivals;
mod queue;

use std::collections::VecDeque;

pub use arrivals::{Arrivals, Owed};
pub use queue::DueQueue;

/// Things that wait, each at a place of its own. Their number is bounded.
#[derive(Debug)]
pub struct Pending<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
    places_max: usize,
    /// Places where nothing waits any more, in the order in which that came about.
    done: VecDeque<u32>,
}

impl<T> Pending<T> {
    /// No more than so many wait at once.
    pub fn new(places_max: usize) -> Pending<T> {
        let (places, free, done) = (Vec::new(), Vec::new(), VecDeque::new());
        Pending { places, free, places_max, done }
    }

    /// How many places are taken.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// None is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All are taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.places_max
    }

    /// Takes a place for what waits, and returns it; `None`: as many wait as may.
    pub fn open(&mut self, waits: T) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(waits);
            return Some(place);
        }
        let place = u32::try_from(self.places.len()).ok()?;
        self.places.push(Some(waits));
        Some(place)
    }

    /// What waits at a place.
    #[inline]
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// Takes what waits at a place, which is free from then on. Whoever comes with a second answer finds nothing, unless the place is
    /// taken again: what answers may do so once.
    pub fn close(&mut self, place: u32) -> Option<T> {
        let waited = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(waited)
    }

    /// Says that nothing at a place waits any more: it is the next of [`Pending::next_done`]. To be said once.
    pub fn done(&mut self, place: u32) {
        self.done.push_back(place);
    }

    /// Takes what waits no longer, one after the other.
    pub fn next_done(&mut self) -> Option<T> {
        let place = self.done.pop_front()?;
        self.close(place)
    }

    /// Takes what was at this place, if it is the last of which [`Pending::done`] was said.
    pub fn take_if_done(&mut self, place: u32) -> Option<T> {
        let place = self.done.pop_back_if(|last| *last == place)?;
        self.close(place)
    }

    /// All that wait.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// All that wait.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const PLACES_MAX: usize = 5;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Open,
        /// Of any place, taken or not.
        Close(u32),
        Done(usize),
        NextDone,
        TakeIfDone(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => Just(Op::Open),
            2 => (0..8_u32).prop_map(Op::Close),
            2 => (0..8_usize).prop_map(Op::Done),
            1 => Just(Op::NextDone),
            1 => (0..8_usize).prop_map(Op::TakeIfDone),
        ]
    }

    /// The same by a map and a list.
    #[derive(Default)]
    struct Model {
        taken: BTreeMap<u32, u64>,
        done: VecDeque<u32>,
    }

    impl Model {
        /// A place whose turn to be done it may be.
        fn waits(&self, nth: usize) -> Option<u32> {
            let waits: Vec<u32> =
                self.taken.keys().filter(|place| !self.done.contains(place)).copied().collect();
            waits.get(nth).copied()
        }
    }

    proptest! {
        #[test]
        fn it_is_a_bounded_map_whose_done_ones_leave_in_order(ops in prop::collection::vec(op(), 0..200)) {
            let (mut pending, mut model) = (Pending::new(PLACES_MAX), Model::default());
            for (number, op) in (0_u64..).zip(ops) {
                match op {
                    Op::Open => {
                        let place = pending.open(number);
                        prop_assert_eq!(place.is_some(), model.taken.len() < PLACES_MAX);
                        if let Some(place) = place {
                            prop_assert_eq!(model.taken.insert(place, number), None);
                        }
                    }
                    // What is done leaves by `next_done` alone.
                    Op::Close(place) if model.done.contains(&place) => {}
                    Op::Close(place) => {
                        prop_assert_eq!(pending.close(place), model.taken.remove(&place));
                    }
                    Op::Done(nth) => {
                        if let Some(place) = model.waits(nth) {
                            pending.done(place);
                            model.done.push_back(place);
                        }
                    }
                    Op::NextDone => {
                        let first = model.done.pop_front();
                        let expected = first.and_then(|place| model.taken.remove(&place));
                        prop_assert_eq!(pending.next_done(), expected);
                    }
                    Op::TakeIfDone(place) => {
                        let place = u32::try_from(place).unwrap();
                        let last = model.done.pop_back_if(|last| *last == place);
                        let expected = last.and_then(|place| model.taken.remove(&place));
                        prop_assert_eq!(pending.take_if_done(place), expected);
                    }
                }
                prop_assert_eq!((pending.len(), pending.is_empty()), (model.taken.len(), model.taken.is_empty()));
                prop_assert_eq!(pending.is_full(), model.taken.len() == PLACES_MAX);
                prop_assert_eq!(pending.iter().count(), model.taken.len());
                for (place, number) in &mut model.taken {
                    prop_assert_eq!(pending.get_mut(*place), Some(number));
                }
            }
        }
    }

    #[test]
    fn a_place_that_nobody_has_answers_nothing() {
        let mut pending = Pending::new(1);
        assert_eq!((pending.close(0), pending.get_mut(u32::MAX)), (None, None));
        let place = pending.open('a').unwrap();
        assert_eq!(pending.open('b'), None, "bounded");
        assert_eq!((pending.close(place), pending.close(place)), (Some('a'), None), "once");
    }
}
