//! Clients of holds that end by time: one amount of several budgets under one token. Whatever crashes, a hold that a client was told of
//! lives until the end that it was told, is settled once, and its money is free or kept afterwards.

use std::collections::BTreeMap;

use ledger::{
    Action, Amount, Hold, Origin, Out, Record, Resolution, TimedAnswer, TimedAsk, TimedRequest,
    ToBank, ToWorker, Verdict, timed::CHOSEN,
};

use crate::Bug;
use crate::journal::Held;
use crate::rng::Rng;
use crate::world::World;

const DOOR: ledger::Door = ledger::Door::Spend;

/// A hold, and what its client was told of it.
#[derive(Debug, Default)]
struct TimedKnown {
    key: u128,
    amount: i64,
    until_ms: Option<u64>,
    settled: Option<Verdict>,
    /// With which amount, where its client heard that it was booked for this request.
    booked: Option<i64>,
    /// A settle was asked for, of which nobody may have heard.
    settle_asked: bool,
    release_asked: bool,
}

/// What is asked of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Open,
    Extend,
    Resolve(Action, i64),
}

/// An answer that waits for its seal: of which hold, what was asked, the stamp that counts, and the answer.
pub(crate) type Told = (usize, What, u64, Result<TimedAnswer, Resolution>);

#[derive(Debug)]
pub(crate) struct TimedClients {
    rng: Rng,
    holds: Vec<TimedKnown>,
}

/// What the records say of such holds, on one level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimedSums {
    /// Held, or settled within holds.
    pub(crate) within: i128,
    pub(crate) spent: i128,
    pub(crate) expired: i128,
}

/// Was a hold settled or released, and then forgotten before its end, because there was no room for another?
fn made_room(records: &[Record], key: u128) -> bool {
    let mut last = None;
    let ended = records.iter().any(|record| match record {
        Record::Timed(change) if change.row.hold.key == key => {
            last = Some(change.row.state);
            false
        }
        Record::NamedEnded { key: ended, .. } => *ended == key,
        _ => false,
    });
    let open = [Verdict::Granted, Verdict::Confirmed, Verdict::Expired];
    ended && last.is_some_and(|state| !open.contains(&state))
}

impl TimedClients {
    /// One world of three has some, but none with a fault planted elsewhere, and each with one planted in it.
    pub(crate) fn draw(seed: u64, bug: Option<Bug>) -> Option<TimedClients> {
        let mut rng = Rng::new(seed ^ 0x0074_696d_6564);
        let some = rng.chance(333);
        bug.map_or(some, |bug| bug == Bug::EndEarly)
            .then(|| TimedClients { rng, holds: Vec::new() })
    }
}

impl World {
    /// Somebody asks something of a hold that ends by time: a recent one mostly.
    pub(crate) fn send_timed(&mut self) {
        let refuse = self.journal.is_failing() || self.journal.is_full();
        let Some(worker) = self.awake_worker().filter(|_| self.timed.is_some() && !refuse) else {
            return;
        };
        let stamp_ms = self.read_clock(worker);
        let Some(timed) = &mut self.timed else { return };
        if !timed.rng.chance(80) || self.calm {
            return;
        }
        let opens = timed.holds.is_empty() || timed.rng.chance(300);
        if opens {
            let key = CHOSEN | timed.holds.len() as u128;
            timed.holds.push(TimedKnown { key, ..TimedKnown::default() });
        }
        let last = timed.holds.len() - 1;
        let index = if opens { last } else { last - timed.rng.index(timed.holds.len().min(12)) };
        let worker_ms = self.workers[worker].latest_ms.max(stamp_ms);
        let at_ms = self.workers[worker].judged(worker_ms);
        self.workers[worker].latest_ms = at_ms;
        let told = match opens || timed.rng.chance(250) {
            true => self.ask_timed(worker, index, opens, at_ms),
            false => self.resolve_timed(worker, index, at_ms),
        };
        self.journal.hold(Held::Timed(told));
    }

    fn ask_timed(&mut self, worker: usize, index: usize, opens: bool, at_ms: u64) -> Told {
        let Some(timed) = &mut self.timed else { unreachable!("asked by the caller") };
        let until_ms = at_ms + 1 + timed.rng.below(4_000);
        let known = &mut timed.holds[index];
        let ask = if opens {
            let mut budgets: Vec<u64> = Vec::new();
            for _ in 0..1 + timed.rng.index(3) {
                budgets.push(self.specs[timed.rng.index(self.specs.len())].id);
            }
            known.amount = timed.rng.between(1, 40);
            let amount = Amount::new(known.amount);
            let confirmed = timed.rng.chance(700);
            let state = if confirmed { Verdict::Confirmed } else { Verdict::Granted };
            TimedAsk::Open { key: known.key, budgets: budgets.into(), amount, until_ms, state }
        } else {
            let (hold, confirms) = (Hold::of_key(1, known.key), timed.rng.chance(200));
            TimedAsk::Extend { hold, until_ms, confirms }
        };
        let (origin, mut out) = (Origin { door: DOOR, request_id: 0 }, Out::default());
        let request = TimedRequest { ask, at_ms, origin, reply: 0, keyed: None };
        let worker = u16::try_from(worker).expect("few workers");
        let answer = self.bank.step_timed(worker, request, &mut out);
        self.check_noes(&mut out, 0);
        self.append(&mut out);
        (index, if opens { What::Open } else { What::Extend }, at_ms, Ok(answer))
    }

