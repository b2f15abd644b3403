//! The fixed work whose instructions are counted.
//!
//! A workload does the same in every run: its inputs come from seeds, its time is a number, it has one thread and does
//! no I/O, and no hash table in it takes its seed from the system. Under callgrind even the processor is the same one
//! everywhere: valgrind answers `cpuid` itself (the best it knows is AVX2 without SHA instructions), so that `memcpy`,
//! AES and JSON choose the same code on all machines of a kind.

mod auction;
mod codec;
mod decide;
mod market;
#[cfg(feature = "node")]
mod node;
#[cfg(feature = "node")]
mod order;
mod purses;
mod random;
mod settle;
mod table;

use std::hint::black_box;
use std::time::{Duration, Instant};

use probe::{Counters, Event};

/// Steps before anything is counted: buffers grow, tables warm up, holds begin to lapse.
const WARM_UP: u64 = 128;
/// How long [`time`] measures.
const TIMED: Duration = Duration::from_millis(60);

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Name {
    /// Frames of ten asks: decoded, looked up, paced, reserved, sealed, encoded.
    Decide,
    /// The same frames over 50,000 budgets, which no cache of a core holds.
    #[value(name = "decide-50k")]
    Decide50k,
    /// OpenRTB bodies: read, auctioned, answered.
    Auction,
    /// Confirmations and settlements: judged, booked, encoded into a group of the journal.
    Settle,
    /// Bid contexts: encoded, decoded, read.
    Codec,
    /// Budget ids: looked up by ten, inserted, removed.
    Table,
    /// The same frames as of `decide` through the node's own worker and the session of its batch door.
    #[cfg(feature = "node")]
    Worker,
    /// Requests over HTTP through the node's own worker: profiles, pods, notices.
    #[cfg(feature = "node")]
    Exchange,
    /// Calls of the JSON door through the node's own worker.
    #[cfg(feature = "node")]
    Call,
    /// Orders that pass the FIX door: framed, judged by the client's session, kept, given the venue's header.
    #[cfg(feature = "node")]
    Order,
}

impl Name {
    /// All of them.
    pub const ALL: &[Name] = &[
        Name::Decide,
        Name::Decide50k,
        Name::Auction,
        Name::Settle,
        Name::Codec,
        Name::Table,
        #[cfg(feature = "node")]
        Name::Worker,
        #[cfg(feature = "node")]
        Name::Exchange,
        #[cfg(feature = "node")]
        Name::Call,
        #[cfg(feature = "node")]
        Name::Order,
    ];

    /// As it stands in files and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Name::Decide => "decide",
            Name::Decide50k => "decide-50k",
            Name::Auction => "auction",
            Name::Settle => "settle",
            Name::Codec => "codec",
            Name::Table => "table",
            #[cfg(feature = "node")]
            Name::Worker => "worker",
            #[cfg(feature = "node")]
            Name::Exchange => "exchange",
            #[cfg(feature = "node")]
            Name::Call => "call",
            #[cfg(feature = "node")]
            Name::Order => "order",
        }
    }

    /// What an operation of it is.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Name::Decide | Name::Decide50k => "ask",
            Name::Auction => "request",
            Name::Settle => "resolve",
            Name::Codec => "context",
            Name::Table => "key",
            #[cfg(feature = "node")]
            Name::Worker => "ask",
            #[cfg(feature = "node")]
            Name::Exchange => "request",
            #[cfg(feature = "node")]
            Name::Call => "call",
            #[cfg(feature = "node")]
            Name::Order => "order",
        }
    }

    /// Operations that are enough for a count: every kind of input came, and what is rare came often.
    #[must_use]
    pub const fn ops(self) -> u64 {
        match self {
            Name::Decide => 40_000,
            Name::Decide50k => 80_000,
            Name::Auction => 1_000,
            Name::Settle => 10_000,
            Name::Codec => 10_000,
            Name::Table => 200_000,
            #[cfg(feature = "node")]
            Name::Worker => 40_000,
            #[cfg(feature = "node")]
            Name::Exchange => 1_008,
            #[cfg(feature = "node")]
            Name::Call => 8_000,
            #[cfg(feature = "node")]
            Name::Order => order::OPS,
        }
    }

    /// Whether its misses of simulated caches are counted too. That takes twice as long, so it is done where memory is
    /// what costs.
    #[must_use]
    pub const fn has_misses(self) -> bool {
        match self {
            Name::Decide | Name::Decide50k | Name::Table => true,
            #[cfg(feature = "node")]
            Name::Exchange => true,
            _ => false,
        }
    }

    /// Bytes of the simulated last level of cache: of a core, as far as the workload has one to itself.
    #[must_use]
    pub const fn cache_bytes(self) -> u32 {
        match self {
            #[cfg(feature = "node")]
            Name::Exchange => 512 << 10,
            _ => 1 << 20,
        }
    }
}

/// Something that can be done again and again.
trait Workload {
    /// Does some of it; how many operations that was.
    fn step(&mut self) -> u64;
}

/// Does at least `ops` operations, after a warm-up that is not counted; how many it were.
#[must_use]
pub fn run(name: Name, ops: u64, plant: Plant) -> u64 {
    with(name, plant, |work| work(Until::Ops(ops)).0)
}

/// Nanoseconds an operation takes: of one short run, so only one of many can tell something.
#[must_use]
pub fn time(name: Name, plant: Plant) -> f64 {
    let (ops, elapsed) = with(name, plant, |work| work(Until::Elapsed(TIMED)));
    #[allow(clippy::cast_precision_loss, reason = "counts here have far less than 52 bits")]
    let (ns, ops) = (elapsed.as_nanos() as f64, ops.max(1) as f64);
    ns / ops
}

