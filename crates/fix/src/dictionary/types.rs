//! Types of fields, and the forms of their values.

use crate::decimal::{Decimal, DecimalError};
use crate::time::{Timestamp, days, time_of_day};

/// The type of a field, as far as the form of its values goes. Source: FIX 4.4 volume 1 and FIX 5.0 SP2 volume 1, "Data types".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Any characters: String, Exchange, Currency, Country, Language and what is not listed here.
    Text,
    /// One character.
    Char,
    /// `Y` or `N`.
    Boolean,
    /// A whole number, perhaps negative.
    Int,
    /// A whole number that is not negative: SeqNum, NumInGroup, TagNum.
    Count,
    /// The length of the data field behind it.
    Length,
    /// A decimal number: float, Qty, Price, PriceOffset, Amt, Percentage.
    Decimal,
    /// One or more single characters with spaces between them.
    Characters,
    /// One or more words with spaces between them.
    Words,
    /// `YYYYMMDD-HH:MM:SS` with a fraction or none.
    UtcTimestamp,
    /// `HH:MM:SS` with a fraction or none.
    UtcTime,
    /// `YYYYMMDD`: UTCDateOnly, LocalMktDate.
    Date,
    /// `YYYYMM`, `YYYYMMDD` or `YYYYMMwN`.
    MonthYear,
    /// 1 to 31.
    DayOfMonth,
    /// Any bytes, as many as the field before it says.
    Data,
}

impl FieldType {
    /// Returns the type of a name as specifications and dictionaries write it; an unknown name is [`FieldType::Text`].
    #[must_use]
    pub fn named(name: &str) -> FieldType {
        match name {
            "CHAR" => FieldType::Char,
            "BOOLEAN" => FieldType::Boolean,
            "INT" => FieldType::Int,
            "SEQNUM" | "NUMINGROUP" | "TAGNUM" => FieldType::Count,
            "LENGTH" => FieldType::Length,
            "FLOAT" | "QTY" | "QUANTITY" | "PRICE" | "PRICEOFFSET" | "AMT" | "PERCENTAGE" => {
                FieldType::Decimal
            }
            "MULTIPLECHARVALUE" => FieldType::Characters,
            "MULTIPLEVALUESTRING" | "MULTIPLESTRINGVALUE" => FieldType::Words,
            "UTCTIMESTAMP" | "TIME" => FieldType::UtcTimestamp,
            "UTCTIMEONLY" => FieldType::UtcTime,
            "UTCDATE" | "UTCDATEONLY" | "LOCALMKTDATE" | "DATE" => FieldType::Date,
            "MONTHYEAR" => FieldType::MonthYear,
            "DAYOFMONTH" => FieldType::DayOfMonth,
            "DATA" | "XMLDATA" => FieldType::Data,
            _ => FieldType::Text,
        }
    }

    /// Reports whether a value has the form of the type. An empty one never has, but as text or data.
    #[must_use]
    pub fn fits(self, value: &[u8]) -> bool {
        match self {
            FieldType::Text | FieldType::Data => true,
            FieldType::Char => value.len() == 1,
            FieldType::Boolean => matches!(value, b"Y" | b"N"),
            FieldType::Int => is_number(value.strip_prefix(b"-").unwrap_or(value)),
            FieldType::Count | FieldType::Length => is_number(value),
            FieldType::Decimal => !matches!(Decimal::parse(value), Err(DecimalError::Form)),
            FieldType::Characters => words(value).all(|word| word.len() == 1),
            FieldType::Words => words(value).all(|word| !word.is_empty()),
            FieldType::UtcTimestamp => Timestamp::parse(value).is_some(),
            FieldType::UtcTime => time_of_day(value).is_some(),
            FieldType::Date => days(value).is_some(),
            FieldType::MonthYear => is_month_year(value),
            FieldType::DayOfMonth => {
                crate::index::digits(value).is_some_and(|day| (1..=31).contains(&day))
            }
        }
    }

    /// Reports whether a value of this type may consist of several of the values that are listed.
    pub(crate) fn is_list(self) -> bool {
        matches!(self, FieldType::Characters | FieldType::Words)
    }
}

/// The parts of a value between its spaces.
pub(crate) fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b' ')
}

fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

fn is_month_year(value: &[u8]) -> bool {
    let mut first = *b"00000001";
    let Some(month) = value.get(..6) else { return false };
    first[..6].copy_from_slice(month);
    let day = match &value[6..] {
        [] => true,
        [b'w', week] => (b'1'..=b'5').contains(week),
        _ => days(value).is_some(),
    };
    day && days(&first).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_judged() {
        for (name, good, bad) in [
            ("CHAR", vec!["1", " "], vec!["", "12"]),
            ("BOOLEAN", vec!["Y", "N"], vec!["y", "1", "", "YN"]),
            ("INT", vec!["0", "-5", "007"], vec!["", "-", "+5", "5.0", "--5"]),
            ("SEQNUM", vec!["0", "18446744073709551616"], vec!["-1", "", "1 "]),
            ("QTY", vec!["200.00", "-1", "1234567890123456789012.5"], vec!["+200.00", "1e5", ""]),
            ("MULTIPLECHARVALUE", vec!["1", "1 G"], vec!["", "1G", "1  G", "1 "]),
            ("MULTIPLEVALUESTRING", vec!["A", "AB CD"], vec!["", "A  B"]),
            (
                "UTCTIMESTAMP",
                vec!["20261123-10:00:00", "20261123-10:00:00.123"],
                vec!["20261123", ""],
            ),
            ("UTCTIMEONLY", vec!["10:00:00", "10:00:00.5"], vec!["10:00", "25:00:00"]),
            ("LOCALMKTDATE", vec!["20261123"], vec!["20261323", "2026112", "20261123-10:00:00"]),
            (
                "MONTHYEAR",
                vec!["202611", "20261130", "202611w2"],
                vec!["202613", "20261131", "202611w6", "2026"],
            ),
            ("DAYOFMONTH", vec!["1", "31"], vec!["0", "32", ""]),
            ("DATA", vec!["", "\u{1}"], vec![]),
            ("STRING", vec!["anything"], vec![]),
        ] {
            let kind = FieldType::named(name);
            good.iter().for_each(|value| assert!(kind.fits(value.as_bytes()), "{name} {value}"));
            bad.iter().for_each(|value| assert!(!kind.fits(value.as_bytes()), "{name} {value}"));
        }
    }
}
