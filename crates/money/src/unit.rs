//! Units, and amounts as exact decimal text.

use crate::{Amount, Rounding};

/// Decimals of a currency in micros: its base unit is a millionth, whatever its minor unit is (also for JPY).
const MICROS_DECIMALS: usize = 6;
/// Decimals of a currency in nanos.
const NANOS_DECIMALS: usize = 9;
/// What follows a currency's letters where its base unit is a billionth.
const NANOS_LETTER: u8 = b'n';
/// Base units of a currency in nanos that one base unit of the same currency in micros is.
const NANOS_A_MICRO: i64 = 1_000;
/// Decimals a currency is printed with at least.
const CURRENCY_DECIMALS_SHOWN: usize = 2;
/// The four bytes that stand for a count on the wire.
const COUNT_CODE: [u8; 4] = *b"COUN";

/// The active codes of ISO 4217, list one (funds, metals and `XTS` included), as of 2026, in order; without
/// `XXX`, which means that no currency is involved. Each with the letter of nanos behind it, so that the names of both scales
/// are cut from one text.
#[rustfmt::skip]
const CODES: &[&str] = &[
    "AEDn", "AFNn", "ALLn", "AMDn", "AOAn", "ARSn", "AUDn", "AWGn", "AZNn", "BAMn", "BBDn", "BDTn", "BHDn", "BIFn", "BMDn",
    "BNDn", "BOBn", "BOVn", "BRLn", "BSDn", "BTNn", "BWPn", "BYNn", "BZDn", "CADn", "CDFn", "CHEn", "CHFn", "CHWn", "CLFn",
    "CLPn", "CNYn", "COPn", "COUn", "CRCn", "CUPn", "CVEn", "CZKn", "DJFn", "DKKn", "DOPn", "DZDn", "EGPn", "ERNn", "ETBn",
    "EURn", "FJDn", "FKPn", "GBPn", "GELn", "GHSn", "GIPn", "GMDn", "GNFn", "GTQn", "GYDn", "HKDn", "HNLn", "HTGn", "HUFn",
    "IDRn", "ILSn", "INRn", "IQDn", "IRRn", "ISKn", "JMDn", "JODn", "JPYn", "KESn", "KGSn", "KHRn", "KMFn", "KPWn", "KRWn",
    "KWDn", "KYDn", "KZTn", "LAKn", "LBPn", "LKRn", "LRDn", "LSLn", "LYDn", "MADn", "MDLn", "MGAn", "MKDn", "MMKn", "MNTn",
    "MOPn", "MRUn", "MURn", "MVRn", "MWKn", "MXNn", "MXVn", "MYRn", "MZNn", "NADn", "NGNn", "NIOn", "NOKn", "NPRn", "NZDn",
    "OMRn", "PABn", "PENn", "PGKn", "PHPn", "PKRn", "PLNn", "PYGn", "QARn", "RONn", "RSDn", "RUBn", "RWFn", "SARn", "SBDn",
    "SCRn", "SDGn", "SEKn", "SGDn", "SHPn", "SLEn", "SOSn", "SRDn", "SSPn", "STNn", "SVCn", "SYPn", "SZLn", "THBn", "TJSn",
    "TMTn", "TNDn", "TOPn", "TRYn", "TTDn", "TWDn", "TZSn", "UAHn", "UGXn", "USDn", "USNn", "UYIn", "UYUn", "UYWn", "UZSn",
    "VEDn", "VESn", "VNDn", "VUVn", "WSTn", "XADn", "XAFn", "XAGn", "XAUn", "XBAn", "XBBn", "XBCn", "XBDn", "XCDn", "XCGn",
    "XDRn", "XOFn", "XPDn", "XPFn", "XPTn", "XSUn", "XTSn", "XUAn", "YERn", "ZARn", "ZMWn", "ZWGn",
];

