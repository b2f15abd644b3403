//! Runs: sorted, folded, immutable. A header, blocks of records, the first key of each block, a footer.
//!
//! ```text
//!  +--------+---------+---------+-----+----------------+--------+
//!  | header | block 0 | block 1 | ... | index          | footer |
//!  | 64     |         |         |     | 8 bytes each   | 32     |
//!  +--------+---------+---------+-----+----------------+--------+
//!
//!  block:   CRC u32 | count u32 | records     the CRC covers what follows it; each block but the last has
//!                                             (4,096 - 8) / record bytes records, rounded down
//!  index:   the first key of each block, u64
//!  footer:  "RUN-END\0" | blocks u64 | records u64 | CRC of the index u32 | CRC of the footer's first 28 bytes u32
//! ```
//!
//! A point read searches the index, which is in memory, and reads one block.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::DiskFile;

use crate::format::{
    HEADER_BYTES, Header, RUN_MAGIC, get_u32, get_u64, narrow, put_u32, put_u64, read_at, wide,
};
use crate::{Record, RunId, RunMeta, StoreError};

/// A block with its header, at most: what one point read reads.
const BLOCK_BYTES_MAX: usize = 4_096;
/// Checksum and count before the records of a block.
const BLOCK_HEADER_BYTES: usize = 8;
/// Bytes behind the index.
const FOOTER_BYTES: usize = 32;
/// First bytes of the footer.
const FOOTER_MAGIC: [u8; 8] = *b"RUN-END\0";
/// What a writer gathers before it writes, and a reader reads at once.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_BYTES_MAX;

/// Records of a whole block.
const fn block_records<R: Record>() -> usize {
    (BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES) / R::BYTES
}

/// Bytes of a whole block.
const fn block_bytes<R: Record>() -> usize {
    BLOCK_HEADER_BYTES + block_records::<R>() * R::BYTES
}

fn path(folder: &Path, id: RunId) -> PathBuf {
    folder.join(format!("{:012}.run", id.0))
}

/// A run that can be read.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) meta: RunMeta,
    file: DiskFile,
    /// First key of each block.
    index: Vec<u64>,
}

impl Run {
    /// Opens the run that `meta` describes.
    pub(crate) fn open<R: Record>(folder: &Path, meta: RunMeta) -> Result<Run, StoreError> {
        let file = DiskFile::open(&path(folder, meta.id))?;
        let mut header = [0; HEADER_BYTES];
        read_at(&file, &mut header, 0)?;
        let expected = Header { number: meta.id.0, window_ms: meta.window_ms };
        expected.check::<R>(RUN_MAGIC, &header, file.path())?;
        let blocks = narrow(meta.records).div_ceil(block_records::<R>());
        let index_at = wide(HEADER_BYTES) + block_offset::<R>(blocks, meta.records);
        let bytes = index_at + wide(blocks * 8 + FOOTER_BYTES);
        let found = file.len()?;
        if meta.bytes != bytes || found != bytes {
            let what = format!("{} records take {bytes} bytes, the file has {found}", meta.records);
            return Err(StoreError::damaged(file.path(), found, what));
        }
        let index = read_index(&file, index_at, blocks, meta.records)?;
        Ok(Run { meta, file, index })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Adds the records of `key` to `found`, in their order.
    pub(crate) fn get<R: Record>(&self, key: u64, found: &mut Vec<R>) -> Result<(), StoreError> {
        if key < self.meta.key_min || key > self.meta.key_max {
            return Ok(());
        }
        // A key's records can begin in the block before the first that starts with it.
        let mut block = self.index.partition_point(|first| *first < key).saturating_sub(1);
        let mut buffer = [0; BLOCK_BYTES_MAX];
        while self.index.get(block).is_some_and(|first| *first <= key) {
            let slots = self.read_block::<R>(block, &mut buffer)?;
            let from = first_at_least::<R>(slots, key);
            let own = slots[from * R::BYTES..].chunks_exact(R::BYTES).map(R::from_bytes);
            found.extend(own.take_while(|record| record.key() == key));
            block += 1;
        }
        Ok(())
    }

    /// The bytes of a block's records.
    fn read_block<'b, R: Record>(
        &self,
        block: usize,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], StoreError> {
        let at = wide(HEADER_BYTES + block * block_bytes::<R>());
        let bytes = &mut buffer[..self.block_len::<R>(block)];
        read_at(&self.file, bytes, at)?;
        self.check_block::<R>(bytes, at)
    }

