//! Every file of a journal judged, and every snapshot compared with what the records lead to.

use std::time::Duration;

use ledger::{Bank, Options};
use ledger_journal::format::FileHead;
use ledger_journal::repair::{Examined, examine, segment_name, segment_number, snapshot_name};
use ledger_journal::snapshot::load;
use ledger_journal::{Damage, Fault, Position, ReadError, RecoverError, segment_head};

use super::trail::{Folder, Refusal};
use super::{JournalError, Progress};

/// Looks at a place that a running node may be writing to, and the time between them.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// One segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) head: Option<FileHead>,
    /// Sequences of the first and last sound record.
    pub(super) records: Option<(u64, u64)>,
    /// When the first and the last of them were gathered, ms since the Unix epoch.
    pub(super) times: Option<(u64, u64)>,
    /// After the last sound group.
    pub(super) end: Position,
    pub(super) offset: u64,
    pub(super) torn_bytes: u64,
    pub(super) fault: Option<Damage>,
}

/// A figure over all that a bank knows, and one over its books.
#[derive(Clone, Copy, Debug, Default)]
struct Digests {
    all: u64,
    books: u64,
}

impl Digests {
    fn of(bank: &Bank) -> Digests {
        Digests { all: bank.digest(), books: bank.books_digest() }
    }
}

/// One snapshot.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) sequence: u64,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) head: Option<FileHead>,
    digest: Digests,
    /// Written by a version that noted less beside the books than this one does.
    pub(super) is_earlier: bool,
    /// It is what the records before it lead to.
    pub(super) proven: bool,
    pub(super) fault: Option<String>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) segments: Vec<Segment>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) records: u64,
    /// Why a start refuses it; `None` if one goes on from it.
    pub(super) refusal: Option<String>,
}

impl Survey {
    pub(super) fn of(folder: &Folder) -> Result<Survey, JournalError> {
        let mut snapshots = Vec::new();
        for sequence in folder.snapshots()? {
            snapshots.push(Snapshot::read(folder, sequence)?);
        }
        let numbers = folder.segments()?;
        let bank = match numbers.first() {
            Some(1) => Some(Bank::new(Options::default())),
            _ => None,
        };
        let survey = Survey { segments: Vec::new(), snapshots, records: 0, refusal: None };
        let mut reading =
            Reading { folder, survey, bank, expected: None, progress: Progress::new() };
        if reading.bank.is_some() {
            reading.expected = Some(Position::START);
        }
        for (index, number) in numbers.iter().copied().enumerate() {
            reading.missing(number);
            reading.segment(number, numbers.get(index + 1).copied())?;
        }
        reading.rest();
        reading.judge()?;
        Ok(reading.survey)
    }

    /// Is there no damage?
    pub(super) fn is_sound(&self) -> bool {
        self.faults().next().is_none() && self.refusal.is_none()
    }

    /// What is wrong, a text each.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let segments = self.segments.iter().filter_map(|segment| segment.fault.as_ref());
        let snapshots = self.snapshots.iter().filter_map(|snapshot| {
            snapshot.fault.as_ref().map(|fault| format!("{}: {fault}", snapshot.name))
        });
        segments.map(ToString::to_string).chain(snapshots)
    }

    /// The newest snapshot that a start can use.
    pub(super) fn newest(&self) -> Option<&Snapshot> {
        self.snapshots.iter().rev().find(|snapshot| snapshot.fault.is_none())
    }

    /// The first segment that a start reads: behind the newest sound snapshot, or the first ever. `None` if there is
    /// neither.
    pub(super) fn start(&self) -> Option<u64> {
        let snapshot = self.newest().and_then(|snapshot| snapshot.head).map(|head| head.number);
        let first = || match self.segments.first() {
            Some(segment) if segment.number > 1 || segment.is_missing() => None,
            None if !self.snapshots.is_empty() => None,
            _ => Some(1),
        };
        snapshot.or_else(first)
    }

    /// The first damaged segment that a start would read.
    pub(super) fn obstacle(&self) -> Option<&Segment> {
        let start = self.start()?;
        self.segments.iter().find(|segment| segment.number >= start && segment.fault.is_some())
    }
}

