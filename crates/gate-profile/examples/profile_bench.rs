//! What profiles cost, beside the table a team would write first and the store alone.
//!
//! `cargo run --release -p gate-profile --example profile_bench -- [users]` (default 1,000,000).
//! Medians of five interleaved rounds; each round reads other users, spread over all of them.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark speaks, and stops at any fault"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::RwLock;
use std::time::Instant;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use gate_profile::{Cap, Options, Presence, Profile, Profiles, Window};

const ROUNDS: u64 = 5;
const BATCH: usize = 10;

fn main() {
    let users = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), users, 200_000);
}

fn run(folder: &Path, users: u64, reads: u64) {
    println!("{users} users, {reads} operations a round, medians of {ROUNDS} rounds\n");
    println!("{:<58}{:>10}", "operation", "ns each");
    small(folder, users, reads);
    typical(folder, users / 4, reads);
}

/// The users that a round asks of, spread over all of them.
#[derive(Clone, Copy)]
struct Round {
    number: u64,
    users: u64,
    reads: u64,
}

impl Round {
    fn user(self, read: u64) -> u64 {
        key((self.number * self.reads + read).wrapping_mul(0x9e37_79b9) % self.users)
    }
}

/// Six segments and a counter: a user in two cache lines.
fn small(folder: &Path, users: u64, reads: u64) {
    let profiles = filled(&folder.join("small"), users, 6, 1);
    let rivals = Rivals::filled(folder, users);
    let mut table = Table::default();
    for number in 0..ROUNDS {
        let round = Round { number, users, reads };
        time_reads(&mut table, &profiles, round);
        rivals.time(&mut table, round);
        time_candidates(&mut table, &profiles, round);
        time_writes(&mut table, &profiles, round);
    }
    table.print();
    let figures = profiles.figures();
    println!("\nmemory: {} bytes per user", figures.bytes / figures.users);
    cold(&folder.join("small"), profiles, users);
}

fn time_reads(table: &mut Table, profiles: &Profiles, round: Round) {
    let (now, reads, mut profile) = (now_ms(), round.reads, Profile::default());
    table.time("read, one by one", reads, || {
        for read in 0..reads {
            assert_eq!(profiles.read(round.user(read), now, &mut profile), Presence::Hot);
            black_box(profile.segments());
        }
    });
    table.time("read, batches of 10 with prefetch", reads, || {
        let mut batch = [0; BATCH];
        for first in (0..reads).step_by(BATCH) {
            (first..).zip(&mut batch).for_each(|(read, user)| *user = round.user(read));
            profiles.prefetch(&batch);
            for &user in &batch {
                assert_eq!(profiles.read(user, now, &mut profile), Presence::Hot);
                black_box(profile.segments());
            }
        }
    });
    table.time("read of one user again and again (lock and copy)", reads, || {
        for _ in 0..reads {
            black_box(profiles.read(round.user(0), now, &mut profile));
        }
    });
}

/// What a team would write first, and the store alone.
struct Rivals {
    map: Vec<RwLock<HashMap<u64, Box<[u8]>>>>,
    direct: Keyspace,
    /// Keeps the store of `direct` open.
    _database: Database,
}

impl Rivals {
    fn filled(folder: &Path, users: u64) -> Rivals {
        let map: Vec<RwLock<HashMap<u64, Box<[u8]>>>> =
            (0..256).map(|_| RwLock::default()).collect();
        for user in 0..users {
            let value = vec![7; 6 * 4 + 16].into_boxed_slice();
            map[(key(user) >> 56) as usize].write().unwrap().insert(key(user), value);
        }
        let database = Database::builder(folder.join("direct")).open().unwrap();
        let direct = database.keyspace("users", KeyspaceCreateOptions::default).unwrap();
        (0..users).for_each(|user| direct.insert(key(user).to_be_bytes(), [7; 40]).unwrap());
        Rivals { map, direct, _database: database }
    }

    fn time(&self, table: &mut Table, round: Round) {
        let (reads, mut copy) = (round.reads, Vec::with_capacity(256));
        table.time("  an uncontended lock alone", reads, || {
            let lock = std::sync::Mutex::new(0u64);
            (0..reads).for_each(|_| *black_box(&lock).lock().unwrap() += 1);
        });
        table.time("  HashMap in 256 RwLocks, boxed values, one by one", reads, || {
            for read in 0..reads {
                let user = round.user(read);
                let stripe = self.map[(user >> 56) as usize].read().unwrap();
                copy.clear();
                copy.extend_from_slice(&stripe[&user]);
                black_box(&copy);
            }
        });
        let few = reads / 10;
        table.time("  fjall direct (what a cold load reads), one by one", few, || {
            for read in 0..few {
                black_box(self.direct.get(round.user(read).to_be_bytes()).unwrap().unwrap());
            }
        });
    }
}

fn time_candidates(table: &mut Table, profiles: &Profiles, round: Round) {
    let (reads, mut profile) = (round.reads, Profile::default());
    profiles.read(round.user(0), now_ms(), &mut profile);
    let candidates: Vec<[Cap; 2]> = (100..400).map(|item| [cap(item), cap(item + 1)]).collect();
    table.time("300 candidates judged, two caps each; ns a candidate", reads / 1_000 * 300, || {
        for _ in 0..reads / 1_000 {
            candidates.iter().for_each(|caps| {
                black_box(profile.capped(black_box(caps)));
            });
        }
    });
}

