//! What memory holds of one user: two cache lines, and a block of its own for those who need more.
//!
//! The content is one run of 32-bit words: segments, then counters of the calendar, rolling counters,
//! reservations. Small users keep it inside the slot; a larger one moves it, whole, to a block.
//!
//! A counter keeps its *place*, a byte, as long as the user is in memory: those of the calendar count
//! them from 0 up, rolling ones from the highest down.

use crate::profile::{Live, Profile};
use crate::stored::{Counter, Stored};
use crate::window::{Cap, WindowId};
use crate::{CAPS_MAX, COUNTERS_MAX, RESERVATIONS_MAX};

/// Words inside the slot: for example 10 segments, two counters and a reservation.
const INLINE_WORDS: usize = 25;
/// Item (2), window, count.
const CALENDAR_WORDS: usize = 4;
/// Item (2), latest step, counts of eight steps (2).
const ROLLING_WORDS: usize = 5;
/// Hold (2), deadline (2), eight places of one byte.
const RESERVATION_WORDS: usize = 6;
/// No counter.
const NOWHERE: u8 = u8::MAX;
/// The place of the first rolling counter.
const PLACE_MAX: u8 = NOWHERE - 1;

const _: () = assert!(size_of::<Slot>() == 128, "a user is two cache lines");
const _: () = assert!(COUNTERS_MAX == NOWHERE as usize && CAPS_MAX == 8);

type CalendarWords = [u32; CALENDAR_WORDS];
type RollingWords = [u32; ROLLING_WORDS];
type ReservationWords = [u32; RESERVATION_WORDS];

/// Why a place was not reserved; the position of the cap for [`NoPlace::Capped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    Capped(usize),
    Bound,
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) user: u64,
    /// The last delta of this user; until it is folded into the store the user must stay.
    pub(crate) delta_seq: u64,
    segments: u8,
    calendar: u8,
    rolling: u8,
    reservations: u8,
    /// Read since the clock's hand last passed.
    pub(crate) referenced: bool,
    /// Holds a user (others wait for one).
    pub(crate) used: bool,
    /// Holds only what was counted since the user was last in memory; the rest is in the store.
    pub(crate) partial: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Inline([u32; INLINE_WORDS]),
    Block(Box<[u32]>),
}

impl Slot {
    pub(crate) fn new(user: u64) -> Slot {
        Slot {
            user,
            delta_seq: 0,
            segments: 0,
            calendar: 0,
            rolling: 0,
            reservations: 0,
            referenced: true,
            used: true,
            partial: false,
            body: Body::Inline([0; INLINE_WORDS]),
        }
    }

    /// Asks for the slot's two cache lines.
    pub(crate) fn prefetch(&self) {
        table::prefetch(self);
        if let Body::Inline(words) = &self.body {
            table::prefetch(&words[INLINE_WORDS - 1]);
        }
    }

    /// Bytes outside the slot.
    pub(crate) fn block_bytes(&self) -> usize {
        match &self.body {
            Body::Inline(_) => 0,
            Body::Block(words) => size_of_val::<[u32]>(words),
        }
    }

    /// Copies what a bid needs into the caller's work space.
    pub(crate) fn read(&self, now_ms: u64, profile: &mut Profile) {
        profile.segments.extend_from_slice(self.segments());
        for Counter { item, window, count } in self.calendar().iter().map(counter) {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            profile.push(Live { item, window, count, reserved: 0 });
        }
        for counter in self.rolling().iter().map(counter) {
            // The offset means nothing to it, so that what counts now is known.
            let now = counter.window.kind().at(0, now_ms);
            let (window, count) = (counter.window.max(now), counter.billed(now));
            profile.push(Live { item: counter.item, window, count, reserved: 0 });
        }
        for reservation in self.reservations().iter().filter(|r| is_live(r, now_ms)) {
            for place in places(reservation).into_iter().filter(|&place| place != NOWHERE) {
                let position = self.rolling_position(place);
                let counter = position.map_or(place.into(), |at| usize::from(self.calendar) + at);
                profile.counters[counter].reserved += 1;
            }
        }
    }

