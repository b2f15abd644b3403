//! The repository keeps the rules.

use std::path::Path;

use tidy::{Breach, Tree};

/// The sources take seconds to parse, and cannot be shared by the threads of several tests.
#[test]
fn the_repository_keeps_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let tree = Tree::read(&root).unwrap();
    let rules =
        [glossary, pages, long_pages, links, threads_and_queues, functions, types, tics, sizes];
    let breaches: Vec<String> = rules.iter().flat_map(|rule| rule(&tree)).collect();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

fn sizes(tree: &Tree) -> Vec<String> {
    tidy::sizes(tree, &tree.page(tidy::SIZES).unwrap())
}

fn glossary(tree: &Tree) -> Vec<String> {
    let twice = tidy::doubly_defined(&tree.page("docs/glossary.md").unwrap());
    twice.iter().map(|word| format!("docs/glossary.md defines {word} twice")).collect()
}

/// Pages that name the code.
const PAGES: [&str; 4] =
    ["ARCHITECTURE.md", "docs/glossary.md", "docs/ledger.md", "docs/life-of-a-bid.md"];

fn pages(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for page in PAGES {
        let missing = tidy::missing_names(tree, &tree.page(page).unwrap());
        breaches.extend(missing.iter().map(|name| format!("{page}: the sources have no `{name}`")));
    }
    breaches
}

/// What one reads in one go; a longer page is split by what its reader does.
const WORDS_MAX: usize = 6_000;

fn long_pages(tree: &Tree) -> Vec<String> {
    let long = |(path, text): (String, String)| {
        let words = text.split_whitespace().count();
        (words > WORDS_MAX).then(|| {
            format!("{path}: {words} words; a page has at most {WORDS_MAX}: split it by what its reader does")
        })
    };
    tidy::documentation(&tree.root).into_iter().filter_map(long).collect()
}

fn links(tree: &Tree) -> Vec<String> {
    tidy::broken_links(tree).iter().map(ToString::to_string).collect()
}

/// Threads that nothing of ours starts by a name that stands in the code: the process's own, and those of a library.
const NAMED_ELSEWHERE: [&str; 3] = ["main", "fjall", "jemalloc"];

fn threads_and_queues(tree: &Tree) -> Vec<String> {
    let page = tree.page("ARCHITECTURE.md").unwrap();
    let heading = "## Threads and queues";
    let threads = tidy::threads_of(tree, &page, heading, &NAMED_ELSEWHERE);
    let gone = threads.gone.iter().map(|name| format!("ARCHITECTURE.md: nothing starts `{name}`"));
    let queues = tidy::queues_without_a_row(tree, &page, heading);
    gone.chain(threads.unlisted.iter().chain(&queues).map(ToString::to_string)).collect()
}

/// Functions that are better whole, by file and name, each with its reason.
const PLANNED_LONG: [(&str, &str, &str); 1] = [(
    "crates/weir-tools/src/journal/text.rs",
    "fields",
    "one arm per kind of record, in the order of the kinds: what each says is read in one place",
)];

fn functions(tree: &Tree) -> Vec<String> {
    let found = tidy::long_functions(tree);
    let is_planned = |breach: &Breach, (file, name, _): &(&str, &str, &str)| {
        breach.file == *file && breach.what.starts_with(&format!("`{name}` "))
    };
    let unplanned = found.iter().filter(|b| !PLANNED_LONG.iter().any(|plan| is_planned(b, plan)));
    let stale = PLANNED_LONG.iter().filter(|plan| !found.iter().any(|b| is_planned(b, plan)));
    let stale = stale.map(|(file, name, _)| {
        format!("{file}: `{name}` is long no more: take it off the list of exceptions")
    });
    unplanned.map(ToString::to_string).chain(stale).collect()
}

/// Folders in which each module is a benchmark of its own, with its own load, server and figures.
const BENCHMARKS: [&str; 2] = ["proof/peers/", "proof/costs/"];

fn types(tree: &Tree) -> Vec<String> {
    let is_benchmark = |file: &str| BENCHMARKS.iter().any(|folder| file.starts_with(folder));
    let found = tidy::doubled_types(tree);
    let found = found.iter().filter(|breach| !is_benchmark(&breach.file));
    found.map(ToString::to_string).collect()
}

/// Pages that a program writes from figures of an earlier day, and one that is being written anew.
const PAGES_EXEMPT: [&str; 2] = ["costs.md", "measuring.md"];

fn tics(tree: &Tree) -> Vec<String> {
    let mut found = tidy::tics_of_sources(tree);
    // This rule's own words and the breaches that its tests plant.
    found.retain(|breach| !breach.file.starts_with("proof/tidy/"));
    let mut pages = tidy::documentation(&tree.root);
    pages.retain(|(path, _)| !PAGES_EXEMPT.iter().any(|exempt| path.ends_with(exempt)));
    assert!(pages.len() > 15, "{pages:?}");
    pages.push(("CHANGELOG.md".into(), tree.page("CHANGELOG.md").unwrap()));
    for (path, text) in pages {
        found.extend(tidy::tics(&path, &text));
    }
    found.iter().map(ToString::to_string).collect()
}
