//! Histograms beside sorted lists; what is counted, and how right the times are.

mod laps;
mod measuring;
mod sheet;
mod statistics;

use probe::{Histogram, shared_histogram};
use proptest::prelude::*;

const CASES: u32 = if cfg!(miri) { 2 } else { 128 };
const QUANTILES: [f64; 8] = [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0];

/// Numbers of every size, not only large ones.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        (any::<u64>(), 0u32..64).prop_map(|(bits, shift)| bits >> shift),
        0u64..200,
        Just(u64::MAX),
    ]
}

/// The definition: the smallest recorded value that a share of q does not exceed.
fn exact(sorted: &[u64], q: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.max(1) - 1]
}

fn assert_close(histogram: &Histogram, values: &[u64]) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    assert_eq!(histogram.count(), sorted.len() as u64);
    assert_eq!(histogram.max(), sorted.last().copied().unwrap_or(0));
    for q in QUANTILES.into_iter().filter(|_| !sorted.is_empty()) {
        let (found, exact) = (histogram.quantile(q), exact(&sorted, q));
        assert!(found >= exact, "q {q}: {found} is below {exact}");
        assert!(found - exact <= exact / 64, "q {q}: {found} is too far above {exact}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn quantiles_are_within_the_stated_error(values in proptest::collection::vec(value(), 0..300)) {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        assert_close(&histogram, &values);
    }

    #[test]
    fn merging_is_recording_everything_in_one(
        left in proptest::collection::vec(value(), 0..100),
        right in proptest::collection::vec(value(), 0..100),
    ) {
        let (mut one, mut other) = (Histogram::new(), Histogram::new());
        left.iter().for_each(|&value| one.record(value));
        right.iter().for_each(|&value| other.record(value));
        one.merge(&other);
        assert_close(&one, &[left, right].concat());
    }

    #[test]
    fn a_shared_one_reads_like_a_plain_one(
        values in proptest::collection::vec((value(), 0u64..4), 0..100),
    ) {
        let (mut recorder, reader) = shared_histogram();
        let mut plain = Histogram::new();
        for (value, times) in values {
            recorder.record_many(value, times);
            plain.record_many(value, times);
        }
        prop_assert_eq!(&reader.read(), &plain);
        prop_assert_eq!(&recorder.reader().read(), &plain);
    }
}

/// While one thread records, another sees counts that only grow, and in the end all of them.
#[test]
fn a_reader_beside_the_writer_misses_nothing_in_the_end() {
    let total: u64 = if cfg!(miri) { 300 } else { 300_000 };
    let (mut recorder, reader) = shared_histogram();
    let writer = std::thread::spawn(move || (0..total).for_each(|value| recorder.record(value)));
    let mut last = 0;
    while !writer.is_finished() {
        let count = reader.read().count();
        assert!(count >= last && count <= total);
        last = count;
    }
    writer.join().expect("the writer ends well");
    let seen = reader.read();
    assert_eq!((seen.count(), seen.max()), (total, total - 1));
}
