//! Packs the built dashboard into the crate: each file as it is, by gzip and by brotli, with its hash. Without a built
//! dashboard the crate compiles all the same, and says so on its page. The pages of `docs` are packed too: errors lead to
//! them. And so is what the hot path cost from commit to commit, where that is there.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Files below this are not worth packing.
const PACK_MIN: usize = 1_024;
/// How hard brotli tries: the last step costs ten times the time for a percent.
const BROTLI_QUALITY: u32 = 10;

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=WEIR_WEB_DIST");
    println!("cargo:rerun-if-changed=../../docs");
    let dist = dist();
    watch(&dist);
    let mut pages = Vec::new();
    if dist.join("index.html").is_file() {
        walk(&dist, &mut pages)?;
    }
    let docs = PathBuf::from("../../docs");
    let mut texts: Vec<PathBuf> = fs::read_dir(&docs)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    texts.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut table = String::new();
    let version = pack(&mut table, "ASSETS", &dist, pages)?;
    pack(&mut table, "DOCS", &docs, texts)?;
    let _ = writeln!(table, "static VERSION: &str = {version:?};");
    let _ = writeln!(table, "pub(crate) static COSTS_HISTORY: &str = {:?};", costs_history()?);
    fs::write(out()?.join("assets.rs"), table)
}

fn out() -> io::Result<PathBuf> {
    env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| io::Error::other("no OUT_DIR"))
}

/// Writes a table of the files in a folder, and returns the hash of them all; `absent` where there are none.
fn pack(
    table: &mut String,
    name: &str,
    folder: &Path,
    mut files: Vec<PathBuf>,
) -> io::Result<String> {
    files.sort();
    let mut whole = Sha256::new();
    let _ = writeln!(table, "static {name}: &[Asset] = &[");
    for (index, file) in files.iter().enumerate() {
        let bytes = fs::read(file)?;
        let path = relative(folder, file);
        whole.update(path.as_bytes());
        whole.update(&bytes);
        entry(table, &format!("{name}-{index}"), &path, &bytes)?;
    }
    table.push_str("];\n");
    Ok(if files.is_empty() { "absent".to_string() } else { hex(&whole.finalize()) })
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
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The path in addresses.
fn relative(dist: &Path, file: &Path) -> String {
    let parts = file.strip_prefix(dist).unwrap_or(file).components();
    let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    parts.join("/")
}

fn entry(table: &mut String, stem: &str, path: &str, bytes: &[u8]) -> io::Result<()> {
    let plain = keep(stem, "plain", bytes)?;
    let packed = |kind: &str, packed: Vec<u8>| -> io::Result<String> {
        // What does not become a tenth smaller is sent as it is.
        if bytes.len() < PACK_MIN || packed.len() * 10 > bytes.len() * 9 {
            return Ok("None".to_string());
        }
        Ok(format!("Some({})", keep(stem, kind, &packed)?))
    };
    let gzip = packed("gz", gzip(bytes)?)?;
    let brotli = packed("br", brotli(bytes)?)?;
    let etag = format!("\"{}\"", hex(&Sha256::digest(bytes)));
    // Vite puts what has its hash in its name there.
    let hashed = path.starts_with("assets/");
    let _ = writeln!(
        table,
        "    Asset {{ path: {path:?}, etag: {etag:?}, hashed: {hashed}, plain: {plain}, gzip: {gzip}, brotli: {brotli} }},"
    );
    Ok(())
}

/// Writes the bytes beside the table, and says how they are included.
fn keep(stem: &str, kind: &str, bytes: &[u8]) -> io::Result<String> {
    let name = format!("{stem}.{kind}");
    fs::write(out()?.join(&name), bytes)?;
    Ok(format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\"))"))
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(bytes)?;
    writer.finish()
}

fn brotli(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let mut writer = brotli::CompressorWriter::new(&mut packed, 4_096, BROTLI_QUALITY, 22);
    writer.write_all(bytes)?;
    drop(writer);
    Ok(packed)
}

/// The first 8 bytes.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
