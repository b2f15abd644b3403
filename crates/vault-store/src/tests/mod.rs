//! Tests that need to make the disk fail, and those beside them.

mod carried;
mod endings;
mod faults;
mod model;
mod opening;

use std::path::Path;

use disk::planted::folder;
use vault::{
    AppendError, Change, KeyConfig, KeyEncryptionKey, KeyKind, KeyName, KeyPolicy, KeyRecords,
    KeyStore, KeyStoreError, KeyType, Keys, SecretKey,
};

use crate::{KeyFile, OpenError, Options};

/// A file that is written anew soon, so that small tests meet it.
const SMALL: Options = Options { keys_max: 100, rewrite_bytes: 700 };
/// One that never is.
const LARGE: Options = Options { keys_max: 100, rewrite_bytes: 1 << 30 };
const KIND: KeyKind = KeyKind::Sealing(KeyType::Aes256CbcCmac);

type Store = KeyStore<Recorder>;

/// The file with all records that it acknowledged beside.
#[derive(Debug)]
struct Recorder {
    file: KeyFile,
    records: Vec<Vec<u8>>,
}

impl KeyRecords for Recorder {
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        self.file.append(record)?;
        self.records.push(record.to_vec());
        Ok(())
    }

    fn applied(&mut self, keys: &Keys) {
        self.file.applied(keys);
    }
}

fn kek() -> KeyEncryptionKey {
    KeyEncryptionKey::new(&SecretKey::from_bytes(&[9; 32]))
}

fn open(folder: &Path, options: Options) -> Result<Store, OpenError> {
    let (file, keys) = KeyFile::open(folder, options)?;
    Ok(KeyStore::new(keys, Recorder { file, records: Vec::new() }).unwrap())
}

/// Opens a folder and unseals its keys.
fn unsealed(folder: &Path, options: Options) -> Store {
    let mut store = open(folder, options).unwrap();
    store.unseal(kek()).unwrap();
    store
}

/// The records that make these keys: equal for equal keys.
fn seen(keys: &Keys) -> Vec<Vec<u8>> {
    keys.snapshot().collect()
}

/// What a restart would see of a folder.
fn kept(folder: &Path) -> Vec<Vec<u8>> {
    seen(open(folder, LARGE).unwrap().keys())
}

/// What these records make.
fn replayed(records: &[Vec<u8>]) -> Keys {
    let mut keys = Keys::new(100);
    records.iter().for_each(|record| keys.replay(record).unwrap());
    keys
}

fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

/// One of a few kinds of changes, by its number.
fn change(number: u64) -> Change {
    let of = name(["a", "stock/b"][usize::from(number % 10 > 4)]);
    match number % 5 {
        0 => Change::Create { name: of, policy: KeyPolicy::new(KIND) },
        1 => Change::Rotate(of),
        2 => {
            let auto_rotate_s = Some(3_600 + number);
            let config = KeyConfig { auto_rotate_s, ..KeyConfig::default() };
            Change::Configure { name: of, config }
        }
        3 => Change::Reserve { name: of, version: 1, messages: 1 << 17 },
        _ => Change::Upsert(number.is_multiple_of(2)),
    }
}
