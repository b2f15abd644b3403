//! What is explained is what happened.

use gate_auction::{Counters, Explanation, Index, Outcome, Request, Scratch, Step};
use proptest::prelude::*;

use crate::generator::{Body, Dice, SMALL, campaigns, currency};
use crate::reference::{Moods, is_wanted};

/// The fate that the counters tell of a survey of one impression.
fn agrees(explanation: &Explanation, counters: &Counters) -> bool {
    let fates = counters.fates(explanation.slot).unwrap();
    match explanation.outcome {
        Outcome::Bids(_) => fates.won == 1,
        Outcome::Outbid => fates.outbid == 1,
        Outcome::Not(reason) => fates.of(reason) == 1,
    }
}

proptest! {
    #[test]
    fn explanations_agree_with_auction_and_survey(seed: u64, count in 1_u64..120, moods in 0_u64..4) {
        let campaigns = campaigns(count, SMALL, seed);
        let index = Index::build(currency("USD"), &campaigns, 1).unwrap();
        let (mut dice, mut scratch, mut context) = (Dice::new(seed), Scratch::default(), Moods(moods));
        for _ in 0..10 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let impressions = &request.impressions[..1];
                let request = &Request { impressions, ..*request };
                let mut counters = Counters::new(index.ids().len());
                index.survey(request, &mut scratch, &context, &mut counters);
                let explained = index.explain(request, 0, &mut scratch, &context);
                assert_eq!(explained.len(), index.ids().len());
                for explanation in &explained {
                    assert!(agrees(explanation, &counters), "{explanation:?}");
                    let campaign = campaigns.iter().find(|c| c.id == explanation.campaign).unwrap();
                    for step in &explanation.steps {
                        if let Step::Wants(dimension, wants) = step {
                            let lists = campaign.targeting.lists(*dimension);
                            let mut admits = is_wanted(lists, request, *dimension);
                            if *dimension == gate_auction::Dimension::Segments {
                                let all = &campaign.targeting.segments_all;
                                admits &= all.iter().all(|key| request.segments.contains(key));
                            }
                            assert_eq!(admits, *wants, "{explanation:?}");
                        }
                    }
                }
                let (mut auction, mut chosen) = (index.auction(request, &mut scratch), Vec::new());
                auction.fill(&mut context, &mut chosen);
                chosen.sort_by_key(|choice| choice.slot);
                let bids = explained.iter().filter_map(|explanation| match explanation.outcome {
                    Outcome::Bids(price) => Some((explanation.campaign, price)),
                    _ => None,
                });
                let bids: Vec<_> = bids.collect();
                let chosen: Vec<_> = chosen.iter().map(|c| (c.campaign, c.price)).collect();
                assert_eq!(bids, chosen);
            });
        }
        prop_assert!(Body::new(SMALL, &mut dice)
            .lend(|request| index.explain(request, 99, &mut scratch, &())).is_empty());
    }
}
