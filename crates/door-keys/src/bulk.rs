//! The bulk stream: no JSON, no base64, no limit on items; answers begin before the request ends.
//!
//! ```text
//!  request:   length u32 | item,   length u32 | item, ...                                      all numbers little-endian
//!  response:  length u32 | result, length u32 | result, ...  0 u32 | items u64 | failed u64
//!
//!  a plaintext       its bytes, at least one
//!  a sealed message  key version u32 | what the type makes of it
//!  a failed item     0xFFFFFFFF and no result; the stream goes on
//! ```
//!
//! An empty plaintext is a failed item in both directions: as a result it could not be told from the end.

use std::ops::Range;

use vault::{Change, Drbg, Item, ItemError, KeyName, NamedKey, WipedBytes, reserve_wiped};

use crate::answer::{Audit, Halt, OneVersion, Refusal};
use crate::door::{Call, Gate, NotChanged, Room, unsupported_path};
use crate::request::{Method, query_value};
use crate::scope::Verb;
use crate::work::PART;

/// Begins the paths of bulk streams; `encrypt/NAME` or `decrypt/NAME` follows.
pub const BULK_PATH: &str = "/v1/transit/bulk/";
/// What a bulk stream is, either way.
pub(crate) const BULK_TYPE: &str = "application/octet-stream";
/// Stands for the length of an item that failed.
const FAILED: u32 = u32::MAX;
const LENGTH: usize = 4;
const VERSION: usize = 4;
/// Bytes of a stream's end: a length of 0, the items, those that failed.
const TRAILER: usize = LENGTH + 2 * size_of::<u64>();
/// Bytes of an item in a stream that comes in pieces: it is held until it is whole.
pub const STREAM_ITEM_BYTES_MAX: usize = 1 << 20;

/// A bulk stream under way.
pub struct Bulk {
    seals: bool,
    name: KeyName,
    /// The associated data of an item is its number from 0, as u64, little-endian.
    by_row: bool,
    item_bytes_max: usize,
    /// Of a stream its own, as threads work on it that have none; of a whole one `None`.
    random: Option<Drbg>,
    pending: WipedBytes,
    items: u64,
    failed: u64,
    /// What sealed or opened.
    version: OneVersion,
}

/// Why a stream ends early. No trailer is written: end the connection, so that the client sees that it was cut.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BulkError {
    /// An item is longer than a body may be, or than [`STREAM_ITEM_BYTES_MAX`] where the stream comes in pieces.
    #[error("item {item} has {bytes} bytes; at most {max} are possible")]
    TooLong {
        /// Its number, from 0.
        item: u64,
        /// Its length.
        bytes: u32,
        /// The limit.
        max: usize,
    },
    /// The request ended within an item.
    #[error("the request ends within item {item}")]
    Cut {
        /// Its number, from 0.
        item: u64,
    },
    /// Messages could not be reserved durably.
    #[error("the count of messages could not be made durable")]
    Unavailable,
    /// The keys were sealed meanwhile.
    #[error("{}", vault::Sealed)]
    Sealed,
    /// This thread may not wait, as with [`NotChanged::Elsewhere`]. The stream is not over: it goes on with [`Bulk::work`] on one that may.
    #[error("the stream goes on elsewhere")]
    Elsewhere,
}

impl BulkError {
    /// Returns the status that says so.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            BulkError::TooLong { .. } | BulkError::Cut { .. } => 400,
            BulkError::Unavailable | BulkError::Sealed | BulkError::Elsewhere => 503,
        }
    }

    /// Returns the body of that answer, JSON.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Refusal::new(self.status(), self.to_string()).write(&mut out);
        out
    }
}

