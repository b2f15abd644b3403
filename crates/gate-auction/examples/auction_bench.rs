//! How fast the auction alone is, beside asking every candidate and beside compressed bitmaps.
//!
//! `cargo run --release -p gate-auction --example auction_bench [campaigns [requests [rounds]]]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a benchmark prints; it shares the generator"
)]

#[path = "../tests/it/bench.rs"]
mod bench;
#[path = "../tests/it/generator.rs"]
mod generator;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (campaigns, requests, rounds) = (number(50_000), number(20_000), number(5));
    let small = |number: u64| usize::try_from(number).unwrap();
    println!("{}", bench::run(campaigns, small(requests), small(rounds)));
}
