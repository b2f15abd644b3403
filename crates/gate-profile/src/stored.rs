//! A user as the store keeps it.

use crate::window::WindowId;
use crate::{COUNTERS_MAX, SEGMENTS_MAX};

/// First byte of a value: the layout of the rest.
const LAYOUT: u8 = 1;
const HEAD_BYTES: usize = 3;
const COUNTER_BYTES: usize = 16;

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
    pub(crate) window: WindowId,
    pub(crate) count: u32,
}

impl Counter {
    /// Counts an impression in `window`, of the same kind. A later window starts anew, an earlier one
    /// has passed: so the order in which impressions arrive changes nothing.
    pub(crate) fn add(&mut self, window: WindowId) {
        match window.cmp(&self.window) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => self.count = self.count.saturating_add(1),
            std::cmp::Ordering::Greater => (self.window, self.count) = (window, 1),
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
            self.counters.push(Counter { item, window, count: 1 });
        }
        room
    }

    /// The value's bytes: layout, number of segments and of counters (one byte each), segments (u32),
    /// counters (item u64, window u32, count u32); little-endian.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let segments = &self.segments[..self.segments.len().min(SEGMENTS_MAX)];
        let counters = &self.counters[..self.counters.len().min(COUNTERS_MAX)];
        let len = HEAD_BYTES + segments.len() * 4 + counters.len() * COUNTER_BYTES;
        let mut bytes = Vec::with_capacity(len);
        let count = |len: usize| u8::try_from(len).unwrap_or(u8::MAX);
        bytes.extend([LAYOUT, count(segments.len()), count(counters.len())]);
        segments.iter().for_each(|segment| bytes.extend(segment.to_le_bytes()));
        for counter in counters {
            bytes.extend(counter.item.to_le_bytes());
            bytes.extend(counter.window.0.to_le_bytes());
            bytes.extend(counter.count.to_le_bytes());
        }
        bytes
    }

    /// Reads a value; `None` when it is not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Stored> {
        let (&[layout, segments, counters], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (segments, counters) =
            (usize::from(segments) * 4, usize::from(counters) * COUNTER_BYTES);
        if layout != LAYOUT || rest.len() != segments + counters {
            return None;
        }
        let (segments, counters) = rest.split_at(segments);
        let segments: Vec<u32> =
            segments.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
        let counters = counters.as_chunks::<COUNTER_BYTES>().0.iter().map(decode_counter).collect();
        segments.is_sorted().then_some(Stored { segments, counters })
    }
}

fn decode_counter(bytes: &[u8; COUNTER_BYTES]) -> Counter {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    Counter {
        item: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        window: WindowId(u32::from_le_bytes([i, j, k, l])),
        count: u32::from_le_bytes([m, n, o, p]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_comes_back(
            mut segments in prop::collection::vec(any::<u32>(), 0..=SEGMENTS_MAX),
            counters in prop::collection::vec(any::<(u64, u32, u32)>(), 0..=COUNTERS_MAX),
        ) {
            segments.sort_unstable();
            let counters = counters
                .into_iter()
                .map(|(item, window, count)| Counter { item, window: WindowId(window), count })
                .collect();
            let stored = Stored { segments, counters };
            prop_assert_eq!(Stored::decode(&stored.encode()), Some(stored));
        }

        #[test]
        fn strange_bytes_are_refused_or_read_but_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80)
        ) {
            if let Some(stored) = Stored::decode(&bytes) {
                prop_assert_eq!(stored.encode(), bytes);
            }
        }
    }
}
