//! The auction core alone: requests that are read and translated already, beside asking every candidate.

use std::time::Instant;

use gate_auction::Scratch;
use openrtb::{ReadLimits, Reader};
use weir_budgets::budgets::Budget;
use weir_budgets::campaign_index::CampaignIndex;

use super::bidder::{Bidder, market};
use super::{Bodies, median};
use crate::Size;
use crate::daemon::folder_on_disk;
use crate::figures::{Case, interleave, rate};

/// The slow case sees one request in so many, so that rounds stay short.
const FEW: usize = 20;

/// Prints the table.
pub(super) fn run(size: Size, budgets: &[Budget], bodies: &Bodies) {
    println!("\n### the auction alone, on the translated requests\n");
    if let Err(error) = measure(size, budgets, bodies) {
        println!("NOT MEASURED: {error}");
    }
}

fn measure(size: Size, budgets: &[Budget], bodies: &Bodies) -> Result<(), String> {
    let folder = folder_on_disk()?;
    let market = market(budgets)?;
    let mut bidder = Bidder::new(&market, budgets, folder.path())?;
    let bidder = std::cell::RefCell::new(&mut bidder);
    let few: Vec<&[u8]> = bodies.list.iter().step_by(FEW).map(Vec::as_slice).collect();
    let all: Vec<&[u8]> = bodies.list.iter().map(Vec::as_slice).collect();
    let (mut scratch, mut choices) = (Scratch::default(), Vec::new());
    let (mut scratch_of_all, mut impressions, mut bids) = (Scratch::default(), 0, 0);
    let mut cases: Vec<Case<'_, f64>> = vec![
        Box::new(|| {
            Ok(timed(&mut bidder.borrow_mut(), &all, |keys, market| {
                market.index().auction(keys, &mut scratch).fill(&mut (), &mut choices);
                impressions += keys.impressions.len();
                bids += choices.len();
            }))
        }),
        Box::new(|| {
            Ok(timed(&mut bidder.borrow_mut(), &few, |keys, market| {
                market.index().survey(keys, &mut scratch_of_all, &(), &mut ());
            }))
        }),
        // What reading the clock twice adds to the others.
        Box::new(|| Ok(timed(&mut bidder.borrow_mut(), &all, |_, _| ()))),
    ];
    let rounds = interleave(size.pick(9, 1), &mut cases)?;
    drop(cases);
    let clock = median(rounds[2].iter().copied());
    let mean = |at: usize| (median(rounds[at].iter().copied()) - clock).max(f64::MIN_POSITIVE);
    let (auction, every) = (mean(0), mean(1));
    println!(
        "| case | ns per request | auctions/s | times as fast |\n| --- | ---: | ---: | ---: |"
    );
    for (name, ns) in
        [("auction, all let through", auction), ("every candidate asked, no early stop", every)]
    {
        println!("| {name} | {ns:.0} | {} | {:.2} |", rate(1e9 / ns), auction / ns);
    }
    let requests = (all.len() * (rounds[0].len() + 1)) as f64;
    println!(
        "\n{:.2} impressions a request, {:.2} bids. Target: 400,000 auctions/s. Reading the clock ({clock:.0} ns) is \
         taken off.",
        impressions as f64 / requests,
        bids as f64 / requests,
    );
    Ok(())
}

/// Ns per request of `work` alone: reading and translating are not counted.
fn timed(
    bidder: &mut Bidder<'_>,
    bodies: &[&[u8]],
    mut work: impl FnMut(&gate_auction::Request<'_>, &CampaignIndex),
) -> f64 {
    let (mut reader, limits, mut room) = (Reader::default(), ReadLimits::default(), Vec::new());
    let mut ns = 0;
    for body in bodies {
        room.clear();
        room.extend_from_slice(body);
        let read = reader.read(&mut room, &limits, |request| {
            bidder.translated(request, |keys, market| {
                let started = Instant::now();
                work(keys, market);
                ns += started.elapsed().as_nanos();
            });
        });
        assert!(read.is_ok(), "the hammer's bodies are requests");
    }
    ns as f64 / bodies.len() as f64
}
