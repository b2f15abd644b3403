//! Packs the built dashboard into the crate: each file as it is, by gzip and by brotli, with its hash. Without a built
//! dashboard the crate compiles all the same, and says so on its page. What the hot path cost from commit to commit is packed
//! too, where that is there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "build/pack.rs"]
mod pack;

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=WEIR_WEB_DIST");
    println!("cargo:rerun-if-changed=build/pack.rs");
    let dist = dist();
    watch(&dist);
    let mut pages = Vec::new();
    if dist.join("index.html").is_file() {
        walk(&dist, &mut pages)?;
    }
    let mut table = String::new();
    let version = pack::pack(&mut table, "static ASSETS", &dist, pages)?;
    let _ = writeln!(table, "static VERSION: &str = {version:?};");
    let _ = writeln!(table, "pub(crate) static COSTS_HISTORY: &str = {:?};", costs_history()?);
    fs::write(pack::out()?.join("assets.rs"), table)
}

/// Where the built dashboard is.
fn dist() -> PathBuf {
    match env::var_os("WEIR_WEB_DIST") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
            .join("../../web/dist"),
    }
}

/// Lines of accepted costs; empty outside the repository.
fn costs_history() -> io::Result<String> {
    let folder = Path::new("../../proof/costs");
    if !folder.is_dir() {
        return Ok(String::new());
    }
    let file = folder.join("history.jsonl");
    let there = file.is_file();
    println!("cargo:rerun-if-changed={}", if there { &file } else { folder }.display());
    if there { fs::read_to_string(&file) } else { Ok(String::new()) }
}

/// Runs again when the dashboard was built. A path that does not exist would mean: run always; so its folder is watched.
fn watch(dist: &Path) {
    let there = [Some(dist), dist.parent()].into_iter().flatten().find(|path| path.is_dir());
    if let Some(there) = there {
        println!("cargo:rerun-if-changed={}", there.display());
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // What builds leave for each other is nobody's to load.
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            continue;
        }
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
