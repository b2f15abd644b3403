//! Which rows of a view differ from those of the view before, as far as it matters to somebody who looks.

use money::Amount;

use super::rows::RowSet;
use super::words;
use crate::State;

/// What is planned is told anew when it moved by its 200th: half a hundredth of a pace index of one.
const PLAN_STEP: u64 = 200;
/// Rows whose plans are looked at for each view, at most...
const PLANS_MAX: usize = 1_024;
/// ...and at least this part of the rows that are told at once, whatever else changes.
const PLANS_PART: usize = 8;

/// What is found, and what is remembered from view to view.
///
/// What is planned by now moves with the clock: each row would change with each view, spend or not. So a row of which
/// nothing else changed is told for its plan only when it is its turn, a few rows a view, and then only where the
/// plan moved by a [`PLAN_STEP`]th since it was told.
#[derive(Debug, Default)]
pub(super) struct ChangedRows {
    /// The rows that changed.
    pub(super) rows: RowSet,
    /// By row: the words that changed, those of its plan also where the row is not told.
    pub(super) masks: Vec<u64>,
    /// The amount that was planned by row, when it was told.
    told: Vec<Option<Amount>>,
    /// The row whose plan is looked at next.
    turn: usize,
}

impl ChangedRows {
    /// Another table: nothing of it is older than anything.
    pub(super) fn begin(&mut self, states: &[State]) {
        self.rows.clear(states.len());
        self.masks.clear();
        self.told.clear();
        self.told.extend(states.iter().map(|state| state.window_planned));
        self.turn = 0;
    }

    /// Every row: nobody looked, and nobody knows how old what others have is.
    pub(super) fn suspect_all(&mut self, rows: usize) {
        self.rows.select(rows, |_| true);
        self.masks.clear();
        self.masks.resize(rows, words::ALL);
    }

    /// Finds the rows of which something other than the plan differs, and for their plans as many as there is room for:
    /// `max` rows are told at once, and `waiting` wait for it already.
    pub(super) fn find(&mut self, before: &[State], now: &[State], waiting: usize, max: usize) {
        let rows = before.len().min(now.len());
        self.told.resize(rows, None);
        self.masks.clear();
        let (told, masks) = (&mut self.told, &mut self.masks);
        self.rows.select(rows, |row| {
            let (before, now) = (&before[row], &now[row]);
            let differs = differs(before, now);
            if differs {
                told[row] = now.window_planned;
            }
            masks.push(if differs {
                words::mask(before, now)
            } else {
                words::plan_mask(before, now)
            });
            differs
        });
        let room = max.saturating_sub(waiting).saturating_sub(self.rows.len());
        let least = (max / PLANS_PART).clamp(1, PLANS_MAX);
        self.find_plans(now, room.clamp(least, PLANS_MAX).min(rows));
    }

    fn find_plans(&mut self, now: &[State], count: usize) {
        for _ in 0..count {
            let row = self.turn % self.told.len();
            self.turn = row + 1;
            let (told, planned) = (&mut self.told[row], now[row].window_planned);
            if has_moved(*told, planned) {
                *told = planned;
                self.rows.insert(row);
            }
        }
    }
}

/// Does anything but the plan's progress?
fn differs(before: &State, now: &State) -> bool {
    let has_plan = |state: &State| state.window_planned.is_some();
    let same = State { window_planned: now.window_planned, ..*before };
    same != *now || has_plan(before) != has_plan(now)
}

fn has_moved(told: Option<Amount>, planned: Option<Amount>) -> bool {
    match (told.map(Amount::get), planned.map(Amount::get)) {
        (Some(told), Some(now)) => told.abs_diff(now) > told.unsigned_abs() / PLAN_STEP,
        (told, now) => told != now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(amount: i64) -> State {
        State { window_planned: Some(Amount::new(amount)), ..State::default() }
    }

    fn found(changes: &mut ChangedRows) -> Vec<u32> {
        changes.rows.take(0..usize::MAX, usize::MAX)
    }

    #[test]
    fn a_row_differs_by_anything_but_its_plan() {
        let mut changes = ChangedRows::default();
        let before = vec![planned(100_000); 300];
        changes.begin(&before);
        let mut now = before.clone();
        now[7].window_planned = Some(Amount::new(100_001));
        now[64].asks = 1;
        now[299].window_planned = None;
        changes.find(&before, &now, 0, 3_000);
        assert_eq!(found(&mut changes), [64, 299]);
        changes.find(&now, &now, 0, 3_000);
        assert!(found(&mut changes).is_empty());
    }

    #[test]
    fn plans_are_told_in_turns_when_they_moved_by_their_200th() {
        let (max, mut changes) = (24, ChangedRows::default());
        let rows = max;
        let mut before = vec![planned(1_000); rows];
        changes.begin(&before);
        let mut told = Vec::new();
        for by in 1..=8 {
            let now = vec![planned(1_000 + by); rows];
            // No room: an eighth of what is told at once, and of these none moved by its 200th before the sixth view.
            changes.find(&before, &now, max, max);
            told.extend(found(&mut changes));
            before = now;
        }
        assert_eq!(told, [15, 16, 17, 18, 19, 20, 21, 22, 23]);
        changes.find(&before, &before.clone(), 0, max);
        assert_eq!(
            found(&mut changes),
            (0..15).collect::<Vec<_>>(),
            "the others, as there is room"
        );
    }

    #[test]
    fn a_row_that_is_told_anyway_tells_its_plan_too() {
        let mut changes = ChangedRows::default();
        let before = [planned(1_000)];
        changes.begin(&before);
        let now = [State { asks: 1, ..planned(2_000) }];
        changes.find(&before, &now, 0, 9);
        assert_eq!(found(&mut changes), [0]);
        changes.find(&now, &[State { asks: 1, ..planned(2_010) }], 0, 9);
        assert!(found(&mut changes).is_empty());
    }
}
