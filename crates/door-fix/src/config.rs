//! The sessions of a door, as its configuration says.

use std::sync::Arc;

use fix::{Dictionary, Signed};
use fix_session::{Checks, Credentials, Durability, Role, Schedule, SessionConfig, Strictness};

use crate::gate::caps::Caps;
use crate::peer::{AddressRange, Peer};

/// The longest BodyLength (9) that may be configured: a frame is below 2^31 bytes.
const BODY_BYTES_MAX: usize = 1 << 30;

/// Open orders of a venue, each of about 200 bytes of memory.
const ORDERS_MAX: usize = 1 << 20;

/// How old an order may be that a venue asks for again, where nobody says so and orders are held against budgets.
const HELD_ORDER_AGE_MS: u64 = 2_000;

/// DefaultApplVerID (1137) of the one version of the application that there is with `FIXT.1.1`.
const FIX_50_SP2: &str = "9";

/// What stands behind a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The gate sends application messages back, as the reference's test acceptor does.
    #[default]
    Echo,
    /// They go to the venue of this name, and the venue's come back.
    Venue(String),
}

/// What orders are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Nothing: the gate passes orders on without asking for money.
    None,
    /// The budgets that bind them: each is held in all of these before it leaves.
    Budgets,
}

/// What every session has, a client's and a venue's.
#[derive(Clone, Debug)]
pub struct SessionKeys {
    /// Unique among clients and venues.
    pub name: String,
    /// `FIX.4.2`, `FIX.4.4` or `FIXT.1.1`.
    pub begin_string: String,
    /// `9` or `FIX.5.0SP2`; with `FIXT.1.1` only.
    pub default_appl_ver_id: String,
    /// SenderCompID (49) of what the gate sends.
    pub sender_comp_id: String,
    /// TargetCompID (56) of what the gate sends.
    pub target_comp_id: String,
    /// The interval of heartbeats towards a venue, seconds; a client says its own.
    pub heart_bt_int_s: u32,
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
    /// When what the gate sends may leave.
    pub durability: Durability,
    /// How far SendingTime (52) may be from this clock, seconds; 0 for any distance.
    pub max_latency_s: u32,
    /// How much of a message is checked.
    pub validation: Checks,
    /// A larger BodyLength (9) closes the connection.
    pub body_bytes_max: usize,
    /// A peer that has more unsent bytes than this is disconnected.
    pub outbound_bytes_max: usize,
}

impl SessionKeys {
    fn new(begin_string: &str, sender: &str, target: &str, validation: Checks) -> SessionKeys {
        SessionKeys {
            name: target.to_owned(),
            begin_string: begin_string.to_owned(),
            default_appl_ver_id: FIX_50_SP2.to_owned(),
            sender_comp_id: sender.to_owned(),
            target_comp_id: target.to_owned(),
            heart_bt_int_s: 30,
            reset_on_logon: false,
            next_expected: false,
            resend_chunk: 0,
            schedule: Schedule::default(),
            throttle_per_s: 0,
            durability: Durability::Sealed,
            max_latency_s: 120,
            validation,
            body_bytes_max: 65_536,
            outbound_bytes_max: 1 << 20,
        }
    }
}

/// One client session. [`SessionSpec::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// What every session has.
    pub keys: SessionKeys,
    /// What orders are held against; must be said.
    pub limits: Option<Limits>,
    /// Whose orders come over it, for bindings of budgets; empty: nobody's.
    pub firm: String,
    /// Types of messages that make the venue owe or own something at no price that is known here, and that pass all the same.
    pub unpriced: Vec<String>,
    /// Sales are refused whose symbol has no reference price, in place of being held at their limit price.
    pub refuses_sales: bool,
    /// What one order may be at most.
    pub caps: Caps,
    /// How long it may be away before its open orders are cancelled, seconds; 0: for ever.
    pub cancel_on_disconnect_s: u32,
    /// What stands behind it.
    pub route: Route,
    /// From where it may come; empty for anywhere.
    pub source_addresses: Vec<AddressRange>,
    /// A name that its certificate must have.
    pub certificate_name: Option<String>,
    /// Put before ClOrdID (11) and OrigClOrdID (41) towards the venue, and taken off on the way back; at most 32 characters.
    pub cl_ord_id_prefix: String,
    /// Its Logon has Username (553) and Password (554), in FIX 4.2 too, whose dictionary does not know them.
    pub has_passwords: bool,
}

