//! What pacing must know of a budget's books: plain sums, which may be gathered in any order.

use money::{Amount, Window};

use crate::fixed::{ONE_Q32, narrow_u64};

/// Paid per reserved while nothing is known of it.
const PAID_SHARE_PRIOR_PERCENT: i128 = 30;
/// How much that guess weighs: as much as resolved reservations of this part of the budget.
const PAID_SHARE_PRIOR_PART: i128 = 4_096;
/// Paid per reserved is never believed to be less than a thousandth.
const PAID_SHARE_MIN_Q32: u64 = ONE_Q32 / 1_000;
/// After this long, demand that was seen before counts half.
const DEMAND_MS_MAX: u64 = 10_000;

/// Where the money of a budget is, other than free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// Spent: settled within holds, above them and late.
    pub settled: Amount,
    /// In holds that somebody confirmed (won); nearly all of it will be spent.
    pub confirmed: Amount,
    /// In holds that nobody confirmed yet, and suspended; most of it will come back. Money that lies unreserved
    /// in purses does not belong here.
    pub open: Amount,
}

impl Spend {
    /// All of it: what the limit has to cover.
    pub(crate) fn exposed(&self) -> i128 {
        self.certain() + i128::from(self.open.get())
    }

    /// What is spent, or as good as spent.
    pub(crate) fn certain(&self) -> i128 {
        i128::from(self.settled.get()) + i128::from(self.confirmed.get())
    }
}

/// What pacing must know of a budget. All sums over workers and grants; amounts in base units of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What may be spent in the budget's life.
    pub limit: Amount,
    /// What became of it in the budget's life.
    pub life: Spend,
    /// The budget's present civil day ([`money::day_at`]); only looked at where there is a daily limit.
    pub day: Window,
    /// What may be spent in a civil day.
    pub day_limit: Option<Amount>,
    /// What became of money that was reserved in the present day.
    pub today: Spend,
    /// Reserved by holds that are no longer open: confirmed, settled, released or expired. Any origin will do...
    pub reserved_closed: Amount,
    /// ...if this has the same: what of them was confirmed or settled.
    pub paid_closed: Amount,
    /// How much was asked for lately, paced requests included.
    pub demand: Demand,
    /// The largest ask of late, 0 while unknown. A plan that allows less than this for all workers together lets
    /// it add up instead of dividing it into useless parts.
    pub ask_max: Amount,
}

impl Counters {
    /// Paid per reserved, in 1 / 2^32. `budget` says how much evidence is much.
    pub(crate) fn paid_share_q32(&self, budget: i128) -> u64 {
        let prior = budget.max(0) / PAID_SHARE_PRIOR_PART + 1;
        let reserved = i128::from(self.reserved_closed.get().max(0)) + prior;
        let paid =
            i128::from(self.paid_closed.get().max(0)) + prior * PAID_SHARE_PRIOR_PERCENT / 100;
        // Below 2^64 * 2^32.
        narrow_u64((paid << 32) / reserved).clamp(PAID_SHARE_MIN_Q32, ONE_Q32)
    }
}

/// How much is asked for: a sum over recent time, in which older asks count less.
///
/// It tells `throttle` how many requests will come. It is a measurement, not a controller: forgetting it costs one
/// tick of measuring anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Sum of the asked amounts.
    pub asked: Amount,
    /// Time in which they were asked, milliseconds.
    pub ms: u64,
}

impl Demand {
    /// Adds what was asked in the last `ms`.
    pub fn add(&mut self, asked: Amount, ms: u64) {
        if self.ms >= DEMAND_MS_MAX {
            *self = Demand { asked: Amount::new(self.asked.get() / 2), ms: self.ms / 2 };
        }
        // An estimate, no balance: at the end of its range it stays there.
        self.asked = Amount::new(self.asked.get().saturating_add(asked.get().max(0)));
        self.ms = self.ms.saturating_add(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paid_share_starts_at_a_guess_and_follows_evidence() {
        let budget = 1_000_000_000;
        let share = |reserved, paid| {
            let counters = Counters {
                reserved_closed: Amount::new(reserved),
                paid_closed: Amount::new(paid),
                ..Counters::default()
            };
            counters.paid_share_q32(budget) * 1_000 / ONE_Q32
        };
        assert_eq!(share(0, 0), 299);
        assert_eq!(share(100_000_000, 100_000_000), 998);
        assert_eq!(share(100_000_000, 5_000_000), 50);
        assert_eq!(share(i64::MAX, 0), 0, "a thousandth, cut");
        assert_eq!(share(1, i64::MAX), 1_000, "never above one");
        assert_eq!(share(-1, -1), 299, "nonsense counts as nothing");
    }

    #[test]
    fn old_demand_counts_less() {
        let mut demand = Demand::default();
        for _ in 0..100 {
            demand.add(Amount::new(1_000), 1_000);
        }
        assert!(demand.ms <= DEMAND_MS_MAX + 1_000);
        assert_eq!(demand.asked.get(), i64::try_from(demand.ms).unwrap());
        for _ in 0..60 {
            demand.add(Amount::ZERO, 1_000);
        }
        assert!(demand.asked.get() < 200, "{demand:?}");
    }
}
