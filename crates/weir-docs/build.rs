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
    let mut pages: Vec<PathBuf> = fs::read_dir(docs)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut table = "/// Every page, by its name.\n".to_string();
    pack::pack(&mut table, "pub static PAGES", docs, pages)?;
    fs::write(pack::out()?.join("pages.rs"), table)
}
