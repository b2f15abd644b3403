//! What workers and the bank tell each other. Messages between one worker and the bank arrive in order.

use money::Unit;
use wire::{Action, Verdict};

use crate::spec::MADE_SLOT;
use crate::{Amount, Hold, Origin, Period, TimedFacts, WindowKind};

/// What a worker says of a purse that wants money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// What is in it.
    pub free: Amount,
    /// Reserved of it since the last want.
    pub asked: Amount,
    /// What it had to refuse since then, together, without the asks that a [`No`] had told it of.
    pub refused: Amount,
    /// The largest single one of these, and of the asks that wait; zero if none.
    pub short: Amount,
    /// The smallest ask that it refused because of a [`No`], which may not hold any more; zero if none.
    pub again: Amount,
    /// One of these waits for the answer.
    pub again_waits: bool,
    /// What asks that wait for the answer need together; zero if none wait.
    pub called: Amount,
    /// In holds that it did not report yet, whatever became of them.
    pub held: Amount,
    /// Its grant; 0 means none.
    pub grant: u64,
    /// What has come to it under its grant so far, spent or not: the bank knows what else is on its way.
    pub given: Amount,
    /// Holds made from its grant so far.
    pub seq: u32,
}

/// From a worker to the bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ToBank {
    /// The purse runs low, or refused an ask: please fill it.
    Want {
        /// The purse.
        slot: u32,
        /// What it says of itself.
        need: Need,
    },
    /// Everything that was reserved under `grant` with this deadline: the bank knows what of it was
    /// confirmed, settled or released, and gives back the rest once the deadline has passed.
    Lapse {
        /// The purse.
        slot: u32,
        /// The grant the holds were made from.
        grant: u64,
        /// Their deadline.
        deadline_ms: u64,
        /// Their sum.
        amount: Amount,
        /// How many they are.
        holds: u32,
    },
    /// The purse will make no more holds from `grant`; `free` was in it and goes back. All its holds
    /// were reported by `Lapse` before this.
    Retire {
        /// The purse.
        slot: u32,
        /// The grant.
        grant: u64,
        /// Unreserved money.
        free: Amount,
    },
    /// Money of a retired grant that reached the worker after it had retired the grant.
    Return {
        /// The grant.
        grant: u64,
        /// How much.
        amount: Amount,
    },
    /// Confirm, settle or release a hold whose token was found genuine.
    Resolve {
        /// What to do.
        action: Action,
        /// The hold, from its token.
        hold: Hold,
        /// Settle: what was spent.
        amount: Amount,
        /// When the worker read the request. The ledger judges deadlines by this stamp.
        at_ms: u64,
        /// Who asks.
        origin: Origin,
        /// Whatever the worker needs to find the asker again; comes back unchanged.
        reply: u64,
    },
    /// Somebody clicked what was bought with a hold, by an id that was found genuine. The answer is as to a resolve: its verdict is what the
    /// hold is by then.
    Click {
        /// The hold, from the id.
        hold: Hold,
        /// When the worker read the request.
        at_ms: u64,
        /// Where it came in.
        origin: Origin,
        /// Whatever the worker needs to find the asker again; comes back unchanged.
        reply: u64,
    },
    /// To be sent back: whoever reads it knows that everything the worker said before has been answered, as far as it is answered
    /// at all, and that the answers are sealed.
    Echo {
        /// Comes back unchanged.
        reply: u64,
    },
    /// Whose budget is a hold of? A door that is shown a token must know the unit of its amounts, and who may use it.
    Owner {
        /// The hold, from the token.
        hold: Hold,
        /// Comes back unchanged.
        reply: u64,
    },
    /// All later messages of this worker carry stamps from this instant on.
    Tick {
        /// The worker's clock.
        now_ms: u64,
    },
}

/// The budget that a grant was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its purses.
    pub slot: u32,
    /// Its number.
    pub id: u64,
    /// What its amounts count.
    pub unit: Unit,
    /// How long a confirmed hold of the grant lives beyond its first deadline, ms: [`crate::billing_deadline_ms`]. Grants of an earlier run
    /// keep what that was set to.
    pub billing_ms: u64,
}

