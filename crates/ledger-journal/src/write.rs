//! Writing groups into segments.

use std::io;
use std::ops::ControlFlow;

use zerocopy::IntoBytes;

use crate::block::{Block, blocks};
use crate::disk::Durability;
use crate::files::{Access, BLOCK_BYTES, File, Folder};
use crate::format::{FileHead, GROUP_BYTES_MAX, Kind, Position};
use crate::group::Group;
use crate::log::{Log, NotAppended};
use crate::names;
use crate::read::ReadError;
use crate::recover::Tail;
use crate::snapshot::remove_if_there;
use crate::walk::read_groups;

/// Least length of a segment: its head and two groups of the largest size.
pub const SEGMENT_BYTES_MIN: u64 = (BLOCK_BYTES + 2 * GROUP_BYTES_MAX) as u64;

/// Bytes of copied groups that are written at once.
const COPIED_AT_ONCE: usize = 4 << 20;

/// The log in a folder: writes groups, one after the other, each sealed before the next.
///
/// After an error nothing is believed of the segment that was written to: not what its file says, not what a later
/// fsync says (P. Wang et al. and the PostgreSQL developers, "fsyncgate", 2018: a failed fsync may drop the pages it
/// could not write, and the next one succeeds). The same group is written again into a new segment, whose head says
/// where it continues; what stands behind that place in the old one counts for nothing.
#[derive(Debug)]
pub struct Writer<F: Folder> {
    folder: F,
    node: u16,
    segment_bytes: u64,
    next_segment: u64,
    /// After the last group that was sealed.
    position: Position,
    open: Option<OpenSegment<F::File>>,
    copying: Option<Copying<F::File>>,
    segments_begun: u64,
}

/// A segment that has no name yet.
#[derive(Debug)]
struct Copying<F> {
    open: OpenSegment<F>,
    /// What is written behind that at once.
    gathered: Vec<Block>,
    /// After the last group.
    end: Position,
}

#[derive(Debug)]
struct OpenSegment<F> {
    file: F,
    offset: u64,
}

impl<F: Folder> Writer<F> {
    /// A writer that goes on where a recovery ended, in a segment of its own.
    pub fn new(folder: F, node: u16, segment_bytes: u64, tail: Tail) -> Writer<F> {
        Writer::with_short_segments(folder, node, segment_bytes.max(SEGMENT_BYTES_MIN), tail)
    }

    /// The same with segments that may be shorter than [`SEGMENT_BYTES_MIN`], so that a simulation of few records
    /// sees many. A group that is longer than a segment makes it longer.
    pub fn with_short_segments(folder: F, node: u16, segment_bytes: u64, tail: Tail) -> Writer<F> {
        let Tail { position, next_segment } = tail;
        let (open, copying, segments_begun) = (None, None, 0);
        Writer {
            folder,
            node,
            segment_bytes,
            next_segment,
            position,
            open,
            copying,
            segments_begun,
        }
    }

    /// Begins a segment if none is open, so that the first group need not wait for it.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&mut self, now_ms: u64) -> io::Result<()> {
        if self.open.is_none() {
            self.open = Some(self.begin(now_ms)?);
        }
        Ok(())
    }

    /// Writes and seals a group that follows the one before.
    fn seal(&mut self, group: &Group) -> io::Result<()> {
        let bytes = group.bytes();
        let end = |open: &OpenSegment<F::File>| open.offset + bytes.len() as u64;
        if self.open.as_ref().is_some_and(|open| end(open) > self.segment_bytes) {
            self.open = None;
        }
        self.open(group.at_ms())?;
        let Some(open) = self.open.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        match open.file.write_at(open.offset, bytes).and_then(|()| open.file.sync()) {
            Ok(()) => {
                open.offset += bytes.len() as u64;
                self.position = *group.after();
                Ok(())
            }
            Err(error) => {
                self.open = None;
                Err(error)
            }
        }
    }

    /// Gives a prepared file, or a new one, the head and the name of the next segment.
    fn begin(&mut self, now_ms: u64) -> io::Result<OpenSegment<F::File>> {
        let (file, name) = match self.folder.open(names::PREPARED, Access::Write) {
            Ok(file) => (file, names::PREPARED),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (zeros(&self.folder, names::BEGINNING, self.segment_bytes)?, names::BEGINNING)
            }
            Err(error) => return Err(error),
        };
        let written = file.write_at(0, self.head(now_ms).as_bytes()).and_then(|()| file.sync());
        if written.is_err() {
            let _ = self.folder.remove(name);
        }
        written?;
        self.name(name)?;
        Ok(OpenSegment { file, offset: BLOCK_BYTES as u64 })
    }

    /// The head of the next segment.
    fn head(&self, now_ms: u64) -> Vec<Block> {
        let (kind, node, number) = (Kind::Segment, self.node, self.next_segment);
        let head = FileHead { kind, node, number, at_ms: now_ms, position: self.position };
        let mut block = blocks(BLOCK_BYTES);
        head.write(&mut block[0].0);
        block
    }

    /// Gives a file the name of the next segment.
    fn name(&mut self, name: &str) -> io::Result<()> {
        self.folder.rename(name, &names::segment(self.next_segment))?;
        self.folder.sync()?;
        self.next_segment += 1;
        self.segments_begun += 1;
        Ok(())
    }

    /// Takes a group behind those before, without sealing it, for a segment that has no name yet: a crash leaves nothing of it. For what
    /// another log has anyway, where a seal for each group would take hours.
    ///
    /// # Errors
    /// What the system says, or that the group does not follow; what was not sealed counts for nothing.
    pub fn copy(&mut self, group: &Group) -> io::Result<()> {
        let len = group.bytes().len() as u64;
        let is_full = |copying: &Copying<_>| copying.len() + len > self.segment_bytes;
        if self.copying.as_ref().is_some_and(is_full) {
            self.seal_copied()?;
        }
        let copying = match &mut self.copying {
            Some(copying) => copying,
            None => {
                remove_if_there(&self.folder, names::BEGINNING)?;
                let file = self.folder.create(names::BEGINNING)?;
                let (open, gathered) = (OpenSegment { file, offset: 0 }, self.head(group.at_ms()));
                self.copying.insert(Copying { open, gathered, end: self.position })
            }
        };
        if *group.before() != copying.end {
            return Err(NotAppended::misplaced(group, &copying.end).into());
        }
        copying.gathered.extend_from_slice(group.blocks());
        copying.end = *group.after();
        let is_enough = copying.gathered.as_bytes().len() >= COPIED_AT_ONCE;
        let written = if is_enough { copying.write() } else { Ok(()) };
        if written.is_err() {
            self.copying = None;
        }
        written
    }

    /// Seals what was copied, and goes on behind it.
    ///
    /// # Errors
    /// What the system says; what was not sealed counts for nothing.
    pub fn seal_copied(&mut self) -> io::Result<()> {
        let Some(mut copying) = self.copying.take() else { return Ok(()) };
        copying.write()?;
        copying.open.file.sync()?;
        self.open = None;
        self.name(names::BEGINNING)?;
        self.position = copying.end;
        Ok(())
    }
}

