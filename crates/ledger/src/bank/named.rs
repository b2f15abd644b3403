//! Holds with a name: a row for each, and what an ask, a fact and an end make of it. `timed` has what becomes of those that end by time.

use std::collections::BTreeSet;

use hashbrown::HashTable;
use table::Secret;
use wire::Verdict;

use super::{Bank, Budget, Out, ReplayError};
use crate::books::{Books, minus, plus};
use crate::named::{
    LABEL_BYTES_MAX, LEGS_MAX, LegAmounts, NamedAnswer, NamedError, NamedHold, NamedKind, NamedLeg,
    NamedRefusal, NamedSay,
};
use crate::spec::MADE_SLOT;
use crate::{Amount, Door, Line, Record, WindowLimit, WindowUse};

/// Rows lie in pieces of so many, so that none is ever copied because others come.
const PIECE: usize = 1_024;
/// Doors choose their keys so that callers cannot: nobody needs to be kept from guessing where they land.
const SECRET: Secret = Secret::new(0x6e61_6d65_6420_686f_6c64_735f_6b65_7973);

#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) slot: u32,
    pub(super) amounts: LegAmounts,
}

/// 112 bytes, the label, and 56 bytes for each leg but the first.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: u128,
    label: Box<str>,
    first: Leg,
    more: Box<[Leg]>,
    pub(super) door: Door,
}

/// What is known of a row that ends by time, beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedRow {
    pub(super) amount: Amount,
    pub(super) until_ms: u64,
    pub(super) state: Verdict,
}

impl TimedRow {
    /// Is all known that becomes of it?
    pub(super) fn is_final(&self) -> bool {
        !matches!(self.state, Verdict::Granted | Verdict::Confirmed | Verdict::Expired)
    }

    /// The line that what it holds is on.
    pub(super) fn line(&self) -> Line {
        if self.state == Verdict::Expired { Line::Expired } else { Line::Held }
    }
}

impl Row {
    pub(super) fn legs(&self) -> impl Iterator<Item = &Leg> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn legs_mut(&mut self) -> impl Iterator<Item = &mut Leg> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }
}

/// The named holds that are open.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedHolds {
    pieces: Vec<Vec<Option<Row>>>,
    /// Places without a row.
    vacant: Vec<u32>,
    /// Places by door and key.
    index: HashTable<u32>,
    /// By place, piece by piece, where any row of the piece ends by time.
    timed: Vec<Option<Box<[Option<TimedRow>; PIECE]>>>,
    /// When which of them is looked at, by key, while a run is live.
    pub(super) ends: BTreeSet<(u64, u128)>,
    /// Those of them that are settled or released: they make room where there is none.
    pub(super) settled: BTreeSet<(u64, u128)>,
}

fn hash(door: Door, key: u128) -> u64 {
    let mut bytes = [door as u8; 17];
    bytes[..16].copy_from_slice(&key.to_le_bytes());
    SECRET.hash(&bytes)
}

impl NamedHolds {
    pub(super) fn row(&self, at: u32) -> &Row {
        let at = at as usize;
        self.pieces[at / PIECE][at % PIECE].as_ref().expect("indexed places have rows")
    }

    pub(super) fn find(&self, door: Door, key: u128) -> Option<u32> {
        let is_it = |at: &u32| {
            let row = self.row(*at);
            (row.key, row.door) == (key, door)
        };
        self.index.find(hash(door, key), is_it).copied()
    }

