//! Whose limit asks met that were for more than is left. Their verdict does not say: of a budget and those above it, it is the one that
//! has least left.

use std::collections::{HashMap, HashSet};

use ledger::Amount;
use weir_node::bank::rows::SurveyRow;
use wire::Verdict;

use super::breath::Breath;
use super::tallies::Tallies;

/// How a budget stands to the limit that most of its refused asks met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Short {
    /// It is that of a budget below it, and none of its own.
    #[default]
    Below,
    /// It is its own.
    Itself,
    /// It is that of a budget above it.
    Above,
}

/// What is left of the life, and of windows.
const KINDS: usize = 2;

/// The budgets whose limits refused asks of the last seconds met.
#[derive(Debug, Default)]
pub(super) struct Shorts([HashSet<u32>; KINDS]);

impl Shorts {
    /// Of all budgets, from the rows and the counts of one survey.
    pub(super) fn of(rows: &[SurveyRow], tallies: &Tallies) -> Shorts {
        let mut own: HashMap<u32, [i64; KINDS]> = HashMap::new();
        let mut breath = Breath::new();
        for (slot, row) in (0..).zip(rows) {
            breath.take();
            let counts = tallies.short(slot as usize);
            if counts == [0; KINDS] {
                continue;
            }
            add(own.entry(slot).or_default(), counts);
            // What is counted below a budget is counted of it, too.
            if let Some(parent) = row.parent {
                add(own.entry(parent).or_default(), counts.map(|count| -count));
            }
        }
        let mut shorts = Shorts::default();
        for (slot, counts) in own {
            for (kind, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                shorts.0[kind].extend(chain(rows, slot).min_by_key(|slot| left(rows, *slot, kind)));
            }
        }
        shorts
    }

    /// How the budget in a slot stands to the limits that asks met with this verdict.
    pub(super) fn stands(&self, rows: &[SurveyRow], slot: u32, verdict: Verdict) -> Short {
        let met = &self.0[usize::from(verdict != Verdict::Exhausted)];
        match met.contains(&slot) {
            true => Short::Itself,
            false if chain(rows, slot).any(|slot| met.contains(&slot)) => Short::Above,
            false => Short::Below,
        }
    }
}

fn add(sums: &mut [i64; KINDS], counts: [i64; KINDS]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
}

/// A budget and those above it. The ledger keeps parents in slots before their children.
fn chain(rows: &[SurveyRow], slot: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(slot), |slot| {
        rows.get(*slot as usize)?.parent.filter(|parent| parent < slot)
    })
}

/// What an ask may have at most.
fn left(rows: &[SurveyRow], slot: u32, kind: usize) -> Option<Amount> {
    let row = rows.get(slot as usize)?;
    let free = match kind {
        0 => row.line.free.get().saturating_sub(row.reserve.get()),
        _ => row.calendar_left.map_or(i64::MAX, Amount::get),
    };
    Some(Amount::new(free.saturating_add(row.line.purses.get())))
}

#[cfg(test)]
mod tests {
    use weir_till::cells::SlotCells;

    use super::super::tests::row;
    use super::*;

    /// A budget of 100 above one of 50 above one of 10, and how they stand after one ask of the last that was refused so.
    fn stand(verdict: Verdict, change: fn(&mut [SurveyRow; 3])) -> [Short; 3] {
        let mut rows = [row(1, 100), row(2, 50), row(3, 10)];
        (rows[1].parent, rows[2].parent) = (Some(0), Some(1));
        change(&mut rows);
        let (mut tallies, cells) = (Tallies::new(), [SlotCells::new(3)]);
        tallies.read(&cells, &rows, 0);
        cells[0].tallies[2].refused(verdict);
        tallies.read(&cells, &rows, 1_000);
        let shorts = Shorts::of(&rows, &tallies);
        [0, 1, 2].map(|slot| shorts.stands(&rows, slot, verdict))
    }

    #[test]
    fn an_ask_of_more_than_is_left_is_no_word_about_the_budgets_above() {
        use Short::{Above, Below, Itself};
        assert_eq!(stand(Verdict::Exhausted, |_| {}), [Below, Below, Itself]);
        let spent = |rows: &mut [SurveyRow; 3]| rows[1].line.free = Amount::new(3);
        assert_eq!(stand(Verdict::Exhausted, spent), [Below, Itself, Above]);
        let kept = |rows: &mut [SurveyRow; 3]| rows[0].reserve = Amount::new(95);
        assert_eq!(stand(Verdict::Exhausted, kept), [Itself, Above, Above]);
        let day = |rows: &mut [SurveyRow; 3]| rows[0].calendar_left = Some(Amount::new(1));
        assert_eq!(stand(Verdict::DayExhausted, day), [Itself, Above, Above]);
        assert_eq!(
            stand(Verdict::Exhausted, day),
            [Below, Below, Itself],
            "the day is another limit"
        );
        assert_eq!(stand(Verdict::Paced, |_| {}), [Below; 3]);
    }
}
