//! The ways to find every SOH. All write the same: the places of the byte, in order.
#![allow(
    unsafe_code,
    reason = "evidence, not product: loads of 16, 32 and 64 bytes, and calls of functions for one kind of processor"
)]
#![allow(clippy::cast_possible_truncation, reason = "places below BYTES_MAX, bytes of words")]

/// No input is longer.
pub(super) const BYTES_MAX: usize = 1_024;
const SOH: u8 = 1;

/// Where fields end.
pub(super) type Ends = [u16; BYTES_MAX];

/// Writes the places of every SOH of a message into the buffer, and returns how many there are.
pub(super) type Find = fn(&[u8], &mut Ends) -> usize;

/// Writes one place, and returns how many there are now. The index wraps around at the end of the buffer, which no input
/// reaches: so there is no bound to check.
#[inline(always)]
fn put(ends: &mut Ends, len: usize, at: usize) -> usize {
    ends[len % BYTES_MAX] = at as u16;
    len + 1
}

/// Writes the places of the bits of a mask, whose bit 0 stands for the byte at `base`.
#[inline(always)]
fn put_bits(ends: &mut Ends, mut len: usize, mut bits: u64, base: usize) -> usize {
    while bits != 0 {
        len = put(ends, len, base + bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
    len
}

/// How many there are.
pub(super) fn count(message: &[u8]) -> usize {
    message.iter().filter(|byte| **byte == SOH).count()
}

/// The ways of this machine, ours first, and a sentence on those that it has not.
pub(super) fn finders() -> (Vec<(&'static str, Find)>, String) {
    let mut found: Vec<(&str, Find)> = Vec::new();
    let mut missing = Vec::new();
    for (name, find) in wide() {
        match find {
            Some(find) => found.push((name, find)),
            None => missing.push(name),
        }
    }
    let narrow: [(&str, Find); 4] = [
        ("memchr_iter", memchr),
        ("words of 8 bytes", words),
        ("byte by byte, no branch", branchless),
        ("byte by byte", bytes),
    ];
    found.extend(narrow);
    let text = match missing.as_slice() {
        [] => String::new(),
        names => format!(" This processor has no {}.", names.join(", no ")),
    };
    (found, text)
}

fn bytes(message: &[u8], ends: &mut Ends) -> usize {
    let mut len = 0;
    for (at, byte) in message.iter().enumerate() {
        if *byte == SOH {
            len = put(ends, len, at);
        }
    }
    len
}

/// Writes every place, and goes on to the next slot where it was one.
fn branchless(message: &[u8], ends: &mut Ends) -> usize {
    let mut len = 0;
    for (at, byte) in message.iter().enumerate() {
        put(ends, len, at);
        len += usize::from(*byte == SOH);
    }
    len
}

fn memchr(message: &[u8], ends: &mut Ends) -> usize {
    memchr::memchr_iter(SOH, message).fold(0, |len, at| put(ends, len, at))
}

/// Eight bytes in one register.
fn words(message: &[u8], ends: &mut Ends) -> usize {
    let (mut len, (chunks, tail)) = (0, message.as_chunks::<8>());
    for (chunk, base) in chunks.iter().zip((0..).step_by(8)) {
        len = put_bytes(ends, len, soh_bytes(u64::from_le_bytes(*chunk)), base);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    put_bytes(ends, len, soh_bytes(u64::from_le_bytes(last)), chunks.len() * 8)
}

/// As [`put_bits`], of a mask of the high bits of eight bytes.
#[inline(always)]
fn put_bytes(ends: &mut Ends, mut len: usize, mut high_bits: u64, base: usize) -> usize {
    while high_bits != 0 {
        len = put(ends, len, base + (high_bits.trailing_zeros() / 8) as usize);
        high_bits &= high_bits - 1;
    }
    len
}

/// The high bit of every byte that is SOH, and no other bit. Exact: no carry passes from byte to byte.
fn soh_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zero_where_soh = word ^ 0x0101_0101_0101_0101;
    !(((zero_where_soh & LOW).wrapping_add(LOW)) | zero_where_soh | LOW)
}

#[cfg(not(target_arch = "x86_64"))]
fn wide() -> [(&'static str, Option<Find>); 3] {
    [("AVX-512", None), ("AVX2", None), ("SSE2", None)]
}

#[cfg(target_arch = "x86_64")]
use x86::wide;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8,
        _mm512_cmpeq_epi8_mask, _mm512_maskz_loadu_epi8, _mm512_set1_epi8,
    };

    use super::{Ends, Find, SOH, put_bits};

    pub(super) fn wide() -> [(&'static str, Option<Find>); 3] {
        let avx512 = is_x86_feature_detected!("avx512bw");
        let avx2 = is_x86_feature_detected!("avx2");
        [
            ("AVX-512", avx512.then_some(with_avx512 as Find)),
            ("AVX2", avx2.then_some(with_avx2 as Find)),
            ("SSE2", Some(with_sse2 as Find)),
        ]
    }

    fn with_avx512(message: &[u8], ends: &mut Ends) -> usize {
        // SAFETY: `wide` hands this function out only where the processor has AVX-512BW.
        unsafe { avx512(message, ends) }
    }

    fn with_avx2(message: &[u8], ends: &mut Ends) -> usize {
        // SAFETY: `wide` hands this function out only where the processor has AVX2.
        unsafe { avx2(message, ends) }
    }

    fn with_sse2(message: &[u8], ends: &mut Ends) -> usize {
        // SAFETY: every x86-64 has SSE2.
        unsafe { sse2(message, ends) }
    }

    /// 64 bytes at a time; the last ones through a mask, so that no byte outside is touched.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn avx512(message: &[u8], ends: &mut Ends) -> usize {
        let mut len = 0;
        let soh = _mm512_set1_epi8(SOH.cast_signed());
        for (chunk, base) in message.chunks(64).zip((0..).step_by(64)) {
            let inside = u64::MAX >> (64 - chunk.len());
            // SAFETY: only the bytes of the mask are loaded, and these are the bytes of `chunk`.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(inside, chunk.as_ptr().cast()) };
            len = put_bits(ends, len, _mm512_cmpeq_epi8_mask(bytes, soh), base);
        }
        len
    }

    /// Twice 32 bytes at a time.
    #[target_feature(enable = "avx2")]
    fn avx2(message: &[u8], ends: &mut Ends) -> usize {
        blocks(message, ends, |block| {
            let soh = _mm256_set1_epi8(SOH.cast_signed());
            let [low, high] = [0, 32].map(|at| {
                // SAFETY: 32 bytes from 0 or from 32 lie within a block of 64.
                let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(at).cast::<__m256i>()) };
                u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, soh)).cast_unsigned())
            });
            low | high << 32
        })
    }

    /// Four times 16 bytes at a time.
    #[target_feature(enable = "sse2")]
    fn sse2(message: &[u8], ends: &mut Ends) -> usize {
        blocks(message, ends, |block| {
            let soh = _mm_set1_epi8(SOH.cast_signed());
            let masks = [0, 16, 32, 48].map(|at| {
                // SAFETY: 16 bytes from 0, 16, 32 or 48 lie within a block of 64.
                let bytes = unsafe { _mm_loadu_si128(block.as_ptr().add(at).cast::<__m128i>()) };
                u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, soh)).cast_unsigned())
            });
            masks[0] | masks[1] << 16 | masks[2] << 32 | masks[3] << 48
        })
    }

    /// Calls `mask` with blocks of 64 bytes; the last ones are copied into one that is else empty.
    #[inline(always)]
    fn blocks(message: &[u8], ends: &mut Ends, mask: impl Fn(&[u8; 64]) -> u64) -> usize {
        let (mut len, (blocks, tail)) = (0, message.as_chunks::<64>());
        for (block, base) in blocks.iter().zip((0..).step_by(64)) {
            len = put_bits(ends, len, mask(block), base);
        }
        if !tail.is_empty() {
            let mut last = [0; 64];
            last[..tail.len()].copy_from_slice(tail);
            len = put_bits(ends, len, mask(&last), blocks.len() * 64);
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::compare::Random;

    /// Every length up to four blocks and a bit, at every alignment to a block, with many and with few ends; the byte
    /// before and the bytes after are SOH, which must not be found.
    #[test]
    fn all_ways_find_the_same_places_at_every_length_and_alignment() {
        let (finders, _) = finders();
        assert!(finders.len() >= 4);
        let mut random = Random::new(0x50_11);
        let (mut ends, mut room) = ([0; BYTES_MAX], vec![SOH; 512]);
        for len in 0..=270_usize {
            for start in (1..=64).step_by(if len < 70 { 1 } else { 7 }) {
                room.fill(SOH);
                let few = 1 + random.below(9);
                for byte in &mut room[start..start + len] {
                    let drawn = random.draw().to_le_bytes();
                    *byte = if random.below(few) == 0 { SOH } else { drawn[0] };
                }
                let message = &room[start..start + len];
                let places = message.iter().enumerate().filter(|(_, byte)| **byte == SOH);
                let places: Vec<u16> = places.map(|(at, _)| at as u16).collect();
                for (name, find) in &finders {
                    let len = find(message, &mut ends);
                    assert_eq!(ends[..len], places, "{name}, {len} bytes from {start}");
                }
            }
        }
    }

    #[test]
    fn neighbours_of_soh_are_no_soh() {
        for byte in 0..=u8::MAX {
            let expected = if byte == SOH { 0x8080_8080_8080_8080 } else { 0 };
            assert_eq!(soh_bytes(u64::from_le_bytes([byte; 8])), expected, "{byte}");
        }
        assert_eq!(soh_bytes(0x0001_0001_0100_0201), 0x0080_0080_8000_0080);
    }
}
