//! The background thread: writes counts to the log, folds them into the store, loads users.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gate_store::{Progress, SizeTiered, Store, TimeWindow};

use crate::delta::Delta;
use crate::error::{CloseError, StoreError};
use crate::queue::{Stop, Work};
use crate::shared::Shared;
use crate::stored::Stored;

/// Counts folded in one step, between two writes.
const FOLD_STEP: usize = 4_096;
/// Users taken in one step of the warm-up.
const WARM_STEP: usize = 1_024;
/// Records that the log merges in one step.
const MAINTAIN_RECORDS: u64 = 20_000;
const MAINTAIN_EVERY_MS: u64 = 1_000;
/// How often the store is made to survive a power cut; the log keeps what it folded for much longer.
const SYNC_EVERY_MS: u64 = 60_000;
const IDLE_WAIT: Duration = Duration::from_millis(200);
const RETRY_WAIT: Duration = Duration::from_millis(50);
/// Attempts to write once the process wants to end.
const LAST_ATTEMPTS: u32 = 20;
/// Length of a window of the log: its files go whole.
const LOG_WINDOW_MS: u64 = 900_000;

pub(crate) type Log = Store<Delta, TimeWindow>;

/// Opens the log, which keeps each count for `keep_ms` at least.
pub(crate) fn open_log(folder: &Path, keep_ms: u64) -> Result<Log, gate_store::StoreError> {
    let policy = TimeWindow {
        window_ms: LOG_WINDOW_MS,
        lateness_ms: LOG_WINDOW_MS,
        keep_ms,
        within: SizeTiered::default(),
    };
    let options = gate_store::Options::default();
    Ok(Store::open(folder, policy, options)?.0)
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    log: Log,
    /// Written, not yet in the store; ascending.
    unfolded: VecDeque<Delta>,
    unfolded_max: usize,
    /// Users whose counts must be folded before they can be loaded.
    later: Vec<u64>,
    /// Where the warm-up goes on; none when it is done.
    warm_from: Option<u64>,
    log_failed: bool,
    store_failed: bool,
    /// The latest time that was seen: the clock of the log never goes back.
    now_ms: u64,
    maintained_ms: u64,
    synced_ms: u64,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        log: Log,
        unfolded: Vec<Delta>,
        unfolded_max: usize,
    ) -> Writer {
        Writer {
            shared,
            log,
            unfolded: unfolded.into(),
            unfolded_max,
            later: Vec::new(),
            warm_from: Some(0),
            log_failed: false,
            store_failed: false,
            now_ms: 0,
            maintained_ms: 0,
            synced_ms: 0,
        }
    }

    /// Folds everything that the log has and the store has not.
    pub(crate) fn fold_all(&mut self) -> Result<(), StoreError> {
        while !self.unfolded.is_empty() {
            self.fold()?;
        }
        Ok(())
    }

    /// Works until it is stopped.
    pub(crate) fn run(mut self) -> Result<(), CloseError> {
        let mut work = Work::default();
        let mut wait = Duration::ZERO;
        loop {
            self.shared.queue.take(&mut work, wait);
            let stop = work.stop;
            if stop == Some(Stop::Drop) {
                return Ok(());
            }
            self.write(&mut work.deltas)?;
            std::mem::take(&mut self.later).into_iter().for_each(|user| self.load(user));
            work.loads.iter().for_each(|&user| self.load(user));
            self.fold_step();
            let waiting = !self.unfolded.is_empty() || !self.later.is_empty();
            let more = self.warm_step() || (waiting && !self.store_failed);
            self.maintain();
            if stop == Some(Stop::Drain) && work.deltas.is_empty() {
                return self.finish();
            }
            wait = match (more, self.store_failed) {
                (true, _) => Duration::ZERO,
                (_, true) => RETRY_WAIT,
                _ => IDLE_WAIT,
            };
        }
    }

    /// Appends a batch, again and again until it succeeds or the process ends.
    fn write(&mut self, deltas: &mut [Delta]) -> Result<(), CloseError> {
        let Some(last) = deltas.last().map(|delta| delta.seq) else { return Ok(()) };
        self.clock();
        deltas.iter_mut().for_each(|delta| delta.at_ms = self.now_ms);
        let mut attempts = 0;
        while !(self.has_fold_room() && self.append(deltas)) {
            attempts += 1;
            let stop = self.shared.queue.stopped();
            let given_up = stop == Some(Stop::Drain) && attempts >= LAST_ATTEMPTS;
            if stop == Some(Stop::Drop) || given_up {
                let unwritten = self.shared.queue.last_seq() - self.shared.queue.written();
                return Err(CloseError::Unwritten { unwritten });
            }
            std::thread::sleep(RETRY_WAIT);
        }
        self.unfolded.extend(deltas.iter());
        self.shared.queue.set_written(last);
        Ok(())
    }

    fn append(&mut self, deltas: &[Delta]) -> bool {
        let appended = self.log.append(deltas, self.now_ms);
        match &appended {
            Ok(done) if done.late > 0 => {
                tracing::error!(late = done.late, "counts came too late for the log");
                self.shared.errors.log.fetch_add(done.late, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(error) => {
                if !self.log_failed {
                    tracing::error!(%error, "counts cannot be written, trying again");
                }
                self.shared.errors.log.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.log_failed = appended.is_err();
        self.show_failing();
        appended.is_ok()
    }

    /// Folds until there is room for more; false when the store does not take it.
    fn has_fold_room(&mut self) -> bool {
        while self.unfolded.len() >= self.unfolded_max {
            self.fold_step();
            if self.store_failed {
                return false;
            }
        }
        true
    }

    fn fold_step(&mut self) {
        if self.unfolded.is_empty() {
            return;
        }
        let folded = self.fold();
        self.note_store(&folded);
    }

    /// Adds the oldest counts to the stored values, with how far that is, in one change: so each count
    /// is folded once, whatever happens.
    fn fold(&mut self) -> Result<(), StoreError> {
        let Some(step) = self.fold_step_len() else { return Ok(()) };
        let Some(seq) = self.unfolded.get(step - 1).map(|delta| delta.seq) else { return Ok(()) };
        let db = self.shared.db();
        let mut users: HashMap<u64, Stored> = HashMap::with_capacity(step);
        let mut unfoldable = 0;
        for delta in self.unfolded.iter().take(step) {
            let stored = match users.entry(delta.user) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(self.shared.stored(&db, delta.user)?)
                }
            };
            unfoldable += u64::from(!stored.count(delta.item, delta.window, delta.at_ms));
        }
        let mut changes = db.changes();
        users.iter().for_each(|(&user, stored)| changes.put(user, stored));
        changes.folded(seq);
        self.shared.commit(changes)?;
        users.keys().for_each(|&user| self.shared.filter.insert(user));
        self.shared.errors.unfoldable.fetch_add(unfoldable, Ordering::Relaxed);
        self.shared.queue.set_folded(seq);
        self.unfolded.drain(..step);
        Ok(())
    }

    /// About [`FOLD_STEP`] counts; those of one impression stay together.
    fn fold_step_len(&self) -> Option<usize> {
        let last = self.unfolded.len().min(FOLD_STEP).checked_sub(1)?;
        let seq = self.unfolded.get(last)?.seq;
        let same = self.unfolded.range(last..).take_while(|delta| delta.seq == seq).count();
        Some(last + same)
    }

    /// Brings a user from the store into memory, once everything counted is in the store.
    fn load(&mut self, user: u64) {
        let db = self.shared.db();
        if !self.may_load(user) {
            return;
        }
        let stored = match self.shared.stored(&db, user) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(%error, "a user cannot be loaded");
                self.shared.errors.store.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        // Meanwhile the user may have been counted.
        if !self.may_load(user) {
            drop(db);
            self.later.push(user);
            return;
        }
        let mut stripe = self.shared.stripe(user);
        if stripe.get(user).is_some() || stripe.admit(user, self.shared.room(now_ms())) {
            stripe.change(user, |slot| slot.fill(&stored));
        }
    }

    /// False when the user is in memory already, or has counts that are not folded.
    fn may_load(&self, user: u64) -> bool {
        let mut stripe = self.shared.stripe(user);
        let folded = self.shared.queue.folded();
        stripe.get(user).is_none_or(|slot| slot.partial && slot.delta_seq <= folded)
    }

    /// Goes once through the store: everybody into the filter, and into memory while there is room.
    /// True when there is more to do.
    fn warm_step(&mut self) -> bool {
        let Some(from) = self.warm_from else { return false };
        let db = self.shared.db();
        let found = match db.scan(from, WARM_STEP) {
            Ok(found) => found,
            Err(StoreError::Value { user }) => {
                self.shared.filter.insert(user);
                self.shared.errors.store.fetch_add(1, Ordering::Relaxed);
                self.warm_from = user.checked_add(1);
                return true;
            }
            Err(error) => {
                drop(db);
                self.note_store(&Err(error));
                return false;
            }
        };
        for (user, stored) in &found {
            self.shared.filter.insert(*user);
            let mut stripe = self.shared.stripe(*user);
            if stripe.get(*user).is_none()
                && stripe.has_room()
                && stripe.admit(*user, self.shared.room(0))
            {
                stripe.change(*user, |slot| slot.fill(stored));
            }
        }
        let last = found.last().map(|(user, _)| *user);
        self.warm_from = last.filter(|_| found.len() == WARM_STEP).and_then(|u| u.checked_add(1));
        if self.warm_from.is_none() {
            self.shared.filter.complete();
        }
        true
    }

    /// Keeps the log short. While the store takes nothing, nothing leaves the log.
    fn maintain(&mut self) {
        self.clock();
        if self.store_failed || self.now_ms < self.maintained_ms + MAINTAIN_EVERY_MS {
            return;
        }
        if self.now_ms >= self.synced_ms + SYNC_EVERY_MS {
            self.synced_ms = self.now_ms;
            let synced = self.shared.db().sync();
            self.note_store(&synced);
        }
        match self.log.maintain(self.now_ms, MAINTAIN_RECORDS) {
            Ok(Progress::Idle) => self.maintained_ms = self.now_ms,
            Ok(Progress::More) => {}
            Err(error) => {
                tracing::warn!(%error, "the log of counts cannot be tidied");
                self.shared.errors.log.fetch_add(1, Ordering::Relaxed);
                self.maintained_ms = self.now_ms;
            }
        }
    }

    /// Everything queued is written: folds it and makes it survive a power cut.
    fn finish(mut self) -> Result<(), CloseError> {
        let folded = self.fold_all().and_then(|()| self.shared.db().sync());
        self.note_store(&folded);
        let synced = self.log.sync();
        if folded.is_err() || synced.is_err() {
            return Err(CloseError::Unfolded { unfolded: self.unfolded.len() as u64 });
        }
        Ok(())
    }

    fn note_store(&mut self, done: &Result<(), StoreError>) {
        if let Err(error) = done {
            if !self.store_failed {
                tracing::error!(%error, "the store of users fails, trying again");
            }
            self.shared.errors.store.fetch_add(1, Ordering::Relaxed);
        }
        self.store_failed = done.is_err();
        self.show_failing();
    }

    fn show_failing(&self) {
        self.shared.queue.set_failing(self.log_failed || self.store_failed);
    }

    fn clock(&mut self) {
        self.now_ms = self.now_ms.max(now_ms());
    }
}
