//! The passes over a message, each in the fastest way that the processor has; the portable ways, which are the oracle of the others.

use crate::frame::SOH;
use crate::tag::DataFields;
#[cfg(target_arch = "x86_64")]
use crate::vector;

/// With which instructions messages are read. All ways give the same answers; they differ in time alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd(Way);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vbmi2,
}

/// What a pass over tags has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// At least one tag is 0 in the index: odd, or above 65,535.
    pub(crate) odd: bool,
    /// At least one field may be the length of a data field.
    pub(crate) length: bool,
}

/// The index under construction, as passes over it see it. All slices have room for [`SLACK`] more entries than fields.
pub(crate) struct Columns<'a> {
    pub(crate) bounds: &'a mut [u32],
    pub(crate) tags: &'a mut [u16],
    pub(crate) values: &'a mut [u32],
}

/// Entries behind the last field that a pass may write to.
pub(crate) const SLACK: usize = 64;

impl Simd {
    /// Returns the fastest way that this processor has.
    #[must_use]
    pub fn best() -> Simd {
        let [best, ..] = Simd::ways();
        best.unwrap_or(Simd::portable())
    }

    /// Returns the way that every processor has.
    #[must_use]
    pub fn portable() -> Simd {
        Simd(Way::Portable)
    }

    /// Returns every way that this processor has, the fastest first.
    pub fn all() -> impl Iterator<Item = Simd> {
        Simd::ways().into_iter().flatten()
    }

    #[cfg(target_arch = "x86_64")]
    fn ways() -> [Option<Simd>; 3] {
        let vbmi2 = vector::has_vbmi2().then_some(Simd(Way::Vbmi2));
        let avx2 = vector::has_avx2().then_some(Simd(Way::Avx2));
        let mut ways = [vbmi2, avx2, Some(Simd::portable())];
        ways.sort_by_key(Option::is_none);
        ways
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ways() -> [Option<Simd>; 3] {
        [Some(Simd::portable()), None, None]
    }

    /// Returns the name of the instructions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Way::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Way::Vbmi2 => "AVX-512 VBMI2",
        }
    }

    /// Writes to `ends` the place behind each SOH, ascending, and returns how many there are; `None` if `ends` has no room for all.
    ///
    /// `bytes` has less than 2^31 bytes, otherwise the answer is `None` too. What lies in `ends` behind the places is undefined.
    #[inline]
    pub fn field_ends(self, bytes: &[u8], ends: &mut [u32]) -> Option<usize> {
        if i32::try_from(bytes.len()).is_err() {
            return None;
        }
        match self.0 {
            Way::Portable => field_ends(bytes, ends),
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => vector::field_ends_avx2(bytes, ends),
            #[cfg(target_arch = "x86_64")]
            Way::Vbmi2 => vector::field_ends_vbmi2(bytes, ends),
        }
    }

    /// Finds the fields of a message with their tags in one pass, and returns how many there are; what it says of the last one, CheckSum, is of
    /// no use. `None` where the processor has no such pass, and for messages that it is not for: with a tag that is not of one to four digits,
    /// with more than 16 fields within 64 bytes, and where the columns have no room. The columns have anything then.
    #[inline]
    pub(crate) fn fields(
        self,
        bytes: &[u8],
        columns: &mut Columns<'_>,
        data: &DataFields,
    ) -> Option<(usize, Met)> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Vbmi2 => vector::fields_vbmi2(bytes, columns, &data.filter),
            _ => {
                let _ = (bytes, columns, data);
                None
            }
        }
    }

    /// Reads the tag of each of the first `len` fields and where its value begins. A tag that is odd or above 65,535 becomes 0.
    #[inline]
    pub(crate) fn tags(
        self,
        bytes: &[u8],
        len: usize,
        columns: &mut Columns<'_>,
        data: &DataFields,
    ) -> Met {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Vbmi2 => vector::tags_vbmi2(bytes, len, columns, &data.filter),
            _ => tags(bytes, len, columns, data),
        }
    }

    /// Returns the first place at or behind `from` where `tags` has `tag`, within the first `len`.
    #[inline]
    pub(crate) fn find(self, tags: &[u16], from: usize, len: usize, tag: u16) -> Option<usize> {
        match self.0 {
            Way::Portable => find(tags, from, len, tag),
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => vector::find_avx2(tags, from, len, tag),
            #[cfg(target_arch = "x86_64")]
            Way::Vbmi2 => vector::find_vbmi2(tags, from, len, tag),
        }
    }
}

/// The bytes of a word that are SOH: their highest bits, and no others. Exact: no carry passes from byte to byte.
fn soh_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zero_where_soh = word ^ u64::from_ne_bytes([SOH; 8]);
    !((zero_where_soh & LOW).wrapping_add(LOW) | zero_where_soh | LOW)
}

/// Eight bytes at a time in a word.
fn field_ends(bytes: &[u8], ends: &mut [u32]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    let (mut len, mut base) = (0, 1);
    for word in words {
        let mut found = soh_bytes(u64::from_le_bytes(*word));
        while found != 0 {
            *ends.get_mut(len)? = base + found.trailing_zeros() / 8;
            found &= found - 1;
            len += 1;
        }
        base += 8;
    }
    for byte in tail {
        if *byte == SOH {
            *ends.get_mut(len)? = base;
            len += 1;
        }
        base += 1;
    }
    Some(len)
}