    fn add(&mut self, row: Row, max: usize) {
        if self.index.capacity() == 0 {
            // So many come to be there in a long day: no turn has to make room for all of them at once.
            self.index.reserve(max, |_| 0);
        }
        let hashed = hash(row.door, row.key);
        let at = self.vacant.pop().unwrap_or_else(|| {
            if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
                self.pieces.push(Vec::with_capacity(PIECE));
            }
            let full = (self.pieces.len() - 1) * PIECE;
            let piece = self.pieces.last_mut().expect("pushed above");
            piece.push(None);
            u32::try_from(full + piece.len() - 1).expect("far below 2^32")
        });
        self.pieces[at as usize / PIECE][at as usize % PIECE] = Some(row);
        let NamedHolds { pieces, index, .. } = self;
        let of = |at: &u32| {
            let row = pieces[*at as usize / PIECE][*at as usize % PIECE].as_ref();
            row.map_or(0, |row| hash(row.door, row.key))
        };
        index.insert_unique(hashed, at, of);
    }

    fn remove(&mut self, at: u32) -> Row {
        let row = self.pieces[at as usize / PIECE][at as usize % PIECE].take();
        let row = row.expect("indexed places have rows");
        if let Ok(entry) = self.index.find_entry(hash(row.door, row.key), |found| *found == at) {
            entry.remove();
        }
        self.vacant.push(at);
        self.set_timed(at, None);
        row
    }

    /// What is known of a row that ends by time.
    pub(super) fn timed(&self, at: u32) -> Option<&TimedRow> {
        self.timed.get(at as usize / PIECE)?.as_ref()?[at as usize % PIECE].as_ref()
    }

    pub(super) fn set_timed(&mut self, at: u32, row: Option<TimedRow>) {
        let piece = at as usize / PIECE;
        if row.is_some() && self.timed.len() <= piece {
            self.timed.resize(piece + 1, None);
        }
        let Some(rows) = self.timed.get_mut(piece) else { return };
        if row.is_some() || rows.is_some() {
            rows.get_or_insert_with(|| Box::new([None; PIECE]))[at as usize % PIECE] = row;
        }
    }

    /// Those that end by time, with their places.
    pub(super) fn all_timed(&self) -> impl Iterator<Item = (u32, &TimedRow)> {
        let pieces = (0_u32..).step_by(PIECE).zip(&self.timed);
        pieces.filter_map(|(first, rows)| Some((first, rows.as_ref()?))).flat_map(
            |(first, rows)| {
                (first..).zip(rows.iter()).filter_map(|(at, row)| Some((at, row.as_ref()?)))
            },
        )
    }

    fn rows(&self) -> impl Iterator<Item = (u32, &Row)> {
        let all = (0_u32..).step_by(PIECE).zip(&self.pieces);
        all.flat_map(|(first, piece)| {
            (first..).zip(piece).filter_map(|(at, row)| Some((at, row.as_ref()?)))
        })
    }
}

/// What becomes of a leg.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) slot: u32,
    pub(super) budget: u64,
    is_new: bool,
    pub(super) before: LegAmounts,
    pub(super) after: LegAmounts,
}

impl Change {
    const NONE: Change = Change {
        slot: 0,
        budget: 0,
        is_new: false,
        before: LegAmounts { hold: Amount::ZERO, spent: [Amount::ZERO; 5] },
        after: LegAmounts { hold: Amount::ZERO, spent: [Amount::ZERO; 5] },
    };

    /// By how much the hold rises.
    pub(super) fn raise(&self) -> i128 {
        i128::from(self.after.hold.get()) - i128::from(self.before.hold.get())
    }

    /// What it makes free at most, as on the day a line may fall by more than the others rise.
    pub(super) fn frees(&self) -> Amount {
        let lines = self.before.lines().zip(self.after.lines());
        let falls = lines.map(|((_, before), (_, after))| more(after, before)).sum::<i128>();
        Amount::new(i64::try_from(falls).unwrap_or(i64::MAX))
    }

    /// By how much what is settled, inferred and held rises together.
    fn forces(&self) -> u64 {
        let of = |leg: &LegAmounts| {
            let within = leg
                .lines()
                .filter(|(line, _)| matches!(line, Line::Held | Line::Settled | Line::Inferred));
            within.map(|(_, amount)| i128::from(amount.get())).sum::<i128>()
        };
        u64::try_from((of(&self.after) - of(&self.before)).max(0)).unwrap_or(u64::MAX)
    }

