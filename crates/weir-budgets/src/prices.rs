//! Reference prices of symbols, by which orders without a limit are held: a file of JSON lines, `{"symbol": "ACME", "price": "187.25"}`.

use std::collections::HashMap;
use std::path::Path;

use fix::Decimal;
use money::Instant;
use serde_json::{Map, Value};

use crate::budgets::LineError;
use crate::campaigns::fields::shown;
use crate::campaigns::json;

/// Longest symbol.
const SYMBOL_BYTES_MAX: usize = 255;
/// Digits that a JSON number keeps exactly.
const NUMBER_DIGITS_MAX: usize = 15;
/// After so many errors the rest of a file is not judged.
const ERRORS_MAX: usize = 100;

/// What a symbol costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// For one, in the currency of the symbol's orders.
    pub price: Decimal,
    /// When it was made; `None`: it counts as long as it stands in the file.
    pub at: Option<Instant>,
}

/// The prices of a file, by symbol.
#[derive(Debug, Default)]
pub struct Prices(HashMap<Box<[u8]>, (Price, usize)>);

impl Prices {
    /// Reads a file with these bytes, whole or not at all.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn of(path: &Path, bytes: &[u8]) -> Result<Prices, Vec<LineError>> {
        let file = path.display().to_string();
        let told = |line, text| LineError { file: file.clone(), line, text };
        let (mut prices, mut errors) = (Prices::default(), Vec::new());
        let lines = bytes.split(|byte| *byte == b'\n').enumerate();
        for (line, text) in lines.filter(|(_, text)| !text.trim_ascii().is_empty()) {
            if let Err(text) = prices.add(line + 1, text) {
                errors.push(told(line + 1, text));
            }
            if errors.len() == ERRORS_MAX {
                break;
            }
        }
        let last = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        if errors.is_empty() && prices.0.is_empty() {
            errors
                .push(told(0, "no price: expected at least one line, or is the file cut?".into()));
        } else if errors.is_empty() && !bytes.ends_with(b"\n") {
            let text =
                "the file ends within this line; end it with a line feed, or is the file cut?";
            errors.push(told(last, text.into()));
        }
        if errors.is_empty() { Ok(prices) } else { Err(errors) }
    }

    fn add(&mut self, line: usize, text: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|_| "not UTF-8; save the file as UTF-8")?;
        let fields = match json::parse(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(other) => {
                return Err(format!("found {}, expected one object per line", shown(&other)));
            }
            Err(error) => return Err(format!("not JSON: {error}")),
        };
        let known = ["symbol", "price", "at"];
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("{key}: there is no such field, expected symbol, price and at"));
        }
        let symbol = symbol(&fields)?;
        let price = Price { price: price(&fields)?, at: at(&fields)? };
        match self.0.insert(symbol.as_bytes().into(), (price, line)) {
            Some((_, before)) => Err(format!(
                "symbol: {symbol:?} stands on line {before} too, expected one price for each symbol"
            )),
            None => Ok(()),
        }
    }

    /// Returns what a symbol costs, as the file says.
    #[must_use]
    pub fn get(&self, symbol: &[u8]) -> Option<Price> {
        self.0.get(symbol).map(|(price, _)| *price)
    }

    /// Returns how many symbols have a price.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether no symbol has one: there is no file yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn found(value: Option<&Value>) -> String {
    value.map_or("nothing".into(), shown)
}

fn symbol(fields: &Map<String, Value>) -> Result<&str, String> {
    let symbol = fields.get("symbol");
    let is_fit = |text: &&str| {
        (1..=SYMBOL_BYTES_MAX).contains(&text.len()) && !text.bytes().any(|byte| byte < b' ')
    };
    symbol.and_then(Value::as_str).filter(is_fit).ok_or_else(|| {
        format!("symbol: found {}, expected the text of Symbol (55), 1 to 255 bytes", found(symbol))
    })
}

fn price(fields: &Map<String, Value>) -> Result<Decimal, String> {
    let price = fields.get("price");
    let text = match price {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string())
            .filter(|text| text.bytes().filter(u8::is_ascii_digit).count() <= NUMBER_DIGITS_MAX),
        _ => None,
    };
    let price_of = text.and_then(|text| Decimal::parse(text.as_bytes()).ok());
    price_of.filter(|price| price.mantissa() > 0).ok_or_else(|| {
        format!(
            "price: found {}, expected a price above 0 such as \"187.25\", in quotes up to 18 digits",
            found(price)
        )
    })
}

