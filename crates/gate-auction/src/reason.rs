//! Why a campaign did not bid, counted.

use std::ops::Range;

use crate::survey::{PART, parts};

/// Why a campaign did not get an impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Reason {
    /// It does not want this one: segments, country, hour, size.
    Targeting,
    /// The exchange does not take our currency, or a floor is in one without a rate.
    Currency,
    /// Its seat may not bid here.
    Seat,
    /// The impression is private and offers none of its deals.
    Deal,
    /// The plan says not now.
    Paced,
    /// The user has seen it, or all of its creatives that fit, often enough.
    Cap,
    /// The budget is spent or not running.
    Budget,
    /// The worker's purse does not hold the price.
    Purse,
    /// Its bid is below the floor.
    Floor,
    /// No creative that fits is free of what is blocked here, and suits what shows it.
    Blocked,
    /// No creative that fits loads by HTTPS only.
    Insecure,
    /// It, or its advertiser, has another impression of the request.
    Exclusive,
    /// The other impressions of its group could not be filled.
    Group,
    /// There was no time left.
    Deadline,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 14] = [
        Reason::Targeting,
        Reason::Currency,
        Reason::Seat,
        Reason::Deal,
        Reason::Paced,
        Reason::Cap,
        Reason::Budget,
        Reason::Purse,
        Reason::Floor,
        Reason::Blocked,
        Reason::Insecure,
        Reason::Exclusive,
        Reason::Group,
        Reason::Deadline,
    ];

    /// How far a campaign comes that fails for this reason: the order in which it is asked.
    #[must_use]
    pub const fn step(self) -> u8 {
        match self {
            Reason::Targeting => 0,
            Reason::Currency => 1,
            Reason::Seat => 2,
            Reason::Exclusive => 3,
            Reason::Paced => 4,
            Reason::Deal => 5,
            Reason::Blocked => 6,
            Reason::Insecure => 7,
            Reason::Floor => 8,
            Reason::Cap => 9,
            Reason::Budget => 10,
            Reason::Purse => 11,
            Reason::Group => 12,
            Reason::Deadline => 13,
        }
    }

    /// Its word, in counters and in the documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Targeting => "targeting",
            Reason::Currency => "currency",
            Reason::Seat => "seat",
            Reason::Deal => "deal",
            Reason::Paced => "paced",
            Reason::Cap => "cap",
            Reason::Budget => "budget",
            Reason::Purse => "purse",
            Reason::Floor => "floor",
            Reason::Blocked => "blocked",
            Reason::Insecure => "insecure",
            Reason::Exclusive => "exclusive",
            Reason::Group => "group",
            Reason::Deadline => "deadline",
        }
    }
}

/// Is told what becomes of campaigns, by slot. A [survey](crate::Index::survey) tells each campaign's fate once an
/// impression; of most it says nothing, which means [`Reason::Targeting`]. `()` does not listen and costs nothing.
pub trait Tally {
    /// One more impression was surveyed of the campaigns in these slots.
    fn impression(&mut self, slots: &Range<u32>);
    /// Was not ranked.
    fn rejected(&mut self, slot: u32, reason: Reason);
    /// Could bid. If nothing follows, it was outbid by a campaign of our own.
    fn ranked(&mut self, slot: u32);
    /// Was ranked and does not bid after all.
    fn dropped(&mut self, slot: u32, reason: Reason);
    /// Was ranked and bids.
    fn won(&mut self, slot: u32);
    /// May soon be told of this one: a chance to ask for its memory.
    #[inline]
    fn prefetch(&self, slot: u32) {
        let _ = slot;
    }
}

impl Tally for () {
    #[inline]
    fn impression(&mut self, _: &Range<u32>) {}
    #[inline]
    fn rejected(&mut self, _: u32, _: Reason) {}
    #[inline]
    fn ranked(&mut self, _: u32) {}
    #[inline]
    fn dropped(&mut self, _: u32, _: Reason) {}
    #[inline]
    fn won(&mut self, _: u32) {}
}

