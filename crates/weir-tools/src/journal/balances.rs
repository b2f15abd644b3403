//! A second reader of the records, with arithmetic of its own.
//!
//! It shares no code with the bank: balances are plain `i128`, a grant is what was handed out and not yet accounted
//! for, and every record moves money between lines. What the bank and this one agree on, two programs found.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ledger::{
    Bank, Clock, Door, Hold, Line, NamedHold, NamedLeg, Part, Record, Stage, TimedChange, Verdict,
};
use money::Unit;
use wire::Handle;

/// What was found wrong is told up to so many times; all are counted.
const TOLD_MAX: usize = 100;

const LINES: usize = Bank::LINES.len();
/// In the order of [`Bank::LINES`].
pub(super) type Lines = [i128; LINES];
/// What is held for a leg of a named hold, and what is spent in the order of [`Line::SPENT`].
type Said = [i128; 6];

const fn at(line: Line) -> usize {
    line as usize
}

fn said(leg: &NamedLeg) -> Said {
    let [settled, over, late, inferred, unknown] =
        leg.amounts.spent.map(|amount| amount.get().into());
    [leg.amounts.hold.get().into(), settled, over, late, inferred, unknown]
}

/// One budget as the records tell it.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) id: u64,
    /// The last one that the records tell.
    pub(super) handle: Option<Handle>,
    pub(super) unit: Unit,
    pub(super) limit: i128,
    pub(super) lines: Lines,
    /// What became of the money handed out on the present day.
    pub(super) day_lines: Lines,
    /// Settles of its own grants, not of those under it.
    pub(super) settles: u64,
    daily: Option<i128>,
    /// It has windows: then what is kept of it when it ends tells of its day, too.
    windowed: bool,
    day: (u64, u64),
    /// What named holds have, those under it included.
    named_held: i128,
    /// The same of those that ended by time.
    named_expired: i128,
    tolerance_ppm: i128,
    /// By how much the free line may be below zero: lowered limits, and what it was at the start.
    lowered: i128,
    /// Itself and those above it.
    levels: Vec<usize>,
    pub(super) fate: Fate,
}

/// Of a budget that was made on its first ask; others are always live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Live,
    /// It ended, and the bank keeps what it spent, if it spent anything.
    Idle,
    /// It ended, and the bank keeps nothing.
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Retired,
    Suspended,
    /// It was suspended, and what it had is kept.
    Expired,
}

/// A grant that is not closed.
#[derive(Clone, Debug)]
struct Lot {
    account: usize,
    /// The day, on each level, that its spend belongs to.
    days: Vec<u64>,
    out: i128,
    held: i128,
    /// Kept of holds whose time is over.
    expired: i128,
    /// Holds with deadlines up to here, that nobody spoke of, are among these...
    expired_until: u64,
    /// ...and so are confirmed ones with these billing deadlines.
    unbilled: BTreeSet<u64>,
    /// The same as a snapshot tells it, rounded up, and the billing deadlines that were still to come.
    unbilled_before: BTreeSet<u64>,
    unbilled_after: BTreeSet<u64>,
    billing_ms: u64,
    phase: Phase,
    marks: HashMap<u32, u8>,
    /// Holds that were clicked.
    clicked: HashSet<u32>,
}

/// Marks as in a snapshot.
const CONFIRMED: u8 = 1;
const SETTLED: [u8; 4] = [2, 3, 4, 6];
const RELEASED: u8 = 5;
const MOVED: u8 = 7;
/// Beside one of them.
const CLICKED: u8 = 8;
/// Deadlines of a snapshot's expired sums are rounded up to multiples of this.
const ROUNDED_MS: u64 = 10_000;

/// Where a hold that ends by time has its money.
fn line_of(state: Verdict) -> Line {
    if state == Verdict::Expired { Line::Expired } else { Line::Held }
}

/// All balances.
#[derive(Clone, Debug, Default)]
pub(super) struct Balances {
    pub(super) accounts: Vec<Account>,
    by_id: HashMap<u64, usize>,
    lots: HashMap<u64, Lot>,
    /// By door and key: what is held and spent for each budget.
    /// The line that they hold their money on is before.
    named: BTreeMap<(Door, u128), (Line, BTreeMap<u64, Said>)>,
    pub(super) records: u64,
    /// Holds that the records settle a second time.
    pub(super) settled_twice: u64,
    /// Grants of money that was not free.
    pub(super) overspends: u64,
    pub(super) wrong: u64,
    pub(super) told: Vec<String>,
    sequence: u64,
    /// Of the present run.
    billing_ms: u64,
}

impl Balances {
    /// The balances of a snapshot.
    pub(super) fn of(bank: &Bank) -> Balances {
        let mut balances = Balances::default();
        let mut last = (0, 0);
        bank.parts(&mut |part| match part {
            Part::Budget { spec } => last.0 = balances.budget(&spec),
            Part::Books { day_start_ms, day_end_ms, lines, day_lines, .. } => {
                let account = &mut balances.accounts[last.0];
                account.lines = lines.map(|line| line.get().into());
                // All but the free line.
                account.day_lines = [0; LINES];
                for (line, amount) in account.day_lines.iter_mut().skip(1).zip(day_lines) {
                    *line = amount.get().into();
                }
                account.day = (day_start_ms, day_end_ms);
                account.lowered = (-account.lines[at(Line::Free)]).max(0);
            }
            Part::Dormant(dormant) => balances.dormant(&dormant),
            Part::Grant { grant, budget, .. } => {
                last.1 = grant;
                let Some(account) = balances.by_id.get(&budget).copied() else {
                    return balances.tell(format!("grant {grant} of the unknown budget {budget}"));
                };
                if let Some(lot) = Lot::of(account, &part) {
                    balances.lots.insert(grant, lot);
                }
            }
            Part::Marks { page, marks, .. } => {
                if let Some(lot) = balances.lots.get_mut(&last.1) {
                    for (index, byte) in (0u32..).zip(marks) {
                        for (seq, mark) in [(2 * index, byte & 0xF), (2 * index + 1, byte >> 4)] {
                            let seq = page * 256 + seq;
                            if mark & CLICKED != 0 {
                                lot.clicked.insert(seq);
                            }
                            if mark & !CLICKED != 0 {
                                lot.marks.insert(seq, mark & !CLICKED);
                            }
                        }
                    }
                }
            }
            Part::Head { billing_ms, .. } => balances.billing_ms = billing_ms,
            Part::Key(_)
            | Part::AnswerSecret(_)
            | Part::Answer { .. }
            | Part::Memo { .. }
            | Part::End { .. } => {}
            Part::Named(hold) => balances.restored(&hold, Line::Held),
            Part::Timed(row) => balances.restored(&row.hold, line_of(row.state)),
        });
        balances
    }