    /// Sets a place aside under every cap, or under none.
    pub(crate) fn reserve(
        &mut self,
        hold: u64,
        caps: &[Cap],
        deadline_ms: u64,
        now_ms: u64,
    ) -> Result<(), NoPlace> {
        self.forget_expired(now_ms);
        if self.reservation(hold).is_some() {
            return Ok(());
        }
        if caps.len() > CAPS_MAX || usize::from(self.reservations) >= RESERVATIONS_MAX {
            return Err(NoPlace::Bound);
        }
        let full = |cap: &Cap| cap.is_full(self.used_of(cap.item, cap.at(now_ms)));
        if let Some(which) = caps.iter().position(full) {
            return Err(NoPlace::Capped(which));
        }
        let mut all = [NOWHERE; CAPS_MAX];
        for (at, cap) in caps.iter().enumerate() {
            let place = self.place(cap.item, cap.at(now_ms), now_ms, &all).ok_or(NoPlace::Bound)?;
            // Two caps on one counter take one place: one impression is counted once.
            if !all.contains(&place) {
                all[at] = place;
            }
        }
        self.push_reservation(hold, deadline_ms, all);
        Ok(())
    }

    /// Moves the deadline of a live reservation; false when there is none.
    pub(crate) fn confirm(&mut self, hold: u64, deadline_ms: u64, now_ms: u64) -> bool {
        let Some(at) = self.reservation(hold) else { return false };
        let start = self.reservations_start() + at * RESERVATION_WORDS;
        let words = self.body.words_mut();
        if deadline(&words[start..]) <= now_ms {
            return false;
        }
        (words[start + 2], words[start + 3]) = halves(deadline_ms);
        true
    }

    /// Gives a reservation back; false when there is none.
    pub(crate) fn release(&mut self, hold: u64) -> bool {
        let found = self.reservation(hold);
        if let Some(at) = found {
            self.remove_reservation(at);
        }
        found.is_some()
    }

    /// Counts an impression; false when there is no room for one more counter.
    pub(crate) fn count(&mut self, item: u64, window: WindowId, now_ms: u64) -> bool {
        let Some(place) = self.place(item, window, now_ms, &[]) else { return false };
        let mut counter = self.counter(place);
        counter.add(window);
        self.set_counter(place, counter);
        true
    }

    /// Some reservation has not expired.
    pub(crate) fn has_live_reservation(&self, now_ms: u64) -> bool {
        self.reservations().iter().any(|r| is_live(r, now_ms))
    }

    /// Replaces the segments; at most 255, sorted.
    pub(crate) fn set_segments(&mut self, segments: &[u32]) {
        let count = u8::try_from(segments.len()).unwrap_or(u8::MAX);
        let segments = &segments[..usize::from(count)];
        self.splice(0, usize::from(self.segments), segments);
        self.segments = count;
    }

    /// Replaces everything by what the store knows.
    pub(crate) fn fill(&mut self, stored: &Stored) {
        (self.calendar, self.rolling, self.reservations) = (0, 0, 0);
        self.set_segments(&stored.segments);
        for &counter in &stored.counters {
            self.push_counter(counter);
        }
        self.partial = false;
    }

    /// Impressions billed in `window` plus live reservations (the caller forgot the expired ones).
    fn used_of(&self, item: u64, window: WindowId) -> u32 {
        let Some(place) = self.find(item, window) else { return 0 };
        let billed = self.counter(place).billed(window);
        let on = |r: &&ReservationWords| places(r).contains(&place);
        let reserved = self.reservations().iter().filter(on).count();
        billed.saturating_add(u32::try_from(reserved).unwrap_or(u32::MAX))
    }

    fn find(&self, item: u64, window: WindowId) -> Option<u8> {
        if window.kind().is_rolling() {
            position(self.rolling(), item, window).and_then(rolling_place)
        } else {
            position(self.calendar(), item, window).and_then(|at| u8::try_from(at).ok())
        }
    }

    /// The counter of (item, kind of window), a new one if need be. Of those in `taken`, which the
    /// caller is about to use, none is given away.
    fn place(&mut self, item: u64, window: WindowId, now_ms: u64, taken: &[u8]) -> Option<u8> {
        if let Some(place) = self.find(item, window) {
            return Some(place);
        }
        let counter = Counter::new(item, window);
        let Some(place) = self.spare(window.kind().is_rolling(), now_ms, taken) else {
            return self.push_counter(counter);
        };
        self.set_counter(place, counter);
        Some(place)
    }

