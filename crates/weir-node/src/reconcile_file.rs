//! Reconciliation files: what an exchange billed, and what it did not, for bids whose notices never came.
//!
//! One bid a line, as CSV with a line of names or as JSON lines:
//!
//! ```text
//! id,billed,amount                      {"id":"...","billed":true,"amount":"0.0021"}
//! mF3...Q,true,0.0021                   {"id":"...","billed":false}
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `id` | the hold token of the batch door as text, or the notice id of a bid: what stands after `/n/win/` in its `nurl` |
//! | `billed` | `true`: it was won and is paid for; `false`: it was not |
//! | `amount` | what is paid, in the budget's unit, as decimal text; without it the price that was sent, or the whole hold |
//!
//! A file with a bad line is refused whole, with every error and its line. A CSV file whose last line has no end is refused,
//! too: it may be cut, and `0.0021` cut to `0.00` is an amount as well. JSON needs no such rule: an object has an end.
//!
//! Prices for a thousand impressions have more decimals than a budget's unit once they are divided by a thousand, so an
//! amount of a currency may have any number of them: a part of a micro is a whole one ([`amount_of`]). What is booked is
//! never less than what is paid.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ledger::note::{NOTED_LEN, SHORT_NOTED_LEN};
use ledger::token::TOKEN_LEN;
use ledger::{Amount, Token};
use money::{ASK_MAX, Unit};
use serde_json::{Map, Value};
use weir_budgets::campaigns::fields::{Faults, Object, shown};

/// Errors of a file that are told.
const ERRORS_MAX: usize = 100;

/// What a bid is known by outside the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// A hold token of the batch door.
    Token(Token),
    /// A hold with a note, of the OpenRTB door.
    Noted([u8; NOTED_LEN]),
    /// The same, of an earlier version.
    ShortNoted([u8; SHORT_NOTED_LEN]),
}

impl Id {
    /// As it stands in a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Id::Token(token) => URL_SAFE_NO_PAD.encode(token),
            Id::Noted(noted) => URL_SAFE_NO_PAD.encode(noted),
            Id::ShortNoted(noted) => URL_SAFE_NO_PAD.encode(noted),
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it stands, from 1.
    pub line: usize,
    /// Which bid.
    pub id: Id,
    /// Was it paid for?
    pub billed: bool,
    /// What was paid, as decimal text in the budget's unit; `None`: all of the hold.
    pub amount: Option<String>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct RowError {
    /// Where, from 1.
    pub line: usize,
    /// What was found and what was expected.
    pub text: String,
}

/// Reads a file: JSON lines if its first character is `{`, else CSV.
///
/// # Errors
/// The first hundred of everything that is wrong.
pub fn parse(text: &str) -> Result<Vec<Row>, Vec<RowError>> {
    let is_json = text.trim_start().starts_with('{');
    let lines = if is_json { json_lines(text) } else { csv_lines(text) };
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (line, fields) in lines {
        match fields.map_err(|text| vec![text]).and_then(|fields| row(line, &fields)) {
            Ok(row) => rows.push(row),
            Err(texts) => errors.extend(texts.into_iter().map(|text| RowError { line, text })),
        }
        if errors.len() >= ERRORS_MAX {
            break;
        }
    }
    errors.truncate(ERRORS_MAX);
    if errors.is_empty() && !is_json && !text.ends_with('\n') {
        let text =
            "found no line feed at its end: the file may be cut here; end the last line, too";
        errors.push(RowError { line: rows.last().map_or(1, |row| row.line), text: text.into() });
    }
    if errors.is_empty() { Ok(rows) } else { Err(errors) }
}

type Line = (usize, Result<Map<String, Value>, String>);

fn json_lines(text: &str) -> Box<dyn Iterator<Item = Line> + '_> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    Box::new(lines.map(|(at, line)| {
        let object = match weir_budgets::campaigns::json::parse(line) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(other) => Err(format!("found {}, expected one object per line", shown(&other))),
            Err(error) => Err(format!("not JSON: {error}")),
        };
        (at + 1, object)
    }))
}

fn csv_lines(text: &str) -> Box<dyn Iterator<Item = Line> + '_> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let names = match reader.headers() {
        Ok(names) if has_twice(names) => {
            let text = "a column is named twice, expected each once: id,billed,amount".to_string();
            return Box::new(std::iter::once((1, Err(text))));
        }
        Ok(names) if names.iter().any(|name| name == "id") => names.clone(),
        Ok(_) => {
            let text = "expected a first line that names the columns: id,billed,amount".to_string();
            return Box::new(std::iter::once((1, Err(text))));
        }
        Err(error) => return Box::new(std::iter::once((1, Err(format!("not CSV: {error}"))))),
    };
    Box::new(reader.into_records().map(move |record| match record {
        Ok(record) => {
            let line = record.position().map_or(0, csv::Position::line);
            let filled = names.iter().zip(&record).filter(|(_, value)| !value.is_empty());
            let fields = filled.map(|(name, value)| (name.to_string(), Value::from(value)));
            (usize::try_from(line).unwrap_or(0), Ok(fields.collect()))
        }
        Err(error) => {
            let line = error.position().map_or(0, csv::Position::line);
            (usize::try_from(line).unwrap_or(0), Err(format!("not CSV: {error}")))
        }
    }))
}

