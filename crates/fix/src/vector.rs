//! The passes over a message with AVX2 and with AVX-512: all `unsafe` code of the crate. [`crate::Simd`] calls a function of this module
//! only where the processor has its instructions; each gives what its portable twin gives, and a property test holds them together.
#![allow(
    unsafe_code,
    reason = "vector loads, stores and gathers, and calls of functions that want an instruction set, have no safe form"
)]

use std::arch::x86_64::*;

use crate::frame::SOH;
use crate::simd::{Columns, Met, SLACK};

/// Reports whether the functions that end in `_avx2` may be called.
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
}

/// Reports whether the functions that end in `_vbmi2` may be called.
pub(crate) fn has_vbmi2() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
}

/// See [`crate::Simd::field_ends`].
#[inline]
pub(crate) fn field_ends_avx2(bytes: &[u8], ends: &mut [u32]) -> Option<usize> {
    // SAFETY: `Simd` calls this only where `has_avx2`. Test: `all_ways_find_the_same_ends`.
    unsafe { ends_avx2(bytes, ends) }
}

/// See [`crate::Simd::field_ends`].
#[inline]
pub(crate) fn field_ends_vbmi2(bytes: &[u8], ends: &mut [u32]) -> Option<usize> {
    // SAFETY: `Simd` calls this only where `has_vbmi2`. Test: `all_ways_find_the_same_ends`.
    unsafe { ends_vbmi2(bytes, ends) }
}

/// See [`crate::Simd::fields`].
#[inline]
pub(crate) fn fields_vbmi2(
    bytes: &[u8],
    columns: &mut Columns<'_>,
    length_filter: &[u64; 16],
) -> Option<(usize, Met)> {
    // SAFETY: `Simd` calls this only where `has_vbmi2`. Test: `all_ways_read_the_same_fields`.
    unsafe { short_fields(bytes, columns, length_filter) }
}

/// See [`crate::Simd::tags`].
#[inline]
pub(crate) fn tags_vbmi2(
    bytes: &[u8],
    len: usize,
    columns: &mut Columns<'_>,
    length_filter: &[u64; 16],
) -> Met {
    let room = columns.bounds.len().min(columns.tags.len()).min(columns.values.len());
    assert!(len.checked_add(SLACK).is_some_and(|needed| needed <= room), "an index has slack");
    assert!(i32::try_from(bytes.len()).is_ok(), "places in a message are 31-bit numbers");
    // SAFETY: `Simd` calls this only where `has_vbmi2`, and each column has at least `len` + 64 entries. Test:
    // `all_ways_read_the_same_fields`.
    unsafe { gather_tags(bytes, len, columns, length_filter) }
}

/// See [`crate::Simd::find`].
#[inline]
pub(crate) fn find_avx2(tags: &[u16], from: usize, len: usize, tag: u16) -> Option<usize> {
    // SAFETY: `Simd` calls this only where `has_avx2`. Test: `all_ways_look_up_the_same_field`.
    unsafe { compare_avx2(tags.get(from..len)?, tag).map(|at| from + at) }
}

/// See [`crate::Simd::find`].
#[inline]
pub(crate) fn find_vbmi2(tags: &[u16], from: usize, len: usize, tag: u16) -> Option<usize> {
    // SAFETY: `Simd` calls this only where `has_vbmi2`. Test: `all_ways_look_up_the_same_field`.
    unsafe { compare_avx512(tags.get(from..len)?, tag).map(|at| from + at) }
}

/// Twice 32 bytes at a time; the last ones are copied into a block that is else empty.
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn ends_avx2(bytes: &[u8], ends: &mut [u32]) -> Option<usize> {
    let (blocks, tail) = bytes.as_chunks::<64>();
    let (mut len, mut base) = (0, 1);
    for block in blocks {
        len = put_ends(soh_mask(block), base, ends, len)?;
        base += 64;
    }
    if !tail.is_empty() {
        let mut last = [0; 64];
        last[..tail.len()].copy_from_slice(tail);
        len = put_ends(soh_mask(&last), base, ends, len)?;
    }
    Some(len)
}

#[target_feature(enable = "avx2")]
fn soh_mask(block: &[u8; 64]) -> u64 {
    let soh = _mm256_set1_epi8(SOH.cast_signed());
    let [low, high] = [0, 32].map(|at| {
        // SAFETY: 32 bytes from 0 or from 32 lie within a block of 64.
        let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(at).cast()) };
        u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, soh)).cast_unsigned())
    });
    low | high << 32
}

