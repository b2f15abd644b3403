//! Latency histograms: high dynamic range, three digits, one microsecond to two minutes kept in nanoseconds.

use std::sync::Mutex;

use hdrhistogram::Histogram;
use serde::Serialize;

/// What a histogram can tell apart at the top: anything longer counts as this.
pub(crate) const LATENCY_NS_MAX: u64 = 120_000_000_000;

/// The four figures of a report, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Quantiles {
    /// Half of the frames were answered within this.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Quantiles {
    /// Reads them off; all zero when nothing was recorded.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |q| us(histogram.value_at_quantile(q));
        if histogram.is_empty() {
            return Self::default();
        }
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: us(histogram.max()) }
    }
}

/// Nanoseconds as microseconds with one decimal.
fn us(ns: u64) -> f64 {
    let tenths = ns.saturating_add(50) / 100;
    f64::from(u32::try_from(tenths).unwrap_or(u32::MAX)) / 10.0
}

/// An empty histogram.
#[must_use]
pub(crate) fn histogram() -> Histogram<u64> {
    // The bounds are constants that the crate accepts; should it not, a self-sizing one is as good.
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
        .or_else(|_| Histogram::new(3))
        .unwrap_or_else(|_| unreachable!("three significant digits are always allowed"))
}

/// Histograms that are full, and empty ones to take instead.
#[derive(Debug, Default)]
struct Shelves {
    full: Vec<Histogram<u64>>,
    empty: Vec<Histogram<u64>>,
}

/// Where a sending thread leaves a full histogram and takes an empty one: it never copies nor waits.
#[derive(Debug, Default)]
pub(crate) struct HandOver {
    inner: Mutex<Shelves>,
}

impl HandOver {
    /// Hands over `current` and puts an empty one in its place. Does nothing while the other side is here.
    pub(crate) fn offer(&self, current: &mut Histogram<u64>) {
        if let Ok(mut both) = self.inner.try_lock() {
            let empty = both.empty.pop().unwrap_or_else(histogram);
            both.full.push(std::mem::replace(current, empty));
        }
    }

    /// Adds everything that was handed over to `total`, and returns it as the figures since the last call.
    pub(crate) fn collect(&self, total: &mut Histogram<u64>) -> Histogram<u64> {
        let mut interval = histogram();
        let full = match self.inner.lock() {
            Ok(mut both) => std::mem::take(&mut both.full),
            Err(_) => Vec::new(),
        };
        for mut one in full {
            // Equal bounds: adding cannot fail.
            let _ = interval.add(&one);
            one.reset();
            if let Ok(mut both) = self.inner.lock() {
                both.empty.push(one);
            }
        }
        let _ = total.add(&interval);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_microseconds() {
        let mut h = histogram();
        for ns in (1_000..=1_000_000).step_by(1_000) {
            h.saturating_record(ns);
        }
        let q = Quantiles::of(&h);
        assert!((q.p50 - 500.0).abs() < 1.0, "{q:?}");
        assert!((q.p99 - 990.0).abs() < 2.0, "{q:?}");
        assert!((q.max - 1_000.0).abs() < 1.0, "{q:?}");
        assert_eq!(Quantiles::of(&histogram()), Quantiles::default());
    }

    #[test]
    fn nothing_is_lost_in_the_exchange() {
        let hand_over = HandOver::default();
        let (mut total, mut current) = (histogram(), histogram());
        for round in 1..=3_u64 {
            for ns in 0..round * 10 {
                current.saturating_record(1_000 + ns);
            }
            hand_over.offer(&mut current);
            assert!(current.is_empty());
            assert_eq!(hand_over.collect(&mut total).len(), round * 10);
        }
        assert_eq!(total.len(), 60);
        assert!(hand_over.collect(&mut total).is_empty());
    }

    #[test]
    fn an_endless_wait_counts_as_the_longest() {
        let mut h = histogram();
        h.saturating_record(u64::MAX);
        assert!(Quantiles::of(&h).max >= 119_000_000.0);
    }
}
