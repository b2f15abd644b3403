//! Prices of an auction: integer micros of a currency for a thousand impressions, read from and written as decimal text.

/// The highest price that is believed, in micros: a million a thousand.
pub(crate) const PRICE_MICROS_MAX: i64 = 1_000_000_000_000;
/// Digits of a number that are read at most.
const DIGITS_MAX: usize = 30;
/// The multiplier of one impression, in micros.
pub(crate) const ONE: i64 = 1_000_000;

/// Reads a price from decimal text, exponents allowed; a part of a micro counts as a whole one. `None` for what is no
/// price: a sign, no digits, or more than [`PRICE_MICROS_MAX`].
pub(crate) fn read(text: &str) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(decimals.bytes());
    if !(1..=DIGITS_MAX).contains(&(whole.len() + decimals.len())) {
        return None;
    }
    let mut value = 0_u128;
    for digit in digits {
        value = value * 10 + u128::from(digit.checked_sub(b'0').filter(|d| *d <= 9)?);
    }
    if value == 0 {
        return Some(0);
    }
    let shift = exponent.checked_add(6)?.checked_sub(i32::try_from(decimals.len()).ok()?)?;
    let power = 10_u128.checked_pow(shift.unsigned_abs());
    let micros = match (power, shift < 0) {
        (Some(power), false) => value.checked_mul(power)?,
        (Some(power), true) => value.div_ceil(power),
        (None, false) => return None,
        (None, true) => 1,
    };
    i64::try_from(micros).ok().filter(|micros| *micros <= PRICE_MICROS_MAX)
}

/// A price as decimal text with all six decimals.
pub(crate) fn text(micros: i64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// What one billed bid costs, in micros: its price is for a thousand impressions, it stands for `multiplier_micros`
/// millionths of one, and a part of a micro is paid as a whole one.
pub(crate) fn cost(price_micros: i64, multiplier_micros: i64) -> i64 {
    let product = i128::from(price_micros) * i128::from(multiplier_micros);
    let thousand = i128::from(ONE) * 1_000;
    let up = i128::from(product % thousand > 0);
    i64::try_from(product / thousand + up).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_of_a_price_is_read() {
        for (spelling, micros) in [
            ("2", 2_000_000),
            ("2.0", 2_000_000),
            ("1.234567", 1_234_567),
            ("0.0000001", 1),
            ("1e-05", 10),
            ("15E-1", 1_500_000),
            ("1e-99", 1),
            (".5", 500_000),
            ("0e99", 0),
            ("0", 0),
            ("1e6", 1_000_000_000_000),
        ] {
            assert_eq!(read(spelling), Some(micros), "{spelling}");
        }
        for wrong in
            ["", ".", "-1", "+1", "NaN", "1,5", "1e7", "1e", "9e999", "1e99999999999", "\"1\""]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_part_of_a_micro_is_paid_as_a_whole_one() {
        assert_eq!(cost(2_000_000, ONE), 2_000);
        assert_eq!(cost(2_000_001, ONE), 2_001);
        assert_eq!(cost(1, ONE), 1);
        assert_eq!(cost(0, ONE), 0);
        assert_eq!(
            cost(2_000_000, 12_500_000),
            25_000,
            "a screen that twelve and a half people see"
        );
        assert_eq!(cost(PRICE_MICROS_MAX, PRICE_MICROS_MAX), 1_000_000_000_000_000);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(micros in 0..=PRICE_MICROS_MAX) {
            prop_assert_eq!(read(&text(micros)), Some(micros));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+.eE0-9]{0,40}") {
            let _ = read(&text);
        }
    }
}