    /// By how much each line rises, all together; with `spent`, of what is spent alone.
    fn rises(&self, spent: bool) -> i128 {
        let lines = self.before.lines().zip(self.after.lines()).skip(usize::from(spent));
        lines.map(|((_, before), (_, after))| more(before, after)).sum()
    }
}

fn more(before: Amount, after: Amount) -> i128 {
    (i128::from(after.get()) - i128::from(before.get())).max(0)
}

/// What becomes of a row.
pub(super) struct Changes {
    pub(super) at: Option<u32>,
    all: [Change; LEGS_MAX],
    len: usize,
}

impl Changes {
    pub(super) fn all(&self) -> &[Change] {
        &self.all[..self.len]
    }

    /// Do all of its legs begin, or none?
    pub(super) fn are_all_new(&self, new: bool) -> bool {
        self.all().iter().all(|change| change.is_new == new)
    }

    fn is_nothing(&self) -> bool {
        self.at.is_some()
            && self.all().iter().all(|change| !change.is_new && change.before == change.after)
    }

    /// An ask raises holds and nothing else.
    fn check_ask(&self) -> Result<(), NamedError> {
        let lowers = |c: &&Change| c.raise() < 0 || c.before.spent != c.after.spent;
        let wrong = self.all().iter().find(lowers);
        wrong.map_or(Ok(()), |change| Err(NamedError::NotAsk(change.budget)))
    }
}

/// Where an ask found too little.
pub(super) struct Short {
    pub(super) leg: usize,
    /// The budget that has too little, and what is raised there with the legs before.
    pub(super) level: u32,
    pub(super) raised: i128,
    pub(super) why: Verdict,
    pub(super) left: Amount,
}

impl Bank {
    /// What a fact may leave out of a budget and not spent: beside it there is room for all that can be spent, by holds of purses too.
    const ASIDE_MAX: Amount = Amount::new(Books::EXPOSURE_MAX.get() - Bank::SPENT_MAX.get());

    /// Sets money aside under a name, or more of it: for all legs or for none. False: it was so before, and nothing is recorded. The
    /// answer waits for the records up to here, as messages do.
    ///
    /// # Errors
    /// Why not. What lies in purses is called back for whoever asks again.
    pub fn ask_named(&mut self, hold: NamedHold, out: &mut Out) -> Result<bool, NamedRefusal> {
        let changes = self.untimed(&hold)?;
        changes.check_ask()?;
        if changes.is_nothing() {
            return Ok(false);
        }
        if changes.at.is_none() && self.has_no_named_room(out) {
            return Err(NamedRefusal::Busy);
        }
        self.begin_windows(&changes, out);
        self.judge_ask(&changes, out)
            .map_err(|Short { leg, why, left, .. }| NamedRefusal::Leg { leg, why, left })?;
        self.book_named(hold, &changes, false, out);
        Ok(true)
    }

    /// Says what happened outside: it is booked whatever is left, and makes a row where there is none. As [`Bank::ask_named`] else.
    ///
    /// # Errors
    /// It cannot be so, or not be counted.
    pub fn state_named(&mut self, hold: NamedHold, out: &mut Out) -> Result<bool, NamedRefusal> {
        let changes = self.untimed(&hold)?;
        if let Err(error) = self.check_room(&changes) {
            self.counts.spent_full += 1;
            return Err(error.into());
        }
        if changes.is_nothing() {
            return Ok(false);
        }
        self.begin_windows(&changes, out);
        self.book_named(hold, &changes, true, out);
        for change in changes.all() {
            self.call_in(change.slot, out);
            if change.frees() > Amount::ZERO {
                self.feed_hungry(Some(change.slot), out);
            }
        }
        Ok(true)
    }

