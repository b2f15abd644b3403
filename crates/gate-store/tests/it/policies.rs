//! Policies alone, on lists of runs that exist only here: what they choose, how often they rewrite, that they end.

use std::collections::BTreeMap;

use gate_store::{Choice, LEVELS_MAX, Leveled, Policy, RunId, RunMeta, SizeTiered, TimeWindow};
use proptest::prelude::*;

/// Bytes of a record here.
const RECORD_BYTES: u64 = 10;

/// A key, and its time.
type Entry = (u64, u64);

struct Disk<P> {
    policy: P,
    runs: BTreeMap<RunId, (RunMeta, Vec<Entry>)>,
    next: u64,
    arrived: u64,
    rewritten: u64,
    dropped: u64,
}

impl<P: Policy> Disk<P> {
    fn new(policy: P) -> Disk<P> {
        Disk { policy, runs: BTreeMap::new(), next: 0, arrived: 0, rewritten: 0, dropped: 0 }
    }

    fn metas(&self) -> Vec<RunMeta> {
        self.runs.values().map(|(meta, _)| *meta).collect()
    }

    fn seal(&mut self, entries: Vec<Entry>) {
        self.arrived += entries.len() as u64;
        let window_ms = self.policy.window(entries[0].1).start_ms;
        self.put(0, window_ms, self.arrived, entries);
    }

    fn put(&mut self, level: u8, window_ms: u64, seq_max: u64, mut entries: Vec<Entry>) {
        entries.sort_unstable();
        self.next += 1;
        let id = RunId(self.next);
        let times = entries.iter().map(|entry| entry.1);
        let meta = RunMeta {
            id,
            level,
            window_ms,
            seq_max,
            records: entries.len() as u64,
            bytes: entries.len() as u64 * RECORD_BYTES,
            key_min: entries[0].0,
            key_max: entries[entries.len() - 1].0,
            time_min_ms: times.clone().min().unwrap(),
            time_max_ms: times.max().unwrap(),
        };
        self.runs.insert(id, (meta, entries));
    }

    /// Follows the policy until it wants nothing; the number of choices is bounded.
    fn settle(&mut self, now_ms: u64, mut check: impl FnMut(&Choice, &[RunMeta])) {
        for _ in 0..1_000 {
            let metas = self.metas();
            let choice = self.policy.choose(&metas, now_ms);
            assert_eq!(choice, self.policy.choose(&metas, now_ms), "a policy is a function");
            check(&choice, &metas);
            match choice {
                Choice::Nothing => return,
                Choice::Drop(ids) => self.drop_runs(&ids, now_ms),
                Choice::Merge { runs, level, run_bytes_max } => {
                    self.merge(&runs, level, run_bytes_max, now_ms);
                }
            }
        }
        panic!("the policy does not come to an end: {:?}", self.metas());
    }

    fn drop_runs(&mut self, ids: &[RunId], now_ms: u64) {
        for id in ids {
            let (_, entries) = self.runs.remove(id).unwrap();
            let dead_before_ms = self.policy.dead_before_ms(now_ms);
            let is_dead = |entry: &Entry| {
                entry.1 < dead_before_ms || self.policy.window(entry.1).dead_ms <= now_ms
            };
            assert!(entries.iter().all(is_dead), "only what is dead is dropped");
            self.dropped += entries.len() as u64;
        }
    }

    fn merge(&mut self, ids: &[RunId], level: u8, run_bytes_max: u64, now_ms: u64) {
        let inputs: Vec<_> = ids.iter().map(|id| self.runs.remove(id).unwrap()).collect();
        let window_ms = inputs[0].0.window_ms;
        assert!(inputs.iter().all(|(meta, _)| meta.window_ms == window_ms));
        let seq_max = inputs.iter().map(|(meta, _)| meta.seq_max).max().unwrap();
        let mut entries: Vec<Entry> = inputs.into_iter().flat_map(|(_, entries)| entries).collect();
        let before = entries.len() as u64;
        let dead_before_ms = self.policy.dead_before_ms(now_ms);
        entries.retain(|entry| entry.1 >= dead_before_ms);
        self.dropped += before - entries.len() as u64;
        self.rewritten += entries.len() as u64;
        entries.sort_unstable();
        while !entries.is_empty() {
            let mut len = entries.len().min((run_bytes_max / RECORD_BYTES).max(1) as usize);
            while len < entries.len() && entries[len].0 == entries[len - 1].0 {
                len += 1;
            }
            let rest = entries.split_off(len);
            self.put(level, window_ms, seq_max, entries);
            entries = rest;
        }
    }

