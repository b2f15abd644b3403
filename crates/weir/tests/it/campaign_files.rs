//! Campaign files on the command line: made up, checked, refused whole.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{line, output, stderr, stdout, text, weir};

fn check(file: &Path) -> std::process::Output {
    output(weir().args(["check", "--budgets", text(file)]).current_dir(file.parent().unwrap()))
}

fn campaign(id: u64, more: &Value) -> String {
    let creative = json!({"id": "a", "format": "banner", "sizes": ["300x250"], "adomain": ["b.example"], "markup": "<b>"});
    let mut line = json!({"id": id, "limit": "10", "bid": "1.20", "creatives": [creative]});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}

#[test]
fn made_up_campaigns_are_sound_and_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made-up.jsonl");
    let make = || output(weir().args(["sample-campaigns", "--count", "200", "--seed", "9"]));
    let made = make();
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert_eq!(made.stdout, make().stdout);
    std::fs::write(&file, &made.stdout).unwrap();
    let checked = check(&file);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert!(stderr(&checked).contains("are sound: 200 budgets"), "{}", stderr(&checked));
    let help = output(weir().args(["sample-campaigns", "--help"]));
    assert!(stdout(&help).contains("Example: weir sample-campaigns"), "{}", stdout(&help));
}

#[test]
fn check_tells_every_fault_of_every_campaign_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.jsonl");
    let lines = [
        campaign(1, &json!({})),
        campaign(2, &json!({"bid": "cheap", "targeting": {"geo": {"any": ["USA", "GER"]}}})),
        line(3, "1", ""),
        campaign(4, &json!({"unit": "count", "creatives": []})),
        campaign(5, &json!({"limit": null, "pacing": "fast", "caps": [{"per": "day"}]})),
        campaign(1, &json!({})),
    ];
    std::fs::write(&file, lines.concat()).unwrap();
    let output = check(&file);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("9 error(s)"), "{said}");
    for expected in [
        "b.jsonl:2: bid: found \"cheap\"",
        "b.jsonl:2: targeting.geo.any[1]: found \"GER\"",
        "b.jsonl:4: unit: found \"count\", expected a currency",
        "b.jsonl:4: bid:",
        "b.jsonl:4: creatives: found 0 entries, expected 1 to 256",
        "b.jsonl:5: limit: missing",
        "b.jsonl:5: pacing: found \"fast\"",
        "b.jsonl:5: caps[0].max: missing",
        "b.jsonl:1: budget 1: the id is used twice",
    ] {
        assert!(said.contains(expected), "{expected} not in {said}");
    }
}

#[test]
fn campaigns_are_not_read_from_csv() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.csv");
    std::fs::write(&file, "id,limit,bid\n1,10,2.50\n").unwrap();
    let output = check(&file);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("b.csv:1: bid: campaigns are read from .jsonl files only"), "{said}");
}