    /// Forgets a named hold that holds nothing. What it booked stays booked. False: there is none.
    ///
    /// # Errors
    /// It holds something.
    pub fn end_named(
        &mut self,
        door: Door,
        key: u128,
        out: &mut Out,
    ) -> Result<bool, NamedRefusal> {
        let Some(at) = self.named_rows.find(door, key) else { return Ok(false) };
        self.check_end(at)?;
        if self.named_rows.timed(at).is_some() {
            return Err(NamedError::Timed.into());
        }
        self.book(Record::NamedEnded { door, key, at_ms: self.now_ms }, out);
        Ok(true)
    }

    /// Does what a door says of one of its named holds. A fact gives its legs away; an ask keeps them, to be asked again.
    ///
    /// # Errors
    /// Those of the three verbs.
    pub fn take_named(&mut self, door: Door, say: &mut NamedSay, out: &mut Out) -> NamedAnswer {
        let key = say.key;
        let hold = |label, legs| NamedHold { door, key, label, legs };
        match say.kind {
            NamedKind::Ask => self.ask_named(hold(say.label.clone(), say.legs.clone()), out),
            NamedKind::Fact => {
                let (label, legs) = (std::mem::take(&mut say.label), std::mem::take(&mut say.legs));
                self.state_named(hold(label, legs), out)
            }
            NamedKind::End => self.end_named(door, key, out),
        }
    }

    /// Legs of named holds on a budget and on those under it, and what they hold.
    pub fn named_on(&self, slot: u32) -> (u32, Amount) {
        let budget = self.budget(slot);
        (budget.named, budget.named_held)
    }

    /// By how much facts raised what a budget has settled, inferred and held, since the bank began, modulo 2^64: the one thing that may bring it
    /// beyond its limit without an overspend.
    pub fn forced(&self, slot: u32) -> u64 {
        self.budget(slot).forced
    }

    /// Named holds that are open.
    pub fn named_len(&self) -> usize {
        self.named_rows.index.len()
    }

    /// The named hold of a door with this key.
    pub fn named_hold(&self, door: Door, key: u128) -> Option<NamedHold> {
        self.named_rows.find(door, key).map(|at| self.told(self.named_rows.row(at)))
    }

    /// All named holds, by door, then by key: what a door compares its own table with when it starts.
    pub fn named_holds(&self) -> impl Iterator<Item = NamedHold> {
        self.named_in_order().map(|(_, row)| self.told(row))
    }

    pub(super) fn named_in_order(&self) -> impl Iterator<Item = (u32, &Row)> {
        let mut rows: Vec<(u32, &Row)> = self.named_rows.rows().collect();
        rows.sort_unstable_by_key(|(_, row)| (row.door, row.key));
        rows.into_iter()
    }

    /// All of them in an order of no meaning, with what is known of those that end by time.
    pub(super) fn named_unordered(&self) -> impl Iterator<Item = (NamedHold, Option<&TimedRow>)> {
        self.named_rows.rows().map(|(at, row)| (self.told(row), self.named_rows.timed(at)))
    }

    pub(super) fn told(&self, row: &Row) -> NamedHold {
        let leg = |leg: &Leg| NamedLeg { budget: self.spec(leg.slot).id, amounts: leg.amounts };
        let (door, key, label) = (row.door, row.key, row.label.clone());
        NamedHold { door, key, label, legs: row.legs().map(leg).collect() }
    }

    /// As [`Bank::changes`], of a row without an end by time.
    fn untimed(&self, hold: &NamedHold) -> Result<Changes, NamedError> {
        let changes = self.changes(hold)?;
        match changes.at.and_then(|at| self.named_rows.timed(at)) {
            Some(_) => Err(NamedError::Timed),
            None => Ok(changes),
        }
    }