    /// Takes the next record.
    pub(super) fn take(&mut self, sequence: u64, record: &Record) {
        self.sequence = sequence;
        self.records += 1;
        match record {
            Record::RunStarted { billing_ms, .. } => self.run_started(*billing_ms),
            Record::Budget { spec } => {
                self.budget(spec);
            }
            Record::DayRolled { id, start_ms, end_ms } => self.day(*id, *start_ms, *end_ms),
            Record::Granted { grant, budget, amount, .. } => {
                self.granted(*grant, *budget, amount.get().into());
            }
            Record::Returned { grant, amount } => self.returned(*grant, amount.get().into()),
            Record::Resolved { .. } => self.resolved(record),
            Record::ToppedUp { hold, verdict, amount, .. } => {
                self.topped_up(hold, *verdict, amount.get().into(), record.of_rest().get().into());
            }
            Record::Clicked { hold, billed, .. } => self.clicked(hold, *billed),
            Record::BillingLapsed { grant, amount, .. } => {
                let amount = i128::from(amount.get());
                self.with(*grant, |lot| lot.held -= amount);
                self.shift(*grant, Line::Held, Line::Free, amount);
            }
            Record::Expired { grant, clock, deadline_ms, amount } => {
                self.expired(*grant, *clock, *deadline_ms, amount.get().into());
            }
            Record::Reconciled { grant, amount, .. } => {
                let amount = i128::from(amount.get());
                self.with(*grant, |lot| lot.expired -= amount);
                self.shift(*grant, Line::Expired, Line::Free, amount);
            }
            Record::Retired { grant, .. } => self.with(*grant, |lot| lot.phase = Phase::Retired),
            Record::Resumed { grant, amount } => {
                self.returned(*grant, amount.get().into());
                self.with(*grant, |lot| lot.phase = Phase::Retired);
            }
            Record::GrantClosed { grant } => match self.lots.remove(grant) {
                Some(lot) if lot.out == 0 && lot.held == 0 && lot.expired == 0 => {}
                _ => self.tell(format!("grant {grant} is closed with money in it, or not known")),
            },
            Record::Suspended { grant, amount, .. } => {
                let out = self.lots.get(grant).map(|lot| lot.out);
                if out != Some(amount.get().into()) {
                    self.tell(format!("grant {grant} has {out:?} out, the trail says {amount:?}"));
                }
            }
            // Their accounts stay: what they spent is part of what was spent.
            Record::BudgetIdled { id } => self.ended(*id, Fate::Idle),
            Record::BudgetForgotten { id } => self.ended(*id, Fate::Forgotten),
            Record::Named { hold, fact, opens, .. } => self.named(hold, *fact, *opens),
            Record::Timed(change) => self.timed(change),
            Record::NamedEnded { door, key, .. } => match self.named.remove(&(*door, *key)) {
                Some((_, legs)) if legs.values().all(|said| said[0] == 0) => {}
                _ => self.tell(format!("named hold {key:032x} ends with money, or is not known")),
            },
            Record::BudgetEnded { .. }
            | Record::PeriodRolled { .. }
            | Record::WindowRolled { .. }
            | Record::KeyAdded { .. }
            | Record::Beat { .. }
            | Record::Handover { .. }
            | Record::Kept { .. }
            | Record::KeyRetired { .. }
            | Record::AnswerSecret { .. }
            | Record::Memo { .. }
            | Record::Operator { .. }
            | Record::Edited { .. } => {}
        }
    }

    fn ended(&mut self, id: u64, fate: Fate) {
        let Some(index) = self.by_id.get(&id) else {
            return self.tell(format!("budget {id} is not known"));
        };
        let account = &mut self.accounts[*index];
        // What it spent is all its limit until it comes back.
        account.limit -= account.lines[at(Line::Free)];
        account.lines[at(Line::Free)] = 0;
        if !account.windowed && account.day.0 == account.day.1 {
            (account.day, account.day_lines) = ((0, 0), [0; LINES]);
        }
        account.fate = fate;
    }

