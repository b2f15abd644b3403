//! An order as a state machine: events in, absolute amounts for each leg out.

use fix::Decimal;
use money::Unit;

use crate::event::{Amendment, Check, Event, ExecId, Execution, Size, Version};
use crate::exact::{Exact, decimal, exact, product};
use crate::executions::{Amended, Executions};
use crate::sums::{High, LegAmounts, Sums};
use crate::versions::{Cost, Pending, Phase, Versions};

/// The most budgets that one order may bind.
pub const LEGS_MAX: usize = 8;
/// The most replaces of one order that may wait for the venue's answer.
pub const PENDING_MAX: usize = 64;

/// A budget that an order binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The budget's id.
    pub budget: u64,
    /// Its unit. A currency counts money, in the currency of the order's prices; a count counts quantity.
    pub unit: Unit,
}

/// An order: its versions, its executions, and what follows from them for each of its legs. One without legs asks for no money.
#[derive(Clone, Debug)]
pub struct Order {
    pub(crate) legs: Box<[Leg]>,
    pub(crate) multiplier: Decimal,
    /// Was it opened here?
    pub(crate) is_known: bool,
    pub(crate) versions: Versions,
    pub(crate) sums: Sums,
    pub(crate) executions: Executions,
}

/// What a person asks of an order: what its venue has of it, and how far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The version that the venue has; `None` of an order that was not opened here.
    pub size: Option<Size>,
    /// CumQty (14), as far as executions and sums tell; `None` beyond 18 digits.
    pub executed: Option<Decimal>,
    /// LeavesQty (151) of that version, 0 of a closed order; `None` of a cash amount, and beyond 18 digits.
    pub open: Option<Decimal>,
}

/// What an event did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Did the order change? Then the event is kept as a record, and the amounts are stated again.
    pub changed: bool,
    /// Something that a person should look at.
    pub alarm: Option<Alarm>,
}

impl Effect {
    const CHANGED: Effect = Effect { changed: true, alarm: None };
}

/// Something that should not have happened. It is booked as well as it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A known id came with other content. It is not booked again.
    OtherContent,
    /// A correction or a bust names an execution that is not known.
    UnknownReference,
    /// CumQty says that an execution is missing.
    Missed,
    /// The sums or the size of a report cannot be used; the rest of it is.
    BadReport,
}

/// An event or an order that is refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many legs.
    #[error("{0} legs: expected at most {LEGS_MAX} budgets")]
    Legs(usize),
    /// Two legs have the same budget.
    #[error("budget {0} twice: name each budget once")]
    BudgetTwice(u64),
    /// Two legs count money in different currencies.
    #[error("budgets in {0} and {1}: expected one currency, that of the order's prices")]
    Currencies(Unit, Unit),
    /// A multiplier of 0 or less.
    #[error("multiplier {0}: expected more than 0")]
    Multiplier(Decimal),
    /// A quantity or cash amount that is negative, or 0 in a version.
    #[error("quantity {0}: expected more than 0 in an order, at least 0 in an execution")]
    Quantity(Decimal),
    /// A negative price, or 0 where a leg counts money.
    #[error("price {0}: expected more than 0, to reserve at")]
    Price(Decimal),
    /// An order by cash amount with a leg that counts quantity.
    #[error("budget {0} counts quantity: expected an order by quantity, found a cash amount")]
    CashQuantity(u64),
    /// Too many replaces wait for the venue.
    #[error("{PENDING_MAX} replaces wait for the venue: wait for an answer, or cancel the order")]
    Pending,
    /// A number that a version of another size has.
    #[error("version {0} has another size: give each version its own number")]
    OtherVersion(u64),
    /// The venue accepted a version that is not known, without saying what it is.
    #[error("version {0} is not known: expected its quantity and price in the report")]
    UnknownVersion(u64),
    /// A replace of an order that is closed.
    #[error("the order is closed: send a new one")]
    Closed,
    /// An amount that 64 bits of base units do not hold.
    #[error("out of range: expected at most 2^63 - 1 base units in each budget")]
    Range,
}

