//! What reading a body and writing an answer cost, beside readers that fill structs.
//!
//! `cargo run --release -p door-openrtb --example openrtb_bench`
#![allow(clippy::print_stdout)] // reason: it prints its result
#![allow(clippy::unwrap_used)] // reason: a set-up that failed is a failed run

#[path = "../tests/it/bench.rs"]
mod bench;
#[allow(dead_code)] // shared with the tests
#[path = "../tests/it/bidder.rs"]
mod bidder;
#[allow(dead_code)] // shared with the tests
#[path = "../tests/it/bodies.rs"]
mod bodies;

fn main() {
    for line in bench::measure(bench::Size::Large) {
        println!("{line}");
    }
}
