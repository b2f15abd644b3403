//! The rules of ARCHITECTURE.md, checked: who may depend on whom, what pure crates do without, and that the page
//! names every crate there is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Usable by every family; `access` because every door judges tokens, names and pages by the same rules, `disk` because every store has one; `openrtb` comes over HTTP.
const UNITS: [&str; 11] = [
    "money",
    "wire",
    "probe",
    "table",
    "access",
    "counters",
    "disk",
    "fix",
    "fix-session",
    "openrtb",
    "vault",
];
/// What asks a running node's admin door, for the tools that do so from outside; in a node, the keys door asks another Transit with it.
const CLIENT: &str = "admin-client";
const TOOLS: [&str; 1] = ["watch-top"];
/// What folds over the ledger's records: they need its types, and nothing else of it.
const FOLDS: [&str; 2] = ["figures", "figures-store"];
/// Whole doors: they stand on the till, never on the node that runs them, and on what is beside each.
const DOORS: [(&str, &[&str]); 5] = [
    ("door-batch", &[]),
    ("door-fix", &["fix-store", "gate-orders"]),
    ("door-keys", &["vault-store", CLIENT]),
    ("door-openrtb", &["gate-auction", "gate-profile"]),
    ("door-spend", &[]),
];
const TILL: [&str; 5] = ["ledger", "weir-budgets", "weir-config", "weir-till", "weir-door"];
/// Pure: no I/O, no threads, no clock, no randomness, but in the `gate` of a door.
const PURE: [&str; 13] = [
    "money",
    "wire",
    "table",
    "counters",
    "fix",
    "fix-session",
    "door-fix",
    "gate-pacing",
    "gate-auction",
    "gate-orders",
    "ledger",
    "figures",
    "door-keys",
];
/// Where `unsafe` may stand.
const UNSAFE: [&str; 5] = ["door-transport", "fix", "probe", "table", "vault"];
/// The one family that knows all others.
const COMPOSER: &str = "weir";
/// ...and its own order: each depends on those before it, never on one after it.
const COMPOSED: [&str; 12] = [
    "weir-docs",
    "weir-pacer",
    "weir-pace",
    "weir-config",
    "weir-budgets",
    "weir-till",
    "weir-door",
    "weir-edits",
    "weir-node",
    "weir-survey",
    "weir-tools",
    "weir",
];
/// What only the binary depends on: the node waits neither for the simulator of pacing nor for a page of documentation.
const OF_THE_BINARY: [&str; 2] = ["weir-docs", "weir-pace"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Crate name to its folder.
fn crates(folder: &str) -> BTreeMap<String, PathBuf> {
    let entries =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let crates = entries.filter(|path| path.join("Cargo.toml").is_file());
    crates.map(|path| (path.file_name().unwrap().to_str().unwrap().to_string(), path)).collect()
}

/// The crates below `clients/`: those of other languages have folders without a manifest of Cargo's.
fn client_crates() -> BTreeMap<String, PathBuf> {
    let crates = ["clients/rust", "clients/conform/fake-node"];
    crates.map(|folder| (folder.to_string(), root().join(folder))).into()
}

fn manifest(folder: &Path) -> toml::Table {
    std::fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// Crates of this workspace that a crate depends on when it is built (tests aside).
fn own_dependencies(folder: &Path, own: &BTreeSet<String>) -> BTreeSet<String> {
    let manifest = manifest(folder);
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    table
        .into_iter()
        .flat_map(toml::Table::keys)
        .filter(|name| own.contains(*name))
        .cloned()
        .collect()
}

fn family(name: &str) -> &str {
    name.split('-').next().unwrap()
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    rust_files(folder.join("src"))
}

fn rust_files(folder: PathBuf) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// The lines of a file that are built into the product, each with its place from 0: without comments, and without the items behind
/// `#[cfg(test)]`, wherever they stand.
fn product_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end_of_test = None;
    text.lines().enumerate().filter(move |(_, line)| {
        let (bare, is_over) = (line.trim_start(), end_of_test.is_none());
        if bare == "#[cfg(test)]" && is_over {
            end_of_test = Some(" ".repeat(line.len() - bare.len()));
        }
        let Some(indent) = &end_of_test else { return !bare.starts_with("//") };
        let of_item = line.strip_prefix(indent.as_str()).filter(|rest| !rest.starts_with(' '));
        let ends = |rest: &str| rest.starts_with('}') || rest.ends_with(';');
        if of_item.is_some_and(ends) {
            end_of_test = None;
        }
        false
    })
}

#[test]
fn what_is_for_tests_is_left_out_and_nothing_behind_it() {
    let text = "use a;\n#[cfg(test)]\nmod far;\n// why\nfn b() {\n    #[cfg(test)]\n    c();\n    d();\n}\n#[cfg(test)]\nimpl E {\n    fn f() {}\n}\nfn g() {}\n";
    let left: Vec<&str> = product_lines(text).map(|(_, line)| line.trim()).collect();
    assert_eq!(left, ["use a;", "fn b() {", "d();", "}", "fn g() {}"]);
    assert_eq!(product_lines(text).last(), Some((13, "fn g() {}")));
}

#[test]
fn folder_names_are_crate_names() {
    for folder in ["crates", "proof"] {
        for (name, path) in crates(folder) {
            let package = manifest(&path)["package"]["name"].as_str().unwrap().to_string();
            assert!(package == name || name == "fuzz", "{} is called {package}", path.display());
        }
    }
}

#[test]
fn families_depend_on_units_only() {
    let crates = crates("crates");
    let own: BTreeSet<String> = crates.keys().cloned().collect();
    for (name, path) in &crates {
        if family(name) == COMPOSER {
            continue;
        }
        for dependency in own_dependencies(path, &own) {
            let unit = UNITS.contains(&dependency.as_str());
            let same_family =
                family(name) == family(&dependency) && !UNITS.contains(&name.as_str());
            let folds = dependency.starts_with("ledger") && FOLDS.contains(&name.as_str());
            let asks_a_node = dependency == CLIENT && TOOLS.contains(&name.as_str());
            let on_till = DOORS.iter().any(|(door, beside)| {
                door == name && (TILL.contains(&&*dependency) || beside.contains(&&*dependency))
            });
            let over_http =
                name == "openrtb" && ["door-http", "door-transport"].contains(&&*dependency);
            assert!(
                unit || same_family || asks_a_node || folds || over_http || on_till,
                "{name} depends on {dependency}: a family depends on the units ({UNITS:?}) and itself, a whole door on the till ({TILL:?}); only {COMPOSER} composes"
            );
        }
    }
}

#[test]
fn clients_depend_on_units_only() {
    let own: BTreeSet<String> = crates("crates").into_keys().collect();
    for (name, path) in client_crates() {
        for dependency in own_dependencies(&path, &own) {
            let known = ["money", "wire"].contains(&dependency.as_str());
            assert!(known, "{name} depends on {dependency}: a client has no part of the node");
        }
        for (file, text) in sources(&path) {
            let found = product_lines(&text).find(|(_, line)| line.contains("unsafe {"));
            assert!(found.is_none(), "{}: unsafe code", file.display());
        }
    }
}

#[test]
fn the_composer_depends_in_one_direction() {
    let crates = crates("crates");
    let own: BTreeSet<String> = crates.keys().cloned().collect();
    let composed: BTreeSet<&str> =
        own.iter().map(String::as_str).filter(|name| family(name) == COMPOSER).collect();
    assert_eq!(composed, COMPOSED.into_iter().collect(), "COMPOSED has the crates of {COMPOSER}");
    let place = |name: &str| COMPOSED.iter().position(|one| *one == name);
    for name in COMPOSED {
        for dependency in own_dependencies(&crates[name], &own) {
            assert!(
                place(&dependency).is_none_or(|at| Some(at) < place(name)),
                "{name} depends on {dependency}: the order is {COMPOSED:?}"
            );
            let of_the_binary = OF_THE_BINARY.contains(&dependency.as_str());
            assert!(!of_the_binary || name == COMPOSER, "{name} waits for {dependency}");
        }
    }
}

#[test]
fn the_binary_only_composes() {
    let sources = sources(&crates("crates")[COMPOSER]);
    let lines: usize = sources.iter().map(|(_, text)| working_lines(text)).sum();
    assert!(
        lines < 400,
        "{lines} lines in functions of {COMPOSER}/src that do more than dispatch: what does something has a crate below"
    );
}

/// Lines in the bodies of functions that are not one `match` over single expressions: flags and their texts, and who is called for a subcommand, may grow.
fn working_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let body = |(at, line): (usize, &&str)| {
        let indent = line.len() - line.trim_start().len();
        let is_fn = line.trim_start().starts_with("fn ")
            || line.trim_start().starts_with("pub") && line.contains(" fn ");
        let opens = at + lines[at..].iter().position(|line| line.ends_with('{'))? + 1;
        let ends = |line: &&str| line.strip_prefix(&" ".repeat(indent)) == Some("}");
        let body = &lines[opens..opens + lines[opens..].iter().position(ends)?];
        let first = body.first()?.trim_start();
        let closes = body.last()?.len() == indent + 5;
        let is_table = first.starts_with("match ")
            && closes
            && !body.iter().any(|line| line.ends_with("=> {"));
        (is_fn && !is_table).then_some(body.len())
    };
    lines.iter().enumerate().filter_map(body).sum()
}

