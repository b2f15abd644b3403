//! What several tests need.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gate_profile::{Cap, Options, Presence, Profile, Profiles, Refused, Window};

/// 2096-11-19, 00:00 UTC, where a minute, an hour, a day and a week begin: in the future, because the store drops what is over by the
/// clock of the system when it merges its files.
pub(crate) const MONDAY: u64 = 4_004_121_600_000;

pub(crate) fn open(folder: &Path) -> Profiles {
    open_with(folder, &options())
}

/// A test beside this one starts processes. Between its fork and its exec such a process has our locks as well, so a folder
/// that was closed can be locked for a moment longer.
pub(crate) fn open_with(folder: &Path, options: &Options) -> Profiles {
    let started = Instant::now();
    loop {
        match Profiles::open(folder, options) {
            Err(error)
                if format!("{error:?}").contains("Locked")
                    && started.elapsed() < Duration::from_secs(60) =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}

pub(crate) fn options() -> Options {
    Options { secret: 1, users_stored_expected: 10_000, ..Options::default() }
}

/// Waits until `done`; the bound is for a broken build, not for a slow machine.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

pub(crate) fn lifetime(item: u64, limit: u16) -> Cap {
    Cap { item, window: Window::Lifetime, limit, offset_minutes: 0 }
}

/// The user once it is in memory or known to be new.
pub(crate) fn profile(profiles: &Profiles, user: u64) -> Profile {
    let mut profile = Profile::default();
    wait_for("loading", || profiles.read(user, now_ms(), &mut profile) != Presence::Cold);
    profile
}

/// What is counted for the user under a lifetime cap.
pub(crate) fn used(profiles: &Profiles, user: u64, item: u64) -> u32 {
    profile(profiles, user).used(&lifetime(item, 1))
}

pub(crate) fn warm(profiles: &Profiles) {
    wait_for("the warm-up", || profiles.figures().warm);
}

pub(crate) fn written(profiles: &Profiles, seq: u64) {
    wait_for("writing", || profiles.written() >= seq);
}

/// Reserves and counts, one after the other, until there is no place.
pub(crate) fn shown_at(profiles: &Profiles, user: u64, cap: Cap, holds: &mut u64, now: u64) -> u16 {
    let mut shown = 0;
    loop {
        *holds += 1;
        match profiles.reserve(user, *holds, &[cap], now + 60_000, now) {
            Err(refused) => {
                assert_eq!(refused, Refused::Capped(0));
                return shown;
            }
            Ok(()) => profiles.count(user, *holds, &[cap], now).unwrap(),
        };
        shown += 1;
        assert!(shown <= 10 * cap.limit, "nothing that is counted is forgotten");
    }
}
