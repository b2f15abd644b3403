//! How a budget is named on the command line: by its id or its handle.

use std::fmt;
use std::str::FromStr;

use wire::{Handle, HandleError};

/// Which budget is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichBudget {
    /// The one with this id.
    Id(u64),
    /// The one with this handle.
    Handle(Handle),
}

/// Why a text names no budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Digits that are no id.
    #[error("found {0}, expected an id below 2^64, or a handle")]
    Id(String),
    /// No digits, and no handle.
    #[error("expected an id or a handle: {0}")]
    Handle(#[from] HandleError),
}

impl WhichBudget {
    /// Is it the budget with this id, which has this handle?
    #[must_use]
    pub fn is(&self, id: u64, handle: Option<&Handle>) -> bool {
        match self {
            WhichBudget::Id(named) => *named == id,
            WhichBudget::Handle(named) => handle == Some(named),
        }
    }
}

impl FromStr for WhichBudget {
    type Err = NameError;

    fn from_str(text: &str) -> Result<WhichBudget, NameError> {
        match Handle::parse(text) {
            Ok(handle) => Ok(WhichBudget::Handle(handle)),
            Err(HandleError::Digits { found }) => {
                text.parse().map(WhichBudget::Id).map_err(|_| NameError::Id(found))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Display for WhichBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhichBudget::Id(id) => write!(f, "{id}"),
            WhichBudget::Handle(handle) => write!(f, "{handle}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_handles_are_told_apart() {
        let read = |text: &str| text.parse::<WhichBudget>();
        assert_eq!(read("17"), Ok(WhichBudget::Id(17)));
        assert_eq!(read("llm/a").unwrap().to_string(), "llm/a");
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("18446744073709551616").contains("below 2^64"));
        assert!(error("llm a").contains("found ' ' at character 4"));
        assert!(error("").contains("0 bytes"));
        let handle = Handle::parse("a").unwrap();
        assert!(
            read("a").unwrap().is(1, Some(&handle)) && !read("b").unwrap().is(1, Some(&handle))
        );
        assert!(read("1").unwrap().is(1, None) && !read("a").unwrap().is(1, None));
    }
}
