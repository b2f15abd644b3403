//! Bytes that are wiped when they are dropped, as quickly as memory can be written.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A vector of bytes whose memory is zeros before it is given back: what was in use and what was not.
///
/// `Zeroizing<Vec<u8>>` promises the same and writes byte after byte, which for an answer of some kilobytes took longer than making it. As
/// there, a vector that grows leaves a copy of its bytes behind: use [`WipedBytes::reserve`] before.
#[derive(Default)]
pub struct WipedBytes(Vec<u8>);

impl WipedBytes {
    /// Returns a copy of `bytes`, whose own memory stays the caller's to wipe.
    pub fn copy_of(bytes: &[u8]) -> WipedBytes {
        WipedBytes(bytes.to_vec())
    }

    /// Makes room for `more` bytes, and wipes the memory that it moves out of.
    pub fn reserve(&mut self, more: usize) {
        reserve_wiped(&mut self.0, more);
    }

    /// Overwrites what is in it with zeros and gives its memory back: for bytes that were only ever added, so that there are none behind them.
    /// Of a large room that little was put into, the rest is not touched.
    pub fn discard_added(mut self) {
        self.0.fill(0);
        zeroize::optimization_barrier(self.0.as_slice());
        drop(std::mem::take(&mut self.0));
    }

    /// Overwrites all of its memory with zeros. It is empty then and keeps its room.
    pub fn wipe(&mut self) {
        self.0.clear();
        self.0.resize(self.0.capacity(), 0);
        zeroize::optimization_barrier(self.0.as_slice());
        self.0.clear();
    }
}

/// Makes room for `more` bytes in a buffer of secrets, and wipes the memory that it moves out of; [`Vec::reserve`] would leave a copy there.
pub fn reserve_wiped(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() >= more {
        return;
    }
    let wanted = bytes.len().saturating_add(more).max(bytes.len().saturating_mul(2));
    let mut larger = Vec::with_capacity(wanted);
    larger.extend_from_slice(bytes);
    drop(WipedBytes(std::mem::replace(bytes, larger)));
}

impl From<Vec<u8>> for WipedBytes {
    fn from(bytes: Vec<u8>) -> WipedBytes {
        WipedBytes(bytes)
    }
}

impl Deref for WipedBytes {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for WipedBytes {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// Shows how many bytes there are, and none of them.
impl fmt::Debug for WipedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WipedBytes {{ {} B }}", self.0.len())
    }
}

impl Drop for WipedBytes {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wiped_one_is_empty_and_keeps_its_room() {
        let mut bytes = WipedBytes::copy_of(&[7; 1000]);
        let place = bytes.as_ptr();
        bytes.wipe();
        assert!(bytes.is_empty() && bytes.capacity() >= 1000 && bytes.as_ptr() == place);
        WipedBytes::default().wipe();
    }

    #[test]
    fn it_grows_with_what_is_in_it_and_shows_nothing() {
        let mut bytes = WipedBytes::from(b"secret".to_vec());
        bytes.reserve(10_000);
        assert!(bytes.capacity() >= 10_006);
        let (room, place) = (bytes.capacity(), bytes.as_ptr());
        bytes.extend_from_slice(&[1; 10_000]);
        assert_eq!((bytes.capacity(), bytes.as_ptr()), (room, place), "it did not move");
        assert!(bytes.starts_with(b"secret\x01"));
        bytes.reserve(0);
        assert_eq!(format!("{bytes:?}"), "WipedBytes { 10006 B }");
    }
}
