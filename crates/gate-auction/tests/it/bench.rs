//! The auction alone, and the index on plain and on compressed bitmaps. Small here, so that it cannot rot; the example
//! `auction_bench` runs it at full size.

use std::collections::BTreeMap;
use std::time::Instant;

use gate_auction::{
    Bidder, Campaign, Counters, Desk, Dimension, Index, Price, Reason, Request, Scratch, Tally,
};
use roaring::RoaringBitmap;

use crate::generator::{Body, Dice, LARGE, campaigns, currency};

#[test]
fn the_benchmark_runs() {
    let report = run(300, 50, 1);
    assert!(report.contains("auctions/s") && report.contains("roaring"), "{report}");
}

/// Runs everything and says how it went. The best of `rounds`, because the machine is shared.
pub(crate) fn run(count: u64, requests: usize, rounds: u32) -> String {
    let all = campaigns(count, LARGE, 42);
    let started = Instant::now();
    let index = Index::build(currency("USD"), &all, 1).unwrap();
    let build_ms = started.elapsed().as_millis();
    let mut dice = Dice::new(43);
    let bodies: Vec<Body> = (0..requests).map(|_| Body::new(LARGE, &mut dice)).collect();

    let mut counters = Counters::new(index.ids().len());
    let (mut plain, mut counted) = (Sum::default(), Sum::default());
    for _ in 0..rounds {
        plain.keep_faster(auctions(&index, &bodies, &mut (), &mut ()));
        counted.keep_faster(auctions(&index, &bodies, &mut (), &mut counters));
    }
    let start = (0..rounds).map(|_| starts(&index, &bodies)).min().unwrap_or(0);

    let mut asked = Asked(0);
    auctions(&index, &bodies, &mut asked, &mut ());
    let rival = Rival::new(&index, &all);
    let (rival_ns, candidates) = (0..rounds.min(2)).map(|_| rival.run(&bodies)).min().unwrap();
    let per = |ns: u128| ns / requests as u128;
    format!(
        "{count} campaigns, {requests} requests, {} impressions; built in {build_ms} ms\n\
         auctions/s {} ({} ns a request), with why-not counters {} ({} ns)\n\
         an impression: {} candidates, {} meet the floor; {} % of impressions bid\n\
         joining nine dimensions: {} ns a request; roaring, same nine: {} ns a request ({} wanting a request)",
        plain.impressions,
        plain.a_second(requests),
        per(plain.ns),
        counted.a_second(requests),
        per(counted.ns),
        asked.0 / plain.impressions.max(1),
        plain.ranked / plain.impressions.max(1),
        plain.bids * 100 / plain.impressions.max(1),
        per(start),
        per(rival_ns),
        candidates / requests.max(1),
    )
}

/// Counts the candidates.
struct Asked(usize);

impl Desk for Asked {
    fn price(&mut self, _: Bidder, bid: Price) -> Result<Price, Reason> {
        self.0 += 1;
        Ok(bid)
    }
}

#[derive(Default)]
struct Sum {
    ns: u128,
    impressions: usize,
    ranked: usize,
    bids: usize,
}

impl Sum {
    fn keep_faster(&mut self, other: Sum) {
        if self.ns == 0 || other.ns < self.ns {
            *self = other;
        }
    }

    fn a_second(&self, requests: usize) -> u128 {
        requests as u128 * 1_000_000_000 / self.ns.max(1)
    }
}

fn auctions(index: &Index, bodies: &[Body], desk: &mut impl Desk, tally: &mut impl Tally) -> Sum {
    let (mut scratch, mut sum) = (Scratch::default(), Sum::default());
    for body in bodies {
        // Lending builds the request's lists: that is the generator's cost, not the auction's.
        body.lend(|request| {
            let started = Instant::now();
            let mut auction = index.auction(request, &mut scratch);
            for at in 0..request.impressions.len() {
                let chosen = auction.impression(at, desk, tally);
                auction.accept(tally);
                sum.bids += usize::from(chosen.is_some());
                sum.ranked += auction.ranked();
                sum.impressions += 1;
            }
            sum.ns += started.elapsed().as_nanos();
        });
    }
    sum
}

/// Nanoseconds of the part that the rival does too.
fn starts(index: &Index, bodies: &[Body]) -> u128 {
    let (mut scratch, mut ns) = (Scratch::default(), 0);
    for body in bodies {
        body.lend(|request| {
            let started = Instant::now();
            std::hint::black_box(index.auction(request, &mut scratch).ranked());
            ns += started.elapsed().as_nanos();
        });
    }
    ns
}

/// The same nine dimensions on compressed bitmaps.
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
    /// In the index's own order, so that both have the same neighbours to compress.
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

    /// Nanoseconds, and how many it found.
    fn run(&self, bodies: &[Body]) -> (u128, usize) {
        let (mut ns, mut found) = (0, 0_usize);
        for body in bodies {
            body.lend(|request| {
                let started = Instant::now();
                found += usize::try_from(self.wanting(request).len()).unwrap();
                ns += started.elapsed().as_nanos();
            });
        }
        (ns, found)
    }
}

impl RivalDimension {
    fn add(&mut self, slot: u32, campaign: &Campaign, dimension: Dimension) {
        let lists = campaign.targeting.lists(dimension);
        // As the index does: who demands all of some segments is entered under one of them.
        let all = &campaign.targeting.segments_all;
        let by_all = dimension == Dimension::Segments && lists.any.is_empty();
        let any = if by_all { &all[..all.len().min(1)] } else { &lists.any };
        if any.is_empty() {
            self.open.insert(slot);
        }
        for &key in any {
            self.any.entry(key).or_default().insert(slot);
        }
        for &key in &lists.none {
            self.none.entry(key).or_default().insert(slot);
        }
    }
}
