//! Sums of an order, and the amounts that follow from them.

use fix::Decimal;
use money::{Amount, Unit};

use crate::event::Check;
use crate::exact::{Exact, exact, product, rounded_up};

/// The amounts of one leg, absolute: what its named hold and its lines are to be, whatever they were before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegAmounts {
    /// Kept for what may still be executed.
    pub hold: Amount,
    /// Executed within what was covered.
    pub settled: Amount,
    /// Executed above what was covered.
    pub over_settled: Amount,
    /// Executed after the order was closed.
    pub late: Amount,
    /// Executed as CumQty says, without a known execution.
    pub inferred: Amount,
    /// Executed for an order that was never opened here.
    pub unknown_order: Amount,
}

impl LegAmounts {
    /// Returns the sum of the lines, without the hold. `None` where it does not fit; those of an order do.
    #[must_use]
    pub fn booked(&self) -> Option<Amount> {
        let lines = [self.settled, self.over_settled, self.late, self.inferred, self.unknown_order];
        Amount::total(lines)
    }
}

/// The highest CumQty that was reported, above that of the known executions, with what it cost where the report said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct High {
    pub(crate) quantity: i128,
    pub(crate) money: Option<i128>,
}

impl High {
    /// Returns what a report says; `None` where it cannot be used.
    pub(crate) fn of(check: &Check, multiplier: Decimal) -> Option<High> {
        let quantity = exact(check.quantity);
        let price = check.price.filter(|price| price.mantissa() != 0);
        let money = price.map(|price| product(check.quantity, price, multiplier));
        (quantity >= 0 && money != Some(None)).then_some(High { quantity, money: money.flatten() })
    }

    /// Returns the same after a known execution changed by so much.
    pub(crate) fn moved(self, by: Exact) -> Option<High> {
        let quantity = self.quantity.checked_add(by.quantity)?.max(0);
        let money = match self.money {
            Some(money) => Some(money.checked_add(by.money)?.max(0)),
            None => None,
        };
        Some(High { quantity, money })
    }
}

/// Exact sums: of the executions, and of what follows from them and the versions (`Versions::complete`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Of all executions.
    pub(crate) total: Exact,
    /// What of it is late.
    pub(crate) late: Exact,
    pub(crate) high: Option<High>,
    pub(crate) inferred: Exact,
    /// What the worst of all versions may still cost.
    pub(crate) worst: Exact,
    /// Executed, what is late aside, and held after it was granted, answered or restated.
    pub(crate) covered: Exact,
}

impl Sums {
    /// Can every amount be counted in these units?
    pub(crate) fn fit(&self, mut units: impl Iterator<Item = Unit>) -> bool {
        let spent = self.total.checked_add(self.inferred);
        let total = spent.and_then(|spent| spent.checked_add(self.worst));
        // No part of the total is negative, so they all fit.
        total.is_some_and(|total| units.all(|unit| total.fits(unit) && self.covered.fits(unit)))
    }

    /// How much quantity is missing?
    pub(crate) fn missing(&self) -> i128 {
        self.high.map_or(0, |high| high.quantity.saturating_sub(self.total.quantity).max(0))
    }

    /// Returns the amounts of a leg. Each line is rounded on top of the one before, so that all of them together are the exact sum, rounded
    /// up once. Only for sums that [`Sums::fit`]. `is_known`: the order was opened here.
    pub(crate) fn amounts(&self, unit: Unit, is_known: bool) -> LegAmounts {
        let counted = |exact: Exact| exact.counted(unit);
        let open = counted(self.total) - counted(self.late);
        let on_time = open + counted(self.inferred);
        let spent = on_time + counted(self.late);
        let settled = rounded_up(open, unit);
        // A division less where there is nothing more, as it is mostly.
        let up = |sum, before, rounded| if sum == before { rounded } else { rounded_up(sum, unit) };
        let with_inferred = up(on_time, open, settled);
        let booked = up(spent, on_time, with_inferred);
        let hold = Amount::new(up(spent + counted(self.worst), spent, booked) - booked);
        let (inferred, late) = (Amount::new(with_inferred - settled), booked - with_inferred);
        if !is_known {
            let unknown_order = Amount::new(settled + late);
            return LegAmounts { hold, inferred, unknown_order, ..LegAmounts::default() };
        }
        let covered = counted(self.covered);
        let over = if open <= covered { 0 } else { (settled - rounded_up(covered, unit)).max(0) };
        LegAmounts {
            hold,
            settled: Amount::new(settled - over),
            over_settled: Amount::new(over),
            late: Amount::new(late),
            inferred,
            unknown_order: Amount::ZERO,
        }
    }
}
