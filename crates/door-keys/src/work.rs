//! A part of a batch while it is worked on.

use std::fmt;
use std::ops::Range;

use vault::{
    Drbg, Item, ItemError, Key, KeyError, KeyVersion, NamedKey, TextError, VersionError, split_text,
};

use crate::base64::{Base64, make_whole, room_for, written_len};
use crate::body::{BatchItem, ItemText};
use crate::json::Span;

/// Items that are worked on at once: what they need stays in the processor's caches.
pub(crate) const PART: usize = 256;
/// Bytes of base64 up to which the texts of a part are read and written together, which is for short ones: long ones gain nothing by it, and
/// would be copied once more.
const TOGETHER: usize = 128 << 10;
/// Bytes of a buffer that stay allocated between requests.
const KEPT: usize = 1 << 20;
/// Bytes that four symbols of base64 stand for. Results begin at multiples of it, so that all of them can be written in one go.
const GROUP: usize = 3;
/// Bytes of Transit's nonce, below which a message is none.
const NONCE: usize = 12;

/// Why an item has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemFault {
    Text(&'static str),
    Base64(usize),
    AadBase64(usize),
    Form(TextError),
    Version(VersionError),
    Key(KeyError),
    Item(ItemError),
    Sealed,
}

impl ItemFault {
    /// Tells whether the client is to blame: else it may ask again.
    pub(crate) fn is_users(self) -> bool {
        !matches!(
            self,
            ItemFault::AadBase64(_)
                | ItemFault::Sealed
                | ItemFault::Item(
                    ItemError::NoRandomness | ItemError::OutputShort | ItemError::Pending
                )
        )
    }
}

impl fmt::Display for ItemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ItemFault::Text(text) => f.write_str(text),
            ItemFault::Base64(at) => write!(f, "illegal base64 data at input byte {at}"),
            ItemFault::AadBase64(at) => write!(
                f,
                "unable to get associated_data/additional_data from factory[0]: illegal base64 data at input byte {at}"
            ),
            ItemFault::Form(why) => why.fmt(f),
            ItemFault::Version(why) => why.fmt(f),
            ItemFault::Key(why) => why.fmt(f),
            ItemFault::Item(why) => why.fmt(f),
            ItemFault::Sealed => vault::Sealed.fmt(f),
        }
    }
}

/// An item while it is worked on: where its pieces are in the buffers of [`Work`].
pub(crate) struct Place {
    pub(crate) plain: Range<usize>,
    pub(crate) sealed: Range<usize>,
    aad: Range<usize>,
    context: Range<usize>,
    pub(crate) version: u32,
    pub(crate) outcome: Result<(), ItemFault>,
    /// What is wrong with the associated data: told where nothing else is, as others do.
    aad_fault: Result<(), ItemFault>,
}

impl Place {
    const EMPTY: Place = Place {
        plain: 0..0,
        sealed: 0..0,
        aad: 0..0,
        context: 0..0,
        version: 0,
        outcome: Ok(()),
        aad_fault: Ok(()),
    };
}

impl Place {
    /// Its texts are sound: now it counts what is wrong with its associated data.
    fn judge_aad(&mut self) {
        self.outcome = self.outcome.and(self.aad_fault);
    }
}

/// Bytes that are wiped, all that were ever written, and that leave no copy behind where they need more room.
#[derive(Default)]
pub(crate) struct SecretBuffer {
    /// Zeros from `high` on.
    bytes: Vec<u8>,
    used: usize,
    /// The most that was used since the last wipe.
    high: usize,
}

impl SecretBuffer {
    /// Empties it, with room for `count` bytes.
    fn begin(&mut self, count: usize) {
        if count > self.bytes.len() {
            self.wipe();
            self.bytes = vec![0; count];
        }
        self.used = 0;
    }

    /// Takes the next `count` bytes into use, whatever is in them. They are fewer only where there is no room.
    #[inline]
    fn room(&mut self, count: usize) -> &mut [u8] {
        let from = self.used;
        self.used = from.saturating_add(count).min(self.bytes.len());
        self.high = self.high.max(self.used);
        self.bytes.get_mut(from..self.used).unwrap_or_default()
    }

