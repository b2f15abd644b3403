//! The frames of a connection that are not answered yet.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::call::Part;
use crate::lookup::Lookup;

/// Frames in flight on a connection: 24 of asks and 8 of confirms, settles and releases.
const PLACES: usize = 32;
const OF_RESOLVES_MAX: usize = 8;
const OF_ASKS_MAX: usize = PLACES - OF_RESOLVES_MAX;

/// The frames in flight.
#[derive(Debug)]
pub(crate) struct Flights {
    state: Mutex<Places>,
    room: Condvar,
}

#[derive(Debug)]
struct Places {
    places: [Place; PLACES],
    /// A bit for each free place.
    free: u32,
    of_asks: usize,
    of_resolves: usize,
    sequence: u64,
    waiting: usize,
    lost: bool,
}

#[derive(Debug, Default)]
struct Place {
    /// 0 where the place is free.
    frame: u64,
    since: Option<Instant>,
    asks: Vec<Part>,
    resolves: Vec<u64>,
    lookup: Option<Arc<Lookup>>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// As many frames are in flight as may be.
    Full,
    /// The connection is no more.
    Lost,
}

impl Default for Flights {
    fn default() -> Self {
        let state = Places {
            places: std::array::from_fn(|_| Place::default()),
            free: u32::MAX,
            of_asks: 0,
            of_resolves: 0,
            sequence: 0,
            waiting: 0,
            lost: false,
        };
        Self { state: Mutex::new(state), room: Condvar::new() }
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when the oldest frame has waited for its answer.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let state = self.lock();
        let taken = state.places.iter().filter(|place| place.frame != 0);
        taken.filter_map(|place| place.since).min()
    }

    /// Is anything in flight?
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().free == u32::MAX
    }

    /// Notes a frame of asks, whose parts `fill` writes; its number.
    pub(crate) fn ask(&self, fill: impl FnOnce(&mut Vec<Part>)) -> Result<u64, NoPlace> {
        let mut state = self.lock();
        if state.of_asks == OF_ASKS_MAX {
            return Err(if state.lost { NoPlace::Lost } else { NoPlace::Full });
        }
        let place = state.take()?;
        state.of_asks += 1;
        fill(&mut place_of(&mut state, place).asks);
        Ok(state.number(place))
    }

    /// Notes a question, which counts as a frame of asks.
    pub(crate) fn question(&self, lookup: &Arc<Lookup>) -> Result<u64, NoPlace> {
        let mut state = self.lock();
        if state.of_asks == OF_ASKS_MAX {
            return Err(if state.lost { NoPlace::Lost } else { NoPlace::Full });
        }
        let place = state.take()?;
        state.of_asks += 1;
        place_of(&mut state, place).lookup = Some(Arc::clone(lookup));
        Ok(state.number(place))
    }

    /// Takes a question; `None` if no such frame is in flight.
    pub(crate) fn take_lookup(&self, frame: u64) -> Option<Arc<Lookup>> {
        let mut state = self.lock();
        let at = place_number(frame);
        let place = place_of(&mut state, at);
        if frame == 0 || place.frame != frame {
            return None;
        }
        let lookup = place.lookup.take()?;
        state.give_back(at);
        state.of_asks -= 1;
        if state.waiting > 0 {
            self.room.notify_one();
        }
        Some(lookup)
    }

    /// Notes a frame of resolves.
    pub(crate) fn resolve(&self, ids: &[u64]) -> Result<u64, NoPlace> {
        let mut state = self.lock();
        if state.of_resolves == OF_RESOLVES_MAX {
            return Err(if state.lost { NoPlace::Lost } else { NoPlace::Full });
        }
        let place = state.take()?;
        state.of_resolves += 1;
        place_of(&mut state, place).resolves.extend_from_slice(ids);
        Ok(state.number(place))
    }

    /// Waits for room for a frame of asks.
    pub(crate) fn wait_for_room(&self, until: Instant) -> Result<(), NoPlace> {
        let mut state = self.lock();
        while !state.lost && state.of_asks == OF_ASKS_MAX {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoPlace::Full);
            }
            state.waiting += 1;
            let waited = self.room.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        if state.lost { Err(NoPlace::Lost) } else { Ok(()) }
    }

    /// Takes the parts of a frame of asks into `parts`; false if no such frame is in flight.
    pub(crate) fn take_asks(&self, frame: u64, parts: &mut Vec<Part>) -> bool {
        parts.clear();
        let mut state = self.lock();
        let at = place_number(frame);
        let place = place_of(&mut state, at);
        if frame == 0 || place.frame != frame || place.asks.is_empty() {
            return false;
        }
        std::mem::swap(&mut place.asks, parts);
        state.give_back(at);
        state.of_asks -= 1;
        if state.waiting > 0 {
            self.room.notify_one();
        }
        true
    }

    /// Takes the ids of a frame of resolves; false if no such frame is in flight.
    pub(crate) fn take_resolves(&self, frame: u64, ids: &mut Vec<u64>) -> bool {
        ids.clear();
        let mut state = self.lock();
        let at = place_number(frame);
        let place = place_of(&mut state, at);
        if frame == 0 || place.frame != frame || place.resolves.is_empty() {
            return false;
        }
        std::mem::swap(&mut place.resolves, ids);
        state.give_back(at);
        state.of_resolves -= 1;
        true
    }

    /// The connection is no more: takes all that is in flight, and lets nothing further in.
    pub(crate) fn lose(
        &self,
        parts: &mut Vec<Part>,
        ids: &mut Vec<u64>,
        lookups: &mut Vec<Arc<Lookup>>,
    ) {
        let mut state = self.lock();
        state.lost = true;
        for at in 0..PLACES {
            let place = place_of(&mut state, at);
            parts.append(&mut place.asks);
            ids.append(&mut place.resolves);
            lookups.extend(place.lookup.take());
        }
        self.room.notify_all();
    }
}