/// Writes `base` plus the place of each bit; eight at once without a branch, because a block of 64 bytes rarely has more fields.
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn put_ends(mut mask: u64, base: u32, ends: &mut [u32], len: usize) -> Option<usize> {
    let count = mask.count_ones() as usize;
    if let Some(eight) = ends.get_mut(len..).and_then(|ends| ends.first_chunk_mut::<8>()) {
        for end in eight {
            *end = base.wrapping_add(mask.trailing_zeros());
            mask &= mask.wrapping_sub(1);
        }
        if count <= 8 {
            return Some(len + count);
        }
    }
    let done = count - mask.count_ones() as usize;
    for at in len + done..len + count {
        *ends.get_mut(at)? = base + mask.trailing_zeros();
        mask &= mask - 1;
    }
    Some(len + count)
}

/// 64 bytes at a time: a compare gives a mask, compression of 0 to 63 by the mask gives all places at once, without a branch.
#[target_feature(enable = "avx2,bmi1,popcnt,avx512f,avx512bw,avx512vbmi2")]
fn ends_vbmi2(bytes: &[u8], ends: &mut [u32]) -> Option<usize> {
    let soh = _mm512_set1_epi8(SOH.cast_signed());
    let (mut len, mut base) = (0, 1);
    for chunk in bytes.chunks(64) {
        let inside = u64::MAX >> (64 - chunk.len());
        // SAFETY: only bytes of the mask are loaded, which are the bytes of `chunk`.
        let block = unsafe { _mm512_maskz_loadu_epi8(inside, chunk.as_ptr().cast()) };
        let mask = _mm512_cmpeq_epi8_mask(block, soh);
        let count = mask.count_ones() as usize;
        match ends.get_mut(len..).and_then(|ends| ends.first_chunk_mut::<16>()) {
            Some(sixteen) if count <= 16 => {
                let places = _mm512_maskz_compress_epi8(mask, iota());
                let places = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(places));
                let places = _mm512_add_epi32(places, _mm512_set1_epi32(base));
                // SAFETY: `sixteen` has room for 16 numbers of 32 bits.
                unsafe { _mm512_storeu_si512(sixteen.as_mut_ptr().cast(), places) };
                len += count;
            }
            _ => len = put_ends(mask, base.cast_unsigned(), ends, len)?,
        }
        base = base.wrapping_add(64);
    }
    Some(len)
}

/// Up to 16 fields at a time: the places of SOH in 64 bytes, which compression of 0 to 63 gives, take the first bytes of the fields behind them
/// out of the 64 bytes that begin one to five further on. No closures: code without these instructions would call them.
#[target_feature(
    enable = "avx2,bmi1,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2"
)]
fn short_fields(
    bytes: &[u8],
    columns: &mut Columns<'_>,
    length_filter: &[u64; 16],
) -> Option<(usize, Met)> {
    let room = columns.bounds.len().min(columns.tags.len()).min(columns.values.len());
    if room == 0 || i32::try_from(bytes.len()).is_err() {
        return None;
    }
    // Every message begins with `8=`.
    (columns.bounds[0], columns.tags[0], columns.values[0]) = (0, 8, 2);
    let filter = filter_of(length_filter);
    let (soh, iota) = (_mm512_set1_epi8(SOH.cast_signed()), iota());
    let (mut len, mut end, mut odd) = (0, 1, 0);
    let mut lengths = _mm512_set1_epi32(i32::from(length_filter[0] >> 8 & 1 == 1));
    let mut rest = bytes;
    while !rest.is_empty() {
        let blocks = blocks(rest);
        let mask = _mm512_cmpeq_epi8_mask(blocks[0], soh);
        let count = mask.count_ones() as usize;
        if count > 16 || len + 17 > room {
            return None;
        }
        rest = rest.get(64..).unwrap_or_default();
        // Nothing begins behind the last one.
        let begin = if rest.is_empty() { count.saturating_sub(1) } else { count };
        let lanes = u16::try_from(!(u32::MAX << begin)).unwrap_or(u16::MAX);
        let places = _mm512_maskz_compress_epi8(mask, iota);
        let fields = short_tags(places, &blocks);
        odd |= lanes & !fields.good;
        let words = may_be_lengths(fields.tags, filter);
        lengths = _mm512_mask_or_epi32(lengths, lanes, lengths, words);
        let ends = _mm512_set1_epi32(end);
        let starts = _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(places)), ends);
        let values = _mm512_add_epi32(_mm512_cvtepu8_epi32(fields.values), ends);
        // SAFETY: each column has at least `len` + 17 entries.
        unsafe {
            _mm512_storeu_si512(columns.bounds.as_mut_ptr().add(len + 1).cast(), starts);
            _mm256_storeu_si256(columns.tags.as_mut_ptr().add(len + 1).cast(), fields.tags);
            _mm512_storeu_si512(columns.values.as_mut_ptr().add(len + 1).cast(), values);
        }
        (len, end) = (len + count, end.wrapping_add(64));
    }
    let length = _mm512_test_epi32_mask(lengths, _mm512_set1_epi32(1)) != 0;
    (odd == 0).then_some((len, Met { odd: false, length }))
}

