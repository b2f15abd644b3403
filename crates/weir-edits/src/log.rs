//! The log of edits: an append-only file of lines, each with its checksum; `docs/formats.md` draws one.
//!
//! | entry | fields |
//! | --- | --- |
//! | `head` | `format` (4; an earlier log is read, and rewritten at the start), `next_record`; the first line |
//! | `edit` | `record`, `at_ms`, `who`, `action` (`create`, `set`, `pause`, `resume`, `undo`; `fix_sequence`, `fix_reset`, `fix_resend`, `fix_logout`, `fix_kill`, `fix_enable`; `file`), `why`, `undo_of`?, `key`? (`key`, `digest`), `session`? (`name`, `before`, `after`: of a FIX session, without rows), `file`? (`added`, `changed`, `ended`: of a load of the budgets file, with the first 100 rows), `rows` |
//! | `ended` | `at_ms`, `ended`: `[{"id","fields","why"}]`; no fields: everything known of the budget. The file said something newer |
//! | `away` | `at_ms`, `ids`: budgets that the file, or their parents, no longer name; their edits wait for a day |
//! | `back` | `ids`: the file names them again; what waited is in force |
//! | `overlays` | by id, everything in force at this point: `{"edited":{field:{"value","said"}}}`, `{"created":{line}}`, or `{"away":{"since_ms","kept"}}` around one of these |
//!
//! A row is `{"id","outcome"?,"before"?,"after"?,"said"?,"revision"}`. Without `outcome` it changed; else it is `"unchanged"`, `"unknown"`,
//! `"exists"`, `{"handle_taken":{"handle","holder"}}`, `{"revision":{"found","expected"}}` or `{"field":"text"}`. `before` and `after` are the changed fields as in the budgets file. A
//! row without `before` is a new budget, one without `after` a removed one. `said` is what the file says of fields that differ; they hold as
//! long as it says so.
//!
//! ```text
//! a1b2c3d4 {"edit":{"record":12,"at_ms":1790000000000,"who":"ada","action":"set","why":"more room","rows":[{"id":17,"before":{"limit":"10"},
//! "after":{"limit":"12.50"},"said":{"limit":"10"},"revision":4294967301}]}}                                      (one line in the file)
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use disk::Mark;
use weir_config::private;

use super::entry::Entry;

/// Version of the format that is written; earlier ones are read.
pub(super) const FORMAT: u32 = 4;
/// Digits of a checksum, and the space behind it.
const SUM_LEN: usize = 9;

/// Why the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk.
    #[error("{path}: {source}; is the disk full, read-only or failing?")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line that is not the last.
    #[error(
        "{path}:{line}: {text}, and sound lines follow: the log of edits is damaged. Take the file from a backup; or delete \
         this line to go on without what it says, and look through GET /v1/audit afterwards"
    )]
    Damage {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault, as text.
        text: String,
    },
    /// The file beside it that says what of the log on other machines it has.
    #[error(transparent)]
    Mark(#[from] disk::Error),
    /// A newer program wrote it.
    #[error(
        "{path}: format {found}, expected 1 to {FORMAT}; start the version of weir that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its text.
        found: u32,
    },
}

/// The number of the messages of a log on other machines that the file has, in a file beside it.
const CARRIED: &str = "carried";

/// Why lines are not in the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotWritten {
    /// It is as it was before.
    #[error("{0}")]
    Nothing(String),
    /// The disk failed, and did so again when they were to be cut off: they may be in it after a restart.
    #[error("{0}")]
    Unsure(String),
}

/// The log, open at its end.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    len: u64,
    /// What stands behind `len` could not be cut off, or a log on other machines may have what is not here.
    failed: bool,
    /// How many messages of that log are here.
    carried: Mark,
}

/// An entry, and its line without checksum.
pub(super) type Written = (Entry, Box<str>);

