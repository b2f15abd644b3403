//! Arrays of tables in `weir.toml`, such as `[[fix.session]]`: each kind of entry is defined once, as the keys of sections are.

use std::ops::RangeInclusive;

use door_fix::Checks;
use fix_session::Durability;

use crate::config::{ConfigError, KeyChange, outside, ranged, row, shown};
use crate::values::{Value, Written, wrong};

/// A kind of entry.
pub(crate) trait Entry: Default {
    /// Its section.
    const SECTION: &'static str;
    /// Its array in the section.
    const ARRAY: &'static str;
    /// Its keys.
    const KEYS: &'static [&'static str];
    /// Sets a key.
    fn set(&mut self, key: &str, written: &Written) -> Result<(), String>;
    /// Keeps where it stands, `file:line`.
    fn set_place(&mut self, place: String);
    /// Returns the name by which it is known.
    fn known_as(&self) -> &str;
    /// Returns it as it stands in a file.
    fn print(&self) -> String;
    /// Returns it as an object.
    fn to_json(&self) -> serde_json::Value;
    /// Returns its keys as rows of the table in docs/configuration.md.
    fn rows() -> String;
    /// Returns what is outside of its range, with the place of the entry.
    fn out_of_range(&self) -> Vec<ConfigError>;
}

/// Sets `key` of `entry`, or says which keys there are.
fn unknown<E: Entry>(key: &str) -> Result<(), String> {
    Err(format!("there is no such key; known here: {} (found {key:?})", E::KEYS.join(", ")))
}

macro_rules! entry {
    ($(#[doc = $about:literal])* $name:ident = $section:ident . $array:ident {
        $($key:ident: $type:ty = $default:expr, $([$range:expr],)? $doc:literal;)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        pub struct $name {
            /// Where it stands, `file:line`.
            pub place: String,
            $(#[doc = $doc] pub $key: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { place: String::new(), $($key: $default,)* }
            }
        }

        impl Entry for $name {
            const SECTION: &'static str = stringify!($section);
            const ARRAY: &'static str = stringify!($array);
            const KEYS: &'static [&'static str] = &[$(stringify!($key),)*];

            fn set(&mut self, key: &str, written: &Written) -> Result<(), String> {
                match key {
                    $(stringify!($key) => {
                        self.$key = <$type as Value>::read(written).ok_or_else(|| wrong::<$type>(written))?;
                        Ok(())
                    })*
                    _ => unknown::<$name>(key),
                }
            }

            fn set_place(&mut self, place: String) {
                self.place = place;
            }

            fn known_as(&self) -> &str {
                if self.name.is_empty() { &self.target_comp_id } else { &self.name }
            }

            fn print(&self) -> String {
                let mut text = format!("[[{}.{}]]\n", Self::SECTION, Self::ARRAY);
                $(text += &format!("{} = {}\n", stringify!($key), self.$key.print());)*
                text
            }

            fn to_json(&self) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $(object.insert(stringify!($key).into(), shown(&self.$key, false));)*
                object.into()
            }

            fn rows() -> String {
                let (entry, mut text) = ($name::default(), String::new());
                let array = concat!(stringify!($section), ".", stringify!($array));
                $(
                    let meaning = ranged($doc, [$(RangeInclusive::<u64>::from($range))?]);
                    text += &row(array, stringify!($key), &entry.$key, &meaning, "live");
                )*
                text
            }

            fn out_of_range(&self) -> Vec<ConfigError> {
                let array = concat!(stringify!($section), ".", stringify!($array));
                let found: [Option<String>; 0] = [];
                found.into_iter()
                    $($(.chain([outside((array, stringify!($key)), &self.$key, &RangeInclusive::<u64>::from($range))]))?)*
                    .flatten()
                    .map(|text| ConfigError { place: self.place.clone(), text })
                    .collect()
            }
        }
    };
}

