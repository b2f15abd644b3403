//! Keys under keys, versions, and what is never shown.

use vault::{
    Drbg, HmacKey, Item, ItemError, Key, KeyEncryptionKey, KeyType, VersionError, Versions,
};
use vault::{WRAPPED_BYTES, read_text, write_text};

use crate::support::{key, open, seal, secret};

#[test]
fn a_wrapped_key_opens_in_its_place_only() {
    let (kek, mut random) = (KeyEncryptionKey::new(&secret(9)), Drbg::new().unwrap());
    let wrapped = kek.wrap(&secret(1), "stock/game", 2, &mut random).unwrap();
    assert_eq!(kek.unwrap(&wrapped, "stock/game", 2).unwrap().expose(), secret(1).expose());
    let places =
        [("stock/game", 1), ("stock/game", 3), ("stock/gam", 2), ("stock/game2", 2), ("", 2)];
    for (name, version) in places {
        let outcome = kek.unwrap(&wrapped, name, version);
        assert_eq!(outcome.unwrap_err(), ItemError::Refused, "{name} {version}");
    }
    for bit in 0..WRAPPED_BYTES * 8 {
        let mut changed = wrapped;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(kek.unwrap(&changed, "stock/game", 2).unwrap_err(), ItemError::Refused);
    }
    for length in 0..WRAPPED_BYTES {
        assert_eq!(
            kek.unwrap(&wrapped[..length], "stock/game", 2).unwrap_err(),
            ItemError::Refused
        );
    }
    let longer = [&wrapped[..], &[0]].concat();
    assert_eq!(kek.unwrap(&longer, "stock/game", 2).unwrap_err(), ItemError::Refused);
    let other = KeyEncryptionKey::new(&secret(8));
    assert_eq!(other.unwrap(&wrapped, "stock/game", 2).unwrap_err(), ItemError::Refused);
    assert_ne!(other.fingerprint(), kek.fingerprint());
    let again = kek.wrap(&secret(1), "stock/game", 2, &mut random).unwrap();
    assert_ne!(again, wrapped, "a nonce of its own");
}

/// A wrapped key is no message, and a message no wrapped key, even where the KEK's bytes are a data key's too.
#[test]
fn wrapping_and_sealing_are_two_purposes() {
    let kek = KeyEncryptionKey::new(&secret(1));
    let wrapped = kek.wrap(&secret(2), "a", 1, &mut Drbg::new().unwrap()).unwrap();
    let aad = [&1_u32.to_be_bytes()[..], b"a"].concat();
    for kind in KeyType::ALL {
        assert_eq!(open(&key(kind), &wrapped[1..], &aad), Err(ItemError::Refused));
        let sealed = [&[1][..], &seal(&key(kind), secret(2).expose(), &aad)].concat();
        assert_eq!(kek.unwrap(&sealed, "a", 1).unwrap_err(), ItemError::Refused);
    }
}

fn versions(count: u8) -> Versions {
    let mut versions = Versions::new();
    for number in 1..=count {
        let key = Key::new(KeyType::Aes256CbcCmac, &secret(number));
        versions.add(u32::from(number), key).unwrap();
    }
    versions
}

#[test]
fn a_relabelled_message_does_not_open() {
    let versions = versions(3);
    let mut sealed = vec![0; 80];
    let mut items = [Item::new(&[7; 32], b"", &mut sealed)];
    assert_eq!(versions.seal(&mut items, 2, &mut Drbg::new().unwrap()), Ok(2));
    let mut text = String::new();
    write_text(2, &sealed, &mut text);
    for label in 0..6 {
        let relabelled = text.replacen("v2", &format!("v{label}"), 1);
        let mut read = Vec::new();
        let version = read_text(&relabelled, &mut read).unwrap();
        let mut output = [0; 48];
        let mut items = [Item::new(&read, b"", &mut output)];
        versions.open(&mut items, |_| version);
        let expected = if label == 2 { Ok(32) } else { Err(ItemError::Refused) };
        assert_eq!(items[0].outcome, expected, "as version {label}");
    }
}

