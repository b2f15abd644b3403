//! What the rounds say of one case.

/// How likely the truth is beyond one end of an interval.
const TAIL: f64 = 0.025;
/// With fewer rounds there is never a verdict: all samples lie on one side of the truth too often (6 % of the time for 5,
/// 25 % for 3).
pub const ROUNDS_MIN: usize = 5;

/// What was measured of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// Rounds that were measured; below [`ROUNDS_MIN`] there is never a verdict.
    pub rounds: usize,
    /// Median over the rounds, ns per operation.
    pub median_ns: f64,
    /// Fastest round, ns per operation.
    pub min_ns: f64,
    /// Slowest round, ns per operation.
    pub max_ns: f64,
    /// Median over the rounds of this case's time over the first case's in the same round: below 1 is faster.
    pub ratio: f64,
    /// Lower end of the 95 % confidence interval of `ratio`.
    pub ratio_low: f64,
    /// Upper end of the interval.
    pub ratio_high: f64,
}

/// How a case stands to the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes less time.
    Faster,
    /// It takes more time.
    Slower,
    /// The difference, if there is one, is within the noise or too small to care.
    CannotTell,
}

impl Outcome {
    /// The outcome of samples, ns per operation, that are paired by round: those of the case itself, and those of the
    /// case that it is compared with. Where one list is longer, its end is left out.
    #[must_use]
    pub fn of(name: &str, own_ns: &[f64], first_ns: &[f64]) -> Outcome {
        let rounds = own_ns.len().min(first_ns.len());
        let (own_ns, first_ns) = (&own_ns[..rounds], &first_ns[..rounds]);
        let ratios: Vec<f64> =
            own_ns.iter().zip(first_ns).map(|(own, first)| own / first).collect();
        let (ratio_low, ratio_high) = interval(ratios.clone());
        Outcome {
            name: name.to_owned(),
            rounds,
            median_ns: median(own_ns.to_vec()),
            min_ns: own_ns.iter().copied().fold(f64::NAN, f64::min),
            max_ns: own_ns.iter().copied().fold(f64::NAN, f64::max),
            ratio: median(ratios),
            ratio_low,
            ratio_high,
        }
    }

    /// Faster or slower only where there were enough rounds, the interval of the ratio leaves out 1, **and** the ratio
    /// is at least `min_effect` away from 1 (0.01 is 1 %).
    #[must_use]
    pub fn verdict(&self, min_effect: f64) -> Verdict {
        let matters = self.rounds >= ROUNDS_MIN && (self.ratio - 1.0).abs() >= min_effect;
        if matters && self.ratio_high < 1.0 {
            Verdict::Faster
        } else if matters && self.ratio_low > 1.0 {
            Verdict::Slower
        } else {
            Verdict::CannotTell
        }
    }
}

/// 95 % confidence interval of the median. It assumes nothing of how the samples are spread: that the `k`-th smallest lies
/// above the median is as likely as fewer than `k` heads in as many throws of a coin. Between the two `k` that come nearest
/// to 95 % it interpolates, as Hettmansperger and Sheather do (Statistics & Probability Letters 4, 1986). A bootstrap of
/// the median can only end at samples: with 7 of them its "95 %" hold the truth 88 % of the time. NaN of none.
#[allow(clippy::cast_precision_loss, reason = "rounds of a benchmark")]
fn interval(mut samples: Vec<f64>) -> (f64, f64) {
    samples.sort_unstable_by(f64::total_cmp);
    let count = samples.len();
    let (Some(least), Some(most)) = (samples.first(), samples.last()) else {
        return (f64::NAN, f64::NAN);
    };
    let tails = coin_tails(count);
    let depth = tails.iter().take_while(|tail| **tail <= TAIL).count();
    if depth == 0 {
        return (*least, *most);
    }
    let (n, d) = (count as f64, depth as f64);
    let share = (TAIL - tails[depth - 1]) / (tails[depth] - tails[depth - 1]);
    let inwards = (n - d) * share / (d + (n - 2.0 * d) * share);
    let between = |outer: f64, inner: f64| outer + (inner - outer) * inwards;
    let low = between(samples[depth - 1], samples[depth]);
    let high = between(samples[count - depth], samples[count - depth - 1]);
    (low, high)
}

