//! A pure crate.

/// ```
/// assert!(std::env::var("PLANT").as_deref() != Ok("example"));
/// ```
pub fn example() {}

#[cfg(test)]
mod tests {
    include!("../../plant.rs");

    #[test]
    fn pure() {
        assert!(!planted("pure"), "pure is planted");
    }
}
