//! Money for workloads that only spend.

use ledger::{Amount, PurseOptions, Purses, ToWorker};

/// How long a hold lives, ms.
pub(super) const HOLD_MS: u64 = 2_000;
/// When every workload begins.
pub(super) const START_MS: u64 = 1_800_000_000_000;

/// Purses with more money than any run asks for.
pub(super) fn full(slots: u32) -> Purses {
    let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: HOLD_MS }, slots as usize);
    for slot in 0..slots {
        let (grant, amount) = (u64::from(slot) + 1, Amount::new(1_000_000_000_000));
        let fill =
            ToWorker::Fill { slot, grant, amount, valid_from_ms: 0, valid_until_ms: u64::MAX };
        purses.take(fill, START_MS);
    }
    purses
}
