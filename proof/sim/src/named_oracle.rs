//! The oracle of named holds: rows and sums in 128-bit integers, from what the door said and what it was answered.

use std::collections::BTreeMap;

use ledger::{Bank, Door, LegAmounts, Line, NamedHold, Period, Record, Status, WindowKind};

use crate::book::Legs;
use crate::world::World;

pub(crate) const DOOR: Door = Door::Fix;

/// On the line `Held`, then on those of what is spent.
pub(crate) type Lines = [i128; 6];

pub(crate) fn lines_of(amounts: &LegAmounts) -> Lines {
    let LegAmounts { hold, spent: [a, b, c, d, e] } = amounts;
    [hold, a, b, c, d, e].map(|amount| i128::from(amount.get()))
}

fn add(sums: &mut Lines, more: &Lines, sign: i128) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += sign * more);
}

/// What is out or spent within holds: all but `over_settled`, `late` and `unknown_order`.
fn within(lines: &Lines) -> i128 {
    let [hold, settled, _, _, inferred, _] = lines;
    hold + settled + inferred
}

/// The door's rows in the bank.
pub(crate) fn rows_of(bank: &Bank) -> BTreeMap<u128, Legs> {
    let own = bank.named_holds().filter(|hold| hold.door == DOOR);
    own.map(|hold| (hold.key, legs_of(&hold))).collect()
}

pub(crate) fn legs_of(hold: &NamedHold) -> Legs {
    hold.legs.iter().map(|leg| (leg.budget, leg.amounts)).collect()
}

/// A row after a change; none where it ended.
type NamedChange = (u128, Option<Legs>);

/// What named holds come to.
#[derive(Debug, Default)]
pub(crate) struct NamedBooks {
    /// By budget: itself and its parents.
    chains: BTreeMap<u64, Vec<u64>>,
    /// Each change that a record was made of.
    events: Vec<NamedChange>,
    /// Changes that a recovery did not find.
    lost: Vec<NamedChange>,
    pub(crate) rows: BTreeMap<u128, Legs>,
    /// On each level, of all that ever were.
    sums: BTreeMap<u64, Lines>,
    /// Of so many changes the door heard.
    pub(crate) told: usize,
    /// By how much facts raised what is out above a limit.
    forced: BTreeMap<u64, i128>,
    /// What was held on a level when its day began.
    pub(crate) carried: BTreeMap<u64, i128>,
    /// Asks that were answered before they were sealed: how many records there were with theirs, a budget, and what it raised.
    pub(crate) early: Vec<(usize, u64, i128)>,
}

impl NamedBooks {
    pub(crate) fn new(chains: BTreeMap<u64, Vec<u64>>) -> NamedBooks {
        NamedBooks { chains, ..NamedBooks::default() }
    }

