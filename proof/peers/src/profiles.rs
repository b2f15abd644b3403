//! Users' profiles, beside the table that a team would write first and beside the store behind them.
//!
//! Every user has six segments and one counter: two cache lines. Each round reads other users, spread over all of them.

use std::collections::HashMap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::sync::RwLock;
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use gate_profile::{Cap, Mode, Options, Presence, Profile, Profiles, Window, load_segments};
use probe::compare::{Case, Random, compare, median};

use crate::Size;
use crate::daemon::folder_on_disk;

/// Users that are asked for together: those of the requests of one wake-up.
const BATCH: usize = 10;
const SEGMENTS: u64 = 6;
/// Bytes of a user where they are kept as one value: segments and a counter.
const VALUE_BYTES: usize = 40;
const STRIPES: usize = 256;
/// Memory of profiles that do not fit, so that most users stay on the disk.
const SMALL_MEMORY_BYTES: usize = 16 << 20;
/// How long a cold user may take to come before the run is given up.
const COLD_WAIT_MAX: Duration = Duration::from_secs(10);

type Stripes = Vec<RwLock<HashMap<u64, Box<[u8]>>>>;

/// Prints the tables.
pub fn run(size: Size) {
    if let Err(error) = measure(size) {
        println!("\nprofiles: NOT MEASURED: {error}");
    }
}

fn measure(size: Size) -> Result<(), String> {
    let users = size.pick(1_000_000, 2_000);
    let folder = folder_on_disk()?;
    let own = folder.path().join("profiles");
    let (profiles, loaded) = filled(&own, users)?;
    let (_database, direct) = direct(&folder.path().join("direct"), users)?;
    hot(size, users, &profiles, &stripes(users), &direct);
    let figures = profiles.figures();
    println!(
        "\n{users} users loaded from a file in {:.1} s; {} bytes of memory a user.",
        loaded.as_secs_f64(),
        figures.bytes / figures.users.max(1)
    );
    profiles.close().map_err(|e| e.to_string())?;
    drop(profiles);
    cold(&own, users, size.pick(2_000, 20))
}

fn hot(size: Size, users: u64, profiles: &Profiles, map: &Stripes, direct: &Keyspace) {
    let reads = size.pick(200_000, 200);
    let now = now_ms();
    // Each case reads others than the one before it, so that none finds its users in a cache.
    let next = std::cell::Cell::new(0_u64);
    let draw = || {
        next.set(next.get() + 1);
        key(next.get().wrapping_mul(0x9e37_79b9) % users)
    };
    let mut profile = Profile::default();
    let mut read = |user| {
        assert_eq!(profiles.read(user, now, &mut profile), Presence::Hot);
        black_box(profile.segments().len());
    };
    let batched = || {
        let (mut batch, mut profile) = ([0; BATCH], Profile::default());
        for _ in 0..reads / BATCH as u64 {
            batch.fill_with(draw);
            profiles.prefetch(&batch);
            for user in batch {
                assert_eq!(profiles.read(user, now, &mut profile), Presence::Hot);
                black_box(profile.segments().len());
            }
        }
        reads
    };
    let single = || {
        (0..reads).for_each(|_| read(draw()));
        reads
    };
    let hashed = || {
        let mut copy = Vec::with_capacity(VALUE_BYTES);
        for _ in 0..reads {
            let user = draw();
            let stripe = map[stripe(user)].read().expect("nobody panics with it");
            copy.clear();
            copy.extend_from_slice(&stripe[&user]);
            black_box(&copy);
        }
        reads
    };
    let stored = || {
        let few = (reads / 10).max(1);
        for _ in 0..few {
            black_box(direct.get(draw().to_be_bytes()).expect("the store reads"));
        }
        few
    };
    let mut reserved = 0;
    let reserve = || {
        for _ in 0..reads {
            let user = draw();
            reserved += 1;
            assert!(profiles.reserve(user, reserved, &[cap(1)], now + 9_000, now).is_ok());
            profiles.release(user, reserved);
        }
        reads
    };
    let mut cases: Vec<Case<'_>> = vec![
        ("HashMap in 256 RwLocks, copied", Box::new(hashed)),
        ("read, one by one", Box::new(single)),
        ("read, batches of 10 with prefetch", Box::new(batched)),
        ("reserve a cap and release it", Box::new(reserve)),
        ("fjall direct, in its cache", Box::new(stored)),
    ];
    let title = format!("hot: {users} users, ns per user");
    print!("{}", compare(&title, size.pick(7, 1), &mut cases));
}

