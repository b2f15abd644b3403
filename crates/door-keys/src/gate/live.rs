//! The keys as they are now, for all workers: the keeper puts a snapshot here after each change, and readers take it over.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vault::Keys;

/// The keys in force: one for all who hold a clone.
#[derive(Clone, Debug)]
pub(super) struct LiveKeys(Arc<Slot>);

struct Slot {
    /// Grows with each snapshot, so that a reader sees a change without the lock.
    number: AtomicU32,
    keys: Mutex<Arc<Keys>>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiveKeys { .. }")
    }
}

impl LiveKeys {
    pub(super) fn new(keys: Keys) -> LiveKeys {
        LiveKeys(Arc::new(Slot { number: AtomicU32::new(0), keys: Mutex::new(Arc::new(keys)) }))
    }

    /// Puts a snapshot in force.
    pub(super) fn replace(&self, keys: Keys) {
        let mut in_force = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        *in_force = Arc::new(keys);
        // Under the lock: nobody sees a number without its keys.
        self.0.number.fetch_add(1, Ordering::Release);
    }

    pub(super) fn view(&self) -> KeysView {
        let (number, keys) = self.read();
        KeysView { live: self.clone(), number, keys }
    }

    fn read(&self) -> (u32, Arc<Keys>) {
        let keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.number.load(Ordering::Relaxed), Arc::clone(&keys))
    }
}

/// One reader's snapshot: it stays the same until it is refreshed.
pub(super) struct KeysView {
    live: LiveKeys,
    number: u32,
    keys: Arc<Keys>,
}

impl KeysView {
    /// Takes over the keys in force. Where they have not changed this is one load of an atomic number.
    pub(super) fn refresh(&mut self) {
        if self.live.0.number.load(Ordering::Acquire) != self.number {
            (self.number, self.keys) = self.live.read();
        }
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_changes_only_when_it_is_refreshed() {
        let live = LiveKeys::new(Keys::new(1));
        let mut view = live.view();
        let mut store =
            vault::KeyStore::new(Keys::new(1), vault::MemoryRecords::default()).unwrap();
        let secret = vault::SecretKey::from_bytes(&[7; 32]);
        store.unseal(vault::KeyEncryptionKey::new(&secret)).unwrap();
        live.replace(store.keys().clone());
        assert!(view.keys().is_sealed(), "in the middle of a request");
        view.refresh();
        assert!(!view.keys().is_sealed());
    }
}
