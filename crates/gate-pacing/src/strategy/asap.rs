//! As soon as possible: everything goes to the ledger, whose limits are the only ones.

use super::{Situation, Terms};

pub(super) fn terms(_: &Situation) -> Terms {
    Terms { threshold: u64::MAX, allowance: i64::MAX }
}