    fn tell(&mut self, text: String) {
        self.wrong += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(format!("record {}: {text}", self.sequence));
        }
    }

    fn with(&mut self, grant: u64, change: impl FnOnce(&mut Lot)) {
        match self.lots.get_mut(&grant) {
            Some(lot) => change(lot),
            None => self.tell(format!("grant {grant} is not known")),
        }
    }

    fn budget(&mut self, spec: &ledger::BudgetSpec) -> usize {
        let (limit, daily) =
            (i128::from(spec.limit.get()), spec.windows.day_limit().map(|d| d.get().into()));
        let above = spec.parent.and_then(|parent| self.by_id.get(&parent).copied());
        let above = above.map(|parent| self.accounts[parent].levels.clone()).unwrap_or_default();
        if let Some(index) = self.by_id.get(&spec.id).copied() {
            let levels = std::iter::once(index).chain(above).collect();
            let account = &mut self.accounts[index];
            account.lowered += (account.limit - limit).max(0);
            account.lines[at(Line::Free)] += limit - account.limit;
            (account.limit, account.daily) = (limit, daily);
            account.windowed = !spec.windows.all().is_empty();
            account.handle.clone_from(&spec.handle);
            account.tolerance_ppm = spec.tolerance_ppm.into();
            // One that comes back may have another parent.
            account.levels = levels;
            account.fate = Fate::Live;
            return index;
        }
        let index = self.accounts.len();
        let mut lines = [0; LINES];
        lines[at(Line::Free)] = limit;
        self.accounts.push(Account {
            id: spec.id,
            handle: spec.handle.clone(),
            unit: spec.unit,
            limit,
            lines,
            day_lines: [0; LINES],
            settles: 0,
            daily,
            windowed: !spec.windows.all().is_empty(),
            day: (0, 0),
            named_held: 0,
            named_expired: 0,
            tolerance_ppm: spec.tolerance_ppm.into(),
            lowered: 0,
            levels: std::iter::once(index).chain(above).collect(),
            fate: Fate::Live,
        });
        self.by_id.insert(spec.id, index);
        index
    }

    /// A budget that ended: what it spent is all its limit until it comes back.
    fn dormant(&mut self, dormant: &ledger::Dormant) {
        let mut lines = [0; LINES];
        for (line, spent) in Line::SPENT.into_iter().zip(dormant.spent) {
            lines[at(line)] = spent.get().into();
        }
        let index = self.accounts.len();
        let mut day_lines = [0; LINES];
        let mut day = (0, 0);
        if let Some(windows) = &dormant.windows {
            day = (windows.day.start.ms(), windows.day.end.ms());
            for (line, spent) in Line::SPENT.into_iter().zip(windows.day_spent) {
                day_lines[at(line)] = spent.get().into();
            }
        }
        self.accounts.push(Account {
            id: dormant.id,
            handle: Some(dormant.handle.clone()),
            unit: dormant.unit,
            limit: lines.iter().sum(),
            lines,
            day_lines,
            settles: 0,
            daily: None,
            windowed: dormant.windows.is_some(),
            day,
            named_held: 0,
            named_expired: 0,
            tolerance_ppm: 0,
            lowered: 0,
            levels: vec![index],
            fate: Fate::Idle,
        });
        self.by_id.insert(dormant.id, index);
    }

    fn day(&mut self, id: u64, start_ms: u64, end_ms: u64) {
        let Some(index) = self.by_id.get(&id).copied() else {
            return self.tell(format!("budget {id} is not known"));
        };
        let account = &mut self.accounts[index];
        if start_ms >= account.day.1 {
            account.day_lines = [0; LINES];
            account.day_lines[at(Line::Held)] = account.named_held;
            account.day_lines[at(Line::Expired)] = account.named_expired;
        }
        account.day = (start_ms, end_ms);
    }

    fn run_started(&mut self, billing_ms: u64) {
        self.billing_ms = billing_ms;
        let over = |lot: &Lot| match lot.phase {
            Phase::Open => true,
            Phase::Retired => lot.out > 0,
            Phase::Suspended | Phase::Expired => false,
        };
        let lots: Vec<(u64, i128)> =
            self.lots.iter().filter(|(_, lot)| over(lot)).map(|(n, lot)| (*n, lot.out)).collect();
        for (grant, out) in lots {
            self.shift(grant, Line::Purses, Line::Suspended, out);
            self.with(grant, |lot| lot.phase = Phase::Suspended);
        }
    }

    fn granted(&mut self, grant: u64, budget: u64, amount: i128) {
        let Some(account) = self.by_id.get(&budget).copied() else {
            return self.tell(format!("grant {grant} of the unknown budget {budget}"));
        };
        let accounts = &self.accounts;
        let lot = self.lots.entry(grant).or_insert_with(|| {
            let days =
                accounts[account].levels.iter().map(|level| accounts[*level].day.0).collect();
            Lot::new(account, days, self.billing_ms)
        });
        lot.out += amount;
        self.shift(grant, Line::Free, Line::Purses, amount);
        if amount > 0 {
            self.check_beyond(account, || format!("grant {grant} took {amount}"));
        }
    }

    /// Money that is handed out must be there, on every level.
    fn check_beyond(&mut self, account: usize, what: impl Fn() -> String) {
        let levels = self.accounts[account].levels.clone();
        if let Some(level) = levels.into_iter().find(|level| self.accounts[*level].is_beyond()) {
            self.overspends += 1;
            let id = self.accounts[level].id;
            self.tell(format!("{} that budget {id} did not have", what()));
        }
    }

    fn named(&mut self, hold: &NamedHold, fact: bool, opens: bool) {
        self.said(hold, (Line::Held, fact), opens);
    }

    /// A hold that ends by time: what it holds moves to the line of expired money when that is over.
    fn timed(&mut self, change: &TimedChange) {
        let (row, line) = (&change.row, line_of(change.row.state));
        if let Some(hold) = change.moved {
            self.moved(&hold);
        }
        let key = (row.hold.door, row.hold.key);
        let expires = line == Line::Expired
            && self.named.get(&key).is_some_and(|(before, _)| *before == Line::Held);
        let known = self.named.get(&key).map(|(_, legs)| legs.clone()).unwrap_or_default();
        if expires {
            for leg in &row.hold.legs {
                let held = i128::from(leg.amounts.hold.get());
                let before = known.get(&leg.budget).map_or(0, |said| said[0]);
                if held != 0 && held != before {
                    self.tell(format!(
                        "named hold {:032x} expires with what it did not hold",
                        key.1
                    ));
                }
                let Some(account) = self.by_id.get(&leg.budget).copied() else { continue };
                for level in self.accounts[account].levels.clone() {
                    self.accounts[level].expire_named(held);
                }
            }
        }
        // What it gives back, or books, leaves the line that it was on.
        let from = self.named.get(&key).map_or(Line::Held, |(before, _)| *before);
        self.said(&row.hold, (from, change.moved.is_some()), change.opens);
        if let Some((of, _)) = self.named.get_mut(&key) {
            *of = line;
        }
    }

    /// A hold of a grant gives its money to one that ends by time.
    fn moved(&mut self, hold: &Hold) {
        let (amount, seq) = (i128::from(hold.amount.get()), hold.seq);
        let Some(lot) = self.lots.get(&hold.grant) else {
            return self.tell(format!("grant {} is not known", hold.grant));
        };
        match lot.marks.get(&seq).copied().unwrap_or(0) {
            0 => self.returned(hold.grant, amount),
            CONFIRMED => {
                self.with(hold.grant, |lot| lot.held -= amount);
                self.shift(hold.grant, Line::Held, Line::Free, amount);
            }
            _ => self.tell(format!("hold {}.{seq} moves, and was over", hold.grant)),
        }
        self.with(hold.grant, |lot| {
            lot.marks.insert(seq, MOVED);
        });
    }

    fn said(&mut self, hold: &NamedHold, (line, fact): (Line, bool), opens: bool) {
        let (place, key) = ((hold.door, hold.key), hold.key);
        if opens == self.named.contains_key(&place) {
            self.tell(format!("named hold {key:032x} begins twice, or was not there before"));
        }
        let mut raised = Vec::new();
        for leg in &hold.legs {
            let Some(account) = self.by_id.get(&leg.budget).copied() else {
                self.tell(format!("named hold {key:032x} of the unknown budget {}", leg.budget));
                continue;
            };
            let said = said(leg);
            let (_, row) = self.named.entry(place).or_insert_with(|| (line, BTreeMap::new()));
            let before = row.insert(leg.budget, said).unwrap_or_default();
            for level in self.accounts[account].levels.clone() {
                let negative = self.accounts[level].say(before, said, (line, fact));
                if negative {
                    let id = self.accounts[level].id;
                    self.tell(format!(
                        "budget {id}: named hold {key:032x} takes what is not there"
                    ));
                }
            }
            if !fact && said[0] > before[0] {
                raised.push(account);
            }
        }
        for account in raised {
            self.check_beyond(account, || format!("named hold {key:032x} took what"));
        }
    }

    /// Of a snapshot, whose books have its money.
    fn restored(&mut self, hold: &NamedHold, line: Line) {
        for leg in &hold.legs {
            let place = (hold.door, hold.key);
            let (_, legs) = self.named.entry(place).or_insert_with(|| (line, BTreeMap::new()));
            legs.insert(leg.budget, said(leg));
            let Some(account) = self.by_id.get(&leg.budget).copied() else { continue };
            for level in self.accounts[account].levels.clone() {
                *self.accounts[level].named_on(line) += i128::from(leg.amounts.hold.get());
            }
        }
    }

    fn returned(&mut self, grant: u64, amount: i128) {
        let from = self.line_out(grant);
        self.with(grant, |lot| lot.out -= amount);
        self.shift(grant, from, Line::Free, amount);
    }

    fn expired(&mut self, grant: u64, clock: Clock, deadline_ms: u64, amount: i128) {
        let from = match clock {
            Clock::Hold => Line::Purses,
            Clock::Billing => Line::Held,
            Clock::Suspension => Line::Suspended,
        };
        self.with(grant, |lot| {
            lot.expired += amount;
            match clock {
                Clock::Hold => {
                    lot.out -= amount;
                    lot.expired_until = lot.expired_until.max(deadline_ms);
                }
                Clock::Billing => {
                    lot.held -= amount;
                    lot.unbilled.insert(deadline_ms);
                }
                Clock::Suspension => {
                    lot.out -= amount;
                    lot.phase = Phase::Expired;
                }
            }
        });
        self.shift(grant, from, Line::Expired, amount);
    }

    /// The line that a grant's unaccounted money stands on.
    fn line_out(&self, grant: u64) -> Line {
        let suspended = |lot: &Lot| lot.phase == Phase::Suspended;
        if self.lots.get(&grant).is_some_and(suspended) { Line::Suspended } else { Line::Purses }
    }

    fn resolved(&mut self, record: &Record) {
        let Record::Resolved { hold, verdict, amount, keeps_rest, clicked, .. } = record else {
            return;
        };
        if *verdict == Verdict::Granted {
            // The answer to a reservation with a key: no money moves.
            return;
        }
        let (grant, amount) = (hold.grant, i128::from(amount.get()));
        let held = i128::from(hold.amount.get());
        let Some(lot) = self.lots.get_mut(&grant) else {
            return self.tell(format!("grant {grant} is not known"));
        };
        let account = lot.account;
        let before = lot.marks.get(&hold.seq).copied().unwrap_or(0);
        let mark = match verdict {
            Verdict::Confirmed => CONFIRMED,
            Verdict::Released => RELEASED,
            Verdict::Settled => SETTLED[0],
            Verdict::SettledOver => SETTLED[1],
            _ => SETTLED[2],
        };
        lot.marks.insert(hold.seq, mark);
        if *clicked != (SETTLED.contains(&mark) && lot.clicked.contains(&hold.seq)) {
            let seq = hold.seq;
            self.tell(format!(
                "grant {grant}, hold {seq}: a click is counted wrongly with its bill"
            ));
        }
        if SETTLED.contains(&mark) {
            self.accounts[account].settles += 1;
            if SETTLED.contains(&before) {
                self.settled_twice += 1;
                self.tell(format!("grant {grant}, hold {}: settled twice", hold.seq));
            }
        }
        if mark == SETTLED[2] {
            return self.shift(grant, Line::Free, Line::Late, amount);
        }
        let from = self.lots.get(&grant).map_or(Line::Purses, |lot| lot.line_of(hold, before));
        self.with(grant, |lot| match from {
            Line::Held => lot.held -= held,
            Line::Expired => lot.expired -= held,
            _ => lot.out -= held,
        });
        match mark {
            CONFIRMED => {
                self.with(grant, |lot| lot.held += held);
                self.shift(grant, from, Line::Held, held);
            }
            RELEASED => self.shift(grant, from, Line::Free, held),
            _ => {
                let within = amount.min(held);
                self.shift(grant, from, Line::Settled, within);
                if *keeps_rest {
                    self.with(grant, |lot| lot.held += held - within);
                    self.shift(grant, from, Line::Held, held - within);
                } else {
                    self.shift(grant, from, Line::Free, held - within);
                }
                self.shift(grant, Line::Free, Line::OverSettled, amount - within);
            }
        }
    }

    /// A click: the first of its hold, which is billed, or counts once it is.
    fn clicked(&mut self, hold: &Hold, billed: bool) {
        let (grant, seq) = (hold.grant, hold.seq);
        let Some(lot) = self.lots.get_mut(&grant) else {
            return self.tell(format!("grant {grant} is not known"));
        };
        let is_billed = lot.marks.get(&seq).is_some_and(|mark| SETTLED.contains(mark));
        if !lot.clicked.insert(seq) || billed != is_billed {
            self.tell(format!(
                "grant {grant}, hold {seq}: clicked twice, or counted before its bill"
            ));
        }
    }

    /// A later price of a hold that is settled: one settle, whose difference is of its rest, above the hold, or late.
    fn topped_up(&mut self, hold: &Hold, verdict: Verdict, amount: i128, of_rest: i128) {
        let (grant, seq) = (hold.grant, hold.seq);
        let (mark, to) = match verdict {
            Verdict::SettledLate => (SETTLED[2], Line::Late),
            Verdict::Settled => (SETTLED[0], Line::Settled),
            _ => (SETTLED[1], Line::OverSettled),
        };
        let before = self.lots.get_mut(&grant).and_then(|lot| lot.marks.insert(seq, mark));
        if !before.is_some_and(|before| SETTLED.contains(&before)) {
            return self.tell(format!("grant {grant}, hold {seq}: topped up and was not settled"));
        }
        self.with(grant, |lot| lot.held -= of_rest);
        self.shift(grant, Line::Held, Line::Settled, of_rest);
        self.shift(grant, Line::Free, to, amount - of_rest);
    }

    /// Moves money of a grant on every level, and in the days it was handed out on.
    fn shift(&mut self, grant: u64, from: Line, to: Line, amount: i128) {
        let Some(lot) = self.lots.get(&grant) else { return };
        let levels =
            self.accounts[lot.account].levels.iter().copied().zip(lot.days.iter().copied());
        let levels: Vec<(usize, u64)> = levels.collect();
        let negative = lot.out < 0 || lot.held < 0 || lot.expired < 0;
        for (level, day_ms) in levels {
            let account = &mut self.accounts[level];
            account.lines[at(from)] -= amount;
            account.lines[at(to)] += amount;
            if day_ms == account.day.0 {
                account.day_lines[at(from)] -= amount;
                account.day_lines[at(to)] += amount;
                account.day_lines[at(Line::Free)] = 0;
            }
            if from != Line::Free && account.lines[at(from)] < 0 {
                let (id, have) = (account.id, account.lines[at(from)]);
                self.tell(format!("budget {id}: {from:?} is {have}"));
            }
        }
        if negative {
            self.tell(format!("grant {grant} gave more than it had"));
        }
    }
}

