//! The FIX engine beside the other ways: where fields end, the index of a message, lookups in it, the store of messages, and its writes.

mod reading;
mod store;

use super::Pair;
use crate::{Error, Size};

/// Makes `fix/soh`, `fix/index`, `fix/lookup`, `fix/store-insert`, `fix/store-lookup` and `fix/deferred`.
///
/// # Errors
/// The ways did different work, or the store could not be written.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let mut pairs = reading::run(size)?;
    pairs.extend(store::run(size)?);
    Ok(pairs)
}
