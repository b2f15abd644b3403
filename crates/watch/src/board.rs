//! How all budgets stand: published by the node every now and then, read by everybody else.
//!
//! Each reader of the live stream follows the board with one bit a row: publishing sets the bits of the rows
//! that changed, and whoever may send takes them. So a follower who is slow, or does not read at all, costs its bits and
//! nothing more; there is one view, and nobody keeps an older one for long.

mod dirty;
mod sparks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

pub use sparks::{SPARK_STEPS, STEP_MS, Spark};

pub(crate) use dirty::Following;

use crate::{Budget, State};
use dirty::Dirty;
use sparks::Sparks;

/// A planned sum is shown anew when it moved by its 200th: half a hundredth of a pace index of one.
const PLAN_STEP: u64 = 200;

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
    /// What changes by itself; as many as budgets. What is planned may be behind the clock by its 200th.
    pub states: Arc<[State]>,
}

impl View {
    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.budgets.len().min(self.states.len())
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
}

/// The newest [`View`], and who follows it.
///
/// No two of its locks are held at once, but for a follower's bits while the newest view is read.
#[derive(Debug, Default)]
pub struct Board {
    shown: Mutex<Shown>,
    sparks: Mutex<Sparks>,
    followers: Mutex<Vec<Weak<Mutex<Dirty>>>>,
    /// Bits of the rows that changed, kept for its room. Whoever holds it publishes.
    changed: Mutex<Vec<u64>>,
    versions: watch::Sender<u64>,
}

impl Board {
    /// Replaces the view and marks, for each follower, the rows that changed.
    pub fn publish(&self, mut view: View) {
        let mut changed = lock(&self.changed);
        let before = self.shown();
        let same_table = same_budgets(&before.view.budgets, &view.budgets);
        if same_table {
            keep_plans(&before.view.states, &mut view.states);
            dirty::compare(&before.view.states, &view.states, &mut changed);
        }
        let shown = Shown {
            step: view.as_of_ms / STEP_MS,
            view: Arc::new(view),
            version: before.version.wrapping_add(1),
            table: before.table.wrapping_add(u64::from(!same_table)),
        };
        lock(&self.sparks).take(&shown);
        // First the view, then the bits: a follower who reads between the two sends the new states and, once more, their
        // rows. The other way round it would take the bits, send old states, and never learn of the new ones.
        lock(&self.shown).clone_from(&shown);
        if same_table {
            self.mark(shown.table, &changed);
        }
        self.versions.send_replace(shown.version);
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.shown).view)
    }

    /// What the budget spent in each of the last steps of [`STEP_MS`].
    #[must_use]
    pub fn spark(&self, id: u64) -> Spark {
        lock(&self.sparks).of_budget(id)
    }

    /// A new follower; it leaves when it is dropped.
    pub(crate) fn follow(self: &Arc<Board>) -> Following {
        let dirty = Arc::<Mutex<Dirty>>::default();
        lock(&self.followers).push(Arc::downgrade(&dirty));
        Following::new(Arc::clone(self), dirty)
    }

    /// Tells of every view that is published from now on.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    pub(crate) fn shown(&self) -> Shown {
        lock(&self.shown).clone()
    }

    /// Those of these rows that exist; `None` where rows mean other budgets by now.
    pub(crate) fn sparks(&self, table: u64, rows: &[u32]) -> Option<Vec<(u32, Spark)>> {
        lock(&self.sparks).of_rows(table, rows)
    }

    fn mark(&self, table: u64, changed: &[u64]) {
        lock(&self.followers).retain(|follower| {
            let Some(dirty) = follower.upgrade() else { return false };
            lock(&dirty).mark(table, changed);
            true
        });
    }
}

/// What is planned by now moves with the clock: each row would change at each survey, spend or not. So a plan is shown as it
/// was, until it is [`PLAN_STEP`]th of itself away.
fn keep_plans(before: &[State], now: &mut Arc<[State]>) {
    let near = |old: &State, new: &State| {
        let (old, new) = (old.window_planned?.get(), new.window_planned?.get());
        Some(old != new && old.abs_diff(new) <= old.unsigned_abs() / PLAN_STEP)
    };
    for (old, new) in before.iter().zip(Arc::make_mut(now)) {
        if near(old, new) == Some(true) {
            new.window_planned = old.window_planned;
        }
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
            && *name == b.name
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
        View { as_of_ms, run: 1, generation: 1, budgets: Arc::clone(budgets), states }
    }

    #[test]
    fn rows_that_changed_are_marked_once_for_each_follower() {
        let board = Arc::new(Board::default());
        let list = budgets(&[1, 2, 3]);
        board.publish(view(0, &list, &[0, 0, 0]));
        let (one, other) = (board.follow(), board.follow());
        let began = [&one, &other].map(|follower| follower.begin().version);
        assert_eq!(began, [1, 1]);
        board.publish(view(1, &list, &[0, 5, 0]));
        board.publish(view(2, &list, &[0, 5, 6]));
        assert_eq!(rows(&one, 9), [1, 2]);
        assert!(rows(&one, 9).is_empty());
        board.publish(view(3, &list, &[7, 5, 6]));
        assert_eq!(rows(&one, 9), [0]);
        assert_eq!(rows(&other, 2), [0, 1]);
        assert_eq!(rows(&other, 2), [2]);
    }

    fn rows(following: &Following, max: usize) -> Vec<u32> {
        following.take(max).rows
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

    #[test]
    fn a_follower_who_left_costs_nothing() {
        let board = Arc::new(Board::default());
        drop([board.follow(), board.follow()]);
        let stays = board.follow();
        board.publish(view(0, &budgets(&[1]), &[0]));
        board.publish(view(1, &budgets(&[1]), &[0]));
        assert_eq!(lock(&board.followers).len(), 1);
        drop(stays);
    }
}
