//! How fast the auction alone is, and why its bitmaps are plain words.
//!
//! `cargo run --release -p gate-auction --example auction_bench [campaigns]`
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
    let campaigns = std::env::args().nth(1).map_or(50_000, |text| text.parse().unwrap());
    println!("{}", bench::run(campaigns, 20_000, 5));
}
