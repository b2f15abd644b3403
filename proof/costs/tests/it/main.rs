//! Every comparison runs, in small.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pairs;

use costs::{Size, policies};

#[test]
fn every_table_of_the_policies_is_made() {
    let text = policies::table(Size::Smoke).unwrap();
    for expected in ["| leveled | ", "a key that is there", "a key that is not"] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
}