/// The first 64 bytes, and the 64 that begin one to five further on; zeros behind the end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn blocks(bytes: &[u8]) -> [__m512i; 6] {
    if let Some(near) = bytes.first_chunk::<69>() {
        let start = near.as_ptr();
        // SAFETY: 64 bytes from a place of at most 5 lie within 69.
        return unsafe {
            [
                _mm512_loadu_si512(start.cast()),
                _mm512_loadu_si512(start.add(1).cast()),
                _mm512_loadu_si512(start.add(2).cast()),
                _mm512_loadu_si512(start.add(3).cast()),
                _mm512_loadu_si512(start.add(4).cast()),
                _mm512_loadu_si512(start.add(5).cast()),
            ]
        };
    }
    // A bit for each byte: those of the first 64, and of up to four behind them.
    let near =
        u64::MAX.checked_shl(u32::try_from(bytes.len()).unwrap_or(64)).map_or(u64::MAX, |not| !not);
    let behind = !(u64::MAX << bytes.len().saturating_sub(64));
    let start = bytes.as_ptr().cast::<i8>();
    // SAFETY: only bytes of the masks are loaded, which are those of `bytes`.
    unsafe {
        [
            _mm512_maskz_loadu_epi8(near, start),
            _mm512_maskz_loadu_epi8(near >> 1 | behind << 63, start.wrapping_add(1)),
            _mm512_maskz_loadu_epi8(near >> 2 | behind << 62, start.wrapping_add(2)),
            _mm512_maskz_loadu_epi8(near >> 3 | behind << 61, start.wrapping_add(3)),
            _mm512_maskz_loadu_epi8(near >> 4 | behind << 60, start.wrapping_add(4)),
            _mm512_maskz_loadu_epi8(near >> 5 | behind << 59, start.wrapping_add(5)),
        ]
    }
}

/// Up to 16 fields that begin in 64 bytes.
struct ShortTags {
    tags: __m256i,
    /// Where their values begin, from the end of the first byte on.
    values: __m128i,
    /// Those whose tag is a number of one to four digits without leading zeros.
    good: u16,
}

/// Reads the tags of the fields behind the first 16 places.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn short_tags(places: __m512i, blocks: &[__m512i; 6]) -> ShortTags {
    let zero = _mm_set1_epi8(b'0'.cast_signed());
    let equals = _mm_set1_epi8((b'=' - b'0').cast_signed());
    let (ten, one) = (_mm_set1_epi8(10), _mm_set1_epi8(1));
    let first = _mm_sub_epi8(bytes_at(places, blocks[1]), zero);
    let second = _mm_sub_epi8(bytes_at(places, blocks[2]), zero);
    let third = _mm_sub_epi8(bytes_at(places, blocks[3]), zero);
    let fourth = _mm_sub_epi8(bytes_at(places, blocks[4]), zero);
    let fifth = _mm_sub_epi8(bytes_at(places, blocks[5]), zero);
    // The fields whose first one, two, three and four bytes are digits.
    let a = _mm_cmplt_epu8_mask(_mm_sub_epi8(first, one), _mm_set1_epi8(9));
    let b = _mm_mask_cmplt_epu8_mask(a, second, ten);
    let c = _mm_mask_cmplt_epu8_mask(b, third, ten);
    let d = _mm_mask_cmplt_epu8_mask(c, fourth, ten);
    let good = _mm_mask_cmpeq_epi8_mask(a, second, equals)
        | _mm_mask_cmpeq_epi8_mask(b, third, equals)
        | _mm_mask_cmpeq_epi8_mask(c, fourth, equals)
        | _mm_mask_cmpeq_epi8_mask(d, fifth, equals);
    let tens = _mm256_set1_epi16(10);
    let tag = _mm256_cvtepu8_epi16(first);
    let more = _mm256_add_epi16(_mm256_mullo_epi16(tag, tens), _mm256_cvtepu8_epi16(second));
    let tag = _mm256_mask_mov_epi16(tag, b, more);
    let more = _mm256_add_epi16(_mm256_mullo_epi16(tag, tens), _mm256_cvtepu8_epi16(third));
    let tag = _mm256_mask_mov_epi16(tag, c, more);
    let more = _mm256_add_epi16(_mm256_mullo_epi16(tag, tens), _mm256_cvtepu8_epi16(fourth));
    let tags = _mm256_mask_mov_epi16(tag, d, more);
    // One digit and `=`, and a byte for each further digit.
    let values = _mm_add_epi8(_mm512_castsi512_si128(places), _mm_set1_epi8(2));
    let values = _mm_mask_add_epi8(values, b, values, one);
    let values = _mm_mask_add_epi8(values, c, values, one);
    let values = _mm_mask_add_epi8(values, d, values, one);
    ShortTags { tags, values, good }
}

