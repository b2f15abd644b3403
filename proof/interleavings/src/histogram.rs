//! A histogram of four buckets in the place of the probes' thousands: a value below 4 is its own bucket.

pub(crate) const BUCKETS: usize = 4;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    pub(crate) counts: Vec<u64>,
    pub(crate) max: u64,
}

pub(crate) fn bucket_of(value: u64) -> usize {
    usize::try_from(value).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

impl Histogram {
    /// As the product's: `max` is asked for last.
    pub(crate) fn from_counts(
        counts: impl Iterator<Item = u64>,
        max: impl FnOnce() -> u64,
    ) -> Histogram {
        let counts = counts.collect();
        Histogram { counts, max: max() }
    }
}