fn time_writes(table: &mut Table, profiles: &Profiles, round: Round) {
    let (now, reads) = (now_ms(), round.reads);
    table.time("reserve and release, one by one", reads, || {
        for read in 0..reads {
            assert!(profiles.reserve(round.user(read), read, &[cap(1)], now + 9_000, now).is_ok());
            profiles.release(round.user(read), read);
        }
    });
    let counts = reads.min(20_000);
    table.time("reserve, confirm, count, one by one (queue has room)", counts, || {
        for read in 0..counts {
            let (user, hold) = (round.user(read), round.number << 40 | read | 1 << 63);
            assert!(profiles.reserve(user, hold, &[cap(1)], now + 9_000, now).is_ok());
            profiles.confirm(user, hold, now + 99_000, now);
            profiles.count(user, hold, &[cap(1)], now).unwrap();
        }
    });
    let last = profiles.figures().last_seq;
    let started = Instant::now();
    while profiles.written() < last {
        std::thread::yield_now();
    }
    let waited = started.elapsed().as_nanos() as f64;
    table.add("  until all of these were written", waited / counts as f64);
    while profiles.figures().folded < last {
        std::thread::yield_now();
    }
    let folded = started.elapsed().as_nanos() as f64;
    table.add("  until all of these were folded (thread of its own)", folded / counts as f64);
}

/// A restart, and reads of users that are still on disk.
fn cold(folder: &Path, profiles: Profiles, users: u64) {
    profiles.close().unwrap();
    drop(profiles);
    let started = Instant::now();
    let profiles = Profiles::open(folder, &options(0)).unwrap();
    println!("open after close: {} ms", started.elapsed().as_millis());
    let started = Instant::now();
    while !profiles.figures().warm {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    println!(
        "all {users} users in memory again: {} ms, in the background",
        started.elapsed().as_millis()
    );
}

/// Thirty segments and five counters: beyond the slot, in a block.
fn typical(folder: &Path, users: u64, reads: u64) {
    let profiles = filled(&folder.join("typical"), users, 30, 5);
    let (now, mut profile) = (now_ms(), Profile::default());
    let mut table = Table::default();
    for round in 0..ROUNDS {
        let at = |read: u64| key((round * reads + read).wrapping_mul(0x9e37_79b9) % users);
        table.time("30 segments, 5 counters: read, one by one", reads, || {
            (0..reads).for_each(|read| {
                black_box(profiles.read(at(read), now, &mut profile));
            });
        });
        table.time("30 segments, 5 counters: read, batches of 10", reads, || {
            let mut batch = [0; BATCH];
            for first in (0..reads).step_by(BATCH) {
                (first..).zip(&mut batch).for_each(|(read, user)| *user = at(read));
                profiles.prefetch(&batch);
                batch.iter().for_each(|&user| {
                    black_box(profiles.read(user, now, &mut profile));
                });
            }
        });
    }
    println!();
    table.print();
    let figures = profiles.figures();
    println!("memory: {} bytes per user", figures.bytes / figures.users);
}

/// Users with segments (from a file, as in life) and counters, all in memory.
fn filled(folder: &Path, users: u64, segments: u64, counters: u64) -> Profiles {
    use std::fmt::Write;
    let profiles = Profiles::open(folder, &options(users)).unwrap();
    while !profiles.figures().warm {
        std::thread::yield_now();
    }
    let mut text = String::new();
    for user in 0..users {
        write!(text, "#{:x}", key(user)).unwrap();
        (0..segments).for_each(|segment| write!(text, ",s{}", user + segment * 97).unwrap());
        text.push('\n');
    }
    let file = folder.join("segments.csv");
    std::fs::write(&file, text).unwrap();
    let started = Instant::now();
    let mode = gate_profile::Mode::Add;
    let summary = gate_profile::load_segments(&file, &profiles, mode, |_| {}).unwrap();
    assert_eq!(summary.accepted, users);
    let seconds = started.elapsed().as_secs_f64();
    println!("bulk load: {users} lines in {seconds:.1} s, {:.0} lines/s", users as f64 / seconds);
    let now = now_ms();
    for user in 0..users {
        for item in 0..counters {
            profiles.reserve(key(user), item, &[cap(1 + item)], now + 1, now).unwrap();
        }
    }
    profiles
}

fn options(users: u64) -> Options {
    let users = usize::try_from(users).unwrap();
    Options {
        secret: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
        memory_bytes_max: 8 << 30,
        users_expected: users + users / 8,
        ..Options::default()
    }
}

fn cap(item: u64) -> Cap {
    Cap { item, window: Window::Day, limit: 60_000, offset_minutes: 60 }
}

/// Keys as hashes are: spread over all numbers.
fn key(user: u64) -> u64 {
    let mixed = (user ^ user >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb)
}

fn now_ms() -> u64 {
    u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

/// Figures by name, in the order in which they first came.
#[derive(Default)]
struct Table {
    rows: Vec<(&'static str, Vec<f64>)>,
}

impl Table {
    fn time(&mut self, name: &'static str, count: u64, work: impl FnOnce()) {
        let started = Instant::now();
        work();
        self.add(name, started.elapsed().as_nanos() as f64 / count.max(1) as f64);
    }

    fn add(&mut self, name: &'static str, figure: f64) {
        match self.rows.iter_mut().find(|(of, _)| *of == name) {
            Some((_, figures)) => figures.push(figure),
            None => self.rows.push((name, vec![figure])),
        }
    }

    fn print(&mut self) {
        for (name, figures) in &mut self.rows {
            figures.sort_by(f64::total_cmp);
            println!("{name:<58}{:>10.1}", figures[figures.len() / 2]);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tiny_run_ends() {
        let folder = tempfile::tempdir().unwrap();
        super::run(folder.path(), 2_000, 2_000);
    }
}
