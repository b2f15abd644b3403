//! Our way beside the ways not taken: each an honest pair on the same work.
//!
//! Only pairs that a library could still win are here. Pairs whose question is decided keep their figures in `alternatives.json`, from
//! which the cost sheet shows them: commit `f974c61a` holds the code of dispatch, JSON, allocation, names, expiry, scan, `after`, loop
//! and clock, commit `d180f1d8` that of frames, FIX, vault and histogram, commit `27bb7113` that of bid requests.

pub mod maps;
pub mod queues;

use probe::compare::{MIN_EFFECT, Outcome, Verdict};

use crate::{Error, Size};

/// One comparison: what we do, and what else could be done.
#[derive(Clone, Debug)]
pub struct Pair {
    /// How rows of the cost sheet name it, such as `table/lookup`.
    pub id: &'static str,
    /// What was measured, with sizes.
    pub what: String,
    /// Of what the figures are, such as `lookup`.
    pub operation: &'static str,
    /// The first is ours (the baseline of the ratios), the others are the alternatives.
    pub outcomes: Vec<Outcome>,
    /// What it means for us, in one sentence; says so where the change did not pay.
    pub verdict: String,
}

/// What a pair means for us, by how it comes out: the figures decide which sentence is printed, so none is untrue on another
/// machine. Each goes on after a colon, so it begins in lower case and ends without a full stop.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// The alternative that counts; `None`: whichever was fastest.
    pub rival: Option<&'static str>,
    /// Ours was faster.
    pub faster: &'static str,
    /// Ours was slower.
    pub slower: &'static str,
    /// Neither was, as far as this machine can tell.
    pub level: &'static str,
}

impl Pair {
    /// A pair with the verdict that its figures give.
    #[must_use]
    pub fn new(
        id: &'static str,
        what: impl Into<String>,
        operation: &'static str,
        outcomes: Vec<Outcome>,
        meaning: &Meaning,
    ) -> Pair {
        let verdict = verdict(&outcomes, meaning);
        Pair { id, what: what.into(), operation, outcomes, verdict }
    }

    /// The alternative that took the least time beside ours.
    #[must_use]
    pub fn fastest_rival(&self) -> Option<&Outcome> {
        fastest(self.outcomes.iter().skip(1))
    }
}

fn verdict(outcomes: &[Outcome], meaning: &Meaning) -> String {
    let counts = |outcome: &&Outcome| meaning.rival.is_none_or(|rival| rival == outcome.name);
    let rivals = outcomes.iter().skip(1).filter(counts);
    let Some(rival) = fastest(rivals) else {
        return "Nothing to compare with.".to_owned();
    };
    let (name, ratio) = (&rival.name, rival.ratio);
    match rival.verdict(MIN_EFFECT) {
        Verdict::Slower => format!("{} times as fast as {name}: {}.", times(ratio), meaning.faster),
        Verdict::Faster => {
            format!("{name} is {} times as fast: {}.", times(ratio.recip()), meaning.slower)
        }
        Verdict::CannotTell => {
            format!("No difference that can be told beside {name}: {}.", meaning.level)
        }
    }
}

fn fastest<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<&'a Outcome> {
    outcomes.min_by(|one, other| one.ratio.total_cmp(&other.ratio))
}

/// A factor with the digits that one reads.
fn times(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.2}") } else { format!("{factor:.0}") }
}

/// Pairs that are made together, and the name by which the command line asks for them; their ids begin with it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Such as `table`.
    pub name: &'static str,
    /// Makes them.
    pub run: fn(Size) -> Result<Vec<Pair>, Error>,
}

/// All pairs, in the order of the document.
pub const GROUPS: &[Group] =
    &[Group { name: "table", run: maps::run }, Group { name: "queue", run: queues::run }];

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, ratio: f64, spread: f64) -> Outcome {
        Outcome {
            name: name.to_owned(),
            rounds: 11,
            median_ns: ratio,
            min_ns: ratio,
            max_ns: ratio,
            ratio,
            ratio_low: ratio - spread,
            ratio_high: ratio + spread,
        }
    }

    const MEANING: Meaning = Meaning { rival: None, faster: "f", slower: "s", level: "l" };

    #[test]
    fn the_figures_choose_the_sentence() {
        let beside = |ratio, spread| {
            verdict(&[outcome("ours", 1.0, 0.0), outcome("theirs", ratio, spread)], &MEANING)
        };
        assert_eq!(beside(2.0, 0.1), "2.00 times as fast as theirs: f.");
        assert_eq!(beside(0.5, 0.1), "theirs is 2.00 times as fast: s.");
        assert_eq!(beside(1.2, 0.3), "No difference that can be told beside theirs: l.");
        assert_eq!(beside(1.001, 0.0001), "No difference that can be told beside theirs: l.");
    }

    #[test]
    fn the_fastest_alternative_counts_unless_one_is_named() {
        let all = [outcome("ours", 1.0, 0.0), outcome("slow", 9.0, 0.1), outcome("fast", 0.5, 0.1)];
        assert!(verdict(&all, &MEANING).starts_with("fast is"));
        let named = Meaning { rival: Some("slow"), ..MEANING };
        assert!(verdict(&all, &named).starts_with("9.00 times as fast as slow"));
    }
}
