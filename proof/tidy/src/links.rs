//! Links between pages.

use std::path::{Path, PathBuf};

use crate::tree::{Breach, Tree};

/// Every page of documentation that a reader opens, each as its path from the root and its text: those of the root but the change log,
/// and those below `docs/`. Sorted by path.
#[must_use]
pub fn documentation(root: &Path) -> Vec<(String, String)> {
    let named = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name));
    let mut paths: Vec<PathBuf> = named.into_iter().filter(|path| path.is_file()).collect();
    markdown(&root.join("docs"), &mut paths);
    paths.sort();
    let page = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned(), text))
    };
    paths.into_iter().filter_map(page).collect()
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// Links of pages, and of texts `"/docs/PAGE"` in the product, that lead to no file or to no heading of a page. Addresses of other
/// hosts are not judged.
#[must_use]
pub fn broken_links(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut judge = |file: &str, from: &str, (line, target): (usize, &str)| {
        if let Some(what) = broken(&tree.root, from, target) {
            breaches.push(Breach { file: file.to_string(), line, what });
        }
    };
    for (file, text) in documentation(&tree.root) {
        links(&text).into_iter().for_each(|link| judge(&file, &file, link));
    }
    for source in tree.sources.iter().filter(|source| source.is_product()) {
        served(&source.text).into_iter().for_each(|link| judge(&source.file, "docs/any.md", link));
    }
    breaches
}

/// The pages that texts in the code name as the admin door serves them, each with its line from 1.
fn served(text: &str) -> Vec<(usize, &str)> {
    let page = |line: &'_ str| -> Option<std::ops::Range<usize>> {
        let from = line.find("\"/docs/")? + "\"/docs/".len();
        let length = line[from..].find('"')?;
        // Tests of counters name pages that nobody wrote.
        let path = &line[from..from + length];
        (path.contains(".md") && path != "x.md").then_some(from..from + length)
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, &line[page(line)?]))).collect()
}

/// The targets of `[text](target)` outside of blocks, each with its line from 1.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(|target| (index + 1, target)));
        }
    }
    found
}

fn broken(root: &Path, file: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let from = root.join(file);
    let to = if path.is_empty() { from.clone() } else { from.parent()?.join(path) };
    if !to.exists() {
        return Some(format!("there is no file for the link `{target}`"));
    }
    if heading.is_empty() || to.extension().is_none_or(|ending| ending != "md") {
        return None;
    }
    let page = std::fs::read_to_string(&to).ok()?;
    let found = headings(&page).any(|one| one == heading);
    (!found).then(|| format!("the page has no heading for the link `{target}`"))
}

/// The anchors of a page's headings, as forges make them: lower case, words joined by dashes, other signs dropped.
fn headings(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}
