//! How all budgets stand: published by the node every now and then, read by everybody else.
//!
//! Each reader of the live stream follows the board with two bits per row: publishing sets the bits of rows that
//! changed, and whoever may send takes them. So a follower who is slow, or does not read at all, costs its bits and
//! nothing more; there is one view, and nobody keeps an older one for long.
//!
//! - `changes`: which rows changed, as far as it matters.
//! - `follow`: which of them are told when: the same to all, so many a view, and to each what it watches.
//! - `words`: the words of a row that differ. `rows`: sets of rows. `sparks`: what each budget spent lately.

mod changes;
mod follow;
mod rows;
mod sparks;
pub(crate) mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

pub use sparks::{SPARK_STEPS, STEP_MS, Spark};

pub(crate) use follow::{Batch, Following, Patches, Taken};

use crate::{Budget, State};
use changes::ChangedRows;
use follow::Stage;
use sparks::Sparks;

/// Rows that a view tells all followers, where nothing else is configured.
pub const LIVE_ROWS: usize = 3_000;

/// How all budgets stood at one survey. Row `i` is `budgets[i]` with `states[i]`, in the order of ids.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The bank's clock when the survey ended, ms since 1970 UTC.
    pub as_of_ms: u64,
    /// Number of the node's run.
    pub run: u32,
    /// Rises when `budgets` is another list than before.
    pub generation: u64,
    /// What changes only when somebody changes it.
    pub budgets: Arc<[Budget]>,
    /// What changes by itself; as many as budgets.
    pub states: Arc<[State]>,
    /// The last rows: budgets that were made from templates.
    pub made: MadeRows,
    /// When the first record was made that impressions are counted from, ms since 1970 UTC; `None`: none is counted yet.
    pub figures_since_ms: Option<u64>,
}

/// The rows of budgets that were made from templates. Their ids are above all others, so they are the last ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeRows {
    /// Which of `templates` each was made from, in the order of rows; one beyond their end: its template is gone.
    pub from: Arc<[u32]>,
    /// Their patterns, as in the budgets file.
    pub templates: Arc<[Box<str>]>,
    /// Live budgets of templates that have no row: there are more than are shown.
    pub hidden: u64,
}

impl MadeRows {
    /// What stands in the place of a template that is gone.
    pub const GONE: &str = "(gone)";

    fn same_rows(&self, other: &MadeRows) -> bool {
        (&self.from, &self.templates) == (&other.from, &other.templates)
    }
}

impl View {
    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.budgets.len().min(self.states.len())
    }

    /// The template that the budget of a row was made from: its place among the templates. `None`: from none.
    #[must_use]
    pub fn template_at(&self, row: usize) -> Option<u32> {
        let first = self.budgets.len().checked_sub(self.made.from.len())?;
        self.made.from.get(row.checked_sub(first)?).copied()
    }

    /// The pattern of that template.
    #[must_use]
    pub fn template(&self, row: usize) -> Option<&str> {
        let place = self.template_at(row)? as usize;
        Some(self.made.templates.get(place).map_or(MadeRows::GONE, |pattern| pattern))
    }
}

/// A view with what followers need to know of its place among the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) view: Arc<View>,
    /// Rises with every view; 0: nothing was published yet.
    pub(crate) version: u64,
    /// Rises when rows mean other budgets than before, or what is sent of them once changed.
    pub(crate) table: u64,
    /// Number of the step of sparks that this view lies in.
    pub(crate) step: u64,
    /// What it tells all who had the view before.
    pub(crate) batch: Arc<Batch>,
}

/// The newest [`View`], and who follows it. No two of its locks are held at once, but for `changes` with another.
#[derive(Debug)]
pub struct Board {
    live_rows: usize,
    stage: Mutex<Stage>,
    sparks: Mutex<Sparks>,
    /// Whoever holds it publishes.
    changes: Mutex<ChangedRows>,
    versions: watch::Sender<u64>,
}

impl Default for Board {
    fn default() -> Board {
        Board::new(LIVE_ROWS)
    }
}

impl Board {
    /// A board whose views tell all followers of at most so many rows, and each of those that it watches.
    #[must_use]
    pub fn new(live_rows: usize) -> Board {
        Board {
            live_rows: live_rows.max(1),
            stage: Mutex::default(),
            sparks: Mutex::default(),
            changes: Mutex::default(),
            versions: watch::Sender::default(),
        }
    }

