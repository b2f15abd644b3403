//! What the operating system does for secrets: a page that a forked child finds wiped, and no core dumps.
#![allow(unsafe_code)] // reason: MADV_WIPEONFORK changes what memory holds, so that no crate offers it as a safe call

use memmap2::MmapMut;

/// Bytes of the smallest page of the platforms that Weir runs on.
const PAGE: usize = 4096;

/// Tells whether this process is a child that was forked since the guard was armed.
///
/// The kernel wipes the page in a child (`MADV_WIPEONFORK`, Linux 4.14), so the check is one load instead of a system call. Where the
/// kernel cannot do that, the process's number is asked for instead.
#[derive(Debug)]
pub(crate) struct ForkGuard {
    page: Option<MmapMut>,
    process: u32,
}

impl ForkGuard {
    /// Returns an armed guard.
    pub(crate) fn new() -> ForkGuard {
        let mut guard = ForkGuard { page: wiped_on_fork(), process: 0 };
        guard.arm();
        guard
    }

    /// Makes this process the one that the guard knows.
    pub(crate) fn arm(&mut self) {
        match self.page.as_mut().and_then(|page| page.first_mut()) {
            Some(mark) => *mark = 1,
            None => self.process = std::process::id(),
        }
    }

    /// Tells whether the guard was armed by another process than this one.
    #[inline]
    pub(crate) fn is_other_process(&self) -> bool {
        match self.page.as_ref().and_then(|page| page.first()) {
            // The kernel writes here behind the compiler's back.
            Some(mark) => std::hint::black_box(*mark) == 0,
            None => self.process != std::process::id(),
        }
    }
}

/// Keeps keys out of core dumps and away from other processes of the same user: the process becomes not dumpable
/// (`prctl(PR_SET_DUMPABLE)`), which also closes `/proc/PID/mem` and debuggers to them, and its core files get no bytes
/// (`RLIMIT_CORE`). It counts for the whole process, so the program decides. Swapped memory is not its matter.
///
/// # Errors
/// The system call that failed.
pub fn protect_process() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, Resource, Rlimit};
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Returns a page of zeros that a child will find as zeros whatever is written to it, or `None` where the kernel has no such pages.
fn wiped_on_fork() -> Option<MmapMut> {
    let mut page = MmapMut::map_anon(PAGE).ok()?;
    let advice = rustix::mm::Advice::LinuxWipeOnFork;
    // SAFETY: the range is exactly the anonymous private mapping that `page` owns; the advice changes nothing in this process, and in a
    // child it replaces bytes by zeros, which are valid bytes. Test: `a_child_draws_other_randomness`.
    let wiped = unsafe { rustix::mm::madvise(page.as_mut_ptr().cast(), page.len(), advice) };
    wiped.ok().map(|()| page)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_protected_process_leaves_no_core_file() {
        use rustix::process::{DumpableBehavior, Resource};
        super::protect_process().unwrap();
        let dumpable = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(dumpable, DumpableBehavior::NotDumpable);
        assert_eq!(rustix::process::getrlimit(Resource::Core).maximum, Some(0));
    }
}
