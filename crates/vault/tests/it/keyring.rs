//! Named keys beside a simple model, rebuilt from their records at every step; counts, sealing, rewrapping.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vault::{
    AppendError, Change, ChangeError, Drbg, HMAC_KEY_BYTES, HashAlgorithm, Item, ItemError,
    KeyBackup, KeyBackupVersion, KeyConfig, KeyEncryptionKey, KeyKind, KeyName, KeyPolicy,
    KeyRecords, KeyStore, KeyStoreError, KeyType, Keys, MemoryRecords, NamedKey, RESERVED_BLOCK,
    RecordError, Sealed, UnsealError, VersionError,
};
use zeroize::Zeroizing;

use crate::support::secret;

type Store = KeyStore<MemoryRecords>;

fn kek() -> KeyEncryptionKey {
    KeyEncryptionKey::new(&secret(9))
}

fn store() -> Store {
    let mut store = KeyStore::new(Keys::new(100), MemoryRecords::default()).unwrap();
    store.unseal(kek()).unwrap();
    store
}

fn replayed(records: &[Vec<u8>]) -> Keys {
    let mut keys = Keys::new(100);
    records.iter().for_each(|record| keys.replay(record).unwrap());
    keys
}

fn rebuilt(records: &[Vec<u8>]) -> Keys {
    let mut keys = replayed(records);
    keys.unseal(kek()).unwrap();
    keys
}

fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

fn create(store: &mut Store, text: &str, kind: KeyKind) {
    let change = Change::Create { name: name(text), policy: KeyPolicy::new(kind) };
    assert_eq!(store.change(&change, 1000), Ok(true));
}

const CMAC: KeyKind = KeyKind::Sealing(KeyType::Aes256CbcCmac);
const GCM: KeyKind = KeyKind::Sealing(KeyType::Aes256Gcm96);
const GCM_128: KeyKind = KeyKind::Sealing(KeyType::Aes128Gcm96);

/// Seals one message with a version as a door does: counted, and a block reserved where one is needed.
fn seal(store: &mut Store, text: &str, version: u32) -> Result<(u32, Vec<u8>), String> {
    let key = store.keys().get(text).ok_or("no key")?;
    let (number, found) = key.versions().sealing(version).map_err(|why| why.to_string())?;
    if found.count().take(1).is_err() {
        let change = Change::Reserve { name: name(text), version: number, messages: 1 };
        store.change(&change, 1000).map_err(|why| why.to_string())?;
        let key = store.keys().get(text).unwrap();
        key.versions().sealing(version).unwrap().1.count().take(1).unwrap();
    }
    let (_, found) = store.keys().get(text).unwrap().versions().sealing(version).unwrap();
    let key = found.key().unwrap().unwrap();
    let mut sealed = vec![0; key.kind().sealed_len(5)];
    let mut items = [Item::new(b"hello", b"", &mut sealed)];
    key.seal(&mut items, &mut Drbg::new().unwrap());
    items[0].outcome.map_err(|why| why.to_string())?;
    Ok((number, sealed))
}

fn open(key: &NamedKey, version: u32, sealed: &[u8]) -> Result<Vec<u8>, String> {
    let version = key.versions().opening(version).map_err(|why| why.to_string())?;
    let mut output = vec![0; sealed.len()];
    let mut items = [Item::new(sealed, b"", &mut output)];
    version.key().unwrap().unwrap().open(&mut items);
    items[0].written().map(<[u8]>::to_vec).map_err(|why| why.to_string())
}

/// What the model knows of a key.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    kind: KeyKind,
    /// The least version that was not destroyed, once that was said.
    least: Option<u32>,
    latest: u32,
    min_decryption: u32,
    min_encryption: u32,
    deletable: bool,
    /// Tells a key from an earlier one of its name.
    life: u32,
}