/// One field after the other; the bytes of a tag in one word.
fn tags(bytes: &[u8], len: usize, columns: &mut Columns<'_>, data: &DataFields) -> Met {
    let mut met = Met::default();
    let fields = columns.bounds.iter().zip(columns.tags.iter_mut()).zip(columns.values.iter_mut());
    for ((start, tag_column), value_column) in fields.take(len) {
        let (tag, digits) = bytes
            .get(*start as usize..)
            .and_then(|field| field.first_chunk::<8>())
            .and_then(|first| {
                let word = u64::from_le_bytes(*first);
                short_tag_in(word).or_else(|| tag_in(word))
            })
            .unwrap_or_default();
        met.odd |= tag == 0;
        met.length |= data.may_be_length(tag);
        *tag_column = tag;
        *value_column = start.wrapping_add(digits + 1);
    }
    met
}

/// The same as [`tag_in`] for a tag of one to three digits, which nearly all have; `None` for every other.
#[inline]
fn short_tag_in(word: u64) -> Option<(u16, u32)> {
    const ONES: u32 = 0x0101_0101;
    const HIGH: u32 = 0x8080_8080;
    let [a, b, c, d, ..] = word.to_le_bytes();
    let word = u32::from_le_bytes([a, b, c, d]);
    let zero_where_equals = word ^ (ONES * 0x3d);
    // The lowest bit of these is exact; those above it need not be.
    let equals = zero_where_equals.wrapping_sub(ONES) & !zero_where_equals & HIGH;
    let digits = equals.trailing_zeros() / 8;
    if digits == 0 || digits == 4 || a == b'0' {
        return None;
    }
    let value = (word ^ (ONES * 0x30)) << (32 - 8 * digits);
    if (value | value.wrapping_add(ONES * 0x76)) & HIGH != 0 {
        return None;
    }
    let [_, hundreds, tens, units] = value.to_le_bytes().map(u16::from);
    Some((
        hundreds.wrapping_mul(100).wrapping_add(tens.wrapping_mul(10)).wrapping_add(units),
        digits,
    ))
}

/// Reads the tag at the start of eight bytes, which lie in a word as they lie in little-endian memory, and the number of its digits.
/// `None` where it is not 1 to 7 digits without leading zeros and `=`, or is above 65,535.
fn tag_in(word: u64) -> Option<(u16, u32)> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_where_equals = word ^ (ONES * 0x3d);
    // The lowest bit of these is exact; those above it need not be.
    let equals = zero_where_equals.wrapping_sub(ONES) & !zero_where_equals & HIGH;
    let digits = equals.trailing_zeros() / 8;
    if digits == 0 || digits == 8 || word & 0xff == u64::from(b'0') {
        return None;
    }
    // The digits go to the upper end, the last one uppermost; zeros fill up below.
    let value = (word ^ (ONES * 0x30)) << (64 - 8 * digits);
    if (value | value.wrapping_add(ONES * 0x76)) & HIGH != 0 {
        return None;
    }
    let pairs = value.wrapping_mul(10).wrapping_add(value >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    u16::try_from(eight).ok().map(|tag| (tag, digits))
}

/// Eight tags at a time, which the compiler compares as one vector.
fn find(tags: &[u16], from: usize, len: usize, tag: u16) -> Option<usize> {
    let tags = tags.get(from..len)?;
    let (chunks, tail) = tags.as_chunks::<8>();
    for (chunk, base) in chunks.iter().zip((0..).step_by(8)) {
        if chunk.iter().fold(false, |found, one| found | (*one == tag)) {
            return chunk.iter().position(|one| *one == tag).map(|at| from + base + at);
        }
    }
    let rest = chunks.len() * 8;
    tail.iter().position(|one| *one == tag).map(|at| from + rest + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> u64 {
        let mut bytes = [b'x'; 8];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        u64::from_le_bytes(bytes)
    }

    /// Both ways to read a tag, for every tag there is and what is near one.
    #[test]
    fn a_short_tag_is_read_as_any_other() {
        for tag in 1..=99_999_u32 {
            let (text, digits) = (word(&format!("{tag}=")), tag.ilog10() + 1);
            let known = u16::try_from(tag).ok().map(|tag| (tag, digits));
            assert_eq!(tag_in(text), known, "{tag}");
            assert_eq!(short_tag_in(text), known.filter(|_| tag < 1_000), "{tag}");
        }
    }

    #[test]
    fn what_is_no_short_tag_is_none() {
        // Every two bytes before the `=`, and behind a digit.
        for (first, second) in (0..=255).flat_map(|one| (0..=255).map(move |other| (one, other))) {
            for start in [[first, second, b'='], [b'1', first, second]] {
                let mut bytes = [b'='; 8];
                bytes[..3].copy_from_slice(&start);
                let text = u64::from_le_bytes(bytes);
                assert_eq!(short_tag_in(text), tag_in(text), "{start:?}");
            }
        }
        for text in ["", "=1=", "0=", "01=", "-1=", "1234=", "12 =", "\u{ff}="] {
            assert_eq!(short_tag_in(word(text)), None, "{text}");
        }
    }
}