fn at(fields: &Map<String, Value>) -> Result<Option<Instant>, String> {
    let Some(at) = fields.get("at") else { return Ok(None) };
    let told = |error: String| format!("at: {error}");
    let text = at.as_str().ok_or_else(|| {
        told(format!("found {}, expected a time such as \"2026-11-23T10:00:00Z\"", shown(at)))
    })?;
    Instant::parse(text).map(Some).map_err(|error| told(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Prices, String> {
        Prices::of("p.jsonl".as_ref(), text)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn prices_are_exact_and_may_have_a_time() {
        let file = br#"{"symbol":"ACME","price":"187.250000000000001"}

{"symbol":"EU FX","price":1.07,"at":"2026-11-23T10:00:00Z"}
{"symbol":"BIG","price":123456789012345}
"#;
        let prices = read(file).unwrap();
        let shown = |symbol: &str| {
            let found = prices.get(symbol.as_bytes())?;
            let at = found.at.map_or("no time".into(), |at| at.to_string());
            Some(format!("{} {at}", found.price))
        };
        assert_eq!(shown("ACME").unwrap(), "187.250000000000001 no time");
        assert_eq!(shown("EU FX").unwrap(), "1.07 2026-11-23T10:00:00Z");
        assert_eq!(shown("BIG").unwrap(), "123456789012345 no time");
        assert_eq!((shown("acme"), shown(""), prices.len()), (None, None, 3));
    }

    /// Each is refused whole, with its line; a good line beside it does not count.
    #[test]
    fn a_file_with_a_wrong_line_is_refused_whole() {
        let above = "expected a price above 0";
        for (text, line, expected) in [
            (r#"{"symbol":"A","price":"0"}"#, 2, above),
            (r#"{"symbol":"A","price":"-1"}"#, 2, above),
            (r#"{"symbol":"A","price":"1234567890123456789"}"#, 2, above),
            (r#"{"symbol":"A","price":1234567890.1234567}"#, 2, above),
            (r#"{"symbol":"A","price":1e20}"#, 2, above),
            (r#"{"symbol":"A","price":"1e2"}"#, 2, above),
            (r#"{"symbol":"A","price":"NaN"}"#, 2, above),
            (r#"{"symbol":"A"}"#, 2, "price: found nothing"),
            (r#"{"symbol":"","price":"1"}"#, 2, "symbol: found \"\""),
            (r#"{"price":"1"}"#, 2, "symbol: found nothing"),
            ("{\"symbol\":\"A\\u0001\",\"price\":\"1\"}", 2, "symbol: found"),
            (r#"{"symbol":"A","price":"1","currency":"EUR"}"#, 2, "currency: there is no such"),
            (r#"{"symbol":"A","price":"1","price":"2"}"#, 2, "not JSON"),
            (r#"{"symbol":"A","price":"1","at":5}"#, 2, "at: found 5"),
            (r#"{"symbol":"A","price":"1","at":"noon"}"#, 2, "at: "),
            (r#"{"symbol":"GOOD","price":"2"}"#, 2, "\"GOOD\" stands on line 1 too"),
            (r#"["A","1"]"#, 2, "expected one object per line"),
            (r#"{"symbol":"A","pri"#, 2, "not JSON"),
        ] {
            let error =
                read(format!("{{\"symbol\":\"GOOD\",\"price\":\"1\"}}\n{text}\n").as_bytes());
            let error = error.unwrap_err();
            assert!(error.starts_with(&format!("p.jsonl:{line}: ")), "{text}: {error}");
            assert!(error.contains(expected), "{text}: {error}");
        }
        for (bytes, expected) in [
            (&b""[..], "p.jsonl: no price"),
            (b"\n \n", "p.jsonl: no price"),
            (b"\xff\n", "p.jsonl:1: not UTF-8"),
            // Cut within a number: 18 of 187.
            (b"{\"symbol\":\"A\",\"price\":\"18\"}", "p.jsonl:1: the file ends within this line"),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let many = read("x\n".repeat(1_000).as_bytes()).unwrap_err();
        assert_eq!(many.lines().count(), 100);
    }
}
