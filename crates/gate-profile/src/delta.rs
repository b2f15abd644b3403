//! The record of one count in the log.

use gate_store::Record;

use crate::window::WindowId;

/// One impression under one cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) user: u64,
    /// Rises with each impression; the counts of one impression share it.
    pub(crate) seq: u64,
    pub(crate) hold: u64,
    pub(crate) item: u64,
    /// When it was written, Unix milliseconds: decides how long the log keeps it.
    pub(crate) at_ms: u64,
    pub(crate) window: WindowId,
}

const BYTES: usize = 44;

impl Record for Delta {
    const BYTES: usize = BYTES;
    const LAYOUT: u32 = 0x5052_0001;

    fn key(&self) -> u64 {
        self.user
    }

    /// One each event, so that the log folds nothing; of a hold's counts each has another item or window.
    fn sub(&self) -> u64 {
        let what = self.item ^ u64::from(self.window.0).rotate_left(32);
        what.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.hold.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(32)
    }

    fn id(&self) -> u64 {
        self.hold.max(1)
    }

    fn time_ms(&self) -> u64 {
        self.at_ms
    }

    /// Never asked for: no two events share key and sub.
    fn merge(&self, _newer: &Delta) -> Delta {
        *self
    }

    fn to_bytes(&self, out: &mut [u8]) {
        let fields = [self.user, self.seq, self.hold, self.item, self.at_ms];
        for (place, field) in out.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        if let Some(place) = out.get_mut(40..BYTES) {
            place.copy_from_slice(&self.window.0.to_le_bytes());
        }
    }

    fn from_bytes(bytes: &[u8]) -> Delta {
        let field = |at: usize| {
            let bytes = bytes.get(at * 8..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |&bytes| u64::from_le_bytes(bytes))
        };
        let window = bytes.get(40..).and_then(|rest| rest.first_chunk());
        Delta {
            user: field(0),
            seq: field(1),
            hold: field(2),
            item: field(3),
            at_ms: field(4),
            window: WindowId(window.map_or(0, |&bytes| u32::from_le_bytes(bytes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_comes_back(fields in any::<[u64; 5]>(), window in any::<u32>()) {
            let [user, seq, hold, item, at_ms] = fields;
            let delta = Delta { user, seq, hold, item, at_ms, window: WindowId(window) };
            let mut bytes = [0; BYTES];
            delta.to_bytes(&mut bytes);
            prop_assert_eq!(Delta::from_bytes(&bytes), delta);
        }
    }
}
