//! Campaigns as the snapshot is built from them, and what is refused.

use crate::key::{KEY_MAX, UNKNOWN};
use crate::price::{MODIFIER_MAX, Price};
use crate::request::{Dimension, Format};

/// Most campaigns of one snapshot.
pub const CAMPAIGNS_MAX: usize = 1 << 20;
/// Most creatives of one campaign.
pub const CREATIVES_MAX: usize = 256;
/// Most modifiers of one campaign.
pub const MODIFIERS_MAX: usize = 64;

/// What a campaign wants of one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// At least one of these; empty: no matter.
    pub any: Vec<u32>,
    /// None of these.
    pub none: Vec<u32>,
}

impl Lists {
    /// The rule itself, which the index only speeds up.
    #[must_use]
    pub fn admit(&self, keys: &[u32]) -> bool {
        let wanted = self.any.is_empty() || keys.iter().any(|key| self.any.contains(key));
        wanted && !keys.iter().any(|key| self.none.contains(key))
    }
}

/// Where and to whom a campaign wants to show itself. The default is everywhere, to everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targeting {
    /// Of each [`Dimension`], in the order of [`Dimension::ALL`]; see [`Targeting::lists_mut`].
    lists: [Lists; Dimension::ALL.len()],
    /// Users must be in all of these segments.
    pub segments_all: Vec<u32>,
    /// Deals that the campaign may use.
    pub deals: Vec<u32>,
    /// Never without one of the deals.
    pub deals_only: bool,
}

impl Targeting {
    /// What is wanted of a dimension.
    #[must_use]
    pub fn lists(&self, dimension: Dimension) -> &Lists {
        &self.lists[dimension as usize]
    }

    /// As [`Targeting::lists`], to fill it.
    pub fn lists_mut(&mut self, dimension: Dimension) -> &mut Lists {
        &mut self.lists[dimension as usize]
    }
}

/// Something to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creative {
    /// Its number among all creatives.
    pub id: u64,
    /// What it is.
    pub format: Format,
    /// Sizes it comes in, pixels; (0, 0) fits all. At least one.
    pub sizes: Vec<(u16, u16)>,
    /// Domains of the advertiser.
    pub domains: Vec<u32>,
    /// Its categories.
    pub categories: Vec<u32>,
    /// Its attributes, OpenRTB's `attr`.
    pub attributes: Vec<u16>,
    /// Loads everything by HTTPS.
    pub secure: bool,
    /// How long it plays, seconds; 0: not known, or it does not play.
    pub duration_s: u32,
    /// The app that it advertises.
    pub bundle: Option<u32>,
    /// Its language.
    pub language: Option<u32>,
}

/// Changes a bid for users of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modifier {
    /// The segment.
    pub segment: u32,
    /// 10,000 changes nothing. The modifiers of all segments that a user is in are applied one after the other, in
    /// the order of the campaign, each rounded down.
    pub factor: u32,
}

/// A campaign of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Its number, one of a kind.
    pub id: u64,
    /// What a thousand impressions are worth to it.
    pub bid: Price,
    /// Who advertises, for [`Exclusive::Advertiser`](crate::Exclusive::Advertiser).
    pub advertiser: u32,
    /// The buyer's seat it bids for.
    pub seat: u32,
    /// Changes of the bid.
    pub modifiers: Vec<Modifier>,
    /// Where and to whom.
    pub targeting: Targeting,
    /// What to show; at least one.
    pub creatives: Vec<Creative>,
}

