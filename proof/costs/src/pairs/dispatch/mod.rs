//! Static dispatch, an enum, `Box<dyn>`, or nothing to dispatch: where it happens for every request, and where it happens
//! once a merge.

mod compaction;
mod strategies;

use super::Pair;
use crate::{Error, Size};

/// Makes `dispatch/strategies` and `dispatch/compaction` with their variants.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let mut pairs = strategies::pairs(size)?;
    pairs.extend(compaction::pairs(size)?);
    Ok(pairs)
}
