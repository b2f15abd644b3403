//! The log: groups to entries and back, and what an append has come to.

use std::cmp::Ordering;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ledger_journal::{Durability, EntryHead, Fault, Group, Log, NotAppended, Position, ReadError};

use crate::verdict::{Appended, Extent, Found, Rival};
use crate::{
    ClusterError, ClusterName, Engine, EntryKey, JetStream, LogFault, OpenError, attest, verdict,
};

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

/// Takes an entry with its number; a break or a fault ends the reading.
type Each<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<ControlFlow<()>, LogFault>;

/// How long an engine has to say that it ends before what it acknowledged, until that is believed: a server that was stopped may answer as the
/// leader that it was.
const FORGOT_AFTER: Duration = Duration::from_secs(3);

/// A store that was made just now has no leader for some times this.
const RETRY: Duration = Duration::from_millis(200);

/// The log of a cluster.
#[derive(Debug)]
pub struct ClusterLog<E = JetStream> {
    pub(crate) engine: E,
    pub(crate) name: ClusterName,
    /// `node.id` of all members.
    pub(crate) node: u16,
    pub(crate) key: EntryKey,
    pub(crate) place: Place,
    /// The stream and its servers, for texts.
    log: String,
    /// Since when the engine has said nothing but that it ends before `place`.
    pub(crate) short_since: Option<Instant>,
    pub(crate) forgot_after: Duration,
    /// What is asked beside the entries is asked again after this time.
    pub(crate) retry: Duration,
}

impl<E: Engine> ClusterLog<E> {
    /// Begins before the first record. [`ClusterLog::seek`] and [`ClusterLog::read_on`] move on from there. `servers` is for texts.
    pub fn new(
        engine: E,
        name: ClusterName,
        node: u16,
        key: EntryKey,
        servers: &str,
    ) -> ClusterLog<E> {
        let log = format!("{} at {servers}", name.stream());
        let (place, forgot_after) = (Place::START, FORGOT_AFTER);
        let retry = RETRY;
        ClusterLog { engine, name, node, key, place, log, short_since: None, forgot_after, retry }
    }

    /// After the last group that this process knows to be in the log.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Makes the stream, unless it is there, for a journal that ends with this record: no run begins before the log has all of it. Returns the
    /// record that the stream was made with.
    ///
    /// # Errors
    /// [`ClusterError`], also where there is a stream of this name with other settings.
    pub fn create(&mut self, records: u64) -> Result<u64, ClusterError> {
        let records = match verdict::result(&self.engine.info()).map_err(LogFault::from) {
            Ok(info) => attest::records(&info),
            Err(LogFault::NoStream) => records,
            Err(fault) => return Err(self.error(fault)),
        };
        let reply = self.engine.create(&attest::stream_settings(&self.name, self.node, records));
        verdict::result(&reply).map_err(|error| self.error(error.into()))?;
        Ok(records)
    }

