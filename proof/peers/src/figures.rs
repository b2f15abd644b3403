//! Figures of things that are acknowledged: how many per second, and how long each waited for its answer.
//!
//! As in [`probe::compare`], the rounds of all cases are interleaved and ratios are taken *within* a round, so that a
//! slow second of a shared machine hits every case alike. What is reported are medians over the rounds.

use std::time::Duration;

use hdrhistogram::Histogram;
use probe::compare::Random;

/// Longest wait that is told apart, one minute.
const WAIT_NS_MAX: u64 = 60_000_000_000;
/// Seed of the order of cases: two runs differ by the machine only.
const SEED: u64 = 0x5eed_0002;

/// What one round of one case measured.
#[derive(Clone, Debug)]
pub struct Round {
    /// Operations acknowledged.
    pub operations: u64,
    /// How long all of them took together.
    pub elapsed: Duration,
    waits_ns: Histogram<u64>,
}

impl Round {
    /// A round in which nothing happened yet.
    #[must_use]
    pub fn new() -> Round {
        let waits_ns = Histogram::new_with_bounds(1, WAIT_NS_MAX, 3).expect("valid bounds");
        Round { operations: 0, elapsed: Duration::ZERO, waits_ns }
    }

    /// Notes `operations` that were acknowledged together, `wait` after they were sent. The caller sets `elapsed`.
    pub fn acknowledged(&mut self, operations: u64, wait: Duration) {
        self.operations += operations;
        self.waits_ns.saturating_record_n(wait.as_nanos() as u64, operations);
    }

    /// Takes in what another thread measured at the same time.
    pub fn join(&mut self, other: &Round) {
        self.operations += other.operations;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.waits_ns.add(&other.waits_ns).expect("all histograms have the same bounds");
    }

    fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn wait_us(&self, quantile: f64) -> f64 {
        self.waits_ns.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// What all rounds of one case say.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Operations a second, of each round.
    rates: Vec<f64>,
    /// Median over the rounds of the median wait for an acknowledgement.
    pub p50_us: f64,
    /// Median over the rounds of the wait that 99 % stay below.
    pub p99_us: f64,
}

impl Figures {
    /// Sums up rounds, which are in the order in which they ran.
    #[must_use]
    pub fn of<'a>(rounds: impl Iterator<Item = &'a Round> + Clone) -> Figures {
        Figures {
            rates: rounds.clone().map(Round::per_second).collect(),
            p50_us: median(rounds.clone().map(|round| round.wait_us(0.5)).collect()),
            p99_us: median(rounds.map(|round| round.wait_us(0.99)).collect()),
        }
    }

    /// Median over the rounds, operations a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        median(self.rates.clone())
    }

    /// The number of times the rate of `other` this is: median of the ratios within the rounds, where both ran
    /// interleaved; where one ran fewer rounds, of those that both have.
    #[must_use]
    pub fn times(&self, other: &Figures) -> f64 {
        median(self.rates.iter().zip(&other.rates).map(|(own, other)| own / other).collect())
    }
}

/// A case: runs one round.
pub type Case<'a, R> = Box<dyn FnMut() -> Result<R, String> + 'a>;

/// Runs `rounds` rounds of all cases in an order drawn anew each round; one more is run first and thrown away. What
/// comes back is in the order of `cases`, each with its rounds.
pub fn interleave<R>(rounds: usize, cases: &mut [Case<'_, R>]) -> Result<Vec<Vec<R>>, String> {
    let mut random = Random::new(SEED);
    let mut results: Vec<Vec<R>> = cases.iter().map(|_| Vec::with_capacity(rounds)).collect();
    let mut order: Vec<usize> = (0..cases.len()).collect();
    for round in 0..=rounds {
        random.shuffle(&mut order);
        for &at in &order {
            let result = cases[at]()?;
            if round > 0 {
                results[at].push(result);
            }
        }
    }
    Ok(results)
}

/// A rate as people read it.
#[must_use]
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(operations: u64, elapsed_ms: u64) -> Round {
        let mut round = Round::new();
        round.acknowledged(operations, Duration::from_micros(operations));
        round.elapsed = Duration::from_millis(elapsed_ms);
        round
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine is ten times slower in the second round: the ratio stays 2.
        let fast = Figures::of([round(2_000, 1_000), round(200, 1_000)].iter());
        let slow = Figures::of([round(1_000, 1_000), round(100, 1_000)].iter());
        assert_eq!(fast.times(&slow), 2.0);
        assert_eq!(slow.times(&fast), 0.5);
    }

    #[test]
    fn joined_rounds_count_operations_and_the_longest_time() {
        let mut both = round(10, 5);
        both.join(&round(30, 7));
        assert_eq!((both.operations, both.elapsed), (40, Duration::from_millis(7)));
        assert_eq!(both.wait_us(0.99).round(), 30.0, "three quarters waited 30 us");
    }

    #[test]
    fn every_case_runs_one_round_more_than_it_reports() {
        let mut runs = [0; 2];
        let [first, second] = &mut runs;
        let mut cases: Vec<Case<'_, &str>> = vec![
            Box::new(|| {
                *first += 1;
                Ok("first")
            }),
            Box::new(|| {
                *second += 1;
                Ok("second")
            }),
        ];
        let results = interleave(3, &mut cases).unwrap();
        drop(cases);
        assert_eq!(results, [vec!["first"; 3], vec!["second"; 3]]);
        assert_eq!(runs, [4, 4]);
    }
}
