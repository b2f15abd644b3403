//! Sums of holds by deadline: expiry without one object per hold.

/// The amounts that expire, summed by (slot, deadline).
///
/// A worker has `slots` purses; a hold adds its amount to the bucket of its deadline, and when the
/// deadline has passed the whole sum goes back at once. Deadlines are multiples of `width_ms`, and a
/// ring of `buckets` of them is live: after [`Buckets::drain_due`] saw `now`, those in
/// `(now, now + buckets * width_ms]`.
///
/// Memory: 12 bytes a (slot, bucket), 8 bytes per slot, and one bit with its share of a summary bit;
/// 50,000 slots x 16 buckets take 9.6 MiB. Nothing allocates except [`Buckets::new`] and
/// [`Buckets::grow`].
///
/// The slots with something in a bucket are marked in a two-level bitmap, so a drain visits these
/// and, beside them, one word for every 4,096 slots. It visits in slot order, whatever order the holds
/// came in: the same books give the same journal.
#[derive(Debug)]
pub struct Buckets {
    width_ms: u64,
    ring: Vec<Bucket>,
    /// Live total of each slot.
    sums: Vec<i64>,
    /// The last tick (deadline / width) that has been drained; none before the first drain.
    drained: Option<u64>,
    /// The place of the last deadline that was booked: the holds of one moment share it, and finding it
    /// takes a division. Forgotten at every drain.
    last: Option<Place>,
}

/// Where the holds of one deadline are.
#[derive(Clone, Copy, Debug)]
struct Place {
    deadline_ms: u64,
    tick: u64,
    at: usize,
}

/// Why [`Buckets`] did not book a hold. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// No such slot.
    #[error("slot {slot} does not exist, there are {slots}; grow the buckets first")]
    NoSlot {
        /// The slot asked for.
        slot: u32,
        /// How many there are.
        slots: usize,
    },
    /// The deadline is no multiple of the width.
    #[error("deadline {deadline_ms} ms is no multiple of {width_ms} ms; take it from deadline_for")]
    NotAligned {
        /// The deadline asked for, ms.
        deadline_ms: u64,
        /// The width of a bucket, ms.
        width_ms: u64,
    },
    /// The deadline has been drained already.
    #[error("deadline {deadline_ms} ms has passed: drained up to {drained_ms} ms")]
    Past {
        /// The deadline asked for, ms.
        deadline_ms: u64,
        /// The last deadline drained, ms.
        drained_ms: u64,
    },
    /// The deadline lies beyond the ring.
    #[error(
        "deadline {deadline_ms} ms is beyond the ring of {span_ms} ms; shorten the hold, widen the \
         buckets, or call drain_due with the time of now"
    )]
    TooFar {
        /// The deadline asked for, ms.
        deadline_ms: u64,
        /// What the ring spans, ms.
        span_ms: u64,
    },
    /// The sum or the count would overflow, or fall below what was added.
    #[error("slot {slot}: the sum or the number of holds would leave its range")]
    Range {
        /// The slot asked for.
        slot: u32,
    },
}

#[derive(Debug)]
struct Bucket {
    /// Deadline / width of what is in it; meaningless while nothing is.
    tick: u64,
    cells: Vec<Cell>,
    dirty: Bitmap,
}

/// Sum and number of holds of one slot: 12 bytes, not the 16 that an aligned i64 would make of it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Cell {
    amount: [u32; 2],
    holds: u32,
}

const _: () = assert!(size_of::<Cell>() == 12);

impl Buckets {
    /// Buckets for `slots` slots, `width_ms` wide (at least 1), `buckets` of them (rounded up to a
    /// power of two, at least 2).
    #[must_use]
    pub fn new(slots: usize, width_ms: u64, buckets: usize) -> Buckets {
        let count = buckets.next_power_of_two().max(2);
        let ring = (0..count).map(|_| Bucket::new(slots)).collect();
        Buckets { width_ms: width_ms.max(1), ring, sums: vec![0; slots], drained: None, last: None }
    }

    /// The deadline of a hold of `hold_ms` that starts at `now_ms`: rounded UP to the width, so a
    /// hold never ends early. Stays at the last multiple of the width that a u64 has, which
    /// [`Buckets::add`] refuses.
    #[inline]
    #[must_use]
    pub fn deadline_for(&self, now_ms: u64, hold_ms: u64) -> u64 {
        let exact = now_ms.saturating_add(hold_ms);
        exact.div_ceil(self.width_ms).min(u64::MAX / self.width_ms) * self.width_ms
    }

    /// The longest hold that always fits the ring, ms; the rounding takes up to one width.
    #[must_use]
    pub fn hold_ms_max(&self) -> u64 {
        self.span_ms() - self.width_ms
    }

