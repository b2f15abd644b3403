//! Keys of idempotency: a client names its request, and a repeat under the same name gets the first answer.
//!
//! The name is 128 bits that the door makes of the client's key under a secret of the node; what was asked is a digest of 128
//! bits beside it. The ledger knows neither text. A request with a key is **claimed** first: of all who come with the same key one
//! does the work, the others wait for its answer. What it books is recorded together with the answer, as one record, so there
//! is no instant at which one of the two is on the disk without the other.

use wire::{Action, Verdict};

use crate::{Amount, Hold, Origin};

/// Longest answer that is kept for a key, bytes.
pub const ANSWER_BYTES_MAX: usize = 512;

/// The least time that the answer to a key is kept, from the stamp of the request that was booked; [`crate::Options`] has the time
/// that it is kept. A journal is read alike whatever that is and was: no record follows an answer to its own key sooner.
pub const ANSWER_KEPT_MS_MIN: u64 = 60_000;

/// Whose a key is: keys of one caller have these 32 high bits in common.
#[must_use]
pub fn caller(key: u128) -> u32 {
    u32::try_from(key >> 96).unwrap_or(u32::MAX)
}

/// Claims under way, with those who wait for them, in all. Beyond it a claim is answered [`Claimed::Busy`].
pub const CLAIMS_MAX: usize = 65_536;

/// Those who wait for one claim. Beyond it a repeat is answered [`Claimed::Busy`].
pub const CLAIM_WAITERS_MAX: usize = 64;

/// From a worker to the bank, beside [`crate::ToBank`]: what only requests with keys and memos need, so that the others do not pay for it.
/// It goes out before the messages that are made after it, as stamps must rise.
#[derive(Clone, Debug, PartialEq)]
pub enum Keyed {
    /// A request with this key came in: may it be done, or is it a repeat? Answered by a [`Claimed`].
    Claim {
        /// Whatever the worker needs to find the asker again; comes back unchanged.
        reply: u64,
        /// The hash of the key.
        key: u128,
        /// The digest of what is asked.
        digest: u128,
        /// When the worker read the request.
        at_ms: u64,
        /// The request names a token, which makes it safe to repeat: where there is no room for its answer it is done without one,
        /// answered [`Claimed::Unkept`].
        has_token: bool,
    },
    /// The answer to a request whose claim was answered [`Claimed::New`] is kept, nothing becomes of its hold, and the claim is over. The hold was
    /// made for it; or a [`Keyed::Resolve`] came to what had become of the hold before. Answered as that is, with `Granted`.
    Keep {
        /// The hold.
        hold: Hold,
        /// When the worker read the request.
        at_ms: u64,
        /// Who asks.
        origin: Origin,
        /// Comes back unchanged.
        reply: u64,
        /// The hash of the key.
        key: u128,
        /// What repeats get beside the verdict, at most [`ANSWER_BYTES_MAX`] bytes.
        answer: Box<[u8]>,
    },
    /// Confirm, settle or release a hold for a request whose claim was answered [`Claimed::New`]; answered as
    /// [`crate::ToBank::Resolve`] is. Where something is booked the answer is kept with it, and the claim is over. Where nothing is,
    /// the claim stays with the asker, who ends it with `Keep` or `Answered`.
    Resolve {
        /// What to do.
        action: Action,
        /// The hold, from its token.
        hold: Hold,
        /// Settle: what was spent.
        amount: Amount,
        /// When the worker read the request.
        at_ms: u64,
        /// Who asks.
        origin: Origin,
        /// Comes back unchanged.
        reply: u64,
        /// The hash of the key.
        key: u128,
        /// What repeats get beside the verdict, at most [`ANSWER_BYTES_MAX`] bytes; a longer one is refused `BadAmount`.
        answer: Box<[u8]>,
    },
    /// The request came to an answer that booked nothing: those who wait get it, and nothing is kept.
    Answered {
        /// The hash of the key.
        key: u128,
        /// What it came to.
        verdict: Verdict,
        /// What those who wait get beside it.
        answer: Box<[u8]>,
    },
    /// A door's memo, judged before it is recorded; answered by a [`crate::MemoAnswer`]. Sent once: a second one of the same hold would
    /// give it back.
    Memo(Box<crate::MemoRequest>),
}

/// What a claim comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Nobody asked it before: the asker does it, and ends the claim.
    New,
    /// The key was used for another request.
    Conflict,
    /// No room for another key, or for another one who waits.
    Busy,
    /// The same, for a request that is safe to repeat by its token: the asker does it, there is no claim, and nothing is kept.
    Unkept,
    /// It was asked before: the first answer.
    Answer {
        /// What the first one came to.
        verdict: Verdict,
        /// What its door gave beside it.
        answer: Box<[u8]>,
    },
}

/// What a record of a resolve keeps for repeats of its request.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept {
    /// The hash of the key.
    pub key: u128,
    /// The digest of what was asked.
    pub digest: u128,
    /// What repeats get beside the verdict, at most [`ANSWER_BYTES_MAX`] bytes. It may hold a token.
    pub answer: Box<[u8]>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An answer may hold a token, which must not reach a log.
        let Kept { key, digest, answer } = self;
        write!(f, "Kept {{ key: {key:032x}, digest: {digest:032x}, bytes: {} }}", answer.len())
    }
}
