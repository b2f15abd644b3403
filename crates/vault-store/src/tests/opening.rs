//! Folders that are made, taken, foreign, or of a later version.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn folder_and_files_are_for_their_user_alone() {
    let root = folder();
    let place = root.path().join("deep/vault");
    let mut store = unsealed(&place, Options { rewrite_bytes: 20, ..SMALL });
    for number in 0..10 {
        store.change(&change(number), 1_000).unwrap();
    }
    assert_eq!(mode(&place), 0o700);
    for file in ["keys", "lock"] {
        assert_eq!(mode(&place.join(file)), 0o600, "{file}");
    }
    assert!(!place.join("keys.new").exists());
}

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let root = folder();
    let first = unsealed(root.path(), SMALL);
    let error = open(root.path(), SMALL).unwrap_err();
    assert!(matches!(error, OpenError::Disk(disk::Error::Locked { .. })), "{error}");
    drop(first);
    assert!(open(root.path(), SMALL).is_ok());
}

#[test]
fn a_key_outlives_the_process_and_opens_with_its_kek_only() {
    let root = folder();
    let mut store = unsealed(root.path(), SMALL);
    store.change(&change(0), 1_000).unwrap();
    let version = |store: &Store| {
        let (_, version) = store.keys().get("a").unwrap().versions().sealing(0).unwrap();
        version.expose_tag_key().unwrap().to_vec()
    };
    let before = version(&store);
    drop(store);
    let mut again = open(root.path(), SMALL).unwrap();
    assert!(again.keys().is_sealed() && again.records().file.cut_bytes() == 0);
    let other = KeyEncryptionKey::new(&SecretKey::from_bytes(&[8; 32]));
    assert!(matches!(again.unseal(other), Err(KeyStoreError::Unseal(_))));
    again.unseal(kek()).unwrap();
    assert_eq!(version(&again), before);
    let file = fs::read(root.path().join("keys")).unwrap();
    assert!(!file.windows(32).any(|bytes| bytes == before), "keys are wrapped");
}

/// A file that a node wrote when there were four types that seal, with a version of each, and one of `hmac`.
const FOUR_TYPES: &[u8] = include_bytes!("four-types.keys");

/// What was sealed under them, of the text `hello`.
const SEALED: [(KeyType, &str); 4] = [
    (KeyType::Aes256Gcm96, "vault:v1:kxH2WGGWHflqLZwCOzYW+OsSI0KNEypnK/unkAVH1Ser"),
    (KeyType::Aes256GcmSiv, "vault:v1:S2x76MaZxSNt3GVzCRWPcGj6EkDYVQy/w7FFX8JKv+xf"),
    (
        KeyType::Aes256CbcCmac,
        "vault:v1:APndogqJjLR7f5hl4mtcy+CLkCs2mHp5MPRrwjbhhZUFdF22SfzEH4YDMA6Fj1Hh",
    ),
    (
        KeyType::Aes256CbcHmacSha256,
        "vault:v1:9fiHHFXGKUJ2BL/WClVcePOVAFs6Uk/Ednd1m5+io84hHI3MCZMISp+/zQYnEleCSljekwutvpQONgB1Uwc9Xw==",
    ),
];

#[test]
fn a_folder_from_before_a_type_was_added_opens_what_it_sealed() {
    let root = folder();
    fs::write(root.path().join("keys"), FOUR_TYPES).unwrap();
    let digits = format!("{:064}", 7);
    let kek = || KeyEncryptionKey::new(&SecretKey::parse(digits.as_bytes()).unwrap());
    let opens = |store: &Store| {
        for (kind, text) in SEALED {
            let key = store.keys().get(kind.name()).unwrap();
            assert_eq!(key.policy().kind, KeyKind::Sealing(kind));
            let mut sealed = Vec::new();
            let number = vault::read_text(text, &mut sealed).unwrap();
            let mut output = vec![0; kind.opened_max(sealed.len())];
            let mut items = [vault::Item::new(&sealed, b"", &mut output)];
            let version = key.versions().opening(number).unwrap();
            version.key().unwrap().unwrap().open(&mut items);
            assert_eq!(items[0].written(), Ok(&b"hello"[..]), "{kind}");
        }
    };
    let mut store = open(root.path(), SMALL).unwrap();
    store.unseal(kek()).unwrap();
    opens(&store);
    // With a key of the type that came after it, too, and after the file was written anew.
    let policy = KeyPolicy::new(KeyKind::Sealing(KeyType::Aes128Gcm96));
    store.change(&Change::Create { name: name("new"), policy }, 1_000).unwrap();
    for number in 0..10 {
        store.change(&change(number), 1_000).unwrap();
    }
    let before = seen(store.keys());
    drop(store);
    let mut store = open(root.path(), SMALL).unwrap();
    assert_eq!(seen(store.keys()), before);
    store.unseal(kek()).unwrap();
    opens(&store);
    assert_eq!(store.keys().get("new").unwrap().policy().kind, policy.kind);
}

#[test]
fn a_record_that_cannot_be_applied_is_refused_and_stays() {
    let root = folder();
    drop(unsealed(root.path(), SMALL));
    let path = root.path().join("keys");
    let ours = fs::read(&path).unwrap();
    assert!(ours.starts_with(b"WEIRKEYS\x01\0\0\0"));
    let kind = crate::key_file::KIND;
    let mut log =
        disk::LogFile::open(root.path(), kind, 0, |_, _, _| Ok::<_, OpenError>(())).unwrap();
    log.append(&[1, 99]).unwrap();
    drop(log);
    let bytes = fs::read(&path).unwrap();
    let error = open(root.path(), SMALL).unwrap_err().to_string();
    let told = format!("/keys at byte {}: ", ours.len());
    assert!(error.contains(&told) && error.contains("a newer version wrote it"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}
