//! The file of figures: a log whose records are what changed and the place in the journal that it leads to.

use std::path::Path;

use disk::{Error, LogFile, LogKind};
use figures::Figures;
use ledger_journal::{Position, SealedGroup};

const NAME: &str = "figures";

/// A record begins as figures do: "WEIRFIG3".
const KIND: LogKind = LogKind {
    name: NAME,
    mark: b"WEIRFIGS",
    version: 1,
    first_byte: b'W',
    content: "figures of campaigns",
};

/// The file is written anew when it has more bytes than this, and more than twice those of the figures as they are.
const REWRITE_BYTES: u64 = 16 << 20;

/// Which group was folded last. Behind the figures of each record of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Hash of the group before it.
    before: [u8; 32],
    /// CRC-32C of its entry.
    entry: u32,
}

impl Mark {
    const BYTES: usize = 36;
    /// Of figures that nothing was folded into yet.
    pub(crate) const NONE: Mark = Mark { before: [0; 32], entry: 0 };

    pub(crate) fn of(group: &SealedGroup<'_>) -> Mark {
        let Position { hash, .. } = group.before;
        Mark { before: hash, entry: crc32c::crc32c(group.entry) }
    }

    fn bytes(self) -> [u8; Mark::BYTES] {
        let mut bytes = [0; Mark::BYTES];
        bytes[..32].copy_from_slice(&self.before);
        bytes[32..].copy_from_slice(&self.entry.to_le_bytes());
        bytes
    }

    fn read(bytes: [u8; Mark::BYTES]) -> Mark {
        let mut mark = Mark::NONE;
        mark.before.copy_from_slice(&bytes[..32]);
        mark.entry = u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]);
        mark
    }
}

/// Figures in a folder of their own.
#[derive(Debug)]
pub(crate) struct FigureFile(LogFile);

/// What a file held: nothing yet, or figures and the group that was folded last.
pub(crate) type Found = Option<(Figures, Mark)>;

/// Why a file cannot be used, and whether it is the file's fault.
pub(crate) enum Unusable {
    Disk(Error),
    Content(String),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Unusable {
        match error {
            Error::Foreign { .. } | Error::Damaged { .. } => Unusable::Content(error.to_string()),
            error => Unusable::Disk(error),
        }
    }
}

impl FigureFile {
    /// Opens the file of a folder, or makes both. A file that is damaged is set aside, as `figures.bad`: figures can be made again.
    ///
    /// # Errors
    /// The disk refuses, another process has the folder, or a later version wrote the file.
    pub(crate) fn open(folder: &Path) -> Result<(FigureFile, Found), Error> {
        match read(folder) {
            Ok(opened) => Ok(opened),
            Err(Unusable::Disk(error)) => Err(error),
            Err(Unusable::Content(why)) => FigureFile::anew(folder, &why).map(|file| (file, None)),
        }
    }

    /// Sets the file aside and begins an empty one.
    pub(crate) fn anew(folder: &Path, why: &str) -> Result<FigureFile, Error> {
        tracing::warn!(
            folder = %folder.display(), why,
            "the figures of campaigns are counted again from the oldest record of the journal; the old file is figures.bad"
        );
        let path = folder.join(NAME);
        let renamed = std::fs::rename(&path, path.with_extension("bad"));
        renamed.map_err(|source| Error::io(&path, "set aside", source))?;
        match read(folder) {
            Ok((file, _)) => Ok(file),
            Err(Unusable::Disk(error)) => Err(error),
            Err(Unusable::Content(_)) => Err(Error::Damaged { path, at: 0 }),
        }
    }

    /// Appends what changed since it was saved last. It is on the disk when this returns.
    ///
    /// # Errors
    /// The disk refuses; the change is not there.
    pub(crate) fn append(&mut self, unsaved: Vec<u8>, mark: Mark) -> Result<(), Error> {
        self.0.append(&record(unsaved, mark))
    }

    /// Writes the file anew, with these figures alone, if it has grown.
    pub(crate) fn shorten(&mut self, whole: impl FnOnce() -> Vec<u8>, mark: Mark) {
        self.0.shorten(|| std::iter::once(record(whole(), mark)));
    }
}

fn record(mut bytes: Vec<u8>, mark: Mark) -> Vec<u8> {
    bytes.extend_from_slice(&mark.bytes());
    bytes
}

fn read(folder: &Path) -> Result<(FigureFile, Found), Unusable> {
    let mut found: Found = None;
    let log = LogFile::open(folder, KIND, REWRITE_BYTES, |_, _, record| {
        let (bytes, mark) = record
            .split_last_chunk::<{ Mark::BYTES }>()
            .ok_or_else(|| Unusable::Content("a record is too short".into()))?;
        let figures = match found.take() {
            None => Figures::read(bytes),
            Some((mut figures, _)) => figures.merge(bytes).map(|()| figures),
        };
        let figures = figures.map_err(|error| Unusable::Content(error.to_string()))?;
        found = Some((figures, Mark::read(*mark)));
        Ok::<(), Unusable>(())
    })?;
    Ok((FigureFile(log), found))
}
