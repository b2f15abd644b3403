//! Compares pieces of code so that the comparison, not the machine, decides.
//!
//! ```
//! use probe::compare::{Case, compare};
//! use std::hint::black_box;
//!
//! let numbers: Vec<u64> = (0..1_000).collect();
//! let mut cases: Vec<Case<'_>> = vec![
//!     ("sum", Box::new(|| { black_box(black_box(&numbers).iter().sum::<u64>()); 1_000 })),
//!     ("max", Box::new(|| { black_box(black_box(&numbers).iter().max()); 1_000 })),
//! ];
//! let comparison = compare("folding a thousand numbers, ns a number", 11, &mut cases);
//! print!("{comparison}"); // a Markdown table
//! ```
//!
//! # How
//! - All cases run once per round, in an order drawn anew each round: a slow second of a shared machine hits every case
//!   alike, and no case always runs first.
//! - What is compared is the ratio of two times *within* a round. Reported is the median of these ratios with a 95 %
//!   confidence interval that assumes nothing of how they are spread.
//! - A case is [`Verdict::Faster`] or [`Verdict::Slower`] only where the interval leaves out 1 and the ratio is at least
//!   [`MIN_EFFECT`] away from it; otherwise it is [`Verdict::CannotTell`].
//! - Nothing is dropped. Rounds in which the machine was not itself (stolen time, preemption) are marked where
//!   [`Rounds::watch_machine`] is asked for, or [`Rounds::watch`] another witness; they are counted and shown.
//!
//! # What it can tell
//! Counted by `tests/it/statistics.rs` over 10,000 comparisons a row of made-up samples whose truth is known. Noise is the
//! standard deviation of one time, and one time in ten is stalled by up to half of it more.
//!
//! | rounds | noise, % | intervals that hold the truth, % | of equal cases called different, % | 3 % slower found, % |
//! | ---: | ---: | ---: | ---: | ---: |
//! | 5 | 1 | 93.5 | 4.2 | 56.5 |
//! | 7 | 1 | 95.0 | 3.2 | 54.5 |
//! | 15 | 1 | 94.7 | 2.1 | 95.1 |
//! | 31 | 1 | 95.2 | 0.6 | 99.9 |
//! | 7 | 3 | 95.0 | 4.9 | 22.1 |
//! | 15 | 3 | 94.6 | 5.3 | 40.6 |
//! | 31 | 3 | 95.2 | 4.6 | 70.0 |
//! | 61 | 3 | 95.2 | 4.3 | 93.8 |
//!
//! # What it cannot
//! Two builds of the same code can differ by more than 2 % because a loop moved by 16 bytes: that is a true difference of
//! the two binaries, and rounds do not average it out. Before believing a small effect, see whether it survives a change that
//! only moves code.

mod outcome;
mod random;

use std::fmt;
use std::time::{Duration, Instant};

pub use outcome::{Outcome, ROUNDS_MIN, Verdict, median};
pub use random::Random;

use crate::machine::Watch;

/// One case: its name, and work that does a fixed amount and returns how many operations that was.
/// The closure itself passes inputs and results through [`std::hint::black_box`].
pub type Case<'a> = (&'a str, Box<dyn FnMut() -> u64 + 'a>);

/// A case that measures itself, because it has preparations (threads to start) that do not count: it returns how many
/// operations and how long they took.
pub type TimedCase<'a> = (&'a str, Box<dyn FnMut() -> (u64, Duration) + 'a>);

/// The least difference that a verdict speaks of, as a share of 1: below this, the layout of the code alone may decide.
pub const MIN_EFFECT: f64 = 0.01;

/// Seed of the orders: two runs differ by the machine only.
const SEED: u64 = 0x5eed_0001;

/// What the rounds of some cases came to. Displays as a Markdown table.
#[must_use = "a comparison prints nothing by itself; display it"]
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was compared, with sizes.
    pub title: String,
    /// The least difference that counts, as a share of 1.
    pub min_effect: f64,
    /// Rounds that were measured.
    pub rounds: usize,
    /// By case; the others are compared with the first.
    pub outcomes: Vec<Outcome>,
    /// Rounds in which something disturbed the machine. Their samples are in the outcomes all the same.
    pub disturbed: Vec<Disturbed>,
}

