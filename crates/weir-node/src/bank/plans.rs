//! The plans of all budgets, and how their parameters go round: a few hundred budgets a turn, so that no turn is long.
//!
//! ```text
//!  a round, pacing.tick_ms:   slots 0.. ─ 256.. ─ 512.. ─ … ─ the last, spread over its time; parents are before their children
//!  a piece:                   bank ─▶ each worker, which puts it in force ─▶ what was in force comes back, with its counts, in the same buffer
//! ```

use gate_pacing::{Before, Pace};
use ledger::{Bank, MADE_SLOT};
use money::Instant;
use weir_budgets::budgets::Budget;
use weir_pacer::{Look, Pacer, PacerOptions, Pacing, Standing};
use weir_till::cells::{SlotCells, reported_held};

use super::Link;
use super::pacing_store::{Memory, PacingSaver};
use crate::memory::{self, Part};
use crate::messages::Piece;

/// Budgets of a piece.
pub(super) const PIECE: usize = 256;
/// A turn begins no other piece once it has worked out so many budgets' parameters, each some thousand instructions...
const WORKED_MAX: usize = 768;
/// ...nor after so many pieces.
const PIECES_MAX: usize = 16;

/// What plans are looked at with.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) bank: &'a Bank,
    /// What workers say that they hold.
    pub(super) cells: &'a [SlotCells],
}

impl Sight<'_> {
    fn now(self) -> Instant {
        Instant::from_ms(self.bank.now_ms())
    }
}

/// Plans by slot, and where their round stands.
pub(super) struct Plans {
    pub(super) pacer: Pacer,
    pub(super) tick_ms: u64,
    saver: PacingSaver,
    /// What an earlier run learned of budgets that are not configured yet.
    memory: Memory,
    /// The plans in force, by slot: what tells an edit.
    pacings: Vec<Option<Pacing>>,
    /// Which round it is, when it began, by the steady clock, and the slot that is next.
    round: u64,
    began_ms: u64,
    next: usize,
    /// Buffers that came back: a turn allocates nothing, and what one thread allocated is not left for another to free. There are as
    /// many as are under way at once.
    spare: Vec<Vec<Pace>>,
}

impl Plans {
    pub(super) fn new(
        options: PacerOptions,
        tick_ms: u64,
        saver: PacingSaver,
        memory: Memory,
    ) -> Plans {
        Plans {
            pacer: Pacer::new(options),
            tick_ms,
            saver,
            memory,
            pacings: Vec::new(),
            round: 0,
            began_ms: 0,
            // The first round begins after a tick: a configuration brings its parameters with it.
            next: usize::MAX,
            spare: Vec::new(),
        }
    }

    /// Begins a round where one is due and the one before is over.
    pub(super) fn begin_round(&mut self, steady_ms: u64) {
        let passed_ms = steady_ms.saturating_sub(self.began_ms);
        if passed_ms < self.tick_ms || self.next < self.pacings.len() {
            return;
        }
        self.pacer.pass(if self.round == 0 { self.tick_ms } else { passed_ms });
        (self.round, self.began_ms, self.next) = (self.round + 1, steady_ms, 0);
    }

    /// Does what of the round is due by now, and says of how many budgets the parameters were worked out.
    pub(super) fn turn(
        &mut self,
        sight: Sight<'_>,
        (now_ms, steady_ms): (u64, u64),
        links: &mut [Link],
    ) -> usize {
        let slots = self.pacings.len();
        let (mut worked, mut pieces) = (0, 0);
        while self.next < self.due(steady_ms) && worked < WORKED_MAX && pieces < PIECES_MAX {
            let piece = self.next..slots.min(self.next + PIECE);
            let held = |slot| reported_held(sight.cells, slot);
            let look = self.look(sight, &held, Instant::from_ms(now_ms));
            worked += self.pacer.work_out(piece.clone(), self.round, look);
            let first = u32::try_from(piece.start).expect("slots are counted in 32 bits");
            for link in &mut *links {
                let mut paces = self.spare.pop().unwrap_or_default();
                paces.clear();
                paces.extend_from_slice(&self.pacer.live()[piece.clone()]);
                link.push_paces(Piece { first, paces });
            }
            self.next = piece.end;
            pieces += 1;
        }
        if pieces > 0 {
            self.saver.turn(&self.pacer, |slot| sight.bank.spec(slot).id, slots, now_ms);
        }
        worked
    }

