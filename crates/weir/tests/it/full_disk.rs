//! Disks that are full, read-only or damaged, or that hold another node's journal.
//!
//! A small disk is a file system in memory, mounted where the journal goes. That needs no root: the test runs once
//! more in a mount namespace of its own, where the mount ends with it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use wire::{Action, Reason, Verdict, resolve};

use crate::client::{
    Client, Reply, Token, ask, books_frame, fresh_id, resolve_frame, totals_frame,
};
use crate::support::{Node, Setup, line, output, stderr, stdout, text, wait_for, weir};

/// Set in the run that has mounts of its own.
const INSIDE: &str = "WEIR_TEST_OWN_MOUNTS";
/// Tokens are settled one per frame: each then takes a block of the disk.
const BLOCK_BYTES: usize = 4096;
const SEGMENT_BYTES: usize = 4 << 20;

/// Holds outlive the test.
fn setup() -> Setup {
    Setup::new(&line(1, "1000", "")).with("ledger.hold_ms", "600000").with("admin.tick_ms", "50")
}

/// Runs a case where it may mount file systems; skips it, with the reason, where nobody lets us.
pub(crate) fn with_own_mounts(test: &str, case: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return case();
    }
    let scratch = tempfile::tempdir().unwrap();
    let unshared = |words: &[&str]| -> Command {
        let mut command = Command::new("unshare");
        command.args(words);
        command
    };
    // Root needs no user namespace; others are root in one.
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let works = |way: &&&[&str]| {
        let mut probe = unshared(way);
        let probe = probe.args(["mount", "-t", "tmpfs", "none"]).arg(scratch.path());
        probe.output().is_ok_and(|probe| probe.status.success())
    };
    let Some(way) = ways.iter().find(works) else {
        println!(
            "SKIPPED {test}: no file system may be mounted here, neither as root nor in a user namespace"
        );
        return;
    };
    let mut again = unshared(way);
    again.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    let ran = again.env(INSIDE, "1").output().unwrap();
    let (out, err) = (stdout(&ran), stderr(&ran));
    assert!(ran.status.success() && out.contains("1 passed"), "{out}{err}");
    println!("{out}");
}

/// A small disk where the journal of a node goes, or another folder of its data.
pub(crate) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    fn new(setup: &Setup, bytes: usize) -> SmallDisk {
        SmallDisk::at(setup.data().join("journal"), bytes)
    }

    pub(crate) fn at(folder: PathBuf, bytes: usize) -> SmallDisk {
        std::fs::create_dir_all(&folder).unwrap();
        let disk = SmallDisk { folder };
        disk.mount(&format!("size={bytes}"));
        disk
    }

    fn mount(&self, options: &str) {
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(&self.folder);
        assert!(mounted.status().unwrap().success(), "{options}");
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let file = std::fs::File::create(self.filler()).unwrap();
        let block = [7; BLOCK_BYTES];
        let mut offset = 0;
        while file.write_all_at(&block, offset).is_ok() {
            offset += BLOCK_BYTES as u64;
        }
    }

    pub(crate) fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a node that failed to end may have files open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

/// So many holds of one micro.
fn tokens(client: &mut Client, count: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    wait_for("all holds", || {
        let asks: Vec<_> = (0..500).map(|_| ask(fresh_id(), 1, 1)).collect();
        let answers = client.decide(&asks).into_iter();
        tokens.extend(answers.filter(|(verdict, _)| *verdict == Verdict::Granted).map(|(_, t)| t));
        tokens.len() >= count
    });
    tokens.truncate(count);
    tokens
}

fn settle_each(client: &mut Client, tokens: &[Token]) {
    for token in tokens {
        assert_eq!(client.settle(*token, 1), (Verdict::Settled, false));
    }
}

/// All of them were acknowledged, so each gets its first answer.
fn check_settled(node: &Node, tokens: &[Token]) {
    let mut client = node.client();
    for frame in tokens.chunks(1_000) {
        let items: Vec<_> =
            frame.iter().map(|t| resolve::Item::new(*t, 1, Action::Settle, 0)).collect();
        let answers = client.resolve_all(&items);
        assert!(answers.iter().all(|answer| *answer == (Verdict::Settled, true)), "{answers:?}");
    }
    assert_eq!(node.budget(1).settled, i64::try_from(tokens.len()).unwrap());
}

fn wait_journal(node: &Node, state: &str) -> serde_json::Value {
    node.wait_stat(&format!("a journal that is {state}"), |stat| stat["journal"]["state"] == state)
}

/// Runs a node that should not start; returns what it says.
fn refused_start(setup: &Setup) -> String {
    let ended: Output = output(&mut setup.command());
    assert_eq!(ended.status.code(), Some(1), "{}{}", stdout(&ended), stderr(&ended));
    assert!(!stdout(&ended).contains("ready"), "{}", stdout(&ended));
    stderr(&ended)
}

