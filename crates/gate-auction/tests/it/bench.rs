//! The auction alone, beside asking every candidate, and beside compressed bitmaps. Small here, so that it cannot rot;
//! the example `auction_bench` runs it at full size.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use gate_auction::{
    BidContext, Bidder, Campaign, Choice, Counters, Dimension, Index, Price, Reason, Request,
    Scratch,
};
use roaring::RoaringBitmap;

use crate::generator::{Body, Dice, LARGE, campaigns, currency};

#[test]
fn the_benchmark_runs() {
    let report = run(300, 50, 1);
    assert!(report.contains("auctions/s") && report.contains("roaring"), "{report}");
}

/// Runs everything in turns and says how it went: medians of `rounds`.
pub(crate) fn run(count: u64, requests: usize, rounds: usize) -> String {
    let all = campaigns(count, LARGE, 42);
    let started = Instant::now();
    let index = Index::build(currency("USD"), &all, 1).unwrap();
    let build_ms = started.elapsed().as_millis();
    let mut dice = Dice::new(43);
    let bodies: Vec<Body> = (0..requests).map(|_| Body::new(LARGE, &mut dice)).collect();
    let rival = Rival::new(&index, &all);
    // The slow ones see fewer requests, so that rounds stay short and close together.
    let few = &bodies[..requests.div_ceil(20)];

    let mut names = [
        ("auction, context that lets all through", Vec::new()),
        ("auction, context that looks up a table", Vec::new()),
        ("the same, 1 in 128 surveyed", Vec::new()),
        ("the same, 1 in 1,024 surveyed", Vec::new()),
        ("survey alone", Vec::new()),
        ("every candidate asked, no early stop", Vec::new()),
        ("joining alone, roaring bitmaps", Vec::new()),
    ];
    let mut context = TableDesk::new(&index);
    let mut counters = Counters::new(index.ids().len());
    let mut sum = Sum::default();
    for _ in 0..rounds {
        sum = Sum::default();
        let figures = [
            auctions(&index, &bodies, &mut (), &mut sum),
            auctions(&index, &bodies, &mut context, &mut Sum::default()),
            with_surveys(&index, &bodies, &mut context, &mut counters, 128),
            with_surveys(&index, &bodies, &mut context, &mut counters, 1_024),
            surveys(&index, few, &context, &mut counters),
            surveys(&index, few, &(), &mut ()),
            rival.run(few),
        ];
        names.iter_mut().zip(figures).for_each(|((_, all), ns)| all.push(ns));
    }
    let mut report = format!(
        "{count} campaigns, {requests} requests, {} impressions; built in {build_ms} ms; medians of {rounds}\n",
        sum.impressions,
    );
    for (name, figures) in &names {
        let ns = typical(figures).max(1);
        let a_second = 1_000_000_000 / ns;
        writeln!(report, "{name:<38} {ns:>7} ns per request, {a_second:>8} auctions/s").unwrap();
    }
    let asked = asked(&index, &bodies);
    let impressions = sum.impressions.max(1);
    let tenth = |part: usize| format!("{}.{}", part / impressions, part * 10 / impressions % 10);
    writeln!(
        report,
        "an impression: {} blocks searched, {} campaigns looked at, {} asked for a price; {} % bid",
        tenth(sum.blocks_read),
        tenth(sum.looked_at),
        tenth(asked),
        sum.bids * 100 / impressions,
    )
    .unwrap();
    report
}

/// A context with a line a campaign, as a worker's purses have.
struct TableDesk(Vec<Purse>);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Purse {
    free_micros: i64,
    pace: u64,
}

impl TableDesk {
    fn new(index: &Index) -> TableDesk {
        let purse = |id: &u64| Purse { free_micros: 1 << 40, pace: id.wrapping_mul(0x9e37_79b9) };
        TableDesk(index.ids().iter().map(purse).collect())
    }
}

impl BidContext for TableDesk {
    fn price(&mut self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        self.peek_price(bidder, bid)
    }

    fn able(&mut self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        self.peek_able(bidder, bid)
    }

    fn hold(&mut self, choice: &Choice) -> Result<(), Reason> {
        self.0[choice.slot as usize].free_micros -= choice.price.micros() / 1_000;
        Ok(())
    }

    fn prefetch(&self, slot: u32) {
        self.0.get(slot as usize).into_iter().for_each(table::prefetch);
    }

    /// One in eight is paced.
    fn peek_price(&self, bidder: Bidder, bid: Price) -> Result<Price, Reason> {
        let pace = self.0[bidder.slot as usize].pace;
        if pace.is_multiple_of(8) { Err(Reason::Paced) } else { Ok(bid) }
    }

    fn peek_able(&self, bidder: Bidder, bid: Price) -> Result<(), Reason> {
        let free = self.0[bidder.slot as usize].free_micros;
        if free < bid.micros() / 1_000 { Err(Reason::Purse) } else { Ok(()) }
    }
}

