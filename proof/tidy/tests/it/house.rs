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

/// Threads that nothing of ours starts by a name that stands in the code: the process's own, one that `after` names, and those of a
/// library.
const NAMED_ELSEWHERE: [&str; 3] = ["main", "pacing-keeper", "fjall"];

#[test]
fn threads_and_queues_are_those_of_the_architecture() {
    let tree = tree();
    let page = tree.page("ARCHITECTURE.md").unwrap();
    let heading = "## Threads and queues";
    let threads = tidy::threads_of(&tree, &page, heading, &NAMED_ELSEWHERE);
    assert_eq!(threads, tidy::Threads { unlisted: Vec::new(), gone: Vec::new() });
    let queues = tidy::queues_without_a_row(&tree, &page, heading);
    let lines: Vec<String> = queues.iter().map(ToString::to_string).collect();
    assert!(queues.is_empty(), "{}", lines.join("\n"));
}

/// Folders in which each module is a benchmark of its own, with its own load, server and figures.
const BENCHMARKS: [&str; 2] = ["proof/peers/", "proof/costs/"];

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let found = tidy::doubled_types(&tree());
    let is_benchmark = |file: &str| BENCHMARKS.iter().any(|folder| file.starts_with(folder));
    let found: Vec<String> = found
        .iter()
        .filter(|breach| !is_benchmark(&breach.file))
        .map(ToString::to_string)
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
