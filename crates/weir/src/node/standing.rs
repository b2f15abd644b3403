//! Is a budget on its plan, and if it is under it, why?

use gate_auction::{Fates, Reason};
use serde_json::{Value, json};
use weir_pace::pacer::Standing;

/// A pace index below this is under the plan, in millionths.
const UNDER_PPM: u64 = 950_000;
/// A multiplier or coin from here on has no room to rise, Q32: 98 %.
const FULL_Q32: u64 = (1 << 32) / 100 * 98;
/// Fewer requests than this part of what was expected are too few, in percent.
const FEW_PERCENT: u64 = 80;

/// What stands in the way of a budget that is under its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    NoTraffic,
    Outbid,
    Floor,
    Cap,
    Purse,
    Blocked,
    Held,
    CatchingUp,
}

impl Under {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Under::NoTraffic => "no eligible traffic",
            Under::Outbid => "outbid",
            Under::Floor => "floor",
            Under::Cap => "cap",
            Under::Purse => "purse",
            Under::Blocked => "blocked",
            Under::Held => "held",
            Under::CatchingUp => "catching up",
        }
    }
}

/// Why a budget is under its plan; `None` where it is not. `held_ppm` is what of its budget waits in holds, `fates` what its
/// bids met by worker, if it bids in auctions and somebody looked.
pub(crate) fn under(standing: &Standing, held_ppm: u64, fates: &[Fates]) -> Option<Under> {
    let progress = &standing.progress;
    progress.index_ppm.filter(|index| *index < UNDER_PPM && progress.open)?;
    let few = standing.expected.is_some_and(|expected| {
        u128::from(standing.seen) * 100 < u128::from(expected) * u128::from(FEW_PERCENT)
    });
    if standing.seen == 0 || few {
        return Some(Under::NoTraffic);
    }
    if held_ppm > 1_000_000 - UNDER_PPM {
        return Some(Under::Held);
    }
    let of = |reason| fates.iter().map(|fates| fates.of(reason)).sum::<u64>();
    let could = fates.iter().map(|fates| u64::from(fates.won) + u64::from(fates.outbid)).sum();
    let met = [
        (Under::Floor, of(Reason::Floor)),
        (Under::Cap, of(Reason::Cap)),
        (Under::Purse, of(Reason::Purse)),
        (Under::Blocked, of(Reason::Blocked) + of(Reason::Insecure)),
    ];
    let most = met.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0);
    // What stopped it more often than it could bid.
    match most {
        Some((reason, count)) if count > could => Some(reason),
        _ => Some(room(standing)),
    }
}

/// Nothing of ours stands in the way: is there room to bid more?
fn room(standing: &Standing) -> Under {
    match standing.multiplier_q32.min(standing.coin_q32) >= FULL_Q32 {
        true => Under::Outbid,
        false => Under::CatchingUp,
    }
}

/// For tools: amounts in base units, parts in millionths.
pub(crate) fn to_json(standing: &Standing, under: Option<Under>) -> Value {
    let ppm = |q32: u64| u64::try_from((u128::from(q32) * 1_000_000) >> 32).unwrap_or(0);
    let progress = &standing.progress;
    json!({
        "pacing": standing.strategy.name(),
        "window": { "start_ms": progress.window.start.ms(), "end_ms": progress.window.end.ms() },
        "open": progress.open,
        "budget": progress.budget.get(),
        "planned": progress.planned.get(),
        "spent": progress.spent.get(),
        "index_ppm": progress.index_ppm,
        "multiplier_ppm": ppm(standing.multiplier_q32),
        "coin_ppm": ppm(standing.coin_q32),
        "requests": standing.seen,
        "requests_expected": standing.expected,
        "under": under.map(Under::name),
    })
}

#[cfg(test)]
mod tests {
    use gate_pacing::{Progress, Strategy};
    use ledger::Amount;
    use money::Window;

    use super::*;

    const ONE: u64 = 1 << 32;

    fn standing(index_ppm: u64, multiplier_q32: u64) -> Standing {
        Standing {
            strategy: Strategy::Curve,
            progress: Progress {
                window: Window::ALWAYS,
                budget: Amount::new(100),
                planned: Amount::new(50),
                spent: Amount::new(10),
                index_ppm: Some(index_ppm),
                open: true,
            },
            multiplier_q32,
            coin_q32: ONE,
            seen: 100,
            expected: Some(100),
        }
    }

    #[test]
    fn who_is_on_plan_needs_no_reason() {
        assert_eq!(under(&standing(950_000, ONE), 0, &[]), None);
        let closed = Standing {
            progress: Progress { open: false, ..standing(1, ONE).progress },
            ..standing(1, ONE)
        };
        assert_eq!(under(&closed, 0, &[]), None);
    }

    #[test]
    fn reasons_by_table() {
        let low = standing(500_000, ONE);
        let name = |standing: &Standing, held| under(standing, held, &[]).map(Under::name);
        assert_eq!(name(&Standing { seen: 79, ..low }, 0), Some("no eligible traffic"));
        assert_eq!(
            name(&Standing { seen: 0, expected: None, ..low }, 0),
            Some("no eligible traffic")
        );
        assert_eq!(name(&low, 0), Some("outbid"));
        assert_eq!(name(&low, 60_000), Some("held"));
        assert_eq!(name(&standing(500_000, ONE / 2), 0), Some("catching up"));
    }

    #[test]
    fn what_bids_met_counts() {
        use gate_auction::{Counters, Tally};
        let mut counters = Counters::new(1);
        let fate = |counters: &Counters| counters.fates(0).unwrap();
        (0..3).for_each(|_| counters.rejected(0, Reason::Floor));
        counters.ranked(0);
        let low = standing(500_000, ONE);
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Floor));
        (0..5).for_each(|_| counters.ranked(0));
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Outbid));
        (0..9).for_each(|_| counters.rejected(0, Reason::Cap));
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Cap));
    }
}
