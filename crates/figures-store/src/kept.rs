//! Files of cells whose hours are over: each is written once, and goes when all its hours are too old.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use disk::{DiskFile, Error};
use figures::{CellId, Kept, Total, read_cells, write_cells};

const PREFIX: &str = "cells-";

fn path(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{sequence}"))
}

/// Writes a file of these cells, which come in order, and are those that figures had when they stood at this sequence. It is on the disk when
/// this returns.
///
/// # Errors
/// The disk refuses.
pub(crate) fn write(
    folder: &Path,
    sequence: u64,
    cells: &[(CellId, Total)],
) -> Result<Kept, Error> {
    let bytes = write_cells(cells);
    disk::replace(&folder.join("cells.new"), &path(folder, sequence), &bytes)?;
    let hour = |cell: Option<&(CellId, Total)>| cell.map_or(0, |((hour, ..), _)| *hour);
    let (first, last) = (hour(cells.first()), hour(cells.last()));
    let sum = crc32c::crc32c(&bytes);
    Ok(Kept { sequence, first, last, bytes: bytes.len() as u64, sum })
}

/// Removes all files of cells but these: a crash leaves one that nothing tells of, and some that were retired.
pub(crate) fn remove_others(folder: &Path, kept: &[Kept]) {
    let kept: BTreeSet<u64> = kept.iter().map(|kept| kept.sequence).collect();
    for name in disk::names(folder).unwrap_or_default() {
        let sequence = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
        if sequence.is_some_and(|sequence: u64| !kept.contains(&sequence)) {
            disk::remove(&folder.join(name));
        }
    }
}

/// Why a file cannot be read.
pub(crate) enum Unread {
    /// It was retired meanwhile, or never was.
    Gone,
    /// Something else.
    Because(String),
}

/// Hands on the cells of a file.
pub(crate) fn read(
    folder: &Path,
    kept: &Kept,
    each: &mut dyn FnMut(CellId, Total),
) -> Result<(), Unread> {
    let path = path(folder, kept.sequence);
    let because =
        |why: &dyn std::fmt::Display| Unread::Because(format!("{}: {why}", path.display()));
    let file = DiskFile::read_if_there(&path).map_err(|error| because(&error))?;
    let bytes = file.ok_or(Unread::Gone)?.read_all().map_err(|error| because(&error))?;
    if bytes.len() as u64 != kept.bytes || crc32c::crc32c(&bytes) != kept.sum {
        return Err(because(&"damaged: it is not as it was written"));
    }
    read_cells(&bytes, each).map_err(|error| because(&error))
}
