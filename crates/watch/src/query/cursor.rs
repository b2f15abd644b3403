//! Where a page ended: the sort key and the id of its last row, so that rows may move in between.

use std::borrow::Cow;
use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::column::{Key, compare};
use super::{Row, Sort};
use crate::problem::Problem;

/// Characters of a cursor: a sort by a long name fits.
pub(crate) const CURSOR_MAX: usize = 8_192;

/// The end of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    keys: Vec<Option<Key<'static>>>,
    id: u64,
}

/// The text of a cursor holds this as JSON, in base64url.
#[derive(Serialize, Deserialize)]
struct Written {
    sort: String,
    id: u64,
    keys: Vec<WrittenKey>,
}

/// Numbers are text: they have more than 64 bits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenKey {
    Nothing,
    Number(String),
    Text(String),
}

impl Cursor {
    /// The end of a page whose last row this is.
    pub(super) fn after(sort: &Sort, row: Row<'_>) -> Cursor {
        Cursor { keys: sort.keys(row), id: row.budget.id }
    }

    /// Does the row come after it?
    pub(super) fn is_before(&self, sort: &Sort, row: Row<'_>) -> bool {
        let keys = self.keys.iter().zip(sort.columns());
        let orders =
            keys.map(|(key, by)| compare(key.as_ref(), by.column.key(row).as_ref(), by.descending));
        let order = orders.into_iter().find(|order| order.is_ne());
        order.unwrap_or_else(|| self.id.cmp(&row.budget.id)) == Ordering::Less
    }

    /// The text that goes to the client.
    pub(crate) fn encode(&self, sort: &Sort) -> String {
        let written = |key: &Option<Key<'_>>| match key {
            None => WrittenKey::Nothing,
            Some(Key::Number(number)) => WrittenKey::Number(number.to_string()),
            Some(Key::Text(text)) => WrittenKey::Text(text.to_string()),
        };
        let keys = self.keys.iter().map(written).collect();
        let written = Written { sort: sort.to_string(), id: self.id, keys };
        // Plain text and numbers: it cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&written).unwrap_or_default())
    }

    /// The cursor that a client gives back.
    ///
    /// # Errors
    /// It is not one of this sort.
    pub(crate) fn decode(text: &str, sort: &Sort) -> Result<Cursor, Problem> {
        Cursor::read(text, sort).ok_or_else(|| {
            let expected = "`next` of an answer to the same sort";
            Problem::malformed("cursor", &format!("{text:?}"), expected)
        })
    }

    fn read(text: &str, sort: &Sort) -> Option<Cursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|_| text.len() <= CURSOR_MAX)?;
        let written: Written = serde_json::from_slice(&bytes).ok()?;
        if written.sort != sort.to_string() || written.keys.len() != sort.columns().len() {
            return None;
        }
        let key = |key| match key {
            WrittenKey::Nothing => Some(None),
            WrittenKey::Number(text) => text.parse().ok().map(|number| Some(Key::Number(number))),
            WrittenKey::Text(text) => Some(Some(Key::Text(Cow::Owned(text)))),
        };
        let keys = written.keys.into_iter().map(key).collect::<Option<Vec<_>>>()?;
        Some(Cursor { keys, id: written.id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_round_trips(id: u64, number: i128, text in "\\PC{0,20}") {
            let sort = Sort::parse("-spent,name,daily").unwrap();
            let keys = vec![Some(Key::Number(number)), Some(Key::Text(text.into())), None];
            let cursor = Cursor { keys, id };
            let again = Cursor::decode(&cursor.encode(&sort), &sort);
            prop_assert_eq!(again.unwrap(), cursor.clone());
            let other = Sort::parse("spent,name,daily").unwrap();
            prop_assert!(Cursor::decode(&cursor.encode(&sort), &other).is_err());
        }

        #[test]
        fn any_text_is_answered(text in "[A-Za-z0-9_=-]{0,60}") {
            let _ = Cursor::decode(&text, &Sort::default());
        }
    }
}
