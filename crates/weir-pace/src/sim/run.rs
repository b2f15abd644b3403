//! One strategy on one day: our own auction, the outside market, holds, and word of wins and losses that comes late,
//! twice or never.
//!
//! # What happens in a second
//! 1. Notices that are due are delivered, then a billing file if one is due, then a restart; the bidder ticks.
//! 2. Each request that is answered goes to the worker of its id. Every eligible campaign is asked for its bid, and who
//!    cannot reserve it is left out. The best offer (ties: by a hash of request and campaign) is reserved and meets
//!    the outside bid. What it pays is **spent from this moment on**, whoever hears of it when.
//! 3. A notice of the win or loss is posted.
//!
//! A billing file lists every bid decided since the last one up to `reconcile_after_s` ago, as billed or not billed, and
//! is complete up to there.
//!
//! After the last second of the day the loop goes on, without requests, until the last notice and the last billing file
//! have come. The same seed of the day gives the same delays and losses to every strategy that bids the same.

use gate_auction::Rank;
use table::SplitMix64;

use super::day::{Auction, Day, DayRequest, MINUTES, Notices, SECONDS};

/// What bids in a run: the engine with the real ledger, or a simple one to compare it with.
pub trait Bidder {
    /// What a reservation is known by.
    type Hold: Copy;

    /// A second begins. Never called with an earlier time than before.
    fn tick(&mut self, now_ms: u64);
    /// What a campaign bids for an impression worth `value` to it; `None` if it sits this one out.
    fn bid(&mut self, worker: u16, campaign: usize, request: u64, value: i64) -> Option<i64>;
    /// The larger the better an offer is: of what the impression is worth to a campaign and of its bid.
    fn score(&self, value: i64, bid: i64) -> u64;
    /// Whether it could reserve this amount now.
    fn able(&mut self, worker: u16, campaign: usize, amount: i64) -> bool;
    /// Sets the amount aside.
    fn reserve(&mut self, worker: u16, campaign: usize, amount: i64) -> Option<Self::Hold>;
    /// The bid was won at this price; may be told again.
    fn settle(&mut self, worker: u16, campaign: usize, hold: &Self::Hold, price: i64);
    /// The bid was lost; may be told again.
    fn release(&mut self, worker: u16, campaign: usize, hold: &Self::Hold);
    /// Everything billed of what was decided up to and including this instant has been told.
    fn reconcile(&mut self, decided_until_ms: u64);
    /// The process is killed and starts again.
    fn restart(&mut self);
    /// What the books say that the campaign has paid.
    fn booked(&self, campaign: usize) -> i64;
}

/// One multiplier a campaign for the whole day, and a budget that is known to the last bid: what strategies are
/// compared with. Run it with [`Fixed::NOTICES`].
#[derive(Clone, Debug)]
pub struct Fixed {
    rank: Rank,
    multipliers: Vec<f64>,
    left: Vec<i64>,
    paid: Vec<i64>,
}

impl Fixed {
    /// Every notice comes at once, so that nothing is held.
    pub const NOTICES: Notices = Notices {
        late_s_max: 0,
        lost_ppm: 0,
        repeated_ppm: 0,
        losses: true,
        reconcile_every_s: 0,
        reconcile_after_s: 0,
    };

    /// With these multipliers, 0 to 1, one per campaign.
    pub fn new(day: &Day, rank: Rank, multipliers: Vec<f64>) -> Fixed {
        let left = day.campaigns.iter().map(|campaign| campaign.budget).collect();
        Fixed { rank, multipliers, left, paid: vec![0; day.campaigns.len()] }
    }
}

impl Bidder for Fixed {
    type Hold = ();

    fn tick(&mut self, _now_ms: u64) {}

    fn bid(&mut self, _worker: u16, campaign: usize, _request: u64, value: i64) -> Option<i64> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a bid of up to 2^53 micros; rounded down, and never above the value"
        )]
        let bid = (value as f64 * self.multipliers[campaign]) as i64;
        Some(bid.clamp(1, value))
    }

    fn score(&self, value: i64, bid: i64) -> u64 {
        self.rank.score(value, bid)
    }

    fn able(&mut self, _worker: u16, campaign: usize, amount: i64) -> bool {
        amount <= self.left[campaign]
    }

    fn reserve(&mut self, worker: u16, campaign: usize, amount: i64) -> Option<()> {
        self.able(worker, campaign, amount).then_some(())
    }

    fn settle(&mut self, _worker: u16, campaign: usize, (): &(), price: i64) {
        self.left[campaign] -= price;
        self.paid[campaign] += price;
    }

    fn release(&mut self, _worker: u16, _campaign: usize, (): &()) {}

    fn reconcile(&mut self, _decided_until_ms: u64) {}

    fn restart(&mut self) {}

    fn booked(&self, campaign: usize) -> i64 {
        self.paid[campaign]
    }
}

