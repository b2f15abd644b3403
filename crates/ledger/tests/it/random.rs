//! Random rows of operations keep every promise that can be checked from outside.

use ledger::{
    Action, Amount, BudgetSpec, Claimed, Door, Hold, KeyBytes, Keyed, Line, NamedHold, NamedLeg,
    OnExpiry, Options, Origin, Record, Status, TimedAsk, Verdict, Windows, timed::CHOSEN,
};
use proptest::prelude::*;

use crate::bench::{Bench, child, options, spec};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Reserve { worker: usize, id: u64, amount: i64 },
    Undo { worker: usize, id: u64, amount: i64 },
    Resolve { pick: usize, action: Action, amount: i64 },
    Notice { pick: usize, amount: i64 },
    Click { pick: usize },
    Keyed { pick: usize, action: Action, amount: i64, key: u8, digest: u8 },
    Named { key: u128, ids: [u64; 2], hold: i64, spent: Option<i64> },
    EndNamed { key: u128 },
    Timed { ids: [Option<u64>; 2], amount: i64, ms: u64, state: Verdict },
    Extend { pick: usize, ms: u64, confirms: bool },
    Advance { ms: u64 },
    Limit { id: u64, limit: i64 },
    Daily { id: u64, daily: i64 },
    Pause { id: u64 },
    Policy { id: u64, tolerance_ppm: u32 },
    Reconcile { pick: Option<u64>, back_ms: u64 },
    Crash { lost: usize, win_notices: bool },
    NewKey { id: u8 },
    RetireKey { pick: usize },
    Operator,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let action = prop_oneof![Just(Action::Confirm), Just(Action::Settle), Just(Action::Release)];
    let keyed = action.clone();
    let (worker, id) = (0..2usize, 1..=4u64);
    prop_oneof![
        8 => (worker.clone(), id.clone(), 1..300i64)
            .prop_map(|(worker, id, amount)| Op::Reserve { worker, id, amount }),
        1 => (worker, id.clone(), 1..300i64)
            .prop_map(|(worker, id, amount)| Op::Undo { worker, id, amount }),
        8 => (0..50usize, action, 0..400i64)
            .prop_map(|(pick, action, amount)| Op::Resolve { pick, action, amount }),
        4 => (0..50usize, keyed, 0..400i64, 0..12u8, 0..2u8).prop_map(|(pick, action, amount, key, digest)| Op::Keyed { pick, action, amount, key, digest }),
        3 => (0..50usize, 0..400i64).prop_map(|(pick, amount)| Op::Notice { pick, amount }),
        4 => (0..50usize).prop_map(|pick| Op::Click { pick }),
        5 => (0..6u128, [1..=4u64, 1..=4u64], 0..400i64, proptest::option::of(0..400i64))
            .prop_map(|(key, ids, hold, spent)| Op::Named { key, ids, hold, spent }),
        2 => (0..6u128).prop_map(|key| Op::EndNamed { key }),
        4 => (proptest::option::of(1..=3u64), any::<bool>(), 1..300i64, 1..9_000u64, prop_oneof![Just(Verdict::Granted), Just(Verdict::Confirmed), Just(Verdict::Settled)])
            .prop_map(|(id, other, amount, ms, state)| Op::Timed { ids: [id, other.then_some(4)], amount, ms, state }),
        3 => (0..50usize, 1..9_000u64, any::<bool>()).prop_map(|(pick, ms, confirms)| Op::Extend { pick, ms, confirms }),
        6 => (0..300u64).prop_map(|ms| Op::Advance { ms }),
        1 => (1_000..90_000_000u64).prop_map(|ms| Op::Advance { ms }),
        1 => (id.clone(), 0..5_000i64).prop_map(|(id, limit)| Op::Limit { id, limit }),
        1 => (id.clone(), 0..2_000i64).prop_map(|(id, daily)| Op::Daily { id, daily }),
        1 => id.prop_map(|id| Op::Pause { id }),
        1 => (1..=4u64, prop_oneof![Just(0), Just(200_000), Just(1_000_000)])
            .prop_map(|(id, tolerance_ppm)| Op::Policy { id, tolerance_ppm }),
        1 => (proptest::option::of(1..=4u64), 0..20_000u64)
            .prop_map(|(pick, back_ms)| Op::Reconcile { pick, back_ms }),
        1 => (0..3usize, any::<bool>())
            .prop_map(|(lost, win_notices)| Op::Crash { lost, win_notices }),
        1 => any::<u8>().prop_map(|id| Op::NewKey { id }),
        1 => (0..3usize).prop_map(|pick| Op::RetireKey { pick }),
        1 => Just(Op::Operator),
    ]
}

