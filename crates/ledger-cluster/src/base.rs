//! Base copies: what a node begins from that has less than the log's first record. One is a snapshot of the books at a place of the log, and the files
//! that were kept beside them then or later. The log is trimmed behind the older one of the newest two, once both were read again.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};

use ledger_journal::Position;
use serde::{Deserialize, Serialize};

use crate::engine::Ask;
use crate::{ClusterError, ClusterLog, Engine, LogFault, Place};

/// The first part of a copy's name; the second has its place, so that names sort by it, and who made it.
const KIND: &str = "copy";

/// What a base copy says of itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Base {
    sequence: u64,
    crc: u32,
    hash: [u8; 32],
    /// The entry of the log before that place.
    entry: u64,
    /// The segment that the snapshot was made for.
    pub segment: u64,
    /// The files, by their path in the data folder, with their lengths, in order.
    files: Vec<(String, u64)>,
}

impl Base {
    /// Between which records the log goes on from it.
    pub fn position(&self) -> Position {
        Position { sequence: self.sequence, crc: self.crc, hash: self.hash }
    }
}

/// A file of a copy: its path in the data folder, its length, and its bytes.
pub type Packed<'a> = (String, u64, Box<dyn Read + 'a>);

impl<E: Engine> ClusterLog<E> {
    /// Puts a copy of a node's files there, unless there is one as new, and trims the log. `at` is where the snapshot stands, with its segment; `maker`
    /// tells copies of two nodes apart. `is_over`: give up. Returns the last entry that was trimmed, 0 if none was.
    ///
    /// # Errors
    /// [`ClusterError`]: nothing was trimmed.
    pub fn put_base(
        &mut self,
        (at, segment): (&Position, u64),
        maker: u64,
        files: Vec<Packed<'_>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<u64, ClusterError> {
        let name = format!("{KIND}.{:020}-{maker:016x}", at.sequence);
        // A base copy must follow from the log as it is.
        let entry = self.locate(at).map_err(|fault| self.error(fault))?;
        let newest = self.copies().map_err(|fault| self.error(fault))?.pop();
        if newest.is_none_or(|newest| newest[..name.len() - 17] < name[..name.len() - 17]) {
            let Position { sequence, crc, hash } = *at;
            let listed = files.iter().map(|(path, bytes, _)| (path.clone(), *bytes)).collect();
            let base = Base { sequence, crc, hash, entry, segment, files: listed };
            let empty: Box<dyn Read> = Box::new(io::empty());
            let bytes = files
                .into_iter()
                .fold(empty, |all, (_, bytes, file)| Box::new(all.chain(file.take(bytes))));
            let about = serde_json::to_value(&base).unwrap_or_default();
            self.keep(&name, &about, &mut Until { bytes, is_over })?;
        }
        self.trim(is_over)
    }

    /// The newest two copies, but for those of another history, which a log that was made anew may find.
    fn copies(&mut self) -> Result<Vec<String>, LogFault> {
        let mut names = Vec::new();
        let mut all = self.all_kept(KIND).map_err(|error| error.fault)?;
        while names.len() < 2
            && let Some(name) = all.pop()
        {
            match self.place_of(&name) {
                Err(LogFault::Fork { .. } | LogFault::Behind { .. }) => {}
                _ => names.insert(0, name),
            }
        }
        Ok(names)
    }

    /// What a copy says of itself, where the log goes on from there, by the hashes of both, and the number of the entry before it.
    fn place_of(&mut self, name: &str) -> Result<(Base, u64), LogFault> {
        let incomplete = || LogFault::Incomplete(name.to_string());
        let head = self.file_head(name)?.ok_or_else(incomplete)?;
        let base = Base::deserialize(head.about).map_err(|_| incomplete())?;
        let entry = self.locate(&base.position())?;
        Ok((base, entry))
    }

    /// Goes to the oldest copy: a log that was trimmed begins there.
    pub(crate) fn seek_oldest(&mut self) -> Result<Place, ClusterError> {
        let (mut oldest, first) = (None, self.first_record()?);
        for name in self.all_kept(KIND)? {
            oldest = oldest.or_else(|| self.place_of(&name).ok());
        }
        match oldest {
            Some((base, _)) => self.seek(&base.position()),
            None => Err(self.error(LogFault::NoBase { first })),
        }
    }

    fn first_record(&mut self) -> Result<u64, ClusterError> {
        let first = self.extent().and_then(|extent| Ok(self.head(extent.first)?.records.start));
        first.map_err(|fault| self.error(fault))
    }

