//! What a request costs the door: nanoseconds from its bytes to the bytes of its answer.
//!
//! `cargo run --release -p door-http --example http_bench`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "a benchmark prints; it shares the tests' application"
)]

#[path = "../tests/it/bench.rs"]
mod bench;
#[path = "../tests/it/support.rs"]
mod support;
#[path = "../tests/it/workbench.rs"]
mod workbench;

fn main() {
    println!("{}", bench::run(200, 50));
}
