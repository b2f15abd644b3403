//! Memos: what a door must still know after a crash, and before it says yes.
//!
//! A memo is a few bytes under a key of its door; a later one takes the place of the earlier, and one without bytes removes it. The ledger
//! sees bytes alone. Before one is recorded the door's **judge** says what it is beside those that are there: new, known, or refused. The
//! judge runs in the bank's turn, one memo after the other, so it is where two workers' requests under one key meet. It keeps nothing of
//! its own: all that it may know is in the [`DoorMemos`] that it is shown, which follow from the records alone, in replay as live.
//!
//! A memo may come with money. Then both are one record, so there is no instant at which one of them is on the disk without the other.

use std::collections::BTreeMap;

use wire::{Action, Verdict};

use crate::{Amount, Door, Hold, Origin};

/// Longest memo, bytes. What a door keeps by the megabyte lies in files of its own, of which a memo says how much counts.
pub const MEMO_BYTES_MAX: usize = 256;

/// Memos that a door may have at once. Beyond it a new key is [`MemoRefusal::Full`].
pub const MEMOS_MAX: usize = 65_536;

/// What a door has the bank record.
#[derive(Clone, PartialEq, Eq)]
pub struct Memo {
    /// Whose it is.
    pub door: Door,
    /// What of the door's it is about.
    pub key: u128,
    /// At most [`MEMO_BYTES_MAX`]; none: nothing is known of the key any more.
    pub bytes: Box<[u8]>,
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The bytes may be a secret of the door, which must not reach a log.
        let Memo { door, key, bytes } = self;
        write!(f, "Memo {{ door: {door:?}, key: {key:032x}, bytes: {} }}", bytes.len())
    }
}

/// The money that a memo belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoMoney {
    /// None.
    Without,
    /// A hold that the asker made for it. It stays open where the memo is new, and is given back where it is known or refused.
    Made {
        /// The hold.
        hold: Hold,
        /// Who asks.
        origin: Origin,
    },
    /// A hold that is confirmed, settled or released where the memo is new. Where that books nothing, the memo is not recorded either.
    Resolve {
        /// What to do.
        action: Action,
        /// The hold, from its token.
        hold: Hold,
        /// Settle: what was spent.
        amount: Amount,
        /// Who asks.
        origin: Origin,
    },
}

/// From a worker to the bank: a memo to be recorded. Answered by a [`MemoAnswer`].
#[derive(Clone, Debug, PartialEq)]
pub struct MemoRequest {
    /// What is to be recorded...
    pub memo: Memo,
    /// ...and its money.
    pub money: MemoMoney,
    /// When the worker read the request.
    pub at_ms: u64,
    /// Whatever the worker needs to find the asker again; comes back unchanged.
    pub reply: u64,
}

/// What a judge says of a memo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoJudgement {
    /// Nothing speaks against it: it is recorded.
    New,
    /// It was asked before: this is the first answer.
    Known(Box<[u8]>),
    /// It cannot be.
    Refused(Verdict),
}

/// A door's judge. It must say the same of the same memos, whenever and wherever it is asked.
pub type MemoJudge = fn(&DoorMemos<'_>, &Memo) -> MemoJudgement;

/// What became of a memo. All of it may be told once the records before it are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoAnswer {
    /// It is recorded, with its money.
    New {
        /// What the money came to: `Granted` for a hold that was made; `None` for a memo without money.
        verdict: Option<Verdict>,
    },
    /// It was recorded before; nothing was booked now.
    Known {
        /// The first answer.
        answer: Box<[u8]>,
    },
    /// Its money books nothing, so it is not recorded.
    NotBooked {
        /// Why.
        verdict: Verdict,
        /// It is the first answer of the hold again.
        repeat: bool,
    },
    /// Nothing was recorded or booked.
    Refused(MemoRefusal),
}

/// Why a memo is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoRefusal {
    /// The door's code is at fault: what it keeps must be shorter.
    #[error(
        "a memo of {bytes} bytes; at most {MEMO_BYTES_MAX} are recorded, keep the rest in a file of the door and its length in the memo"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// No judge is registered for it: see [`crate::Options::memo_judges`].
    #[error("the door {0:?} has no judge of memos in this node")]
    NoJudge(Door),
    /// The door has [`MEMOS_MAX`] of them.
    #[error(
        "the door {0:?} has {MEMOS_MAX} memos, which is the most; remove those that count no more"
    )]
    Full(Door),
    /// The judge says so.
    #[error("the door's judge refused the memo: {0:?}")]
    Judged(Verdict),
    /// Nothing can be sealed at the moment: `Journal`, or `CutOff` where another node may be the bank by now. A hold that was made for
    /// the memo comes back when its time is over.
    #[error("nothing can be sealed at the moment ({0:?}); ask again")]
    Unsealed(Verdict),
}

impl MemoRefusal {
    /// Is a memo of so many bytes too long?
    ///
    /// # Errors
    /// [`MemoRefusal::TooLong`].
    pub fn check_len(bytes: usize) -> Result<(), MemoRefusal> {
        if bytes <= MEMO_BYTES_MAX { Ok(()) } else { Err(MemoRefusal::TooLong { bytes }) }
    }
}

/// A memo that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptMemo {
    pub(crate) bytes: Box<[u8]>,
    /// The stamp of its request.
    pub(crate) at_ms: u64,
}

/// The memos of one door that count.
#[derive(Clone, Copy, Debug)]
pub struct DoorMemos<'a> {
    pub(crate) by_key: Option<&'a BTreeMap<u128, KeptMemo>>,
}

impl<'a> DoorMemos<'a> {
    /// The one of a key.
    #[must_use]
    pub fn get(&self, key: u128) -> Option<&'a [u8]> {
        self.by_key?.get(&key).map(|kept| &*kept.bytes)
    }

    /// All of them, by key, each with the stamp of its request.
    pub fn iter(&self) -> impl Iterator<Item = (u128, &'a [u8], u64)> + use<'a> {
        let all = self.by_key.into_iter().flatten();
        all.map(|(key, kept)| (*key, &*kept.bytes, kept.at_ms))
    }

    /// Those from a key on, by key.
    pub fn from(&self, key: u128) -> impl Iterator<Item = (u128, &'a [u8])> + use<'a> {
        let all = self.by_key.into_iter().flat_map(move |all| all.range(key..));
        all.map(|(key, kept)| (*key, &*kept.bytes))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.map_or(0, BTreeMap::len)
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is kept for a request, in the record of its money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptWith {
    /// What repeats of its key of idempotency are answered.
    Answer(crate::Kept),
    /// The memo of its door.
    Memo(Memo),
}