#[derive(Clone, Debug)]
enum Op {
    Create(usize, usize),
    Rotate(usize),
    Configure(usize, Option<u32>, Option<u32>, Option<bool>),
    Trim(usize, u32),
    Delete(usize),
    Seal(usize, u32),
    Restart,
    Rewrap,
}

const KINDS: [KeyKind; 3] = [CMAC, GCM, GCM_128];
const NAMES: [&str; 3] = ["a", "b-2", "stock/c"];

fn op() -> impl Strategy<Value = Op> {
    let key = 0..NAMES.len();
    prop_oneof![
        2 => (key.clone(), 0..KINDS.len()).prop_map(|(key, kind)| Op::Create(key, kind)),
        4 => key.clone().prop_map(Op::Rotate),
        4 => (key.clone(), prop::option::of(0..6_u32), prop::option::of(0..6_u32), any::<Option<bool>>())
            .prop_map(|(key, decryption, encryption, delete)| Op::Configure(key, decryption, encryption, delete)),
        2 => (key.clone(), 0..5_u32).prop_map(|(key, least)| Op::Trim(key, least)),
        1 => key.clone().prop_map(Op::Delete),
        6 => (key, 0..5_u32).prop_map(|(key, version)| Op::Seal(key, version)),
        1 => Just(Op::Restart),
        1 => Just(Op::Rewrap),
    ]
}

/// A model that is as plain as can be.
#[derive(Default)]
struct Model {
    keys: BTreeMap<&'static str, Known>,
    lives: u32,
    messages: Vec<(&'static str, u32, u32, Vec<u8>)>,
}

impl Model {
    /// Tells what becomes of a change: something, nothing, or a refusal.
    fn change(&mut self, op: &Op) -> Option<bool> {
        match *op {
            Op::Create(at, kind) => {
                if self.keys.contains_key(NAMES[at]) {
                    return Some(false);
                }
                self.lives += 1;
                let (kind, life) = (KINDS[kind], self.lives);
                let (deletable, min_encryption) = (false, 0);
                let (least, latest, min_decryption) = (None, 1, 1);
                let key =
                    Known { kind, least, latest, min_decryption, min_encryption, deletable, life };
                self.keys.insert(NAMES[at], key);
            }
            Op::Rotate(at) => self.keys.get_mut(NAMES[at])?.latest += 1,
            Op::Configure(at, decryption, encryption, delete) => {
                let key = self.keys.get_mut(NAMES[at])?;
                let mut next = key.clone();
                next.min_decryption = decryption.map_or(key.min_decryption, |found| found.max(1));
                next.min_encryption = encryption.unwrap_or(key.min_encryption);
                next.deletable = delete.unwrap_or(key.deletable);
                let order = next.min_encryption == 0 || next.min_encryption >= next.min_decryption;
                let there = next.min_decryption.max(next.min_encryption) <= key.latest;
                let kept = key.least.is_none_or(|least| {
                    next.min_decryption >= least && next.min_encryption >= least
                });
                if !order || !there || !kept {
                    return None;
                }
                let changed = next != *key;
                *key = next;
                return Some(changed);
            }
            Op::Trim(at, least) => {
                let key = self.keys.get_mut(NAMES[at])?;
                let known = key.least.unwrap_or(0);
                let highest = key.min_encryption.min(key.min_decryption);
                if key.min_encryption == 0 || !(known..=highest).contains(&least) {
                    return None;
                }
                let changed = least != known;
                key.least = Some(least).filter(|least| *least > 0);
                return Some(changed);
            }
            Op::Delete(at) => {
                self.keys.get(NAMES[at]).filter(|key| key.deletable)?;
                self.keys.remove(NAMES[at]);
            }
            Op::Seal(..) | Op::Restart | Op::Rewrap => unreachable!("no change of the model"),
        }
        Some(true)
    }

    fn may_seal(&self, at: usize, version: u32) -> Option<u32> {
        let key = self.keys.get(NAMES[at])?;
        let version = if version == 0 { key.latest } else { version };
        let may = version <= key.latest
            && version >= key.min_encryption
            && version >= key.least.unwrap_or(1);
        may.then_some(version)
    }

