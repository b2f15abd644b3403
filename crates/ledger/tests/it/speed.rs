//! The measurement of the replay, in small: it still runs, and replays what it says.
#![allow(dead_code, reason = "its command line is not used here")]

#[path = "../../examples/replay.rs"]
mod replay;

#[test]
fn the_measurement_of_the_replay_runs() {
    let size = replay::Size { budgets: 20, records: 5_000, holds_a_grant: 8 };
    let figures = replay::measure(size);
    assert!(figures.records >= 5_000 && figures.settled >= 5_000, "{figures:?}");
    assert!(figures.pages > 20 && figures.parts > 60, "{figures:?}");
}
