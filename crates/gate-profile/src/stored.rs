//! A user as the store keeps it. Numbers are little-endian; the key is the user's key, big-endian.
//!
//! | offset | type | field |
//! | ---: | --- | --- |
//! | 0 | u8 | layout, 2; layout 1, without rolling counters, is read too |
//! | 1, 2 | u8, u8 | segments s, counters c |
//! | 3 | u32 x s | segments, ascending |
//! | 3 + 4s | 16 or 20 bytes x c | item u64, window u32 (kind in the top 3 bits, number since 1970 below), count |
//!
//! The count of a calendar window is a u32. The count of a rolling window is eight u8, one per step, the latest step first;
//! its kinds are 5 (hour), 6 (day) and 7 (week), and its number is that of the latest step. A record of the log has 44 bytes:
//! user, number, hold, item, time (u64 each), window (u32).

use crate::window::WindowId;
use crate::{COUNTERS_MAX, SEGMENTS_MAX};

/// First byte of a value: the layout of the rest. The first layout had no rolling counters and is otherwise the same.
const LAYOUT: u8 = 2;
const LAYOUT_WITHOUT_ROLLING: u8 = 1;
const HEAD_BYTES: usize = 3;
const COUNTER_BYTES_MAX: usize = 20;
/// A step of a rolling window does not count beyond; no cap of one allows more.
const STEP_MAX: u64 = u8::MAX as u64;
const CALENDAR_MAX: u64 = u32::MAX as u64;

/// Segments, ascending, and counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) segments: Vec<u32>,
    pub(crate) counters: Vec<Counter>,
}

/// Impressions of one item in the latest window of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) item: u64,
    /// For a rolling window its latest step.
    pub(crate) window: WindowId,
    /// How many, 32 bits. For a rolling window a byte for each of eight steps, the latest one lowest.
    pub(crate) count: u64,
}

impl Counter {
    pub(crate) fn new(item: u64, window: WindowId) -> Counter {
        Counter { item, window, count: 0 }
    }

    /// Counts an impression in `window`, of the same kind. A later window starts anew, a rolling one forgets what is
    /// too old. An earlier one means that the clock or the offset went back: the window that was running goes on, for
    /// what it did not count it would allow again.
    pub(crate) fn add(&mut self, window: WindowId) {
        let kept = self.kept(window);
        let max = if self.window.kind().is_rolling() { STEP_MAX } else { CALENDAR_MAX };
        self.count = if kept & max == max { kept } else { kept + 1 };
        self.window = self.window.max(window);
    }

    /// Impressions that count in `window`, of the same kind, or in the later one that is running.
    #[inline]
    pub(crate) fn billed(&self, window: WindowId) -> u32 {
        let kept = self.kept(window);
        if self.window.kind().is_rolling() {
            return kept.to_le_bytes().into_iter().map(u32::from).sum();
        }
        u32::try_from(kept).unwrap_or(u32::MAX)
    }

    /// The rest of the count in `window`.
    fn kept(&self, window: WindowId) -> u64 {
        match window.after(self.window) {
            0 => self.count,
            steps if self.window.kind().is_rolling() => {
                self.count.checked_shl(steps.saturating_mul(u8::BITS)).unwrap_or(0)
            }
            _ => 0,
        }
    }
}

impl Stored {
    /// Counts an impression; false when there is no room for one more counter.
    pub(crate) fn count(&mut self, item: u64, window: WindowId, now_ms: u64) -> bool {
        let same = |c: &&mut Counter| c.item == item && c.window.same_kind(window);
        if let Some(counter) = self.counters.iter_mut().find(same) {
            counter.add(window);
            return true;
        }
        if self.counters.len() >= COUNTERS_MAX {
            self.counters.retain(|counter| !counter.window.is_over(now_ms));
        }
        let room = self.counters.len() < COUNTERS_MAX;
        if room {
            let mut counter = Counter::new(item, window);
            counter.add(window);
            self.counters.push(counter);
        }
        room
    }

    /// The value's bytes: layout, number of segments and of counters (one byte each), segments (u32),
    /// counters (item u64, window u32, count u32 or eight times u8); little-endian.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let segments = &self.segments[..self.segments.len().min(SEGMENTS_MAX)];
        let counters = &self.counters[..self.counters.len().min(COUNTERS_MAX)];
        let len = HEAD_BYTES + segments.len() * 4 + counters.len() * COUNTER_BYTES_MAX;
        let mut bytes = Vec::with_capacity(len);
        let count = |len: usize| u8::try_from(len).unwrap_or(u8::MAX);
        bytes.extend([LAYOUT, count(segments.len()), count(counters.len())]);
        segments.iter().for_each(|segment| bytes.extend(segment.to_le_bytes()));
        for counter in counters {
            bytes.extend(counter.item.to_le_bytes());
            bytes.extend(counter.window.0.to_le_bytes());
            let count = counter.count.to_le_bytes();
            bytes.extend(&count[..count_bytes(counter.window)]);
        }
        bytes
    }

    /// Reads a value; `None` when it is not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Stored> {
        let (&[layout, segments, counters], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (segments, mut rest) = rest.split_at_checked(usize::from(segments) * 4)?;
        let segments: Vec<u32> =
            segments.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        let mut stored = Stored { segments, counters: Vec::with_capacity(counters.into()) };
        for _ in 0..counters {
            let counter;
            (counter, rest) = decode_counter(rest)?;
            stored.counters.push(counter);
        }
        let rolling = stored.counters.iter().any(|counter| counter.window.kind().is_rolling());
        let known = layout == LAYOUT || (layout == LAYOUT_WITHOUT_ROLLING && !rolling);
        (known && rest.is_empty() && stored.segments.is_sorted()).then_some(stored)
    }
}

