//! What happened in a run: counters of everything that a run should reach, and a figure over its whole course.

use std::collections::BTreeMap;

use ledger::{Bank, Clock, Counts, Period, Record, Verdict};

use crate::files::FAULTS;

/// Everything that is counted. The tests demand that a thousand seeds reach each of them.
pub const EVENTS: [&str; 159] = [
    "timed: opened or extended",
    "timed: refused",
    "timed: settled, or too late",
    "timed: settled late",
    "timed: ended by time",
    "named: granted",
    "named: purses have it",
    "named: refused",
    "named: busy",
    "named: refused by the journal",
    "named: fact beyond what is left",
    "named: said again",
    "named: ended",
    "named: a day began with open holds",
    "named: a week or month began with open holds",
    "named: limit lowered below what is open",
    "named: not kept",
    "named: torn group in the book",
    "named: answered early",
    "named: answered early, and lost",
    "named: lost by a crash",
    "named: never left",
    "named: stated at a start",
    "named: made at a start",
    "named: the book lost records",
    "named: in doubt",
    "crash in the book",
    "click: before its bill",
    "click: after its bill",
    "click: again",
    "click: never billed",
    "topped up",
    "settled with an amount that is not kept",
    "memo recorded",
    "memo known",
    "memo recorded with its money",
    "memo known with its money",
    "memo refused: journal",
    "order: granted",
    "order: first answer again",
    "order: key reused",
    "order: refused",
    "order: not kept, given back",
    "repeat kept under a key",
    "first answer again",
    "made: a budget",
    "made: a budget came back",
    "made: a budget ended",
    "made: ask granted",
    "made: nobody asks for a while",
    "ask granted",
    "ask refused",
    "ask refused: day exhausted",
    "ask refused: exhausted",
    "bank: exhausted",
    "bank: exhausted from an amount on",
    "ask refused: window exhausted",
    "ask that waits",
    "window added, changed or taken away",
    "minute rolled",
    "hour rolled",
    "ask refused: busy",
    "ask refused: journal",
    "ask granted while the disk is stuck",
    "pod granted",
    "pod refused and undone",
    "request lost",
    "request repeated",
    "request answered",
    "answer lost",
    "answer repeated",
    "confirmed",
    "released",
    "expired",
    "already settled",
    "already released",
    "settled",
    "settled over",
    "settled late",
    "settled late after release",
    "settled a hold of an earlier run",
    "settled while suspended",
    "too old",
    "refused: marks full",
    "refused: grants full",
    "refused: journal fails",
    "refused: journal full",
    "configuration refused: journal fails",
    "crash",
    "crash: records lost",
    "crash: unsealed records kept",
    "crash: unsealed records kept and lost",
    "crash: disk stuck",
    "crash: writer failing",
    "crash in the writer",
    "crash in a rotation",
    "crash in a preparation",
    "crash in a snapshot",
    "crash in a recovery",
    "recovery failed by the disk",
    "recovery: torn group cut",
    "recovery: snapshot used",
    "damage: refused",
    "damage: survived",
    "damage: an older snapshot used",
    "crash: the next run has other options",
    "crash: nothing lost, digests equal",
    "crash during a suspension",
    "configuration changed",
    "limit lowered below what is out",
    "budget ended or back",
    "flight moved",
    "day rolled",
    "week or month rolled",
    "billing lapsed",
    "expired: unconfirmed",
    "expired: confirmed",
    "expired: of an earlier run",
    "expiry policy changed",
    "settled after its time",
    "released after its time",
    "settled late after reconciliation",
    "reconciled",
    "reconciled by id",
    "reconciliation refused: journal fails",
    "expired money handed out again",
    "purse recalled",
    "clock went back",
    "clock jumped seconds",
    "clock jumped hours",
    "worker stalled",
    "token key retired",
    "segment begun",
    "segment prepared",
    "writer failed",
    "writer failed: disk full",
    "writer works again",
    "writer in doubt",
    "bank fenced",
    "bank replaced, and not told",
    "ask granted by a bank that was replaced",
    "ask refused: cut off",
    "bank stopped: the log forgot",
    "engine: request lost",
    "engine: answer lost",
    "engine: request late",
    "engine: request taken twice",
    "engine: away",
    "engine: forgot its tail",
    "engine: another bank began a run",
    "engine: stale read",
    "start: groups read from the engine",
    "start: the engine was filled up",
    "start: two histories, a person kept one",
    "writer beside the housekeeper",
    "housekeeper failed",
    "snapshot made",
    "segment removed by retention",
    "record",
];

