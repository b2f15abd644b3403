//! The manifest: which segments and runs count. A file that it does not name is a left-over.
//!
//! It is replaced whole: a temporary file, synced, takes its place.
//!
//! ```text
//!  0          8         12        16        20      24         32      40       48         56      60
//!  +----------+---------+---------+---------+-------+----------+-------+--------+----------+-------+---+------+----------+
//!  | magic    | version | layout  | record  | policy| next     | seq   | runs   | segments | CRC   | 0 | runs | segments |
//!  | WEIRMAN\0| u32 = 1 | u32     | bytes   | tag   | number   | u64   | u64    | u64      | u32   |   |      |          |
//!  +----------+---------+---------+---------+-------+----------+-------+--------+----------+-------+---+------+----------+
//!
//!  run, 80 bytes:       id | level | window start ms | newest seq | records | bytes | least key | greatest key | oldest ms | newest ms
//!  segment, 24 bytes:   number | window start ms | bytes when it was closed, 2^64 - 1 while it is open
//! ```
//!
//! All fields of the lists are u64. The CRC covers everything but itself.

use std::path::Path;

use disk::{DiskFile, NotReplaced, Step};

use crate::format::{
    VERSION, get_u32, get_u64, narrow, put_u32, put_u64, record_bytes, same, wide,
};
use crate::segment::SegmentMeta;
use crate::{Record, RunId, RunMeta, StoreError};

/// Name of the manifest.
pub(crate) const NAME: &str = "MANIFEST";
/// Name of the one that is to become it.
pub(crate) const TEMPORARY: &str = "MANIFEST.tmp";

const MAGIC: [u8; 8] = *b"WEIRMAN\0";
const HEAD_BYTES: usize = 64;
const RUN_BYTES: usize = 80;
const SEGMENT_BYTES: usize = 24;
/// A segment that is still written to has this length.
const OPEN: u64 = u64::MAX;

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) tag: u32,
    /// Numbers from here on were never used.
    pub(crate) next_number: u64,
    /// Number of the newest record when this was written.
    pub(crate) seq: u64,
    pub(crate) runs: Vec<RunMeta>,
    pub(crate) segments: Vec<SegmentMeta>,
}

impl Manifest {
    /// Reads the manifest of a folder, if there is one.
    pub(crate) fn read<R: Record>(folder: &Path) -> Result<Option<Manifest>, StoreError> {
        let path = folder.join(NAME);
        if !disk::names(folder)?.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let bytes = DiskFile::open(&path)?.read_all()?;
        Manifest::decode::<R>(&bytes, &path).map(Some)
    }

    /// Puts this manifest in the place of the one in `folder`. When it returns all is on disk, the names of the
    /// files it lists included.
    pub(crate) fn write<R: Record>(&self, folder: &Path) -> Result<(), NotReplaced> {
        let listed = disk::sync_folder(folder);
        listed.map_err(|error| NotReplaced { step: Step::Write, error })?;
        disk::replace(&folder.join(TEMPORARY), &folder.join(NAME), &self.encode::<R>()).map(drop)
    }

    fn encode<R: Record>(&self) -> Vec<u8> {
        let lists = self.runs.len() * RUN_BYTES + self.segments.len() * SEGMENT_BYTES;
        let mut bytes = vec![0; HEAD_BYTES + lists];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, R::LAYOUT);
        put_u32(&mut bytes, 16, record_bytes::<R>());
        put_u32(&mut bytes, 20, self.tag);
        put_u64(&mut bytes, 24, self.next_number);
        put_u64(&mut bytes, 32, self.seq);
        put_u64(&mut bytes, 40, wide(self.runs.len()));
        put_u64(&mut bytes, 48, wide(self.segments.len()));
        let (runs, segments) = bytes[HEAD_BYTES..].split_at_mut(self.runs.len() * RUN_BYTES);
        runs.chunks_exact_mut(RUN_BYTES).zip(&self.runs).for_each(|(to, run)| put_run(to, run));
        let slots = segments.chunks_exact_mut(SEGMENT_BYTES).zip(&self.segments);
        slots.for_each(|(to, segment)| put_segment(to, segment));
        let crc = checksum(&bytes);
        put_u32(&mut bytes, 56, crc);
        bytes
    }

    fn decode<R: Record>(bytes: &[u8], path: &Path) -> Result<Manifest, StoreError> {
        if bytes.len() < HEAD_BYTES || bytes[..8] != MAGIC {
            return Err(StoreError::damaged(path, 0, "it does not begin as a manifest does"));
        }
        if get_u32(bytes, 56) != checksum(bytes) {
            return Err(StoreError::damaged(path, 56, "its checksum does not fit"));
        }
        same(path, "format version", get_u32(bytes, 8), VERSION)?;
        same(path, "record layout", get_u32(bytes, 12), R::LAYOUT)?;
        same(path, "record width", get_u32(bytes, 16), record_bytes::<R>())?;
        let (runs, segments) = (get_u64(bytes, 40), get_u64(bytes, 48));
        let runs_bytes = runs.saturating_mul(wide(RUN_BYTES));
        let lists = runs_bytes.saturating_add(segments.saturating_mul(wide(SEGMENT_BYTES)));
        if lists != wide(bytes.len() - HEAD_BYTES) {
            let what = format!("{runs} runs and {segments} segments do not take its length");
            return Err(StoreError::damaged(path, 40, what));
        }
        let (runs, segments) = bytes[HEAD_BYTES..].split_at(narrow(runs_bytes));
        Ok(Manifest {
            tag: get_u32(bytes, 20),
            next_number: get_u64(bytes, 24),
            seq: get_u64(bytes, 32),
            runs: runs.chunks_exact(RUN_BYTES).map(get_run).collect(),
            segments: segments.chunks_exact(SEGMENT_BYTES).map(get_segment).collect(),
        })
    }
}

/// Over all but its own four bytes.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..56]), &bytes[60..])
}

fn put_run(to: &mut [u8], run: &RunMeta) {
    let numbers = [
        run.id.0,
        run.level.into(),
        run.window_ms,
        run.seq_max,
        run.records,
        run.bytes,
        run.key_min,
        run.key_max,
        run.time_min_ms,
        run.time_max_ms,
    ];
    to.chunks_exact_mut(8).zip(numbers).for_each(|(to, number)| put_u64(to, 0, number));
}

fn get_run(from: &[u8]) -> RunMeta {
    let number = |at: usize| get_u64(from, at * 8);
    RunMeta {
        id: RunId(number(0)),
        level: u8::try_from(number(1)).unwrap_or(u8::MAX),
        window_ms: number(2),
        seq_max: number(3),
        records: number(4),
        bytes: number(5),
        key_min: number(6),
        key_max: number(7),
        time_min_ms: number(8),
        time_max_ms: number(9),
    }
}

fn put_segment(to: &mut [u8], segment: &SegmentMeta) {
    put_u64(to, 0, segment.number);
    put_u64(to, 8, segment.window_ms);
    put_u64(to, 16, segment.closed_bytes.unwrap_or(OPEN));
}

fn get_segment(from: &[u8]) -> SegmentMeta {
    let closed_bytes = Some(get_u64(from, 16)).filter(|bytes| *bytes != OPEN);
    SegmentMeta { number: get_u64(from, 0), window_ms: get_u64(from, 8), closed_bytes }
}