fn journal(words: &[&str], data: &Path) -> Output {
    let mut command = weir();
    output(command.arg("journal").args(words).arg("--data").arg(text(data)))
}

/// What a node that cannot seal refuses, and what it still answers.
fn check_while_failing(node: &Node, token: Token) {
    let mut client = node.client();
    client.wait_verdict(1, 1, Verdict::Journal);
    client.send(&resolve_frame(90, &[resolve::Item::new(token, 1, Action::Settle, 0)]));
    assert_eq!(client.expect_refusal(Reason::Journal).0, 90);
    client.ping();
    client.send(&books_frame(91, 0, 10));
    assert!(matches!(client.receive(), Reply::Books { frame: 91, lines, .. } if lines.len() == 1));
    client.send(&totals_frame(92));
    assert!(matches!(client.receive(), Reply::Totals { frame: 92, .. }));
    assert_eq!(node.get("/healthz").0, 200);
    let (status, why) = node.get("/readyz");
    assert!(status == 503 && why.contains("journal"), "{status} {why}");
    wait_for("the reason on the board", || {
        node.get("/v1/budgets/1").1.contains(r#""status":"error","reason":"journal""#)
    });
    assert_eq!(node.get("/books").0, 200);
    node.budget(1);
    let stat = wait_journal(node, "failing");
    assert!(stat["journal"]["errors"].as_u64() > Some(0), "{stat:#}");
    assert!(stat["journal"]["failure"].as_str().is_some_and(|text| text.len() > 5), "{stat:#}");
}

/// Settles one after the other until told to stop; one of them is under way when the disk fails, and gets its answer
/// once that is over. Returns how many were settled.
fn settle_until(client: &mut Client, tokens: &[Token], stop: &AtomicBool) -> usize {
    let mut count = 0;
    for token in tokens {
        if stop.load(Ordering::Acquire) {
            break;
        }
        client.send(&resolve_frame(
            count as u64 + 1,
            &[resolve::Item::new(*token, 1, Action::Settle, 0)],
        ));
        match client.receive() {
            Reply::Resolved { answers, .. } => assert_eq!(answers, [(Verdict::Settled, false)]),
            // It came while the failure was known already: nothing of it took effect.
            Reply::Refused { reason: Reason::Journal, .. } => break,
            other => panic!("{other:?}"),
        }
        count += 1;
    }
    count
}

#[test]
fn a_full_disk_stops_the_money_and_nothing_else() {
    with_own_mounts("full_disk::a_full_disk_stops_the_money_and_nothing_else", || {
        let setup = setup();
        let disk = SmallDisk::new(&setup, 9 * SEGMENT_BYTES / 2);
        let node = setup.clone().start();
        // One segment is written to, the next is prepared; there is no room for a third.
        wait_for("the prepared segment", || disk.folder.join("prepared.tmp").exists());
        disk.fill();
        let mut client = node.client();
        let tokens = tokens(&mut client, 3 * SEGMENT_BYTES / BLOCK_BYTES);
        let (stop, spare) = (AtomicBool::new(false), node.client().grant(1, 1));
        let settled = std::thread::scope(|scope| {
            let settling = scope.spawn(|| settle_until(&mut client, &tokens, &stop));
            let stat = wait_journal(&node, "failing");
            let failure = stat["journal"]["failure"].as_str().unwrap();
            assert!(failure.contains("No space left on device"), "{failure}");
            let room = format!("a new segment needs {SEGMENT_BYTES} bytes");
            assert!(failure.contains(&room), "{failure}");
            check_while_failing(&node, spare);
            assert!(
                !settling.is_finished(),
                "what waits for the disk is neither lost nor acknowledged"
            );
            let waiting = node.door()["resolves_waiting"].as_u64();
            assert_eq!(waiting, Some(1));
            stop.store(true, Ordering::Release);
            disk.free();
            settling.join().unwrap()
        });
        assert!(settled > SEGMENT_BYTES / BLOCK_BYTES, "the segments were written to: {settled}");
        wait_journal(&node, "sealing");
        assert_eq!(node.get("/readyz").0, 200);
        node.client().wait_verdict(1, 1, Verdict::Granted);
        let more = &tokens[settled..][..50];
        settle_each(&mut client, more);
        let all = &tokens[..settled + more.len()];
        check_settled(&node, all);
        let log = node.log();
        assert!(log.contains("the journal cannot be written"), "{log}");
        assert!(log.contains("works again"), "{log}");

        let mut node = node.restart();
        check_settled(&node, all);
        node.terminate();
        assert!(node.wait_end().success(), "{}", node.log());
        let audit = journal(&["audit"], &node.data());
        assert_eq!(audit.status.code(), Some(0), "{}{}", stdout(&audit), stderr(&audit));
    });
}

#[test]
fn a_stop_on_a_full_disk_ends_and_says_what_is_missing() {
    with_own_mounts("full_disk::a_stop_on_a_full_disk_ends_and_says_what_is_missing", || {
        let setup = setup();
        let disk = SmallDisk::new(&setup, 9 * SEGMENT_BYTES / 2);
        let mut node = setup.clone().start();
        wait_for("the prepared segment", || disk.folder.join("prepared.tmp").exists());
        disk.fill();
        let mut client = node.client();
        let tokens = tokens(&mut client, 3 * SEGMENT_BYTES / BLOCK_BYTES);
        let mut settled = 0;
        let failing = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_journal(&node, "failing");
                node.terminate();
                failing.store(true, Ordering::Release);
            });
            // The node ends with one of them under way.
            for (number, token) in tokens.iter().enumerate() {
                let items = [resolve::Item::new(*token, 1, Action::Settle, 0)];
                let sent = client.try_send(&resolve_frame(number as u64 + 1, &items));
                let Some(frame) = client.try_receive_bytes().filter(|_| sent) else { break };
                if !matches!(crate::client::reply(&frame), Reply::Resolved { .. }) {
                    break;
                }
                settled += 1;
            }
        });
        assert!(failing.load(Ordering::Acquire), "it answered all of them: {settled}");
        assert_eq!(node.wait_end().code(), Some(1), "{}", node.log());
        assert!(node.log().contains("could not be sealed"), "{}", node.log());
        let said = refused_start(&setup);
        assert!(
            said.contains("No space left on device") && said.contains("is the disk full"),
            "{said}"
        );
        disk.free();
        let node = setup.start();
        check_settled(&node, &tokens[..settled]);
        let (verdict, _) = node.client().settle(tokens[settled], 1);
        assert_eq!(
            verdict,
            Verdict::Settled,
            "what was not acknowledged is settled when it is sent again"
        );
        check_settled(&node, &tokens[..=settled]);
    });
}

