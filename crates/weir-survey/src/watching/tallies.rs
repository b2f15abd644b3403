//! What became of asks, by budget: read from what workers count anyway.

use weir_node::bank::rows::SurveyRow;
use weir_till::cells::{REFUSALS_END, SlotCells, SlotTally};
use wire::Verdict;

use super::breath::Breath;
use super::sliding::Sliding;

/// Rates are means over this time.
const WINDOW_MS: u64 = 10_000;
/// Counts of a slot: grants, refusals by the code of their verdict, and eligible requests.
const COLUMNS: usize = REFUSALS_END + 1;
const GRANTED: usize = 0;
/// No verdict of an ask has this code: what auctions asked of the plan stands here.
const SEEN: usize = COLUMNS - 1;

/// Counts of all budgets, since the start and over the last seconds.
#[derive(Debug)]
pub(super) struct Tallies {
    /// Former counters of workers, which may still be written to until the worker has taken the new ones.
    former: Vec<SlotCells>,
    present: Vec<SlotCells>,
    /// What was counted in former cells that are gone, by slot.
    folded: Vec<[u32; COLUMNS]>,
    /// Slots of the budgets above, by slot.
    parents: Vec<Option<u32>>,
    /// Of the budget itself.
    own: Vec<[u64; COLUMNS]>,
    /// With those of the budgets under it, as its books are.
    total: Vec<[u64; COLUMNS]>,
    /// What was added at the last look; kept for its memory.
    fresh: Vec<[u64; COLUMNS]>,
    /// Eligible requests of the plan's window at the last look, where there was one.
    seen: Vec<Option<u64>>,
    window: Sliding,
    last_ms: Option<u64>,
}

/// How often it happened, in some stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) asks: u64,
    pub(super) grants: u64,
    pub(super) refusals: u64,
}

/// What most refusals met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Top {
    pub(super) verdict: Verdict,
    pub(super) count: u64,
}

impl Tallies {
    pub(super) fn new() -> Tallies {
        Tallies {
            former: Vec::new(),
            present: Vec::new(),
            folded: Vec::new(),
            parents: Vec::new(),
            own: Vec::new(),
            total: Vec::new(),
            fresh: Vec::new(),
            seen: Vec::new(),
            window: Sliding::new(WINDOW_MS),
            last_ms: None,
        }
    }

    /// Reads all counters: `cells` are those of the workers, `rows` of the same survey.
    pub(super) fn read(&mut self, cells: &[SlotCells], rows: &[SurveyRow], now_ms: u64) {
        self.own.resize(rows.len(), [0; COLUMNS]);
        self.total.resize(rows.len(), [0; COLUMNS]);
        self.folded.resize(rows.len(), [0; COLUMNS]);
        self.seen.resize(rows.len(), None);
        self.fresh.resize(rows.len(), [0; COLUMNS]);
        self.parents.clear();
        self.parents.extend(rows.iter().map(|row| row.parent));
        self.replace(cells);
        let mut breath = Breath::new();
        for (slot, row) in rows.iter().enumerate() {
            breath.take();
            let mut fresh = self.counted(slot);
            self.own[slot].iter_mut().zip(fresh).for_each(|(own, more)| *own += more);
            // The first look, and a new window of the plan, are where counting begins.
            let seen = row.standing.map_or(0, |standing| standing.seen);
            let before = self.seen[slot].replace(seen);
            fresh[SEEN] = before.map_or(0, |before| seen.saturating_sub(before));
            self.fresh[slot] = fresh;
        }
        self.roll_up(rows, &mut breath);
        let mut changes = Vec::new();
        for (slot, (total, fresh)) in self.total.iter_mut().zip(&self.fresh).enumerate() {
            breath.take();
            for (column, (total, more)) in total.iter_mut().zip(fresh).enumerate() {
                if *more > 0 {
                    *total = total.saturating_add(*more);
                    changes.push((counter(slot, column), i64::try_from(*more).unwrap_or(i64::MAX)));
                }
            }
        }
        // Before the first look nothing is known of the time in which it was counted.
        if let Some(from_ms) = self.last_ms.replace(now_ms) {
            self.window.add(from_ms, now_ms, changes);
        }
    }

