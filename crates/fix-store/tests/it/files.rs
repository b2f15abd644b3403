//! One file `numbers` after the other, with the thread that makes them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fix_session::{MessageStore, MessageStores};
use fix_store::{Durability, FileStores, NumbersFile, Options, read_memos};

/// A file grows by 8 MiB.
const MESSAGE_BYTES: usize = 100_000;
const MESSAGES: u64 = 2_400;

fn open(root: &Path) -> FileStores<NumbersFile> {
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for name in ["A", "B"] {
        stores.add(name, Durability::Written, 0).unwrap();
    }
    stores
}

/// Who looks beside the process that writes never sees less than it saw before, also where the newer file takes the name of the older one.
#[test]
fn who_looks_on_sees_the_numbers_rise_over_several_files() {
    let root = tempfile::tempdir().unwrap();
    let mut stores = open(root.path());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let (mut last, mut looks) = (0, 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                let memos = read_memos(root.path()).unwrap();
                let next =
                    memos.iter().find(|memo| memo.0 == "A").map_or(0, |memo| memo.1.next_out);
                assert!(next >= last, "{next} after {last}");
                (last, looks) = (next, looks + 1);
            }
            looks
        });
        for number in 0..MESSAGES {
            stores.store(0).put(&vec![b'x'; MESSAGE_BYTES]).unwrap();
            stores.store(1).set_next_in(number + 2).unwrap();
            stores.flush(&[0, 1]).unwrap();
            let length = std::fs::metadata(root.path().join("numbers")).unwrap().len();
            assert!(length < (2 << 26) + (1 << 20), "{length}");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(looks.join().unwrap() > 2);
    });
    drop(stores);
    assert!(!root.path().join("numbers.next").exists());
    let mut stores = open(root.path());
    assert_eq!(
        (stores.store(0).next_out(), stores.store(1).next_in()),
        (MESSAGES + 1, MESSAGES + 1)
    );
    let mut message = Vec::new();
    for seq in 1..=MESSAGES {
        message.clear();
        assert!(stores.store(0).get(seq, &mut message) && message.len() == MESSAGE_BYTES, "{seq}");
    }
}