fn has_twice(names: &csv::StringRecord) -> bool {
    names.iter().enumerate().any(|(at, name)| names.iter().take(at).any(|before| before == name))
}

fn row(line: usize, fields: &Map<String, Value>) -> Result<Row, Vec<String>> {
    let mut faults = Faults::default();
    let mut object = Object::new(fields, &[&["id", "billed", "amount"]], &mut faults);
    let id = object.required("id", id);
    let billed = object.required("billed", billed);
    let amount = object.optional("amount", |value| match value.as_str() {
        Some(text) => Ok(text.to_string()),
        None => Err(format!("found {}, expected decimal text such as \"0.0021\"", shown(value))),
    });
    if amount.is_some() && billed == Some(false) {
        object.fault("amount", "found an amount of a bid that was not billed, expected none");
    }
    let read = id.zip(billed).filter(|_| faults.is_empty());
    read.map(|(id, billed)| Row { line, id, billed, amount }).ok_or_else(|| faults.into_texts())
}

fn id(value: &Value) -> Result<Id, String> {
    let bytes = value.as_str().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let bytes = bytes.unwrap_or_default();
    if let Ok(token) = <[u8; TOKEN_LEN]>::try_from(bytes.as_slice()) {
        return Ok(Id::Token(token));
    }
    if let Ok(noted) = <[u8; NOTED_LEN]>::try_from(bytes.as_slice()) {
        return Ok(Id::Noted(noted));
    }
    if let Ok(noted) = <[u8; SHORT_NOTED_LEN]>::try_from(bytes.as_slice()) {
        return Ok(Id::ShortNoted(noted));
    }
    Err(format!(
        "found {}, expected a hold token or the id of a notice, in URL-safe base64 without padding",
        shown(value)
    ))
}

fn billed(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(billed) => Ok(*billed),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(format!("found {}, expected true or false", shown(value))),
    }
}

/// What the text of an amount comes to in a unit, and whether that is more than it says: decimals of a currency beyond
/// the sixth are rounded up.
///
/// # Errors
/// What was expected: another form, or 0 to [`ASK_MAX`].
pub fn amount_of(text: &str, unit: Unit) -> Result<(Amount, bool), String> {
    let expected = |why: String| {
        let max = unit.format(ASK_MAX);
        format!("an amount of the budget's unit, {unit}, from 0 to {max}: {why}")
    };
    if text.starts_with('-') {
        return Err(expected("a negative amount cannot be booked here".into()));
    }
    let (kept, rest) = beyond(text, unit);
    let least = unit.parse_amount(kept).map_err(|error| expected(error.to_string()))?;
    let rounded = rest.bytes().any(|digit| digit != b'0');
    let amount = least.checked_add(Amount::new(i64::from(rounded)));
    match amount.filter(|amount| *amount <= ASK_MAX) {
        Some(amount) => Ok((amount, rounded)),
        None => Err(expected("it is too large".into())),
    }
}

