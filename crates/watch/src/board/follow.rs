//! Who follows a board, and what each of them has not got yet.
//!
//! The rows that changed go out in batches, one a view, the same rows to everybody: who keeps up shares the work of
//! writing them down. A batch has a bound; what does not fit waits for the next one, in turn, so that no row waits longer
//! than a round. Rows that a follower watches do not wait.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use wire::live::{delta, patch};

use super::changes::ChangedRows;
use super::rows::RowSet;
use super::{Board, Shown, lock, words};

/// The rows that a view tells everybody.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// In their order.
    pub(crate) rows: Vec<u32>,
    /// By row of these: the words that somebody needs who was not behind with it.
    masks: Vec<u64>,
    set: RowSet,
    entries: OnceLock<Vec<delta::State>>,
    patches: OnceLock<Patches>,
}

/// What changed of rows, as in a message: the entries, the bytes of their words, and where those of each end.
#[derive(Debug, Default)]
pub(crate) struct Patches {
    pub(crate) entries: Vec<patch::Change>,
    pub(crate) words: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

impl Batch {
    fn new(rows: Vec<u32>, masks: &[u64]) -> Batch {
        let mut set = RowSet::default();
        set.clear(masks.len());
        rows.iter().for_each(|&row| set.insert(row as usize));
        let masks = rows.iter().map(|&row| mask(masks, row)).collect();
        Batch { rows, masks, set, ..Batch::default() }
    }

    /// What of them changed, made once for all who ask.
    pub(crate) fn patches(&self, make: impl FnOnce(&[(u32, u64)]) -> Patches) -> &Patches {
        self.patches.get_or_init(|| {
            let rows: Vec<_> = self.rows.iter().copied().zip(self.masks.iter().copied()).collect();
            make(&rows)
        })
    }

    /// Their entries in messages, made once for all who ask.
    pub(crate) fn entries(
        &self,
        make: impl FnOnce(&[u32]) -> Vec<delta::State>,
    ) -> &[delta::State] {
        self.entries.get_or_init(|| make(&self.rows))
    }
}

/// The mask of a row; all of it where there is none.
fn mask(masks: &[u64], row: u32) -> u64 {
    masks.get(row as usize).copied().unwrap_or(words::ALL)
}

/// The newest view, and how far everybody is behind it.
///
/// Where a page has older figures of a row than the view, the row is in `behind` of its follower, in the batch that it
/// has not taken yet, or in `pending`.
#[derive(Debug, Default)]
pub(super) struct Stage {
    newest: Newest,
    followers: BTreeMap<u64, Follower>,
    next_follower: u64,
}

#[derive(Debug, Default)]
struct Newest {
    shown: Shown,
    /// Rows that changed and did not fit into a batch yet...
    pending: RowSet,
    /// By row: the words that changed since it was in a batch before the newest one. Whoever got the row since then needs no others.
    masks: Vec<u64>,
    /// ...and the row where the next one begins.
    turn: usize,
}

#[derive(Debug, Default)]
pub(super) struct Follower {
    /// The table that its rows are of.
    table: u64,
    /// The version whose batch it takes...
    version: u64,
    /// ...and how much of it it took.
    taken: usize,
    behind: RowSet,
    /// Of these the rows of batches that it missed: nobody knows which words it needs.
    late: RowSet,
    watched: Vec<u32>,
}

impl Stage {
    pub(super) fn shown(&self) -> &Shown {
        &self.newest.shown
    }

    /// How many rows wait for a batch; `None` where nobody follows.
    pub(super) fn waiting(&self) -> Option<usize> {
        (!self.followers.is_empty()).then(|| self.newest.pending.len())
    }

    /// Another table: everybody needs all of it.
    pub(super) fn replace(&mut self, shown: Shown) {
        let Newest { pending, masks, turn, .. } = &mut self.newest;
        pending.clear(shown.view.rows());
        masks.clear();
        masks.resize(shown.view.rows(), 0);
        *turn = 0;
        self.newest.shown = shown;
    }

