//! A door that keeps orders: a named hold for each in the ledger, a row for each in a book of its own ([`Book`]), and a venue that
//! fills, closes and corrects them. The door asks before an order leaves, states what the venue reports once its book has it, ends what
//! is over, and compares book and ledger when it starts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ledger::{
    Amount, Keyed, LegAmounts, Memo, MemoMoney, MemoRequest, NamedHold, NamedLeg, NamedRefusal,
    Out, Record, UnsealedCredits, Verdict,
};

use crate::Bug;
use crate::book::{Book, Legs, Row, Stage};
use crate::journal::Held;
use crate::memos::{self, SESSION};
use crate::named_oracle::{DOOR, NamedBooks, legs_of, rows_of};
use crate::rng::Rng;
use crate::world::World;

/// The key of the memo that says up to which group of the book the ledger knows everything.
const NUMBER: u128 = SESSION << 1;

/// Legs of an order at most.
const LEGS_MAX: usize = 8;

/// By budget: by how much a hold is to rise.
type Raise = BTreeMap<u64, Amount>;

/// What a door says of an order.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Ask { legs: Legs, raise: Raise, again: u32 },
    State(Legs),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    key: u128,
    say: Say,
}

/// What becomes of a row of the book.
#[derive(Clone, Debug)]
enum RowChange {
    /// It is granted: it leaves once the book has it.
    Raised(Raise),
    Reported,
    /// It never left.
    Unsent,
    Stage(Stage, Legs),
    Gone,
}

/// An order at the venue, as it is.
#[derive(Debug)]
struct VenueOrder {
    legs: Legs,
    closed: bool,
}

/// The door, its venue, and what the oracle knows of both.
#[derive(Debug)]
pub(crate) struct OrderDoor {
    rng: Rng,
    keys: u128,
    pub(crate) books: NamedBooks,
    venue: BTreeMap<u128, VenueOrder>,
    /// Orders of which the venue has something to report.
    unreported: BTreeSet<u128>,
    /// What was executed, by budget.
    executed: BTreeMap<u64, i128>,
    /// What follows is the process's: a crash ends it.
    run: Run,
}

#[derive(Debug, Default)]
struct Run {
    book: Option<Book>,
    to_bank: VecDeque<Message>,
    answers: VecDeque<(Message, Result<bool, Option<NamedRefusal>>)>,
    /// What the book does not have yet.
    unkept: Vec<(u128, RowChange)>,
    /// Orders with a message under way, or granted and not kept.
    busy: BTreeSet<u128>,
    /// Orders of which the ledger may not know what the book says.
    unstated: BTreeSet<u128>,
}

impl Run {
    fn row(&self, key: u128) -> Option<&Row> {
        self.book.as_ref()?.rows.get(&key)
    }

    fn say(&mut self, key: u128, say: Say) {
        self.busy.insert(key);
        self.to_bank.push_back(Message { key, say });
    }

    /// Nothing of it is on its way.
    fn is_still(&self, key: u128) -> bool {
        !self.busy.contains(&key) && !self.unkept.iter().any(|(unkept, _)| *unkept == key)
    }
}

fn with(amount: Amount, more: Amount) -> Amount {
    Amount::new(amount.get() + more.get())
}

/// Nothing is held.
fn released(legs: &Legs) -> Legs {
    legs.iter().map(|(budget, leg)| (*budget, LegAmounts { hold: Amount::ZERO, ..*leg })).collect()
}

fn raised(legs: &Legs, raise: &Raise) -> Legs {
    let mut legs = legs.clone();
    for (budget, raise) in raise {
        let leg = legs.entry(*budget).or_default();
        leg.hold = with(leg.hold, *raise);
    }
    legs
}

fn is_released(legs: &Legs) -> bool {
    legs.values().all(|leg| leg.hold == Amount::ZERO)
}

