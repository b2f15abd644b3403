//! Real requests: our own samples always, a folder of others where `CORPUS` names one.

use std::path::{Path, PathBuf};

use crate::fake::{Sin, hammer, start};

fn replay(file: &Path) -> hammer::Report {
    let node = start(Sin::None, 20, 1_000_000_000_000);
    let report = hammer(&node, &format!("--asks-from {}", file.display()));
    assert_eq!(report.audit, "ok", "{report:#?}");
    report
}

#[test]
fn the_samples_are_all_usable() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/openrtb.jsonl");
    let mapped = replay(&file).openrtb.unwrap();
    assert!(mapped.lines >= 40, "{mapped:?}");
    assert_eq!((mapped.bad, mapped.bad_lines.len()), (0, 0), "{mapped:?}");
    assert!(mapped.test > 0 && mapped.asks > mapped.used, "{mapped:?}");
    assert!(mapped.without_floor > 0 && mapped.other_currency > 0, "{mapped:?}");
}

#[test]
fn the_outside_corpus_is_usable() {
    let Some(folder) = std::env::var_os("CORPUS").map(PathBuf::from) else {
        eprintln!("skipped: CORPUS does not name a folder with openrtb/bodies.jsonl");
        return;
    };
    let mapped = replay(&folder.join("openrtb/bodies.jsonl")).openrtb.unwrap();
    eprintln!("{mapped:#?}");
    assert!(mapped.used > 100 && mapped.bad * 20 < mapped.lines, "{mapped:?}");
}
