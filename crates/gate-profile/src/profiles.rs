//! The front: what workers and the admin side call.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::db::Db;
use crate::delta::Delta;
use crate::error::{Busy, CloseError, OpenError, Refused, UpdateError};
use crate::options::Options;
use crate::profile::Profile;
use crate::queue::{Stop, distinct};
use crate::shared::{Edit, Shared};
use crate::slot::NoPlace;
use crate::stripe::Stripe;
use crate::window::Cap;
use crate::writer::{Log, Writer, now_ms, open_log};

/// Where a user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// In memory: the profile is whole.
    Hot,
    /// Never seen: the profile is empty, and that is the truth.
    New,
    /// Perhaps in the store: the profile is empty, and that is *not* the truth. The load is queued.
    /// Campaigns with caps, or with conditions on segments, do not bid this time.
    Cold,
}

/// What came of counting an impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The first notice: counted. It is on disk once [`Profiles::written`] has reached the number.
    First(u64),
    /// The hold was counted before. That count is on disk once [`Profiles::written`] has reached the number.
    Again(u64),
}

impl Counted {
    /// Acknowledge once [`Profiles::written`] has reached this.
    #[must_use]
    pub fn seq(self) -> u64 {
        match self {
            Counted::First(seq) | Counted::Again(seq) => seq,
        }
    }
}

const PAGE: &str = "/docs/profiles.md";

counters::counters! {
    /// Counters of the whole, as of now.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Figures of u64, in "profiles" {
        users: "Users in memory.", level();
        bytes: "Memory that they take, without the filter.", level(), bytes();
        filter_bytes: "Memory of the filter of stored users.", level(), bytes();
        hot: "Reads that found the user in memory.", name("reads.hot");
        new: "Reads of users never seen.", name("reads.new");
        cold: "Reads of users that had to be loaded.", name("reads.cold");
        evicted: "Users that left memory for others.";
        refused: "Users that found no room, because nobody could leave.";
        repeats: "Notices of holds that were counted before.", name("counts.repeats");
        holds_kept: "Holds that are remembered as counted.", level();
        holds_forgotten: "Times that holds were forgotten early, because there were too many.";
        uncounted: "Counts that memory or the store had no place for.", name("counts.missed");
        queued: "Counts that wait to be written.", level(), name("counts.queued"), elsewhere("weir_queue_depth");
        loads: "Users that wait to be loaded.", level();
        last_seq: "Billed impressions numbered so far.", name("counts.last");
        written: "Of these, in the log.", name("counts.written");
        folded: "Of these, in the store.", name("counts.folded");
        log_errors: "Failed operations of the log; while it fails, billing notices of capped campaigns wait.", name("errors.log"), failing("profiles_log", PAGE);
        store_errors: "Failed operations of the store.", name("errors.store"), failing("profiles_store", PAGE);
    } also {
        /// Every stored user was seen by the filter.
        pub warm: bool,
    }
}

/// All users' profiles. A clone is another handle to the same.
///
/// Workers call [`prefetch`](Profiles::prefetch), [`read`](Profiles::read), [`reserve`](Profiles::reserve),
/// [`confirm`](Profiles::confirm), [`release`](Profiles::release) and [`count`](Profiles::count); none of
/// them waits for a disk. Changing segments and [`close`](Profiles::close) do.
///
/// When the last handle goes without `close`, what was queued and not written is lost, as in a crash.
#[derive(Clone)]
pub struct Profiles {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Result<(), CloseError>>>>,
}

