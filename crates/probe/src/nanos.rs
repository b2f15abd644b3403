//! Nanoseconds, as far as a reading knows them.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// A time in nanoseconds that was read with a timer of a known error. A reading that the timer cannot tell from nothing is
/// "less than" something, never zero and never negative.
///
/// ```
/// use probe::Nanos;
///
/// assert_eq!(Nanos::new(12.34, 0.5).to_string(), "12.3");
/// assert_eq!(Nanos::new(-0.2, 1.5).to_string(), "< 1.50");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nanos {
    /// A value, above its error.
    Known {
        /// The best estimate, ns.
        ns: f64,
        /// How far the truth may be from it, to either side, ns.
        error_ns: f64,
    },
    /// Less than this, ns: somewhere from nothing up to it.
    Below(f64),
}

impl Nanos {
    /// A reading and how far the truth may be from it. Where that reaches down to nothing, it is [`Nanos::Below`] the
    /// upper end. A negative error counts as none, a negative reading as 0.
    #[must_use]
    pub fn new(ns: f64, error_ns: f64) -> Nanos {
        let (ns, error_ns) = (ns.max(0.0), error_ns.max(0.0));
        if ns > error_ns { Nanos::Known { ns, error_ns } } else { Nanos::Below(ns + error_ns) }
    }

    /// A time without an error, such as one that was computed.
    #[must_use]
    pub fn exact(ns: f64) -> Nanos {
        Nanos::new(ns, 0.0)
    }

    /// Somewhere between two times.
    #[must_use]
    pub fn between(low_ns: f64, high_ns: f64) -> Nanos {
        let ns = f64::midpoint(low_ns.max(0.0), high_ns);
        Nanos::new(ns, high_ns - ns)
    }

    /// The least that it can be, ns.
    #[must_use]
    pub fn low_ns(self) -> f64 {
        match self {
            Nanos::Known { ns, error_ns } => ns - error_ns,
            Nanos::Below(_) => 0.0,
        }
    }

    /// The most that it can be, ns.
    #[must_use]
    pub fn high_ns(self) -> f64 {
        match self {
            Nanos::Known { ns, error_ns } => ns + error_ns,
            Nanos::Below(high_ns) => high_ns,
        }
    }

    /// The middle of what it can be, ns: the value where it is known.
    #[must_use]
    pub fn middle_ns(self) -> f64 {
        f64::midpoint(self.low_ns(), self.high_ns())
    }

    /// Can it not be told from nothing?
    #[must_use]
    pub fn is_below(self) -> bool {
        matches!(self, Nanos::Below(_))
    }

    /// As much, so many times; a negative factor counts as 0.
    #[must_use]
    pub fn times(self, factor: f64) -> Nanos {
        let factor = factor.max(0.0);
        match self {
            Nanos::Known { ns, error_ns } => Nanos::new(ns * factor, error_ns * factor),
            Nanos::Below(high_ns) => Nanos::Below(high_ns * factor),
        }
    }
}

impl Add for Nanos {
    type Output = Nanos;

    /// Errors add up: the same timer made both, so they may well point the same way.
    fn add(self, other: Nanos) -> Nanos {
        Nanos::between(self.low_ns() + other.low_ns(), self.high_ns() + other.high_ns())
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(all: I) -> Nanos {
        all.fold(Nanos::Below(0.0), Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Three figures, or all of those before the point: `1.23`, `12.3`, `1234`, `< 1.50`; `0` only where there was nothing to
    /// read. Pads like a text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Nanos::Known { ns, .. } => three_figures(ns),
            Nanos::Below(0.0) => "0".to_owned(),
            Nanos::Below(high_ns) => format!("< {}", three_figures(high_ns)),
        };
        f.pad(&text)
    }
}

/// A number with three figures, or all of those before the point. What is not 0 never looks like it.
pub(crate) fn three_figures(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        tiny if tiny < 0.000_1 => format!("{number:.0e}"),
        small if small < 0.009_995 => format!("{number:.4}"),
        small if small < 0.999_5 => format!("{number:.3}"),
        small if small < 9.995 => format!("{number:.2}"),
        small if small < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_error_swallows_is_below_it() {
        assert_eq!(Nanos::new(5.0, 1.0), Nanos::Known { ns: 5.0, error_ns: 1.0 });
        assert_eq!(Nanos::new(1.0, 1.0), Nanos::Below(2.0));
        assert_eq!(Nanos::new(-3.0, 1.0), Nanos::Below(1.0), "a reading below nothing is nothing");
        assert_eq!(Nanos::new(5.0, -1.0), Nanos::exact(5.0));
    }

    #[test]
    fn sums_keep_what_may_be() {
        let sum: Nanos = [Nanos::new(5.0, 1.0), Nanos::Below(2.0)].into_iter().sum();
        assert_eq!((sum.low_ns(), sum.middle_ns(), sum.high_ns()), (4.0, 6.0, 8.0));
        assert_eq!([].into_iter().sum::<Nanos>(), Nanos::Below(0.0));
        assert_eq!(Nanos::new(5.0, 1.0).times(10.0), Nanos::new(50.0, 10.0));
        assert!(Nanos::Below(2.0).times(10.0).is_below());
    }

    #[test]
    fn three_figures_are_shown() {
        let shown = |ns| Nanos::exact(ns).to_string();
        assert_eq!(
            [1.234, 9.996, 12.34, 99.96, 1_234.5].map(shown),
            ["1.23", "10.0", "12.3", "100", "1234"]
        );
        assert_eq!(format!("{:>8}", Nanos::Below(1.5)), "  < 1.50");
        assert_eq!(
            [-12.34, 0.0, 0.5, 0.001_2, 1e-7].map(three_figures),
            ["-12.3", "0", "0.500", "0.0012", "1e-7"]
        );
    }
}
