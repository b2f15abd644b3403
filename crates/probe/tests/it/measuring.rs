//! The measuring measured: these tests look at times, on machines that disturb them.
//!
//! Disturbances make a run wrong now and then; a fault in the measuring makes every run wrong. So each test may try
//! again, a bounded number of times, and fails when no try is right.

use std::fmt::Debug;
use std::hint::black_box;
use std::time::{Duration, Instant};

use probe::compare::Random;
use probe::{
    Cycles, Laps, Nanos, Probe, ProbeFigures, StageFigures, TimerCost, Trust, Watch, thread_cpu_ns,
};

use crate::laps::Work;

const TRIES: u32 = 40;
/// Before the second try again; longer before each one after.
const PAUSE: Duration = Duration::from_millis(20);

/// Tries until the result is right.
fn some_try_is_right<T: Debug>(mut attempt: impl FnMut() -> T, right: impl Fn(&T) -> bool) {
    let mut wrong = Vec::new();
    for number in 0..TRIES {
        let watch = Watch::start();
        let result = attempt();
        if right(&result) {
            return;
        }
        wrong.push(format!("{result:?} ({})", watch.marks()));
        // What disturbs a machine often lasts for longer than all tries in a row.
        std::thread::sleep(PAUSE * number);
    }
    panic!(
        "no try of {TRIES} is right, the last ones are\n{}",
        wrong[wrong.len() - 5..].join("\n")
    );
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
    // A lap that keeps a boundary shares its core with whatever runs on the other thread of it, of which no mark tells: then an
    // empty one is dearer by some nanoseconds than the reading that is taken off.
    let is_near = |nanos: &Nanos| match nanos {
        Nanos::Known { ns, error_ns } => *ns <= 2.0 * error_ns,
        below => below.is_below(),
    };
    some_try_is_right(attempt, |(mean, median)| is_near(mean) && is_near(median));
}

/// The clock that the spin ends by says how long it was, to a reading of that clock; where the kernel has to be asked for the
/// time, one is long.
#[test]
fn a_spin_of_known_length_reads_right() {
    let attempt = || {
        let mut known = Duration::ZERO;
        let figures = probed(50, 1, || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(20) {}
            known += begun.elapsed();
        });
        let reading_ns = {
            let begun = Instant::now();
            (0..1_000).for_each(|_| _ = black_box(Instant::now()));
            begun.elapsed().as_secs_f64() * 1e6
        };
        (known.as_secs_f64() * 1e9, 50.0 * reading_ns, TimerCost::get().total(&figures.stage))
    };
    some_try_is_right(attempt, |(known_ns, readings_ns, read)| {
        // The readings of the other clock stand within the span: two a spin are not in its own time.
        let (low, high) = (known_ns * 0.99 - readings_ns, known_ns * 1.01 + 3.0 * readings_ns);
        low < read.high_ns() && read.low_ns() < high
    });
}

/// A short chain between readings, each time at another place of the counter's step.
fn short_spans(steps: u64) -> StageFigures {
    let (mut probe, reader) = Probe::new("short", 1);
    let mut random = Random::new(5);
    for _ in 0..2_000 {
        chain(random.draw() % 32);
        probe.batch(1, || chain(steps));
    }
    reader.read().stage
}

/// The same between boundaries of laps.
fn short_laps(steps: u64) -> StageFigures {
    let (mut laps, reader) = Laps::<Work>::new(1);
    let mut random = Random::new(6);
    for _ in 0..200 {
        laps.begin();
        chain(random.draw() % 32);
        laps.skip();
        for _ in 0..10 {
            black_box(chain(steps));
            laps.lap(Work::Read, 1);
        }
    }
    drop(laps);
    reader.read().stages.swap_remove(0)
}

/// A figure beside what it is known to be.
#[derive(Debug)]
#[allow(dead_code, reason = "shown when the test fails")]
struct Checked {
    what: &'static str,
    steps: u32,
    read: Nanos,
    known_ns: f64,
    /// The stated error, but never more than 15 % of the chain: a wider one is of no use, however true. A single reading is
    /// no finer than the counter's step.
    allowed_ns: f64,
}