/// Who gets what a venue sends that names nobody's order or request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unaddressed {
    /// News and session status go to all of its clients. Anything else goes to its client, if it has just one; with several it is kept until
    /// somebody names one of them.
    #[default]
    All,
    /// Everything goes to the client of this name.
    Session(String),
}

/// One venue: a session that the gate opens. [`VenueSpec::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct VenueSpec {
    /// What every session has.
    pub keys: SessionKeys,
    /// Who gets what names nobody.
    pub unaddressed: Unaddressed,
    /// Orders (D, G) that the venue asks for again when they are older are not sent, and their client is told, milliseconds; 0 for any age.
    pub max_order_age_ms: u64,
    /// What our Logon shows.
    pub credentials: Credentials,
}

impl VenueSpec {
    /// Returns a session from `sender` (the gate) to `target` (the venue) with the defaults for everything else; nothing of the venue's is
    /// refused for reasons of a dictionary.
    #[must_use]
    pub fn new(begin_string: &str, sender: &str, target: &str) -> VenueSpec {
        VenueSpec {
            keys: SessionKeys::new(begin_string, sender, target, Checks::Off),
            unaddressed: Unaddressed::All,
            max_order_age_ms: 0,
            credentials: Credentials::default(),
        }
    }
}

impl SessionSpec {
    /// Returns a session from `sender` (the gate) to `target` (the client) with the defaults for everything else.
    #[must_use]
    pub fn new(begin_string: &str, sender: &str, target: &str) -> SessionSpec {
        SessionSpec {
            keys: SessionKeys::new(begin_string, sender, target, Checks::Full),
            limits: None,
            firm: String::new(),
            unpriced: Vec::new(),
            refuses_sales: false,
            caps: Caps::default(),
            cancel_on_disconnect_s: 0,
            route: Route::Echo,
            source_addresses: Vec::new(),
            certificate_name: None,
            cl_ord_id_prefix: String::new(),
            has_passwords: false,
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
        if self.limits.is_none() {
            let (session, found) = (self.keys.name.clone(), String::new());
            let expected = "\"none\": the session has no budgets, which has to be said";
            return Err(ConfigError::Value { session, key: "limits", found, expected });
        }
        let prefix = &self.cl_ord_id_prefix;
        if prefix.chars().count() > 32 || prefix.chars().any(char::is_control) {
            let (session, found) = (self.keys.name.clone(), prefix.clone());
            let expected = "at most 32 characters, none of them a control character";
            return Err(ConfigError::Value { session, key: "cl_ord_id_prefix", found, expected });
        }
        self.keys.check()
    }
}

impl SessionKeys {
    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, found: &str, expected| {
            let (session, found) = (self.name.clone(), found.to_owned());
            Err(ConfigError::Value { session, key, found, expected })
        };
        if self.name.is_empty() || self.name.len() > 80 || self.name.contains(char::is_control) {
            return wrong(
                "name",
                &self.name,
                "1 to 80 characters, none of them a control character",
            );
        }
        if !["FIX.4.2", "FIX.4.4", "FIXT.1.1"].contains(&self.begin_string.as_str()) {
            return wrong("begin_string", &self.begin_string, "FIX.4.2, FIX.4.4 or FIXT.1.1");
        }
        if ![FIX_50_SP2, "FIX.5.0SP2"].contains(&self.default_appl_ver_id.as_str()) {
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
        Ok(())
    }
}

/// The sessions of a door, checked: clients first, then venues.
#[derive(Clone, Debug)]
pub struct FixSessions {
    pub(crate) sessions: Vec<Checked>,
    /// How many ids of open orders a venue's book has room for.
    pub(crate) orders_max: usize,
}

/// One session of either kind.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) keys: SessionKeys,
    pub(crate) kind: Kind,
    pub(crate) config: SessionConfig,
    pub(crate) dictionary: Arc<Dictionary>,
}

/// What a session is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A client, and the number of the venue that stands behind it; `None` for the echo.
    Client(Box<SessionSpec>, Option<usize>),
    /// A venue.
    Venue(VenueKind),
}