impl Profiles {
    /// Opens or makes the profiles in `folder`, which must be used by nobody else. It folds the counts
    /// that the log has and the store has not, at most [`Options::unfolded_max`] and a batch, and reads
    /// the log of the last [`Options::holds_kept_ms`]. Users come into memory in the background; until
    /// all were seen, whoever is not in memory is [`Presence::Cold`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(folder: &Path, options: &Options) -> Result<Profiles, OpenError> {
        options.check()?;
        std::fs::create_dir_all(folder)
            .map_err(|source| OpenError::Folder { folder: folder.into(), source })?;
        let store_error = |source| OpenError::Store { folder: folder.into(), source };
        let log_error = |source| OpenError::Log { folder: folder.into(), source: Box::new(source) };
        let db = Db::open(&folder.join("users")).map_err(store_error)?;
        let folded = db.folded().map_err(store_error)?;
        let log = open_log(&folder.join("counts"), options.holds_kept_ms).map_err(log_error)?;
        let recovered = Recovered::read(&log, folded).map_err(log_error)?;
        let shared = Arc::new(Shared::new(options, db, recovered.last_seq)?);
        recovered.remember(&shared);
        let mut writer =
            Writer::new(Arc::clone(&shared), log, recovered.unfolded, options.unfolded_max);
        writer.fold_all().map_err(store_error)?;
        let thread = std::thread::Builder::new()
            .name("profiles".into())
            .spawn(move || writer.run())
            .map_err(OpenError::Thread)?;
        let handle = Handle { shared, thread: Mutex::new(Some(thread)) };
        Ok(Profiles { handle: Arc::new(handle) })
    }

    /// Asks for the memory of all of `users` ahead of their reading, so that the waits overlap.
    #[inline]
    pub fn prefetch(&self, users: &[u64]) {
        let shared = &self.handle.shared;
        users.iter().for_each(|&user| shared.stripe(user).prefetch_index(user));
        users.iter().for_each(|&user| shared.stripe(user).prefetch_slot(user));
    }

    /// Fills `profile` with the user's segments and counters at `now_ms`, under one lock. What it
    /// then answers takes no lock.
    #[inline]
    pub fn read(&self, user: u64, now_ms: u64, profile: &mut Profile) -> Presence {
        profile.start(now_ms);
        let shared = &self.handle.shared;
        let mut stripe = shared.stripe(user);
        if stripe.read(user, now_ms, profile) {
            return Presence::Hot;
        }
        if self.is_cold(&mut stripe, user) {
            stripe.tally.cold += 1;
            drop(stripe);
            shared.queue.load(user);
            return Presence::Cold;
        }
        stripe.tally.new += 1;
        Presence::New
    }

    /// Sets one impression aside under every one of `caps`, or under none: billed impressions and
    /// reservations that have not expired together never exceed a limit. It is gone at `deadline_ms`.
    ///
    /// `hold` names it, one user's only; the same hold again, while it lives, changes nothing and succeeds. Without caps
    /// nothing is kept.
    ///
    /// # Errors
    /// [`Refused`]; nothing is set aside.
    pub fn reserve(
        &self,
        user: u64,
        hold: u64,
        caps: &[Cap],
        deadline_ms: u64,
        now_ms: u64,
    ) -> Result<(), Refused> {
        if caps.is_empty() {
            return Ok(());
        }
        let shared = &self.handle.shared;
        let mut stripe = shared.stripe(user);
        if self.is_cold(&mut stripe, user) {
            drop(stripe);
            shared.queue.load(user);
            return Err(Refused::Cold);
        }
        if stripe.get(user).is_none() && !stripe.admit(user, shared.room(now_ms)) {
            return Err(Refused::Full);
        }
        let reserve = |slot: &mut crate::slot::Slot| slot.reserve(hold, caps, deadline_ms, now_ms);
        match stripe.change(user, reserve) {
            Some(Ok(())) => Ok(()),
            Some(Err(NoPlace::Capped(which))) => Err(Refused::Capped(which)),
            Some(Err(NoPlace::Bound)) | None => Err(Refused::Full),
        }
    }

    /// The bid was won: the reservation lives until `deadline_ms`. False when it has expired or never
    /// was; a billing is then still counted, and may pass the limit.
    pub fn confirm(&self, user: u64, hold: u64, deadline_ms: u64, now_ms: u64) -> bool {
        let mut stripe = self.handle.shared.stripe(user);
        stripe.change(user, |slot| slot.confirm(hold, deadline_ms, now_ms)).unwrap_or(false)
    }

    /// The bid was lost: the places are free again. False when there was no such reservation.
    pub fn release(&self, user: u64, hold: u64) -> bool {
        let mut stripe = self.handle.shared.stripe(user);
        stripe.change(user, |slot| slot.release(hold)).unwrap_or(false)
    }

    /// The impression was billed: it counts in the windows of `now_ms`, its reservation, if one is
    /// left, goes, and the count is queued for the log. Idempotent by `hold` for
    /// [`Options::holds_kept_ms`], also across a restart: call it for every notice whose token is
    /// genuine, the first or not. A billing without a reservation counts too: the impression happened.
    ///
    /// Acknowledge the notice once [`Profiles::written`] has reached [`Counted::seq`].
    ///
    /// # Errors
    /// [`Busy`]: the queue is full, nothing changed.
    pub fn count(&self, user: u64, hold: u64, caps: &[Cap], now_ms: u64) -> Result<Counted, Busy> {
        let shared = &self.handle.shared;
        let mut stripe = shared.stripe(user);
        if stripe.counted.contains(hold) {
            stripe.tally.repeats += 1;
            return Ok(Counted::Again(shared.queue.last_seq()));
        }
        if caps.is_empty() {
            return Ok(Counted::First(0));
        }
        // Asked before the count is queued: once it is folded, the user is in the store because of it.
        let partial = self.is_cold(&mut stripe, user);
        let seq = shared.queue.push(user, hold, caps, now_ms)?;
        stripe.tally.forgotten += u64::from(stripe.counted.insert(hold, now_ms));
        if stripe.get(user).is_none() && !stripe.admit(user, shared.room(now_ms)) {
            stripe.tally.uncounted += caps.len() as u64;
            return Ok(Counted::First(seq));
        }
        let missed = stripe.change(user, |slot| {
            slot.release(hold);
            slot.partial = partial;
            slot.delta_seq = seq;
            distinct(caps).filter(|cap| !slot.count(cap.item, cap.at(now_ms), now_ms)).count()
        });
        stripe.tally.uncounted += missed.unwrap_or(0) as u64;
        Ok(Counted::First(seq))
    }

    /// All impressions up to this number survive a kill of the process.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.handle.shared.queue.written()
    }

    /// Calls `wake` from the background thread each time [`Profiles::written`] has moved. It must not block.
    pub fn on_written(&self, wake: Box<dyn Fn() + Send>) {
        self.handle.shared.queue.on_written(wake);
    }

    /// The disk refuses: [`Profiles::written`] stands still, or the store does not take what is written.
    /// It is tried again until it succeeds.
    #[must_use]
    pub fn failing(&self) -> bool {
        self.handle.shared.queue.failing()
    }

    /// Replaces a user's segments. Waits for the store; not for workers.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing changed.
    pub fn set_segments(&self, user: u64, ids: &[u32]) -> Result<(), UpdateError> {
        self.update(user, Edit::Set(ids))
    }

    /// Adds to a user's segments. Waits for the store; not for workers.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing changed.
    pub fn add_segments(&self, user: u64, ids: &[u32]) -> Result<(), UpdateError> {
        self.update(user, Edit::Add(ids))
    }

    /// Removes from a user's segments those of `ids` that are there. Waits for the store; not for workers.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing changed.
    pub fn remove_segments(&self, user: u64, ids: &[u32]) -> Result<(), UpdateError> {
        self.update(user, Edit::Remove(ids))
    }

    /// Counters of the whole. Takes every stripe's lock in turn.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let shared = &self.handle.shared;
        let (queued, loads) = shared.queue.waiting();
        let mut figures = Figures {
            filter_bytes: shared.filter.bytes() as u64,
            uncounted: shared.errors.unfoldable.load(Ordering::Relaxed),
            queued: queued as u64,
            loads: loads as u64,
            last_seq: shared.queue.last_seq(),
            written: shared.queue.written(),
            folded: shared.queue.folded(),
            log_errors: shared.errors.log.load(Ordering::Relaxed),
            store_errors: shared.errors.store.load(Ordering::Relaxed),
            warm: shared.filter.is_complete(),
            ..Figures::default()
        };
        shared.stripes().for_each(|stripe| figures.add(&stripe));
        figures
    }

    /// Writes and folds what is queued, syncs, and ends the background thread. Further counts are
    /// refused as busy; a second call does nothing.
    ///
    /// # Errors
    /// [`CloseError`]: the disk refused for a second or more.
    pub fn close(&self) -> Result<(), CloseError> {
        self.handle.end(Stop::Drain)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    fn update(&self, user: u64, edit: Edit<'_>) -> Result<(), UpdateError> {
        let too_many = |user, found| Err(UpdateError::TooMany { user, found });
        self.handle.shared.update(std::iter::once((user, edit)), too_many)
    }

    /// Not wholly in memory, and perhaps in the store.
    fn is_cold(&self, stripe: &mut Stripe, user: u64) -> bool {
        match stripe.get(user) {
            Some(slot) => slot.partial,
            None => self.handle.shared.filter.may_contain(user),
        }
    }
}

