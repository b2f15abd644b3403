//! The log: groups to entries and back, and what an append has come to.

use std::io;
use std::ops::ControlFlow;

use ledger_journal::{Durability, EntryHead, Group, Log, NotAppended, Position, ReadError};
use serde_json::Value;

use crate::verdict::{Appended, Extent, Found, NoResult, Rival};
use crate::{ClusterError, ClusterName, Engine, EntryKey, JetStream, Reply, attest, verdict};

/// Bytes of a group in an entry, at most: servers take a message of 1 MiB by default, and a reader holds many.
pub const ENTRY_BYTES_MAX: usize = 256 << 10;

/// A place in the log: between two records, and between two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Between which records.
    pub position: Position,
    /// Number of the entry before it; 0 before the first.
    pub entry: u64,
}

impl Place {
    /// Before the first record.
    pub const START: Place = Place { position: Position::START, entry: 0 };
}

/// The log of a cluster.
#[derive(Debug)]
pub struct ClusterLog<E = JetStream> {
    engine: E,
    name: ClusterName,
    key: EntryKey,
    place: Place,
    /// Which servers these are, for texts.
    servers: String,
}

impl<E: Engine> ClusterLog<E> {
    /// Begins before the first record. [`ClusterLog::seek`] and [`ClusterLog::read_on`] move on from there. `servers` is for texts.
    pub fn new(engine: E, name: ClusterName, key: EntryKey, servers: String) -> ClusterLog<E> {
        ClusterLog { engine, name, key, place: Place::START, servers }
    }

    /// After the last group that this process knows to be in the log.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Makes the stream.
    ///
    /// # Errors
    /// [`ClusterError`], also where there is a stream of this name with other settings.
    pub fn create(&mut self) -> Result<(), ClusterError> {
        let reply = self.engine.create(&attest::stream_settings(&self.name));
        verdict::result(&reply).map(drop).map_err(|error| self.failed(error))
    }

    /// Goes to a position that this node knows to be in the log, such as the end of its own journal, once the log has the same there.
    ///
    /// # Errors
    /// [`ClusterError::Behind`] where the log ends earlier, [`ClusterError::Fork`] where it has another history, and the others.
    pub fn seek(&mut self, position: &Position) -> Result<Place, ClusterError> {
        let entry = self.locate(position)?;
        self.place = Place { position: *position, entry };
        Ok(self.place)
    }

    /// Hands the groups behind the own place on to `each`, in order, each checked against the one before, and goes on behind the last one.
    /// What is read may be old: the next append tells.
    ///
    /// # Errors
    /// [`ClusterError`]. Groups before the error were handed on.
    pub fn read_on(
        &mut self,
        each: &mut dyn FnMut(&Group) -> ControlFlow<()>,
    ) -> Result<(), ClusterError> {
        let (mut at, stream) = (self.place, self.name.stream());
        let mut failure = None;
        let done = self.open_from(self.place, &mut |entry, bytes| match Group::read(
            bytes,
            &at.position,
        ) {
            Ok(group) => {
                at = Place { position: *group.after(), entry };
                each(&group)
            }
            Err(fault) => {
                let (stream, last) = (stream.clone(), at.position.sequence - 1);
                failure = Some(ClusterError::Fork { stream, entry, last, why: fault.to_string() });
                ControlFlow::Break(())
            }
        });
        self.place = at;
        failure.map_or(done, Err)
    }