/// Why a snapshot is refused. The operator's mistake: the campaign file has to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// Too many campaigns.
    #[error(
        "{found} campaigns, at most {CAMPAIGNS_MAX} fit one snapshot; split them over several nodes"
    )]
    TooMany {
        /// How many.
        found: usize,
    },
    /// Two campaigns with one number.
    #[error("campaign {id} appears twice; give one of the two another id")]
    Duplicate {
        /// Which.
        id: u64,
    },
    /// The bid is 0.
    #[error("campaign {id}: bid is 0, expected at least 0.000001 per thousand impressions")]
    NoBid {
        /// Which.
        id: u64,
    },
    /// Number of creatives out of range.
    #[error("campaign {id}: {found} creatives, expected 1 to {CREATIVES_MAX}")]
    Creatives {
        /// Which.
        id: u64,
        /// How many.
        found: usize,
    },
    /// A creative without a size.
    #[error("campaign {id}: creative {creative} has no size, expected at least one; 0x0 fits all")]
    NoSize {
        /// Which.
        id: u64,
        /// Which creative.
        creative: u64,
    },
    /// Too many modifiers.
    #[error("campaign {id}: {found} modifiers, expected at most {MODIFIERS_MAX}")]
    Modifiers {
        /// Which.
        id: u64,
        /// How many.
        found: usize,
    },
    /// A modifier that is too large.
    #[error(
        "campaign {id}: modifier {found} of segment {segment}, expected at most {MODIFIER_MAX} (100 times)"
    )]
    Modifier {
        /// Which.
        id: u64,
        /// Of which segment.
        segment: u32,
        /// The modifier.
        found: u32,
    },
    /// A key that cannot be one.
    #[error(
        "campaign {id}: key {found} in {field}, expected below {KEY_MAX}; intern texts in a dictionary first"
    )]
    Key {
        /// Which.
        id: u64,
        /// Where.
        field: &'static str,
        /// The key.
        found: u32,
    },
    /// Deals are demanded and there are none.
    #[error(
        "campaign {id}: bids with a deal only, and has none; name its deals or let it bid without"
    )]
    NoDeals {
        /// Which.
        id: u64,
    },
}

impl CampaignError {
    /// Whose mistake it is; `None` where it is not one campaign's.
    #[must_use]
    pub fn campaign(&self) -> Option<u64> {
        match *self {
            CampaignError::TooMany { .. } => None,
            CampaignError::Duplicate { id }
            | CampaignError::NoBid { id }
            | CampaignError::Creatives { id, .. }
            | CampaignError::NoSize { id, .. }
            | CampaignError::Modifiers { id, .. }
            | CampaignError::Modifier { id, .. }
            | CampaignError::Key { id, .. }
            | CampaignError::NoDeals { id } => Some(id),
        }
    }
}

impl Campaign {
    /// Everything that is wrong with it.
    pub(crate) fn check(&self, errors: &mut Vec<CampaignError>) {
        let id = self.id;
        if self.bid == Price::ZERO {
            errors.push(CampaignError::NoBid { id });
        }
        if self.creatives.is_empty() || self.creatives.len() > CREATIVES_MAX {
            errors.push(CampaignError::Creatives { id, found: self.creatives.len() });
        }
        if self.modifiers.len() > MODIFIERS_MAX {
            errors.push(CampaignError::Modifiers { id, found: self.modifiers.len() });
        }
        if self.targeting.deals_only && self.targeting.deals.is_empty() {
            errors.push(CampaignError::NoDeals { id });
        }
        for &Modifier { segment, factor: found } in &self.modifiers {
            if found > MODIFIER_MAX {
                errors.push(CampaignError::Modifier { id, segment, found });
            }
        }
        for creative in self.creatives.iter().filter(|creative| creative.sizes.is_empty()) {
            errors.push(CampaignError::NoSize { id, creative: creative.id });
        }
        let bad = self.keys().find(|(_, key)| *key >= KEY_MAX);
        errors.extend(bad.map(|(field, found)| CampaignError::Key { id, field, found }));
    }

    /// All keys by field. The seat may be [`UNKNOWN`]: such a campaign bids where no seats are named.
    fn keys(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let Targeting { lists, segments_all, deals, .. } = &self.targeting;
        let listed = lists.iter().flat_map(|lists| lists.any.iter().chain(&lists.none));
        let targeting = listed.chain(segments_all).chain(deals).map(|key| ("targeting", *key));
        let modifiers = self.modifiers.iter().map(|modifier| ("modifiers", modifier.segment));
        let creatives = self.creatives.iter().flat_map(|creative| {
            let Creative { domains, categories, bundle, language, .. } = creative;
            domains.iter().chain(categories).chain(bundle).chain(language).copied()
        });
        let seat = Some(("seat", self.seat)).filter(|(_, seat)| *seat != UNKNOWN);
        targeting.chain(modifiers).chain(creatives.map(|key| ("creatives", key))).chain(seat)
    }
}