impl Order {
    /// Makes the order of a first version. The ledger is asked for its [`Order::amounts`]; if it refuses, the order is dropped.
    ///
    /// # Errors
    /// [`Refusal`] says what cannot be counted.
    pub fn open(legs: &[Leg], multiplier: Decimal, first: &Version) -> Result<Order, Refusal> {
        let mut order = Order::unknown(legs, multiplier)?;
        let cost = order.cost(&first.size)?;
        (order.is_known, order.versions.number) = (true, first.number);
        order.versions.set(cost, &order.sums, multiplier).ok_or(Refusal::Range)?;
        order.complete().ok_or(Refusal::Range)?;
        Ok(order)
    }

    /// Makes an order that was never opened here, for a report that names it. Its executions are on the line `unknown_order`.
    ///
    /// # Errors
    /// [`Refusal`] says what is wrong with the legs or the multiplier.
    pub fn unknown(legs: &[Leg], multiplier: Decimal) -> Result<Order, Refusal> {
        judge_legs(legs)?;
        if multiplier.mantissa() <= 0 {
            return Err(Refusal::Multiplier(multiplier));
        }
        let versions = Versions {
            phase: Phase::Open,
            number: 0,
            cost: None,
            covered: Exact::ZERO,
            pending: Vec::new(),
        };
        Ok(Order {
            legs: legs.into(),
            multiplier,
            is_known: false,
            versions,
            sums: Sums::default(),
            executions: Executions::default(),
        })
    }

    /// Takes what another order was executed, amended and missed, which was made of reports before it was known that they are this one's; what is
    /// known is not booked again. The other one is over then, and all of its amounts are 0.
    ///
    /// # Errors
    /// [`Refusal::Range`], and both are as they were.
    pub fn merge(&mut self, other: &mut Order) -> Result<Effect, Refusal> {
        let (mut merged, mut effect) = (self.clone(), Effect::CHANGED);
        let Executions { fills, amended, .. } = &other.executions;
        for fill in fills {
            let added = merged.executed(fill.id, fill.amount, None)?;
            effect.alarm = effect.alarm.or(added.alarm);
        }
        for one in amended {
            let one = Amended { chain: one.names, is_named: false, ..one.clone() };
            // What it names may be unknown to both: that was told before.
            merged.amended(one, None, None)?;
        }
        let sums = &mut merged.sums;
        let high = sums.high.max(other.sums.high);
        sums.high = high.filter(|high| high.quantity > sums.total.quantity);
        merged.complete().ok_or(Refusal::Range)?;
        if other.versions.phase == Phase::Closed {
            merged.end(!merged.versions.pending.is_empty());
        }
        let mut void = Order::unknown(&other.legs, other.multiplier)?;
        void.end(false);
        (*self, *other) = (merged, void);
        Ok(effect)
    }

    /// Reports whether the order was opened here.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Reports whether nothing is left of an order that was not opened here: it was merged into another one.
    #[must_use]
    pub fn is_void(&self) -> bool {
        let is_over = !self.is_known && self.versions.phase == Phase::Closed;
        is_over && self.sums.high.is_none() && self.executions.is_empty()
    }

