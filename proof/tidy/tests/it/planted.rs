//! One breach of each rule, planted in a small tree: each is found, and nothing else is.

use std::fmt::Write as _;

use tempfile::TempDir;
use tidy::{Breach, Tree};

/// A crate `a` with this text, and a page.
fn tree(text: &str) -> (TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    let sources = folder.path().join("crates/a/src");
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::write(folder.path().join("crates/a/Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
    std::fs::write(sources.join("lib.rs"), text).unwrap();
    let tree = Tree::read(folder.path()).unwrap();
    (folder, tree)
}

fn lines(breaches: &[Breach]) -> Vec<usize> {
    breaches.iter().map(|breach| breach.line).collect()
}

/// A function of so many lines, from `fn` to its brace.
fn function(name: &str, lines: usize) -> String {
    let mut text = format!("fn {name}() {{\n");
    for number in 0..lines - 2 {
        let _ = writeln!(text, "    let _ = {number};");
    }
    text + "}\n"
}

#[test]
fn a_function_that_is_too_long_is_found() {
    let longest = function("fits", tidy::LINES_MAX);
    let (_folder, small) = tree(&longest);
    assert_eq!(tidy::long_functions(&small), []);
    let text =
        format!("{longest}struct A;\nimpl A {{\n{}}}\n", function("long", tidy::LINES_MAX + 1));
    let (_folder, large) = tree(&text);
    let found = tidy::long_functions(&large);
    assert_eq!(lines(&found), [tidy::LINES_MAX + 3]);
    assert_eq!(
        found[0].to_string(),
        "crates/a/src/lib.rs:73: `long` has 71 lines, 70 is the limit"
    );
}

#[test]
fn a_match_over_single_expressions_may_be_long_and_no_other() {
    let arms = |last: &str| {
        let arms: String =
            (0..tidy::LINES_MAX).map(|n| format!("        {n} => \"{n}\",\n")).collect();
        format!(
            "fn name(n: u32) -> &'static str {{\n    match n {{\n{arms}        {last}\n    }}\n}}\n"
        )
    };
    let (_folder, table) = tree(&arms("_ => \"more\","));
    assert_eq!(tidy::long_functions(&table), []);
    let (_folder, other) = tree(&arms("_ => {\n            f();\n            \"more\"\n        }"));
    assert_eq!(lines(&tidy::long_functions(&other)), [1]);
}

#[test]
fn doors_may_have_types_of_one_name_and_one_door_may_not() {
    let (folder, _) = tree("struct Desk;\n");
    for door in ["one", "two"] {
        let door = folder.path().join("crates/a/src/doors").join(door);
        std::fs::create_dir_all(&door).unwrap();
        std::fs::write(door.join("mod.rs"), "struct Desk;\n").unwrap();
    }
    assert_eq!(tidy::doubled_types(&Tree::read(folder.path()).unwrap()), []);
    let second = folder.path().join("crates/a/src/doors/two/desk.rs");
    std::fs::write(second, "struct Desk;\n").unwrap();
    let found = tidy::doubled_types(&Tree::read(folder.path()).unwrap());
    assert_eq!(found.len(), 1);
    assert!(found[0].file.ends_with("doors/two/mod.rs"), "{found:?}");
}

#[test]
fn two_types_of_one_name_are_found() {
    let text = "struct Line;\nmod other {\n    enum Line {}\n}\nfn f() {\n    type Line = u8;\n}\n\
                #[cfg(test)]\nmod tests {\n    struct Line;\n}\n";
    let (_folder, tree) = tree(text);
    let found = tidy::doubled_types(&tree);
    assert_eq!(lines(&found), [3, 6]);
    assert_eq!(found[0].what, "`Line` is a type of crates/a/src/lib.rs:1 too");
}

const PAGE: &str = "# A\n\n## Threads\n\n| thread | sleeps in |\n| --- | --- |\n| main | signals |\n| writer | its queue |\n| ghost | - |\n\n\
                    | queue | bound |\n| --- | --- |\n| groups (`a/src/lib.rs`) | 1 |\n\n## Next\n";

#[test]
fn a_thread_without_a_row_and_a_row_without_a_thread_are_found() {
    let text = "fn f() {\n    std::thread::Builder::new().name(\"writer\".into()).spawn(run);\n    spawn(\"hidden\", run);\n}\n\
                #[cfg(test)]\nmod tests {\n    fn g() {\n        spawn(\"of-a-test\", run);\n    }\n}\n";
    let (_folder, tree) = tree(text);
    let found = tidy::threads_of(&tree, PAGE, "## Threads", &["main"]);
    assert_eq!(lines(&found.unlisted), [3]);
    assert_eq!(found.gone, ["ghost"]);
}

#[test]
fn a_queue_without_a_row_is_found() {
    let (_folder, tree) = tree("fn f() {\n    let (a, b) = mpsc::channel();\n}\n");
    assert_eq!(tidy::queues_without_a_row(&tree, PAGE, "## Threads"), []);
    let other = PAGE.replace("a/src/lib.rs", "a/src/other.rs");
    assert_eq!(lines(&tidy::queues_without_a_row(&tree, &other, "## Threads")), [2]);
}

#[test]
fn a_word_that_is_defined_twice_is_found() {
    let page = "- **tick**: one\n- **hold**, **held**: two\n- **Tick**: three\n";
    assert_eq!(tidy::doubly_defined(page), ["tick"]);
}

#[test]
fn a_name_that_the_code_does_not_have_is_found() {
    let (_folder, tree) = tree(
        "pub struct Purses;\nimpl Purses {\n    fn take() {}\n}\nconst RING_LEN: usize = 1;\n",
    );
    let page = "`Purses::take`, `Purses::lost`, `take()`, `gone()`, `RING_LEN`, `crates/a/src/lib.rs`, `crates/a/src/{lib,no}.rs`, \
                `some words`, `rtt`\n```\n`Example::only`\n```\n";
    assert_eq!(
        tidy::missing_names(&tree, page),
        ["Purses::lost", "crates/a/src/{lib,no}.rs", "gone()"]
    );
}

#[test]
fn tics_of_language_are_found() {
    let text = "/// Costs 3 ns a request.\n/// Prints one line once a second and ends.\n/// Which one a connection meets is chance.\n\
                /// The place is free once a grant closes; it asks a worker for money.\n/// Up to 100 asks a second\n\
                const TEXT: &str = \"the node did not end well\";\n";
    let (_folder, tree) = tree(text);
    let found = tidy::tics_of_sources(&tree);
    assert_eq!(lines(&found), [1, 2, 5, 6]);
    assert_eq!(
        found[0].to_string(),
        "crates/a/src/lib.rs:1: \"ns a request\": write \"ns per request\""
    );
    assert_eq!(
        lines(&tidy::tics("docs/a.md", "| bytes a row | 8 |\n| bytes per row | 8 |\n")),
        [1]
    );
}

/// A crate of 103 lines in four files, two of which are a circle, and its test of one line.
fn circled() -> (TempDir, Tree) {
    let (folder, _) = tree("mod a;\nmod b;\nmod c;\npub use a::A;\n");
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join("crates/a").join(name), text);
    write("src/a.rs", "use super::b::{self, B};\n").unwrap();
    let unused = "// as long as it must be\n".repeat(96);
    write("src/b.rs", &format!("fn f() -> crate::a::A {{}}\n{unused}")).unwrap();
    // Neither the root, nor what a test imports, closes a circle.
    write("src/c.rs", "use crate::A;\n").unwrap();
    std::fs::create_dir(folder.path().join("crates/a/tests")).unwrap();
    write("tests/it.rs", "use crate::b;\n").unwrap();
    let tree = Tree::read(folder.path()).unwrap();
    (folder, tree)
}

#[test]
fn files_that_import_from_each_other_are_a_circle() {
    let (_folder, tree) = circled();
    assert_eq!(
        tidy::circles(&tree, "crates/a"),
        [["crates/a/src/a.rs", "crates/a/src/b.rs"].map(String::from)]
    );
}

/// A row of the ledger of lines.
fn row(folder: &str, room: &str, caps: &str, began: &str, reason: &str) -> String {
    format!(
        "{{\"crate\":\"{folder}\",{room}\"caps\":{{{caps}}},\"began\":{{{began}}},\"reason\":\"{reason}\"}}"
    )
}

#[test]
fn each_breach_of_the_ledger_of_lines_is_found() {
    let (_folder, tree) = circled();
    let counts =
        |circles, src, tests| format!("\"circles\":{circles},\"src\":{src},\"tests\":{tests}");
    let (fits, lines) = (counts(1, 200, 100), "\"lines\":200");
    let of_crate = |caps: &str, began: &str, reason| row("crates/a", "", caps, began, reason);
    let good = of_crate(&fits, &fits, "");
    let all = |cap: &str| row("all but the rooms", "", cap, cap, "");
    let room =
        |cap: &str| row("crates/new", "\"room\":\"new\",", cap, cap, "what is new has a sum");
    let raised = of_crate(&fits, &counts(1, 100, 100), "new: what it brings to the crate");
    let fine = [all(lines), good.clone(), room("\"lines\":9")].join("\n");
    assert_eq!(tidy::sizes(&tree, &fine), [""; 0]);
    let fine = [all(lines), raised.clone(), room("\"lines\":100")].join("\n");
    assert_eq!(tidy::sizes(&tree, &fine), [""; 0]);

    let (zero, two) = (counts(0, 200, 100), counts(2, 200, 100));
    let (small, less) = (counts(1, 100, 100), counts(1, 100, 0));
    let long = "crates/a: 103 lines of src, the cap is 100: make it smaller, or raise the cap and say in `reason` what the lines are for\n";
    let test = "crates/a: 1 lines of tests, the cap is 0: make it smaller, or raise the cap and say in `reason` what the lines are for";
    let fall = "crates/a: 1 circles of files, the cap is 2: lower it\n";
    let unreasoned = format!(
        "{}: crates/a has a cap of 200 src, above 100: `reason` says what for",
        tidy::SIZES
    );
    let gone = row("crates/b", "", &fits, &fits, "");
    let cases: [(Vec<String>, String); 12] = [
        (vec![of_crate(&small, &small, "")], format!("{long}{}", of_crate(&fits, &small, "WHY?"))),
        (
            vec![of_crate(&less, &less, "known")],
            format!("{}\n{test}\n{}", long.trim_end(), of_crate(&fits, &less, "known WHY?")),
        ),
        (vec![of_crate(&fits, &small, "too short")], unreasoned.clone()),
        (vec![of_crate(&fits, &small, "a reason, and then WHY?")], unreasoned),
        (
            vec![of_crate(&zero, &zero, "")],
            "crates/a: 1 circles of files, the cap is 0 and only falls".into(),
        ),
        (vec![of_crate(&two, &two, "")], format!("{fall}{}", of_crate(&fits, &two, ""))),
        (
            vec![of_crate(&fits, &zero, "a reason of enough letters")],
            format!("{}: crates/a began with 0 circles", tidy::SIZES),
        ),
        (vec![], format!("{}: add the missing row\n{good}", tidy::SIZES)),
        (vec![good.clone(), gone], format!("{}: crates/b is gone", tidy::SIZES)),
        (vec![raised, room("\"lines\":99")], "crates/new: 100 lines, the cap is 99".into()),
        (
            vec![of_crate(&fits, "", "")],
            format!("{}:2: expected [\"circles\", \"src\", \"tests\"] in `caps`", tidy::SIZES),
        ),
        (
            vec!["{\"crate\":1}".into()],
            format!("{}:2: invalid type: integer `1`, expected a string", tidy::SIZES),
        ),
    ];
    for (rows, expected) in cases {
        let found = tidy::sizes(&tree, &([vec![all(lines)], rows].concat().join("\n")));
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:#?}, not {expected}");
    }
    let found = tidy::sizes(&tree, &[all("\"lines\":100"), good].join("\n"));
    assert!(found.len() == 1 && found[0].starts_with("all but the rooms: 104 lines,"), "{found:?}");
}

#[test]
fn links_to_no_file_and_to_no_heading_are_found() {
    let (folder, tree) =
        tree("const A: &str = \"/docs/a.md#a\";\nconst B: &str = \"/docs/a.md#gone\";\n");
    std::fs::create_dir_all(folder.path().join("docs/deep")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "README.md",
        "[a](docs/a.md#the-words-twice)\n[b](docs/b.md)\n```\n[c](docs/c.md)\n```\n",
    );
    write(
        "docs/a.md",
        "# A\n\n## The `words`, twice\n\n[up](#no-such)\n[out](https://a.example/b)\n",
    );
    write("docs/deep/d.md", "[there](../a.md#a) and [not there](a.md)\n");
    let found: Vec<String> = tidy::broken_links(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "README.md:2: there is no file for the link `docs/b.md`",
            "docs/a.md:5: the page has no heading for the link `#no-such`",
            "docs/deep/d.md:1: there is no file for the link `a.md`",
            "crates/a/src/lib.rs:2: the page has no heading for the link `a.md#gone`",
        ]
    );
}
