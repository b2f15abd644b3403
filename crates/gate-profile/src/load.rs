//! Bulk load of segments from a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::SEGMENTS_MAX;
use crate::error::{LoadError, UpdateError};
use crate::key::{segment_key, user_key};
use crate::profiles::Profiles;
use crate::shared::Edit;

/// Longest line, bytes.
const LINE_BYTES_MAX: usize = 65_536;
/// Lines that become one change of the store.
const CHUNK_LINES: u64 = 16_384;
/// Line numbers that are kept for each reason.
const FIRST_MAX: usize = 20;

/// What a line means for the segments that its user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are added.
    Add,
    /// They replace what was there; of several lines of a user the last one holds.
    Replace,
}

/// Why a line was refused; the others are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BadLine {
    /// It is not UTF-8.
    NotUtf8,
    /// It is longer than 65,536 bytes.
    TooLong,
    /// Nothing stands before the first comma.
    NoUser,
    /// After `#` stands no number of 1 to 16 hexadecimal digits.
    BadKey,
    /// Nothing follows the user.
    NoSegments,
    /// Nothing stands between two commas.
    EmptySegment,
    /// More than 255, in the line or together with what the user has.
    TooManySegments,
    /// The file ends within it: no line feed follows, so it may be cut.
    NoEnd,
}

/// How far a load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Lines read.
    pub lines: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of the file.
    pub bytes_total: u64,
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines of the file.
    pub lines: u64,
    /// Lines that are loaded.
    pub accepted: u64,
    /// Lines with nothing on them.
    pub blank: u64,
    /// Changes of a user; one whose lines are far apart counts more than once.
    pub users: u64,
    /// Refused lines by reason.
    pub rejected: BTreeMap<BadLine, Rejected>,
}

/// Lines refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// How many.
    pub lines: u64,
    /// The numbers of the first 20, from 1.
    pub first: Vec<u64>,
}

/// Loads `user,segment[,segment...]` lines. A user is an id as text (see [`user_key`]) or `#` and the
/// key in hexadecimal digits; a segment is its name (see [`segment_key`]). Blanks around either do not
/// count, there are no quotes, empty lines are passed over.
///
/// `progress` is called after every 16,384 lines, which are in the store by then, and at the end.
/// Workers go on meanwhile.
///
/// # Errors
/// [`LoadError`] when file or store fail; refused lines are no error, they are in the [`Summary`].
pub fn load_segments(
    path: &Path,
    profiles: &Profiles,
    mode: Mode,
    mut progress: impl FnMut(Progress),
) -> Result<Summary, LoadError> {
    let file_error = |source| LoadError::File { path: path.into(), source };
    let file = File::open(path).map_err(file_error)?;
    let bytes_total = file.metadata().map_err(file_error)?.len();
    let mut lines = Lines { reader: BufReader::with_capacity(1 << 18, file), line: Vec::new() };
    let mut load = Load { mode, chunk: BTreeMap::new(), summary: Summary::default() };
    let mut at = Progress { bytes_total, ..Progress::default() };
    while let Some(ReadLine { text, bytes, ends }) = lines.next().map_err(file_error)? {
        at.lines += 1;
        at.bytes += bytes;
        match ends {
            true => load.line(at.lines, text),
            false => load.summary.reject(BadLine::NoEnd, at.lines),
        }
        if at.lines.is_multiple_of(CHUNK_LINES) {
            load.store(profiles)?;
            progress(at);
        }
    }
    load.store(profiles)?;
    progress(at);
    load.summary.lines = at.lines;
    Ok(load.summary)
}

/// One that is too long is cut.
struct ReadLine<'l> {
    text: &'l [u8],
    /// That it took in the file.
    bytes: u64,
    /// A line feed stands behind it.
    ends: bool,
}

/// The lines of a file.
struct Lines<R> {
    reader: R,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> io::Result<Option<ReadLine<'_>>> {
        self.line.clear();
        let wanted = LINE_BYTES_MAX as u64 + 2;
        let mut bytes = self.reader.by_ref().take(wanted).read_until(b'\n', &mut self.line)? as u64;
        let mut ends = self.line.ends_with(b"\n");
        if bytes == wanted && !ends {
            bytes += self.reader.skip_until(b'\n')? as u64;
            // It is refused for its length.
            ends = true;
        }
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok((bytes > 0).then_some(ReadLine { text, bytes, ends }))
    }
}

struct Load {
    mode: Mode,
    /// A user's segments, and the lines they are from.
    chunk: BTreeMap<u64, (Vec<u32>, Vec<u64>)>,
    summary: Summary,
}

