//! Segments: where batches are appended. A header, then one block per batch and window:
//!
//! ```text
//!  0         4         8                16
//!  +---------+---------+----------------+-------------------------------
//!  | CRC     | count   | seq            | count x record, as they came
//!  | u32     | u32     | u64            |
//!  +---------+---------+----------------+-------------------------------
//! ```
//!
//! The CRC covers the segment's number (u64) and the block from byte 4 on, so a block of another file does not fit. The count
//! is 1 to 65,536. `seq` is the number of the newest record of the batch, over all records that the store ever took.
//!
//! A block carries its checksum, so the first one that does not fit is where the file ends: a torn tail.

use std::path::{Path, PathBuf};

use disk::DiskFile;

use crate::format::{
    HEADER_BYTES, Header, SEGMENT_MAGIC, get_u32, get_u64, narrow, put_u32, put_u64, wide,
};
use crate::{Record, StoreError};

/// Bytes before the records of a block: checksum, count, number of the newest record.
const BLOCK_HEADER_BYTES: usize = 16;
/// Records of one block at most: a batch with more becomes several blocks.
const BLOCK_RECORDS_MAX: usize = 65_536;

/// Everything that the manifest knows of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentMeta {
    pub(crate) number: u64,
    pub(crate) window_ms: u64,
    /// Its length, once nothing more is written to it and all of it is on disk.
    pub(crate) closed_bytes: Option<u64>,
}

impl SegmentMeta {
    pub(crate) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{:012}.seg", self.number))
    }

    fn header(&self) -> Header {
        Header { number: self.number, window_ms: self.window_ms }
    }
}

/// A segment that is not sealed yet.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) meta: SegmentMeta,
    /// When it was made: nothing in it was appended before. 0 if an earlier process made it.
    pub(crate) opened_ms: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) seq_max: u64,
    pub(crate) time_max_ms: u64,
    file: DiskFile,
    /// Bytes of it may not be on disk yet.
    unsynced: bool,
}

impl Segment {
    /// Makes the file; its header is on disk when this returns.
    pub(crate) fn create<R: Record>(
        folder: &Path,
        number: u64,
        window_ms: u64,
        now_ms: u64,
    ) -> Result<Segment, StoreError> {
        let meta = SegmentMeta { number, window_ms, closed_bytes: None };
        let file = DiskFile::create(&meta.path(folder))?;
        file.write_at(&meta.header().encode::<R>(SEGMENT_MAGIC), 0)?;
        file.sync()?;
        Ok(Segment { opened_ms: now_ms, ..Segment::empty(meta, file) })
    }

    fn empty(meta: SegmentMeta, file: DiskFile) -> Segment {
        let bytes = wide(HEADER_BYTES);
        Segment {
            meta,
            opened_ms: 0,
            bytes,
            records: 0,
            seq_max: 0,
            time_max_ms: 0,
            file,
            unsynced: false,
        }
    }

    /// Appends the blocks that [`encode`] made of `records` with one write. On an error the file is as before;
    /// if even that fails, `in_doubt` is set.
    pub(crate) fn append<R: Record>(
        &mut self,
        blocks: &[u8],
        records: &[R],
        seq_max: u64,
        in_doubt: &mut bool,
    ) -> Result<(), StoreError> {
        if let Err(error) = self.file.write_at(blocks, self.bytes) {
            *in_doubt |= self.file.truncate(self.bytes).is_err();
            return Err(error.into());
        }
        self.bytes += wide(blocks.len());
        self.unsynced = true;
        self.count(records.iter(), seq_max);
        Ok(())
    }

