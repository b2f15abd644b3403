//! What a worker knows of its own lateness: whom it has no time for, and which bids it was too late with.

/// A second, for what counts as of late, in ms.
const SECOND_MS: u64 = 1_000;

/// One worker's.
#[derive(Debug, Default)]
pub(super) struct Overload {
    /// When what is read now came, at the earliest, ms since the Unix epoch.
    pub(super) arrived_ms: u64,
    /// The second in which `slowest` is counted.
    second: u64,
    /// How long the slowest auction took, ms: of that second, and of the one before.
    slowest_ms: [u64; 2],
    /// Until when the answers with bids are in time that were written in this wake-up, ms since the Unix epoch.
    answers: Vec<u64>,
}

impl Overload {
    /// How long an auction took at most of late, in whole ms: in the second of `now_ms`, and in the one before.
    #[inline]
    pub(super) fn slowest_ms(&mut self, now_ms: u64) -> u64 {
        let second = now_ms / SECOND_MS;
        if second != self.second {
            let is_next = second == self.second + 1;
            self.slowest_ms = [0, if is_next { self.slowest_ms[0] } else { 0 }];
            self.second = second;
        }
        self.slowest_ms[0].max(self.slowest_ms[1])
    }

    /// An auction took so long; its answer has bids, which are in time until `tmax_ms`.
    #[inline]
    pub(super) fn answered(&mut self, tmax_ms: Option<u64>, took_ms: u64) {
        self.slowest_ms[0] = self.slowest_ms[0].max(took_ms);
        self.answers.extend(tmax_ms);
    }

    /// Whether answers with bids are to leave.
    #[inline]
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The answers of this wake-up leave now. Returns how many of them are too late.
    pub(super) fn leave(&mut self, now_ms: u64) -> u32 {
        let late = self.answers.iter().filter(|tmax_ms| now_ms > **tmax_ms).count();
        self.answers.clear();
        u32::try_from(late).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_auction_counts_for_a_second() {
        let mut overload = Overload::default();
        for (now_ms, took_ms, slowest_ms) in [
            (9_000, 3, 0),
            (9_500, 1, 3),
            (10_100, 2, 3),
            (10_999, 1, 3),
            (11_000, 1, 2),
            // Nothing was asked for two seconds.
            (13_500, 5, 0),
            (13_900, 1, 5),
        ] {
            assert_eq!(overload.slowest_ms(now_ms), slowest_ms, "at {now_ms}");
            overload.answered(None, took_ms);
        }
    }

    #[test]
    fn an_answer_is_late_after_its_tmax() {
        let mut overload = Overload::default();
        for tmax_ms in [100, 110, 120] {
            overload.answered(Some(tmax_ms), 0);
        }
        assert!(overload.has_answers());
        assert_eq!(
            (overload.leave(110), overload.leave(500), overload.has_answers()),
            (1, 0, false)
        );
    }
}
