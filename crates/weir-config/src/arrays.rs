//! Arrays of tables in `weir.toml`, such as `[[fix.session]]`: each kind of entry is defined once, as the keys of sections are.

use std::ops::RangeInclusive;

use door_fix::Checks;
use fix_session::Durability;

use crate::config::{KeyChange, outside, ranged, row, shown};
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
    /// Returns it as it stands in a file.
    fn print(&self) -> String;
    /// Returns it as an object.
    fn to_json(&self) -> serde_json::Value;
    /// Returns its keys as rows of the table in docs/operations.md.
    fn rows() -> String;
    /// Returns what is outside of its range.
    fn out_of_range(&self) -> Vec<String>;
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
                    text += &row(array, stringify!($key), &entry.$key, &meaning, "start");
                )*
                text
            }

            fn out_of_range(&self) -> Vec<String> {
                let array = concat!(stringify!($section), ".", stringify!($array));
                let found: [Option<String>; 0] = [];
                found.into_iter()
                    $($(.chain([outside((array, stringify!($key)), &self.$key, &RangeInclusive::<u64>::from($range))]))?)*
                    .flatten()
                    .map(|text| format!("{}: {text}", self.place))
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
        source_addresses: Vec<String> = Vec::new(), " From where the client may come: addresses and ranges such as \"192.0.2.0/24\"; none: from anywhere.";
        certificate_name: String = String::new(), " A name that the client's certificate must have; empty: any certificate of `fix.tls_clients`.";
    }
}

/// The arrays of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    /// Clients' sessions of the FIX door, in the order of the file.
    pub fix_session: Vec<FixSession>,
}

impl Arrays {
    /// Tells whether a section has an array of this name.
    pub(crate) fn has(section: &str, array: &str) -> bool {
        (section, array) == (FixSession::SECTION, FixSession::ARRAY)
    }

    /// Adds an entry with its keys, each with where it stands; every error of it goes to `push`.
    pub(crate) fn add<'t>(
        &mut self,
        place: String,
        keys: impl Iterator<Item = (&'t str, usize, Written)>,
        push: &mut impl FnMut(usize, String),
    ) {
        self.fix_session.push(read(place, keys, push));
    }

    /// Returns all entries as they stand in a file.
    pub(crate) fn print(&self) -> String {
        self.fix_session.iter().map(|entry| entry.print() + "\n").collect()
    }

    /// Returns the keys of all kinds of entries as rows of a table.
    pub(crate) fn rows() -> String {
        FixSession::rows()
    }

    /// Returns the arrays that another configuration has otherwise.
    pub(crate) fn changes(&self, other: &Arrays) -> Option<KeyChange> {
        let print =
            |arrays: &Arrays| arrays.fix_session.iter().map(Entry::print).collect::<String>();
        let (from, to) = (print(self), print(other));
        let names = |arrays: &Arrays| {
            let name = |entry: &FixSession| entry.target_comp_id.clone();
            arrays.fix_session.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        (from != to).then(|| KeyChange {
            key: "fix.session".into(),
            is_live: false,
            from: names(self),
            to: names(other),
        })
    }

    /// Puts the entries into the configuration as JSON.
    pub(crate) fn to_json(&self, all: &mut serde_json::Map<String, serde_json::Value>) {
        let entries = self.fix_session.iter().map(Entry::to_json).collect::<Vec<_>>();
        if let Some(section) = all.get_mut(FixSession::SECTION) {
            section[FixSession::ARRAY] = entries.into();
        }
    }

    /// Returns what is outside of its range.
    pub(crate) fn out_of_range(&self) -> Vec<String> {
        self.fix_session.iter().flat_map(Entry::out_of_range).collect()
    }
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
