//! Reading a clock: what it costs, and how that cost is spread.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use probe::{Cycles, Histogram, ticks};
use rustix::time::{ClockId, clock_gettime};

use super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

const ROUNDS: usize = 11;
const READINGS: u64 = 50_000;
/// Pairs of readings with nothing between them.
const PAIRS: usize = 50_000;

/// Makes `clock/read`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let readings = size.pick(READINGS, 1_000);
    let quanta = quanta::Clock::new();
    let raw = quanta.clone();
    let ways: Vec<Way<'_>> = vec![
        ("probe::ticks", read(readings, ticks)),
        ("quanta, raw", read(readings, move || raw.raw())),
        ("quanta, now", read(readings, move || quanta.now())),
        ("std Instant::now", read(readings, Instant::now)),
        ("clock_gettime, coarse", read(readings, coarse)),
    ];
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    let meaning = Meaning {
        rival: Some("std Instant::now"),
        faster: "stages are timed with the processor's counter, one reading where one ends and the next begins",
        slower: "the counter is no bargain on this machine; stages could be timed with the standard clock",
        level: "the counter is no bargain on this machine; stages could be timed with the standard clock",
    };
    let what = "Read a clock, one reading after the other. The coarse clock stands still for a tick of the kernel, 1 to 10 ms, so \
                it cannot time a stage.";
    let detail = between(size.pick(PAIRS, 200));
    Ok(vec![Pair::new("clock/read", what, "reading", outcomes, &meaning).with_detail(detail)])
}

fn coarse() -> (i64, i64) {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    (time.tv_sec, time.tv_nsec)
}

/// Clocks differ in what they say, so the result is how many readings there were.
fn read<'a, T>(readings: u64, mut now: impl FnMut() -> T + 'a) -> Box<dyn FnMut() -> Done + 'a> {
    Box::new(move || {
        let mut done = 0;
        while done < readings {
            black_box(now());
            done += 1;
        }
        Done { operations: readings, result: black_box(done) }
    })
}

/// What passes between two readings with nothing between them, each clock by its own measure.
fn between(pairs: usize) -> String {
    let ns_per_tick = Cycles::get().ns_per_tick();
    let quanta = quanta::Clock::new();
    let mut text = String::from(
        "Between two readings with nothing between them, by each clock's own measure:\n\n\
         | clock | p50 ns | p99 ns | p99.9 ns | longest ns |\n| :--- | ---: | ---: | ---: | ---: |\n",
    );
    let mut row = |name: &str, passed: &Histogram, ns_a_unit: f64| {
        let ns = |units: u64| units as f64 * ns_a_unit;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| ns(passed.quantile(q)));
        let longest = ns(passed.max());
        let _ = writeln!(text, "| {name} | {p50:.0} | {p99:.0} | {p999:.0} | {longest:.0} |");
    };
    row("probe::ticks", &spread(pairs, ticks, |from, to| to.saturating_sub(from)), ns_per_tick);
    let raw = spread(pairs, || quanta.raw(), |from, to| quanta.delta_as_nanos(from, to));
    row("quanta, raw", &raw, 1.0);
    let passed = |from: Instant, to: Instant| {
        u64::try_from(to.duration_since(from).as_nanos()).unwrap_or(u64::MAX)
    };
    row("std Instant::now", &spread(pairs, Instant::now, passed), 1.0);
    text
}

/// Reads first and computes afterwards, so that nothing stands between two readings.
fn spread<T: Copy>(
    pairs: usize,
    mut now: impl FnMut() -> T,
    passed: impl Fn(T, T) -> u64,
) -> Histogram {
    let mut read = vec![now(); pairs + 1];
    read.fill_with(&mut now);
    let mut histogram = Histogram::new();
    read.windows(2).for_each(|pair| histogram.record(passed(pair[0], pair[1])));
    histogram
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// They cannot agree on what time it is, but all of them must see time pass.
    #[test]
    fn every_clock_goes_on() {
        let quanta = quanta::Clock::new();
        let (from, from_ticks, from_quanta, from_coarse) =
            (Instant::now(), ticks(), quanta.now(), coarse());
        std::thread::sleep(Duration::from_millis(30));
        assert!(from.elapsed() >= Duration::from_millis(30));
        assert!(ticks() > from_ticks && quanta.now() > from_quanta);
        // The coarse clock goes on when the kernel comes to it.
        while coarse() <= from_coarse {
            assert!(from.elapsed() < Duration::from_secs(60), "it stands still");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn every_pair_of_readings_counts() {
        let mut time = 0;
        let now = || {
            time += 7;
            time
        };
        let histogram = spread(100, now, |from, to| to - from);
        assert_eq!((histogram.count(), histogram.quantile(0.99)), (100, 7));
    }
}
