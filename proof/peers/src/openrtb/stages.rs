//! What each stage of a bid request costs in process: the same bodies, taken one stage further in each case.
//!
//! The rounds of all cases are interleaved; a stage's cost is the median over the rounds of what its case took longer
//! than the one before. So costs add up, and no clock is read inside a request.

use std::time::Instant;

use openrtb::Door;
use weir_budgets::budgets::Budget;

use super::bidder::{Bidder, Stage, market};
use super::door::Figures;
use super::{Bodies, median};
use crate::Size;
use crate::daemon::folder_on_disk;
use crate::figures::{Case, interleave};

/// What the cases are: copying a body alone, then every stage.
const CASES: usize = 1 + Stage::ALL.len();
const NAMES: [&str; CASES] = [
    "copying the body, as HTTP does",
    "JSON: tape and view",
    "clock, user's key, profile read",
    "translated to keys",
    "survey of one request in 128",
    "index and auction, prices",
    "plans, caps, purses: holds",
    "tokens of the notices",
    "check, JSON of the answer",
];

/// Prints the table; beside it what the node's worker took in all, where that was measured.
pub(super) fn run(size: Size, budgets: &[Budget], bodies: &Bodies, door: Option<&Figures>) {
    println!("\n### stages of a request in process, unlimited campaigns\n");
    match measure(size, budgets, bodies) {
        Ok(stages) => print(&stages, door),
        Err(error) => println!("NOT MEASURED: {error}"),
    }
}

/// Nanoseconds a request, and the share of requests with a bid.
struct Stages {
    ns: [f64; CASES],
    bid_rate: f64,
}

fn measure(size: Size, budgets: &[Budget], bodies: &Bodies) -> Result<Stages, String> {
    let folder = folder_on_disk()?;
    let market = market(budgets)?;
    let mut bidder = Bidder::new(&market, budgets, folder.path())?;
    let mut door = Door::new(bidder.settings()).map_err(|e| e.to_string())?;
    // As many users as bodies: all of them are in memory before the first round.
    pass(&mut bidder, &mut door, bodies);
    bidder.bid = 0;
    pass(&mut bidder, &mut door, bodies);
    let bid_rate = bidder.bid as f64 / bodies.list.len() as f64;

    let work = std::cell::RefCell::new((&mut bidder, &mut door));
    let mut cases: Vec<Case<'_, f64>> = vec![Box::new(|| Ok(copy(bodies)))];
    for until in Stage::ALL {
        let work = &work;
        cases.push(Box::new(move || {
            let (bidder, door) = &mut *work.borrow_mut();
            bidder.until = until;
            Ok(pass(bidder, door, bodies))
        }));
    }
    let rounds = interleave(size.pick(11, 1), &mut cases)?;
    let ns = std::array::from_fn(|at| match at.checked_sub(1) {
        None => median(rounds[0].iter().copied()),
        Some(before) => {
            median(rounds[at].iter().zip(&rounds[before]).map(|(own, less)| own - less))
        }
    });
    Ok(Stages { ns, bid_rate })
}

/// All bodies once, up to the bidder's stage; ns per request.
fn pass(bidder: &mut Bidder<'_>, door: &mut Door, bodies: &Bodies) -> f64 {
    let mut room = Vec::with_capacity(bodies.quantile(1.0));
    let started = Instant::now();
    for body in &bodies.list {
        room.clear();
        room.extend_from_slice(body);
        std::hint::black_box(door.bid(&mut room, bidder).status);
    }
    let elapsed = started.elapsed();
    bidder.lapse();
    elapsed.as_nanos() as f64 / bodies.list.len() as f64
}

/// The bodies copied and nothing else.
fn copy(bodies: &Bodies) -> f64 {
    let mut room = Vec::with_capacity(bodies.quantile(1.0));
    let started = Instant::now();
    for body in &bodies.list {
        room.clear();
        room.extend_from_slice(body);
        std::hint::black_box(&mut room);
    }
    started.elapsed().as_nanos() as f64 / bodies.list.len() as f64
}

fn print(stages: &Stages, door: Option<&Figures>) {
    println!("{:.0} % of the requests end with a bid.\n", stages.bid_rate * 100.0);
    println!("| stage | ns per request |\n| --- | ---: |");
    let row = |name: &str, ns: f64| println!("| {name} | {ns:.0} |");
    // HTTP copies the body itself: where it was measured, the copy is in there.
    let copies = usize::from(door.is_some());
    if let Some(Figures { http_ns, .. }) = door {
        row("HTTP: head, body copied, empty answer written", *http_ns);
    }
    for (name, ns) in NAMES.iter().zip(&stages.ns).skip(copies) {
        row(name, *ns);
    }
    let own: f64 = stages.ns[copies..].iter().sum();
    let Some(Figures { http_ns, loop_ns, worker_ns, .. }) = door else {
        return row("sum", own);
    };
    row("event loop and kernel, as of the floor", *loop_ns);
    let sum = own + http_ns + loop_ns;
    row("**sum**", sum);
    row("worker's CPU time in the closed loop, no notices", *worker_ns);
    row("difference: larger answers sent, caches shared, the loop's other work", worker_ns - sum);
}
