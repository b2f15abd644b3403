//! What was freed is read back out of this process's memory: nothing of a secret may be there.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use vault::{WipedBytes, reserve_wiped};
use zeroize::Zeroizing;

/// Of a size that the allocator keeps after it is freed, so that its place can be read again.
const BYTES: usize = 32 << 10;
const SECRET: u8 = 0x5a;
/// So many in a row are none of somebody else's who has the memory meanwhile.
const RUN: usize = 64;

/// Returns how many bytes of the secret are at a place of this process's memory, in runs; `None` where the place is no memory any more.
fn left_at(address: usize) -> Option<usize> {
    let memory = File::open("/proc/self/mem").expect("a process may read its own memory");
    let mut found = vec![0; BYTES];
    memory.read_exact_at(&mut found, u64::try_from(address).unwrap()).ok()?;
    let runs = found.chunk_by(|one, next| one == next);
    Some(runs.filter(|run| run[0] == SECRET && run.len() >= RUN).map(<[u8]>::len).sum())
}

#[test]
fn memory_is_zeros_before_it_is_given_back() {
    let secret = || vec![SECRET; BYTES];
    let kept = secret();
    assert_eq!(left_at(kept.as_ptr().addr()), Some(BYTES), "it would be seen");
    drop(Zeroizing::new(kept));

    let dropped = WipedBytes::from(secret());
    let address = dropped.as_ptr().addr();
    drop(dropped);
    assert_eq!(left_at(address).unwrap_or(0), 0, "dropped");

    let added = WipedBytes::from(secret());
    let address = added.as_ptr().addr();
    added.discard_added();
    assert_eq!(left_at(address).unwrap_or(0), 0, "discarded");

    // Room behind the end has been written, too.
    let mut cut = WipedBytes::from(secret());
    cut.truncate(1);
    let address = cut.as_ptr().addr();
    drop(cut);
    assert_eq!(left_at(address).unwrap_or(0), 0, "cut, then dropped");

    let mut grown = secret();
    let address = grown.as_ptr().addr();
    reserve_wiped(&mut grown, BYTES);
    assert_eq!(left_at(address).unwrap_or(0), 0, "moved out of");
    assert!(grown.iter().all(|byte| *byte == SECRET));
    drop(Zeroizing::new(grown));
}

/// The room behind the end is wiped where the memory stays in use as well.
#[test]
fn a_wiped_buffer_has_nothing_behind_its_end() {
    let mut bytes = WipedBytes::from(vec![SECRET; BYTES]);
    bytes.truncate(1);
    bytes.wipe();
    assert_eq!(left_at(bytes.as_ptr().addr()), Some(0));
}
