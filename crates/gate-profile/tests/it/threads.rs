//! Caps are exact across workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use gate_profile::{Cap, Profile, Refused, Window};

use crate::support::{self, lifetime};

const THREADS: u64 = 4;
const LIMIT: u16 = 10;

/// A burst of bids for the same users from all workers: never more places than the limit.
#[test]
fn a_burst_from_all_workers_gets_the_limit_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let now = support::now_ms();
    let granted: Vec<AtomicU64> = (0..50).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for worker in 0..THREADS {
            let (profiles, granted) = (profiles.clone(), &granted);
            scope.spawn(move || {
                for round in 0..20 {
                    for user in 0..granted.len() as u64 {
                        let hold = (worker * 1_000 + round) * 1_000 + user;
                        let caps = [lifetime(1, LIMIT), lifetime(2, LIMIT + 5)];
                        match profiles.reserve(user, hold, &caps, now + 60_000, now) {
                            Ok(()) => {
                                granted[user as usize].fetch_add(1, Ordering::Relaxed);
                            }
                            Err(why) => assert_eq!(why, Refused::Capped(0)),
                        }
                    }
                }
            });
        }
    });
    assert!(granted.iter().all(|granted| granted.load(Ordering::Relaxed) == u64::from(LIMIT)));
}

/// Bids that win, lose or say nothing, on all workers, while time passes: at every moment billed and
/// reserved together stay within the limit, and at the end exactly what was billed is counted.
#[test]
fn billed_and_reserved_never_pass_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let start = support::now_ms();
    let clock = Arc::new(AtomicU64::new(start));
    let billed: Vec<AtomicU64> = (0..5).map(|_| AtomicU64::new(0)).collect();
    let caps = |limit| {
        let hour = Cap { item: 1, window: Window::Hour, limit, offset_minutes: 0 };
        [lifetime(1, 500), hour]
    };
    thread::scope(|scope| {
        for worker in 0..THREADS {
            let (profiles, clock, billed) = (profiles.clone(), Arc::clone(&clock), &billed);
            scope.spawn(move || {
                let mut profile = Profile::default();
                for round in 0..4_000u64 {
                    let now = clock.fetch_add(7, Ordering::Relaxed);
                    let hold = worker << 32 | round;
                    let user = hold.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                    let (user, fate) = (user % 5, user / 5 % 4);
                    if profiles.reserve(user, hold, &caps(400), now + 1_000_000, now).is_ok() {
                        match fate {
                            0 => assert!(profiles.release(user, hold)),
                            1 => {
                                assert!(profiles.confirm(user, hold, now + 2_000_000, now));
                                profiles.count(user, hold, &caps(400), now).unwrap();
                                profiles.count(user, hold, &caps(400), now).unwrap();
                                billed[user as usize].fetch_add(1, Ordering::Relaxed);
                            }
                            2 => assert!(profiles.confirm(user, hold, now + 1, now)),
                            _ => assert!(profiles.confirm(user, hold, now + 50, now)),
                        }
                    }
                    profiles.read(user, now, &mut profile);
                    let [lifetime, hour] = caps(400);
                    assert!(profile.used(&lifetime) <= 500 && profile.used(&hour) <= 400);
                }
            });
        }
    });
    let end = clock.load(Ordering::Relaxed) + 3_000_000;
    let mut profile = Profile::default();
    let mut total = 0;
    for (user, billed) in billed.iter().enumerate() {
        profiles.read(user as u64, end, &mut profile);
        let billed = billed.load(Ordering::Relaxed);
        assert_eq!(u64::from(profile.used(&lifetime(1, 1))), billed);
        total += billed;
    }
    assert!(total > 500, "the test must bill something: {total}");
    let figures = profiles.figures();
    assert_eq!((figures.repeats, figures.last_seq), (total, total));
}