    /// Judges the stream and every server that holds it: all have to answer. [`Log::attest`] takes most of them for enough, as a node has
    /// to begin while a server is gone.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn attest_all(&mut self) -> Result<(), String> {
        self.judge(true)
    }

    fn judge(&mut self, all: bool) -> Result<(), String> {
        let info = verdict::result(&self.engine.info());
        let info = info.map_err(|error| self.error(error.into()).to_string())?;
        let pages = self.engine.monitors();
        let silent = attest::engine(&self.name, self.node, &info, &pages, all)?;
        for why in silent {
            tracing::error!(why, "the log goes on with the other servers");
        }
        Ok(())
    }

    /// Returns the number of the last entry, 0 if there never was one. It may be old.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn last_entry(&mut self) -> Result<u64, ClusterError> {
        self.extent().map(|extent| extent.last).map_err(|fault| self.error(fault))
    }

    /// Goes to a position that this node knows to be in the log, such as the end of its own journal, once the log has the same there.
    ///
    /// # Errors
    /// [`LogFault::Behind`] where the log ends earlier, [`LogFault::Fork`] where it has another history, and the others.
    pub fn seek(&mut self, position: &Position) -> Result<Place, ClusterError> {
        let entry = self.locate(position).map_err(|fault| self.error(fault))?;
        self.place = Place { position: *position, entry };
        Ok(self.place)
    }

    /// The same, and asks the log also where it knows the place already: the log may have forgotten it since.
    pub(crate) fn seek_again(&mut self, position: &Position) -> Result<Place, ClusterError> {
        let extent = self.extent().map_err(|fault| self.error(fault))?;
        let (place, is_known) = (self.place, *position == self.place.position);
        if is_known && (extent.first..=extent.last).contains(&place.entry) {
            self.check(position, place.entry, extent).map_err(|fault| self.error(fault))?;
            return Ok(place);
        }
        self.place = Place::START;
        self.seek(position)
    }

    /// Goes back to a place before: what is behind it is read again.
    pub(crate) fn go_back(&mut self, place: Place) {
        self.place = place;
    }

    /// Hands the groups behind the own place on to `each`, each with the place behind it, in order, checked against the one before, and goes
    /// on behind the last one.
    /// What is read may be old: the next append tells.
    ///
    /// # Errors
    /// [`ClusterError`]. Groups before the error were handed on.
    pub fn read_on(
        &mut self,
        each: &mut dyn FnMut(Place, &Group) -> ControlFlow<()>,
    ) -> Result<(), ClusterError> {
        let mut at = self.place;
        let done = self.open_from(self.place, &mut |entry, bytes| {
            let group = Group::read(bytes, &at.position).map_err(|fault| {
                let wanted = at.position.sequence;
                match EntryHead::read(bytes).map(|head| head.records.start) {
                    // The first entry of a log that does not begin with the first record.
                    Some(first) if at.entry == 0 && first > wanted => {
                        LogFault::Trimmed { first, wanted }
                    }
                    _ => LogFault::Fork { entry, last: wanted - 1, why: fault.to_string() },
                }
            })?;
            at = Place { position: *group.after(), entry };
            Ok(each(at, &group))
        });
        self.place = at;
        done.map_err(|fault| self.error(fault))
    }

    pub(crate) fn error(&self, fault: LogFault) -> ClusterError {
        ClusterError { log: self.log.clone(), fault }
    }

    /// Hands the entries behind a place on, decrypted.
    fn open_from(&mut self, behind: Place, each: Each<'_>) -> Result<(), LogFault> {
        let (mut next, mut failure, key) = (behind.entry + 1, None, &self.key);
        let done = self.engine.entries(next, &mut |entry, sealed| {
            let opened = match entry == next {
                true => key.open(entry, sealed).map_err(|why| LogFault::Entry { entry, why }),
                false => Err(LogFault::Hole(next)),
            };
            next += 1;
            opened.and_then(|group| each(entry, &group)).unwrap_or_else(|fault| {
                failure = Some(fault);
                ControlFlow::Break(())
            })
        });
        match failure {
            None => done.map_err(LogFault::Away),
            Some(LogFault::Hole(entry)) if entry == behind.entry + 1 => Err(self.missing(behind)?),
            Some(fault) => Err(fault),
        }
    }

    /// Returns why there is no entry behind a place although there are later ones.
    fn missing(&mut self, behind: Place) -> Result<LogFault, LogFault> {
        let (entry, first) = (behind.entry + 1, self.extent()?.first);
        if first <= entry {
            return Ok(LogFault::Hole(entry));
        }
        let first = self.head(first)?.records.start;
        Ok(LogFault::Trimmed { first, wanted: behind.position.sequence })
    }

    /// Returns the number of the entry before a position, once the log is known to have that position.
    pub(crate) fn locate(&mut self, at: &Position) -> Result<u64, LogFault> {
        if *at == self.place.position {
            return Ok(self.place.entry);
        }
        let extent = self.extent()?;
        // The first entry whose records are all behind the position.
        let (mut low, mut high) = (extent.first, extent.last + 1);
        while low < high {
            let middle = low.midpoint(high);
            match self.head(middle)?.records.start < at.sequence {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        self.check(at, low - 1, extent)?;
        Ok(low - 1)
    }

    /// Checks that an entry ends at a position, or that the position is where the log begins.
    fn check(&mut self, at: &Position, entry: u64, extent: Extent) -> Result<(), LogFault> {
        let known = at.sequence - 1;
        if entry >= extent.first {
            let head = self.head(entry)?;
            let last = head.records.end - 1;
            let why = match last.cmp(&known) {
                Ordering::Equal if head.hash == at.hash => return Ok(()),
                Ordering::Less => return Err(LogFault::Behind { last, known }),
                Ordering::Equal => "its hash is another one".to_string(),
                Ordering::Greater => format!("its last record is {last}"),
            };
            return Err(LogFault::Fork { entry, last: known, why });
        }
        // Nothing of the log is before the position.
        if extent.last < extent.first {
            return match (*at == Position::START, extent.last) {
                (true, 0) => Ok(()),
                _ => Err(LogFault::Behind { last: 0, known }),
            };
        }
        let first = self.head(extent.first)?.records.start;
        if first != at.sequence {
            return Err(LogFault::Trimmed { first, wanted: at.sequence });
        }
        let (entry, next) = (extent.first, self.group(extent.first)?);
        let fork = |fault: Fault| LogFault::Fork { entry, last: known, why: fault.to_string() };
        Group::read(&next, at).map(drop).map_err(fork)
    }

    /// Returns the group of one entry.
    fn group(&mut self, entry: u64) -> Result<Vec<u8>, LogFault> {
        match verdict::found(&self.engine.entry(entry), entry) {
            Found::Entry(sealed) => {
                self.key.open(entry, &sealed).map_err(|why| LogFault::Entry { entry, why })
            }
            Found::None => Err(LogFault::Hole(entry)),
            Found::Doubt(why) => Err(LogFault::Away(why)),
        }
    }

    pub(crate) fn head(&mut self, entry: u64) -> Result<EntryHead, LogFault> {
        let head = EntryHead::read(&self.group(entry)?);
        let is_one = |head: &EntryHead| head.records.start > 0 && !head.records.is_empty();
        head.filter(is_one).ok_or(LogFault::Entry { entry, why: OpenError::NoGroup })
    }

    pub(crate) fn extent(&mut self) -> Result<Extent, LogFault> {
        let info = verdict::result(&self.engine.info())?;
        let unknown = || LogFault::Away("the engine does not say where the stream ends".into());
        verdict::extent(&info).ok_or_else(unknown)
    }

    fn unknown(&self, why: &dyn std::fmt::Display) -> NotAppended {
        NotAppended::Unknown(io::Error::other(format!("{}: {why}", self.log)))
    }

    /// Finds out what stands in the place of a group.
    fn compare(&mut self, entry: u64, group: &Group) -> Result<(), NotAppended> {
        match verdict::rival(self.group(entry), group.entry()) {
            Rival::Ours => Ok(()),
            Rival::Other => Err(NotAppended::Fenced),
            Rival::Doubt(fault) => Err(self.unknown(&fault)),
            // Trimmed by whoever is the bank now, or lost.
            Rival::Missing => match self.extent() {
                Ok(extent) if extent.first > entry => Err(NotAppended::Fenced),
                Ok(_) => Err(self.unknown(&LogFault::Hole(entry))),
                Err(fault) => Err(self.unknown(&fault)),
            },
        }
    }

    /// The engine says that it ends with this entry, before the own place.
    fn short(&mut self, entry: u64) -> NotAppended {
        let since = *self.short_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.forgot_after {
            let why =
                format!("it ends with entry {entry}, and {} was acknowledged", self.place.entry);
            return self.unknown(&why);
        }
        let last = match entry {
            0 => Ok(0),
            _ => self.head(entry).map(|head| head.records.end - 1),
        };
        match last {
            Ok(last) => NotAppended::Forgot { last },
            Err(LogFault::Hole(_)) => NotAppended::Forgot { last: 0 },
            Err(fault) => self.unknown(&fault),
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
        let reply = self.engine.append(self.place.entry, first_record, sealed);
        let appended = verdict::appended(&reply, &self.name.stream(), entry);
        if !matches!(appended, Appended::Short(_)) {
            self.short_since = None;
        }
        match appended {
            Appended::Yes => {}
            Appended::Taken => self.compare(entry, group)?,
            Appended::Short(last) => return Err(self.short(last)),
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
        let read = self.locate(at).and_then(|entry| {
            let behind = Place { position: *at, entry };
            self.open_from(behind, &mut |_, group| Ok(each(group)))
        });
        let file = self.name.stream();
        read.map_err(|fault| ReadError::Io { file, source: io::Error::other(self.error(fault)) })
    }

    fn attest(&mut self) -> Result<Durability, String> {
        self.judge(false).map(|()| Durability::Sealed)
    }

    fn segments_begun(&self) -> u64 {
        0
    }
}
