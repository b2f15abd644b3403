//! How money is asked for: the one place that judges an ask and takes it back, whatever door it came through.
//!
//! ```text
//!  unit and amount ──▶ plan ──▶ purse ──▶ hold        reserve_all: all of a pod, or none
//!        check          plan   reserve   undo: the way back, as if nobody had asked
//!
//!  bids of an auction: bid, may_bid ── able ── who wins: reserve_bid         Money, of the same two
//! ```

mod configured;

use ledger::note::NOTE_LEN;
use ledger::{Amount, At, Hold, MADE_SLOT, TokenError, UsedUp};
use wire::Verdict;

pub use configured::Money;

use crate::Till;
use crate::snapshot::Snapshot;
use crate::stages::{JudgePart, WorkerProbes};

/// An ask that a door understood: an amount of the budget in a slot.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The budget, of any kind of slot.
    pub slot: u32,
    /// More than nothing, in base units of its unit.
    pub amount: Amount,
    /// What a plan that throws a coin throws it with: the same for the same request.
    pub coin: u64,
}

/// The code of a unit that a client leaves out: whatever the budget counts in.
const ANY_UNIT: [u8; 4] = [0; 4];

impl Till {
    /// Judges whether this can be asked of the budget in a slot at all: the amount, and the unit that the client named.
    ///
    /// # Errors
    /// `BadAmount`, `UnitMismatch`, or `UnknownBudget` for a made budget that ended.
    #[inline(always)]
    pub fn check(&self, slot: u32, unit: [u8; 4], amount: Amount) -> Result<(), Verdict> {
        if !amount.is_ask() {
            return Err(Verdict::BadAmount);
        }
        let expected = match slot < MADE_SLOT {
            true => self.snapshot.units[slot as usize],
            false => self.made_unit(slot)?,
        };
        if unit == expected || unit == ANY_UNIT { Ok(()) } else { Err(Verdict::UnitMismatch) }
    }

    #[cold]
    fn made_unit(&self, slot: u32) -> Result<[u8; 4], Verdict> {
        self.opened.by_slot(slot).map(|made| made.unit).ok_or(Verdict::UnknownBudget)
    }

    /// Tells whether the budget that was found in a slot is still the one there: one that was made on its first ask ends when it is idle, and its
    /// slot serves another.
    pub fn is_live(&self, slot: u32, id: u64) -> bool {
        // One that comes back has its id again, and perhaps another slot.
        let there = self.opened.by_slot(slot).map(|made| (made.slot, made.id));
        slot < MADE_SLOT || there == Some((slot, id))
    }

    /// Sets money aside: first the budget's plan is asked, then this worker's purse. A refusal leaves both as if nobody had asked.
    /// Budgets that were made on their first ask have no plan.
    ///
    /// # Errors
    /// Why not.
    #[inline(always)]
    pub fn reserve(&mut self, ask: &Ask) -> Result<Hold, Verdict> {
        self.reserve_at::<false>(ask, self.at)
    }

    /// Does the same for a hold that lives at least `hold_ms` instead of the node's usual time.
    ///
    /// # Errors
    /// Why not.
    pub fn reserve_for(&mut self, ask: &Ask, hold_ms: u32) -> Result<Hold, Verdict> {
        self.reserve_at::<false>(ask, self.purses.at_for(self.at.now_ms, hold_ms.into()))
    }

    /// Does the same and notes how long each part of judging takes.
    ///
    /// # Errors
    /// Why not.
    pub fn reserve_in_parts(&mut self, ask: &Ask) -> Result<Hold, Verdict> {
        self.reserve_at::<true>(ask, self.at)
    }

    #[inline(always)]
    fn reserve_at<const PARTS: bool>(&mut self, ask: &Ask, at: At) -> Result<Hold, Verdict> {
        self.sealing()?;
        let Ask { slot, amount, coin } = *ask;
        if slot >= MADE_SLOT {
            return self.reserve_made(slot - MADE_SLOT, amount, at);
        }
        let Till { paces, purses, probes, .. } = self;
        let mut money = Money { paces, purses, at };
        let planned = money.plan(slot, coin, amount);
        if PARTS {
            probes.parts.lap(JudgePart::Pacing, 1);
        }
        planned?;
        let held = money.reserve_planned(slot, amount);
        if PARTS {
            probes.parts.lap(JudgePart::Purse, 1);
        }
        held
    }

    #[cold]
    fn reserve_made(&mut self, made: u32, amount: Amount, at: At) -> Result<Hold, Verdict> {
        self.made.reserve(made, amount, at)
    }

    /// Sets the money of several asks aside, or of none: `holds` gets a hold for each, in their order, behind what is in it. `None` among
    /// the asks stands for one that was refused before.
    ///
    /// # Errors
    /// The place of the first ask that is refused, and why.
    pub fn reserve_all(
        &mut self,
        asks: impl Iterator<Item = Result<Ask, Verdict>>,
        holds: &mut Vec<(u32, Hold)>,
    ) -> Result<(), (usize, Verdict)> {
        let before = holds.len();
        for (place, ask) in asks.enumerate() {
            let held = ask.and_then(|ask| Ok((ask.slot, self.reserve(&ask)?)));
            match held {
                Ok(held) => holds.push(held),
                Err(why) => {
                    for (slot, hold) in holds.drain(before..).rev() {
                        self.undo(slot, &hold);
                    }
                    return Err((place, why));
                }
            }
        }
        Ok(())
    }