    /// Appends a copy of `bytes`, and returns it; `None` where there is no room.
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Option<&mut [u8]> {
        let copy = self.room(bytes.len());
        if copy.len() != bytes.len() {
            return None;
        }
        copy.copy_from_slice(bytes);
        Some(copy)
    }

    /// Appends what a text of base64 stands for, and returns where that is; appends nothing where the text is wrong.
    #[inline]
    fn read(&mut self, text: &str, base64: &Base64) -> Result<Range<usize>, usize> {
        let from = self.used;
        let read = base64.read_into(text, self.room(room_for(text.len())));
        self.used = from + read.unwrap_or(0);
        read.map(|_| from..self.used)
    }

    fn wipe(&mut self) {
        let written = self.bytes.get_mut(..self.high).unwrap_or_default();
        written.fill(0);
        zeroize::optimization_barrier(written);
        (self.used, self.high) = (0, 0);
    }

    /// Wipes it, and gives back what an unusual batch took.
    fn end(&mut self) {
        self.wipe();
        self.bytes.truncate(KEPT);
        self.bytes.shrink_to(KEPT);
    }

    #[inline]
    pub(crate) fn get(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

/// The buffers of a part. They hold secrets until [`Work::wipe`].
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) places: Vec<Place>,
    pub(crate) plain: SecretBuffer,
    pub(crate) sealed: SecretBuffer,
    data: SecretBuffer,
    /// Base64 of a whole part, as it comes and as it goes.
    texts: SecretBuffer,
    room: String,
}

/// How messages of the latest version begin, which most do.
struct Newest {
    version: u32,
    /// Empty where the version opens nothing.
    prefix: String,
}

impl Newest {
    fn of(key: &NamedKey) -> Newest {
        let version = key.versions().latest();
        let opens = key.versions().opening(version).is_ok();
        let prefix = if opens { format!("vault:v{version}:") } else { String::new() };
        Newest { version, prefix }
    }

    /// Splits a text into a version that may open, and base64.
    #[inline]
    fn split<'t>(&self, text: &'t str, key: &NamedKey) -> Result<(u32, &'t str), ItemFault> {
        match text.strip_prefix(self.prefix.as_str()) {
            Some(encoded) if !self.prefix.is_empty() => Ok((self.version, encoded)),
            _ => {
                let (version, encoded) = split_text(text).map_err(ItemFault::Form)?;
                // Before what is sealed is looked at, as others do: who asks learns that the key is behind.
                key.versions().opening(version).map_err(ItemFault::Version)?;
                Ok((version, encoded))
            }
        }
    }
}

/// Texts of base64 that are read in one go.
struct Together {
    is_possible: bool,
}

impl Together {
    /// Adds a text, and returns where in all bytes those that it stands for will be.
    #[inline]
    fn add(&mut self, text: &str, texts: &mut SecretBuffer) -> Range<usize> {
        if !self.is_possible {
            return 0..0;
        }
        let from = texts.used / 4 * GROUP;
        let bytes = texts.push(text.as_bytes()).and_then(make_whole);
        self.is_possible = bytes.is_some();
        from..from + bytes.unwrap_or(0)
    }

    /// Reads all texts to `bytes`. Tells whether that was possible, and all were sound: else they have to be read one by one.
    fn read(&self, texts: &SecretBuffer, bytes: &mut SecretBuffer, base64: &Base64) -> bool {
        if !self.is_possible {
            return false;
        }
        let text = texts.get(&(0..texts.used));
        let is_sound = base64.read_whole(text, bytes.room(room_for(text.len())));
        if !is_sound {
            bytes.used = 0;
        }
        is_sound
    }
}

/// What a version's key is for a run of items.
enum Ready<'k> {
    OfVersion(&'k Key),
    OfContext(Key),
}

impl Work {
    /// Overwrites the buffers, and gives back what an unusual batch took.
    pub(crate) fn wipe(&mut self) {
        for buffer in [&mut self.plain, &mut self.data, &mut self.sealed, &mut self.texts] {
            buffer.end();
        }
        zeroize::Zeroize::zeroize(&mut self.room);
        self.places.clear();
    }

