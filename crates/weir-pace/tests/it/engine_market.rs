//! A small outside simulator: it asks for bids, auctions them against others, and sends notices that may be late, lost
//! or repeated. It keeps its own books of what was really spent.

use std::collections::BTreeMap;

use table::SplitMix64;

/// Seconds between two batches.
pub(crate) const STEP_S: u64 = 20;

/// A seed replays exactly.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// 0 ..= max
    pub(crate) fn upto(&mut self, max: u64) -> u64 {
        self.next() % (max + 1)
    }

    /// `from ..= to`
    pub(crate) fn between(&mut self, from: i64, to: i64) -> i64 {
        from + i64::try_from(self.upto(u64::try_from(to - from).unwrap())).unwrap()
    }

    pub(crate) fn chance(&mut self, ppm: u64) -> bool {
        self.upto(999_999) < ppm
    }
}

/// What happens to notices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mail {
    /// By up to this, seconds.
    pub late_s_max: u64,
    pub lost_ppm: u64,
    pub repeated_ppm: u64,
    /// Losses are told.
    pub losses: bool,
}

/// Every notice comes, within a minute.
pub(crate) const RELIABLE: Mail =
    Mail { late_s_max: 60, lost_ppm: 0, repeated_ppm: 0, losses: true };
/// Some are lost, some come twice, some hours late.
pub(crate) const BAD: Mail =
    Mail { late_s_max: 20_000, lost_ppm: 50_000, repeated_ppm: 50_000, losses: true };

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub id: u64,
    /// Campaign, value.
    pub eligible: Vec<(usize, i64)>,
    /// The highest outside bid.
    price: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Notice {
    pub request: u64,
    pub campaign: usize,
    /// `None`: lost.
    pub paid: Option<i64>,
}

/// Campaign and bid.
pub(crate) type Answer = Option<(usize, i64)>;

/// Who bids: gets the second, the notices and the requests, and answers each request.
pub(crate) trait Bidder {
    fn batch(&mut self, second: u64, notices: &[Notice], requests: &[Request]) -> Vec<Answer>;
    /// Of everything decided up to this second, these were billed and nothing else.
    fn reconcile(&mut self, until_s: u64, billed: &[Notice]);
}

/// A day, or a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    pub(crate) rng: Rng,
    pub mail: Mail,
    pub budgets: Vec<i64>,
    pub seconds: u64,
    pub requests_a_step: u64,
    /// A billing file every so many seconds, complete up to ten minutes before; 0: never.
    pub reconcile_s: u64,
    /// First price: the winner pays its bid.
    pub first_price: bool,
    /// Notices of a batch come in another order.
    pub shuffle: Option<u64>,
}

/// What the market has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub answers: Vec<Answer>,
    /// What each campaign really spent.
    pub spent: Vec<i64>,
}

impl Market {
    pub(crate) fn new(seed: u64, mail: Mail, budgets: &[i64]) -> Market {
        Market {
            rng: Rng::new(seed),
            mail,
            budgets: budgets.to_vec(),
            seconds: 86_400,
            requests_a_step: 3,
            reconcile_s: 900,
            first_price: false,
            shuffle: None,
        }
    }

    pub(crate) fn run(mut self, bidder: &mut impl Bidder) -> Seen {
        let mut seen = Seen { answers: Vec::new(), spent: vec![0; self.budgets.len()] };
        let mut post: BTreeMap<u64, Vec<Notice>> = BTreeMap::new();
        // Decided at, and what it cost.
        let mut bills: BTreeMap<u64, Vec<Notice>> = BTreeMap::new();
        let mut order = self.shuffle.map(Rng::new);
        for second in (0..self.seconds).step_by(usize::try_from(STEP_S).unwrap()) {
            let later = post.split_off(&(second + 1));
            let mut notices: Vec<Notice> =
                std::mem::replace(&mut post, later).into_values().flatten().collect();
            if let Some(order) = &mut order {
                notices.sort_by_cached_key(|_| order.next());
            }
            let requests: Vec<Request> =
                (0..self.requests_a_step).map(|_| self.request()).collect();
            let answers = bidder.batch(second, &notices, &requests);
            assert_eq!(answers.len(), requests.len());
            for (request, answer) in requests.iter().zip(&answers) {
                let Some((campaign, bid)) = *answer else { continue };
                let value = request.eligible.iter().find(|(eligible, _)| *eligible == campaign);
                assert!((1..=value.unwrap().1).contains(&bid), "{request:?}: {answer:?}");
                let won = bid >= request.price;
                let cost = if self.first_price { bid } else { request.price };
                let notice = Notice { request: request.id, campaign, paid: won.then_some(cost) };
                if won {
                    seen.spent[campaign] += cost;
                    bills.entry(second).or_default().push(notice);
                }
                self.send(second, notice, &mut post);
            }
            seen.answers.extend(answers);
            for (spent, budget) in seen.spent.iter().zip(&self.budgets) {
                assert!(spent <= budget, "second {second}: {:?} of {:?}", seen.spent, self.budgets);
            }
            if self.reconcile_s > 0 && second % self.reconcile_s == 0 && second >= 600 {
                let open = bills.split_off(&(second - 600 + 1));
                let billed: Vec<Notice> =
                    std::mem::replace(&mut bills, open).into_values().flatten().collect();
                bidder.reconcile(second - 600, &billed);
            }
        }
        seen
    }

    fn request(&mut self) -> Request {
        let id = self.rng.next();
        let mut eligible = Vec::new();
        for campaign in 0..self.budgets.len() {
            if self.rng.chance(400_000) {
                // Two draws: the middle is likelier than the ends.
                eligible
                    .push((campaign, self.rng.between(200, 1_500) + self.rng.between(0, 1_500)));
            }
        }
        Request { id, eligible, price: self.rng.between(50, 900) + self.rng.between(0, 900) }
    }

    fn send(&mut self, second: u64, notice: Notice, post: &mut BTreeMap<u64, Vec<Notice>>) {
        let lost = self.rng.chance(self.mail.lost_ppm);
        let twice = self.rng.chance(self.mail.repeated_ppm);
        for copy in 0..2 {
            let arrives = second + STEP_S + self.rng.upto(self.mail.late_s_max);
            let told = notice.paid.is_some() || self.mail.losses;
            if !lost && told && (copy == 0 || twice) {
                post.entry(arrives).or_default().push(notice);
            }
        }
    }
}
