//! The filter language: `status:limited,error;pace:..0.95;name:~sale`.

use percent_encoding::percent_decode_str;

use super::Row;
use super::column::{Column, Kind, NANO};
use crate::problem::Problem;

/// Characters of a filter, a search or a sort.
pub(crate) const TEXT_MAX: usize = 4_096;
/// Terms of a filter.
const TERMS_MAX: usize = 64;
/// Decimals of a number in a range.
const DECIMALS: usize = 9;

/// What is searched in names and ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search(Needle);

impl Search {
    pub(crate) fn new(text: &str) -> Search {
        Search(Needle::new(text.trim()))
    }

    pub(crate) fn matches(&self, row: Row<'_>) -> bool {
        let digits = !self.0.0.is_empty() && self.0.0.bytes().all(|byte| byte.is_ascii_digit());
        let handle = row.budget.handle.as_deref();
        self.0.is_in(&row.budget.name)
            || handle.is_some_and(|handle| self.0.is_in(handle))
            || (digits && self.0.is_in(&Column::Id.text(row)))
    }
}

/// Terms that must all be true.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter(Vec<Term>);

#[derive(Clone, Debug)]
struct Term {
    column: Column,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    /// One of these words.
    OneOf(Vec<String>),
    /// Between these, in millionths, both included.
    Range(i128, i128),
    /// Contains this.
    Contains(Needle),
}

impl Filter {
    /// Reads a filter; the empty one matches all.
    ///
    /// # Errors
    /// The first term that cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Filter, Problem> {
        let terms = text.split(';').filter(|term| !term.is_empty());
        let terms = terms.map(Term::parse).collect::<Result<Vec<Term>, Problem>>()?;
        if terms.len() > TERMS_MAX {
            let found = format!("{} terms", terms.len());
            return Err(Problem::malformed("filter", &found, &format!("at most {TERMS_MAX}")));
        }
        Ok(Filter(terms))
    }

    pub(crate) fn matches(&self, row: Row<'_>) -> bool {
        self.0.iter().all(|term| term.matches(row))
    }
}

impl Term {
    fn parse(text: &str) -> Result<Term, Problem> {
        let (name, body) = text.split_once(':').ok_or_else(|| {
            Problem::malformed(
                "filter",
                &format!("{text:?}"),
                "column:words, column:from..to or column:~text",
            )
        })?;
        let column = Column::parse(name).ok_or_else(|| {
            Problem::malformed("filter", &format!("the column {name:?}"), &Column::names())
        })?;
        let test = match (column.kind(), body.strip_prefix('~')) {
            (Kind::Text, Some(text)) => Test::Contains(Needle::new(&decoded(text)?)),
            (Kind::Text, None) => Test::OneOf(words(column, body)?),
            (Kind::Set, None) => Test::OneOf(words(column, body)?),
            (Kind::Number, None) => range(column, body)?,
            (Kind::Set, Some(_)) => return Err(unfit(column, body, "words, as in column:a,b")),
            (Kind::Number, Some(_)) => {
                return Err(unfit(column, body, "a range, as in column:1..2"));
            }
        };
        Ok(Term { column, test })
    }

    fn matches(&self, row: Row<'_>) -> bool {
        match &self.test {
            Test::OneOf(words) => words.iter().any(|word| self.column.holds(row, word)),
            Test::Range(from, to) => self.column.nanos(row).is_some_and(|n| *from <= n && n <= *to),
            Test::Contains(needle) => needle.is_in(&self.column.text(row)),
        }
    }
}

fn unfit(column: Column, found: &str, expected: &str) -> Problem {
    let found = format!("{:?} for {}", found, column.name());
    Problem::malformed("filter", &found, expected)
}

