//! The tables are made, in small.

use costs::Size;

#[test]
fn every_table_is_made() {
    let text = costs::tables(Size::SMOKE).unwrap();
    assert_eq!(text.matches("Compaction policy").count(), 9);
    for expected in ["three kinds: Box<dyn>", "| leveled | ", "a key that is not"] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
}
