//! Log-linear buckets: every power of two is cut into 64 equal parts.
//!
//! Own, although `hdrhistogram` has the same buckets: there, a histogram that another thread may look at is a pair of thread-local
//! parts and a merge, or a lock. Here the buckets are plain numbers, so the same ones stand in an array of atomics that one thread
//! writes without a locked instruction ([`shared_histogram`](crate::shared_histogram)). The load tool, which shares nothing,
//! records with `hdrhistogram`; `costs pairs histogram` compares the two.

/// Bits of a value that are kept below its leading one.
const PART_BITS: u32 = 6;
/// Parts of a power of two; also the number of values, from 0 on, that have a bucket of their own.
const PARTS: usize = 1 << PART_BITS;
/// Buckets for all of u64.
pub(crate) const BUCKETS: usize = (64 - PART_BITS as usize + 1) * PARTS;

/// Counts of values (ns, bytes, whatever the caller's unit), for one thread. Takes every u64; what
/// it reports is at most 1/64 (1.6 %) above what was recorded, and never below. 30 kB, allocated at
/// construction only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, max: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts `times` values at once, as for a batch of which only the mean is known.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        // Wrapping is beyond reach (centuries at a record a nanosecond), and spares a branch.
        let count = &mut self.counts[bucket_of(value)];
        *count = count.wrapping_add(times);
        self.count = self.count.wrapping_add(times);
        self.max = self.max.max(if times == 0 { 0 } else { value });
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.wrapping_add(*more);
        }
        self.count = self.count.wrapping_add(other.count);
        self.max = self.max.max(other.max);
    }

    /// The counts between two readings of one histogram that only grows: this reading less an earlier one. The
    /// largest value is exact where it is a new one, else it is known as well as any other, up to the error of the type.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let new =
            self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then));
        let mut since = Histogram::from_counts(new, || self.max);
        if self.max == earlier.max {
            let last = since.counts.iter().rposition(|count| *count > 0);
            since.max = last.map_or(0, |bucket| last_of(bucket).min(self.max));
        }
        since
    }

    /// The smallest recorded value that at least the share `q` (0 to 1, beyond is taken as 0 or 1) of
    /// all values does not exceed, up to the error of the type; 0 when nothing was recorded.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = rank(q, self.count);
        let mut below = 0u64;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below = below.saturating_add(count);
            if below >= rank && count > 0 {
                return last_of(bucket).min(self.max);
            }
        }
        0
    }

    /// Number of values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value recorded, exact; 0 when nothing was.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Number of values at most this large, as far as buckets tell: a value in the bucket of `value` counts.
    #[must_use]
    pub fn count_to(&self, value: u64) -> u64 {
        self.counts[..=bucket_of(value)].iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// The sum of all values, each counted as the last of its bucket; at the end of the range it stays there.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let buckets = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let sums =
            buckets.map(|(bucket, count)| last_of(bucket).min(self.max).saturating_mul(*count));
        sums.fold(0, u64::saturating_add)
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.max) = (0, 0);
    }

    /// From counts that were read elsewhere; those beyond the last bucket are ignored.
    /// `max` is asked for last, so that it is not older than the counts.
    pub(crate) fn from_counts(
        counts: impl Iterator<Item = u64>,
        max: impl FnOnce() -> u64,
    ) -> Histogram {
        let mut histogram = Histogram::new();
        for (own, count) in histogram.counts.iter_mut().zip(counts) {
            *own = count;
            histogram.count = histogram.count.wrapping_add(count);
        }
        histogram.max = max();
        histogram
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// The bucket of a value. Below [`PARTS`] the value itself; above, its power of two and the
/// [`PART_BITS`] bits that follow the leading one.
#[inline(always)]
pub(crate) fn bucket_of(value: u64) -> usize {
    let above = (value >> PART_BITS) | 1;
    let power = 63 - above.leading_zeros();
    let top = value >> power;
    #[allow(clippy::cast_possible_truncation, reason = "top is below 2 * PARTS")]
    let part = top as usize;
    power as usize * PARTS + part
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let (power, part) = match bucket / PARTS {
        0 => (0, bucket),
        group => (group - 1, bucket % PARTS + PARTS),
    };
    // The group's first value and its width; the last bucket of all ends at u64::MAX.
    let first = (part as u64) << power;
    first + ((1u64 << power) - 1)
}

/// The number of values that must lie at or below the quantile: at least 1.
fn rank(q: f64, count: u64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rank within a count; 2^53 values are beyond reach, and `as` keeps to the range"
    )]
    let rank = (q.clamp(0.0, 1.0) * count as f64).ceil() as u64;
    rank.clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_all_numbers_in_order() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(last_of(BUCKETS - 1), u64::MAX);
        let mut first = 0u64;
        for bucket in 0..BUCKETS {
            let last = last_of(bucket);
            assert_eq!((bucket_of(first), bucket_of(last)), (bucket, bucket));
            assert!(last - first <= first / PARTS as u64, "bucket {bucket} is too wide");
            first = last.wrapping_add(1);
        }
        assert_eq!(first, 0, "the last bucket ends at the last number");
    }

    #[test]
    fn an_empty_one_says_zero() {
        let histogram = Histogram::new();
        assert_eq!((histogram.count(), histogram.max(), histogram.quantile(0.99)), (0, 0, 0));
    }

    #[test]
    fn recording_none_changes_nothing() {
        let mut histogram = Histogram::new();
        histogram.record_many(77, 0);
        assert_eq!(histogram, Histogram::new());
    }

    #[test]
    fn what_was_counted_since_is_the_difference() {
        let mut histogram = Histogram::new();
        histogram.record_many(1_000, 3);
        histogram.record(50_000);
        let earlier = histogram.clone();
        assert_eq!(histogram.since(&earlier), Histogram::new());
        histogram.record_many(70, 2);
        let since = histogram.since(&earlier);
        assert_eq!((since.count(), since.max(), since.quantile(0.5)), (2, 70, 70));
        histogram.record(u64::MAX);
        assert_eq!(histogram.since(&earlier).max(), u64::MAX);
        assert_eq!(histogram.since(&Histogram::new()), histogram);
    }

    #[test]
    fn counts_up_to_a_value_are_those_of_its_bucket_and_below() {
        let mut histogram = Histogram::new();
        for value in [0, 5, 5, 1_000, u64::MAX] {
            histogram.record(value);
        }
        let counts = [0, 4, 5, 900, 1_000, u64::MAX].map(|value| histogram.count_to(value));
        assert_eq!(counts, [1, 1, 3, 3, 4, 5]);
        assert_eq!(histogram.sum(), u64::MAX);
        histogram.clear();
        histogram.record_many(63, 4);
        assert_eq!(histogram.sum(), 252);
    }

    #[test]
    fn clearing_leaves_a_new_one() {
        let mut histogram = Histogram::new();
        histogram.record_many(1_000, 9);
        histogram.clear();
        assert_eq!(histogram, Histogram::new());
    }
}