#[test]
fn a_disk_that_may_not_be_written_to_is_told_at_the_start() {
    with_own_mounts("full_disk::a_disk_that_may_not_be_written_to_is_told_at_the_start", || {
        let setup = setup();
        let disk = SmallDisk::new(&setup, 4 * SEGMENT_BYTES);
        disk.mount("ro");
        let said = refused_start(&setup);
        assert!(said.contains("Read-only file system"), "{said}");
        assert!(said.contains(text(&disk.folder)), "{said}");
        // The upper one of two mounts.
        drop(disk);
        let disk = SmallDisk { folder: setup.data().join("journal") };
        let node = setup.clone().start();
        let mut client = node.client();
        let settled = tokens(&mut client, 100);
        settle_each(&mut client, &settled);
        drop(node);
        disk.mount("remount,ro");
        let said = refused_start(&setup);
        assert!(said.contains("Read-only file system"), "{said}");
        assert!(!said.contains("repair"), "a disk that is mounted wrongly is not damaged: {said}");
        disk.mount("remount,rw");
        check_settled(&setup.start(), &settled);
    });
}

/// A limit on the length of files stops writes in the middle of a segment, as a failing disk does; it needs no root.
pub(crate) fn limit_files(node: &Node, bytes: &str) {
    let (pid, limit) = (node.child.id().to_string(), format!("--fsize={bytes}:"));
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
}

#[test]
fn a_write_that_fails_is_done_again_in_a_new_segment() {
    let setup = setup();
    let node = setup.clone().start();
    let mut client = node.client();
    let tokens = tokens(&mut client, 300);
    let spare = client.grant(1, 1);
    settle_each(&mut client, &tokens[..100]);
    let begun = node.stat()["journal"]["segments_begun"].as_u64().unwrap();
    for round in 0..3 {
        let mine = &tokens[100 + round * 50..][..50];
        let stop = AtomicBool::new(false);
        limit_files(&node, &BLOCK_BYTES.to_string());
        let settled = std::thread::scope(|scope| {
            let settling = scope.spawn(|| settle_until(&mut client, mine, &stop));
            let stat = wait_journal(&node, "failing");
            let failure = stat["journal"]["failure"].as_str().unwrap();
            assert!(failure.contains("File too large"), "{failure}");
            check_while_failing(&node, spare);
            stop.store(true, Ordering::Release);
            limit_files(&node, "unlimited");
            settling.join().unwrap()
        });
        assert_eq!(settled, 1, "the one that was under way");
        wait_journal(&node, "sealing");
        client.wait_verdict(1, 1, Verdict::Granted);
        settle_each(&mut client, &mine[settled..]);
    }
    let stat = node.stat();
    assert!(stat["journal"]["segments_begun"].as_u64().unwrap() >= begun + 3, "{stat:#}");
    check_settled(&node, &tokens[..250]);
    let node = node.restart();
    check_settled(&node, &tokens[..250]);
}

