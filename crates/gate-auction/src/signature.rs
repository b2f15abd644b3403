//! 64 bits that rule out most campaigns without reading anything else about them.

use crate::campaign::Targeting;
use crate::request::{Dimension, Request};

/// The dimensions that take part, and how many bits each has: more where a bit tells more. The top bit of a lane stands
/// for "takes all"; the others for keys, several a bit where there are many.
const LANES: [(Dimension, u32); 6] = [
    (Dimension::Geo, 15),
    (Dimension::Segments, 13),
    (Dimension::Devices, 8),
    (Dimension::Oses, 7),
    (Dimension::Quarters, 6),
    (Dimension::Languages, 5),
];
/// Bits of the lane of placements, the highest. Nobody takes all, so all of them stand for keys.
const PLACEMENT_BITS: u32 = 10;
/// Where that lane begins.
const PLACEMENTS: u32 = u64::BITS - PLACEMENT_BITS;

/// The top bit of every lane.
const TOPS: u64 = tops();

const fn tops() -> u64 {
    let (mut tops, mut shift, mut at) = (1 << (u64::BITS - 1), 0, 0);
    while at < LANES.len() {
        shift += LANES[at].1;
        tops |= 1 << (shift - 1);
        at += 1;
    }
    assert!(shift == PLACEMENTS, "the lanes fill the word");
    tops
}

/// What a campaign takes, or what a request is, in every lane. It may say yes where the truth is no, never the reverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature(u64);

impl Signature {
    pub(crate) fn of_campaign(targeting: &Targeting, placements: &[u32]) -> Signature {
        let wanted = Signature::new(|dimension, width| {
            let any = &targeting.lists(dimension).any;
            match (any.is_empty(), targeting.segments_all.first()) {
                (false, _) => any.iter().fold(0, |lane, key| lane | bit(dimension, width, *key)),
                (true, Some(key)) if dimension == Dimension::Segments => {
                    bit(dimension, width, *key)
                }
                _ => takes_all(width),
            }
        });
        wanted.placed(placements)
    }

    /// Fits no campaign before it is [`Signature::placed`].
    pub(crate) fn of_request(request: &Request<'_>) -> Signature {
        Signature::new(|dimension, width| {
            let keys = request.keys(dimension).iter();
            keys.fold(takes_all(width), |lane, key| lane | bit(dimension, width, *key))
        })
    }

    /// With these placements.
    pub(crate) fn placed(self, placements: &[u32]) -> Signature {
        let bit = |key: &u32| 1 << (PLACEMENTS + key % PLACEMENT_BITS);
        Signature(placements.iter().fold(self.0, |word, key| word | bit(key)))
    }

    #[inline]
    fn new(lane: impl Fn(Dimension, u32) -> u64) -> Signature {
        let (mut word, mut shift) = (0, 0);
        for (dimension, width) in LANES {
            word |= lane(dimension, width) << shift;
            shift += width;
        }
        Signature(word)
    }

    /// Do the two meet in every lane? Adding all ones below the top of a lane carries into the top exactly if the lane
    /// is not empty.
    #[inline]
    pub(crate) fn meets(self, other: Signature) -> bool {
        let common = self.0 & other.0;
        // Without the tops the sum stays below 2^64.
        ((common & !TOPS).wrapping_add(!TOPS) | common) & TOPS == TOPS
    }
}

#[inline]
const fn takes_all(width: u32) -> u64 {
    1 << (width - 1)
}

/// Hours of a day that are side by side share a bit: campaigns want days' parts, every day.
#[inline]
fn bit(dimension: Dimension, width: u32, key: u32) -> u64 {
    match dimension {
        Dimension::Quarters => 1 << (key % 24 * (width - 1) / 24),
        _ => 1 << (key % (width - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_key(dimension: Dimension, key: u32) -> Signature {
        let mut targeting = Targeting::default();
        targeting.lists_mut(dimension).any = vec![key];
        Signature::of_campaign(&targeting, &[3])
    }

    #[test]
    fn lanes_are_apart() {
        let open = Signature::of_campaign(&Targeting::default(), &[3]);
        assert!(open.meets(Signature(TOPS).placed(&[3, 4])) && !open.meets(Signature(TOPS)));
        for (dimension, width) in LANES {
            for key in 0..width - 1 {
                let campaign = one_key(dimension, key * 24 / 7);
                assert!(!campaign.meets(open), "{dimension:?} {key}");
                assert!(campaign.meets(Signature(open.0 | campaign.0)));
            }
        }
    }

    proptest! {
        #[test]
        fn meeting_is_a_common_bit_in_every_lane(one: u64, other: u64) {
            let (mut expected, mut common) = (true, one & other);
            for (_, width) in LANES {
                expected &= common & ((1 << width) - 1) != 0;
                common >>= width;
            }
            prop_assert_eq!(Signature(one).meets(Signature(other)), expected && common != 0);
        }
    }
}