/// Splits decimals that the unit does not have off an amount of a currency; anything else stays as it is.
fn beyond(text: &str, unit: Unit) -> (&str, &str) {
    let decimals = text.split_once('.').map_or("", |(_, decimals)| decimals);
    let more = decimals.len().saturating_sub(unit.decimals());
    let is_digits = decimals.bytes().all(|digit| digit.is_ascii_digit());
    match unit {
        Unit::Currency(..) if is_digits => text.split_at(text.len() - more),
        Unit::Currency(..) | Unit::Count => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(byte: u8) -> String {
        URL_SAFE_NO_PAD.encode([byte; TOKEN_LEN])
    }

    #[test]
    fn both_formats_say_the_same() {
        let (one, two) = (token(1), URL_SAFE_NO_PAD.encode([2; NOTED_LEN]));
        let csv = format!("id,billed,amount\n{one},true,0.0021\n{two},false,\n");
        let json = format!(
            "{{\"id\":\"{one}\",\"billed\":true,\"amount\":\"0.0021\"}}\n\n{{\"id\":\"{two}\",\"billed\":false}}\n"
        );
        let (from_csv, from_json) = (parse(&csv).unwrap(), parse(&json).unwrap());
        let plain = |rows: &[Row]| -> Vec<_> {
            rows.iter().map(|row| (row.id, row.billed, row.amount.clone())).collect()
        };
        assert_eq!(plain(&from_csv), plain(&from_json));
        assert_eq!(from_csv[0].id, Id::Token([1; TOKEN_LEN]));
        assert_eq!(from_csv[1].id, Id::Noted([2; NOTED_LEN]));
        let short = format!("id,billed\n{},true\n", URL_SAFE_NO_PAD.encode([3; SHORT_NOTED_LEN]));
        assert_eq!(parse(&short).unwrap()[0].id, Id::ShortNoted([3; SHORT_NOTED_LEN]));
        assert_eq!((from_csv[1].line, from_json[1].line), (3, 3));
    }

    #[test]
    fn every_bad_line_is_told() {
        let good = token(1);
        let text = format!(
            "id,billed,amount\n{good},true,\nshort,true,\n{good},maybe,\n{good},false,1\n,true,\n{good},true\n"
        );
        let errors = parse(&text).unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        for (text, expected) in texts.iter().zip([
            "line 3: id: found \"short\", expected a hold token",
            "line 4: billed: found \"maybe\", expected true or false",
            "line 5: amount: found an amount of a bid that was not billed",
            "line 6: id: missing",
            "line 7: not CSV",
        ]) {
            assert!(text.starts_with(expected), "{text}: expected {expected}");
        }
        assert_eq!(errors.len(), 5, "{texts:#?}");
        assert!(parse("token,paid\n1,2\n").unwrap_err()[0].text.contains("id,billed,amount"));
        assert!(parse("{\"id\":1}").unwrap_err().len() == 2);
        assert_eq!(parse("").unwrap_err().len(), 1);
        let many = format!("id,billed\n{}", "x,true\n".repeat(1_000));
        assert_eq!(parse(&many).unwrap_err().len(), ERRORS_MAX);
    }

    #[test]
    fn a_file_ends_with_the_end_of_a_line_and_names_each_column_once() {
        let good = token(1);
        for cut in
            ["id,billed,amount\nX,true,0.00", "id,billed,amount\nX,true,", "id,billed,amount"]
        {
            let errors = parse(&cut.replace('X', &good)).unwrap_err();
            assert!(errors[0].text.contains("may be cut"), "{cut}: {errors:?}");
        }
        for whole in
            ["id,billed\nX,true\n", "id,billed\r\nX,true\r\n", "{\"id\":\"X\",\"billed\":true}"]
        {
            assert_eq!(parse(&whole.replace('X', &good)).unwrap().len(), 1, "{whole}");
        }
        let twice = parse(&format!("id,billed,amount,amount\n{good},true,1,2\n")).unwrap_err();
        assert!(twice[0].text.contains("named twice"), "{twice:?}");
    }

    fn usd() -> Unit {
        Unit::parse("USD").unwrap()
    }

    #[test]
    fn a_part_of_a_micro_is_a_whole_one() {
        for (text, micros, rounded) in [
            ("0.0021", 2_100, false),
            ("0.002345678", 2_346, true),
            ("0.002345000", 2_345, false),
            ("0.0000000000000000000000000001", 1, true),
            ("0.9999999", 1_000_000, true),
            ("0", 0, false),
            ("1000000000", ASK_MAX.get(), false),
        ] {
            assert_eq!(amount_of(text, usd()), Ok((Amount::new(micros), rounded)), "{text}");
        }
        for text in [
            "",
            ".",
            "-1",
            "-0.0000001",
            "+1",
            "1e3",
            "1.2.3",
            "0.0000000x",
            "1,5",
            "1000000000.0000001",
        ] {
            assert!(amount_of(text, usd()).is_err(), "{text}");
        }
        assert_eq!(amount_of("7", Unit::Count), Ok((Amount::new(7), false)));
        for text in ["7.0", "7.0000001", "-7"] {
            assert!(amount_of(text, Unit::Count).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_amount_is_rounded_up_by_less_than_a_micro(nanos in 0_u64..1_000_000_000_000_000_000) {
            let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
            let (amount, rounded) = amount_of(&text, usd()).unwrap();
            let booked = u64::try_from(amount.get()).unwrap() * 1_000;
            prop_assert!(booked >= nanos && booked - nanos < 1_000);
            prop_assert_eq!(rounded, booked > nanos);
        }

        #[test]
        fn any_text_is_an_amount_or_an_error(text in "[-0-9.e+]{0,40}|.{0,20}") {
            for unit in [usd(), Unit::Count] {
                if let Ok((amount, _)) = amount_of(&text, unit) {
                    prop_assert!(amount >= Amount::ZERO && amount <= ASK_MAX);
                }
            }
        }
    }
}
