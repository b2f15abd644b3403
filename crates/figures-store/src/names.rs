//! What keys of reports mean: exchange, place, creative and country. Kept in memory, and in a log, a second behind.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disk::{Error, LogFile, LogKind};
use figures::KEY_OTHER;

use crate::file::Unusable;

/// Names that are written in one go: workers that meet a new one wait meanwhile. What is more comes a second later.
const SAVED_AT_ONCE: usize = 20_000;
const NAME: &str = "names";
const KIND: LogKind = LogKind {
    name: NAME,
    mark: b"WEIRNAME",
    version: 1,
    first_byte: b'N',
    content: "names in reports",
};
/// The file is written anew when it has more bytes than this, and more than twice those of what is in use.
const REWRITE_BYTES: u64 = 16 << 20;
/// A name that is in use is written again after so many days: so the file says which are.
const AGAIN_DAYS: u16 = 7;

/// What a key means.
pub(crate) type Texts = [Arc<str>; 4];

#[derive(Debug)]
struct Name {
    texts: Texts,
    /// Days since the Unix epoch, when it was bid for last, within [`AGAIN_DAYS`].
    day: u16,
}

#[derive(Debug, Default)]
struct Names {
    by_key: HashMap<u64, Name>,
    /// Each text once: most keys share most of theirs.
    texts: HashSet<Arc<str>>,
    unsaved: Vec<u64>,
    max: usize,
    keep_days: u16,
    day: u16,
    /// Times that a key was noted with another meaning than its own.
    clashes: u64,
}

/// The names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NameDesk {
    names: Arc<Mutex<Names>>,
    secret: u128,
}

impl Names {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    fn put(&mut self, key: u64, texts: [&str; 4], day: u16) {
        let texts = texts.map(|text| self.text(text));
        self.by_key.insert(key, Name { texts, day });
    }

    /// Forgets what was not bid for since the oldest hours that are kept.
    fn forget(&mut self) -> usize {
        let oldest = self.day.saturating_sub(self.keep_days.saturating_add(AGAIN_DAYS + 1));
        let before = self.by_key.len();
        self.by_key.retain(|_, name| name.day >= oldest);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        before - self.by_key.len()
    }
}

impl NameDesk {
    fn new(secret: u128, max: u64, keep_days: u64) -> NameDesk {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let keep_days = u16::try_from(keep_days).unwrap_or(u16::MAX);
        let names = Names { max, keep_days, ..Names::default() };
        NameDesk { names: Arc::new(Mutex::new(names)), secret }
    }

    /// Returns names that nobody keeps.
    #[must_use]
    pub fn empty() -> NameDesk {
        NameDesk::new(drawn(), 0, 0)
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What makes keys of texts: it stays the same over restarts.
    #[must_use]
    pub fn secret(&self) -> u128 {
        self.secret
    }

    /// Notes what a key means. Returns what to count under: the key, or that of all others where there are too many. Two meanings of one key
    /// count as the first.
    pub fn note(&self, key: u64, texts: [&str; 4]) -> u64 {
        let names = &mut *self.lock();
        let is_full = names.by_key.len() >= names.max;
        let known = names.by_key.get_mut(&key);
        let is_same = |name: &Name| name.texts.iter().map(|text| &**text).eq(texts);
        names.clashes += u64::from(known.as_ref().is_some_and(|name| !is_same(name)));
        match known {
            Some(name) if name.day.saturating_add(AGAIN_DAYS) <= names.day => {
                name.day = names.day;
                names.unsaved.push(key);
            }
            Some(_) => {}
            None if is_full => return KEY_OTHER,
            None => {
                names.put(key, texts, names.day);
                names.unsaved.push(key);
            }
        }
        key
    }

    /// What a key means; `None`: that is not known.
    pub(crate) fn meaning(&self, key: u64) -> Option<Texts> {
        self.lock().by_key.get(&key).map(|name| name.texts.clone())
    }

    /// How often two meanings were found to have one key.
    pub(crate) fn clashes(&self) -> u64 {
        self.lock().clashes
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lock().by_key.len() as u64
    }
}

/// 128 bits that nobody knows.
fn drawn() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(0));
    half() << 64 | half()
}