/// Words of [`KNOWN`]: a bit for every text of three capital letters.
const KNOWN_WORDS: usize = (26 * 26 * 26_usize).div_ceil(64);

/// The same codes as bits: doors look one up for every ask, and a search guesses wrong at each of its eight steps.
static KNOWN: [u64; KNOWN_WORDS] = {
    let (mut known, mut at) = ([0; KNOWN_WORDS], 0);
    while at < CODES.len() {
        let [a, b, c, _] = *CODES[at].as_bytes() else { panic!("codes have four bytes") };
        let Some(place) = place([a, b, c]) else { panic!("codes begin with three capitals") };
        known[place / 64] |= 1 << (place % 64);
        at += 1;
    }
    known
};

/// The bit of these letters; `None` where they are no capitals.
const fn place(letters: [u8; 3]) -> Option<usize> {
    let [a, b, c] = letters;
    if !(a.is_ascii_uppercase() && b.is_ascii_uppercase() && c.is_ascii_uppercase()) {
        return None;
    }
    Some(((a - b'A') as usize * 26 + (b - b'A') as usize) * 26 + (c - b'A') as usize)
}

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
        &self.with_letter()[..3]
    }

    fn with_letter(self) -> &'static str {
        CODES.iter().find(|code| code.as_bytes()[..3] == self.0).copied().unwrap_or("???n")
    }

    fn from_letters(letters: [u8; 3]) -> Option<CurrencyCode> {
        let place = place(letters)?;
        (KNOWN[place / 64] >> (place % 64) & 1 == 1).then_some(CurrencyCode(letters))
    }
}

impl std::fmt::Debug for CurrencyCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The part of a currency that one base unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scale {
    /// A millionth: the unit is written as the currency's letters, `USD`.
    Micros,
    /// A billionth: the unit is written with an `n` behind the letters, `USDn`. For work whose price is a few micros, where each
    /// rounding up would overcharge.
    Nanos,
}

/// What an [`Amount`] counts. Two units are never mixed, also not two scales of one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A currency at a scale.
    Currency(CurrencyCode, Scale),
    /// Whole items: keys in stock, tokens, impressions.
    Count,
}