/// A round in which the machine was not itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbed {
    /// Which round, from 1.
    pub round: usize,
    /// What happened, such as `12 ms stolen`.
    pub what: String,
}

/// Compares with the usual settings: see [`Rounds`] for others. The first case is the one the others are compared with;
/// one more round is run first and thrown away, to warm caches and page tables.
pub fn compare(title: &str, rounds: usize, cases: &mut [Case<'_>]) -> Comparison {
    Rounds::new(rounds).compare(title, cases)
}

/// As [`compare`], for cases that measure themselves.
pub fn compare_timed(title: &str, rounds: usize, cases: &mut [TimedCase<'_>]) -> Comparison {
    Rounds::new(rounds).compare_timed(title, cases)
}

/// As [`compare`], for those who make their own table.
#[must_use]
pub fn measure(rounds: usize, cases: &mut [Case<'_>]) -> Vec<Outcome> {
    compare("", rounds, cases).outcomes
}

/// As [`compare_timed`], for those who make their own table.
#[must_use]
pub fn measure_timed(rounds: usize, cases: &mut [TimedCase<'_>]) -> Vec<Outcome> {
    compare_timed("", rounds, cases).outcomes
}

/// How to compare.
pub struct Rounds<'a> {
    rounds: usize,
    min_effect: f64,
    seed: u64,
    watch: Box<dyn FnMut() -> Option<String> + 'a>,
}

impl<'a> Rounds<'a> {
    /// So many rounds, at least 1; for a verdict take [`ROUNDS_MIN`] or more, and an odd number.
    #[must_use]
    pub fn new(rounds: usize) -> Rounds<'a> {
        let watch = Box::new(|| None);
        Rounds { rounds: rounds.max(1), min_effect: MIN_EFFECT, seed: SEED, watch }
    }

    /// The least difference that a verdict speaks of, as a share of 1, instead of [`MIN_EFFECT`].
    #[must_use]
    pub fn min_effect(self, min_effect: f64) -> Rounds<'a> {
        Rounds { min_effect, ..self }
    }

    /// Another seed of the orders.
    #[must_use]
    pub fn seed(self, seed: u64) -> Rounds<'a> {
        Rounds { seed, ..self }
    }

    /// Asks after every round what has disturbed the machine since it was asked before; it is asked once before the first
    /// round too.
    #[must_use]
    pub fn watch(self, watch: impl FnMut() -> Option<String> + 'a) -> Rounds<'a> {
        Rounds { watch: Box::new(watch), ..self }
    }

    /// Marks the rounds by what [`Watch`] sees from this thread: stolen time, a lost core, a changed clock.
    #[must_use]
    pub fn watch_machine(self) -> Rounds<'a> {
        let mut watch = Watch::start();
        self.watch(move || {
            let marks = watch.marks();
            watch = Watch::start();
            (!marks.is_clean()).then(|| marks.to_string())
        })
    }

    /// Runs the rounds; see [`compare`].
    pub fn compare(self, title: &str, cases: &mut [Case<'_>]) -> Comparison {
        let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
        self.run(title, &names, |at| {
            let started = Instant::now();
            let operations = (cases[at].1)();
            (operations, started.elapsed())
        })
    }

    /// Runs the rounds of cases that measure themselves.
    pub fn compare_timed(self, title: &str, cases: &mut [TimedCase<'_>]) -> Comparison {
        let names: Vec<&str> = cases.iter().map(|(name, _)| *name).collect();
        self.run(title, &names, |at| (cases[at].1)())
    }

    fn run(
        mut self,
        title: &str,
        names: &[&str],
        mut run: impl FnMut(usize) -> (u64, Duration),
    ) -> Comparison {
        let mut random = Random::new(self.seed);
        for at in random.order(names.len()) {
            run(at);
        }
        (self.watch)();
        let mut samples = vec![Vec::with_capacity(self.rounds); names.len()];
        let mut disturbed = Vec::new();
        for round in 1..=self.rounds {
            for at in random.order(names.len()) {
                let (operations, elapsed) = run(at);
                samples[at].push(ns_an_operation(operations, elapsed));
            }
            disturbed.extend((self.watch)().map(|what| Disturbed { round, what }));
        }
        let outcome = |(name, own): (&&str, &Vec<f64>)| Outcome::of(name, own, &samples[0]);
        Comparison {
            title: title.to_owned(),
            min_effect: self.min_effect,
            rounds: self.rounds,
            outcomes: names.iter().zip(&samples).map(outcome).collect(),
            disturbed,
        }
    }
}

impl fmt::Debug for Rounds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds")
            .field("rounds", &self.rounds)
            .field("min_effect", &self.min_effect)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

#[allow(clippy::cast_precision_loss, reason = "a round takes less than 2^53 ns")]
fn ns_an_operation(operations: u64, elapsed: Duration) -> f64 {
    elapsed.as_nanos() as f64 / operations.max(1) as f64
}

impl fmt::Display for Comparison {
    /// A blank line, a heading, the table, and what disturbed the rounds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.outcomes.first().map_or("", |first| first.name.as_str());
        let longest = self.outcomes.iter().map(|outcome| outcome.name.chars().count()).max();
        let width = longest.unwrap_or(0).max(4);
        writeln!(f, "\n### {}\n", self.title)?;
        writeln!(
            f,
            "| {:width$} | ns/op | min..max | times as fast as `{first}` [95 %] |",
            "case"
        )?;
        writeln!(f, "| {:-<width$} | ----: | -------: | :--- |", "")?;
        for (at, o) in self.outcomes.iter().enumerate() {
            let speed = if at == 0 { "1".to_owned() } else { speed(o, self.min_effect) };
            let (name, ns, min, max) = (&o.name, o.median_ns, o.min_ns, o.max_ns);
            writeln!(f, "| {name:width$} | {ns:.2} | {min:.2}..{max:.2} | {speed} |")?;
        }
        self.write_disturbed(f)
    }
}

impl Comparison {
    fn write_disturbed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.disturbed.is_empty() {
            return Ok(());
        }
        let marks: Vec<String> =
            self.disturbed.iter().map(|mark| format!("{}: {}", mark.round, mark.what)).collect();
        let (disturbed, rounds) = (self.disturbed.len(), self.rounds);
        writeln!(f, "\nDisturbed rounds, {disturbed} of {rounds}: {}.", marks.join("; "))
    }
}

