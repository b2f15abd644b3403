//! The open loop's timetable: when frame number k is due, whatever became of the frames before it.

/// A fixed rate of frames. All instants are nanoseconds since the start of the load.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// Decisions per second, times `threads`: the denominator that keeps the arithmetic exact.
    per_s: u64,
    batch: u64,
    threads: u64,
    thread: u64,
    sent: u64,
}

impl Schedule {
    /// The share of thread `thread` of `threads` in a total of `per_s` decisions per second, `batch` a frame.
    /// Threads take turns: thread t sends the frames t, t + threads, t + 2 threads...
    #[must_use]
    pub(crate) fn new(per_s: u64, batch: u64, thread: u64, threads: u64) -> Self {
        Self { per_s: per_s.max(1), batch: batch.max(1), threads: threads.max(1), thread, sent: 0 }
    }

    /// When the next frame is due. Computed from its number, so rounding never adds up.
    #[must_use]
    pub(crate) fn due_ns(&self) -> u64 {
        let number = u128::from(self.sent) * u128::from(self.threads) + u128::from(self.thread);
        let ns = number * u128::from(self.batch) * 1_000_000_000 / u128::from(self.per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Takes the next frame if it is due: its intended instant, from which its latency counts.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns();
        if due_ns > now_ns {
            return None;
        }
        self.sent = self.sent.saturating_add(1);
        Some(due_ns)
    }

    /// Frames that should have left by now but have not.
    #[must_use]
    pub(crate) fn overdue(&self, now_ns: u64) -> u64 {
        let per_frame_of_all = u128::from(self.batch) * 1_000_000_000;
        let of_all = u128::from(now_ns) * u128::from(self.per_s) / per_frame_of_all;
        let thread = u128::from(self.thread);
        if of_all < thread {
            return 0;
        }
        let due = (of_all - thread) / u128::from(self.threads) + 1;
        u64::try_from(due.saturating_sub(u128::from(self.sent))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the schedule with a clock that advances as told, and returns (intended, actual) of all frames.
    fn drive(schedule: &mut Schedule, clock: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        for now in clock {
            while let Some(due) = schedule.take(now) {
                sent.push((due, now));
            }
        }
        sent
    }

    #[test]
    fn frames_are_due_at_the_rate() {
        let mut schedule = Schedule::new(1_000_000, 10, 0, 1);
        let sent = drive(&mut schedule, (0..=1_000_000).step_by(1_000));
        assert_eq!(sent.len(), 101, "a frame of 10 every 10 us, both ends counted");
        assert!(sent.iter().enumerate().all(|(i, &(due, _))| due == i as u64 * 10_000));
    }

    #[test]
    fn a_stall_delays_frames_but_never_their_intended_instant() {
        let mut schedule = Schedule::new(1_000_000, 10, 0, 1);
        let clock = (0..100_000).step_by(1_000).chain([5_000_000]);
        let sent = drive(&mut schedule, clock);
        assert_eq!(sent.len(), 501, "what was missed during the stall is sent after it");
        let late: Vec<_> = sent.iter().filter(|(_, now)| *now == 5_000_000).collect();
        assert_eq!(late.first().map(|(due, _)| *due), Some(100_000));
        assert_eq!(late.last().map(|(due, _)| *due), Some(5_000_000));
    }

    #[test]
    fn threads_share_the_rate_without_a_gap() {
        let mut all = Vec::new();
        for thread in 0..3 {
            let mut schedule = Schedule::new(300_000, 1, thread, 3);
            all.extend(drive(&mut schedule, [1_000_000].into_iter()).iter().map(|s| s.0));
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..=300).map(|k| k * 1_000_000_000 / 300_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn an_odd_rate_does_not_drift() {
        let mut schedule = Schedule::new(333_333, 7, 0, 1);
        let day_ns = 86_400_000_000_000_u64;
        schedule.sent = 86_400 * 333_333 / 7;
        assert!(schedule.due_ns().abs_diff(day_ns) < 30_000, "within a frame after a day");
    }

    #[test]
    fn overdue_counts_what_take_would_give() {
        for (thread, threads) in [(0, 1), (1, 3), (2, 3)] {
            let mut schedule = Schedule::new(1_000_000, 10, thread, threads);
            let overdue = schedule.overdue(1_234_567);
            let taken = drive(&mut schedule, [1_234_567].into_iter()).len() as u64;
            assert!(overdue.abs_diff(taken) <= 1, "{overdue} {taken}");
            assert_eq!(schedule.overdue(1_234_567), 0);
        }
    }
}
