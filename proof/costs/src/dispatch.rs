//! Static dispatch against `Box<dyn>`: where it is called once a merge, and where it is called for each of the
//! hundreds of candidates of a request.

use std::hint::black_box;

use gate_store::{Leveled, Policy, RunId, RunMeta, SizeTiered, TimeWindow};

use crate::Size;
use crate::rounds::{Case, Random, measure, table};

/// A compaction policy called directly and through a box, on lists of 10 to 200 runs.
#[must_use]
pub fn policies(size: Size) -> String {
    let hour = TimeWindow {
        window_ms: 3_600_000,
        lateness_ms: 3_600_000,
        keep_ms: 1_000_000_000,
        within: SizeTiered::default(),
    };
    // Level 1 holds whatever the list has.
    let leveled = Leveled { level1_bytes: u64::MAX, ..Leveled::default() };
    let mut text = String::new();
    for runs in [10, 50, 200] {
        text += &policy(size, "size-tiered", runs, SizeTiered::default());
        text += &policy(size, "leveled", runs, leveled);
        text += &policy(size, "time-window", runs, hour);
    }
    text
}

fn policy<P: Policy + Copy + 'static>(size: Size, name: &str, runs: u64, policy: P) -> String {
    let runs: Vec<RunMeta> = (0..runs).map(run).collect();
    let boxed: Box<dyn Policy> = black_box(Box::new(policy));
    let mut cases: Vec<Case<'_>> = vec![
        ("static".into(), Box::new(|| choose(&policy, &runs, size.calls))),
        ("Box<dyn Policy>".into(), Box::new(|| choose(&*boxed, &runs, size.calls))),
    ];
    let title = format!("Compaction policy, {name}, {} runs", runs.len());
    table(&title, "choice", &measure(size.rounds, &mut cases))
}

fn choose<P: Policy + ?Sized>(policy: &P, runs: &[RunMeta], calls: u64) -> u64 {
    for now_ms in 0..calls {
        black_box(policy.choose(black_box(runs), 1_000_000_000 + now_ms));
    }
    calls
}

/// Runs as a settled store has them: up to 60 each older one is twice as large, so that size-tiered looks at all and
/// chooses nothing; of 200 the newest are of like size, and it wants them merged. Each is alone in its hour.
fn run(number: u64) -> RunMeta {
    let bytes = 1_u64 << (60 - number.min(59));
    let window_ms = (number + 1) * 3_600_000;
    RunMeta {
        id: RunId(number),
        level: 1,
        window_ms,
        seq_max: number,
        records: bytes / 24,
        bytes,
        key_min: number << 32,
        key_max: (number << 32) + 1,
        time_min_ms: window_ms,
        time_max_ms: window_ms + 1,
    }
}

/// Candidates of a request.
const CANDIDATES: usize = 500;

/// May a candidate bid, as a plan of its kind says? The stand-in for whatever is asked for every candidate.
pub trait Strategy {
    /// The answer for what was spent so far, micros.
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool;
}

/// As fast as the limit allows.
#[derive(Clone, Copy, Debug)]
pub struct Asap {
    limit: i64,
}

/// Along a line.
#[derive(Clone, Copy, Debug)]
pub struct Even {
    limit: i64,
    from_ms: i64,
    micros_a_ms: i64,
}

/// Along a line that leads by some percent.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
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
pub enum AnyStrategy {
    /// See [`Asap`].
    Asap(Asap),
    /// See [`Even`].
    Even(Even),
    /// See [`Ahead`].
    Ahead(Ahead),
}

impl Strategy for AnyStrategy {
    #[inline]
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool {
        match self {
            AnyStrategy::Asap(own) => own.may_spend(now_ms, spent),
            AnyStrategy::Even(own) => own.may_spend(now_ms, spent),
            AnyStrategy::Ahead(own) => own.may_spend(now_ms, spent),
        }
    }
}

impl Strategy for Box<dyn Strategy> {
    #[inline]
    fn may_spend(&self, now_ms: i64, spent: i64) -> bool {
        (**self).may_spend(now_ms, spent)
    }
}

/// What was spent, and the plan.
type Candidate<S> = (i64, S);