    /// Takes back what was set aside a moment ago and never left this worker, as if nobody had asked.
    pub fn undo(&mut self, slot: u32, hold: &Hold) {
        match slot.checked_sub(MADE_SLOT) {
            Some(made) => self.made.undo(made, hold),
            None => self.parts().1.undo(slot, hold),
        }
    }

    /// Asks the plans of several budgets about the same amount each, which the bank is asked for and no purse: where one says no, none was
    /// asked. Budgets that were made on their first ask have no plan.
    ///
    /// # Errors
    /// The place of the first whose plan leaves nothing for this moment, and `Paced`.
    pub fn plan_all(
        &mut self,
        slots: &[u32],
        coin: u64,
        amount: Amount,
    ) -> Result<(), (usize, Verdict)> {
        for (place, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot < MADE_SLOT) {
            if let Err(why) = self.parts().1.plan(*slot, coin, amount) {
                self.unplan_all(&slots[..place], amount);
                return Err((place, why));
            }
        }
        Ok(())
    }

    /// Takes that back, as if nobody had asked: nothing came of it.
    pub fn unplan_all(&mut self, slots: &[u32], amount: Amount) {
        for slot in slots.iter().filter(|slot| **slot < MADE_SLOT) {
            self.paces[*slot as usize].give_back(amount);
        }
    }

    /// Has the money of these budgets of the configuration on its way to the cache.
    #[inline(always)]
    pub fn prefetch(&mut self, slots: impl Iterator<Item = u32>) {
        let (_, money, _) = self.parts();
        slots.for_each(|slot| money.prefetch(slot));
    }

    /// The configuration in force, the money of its budgets, and what measures this turn: all that an auction needs of the till.
    ///
    /// # Errors
    /// `Journal`, as [`Till::sealing`].
    #[inline(always)]
    pub fn auction(&mut self) -> Result<(&Snapshot, Money<'_>, &mut WorkerProbes), Verdict> {
        self.sealing()?;
        Ok(self.parts())
    }

    /// The same, for what was set aside already.
    #[inline(always)]
    pub fn parts(&mut self) -> (&Snapshot, Money<'_>, &mut WorkerProbes) {
        let Till { snapshot, paces, purses, at, probes, .. } = self;
        (snapshot, Money { paces, purses, at: *at }, probes)
    }

    /// Tells whether the money is there as far as this worker knows. Nothing changes.
    pub fn is_at_hand(&self, slot: u32, amount: Amount) -> bool {
        match slot.checked_sub(MADE_SLOT) {
            Some(made) => self.made.peek(made, amount, self.at).is_ok(),
            None => self.purses.peek(slot, amount, self.at).is_ok(),
        }
    }

    /// [`Till::call`], while something can be sealed.
    pub(crate) fn call_bank(&mut self, slot: u32, asks: impl IntoIterator<Item = Amount>) -> bool {
        match slot.checked_sub(MADE_SLOT) {
            Some(made) => self.made.call(made, asks, self.at),
            None => self.purses.call(slot, asks, self.at),
        }
    }

    /// The bank was told of money that comes back to the budget, after it said what there is: the next [`Till::call`] asks anew.
    pub fn doubt(&mut self, slot: u32) {
        match slot.checked_sub(MADE_SLOT) {
            Some(made) => self.made.doubt(made),
            None => self.purses.doubt(slot),
        }
    }

    /// What the bank said of an ask that was refused just now, where it said that money is used up.
    #[must_use]
    pub fn used_up(&self, slot: u32, amount: Amount) -> Option<UsedUp> {
        match slot.checked_sub(MADE_SLOT) {
            Some(made) => self.made.used_up(made, amount),
            None => self.purses.used_up(slot, amount),
        }
    }

    /// When money of an earlier run comes back that an ask answered `purse_empty` waits for, ms since 1970.
    #[must_use]
    pub fn returns_ms(&self, slot: u32, amount: Amount) -> Option<u64> {
        match slot.checked_sub(MADE_SLOT) {
            Some(made) => self.made.returns_ms(made, amount),
            None => self.purses.returns_ms(slot, amount),
        }
    }

    /// Opens a hold token.
    ///
    /// # Errors
    /// `Foreign`, `TooOld` or `Forged`.
    pub fn open_token(&self, token: &[u8; 32]) -> Result<Hold, Verdict> {
        self.keys.open(token).map_err(not_ours)
    }

    /// Opens a token with a note: what a notice of a bid brings back.
    ///
    /// # Errors
    /// As [`Till::open_token`].
    #[inline]
    pub fn open_note(&self, sealed: &[u8]) -> Result<(Hold, [u8; NOTE_LEN]), Verdict> {
        self.keys.open_note(sealed).map_err(not_ours)
    }
}

fn not_ours(error: TokenError) -> Verdict {
    match error {
        TokenError::Foreign(_) => Verdict::Foreign,
        TokenError::TooOld(_) => Verdict::TooOld,
        TokenError::Forged | TokenError::NotText(_) => Verdict::Forged,
    }
}