    /// Another view of the same table, in which these rows changed; at most `max` of all that changed go into its batch.
    pub(super) fn renew(&mut self, mut shown: Shown, changes: &ChangedRows, max: usize) {
        if self.followers.is_empty() {
            return self.replace(shown);
        }
        let (missed, changed) = (Arc::clone(&self.newest.shown.batch), &changes.rows);
        self.newest.pending.unite(changed);
        self.newest.change(&missed.rows, &changes.masks);
        let batch = self.newest.next_batch(shown.view.rows(), max);
        for follower in self.followers.values_mut().filter(|one| one.table == shown.table) {
            follower.late.unite_common(&follower.behind, &missed.set);
            follower.behind.unite(&batch.set);
            let watched = follower.watched.iter().map(|&row| row as usize);
            watched
                .filter(|&row| changed.contains(row))
                .for_each(|row| follower.behind.insert(row));
        }
        shown.batch = Arc::new(batch);
        self.newest.shown = shown;
    }
}

impl Newest {
    /// Words changed; rows of the last batch begin anew.
    fn change(&mut self, last_batch: &[u32], changed: &[u64]) {
        for &row in last_batch {
            if let Some(mask) = self.masks.get_mut(row as usize) {
                *mask = 0;
            }
        }
        self.masks.iter_mut().zip(changed).for_each(|(mask, changed)| *mask |= changed);
    }

    /// Around the table, from where the last one ended.
    fn next_batch(&mut self, rows: usize, max: usize) -> Batch {
        let mut later = self.pending.take(self.turn..rows, max);
        let mut batch = self.pending.take(0..self.turn, max.saturating_sub(later.len()));
        let last = batch.last().or(later.last());
        self.turn = last.map_or(self.turn, |&row| row as usize + 1);
        batch.append(&mut later);
        Batch::new(batch, &self.masks)
    }
}

/// A follower's end of a [`Board`]; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Following {
    board: Arc<Board>,
    id: u64,
}

/// What a follower has not got yet, with the view that has the states.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) shown: Shown,
    /// Which rows of the view's batch; none where `shown` has another table than the follower.
    pub(crate) of_batch: Range<usize>,
    /// Those of the batch of which it needs all words.
    pub(crate) late: Vec<u32>,
    /// Further rows, none of those...
    pub(crate) rows: Vec<u32>,
    /// ...and the words of each that it needs.
    pub(crate) masks: Vec<u64>,
    /// More rows wait.
    pub(crate) more: bool,
}

impl Following {
    pub(super) fn new(board: Arc<Board>) -> Following {
        let id = {
            let mut stage = lock(&board.stage);
            let id = stage.next_follower;
            stage.next_follower = id.wrapping_add(1);
            stage.followers.insert(id, Follower::default());
            id
        };
        Following { board, id }
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Begins with the newest table: it is behind with no row of it.
    pub(crate) fn begin(&self) -> Shown {
        self.with(|follower, stage| {
            let shown = stage.shown.clone();
            (follower.table, follower.version) = (shown.table, shown.version);
            follower.taken = shown.batch.rows.len();
            follower.behind.clear(shown.view.rows());
            follower.late.clear(shown.view.rows());
            shown
        })
    }

    /// The view for the states of these rows, with which it is not behind any more.
    pub(crate) fn clear(&self, from: usize, to: usize) -> Shown {
        self.with(|follower, stage| {
            follower.behind.take(from..to, usize::MAX);
            follower.late.take(from..to, usize::MAX);
            stage.shown.clone()
        })
    }

    /// It watches these rows now. Is it behind with any of them?
    pub(crate) fn watch(&self, rows: &[u32]) -> bool {
        self.with(|follower, stage| {
            follower.watched = rows.to_vec();
            if follower.table != stage.shown.table {
                return false;
            }
            let rows = || rows.iter().map(|&row| row as usize);
            rows()
                .filter(|&row| stage.pending.contains(row))
                .for_each(|row| follower.behind.insert(row));
            rows().any(|row| follower.behind.contains(row))
        })
    }

    /// Takes at most `max` rows: the watched ones, those of the batch, then others.
    pub(crate) fn take(&self, max: usize) -> Taken {
        self.with(|follower, stage| follower.take(stage, max))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Follower, &Newest) -> T) -> T {
        let Stage { newest, followers, .. } = &mut *lock(&self.board.stage);
        work(followers.entry(self.id).or_default(), newest)
    }
}