    fn count<'a, R: Record>(&mut self, records: impl Iterator<Item = &'a R>, seq_max: u64) {
        for record in records {
            self.records += 1;
            self.time_max_ms = self.time_max_ms.max(record.time_ms());
        }
        self.seq_max = self.seq_max.max(seq_max);
    }

    /// Waits until all of it is on disk.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if self.unsynced {
            self.file.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Nothing more will be written to it.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.meta.closed_bytes = Some(self.bytes);
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.meta.closed_bytes.is_some()
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Opens a segment that an earlier process wrote, cuts its torn tail and closes it. Also says how many
    /// bytes were cut.
    pub(crate) fn recover<R: Record>(
        folder: &Path,
        meta: SegmentMeta,
    ) -> Result<(Segment, u64), StoreError> {
        let mut segment = Segment::empty(meta, DiskFile::open(&meta.path(folder))?);
        let bytes = segment.read_bytes::<R>()?;
        let sound = walk::<R>(&bytes, meta.number, |records, seq| {
            let decoded: Vec<R> = records.chunks_exact(R::BYTES).map(R::from_bytes).collect();
            segment.count(decoded.iter(), seq);
        });
        segment.bytes = wide(sound);
        if let Some(closed_bytes) = meta.closed_bytes
            && closed_bytes != segment.bytes
        {
            let what =
                format!("its sound blocks end here, it was closed with {closed_bytes} bytes");
            return Err(StoreError::damaged(segment.path(), segment.bytes, what));
        }
        let cut_bytes = wide(bytes.len() - sound);
        if cut_bytes > 0 {
            segment.file.truncate(segment.bytes)?;
        }
        // The process that wrote it may have ended before it synced.
        segment.unsynced = true;
        segment.close()?;
        Ok((segment, cut_bytes))
    }

    /// All its records, in the order in which they were appended.
    pub(crate) fn read<R: Record>(&self) -> Result<Vec<R>, StoreError> {
        let bytes = self.read_bytes::<R>()?;
        let mut all = Vec::with_capacity(narrow(self.records));
        let sound = walk::<R>(&bytes, self.meta.number, |records, _| {
            all.extend(records.chunks_exact(R::BYTES).map(R::from_bytes));
        });
        if wide(sound) < self.bytes {
            let what = format!("its sound blocks end here, {} bytes were written", self.bytes);
            return Err(StoreError::damaged(self.path(), wide(sound), what));
        }
        Ok(all)
    }

    fn read_bytes<R: Record>(&self) -> Result<Vec<u8>, StoreError> {
        let bytes = self.file.read_all()?;
        let Some(header) = bytes.first_chunk() else {
            return Err(StoreError::damaged(self.path(), 0, "it is shorter than its header"));
        };
        self.meta.header().check::<R>(SEGMENT_MAGIC, header, self.path())?;
        Ok(bytes)
    }
}

/// Adds `records` as blocks of segment `number` to `out`.
pub(crate) fn encode<R: Record>(out: &mut Vec<u8>, number: u64, seq_max: u64, records: &[R]) {
    for records in records.chunks(BLOCK_RECORDS_MAX) {
        let start = out.len();
        out.resize(start + BLOCK_HEADER_BYTES + records.len() * R::BYTES, 0);
        let block = &mut out[start..];
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        put_u32(block, 4, count);
        put_u64(block, 8, seq_max);
        let slots = block[BLOCK_HEADER_BYTES..].chunks_exact_mut(R::BYTES);
        slots.zip(records).for_each(|(slot, record)| record.to_bytes(slot));
        let crc = block_crc(number, block);
        put_u32(block, 0, crc);
    }
}

/// The number of the segment is part of it: a block of another file that the disk gives back does not fit.
fn block_crc(number: u64, block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &block[4..])
}

/// Visits the sound blocks from the front, with the bytes of their records and the number of the newest one; says
/// where they end.
fn walk<R: Record>(bytes: &[u8], number: u64, mut each: impl FnMut(&[u8], u64)) -> usize {
    let mut at = HEADER_BYTES;
    while let Some(block) = block_at::<R>(bytes, at, number) {
        each(&block[BLOCK_HEADER_BYTES..], get_u64(block, 8));
        at += block.len();
    }
    at
}

fn block_at<R: Record>(bytes: &[u8], at: usize, number: u64) -> Option<&[u8]> {
    let rest = &bytes[at..];
    if rest.len() < BLOCK_HEADER_BYTES {
        return None;
    }
    let count = usize::try_from(get_u32(rest, 4)).ok()?;
    if count == 0 || count > BLOCK_RECORDS_MAX {
        return None;
    }
    let block = rest.get(..BLOCK_HEADER_BYTES + count * R::BYTES)?;
    (get_u32(block, 0) == block_crc(number, block)).then_some(block)
}
