//! What workers and the bank tell each other. Messages between one worker and the bank arrive in order.

use wire::{Action, Verdict};

use crate::{Amount, Hold, Origin};

/// From a worker to the bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ToBank {
    /// The purse runs low, or refused an ask: please fill it.
    Want {
        /// The purse.
        slot: u32,
        /// What is in it.
        free: Amount,
        /// Asked of it since the last `Want`, granted or not.
        asked: Amount,
        /// The largest ask it had to refuse since then; zero if none.
        short: Amount,
        /// What asks that wait for the answer need together; zero if none wait.
        called: Amount,
        /// Holds made from its grant so far.
        seq: u32,
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
    /// To be sent back: whoever reads it knows that everything the worker said before has been answered, as far as it is answered
    /// at all, and that the answers are sealed.
    Echo {
        /// Comes back unchanged.
        reply: u64,
    },
    /// All later messages of this worker carry stamps from this instant on.
    Tick {
        /// The worker's clock.
        now_ms: u64,
    },
}

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
        /// No reservation from it before this instant: the flight or the day begins then.
        valid_from_ms: u64,
        /// No reservation from it from this instant on: the flight or the day ends then.
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
    /// Retire the purse's grant and answer later asks with `why` until it is filled again.
    Recall {
        /// The purse.
        slot: u32,
        /// The reason to give.
        why: Verdict,
    },
    /// There is nothing to fill the purse with; answer asks that it cannot cover with `why`.
    Deny {
        /// The purse.
        slot: u32,
        /// The reason to give.
        why: Verdict,
    },
    /// Everything that the worker said before its `Echo` is answered.
    Echo {
        /// From the request.
        reply: u64,
    },
    /// The answer to `Resolve`, to be sent once its record is sealed.
    Resolved {
        /// From the request.
        reply: u64,
        /// The answer.
        verdict: Verdict,
        /// It is the first answer again; nothing was booked now.
        repeat: bool,
    },
}