#[derive(Default)]
struct Sum {
    impressions: usize,
    blocks_read: usize,
    looked_at: usize,
    bids: usize,
}

/// Nanoseconds of `work` for each request. Lending builds the request's lists: that is the generator's cost, so it is
/// not timed.
fn time(bodies: &[Body], mut work: impl FnMut(&Request<'_>)) -> Vec<u64> {
    let one = |body: &Body| {
        body.lend(|request| {
            let started = Instant::now();
            work(request);
            u64::try_from(started.elapsed().as_nanos()).unwrap()
        })
    };
    bodies.iter().map(one).collect()
}

/// Mean of the requests' medians: a round in which the machine did something else during a request does not count, and
/// what is dear for every request does.
fn typical(rounds: &[Vec<u64>]) -> u64 {
    let requests = rounds[0].len();
    let median = |at: usize| {
        let mut all: Vec<u64> = rounds.iter().map(|round| round[at]).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    (0..requests).map(median).sum::<u64>() / requests as u64
}

fn auctions(
    index: &Index,
    bodies: &[Body],
    context: &mut impl BidContext,
    sum: &mut Sum,
) -> Vec<u64> {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    time(bodies, |request| {
        let mut auction = index.auction(request, &mut scratch);
        auction.fill(context, &mut out);
        sum.looked_at += auction.looked_at();
        sum.blocks_read += auction.blocks_read();
        sum.bids += out.len();
        sum.impressions += request.impressions.len();
    })
}

fn with_surveys(
    index: &Index,
    bodies: &[Body],
    context: &mut impl BidContext,
    counters: &mut Counters,
    every: u64,
) -> Vec<u64> {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    time(bodies, |request| {
        index.auction(request, &mut scratch).fill(context, &mut out);
        if request.id_hash.is_multiple_of(every) {
            index.survey(request, &mut scratch, context, counters);
        }
    })
}

fn surveys(
    index: &Index,
    bodies: &[Body],
    context: &impl BidContext,
    tally: &mut impl gate_auction::Tally,
) -> Vec<u64> {
    let mut scratch = Scratch::default();
    time(bodies, |request| index.survey(request, &mut scratch, context, tally))
}

/// The number of candidates that are asked for a price.
fn asked(index: &Index, bodies: &[Body]) -> usize {
    struct Asked(usize);
    impl BidContext for Asked {
        fn price(&mut self, _: Bidder, bid: Price) -> Result<Price, Reason> {
            self.0 += 1;
            Ok(bid)
        }
    }
    let mut asked = Asked(0);
    auctions(index, bodies, &mut asked, &mut Sum::default());
    asked.0
}

/// Who wants a request, on compressed bitmaps: the plain way to write it, that builds a union for each dimension.
struct Rival {
    dimensions: Vec<RivalDimension>,
    everybody: RoaringBitmap,
}

#[derive(Default)]
struct RivalDimension {
    open: RoaringBitmap,
    any: BTreeMap<u32, RoaringBitmap>,
    none: BTreeMap<u32, RoaringBitmap>,
}

impl Rival {
    fn new(index: &Index, all: &[Campaign]) -> Rival {
        let by_id: BTreeMap<u64, &Campaign> = all.iter().map(|c| (c.id, c)).collect();
        let make = |dimension| {
            let mut made = RivalDimension::default();
            for (slot, id) in (0..).zip(index.ids()) {
                made.add(slot, by_id[id], dimension);
            }
            made
        };
        let everybody = (0..).take(index.ids().len()).collect();
        Rival { dimensions: Dimension::ALL.map(make).into(), everybody }
    }

    fn wanting(&self, request: &Request<'_>) -> RoaringBitmap {
        let mut wanting = self.everybody.clone();
        for (dimension, own) in Dimension::ALL.iter().zip(&self.dimensions) {
            let mut admitted = own.open.clone();
            for key in request.keys(*dimension) {
                if let Some(slots) = own.any.get(key) {
                    admitted |= slots;
                }
            }
            wanting &= admitted;
            for key in request.keys(*dimension) {
                if let Some(slots) = own.none.get(key) {
                    wanting -= slots;
                }
            }
        }
        wanting
    }

    fn run(&self, bodies: &[Body]) -> Vec<u64> {
        time(bodies, |request| {
            std::hint::black_box(self.wanting(request).len());
        })
    }
}

impl RivalDimension {
    fn add(&mut self, slot: u32, campaign: &Campaign, dimension: Dimension) {
        let lists = campaign.targeting.lists(dimension);
        if lists.any.is_empty() {
            self.open.insert(slot);
        }
        for &key in &lists.any {
            self.any.entry(key).or_default().insert(slot);
        }
        for &key in &lists.none {
            self.none.entry(key).or_default().insert(slot);
        }
    }
}