#[test]
fn pure_crates_have_no_clock_io_or_threads() {
    let banned = [
        "std::fs",
        "std::net",
        "std::thread",
        "std::process",
        "std::io",
        "std::env",
        "Instant::now",
        "SystemTime",
        "println!",
        "eprintln!",
        "getrandom",
        "HashMap::new",
        "RandomState",
    ];
    let crates = crates("crates");
    for name in PURE.iter().filter_map(|name| crates.get(*name)) {
        let gate = name.join("src/gate");
        for (path, text) in sources(name).into_iter().filter(|(path, _)| !path.starts_with(&gate)) {
            for (line, content) in product_lines(&text) {
                for word in banned {
                    assert!(
                        !content.contains(word),
                        "{}:{}: {word} in a pure crate",
                        path.display(),
                        line + 1
                    );
                }
            }
        }
    }
}

#[test]
fn unsafe_code_stands_only_where_it_may() {
    for (name, path) in crates("crates") {
        for (file, text) in sources(&path) {
            let found = product_lines(&text).find(|(_, line)| {
                line.contains("unsafe {")
                    || line.contains("unsafe fn")
                    || line.contains("unsafe impl")
            });
            if let Some((line, _)) = found {
                assert!(
                    UNSAFE.contains(&name.as_str()),
                    "{}:{}: unsafe code",
                    file.display(),
                    line + 1
                );
            }
        }
    }
}