/// How much of a stream waits to be worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Items that are whole.
    pub items: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl<G: Gate> Call<'_, G> {
    /// Begins what a path behind [`BULK_PATH`](crate::BULK_PATH) names: without a generator of its own, for [`Bulk::work_whole`].
    fn bulk(&mut self, path: &str) -> Result<Bulk, Halt> {
        let (verb, name) = path.split_once('/').ok_or_else(unsupported_path)?;
        let verb = match verb {
            "encrypt" => Verb::Encrypt,
            "decrypt" => Verb::Decrypt,
            _ => return Err(unsupported_path()),
        };
        if self.method != Method::Post {
            return Err(Refusal::framed(405, "unsupported operation").into());
        }
        let name = self.enter(verb, name)?;
        let key = self.gate.keys().get(name.as_str());
        let policy = key.ok_or_else(|| Refusal::bad("encryption key not found"))?.policy();
        if policy.soft_deleted {
            return Err(Refusal::soft_deleted().into());
        }
        if policy.kind.sealing().is_none() {
            return Err(Refusal::seals_nothing(verb == Verb::Encrypt, policy.kind).into());
        }
        if policy.derived {
            return Err(Refusal::bad(
                "a bulk stream has no contexts, which this derived key needs",
            )
            .into());
        }
        let by_row = match query_value(self.request.query, "aad") {
            None | Some("") => false,
            Some("row") => true,
            Some(_) => return Err(Refusal::bad("aad: expected row, or nothing").into()),
        };
        Ok(Bulk {
            seals: verb == Verb::Encrypt,
            name,
            by_row,
            item_bytes_max: self.settings.body_bytes_max,
            random: None,
            pending: WipedBytes::default(),
            items: 0,
            failed: 0,
            version: OneVersion::default(),
        })
    }

    /// Begins a stream that comes in pieces.
    pub(crate) fn bulk_stream(&mut self, path: &str) -> Result<Bulk, Halt> {
        let mut bulk = self.bulk(path)?;
        bulk.item_bytes_max = bulk.item_bytes_max.min(STREAM_ITEM_BYTES_MAX);
        bulk.random = Some(Drbg::new().map_err(|why| Refusal::framed(500, why))?);
        Ok(bulk)
    }

    /// Answers a stream whose whole request is the body. Nothing of one that ends early is answered.
    pub(crate) fn bulk_body(&mut self, verb: &str, name: &str) -> Result<u16, Halt> {
        let mut bulk = self.bulk(&format!("{verb}/{name}"))?;
        let (body, now_s) = (self.request.body, self.request.now_s);
        let Room { out, random, note, .. } = &mut *self.room;
        note.is_secret = !bulk.seals;
        let done = bulk.work_whole(body, self.gate, now_s, (out, random));
        let (items, failed) = done.map_err(|why| match why {
            BulkError::Elsewhere => Halt::Elsewhere,
            BulkError::Unavailable => Refusal::new(503, format!("{why}: ask again")).into(),
            why => Refusal::new(why.status(), why.to_string()).into(),
        })?;
        let note = &mut self.room.note;
        (note.items, note.failed, note.is_bulk) = (items, failed, true);
        note.version = bulk.version.get();
        Ok(200)
    }
}

impl Bulk {
    /// Takes the next bytes of the request, cut anywhere, and appends the results of all items that are whole to `out`. Of a stream that
    /// opens, these are plaintexts, for the caller to wipe.
    ///
    /// # Errors
    /// A [`BulkError`]: the stream is over.
    pub fn push<G: Gate>(
        &mut self,
        bytes: &[u8],
        gate: &mut G,
        now_s: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), BulkError> {
        self.take(bytes);
        self.work(gate, now_s, out)
    }

    /// Takes the next bytes of the request, cut anywhere, for [`Bulk::work`].
    pub fn take(&mut self, bytes: &[u8]) {
        self.pending.reserve(bytes.len());
        self.pending.extend_from_slice(bytes);
    }

    /// Appends the results of all items that are whole to `out`, as [`Bulk::push`] does.
    ///
    /// # Errors
    /// A [`BulkError`]: the stream is over, but for [`BulkError::Elsewhere`], which leaves to another call what is not in `out`.
    pub fn work<G: Gate>(
        &mut self,
        gate: &mut G,
        now_s: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), BulkError> {
        let Some(mut random) = self.random.take() else { return Err(BulkError::Unavailable) };
        let mut pending = std::mem::take(&mut self.pending);
        let (done, worked) = self.work_on(&pending, gate, now_s, (out, &mut random));
        pending.drain(..done);
        (self.pending, self.random) = (pending, Some(random));
        worked
    }

    /// Works on a stream of which nothing came before and nothing comes behind. Returns as [`Bulk::finish`] does.
    fn work_whole<G: Gate>(
        &mut self,
        bytes: &[u8],
        gate: &mut G,
        now_s: u64,
        (out, random): (&mut Vec<u8>, &mut Drbg),
    ) -> Result<(u64, u64), BulkError> {
        let (done, worked) = self.work_on(bytes, gate, now_s, (out, random));
        worked?;
        if done < bytes.len() {
            return Err(BulkError::Cut { item: self.items });
        }
        self.finish(out)
    }