/// A text or code that names no unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is neither three capital letters, with an `n` or without, nor `count`.
    #[error(
        "unit {found:?}: expected three capital letters of ISO 4217 such as \"USD\" (in micros) or \"USDn\" (in nanos), or \"count\"{}",
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
    let (upper, lower) = (found.to_ascii_uppercase(), found.to_ascii_lowercase());
    // A fourth letter can only be the scale's.
    let nanos = upper.strip_suffix('N').map(|letters| format!("{letters}n")).unwrap_or_default();
    let meant = [upper, nanos, lower].iter().find_map(|text| Unit::parse(text).ok());
    meant.map_or(String::new(), |unit| format!("; did you mean \"{unit}\"?"))
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
    /// Reads `USD` (any active code of ISO 4217, in micros), `USDn` (the same in nanos) or `count`.
    ///
    /// # Errors
    /// [`UnitError`] says what was found and what was expected.
    pub fn parse(text: &str) -> Result<Unit, UnitError> {
        if text == "count" {
            return Ok(Unit::Count);
        }
        let (letters, scale) = match text.strip_suffix(char::from(NANOS_LETTER)) {
            Some(letters) => (letters, Scale::Nanos),
            None => (text, Scale::Micros),
        };
        if letters.len() != 3 || !letters.bytes().all(|letter| letter.is_ascii_uppercase()) {
            return Err(UnitError::Shape { found: text.chars().take(16).collect() });
        }
        match CurrencyCode::new(letters) {
            Some(code) => Ok(Unit::Currency(code, scale)),
            None => Err(UnitError::Unknown { found: text.to_owned() }),
        }
    }

    /// Its name, as [`Unit::parse`] reads it: `USD`, `USDn`, `count`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Currency(code, Scale::Micros) => &code.with_letter()[..3],
            Unit::Currency(code, Scale::Nanos) => code.with_letter(),
            Unit::Count => "count",
        }
    }

    /// The four bytes of the wire: the letters and a NUL, the letters and an `n`, or `COUN`.
    #[inline]
    #[must_use]
    pub const fn to_code(self) -> [u8; 4] {
        match self {
            Unit::Currency(CurrencyCode([a, b, c]), Scale::Micros) => [a, b, c, 0],
            Unit::Currency(CurrencyCode([a, b, c]), Scale::Nanos) => [a, b, c, NANOS_LETTER],
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
            [a, b, c, last @ (0 | NANOS_LETTER)]
                if [a, b, c].iter().all(u8::is_ascii_uppercase) =>
            {
                let unknown = || UnitError::Unknown { found: code[..3].escape_ascii().to_string() };
                let code = CurrencyCode::from_letters([a, b, c]).ok_or_else(unknown)?;
                let scale = if last == NANOS_LETTER { Scale::Nanos } else { Scale::Micros };
                Ok(Some(Unit::Currency(code, scale)))
            }
            _ => Err(UnitError::Shape { found: code.escape_ascii().to_string() }),
        }
    }

    /// The number of decimals an amount of the unit can have: 6 for a currency in micros, 9 in nanos, 0 for a count.
    #[must_use]
    pub const fn decimals(self) -> usize {
        match self {
            Unit::Currency(_, Scale::Micros) => MICROS_DECIMALS,
            Unit::Currency(_, Scale::Nanos) => NANOS_DECIMALS,
            Unit::Count => 0,
        }
    }

    /// The currency, whatever the scale; `None` for a count.
    #[must_use]
    pub const fn currency(self) -> Option<CurrencyCode> {
        match self {
            Unit::Currency(code, _) => Some(code),
            Unit::Count => None,
        }
    }

    /// An amount of this unit in `to`, where both are one currency: exact from micros to nanos, rounded as said from nanos to
    /// micros. Spend rounds up and limits round down; [`Unit::spend_in`] and [`Unit::limit_in`] do. `None` where they are two
    /// currencies or a count and a currency, or where the result does not fit 64 bits.
    #[must_use]
    pub fn amount_in(self, amount: Amount, to: Unit, rounding: Rounding) -> Option<Amount> {
        match (self, to) {
            _ if self == to => Some(amount),
            (Unit::Currency(one, Scale::Micros), Unit::Currency(other, Scale::Nanos))
                if one == other =>
            {
                amount.get().checked_mul(NANOS_A_MICRO).map(Amount::new)
            }
            (Unit::Currency(one, Scale::Nanos), Unit::Currency(other, Scale::Micros))
                if one == other =>
            {
                amount.checked_mul_ratio(1, NANOS_A_MICRO.unsigned_abs(), rounding)
            }
            _ => None,
        }
    }

    /// What was spent or is asked for, in `to`: never less than it was. `None` as [`Unit::amount_in`].
    ///
    /// ```
    /// use money::{Amount, Unit};
    /// let (usd, nanos) = (Unit::parse("USD")?, Unit::parse("USDn")?);
    /// assert_eq!(nanos.spend_in(Amount::new(5_400), usd), Some(Amount::new(6)));
    /// assert_eq!(nanos.limit_in(Amount::new(5_400), usd), Some(Amount::new(5)));
    /// assert_eq!(usd.spend_in(Amount::new(6), nanos), Some(Amount::new(6_000)));
    /// # Ok::<(), money::UnitError>(())
    /// ```
    #[must_use]
    pub fn spend_in(self, amount: Amount, to: Unit) -> Option<Amount> {
        self.amount_in(amount, to, Rounding::Up)
    }

    /// What may be spent or is left, in `to`: never more than it was. `None` as [`Unit::amount_in`].
    #[must_use]
    pub fn limit_in(self, amount: Amount, to: Unit) -> Option<Amount> {
        self.amount_in(amount, to, Rounding::Down)
    }

    /// Reads exact decimal text: an optional `-`, digits, and for a currency up to six decimals, nine in nanos. No exponent, no
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
        self.format_sum(amount.get().into())
    }

    /// Writes a sum of amounts, which may have more than 64 bits, in the same form.
    #[must_use]
    pub fn format_sum(self, base_units: i128) -> String {
        let sign = if base_units < 0 { "-" } else { "" };
        let magnitude = base_units.unsigned_abs();
        if self == Unit::Count {
            return format!("{sign}{magnitude}");
        }
        let decimals = self.decimals();
        let one = (0..decimals).fold(1, |one, _| one * 10);
        let (whole, part) = (magnitude / one, magnitude % one);
        let mut text = format!("{sign}{whole}.{part:0decimals$}");
        let shown = text.len() - (decimals - CURRENCY_DECIMALS_SHOWN);
        while text.len() > shown && text.ends_with('0') {
            text.pop();
        }
        text
    }

    /// What an amount with too many decimals is told.
    const fn decimals_expected(self) -> &'static str {
        match self {
            Unit::Currency(_, Scale::Micros) => {
                "the end: a currency in micros has at most 6 decimals"
            }
            Unit::Currency(_, Scale::Nanos) => {
                "the end: a currency in nanos has at most 9 decimals"
            }
            Unit::Count => "the end: a count is a whole number",
        }
    }

    fn too_large(self, text: &str) -> ParseAmountError {
        let max = self.format(Amount::new(i64::MAX));
        ParseAmountError::TooLarge { text: shorten(text), max, unit: self }
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
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
                Err(self.unexpected(found, index, self.unit.decimals_expected()))
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
            (_, None, Unit::Currency(..)) => "a digit, a decimal point or the end",
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

    fn nanos() -> Unit {
        Unit::parse("USDn").unwrap()
    }

    #[test]
    fn codes_are_those_of_the_list_and_no_others() {
        assert!(CODES.windows(2).all(|pair| pair[0] < pair[1]), "in order and without repeats");
        let mut known = Vec::new();
        for text in 0..128 * 128 * 128_u32 {
            let letters = [text >> 14, text >> 7, text].map(|byte| byte.to_le_bytes()[0] & 127);
            known.extend(CurrencyCode::from_letters(letters));
        }
        let listed: Vec<&str> = CODES.iter().map(|code| &code[..3]).collect();
        assert_eq!(known.iter().map(CurrencyCode::as_str).collect::<Vec<_>>(), listed);
        assert!(CurrencyCode::from_letters([b'U', b'S', 0xc4]).is_none());
    }

    #[test]
    fn units_are_read_and_printed() {
        for text in ["USD", "USDn", "EUR", "JPY", "JPYn", "XTS", "count"] {
            let unit = Unit::parse(text).unwrap();
            assert_eq!(unit.to_string(), text);
            assert_eq!(Unit::from_code(unit.to_code()), Ok(Some(unit)));
        }
        assert_eq!(Unit::from_code([0; 4]), Ok(None));
        assert_eq!(usd().to_code(), *b"USD\0");
        assert_eq!(nanos().to_code(), *b"USDn");
        assert_ne!(usd(), nanos(), "two scales of one currency are two units");
        assert_eq!(usd().currency(), nanos().currency());
        assert_eq!(size_of::<Option<Unit>>(), 4, "a unit is compared as one word");
        assert_eq!(Unit::Count.to_code(), *b"COUN");
    }

    #[test]
    fn unknown_units_are_explained() {
        let error = |text| Unit::parse(text).unwrap_err().to_string();
        assert!(error("usd").ends_with("did you mean \"USD\"?"), "{}", error("usd"));
        assert!(error("usdn").ends_with("did you mean \"USDn\"?"), "{}", error("usdn"));
        assert!(error("USDN").ends_with("did you mean \"USDn\"?"), "{}", error("USDN"));
        assert!(error("DEMn").contains("not an active currency code of ISO 4217"));
        assert!(error("Count").ends_with("did you mean \"count\"?"));
        assert!(error("DEM").contains("not an active currency code of ISO 4217"));
        assert!(error("XXX").contains("not an active"));
        for text in ["", "n", "US", "USn", "USDT", "USDnn", "U$D", "€", "COUN", "countn"] {
            assert!(matches!(Unit::parse(text), Err(UnitError::Shape { .. })), "{text}");
        }
        for code in
            [*b"USDX", *b"USDN", *b"DEM\0", *b"DEMn", *b"usd\0", [0, b'U', b'S', b'D'], [0xFF; 4]]
        {
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
        let table = [
            ("0.0000054", 5_400),
            ("0.000000001", 1),
            ("1000.00", 1_000_000_000_000),
            ("9223372036.854775807", i64::MAX),
            ("-9223372036.854775808", i64::MIN),
        ];
        for (text, base_units) in table {
            assert_eq!(nanos().parse_amount(text), Ok(Amount::new(base_units)), "{text}");
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
            (
                "1.1234567",
                "found '7' at character 9, expected the end: a currency in micros has at",
            ),
            ("٣", "found '٣' at character 1, expected a digit"),
            ("9223372036854.775808", "too large, expected at most 9223372036854.775807 USD"),
        ];
        for (text, expected) in table {
            let found = error(usd(), text);
            assert!(found.contains(expected), "{found}");
        }
        let found = error(nanos(), "1.0000000001");
        assert!(found.ends_with("the end: a currency in nanos has at most 9 decimals"), "{found}");
        assert!(found.contains("found '1' at character 12"), "{found}");
        let found = error(nanos(), "9223372036.854775808");
        assert!(found.ends_with("expected at most 9223372036.854775807 USDn"), "{found}");
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
            for unit in [usd(), nanos(), Unit::Count] {
                let text = unit.format(Amount::new(base_units));
                prop_assert_eq!(unit.parse_amount(&text), Ok(Amount::new(base_units)));
            }
        }

        #[test]
        fn currency_text_is_the_shortest(base_units: i64) {
            for unit in [usd(), nanos()] {
                let text = unit.format(Amount::new(base_units));
                let decimals = text.len() - text.find('.').unwrap() - 1;
                prop_assert!(decimals == 2 || (decimals > 2 && !text.ends_with('0')), "{}", text);
            }
        }

        #[test]
        fn scales_convert_exactly_or_against_overspend(base_units: i64) {
            let amount = Amount::new(base_units);
            let exact = i128::from(base_units);
            let up = usd().spend_in(amount, nanos()).map(Amount::get);
            prop_assert_eq!(up, i64::try_from(exact * 1_000).ok());
            prop_assert_eq!(usd().limit_in(amount, nanos()).map(Amount::get), up);
            let spend = i128::from(nanos().spend_in(amount, usd()).unwrap().get()) * 1_000;
            prop_assert!((exact..exact + 1_000).contains(&spend), "{} of {}", spend, exact);
            let limit = i128::from(nanos().limit_in(amount, usd()).unwrap().get()) * 1_000;
            prop_assert!((exact - 999..=exact).contains(&limit), "{} of {}", limit, exact);
            if let Some(there) = usd().spend_in(amount, nanos()) {
                prop_assert_eq!(nanos().spend_in(there, usd()), Some(amount));
                prop_assert_eq!(nanos().limit_in(there, usd()), Some(amount));
            }
            let eur = Unit::parse("EURn").unwrap();
            for (from, to) in [(usd(), eur), (nanos(), eur), (usd(), Unit::Count), (Unit::Count, nanos())] {
                prop_assert_eq!(from.amount_in(amount, to, Rounding::Up), None);
            }
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
