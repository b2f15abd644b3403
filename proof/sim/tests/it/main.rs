//! The simulator as a test: a hundred seeds without a violation, every planted fault found. `make sim` runs two thousand, and
//! demands that they reach every rare case.

mod files;

use sim::{Bug, STEPS, run, run_seeds};

/// `SIM_SEEDS` in the environment asks for more than the hundred of every test run.
fn seeds() -> u64 {
    let asked = std::env::var("SIM_SEEDS").ok();
    asked.map_or(100, |text| text.parse().expect("SIM_SEEDS: expected a whole number"))
}

#[test]
fn no_seed_breaks_a_promise() {
    let outcome = run_seeds(1, seeds(), STEPS, None);
    println!("{outcome}");
    assert!(outcome.violation.is_none(), "{outcome}");
    // Of a hundred seeds no rare case is expected, of a thousand all are.
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