    /// Appends the results of all items that are whole in `bytes` to `out`. Returns how many bytes these items are, and why no more of them.
    fn work_on<G: Gate>(
        &mut self,
        bytes: &[u8],
        gate: &mut G,
        now_s: u64,
        (out, random): (&mut Vec<u8>, &mut Drbg),
    ) -> (usize, Result<(), BulkError>) {
        self.make_room(waiting_in(bytes), gate, out);
        let (mut done, mut at) = (0, 0);
        loop {
            match self.whole(bytes, &mut at) {
                Ok(part) if part.is_empty() => return (done, Ok(())),
                Ok(part) => {
                    let to = (&mut *out, &mut *random);
                    if let Err(why) = self.work_part(bytes, &part, gate, now_s, to) {
                        return (done, Err(why));
                    }
                }
                Err(why) => return (done, Err(why)),
            }
            done = at;
        }
    }

    /// Makes room for the results of what waits, in one go, so that `out` is not moved from part to part.
    fn make_room<G: Gate>(&self, waiting: Waiting, gate: &G, out: &mut Vec<u8>) {
        let key = gate.keys().get(self.name.as_str());
        let kind = key.and_then(|key| key.policy().kind.sealing()).filter(|_| self.seals);
        // What stands around an item's bytes is never more than around none.
        let around = LENGTH + kind.map_or(0, |kind| VERSION + kind.sealed_len(0));
        let each = waiting.items.saturating_mul(around).saturating_add(TRAILER);
        reserve_wiped(out, waiting.bytes.saturating_add(each));
    }

