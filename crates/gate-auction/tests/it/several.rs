//! Several impressions of a request: who is kept to one of them.

use std::collections::BTreeMap;

use gate_auction::{Campaign, Choice, Exclusive, Format, Rules};
use proptest::prelude::*;

use crate::simple::{Scene, by_at, campaign, creative};

const FORMATS: [Format; 3] = [Format::Banner, Format::Native, Format::Video];

/// Bid, advertiser, and which formats it has.
fn bidder() -> impl Strategy<Value = (i64, u32, [bool; 3])> {
    (1_i64..12, 0_u32..4, any::<[bool; 3]>())
}

fn bidders(of: &[(i64, u32, [bool; 3])]) -> Vec<Campaign> {
    let mut made = Vec::new();
    for (id, (bid, advertiser, has)) in (0..).zip(of) {
        let mut campaign = campaign(id, *bid);
        let formats = FORMATS.iter().zip(has).filter(|(_, has)| **has);
        campaign.advertiser = *advertiser;
        campaign.creatives =
            (0..).zip(formats).map(|(n, (format, _))| creative(n, *format)).collect();
        made.push(campaign);
    }
    made.retain(|campaign| !campaign.creatives.is_empty());
    made
}

/// The most that fell to one name.
fn most<K: Ord>(made: &[Choice], name: impl Fn(&Choice) -> K) -> usize {
    let mut counts = BTreeMap::new();
    made.iter().for_each(|choice| *counts.entry(name(choice)).or_insert(0) += 1);
    counts.into_values().max().unwrap_or(0)
}

proptest! {
    /// And what it could have had beside it falls to another: nobody is left out who is free.
    #[test]
    fn one_win_a_campaign_and_one_an_advertiser(
        of in prop::collection::vec(bidder(), 1..8), id_hash: u64,
        formats in prop::collection::vec(prop::sample::select(FORMATS.to_vec()), 1..6),
    ) {
        let campaigns = bidders(&of);
        let advertiser = |id: u64| of[usize::try_from(id).unwrap()].1;
        for exclusive in [Exclusive::No, Exclusive::Campaign, Exclusive::Advertiser] {
            let rules = Rules { exclusive, ..by_at() };
            let scene = Scene { formats: &formats, id_hash, rules, ..Scene::default() };
            let made = scene.bids(&campaigns, &mut ());
            match exclusive {
                Exclusive::No => {}
                Exclusive::Campaign => prop_assert!(most(&made, |choice| choice.campaign) <= 1),
                Exclusive::Advertiser => {
                    prop_assert!(most(&made, |choice| advertiser(choice.campaign)) <= 1);
                }
            }
            let taken = |campaign: &Campaign| made.iter().any(|choice| match exclusive {
                Exclusive::No => false,
                Exclusive::Campaign => choice.campaign == campaign.id,
                Exclusive::Advertiser => advertiser(choice.campaign) == campaign.advertiser,
            });
            let empty = (0..formats.len()).filter(|at| made.iter().all(|choice| choice.impression != *at));
            for at in empty {
                let fits = |campaign: &&Campaign| campaign.creatives.iter().any(|c| c.format == formats[at]);
                prop_assert!(campaigns.iter().filter(fits).all(taken), "impression {at} is empty");
            }
        }
    }
}
