//! The same counter workload under each policy: what is written, how fast, and what a point read costs.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use gate_store::{
    Leveled, Options, Policy, Progress, Record, SizeTiered, Store, StoreError, TimeWindow,
};
use tempfile::TempDir;

use probe::compare::{Case, Random, compare};

use crate::Size;

/// Rounds of the reads.
const ROUNDS: usize = 7;
/// Records of one append.
const BATCH: u64 = 1_000;
/// Segments that the workload fills.
const SEGMENTS: u64 = 40;
/// Time from the first increment to the last, four windows.
const SPAN_MS: u64 = 4 * WINDOW_MS;
const WINDOW_MS: u64 = 3_600_000;

/// How much work goes into each store, and is read from it.
#[derive(Clone, Copy)]
struct Load {
    /// Counter increments.
    increments: u64,
    /// Keys they are spread over.
    keys: usize,
    /// Point reads in one round.
    reads: u64,
}

impl Load {
    fn of(size: Size) -> Load {
        let full = Load { increments: 1_000_000, keys: 200_000, reads: 20_000 };
        size.pick(full, Load { increments: 20_000, keys: 4_000, reads: 1_000 })
    }
}

/// A counter went up: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Whose.
    pub key: u64,
    /// When, milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// By how much.
    pub count: u64,
}

impl Record for Count {
    const BYTES: usize = 24;
    const LAYOUT: u32 = 1;

    fn key(&self) -> u64 {
        self.key
    }

    fn time_ms(&self) -> u64 {
        self.time_ms
    }

    fn merge(&self, newer: &Count) -> Count {
        let time_ms = self.time_ms.max(newer.time_ms);
        Count { key: self.key, time_ms, count: self.count.saturating_add(newer.count) }
    }

    fn to_bytes(&self, out: &mut [u8]) {
        let numbers = [self.key, self.time_ms, self.count];
        out.chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(to, number)| to.copy_from_slice(&number.to_le_bytes()));
    }

    fn from_bytes(bytes: &[u8]) -> Count {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
            u64::from_le_bytes(number)
        };
        Count { key: number(0), time_ms: number(1), count: number(2) }
    }
}

/// A store under one policy, with the workload in it.
struct Filled<P> {
    name: &'static str,
    store: Store<Count, P>,
    append_ns: f64,
    maintain_ns: f64,
    /// Times a byte is written if nothing folds, appending and sealing included.
    theory: f64,
    _folder: TempDir,
}

/// What is written and what is read under the three policies.
///
/// # Errors
/// The stores could not be written or read.
pub fn table(size: Size) -> Result<String, StoreError> {
    let (rounds, size) = (size.pick(ROUNDS, 1), Load::of(size));
    let segment_bytes = size.increments * 24 / SEGMENTS;
    let seals = SEGMENTS as f64;
    let level1 = segment_bytes * 8;
    let leveled =
        Leveled { level1_bytes: level1, run_bytes_max: segment_bytes, ..Leveled::default() };
    let within = SizeTiered::default();
    let window =
        TimeWindow { window_ms: WINDOW_MS, lateness_ms: WINDOW_MS, keep_ms: SPAN_MS * 4, within };
    let tiers = seals.log(4.0).ceil();
    let tiered = fill("size-tiered", size, segment_bytes, within, 2.0 + tiers)?;
    // Into level 1 with 4 segments beside up to 8 there; from there about ratio / 2 + 1 into level 2.
    let leveled = fill("leveled", size, segment_bytes, leveled, 2.0 + 1.0 + 2.0 + 6.0)?;
    let window_tiers = (seals / 4.0).log(4.0).ceil();
    let windows = fill("time-window", size, segment_bytes, window, 2.0 + window_tiers + 1.0)?;
    let mut text = written(size, &[row(&tiered), row(&leveled), row(&windows)]);
    for (what, miss) in [("that is there", 0), ("that is not", 1)] {
        let mut cases: Vec<Case<'_>> = vec![
            (tiered.name, Box::new(|| read(&tiered.store, size, miss))),
            (leveled.name, Box::new(|| read(&leveled.store, size, miss))),
            (windows.name, Box::new(|| read(&windows.store, size, miss))),
        ];
        let title = format!("point read of a key {what}, from the page cache");
        text += &compare(&title, rounds, &mut cases).to_string();
    }
    Ok(text)
}

