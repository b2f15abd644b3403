//! Looking for a delimiter byte: where the fields of a FIX message end (SOH, byte 1), all of them.

pub(super) mod messages;
mod ways;

use std::hint::black_box;

use self::messages::{MESSAGE_BYTES_MAX, messages};
use self::ways::{BYTES_MAX, Find, finders};
use super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

const ROUNDS: usize = 21;
const MESSAGES: usize = 500;
/// Each message is looked at so often in one round.
const TIMES: u64 = 15;
const SEED: u64 = 0xf1f1_0044;

/// Makes `scan/soh`.
///
/// # Errors
/// The ways found different places.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let messages = messages(size.pick(MESSAGES, 50), SEED);
    let (found, missing) = finders();
    let ways: Vec<Way<'_>> =
        found.iter().map(|(name, find)| (*name, over(&messages, *find))).collect();
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    let bytes: usize = messages.iter().map(Vec::len).sum();
    let fields: usize = messages.iter().map(|message| ways::count(message)).sum();
    let what = format!(
        "The ends of all fields of a FIX 4.4 message (new orders and execution reports, made up with field lengths as they \
         are in the field), written into a buffer: {} messages of {} bytes and {} fields on average, in the cache.{missing}",
        messages.len(),
        bytes / messages.len().max(1),
        fields / messages.len().max(1),
    );
    let meaning = Meaning {
        rival: None,
        faster: "the FIX door finds the ends of all fields first, with the widest instructions that the machine has",
        slower: "the widest instructions are not the best ones for messages as short as these; the FIX door takes the winner",
        level: "the width of the instructions does not decide; the FIX door takes the narrowest that keeps up",
    };
    Ok(vec![Pair::new("scan/soh", what, "message", outcomes, &meaning)])
}

/// Finds the ends in every message, [`TIMES`] times. The result depends on every place that was found.
fn over<'a>(messages: &'a [Vec<u8>], find: Find) -> Box<dyn FnMut() -> Done + 'a> {
    let mut ends = [0; BYTES_MAX];
    Box::new(move || {
        let mut result = 0_u64;
        for _ in 0..TIMES {
            for message in messages {
                let len = find(black_box(message), &mut ends);
                result = result.wrapping_mul(31) ^ black_box(len) as u64;
            }
        }
        for message in messages {
            let len = find(message, &mut ends);
            let places = ends[..len].iter();
            result = places.fold(result, |sum, at| sum.wrapping_mul(31) ^ u64::from(*at));
        }
        Done { operations: (TIMES + 1) * messages.len() as u64, result }
    })
}

const _: () = assert!(MESSAGE_BYTES_MAX <= BYTES_MAX);
