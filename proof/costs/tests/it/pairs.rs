//! The registry: every pair is made (which includes that its ways came to the same results), and can be shown.

use std::collections::HashSet;
use std::process::Command;

use costs::pairs::{GROUPS, Pair};
use costs::report::{Origin, json, markdown};
use costs::{Error, Size};

/// What rows of the cost sheet refer to, of the groups that are still measured.
const REFERRED: [&str; 2] = ["queue/core-to-core", "table/lookup"];

#[test]
fn every_pair_runs_and_is_shown() {
    let made = |name| -> Result<Vec<Pair>, Error> {
        let group = GROUPS.iter().find(|group| group.name == name);
        (group.unwrap().run)(Size::Smoke)
    };
    let mut pairs = Vec::new();
    for group in GROUPS {
        let own = made(group.name).unwrap();
        let prefix = format!("{}/", group.name);
        assert!(own.iter().all(|pair| pair.id.starts_with(&prefix)), "group {}", group.name);
        pairs.extend(own);
    }
    let ids: HashSet<&str> = pairs.iter().map(|pair| pair.id).collect();
    assert_eq!(ids.len(), pairs.len(), "an id stands for two pairs");
    for referred in REFERRED {
        assert!(ids.contains(referred), "{referred} is missing");
    }
    for pair in &pairs {
        assert!(pair.outcomes.len() >= 2, "{} compares nothing", pair.id);
        let sound = |ns: f64| ns.is_finite() && ns > 0.0;
        assert!(pair.outcomes.iter().all(|outcome| sound(outcome.median_ns)), "{}", pair.id);
        assert!(pair.verdict.ends_with('.') && pair.what.ends_with('.'), "{}", pair.id);
    }
    is_shown(&pairs);
}

fn is_shown(pairs: &[Pair]) {
    let origin = Origin::here();
    let (text, sheet) = (markdown(&origin, pairs), json(&origin, pairs));
    let sheet: serde_json::Value = serde_json::from_str(&sheet).unwrap();
    assert_eq!(sheet["pairs"].as_array().unwrap().len(), pairs.len());
    for pair in pairs {
        assert!(
            text.contains(&format!("\n### {}\n", pair.id)),
            "{} is not in the document",
            pair.id
        );
    }
}

#[test]
fn the_command_writes_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let [sheet, document] = ["a.json", "b.md"].map(|name| folder.path().join(name));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_costs"));
        command.args(arguments).arg("--json").arg(&sheet).arg("--markdown").arg(&document);
        command.output().unwrap()
    };
    let output = run(&["pairs", "queue", "--smoke"]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("### queue/one-thread"));
    assert!(std::fs::read_to_string(&sheet).unwrap().contains("\"queue/one-thread\""));
    assert!(std::fs::read_to_string(&document).unwrap().starts_with("# Before and after\n"));
    assert_eq!(run(&["pairs", "nothing"]).status.code(), Some(2));
}
