//! How profiles are kept.

use crate::error::OpenError;

/// How profiles are kept. `Default` suits a million users.
#[derive(Clone, Debug)]
pub struct Options {
    /// 16 random bytes of this process: nobody can choose user ids that slow the table down.
    pub secret: u128,
    /// Bytes of memory for users (index, slots, blocks); at least 1 MiB. Default 1 GiB. Growing the
    /// index of a stripe, 1/256 of the table, may pass it by the size of that index.
    pub memory_bytes_max: usize,
    /// Users for whom memory is taken at the start, so that the table need not grow while it works.
    /// Default 0: it grows, a 256th of it at a time.
    pub users_expected: usize,
    /// Users in the store for whom the filter is made, 1.5 bytes each. Default 10 million. With more,
    /// more new users are first taken for cold ones.
    pub users_stored_expected: usize,
    /// Counts that may wait to be written, 48 bytes each; more are refused as busy. Default 65,536.
    pub queue_max: usize,
    /// Users that may wait to be loaded. Default 16,384; one that found no place asks again when read again.
    pub loads_max: usize,
    /// How long a counted hold is remembered, so that a repeat counts nothing. Default two hours; it
    /// must be longer than a billing notice can be late. A second to 366 days.
    pub holds_kept_ms: u64,
    /// Holds that are remembered, about 20 bytes each. Default 4 million. When more are counted within
    /// `holds_kept_ms`, the oldest are forgotten early; `Figures::holds_forgotten` counts how often.
    pub holds_kept_max: usize,
    /// Counts in the log that are not folded into the store yet; from here on folding comes before
    /// writing. It bounds what a start must fold. Default 262,144: about two seconds.
    pub unfolded_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            secret: 0,
            memory_bytes_max: 1 << 30,
            users_expected: 0,
            users_stored_expected: 10_000_000,
            queue_max: 65_536,
            loads_max: 16_384,
            holds_kept_ms: 7_200_000,
            holds_kept_max: 4_000_000,
            unfolded_max: 262_144,
        }
    }
}

impl Options {
    /// Every option is in its range.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let (memory, queue) = (self.memory_bytes_max as u64, self.queue_max as u64);
        for (option, found, allowed, expected) in [
            ("memory_bytes_max", memory, memory >= 1 << 20, "1,048,576 or more"),
            ("queue_max", queue, (8..=1 << 24).contains(&queue), "8 to 16,777,216"),
            ("loads_max", self.loads_max as u64, self.loads_max > 0, "1 or more"),
            ("unfolded_max", self.unfolded_max as u64, self.unfolded_max > 0, "1 or more"),
            (
                "holds_kept_ms",
                self.holds_kept_ms,
                (1_000..=366 * 86_400_000).contains(&self.holds_kept_ms),
                "a second to 366 days",
            ),
        ] {
            if !allowed {
                return Err(OpenError::Option { option, found, expected });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        assert!(Options::default().check().is_ok());
        for (wrong, name) in [
            (Options { memory_bytes_max: 1, ..Options::default() }, "memory_bytes_max"),
            (Options { queue_max: 0, ..Options::default() }, "queue_max"),
            (Options { loads_max: 0, ..Options::default() }, "loads_max"),
            (Options { unfolded_max: 0, ..Options::default() }, "unfolded_max"),
            (Options { holds_kept_ms: 1, ..Options::default() }, "holds_kept_ms"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