fn specs() -> Vec<BudgetSpec> {
    let windows = Windows::daily(Some(Amount::new(700)));
    vec![
        spec(1, 5_000),
        BudgetSpec { on_expiry: OnExpiry::Hold, ..child(2, 3_000, 1) },
        child(3, 3_000, 2),
        BudgetSpec { windows, on_expiry: OnExpiry::Hold, ..spec(4, 4_000) },
    ]
}

pub(crate) struct Play {
    pub(crate) bench: Bench,
    specs: Vec<BudgetSpec>,
    holds: Vec<Hold>,
    /// Answers "booked now", summed by amount; the books must say the same.
    booked: i64,
}

impl Play {
    pub(crate) fn new() -> Play {
        let silent = Options { win_notices: false, ..options(2) };
        let bench = Bench::with(silent, &specs());
        Play { bench, specs: specs(), holds: Vec::new(), booked: 0 }
    }

    pub(crate) fn play(&mut self, op: &Op) {
        match *op {
            Op::Reserve { worker, id, amount } => {
                self.holds.extend(self.bench.reserve(worker, id, amount).ok());
            }
            Op::Undo { worker, id, amount } => {
                if let Ok(hold) = self.bench.reserve(worker, id, amount) {
                    let slot = self.bench.bank.slot(id).unwrap();
                    self.bench.purses[worker].undo(slot, &hold);
                }
            }
            Op::Resolve { pick, action, amount } => self.resolve(pick, action, amount),
            Op::Notice { pick, amount } => self.notice(pick, amount),
            Op::Click { pick } => self.click(pick),
            Op::Keyed { pick, action, amount, key, digest } => {
                self.keyed(pick, (action, amount), key.into(), digest.into());
            }
            Op::Named { key, ids, hold, spent } => self.say_named(key, ids, (hold, spent)),
            Op::EndNamed { key } => self.end_named(key),
            Op::Timed { ids, amount, ms, state } => self.open_timed(ids, amount, (ms, state)),
            Op::Extend { pick, ms, confirms } => {
                let place = self.holds.len().checked_sub(1 + pick);
                if let Some(hold) = place.map(|place| self.holds[place]) {
                    let until_ms = self.bench.now_ms + ms;
                    let _ = self.bench.timed(TimedAsk::Extend { hold, until_ms, confirms });
                }
            }
            Op::Advance { ms } => self.bench.advance(ms),
            Op::Limit { id, limit } => self.change(id, |spec| spec.limit = Amount::new(limit)),
            Op::Daily { id, daily } => {
                self.change(id, |spec| spec.windows = Windows::daily(Some(Amount::new(daily))))
            }
            Op::Pause { id } => self.change(id, |spec| {
                let active = spec.status == Status::Active;
                spec.status = if active { Status::Paused } else { Status::Active };
            }),
            Op::Policy { id, tolerance_ppm } => self.change(id, |spec| {
                spec.tolerance_ppm = tolerance_ppm;
                spec.on_expiry = match spec.on_expiry {
                    OnExpiry::Hold => OnExpiry::Release,
                    OnExpiry::Release => OnExpiry::Hold,
                };
            }),
            Op::Reconcile { pick, back_ms } => {
                let until_ms = self.bench.now_ms.saturating_sub(back_ms);
                self.bench.act(|bank, out| {
                    let slot = pick.and_then(|id| bank.slot(id));
                    bank.reconcile(slot, until_ms, out);
                });
            }
            Op::Crash { lost, win_notices } => self.crash(lost, win_notices),
            Op::NewKey { id } => self.bench.act(|bank, out| {
                let used = bank.keys().iter().any(|key| key.id == id);
                assert_eq!(bank.add_key(id, [id; 16].into(), out).is_err(), used);
            }),
            Op::RetireKey { pick } => self.bench.act(|bank, out| {
                let Some(id) = bank.keys().get(pick).map(|key| key.id) else { return };
                let mints = pick + 1 == bank.keys().len();
                assert_eq!(bank.retire_key(id, out).is_err(), mints);
            }),
            Op::Operator => self.bench.act(|bank, out| bank.note_operator("ada", "a look", out)),
        }
    }

