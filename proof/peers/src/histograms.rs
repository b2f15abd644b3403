//! Recording a latency: `probe`'s histograms beside `hdrhistogram`, which hammer reports with, and beside
//! an atomic addition. The values are spread over three powers of ten, as latencies are.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Size;
use crate::rounds::{Case, Random, compare};

const RECORDS: usize = 500_000;
const ROUNDS: usize = 11;

/// Prints the tables.
pub fn run(size: Size) {
    let mut random = Random::new(5);
    let values: Vec<u64> =
        (0..4_096).map(|_| 200 << random.below(10) | random.next() >> 56).collect();
    let records = size.pick(RECORDS, 1_000);
    let mut plain = probe::Histogram::new();
    let (mut recorder, _reader) = probe::shared_histogram();
    let mut hdr =
        hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 2).expect("sane bounds");
    let atomics: Vec<AtomicU64> = (0..4_096).map(|_| AtomicU64::new(0)).collect();
    let mut cases: Vec<Case<'_>> = vec![
        (
            "hdrhistogram, 2 digits",
            each(&values, records, move |value| hdr.saturating_record(value)),
        ),
        ("probe::Histogram", each(&values, records, move |value| plain.record(value))),
        ("probe::Recorder", each(&values, records, move |value| recorder.record(value))),
        (
            "fetch_add, no bucket found",
            each(&values, records, move |value| {
                atomics[value as usize % 4_096].fetch_add(1, Ordering::Relaxed);
            }),
        ),
    ];
    compare("record one value", size.pick(ROUNDS, 1), &mut cases);
}

fn each<'a>(
    values: &'a [u64],
    records: usize,
    mut record: impl FnMut(u64) + 'a,
) -> Box<dyn FnMut() -> u64 + 'a> {
    Box::new(move || {
        for &value in values.iter().cycle().take(records) {
            record(black_box(value));
        }
        records as u64
    })
}
