//! Replays the fuzz corpus of the journal's files: what the fuzzer found interesting is tested by every plain
//! `cargo test`.
//!
//! `WEIR_CORPUS_WRITE=1 cargo test -p ledger-journal corpus` writes the seeds anew.

use std::fs;
use std::path::PathBuf;

use ledger_journal::files::BLOCK_BYTES;
use ledger_journal::snapshot::advance;

use crate::damage::KEEP_ALL;
use crate::files::AT_MS;
use crate::history::{Made, group_ranges, options};

/// The same function that the fuzz target calls.
#[path = "../../../../proof/fuzz/journal_checks.rs"]
mod checks;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proof/fuzz/corpus/journal_files")
}

#[test]
fn journal_files() {
    if std::env::var_os("WEIR_CORPUS_WRITE").is_some() {
        write_seeds();
    }
    let mut count = 0;
    for file in fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let is_sound = std::panic::catch_unwind(|| checks::journal_files(&bytes)).is_ok();
        assert!(is_sound, "{}: the check panicked, see above", path.display());
        count += 1;
    }
    assert!(count >= 5, "only {count} files");
}

/// The same with every byte of a sound file changed, behind checksums that were made right again.
#[test]
fn changes_behind_right_checksums_are_refused_or_read() {
    let (segment, snapshot) = sound();
    for (kind, bytes) in [(2, segment), (3, snapshot)] {
        for at in 0..bytes.len() {
            if bytes[at] == 0xA5 {
                continue;
            }
            let mut strange = [&[kind], bytes.as_slice()].concat();
            strange[at + 1] ^= 1 << (at % 8);
            checks::journal_files(&strange);
        }
    }
}

/// A small segment and a small snapshot.
fn sound() -> (Vec<u8>, Vec<u8>) {
    let mut made = Made::new(1, 30, &[12]);
    made.run(5, &[5]);
    advance(&made.folder, &options(), &KEEP_ALL, AT_MS, &false.into()).unwrap();
    let [segment, snapshot] = [made.segments().remove(0), made.snapshots().remove(0)];
    (made.folder.get(&segment), made.folder.get(&snapshot))
}

fn write_seeds() {
    fs::create_dir_all(folder()).unwrap();
    let (segment, snapshot) = sound();
    let write = |name: &str, kind: u8, bytes: &[u8]| {
        fs::write(folder().join(name), [&[kind], bytes].concat()).unwrap();
    };
    write("segment", 0, &segment);
    write("segment_mended", 2, &segment);
    write("snapshot", 1, &snapshot);
    write("snapshot_mended", 3, &snapshot);
    let last = group_ranges(&segment).pop().unwrap();
    let mut torn = segment.clone();
    torn[last.start + 512..last.end].fill(0);
    write("segment_torn", 0, &torn);
    write("segment_cut", 0, &segment[..last.end - BLOCK_BYTES / 2]);
    write("head_only", 0, &segment[..BLOCK_BYTES]);
}
