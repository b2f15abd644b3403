//! Handles: the unique text names of budgets, beside their ids.

/// Longest handle, in bytes.
pub const HANDLE_BYTES_MAX: usize = 128;

/// A budget's unique text name: 1 to [`HANDLE_BYTES_MAX`] of `A-Z a-z 0-9 . _ / : @ -`, at least one of them a letter, so that a
/// handle is never taken for an id or an amount. Between slashes stands something, and neither `.` nor `..`, so that no path that a
/// client tidies up leads to another budget.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(std::sync::Arc<str>);

/// Which budget a caller means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BudgetName<'a> {
    /// The one with this id.
    Id(u64),
    /// The one with this handle, a text that [`Handle::check`] takes.
    Handle(&'a str),
}

/// Why a text is no handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// Nothing, or more than [`HANDLE_BYTES_MAX`].
    #[error("found {found} bytes, a handle has 1 to {HANDLE_BYTES_MAX}")]
    Length {
        /// Its bytes.
        found: usize,
    },
    /// Another character.
    #[error(
        "found {found:?} at character {position}, expected one of A-Z a-z 0-9 . _ / : @ - in a handle"
    )]
    Character {
        /// The first that is wrong.
        found: char,
        /// Its place, from 1.
        position: usize,
    },
    /// Digits alone are an id.
    #[error(
        "found {found:?}, which has digits only and is an id; a handle has at least one letter"
    )]
    Digits {
        /// The text.
        found: String,
    },
    /// No letter, as in an amount.
    #[error("found {found:?}, which has no letter; a handle has at least one of A-Z a-z")]
    NoLetter {
        /// The text.
        found: String,
    },
    /// A piece between slashes that means something else in paths.
    #[error(
        "found {found:?} between slashes of a handle, expected neither an empty text nor . nor .."
    )]
    Segment {
        /// It: empty, `.` or `..`.
        found: &'static str,
    },
}

impl HandleError {
    /// What a handle is.
    pub const EXPECTED: &str = "1 to 128 of A-Z a-z 0-9 . _ / : @ -, at least one letter, and between slashes neither nothing nor . nor ..";

    /// What was found where a handle was expected.
    #[must_use]
    pub fn found(&self) -> String {
        match self {
            HandleError::Length { found } => format!("{found} bytes"),
            HandleError::Character { found, position } => {
                format!("{found:?} at character {position}")
            }
            HandleError::Digits { found } => format!("{found:?}, which is an id"),
            HandleError::NoLetter { found } => format!("{found:?}, which has no letter"),
            HandleError::Segment { found } => format!("{found:?} between slashes"),
        }
    }
}

impl Handle {
    /// A handle from its text.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Handle, HandleError> {
        Handle::check(text)?;
        Ok(Handle(text.into()))
    }

    /// Is the text a handle? Nothing is allocated where it is.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn check(text: &str) -> Result<(), HandleError> {
        if text.is_empty() || text.len() > HANDLE_BYTES_MAX {
            return Err(HandleError::Length { found: text.len() });
        }
        let wrong = text.chars().enumerate().find(|(_, found)| !is_allowed(*found));
        if let Some((index, found)) = wrong {
            return Err(HandleError::Character { found, position: index + 1 });
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(HandleError::Digits { found: text.to_owned() });
        }
        if !text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            return Err(HandleError::NoLetter { found: text.to_owned() });
        }
        let odd = |segment: &str| ["", ".", ".."].into_iter().find(|odd| *odd == segment);
        match text.split('/').find_map(odd) {
            Some(found) => Err(HandleError::Segment { found }),
            None => Ok(()),
        }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Handle {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn is_allowed(found: char) -> bool {
    found.is_ascii_alphanumeric() || matches!(found, '.' | '_' | '/' | ':' | '@' | '-')
}

impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_told_from_ids_and_from_what_neither_is() {
        for text in
            ["team-42/gpt-5", "a", "4_2a", "x@y:z.w", "a/.b/..c/...", &"h".repeat(HANDLE_BYTES_MAX)]
        {
            assert_eq!(Handle::parse(text).unwrap().as_str(), text);
        }
        let error = |text: &str| Handle::parse(text).unwrap_err().to_string();
        assert!(error("").contains("0 bytes"));
        assert!(
            error(&"h".repeat(HANDLE_BYTES_MAX + 1)).contains("129 bytes, a handle has 1 to 128")
        );
        assert!(error("team 42").contains("found ' ' at character 5"));
        assert!(error("t\u{e9}am").contains("at character 2"));
        assert!(error("1001").contains("digits only"));
        for text in ["4_2", "1.5", "-", "./@"] {
            assert!(error(text).contains("has no letter"), "{text}");
        }
        for (text, found) in [
            ("/a", "\"\""),
            ("a/", "\"\""),
            ("a//b", "\"\""),
            ("a/./b", "\".\""),
            ("../a", "\"..\""),
            ("a/..", "\"..\""),
        ] {
            assert!(error(text).contains(found), "{text}: {}", error(text));
        }
        assert!(error(&"9".repeat(10_240)).len() < 100, "a stranger's text is not echoed whole");
    }
}
