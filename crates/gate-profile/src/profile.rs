//! What a worker sees of one user while it decides a request.

use crate::window::{Cap, WindowId};
use crate::{COUNTERS_MAX, SEGMENTS_MAX};

/// A user as of one moment: the work space of a worker, filled by [`Profiles::read`](crate::Profiles::read)
/// and used again for the next request without allocating.
#[derive(Clone, Debug)]
pub struct Profile {
    now_ms: u64,
    pub(crate) segments: Vec<u32>,
    pub(crate) counters: Vec<Live>,
    /// One bit of 64 for each item that is counted: most candidates were never shown to this user.
    items: u64,
}

/// A counter with its live reservations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) item: u64,
    pub(crate) window: WindowId,
    pub(crate) count: u32,
    pub(crate) reserved: u32,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            now_ms: 0,
            segments: Vec::with_capacity(SEGMENTS_MAX),
            counters: Vec::with_capacity(COUNTERS_MAX),
            items: 0,
        }
    }
}

impl Profile {
    /// The user's segments, ascending; see [`segment_key`](crate::segment_key).
    #[must_use]
    pub fn segments(&self) -> &[u32] {
        &self.segments
    }

    /// True when one of `caps` has no place left, as of the reading. The worker that bids must still
    /// [`reserve`](crate::Profiles::reserve): others may have taken the place meanwhile.
    #[inline]
    #[must_use]
    pub fn capped(&self, caps: &[Cap]) -> bool {
        let full = |cap: &Cap| {
            if self.may_count(cap.item) { cap.is_full(self.look_up(cap)) } else { cap.limit == 0 }
        };
        caps.iter().any(full)
    }

    /// Can one of the caps of these [`cap_items`] be full? False means that none is, so that they need not be looked at.
    #[inline]
    #[must_use]
    pub fn may_be_capped(&self, cap_items: u64) -> bool {
        (self.items | ALLOWS_NONE) & cap_items != 0
    }

    /// Impressions billed in the cap's window, plus live reservations. In a rolling one what was billed counts up to a
    /// seventh of the window longer.
    #[inline]
    #[must_use]
    pub fn used(&self, cap: &Cap) -> u32 {
        if self.may_count(cap.item) { self.look_up(cap) } else { 0 }
    }

    #[inline]
    fn may_count(&self, item: u64) -> bool {
        self.items & item_bit(item) != 0
    }

    fn look_up(&self, cap: &Cap) -> u32 {
        let window = cap.at(self.now_ms);
        let same = |live: &&Live| live.item == cap.item && live.window.same_kind(window);
        self.counters.iter().find(same).map_or(0, |live| {
            // A window after ours means that the clock went back: what is counted there holds.
            let billed = if live.window >= window { live.count } else { 0 };
            billed.saturating_add(live.reserved)
        })
    }

    /// Nothing is known of anybody: for requests without a user.
    pub fn clear(&mut self) {
        self.start(0);
    }

    /// Empties it for a reading at `now_ms`.
    pub(crate) fn start(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.segments.clear();
        self.counters.clear();
        self.items = 0;
    }

    pub(crate) fn push(&mut self, live: Live) {
        self.items |= item_bit(live.item);
        self.counters.push(live);
    }
}

/// What caps count, hashed to the bits of a word: [`Profile::may_be_capped`] compares it with what a profile counts. 0 without caps.
#[must_use]
pub fn cap_items(caps: &[Cap]) -> u64 {
    let bits = |cap: &Cap| item_bit(cap.item) | if cap.limit == 0 { ALLOWS_NONE } else { 0 };
    caps.iter().map(bits).fold(0, |all, bits| all | bits)
}

/// The bit of caps that allow no impression, whatever was counted; items have the others.
const ALLOWS_NONE: u64 = 1 << 63;

fn item_bit(item: u64) -> u64 {
    1 << (((item.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * 63) >> 32)
}