impl Lot {
    fn new(account: usize, days: Vec<u64>, billing_ms: u64) -> Lot {
        Lot {
            account,
            days,
            out: 0,
            held: 0,
            expired: 0,
            expired_until: 0,
            unbilled: BTreeSet::new(),
            unbilled_before: BTreeSet::new(),
            unbilled_after: BTreeSet::new(),
            billing_ms,
            phase: Phase::Open,
            marks: HashMap::new(),
            clicked: HashSet::new(),
        }
    }

    /// A grant of a snapshot.
    fn of(account: usize, part: &Part) -> Option<Lot> {
        let Part::Grant { out, stage, days, billing, billing_ms, .. } = part else { return None };
        let Part::Grant { expired_ms, unconfirmed, unbilled, rests, .. } = part else {
            return None;
        };
        let sum = |sums: &[(u64, ledger::Amount)]| {
            sums.iter().map(|(_, amount)| i128::from(amount.get())).sum::<i128>()
        };
        let mut lot = Lot::new(account, days.to_vec(), *billing_ms);
        (lot.out, lot.held) = (out.get().into(), sum(billing) + sum(rests));
        (lot.expired, lot.expired_until) = (sum(unconfirmed) + sum(unbilled), *expired_ms);
        let deadlines = |sums: &[(u64, ledger::Amount)]| sums.iter().map(|(at, _)| *at).collect();
        (lot.unbilled_before, lot.unbilled_after) = (deadlines(unbilled), deadlines(billing));
        lot.phase = match stage {
            Stage::Open => Phase::Open,
            Stage::Retired { .. } => Phase::Retired,
            Stage::Suspended { .. } => Phase::Suspended,
            Stage::Expired { .. } => {
                lot.expired += std::mem::take(&mut lot.out);
                Phase::Expired
            }
        };
        Some(lot)
    }

