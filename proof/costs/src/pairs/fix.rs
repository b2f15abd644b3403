//! The FIX engine beside the other ways: where fields end, the index of a message, lookups in it, and the store of messages.

mod messages;
mod reading;
mod store;

use super::Pair;
use crate::{Error, Size};

/// Makes `fix/soh`, `fix/index`, `fix/lookup`, `fix/store-insert` and `fix/store-lookup`.
///
/// # Errors
/// The ways did different work, or the machine gave no files or sockets.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let mut pairs = reading::run(size)?;
    pairs.extend(store::run(size)?);
    Ok(pairs)
}