#[test]
fn money_never_touches_a_float() {
    let crates = crates("crates");
    for name in ["money", "ledger", "figures", "gate-orders", "gate-pacing"] {
        for (path, text) in sources(&crates[name]) {
            for (line, content) in product_lines(&text) {
                let float = content.contains("f64") || content.contains("f32");
                assert!(!float, "{}:{}: a float in {name}", path.display(), line + 1);
            }
        }
    }
}

#[test]
fn architecture_names_every_crate_and_no_other() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut named = BTreeSet::new();
    let map = page.split("## Code map").nth(1).expect("a code map").split("\n## ").next().unwrap();
    for line in map.lines().filter(|line| line.starts_with("| `")) {
        named.insert(line.split('`').nth(1).unwrap().to_string());
    }
    let mut there: BTreeSet<String> = crates("crates").into_keys().collect();
    there.extend(crates("proof").into_keys().map(|name| format!("proof/{name}")));
    there.extend(client_crates().into_keys());
    assert_eq!(
        named, there,
        "the code map of ARCHITECTURE.md and the folders of crates/, proof/ and clients/"
    );
}

#[test]
fn contributing_says_when_to_run_each_module_of_the_slow_tests() {
    let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let named: BTreeSet<&str> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter(|word| !word.contains('/'))
        .collect();
    let main = root().join("crates/weir/tests/it/main.rs");
    let main = std::fs::read_to_string(main).unwrap();
    let modules = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let helpers = BTreeSet::from(["client", "openrtb", "support"]);
    let there: BTreeSet<&str> = modules.filter(|module| !helpers.contains(module)).collect();
    assert_eq!(named, there, "the table of CONTRIBUTING.md and the modules of weir --test it");
}

#[test]
fn readme_shows_the_commands() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["make run", "make test", "make bench", "make demo"] {
        assert!(readme.contains(command), "README.md does not show `{command}`");
    }
}

#[test]
fn ci_runs_our_own_tests_and_the_peers() {
    let script = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    for command in ["make test", "make test-peers"] {
        assert!(script.lines().any(|line| line == command), ".ci/run does not call `{command}`");
    }
}