    /// Where the money of a hold stands that was last marked so.
    fn line_of(&self, hold: &Hold, mark: u8) -> Line {
        if mark == CONFIRMED {
            // Rounded up to a 64th of the billing time, as the schema says.
            let width = (self.billing_ms / 64).max(1);
            let due_ms = (hold.deadline_ms + self.billing_ms).div_ceil(width) * width;
            let rounded_ms = due_ms.div_ceil(ROUNDED_MS) * ROUNDED_MS;
            let before = self.unbilled_before.contains(&rounded_ms)
                && !self.unbilled_after.contains(&due_ms);
            let over = before || self.unbilled.contains(&due_ms);
            return if over { Line::Expired } else { Line::Held };
        }
        match self.phase {
            Phase::Expired => Line::Expired,
            _ if hold.deadline_ms <= self.expired_until => Line::Expired,
            Phase::Suspended => Line::Suspended,
            Phase::Open | Phase::Retired => Line::Purses,
        }
    }
}

impl Account {
    pub(super) fn line(&self, line: Line) -> i128 {
        self.lines[at(line)]
    }

    /// More is out than there is, or than the day may have.
    fn is_beyond(&self) -> bool {
        let used: i128 = self.day_lines.iter().sum();
        let tolerated = |limit: i128| limit * self.tolerance_ppm / 1_000_000;
        self.lines[at(Line::Free)] < -tolerated(self.limit)
            || self.daily.is_some_and(|daily| used > daily + tolerated(daily))
    }