    /// How far the round should be.
    fn due(&self, steady_ms: u64) -> usize {
        let slots = self.pacings.len();
        let passed_ms = steady_ms.saturating_sub(self.began_ms).min(self.tick_ms);
        let pieces = slots.div_ceil(PIECE) as u64;
        // The first at once, and the last before the time is over.
        let due = pieces.saturating_mul(passed_ms) / self.tick_ms.max(1) + 1;
        usize::try_from(due).map_or(slots, |due| slots.min(due.saturating_mul(PIECE)))
    }

    fn look<'a>(
        &self,
        Sight { bank, cells }: Sight<'a>,
        held: &'a dyn Fn(u32) -> ledger::Amount,
        now: Instant,
    ) -> Look<'a> {
        let workers = u32::try_from(cells.len()).unwrap_or(u32::MAX);
        Look { bank, held, now, tick_ms: self.tick_ms, workers }
    }

    /// Takes a piece back that was in force at a worker.
    pub(super) fn used(&mut self, Piece { first, paces }: Piece) {
        self.pacer.used(first, &paces);
        self.spare.push(paces);
    }

    /// The parameters of all plans: what changed is worked out first.
    pub(super) fn all(&mut self, sight: Sight<'_>, now_ms: u64) -> &[Pace] {
        let held = |slot| reported_held(sight.cells, slot);
        let look = self.look(sight, &held, Instant::from_ms(now_ms));
        self.pacer.work_out(0..self.pacings.len(), self.round, look);
        self.pacer.live()
    }

    /// Budgets that are edited, with how they stand on their plans, and those that nobody knew before. Those of an earlier run
    /// go on as they were.
    pub(super) fn edited(
        &self,
        sight: Sight<'_>,
        budgets: &[Budget],
    ) -> Vec<(u64, Option<Before>)> {
        let Sight { bank, cells } = sight;
        let edit = |budget: &Budget| {
            let Some(slot) = bank.slot(budget.spec.id) else {
                return Some((budget.spec.id, None));
            };
            let known = self.pacings.get(slot as usize)?.as_ref()?;
            if *known == budget.pacing && *bank.spec(slot) == budget.spec {
                return None;
            }
            let held = |slot| reported_held(cells, slot);
            let before = self.pacer.before(bank, slot, &held, sight.now())?;
            Some((budget.spec.id, Some(before)))
        };
        budgets.iter().filter_map(edit).collect()
    }

    /// Takes the plans of budgets that the bank has just taken; `edited` is what [`Plans::edited`] said of them before.
    pub(super) fn take(
        &mut self,
        sight: Sight<'_>,
        budgets: impl Iterator<Item = (u32, u64, Pacing)>,
        edited: &[(u64, Option<Before>)],
    ) {
        let Sight { bank, cells } = sight;
        memory::built(Part::Plans, || self.pacer.grow(bank.slots()));
        self.pacings.resize(bank.slots(), None);
        for (slot, id, pacing) in budgets {
            let known = self.pacings[slot as usize].replace(pacing.clone());
            if known.as_ref() != Some(&pacing) {
                self.pacer.set_plan(slot, pacing);
            }
            if let (None, Some(kept)) = (known, self.memory.remove(&id)) {
                self.pacer.recall(slot, kept);
            }
        }
        self.saver.hurry();
        for (id, before) in edited {
            let slot = bank.slot(*id).expect("just configured");
            let held = |slot| reported_held(cells, slot);
            match before {
                None => self.pacer.begin(slot, sight.now()),
                Some(before) => self.pacer.edited(bank, slot, &held, sight.now(), before),
            }
        }
    }

    /// The plan in force of a configured budget.
    pub(super) fn of(&self, slot: u32) -> Option<&Pacing> {
        self.pacings.get(slot as usize).filter(|_| slot < MADE_SLOT)?.as_ref()
    }

    /// How a budget stands.
    pub(super) fn standing(&self, sight: Sight<'_>, slot: u32, now: Instant) -> Option<Standing> {
        self.pacer.standing(sight.bank, slot, &|slot| reported_held(sight.cells, slot), now)
    }

    /// Saves what was learned.
    pub(super) fn finish(self, bank: &Bank) {
        self.saver.finish(&self.pacer, |slot| bank.spec(slot).id, self.pacings.len());
    }
}
