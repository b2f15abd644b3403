//! The Rust sources of a workspace, parsed.

use std::fmt;
use std::path::{Path, PathBuf};

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// The file, from the root of the tree.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, as a sentence.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// One file.
pub struct Source {
    /// The crate's folder, from the root: `crates/money`.
    pub crate_folder: String,
    /// The file, from the root.
    pub file: String,
    /// Its text.
    pub text: String,
    /// Its syntax.
    pub syntax: syn::File,
}

impl Source {
    /// Is the file part of the product, rather than of its tests, benchmarks and examples?
    pub fn is_product(&self) -> bool {
        let inside = self.file.strip_prefix(&self.crate_folder).unwrap_or(&self.file);
        inside.starts_with("/src/") && !inside.ends_with("/tests.rs") && !inside.contains("/tests/")
    }
}

/// All Rust files of `crates/`, `proof/` and `clients/`.
pub struct Tree {
    /// The root of the workspace.
    pub root: PathBuf,
    /// The files, sorted by name.
    pub sources: Vec<Source>,
}

impl Tree {
    /// Reads and parses every file below `root`.
    ///
    /// # Errors
    /// A file that cannot be read or is not Rust, with its name.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut sources = Vec::new();
        for family in ["crates", "proof", "clients", "clients/conform"] {
            for folder in folders(&root.join(family))? {
                read_crate(root, &folder, &mut sources)?;
            }
        }
        sources.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(Tree { root: root.to_path_buf(), sources })
    }

    /// The text of a page below the root.
    ///
    /// # Errors
    /// A page that cannot be read, with its name.
    pub fn page(&self, name: &str) -> Result<String, String> {
        read_text(&self.root.join(name))
    }
}

fn read_crate(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<(), String> {
    if !folder.join("Cargo.toml").is_file() {
        return Ok(());
    }
    let crate_folder = relative(root, folder);
    for part in ["src", "tests", "benches", "examples"] {
        for path in files(&folder.join(part), &["rs"])? {
            let text = read_text(&path)?;
            let syntax = syn::parse_file(&text)
                .map_err(|error| format!("{} is not Rust: {error}", path.display()))?;
            let file = relative(root, &path);
            sources.push(Source { crate_folder: crate_folder.clone(), file, text, syntax });
        }
    }
    Ok(())
}

pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn folders(parent: &Path) -> Result<Vec<PathBuf>, String> {
    let mut all = entries(parent)?;
    all.retain(|path| path.is_dir());
    Ok(all)
}

/// All files below a folder with one of these endings; none where there is no folder.
pub(crate) fn files(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            found.extend(files(&path, endings)?);
        } else if path.extension().is_some_and(|found| endings.iter().any(|e| found == *e)) {
            found.push(path);
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// Is this item built for tests only?
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.is_ident("test") {
            return true;
        }
        let syn::Meta::List(list) = &attribute.meta else { return false };
        path.is_ident("cfg") && list.tokens.to_string().split(' ').any(|word| word == "test")
    })
}
