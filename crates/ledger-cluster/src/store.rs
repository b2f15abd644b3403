//! What lies beside the log: files, in sealed pieces. A file is there once its head is, which comes last; each piece is bound to its name, so none can
//! be cut, swapped or another cluster's.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::Ask;
use crate::verdict::{self, NoResult};
use crate::{ClusterError, ClusterLog, ENTRY_BYTES_MAX, Engine, LogFault, attest};

const FORMAT: u32 = 1;
/// The name of a file's head among its pieces.
const HEAD: &str = "head";
/// A request without an answer is repeated so often.
const TRIES: u32 = 10;

/// The head of a file.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Head {
    format: u32,
    node: u16,
    pieces: u64,
    bytes: u64,
    pub(crate) about: Value,
}

impl<E: Engine> ClusterLog<E> {
    /// Keeps a file beside the log, with what is to be known about it, unless it is there.
    ///
    /// # Errors
    /// [`ClusterError`]: it is not there.
    pub fn keep(
        &mut self,
        name: &str,
        about: &Value,
        from: &mut dyn Read,
    ) -> Result<(), ClusterError> {
        let kept = self.put_file(name, about, from);
        kept.map_err(|fault| self.error(fault))
    }

    /// Hands a file out, piece by piece, and returns what is to be known about it; `None`: there is none.
    ///
    /// # Errors
    /// [`ClusterError`]: what was handed out is not the whole file.
    pub fn kept(
        &mut self,
        name: &str,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Option<Value>, ClusterError> {
        let found = self.get_file(name, each);
        found.map_err(|fault| self.error(fault))
    }

    /// The files that are there whole, by the first part of their names, sorted.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn all_kept(&mut self, kind: &str) -> Result<Vec<String>, ClusterError> {
        let found = self.names(kind, HEAD);
        found.map_err(|fault| self.error(fault))
    }

    /// Removes all files of a kind but those that are to be kept, whole or not.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn keep_only(
        &mut self,
        kind: &str,
        is_kept: &dyn Fn(&str) -> bool,
    ) -> Result<(), ClusterError> {
        let mut remove = || {
            for name in self.names(kind, "0")?.iter().filter(|name| !is_kept(name)) {
                // Without its head first, it is not whole for anybody.
                for of in [format!("{name}.{HEAD}"), format!("{name}.>")] {
                    self.ask(&mut || Ask::Remove(&of))?;
                }
            }
            Ok(())
        };
        remove().map_err(|fault| self.error(fault))
    }

    fn put_file(&mut self, name: &str, about: &Value, from: &mut dyn Read) -> Result<(), LogFault> {
        if self.file_head(name)?.is_some() {
            return Ok(());
        }
        let settings = attest::store_settings(&self.name, self.node);
        self.ask(&mut || Ask::Make(&settings))?;
        let (mut pieces, mut bytes) = (0, 0);
        loop {
            let mut piece = Vec::new();
            let read = from.take(ENTRY_BYTES_MAX as u64).read_to_end(&mut piece);
            let count = read.map_err(|error| LogFault::Away(format!("{name}: {error}")))?;
            if count == 0 && pieces > 0 {
                break;
            }
            self.put_piece(&format!("{name}.{pieces}"), &piece)?;
            (pieces, bytes) = (pieces + 1, bytes + count as u64);
        }
        let head = Head { format: FORMAT, node: self.node, pieces, bytes, about: about.clone() };
        let head = serde_json::to_vec(&head).unwrap_or_default();
        self.put_piece(&format!("{name}.{HEAD}"), &head)
    }

    pub(crate) fn get_file(
        &mut self,
        name: &str,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Option<Value>, LogFault> {
        let Some(head) = self.file_head(name)? else { return Ok(None) };
        let incomplete = || LogFault::Incomplete(name.to_string());
        let mut bytes = 0;
        for piece in 0..head.pieces {
            let piece = self.piece(&format!("{name}.{piece}"))?.ok_or_else(incomplete)?;
            bytes += piece.len() as u64;
            each(&piece).map_err(|error| LogFault::Unpacked(error.to_string()))?;
        }
        if bytes == head.bytes { Ok(Some(head.about)) } else { Err(incomplete()) }
    }

    pub(crate) fn file_head(&mut self, name: &str) -> Result<Option<Head>, LogFault> {
        let Some(head) = self.piece(&format!("{name}.{HEAD}"))? else { return Ok(None) };
        let is_ours = |head: &Head| head.format == FORMAT && head.node == self.node;
        let head = serde_json::from_slice(&head).ok().filter(is_ours);
        head.map(Some).ok_or_else(|| LogFault::Incomplete(name.to_string()))
    }

    fn put_piece(&mut self, name: &str, bytes: &[u8]) -> Result<(), LogFault> {
        let sealed = self.key.seal_for(&place(name), bytes);
        let sealed = sealed.map_err(|error| LogFault::Away(format!("{name}: {error}")))?;
        self.ask(&mut || Ask::Put(name, sealed.clone())).map(drop)
    }

    /// Opens a piece; `None`: it is not there, or there is no store.
    fn piece(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogFault> {
        let found = match verdict::message(&self.engine.ask(Ask::Get(name))) {
            Err(NoResult::Refused(refusal)) if refusal.is_no_stream() => return Ok(None),
            found => found?,
        };
        let open = |(_, sealed): (u64, Vec<u8>)| {
            let opened = self.key.open_for(&place(name), &sealed);
            opened.map_err(|why| LogFault::Piece { name: name.to_string(), why })
        };
        found.map(open).transpose()
    }

    /// The files of a kind that have this piece.
    fn names(&mut self, kind: &str, piece: &str) -> Result<Vec<String>, LogFault> {
        let of = format!("{kind}.*.{piece}");
        let info = match verdict::result(&self.engine.ask(Ask::Names(&of))) {
            Err(NoResult::Refused(refusal)) if refusal.is_no_stream() => return Ok(Vec::new()),
            info => info?,
        };
        let (before, behind) = (self.name.piece(""), format!(".{piece}"));
        let subjects = info["state"]["subjects"].as_object().into_iter().flatten();
        let name = |(subject, _): (&String, _)| {
            subject.strip_prefix(&before)?.strip_suffix(&behind).map(str::to_string)
        };
        let mut names: Vec<String> = subjects.filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Asks until there is an answer.
    pub(crate) fn ask<'a>(&mut self, what: &mut dyn FnMut() -> Ask<'a>) -> Result<Value, LogFault> {
        let mut tries = 1..TRIES;
        loop {
            match (verdict::result(&self.engine.ask(what())), tries.next()) {
                (Err(NoResult::Doubt(_)), Some(_)) => std::thread::sleep(self.retry),
                (answer, _) => return Ok(answer?),
            }
        }
    }
}

fn place(name: &str) -> Vec<u8> {
    [b"base \0", name.as_bytes()].concat()
}
