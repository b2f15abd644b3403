//! CPU time of the calling thread, from the kernel's own accounts.

/// Nanoseconds the calling thread has run so far; `None` where the kernel keeps no such account.
///
/// The figure lags by up to one scheduler tick (4 ms): fine over seconds, useless over microseconds.
#[must_use]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_moves_the_account() {
        let Some(before) = thread_cpu_ns() else { return };
        let mut sum = 0_u64;
        while thread_cpu_ns() == Some(before) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_cpu_ns() > Some(before));
    }
}