#[test]
fn licences_are_on_the_list() {
    let lock: toml::Table =
        std::fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let names: Vec<&str> =
        lock["package"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    for banned in ["openssl", "openssl-sys", "native-tls", "chrono", "rust_decimal"] {
        assert!(
            !names.contains(&banned),
            "{banned} is in the tree; deny.toml says why it must not be"
        );
    }
}

/// The pages of the list of attacks, each with its path.
fn attack_pages() -> Vec<(String, String)> {
    let folder = root().join("docs/attacks");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let page = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (format!("docs/attacks/{name}"), std::fs::read_to_string(&path).unwrap())
    };
    let mut pages: Vec<_> = files.map(page).collect();
    pages.sort();
    pages
}

/// What the list of attacks may name as a test: functions of ours, files of journeys, targets of the Makefile.
struct Known {
    /// By crate.
    functions: BTreeMap<String, BTreeSet<String>>,
    journeys: BTreeSet<String>,
    makefile: String,
    /// The scenarios of the conformance suite, which every client passes.
    plays: String,
}

impl Known {
    fn read() -> Known {
        let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let clients = client_crates().into_values().map(|folder| {
            let name = manifest(&folder)["package"]["name"].as_str().unwrap().to_string();
            (name, folder)
        });
        let all = crates("crates").into_iter().chain(crates("proof")).chain(clients);
        for (name, folder) in all {
            let known = functions.entry(name).or_default();
            let folders = [folder.join("src"), folder.join("tests")];
            for (_, text) in folders.into_iter().filter(|path| path.is_dir()).flat_map(rust_files) {
                let names =
                    text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
                known.extend(names.map(str::to_string));
            }
        }
        let journeys = std::fs::read_dir(root().join("web/journeys")).unwrap();
        let journeys = journeys.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
        let plays = root().join("clients/conform/scenarios.json");
        let plays = std::fs::read_to_string(plays).unwrap();
        Known { functions, journeys: journeys.collect(), makefile, plays }
    }

    fn has(&self, test: &str) -> bool {
        if let Some(target) = test.strip_prefix("make ") {
            return self.makefile.contains(&format!("\n{target}:"));
        }
        let Some((place, name)) = test.split_once(": ") else { return false };
        match place {
            "journey" => self.journeys.contains(name),
            "web" => root().join("web").join(name).is_file(),
            "play" => self.plays.contains(&format!("\"name\": \"{name}\"")),
            _ => self
                .functions
                .get(place)
                .is_some_and(|known| known.contains(name.rsplit("::").next().unwrap())),
        }
    }
}

#[test]
fn every_attack_has_a_test_that_exists() {
    let known = Known::read();
    for (path, page) in attack_pages() {
        let rows = page.lines().filter(|line| {
            line.starts_with("| ") && !line.starts_with("| attack |") && !line.starts_with("| ---")
        });
        for row in rows {
            let cells = row.trim_matches('|').split(" | ").collect::<Vec<_>>();
            assert_eq!(cells.len(), 3, "{path}: an attack, its answer and its test: {row}");
            let tests = cells[2].split('`').skip(1).step_by(2).collect::<Vec<_>>();
            assert!(!tests.is_empty(), "{path}: no test stands beside {row}");
            for test in tests {
                assert!(known.has(test), "{path} names the test {test}, which does not exist");
            }
        }
    }
}

/// A door without rows was attacked by nobody.
#[test]
fn every_door_has_rows_in_the_list_of_attacks() {
    let doors = root().join("crates/weir-config/src/doors.rs");
    let doors = std::fs::read_to_string(doors).unwrap();
    let titles = doors.lines().filter_map(|line| line.trim().strip_prefix("title: \""));
    let titles: Vec<&str> = titles.filter_map(|rest| rest.split('"').next()).collect();
    assert!(titles.len() >= 5, "the doors of weir-config: {titles:?}");
    let pages: String = attack_pages().into_iter().map(|(_, page)| page).collect();
    for title in titles {
        let heading = format!("\n## The {title}\n");
        let section = pages.split_once(&heading).and_then(|(_, rest)| rest.split("\n## ").next());
        let rows = section.map_or(0, |section| section.matches("\n| ").count());
        assert!(
            rows > 2,
            "docs/attacks: expected a section `{}` with rows `| attack | answer | `test` |`",
            heading.trim()
        );
    }
}