impl Log {
    /// Opens the log in a folder, makes it where it is not there, and cuts off what a crash left half written.
    pub(super) fn open(folder: &Path) -> Result<(Log, Vec<Written>), LogError> {
        let path = folder.join("log");
        let failed = |source| LogError::Io { path: path.clone(), source };
        private::make_folder(folder).map_err(failed)?;
        let file = private::options().open(&path);
        let file = file.map_err(failed)?;
        sync_folder(folder).map_err(failed)?;
        let bytes = fs::read(&path).map_err(failed)?;
        let (entries, len) = read(&path, &bytes)?;
        let cut = bytes.len() - len;
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        if cut > 0 {
            tracing::warn!(
                file = %path.display(), offset = len, bytes = cut,
                "cut off what a crash left half written; it was never acknowledged"
            );
            file.set_len(len).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        let carried = Mark::open(&folder.join(CARRIED))?;
        Ok((Log { path: path.clone(), file, len, failed: false, carried }, entries))
    }

    /// Returns the folder it is in.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// What a log in a folder says, without touching it: a half-written end is left out. Nothing, where there is none.
    pub(super) fn look(folder: &Path) -> Result<Vec<Written>, LogError> {
        let path = folder.join("log");
        match fs::read(&path) {
            Ok(bytes) => Ok(read(&path, &bytes)?.0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(LogError::Io { path, source }),
        }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Writes lines to the end, all or none, and waits for the disk.
    ///
    /// # Errors
    /// The error of the operating system, and what became of the log.
    pub(super) fn append(&mut self, lines: &[&str]) -> Result<(), NotWritten> {
        self.check()?;
        let bytes = framed(lines);
        let written = self.file.write_all_at(&bytes, self.len).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.len = self.len.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                Ok(())
            }
            Err(error) => {
                let text = format!(
                    "{}: {error}; is the disk full, read-only or failing?",
                    self.path.display()
                );
                Err(match self.cut(self.len) {
                    Ok(()) => NotWritten::Nothing(text),
                    Err(again) => NotWritten::Unsure(format!("{text} {again}")),
                })
            }
        }
    }

    /// Is anything taken?
    ///
    /// # Errors
    /// Nothing is until a restart.
    pub(super) fn check(&self) -> Result<(), NotWritten> {
        let text = "the log of edits failed before; restart the node";
        if self.failed { Err(NotWritten::Nothing(text.into())) } else { Ok(()) }
    }

    /// Returns how many messages of a log on other machines are here.
    pub(super) fn carried(&self) -> u64 {
        self.carried.get()
    }

    /// Notes that one message more is here.
    pub(super) fn note_carried(&mut self) -> Result<(), disk::Error> {
        self.carried.set(self.carried.get() + 1)
    }

    /// Writes a line that a log on other machines has. Where that fails, the next start writes it.
    pub(super) fn append_carried(&mut self, line: &str) {
        let written = self.append(&[line]).map_err(|error| error.to_string());
        let noted = written.and_then(|()| self.note_carried().map_err(|error| error.to_string()));
        if let Err(error) = noted {
            tracing::error!(
                error,
                "a change is in the log on other machines, and not in the log of edits before the next start; no more edits until then"
            );
            self.failed = true;
        }
    }

    /// Takes nothing more: a log on other machines may have a line that is not here.
    pub(super) fn doubt(&mut self) {
        self.failed = true;
    }

    /// Takes back everything from `len` on.
    ///
    /// # Errors
    /// The error of the operating system: it may still be there after a restart, and the log takes nothing until then.
    pub(super) fn cut(&mut self, len: u64) -> Result<(), String> {
        let cut = self.file.set_len(len).and_then(|()| self.file.sync_all());
        self.len = len;
        cut.map_err(|error| {
            let file = self.path.display();
            tracing::error!(%error, %file, "the log of edits cannot be cut; no more edits until a restart");
            self.failed = true;
            format!("{file}: the partly written line cannot be cut off: {error}")
        })
    }

    /// Takes nothing any more, as after a disk that failed twice.
    #[cfg(test)]
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Replaces the file by one with these lines.
    pub(super) fn rewrite(&mut self, lines: &[&str]) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let bytes = framed(lines);
        let file = private::create(&new)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        (self.file, self.len) = (file, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.path.parent().map_or(Ok(()), sync_folder)
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn framed(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.len() + SUM_LEN + 1).sum());
    for line in lines {
        bytes.extend_from_slice(format!("{:08x} ", crc32c::crc32c(line.as_bytes())).as_bytes());
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// All entries, and how many bytes of the file they are.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<(Vec<Written>, usize), LogError> {
    let (mut entries, mut sound) = (Vec::new(), 0);
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match entry(line) {
            Ok((Entry::Head { format, .. }, _)) if !(1..=FORMAT).contains(&format) => {
                return Err(LogError::Format { path: path.into(), found: format });
            }
            Ok(read) => {
                entries.push(read);
                sound += line.len();
            }
            // A crash leaves one line half written, and nothing behind it.
            Err(_) if sound + line.len() == bytes.len() => break,
            Err(text) => {
                return Err(LogError::Damage { path: path.into(), line: number + 1, text });
            }
        }
    }
    Ok((entries, sound))
}

fn entry(line: &[u8]) -> Result<Written, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_string())?;
    let text = text.strip_suffix('\n').ok_or("no end of the line")?;
    let (sum, json) = text.split_once(' ').ok_or("no checksum")?;
    let found = u32::from_str_radix(sum, 16).map_err(|_| format!("checksum {sum:?}"))?;
    let expected = crc32c::crc32c(json.as_bytes());
    if found != expected {
        return Err(format!("checksum {found:08x}, expected {expected:08x}"));
    }
    Ok((entry_of(json)?, json.into()))
}