    fn block_len<R: Record>(&self, block: usize) -> usize {
        let before = block * block_records::<R>();
        let records = (narrow(self.meta.records) - before).min(block_records::<R>());
        BLOCK_HEADER_BYTES + records * R::BYTES
    }

    fn check_block<'b, R: Record>(&self, block: &'b [u8], at: u64) -> Result<&'b [u8], StoreError> {
        let records = &block[BLOCK_HEADER_BYTES..];
        let count = u32::try_from(records.len() / R::BYTES).unwrap_or(u32::MAX);
        if get_u32(block, 0) != crc32c::crc32c(&block[4..]) || get_u32(block, 4) != count {
            let what = "the checksum of the block does not fit";
            return Err(StoreError::damaged(self.path(), at, what));
        }
        Ok(records)
    }
}

/// Bytes before block `block` of a run, counted from the first block.
fn block_offset<R: Record>(block: usize, records: u64) -> u64 {
    wide(block * BLOCK_HEADER_BYTES) + records * wide(R::BYTES)
}

fn read_index(
    file: &DiskFile,
    at: u64,
    blocks: usize,
    records: u64,
) -> Result<Vec<u64>, StoreError> {
    let mut tail = vec![0; blocks * 8 + FOOTER_BYTES];
    read_at(file, &mut tail, at)?;
    let (index, footer) = tail.split_at(blocks * 8);
    let sound = footer[..8] == FOOTER_MAGIC
        && get_u64(footer, 8) == wide(blocks)
        && get_u64(footer, 16) == records
        && get_u32(footer, 24) == crc32c::crc32c(index)
        && get_u32(footer, 28) == crc32c::crc32c(&footer[..28]);
    if !sound {
        return Err(StoreError::damaged(file.path(), at, "index and footer do not fit"));
    }
    Ok(index.chunks_exact(8).map(|key| get_u64(key, 0)).collect())
}

