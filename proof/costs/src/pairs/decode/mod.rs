//! Reading in place against copying into structs of one's own.

mod frame;
mod openrtb;

use super::Pair;
use crate::{Error, Size};

/// Makes `decode/in-place` (a frame of the batch door) and `decode/openrtb` (a bid request).
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    Ok(vec![frame::pair(size)?, openrtb::pair(size)?])
}