fn place_of(state: &mut Places, at: usize) -> &mut Place {
    &mut state.places[at % PLACES]
}

/// The place that a frame's number names.
fn place_number(frame: u64) -> usize {
    usize::try_from(frame % 32).unwrap_or(0)
}

impl Places {
    fn take(&mut self) -> Result<usize, NoPlace> {
        if self.lost {
            return Err(NoPlace::Lost);
        }
        let place = self.free.trailing_zeros() as usize;
        if place >= PLACES {
            return Err(NoPlace::Full);
        }
        self.free &= !(1 << place);
        Ok(place)
    }

    fn number(&mut self, place: usize) -> u64 {
        self.sequence += 1;
        let frame = self.sequence * PLACES as u64 + place as u64;
        self.places[place].frame = frame;
        self.places[place].since = Some(Instant::now());
        frame
    }

    fn give_back(&mut self, place: usize) {
        self.places[place].frame = 0;
        self.free |= 1 << place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;

    fn part(first: usize) -> Part {
        Part { call: Arc::new(Call::default()), round: 0, first, count: 1 }
    }

    #[test]
    fn frames_are_taken_once_and_in_any_order() {
        let flights = Flights::default();
        let numbers: Vec<u64> =
            (0..24).map(|at| flights.ask(|parts| parts.push(part(at))).unwrap()).collect();
        assert_eq!(flights.ask(|_| {}).unwrap_err(), NoPlace::Full);
        let resolve = flights.resolve(&[7, 8]).unwrap();
        let mut parts = Vec::new();
        assert!(!flights.take_asks(0, &mut parts) && !flights.take_asks(resolve, &mut parts));
        assert!(!flights.take_asks(numbers[3] + 32, &mut parts), "a number of another frame");
        assert!(flights.take_asks(numbers[3], &mut parts));
        assert_eq!(parts[0].first, 3);
        assert!(!flights.take_asks(numbers[3], &mut parts), "a second answer");
        let again = flights.ask(|parts| parts.push(part(99))).unwrap();
        assert!(!numbers.contains(&again));
        let mut ids = Vec::new();
        assert!(flights.take_resolves(resolve, &mut ids));
        assert_eq!(ids, [7, 8]);
    }

    #[test]
    fn a_lost_connection_gives_everything_back() {
        let flights = Flights::default();
        assert!(flights.is_idle());
        flights.ask(|parts| parts.push(part(1))).unwrap();
        flights.resolve(&[5]).unwrap();
        assert!(!flights.is_idle());
        let lookup = Arc::new(Lookup::default());
        flights.question(&lookup).unwrap();
        let (mut parts, mut ids, mut lookups) = (Vec::new(), Vec::new(), Vec::new());
        flights.lose(&mut parts, &mut ids, &mut lookups);
        assert_eq!((parts.len(), ids, lookups.len()), (1, vec![5], 1));
        assert_eq!(flights.ask(|_| {}).unwrap_err(), NoPlace::Lost);
        assert_eq!(flights.resolve(&[1]).unwrap_err(), NoPlace::Lost);
        assert_eq!(flights.wait_for_room(Instant::now()), Err(NoPlace::Lost));
    }
}