/// What stands behind a venue.
#[derive(Clone, Debug)]
pub(crate) struct VenueKind {
    /// The numbers of the clients whose messages it gets.
    pub(crate) clients: Vec<usize>,
    /// The client who gets what is for nobody.
    pub(crate) unaddressed: Option<usize>,
    pub(crate) max_order_age_ms: u64,
    credentials: Credentials,
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
    /// A route leads to no venue.
    #[error(
        "session {session:?}: there is no venue {venue:?}; give a venue this name, or take another route"
    )]
    NoVenue {
        /// The session's name.
        session: String,
        /// The route.
        venue: String,
    },
    /// Client and venue speak other versions.
    #[error(
        "session {session:?} speaks {client} and venue {venue:?} {other}; messages are passed on and not translated, so both need the same begin_string"
    )]
    OtherVersion {
        /// The session's name.
        session: String,
        /// Its version.
        client: String,
        /// The venue's name.
        venue: String,
        /// The venue's version.
        other: String,
    },
    /// A venue's `unaddressed` is no client of it.
    #[error(
        "venue {venue:?}: unaddressed is {found:?}, which is no session whose route is this venue; expected \"all\" or the name of one"
    )]
    NoClient {
        /// The venue's name.
        venue: String,
        /// What `unaddressed` says.
        found: String,
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
    pub fn new(
        clients: Vec<SessionSpec>,
        venues: Vec<VenueSpec>,
    ) -> Result<FixSessions, Vec<ConfigError>> {
        let mut errors: Vec<ConfigError> =
            clients.iter().filter_map(|spec| spec.check().err()).collect();
        errors.extend(venues.iter().filter_map(|spec| spec.keys.check().err()));
        let keys: Vec<&SessionKeys> =
            clients.iter().map(|one| &one.keys).chain(venues.iter().map(|one| &one.keys)).collect();
        for (at, second) in keys.iter().enumerate() {
            for (place, first) in keys[..at].iter().enumerate() {
                if first.name == second.name {
                    errors.push(ConfigError::Name { name: second.name.clone() });
                }
                // A venue's Logon is the gate's own.
                let both_clients = at < clients.len() && place < clients.len();
                if both_clients && logon(first) == logon(second) {
                    let (first, second) = (first.name.clone(), second.name.clone());
                    errors.push(ConfigError::SameLogon { first, second });
                }
            }
        }
        errors.extend(route_errors(&clients, &venues));
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut dictionaries = Dictionaries::default();
        let venue_of = |client: &SessionSpec| {
            venues.iter().position(|venue| Route::Venue(venue.keys.name.clone()) == client.route)
        };
        let mut sessions = Vec::with_capacity(keys.len());
        for (number, venue) in venues.iter().enumerate() {
            let of_venue = |at: &usize| venue_of(&clients[*at]) == Some(number);
            let unaddressed = named_client(venue, &clients);
            let is_limited =
                |at: &usize| of_venue(at) && clients[*at].limits == Some(Limits::Budgets);
            let max_order_age_ms = match venue.max_order_age_ms {
                0 if (0..clients.len()).any(|at| is_limited(&at)) => HELD_ORDER_AGE_MS,
                max => max,
            };
            let clients = (0..clients.len()).filter(of_venue).collect();
            let credentials = venue.credentials.clone();
            let kind =
                Kind::Venue(VenueKind { clients, unaddressed, max_order_age_ms, credentials });
            sessions.push(checked(venue.keys.clone(), kind, &mut dictionaries));
        }
        let behind = clients.len();
        let clients: Vec<Checked> = clients
            .iter()
            .map(|spec| {
                let venue = venue_of(spec).map(|number| behind + number);
                let kind = Kind::Client(Box::new(spec.clone()), venue);
                checked(spec.keys.clone(), kind, &mut dictionaries)
            })
            .collect();
        sessions.splice(0..0, clients);
        Ok(FixSessions { sessions, orders_max: ORDERS_MAX })
    }

    /// Says how many open orders the book of each venue has room for; 1,048,576 where nobody does.
    #[must_use]
    pub fn with_orders_max(self, orders_max: usize) -> FixSessions {
        FixSessions { orders_max, ..self }
    }

    /// Returns the name and the durability of each session, in the order of their numbers: what a store is to be made of.
    pub fn stores(&self) -> impl Iterator<Item = (&str, Durability)> {
        self.sessions.iter().map(|one| (one.keys.name.as_str(), one.keys.durability))
    }
}