    fn resolve_timed(&mut self, worker: usize, index: usize, at_ms: u64) -> Told {
        let Some(timed) = &mut self.timed else { unreachable!("asked by the caller") };
        let known = &mut timed.holds[index];
        let action = match timed.rng.below(10) {
            0..6 => Action::Settle,
            6..8 => Action::Release,
            _ => Action::Confirm,
        };
        known.release_asked |= action == Action::Release;
        known.settle_asked |= action == Action::Settle;
        let amount = timed.rng.between(0, known.amount + known.amount / 4);
        let (hold, origin) = (Hold::of_key(1, known.key), Origin { door: DOOR, request_id: 0 });
        let spent = Amount::new(amount);
        let mut out = Out::default();
        let resolve = ToBank::Resolve { action, hold, amount: spent, at_ms, origin, reply: 0 };
        let worker = u16::try_from(worker).expect("few workers");
        self.bank.step(worker, resolve, &mut out);
        let at = out.messages.iter().position(|(_, m)| matches!(m, ToWorker::Resolved { .. }));
        let (_, answer) = out.messages.remove(at.expect("every resolve is answered"));
        let ToWorker::Resolved { resolution, .. } = answer else { unreachable!("found above") };
        self.check_noes(&mut out, 0);
        self.append(&mut out);
        (index, What::Resolve(action, amount), at_ms, Err(resolution))
    }

    /// A client hears what became of its request.
    pub(crate) fn timed_told(&mut self, told: Told) -> Result<(), String> {
        let Some(timed) = &mut self.timed else { return Ok(()) };
        let (index, what, at_ms, answer) = told;
        let known = &mut timed.holds[index];
        if matches!(&answer, Err(found) if found.verdict == Verdict::TooOld)
            && made_room(&self.model.records, known.key)
        {
            self.stats.one("timed: settled, or too late");
            return Ok(());
        }
        let alive = known.until_ms.is_some_and(|until_ms| at_ms < until_ms);
        let wrong = |known: &TimedKnown| Err(format!("{what:?} at {at_ms}: {answer:?}: {known:?}"));
        match (what, &answer) {
            (What::Open | What::Extend, Ok(Ok(found))) => {
                self.stats.one("timed: opened or extended");
                if known.until_ms.is_some_and(|before_ms| found.until_ms < before_ms) {
                    return wrong(known);
                }
                known.until_ms = Some(found.until_ms);
            }
            (What::Open, _) => self.stats.one("timed: refused"),
            (What::Extend, _) => {
                let is_over = known.settle_asked || known.release_asked;
                if alive && !is_over {
                    return wrong(known);
                }
            }
            (What::Resolve(Action::Settle, amount), Err(found)) => {
                let (verdict, repeat) = (found.verdict, found.is_repeat());
                let within =
                    if amount > known.amount { Verdict::SettledOver } else { Verdict::Settled };
                let first = known.settled.or(Some(verdict).filter(|_| repeat));
                let fits = match first {
                    Some(first) => repeat && verdict == first,
                    None => verdict == within || known.release_asked,
                };
                if alive && !fits {
                    return wrong(known);
                }
                let late = verdict == Verdict::SettledLate;
                self.stats.one(if late {
                    "timed: settled late"
                } else {
                    "timed: settled, or too late"
                });
                if verdict != Verdict::TooOld {
                    known.settled = Some(verdict);
                    if !repeat {
                        known.booked = Some(amount);
                    }
                }
            }
            (What::Resolve(..), Err(found)) => {
                let gone = [Verdict::Expired, Verdict::TooOld].contains(&found.verdict);
                if alive && gone && !known.settle_asked && !known.release_asked {
                    return wrong(known);
                }
            }
            _ => return wrong(known),
        }
        Ok(())
    }

    /// What the records say, by level.
    pub(crate) fn timed_sums(&self) -> BTreeMap<u64, TimedSums> {
        let mut levels: BTreeMap<u64, TimedSums> = BTreeMap::new();
        if self.timed.is_none() {
            return levels;
        }
        let mut rows = BTreeMap::new();
        for record in &self.model.records {
            if let Record::Timed(change) = record {
                rows.insert(change.row.hold.key, &change.row);
            }
        }
        for row in rows.values() {
            let is_expired = row.state == Verdict::Expired;
            for leg in &row.hold.legs {
                let [held, settled] =
                    [leg.amounts.hold, leg.amounts.spent[0]].map(|amount| i128::from(amount.get()));
                let spent: i128 = leg.amounts.spent.iter().map(|at| i128::from(at.get())).sum();
                for id in self.chain(leg.budget) {
                    let sums = levels.entry(id).or_default();
                    sums.within += settled + if is_expired { 0 } else { held };
                    sums.expired += if is_expired { held } else { 0 };
                    sums.spent += spent;
                }
            }
        }
        levels
    }

    /// Everything has come to rest: what clients heard is booked, once for each budget.
    pub(crate) fn check_timed(&mut self) -> Result<(), String> {
        let Some(timed) = &self.timed else { return Ok(()) };
        let mut ended = 0;
        for known in &timed.holds {
            let rows = self.model.records.iter().filter_map(|record| match record {
                Record::Timed(change) if change.row.hold.key == known.key => Some(change),
                _ => None,
            });
            let rows: Vec<_> = rows.collect();
            ended += u64::from(rows.iter().any(|change| change.row.state == Verdict::Expired));
            let Some(last) = rows.last() else { continue };
            let spent =
                |leg: &ledger::NamedLeg| leg.amounts.spent.iter().map(|at| at.get()).sum::<i64>();
            let wrong = last.row.hold.legs.iter().find(|leg| {
                let booked = spent(leg);
                let told = known.booked.is_some_and(|told| told != booked);
                told || booked > 0 && known.settled.is_none() && known.booked.is_some()
            });
            if let Some(leg) = wrong {
                return Err(format!("a hold that ends by time: {leg:?} is booked: {known:?}"));
            }
        }
        self.stats.count("timed: ended by time", ended);
        Ok(())
    }
}