    /// An ask, or a fact where something is spent.
    fn say_named(&mut self, key: u128, ids: [u64; 2], (hold, spent): (i64, Option<i64>)) {
        let before = self.bench.bank.named_hold(Door::Fix, key);
        let known = |id| {
            let legs = before.iter().flat_map(|hold| &hold.legs);
            legs.copied().find(|leg| leg.budget == id).map(|leg| leg.amounts).unwrap_or_default()
        };
        let mut legs = ids.map(|budget| NamedLeg { budget, amounts: known(budget) }).to_vec();
        legs.truncate(if ids[0] == ids[1] { 1 } else { 2 });
        let mut booked = 0;
        for leg in &mut legs {
            leg.amounts.hold = Amount::new(hold);
            if let Some(spent) = spent {
                let line = &mut leg.amounts.spent[usize::try_from(spent % 5).unwrap()];
                booked += spent - line.get();
                *line = Amount::new(spent);
            }
        }
        let hold = NamedHold { door: Door::Fix, key, label: "an order".into(), legs };
        let mut said = Ok(false);
        self.bench.act(|bank, out| {
            said = match spent {
                Some(_) => bank.state_named(hold, out),
                None => bank.ask_named(hold, out),
            };
        });
        self.booked += if said == Ok(true) { booked } else { 0 };
    }

    /// The same amount of one budget or two, whose parents are apart.
    fn open_timed(&mut self, ids: [Option<u64>; 2], amount: i64, (ms, state): (u64, Verdict)) {
        let budgets: Box<[u64]> = ids.iter().flatten().copied().collect();
        let legs = i64::try_from(budgets.len()).unwrap();
        let key = CHOSEN | (self.holds.len() + self.bench.records.len()) as u128;
        let (until_ms, amount) = (self.bench.now_ms + ms, Amount::new(amount));
        let opened = self.bench.timed(TimedAsk::Open { key, budgets, amount, until_ms, state });
        match opened {
            Ok(_) if state == Verdict::Settled => self.booked += legs * amount.get(),
            Ok(_) => self.holds.push(Hold::of_key(1, key)),
            Err(_) => {}
        }
    }

    /// What is booked for a hold of so many budgets.
    fn legs(&self, hold: &Hold) -> i64 {
        i64::try_from(self.bench.bank.slots_of(hold).count()).unwrap()
    }

    fn end_named(&mut self, key: u128) {
        self.bench.act(|bank, out| {
            if let Some(mut hold) = bank.named_hold(Door::Fix, key) {
                hold.legs.iter_mut().for_each(|leg| leg.amounts.hold = Amount::ZERO);
                bank.state_named(hold, out).unwrap();
            }
            bank.end_named(Door::Fix, key, out).unwrap();
        });
    }

    fn resolve(&mut self, pick: usize, action: Action, amount: i64) {
        let Some(hold) = self.holds.len().checked_sub(1 + pick).map(|i| self.holds[i]) else {
            return;
        };
        let (verdict, repeat) = self.bench.resolve(action, hold, amount);
        let settled =
            matches!(verdict, Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate);
        if settled && !repeat {
            self.booked += amount * self.legs(&hold);
        }
    }

    /// A billing notice.
    fn notice(&mut self, pick: usize, amount: i64) {
        let Some(hold) = self.holds.len().checked_sub(1 + pick).map(|i| self.holds[i]) else {
            return;
        };
        let (origin, now_ms) = (Origin { door: Door::Openrtb, request_id: 1 }, self.bench.now_ms);
        let before = self.bench.records.len();
        self.bench.resolve_from(origin, 0, Action::Settle, hold, amount, now_ms);
        let amount = Amount::new(amount);
        let resolution = self.bench.answer.unwrap();
        let booked = self.bench.records[before..].iter().filter_map(|record| match record {
            Record::Resolved { amount, .. } | Record::ToppedUp { amount, .. } => Some(*amount),
            Record::Timed(change) if !change.row.hold.legs.is_empty() => Some(amount),
            _ => None,
        });
        let booked: Vec<Amount> = booked.collect();
        match resolution.amount {
            Some(all) => {
                assert!(
                    all >= amount || self.bench.bank.timed_facts(&hold).is_some(),
                    "the highest price counts: {resolution:?}, {amount:?}"
                );
                assert_eq!(booked.is_empty(), resolution.is_repeat());
            }
            None => assert_eq!(booked, [], "{resolution:?}"),
        }
        self.booked +=
            booked.iter().map(|amount| amount.get()).sum::<i64>() * self.legs(&hold).max(1);
    }

