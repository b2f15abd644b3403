//! Units, and amounts as exact decimal text.

use crate::Amount;

/// Decimals of a currency: its base unit is a millionth, whatever its minor unit is (also for JPY).
const CURRENCY_DECIMALS: usize = 6;
/// Decimals a currency is printed with at least.
const CURRENCY_DECIMALS_SHOWN: usize = 2;
/// The four bytes that stand for a count on the wire.
const COUNT_CODE: [u8; 4] = *b"COUN";

/// The active codes of ISO 4217, list one (funds, metals and `XTS` included), as of 2026, in order; without
/// `XXX`, which means that no currency is involved.
#[rustfmt::skip]
const CODES: &[&str] = &[
    "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD", "BIF", "BMD",
    "BND", "BOB", "BOV", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHE", "CHF", "CHW", "CLF",
    "CLP", "CNY", "COP", "COU", "CRC", "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB",
    "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF",
    "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY", "KES", "KGS", "KHR", "KMF", "KPW", "KRW",
    "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT",
    "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MXV", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD",
    "OMR", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD",
    "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS",
    "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "USN", "UYI", "UYU", "UYW", "UZS",
    "VED", "VES", "VND", "VUV", "WST", "XAD", "XAF", "XAG", "XAU", "XBA", "XBB", "XBC", "XBD", "XCD", "XCG",
    "XDR", "XOF", "XPD", "XPF", "XPT", "XSU", "XTS", "XUA", "YER", "ZAR", "ZMW", "ZWG",
];

/// An active currency code of ISO 4217; there is no other way to get one than [`Unit::parse`],
/// [`Unit::from_code`] or [`CurrencyCode::new`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CurrencyCode([u8; 3]);

impl CurrencyCode {
    /// The code of these letters; `None` where ISO 4217 has no active currency of that name.
    #[must_use]
    pub fn new(letters: &str) -> Option<CurrencyCode> {
        let letters: [u8; 3] = letters.as_bytes().try_into().ok()?;
        CurrencyCode::from_letters(letters)
    }

    /// The three letters.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        CODES.iter().find(|code| code.as_bytes() == self.0).copied().unwrap_or("???")
    }

    fn from_letters(letters: [u8; 3]) -> Option<CurrencyCode> {
        CODES.binary_search_by(|code| code.as_bytes().cmp(&letters)).ok()?;
        Some(CurrencyCode(letters))
    }
}

impl std::fmt::Debug for CurrencyCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an [`Amount`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Millionths of a currency.
    Currency(CurrencyCode),
    /// Whole items: keys in stock, tokens, impressions.
    Count,
}

/// A text or code that names no unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is neither three capital letters nor `count`.
    #[error(
        "unit {found:?}: expected three capital letters of ISO 4217 such as \"USD\", or \"count\"{}",
        hint(.found)
    )]
    Shape {
        /// The text that was found, at most its first 16 characters.
        found: String,
    },
    /// Three capital letters that are not an active currency.
    #[error(
        "unit {found:?}: not an active currency code of ISO 4217; use one such as \"USD\" or \"EUR\", \
         or \"count\" for items"
    )]
    Unknown {
        /// The value that was found.
        found: String,
    },
}

/// Proposes the right spelling where only the case is wrong.
fn hint(found: &str) -> String {
    match Unit::parse(&found.to_ascii_uppercase()).or(Unit::parse(&found.to_ascii_lowercase())) {
        Ok(unit) => format!("; did you mean \"{unit}\"?"),
        Err(_) => String::new(),
    }
}

/// A text that is not an amount of the unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseAmountError {
    /// A character that cannot stand there.
    #[error("amount {text:?}: found {found:?} at character {position}, expected {expected}")]
    Character {
        /// The text, at most the first 32 characters of it.
        text: String,
        /// The value that was found.
        found: char,
        /// Where, counted in characters from 1.
        position: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// The text ended too early.
    #[error("amount {text:?}: ends after {position} characters, expected {expected}")]
    End {
        /// The text.
        text: String,
        /// Characters in it.
        position: usize,
        /// What should have followed.
        expected: &'static str,
    },
    /// More digits than 64 bits hold.
    #[error("amount {text:?}: too large, expected at most {max} {unit}")]
    TooLarge {
        /// The text, at most the first 32 characters of it.
        text: String,
        /// The largest amount there is.
        max: String,
        /// The unit.
        unit: Unit,
    },
}

