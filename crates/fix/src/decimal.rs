//! Prices, quantities and amounts: exact, without floats.

use std::cmp::Ordering;
use std::fmt;

/// Digits that fit into a mantissa whatever they are; also the most places behind the point.
const DIGITS_MAX: usize = 18;

/// A decimal number: `mantissa / 10^places`, exactly. Equal values are equal, whatever zeros they were written with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    mantissa: i64,
    places: u8,
}

/// Why a value is no [`Decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// Something else than an optional `-`, digits and at most one point; no digits; a `+`, an exponent, a space.
    #[error("no decimal number: an optional -, digits and at most one point are expected")]
    Form,
    /// More digits than are kept exactly.
    #[error("more than 18 digits, or more than 18 of them behind the point")]
    TooLong,
}

impl Decimal {
    /// Returns `mantissa / 10^places`; `None` above 18 places.
    #[must_use]
    pub fn new(mantissa: i64, places: u8) -> Option<Decimal> {
        (usize::from(places) <= DIGITS_MAX).then_some(Decimal { mantissa, places })
    }

    /// Reads a value of the types float, Qty, Price, PriceOffset, Amt and Percentage (FIX 4.4 volume 1, "Data types"): `23`, `-23.50`,
    /// `.5`, `00023.`; zeros that change nothing do not count as digits.
    ///
    /// # Errors
    /// See [`DecimalError`].
    pub fn parse(text: &[u8]) -> Result<Decimal, DecimalError> {
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let (mantissa, places) =
            if digits.len() <= DIGITS_MAX { short(digits)? } else { long(digits)? };
        Ok(Decimal { mantissa: if negative { -mantissa } else { mantissa }, places })
    }

    /// Returns all digits as one number.
    #[must_use]
    pub fn mantissa(self) -> i64 {
        self.mantissa
    }

    /// Returns how many of the digits stand behind the point, 0 to 18.
    #[must_use]
    pub fn places(self) -> u8 {
        self.places
    }

    /// Returns the value times `10^places` as a whole number, `None` if digits other than 0 would be lost: `12.34` is 12,340 at 3 places
    /// and nothing at 1. `places` is at most 18, otherwise the answer is `None`.
    #[must_use]
    pub fn at_places(self, places: u8) -> Option<i128> {
        if usize::from(places) > DIGITS_MAX {
            return None;
        }
        let mantissa = i128::from(self.mantissa);
        if places >= self.places {
            return Some(mantissa * power(places - self.places));
        }
        let divisor = power(self.places - places);
        (mantissa % divisor == 0).then(|| mantissa / divisor)
    }
}

/// At most 18 characters: no number can overflow.
fn short(text: &[u8]) -> Result<(i64, u8), DecimalError> {
    let (mut mantissa, mut digits, mut point) = (0_i64, 0_u8, None);
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + i64::from(byte - b'0');
                digits += 1;
            }
            b'.' if point.is_none() => point = Some(digits),
            _ => return Err(DecimalError::Form),
        }
    }
    if digits == 0 {
        return Err(DecimalError::Form);
    }
    Ok((mantissa, point.map_or(0, |before| digits - before)))
}

/// The slow road: drops the zeros that change nothing.
#[cold]
fn long(text: &[u8]) -> Result<(i64, u8), DecimalError> {
    let mut halves = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    if !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(DecimalError::Form);
    }
    let whole = &whole[whole.iter().take_while(|digit| **digit == b'0').count()..];
    let zeros = fraction.iter().rev().take_while(|digit| **digit == b'0').count();
    let fraction = &fraction[..fraction.len() - zeros];
    let digits = whole.iter().chain(fraction).skip_while(|digit| **digit == b'0');
    if digits.count() > DIGITS_MAX || fraction.len() > DIGITS_MAX {
        return Err(DecimalError::TooLong);
    }
    let mantissa =
        whole.iter().chain(fraction).fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Ok((mantissa, u8::try_from(fraction.len()).map_err(|_| DecimalError::TooLong)?))
}