impl std::fmt::Debug for Profiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profiles").field("figures", &self.figures()).finish()
    }
}

impl Handle {
    fn end(&self, how: Stop) -> Result<(), CloseError> {
        self.shared.queue.stop(how);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = thread.map(JoinHandle::join);
        match ended {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(CloseError::Unwritten {
                unwritten: self.shared.queue.last_seq() - self.shared.queue.written(),
            }),
            None => Ok(()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.end(Stop::Drop) {
            tracing::warn!(%error, "profiles were not closed");
        }
    }
}

impl Figures {
    fn add(&mut self, stripe: &Stripe) {
        let tally = stripe.tally;
        self.users += stripe.users() as u64;
        self.bytes += stripe.bytes() as u64;
        self.hot += tally.hot;
        self.new += tally.new;
        self.cold += tally.cold;
        self.evicted += tally.evicted;
        self.refused += tally.refused;
        self.repeats += tally.repeats;
        self.holds_kept += stripe.counted.len() as u64;
        self.holds_forgotten += tally.forgotten;
        self.uncounted += tally.uncounted;
    }
}

/// What the log had at the start.
struct Recovered {
    last_seq: u64,
    unfolded: Vec<Delta>,
    holds: Vec<(u64, u64)>,
}

impl Recovered {
    fn read(log: &Log, folded: u64) -> Result<Recovered, gate_store::StoreError> {
        let mut recovered = Recovered { last_seq: folded, unfolded: Vec::new(), holds: Vec::new() };
        let each = |delta: &Delta| {
            recovered.last_seq = recovered.last_seq.max(delta.seq);
            recovered.holds.push((delta.user, delta.hold));
            if delta.seq > folded {
                recovered.unfolded.push(*delta);
            }
        };
        log.fold(now_ms(), each, |_, _| {})?;
        recovered.unfolded.sort_unstable_by_key(|delta| delta.seq);
        Ok(recovered)
    }

    fn remember(&self, shared: &Shared) {
        let now_ms = now_ms();
        for &(user, hold) in &self.holds {
            shared.stripe(user).counted.insert(hold, now_ms);
        }
    }
}
