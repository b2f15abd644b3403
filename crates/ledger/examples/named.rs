//! What a hold with a name costs the bank: `cargo run --release -p ledger --example named -- [ROWS]`, with a million rows open unless told.
//!
//! Processor time of an ask, a fact and an end, random rows, one budget under a parent; then of holds that end by time, of one budget and of eight,
//! asked for and settled; the least of some rounds.
#![allow(clippy::print_stdout, reason = "a measurement speaks on standard output")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on stops")]

use std::time::Instant;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, Hold, LegAmounts, NamedHold, NamedLeg, Options, Origin,
    Out, TimedAsk, TimedRequest, ToBank, Verdict, timed::CHOSEN,
};
use money::Unit;
use table::SplitMix64;

const NOW_MS: u64 = 1_767_268_800_000;
const ROUNDS: usize = 7;
/// Operations of a round.
const OPS: usize = 100_000;
/// Of holds that end by time, which stay until then.
const TIMED_OPS: usize = 2_000;
const TIMED_ROUNDS: u64 = 60;

fn hold(key: u64, hold: i64, settled: i64) -> NamedHold {
    let mut amounts = LegAmounts { hold: Amount::new(hold), ..LegAmounts::default() };
    amounts.spent[0] = Amount::new(settled);
    // Keys of a door are random numbers.
    let key = u128::from(SplitMix64::new(key).draw());
    NamedHold {
        door: Door::Fix,
        key,
        label: "".into(),
        legs: vec![NamedLeg { budget: 2, amounts }],
    }
}

fn main() {
    let rows = std::env::args().nth(1).map_or(1_000_000, |rows| rows.parse().unwrap());
    let mut bank = Bank::new(Options::default());
    let (usd, all) = (Unit::parse("USD").unwrap(), Amount::new(1_000_000_000_000_000));
    let parent = BudgetSpec::plain(1, usd, all);
    let child = BudgetSpec { parent: Some(1), ..BudgetSpec::plain(2, usd, all) };
    let mut out = Out::default();
    bank.start_run(NOW_MS, &mut out);
    bank.configure(&[parent, child], &mut out).unwrap();
    for key in 0..rows - OPS as u64 {
        bank.ask_named(hold(key, 100, 0), &mut out).unwrap();
        out = Out::default();
    }
    let mut least = [f64::MAX; 3];
    let mut round = |bank: &mut Bank, at: usize, said: Vec<NamedHold>| {
        let mut out = Out { records: Vec::with_capacity(said.len()), ..Out::default() };
        let began = Instant::now();
        for hold in said {
            match at {
                0 => bank.ask_named(hold, &mut out).unwrap(),
                1 => bank.state_named(hold, &mut out).unwrap(),
                _ => bank.end_named(hold.door, hold.key, &mut out).unwrap(),
            };
        }
        least[at] = least[at].min(began.elapsed().as_nanos() as f64 / OPS as f64);
        assert_eq!(out.records.len(), OPS);
    };
    for number in 0..ROUNDS as u64 {
        let first = rows + number * OPS as u64;
        let of = |held, settled| {
            (first..first + OPS as u64).map(|key| hold(key, held, settled)).collect()
        };
        round(&mut bank, 0, of(100, 0));
        round(&mut bank, 1, of(0, 90));
        round(&mut bank, 2, of(0, 0));
    }
    let [ask, fact, end] = least;
    println!("{rows} rows open: ask {ask:.0} ns, fact {fact:.0} ns, end {end:.0} ns");
    print_timed(usd, all);
}

/// Holds that end by time, of one budget and of eight, each budget under a parent of its own.
fn print_timed(usd: Unit, all: Amount) {
    let mut bank = Bank::new(Options::default());
    let mut out = Out::default();
    bank.start_run(NOW_MS, &mut out);
    let tree = |id| {
        let child = BudgetSpec { parent: Some(id), ..BudgetSpec::plain(100 + id, usd, all) };
        [BudgetSpec::plain(id, usd, all), child]
    };
    bank.configure(&(1..=8).flat_map(tree).collect::<Vec<_>>(), &mut out).unwrap();
    let (origin, until_ms) = (Origin { door: Door::Spend, request_id: 0 }, NOW_MS + 60_000);
    let mut least = [[f64::MAX; 2]; 2];
    for number in 0..TIMED_ROUNDS {
        for (legs, least) in [1, 8].into_iter().zip(&mut least) {
            let keys = (0..TIMED_OPS as u64).map(|at| number << 32 | legs << 24 | at);
            let keys = keys.map(|at| u128::from(SplitMix64::new(at).draw()) | CHOSEN);
            let keys: Vec<u128> = keys.collect();
            let mut out = Out { records: Vec::with_capacity(TIMED_OPS), ..Out::default() };
            let mut ns = [0.0; 2];
            let began = Instant::now();
            for &key in &keys {
                let (budgets, state) = ((101..101 + legs).collect(), Verdict::Confirmed);
                let amount = Amount::new(100);
                let ask = TimedAsk::Open { key, budgets, amount, until_ms, state };
                let request = TimedRequest { ask, at_ms: NOW_MS, origin, reply: 0, keyed: None };
                bank.step_timed(0, request, &mut out).unwrap();
            }
            ns[0] = began.elapsed().as_nanos() as f64 / TIMED_OPS as f64;
            out = Out { records: Vec::with_capacity(TIMED_OPS), ..Out::default() };
            let began = Instant::now();
            for &key in &keys {
                let (action, amount) = (Action::Settle, Amount::new(90));
                let (hold, at_ms, reply) = (Hold::of_key(1, key), NOW_MS, 0);
                let settle = ToBank::Resolve { action, hold, amount, at_ms, origin, reply };
                bank.step(0, settle, &mut out);
            }
            ns[1] = began.elapsed().as_nanos() as f64 / TIMED_OPS as f64;
            assert!(out.records.len() >= TIMED_OPS, "settled");
            (0..2).for_each(|at| least[at] = least[at].min(ns[at]));
        }
    }
    for (legs, [ask, settle]) in [1, 8].into_iter().zip(least) {
        println!(
            "a hold of {legs} budgets that ends by time: ask {ask:.0} ns, settle {settle:.0} ns"
        );
    }
}
