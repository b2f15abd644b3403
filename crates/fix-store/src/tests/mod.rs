//! Tests that need to look inside, or to make the disk fail.

mod calls;
mod crash;
mod faults;
mod handover;
mod keeping;
mod missing;
mod model;
mod passwords;
mod waiting;

use std::path::Path;

use disk::planted::folder;
use fix_session::{MessageStore, MessageStores};

use crate::{Durability, FileStores, NumbersFile, Options};

/// 2026-11-23 10:15:30 UTC.
const START_MS: i64 = 1_795_428_930_000;

type Stores = FileStores<NumbersFile>;

/// Opens a folder with short segments and the sessions `A` and `B`.
fn open(root: &Path, segment_bytes: u64) -> Stores {
    let options = Options { segment_bytes, ..Options::default() };
    let mut stores = FileStores::open(root, options).unwrap();
    for name in ["A", "B"] {
        stores.add(name, Durability::Written, START_MS).unwrap();
    }
    stores
}

/// Everything that can be seen of a session: its numbers, and the messages that could be sent again.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    numbers: (u64, u64, i64),
    messages: Vec<Option<Vec<u8>>>,
}

fn seen(store: &mut impl MessageStore) -> Seen {
    let numbers = (store.next_out(), store.next_in(), store.created_unix_ms());
    let messages = (1..store.next_out().min(200)).map(|seq| got(store, seq)).collect();
    Seen { numbers, messages }
}

fn got(store: &mut impl MessageStore, seq: u64) -> Option<Vec<u8>> {
    let mut into = b"before".to_vec();
    let there = store.get(seq, &mut into);
    let message = into.strip_prefix(b"before").unwrap().to_vec();
    assert!(there || message.is_empty());
    there.then_some(message)
}

fn seen_both(stores: &mut Stores) -> [Seen; 2] {
    [0, 1].map(|at| seen(stores.store(at)))
}

/// A message that says what it is, of some length.
fn message(name: &str, number: u64, length: usize) -> Vec<u8> {
    format!("8=FIX.4.4\x0135=8\x0111={name}{number}\x0158={}\x01", "x".repeat(length)).into_bytes()
}
