//! `weir.toml`: every key is defined once, with its default and its meaning; the parser, `weir check`, the
//! environment variables and the printed template all come from that one definition.

use std::fmt;
use std::io::Read as _;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use door_transport::cores::CoreList;
use door_transport::{TaskRun, Transport};
use gate_auction::{Exclusive, Pricing, Rank};
use ledger_journal::Durability;
use money::CurrencyCode;
use openrtb::{Purposes, Redirect};

use crate::arrays::Arrays;
use crate::doors::{ADMIN, all_doors, transport_options};
use crate::environment::distance;
use crate::listen::Listen;
pub use crate::values::{Home, Pods, Rates, Takeover};
use crate::values::{Value, Written, expected, usd, written, wrong};

/// Something wrong with the configuration: where, what was found, what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// `file:line`, the name of an environment variable, or a command line flag.
    pub place: String,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl ConfigError {
    /// Its line in the file; of what stands elsewhere a line behind all.
    fn line(&self) -> usize {
        let number = self.place.rsplit_once(':').and_then(|(_, line)| line.parse().ok());
        number.unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Judges what a door's section says, where the door's crate knows what it takes: returns everything that is wrong with it. What has no
/// place gets that of the key that it begins with, else that of the file.
pub type Judge = fn(&Config) -> Vec<ConfigError>;

macro_rules! config {
    ($($section:ident ($section_doc:literal) {
        $($key:ident: $type:ty = $default:expr $(=> $mark:ident)?, $([$range:expr],)? $doc:literal;)*
    })*) => {
        /// The whole configuration, one field a section of the file.
        #[derive(Clone, Debug, Default)]
        pub struct Config {
            $(#[doc = $section_doc] pub $section: sections::$section,)*
            /// Entries of which the file may have several.
            pub arrays: Arrays,
        }

        /// The sections of the file.
        #[allow(non_camel_case_types, reason = "named as the sections of the file, which they stand for")]
        pub mod sections {
            use super::*;
            $(
                #[doc = $section_doc]
                #[derive(Clone, Debug)]
                pub struct $section { $(#[doc = $doc] pub $key: $type,)* }
                impl Default for $section {
                    fn default() -> $section { $section { $($key: $default,)* } }
                }
            )*
        }

        /// Every key: section, name.
        const KEYS: &[(&str, &str)] = &[$($((stringify!($section), stringify!($key)),)*)*];

        /// What a key expects that is written without quotes, and its default; `None` of others, and of what is no key.
        fn bare(section: &str, key: &str) -> Option<(String, String)> {
            match (section, key) {
                $($((stringify!($section), stringify!($key)) => {
                    let default: $type = $default;
                    let range = [$(RangeInclusive::<u64>::from($range))?];
                    <$type as Value>::IS_BARE.then(|| (expected::<$type>(&range), default.print()))
                })*)*
                _ => None,
            }
        }

        /// Is it a key whose value, right or wrong, may be a secret? The name of a variable may be the secret that belongs into it.
        fn may_be_secret(section: &str, key: &str) -> bool {
            match (section, key) {
                $($((stringify!($section), stringify!($key)) => {
                    stringify!($($mark)?) == "secret" || key.ends_with("_env")
                })*)*
                _ => false,
            }
        }

        impl Config {
            fn set(&mut self, section: &str, key: &str, written: &Written) -> Result<(), String> {
                match (section, key) {
                    $($((stringify!($section), stringify!($key)) => {
                        self.$section.$key = <$type as Value>::read(written)
                            .ok_or_else(|| wrong::<$type>(written, &[$(RangeInclusive::<u64>::from($range))?]))?;
                        Ok(())
                    })*)*
                    _ => Err(unknown(section, key)),
                }
            }

            /// The configuration as JSON, `{"section":{"key":value}}`. Of what is secret it says only whether it is set.
            #[must_use]
            pub fn to_json(&self) -> serde_json::Value {
                let mut all = serde_json::Map::new();
                $(
                    let mut section = serde_json::Map::new();
                    $(
                        let secret = stringify!($($mark)?) == "secret";
                        section.insert(stringify!($key).into(), shown(&self.$section.$key, secret));
                    )*
                    all.insert(stringify!($section).into(), section.into());
                )*
                self.arrays.to_json(&mut all);
                all.into()
            }

            /// The configuration as a file, every key with its meaning.
            pub fn print(&self) -> String {
                let mut text = String::new();
                $(
                    text += &format!("# {}\n[{}]\n", $section_doc.trim(), stringify!($section));
                    $(
                        let range = ranged($doc, [$(RangeInclusive::<u64>::from($range))?]);
                        text += &format!("#{range}\n{} = {}\n", stringify!($key), self.$section.$key.print());
                    )*
                    text += "\n";
                )*
                text + &self.arrays.print()
            }

            /// Every key with its default, its meaning and its range as a Markdown table, as docs/configuration.md has it.
            #[must_use]
            pub fn table() -> String {
                let config = Config::default();
                let mut text = "| key | default | meaning | read |\n| --- | --- | --- | --- |\n".to_string();
                $($(
                    let meaning = ranged($doc, [$(RangeInclusive::<u64>::from($range))?]);
                    let read = if stringify!($($mark)?) == "live" { "live" } else { "start" };
                    text += &row(stringify!($section), stringify!($key), &config.$section.$key, &meaning, read);
                )*)*
                text + &Arrays::rows()
            }

            /// The keys that another configuration sets otherwise, those of entries of arrays too.
            #[must_use]
            pub fn changes(&self, other: &Config) -> Vec<KeyChange> {
                let mut found = self.key_changes(other);
                found.extend(self.arrays.changes(&other.arrays));
                found
            }

            /// The keys that another configuration sets otherwise, without those of arrays.
            #[must_use]
            pub fn key_changes(&self, other: &Config) -> Vec<KeyChange> {
                let mut found = Vec::new();
                $($(
                    let mark = stringify!($($mark)?);
                    let key = (stringify!($section), stringify!($key));
                    found.extend(changed(key, mark, &self.$section.$key, &other.$section.$key));
                )*)*
                found
            }

            /// Numbers that are outside of their ranges.
            fn out_of_range(&self) -> Vec<String> {
                let mut found = Vec::new();
                $($($(
                    let key = (stringify!($section), stringify!($key));
                    found.extend(outside(key, &self.$section.$key, &RangeInclusive::<u64>::from($range)));
                )?)*)*
                found
            }
        }
    };
}

config! {
    node ("Who this node is.") {
        id: u16 = 1, " Number of this node, which its hold tokens carry; tokens of other nodes are refused as foreign.";
        data_dir: PathBuf = PathBuf::from("weir-data"), " Data folder of the node: its lock, its addresses and, in `journal`, everything that changed money.";
    }
    workers ("The threads that answer.") {
        cores: CoreList = CoreList::Auto, " One worker for each of these cores: a list as \"0,2-5\", or \"auto\", which leaves some cores for the rest of the node.";
        pin: bool = true, " Pin each worker to its core.";
    }
    transport ("The event loop of the workers.") {
        kind: Transport = Transport::Auto, " \"io_uring\", \"epoll\", or \"auto\": io_uring where the kernel allows it.";
        task_run: TaskRun = TaskRun::Defer, " How io_uring completes operations: \"defer\" (Linux 6.1) or \"coop\".";
        connections_max: usize = 20_000, " Maximum connections per worker; further ones are closed at once (`refused_full`).";
        output_bytes_max: usize = 1_048_576, " Maximum bytes of unsent answers per connection; above this the connection is not read until half of them are left.";
        output_total_bytes_max: usize = 268_435_456, " Maximum bytes allocated for unsent answers of all connections of a worker; above this no connection with unsent answers is read until half of them are left; a quarter above it those with the most are closed.";
        idle_ms_max: u64 = 300_000, " A connection idle for this long is closed (`idle`), milliseconds; not at the FIX door, whose sessions have heartbeats.";
        partial_ms_max: u64 = 10_000, " A message that is unfinished for this long closes its connection (`slow_message`), milliseconds.";
        stalled_ms_max: u64 = 10_000, " A client that reads nothing for this long is closed (`stalled`), milliseconds.";
    }
    batch ("The batch door: SBE messages in frames over TCP.") {
        listen: Listen = Listen::by_default(7700), " Address of the batch door, or `\"\"`: the door is off. Beyond loopback `auth_token`, `tokens_file` or `tls_clients` is required.";
        auth_token: String = String::new() => secret, " One token for all clients, which they send in Hello. If it is empty and there is no `tokens_file`, every client may connect.";
        tokens_file: String = String::new() => live, " Who may spend: lines of `name spend token [scope,...]`, as `weir token new` makes them. Clients send the token in Hello; `auth_token` stays valid beside the file.";
        tls_cert: String = String::new() => live, " Certificates of the door, PEM, its own first; with `tls_key` the door speaks TLS. Empty: plain TCP.";
        tls_key: String = String::new() => live, " Key of the certificate, PEM.";
        tls_clients: String = String::new() => live, " PEM: who signs the certificates that every client must then show.";
        batch_max: u16 = 1024, [1..=1024], " Maximum entries per frame.";
        frame_bytes_max: u32 = 65_536, [4_096..=1_048_576], " Maximum bytes per frame.";
        resolves_waiting_max: usize = 4_096, " Maximum frames of resolves per worker that wait for the bank.";
        wait_ms: u64 = 10, [0..=10_000], " A frame with a single ask, or with the flag `awaitFill`, waits at most this long for the bank, milliseconds; 0 disables waiting.";
    }
    openrtb ("The OpenRTB door: bid requests and notices over HTTP.") {
        listen: Listen = Listen::by_default(7701), " Address of the OpenRTB door, or `\"\"`: the door is off. Beyond loopback `path_token` or `tls_clients` is required.";
        path_token: String = String::new() => secret, " Bid requests are accepted only at /openrtb2/bid/TOKEN; without a token, at /openrtb2/bid.";
        tls_cert: String = String::new() => live, " Certificates of the door, PEM, its own first; with `tls_key` the door speaks HTTPS. Empty: HTTP.";
        tls_key: String = String::new() => live, " Key of the certificate, PEM.";
        tls_clients: String = String::new() => live, " PEM: who signs the certificates that every client must then show, those who send notices too.";
        public_url: String = String::new(), " Beginning of notice addresses, such as `https://win.example`; empty: the door's scheme and address.";
        hosts: String = String::new(), " Further names (`Host`) by which the door may be called, separated by commas, beside the names of this machine and of `public_url`. If this is empty, a door on loopback accepts only those names, and any other door accepts all.";
        currency: CurrencyCode = usd(), " Currency of bids, wherever `cur` of the request takes it.";
        rates: Rates = Rates::default(), " Value of one unit of other currencies in ours, for floors, for campaigns whose budgets are in another, and for bids where `cur` does not take ours: \"EUR=1.0834,JPY=0.0067\". No bid satisfies a floor in a currency without a rate.";
        fee_bp: u16 = 0, [0..=9_000], " The exchange's fee in basis points of the bid; floors are net of it. With 0, floors are gross.";
        tcf_vendor: u16 = 0, " Our number in the Global Vendor List of the TCF. 0: we are not on it, and where the GDPR applies no ids, segments or profiles are used.";
        tcf_purposes_ids: Purposes = Purposes::OF_IDS, " Purposes of the TCF to which a user must have agreed where the GDPR applies, before ids, profiles and caps are used, separated by commas.";
        tcf_purposes_segments: Purposes = Purposes::OF_SEGMENTS, " The same for segments of the request (`user.data`).";
        margin_ms: u64 = 20, [0..=60_000], " Part of tmax that is left for the network, milliseconds: answers leave this long before tmax has passed.";
        tmax_ms: u64 = 200, [1..=60_000], " The tmax that applies to requests without one, milliseconds.";
        pricing: Pricing = Pricing::First, " Price that is sent: \"first\" (the bid, in first- and second-price auctions), \"second\" (the next best offer of our own campaigns plus a millionth: for auctions among these alone) or \"at\" (as the request says: 1 first, else second). In a deal with `at` 3 it is always the floor.";
        rank: Rank = Rank::Bid, " Which of our campaigns bids: the one with the highest \"bid\", or with the highest \"value\", that times the third power of the bid. By value all together buy more for their budgets, if their values are comparable.";
        deals_first: bool = true, " A bid with a deal takes precedence over a higher bid without one.";
        bids_per_impression_max: u16 = 1, [1..=16], " Maximum bids per impression.";
        exclusive: Exclusive = Exclusive::No, " Maximum bids for the impressions of one request: \"no\" limit, one bid per \"campaign\", or one bid per \"advertiser\".";
        pods: Pods = Pods::Apart, " Impressions of a video or audio pod: each by itself, \"apart\", or filled \"together\" or not at all (seatbid.group 1).";
        no_bid_body: bool = false, " Answer 200 with a no-bid code instead of 204.";
        gzip_bytes_min: usize = 1_024, " Answers of at least this size are compressed where the client accepts it.";
        body_bytes_max: usize = 1_048_576, [1 << 10..=1 << 24], " Maximum bytes of a request's body, as sent and when unpacked.";
        notices_waiting_max: usize = 16_384, [1..=1 << 20], " Maximum notices per worker that wait for their seal; further ones are answered 429.";
        click_fallback: String = String::new(), " Where a click leads whose creative is gone, or whose id is none of ours. Empty: it is answered 404.";
        clicks_per_address: u64 = 0, [0..=1_000_000], " Maximum clicks per worker that count of one address (IPv6: a /64 network) in the 60 s from its first one; further ones are sent on and not counted. 0 = no limit.";
        address_header: String = String::new(), " Header in which a balancer before the node says who clicks, such as `X-Forwarded-For`: its last address counts. Empty, or without an address in it: who connects.";
        loss_notices: bool = true, " Bids carry a loss notice address (`lurl`). With `false` they carry none, and loss notices of earlier bids are answered 204 and release nothing.";
        price_factor_max: u64 = 2, [1..=1_000_000], " A billing price above this multiple of the price we sent counts as a mistake, and the price we sent is booked.";
        keep_rests: bool = true, " What a billing notice is lower than its bid stays held until `ledger.billing_ms` is over: a later, higher notice is paid from it. With `false` it is free at once, and true prices that come after a stranger's can be spent above the limit.";
        price_share_min_bp: u16 = 100, [0..=10_000], " In second-price auctions a lower billing price than we sent counts, but below this share of it, in basis points, it is a mistake, and the price we sent is booked.";
        survey_every: u64 = 1_024, " Sample one auction in this many, and the first of each 10 ms as long as that takes a hundredth of the time, and record why each campaign did not bid; 0 disables.";
    }
    spend ("The spend door: calls as JSON over HTTP, for programs of any language.") {
        listen: Listen = Listen::by_default(7704), " Address of the spend door, or `\"\"`: the door is off. Beyond loopback `tls_cert`, `tls_key` and one of `tokens_file` and `tls_clients` are required.";
        tokens_file: String = String::new() => live, " Who may do what: lines of `name role token [scope,...]`, role `spend` or `read`, as `weir token new` makes them. Clients send the token as `Authorization: Bearer`. Without a file everybody who reaches the door may do all.";
        tls_cert: String = String::new() => live, " Certificates of the door, PEM, its own first; with `tls_key` the door speaks HTTPS. Empty: HTTP.";
        tls_key: String = String::new() => live, " Key of the certificate, PEM.";
        tls_clients: String = String::new() => live, " PEM: who signs the certificates that every client must then show. Where a tokens file is set as well, each call needs a token, too.";
        hosts: String = String::new(), " Further names (`Host`) by which the door may be called, separated by commas. If this is empty, a door on loopback accepts only the names of this machine, and any other door accepts all.";
        wait_ms: u64 = 50, [0..=1_000], " A call without `wait_ms` waits at most this long for money that is not at hand, milliseconds; 0 disables waiting.";
        over_factor_max: u64 = 100, [0..=1_000_000], " A settle of more than this many times its hold is refused as a mistake; 0 = no limit.";
        batch_max: u16 = 10_000, [1..=10_000], " Maximum calls per batch, at most `calls_waiting_max`; a larger one is answered 413.";
        body_bytes_max: usize = 2_097_152, [1 << 10..=1 << 24], " Maximum bytes of a request's body, as sent and when unpacked.";
        gzip_bytes_min: usize = 1_024, " Answers of at least this size are compressed where the client accepts it.";
        calls_waiting_max: usize = 16_384, [1..=1 << 20], " Maximum calls per worker that wait for the bank; further ones are answered 429.";
        keys_max: usize = 4_000_000, [1..=16_000_000], " Maximum answers kept for an `Idempotency-Key`, about 60 bytes of memory each, 99 of a reservation's. With `keys_keep_s` it bounds the rate of new keys: 1,100 a second. Beyond it a reserve or a spend with a new key is answered 429, and other calls are done without a kept answer.";
        keys_keep_s: u64 = 3_600, [60..=86_400], " How long each is kept, seconds.";
    }
    fix ("The FIX door: sessions of clients over TCP, each an entry `[[fix.session]]`. It is off as long as there is none.") {
        listen: Listen = Listen::by_default(7702), " Address of the FIX door, or `\"\"`: the door is off. Beyond loopback `tls_cert` and `tls_key` are required, and `tls_clients` or the `password_file` of every session.";
        worker: Home = Home::Last, " The worker that has the door: a number from 0, or \"last\". A session with durability \"sealed\" makes it wait for the disk: give the door a worker that does little else.";
        tls_cert: String = String::new() => live, " Certificates of the door, PEM, its own first; with `tls_key` the door speaks TLS. Empty: plain TCP.";
        tls_key: String = String::new() => live, " Key of the certificate, PEM.";
        tls_clients: String = String::new() => live, " PEM: who signs the certificates that every client must then show.";
        messages_keep_days: u64 = 30, [1..=3_650], " Messages of sessions are kept this long at most, days; those that a peer may still ask for are always kept.";
        messages_bytes_max: u64 = 10_737_418_240, [1 << 20..=1 << 44], " Messages of a session are kept up to this many bytes.";
        orders_max: usize = 1_048_576, [1..=16_777_216], " Maximum open orders of a venue, each of about 200 bytes of memory; further ones are refused, cancels and reports pass.";
        reference_prices: String = String::new(), " File of what symbols cost, by which orders without a limit are held: JSON lines such as `{\"symbol\":\"ACME\",\"price\":\"187.25\"}`, read again when it changes. Empty: their last executions alone count.";
        reference_max_age_s: u64 = 3_600, [1..=31_536_000], " How long the last execution of a symbol, and a line of `reference_prices` with a time `at`, count as its price, seconds.";
        collar_bp: u32 = 500, [0..=100_000], " How far above its reference price an order that may be executed at the market is held, basis points: 500 = 5 %.";
    }
    keys ("The keys door: bulk encryption over HTTP, for clients of Transit (OpenBao, Vault).") {
        listen: Listen = Listen::by_default(7703), " Address of the keys door, or `\"\"`: the door is off. Beyond loopback `tls_cert`, `tls_key` and `tokens_file` are required.";
        tokens_file: String = String::new() => live, " Who may do what with which keys: lines of `name keys token [scope,...]`, as `weir token new` makes them. Clients send the token as `X-Vault-Token` or `Authorization: Bearer`. Without a file the node makes one token at a start, in `vault-token` of the data folder, unless that is there. The file's lines are live; whether there is a file at all changes at a start only.";
        tls_cert: String = String::new() => live, " Certificates of the door, PEM, its own first; with `tls_key` the door speaks HTTPS. Empty: HTTP.";
        tls_key: String = String::new() => live, " Key of the certificate, PEM.";
        tls_clients: String = String::new() => live, " PEM: who signs the certificates that every client must then show. Each call needs a token, too.";
        hosts: String = String::new(), " Further names (`Host`) by which the door may be called, separated by commas. If this is empty, a door on loopback accepts only the names of this machine, and any other door accepts all.";
        body_bytes_max: usize = 33_554_432, [1 << 10..=1 << 28], " Maximum bytes of a request's body, as sent and when unpacked; a larger one is answered 413.";
        keys_max: usize = 100_000, [1..=10_000_000], " Maximum keys.";
        rate_per_s: u32 = 0, [0..=100_000_000], " Maximum calls a second with one token, over all workers; further ones are answered 429. 0 = no limit.";
        calls_waiting_max: usize = 1_024, [1..=65_536], " Maximum calls per worker that wait for a change of keys or for the line of their audit; further ones are answered 503.";
        audit: String = "on".into(), " \"on\": before a call about a key is answered there is a line of it in `vault-audit.jsonl` of the data folder, and where none can be written the call is refused. \"off\": there is none.";
        audit_keep_days: u64 = 90, [1..=36_500], " Files of the audit are kept this long at most, days.";
        audit_bytes_max: u64 = 10_737_418_240, [1 << 21..=1 << 44], " Files of the audit together have at most this many bytes; then the oldest is removed.";
    }
    vault ("What unseals the keys of the keys door.") {
        key_file: String = String::new(), " File with the key that all keys are wrapped under: 64 hexadecimal digits or 32 bytes, readable by its owner alone. Empty, or while there is no such file: the keys stay sealed, and the keys door says so. One of `key_file`, `key_env`, `key_program` and `transit_address` at most.";
        key_env: String = String::new(), " Name of the environment variable that has this key, 64 hexadecimal digits. The system shows it in `/proc/PID/environ` as long as the node runs.";
        key_program: String = String::new(), " Path of a program that prints this key and ends within 30 s; it has no arguments and no input. While it fails the keys stay sealed.";
        transit_address: String = String::new(), " Another Transit that keeps this key, as `https://HOST:PORT`: a node, OpenBao or Vault. This node draws the key at its first start, has the other encrypt it, and later decrypt it; while the other does not, the keys stay sealed, and the node asks it again. Plain `http://` only on loopback.";
        transit_token_file: String = String::new(), " File with the token that is shown to the other Transit: one line, readable by its owner alone.";
        transit_token_env: String = String::new(), " In place of the file, the name of the environment variable that has this token.";
        transit_key_name: String = String::new(), " The other Transit's key that encrypts this one.";
        transit_mount_path: String = "transit".into(), " Where the other Transit is mounted, below `/v1/`; namespaces of OpenBao and Vault stand before it.";
        transit_tls_ca_cert: String = String::new(), " PEM: who signs the other Transit's certificate. Empty: whom the system trusts.";
    }
    profiles ("What is known of users: segments and how often they saw what.") {
        memory_bytes_max: usize = 268_435_456, [1 << 24..=1 << 40], " Maximum bytes of memory for profiles; profiles of users who were not seen for long stay on disk only.";
    }
    reports ("What was counted by hour, exchange, place, creative and country: `weir report`.") {
        keep_days: u64 = 90, [1..=3_650], " Hours are kept for this many days.";
        keep_bytes_max: u64 = 4_294_967_296, [1 << 20..=1 << 42], " Maximum bytes of hours that are over; the oldest are forgotten first.";
        cells_per_hour_max: u64 = 200_000, [1_000..=10_000_000], " Maximum cells per hour: a budget with an exchange, place, creative and country. What is beyond counts as `(other)`.";
        keys_max: u64 = 1_000_000, [1_000..=100_000_000], " Maximum combinations of exchange, place, creative and country whose names are known, about 150 bytes of memory each. What is beyond counts as `(other)`.";
    }
    admin ("For people and tools: the dashboard, the admin API, counters, balances.") {
        listen: Listen = Listen::by_default(7780), " Address of the admin door; beyond loopback `tokens_file` is required.";
        tokens_file: String = String::new() => live, " Who may do what: lines of `name role token`, role `read` or `operate`, as `weir token new` makes them. Without a file everybody on this machine may do everything.";
        tls_cert: String = String::new() => live, " File with the door's certificate chain in PEM, its own certificate first. With this and `tls_key` the door speaks HTTPS, otherwise HTTP.";
        tls_key: String = String::new() => live, " File with the private key of the certificate, in PEM.";
        origins: String = String::new(), " Other web origins whose pages may make changes and open live streams, such as `https://ops.example`, separated by commas.";
        live_max: usize = 200, [1..=10_000], " Maximum dashboards that are connected at once.";
        live_rows: usize = 3_000, [1..=1_000_000], " Maximum rows sent to every dashboard per refresh, beside those it shows.";
        tick_ms: u64 = 2_000, [50..=60_000], " Interval of the survey of all budgets for the dashboard, milliseconds.";
    }
    history ("What became of each budget minute by minute, for the dashboard's charts.") {
        keep_days: u32 = 7, [1..=366], " Number of days for which the dashboard's charts are kept.";
    }
    alerts ("Signed webhooks: budgets that reach a share of a limit, expired money, refused files.") {
        url: String = String::new(), " Where alerts are sent, `https://...` or `http://...`, to any address that this machine reaches. Empty: none are sent.";
        secret_file: String = String::new(), " File with what signs them, shared with the receiver: `whsec_` and base64 of 24 to 64 bytes. While a secret is replaced, the new one in the first line and the old one in the next.";
        tls_ca: String = String::new(), " PEM: who signs the receiver's certificate. Empty: whom the system trusts.";
    }
    budgets ("Where budgets come from.") {
        file: PathBuf = PathBuf::from("budgets.jsonl"), " The budgets file, .jsonl or .csv, one budget per line; it is read again whenever it changes.";
        check_ms: u64 = 500, [10..=3_600_000], " Interval at which the node looks at the file, milliseconds; it reads a changed file at the second look that finds it unchanged.";
        templates_max: usize = 1_000_000, [0..=4_000_000], " Maximum live budgets that were made from templates; above this an ask for another one is answered `busy`.";
        templates_under_max: usize = 10_000, [1..=4_000_000], " The same directly under one parent.";
        end_share_max_percent: u8 = 20, [0..=100], " Percentage of the live budgets that a file may end by leaving them out; a file that ends more is refused. One budget may always be left out, all of them never.";
    }
    ledger ("Holds and purses.") {
        hold_ms: u64 = 2_000, [80..=600_000], " Minimum life of an unconfirmed hold, milliseconds; it is rounded up by at most an eighth and 10 ms.";
        billing_ms: u64 = 3_600_000, [1_000..=31 * 86_400_000], " How long a confirmed hold waits for its settle, milliseconds; it is rounded up by at most a 64th.";
        win_notices: bool = true, " With `true`, wins are confirmed within `hold_ms`, so an unconfirmed hold was lost and becomes free. With `false`, wins are not reported, and unconfirmed holds of budgets with `on_expiry: hold` are kept.";
        reconcile_ms: u64 = 172_800_000, [0..=62 * 86_400_000], " How long after its deadlines a hold can be reconciled by its id, milliseconds; token keys are kept that long.";
        late_ms: u64 = 3_600_000, [0..=31 * 86_400_000], " How long after that a token is still judged, milliseconds.";
        key_ms: u64 = 86_400_000, [1_000..=366 * 86_400_000], " How long one key makes new tokens before the next key takes over, milliseconds. Old keys still verify tokens until these are too old.";
        refresh_ms: u64 = 200, [1..=60_000], " How long one filling of a purse should last, milliseconds.";
        remember_max: usize = 65_536, " Maximum answers that a worker remembers for frames with the flag `remember`.";
        grants_max: usize = 4_000_000, " Maximum grants that are open at once.";
        named_max: usize = 1_048_576, [1..=1 << 32], " Maximum named holds that are open at once: orders, and holds of several budgets. Above this asks are answered `busy`; facts find room.";
        mark_pages_max: usize = 8_000_000, " Maximum pages of marks; a page has 160 bytes and covers 256 holds.";
        amounts_max: usize = 64_000_000, " Maximum holds, settled with another amount than their own, of which the amount is kept: at most 16 bytes each. Of further ones it is not known, and a later, higher price books nothing.";
    }
    journal ("The record of everything that changed money, in the folder `journal` of node.data_dir.") {
        durability: Durability = Durability::Sealed, " When an answer that changed money is sent: \"sealed\", once the disk has its record, or \"os\", once the operating system has it. With \"os\" a crash of the system or a power cut loses the last seconds.";
        gather_us: u64 = 1_000, [0..=1_000_000], " Minimum time between the beginnings of two writes, microseconds. A write after a pause starts at once; 0 writes as fast as the disk can.";
        gather_idle_us: u64 = 5_000, [0..=1_000_000], " The same for records for which no client waits: purse fillings and lapsed holds.";
        segment_bytes: u64 = 67_108_864, [1 << 22..=1 << 32], " Length of a journal file in bytes; files are prepared ahead.";
        snapshot_bytes: u64 = 268_435_456, [1 << 20..=1 << 40], " A snapshot is made after this many bytes of records.";
        unsealed_bytes_max: usize = 67_108_864, [1 << 21..=1 << 34], " Maximum bytes of records that wait for the disk; above this the node refuses with `journal`.";
        keep_bytes_max: u64 = 10_737_418_240, " Old files are kept for exports and audits up to this many bytes and `keep_days_max`; files that a start needs are always kept.";
        keep_days_max: u64 = 30, [0..=36_500], " Old files are kept for this many days at most.";
    }
    cluster ("A log on other machines (NATS JetStream), from which another machine takes over. Off while `log` is empty.") {
        name: String = "weir".into(), " Name of the cluster: its stream is `WEIR_NAME`, with the one subject `weir.NAME.log`.";
        node: String = String::new(), " Name of this machine within the cluster; empty: its host name.";
        log: String = String::new() => secret, " Servers that keep the log, as `nats://a:4222,b:4222,c:4222` or with `tls://`, perhaps with `user:password@`; `weir run --log` sets it. Empty: the journal is on this machine's disk alone.";
        log_monitors: Vec<String> = Vec::new(), " The monitor of each server, as `[\"http://a:8222\", \"http://b:8222\"]`: a start asks there whether it syncs before it acknowledges.";
        log_credentials: String = String::new(), " File of credentials for these servers, as `nsc` makes them; empty: what `log` says.";
        log_ca: String = String::new(), " PEM: who signs the servers' certificates. Empty: whom the system trusts.";
        secret_file: String = String::new(), " File with 64 hexadecimal digits, the same on all nodes and readable by its owner alone: the log is encrypted with it.";
        lease_ms: u64 = 15_000, [1_000..=600_000], " A bank that the log has not answered for this long grants nothing, milliseconds; at least twice `beat_ms`. Who takes over sets its purses aside for as long.";
        beat_ms: u64 = 500, [50..=60_000], " A bank that has appended nothing for this long appends a beat, milliseconds.";
        takeover_ms: u64 = 3_000, [500..=600_000], " A standby takes over once nothing was appended for this long, milliseconds; more than twice `beat_ms`.";
        takeover: Takeover = Takeover::Auto, " \"auto\", or \"manual\": only after the bank has stopped cleanly, or when told with `weir cluster take-over`.";
        clock_error_ms: u64 = 500, [0..=60_000], " How far the clocks of two nodes may be apart, milliseconds.";
    }
    pacing ("The slow loop that steers the plans.") {
        tick_ms: u64 = 200, [10..=10_000], " Interval at which the parameters of plans are computed, milliseconds; of a budget that nobody asks, once per second.";
    }
    probes ("Where the time of the node's threads goes: `weir costs`.") {
        every: u32 = 64, [0..=1_000_000], " One wake-up of a worker in this many is measured; 0 disables the cost sheet.";
    }
    log ("What the node says.") {
        level: String = "info".into(), " error, warn, info, debug or trace.";
    }
}

/// A key that two configurations set differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// `section.key`.
    pub key: String,
    /// Is it read while the node runs?
    pub is_live: bool,
    /// What it was, as it is written; of a secret, whether it was set.
    pub from: String,
    /// What it is now.
    pub to: String,
}

fn changed(
    (section, key): (&str, &str),
    mark: &str,
    from: &impl Value,
    to: &impl Value,
) -> Option<KeyChange> {
    let is_secret = mark == "secret";
    (from.print() != to.print()).then(|| KeyChange {
        key: format!("{section}.{key}"),
        is_live: mark == "live",
        from: shown(from, is_secret).to_string(),
        to: shown(to, is_secret).to_string(),
    })
}

/// The meaning of a key, and its range behind it.
pub(crate) fn ranged<const N: usize>(meaning: &str, range: [RangeInclusive<u64>; N]) -> String {
    let range = range
        .first()
        .map(|range| format!(" {} to {}.", grouped(*range.start()), grouped(*range.end())));
    format!("{meaning}{}", range.unwrap_or_default())
}

/// A whole number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(place, digit): (usize, char)| {
        let before = place > 0 && (digits.len() - place).is_multiple_of(3);
        [before.then_some(','), Some(digit)].into_iter().flatten()
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

pub(crate) fn row(
    section: &str,
    key: &str,
    default: &impl Value,
    meaning: &str,
    read: &str,
) -> String {
    let default = match default.number() {
        Some(number) => grouped(number),
        None => format!("`{}`", default.print()),
    };
    format!("| `{section}.{key}` | {default} | {} | {read} |\n", meaning.trim())
}

pub(crate) fn outside(
    (section, key): (&str, &str),
    value: &impl Value,
    range: &RangeInclusive<u64>,
) -> Option<String> {
    let found = value.number().filter(|number| !range.contains(number))?;
    let (from, to) = (range.start(), range.end());
    Some(format!("{section}.{key}: found {found}, expected {from} to {to}"))
}

/// A key as JSON: text, a number or a boolean; a secret as whether it is set.
pub(crate) fn shown(value: &impl Value, secret: bool) -> serde_json::Value {
    let printed = value.print();
    let shown = serde_json::from_str(&printed).unwrap_or(serde_json::Value::String(printed));
    match secret {
        true if shown == "" => "not set".into(),
        true => "set, hidden".into(),
        false => shown,
    }
}

fn unknown(section: &str, key: &str) -> String {
    let name = format!("{section}.{key}");
    let names = KEYS.iter().map(|(section, key)| format!("{section}.{key}"));
    let nearest = names.chain(Arrays::names()).map(|known| (distance(&name, &known), known)).min();
    if let Some((_, known)) = nearest.filter(|(away, _)| *away <= name.len() / 6) {
        let is_array =
            known.split_once('.').is_some_and(|(section, key)| Arrays::has(section, key));
        let known = if is_array { format!("[[{known}]]") } else { known };
        return format!("there is no key {name}; did you mean {known}?");
    }
    let known = |(s, k): &&(&str, &str)| s == &section || k == &key;
    let near = KEYS.iter().filter(known).map(|(s, k)| format!("{s}.{k}"));
    let near: Vec<String> = near.chain(Arrays::of_section(section)).collect();
    let hint = if near.is_empty() { sections() } else { near.join(", ") };
    format!("there is no key {name}; known here: {hint}")
}

fn sections() -> String {
    let mut sections: Vec<&str> = KEYS.iter().map(|(section, _)| *section).collect();
    sections.dedup();
    format!("the sections {}", sections.join(", "))
}

/// Reads the address of a command line flag.
///
/// # Errors
/// The value that was expected.
pub fn listen(text: &str) -> Result<Listen, String> {
    text.parse().map_err(|_| format!("expected {}", <Listen as Value>::EXPECTED))
}

/// What a configuration's file may have.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the file of a configuration, which is a regular one, or of a start perhaps a pipe: then it waits for who writes to it.
fn file_text(path: &Path, may_wait: bool) -> std::io::Result<String> {
    let is_pipe = || std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    let bytes = match may_wait && is_pipe() {
        true => {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(path)?;
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
            bytes
        }
        false => access::file::read_regular(path, FILE_BYTES_MAX)?,
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8"))
}

/// Reads the configuration: defaults, then the file, then the environment, and has `judges` look at what doors know of it. Returns every
/// error at once. The file may be a pipe.
pub fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    judges: &[Judge],
) -> Result<Config, Vec<ConfigError>> {
    sound(load_from(file, true, environment, judges))
}

/// [`load`] for who goes on with what could be read, to tell more that is wrong.
pub fn load_all(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    judges: &[Judge],
) -> (Config, Vec<ConfigError>) {
    load_from(file, true, environment, judges)
}

fn sound((config, errors): (Config, Vec<ConfigError>)) -> Result<Config, Vec<ConfigError>> {
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

/// [`load`] for a node that runs: the file is a regular one, and nothing waits for anybody.
pub fn load_again(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    judges: &[Judge],
) -> Result<Config, Vec<ConfigError>> {
    sound(load_from(file, false, environment, judges))
}

fn load_from(
    file: Option<&Path>,
    may_wait: bool,
    environment: impl Iterator<Item = (String, String)>,
    judges: &[Judge],
) -> (Config, Vec<ConfigError>) {
    let mut config = Config::default();
    let mut errors = Vec::new();
    let mut places = Places::default();
    if let Some(path) = file {
        match file_text(path, may_wait) {
            // As a file is for a moment while it is saved: it would take away every session.
            Ok(text) if !may_wait && text.trim().is_empty() => errors.push(ConfigError {
                place: path.display().to_string(),
                text: "it is empty, expected keys; to go on with the defaults, say so in a comment (a line that begins with #)".into(),
            }),
            Ok(text) => {
                let name = path.display().to_string();
                read_file(&mut config, &name, &text, &mut places, &mut errors);
            }
            Err(error) => errors.push(ConfigError {
                place: path.display().to_string(),
                text: format!("cannot be read: {error}"),
            }),
        }
    }
    read_environment(&mut config, environment, &mut places, &mut errors);
    let read = errors.len();
    let place = file.map_or("configuration".into(), |path| path.display().to_string());
    for mut error in judges.iter().flat_map(|judge| judge(&config)) {
        if error.place.is_empty() {
            error.place.clone_from(&place);
        }
        errors.push(error);
    }
    config.check(place, &mut errors);
    for error in &mut errors[read..] {
        places.mend(error);
    }
    errors.sort_by_key(ConfigError::line);
    (config, errors)
}

/// Where a sound configuration sets a key, written `section.key`: a line of the file, or a variable of the environment. `None` where
/// nothing does, or where the file cannot be read again.
#[must_use]
pub fn place_of(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    key: &str,
) -> Option<String> {
    places(file, environment).0.remove(key)
}

/// Puts before each text that begins with a key of a section where the configuration sets that key, as [`place_of`] finds it: of what is
/// told of a file that the key names.
#[must_use]
pub fn placed(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    texts: Vec<String>,
) -> Vec<String> {
    let places = places(file, environment);
    let placed = |text: String| {
        let mut error = ConfigError { place: String::new(), text };
        places.mend(&mut error);
        if error.place.is_empty() { error.text } else { error.to_string() }
    };
    texts.into_iter().map(placed).collect()
}

fn places(file: Option<&Path>, environment: impl Iterator<Item = (String, String)>) -> Places {
    let (mut config, mut places, mut errors) = (Config::default(), Places::default(), Vec::new());
    if let Some(path) = file
        && let Ok(text) = file_text(path, false)
    {
        read_file(&mut config, &path.display().to_string(), &text, &mut places, &mut errors);
    }
    read_environment(&mut config, environment, &mut places, &mut errors);
    places
}

/// Where each key got its value: a line of the file, or a variable of the environment. Keys are written `section.key`.
#[derive(Debug, Default)]
struct Places(std::collections::BTreeMap<String, String>);

impl Places {
    /// Gives an error about a key the place where that key was set, in place of that of the whole configuration.
    fn mend(&self, error: &mut ConfigError) {
        let end = error.text.find(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
        let key = &error.text[..end.unwrap_or(error.text.len())];
        if let Some(place) = self.0.get(key) {
            error.place.clone_from(place);
        }
    }
}

/// What a line of a section sets to a text without quotes: what the key expects, and how a text would be written. `None`: the
/// line is not of this kind.
fn unquoted(section: &str, line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let is_bare = !value.starts_with(['"', '\'', '[', '{']) && !value.contains('"');
    let is_text = value.chars().any(|c| c.is_alphabetic() || ":/".contains(c));
    let sound = format!("x = {value}").parse::<toml::Table>().is_ok();
    if !is_bare || !is_text || sound {
        return None;
    }
    let key = key.trim();
    let (section, name) = key.split_once('.').unwrap_or((section, key));
    if may_be_secret(section, name) {
        return Some(format!("found a value without quotes, expected {key} = \"...\""));
    }
    Some(match bare(section, name) {
        Some((expected, default)) if default.parse::<u64>().is_ok() => {
            let expected = expected.trim_end_matches(", 0 or more");
            format!("found {value}, expected {expected}, such as {default}")
        }
        Some((expected, _)) => format!("found {value}, expected {expected}"),
        None => format!("found {value} without quotes, expected {key} = \"{value}\""),
    })
}

/// The section that a line (from 1) stands in, as far as lines tell; empty before the first.
fn section_at(text: &str, line: usize) -> &str {
    let headers = text.lines().take(line).filter_map(|line| line.trim().strip_prefix('['));
    headers.filter_map(|rest| rest.split(']').next()).last().map_or("", str::trim)
}

/// What the parser says of a key that is set before, without saying which.
const DUPLICATE: &str = "duplicate key";

/// Says of a section that begins twice, or of a key that is set twice, on which line (from 1) the first is, as far as lines tell.
fn twice(text: &str, line: usize, key: &str) -> String {
    let lines: Vec<&str> = text.lines().take(line).map(str::trim).collect();
    let Some((last, before)) = lines.split_last() else { return DUPLICATE.into() };
    let first = |at: Option<usize>| {
        at.map_or(String::new(), |at| format!("; the first is in line {}", at + 1))
    };
    if let Some(section) = header(last) {
        let found = before.iter().position(|line| header(line) == Some(section));
        let other =
            found.and_then(|at| before.get(at)).filter(|other| is_entry(other) != is_entry(last));
        return match other {
            Some(_) => format!(
                "[{section}] stands beside [[{section}]], expected the one or the other{}",
                first(found)
            ),
            None => format!(
                "[{section}] stands twice, expected one, with all of its keys{}",
                first(found)
            ),
        };
    }
    // A section that stands twice is one; each entry of an array is one of its own.
    let from = before.iter().rposition(|line| header(line).is_some());
    let start = from.and_then(|at| before.get(at)).copied().unwrap_or_default();
    let mut section = None;
    let found = before.iter().enumerate().position(|(at, &line)| {
        section = header(line).or(section);
        let is_here = Some(at) > from || (!is_entry(start) && section == header(start));
        is_here && line.split_once('=').is_some_and(|(found, _)| found.trim() == key)
    });
    format!("{key} is set twice, expected one line of it{}", first(found))
}

/// The section or array that begins with a line.
fn header(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('[')?.trim_start_matches('[');
    rest.split(']').next().map(str::trim)
}

fn is_entry(header: &str) -> bool {
    header.starts_with("[[")
}

fn read_file(
    config: &mut Config,
    name: &str,
    text: &str,
    places: &mut Places,
    errors: &mut Vec<ConfigError>,
) {
    // Some editors put a byte-order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let place_of = |offset: usize| format!("{name}:{}", line_of(offset));
    let mut push = |offset: usize, text: String| {
        errors.push(ConfigError { place: place_of(offset), text });
    };
    let (table, faults) = toml::de::DeTable::parse_recoverable(text);
    let mut bare = std::collections::BTreeSet::new();
    for fault in faults {
        let at = fault.span().map_or(0, |span| span.start);
        let line = line_of(at);
        let written = text.lines().nth(line - 1).unwrap_or_default();
        match unquoted(section_at(text, line), written) {
            // One mistake: the parser finds several things wrong with it, and so does the key.
            Some(_) if !bare.insert(line) => {}
            Some(hint) => push(at, hint),
            None if fault.message() == DUPLICATE => {
                let key = fault.span().and_then(|span| text.get(span)).unwrap_or_default().trim();
                push(at, twice(text, line, key));
            }
            None => push(at, fault.message().to_string()),
        }
    }
    for (section, value) in table.get_ref() {
        let (section, at) = (section.get_ref().as_ref(), section.span().start);
        let toml::de::DeValue::Table(keys) = value.get_ref() else {
            push(at, format!("\"{section}\" stands outside a section, expected {}", sections()));
            continue;
        };
        for (key, value) in keys {
            if bare.contains(&line_of(key.span().start)) {
                continue;
            }
            if Arrays::has(section, key.get_ref()) {
                read_array(
                    &mut config.arrays,
                    (section, key.get_ref()),
                    value,
                    &place_of,
                    &mut push,
                );
                continue;
            }
            let written = written(value.get_ref());
            let (name, at) = (format!("{section}.{}", key.get_ref()), key.span().start);
            match config.set(section, key.get_ref(), &written) {
                Ok(()) => _ = places.0.insert(name, place_of(at)),
                Err(text) => push(at, format!("{name}: {text}")),
            }
        }
    }
}

/// Reads the entries of an array of tables.
fn read_array(
    arrays: &mut Arrays,
    (section, array): (&str, &str),
    value: &toml::Spanned<toml::de::DeValue<'_>>,
    place_of: &impl Fn(usize) -> String,
    push: &mut impl FnMut(usize, String),
) {
    use toml::de::DeValue;
    let expected = format!("expected entries that begin with [[{section}.{array}]]");
    let DeValue::Array(entries) = value.get_ref() else {
        let found = written(value.get_ref());
        return push(value.span().start, format!("{section}.{array}: found {found}, {expected}"));
    };
    for entry in entries.iter() {
        let at = entry.span().start;
        let DeValue::Table(keys) = entry.get_ref() else {
            push(at, format!("{section}.{array}: found {}, {expected}", written(entry.get_ref())));
            continue;
        };
        let keys = keys.iter().map(|(key, value)| {
            (key.get_ref().as_ref(), key.span().start, written(value.get_ref()))
        });
        arrays.add((section, array), (at, place_of), keys, push);
    }
}

/// The environment as text. What is no text is no sound value of a key either, and is told as one; elsewhere it does not
/// matter.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |raw: std::ffi::OsString| raw.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// `WEIR_SECTION__KEY` overrides the file.
fn read_environment(
    config: &mut Config,
    environment: impl Iterator<Item = (String, String)>,
    places: &mut Places,
    errors: &mut Vec<ConfigError>,
) {
    for (name, value) in environment {
        let Some(rest) = name.strip_prefix("WEIR_") else { continue };
        let Some((section, key)) = rest.split_once("__") else { continue };
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        match config.set(&section, &key, &Written::Text(value)) {
            Ok(()) => _ = places.0.insert(format!("{section}.{key}"), name),
            Err(text) => errors.push(ConfigError { place: name, text }),
        }
    }
}

impl Config {
    /// What the admin door speaks.
    #[must_use]
    pub fn admin_scheme(&self) -> &'static str {
        if self.admin.tls_cert.is_empty() { "http" } else { "https" }
    }

    /// Whom the doors let in: beyond this machine only those who authenticate. And whether each has an address of its own.
    ///
    /// # Errors
    /// What is open that must not be, and which doors have one address.
    pub fn check_doors(&self) -> Result<(), Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut must = |holds: bool, text: String| {
            if !holds {
                errors.push(ConfigError { place: "doors".into(), text });
            }
        };
        // Each worker listens by itself on each of its doors: the kernel would give one address to two.
        let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
        for door in all_doors() {
            let name = door.name;
            let Some(listen) = (door.listen)(self).address() else {
                let text = format!(
                    "{name}.listen is empty: this door cannot be off, tools and probes ask there"
                );
                must(name != ADMIN.name, text);
                continue;
            };
            must(
                listen.ip().is_loopback() || (door.is_guarded)(self),
                format!(
                    "{name}.listen is {listen}, beyond loopback: set {}, or listen on 127.0.0.1",
                    door.guard
                ),
            );
            let same = |other: &&(&str, SocketAddr)| other.1 == listen && listen.port() != 0;
            if let Some((other, _)) = taken.iter().find(same) {
                must(false, format!("{name}.listen is {listen}, which is {other}.listen, too"));
            }
            taken.push((name, listen));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// The same of the OpenRTB door.
    fn check_openrtb(&self, must: &mut dyn FnMut(bool, String)) {
        let token = &self.openrtb.path_token;
        must(
            token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)),
            "openrtb.path_token: expected letters, digits and -_.~ only: it is a part of an address"
                .into(),
        );
        let url = &self.openrtb.public_url;
        must(
            url.is_empty() || url.starts_with("http://") || url.starts_with("https://"),
            format!("openrtb.public_url: found \"{url}\", expected http://... or https://..."),
        );
        let address = &self.openrtb.click_fallback;
        must(
            address.is_empty() || Redirect::to(address).is_some(),
            format!(
                "openrtb.click_fallback: found \"{address}\", expected http://... or https://..., 1 to 2,048 bytes in all, without blanks"
            ),
        );
        let header = &self.openrtb.address_header;
        must(
            header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            format!(
                "openrtb.address_header: found \"{header}\", expected letters, digits and - only, as in X-Forwarded-For"
            ),
        );
    }

    /// What no single key can tell.
    fn check(&self, place: String, errors: &mut Vec<ConfigError>) {
        errors.extend(self.check_doors().err().unwrap_or_default());
        if let Err(error) = transport_options(self).check() {
            errors.push(ConfigError { place: "transport".into(), text: error.to_string() });
        }
        errors.extend(self.arrays.out_of_range());
        let mut must = |holds: bool, text: String| {
            if !holds {
                errors.push(ConfigError { place: place.clone(), text });
            }
        };
        for text in self.out_of_range() {
            must(false, text);
        }
        for text in all_doors().filter_map(|door| door.check_tls(self)) {
            must(false, text);
        }
        self.check_openrtb(&mut must);
        let url = &self.alerts.url;
        must(
            url.is_empty() || url.starts_with("http://") || url.starts_with("https://"),
            "alerts.url: expected http://... or https://...".into(),
        );
        must(
            url.is_empty() || !self.alerts.secret_file.is_empty(),
            "alerts.secret_file is empty: alerts.url needs a secret that signs what is sent".into(),
        );
        let hosts = [
            ("openrtb", &self.openrtb.hosts),
            ("spend", &self.spend.hosts),
            ("keys", &self.keys.hosts),
        ];
        for (door, hosts) in hosts {
            let hosts = crate::doors::check_hosts(hosts);
            must(hosts.is_ok(), format!("{door}.{}", hosts.err().unwrap_or_default()));
        }
        for text in all_doors().filter_map(|door| door.check_home(self)) {
            must(false, text);
        }
        let (waiting, batch) = (self.spend.calls_waiting_max, self.spend.batch_max);
        must(
            waiting >= batch.into(),
            format!(
                "spend.calls_waiting_max: found {waiting}, expected at least spend.batch_max ({batch}); calls of a larger batch that wait would \
                 always be answered 429"
            ),
        );
        must(
            ["on", "off"].contains(&self.keys.audit.as_str()),
            format!("keys.audit: found \"{}\", expected \"on\" or \"off\"", self.keys.audit),
        );
        must(
            ["error", "warn", "info", "debug", "trace"].contains(&self.log.level.as_str()),
            format!(
                "log.level: found \"{}\", expected error, warn, info, debug or trace",
                self.log.level
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::{EntryPlaces, FixSession};

    fn read(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<ConfigError>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let pairs = environment.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        load(Some(file.path()), pairs, &[])
    }

    #[test]
    fn a_whole_batch_of_the_spend_door_may_wait() {
        let text =
            |waiting: u32| format!("[spend]\ncalls_waiting_max = {waiting}\nbatch_max = 100\n");
        read(&text(100), &[]).unwrap();
        let errors = read(&text(99), &[]).unwrap_err();
        let told: Vec<&str> = errors.iter().map(|error| &*error.text).collect();
        assert!(
            matches!(told[..], [one] if one.contains("spend.calls_waiting_max: found 99") && one.contains("spend.batch_max (100)")),
            "{told:?}"
        );
    }

    #[test]
    fn a_node_that_runs_takes_no_empty_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let again = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            load_again(Some(file.path()), std::iter::empty(), &[])
        };
        let told = again(" \n").unwrap_err();
        assert!(told[0].text.contains("it is empty"), "{}", told[0]);
        again("# all by default\n").unwrap();
        std::fs::write(file.path(), "").unwrap();
        load(Some(file.path()), std::iter::empty(), &[]).unwrap();
    }

    #[test]
    fn the_printed_defaults_read_back() {
        let printed = Config::default().print();
        assert_eq!(read(&printed, &[]).unwrap().print(), printed);
    }

    #[test]
    fn purposes_of_the_tcf_by_table() {
        let read = |text: &str| {
            let file = format!("[openrtb]\ntcf_purposes_ids = \"{text}\"\n");
            read(&file, &[]).map(|config| config.openrtb.tcf_purposes_ids.print())
        };
        assert_eq!(read("1, 7,3").unwrap(), "\"1,3,7\"");
        for wrong in ["", "0", "12", "1,,3", "+1", "1,1", "one", "1;3"] {
            let errors = read(wrong).unwrap_err();
            assert!(errors[0].to_string().contains("expected purposes of the TCF"), "{wrong}");
        }
        assert_eq!(Config::default().openrtb.tcf_purposes_segments.print(), "\"4\"");
    }

    #[test]
    fn every_error_is_told_with_its_line() {
        let text = "[node]\nid = 70000\nname = 1\n[batch]\nlisten = \"nowhere\"\n[nothing]\nx = 1\n[pacing]\ntick_ms = 1\n[[fix.sesion]]\nname = \"A\"\n";
        let errors = read(text, &[("WEIR_LEDGER__HOLD_MS", "soon")]).unwrap_err();
        let errors: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
        for expected in [
            ":2: node.id: found 70000, expected a whole number from 0 to 65535",
            ":3: node.name: there is no key node.name; known here: node.id, node.data_dir",
            ":5: batch.listen: found \"nowhere\", expected an address",
            ":7: nothing.x: there is no key nothing.x",
            "fix.sesion: there is no key fix.sesion; did you mean [[fix.session]]?",
            "WEIR_LEDGER__HOLD_MS: found \"soon\", expected a whole number",
            "pacing.tick_ms: found 1, expected 10 to 10000",
        ] {
            assert!(errors.iter().any(|e| e.contains(expected)), "{expected} not in {errors:#?}");
        }
        let lines = errors.iter().filter_map(|e| e.split(':').nth(1)?.parse().ok());
        assert!(lines.is_sorted_by_key(|line: usize| line), "{errors:#?}");
    }

    #[test]
    fn a_key_that_is_nearly_one_is_told_that_one() {
        for (text, meant) in [
            ("[spend]\nlistn = \"\"\n", "spend.listen"),
            ("[bach]\nlisten = \"\"\n", "batch.listen"),
            ("[journal]\nsegment_byte = 1\n", "journal.segment_bytes"),
        ] {
            let errors = read(text, &[]).unwrap_err();
            assert!(
                errors[0].to_string().ends_with(&format!("; did you mean {meant}?")),
                "{errors:?}"
            );
        }
    }

    #[test]
    fn the_environment_overrides_the_file() {
        let config = read(
            "[node]\nid = 3\n",
            &[("WEIR_NODE__ID", "4"), ("WEIR_BATCH__LISTEN", "127.0.0.1:0")],
        );
        let config = config.unwrap();
        assert_eq!(
            (config.node.id, config.batch.listen.to_string()),
            (4, "127.0.0.1:0".to_string())
        );
    }

    #[test]
    fn beyond_loopback_needs_a_token() {
        let open = "[batch]\nlisten = \"0.0.0.0:7700\"\n";
        assert!(read(open, &[]).unwrap_err()[0].text.contains("set batch.auth_token"));
        assert!(read(&format!("{open}auth_token = \"x\"\n"), &[]).is_ok());
        assert!(read(&format!("{open}tokens_file = \"x\"\n"), &[]).is_ok());
    }

    #[test]
    fn json_has_every_key_and_no_secret() {
        let mut config = Config::default();
        config.batch.auth_token = "sesame".into();
        let json = config.to_json();
        for (section, key) in KEYS {
            assert!(json[section].get(key).is_some(), "{section}.{key}");
        }
        assert!(!json.to_string().contains("sesame"));
        assert_eq!(json["batch"]["auth_token"], "set, hidden");
        assert_eq!(json["openrtb"]["path_token"], "not set");
        assert_eq!((&json["node"]["id"], &json["workers"]["pin"]), (&1.into(), &true.into()));
        assert_eq!(json["openrtb"]["currency"], "USD");
    }

    #[test]
    fn changes_name_the_keys_and_hide_secrets() {
        let before = Config::default();
        let mut after = before.clone();
        assert_eq!(before.changes(&after), []);
        after.ledger.hold_ms = 3_000;
        after.batch.auth_token = "sesame".into();
        after.batch.tokens_file = "tokens".into();
        let change = |key: &str, is_live, from: &str, to: &str| KeyChange {
            key: key.into(),
            is_live,
            from: from.into(),
            to: to.into(),
        };
        let expected = [
            change("batch.auth_token", false, "\"not set\"", "\"set, hidden\""),
            change("batch.tokens_file", true, "\"\"", "\"tokens\""),
            change("ledger.hold_ms", false, "2000", "3000"),
        ];
        assert_eq!(before.changes(&after), expected);
        let mut other = after.clone();
        other.batch.auth_token = "open".into();
        let hidden = change("batch.auth_token", false, "\"set, hidden\"", "\"set, hidden\"");
        assert_eq!(after.changes(&other), [hidden]);
        let session = |name: &str, heart_bt_int_s| FixSession {
            target_comp_id: name.into(),
            heart_bt_int_s,
            ..FixSession::default()
        };
        let mut before = Config::default();
        before.arrays.fix_session = vec![session("A", 30), session("B", 30)];
        let mut after = before.clone();
        after.arrays.fix_session[1] =
            FixSession { places: EntryPlaces::begun_at("weir.toml:9"), ..session("B", 60) };
        let changed = change("fix.session.heart_bt_int_s of B", true, "30", "60");
        assert_eq!(before.changes(&after), [changed], "where it stands is no change");
        after.arrays.fix_session.swap(0, 1);
        assert_eq!(before.changes(&after).len(), 1, "nor is the place among others");
        after.arrays.fix_session[1].name = "C".into();
        after.arrays.fix_session.remove(0);
        let changed = [
            change("fix.session A", true, "there", "not there"),
            change("fix.session B", true, "there", "not there"),
            change("fix.session C", true, "not there", "there"),
        ];
        assert_eq!(before.changes(&after), changed, "another name is another session");
    }

    #[test]
    fn the_admin_door_beyond_loopback_needs_tokens_and_a_certificate_its_key() {
        let open = "[admin]\nlisten = \"0.0.0.0:7780\"\n";
        assert!(read(open, &[]).unwrap_err()[0].text.contains("set admin.tokens_file"));
        assert!(read(&format!("{open}tokens_file = \"tokens\"\n"), &[]).is_ok());
        let half = read("[admin]\ntls_cert = \"a.pem\"\n", &[]).unwrap_err();
        assert!(half[0].text.contains("expected both or none"), "{half:?}");
        let out = read(
            "[admin]\ntick_ms = 10\nlive_max = 0\nlive_rows = 0\n[history]\nkeep_days = 0\n",
            &[],
        );
        assert_eq!(out.unwrap_err().len(), 4);
    }

    #[test]
    fn a_text_without_quotes_is_told_with_how_to_write_it() {
        for (key, value) in [("listen", "127.0.0.1:7700"), ("listen", "localhost:7700")] {
            let errors = read(&format!("[batch]\n{key} = {value} # a remark\n"), &[]).unwrap_err();
            let texts: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
            assert_eq!(
                texts,
                [format!("found {value} without quotes, expected {key} = \"{value}\"")]
            );
            assert!(errors[0].place.ends_with(":2"), "{errors:?}");
        }
        // What may be a secret is not repeated.
        for (section, key) in [("batch", "auth_token"), ("vault", "key_env")] {
            let errors = read(&format!("[{section}]\n{key} = sesame\n"), &[]).unwrap_err();
            let expected = format!("found a value without quotes, expected {key} = \"...\"");
            assert_eq!(errors.iter().map(|error| &error.text).collect::<Vec<_>>(), [&expected]);
        }
        // What is no text has its own words.
        let errors = read("[batch]\nbatch_max = 1_\n", &[]).unwrap_err();
        assert!(errors.iter().all(|error| !error.text.contains("without quotes")), "{errors:?}");
    }

    #[test]
    fn a_word_where_none_belongs_is_told_with_what_the_key_expects() {
        for (section, line, expected) in [
            ("ledger", "win_notices = no", "found no, expected true or false"),
            ("workers", "pin = True", "found True, expected true or false"),
            (
                "ledger",
                "hold_ms = 2s",
                "found 2s, expected a whole number from 80 to 600000, such as 2000",
            ),
            (
                "ledger",
                "late_ms = 3 h",
                "found 3 h, expected a whole number from 0 to 2678400000, such as 3600000",
            ),
            (
                "batch",
                "batch_max = many",
                "found many, expected a whole number from 1 to 1024, such as 1024",
            ),
            (
                "journal",
                "snapshot_bytes = 2s",
                "found 2s, expected a whole number from 1048576 to 1099511627776, such as 268435456",
            ),
            (
                "node",
                "data_dir = /var/weir",
                "found /var/weir without quotes, expected data_dir = \"/var/weir\"",
            ),
        ] {
            let errors =
                read(&format!("[log]\n[{section}]\n{line} # a remark\n"), &[]).unwrap_err();
            let texts: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
            assert_eq!(texts, [expected]);
            assert!(errors[0].place.ends_with(":3"), "{errors:?}");
        }
        let errors = read("workers.pin = no\n", &[]).unwrap_err();
        assert_eq!(errors[0].text, "found no, expected true or false");
    }

    #[test]
    fn what_stands_twice_is_told_with_where_it_is_first() {
        let told = |text: &str| {
            let errors = read(text, &[]).unwrap_err();
            let line = |error: &ConfigError| error.line();
            errors.iter().map(|error| format!("{}: {}", line(error), error.text)).collect()
        };
        let cases: [(&str, &[&str]); 6] = [
            (
                "[fix]\nworker = 0\n[log]\n[fix]\nmessages_keep_days = 9\n",
                &[
                    "4: [fix] stands twice, expected one, with all of its keys; the first is in line 1",
                ],
            ),
            (
                "[log]\n[batch]\nwait_ms = 1\nbatch_max = 1\nwait_ms = 2\n",
                &["5: wait_ms is set twice, expected one line of it; the first is in line 3"],
            ),
            (
                "[spend]\nwait_ms = 1\n[batch]\nwait_ms = 1\n wait_ms = 2\n",
                &["5: wait_ms is set twice, expected one line of it; the first is in line 4"],
            ),
            (
                "[fix]\nworker = 0\n[log]\n[fix]\nworker = 1\n",
                &[
                    "4: [fix] stands twice, expected one, with all of its keys; the first is in line 1",
                    "5: worker is set twice, expected one line of it; the first is in line 2",
                ],
            ),
            (
                "[[fix.venue]]\n[fix.venue]\nname = \"v\"\n",
                &[
                    "2: [fix.venue] stands beside [[fix.venue]], expected the one or the other; the first is in line 1",
                    "2: fix.venue: found a table, expected entries that begin with [[fix.venue]]",
                ],
            ),
            (
                "log.level = \"info\"\n[log]\n",
                &["2: [log] stands twice, expected one, with all of its keys"],
            ),
        ];
        for (text, expected) in cases {
            let told: Vec<String> = told(text);
            assert_eq!(told, expected, "{text}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_read_is_told_with_the_range_of_its_key() {
        for (line, expected) in [
            (
                "[batch]\nbatch_max = -1",
                "batch.batch_max: found -1, expected a whole number from 1 to 1024",
            ),
            (
                "[keys]\nbody_bytes_max = 1.5",
                "keys.body_bytes_max: found a number with a fraction, expected a whole number from 1024 to ",
            ),
            ("[node]\nid = -1", "node.id: found -1, expected a whole number from 0 to 65535"),
            (
                "[[fix.session]]\nheart_bt_int_s = -1",
                "fix.session.heart_bt_int_s: found -1, expected a whole number from 0 to 86400",
            ),
            (
                "[[fix.session]]\nsource_addresses = [\"::1\", 5]",
                "fix.session.source_addresses: found 5 as entry 2 of the list, expected a list of texts",
            ),
            (
                "[[fix.session]]\nsource_addresses = \"::1\"",
                "fix.session.source_addresses: found \"::1\", expected a list of texts",
            ),
        ] {
            let errors = read(line, &[]).unwrap_err();
            let told = errors.iter().find(|error| error.line() == 2).expect("an error of its line");
            assert!(told.text.starts_with(expected), "{errors:#?}");
        }
    }

    #[test]
    fn a_name_of_a_machine_is_refused_with_what_to_write() {
        let errors = read("[batch]\nlisten = \"localhost:7700\"\n", &[]).unwrap_err();
        let text = &errors[0].text;
        assert!(
            text.contains("found \"localhost:7700\"")
                && text.contains("for localhost write 127.0.0.1"),
            "{text}"
        );
        assert!(listen("localhost:1").unwrap_err().contains("for localhost write 127.0.0.1"));
        assert_eq!(listen("127.0.0.1:0").unwrap().address().unwrap().port(), 0);
        assert_eq!(listen("").unwrap().address(), None);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(read("\u{feff}[node]\nid = 3\n", &[]).unwrap().node.id, 3);
    }

    #[test]
    fn broken_toml_is_told_with_its_line() {
        let errors = read("[node]\nid = \n", &[]).unwrap_err();
        assert!(errors[0].place.ends_with(":2"), "{errors:?}");
    }

    /// `weir check --keys` prints it.
    #[test]
    fn the_documentation_has_every_key_as_it_is_defined() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let pages = ["configuration", "entries"].map(|page| format!("{docs}/{page}.md"));
        let page = pages.map(|page| std::fs::read_to_string(page).unwrap()).concat();
        for row in Config::table().lines() {
            assert!(
                page.contains(row),
                "docs/configuration.md or entries.md lacks the row of `weir check --keys`\n{row}"
            );
        }
        let rows = page.lines().filter(|line| {
            let key = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
            key.and_then(|key| key.split_once('.')).is_some_and(|key| KEYS.contains(&key))
        });
        assert_eq!(rows.count(), KEYS.len(), "one row per key");
    }

    #[test]
    fn what_is_wrong_with_a_sound_value_is_told_with_its_line_or_variable() {
        let text = "[batch]\nbatch_max = 0\n[keys]\naudit = \"x\"\n[openrtb]\nclick_fallback = \"javascript:a\"\naddress_header = \"X Y\"\n[[fix.venue]]\nheart_bt_int_s = 90000\n";
        let errors = read(text, &[("WEIR_OPENRTB__FEE_BP", "9001")]).unwrap_err();
        let told = |error: &ConfigError| {
            let place = error.place.rsplit(['/', ':']).next().unwrap_or_default();
            format!("{place} {}", error.text)
        };
        let told: Vec<String> = errors.iter().map(told).collect();
        for expected in [
            "2 batch.batch_max: found 0, expected 1 to 1024",
            "4 keys.audit: found \"x\", expected \"on\" or \"off\"",
            "6 openrtb.click_fallback: found \"javascript:a\", expected http://... or https://..., 1 to 2,048 bytes in all, without blanks",
            "7 openrtb.address_header: found \"X Y\", expected letters, digits and - only, as in X-Forwarded-For",
            "9 fix.venue.heart_bt_int_s: found 90000, expected 1 to 86400",
            "WEIR_OPENRTB__FEE_BP openrtb.fee_bp: found 9001, expected 0 to 9000",
        ] {
            assert!(told.iter().any(|told| told == expected), "{expected:?} in {told:#?}");
        }
        assert_eq!(
            (grouped(7), grouped(1_000), grouped(65_536)),
            ("7".into(), "1,000".into(), "65,536".into())
        );
    }
}
