//! How a session behaves, as its two sides agreed.

use std::sync::Arc;

use fix::{Dictionary, Signed, Validation};

use crate::schedule::Schedule;

/// Which side opens the connection and speaks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for a connection and for the peer's Logon.
    Acceptor,
    /// Connects, and sends its Logon at once.
    Initiator,
}

/// How much of a message is checked, as a configuration says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// Framing and what every message needs.
    Off,
    /// Also empty values and the order of header, body and trailer.
    Structure,
    /// Everything that the dictionary of the version says.
    #[default]
    Full,
}

/// How much of a message is checked before it is taken; see [`Validation`].
#[derive(Clone, Debug)]
pub enum Strictness {
    /// Only what every message needs.
    Off,
    /// Also empty values and the order of header, body and trailer.
    Structure,
    /// Everything that a dictionary says.
    Full(Arc<Dictionary>),
}

impl Strictness {
    pub(crate) fn validation(&self) -> Validation<'_> {
        match self {
            Strictness::Off => Validation::Off,
            Strictness::Structure => Validation::Structure,
            Strictness::Full(dictionary) => Validation::Full(dictionary),
        }
    }
}

/// Username (553) and Password (554) of a Logon; what is empty is left out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Username (553).
    pub username: String,
    /// Password (554).
    pub password: String,
}

/// Shows who, and no password.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// What a session needs to know. [`SessionConfig::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Which side this is.
    pub role: Role,
    /// BeginString (8) of both directions: `FIX.4.2`, `FIX.4.4` or `FIXT.1.1`.
    pub begin_string: String,
    /// DefaultApplVerID (1137) of a Logon with `FIXT.1.1`, as the wire has it: `9` is FIX 5.0 SP2. An acceptor takes no other one.
    pub default_appl_ver_id: String,
    /// SenderCompID (49) of what this side sends.
    pub sender_comp_id: String,
    /// TargetCompID (56) of what this side sends.
    pub target_comp_id: String,
    /// HeartBtInt (108) of an initiator's Logon, seconds, 0 for no heartbeats; an acceptor takes the peer's.
    pub heart_bt_int_s: u32,
    /// Both sequence numbers begin at 1 with each logon.
    pub reset_on_logon: bool,
    /// NextExpectedMsgSeqNum (789) is sent with the Logon, and the peer's is acted upon. `FIX.4.2` does not know it and goes without.
    pub next_expected: bool,
    /// How many messages one ResendRequest asks for; 0 for all that are missing.
    pub resend_chunk: u64,
    /// When the session is open, and when its numbers begin again.
    pub schedule: Schedule,
    /// How many application messages of the peer are taken in any 1,000 ms; 0 for any number. Those above it are answered with a
    /// BusinessMessageReject, also those that come in a burst because a gap was closed; cancels of a client, and reports of a venue, never.
    pub throttle_per_s: u32,
    /// How far SendingTime (52) may be from this side's clock, seconds; 0 for any distance.
    pub max_latency_s: u32,
    /// What an initiator's Logon shows, in every version.
    pub credentials: Credentials,
    /// What is checked of a message.
    pub strictness: Strictness,
    /// The largest BodyLength (9); a larger one closes the connection.
    pub body_bytes_max: usize,
    /// What becomes of the signature and the encrypted data of a message that is passed on to this session's peer.
    pub signed: Signed,
    /// After the numbers began again, the peer gets every application message that may not have reached it before as a new one with
    /// PossResend (97=Y): those that were stored while it was absent, and those sent later than 2.4 heartbeat intervals before something last
    /// came from it. For what may arrive twice and must arrive, such as executions.
    pub repeat_after_reset: bool,
    /// How many bytes of messages that came too early are kept until the gap before them is closed; those beyond are asked for again.
    pub queue_bytes_max: usize,
}

impl SessionConfig {
    /// Returns the configuration of a session from `sender_comp_id` to `target_comp_id`, with the defaults for everything else.
    #[must_use]
    pub fn new(role: Role, begin_string: &str, sender: &str, target: &str) -> SessionConfig {
        SessionConfig {
            role,
            begin_string: begin_string.to_owned(),
            default_appl_ver_id: "9".to_owned(),
            sender_comp_id: sender.to_owned(),
            target_comp_id: target.to_owned(),
            heart_bt_int_s: 30,
            reset_on_logon: false,
            next_expected: false,
            resend_chunk: 0,
            schedule: Schedule::default(),
            throttle_per_s: 0,
            max_latency_s: 120,
            credentials: Credentials::default(),
            strictness: Strictness::Off,
            body_bytes_max: 65_536,
            signed: Signed::Refuse,
            repeat_after_reset: false,
            queue_bytes_max: 1 << 20,
        }
    }

    pub(crate) fn uses_next_expected(&self) -> bool {
        self.next_expected && self.begin_string != "FIX.4.2"
    }

    pub(crate) fn is_fixt(&self) -> bool {
        self.begin_string == "FIXT.1.1"
    }
}
