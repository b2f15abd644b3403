//! One of 256 parts of the table: an index, the users' slots, and which holds were counted.

use table::{Map, Secret};

use crate::counted::CountedHolds;
use crate::profile::Profile;
use crate::slot::Slot;

/// Slots that are looked at to find one that may go.
const HAND_STEPS_MAX: usize = 64;
/// Slots that are added at once, at least.
const GROWTH_MIN: usize = 16;

/// What decides whether a user may leave memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) now_ms: u64,
    /// All deltas up to this one are folded into the store.
    pub(crate) folded: u64,
}

#[derive(Debug)]
pub(crate) struct Stripe {
    index: Map<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Where the search for a user to evict goes on.
    hand: usize,
    block_bytes: usize,
    bytes_max: usize,
    pub(crate) counted: CountedHolds,
    pub(crate) tally: Tally,
}

/// What happened in a stripe; plain numbers, as the lock is held anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) hot: u64,
    pub(crate) new: u64,
    pub(crate) cold: u64,
    pub(crate) evicted: u64,
    pub(crate) refused: u64,
    pub(crate) repeats: u64,
    pub(crate) uncounted: u64,
    pub(crate) forgotten: u64,
}

impl Stripe {
    pub(crate) fn new(
        secret: Secret,
        users: usize,
        bytes_max: usize,
        counted: CountedHolds,
    ) -> Stripe {
        Stripe {
            index: Map::with_capacity(secret, users),
            slots: Vec::with_capacity(users),
            free: Vec::new(),
            hand: 0,
            block_bytes: 0,
            bytes_max,
            counted,
            tally: Tally::default(),
        }
    }

    pub(crate) fn users(&self) -> usize {
        self.index.len()
    }

    /// Bytes of index, slots and blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes() + self.slots.capacity() * size_of::<Slot>() + self.block_bytes
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.bytes() + size_of::<Slot>() <= self.bytes_max
    }

    pub(crate) fn prefetch_index(&self, user: u64) {
        self.index.prefetch(user);
    }

    pub(crate) fn prefetch_slot(&self, user: u64) {
        if let Some(at) = self.index.get(user) {
            self.slots[at as usize].prefetch();
        }
    }

    /// Copies a whole user into `profile`; false when there is none or only a part of one.
    #[inline]
    pub(crate) fn read(&mut self, user: u64, now_ms: u64, profile: &mut Profile) -> bool {
        let Some(slot) = self.get(user).filter(|slot| !slot.partial) else { return false };
        slot.read(now_ms, profile);
        slot.referenced = true;
        self.tally.hot += 1;
        true
    }

    #[inline]
    pub(crate) fn get(&mut self, user: u64) -> Option<&mut Slot> {
        let at = self.index.get(user)?;
        self.slots.get_mut(at as usize)
    }

    /// The user's slot after `change`, whose blocks are accounted for.
    pub(crate) fn change<T>(
        &mut self,
        user: u64,
        change: impl FnOnce(&mut Slot) -> T,
    ) -> Option<T> {
        let at = self.index.get(user)? as usize;
        let slot = &mut self.slots[at];
        let before = slot.block_bytes();
        let done = change(slot);
        self.block_bytes = self.block_bytes - before + slot.block_bytes();
        Some(done)
    }

    /// Makes an empty slot for a user who has none; false when memory is full of users who must stay.
    pub(crate) fn admit(&mut self, user: u64, room: Room) -> bool {
        if !self.has_room() && !self.evict(room) {
            self.tally.refused += 1;
            return false;
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Slot::new(user);
                at
            }
            None => self.push(user),
        };
        self.index.insert(user, at);
        true
    }

    fn push(&mut self, user: u64) -> u32 {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact((self.slots.len() / 8).max(GROWTH_MIN));
        }
        self.slots.push(Slot::new(user));
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Second chance: goes round, passes those read since the last time, takes the first who may go;
    /// when all were read, the first of those.
    fn evict(&mut self, room: Room) -> bool {
        let mut fallback = None;
        for _ in 0..HAND_STEPS_MAX.min(self.slots.len()) {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[at];
            let was_read = std::mem::take(&mut slot.referenced);
            if !may_go(slot, room) {
                continue;
            }
            fallback.get_or_insert(at);
            if !was_read {
                fallback = Some(at);
                break;
            }
        }
        let Some(at) = fallback else { return false };
        self.remove(at);
        self.tally.evicted += 1;
        true
    }

    fn remove(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        self.block_bytes -= slot.block_bytes();
        self.index.remove(slot.user);
        *slot = Slot::new(0);
        slot.used = false;
        self.free.push(u32::try_from(at).unwrap_or(u32::MAX));
    }
}

/// Nothing of the user is in memory alone.
fn may_go(slot: &Slot, room: Room) -> bool {
    slot.used && slot.delta_seq <= room.folded && !slot.has_live_reservation(room.now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Cap, Window};

    const CAP: Cap = Cap { item: 1, window: Window::Lifetime, limit: 9, offset_minutes: 0 };
    const ROOM: Room = Room { now_ms: 0, folded: 0 };

    fn full_stripe() -> (Stripe, Vec<u64>) {
        let mut stripe = Stripe::new(Secret::new(1), 4, 20_000, CountedHolds::new(1, 1));
        let users: Vec<u64> =
            (0..).take_while(|&user| stripe.has_room() && stripe.admit(user, ROOM)).collect();
        (stripe, users)
    }

    #[test]
    fn users_with_reservations_or_unfolded_counts_stay_and_others_go() {
        let (mut stripe, users) = full_stripe();
        let (reserved, counted) = (users[0], users[1]);
        assert!(stripe.change(reserved, |slot| slot.reserve(1, &[CAP], 100, 0)).unwrap().is_ok());
        stripe.change(counted, |slot| slot.delta_seq = 7);
        for user in 10_000..10_000 + 3 * users.len() as u64 {
            assert!(stripe.admit(user, ROOM));
        }
        assert!(stripe.get(reserved).is_some() && stripe.get(counted).is_some());
        assert_eq!(stripe.users(), users.len());
        let later = Room { now_ms: 100, folded: 7 };
        for user in 20_000..20_000 + 3 * users.len() as u64 {
            assert!(stripe.admit(user, later));
        }
        assert!(stripe.get(reserved).is_none() && stripe.get(counted).is_none());
        assert!(stripe.bytes() <= stripe.bytes_max + stripe.index.bytes());
    }

    #[test]
    fn when_everybody_must_stay_nobody_is_let_in() {
        let (mut stripe, users) = full_stripe();
        for &user in &users {
            stripe.change(user, |slot| slot.delta_seq = 1);
        }
        assert!(!stripe.admit(99_999, ROOM));
        assert_eq!(stripe.tally.refused, 1);
    }
}
