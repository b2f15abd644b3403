//! What the node's memory is: resident, in use, and what its largest parts keep.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use counters::counters;

/// What the allocator tells, which the program chooses.
#[derive(Clone, Copy, Debug)]
pub struct Allocator {
    /// Bytes that are allocated and not freed.
    pub in_use: fn() -> Option<u64>,
    /// Bytes that the calling thread allocated in its life, less what it freed.
    pub of_thread: fn() -> Option<i64>,
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Names the allocator of this program, once; without one, nothing but `resident` is known.
pub fn set_allocator(allocator: Allocator) {
    let _ = ALLOCATOR.set(allocator);
}

counters! {
    /// The memory of the process. All are 0 where the system or the allocator does not tell.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Memory of u64, in "memory" {
        resident: "Memory of the process that is not backed by files, as the kernel counts it.", level(), bytes();
        in_use: "What is allocated and not freed, also what was never written to.", level(), bytes();
    }
}

impl Memory {
    /// As it is now.
    #[must_use]
    pub fn read() -> Memory {
        let in_use = ALLOCATOR.get().and_then(|allocator| (allocator.in_use)());
        Memory { resident: resident().unwrap_or(0), in_use: in_use.unwrap_or(0) }
    }
}

/// Anonymous resident memory of this process, bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

macro_rules! parts {
    ($($part:ident = $name:literal, $help:literal;)*) => {
        /// A part of the node that keeps much memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Part {
            $(#[doc = $help] $part,)*
        }

        impl Part {
            /// All of them, by their names.
            const ALL: &'static [(Part, &'static str)] = &[$((Part::$part, $name),)*];
        }
    };
}

parts! {
    Campaigns = "campaigns", "The index of the auction, creatives, what campaigns pay.";
    Ledger = "ledger", "Budgets and their books in the bank.";
    Plans = "plans", "Pacing.";
    Purses = "purses", "What workers keep for each budget.";
    Profiles = "profiles", "Users' segments and counters.";
    Surveys = "surveys", "Rows of the dashboard and of metrics.";
}

/// Bytes by part.
static KEPT: [AtomicU64; Part::ALL.len()] = [const { AtomicU64::new(0) }; Part::ALL.len()];

/// Builds more of a part, and adds what that allocated and kept, on this thread.
pub fn built<T>(part: Part, build: impl FnOnce() -> T) -> T {
    let (made, more) = measured(build);
    KEPT[part as usize].fetch_add(more, Relaxed);
    made
}

/// Builds a part anew, in place of what was noted before; where that fails, what is there stays.
///
/// # Errors
/// Those of `build`.
pub fn rebuilt<T, E>(part: Part, build: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let (made, bytes) = measured(build);
    if made.is_ok() {
        KEPT[part as usize].store(bytes, Relaxed);
    }
    made
}

/// Does something, and tells how many bytes of what it allocated it kept.
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = allocated();
    let done = work();
    (done, allocated().saturating_sub(before).max(0).cast_unsigned())
}

/// Bytes that this thread allocated in its life, less what it freed.
fn allocated() -> i64 {
    ALLOCATOR.get().and_then(|allocator| (allocator.of_thread)()).unwrap_or(0)
}

/// What each part kept when it was built last.
#[must_use]
pub fn by_part() -> Vec<(&'static str, u64)> {
    Part::ALL.iter().map(|(part, name)| (*name, KEPT[*part as usize].load(Relaxed))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_is_resident() {
        assert!(Memory::read().resident > 1 << 20);
    }

    #[test]
    fn parts_stand_at_their_places() {
        for (place, (part, _)) in Part::ALL.iter().enumerate() {
            assert_eq!(*part as usize, place);
        }
        assert_eq!(built(Part::Plans, || 7), 7);
        assert_eq!(rebuilt(Part::Plans, || Err::<(), _>(7)), Err(7));
    }
}