impl Unit {
    /// Reads `USD` (any active code of ISO 4217) or `count`.
    ///
    /// # Errors
    /// [`UnitError`] says what was found and what was expected.
    pub fn parse(text: &str) -> Result<Unit, UnitError> {
        if text == "count" {
            return Ok(Unit::Count);
        }
        if text.len() != 3 || !text.bytes().all(|letter| letter.is_ascii_uppercase()) {
            return Err(UnitError::Shape { found: text.chars().take(16).collect() });
        }
        match CurrencyCode::new(text) {
            Some(code) => Ok(Unit::Currency(code)),
            None => Err(UnitError::Unknown { found: text.to_owned() }),
        }
    }

    /// The four bytes of the wire: the letters and a NUL, or `COUN`.
    #[inline]
    #[must_use]
    pub const fn to_code(self) -> [u8; 4] {
        match self {
            Unit::Currency(CurrencyCode([a, b, c])) => [a, b, c, 0],
            Unit::Count => COUNT_CODE,
        }
    }

    /// Reads the four bytes of the wire; all NUL means that no unit is named: `None`.
    ///
    /// # Errors
    /// [`UnitError`] where the bytes name no unit.
    pub fn from_code(code: [u8; 4]) -> Result<Option<Unit>, UnitError> {
        match code {
            [0, 0, 0, 0] => Ok(None),
            COUNT_CODE => Ok(Some(Unit::Count)),
            [a, b, c, 0] if [a, b, c].iter().all(u8::is_ascii_uppercase) => {
                let unknown = || UnitError::Unknown { found: code[..3].escape_ascii().to_string() };
                let code = CurrencyCode::from_letters([a, b, c]).ok_or_else(unknown)?;
                Ok(Some(Unit::Currency(code)))
            }
            _ => Err(UnitError::Shape { found: code.escape_ascii().to_string() }),
        }
    }

    /// The number of decimals an amount of the unit can have: 6 for a currency, 0 for a count.
    #[must_use]
    pub const fn decimals(self) -> usize {
        match self {
            Unit::Currency(_) => CURRENCY_DECIMALS,
            Unit::Count => 0,
        }
    }

    /// Reads exact decimal text: an optional `-`, digits, and for a currency up to six decimals. No exponent, no
    /// separators, no spaces, no rounding: `0.0000001` is an error.
    ///
    /// ```
    /// use money::{Amount, Unit};
    /// let usd = Unit::parse("USD")?;
    /// assert_eq!(usd.parse_amount("1000.00")?, Amount::new(1_000_000_000));
    /// assert_eq!(
    ///     usd.parse_amount("1,000").unwrap_err().to_string(),
    ///     "amount \"1,000\": found ',' at character 2, expected a digit, a decimal point or the end",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ParseAmountError`] says what was found where, and what was expected.
    pub fn parse_amount(self, text: &str) -> Result<Amount, ParseAmountError> {
        let mut reader = Reader { text, unit: self, base_units: 0, decimals: None, digits: 0 };
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        for (index, found) in digits.chars().enumerate() {
            reader.take(found, index + usize::from(negative))?;
        }
        let magnitude = reader.finish()?;
        let signed = if negative { -magnitude } else { magnitude };
        i64::try_from(signed).map(Amount::new).map_err(|_| self.too_large(text))
    }

    /// The shortest decimal text that [`Unit::parse_amount`] reads back as the same amount; for a currency with
    /// at least two decimals.
    ///
    /// ```
    /// use money::{Amount, Unit};
    /// let usd = Unit::parse("USD")?;
    /// assert_eq!(usd.format(Amount::new(1_000_000_000)), "1000.00");
    /// assert_eq!(usd.format(Amount::new(-1)), "-0.000001");
    /// assert_eq!(Unit::Count.format(Amount::new(12)), "12");
    /// # Ok::<(), money::UnitError>(())
    /// ```
    #[must_use]
    pub fn format(self, amount: Amount) -> String {
        let sign = if amount.get() < 0 { "-" } else { "" };
        let magnitude = amount.get().unsigned_abs();
        if self == Unit::Count {
            return format!("{sign}{magnitude}");
        }
        let (whole, micros) = (magnitude / 1_000_000, magnitude % 1_000_000);
        let mut text = format!("{sign}{whole}.{micros:06}");
        let shown = text.len() - (CURRENCY_DECIMALS - CURRENCY_DECIMALS_SHOWN);
        while text.len() > shown && text.ends_with('0') {
            text.pop();
        }
        text
    }