    /// What is said of a named hold beside what is known of it.
    pub(super) fn changes(&self, hold: &NamedHold) -> Result<Changes, NamedError> {
        let at = self.named_rows.find(hold.door, hold.key);
        let mut changes = Changes { at, all: [Change::NONE; LEGS_MAX], len: 0 };
        if !(1..=LEGS_MAX).contains(&hold.legs.len()) {
            return Err(NamedError::Legs(hold.legs.len()));
        }
        if hold.label.len() > LABEL_BYTES_MAX {
            return Err(NamedError::Label(hold.label.len()));
        }
        let row = at.map(|at| self.named_rows.row(at));
        let mut legs = row.map_or(0, |row| row.legs().count());
        for (place, NamedLeg { budget, amounts }) in hold.legs.iter().enumerate() {
            let slot = self.slot(*budget).ok_or(NamedError::Unknown(*budget))?;
            if changes.all().iter().any(|change| change.slot == slot) {
                return Err(NamedError::Twice(*budget));
            }
            if amounts.lines().any(|(_, amount)| amount < Amount::ZERO) {
                return Err(NamedError::Negative(*budget));
            }
            let known = row.and_then(|row| row.legs().find(|leg| leg.slot == slot));
            legs += usize::from(known.is_none());
            changes.all[place] = Change {
                slot,
                budget: *budget,
                is_new: known.is_none(),
                before: known.map_or_else(LegAmounts::default, |leg| leg.amounts),
                after: *amounts,
            };
            changes.len = place + 1;
        }
        if legs > LEGS_MAX { Err(NamedError::Legs(legs)) } else { Ok(changes) }
    }

    /// What all legs together say of a level.
    fn at_level(&self, level: u32, all: &[Change], of: impl Fn(&Change) -> i128) -> i128 {
        let there = |change: &&Change| self.chain(change.slot).any(|slot| slot == level);
        all.iter().filter(there).map(of).sum()
    }

    /// Can it be counted on every level, in whatever order the lines change?
    pub(super) fn check_room(&self, changes: &Changes) -> Result<(), NamedError> {
        for change in changes.all() {
            for level in self.chain(change.slot) {
                let books = self.books(level);
                let out = self.at_level(level, changes.all(), |c| c.rises(false));
                let spent = self.at_level(level, changes.all(), |c| c.rises(true));
                let has = |there: Amount, more: i128, max: Amount| {
                    i128::from(there.get()) + more <= i128::from(max.get())
                };
                let held = self.at_level(level, changes.all(), Change::raise);
                let aside = minus(books.exposure(), books.spent());
                if !has(books.exposure(), out, Books::EXPOSURE_MAX)
                    || !has(aside, held, Bank::ASIDE_MAX)
                    || !has(books.spent(), spent, Bank::SPENT_MAX)
                {
                    return Err(NamedError::TooMuch(change.budget));
                }
            }
        }
        Ok(())
    }

    pub(super) fn begin_windows(&mut self, changes: &Changes, out: &mut Out) {
        for change in changes.all() {
            self.use_made(change.slot);
            self.roll_days(change.slot, out);
        }
    }

    /// Is there, on every level, what the legs up to each one raise?
    pub(super) fn judge_ask(&mut self, changes: &Changes, out: &mut Out) -> Result<(), Short> {
        for (leg, change) in changes.all().iter().enumerate().filter(|(_, c)| c.raise() > 0) {
            if let Some(why) = self.closed(change.slot) {
                let (level, raised, left) = (change.slot, 0, Amount::ZERO);
                return Err(Short { leg, level, raised, why, left });
            }
            let (mut left, mut short) = (i128::MAX, None);
            for level in self.chain(change.slot) {
                let before = self.at_level(level, &changes.all()[..leg], |c| c.raise().max(0));
                let available = i128::from(self.budget(level).available(self.now_ms).get());
                left = left.min(available - before);
                let raised = before + change.raise();
                if available < raised {
                    let why = self.why_short(level, raised);
                    short = short
                        .filter(|(_, _, why)| *why != Verdict::PurseEmpty)
                        .or(Some((level, raised, why)));
                }
            }
            let Some((level, raised, why)) = short else { continue };
            if why == Verdict::PurseEmpty {
                self.recall_for_named(level, out);
            }
            let left = Amount::new(i64::try_from(left.max(0)).unwrap_or(i64::MAX));
            return Err(Short { leg, level, raised, why, left });
        }
        Ok(())
    }