    /// Books one hold: adds `amount` (micros or a count, the caller's unit) to `slot` at
    /// `deadline_ms`.
    ///
    /// # Errors
    /// Every [`BucketError`]; then nothing has changed.
    #[inline]
    pub fn add(&mut self, slot: u32, deadline_ms: u64, amount: i64) -> Result<(), BucketError> {
        let Place { at, tick, .. } = match self.last {
            Some(place) if place.deadline_ms == deadline_ms && self.holds_slot(slot) => place,
            _ => self.place(slot, deadline_ms)?,
        };
        self.last = Some(Place { deadline_ms, tick, at });
        let range = BucketError::Range { slot };
        let sum = self.sums[slot as usize].checked_add(amount).ok_or(range)?;
        let bucket = &mut self.ring[at];
        let cell = &mut bucket.cells[slot as usize];
        let cell_sum = cell.amount().checked_add(amount).ok_or(range)?;
        let holds = cell.holds.checked_add(1).ok_or(range)?;
        if cell.holds == 0 {
            bucket.dirty.set(slot);
        }
        bucket.tick = tick;
        *cell = Cell::new(cell_sum, holds);
        self.sums[slot as usize] = sum;
        Ok(())
    }

    /// Takes one hold of `amount` back out of (slot, deadline), as after a release or a confirm.
    ///
    /// # Errors
    /// As [`Buckets::add`]; [`BucketError::Range`] when no hold is booked there, or when the last one
    /// leaves and its amount is not the rest of the sum.
    #[inline]
    pub fn remove(&mut self, slot: u32, deadline_ms: u64, amount: i64) -> Result<(), BucketError> {
        let Place { at, .. } = self.place(slot, deadline_ms)?;
        let range = BucketError::Range { slot };
        let sum = self.sums[slot as usize].checked_sub(amount).ok_or(range)?;
        let bucket = &mut self.ring[at];
        let cell = &mut bucket.cells[slot as usize];
        let cell_sum = cell.amount().checked_sub(amount).ok_or(range)?;
        let holds = cell.holds.checked_sub(1).ok_or(range)?;
        if holds == 0 && cell_sum != 0 {
            return Err(range);
        }
        if holds == 0 {
            bucket.dirty.clear(slot);
        }
        *cell = Cell::new(cell_sum, holds);
        self.sums[slot as usize] = sum;
        Ok(())
    }

    /// Live total of a slot over all its deadlines; 0 for a slot that does not exist.
    #[inline]
    #[must_use]
    pub fn sum(&self, slot: u32) -> i64 {
        self.sums.get(slot as usize).copied().unwrap_or(0)
    }

    /// Takes all that `slot` has at `deadline_ms` out and returns it; 0 when nothing is there.
    pub fn take(&mut self, slot: u32, deadline_ms: u64) -> i64 {
        match self.place(slot, deadline_ms) {
            Ok(Place { at, .. }) => self.empty_cell(at, slot).amount(),
            Err(_) => 0,
        }
    }

    /// Hands out everything whose deadline is at or before `now_ms`: one call of
    /// `give(slot, deadline_ms, amount, holds)` for each slot and deadline, earliest deadline first,
    /// slots ascending. A `now_ms` far ahead drains everything, once; one that went back does
    /// nothing.
    pub fn drain_due(&mut self, now_ms: u64, give: &mut impl FnMut(u32, u64, i64, u32)) {
        self.last = None;
        let now = now_ms / self.width_ms;
        if self.drained.is_some_and(|drained| now <= drained) {
            return;
        }
        self.drained = Some(now);
        while let Some(at) = self.earliest_due(now) {
            let Bucket { tick, cells, dirty } = &mut self.ring[at];
            let deadline_ms = *tick * self.width_ms;
            dirty.drain(|slot| {
                let cell = core::mem::take(&mut cells[slot as usize]);
                // Cannot leave the range: the parts of a sum were checked when they were added.
                self.sums[slot as usize] -= cell.amount();
                give(slot, deadline_ms, cell.amount(), cell.holds);
            });
        }
    }

    /// Hands out everything that `slot` has, due or not, earliest deadline first; as
    /// [`Buckets::drain_due`].
    pub fn drain_slot(&mut self, slot: u32, give: &mut impl FnMut(u32, u64, i64, u32)) {
        while let Some(at) = self.earliest_of(slot) {
            let deadline_ms = self.ring[at].tick * self.width_ms;
            let cell = self.empty_cell(at, slot);
            give(slot, deadline_ms, cell.amount(), cell.holds);
        }
    }

    /// Makes room for `slots` slots in all; existing ones keep what they have. Allocates: for the
    /// moment when a new configuration is taken over. Fewer than there are changes nothing.
    pub fn grow(&mut self, slots: usize) {
        if slots <= self.sums.len() {
            return;
        }
        self.sums.resize(slots, 0);
        for bucket in &mut self.ring {
            bucket.cells.resize(slots, Cell::default());
            bucket.dirty.grow(slots);
        }
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.sums.len()
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let buckets: usize = self.ring.iter().map(Bucket::bytes).sum();
        buckets + self.sums.len() * size_of::<i64>()
    }

    fn span_ms(&self) -> u64 {
        self.width_ms.saturating_mul(self.ring.len() as u64)
    }