    /// Hands the entries behind a place on, decrypted.
    fn open_from(
        &mut self,
        behind: Place,
        each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ClusterError> {
        let (mut next, mut failure, stream) = (behind.entry + 1, None, self.name.stream());
        let key = &self.key;
        let done = self.engine.entries(next, &mut |entry, sealed| {
            let opened = match entry == next {
                true => key.open(entry, sealed).map_err(|why| ClusterError::Entry {
                    stream: stream.clone(),
                    entry,
                    why,
                }),
                false => Err(ClusterError::Hole { stream: stream.clone(), entry: next }),
            };
            next += 1;
            match opened {
                Ok(group) => each(entry, &group),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        match (failure, done) {
            (Some(ClusterError::Hole { entry, .. }), _) if entry == behind.entry + 1 => {
                Err(self.missing(behind))
            }
            (Some(error), _) => Err(error),
            (None, Err(why)) => Err(self.failed(NoResult::Doubt(why))),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Returns why there is no entry behind a place although there are later ones.
    fn missing(&mut self, behind: Place) -> ClusterError {
        let (stream, entry) = (self.name.stream(), behind.entry + 1);
        let first = match self.extent() {
            Ok(extent) if extent.first > entry => self.head(extent.first),
            Ok(_) => Err(ClusterError::Hole { stream: stream.clone(), entry }),
            Err(error) => Err(error),
        };
        match first {
            Ok(head) => ClusterError::Trimmed {
                stream,
                first: head.records.start,
                wanted: behind.position.sequence,
            },
            Err(error) => error,
        }
    }

    /// Returns the number of the entry before a position, once the log is known to have that position.
    fn locate(&mut self, at: &Position) -> Result<u64, ClusterError> {
        if *at == self.place.position {
            return Ok(self.place.entry);
        }
        let Extent { first, last } = self.extent()?;
        // The first entry whose records are all behind the position.
        let (mut low, mut high) = (first, last + 1);
        while low < high {
            let middle = low.midpoint(high);
            match self.head(middle)?.records.start < at.sequence {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let entry = low - 1;
        self.check(at, entry, Extent { first, last })?;
        Ok(entry)
    }

    /// Checks that an entry ends at a position, or that the position is where the log begins.
    fn check(&mut self, at: &Position, entry: u64, extent: Extent) -> Result<(), ClusterError> {
        let stream = self.name.stream();
        let known = at.sequence - 1;
        if entry >= extent.first {
            let head = self.head(entry)?;
            let why = match (head.records.end == at.sequence, head.hash == at.hash) {
                (true, true) => return Ok(()),
                _ if head.records.end < at.sequence => {
                    let last = head.records.end - 1;
                    return Err(ClusterError::Behind { stream, last, known });
                }
                (false, _) => format!("its last record is {}", head.records.end - 1),
                (true, false) => "its hash is another one".to_string(),
            };
            return Err(ClusterError::Fork { stream, entry, last: known, why });
        }
        // Nothing of the log is before the position.
        if extent.last < extent.first {
            return match (*at == Position::START, extent.last) {
                (true, 0) => Ok(()),
                _ => Err(ClusterError::Behind { stream, last: 0, known }),
            };
        }
        let next = self.group(extent.first)?;
        let begins = EntryHead::read(&next).map_or(0, |head| head.records.start);
        if begins != at.sequence {
            return Err(ClusterError::Trimmed { stream, first: begins, wanted: at.sequence });
        }
        let fork = |fault: ledger_journal::Fault| ClusterError::Fork {
            stream,
            entry: extent.first,
            last: known,
            why: fault.to_string(),
        };
        Group::read(&next, at).map(drop).map_err(fork)
    }

    /// Returns the group of one entry.
    fn group(&mut self, entry: u64) -> Result<Vec<u8>, ClusterError> {
        let stream = self.name.stream();
        match verdict::found(&self.engine.entry(entry), entry) {
            Found::Entry(sealed) => {
                let opened = self.key.open(entry, &sealed);
                opened.map_err(|why| ClusterError::Entry { stream, entry, why })
            }
            Found::None => Err(ClusterError::Hole { stream, entry }),
            Found::Doubt(why) => Err(self.failed(NoResult::Doubt(why))),
        }
    }

    fn head(&mut self, entry: u64) -> Result<EntryHead, ClusterError> {
        let group = self.group(entry)?;
        EntryHead::read(&group).ok_or_else(|| {
            let why = format!(
                "entry {entry} holds no group of a journal: another program writes to this stream"
            );
            self.failed(NoResult::Doubt(why))
        })
    }

    fn info(&mut self) -> Result<Value, ClusterError> {
        verdict::result(&self.engine.info()).map_err(|error| self.failed(error))
    }

    fn extent(&mut self) -> Result<Extent, ClusterError> {
        let info = self.info()?;
        let unknown = || NoResult::Doubt("the engine does not say where its stream ends".into());
        verdict::extent(&info).ok_or_else(|| self.failed(unknown()))
    }

    fn failed(&self, error: NoResult) -> ClusterError {
        let (stream, servers) = (self.name.stream(), self.servers.clone());
        match error {
            NoResult::Refused(refusal) if refusal.is_no_stream() => {
                ClusterError::NoStream { stream, servers }
            }
            NoResult::Refused(refusal) => {
                ClusterError::Refused { stream, why: refusal.to_string() }
            }
            NoResult::Doubt(why) => ClusterError::Away { servers, why },
        }
    }

    fn unknown(&self, why: &dyn std::fmt::Display) -> NotAppended {
        let text = format!("{} at {}: {why}", self.name.stream(), self.servers);
        NotAppended::Unknown(io::Error::other(text))
    }

    /// Finds out what stands in the place of a group.
    fn compare(&mut self, entry: u64, group: &Group) -> Result<(), NotAppended> {
        match verdict::found(&self.engine.entry(entry), entry) {
            Found::Entry(sealed) => {
                let opened = self.key.open(entry, &sealed);
                match verdict::rival(opened.as_deref().map_err(|why| *why), group.entry()) {
                    Rival::Ours => Ok(()),
                    Rival::Other => Err(NotAppended::Fenced),
                    Rival::Doubt(why) => Err(self.unknown(&format!("entry {entry}: {why}"))),
                }
            }
            // Trimmed by whoever is the bank now, or lost.
            Found::None => match self.extent() {
                Ok(extent) if extent.first > entry => Err(NotAppended::Fenced),
                Ok(_) => Err(self.unknown(&format!("entry {entry} is taken, and missing"))),
                Err(error) => Err(self.unknown(&error)),
            },
            Found::Doubt(why) => Err(self.unknown(&why)),
        }
    }

    /// Returns the last record of a log that ends too early.
    fn last_record(&mut self, entry: u64) -> Result<u64, NotAppended> {
        if entry == 0 {
            return Ok(0);
        }
        match self.head(entry) {
            Ok(head) => Ok(head.records.end - 1),
            Err(ClusterError::Hole { .. }) => Ok(0),
            Err(error) => Err(self.unknown(&error)),
        }
    }
}

impl<E: Engine> Log for ClusterLog<E> {
    fn position(&self) -> &Position {
        &self.place.position
    }

    fn append(&mut self, group: &Group) -> Result<(), NotAppended> {
        if group.after() == &self.place.position {
            return Ok(());
        }
        if group.before() != &self.place.position {
            return Err(NotAppended::misplaced(group, &self.place.position));
        }
        let bytes = group.entry();
        if bytes.len() > ENTRY_BYTES_MAX {
            let text =
                format!("a group of {} bytes: an entry holds {ENTRY_BYTES_MAX}", bytes.len());
            return Err(self.unknown(&text));
        }
        let entry = self.place.entry + 1;
        let sealed = self.key.seal(entry, bytes).map_err(|error| self.unknown(&error))?;
        let first_record = group.before().sequence;
        let reply: Reply = self.engine.append(self.place.entry, first_record, sealed);
        match verdict::appended(&reply, &self.name.stream(), entry) {
            Appended::Yes => {}
            Appended::Taken => self.compare(entry, group)?,
            Appended::Short(last) => {
                return Err(NotAppended::Forgot { last: self.last_record(last)? });
            }
            Appended::Misplaced(number) => {
                tracing::error!(
                    expected = entry,
                    number,
                    "the engine appended without comparing: its version is too old, or its stream was replaced"
                );
                return Err(NotAppended::Fenced);
            }
            Appended::Doubt(why) => return Err(self.unknown(&why)),
        }
        self.place = Place { position: *group.after(), entry };
        Ok(())
    }

    fn read(
        &mut self,
        at: &Position,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let stream = self.name.stream();
        let entry = self.locate(at).map_err(|error| error.reading(&stream))?;
        let behind = Place { position: *at, entry };
        self.open_from(behind, &mut |_, group| each(group)).map_err(|error| error.reading(&stream))
    }

    fn attest(&mut self) -> Result<Durability, String> {
        let info = self.info().map_err(|error| error.to_string())?;
        attest::engine(&self.name, &info, &self.engine.monitors())?;
        Ok(Durability::Sealed)
    }

    fn segments_begun(&self) -> u64 {
        0
    }
}