entry! {
    /// A client's session at the FIX door.
    FixSession = fix.session {
        name: String = String::new(), " What the session is called in tools; empty: its `target_comp_id`. No two sessions have one name.";
        begin_string: String = "FIX.4.4".into(), " Version: \"FIX.4.2\", \"FIX.4.4\" or \"FIXT.1.1\".";
        default_appl_ver_id: String = "9".into(), " With \"FIXT.1.1\": \"9\" or \"FIX.5.0SP2\".";
        sender_comp_id: String = String::new(), " Our CompID: SenderCompID (49) of what we send. Required.";
        target_comp_id: String = String::new(), " The client's CompID: TargetCompID (56) of what we send. Required.";
        heart_bt_int_s: u32 = 30, [0..=86_400], " Kept for the client's side; the gate takes the HeartBtInt (108) of the client's Logon.";
        reset_on_logon: bool = false, " Both sequence numbers begin at 1 with each logon.";
        next_expected: bool = false, " NextExpectedMsgSeqNum (789) is sent and acted upon.";
        resend_chunk: u64 = 0, " How many messages one ResendRequest asks for; 0 = all that are missing.";
        schedule: String = String::new(), " When the session is open: \"mon-fri 08:00-17:00 Europe/London\", or \"daily 17:00 America/New_York\" for one that only begins anew then; empty: always.";
        throttle_per_s: u32 = 0, " Application messages taken in any second; those above it are answered j 380=0; 0 = no limit.";
        durability: Durability = Durability::Sealed, " When an answer may leave: \"written\", its message is in the file (a crash of the process loses nothing), or \"sealed\", it is on the disk.";
        max_latency_s: u32 = 120, " How far SendingTime (52) may be from our clock, seconds; 0 = any distance.";
        validation: Checks = Checks::Full, " What is checked of a message: \"off\", \"structure\" or \"full\" (the dictionary of the version).";
        body_bytes_max: usize = 65_536, [64..=16_777_216], " A message with a larger BodyLength (9) closes the connection.";
        outbound_bytes_max: usize = 1_048_576, [4_096..=1_073_741_824], " A client that leaves more than this unread is disconnected; its messages are in the store and come by a gap.";
        limits: String = String::new(), " What orders are held against: \"none\". It has to be said; budgets follow.";
        route: String = String::new(), " What stands behind the session: \"echo\" sends application messages back. Required.";
        cl_ord_id_prefix: String = String::new(), " Put before ClOrdIDs (11, 41) towards the venue and taken off on the way back, so that clients of one venue may use the same; empty: nothing.";
        source_addresses: Vec<String> = Vec::new(), " From where the client may come: addresses and ranges such as \"192.0.2.0/24\"; none: from anywhere.";
        certificate_name: String = String::new(), " A name that the client's certificate must have; empty: any certificate of `fix.tls_clients`.";
        password_file: String = String::new(), " Who may log on: lines of `username argon2id-text`, for Username (553) and Password (554) of the Logon; empty: passwords are not judged.";
    }
}

entry! {
    /// A venue of the FIX door: a session whose connection we open.
    FixVenue = fix.venue {
        name: String = String::new(), " What the venue is called in routes and tools; empty: its `target_comp_id`. No two sessions or venues have one name.";
        begin_string: String = "FIX.4.4".into(), " Version: \"FIX.4.2\", \"FIX.4.4\" or \"FIXT.1.1\"; that of the clients whose orders it gets.";
        default_appl_ver_id: String = "9".into(), " With \"FIXT.1.1\": \"9\" or \"FIX.5.0SP2\".";
        sender_comp_id: String = String::new(), " Our CompID: SenderCompID (49) of what we send. Required.";
        target_comp_id: String = String::new(), " The venue's CompID: TargetCompID (56) of what we send. Required.";
        connect: Vec<String> = Vec::new(), " Its addresses, such as [\"192.0.2.7:7790\"], in numbers; tried in turn, also after a Logon that failed. Required.";
        heart_bt_int_s: u32 = 30, [1..=86_400], " HeartBtInt (108) of our Logon, seconds.";
        reset_on_logon: bool = false, " Both sequence numbers begin at 1 with each logon.";
        next_expected: bool = false, " NextExpectedMsgSeqNum (789) is sent and acted upon.";
        resend_chunk: u64 = 0, " How many messages one ResendRequest asks for; 0 = all that are missing.";
        schedule: String = String::new(), " When the session is open, as of `fix.session`.";
        throttle_per_s: u32 = 0, " Application messages taken in any second; 0 = no limit.";
        durability: Durability = Durability::Sealed, " When what we send may leave: \"written\" or \"sealed\", as of `fix.session`.";
        max_latency_s: u32 = 120, " How far SendingTime (52) may be from our clock, seconds; 0 = any distance.";
        validation: Checks = Checks::Off, " What is checked of a message: \"off\", \"structure\" or \"full\".";
        body_bytes_max: usize = 65_536, [64..=16_777_216], " A message with a larger BodyLength (9) closes the connection.";
        outbound_bytes_max: usize = 1_048_576, [4_096..=1_073_741_824], " A venue that leaves more than this unread is disconnected; its messages are in the store and come by a gap.";
        unaddressed: String = "all".into(), " The session that gets what names nobody's order or request; \"all\": with one client it goes there, with several it is kept, counted and told.";
        max_order_age_ms: u64 = 0, [0..=86_400_000], " An order that the venue asks for again when it is older than this, milliseconds, is not sent, and its client is told; 0 = whatever its age.";
        tls: bool = false, " The connection speaks TLS; `tls_ca` is required then.";
        tls_ca: String = String::new(), " PEM: who signs the venue's certificate.";
        tls_name: String = String::new(), " The name that the venue's certificate must have; empty: its address.";
        tls_cert: String = String::new(), " Our certificate for a venue that asks for one, PEM.";
        tls_key: String = String::new(), " Key of that certificate, PEM.";
    }
}

impl FixSession {
    /// Returns the name by which tools name it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.known_as()
    }
}

