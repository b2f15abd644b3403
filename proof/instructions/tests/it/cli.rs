//! The command line.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_instructions")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

#[test]
fn nothing_is_accepted_without_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json");
    for reason in ["  ", "x", "nineteen letters 12345"] {
        let output = run(&["--baseline", baseline.to_str().unwrap(), "accept", "--reason", reason]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("make costs-accept REASON"), "{}", said(&output));
        assert!(!baseline.exists());
    }
}

#[test]
fn a_workload_says_how_much_it_did_and_a_time_how_long_it_took() {
    let done: u64 = said(&run(&["workload", "codec", "--ops", "100"])).trim().parse().unwrap();
    assert!((100..200).contains(&done));
    let ns: f64 = said(&run(&["time", "table"])).trim().parse().unwrap();
    assert!(ns > 0.0);
}

#[test]
fn a_plant_in_percent_needs_accepted_figures() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json");
    let baseline = baseline.to_str().unwrap();
    let output = run(&["time", "codec", "--plant", "3", "--baseline", baseline]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("make costs-accept"), "{}", said(&output));
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [&["workload", "coffee", "--ops", "1"][..], &["rates", "--runs", "0"], &[]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
