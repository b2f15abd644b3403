//! Warns where the dashboard in `web/dist`, which is packed into the binary as it lies there, was built from other sources than
//! those of now. `make web` leaves their hash beside what it builds (`web/scripts/sources.mjs`), and here it is made again. It is
//! checked for the binary and not where files are packed: there a warning would build all crates above it again.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What the dashboard is built from, below `web`.
const SOURCES: [&str; 7] = [
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=WEIR_WEB_DIST");
    let web =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web");
    // A crate outside the repository has no sources, and somebody who names another folder answers for it.
    if env::var_os("WEIR_WEB_DIST").is_some() || !web.join("src").is_dir() {
        return Ok(());
    }
    for source in SOURCES.iter().filter(|source| web.join(source).exists()) {
        println!("cargo:rerun-if-changed={}", web.join(source).display());
    }
    let built = web.join("dist/.sources");
    let watched = if built.is_file() { built.clone() } else { web.join("package.json") };
    println!("cargo:rerun-if-changed={}", watched.display());
    if !web.join("dist/index.html").is_file() {
        println!("cargo:warning=the dashboard is not built, so the binary has none: run make web");
    } else if fs::read_to_string(built).unwrap_or_default().trim() != hash(&web)? {
        println!(
            "cargo:warning=the dashboard in web/dist is older than its sources, and the binary has it so: run make web, then build again"
        );
    }
    Ok(())
}

fn hash(web: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        walk(web, source.to_string(), &mut files)?;
    }
    files.sort();
    let mut hash = FNV_BASIS;
    for file in files {
        let bytes = fs::read(web.join(&file))?;
        for byte in file.bytes().chain([0]).chain(bytes).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    Ok(format!("{hash:016x}"))
}

fn walk(web: &Path, path: String, files: &mut Vec<String>) -> io::Result<()> {
    let there = web.join(&path);
    if there.is_file() {
        files.push(path);
    } else if there.is_dir() {
        for entry in fs::read_dir(there)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                walk(web, format!("{path}/{name}"), files)?;
            }
        }
    }
    Ok(())
}