    fn named_on(&mut self, line: Line) -> &mut i128 {
        if line == Line::Expired { &mut self.named_expired } else { &mut self.named_held }
    }

    /// The time of a named hold is over, and so much of it is kept.
    fn expire_named(&mut self, held: i128) {
        for (line, change) in [(Line::Held, -held), (Line::Expired, held)] {
            self.lines[at(line)] += change;
            *self.named_on(line) += change;
            if self.day.1 > self.day.0 {
                self.day_lines[at(line)] += change;
            }
        }
    }

    /// What a leg of a named hold says now in the place of what it said before. True: a line is below zero then.
    fn say(&mut self, before: Said, said: Said, (held, fact): (Line, bool)) -> bool {
        let unexplained = self.unexplained();
        let places = [held].into_iter().chain(Line::SPENT).map(at);
        let moves: Vec<(usize, i128)> =
            places.zip(said).zip(before).map(|((at, now), before)| (at, now - before)).collect();
        for (line, change) in &moves {
            self.lines[*line] += change;
            self.lines[at(Line::Free)] -= change;
        }
        *self.named_on(held) += said[0] - before[0];
        if fact {
            // What happened is booked whatever is left.
            self.lowered += self.unexplained() - unexplained;
        }
        if self.day.1 > self.day.0 {
            self.day_lines[at(held)] += said[0] - before[0];
            // A credit takes from the day what is there; the rest of it was booked on other days, and so is what takes its place.
            let mut elsewhere = 0;
            for (line, change) in moves.iter().skip(1).filter(|(_, change)| *change < 0) {
                let back = self.day_lines[*line].min(-change);
                self.day_lines[*line] -= back;
                elsewhere -= change + back;
            }
            for (line, change) in moves.iter().skip(1).filter(|(_, change)| *change > 0) {
                let moved = elsewhere.min(*change);
                elsewhere -= moved;
                self.day_lines[*line] += change - moved;
            }
        }
        moves.iter().any(|(line, _)| self.lines[*line] < 0)
    }

    /// Has it no parent?
    pub(super) fn is_top(&self) -> bool {
        self.levels.len() == 1
    }

    /// By how much more than its limit is out or spent that neither debts, nor a lowered limit, nor a tolerance explain.
    pub(super) fn unexplained(&self) -> i128 {
        let debts = [Line::OverSettled, Line::Late, Line::UnknownOrder];
        let debts: i128 = debts.into_iter().map(|line| self.line(line)).sum();
        let tolerated = self.limit * self.tolerance_ppm / 1_000_000;
        (-self.line(Line::Free) - debts - self.lowered - tolerated).max(0)
    }

    /// What differs from the books of a bank: name, here, there.
    pub(super) fn differences(&self, bank: &Bank) -> Vec<(String, i128, i128)> {
        match (bank.slot(self.id), self.fate) {
            (Some(slot), _) => self.differences_of_live(bank, slot),
            (None, Fate::Live) => vec![("limit".to_string(), self.limit, 0)],
            (None, Fate::Idle) => self.differences_of_idle(bank),
            (None, Fate::Forgotten) => Vec::new(),
        }
    }

    /// Of one that ended the bank keeps what it spent, and nothing where that is nothing; all its money came back before.
    fn differences_of_idle(&self, bank: &Bank) -> Vec<(String, i128, i128)> {
        let kept = self.handle.as_ref().and_then(|handle| bank.dormant(handle));
        let kept = kept.filter(|kept| kept.id == self.id).map(|kept| kept.spent);
        let there = |line: Line| {
            let place = Line::SPENT.iter().position(|of| *of == line);
            place.zip(kept).map_or(0, |(place, kept)| i128::from(kept[place].get()))
        };
        let lines = Bank::LINES.into_iter().filter(|line| *line != Line::Free);
        let all = lines.map(|line| (line.name().to_string(), self.line(line), there(line)));
        all.filter(|(_, here, there)| here != there).collect()
    }

    fn differences_of_live(&self, bank: &Bank, slot: u32) -> Vec<(String, i128, i128)> {
        let books = bank.books(slot);
        let mut all = vec![("limit".to_string(), self.limit, i128::from(books.limit().get()))];
        for line in Bank::LINES {
            let name = line.name();
            all.push((name.to_string(), self.line(line), books.line(line).get().into()));
            let there = i128::from(bank.day_line(slot, line).get());
            all.push((format!("day {name}"), self.day_lines[at(line)], there));
        }
        all.retain(|(_, here, there)| here != there);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Amount, Door, Hold, Options, Origin};

    fn spec() -> ledger::BudgetSpec {
        ledger::BudgetSpec::plain(7, Unit::parse("USD").unwrap(), Amount::new(100))
    }

