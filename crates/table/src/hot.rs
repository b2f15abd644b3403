//! Hints to the machine. They change how fast memory answers, never what it answers.
#![allow(
    unsafe_code,
    reason = "prefetch and madvise have no safe form; both are hints and neither reads nor writes"
)]

/// Asks for the cache line of `place`, so that a later read finds it near. A hint: it changes nothing but time.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address: *const i8 = core::ptr::from_ref(place).cast();
        // SAFETY: prefetch never faults and has no effect on memory; SSE is part of x86_64. Test:
        // `hints_change_nothing`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Room below which huge pages cannot help: one 2 MiB page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An empty vector with room for `count` items, whose memory the kernel is asked to back with huge
/// pages before it is first touched. Where the kernel refuses (or knows no huge pages) the vector is
/// an ordinary one.
pub(crate) fn vec_with_huge_pages<T>(count: usize) -> Vec<T> {
    let vec: Vec<T> = Vec::with_capacity(count);
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes >= HUGE_PAGE_BYTES {
        advise_huge(vec.as_ptr().cast(), bytes);
    }
    vec
}

/// The same items in such memory: for large tables that are built once and then read at random.
#[must_use]
pub fn in_huge_pages<T>(items: Vec<T>) -> Vec<T> {
    let mut moved = vec_with_huge_pages(items.len());
    moved.extend(items);
    moved
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge(start: *const u8, bytes: usize) {
    const PAGE_BYTES: usize = 4096;
    // madvise wants a page-aligned start; the part page at either end keeps its small page.
    let skip = start.align_offset(PAGE_BYTES);
    let length = bytes.saturating_sub(skip) & !(PAGE_BYTES - 1);
    if length == 0 {
        return;
    }
    let first = start.wrapping_add(skip).cast_mut().cast();
    // SAFETY: the range lies inside one live allocation that we own; MADV_HUGEPAGE only sets a flag
    // of the mapping and leaves contents and protection as they are, also for neighbours that share
    // the mapping. A failure is harmless, so the result is not looked at. Test:
    // `hints_change_nothing`.
    let _ = unsafe { libc::madvise(first, length, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge(_start: *const u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers both unsafe blocks: memory reads the same after a prefetch and after the advice.
    #[test]
    fn hints_change_nothing() {
        let count = if cfg!(miri) { 300_000 } else { 2_000_000 };
        let mut items: Vec<u64> = vec_with_huge_pages(count);
        items.extend(0..count as u64);
        items.iter().step_by(1_000).for_each(prefetch);
        assert!(items.iter().copied().eq(0..count as u64));
        assert!(in_huge_pages(items).iter().copied().eq(0..count as u64));
        let small: Vec<u64> = vec_with_huge_pages(3);
        assert!(small.capacity() >= 3 && small.is_empty());
    }
}