    /// Which limit of a budget has less than this with every purse under it emptied; `PurseEmpty` where none has.
    fn why_short(&self, level: u32, raised: i128) -> Verdict {
        let budget = self.budget(level);
        let parked = plus(budget.in_purses(), budget.returning);
        if i128::from(plus(budget.left_of_life(), parked).get()) < raised {
            return Verdict::Exhausted;
        }
        match self.short_window(level, raised) {
            Some((window, _)) if window.is_day() => Verdict::DayExhausted,
            Some(_) => Verdict::WindowExhausted,
            None => Verdict::PurseEmpty,
        }
    }

    /// The window of a budget that has less than this with every purse under it emptied.
    pub(super) fn short_window(
        &self,
        level: u32,
        raised: i128,
    ) -> Option<(WindowLimit, WindowUse)> {
        let budget = self.budget(level);
        let parked = plus(budget.in_purses(), budget.returning);
        let lacks = |left: Amount| i128::from(plus(left, parked).get()) < raised;
        let mut windows = budget.windows();
        let short = windows.find(|(of, used)| lacks(budget.left_of(of, used, self.now_ms)));
        short.map(|(window, used)| (*window, *used))
    }

    fn book_named(&mut self, mut hold: NamedHold, changes: &Changes, fact: bool, out: &mut Out) {
        let (opens, at_ms) = (changes.at.is_none(), self.now_ms);
        if !opens {
            hold.label = "".into();
        }
        self.move_legs(&hold, changes, fact, (Line::Held, at_ms));
        let freed = changes.all().iter().map(|change| (change.slot, change.frees()));
        out.credits.extend(freed.filter(|(_, freed)| *freed > Amount::ZERO));
        out.records.push(Record::Named { hold: Box::new(hold), fact, opens, at_ms });
    }

    /// Moves what was judged: the books of every level, and the row.
    pub(super) fn move_legs(
        &mut self,
        hold: &NamedHold,
        changes: &Changes,
        fact: bool,
        (held, at_ms): (Line, u64),
    ) {
        for change in changes.all() {
            let Budget { chain, levels, .. } = self.budgets[change.slot as usize];
            for level in &chain[..levels] {
                let budget = &mut self.budgets[*level as usize];
                budget.named += u32::from(change.is_new);
                budget.forced = budget.forced.wrapping_add(if fact { change.forces() } else { 0 });
                budget.move_named(change, held, at_ms);
            }
        }
        self.keep_named(hold, changes);
    }

    fn check_end(&self, at: u32) -> Result<(), NamedError> {
        let holds = self.named_rows.row(at).legs().find(|leg| leg.amounts.hold != Amount::ZERO);
        holds.map_or(Ok(()), |leg| Err(NamedError::Holds(self.spec(leg.slot).id)))
    }

    pub(super) fn apply_named(&mut self, record: &Record) -> Result<(), ReplayError> {
        let (hold, fact, opens, at_ms) = match record {
            Record::Named { hold, fact, opens, at_ms } => (hold, fact, opens, at_ms),
            Record::NamedEnded { door, key, at_ms } => {
                return self.apply_named_ended(*door, *key, *at_ms);
            }
            _ => unreachable!("chosen by the caller"),
        };
        let wrong = |error| ReplayError::Named { key: hold.key, error };
        let changes = self.untimed(hold).map_err(wrong)?;
        if *opens != changes.at.is_none() {
            return Err(wrong(NamedError::Missing));
        }
        self.check_room(&changes).map_err(wrong)?;
        if !fact {
            changes.check_ask().map_err(wrong)?;
        }
        self.pass_to(*at_ms)?;
        self.move_legs(hold, &changes, *fact, (Line::Held, *at_ms));
        Ok(())
    }

