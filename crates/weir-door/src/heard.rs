//! What a door hears beside the bytes of its connections.

use std::net::SocketAddr;

use door_transport::{ConnId, DialFailure, DialId};
use ledger::{Claimed, MemoAnswer, NamedAnswer, Owner, TimedAnswer, TimedFacts};
use weir_till::{Answer, Reply};
use wire::Verdict;

/// One thing that a door hears, between two batches of bytes; it may write to any of its connections then, and resume one that waits for
/// an answer. A door matches what it asked for.
#[derive(Debug)]
pub enum Heard<'a> {
    /// The budget that was asked for with [`weir_till::Till::open`] is sealed: its slot, or why there is none.
    Budget(Reply, Result<u32, Verdict>),
    /// What became of a claim: [`weir_till::Till::claim`]. One that is `New` is the door's to end, also where its asker is gone by now.
    Claimed(Reply, Claimed),
    /// What became of a memo: [`weir_till::Till::memo`]. It is sealed, with its money, or nothing of it is there.
    Recorded(Reply, MemoAnswer),
    /// What became of each of the named holds of [`weir_till::Till::named`], in its order; what was done is sealed.
    Named(Reply, Vec<NamedAnswer>),
    /// What became of a hold that ends by time: [`weir_till::Till::timed`]. What was done is sealed.
    Timed(Reply, TimedAnswer),
    /// The budget of the hold that the bank was asked about with [`weir_till::Till::owner`]; `None`: nothing is known of it. With what else there
    /// is to know of one that ends by time.
    Owner(Reply, Option<Owner>, Option<TimedFacts>),
    /// The bank has taken everything that was said before [`weir_till::Till::echo`].
    Echo(Reply),
    /// The answer to a question of this connection, which is still open: [`weir_till::Till::question`].
    Answer(ConnId, &'a Answer),
    /// An attempt of a dial failed, which may be another door's.
    DialFailed(DialId, FailedDial),
    /// The time of [`crate::Door::door_tick_ms`] has come.
    Tick,
    /// Another configuration is in force.
    Configured,
    /// The node stops. Said once; connections end when every door is drained.
    Stopping,
}

/// Why an attempt of a dial failed, and when the next one comes.
#[derive(Clone, Debug)]
pub struct FailedDial {
    /// Where it went.
    pub address: SocketAddr,
    /// Why it failed.
    pub why: DialFailure,
    /// How long until the next one, ms.
    pub retry_ms: u64,
}