#[test]
fn a_batch_opens_each_item_with_its_version() {
    let versions = versions(3);
    let plaintexts: Vec<[u8; 32]> = (0..200_u8).map(|at| [at; 32]).collect();
    let version = |at: usize| u32::try_from(at * 7 / 30 % 4 + 1).unwrap();
    let mut sealed = vec![[0; 80]; 200];
    for (at, (plaintext, sealed)) in plaintexts.iter().zip(&mut sealed).enumerate() {
        let mut items = [Item::new(plaintext, b"", sealed)];
        versions.seal(&mut items, version(at).min(3), &mut Drbg::new().unwrap()).unwrap();
    }
    let mut opened = vec![[0; 48]; 200];
    let mut items: Vec<Item<'_>> =
        sealed.iter().zip(&mut opened).map(|(s, o)| Item::new(s, b"", o)).collect();
    versions.open(&mut items, version);
    for (at, item) in items.iter().enumerate() {
        let expected =
            if version(at) == 4 { Err(ItemError::Refused) } else { Ok(&plaintexts[at][..]) };
        assert_eq!(item.written(), expected, "item {at}");
    }
}

#[test]
fn versions_that_may_not_be_used_say_why() {
    let mut versions = versions(4);
    assert_eq!(versions.opening(5).unwrap_err(), VersionError::TooNew);
    assert_eq!(versions.opening(0).unwrap_err(), VersionError::Gone);
    assert_eq!(versions.sealing(0).unwrap().0, 4);
    assert_eq!(versions.sealing(5).unwrap_err(), VersionError::AboveLatest);
    (versions.min_decryption, versions.min_encryption) = (2, 3);
    assert_eq!(versions.opening(1).unwrap_err(), VersionError::TooOld);
    assert_eq!(versions.sealing(2).unwrap_err(), VersionError::BelowMinimum);
    assert!(versions.opening(2).is_ok() && versions.sealing(3).is_ok());
    versions.trim(3);
    assert_eq!(versions.opening(2).unwrap_err(), VersionError::Gone);
    versions.trim(99);
    assert_eq!(versions.sealing(0).unwrap().0, 4, "the latest stays");
    let key = || Key::new(KeyType::Aes256GcmSiv, &secret(1));
    for version in [0, 3, 4, 6, u32::MAX] {
        assert_eq!(versions.add(version, key()), Err(VersionError::NotNext));
    }
    assert_eq!(Versions::new().sealing(0).unwrap_err(), VersionError::Gone);
    assert_eq!(Versions::new().add(u32::MAX, key()), Ok(()));
}

#[test]
fn no_debug_text_shows_a_key() {
    let marked = vault::SecretKey::from_bytes(b"MARKEDKEYMARKEDKEYMARKEDKEY_1234");
    let mut shown = format!("{marked:?} {:?} {:?}", KeyEncryptionKey::new(&marked), Drbg::new());
    shown += &format!("{:?} {:?}", HmacKey::new(marked.expose()).unwrap(), versions(1));
    for kind in KeyType::ALL {
        shown += &format!("{:?}", Key::new(kind, &marked));
        shown += &format!("{:#?}", Key::derived(kind, &marked, b"MARKED context").unwrap());
    }
    let mut output = *b"MARKED output";
    shown += &format!("{:?}", Item::new(b"MARKED plaintext", b"MARKED aad", &mut output));
    shown += &crate::keyring::shown(marked.expose());
    let numbers = marked.expose().map(|byte| byte.to_string()).join(", ");
    assert!(!shown.contains("MARKED") && !shown.contains(&numbers[..20]), "{shown}");
    assert!(shown.len() < 2000, "{shown}");
}

#[test]
fn nonces_do_not_repeat() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let mut random = Drbg::new().unwrap();
        let mut seen = std::collections::HashSet::new();
        for batch in [1, 2, 63, 64, 65, 300, 1, 1, 5000, 17] {
            let mut outputs = vec![vec![0; kind.sealed_len(1)]; batch];
            let mut items: Vec<Item<'_>> =
                outputs.iter_mut().map(|output| Item::new(b"x", b"", output)).collect();
            key.seal(&mut items, &mut random);
            let fresh = outputs.iter().all(|sealed| seen.insert(sealed[..12].to_vec()));
            assert!(fresh, "{kind}: a nonce came twice");
        }
    }
}