    /// Empties the buffers, with room for what items are decoded to. Tells whether they are to be read together.
    fn begin(&mut self, items: &[BatchItem]) -> Together {
        self.places.clear();
        let (mut read, mut others, mut texts) = (0, 0, 0);
        for item in items {
            texts += item.text.len();
            read += room_for(item.text.len());
            others += room_for(item.context.len()) + room_for(item.aad.len());
        }
        self.plain.begin(read);
        self.sealed.begin(read);
        self.data.begin(others);
        let is_possible = items.len() > 1 && texts <= TOGETHER;
        self.texts.begin(if is_possible { texts } else { 0 });
        Together { is_possible }
    }

    /// Takes plaintexts out of the body.
    pub(crate) fn take_plain(
        &mut self,
        body: &str,
        items: &[BatchItem],
        key: &NamedKey,
        base64: &Base64,
    ) {
        let mut together = self.begin(items);
        for item in items {
            let mut place = self.place(body, item, base64);
            place.outcome = place.outcome.and_then(|()| {
                place.version = sealing(key, item.version)?;
                let text = item.text.text(body, &mut self.room);
                place.plain = together.add(text, &mut self.texts);
                Ok(())
            });
            self.places.push(place);
        }
        let is_read = together.read(&self.texts, &mut self.plain, base64);
        for (place, item) in self.places.iter_mut().zip(items) {
            if !is_read {
                place.outcome = place.outcome.and_then(|()| {
                    let text = item.text.text(body, &mut self.room);
                    place.plain = self.plain.read(text, base64).map_err(ItemFault::Base64)?;
                    Ok(())
                });
            }
            place.judge_aad();
        }
    }

    /// Takes one plaintext that does not stand in the body.
    pub(crate) fn take_bytes(
        &mut self,
        body: &str,
        item: &BatchItem,
        plain: &[u8],
        key: &NamedKey,
        base64: &Base64,
    ) {
        self.begin(std::slice::from_ref(item));
        self.plain.begin(plain.len());
        let mut place = self.place(body, item, base64);
        place.plain = 0..self.plain.push(plain).map_or(0, |copy| copy.len());
        place.outcome = place.outcome.and_then(|()| {
            place.version = sealing(key, item.version)?;
            Ok(())
        });
        place.judge_aad();
        self.places.push(place);
    }

    /// Takes sealed messages out of the body.
    pub(crate) fn take_sealed(
        &mut self,
        body: &str,
        items: &[BatchItem],
        key: &NamedKey,
        base64: &Base64,
    ) {
        let mut together = self.begin(items);
        let newest = Newest::of(key);
        for item in items {
            let mut place = self.place(body, item, base64);
            place.outcome = place.outcome.and_then(|()| {
                let text = item.text.text(body, &mut self.room);
                if text.is_empty() {
                    return Err(ItemFault::Text(ItemText::Ciphertext.missing()));
                }
                let (version, encoded) = newest.split(text, key)?;
                place.version = version;
                place.sealed = together.add(encoded, &mut self.texts);
                Ok(())
            });
            self.places.push(place);
        }
        let is_read = together.read(&self.texts, &mut self.sealed, base64);
        for (place, item) in self.places.iter_mut().zip(items) {
            place.outcome = place.outcome.and_then(|()| {
                if !is_read {
                    let text = item.text.text(body, &mut self.room);
                    let (_, encoded) = split_text(text).map_err(ItemFault::Form)?;
                    let read = self.sealed.read(encoded, base64);
                    place.sealed = read.map_err(|_| ItemFault::Form(TextError::Base64))?;
                }
                if place.sealed.len() < NONCE {
                    return Err(ItemFault::Text("invalid ciphertext length"));
                }
                Ok(())
            });
            place.judge_aad();
        }
    }

    /// Sets the versions that what was opened is sealed with again.
    pub(crate) fn aim(&mut self, items: &[BatchItem], key: &NamedKey) {
        for (place, item) in self.places.iter_mut().zip(items) {
            place.outcome = place.outcome.and_then(|()| {
                place.version = sealing(key, item.version)?;
                Ok(())
            });
        }
    }