impl<F: File> Copying<F> {
    fn len(&self) -> u64 {
        self.open.offset + self.gathered.as_bytes().len() as u64
    }

    fn write(&mut self) -> io::Result<()> {
        self.open.file.write_at(self.open.offset, self.gathered.as_bytes())?;
        self.open.offset = self.len();
        self.gathered.clear();
        Ok(())
    }
}

impl<F: Folder> Log for Writer<F> {
    fn position(&self) -> &Position {
        &self.position
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        if *group.after() == self.position {
            return Ok(());
        }
        if *group.before() != self.position {
            return Err(NotAppended::misplaced(group, &self.position));
        }
        Ok(self.seal(group)?)
    }

    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        read_groups(&self.folder, at, &self.position, each)
    }

    fn attest(&mut self) -> Result<Durability, String> {
        Ok(self.folder.durability())
    }

    fn segments_begun(&self) -> u64 {
        self.segments_begun
    }
}

/// Makes a file of zeros that the next segment can begin in, unless there is one: then writing changes no metadata,
/// and a full disk shows before there is something to write.
///
/// # Errors
/// What the system says.
pub fn prepare<F: Folder>(folder: &F, segment_bytes: u64) -> io::Result<()> {
    prepare_short(folder, segment_bytes.max(SEGMENT_BYTES_MIN))
}

/// The same for [`Writer::with_short_segments`].
///
/// # Errors
/// What the system says.
pub fn prepare_short<F: Folder>(folder: &F, segment_bytes: u64) -> io::Result<()> {
    if folder.list()?.iter().any(|name| name == names::PREPARED) {
        return Ok(());
    }
    zeros(folder, names::PREPARING, segment_bytes)?;
    folder.rename(names::PREPARING, names::PREPARED)?;
    folder.sync()
}

fn zeros<F: Folder>(folder: &F, name: &str, bytes: u64) -> io::Result<F::File> {
    remove_if_there(folder, name)?;
    let file = folder.create(name)?;
    let filled = fill(&file, bytes);
    if filled.is_err() {
        // The room is better used otherwise. That it failed is what counts.
        let _ = folder.remove(name);
    }
    filled.map(|()| file).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => {
            let why = format!("{error}; a new segment needs {bytes} bytes (journal.segment_bytes)");
            io::Error::new(error.kind(), why)
        }
        _ => error,
    })
}

fn fill<F: File>(file: &F, bytes: u64) -> io::Result<()> {
    let zeros = blocks(usize::try_from(bytes).unwrap_or(GROUP_BYTES_MAX).min(GROUP_BYTES_MAX));
    let mut offset = 0;
    while offset < bytes {
        let step = usize::try_from(bytes - offset).unwrap_or(GROUP_BYTES_MAX).min(GROUP_BYTES_MAX);
        let step = step.next_multiple_of(BLOCK_BYTES);
        file.write_at(offset, &zeros.as_bytes()[..step])?;
        offset += step as u64;
    }
    file.sync()
}
