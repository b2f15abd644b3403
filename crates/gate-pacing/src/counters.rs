//! What pacing must know of a budget's books: plain sums, which may be gathered in any order.

use money::{Amount, Window};

use crate::fixed::{ONE_Q32, quotient};
use crate::plan::Rebase;

/// Paid per reserved while nothing is known of it: 0.3.
const PAID_PRIOR_Q32: u64 = ONE_Q32 / 10 * 3;
/// Paid per reserved by won holds while nothing is known of it: all.
const WON_PRIOR_Q32: u64 = ONE_Q32;
/// Paid per reserved by holds that expired without a word, at an exchange that does not tell of losses: 0.05.
const SILENT_PRIOR_Q32: u64 = ONE_Q32 / 20;
/// How much a first guess weighs: as much as evidence of this part of the budget, and a base unit.
const PRIOR_PART: u64 = 4_096;
/// Paid per reserved is never believed to be less than a thousandth: it divides.
const SHARE_MIN_Q32: u64 = ONE_Q32 / 1_000;
/// After this long, demand that was seen before counts half.
const DEMAND_MS_MAX: u64 = 10_000;

/// Where the money of a budget is, other than free. Money that lies unreserved in purses does not belong
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// Spent: settled within holds, above them and late.
    pub settled: Amount,
    /// In holds that nobody confirmed yet and whose time is not over, and suspended; most of it will come
    /// back.
    pub open: Amount,
    /// In holds that somebody confirmed (won) and that wait for billing.
    pub confirmed: Amount,
    /// In holds whose time is over without a word, and which nobody reconciled yet.
    pub expired: Amount,
}

impl Spend {
    /// What cannot be reserved again whatever the ledger's rule for expired holds is.
    pub(crate) fn held(&self) -> i64 {
        let held = self.settled.get().saturating_add(self.open.get());
        held.saturating_add(self.confirmed.get())
    }
}

/// What became of holds: sums of reserved and of paid amounts, of any origin as long as it is the same for
/// all.
///
/// The expected cost of open, won and expired holds is derived from these sums when it is needed, never from
/// hold to hold. So the order in which notices come cannot change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Reserved by all holds that are resolved: settled, released or reconciled.
    pub resolved: Amount,
    /// The amount that was settled of those.
    pub paid: Amount,
    /// Reserved by those that were settled.
    pub won: Amount,
    /// Reserved by holds that expired and are resolved now.
    pub expired_resolved: Amount,
    /// The amount that was settled of those.
    pub expired_paid: Amount,
    /// Are losses told? Where not, silence nearly always means a loss.
    pub loss_notices: bool,
}

/// No evidence, of an exchange that tells of losses.
impl Default for Evidence {
    fn default() -> Evidence {
        let none = Amount::ZERO;
        Evidence {
            resolved: none,
            paid: none,
            won: none,
            expired_resolved: none,
            expired_paid: none,
            loss_notices: true,
        }
    }
}

/// Expected cost of reserved money, Q32, from [`Evidence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of an open hold: w.
    pub(crate) open_q32: u64,
    /// Of a won one.
    pub(crate) won_q32: u64,
    /// Of an expired one: wx.
    pub(crate) expired_q32: u64,
}

impl Cost {
    /// What will probably be spent in the end: S.
    pub(crate) fn spend(&self, spend: &Spend) -> i64 {
        // Limits are at most 10^18, so that only nonsense is cut at the end of the range.
        part(spend.open, self.open_q32)
            .saturating_add(part(spend.confirmed, self.won_q32))
            .saturating_add(part(spend.expired, self.expired_q32))
            .saturating_add(spend.settled.get())
    }
}