/// The `n`th key: spread like a hash, even. An odd one is never there, but lies between those that are.
fn key(n: u64) -> u64 {
    Random::new(n).draw() & !1
}

fn fill<P: Policy>(
    name: &'static str,
    size: Load,
    segment_bytes_max: u64,
    policy: P,
    theory: f64,
) -> Result<Filled<P>, StoreError> {
    let folder = TempDir::new().map_err(|source| {
        gate_store::DiskError::io(&std::env::temp_dir(), "make a folder in", source)
    })?;
    let options = Options { segment_bytes_max, segment_ms_max: u64::MAX, ..Options::default() };
    let (mut store, _) = Store::open(folder.path(), policy, options)?;
    let (mut random, mut batch) = (Random::new(1), Vec::new());
    let (mut append_ns, mut maintain_ns, mut now_ms) = (0, 0, 0);
    for from in (0..size.increments).step_by(1_000) {
        batch.clear();
        now_ms = from * SPAN_MS / size.increments;
        batch.extend((0..BATCH).map(|_| Count {
            key: key(random.below(size.keys) as u64),
            time_ms: now_ms,
            count: 1,
        }));
        let started = Instant::now();
        store.append(&batch, now_ms)?;
        append_ns += started.elapsed().as_nanos();
        let started = Instant::now();
        while store.maintain(now_ms, u64::MAX)? == Progress::More {}
        maintain_ns += started.elapsed().as_nanos();
    }
    store.seal(now_ms)?;
    while store.maintain(now_ms, u64::MAX)? == Progress::More {}
    let each = |ns: u128| ns as f64 / size.increments as f64;
    let (append_ns, maintain_ns) = (each(append_ns), each(maintain_ns));
    Ok(Filled { name, store, append_ns, maintain_ns, theory, _folder: folder })
}

fn row<P: Policy>(filled: &Filled<P>) -> String {
    let stats = filled.store.stats();
    let appended = stats.appended_bytes as f64;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "| {} | {:.1} | {:.1} | {:.1} | {:.2} | {:.0} | {} | {:.0} | {:.0} |",
        filled.name,
        megabytes(stats.appended_bytes),
        megabytes(stats.sealed_bytes),
        megabytes(stats.merged_bytes),
        stats.written_bytes() as f64 / appended,
        filled.theory,
        filled.store.runs().len(),
        filled.append_ns,
        filled.maintain_ns,
    )
}

fn written(size: Load, rows: &[String]) -> String {
    let mut text = format!(
        "\n### {} increments of {} counters under each policy\n\n",
        size.increments, size.keys
    );
    text += "| policy | appended MB | sealed MB | merged MB | written/appended | without folding, about \
             | runs left | append ns | maintain ns |\n";
    text += "| :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for row in rows {
        let _ = writeln!(text, "{row}");
    }
    text += "\nNanoseconds an increment; maintaining includes every sync. The time-window store counts each of its \
             four windows apart, so it folds less and a read finds up to four counters.\n";
    text
}

fn read<P: Policy>(store: &Store<Count, P>, size: Load, miss: u64) -> u64 {
    let (mut random, mut found, mut hits) = (Random::new(2), Vec::new(), 0);
    for _ in 0..size.reads {
        found.clear();
        let key = key(random.below(size.keys) as u64) | miss;
        store.get(key, 0, &mut found).expect("a store that was just written can be read");
        hits += u64::from(!found.is_empty());
        black_box(&found);
    }
    // A few keys were never drawn when the stores were filled.
    assert!(if miss == 0 { hits > size.reads * 9 / 10 } else { hits == 0 }, "{hits} hits");
    size.reads
}