fn count_bytes(window: WindowId) -> usize {
    if window.kind().is_rolling() { 8 } else { 4 }
}

/// The first counter of `bytes`, and the rest of them.
fn decode_counter(bytes: &[u8]) -> Option<(Counter, &[u8])> {
    let (&item, bytes) = bytes.split_first_chunk()?;
    let (&window, bytes) = bytes.split_first_chunk()?;
    let window = WindowId(u32::from_le_bytes(window));
    let (count, rest) = bytes.split_at_checked(count_bytes(window))?;
    let mut wide = [0; 8];
    wide[..count.len()].copy_from_slice(count);
    let (item, count) = (u64::from_le_bytes(item), u64::from_le_bytes(wide));
    Some((Counter { item, window, count }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counter(item: u64, window: u32, count: u64) -> Counter {
        let window = WindowId(window);
        let mask = if window.kind().is_rolling() { u64::MAX } else { CALENDAR_MAX };
        Counter { item, window, count: count & mask }
    }

    /// Written before there were rolling windows: it is read, and written anew in the present layout.
    #[test]
    fn a_value_of_the_first_layout_is_read() {
        let mut old = vec![1, 2, 1];
        old.extend([3u32, 9].map(u32::to_le_bytes).as_flattened());
        old.extend(7u64.to_le_bytes());
        old.extend([2 << 29 | 20_000, 4u32].map(u32::to_le_bytes).as_flattened());
        let stored = Stored::decode(&old).unwrap();
        assert_eq!(stored.segments, [3, 9]);
        assert_eq!(stored.counters, [counter(7, 2 << 29 | 20_000, 4)]);
        assert_eq!(Stored::decode(&stored.encode()), Some(stored));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let rolling = Stored { segments: vec![], counters: vec![counter(7, 6 << 29 | 1, 5)] };
        let bytes = rolling.encode();
        assert_eq!(Stored::decode(&bytes), Some(rolling));
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Stored::decode(&bytes)
        };
        assert_eq!(with(0, 1), None, "the first layout has no rolling counters");
        assert_eq!(with(0, 3), None, "an unknown layout");
        assert_eq!((with(1, 9), with(2, 2), with(2, 0)), (None, None, None), "other numbers");
        assert_eq!(Stored::decode(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn a_rolling_counter_forgets_step_by_step_and_does_not_overflow() {
        let step = |number: u32| WindowId(5 << 29 | (1_000 + number));
        let mut counter = Counter::new(1, step(0));
        for number in [0, 0, 1, 7] {
            counter.add(step(number));
        }
        assert_eq!([7, 8, 9, 14, 15].map(|n| counter.billed(step(n))), [4, 2, 1, 1, 0]);
        assert_eq!(counter.billed(step(3)), 4, "the clock went back");
        counter.add(step(3));
        assert_eq!((counter.window, counter.billed(step(14))), (step(7), 2));
        (0..1_000).for_each(|_| counter.add(step(9)));
        assert_eq!([9, 16].map(|n| counter.billed(step(n))), [257, 255]);
        assert_eq!(counter.billed(WindowId(5 << 29 | 0x1fff_ffff)), 0);
    }

    proptest! {
        #[test]
        fn a_value_comes_back(
            mut segments in prop::collection::vec(any::<u32>(), 0..=SEGMENTS_MAX),
            counters in prop::collection::vec(any::<(u64, u32, u64)>(), 0..=COUNTERS_MAX),
        ) {
            segments.sort_unstable();
            let counters = counters
                .into_iter()
                .map(|(item, window, count)| counter(item, window, count))
                .collect();
            let stored = Stored { segments, counters };
            prop_assert_eq!(Stored::decode(&stored.encode()), Some(stored));
        }

        #[test]
        fn strange_bytes_are_refused_or_read_but_never_panic(
            layout in 0..4u8,
            mut bytes in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..80),
        ) {
            bytes.insert(0, layout);
            if let Some(stored) = Stored::decode(&bytes) {
                prop_assert_eq!(&stored.encode()[1..], &bytes[1..]);
            }
        }
    }
}
