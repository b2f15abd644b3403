//! Numbers of the command line.

/// Reads a whole number; of anything else it says what was expected.
///
/// # Errors
/// What was expected.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, 0 or more, such as 120".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_and_for_anything_else_one_is_expected() {
        assert_eq!(number("120"), Ok(120));
        for wrong in ["x", "", "-1", "1.5", "99999999999999999999"] {
            assert!(number(wrong).unwrap_err().contains("expected a whole number"), "{wrong}");
        }
    }
}
