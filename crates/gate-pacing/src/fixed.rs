//! Fixed-point arithmetic: what pacing needs instead of floats.
//!
//! A float in the mathematical library may differ by a bit between two machines, and then so would decisions.
//! `Qn` means an integer in units of 1 / 2^n.

/// One in Q32.
pub(crate) const ONE_Q32: u64 = 1 << 32;
/// One in Q62: shares of a plan. A budget of 10^18 times a share is exact to a base unit.
pub(crate) const ONE_Q62: u64 = 1 << 62;

/// log2(e) in Q32, rounded to the nearest.
const LOG2_E_Q32: i128 = 6_196_328_019;
/// Steps of the table of powers.
const STEPS: usize = 64;
const STEPS_LOG2: u32 = 6;
/// `POWERS[i]` is 2^(i/64) in Q32.
const POWERS: [u64; STEPS + 1] = powers();

/// e^x, both in Q32, for x from -20 to +20 (beyond, as at the ends). The relative error is below 2e-5 where
/// the result is 1 or more; below 1 it is at most that and one unit of Q32.
pub(crate) fn exp_q32(x: i64) -> u64 {
    let x = x.clamp(-20 << 32, 20 << 32);
    let exponent = (i128::from(x) * LOG2_E_Q32) >> 32;
    let (whole, part) = (exponent >> 32, narrow_u64(exponent & 0xFFFF_FFFF));
    // The upper six bits of the part choose the step, the lower 26 are the way along it.
    let step = usize::try_from(part >> (32 - STEPS_LOG2)).unwrap_or(0).min(STEPS - 1);
    let along = part & ((1 << (32 - STEPS_LOG2)) - 1);
    let (low, high) = (POWERS[step], POWERS[step + 1]);
    let power = low + (((high - low) * along) >> (32 - STEPS_LOG2));
    // |x| <= 20, so whole is -29 to 28, and power is below 2^34.
    if whole >= 0 { power << whole } else { power >> -whole }
}

/// 2^(i/64) by multiplying roots of two: 2^(1/2), 2^(1/4), ... 2^(1/64), in Q62.
const fn powers() -> [u64; STEPS + 1] {
    let mut table = [0; STEPS + 1];
    let mut i = 0;
    while i <= STEPS {
        let mut power = 1_u128 << 62;
        // The root of 2^125 is sqrt(2) in Q62; the root of a Q124 number is a Q62 number.
        let mut root = (1_u128 << 125).isqrt();
        let mut bit = STEPS >> 1;
        while bit > 0 {
            if (i % STEPS) & bit != 0 {
                power = (power * root) >> 62;
            }
            root = (root << 62).isqrt();
            bit >>= 1;
        }
        if i == STEPS {
            power <<= 1;
        }
        table[i] = to_q32(power);
        i += 1;
    }
    table
}

/// Q62 to Q32, rounded to the nearest.
#[expect(clippy::cast_possible_truncation, reason = "at most 2 in Q32; `TryFrom` is not const")]
const fn to_q32(q62: u128) -> u64 {
    ((q62 + (1 << 29)) >> 30) as u64
}

/// `part / whole` in Q62: at most one, and one where `whole` is nothing.
pub(crate) fn share_q62(part: u64, whole: u64) -> u64 {
    if part >= whole {
        return ONE_Q62;
    }
    let share = (u128::from(part) << 62) / u128::from(whole);
    u64::try_from(share).unwrap_or(ONE_Q62)
}

/// Divides by a number of at most 2^63 many times: as a multiplication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Divisor {
    whole: u64,
    /// 2^95 / whole, rounded down.
    inverse: u128,
}

impl Divisor {
    pub(crate) fn new(whole: u64) -> Divisor {
        Divisor { whole, inverse: (1 << 95) / u128::from(whole.max(1)) }
    }

    pub(crate) fn whole(&self) -> u64 {
        self.whole
    }

    /// `part * times / whole` in Q32, within `-max..=max` wholes, max at most 2^20; anything over nothing is
    /// at an end. Rounded towards zero, off by `max` units of Q32 at most.
    pub(crate) fn ratio_q32(&self, part: i64, times: u32, max: u32) -> i64 {
        let end = i64::from(max) << 32;
        let size = u128::from(part.unsigned_abs()) * u128::from(times);
        let ratio = if size >= u128::from(self.whole) * u128::from(max) {
            end
        } else {
            // Below `max` wholes times 2^95 / whole, which is 2^115.
            i64::try_from((size * self.inverse) >> 63).unwrap_or(end)
        };
        if part < 0 { -ratio } else { ratio }
    }
}

/// `whole * share`, a share in Q62 of at most one, rounded down. What is below nothing counts as nothing.
pub(crate) fn part_q62(whole: i64, share: u64) -> i64 {
    let part = (u128::from(whole.max(0).unsigned_abs()) * u128::from(share)) >> 62;
    // At most the whole.
    i64::try_from(part).unwrap_or(whole)
}

