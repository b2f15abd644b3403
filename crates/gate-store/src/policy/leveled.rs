//! Sorted levels: a key is in at most one run of each, for what is read by key.

use super::{Choice, Policy, RunId, RunMeta, dead_before_ms, expire};

/// Levels there can be, level 0 included. The last one takes whatever comes.
pub const LEVELS_MAX: u8 = 8;

/// Below level 0, where sealed segments arrive, the runs of a level do not overlap, and each level may be
/// [`Leveled::ratio`] times as large as the one above. A point read looks into level 0 and one run a level.
///
/// A record is rewritten about `level1_bytes / (level0_runs * run)` times into level 1 and about `ratio / 2 + 1`
/// times into each level below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leveled {
    /// Runs of level 0 that make a merge into level 1 worth it, at least 1.
    pub level0_runs: usize,
    /// Bytes that level 1 may hold.
    pub level1_bytes: u64,
    /// How many times as large each further level may be, at least 2.
    pub ratio: u64,
    /// Bytes after which a run of level 1 and below is cut.
    pub run_bytes_max: u64,
    /// How long a record is needed, milliseconds; `None` for ever. It is gone from disk after twice this time.
    pub keep_ms: Option<u64>,
}

impl Default for Leveled {
    fn default() -> Leveled {
        Leveled {
            level0_runs: 4,
            level1_bytes: 64 << 20,
            ratio: 10,
            run_bytes_max: 16 << 20,
            keep_ms: None,
        }
    }
}

impl Leveled {
    /// Bytes that a level may hold.
    fn level_bytes_max(&self, level: u8) -> u64 {
        if level + 1 >= LEVELS_MAX {
            return u64::MAX;
        }
        let ratio = self.ratio.max(2).saturating_pow(u32::from(level) - 1);
        self.level1_bytes.saturating_mul(ratio)
    }

    /// Merges `inputs` of `level` with what they meet in the next: all that lies between their first and last key, also
    /// where none of them has keys, because a merged run may reach over a gap.
    fn push_down(&self, runs: &[RunMeta], inputs: &[&RunMeta], level: u8) -> Choice {
        let first = inputs.iter().map(|input| input.key_min).min().unwrap_or(u64::MAX);
        let last = inputs.iter().map(|input| input.key_max).max().unwrap_or(0);
        let below = runs.iter().filter(|run| run.level == level + 1);
        let met = below.filter(|run| run.key_min <= last && first <= run.key_max);
        let runs: Vec<RunId> = inputs.iter().copied().chain(met).map(|run| run.id).collect();
        Choice::Merge { runs, level: level + 1, run_bytes_max: self.run_bytes_max.max(1) }
    }

    /// The run of a level that is cheapest to push down: it meets the fewest bytes for its own.
    fn cheapest(runs: &[RunMeta], level: u8) -> Option<&RunMeta> {
        let cost = |run: &RunMeta| {
            let below = runs.iter().filter(|other| other.level == level + 1 && other.overlaps(run));
            let met: u128 = below.map(|other| u128::from(other.bytes)).sum();
            (met * 1_000 / u128::from(run.bytes.max(1)), run.id)
        };
        runs.iter().filter(|run| run.level == level).min_by_key(|run| cost(run))
    }
}

impl Policy for Leveled {
    fn tag(&self) -> u32 {
        3
    }

    fn dead_before_ms(&self, now_ms: u64) -> u64 {
        dead_before_ms(self.keep_ms, now_ms)
    }

    fn choose(&self, runs: &[RunMeta], now_ms: u64) -> Choice {
        let expired = expire(runs, self.keep_ms, now_ms);
        if expired != Choice::Nothing {
            return expired;
        }
        let arrived: Vec<&RunMeta> = runs.iter().filter(|run| run.level == 0).collect();
        if arrived.len() >= self.level0_runs.max(1) {
            return self.push_down(runs, &arrived, 0);
        }
        for level in 1..LEVELS_MAX - 1 {
            let bytes = runs.iter().filter(|run| run.level == level).map(|run| run.bytes);
            let bytes = bytes.fold(0, u64::saturating_add);
            if bytes > self.level_bytes_max(level)
                && let Some(run) = Leveled::cheapest(runs, level)
            {
                return self.push_down(runs, &[run], level);
            }
        }
        Choice::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    fn at(id: u64, level: u8, keys: std::ops::RangeInclusive<u64>, bytes: u64) -> RunMeta {
        RunMeta { level, key_min: *keys.start(), key_max: *keys.end(), ..run(id, bytes) }
    }

    const POLICY: Leveled =
        Leveled { level0_runs: 2, level1_bytes: 100, ratio: 10, run_bytes_max: 50, keep_ms: None };

    #[test]
    fn level_0_goes_down_with_what_it_meets() {
        let runs = [at(1, 1, 0..=9, 10), at(2, 1, 10..=19, 10), at(3, 0, 12..=14, 5)];
        assert_eq!(POLICY.choose(&runs, 0), Choice::Nothing);
        let runs = [&runs[..], &[at(4, 0, 13..=30, 5)]].concat();
        let ids = vec![RunId(3), RunId(4), RunId(2)];
        assert_eq!(
            POLICY.choose(&runs, 0),
            Choice::Merge { runs: ids, level: 1, run_bytes_max: 50 }
        );
    }

    #[test]
    fn what_lies_in_a_gap_between_the_inputs_is_merged_too() {
        let runs = [at(1, 1, 40..=50, 10), at(2, 0, 0..=9, 5), at(3, 0, 90..=99, 5)];
        let ids = vec![RunId(2), RunId(3), RunId(1)];
        assert_eq!(
            POLICY.choose(&runs, 0),
            Choice::Merge { runs: ids, level: 1, run_bytes_max: 50 }
        );
    }

    #[test]
    fn a_level_that_is_too_large_pushes_its_cheapest_run_down() {
        let runs = [at(1, 1, 0..=9, 60), at(2, 1, 10..=19, 60), at(3, 2, 0..=9, 500)];
        let ids = vec![RunId(2)];
        assert_eq!(
            POLICY.choose(&runs, 0),
            Choice::Merge { runs: ids, level: 2, run_bytes_max: 50 }
        );
    }

    #[test]
    fn the_last_level_takes_everything() {
        let runs = [at(1, LEVELS_MAX - 1, 0..=9, u64::MAX)];
        assert_eq!(POLICY.choose(&runs, 0), Choice::Nothing);
    }
}
