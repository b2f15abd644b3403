//! What a session is given for one step, and what it asks for in return.

use crate::store::StoreError;

/// The time of a step, from two clocks: a clock that is set while the session runs moves no timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// A clock that never goes back, milliseconds from any origin. Timers use it.
    pub ms: u64,
    /// The wall clock, milliseconds since 1970-01-01T00:00:00Z. SendingTime (52) and schedules use it.
    pub unix_ms: i64,
}

/// What a session may use in one step.
#[derive(Debug)]
pub struct Turn<'t, S> {
    /// The time of the step.
    pub now: Now,
    /// The session's own store.
    pub store: &'t mut S,
    /// Takes what the session asks for.
    pub out: &'t mut Outbox,
}

/// What a session asks for. The caller empties it after each step: it sends the bytes, looks at the notices, then disconnects.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// Whole messages for the peer, one behind the other.
    pub bytes: Vec<u8>,
    /// What happened, in order; for logs, counters and alarms.
    pub notices: Vec<Notice>,
    /// The connection is to be closed once the bytes are sent. The session regards it as closed already.
    pub disconnect: Option<Disconnect>,
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disconnect {
    /// No bytes were sent: the peer's first message is no Logon.
    #[error("the first message is no Logon")]
    NoLogon,
    /// No bytes were sent: version or CompIDs of the Logon are another session's.
    #[error("the Logon names another session")]
    OtherSession,
    /// No bytes were sent: the Logon cannot be read, or lacks MsgSeqNum, SendingTime or DefaultApplVerID.
    #[error("the Logon is unreadable or incomplete")]
    UnfitLogon,
    /// No bytes were sent: SendingTime of the Logon is too far from this side's clock.
    #[error("SendingTime of the Logon is too far from this clock")]
    LogonTime,
    /// No bytes were sent: the session is closed at this time.
    #[error("the session is closed by its schedule")]
    Closed,
    /// The peer did not log on in time.
    #[error("no Logon within {seconds} s")]
    LogonTimeout {
        /// How long it had.
        seconds: u64,
    },
    /// This side logged out, with a reason that it told the peer.
    #[error("logged out: {reason}")]
    LoggedOut {
        /// Text (58) of the Logout, or empty.
        reason: String,
    },
    /// The peer logged out.
    #[error("the peer logged out: {text}")]
    PeerLoggedOut {
        /// Text (58) of its Logout, or empty.
        text: String,
    },
    /// The peer was silent for 2.4 heartbeat intervals.
    #[error("the peer was silent for {ms} ms")]
    Silent {
        /// How long.
        ms: u64,
    },
    /// BodyLength (9) is above the limit.
    #[error("BodyLength is {body_bytes}, above the limit")]
    TooLong {
        /// Its value.
        body_bytes: u64,
    },
    /// A message has more fields than the index has room for. Ignoring it would ask for it again and again.
    #[error("a message has too many fields")]
    TooManyFields,
    /// Garbled messages came one after the other.
    #[error("{messages} garbled messages in a row")]
    Garbled {
        /// How many.
        messages: u32,
    },
    /// The message store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Both sides are logged on.
    LoggedOn {
        /// The heartbeat interval in use, seconds; 0 for none.
        heart_bt_int_s: u32,
    },
    /// Both numbers began again at 1.
    Reset,
    /// Messages are missing, and the peer is asked for them.
    GapOpened {
        /// The first that is missing.
        from: u64,
        /// The last that is known to be missing.
        to: u64,
    },
    /// Everything that was known to be missing has come.
    GapClosed,
    /// **Alarm.** The peer gave these messages up with SequenceReset-Reset: they never came.
    PeerSkipped {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// **Alarm.** The peer asked for these messages, but the store has none of them: they were skipped with a gap fill.
    NotInStore {
        /// The number of the first.
        from: u64,
        /// The number of the last.
        to: u64,
    },
    /// **Alarm.** Messages that may not have reached the peer before the numbers began again cannot be sent to it as new ones: the store does
    /// not have them any more.
    WaitingLost,
    /// **Alarm.** The peer expects a number that this side has never sent: this side has lost data.
    PeerIsAhead {
        /// Own next number.
        next_out: u64,
        /// NextExpectedMsgSeqNum (789) of the peer.
        expected: u64,
    },
    /// A message was answered with a Reject (3).
    Rejected {
        /// Its number.
        seq: u64,
        /// What is wrong with it.
        rejection: fix::Rejection,
    },
    /// The peer answered a message with a Reject (3).
    PeerRejected {
        /// RefSeqNum (45), if it has one.
        ref_seq: Option<u64>,
        /// Text (58), or empty.
        text: String,
    },
    /// An application message was refused because too many came within a second.
    RateExceeded {
        /// Its number.
        seq: u64,
    },
    /// Bytes were ignored.
    Garbled(fix::Garbled),
    /// The peer sent another HeartBtInt (108) than was asked for; it is not used.
    OtherHeartBtInt {
        /// Its value.
        seconds: u32,
    },
}
