//! Merge runs of like size: few rewrites, for what is written far more often than read.

use super::{Choice, Policy, RunMeta, dead_before_ms, expire};

/// Merges a stretch of neighbours in age as soon as there are [`SizeTiered::fan_in`] of them, where each older
/// one is at most a quarter larger than the newer ones of the stretch together.
///
/// So of every `fan_in` neighbours that are left the oldest is more than 5/4 of the newest, and a record is in a
/// run of at least 9/5 the size after each merge but those in which its own run was the newest, of which there are never two
/// in a row. With n bytes in runs sealed at s bytes or more there are at most
/// `(fan_in - 1) * (log(n / s) / log(5/4) + 1)` runs, and a record is rewritten at most `2 * log(n / s) / log(9/5) + 2` times.
/// Where all are sealed at about s bytes it is `log(n / s) / log(fan_in)` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeTiered {
    /// Runs that make a merge worth it, at least 2.
    pub fan_in: usize,
    /// How long a record is needed, milliseconds; `None` for ever. It is gone from disk after twice this time.
    pub keep_ms: Option<u64>,
}

impl Default for SizeTiered {
    fn default() -> SizeTiered {
        SizeTiered { fan_in: 4, keep_ms: None }
    }
}

impl SizeTiered {
    /// The newest stretch worth merging of runs that are in order of age, oldest first.
    fn stretch<'a>(&self, runs: &'a [RunMeta]) -> Option<&'a [RunMeta]> {
        let fan_in = self.fan_in.max(2);
        let stretches =
            (fan_in..=runs.len()).rev().map(|end| &runs[stretch_start(&runs[..end])..end]);
        stretches.into_iter().find(|stretch| stretch.len() >= fan_in)
    }
}

/// How far back the stretch goes that ends with the newest of `runs`.
fn stretch_start(runs: &[RunMeta]) -> usize {
    let mut start = runs.len() - 1;
    let mut bytes = runs[start].bytes;
    // Without the quarter, runs that were sealed each a little smaller than the one before would never be merged.
    while start > 0 && runs[start - 1].bytes <= bytes.saturating_add(bytes / 4) {
        start -= 1;
        bytes = bytes.saturating_add(runs[start].bytes);
    }
    start
}

impl Policy for SizeTiered {
    fn tag(&self) -> u32 {
        2
    }

    fn dead_before_ms(&self, now_ms: u64) -> u64 {
        dead_before_ms(self.keep_ms, now_ms)
    }

    fn choose(&self, runs: &[RunMeta], now_ms: u64) -> Choice {
        let expired = expire(runs, self.keep_ms, now_ms);
        if expired != Choice::Nothing {
            return expired;
        }
        let mut by_age = runs.to_vec();
        by_age.sort_unstable_by_key(RunMeta::age);
        let Some(stretch) = self.stretch(&by_age) else { return Choice::Nothing };
        let level = stretch.iter().map(|run| run.level).max().unwrap_or(0);
        let runs = stretch.iter().map(|run| run.id).collect();
        Choice::Merge { runs, level, run_bytes_max: u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::super::{Choice, RunId};
    use super::*;

    fn merged(sizes: &[u64]) -> Vec<u64> {
        let runs: Vec<RunMeta> = (0..).zip(sizes).map(|(id, bytes)| run(id, *bytes)).collect();
        match SizeTiered::default().choose(&runs, 0) {
            Choice::Nothing => vec![],
            Choice::Merge { runs, .. } => runs.into_iter().map(|RunId(id)| id).collect(),
            Choice::Drop(_) => panic!("nothing is dead"),
        }
    }

    #[test]
    fn four_of_like_size_are_merged() {
        assert_eq!(merged(&[10, 10, 10]), []);
        assert_eq!(merged(&[10, 10, 10, 10]), [0, 1, 2, 3]);
        assert_eq!(merged(&[1_000, 10, 10, 10, 10]), [1, 2, 3, 4]);
    }

    #[test]
    fn the_stretch_goes_on_while_the_older_ones_are_not_much_larger() {
        assert_eq!(merged(&[101, 40, 10, 10, 10, 10]), [1, 2, 3, 4, 5]);
        assert_eq!(merged(&[100, 40, 10, 10, 10, 10]), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn runs_that_were_sealed_ever_smaller_are_merged() {
        assert_eq!(merged(&[60, 59, 57, 54]), [0, 1, 2, 3]);
    }

    #[test]
    fn an_older_stretch_is_found_behind_a_small_newest_run() {
        assert_eq!(merged(&[10, 10, 10, 10, 1]), [0, 1, 2, 3]);
    }
}
