//! What became of each budget minute by minute, kept on disk for some days.
//!
//! A minute is written in one batch, which is there as a whole after a kill or not at all; it is not forced to the disk,
//! so that a power cut may cost the last ones. Each UTC day has a keyspace of its own: keys are a budget and a minute of
//! the day, so that a budget's day is read in one piece, and a day that is too old is dropped whole. One more keyspace
//! says which minutes were recorded at all: where a budget has nothing in such a minute, nothing happened.

mod encoding;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use encoding::{MINUTES_OF_DAY, Recorded};

/// Bytes of blocks that are kept in memory for queries.
const CACHE_BYTES: u64 = 16 << 20;
/// Bytes of a day in memory before they become a file.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// Bytes of the log of what is only in memory; the least that the store allows.
const JOURNAL_BYTES: u64 = 64 << 20;
/// A budget's day is read from its beginning to its end: larger blocks pack better.
const BLOCK_BYTES: u32 = 16 << 10;
/// The keyspace of recorded minutes; those of days are called `day-N`, days since 1970.
const RECORDED: &str = "recorded";
const DAY: &str = "day-";
/// Points of one query: seven days of minutes.
pub const POINTS_MAX: u64 = 7 * MINUTES_OF_DAY;

/// One minute of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Minute {
    /// Spent in the pacing window by the minute's end, base units.
    pub spent: i64,
    /// What the plan would have spent by then; `None` without a plan.
    pub planned: Option<i64>,
    /// Asks in the minute.
    pub asks: u32,
    /// Of these granted; for a campaign: bids.
    pub grants: u32,
    /// Won.
    pub wins: u32,
    /// Refused.
    pub refusals: u32,
    /// 99 of 100 answers took at most so long, µs.
    pub latency_p99_us: u32,
}

/// What a budget did in one step of a query. Everything is `None` where no minute of it was recorded; `spent` and
/// `planned` are also where nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Point {
    /// The first minute of the step, since 1970 UTC.
    pub minute: u64,
    /// Spent in the pacing window at the last minute in which something happened, base units.
    pub spent: Option<i64>,
    /// The plan there.
    pub planned: Option<i64>,
    /// Sums over the step.
    pub counts: Option<Counts>,
}

/// Sums over the recorded minutes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "as in Minute")]
pub struct Counts {
    pub asks: u64,
    pub grants: u64,
    pub wins: u64,
    pub refusals: u64,
    /// The highest of the minutes.
    pub latency_p99_us: u32,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Minutes of a step.
    pub step: u64,
    /// The first minute that could be known; older days are dropped, or nothing is recorded yet: then the query's end.
    pub kept_from: u64,
    /// Step by step, oldest first, from `kept_from` on.
    pub points: Vec<Point>,
}

/// The history cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the history in {folder}: {source}; check path, permissions and free space; a damaged one can be removed while the node is stopped: charts begin anew, no money is in it"
)]
pub struct HistoryError {
    /// Which.
    folder: PathBuf,
    /// Why.
    source: Box<fjall::Error>,
}

/// A minute is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store failed, and refuses further writes until the node starts again.
    #[error(
        "the history cannot be written: {0}; check the disk and its free space, then start the node again"
    )]
    Store(Box<fjall::Error>),
    /// No clock shows this.
    #[error("minute {minute} since 1970 is impossible; check the clock")]
    Minute {
        /// It.
        minute: u64,
    },
}

/// A query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The store failed.
    #[error("the history cannot be read: {0}; check the disk")]
    Store(Box<fjall::Error>),
    /// A value is not one.
    #[error(
        "the history of budget {budget} at minute {minute} is damaged; remove the history's folder to begin anew"
    )]
    Damaged {
        /// Whose.
        budget: u64,
        /// When, minutes since 1970.
        minute: u64,
    },
    /// A step of no time.
    #[error("a step of 0 minutes, expected 1 or more")]
    Step,
    /// More than a chart shows.
    #[error("{points} points, expected at most {POINTS_MAX}: take a longer step or a shorter time")]
    Points {
        /// How many it would be.
        points: u64,
    },
}

macro_rules! from_store {
    ($($error:ident),*) => {$(
        impl From<fjall::Error> for $error {
            fn from(error: fjall::Error) -> $error {
                $error::Store(Box::new(error))
            }
        }
    )*};
}
from_store!(RecordError, QueryError);

/// The kept minutes. Calls block for as long as the disk needs.
pub struct History {
    database: Database,
    recorded: Keyspace,
    /// By day since 1970.
    days: Mutex<BTreeMap<u32, Keyspace>>,
    keep_days: u32,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("keep_days", &self.keep_days).finish_non_exhaustive()
    }
}

