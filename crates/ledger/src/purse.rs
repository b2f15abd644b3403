//! Purses: the money that one worker may reserve from without asking anyone.
//!
//! A reservation takes the amount out of the purse and adds it to the sum of its deadline. Nothing is kept a
//! hold: the token says the rest. When a deadline passes, its sums go to the bank, which knows what of them was
//! resolved and gives the rest back.

use std::collections::VecDeque;

use table::Buckets;
use wire::Verdict;

use crate::books::{minus, plus};
use crate::token::{DEADLINE_UNIT_MS, SEQ_MAX};
use crate::{Amount, Hold, Need, No, ToBank, ToWorker, UsedUp, WindowUsedUp};

/// After a `Want` a purse waits this long before it wants again.
const WANT_PAUSE_MS: u64 = 5;
/// After a `Deny` it waits this long: money comes back when holds lapse, not sooner.
const DENIED_PAUSE_MS: u64 = 20;
/// For asks that wait for the bank's answer it is only so long: what somebody released a moment ago must be found.
const CALLED_PAUSE_MS: u64 = 2;
/// From this many holds on, the purse asks for a fresh grant.
const SEQ_LOW_WATER: u32 = SEQ_MAX / 4 * 3;

/// How a worker's purses behave.
#[derive(Clone, Copy, Debug)]
pub struct PurseOptions {
    /// Number of this node, for the tokens.
    pub node: u16,
    /// How long an unconfirmed hold lives at least, milliseconds.
    pub hold_ms: u64,
}

impl PurseOptions {
    /// Deadlines are rounded up to a multiple of this: an eighth of the hold time.
    pub fn width_ms(&self) -> u64 {
        (self.hold_ms / 8).max(DEADLINE_UNIT_MS).div_ceil(DEADLINE_UNIT_MS) * DEADLINE_UNIT_MS
    }

    /// The longest that a hold can live, with the rounding.
    pub fn hold_ms_max(&self) -> u64 {
        self.hold_ms + self.width_ms()
    }
}

/// One reading of the clock, and what follows from it for every hold of a frame.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Deadline of holds made now.
    pub deadline_ms: u64,
}

/// What an ask touches: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Purse {
    free: Amount,
    /// 0 means none.
    grant: u64,
    /// The grant may be used from here...
    valid_from_ms: u64,
    /// ...up to here: its spend belongs to one window of each length.
    valid_until_ms: u64,
    asked: Amount,
    low_water: Amount,
    next_seq: u32,
    /// Listed in `wanted`.
    listed: bool,
    /// Listed in `changed`.
    noted: bool,
}

impl Purse {
    /// Nothing was heard of it yet.
    const EMPTY: Purse = Purse {
        free: Amount::ZERO,
        grant: 0,
        valid_from_ms: 0,
        valid_until_ms: 0,
        asked: Amount::ZERO,
        low_water: Amount::ZERO,
        next_seq: 0,
        listed: false,
        noted: false,
    };

    #[inline]
    fn covers(&self, amount: Amount, at: At) -> bool {
        let valid = (self.valid_from_ms..self.valid_until_ms).contains(&at.now_ms);
        amount <= self.free && valid && self.next_seq <= SEQ_MAX
    }

    /// Is it short of such an ask? Else the money is there, and cannot be used.
    fn lacks(&self, amount: Amount) -> bool {
        self.grant == 0 || amount > self.free
    }
}

/// Everything that a purse needs to know only when it runs low.
#[derive(Clone, Copy, Debug)]
struct Appetite {
    /// What was refused since the last `Want`, but for asks that the bank had said no to.
    refused: Amount,
    /// The largest single one of these, and of those that were called for.
    short: Amount,
    /// The smallest ask that was refused since then because the bank had said no.
    again: Amount,
    /// One of these waits.
    again_waits: bool,
    /// What was called for since the last `Want`.
    called: Amount,
    /// It does not want anything before this, by the steady clock.
    again_ms: u64,
    /// When the bank last said no, by the steady clock.
    denied_ms: u64,
    /// What it said, where it gave nothing since.
    no: No,
    /// Holds made from earlier grants, less those that were undone.
    made: i64,
    /// What came to the purse under its grant.
    given: Amount,
}