    fn too_large(self, text: &str) -> ParseAmountError {
        let max = self.format(Amount::new(i64::MAX));
        ParseAmountError::TooLarge { text: shorten(text), max, unit: self }
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Unit::Currency(code) => code.as_str(),
            Unit::Count => "count",
        })
    }
}

impl std::str::FromStr for Unit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Unit, UnitError> {
        Unit::parse(text)
    }
}

/// State of reading one amount.
struct Reader<'a> {
    text: &'a str,
    unit: Unit,
    base_units: i128,
    /// Decimals read so far; `None` before the point.
    decimals: Option<usize>,
    /// Digits read so far.
    digits: usize,
}

impl Reader<'_> {
    /// Takes one character; `index` counts the characters before it.
    fn take(&mut self, found: char, index: usize) -> Result<(), ParseAmountError> {
        match (found.to_digit(10), self.decimals) {
            (Some(_), Some(decimals)) if decimals == self.unit.decimals() => {
                Err(self.unexpected(found, index, "the end: a currency has at most 6 decimals"))
            }
            (Some(digit), decimals) => {
                self.decimals = decimals.map(|decimals| decimals + 1);
                self.digits += 1;
                self.base_units = self.base_units * 10 + i128::from(digit);
                // Far above 64 bits and far below 128: the next digit cannot overflow either.
                if self.base_units > i128::from(u64::MAX) {
                    return Err(self.unit.too_large(self.text));
                }
                Ok(())
            }
            (None, None) if found == '.' && self.digits > 0 && self.unit != Unit::Count => {
                self.decimals = Some(0);
                Ok(())
            }
            _ => Err(self.unexpected(found, index, self.expected())),
        }
    }

    /// The magnitude in base units.
    fn finish(self) -> Result<i128, ParseAmountError> {
        if self.digits == 0 || self.decimals == Some(0) {
            let position = self.text.chars().count();
            let expected = "a digit";
            return Err(ParseAmountError::End { text: shorten(self.text), position, expected });
        }
        let missing = self.unit.decimals() - self.decimals.unwrap_or(0);
        Ok((0..missing).fold(self.base_units, |base_units, _| base_units * 10))
    }

    /// What could stand where the reader is.
    fn expected(&self) -> &'static str {
        match (self.digits, self.decimals, self.unit) {
            (0, _, _) | (_, Some(0), _) => "a digit",
            (_, Some(_), _) => "a digit or the end",
            (_, None, Unit::Count) => "a digit or the end: a count is a whole number",
            (_, None, Unit::Currency(_)) => "a digit, a decimal point or the end",
        }
    }

    fn unexpected(&self, found: char, index: usize, expected: &'static str) -> ParseAmountError {
        let (text, position) = (shorten(self.text), index + 1);
        ParseAmountError::Character { text, found, position, expected }
    }
}

