//! The command line: see `board-bench --help`.
#![allow(clippy::print_stdout, reason = "a command's answer")]

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use board_bench::{Bench, Mode, Plan};
use clap::Parser;

/// Serves the real dashboard on made-up budgets that change on a timetable, until it is ended.
#[derive(Parser)]
#[command(
    after_help = "Example: board-bench --rows 50000 --deltas 3000 --every-ms 2000 --mode spread\n\n\
                  Prints its address in one line once it answers."
)]
struct Cli {
    /// Budgets
    #[arg(long, default_value_t = 50_000)]
    rows: usize,
    /// Budgets that change at each tick
    #[arg(long, default_value_t = 3_000)]
    deltas: usize,
    /// Time between two ticks, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    every_ms: u64,
    /// Which budgets change
    #[arg(long, value_enum, default_value = "spread")]
    mode: Mode,
    /// Address; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Another page that may open live streams, as http://127.0.0.1:4000
    #[arg(long)]
    origin: Vec<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let plan = Plan { rows: cli.rows, deltas: cli.deltas, mode: cli.mode };
    let started = TcpListener::bind(cli.listen)
        .map_err(Into::into)
        .and_then(|door| Bench::start(door, plan, cli.origin));
    match started {
        Ok(bench) => {
            println!("http://{}", bench.address());
            bench.run(Duration::from_millis(cli.every_ms))
        }
        Err(error) => {
            eprintln!("board-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
