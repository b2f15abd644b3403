//! What an edit of a budget does to its plan: as little as it can.
//!
//! ```text
//!   T(t) = T_e + (B' - T_e) * (P(t) - P(e)) / (1 - P(e))      the rest of the money over the rest of the plan, since e
//!   T_e  = what was planned at e, where the target is as before: nothing is learned anew
//!        = S_e + clamp((T - S) / B, -2/K, 2/K) * B'           where it changed: the multiplier goes on as it was
//! ```
//! The multiplier of a strategy is a function of (T - S) / B alone, so that this fraction is all there is to carry over. A
//! plan stands still while its owner pauses the budget: T_e of a resume is what was planned at the pause.

use money::{Amount, Instant};

use crate::{Counters, Plan, Progress, Rebase, Strategy};

/// A deviation is carried over to another target up to this exponent of the feedback, either way: what was missed or
/// overspent beyond it belongs to the old target.
const CARRY_MAX: i128 = 2;

/// Does a budget's owner let it spend?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Yes.
    Active,
    /// Not for now.
    Paused,
    /// No more.
    Ended,
}

/// How a budget stood on its plan just before an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Where it was.
    pub progress: Progress,
    /// What slowed its spend down.
    pub strategy: Strategy,
    /// Whether it might spend.
    pub mode: Mode,
}

impl Plan {
    /// How this plan goes on after an edit; `None`: as it was. `counters` are those after the edit, with the last change of
    /// the plan before it; `mode` says whether the budget may spend now.
    ///
    /// An edit that leaves window, budget and what is planned by now as they were changes nothing.
    #[must_use]
    pub fn edited(
        &self,
        before: &Before,
        mode: Mode,
        counters: &Counters,
        now: Instant,
    ) -> Option<Rebase> {
        let (old, new) = (before.progress, self.progress(counters, now));
        let is_same_law = before.strategy == self.spec().strategy;
        let is_same_target = (old.window, old.budget) == (new.window, new.budget);
        if before.mode == mode && is_same_law && is_same_target && old.planned == new.planned {
            return None;
        }
        let stood = match before.mode {
            _ if !is_same_law => new.spent,
            Mode::Active => old.planned,
            // It stood still since; where a new window began meanwhile, its plan begins now.
            Mode::Paused => {
                let paused = counters.rebase.filter(|rebase| new.window.contains(rebase.at));
                paused.map_or(new.spent, |rebase| rebase.planned)
            }
            Mode::Ended => new.spent,
        };
        let planned = if is_same_target { stood } else { self.carried(stood, old.budget, &new) };
        Some(Rebase { at: now, planned: planned.clamp(Amount::ZERO, new.budget) })
    }

    /// What is planned so far of another budget, so that the deviation is the same part of it as before.
    fn carried(&self, stood: Amount, budget: Amount, new: &Progress) -> Amount {
        let spec = self.spec();
        let spent = i128::from(new.spent.get());
        let learns = !matches!(spec.strategy, Strategy::Asap | Strategy::Schedule);
        if !learns {
            return new.spent;
        }
        let target = i128::from(new.budget.get());
        let deviation = i128::from(stood.get()) - spent;
        let scaled = (deviation * target).checked_div(i128::from(budget.get())).unwrap_or(0);
        let most = CARRY_MAX * target / i128::from(spec.gain);
        let carried = spent + scaled.clamp(-most, most);
        Amount::new(i64::try_from(carried).unwrap_or(new.spent.get()))
    }
}
