use std::collections::BTreeMap;
use std::sync::Arc;

use gate_pacing::{Forecast, Landscape, PlanSpec, Shape, Strategy};
use ledger::{Amount, Hold, Line, OnExpiry, Verdict};
use money::{Instant, Window, Zone};
use proptest::prelude::*;
use weir_pace::engine::{Engine, EngineCampaign, EngineError, EngineOptions};

use crate::engine_market::{Answer, BAD, Bidder, Mail, Market, Notice, RELIABLE, Request, STEP_S};

const START_MS: u64 = 978_307_200_000;
const DAY_MS: u64 = 86_400_000;

/// An engine with its own auction, as the doors of a node have one.
struct Player {
    engine: Engine,
    workers: u16,
    holds: BTreeMap<u64, (u16, Hold)>,
    /// Seconds at which it is killed.
    restarts: Vec<u64>,
    late: usize,
}

fn campaign(id: u64, limit: i64, strategy: Strategy) -> EngineCampaign {
    let day =
        Window { start: Instant::from_ms(START_MS), end: Instant::from_ms(START_MS + DAY_MS) };
    let mut plan = PlanSpec::new(id, strategy, day, Zone::utc());
    if strategy.follows_time() {
        plan.shape = Shape::hourly(&[
            3, 2, 1, 1, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7, 8, 8, 7, 6, 4,
        ])
        .unwrap();
    }
    let points: Vec<(u64, u64)> = (1..=16).map(|i| (i << 28, (i * i) << 16)).collect();
    let forecast = Forecast {
        requests: 5_000,
        arrivals: Some(Shape::linear()),
        landscape: Some(Arc::new(Landscape::from_points(&points).unwrap())),
        multiplier_q32: None,
    };
    let (limit, on_expiry) = (Amount::new(limit), OnExpiry::Hold);
    EngineCampaign { id, limit, day, plan, forecast, on_expiry, tolerance_ppm: 0 }
}

fn engine(strategy: Strategy, workers: u16, budgets: &[i64]) -> Engine {
    let options = EngineOptions { workers, tick_ms: STEP_S * 1_000, ..EngineOptions::default() };
    let campaigns = (1..).zip(budgets).map(|(id, limit)| campaign(id, *limit, strategy)).collect();
    Engine::new(options, campaigns, START_MS).unwrap()
}

fn player(strategy: Strategy, workers: u16, budgets: &[i64]) -> Player {
    let engine = engine(strategy, workers, budgets);
    Player { engine, workers, holds: BTreeMap::new(), restarts: Vec::new(), late: 0 }
}

impl Player {
    fn book(&mut self, notice: &Notice) {
        let (worker, hold) = self.holds[&notice.request];
        let verdict = match notice.paid {
            Some(paid) => self.engine.settle(worker, &hold, paid),
            None => self.engine.release(worker, &hold),
        };
        self.late += usize::from(matches!(verdict, Verdict::SettledLate | Verdict::SettledOver));
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let worker = u16::try_from(table::spread(!request.id) % u64::from(self.workers)).unwrap();
        let mut best: Answer = None;
        for (campaign, value) in &request.eligible {
            let Some(bid) = self.engine.bid(worker, *campaign, request.id, *value) else {
                continue;
            };
            let better = best.is_none_or(|(_, best)| bid > best);
            if better && self.engine.able(worker, *campaign, bid) {
                best = Some((*campaign, bid));
            }
        }
        let (campaign, bid) = best?;
        let hold = self.engine.reserve(worker, campaign, bid).expect("who is able can reserve");
        self.holds.insert(request.id, (worker, hold));
        best
    }
}

impl Bidder for Player {
    fn batch(&mut self, second: u64, notices: &[Notice], requests: &[Request]) -> Vec<Answer> {
        self.engine.advance(START_MS + second * 1_000);
        if self.restarts.contains(&second) {
            self.engine.restart();
        }
        notices.iter().for_each(|notice| self.book(notice));
        self.engine.refresh();
        let answers = requests.iter().map(|request| self.answer(request)).collect();
        if second.is_multiple_of(3_600) {
            self.engine.audit().unwrap();
        }
        answers
    }

    fn reconcile(&mut self, until_s: u64, billed: &[Notice]) {
        billed.iter().for_each(|notice| self.book(notice));
        self.engine.reconcile(START_MS + until_s * 1_000);
    }
}