/// What became of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// A row a campaign.
    pub campaigns: Vec<CampaignRun>,
    /// Bids that met the outside market.
    pub bids: u64,
    /// Bids won.
    pub wins: u64,
}

impl Run {
    /// Truly spent by all campaigns, micros.
    pub fn spent(&self) -> i64 {
        self.campaigns.iter().map(CampaignRun::total).sum()
    }

    /// Value won by all campaigns, micros.
    pub fn value(&self) -> i64 {
        self.campaigns.iter().map(|row| row.value).sum()
    }
}

/// What became of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CampaignRun {
    /// Truly spent from midnight up to each minute, micros: [`MINUTES`] + 1 points, the first 0.
    pub spent: Vec<i64>,
    /// Value of what it won, micros.
    pub value: i64,
    /// What the books say in the end that it spent.
    pub booked: i64,
}

impl CampaignRun {
    /// Truly spent in the whole day.
    pub fn total(&self) -> i64 {
        self.spent.last().copied().unwrap_or(0)
    }
}

/// Runs a day through a bidder.
pub fn run<B: Bidder>(
    day: &Day,
    auction: Auction,
    notices: &Notices,
    workers: u16,
    bidder: &mut B,
) -> Run {
    let mut market = AuctionRun::new(day, auction, *notices, workers.max(1), bidder);
    let mut requests = day.requests.iter().peekable();
    let mut restarts = day.restarts.iter().peekable();
    for second in 0..=market.last_second() {
        market.deliver(second);
        if let Some(until) = market.billed_until(second) {
            market.bill(until);
        }
        if restarts.next_if(|&&at| at <= second).is_some() {
            market.bidder.restart();
        }
        market.bidder.tick(day.start_ms + u64::from(second) * 1000);
        while let Some(request) = requests.next_if(|request| request.at_ms / 1000 <= second) {
            if day.answers(request.at_ms) {
                market.auction(request);
            }
        }
    }
    market.finish()
}

/// A bid, the hash of request and campaign, the campaign, and what the request is worth to it.
type BestBid = (i64, u64, u16, i64);

/// A bid that met the outside market.
#[derive(Clone, Copy)]
struct Sent<H> {
    hold: H,
    /// What it pays; `None` if it lost.
    pays: Option<i64>,
    /// Hash of request and campaign: delays and losses of its notice come from it.
    hash: u64,
    campaign: u16,
    worker: u16,
    second: u32,
}

struct AuctionRun<'a, B: Bidder> {
    day: &'a Day,
    rules: Auction,
    notices: Notices,
    workers: u16,
    bidder: &'a mut B,
    /// In the order of their decisions.
    sent: Vec<Sent<B::Hold>>,
    /// Bids before this place were in a billing file.
    billed: usize,
    post: Post,
    run: Run,
}