    /// Tells how much there is to work on.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        waiting_in(&self.pending)
    }

    /// Returns the bytes that it holds of the request.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Returns the name of its key.
    #[must_use]
    pub fn key(&self) -> &KeyName {
        &self.name
    }

    /// Returns what it does with the key.
    #[must_use]
    pub fn verb(&self) -> Verb {
        if self.seals { Verb::Encrypt } else { Verb::Decrypt }
    }

    /// Returns what was done so far, for the audit.
    #[must_use]
    pub fn audit(&self) -> Audit<'_> {
        let (verb, key) = (Some(self.verb()), self.name.as_str());
        let version = self.version.get();
        Audit { verb, act: None, key, version, items: self.items, failed: self.failed }
    }

    /// Ends the request: appends the trailer. Returns how many items there were and how many of them failed.
    ///
    /// # Errors
    /// [`BulkError::Cut`] if the request ended within an item.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(u64, u64), BulkError> {
        if !self.pending.is_empty() {
            return Err(BulkError::Cut { item: self.items });
        }
        out.extend_from_slice(&0_u32.to_le_bytes());
        out.extend_from_slice(&self.items.to_le_bytes());
        out.extend_from_slice(&self.failed.to_le_bytes());
        Ok((self.items, self.failed))
    }

    /// Finds the next items that are whole, at most a part of them.
    fn whole(&self, pending: &[u8], at: &mut usize) -> Result<Vec<Range<usize>>, BulkError> {
        let mut part = Vec::new();
        while part.len() < PART {
            let rest = pending.get(*at..).unwrap_or_default();
            let Some(length) = rest.first_chunk().copied().map(u32::from_le_bytes) else { break };
            let count = usize::try_from(length).unwrap_or(usize::MAX);
            if count > self.item_bytes_max {
                let item = self.items + u64::try_from(part.len()).unwrap_or(0);
                return Err(BulkError::TooLong { item, bytes: length, max: self.item_bytes_max });
            }
            if rest.len() - LENGTH < count {
                break;
            }
            part.push(*at + LENGTH..*at + LENGTH + count);
            *at += LENGTH + count;
        }
        Ok(part)
    }

    fn work_part<G: Gate>(
        &mut self,
        pending: &[u8],
        part: &[Range<usize>],
        gate: &mut G,
        now_s: u64,
        (out, random): (&mut Vec<u8>, &mut Drbg),
    ) -> Result<(), BulkError> {
        if gate.keys().is_sealed() {
            return Err(BulkError::Sealed);
        }
        let inputs: Vec<&[u8]> =
            part.iter().map(|range| pending.get(range.clone()).unwrap_or_default()).collect();
        let rows: Vec<[u8; 8]> = (self.items..).take(part.len()).map(u64::to_le_bytes).collect();
        if self.seals {
            let version = self.reserve_messages(part.len(), gate, now_s)?;
            let key = self.key_of(gate);
            self.seal(key, version, (&inputs, &rows), out, random);
        } else {
            let key = self.key_of(gate);
            self.open(key, &inputs, &rows, out);
        }
        self.items += u64::try_from(part.len()).unwrap_or(0);
        Ok(())
    }

    /// Returns the key, unless it is gone or out of use.
    fn key_of<'g, G: Gate>(&self, gate: &'g G) -> Option<&'g NamedKey> {
        let key = gate.keys().get(self.name.as_str());
        key.filter(|key| !key.policy().soft_deleted)
    }

    /// Takes messages out of the latest version's count, and returns the version; 0 if it has none left, or the key is gone.
    fn reserve_messages<G: Gate>(
        &self,
        count: usize,
        gate: &mut G,
        now_s: u64,
    ) -> Result<u32, BulkError> {
        let messages = u64::try_from(count).unwrap_or(u64::MAX);
        loop {
            let Some(key) = self.key_of(gate) else { return Ok(0) };
            let version = key.versions().latest();
            let Some(found) = key.versions().get(version) else { return Ok(0) };
            if found.count().take(messages).is_ok() {
                return Ok(version);
            }
            let change = Change::Reserve { name: self.name.clone(), version, messages };
            match gate.change(change, now_s) {
                Ok(_) => {}
                Err(NotChanged::Impossible(_)) => return Ok(0),
                Err(NotChanged::Elsewhere) => return Err(BulkError::Elsewhere),
                Err(NotChanged::Unavailable) => return Err(BulkError::Unavailable),
            }
        }
    }

    fn aad<'r>(&self, row: &'r [u8; 8]) -> &'r [u8] {
        if self.by_row { row } else { &[] }
    }

    fn seal(
        &mut self,
        key: Option<&NamedKey>,
        number: u32,
        (inputs, rows): (&[&[u8]], &[[u8; 8]]),
        out: &mut Vec<u8>,
        random: &mut Drbg,
    ) {
        let version = key.and_then(|key| key.versions().get(number));
        let Some(Ok(Some(key))) = version.map(|version| version.key()) else {
            return inputs.iter().for_each(|_| self.fail(out));
        };
        let kind = key.kind();
        let places =
            Places::behind(out, inputs.iter().map(|input| VERSION + kind.sealed_len(input.len())));
        let mut items = Vec::with_capacity(inputs.len());
        for ((input, row), place) in inputs.iter().zip(rows).zip(places.of(out)) {
            let (begin, output) = place.split_at_mut(VERSION);
            begin.copy_from_slice(&number.to_le_bytes());
            items.push(Item::new(input, self.aad(row), output));
        }
        key.seal(&mut items, random);
        let written = |item: &Item<'_>| {
            let is_empty = item.input.is_empty();
            item.outcome.ok().filter(|_| !is_empty).map(|bytes| VERSION + bytes)
        };
        let written: Vec<Option<usize>> = items.iter().map(written).collect();
        if written.iter().any(Option::is_some) {
            self.version.add(number);
        }
        let (end, failed) = places.close(out, &written);
        out.truncate(end);
        self.failed += failed;
    }

    fn open(
        &mut self,
        key: Option<&NamedKey>,
        inputs: &[&[u8]],
        rows: &[[u8; 8]],
        out: &mut Vec<u8>,
    ) {
        let Some((key, kind)) = key.and_then(|key| Some((key, key.policy().kind.sealing()?)))
        else {
            return inputs.iter().for_each(|_| self.fail(out));
        };
        let parts = |input: &&'_ [u8]| {
            let number =
                input.first_chunk::<VERSION>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            (number, input.len().saturating_sub(VERSION))
        };
        let places =
            Places::behind(out, inputs.iter().map(|input| kind.opened_max(parts(input).1)));
        let mut items = Vec::with_capacity(inputs.len());
        for ((input, row), place) in inputs.iter().zip(rows).zip(places.of(out)) {
            items.push(Item::new(input.get(VERSION..).unwrap_or_default(), self.aad(row), place));
        }
        let written = |item: &Item<'_>| item.outcome.ok().filter(|bytes| *bytes > 0);
        let mut left = items.as_mut_slice();
        for run in inputs.chunk_by(|one, next| parts(one).0 == parts(next).0) {
            let (now, later) = left.split_at_mut(run.len());
            left = later;
            let number = run.first().map_or(0, |input| parts(input).0);
            let version =
                key.versions().opening(number).ok().and_then(|version| version.key().ok());
            match version.flatten() {
                Some(key) => {
                    key.open(now);
                    if now.iter().any(|item| written(item).is_some()) {
                        self.version.add(number);
                    }
                }
                None => now.iter_mut().for_each(|item| item.outcome = Err(ItemError::Refused)),
            }
        }
        let written: Vec<Option<usize>> = items.iter().map(written).collect();
        let (end, failed) = places.close(out, &written);
        out.truncate(end);
        self.failed += failed;
    }

    fn fail(&mut self, out: &mut Vec<u8>) {
        self.failed += 1;
        out.extend_from_slice(&FAILED.to_le_bytes());
    }
}