    #[inline]
    fn place(&mut self, body: &str, item: &BatchItem, base64: &Base64) -> Place {
        if !item.context.is_some() && !item.aad.is_some() {
            return Place::EMPTY;
        }
        let (context, first) = self.piece(body, item.context, base64);
        let (aad, second) = self.piece(body, item.aad, base64);
        let outcome = first.map_err(ItemFault::Base64);
        let aad_fault = second.map_err(ItemFault::AadBase64);
        Place { aad, context, outcome, aad_fault, ..Place::EMPTY }
    }

    fn piece(
        &mut self,
        body: &str,
        span: Span,
        base64: &Base64,
    ) -> (Range<usize>, Result<(), usize>) {
        if !span.is_some() {
            return (0..0, Ok(()));
        }
        let text = span.text(body, &mut self.room);
        match self.data.read(text, base64) {
            Ok(range) => (range, Ok(())),
            Err(at) => (0..0, Err(at)),
        }
    }

    /// Writes the base64 of the results of all items, where they are short and many, for [`Work::write`].
    pub(crate) fn write_together(&mut self, opened: bool, base64: &Base64) {
        let Work { places, plain, sealed, texts, .. } = self;
        let from = if opened { plain } else { sealed };
        let count = written_len(from.used);
        if places.len() < 2 || count > TOGETHER {
            return texts.begin(0);
        }
        for place in places.iter().filter(|place| place.outcome.is_ok()) {
            let range = if opened { &place.plain } else { &place.sealed };
            let behind = range.end..range.start + range.len().next_multiple_of(GROUP);
            from.bytes.get_mut(behind).unwrap_or_default().fill(0);
        }
        texts.begin(count);
        let bytes = from.bytes.get(..from.used).unwrap_or_default();
        base64.write_into(bytes, texts.room(count));
    }

    /// Appends the base64 of an item's result to `out`.
    #[inline]
    pub(crate) fn write(&self, place: &Place, opened: bool, base64: &Base64, out: &mut Vec<u8>) {
        let (from, range) =
            if opened { (&self.plain, &place.plain) } else { (&self.sealed, &place.sealed) };
        if self.texts.used == 0 {
            return base64.write(from.get(range), out);
        }
        let (bytes, at) = (range.len(), range.start / GROUP * 4);
        // What was filled up to a group is written as Transit does.
        let filled = bytes.next_multiple_of(GROUP) - bytes;
        let text = at..at + written_len(bytes) - filled;
        out.extend_from_slice(self.texts.get(&text));
        match filled {
            1 => out.push(b'='),
            2 => out.extend_from_slice(b"=="),
            _ => {}
        }
    }

    /// Seals what is plain.
    pub(crate) fn seal(&mut self, key: &NamedKey, random: &mut Drbg) {
        let Some(kind) = key.policy().kind.sealing() else { return };
        let Work { places, plain, sealed, data, .. } = self;
        let fine = places.iter().filter(|place| place.outcome.is_ok());
        let room_of = |place: &Place| {
            let count = kind.sealed_len(place.plain.len());
            (count, count.next_multiple_of(GROUP))
        };
        let total = fine.map(|place| room_of(place).1).sum();
        sealed.begin(total);
        let (mut rest, mut at) = (sealed.room(total), 0);
        for run in runs(places, data) {
            let found = run.first().and_then(|first| key.versions().get(first.version));
            let found = found.ok_or(ItemFault::Version(VersionError::Gone));
            let ready = found.and_then(|version| ready(version, key, run, data));
            let mut items = Vec::with_capacity(run.len());
            for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
                let (count, room) = room_of(place);
                let (output, later) = std::mem::take(&mut rest).split_at_mut(room);
                let output = output.get_mut(..count).unwrap_or_default();
                (rest, place.sealed, at) = (later, at..at + count, at + room);
                let input = plain.get(&place.plain);
                items.push(Item::new(input, data.get(&place.aad), output));
            }
            match &ready {
                Ok(ready) => ready.key().seal(&mut items, random),
                Err(why) => fail(run, *why),
            }
            judge(run, &items, |place| &mut place.sealed);
        }
    }

    /// Opens what is sealed.
    pub(crate) fn open(&mut self, key: &NamedKey) {
        let Some(kind) = key.policy().kind.sealing() else { return };
        let Work { places, plain, sealed, data, .. } = self;
        let fine = places.iter().filter(|place| place.outcome.is_ok());
        let room_of = |place: &Place| kind.opened_max(place.sealed.len()).next_multiple_of(GROUP);
        let total = fine.map(room_of).sum();
        plain.begin(total);
        let (mut rest, mut at) = (plain.room(total), 0);
        for run in runs(places, data) {
            let number = run.first().map_or(0, |first| first.version);
            let found = key.versions().opening(number).map_err(ItemFault::Version);
            let ready = found.and_then(|version| ready(version, key, run, data));
            let mut items = Vec::with_capacity(run.len());
            for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
                let count = room_of(place);
                let (output, later) = std::mem::take(&mut rest).split_at_mut(count);
                (rest, place.plain, at) = (later, at..at + count, at + count);
                let input = sealed.get(&place.sealed);
                items.push(Item::new(input, data.get(&place.aad), output));
            }
            match &ready {
                Ok(ready) => ready.key().open(&mut items),
                Err(why) => fail(run, *why),
            }
            judge(run, &items, |place| &mut place.plain);
        }
    }
}