/// Reads a line without checksum.
pub(super) fn entry_of(json: &str) -> Result<Entry, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// The first line.
pub(super) fn head(next_record: u64) -> String {
    line(&Entry::Head { format: FORMAT, next_record })
}

/// A line of an entry.
pub(super) fn line(entry: &Entry) -> String {
    serde_json::to_string(entry).expect("maps with text keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(entries: &[Written]) -> Vec<u64> {
        let number = |(entry, _): &Written| match entry {
            Entry::Head { next_record, .. } => *next_record,
            other => panic!("{other:?}"),
        };
        entries.iter().map(number).collect()
    }

    #[test]
    fn what_is_appended_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, entries) = Log::open(folder.path()).unwrap();
        assert!(entries.is_empty());
        log.append(&[&head(1)]).unwrap();
        log.append(&[&head(2), &head(3)]).unwrap();
        let (mut log, entries) = Log::open(folder.path()).unwrap();
        assert_eq!(numbers(&entries), [1, 2, 3]);
        log.rewrite(&[&head(9)]).unwrap();
        log.append(&[&head(10)]).unwrap();
        assert_eq!(numbers(&Log::open(folder.path()).unwrap().1), [9, 10]);
        assert!(!folder.path().join("log.new").exists());
    }

    #[test]
    fn a_torn_end_is_cut_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(folder.path()).unwrap();
        log.append(&[&head(1)]).unwrap();
        let whole = usize::try_from(log.len()).unwrap();
        log.append(&[&head(2)]).unwrap();
        let bytes = fs::read(folder.path().join("log")).unwrap();
        for len in whole..bytes.len() {
            fs::write(folder.path().join("log"), &bytes[..len]).unwrap();
            let (mut log, entries) = Log::open(folder.path()).unwrap();
            assert_eq!(numbers(&entries), [1], "cut to {len}");
            log.append(&[&head(3)]).unwrap();
            assert_eq!(numbers(&Log::open(folder.path()).unwrap().1), [1, 3]);
        }
        // Sectors of it that never came are zeros.
        let mut zeros = bytes.clone();
        zeros[whole + 4..].fill(0);
        fs::write(folder.path().join("log"), &zeros).unwrap();
        assert_eq!(numbers(&Log::open(folder.path()).unwrap().1), [1]);
    }

    #[test]
    fn damage_before_the_end_is_refused_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(folder.path()).unwrap();
        log.append(&[&head(1), &head(2), &head(3)]).unwrap();
        let bytes = fs::read(folder.path().join("log")).unwrap();
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        for at in 0..=2 * first {
            let mut strange = bytes.clone();
            strange[at] ^= 1;
            fs::write(folder.path().join("log"), &strange).unwrap();
            let error = Log::open(folder.path()).unwrap_err();
            assert!(matches!(error, LogError::Damage { .. }), "byte {at}: {error}");
            assert!(error.to_string().contains("Take the file from a backup"), "{error}");
            assert_eq!(fs::read(folder.path().join("log")).unwrap(), strange, "nothing is changed");
        }
    }

    #[test]
    fn another_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, _) = Log::open(folder.path()).unwrap();
        log.append(&[&line(&Entry::Head { format: 5, next_record: 1 })]).unwrap();
        let error = Log::open(folder.path()).unwrap_err();
        assert!(matches!(error, LogError::Format { found: 5, .. }), "{error}");
    }

    #[test]
    fn a_full_disk_is_told_and_nothing_more_is_taken() {
        let file = File::options().read(true).write(true).open("/dev/full").unwrap();
        let carried = Mark::open("/dev/shm/none".as_ref()).unwrap();
        let mut log = Log { path: "/dev/full".into(), file, len: 0, failed: false, carried };
        // A device cannot be cut either.
        let NotWritten::Unsure(error) = log.append(&[&head(1)]).unwrap_err() else { panic!() };
        assert!(error.contains("/dev/full: No space left"), "{error}");
        assert!(error.contains("cannot be cut off"), "{error}");
        let NotWritten::Nothing(error) = log.append(&[&head(1)]).unwrap_err() else { panic!() };
        assert!(error.contains("restart"), "{error}");
    }
}
