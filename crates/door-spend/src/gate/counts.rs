//! What the door counts, a worker.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use counters::Definition;
use door_http::Refusal;
use wire::Verdict;

use crate::{CallKind, Fault, Outcome};

macro_rules! happenings {
    ($($name:ident = $word:literal, $doc:literal;)*) => {
        /// What happens beside outcomes of calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Happening { $(#[doc = $doc] $name,)* }

        impl Happening {
            /// What each happening's counter is, in the order of their numbers.
            pub const DEFINITIONS: [Definition; [$($word),*].len()] =
                [$(Definition::new("doors.spend", $word, $doc)),*];
        }
    };
}

happenings! {
    Batches = "batches", "Batches of calls.";
    Looks = "looks", "Requests for where a budget stands.";
    Filled = "waited_for_money", "Calls that waited for money that was not at hand.";
    Owners = "grants_asked", "Calls with a token whose grant this worker had not met; the bank was asked for its budget.";
    Repeats = "repeats", "Confirms, settles and releases that repeated an earlier one; nothing was booked.";
    Kept = "answers_again", "Calls that got the answer that was kept under their Idempotency-Key.";
    OutOfScope = "out_of_scope", "Calls that named a budget or a hold outside the scopes of their token; answered 404.";
    Full = "full", "Calls answered `busy` because too many of this worker wait for the bank.";
    UnderWay = "answered_under_way", "Requests answered `journal` because nothing could be sealed while they were under way; what became of them hears who repeats them.";
    Gone = "clients_gone", "Requests whose client was gone when the answer was there.";
}

const KINDS: usize = CallKind::ALL.len();
/// Outcomes: a verdict each, and a call that cannot be read.
const VERDICTS: usize = 256;

/// Counters of one worker.
#[derive(Debug)]
pub(crate) struct CallCounts {
    calls: [u64; KINDS],
    happenings: [u64; Happening::DEFINITIONS.len()],
    /// Of reserve and spend, by verdict.
    asks: [u64; VERDICTS],
    /// Of confirm, settle and release, by verdict.
    resolves: [u64; VERDICTS],
    faults: [u64; Fault::ALL.len()],
    refusals: [u64; Refusal::ALL.len()],
    /// Something changed since it was published.
    news: bool,
}

impl Default for CallCounts {
    fn default() -> CallCounts {
        CallCounts {
            calls: [0; KINDS],
            happenings: [0; Happening::DEFINITIONS.len()],
            asks: [0; VERDICTS],
            resolves: [0; VERDICTS],
            faults: [0; Fault::ALL.len()],
            refusals: [0; Refusal::ALL.len()],
            news: true,
        }
    }
}

impl CallCounts {
    pub(crate) fn add(&mut self, happening: Happening) {
        self.happenings[happening as usize] += 1;
        self.news = true;
    }

    /// A call has its outcome.
    #[inline]
    pub(crate) fn outcome(&mut self, kind: CallKind, outcome: &Outcome) {
        let verdict = match outcome {
            Outcome::Bad(why) => return self.fault(why.fault()),
            Outcome::Faulty(fault, _) => return self.fault(*fault),
            other => other.verdict().unwrap_or(Verdict::Busy),
        };
        self.happenings[Happening::Repeats as usize] += u64::from(outcome.is_repeat());
        self.calls[kind as usize] += 1;
        let row = if kind.asks() { &mut self.asks } else { &mut self.resolves };
        row[usize::from(verdict.as_raw())] += 1;
        self.news = true;
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
        self.news = true;
    }

    pub(crate) fn refusal(&mut self, why: Refusal) {
        self.refusals[why as usize] += 1;
        self.news = true;
    }

    /// Lets other threads see them. Nothing is done where nothing happened.
    pub(crate) fn publish(&mut self, seen: &SeenCalls) {
        if !std::mem::take(&mut self.news) {
            return;
        }
        let rows = [
            (&seen.calls, &self.calls[..]),
            (&seen.happenings, &self.happenings),
            (&seen.asks, &self.asks),
            (&seen.resolves, &self.resolves),
            (&seen.faults, &self.faults),
            (&seen.refusals, &self.refusals),
        ];
        for (seen, counts) in rows {
            seen.iter().zip(counts).for_each(|(seen, count)| seen.store(*count, Relaxed));
        }
    }
}

/// `CallCounts` for other threads.
#[derive(Debug)]
pub struct SeenCalls {
    calls: Vec<AtomicU64>,
    happenings: Vec<AtomicU64>,
    asks: Vec<AtomicU64>,
    resolves: Vec<AtomicU64>,
    faults: Vec<AtomicU64>,
    refusals: Vec<AtomicU64>,
}

