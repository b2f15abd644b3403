//! A part of a batch while it is worked on.

use std::fmt;
use std::ops::Range;

use vault::{
    Drbg, Item, ItemError, Key, KeyError, KeyVersion, NamedKey, TextError, VersionError, read_text,
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

/// The buffers of a part. They hold secrets until [`Work::wipe`].
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) places: Vec<Place>,
    pub(crate) plain: Vec<u8>,
    pub(crate) sealed: Vec<u8>,
    data: Vec<u8>,
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
            buffer.fill(0);
            zeroize::optimization_barrier(buffer.as_slice());
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
        zeroize::Zeroize::zeroize(&mut self.room);
        self.places.clear();
    }

    fn clear(&mut self) {
        self.places.clear();
        self.plain.clear();
        self.sealed.clear();
        self.data.clear();
    }

    /// Takes plaintexts out of the body.
    pub(crate) fn take_plain(
        &mut self,
        body: &str,
        items: &[BatchItem],
        key: &NamedKey,
        base64: &Base64,
    ) {
        self.clear();
        for item in items {
            let mut place = self.place(body, item, base64);
            place.outcome = place.outcome.and_then(|()| {
                place.version = sealing(key, item.version)?;
                let from = self.plain.len();
                let text = item.text.text(body, &mut self.room);
                base64.read(text, &mut self.plain).map_err(ItemFault::Base64)?;
                place.plain = from..self.plain.len();
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
        self.clear();
        let mut place = self.place(body, item, base64);
        self.plain.extend_from_slice(plain);
        place.plain = 0..plain.len();
        place.outcome = place.outcome.and_then(|()| {
            place.version = sealing(key, item.version)?;
            Ok(())
        });
        self.places.push(place);
    }

    /// Takes sealed messages out of the body.
    pub(crate) fn take_sealed(&mut self, body: &str, items: &[BatchItem], base64: &Base64) {
        self.clear();
        for item in items {
            let mut place = self.place(body, item, base64);
            place.outcome = place.outcome.and_then(|()| {
                let text = item.text.text(body, &mut self.room);
                if text.is_empty() {
                    return Err(ItemFault::Text(ItemText::Ciphertext.missing()));
                }
                let from = self.sealed.len();
                place.version = read_text(text, &mut self.sealed).map_err(ItemFault::Form)?;
                place.sealed = from..self.sealed.len();
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
        let from = self.data.len();
        if !span.is_some() {
            return (from..from, Ok(()));
        }
        let text = span.text(body, &mut self.room);
        let read = base64.read(text, &mut self.data);
        (from..self.data.len(), read)
    }

    /// Seals what is plain.
    pub(crate) fn seal(&mut self, key: &NamedKey, random: &mut Drbg) {
        let Some(kind) = key.policy().kind.sealing() else { return };
        let Work { places, plain, sealed, data, .. } = self;
        let fine = places.iter().filter(|place| place.outcome.is_ok());
        sealed.clear();
        sealed.resize(fine.map(|place| kind.sealed_len(place.plain.len())).sum(), 0);
        let (mut rest, mut at) = (sealed.as_mut_slice(), 0);
        for run in runs(places, data) {
            let found = run.first().and_then(|first| key.versions().get(first.version));
            let found = found.ok_or(ItemFault::Version(VersionError::Gone));
            let ready = found.and_then(|version| ready(version, key, run, data));
            let mut items = Vec::with_capacity(run.len());
            for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
                let count = kind.sealed_len(place.plain.len());
                let (output, later) = std::mem::take(&mut rest).split_at_mut(count);
                (rest, place.sealed, at) = (later, at..at + count, at + count);
                let input = plain.get(place.plain.clone()).unwrap_or_default();
                items.push(Item::new(
                    input,
                    data.get(place.aad.clone()).unwrap_or_default(),
                    output,
                ));
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
        plain.clear();
        plain.resize(fine.map(|place| kind.opened_max(place.sealed.len())).sum(), 0);
        let (mut rest, mut at) = (plain.as_mut_slice(), 0);
        for run in runs(places, data) {
            let number = run.first().map_or(0, |first| first.version);
            let found = key.versions().opening(number).map_err(ItemFault::Version);
            let ready = found.and_then(|version| ready(version, key, run, data));
            let mut items = Vec::with_capacity(run.len());
            for place in run.iter_mut().filter(|place| place.outcome.is_ok()) {
                let count = kind.opened_max(place.sealed.len());
                let (output, later) = std::mem::take(&mut rest).split_at_mut(count);
                (rest, place.plain, at) = (later, at..at + count, at + count);
                let input = sealed.get(place.sealed.clone()).unwrap_or_default();
                items.push(Item::new(
                    input,
                    data.get(place.aad.clone()).unwrap_or_default(),
                    output,
                ));
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
fn runs<'p>(places: &'p mut [Place], data: &[u8]) -> impl Iterator<Item = &'p mut [Place]> {
    places.chunk_by_mut(|one, next| {
        one.version == next.version
            && data.get(one.context.clone()) == data.get(next.context.clone())
    })
}

fn ready<'k>(
    version: &'k KeyVersion,
    key: &NamedKey,
    run: &[Place],
    data: &[u8],
) -> Result<Ready<'k>, ItemFault> {
    let none = ItemFault::Key(KeyError::UnknownType);
    if !key.policy().derived {
        let found = version.key().map_err(|_| ItemFault::Sealed)?;
        return found.map(Ready::OfVersion).ok_or(none);
    }
    let context = run.first().and_then(|first| data.get(first.context.clone())).unwrap_or_default();
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
