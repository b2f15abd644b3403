//! What each budget spent lately, in steps of half a minute.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Shown;
use crate::{Budget, State};

/// Length of a step.
pub const STEP_MS: u64 = 30_000;
/// Steps that are kept: ten minutes.
pub const SPARK_STEPS: usize = 20;
/// Nobody knows what was spent. No spend is so low.
const UNKNOWN: i64 = i64::MIN;

/// What one budget spent in each of the last steps, base units, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spark {
    /// The number of steps that are known: the last ones.
    pub filled: usize,
    /// Spent in each; 0 where it is not known.
    pub spent: [i64; SPARK_STEPS],
}

impl Spark {
    /// The known steps.
    #[must_use]
    pub fn known(&self) -> &[i64] {
        self.spent.get(SPARK_STEPS - self.filled..).unwrap_or_default()
    }
}

/// The last steps of all rows: 168 bytes per row.
#[derive(Debug, Default)]
pub(super) struct Sparks {
    table: u64,
    budgets: Arc<[Budget]>,
    step: Option<u64>,
    /// Was the beginning of the step seen?
    is_whole: bool,
    /// What each row had spent when the step began.
    began: Vec<i64>,
    steps: VecDeque<Vec<i64>>,
}

impl Sparks {
    pub(super) fn take(&mut self, shown: &Shown) {
        let states = &shown.view.states[..shown.view.rows()];
        if shown.table != self.table || self.began.len() != states.len() {
            self.follow(shown, states);
        }
        if self.step != Some(shown.step) {
            self.close(shown.step, states);
        }
    }

    /// Closes the step. Where others were missed, or time went back, nobody knows which of them spent what.
    fn close(&mut self, step: u64, states: &[State]) {
        let is_next = self.step.and_then(|step| step.checked_add(1)) == Some(step);
        if !is_next {
            self.steps.clear();
        } else if self.is_whole {
            let spent = |(state, &began): (&State, &i64)| {
                state.spent.get().checked_sub(began).unwrap_or(UNKNOWN)
            };
            // The oldest step makes room for the newest.
            let mut room =
                if self.steps.len() == SPARK_STEPS { self.steps.pop_front() } else { None }
                    .unwrap_or_default();
            room.clear();
            room.extend(states.iter().zip(&self.began).map(spent));
            self.steps.push_back(room);
        }
        self.is_whole = is_next;
        self.step = Some(step);
        self.began.clear();
        self.began.extend(states.iter().map(|state| state.spent.get()));
    }

    /// Rows are others now: what is known of a budget moves to its row.
    fn follow(&mut self, shown: &Shown, states: &[State]) {
        let budgets = &shown.view.budgets[..states.len()];
        let old_rows: Vec<Option<usize>> =
            budgets.iter().map(|budget| self.row(budget.id)).collect();
        let began = states.iter().zip(&old_rows).map(|(state, row)| {
            row.and_then(|row| self.began.get(row)).copied().unwrap_or(state.spent.get())
        });
        self.began = began.collect();
        for step in &mut self.steps {
            let moved =
                |row: &Option<usize>| row.and_then(|row| step.get(row)).copied().unwrap_or(UNKNOWN);
            *step = old_rows.iter().map(moved).collect();
        }
        self.table = shown.table;
        self.budgets = Arc::clone(&shown.view.budgets);
    }

    fn row(&self, id: u64) -> Option<usize> {
        self.budgets.binary_search_by_key(&id, |budget| budget.id).ok()
    }

    pub(super) fn of_budget(&self, id: u64) -> Spark {
        self.row(id).map(|row| self.of_row(row)).unwrap_or_default()
    }

    pub(super) fn of_rows(&self, table: u64, rows: &[u32]) -> Option<Vec<(u32, Spark)>> {
        let exists = |&row: &u32| usize::try_from(row).is_ok_and(|row| row < self.began.len());
        let spark = |row: u32| (row, self.of_row(row as usize));
        (table == self.table).then(|| rows.iter().copied().filter(exists).map(spark).collect())
    }

    fn of_row(&self, row: usize) -> Spark {
        let mut spark = Spark::default();
        let newest_first =
            self.steps.iter().rev().map(|step| step.get(row).copied().unwrap_or(UNKNOWN));
        for (place, spent) in
            spark.spent.iter_mut().rev().zip(newest_first.take_while(|&spent| spent != UNKNOWN))
        {
            *place = spent;
            spark.filled += 1;
        }
        spark
    }
}

#[cfg(test)]
mod tests {
    use crate::Board;
    use crate::board::tests::{budgets, view};

    use super::*;

    fn known(board: &Board, id: u64) -> Vec<i64> {
        board.spark(id).known().to_vec()
    }

    #[test]
    fn a_step_is_known_when_its_beginning_and_its_end_were_seen() {
        let (board, list) = (Board::default(), budgets(&[7, 9]));
        for (second, spent) in [(10, 1), (20, 2), (31, 5), (45, 6), (62, 11), (89, 12)] {
            board.publish(view(second * 1_000, &list, &[spent, 0]));
        }
        assert_eq!((known(&board, 7), known(&board, 9)), (vec![6], vec![0]));
        assert!(known(&board, 8).is_empty());
        board.publish(view(90_000, &list, &[13, 100]));
        assert_eq!((known(&board, 7), known(&board, 9)), (vec![6, 2], vec![0, 100]));
    }

    #[test]
    fn a_gap_or_a_clock_that_goes_back_forgets() {
        let (board, list) = (Board::default(), budgets(&[7]));
        let publish = |step: u64, spent| board.publish(view(step * STEP_MS, &list, &[spent]));
        for step in 1_u8..=5 {
            publish(step.into(), step.into());
        }
        assert_eq!(known(&board, 7), [1, 1, 1]);
        publish(8, 90);
        assert!(known(&board, 7).is_empty());
        publish(9, 95);
        publish(10, 96);
        assert_eq!(known(&board, 7), [1]);
        publish(3, 96);
        assert!(known(&board, 7).is_empty());
    }

    #[test]
    fn ten_minutes_are_kept() {
        let (board, list) = (Board::default(), budgets(&[7]));
        for step in 1_u8..=100 {
            board.publish(view(
                u64::from(step) * STEP_MS,
                &list,
                &[i64::from(step) * i64::from(step)],
            ));
        }
        let expected: Vec<i64> = (80..100).map(|step| 2 * step + 1).collect();
        assert_eq!(known(&board, 7), expected);
    }

    #[test]
    fn steps_move_with_their_budgets() {
        let board = Board::default();
        let old = budgets(&[3, 7]);
        for step in 1_u8..=4 {
            board.publish(view(
                u64::from(step) * STEP_MS,
                &old,
                &[100 * i64::from(step), i64::from(step)],
            ));
        }
        let new = budgets(&[5, 7]);
        board.publish(view(4 * STEP_MS + 1, &new, &[1_000, 4]));
        assert_eq!(
            (known(&board, 3), known(&board, 5), known(&board, 7)),
            (vec![], vec![], vec![1, 1])
        );
        board.publish(view(5 * STEP_MS, &new, &[1_003, 9]));
        assert_eq!((known(&board, 5), known(&board, 7)), (vec![3], vec![1, 1, 5]));
        assert_eq!(board.sparks(0, &[0]), None);
        let rows = board.sparks(board.shown().table, &[1, 2, u32::MAX]).unwrap();
        assert_eq!(
            rows.iter().map(|(row, spark)| (*row, spark.filled)).collect::<Vec<_>>(),
            [(1, 3)]
        );
    }
}