/// Some have plenty, some little, one nothing but for three bids.
const BUDGETS: [i64; 4] = [3_000_000, 900_000, 200_000, 3_000];

fn share_spent(seen: &crate::engine_market::Seen, campaign: usize) -> i64 {
    seen.spent[campaign] * 1_000 / BUDGETS[campaign]
}

#[test]
fn budgets_are_spent_on_the_plan_and_never_more() {
    for strategy in Strategy::ALL {
        let mut player = player(strategy, 1, &BUDGETS);
        let seen = Market::new(7, BAD, &BUDGETS).run(&mut player);
        assert!(share_spent(&seen, 1) >= 950, "{strategy}: {:?}", seen.spent);
        assert!(share_spent(&seen, 2) >= 950, "{strategy}: {:?}", seen.spent);
        assert_eq!(player.late, 0, "{strategy}: nothing is spent outside of a hold");
    }
}

#[test]
fn the_plan_is_followed_through_the_day() {
    let mut market = Market::new(3, RELIABLE, &BUDGETS);
    market.seconds = DAY_MS / 2_000;
    let mut player = player(Strategy::Curve, 2, &BUDGETS);
    let seen = market.run(&mut player);
    for campaign in [1, 2] {
        let progress = player.engine.progress(campaign).unwrap();
        let index = progress.index_ppm.unwrap();
        assert!(
            (970_000..1_030_000).contains(&index),
            "campaign {campaign}: {index} {:?}",
            seen.spent
        );
        assert!(player.engine.multiplier_q32(campaign) < 1 << 32);
    }
}

#[test]
fn forgotten_bids_stay_held_until_they_are_reconciled() {
    let mut engine = engine(Strategy::Asap, 1, &[10_000]);
    engine.tick(START_MS + 1_000);
    for id in 0..10 {
        assert_eq!(engine.bid(0, 0, id, 1_000), Some(1_000));
        assert!(engine.reserve(0, 0, 1_000).is_some());
    }
    assert!(!engine.able(0, 0, 1) && engine.reserve(0, 0, 1).is_none(), "nothing is left");
    for second in 2..300 {
        engine.tick(START_MS + second * 1_000);
    }
    let line = |engine: &Engine, line| engine.books(0).line(line).get();
    assert_eq!((line(&engine, Line::Expired), line(&engine, Line::Purses)), (10_000, 0));
    assert!(!engine.able(0, 0, 1));
    engine.reconcile(START_MS + 999);
    assert!(!engine.able(0, 0, 1), "they were made later");
    engine.reconcile(START_MS + 20_000);
    assert_eq!(line(&engine, Line::Free), 10_000);
    assert!(engine.able(0, 0, 10_000));
    engine.audit().unwrap();
}

#[test]
fn notices_are_booked_once_and_late_ones_within_the_hold() {
    let mut engine = engine(Strategy::Asap, 4, &[10_000]);
    engine.tick(START_MS + 1_000);
    let hold = engine.reserve(3, 0, 1_000).unwrap();
    let lost = engine.reserve(2, 0, 500).unwrap();
    for second in (10..10_000).step_by(10) {
        engine.tick(START_MS + second * 1_000);
    }
    assert_eq!(engine.settle(3, &hold, 700), Verdict::Settled);
    assert_eq!(engine.settle(3, &hold, 900), Verdict::Settled, "the first answer again");
    assert_eq!(engine.release(3, &hold), Verdict::AlreadySettled);
    assert_eq!(engine.release(2, &lost), Verdict::Released);
    assert_eq!(engine.settled(0), 700);
    assert_eq!(engine.books(0).line(Line::Free).get(), 9_300);
    let confirmed = engine.reserve(0, 0, 300).unwrap();
    assert_eq!(engine.confirm(0, &confirmed), Verdict::Confirmed);
    assert_eq!(engine.books(0).line(Line::Held).get(), 300);
    assert_eq!(engine.settle(0, &confirmed, 300), Verdict::Settled);
}