impl OrderDoor {
    /// One world of three has one, but none with a fault planted elsewhere, and each with one planted in it.
    pub(crate) fn draw(
        seed: u64,
        bug: Option<Bug>,
        chains: BTreeMap<u64, Vec<u64>>,
    ) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x006e_616d_6564);
        let some = rng.chance(333);
        bug.map_or(some, Bug::is_of_named).then(|| OrderDoor {
            rng,
            keys: 0,
            books: NamedBooks::new(chains),
            venue: BTreeMap::new(),
            unreported: BTreeSet::new(),
            executed: BTreeMap::new(),
            run: Run::default(),
        })
    }

    fn new_key(&mut self) -> u128 {
        self.keys += 1;
        self.keys
    }

    /// One of the orders at the venue.
    fn draw_order(&mut self) -> Option<u128> {
        let at = self.rng.index(self.venue.len());
        self.venue.keys().nth(at).copied()
    }

    /// Something happens at the venue.
    fn venue_event(&mut self, budget: u64) {
        let known = if self.rng.chance(60) { None } else { self.draw_order() };
        let key = known.unwrap_or_else(|| self.new_key());
        if known.is_none() {
            let spent = [0, 0, 0, 0, self.rng.between(1, 20)].map(Amount::new);
            let legs = [(budget, LegAmounts { hold: Amount::ZERO, spent })].into();
            self.executed(&Legs::new(), &legs);
            self.venue.insert(key, VenueOrder { legs, closed: true });
            self.unreported.insert(key);
        }
        let Some(order) = self.venue.get(&key) else { return };
        let mut legs = order.legs.clone();
        let (pick, closed) = (self.rng.below(12), order.closed);
        for leg in legs.values_mut() {
            execute(leg, pick, closed, &mut self.rng);
        }
        let before = std::mem::replace(&mut self.venue.get_mut(&key).expect("above").legs, legs);
        if pick >= 10 {
            self.close(key);
        }
        self.executed(&before, &self.venue[&key].legs.clone());
        self.unreported.insert(key);
    }

    fn close(&mut self, key: u128) {
        if let Some(order) = self.venue.get_mut(&key) {
            (order.legs, order.closed) = (released(&order.legs), true);
            self.unreported.insert(key);
        }
    }

    fn executed(&mut self, before: &Legs, after: &Legs) {
        let booked =
            |leg: &LegAmounts| leg.spent.iter().map(|at| i128::from(at.get())).sum::<i128>();
        for (legs, sign) in [(before, -1), (after, 1)] {
            for (budget, leg) in legs {
                *self.executed.entry(*budget).or_default() += sign * booked(leg);
            }
        }
    }

    /// What a row is after a change.
    fn row_after(&self, key: u128, change: &RowChange) -> Option<Row> {
        let row = self.run.row(key);
        let of = |legs: Legs| Some(Row { legs, stage: Stage::Open });
        let known = row.map(|row| row.legs.clone()).unwrap_or_default();
        match change {
            RowChange::Raised(raise) => of(raised(&known, raise)),
            RowChange::Reported => {
                // Of legs that it never heard of the venue says nothing.
                let mut legs = released(&known);
                legs.extend(self.venue.get(&key)?.legs.clone());
                of(legs)
            }
            RowChange::Unsent => of(released(&known)),
            RowChange::Stage(stage, legs) => Some(Row { legs: legs.clone(), stage: *stage }),
            RowChange::Gone => None,
        }
    }

    /// The book has it: what follows from that.
    fn kept(&mut self, key: u128, change: RowChange) {
        match change {
            RowChange::Raised(raise) => {
                self.run.busy.remove(&key);
                self.leaves(key);
                let order = self.venue.get_mut(&key).expect("it left");
                // One that was closed meanwhile is not replaced.
                if order.closed {
                    self.unreported.insert(key);
                } else if self.run.row(key).is_some_and(|row| row.legs != order.legs) {
                    order.legs = raised(&order.legs, &raise);
                }
            }
            RowChange::Reported => {
                self.unreported.remove(&key);
                self.run.unstated.insert(key);
            }
            RowChange::Unsent => drop(self.run.unstated.insert(key)),
            RowChange::Stage(Stage::Ending, _) => self.over(key),
            RowChange::Stage(..) | RowChange::Gone => {}
        }
    }

    /// The venue has it from now on.
    fn leaves(&mut self, key: u128) {
        if let Some(Row { legs, .. }) = self.run.row(key) {
            let legs = legs.clone();
            self.venue.entry(key).or_insert(VenueOrder { legs, closed: false });
        }
    }

    /// Nothing will be reported of it any more.
    fn over(&mut self, key: u128) {
        self.venue.remove(&key);
        self.unreported.remove(&key);
    }

    /// A book that lost nothing, and the venue, at a start.
    fn meet_venue(&mut self, book: &BTreeMap<u128, Row>) {
        for (key, row) in book {
            match row.stage {
                // What the venue reports of one that was about to end makes it live again.
                Stage::Ending if self.unreported.contains(key) => {}
                Stage::Ending => self.over(*key),
                // A group that nobody knew to be there: it leaves now.
                Stage::Open => {
                    self.leaves(*key);
                    // One that was closed meanwhile is not replaced, and the venue says so.
                    if self.venue[key].closed && !is_released(&row.legs) {
                        self.unreported.insert(*key);
                    }
                }
                Stage::Doubt => {}
            }
        }
    }

    /// Rows of which something is to be said without anybody asking: that they end, or that a person looked at them.
    fn look_after(&mut self) {
        let Some(book) = &self.run.book else { return };
        for (key, row) in book.rows.clone() {
            let is_closed = self.venue.get(&key).is_none_or(|order| order.closed);
            let is_known = !self.run.unstated.contains(&key) && !self.unreported.contains(&key);
            match row.stage {
                _ if !self.run.is_still(key) => {}
                Stage::Ending if self.unreported.contains(&key) => {}
                Stage::Ending => self.run.say(key, Say::End),
                Stage::Doubt if self.venue.contains_key(&key) => {
                    self.unreported.insert(key);
                }
                Stage::Doubt => self.run.unkept.push((key, RowChange::Unsent)),
                Stage::Open if is_closed && is_known && is_released(&row.legs) => {
                    self.run.unkept.push((key, RowChange::Stage(Stage::Ending, row.legs)));
                }
                Stage::Open if self.run.unstated.contains(&key) => {
                    self.run.say(key, Say::State(row.legs));
                }
                Stage::Open => {}
            }
        }
    }

    /// An order is to have more: a new one, or one that is replaced.
    fn wants(&mut self, specs: &[ledger::BudgetSpec]) {
        let replaced = self.draw_order().filter(|key| {
            let known = self.run.is_still(*key)
                && !self.run.unstated.contains(key)
                && !self.unreported.contains(key);
            let is_open = self.run.row(*key).is_some_and(|row| row.stage == Stage::Open);
            known && is_open && !self.venue[key].closed
        });
        let replaced = replaced.filter(|_| self.rng.chance(400));
        let key = replaced.unwrap_or_else(|| self.new_key());
        let known = self.run.row(key).map(|row| row.legs.clone()).unwrap_or_default();
        let mut raise = Raise::new();
        for _ in 0..1 + self.rng.index(3) {
            let spec = &specs[self.rng.index(specs.len())];
            let part = if self.rng.chance(40) { 2 } else { 150 };
            let amount = Amount::new(self.rng.between(1, (spec.limit.get() / part).max(2)));
            if known.contains_key(&spec.id) || known.len() + raise.len() < LEGS_MAX {
                raise.insert(spec.id, amount);
            }
        }
        let legs = raised(&known, &raise);
        self.run.say(key, Say::Ask { legs, raise, again: 3 });
    }

    /// What was executed has been booked, on every level, and nothing is open.
    pub(crate) fn check_rest(&self, chains: impl Fn(u64) -> Vec<u64>) -> Result<(), String> {
        let mut levels: BTreeMap<u64, i128> = BTreeMap::new();
        for (budget, amount) in &self.executed {
            chains(*budget).iter().for_each(|id| *levels.entry(*id).or_default() += amount);
        }
        let wrong = levels.iter().find(|(id, amount)| self.books.spent(**id) != **amount);
        if let Some((id, amount)) = wrong {
            let booked = self.books.spent(*id);
            return Err(format!("budget {id}: {amount} was executed, {booked} booked for orders"));
        }
        match self.run.book.as_ref().is_some_and(|book| book.rows.is_empty()) {
            true => Ok(()),
            false => Err(format!("orders that never ended: {:?}", self.run)),
        }
    }
}