impl<'a, B: Bidder> AuctionRun<'a, B> {
    fn new(
        day: &'a Day,
        rules: Auction,
        notices: Notices,
        workers: u16,
        bidder: &'a mut B,
    ) -> AuctionRun<'a, B> {
        let row = CampaignRun { spent: vec![0; MINUTES + 1], ..CampaignRun::default() };
        AuctionRun {
            day,
            rules,
            notices,
            workers,
            bidder,
            sent: Vec::with_capacity(day.requests.len()),
            billed: 0,
            post: Post::new(last_notice_second(&notices), day.requests.len()),
            run: Run { campaigns: vec![row; day.campaigns.len()], ..Run::default() },
        }
    }

    /// When the last notice and the last billing file have come.
    fn last_second(&self) -> u32 {
        let files = match self.notices.reconcile_every_s {
            0 => 0,
            every => SECONDS.div_ceil(every) * every + self.notices.reconcile_after_s,
        };
        files.max(last_notice_second(&self.notices))
    }

    fn worker(&self, request: u64) -> u16 {
        let worker = request % u64::from(self.workers);
        u16::try_from(worker).unwrap_or(0)
    }

    fn auction(&mut self, request: &DayRequest) {
        let worker = self.worker(request.id);
        let mut best: Option<(u64, BestBid)> = None;
        for pair in self.day.eligible(request) {
            let campaign = usize::from(pair.campaign);
            let Some(bid) = self.bidder.bid(worker, campaign, request.id, pair.value) else {
                continue;
            };
            let score = self.bidder.score(pair.value, bid);
            let behind = best.is_some_and(|(highest, _)| score < highest);
            if behind || !self.bidder.able(worker, campaign, bid) {
                continue;
            }
            let hash = mix(request.id ^ mix(u64::from(pair.campaign)));
            if best.is_none_or(|(highest, (_, tie, ..))| (score, hash) > (highest, tie)) {
                best = Some((score, (bid, hash, pair.campaign, pair.value)));
            }
        }
        if let Some((_, best)) = best {
            self.send(request, worker, best);
        }
    }

    /// Reserves the bid and lets it meet the outside market.
    fn send(&mut self, request: &DayRequest, worker: u16, best: BestBid) {
        let (bid, hash, campaign, value) = best;
        let row = usize::from(campaign);
        let Some(hold) = self.bidder.reserve(worker, row, bid) else {
            return;
        };
        let pays = self.rules.pays(bid, request.price);
        self.run.bids += 1;
        if let Some(pays) = pays {
            self.run.wins += 1;
            let row = &mut self.run.campaigns[row];
            let minute = (request.at_ms / 60_000) as usize;
            row.spent[(minute + 1).min(MINUTES)] += pays;
            row.value += value;
        }
        let second = request.at_ms / 1000;
        self.sent.push(Sent { hold, pays, hash, campaign, worker, second });
        self.post_notice(self.sent.len() - 1);
    }

    fn post_notice(&mut self, place: usize) {
        let Sent { pays, hash, second, .. } = self.sent[place];
        if self.notices.late_s_max == 0 && self.notices.lost_ppm == 0 {
            return self.tell(place);
        }
        if pays.is_none() && !self.notices.losses {
            return;
        }
        let draw = |salt: u64, of: u32| below(mix(hash ^ salt), of);
        if draw(1, 1_000_000) < self.notices.lost_ppm {
            return;
        }
        // What is due in this second is delivered by now: the next one is the earliest.
        let first = second + 1 + draw(2, self.notices.late_s_max);
        self.post.add(first, place);
        if draw(3, 1_000_000) < self.notices.repeated_ppm {
            self.post.add(first + 1 + draw(4, self.notices.late_s_max), place);
        }
    }

    /// Tells what became of a bid.
    fn tell(&mut self, place: usize) {
        let Sent { hold, pays, campaign, worker, .. } = self.sent[place];
        match pays {
            Some(price) => self.bidder.settle(worker, campaign.into(), &hold, price),
            None => self.bidder.release(worker, campaign.into(), &hold),
        }
    }

    fn deliver(&mut self, second: u32) {
        while let Some(place) = self.post.next(second) {
            self.tell(place);
        }
    }

    /// The second of the day up to which a billing file is complete that comes now.
    fn billed_until(&self, second: u32) -> Option<u32> {
        let until = second.checked_sub(self.notices.reconcile_after_s)?;
        let due = until.checked_rem(self.notices.reconcile_every_s)? == 0;
        (due && until > 0).then_some(until)
    }

    fn bill(&mut self, until: u32) {
        while self.sent.get(self.billed).is_some_and(|sent| sent.second < until) {
            self.tell(self.billed);
            self.billed += 1;
        }
        // What is decided in that very second is not in the file.
        self.bidder.reconcile((self.day.start_ms + u64::from(until) * 1000).saturating_sub(1));
    }

    fn finish(mut self) -> Run {
        for (campaign, row) in self.run.campaigns.iter_mut().enumerate() {
            for minute in 1..row.spent.len() {
                row.spent[minute] += row.spent[minute - 1];
            }
            row.booked = self.bidder.booked(campaign);
        }
        self.run
    }
}

/// Notices by the second they are due in: chains through one table.
struct Post {
    /// First of each second's chain, by place in `letters`.
    due: Vec<u32>,
    /// (bid, next of the chain).
    letters: Vec<(u32, u32)>,
}

const NONE: u32 = u32::MAX;

impl Post {
    fn new(seconds: u32, letters: usize) -> Post {
        Post { due: vec![NONE; seconds as usize + 1], letters: Vec::with_capacity(letters) }
    }

    fn add(&mut self, second: u32, bid: usize) {
        // Fewer than the requests of a day, whose places are 32 bits wide.
        let place = |index| u32::try_from(index).unwrap_or(NONE);
        let due = &mut self.due[second as usize];
        self.letters.push((place(bid), *due));
        *due = place(self.letters.len() - 1);
    }

