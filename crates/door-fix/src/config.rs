//! The sessions of a door, as its configuration says.

use std::sync::Arc;

use fix::Dictionary;
use fix_session::{Durability, Role, Schedule, SessionConfig, Strictness};

use crate::peer::{AddressRange, Peer};

/// The longest BodyLength (9) that may be configured: a frame is below 2^31 bytes.
const BODY_BYTES_MAX: usize = 1 << 30;

/// What stands behind a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The gate sends application messages back, as the reference's test acceptor does.
    #[default]
    Echo,
}

/// What orders are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Nothing: the gate passes orders on without asking for money.
    None,
}

/// How much of a client's message is checked.
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

/// One client session. [`SessionSpec::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// Unique among all sessions; a client's default is its `target_comp_id`.
    pub name: String,
    /// `FIX.4.2`, `FIX.4.4` or `FIXT.1.1`.
    pub begin_string: String,
    /// `9` or `FIX.5.0SP2`; with `FIXT.1.1` only.
    pub default_appl_ver_id: String,
    /// SenderCompID (49) of what the gate sends.
    pub sender_comp_id: String,
    /// TargetCompID (56) of what the gate sends.
    pub target_comp_id: String,
    /// Both sequence numbers begin at 1 with each logon.
    pub reset_on_logon: bool,
    /// NextExpectedMsgSeqNum (789) is used.
    pub next_expected: bool,
    /// How many messages one ResendRequest asks for; 0 for all.
    pub resend_chunk: u64,
    /// When the session is open.
    pub schedule: Schedule,
    /// How many application messages are taken in any second; 0 for any number.
    pub throttle_per_s: u32,
    /// When answers may leave.
    pub durability: Durability,
    /// How far SendingTime (52) may be from this clock, seconds; 0 for any distance.
    pub max_latency_s: u32,
    /// How much of a message is checked.
    pub validation: Checks,
    /// A larger BodyLength (9) closes the connection.
    pub body_bytes_max: usize,
    /// A client that has more unsent bytes than this is disconnected.
    pub outbound_bytes_max: usize,
    /// What orders are held against; must be said.
    pub limits: Option<Limits>,
    /// What stands behind it.
    pub route: Route,
    /// From where it may come; empty for anywhere.
    pub source_addresses: Vec<AddressRange>,
    /// A name that its certificate must have.
    pub certificate_name: Option<String>,
}

impl SessionSpec {
    /// Returns a session from `sender` (the gate) to `target` (the client) with the defaults for everything else.
    #[must_use]
    pub fn new(begin_string: &str, sender: &str, target: &str) -> SessionSpec {
        SessionSpec {
            name: target.to_owned(),
            begin_string: begin_string.to_owned(),
            default_appl_ver_id: "9".to_owned(),
            sender_comp_id: sender.to_owned(),
            target_comp_id: target.to_owned(),
            reset_on_logon: false,
            next_expected: false,
            resend_chunk: 0,
            schedule: Schedule::default(),
            throttle_per_s: 0,
            durability: Durability::Sealed,
            max_latency_s: 120,
            validation: Checks::Full,
            body_bytes_max: 65_536,
            outbound_bytes_max: 1 << 20,
            limits: None,
            route: Route::Echo,
            source_addresses: Vec::new(),
            certificate_name: None,
        }
    }

    /// Reports whether address and certificate are the session's.
    pub(crate) fn may_come_from(&self, peer: &Peer) -> bool {
        let address = self.source_addresses.is_empty()
            || peer.address.is_some_and(|address| {
                self.source_addresses.iter().any(|one| one.contains(address))
            });
        let certificate =
            self.certificate_name.as_ref().is_none_or(|name| peer.certificate_names.contains(name));
        address && certificate
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, found: &str, expected| {
            let (session, found) = (self.name.clone(), found.to_owned());
            Err(ConfigError::Value { session, key, found, expected })
        };
        if self.name.is_empty() || self.name.len() > 80 {
            return wrong("name", &self.name, "1 to 80 characters");
        }
        if !["FIX.4.2", "FIX.4.4", "FIXT.1.1"].contains(&self.begin_string.as_str()) {
            return wrong("begin_string", &self.begin_string, "FIX.4.2, FIX.4.4 or FIXT.1.1");
        }
        if !["9", "FIX.5.0SP2"].contains(&self.default_appl_ver_id.as_str()) {
            return wrong("default_appl_ver_id", &self.default_appl_ver_id, "9 or FIX.5.0SP2");
        }
        for (key, value) in
            [("sender_comp_id", &self.sender_comp_id), ("target_comp_id", &self.target_comp_id)]
        {
            if value.is_empty() || value.contains('\x01') {
                return wrong(key, value, "a text without SOH");
            }
        }
        if !(1..=BODY_BYTES_MAX).contains(&self.body_bytes_max) {
            let found = self.body_bytes_max.to_string();
            return wrong("body_bytes_max", &found, "1 to 1073741824");
        }
        if self.limits.is_none() {
            return wrong(
                "limits",
                "",
                "\"none\": the session has no budgets, which has to be said",
            );
        }
        Ok(())
    }

