//! `weir journal` on folders that real nodes made, beside them and after they were damaged.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use wire::{Action, Verdict};

use crate::support::{Node, Setup, line, output, stderr, stdout, text, weir};

/// `weir journal COMMAND --data DIR ...`.
fn journal(data: &Path, arguments: &[&str]) -> Output {
    let (command, rest) = arguments.split_first().unwrap();
    output(weir().args(["journal", command, "--data", text(data)]).args(rest))
}

fn well(data: &Path, arguments: &[&str]) -> String {
    let output = journal(data, arguments);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    stdout(&output)
}

fn bad(data: &Path, arguments: &[&str]) -> String {
    let output = journal(data, arguments);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// Budget 2 is under budget 1; holds outlive the test.
fn setup() -> Setup {
    Setup::new(&(line(1, "100", r#","handle":"@team/a""#) + &line(2, "50", r#","parent":1"#)))
        .with("ledger.hold_ms", "600000")
}

/// A settle of each kind, and a release. Returns how many settles were acknowledged.
fn trade(node: &Node) -> u64 {
    let mut client = node.client();
    let token = client.grant(2, 1_000);
    assert_eq!(client.settle(token, 900), (Verdict::Settled, false));
    let token = client.grant(2, 1_000);
    assert_eq!(client.settle(token, 1_500), (Verdict::SettledOver, false));
    let token = client.grant(1, 2_000);
    assert_eq!(client.resolve(token, 0, Action::Confirm), (Verdict::Confirmed, false));
    assert_eq!(client.settle(token, 2_000), (Verdict::Settled, false));
    let token = client.grant(1, 3_000);
    assert_eq!(client.resolve(token, 0, Action::Release), (Verdict::Released, false));
    assert_eq!(client.settle(token, 70), (Verdict::SettledLate, false));
    4
}

const ALWAYS: [&str; 4] = ["--from", "2020-01-01", "--to", "2100-01-01"];

fn export<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["export"][..], &ALWAYS, more].concat()
}

/// The journal's folder of a data folder.
fn folder(data: &Path) -> PathBuf {
    data.join("journal")
}

/// Names of the files of a kind, rising.
fn files(data: &Path, prefix: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder(data)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

/// Flips the bits of a byte.
fn damage(data: &Path, name: &str, offset: u64) {
    let path = folder(data).join(name);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
}

/// A setup whose folder holds what a killed node left.
fn killed(runs: usize) -> (Setup, u64) {
    let (setup, mut settles) = (setup(), 0);
    for _ in 0..runs {
        let node = setup.clone().start();
        settles += trade(&node);
    }
    (setup, settles)
}

#[test]
fn every_command_helps_and_knows_wrong_usage() {
    for command in ["verify", "inspect", "export", "audit", "repair"] {
        let help = output(weir().args(["journal", command, "--help"]));
        assert_eq!(help.status.code(), Some(0));
        let example = format!("Example: weir journal {command}");
        assert!(stdout(&help).contains(&example), "{}", stdout(&help));
    }
    let empty = tempfile::tempdir().unwrap();
    for arguments in [
        &["inspect", "--type", "money"][..],
        &["repair"],
        &["export", "--from", "soon", "--to", "2026-01-01", "--format", "csv"],
        &[
            "export",
            "--from",
            "2026-01-01",
            "--to",
            "2026-01-02",
            "--format",
            "csv",
            "--zone",
            "Mars",
        ],
        &["inspect", "--from", "3", "--to", "2"],
    ] {
        let wrong = journal(empty.path(), arguments);
        assert_eq!(wrong.status.code(), Some(2), "{arguments:?}: {}", stderr(&wrong));
    }
    assert!(bad(empty.path(), &["verify"]).contains("has a node run on this data folder?"));
}

#[test]
fn everything_but_repair_works_beside_a_running_node() {
    let node = setup().start();
    let settles = trade(&node);
    let data = node.data();

    assert!(well(&data, &["verify"]).contains(": sound"));
    let audit = well(&data, &["audit", "--live"]);
    assert!(audit.contains("equal the records") && audit.contains("settled twice: 0"), "{audit}");
    let audit: Value = serde_json::from_str(&well(&data, &["audit", "--json"])).unwrap();
    assert_eq!(audit["budgets"][0]["settled"], 900 + 1_000 + 2_000, "a parent has its child's");
    assert_eq!(audit["budgets"][1]["over_settled"], 500);

    let lines = json_lines(&well(&data, &export(&["--format", "jsonl"])));
    assert_eq!(of_kind(&lines, "settlement").len() as u64, settles);
    let totals = of_kind(&lines, "total");
    assert_eq!((&totals[0]["late"], &totals[0]["settled"]), (&"0.00007".into(), &"0.002".into()));
    assert_eq!(totals[0]["closing_with_children"], "0.00447");
    assert_eq!((&totals[0]["handle"], &totals[1]["handle"]), (&"@team/a".into(), &Value::Null));
    assert_eq!(of_kind(&lines, "summary")[0]["reconciles"], true);

    assert!(bad(&data, &["repair", "--from-snapshot"]).contains("in use by a running node"));
}

#[test]
fn inspect_shows_what_is_asked_for_and_no_keys() {
    let (setup, _) = killed(2);
    let data = setup.data();
    let all = json_lines(&well(&data, &["inspect", "--json"]));
    let sequences: Vec<u64> = all.iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.iter().copied().eq(1..=sequences.len() as u64), "all, in order");
    let keys: Vec<_> = all.iter().filter(|line| line["type"] == "key_added").collect();
    assert!(!keys.is_empty());
    assert!(keys.iter().all(|key| key.as_object().unwrap().len() == 5), "{keys:?}");

    let late = ["inspect", "--json", "--type", "settled_late,settled_over", "--budget", "1"];
    let late = json_lines(&well(&data, &late));
    assert_eq!(late.len(), 2, "budget 1 has no settle above its hold");
    assert_eq!((&late[0]["amount"], &late[0]["unit"]), (&"0.00007".into(), &"USD".into()));
    let grant = &late[0]["grant"];
    let about = json_lines(&well(&data, &["inspect", "--json", "--grant", &grant.to_string()]));
    assert!(about.iter().all(|line| line["grant"] == *grant) && !about.is_empty());
    let some = well(&data, &["inspect", "--from", "2", "--to", "4", "--limit", "2"]);
    assert_eq!(some.lines().count(), 2);
}

#[test]
fn export_writes_whole_files_with_totals() {
    let (setup, settles) = killed(2);
    let data = setup.data();
    let (out, totals) = (data.join("all.csv"), data.join("totals.csv"));
    well(&data, &export(&["--format", "csv", "--out", text(&out), "--totals", text(&totals)]));
    let rows = std::fs::read_to_string(&out).unwrap();
    assert!(rows.starts_with("sequence,budget,unit,outcome,amount,held,over,late,at,"), "{rows}");
    assert_eq!(rows.lines().count() as u64, 1 + settles);
    let handle = |budget: &str| {
        let mut of = rows.lines().filter(move |row| row.split(',').nth(1) == Some(budget));
        of.next().and_then(|row| row.split(',').nth(15)).map(str::to_owned)
    };
    let handles = ["budget", "1", "2"].map(|budget| handle(budget).unwrap());
    assert_eq!(handles, ["handle", "'@team/a", ""], "{rows}");
    let totals = std::fs::read_to_string(&totals).unwrap();
    assert!(
        totals.contains("1,,USD,4,0.004,0.00,0.00014,0.00,0.00894,0.00894,true,'@team/a"),
        "{totals}"
    );
    assert!(!data.join("all.csv.tmp").exists());

    // A period that ended before: nothing spent yet, and it still reconciles.
    let early = ["export", "--from", "2020-01-01", "--to", "2020-02-01", "--format", "jsonl"];
    let lines = json_lines(&well(&data, &early));
    assert_eq!((lines.len(), &lines[0]["settlements"]), (1, &0.into()));
    // One that begins afterwards: all of it is in the opening balance.
    let late = ["export", "--from", "2100-01-01", "--to", "2100-02-01", "--format", "jsonl"];
    let lines = json_lines(&well(&data, &late));
    assert_eq!(lines[0]["opening_with_children"], "0.00894");
    assert_eq!(lines[0]["closing_with_children"], "0.00894");
}

#[test]
fn a_torn_end_is_no_damage() {
    let (setup, _) = killed(1);
    let data = setup.data();
    let name = files(&data, "segment-").pop().unwrap();
    let path = folder(&data).join(&name);
    let bytes = std::fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 4096 * 4096 + 4096;
    // The first sector of a group, without the rest of it.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&bytes[4096..4608], end as u64).unwrap();
    let said = well(&data, &["verify"]);
    assert!(said.contains(&format!("torn at byte {end}: a start would cut")), "{said}");
    drop(setup.clone().start());
    assert!(!well(&data, &["verify"]).contains("torn"));
}

#[test]
fn a_damaged_segment_is_repaired_and_what_is_lost_is_salvaged() {
    let (setup, settles) = killed(3);
    let data = setup.data();
    let segments = files(&data, "segment-");
    assert_eq!(segments.len(), 3);
    // In the third group of the second segment.
    damage(&data, &segments[1], 3 * 4096 + 100);

    let said = bad(&data, &["verify"]);
    assert!(said.contains(&format!("{}  records", segments[1])), "{said}");
    assert!(said.contains("DAMAGED at byte 12288") && said.contains("repair --help"), "{said}");
    let log = setup.clone().try_start().map(|_| ()).unwrap_err();
    assert!(log.contains("weir journal verify"), "{log}");
    assert!(bad(&data, &["audit"]).contains("byte 12288"));
    let out = data.join("never.csv");
    bad(&data, &export(&["--format", "csv", "--out", text(&out)]));
    assert!(!out.exists(), "no file where the export is not whole");

    let said = well(&data, &["repair", "--from-snapshot"]);
    assert!(said.contains("nothing was changed"), "{said}");
    bad(&data, &["verify"]);

    let said = well(&data, &["repair", "--from-snapshot", "--yes"]);
    assert!(said.contains(": sound"), "{said}");
    assert_eq!(files(&data, "quarantine-").len(), 2, "the damaged one and the one behind it");
    let names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let salvage = names.into_iter().find(|path| text(path).contains("salvage-")).unwrap();
    let salvaged = json_lines(&std::fs::read_to_string(salvage).unwrap());
    assert_eq!(of_kind(&salvaged, "lost").len(), 1);
    let kept = json_lines(&well(&data, &export(&["--format", "jsonl"])));
    let kept = of_kind(&kept, "settlement").len();
    let found = of_kind(&salvaged, "settlement").len();
    assert!(kept >= 4 && found >= 4, "kept {kept}, salvaged {found}");
    assert!((kept + found) as u64 <= settles, "none is in both");

    // Grants that were lost are closed: their numbers go to nobody else.
    let lost = of_kind(&salvaged, "settlement").iter().map(|s| s["grant"].as_u64()).max().flatten();
    let closed = json_lines(&well(&data, &["inspect", "--json", "--type", "grant_closed"]));
    let closed: Vec<u64> = closed.iter().map(|line| line["grant"].as_u64().unwrap()).collect();
    assert!(closed.contains(&lost.unwrap()), "{lost:?} in {closed:?}");
    let who = well(&data, &["inspect", "--type", "operator"]);
    assert!(who.contains("weir journal repair"), "{who}");

    let node = setup.start();
    trade(&node);
    assert!(well(&data, &["audit", "--live"]).contains("equal the records"));
    well(&data, &["verify"]);
}

#[test]
fn a_damaged_head_costs_the_segment() {
    let (setup, _) = killed(3);
    let data = setup.data();
    let segments = files(&data, "segment-");
    damage(&data, &segments[2], 8);
    assert!(bad(&data, &["verify"]).contains("DAMAGED at byte 0"));
    well(&data, &["repair", "--from-snapshot", "--yes"]);
    well(&data, &["verify"]);
    std::fs::remove_file(folder(&data).join(&segments[1])).unwrap();
    assert!(bad(&data, &["verify"]).contains("the file is missing"));
    well(&data, &["repair", "--from-snapshot", "--yes"]);
    drop(setup.clone().start());
    well(&data, &["audit"]);
}

/// A folder with two snapshots.
fn with_snapshots(setup: Setup) -> Setup {
    let setup = setup.with("journal.snapshot_bytes", "1048576");
    for _ in 0..4 {
        let node = setup.clone().start();
        let mut client = node.client();
        // A group of 4 KiB each.
        for _ in 0..300 {
            let token = client.grant(2, 10);
            client.settle(token, 10);
        }
        let closed = files(&node.data(), "segment-").len() > 1;
        node.wait_stat("a snapshot of the closed segments", |stat| {
            !closed || stat["journal"]["snapshots"].as_u64() > Some(0)
        });
    }
    setup
}

#[test]
fn damage_that_no_start_reads_is_set_aside() {
    let setup = with_snapshots(setup());
    let data = setup.data();
    let segments = files(&data, "segment-");
    assert_eq!(segments.len(), 4, "the retention keeps all");
    damage(&data, &segments[0], 9_000);
    assert!(bad(&data, &["verify"]).contains("A node starts from this"));
    let said = well(&data, &["repair", "--from-snapshot", "--yes"]);
    assert!(said.contains("no record that a start needs is lost"), "{said}");
    assert_eq!(files(&data, "segment-"), segments[1..]);
    assert!(well(&data, &["audit"]).starts_with("recomputed from snapshot"));

    // The second segment is from before the oldest snapshot: its settlements are exported, and taken off its books.
    let output = journal(&data, &export(&["--format", "jsonl"]));
    assert!(stderr(&output).contains("NOT THE WHOLE PERIOD"), "{}", stderr(&output));
    let lines = json_lines(&stdout(&output));
    assert_eq!(of_kind(&lines, "settlement").len(), 3 * 300);
    let total = of_kind(&lines, "total")[1];
    assert_eq!((&total["budget"], &total["reconciles"]), (&2.into(), &true.into()));
    assert_eq!(total["opening_with_children"], "0.003", "what the lost segment had settled");
    assert_eq!(total["closing_with_children"], "0.012");
}

#[test]
fn snapshots_stand_in_for_records_that_are_gone() {
    let setup = setup().with("journal.keep_bytes_max", "1").with("journal.keep_days_max", "0");
    let setup = with_snapshots(setup);
    let data = setup.data();
    let said = well(&data, &["verify"]);
    assert!(said.contains("equals the replay") && said.contains("not kept"), "{said}");
    assert!(well(&data, &["audit"]).starts_with("recomputed from snapshot"));
    let said = bad(&data, &export(&["--format", "jsonl"]));
    assert!(said.contains("NOT THE WHOLE PERIOD") && said.contains("reconciled with"), "{said}");

    let snapshots = files(&data, "snapshot-");
    damage(&data, &snapshots[1], 5_000);
    assert!(bad(&data, &["verify"]).contains("A node starts from this"));
    well(&data, &["repair", "--from-snapshot", "--yes"]);
    assert_eq!(files(&data, "snapshot-"), snapshots[..1]);
    well(&data, &["verify"]);

    // The last sound one: then there is nothing to go on from.
    damage(&data, &snapshots[0], 5_000);
    assert!(bad(&data, &["verify"]).contains("cannot start from this"));
    assert!(bad(&data, &["audit"]).contains("no snapshot is sound"));
    let before = files(&data, "");
    let said = bad(&data, &["repair", "--from-snapshot", "--yes"]);
    assert!(said.contains("nothing was changed") && said.contains("salvage-"), "{said}");
    assert_eq!(files(&data, ""), before);
    let log = setup.try_start().map(|_| ()).unwrap_err();
    assert!(log.contains("weir journal verify"), "{log}");
}

/// What happened to a data folder.
type Damaged = (&'static str, Box<dyn Fn(&Path)>);

fn remove(data: &Path, names: &[String]) {
    names.iter().for_each(|name| std::fs::remove_file(folder(data).join(name)).unwrap());
}

/// Damage of every kind to a folder with these files.
fn damages(segments: &[String], snapshots: &[String], foreign: &Path) -> Vec<Damaged> {
    let (newest, oldest) = (segments.last().unwrap().clone(), segments[0].clone());
    let mut all: Vec<Damaged> = vec![("nothing", Box::new(|_: &Path| {}))];
    for (what, names) in [("a segment removed", segments), ("a snapshot removed", snapshots)] {
        for name in names {
            let name = name.clone();
            all.push((what, Box::new(move |data| remove(data, std::slice::from_ref(&name)))));
        }
    }
    let mut add = |what, damage: Box<dyn Fn(&Path)>| all.push((what, damage));
    let names = segments.to_vec();
    add("all segments gone", Box::new(move |data| remove(data, &names)));
    let names = snapshots.to_vec();
    add("all snapshots gone", Box::new(move |data| remove(data, &names)));
    let names = [std::slice::from_ref(&oldest), snapshots].concat();
    add("the first segment and all snapshots gone", Box::new(move |data| remove(data, &names)));
    let names = segments[2..].to_vec();
    add("the newest two segments gone", Box::new(move |data| remove(data, &names)));
    let names = segments[1..].to_vec();
    add("all segments but the first gone", Box::new(move |data| remove(data, &names)));
    let name = newest.clone();
    add(
        "the newest segment empty",
        Box::new(move |data| std::fs::write(folder(data).join(&name), []).unwrap()),
    );
    let [a, b] = [segments[1].clone(), segments[2].clone()];
    add(
        "two segments swapped",
        Box::new(move |data| {
            let [a, b] = [&a, &b].map(|name| folder(data).join(name));
            let aside = folder(data).join("aside.tmp");
            std::fs::rename(&a, &aside).unwrap();
            std::fs::rename(&b, &a).unwrap();
            std::fs::rename(&aside, &b).unwrap();
        }),
    );
    for (what, from, to) in [
        ("another journal's segment first", &oldest, &oldest),
        ("another journal's segment last", &newest, &newest),
        ("another journal's segment behind the last", &newest, &"segment-0000000005.weir".into()),
    ] {
        let (from, to) = (folder(foreign).join(from), to.clone());
        add(
            what,
            Box::new(move |data| {
                std::fs::copy(&from, folder(data).join(&to)).unwrap();
            }),
        );
    }
    let snapshot = files(foreign, "snapshot-").pop().unwrap();
    let from = folder(foreign).join(&snapshot);
    add(
        "another journal's snapshot",
        Box::new(move |data| {
            std::fs::copy(&from, folder(data).join("snapshot-00000000000099999999.weir")).unwrap();
        }),
    );
    all
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// What `verify` says of a folder, and what `audit` lets pass, is what a start does with it.
#[test]
fn verify_and_a_start_agree_on_every_damage() {
    let (made, foreign) = (with_snapshots(setup()), with_snapshots(setup()));
    let data = made.data();
    let (segments, snapshots) = (files(&data, "segment-"), files(&data, "snapshot-"));
    assert_eq!((segments.len(), snapshots.len()), (4, 3), "{segments:?} {snapshots:?}");
    for (what, damage) in damages(&segments, &snapshots, &foreign.data()) {
        let copy = setup();
        copy_tree(&data, &copy.data());
        damage(&copy.data());
        let verify = journal(&copy.data(), &["verify"]);
        let said = stdout(&verify);
        let audited = journal(&copy.data(), &["audit"]).status.success();
        let can = verify.status.success() || said.contains("A node starts from this");
        let started = copy.try_start().map(drop);
        assert_eq!(can, started.is_ok(), "{what}: {said}\nthe start: {started:?}");
        assert!(!audited || started.is_ok(), "{what}: audit passes what a start refuses");
        assert!(what != "nothing" || verify.status.success(), "{said}");
    }
}