impl FixVenue {
    /// Returns the name by which routes and tools name it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.known_as()
    }

    /// Reports whether another entry says the same of how the venue is reached.
    #[must_use]
    pub fn is_reached_as(&self, other: &FixVenue) -> bool {
        let reached = |one: &FixVenue| {
            let files = [&one.tls_ca, &one.tls_name, &one.tls_cert, &one.tls_key].map(Clone::clone);
            (one.connect.clone(), one.tls, files)
        };
        reached(self) == reached(other)
    }
}

/// The arrays of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    /// Clients' sessions of the FIX door, in the order of the file.
    pub fix_session: Vec<FixSession>,
    /// Its venues, in the order of the file.
    pub fix_venue: Vec<FixVenue>,
}

impl Arrays {
    /// Every array, by its section and its name.
    const ALL: [(&str, &str); 2] =
        [(FixSession::SECTION, FixSession::ARRAY), (FixVenue::SECTION, FixVenue::ARRAY)];

    /// Tells whether a section has an array of this name.
    pub(crate) fn has(section: &str, array: &str) -> bool {
        Arrays::ALL.contains(&(section, array))
    }

    /// The arrays of a section, as they are written.
    pub(crate) fn of_section(section: &str) -> impl Iterator<Item = String> {
        let of_it = Arrays::ALL.into_iter().filter(move |(of, _)| *of == section);
        of_it.map(|(section, array)| format!("[[{section}.{array}]]"))
    }

    /// Adds an entry of an array that there [is](Arrays::has), with its keys, each with where it stands; every error of it goes to `push`.
    pub(crate) fn add<'t>(
        &mut self,
        array: &str,
        place: String,
        keys: impl Iterator<Item = (&'t str, usize, Written)>,
        push: &mut impl FnMut(usize, String),
    ) {
        match array == FixVenue::ARRAY {
            true => self.fix_venue.push(read(place, keys, push)),
            false => self.fix_session.push(read(place, keys, push)),
        }
    }

    /// Returns all entries as they stand in a file.
    pub(crate) fn print(&self) -> String {
        printed(&self.fix_session) + &printed(&self.fix_venue)
    }

    /// Returns the keys of all kinds of entries as rows of a table.
    pub(crate) fn rows() -> String {
        FixSession::rows() + &FixVenue::rows()
    }

    /// Returns what another configuration has otherwise: entries that are there in one of them only, and the keys of the others.
    #[must_use]
    pub fn changes(&self, other: &Arrays) -> Vec<KeyChange> {
        let mut found = changed(&self.fix_session, &other.fix_session);
        found.extend(changed(&self.fix_venue, &other.fix_venue));
        found
    }

    /// Puts the entries into the configuration as JSON.
    pub(crate) fn to_json(&self, all: &mut serde_json::Map<String, serde_json::Value>) {
        if let Some(section) = all.get_mut(FixSession::SECTION) {
            section[FixSession::ARRAY] = self.fix_session.iter().map(Entry::to_json).collect();
            section[FixVenue::ARRAY] = self.fix_venue.iter().map(Entry::to_json).collect();
        }
    }

    /// Returns what is outside of its range.
    pub(crate) fn out_of_range(&self) -> Vec<ConfigError> {
        let sessions = self.fix_session.iter().flat_map(Entry::out_of_range);
        sessions.chain(self.fix_venue.iter().flat_map(Entry::out_of_range)).collect()
    }
}

fn printed<E: Entry>(entries: &[E]) -> String {
    entries.iter().map(|entry| entry.print() + "\n").collect()
}

/// What of an array changed. Entries are the same as long as their names are, wherever they stand.
fn changed<E: Entry>(from: &[E], to: &[E]) -> Vec<KeyChange> {
    let array = format!("{}.{}", E::SECTION, E::ARRAY);
    let change = |key, from: &str, to: &str| KeyChange {
        key,
        is_live: true,
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let find = |all: &'_ [E], name: &str| all.iter().position(|one| one.known_as() == name);
    let mut found = Vec::new();
    for entry in from {
        let name = entry.known_as();
        match find(to, name) {
            None => found.push(change(format!("{array} {name}"), "there", "not there")),
            Some(at) => {
                let (before, after) = (entry.print(), to[at].print());
                let keys = before.lines().zip(after.lines()).filter(|(from, to)| from != to);
                found.extend(keys.filter_map(|(before, after)| {
                    let (key, before) = before.split_once(" = ")?;
                    let (_, after) = after.split_once(" = ")?;
                    Some(change(format!("{array}.{key} of {name}"), before, after))
                }));
            }
        }
    }
    let new = to.iter().map(E::known_as).filter(|name| find(from, name).is_none());
    found.extend(new.map(|name| change(format!("{array} {name}"), "not there", "there")));
    found
}

fn read<'t, E: Entry>(
    place: String,
    keys: impl Iterator<Item = (&'t str, usize, Written)>,
    push: &mut impl FnMut(usize, String),
) -> E {
    let mut entry = E::default();
    entry.set_place(place);
    for (key, at, written) in keys {
        if let Err(text) = entry.set(key, &written) {
            push(at, format!("{}.{}.{key}: {text}", E::SECTION, E::ARRAY));
        }
    }
    entry
}