    /// A counter of the same size that counts nothing any more.
    fn spare(&self, rolling: bool, now_ms: u64, taken: &[u8]) -> Option<u8> {
        let reserved = |place| self.reservations().iter().any(|r| places(r).contains(&place));
        let idle = |&place: &u8| {
            let counter = self.counter(place);
            (counter.count == 0 || counter.window.is_over(now_ms))
                && !taken.contains(&place)
                && !reserved(place)
        };
        if rolling {
            (0..usize::from(self.rolling)).filter_map(rolling_place).find(idle)
        } else {
            (0..self.calendar).find(idle)
        }
    }

    /// Adds a counter; none when there are too many.
    fn push_counter(&mut self, counter: Counter) -> Option<u8> {
        if usize::from(self.calendar) + usize::from(self.rolling) >= COUNTERS_MAX {
            return None;
        }
        let words = words(counter);
        if counter.window.kind().is_rolling() {
            self.splice(self.reservations_start(), 0, &words);
            self.rolling += 1;
            rolling_place(usize::from(self.rolling) - 1)
        } else {
            self.splice(self.rolling_start(), 0, &words[..CALENDAR_WORDS]);
            self.calendar += 1;
            Some(self.calendar - 1)
        }
    }

    fn push_reservation(&mut self, hold: u64, deadline_ms: u64, places: [u8; CAPS_MAX]) {
        let ((hold_low, hold_high), (low, high)) = (halves(hold), halves(deadline_ms));
        let [a, b, c, d, e, f, g, h] = places;
        let (first, second) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        self.splice(self.len(), 0, &[hold_low, hold_high, low, high, first, second]);
        self.reservations += 1;
    }

    fn remove_reservation(&mut self, at: usize) {
        let start = self.reservations_start() + at * RESERVATION_WORDS;
        self.splice(start, RESERVATION_WORDS, &[]);
        self.reservations -= 1;
    }

    fn forget_expired(&mut self, now_ms: u64) {
        while let Some(at) = self.reservations().iter().position(|r| !is_live(r, now_ms)) {
            self.remove_reservation(at);
        }
    }

    fn reservation(&self, hold: u64) -> Option<usize> {
        self.reservations().iter().position(|r| number(r[0], r[1]) == hold)
    }

    fn segments(&self) -> &[u32] {
        &self.body.words()[..usize::from(self.segments)]
    }

    fn calendar(&self) -> &[CalendarWords] {
        self.body.words()[usize::from(self.segments)..self.rolling_start()].as_chunks().0
    }

    fn rolling(&self) -> &[RollingWords] {
        self.body.words()[self.rolling_start()..self.reservations_start()].as_chunks().0
    }

    fn reservations(&self) -> &[ReservationWords] {
        self.body.words()[self.reservations_start()..self.len()].as_chunks().0
    }

    fn counter(&self, place: u8) -> Counter {
        match self.rolling_position(place) {
            Some(at) => counter(&self.rolling()[at]),
            None => counter(&self.calendar()[usize::from(place)]),
        }
    }

    fn set_counter(&mut self, place: u8, counter: Counter) {
        let (start, len) = match self.rolling_position(place) {
            Some(at) => (self.rolling_start() + at * ROLLING_WORDS, ROLLING_WORDS),
            None => {
                let at = usize::from(place) * CALENDAR_WORDS;
                (usize::from(self.segments) + at, CALENDAR_WORDS)
            }
        };
        self.body.words_mut()[start..start + len].copy_from_slice(&words(counter)[..len]);
    }

    /// Which of the rolling counters has the place; none when it is one of the calendar's.
    fn rolling_position(&self, place: u8) -> Option<usize> {
        (place >= self.calendar).then(|| usize::from(PLACE_MAX - place))
    }

    fn rolling_start(&self) -> usize {
        usize::from(self.segments) + usize::from(self.calendar) * CALENDAR_WORDS
    }