/// A strategy asked for each of 500 candidates: one kind for all, and three kinds in no order.
#[must_use]
pub fn candidates(size: Size) -> String {
    let mut random = Random(7);
    let any: Vec<Candidate<AnyStrategy>> = (0..CANDIDATES).map(|_| any(&mut random)).collect();
    let even: Vec<Candidate<Even>> = any.iter().map(|(spent, any)| (*spent, even(*any))).collect();
    let one_enum = even.iter().map(|(spent, even)| (*spent, AnyStrategy::Even(*even)));
    let one_enum: Vec<Candidate<AnyStrategy>> = one_enum.collect();
    let (one_boxed, boxed) = (boxes(&one_enum), boxes(&any));
    let mut cases: Vec<Case<'_>> = vec![
        ("one kind: generic".into(), Box::new(|| ask(&even, size.calls))),
        ("one kind: enum".into(), Box::new(|| ask(&one_enum, size.calls))),
        ("one kind: Box<dyn>".into(), Box::new(|| ask(&one_boxed, size.calls))),
        ("three kinds: enum".into(), Box::new(|| ask(&any, size.calls))),
        ("three kinds: Box<dyn>".into(), Box::new(|| ask(&boxed, size.calls))),
    ];
    let title = format!("A strategy for each of {CANDIDATES} candidates");
    table(&title, "candidate", &measure(size.rounds, &mut cases))
}

fn ask<S: Strategy>(candidates: &[Candidate<S>], requests: u64) -> u64 {
    let mut bids = 0_u64;
    for now_ms in (5_000_000_i64..).zip(0..requests).map(|(now_ms, _)| now_ms) {
        let candidates = black_box(candidates).iter();
        bids +=
            candidates.map(|(spent, plan)| u64::from(plan.may_spend(now_ms, *spent))).sum::<u64>();
    }
    black_box(bids);
    requests * CANDIDATES as u64
}

fn any(random: &mut Random) -> Candidate<AnyStrategy> {
    let mut draw = |limit: u32| i64::from(u32::try_from(random.below(limit.into())).unwrap_or(0));
    let limit = 1_000_000 + draw(9_000_000);
    let plan = Even { limit, from_ms: draw(4_000_000), micros_a_ms: 1 + draw(3) };
    let any = match draw(3) {
        0 => AnyStrategy::Asap(Asap { limit }),
        1 => AnyStrategy::Even(plan),
        _ => AnyStrategy::Ahead(Ahead { even: plan, percent: draw(20) }),
    };
    (draw(10_000_000), any)
}

fn even(any: AnyStrategy) -> Even {
    match any {
        AnyStrategy::Asap(Asap { limit }) => Even { limit, from_ms: 0, micros_a_ms: 1 },
        AnyStrategy::Even(even) | AnyStrategy::Ahead(Ahead { even, .. }) => even,
    }
}

fn boxes(candidates: &[Candidate<AnyStrategy>]) -> Vec<Candidate<Box<dyn Strategy>>> {
    let boxed = |any: AnyStrategy| -> Box<dyn Strategy> {
        match any {
            AnyStrategy::Asap(own) => Box::new(own),
            AnyStrategy::Even(own) => Box::new(own),
            AnyStrategy::Ahead(own) => Box::new(own),
        }
    };
    candidates.iter().map(|(spent, any)| (*spent, boxed(*any))).collect()
}

#[cfg(test)]
mod tests {
    use gate_store::Choice;

    use super::*;

    /// The three forms must do the same work, or their times say nothing.
    #[test]
    fn generic_enum_and_box_decide_alike() {
        let mut random = Random(3);
        let any: Vec<Candidate<AnyStrategy>> = (0..CANDIDATES).map(|_| any(&mut random)).collect();
        let boxed = boxes(&any);
        let mut yes = 0;
        for ((spent, one), (_, other)) in any.iter().zip(&boxed) {
            let answer = one.may_spend(5_000_000, *spent);
            assert_eq!(answer, other.may_spend(5_000_000, *spent));
            yes += usize::from(answer);
        }
        assert!((CANDIDATES / 10..CANDIDATES * 9 / 10).contains(&yes), "{yes} of {CANDIDATES}");
    }

    #[test]
    fn the_run_lists_are_settled() {
        let runs: Vec<RunMeta> = (0..50).map(run).collect();
        assert_eq!(SizeTiered::default().choose(&runs, 1_000_000_000), Choice::Nothing);
    }
}
