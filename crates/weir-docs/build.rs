//! Packs the pages of `docs` into the crate, as the build script of `watch` packs the dashboard.

use std::path::{Path, PathBuf};
use std::{fs, io};

#[path = "../watch/build/pack.rs"]
mod pack;

fn main() -> io::Result<()> {
    for watched in ["build.rs", "../watch/build/pack.rs", "../../docs"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    let docs = Path::new("../../docs");
    let mut pages = Vec::new();
    markdown(docs, &mut pages)?;
    let mut table = "/// Every page, by its name.\n".to_string();
    pack::pack(&mut table, "pub static PAGES", docs, pages)?;
    fs::write(pack::out()?.join("pages.rs"), table)
}

/// Adds every page in the folder and below it.
fn markdown(folder: &Path, pages: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            markdown(&path, pages)?;
        } else if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
    Ok(())
}