/// One campaign's counters: a cache line, so that counting touches one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
struct Counts {
    reasons: [u32; Reason::ALL.len()],
    /// Ranked and not taken out again.
    stayed: u32,
    won: u32,
}

const _: () = assert!(size_of::<Counts>() == 64);

/// What became of one campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fates {
    /// Impressions auctioned, those that nobody surveyed included.
    pub auctioned: u64,
    /// Impressions surveyed: the size of the sample. A rate is a count divided by this.
    pub impressions: u64,
    /// Bids.
    pub won: u32,
    /// It could have bid, and other campaigns of ours went before it.
    pub outbid: u32,
    reasons: [u32; Reason::ALL.len()],
}

impl Fates {
    /// How often for this reason. Targeting is what is left when all that was counted is taken off.
    #[must_use]
    pub fn of(&self, reason: Reason) -> u64 {
        if reason != Reason::Targeting {
            return u64::from(self.reasons[reason as usize]);
        }
        let others = self.reasons.iter().map(|count| u64::from(*count)).sum::<u64>();
        let counted = others - u64::from(self.reasons[Reason::Targeting as usize]);
        let bids = u64::from(self.won) + u64::from(self.outbid);
        self.impressions.saturating_sub(counted + bids)
    }
}

/// Counters of all campaigns of a snapshot; the caller owns and collects them. Collect them before 2^32 impressions:
/// a counter stays at its end.
#[derive(Debug)]
pub struct Counters {
    auctioned: u64,
    /// Impressions surveyed, by part of the slots.
    surveyed: Vec<u64>,
    counts: Vec<Counts>,
}

impl Counters {
    /// For a snapshot of so many campaigns.
    #[must_use]
    pub fn new(campaigns: usize) -> Counters {
        let surveyed = vec![0; parts(campaigns) as usize];
        Counters { auctioned: 0, surveyed, counts: vec![Counts::default(); campaigns] }
    }

    /// So many impressions are auctioned, of which a sample is surveyed.
    #[inline]
    pub fn auctioned(&mut self, impressions: usize) {
        self.auctioned += impressions as u64;
    }

    /// What became of the campaign of a slot; `None` where there is none.
    #[must_use]
    pub fn fates(&self, slot: u32) -> Option<Fates> {
        let counts = self.counts.get(slot as usize)?;
        let outbid = counts.stayed.saturating_sub(counts.won);
        let (auctioned, impressions) = (self.auctioned, self.surveyed[(slot / PART) as usize]);
        Some(Fates { auctioned, impressions, won: counts.won, outbid, reasons: counts.reasons })
    }

    #[inline]
    fn at(&mut self, slot: u32, change: impl FnOnce(&mut Counts)) {
        if let Some(counts) = self.counts.get_mut(slot as usize) {
            change(counts);
        }
    }
}

impl Tally for Counters {
    fn impression(&mut self, slots: &Range<u32>) {
        let parts = (slots.start / PART) as usize..slots.end.div_ceil(PART) as usize;
        self.surveyed.iter_mut().take(parts.end).skip(parts.start).for_each(|count| *count += 1);
    }

    #[inline]
    fn rejected(&mut self, slot: u32, reason: Reason) {
        self.at(slot, |counts| {
            let count = &mut counts.reasons[reason as usize];
            *count = count.saturating_add(1);
        });
    }

    #[inline]
    fn ranked(&mut self, slot: u32) {
        self.at(slot, |counts| counts.stayed = counts.stayed.saturating_add(1));
    }

    #[inline]
    fn dropped(&mut self, slot: u32, reason: Reason) {
        self.at(slot, |counts| counts.stayed = counts.stayed.saturating_sub(1));
        self.rejected(slot, reason);
    }

    #[inline]
    fn won(&mut self, slot: u32) {
        self.at(slot, |counts| counts.won = counts.won.saturating_add(1));
    }

    #[inline]
    fn prefetch(&self, slot: u32) {
        self.counts.get(slot as usize).into_iter().for_each(table::prefetch);
    }
}