fn power(places: u8) -> i128 {
    10_i128.pow(u32::from(places))
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        // 2^63 * 10^18 is below 2^127.
        let left = i128::from(self.mantissa) * power(other.places);
        left.cmp(&(i128::from(other.mantissa) * power(self.places)))
    }
}

impl fmt::Display for Decimal {
    /// Writes the value with all its places: `-0.50`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let (magnitude, scale) = (i128::from(self.mantissa).abs(), power(self.places));
        write!(f, "{sign}{}", magnitude / scale)?;
        if self.places == 0 {
            return Ok(());
        }
        write!(f, ".{:0places$}", magnitude % scale, places = usize::from(self.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_of_the_specification_is_read() {
        for (text, mantissa, places) in [
            ("0", 0, 0),
            ("23", 23, 0),
            ("23.23", 2323, 2),
            ("23.0000", 230_000, 4),
            ("-23.5", -235, 1),
            ("00023.23", 2323, 2),
            ("23.", 23, 0),
            (".5", 5, 1),
            ("-.5", -5, 1),
            ("002000.00", 200_000, 2),
            ("-0", 0, 0),
            ("999999999999999999", 999_999_999_999_999_999, 0),
            ("0.000000000000000001", 1, 18),
            ("000000000000000000000012.500000000000000000000", 125, 1),
            ("-00000000000000000000", 0, 0),
        ] {
            let read = Decimal::parse(text.as_bytes()).unwrap();
            assert_eq!((read.mantissa(), read.places()), (mantissa, places), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let long =
            ["", "-", ".", "-.", "+1", "1e5", "1,5", " 1", "1 ", "1.2.3", "--1", "0x10", "1-"];
        for text in long {
            assert_eq!(Decimal::parse(text.as_bytes()), Err(DecimalError::Form), "{text}");
        }
        for text in ["+1111111111111111111", "1.1111111111111111111.1", "1111111111111111111e5"] {
            assert_eq!(Decimal::parse(text.as_bytes()), Err(DecimalError::Form), "{text}");
        }
        for text in ["1000000000000000000", "0.0000000000000000001", "12345678901.1234567891"] {
            assert_eq!(Decimal::parse(text.as_bytes()), Err(DecimalError::TooLong), "{text}");
        }
    }

    #[test]
    fn scaling_loses_nothing() {
        let price = Decimal::parse(b"12.340").unwrap();
        assert_eq!(price.at_places(3), Some(12_340));
        assert_eq!(price.at_places(6), Some(12_340_000));
        assert_eq!(price.at_places(2), Some(1_234));
        assert_eq!(price.at_places(1), None);
        assert_eq!(price.at_places(19), None);
        assert_eq!(Decimal::new(1, 19), None);
        let least = Decimal::new(i64::MIN, 0).unwrap();
        assert_eq!(least.at_places(18), Some(i128::from(i64::MIN) * power(18)));
        assert_eq!(least.to_string(), "-9223372036854775808");
    }

    proptest! {
        #[test]
        fn text_and_back_is_the_same_value(mantissa in -999_999_999_999_999_999_i64..=999_999_999_999_999_999, places in 0_u8..=18) {
            let value = Decimal::new(mantissa, places).unwrap();
            let text = value.to_string();
            prop_assert_eq!(Decimal::parse(text.as_bytes()).unwrap(), value, "{}", text);
            let zeros = if places == 0 { format!("{text}.000") } else { format!("{text}000") };
            prop_assert_eq!(Decimal::parse(zeros.as_bytes()).unwrap(), value);
        }

        #[test]
        fn any_bytes_are_judged(text in "[-+.0-9e]{0,40}") {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let unsigned = text.strip_prefix('-').unwrap_or(&text);
            let form = digits > 0
                && unsigned.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
                && unsigned.bytes().filter(|byte| *byte == b'.').count() <= 1;
            match Decimal::parse(text.as_bytes()) {
                Err(DecimalError::Form) => prop_assert!(!form, "{}", text),
                Err(DecimalError::TooLong) => prop_assert!(form && digits > 18),
                Ok(_) => prop_assert!(form),
            }
        }
    }
}