impl Follower {
    fn take(&mut self, newest: &Newest, max: usize) -> Taken {
        let shown = newest.shown.clone();
        if shown.table != self.table {
            let (late, rows, masks) = Default::default();
            return Taken { shown, of_batch: 0..0, late, rows, masks, more: false };
        }
        let watched =
            self.watched.iter().filter(|&&row| self.behind.contains(row as usize)).count();
        let of_batch = self.of_batch(&shown, max.saturating_sub(watched));
        let batch = shown.batch.rows.get(of_batch.clone()).unwrap_or_default();
        let is_late = |row: &&u32| self.late.take_row(**row as usize);
        let late = batch.iter().filter(is_late).copied().collect();
        let room = max.saturating_sub(of_batch.len());
        let behind = &mut self.behind;
        let watched = self.watched.iter().filter(|&&row| behind.take_row(row as usize));
        let mut rows: Vec<u32> = watched.copied().take(room).collect();
        rows.append(&mut self.behind.take(0..usize::MAX, room.saturating_sub(rows.len())));
        let mut is_late = |row: u32| self.late.take_row(row as usize);
        let masks = rows
            .iter()
            .map(|&row| if is_late(row) { words::ALL } else { mask(&newest.masks, row) });
        let masks = masks.collect();
        Taken { of_batch, late, rows, masks, more: !self.behind.is_empty(), shown }
    }

