//! What a world is made of, drawn from its seed.

use ledger::{
    Amount, BudgetSpec, OnExpiry, Options, Period, PurseOptions, WindowKind, WindowLimit, Windows,
};
use money::{Instant, Unit, Zone};

use crate::Bug;
use crate::rng::Rng;

const LATE_MS: u64 = 20_000;
const ZONES: [&str; 4] = ["UTC", "Europe/Paris", "Australia/Lord_Howe", "America/Havana"];

/// Shortly before a midnight of one of the zones, some of them on a day with a change of the clocks.
pub(crate) fn start_ms(rng: &mut Rng) -> u64 {
    let midnights = [1_774_738_800_000, 1_774_832_400_000, 1_793_484_000_000, 1_767_225_600_000];
    midnights[rng.index(midnights.len())] - rng.below(20_000)
}

/// In one world of ten the bounds on grants, marks and amounts are so narrow that they are reached.
pub(crate) fn narrow(rng: &mut Rng) -> bool {
    rng.chance(100)
}

/// How a run is configured. It may differ from the run before.
pub(crate) fn options(rng: &mut Rng, narrow: bool, bug: Option<Bug>) -> (Options, PurseOptions) {
    let purses = PurseOptions { node: 1, hold_ms: if rng.chance(300) { 200 } else { 400 } };
    let options = Options {
        workers: u16::try_from(1 + rng.below(4)).expect("few workers"),
        hold_ms_max: purses.hold_ms_max(),
        // No draw of its own: the seeds of the planted faults stay what they are.
        lease_ms: if purses.hold_ms == 200 { 1_500 } else { 0 },
        billing_ms: if rng.chance(300) { 3_200 } else { 6_400 },
        win_notices: rng.chance(500),
        late_ms: LATE_MS,
        grant_ms_max: 1_000 + rng.below(9_000),
        grants_max: if narrow { 20 } else { 1_000_000 },
        pages_max: if narrow { 10 } else { 1_000_000 },
        named_max: if narrow { 8 } else { 1_000_000 },
        amounts_max: if narrow { 5 } else { 1_000_000 },
        keep_rests: bug != Some(Bug::FreeRests),
        ..Options::default()
    };
    (options, purses)
}

/// A few budgets, at times many: some alone, some under parents up to four levels, some with daily limits in zones
/// with odd days.
pub(crate) fn budgets(rng: &mut Rng, now_ms: u64) -> Vec<BudgetSpec> {
    let many = rng.chance(100);
    let count = if many { 20 + rng.below(60) } else { 2 + rng.below(6) };
    let mut depths = vec![0; usize::try_from(count).expect("few") + 1];
    (1..=count).map(|id| budget(rng, id, now_ms, &mut depths)).collect()
}

/// A window of any kind, small or large.
pub(crate) fn window(rng: &mut Rng) -> WindowLimit {
    let period = Period::ALL[rng.index(Period::ALL.len())];
    let kind = if rng.chance(300) { WindowKind::Bucket } else { WindowKind::Fixed };
    let most = if rng.chance(300) { 200 } else { 8_000 };
    WindowLimit { period, kind, limit: Amount::new(rng.between(50, most)) }
}

/// Half of the budgets have a day, and half have other windows, at times several.
fn windows(rng: &mut Rng) -> Windows {
    let day = rng.chance(500).then(|| Amount::new(rng.between(50, 5_000)));
    let others = if rng.chance(500) { rng.below(4) } else { 0 };
    (0..others).fold(Windows::daily(day), |windows, _| windows.with(window(rng)))
}

fn budget(rng: &mut Rng, id: u64, now_ms: u64, depths: &mut [usize]) -> BudgetSpec {
    let above = (id > 1 && rng.chance(500)).then(|| 1 + rng.below(id - 1));
    let index = |id: u64| usize::try_from(id).expect("few");
    let parent = above.filter(|above| depths[index(*above)] + 1 < ledger::spec::LEVELS_MAX);
    depths[index(id)] = parent.map_or(0, |parent| depths[index(parent)] + 1);
    BudgetSpec {
        windows: windows(rng),
        start: Instant::from_ms(now_ms - rng.below(1000) + if rng.chance(100) { 3_000 } else { 0 }),
        end: Instant::from_ms(now_ms + 10_000 + rng.below(100_000_000)),
        zone: Zone::parse(ZONES[rng.index(ZONES.len())]).expect("a zone"),
        parent,
        late_reserve_bp: if rng.chance(200) { 500 } else { 0 },
        on_expiry: if rng.chance(600) { OnExpiry::Hold } else { OnExpiry::Release },
        tolerance_ppm: if rng.chance(200) { 100_000 } else { 0 },
        ..BudgetSpec::plain(
            id,
            Unit::parse("USD").expect("a currency"),
            Amount::new(rng.between(100, 20_000)),
        )
    }
}