impl Appetite {
    /// Nothing was heard of it yet.
    const NEW: Appetite = Appetite {
        refused: Amount::ZERO,
        short: Amount::ZERO,
        again: Amount::ZERO,
        again_waits: false,
        called: Amount::ZERO,
        again_ms: 0,
        denied_ms: 0,
        no: No::LATER,
        made: 0,
        given: Amount::ZERO,
    };

    /// Why an ask that its purse does not cover is refused.
    fn refusal(&self, purse: &Purse, amount: Amount) -> Verdict {
        if purse.lacks(amount) { self.no.to(amount) } else { Verdict::PurseEmpty }
    }

    /// Did the bank say of such an ask that the money is used up?
    fn is_hopeless(&self, purse: &Purse, amount: Amount) -> bool {
        purse.lacks(amount) && self.no.knows(amount)
    }

    /// An ask is not covered: it is judged by the bank, for the first time or again.
    fn lacks(&mut self, amount: Amount, is_hopeless: bool) {
        if !is_hopeless {
            self.short = self.short.max(amount);
        } else if self.again == Amount::ZERO || amount < self.again {
            self.again = amount;
        }
    }
}

const _: () = assert!(size_of::<Purse>() == 64, "a purse is one cache line");

/// A worker's purses.
#[derive(Debug)]
pub struct Purses {
    options: PurseOptions,
    purses: Vec<Purse>,
    appetites: Vec<Appetite>,
    /// What pauses are measured by, if not by the instants that methods are told.
    steady_ms: Option<u64>,
    /// Sums of unconfirmed holds by purse and deadline.
    held: Buckets,
    /// Purses that run low or refused an ask.
    wanted: Vec<u32>,
    /// Purses of which something else is to be shown than was: see [`Purses::next_changed`].
    changed: VecDeque<u32>,
    outbox: VecDeque<ToBank>,
}

impl Purses {
    /// Purses for `slots` budgets, all empty and answering `PurseEmpty` until the bank speaks of them.
    pub fn new(options: PurseOptions, slots: usize) -> Purses {
        let mut purses = Purses {
            options,
            purses: Vec::new(),
            appetites: Vec::new(),
            steady_ms: None,
            held: Buckets::new(0, options.width_ms(), 16),
            wanted: Vec::new(),
            changed: VecDeque::new(),
            outbox: VecDeque::new(),
        };
        purses.grow(slots);
        purses
    }

    /// Makes room for the budgets of a new configuration.
    pub fn grow(&mut self, slots: usize) {
        self.held.grow(slots);
        self.wanted.reserve(slots.saturating_sub(self.wanted.len()));
        self.changed.reserve(slots.saturating_sub(self.changed.len()));
        self.outbox.reserve(slots.saturating_sub(self.outbox.len()));
        let slots = slots.max(self.purses.len());
        self.appetites.resize(slots, Appetite::NEW);
        self.purses.resize(slots, Purse::EMPTY);
    }

    /// Makes room for at least so many, a multiple of `step`: where purses come one by one.
    pub fn grow_to(&mut self, slots: usize, step: usize) {
        let slots = slots.next_multiple_of(step.max(1));
        if slots <= self.purses.len() {
            return;
        }
        self.held.grow(slots);
        self.changed.reserve(slots - self.changed.len());
        self.appetites.resize(slots, Appetite::NEW);
        self.purses.resize(slots, Purse::EMPTY);
    }