    /// Takes at most `max` of the batch that it did not take yet. What it left of an earlier one it is behind with.
    fn of_batch(&mut self, shown: &Shown, max: usize) -> Range<usize> {
        if std::mem::replace(&mut self.version, shown.version) != shown.version {
            self.taken = 0;
        }
        let rows = &shown.batch.rows;
        let to = self.taken.saturating_add(max).min(rows.len());
        let part = std::mem::replace(&mut self.taken, to)..to;
        let taken = rows.get(part.clone()).unwrap_or_default();
        for &row in taken {
            self.behind.take_row(row as usize);
        }
        part
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        lock(&self.board.stage).followers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::{budgets, view};
    use crate::{Budget, board::View};

    /// What the follower is told next, and whether of it all is in the batch.
    fn told(following: &Following) -> (Vec<u32>, Vec<u32>) {
        let taken = following.take(100);
        let batch = taken.shown.batch.rows[taken.of_batch].to_vec();
        assert!(!taken.more);
        (batch, taken.rows)
    }

    fn all(count: u64) -> Arc<[Budget]> {
        budgets(&(0..count).collect::<Vec<_>>())
    }

    /// Of `list`; each row has spent as many base units as this says.
    fn spent(list: &Arc<[Budget]>, spent: impl Fn(i64) -> i64) -> View {
        let rows = i64::try_from(list.len()).unwrap();
        view(0, list, &(0..rows).map(spent).collect::<Vec<_>>())
    }

    #[test]
    fn who_keeps_up_gets_the_batch_and_who_does_not_gets_the_rest_too() {
        let (board, list) = (Arc::new(Board::default()), budgets(&[1, 2, 3]));
        board.publish(view(0, &list, &[0, 0, 0]));
        let (one, other) = (board.follow(), board.follow());
        let began = [&one, &other].map(|follower| follower.begin().version);
        assert_eq!(began, [1, 1]);
        board.publish(view(1, &list, &[0, 5, 0]));
        assert_eq!(told(&one), (vec![1], vec![]));
        assert_eq!(told(&one), (vec![], vec![]));
        board.publish(view(2, &list, &[0, 5, 6]));
        board.publish(view(3, &list, &[7, 5, 6]));
        assert_eq!(told(&one), (vec![0], vec![2]));
        assert_eq!(told(&other), (vec![0], vec![1, 2]));
    }

    #[test]
    fn what_does_not_fit_goes_around() {
        let (board, list) = (Arc::new(Board::new(3)), all(8));
        board.publish(spent(&list, |_| 0));
        let page = board.follow();
        page.begin();
        // All of them change all the time, and each has its turn.
        let batches: Vec<Vec<u32>> = (1..=8)
            .map(|round| {
                board.publish(spent(&list, |_| round));
                told(&page).0
            })
            .collect();
        assert_eq!(batches[..4], [vec![0, 1, 2], vec![3, 4, 5], vec![0, 6, 7], vec![1, 2, 3]]);
        assert!((0..8).all(|row| batches[5..].iter().any(|batch| batch.contains(&row))));
        // Nothing changes any more: what waits comes.
        board.publish(spent(&list, |_| 8));
        board.publish(spent(&list, |_| 8));
        let last = [told(&page), {
            board.publish(spent(&list, |_| 8));
            told(&page)
        }];
        assert_eq!(last[1], (vec![], vec![]), "{last:?}");
    }

    #[test]
    fn a_batch_may_need_several_messages() {
        let (board, list) = (Arc::new(Board::default()), all(8));
        board.publish(spent(&list, |_| 0));
        let page = board.follow();
        page.begin();
        page.watch(&[7]);
        board.publish(spent(&list, |_| 1));
        let next = || {
            let Taken { of_batch, rows, more, .. } = page.take(3);
            (of_batch, rows, more)
        };
        assert_eq!(next(), (0..2, vec![7], true));
        assert_eq!(next(), (2..5, vec![], true));
        // What is left of it is told with the next one.
        board.publish(spent(&list, |row| 1 + i64::from(row < 2)));
        assert_eq!(next(), (0..2, vec![5], true));
        assert_eq!(next(), (2..2, vec![6], false));
    }

    #[test]
    fn watched_rows_do_not_wait() {
        let (board, list) = (Arc::new(Board::new(2)), all(10));
        board.publish(spent(&list, |_| 0));
        let (page, other) = (board.follow(), board.follow());
        page.begin();
        other.begin();
        assert!(!page.watch(&[9, 5, 9, 77]));
        board.publish(spent(&list, |_| 1));
        assert_eq!(told(&page), (vec![0, 1], vec![9, 5]));
        assert_eq!(told(&other), (vec![0, 1], vec![]));
        board.publish(spent(&list, |row| 1 + i64::from(row == 9)));
        assert_eq!(told(&page), (vec![2, 3], vec![9]));
        // What waits is there as soon as it is watched.
        assert!(other.watch(&[9, 0]));
        assert_eq!(told(&other), (vec![2, 3], vec![9]));
        assert!(!other.watch(&[0]));
    }

    #[test]
    fn nothing_is_missed_by_who_begins_while_a_view_is_made() {
        let (board, list) = (Arc::new(Board::default()), all(3));
        board.publish(spent(&list, |_| 0));
        let mut changes = super::super::changes::ChangedRows::default();
        // Nobody followed when the rows were compared.
        changes.suspect_all(3);
        let page = board.follow();
        let before = page.begin();
        let shown = Shown { version: before.version + 1, ..before };
        lock(&board.stage).renew(shown, &changes, 9);
        assert_eq!(told(&page), (vec![0, 1, 2], vec![]));
    }

    #[test]
    fn a_follower_who_left_costs_nothing() {
        let board = Arc::new(Board::default());
        drop([board.follow(), board.follow()]);
        let stays = board.follow();
        assert_eq!(lock(&board.stage).followers.len(), 1);
        drop(stays);
        assert_eq!(lock(&board.stage).waiting(), None);
    }
}