    fn keep_named(&mut self, hold: &NamedHold, changes: &Changes) {
        let leg = |change: &Change| Leg { slot: change.slot, amounts: change.after };
        let Some(at) = changes.at else {
            let mut legs = changes.all().iter().map(leg);
            let row = Row {
                key: hold.key,
                label: hold.label.clone(),
                first: legs.next().expect("1 to 8 legs"),
                more: legs.collect(),
                door: hold.door,
            };
            return self.named_rows.add(row, self.options.named_max);
        };
        let row = self.named_rows.pieces[at as usize / PIECE][at as usize % PIECE].as_mut();
        let row = row.expect("indexed places have rows");
        for change in changes.all().iter().filter(|change| !change.is_new) {
            let known = row.legs_mut().find(|leg| leg.slot == change.slot);
            known.expect("it is not new").amounts = change.after;
        }
        if changes.all().iter().any(|change| change.is_new) {
            let new = changes.all().iter().filter(|change| change.is_new).map(leg);
            row.more = row.more.iter().copied().chain(new).collect();
        }
    }

    fn apply_named_ended(&mut self, door: Door, key: u128, at_ms: u64) -> Result<(), ReplayError> {
        let wrong = |error| ReplayError::Named { key, error };
        let at = self.named_rows.find(door, key).ok_or(wrong(NamedError::Missing))?;
        self.check_end(at).map_err(wrong)?;
        let is_alive = |row: &TimedRow| matches!(row.state, Verdict::Granted | Verdict::Confirmed);
        if self.named_rows.timed(at).is_some_and(is_alive) {
            return Err(wrong(NamedError::Timed));
        }
        self.pass_to(at_ms)?;
        for leg in self.named_rows.remove(at).legs() {
            let Budget { chain, levels, .. } = self.budgets[leg.slot as usize];
            for level in &chain[..levels] {
                let budget = &mut self.budgets[*level as usize];
                budget.named -= 1;
                if *level >= MADE_SLOT && budget.named == 0 {
                    let (id, due_ms) = (budget.spec.id, budget.used_ms + budget.spec.idle_ms);
                    self.timeline.idle(id, due_ms.max(self.now_ms));
                }
            }
        }
        Ok(())
    }

    /// Takes one of a snapshot, whose money is on a line. The books have it already.
    pub(super) fn restore_named(&mut self, hold: &NamedHold, line: Line) -> Result<(), NamedError> {
        let changes = self.changes(hold)?;
        if changes.at.is_some() {
            return Err(NamedError::Missing);
        }
        self.check_room_of_sums(&changes)?;
        for change in changes.all() {
            for level in self.chain(change.slot) {
                let budget = &mut self.budgets[level as usize];
                budget.named += 1;
                let held = budget.named_held_on(line);
                *held = plus(*held, change.after.hold);
            }
        }
        self.keep_named(hold, &changes);
        Ok(())
    }

    fn check_room_of_sums(&self, changes: &Changes) -> Result<(), NamedError> {
        for change in changes.all() {
            for level in self.chain(change.slot) {
                let held = self.at_level(level, changes.all(), |c| i128::from(c.after.hold.get()));
                let known = self.budget(level);
                let known = plus(known.named_held, known.named_expired);
                let held = held + i128::from(known.get());
                if held > i128::from(Books::EXPOSURE_MAX.get()) {
                    return Err(NamedError::TooMuch(change.budget));
                }
            }
        }
        Ok(())
    }
}

impl Budget {
    pub(super) fn named_held_on(&mut self, line: Line) -> &mut Amount {
        if line == Line::Expired { &mut self.named_expired } else { &mut self.named_held }
    }