/// The first of the records in `slots` with this key or a greater one.
fn first_at_least<R: Record>(slots: &[u8], key: u64) -> usize {
    let (mut low, mut high) = (0, slots.len() / R::BYTES);
    while low < high {
        let middle = usize::midpoint(low, high);
        if R::from_bytes(&slots[middle * R::BYTES..][..R::BYTES]).key() < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Reads a run from its first record to its last.
#[derive(Debug)]
pub(crate) struct RunReader<R> {
    run: Arc<Run>,
    next_block: usize,
    chunk: Vec<u8>,
    records: std::vec::IntoIter<R>,
}

impl<R: Record> RunReader<R> {
    pub(crate) fn new(run: Arc<Run>) -> RunReader<R> {
        RunReader { run, next_block: 0, chunk: Vec::new(), records: Vec::new().into_iter() }
    }

    pub(crate) fn next(&mut self) -> Result<Option<R>, StoreError> {
        if self.records.len() == 0 && self.next_block < self.run.index.len() {
            self.read_chunk()?;
        }
        Ok(self.records.next())
    }

    fn read_chunk(&mut self) -> Result<(), StoreError> {
        let until = (self.next_block + CHUNK_BLOCKS).min(self.run.index.len());
        let at = wide(HEADER_BYTES + self.next_block * block_bytes::<R>());
        let whole = (until - 1 - self.next_block) * block_bytes::<R>();
        self.chunk.resize(whole + self.run.block_len::<R>(until - 1), 0);
        read_at(&self.run.file, &mut self.chunk, at)?;
        let mut records = Vec::with_capacity(CHUNK_BLOCKS * block_records::<R>());
        let mut offset = at;
        for block in self.chunk.chunks(block_bytes::<R>()) {
            let slots = self.run.check_block::<R>(block, offset)?;
            records.extend(slots.chunks_exact(R::BYTES).map(R::from_bytes));
            offset += wide(block.len());
        }
        self.next_block = until;
        self.records = records.into_iter();
        Ok(())
    }
}

/// Writes a run; records arrive in their order.
#[derive(Debug)]
pub(crate) struct RunWriter<R> {
    file: DiskFile,
    meta: RunMeta,
    index: Vec<u64>,
    /// What was not written yet; whole blocks and one that grows from `block_start`.
    chunk: Vec<u8>,
    block_start: usize,
    written: u64,
    record: PhantomData<R>,
}

impl<R: Record> RunWriter<R> {
    /// Makes the file. `blank` says what the run is; counts and bounds are found out.
    pub(crate) fn create(folder: &Path, blank: RunMeta) -> Result<RunWriter<R>, StoreError> {
        let file = DiskFile::create(&path(folder, blank.id))?;
        let header = Header { number: blank.id.0, window_ms: blank.window_ms };
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + BLOCK_BYTES_MAX);
        chunk.extend_from_slice(&header.encode::<R>(RUN_MAGIC));
        let meta = RunMeta {
            records: 0,
            bytes: 0,
            key_min: u64::MAX,
            key_max: 0,
            time_min_ms: u64::MAX,
            time_max_ms: 0,
            ..blank
        };
        let block_start = chunk.len();
        let index = Vec::new();
        Ok(RunWriter { file, meta, index, chunk, block_start, written: 0, record: PhantomData })
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: &R) -> Result<(), StoreError> {
        if self.chunk.len() == self.block_start {
            self.index.push(record.key());
            self.chunk.resize(self.block_start + BLOCK_HEADER_BYTES, 0);
        }
        let at = self.chunk.len();
        self.chunk.resize(at + R::BYTES, 0);
        record.to_bytes(&mut self.chunk[at..]);
        self.note(record);
        if self.chunk.len() - self.block_start == block_bytes::<R>() {
            self.end_block();
        }
        if self.chunk.len() >= CHUNK_BYTES && self.chunk.len() == self.block_start {
            self.flush()?;
        }
        Ok(())
    }

    fn note(&mut self, record: &R) {
        let (meta, time_ms) = (&mut self.meta, record.time_ms());
        meta.records += 1;
        meta.key_min = meta.key_min.min(record.key());
        meta.key_max = record.key();
        meta.time_min_ms = meta.time_min_ms.min(time_ms);
        meta.time_max_ms = meta.time_max_ms.max(time_ms);
    }

    fn end_block(&mut self) {
        let block = &mut self.chunk[self.block_start..];
        let count = (block.len() - BLOCK_HEADER_BYTES) / R::BYTES;
        put_u32(block, 4, u32::try_from(count).unwrap_or(u32::MAX));
        let crc = crc32c::crc32c(&block[4..]);
        put_u32(block, 0, crc);
        self.block_start = self.chunk.len();
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file.write_at(&self.chunk, self.written)?;
        self.written += wide(self.chunk.len());
        self.chunk.clear();
        self.block_start = 0;
        Ok(())
    }

    /// Bytes so far, without the index.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + wide(self.chunk.len())
    }

    /// The key of the newest record.
    pub(crate) fn last_key(&self) -> u64 {
        self.meta.key_max
    }

    /// Writes the rest; all of it is on disk when this returns.
    pub(crate) fn finish(mut self) -> Result<Run, StoreError> {
        if self.chunk.len() > self.block_start {
            self.end_block();
        }
        let mut footer = [0; FOOTER_BYTES];
        let index: Vec<u8> = self.index.iter().flat_map(|key| key.to_le_bytes()).collect();
        footer[..8].copy_from_slice(&FOOTER_MAGIC);
        put_u64(&mut footer, 8, wide(self.index.len()));
        put_u64(&mut footer, 16, self.meta.records);
        put_u32(&mut footer, 24, crc32c::crc32c(&index));
        let crc = crc32c::crc32c(&footer[..28]);
        put_u32(&mut footer, 28, crc);
        self.chunk.extend_from_slice(&index);
        self.chunk.extend_from_slice(&footer);
        self.flush()?;
        self.file.sync()?;
        let meta = RunMeta { bytes: self.written, ..self.meta };
        Ok(Run { meta, file: self.file, index: self.index })
    }

    /// Removes what was written: nobody will need it.
    pub(crate) fn discard(self) {
        disk::remove(self.file.path());
    }
}
