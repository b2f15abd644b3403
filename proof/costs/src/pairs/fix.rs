//! The FIX engine beside the other ways: where fields end, the index of a message, lookups in it, the store of messages and its writes,
//! and the event loop on FIX traffic.

mod reading;
mod store;

use super::{Pair, loops};
use crate::{Error, Size};

/// Makes `fix/soh`, `fix/index`, `fix/lookup`, `fix/store-insert`, `fix/store-lookup`, `fix/deferred`, `fix/loop` and `fix/pinning`.
///
/// # Errors
/// The ways did different work, or the machine gave no files or sockets.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let mut pairs = reading::run(size)?;
    pairs.extend(store::run(size)?);
    pairs.extend(loops::run_fix(size)?);
    Ok(pairs)
}
