//! What is explained is what happened.

use gate_auction::{Counters, Explanation, Index, Outcome, Reason, Scratch, Step};
use proptest::prelude::*;

use crate::generator::{Body, Dice, SMALL, campaigns, currency};

/// The fate that the counters tell of one auction, where they are exact.
fn agrees(explanation: &Explanation, counters: &Counters) -> bool {
    let fates = counters.fates(explanation.slot).unwrap();
    match explanation.outcome {
        Outcome::Bids(_) => fates.won == 1,
        Outcome::Outbid => fates.outbid == 1,
        // Creatives of those that were outbid are not looked at; the explanation looks.
        Outcome::Not(Reason::Blocked | Reason::Insecure) if fates.outbid == 1 => true,
        Outcome::Not(reason) => fates.of(reason) == 1,
    }
}

proptest! {
    #[test]
    fn explanations_agree_with_the_auction(seed: u64, count in 1_u64..120) {
        let campaigns = campaigns(count, SMALL, seed);
        let index = Index::build(currency("USD"), &campaigns, 1).unwrap();
        let (mut dice, mut scratch) = (Dice::new(seed), Scratch::default());
        for _ in 0..10 {
            Body::with_rules(SMALL, &mut dice).lend(|request| {
                let mut counters = Counters::new(index.ids().len());
                let mut auction = index.auction(request, &mut scratch);
                let chosen = auction.impression(0, &mut (), &mut counters);
                auction.accept(&mut counters);
                let explained = index.explain(request, 0, &mut scratch, &mut ());
                assert_eq!(explained.len(), index.ids().len());
                for explanation in &explained {
                    assert!(agrees(explanation, &counters), "{explanation:?}");
                    let campaign = campaigns.iter().find(|c| c.id == explanation.campaign).unwrap();
                    for step in &explanation.steps {
                        if let Step::Wants(dimension, wants) = step {
                            let lists = campaign.targeting.lists(*dimension);
                            let admits = lists.admit(request.keys(*dimension));
                            // Who demands all of some segments is found by one of them.
                            let by_all = !campaign.targeting.segments_all.is_empty();
                            assert!(admits == *wants || by_all, "{explanation:?}");
                        }
                    }
                }
                let bids = explained.iter().find(|e| matches!(e.outcome, Outcome::Bids(_)));
                assert_eq!(bids.map(|e| e.campaign), chosen.map(|choice| choice.campaign));
            });
        }
        prop_assert!(Body::new(SMALL, &mut dice)
            .lend(|request| index.explain(request, 99, &mut scratch, &mut ())).is_empty());
    }
}
