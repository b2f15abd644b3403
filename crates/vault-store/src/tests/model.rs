//! Random changes, with the folder opened anew after each, beside all records replayed from the first.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Create(usize),
    Rotate(usize),
    Least(usize, u32),
    Trim(usize, u32),
    Delete(usize),
    Use(usize, u64),
    Upsert(bool),
    Rewrap(u8),
}

const NAMES: [&str; 3] = ["a", "b-2", "stock/c"];

fn op() -> impl Strategy<Value = Op> {
    let key = 0..NAMES.len();
    prop_oneof![
        3 => key.clone().prop_map(Op::Create),
        4 => key.clone().prop_map(Op::Rotate),
        2 => (key.clone(), 1..6_u32).prop_map(|(key, least)| Op::Least(key, least)),
        2 => (key.clone(), 1..6_u32).prop_map(|(key, least)| Op::Trim(key, least)),
        1 => key.clone().prop_map(Op::Delete),
        6 => (key, 1..300_000_u64).prop_map(|(key, messages)| Op::Use(key, messages)),
        1 => any::<bool>().prop_map(Op::Upsert),
        1 => any::<u8>().prop_map(Op::Rewrap),
    ]
}

fn change_of(op: &Op) -> Change {
    let name = |at: usize| name(NAMES[at]);
    match *op {
        Op::Create(at) => Change::Create { name: name(at), policy: KeyPolicy::new(KIND) },
        Op::Rotate(at) => Change::Rotate(name(at)),
        Op::Least(at, least) => {
            let config = KeyConfig {
                min_decryption: Some(least),
                min_encryption: Some(least),
                deletion_allowed: Some(true),
                ..KeyConfig::default()
            };
            Change::Configure { name: name(at), config }
        }
        Op::Trim(at, min_available) => Change::Trim { name: name(at), min_available },
        Op::Delete(at) => Change::Delete(name(at)),
        Op::Upsert(on) => Change::Upsert(on),
        Op::Use(..) | Op::Rewrap(_) => unreachable!("no change of their own"),
    }
}

/// What of a key must never go back within one life of it: its latest version, and the messages of each.
type Marks = Vec<(String, u32, Vec<(u32, u64)>)>;

fn marks(keys: &Keys) -> Marks {
    let versions = |key: &vault::NamedKey| {
        key.versions().iter().map(|(number, version)| (number, version.count().used())).collect()
    };
    keys.iter()
        .map(|key| (key.name().to_string(), key.versions().latest(), versions(key)))
        .collect()
}

/// Does one thing to the keys, as a door would.
fn act(store: &mut Store, op: &Op, kek: &mut u8) {
    match op {
        Op::Use(at, messages) => {
            let Some(key) = store.keys().get(NAMES[*at]) else { return };
            let version = key.versions().latest();
            let name = key.name().clone();
            let change = Change::Reserve { name, version, messages: *messages };
            store.change(&change, 1_000).unwrap();
            let key = store.keys().get(NAMES[*at]).unwrap();
            key.versions().get(version).unwrap().count().take(*messages).unwrap();
        }
        Op::Rewrap(number) => {
            *kek = *number;
            let next = KeyEncryptionKey::new(&SecretKey::from_bytes(&[*number; 32]));
            store.rewrap(next).unwrap();
        }
        op => match store.change(&change_of(op), 1_000) {
            Ok(_) | Err(KeyStoreError::Change(_)) => {}
            Err(other) => panic!("{op:?}: {other}"),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restart_after_each_change_finds_what_all_records_make(
        ops in prop::collection::vec(op(), 1..60)
    ) {
        let root = folder();
        let (mut kek, mut records) = (1_u8, Vec::new());
        for op in &ops {
            let mut store = open(root.path(), SMALL).unwrap();
            store.unseal(KeyEncryptionKey::new(&SecretKey::from_bytes(&[kek; 32]))).unwrap();
            act(&mut store, op, &mut kek);
            records.extend(store.records().records.iter().cloned());
            let (now, used) = (seen(store.keys()), marks(store.keys()));
            prop_assert_eq!(&now, &seen(&replayed(&records)), "after {:?}", op);
            drop(store);
            let again = open(root.path(), SMALL).unwrap();
            prop_assert_eq!(&seen(again.keys()), &now, "after {:?}", op);
            let needed: u64 = 16 + now.iter().map(|record| record.len() as u64 + 8).sum::<u64>();
            prop_assert!(again.records().file.file_bytes() <= SMALL.rewrite_bytes.max(2 * needed));
            for ((_, latest, before), (_, after_latest, after)) in used.iter().zip(marks(again.keys())) {
                prop_assert_eq!(*latest, after_latest);
                let grows = before.iter().zip(&after).all(|(old, new)| old.0 == new.0 && old.1 <= new.1);
                prop_assert!(grows, "{:?} {:?}", before, after);
            }
        }
    }
}
