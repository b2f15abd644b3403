//! Replays the fuzz corpus: what fuzzing found interesting is tested by every plain `cargo test`. Between them stand mutations of its files,
//! drawn anew from a fixed seed.

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::Index as At;

/// The same function that the fuzz target calls.
#[path = "../../../../proof/fuzz/fix_checks.rs"]
mod checks;

fn seeds() -> Vec<Vec<u8>> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proof/fuzz/corpus/fix_parse");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{}: only {} files", folder.display(), files.len());
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn every_input_that_fuzzing_kept_is_sound() {
    seeds().iter().for_each(|bytes| checks::fix_parse(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn so_are_their_mutations(of: At, changes in prop::collection::vec((any::<At>(), any::<u8>(), 0..4_u8), 1..12)) {
        let mut bytes = seeds()[of.index(seeds().len())].clone();
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        checks::fix_parse(&bytes);
    }
}