impl Evidence {
    /// `budget` says how much evidence is much. Ratios that none of the spends needs are not worked out, but
    /// for that of open holds where there will be some (`reserving`).
    pub(crate) fn cost(&self, budget: i64, spends: [&Spend; 2], reserving: bool) -> Cost {
        // At most 2^51 + 1.
        let weight = budget.max(0).unsigned_abs() / PRIOR_PART + 1;
        let any = |line: fn(&Spend) -> Amount| spends.map(line) != [Amount::ZERO; 2];
        let (confirmed, expired) = (any(|spend| spend.confirmed), any(|spend| spend.expired));
        let of_open = reserving || any(|spend| spend.open) || (expired && self.loss_notices);
        let ratio = |needed: bool, paid, reserved, prior_q32| match needed {
            true => ratio_of(paid, reserved, weight, prior_q32),
            false => ONE_Q32,
        };
        let open_q32 = ratio(of_open, self.paid, self.resolved, PAID_PRIOR_Q32);
        let silent_q32 = if self.loss_notices { open_q32 } else { SILENT_PRIOR_Q32 };
        Cost {
            open_q32,
            won_q32: ratio(confirmed, self.paid, self.won, WON_PRIOR_Q32),
            expired_q32: ratio(expired, self.expired_paid, self.expired_resolved, silent_q32),
        }
    }
}

/// `(paid + weight * prior) / (reserved + weight)` in Q32. Both amounts are below 2^63, so nothing overflows;
/// what is negative counts as nothing.
fn ratio_of(paid: Amount, reserved: Amount, weight: u64, prior_q32: u64) -> u64 {
    let amount = |amount: Amount| amount.get().max(0).unsigned_abs();
    let paid_q32 = (u128::from(amount(paid)) << 32) + u128::from(weight) * u128::from(prior_q32);
    quotient(paid_q32, amount(reserved) + weight).clamp(SHARE_MIN_Q32, ONE_Q32)
}

fn part(amount: Amount, share_q32: u64) -> i64 {
    let whole = amount.get().max(0);
    let product = u128::from(whole.unsigned_abs()) * u128::from(share_q32);
    // A share is at most one.
    i64::try_from(product >> 32).unwrap_or(whole)
}

/// What pacing must know of a budget. All sums over workers and grants; amounts in base units of its unit.
///
/// *The window* is what the plan spreads the budget over: the day of a [daily](crate::PlanSpec::daily) plan,
/// else the flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The amount that may be spent in the budget's life.
    pub limit: Amount,
    /// What became of it in the budget's life.
    pub life: Spend,
    /// The budget's present civil day ([`money::day_at`]); looked at by daily plans and where there is a
    /// day's cap.
    pub day: Window,
    /// The amount that may be spent in a civil day, never more.
    pub day_cap: Option<Amount>,
    /// What is wished to be spent in a civil day; without it, the cap is.
    pub day_target: Option<Amount>,
    /// What became of money that was reserved in the present day.
    pub today: Spend,
    /// What holds turned out to cost.
    pub evidence: Evidence,
    /// The number of requests of late.
    pub demand: Demand,
    /// Eligible requests seen in the window: n.
    pub seen: u64,
    /// What the landscape made us expect to spend in the window at the multipliers that were live: the sum of
    /// [`Landscape::expected`](crate::Landscape::expected). Only [`Strategy::steers`](crate::Strategy::steers) looks at it.
    pub predicted: Amount,
    /// Value won in the window, base units; for [`PlanSpec::roi_micros`](crate::PlanSpec::roi_micros).
    pub value: Amount,
    /// The largest bid or ask of late, passed or not: what an allowance has to let through to be of any use.
    /// 0 while unknown.
    pub ask_max: Amount,
    /// What settled holds of late came to.
    pub bought: Bought,
    /// The last change of the budget, if there was one.
    pub rebase: Option<Rebase>,
}

/// Settled holds of late: what one of them costs says how many the budget is worth.
///
/// As [`Demand`] it is a measurement, and sums only: the order of notices changes nothing. Without any the gain is that of a large budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bought {
    holds: u64,
    paid: u64,
}

impl Bought {
    /// Another window begins: what was before counts half.
    pub fn forget_half(&mut self) {
        *self = Bought { holds: self.holds / 2, paid: self.paid / 2 };
    }

    /// A hold was settled for this.
    pub fn add(&mut self, paid: Amount) {
        // An estimate, no balance.
        self.holds += 1;
        self.paid = self.paid.saturating_add(paid.get().max(0).unsigned_abs());
    }

