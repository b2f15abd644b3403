//! What an order costs that passes through the door: framed, indexed, judged by the client's session, claimed in the venue's book, given
//! the venue's header and checksum, and its records handed over for the write.
//!
//! `cargo run --release -p door-fix --example passed [ROUNDS] [STEP]`: the thread's own time of an order, median and least of the rounds
//! (of 8,192 orders), for orders that arrive one at a time and 16 at a time, or `STEP` at a time. The clock stands while records are
//! written, after each 64 orders.
//!
//! With `untimed` as third argument no clock is asked, so that it runs under valgrind, which counts the instructions of the same:
//! `valgrind --tool=callgrind --toggle-collect='passed::gate::pass*' target/release/examples/passed 4 1 untimed`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a program that prints figures; the gate is shared"
)]

use fix_session::{MessageStore, MessageStores};
use probe::thread_cpu_ns;

use gate::Gate;

mod gate;

const ORDERS: usize = 8_192;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(21, |rounds| rounds.parse().unwrap());
    let steps = arguments.next().map_or(vec![1, 16], |step| vec![step.parse().unwrap()]);
    let clock = if arguments.next().is_some() { || 0 } else { thread_cpu_ns };
    let folder = tempfile::tempdir_in(".").unwrap();
    let open = |step: &usize| Gate::open(&folder.path().join(step.to_string()), *step);
    let mut gates: Vec<Gate> = steps.iter().map(open).collect();
    let mut took = vec![Vec::new(); gates.len()];
    for _ in 0..rounds {
        for (gate, took) in gates.iter_mut().zip(&mut took) {
            let (bytes, ends) = gate.make(ORDERS);
            took.push(gate.pass_on(&bytes, &ends, clock) / ORDERS as u64);
        }
    }
    for (gate, took) in gates.iter_mut().zip(&mut took) {
        let passed = gate.door.stores().store(1).next_out() - 2;
        assert_eq!(passed, (rounds * ORDERS) as u64, "every order was passed on");
        took.sort_unstable();
        println!("{} at a time: median {} ns, least {} ns", gate.step, took[rounds / 2], took[0]);
    }
}