/// What happened in a run, or in a row of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    counts: BTreeMap<&'static str, u64>,
    /// A figure over every answer and the final state: the same for every run of the same seed.
    pub digest: u64,
}

impl Stats {
    /// How often an event happened.
    ///
    /// # Panics
    /// If there is no such event in [`EVENTS`], and no such fault in [`FAULTS`].
    pub fn get(&self, event: &str) -> u64 {
        assert!(is_known(event), "{event} is not an event");
        self.counts.get(event).copied().unwrap_or(0)
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Stats) {
        for (event, count) in &other.counts {
            self.count(event, *count);
        }
        self.eat(other.digest);
    }

    pub(crate) fn one(&mut self, event: &'static str) {
        self.count(event, 1);
    }

    pub(crate) fn count(&mut self, event: &'static str, count: u64) {
        debug_assert!(is_known(event), "{event} is not an event");
        *self.counts.entry(event).or_default() += count;
    }

    /// Adds a word to the digest.
    pub(crate) fn eat(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    }

    /// An error of a disk.
    pub(crate) fn faults(&mut self, faults: &BTreeMap<&'static str, u64>) {
        faults.iter().for_each(|(fault, count)| self.count(fault, *count));
    }

    /// Counters of a bank whose run ends now.
    pub(crate) fn bank(&mut self, counts: Counts) {
        self.count("purse recalled", counts.recalls);
        self.count("clock went back", counts.clock_back);
        self.count("refused: marks full", counts.pages_full);
        self.count("refused: grants full", counts.grants_full);
        self.count("settled with an amount that is not kept", counts.amounts_full);
    }

    /// Everything that was written, at the end.
    pub(crate) fn records(&mut self, records: &[Record], bank: &Bank) {
        self.count("record", records.len() as u64);
        for record in records {
            match record {
                Record::DayRolled { .. } => self.one("day rolled"),
                Record::WindowRolled { period, .. } => self.one(match period {
                    Period::Minute => "minute rolled",
                    Period::Hour => "hour rolled",
                    _ => "week or month rolled",
                }),
                Record::BillingLapsed { amount, .. } if amount.get() > 0 => {
                    self.one("billing lapsed")
                }
                Record::Expired { clock, .. } => self.one(match clock {
                    Clock::Hold => "expired: unconfirmed",
                    Clock::Billing => "expired: confirmed",
                    Clock::Suspension => "expired: of an earlier run",
                }),
                _ => {}
            }
        }
        self.eat(bank.digest());
    }

    /// An answer that reached its client.
    pub(crate) fn answer(&mut self, verdict: Verdict, repeat: bool) {
        self.one("request answered");
        self.eat(u64::from(repeat) << 8 | verdict as u64);
        let event = match verdict {
            _ if repeat => "answer repeated",
            Verdict::Confirmed => "confirmed",
            Verdict::Released => "released",
            Verdict::Settled => "settled",
            Verdict::SettledOver => "settled over",
            Verdict::SettledLate => "settled late",
            Verdict::Expired => "expired",
            Verdict::AlreadySettled => "already settled",
            Verdict::AlreadyReleased => "already released",
            Verdict::TooOld => "too old",
            _ => return,
        };
        self.one(event);
    }
}

fn is_known(event: &str) -> bool {
    EVENTS.contains(&event) || FAULTS.contains(&event)
}