#[test]
fn what_tolerance_allows_can_be_reserved() {
    let mut campaign = campaign(1, 10_000, Strategy::Asap);
    campaign.tolerance_ppm = 100_000;
    let mut engine = Engine::new(EngineOptions::default(), vec![campaign], START_MS).unwrap();
    engine.tick(START_MS + 1_000);
    let holds: Vec<Hold> = (0..10).map(|_| engine.reserve(0, 0, 1_000).unwrap()).collect();
    for second in (10..300).step_by(10) {
        engine.tick(START_MS + second * 1_000);
    }
    assert!(!engine.able(0, 0, 1), "nothing is known of what such bids come to");
    // Half of one expired bid was spent, and nothing of another: three quarters are presumed unspent, a tenth of the
    // limit is tolerated.
    assert_eq!(engine.settle(0, &holds[0], 500), Verdict::Settled);
    assert_eq!(engine.release(0, &holds[1]), Verdict::Released);
    assert!(engine.able(0, 0, 2_500) && !engine.able(0, 0, 2_501));
    assert!(engine.reserve(0, 0, 2_500).is_some());
    assert!(engine.reserve(0, 0, 1).is_none());
    engine.audit().unwrap();
}

#[test]
fn where_wins_are_told_in_time_silence_frees_the_money() {
    let options = EngineOptions { win_notices: true, hold_ms: 2_000, ..EngineOptions::default() };
    let campaigns = vec![campaign(1, 1_000, Strategy::Asap)];
    let mut engine = Engine::new(options, campaigns, START_MS).unwrap();
    engine.tick(START_MS + 1_000);
    let hold = engine.reserve(0, 0, 1_000).unwrap();
    assert!(!engine.able(0, 0, 1));
    for second in 2..6 {
        engine.tick(START_MS + second * 1_000);
    }
    assert!(engine.able(0, 0, 1_000));
    assert_eq!(engine.settle(0, &hold, 400), Verdict::SettledLate, "a debt");
    assert_eq!(engine.books(0).line(Line::Free).get(), 600);
    engine.audit().unwrap();
}

#[test]
fn at_midnight_holds_stay_and_purses_stay_empty() {
    let mut two_days = campaign(1, 10_000, Strategy::Asap);
    two_days.day.end = Instant::from_ms(START_MS + 2 * DAY_MS);
    two_days.plan.flight = two_days.day;
    let options = EngineOptions { workers: 2, ..EngineOptions::default() };
    let mut engine = Engine::new(options, vec![two_days], START_MS).unwrap();
    engine.tick(START_MS + DAY_MS - 20_000);
    let holds = [0, 1].map(|worker| engine.reserve(worker, 0, 400).unwrap());
    engine.tick(START_MS + DAY_MS + 1_000);
    let line = |engine: &Engine, line| engine.books(0).line(line).get();
    assert_eq!(line(&engine, Line::Purses), 800, "what is held, and nothing beside it");
    assert_eq!(engine.settle(0, &holds[0], 300), Verdict::Settled);
    assert!(engine.able(1, 0, 9_300) && !engine.able(1, 0, 9_301));
    engine.tick(START_MS + DAY_MS + 200_000);
    assert_eq!((line(&engine, Line::Purses), line(&engine, Line::Expired)), (0, 400));
    engine.audit().unwrap();
}

#[test]
fn outside_its_flight_nobody_bids() {
    let mut engine = engine(Strategy::Curve, 1, &[1_000_000]);
    engine.tick(START_MS + DAY_MS + 1_000);
    assert_eq!(engine.bid(0, 0, 1, 1_000).and_then(|bid| engine.reserve(0, 0, bid)), None);
    engine.audit().unwrap();
}

#[test]
fn what_cannot_be_is_refused() {
    let ask = |options, campaigns| Engine::new(options, campaigns, START_MS).err().unwrap();
    let plain = EngineOptions::default;
    let workers = ask(EngineOptions { workers: 17, ..plain() }, Vec::new());
    assert_eq!(workers.to_string(), "17 workers, expected 1 to 16");
    let time = ask(EngineOptions { hold_ms: 0, ..plain() }, Vec::new());
    assert_eq!(time.to_string(), "hold_ms is 0 ms, expected 1 to 86400000");
    let twice = vec![campaign(1, 1, Strategy::Asap), campaign(1, 1, Strategy::Asap)];
    assert!(matches!(ask(plain(), twice), EngineError::Budget(_)));
    let mut steep = campaign(5, 1, Strategy::Curve);
    steep.plan.gain = 7;
    assert!(ask(plain(), vec![steep]).to_string().starts_with("campaign 5: "));
}

