//! Interleaved rounds: a slow second of a shared machine hits every case alike.

use std::fmt::Write as _;
use std::time::Instant;

/// A case: its name, and work that does a fixed amount and returns how many operations that was.
pub type Case<'a> = (String, Box<dyn FnMut() -> u64 + 'a>);

/// What was measured of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// Median over the rounds, ns an operation.
    pub median_ns: f64,
    /// Fastest and slowest round, ns an operation.
    pub range_ns: (f64, f64),
    /// Median over the rounds of this case's time over the first case's in the same round.
    pub ratio: f64,
}

/// Runs `rounds` rounds of all cases, each round in another order; one more is run first and thrown away.
pub fn measure(rounds: usize, cases: &mut [Case<'_>]) -> Vec<Outcome> {
    let count = cases.len();
    let mut samples = vec![Vec::with_capacity(rounds); count];
    for round in 0..=rounds {
        for step in 0..count {
            let at = (step + round) % count;
            let started = Instant::now();
            let operations = cases[at].1();
            let ns = started.elapsed().as_nanos() as f64 / operations.max(1) as f64;
            if round > 0 {
                samples[at].push(ns);
            }
        }
    }
    let outcome = |(name, own): (&Case<'_>, &Vec<f64>)| Outcome {
        name: name.0.clone(),
        median_ns: median(own.clone()),
        range_ns: own
            .iter()
            .fold((f64::INFINITY, 0.0), |(low, high), ns| (ns.min(low), ns.max(high))),
        ratio: median(own.iter().zip(&samples[0]).map(|(own, first)| own / first).collect()),
    };
    cases.iter().zip(&samples).map(outcome).collect()
}

/// A Markdown table; the first case is the one the others are compared with.
#[must_use]
pub fn table(title: &str, operation: &str, outcomes: &[Outcome]) -> String {
    let mut text = format!("\n### {title}\n\n");
    let _ = writeln!(text, "| case | ns a {operation} | min..max | times the first |");
    let _ = writeln!(text, "| :--- | ---: | ---: | ---: |");
    for outcome in outcomes {
        let (low, high) = outcome.range_ns;
        let (name, ns, ratio) = (&outcome.name, outcome.median_ns, outcome.ratio);
        let _ = writeln!(text, "| {name} | {ns:.1} | {low:.1}..{high:.1} | {ratio:.2} |");
    }
    text
}

/// The middle value; NaN of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// SplitMix64: small, seeded, good enough to draw keys.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_once_a_round_and_once_to_warm_up() {
        let runs = std::cell::Cell::new([0; 2]);
        let count = |at: usize| {
            let mut counts = runs.get();
            counts[at] += 1;
            runs.set(counts);
            1
        };
        let mut cases: Vec<Case<'_>> =
            vec![("first".into(), Box::new(|| count(0))), ("second".into(), Box::new(|| count(1)))];
        let outcomes = measure(3, &mut cases);
        drop(cases);
        assert_eq!(runs.get(), [4, 4]);
        assert_eq!(outcomes[0].ratio, 1.0);
        assert!(table("t", "call", &outcomes).contains("| second |"));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(vec![]).is_nan());
    }
}
