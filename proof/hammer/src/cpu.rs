//! CPU time of the calling thread, from the kernel's own accounts.

/// Nanoseconds the calling thread has run so far; `None` where the kernel keeps no such account.
///
/// The figure lags by up to one scheduler tick (4 ms): fine over seconds, useless over microseconds.
#[must_use]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    account(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// A thread that asks has run: zeros are a kernel without the account.
fn account(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok().filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_account_is_told_from_one_with_it() {
        assert_eq!(
            [account("12345 6 7\n"), account("0 0 0\n"), account("")],
            [Some(12_345), None, None]
        );
    }

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
