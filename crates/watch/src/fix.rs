//! What the admin API shows of FIX sessions, and what it does to them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::EditError;

/// Which side opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixKind {
    /// The peer connects to the gate.
    Client,
    /// The gate connects to the peer.
    Venue,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixState {
    /// There is no connection.
    Waiting,
    /// There is one, and the peer's Logon has not come.
    LoggingOn,
    /// Both sides are logged on, and nothing is missing.
    LoggedOn,
    /// The same, and one of them sends messages again.
    Resending,
    /// The gate has sent a Logout, and the answer has not come.
    LoggingOut,
    /// There is no connection, and the schedule wants none now.
    OutOfSchedule,
}

/// When what the gate sends may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixDurability {
    /// Once the system has it.
    Written,
    /// Once it is on the disk.
    Sealed,
}

/// How a FIX session stands. Counts and times are of this run of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixSession {
    /// Its name in the configuration.
    #[schema(example = "CLIENT1")]
    pub name: String,
    /// Which side opens the connection.
    pub kind: FixKind,
    /// BeginString (8).
    #[schema(example = "FIX.4.4")]
    pub begin_string: String,
    /// SenderCompID (49) of what the gate sends.
    pub sender_comp_id: String,
    /// TargetCompID (56) of what the gate sends.
    pub target_comp_id: String,
    /// Where it stands.
    pub state: FixState,
    /// MsgSeqNum (34) of the next message to send.
    #[schema(minimum = 1)]
    pub next_out: u64,
    /// MsgSeqNum (34) that is expected.
    #[schema(minimum = 1)]
    pub next_in: u64,
    /// The other end of its connection.
    #[schema(required, example = "203.0.113.7:41234")]
    pub address: Option<String>,
    /// When a message last came.
    #[schema(required)]
    pub last_in_ms: Option<u64>,
    /// When one last left.
    #[schema(required)]
    pub last_out_ms: Option<u64>,
    /// Of a client: `echo`, or the name of its venue.
    #[schema(required)]
    pub route: Option<String>,
    /// When what the gate sends may leave.
    pub durability: FixDurability,
    /// Gaps in what came.
    pub gaps: u64,
    /// Messages that came.
    pub messages_in: u64,
    /// Messages that left, also again.
    pub messages_out: u64,
    /// How long what came stayed in the gate, from the worker's look at it until everything that it led to was kept and on its way: the median
    /// of the last 512 times, microseconds. Null before anything came.
    #[schema(required)]
    pub latency_p50_us: Option<u64>,
    /// The 99th percentile of the same.
    #[schema(required)]
    pub latency_p99_us: Option<u64>,
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixDirection {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// A message of a session as it is kept: with `***` in place of passwords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixMessage {
    /// When, microseconds since 1970 UTC.
    pub at_us: u64,
    /// Which way.
    pub direction: FixDirection,
    /// Its fields, each with its SOH; null where what is kept is damaged, or is no UTF-8.
    #[schema(required)]
    pub message: Option<String>,
    /// The bytes of one that is no UTF-8, in hexadecimal digits; else null.
    #[schema(required)]
    pub hex: Option<String>,
}

/// A page of messages, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixMessages {
    /// These.
    pub messages: Vec<FixMessage>,
    /// To be given back as `cursor`; null on the last page.
    #[schema(required, example = "2:4096")]
    pub next: Option<String>,
}

/// Where an order is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixOrderState {
    /// It may be executed.
    Open,
    /// The same, or it is filled, and a replace waits for the venue's answer.
    Replacing,
    /// The same, and the venue has not answered whether it has all of its messages.
    InDoubt,
    /// Nothing is open any more.
    Closed,
}

