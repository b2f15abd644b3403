//! The measuring measured: these tests look at times, on machines that disturb them.
//!
//! Disturbances make a run wrong now and then; a fault in the measuring makes every run wrong. So each test may try
//! again, a bounded number of times, and fails when no try is right.

use std::fmt::Debug;
use std::hint::black_box;
use std::time::{Duration, Instant};

use probe::{Cycles, Laps, Nanos, Probe, ProbeFigures, TimerCost, Trust, Watch, thread_cpu_ns};

use crate::laps::Work;

const TRIES: usize = 40;

/// Tries until the result is right.
fn some_try_is_right<T: Debug>(mut attempt: impl FnMut() -> T, right: impl Fn(&T) -> bool) {
    let mut wrong = Vec::new();
    for _ in 0..TRIES {
        let watch = Watch::start();
        let result = attempt();
        if right(&result) {
            return;
        }
        wrong.push(format!("{result:?} ({})", watch.marks()));
    }
    panic!("no try of {TRIES} is right, the last ones are\n{}", wrong[TRIES - 5..].join("\n"));
}

/// Steps of which each needs the one before.
#[inline(never)]
fn chain(steps: u64) -> u64 {
    (0..black_box(steps))
        .fold(black_box(1), |x, _| x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 7))
}

fn probed(times: u32, items: u32, mut work: impl FnMut()) -> ProbeFigures {
    let (mut probe, reader) = Probe::new("probed", 1);
    (0..times).for_each(|_| probe.batch(items, &mut work));
    reader.read()
}

#[test]
fn an_empty_probe_reads_as_zero_within_its_error() {
    let attempt = || {
        let (timer, figures) = (TimerCost::measure(), probed(2_000, 1, || ()));
        [timer.mean(&figures.stage), timer.quantile(&figures.stage, 0.5)]
    };
    some_try_is_right(attempt, |read| {
        read.iter().all(|nanos| nanos.is_below() && nanos.to_string().starts_with("< "))
    });
}

#[test]
fn an_empty_lap_reads_as_zero_within_its_error() {
    let attempt = || {
        let (mut laps, reader) = Laps::<Work>::new(1);
        for _ in 0..200 {
            laps.begin();
            (0..20).for_each(|_| laps.lap(Work::Read, 1));
        }
        drop(laps);
        let timer = TimerCost::measure();
        (timer.mean(&reader.read().stages[0]), timer.quantile(&reader.read().stages[0], 0.5))
    };
    some_try_is_right(attempt, |(mean, median)| mean.is_below() && median.is_below());
}

/// The clock that the spin ends by says how long it was.
#[test]
fn a_spin_of_known_length_reads_right() {
    let attempt = || {
        let mut known = Duration::ZERO;
        let figures = probed(50, 1, || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(20) {}
            known += begun.elapsed();
        });
        (known.as_secs_f64() * 1e9, TimerCost::get().total(&figures.stage))
    };
    some_try_is_right(attempt, |(known_ns, read)| {
        // The readings of the other clock stand within the span: two a spin are not in its own time.
        let low = known_ns * 0.99;
        low < read.high_ns() && read.low_ns() < known_ns * 1.02
    });
}

/// A step of a short chain reads as long as one of a long chain: what is taken off for the timer is neither too little nor
/// too much, and the readings wait for the chain. The short chain takes about as long as the timer itself.
#[test]
fn what_is_taken_off_for_the_timer_is_right() {
    let (short, long) = (40, 40_000);
    let once = |_| {
        let timer = TimerCost::measure();
        let median = |times, steps| {
            let figures = probed(times, 1, || _ = black_box(chain(steps)));
            timer.quantile(&figures.stage, 0.5)
        };
        (median(2_000, short), median(20, long))
    };
    // The quietest of some: a disturbed timer states so wide an error that anything is within.
    let width = |(short, _): &(Nanos, Nanos)| short.high_ns() - short.low_ns();
    let attempt = || (0..10).map(once).min_by(|one, other| width(one).total_cmp(&width(other)));
    some_try_is_right(attempt, |read| {
        let (short_read, long_read) = read.expect("there are some");
        let expected_ns = long_read.middle_ns() * 40.0 / 40_000.0;
        // Calling the chain and leaving its loop takes some cycles too.
        let call_ns = 15.0 * Cycles::get().ns_per_tick();
        short_read.low_ns() <= expected_ns + call_ns && expected_ns <= short_read.high_ns()
    });
}

/// What is left of work that the compiler removed: nothing, said to be ten thousand items. Which loops it removes depends on how it
/// is called, so the test has none.
#[test]
fn work_that_was_optimised_away_is_found() {
    let items = 10_000;
    let trust = |figures: ProbeFigures| TimerCost::measure().trust(&figures.stage);
    let removed = || trust(probed(100, items, || ()));
    some_try_is_right(removed, |trust| *trust == Trust::Empty);
    let kept = || trust(probed(100, items, || _ = black_box(chain(items.into()))));
    some_try_is_right(kept, |trust| *trust == Trust::Measured);
    let one = || trust(probed(2_000, 1, || ()));
    some_try_is_right(one, |trust| *trust == Trust::Unresolved);
}

/// Nothing is lost between the stages, and nothing counted twice: stages and the recording itself are the thread's time.
#[test]
fn recorded_and_unrecorded_time_add_up_to_the_threads() {
    let attempt = || {
        let (mut laps, reader) = Laps::<Work>::new(1);
        let begun = thread_cpu_ns();
        // Short beside the time that a busy machine leaves a thread its core: what another one takes is in the laps.
        for turn in 0..15 {
            laps.begin();
            for item in 0..20 {
                chain(500 + 10 * item);
                laps.lap(Work::Think, 1);
                black_box(vec![turn; 2_000]);
                laps.lap(Work::Read, 1);
            }
        }
        drop(laps);
        let used_ns = thread_cpu_ns() - begun;
        let figures = reader.read();
        let ticks = figures.stages.iter().map(|stage| stage.ticks).sum::<u64>() + figures.own_ticks;
        #[allow(clippy::cast_precision_loss)]
        let share = ticks as f64 * Cycles::get().ns_per_tick() / used_ns as f64;
        share
    };
    some_try_is_right(attempt, |share| (0.95..1.05).contains(share));
}

/// The thread sleeps within a turn: that is nobody's.
#[test]
fn what_is_skipped_is_nobodys() {
    let attempt = || {
        let (mut laps, reader) = Laps::<Work>::new(1);
        laps.begin();
        std::thread::sleep(Duration::from_millis(5));
        laps.skip();
        laps.lap(Work::Read, 1);
        drop(laps);
        TimerCost::get().total(&reader.read().stages[0])
    };
    some_try_is_right(attempt, |read| read.high_ns() < 1e6);
}

/// A thread that is kept from its core is marked.
#[test]
fn a_preempted_thread_is_marked() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..2 * cores {
            scope.spawn(|| while !stopped() {});
        }
        let attempt = || {
            let watch = Watch::start();
            chain(20_000_000);
            watch.marks()
        };
        some_try_is_right(attempt, |marks| marks.preempted > 0 && !marks.is_clean());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