    fn click(&mut self, pick: usize) {
        let Some(hold) = self.holds.len().checked_sub(1 + pick).map(|i| self.holds[i]) else {
            return;
        };
        let before = self.bench.records.len();
        let answer = self.bench.click(hold);
        let is_new = answer.verdict != Verdict::TooOld && !answer.is_repeat();
        assert_eq!(self.bench.records.len() - before, usize::from(is_new), "{answer:?}");
    }

    /// As [`Play::resolve`], of a request with a key; every claim is ended.
    fn keyed(&mut self, pick: usize, (action, amount): (Action, i64), key: u128, digest: u128) {
        let Some(hold) = self.holds.len().checked_sub(1 + pick).map(|i| self.holds[i]) else {
            return;
        };
        self.bench.act(|bank, out| bank.add_answer_secret(KeyBytes([7; 16]), out));
        if self.bench.claim(0, key, digest) != Some(Claimed::New) {
            return;
        }
        let before = self.bench.bank.counts().keys_kept;
        let (verdict, repeat) =
            self.bench.resolve_keyed(0, (action, hold, amount), key, &[digest.to_le_bytes()[0]]);
        let settled =
            matches!(verdict, Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate);
        if settled && !repeat {
            self.booked += amount * self.legs(&hold);
        }
        match self.bench.bank.counts().keys_kept > before {
            true => assert!(!repeat && self.bench.bank.claims() == 0),
            false => {
                let answer = Box::default();
                self.bench.step_keyed(0, Keyed::Answered { key, verdict, answer });
            }
        }
    }

    fn change(&mut self, id: u64, change: impl Fn(&mut BudgetSpec)) {
        self.specs.iter_mut().filter(|spec| spec.id == id).for_each(change);
        self.bench.configure(&self.specs);
    }

    /// Some of the last records are lost, but none whose answer went out: only fillings and the like are.
    fn crash(&mut self, lost: usize, win_notices: bool) {
        let tail = self.bench.records.iter().rev();
        let plain =
            tail.take_while(|record| matches!(record, ledger::Record::Retired { .. })).count();
        let records = self.bench.records.len() - lost.min(plain);
        self.bench.crash_with(Options { win_notices, ..options(2) }, records);
        self.bench.configure(&self.specs);
    }

    fn check(&self) {
        self.bench.check();
        let all = [1, 4].map(|id| {
            let slot = self.bench.bank.slot(id).unwrap();
            self.bench.bank.books(slot).spent().get()
        });
        assert_eq!(all.iter().sum::<i64>(), self.booked, "what was answered is what is booked");
        for spec in &self.specs {
            let slot = self.bench.bank.slot(spec.id).unwrap();
            let books = self.bench.bank.books(slot);
            for line in ledger::Bank::LINES.into_iter().filter(|line| *line != Line::Free) {
                assert!(books.line(line) >= Amount::ZERO);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn any_row_of_operations_keeps_the_books(ops in proptest::collection::vec(op(), 1..120)) {
        let mut play = Play::new();
        for op in &ops {
            play.play(op);
            play.bench.bank.audit().unwrap();
        }
        play.check();
        (0..6).for_each(|key| play.end_named(key));
        // At rest everything is free or spent.
        for spec in &mut play.specs {
            spec.status = Status::Paused;
        }
        play.bench.configure(&play.specs);
        play.bench.advance(500);
        play.bench.advance(40_000);
        play.check();
        let now_ms = play.bench.now_ms;
        play.bench.act(|bank, out| {
            bank.reconcile(None, now_ms, out);
        });
        play.bench.advance(1);
        play.check();
        prop_assert_eq!(play.bench.bank.grants(), 0);
        for id in 1..=4 {
            let [_, purses, held, suspended, expired, ..] = play.bench.lines(id);
            prop_assert_eq!((purses, held, suspended, expired), (0, 0, 0, 0), "budget {}", id);
        }
    }
}
