//! Prices: JSON numbers and decimal text to micros and back, exactly.
//!
//! A micro is a millionth of a currency unit. What is finer than a micro is rounded up: a floor is never taken
//! for lower than it is, and a price that a notice reports is never booked below what it says.

/// A floor that cannot be met: it could not be read, is absurdly high, or its currency is no currency.
pub const UNREACHABLE_MICROS: i64 = i64::MAX;

/// Prices end below this: a million currency units for a thousand impressions.
pub const PRICE_MICROS_END: i64 = 1_000_000_000_000;

/// Longest decimal text that is taken for a number.
const TEXT_LEN_MAX: usize = 36;
/// Micros in one.
const ONE: u128 = 1_000_000;

/// What a number means as a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decimal {
    /// Below zero.
    Negative,
    /// In micros, below [`PRICE_MICROS_END`].
    Micros(i64),
    /// At least [`PRICE_MICROS_END`], or not a number.
    Absurd,
}

impl Decimal {
    fn new(micros: u128) -> Decimal {
        match i64::try_from(micros) {
            Ok(micros) if micros < PRICE_MICROS_END => Decimal::Micros(micros),
            _ => Decimal::Absurd,
        }
    }

    /// As a floor: never below zero, unreachable where it is absurd.
    pub(crate) fn as_floor(self) -> i64 {
        match self {
            Decimal::Negative => 0,
            Decimal::Micros(micros) => micros,
            Decimal::Absurd => UNREACHABLE_MICROS,
        }
    }
}

/// A whole number of currency units.
pub(crate) fn of_units(units: i64) -> Decimal {
    match u128::try_from(units) {
        Ok(units) => Decimal::new(units * ONE),
        Err(_) => Decimal::Negative,
    }
}

/// The decimal that a JSON reader turned into this float.
///
/// A multiple of a micro that reads as `value` is what the sender wrote (below 10^12 micros there is at most
/// one). Where there is none, the text had more than six decimals, and the next micro above is the answer.
/// All of it in integers.
pub(crate) fn of_float(value: f64) -> Decimal {
    const FRACTION_BITS: u32 = 52;
    const IMPLICIT: u64 = 1 << FRACTION_BITS;
    const END: f64 = 1_000_000.0;
    if value < 0.0 {
        return Decimal::Negative;
    }
    if value.is_nan() || value >= END {
        return Decimal::Absurd;
    }
    // value = mantissa / 2^shift
    let bits = value.abs().to_bits(); // zero may have a sign
    let (exponent, fraction) = (bits >> FRACTION_BITS, bits & (IMPLICIT - 1));
    let mantissa = if exponent == 0 { fraction } else { fraction | IMPLICIT };
    let shift = 1075 - exponent.max(1);
    if shift > 100 {
        // Below 2^-47: less than a micro.
        return Decimal::new(u128::from(mantissa > 0));
    }
    let scaled = u128::from(mantissa) * ONE;
    let below = scaled >> shift;
    let rest = scaled - (below << shift);
    // One step of the mantissa is `ONE` here, so a text that lies up to half a step below `value` reads as it.
    // Below a power of two the steps are half as wide; a tie goes to the even mantissa.
    let half = if mantissa == IMPLICIT { ONE / 4 } else { ONE / 2 };
    let reads_as_value = rest < half || (rest == half && mantissa % 2 == 0);
    Decimal::new(if reads_as_value { below } else { below + 1 })
}

