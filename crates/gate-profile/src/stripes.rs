//! The table of users, cut into stripes by the hash of the user; each is behind a lock of its own.

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// A power of two; with it two workers meet in one stripe once in 256 requests.
pub(crate) const STRIPES: usize = 256;

pub(crate) struct Stripes<T> {
    stripes: Vec<Padded<T>>,
    factor: u64,
}

/// Locks of neighbours do not share cache lines.
#[repr(align(128))]
struct Padded<T>(Mutex<T>);

impl<T> Stripes<T> {
    /// Takes 16 random bytes as a number, so that nobody can choose users who fall on one stripe.
    pub(crate) fn new(secret: u128, mut stripe: impl FnMut() -> T) -> Stripes<T> {
        #[allow(clippy::cast_possible_truncation, reason = "the upper half is wanted")]
        let factor = (secret >> 64) as u64 | 1;
        let stripes = std::iter::repeat_with(|| Padded(Mutex::new(stripe())));
        Stripes {
            stripes: stripes.take(STRIPES).collect(),
            factor: factor.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// The stripe of a user, locked.
    #[inline]
    pub(crate) fn of(&self, user: u64) -> MutexGuard<'_, T> {
        #[allow(clippy::cast_possible_truncation, reason = "eight bits are left")]
        let at = (user.wrapping_mul(self.factor) >> 56) as usize;
        self.stripes[at].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All, one after the other locked.
    pub(crate) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.stripes.iter().map(|stripe| stripe.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
