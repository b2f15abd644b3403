//! Counts the words of a text, and shows where the time goes and what looking costs.
//!
//! `cargo run --release -p probe --example word_count [FILE]`; without a file it reads this crate's README, many times.
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::collections::HashMap;

use probe::compare::{Case, measure};
use probe::{Counters, Cycles, Event, Laps, LapsFigures, Machine, Probe, Stage, TimerCost, Watch};

/// The stages of the loop over paragraphs.
#[derive(Clone, Copy)]
enum Step {
    /// Is there anything in the paragraph? Too short to be seen: the table says "less than".
    Check,
    /// The paragraph into lower-case words.
    Split,
    /// The words into the table.
    Count,
}

impl Stage for Step {
    const ALL: &'static [Step] = &[Step::Check, Step::Split, Step::Count];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Step::Check => "check",
            Step::Split => "split",
            Step::Count => "count",
        }
    }
}

/// Paragraphs whose stages are measured: one in so many.
const SAMPLE_EVERY: u32 = 16;
/// Runs with probes and without, in turn.
const ROUNDS: usize = 15;

fn main() -> std::io::Result<()> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => include_str!("../README.md").repeat(500),
    };
    println!("{}\n{}\n", Machine::detect(), Cycles::get().note());

    let watch = Watch::start();
    let (mut laps, reader) = Laps::new(SAMPLE_EVERY);
    let words = count_words(&text, &mut laps);
    drop(laps);
    print_stages(&reader.read());
    print_sort(&words);
    println!("this run: {}", watch.marks());

    print_counters(&text);
    print_overhead(&text);
    Ok(())
}

/// The program; what belongs to the measuring are the lines with `laps`.
fn count_words(text: &str, laps: &mut Laps<Step>) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    let mut words = Vec::new();
    for paragraph in text.split("\n\n") {
        laps.begin();
        let is_blank = paragraph.is_empty();
        laps.lap(Step::Check, 1);
        if is_blank {
            continue;
        }
        words.extend(paragraph.split_whitespace().map(str::to_lowercase));
        let items = u32::try_from(words.len()).unwrap_or(u32::MAX);
        laps.lap(Step::Split, items);
        for word in words.drain(..) {
            *counts.entry(word).or_insert(0) += 1;
        }
        laps.lap(Step::Count, items);
    }
    counts
}

fn print_stages(figures: &LapsFigures) {
    let timer = TimerCost::get();
    println!("| stage | items | mean ns | p50 | p99 | all, ms |");
    println!("| --- | --: | --: | --: | --: | --: |");
    for (step, stage) in Step::ALL.iter().zip(&figures.stages) {
        let quantile = |q| timer.quantile(stage, q);
        let (mean, p50, p99) = (timer.mean(stage), quantile(0.5), quantile(0.99));
        let all_ms = timer.total(stage).times(figures.turns_a_sample() / 1e6);
        println!("| {} | {} | {mean} | {p50} | {p99} | {all_ms} |", step.name(), stage.items);
    }
    println!("\n{} of {} paragraphs sampled", figures.sampled, figures.turns);
}

/// A single step of many items: one pair of readings, divided by the items.
fn print_sort(words: &HashMap<String, u64>) {
    let (mut sort, reader) = Probe::new("sort", 1);
    let mut words: Vec<_> = words.iter().collect();
    let items = u32::try_from(words.len()).unwrap_or(u32::MAX);
    sort.batch(items, || words.sort_by_key(|&(word, count)| (std::cmp::Reverse(*count), word)));
    let figures = reader.read();
    println!("{}: {} ns a word, {:?}", figures.name, figures.mean(), figures.trust());
    println!("most frequent: {:?}\n", words.iter().take(3).collect::<Vec<_>>());
}

/// The processor's own counters, or why there are none.
fn print_counters(text: &str) {
    let counted = Counters::hardware().and_then(|mut counters| {
        let earlier = counters.read()?;
        count_words(text, &mut Laps::new(0).0);
        Ok(counters.read()?.since(&earlier))
    });
    match counted {
        Ok(counts) => {
            for event in Event::HARDWARE {
                println!("{event:?}: {:?}", counts.get(event));
            }
        }
        Err(unavailable) => println!("no counters: {unavailable}"),
    }
}

/// Runs with and without probes in turn, so that a slow second of the machine hits both alike.
fn print_overhead(text: &str) {
    let run = |every| {
        Box::new(move || {
            count_words(text, &mut Laps::new(every).0);
            1
        })
    };
    let mut cases: [Case<'_>; 2] = [("without", run(0)), ("with", run(SAMPLE_EVERY))];
    let Some(with) = measure(ROUNDS, &mut cases).pop() else { return };
    let [low, overhead, high] =
        [with.ratio_low, with.ratio, with.ratio_high].map(|ratio| (ratio - 1.0) * 100.0);
    println!("the probes' overhead: {overhead:+.1} % [{low:+.1}..{high:+.1}], {ROUNDS} rounds");
}
