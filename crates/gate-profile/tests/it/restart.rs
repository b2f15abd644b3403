//! What was said to be written is there after a crash, and counts once.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gate_profile::{Cap, Counted, Options, Profiles, Window};
use proptest::prelude::*;

use crate::support::{self, lifetime, used, written};

fn hourly(item: u64) -> Cap {
    Cap { item, window: Window::Hour, limit: 9, offset_minutes: 0 }
}

#[test]
fn counts_survive_a_drop_without_close_and_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let now = support::now_ms();
    for round in 0..4u64 {
        let profiles = support::open(folder.path());
        let mut last = 0;
        for user in 0..100 {
            let caps = [lifetime(1, 9), hourly(2)];
            last = profiles.count(user, round * 1_000 + user, &caps, now).unwrap().seq();
        }
        written(&profiles, last);
        if round % 2 == 1 {
            profiles.close().unwrap();
            assert!(profiles.count(1, 99_999, &[lifetime(1, 9)], now).is_err(), "closed");
        }
        drop(profiles);
        let profiles = support::open(folder.path());
        for user in 0..100 {
            assert_eq!(u64::from(used(&profiles, user, 1)), round + 1);
        }
        let hour = support::profile(&profiles, 5).used(&hourly(2));
        assert!(hour <= 4, "{hour}");
        let figures = profiles.figures();
        assert_eq!((figures.last_seq, figures.folded), (last, last));
    }
}

/// The crash came after the count was written and before the notice was answered: it comes again.
#[test]
fn a_notice_that_comes_again_after_a_restart_counts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let now = support::now_ms();
    let profiles = support::open(folder.path());
    let seq = profiles.count(7, 42, &[lifetime(1, 9)], now).unwrap().seq();
    assert_eq!(profiles.count(7, 42, &[lifetime(1, 9)], now), Ok(Counted::Again(seq)));
    written(&profiles, seq);
    drop(profiles);
    let profiles = support::open(folder.path());
    let again = profiles.count(7, 42, &[lifetime(1, 9)], now).unwrap();
    assert_eq!(again, Counted::Again(seq));
    assert!(profiles.written() >= again.seq());
    assert_eq!(used(&profiles, 7, 1), 1);
}

/// The store lost what the log has, as a power cut can do to it: the log is folded again.
#[test]
fn a_store_that_is_lost_is_rebuilt_from_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    let mut last = 0;
    for hold in 0..10_000 {
        last = profiles.count(hold % 10, hold, &[lifetime(1, 9)], support::now_ms()).unwrap().seq();
    }
    profiles.close().unwrap();
    drop(profiles);
    fs::remove_dir_all(folder.path().join("users")).unwrap();
    let profiles = support::open(folder.path());
    assert_eq!(profiles.figures().folded, last);
    assert!((0..10).all(|user| used(&profiles, user, 1) == 1_000));
}

#[test]
fn the_wake_is_called_and_a_full_queue_says_busy() {
    let folder = tempfile::tempdir().unwrap();
    let profiles =
        support::open_with(folder.path(), &Options { queue_max: 8, ..support::options() });
    let wakes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&wakes);
    profiles.on_written(Box::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let (mut accepted, mut busy) = (0, 0);
    for hold in 0..20_000 {
        match profiles.count(1, hold, &[lifetime(1, 9)], support::now_ms()) {
            Ok(_) => accepted += 1,
            Err(_) => busy += 1,
        }
    }
    assert!(busy > 0, "eight places must not do for 20,000 counts at once");
    written(&profiles, accepted);
    support::wait_for("a wake", || wakes.load(Ordering::Relaxed) > 0);
    assert_eq!(u64::from(used(&profiles, 1, 1)), accepted, "what was refused is not counted");
}

const CHILD: &str = "GATE_PROFILE_CHILD";