    /// Moves the difference on one level: in its books, on the present day, and in its other windows. What it holds is on the line `held`.
    fn move_named(&mut self, change: &Change, held: Line, at_ms: u64) {
        let Change { before, after, .. } = change;
        for ((line, before), (_, after)) in before.lines().zip(after.lines()) {
            let line = if line == Line::Held { held } else { line };
            match before < after {
                true => self.books.shift(Line::Free, line, minus(after, before)),
                false => self.books.shift(line, Line::Free, minus(before, after)),
            }
        }
        let sum = self.named_held_on(held);
        *sum = plus(minus(*sum, before.hold), after.hold);
        if !self.day.is_empty() {
            self.move_named_today(before, after, held);
        }
        if !self.windows.is_empty() {
            self.move_named_windows(change, at_ms);
        }
    }

    /// The day counts every named hold that is open, and what was booked on it. A credit lowers a line by what is there at most, and the day
    /// by what named holds booked on it: it frees nothing that purses spent. What of it was booked on other days is not booked anew by
    /// moving to another line.
    fn move_named_today(&mut self, before: &LegAmounts, after: &LegAmounts, held: Line) {
        let rest = i128::from(self.day_named);
        let mut left = if after.booked() - before.booked() < -rest { rest } else { i128::MAX };
        let day = &mut self.day_lines;
        let held = &mut day[held as usize];
        *held = plus(minus(*held, before.hold), after.hold);
        let (mut of_other_days, mut booked) = (Amount::ZERO, 0_i128);
        let lines = || before.lines().zip(after.lines()).skip(1);
        for ((line, before), (_, after)) in lines().filter(|(before, after)| after.1 < before.1) {
            let there = &mut day[line as usize];
            let most = Amount::new(i64::try_from(left).unwrap_or(i64::MAX));
            let back = minus(before, after).min(*there).min(most);
            *there = minus(*there, back);
            (left, booked) = (left - i128::from(back.get()), booked - i128::from(back.get()));
            of_other_days = plus(of_other_days, minus(minus(before, after), back));
        }
        for ((line, before), (_, after)) in lines().filter(|(before, after)| before.1 < after.1) {
            let moved = minus(after, before).min(of_other_days);
            of_other_days = minus(of_other_days, moved);
            let there = &mut day[line as usize];
            let rise = minus(minus(after, before), moved);
            *there = plus(*there, rise);
            booked += i128::from(rise.get());
        }
        self.day_named = u64::try_from(rest + booked).expect("a credit takes back what was booked");
    }

    /// Weeks and months count as the day does; a credit lowers them by what named holds booked in them at most. Shorter windows and
    /// buckets count what is handed out, when it is, and get nothing back.
    fn move_named_windows(&mut self, change: &Change, at_ms: u64) {
        let Change { before, after, .. } = change;
        let booked = after.booked() - before.booked();
        let handed_out =
            Amount::new(i64::try_from((booked + change.raise()).max(0)).expect("checked"));
        let amount =
            |of: i128| Amount::new(i64::try_from(of).expect("checked before it is booked"));
        for (window, used) in self.windows_mut() {
            if window.is_day() || used.until_ms == 0 {
                continue;
            }
            if !window.is_of_days() {
                *used = if window.is_bucket() { used.refilled(*window, at_ms) } else { *used };
                // What is beyond every limit needs no counting: it could come and go until no number holds it.
                let sum = used.used.checked_add(handed_out).unwrap_or(Amount::new(i64::MAX));
                used.used = sum.min(used.used.max(money::LIMIT_MAX));
                continue;
            }
            used.used = plus(minus(used.used, before.hold), after.hold);
            let booked = booked.max(-i128::from(used.rest));
            used.used = plus(used.used, amount(booked));
            used.rest = u64::try_from(i128::from(used.rest) + booked).expect("not below zero");
        }
    }
}