impl Segment {
    /// The place of a file that must be there and is not.
    fn missing(number: u64, damage: Damage, end: Position) -> Segment {
        Segment {
            number,
            name: segment_name(number),
            bytes: 0,
            head: None,
            records: None,
            times: None,
            end,
            offset: 0,
            torn_bytes: 0,
            fault: Some(damage),
        }
    }

    fn is_missing(&self) -> bool {
        self.bytes == 0 && self.fault.as_ref().is_some_and(|fault| fault.what == Fault::Missing)
    }
}

struct Reading<'a> {
    folder: &'a Folder,
    survey: Survey,
    /// The state that the records so far lead to, where that is known.
    bank: Option<Bank>,
    /// What the next segment must continue, where that is known.
    expected: Option<Position>,
    progress: Progress,
}

impl Reading<'_> {
    /// Notes the segments that should be between the last one and this one.
    fn missing(&mut self, number: u64) {
        let Some(last) = self.survey.segments.last() else { return };
        let (due, end) = (last.number + 1, last.end);
        if due == number {
            return;
        }
        let what = Fault::Missing;
        let fault = Damage { file: segment_name(due), offset: 0, sequence: end.sequence, what };
        self.survey.segments.push(Segment::missing(due, fault, end));
        (self.bank, self.expected) = (None, None);
    }

    fn segment(&mut self, number: u64, next: Option<u64>) -> Result<(), JournalError> {
        let head = segment_head(&self.folder.disk, number).ok();
        self.compare(number, head.map(|head| head.position))?;
        let segment = self.read(number, next.filter(|next| *next == number + 1))?;
        self.expected = segment.fault.is_none().then_some(segment.end);
        if segment.fault.is_some() {
            self.bank = None;
        }
        self.survey.segments.push(segment);
        Ok(())
    }

    /// Compares the snapshots that were taken where a segment begins; the first sound one is where counting begins.
    fn compare(&mut self, number: u64, position: Option<Position>) -> Result<(), JournalError> {
        let digest = self.bank.as_ref().map(Digests::of);
        for snapshot in &mut self.survey.snapshots {
            if snapshot.head.is_some_and(|head| head.number == number) {
                snapshot.compare(position.or(self.expected), digest);
            }
            let begins = self.bank.is_none()
                && snapshot.fault.is_none()
                && snapshot.head.is_some_and(|head| head.number == number);
            if begins {
                let loaded = load(&self.folder.disk, snapshot.sequence, &Options::default());
                let loaded = loaded.map_err(|error| self.folder.failed(error))?;
                self.bank = Some(loaded.bank);
                self.expected = Some(loaded.head.position);
            }
        }
        Ok(())
    }

    fn read(&mut self, number: u64, next: Option<u64>) -> Result<Segment, JournalError> {
        let name = segment_name(number);
        let (mut records, mut times) = (None, None);
        let (bank, progress) = (&mut self.bank, &mut self.progress);
        // Where the next one begins is known only as long as its head can be read.
        let next = next.and_then(|next| {
            segment_head(&self.folder.disk, next).ok().map(|head| (next, head.position))
        });
        let examined =
            examine(&self.folder.disk, number, self.expected, next, &mut |place, record| {
                progress.count();
                if let Some(bank) = bank {
                    bank.replay(&record).map_err(|error| {
                        Fault::Replay(format!("record {}: {error}", place.at.sequence))
                    })?;
                }
                let (sequence, at_ms) = (place.at.sequence, place.at.at_ms);
                records = Some((records.map_or(sequence, |(first, _)| first), sequence));
                times = Some((times.map_or(at_ms, |(first, _)| first), at_ms));
                Ok(())
            });
        let mut examined = examined.map_err(|error| self.folder.failed(error))?;
        if examined.fault.is_some() && next.is_none() && self.grows(number, &examined)? {
            (examined.fault, examined.torn_bytes) = (None, 0);
        }
        let counted: Option<(u64, u64)> = records;
        self.survey.records += counted.map_or(0, |(first, last)| last - first + 1);
        let path = self.folder.path.join(&name);
        let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Ok(Segment {
            number,
            name,
            bytes,
            head: examined.head,
            records,
            times,
            end: examined.position,
            offset: examined.offset,
            torn_bytes: examined.torn_bytes,
            fault: examined.fault,
        })
    }

    /// Is a fault only a node that was seen in the middle of a write? Then a later look gets beyond the place.
    fn grows(&self, number: u64, seen: &Examined) -> Result<bool, JournalError> {
        for _ in 0..LOOKS {
            if !self.folder.is_running() {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
            let again = examine(&self.folder.disk, number, None, None, &mut |_, _| Ok(()));
            let again = again.map_err(|error| self.folder.failed(error))?;
            if again.offset > seen.offset {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Snapshots that no segment follows. What a start makes of the newest one is not judged here.
    fn rest(&mut self) {
        let numbers: Vec<u64> = self.survey.segments.iter().map(|segment| segment.number).collect();
        let after = numbers.last().map(|last| last + 1);
        let newest = self.survey.newest().map(|snapshot| snapshot.sequence);
        let digest = self.bank.as_ref().map(Digests::of);
        let expected = self.expected;
        for snapshot in &mut self.survey.snapshots {
            let Some(head) = snapshot.head else { continue };
            if numbers.contains(&head.number) || snapshot.fault.is_some() {
                continue;
            }
            if after == Some(head.number) {
                snapshot.compare(expected, digest);
            } else if newest != Some(snapshot.sequence)
                && numbers.first().is_some_and(|first| head.number < *first)
            {
                let name = segment_name(head.number);
                snapshot.fault = Some(format!("{name}, which its tail begins with, is missing"));
            }
        }
    }

    /// Asks what a start would say. A file that it misses gets a line among the others.
    fn judge(&mut self) -> Result<(), JournalError> {
        let Some(refusal) = self.folder.refusal()? else { return Ok(()) };
        self.survey.refusal = Some(refusal.to_string());
        let Refusal::Recover(RecoverError::Read(ReadError::Damage(damage))) = refusal else {
            return Ok(());
        };
        let segments = &mut self.survey.segments;
        let Some(number) = segment_number(&damage.file) else { return Ok(()) };
        if damage.what == Fault::Missing && segments.iter().all(|segment| segment.number != number)
        {
            let newest = self.survey.snapshots.iter().rev().find_map(|snapshot| snapshot.head);
            let end = newest.filter(|head| head.number == number).map(|head| head.position);
            let at = segments.partition_point(|segment| segment.number < number);
            segments.insert(at, Segment::missing(number, damage, end.unwrap_or(Position::START)));
        }
        Ok(())
    }
}

impl Snapshot {
    fn read(folder: &Folder, sequence: u64) -> Result<Snapshot, JournalError> {
        let name = snapshot_name(sequence);
        let bytes = std::fs::metadata(folder.path.join(&name)).map_or(0, |found| found.len());
        let (digest, is_earlier) = (Digests::default(), false);
        let mut snapshot = Snapshot {
            sequence,
            name,
            bytes,
            head: None,
            digest,
            is_earlier,
            proven: false,
            fault: None,
        };
        match load(&folder.disk, sequence, &Options::default()) {
            Ok(loaded) => {
                (snapshot.head, snapshot.digest) = (Some(loaded.head), Digests::of(&loaded.bank));
                snapshot.is_earlier = loaded.version < wire::journal::SCHEMA_VERSION;
                if loaded.head.position.sequence != sequence {
                    snapshot.fault = Some("its name and its head differ".into());
                }
            }
            Err(ReadError::Damage(damage)) => {
                snapshot.fault =
                    Some(format!("damaged at byte {}: {}", damage.offset, damage.what));
            }
            Err(error) => return Err(folder.failed(error)),
        }
        Ok(snapshot)
    }

    fn compare(&mut self, position: Option<Position>, digest: Option<Digests>) {
        let continues = self.head.map(|head| head.position);
        if self.fault.is_none() && position.is_some() && position != continues {
            self.fault =
                Some("its place is not one in the segments: it is of another journal".into());
        }
        let Some(digest) = digest.filter(|_| self.fault.is_none()) else { return };
        // What an earlier version did not note cannot be compared.
        let books = self.is_earlier && digest.books == self.digest.books;
        self.proven = books || digest.all == self.digest.all;
        if !self.proven {
            self.fault = Some("its state is not the one that the records before it lead to".into());
        }
    }
}
