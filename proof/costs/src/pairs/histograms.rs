//! Recording a latency: `probe`'s histograms beside `hdrhistogram`, which hammer reports with, a histogram behind a mutex,
//! and an atomic addition. The values are spread over three powers of ten, as latencies are.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use probe::compare::Random;

use super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

const RECORDS: usize = 500_000;
const ROUNDS: usize = 11;
/// Counters of the atomic way: a power of two.
const COUNTERS: usize = 4_096;

/// Makes `histogram/record`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let records = size.pick(RECORDS, 1_000);
    let values = values();
    let outcomes = race(size.pick(ROUNDS, 1), ways(&values, records))?;
    let meaning = Meaning {
        rival: Some("hdrhistogram, 2 digits"),
        faster: "the histogram of our own stays, and another thread may read it without a lock",
        slower: "the histogram of our own is kept because another thread may read it without a lock",
        level: "the histogram of our own is kept because another thread may read it without a lock",
    };
    let what = "Record one value, one thread, nobody reads. The atomic counters find no bucket: the floor of what threads could \
                share.";
    Ok(vec![Pair::new("histogram/record", what, "record", outcomes, &meaning)])
}

fn values() -> Vec<u64> {
    let mut random = Random::new(5);
    (0..4_096).map(|_| 200 << random.below(10) | random.draw() >> 56).collect()
}

fn ways(values: &[u64], records: usize) -> Vec<Way<'_>> {
    let (mut recorder, reader) = probe::shared_histogram();
    let mut plain = probe::Histogram::new();
    let mut hdr =
        hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 2).expect("sane bounds");
    let locked = Mutex::new(probe::Histogram::new());
    let lock = |locked: &Mutex<probe::Histogram>, value| {
        locked.lock().unwrap_or_else(PoisonError::into_inner).record(value);
    };
    let atomics: Vec<AtomicU64> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    vec![
        (
            "probe::Recorder, shared",
            Box::new(move || {
                record(values, records, |value| recorder.record(value), || reader.read().count())
            }),
        ),
        (
            "probe::Histogram",
            Box::new(move || {
                recorded(
                    values,
                    records,
                    &mut plain,
                    |all, value| all.record(value),
                    |all| all.count(),
                )
            }),
        ),
        (
            "hdrhistogram, 2 digits",
            Box::new(move || {
                recorded(
                    values,
                    records,
                    &mut hdr,
                    |all, value| all.saturating_record(value),
                    |all| all.len(),
                )
            }),
        ),
        (
            "Mutex<probe::Histogram>",
            Box::new(move || {
                let mut locked = &locked;
                recorded(
                    values,
                    records,
                    &mut locked,
                    |all, value| lock(all, value),
                    |all| all.lock().unwrap_or_else(PoisonError::into_inner).count(),
                )
            }),
        ),
        (
            "fetch_add, no bucket found",
            Box::new(move || {
                let count = |value: u64| {
                    let at = usize::try_from(value).unwrap_or(0) % COUNTERS;
                    atomics[at].fetch_add(1, Ordering::Relaxed);
                };
                let sum = || atomics.iter().map(|one| one.load(Ordering::Relaxed)).sum();
                record(values, records, count, sum)
            }),
        ),
    ]
}

/// Records values in turn; the result is how many are there then.
fn record(
    values: &[u64],
    records: usize,
    mut record: impl FnMut(u64),
    count: impl FnOnce() -> u64,
) -> Done {
    for &value in values.iter().cycle().take(records) {
        record(black_box(value));
    }
    Done { operations: records as u64, result: count() }
}

/// As [`record`], for histograms that say themselves how many they hold.
fn recorded<H>(
    values: &[u64],
    records: usize,
    histogram: &mut H,
    record: impl Fn(&mut H, u64),
    count: impl FnOnce(&H) -> u64,
) -> Done {
    for &value in values.iter().cycle().take(records) {
        record(histogram, black_box(value));
    }
    Done { operations: records as u64, result: count(histogram) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal counts say little: the quantiles must agree, as far as either resolves.
    #[test]
    fn both_histograms_tell_the_same_quantiles() {
        let mut ours = probe::Histogram::new();
        let mut hdr = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 2).unwrap();
        for value in values() {
            ours.record(value);
            hdr.saturating_record(value);
        }
        for q in [0.1, 0.5, 0.9, 0.99] {
            let (own, other) = (ours.quantile(q) as f64, hdr.value_at_quantile(q) as f64);
            assert!((own / other - 1.0).abs() < 0.03, "{q}: {own} and {other}");
        }
    }
}
