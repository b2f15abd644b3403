//! Users that are not in memory.

use gate_profile::{Options, Presence, Profile, Refused, UpdateError};

use crate::support::{self, lifetime, used, warm, written};

/// Room for about 5,000 users.
fn small() -> Options {
    Options { memory_bytes_max: 1 << 20, ..support::options() }
}

#[test]
fn users_beyond_the_budget_leave_memory_and_come_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open_with(folder.path(), &small());
    warm(&profiles);
    const USERS: u64 = 20_000;
    let now = support::now_ms();
    for user in 0..USERS {
        let caps = [lifetime(user % 7, 9)];
        while profiles.count(user, user, &caps, now).is_err() {}
        if user % 1_000 == 0 {
            profiles.set_segments(user, &[1, user as u32]).unwrap();
        }
        // Counted users may leave once they are folded, so the writer must keep up.
        if user % 500 == 0 {
            support::wait_for("folding", || profiles.figures().folded >= user);
        }
    }
    let figures = profiles.figures();
    assert!(figures.evicted > 0 && figures.users < USERS / 2, "{figures:?}");
    assert!(figures.bytes < 2 << 20, "{figures:?}");
    for user in (0..USERS).step_by(100) {
        assert_eq!(used(&profiles, user, user % 7), 1, "user {user}");
    }
    assert_eq!(support::profile(&profiles, 3_000).segments(), [1, 3_000]);
    assert!(profiles.figures().cold > 0);
}

#[test]
fn a_stranger_is_new_and_costs_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    warm(&profiles);
    let mut profile = Profile::default();
    assert!((0..1_000).all(|user| profiles.read(user, 1, &mut profile) == Presence::New));
    assert_eq!(profiles.figures().users, 0);
}

/// Whoever is stored and not in memory is cold: never taken for new, and no cap is judged.
#[test]
fn a_cold_user_is_refused_counted_and_then_loaded_with_both_counts() {
    let folder = tempfile::tempdir().unwrap();
    let options = small();
    let profiles = support::open_with(folder.path(), &options);
    warm(&profiles);
    let now = support::now_ms();
    let seq = profiles.count(0, 1, &[lifetime(1, 9)], now).unwrap().seq();
    support::wait_for("folding", || profiles.figures().folded >= seq);
    // Others push the user out.
    let mut profile = Profile::default();
    let mut other = 1_000_000;
    while profiles.read(0, now, &mut profile) == Presence::Hot {
        for _ in 0..5_000 {
            other += 1;
            assert_eq!(profiles.reserve(other, 1, &[lifetime(1, 1)], now, now), Ok(()));
        }
    }
    // That read asked for the user. Whatever comes first now, the load or these, both counts are there.
    match profiles.reserve(0, 2, &[lifetime(1, 9)], now + 1_000, now) {
        Ok(()) => assert!(profiles.release(0, 2)),
        Err(why) => assert_eq!(why, Refused::Cold),
    }
    let seq = profiles.count(0, 3, &[lifetime(1, 9)], now).unwrap().seq();
    written(&profiles, seq);
    assert_eq!(used(&profiles, 0, 1), 2);
}

#[test]
fn until_everybody_was_seen_nobody_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    warm(&profiles);
    for user in 0..3_000 {
        profiles.set_segments(user, &[user as u32]).unwrap();
    }
    profiles.close().unwrap();
    drop(profiles);
    let profiles = support::open(folder.path());
    let mut profile = Profile::default();
    for user in 0..3_000 {
        let presence = profiles.read(user, 1, &mut profile);
        assert_ne!(presence, Presence::New, "user {user}");
        assert_eq!(profile.segments().is_empty(), presence == Presence::Cold);
    }
    warm(&profiles);
    assert_eq!(profiles.figures().users, 3_000);
    assert!((0..3_000).all(|user| support::profile(&profiles, user).segments() == [user as u32]));
}

#[test]
fn segments_are_bounded_and_a_refused_change_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    let ids: Vec<u32> = (0..300).collect();
    profiles.set_segments(1, &ids[..255]).unwrap();
    let error = profiles.add_segments(1, &ids[250..260]).unwrap_err();
    assert!(matches!(error, UpdateError::TooMany { user: 1, found: 260 }), "{error}");
    profiles.add_segments(1, &ids[..255]).unwrap();
    assert_eq!(support::profile(&profiles, 1).segments(), &ids[..255]);
    profiles.remove_segments(1, &ids[1..]).unwrap();
    assert_eq!(support::profile(&profiles, 1).segments(), [0]);
}