fn mail() -> impl Strategy_<Value = Mail> {
    (0_u64..30_000, 0_u64..200_000, 0_u64..200_000, any::<bool>()).prop_map(
        |(late_s_max, lost_ppm, repeated_ppm, losses)| Mail {
            late_s_max,
            lost_ppm,
            repeated_ppm,
            losses,
        },
    )
}

use proptest::strategy::Strategy as Strategy_;

fn strategy() -> impl Strategy_<Value = Strategy> {
    (0..Strategy::ALL.len()).prop_map(|index| Strategy::ALL[index])
}

/// A third of a day, so that many of them can be tried.
fn part(seed: u64, mail: Mail) -> Market {
    Market { seconds: DAY_MS / 3_000, ..Market::new(seed, mail, &BUDGETS) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The market asserts it at every batch.
    #[test]
    fn nothing_is_ever_overspent(seed: u64, mail in mail(), strategy in strategy(), workers in 1_u16..=16,
                                 first_price: bool, reconciled: bool,
                                 restarts in prop::collection::vec(0_u64..1_440, 0..4)) {
        let mut market = Market { first_price, ..part(seed, mail) };
        market.reconcile_s = if reconciled { 900 } else { 0 };
        let mut player = player(strategy, workers, &BUDGETS);
        player.restarts = restarts.into_iter().map(|step| step * STEP_S).collect();
        market.run(&mut player);
        player.engine.audit().unwrap();
        prop_assert_eq!(player.late, 0);
    }

    #[test]
    fn answers_do_not_depend_on_how_many_workers_there_are(seed: u64, mail in mail(), strategy in strategy(),
                                                           workers in 2_u16..=16) {
        let one = part(seed, mail).run(&mut player(strategy, 1, &BUDGETS));
        let more = part(seed, mail).run(&mut player(strategy, workers, &BUDGETS));
        prop_assert!(one == more);
    }

    #[test]
    fn answers_do_not_depend_on_the_order_of_notices(seed: u64, mail in mail(), strategy in strategy(), order: u64) {
        let straight = part(seed, mail).run(&mut player(strategy, 2, &BUDGETS));
        let shuffled = Market { shuffle: Some(order), ..part(seed, mail) };
        prop_assert!(straight == shuffled.run(&mut player(strategy, 2, &BUDGETS)));
    }

    /// Where every bid is heard of before it expires. `steer` measures what a restart forgets.
    #[test]
    fn answers_do_not_depend_on_restarts(seed: u64, strategy in strategy(), workers in 1_u16..=4,
                                         restarts in prop::collection::vec(0_u64..1_440, 1..6)) {
        prop_assume!(!strategy.steers());
        let through = part(seed, RELIABLE).run(&mut player(strategy, workers, &BUDGETS));
        let mut killed = player(strategy, workers, &BUDGETS);
        killed.restarts = restarts.into_iter().map(|step| step * STEP_S).collect();
        prop_assert!(through == part(seed, RELIABLE).run(&mut killed));
    }
}

/// Where bids are not heard of, a restart keeps them open for up to two minutes more, and so changes bids a little.
#[test]
fn with_lost_notices_a_restart_changes_next_to_nothing() {
    restarts_change_little(Strategy::Curve, 5);
    // It also forgets how much more traffic there was than was forecast, and how much dearer it was.
    restarts_change_little(Strategy::Steer, 20);
}

/// By so many thousandths of the budgets.
fn restarts_change_little(strategy: Strategy, change_max: i64) {
    let through = Market::new(11, BAD, &BUDGETS).run(&mut player(strategy, 1, &BUDGETS));
    let mut killed = player(strategy, 1, &BUDGETS);
    killed.restarts = (1..24).map(|hour| hour * 3_600).collect();
    let restarted = Market::new(11, BAD, &BUDGETS).run(&mut killed);
    // The last one has money for three bids: one bid more or less says nothing.
    for (campaign, (a, b)) in through.spent.iter().zip(&restarted.spent).enumerate().take(3) {
        let change = (a - b).abs() * 1_000 / BUDGETS[campaign];
        assert!(change <= change_max, "{strategy}, campaign {campaign}: {a} against {b}");
    }
}
