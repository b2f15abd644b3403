//! A part of a batch while it is worked on.

use std::fmt;
use std::ops::Range;

use vault::{
    Drbg, Item, ItemError, Key, KeyError, KeyVersion, NamedKey, TextError, VersionError, split_text,
};

use crate::base64::Base64;
use crate::body::{BatchItem, ItemText};
use crate::json::Span;

/// Items that are worked on at once: what they need stays in the processor's caches.
pub(crate) const PART: usize = 256;
/// Bytes of a buffer that stay allocated between requests.
const KEPT: usize = 1 << 20;
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
            ItemFault::Base64(at) | ItemFault::AadBase64(at) => {
                write!(f, "illegal base64 data at input byte {at}")
            }
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
}

/// Bytes that are wiped, all that were ever written, and that leave no copy behind where they need more room.
#[derive(Default)]
pub(crate) struct SecretBuffer {
    bytes: Vec<u8>,
    high: usize,
}

impl SecretBuffer {
    /// Empties it, with room for `count` bytes.
    fn begin(&mut self, count: usize) {
        self.high = self.high.max(self.bytes.len());
        if count > self.bytes.capacity() {
            self.wipe();
            self.bytes = Vec::with_capacity(count);
        }
        self.bytes.clear();
    }

    fn wipe(&mut self) {
        let written = self.high.max(self.bytes.len());
        self.bytes.clear();
        self.bytes.resize(written, 0);
        zeroize::optimization_barrier(self.bytes.as_slice());
        self.bytes.clear();
        self.high = 0;
    }

    /// Wipes it, and gives back what an unusual batch took.
    fn end(&mut self) {
        self.wipe();
        self.bytes.shrink_to(KEPT);
    }

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
    room: String,
}

/// What a version's key is for a run of items.
enum Ready<'k> {
    OfVersion(&'k Key),
    OfContext(Key),
}

impl Work {
    /// Overwrites the buffers, and gives back what an unusual batch took.
    pub(crate) fn wipe(&mut self) {
        for buffer in [&mut self.plain, &mut self.data, &mut self.sealed] {
            buffer.end();
        }
        zeroize::Zeroize::zeroize(&mut self.room);
        self.places.clear();
    }

    /// Empties the buffers, with room for what items are decoded to.
    fn begin(&mut self, items: &[BatchItem]) {
        self.places.clear();
        let (mut texts, mut others) = (0, 0);
        for item in items {
            texts += item.text.decoded_max();
            others += item.context.decoded_max() + item.aad.decoded_max();
        }
        self.plain.begin(texts);
        self.sealed.begin(texts);
        self.data.begin(others);
    }

    /// Takes plaintexts out of the body.
    pub(crate) fn take_plain(
        &mut self,
        body: &str,
        items: &[BatchItem],
        key: &NamedKey,
        base64: &Base64,
    ) {
        self.begin(items);
        for item in items {
            let mut place = self.place(body, item, base64);
            place.outcome = place.outcome.and_then(|()| {
                place.version = sealing(key, item.version)?;
                let plain = &mut self.plain.bytes;
                let from = plain.len();
                let text = item.text.text(body, &mut self.room);
                base64.read(text, plain).map_err(ItemFault::Base64)?;
                place.plain = from..plain.len();
                Ok(())
            });
            self.places.push(place);
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
        self.plain.bytes.extend_from_slice(plain);
        place.plain = 0..plain.len();
        place.outcome = place.outcome.and_then(|()| {
            place.version = sealing(key, item.version)?;
            Ok(())
        });
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
        self.begin(items);
        for item in items {
            let mut place = self.place(body, item, base64);
            place.outcome = place.outcome.and_then(|()| {
                let text = item.text.text(body, &mut self.room);
                if text.is_empty() {
                    return Err(ItemFault::Text(ItemText::Ciphertext.missing()));
                }
                let sealed = &mut self.sealed.bytes;
                let from = sealed.len();
                let (version, encoded) = split_text(text).map_err(ItemFault::Form)?;
                // Before what is sealed is looked at, as others do: who asks learns that the key is behind.
                key.versions().opening(version).map_err(ItemFault::Version)?;
                let read = base64.read(encoded, sealed);
                read.map_err(|_| ItemFault::Form(TextError::Base64))?;
                place.version = version;
                place.sealed = from..sealed.len();
                if place.sealed.len() < NONCE {
                    return Err(ItemFault::Text("invalid ciphertext length"));
                }
                Ok(())
            });
            self.places.push(place);
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

    fn place(&mut self, body: &str, item: &BatchItem, base64: &Base64) -> Place {
        let (context, first) = self.piece(body, item.context, base64);
        let (aad, second) = self.piece(body, item.aad, base64);
        let outcome = first.map_err(ItemFault::Base64).and(second.map_err(ItemFault::AadBase64));
        Place { plain: 0..0, sealed: 0..0, aad, context, version: 0, outcome }
    }

    fn piece(
        &mut self,
        body: &str,
        span: Span,
        base64: &Base64,
    ) -> (Range<usize>, Result<(), usize>) {
        let data = &mut self.data.bytes;
        let from = data.len();
        if !span.is_some() {
            return (from..from, Ok(()));
        }
        let text = span.text(body, &mut self.room);
        let read = base64.read(text, data);
        (from..data.len(), read)
    }

    /// Seals what is plain.
    pub(crate) fn seal(&mut self, key: &NamedKey, random: &mut Drbg) {
        let Some(kind) = key.policy().kind.sealing() else { return };
        let Work { places, plain, sealed, data, .. } = self;
        let fine = places.iter().filter(|place| place.outcome.is_ok());
        let total = fine.map(|place| kind.sealed_len(place.plain.len())).sum();
        sealed.begin(total);
        sealed.bytes.resize(total, 0);
        let (mut rest, mut at) = (sealed.bytes.as_mut_slice(), 0);
        for run in runs(places, data) {
            let found = run.first().and_then(|first| key.versions().get(first.version));
            let found = found.ok_or(ItemFault::Version(VersionError::Gone));
            let ready = found.and_then(|version| ready(version, key, run, data));
            let mut items = Vec::with_capacity(run.len());
            for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
                let count = kind.sealed_len(place.plain.len());
                let (output, later) = std::mem::take(&mut rest).split_at_mut(count);
                (rest, place.sealed, at) = (later, at..at + count, at + count);
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
        let total = fine.map(|place| kind.opened_max(place.sealed.len())).sum();
        plain.begin(total);
        plain.bytes.resize(total, 0);
        let (mut rest, mut at) = (plain.bytes.as_mut_slice(), 0);
        for run in runs(places, data) {
            let number = run.first().map_or(0, |first| first.version);
            let found = key.versions().opening(number).map_err(ItemFault::Version);
            let ready = found.and_then(|version| ready(version, key, run, data));
            let mut items = Vec::with_capacity(run.len());
            for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
                let count = kind.opened_max(place.sealed.len());
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
        buffer.bytes.extend_from_slice(&[7; 100]);
        buffer.begin(10);
        buffer.bytes.extend_from_slice(&[7; 10]);
        assert_eq!((buffer.high, buffer.bytes.len()), (100, 10));
        let before = buffer.bytes.capacity();
        buffer.begin(before + 1);
        assert_eq!((buffer.high, buffer.bytes.len()), (0, 0), "wiped before it grew");
        buffer.bytes.push(7);
        buffer.end();
        assert_eq!((buffer.high, buffer.bytes.len()), (0, 0));
        assert_eq!(buffer.get(&(0..1)), b"");
    }
}
