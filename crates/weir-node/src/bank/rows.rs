//! What the bank tells of a budget at each survey.

use std::sync::Arc;

use gate_pacing::Strategy;
use ledger::{Amount, Bank, BudgetSpec, Line, Period, Status, WindowLimit};
use money::{Instant, Window};
use weir_budgets::alerts::Shares;
use weir_budgets::campaign_index::CampaignIndex;
use weir_pacer::Standing;
use weir_till::{BookLine, cells::SlotCells};
use wire::Verdict;

use crate::bank::Report;

/// How one budget stands, of one instant of the bank.
#[derive(Clone, Copy, Debug)]
pub struct SurveyRow {
    /// Its slot.
    pub slot: u32,
    /// Its books.
    pub line: BookLine,
    /// Of what is held: of holds before a crash.
    pub suspended: Amount,
    /// Whether it may spend at all, as it is configured.
    pub status: Status,
    /// The flight.
    pub flight: Window,
    /// Slot of the budget that binds it too.
    pub parent: Option<u32>,
    /// The daily limit.
    pub daily: Option<Amount>,
    /// The civil day of its zone.
    pub day: Window,
    /// Spent in it.
    pub day_spent: Amount,
    /// What is left of the present day, week and month, where they have limits.
    pub calendar_left: Option<Amount>,
    /// Its windows in the order of [`Period::ALL`], and what is used of each.
    pub windows: [Option<(WindowLimit, Amount)>; Period::ALL.len()],
    /// In the same order: the first instant after the window, ms; of a bucket now.
    pub window_ends_ms: [u64; Period::ALL.len()],
    /// What facts of named holds raised beyond all limits: see [`Bank::forced`].
    pub forced: u64,
    /// Beside its limit, what may be out because so much of it is expired.
    pub tolerated: Amount,
    /// Of what is free: kept back for spend above holds, or after they were gone.
    pub reserve: Amount,
    /// How it stands on its plan, if it has one.
    pub standing: Option<Standing>,
    /// What became of its holds.
    pub resolved: Resolutions,
    /// Holds of the run whose time is over: see [`Bank::expired_holds`].
    pub expired_holds: u64,
}

/// What clients said of a budget's holds, counted since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolutions {
    pub(crate) confirmed: u64,
    /// In time, above its amount or not.
    pub settled: u64,
    /// Given back.
    pub released: u64,
    /// Settled after the hold was gone.
    pub late: u64,
    /// Of holds of the run: settled in time, or released.
    pub ended: u64,
}

impl Resolutions {
    /// Counts what the bank booked, each once: repeats are no records. `of_run`: the hold was made in this run.
    pub(crate) fn count(&mut self, verdict: Verdict, of_run: bool) {
        use Verdict::{Released, Settled, SettledOver};
        let ends = of_run && matches!(verdict, Settled | SettledOver | Released);
        self.ended = self.ended.saturating_add(ends.into());
        let count = match verdict {
            Verdict::Confirmed => &mut self.confirmed,
            Verdict::Settled | Verdict::SettledOver => &mut self.settled,
            Verdict::Released => &mut self.released,
            Verdict::SettledLate => &mut self.late,
            _ => return,
        };
        *count = count.saturating_add(1);
    }
}

impl SurveyRow {
    /// Of a slot. `line` and `standing` are of the same instant.
    pub(crate) fn of(
        bank: &Bank,
        slot: u32,
        (line, standing): (BookLine, Option<Standing>),
        resolved: Resolutions,
    ) -> SurveyRow {
        let (spec, books) = (bank.spec(slot), bank.books(slot));
        let day = bank.day(slot).0;
        let today = |line| bank.day_line(slot, line).get();
        let spent = Line::SPENT.map(today);
        let mut windows = [None; Period::ALL.len()];
        let mut window_ends_ms = [0; Period::ALL.len()];
        for (window, used, end_ms) in bank.windows(slot) {
            let place = Period::ALL.iter().position(|period| *period == window.period);
            let place = place.expect("all periods are there");
            windows[place] = Some((window, used));
            window_ends_ms[place] = end_ms;
        }
        let left = windows.iter().flatten().map(|(window, used)| less(window.limit, *used));
        let debt = line.debt();
        SurveyRow {
            slot,
            line,
            suspended: books.line(Line::Suspended),
            status: spec.status,
            flight: Window { start: spec.start, end: spec.end },
            parent: spec.parent.and_then(|id| bank.slot(id)),
            daily: spec.windows.day_limit(),
            day,
            day_spent: Amount::new(spent.into_iter().fold(0, i64::saturating_add)),
            calendar_left: left.min(),
            windows,
            window_ends_ms,
            forced: bank.forced(slot),
            tolerated: tolerated(spec),
            reserve: less(part_of(spec.limit, spec.late_reserve_bp, 10_000), debt)
                .max(Amount::ZERO),
            standing,
            resolved,
            expired_holds: bank.expired_holds(slot),
        }
    }