    /// Asks for the memory that [`Buckets::add`] will touch for this slot and the deadline booked last.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        let index = slot as usize;
        if let (Some(place), Some(sum)) = (self.last, self.sums.get(index)) {
            crate::prefetch(sum);
            crate::prefetch(&self.ring[place.at].cells[index]);
        }
    }

    fn holds_slot(&self, slot: u32) -> bool {
        (slot as usize) < self.sums.len()
    }

    /// The bucket of a deadline and its tick, or why it has none.
    #[inline]
    fn place(&self, slot: u32, deadline_ms: u64) -> Result<Place, BucketError> {
        if !self.holds_slot(slot) {
            return Err(BucketError::NoSlot { slot, slots: self.sums.len() });
        }
        let tick = deadline_ms / self.width_ms;
        if tick * self.width_ms != deadline_ms {
            return Err(BucketError::NotAligned { deadline_ms, width_ms: self.width_ms });
        }
        let too_far = BucketError::TooFar { deadline_ms, span_ms: self.span_ms() };
        if let Some(drained) = self.drained {
            if tick <= drained {
                let drained_ms = drained * self.width_ms;
                return Err(BucketError::Past { deadline_ms, drained_ms });
            }
            if tick - drained > self.ring.len() as u64 {
                return Err(too_far);
            }
        }
        #[allow(clippy::cast_possible_truncation, reason = "only the low bits are used")]
        let at = tick as usize & (self.ring.len() - 1);
        let bucket = &self.ring[at];
        // Only before the first drain can another deadline sit here; never mix the two.
        if bucket.tick != tick && !bucket.dirty.is_empty() {
            return Err(too_far);
        }
        Ok(Place { deadline_ms, tick, at })
    }

    fn empty_cell(&mut self, at: usize, slot: u32) -> Cell {
        let bucket = &mut self.ring[at];
        let cell = core::mem::take(&mut bucket.cells[slot as usize]);
        bucket.dirty.clear(slot);
        // Cannot leave the range: the parts of a sum were checked when they were added.
        self.sums[slot as usize] -= cell.amount();
        cell
    }

    fn earliest_due(&self, now: u64) -> Option<usize> {
        let live = |at: &usize| !self.ring[*at].dirty.is_empty() && self.ring[*at].tick <= now;
        (0..self.ring.len()).filter(live).min_by_key(|&at| self.ring[at].tick)
    }

    fn earliest_of(&self, slot: u32) -> Option<usize> {
        let has = |at: &usize| {
            self.ring[*at].cells.get(slot as usize).is_some_and(|cell| cell.holds != 0)
        };
        (0..self.ring.len()).filter(has).min_by_key(|&at| self.ring[at].tick)
    }
}

impl Bucket {
    fn new(slots: usize) -> Bucket {
        Bucket { tick: 0, cells: vec![Cell::default(); slots], dirty: Bitmap::new(slots) }
    }

    fn bytes(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.dirty.bytes()
    }
}

impl Cell {
    #[inline]
    fn new(amount: i64, holds: u32) -> Cell {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the two halves of the bit pattern; `amount` puts them together again"
        )]
        let amount = [amount as u32, (amount >> 32) as u32];
        Cell { amount, holds }
    }

    #[inline]
    fn amount(self) -> i64 {
        (u64::from(self.amount[0]) | u64::from(self.amount[1]) << 32).cast_signed()
    }
}

/// A set of slots: a bit each, and a summary bit for each word of them.
#[derive(Debug)]
struct Bitmap {
    words: Vec<u64>,
    summary: Vec<u64>,
    /// Number of bits set.
    count: usize,
}

impl Bitmap {
    fn new(slots: usize) -> Bitmap {
        let mut map = Bitmap { words: Vec::new(), summary: Vec::new(), count: 0 };
        map.grow(slots);
        map
    }

    fn grow(&mut self, slots: usize) {
        let words = slots.div_ceil(64);
        self.words.resize(words, 0);
        self.summary.resize(words.div_ceil(64), 0);
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slot must be clear; every caller knows whether it is.
    #[inline]
    fn set(&mut self, slot: u32) {
        let word = slot as usize / 64;
        self.words[word] |= 1 << (slot % 64);
        self.summary[word / 64] |= 1 << (word % 64);
        self.count += 1;
    }

    #[inline]
    fn clear(&mut self, slot: u32) {
        let word = slot as usize / 64;
        let bit = 1 << (slot % 64);
        if self.words[word] & bit == 0 {
            return;
        }
        self.words[word] &= !bit;
        self.count -= 1;
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// Clears all that are set, in order, a word at a time.
    fn drain(&mut self, mut each: impl FnMut(u32)) {
        self.count = 0;
        for (at, summary) in self.summary.iter_mut().enumerate() {
            while *summary != 0 {
                let word = at * 64 + summary.trailing_zeros() as usize;
                *summary &= *summary - 1;
                let mut bits = core::mem::take(&mut self.words[word]);
                while bits != 0 {
                    let slot = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    #[allow(
                        clippy::cast_possible_truncation,
                        reason = "slots are counted in 32 bits"
                    )]
                    each(slot as u32);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        (self.words.len() + self.summary.len()) * size_of::<u64>()
    }
}