/// A process that counts and says what is written, killed in the middle.
#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for _ in 0..3 {
        acknowledged = acknowledged.max(run_child_and_kill_it(folder.path()));
        let profiles = support::open(folder.path());
        let figures = profiles.figures();
        assert!(figures.last_seq >= acknowledged, "{figures:?} after {acknowledged}");
        let counted: u64 = (0..10).map(|user| u64::from(used(&profiles, user, 1))).sum();
        assert_eq!(counted, figures.last_seq, "each impression once");
        acknowledged = figures.last_seq;
    }
}

fn run_child_and_kill_it(folder: &Path) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "restart::child", "--nocapture"])
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = |line: String| line.strip_prefix("written ").and_then(|seq| seq.parse().ok());
    let mut said = lines.by_ref().map_while(Result::ok).filter_map(said);
    let seq: u64 = said.nth(30).expect("the child counts");
    child.kill().unwrap();
    child.wait().unwrap();
    said.last().unwrap_or(seq)
}

#[test]
#[ignore = "run by its parent, which kills it"]
fn child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let profiles = support::open(Path::new(&folder));
    let first = profiles.figures().last_seq * 1_000_000;
    for hold in first.. {
        let counted = profiles.count(hold % 10, hold, &[lifetime(1, 9)], support::now_ms());
        if hold % 50 == 0 && counted.is_ok() {
            println!("written {}", profiles.written());
        }
    }
}

/// The table and the store under it against a plain map, with restarts.
#[derive(Clone, Debug)]
enum Step {
    Set(u64, Vec<u32>),
    Add(u64, Vec<u32>),
    Remove(u64, Vec<u32>),
    Count(u64, u64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let ids = || prop::collection::vec(0..30u32, 0..6);
    prop_oneof![
        (0..8u64, ids()).prop_map(|(user, ids)| Step::Set(user, ids)),
        (0..8u64, ids()).prop_map(|(user, ids)| Step::Add(user, ids)),
        (0..8u64, ids()).prop_map(|(user, ids)| Step::Remove(user, ids)),
        (0..8u64, 0..3u64).prop_map(|(user, item)| Step::Count(user, item)),
        Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..Default::default() })]
    #[test]
    fn segments_and_counts_are_what_a_plain_map_says(steps in prop::collection::vec(step(), 1..50)) {
        let folder = tempfile::tempdir().unwrap();
        let mut profiles = support::open(folder.path());
        let mut map = std::collections::BTreeMap::<u64, (std::collections::BTreeSet<u32>, [u32; 3])>::new();
        for (hold, step) in steps.iter().enumerate() {
            match step {
                Step::Set(user, ids) => {
                    profiles.set_segments(*user, ids).unwrap();
                    map.entry(*user).or_default().0 = ids.iter().copied().collect();
                }
                Step::Add(user, ids) => {
                    profiles.add_segments(*user, ids).unwrap();
                    map.entry(*user).or_default().0.extend(ids);
                }
                Step::Remove(user, ids) => {
                    profiles.remove_segments(*user, ids).unwrap();
                    map.entry(*user).or_default().0.retain(|id| !ids.contains(id));
                }
                Step::Count(user, item) => {
                    let caps = [lifetime(*item, 1)];
                    profiles.count(*user, hold as u64, &caps, support::now_ms()).unwrap();
                    map.entry(*user).or_default().1[*item as usize] += 1;
                }
                Step::Restart => profiles = restart(profiles, folder.path()),
            }
        }
        profiles = restart(profiles, folder.path());
        for user in 0..8 {
            let (segments, counts) = map.get(&user).cloned().unwrap_or_default();
            let profile = support::profile(&profiles, user);
            prop_assert!(segments.iter().eq(profile.segments()));
            for item in 0..3 {
                prop_assert_eq!(profile.used(&lifetime(item, 1)), counts[item as usize]);
            }
        }
    }
}

fn restart(profiles: Profiles, folder: &Path) -> Profiles {
    written(&profiles, profiles.figures().last_seq);
    drop(profiles);
    support::open(folder)
}