/// Users that are on the disk: what saying so costs, and how long until they are there.
fn cold(folder: &Path, users: u64, samples: u64) -> Result<(), String> {
    let options = Options { memory_bytes_max: SMALL_MEMORY_BYTES, ..options(0) };
    let profiles = Profiles::open(folder, &options).map_err(|e| e.to_string())?;
    let opened = Instant::now();
    while !profiles.figures().warm && opened.elapsed() < COLD_WAIT_MAX {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (now, mut profile) = (now_ms(), Profile::default());
    let (mut said_ns, mut came_us) = (Vec::new(), Vec::new());
    for user in (0..users).map(|user| key(user.wrapping_mul(0x9e37_79b9) % users)) {
        let started = Instant::now();
        let presence = profiles.read(user, now, &mut profile);
        let said = started.elapsed();
        if presence != Presence::Cold {
            continue;
        }
        while profiles.read(user, now, &mut profile) == Presence::Cold {
            if started.elapsed() > COLD_WAIT_MAX {
                return Err("a cold user did not come".into());
            }
            std::thread::yield_now();
        }
        said_ns.push(said.as_nanos() as f64);
        came_us.push(started.elapsed().as_nanos() as f64 / 1e3);
        if came_us.len() as u64 == samples {
            break;
        }
    }
    println!("\n### cold: {users} users on disk, {} MiB of memory\n", SMALL_MEMORY_BYTES >> 20);
    if came_us.is_empty() {
        println!("every user was in memory: none was cold");
        return Ok(());
    }
    came_us.sort_by(f64::total_cmp);
    let last = came_us[(came_us.len() - 1) * 99 / 100];
    println!(
        "{} cold users, one after the other: `Cold` is said after {:.0} ns; the user is there after {:.1} us (p50), \
         {last:.1} us (p99), loaded by another thread.",
        came_us.len(),
        median(said_ns),
        median(came_us.clone()),
    );
    Ok(())
}

/// Users with segments, from a file as in life, and a counter, all in memory; and how long the file took.
fn filled(folder: &Path, users: u64) -> Result<(Profiles, Duration), String> {
    let profiles = Profiles::open(folder, &options(users)).map_err(|e| e.to_string())?;
    let mut text = String::new();
    for user in 0..users {
        let segments = (0..SEGMENTS).map(|segment| user + segment * 97);
        let _ = write!(text, "#{:x}", key(user));
        segments.for_each(|segment| {
            let _ = write!(text, ",s{segment}");
        });
        text.push('\n');
    }
    let file = folder.join("segments.csv");
    std::fs::write(&file, text).map_err(|e| e.to_string())?;
    let started = Instant::now();
    let summary = load_segments(&file, &profiles, Mode::Add, |_| {}).map_err(|e| e.to_string())?;
    let loaded = started.elapsed();
    if summary.accepted != users {
        return Err(format!("{} of {users} lines were loaded", summary.accepted));
    }
    let now = now_ms();
    for user in 0..users {
        let reserved = profiles.reserve(key(user), 0, &[cap(1)], now + 1, now);
        reserved.map_err(|refused| format!("a user has no place: {refused:?}"))?;
    }
    Ok((profiles, loaded))
}

fn stripes(users: u64) -> Stripes {
    let map: Stripes = (0..STRIPES).map(|_| RwLock::default()).collect();
    for user in (0..users).map(key) {
        let value = vec![7; VALUE_BYTES].into_boxed_slice();
        map[stripe(user)].write().expect("nobody panics with it").insert(user, value);
    }
    map
}

fn stripe(user: u64) -> usize {
    (user >> 56) as usize % STRIPES
}

/// The store alone; it lives as long as its database.
fn direct(folder: &Path, users: u64) -> Result<(Database, Keyspace), String> {
    let failed = |error: fjall::Error| error.to_string();
    let database = Database::builder(folder).open().map_err(failed)?;
    let keyspace = database.keyspace("users", KeyspaceCreateOptions::default).map_err(failed)?;
    for user in (0..users).map(key) {
        keyspace.insert(user.to_be_bytes(), [7; VALUE_BYTES]).map_err(failed)?;
    }
    Ok((database, keyspace))
}

fn options(users: u64) -> Options {
    Options {
        secret: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
        users_expected: users as usize,
        ..Options::default()
    }
}

fn cap(item: u64) -> Cap {
    Cap { item, window: Window::Day, limit: 60_000, offset_minutes: 60 }
}

/// Keys as hashes are: spread over all numbers.
fn key(user: u64) -> u64 {
    Random::new(user).draw()
}

fn now_ms() -> u64 {
    probe::NodeClock::new().now_ms()
}
