//! One set of files a window of time; when the window is over they are unlinked whole.

use super::{Choice, Policy, RunId, RunMeta, SizeTiered, Window};

/// The time of a record decides its window when it is written. A window takes records for a bounded time after
/// its end, is then folded into one run, and is never rewritten after that.
///
/// Nothing is ever read to find out what is dead: a window's files go as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// Length of a window, milliseconds, at least 1. Windows begin at multiples of it.
    pub window_ms: u64,
    /// How long after its end a window still takes records. Later ones are refused and counted.
    pub lateness_ms: u64,
    /// How long after its end a window's records are needed; at least `lateness_ms` is used.
    pub keep_ms: u64,
    /// How runs of a window that is still open are merged; its `keep_ms` is not used.
    pub within: SizeTiered,
}

impl TimeWindow {
    fn of(&self, run: &RunMeta) -> Window {
        // By its newest record: if the length of windows was changed since, nothing live goes.
        self.window(run.time_max_ms)
    }

    /// The merge that the runs of one window need.
    fn within(&self, runs: &[RunMeta], now_ms: u64) -> Choice {
        let closed = runs.iter().all(|run| self.of(run).closes_ms <= now_ms);
        match runs {
            [_] => Choice::Nothing,
            _ if closed => Choice::Merge {
                runs: runs.iter().map(|run| run.id).collect(),
                level: 1,
                run_bytes_max: u64::MAX,
            },
            _ => SizeTiered { keep_ms: None, ..self.within }.choose(runs, now_ms),
        }
    }
}

impl Policy for TimeWindow {
    fn tag(&self) -> u32 {
        1
    }

    fn window(&self, time_ms: u64) -> Window {
        let window_ms = self.window_ms.max(1);
        let start_ms = time_ms - time_ms % window_ms;
        let end_ms = start_ms.saturating_add(window_ms);
        Window {
            start_ms,
            closes_ms: end_ms.saturating_add(self.lateness_ms),
            dead_ms: end_ms.saturating_add(self.keep_ms.max(self.lateness_ms)),
        }
    }

    fn choose(&self, runs: &[RunMeta], now_ms: u64) -> Choice {
        let dead = runs.iter().filter(|run| self.of(run).dead_ms <= now_ms);
        let dead: Vec<RunId> = dead.map(|run| run.id).collect();
        if !dead.is_empty() {
            return Choice::Drop(dead);
        }
        let mut by_age = runs.to_vec();
        by_age.sort_unstable_by_key(RunMeta::age);
        by_age
            .chunk_by(|one, next| one.window_ms == next.window_ms)
            .map(|window| self.within(window, now_ms))
            .find(|choice| *choice != Choice::Nothing)
            .unwrap_or(Choice::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    const POLICY: TimeWindow = TimeWindow {
        window_ms: 100,
        lateness_ms: 30,
        keep_ms: 50,
        within: SizeTiered { fan_in: 4, keep_ms: None },
    };

    fn of_window(id: u64, window_ms: u64) -> RunMeta {
        RunMeta { window_ms, time_min_ms: window_ms, time_max_ms: window_ms + 99, ..run(id, 10) }
    }

    #[test]
    fn a_window_ends_closes_and_dies() {
        let window = Window { start_ms: 300, closes_ms: 430, dead_ms: 450 };
        assert_eq!(POLICY.window(300), window);
        assert_eq!(POLICY.window(399), window);
        assert_eq!(POLICY.window(400).start_ms, 400);
        assert_eq!(POLICY.window(u64::MAX).dead_ms, u64::MAX);
    }

    #[test]
    fn an_open_window_merges_runs_of_like_size_only() {
        let runs: Vec<RunMeta> = (0..3).map(|id| of_window(id, 300)).collect();
        assert_eq!(POLICY.choose(&runs, 429), Choice::Nothing);
    }

    #[test]
    fn a_closed_window_is_folded_once() {
        let runs: Vec<RunMeta> = (0..3).map(|id| of_window(id, 300)).collect();
        let ids = runs.iter().map(|run| run.id).collect();
        let fold = Choice::Merge { runs: ids, level: 1, run_bytes_max: u64::MAX };
        assert_eq!(POLICY.choose(&runs, 430), fold);
        assert_eq!(POLICY.choose(&runs[..1], 430), Choice::Nothing);
    }

    #[test]
    fn a_dead_window_goes_whole_and_its_neighbours_stay() {
        let runs = [of_window(1, 300), of_window(2, 400), of_window(3, 300)];
        assert_eq!(POLICY.choose(&runs, 450), Choice::Drop(vec![RunId(1), RunId(3)]));
    }
}
