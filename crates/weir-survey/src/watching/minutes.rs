//! What the history is told: a row a budget and minute, for budgets of which something happened.

use weir_node::bank::rows::SurveyRow;

use super::breath::Breath;
use super::tallies::{Counts, Tallies};
use crate::pace_text::on_plan;

const MINUTE_MS: u64 = 60_000;

/// Gathers the present minute.
#[derive(Debug, Default)]
pub(super) struct Minutes {
    /// The minute that is going on; `None` before the first look.
    minute: Option<u64>,
    /// By slot, when it began.
    begun: Vec<Mark>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    counts: Counts,
    wins: u64,
    spent: i64,
}

/// One budget in one minute. Sums are those of its window at the minute's end, counts those of the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MinuteRow {
    pub(super) budget: u64,
    pub(super) spent: i64,
    pub(super) planned: Option<i64>,
    pub(super) counts: Counts,
    /// Settled, in time or late.
    pub(super) wins: u64,
}

impl Mark {
    fn of(row: &SurveyRow, counts: Counts) -> Mark {
        Mark { counts, wins: wins(row), spent: row.spent().get() }
    }
}

fn wins(row: &SurveyRow) -> u64 {
    row.resolved.settled.saturating_add(row.resolved.late)
}

impl Minutes {
    /// To be called at each survey. At the first one of a minute: the number of the minute that is over, since 1970, and
    /// its rows.
    pub(super) fn look(
        &mut self,
        rows: &[SurveyRow],
        tallies: &Tallies,
        now_ms: u64,
    ) -> Option<(u64, Vec<MinuteRow>)> {
        let minute = now_ms / MINUTE_MS;
        let known = self.begun.len();
        // A budget that is new begins with nothing.
        self.begun.resize(rows.len(), Mark::default());
        let Some(over) = self.minute.replace(minute) else {
            self.mark(rows, tallies);
            return None;
        };
        if over == minute {
            for (slot, row) in rows.iter().enumerate().skip(known) {
                self.begun[slot].spent = row.spent().get();
            }
            return None;
        }
        let mut breath = Breath::new();
        let happened = rows.iter().enumerate().filter_map(|(slot, row)| {
            breath.take();
            let (now, begun) = (Mark::of(row, tallies.total(slot)), self.begun[slot]);
            let counts = now.counts.since(begun.counts);
            let wins = now.wins.saturating_sub(begun.wins);
            let quiet = counts.asks == 0 && wins == 0 && now.spent == begun.spent;
            (!quiet).then(|| MinuteRow::of(row, counts, wins))
        });
        let happened = happened.collect();
        self.mark(rows, tallies);
        Some((over, happened))
    }

    fn mark(&mut self, rows: &[SurveyRow], tallies: &Tallies) {
        let mut breath = Breath::new();
        for (slot, (mark, row)) in self.begun.iter_mut().zip(rows).enumerate() {
            breath.take();
            *mark = Mark::of(row, tallies.total(slot));
        }
    }
}

impl MinuteRow {
    fn of(row: &SurveyRow, counts: Counts, wins: u64) -> MinuteRow {
        let progress = row.standing.map(|standing| standing.progress);
        MinuteRow {
            budget: row.line.id,
            spent: progress.map_or(row.spent(), |progress| progress.spent).get(),
            planned: row.standing.as_ref().and_then(on_plan).map(|progress| progress.planned.get()),
            counts,
            wins,
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::Amount;

    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_minute_is_told_when_it_is_over_and_only_of_who_moved() {
        let (mut minutes, tallies) = (Minutes::default(), Tallies::new());
        let mut rows = vec![row(1, 100), row(2, 100)];
        assert_eq!(minutes.look(&rows, &tallies, 5 * MINUTE_MS + 1), None);
        (rows[1].line.settled, rows[1].resolved.settled) = (Amount::new(9), 2);
        assert_eq!(minutes.look(&rows, &tallies, 5 * MINUTE_MS + 2_000), None);
        let (minute, told) = minutes.look(&rows, &tallies, 6 * MINUTE_MS).unwrap();
        let expected =
            MinuteRow { budget: 2, spent: 9, planned: None, counts: Counts::default(), wins: 2 };
        assert_eq!((minute, told), (5, vec![expected]));
        assert_eq!(minutes.look(&rows, &tallies, 7 * MINUTE_MS), Some((6, Vec::new())));
    }

    #[test]
    fn what_a_new_budget_spent_in_earlier_runs_is_no_news() {
        let (mut minutes, tallies) = (Minutes::default(), Tallies::new());
        assert_eq!(minutes.look(&[row(1, 100)], &tallies, 0), None);
        let mut known = row(2, 100);
        known.line.settled = Amount::new(50);
        assert_eq!(minutes.look(&[row(1, 100), known], &tallies, 2_000), None);
        let told = minutes.look(&[row(1, 100), known], &tallies, MINUTE_MS);
        assert_eq!(told, Some((0, Vec::new())));
    }
}