/// What an event makes of a leg: a fill, one beyond what is held, one after the close, a credit, a fill that was missed and comes, a
/// venue that says how much is open.
fn execute(leg: &mut LegAmounts, pick: u64, closed: bool, rng: &mut Rng) {
    let part = Amount::new(rng.between(0, leg.hold.get().max(1)));
    let filled = part.min(leg.hold);
    let [settled, over, late, inferred, _] = &mut leg.spent;
    match pick {
        0..5 | 7 if !closed => {
            leg.hold = Amount::new(leg.hold.get() - filled.get());
            let line = if pick == 7 { inferred } else { settled };
            *line = with(*line, filled);
            if pick == 4 {
                *over = with(*over, Amount::new(rng.between(1, 30)));
            }
        }
        0..3 => *late = with(*late, Amount::new(rng.between(1, 10))),
        5 | 6 => {
            let line = if over.get() > 0 { over } else { settled };
            *line = Amount::new(line.get() - rng.between(0, line.get()));
        }
        8 => {
            *settled = with(*settled, *inferred);
            *inferred = Amount::ZERO;
        }
        9 if !closed => leg.hold = with(leg.hold, Amount::new(rng.between(1, 30))),
        _ => {}
    }
}

fn hold_of(key: u128, legs: &Legs) -> NamedHold {
    let legs = legs.iter().map(|(budget, amounts)| NamedLeg { budget: *budget, amounts: *amounts });
    NamedHold { door: DOOR, key, label: format!("order {key}").into(), legs: legs.collect() }
}

