//! The load tool that audits what it was promised.
//!
//! [`run`] opens connections to a node's batch door, asks as fast as answers come (closed loop) or on a timetable (open
//! loop), settles a share of what it is granted, and keeps its own books beside the node's. Every second and at the end
//! it compares the two with each other and with the limits. See `proof/hammer/README.md`.
//!
//! Where to look: `engine` is the sending thread and its hot loop, `resolve` its settling half, `audit` the rules,
//! `run` the order of things. [`run_exchange`] plays an exchange against the OpenRTB door instead; it lives in `exchange`.
//! [`run_fix`] plays the clients and the venue of a FIX door, in `fix`.

#![forbid(unsafe_code)]

mod args;
mod asks;
mod audit;
mod conn;
mod control;
mod cpu;
mod desk;
mod drive;
mod error;
mod exchange;
mod fix;
mod frames;
mod latency;
mod notices;
pub mod openrtb;
mod pipe;
mod plan;
mod progress;
mod random;
mod report;
mod resolve;
mod run;
mod schedule;
mod tally;
mod timetable;

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

pub use args::{
    AMOUNT_MICROS_MAX, AmountRange, Args, BATCH_MAX, BODIES_MAX, CONNECTIONS_MAX, DEPTH_MAX,
    NOTICE_CONNECTIONS_MAX,
};
pub use desk::Outcome as AuditOutcome;
pub use error::HammerError;
pub use exchange::{BodiesReport, ExchangeReport, KindCounts, run_exchange};
pub use fix::{FixReport, Message as FixMessage, Peer as FixPeer, run_fix};
pub use frames::NoticeCounts;
pub use latency::Quantiles;
pub use report::{OpenRtbReport, Report, ScheduleReport};
pub use run::run;

/// All of `weir hammer`: runs (or generates requests), prints to `out` and returns the process exit code. An error of
/// the run is printed to standard error.
///
/// # Errors
/// `out` cannot be written.
pub fn main(args: &Args, stop: &AtomicBool, out: &mut dyn Write) -> io::Result<u8> {
    if let Some(count) = args.generate_openrtb {
        return unless_gone(sample_requests(count, args.seed, out)).map(|()| 0);
    }
    if args.openrtb {
        return match run_exchange(args, stop) {
            Ok(report) if args.json => {
                unless_gone(report.print_json(out)).map(|()| report.exit_code())
            }
            Ok(report) => unless_gone(report.print_table(out)).map(|()| report.exit_code()),
            Err(e) => complain(&e),
        };
    }
    if args.fix {
        return match run_fix(args, stop) {
            Ok(report) => unless_gone(report.print(args.json, out)).map(|()| report.exit_code()),
            Err(e) => complain(&e),
        };
    }
    match run(args, stop) {
        Ok(report) if args.json => unless_gone(report.print_json(out)).map(|()| report.exit_code()),
        Ok(report) => unless_gone(report.print_table(out)).map(|()| report.exit_code()),
        Err(e) => complain(&e),
    }
}

/// Writes so many made-up bid requests, one per line, of those that this tool sends. The same seed gives the same requests.
///
/// # Errors
/// `out` cannot be written.
pub fn sample_requests(count: u64, seed: u64, out: &mut dyn Write) -> io::Result<()> {
    openrtb::generate(seed, count).try_for_each(|line| writeln!(out, "{line}"))
}

/// A reader that went away (`| head`) is no failure, and the exit code still tells what the audit found.
fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    written.or_else(
        |error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) },
    )
}

fn complain(e: &HammerError) -> io::Result<u8> {
    writeln!(io::stderr(), "weir hammer: {e}")?;
    Ok(e.exit_code())
}