    fn granted(amount: i64) -> Record {
        Record::Granted { grant: 1, budget: 7, worker: 0, amount: Amount::new(amount), at_ms: 1 }
    }

    fn settled(verdict: Verdict, amount: i64) -> Record {
        let hold = Hold { grant: 1, seq: 9, node: 1, deadline_ms: 50, amount: Amount::new(10) };
        let origin = Origin { door: Door::Batch, request_id: 0 };
        Record::Resolved {
            hold,
            verdict,
            amount: Amount::new(amount),
            at_ms: 2,
            origin,
            keeps_rest: false,
            clicked: false,
            kept: None,
        }
    }

    fn balances(records: &[Record]) -> Balances {
        let mut balances = Balances::default();
        balances.take(1, &Record::Budget { spec: Box::new(spec()) });
        for (sequence, record) in (2..).zip(records) {
            balances.take(sequence, record);
        }
        balances
    }

    #[test]
    fn settles_are_split_and_agree_with_the_bank() {
        let records = [granted(60), settled(Verdict::SettledOver, 15)];
        let balances = balances(&records);
        assert_eq!(balances.told, Vec::<String>::new());
        let account = &balances.accounts[0];
        assert_eq!(account.lines, [35, 50, 0, 0, 0, 10, 5, 0, 0, 0]);

        let mut bank = Bank::new(Options::default());
        bank.replay(&Record::Budget { spec: Box::new(spec()) }).unwrap();
        bank.replay_all(&records).unwrap();
        assert_eq!(account.differences(&bank), []);
        bank.replay(&granted(1)).unwrap();
        let names: Vec<String> = account.differences(&bank).into_iter().map(|d| d.0).collect();
        assert_eq!(names, ["free", "purses", "day purses"]);
        let again = Balances::of(&bank);
        assert_eq!(again.accounts[0].differences(&bank), [], "from a snapshot's parts");
    }

    /// Asks, facts, credits, midnight and an end, on two levels: after each record, and from a snapshot taken there, both readers agree.
    #[test]
    fn named_holds_agree_with_the_bank() {
        let leg = |budget, [hold, spent @ ..]: [i64; 6]| {
            let (hold, spent) = (Amount::new(hold), spent.map(Amount::new));
            NamedLeg { budget, amounts: ledger::LegAmounts { hold, spent } }
        };
        let named = |legs: Vec<NamedLeg>, fact, opens| {
            let hold = NamedHold { door: Door::Fix, key: 5, label: "".into(), legs };
            Record::Named { hold: Box::new(hold), fact, opens, at_ms: 9 }
        };
        let child = ledger::BudgetSpec { id: 8, parent: Some(7), ..spec() };
        let day = |id, start_ms, end_ms| Record::DayRolled { id, start_ms, end_ms };
        let records = [
            Record::Budget { spec: Box::new(child) },
            day(7, 1, 90),
            day(8, 1, 90),
            named(vec![leg(8, [60, 0, 0, 0, 0, 0]), leg(7, [20, 0, 0, 0, 0, 0])], false, true),
            named(vec![leg(8, [50, 40, 20, 0, 7, 0])], true, false),
            day(8, 90, 180),
            named(vec![leg(8, [50, 47, 10, 0, 0, 3])], true, false),
            named(vec![leg(8, [0; 6]), leg(7, [0, 0, 0, 30, 0, 0])], true, false),
            Record::NamedEnded { door: Door::Fix, key: 5, at_ms: 10 },
        ];
        let mut bank = Bank::new(Options::default());
        bank.replay(&Record::Budget { spec: Box::new(spec()) }).unwrap();
        let mut found = balances(&[]);
        for (sequence, record) in (2..).zip(&records) {
            bank.replay(record).unwrap();
            found.take(sequence, record);
            for readers in [&found, &Balances::of(&bank)] {
                let differ = readers.accounts.iter().flat_map(|account| account.differences(&bank));
                assert_eq!(differ.collect::<Vec<_>>(), [], "{record:?}");
            }
        }
        assert_eq!((found.told.as_slice(), found.overspends), (&[] as &[String], 0));
        assert_eq!(found.accounts[0].unexplained(), 0, "facts took what was not there");
        let ask = named(vec![leg(8, [101, 0, 0, 0, 0, 0])], false, true);
        found.take(99, &ask);
        assert_eq!(found.overspends, 1, "an ask must not");
    }

    #[test]
    fn holds_that_end_by_time_agree_with_the_bank() {
        let Record::Resolved { hold: moved, origin, .. } = settled(Verdict::Settled, 4) else {
            unreachable!()
        };
        let timed = |key, state, opens, [hold, spent @ ..]: [i64; 4], of: Option<Hold>| {
            let [settled, over, late] = spent.map(Amount::new);
            let spent = [settled, over, late, Amount::ZERO, Amount::ZERO];
            let amounts = ledger::LegAmounts { hold: Amount::new(hold), spent };
            let legs = vec![NamedLeg { budget: 7, amounts }];
            let hold = NamedHold { door: Door::Spend, key, label: "".into(), legs };
            let amount = of.map_or(Amount::new(30), |of| of.amount);
            let row = ledger::TimedHold { hold, amount, until_ms: 900, state };
            let (at_ms, kept) = (9, None);
            Record::Timed(Box::new(TimedChange { row, opens, moved: of, at_ms, origin, kept }))
        };
        let (key, all) = (moved.timed_key(), moved.amount.get());
        let records = [
            Record::DayRolled { id: 7, start_ms: 1, end_ms: 90 },
            granted(60),
            timed(5, Verdict::Confirmed, true, [30, 0, 0, 0], None),
            timed(5, Verdict::Expired, false, [30, 0, 0, 0], None),
            Record::DayRolled { id: 7, start_ms: 90, end_ms: 180 },
            timed(5, Verdict::Settled, false, [0, 12, 0, 0], None),
            Record::NamedEnded { door: Door::Spend, key: 5, at_ms: 10 },
            timed(key, Verdict::Confirmed, true, [all, 0, 0, 0], Some(moved)),
            timed(key, Verdict::Released, false, [0; 4], Some(moved)),
        ];
        let mut bank = Bank::new(Options::default());
        bank.replay(&Record::Budget { spec: Box::new(spec()) }).unwrap();
        let mut found = balances(&[]);
        for (sequence, record) in (2..).zip(&records) {
            let mut record = record.clone();
            if let Record::Timed(change) = &mut record
                && !change.opens
            {
                change.moved = None;
            }
            bank.replay(&record).unwrap();
            found.take(sequence, &record);
            for readers in [&found, &Balances::of(&bank)] {
                let differ = readers.accounts.iter().flat_map(|account| account.differences(&bank));
                assert_eq!(differ.collect::<Vec<_>>(), [], "{record:?}");
            }
        }
        assert_eq!((found.told.as_slice(), found.overspends), (&[] as &[String], 0));
    }

