//! What pages say of the code.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

/// The cells of all rows of the first table below `heading` whose first column is called `first`.
pub(crate) fn table(page: &str, heading: &str, first: &str) -> Vec<Vec<String>> {
    let Some(section) = section(page, heading) else { return Vec::new() };
    let head = format!("| {first} |");
    let lines = section.lines().skip_while(|line| !line.starts_with(&head));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect())
        .collect()
}

fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let from = page.find(&format!("\n{heading}\n"))?;
    let body = &page[from + 1..];
    let end = body[1..].find("\n## ").map_or(body.len(), |at| at + 1);
    Some(&body[..end])
}

/// What stands in code type.
pub(crate) fn code_words(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// Words that a glossary defines more than once. A definition begins an item of a list, in bold: `- **word**, **other**: meaning`.
pub fn doubly_defined(glossary: &str) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    for line in glossary.lines().filter(|line| line.starts_with("- **")) {
        let defined = line.split("**:").next().unwrap_or_default();
        for word in defined.split("**").skip(1).step_by(2) {
            *seen.entry(word.to_lowercase()).or_default() += 1;
        }
    }
    seen.into_iter().filter(|(_, count)| *count > 1).map(|(word, _)| word).collect()
}

/// Names in code type of a page that look like Rust and that the sources do not have: `Type`, `Type::name`, `name()`, `crate::path`,
/// `CONSTANT`, and files below `crates/`, `proof/`, `schema/` and `docs/`. Names that are none of these are not judged.
pub fn missing_names(tree: &Tree, page: &str) -> Vec<String> {
    let identifiers: BTreeSet<&str> =
        tree.sources.iter().flat_map(|source| identifiers(&source.text)).collect();
    let mut missing = BTreeSet::new();
    for word in code_words(&without_blocks(page)) {
        let known =
            if is_path(&word) { path_exists(tree, &word) } else { is_known(&word, &identifiers) };
        if !known {
            missing.insert(word);
        }
    }
    missing.into_iter().collect()
}

/// Blocks between fences are examples.
fn without_blocks(page: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

fn is_path(word: &str) -> bool {
    let roots = ["crates/", "proof/", "schema/", "docs/", "web/"];
    roots.iter().any(|root| word.starts_with(root)) && !word.contains(['*', ' ', '<', '='])
}

/// `a/{b,c}.rs` stands for two files.
fn path_exists(tree: &Tree, word: &str) -> bool {
    let (Some(open), Some(close)) = (word.find('{'), word.find('}')) else {
        return tree.root.join(word).exists();
    };
    let (before, after) = (&word[..open], &word[close + 1..]);
    let mut names = word[open + 1..close].split(',');
    names.all(|name| tree.root.join(format!("{before}{name}{after}")).exists())
}

fn is_known(word: &str, identifiers: &BTreeSet<&str>) -> bool {
    let name = word.strip_suffix("()").unwrap_or(word);
    let parts: Vec<&str> = name.split("::").collect();
    let is_identifier =
        |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !parts.iter().all(is_identifier) {
        return true;
    }
    let is_type = parts[0].starts_with(|c: char| c.is_uppercase())
        && parts[0].chars().any(|c| c.is_lowercase() || c == '_');
    if parts.len() == 1 && !is_type && name.len() == word.len() {
        return true;
    }
    parts.iter().all(|part| {
        identifiers.contains(part) || identifiers.contains(part.replace('_', "-").as_str())
    })
}