/// Where the OpenRTB door is named for what it alone does, so that another door need not be.
const OPENRTB_ALONE: [(&str, &str); 14] = [
    ("crates/ledger-journal/src/codec/record.rs", "the origin of a settlement"),
    (
        "crates/ledger/src/bank/resolve.rs",
        "its loss notices release what a billing notice may still claim",
    ),
    ("crates/ledger/src/record.rs", "the origin of a settlement"),
    ("crates/weir-budgets/src/campaign_index.rs", "campaigns bid there, in its currency"),
    ("crates/weir-budgets/src/campaigns/click.rs", "what leads somewhere is its macros"),
    ("crates/weir-budgets/src/campaigns/native.rs", "the assets of a native ad are its protocol's"),
    ("crates/weir-budgets/src/campaigns/video.rs", "players of videos are its protocol's"),
    ("crates/weir-config/src/values.rs", "purposes of consent are its protocol's"),
    ("crates/weir-node/src/bank/reconcile.rs", "files of exchanges name its bids"),
    ("crates/weir-survey/src/admin.rs", "`weir why` and its object in the counters"),
    ("crates/weir-survey/src/counted.rs", "its counters of reasons"),
    ("crates/weir-tools/src/check.rs", "creatives that its notices keep from secure pages"),
    ("crates/weir-tools/src/journal/text.rs", "the origin of a settlement"),
    ("crates/weir-tools/src/why.rs", "explains one of its requests"),
];

/// The files of the table under "To add a door".
fn files_of_a_door() -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, rest) = page.split_once("\n## To add a door\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let files = cells.flat_map(|cell| cell.split(['`', ' ', ',']));
    files.filter(|file| file.ends_with(".rs")).map(String::from).collect()
}

#[test]
fn a_door_is_one_folder_and_the_lines_that_the_page_lists() {
    let (mut naming, mut of_echo) = (BTreeSet::new(), Vec::new());
    for (name, folder) in crates("crates") {
        for (path, text) in sources(&folder) {
            let file = path.strip_prefix(root()).unwrap().to_str().unwrap().to_string();
            let own = |door: &str| file.starts_with(&format!("crates/weir-node/src/doors/{door}/"));
            let door = file.strip_prefix("crates/weir-node/src/doors/");
            let door = door.and_then(|rest| rest.split_once('/')).filter(|_| !own("echo"));
            let of_node = door.and_then(|(door, _)| {
                let of_itself = format!("crate::doors::{door}::");
                let taken = |line: &str| line.contains("crate::") && !line.contains(&of_itself);
                product_lines(&text).find(|(_, line)| taken(line))
            });
            assert_eq!(of_node, None, "{file}: a door stands on weir-door, not on weir-node");
            let names = |(_, line): (usize, &str)| line.to_lowercase().contains("openrtb");
            let elsewhere = !name.ends_with("openrtb") && !file.ends_with("/tests.rs");
            if elsewhere && product_lines(&text).any(names) {
                naming.insert(file.clone());
            }
            let names = |line: &&str| line.contains("mod echo") || line.contains("EchoDoor");
            let lines = text.lines().filter(|_| !own("echo")).filter(names);
            of_echo.extend(lines.map(|line| format!("{file}: {line}")));
        }
    }
    let alone: BTreeSet<String> = OPENRTB_ALONE.map(|(file, _)| file.to_string()).into();
    let listed = files_of_a_door();
    assert!(listed.is_disjoint(&alone) && listed.len() > 5, "{listed:?}");
    let allowed = &listed | &alone;
    let row = |file: &String| format!("| `{file}` | what a door has there |");
    let missing: Vec<String> = naming.difference(&allowed).map(row).collect();
    assert!(
        missing.is_empty(),
        "these files name a door; add them to the table under \"To add a door\" in ARCHITECTURE.md, or keep the door out of them:\n{}",
        missing.join("\n")
    );
    let gone: Vec<&String> = allowed.difference(&naming).collect();
    assert!(gone.is_empty(), "these files name no door any more; their rows can go: {gone:?}");
    assert_eq!(of_echo, ["crates/weir-node/src/doors/mod.rs: mod echo;"]);
}
