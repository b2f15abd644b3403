//! A process that is killed at random moments while it rotates keys and counts messages, again and again on one folder.
//!
//! The process is this test binary (see [`the_process_that_is_killed`]); it says each change when it is acknowledged. The test kills it and
//! reads what it said: each of that is there, versions never go back, and no number of a message is given twice.
//!
//! A binary of its own: a child has the locks of its parent's folders between fork and exec, where other tests would find them taken.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vault::{
    Change, KeyConfig, KeyEncryptionKey, KeyKind, KeyName, KeyPolicy, KeyStore, KeyType, SecretKey,
};
use vault_store::{KeyFile, Options};

const FOLDER: &str = "VAULT_STORE_KILL_FOLDER";
const LIVES: u64 = 100;
/// Small, so that the file is written anew many times.
const OPTIONS: Options = Options { keys_max: 10, rewrite_bytes: 3_000 };
/// Messages that are taken at once: a block is reserved at about every third time.
const MESSAGES: u64 = 50_000;

fn open(folder: &Path) -> KeyStore<KeyFile> {
    let (file, keys) = KeyFile::open(folder, OPTIONS).unwrap();
    let mut store = KeyStore::new(keys, file).unwrap();
    store.unseal(KeyEncryptionKey::new(&SecretKey::from_bytes(&[9; 32]))).unwrap();
    store
}

fn name() -> KeyName {
    KeyName::new("stock/game").unwrap()
}

/// Says something to the test, at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Takes messages of the latest version and says which.
fn take(store: &mut KeyStore<KeyFile>) {
    let key = store.keys().get("stock/game").unwrap();
    let version = key.versions().latest();
    let change = Change::Reserve { name: name(), version, messages: MESSAGES };
    store.change(&change, 1_000).unwrap();
    let key = store.keys().get("stock/game").unwrap();
    let count = key.versions().get(version).unwrap().count();
    let from = count.used();
    count.take(MESSAGES).unwrap();
    say(&format!("\ntook {version} {from} {}\n", from + MESSAGES));
}

/// Destroys all but the last few versions, so that the keys need little and the file is written anew.
fn forget(store: &mut KeyStore<KeyFile>) {
    let latest = store.keys().get("stock/game").unwrap().versions().latest();
    let least = latest.saturating_sub(4).max(1);
    let config = KeyConfig {
        min_decryption: Some(least),
        min_encryption: Some(least),
        ..KeyConfig::default()
    };
    store.change(&Change::Configure { name: name(), config }, 1_000).unwrap();
    store.change(&Change::Trim { name: name(), min_available: least }, 1_000).unwrap();
    say(&format!("\nleast {least}\n"));
}

/// The process that is killed; without its folder it is no test.
#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let mut store = open(Path::new(&folder));
    let policy = KeyPolicy::new(KeyKind::Sealing(KeyType::Aes256CbcCmac));
    store.change(&Change::Create { name: name(), policy }, 1_000).unwrap();
    // The version that earlier lives used goes on first.
    take(&mut store);
    for step in 1_u64.. {
        match step % 8 {
            0 => forget(&mut store),
            1 | 5 => {
                store.change(&Change::Rotate(name()), 1_000).unwrap();
                let key = store.keys().get("stock/game").unwrap();
                say(&format!("\nrotated {}\n", key.versions().latest()));
            }
            _ => take(&mut store),
        }
    }
}

/// What the lives of the process said.
#[derive(Default)]
struct Told {
    latest: u32,
    least: u32,
    /// The messages of each version that were given.
    given: BTreeMap<u32, u64>,
    lines: u64,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["took", version, from, to] => {
                let version = version.parse().unwrap();
                let given = self.given.entry(version).or_default();
                assert!(from.parse::<u64>().unwrap() >= *given, "{line}: given before");
                *given = to.parse().unwrap();
                assert!(version >= self.latest, "{line}: version {} was there", self.latest);
                self.latest = version;
            }
            ["rotated", version] => {
                let version = version.parse().unwrap();
                assert!(version > self.latest, "{line}: version {} was there", self.latest);
                self.latest = version;
            }
            ["least", version] => self.least = version.parse().unwrap(),
            // The harness's own.
            _ => return,
        }
        self.lines += 1;
    }

    /// Holds a folder against what was told.
    fn judge(&self, folder: &Path) -> u64 {
        let store = open(folder);
        let Some(key) = store.keys().get("stock/game") else {
            assert_eq!(self.lines, 0, "the key is gone");
            return 0;
        };
        let versions = key.versions();
        assert!((self.latest..=self.latest + 1).contains(&versions.latest()) || self.lines == 0);
        assert!(key.policy().min_available >= self.least);
        for (version, given) in &self.given {
            match versions.get(*version) {
                Some(found) => assert!(found.count().used() >= *given, "version {version}"),
                None => assert!(*version < key.policy().min_available, "version {version}"),
            }
        }
        store.records().file_bytes()
    }
}

/// Starts the process and kills it after a while; returns what it said.
fn one_life(folder: &Path, life: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_killed", "--test-threads", "1", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    // Some lives end before they did anything, most while they work: after some lines, however slow the disk is, and a moment.
    let wanted = if life.is_multiple_of(10) { 0 } else { 2 + life % 12 };
    let wait = Duration::from_micros(life * 7_919 % 20_000);
    for _ in 0..2 * wanted {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        lines.push(line.trim().to_owned());
    }
    let until = Instant::now() + wait;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_micros(50));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended by itself");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    // A line without its end was on its way; what it would say was acknowledged, and nobody heard it.
    let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
    lines.extend(whole.lines().map(str::to_owned));
    lines
}

#[test]
fn killed_while_it_rotates_versions_never_go_back_and_no_message_is_counted_twice() {
    let root = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    let (mut last, mut shorter) = (0, 0);
    for life in 1..=LIVES {
        for line in one_life(root.path(), life) {
            told.hear(&line);
        }
        let now = told.judge(root.path());
        shorter += u64::from(now < last);
        last = now;
    }
    assert!(told.latest > 50 && told.lines > 500, "{} {}", told.latest, told.lines);
    assert!(shorter > 5, "the file was written anew in between: {shorter}");
}
