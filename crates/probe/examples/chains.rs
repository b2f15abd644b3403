//! How right the times are on this machine: chains of known lengths, measured as spans, laps and batches.
//!
//! What a step takes is known from chains a thousand times as long, beside which a reading is nothing.
//!
//! `cargo run --release -p probe --example chains`
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::hint::black_box;

use probe::compare::Random;
use probe::{Cycles, Laps, Machine, Nanos, Probe, Stage, StageFigures, TimerCost, Watch};

const STEPS: [u32; 6] = [10, 20, 40, 80, 120, 200];
const TIMES: usize = 4_000;
const BATCH: u32 = 10;
const LONG: u32 = 200_000;
/// Each figure is the median of so many.
const ROUNDS: usize = 9;

fn main() {
    let (cycles, watch) = (Cycles::get(), Watch::start());
    println!("{}\n{}", Machine::detect(), cycles.note());
    println!("timer: {}\n", TimerCost::get());
    readings(cycles);
    let a_step = step_ns();
    println!(
        "\na step takes {a_step:.3} ns, by chains of {LONG}; below, what was read for shorter ones, ns\n\n\
         | steps | known | span, mean | off | span, p50 | off | lap, mean | off | batch of {BATCH}, mean | off |\n\
         | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |"
    );
    for steps in STEPS {
        let known = a_step * f64::from(steps);
        let read = [span_mean(steps), span_median(steps), lap_mean(steps), batch_mean(steps)];
        let [span, median, lap, batch] = read;
        let cells =
            [(span, known), (median, known), (lap, known), (batch, known / f64::from(BATCH))];
        let cells: Vec<String> = cells.into_iter().map(|(read, known)| cell(read, known)).collect();
        println!("| {steps} | {known:.1} | {} |", cells.join(" | "));
    }
    println!(
        "\nCalling a chain and entering its loop takes some 3 ns more, which the readings see and the known time leaves out."
    );
    println!("this run: {}", watch.marks());
}

/// The ways to read the counter, and which one this machine has.
fn readings(cycles: &Cycles) {
    println!(
        "| a reading with | around nothing, ns | adds to work, ns | known to | overlaps | step | chosen |\n\
         | --- | --: | --: | --: | --: | --: | --- |"
    );
    let ns = |ticks: f64| ticks * cycles.ns_per_tick();
    for (reading, found) in cycles.readings() {
        println!(
            "| {reading} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
            ns(found.bare_mean_ticks()),
            ns(found.taken_ticks()),
            ns(found.unsure_ticks()),
            ns(found.overlap_ticks()),
            ns(found.step_ticks()),
            if cycles.reading() == Some(*reading) { "yes" } else { "no" }
        );
    }
}

/// What was read and how far it may be off, and how far it is off.
fn cell(read: Nanos, known: f64) -> String {
    let (middle, error) = (read.middle_ns(), (read.high_ns() - read.low_ns()) / 2.0);
    let text =
        if read.is_below() { read.to_string() } else { format!("{middle:.1} +- {error:.1}") };
    format!("{text} | {:+.1}", middle - known)
}

#[inline(never)]
fn chain(steps: u32) -> u64 {
    (0..black_box(steps))
        .fold(black_box(1_u64), |x, _| x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 7))
}

fn step_ns() -> f64 {
    let once = |_| {
        let (mut probe, reader) = Probe::new("long", 1);
        (0..20).for_each(|_| _ = probe.batch(1, || chain(LONG)));
        reader.read().quantile(0.5)
    };
    middle((0..ROUNDS).map(once).collect()).middle_ns() / f64::from(LONG)
}

/// Spans around the chain, each at another place of the counter's step.
fn spans(steps: u32, items: u32) -> StageFigures {
    let (mut probe, reader) = Probe::new("chain", 1);
    let mut random = Random::new(3);
    for _ in 0..TIMES {
        chain(u32::try_from(random.below(32)).unwrap_or(0));
        probe.batch(items, || chain(steps));
    }
    reader.read().stage
}

fn of_rounds(figures: impl Fn() -> StageFigures, read: impl Fn(&StageFigures) -> Nanos) -> Nanos {
    middle((0..ROUNDS).map(|_| read(&figures())).collect())
}

fn span_mean(steps: u32) -> Nanos {
    of_rounds(|| spans(steps, 1), |stage| TimerCost::get().mean(stage))
}

fn span_median(steps: u32) -> Nanos {
    of_rounds(|| spans(steps, 1), |stage| TimerCost::get().quantile(stage, 0.5))
}

fn batch_mean(steps: u32) -> Nanos {
    of_rounds(|| spans(steps, BATCH), |stage| TimerCost::get().mean(stage))
}

fn lap_mean(steps: u32) -> Nanos {
    let figures = || {
        let (mut laps, reader) = Laps::<Chain>::new(1);
        let mut random = Random::new(4);
        for _ in 0..TIMES / 10 {
            laps.begin();
            chain(u32::try_from(random.below(32)).unwrap_or(0));
            laps.skip();
            for _ in 0..10 {
                chain(steps);
                laps.lap(Chain, 1);
            }
        }
        drop(laps);
        reader.read().stages.swap_remove(0)
    };
    of_rounds(figures, |stage| TimerCost::get().mean(stage))
}

fn middle(mut read: Vec<Nanos>) -> Nanos {
    read.sort_unstable_by(|one, other| one.middle_ns().total_cmp(&other.middle_ns()));
    read[read.len() / 2]
}

#[derive(Clone, Copy)]
struct Chain;

impl Stage for Chain {
    const ALL: &'static [Chain] = &[Chain];

    fn index(self) -> usize {
        0
    }

    fn name(self) -> &'static str {
        "chain"
    }
}