impl Ready<'_> {
    fn key(&self) -> &Key {
        match self {
            Ready::OfVersion(key) => key,
            Ready::OfContext(key) => key,
        }
    }
}

/// Splits places into runs of one version and one context.
fn runs<'p>(places: &'p mut [Place], data: &SecretBuffer) -> impl Iterator<Item = &'p mut [Place]> {
    places.chunk_by_mut(|one, next| {
        one.version == next.version && data.get(&one.context) == data.get(&next.context)
    })
}

fn ready<'k>(
    version: &'k KeyVersion,
    key: &NamedKey,
    run: &[Place],
    data: &SecretBuffer,
) -> Result<Ready<'k>, ItemFault> {
    let none = ItemFault::Key(KeyError::UnknownType);
    if !key.policy().derived {
        let found = version.key().map_err(|_| ItemFault::Sealed)?;
        return found.map(Ready::OfVersion).ok_or(none);
    }
    let context = run.first().map(|first| data.get(&first.context)).unwrap_or_default();
    let made = version.context_key(key.policy(), context).map_err(|why| match why {
        vault::ContextError::Sealed(_) => ItemFault::Sealed,
        vault::ContextError::Key(why) => ItemFault::Key(why),
    })?;
    made.map(Ready::OfContext).ok_or(none)
}

fn fail(run: &mut [Place], why: ItemFault) {
    for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
        place.outcome = Err(why);
    }
}

/// Takes over what became of the items of a run; `target` is where a place has its result.
fn judge(run: &mut [Place], items: &[Item<'_>], target: impl Fn(&mut Place) -> &mut Range<usize>) {
    let fine = run.iter_mut().filter(|place| place.outcome.is_ok());
    for (place, item) in fine.zip(items) {
        match item.outcome {
            Ok(written) => {
                let range = target(place);
                range.end = range.start + written;
            }
            Err(why) => place.outcome = Err(ItemFault::Item(why)),
        }
    }
}

/// Returns the version that seals where `wanted` is asked for.
pub(crate) fn sealing(key: &NamedKey, wanted: i64) -> Result<u32, ItemFault> {
    if wanted < 0 {
        return Err(ItemFault::Text("requested version for encryption is negative"));
    }
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    key.versions().sealing(wanted).map(|(number, _)| number).map_err(ItemFault::Version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short part after a long one: the long one's bytes are wiped too, and room that was too small is wiped before it is left.
    #[test]
    fn a_buffer_knows_how_far_it_was_written() {
        let mut buffer = SecretBuffer::default();
        buffer.begin(100);
        buffer.room(100).fill(7);
        buffer.begin(10);
        buffer.room(10).fill(8);
        assert_eq!((buffer.high, buffer.used), (100, 10));
        assert_eq!(buffer.room(1000).len(), 90, "no more than there is");
        let before = buffer.bytes.len();
        buffer.begin(before + 1);
        assert_eq!((buffer.high, buffer.used), (0, 0), "wiped before it grew");
        buffer.room(1).fill(7);
        buffer.end();
        assert_eq!((buffer.high, buffer.used), (0, 0));
        assert!(buffer.bytes.iter().all(|byte| *byte == 0));
        assert_eq!(buffer.get(&(0..1)), [0]);
    }
}
