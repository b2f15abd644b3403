//! Everything that was said, for tools and pages.

use std::ops::ControlFlow;
use std::path::Path;

use disk::DiskFile;

use crate::OpenError;
use crate::memo::{Memo, Place};
use crate::numbers::{self, Late};
use crate::record::Kind;
use crate::segment::{self, HEAD_BYTES, Pages, Segment};

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// A message as it was kept; `None` for its bytes says that they are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<'k> {
    /// When, microseconds since 1970-01-01T00:00:00Z.
    pub at_us: i64,
    /// Which way.
    pub direction: Direction,
    /// The message, with `***` in place of passwords.
    pub message: Option<&'k [u8]>,
    /// Where the next one begins.
    pub next: Place,
}

/// Returns the names of the sessions that a folder has messages of, ascending.
///
/// # Errors
/// [`OpenError`] if the system refuses.
pub fn session_names(root: &Path) -> Result<Vec<String>, OpenError> {
    let names = disk::names(root)?;
    let mut names: Vec<String> =
        names.iter().filter_map(|name| segment::session_name(name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns what is known of every session of a folder, by name, as the last flush left it, without touching it. It may run beside the process
/// that writes.
///
/// # Errors
/// [`OpenError`] if the system refuses, or something else wrote the file.
pub fn read_memos(root: &Path) -> Result<Vec<(String, Memo)>, OpenError> {
    let memos = numbers::look(root)?.into_iter();
    // Books stand under names that no session has.
    Ok(memos.filter(|(name, _)| !name.contains('\x01')).collect())
}

/// Returns when a session's last message from its peer and the last one to it were kept, microseconds since 1970-01-01T00:00:00Z.
///
/// # Errors
/// [`OpenError`] if the system refuses.
pub fn last_times(root: &Path, session: &str) -> Result<[Option<i64>; 2], OpenError> {
    let mut times = [None; 2];
    let folder = root.join(segment::folder_name(session)?);
    let late = numbers::late(root, session)?;
    let numbers = if folder.exists() { segment::numbers(&folder)? } else { Vec::new() };
    for number in numbers.into_iter().rev() {
        let mut found = [None; 2];
        let from = Place { segment: number, offset: HEAD_BYTES };
        read_with(&late, &folder, from, i64::MIN, |kept| {
            if kept.next.segment > number {
                return ControlFlow::Break(());
            }
            found[usize::from(kept.direction == Direction::Out)] = Some(kept.at_us);
            ControlFlow::Continue(())
        })?;
        for (time, found) in times.iter_mut().zip(found) {
            *time = time.or(found);
        }
        if times.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(times)
}

/// Hands each message of a session to `each`, in the order in which they were kept, until that breaks. It may run beside the process that
/// writes, and may then see messages that are about to count.
///
/// # Errors
/// [`OpenError`] if the system refuses; a folder without messages is no error.
pub fn read_history(
    root: &Path,
    session: &str,
    each: impl FnMut(Kept<'_>) -> ControlFlow<()>,
) -> Result<(), OpenError> {
    read_history_from(root, session, Place::default(), i64::MIN, each)
}

/// The same, from a place on (of [`Kept::next`]) and without what was kept before a time, microseconds since 1970-01-01T00:00:00Z. Whole
/// segments are passed over by the time at which the next one began. A place that is none ends its segment.
///
/// # Errors
/// As [`read_history`].
pub fn read_history_from(
    root: &Path,
    session: &str,
    from: Place,
    from_us: i64,
    each: impl FnMut(Kept<'_>) -> ControlFlow<()>,
) -> Result<(), OpenError> {
    let folder = root.join(segment::folder_name(session)?);
    // Before the segments: what goes from there to here meanwhile is in both.
    let late = numbers::late(root, session)?;
    read_with(&late, &folder, from, from_us, each)
}

/// The records that belong behind a segment whose file ends there.
fn tail_of(segment: &Segment, late: &[Late]) -> Vec<u8> {
    let mut tail = Vec::new();
    for Late { place, records, .. } in late.iter().filter(|one| one.place.segment == segment.number)
    {
        let end = segment.end + tail.len() as u64;
        let there = end.checked_sub(place.offset).and_then(|bytes| usize::try_from(bytes).ok());
        tail.extend_from_slice(there.and_then(|bytes| records.get(bytes..)).unwrap_or_default());
    }
    tail
}

fn read_with(
    late: &[Late],
    folder: &Path,
    from: Place,
    from_us: i64,
    mut each: impl FnMut(Kept<'_>) -> ControlFlow<()>,
) -> Result<(), OpenError> {
    if !folder.exists() {
        return Ok(());
    }
    let mut numbers = segment::numbers(folder)?;
    numbers.retain(|number| *number >= from.segment);
    let read = |number: u64| -> Result<Option<(DiskFile, Segment)>, OpenError> {
        // Retention may have removed it meanwhile.
        let path = segment::path(folder, number);
        let file = match DiskFile::read(&path) {
            Err(_) if !path.exists() => return Ok(None),
            file => file?,
        };
        let segment = Segment::read(&file, number);
        Ok(segment.map(|segment| (file, segment)))
    };
    for (at, number) in numbers.iter().copied().enumerate() {
        // What a newer segment begins with is younger than everything in this one.
        if let Some(newer) = numbers.get(at + 1)
            && read(*newer)?.is_some_and(|(_, newer)| newer.at_us < from_us)
        {
            continue;
        }
        let Some((file, segment)) = read(number)? else { continue };
        let tail = tail_of(&segment, late);
        let end = segment.end + tail.len() as u64;
        let begin = if number == from.segment { from.offset.min(end) } else { 0 };
        let mut pages = Pages::with_tail(file, segment.end, tail);
        let mut at = begin.max(HEAD_BYTES);
        while let Some(record) = pages.record(at) {
            let next = Place { segment: number, offset: at + record.len() };
            if record.at_us < from_us {
                at = next.offset;
                continue;
            }
            let direction = match record.kind {
                Kind::Sent => Direction::Out,
                Kind::Received => Direction::In,
            };
            let message = pages.message(at, &record);
            if each(Kept { at_us: record.at_us, direction, message, next }).is_break() {
                return Ok(());
            }
            at = next.offset;
        }
    }
    Ok(())
}