/// The bytes of a block at the first 16 places.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn bytes_at(places: __m512i, block: __m512i) -> __m128i {
    _mm512_castsi512_si128(_mm512_permutexvar_epi8(places, block))
}

/// A filter as two vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn filter_of(words: &[u64; 16]) -> [__m512i; 2] {
    let words = words.as_ptr();
    // SAFETY: there are 16 words, eight at 0 and eight at 8.
    unsafe { [_mm512_loadu_si512(words.cast()), _mm512_loadu_si512(words.add(8).cast())] }
}

/// The words of the filter, each moved so that its lowest bit says whether a tag may be the length of a data field: see
/// [`crate::DataFields`].
#[inline]
#[target_feature(enable = "avx2,avx512f")]
fn may_be_lengths(tags: __m256i, filter: [__m512i; 2]) -> __m512i {
    let tags = _mm512_cvtepu16_epi32(tags);
    let words = _mm512_permutex2var_epi32(filter[0], _mm512_srli_epi32::<5>(tags), filter[1]);
    _mm512_srlv_epi32(words, _mm512_and_si512(tags, _mm512_set1_epi32(31)))
}

/// The numbers 0 to 63.
#[target_feature(enable = "avx512f")]
fn iota() -> __m512i {
    const IOTA: [u8; 64] = {
        let (mut bytes, mut at) = ([0; 64], 0);
        while at < 64 {
            bytes[at as usize] = at;
            at += 1;
        }
        bytes
    };
    // SAFETY: `IOTA` has 64 bytes.
    unsafe { _mm512_loadu_si512(IOTA.as_ptr().cast()) }
}

/// Eight fields at a time: the first eight bytes of each are gathered into a lane, the digits before `=` become a number.
///
/// # Safety
/// The columns have at least `len` + 64 entries, and `bytes` has less than 2^31 bytes.
#[target_feature(
    enable = "avx2,bmi1,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2"
)]
unsafe fn gather_tags(
    bytes: &[u8],
    len: usize,
    columns: &mut Columns<'_>,
    length_filter: &[u64; 16],
) -> Met {
    let limit = i32::try_from(bytes.len()).unwrap_or_default() - 8;
    let filter = filter_of(length_filter);
    let (mut odd, mut length) = (0, 0);
    let mut at = 0;
    while at < len {
        let lanes = 0xff >> (at + 8).saturating_sub(len);
        // SAFETY: `at` is below `len`, and each column has at least 64 entries from `len` on.
        let starts = unsafe { _mm256_loadu_si256(columns.bounds.as_ptr().add(at).cast()) };
        // Signed: a place above the limit, and every place where the message has less than eight bytes, is not read.
        let readable = lanes & _mm256_cmple_epi32_mask(starts, _mm256_set1_epi32(limit));
        // SAFETY: lanes of the mask read eight bytes from a place of at most `bytes.len()` - 8; places are never negative, because they
        // come from a message of less than 2^31 bytes.
        let words = unsafe {
            let zero = _mm512_setzero_si512();
            _mm512_mask_i32gather_epi64::<1>(zero, readable, starts, bytes.as_ptr().cast())
        };
        let (tags, digits, good) = numbers(words);
        let tags = _mm512_maskz_mov_epi64(good & readable, tags);
        odd |= !(good & readable) & lanes;
        length |= may_be_length(tags, filter) & lanes;
        let values = _mm256_add_epi32(starts, _mm512_cvtepi64_epi32(digits));
        let values = _mm256_add_epi32(values, _mm256_set1_epi32(1));
        // SAFETY: as above: eight entries from `at` on lie within the columns.
        unsafe {
            _mm_storeu_si128(columns.tags.as_mut_ptr().add(at).cast(), _mm512_cvtepi64_epi16(tags));
            _mm256_storeu_si256(columns.values.as_mut_ptr().add(at).cast(), values);
        }
        at += 8;
    }
    Met { odd: odd != 0, length: length != 0 }
}