/// At most 32 characters of a stranger's text, for an error.
fn shorten(text: &str) -> String {
    if text.chars().count() <= 32 {
        return text.to_owned();
    }
    text.chars().take(31).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usd() -> Unit {
        Unit::parse("USD").unwrap()
    }

    #[test]
    fn the_code_list_can_be_searched() {
        assert!(CODES.windows(2).all(|pair| pair[0] < pair[1]), "in order and without repeats");
        assert!(CODES.iter().all(|code| CurrencyCode::new(code).unwrap().as_str() == *code));
    }

    #[test]
    fn units_are_read_and_printed() {
        for text in ["USD", "EUR", "JPY", "XTS", "count"] {
            let unit = Unit::parse(text).unwrap();
            assert_eq!(unit.to_string(), text);
            assert_eq!(Unit::from_code(unit.to_code()), Ok(Some(unit)));
        }
        assert_eq!(Unit::from_code([0; 4]), Ok(None));
        assert_eq!(usd().to_code(), *b"USD\0");
        assert_eq!(Unit::Count.to_code(), *b"COUN");
    }

    #[test]
    fn unknown_units_are_explained() {
        let error = |text| Unit::parse(text).unwrap_err().to_string();
        assert!(error("usd").ends_with("did you mean \"USD\"?"), "{}", error("usd"));
        assert!(error("Count").ends_with("did you mean \"count\"?"));
        assert!(error("DEM").contains("not an active currency code of ISO 4217"));
        assert!(error("XXX").contains("not an active"));
        for text in ["", "US", "USDT", "U$D", "€", "COUN"] {
            assert!(matches!(Unit::parse(text), Err(UnitError::Shape { .. })), "{text}");
        }
        for code in [*b"USDX", *b"DEM\0", *b"usd\0", [0, b'U', b'S', b'D'], [0xFF; 4]] {
            assert!(Unit::from_code(code).is_err(), "{code:?}");
        }
    }

    #[test]
    fn amounts_are_exact() {
        let table = [
            ("0", 0),
            ("0.01", 10_000),
            ("1000.00", 1_000_000_000),
            ("007", 7_000_000),
            ("-0.000001", -1),
            ("-0", 0),
            ("9223372036854.775807", i64::MAX),
            ("-9223372036854.775808", i64::MIN),
        ];
        for (text, base_units) in table {
            assert_eq!(usd().parse_amount(text), Ok(Amount::new(base_units)), "{text}");
        }
        assert_eq!(Unit::Count.parse_amount("9223372036854775807"), Ok(Amount::new(i64::MAX)));
    }

    #[test]
    fn wrong_amounts_say_what_where_and_what_was_expected() {
        let error = |unit: Unit, text| unit.parse_amount(text).unwrap_err().to_string();
        let table = [
            ("", "ends after 0 characters, expected a digit"),
            ("-", "ends after 1 characters, expected a digit"),
            ("1.", "ends after 2 characters, expected a digit"),
            (".5", "found '.' at character 1, expected a digit"),
            ("+1", "found '+' at character 1, expected a digit"),
            ("--1", "found '-' at character 2, expected a digit"),
            (" 1", "found ' ' at character 1, expected a digit"),
            ("1e6", "found 'e' at character 2, expected a digit, a decimal point or the end"),
            ("1.5.0", "found '.' at character 4, expected a digit or the end"),
            ("1.1234567", "found '7' at character 9, expected the end: a currency has at most 6"),
            ("٣", "found '٣' at character 1, expected a digit"),
            ("9223372036854.775808", "too large, expected at most 9223372036854.775807 USD"),
        ];
        for (text, expected) in table {
            let found = error(usd(), text);
            assert!(found.contains(expected), "{found}");
        }
        let found = error(Unit::Count, "1.5");
        assert!(
            found.ends_with("expected a digit or the end: a count is a whole number"),
            "{found}"
        );
        let long = "9".repeat(1_000_000);
        assert!(error(usd(), &long).len() < 200, "a stranger's text is not echoed whole");
    }

    proptest! {
        #[test]
        fn text_round_trips(base_units: i64) {
            for unit in [usd(), Unit::Count] {
                let text = unit.format(Amount::new(base_units));
                prop_assert_eq!(unit.parse_amount(&text), Ok(Amount::new(base_units)));
            }
        }

        #[test]
        fn currency_text_is_the_shortest(base_units: i64) {
            let text = usd().format(Amount::new(base_units));
            let decimals = text.len() - text.find('.').unwrap() - 1;
            prop_assert!(decimals == 2 || (decimals > 2 && !text.ends_with('0')), "{}", text);
        }

        #[test]
        fn any_text_is_answered(text in "\\PC*") {
            let (parsed, unit) = (usd().parse_amount(&text), Unit::parse(&text));
            if let Ok(amount) = parsed {
                prop_assert_eq!(usd().parse_amount(&usd().format(amount)), Ok(amount));
            }
            prop_assert!(unit.is_err() || unit.unwrap().to_string() == text);
        }

        #[test]
        fn near_amounts_are_answered(text in "-?[0-9]{0,22}\\.?[0-9]{0,8}") {
            let exact = || -> Option<i64> {
                let digits = text.strip_prefix('-').unwrap_or(&text);
                let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
                if whole.is_empty() || part.is_empty() || part.len() > 6 {
                    return None;
                }
                let micros: i128 = format!("{whole}{part:0<6}").parse().ok()?;
                i64::try_from(if text.starts_with('-') { -micros } else { micros }).ok()
            };
            prop_assert_eq!(usd().parse_amount(&text).ok().map(Amount::get), exact());
        }
    }
}