/// How likely so many throws of a coin give at most 0, 1, 2, ... heads, up to half of the throws.
#[allow(clippy::cast_precision_loss, reason = "rounds of a benchmark")]
fn coin_tails(throws: usize) -> Vec<f64> {
    // Ways to throw so many heads, as shares of those to throw half: powers of two would underflow.
    let half = throws / 2;
    let mut ways = vec![1.0; half + 1];
    for heads in (0..half).rev() {
        ways[heads] = ways[heads + 1] * (heads + 1) as f64 / (throws - heads) as f64;
    }
    let below: f64 = ways.iter().sum();
    let all = if throws.is_multiple_of(2) { 2.0 * below - 1.0 } else { 2.0 * below };
    let mut sum = 0.0;
    for way in &mut ways {
        sum += *way / all;
        *way = sum;
    }
    ways
}

/// The middle value, or the middle of the two in the middle; NaN of none.
#[must_use]
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => samples[middle],
        _ => f64::midpoint(samples[middle - 1], samples[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(rounds: usize, ratio_low: f64, ratio: f64, ratio_high: f64) -> Outcome {
        let first = Outcome::of("case", &[1.0], &[1.0]);
        Outcome { rounds, ratio, ratio_low, ratio_high, ..first }
    }

    #[test]
    fn median_takes_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn a_verdict_takes_the_interval_and_the_effect() {
        assert_eq!(outcome(5, 0.90, 0.95, 0.99).verdict(0.01), Verdict::Faster);
        assert_eq!(outcome(5, 1.01, 1.05, 1.10).verdict(0.01), Verdict::Slower);
        assert_eq!(outcome(5, 0.90, 0.95, 1.00).verdict(0.01), Verdict::CannotTell, "holds 1");
        assert_eq!(outcome(5, 1.001, 1.005, 1.01).verdict(0.01), Verdict::CannotTell, "small");
        assert_eq!(outcome(4, 1.01, 1.05, 1.10).verdict(0.01), Verdict::CannotTell, "few rounds");
    }

    #[test]
    fn throws_of_a_coin() {
        assert_eq!(coin_tails(4), [1.0 / 16.0, 5.0 / 16.0, 11.0 / 16.0]);
        assert_eq!(coin_tails(5), [1.0 / 32.0, 6.0 / 32.0, 0.5]);
        assert_eq!(coin_tails(0), [1.0]);
        let many = coin_tails(100_000);
        assert!(many[0] == 0.0 && (many[49_999] - 0.5).abs() < 0.01);
    }

    #[test]
    fn an_interval_lies_between_the_samples_of_95_percent() {
        let samples = |count: u32| (1..=count).map(f64::from).collect::<Vec<f64>>();
        assert_eq!(interval(samples(5)), (1.0, 5.0), "all there is: 93.75 %");
        // Of 15, the 4th to the 12th hold it with 96.5 %, the 5th to the 11th with 88.2 %.
        let (low, high) = interval(samples(15));
        assert!(low > 4.0 && low < 4.5 && (low + high - 16.0).abs() < 1e-9, "{low} {high}");
        for count in 6..200 {
            let (low, high) = interval(samples(count));
            assert!(low >= 1.0 && low < high && high <= f64::from(count), "{count}");
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is ten times as slow in the last two rounds; both cases are hit alike.
        let (own, first) = ([2.0, 2.0, 2.0, 20.0, 20.0], [1.0, 1.0, 1.0, 10.0, 10.0]);
        let outcome = Outcome::of("own", &own, &first);
        assert_eq!((outcome.ratio_low, outcome.ratio, outcome.ratio_high), (2.0, 2.0, 2.0));
        assert_eq!((outcome.median_ns, outcome.min_ns, outcome.max_ns), (2.0, 2.0, 20.0));
    }

    #[test]
    fn no_samples_are_no_verdict_and_no_panic() {
        let none = Outcome::of("none", &[], &[1.0]);
        assert_eq!((none.rounds, none.verdict(0.0)), (0, Verdict::CannotTell));
        assert!(none.ratio.is_nan() && none.min_ns.is_nan());
    }
}