    fn live(&self) -> u64 {
        self.runs.values().map(|(meta, _)| meta.records).sum()
    }

    fn rewrites_a_record(&self) -> f64 {
        self.rewritten as f64 / self.arrived as f64
    }
}

/// Sizes of sealed segments, in no order or each smaller than the one before: the worst for policies that go by size.
fn sizes(max: usize) -> impl Strategy<Value = Vec<usize>> {
    let falling = prop::collection::vec(1..max, 1..120).prop_map(|mut sizes| {
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    });
    prop_oneof![prop::collection::vec(1..max, 1..120), falling]
}

/// Keys that look like hashes.
fn entries(seed: usize, count: usize, time_ms: u64) -> Vec<Entry> {
    let key = |n: usize| (seed * 10_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u64;
    (0..count).map(|n| (key(n), time_ms)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn size_tiered_keeps_few_runs_and_rewrites_seldom(sizes in sizes(60), fan_in in 2..7_usize) {
        let mut disk = Disk::new(SizeTiered { fan_in, keep_ms: None });
        for (seed, size) in sizes.iter().enumerate() {
            disk.seal(entries(seed, *size, 0));
            disk.settle(0, |choice, metas| merges_neighbours(choice, metas, fan_in));
            let least = *sizes.iter().min().unwrap() as f64;
            let growth = (disk.live() as f64 / least).ln();
            let runs_max = (fan_in - 1) as f64 * (growth / 1.25_f64.ln() + 1.0);
            prop_assert!(disk.runs.len() as f64 <= runs_max, "{} runs, bound {runs_max}", disk.runs.len());
            prop_assert!(disk.rewrites_a_record() <= 2.0 * growth / 1.8_f64.ln() + 2.0);
            prop_assert_eq!(disk.live(), disk.arrived);
        }
    }

    #[test]
    fn leveled_keeps_levels_sorted_and_within_bounds(sizes in sizes(60), level0_runs in 1..5_usize) {
        let policy = Leveled {
            level0_runs,
            level1_bytes: 1_000,
            ratio: 3,
            run_bytes_max: 300,
            keep_ms: None,
        };
        let mut disk = Disk::new(policy);
        for (seed, size) in sizes.iter().enumerate() {
            disk.seal(entries(seed, *size, 0));
            disk.settle(0, |_, _| {});
            levels_are_sorted(&disk.metas());
            prop_assert!(disk.metas().iter().filter(|run| run.level == 0).count() < level0_runs);
            for level in 1..LEVELS_MAX - 1 {
                let runs = disk.metas().into_iter().filter(|run| run.level == level);
                let bytes: u64 = runs.map(|run| run.bytes).sum();
                prop_assert!(bytes <= 1_000 * 3_u64.pow(u32::from(level) - 1), "level {level}: {bytes}");
            }
            prop_assert_eq!(disk.live(), disk.arrived);
        }
        prop_assert!(disk.rewrites_a_record() <= leveled_rewrites_max(&policy, &disk, &sizes));
    }

    #[test]
    fn a_time_window_is_folded_once_and_dropped_whole(
        seals in prop::collection::vec((1..20_usize, 0..80_u64, 0..40_u64), 1..120),
    ) {
        let within = SizeTiered { fan_in: 3, keep_ms: None };
        let policy = TimeWindow { window_ms: 100, lateness_ms: 50, keep_ms: 300, within };
        let mut disk = Disk::new(policy);
        let mut now_ms = 1_000;
        let mut folded = BTreeMap::new();
        for (seed, (size, ago_ms, wait_ms)) in seals.into_iter().enumerate() {
            now_ms += wait_ms;
            if policy.window(now_ms - ago_ms).closes_ms > now_ms {
                disk.seal(entries(seed, size, now_ms - ago_ms));
            }
            disk.settle(now_ms, |choice, metas| count_closing_folds(choice, metas, &policy, now_ms, &mut folded));
            prop_assert!(disk.metas().iter().all(|run| policy.window(run.time_max_ms).dead_ms > now_ms));
            prop_assert_eq!(disk.live() + disk.dropped, disk.arrived);
        }
        prop_assert!(folded.values().all(|folds| *folds == 1), "{folded:?}");
        let bound = 2.0 * (disk.arrived as f64).ln() / 1.8_f64.ln() + 3.0;
        prop_assert!(disk.rewrites_a_record() <= bound);
    }

    #[test]
    fn nothing_dead_stays_longer_than_its_bound(
        seals in prop::collection::vec((1..20_usize, 0..80_u64), 1..120),
        leveled in any::<bool>(),
    ) {
        if leveled {
            let policy = Leveled { level1_bytes: 500, keep_ms: Some(200), ..Leveled::default() };
            expires(policy, seals);
        } else {
            expires(SizeTiered { fan_in: 3, keep_ms: Some(200) }, seals);
        }
    }
}

/// Time goes on; after each step nothing is older than twice 200 ms, and nothing younger than 200 ms is gone.
fn expires<P: Policy>(policy: P, seals: Vec<(usize, u64)>) {
    let mut disk = Disk::new(policy);
    let mut now_ms = 10_000;
    let mut all: Vec<u64> = vec![];
    for (seed, (size, wait_ms)) in seals.into_iter().enumerate() {
        now_ms += wait_ms;
        disk.seal(entries(seed, size, now_ms));
        all.extend(std::iter::repeat_n(now_ms, size));
        disk.settle(now_ms, |_, _| {});
        let times =
            || disk.runs.values().flat_map(|(_, entries)| entries.iter().map(|entry| entry.1));
        assert!(times().all(|time_ms| time_ms + 400 >= now_ms), "older than twice its time");
        let needed = |time_ms: &u64| time_ms + 200 >= now_ms;
        assert_eq!(
            times().filter(needed).count(),
            all.iter().copied().filter(|t| needed(t)).count()
        );
    }
}

/// A merge is of runs that follow each other in age: newest-wins stays right.
fn merges_neighbours(choice: &Choice, metas: &[RunMeta], fan_in: usize) {
    let Choice::Merge { runs, .. } = choice else { return };
    let mut by_age = metas.to_vec();
    by_age.sort_unstable_by_key(RunMeta::age);
    let first = by_age.iter().position(|run| run.id == runs[0]).unwrap();
    let stretch = by_age[first..].iter().take(runs.len()).map(|run| run.id);
    assert!(stretch.eq(runs.iter().copied()), "{runs:?} are not neighbours");
    assert!(runs.len() >= fan_in);
}

fn levels_are_sorted(metas: &[RunMeta]) {
    for one in metas.iter().filter(|run| run.level > 0) {
        let others = metas.iter().filter(|run| run.level == one.level && run.id != one.id);
        others.for_each(|other| assert!(!one.overlaps(other), "{one:?} and {other:?}"));
    }
}

/// Into level 1 a record comes with everything there, at worst at each arrival of `level0_runs` segments; into a
/// level below, every record pushed down rewrites at most the whole ranges it meets: `ratio + 1` times its bytes
/// on average, and one run more at each end.
fn leveled_rewrites_max(policy: &Leveled, disk: &Disk<Leveled>, sizes: &[usize]) -> f64 {
    let merges = sizes.len() as f64 / policy.level0_runs as f64;
    let level1_records = (policy.level1_bytes + policy.run_bytes_max) as f64 / RECORD_BYTES as f64;
    let into_level1 = 1.0 + merges * level1_records / disk.arrived as f64;
    let deepest = disk.metas().iter().map(|run| run.level).max().unwrap_or(0);
    let below = f64::from(deepest.saturating_sub(1));
    into_level1 + below * (policy.ratio as f64 + 3.0)
}

/// Counts the merges of windows that have closed.
fn count_closing_folds(
    choice: &Choice,
    metas: &[RunMeta],
    policy: &TimeWindow,
    now_ms: u64,
    folded: &mut BTreeMap<u64, u32>,
) {
    let Choice::Merge { runs, .. } = choice else { return };
    let window_ms = metas.iter().find(|run| run.id == runs[0]).unwrap().window_ms;
    if policy.window(window_ms).closes_ms <= now_ms {
        *folded.entry(window_ms).or_default() += 1;
    }
}
