//! A strategy asked for each of 500 candidates of a request. The strategies are stand-ins: a limit, a line, a line that
//! leads; what is asked of real ones is no dearer, so that dispatch shows.

use std::hint::black_box;

use probe::compare::Random;

use crate::pairs::{Meaning, Pair};
use crate::race::{Done, race};
use crate::{Error, Size};

/// Candidates of a request.
const CANDIDATES: usize = 500;
const ROUNDS: usize = 11;
/// Requests of a round.
const REQUESTS: u64 = 2_000;
const NOW_MS: i64 = 5_000_000;

/// May a candidate bid, as a plan of its kind says?
trait Strategy {
    /// The answer for what was spent so far, micros.
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool;
}

/// As fast as the limit allows.
#[derive(Clone, Copy, Debug)]
struct Asap {
    limit: i64,
}

/// Along a line.
#[derive(Clone, Copy, Debug)]
struct Even {
    limit: i64,
    from_ms: i64,
    micros_a_ms: i64,
}

/// Along a line that leads by some percent.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    even: Even,
    percent: i64,
}

impl Strategy for Asap {
    #[inline]
    fn may_spend(&self, _: i64, spent: i64) -> bool {
        spent < self.limit
    }
}

impl Strategy for Even {
    #[inline]
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool {
        let planned = (now_ms - self.from_ms).saturating_mul(self.micros_a_ms);
        spent < planned.min(self.limit)
    }
}

impl Strategy for Ahead {
    #[inline]
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool {
        let planned = (now_ms - self.even.from_ms).saturating_mul(self.even.micros_a_ms);
        spent.saturating_mul(100) < planned.min(self.even.limit).saturating_mul(100 + self.percent)
    }
}

/// One of the three: a tag and a match.
#[derive(Clone, Copy, Debug)]
enum Any {
    Asap(Asap),
    Even(Even),
    Ahead(Ahead),
}

impl Strategy for Any {
    #[inline]
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool {
        match self {
            Any::Asap(own) => own.may_spend(now_ms, spent),
            Any::Even(own) => own.may_spend(now_ms, spent),
            Any::Ahead(own) => own.may_spend(now_ms, spent),
        }
    }
}

impl Strategy for Box<dyn Strategy> {
    #[inline]
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool {
        (**self).may_spend(now_ms, spent)
    }
}

impl Any {
    fn boxed(self) -> Box<dyn Strategy> {
        match self {
            Any::Asap(own) => Box::new(own),
            Any::Even(own) => Box::new(own),
            Any::Ahead(own) => Box::new(own),
        }
    }

    /// What a slow half would compile it to: the last kind can say what all say.
    fn compiled(self) -> Ahead {
        match self {
            Any::Asap(Asap { limit }) => {
                Ahead { even: Even { limit, from_ms: 0, micros_a_ms: i64::MAX }, percent: 0 }
            }
            Any::Even(even) => Ahead { even, percent: 0 },
            Any::Ahead(own) => own,
        }
    }

    fn even(self) -> Even {
        match self {
            Any::Asap(Asap { limit }) => Even { limit, from_ms: 0, micros_a_ms: 1 },
            Any::Even(even) | Any::Ahead(Ahead { even, .. }) => even,
        }
    }
}

/// What was spent, and the plan.
type Candidate<S> = (i64, S);

/// A candidate whose kind, and whose answer, nothing foretells.
fn any(random: &mut Random) -> Candidate<Any> {
    let mut draw = |limit: usize| i64::try_from(random.below(limit)).unwrap_or(0);
    let limit = 1_000_000 + draw(9_000_000);
    let plan = Even { limit, from_ms: draw(4_000_000), micros_a_ms: 1 + draw(3) };
    let any = match draw(3) {
        0 => Any::Asap(Asap { limit }),
        1 => Any::Even(plan),
        _ => Any::Ahead(Ahead { even: plan, percent: draw(20) }),
    };
    (draw(10_000_000), any)
}

fn candidates() -> Vec<Candidate<Any>> {
    let mut random = Random::new(7);
    (0..CANDIDATES).map(|_| any(&mut random)).collect()
}

/// The same candidates in another form.
fn as_form<S>(all: &[Candidate<Any>], form: impl Fn(Any) -> S) -> Vec<Candidate<S>> {
    all.iter().map(|(spent, any)| (*spent, form(*any))).collect()
}

pub(super) fn pairs(size: Size) -> Result<Vec<Pair>, Error> {
    let (rounds, requests) = (size.pick(ROUNDS, 1), size.pick(REQUESTS, 20));
    let all = candidates();
    let mixed = vec![
        ("one form for all", asked(as_form(&all, Any::compiled), requests)),
        ("enum", asked(all.clone(), requests)),
        ("Box<dyn>", asked(as_form(&all, Any::boxed), requests)),
    ];
    let one_kind = vec![
        ("generic", asked(as_form(&all, Any::even), requests)),
        ("enum", asked(as_form(&all, |any| Any::Even(any.even())), requests)),
        ("Box<dyn>", asked(as_form(&all, |any| Any::Even(any.even()).boxed()), requests)),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "strategies are compiled into one form, so that there is nothing to dispatch",
        slower: "one form does more arithmetic than it saves in branches on this machine",
        level: "one form for all is kept for what it spares: code for every kind on the hot path",
    };
    let what =
        "A strategy is asked for each of 500 candidates of a request: three kinds in no order.";
    let mixed = Pair::new("dispatch/candidates", what, "candidate", race(rounds, mixed)?, &meaning);
    let meaning = Meaning {
        rival: Some("Box<dyn>"),
        faster: "a call that cannot be inlined costs this much even where every branch is foreseen",
        slower: "the call through a table costs nothing here",
        level: "the call through a table costs nothing that can be told",
    };
    let what = "The same with one kind for all 500, where the processor foresees every branch.";
    let one_kind =
        Pair::new("dispatch/one-kind", what, "candidate", race(rounds, one_kind)?, &meaning);
    Ok(vec![mixed, one_kind])
}

fn asked<'a, S: Strategy + 'a>(
    candidates: Vec<Candidate<S>>,
    requests: u64,
) -> Box<dyn FnMut() -> Done + 'a> {
    Box::new(move || ask(&candidates, requests))
}

fn ask<S: Strategy>(candidates: &[Candidate<S>], requests: u64) -> Done {
    let mut bids = 0_u64;
    for now_ms in (NOW_MS..).zip(0..requests).map(|(now_ms, _)| now_ms) {
        let candidates = black_box(candidates).iter();
        bids +=
            candidates.map(|(spent, plan)| u64::from(plan.may_spend(now_ms, *spent))).sum::<u64>();
    }
    Done { operations: requests * CANDIDATES as u64, result: black_box(bids) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidate by candidate, which a sum over all would hide.
    #[test]
    fn all_forms_decide_alike() {
        let mut yes = 0;
        for (spent, any) in candidates() {
            let answer = any.may_spend(NOW_MS, spent);
            assert_eq!(answer, any.compiled().may_spend(NOW_MS, spent), "{any:?}");
            assert_eq!(answer, any.boxed().may_spend(NOW_MS, spent), "{any:?}");
            yes += usize::from(answer);
        }
        assert!((CANDIDATES / 10..CANDIDATES * 9 / 10).contains(&yes), "{yes} of {CANDIDATES}");
    }
}