/// `whole * factor`, a factor in Q32, rounded down; the result stays in 64 bits.
pub(crate) fn mul_q32(whole: u64, factor: u64) -> u64 {
    narrow_u64(((u128::from(whole) * u128::from(factor)) >> 32).cast_signed())
}

/// `part / whole`, nearly: with a relative error below 2^-30 where that is below 2^33, and below 2^-20 where it is
/// below 2^42; larger ones stay large. A division of 128 bits takes twice as long.
pub(crate) fn quotient(part: u128, whole: u64) -> u64 {
    let shift = 64_u32.saturating_sub(part.leading_zeros());
    narrow_u64((part >> shift).cast_signed()) / (whole >> shift.min(63)).max(1)
}

/// A number in 64 bits without sign; what does not fit becomes the nearest that does.
pub(crate) fn narrow_u64(wide: i128) -> u64 {
    u64::try_from(wide.max(0)).unwrap_or(u64::MAX)
}

/// A number in 64 bits; what does not fit becomes the nearest that does.
pub(crate) fn narrow_i64(wide: i128) -> i64 {
    i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "floats are what the integers are compared with"
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: f64 = ONE_Q32 as f64;

    #[test]
    fn the_table_is_right() {
        for (i, power) in POWERS.iter().enumerate() {
            let exact = (i as f64 / STEPS as f64).exp2() * ONE;
            assert!((*power as f64 - exact).abs() <= 0.51, "{i}: {power} for {exact}");
        }
    }

    #[test]
    fn some_values_are_pinned() {
        // The same bits on every machine: these were computed on x86-64.
        assert_eq!(exp_q32(0), ONE_Q32);
        let table = [
            (-20, 8),
            (-6, 10_646_162),
            (-1, 1_580_050_710),
            (1, 11_675_083_706),
            (6, 1_732_713_988_864),
        ];
        for (x, expected) in table {
            assert_eq!(exp_q32(x << 32), expected, "{x}");
        }
        assert_eq!(exp_q32(i64::MAX), exp_q32(20 << 32));
        assert_eq!(exp_q32(i64::MIN), exp_q32(-20 << 32));
    }

    proptest! {
        #[test]
        fn close_to_the_real_one(x in -20_i64 << 32..20 << 32) {
            let exact = (x as f64 / ONE).exp() * ONE;
            let error = (exp_q32(x) as f64 - exact).abs();
            prop_assert!(error <= exact * 2e-5 + 1.0, "e^{}: {} for {exact}", x as f64 / ONE, exp_q32(x));
        }

        #[test]
        fn monotone(a in -21_i64 << 32..21 << 32, step in 0_i64..1 << 34) {
            prop_assert!(exp_q32(a) <= exp_q32(a + step));
        }

        #[test]
        fn dividing_by_multiplying(whole in 1_u64..=1 << 63, part: i64, gain in 1_u32..=512, max in 1_u32..100) {
            let (divisor, end) = (Divisor::new(whole), i128::from(max) << 32);
            let exact = ((i128::from(part) * i128::from(gain)) << 32) / i128::from(whole);
            let ratio = |part| i128::from(divisor.ratio_q32(part, gain, max));
            let (found, exact) = (ratio(part), exact.clamp(-end, end));
            prop_assert!((found - exact).abs() <= i128::from(max), "{} for {}", found, exact);
            prop_assert_eq!(found, -ratio(part.saturating_neg()));
            prop_assert!(ratio(part.saturating_add(1)) >= found);
            prop_assert_eq!(i128::from(Divisor::new(0).ratio_q32(part, gain, max)), if part < 0 { -end } else { end });
        }

        #[test]
        fn quotients_are_near(part: u128, shift in 0_u32..127, whole in 1_u64..) {
            let part = part >> shift;
            let (exact, found) = (part / u128::from(whole), u128::from(quotient(part, whole)));
            let near = |bits: u32| found.abs_diff(exact) <= (exact >> bits) + 1;
            prop_assert!(near(30) || exact >= 1 << 33, "{} for {}", found, exact);
            prop_assert!(near(20) || exact >= 1 << 42, "{} for {}", found, exact);
            prop_assert!(found >= exact.min(1 << 42) / 2, "{} for {}", found, exact);
        }

        #[test]
        fn shares_are_exact(part: u64, whole in 1_u64..) {
            let share = share_q62(part, whole);
            prop_assert!(share <= ONE_Q62);
            if part < whole {
                let (low, high) = (u128::from(share) * u128::from(whole), u128::from(part) << 62);
                prop_assert!(low <= high && high < low + u128::from(whole));
            }
        }
    }
}