#[test]
fn the_load_tool_sits_a_failing_disk_out() {
    let node = setup().start();
    let mut command = weir();
    command.args(["hammer", "--target", &node.batch.to_string(), "--json", "--quiet"]);
    command.args(["--duration", "3s", "--rate", "5000", "--connections", "2", "--win", "0.5"]);
    let ended = std::thread::scope(|scope| {
        let hammer = scope.spawn(|| output(&mut command));
        for _ in 0..2 {
            let settled = node.budget(1).settled;
            node.wait_budget(1, "settles", |books| books.settled > settled);
            limit_files(&node, &BLOCK_BYTES.to_string());
            wait_journal(&node, "failing");
            node.wait_stat("refused frames", |stat| {
                stat["doors"]["batch"]["refused_frames"]["journal"].as_u64() > Some(0)
            });
            limit_files(&node, "unlimited");
            wait_journal(&node, "sealing");
        }
        hammer.join().unwrap()
    });
    assert_eq!(ended.status.code(), Some(0), "{}{}", stdout(&ended), stderr(&ended));
    let report: serde_json::Value = serde_json::from_str(&stdout(&ended)).unwrap();
    assert_eq!(report["audit"], "ok", "{report:#}");
    assert!(report["notices"]["put_off"].as_u64() > Some(0), "{report:#}");
    for member in ["over_micros", "duplicates_booked", "lost_acks"] {
        assert_eq!(report[member], 0, "{member} in {report:#}");
    }
}

#[test]
fn another_nodes_journal_is_refused() {
    let setup = setup();
    drop(setup.clone().start());
    let said = refused_start(&setup.with("node.id", "2"));
    assert!(said.contains("written by node 1, this is node 2"), "{said}");
    assert!(said.contains("set node.id, or give this node a folder of its own"), "{said}");
}

/// Names of the journal's files with this beginning, rising.
fn files(data: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("journal")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter(|name| name.starts_with(prefix) && name.ends_with(".weir")).collect();
    names.sort_unstable();
    names
}

/// Turns over one bit.
fn damage(path: &Path, offset: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

#[test]
fn damage_in_the_middle_is_refused_with_its_place() {
    let setup = setup();
    let node = setup.clone().start();
    let mut client = node.client();
    let settled = tokens(&mut client, 60);
    settle_each(&mut client, &settled);
    drop(node);
    let name = "segment-0000000001.weir";
    let path = setup.data().join("journal").join(name);
    // In the records of a group with many behind it.
    let (block, offset) = (10 * BLOCK_BYTES as u64, 10 * BLOCK_BYTES as u64 + 70);
    damage(&path, offset);
    let before = std::fs::read(&path).unwrap();
    let said = refused_start(&setup);
    for what in [name, &block.to_string(), "weir journal verify", "weir journal repair", "backup"] {
        assert!(said.contains(what), "{what} in: {said}");
    }
    assert_eq!(before, std::fs::read(&path).unwrap(), "nothing was changed");
    let verify = journal(&["verify"], &setup.data());
    assert_eq!(verify.status.code(), Some(1), "{}", stdout(&verify));
    assert!(stdout(&verify).contains(name), "{}", stdout(&verify));
    damage(&path, offset);
    check_settled(&setup.start(), &settled);
}

#[test]
fn a_damaged_snapshot_is_passed_over() {
    let setup = setup().with("journal.snapshot_bytes", "1048576");
    let mut node = setup.clone().start();
    let each = 2 * 1_048_576 / BLOCK_BYTES;
    let tokens = tokens(&mut node.client(), 2 * each);
    for (number, part) in tokens.chunks(each).enumerate() {
        settle_each(&mut node.client(), part);
        // The segment that the run before wrote to is closed, and long enough for a snapshot.
        node = node.restart();
        wait_for("a snapshot", || files(&setup.data(), "snapshot-").len() == number + 1);
    }
    let snapshots = files(&setup.data(), "snapshot-");
    drop(node);
    damage(&setup.data().join("journal").join(&snapshots[1]), 2 * BLOCK_BYTES as u64 - 2_000);
    let node = setup.clone().start();
    check_settled(&node, &tokens);
    let log = node.log();
    assert!(log.contains(&snapshots[1]), "the damaged one is told: {log}");
    drop(node);
    // Without any, all records are read from the first.
    for name in files(&setup.data(), "snapshot-") {
        std::fs::remove_file(setup.data().join("journal").join(name)).unwrap();
    }
    check_settled(&setup.start(), &tokens);
}
