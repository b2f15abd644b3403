//! Measures ways to do the same work, and makes sure that it is the same: every way says what came out, and the answers
//! must agree.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use probe::compare::{self, Outcome};

use crate::Error;

/// What a way did in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The number of operations. A faster way may repeat the work more often.
    pub operations: u64,
    /// What came of the work, as a number that other work would hardly give: a sum, a count, a hash.
    pub result: u64,
}

/// One way: its name, and a round of the work.
pub type Way<'a> = (&'a str, Box<dyn FnMut() -> Done + 'a>);

/// A way that takes its own time, because it has preparations that do not count.
pub type TimedWay<'a> = (&'a str, Box<dyn FnMut() -> (Done, Duration) + 'a>);

/// Measures `ways` in interleaved rounds; the first is the baseline.
///
/// # Errors
/// [`Error::Unequal`]: two ways did not do the same work.
pub fn race(rounds: usize, ways: Vec<Way<'_>>) -> Result<Vec<Outcome>, Error> {
    let results = Results::of(ways.iter().map(|(name, _)| *name));
    let mut cases: Vec<compare::Case<'_>> = Vec::with_capacity(ways.len());
    for ((name, mut round), result) in ways.into_iter().zip(&results.0) {
        cases.push((name, Box::new(move || result.note(round()))));
    }
    let outcomes = compare::measure(rounds, &mut cases);
    drop(cases);
    results.check(outcomes)
}

/// As [`race`], of ways that take their own time.
///
/// # Errors
/// [`Error::Unequal`]: two ways did not do the same work.
pub fn race_timed(rounds: usize, ways: Vec<TimedWay<'_>>) -> Result<Vec<Outcome>, Error> {
    let results = Results::of(ways.iter().map(|(name, _)| *name));
    let mut cases: Vec<compare::TimedCase<'_>> = Vec::with_capacity(ways.len());
    for ((name, mut round), result) in ways.into_iter().zip(&results.0) {
        let timed = move || {
            let (done, elapsed) = round();
            (result.note(done), elapsed)
        };
        cases.push((name, Box::new(timed)));
    }
    let outcomes = compare::measure_timed(rounds, &mut cases);
    drop(cases);
    results.check(outcomes)
}

/// Does `work` on all items, `repeats` times, and sums up what comes of each; the result is that of one time.
pub fn each<T>(items: &[T], repeats: u64, mut work: impl FnMut(&T) -> u64) -> Done {
    let mut result = 0;
    for _ in 0..repeats {
        let results = items.iter().map(|item| work(black_box(item)));
        result = black_box(results.fold(0, u64::wrapping_add));
    }
    Done { operations: repeats * items.len() as u64, result }
}

/// The results of every way over all its rounds, hashed together.
struct Results(Vec<Sum>);

struct Sum {
    name: String,
    hash: Cell<u64>,
}

impl Sum {
    fn note(&self, done: Done) -> u64 {
        let mixed = (self.hash.get() ^ done.result).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash.set(mixed ^ (mixed >> 32));
        done.operations
    }
}

impl Results {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Results {
        Results(names.map(|name| Sum { name: name.to_owned(), hash: Cell::new(0) }).collect())
    }

    fn check(&self, outcomes: Vec<Outcome>) -> Result<Vec<Outcome>, Error> {
        let first = self.0.first().map_or(0, |first| first.hash.get());
        match self.0.iter().find(|sum| sum.hash.get() != first) {
            None => Ok(outcomes),
            Some(other) => {
                Err(Error::Unequal { first: self.0[0].name.clone(), other: other.name.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(results: &'static [u64]) -> Box<dyn FnMut() -> Done> {
        let mut results = results.iter();
        Box::new(move || Done { operations: 1, result: *results.next().unwrap() })
    }

    #[test]
    fn ways_that_agree_in_every_round_are_measured() {
        let outcomes = race(2, vec![("one", way(&[1, 2, 3])), ("other", way(&[1, 2, 3]))]).unwrap();
        let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.name.as_str()).collect();
        assert_eq!(names, ["one", "other"]);
    }

    #[test]
    fn repeating_the_work_does_not_change_its_result() {
        let once = each(&[1, 2, 3], 1, |item| item * 2);
        let often = each(&[1, 2, 3], 5, |item| item * 2);
        assert_eq!((once.operations, once.result), (3, 12));
        assert_eq!((often.operations, often.result), (15, 12));
    }

    #[test]
    fn different_work_is_refused() {
        let refused = race(2, vec![("one", way(&[1, 2, 3])), ("other", way(&[1, 2, 4]))]);
        assert!(matches!(refused, Err(Error::Unequal { other, .. }) if other == "other"));
        let timed = |result| -> Box<dyn FnMut() -> (Done, Duration)> {
            Box::new(move || (Done { operations: 1, result }, Duration::from_nanos(1)))
        };
        assert!(race_timed(1, vec![("one", timed(1)), ("other", timed(1))]).is_ok());
        assert!(race_timed(1, vec![("one", timed(1)), ("other", timed(2))]).is_err());
    }
}