    /// Adds what is fresh to the budgets above, but for what plans saw: they count that at every level. Parents have lower slots
    /// than their children.
    fn roll_up(&mut self, rows: &[SurveyRow], breath: &mut Breath) {
        for (slot, row) in rows.iter().enumerate().rev() {
            breath.take();
            let parent = row.parent.map(|parent| parent as usize).filter(|parent| *parent < slot);
            let (Some(parent), fresh) = (parent, self.fresh[slot]) else { continue };
            let above = self.fresh[parent].iter_mut().zip(fresh).take(SEEN);
            above.for_each(|(above, more)| *above = above.saturating_add(more));
        }
    }

    /// Other cells since the last look: the former ones are read on until nobody has them any more.
    fn replace(&mut self, cells: &[SlotCells]) {
        let same =
            |(a, b): (&SlotCells, &SlotCells)| std::sync::Arc::ptr_eq(&a.tallies, &b.tallies);
        if self.present.len() != cells.len() || !self.present.iter().zip(cells).all(same) {
            self.former.extend(std::mem::replace(&mut self.present, cells.to_vec()));
        }
        let folded = &mut self.folded;
        self.former.retain(|cells| {
            let used = std::sync::Arc::strong_count(&cells.tallies) > 1;
            if !used {
                for (sums, tally) in folded.iter_mut().zip(cells.tallies.iter()) {
                    add_refusals(sums, tally);
                }
            }
            used
        });
    }

    /// What a slot's counters rose by since the last look.
    fn counted(&self, slot: usize) -> [u64; COLUMNS] {
        let mut sums = self.folded[slot];
        for cells in self.former.iter().chain(&self.present) {
            if let Some(tally) = cells.tallies.get(slot) {
                add_refusals(&mut sums, tally);
            }
        }
        let own = &self.own[slot];
        let mut more: [u64; COLUMNS] = std::array::from_fn(|column| {
            #[allow(clippy::cast_possible_truncation, reason = "counts of workers wrap at 2^32")]
            let before = own[column] as u32;
            sums[column].wrapping_sub(before).into()
        });
        more[SEEN] = 0;
        // Purses tell their holds anew after a change of budgets: until they did, the sum is below what it was.
        let made = self.present.iter().filter_map(|cells| cells.gauges.get(slot));
        let made = made.fold(0, |sum: u64, gauge| sum.saturating_add(gauge.made()));
        more[GRANTED] = made.saturating_sub(own[GRANTED]);
        more
    }

    /// Of the last ten seconds. Who bids in auctions refuses nobody by a verdict: what it could have bid for and did not counts.
    pub(super) fn recent(&self, slot: usize) -> Counts {
        let column = |column| u64::try_from(self.window.sum(counter(slot, column))).unwrap_or(0);
        Counts::of(column)
    }

    /// Since the start.
    pub(super) fn total(&self, slot: usize) -> Counts {
        Counts::of(|column| self.total.get(slot).map_or(0, |total| total[column]))
    }

    /// Holds made from the budget itself since the start.
    pub(super) fn made(&self, slot: usize) -> u64 {
        self.own.get(slot).map_or(0, |own| own[GRANTED])
    }

    /// Is the budget in `slot` the other one, or under it?
    pub(super) fn is_within(&self, slot: u32, other: u32) -> bool {
        let above = |slot: &u32| self.parents.get(*slot as usize).copied().flatten();
        std::iter::successors(Some(slot), above).any(|slot| slot == other)
    }

    /// How much time `recent` is of, ms.
    pub(super) fn covered_ms(&self) -> u64 {
        self.window.covered_ms()
    }