    /// Trims the log behind the older one of the newest two copies, once both can be read, and removes the others.
    pub(crate) fn trim(&mut self, is_over: &dyn Fn() -> bool) -> Result<u64, ClusterError> {
        let names = self.copies().map_err(|fault| self.error(fault))?;
        let [.., older, newest] = &names[..] else { return Ok(0) };
        let mut behind = 0;
        for name in [newest, older] {
            let mut bytes = 0;
            let about = self.kept(name, &mut |piece| {
                bytes += piece.len() as u64;
                if is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
            })?;
            let base = about.and_then(|about| Base::deserialize(about).ok());
            let is_whole = |base: &Base| base.files.iter().map(|file| file.1).sum::<u64>() == bytes;
            let place = base.filter(is_whole).ok_or_else(|| LogFault::Incomplete(name.clone()));
            let place = place.and_then(|base| Ok((self.locate(&base.position())?, base.entry)));
            behind = match place.map_err(|fault| self.error(fault))? {
                (found, said) if found == said => said,
                _ => return Err(self.error(LogFault::Incomplete(name.clone()))),
            };
        }
        // The last entry stays: a log without one would be as one that lost all.
        let extent = self.extent().map_err(|fault| self.error(fault))?;
        let before = extent.last.min(behind + 1);
        if before > extent.first {
            self.ask(&mut || Ask::Trim(before)).map_err(|fault| self.error(fault))?;
        }
        self.keep_only(KIND, &|name| name == older || name >= newest.as_str())?;
        Ok(before.saturating_sub(1))
    }

    /// Unpacks the newest copy that the log goes on from, and that is whole, into a folder of its own.
    ///
    /// # Errors
    /// [`LogFault::NoBase`]: there is none, so the log lost its beginning; and the others.
    pub fn unpack_base(&mut self, into: &Path) -> Result<Base, ClusterError> {
        let mut broken = LogFault::NoBase { first: self.first_record()? };
        for name in self.all_kept(KIND)?.iter().rev() {
            match self.unpack(name, into) {
                Ok(base) => return Ok(base),
                Err(
                    fault @ (LogFault::Trimmed { .. }
                    | LogFault::Incomplete(_)
                    | LogFault::Piece { .. }),
                ) => {
                    tracing::error!(%fault, "a base copy cannot be used; an older one is tried");
                    broken = fault;
                }
                // Another history's, which a log that was made anew may find.
                Err(fault @ (LogFault::Fork { .. } | LogFault::Behind { .. })) => {
                    tracing::warn!(%fault, "a base copy cannot be used; an older one is tried");
                }
                Err(fault) => return Err(self.error(fault)),
            }
        }
        Err(self.error(broken))
    }

    fn unpack(&mut self, name: &str, into: &Path) -> Result<Base, LogFault> {
        let incomplete = || LogFault::Incomplete(name.to_string());
        let (base, _) = self.place_of(name)?;
        let failed = |error: io::Error| LogFault::Unpacked(error.to_string());
        // What an earlier try left, or a copy that is broken.
        if into.exists() {
            fs::remove_dir_all(into).map_err(failed)?;
        }
        DirBuilder::new().mode(0o700).create(into).map_err(failed)?;
        let mut files = Files { into, left: base.files.clone().into(), open: None };
        self.get_file(name, &mut |piece| files.take(piece))?.ok_or_else(incomplete)?;
        match files.finish().map_err(failed)? {
            true => Ok(base),
            false => Err(incomplete()),
        }
    }
}

/// Bytes, until it is to be given up.
struct Until<'a> {
    bytes: Box<dyn Read + 'a>,
    is_over: &'a dyn Fn() -> bool,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // `Interrupted` would be tried again.
        if (self.is_over)() { Err(io::ErrorKind::Other.into()) } else { self.bytes.read(into) }
    }
}

/// Files that are written one after the other.
struct Files<'a> {
    into: &'a Path,
    left: VecDeque<(String, u64)>,
    open: Option<(File, u64)>,
}

impl Files<'_> {
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some((file, left)) = &mut self.open else {
                match self.next()? {
                    true => continue,
                    false => return Err(io::Error::other("a base copy with more than its files")),
                }
            };
            let (now, later) =
                bytes.split_at(usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len()));
            file.write_all(now)?;
            (*left, bytes) = (*left - now.len() as u64, later);
            self.close()?;
        }
        Ok(())
    }

    /// Begins the next file; false: there is none.
    fn next(&mut self) -> io::Result<bool> {
        let Some((path, bytes)) = self.left.pop_front() else { return Ok(false) };
        let is_inside =
            Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside {
            return Err(io::Error::other(format!("a base copy with the file {path}")));
        }
        let path = self.into.join(path);
        let folder = path.parent().unwrap_or(self.into);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        self.open = Some((file, bytes));
        self.close().map(|()| true)
    }

    fn close(&mut self) -> io::Result<()> {
        match self.open.take_if(|(_, left)| *left == 0) {
            Some((file, _)) => file.sync_all(),
            None => Ok(()),
        }
    }

    /// Is each file there whole? Then their folders are durable, too.
    fn finish(mut self) -> io::Result<bool> {
        while self.open.is_none() && self.next()? {}
        for folder in fs::read_dir(self.into)? {
            let folder = folder?.path();
            if folder.is_dir() {
                File::open(folder)?.sync_all()?;
            }
        }
        File::open(self.into)?.sync_all()?;
        Ok(self.open.is_none())
    }
}
