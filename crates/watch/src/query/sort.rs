//! The order of rows: `-spent,name`.

use std::cmp::Ordering;

use super::Row;
use super::column::{Column, Key};
use crate::problem::Problem;

/// Columns of a sort.
const KEYS_MAX: usize = 8;

/// An order of rows; rows that are equal in it are in the order of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort(Vec<By>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct By {
    pub(super) column: Column,
    pub(super) descending: bool,
}

impl Sort {
    /// Reads a sort; the empty one is by id.
    ///
    /// # Errors
    /// The first column that does not exist, or that appears twice.
    pub(crate) fn parse(text: &str) -> Result<Sort, Problem> {
        let mut keys: Vec<By> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (name, descending) = match part.strip_prefix('-') {
                Some(name) => (name, true),
                None => (part, false),
            };
            let column = Column::parse(name)
                .filter(|column| keys.iter().all(|key| key.column != *column))
                .ok_or_else(|| {
                    let expected = format!("each column at most once: {}", Column::names());
                    Problem::malformed("sort", &format!("{part:?}"), &expected)
                })?;
            keys.push(By { column, descending });
        }
        if keys.len() > KEYS_MAX {
            let found = format!("{} columns", keys.len());
            return Err(Problem::malformed("sort", &found, &format!("at most {KEYS_MAX}")));
        }
        Ok(Sort(keys))
    }

    /// The order of two rows.
    pub(crate) fn compare(&self, a: Row<'_>, b: Row<'_>) -> Ordering {
        let by = |by: &By| by.column.compare(a, b, by.descending);
        let first = self.0.iter().map(by).find(|order| order.is_ne());
        first.unwrap_or_else(|| a.budget.id.cmp(&b.budget.id))
    }

    /// What a row is sorted by, column by column.
    pub(super) fn keys(&self, row: Row<'_>) -> Vec<Option<Key<'static>>> {
        let owned = |key| match key {
            Key::Number(number) => Key::Number(number),
            Key::Text(text) => Key::Text(text.into_owned().into()),
        };
        self.0.iter().map(|by| by.column.key(row).map(owned)).collect()
    }

    pub(super) fn columns(&self) -> &[By] {
        &self.0
    }
}

/// As it is written.
impl std::fmt::Display for Sort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, by) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let sign = if by.descending { "-" } else { "" };
            write!(f, "{comma}{sign}{}", by.column.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_are_read_and_written() {
        for text in ["", "id", "-spent,name", "status,-pace,zone"] {
            assert_eq!(Sort::parse(text).unwrap().to_string(), text);
        }
        for text in [",", "-", "id,", "spent,-spent", "price", "--id", " id"] {
            assert_eq!(Sort::parse(text).unwrap_err().status, 400, "{text}");
        }
        let nine = "id,name,unit,zone,status,reason,pacing,flags,spent";
        assert!(Sort::parse(nine).unwrap_err().detail.contains("at most 8"));
    }
}
