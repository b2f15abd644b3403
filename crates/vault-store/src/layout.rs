//! The bytes of a file of keys.

const MAGIC: &[u8; 8] = b"WEIRKEYS";
/// The version that is written and read.
pub(crate) const VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;
const RECORD_HEAD_BYTES: usize = 8;
/// What every record of the vault begins with: its format. A stretch of bytes that begins otherwise is not summed when whole records are
/// looked for behind a bad one.
const RECORD_FORMAT: u8 = 1;

/// Returns the bytes of a file with these records.
pub(crate) fn file(records: impl Iterator<Item = Vec<u8>>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    for record in records {
        append_record(&mut bytes, &record)?;
    }
    Some(bytes)
}

/// Appends a record; `None` if it is empty or has 4 GiB.
pub(crate) fn append_record(to: &mut Vec<u8>, record: &[u8]) -> Option<()> {
    let length = u32::try_from(record.len()).ok().filter(|length| *length > 0)?.to_le_bytes();
    to.extend_from_slice(&length);
    to.extend_from_slice(&sum(length, record).to_le_bytes());
    to.extend_from_slice(record);
    Some(())
}

/// The sum covers the length, so that zeros are no record.
fn sum(length: [u8; 4], record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), record)
}

/// What a file has.
#[derive(Debug, PartialEq)]
pub(crate) enum Found<'b> {
    /// It is none of ours.
    Foreign,
    /// A later version wrote it.
    Later(u32),
    /// The head, or a record with a whole one behind it, is damaged: where it begins.
    Damaged(usize),
    /// Records and where each begins, and where they end. What follows is what a crash left.
    Records(Vec<(usize, &'b [u8])>, usize),
}

/// Reads a file.
pub(crate) fn read(bytes: &[u8]) -> Found<'_> {
    if !bytes.starts_with(MAGIC) {
        return Found::Foreign;
    }
    let summed = bytes.get(..12).map(crc32c::crc32c);
    if summed.is_none() || u32_at(bytes, 12) != summed {
        return Found::Damaged(0);
    }
    match u32_at(bytes, 8) {
        Some(VERSION) => {}
        other => return Found::Later(other.unwrap_or_default()),
    }
    let (mut records, mut at) = (Vec::new(), HEAD_BYTES);
    while let Some(record) = record_at(bytes, at) {
        records.push((at, record));
        at += RECORD_HEAD_BYTES + record.len();
    }
    let is_inside = (at + 1..bytes.len()).any(|later| {
        bytes.get(later + RECORD_HEAD_BYTES) == Some(&RECORD_FORMAT)
            && record_at(bytes, later).is_some()
    });
    if is_inside { Found::Damaged(at) } else { Found::Records(records, at) }
}

/// The record at a place, if a whole one is there.
fn record_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let length = u32_at(bytes, at).filter(|length| *length > 0)?;
    let from = at + RECORD_HEAD_BYTES;
    let record = bytes.get(from..from.checked_add(usize::try_from(length).ok()?)?)?;
    (u32_at(bytes, at + 4) == Some(sum(length.to_le_bytes(), record))).then_some(record)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|found| u32::from_le_bytes(*found))
}
