//! The harness: compares pieces of code so that the comparison, not the machine, decides.
//!
//! The rounds of all cases are interleaved in an order drawn anew each round, so a slow second of a
//! shared machine hits every case alike. What is reported is the median of the ratios *within* a
//! round, with a bootstrap interval; where this interval holds 1, the table says "cannot tell".

use std::time::{Duration, Instant};

/// One case: its name, and work that does a fixed amount and returns how many operations that was.
/// The closure itself passes results through [`std::hint::black_box`].
pub type Case<'a> = (&'a str, Box<dyn FnMut() -> u64 + 'a>);

/// A case that measures itself, because it has preparations (threads to start) that do not count: it
/// returns how many operations and how long they took.
pub type TimedCase<'a> = (&'a str, Box<dyn FnMut() -> (u64, Duration) + 'a>);

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2_000;
/// Seed of orders and resamples: two runs differ by the machine only.
const SEED: u64 = 0x5eed_0001;

/// What was measured of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// Median over the rounds, ns an operation.
    pub median_ns: f64,
    /// Fastest round, ns an operation.
    pub min_ns: f64,
    /// Slowest round, ns an operation.
    pub max_ns: f64,
    /// Median over the rounds of this case's time over the first case's time: below 1 is faster.
    pub ratio: f64,
    /// 95 % bootstrap interval of `ratio`.
    pub ratio_low: f64,
    /// Upper end of the interval.
    pub ratio_high: f64,
}

/// Runs `rounds` rounds of `cases`, prints a Markdown table headed by `title`, and returns what it
/// printed. The first case is the one the others are compared with; one more round is run first and
/// thrown away, to warm caches and page tables.
pub fn compare(title: &str, rounds: usize, cases: &mut [Case<'_>]) -> Vec<Outcome> {
    let outcomes = measure(rounds, cases);
    print_table(title, &outcomes);
    outcomes
}

/// As [`compare`], for cases that measure themselves.
pub fn compare_timed(title: &str, rounds: usize, cases: &mut [TimedCase<'_>]) -> Vec<Outcome> {
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    let outcomes = sample(rounds, &names, |at| (cases[at].1)());
    print_table(title, &outcomes);
    outcomes
}

/// As [`compare`], without printing.
pub fn measure(rounds: usize, cases: &mut [Case<'_>]) -> Vec<Outcome> {
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
    sample(rounds, &names, |at| {
        let started = Instant::now();
        let operations = (cases[at].1)();
        (operations, started.elapsed())
    })
}

fn sample(
    rounds: usize,
    names: &[&str],
    mut run: impl FnMut(usize) -> (u64, Duration),
) -> Vec<Outcome> {
    let mut random = Random::new(SEED);
    let mut samples = vec![Vec::with_capacity(rounds); names.len()];
    for round in 0..=rounds.max(1) {
        for at in random.order(names.len()) {
            let (operations, elapsed) = run(at);
            if round > 0 {
                samples[at].push(elapsed.as_nanos() as f64 / operations.max(1) as f64);
            }
        }
    }
    let own = names.iter().zip(&samples);
    own.map(|(name, own)| outcome(name, own, &samples[0], &mut random)).collect()
}

fn outcome(name: &str, own: &[f64], first: &[f64], random: &mut Random) -> Outcome {
    let ratios: Vec<f64> = own.iter().zip(first).map(|(own, first)| own / first).collect();
    let (ratio_low, ratio_high) = bootstrap(&ratios, random);
    Outcome {
        name: name.to_owned(),
        median_ns: median(own.to_vec()),
        min_ns: own.iter().copied().fold(f64::INFINITY, f64::min),
        max_ns: own.iter().copied().fold(0.0, f64::max),
        ratio: median(ratios),
        ratio_low,
        ratio_high,
    }
}

fn print_table(title: &str, outcomes: &[Outcome]) {
    let first = outcomes.first().map_or("", |first| first.name.as_str());
    let width = outcomes.iter().map(|outcome| outcome.name.len()).max().unwrap_or(0).max(4);
    println!("\n### {title}\n");
    println!("| {:width$} | ns/op | min..max | times as fast as `{first}` [95 %] |", "case");
    println!("| {:-<width$} | ----: | -------: | :--- |", "");
    for (at, outcome) in outcomes.iter().enumerate() {
        println!(
            "| {:width$} | {:.2} | {:.2}..{:.2} | {} |",
            outcome.name,
            outcome.median_ns,
            outcome.min_ns,
            outcome.max_ns,
            if at == 0 { "1".to_owned() } else { verdict(outcome) },
        );
    }
}

/// The ratio turned into "times as fast", which reads better than a share of the time.
fn verdict(outcome: &Outcome) -> String {
    let (low, high) = (1.0 / outcome.ratio_high, 1.0 / outcome.ratio_low);
    let known = !(low <= 1.0 && 1.0 <= high);
    let tail = if known { "" } else { ", cannot tell" };
    format!("{:.2} [{low:.2}..{high:.2}]{tail}", 1.0 / outcome.ratio)
}

/// 95 % interval of the median by resampling.
fn bootstrap(samples: &[f64], random: &mut Random) -> (f64, f64) {
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median((0..samples.len()).map(|_| samples[random.below(samples.len())]).collect()))
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40])
}

pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 {
        samples[middle]
    } else {
        f64::midpoint(samples[middle - 1], samples[middle])
    }
}

/// SplitMix64: small, seeded, good enough to draw orders and keys.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for every seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// Shuffles in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn median_takes_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    /// Counted work, not time: a case of ten times the work must show as slower by far.
    #[test]
    fn more_work_an_operation_is_slower() {
        let work = |steps: u64| {
            move || {
                let mut random = Random::new(1);
                for _ in 0..steps {
                    black_box(random.next());
                }
                1_000
            }
        };
        let mut cases: Vec<Case<'_>> =
            vec![("short", Box::new(work(20_000))), ("long", Box::new(work(2_000_000)))];
        let outcomes = measure(5, &mut cases);
        assert_eq!(outcomes[0].ratio, 1.0);
        assert!(outcomes[1].ratio_low > 2.0, "{outcomes:?}");
        assert!(outcomes[1].min_ns <= outcomes[1].median_ns);
    }

    #[test]
    fn an_interval_that_holds_one_is_no_verdict() {
        let outcome = |ratio_low, ratio_high| Outcome {
            name: String::new(),
            median_ns: 1.0,
            min_ns: 1.0,
            max_ns: 1.0,
            ratio: 1.0,
            ratio_low,
            ratio_high,
        };
        assert!(verdict(&outcome(0.9, 1.1)).ends_with("cannot tell"));
        assert!(!verdict(&outcome(0.4, 0.6)).ends_with("cannot tell"));
    }

    #[test]
    fn orders_are_permutations() {
        let mut order = Random::new(7).order(20);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..20));
    }
}
