//! Which calls a worker does by itself: those whose work costs less than what another thread would save.
//!
//! Leaving a call to another thread and taking its answer back costs about 50 us of processor time, so that two threads are no faster below
//! twice that. What a byte of a body costs, by operation and type of the key, is measured by `proof/vault-costs` with items of 32 bytes;
//! docs/vault.md has the table. Shorter items cost up to three times as much a byte, longer ones less.

use vault::{KeyType, Keys};

use crate::Bulk;

/// Work that a worker does at once, ns.
const WORK_NS_MAX: usize = 100_000;
/// Of what has no row of its own: tags, hashes, keys that are not there yet.
const OTHER: usize = 104;

/// Bytes of the shortest item of a bulk stream: its length.
const ITEM_BYTES_MIN: usize = 4;

/// Tells whether a call is small, by its path behind `/v1/transit/` and the length of its body. What a whole bulk stream costs is that of as many
/// items as its bytes can have.
pub(super) fn is_small(path: &str, body_len: usize, keys: &Keys) -> bool {
    let mut segments = path.split('/');
    let mut segment = || segments.next().unwrap_or_default();
    let (verb, name) = (segment(), segment());
    let kind = |name| keys.get(name).and_then(|key| key.policy().kind.sealing());
    if verb == "bulk" {
        let [per_item, per_byte] = piece_ns(kind(segment()));
        let items = body_len / ITEM_BYTES_MIN;
        let work = items.saturating_mul(per_item);
        return work.saturating_add(body_len.saturating_mul(per_byte)) <= WORK_NS_MAX;
    }
    body_len.saturating_mul(tenths_ns_per_byte(verb, kind(name))) / 10 <= WORK_NS_MAX
}

/// Tells whether what waits of a bulk stream is little work. Without JSON the items cost, and their bytes only where they are long.
pub(super) fn is_small_piece(bulk: &Bulk, keys: &Keys) -> bool {
    let key = keys.get(bulk.key().as_str());
    let kind = key.and_then(|key| key.policy().kind.sealing());
    let waiting = bulk.waiting();
    let [per_item, per_byte] = piece_ns(kind);
    let work = waiting.items.saturating_mul(per_item);
    work.saturating_add(waiting.bytes.saturating_mul(per_byte)) <= WORK_NS_MAX
}

/// Nanoseconds of an item and of a byte of it.
fn piece_ns(kind: Option<KeyType>) -> [usize; 2] {
    match kind {
        Some(KeyType::Aes256CbcCmac) => [50, 1],
        Some(KeyType::Aes256Gcm96 | KeyType::Aes128Gcm96) => [140, 1],
        Some(KeyType::Aes256CbcHmacSha256) => [200, 2],
        Some(KeyType::Aes256GcmSiv) | None => [350, 3],
    }
}

fn tenths_ns_per_byte(verb: &str, kind: Option<KeyType>) -> usize {
    let [encrypt, decrypt, rewrap] = match kind {
        Some(KeyType::Aes256CbcCmac) => [44, 16, 24],
        Some(KeyType::Aes256Gcm96 | KeyType::Aes128Gcm96) => [58, 29, 48],
        Some(KeyType::Aes256CbcHmacSha256) => [88, 27, 52],
        Some(KeyType::Aes256GcmSiv) => [104, 56, 102],
        None => [OTHER; 3],
    };
    match verb {
        "encrypt" => encrypt,
        "decrypt" => decrypt,
        "rewrap" => rewrap,
        "hmac" | "verify" => 67,
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_more_a_byte_has_to_be_smaller() {
        let mut store =
            vault::KeyStore::new(Keys::new(9), vault::MemoryRecords::default()).unwrap();
        let secret = vault::SecretKey::from_bytes(&[7; 32]);
        store.unseal(vault::KeyEncryptionKey::new(&secret)).unwrap();
        for (name, kind) in [("bulk", KeyType::Aes256CbcCmac), ("siv", KeyType::Aes256GcmSiv)] {
            let name = vault::KeyName::new(name).unwrap();
            let policy = vault::KeyPolicy::new(vault::KeyKind::Sealing(kind));
            store.change(&vault::Change::Create { name, policy }, 1).unwrap();
        }
        let largest = |path: &str| {
            (0..1_usize << 20).rev().find(|len| is_small(path, *len, store.keys())).unwrap()
        };
        let by_cost =
            ["decrypt/bulk", "encrypt/bulk", "hmac/bulk/sha2-256", "rewrap/siv", "keys/x"];
        let sizes: Vec<usize> = by_cost.iter().map(|path| largest(path)).collect();
        assert!(sizes.is_sorted_by(|more, less| more > less), "{sizes:?}");
        assert_eq!(largest("encrypt/none"), largest("encrypt/siv"), "it may become any key");
        assert!(!is_small("decrypt/bulk", usize::MAX, store.keys()));
        let bulk = ["bulk/encrypt/bulk", "bulk/encrypt/siv"].map(largest);
        assert!(bulk[0] > 6_000 && bulk[1] > 1_000 && bulk[0] > bulk[1], "{bulk:?}");
        assert!(!is_small("bulk/decrypt/bulk", usize::MAX, store.keys()));
    }
}
