//! What all threads share: the table in its stripes, the filter, the queue, the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use table::Secret;

use crate::SEGMENTS_MAX;
use crate::counted::CountedHolds;
use crate::db::{Changes, Db};
use crate::error::{OpenError, StoreError, UpdateError};
use crate::filter::Filter;
use crate::options::Options;
use crate::queue::Queue;
use crate::stored::Stored;
use crate::stripe::{Room, Stripe};
use crate::stripes::{STRIPES, Stripes};

pub(crate) struct Shared {
    stripes: Stripes<Stripe>,
    pub(crate) queue: Queue,
    pub(crate) filter: Filter,
    pub(crate) errors: Errors,
    /// Held while a stored value is read, changed and written, and the table with it. Taken before a
    /// stripe's lock; workers never take it.
    db: Mutex<Db>,
}

/// Failures since the start.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    pub(crate) log: AtomicU64,
    pub(crate) store: AtomicU64,
    /// Counts that were written but had no room in the user's stored value.
    pub(crate) unfoldable: AtomicU64,
}

impl Shared {
    pub(crate) fn new(options: &Options, db: Db, folded: u64) -> Result<Shared, OpenError> {
        options.check()?;
        let each = |total: usize| total / STRIPES;
        let stripe = || {
            let counted = CountedHolds::new(options.holds_kept_ms, each(options.holds_kept_max));
            let users = each(options.users_expected);
            let secret = Secret::new(options.secret);
            Stripe::new(secret, users, each(options.memory_bytes_max), counted)
        };
        Ok(Shared {
            stripes: Stripes::new(options.secret, stripe),
            queue: Queue::new(options.queue_max, options.loads_max, folded),
            filter: Filter::new(options.users_stored_expected),
            errors: Errors::default(),
            db: Mutex::new(db),
        })
    }

    #[inline]
    pub(crate) fn stripe(&self, user: u64) -> MutexGuard<'_, Stripe> {
        self.stripes.of(user)
    }

    pub(crate) fn stripes(&self) -> impl Iterator<Item = MutexGuard<'_, Stripe>> {
        self.stripes.all()
    }

    pub(crate) fn room(&self, now_ms: u64) -> Room {
        Room { now_ms, folded: self.queue.folded() }
    }

    pub(crate) fn db(&self) -> MutexGuard<'_, Db> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored value, an empty one when there is none. The caller holds the store. A damaged value
    /// is lost: it is counted, told, and taken for none, as one user must not stop all others.
    pub(crate) fn stored(&self, db: &Db, user: u64) -> Result<Stored, StoreError> {
        if !self.filter.may_contain(user) {
            return Ok(Stored::default());
        }
        match db.get(user) {
            Err(error @ StoreError::Value { .. }) => {
                tracing::error!(%error, "a user is lost");
                self.errors.store.fetch_add(1, Ordering::Relaxed);
                Ok(Stored::default())
            }
            found => Ok(found?.unwrap_or_default()),
        }
    }

    /// Changes the segments of several distinct users, in the store and then in memory; all or none of them.
    /// One who would have too many is left as he is if `too_many` says so.
    pub(crate) fn update<'a>(
        &self,
        users: impl Iterator<Item = (u64, Edit<'a>)>,
        mut too_many: impl FnMut(u64, usize) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        let db = self.db();
        let mut changes = db.changes();
        let mut done = Vec::new();
        for (user, edit) in users {
            let mut stored = self.stored(&db, user)?;
            edit.apply(&mut stored.segments);
            if stored.segments.len() > SEGMENTS_MAX {
                too_many(user, stored.segments.len())?;
                continue;
            }
            changes.put(user, &stored);
            done.push((user, stored));
        }
        self.commit(changes)?;
        for (user, stored) in done {
            self.filter.insert(user);
            self.show_segments(user, &stored);
        }
        Ok(())
    }

    pub(crate) fn commit(&self, changes: Changes<'_>) -> Result<(), StoreError> {
        changes.commit().inspect_err(|_| {
            self.errors.store.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Brings memory in line with a changed stored value. One who is not there comes in while there
    /// is room without evicting others, if all that was counted is in the value.
    fn show_segments(&self, user: u64, stored: &Stored) {
        let mut stripe = self.stripe(user);
        let set = |slot: &mut crate::slot::Slot| {
            if !slot.partial {
                slot.set_segments(&stored.segments);
            }
        };
        let absent = stripe.change(user, set).is_none();
        if absent && stripe.has_room() && stripe.admit(user, self.room(0)) {
            stripe.change(user, |slot| slot.fill(stored));
        }
    }
}

/// A change of one user's segments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit<'a> {
    Set(&'a [u32]),
    Add(&'a [u32]),
    Remove(&'a [u32]),
}

impl Edit<'_> {
    fn apply(self, segments: &mut Vec<u32>) {
        match self {
            Edit::Set(ids) => {
                segments.clear();
                segments.extend_from_slice(ids);
            }
            Edit::Add(ids) => segments.extend_from_slice(ids),
            Edit::Remove(ids) => segments.retain(|segment| !ids.contains(segment)),
        }
        segments.sort_unstable();
        segments.dedup();
    }
}