impl World {
    /// Now and then something happens at the venue, the door has a turn, or the bank has one for it.
    pub(crate) fn step_named(&mut self) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        if door.run.book.is_none() {
            return self.start_named();
        }
        match door.rng.below(1_000) {
            0..70 => {
                // An order that nobody opened is of a budget that the ledger will know.
                let id = self.specs[door.rng.index(self.specs.len())].id;
                let is_it =
                    |record: &Record| matches!(record, Record::Budget { spec } if spec.id == id);
                let sealed = usize::try_from(self.journal.sealed() - 1).expect("few");
                if self.model.records[..sealed].iter().any(is_it) {
                    door.venue_event(id);
                }
                Ok(())
            }
            70..110 => {
                door.wants(&self.specs);
                Ok(())
            }
            110..120 => {
                if let Some(key) = door.draw_order().filter(|key| door.run.is_still(*key))
                    && let Some(legs) = door.run.row(key).map(|row| row.legs.clone())
                {
                    door.run.say(key, Say::State(legs));
                }
                Ok(())
            }
            120..230 => self.door_turn(),
            230..330 => self.named_turn(),
            _ => Ok(()),
        }
    }

    /// The bank takes what the door says.
    fn named_turn(&mut self) -> Result<(), String> {
        let refuse = self.journal.is_failing() || self.journal.is_full();
        let mut out = Out::default();
        let Some(door) = &mut self.door else { return Ok(()) };
        for _ in 0..1 + door.rng.below(12) {
            let Some(door) = &mut self.door else { break };
            let Some(message) = door.run.to_bank.pop_front() else { break };
            if refuse {
                self.stats.one("named: refused by the journal");
                door.run.answers.push_back((message, Err(None)));
                continue;
            }
            let result = self.take_named(&message, &mut out)?;
            self.append(&mut out);
            self.hold_named(message, result);
        }
        self.journal.turn();
        Ok(())
    }

    /// May the door hear now that its ask is granted? With a planted bug whatever was freed and is not sealed counts.
    fn is_early(&mut self, message: &Message, result: &Result<bool, NamedRefusal>) -> bool {
        let (Say::Ask { legs, raise, .. }, Ok(done)) = (&message.say, result) else { return false };
        let Some(door) = &mut self.door else { return false };
        let legs = hold_of(message.key, legs).legs;
        let leans = match self.bug {
            Some(Bug::LeanOnUnsealed) => {
                UnsealedCredits::default().lean(&self.bank, &legs, u64::MAX)
            }
            _ => self.journal.leans(&self.bank, &legs),
        };
        if leans || door.rng.chance(300) {
            return false;
        }
        let end = self.model.records.len();
        let raised = raise.iter().filter(|_| *done);
        let raised = raised.map(|(budget, raise)| (end, *budget, i128::from(raise.get())));
        door.books.early.extend(raised);
        true
    }

    /// What was granted early and lost by a crash has room in what is left.
    pub(crate) fn check_early(&mut self) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let lost = door.books.lost_early(self.model.records.len());
        self.stats.count("named: answered early, and lost", u64::from(!lost.is_empty()));
        for (id, raised) in lost {
            let left = self.bank.slot(id).map(|slot| self.bank.available(slot));
            if left.is_none_or(|left| i128::from(left.get()) < raised) {
                return Err(format!(
                    "budget {id}: orders of {raised} left before they were sealed, {left:?} is left"
                ));
            }
        }
        Ok(())
    }

    /// What was done waits until it is sealed; with a planted bug it does not.
    fn hold_named(&mut self, message: Message, result: Result<bool, NamedRefusal>) {
        let early = self.is_early(&message, &result);
        let Some(door) = &mut self.door else { return };
        match result {
            Ok(done) if early => {
                self.stats.one("named: answered early");
                door.run.answers.push_back((message, Ok(done)));
            }
            Ok(done) if self.bug != Some(Bug::OrderBeforeSeal) => {
                let changes = door.books.changes();
                self.journal.hold(Held::Named(message, done, changes));
            }
            Ok(done) => self.named_sealed(message, done, door_changes(&self.door)),
            Err(refusal) => door.run.answers.push_back((message, Err(Some(refusal)))),
        }
    }

    /// The door hears what became of a message.
    pub(crate) fn named_sealed(&mut self, message: Message, done: bool, changes: usize) {
        let Some(door) = &mut self.door else { return };
        door.books.told = door.books.told.max(changes);
        door.run.answers.push_back((message, Ok(done)));
    }

    /// A message at the bank, and what it must come to.
    fn take_named(
        &mut self,
        message: &Message,
        out: &mut Out,
    ) -> Result<Result<bool, NamedRefusal>, String> {
        let Some(door) = &self.door else { return Ok(Ok(false)) };
        let Message { key, say } = message;
        let (said, fact) = match say {
            Say::Ask { legs, .. } => (Some(legs), false),
            Say::State(legs) => (Some(legs), true),
            Say::End => (None, true),
        };
        let known = door.books.rows.get(key).cloned();
        let legs = said.or(known.as_ref()).cloned().unwrap_or_default();
        let mut expected = door.books.differences(*key, &legs);
        let before = expected.keys().map(|id| (*id, self.lines_at(*id))).collect();
        let first = out.messages.len();
        let result = self.bank_takes(message, out);
        self.check_noes(out, first);
        let Some(door) = &mut self.door else { return Ok(result) };
        let is_so = || {
            said.is_none_or(|said| {
                said.iter()
                    .all(|(id, leg)| known.as_ref().and_then(|known| known.get(id)) == Some(leg))
            })
        };
        match &result {
            Ok(true) => door.books.change(*key, said, fact),
            Ok(false) if !is_so() => {
                return Err(format!(
                    "order {key} is said to be so already: {message:?}, {known:?}"
                ));
            }
            Err(refusal) if fact => {
                return Err(format!("order {key}: {refusal:?} to {message:?}, {known:?}"));
            }
            _ => expected.clear(),
        }
        let row = self.door.as_ref().and_then(|door| door.books.rows.get(key));
        self.check_change(*key, &before, &expected, row)?;
        if result == Ok(true) && !fact {
            self.check_granted(&expected)?;
        }
        self.note_named(message, &result, &expected);
        Ok(result)
    }

    fn bank_takes(&mut self, message: &Message, out: &mut Out) -> Result<bool, NamedRefusal> {
        let Message { key, say } = message;
        let known = self.bank.named_hold(DOOR, *key).map(|hold| legs_of(&hold));
        match (say, self.bug) {
            // A planted bug: the first leg is booked without the others.
            (Say::Ask { legs, .. }, Some(Bug::LegAlone)) => {
                let first = legs.iter().take(1).map(|(budget, leg)| (*budget, *leg)).collect();
                self.bank.ask_named(hold_of(*key, &first), out)
            }
            // A planted bug: of a day that began with open holds the bank thinks that it began without.
            (Say::Ask { legs, raise, .. }, Some(Bug::DayForgetsHolds)) => {
                let result = self.bank.ask_named(hold_of(*key, legs), out);
                let carried = self.door.as_ref().map(|door| &door.books.carried);
                let fits = |(budget, raise): (&u64, &Amount)| {
                    let chain = self.chain(*budget);
                    let carried = chain.iter().filter_map(|id| carried?.get(id)).max();
                    carried.is_some_and(|carried| *carried >= i128::from(raise.get()))
                };
                match result {
                    Err(NamedRefusal::Leg { why: Verdict::DayExhausted, .. })
                        if raise.iter().all(fits) =>
                    {
                        self.bank.state_named(hold_of(*key, legs), out)
                    }
                    result => result,
                }
            }
            (Say::Ask { legs, .. }, _) => self.bank.ask_named(hold_of(*key, legs), out),
            // A planted bug: amounts are taken for differences.
            (Say::State(legs), Some(Bug::AddAmounts)) => {
                let mut legs = legs.clone();
                for (budget, leg) in known.iter().flatten() {
                    let to = legs.entry(*budget).or_default();
                    to.spent.iter_mut().zip(leg.spent).for_each(|(to, more)| *to = with(*to, more));
                }
                self.bank.state_named(hold_of(*key, &legs), out)
            }
            (Say::State(legs), _) => self.bank.state_named(hold_of(*key, legs), out),
            // A planted bug: what was held is free once more.
            (Say::End, Some(Bug::FreeTwice)) => {
                let mut legs = known.unwrap_or_default();
                legs.values_mut().for_each(|leg| leg.spent[0] = Amount::ZERO);
                if !legs.is_empty() {
                    let _ = self.bank.state_named(hold_of(*key, &legs), out);
                }
                self.bank.end_named(DOOR, *key, out)
            }
            (Say::End, _) => self.bank.end_named(DOOR, *key, out),
        }
    }

    fn note_named(
        &mut self,
        message: &Message,
        result: &Result<bool, NamedRefusal>,
        levels: &BTreeMap<u64, crate::named_oracle::Lines>,
    ) {
        let beyond = levels.keys().any(|id| {
            let slot = self.bank.slot(*id);
            slot.is_some_and(|slot| self.bank.books(slot).line(ledger::Line::Free) < Amount::ZERO)
        });
        let event = match (&message.say, result) {
            (Say::Ask { .. }, Ok(true)) => "named: granted",
            (_, Err(NamedRefusal::Leg { why: Verdict::PurseEmpty, .. })) => "named: purses have it",
            (_, Err(NamedRefusal::Leg { .. })) => "named: refused",
            (_, Err(NamedRefusal::Busy)) => "named: busy",
            (Say::State(_), Ok(true)) if beyond => "named: fact beyond what is left",
            (Say::State(_), Ok(false)) => "named: said again",
            (Say::End, Ok(true)) => "named: ended",
            _ => return,
        };
        self.stats.one(event);
    }

    /// The door hears answers, keeps what they and the venue say, and says what follows.
    pub(crate) fn door_turn(&mut self) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        while let Some((message, result)) = door.run.answers.pop_front() {
            door.run.busy.remove(&message.key);
            match (message.say, result) {
                (Say::Ask { raise, .. }, Ok(true)) => {
                    door.run.busy.insert(message.key);
                    door.run.unkept.push((message.key, RowChange::Raised(raise)));
                }
                (
                    Say::Ask { legs, raise, again },
                    Err(Some(NamedRefusal::Leg { why: Verdict::PurseEmpty, .. })),
                ) if again > 0 => {
                    door.run.say(message.key, Say::Ask { legs, raise, again: again - 1 });
                }
                (Say::State(said), Ok(_))
                    if door.run.row(message.key).is_some_and(|row| row.legs == said) =>
                {
                    door.run.unstated.remove(&message.key);
                }
                (Say::End, Ok(_)) => door.run.unkept.push((message.key, RowChange::Gone)),
                _ => {}
            }
        }
        for key in door.unreported.clone() {
            let is_new = !door.run.unkept.iter().any(|(unkept, _)| *unkept == key);
            if is_new && (self.calm || door.rng.chance(600)) {
                door.run.unkept.push((key, RowChange::Reported));
            }
        }
        self.keep()?;
        let Some(door) = &mut self.door else { return Ok(()) };
        if door.run.book.is_some() {
            door.look_after();
            self.say_number();
        }
        Ok(())
    }

    /// Writes what the book does not have yet. After an error it is tried again.
    fn keep(&mut self) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        if door.run.unkept.is_empty() {
            return Ok(());
        }
        let unreported = &door.unreported;
        door.run.unkept.retain(|(key, change)| {
            !matches!(change, RowChange::Stage(Stage::Ending, _)) || !unreported.contains(key)
        });
        let rows = door.run.unkept.iter();
        let rows: Vec<_> = rows.map(|(key, change)| (*key, door.row_after(*key, change))).collect();
        let Some(book) = &mut door.run.book else { return Ok(()) };
        match book.append(&rows) {
            Ok(()) => {
                for (key, change) in std::mem::take(&mut door.run.unkept) {
                    door.kept(key, change);
                }
            }
            Err(_) => self.stats.one("named: not kept"),
        }
        self.after_disk("crash in the book")
    }

    /// The journal hears up to which group of the book the ledger knows everything.
    fn say_number(&mut self) {
        let Some(door) = &mut self.door else { return };
        let Some(book) = door.run.book.as_ref().filter(|_| door.run.unstated.is_empty()) else {
            return;
        };
        if self.journal.is_failing() || !door.rng.chance(300) {
            return;
        }
        let bytes = [book.life, book.number].map(u64::to_le_bytes).concat().into();
        let memo = Memo { door: DOOR, key: NUMBER, bytes };
        // A stamp of before says nothing of the worker's clock.
        let (money, at_ms) = (MemoMoney::Without, 0);
        let request = MemoRequest { memo, money, at_ms, reply: 0 };
        let mut out = Out::default();
        self.bank.step_keyed(0, Keyed::Memo(Box::new(request)), &mut out);
        out.memos.clear();
        self.append(&mut out);
    }

    /// What a recovery found is what was said up to some change, with all that the door heard of.
    pub(crate) fn recover_named(&mut self) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let lost = door.books.recovered(&self.model.records)?;
        self.stats.count("named: lost by a crash", u64::from(lost > 0));
        door.books.check_rows(&self.bank)?;
        door.run = Run::default();
        Ok(())
    }

    /// The door starts: it reads its book and compares it with the ledger, before anybody else says anything.
    pub(crate) fn start_named(&mut self) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        if !self.calm && door.rng.chance(100) {
            self.disk.crash_after_operations(1 + door.rng.below(3));
        }
        let told = self.bank.memos(DOOR).get(NUMBER).map_or([0; 2], |bytes| {
            let (life, number) = bytes.split_at(bytes.len() / 2);
            [life, number].map(memos::number)
        });
        let older = !self.calm && told[1] > 0 && door.rng.chance(150);
        let number = if older { 1 + door.rng.below(told[1]) } else { u64::MAX };
        let put_back = |mut book: Book| match book.put_back(number)? {
            true => Book::open(&self.disk),
            false => Ok(book),
        };
        if let Ok(book) = Book::open(&self.disk).and_then(put_back) {
            self.stats.count("named: torn group in the book", u64::from(book.torn));
            door.run.book = Some(book);
        }
        if self.disk.is_stopped() {
            door.run.book = None;
            return self.after_disk("crash in the book");
        }
        self.disk.crash_after_operations(0);
        self.compare(told)
    }

    /// `told`: a life of the book, and up to which group of it the ledger knows everything.
    fn compare(&mut self, [life, number]: [u64; 2]) -> Result<(), String> {
        let Some(door) = &mut self.door else { return Ok(()) };
        let Some(book) = &mut door.run.book else { return Ok(()) };
        // Before the ledger knows of the time after a loss, a log on other machines may give it more of the time before.
        let lost = number > book.number || life != book.life;
        book.number = book.number.max(number);
        if lost {
            book.life = door.rng.next();
        }
        self.stats.count("named: the book lost records", u64::from(lost));
        if lost {
            // The venue is asked for everything.
            door.unreported.extend(door.venue.keys());
        }
        let (book, mut said) = (book.rows.clone(), Vec::new());
        let ledger = rows_of(&self.bank);
        for (key, legs) in &ledger {
            match book.get(key) {
                // The ledger was told to forget it, and may have.
                Some(Row { stage: Stage::Ending, .. }) if lost => {}
                // Whatever it has of the order, the ledger knows that, and may know more.
                kept if lost => {
                    self.stats.count("named: in doubt", u64::from(kept.is_none()));
                    let change = RowChange::Stage(Stage::Doubt, legs.clone());
                    door.run.unkept.push((*key, change));
                }
                None if door.venue.contains_key(key) => {
                    return Err(format!("order {key} is at the venue, and would end"));
                }
                None => {
                    self.stats.one("named: never left");
                    said.push((*key, Say::State(released(legs))));
                    said.push((*key, Say::End));
                }
                Some(row) => {
                    let mut all = released(legs);
                    all.extend(row.legs.clone());
                    if all != *legs {
                        self.stats.one("named: stated at a start");
                        said.push((*key, Say::State(all)));
                    }
                }
            }
        }
        for (key, row) in book.iter().filter(|(key, _)| !ledger.contains_key(key)) {
            match row.stage {
                // The ledger was told of all that this book has: it ended since.
                _ if lost => door.run.unkept.push((*key, RowChange::Gone)),
                Stage::Ending => door.run.unkept.push((*key, RowChange::Gone)),
                _ => {
                    self.stats.one("named: made at a start");
                    said.push((*key, Say::State(row.legs.clone())));
                }
            }
        }
        if !lost {
            door.meet_venue(&book);
        }
        // What is stated here is not sealed yet, and no row may end before it is.
        let rows = said.iter().map(|(key, _)| *key).filter(|key| book.contains_key(key));
        door.run.unstated = rows.collect();
        for (key, say) in said {
            let mut out = Out::default();
            let _ = self.take_named(&Message { key, say }, &mut out)?;
            self.append(&mut out);
        }
        Ok(())
    }

    /// Every order comes to its end.
    pub(crate) fn rest_named(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            let Some(door) = &mut self.door else { return Ok(()) };
            if door.run.book.is_none() {
                self.start_named()?;
            }
            let Some(door) = &mut self.door else { return Ok(()) };
            for key in door.venue.keys().copied().collect::<Vec<_>>() {
                if !door.venue[&key].closed {
                    door.close(key);
                }
            }
            self.named_turn()?;
            self.seal_all()?;
            self.deliver();
            self.door_turn()?;
        }
        Ok(())
    }
}

fn door_changes(door: &Option<OrderDoor>) -> usize {
    door.as_ref().map_or(0, |door| door.books.changes())
}