impl Default for SeenCalls {
    fn default() -> SeenCalls {
        let row = |len| (0..len).map(|_| AtomicU64::new(0)).collect();
        SeenCalls {
            calls: row(KINDS),
            happenings: row(Happening::DEFINITIONS.len()),
            asks: row(VERDICTS),
            resolves: row(VERDICTS),
            faults: row(Fault::ALL.len()),
            refusals: row(Refusal::ALL.len()),
        }
    }
}

impl SeenCalls {
    /// How often it happened, as far as it was published.
    pub fn get(&self, happening: Happening) -> u64 {
        self.happenings[happening as usize].load(Relaxed)
    }

    /// Calls that ask for money, or those that say what becomes of it.
    pub(crate) fn calls(&self, asks: bool) -> u64 {
        let kinds = CallKind::ALL.into_iter().filter(|kind| kind.asks() == asks);
        kinds.map(|kind| self.calls[kind as usize].load(Relaxed)).fold(0, u64::saturating_add)
    }
}

/// A kind of thing that the door counts by its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallReasons {
    /// Calls by which.
    Calls,
    /// Reserve and spend by verdict.
    Asks,
    /// Confirm, settle and release by verdict.
    Resolves,
    /// Requests that were refused before they were calls.
    Faults,
    /// What the HTTP session refused.
    Refusals,
}

impl CallReasons {
    /// The sum of all workers, by reason.
    pub fn sums<'a>(
        self,
        workers: impl Iterator<Item = &'a SeenCalls> + Clone,
    ) -> Vec<(&'static str, u64)> {
        // An ask can also be told what its settle came to, and a resolve that nothing can be sealed: every verdict has a place.
        let verdicts =
            || Verdict::ALL.iter().map(|v| (v.name(), usize::from(v.as_raw()))).collect();
        type ReadRow = fn(&SeenCalls) -> &Vec<AtomicU64>;
        let (row, names): (ReadRow, Vec<(&'static str, usize)>) = match self {
            CallReasons::Calls => (|seen| &seen.calls, numbered(CallKind::ALL.map(CallKind::name))),
            CallReasons::Asks => (|seen| &seen.asks, verdicts()),
            CallReasons::Resolves => (|seen| &seen.resolves, verdicts()),
            CallReasons::Faults => {
                (|seen| &seen.faults, numbered(Fault::ALL.iter().map(|fault| fault.counter())))
            }
            CallReasons::Refusals => {
                (|seen| &seen.refusals, numbered(Refusal::ALL.map(Refusal::name)))
            }
        };
        let sum = |at: usize| {
            let counts = workers.clone().map(|seen| row(seen)[at].load(Relaxed));
            counts.fold(0, u64::saturating_add)
        };
        names.into_iter().map(|(name, at)| (name, sum(at))).collect()
    }
}

fn numbered(names: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, usize)> {
    names.into_iter().zip(0..).collect()
}

/// The sum of all workers' happenings, in the order of [`Happening::DEFINITIONS`].
pub fn happenings<'a>(workers: impl Iterator<Item = &'a SeenCalls>) -> Vec<u64> {
    let mut sums = vec![0_u64; Happening::DEFINITIONS.len()];
    for seen in workers {
        sums.iter_mut().zip(&seen.happenings).for_each(|(sum, seen)| *sum += seen.load(Relaxed));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_comes_out_under_its_name() {
        let (mut counts, seen) = (CallCounts::default(), SeenCalls::default());
        counts.outcome(CallKind::Reserve, &Outcome::refused(Verdict::Exhausted));
        let (amount, unit) = (money::Amount::new(5), money::Unit::Count);
        let verdict = Verdict::Settled;
        let settled = Outcome::Settled { verdict, amount: Some(amount), unit, repeat: true };
        counts.outcome(CallKind::Settle, &settled);
        counts.outcome(CallKind::Spend, &Outcome::Spent { verdict, amount, unit });
        counts.add(Happening::Kept);
        counts.fault(Fault::Host);
        counts.refusal(Refusal::BadGzip);
        counts.publish(&seen);
        let both = [&seen, &seen];
        let counted = |reasons: CallReasons| -> Vec<(&str, u64)> {
            reasons.sums(both.into_iter()).into_iter().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(counted(CallReasons::Calls), [("reserve", 2), ("settle", 2), ("spend", 2)]);
        assert_eq!(counted(CallReasons::Asks), [("exhausted", 2), ("settled", 2)]);
        assert_eq!(counted(CallReasons::Resolves), [("settled", 2)]);
        assert_eq!(counted(CallReasons::Faults), [("host", 2)]);
        assert_eq!(counted(CallReasons::Refusals), [("bad_gzip", 2)]);
        assert_eq!((seen.get(Happening::Repeats), seen.get(Happening::Kept)), (1, 1));
        assert_eq!((seen.calls(true), seen.calls(false)), (2, 1));
        assert_eq!(happenings(both.into_iter())[Happening::Repeats as usize], 2);
    }
}