    /// Returns the budgets that the order binds.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// Returns where the order is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.versions.phase
    }

    /// Reports whether an execution, a correction or a bust of this id is known.
    #[must_use]
    pub fn knows(&self, id: ExecId) -> bool {
        let amends = |is_bust| self.executions.amendment(id, is_bust).is_some();
        self.executions.fill(id).is_some() || amends(false) || amends(true)
    }

    /// Returns what a person asks of the order.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let spent = self.versions.spent(&self.sums, self.multiplier).unwrap_or(self.sums.total);
        let is_open = self.versions.phase == Phase::Open;
        let open = match self.versions.cost {
            Some(Cost::Quantity { quantity, .. }) => {
                let left = if is_open { quantity.saturating_sub(spent.quantity).max(0) } else { 0 };
                decimal(left)
            }
            Some(Cost::Cash(_)) | None => None,
        };
        let size = self.versions.cost.and_then(Cost::size);
        Standing { size, executed: decimal(spent.quantity), open }
    }

    /// Returns what a version costs that waits for the venue's answer.
    #[must_use]
    pub fn pending(&self, number: u64) -> Option<Size> {
        let found = self.versions.pending.iter().find(|known| known.number == number)?;
        found.cost.size()
    }

    /// Returns the amounts of each budget, absolute: the order's named hold.
    pub fn amounts(&self) -> impl Iterator<Item = (u64, LegAmounts)> + '_ {
        self.legs.iter().map(|leg| (leg.budget, self.sums.amounts(leg.unit, self.is_known)))
    }

    /// Returns the amounts that the ledger is asked for before a replace is sent. The order does not change: [`Event::Sent`] is applied
    /// once the ledger has granted them.
    ///
    /// # Errors
    /// [`Refusal`] says why the replace cannot be sent, whatever the ledger has left.
    pub fn ask(
        &self,
        version: &Version,
    ) -> Result<impl Iterator<Item = (u64, LegAmounts)> + '_, Refusal> {
        let sums = self.judged(version)?.map_or(self.sums, |(_, sums)| sums);
        let amounts = move |leg: &Leg| (leg.budget, sums.amounts(leg.unit, self.is_known));
        Ok(self.legs.iter().map(amounts))
    }

    /// Applies an event. One that is repeated changes nothing.
    ///
    /// # Errors
    /// [`Refusal`], and the order is as it was. An execution, correction or bust is refused only where it has no amount: a quantity is
    /// negative, or 64 bits do not hold the sum.
    pub fn apply(&mut self, event: &Event) -> Result<Effect, Refusal> {
        match event {
            Event::Sent(version) => self.send(version),
            Event::Accepted { number, size } => self.accept(*number, size.as_ref()),
            Event::Refused { number } => Ok(self.refuse(*number)),
            Event::Restated(size) => self.restate(size),
            Event::Executed(execution) => self.execute(execution),
            Event::Amended(amendment) => self.amend(amendment),
            Event::Checked(check) => Ok(self.check(check, None)),
            Event::Filled => Ok(self.end(!self.versions.pending.is_empty())),
            Event::Closed => Ok(self.end(false)),
        }
    }

    fn send(&mut self, version: &Version) -> Result<Effect, Refusal> {
        let Some((versions, sums)) = self.judged(version)? else { return Ok(Effect::default()) };
        (self.versions, self.sums) = (versions, sums);
        Ok(Effect::CHANGED)
    }

    /// Returns the versions with a replace that waits for the venue, and the sums with it; nothing where it is known.
    fn judged(&self, version: &Version) -> Result<Option<(Versions, Sums)>, Refusal> {
        let (versions, number) = (&self.versions, version.number);
        if versions.phase == Phase::Closed {
            return Err(Refusal::Closed);
        }
        if number <= versions.number {
            return Ok(None);
        }
        let cost = self.cost(&version.size)?;
        if let Some(known) = versions.pending.iter().find(|known| known.number == number) {
            let is_same = known.cost == cost;
            return if is_same { Ok(None) } else { Err(Refusal::OtherVersion(number)) };
        }
        if versions.pending.len() >= PENDING_MAX {
            return Err(Refusal::Pending);
        }
        let judged = || {
            let (mut next, mut sums) = (versions.clone(), self.sums);
            let at = next.pending.partition_point(|other| other.number < number);
            next.pending.insert(at, Pending { number, cost, covered: Exact::ZERO });
            // What is missed without a price may have been executed at the replace's.
            let spent = next.spent(&sums, self.multiplier)?;
            let open = cost.open(spent, self.multiplier)?;
            next.pending[at].covered = spent.checked_sub(sums.late)?.checked_add(open)?;
            self.completed(&next, &mut sums).map(|()| (next, sums))
        };
        judged().map(Some).ok_or(Refusal::Range)
    }

    fn accept(&mut self, number: u64, size: Option<&Size>) -> Result<Effect, Refusal> {
        let pending = &self.versions.pending;
        let sent = pending.iter().find(|known| known.number == number).map(|known| known.cost);
        let is_repeat = sent.is_none() && number <= self.versions.number;
        if self.versions.phase == Phase::Closed || is_repeat {
            return Ok(Effect::default());
        }
        let reported = size.map(|size| self.cost(size));
        let alarm = matches!(reported, Some(Err(_))).then_some(Alarm::BadReport);
        let cost = match (reported, sent) {
            (Some(Ok(cost)), _) | (_, Some(cost)) => cost,
            (Some(Err(refusal)), None) => return Err(refusal),
            (None, None) => return Err(Refusal::UnknownVersion(number)),
        };
        let mut next = self.versions.clone();
        next.number = next.number.max(number);
        // A venue may accept an earlier one after it, so that one stays until it is answered.
        next.pending.retain(|known| known.number != number);
        self.set(next, cost).map(|effect| Effect { alarm, ..effect })
    }

    fn refuse(&mut self, number: u64) -> Effect {
        let versions = &mut self.versions;
        let before = versions.pending.len();
        versions.pending.retain(|known| known.number != number);
        if versions.pending.len() == before {
            return Effect::default();
        }
        if versions.phase == Phase::Filled && versions.pending.is_empty() {
            versions.phase = Phase::Closed;
        }
        // Less is held: what fitted before still does.
        let _ = self.complete();
        Effect::CHANGED
    }

    fn restate(&mut self, size: &Size) -> Result<Effect, Refusal> {
        let cost = self.cost(size)?;
        if self.versions.phase == Phase::Open && self.versions.cost == Some(cost) {
            return Ok(Effect::default());
        }
        self.set(self.versions.clone(), cost)
    }

    /// Makes the venue's version cost this. A closed order on which that leaves nothing open stays as it is.
    fn set(&mut self, mut next: Versions, cost: Cost) -> Result<Effect, Refusal> {
        next.set(cost, &self.sums, self.multiplier).ok_or(Refusal::Range)?;
        let mut sums = self.sums;
        self.completed(&next, &mut sums).ok_or(Refusal::Range)?;
        if next.phase == Phase::Closed && self.versions.phase == Phase::Closed {
            return Ok(Effect::default());
        }
        self.replace(next);
        self.sums = sums;
        Ok(Effect::CHANGED)
    }

    fn replace(&mut self, next: Versions) {
        if self.versions.phase == Phase::Closed && next.phase == Phase::Open {
            self.executions.revive();
        }
        self.versions = next;
    }

    fn end(&mut self, replace_waits: bool) -> Effect {
        let phase = if replace_waits { Phase::Filled } else { Phase::Closed };
        let versions = &mut self.versions;
        if versions.phase == phase || versions.phase == Phase::Closed {
            return Effect::default();
        }
        versions.phase = phase;
        if phase == Phase::Closed {
            versions.pending.clear();
        }
        // Less is held: what fitted before still does.
        let _ = self.complete();
        Effect::CHANGED
    }

    fn execute(&mut self, execution: &Execution) -> Result<Effect, Refusal> {
        let amount = self.amount(execution.quantity, execution.price)?;
        self.executed(execution.id, amount, execution.check.as_ref())
    }

    fn executed(
        &mut self,
        id: ExecId,
        amount: Exact,
        check: Option<&Check>,
    ) -> Result<Effect, Refusal> {
        if let Some(known) = self.executions.fill(id) {
            return Ok(self.known(known.amount == amount, check));
        }
        if self.executions.is_amended(id) {
            // What it became is booked, and its sums are those of before.
            self.executions.add_fill(id, amount, Exact::ZERO);
            return Ok(Effect::CHANGED);
        }
        let book = |sums: &mut Sums| {
            let late = amount.checked_sub(self.kept(sums, amount)?)?;
            sums.late = self.sums.late.checked_add(late)?;
            self.completed(&self.versions, sums).map(|()| late)
        };
        let total = self.sums.total.checked_add(amount).ok_or(Refusal::Range)?;
        let mut sums = Sums { total, late: self.sums.late, ..Sums::default() };
        let (late, alarm) = self.with_high(self.sums.high, check, false, &mut sums, book);
        let late = late.ok_or(Refusal::Range)?;
        self.executions.add_fill(id, amount, late);
        let missed = self.missed(&sums);
        self.sums = sums;
        Ok(Effect { changed: true, alarm: alarm.or(missed) })
    }

    /// Returns what of an amount that is new is not late: all of it on an order that is open, on a closed one what was inferred before.
    fn kept(&self, next: &Sums, amount: Exact) -> Option<Exact> {
        if self.versions.phase != Phase::Closed {
            return Some(amount);
        }
        let before = self.versions.inferred(&self.sums, self.multiplier)?;
        let after = self.versions.inferred(next, self.multiplier)?;
        Some(before.above(after)?.min(amount))
    }

    fn amend(&mut self, amendment: &Amendment) -> Result<Effect, Refusal> {
        let is_bust = amendment.new.is_none();
        let new = amendment.new.map(|(quantity, price)| self.amount(quantity, price));
        let amount = new.transpose()?.unwrap_or_default();
        let Amendment { id, names, at, leaves, ref check, .. } = *amendment;
        let amended = Amended { id, names, chain: names, at, is_bust, amount, is_named: false };
        self.amended(amended, leaves, check.as_ref())
    }

    fn amended(
        &mut self,
        amended: Amended,
        leaves: Option<Decimal>,
        check: Option<&Check>,
    ) -> Result<Effect, Refusal> {
        if let Some(known) = self.executions.amendment(amended.id, amended.is_bust) {
            let is_same = known.amount == amended.amount && known.names == amended.names;
            return Ok(self.known(is_same, check));
        }
        let chained = self.executions.chained(amended).ok_or(Refusal::Range)?;
        let delta = chained.after.checked_sub(chained.before).ok_or(Refusal::Range)?;
        let high = self.sums.high;
        let high = if chained.is_unknown { high } else { high.and_then(|high| high.moved(delta)) };
        let book = |sums: &mut Sums| {
            let cap = match chained.cap {
                Some(cap) => Some(cap),
                None if self.versions.phase != Phase::Closed => None,
                None if chained.is_unknown => Some(self.kept(sums, chained.after)?),
                None => Some(chained.before),
            };
            let late = cap.map_or(Some(Exact::ZERO), |cap| chained.after.above(cap))?;
            sums.late = self.sums.late.checked_sub(chained.late)?.checked_add(late)?;
            // The credit is booked, whatever the report says of what is left.
            let lives = leaves.map(exact).filter(|leaves| *leaves > 0);
            let lives = lives.filter(|_| self.versions.cost.is_some());
            let reopened = lives.map(|leaves| self.reopened(leaves, sums));
            let bad = matches!(reopened, Some(None)).then_some(Alarm::BadReport);
            let versions = match reopened.flatten() {
                Some((versions, with)) => {
                    *sums = with;
                    versions
                }
                None => {
                    self.completed(&self.versions, sums)?;
                    self.versions.clone()
                }
            };
            Some((versions, cap, bad))
        };
        let mut sums = self.sums;
        sums.total = sums.total.checked_add(delta).ok_or(Refusal::Range)?;
        let (booked, alarm) = self.with_high(high, check, chained.is_unknown, &mut sums, book);
        let (versions, cap, bad) = booked.ok_or(Refusal::Range)?;
        let unknown = chained.is_unknown.then_some(Alarm::UnknownReference);
        let missed = self.missed(&sums);
        self.executions.add_amended(chained.amended, cap);
        self.replace(versions);
        self.sums = sums;
        Ok(Effect { changed: true, alarm: unknown.or(alarm).or(bad).or(missed) })
    }

    /// Returns the versions with so much open, and the sums with them; `None` where that does not fit.
    fn reopened(&self, leaves: i128, sums: &Sums) -> Option<(Versions, Sums)> {
        let (mut versions, mut sums) = (self.versions.clone(), *sums);
        if versions.phase != Phase::Open {
            versions.reopen(leaves, &sums, self.multiplier)?;
        }
        self.completed(&versions, &mut sums).map(|()| (versions, sums))
    }

    /// Takes a report whose id is known. Other content than before is not booked, but its sums are compared.
    fn known(&mut self, is_same: bool, check: Option<&Check>) -> Effect {
        let alarm = Some(Alarm::OtherContent);
        match check {
            _ if is_same => Effect::default(),
            Some(check) => self.check(check, alarm),
            None => Effect { changed: false, alarm },
        }
    }

    /// Takes the sums of a report that says nothing else.
    fn check(&mut self, check: &Check, alarm: Option<Alarm>) -> Effect {
        let book = |sums: &mut Sums| self.completed(&self.versions, sums);
        let mut sums = self.sums;
        let (booked, bad) = self.with_high(self.sums.high, Some(check), false, &mut sums, book);
        let missed = self.missed(&sums);
        let changed = booked.is_some() && sums.high != self.sums.high;
        if changed {
            self.sums = sums;
        }
        Effect { changed, alarm: alarm.or(bad).or(missed) }
    }

    /// Books with the sums of a report; without them, and an alarm, where they cannot be used. The highest sums count, but those that come
    /// with an amendment of an unknown execution replace all before them: they alone know what it was. Sums that say no more than the
    /// known executions do are not kept.
    fn with_high<T>(
        &self,
        high: Option<High>,
        check: Option<&Check>,
        replaces: bool,
        sums: &mut Sums,
        book: impl Fn(&mut Sums) -> Option<T>,
    ) -> (Option<T>, Option<Alarm>) {
        let known = sums.total.quantity;
        let mut book = |high: Option<High>| {
            sums.high = high.filter(|high| high.quantity > known);
            book(sums)
        };
        let Some(check) = check else { return (book(high), None) };
        let others = high.filter(|_| !replaces);
        if (0..=known).contains(&exact(check.quantity)) {
            return (book(others), None);
        }
        let reported = High::of(check, self.multiplier).map(Some);
        match reported.and_then(|reported| book(reported.max(others))) {
            Some(booked) => (Some(booked), None),
            None => (book(high), Some(Alarm::BadReport)),
        }
    }

    /// Is more missing than before?
    fn missed(&self, next: &Sums) -> Option<Alarm> {
        (next.missing() > self.sums.missing()).then_some(Alarm::Missed)
    }

    pub(crate) fn complete(&mut self) -> Option<()> {
        let mut sums = self.sums;
        self.completed(&self.versions, &mut sums)?;
        self.sums = sums;
        Some(())
    }

    /// Computes what follows from these versions and the executions; `None` where an amount cannot be counted.
    fn completed(&self, versions: &Versions, sums: &mut Sums) -> Option<()> {
        versions.complete(sums, self.multiplier)?;
        sums.fit(self.units()).then_some(())
    }

    fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        self.legs.iter().map(|leg| leg.unit)
    }

    fn amount(&self, quantity: Decimal, price: Decimal) -> Result<Exact, Refusal> {
        if quantity.mantissa() < 0 {
            return Err(Refusal::Quantity(quantity));
        }
        let money = product(quantity, price, self.multiplier).ok_or(Refusal::Range)?;
        Ok(Exact { money, quantity: exact(quantity) })
    }

    /// Judges the size of a version.
    fn cost(&self, size: &Size) -> Result<Cost, Refusal> {
        let counts = |leg: &&Leg| leg.unit == Unit::Count;
        match *size {
            Size::Quantity { quantity, .. } | Size::Cash(quantity) if quantity.mantissa() <= 0 => {
                return Err(Refusal::Quantity(quantity));
            }
            Size::Quantity { price, .. } => {
                let least = i64::from(!self.legs.iter().all(|leg| counts(&leg)));
                if price.mantissa() < least {
                    return Err(Refusal::Price(price));
                }
            }
            Size::Cash(_) => {
                if let Some(leg) = self.legs.iter().find(counts) {
                    return Err(Refusal::CashQuantity(leg.budget));
                }
            }
        }
        Ok(Cost::of(size))
    }
}

pub(crate) fn judge_legs(legs: &[Leg]) -> Result<(), Refusal> {
    if legs.len() > LEGS_MAX {
        return Err(Refusal::Legs(legs.len()));
    }
    let mut currency = None;
    for (at, leg) in legs.iter().enumerate() {
        if legs[..at].iter().any(|other| other.budget == leg.budget) {
            return Err(Refusal::BudgetTwice(leg.budget));
        }
        let Unit::Currency(code, _) = leg.unit else { continue };
        let (first, first_code) = *currency.get_or_insert((leg.unit, code));
        if code != first_code {
            return Err(Refusal::Currencies(first, leg.unit));
        }
    }
    Ok(())
}
