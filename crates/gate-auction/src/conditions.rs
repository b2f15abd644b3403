//! The targeting of a campaign, packed.

use crate::campaign::Targeting;
use crate::keyset::KeySet;
use crate::request::{Dimension, Request};

/// A list this long is searched by halves.
const LONG: usize = 8;

/// What the keys of a condition are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// At least one.
    Any,
    /// None.
    None,
    /// All.
    All,
}

/// Adds what a campaign does not want, and the segments it wants all of: what [`Rows`](crate::rows::Rows) do not know.
///
/// A condition is a word (dimension, kind, number of keys) and then its keys, sorted.
pub(crate) fn push_refusals(targeting: &Targeting, words: &mut Vec<u32>) {
    for dimension in Dimension::ALL {
        push(dimension, Kind::None, &targeting.lists(dimension).none, words);
    }
    push(Dimension::Segments, Kind::All, &targeting.segments_all, words);
}

/// Adds what a campaign wants: known to hold for whoever was found by its rows.
pub(crate) fn push_wishes(targeting: &Targeting, words: &mut Vec<u32>) {
    for dimension in Dimension::ALL {
        push(dimension, Kind::Any, &targeting.lists(dimension).any, words);
    }
}

fn push(dimension: Dimension, kind: Kind, keys: &[u32], words: &mut Vec<u32>) {
    if keys.is_empty() {
        return;
    }
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys.dedup();
    // Keys have 22 bits and each is there once.
    let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    words.push(dimension as u32 | (kind as u32) << 4 | count << 6);
    words.extend(keys);
}

/// Does everything hold?
#[inline]
pub(crate) fn hold(mut words: &[u32], request: &Request<'_>, segments: &KeySet) -> bool {
    while let Some((condition, rest)) = Condition::split(words) {
        if !condition.holds(request, segments) {
            return false;
        }
        words = rest;
    }
    true
}

/// Does everything hold that is about this dimension?
pub(crate) fn hold_in(
    dimension: Dimension,
    mut words: &[u32],
    request: &Request<'_>,
    segments: &KeySet,
) -> bool {
    while let Some((condition, rest)) = Condition::split(words) {
        if condition.dimension == dimension && !condition.holds(request, segments) {
            return false;
        }
        words = rest;
    }
    true
}

struct Condition<'a> {
    dimension: Dimension,
    kind: Kind,
    keys: &'a [u32],
}

impl<'a> Condition<'a> {
    #[inline]
    fn split(words: &'a [u32]) -> Option<(Condition<'a>, &'a [u32])> {
        let (head, rest) = words.split_first()?;
        let (keys, rest) = rest.split_at_checked((head >> 6) as usize)?;
        let dimension = *Dimension::ALL.get((head & 15) as usize)?;
        let kind = [Kind::Any, Kind::None, Kind::All, Kind::All][(head >> 4 & 3) as usize];
        Some((Condition { dimension, kind, keys }, rest))
    }

    #[inline]
    fn holds(&self, request: &Request<'_>, segments: &KeySet) -> bool {
        match self.kind {
            Kind::Any => self.meets(request, segments),
            Kind::None => {
                !self.meets(request, segments)
                    && !request.unknown.contains(&self.dimension)
                    && !self.may_meet(request)
            }
            Kind::All => self.keys.iter().all(|key| segments.has(*key)),
        }
    }

    /// May one of the keys be there, though it is not said?
    #[inline]
    fn may_meet(&self, request: &Request<'_>) -> bool {
        self.dimension == Dimension::Categories
            && request.categories_possible.iter().any(|key| self.keys.binary_search(key).is_ok())
    }

    /// Is one of the keys there?
    #[inline]
    fn meets(&self, request: &Request<'_>, segments: &KeySet) -> bool {
        let there = request.keys(self.dimension);
        if self.keys.len() > LONG {
            there.iter().any(|key| self.keys.binary_search(key).is_ok())
        } else if self.dimension == Dimension::Segments {
            self.keys.iter().any(|key| segments.has(*key))
        } else {
            there.iter().any(|key| self.keys.contains(key))
        }
    }
}