impl std::fmt::Debug for Bulk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Bulk {{ seals: {}, items: {}, failed: {} }}",
            self.seals, self.items, self.failed
        )
    }
}

/// Counts the items that are whole at the beginning of `bytes`.
fn waiting_in(bytes: &[u8]) -> Waiting {
    let (mut found, mut rest) = (Waiting::default(), bytes);
    while let Some((length, later)) = rest.split_first_chunk() {
        let count = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some(next) = later.get(count..) else { break };
        found.items += 1;
        found.bytes += count;
        rest = next;
    }
    found
}

/// Places for the results of a part at the end of an answer, each with room for its length and for the most that it may have: results are
/// made where they stay.
struct Places {
    /// Where the first one begins.
    from: usize,
    /// Bytes of each, with those of its length.
    rooms: Vec<usize>,
}

impl Places {
    /// Makes places behind what is in `out`, for results of at most so many bytes.
    fn behind(out: &mut Vec<u8>, most: impl Iterator<Item = usize>) -> Places {
        let from = out.len();
        let rooms: Vec<usize> = most.map(|bytes| LENGTH + bytes).collect();
        let total = rooms.iter().sum();
        reserve_wiped(out, total);
        out.resize(from + total, 0);
        Places { from, rooms }
    }

    /// Returns where each result goes.
    fn of<'o>(&self, out: &'o mut [u8]) -> impl Iterator<Item = &'o mut [u8]> {
        let mut rest = out.get_mut(self.from..).unwrap_or_default();
        self.rooms.iter().map(move |room| {
            let (place, later) = std::mem::take(&mut rest).split_at_mut(*room);
            rest = later;
            place.get_mut(LENGTH..).unwrap_or_default()
        })
    }

    /// Writes the lengths of the results, and closes the gaps between them: `None` is one that failed. Returns where the last one ends, behind
    /// which there are zeros then, and how many failed.
    fn close(&self, out: &mut [u8], written: &[Option<usize>]) -> (usize, u64) {
        let (mut place, mut to, mut failed) = (self.from, self.from, 0);
        for (room, bytes) in self.rooms.iter().zip(written) {
            let result = place + LENGTH..place + LENGTH + bytes.unwrap_or(0);
            place += room;
            failed += u64::from(bytes.is_none());
            // An item has less than 2 GiB.
            let length = bytes.map_or(FAILED, |bytes| u32::try_from(bytes).unwrap_or(FAILED));
            let begin = out.get_mut(to..to + LENGTH).unwrap_or_default();
            begin.copy_from_slice(&length.to_le_bytes());
            to += LENGTH;
            let next = to + result.len();
            if to < result.start {
                out.copy_within(result, to);
            }
            to = next;
        }
        // Copies of plaintexts may stand here.
        out.get_mut(to..).unwrap_or_default().fill(0);
        zeroize::optimization_barrier(out);
        (to, failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_results_are_closed_and_nothing_of_them_is_left_behind() {
        let mut out = b"before".to_vec();
        let places = Places::behind(&mut out, [8, 3, 0, 5].into_iter());
        for (place, byte) in places.of(&mut out).zip(b'a'..) {
            place.fill(byte);
        }
        let (end, failed) = places.close(&mut out, &[Some(3), None, None, Some(5)]);
        let expected = [
            &b"before"[..],
            &[3, 0, 0, 0, b'a', b'a', b'a'],
            &FAILED.to_le_bytes(),
            &FAILED.to_le_bytes(),
            &[5, 0, 0, 0, b'd', b'd', b'd', b'd', b'd'],
        ];
        assert_eq!((&out[..end], failed), (&expected.concat()[..], 2));
        assert_eq!(out.len(), 6 + 4 * LENGTH + 16);
        assert!(out[end..].iter().all(|byte| *byte == 0), "{out:?}");
    }
}
