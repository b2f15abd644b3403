//! Dynamic pods: several ads in one impression.

use gate_auction::{BidContext, Campaign, Choice, Format, Pod, Price, Reason, Rules, Timing};
use proptest::prelude::*;

use crate::simple::{Scene, by_at, campaign, creative};

/// A video of so many seconds, for each of these.
fn films(id: u64, bid: i64, advertiser: u32, seconds: &[u32]) -> Campaign {
    let mut campaign = campaign(id, bid);
    campaign.advertiser = advertiser;
    campaign.creatives = (0..).zip(seconds).map(|(n, _)| creative(n, Format::Video)).collect();
    for (creative, duration_s) in campaign.creatives.iter_mut().zip(seconds) {
        creative.duration_s = *duration_s;
    }
    campaign
}

fn timing(duration_s: u32, ads_max: u32) -> Timing<'static> {
    Timing {
        format: Format::Video,
        min_s: 0,
        max_s: u32::MAX,
        exact_s: &[],
        pod: Some(Pod { duration_s, ads_max }),
        floor_per_second_micros: None,
        floors: &[],
    }
}

fn bids(timing: Timing<'_>, campaigns: &[Campaign], context: &mut impl BidContext) -> Vec<Choice> {
    Scene { formats: &[Format::Video], timings: &[timing], ..Scene::default() }
        .bids(campaigns, context)
}

fn who(choices: &[Choice]) -> Vec<u64> {
    choices.iter().map(|choice| choice.campaign).collect()
}

#[test]
fn a_pod_is_filled_up_to_its_time_and_its_ads() {
    let all = [
        films(1, 900, 1, &[30]),
        films(2, 800, 2, &[10]),
        films(3, 700, 3, &[15]),
        films(4, 600, 4, &[15]),
        films(5, 500, 5, &[5]),
    ];
    for (seconds, ads, expected) in [
        (60, 9, vec![1, 2, 3, 5]),
        (55, 9, vec![1, 2, 3]),
        (54, 9, vec![1, 2, 5]),
        (30, 9, vec![1]),
        (29, 9, vec![2, 3]),
        (90, 3, vec![1, 2, 3]),
        (45, 1, vec![1]),
        (4, 9, vec![]),
        (45, 0, vec![]),
    ] {
        let made = bids(timing(seconds, ads), &all, &mut ());
        assert_eq!(who(&made), expected, "{seconds} {ads}");
    }
}

#[test]
fn no_campaign_and_no_advertiser_is_twice_in_a_pod() {
    let all = [films(1, 900, 1, &[15]), films(2, 800, 1, &[15]), films(3, 700, 2, &[15])];
    assert_eq!(who(&bids(timing(60, 9), &all, &mut ())), [1, 3]);
    // Where it is no pod one bid is made, and rules of bids of one impression do not fill pods.
    let plain = Timing { pod: None, ..timing(60, 9) };
    assert_eq!(who(&bids(plain, &all, &mut ())), [1]);
}

#[test]
fn a_pod_has_one_format_and_no_more_further_ads_than_a_request_may_have() {
    let mut all = vec![films(1, 900, 1, &[15]), films(2, 700, 2, &[15])];
    all.push(campaign(3, 800));
    all[2].advertiser = 3;
    let timings = [timing(60, 9)];
    let two = [Format::Video, Format::Video];
    let scene = Scene { formats: &two, timings: &timings, ..Scene::default() };
    assert_eq!(who(&scene.bids(&all, &mut ())), [1, 2, 1, 2], "a banner does not fit a pod");
    let few = Scene { rules: Rules { further_ads_max: 1, ..by_at() }, ..scene };
    assert_eq!(who(&few.bids(&all, &mut ())), [1, 2, 1]);
    let one = Scene { rules: Rules { further_ads_max: 0, ..by_at() }, ..scene };
    assert_eq!(who(&one.bids(&all, &mut ())), [1, 1], "its first ad each pod has");
}

/// The time is up after so many further ads.
struct Hurried(usize);

impl BidContext for Hurried {
    fn has_time(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

#[test]
fn where_the_time_is_up_a_pod_gets_no_further_ad_and_later_ones_their_first() {
    let all = [films(1, 900, 1, &[15]), films(2, 700, 2, &[15]), films(3, 600, 3, &[15])];
    let timings = [timing(60, 9)];
    let two = [Format::Video, Format::Video];
    let scene = Scene { formats: &two, timings: &timings, ..Scene::default() };
    assert_eq!(who(&scene.bids(&all, &mut Hurried(2))), [1, 2, 1]);
    assert_eq!(who(&scene.bids(&all, &mut Hurried(1))), [1, 1]);
}

/// One campaign cannot hold its money.
struct Broke(u64);

impl BidContext for Broke {
    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        if choice.campaign == self.0 { Err(Reason::Purse) } else { Ok(()) }
    }
}

#[test]
fn who_cannot_pay_leaves_its_time_to_others() {
    let all = [films(1, 900, 1, &[30]), films(2, 800, 2, &[30]), films(3, 700, 3, &[30])];
    assert_eq!(who(&bids(timing(60, 9), &all, &mut Broke(2))), [1, 3]);
    assert_eq!(who(&bids(timing(60, 9), &all, &mut Broke(1))), [2, 3]);
}

#[test]
fn each_ad_meets_the_floor_of_its_own_seconds() {
    let all = [films(1, 900, 1, &[30]), films(2, 800, 2, &[30]), films(3, 500, 3, &[15])];
    let dear = Timing { floor_per_second_micros: Some(28), ..timing(90, 9) };
    let made = bids(dear, &all, &mut ());
    assert_eq!(who(&made), [1, 3], "30 s cost 840, 15 s 420");
    assert_eq!(made[1].floor, Price::from_micros(420).unwrap());
}

proptest! {
    /// Each ad is the best of those that fit what was left before it; at the end none is left that fits.
    #[test]
    fn each_ad_is_the_best_that_fits(
        made_of in prop::collection::vec((0_u32..5, prop::collection::vec(1_u32..40, 1..4)), 0..9),
        seconds in 1_u32..90,
        ads in 0_u32..6,
    ) {
        // No two bid the same.
        let campaigns: Vec<Campaign> = (1_u32..).zip(&made_of).map(|(id, (advertiser, films_s))| {
            films(u64::from(id), 1_000 - i64::from(id), *advertiser, films_s)
        }).collect();
        let made = bids(timing(seconds, ads), &campaigns, &mut ());
        let (mut left, mut gone) = (seconds, Vec::new());
        let best = |left: u32, gone: &[u32], ads_left: bool| {
            campaigns.iter().find(|one| {
                let fits = one.creatives.iter().any(|film| film.duration_s <= left);
                ads_left && fits && !gone.contains(&one.advertiser)
            }).map(|one| one.id)
        };
        for choice in &made {
            let ads_left = gone.len() < ads as usize;
            prop_assert_eq!(best(left, &gone, ads_left), Some(choice.campaign));
            let campaign = campaigns.iter().find(|one| one.id == choice.campaign).unwrap();
            left = left.checked_sub(campaign.creatives[choice.creative].duration_s).unwrap();
            gone.push(campaign.advertiser);
        }
        let ads_left = gone.len() < ads as usize;
        prop_assert_eq!(best(left, &gone, ads_left), None);
    }
}