    /// Everything that is spent.
    pub fn spent(&self) -> Amount {
        self.line.spent()
    }

    /// What of it was spent with no hold for it.
    pub fn debt(&self) -> Amount {
        self.line.debt()
    }

    /// Free and in purses.
    pub fn available(&self) -> Amount {
        sum([self.line.free, self.line.purses])
    }

    /// How much more is spent within holds, held and with workers than the limit.
    pub fn excess(&self) -> i128 {
        let out = [self.line.settled, self.line.inferred, self.line.held, self.line.purses];
        let out: i128 = out.iter().map(|part| i128::from(part.get())).sum();
        out - i128::from(self.line.limit.get())
    }

    /// Is it a parent that lets nothing through now?
    pub fn is_closed(&self, now: Instant) -> bool {
        let Window { start, end } = self.flight;
        self.status != Status::Active || now < start || now >= end
    }

    /// Is nothing left of the day, week or month, although there is something left?
    pub fn is_day_over(&self) -> bool {
        self.calendar_left
            .is_some_and(|left| left <= Amount::ZERO && self.line.purses <= Amount::ZERO)
    }

    /// Is nothing left that a worker has or could get? The reserve for late spend is no worker's.
    pub fn is_drained(&self) -> bool {
        let is_reserve = self.line.purses <= Amount::ZERO && self.line.free <= self.reserve;
        is_reserve || self.available() <= Amount::ZERO
    }
}

/// The most that a tolerance lets out above the limit.
fn tolerated(spec: &BudgetSpec) -> Amount {
    part_of(spec.limit, spec.tolerance_ppm, 1_000_000)
}

/// So many of `all` equal parts of a limit; rounded down.
fn part_of(limit: Amount, parts: impl Into<i128>, all: i128) -> Amount {
    let part = i128::from(limit.get()) * parts.into() / all;
    Amount::new(i64::try_from(part).unwrap_or(i64::MAX))
}

/// For statements: at the ends of the range it stays there.
fn less(a: Amount, b: Amount) -> Amount {
    Amount::new(a.get().saturating_sub(b.get()))
}

/// The same.
fn sum<const N: usize>(parts: [Amount; N]) -> Amount {
    Amount::new(parts.into_iter().fold(0, |sum, part| sum.saturating_add(part.get())))
}

/// A slice of the budgets, by slot.
#[derive(Debug)]
pub struct SurveyPart {
    /// The rows from the slot that was asked for, in the memory that came with the question.
    pub rows: Vec<SurveyRow>,
    /// Of a single row: its windows, what of each is used, and the first instant after it in ms; of a bucket now.
    pub windows: Vec<(WindowLimit, Amount, u64)>,
    /// The same: legs of named holds on it and on those under it, and what they hold.
    pub named_holds: (u32, Amount),
    /// The bank's clock.
    pub now_ms: u64,
}

/// What is the same for all budgets.
#[derive(Debug)]
pub struct Scene {
    /// Rises with every change of a budget's configuration.
    pub generation: u64,
    /// Slots of configured budgets.
    pub slots: u32,
    /// Live budgets that were made from templates...
    pub made: usize,
    /// ...and slots that such budgets have or had.
    pub made_slots: u32,
    /// Number of the run.
    pub run: u32,
    /// The counters.
    pub report: Report,
    /// How long the oldest record has waited for the disk, ms; 0 where none waits.
    pub journal_lag_ms: u64,
    /// More records wait than may.
    pub journal_full: bool,
    /// What workers count, one per worker.
    pub cells: Vec<SlotCells>,
    /// The campaigns in force.
    pub campaign_index: Arc<CampaignIndex>,
}

/// What changes of a budget only when somebody changes it.
#[derive(Clone, Debug)]
pub struct SlotSpec {
    /// As it is configured.
    pub spec: BudgetSpec,
    /// `None` for a budget of an earlier run that is not configured any more.
    pub strategy: Option<Strategy>,
    /// The pattern of the template in force that it was made from.
    pub template: Option<Box<str>>,
    /// At which shares of its limits it alerts, if it was made from one.
    pub alerts: Shares,
}
