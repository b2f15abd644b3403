//! A data folder whose journal is gone, was rolled back or is another's: a start refuses it until an operator says so,
//! and never refuses a sound one.

use std::path::Path;

use wire::Verdict;

use crate::support::{Node, Setup, line, output, stderr, stdout, text, weir};

fn setup() -> Setup {
    Setup::new(&line(1, "100", "")).with("ledger.hold_ms", "600000")
}

/// The same setup, started with a flag more.
fn with_flag(setup: &Setup, flag: &str) -> Setup {
    setup.clone().after(&format!("set -- \"$@\" {flag}"))
}

fn settle(node: &Node, settles: u64) {
    let mut client = node.client();
    for _ in 0..settles {
        let token = client.grant(1, 1_000);
        client.settle(token, 1_000);
    }
}

fn refused(setup: Setup) -> String {
    setup.try_start().map(drop).expect_err("it must not start")
}

/// Stops a node well.
fn stop(mut node: Node) {
    node.terminate();
    assert!(node.wait_end().success(), "{}", node.log());
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What the journal's commands say of a folder that no start takes.
fn tools_refuse(data: &Path, what: &str) {
    for command in ["verify", "audit", "repair --from-snapshot --yes"] {
        let before = names(data);
        let mut tool = weir();
        let found =
            output(tool.arg("journal").args(command.split(' ')).args(["--data", text(data)]));
        let said = stdout(&found) + &stderr(&found);
        assert_eq!(found.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains(what), "{command}: {said}");
        let mut after = names(data);
        after.retain(|name| name != "lock");
        assert!(after.iter().all(|name| before.contains(name)), "{command} changed {after:?}");
    }
}

#[test]
fn a_journal_that_is_gone_is_no_new_ledger_until_that_is_permitted() {
    let setup = setup();
    let (data, journal) = (setup.data(), setup.data().join("journal"));
    let node = setup.clone().start();
    settle(&node, 5);
    drop(node);
    // The disk that it is on was not mounted: a folder without a file, or none at all.
    std::fs::rename(&journal, data.join("elsewhere")).unwrap();
    for empty in [false, true] {
        if empty {
            std::fs::create_dir(&journal).unwrap();
            tools_refuse(&data, "--new-ledger");
        }
        let said = refused(setup.clone());
        assert!(said.contains("missing or empty") && said.contains("--new-ledger"), "{said}");
        assert_eq!(journal.exists(), empty, "nothing was made");
    }
    // Also where an earlier version ran, which noted nothing.
    let watermark = data.join("watermark.weir");
    let aside = data.join("watermark.aside");
    std::fs::rename(&watermark, &aside).unwrap();
    assert!(refused(setup.clone()).contains("addresses.json is there"));
    std::fs::rename(&aside, &watermark).unwrap();

    let node = with_flag(&setup, "--new-ledger").start();
    assert_eq!(node.budget(1).settled, 0);
    settle(&node, 2);
    drop(node);
    let kept = names(&data);
    assert!(kept.iter().any(|name| name.starts_with("watermark-before-")), "{kept:?}");
    assert!(!names(&data.join("elsewhere")).is_empty(), "nothing is deleted");
    // The flag that was left in the unit file does nothing more.
    let node = with_flag(&setup, "--new-ledger").start();
    assert!(node.log().contains("--new-ledger does nothing"), "{}", node.log());
    assert_eq!(node.budget(1).settled, 2_000);
    drop(node);
    assert_eq!(setup.start().budget(1).settled, 2_000);
}

#[test]
fn a_journal_that_lost_its_newest_part_is_refused_until_that_is_accepted() {
    let setup = setup();
    let (data, journal) = (setup.data(), setup.data().join("journal"));
    let node = setup.clone().start();
    settle(&node, 3);
    stop(node);
    let backup = data.join("backup");
    copy_folder(&journal, &backup);
    let node = setup.clone().start();
    settle(&node, 4);
    let forgotten = node.client().grant(1, 1_000);
    stop(node);
    let newer = data.join("newer");
    copy_folder(&journal, &newer);

    // The newest segment is removed; or yesterday's folder is put back.
    std::fs::remove_file(journal.join("segment-0000000002.weir")).unwrap();
    refused(setup.clone());
    std::fs::remove_dir_all(&journal).unwrap();
    copy_folder(&backup, &journal);
    let said = refused(setup.clone());
    assert!(said.contains("ends before record") && said.contains("newest backup"), "{said}");
    tools_refuse(&data, "--accept-rollback");
    let lost = named(&said);
    for wrong in [format!("1{lost}"), "11".into()] {
        let wrong = with_flag(&setup, &format!("--accept-rollback {wrong}"));
        assert!(refused(wrong).contains("--accept-rollback"));
    }

    // The right one put back starts as if nothing had been.
    std::fs::remove_dir_all(&journal).unwrap();
    copy_folder(&newer, &journal);
    let node = setup.clone().start();
    assert_eq!(node.budget(1).settled, 7_000);
    drop(node);

    std::fs::remove_dir_all(&journal).unwrap();
    copy_folder(&backup, &journal);
    // The node ran since: another loss, another name.
    assert!(refused(with_flag(&setup, &format!("--accept-rollback {lost}"))).contains("once"));
    let lost = named(&refused(setup.clone()));
    let node = with_flag(&setup, &format!("--accept-rollback {lost}")).start();
    assert_eq!(node.budget(1).settled, 3_000);
    // A hold of the part that is forgotten is none of the grants that are made now.
    let fresh = node.client().grant(1, 1_000);
    assert_eq!(node.client().settle(forgotten, 1_000), (Verdict::TooOld, false));
    assert_eq!(node.client().settle(fresh, 1_000), (Verdict::Settled, false));
    stop(node);
    let inspect = ["journal", "inspect", "--type", "operator", "--data"];
    let trail = stdout(&output(weir().args(inspect).arg(&data)));
    assert!(trail.contains("--accept-rollback"), "{trail}");
    // Once is enough.
    assert_eq!(setup.start().budget(1).settled, 4_000);
}

/// One copy of the journal is put back twice, as by a volume's snapshot, under a unit file that keeps the flag of the first time.
#[test]
fn a_flag_that_stays_lets_no_second_loss_pass() {
    let setup = setup();
    let (journal, backup) = (setup.data().join("journal"), setup.data().join("backup"));
    let node = setup.clone().start();
    settle(&node, 3);
    stop(node);
    copy_folder(&journal, &backup);
    let put_back = || {
        std::fs::remove_dir_all(&journal).unwrap();
        copy_folder(&backup, &journal);
    };
    let node = setup.clone().start();
    settle(&node, 11);
    stop(node);
    put_back();
    let first = named(&refused(setup.clone()));
    let flagged = with_flag(&setup, &format!("--accept-rollback {first}"));
    let node = flagged.clone().start();
    assert_eq!(node.budget(1).settled, 3_000);
    settle(&node, 11);
    stop(node);

    // The flag is left, and nothing is lost: the start says that it does nothing.
    let node = flagged.clone().start();
    assert!(node.log().contains("--accept-rollback does nothing"), "{}", node.log());
    assert_eq!(node.budget(1).settled, 14_000);
    stop(node);
    put_back();
    let second = named(&refused(flagged));
    assert_ne!(first, second);
    assert_eq!(first.split('-').next(), second.split('-').next(), "both end at the same record");
}

/// What a refusal says is given up.
fn named(said: &str) -> String {
    let (_, rest) = said.split_once("--accept-rollback ").unwrap();
    rest.split('`').next().unwrap().to_owned()
}

/// A newest segment as it was some time ago: cut, as far as anybody can see, between two groups.
#[test]
fn an_older_copy_of_the_newest_segment_is_refused() {
    let setup = setup();
    let node = setup.clone().start();
    settle(&node, 3);
    let newest = setup.data().join("journal/segment-0000000001.weir");
    let older = std::fs::read(&newest).unwrap();
    settle(&node, 30);
    stop(node);
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &older).unwrap();
    assert!(refused(setup.clone()).contains("ends before record"));
    std::fs::write(&newest, &whole).unwrap();
    assert_eq!(setup.start().budget(1).settled, 33_000);
}

