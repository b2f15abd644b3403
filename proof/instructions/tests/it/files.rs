//! The baseline and its history.

use std::path::Path;

use instructions::baseline::{Baseline, Entry, Figures, Files, FilesError};
use instructions::toolchain::Toolchain;
use instructions::workload::Name;

fn baseline(decide: f64) -> Baseline {
    let toolchain = Toolchain {
        rustc: "1.95.0".into(),
        profile: "release".into(),
        target: "x86_64 avx2".into(),
        valgrind: "valgrind-3.19.0".into(),
        libc: "glibc 2.36".into(),
    };
    let figures = Figures {
        instructions: decide,
        unit: "ask".into(),
        functions: [("ledger::reserve".to_string(), 90.5)].into(),
        files: [("crates/ledger/src/purse.rs".to_string(), 44.0)].into(),
        crates: [("crates/ledger".to_string(), 90.5)].into(),
        misses: None,
    };
    Baseline { toolchain, workloads: [("decide".to_string(), figures)].into() }
}

fn accept(files: &Files, before: Option<&Baseline>, after: &Baseline, reason: &str) {
    let entry = Entry::of(before, after, reason, "0123abc".into(), |_| None);
    files.write(after, &entry).unwrap();
}

#[test]
fn what_was_accepted_is_read_back_with_its_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(&folder.path().join("baseline.json"));
    assert!(files.read().unwrap().is_none() && files.history().unwrap().is_empty());
    let (first, second) = (baseline(400.0), baseline(412.5));
    accept(&files, None, &first, "the first figures");
    accept(&files, Some(&first), &second, "pods \"all or none\"");
    assert_eq!(files.read().unwrap(), Some(second));
    let history = files.history().unwrap();
    let told = history.iter().map(|e| (e.reason.as_str(), e.workloads["decide"]));
    let told: Vec<_> = told.map(|(reason, step)| (reason, step.before, step.after)).collect();
    assert_eq!(
        told,
        [("the first figures", None, 400.0), ("pods \"all or none\"", Some(400.0), 412.5)]
    );
    assert_eq!(files.figures(Name::Decide).unwrap().instructions, 412.5);
    assert!(matches!(files.figures(Name::Codec), Err(FilesError::NoFigures(_))));
}

#[test]
fn nobody_changes_a_figure_without_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    let files = Files::new(&path);
    accept(&files, None, &baseline(400.0), "the first figures");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("400.0", "500.0")).unwrap();
    let error = files.read().unwrap_err();
    assert!(matches!(error, FilesError::Edited { .. }), "{error}");
    assert!(error.to_string().contains("make costs-accept"));
    std::fs::write(&path, text.replace("valgrind-3.19.0", "valgrind-3.19.1")).unwrap();
    let error = files.read().unwrap_err();
    assert!(matches!(error, FilesError::EditedTools { .. }), "{error}");
    std::fs::remove_file(folder.path().join("history.jsonl")).unwrap();
    assert!(matches!(files.read(), Err(FilesError::Edited { history: None, .. })));
}

#[test]
fn a_damaged_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(&folder.path().join("baseline.json"));
    accept(&files, None, &baseline(400.0), "the first figures");
    let history = folder.path().join("history.jsonl");
    let lines = std::fs::read_to_string(&history).unwrap();
    std::fs::write(&history, format!("{lines}no JSON\n")).unwrap();
    match files.read().unwrap_err() {
        FilesError::Json { path, line, .. } => assert_eq!((path, line), (history, 2)),
        other => panic!("{other}"),
    }
}

#[test]
fn the_committed_figures_have_their_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../costs/baseline.json");
    let baseline = Files::new(&path).read().unwrap().expect("a committed baseline");
    for name in Name::ALL.iter().copied() {
        let figures = &baseline.workloads[name.as_str()];
        assert!(figures.instructions > 1.0 && figures.unit == name.unit(), "{}", name.as_str());
    }
    assert_eq!(baseline.toolchain.profile, "release");
}