    fn reservations_start(&self) -> usize {
        self.rolling_start() + usize::from(self.rolling) * ROLLING_WORDS
    }

    fn len(&self) -> usize {
        self.reservations_start() + usize::from(self.reservations) * RESERVATION_WORDS
    }

    /// Replaces `removed` words from `at` on; the caller then sets the numbers of what there is.
    fn splice(&mut self, at: usize, removed: usize, added: &[u32]) {
        let len = self.len();
        self.body.make_room(len, len - removed + added.len());
        let words = self.body.words_mut();
        words.copy_within(at + removed..len, at + added.len());
        words[at..at + added.len()].copy_from_slice(added);
    }
}

impl Body {
    #[inline]
    fn words(&self) -> &[u32] {
        match self {
            Body::Inline(words) => words,
            Body::Block(words) => words,
        }
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u32] {
        match self {
            Body::Inline(words) => words,
            Body::Block(words) => words,
        }
    }

    /// Moves the first `len` words to a larger block when `wanted` do not fit. It never shrinks, so a
    /// reservation that comes and goes allocates at most once.
    fn make_room(&mut self, len: usize, wanted: usize) {
        if wanted <= self.words().len() {
            return;
        }
        let mut words = vec![0; (wanted + RESERVATION_WORDS).next_multiple_of(16)];
        words[..len].copy_from_slice(&self.words()[..len]);
        *self = Body::Block(words.into_boxed_slice());
    }
}