impl Load {
    fn line(&mut self, number: u64, line: &[u8]) {
        match parse(line) {
            Ok(None) => self.summary.blank += 1,
            Ok(Some((user, ids))) => {
                let (segments, lines) = self.chunk.entry(user).or_default();
                if self.mode == Mode::Replace {
                    segments.clear();
                }
                segments.extend(ids);
                lines.push(number);
            }
            Err(why) => self.summary.reject(why, number),
        }
    }

    fn store(&mut self, profiles: &Profiles) -> Result<(), LoadError> {
        let chunk = std::mem::take(&mut self.chunk);
        let edits = chunk.iter().map(|(&user, (segments, _))| match self.mode {
            Mode::Add => (user, Edit::Add(segments)),
            Mode::Replace => (user, Edit::Set(segments)),
        });
        let mut refused = Vec::new();
        let too_many = |user, _found| {
            refused.push(user);
            Ok(())
        };
        match profiles.shared().update(edits, too_many) {
            Ok(()) | Err(UpdateError::TooMany { .. }) => {}
            Err(UpdateError::Store(error)) => return Err(error.into()),
        }
        for (user, (_, lines)) in &chunk {
            if refused.binary_search(user).is_ok() {
                lines.iter().for_each(|&line| self.summary.reject(BadLine::TooManySegments, line));
            } else {
                self.summary.accepted += lines.len() as u64;
                self.summary.users += 1;
            }
        }
        Ok(())
    }
}

impl Summary {
    fn reject(&mut self, why: BadLine, line: u64) {
        let rejected = self.rejected.entry(why).or_default();
        rejected.lines += 1;
        if rejected.first.len() < FIRST_MAX {
            rejected.first.push(line);
        }
    }
}

fn parse(line: &[u8]) -> Result<Option<(u64, Vec<u32>)>, BadLine> {
    if line.len() > LINE_BYTES_MAX {
        return Err(BadLine::TooLong);
    }
    let line = std::str::from_utf8(line).map_err(|_| BadLine::NotUtf8)?.trim();
    if line.is_empty() {
        return Ok(None);
    }
    let (user, segments) = line.split_once(',').ok_or(BadLine::NoSegments)?;
    let user = parse_user(user.trim())?;
    if segments.trim().is_empty() {
        return Err(BadLine::NoSegments);
    }
    let mut ids = Vec::new();
    for segment in segments.split(',').map(str::trim) {
        if segment.is_empty() {
            return Err(BadLine::EmptySegment);
        }
        ids.push(segment_key(segment));
    }
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > SEGMENTS_MAX {
        return Err(BadLine::TooManySegments);
    }
    Ok(Some((user, ids)))
}

fn parse_user(user: &str) -> Result<u64, BadLine> {
    if user.is_empty() {
        return Err(BadLine::NoUser);
    }
    let Some(digits) = user.strip_prefix('#') else { return Ok(user_key(user)) };
    let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = u64::from_str_radix(digits, 16).ok().filter(|_| hex && digits.len() <= 16);
    key.ok_or(BadLine::BadKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_refused_with_the_reason() {
        let sorted = |names: &[&str]| {
            let mut ids: Vec<u32> = names.iter().map(|name| segment_key(name)).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(parse(b" u1 , b ,a,b\r"), Ok(Some((user_key("u1"), sorted(&["a", "b"])))));
        assert_eq!(parse(b"#fF,a"), Ok(Some((255, sorted(&["a"])))));
        assert_eq!(parse(b"#0,a"), Ok(Some((0, sorted(&["a"])))));
        assert_eq!(parse(b"  \r"), Ok(None));
        for (line, why) in [
            (&b"\xff,a"[..], BadLine::NotUtf8),
            (b",a", BadLine::NoUser),
            (b"u", BadLine::NoSegments),
            (b"u, ", BadLine::NoSegments),
            (b"u,a,,b", BadLine::EmptySegment),
            (b"#,a", BadLine::BadKey),
            (b"#+1,a", BadLine::BadKey),
            (b"#00000000000000001,a", BadLine::BadKey),
        ] {
            assert_eq!(parse(line), Err(why), "{}", line.escape_ascii());
        }
        assert_eq!(parse(&vec![b'a'; LINE_BYTES_MAX + 1]), Err(BadLine::TooLong));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_whole() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!("a,b\n{long}\nc,d");
        let mut lines = Lines { reader: text.as_bytes(), line: Vec::new() };
        let mut seen = Vec::new();
        let mut total = 0;
        while let Some(ReadLine { text: line, bytes, .. }) = lines.next().unwrap() {
            seen.push(line.len());
            total += bytes;
        }
        assert_eq!(seen, [3, LINE_BYTES_MAX + 2, 3]);
        assert_eq!(total, text.len() as u64);
    }
}