/// The number before the first `=` of each lane, how many digits it has, and the lanes where that is 1 to 7 digits without leading
/// zeros and at most 65,535.
#[target_feature(enable = "avx512f,avx512bw,avx512cd")]
fn numbers(words: __m512i) -> (__m512i, __m512i, u8) {
    let equals = _mm512_xor_si512(words, _mm512_set1_epi8(0x3d));
    let below = _mm512_sub_epi64(equals, _mm512_set1_epi8(1));
    let found = _mm512_andnot_si512(equals, _mm512_and_si512(below, _mm512_set1_epi8(-128)));
    // The highest bit of the first byte that is `=`; a lane without one stays 0, and its count of leading zeros is 64.
    let first = _mm512_and_si512(found, _mm512_sub_epi64(_mm512_setzero_si512(), found));
    let zeros = _mm512_lzcnt_epi64(first);
    // The bit has place 8 * digits + 7, so 56 - 8 * digits zeros stand above it; a lane without one gets the shift 72: no digits.
    let shift = _mm512_add_epi64(zeros, _mm512_set1_epi64(8));
    let digits = _mm512_srli_epi64::<3>(_mm512_sub_epi64(_mm512_set1_epi64(64), shift));
    let value = _mm512_xor_si512(words, _mm512_set1_epi8(0x30));
    let value = _mm512_sllv_epi64(value, shift);
    let wrong = _mm512_cmpgt_epu8_mask(value, _mm512_set1_epi8(9));
    let pairs = _mm512_maddubs_epi16(value, _mm512_set1_epi16(0x010a));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
    let eight = _mm512_add_epi64(
        _mm512_mul_epu32(fours, _mm512_set1_epi64(10_000)),
        _mm512_srli_epi64::<32>(fours),
    );
    // A byte that is no digit: its lane is of no use. Each lane has eight bits of the mask.
    let lanes_wrong = _mm512_test_epi64_mask(_mm512_movm_epi8(wrong), _mm512_set1_epi8(-1));
    let leading = _mm512_and_si512(words, _mm512_set1_epi64(0xff));
    let good = _mm512_cmpneq_epi64_mask(leading, _mm512_set1_epi64(0x30))
        & _mm512_cmplt_epu64_mask(
            _mm512_sub_epi64(eight, _mm512_set1_epi64(1)),
            _mm512_set1_epi64(0xffff),
        )
        & !lanes_wrong;
    (eight, digits, good)
}

/// The lanes whose bit of the filter is set: see [`crate::DataFields`].
#[target_feature(enable = "avx512f")]
fn may_be_length(tags: __m512i, filter: [__m512i; 2]) -> u8 {
    let word = _mm512_srli_epi64::<6>(tags);
    let words = _mm512_permutex2var_epi64(filter[0], word, filter[1]);
    let bit = _mm512_and_si512(tags, _mm512_set1_epi64(63));
    _mm512_test_epi64_mask(_mm512_srlv_epi64(words, bit), _mm512_set1_epi64(1))
}

#[target_feature(enable = "avx2,bmi1")]
fn compare_avx2(tags: &[u16], tag: u16) -> Option<usize> {
    let wanted = _mm256_set1_epi16(tag.cast_signed());
    let (chunks, tail) = tags.as_chunks::<16>();
    for (chunk, base) in chunks.iter().zip((0..).step_by(16)) {
        // SAFETY: a chunk has 16 numbers of 16 bits.
        let some = unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) };
        let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi16(some, wanted)).cast_unsigned();
        if equal != 0 {
            return Some(base + equal.trailing_zeros() as usize / 2);
        }
    }
    let rest = chunks.len() * 16;
    tail.iter().position(|one| *one == tag).map(|at| rest + at)
}

#[target_feature(enable = "avx512f,avx512bw,bmi1")]
fn compare_avx512(tags: &[u16], tag: u16) -> Option<usize> {
    let wanted = _mm512_set1_epi16(tag.cast_signed());
    for (chunk, base) in tags.chunks(32).zip((0..).step_by(32)) {
        let inside = u32::MAX >> (32 - chunk.len());
        // SAFETY: only numbers of the mask are loaded, which are those of `chunk`.
        let some = unsafe { _mm512_maskz_loadu_epi16(inside, chunk.as_ptr().cast()) };
        let equal = _mm512_mask_cmpeq_epi16_mask(inside, some, wanted);
        if equal != 0 {
            return Some(base + equal.trailing_zeros() as usize);
        }
    }
    None
}
