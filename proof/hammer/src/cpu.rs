//! Times of the calling thread, from the kernel's own accounts.

/// What a thread did since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    /// How long it ran, in ns.
    pub cpu_ns: u64,
    /// How long it could have run and waited for a core, in ns.
    pub waited_ns: u64,
}

impl ThreadTimes {
    /// The calling thread's, so far; `None` where the kernel keeps no such account.
    ///
    /// The figures lag by up to one scheduler tick (4 ms): fine over seconds, useless over microseconds.
    #[must_use]
    pub(crate) fn now() -> Option<ThreadTimes> {
        ThreadTimes::read(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    fn read(text: &str) -> Option<ThreadTimes> {
        let mut figures = text.split_ascii_whitespace().map(|figure| figure.parse().ok());
        let times = ThreadTimes { cpu_ns: figures.next()??, waited_ns: figures.next()?? };
        let turns: u64 = figures.next()??;
        // A thread that asks has had a turn: without one this is a kernel without the account. Its times lag, and may be zero.
        (turns > 0).then_some(times)
    }

    /// What passed since `before`.
    #[must_use]
    pub(crate) fn since(self, before: ThreadTimes) -> ThreadTimes {
        ThreadTimes {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_account_is_told_from_one_with_it() {
        let ran = |text: &str| ThreadTimes::read(text).map(|times| times.cpu_ns);
        assert_eq!(
            [
                ran("12345 6 7
"),
                ran("0 0 0
"),
                ran("")
            ],
            [Some(12_345), None, None]
        );
    }

    #[test]
    fn work_moves_the_account() {
        let cpu_ns = || ThreadTimes::now().map(|times| times.cpu_ns);
        let Some(before) = cpu_ns() else { return };
        let mut sum = 0_u64;
        while cpu_ns() == Some(before) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu_ns() > Some(before));
    }

    #[test]
    fn the_accounts_are_read_in_their_order() {
        let times = ThreadTimes::read("10 7 3\n").unwrap();
        assert_eq!(times, ThreadTimes { cpu_ns: 10, waited_ns: 7 });
        assert_eq!(
            times.since(ThreadTimes { cpu_ns: 4, waited_ns: 9 }),
            ThreadTimes { cpu_ns: 6, waited_ns: 0 }
        );
        assert_eq!(ThreadTimes::read("10"), None);
    }
}