impl History {
    /// Opens or makes it. It keeps the newest recorded day and those before it, `keep_days` in all, at least one.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(folder: &Path, keep_days: u32) -> Result<History, HistoryError> {
        History::recover(folder, keep_days.max(1))
            .map_err(|source| HistoryError { folder: folder.to_owned(), source: Box::new(source) })
    }

    fn recover(folder: &Path, keep_days: u32) -> fjall::Result<History> {
        let builder = Database::builder(folder).worker_threads(1).cache_size(CACHE_BYTES);
        let database = builder.max_journaling_size(JOURNAL_BYTES).open()?;
        let recorded = database.keyspace(RECORDED, options)?;
        let mut days = BTreeMap::new();
        for name in database.list_keyspace_names() {
            if let Some(day) = name.strip_prefix(DAY).and_then(|day| day.parse().ok()) {
                days.insert(day, database.keyspace(&name, options)?);
            }
        }
        let history = History { database, recorded, days: Mutex::new(days), keep_days };
        history.drop_old(&mut history.lock())?;
        Ok(history)
    }

    /// Keeps a minute (since 1970 UTC): the budgets in which something happened, each once. A budget without a row had
    /// no ask in it. Of the same minute, what is recorded last holds; one that is older than what is kept is ignored.
    ///
    /// # Errors
    /// See [`RecordError`]; nothing of the minute is kept then.
    pub fn record(&self, minute: u64, rows: &[(u64, Minute)]) -> Result<(), RecordError> {
        let (day, of_day) = split(minute).ok_or(RecordError::Minute { minute })?;
        let mut days = self.lock();
        if days.keys().next_back().is_some_and(|&newest| day < self.oldest_kept(newest)) {
            return Ok(());
        }
        let keyspace = match days.get(&day) {
            Some(keyspace) => keyspace.clone(),
            None => self.database.keyspace(&format!("{DAY}{day}"), options)?,
        };
        let mut recorded = self.recorded_of(day)?;
        recorded.insert(of_day);
        let mut batch = self.database.batch();
        for (budget, row) in rows {
            batch.insert(&keyspace, encoding::key(*budget, of_day), encoding::value(row));
        }
        batch.insert(&self.recorded, day.to_be_bytes(), recorded.bytes());
        batch.commit()?;
        if days.insert(day, keyspace).is_none() {
            self.drop_old(&mut days)?;
        }
        Ok(())
    }

    /// What a budget did from minute `from` to before minute `to` (since 1970 UTC), in steps of `step` minutes that begin
    /// at multiples of it.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn query(&self, budget: u64, from: u64, to: u64, step: u64) -> Result<Series, QueryError> {
        let days = self.lock().clone();
        let oldest = days.keys().next().map_or(to, |&day| u64::from(day) * MINUTES_OF_DAY);
        let mut series = empty(from.max(oldest.min(to)), to, step)?;
        series.kept_from = oldest;
        for (&day, keyspace) in &days {
            self.add_day(&mut series, budget, day, keyspace, to)?;
        }
        Ok(series)
    }

    fn add_day(
        &self,
        series: &mut Series,
        budget: u64,
        day: u32,
        keyspace: &Keyspace,
        to: u64,
    ) -> Result<(), QueryError> {
        let first = u64::from(day) * MINUTES_OF_DAY;
        let from = series.points.first().map_or(to, |point| point.minute);
        let (begin, end) = (from.max(first), to.min(first + MINUTES_OF_DAY));
        if begin >= end {
            return Ok(());
        }
        for minute in self.recorded_of(day)?.minutes().map(|of_day| first + u64::from(of_day)) {
            if let Some(point) = point_at(series, minute).filter(|_| (begin..end).contains(&minute))
            {
                point.counts.get_or_insert_default();
            }
        }
        let key =
            |minute: u64| encoding::key(budget, u16::try_from(minute - first).unwrap_or(u16::MAX));
        for entry in keyspace.range(key(begin)..=key(end - 1)) {
            let (key, value) = entry.into_inner()?;
            let minute = first + u64::from(encoding::minute_of_key(&key).unwrap_or_default());
            let row = encoding::read(&value).ok_or(QueryError::Damaged { budget, minute })?;
            if let Some(point) = point_at(series, minute) {
                point.add(&row);
            }
        }
        Ok(())
    }

    fn recorded_of(&self, day: u32) -> fjall::Result<Recorded> {
        let bytes = self.recorded.get(day.to_be_bytes())?;
        Ok(bytes.map(|bytes| Recorded::read(&bytes)).unwrap_or_default())
    }

    fn oldest_kept(&self, newest: u32) -> u32 {
        newest.saturating_sub(self.keep_days - 1)
    }

    fn drop_old(&self, days: &mut BTreeMap<u32, Keyspace>) -> fjall::Result<()> {
        let Some(&newest) = days.keys().next_back() else { return Ok(()) };
        let kept = days.split_off(&self.oldest_kept(newest));
        for (day, keyspace) in std::mem::replace(days, kept) {
            self.recorded.remove(day.to_be_bytes())?;
            self.database.delete_keyspace(keyspace)?;
            tracing::debug!(day, "a day of the history is dropped");
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Keyspace>> {
        // A day is entered after it is written: what a dead thread left is whole.
        self.days.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
}

/// Day since 1970 and minute of the day.
fn split(minute: u64) -> Option<(u32, u16)> {
    let day = u32::try_from(minute / MINUTES_OF_DAY).ok()?;
    Some((day, u16::try_from(minute % MINUTES_OF_DAY).ok()?))
}

fn empty(from: u64, to: u64, step: u64) -> Result<Series, QueryError> {
    let first = from.checked_div(step).ok_or(QueryError::Step)? * step;
    let points = to.saturating_sub(first).div_ceil(step);
    if points > POINTS_MAX {
        return Err(QueryError::Points { points });
    }
    let point = |at: u64| Point { minute: first + at * step, ..Point::default() };
    Ok(Series { step, kept_from: to, points: (0..points).map(point).collect() })
}

fn point_at(series: &mut Series, minute: u64) -> Option<&mut Point> {
    let first = series.points.first()?.minute;
    let at = minute.checked_sub(first)?.checked_div(series.step)?;
    series.points.get_mut(usize::try_from(at).ok()?)
}

impl Point {
    /// Minutes come in their order.
    fn add(&mut self, row: &Minute) {
        (self.spent, self.planned) = (Some(row.spent), row.planned);
        let counts = self.counts.get_or_insert_default();
        counts.asks += u64::from(row.asks);
        counts.grants += u64::from(row.grants);
        counts.wins += u64::from(row.wins);
        counts.refusals += u64::from(row.refusals);
        counts.latency_p99_us = counts.latency_p99_us.max(row.latency_p99_us);
    }
}
