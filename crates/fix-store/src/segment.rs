//! Segments: files of messages.

use std::path::{Path, PathBuf};

use disk::DiskFile;

use crate::OpenError;
use crate::record::{RECORD_BYTES, Record, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"WEIRFIXM";
/// Length of a segment's head.
pub(crate) const HEAD_BYTES: u64 = 64;
/// The most characters of a session's name.
const NAME_MAX: usize = 80;
/// What the name of a book has behind that of its session.
const BOOK: &str = "\x01book";

/// A segment of a session, as the session knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// MsgSeqNum of the next message to send when it began.
    pub(crate) next_out: u64,
    /// When it began, microseconds since 1970-01-01T00:00:00Z.
    pub(crate) at_us: i64,
    /// Where its messages end.
    pub(crate) end: u64,
}

impl Segment {
    /// The bytes that a segment begins with.
    pub(crate) fn head(&self) -> [u8; 64] {
        let mut head = [0; 64];
        head[..8].copy_from_slice(MAGIC);
        head[8..16].copy_from_slice(&self.number.to_le_bytes());
        head[16..24].copy_from_slice(&self.next_out.to_le_bytes());
        head[24..32].copy_from_slice(&self.at_us.to_le_bytes());
        let sum = crc32c::crc32c(&head[..32]);
        head[32..36].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Reads the head of a file; `None` if it is damaged, another segment's or none. The segment ends where the file does.
    pub(crate) fn read(file: &DiskFile, number: u64) -> Option<Segment> {
        let mut head = [0; 64];
        file.read_at(&mut head, 0).ok()?;
        let sound = head.starts_with(MAGIC)
            && u64_at(&head, 8) == number
            && u32_at(&head, 32) == crc32c::crc32c(&head[..32]);
        let end = file.len().ok()?;
        let (next_out, at_us) = (u64_at(&head, 16), u64_at(&head, 24).cast_signed());
        sound.then_some(Segment { number, next_out, at_us, end })
    }
}

/// The file of a segment.
pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.fix"))
}

/// The numbers of the segments in a folder, ascending.
pub(crate) fn numbers(folder: &Path) -> Result<Vec<u64>, OpenError> {
    let names = disk::names(folder)?;
    let numbers = names.iter().filter_map(|name| name.strip_suffix(".fix")?.parse().ok());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The folder of a session: its name with other bytes than letters, digits, `-` and `_` as `%` and two digits.
pub(crate) fn folder_name(name: &str) -> Result<String, OpenError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(OpenError::Name { name: name.to_owned() });
    }
    let mut folder = "s-".to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => folder.push(char::from(byte)),
            _ => folder.push_str(&format!("%{byte:02x}")),
        }
    }
    Ok(folder)
}

/// The folder of what numbers are kept of under a name: a session or a book.
pub(crate) fn folder_of(name: &str) -> Result<String, OpenError> {
    match name.strip_suffix(BOOK) {
        Some(session) => Ok(folder_name(session)?.replacen("s-", "b-", 1)),
        None => folder_name(name),
    }
}

/// Under which name the numbers of a session's book are kept.
pub(crate) fn book_name(session: &str) -> String {
    format!("{session}{BOOK}")
}

/// The session whose folder has a name; `None` if it is no session's.
pub(crate) fn session_name(folder: &str) -> Option<String> {
    let mut rest = folder.strip_prefix("s-")?.as_bytes();
    let mut name = Vec::new();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = rest.split_first_chunk::<2>()?;
            name.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            name.push(*byte);
        }
    }
    String::from_utf8(name).ok()
}

/// Reads a segment from front to back, a part at a time.
#[derive(Debug)]
pub(crate) struct Pages {
    file: DiskFile,
    /// Bytes of the file from `at` on.
    page: Vec<u8>,
    at: u64,
    end: u64,
    /// What belongs behind the bytes of the file, and is not there yet.
    tail: Vec<u8>,
}

/// How much is read at a time.
pub(crate) const PAGE_BYTES: u64 = 16 << 10;

impl Pages {
    /// Reads a file up to a place.
    pub(crate) fn new(file: DiskFile, end: u64) -> Pages {
        Pages::with_tail(file, end, Vec::new())
    }

    /// Reads a file up to a place, and then the bytes that belong there.
    pub(crate) fn with_tail(file: DiskFile, file_end: u64, tail: Vec<u8>) -> Pages {
        Pages { file, page: Vec::new(), at: 0, end: file_end + tail.len() as u64, tail }
    }

    /// Says that the file ends later than it did.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = end;
    }

    /// The record at a place; `None` at the end and where there is none.
    pub(crate) fn record(&mut self, at: u64) -> Option<Record> {
        let head = self.bytes(at, RECORD_BYTES as u64)?.first_chunk()?;
        let record = Record::read(head)?;
        (at + record.len() <= self.end).then_some(record)
    }

    /// The message of the record at a place; `None` if it is damaged.
    pub(crate) fn message(&mut self, at: u64, record: &Record) -> Option<&[u8]> {
        let message = self.bytes(at + RECORD_BYTES as u64, u64::from(record.bytes))?;
        record.is_of(message).then_some(message)
    }

    fn bytes(&mut self, at: u64, length: u64) -> Option<&[u8]> {
        if at + length > self.end {
            return None;
        }
        let page_end = self.at + self.page.len() as u64;
        if at < self.at || at + length > page_end {
            let wanted = length.max(PAGE_BYTES).min(self.end - at);
            self.page.resize(usize::try_from(wanted).ok()?, 0);
            self.at = at;
            if self.fill().is_none() {
                self.page.clear();
                return None;
            }
        }
        let from = usize::try_from(at - self.at).ok()?;
        self.page.get(from..from + usize::try_from(length).ok()?)
    }

    /// Fills the page: what the file has of it, and the rest from the tail.
    fn fill(&mut self) -> Option<()> {
        let file_end = self.end - self.tail.len() as u64;
        let of_file = usize::try_from(file_end.saturating_sub(self.at)).ok()?;
        let of_file = of_file.min(self.page.len());
        let (front, rest) = self.page.split_at_mut(of_file);
        if !front.is_empty() {
            self.file.read_at(front, self.at).ok()?;
        }
        let from = usize::try_from((self.at + front.len() as u64).saturating_sub(file_end)).ok()?;
        rest.copy_from_slice(self.tail.get(from..from + rest.len())?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_has_a_folder_of_its_own() {
        for name in ["CLIENT1", "a/b", "..", "s-x", "%41", "ä b"] {
            let folder = folder_name(name).unwrap();
            assert!(!folder.contains(['/', '.']), "{folder}");
            assert_eq!(session_name(&folder).as_deref(), Some(name));
        }
        for name in [String::new(), "x".repeat(81)] {
            assert!(folder_name(&name).unwrap_err().to_string().contains("80 characters"));
        }
    }
}
