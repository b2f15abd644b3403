//! What the tests share.

use vault::{Drbg, Item, ItemError, Key, KeyType, SecretKey};

/// A key that is the same in every run; `number` tells keys apart.
pub(crate) fn secret(number: u8) -> SecretKey {
    SecretKey::from_bytes(&std::array::from_fn(|at| number ^ u8::try_from(at).unwrap()))
}

pub(crate) fn key(kind: KeyType) -> Key {
    Key::new(kind, &secret(1))
}

/// Seals one message.
pub(crate) fn seal(key: &Key, plaintext: &[u8], aad: &[u8]) -> Vec<u8> {
    let mut output = vec![0; key.kind().sealed_len(plaintext.len())];
    let mut items = [Item::new(plaintext, aad, &mut output)];
    key.seal(&mut items, &mut Drbg::new().unwrap());
    assert_eq!(items[0].outcome, Ok(key.kind().sealed_len(plaintext.len())));
    output
}

/// Opens one message.
pub(crate) fn open(key: &Key, sealed: &[u8], aad: &[u8]) -> Result<Vec<u8>, ItemError> {
    let mut output = vec![0xee; key.kind().opened_max(sealed.len())];
    let mut items = [Item::new(sealed, aad, &mut output)];
    key.open(&mut items);
    items[0].written().map(<[u8]>::to_vec)
}