/// The billing deadline of the holds with this first deadline, where a confirmed hold lives so much longer, ms. Rounded up to a 64th of
/// that, so that a grant has few of them.
#[must_use]
pub fn billing_deadline_ms(deadline_ms: u64, billing_ms: u64) -> u64 {
    let width = (billing_ms / 64).max(1);
    (deadline_ms + billing_ms).div_ceil(width) * width
}

impl ToBank {
    /// A message about purses that are counted from 0 but stand from [`MADE_SLOT`] on.
    #[must_use]
    pub fn of_made(mut self) -> ToBank {
        match &mut self {
            ToBank::Want { slot, .. }
            | ToBank::Lapse { slot, .. }
            | ToBank::Retire { slot, .. } => *slot += MADE_SLOT,
            ToBank::Return { .. }
            | ToBank::Resolve { .. }
            | ToBank::Click { .. }
            | ToBank::Echo { .. }
            | ToBank::Owner { .. }
            | ToBank::Tick { .. } => {}
        }
        self
    }
}

/// Why asks that a purse does not cover are refused, and how far the bank knows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct No {
    /// The reason to give...
    pub why: Verdict,
    /// ...to asks of so much and more...
    pub from: Amount,
    /// ...but less than this. Of others the bank knows nothing: they are [`Verdict::PurseEmpty`], and it is asked.
    pub below: Amount,
    /// Of which window it is the reason: `None` where that is the limit of the budget's life, or none.
    pub period: Option<Period>,
    /// How the window's limit comes back.
    pub kind: WindowKind,
    /// The window's limit: larger asks are never granted.
    pub limit: Amount,
    /// Of a fixed window its end, of a bucket the instant from which on what it refills is counted, ms since 1970: see
    /// [`No::retry_at_ms`]. Of money that an earlier run had in purses and holds when it comes back: see [`No::returns_ms`].
    pub until_ms: u64,
}

impl No {
    /// More than every ask.
    pub const UNBOUNDED: Amount = Amount::new(i64::MAX);

    /// The same answer to every ask.
    pub const fn to_all(why: Verdict) -> No {
        No {
            why,
            from: Amount::ZERO,
            below: No::UNBOUNDED,
            period: None,
            kind: WindowKind::Fixed,
            limit: Amount::ZERO,
            until_ms: 0,
        }
    }

    /// Money may be on its way: nothing is known of any ask.
    pub const LATER: No = No::to_all(Verdict::PurseEmpty);

    /// Asks of so much and more are covered once money of an earlier run has come back by itself, at this instant.
    pub(crate) const fn returns(from: Amount, until_ms: u64) -> No {
        No { from, until_ms, ..No::LATER }
    }

    /// When money of an earlier run comes back that such an ask waits for, ms since 1970.
    pub fn returns_ms(self, amount: Amount) -> Option<u64> {
        let waits = self.why == Verdict::PurseEmpty && self.until_ms > 0 && self.from <= amount;
        waits.then_some(self.until_ms)
    }

    /// Is there no ask that it does not refuse?
    pub(crate) fn is_to_all(self) -> bool {
        self.from <= Amount::new(1)
    }

    /// The reason that it gives to such an ask.
    pub fn to(self, amount: Amount) -> Verdict {
        match self.from <= amount && amount < self.below {
            true => self.why,
            false => Verdict::PurseEmpty,
        }
    }

    /// Does it say that money is used up, and of such an ask?
    pub(crate) fn knows(self, amount: Amount) -> bool {
        matches!(
            self.to(amount),
            Verdict::Exhausted | Verdict::DayExhausted | Verdict::WindowExhausted
        )
    }

    /// From when on its window has room for such an ask: the end of a fixed window, the instant at which a bucket has as much. `None`: never, or it
    /// is of no window.
    pub fn retry_at_ms(self, amount: Amount) -> Option<u64> {
        let period = self.period.filter(|_| amount <= self.limit)?;
        let refill_ms = match self.kind {
            WindowKind::Fixed => 0,
            WindowKind::Bucket => period.refill_ms(),
        };
        let parts = i128::from(amount.get().max(0)) * i128::from(refill_ms);
        let rate = i128::from(self.limit.get()).max(1);
        let wait_ms = u64::try_from((parts + rate - 1) / rate).unwrap_or(u64::MAX);
        Some(self.until_ms.saturating_add(wait_ms))
    }
}