/// An order that was passed to a venue. Numbers are decimals as text; what no message said is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixOrder {
    /// The client's session.
    pub session: String,
    /// The venue's session.
    pub venue: String,
    /// ClOrdID (11) of the version that the venue has, as the client sent it.
    pub cl_ord_id: String,
    /// OrderID (37).
    #[schema(required)]
    pub order_id: Option<String>,
    /// Account (1).
    #[schema(required)]
    pub account: Option<String>,
    /// Symbol (55).
    #[schema(required)]
    pub symbol: Option<String>,
    /// Side (54).
    #[schema(required, example = "1")]
    pub side: Option<String>,
    /// OrderQty (38); null of an order by cash amount, and of one that was not opened here.
    #[schema(required, example = "100")]
    pub quantity: Option<String>,
    /// Price (44); null where there is none above 0.
    #[schema(required, example = "10.50")]
    pub price: Option<String>,
    /// What is executed.
    #[schema(required, example = "40")]
    pub cum: Option<String>,
    /// What may still be executed.
    #[schema(required, example = "60")]
    pub leaves: Option<String>,
    /// Where it is in its life.
    pub state: FixOrderState,
    /// What each budget that binds it holds for it, by its id; null where none does.
    #[schema(required, value_type = Option<Object>)]
    pub hold: Option<serde_json::Value>,
    /// What each has booked of it; null where none binds it.
    #[schema(required, value_type = Option<Object>)]
    pub booked: Option<serde_json::Value>,
}

/// A page of orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixOrders {
    /// These, in no order that means something.
    pub orders: Vec<FixOrder>,
    /// To be given back as `cursor`; null on the last page.
    #[schema(required, example = "4294967552")]
    pub next: Option<String>,
}

/// Which messages are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixPage {
    /// Not before this, ms since 1970 UTC.
    pub from_ms: Option<u64>,
    /// Before this.
    pub to_ms: Option<u64>,
    /// Where the page before ended: number of a file, and a place in it.
    pub cursor: Option<(u64, u64)>,
    /// So many at most.
    pub max: usize,
}

/// What somebody wants done to a session.
#[derive(Clone, Debug)]
pub struct FixChange {
    /// Who.
    pub who: Box<str>,
    /// Why, 3 to 500 characters.
    pub why: Box<str>,
    /// The session's name.
    pub session: String,
    /// What.
    pub act: FixAct,
}

/// What is done to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the API")]
pub enum FixAct {
    /// Both numbers are set.
    Sequence { next_out: u64, next_in: u64 },
    /// Both numbers are 1.
    Reset,
    /// The peer is asked to send messages again; to 0: all there are.
    Resend { from: u64, to: u64 },
    /// The peer gets a Logout.
    LogOut,
}

/// Whose orders are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixKillScope {
    /// Those of a client's session.
    Session,
    /// Those of an Account (1).
    Account,
    /// Those of all sessions of a firm.
    Firm,
}

/// Orders that are stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixKill {
    /// What the name names.
    pub scope: FixKillScope,
    /// Whose orders; there may be nobody of that name.
    #[schema(example = "CLIENT1")]
    pub name: String,
    /// Why; after a restart maybe only its beginning, the audit has it whole.
    pub reason: String,
    /// Name of the token that stopped them; null where there were none.
    #[schema(required)]
    pub who: Option<String>,
    /// Since when.
    pub at_ms: u64,
    /// A restart knows of it.
    pub sealed: bool,
    /// The configured sessions that it stops as a whole; none of an account.
    pub sessions: Vec<String>,
}

/// All orders that are stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FixKills {
    /// The oldest first, since the start.
    pub kills: Vec<FixKill>,
}

/// Orders that somebody wants to be stopped, or to pass again.
#[derive(Clone, Debug)]
pub struct FixKillChange {
    /// Who.
    pub who: Box<str>,
    /// A token was shown.
    pub has_token: bool,
    /// Why, 3 to 500 characters.
    pub why: Box<str>,
    /// Whose.
    pub scope: FixKillScope,
    /// By name.
    pub name: String,
    /// They are to be stopped.
    pub stops: bool,
}

/// Why something is not done, or not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixError {
    /// There is no such session.
    #[error("{0}")]
    Unknown(String),
    /// It has a connection.
    #[error("nothing was done: {0}")]
    LoggedOn(String),
    /// It is not logged on.
    #[error("nothing was done: {0}")]
    NotLoggedOn(String),
    /// A number that cannot be: which, what was found, what was expected.
    #[error("nothing was done: {0}: found {1}, expected {2}")]
    Unfit(&'static str, u64, String),
    /// Somebody else has to do it.
    #[error("nothing was done: {0}")]
    Forbidden(String),
    /// The disk does not take it, or the worker does not answer.
    #[error("{0}")]
    NotReady(String),
    /// It is not recorded, so it was not done.
    #[error(transparent)]
    NotRecorded(#[from] EditError),
}
