//! Is a budget on its plan, and if it is under it, why?

use gate_auction::{Fates, Reason};
use gate_pacing::{Progress, Strategy};
use serde_json::{Value, json};
use weir_pacer::Standing;

/// A pace index below this is under the plan, in millionths.
const UNDER_PPM: u64 = 950_000;
/// A multiplier or coin from here on has no room to rise, Q32: 98 %.
const FULL_Q32: u64 = (1 << 32) / 100 * 98;
/// Below so many impressions that a campaign wants, what became of them says nothing of the others.
pub const SAMPLE_MIN: u64 = 30;
/// Fewer requests than this part of what was expected are too few, in percent.
const FEW_PERCENT: u64 = 80;

/// What stands in the way of a budget that is under its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    NoTraffic,
    Outbid,
    Lost,
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
            Under::Lost => "lost",
            Under::Floor => "floor",
            Under::Cap => "cap",
            Under::Purse => "purse",
            Under::Blocked => "blocked",
            Under::Held => "held",
            Under::CatchingUp => "catching up",
        }
    }
}

/// Where a budget is on its plan; `None` where it has none: `asap` follows no time, so there is nothing to be ahead of or
/// behind.
pub(crate) fn on_plan(standing: &Standing) -> Option<&Progress> {
    (standing.strategy != Strategy::Asap).then_some(&standing.progress)
}

/// Why a budget is under its plan; `None` where it is not. `held_ppm` is what of its budget waits in holds, `fates` what its
/// bids met by worker, if it bids in auctions and somebody looked.
pub(crate) fn under(standing: &Standing, held_ppm: u64, fates: &[Fates]) -> Option<Under> {
    let progress = on_plan(standing)?;
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
    // What is told is what the page shows beside it: the same counters, since the campaigns last changed.
    if wanted(fates) < SAMPLE_MIN {
        return Some(room(standing, false));
    }
    let of = |reason| fates.iter().map(|fates| fates.of(reason)).sum::<u64>();
    let won = fates.iter().map(|fates| u64::from(fates.won)).sum::<u64>();
    let outbid = fates.iter().map(|fates| u64::from(fates.outbid)).sum::<u64>();
    let could = won + outbid;
    let met = [
        (Under::NoTraffic, of(Reason::Currency) + of(Reason::Seat) + of(Reason::Deal)),
        (Under::Floor, of(Reason::Floor)),
        (Under::Cap, of(Reason::Cap)),
        (Under::Purse, of(Reason::Purse)),
        (Under::Blocked, of(Reason::Blocked) + of(Reason::Insecure)),
    ];
    let most = met.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0);
    // What stopped it more often than it could bid.
    match most {
        Some((reason, count)) if count > could => Some(reason),
        _ => Some(room(standing, outbid > won)),
    }
}

/// Impressions surveyed that the campaign wants: the sample.
fn wanted(fates: &[Fates]) -> u64 {
    fates
        .iter()
        .map(|fates| fates.impressions.saturating_sub(fates.of(Reason::Targeting)))
        .fold(0, u64::saturating_add)
}

/// Nothing of ours stands in the way: is there room to bid more? `outbid`: mostly, another campaign of this node bids.
fn room(standing: &Standing, outbid: bool) -> Under {
    match (standing.multiplier_q32.min(standing.coin_q32) >= FULL_Q32, outbid) {
        (false, _) => Under::CatchingUp,
        (true, true) => Under::Outbid,
        (true, false) => Under::Lost,
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
        "planned": on_plan(standing).map(|progress| progress.planned.get()),
        "spent": progress.spent.get(),
        "index_ppm": on_plan(standing).and_then(|progress| progress.index_ppm),
        "multiplier_ppm": ppm(standing.multiplier_q32),
        "coin_ppm": ppm(standing.coin_q32),
        "requests": standing.seen,
        "requests_expected": standing.expected,
        "under": under.map(Under::name),
    })
}

#[cfg(test)]
mod tests {
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
    fn who_follows_no_plan_is_neither_behind_nor_ahead() {
        let asap = Standing { strategy: Strategy::Asap, ..standing(1, ONE) };
        assert_eq!((under(&asap, 0, &[]), on_plan(&asap)), (None, None));
        let told = to_json(&asap, None);
        assert!(told["index_ppm"].is_null() && told["planned"].is_null(), "{told}");
        assert_eq!(told["spent"], 10);
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
        assert_eq!(name(&low, 0), Some("lost"), "nobody saw another campaign of ours go before it");
        assert_eq!(name(&low, 60_000), Some("held"));
        assert_eq!(name(&standing(500_000, ONE / 2), 0), Some("catching up"));
    }

    #[test]
    fn what_bids_met_counts() {
        use gate_auction::{Counters, Tally};
        let mut counters = Counters::new(1);
        let fate = |counters: &Counters| counters.fates(0).unwrap();
        let low = standing(500_000, ONE);
        let met = |counters: &mut Counters, times: usize, what: &dyn Fn(&mut Counters)| {
            (0..times).for_each(|_| {
                counters.impression(&(0..1));
                what(counters);
            });
        };
        met(&mut counters, 1_000, &|_| {});
        met(&mut counters, 29, &|counters| counters.rejected(0, Reason::Floor));
        let few = under(&low, 0, &[fate(&counters)]);
        assert_eq!(few, Some(Under::Lost), "29 of those it wants say nothing of the others");
        met(&mut counters, 1, &|counters| counters.ranked(0));
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Floor));
        met(&mut counters, 50, &|counters| counters.ranked(0));
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Outbid));
        met(&mut counters, 60, &|counters| {
            counters.ranked(0);
            counters.won(0);
        });
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Lost), "it bids, and loses");
        met(&mut counters, 150, &|counters| counters.rejected(0, Reason::Cap));
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::Cap));
        met(&mut counters, 100, &|counters| counters.rejected(0, Reason::Currency));
        met(&mut counters, 100, &|counters| counters.rejected(0, Reason::Deal));
        assert_eq!(under(&low, 0, &[fate(&counters)]), Some(Under::NoTraffic));
    }
}