impl Checked {
    fn is_right(&self) -> bool {
        // Calling the chain and leaving its loop takes some cycles too.
        let call_ns = 15.0 * Cycles::get().ns_per_tick();
        let off_ns = self.read.middle_ns() - self.known_ns;
        -self.allowed_ns <= off_ns && off_ns <= self.allowed_ns + call_ns
    }
}

/// A step of a short chain reads as long as one of a long chain: what is taken off for the timer is neither too little nor
/// too much, and the readings wait for the chain. The shortest chain takes about as long as the timer itself. It is so for
/// spans and laps, means and medians. On a processor where the measuring cannot do it, the test prints the calibration.
#[test]
fn what_is_taken_off_for_the_timer_is_right() {
    let quietest = |read: &dyn Fn() -> Nanos| {
        let by_middle = |one: &Nanos, other: &Nanos| one.middle_ns().total_cmp(&other.middle_ns());
        (0..10).map(|_| read()).min_by(by_middle).expect("there are ten")
    };
    let attempt = || {
        let timer = TimerCost::measure();
        let step_ns = timer.calibration().step_ticks() * Cycles::get().ns_per_tick();
        let long = || timer.quantile(&probed(20, 1, || _ = black_box(chain(40_000))).stage, 0.5);
        let a_step_ns = quietest(&long).middle_ns() / 40_000.0;
        let mut checked = Vec::new();
        for steps in [40, 80, 200] {
            let known_ns = f64::from(steps) * a_step_ns;
            let mut check = |what, read: Nanos, single_ns: f64| {
                let stated_ns = (read.high_ns() - read.low_ns()) / 2.0;
                let allowed_ns = stated_ns.min(0.15 * known_ns + single_ns);
                checked.push(Checked { what, steps, read, known_ns, allowed_ns });
            };
            let at = u64::from(steps);
            let median = |stage: &StageFigures| timer.quantile(stage, 0.5);
            check("mean of spans", quietest(&|| timer.mean(&short_spans(at))), 0.0);
            check("median of spans", quietest(&|| median(&short_spans(at))), step_ns);
            check("mean of laps", quietest(&|| timer.mean(&short_laps(at))), 0.0);
            check("median of laps", quietest(&|| median(&short_laps(at))), step_ns);
        }
        checked.retain(|checked| !checked.is_right());
        (checked, timer.to_string(), Cycles::get().reading())
    };
    some_try_is_right(attempt, |(wrong, ..)| wrong.is_empty());
}

/// The rest of work that the compiler removed: nothing, said to be ten thousand items. Which loops it removes depends on how it
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

/// Two threads for every core beside it: it loses its core in turns, and what the others ran is in no stage.
#[test]
fn recorded_time_is_the_threads_on_a_machine_that_is_too_busy() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        // Also where the test fails: the scope waits for its threads.
        let _stop = StopAtEnd(&stop);
        for _ in 0..2 * cores {
            scope.spawn(|| while !stopped() {});
        }
        let attempt = || {
            let (mut laps, reader) = Laps::<Work>::new(1);
            let begun = thread_cpu_ns();
            for _ in 0..2_000 {
                laps.begin();
                for item in 0..10 {
                    chain(2_000 + 10 * item);
                    laps.lap(Work::Think, 1);
                }
            }
            drop(laps);
            let used_ns = thread_cpu_ns() - begun;
            let figures = reader.read();
            let ticks = figures.stages.iter().map(|stage| stage.ticks).sum::<u64>();
            #[allow(clippy::cast_precision_loss)]
            let share =
                (ticks + figures.own_ticks) as f64 * Cycles::get().ns_per_tick() / used_ns as f64;
            (share, figures.lost_laps)
        };
        let is_right = |(share, lost): &(f64, u64)| (0.95..1.05).contains(share) && *lost > 0;
        some_try_is_right(attempt, is_right);
    });
}

/// Sets a flag when it is dropped.
struct StopAtEnd<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
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
        // Also where the test fails: the scope waits for its threads.
        let _stop = StopAtEnd(&stop);
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