#[test]
fn a_folder_of_an_earlier_version_opens_and_is_noted() {
    let setup = setup();
    let node = setup.clone().start();
    settle(&node, 3);
    stop(node);
    let watermark = setup.data().join("watermark.weir");
    std::fs::remove_file(&watermark).unwrap();
    let verify = output(weir().args(["journal", "verify", "--data"]).arg(setup.data()));
    assert!(verify.status.success(), "{}", stdout(&verify));
    assert!(stdout(&verify).contains("no watermark.weir"), "{}", stdout(&verify));
    let node = setup.clone().start();
    assert!(watermark.exists());
    assert_eq!(node.budget(1).settled, 3_000);
    drop(node);
    // One that cannot be read is told, and made anew.
    for bytes in [&b""[..], &[0xFF; 4096]] {
        std::fs::write(&watermark, bytes).unwrap();
        let node = setup.clone().start();
        assert!(node.log().contains("it cannot be seen whether"), "{}", node.log());
        drop(node);
    }
    let verify = output(weir().args(["journal", "verify", "--data"]).arg(setup.data()));
    assert!(stdout(&verify).contains("all were sealed in run"), "{}", stdout(&verify));
}

/// A data folder that takes no new file holds nothing up: neither this start nor the next.
#[test]
fn a_note_that_cannot_be_written_is_told_and_costs_nothing() {
    let setup = setup();
    std::fs::create_dir_all(setup.data().join("watermark.tmp/full")).unwrap();
    for run in 1..=2 {
        let node = setup.clone().start();
        assert!(node.log().contains("was not noted outside of the journal"), "{}", node.log());
        settle(&node, 1);
        assert_eq!(node.budget(1).settled, run * 1_000);
        stop(node);
    }
    std::fs::remove_dir_all(setup.data().join("watermark.tmp")).unwrap();
    drop(setup.clone().start());
    assert!(setup.data().join("watermark.weir").exists());
    setup.start();
}