/// A text with its percent signs resolved.
fn decoded(text: &str) -> Result<String, Problem> {
    let bytes = text.as_bytes();
    let is_escape = |at: usize| {
        bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    let whole = (0..bytes.len()).all(|at| bytes[at] != b'%' || is_escape(at));
    let wrong = || Problem::malformed("filter", &format!("{text:?}"), "%XX escapes of UTF-8");
    let text = percent_decode_str(text).decode_utf8().map_err(|_| wrong())?;
    if whole { Ok(text.into_owned()) } else { Err(wrong()) }
}

fn words(column: Column, body: &str) -> Result<Vec<String>, Problem> {
    let words = body.split(',').map(decoded).collect::<Result<Vec<String>, Problem>>()?;
    match words.iter().find(|word| !column.knows(word)) {
        None => Ok(words),
        Some(word) => {
            let words = column.words().map(|words| words.join(", "));
            let expected = words.unwrap_or_else(|| "a currency such as USD, or count".into());
            Err(unfit(column, word, &expected))
        }
    }
}

fn range(column: Column, body: &str) -> Result<Test, Problem> {
    const EXPECTED: &str = "from..to, both numbers with at most 9 decimals, each may be missing";
    let wrong = || unfit(column, body, EXPECTED);
    let (from, to) = body.split_once("..").ok_or_else(wrong)?;
    let bound = |text: &str, open: i128| match text {
        "" => Some(open),
        text => nanos(text),
    };
    let from = bound(from, i128::MIN).ok_or_else(wrong)?;
    let to = bound(to, i128::MAX).ok_or_else(wrong)?;
    Ok(Test::Range(from, to))
}

/// Exact decimal text in billionths.
fn nanos(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > DECIMALS {
        return None;
    }
    let magnitude = whole.parse::<u64>().ok()?;
    let part: i128 = format!("{part:0<DECIMALS$}").parse().ok()?;
    let sum = i128::from(magnitude) * NANO + part;
    Some(if negative { -sum } else { sum })
}

/// A text to be found in others, case folded.
#[derive(Clone, Debug, Default)]
struct Needle(String);

impl Needle {
    fn new(text: &str) -> Needle {
        Needle(text.to_lowercase())
    }

    fn is_in(&self, text: &str) -> bool {
        let needle = self.0.as_bytes();
        let Some(first) = needle.first() else { return true };
        // What is longer than ASCII may change its length when it is folded.
        if !text.is_ascii() {
            return text.to_lowercase().contains(&self.0);
        }
        let starts = text.as_bytes().windows(needle.len());
        starts
            .into_iter()
            .any(|part| part[0].to_ascii_lowercase() == *first && part.eq_ignore_ascii_case(needle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_exact() {
        assert_eq!(nanos("12.5"), Some(12_500_000_000));
        assert_eq!(nanos("-0.000000001"), Some(-1));
        assert_eq!(nanos("18446744073709551615"), Some(i128::from(u64::MAX) * NANO));
        for wrong in
            ["", "-", ".5", "1.", "1e3", "+1", "1.0000000001", " 1", "18446744073709551616"]
        {
            assert_eq!(nanos(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn forms_must_fit_their_column() {
        let good = [
            "",
            ";",
            "status:active",
            "status:active,paused;pace:..0.95",
            "name:~a%3Bb",
            "id:17",
            "limit:..",
            "unit:USD,count",
            "zone:Europe%2FBerlin",
            "flags:debt,edited",
            "top_refusal:none,paced",
        ];
        for text in good {
            assert!(Filter::parse(text).is_ok(), "{text}");
        }
        let bad = [
            "status",
            "status:~a",
            "status:happy",
            "status:",
            "pace:1",
            "pace:~1",
            "pace:a..b",
            "what:1..2",
            "name:~%",
            "name:~%4",
            "name:~%FF",
            "limit:1...2",
            "unit:usd",
            "campaign:maybe",
            "top_refusal:x",
        ];
        for text in bad {
            assert_eq!(Filter::parse(text).unwrap_err().status, 400, "{text}");
        }
        assert!(Filter::parse(&"id:1;".repeat(TERMS_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn text_is_found_as_the_library_finds_it(hay in "[ -~äÖßİ]{0,12}", needle in "[a-cA-C äÖß]{0,3}") {
            let found = hay.to_lowercase().contains(&needle.to_lowercase());
            prop_assert_eq!(Needle::new(&needle).is_in(&hay), found);
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}") {
            let _ = Filter::parse(&text);
        }
    }
}
