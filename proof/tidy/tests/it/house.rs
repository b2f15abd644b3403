//! The repository keeps the rules.

use std::path::{Path, PathBuf};

use tidy::Tree;

fn tree() -> Tree {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    Tree::read(&root).unwrap()
}

#[test]
fn the_glossary_defines_each_word_once() {
    let glossary = tree().page("docs/glossary.md").unwrap();
    assert_eq!(tidy::doubly_defined(&glossary), Vec::<String>::new());
}

#[test]
fn pages_name_what_there_is() {
    let tree = tree();
    for name in ["ARCHITECTURE.md", "docs/glossary.md", "docs/ledger.md", "docs/life-of-a-bid.md"] {
        let missing = tidy::missing_names(&tree, &tree.page(name).unwrap());
        assert_eq!(missing, Vec::<String>::new(), "{name} names what the sources do not have");
    }
}
