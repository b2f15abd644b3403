//! Replays the fuzz corpora: what the fuzzers found interesting is tested by every plain `cargo test`.
//!
//! `WEIR_CORPUS_WRITE=1 cargo test -p wire corpus` writes the seeds (golden frames and hostile ones) anew.

use std::fs;
use std::path::PathBuf;

use crate::{hostile, journal, samples};

/// The same functions that the fuzz targets call.
#[path = "../../../../proof/fuzz/checks.rs"]
pub(crate) mod checks;

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proof/fuzz/corpus").join(target)
}

fn replay(target: &str, check: fn(&[u8])) {
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
fn frame_decode() {
    if std::env::var_os("WEIR_CORPUS_WRITE").is_some() {
        write_seeds();
    }
    replay("frame_decode", checks::frame_decode);
}

#[test]
fn frame_stream() {
    if std::env::var_os("WEIR_CORPUS_WRITE").is_some() {
        write_seeds();
    }
    replay("frame_stream", checks::frame_stream);
}

#[test]
fn journal_decode() {
    if std::env::var_os("WEIR_CORPUS_WRITE").is_some() {
        write_seeds();
    }
    replay("journal_decode", checks::journal_decode);
}

fn write_seeds() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder(target);
        fs::create_dir_all(&folder).expect("the folder can be made");
        fs::write(folder.join(name), bytes).expect("the folder can be written");
    };
    let samples = samples::all();
    for (name, frame) in &samples {
        write("frame_decode", name, frame);
    }
    for case in hostile::cases() {
        write("frame_decode", case.name, &case.frame);
    }
    for (name, record) in journal::samples() {
        write("journal_decode", name, &record);
    }
    for case in journal::lies() {
        write("journal_decode", case.name, &case.record);
    }
    let all: Vec<u8> = samples.iter().flat_map(|(_, frame)| frame.clone()).collect();
    for chunk_len in [1_u8, 7, 64] {
        let name = format!("all_in_chunks_of_{chunk_len}");
        write("frame_stream", &name, &[&[chunk_len - 1], all.as_slice()].concat());
    }
    let half = &all[..all.len() / 2];
    write("frame_stream", "ends_in_the_middle", &[&[4], half].concat());
    let garbage = [&[9], samples[7].1.as_slice(), b"GET / HTTP/1.1\r\n\r\n"].concat();
    write("frame_stream", "garbage_behind_a_frame", &garbage);
    let lie = [&[2], samples[7].1.as_slice(), &[0xFF, 0xFF, 0xFF, 0xFF, 0xEB, 0x50, 1, 2]].concat();
    write("frame_stream", "length_lie_behind_a_frame", &lie);
}
