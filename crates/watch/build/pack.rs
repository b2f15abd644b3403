//! For build scripts: packs files into a table of `watch::Asset`, each as it is, by gzip and by brotli, with its hash. The build
//! script of `weir-docs` includes this file too.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Files below this are not worth packing.
const PACK_MIN: usize = 1_024;
/// How hard brotli tries: the last step costs ten times the time for a percent.
const BROTLI_QUALITY: u32 = 10;

/// Where a build script writes.
pub(crate) fn out() -> io::Result<PathBuf> {
    env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| io::Error::other("no OUT_DIR"))
}

/// Writes a table of the files in a folder, as `static NAME` or `pub static NAME`, and returns the hash of them all; `absent` where
/// there are none.
pub(crate) fn pack(
    table: &mut String,
    declared: &str,
    folder: &Path,
    mut files: Vec<PathBuf>,
) -> io::Result<String> {
    files.sort();
    let mut whole = Sha256::new();
    let name = declared.rsplit(' ').next().unwrap_or_default();
    let _ = writeln!(table, "{declared}: &[Asset] = &[");
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