/// Decimal text, with an optional sign and exponent; `None` where it is no number.
pub(crate) fn of_text(text: &str) -> Option<Decimal> {
    if text.is_empty() || text.len() > TEXT_LEN_MAX {
        return None;
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i16>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut digits = 0_u128;
    for byte in whole.bytes().chain(fraction.bytes()) {
        // 36 digits are below 2^128.
        digits = digits * 10 + u128::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    if negative && digits > 0 {
        return Some(Decimal::Negative);
    }
    // micros = digits * 10^power
    let power = i32::from(exponent) + 6 - i32::try_from(fraction.len()).ok()?;
    Some(scale(digits, power))
}

fn scale(digits: u128, power: i32) -> Decimal {
    if digits == 0 {
        return Decimal::Micros(0);
    }
    let ten = |power: u32| 10_u128.checked_pow(power);
    match (u32::try_from(power), ten(power.unsigned_abs())) {
        (Ok(_), Some(factor)) => digits.checked_mul(factor).map_or(Decimal::Absurd, Decimal::new),
        (Ok(_), None) => Decimal::Absurd,
        (Err(_), Some(divisor)) => Decimal::new(digits.div_ceil(divisor)),
        (Err(_), None) => Decimal::Micros(1),
    }
}

/// Writes a whole number.
pub(crate) fn write_int(out: &mut Vec<u8>, mut value: u64) {
    let mut text = [0; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = digit(value % 10);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

/// Writes micros as a decimal number with no more decimals than it needs.
pub(crate) fn write_micros(out: &mut Vec<u8>, micros: u64) {
    write_int(out, micros / 1_000_000);
    let mut rest = micros % 1_000_000;
    if rest == 0 {
        return;
    }
    out.push(b'.');
    let mut unit = 100_000;
    while rest > 0 {
        out.push(digit(rest / unit));
        rest %= unit;
        unit /= 10;
    }
}

fn digit(value: u64) -> u8 {
    b"0123456789"[usize::try_from(value).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(micros: u64) -> String {
        let mut out = Vec::new();
        write_micros(&mut out, micros);
        String::from_utf8(out).unwrap()
    }

    fn micros(value: f64) -> i64 {
        match of_float(value) {
            Decimal::Micros(micros) => micros,
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn known_prices() {
        for (value, expected) in [
            (0.0, 0),
            (-0.0, 0),
            (0.5, 500_000),
            (1.1, 1_100_000),
            (0.1, 100_000),
            (2.0, 2_000_000),
            (999_999.999_999, 999_999_999_999),
            (0.000_001, 1),
            (0.000_000_1, 1),
            (0.000_001_1, 2),
            (1.000_000_1, 1_000_001),
            (f64::MIN_POSITIVE, 1),
            (f64::from_bits(1), 1),
        ] {
            assert_eq!(micros(value), expected, "{value}");
        }
        for value in [f64::NAN, f64::INFINITY, 1e6, 1e300] {
            assert_eq!(of_float(value), Decimal::Absurd);
        }
        assert_eq!(of_float(-0.01), Decimal::Negative);
        assert_eq!(of_units(3), Decimal::Micros(3_000_000));
        assert_eq!(of_units(-3), Decimal::Negative);
        assert_eq!(of_units(i64::MAX), Decimal::Absurd);
    }

    #[test]
    fn known_texts() {
        for (text, expected) in [
            ("1.25", Some(Decimal::Micros(1_250_000))),
            ("+1.25", Some(Decimal::Micros(1_250_000))),
            (".5", Some(Decimal::Micros(500_000))),
            ("5.", Some(Decimal::Micros(5_000_000))),
            ("1e-3", Some(Decimal::Micros(1_000))),
            ("1.5E2", Some(Decimal::Micros(150_000_000))),
            ("0.0000001", Some(Decimal::Micros(1))),
            ("1e-30000", Some(Decimal::Micros(1))),
            ("0e30000", Some(Decimal::Micros(0))),
            ("1e30000", Some(Decimal::Absurd)),
            ("1000000", Some(Decimal::Absurd)),
            ("-0", Some(Decimal::Micros(0))),
            ("-0.1", Some(Decimal::Negative)),
            ("", None),
            (".", None),
            ("-", None),
            ("1,5", None),
            ("1e", None),
            ("0x10", None),
            ("NaN", None),
            ("1e99999", None),
            ("1234567890123456789012345678901234567", None),
        ] {
            assert_eq!(of_text(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_micro_of_the_first_units_survives() {
        for price in 0..3_000_000 {
            let text = text(price);
            assert_eq!(micros(text.parse().unwrap()).unsigned_abs(), price, "{text}");
        }
    }

    proptest! {
        #[test]
        fn six_decimals_survive_as_text_and_as_float(price in 0_i64..10_000_000_000) {
            let text = text(price.unsigned_abs());
            prop_assert_eq!(of_text(&text), Some(Decimal::Micros(price)));
            prop_assert_eq!(of_float(text.parse().unwrap()), Decimal::Micros(price));
        }

        #[test]
        fn up_to_the_largest_price_too(price in 0_i64..PRICE_MICROS_END) {
            let value: f64 = text(price.unsigned_abs()).parse().unwrap();
            prop_assert_eq!(of_float(value), Decimal::Micros(price));
        }

        /// The shortest decimal of a float and the float itself are the same price: rounded up, exactly.
        #[test]
        fn any_float_is_the_price_of_its_shortest_text(value in 0.0_f64..1_000_000.0) {
            let text = format!("{value}");
            prop_assume!(text.len() <= TEXT_LEN_MAX);
            prop_assert_eq!(Some(of_float(value)), of_text(&text), "{}", text);
        }

        #[test]
        fn neighbours_of_a_price_round_up(price in 1_i64..10_000_000_000) {
            let value: f64 = text(price.unsigned_abs()).parse().unwrap();
            prop_assert_eq!(of_float(value.next_up()), Decimal::Micros(price + 1));
            prop_assert_eq!(of_float(value.next_down()), Decimal::Micros(price));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,40}") {
            let _ = of_text(&text);
        }
    }
}
