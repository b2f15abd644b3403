//! The slow loop of pacing: from the bank's books to the parameters of every worker's fast path.

use std::sync::Arc;

use gate_pacing::{Counters, Demand, Pace, Plan, Spend};
use ledger::{Amount, Bank, BudgetSpec, Line, ToBank};
use money::Instant;

use super::shared::SlotGauge;

/// Plans by slot, and what pacing measures beside the books.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    rows: Vec<Row>,
}

#[derive(Debug, Default)]
struct Row {
    plan: Option<Plan>,
    /// Reserved by holds whose deadline has passed.
    reserved_closed: Amount,
    demand: Demand,
    ask_max: Amount,
}

impl Pacer {
    /// Makes room for the budgets of a bank. Those without a plan (an earlier run's) stay closed.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.rows.resize_with(slots.max(self.rows.len()), Row::default);
    }

    pub(crate) fn set_plan(&mut self, slot: u32, plan: Plan) {
        self.rows[slot as usize].plan = Some(plan);
    }

    /// Watches what workers tell the bank.
    pub(crate) fn watch(&mut self, message: &ToBank) {
        match message {
            ToBank::Lapse { slot, amount, .. } => {
                let row = &mut self.rows[*slot as usize];
                row.reserved_closed = saturating(row.reserved_closed, *amount);
            }
            ToBank::Want { slot, short, .. } => {
                let row = &mut self.rows[*slot as usize];
                row.ask_max = row.ask_max.max(*short);
            }
            _ => {}
        }
    }

    /// Takes back the parameters a worker has used: they counted what was asked.
    pub(crate) fn used(&mut self, paces: &[Pace], ms: u64, first_worker: bool) {
        for (row, pace) in self.rows.iter_mut().zip(paces) {
            // Time passes once, however many workers report.
            row.demand.add(pace.asked(), if first_worker { ms } else { 0 });
        }
    }

    /// New parameters for each of `workers` workers.
    pub(crate) fn parameters(
        &self,
        bank: &Bank,
        gauges: &[Arc<[SlotGauge]>],
        now: Instant,
        tick_ms: u64,
    ) -> Vec<Box<[Pace]>> {
        let workers = u32::try_from(gauges.len()).unwrap_or(u32::MAX);
        let pace = |(slot, row): (usize, &Row)| {
            let Some(plan) = &row.plan else { return Pace::CLOSED };
            let slot = u32::try_from(slot).expect("slots are counted in 32 bits");
            if far_from_flight(bank.spec(slot), now, tick_ms) {
                // The purses are empty and know why: that is a better answer than "the plan says not now".
                return Pace::OPEN;
            }
            plan.parameters(&row.counters(bank, slot, gauges), now, tick_ms, workers)
        };
        let first: Box<[Pace]> = self.rows.iter().enumerate().map(pace).collect();
        let copies = gauges.len().saturating_sub(1);
        let mut all = vec![first.clone(); copies];
        all.push(first);
        all
    }
}

/// Is the flight over, or does it begin so late that there will be other parameters by then?
fn far_from_flight(spec: &BudgetSpec, now: Instant, tick_ms: u64) -> bool {
    now >= spec.end || now.ms().saturating_add(2_000 + 10 * tick_ms) < spec.start.ms()
}

impl Row {
    fn counters(&self, bank: &Bank, slot: u32, gauges: &[Arc<[SlotGauge]>]) -> Counters {
        let books = bank.books(slot);
        let open = bank.unconfirmed(slot, &|slot| reported_held(gauges, slot));
        let (day, _) = bank.day(slot);
        let today = |line| bank.day_line(slot, line);
        let spent_today = [Line::Settled, Line::OverSettled, Line::Late].map(today);
        Counters {
            limit: books.limit(),
            life: Spend {
                settled: books.spent(),
                confirmed: books.line(Line::Held),
                open: saturating(open, books.line(Line::Suspended)),
            },
            day,
            day_limit: bank.spec(slot).daily,
            today: Spend {
                settled: Amount::total(spent_today).unwrap_or(books.limit()),
                confirmed: today(Line::Held),
                open: saturating(open.min(today(Line::Purses)), today(Line::Suspended)),
            },
            reserved_closed: self.reserved_closed,
            paid_closed: saturating(books.line(Line::Settled), books.line(Line::Held)),
            demand: self.demand,
            ask_max: self.ask_max,
        }
    }
}

/// What all workers last said that they hold for a slot.
pub(crate) fn reported_held(gauges: &[Arc<[SlotGauge]>], slot: u32) -> Amount {
    let held = gauges.iter().filter_map(|gauges| gauges.get(slot as usize)).map(SlotGauge::held);
    held.fold(Amount::ZERO, saturating)
}

/// For measurements, which are no balances: at the end of the range they stay there.
fn saturating(a: Amount, b: Amount) -> Amount {
    Amount::new(a.get().saturating_add(b.get()))
}