#[inline]
fn number(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[allow(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
#[inline]
fn halves(number: u64) -> (u32, u32) {
    (number as u32, (number >> 32) as u32)
}

#[inline]
fn counter<const WORDS: usize>(words: &[u32; WORDS]) -> Counter {
    let high = words.get(CALENDAR_WORDS).copied().unwrap_or(0);
    let (item, count) = (number(words[0], words[1]), number(words[3], high));
    Counter { item, window: WindowId(words[2]), count }
}

/// A counter of the calendar is the first four of them.
fn words(counter: Counter) -> RollingWords {
    let ((item_low, item_high), (low, high)) = (halves(counter.item), halves(counter.count));
    [item_low, item_high, counter.window.0, low, high]
}

fn position<const WORDS: usize>(
    counters: &[[u32; WORDS]],
    item: u64,
    window: WindowId,
) -> Option<usize> {
    counters.iter().position(|counter| {
        number(counter[0], counter[1]) == item && WindowId(counter[2]).same_kind(window)
    })
}

fn rolling_place(position: usize) -> Option<u8> {
    PLACE_MAX.checked_sub(u8::try_from(position).ok()?)
}

fn deadline(reservation: &[u32]) -> u64 {
    number(reservation[2], reservation[3])
}

/// Judged by time alone: nobody needs to have swept.
fn is_live(reservation: &ReservationWords, now_ms: u64) -> bool {
    deadline(reservation) > now_ms
}

fn places(reservation: &ReservationWords) -> [u8; CAPS_MAX] {
    let ([a, b, c, d], [e, f, g, h]) = (reservation[4].to_le_bytes(), reservation[5].to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Window;

    fn cap(item: u64, limit: u16) -> Cap {
        Cap { item, window: Window::Lifetime, limit, offset_minutes: 0 }
    }

    fn read(slot: &Slot, now_ms: u64) -> Profile {
        let mut profile = Profile::default();
        profile.start(now_ms);
        slot.read(now_ms, &mut profile);
        profile
    }

    #[test]
    fn a_user_grows_from_the_slot_into_a_block_and_keeps_everything() {
        let mut slot = Slot::new(1);
        let segments: Vec<u32> = (0..255).collect();
        slot.set_segments(&segments[..4]);
        assert_eq!(slot.reserve(1, &[cap(7, 2)], 100, 0), Ok(()));
        assert!(slot.count(8, cap(8, 1).at(0), 0));
        assert_eq!(slot.block_bytes(), 0);
        slot.set_segments(&segments);
        assert!(slot.block_bytes() > 0);
        let profile = read(&slot, 0);
        assert_eq!(profile.segments(), segments);
        assert_eq!((profile.used(&cap(7, 2)), profile.used(&cap(8, 1))), (1, 1));
        slot.set_segments(&[]);
        assert!(slot.release(1));
        assert_eq!(read(&slot, 0).used(&cap(7, 2)), 0);
    }

    #[test]
    fn two_caps_on_one_counter_take_one_place() {
        let mut slot = Slot::new(1);
        assert_eq!(slot.reserve(1, &[cap(7, 2), cap(7, 3)], 100, 0), Ok(()));
        assert_eq!(read(&slot, 0).used(&cap(7, 2)), 1);
    }

    #[test]
    fn counters_keep_their_places_while_others_come() {
        let rolling = |item| Cap { window: Window::RollingDay, ..cap(item, 9) };
        let day = |item| Cap { window: Window::Day, ..cap(item, 9) };
        let mut slot = Slot::new(1);
        for item in 0..20u8 {
            let segments = &[1, 2, 3][..usize::from(item % 4)];
            let item = u64::from(item);
            let caps = [rolling(item), day(item), cap(item, 9)];
            assert_eq!(slot.reserve(item, &caps, 100, 0), Ok(()));
            assert!(slot.count(item, rolling(item).at(0), 0));
            slot.set_segments(segments);
        }
        for item in 0..20 {
            let used = |slot: &Slot| {
                let profile = read(slot, 0);
                [rolling(item), day(item), cap(item, 9)].map(|cap| profile.used(&cap))
            };
            assert_eq!(used(&slot), [2, 1, 1]);
            assert!(slot.release(item));
            assert_eq!(used(&slot), [1, 0, 0]);
        }
        assert_eq!((slot.calendar, slot.rolling), (40, 20));
    }

    #[test]
    fn counters_of_both_sizes_share_one_bound() {
        let rolling = |item| Cap { window: Window::RollingWeek, ..cap(item, 1) };
        let mut slot = Slot::new(1);
        for item in 0..100 {
            assert!(slot.count(item, cap(item, 1).at(0), 0));
        }
        for item in 0..155 {
            assert!(slot.count(item, rolling(item).at(0), 0));
        }
        assert!(!slot.count(999, cap(999, 1).at(0), 0) && !slot.count(999, rolling(999).at(0), 0));
        let profile = read(&slot, 0);
        assert!((0..100).all(|item| profile.capped(&[cap(item, 1)])));
        assert!((0..155).all(|item| profile.capped(&[rolling(item)])));
        let later = 9 * 86_400_000;
        assert!(slot.count(999, rolling(999).at(later), later), "what is past is used again");
        assert_eq!(read(&slot, later).used(&rolling(0)), 0);
    }

    #[test]
    fn the_bounds_refuse_and_expired_places_come_back() {
        let mut slot = Slot::new(1);
        for hold in 0..RESERVATIONS_MAX as u64 {
            assert_eq!(slot.reserve(hold, &[cap(7, 1_000)], 100, 0), Ok(()));
        }
        assert_eq!(slot.reserve(99, &[cap(7, 1_000)], 100, 99), Err(NoPlace::Bound));
        assert_eq!(slot.reserve(99, &[cap(7, 1_000)], 200, 100), Ok(()));
        assert!(!slot.confirm(0, 300, 100), "it has expired");
        assert_eq!(slot.reserve(100, &[cap(1, 9); CAPS_MAX + 1], 300, 100), Err(NoPlace::Bound));
    }

    #[test]
    fn counters_are_bounded_and_idle_ones_are_used_again() {
        let mut slot = Slot::new(1);
        for item in 0..COUNTERS_MAX as u64 {
            assert!(slot.count(item, cap(item, 1).at(0), 0));
        }
        assert!(!slot.count(9_999, cap(9_999, 1).at(0), 0));
        assert_eq!(slot.reserve(1, &[cap(9_999, 1)], 100, 0), Err(NoPlace::Bound));
        let mut slot = Slot::new(1);
        for item in 0..1_000 {
            assert_eq!(slot.reserve(item, &[cap(item, 1), cap(item + 5_000, 1)], 100, 0), Ok(()));
            assert!(slot.release(item));
        }
        assert_eq!((slot.calendar, slot.rolling), (2, 0));
    }
}