    /// Takes a notice out that is due in this second.
    fn next(&mut self, second: u32) -> Option<usize> {
        let due = self.due.get_mut(second as usize)?;
        let &(bid, next) = self.letters.get(*due as usize)?;
        *due = next;
        Some(bid as usize)
    }
}

/// When the last repeated notice can come.
fn last_notice_second(notices: &Notices) -> u32 {
    SECONDS + 2 * (notices.late_s_max + 1)
}

/// A number below `of`, evenly drawn by the hash; 0 below 1 and below 0.
fn below(hash: u64, of: u32) -> u32 {
    u32::try_from((u128::from(hash) * u128::from(of)) >> 64).unwrap_or(0)
}

/// The numbers of a request: hashes of its id.
fn mix(id: u64) -> u64 {
    SplitMix64::new(id).draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::day::{DayCampaign, Eligible};
    use std::collections::BTreeMap;

    /// Bids the value, has all the money, and remembers what it was told.
    #[derive(Default)]
    struct Diary {
        now_s: u64,
        holds: u64,
        /// When and how often each hold was told of, and with which price.
        told: BTreeMap<u64, Vec<(u64, Option<i64>)>>,
        files: Vec<(u64, u64)>,
        restarts: Vec<u64>,
        /// Campaigns that cannot reserve.
        poor: Vec<usize>,
    }

    impl Bidder for Diary {
        type Hold = u64;
        fn tick(&mut self, now_ms: u64) {
            self.now_s = now_ms / 1000;
        }
        fn bid(&mut self, _: u16, _: usize, _: u64, value: i64) -> Option<i64> {
            (value != 13).then_some(value)
        }
        fn score(&self, value: i64, bid: i64) -> u64 {
            Rank::Bid.score(value, bid)
        }

        fn able(&mut self, _: u16, campaign: usize, _: i64) -> bool {
            !self.poor.contains(&campaign)
        }
        fn reserve(&mut self, _: u16, _: usize, _: i64) -> Option<u64> {
            self.holds += 1;
            Some(self.holds)
        }
        fn settle(&mut self, _: u16, _: usize, hold: &u64, price: i64) {
            self.told.entry(*hold).or_default().push((self.now_s, Some(price)));
        }
        fn release(&mut self, _: u16, _: usize, hold: &u64) {
            self.told.entry(*hold).or_default().push((self.now_s, None));
        }
        fn reconcile(&mut self, decided_until_ms: u64) {
            self.files.push((self.now_s, decided_until_ms));
        }
        fn restart(&mut self) {
            self.restarts.push(self.now_s);
        }
        fn booked(&self, _: usize) -> i64 {
            let prices = self.told.values().filter_map(|told| told.first()?.1);
            prices.sum()
        }
    }

    /// One request every so many seconds, from each a price and the values of campaigns 0 and 1.
    fn day(every_s: u32, requests: &[(i64, [i64; 2])]) -> Day {
        let mut day = Day { campaigns: vec![DayCampaign::default(); 2], ..Day::default() };
        for (at, &(price, values)) in (0..).zip(requests) {
            let first = u32::try_from(day.eligible.len()).unwrap();
            let pairs = (0..).zip(values).filter(|(_, value)| *value > 0);
            day.eligible.extend(pairs.map(|(campaign, value)| Eligible { campaign, value }));
            let count = u16::try_from(day.eligible.len()).unwrap() - u16::try_from(first).unwrap();
            let (id, at_ms) = (mix(u64::from(at)), at * every_s * 1000);
            day.requests.push(DayRequest { id, at_ms, first, count, price });
        }
        day
    }

    const NONE_LOST: Notices = Notices {
        late_s_max: 30,
        lost_ppm: 0,
        repeated_ppm: 0,
        losses: true,
        reconcile_every_s: 0,
        reconcile_after_s: 0,
    };

    #[test]
    fn the_highest_able_bid_meets_the_market() {
        let requests = [(10, [20, 30]), (25, [20, 30]), (40, [20, 30]), (5, [13, 7])];
        let mut diary = Diary { poor: vec![1], ..Diary::default() };
        let day = day(60, &requests);
        let run_with = |diary: &mut Diary, auction| run(&day, auction, &NONE_LOST, 3, diary);
        let poor = run_with(&mut diary, Auction::Second);
        assert_eq!((poor.bids, poor.wins), (3, 1), "20 wins at 10 and loses at 25 and 40");
        let second = run_with(&mut Diary::default(), Auction::Second);
        assert_eq!((second.bids, second.wins, second.spent()), (4, 3, 10 + 25 + 5));
        assert_eq!(second.value(), 30 + 30 + 7, "who does not bid is passed over");
        let first = run_with(&mut Diary::default(), Auction::First);
        assert_eq!((first.spent(), first.value()), (67, 67));
        let spent = &second.campaigns[1].spent;
        assert_eq!(spent[..5], [0, 10, 35, 35, 40]);
        assert_eq!((spent.len(), spent[MINUTES]), (MINUTES + 1, 40));
    }

    #[test]
    fn each_bid_is_told_of_once_and_in_time() {
        let mut diary = Diary::default();
        let run = run(&day(7, &[(10, [20, 5]); 500]), Auction::Second, &NONE_LOST, 2, &mut diary);
        assert_eq!((run.bids, diary.told.len()), (500, 500));
        let mut delays = Vec::new();
        for (hold, told) in &diary.told {
            let [(at_s, Some(10))] = told[..] else { panic!("{told:?}") };
            delays.push(at_s + 1 - (hold - 1) * 7);
        }
        // Told before the second ticks, so the diary's clock is one behind.
        assert_eq!((delays.iter().min(), delays.iter().max()), (Some(&1), Some(&30)));
    }

    #[test]
    fn notices_are_lost_and_repeated_as_often_as_said() {
        let notices = Notices { lost_ppm: 200_000, repeated_ppm: 100_000, ..NONE_LOST };
        let mut diary = Diary::default();
        run(&day(3, &[(10, [20, 5]); 4000]), Auction::Second, &notices, 2, &mut diary);
        let heard = diary.told.len();
        let twice = diary.told.values().filter(|told| told.len() == 2).count();
        assert!((3100..3300).contains(&heard), "{heard} of 4000");
        assert!((250..390).contains(&twice), "{twice} of {heard}");
    }

    #[test]
    fn a_silent_exchange_tells_only_wins() {
        let notices = Notices { losses: false, ..NONE_LOST };
        let mut diary = Diary::default();
        run(&day(3, &[(10, [20, 5]), (30, [20, 5])]), Auction::Second, &notices, 2, &mut diary);
        assert_eq!(
            diary.told.into_values().flatten().map(|told| told.1).collect::<Vec<_>>(),
            [Some(10)]
        );
    }

    #[test]
    fn billing_files_tell_of_every_bid_whatever_was_lost() {
        let notices = Notices {
            lost_ppm: 1_000_000,
            reconcile_every_s: 3600,
            reconcile_after_s: 600,
            ..NONE_LOST
        };
        let requests: Vec<_> =
            (0..280).map(|r| (if r % 2 == 0 { 10 } else { 30 }, [20, 5])).collect();
        let mut diary = Diary::default();
        let run = run(&day(300, &requests), Auction::Second, &notices, 2, &mut diary);
        assert_eq!(diary.told.len(), 280);
        for (hold, told) in &diary.told {
            let decided_s = (hold - 1) * 300;
            let file_s = (decided_s / 3600 + 1) * 3600 + 600;
            let price = (hold % 2 == 1).then_some(10);
            assert_eq!(told[..], [(file_s - 1, price)], "hold {hold}");
        }
        assert_eq!(diary.files.len(), 24);
        assert_eq!(diary.files[0], (4199, 3_599_999));
        assert_eq!(diary.files[23], (86_999, 86_399_999), "the last one comes after the day");
        assert_eq!(run.campaigns[0].booked, run.campaigns[0].total());
    }

    #[test]
    fn an_outage_answers_nothing_and_restarts_come_when_said() {
        let mut day = day(100, &[(10, [20, 5]); 100]);
        day.outages = vec![(1000, 2000)];
        day.restarts = vec![3600, 7200];
        let mut diary = Diary::default();
        let run = run(&day, Auction::Second, &NONE_LOST, 2, &mut diary);
        assert_eq!(run.bids, 90);
        assert_eq!(diary.restarts, [3599, 7199], "before the second ticks");
    }

    #[test]
    fn fixed_multipliers_stop_at_the_budget() {
        let mut day = day(100, &[(10, [40, 0]); 100]);
        day.campaigns[0].budget = 105;
        let mut fixed = Fixed::new(&day, Rank::Bid, vec![0.5, 1.0]);
        let run = run(&day, Auction::Second, &Fixed::NOTICES, 1, &mut fixed);
        // A bid of 20 must be there in full, though only 10 is paid.
        assert_eq!((run.wins, run.spent(), run.campaigns[0].booked), (9, 90, 90));
    }
}