/// The file of names.
#[derive(Debug)]
pub(crate) struct NameFile {
    log: LogFile,
    desk: NameDesk,
    is_failing: bool,
}

/// A record of one entry.
fn record(key: u64, day: u16, texts: [&str; 4]) -> Vec<u8> {
    let mut bytes = vec![b'N'];
    entry(&mut bytes, key, day, texts);
    bytes
}

fn entry(bytes: &mut Vec<u8>, key: u64, day: u16, texts: [&str; 4]) {
    bytes.extend(key.to_le_bytes());
    bytes.extend(day.to_le_bytes());
    for text in texts {
        let length = u16::try_from(text.len()).unwrap_or(0);
        bytes.extend(length.to_le_bytes());
        bytes.extend(&text.as_bytes()[..usize::from(length)]);
    }
}

/// The next entry.
fn read_entry<'b>(rest: &mut &'b [u8]) -> Option<(u64, u16, [&'b str; 4])> {
    let (key, behind) = rest.split_first_chunk()?;
    let (day, mut behind) = behind.split_first_chunk()?;
    let mut texts = [""; 4];
    for text in &mut texts {
        let (length, after) = behind.split_first_chunk()?;
        let (bytes, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        *text = std::str::from_utf8(bytes).ok()?;
        behind = after;
    }
    *rest = behind;
    Some((u64::from_le_bytes(*key), u16::from_le_bytes(*day), texts))
}

impl NameFile {
    /// Opens the file of a folder, or makes both, for so many names, which are kept for so many days after they were bid for.
    ///
    /// # Errors
    /// The disk refuses, or another process has the folder.
    pub(crate) fn open(folder: &Path, max: u64, keep_days: u64) -> Result<NameFile, Error> {
        match read(folder, max, keep_days) {
            Ok(file) => Ok(file),
            Err(Unusable::Disk(error)) => Err(error),
            Err(Unusable::Content(why)) => {
                tracing::warn!(
                    folder = %folder.display(), why,
                    "the names in reports are (unknown) for bids until now; the old file is names.bad"
                );
                let path = folder.join(NAME);
                std::fs::rename(&path, path.with_extension("bad"))
                    .map_err(|source| Error::io(&path, "set aside", source))?;
                read(folder, max, keep_days).map_err(|error| match error {
                    Unusable::Disk(error) => error,
                    Unusable::Content(_) => Error::Damaged { path, at: 0 },
                })
            }
        }
    }

    pub(crate) fn desk(&self) -> &NameDesk {
        &self.desk
    }

    /// Has what is new on the disk. Where that refuses, it is tried again the next time.
    pub(crate) fn save(&mut self, now_ms: u64) {
        let (bytes, taken) = {
            let mut names = self.desk.lock();
            let day = u16::try_from(now_ms / 86_400_000).unwrap_or(u16::MAX);
            if day != names.day {
                names.day = day;
                let gone = names.forget();
                if gone > 0 {
                    tracing::info!(gone, "names that nobody bid for any more left the reports");
                }
            }
            let mut bytes = vec![b'N'];
            let taken = names.unsaved.len().min(SAVED_AT_ONCE);
            for key in &names.unsaved[..taken] {
                if let Some(name) = names.by_key.get(key) {
                    entry(&mut bytes, *key, name.day, name.texts.each_ref().map(|text| &**text));
                }
            }
            (bytes, taken)
        };
        let saved = if bytes.len() > 1 { self.log.append(&bytes) } else { Ok(()) };
        match saved {
            Ok(()) => {
                self.is_failing = false;
                // What came meanwhile is behind what was written.
                self.desk.lock().unsaved.drain(..taken);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the names in reports are not saved; it will be tried again each second");
                }
            }
        }
        let desk = self.desk.clone();
        self.log.shorten(move || {
            let names = desk.lock();
            let mut bytes = vec![b'N'];
            for (key, name) in &names.by_key {
                entry(&mut bytes, *key, name.day, name.texts.each_ref().map(|text| &**text));
            }
            [secret_record(desk.secret), bytes].into_iter()
        });
    }
}

fn secret_record(secret: u128) -> Vec<u8> {
    record(0, 0, [&format!("{secret:032x}"), "", "", ""])
}

fn read(folder: &Path, max: u64, keep_days: u64) -> Result<NameFile, Unusable> {
    let mut desk = NameDesk::new(drawn(), max, keep_days);
    let mut is_new = true;
    let mut log = LogFile::open(folder, KIND, REWRITE_BYTES, |_, _, record| {
        let bad = || Unusable::Content("a record is no list of names".into());
        let mut rest = record.strip_prefix(b"N").ok_or_else(bad)?;
        let mut names = desk.names.lock().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            let (key, day, texts) = read_entry(&mut rest).ok_or_else(bad)?;
            if key == 0 {
                desk.secret = u128::from_str_radix(texts[0], 16).map_err(|_| bad())?;
                is_new = false;
            } else {
                names.put(key, texts, day);
            }
        }
        Ok::<(), Unusable>(())
    })?;
    if is_new {
        log.append(&secret_record(desk.secret))?;
    }
    Ok(NameFile { log, desk, is_failing: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn meaning(desk: &NameDesk, key: u64) -> Option<[String; 4]> {
        desk.meaning(key).map(|texts| texts.map(|text| text.to_string()))
    }

    #[test]
    fn names_come_back_until_nobody_bids_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let open = || NameFile::open(folder.path(), 2, 90).unwrap();
        let mut file = open();
        let secret = file.desk().secret();
        file.save(1_000 * DAY_MS);
        let (one, other, third) = (KEY_OTHER + 1, KEY_OTHER + 2, KEY_OTHER + 3);
        let texts = |place| ["default", place, "a", ""];
        assert_eq!(file.desk().note(one, texts("one.example")), one);
        assert_eq!(file.desk().note(other, texts("other.example")), other);
        assert_eq!(file.desk().note(third, texts("third.example")), KEY_OTHER, "two is all");
        assert_eq!(file.desk().clashes(), 0);
        assert_eq!(file.desk().note(one, texts("else.example")), one, "the first counts");
        assert_eq!(file.desk().clashes(), 1);
        file.save(1_000 * DAY_MS);
        let mut file = {
            drop(file);
            open()
        };
        assert_eq!(file.desk().secret(), secret);
        let expected = texts("one.example").map(str::to_owned);
        assert_eq!(meaning(file.desk(), one), Some(expected.clone()));
        assert_eq!(meaning(file.desk(), third), None);
        // In use again after a week, it stays as long as hours of it may be kept.
        file.save(1_008 * DAY_MS);
        file.desk().note(one, texts("one.example"));
        file.save(1_008 * DAY_MS);
        let mut file = {
            drop(file);
            open()
        };
        file.save((1_000 + 98) * DAY_MS);
        assert_eq!(file.desk().count(), 2);
        file.save((1_000 + 99) * DAY_MS);
        assert_eq!(
            (meaning(file.desk(), one), meaning(file.desk(), other)),
            (Some(expected), None)
        );
        assert_eq!(file.desk().note(third, texts("third.example")), third, "there is room");
        // What was not saved is cut off with the process.
        let file = {
            drop(file);
            open()
        };
        assert_eq!(meaning(file.desk(), third), None);
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let secret = NameFile::open(folder.path(), 2, 90).unwrap().desk().secret();
        std::fs::write(folder.path().join(NAME), b"something else").unwrap();
        let file = NameFile::open(folder.path(), 2, 90).unwrap();
        assert_ne!(file.desk().secret(), secret);
        assert!(folder.path().join("names.bad").exists());
    }
}
