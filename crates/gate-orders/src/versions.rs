//! Versions of an order: what the venue has, what waits for its answer, and what the worst of them may still cost.

use fix::Decimal;

use crate::event::Size;
use crate::exact::{Exact, decimal, exact, value};
use crate::sums::Sums;

/// What a version may cost: a [`Size`] that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Quantity { quantity: i128, price: Decimal },
    Cash(i128),
}

impl Cost {
    pub(crate) fn of(size: &Size) -> Cost {
        match size {
            Size::Quantity { quantity, price } => {
                Cost::Quantity { quantity: exact(*quantity), price: *price }
            }
            Size::Cash(money) => Cost::Cash(exact(*money)),
        }
    }

    /// Returns what it was judged from; `None` beyond 18 digits.
    pub(crate) fn size(self) -> Option<Size> {
        Some(match self {
            Cost::Quantity { quantity, price } => {
                Size::Quantity { quantity: decimal(quantity)?, price }
            }
            Cost::Cash(money) => Size::Cash(decimal(money)?),
        })
    }

    /// Returns what may still be executed after `spent`; `None` where it does not fit.
    pub(crate) fn open(&self, spent: Exact, multiplier: Decimal) -> Option<Exact> {
        match self {
            Cost::Quantity { quantity, price } => {
                let quantity = quantity.checked_sub(spent.quantity)?.max(0);
                Some(Exact { money: value(quantity, *price, multiplier)?, quantity })
            }
            Cost::Cash(money) => {
                Some(Exact { money: money.checked_sub(spent.money)?.max(0), quantity: 0 })
            }
        }
    }

    /// Returns what a missed quantity of the version may have cost at most.
    fn missed(&self, missing: i128, spent: Exact, multiplier: Decimal) -> Option<i128> {
        match self {
            Cost::Quantity { price, .. } => value(missing, *price, multiplier),
            Cost::Cash(money) => money.checked_sub(spent.money).map(|rest| rest.max(0)),
        }
    }
}

/// Where an order is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It may be executed.
    Open,
    /// It is filled, but a replace that the venue has not answered may add to it.
    Filled,
    /// Nothing is open any more.
    Closed,
}

/// A version that the venue has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) number: u64,
    pub(crate) cost: Cost,
    /// Executed, what is late aside, and held for it when it was granted.
    pub(crate) covered: Exact,
}

#[derive(Clone, Debug)]
pub(crate) struct Versions {
    pub(crate) phase: Phase,
    /// The version that the venue has. It outlives the close, for an order that lives again.
    pub(crate) number: u64,
    pub(crate) cost: Option<Cost>,
    /// Executed, what is late aside, and held after it was granted, answered or restated.
    pub(crate) covered: Exact,
    /// By number.
    pub(crate) pending: Vec<Pending>,
}

impl Versions {
    /// Returns what CumQty says beyond the known executions; `None` where a sum does not fit.
    pub(crate) fn inferred(&self, sums: &Sums, multiplier: Decimal) -> Option<Exact> {
        let high = sums.high.filter(|high| high.quantity > sums.total.quantity);
        let Some(high) = high else { return Some(Exact::ZERO) };
        let quantity = high.quantity.checked_sub(sums.total.quantity)?;
        let money = if let Some(money) = high.money {
            money.checked_sub(sums.total.money)?.max(0)
        } else {
            let mut worst = 0;
            for cost in self.pending.iter().map(|pending| &pending.cost).chain(&self.cost) {
                worst = worst.max(cost.missed(quantity, sums.total, multiplier)?);
            }
            worst
        };
        Some(Exact { money, quantity })
    }

    /// Returns what was executed, as far as it is known.
    pub(crate) fn spent(&self, sums: &Sums, multiplier: Decimal) -> Option<Exact> {
        sums.total.checked_add(self.inferred(sums, multiplier)?)
    }

    /// Computes what follows from the executions and these versions; `None` where a sum does not fit.
    pub(crate) fn complete(&self, sums: &mut Sums, multiplier: Decimal) -> Option<()> {
        sums.inferred = self.inferred(sums, multiplier)?;
        let spent = sums.total.checked_add(sums.inferred)?;
        (sums.worst, sums.covered) = (Exact::ZERO, self.covered);
        for pending in &self.pending {
            sums.worst = sums.worst.max(pending.cost.open(spent, multiplier)?);
            sums.covered = sums.covered.max(pending.covered);
        }
        if let Some(cost) = self.cost.filter(|_| self.phase == Phase::Open) {
            sums.worst = sums.worst.max(cost.open(spent, multiplier)?);
        }
        Some(())
    }

    /// Makes an order that was filled or closed live again, with so much open.
    pub(crate) fn reopen(&mut self, leaves: i128, sums: &Sums, multiplier: Decimal) -> Option<()> {
        // A cash order has its rest again.
        let cost = match self.cost? {
            Cost::Quantity { price, .. } => {
                let done = self.spent(sums, multiplier)?.quantity;
                Cost::Quantity { quantity: done.checked_add(leaves)?, price }
            }
            cost @ Cost::Cash(_) => cost,
        };
        self.set(cost, sums, multiplier)
    }

    /// Makes the venue's version cost this. An order that was filled or closed lives again where that leaves something open.
    pub(crate) fn set(&mut self, cost: Cost, sums: &Sums, multiplier: Decimal) -> Option<()> {
        self.cost = Some(cost);
        let spent = self.spent(sums, multiplier)?;
        let open = cost.open(spent, multiplier)?;
        self.covered = spent.checked_sub(sums.late)?.checked_add(open)?;
        if open != Exact::ZERO {
            self.phase = Phase::Open;
        } else if self.phase != Phase::Open {
            self.phase = if self.pending.is_empty() { Phase::Closed } else { Phase::Filled };
        }
        Some(())
    }
}
