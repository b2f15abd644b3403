//! The order of those that may bid.

use std::cmp::Ordering;

use crate::price::Price;
use crate::request::Placement;

/// What goes before price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// No deal, or one that competes by price.
    Open,
    /// With a deal, where deals go first.
    Deal,
    /// With a guaranteed deal.
    Guaranteed,
}

/// A campaign that wants the impression, may bid, and has something to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) class: Class,
    /// What it would pay at most; with a fixed price that one.
    pub(crate) price: Price,
    /// See [`Rank::score`].
    pub(crate) score: u64,
    /// Breaks ties. Differs between campaigns.
    pub(crate) tie: u64,
    pub(crate) slot: u32,
    /// Position in the impression's deals.
    pub(crate) deal: Option<u32>,
    /// Position in the campaign's creatives.
    pub(crate) creative: u32,
    pub(crate) placement: Placement,
    /// What holds for it.
    pub(crate) floor: Price,
}

impl Offer {
    fn key(&self) -> (Class, u64, u64) {
        (self.class, self.score, self.tie)
    }

    /// Does it go before everybody who scores at most `bound`, in a class that is at most `class`?
    #[inline]
    pub(crate) fn beats(&self, class: Class, bound: u64) -> bool {
        (self.class, self.score) > (class, bound)
    }
}

impl Ord for Offer {
    fn cmp(&self, other: &Offer) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Offer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Offer {
    fn eq(&self, other: &Offer) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Offer {}