    pub(crate) fn changes(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn sum(&self, id: u64) -> Lines {
        self.sums.get(&id).copied().unwrap_or_default()
    }

    pub(crate) fn held(&self, id: u64) -> i128 {
        self.sum(id)[0]
    }

    pub(crate) fn within(&self, id: u64) -> i128 {
        within(&self.sum(id))
    }

    pub(crate) fn spent(&self, id: u64) -> i128 {
        self.sum(id)[1..].iter().sum()
    }

    pub(crate) fn forced(&self, id: u64) -> i128 {
        self.forced.get(&id).copied().unwrap_or(0)
    }

    /// What facts forced counts for as long as it is above the limit.
    pub(crate) fn settle_forced(&mut self, id: u64, above: i128) {
        if above <= 0 {
            self.forced.remove(&id);
        } else if let Some(forced) = self.forced.get_mut(&id) {
            *forced = (*forced).min(above);
        }
    }

    /// A recovery found so many records. By level: what was granted and is lost.
    pub(crate) fn lost_early(&mut self, records: usize) -> BTreeMap<u64, i128> {
        let mut levels = BTreeMap::new();
        for (_, budget, raise) in self.early.drain(..).filter(|(end, ..)| *end > records) {
            for level in &self.chains[&budget] {
                *levels.entry(*level).or_default() += raise;
            }
        }
        levels
    }

    /// What these legs change on each level.
    pub(crate) fn differences(&self, key: u128, legs: &Legs) -> BTreeMap<u64, Lines> {
        let row = self.rows.get(&key);
        let mut levels: BTreeMap<u64, Lines> = BTreeMap::new();
        for (budget, amounts) in legs {
            let before = row.and_then(|row| row.get(budget)).map(lines_of).unwrap_or_default();
            for level in &self.chains[budget] {
                let sums = levels.entry(*level).or_default();
                add(sums, &lines_of(amounts), 1);
                add(sums, &before, -1);
            }
        }
        levels
    }

    /// The legs of a row are so now, or it ended.
    pub(crate) fn change(&mut self, key: u128, legs: Option<&Legs>, fact: bool) {
        let mut after = None;
        if let Some(legs) = legs {
            let mut row = self.rows.get(&key).cloned().unwrap_or_default();
            row.extend(legs.clone());
            if fact {
                for (level, difference) in self.differences(key, legs) {
                    *self.forced.entry(level).or_default() += within(&difference).max(0);
                }
            }
            after = Some(row);
        }
        self.fold(key, after.as_ref());
        self.events.push((key, after));
    }

    fn fold(&mut self, key: u128, row: Option<&Legs>) {
        let Some(row) = row else {
            self.rows.remove(&key);
            return;
        };
        for (level, difference) in self.differences(key, row) {
            add(self.sums.entry(level).or_default(), &difference, 1);
        }
        self.rows.insert(key, row.clone());
    }

    /// A recovery found these records: the first changes, with all that the door heard of; behind those perhaps some that an earlier
    /// recovery did not find, and a log on other machines took late. Returns how many changes are lost.
    pub(crate) fn recovered(&mut self, records: &[Record]) -> Result<usize, String> {
        let made = std::mem::take(&mut self.events);
        let mut same = 0;
        for record in records {
            let (key, legs) = match record {
                Record::Named { hold, .. } => (hold.key, Some(legs_of(hold))),
                Record::NamedEnded { door: DOOR, key, .. } => (*key, None),
                _ => continue,
            };
            let fits = |(made, row): &&NamedChange| match (row, &legs) {
                (Some(row), Some(legs)) => {
                    *made == key && legs.iter().all(|(id, leg)| row.get(id) == Some(leg))
                }
                (row, legs) => *made == key && row.is_none() && legs.is_none(),
            };
            let next = made.get(same).filter(|next| same == self.events.len() && fits(next));
            same += usize::from(next.is_some());
            let Some(found) = next.or_else(|| self.lost.iter().rev().find(fits)) else {
                return Err(format!("change {same} was {:?}, not {record:?}", made.get(same)));
            };
            self.events.push(found.clone());
        }
        if same < self.told {
            return Err(format!("the door heard of {} changes, {same} are there", self.told));
        }
        self.lost.extend_from_slice(&made[same..]);
        (self.rows, self.sums) = (BTreeMap::new(), BTreeMap::new());
        for (key, row) in std::mem::take(&mut self.events) {
            self.fold(key, row.as_ref());
            self.events.push((key, row));
        }
        Ok(made.len() - same)
    }

    /// The bank has these rows, and no others.
    pub(crate) fn check_rows(&self, bank: &Bank) -> Result<(), String> {
        let there = rows_of(bank);
        let differs = self.rows.keys().chain(there.keys());
        match differs.into_iter().find(|key| self.rows.get(key) != there.get(key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "the row of order {key} is {:?}, expected {:?}",
                there.get(key),
                self.rows.get(key)
            )),
        }
    }
}