    #[test]
    fn a_click_is_taken_once_and_counted_with_its_bill() {
        let settled = |clicked| {
            let mut record = settled(Verdict::Settled, 4);
            let Record::Resolved { clicked: flag, .. } = &mut record else { unreachable!() };
            *flag = clicked;
            record
        };
        let Record::Resolved { hold, at_ms, origin, .. } = settled(false) else { unreachable!() };
        let click = |billed| Record::Clicked { hold, billed, at_ms, origin };
        let cases: [(&[Record], u64); 6] = [
            (&[click(false), settled(true)], 0),
            (&[settled(false), click(true)], 0),
            (&[click(false), click(false)], 1),
            (&[click(true)], 1),
            (&[settled(true)], 1),
            (&[click(false), settled(false)], 1),
        ];
        for (records, wrong) in cases {
            let records = [&[granted(60)], records].concat();
            assert_eq!(balances(&records).wrong, wrong, "{records:?}");
        }
    }

    #[test]
    fn a_later_price_is_booked_beside_its_hold_and_agrees_with_the_bank() {
        let topped_up = |verdict, [amount, total, of_rest]: [i64; 3]| {
            let uses_rest = of_rest > 0;
            let Record::Resolved { hold, at_ms, origin, .. } = settled(verdict, 0) else {
                unreachable!("it is a settle")
            };
            let [amount, total, of_rest] = [amount, total, of_rest].map(Amount::new);
            let record =
                Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, origin };
            assert_eq!(record.of_rest(), of_rest);
            record
        };
        let mut records = vec![
            granted(60),
            settled(Verdict::Settled, 4),
            topped_up(Verdict::SettledOver, [5, 9, 0]),
            topped_up(Verdict::SettledLate, [6, 15, 0]),
        ];
        let found = balances(&records);
        assert_eq!(found.told, Vec::<String>::new());
        let account = &found.accounts[0];
        assert_eq!((account.lines, account.settles), ([35, 50, 0, 0, 0, 4, 5, 6, 0, 0], 1));
        let mut bank = Bank::new(Options::default());
        bank.replay(&Record::Budget { spec: Box::new(spec()) }).unwrap();
        bank.replay_all(&records).unwrap();
        assert_eq!(account.differences(&bank), []);
        let mut kept = settled(Verdict::Settled, 4);
        let Record::Resolved { keeps_rest, .. } = &mut kept else { unreachable!("it is a settle") };
        *keeps_rest = true;
        let kept = [
            granted(60),
            kept,
            topped_up(Verdict::Settled, [2, 6, 2]),
            topped_up(Verdict::SettledOver, [5, 11, 4]),
        ];
        let found = balances(&kept[..2]);
        assert_eq!(
            found.accounts[0].lines,
            [40, 50, 6, 0, 0, 4, 0, 0, 0, 0],
            "the rest stays held"
        );
        let found = balances(&kept);
        assert_eq!(found.told, Vec::<String>::new());
        assert_eq!(found.accounts[0].lines, [39, 50, 0, 0, 0, 10, 1, 0, 0, 0]);
        let mut bank = Bank::new(Options::default());
        bank.replay(&Record::Budget { spec: Box::new(spec()) }).unwrap();
        for (done, record) in (1..).zip(&kept) {
            bank.replay(record).unwrap();
            let found = balances(&kept[..done]);
            assert_eq!(found.accounts[0].differences(&bank), []);
            assert_eq!(Balances::of(&bank).accounts[0].differences(&bank), [], "from parts");
        }

        records.remove(1);
        assert!(balances(&records).told[0].contains("topped up and was not settled"));
    }

    #[test]
    fn a_second_settle_of_a_hold_is_found() {
        let twice = [granted(60), settled(Verdict::Settled, 5), settled(Verdict::Settled, 5)];
        let found = balances(&twice);
        assert_eq!((found.settled_twice, found.wrong), (1, 1));
        assert!(found.told[0].contains("hold 9: settled twice"), "{:?}", found.told);
    }

    #[test]
    fn money_that_is_not_there_is_found() {
        let found = balances(&[granted(101)]);
        assert_eq!((found.overspends, found.accounts[0].unexplained()), (1, 1));
        let found = balances(&[settled(Verdict::Settled, 5)]);
        assert!(found.told[0].contains("grant 1 is not known"), "{:?}", found.told);
        let found = balances(&[granted(5), settled(Verdict::Settled, 5)]);
        assert!(found.wrong > 0, "a hold larger than its grant");
        let late = [granted(100), settled(Verdict::SettledLate, 30)];
        assert_eq!(balances(&late).accounts[0].unexplained(), 0, "a debt explains it");
    }
}