    /// How many such holds an amount pays for; `None` while that is not known.
    pub(crate) fn worth(&self, amount: i64) -> Option<u64> {
        let worth = u128::from(amount.max(0).unsigned_abs()) * u128::from(self.holds);
        worth
            .checked_div(u128::from(self.paid))
            .map(|worth| u64::try_from(worth).unwrap_or(u64::MAX))
    }
}

/// The number of requests: counts over recent time, in which older ones count less.
///
/// For cold starts without a forecast only. It is a measurement, not a controller: forgetting it costs one
/// tick of measuring anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Eligible requests.
    pub seen: u64,
    /// Time in which they came, milliseconds.
    pub ms: u64,
}

impl Demand {
    /// Adds what came in the last `ms`. Call it once with the time, and with 0 ms for every further worker.
    pub fn add(&mut self, seen: u64, ms: u64) {
        if self.ms >= DEMAND_MS_MAX {
            let Demand { seen, ms } = *self;
            *self = Demand { seen: seen / 2, ms: ms / 2 };
        }
        // An estimate, no balance: at the end of its range it stays there.
        self.seen = self.seen.saturating_add(seen);
        self.ms = self.ms.saturating_add(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: i64 = 1_000_000_000;

    fn amount(base_units: i64) -> Amount {
        Amount::new(base_units)
    }

    fn all_lines() -> Spend {
        let one = amount(1_000);
        Spend { settled: one, open: one, confirmed: one, expired: one }
    }

    /// Of an open, a won and an expired hold, in thousandths.
    fn cost(evidence: &Evidence) -> [u64; 3] {
        let cost = evidence.cost(BUDGET, [&all_lines(); 2], true);
        [cost.open_q32, cost.won_q32, cost.expired_q32].map(|share| share * 1_000 / ONE_Q32)
    }

    #[test]
    fn costs_start_at_a_guess_and_follow_evidence() {
        let open = |resolved, paid| {
            let (resolved, paid) = (amount(resolved), amount(paid));
            cost(&Evidence { resolved, paid, ..Evidence::default() })[0]
        };
        assert_eq!(open(0, 0), 299);
        assert_eq!(open(100_000_000, 100_000_000), 998);
        assert_eq!(open(100_000_000, 5_000_000), 50);
        assert_eq!(open(i64::MAX, 0), 0, "a thousandth, cut");
        assert_eq!(open(1, i64::MAX), 1_000, "never above one");
        assert_eq!(open(-1, -1), 299, "nonsense counts as nothing");
    }

    #[test]
    fn silence_means_a_loss_where_losses_are_not_told() {
        let told = Evidence::default();
        let silent = Evidence { loss_notices: false, ..told };
        assert_eq!(cost(&told), [299, 1_000, 299], "as an open one");
        assert_eq!(cost(&silent), [299, 1_000, 49]);
        let reconciled = |evidence| Evidence {
            expired_resolved: amount(100_000_000),
            expired_paid: amount(20_000_000),
            ..evidence
        };
        assert_eq!(cost(&reconciled(told))[2], 200);
        assert_eq!(cost(&reconciled(silent))[2], 199);
    }

    #[test]
    fn won_holds_cost_what_won_holds_cost() {
        let evidence = Evidence {
            resolved: amount(100_000_000),
            won: amount(20_000_000),
            paid: amount(10_000_000),
            ..Evidence::default()
        };
        assert_eq!(cost(&evidence), [100, 506, 100]);
        let spend = evidence.cost(BUDGET, [&all_lines(); 2], true).spend(&all_lines());
        assert!((1_700..1_710).contains(&spend), "{spend}");
    }

    #[test]
    fn old_demand_counts_less() {
        let mut demand = Demand::default();
        for _ in 0..100 {
            demand.add(1_000, 1_000);
        }
        assert!(demand.ms <= DEMAND_MS_MAX + 1_000);
        assert_eq!(demand.seen, demand.ms);
        for _ in 0..60 {
            demand.add(0, 1_000);
        }
        assert!(demand.seen < 200, "{demand:?}");
    }
}