/// What a Logon names its session by.
fn logon(keys: &SessionKeys) -> [&str; 3] {
    [&keys.begin_string, &keys.sender_comp_id, &keys.target_comp_id]
}

/// The number of the client that a venue names in `unaddressed`.
fn named_client(venue: &VenueSpec, clients: &[SessionSpec]) -> Option<usize> {
    let Unaddressed::Session(name) = &venue.unaddressed else { return None };
    let route = Route::Venue(venue.keys.name.clone());
    clients.iter().position(|client| client.keys.name == *name && client.route == route)
}

fn route_errors(clients: &[SessionSpec], venues: &[VenueSpec]) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for client in clients {
        let Route::Venue(name) = &client.route else { continue };
        let session = client.keys.name.clone();
        let Some(venue) = venues.iter().find(|venue| venue.keys.name == *name) else {
            errors.push(ConfigError::NoVenue { session, venue: name.clone() });
            continue;
        };
        let (one, other) = (&client.keys.begin_string, &venue.keys.begin_string);
        if one != other {
            errors.push(ConfigError::OtherVersion {
                session: session.clone(),
                client: one.clone(),
                venue: name.clone(),
                other: other.clone(),
            });
        }
    }
    for venue in venues {
        if let Unaddressed::Session(found) = &venue.unaddressed
            && named_client(venue, clients).is_none()
        {
            let (venue, found) = (venue.keys.name.clone(), found.clone());
            errors.push(ConfigError::NoClient { venue, found });
        }
    }
    errors
}

/// The dictionaries of the versions that are in use.
#[derive(Debug, Default)]
struct Dictionaries(Vec<(String, bool, Arc<Dictionary>)>);

impl Dictionaries {
    fn of(&mut self, begin_string: &str, has_passwords: bool) -> Arc<Dictionary> {
        let is_it = |one: &&(String, bool, _)| one.0 == begin_string && one.1 == has_passwords;
        if let Some((.., known)) = self.0.iter().find(is_it) {
            return Arc::clone(known);
        }
        let read = match begin_string {
            "FIX.4.2" => Dictionary::fix42(),
            "FIX.4.4" => Dictionary::fix44(),
            _ => Dictionary::fixt11_fix50sp2(),
        };
        let read = Arc::new(if has_passwords { read.with_credentials() } else { read });
        self.0.push((begin_string.to_owned(), has_passwords, Arc::clone(&read)));
        read
    }
}

fn checked(keys: SessionKeys, kind: Kind, dictionaries: &mut Dictionaries) -> Checked {
    let has_passwords = matches!(&kind, Kind::Client(spec, _) if spec.has_passwords);
    let dictionary = dictionaries.of(&keys.begin_string, has_passwords);
    let role = match kind {
        Kind::Client(..) => Role::Acceptor,
        Kind::Venue(_) => Role::Initiator,
    };
    let (sender, target) = (&keys.sender_comp_id, &keys.target_comp_id);
    let config = SessionConfig {
        credentials: match &kind {
            Kind::Client(..) => Credentials::default(),
            Kind::Venue(venue) => venue.credentials.clone(),
        },
        // Both names that the key may have are those of this one.
        default_appl_ver_id: FIX_50_SP2.to_owned(),
        heart_bt_int_s: keys.heart_bt_int_s,
        reset_on_logon: keys.reset_on_logon,
        next_expected: keys.next_expected,
        resend_chunk: keys.resend_chunk,
        schedule: keys.schedule.clone(),
        throttle_per_s: keys.throttle_per_s,
        max_latency_s: keys.max_latency_s,
        strictness: match keys.validation {
            Checks::Off => Strictness::Off,
            Checks::Structure => Strictness::Structure,
            Checks::Full => Strictness::Full(Arc::clone(&dictionary)),
        },
        body_bytes_max: keys.body_bytes_max,
        // An order with a signature is refused; a report that has one still arrives, without it.
        signed: match kind {
            Kind::Client(..) => Signed::Strip,
            Kind::Venue(_) => Signed::Refuse,
        },
        // Reports must arrive and may arrive twice; orders and what the echo sends may be lost and must not come twice.
        repeat_after_reset: matches!(kind, Kind::Client(_, Some(_))),
        ..SessionConfig::new(role, &keys.begin_string, sender, target)
    };
    Checked { keys, kind, config, dictionary }
}