/// A start that ends before its doors open leaves a folder that the next one takes.
#[test]
fn a_first_start_that_failed_is_no_earlier_life() {
    let setup = setup();
    refused(setup.clone().with("openrtb.public_url", "http://a b"));
    assert!(setup.data().join("watermark.weir").exists(), "its journal had begun");
    assert!(!setup.data().join("addresses.json").exists());
    setup.start();
}

/// File by file, beside a node at work, in the order that docs/journal.md gives: what was acknowledged before the copy
/// began is in it.
#[test]
fn a_backup_made_beside_a_running_node_starts() {
    let setup = setup();
    let node = setup.clone().start();
    settle(&node, 50);
    let copy = self::setup();
    let (from, to) = (setup.data().join("journal"), copy.data().join("journal"));
    std::fs::create_dir_all(&to).unwrap();
    let busy = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(std::sync::atomic::Ordering::Relaxed) {
                settle(&node, 10);
            }
        });
        for kind in ["snapshot-", "segment-"] {
            for name in names(&from).iter().filter(|name| name.starts_with(kind)) {
                std::fs::copy(from.join(name), to.join(name)).unwrap();
            }
        }
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    let verify = output(weir().args(["journal", "verify", "--data"]).arg(copy.data()));
    assert!(verify.status.success(), "{}", stdout(&verify));
    let (restored, now) = (copy.start().budget(1).settled, node.budget(1).settled);
    assert!((50_000..=now).contains(&restored), "{restored} of {now}");
}

/// A process that stands still for a while, as in a debugger or a frozen machine: nobody takes its folder meanwhile, and
/// it goes on.
#[test]
fn a_process_that_stood_still_keeps_its_folder_and_goes_on() {
    let setup = setup();
    let node = setup.clone().start();
    let mut client = node.client();
    let tokens: Vec<_> = (0..5).map(|_| client.grant(1, 1_000)).collect();
    node.signal("STOP");
    assert!(refused(setup).contains("in use by another node"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    node.signal("CONT");
    for token in tokens {
        assert_eq!(client.settle(token, 1_000), (wire::Verdict::Settled, false));
    }
    assert_eq!(node.budget(1).settled, 5_000);
}