    fn dictionary(&self) -> Dictionary {
        match self.begin_string.as_str() {
            "FIX.4.2" => Dictionary::fix42(),
            "FIX.4.4" => Dictionary::fix44(),
            _ => Dictionary::fixt11_fix50sp2(),
        }
    }
}

/// The sessions of a door, checked.
#[derive(Clone, Debug)]
pub struct FixSessions {
    pub(crate) sessions: Vec<(SessionSpec, SessionConfig, Arc<Dictionary>)>,
}

/// Why the sessions of a door cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A key of a session has an impossible value.
    #[error("session {session:?}: {key} is {found:?}; expected {expected}")]
    Value {
        /// The session's name.
        session: String,
        /// The key.
        key: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Two sessions have the same name.
    #[error("two sessions are called {name:?}; give one of them another `name`")]
    Name {
        /// The name.
        name: String,
    },
    /// A Logon could belong to either of two sessions.
    #[error(
        "the sessions {first:?} and {second:?} have the same begin_string, sender_comp_id and target_comp_id; a Logon could be either's, so change one of them"
    )]
    SameLogon {
        /// The name of one.
        first: String,
        /// The name of the other.
        second: String,
    },
}

impl FixSessions {
    /// Checks the sessions of a door.
    ///
    /// # Errors
    /// Every [`ConfigError`] there is, in the order of the sessions.
    pub fn new(specs: Vec<SessionSpec>) -> Result<FixSessions, Vec<ConfigError>> {
        let mut errors: Vec<ConfigError> =
            specs.iter().filter_map(|spec| spec.check().err()).collect();
        for (at, second) in specs.iter().enumerate() {
            for first in &specs[..at] {
                if first.name == second.name {
                    errors.push(ConfigError::Name { name: second.name.clone() });
                }
                let logon = |spec: &SessionSpec| {
                    [&spec.begin_string, &spec.sender_comp_id, &spec.target_comp_id]
                        .map(String::clone)
                };
                if logon(first) == logon(second) {
                    let (first, second) = (first.name.clone(), second.name.clone());
                    errors.push(ConfigError::SameLogon { first, second });
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut shared: Vec<(String, Arc<Dictionary>)> = Vec::new();
        let mut dictionary = |spec: &SessionSpec| {
            let known = shared.iter().find(|one| one.0 == spec.begin_string);
            known.map(|one| Arc::clone(&one.1)).unwrap_or_else(|| {
                let read = Arc::new(spec.dictionary());
                shared.push((spec.begin_string.clone(), Arc::clone(&read)));
                read
            })
        };
        let sessions = specs.into_iter().map(|spec| {
            let dictionary = dictionary(&spec);
            let config = session_config(&spec, &dictionary);
            (spec, config, dictionary)
        });
        Ok(FixSessions { sessions: sessions.collect() })
    }

    /// Returns the name and the durability of each session, in the order of their numbers: what a store is to be made of.
    pub fn stores(&self) -> impl Iterator<Item = (&str, Durability)> {
        self.sessions.iter().map(|(spec, ..)| (spec.name.as_str(), spec.durability))
    }
}

fn session_config(spec: &SessionSpec, dictionary: &Arc<Dictionary>) -> SessionConfig {
    let (sender, target) = (&spec.sender_comp_id, &spec.target_comp_id);
    SessionConfig {
        default_appl_ver_id: spec.default_appl_ver_id.clone(),
        reset_on_logon: spec.reset_on_logon,
        next_expected: spec.next_expected,
        resend_chunk: spec.resend_chunk,
        schedule: spec.schedule.clone(),
        throttle_per_s: spec.throttle_per_s,
        max_latency_s: spec.max_latency_s,
        strictness: match spec.validation {
            Checks::Off => Strictness::Off,
            Checks::Structure => Strictness::Structure,
            Checks::Full => Strictness::Full(Arc::clone(dictionary)),
        },
        body_bytes_max: spec.body_bytes_max,
        ..SessionConfig::new(Role::Acceptor, &spec.begin_string, sender, target)
    }
}
