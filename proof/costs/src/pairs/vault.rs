//! The vault and the keys door beside the other ways: key schedules, lanes, MACs, nonces, a pool of threads, base64, JSON.

mod seal;
mod texts;

use super::Pair;
use crate::{Error, Size};

/// Makes `vault/schedule`, `vault/lanes`, `vault/mac`, `vault/nonces`, `vault/pool-100`, `vault/pool-1000`, `vault/pool-10000`,
/// `vault/base64-read`, `vault/base64-write` and `vault/json`.
///
/// # Errors
/// The ways did different work, or the machine gave no randomness or no thread.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let mut pairs = seal::run(size)?;
    pairs.extend(texts::run(size)?);
    Ok(pairs)
}
