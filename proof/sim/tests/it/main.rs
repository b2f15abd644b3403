//! The simulator as a test: many seeds without a violation, every rare case reached, every planted fault found.

mod designs;
mod files;

use sim::{Bug, STEPS, run, run_seeds};

/// `SIM_SEEDS` in the environment asks for more than the thousand of every test run.
fn seeds() -> u64 {
    let asked = std::env::var("SIM_SEEDS").ok();
    asked.map_or(1_000, |text| text.parse().expect("SIM_SEEDS: expected a whole number"))
}

#[test]
fn no_seed_breaks_a_promise_and_all_rare_cases_are_reached() {
    let outcome = run_seeds(1, seeds(), STEPS, None);
    println!("{outcome}");
    assert!(outcome.violation.is_none(), "{outcome}");
    assert_eq!(outcome.missed(), [""; 0], "never reached");
}

#[test]
fn every_planted_fault_is_found() {
    for (bug, seeds) in Bug::ALL {
        let outcome = run_seeds(1, seeds, STEPS, Some(bug));
        let (seed, error) =
            outcome.violation.unwrap_or_else(|| panic!("{} was not found", bug.name()));
        println!("{} was found by seed {seed}: {error}", bug.name());
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 2, 3, 77, 4_711] {
        let [first, second] = [0, 0].map(|_| run(seed, STEPS, None).expect("no violation"));
        assert_eq!(first, second, "seed {seed}");
        assert_ne!(first.digest, run(seed + 1, STEPS, None).expect("no violation").digest);
    }
}