    /// Replaces the view, and tells followers of rows that changed.
    pub fn publish(&self, view: View) {
        let mut changes = lock(&self.changes);
        let (before, waiting) = {
            let stage = lock(&self.stage);
            (stage.shown().clone(), stage.waiting())
        };
        let same_table = before.view.made.same_rows(&view.made)
            && same_budgets(&before.view.budgets, &view.budgets);
        match waiting {
            _ if !same_table => changes.begin(&view.states),
            Some(waiting) => {
                let (before, now) = (&before.view.states, &view.states);
                changes.find(before, now, waiting, self.live_rows);
            }
            // Somebody may begin to follow before the view is shown.
            None => changes.suspect_all(view.rows()),
        }
        let shown = Shown {
            step: view.as_of_ms / STEP_MS,
            view: Arc::new(view),
            version: before.version.wrapping_add(1),
            table: before.table.wrapping_add(u64::from(!same_table)),
            batch: Arc::default(),
        };
        lock(&self.sparks).take(&shown);
        let version = shown.version;
        if same_table {
            lock(&self.stage).renew(shown, &changes, self.live_rows);
        } else {
            lock(&self.stage).replace(shown);
        }
        self.versions.send_replace(version);
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.stage).shown().view)
    }

    /// What the budget spent in each of the last steps of [`STEP_MS`].
    #[must_use]
    pub fn spark(&self, id: u64) -> Spark {
        lock(&self.sparks).of_budget(id)
    }

    /// A new follower; it leaves when it is dropped.
    pub(crate) fn follow(self: &Arc<Board>) -> Following {
        Following::new(Arc::clone(self))
    }

    /// Tells of every view that is published from now on.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    pub(crate) fn shown(&self) -> Shown {
        lock(&self.stage).shown().clone()
    }

    /// Those of these rows that exist; `None` where rows mean other budgets by now.
    pub(crate) fn sparks(&self, table: u64, rows: &[u32]) -> Option<Vec<(u32, Spark)>> {
        lock(&self.sparks).of_rows(table, rows)
    }
}

/// Nothing that is done under these locks panics half-way through: what a dead thread left is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Would a follower show the same, but for states? Revisions are not sent.
fn same_budgets(before: &Arc<[Budget]>, now: &Arc<[Budget]>) -> bool {
    let same = |(a, b): (&Budget, &Budget)| {
        let Budget {
            id,
            name,
            handle,
            unit,
            parent,
            campaign,
            start_ms,
            end_ms,
            zone,
            pacing,
            revision: _,
        } = a;
        *id == b.id
            && (name, handle) == (&b.name, &b.handle)
            && (*unit, *parent, *campaign) == (b.unit, b.parent, b.campaign)
            && (*start_ms, *end_ms, *pacing) == (b.start_ms, b.end_ms, b.pacing)
            && *zone == b.zone
    };
    Arc::ptr_eq(before, now)
        || (before.len() == now.len() && before.iter().zip(now.iter()).all(same))
}

#[cfg(test)]
pub(crate) mod tests {
    use money::{Amount, Unit};

    use super::*;

    pub(crate) fn budgets(ids: &[u64]) -> Arc<[Budget]> {
        ids.iter().map(|&id| budget(id)).collect()
    }

    fn budget(id: u64) -> Budget {
        Budget {
            id,
            name: format!("budget {id}").into(),
            handle: None,
            unit: Unit::Count,
            parent: None,
            campaign: id.is_multiple_of(2),
            start_ms: None,
            end_ms: Some(id),
            zone: if id.is_multiple_of(3) { "UTC" } else { "Europe/Zurich" }.into(),
            pacing: crate::Pacing::Asap,
            revision: 1,
        }
    }

    /// A view in which each row has spent so much.
    pub(crate) fn view(as_of_ms: u64, budgets: &Arc<[Budget]>, spent: &[i64]) -> View {
        let state = |&spent: &i64| State { spent: Amount::new(spent), ..State::default() };
        let states = spent.iter().map(state).collect();
        let budgets = Arc::clone(budgets);
        View { as_of_ms, run: 1, generation: 1, budgets, states, ..View::default() }
    }

    #[test]
    fn only_what_is_sent_once_makes_another_table() {
        let board = Board::default();
        let mut list = budgets(&[1, 2]).to_vec();
        let table_of = |list: &[Budget]| {
            board.publish(view(0, &list.to_vec().into(), &[0, 0]));
            board.shown().table
        };
        let first = table_of(&list);
        list[1].revision = 2;
        assert_eq!(table_of(&list), first);
        list[1].name = "another".into();
        assert_eq!(table_of(&list), first + 1);
        list[0].id = 0;
        assert_eq!(table_of(&list), first + 2);
    }
}
