//! Repeating groups, read in place.

use std::fmt;
use std::iter::FusedIterator;
use std::slice::ChunksExact;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A fixed block of fields: the root block of a message or an entry of a group. Implemented by generated types.
pub trait Entry: FromBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// What a reader gets: a plain reference, or a view where fields were added to the block in a later version.
    type View<'a>: Copy;
    /// Bytes of the block's first version: what every writer sends at least.
    const LEN_MIN: usize;
    /// Schema version that brought the newest field.
    const VERSION: u16;

    /// The view of a block of the given writer's version; `None` if the bytes are fewer than [`Entry::LEN_MIN`].
    fn view(bytes: &[u8], version: u16) -> Option<Self::View<'_>>;
}

/// The entries of a repeating group, checked to lie within the message.
///
/// The distance between entries is the writer's block length: what a newer writer added to each entry is skipped.
pub struct Group<'a, E> {
    bytes: &'a [u8],
    /// Bytes from entry to entry, at least `E::LEN_MIN`, never 0.
    stride: u16,
    version: u16,
    len: u16,
    _entry: std::marker::PhantomData<&'a [E]>,
}

impl<E> Clone for Group<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Group<'_, E> {}

impl<'a, E: Entry> Group<'a, E> {
    /// `bytes` holds `len` times `stride` bytes, and `stride` is at least `E::LEN_MIN`.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], len: u16, stride: u16, version: u16) -> Self {
        debug_assert_eq!(bytes.len(), usize::from(len) * usize::from(stride));
        Self { bytes, stride, version, len, _entry: std::marker::PhantomData }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry at `index`, from 0; `None` behind the last.
    #[inline]
    pub fn get(&self, index: usize) -> Option<E::View<'a>> {
        let stride = usize::from(self.stride);
        let start = index.checked_mul(stride)?;
        let entry = self.bytes.get(start..start.checked_add(stride)?)?;
        E::view(entry, self.version)
    }

    /// All entries in order.
    #[inline]
    pub fn iter(&self) -> Entries<'a, E> {
        let chunks = self.bytes.chunks_exact(usize::from(self.stride).max(1));
        Entries { chunks, version: self.version, _entry: std::marker::PhantomData }
    }

    /// All entries as one slice, where the writer's entries have exactly our layout (the usual case): the fastest
    /// way to read them. `None` if the writer is older or newer in this group; iterate then.
    #[inline]
    pub fn as_slice(&self) -> Option<&'a [E]> {
        if usize::from(self.stride) != size_of::<E>() || self.version < E::VERSION {
            return None;
        }
        <[E]>::ref_from_bytes(self.bytes).ok()
    }
}

impl<'a, E: Entry> IntoIterator for Group<'a, E> {
    type Item = E::View<'a>;
    type IntoIter = Entries<'a, E>;

    #[inline]
    fn into_iter(self) -> Entries<'a, E> {
        self.iter()
    }
}

impl<'a, E: Entry> fmt::Debug for Group<'a, E>
where
    E::View<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the entries of a [`Group`].
pub struct Entries<'a, E> {
    chunks: ChunksExact<'a, u8>,
    version: u16,
    _entry: std::marker::PhantomData<&'a [E]>,
}

impl<'a, E: Entry> Iterator for Entries<'a, E> {
    type Item = E::View<'a>;

    #[inline]
    fn next(&mut self) -> Option<E::View<'a>> {
        E::view(self.chunks.next()?, self.version)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl<E: Entry> ExactSizeIterator for Entries<'_, E> {}
impl<E: Entry> FusedIterator for Entries<'_, E> {}