    /// The verdict that most refusals of the last ten seconds met.
    pub(super) fn top(&self, slot: usize) -> Option<Top> {
        let sum = |code: u8| self.window.sum(counter(slot, usize::from(code)));
        let refusals = Verdict::ALL.iter().filter(|verdict| is_refusal(**verdict));
        let counts = refusals.map(|verdict| (*verdict, sum(verdict.as_raw())));
        let (verdict, count) = counts.max_by_key(|(_, count)| *count)?;
        u64::try_from(count).ok().filter(|count| *count > 0).map(|count| Top { verdict, count })
    }

    /// How many asks of the last ten seconds were for more than is left: of a limit, and of a window.
    pub(super) fn short(&self, slot: usize) -> [i64; 2] {
        let sum = |verdict: Verdict| self.window.sum(counter(slot, usize::from(verdict.as_raw())));
        let windows = sum(Verdict::DayExhausted).saturating_add(sum(Verdict::WindowExhausted));
        [sum(Verdict::Exhausted), windows]
    }

    /// All refusals since the start, by verdict, those that occurred.
    pub(super) fn refusals(&self, slot: usize) -> Vec<(Verdict, u64)> {
        let Some(total) = self.total.get(slot) else { return Vec::new() };
        let refusals = Verdict::ALL.iter().filter(|verdict| is_refusal(**verdict));
        let counts = refusals.map(|verdict| (*verdict, total[usize::from(verdict.as_raw())]));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

impl Counts {
    fn of(column: impl Fn(usize) -> u64) -> Counts {
        let grants = column(GRANTED);
        let refused = (GRANTED + 1..SEEN).map(&column).fold(0, u64::saturating_add);
        let asks = column(SEEN).max(grants.saturating_add(refused));
        Counts { asks, grants, refusals: asks.saturating_sub(grants) }
    }

    /// What happened since an earlier look.
    pub(super) fn since(self, earlier: Counts) -> Counts {
        Counts {
            asks: self.asks.saturating_sub(earlier.asks),
            grants: self.grants.saturating_sub(earlier.grants),
            refusals: self.refusals.saturating_sub(earlier.refusals),
        }
    }
}

/// Does an ask of a known budget meet it and get nothing?
fn is_refusal(verdict: Verdict) -> bool {
    (GRANTED + 1..SEEN).contains(&usize::from(verdict.as_raw()))
}

fn add_refusals(sums: &mut [u32; COLUMNS], tally: &SlotTally) {
    for (code, sum) in sums.iter_mut().enumerate().take(SEEN).skip(GRANTED + 1) {
        *sum = sum.wrapping_add(tally.count(code));
    }
}

fn counter(slot: usize, column: usize) -> u32 {
    u32::try_from(slot * COLUMNS + column).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ledger::Amount;

    use super::super::tests::row;
    use super::*;

    /// Looks at two budgets, of which nothing else is known.
    fn read(tallies: &mut Tallies, cells: &[SlotCells], now_ms: u64) {
        tallies.read(cells, &[row(1, 100), row(2, 100)], now_ms);
    }

    fn refuse(cells: &SlotCells, slot: usize, verdict: Verdict, times: u32) {
        (0..times).for_each(|_| cells.tallies[slot].refused(verdict));
    }

    fn grant(cells: &SlotCells, slot: usize, made: u64) {
        cells.gauges[slot].set(Amount::ZERO, made);
    }

    #[test]
    fn counts_of_all_workers_add_up() {
        let (mut tallies, workers) = (Tallies::new(), [SlotCells::new(2), SlotCells::new(2)]);
        read(&mut tallies, &workers, 0);
        refuse(&workers[0], 0, Verdict::Paced, 3);
        refuse(&workers[1], 0, Verdict::PurseEmpty, 4);
        refuse(&workers[1], 0, Verdict::Paced, 2);
        grant(&workers[0], 0, 10);
        grant(&workers[1], 1, 7);
        read(&mut tallies, &workers, 2_000);
        assert_eq!(tallies.recent(0), Counts { asks: 19, grants: 10, refusals: 9 });
        assert_eq!(tallies.recent(1), Counts { asks: 7, grants: 7, refusals: 0 });
        assert_eq!(tallies.top(0), Some(Top { verdict: Verdict::Paced, count: 5 }));
        assert_eq!((tallies.top(1), tallies.covered_ms()), (None, 2_000));
        assert_eq!(tallies.refusals(0), [(Verdict::Paced, 5), (Verdict::PurseEmpty, 4)]);
        read(&mut tallies, &workers, 14_000);
        assert_eq!((tallies.recent(0), tallies.total(0).asks), (Counts::default(), 19));
    }

    #[test]
    fn what_former_cells_counted_is_kept_and_their_last_counts_too() {
        let mut tallies = Tallies::new();
        let former = SlotCells::new(2);
        refuse(&former, 1, Verdict::Paced, 5);
        grant(&former, 1, 8);
        read(&mut tallies, std::slice::from_ref(&former), 0);
        let present = SlotCells::new(2);
        read(&mut tallies, std::slice::from_ref(&present), 1_000);
        // The worker has not taken the new ones yet.
        refuse(&former, 1, Verdict::Paced, 1);
        drop(former);
        refuse(&present, 1, Verdict::Paced, 2);
        for now_ms in [2_000, 3_000] {
            read(&mut tallies, std::slice::from_ref(&present), now_ms);
            assert_eq!(tallies.total(1), Counts { asks: 16, grants: 8, refusals: 8 });
            assert!(tallies.former.is_empty());
        }
        // Purses tell the holds of the run.
        grant(&present, 1, 9);
        read(&mut tallies, std::slice::from_ref(&present), 4_000);
        assert_eq!(tallies.total(1).grants, 9);
        assert_eq!(Arc::strong_count(&present.tallies), 2);
    }

    #[test]
    fn a_parent_counts_what_its_children_count() {
        let (mut tallies, cells) = (Tallies::new(), [SlotCells::new(3)]);
        let mut rows = [row(1, 100), row(2, 100), row(3, 100)];
        (rows[1].parent, rows[2].parent) = (Some(0), Some(1));
        tallies.read(&cells, &rows, 0);
        refuse(&cells[0], 2, Verdict::Exhausted, 4);
        refuse(&cells[0], 1, Verdict::Paced, 1);
        grant(&cells[0], 2, 6);
        for now_ms in [1_000, 2_000] {
            tallies.read(&cells, &rows, now_ms);
            assert_eq!(tallies.total(0), Counts { asks: 11, grants: 6, refusals: 5 });
            assert_eq!(tallies.total(1), Counts { asks: 11, grants: 6, refusals: 5 });
            assert_eq!(tallies.total(2), Counts { asks: 10, grants: 6, refusals: 4 });
        }
        assert_eq!([0, 1, 2].map(|slot| tallies.made(slot)), [0, 0, 6]);
        assert_eq!([0, 1, 2].map(|slot| tallies.is_within(slot, 1)), [false, true, true]);
        assert!(!tallies.is_within(3, 1), "not known yet");
    }

    #[test]
    fn what_an_auction_asked_of_the_plan_and_did_not_bid_for_is_refused() {
        use super::super::tests::standing;
        let (mut tallies, cells) = (Tallies::new(), [SlotCells::new(1)]);
        let seen = |seen| {
            let mut row = row(1, 100);
            row.standing = Some(weir_pacer::Standing { seen, ..standing(true) });
            [row]
        };
        // What a forecast says of the time before the start is no traffic.
        tallies.read(&cells, &seen(5_000), 0);
        cells[0].gauges[0].set(Amount::ZERO, 30);
        tallies.read(&cells, &seen(5_100), 2_000);
        assert_eq!(tallies.recent(0), Counts { asks: 100, grants: 30, refusals: 70 });
        // A new window begins with nothing.
        tallies.read(&cells, &seen(7), 4_000);
        tallies.read(&cells, &seen(10), 6_000);
        assert_eq!(tallies.total(0), Counts { asks: 103, grants: 30, refusals: 73 });
    }
}
