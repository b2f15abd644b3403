//! What a comparison can tell, on samples whose truth is known. The table in the documentation of `probe::compare` is what
//! this prints; there is no clock and no maths library in it, so the counts are the same everywhere.

use probe::compare::{MIN_EFFECT, Outcome, Random, Verdict};

/// Comparisons of each kind.
const COMPARISONS: usize = 10_000;
/// Rounds, and the standard deviation of a time around its truth.
const SETTINGS: [(usize, f64); 8] =
    [(5, 0.01), (7, 0.01), (15, 0.01), (31, 0.01), (7, 0.03), (15, 0.03), (31, 0.03), (61, 0.03)];
const DOCUMENTATION: &str = include_str!("../../src/compare/mod.rs");

/// From 0 up to 1.
fn uniform(random: &mut Random) -> f64 {
    (random.draw() >> 11) as f64 / (1u64 << 53) as f64
}

/// Nearly normal, with a standard deviation of 1: twelve uniform numbers.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

/// A time of 100 ns with noise; one in ten is a stall that adds up to half of it.
fn time_ns(noise: f64, random: &mut Random) -> f64 {
    let stall = if random.below(10) == 0 { 0.5 * uniform(random) } else { 0.0 };
    100.0 * (1.0 + noise * normal(random) + stall)
}

/// A comparison whose true ratio is known. Every round the machine has a speed of its own, between once and twice.
fn compare(truth: f64, rounds: usize, noise: f64, random: &mut Random) -> Outcome {
    let pair = |_| {
        let machine = 1.0 + uniform(random);
        (truth * machine * time_ns(noise, random), machine * time_ns(noise, random))
    };
    let (own, first): (Vec<f64>, Vec<f64>) = (0..rounds).map(pair).unzip();
    Outcome::of("case", &own, &first)
}

/// Shares of the comparisons whose interval holds the truth, and that give a verdict.
fn shares(truth: f64, (rounds, noise): (usize, f64)) -> (f64, f64) {
    let mut random = Random::new(rounds as u64);
    let outcomes: Vec<Outcome> =
        (0..COMPARISONS).map(|_| compare(truth, rounds, noise, &mut random)).collect();
    let share = |of: &dyn Fn(&Outcome) -> bool| {
        outcomes.iter().filter(|outcome| of(outcome)).count() as f64 / COMPARISONS as f64
    };
    let holds = share(&|outcome| (outcome.ratio_low..=outcome.ratio_high).contains(&truth));
    let told = share(&|outcome| outcome.verdict(MIN_EFFECT) != Verdict::CannotTell);
    (holds, told)
}

#[test]
fn the_documented_rates_are_the_measured_ones() {
    let mut missing = Vec::new();
    for (rounds, noise) in SETTINGS {
        let (holds, false_alarms) = shares(1.0, (rounds, noise));
        let (_, found) = shares(1.03, (rounds, noise));
        assert!(holds >= 0.93, "{rounds} rounds: {holds} of the intervals hold the truth");
        assert!(false_alarms <= 0.07, "{rounds} rounds: {false_alarms} false alarms");
        let [noise, holds, alarms, found] =
            [noise, holds, false_alarms, found].map(|share| share * 100.0);
        let row = format!("| {rounds} | {noise:.0} | {holds:.1} | {alarms:.1} | {found:.1} |");
        println!("//! {row}");
        missing.extend((!DOCUMENTATION.contains(&row)).then_some(row));
    }
    assert!(missing.is_empty(), "the documentation of probe::compare lacks {missing:#?}");
}

/// The rates grow as they should: a larger effect is found more often, and its direction is right.
#[test]
fn a_large_effect_is_always_found_and_never_reversed() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let slower = compare(1.3, 31, 0.03, &mut random);
        assert_eq!(slower.verdict(MIN_EFFECT), Verdict::Slower, "{slower:?}");
        let faster = compare(1.0 / 1.3, 31, 0.03, &mut random);
        assert_eq!(faster.verdict(MIN_EFFECT), Verdict::Faster, "{faster:?}");
    }
}
