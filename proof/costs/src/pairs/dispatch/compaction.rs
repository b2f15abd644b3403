//! A compaction policy called directly and through a box: once a merge, so it may cost what it likes.

use std::hint::black_box;

use gate_store::{Choice, Leveled, Policy, RunId, RunMeta, SizeTiered, TimeWindow};

use crate::pairs::{Meaning, Pair};
use crate::race::{Done, race};
use crate::{Error, Size};

const ROUNDS: usize = 11;
/// Choices of a round.
const CHOICES: u64 = 2_000;
const NOW_MS: u64 = 1_000_000_000;

const MEANING: Meaning = Meaning {
    rival: None,
    faster: "the policy stays a type parameter, although once a merge nobody would notice a box",
    slower: "the policy stays a type parameter because a store has one for life, not because it is faster",
    level: "the policy is a type parameter because a store has one for life; choosing at run time would cost nothing",
};

pub(super) fn pairs(size: Size) -> Result<Vec<Pair>, Error> {
    let hour = TimeWindow {
        window_ms: 3_600_000,
        lateness_ms: 3_600_000,
        keep_ms: NOW_MS,
        within: SizeTiered::default(),
    };
    // Level 1 holds whatever the list has.
    let leveled = Leveled { level1_bytes: u64::MAX, ..Leveled::default() };
    let tiered = SizeTiered::default();
    Ok(vec![
        pair(size, "dispatch/compaction", "size-tiered", 50, tiered)?,
        pair(size, "dispatch/compaction-merging", "size-tiered", 200, tiered)?,
        pair(size, "dispatch/compaction-leveled", "leveled", 50, leveled)?,
        pair(size, "dispatch/compaction-window", "time-window", 50, hour)?,
    ])
}

fn pair<P: Policy + Copy + 'static>(
    size: Size,
    id: &'static str,
    name: &str,
    runs: u64,
    policy: P,
) -> Result<Pair, Error> {
    let (rounds, choices) = (size.pick(ROUNDS, 1), size.pick(CHOICES, 50));
    let runs: Vec<RunMeta> = (0..runs).map(run).collect();
    let boxed: Box<dyn Policy> = black_box(Box::new(policy));
    let outcomes = race(
        rounds,
        vec![
            ("static", Box::new(|| choose(&policy, &runs, choices))),
            ("Box<dyn Policy>", Box::new(|| choose(&*boxed, &runs, choices))),
        ],
    )?;
    let what = format!("A {name} compaction policy looks at {} runs.", runs.len());
    Ok(Pair::new(id, what, "choice", outcomes, &MEANING))
}

fn choose<P: Policy + ?Sized>(policy: &P, runs: &[RunMeta], choices: u64) -> Done {
    let at = |now_ms| match black_box(policy.choose(black_box(runs), NOW_MS + now_ms)) {
        Choice::Nothing => 0,
        Choice::Merge { runs, .. } | Choice::Drop(runs) => 1 + runs.len() as u64,
    };
    Done { operations: choices, result: (0..choices).map(at).sum() }
}

/// Runs as a settled store has them: up to 60 each older one is twice as large, so that size-tiered looks at all and
/// chooses nothing; of 200 the newest are of like size, and it wants them merged. Each is alone in its hour.
fn run(number: u64) -> RunMeta {
    let bytes = 1_u64 << (60 - number.min(59));
    let window_ms = (number + 1) * 3_600_000;
    RunMeta {
        id: RunId(number),
        level: 1,
        window_ms,
        seq_max: number,
        records: bytes / 24,
        bytes,
        key_min: number << 32,
        key_max: (number << 32) + 1,
        time_min_ms: window_ms,
        time_max_ms: window_ms + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_runs_stay_and_many_of_like_size_are_merged() {
        let runs: Vec<RunMeta> = (0..200).map(run).collect();
        assert_eq!(choose(&SizeTiered::default(), &runs[..50], 3).result, 0);
        assert!(choose(&SizeTiered::default(), &runs, 3).result > 3);
    }
}