/// The ratio turned into "times as fast", which reads better than a share of the time.
fn speed(outcome: &Outcome, min_effect: f64) -> String {
    let (low, high) = (1.0 / outcome.ratio_high, 1.0 / outcome.ratio_low);
    let tail = match outcome.verdict(min_effect) {
        Verdict::CannotTell => ", cannot tell",
        Verdict::Faster | Verdict::Slower => "",
    };
    format!("{:.2} [{low:.2}..{high:.2}]{tail}", 1.0 / outcome.ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A case of a made-up length, that notes when it ran.
    fn case<'a>(name: &'static str, ns: u64, ran: &'a RefCell<Vec<&'static str>>) -> TimedCase<'a> {
        let run = move || {
            ran.borrow_mut().push(name);
            (10, Duration::from_nanos(ns))
        };
        (name, Box::new(run))
    }

    #[test]
    fn every_case_runs_once_a_round_in_changing_order() {
        let ran = RefCell::new(Vec::new());
        let mut cases = vec![case("one", 100, &ran), case("two", 200, &ran)];
        let comparison = compare_timed("t", 9, &mut cases);
        let ran = ran.borrow();
        let rounds: Vec<&[&str]> = ran.chunks(2).collect();
        assert_eq!(rounds.len(), 10, "one round warms up");
        assert!(rounds.iter().all(|round| round.contains(&"one") && round.contains(&"two")));
        assert!(rounds.contains(&["one", "two"].as_slice()));
        assert!(rounds.contains(&["two", "one"].as_slice()));
        assert_eq!(comparison.outcomes[0].median_ns, 10.0);
        assert_eq!(comparison.outcomes[1].ratio, 2.0);
        assert_eq!(comparison.outcomes[1].verdict(MIN_EFFECT), Verdict::Slower);
    }

    #[test]
    fn two_runs_with_one_seed_draw_alike() {
        let run = |seed| {
            let ran = RefCell::new(Vec::new());
            let mut cases = vec![case("one", 1, &ran), case("two", 1, &ran)];
            let _ = Rounds::new(20).seed(seed).compare_timed("t", &mut cases);
            drop(cases);
            ran.into_inner()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn disturbed_rounds_are_shown_and_kept() {
        let ran = RefCell::new(Vec::new());
        let mut cases = vec![case("one", 100, &ran)];
        let mut asked = 0;
        let watch = || {
            asked += 1;
            (asked == 1 || asked == 3).then(|| "7 ms stolen".to_owned())
        };
        let comparison = Rounds::new(5).watch(watch).compare_timed("t", &mut cases);
        assert_eq!(asked, 6);
        let second = Disturbed { round: 2, what: "7 ms stolen".to_owned() };
        assert_eq!(
            comparison.disturbed,
            [second],
            "what was before the first round is not its own"
        );
        assert_eq!(comparison.outcomes[0].rounds, 5);
        assert!(comparison.to_string().ends_with("\nDisturbed rounds, 1 of 5: 2: 7 ms stolen.\n"));
    }

    /// What the machine does is its own affair; the marks of a round must be of that round and not empty.
    #[test]
    fn the_machine_can_be_watched() {
        let ran = RefCell::new(Vec::new());
        let mut cases = vec![case("one", 100, &ran)];
        let comparison = Rounds::new(3).watch_machine().compare_timed("t", &mut cases);
        let sound = |mark: &Disturbed| (1..=3).contains(&mark.round) && !mark.what.is_empty();
        assert!(comparison.disturbed.iter().all(sound), "{:?}", comparison.disturbed);
        assert!(comparison.disturbed.iter().all(|mark| mark.what != "clean"));
    }

    #[test]
    fn the_table_says_where_nothing_can_be_told() {
        let ran = RefCell::new(Vec::new());
        let mut cases =
            vec![case("ours", 100, &ran), case("same", 100, &ran), case("twice", 200, &ran)];
        let text = compare_timed("made up", 5, &mut cases).to_string();
        let expected = "
### made up

| case  | ns/op | min..max | times as fast as `ours` [95 %] |
| ----- | ----: | -------: | :--- |
| ours  | 10.00 | 10.00..10.00 | 1 |
| same  | 10.00 | 10.00..10.00 | 1.00 [1.00..1.00], cannot tell |
| twice | 20.00 | 20.00..20.00 | 0.50 [0.50..0.50] |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_case_and_no_round_are_no_panic() {
        assert_eq!(compare("none", 0, &mut []).outcomes, []);
        assert_eq!(ns_an_operation(0, Duration::from_nanos(7)), 7.0);
    }

    /// Counted work, not time: a case of a hundred times the work must show as slower by far.
    #[test]
    fn more_work_an_operation_is_slower() {
        let work = |steps: u64| {
            move || {
                let mut random = Random::new(1);
                (0..steps).for_each(|_| _ = std::hint::black_box(random.draw()));
                1_000
            }
        };
        let mut cases: Vec<Case<'_>> =
            vec![("short", Box::new(work(20_000))), ("long", Box::new(work(2_000_000)))];
        // A short case that is kept from its core is as slow as a long one: not in every try.
        let shows = |_| {
            let outcomes = measure(5, &mut cases);
            assert_eq!(outcomes[0].ratio, 1.0);
            assert!(outcomes[1].min_ns <= outcomes[1].median_ns);
            outcomes[1].ratio_low > 2.0
        };
        assert!((0..40).any(shows));
    }
}
