//! Everything that was said, for tools and pages.

use std::ops::ControlFlow;
use std::path::Path;

use crate::OpenError;
use crate::disk::{self, DiskFile};
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

/// Hands each message of a session to `each`, in the order in which they were kept, until that breaks. It may run beside the process that
/// writes, and may then see messages that are about to count.
///
/// # Errors
/// [`OpenError`] if the system refuses; a folder without messages is no error.
pub fn read_history(
    root: &Path,
    session: &str,
    mut each: impl FnMut(Kept<'_>) -> ControlFlow<()>,
) -> Result<(), OpenError> {
    let folder = root.join(segment::folder_name(session)?);
    if !folder.exists() {
        return Ok(());
    }
    for number in segment::numbers(&folder)? {
        let file = DiskFile::read(&segment::path(&folder, number))?;
        let Some(Segment { end, .. }) = Segment::read(&file, number) else { continue };
        let (mut pages, mut at) = (Pages::new(file, end), HEAD_BYTES);
        while let Some(record) = pages.record(at) {
            let direction = match record.kind {
                Kind::Sent => Direction::Out,
                Kind::Received => Direction::In,
            };
            let message = pages.message(at, &record);
            if each(Kept { at_us: record.at_us, direction, message }).is_break() {
                return Ok(());
            }
            at += record.len();
        }
    }
    Ok(())
}
