//! The engine driven by an outside simulator: text lines in, text lines out, one batch a simulated second.
//!
//! ```text
//! in   C id budget first_day        a campaign: budget in micros, a flight of one day from day `first_day` on
//!      P id p0 .. p1440             its plan: cumulative share of the budget at each end of a minute of the day
//!      F id n0 .. n1440             forecast of its eligible requests, cumulative
//!      L id a:g a:g ..              its landscape: spend in micros a eligible request at bid multiplier a (0..1]
//!      GO                           the lines before it may come in any order; P, F and L may be left out
//!
//!      T sec nreq nnotice           a batch: the second, and how many lines follow
//!      W rid cid price              nnotice lines: the bid was won and costs this (micros)..
//!      L rid cid                    ..or lost
//!      R rid cid:value cid:value .. nreq lines: a request and who may bid how much at most (micros)
//! out  rid cid bid                  nreq lines: 0 < bid <= value..
//!      rid -                        ..or no bid
//!
//! in   END                          exit code 0
//! ```
//!
//! - A request id (`rid`) is any word of at most 64 bytes. The best offer in the engine's own auction bids; the
//!   bid is reserved in the ledger. A request id that already has a bid gets no second one: its notices could not tell
//!   which is meant.
//! - Notices may be late, lost or repeated, and come in any order within a batch: they are booked in an order of our
//!   own. A bid without a notice stays reserved: after 120 seconds the plan counts it by what such bids have come to,
//!   the ledger still counts all of it. Notices about bids that were not made are counted and change nothing.
//! - Answers are written at the end of each batch, and flushed.
//! - A second is counted from the beginning of day 0. Where the first batch is more than a day before the first flight,
//!   seconds are counted from the beginning of that flight instead: `first_day` is then a date.
//! - Where not one request could be bid on (every flight begins after the last batch, and the like), a line on standard error
//!   says why, at the end. The exit code is 0: everything was answered as it was asked.
//! - Bad input ends it with exit code 2 and the number of the line; an input that ends before `END` with 1.

mod error;
mod lines;
mod session;
mod setup;
mod silence;

use std::io::{BufRead, Write};

use gate_auction::Rank;
use gate_pacing::Strategy;

pub use error::{Fault, StdioError};
use lines::InputLines;
use session::Session;
pub use silence::Silence;

/// How campaigns are paced that an outside simulator brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioOptions {
    /// How all of them spend.
    pub strategy: Strategy,
    /// Workers that share the requests, 1 ..= 16. Answers do not depend on it.
    pub workers: u16,
    /// How hard a campaign is pulled to its plan, 8 ..= 512.
    pub gain: u32,
    /// The amount that may be spent in spite of bids that nobody spoke of, millionths of the budget; 0 is the strict cap.
    pub tolerance_ppm: u32,
    /// Whose offer goes first where several campaigns want a request.
    pub rank: Rank,
}

impl Default for StdioOptions {
    fn default() -> StdioOptions {
        StdioOptions {
            strategy: Strategy::Auto,
            workers: 1,
            gain: 64,
            tolerance_ppm: 0,
            rank: Rank::Bid,
        }
    }
}

/// What was said in a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests answered.
    pub requests: u64,
    /// Bids among the answers.
    pub bids: u64,
    /// Notices that settled or released a bid.
    pub notices: u64,
    /// Notices that repeated an earlier one.
    pub repeats: u64,
    /// Notices about bids that were not made: the simulator and the engine do not agree.
    pub unknown: u64,
    /// Wins that cost more than the bid, or came after the bid had been released: booked in full as debts.
    pub debts: u64,
    /// Why not one of the requests could be bid on.
    pub silence: Option<Silence>,
}

/// Answers `input` on `output` until `END`. Both should be buffered: an answer is written in one piece a batch.
///
/// # Errors
/// [`StdioError`], with the number of the line; [`StdioError::exit_code`] is what to exit with.
pub fn run(
    input: impl BufRead,
    output: impl Write,
    options: &StdioOptions,
) -> Result<Summary, StdioError> {
    let mut lines = InputLines::new(input);
    match setup::read(&mut lines, options)? {
        Some(setup) => Session::new(setup, options)?.run(&mut lines, output),
        None => Ok(Summary::default()),
    }
}