    /// The purse is another budget's from now on: nothing that it was told before counts. It must have no grant, which the bank
    /// sees to before it gives a slot to another budget.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn forget(&mut self, slot: u32) {
        let purse = &mut self.purses[slot as usize];
        if purse.grant == 0 {
            // It stays listed, if it is.
            *purse = Purse { listed: purse.listed, noted: purse.noted, ..Purse::EMPTY };
            self.appetites[slot as usize] = Appetite::NEW;
            self.note(slot);
        }
    }

    /// What it was made with.
    pub fn options(&self) -> &PurseOptions {
        &self.options
    }

    /// How many there are.
    pub fn slots(&self) -> usize {
        self.purses.len()
    }

    /// From here on pauses between wants are measured by this clock, which has to be one that never stands still. The time of day
    /// may (see `probe::NodeClock`), and a purse must be filled nevertheless. Without a call of this they are measured by the
    /// instants that methods are told.
    pub fn steady(&mut self, steady_ms: u64) {
        self.steady_ms = Some(steady_ms);
    }

    /// What a reading of the clock means for holds made now.
    pub fn at(&self, now_ms: u64) -> At {
        At { now_ms, deadline_ms: self.held.deadline_for(now_ms, self.options.hold_ms) }
    }

    /// The same for holds that need to live for `hold_ms` only. A longer life than that of all holds is not to be had: what is
    /// above it is cut. Deadlines are rounded up by the same width.
    pub fn at_for(&self, now_ms: u64, hold_ms: u64) -> At {
        let hold_ms = hold_ms.clamp(1, self.options.hold_ms);
        At { now_ms, deadline_ms: self.held.deadline_for(now_ms, hold_ms) }
    }

    /// Sets `amount` aside until the deadline, or says why not. `amount` must be within
    /// 1 ..= `money::ASK_MAX`; others are refused with `BadAmount`.
    ///
    /// # Panics
    /// If there is no such slot: slots come from the same snapshot as the purses.
    #[inline]
    pub fn reserve(&mut self, slot: u32, amount: Amount, at: At) -> Result<Hold, Verdict> {
        let purse = &mut self.purses[slot as usize];
        if amount <= Amount::ZERO || amount > money::ASK_MAX {
            return Err(Verdict::BadAmount);
        }
        if !purse.covers(amount, at) {
            return Err(self.refuse_ask(slot, amount, at));
        }
        purse.asked = Amount::new(purse.asked.get().saturating_add(amount.get()));
        if self.held.add(slot, at.deadline_ms, amount.get()).is_err() {
            return Err(Verdict::Busy);
        }
        purse.free = minus(purse.free, amount);
        let seq = purse.next_seq;
        purse.next_seq += 1;
        if !std::mem::replace(&mut purse.noted, true) {
            self.changed.push_back(slot);
        }
        let hold = Hold {
            grant: purse.grant,
            seq,
            node: self.options.node,
            deadline_ms: at.deadline_ms,
            amount,
        };
        if purse.free < purse.low_water || seq > SEQ_LOW_WATER {
            self.list(slot, at.now_ms);
        }
        Ok(hold)
    }

    /// Would [`Purses::reserve`] take this ask? Nothing is set aside; a purse that is short wants money as it would after
    /// a refused ask.
    ///
    /// # Errors
    /// Why not.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn able(&mut self, slot: u32, amount: Amount, at: At) -> Result<(), Verdict> {
        if !amount.is_ask() {
            return Err(Verdict::BadAmount);
        }
        if self.purses[slot as usize].covers(amount, at) {
            Ok(())
        } else {
            Err(self.refuse(slot, amount, at))
        }
    }

    /// As [`Purses::able`], for looking only: nothing is wanted afterwards.
    ///
    /// # Errors
    /// Why not.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn peek(&self, slot: u32, amount: Amount, at: At) -> Result<(), Verdict> {
        let purse = &self.purses[slot as usize];
        if purse.covers(amount, at) {
            return Ok(());
        }
        Err(self.appetites[slot as usize].refusal(purse, amount))
    }

    /// Before asks are judged: is the purse short of them together, and may the bank have money for one of them? Then the bank is
    /// asked in the next [`Purses::turn`], whatever pause there is between wants. Calls before that turn add up; asks that the
    /// bank just said no to do not count.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn call(&mut self, slot: u32, asks: impl IntoIterator<Item = Amount>, at: At) -> bool {
        let steady_ms = self.steady_ms.unwrap_or(at.now_ms);
        let (purse, appetite) =
            (&mut self.purses[slot as usize], &mut self.appetites[slot as usize]);
        // What the bank said may be old: a limit was changed, or money came back.
        let is_over = |amount| appetite.no.retry_at_ms(amount).is_some_and(|ms| ms <= at.now_ms);
        let is_old = steady_ms >= appetite.denied_ms + CALLED_PAUSE_MS;
        let (mut sum, mut short, mut again) = (Amount::ZERO, Amount::ZERO, None::<Amount>);
        for amount in asks {
            if appetite.is_hopeless(purse, amount) {
                if is_old || is_over(amount) {
                    again = Some(again.map_or(amount, |again| again.min(amount)));
                }
            } else if appetite.refusal(purse, amount) == Verdict::PurseEmpty {
                sum = Amount::new(sum.get().saturating_add(amount.get()));
                short = short.max(amount);
            }
        }
        let called = sum > Amount::ZERO && !purse.covers(sum, at);
        if called {
            appetite.called = Amount::new(appetite.called.get().saturating_add(sum.get()));
            appetite.lacks(short, false);
        }
        if let Some(amount) = again {
            appetite.lacks(amount, true);
            appetite.again_waits = true;
        }
        let asks = called || again.is_some();
        if asks && !purse.listed {
            purse.listed = true;
            self.wanted.push(slot);
        }
        asks
    }

    /// Money came back to the bank that it did not have when it said no: that is no word any more, and the next call asks it anew.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn doubt(&mut self, slot: u32) {
        let appetite = &mut self.appetites[slot as usize];
        (appetite.denied_ms, appetite.no) = (0, No::LATER);
    }

    /// Asks for the memory that [`Purses::reserve`] will touch for a slot: a frame's purses can be fetched all at
    /// once, before the first of them is needed.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(purse) = self.purses.get(slot as usize) {
            table::prefetch(purse);
            self.held.prefetch(slot);
        }
    }

    /// Takes back a reservation of the same moment, before its token went anywhere: another member of its
    /// pod was refused.
    pub fn undo(&mut self, slot: u32, hold: &Hold) {
        let removed = self.held.remove(slot, hold.deadline_ms, hold.amount.get());
        assert!(removed.is_ok(), "only what was reserved is undone: {removed:?}");
        let purse = &mut self.purses[slot as usize];
        purse.free = plus(purse.free, hold.amount);
        self.appetites[slot as usize].made -= 1;
        self.note(slot);
    }

    /// Notes that something else is to be shown of the purse than was.
    fn note(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.purses[slot as usize].noted, true) {
            self.changed.push_back(slot);
        }
    }

    /// As if all had changed: for who shows them anew.
    pub fn note_all(&mut self) {
        (0..).take(self.purses.len()).for_each(|slot| self.note(slot));
    }

    /// A purse whose [`Purses::held`] or [`Purses::made`] may be another one than when this returned it last, the first to change
    /// first.
    pub fn next_changed(&mut self) -> Option<u32> {
        let slot = self.changed.pop_front()?;
        self.purses[slot as usize].noted = false;
        Some(slot)
    }

    #[cold]
    fn refuse_ask(&mut self, slot: u32, amount: Amount, at: At) -> Verdict {
        let purse = &self.purses[slot as usize];
        let appetite = &mut self.appetites[slot as usize];
        if !appetite.is_hopeless(purse, amount) {
            appetite.refused = Amount::new(appetite.refused.get().saturating_add(amount.get()));
        }
        self.refuse(slot, amount, at)
    }

    #[cold]
    fn refuse(&mut self, slot: u32, amount: Amount, at: At) -> Verdict {
        let purse = &self.purses[slot as usize];
        let appetite = &mut self.appetites[slot as usize];
        appetite.lacks(amount, appetite.is_hopeless(purse, amount));
        let why = appetite.refusal(purse, amount);
        self.list(slot, at.now_ms);
        why
    }

    /// Notes that the purse wants money, unless it just said so.
    fn list(&mut self, slot: u32, now_ms: u64) {
        let now_ms = self.steady_ms.unwrap_or(now_ms);
        let purse = &mut self.purses[slot as usize];
        if !purse.listed && now_ms >= self.appetites[slot as usize].again_ms {
            purse.listed = true;
            self.wanted.push(slot);
        }
    }

    /// Takes a message of the bank. `Resolved`, `Echo` and `Owner` are not for purses; they are ignored here.
    pub fn take(&mut self, message: ToWorker, now_ms: u64) {
        match message {
            ToWorker::Fill { slot, grant, amount, valid_from_ms, valid_until_ms } => {
                self.fill(slot, grant, amount);
                let purse = &mut self.purses[slot as usize];
                (purse.valid_from_ms, purse.valid_until_ms) = (valid_from_ms, valid_until_ms);
            }
            ToWorker::Restore { slot, grant, amount } => {
                let purse = &mut self.purses[slot as usize];
                if purse.grant == grant {
                    purse.free = plus(purse.free, amount);
                    self.given(slot, amount);
                } else {
                    self.outbox.push_back(ToBank::Return { grant, amount });
                }
            }
            ToWorker::Recall { slot, no } => {
                self.retire(slot);
                self.deny(slot, no, now_ms);
            }
            ToWorker::Deny { slot, no } => self.deny(slot, no, now_ms),
            ToWorker::Resolved { .. }
            | ToWorker::Echo { .. }
            | ToWorker::Owner { .. }
            | ToWorker::TimedOwner { .. } => {}
        }
    }

    fn fill(&mut self, slot: u32, grant: u64, amount: Amount) {
        if self.purses[slot as usize].grant != grant {
            self.retire(slot);
            let purse = &mut self.purses[slot as usize];
            let appetite = &mut self.appetites[slot as usize];
            appetite.made += i64::from(purse.next_seq);
            appetite.given = Amount::ZERO;
            purse.grant = grant;
            purse.next_seq = 0;
        }
        let purse = &mut self.purses[slot as usize];
        purse.free = plus(purse.free, amount);
        purse.low_water = Amount::new(amount.get() / 2);
        self.given(slot, amount);
        self.appetites[slot as usize].no = No::LATER;
    }

    /// Money of the purse's grant has come to it.
    fn given(&mut self, slot: u32, amount: Amount) {
        let given = &mut self.appetites[slot as usize].given;
        *given = Amount::new(given.get().saturating_add(amount.get()));
    }

    fn deny(&mut self, slot: u32, no: No, now_ms: u64) {
        let purse = &mut self.purses[slot as usize];
        let now_ms = self.steady_ms.unwrap_or(now_ms);
        let appetite = &mut self.appetites[slot as usize];
        (appetite.denied_ms, appetite.no) = (now_ms, no);
        if no.is_to_all() {
            // Until money comes back there is nothing to run low on.
            purse.low_water = Amount::ZERO;
            appetite.again_ms = now_ms + DENIED_PAUSE_MS;
        }
    }

    /// Gives back what is unreserved, and reports every hold of the grant: no more will be made from it.
    fn retire(&mut self, slot: u32) {
        let purse = &mut self.purses[slot as usize];
        let (grant, free) = (purse.grant, purse.free);
        if grant == 0 {
            return;
        }
        (purse.grant, purse.free, purse.valid_until_ms) = (0, Amount::ZERO, 0);
        let outbox = &mut self.outbox;
        self.held.drain_slot(slot, &mut |slot, deadline_ms, amount, holds| {
            let amount = Amount::new(amount);
            outbox.push_back(ToBank::Lapse { slot, grant, deadline_ms, amount, holds });
        });
        self.outbox.push_back(ToBank::Retire { slot, grant, free });
        self.note(slot);
    }

    /// Once per wake-up: reports holds whose deadline has passed, asks for money where it runs low, and says how
    /// far the clock is. Messages wait in the outbox.
    pub fn turn(&mut self, now_ms: u64) {
        let (purses, outbox, changed) = (&mut self.purses, &mut self.outbox, &mut self.changed);
        self.held.drain_due(now_ms, &mut |slot, deadline_ms, amount, holds| {
            let purse = &mut purses[slot as usize];
            if !std::mem::replace(&mut purse.noted, true) {
                changed.push_back(slot);
            }
            let (grant, amount) = (purse.grant, Amount::new(amount));
            outbox.push_back(ToBank::Lapse { slot, grant, deadline_ms, amount, holds });
        });
        self.want(now_ms);
    }

    fn want(&mut self, now_ms: u64) {
        let now_ms = self.steady_ms.unwrap_or(now_ms);
        let mut wanted = std::mem::take(&mut self.wanted);
        for slot in wanted.drain(..) {
            let standing = self.standing(slot);
            let purse = &mut self.purses[slot as usize];
            purse.listed = false;
            let appetite = &mut self.appetites[slot as usize];
            appetite.again_ms = now_ms + WANT_PAUSE_MS;
            let need = Need {
                asked: std::mem::take(&mut purse.asked),
                refused: std::mem::take(&mut appetite.refused),
                short: std::mem::take(&mut appetite.short),
                again: std::mem::take(&mut appetite.again),
                again_waits: std::mem::take(&mut appetite.again_waits),
                called: std::mem::take(&mut appetite.called),
                ..standing
            };
            self.outbox.push_back(ToBank::Want { slot, need });
        }
        self.wanted = wanted;
    }

    /// Says that every later stamp will be `now_ms` or later.
    pub fn tick(&mut self, now_ms: u64) {
        self.outbox.push_back(ToBank::Tick { now_ms });
    }

    /// Queues a message of the worker's own, in order with those of the purses: the stamps must rise.
    pub fn send(&mut self, message: ToBank) {
        self.outbox.push_back(message);
    }

    /// The next message for the bank, in order.
    pub fn next_message(&mut self) -> Option<ToBank> {
        self.outbox.pop_front()
    }

    /// Messages for the bank that were not taken yet.
    pub fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// Puts back a message that could not be sent.
    pub fn unsend(&mut self, message: ToBank) {
        self.outbox.push_front(message);
    }

    /// What the purse of a slot has and has made, without what is asked of it.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn standing(&self, slot: u32) -> Need {
        let (purse, appetite) = (&self.purses[slot as usize], &self.appetites[slot as usize]);
        Need {
            free: purse.free,
            held: Amount::new(self.held.sum(slot)),
            grant: purse.grant,
            given: appetite.given,
            seq: purse.next_seq,
            ..Need::default()
        }
    }

    /// Money in the purse of a slot that is not reserved.
    pub fn free(&self, slot: u32) -> Amount {
        self.purses[slot as usize].free
    }

    /// What the bank said of an ask that was refused just now; `None` where it did not say that money is used up.
    pub fn used_up(&self, slot: u32, amount: Amount) -> Option<UsedUp> {
        let no = self.appetites[slot as usize].no;
        let No { period, limit, .. } = no;
        let retry_at_ms = no.retry_at_ms(amount);
        let window = period.map(|period| WindowUsedUp { period, limit, retry_at_ms });
        // An answer to every ask leaves nothing but what the purse has.
        let left = minus(no.from.max(Amount::new(1)), Amount::new(1));
        let left = left.max(self.purses[slot as usize].free);
        no.knows(amount).then_some(UsedUp { left, window })
    }

    /// When money of an earlier run comes back that an ask answered [`Verdict::PurseEmpty`] waits for: see [`No::returns_ms`].
    pub fn returns_ms(&self, slot: u32, amount: Amount) -> Option<u64> {
        self.appetites[slot as usize].no.returns_ms(amount)
    }

    /// Holds made from the purse of a slot in its life, without those that were undone: told by the numbers of holds, which
    /// are kept anyway.
    pub fn made(&self, slot: u32) -> u64 {
        let earlier = self.appetites[slot as usize].made;
        let made = earlier.saturating_add(self.purses[slot as usize].next_seq.into());
        // Below zero only between an undo and the hold that it undid, which are one step.
        u64::try_from(made).unwrap_or(0)
    }

    /// Money in holds of the slot whose deadline was not reported yet, whatever became of them.
    pub fn held(&self, slot: u32) -> Amount {
        Amount::new(self.held.sum(slot))
    }
}
