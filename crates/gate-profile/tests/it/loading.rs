//! Bulk load.

use std::fs;

use gate_profile::{BadLine, LoadError, Mode, Rejected, load_segments, segment_key, user_key};

use crate::support::{self, profile};

#[test]
fn good_lines_are_loaded_and_bad_ones_told_by_reason_and_number() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(&folder.path().join("profiles"));
    let file = folder.path().join("segments.csv");
    let mut text =
        String::from("alice,sport,cars\n\nbob,sport\nalice,travel\n#ff,sport\n,sport\nbob\n");
    for number in 0..30 {
        text += &format!("#xyz{number},sport\n");
    }
    let many: Vec<String> = (0..256).map(|segment| format!("s{segment}")).collect();
    text += &format!("carol,{}\ncarol,sport\ndave,spo", many.join(","));
    fs::write(&file, text).unwrap();
    let mut reports = Vec::new();
    let summary = load_segments(&file, &profiles, Mode::Add, |at| reports.push(at)).unwrap();
    assert_eq!((summary.lines, summary.blank, summary.accepted, summary.users), (40, 1, 5, 4));
    assert_eq!(summary.rejected[&BadLine::NoUser], Rejected { lines: 1, first: vec![6] });
    assert_eq!(summary.rejected[&BadLine::NoSegments], Rejected { lines: 1, first: vec![7] });
    assert_eq!(summary.rejected[&BadLine::TooManySegments].first, [38]);
    assert_eq!(summary.rejected[&BadLine::NoEnd].first, [40], "the file is cut");
    let bad = &summary.rejected[&BadLine::BadKey];
    assert_eq!((bad.lines, &bad.first[..]), (30, &(8..28).collect::<Vec<u64>>()[..]));
    let last = reports.last().unwrap();
    assert_eq!((last.bytes, last.lines), (last.bytes_total, 40));

    let keys = |names: &[&str]| {
        let mut keys: Vec<u32> = names.iter().map(|name| segment_key(name)).collect();
        keys.sort_unstable();
        keys
    };
    let alice = user_key("alice");
    assert_eq!(profile(&profiles, alice).segments(), keys(&["sport", "cars", "travel"]));
    assert_eq!(profile(&profiles, 255).segments(), keys(&["sport"]));

    fs::write(&file, "alice,a\nalice,b\n").unwrap();
    load_segments(&file, &profiles, Mode::Replace, |_| {}).unwrap();
    assert_eq!(profile(&profiles, alice).segments(), keys(&["b"]));
    assert_eq!(profile(&profiles, user_key("bob")).segments(), keys(&["sport"]));
}

/// More lines than one change of the store holds; users over several of them, one over the bound.
#[test]
fn a_long_file_is_loaded_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(&folder.path().join("profiles"));
    let file = folder.path().join("segments.csv");
    let lines = (0..40_000).map(|line| format!("#{:x},s{}\n", line % 5_000, line / 5_000));
    let crowded = (0..300).map(|segment| format!("#ffff,t{segment}\n"));
    fs::write(&file, lines.chain(crowded).collect::<String>()).unwrap();
    let mut reports = 0;
    let summary = load_segments(&file, &profiles, Mode::Add, |_| reports += 1).unwrap();
    assert_eq!((summary.accepted, reports), (40_000, 3));
    assert_eq!(summary.rejected[&BadLine::TooManySegments].lines, 300);
    assert!((0..5_000).step_by(97).all(|user| profile(&profiles, user).segments().len() == 8));
    assert!(profile(&profiles, 0xffff).segments().is_empty());
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(&folder.path().join("profiles"));
    let missing = folder.path().join("missing.csv");
    let error = load_segments(&missing, &profiles, Mode::Add, |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::File { .. }), "{error}");
}
