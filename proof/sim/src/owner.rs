//! The owners of budgets: they change them at any time.

use ledger::{Amount, BudgetSpec, OnExpiry, Out, Period, Room, Status, WindowLimit};
use money::Instant;

use crate::Bug;
use crate::draw;
use crate::journal::Held;
use crate::oracle::Cap;
use crate::world::World;

impl World {
    /// An owner changes a budget: limits, status, flight, or whether it is there at all.
    pub(crate) fn change(&mut self) {
        if self.journal.is_failing() {
            return self.stats.one("configuration refused: journal fails");
        }
        let index = self.rng.index(self.specs.len());
        let most = if self.rng.chance(500) { 20_000 } else { 500 };
        let limit = Amount::new(self.rng.between(100, most));
        let end = Instant::from_ms(self.now_ms + 1_000 + self.rng.below(100_000_000));
        let pick = self.rng.below(9);
        let window = draw::window(&mut self.rng);
        let pause = self.rng.chance(500);
        let id = self.specs[index].id;
        let below = limit.get() < self.out_of(id).0;
        let named = self.door.as_ref().map_or(0, |door| door.books.held(id));
        let leaf = self.specs.iter().all(|spec| spec.parent != Some(id));
        let spec = &mut self.specs[index];
        match pick {
            0 => {
                spec.limit = limit;
                self.stats.count("limit lowered below what is out", u64::from(below));
                let below = i128::from(limit.get()) < named;
                self.stats.count("named: limit lowered below what is open", u64::from(below));
            }
            1 if pause => spec.status = Status::Paused,
            1 | 2 => spec.status = Status::Active,
            3 if leaf && spec.status == Status::Active => {
                self.stats.one("budget ended or back");
                if !self.ended.remove(&id) {
                    self.ended.insert(id);
                }
            }
            4 if end > spec.start => {
                self.stats.one("flight moved");
                spec.end = end;
            }
            5 => {
                self.stats.one("expiry policy changed");
                spec.on_expiry = match spec.on_expiry {
                    OnExpiry::Hold => OnExpiry::Release,
                    OnExpiry::Release => OnExpiry::Hold,
                };
            }
            7 => {
                self.stats.one("window added, changed or taken away");
                let windows = std::mem::take(&mut spec.windows);
                spec.windows =
                    if pause { windows.without(window.period) } else { windows.with(window) };
            }
            6 => spec.tolerance_ppm = if pause { 0 } else { 300_000 },
            _ => {
                let windows = std::mem::take(&mut spec.windows);
                spec.windows = match windows.day_limit() {
                    Some(_) => {
                        windows.with(WindowLimit::fixed(Period::Day, Amount::new(limit.get() / 2)))
                    }
                    None => windows,
                };
            }
        }
        self.stats.one("configuration changed");
        self.configure();
        self.keep_change();
    }

    /// What the API answers to an owner waits until the message about the change is sealed.
    fn keep_change(&mut self) {
        let mut out = Out::default();
        let length = self.bank.run() as usize % 3 * 40_000;
        let kept =
            self.bank.keep(Room::Edits, &vec![b'e'; length], &mut out).expect("not too long");
        self.append(&mut out);
        match self.bug {
            Some(Bug::KeptAfterAnswer) => self.changes_told = kept,
            _ => self.journal.hold(Held::Change(kept)),
        }
    }

    pub(crate) fn configure(&mut self) {
        let before: Vec<(i64, i64)> = self.specs.iter().map(|spec| self.out_of(spec.id)).collect();
        let present: Vec<BudgetSpec> =
            self.specs.iter().filter(|spec| !self.ended.contains(&spec.id)).cloned().collect();
        let mut out = Out::default();
        self.bank.configure(&present, &mut out).expect("drawn to be sound");
        self.append(&mut out);
        for (spec, (exposure, used)) in self.specs.iter().zip(before) {
            let with_tolerance = |limit: Amount| {
                limit.get() + limit.get() * i64::from(spec.tolerance_ppm) / 1_000_000
            };
            let daily = spec.windows.day_limit().map(|daily| with_tolerance(daily).max(used));
            let (lifetime, daily) =
                (with_tolerance(spec.limit).max(exposure).into(), daily.map(i128::from));
            self.oracle.set_cap(spec.id, Cap { lifetime, daily });
        }
        for worker in &mut self.workers {
            worker.purses.grow(self.bank.slots());
        }
    }

    /// What is out or spent in the budget's life, and of its day.
    fn out_of(&self, id: u64) -> (i64, i64) {
        let Some(slot) = self.bank.slot(id) else { return (0, 0) };
        (self.bank.books(slot).exposure().get(), self.bank.day(slot).1.get())
    }
}
