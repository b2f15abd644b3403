// What must hold for a journal's folder with any bytes in its files. The fuzz target calls this function, and so does
// the test that replays its corpus in plain `cargo test`.

use ledger::Options;
use ledger_journal::files::BLOCK_BYTES;
use ledger_journal::recover;
use ledger_journal::snapshot::load;
use sha2::{Digest, Sha256};

use crate::files::Mem;

const GROUP_HEAD_BYTES: usize = 64;
const RECORD_HEAD_BYTES: usize = 16;

/// The first byte says what the rest is: bit 0 a snapshot, else a segment; bit 1 its checksums are made right first, so
/// that what stands behind them is reached.
pub(crate) fn journal_files(data: &[u8]) {
    let Some((first, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    if first & 2 != 0 {
        mend(&mut file);
    }
    let number = |at: usize| u64_at(&file, at).unwrap_or(1);
    let node = file.get(10..12).map_or(0, |node| u16::from_le_bytes([node[0], node[1]]));
    let (folder, options) = (Mem::default(), Options { workers: 2, ..Options::default() });
    if first & 1 != 0 {
        let sequence = number(24);
        folder.put(&format!("snapshot-{sequence:020}.weir"), file);
        if let Ok(loaded) = load(&folder, sequence, &options) {
            loaded.bank.audit().expect("a snapshot that was taken adds up");
        }
        return;
    }
    folder.put(&format!("segment-{:010}.weir", number(16)), file);
    let Ok(first) = recover(&folder, &options, node, &mut |_| {}) else { return };
    let again = recover(&folder, &options, node, &mut |_| {}).expect("what was recovered is sound");
    assert_eq!((again.bank.digest(), again.tail), (first.bank.digest(), first.tail));
    assert_eq!(again.report.cut, None);
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Makes checksums, sequences and counts of a file fit its lengths and messages.
fn mend(file: &mut Vec<u8>) {
    file.resize(file.len().next_multiple_of(BLOCK_BYTES).max(BLOCK_BYTES), 0);
    file[12..16].fill(0);
    let sum = crc32c::crc32c(&file[..BLOCK_BYTES]);
    file[12..16].copy_from_slice(&sum.to_le_bytes());
    let (mut sequence, mut crc) = (u64_at(file, 24).unwrap_or(1), u32_at(file, 40).unwrap_or(0));
    let mut hash: [u8; 32] = file[48..80].try_into().expect("32 bytes");
    let mut rest = &mut file[BLOCK_BYTES..];
    while let Some(bytes) = u32_at(rest, 8).map(|bytes| bytes as usize) {
        let padded = bytes.next_multiple_of(BLOCK_BYTES);
        if bytes < GROUP_HEAD_BYTES || padded > rest.len() {
            return;
        }
        let (group, after) = rest.split_at_mut(padded);
        rest = after;
        group[16..24].copy_from_slice(&sequence.to_le_bytes());
        let records = mend_records(&mut group[GROUP_HEAD_BYTES..bytes], &mut sequence, &mut crc);
        group[..4].copy_from_slice(b"WGRP");
        group[12..16].copy_from_slice(&records.to_le_bytes());
        let mut sum = Sha256::new();
        sum.update(hash);
        sum.update(&group[8..32]);
        sum.update(&group[GROUP_HEAD_BYTES..]);
        hash = sum.finalize().into();
        group[32..64].copy_from_slice(&hash);
        let sum = crc32c::crc32c(&group[8..64]);
        group[4..8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Returns how many records there are.
fn mend_records(mut rest: &mut [u8], sequence: &mut u64, crc: &mut u32) -> u32 {
    let mut records = 0;
    while let Some(bytes) = u32_at(rest, 4).map(|bytes| bytes as usize) {
        let next = bytes.next_multiple_of(8);
        if bytes < RECORD_HEAD_BYTES || next > rest.len() {
            break;
        }
        let (record, after) = rest.split_at_mut(next);
        rest = after;
        record[8..16].copy_from_slice(&sequence.to_le_bytes());
        *crc = crc32c::crc32c_append(*crc, &record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        *sequence = sequence.wrapping_add(1);
        records += 1;
    }
    records
}