/// Cycles an operation takes on this machine, kernel and all; `None` where the processor does not show its counters.
#[must_use]
pub fn cycles(name: Name, plant: Plant) -> Option<f64> {
    let mut counters = Counters::open(&[Event::Cycles]).ok()?;
    with(name, plant, |work| {
        let before = counters.read().ok()?;
        let (ops, _) = work(Until::Ops(name.ops()));
        let cycles = counters.read().ok()?.since(&before).get(Event::Cycles)?;
        #[allow(clippy::cast_precision_loss, reason = "counts here have far less than 52 bits")]
        let (cycles, ops) = (cycles as f64, ops.max(1) as f64);
        Some(cycles / ops)
    })
}

/// When a run ends.
#[derive(Clone, Copy)]
enum Until {
    Ops(u64),
    Elapsed(Duration),
}

/// Steps between two looks at the clock, of those that are timed.
const LOOK: u64 = 16;

type Work<'a> = dyn FnMut(Until) -> (u64, Duration) + 'a;

fn with<R>(name: Name, plant: Plant, use_it: impl FnOnce(&mut Work<'_>) -> R) -> R {
    match name {
        Name::Decide => use_it(&mut work(decide::Frames::new(decide::FEW), plant)),
        Name::Decide50k => use_it(&mut work(decide::Frames::new(decide::MANY), plant)),
        Name::Auction => use_it(&mut work(auction::Bodies::new(), plant)),
        Name::Settle => use_it(&mut work(settle::Settle::new(), plant)),
        Name::Codec => use_it(&mut work(codec::Codec::new(), plant)),
        Name::Table => use_it(&mut work(table::Table::new(), plant)),
        #[cfg(feature = "node")]
        Name::Worker => use_it(&mut work(node::WorkerBench::new(), plant)),
        #[cfg(feature = "node")]
        Name::Exchange => use_it(&mut work(node::Exchange::new(), plant)),
        #[cfg(feature = "node")]
        Name::Call => use_it(&mut work(node::Calls::new(), plant)),
        #[cfg(feature = "node")]
        Name::Order => use_it(&mut work(order::Orders::new(), plant)),
    }
}

fn work<W: Workload>(mut workload: W, mut plant: Plant) -> impl FnMut(Until) -> (u64, Duration) {
    for _ in 0..WARM_UP {
        black_box(workload.step());
    }
    move |until| {
        let started = Instant::now();
        let mut done = 0;
        loop {
            match until {
                Until::Ops(ops) => {
                    return (measured(&mut workload, &mut plant, ops), started.elapsed());
                }
                Until::Elapsed(enough) if started.elapsed() >= enough => {
                    return (done, started.elapsed());
                }
                Until::Elapsed(_) => {
                    let ops = LOOK * workload.step();
                    done += measured(&mut workload, &mut plant, ops);
                }
            }
        }
    }
}

/// The part that is counted: callgrind collects from the call of this function to its return. It must stay one.
///
/// The other way, the difference between runs of two lengths, would need no such function; it would need two runs.
#[inline(never)]
fn measured<W: Workload>(workload: &mut W, plant: &mut Plant, ops: u64) -> u64 {
    let mut done = 0;
    while done < ops {
        let some = black_box(workload.step());
        plant.grow(some);
        done += some;
    }
    done
}

/// What callgrind is told to collect in, as it writes names.
pub const MEASURED: &str = "instructions::workload::measured*";

/// The function that is not counted. Valgrind's processor has no SHA instructions: the hash of a group would be counted by
/// code that no server runs, three quarters of all that [`Name::Settle`] takes, and hide what the bank does.
pub const LEFT_OUT: &str = "sha2::sha256::compress256";

/// Instructions that somebody adds to a workload, to see whether the gate tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plant {
    /// For each operation, in 1/65,536 turns of the loop.
    turns_q16: u64,
    /// Not yet planted.
    owed_q16: u64,
}

/// What a turn of the loop in [`planted`] takes, counted with callgrind: [`crate::rates`] fails where a compiler makes
/// it another number.
const INSTRUCTIONS_A_TURN: f64 = 6.0;

impl Plant {
    /// Nothing.
    pub const NONE: Plant = Plant { turns_q16: 0, owed_q16: 0 };

    /// So many instructions more for each operation.
    #[must_use]
    pub fn instructions(each: f64) -> Plant {
        let turns = (each / INSTRUCTIONS_A_TURN * 65_536.0).max(0.0);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a conversion to an integer saturates, and below zero was cut"
        )]
        let turns_q16 = turns as u64;
        Plant { turns_q16, owed_q16: 0 }
    }

    #[inline]
    fn grow(&mut self, ops: u64) {
        if self.turns_q16 > 0 {
            self.owed_q16 += ops * self.turns_q16;
            planted(self.owed_q16 >> 16);
            self.owed_q16 &= 0xffff;
        }
    }
}

/// A loop that does nothing, and cannot be left out.
#[inline(never)]
fn planted(turns: u64) {
    let mut left = turns;
    while left > 0 {
        left = black_box(left) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_does_what_it_was_told() {
        for &name in Name::ALL {
            let ops = run(name, 100, Plant::NONE);
            assert!((100..2_000).contains(&ops), "{}: {ops} operations", name.as_str());
        }
    }

    #[test]
    fn a_plant_grows_by_what_was_wanted() {
        let mut plant = Plant::instructions(INSTRUCTIONS_A_TURN / 4.0);
        assert_eq!(plant.turns_q16, 1 << 14);
        (0..3).for_each(|_| plant.grow(1));
        assert_eq!(plant.owed_q16, 3 << 14);
        plant.grow(1);
        assert_eq!(plant.owed_q16, 0);
        assert_eq!(Plant::instructions(-1.0).turns_q16, 0);
    }
}
