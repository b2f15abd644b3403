//! Replays the fuzz corpora: what the fuzzers found interesting is tested by every plain `cargo test`.
//!
//! `WEIR_CORPUS_WRITE=1 cargo test -p openrtb corpus` writes the seeds anew.

use std::fs;
use std::path::PathBuf;

use crate::bodies;

/// The same functions that the fuzz targets call.
#[path = "../../../../proof/fuzz/openrtb_checks.rs"]
pub(crate) mod checks;

/// Paths of notices, sound and not.
const NOTICES: [(&str, &str); 12] = [
    ("win", "/n/win/aG9sZA/p-1.25/c-USD"),
    ("bill", "/n/bill/aG9sZA/p-0.000001/c-JPY"),
    ("loss", "/n/loss/aG9sZA/p-1.25/c-USD/l-102"),
    ("literal", "/n/bill/aG9sZA/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}"),
    ("escaped", "/n/bill/aG9sZA/p-$%7BAUCTION_PRICE%7D/c-%24"),
    ("base64", "/n/bill/aG9sZA/p-MS4yNQ==/c-EUR"),
    ("slashes", "/n/bill/aG9sZA/p-YWJ/jKz+9/8=/c-EUR"),
    ("audit", "/n/win/aG9sZA/p-AUDIT/c-USD"),
    ("absurd", "/n/win/aG9sZA/p--1e300/c-USD"),
    ("bare", "/n/win/aG9sZA"),
    ("no_id", "/n/win//p-1"),
    ("no_kind", "/n/won/aG9sZA"),
];

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proof/fuzz/corpus").join(target)
}

fn replay(target: &str, check: fn(&[u8])) {
    if std::env::var_os("WEIR_CORPUS_WRITE").is_some() {
        write_seeds();
    }
    let folder = folder(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("a folder entry").path();
        let bytes = fs::read(&path).expect("a corpus file");
        let is_sound = std::panic::catch_unwind(|| check(&bytes)).is_ok();
        assert!(is_sound, "{}: the check panicked, see above", path.display());
        count += 1;
    }
    assert!(count >= 5, "{}: only {count} files", folder.display());
}

#[test]
fn openrtb_body() {
    replay("openrtb_body", checks::openrtb_body);
}

#[test]
fn openrtb_notice() {
    replay("openrtb_notice", checks::openrtb_notice);
}

fn write_seeds() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder(target);
        fs::create_dir_all(&folder).expect("the folder can be made");
        fs::write(folder.join(name), bytes).expect("the folder can be written");
    };
    for (name, body) in bodies::seeds() {
        write("openrtb_body", name, &body);
    }
    for (name, path) in NOTICES {
        write("openrtb_notice", name, path.as_bytes());
    }
}
