//! The record of these tests, and how to read a whole store.

use std::collections::BTreeMap;
use std::path::Path;

use gate_store::{Options, Policy, Progress, Record, Store};

/// A counter went up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) key: u64,
    pub(crate) sub: u64,
    pub(crate) id: u64,
    pub(crate) time_ms: u64,
    pub(crate) count: u64,
}

/// How long ids live.
pub(crate) const LIFE_MS: u64 = 500;

impl Record for Delta {
    const BYTES: usize = 40;
    const LAYOUT: u32 = 1;
    const ID_LIFE_MS: u64 = LIFE_MS;

    fn key(&self) -> u64 {
        self.key
    }

    fn sub(&self) -> u64 {
        self.sub
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn time_ms(&self) -> u64 {
        self.time_ms
    }

    fn merge(&self, newer: &Delta) -> Delta {
        let time_ms = self.time_ms.max(newer.time_ms);
        Delta { id: 0, time_ms, count: self.count + newer.count, ..*self }
    }

    fn to_bytes(&self, out: &mut [u8]) {
        let numbers = [self.key, self.sub, self.id, self.time_ms, self.count];
        out.chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(to, n)| to.copy_from_slice(&n.to_le_bytes()));
    }

    fn from_bytes(bytes: &[u8]) -> Delta {
        let number = |at: usize| u64::from_le_bytes(bytes[at * 8..][..8].try_into().unwrap());
        Delta {
            key: number(0),
            sub: number(1),
            id: number(2),
            time_ms: number(3),
            count: number(4),
        }
    }
}

/// Small segments, so that little work goes through everything.
pub(crate) const OPTIONS: Options =
    Options { segment_bytes_max: 1_000, segment_ms_max: 200, ahead_ms_max: 100 };

pub(crate) fn open<P: Policy>(folder: &Path, policy: P) -> Store<Delta, P> {
    Store::open(folder, policy, OPTIONS).unwrap().0
}

/// Maintains until nothing is due.
pub(crate) fn settle<P: Policy>(store: &mut Store<Delta, P>, now_ms: u64) {
    for _ in 0..10_000 {
        if store.maintain(now_ms, 50).unwrap() == Progress::Idle {
            return;
        }
    }
    panic!("maintenance does not come to an end: {:?}", store.runs());
}

/// Counts by (key, sub, window), from a scan whose order is checked too.
pub(crate) fn counts<P: Policy>(
    store: &Store<Delta, P>,
    policy: P,
    now_ms: u64,
) -> BTreeMap<(u64, u64, u64), u64> {
    let mut counts = BTreeMap::new();
    let mut last = None;
    for delta in store.scan(now_ms).unwrap() {
        let delta = delta.unwrap();
        let place = (delta.key, delta.sub, policy.window(delta.time_ms).start_ms);
        assert!(last < Some(place), "{place:?} follows {last:?}");
        last = Some(place);
        counts.insert(place, delta.count);
    }
    counts
}