    fn check(&self, keys: &Keys) {
        let names: Vec<&str> = keys.iter().map(|key| key.name().as_str()).collect();
        assert_eq!(names, self.keys.keys().copied().collect::<Vec<_>>());
        for (name, known) in &self.keys {
            let (key, policy) = (keys.get(name).unwrap(), keys.get(name).unwrap().policy());
            let numbers: Vec<u32> = key.versions().iter().map(|(number, _)| number).collect();
            assert_eq!(
                numbers,
                (known.least.unwrap_or(1)..=known.latest).collect::<Vec<_>>(),
                "{name}"
            );
            assert_eq!(policy.kind, known.kind);
            assert_eq!(policy.min_decryption, known.min_decryption, "{name}");
            assert_eq!(policy.min_encryption, known.min_encryption, "{name}");
            assert_eq!(policy.deletion_allowed, known.deletable, "{name}");
        }
        for (name, life, version, sealed) in &self.messages {
            let Some(key) = keys.get(name) else { continue };
            let known = &self.keys[name];
            let opens = *life == known.life && *version >= known.min_decryption;
            let opened = open(key, *version, sealed);
            assert_eq!(opened.as_deref().ok(), opens.then_some(&b"hello"[..]), "{name} {version}");
        }
    }
}

fn change_of(op: &Op) -> Change {
    match *op {
        Op::Create(at, kind) => {
            Change::Create { name: name(NAMES[at]), policy: KeyPolicy::new(KINDS[kind]) }
        }
        Op::Rotate(at) => Change::Rotate(name(NAMES[at])),
        Op::Configure(at, min_decryption, min_encryption, deletion_allowed) => {
            let rest = KeyConfig::default();
            let config = KeyConfig { min_decryption, min_encryption, deletion_allowed, ..rest };
            Change::Configure { name: name(NAMES[at]), config }
        }
        Op::Trim(at, min_available) => Change::Trim { name: name(NAMES[at]), min_available },
        Op::Delete(at) => Change::Delete(name(NAMES[at])),
        Op::Seal(..) | Op::Restart | Op::Rewrap => unreachable!("no change"),
    }
}

fn play(ops: &[Op]) {
    let (mut store, mut model) = (store(), Model::default());
    for op in ops {
        match op {
            Op::Seal(at, version) => {
                let sealed = seal(&mut store, NAMES[*at], *version).ok();
                assert_eq!(
                    sealed.as_ref().map(|(number, _)| *number),
                    model.may_seal(*at, *version)
                );
                let life = model.keys.get(NAMES[*at]).map_or(0, |key| key.life);
                model
                    .messages
                    .extend(sealed.map(|(number, text)| (NAMES[*at], life, number, text)));
            }
            Op::Restart => {
                let records = store.records().clone();
                store = KeyStore::new(rebuilt(&records.0), records).unwrap();
            }
            Op::Rewrap => store.rewrap(kek()).unwrap(),
            _ => {
                let before = store.records().0.len();
                let outcome = store.change(&change_of(op), 1000).ok();
                assert_eq!(outcome, model.change(op), "{op:?}");
                let wrote = store.records().0.len() - before;
                assert_eq!(wrote, usize::from(outcome == Some(true)), "one record per change");
            }
        }
        model.check(store.keys());
        let again = rebuilt(&store.records().0);
        model.check(&again);
        let snapshot: Vec<Vec<u8>> = store.keys().snapshot().collect();
        model.check(&rebuilt(&snapshot));
        for (live, later) in store.keys().iter().zip(again.iter()) {
            assert_eq!(live.policy(), later.policy());
            for ((_, live), (_, later)) in live.versions().iter().zip(later.versions().iter()) {
                assert!(later.count().used() >= live.count().used(), "a count that is too low");
                assert_eq!(later.count().reserved(), live.count().reserved());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn keys_are_what_a_simple_model_says(ops in prop::collection::vec(op(), 1..40)) {
        play(&ops);
    }

    /// Whatever is read as records is refused or applied; nothing panics.
    #[test]
    fn damaged_records_are_refused(at in any::<prop::sample::Index>(), bit in 0..8_u32, cut in any::<bool>()) {
        let mut store = store();
        create(&mut store, "a", GCM);
        store.change(&Change::Rotate(name("a")), 5).unwrap();
        for record in &store.records().0 {
            let mut changed = record.clone();
            let at = at.index(changed.len());
            if cut { changed.truncate(at) } else { changed[at] ^= 1 << bit }
            let mut keys = rebuilt(&store.records().0);
            let _ = keys.apply(&changed);
        }
    }
}

#[test]
fn a_version_refuses_what_is_above_its_limit() {
    let mut store = store();
    let policy = KeyPolicy::new(GCM_128);
    let key = Zeroizing::new(vec![7; 16]);
    let versions = vec![KeyBackupVersion { key, ..version(1, (1 << 32) - 3) }];
    let backup = KeyBackup { policy, versions };
    let change = Change::Restore { name: name("a"), backup, force: false };
    assert_eq!(store.change(&change, 5), Ok(true));
    for _ in 0..3 {
        seal(&mut store, "a", 0).unwrap();
    }
    let refused = seal(&mut store, "a", 0).unwrap_err();
    assert_eq!(refused, ItemError::Exhausted.to_string());
    // So it is after a restart, and a new version goes on.
    let records = store.records().clone();
    let mut store = KeyStore::new(rebuilt(&records.0), records).unwrap();
    assert_eq!(seal(&mut store, "a", 0).unwrap_err(), refused);
    store.change(&Change::Rotate(name("a")), 5).unwrap();
    assert_eq!(seal(&mut store, "a", 0).unwrap().0, 2);
}

#[test]
fn a_block_is_reserved_before_it_is_used() {
    let mut store = store();
    create(&mut store, "a", GCM);
    let count = |store: &Store| {
        let count = store.keys().get("a").unwrap().versions().get(1).unwrap().count();
        (count.used(), count.reserved())
    };
    assert_eq!(count(&store), (0, 0));
    seal(&mut store, "a", 0).unwrap();
    assert_eq!(count(&store), (1, RESERVED_BLOCK));
    // A crash: all of the block may have been used.
    let records = store.records().clone();
    let mut store = KeyStore::new(rebuilt(&records.0), records).unwrap();
    assert_eq!(count(&store), (RESERVED_BLOCK, RESERVED_BLOCK));
    let large = Change::Reserve { name: name("a"), version: 1, messages: 3 * RESERVED_BLOCK };
    assert_eq!(store.change(&large, 5), Ok(true));
    assert_eq!(count(&store), (RESERVED_BLOCK, 4 * RESERVED_BLOCK));
    assert_eq!(store.change(&large, 5), Ok(false), "enough is reserved");
    // Threads that take at the same time get each message once.
    let found = store.keys().get("a").unwrap().versions().get(1).unwrap();
    let taken: u64 = std::thread::scope(|scope| {
        let take = || (0..200_000).filter(|_| found.count().take(3).is_ok()).count();
        let all = [scope.spawn(take), scope.spawn(take)].map(|one| one.join().unwrap());
        u64::try_from(all.iter().sum::<usize>()).unwrap()
    });
    assert_eq!(taken, 3 * RESERVED_BLOCK / 3);
}

/// Records that fail where they are told to.
#[derive(Debug)]
struct Failing(Vec<Vec<u8>>, bool);

impl KeyRecords for Failing {
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        if self.1 {
            return Err(AppendError("the disk is full".into()));
        }
        self.0.push(record.to_vec());
        self.1 = true;
        Ok(())
    }
}

#[test]
fn what_is_not_durable_has_not_happened() {
    let mut store = KeyStore::new(Keys::new(9), Failing(Vec::new(), false)).unwrap();
    store.unseal(kek()).unwrap();
    let change = Change::Create { name: name("a"), policy: KeyPolicy::new(GCM) };
    let refused = store.change(&change, 1).unwrap_err();
    assert!(matches!(refused, KeyStoreError::Append(_)));
    assert!(store.keys().is_empty(), "no key without its record");
}

#[test]
fn a_wrong_kek_writes_nothing_and_a_missing_one_seals() {
    let mut first = store();
    create(&mut first, "a", GCM);
    let records = first.records().clone();
    let mut store = KeyStore::new(replayed(&records.0), records.clone()).unwrap();
    assert!(store.keys().is_sealed());
    let rotate = Change::Rotate(name("a"));
    assert_eq!(store.change(&rotate, 1), Err(ChangeError::Sealed(Sealed).into()));
    let wrong = store.unseal(KeyEncryptionKey::new(&secret(8)));
    assert_eq!(wrong, Err(UnsealError::WrongKek.into()));
    let version = store.keys().get("a").unwrap().versions().get(1).unwrap();
    assert_eq!(version.key().unwrap_err(), Sealed);
    assert_eq!(version.tag(HashAlgorithm::Sha256, b"x").unwrap_err(), Sealed);
    assert_eq!(store.records().0, records.0, "nothing was written");
    store.unseal(kek()).unwrap();
    assert_eq!(store.change(&rotate, 1), Ok(true));
    store.seal();
    assert_eq!(store.change(&rotate, 1), Err(ChangeError::Sealed(Sealed).into()));
    store.unseal(kek()).unwrap();
    assert_eq!(store.keys().get("a").unwrap().versions().latest(), 2);
}

#[test]
fn another_kek_wraps_everything_anew() {
    let mut store = store();
    for kind in [GCM, GCM_128, CMAC, KeyKind::Hmac { key_bytes: 77 }] {
        create(&mut store, kind.name(), kind);
        store.change(&Change::Rotate(name(kind.name())), 5).unwrap();
    }
    let (number, sealed) = seal(&mut store, GCM.name(), 1).unwrap();
    let reserved = |keys: &Keys| {
        let key = keys.get(GCM.name()).unwrap();
        key.versions().get(1).unwrap().count().reserved()
    };
    store.rewrap(KeyEncryptionKey::new(&secret(4))).unwrap();
    let opened = open(store.keys().get(GCM.name()).unwrap(), number, &sealed);
    assert_eq!(opened.unwrap(), b"hello");
    assert_eq!(reserved(store.keys()), RESERVED_BLOCK);
    let mut keys = replayed(&store.records().0);
    assert_eq!(keys.unseal(kek()), Err(UnsealError::WrongKek), "the old one is none any more");
    keys.unseal(KeyEncryptionKey::new(&secret(4))).unwrap();
    assert_eq!(open(keys.get(GCM.name()).unwrap(), number, &sealed).unwrap(), b"hello");
    assert_eq!(reserved(&keys), RESERVED_BLOCK);
}

/// A wrapped key that is moved to another name, type or version does not open.
#[test]
fn a_record_that_was_changed_says_which_version() {
    let mut store = store();
    create(&mut store, "a", GCM);
    let records = store.records().0.clone();
    let mut moved = records.clone();
    let at = moved[1].iter().position(|byte| *byte == b'a').unwrap();
    moved[1][at] = b'b';
    let error = UnsealError::Record(RecordError::Wrap { name: name("b"), version: 1 });
    assert_eq!(replayed(&moved).unseal(kek()), Err(error));
    for kind in [KeyType::Aes256GcmSiv, KeyType::Aes128Gcm96] {
        let mut other_type = records.clone();
        other_type[1][at + 1] = kind.code();
        let error = UnsealError::Record(RecordError::Wrap { name: name("a"), version: 1 });
        assert_eq!(replayed(&other_type).unseal(kek()), Err(error));
    }
    // A type of a later version of the program: it says so, and no key is taken for another type.
    let mut later = records.clone();
    later[1][at + 1] = 6;
    let error = Keys::new(9).replay(&later[1]).unwrap_err().to_string();
    assert!(error.contains("it is damaged, or a newer version wrote it"), "{error}");
    let mut twice = Keys::new(9);
    twice.replay(&records[0]).unwrap();
    assert!(matches!(twice.replay(&records[0]), Err(RecordError::Order(_))));
    assert!(matches!(Keys::new(9).replay(&records[1]), Err(RecordError::Order(_))));
}

fn version(number: u32, messages: u64) -> KeyBackupVersion {
    let (key, tag_key) = (vec![7; 32], vec![8; 32]);
    let (key, tag_key) = (Zeroizing::new(key), Zeroizing::new(tag_key));
    KeyBackupVersion { number, created_s: 1000, messages, key, tag_key }
}

#[test]
fn a_backup_that_is_no_key_is_refused() {
    let mut store = store();
    let policy = KeyPolicy::new(GCM);
    let mut refused = |policy: KeyPolicy, versions: Vec<KeyBackupVersion>| {
        let backup = KeyBackup { policy, versions };
        let change = Change::Restore { name: name("a"), backup, force: false };
        store.change(&change, 5).unwrap_err().to_string()
    };
    assert!(refused(policy, vec![]).contains("no versions"));
    assert!(refused(policy, vec![version(1, 0), version(3, 0)]).contains("follow each other"));
    assert!(refused(policy, vec![version(0, 0)]).contains("follow each other"));
    assert!(refused(policy, vec![version(2, 0)]).contains("first version"));
    let high = KeyPolicy { min_decryption: 2, ..policy };
    assert!(refused(high, vec![version(1, 0)]).contains("least versions"));
    let short = KeyBackupVersion { key: Zeroizing::new(vec![7; 31]), ..version(1, 0) };
    assert!(refused(policy, vec![short]).contains("another length"));
    let halved = || KeyBackupVersion { key: Zeroizing::new(vec![7; 16]), ..version(1, 0) };
    assert!(refused(policy, vec![halved()]).contains("another length"));
    let policy_128 = KeyPolicy::new(GCM_128);
    assert!(refused(policy_128, vec![version(1, 0)]).contains("another length"));
    let tag_key = Zeroizing::new(vec![8; 16]);
    let short = KeyBackupVersion { tag_key, ..halved() };
    assert!(refused(policy_128, vec![short]).contains("another length"));
    let hmac = KeyPolicy::new(KeyKind::Hmac { key_bytes: 64 });
    assert!(refused(hmac, vec![version(1, 0)]).contains("another length"));
    let convergent = KeyPolicy { convergent: true, ..policy };
    assert!(refused(convergent, vec![version(1, 0)]).contains("requires derivation"));
}

#[test]
fn policies_that_cannot_be_are_refused() {
    let mut store = store();
    let mut refused = |policy: KeyPolicy| {
        let change = Change::Create { name: name("a"), policy };
        store.change(&change, 5).unwrap_err()
    };
    let bulk = KeyPolicy { derived: true, convergent: true, ..KeyPolicy::new(CMAC) };
    assert!(refused(bulk).to_string().contains("not supported for keys of type aes256-cbc-cmac"));
    let hmac = KeyPolicy::new(KeyKind::Hmac { key_bytes: HMAC_KEY_BYTES });
    let derived = KeyPolicy { derived: true, ..hmac };
    assert_eq!(
        refused(derived).to_string(),
        "key derivation and convergent encryption not supported for keys of type hmac"
    );
    for key_bytes in [0, 31, 513] {
        let policy = KeyPolicy::new(KeyKind::Hmac { key_bytes });
        assert_eq!(refused(policy), ChangeError::KeySize(key_bytes).into());
    }
    let often = KeyPolicy { auto_rotate_s: 3599, ..hmac };
    assert_eq!(refused(often), ChangeError::RotatePeriod.into());
    let mut full = KeyStore::new(Keys::new(1), MemoryRecords::default()).unwrap();
    full.unseal(kek()).unwrap();
    create(&mut full, "a", GCM);
    let change = Change::Create { name: name("b"), policy: KeyPolicy::new(GCM) };
    assert_eq!(full.change(&change, 5), Err(ChangeError::TooMany(1).into()));
}

#[test]
fn rotations_are_due_when_their_period_ends() {
    let mut store = store();
    create(&mut store, "never", GCM);
    let policy = KeyPolicy { auto_rotate_s: 3600, ..KeyPolicy::new(GCM) };
    store.change(&Change::Create { name: name("a"), policy }, 1000).unwrap();
    let due = |store: &Store, now| store.keys().due(now).cloned().collect::<Vec<_>>();
    assert_eq!(due(&store, 4599), []);
    assert_eq!(due(&store, 4600), [name("a")]);
    let soft_deleted = |store: &mut Store, on| {
        let config = KeyConfig { soft_deleted: Some(on), ..KeyConfig::default() };
        store.change(&Change::Configure { name: name("a"), config }, 4600).unwrap()
    };
    assert!(soft_deleted(&mut store, true));
    assert_eq!(due(&store, 4600), [], "nobody uses it");
    let refused = store.change(&Change::Rotate(name("a")), 4600);
    assert_eq!(refused, Err(ChangeError::SoftDeleted.into()));
    assert!(soft_deleted(&mut store, false));
    store.change(&Change::Rotate(name("a")), 4600).unwrap();
    assert_eq!(due(&store, 4600), []);
}

/// Tags of a version go on being tags after a rotation, and the two keys of a version are two.
#[test]
fn a_version_has_a_key_of_tags_of_its_own() {
    let mut store = store();
    create(&mut store, "a", GCM);
    store.change(&Change::Rotate(name("a")), 5).unwrap();
    let versions = store.keys().get("a").unwrap().versions();
    let (first, second) = (versions.get(1).unwrap(), versions.get(2).unwrap());
    let tag = first.tag(HashAlgorithm::Sha512, b"x").unwrap();
    assert!(first.verify(HashAlgorithm::Sha512, b"x", tag.as_bytes()).unwrap());
    assert!(!first.verify(HashAlgorithm::Sha512, b"y", tag.as_bytes()).unwrap());
    assert!(!first.verify(HashAlgorithm::Sha512, b"x", &tag.as_bytes()[..63]).unwrap());
    assert!(!second.verify(HashAlgorithm::Sha512, b"x", tag.as_bytes()).unwrap());
    assert_ne!(first.expose_key().unwrap(), first.expose_tag_key().unwrap());
    assert_eq!(versions.opening(3).unwrap_err(), VersionError::TooNew);
    create(&mut store, "h", KeyKind::Hmac { key_bytes: 64 });
    let hmac = store.keys().get("h").unwrap().versions().get(1).unwrap();
    assert!(hmac.key().unwrap().is_none(), "it seals nothing");
    assert_eq!(hmac.expose_key().unwrap(), hmac.expose_tag_key().unwrap());
    assert_eq!(hmac.expose_key().unwrap().len(), 64);
}

/// Everything of named keys that can be shown, of a key with these bytes.
pub(crate) fn shown(key: &[u8; 32]) -> String {
    let mut store = store();
    let bytes = || Zeroizing::new(key.to_vec());
    let version = KeyBackupVersion { key: bytes(), tag_key: bytes(), ..version(1, 0) };
    let backup = KeyBackup { policy: KeyPolicy::new(GCM), versions: vec![version] };
    let change = Change::Restore { name: name("a"), backup, force: false };
    store.change(&change, 5).unwrap();
    let found = store.keys().get("a").unwrap();
    let version = found.versions().get(1).unwrap();
    assert_eq!(version.expose_key().unwrap(), key);
    format!("{change:?} {:?} {found:?} {version:?}", store.keys())
}