/// What the bank said of a refused ask: that less is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// What was left, with every purse emptied. Of an ask that is larger than a whole window it is not known.
    pub left: Amount,
    /// The window that has no more; `None`: the limit of the budget's life.
    pub window: Option<WindowUsedUp>,
}

/// A window that has no room for an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowUsedUp {
    /// Which it is.
    pub period: Period,
    /// Its limit.
    pub limit: Amount,
    /// From when on there is room, where nothing comes back before: ms since 1970. `None`: never, as the ask is larger than the limit.
    pub retry_at_ms: Option<u64>,
}

/// What became of a request to confirm, settle or release a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The answer.
    pub verdict: Verdict,
    /// What is booked for the hold in all. `None`: nothing was done, or it is not known any more.
    pub amount: Option<Amount>,
    /// What was done for it.
    pub judged: Handled,
}

/// What was done for a request to confirm, settle or release a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It was judged, and booked where the verdict says so.
    Now,
    /// It was judged before: this is the first answer again, and nothing was booked now.
    Before,
    /// A billing notice of a settled hold named a higher price: the difference was booked now.
    ToppedUp,
}

impl Resolution {
    /// Nothing was booked.
    #[must_use]
    pub const fn refused(verdict: Verdict) -> Resolution {
        Resolution { verdict, amount: None, judged: Handled::Now }
    }

    /// Is it the first answer again?
    #[must_use]
    pub fn is_repeat(&self) -> bool {
        self.judged == Handled::Before
    }
}

/// What goes from the bank to a worker fits into so many bytes: answers are as many as holds.
const _: () = assert!(size_of::<ToWorker>() <= 48);

/// From the bank to a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ToWorker {
    /// Put money into a purse. A grant number other than the purse's present one starts a new grant.
    Fill {
        /// The purse.
        slot: u32,
        /// Number of the grant.
        grant: u64,
        /// How much.
        amount: Amount,
        /// No reservation from it before this instant: the flight or a window begins then.
        valid_from_ms: u64,
        /// No reservation from it from this instant on: the flight or a window ends then.
        valid_until_ms: u64,
    },
    /// Holds lapsed: their money is in the purse again.
    Restore {
        /// The purse.
        slot: u32,
        /// The grant it belongs to.
        grant: u64,
        /// How much.
        amount: Amount,
    },
    /// Retire the purse's grant and refuse later asks until it is filled again.
    Recall {
        /// The purse.
        slot: u32,
        /// Which, and why.
        no: No,
    },
    /// There is nothing to fill the purse with, or not for every ask: refuse those that it cannot cover.
    Deny {
        /// The purse.
        slot: u32,
        /// Which, and why.
        no: No,
    },
    /// Everything that the worker said before its `Echo` is answered.
    Echo {
        /// From the request.
        reply: u64,
    },
    /// The answer to `Owner`.
    Owner {
        /// From the request.
        reply: u64,
        /// The budget; `None`: nothing is known of the grant any more.
        of: Option<Owner>,
    },
    /// The same of a hold that ends by time.
    TimedOwner {
        /// The purses of the first budget that it draws on.
        slot: u32,
        /// Its number.
        id: u64,
        /// What its amounts count.
        unit: Unit,
        /// What the token does not say.
        facts: TimedFacts,
        /// From the request.
        reply: u64,
    },
    /// The answer to `Resolve`, to be sent once its record is sealed.
    Resolved {
        /// From the request; the asker knows by it which hold that was about.
        reply: u64,
        /// The answer.
        resolution: Resolution,
    },
}

impl ToWorker {
    /// A message about a purse from [`MADE_SLOT`] on: the purse counted from 0, and the message for it. `None`: it is about another
    /// purse, or none.
    pub fn made(mut self) -> Option<(u32, ToWorker)> {
        let slot = match &mut self {
            ToWorker::Fill { slot, .. }
            | ToWorker::Restore { slot, .. }
            | ToWorker::Recall { slot, .. }
            | ToWorker::Deny { slot, .. } => slot,
            ToWorker::Echo { .. }
            | ToWorker::Owner { .. }
            | ToWorker::TimedOwner { .. }
            | ToWorker::Resolved { .. } => {
                return None;
            }
        };
        *slot = slot.checked_sub(MADE_SLOT)?;
        Some((*slot, self))
    }
}