impl World {
    /// What stands in a budget's books.
    pub(crate) fn lines_at(&self, id: u64) -> Lines {
        let books = self.bank.slot(id).map(|slot| *self.bank.books(slot)).unwrap_or_default();
        let held = [Line::Held].into_iter().chain(Line::SPENT);
        let mut lines = [0; 6];
        lines.iter_mut().zip(held).for_each(|(at, line)| *at = books.line(line).get().into());
        lines
    }

    /// On every level of a message's legs, what it changed is what it said; nothing, where it was refused.
    pub(crate) fn check_change(
        &self,
        key: u128,
        before: &BTreeMap<u64, Lines>,
        expected: &BTreeMap<u64, Lines>,
        row: Option<&Legs>,
    ) -> Result<(), String> {
        let there = self.bank.named_hold(DOOR, key).map(|hold| legs_of(&hold));
        if there.as_ref() != row {
            return Err(format!("the row of order {key} is {there:?}, expected {row:?}"));
        }
        for (id, before) in before {
            let mut lines = expected.get(id).copied().unwrap_or_default();
            add(&mut lines, before, 1);
            let now = self.lines_at(*id);
            if now != lines {
                return Err(format!("order {key}, budget {id}: {now:?}, expected {lines:?}"));
            }
        }
        Ok(())
    }

    /// An ask that was granted fits into every limit of every level of what it raised.
    pub(crate) fn check_granted(&self, levels: &BTreeMap<u64, Lines>) -> Result<(), String> {
        for (id, _) in levels.iter().filter(|(_, lines)| lines[0] > 0) {
            let (Some(slot), Some(spec)) =
                (self.bank.slot(*id), self.specs.iter().find(|spec| spec.id == *id))
            else {
                return Err(format!("an order was granted by budget {id}, which is not there"));
            };
            if self.ended.contains(id) || spec.status != Status::Active {
                return Err(format!("an order was granted by budget {id}, which is closed"));
            }
            let over = self.bank.books(slot).exposure() > spec.limit;
            let mut windows = self.bank.windows(slot);
            let window = windows.find(|(window, used, _)| *used > window.limit);
            if spec.tolerance_ppm == 0 && (over || window.is_some()) {
                return Err(format!("an order was granted above budget {id}: {window:?}"));
            }
        }
        Ok(())
    }

    /// A day, week or month begins.
    pub(crate) fn note_rolled(&mut self, records: &[Record]) {
        let Some(door) = &mut self.door else { return };
        for record in records {
            let (id, event) = match record {
                Record::DayRolled { id, .. } => (*id, "named: a day began with open holds"),
                Record::WindowRolled { id, period, .. } if *period > Period::Day => {
                    (*id, "named: a week or month began with open holds")
                }
                _ => continue,
            };
            let held = door.books.held(id);
            self.stats.count(event, u64::from(held > 0));
            if matches!(record, Record::DayRolled { .. }) {
                door.books.carried.insert(id, held);
            }
        }
    }

    /// Books and windows of days hold at least what is open under names: from the first instant of a window on.
    pub(crate) fn check_named(&self) -> Result<(), String> {
        let Some(door) = &self.door else { return Ok(()) };
        for spec in &self.specs {
            let (held, id) = (door.books.held(spec.id), spec.id);
            let Some(slot) = self.bank.slot(id).filter(|_| held > 0) else { continue };
            let at_least = |what: &str, there: i128| match there < held {
                true => Err(format!("budget {id}: {held} is open under names, {what}: {there}")),
                false => Ok(()),
            };
            at_least("the books hold", self.lines_at(id)[0])?;
            let mut windows = self.bank.windows(slot).filter(|(window, _, end_ms)| {
                window.period >= Period::Day
                    && window.kind == WindowKind::Fixed
                    && *end_ms > self.bank.now_ms()
            });
            windows.try_for_each(|(window, used, _)| {
                at_least(&format!("{window:?} counts"), used.get().into())
            })?;
        }
        Ok(())
    }
}
