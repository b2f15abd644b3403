//! `weir.toml`: every key is defined once, with its default and its meaning; the parser, `weir check`, the
//! environment variables and the printed template all come from that one definition.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use door_transport::cores::CoreList;
use door_transport::{TaskRun, Transport};
use gate_auction::{Conversion, Exclusive, Pricing};
use ledger_journal::Durability;
use money::{CurrencyCode, Unit};

use crate::doors::{all_doors, transport_options};

/// Something wrong with the configuration: where, what was found, what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// `file:line`, the name of an environment variable, or a command line flag.
    pub place: String,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// What a key is set to, as it was written.
#[derive(Clone, Debug)]
enum Written {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Other(&'static str),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Written::Text(text) => write!(f, "\"{text}\""),
            Written::Integer(number) => write!(f, "{number}"),
            Written::Boolean(yes) => write!(f, "{yes}"),
            Written::Other(kind) => write!(f, "a {kind}"),
        }
    }
}

/// A type that a key can have.
trait Value: Sized {
    /// What to write, for errors.
    const EXPECTED: &'static str;
    /// Is it written without quotes, as a number or a boolean?
    const IS_BARE: bool = false;
    fn read(written: &Written) -> Option<Self>;
    fn print(&self) -> String;
}

macro_rules! integer_value {
    ($($type:ty = $expected:literal),*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            const IS_BARE: bool = true;
            fn read(written: &Written) -> Option<Self> {
                match written {
                    Written::Integer(number) => <$type>::try_from(*number).ok(),
                    Written::Text(text) => text.parse().ok(),
                    Written::Boolean(_) | Written::Other(_) => None,
                }
            }
            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_value!(
    u8 = "a whole number from 0 to 255",
    u16 = "a whole number from 0 to 65535",
    u32 = "a whole number from 0 to 4294967295",
    u64 = "a whole number, 0 or more",
    usize = "a whole number, 0 or more"
);

macro_rules! text_value {
    ($($type:ty = $expected:literal),*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn read(written: &Written) -> Option<Self> {
                match written {
                    Written::Text(text) => <$type>::from_str(text).ok(),
                    _ => None,
                }
            }
            fn print(&self) -> String {
                format!("{:?}", self.to_string())
            }
        }
    )*};
}
text_value!(
    String = "text in quotes",
    SocketAddr = "an address as \"127.0.0.1:7700\", in numbers (for localhost write 127.0.0.1 or [::1]); port 0 picks a free one",
    Transport = "\"auto\", \"io_uring\" or \"epoll\"",
    CoreList = "\"auto\" or a list of cores as \"0,2-5\""
);

impl Value for PathBuf {
    const EXPECTED: &'static str = "a path in quotes";
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Text(text) if !text.is_empty() => Some(PathBuf::from(text)),
            _ => None,
        }
    }
    fn print(&self) -> String {
        format!("{:?}", self.display().to_string())
    }
}

macro_rules! word_value {
    ($($type:ty = $expected:literal { $($word:literal = $value:path),* })*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn read(written: &Written) -> Option<Self> {
                match written {
                    $(Written::Text(text) if text == $word => Some($value),)*
                    _ => None,
                }
            }
            fn print(&self) -> String {
                let word = match self { $($value => $word,)* };
                format!("{word:?}")
            }
        }
    )*};
}
/// What pods get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// All impressions of a pod, or none.
    Together,
    /// Each impression by itself.
    Apart,
}

/// What one unit of other currencies is worth in ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(Vec<Conversion>);

impl Rates {
    /// One a currency.
    #[must_use]
    pub fn conversions(&self) -> &[Conversion] {
        &self.0
    }
}

impl Value for Rates {
    const EXPECTED: &'static str = "rates as \"EUR=1.0834,JPY=0.0067\", each above 0 with at most 6 decimals, no currency twice";
    fn read(written: &Written) -> Option<Self> {
        let Written::Text(text) = written else { return None };
        let mut rates: Vec<Conversion> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (code, rate) = part.split_once('=')?;
            let from = CurrencyCode::new(code.trim())?;
            let rate = Unit::parse("USD").ok()?.parse_amount(rate.trim()).ok()?.get();
            if rate <= 0 || rates.iter().any(|other| other.from == from) {
                return None;
            }
            rates.push(Conversion { from, micros_per_unit: rate });
        }
        Some(Rates(rates))
    }
    fn print(&self) -> String {
        let micros = |rate: i64| format!("{}.{:06}", rate / 1_000_000, rate % 1_000_000);
        let rate =
            |rate: &Conversion| format!("{}={}", rate.from.as_str(), micros(rate.micros_per_unit));
        format!("{:?}", self.0.iter().map(rate).collect::<Vec<_>>().join(","))
    }
}

impl Value for CurrencyCode {
    const EXPECTED: &'static str = "three letters of a currency, as \"USD\"";
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Text(text) => CurrencyCode::new(text),
            _ => None,
        }
    }
    fn print(&self) -> String {
        format!("{:?}", self.as_str())
    }
}

fn usd() -> CurrencyCode {
    CurrencyCode::new("USD").expect("a currency")
}

word_value!(
    Pricing = "\"at\", \"first\" or \"second\"" {
        "at" = Pricing::ByAt, "first" = Pricing::First, "second" = Pricing::Second
    }
    Exclusive = "\"no\", \"campaign\" or \"advertiser\"" {
        "no" = Exclusive::No, "campaign" = Exclusive::Campaign, "advertiser" = Exclusive::Advertiser
    }
    Pods = "\"together\" or \"apart\"" { "together" = Pods::Together, "apart" = Pods::Apart }
    TaskRun = "\"defer\" or \"coop\"" { "defer" = TaskRun::Defer, "coop" = TaskRun::Coop }
    Durability = "\"sealed\" or \"os\"" { "sealed" = Durability::Sealed, "os" = Durability::Os }
);

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    const IS_BARE: bool = true;
    fn read(written: &Written) -> Option<Self> {
        match written {
            Written::Boolean(yes) => Some(*yes),
            Written::Text(text) => text.parse().ok(),
            Written::Integer(_) | Written::Other(_) => None,
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

macro_rules! config {
    ($($section:ident ($section_doc:literal) {
        $($key:ident: $type:ty = $default:expr $(=> $secret:ident)?, $doc:literal;)*
    })*) => {
        /// The whole configuration, one field a section of the file.
        #[derive(Clone, Debug, Default)]
        pub struct Config {
            $(#[doc = $section_doc] pub $section: sections::$section,)*
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
        fn bare(section: &str, key: &str) -> Option<(&'static str, String)> {
            match (section, key) {
                $($((stringify!($section), stringify!($key)) => {
                    let default: $type = $default;
                    <$type as Value>::IS_BARE.then(|| (<$type as Value>::EXPECTED, default.print()))
                })*)*
                _ => None,
            }
        }

        impl Config {
            fn set(&mut self, section: &str, key: &str, written: &Written) -> Result<(), String> {
                match (section, key) {
                    $($((stringify!($section), stringify!($key)) => {
                        self.$section.$key = <$type as Value>::read(written)
                            .ok_or_else(|| wrong::<$type>(written))?;
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
                        let secret = stringify!($($secret)?) == "secret";
                        section.insert(stringify!($key).into(), shown(&self.$section.$key, secret));
                    )*
                    all.insert(stringify!($section).into(), section.into());
                )*
                all.into()
            }

            /// The configuration as a file, every key with its meaning.
            pub fn print(&self) -> String {
                let mut text = String::new();
                $(
                    text += &format!("# {}\n[{}]\n", $section_doc.trim(), stringify!($section));
                    $(text += &format!("#{}\n{} = {}\n", $doc, stringify!($key), self.$section.$key.print());)*
                    text += "\n";
                )*
                text
            }
        }
    };
}

config! {
    node ("Who this node is.") {
        id: u16 = 1, " Number of this node in its hold tokens; tokens of other nodes are refused as foreign.";
        data_dir: PathBuf = PathBuf::from("weir-data"), " Folder for what the node keeps: its lock, its addresses and, in `journal`, everything that changed money.";
    }
    workers ("The threads that answer.") {
        cores: CoreList = CoreList::Auto, " One worker for each of these cores: a list as \"0,2-5\", or \"auto\", which leaves some cores to the rest of the node.";
        pin: bool = true, " Pin each worker to its core.";
    }
    transport ("The event loop of the workers.") {
        kind: Transport = Transport::Auto, " \"io_uring\", \"epoll\", or \"auto\": io_uring where the kernel lets us.";
        task_run: TaskRun = TaskRun::Defer, " How io_uring completes operations: \"defer\" (Linux 6.1) or \"coop\".";
        connections_max: usize = 20_000, " Connections of one worker; more are closed at once and counted.";
        output_bytes_max: usize = 1_048_576, " Unsent answers of one connection; above it the connection is not read.";
        output_total_bytes_max: usize = 268_435_456, " Unsent answers of all connections of a worker; above it none is read.";
        idle_ms_max: u64 = 300_000, " A connection without a message for so long is closed, milliseconds.";
        partial_ms_max: u64 = 10_000, " A message must be complete this long after its first byte, milliseconds.";
        stalled_ms_max: u64 = 10_000, " A client that reads nothing of its answers for so long is closed, milliseconds.";
    }
    batch ("The batch door: SBE messages in frames over TCP.") {
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7700)), " Address of the door. Beyond loopback an auth_token or a tokens_file is required.";
        auth_token: String = String::new() => secret, " One key for all clients, said in Hello. Empty, and without a tokens_file: everybody is let in.";
        tokens_file: String = String::new(), " Who may spend: lines of `name spend token [scope,...]`, as `weir token new` makes them; a scope `budget:ID` or `budget:DIGITS*` limits the budgets. Clients say the token in Hello; auth_token lets in beside it.";
        batch_max: u16 = 1024, " Entries a frame may hold, 1 to 1024.";
        frame_bytes_max: u32 = 65_536, " Bytes a frame may have, 4,096 to 1,048,576.";
        resolves_waiting_max: usize = 4_096, " Frames of confirms, settles and releases of one worker that may wait for the bank; more are refused as busy.";
        wait_ms: u64 = 10, " A frame with the flag wait waits at most so long for the bank before it is judged, milliseconds, 0 to 10,000; 0: it does not wait.";
    }
    openrtb ("The OpenRTB door: bid requests and notices over HTTP.") {
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7701)), " Address of the door. Beyond loopback a path_token is required.";
        path_token: String = String::new() => secret, " Bid requests are taken at /openrtb2/bid/TOKEN only; empty: at /openrtb2/bid.";
        public_url: String = String::new(), " What notice addresses begin with, as \"https\" and a host; empty: \"http\" and the door's address.";
        hosts: String = String::new(), " Names by which the door may be called (the Host of requests), separated by commas, beside those of this machine and of public_url. Empty: on loopback those alone, beyond it any.";
        currency: CurrencyCode = usd(), " All campaigns bid in this currency.";
        rates: Rates = Rates::default(), " What one unit of other currencies is worth in ours, for floors and for campaigns whose budgets are in another: \"EUR=1.0834,JPY=0.0067\". A floor in a currency without a rate is met by nobody.";
        fee_bp: u16 = 0, " Floors are net of the exchange's fee, which takes so many basis points of a bid, 0 to 9,000; 0: floors are gross.";
        margin_ms: u64 = 20, " An answer is late this long before tmax has passed, milliseconds: the network's share.";
        tmax_ms: u64 = 200, " tmax of requests that have none, milliseconds, 1 to 60,000.";
        pricing: Pricing = Pricing::ByAt, " Which price is sent: \"at\" (as the request's `at` says), \"first\" (the bid) or \"second\" (the next best of our own campaigns and a millionth).";
        deals_first: bool = true, " A bid with a deal goes before a higher one without.";
        bids_per_impression_max: u16 = 1, " Bids for one impression, 1 to 16: exchanges with private deals may want several.";
        exclusive: Exclusive = Exclusive::No, " Impressions of one request: \"no\" limit, one a \"campaign\", or one an \"advertiser\".";
        pods: Pods = Pods::Together, " Impressions of a video or audio pod: filled \"together\" or not at all (seatbid.group 1), or each for itself, \"apart\".";
        no_bid_body: bool = false, " Answer 200 with a no-bid code instead of 204.";
        gzip_bytes_min: usize = 1_024, " Answers of at least so many bytes are compressed where the client takes it.";
        body_bytes_max: usize = 1_048_576, " Bytes of a request's body, also once unpacked, 1,024 to 16,777,216.";
        notices_waiting_max: usize = 16_384, " Billing, win and loss notices of one worker that may wait to be sealed; more are answered 429, to be sent again.";
        loss_notices: bool = true, " Bids carry an address for loss notices (lurl). false where exchanges send none, or hand it to strangers: then none is carried, and loss notices of earlier bids are taken and release nothing.";
        price_factor_max: u64 = 2, " A billing price above so many times the price we sent is taken for a mistake: the price we sent is booked.";
        survey_every: u64 = 1_024, " One auction in so many also counts for every campaign why it did not bid; 0: none.";
    }
    profiles ("What is known of users: segments and how often they saw what.") {
        memory_bytes_max: usize = 268_435_456, " Memory for profiles, 16 MiB to 1 TiB; users that were not seen for long are left to the disk.";
    }
    admin ("For people and tools: the dashboard, the admin API, counters, balances.") {
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7780)), " Address of the HTTP door. Beyond loopback a tokens_file is required.";
        tokens_file: String = String::new(), " Who may do what: lines of `name role token`, role read or operate, token of 16 characters or more or its sha256:DIGEST; # begins a comment. Empty: everybody on this machine may do everything.";
        tls_cert: String = String::new(), " Certificates of the door, PEM, its own first; with tls_key the door speaks HTTPS. Empty: HTTP.";
        tls_key: String = String::new(), " Key of the certificate, PEM.";
        origins: String = String::new(), " Other pages that may change things and open live streams, as `https://ops.example`, separated by commas.";
        live_max: usize = 200, " Dashboards that may be connected at once, 1 to 10,000.";
        live_rows: usize = 3_000, " Rows that a look tells every dashboard of at most, beside those it shows; more follow in turn. 1 to 1,000,000.";
        tick_ms: u64 = 2_000, " How often all budgets are looked at for the dashboard, milliseconds, 50 to 60,000.";
    }
    history ("What became of each budget minute by minute, for the dashboard's charts.") {
        keep_days: u32 = 7, " Days that it is kept, 1 to 366.";
    }
    budgets ("Where budgets come from.") {
        file: PathBuf = PathBuf::from("budgets.jsonl"), " One budget a line, .jsonl or .csv; taken over again whenever it changes.";
        check_ms: u64 = 500, " How often the file is looked at, milliseconds, 10 or more; it is taken at the second look that finds it unchanged.";
        end_share_max_percent: u8 = 20, " A file that no longer names more than this part of the live budgets is refused, 0 to 100 percent; one budget may always go, all never.";
    }
    ledger ("Holds and purses.") {
        hold_ms: u64 = 2_000, " How long an unconfirmed hold lives at least, milliseconds, 80 to 600,000. Rounded up by at most an eighth.";
        billing_ms: u64 = 3_600_000, " How long a confirmed hold waits for its settlement, milliseconds.";
        win_notices: bool = true, " Whoever wins is confirmed within hold_ms, so that a hold without a word was lost and its money is free again. false where exchanges send no win notices: then such holds are kept until they are reconciled, on budgets whose on_expiry is \"hold\".";
        reconcile_ms: u64 = 172_800_000, " How long after its deadlines a hold can be reconciled by its id, milliseconds; token keys are kept that long.";
        late_ms: u64 = 3_600_000, " How long after that its token is still judged, milliseconds.";
        key_ms: u64 = 86_400_000, " How long a key mints tokens before the next one does, milliseconds; old keys verify until their tokens are too old.";
        refresh_ms: u64 = 200, " A purse should last about this long, milliseconds.";
        remember_max: usize = 65_536, " Answers a worker remembers for frames with the remember flag.";
        grants_max: usize = 4_000_000, " Grants that may be open at once.";
        mark_pages_max: usize = 8_000_000, " Pages of marks of resolved holds: 256 holds and 128 bytes each.";
    }
    journal ("The record of everything that changed money, in the folder `journal` of node.data_dir.") {
        durability: Durability = Durability::Sealed, " When an answer that changed money goes out: \"sealed\", once the disk has its record, or \"os\", once the system has it: then a crash of the system or a power cut loses the last seconds.";
        gather_us: u64 = 1_000, " Least time between the beginnings of two writes, microseconds, 0 to 1,000,000: more gathers meanwhile, and the disk costs less. What comes after a pause is written at once.";
        gather_idle_us: u64 = 5_000, " The same where no client waits for an answer (fillings of purses, holds that lapsed).";
        segment_bytes: u64 = 67_108_864, " Length of a file of the journal, prepared ahead, 4 MiB to 4 GiB.";
        snapshot_bytes: u64 = 268_435_456, " A snapshot is made after so many bytes of records; a start reads the newest one and the records since.";
        unsealed_bytes_max: usize = 67_108_864, " Records that may wait for the disk; above it confirms, settles and releases are refused with `journal`.";
        keep_bytes_max: u64 = 10_737_418_240, " Old files are kept, for exports and audits, up to so many bytes...";
        keep_days_max: u64 = 30, " ...and so many days. What a start needs is always kept.";
    }
    pacing ("The slow loop that steers the plans.") {
        tick_ms: u64 = 200, " How often the parameters of all plans are computed anew, milliseconds, 10 to 10,000.";
    }
    probes ("Where the time of the node's threads goes: `weir costs`.") {
        every: u32 = 64, " One wake-up of a worker in so many is measured, stage by stage, on average; 0: none, and the cost sheet is empty.";
    }
    log ("What the node says.") {
        level: String = "info".into(), " error, warn, info, debug or trace.";
    }
}

/// A key as JSON: text, a number or a boolean; a secret as whether it is set.
fn shown(value: &impl Value, secret: bool) -> serde_json::Value {
    let printed = value.print();
    let shown = serde_json::from_str(&printed).unwrap_or(serde_json::Value::String(printed));
    match secret {
        true if shown == "" => "not set".into(),
        true => "set, hidden".into(),
        false => shown,
    }
}

fn wrong<T: Value>(written: &Written) -> String {
    format!("found {written}, expected {}", T::EXPECTED)
}

fn unknown(section: &str, key: &str) -> String {
    let known = |(s, k): &&(&str, &str)| s == &section || k == &key;
    let near: Vec<String> = KEYS.iter().filter(known).map(|(s, k)| format!("{s}.{k}")).collect();
    let hint = if near.is_empty() { sections() } else { near.join(", ") };
    format!("there is no key {section}.{key}; known here: {hint}")
}

fn sections() -> String {
    let mut sections: Vec<&str> = KEYS.iter().map(|(section, _)| *section).collect();
    sections.dedup();
    format!("the sections {}", sections.join(", "))
}

/// Reads an address of a command line flag.
///
/// # Errors
/// What was expected.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("expected {}", <SocketAddr as Value>::EXPECTED))
}

/// Reads the configuration: defaults, then the file, then the environment. Returns every error at once.
pub fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, Vec<ConfigError>> {
    let mut config = Config::default();
    let mut errors = Vec::new();
    if let Some(path) = file {
        match std::fs::read_to_string(path) {
            Ok(text) => read_file(&mut config, &path.display().to_string(), &text, &mut errors),
            Err(error) => errors.push(ConfigError {
                place: path.display().to_string(),
                text: format!("cannot be read: {error}"),
            }),
        }
    }
    read_environment(&mut config, environment, &mut errors);
    config.check(file, &mut errors);
    if errors.is_empty() { Ok(config) } else { Err(errors) }
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

fn read_file(config: &mut Config, name: &str, text: &str, errors: &mut Vec<ConfigError>) {
    // Some editors put a byte-order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let mut push = |offset: usize, text: String| {
        errors.push(ConfigError { place: format!("{name}:{}", line_of(offset)), text });
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
            let written = written(value.get_ref());
            if let Err(text) = config.set(section, key.get_ref(), &written) {
                push(key.span().start, format!("{section}.{}: {text}", key.get_ref()));
            }
        }
    }
}

fn written(value: &toml::de::DeValue<'_>) -> Written {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
            parsed.map_or(Written::Other("number beyond 64 bits"), Written::Integer)
        }
        DeValue::Float(_) => Written::Other("number with a fraction"),
        DeValue::Boolean(yes) => Written::Boolean(*yes),
        DeValue::Datetime(_) => Written::Other("date"),
        DeValue::Array(_) => Written::Other("list"),
        DeValue::Table(_) => Written::Other("table"),
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
    errors: &mut Vec<ConfigError>,
) {
    for (name, value) in environment {
        let Some(rest) = name.strip_prefix("WEIR_") else { continue };
        let Some((section, key)) = rest.split_once("__") else { continue };
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        if let Err(text) = config.set(&section, &key, &Written::Text(value)) {
            errors.push(ConfigError { place: name, text });
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
            let (name, listen) = (door.name, door.address(self));
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

    /// What no single key can tell.
    fn check(&self, file: Option<&Path>, errors: &mut Vec<ConfigError>) {
        errors.extend(self.check_doors().err().unwrap_or_default());
        if let Err(error) = transport_options(self).check() {
            errors.push(ConfigError { place: "transport".into(), text: error.to_string() });
        }
        let place = file.map_or("configuration".into(), |path| path.display().to_string());
        let mut must = |holds: bool, text: String| {
            if !holds {
                errors.push(ConfigError { place: place.clone(), text });
            }
        };
        let range = |name: &str, value: u64, from: u64, to: u64| {
            (
                (from..=to).contains(&value),
                format!("{name}: found {value}, expected {from} to {to}"),
            )
        };
        for (holds, text) in [
            range("batch.batch_max", self.batch.batch_max.into(), 1, 1024),
            range("batch.frame_bytes_max", self.batch.frame_bytes_max.into(), 4_096, 1_048_576),
            range("budgets.check_ms", self.budgets.check_ms, 10, 3_600_000),
            range(
                "budgets.end_share_max_percent",
                self.budgets.end_share_max_percent.into(),
                0,
                100,
            ),
            range("batch.wait_ms", self.batch.wait_ms, 0, 10_000),
            range("ledger.hold_ms", self.ledger.hold_ms, 80, 600_000),
            range("ledger.billing_ms", self.ledger.billing_ms, 1_000, 31 * 86_400_000),
            range("ledger.late_ms", self.ledger.late_ms, 0, 31 * 86_400_000),
            range("ledger.reconcile_ms", self.ledger.reconcile_ms, 0, 62 * 86_400_000),
            range("ledger.key_ms", self.ledger.key_ms, 1_000, 366 * 86_400_000),
            range("ledger.refresh_ms", self.ledger.refresh_ms, 1, 60_000),
            range("admin.live_max", self.admin.live_max as u64, 1, 10_000),
            range("admin.live_rows", self.admin.live_rows as u64, 1, 1_000_000),
            range("admin.tick_ms", self.admin.tick_ms, 50, 60_000),
            range("history.keep_days", self.history.keep_days.into(), 1, 366),
            range("journal.gather_us", self.journal.gather_us, 0, 1_000_000),
            range("journal.gather_idle_us", self.journal.gather_idle_us, 0, 1_000_000),
            range("journal.segment_bytes", self.journal.segment_bytes, 1 << 22, 1 << 32),
            range("journal.snapshot_bytes", self.journal.snapshot_bytes, 1 << 20, 1 << 40),
            range(
                "journal.unsealed_bytes_max",
                self.journal.unsealed_bytes_max as u64,
                1 << 21,
                1 << 34,
            ),
            range("journal.keep_days_max", self.journal.keep_days_max, 0, 36_500),
            range("pacing.tick_ms", self.pacing.tick_ms, 10, 10_000),
            range("probes.every", self.probes.every.into(), 0, 1_000_000),
            range("openrtb.fee_bp", self.openrtb.fee_bp.into(), 0, 9_000),
            range("openrtb.margin_ms", self.openrtb.margin_ms, 0, 60_000),
            range("openrtb.tmax_ms", self.openrtb.tmax_ms, 1, 60_000),
            range(
                "openrtb.bids_per_impression_max",
                self.openrtb.bids_per_impression_max.into(),
                1,
                16,
            ),
            range("openrtb.body_bytes_max", self.openrtb.body_bytes_max as u64, 1 << 10, 1 << 24),
            range(
                "openrtb.notices_waiting_max",
                self.openrtb.notices_waiting_max as u64,
                1,
                1 << 20,
            ),
            range("openrtb.price_factor_max", self.openrtb.price_factor_max, 1, 1_000_000),
            range(
                "profiles.memory_bytes_max",
                self.profiles.memory_bytes_max as u64,
                1 << 24,
                1 << 40,
            ),
        ] {
            must(holds, text);
        }
        must(
            self.admin.tls_cert.is_empty() == self.admin.tls_key.is_empty(),
            "admin.tls_cert and admin.tls_key: one is set, expected both or none".into(),
        );
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
        let hosts = crate::doors::check_hosts(&self.openrtb.hosts);
        must(hosts.is_ok(), format!("openrtb.{}", hosts.err().unwrap_or_default()));
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

    fn read(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<ConfigError>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let pairs = environment.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        load(Some(file.path()), pairs)
    }

    #[test]
    fn the_printed_defaults_read_back() {
        let printed = Config::default().print();
        assert_eq!(read(&printed, &[]).unwrap().print(), printed);
    }

    #[test]
    fn every_error_is_told_with_its_line() {
        let text = "[node]\nid = 70000\nname = 1\n[batch]\nlisten = \"nowhere\"\n[nothing]\nx = 1\n[pacing]\ntick_ms = 1\n";
        let errors = read(text, &[("WEIR_LEDGER__HOLD_MS", "soon")]).unwrap_err();
        let errors: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
        for expected in [
            ":2: node.id: found 70000, expected a whole number from 0 to 65535",
            ":3: node.name: there is no key node.name; known here: node.id, node.data_dir",
            ":5: batch.listen: found \"nowhere\", expected an address",
            ":7: nothing.x: there is no key nothing.x",
            "WEIR_LEDGER__HOLD_MS: found \"soon\", expected a whole number",
            "pacing.tick_ms: found 1, expected 10 to 10000",
        ] {
            assert!(errors.iter().any(|e| e.contains(expected)), "{expected} not in {errors:#?}");
        }
    }

    #[test]
    fn the_environment_overrides_the_file() {
        let config = read(
            "[node]\nid = 3\n",
            &[("WEIR_NODE__ID", "4"), ("WEIR_BATCH__LISTEN", "127.0.0.1:0")],
        );
        let config = config.unwrap();
        assert_eq!((config.node.id, config.batch.listen.port()), (4, 0));
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
        for (key, value) in
            [("listen", "127.0.0.1:7700"), ("listen", "localhost:7700"), ("auth_token", "sesame")]
        {
            let errors = read(&format!("[batch]\n{key} = {value} # a remark\n"), &[]).unwrap_err();
            let texts: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
            assert_eq!(
                texts,
                [format!("found {value} without quotes, expected {key} = \"{value}\"")]
            );
            assert!(errors[0].place.ends_with(":2"), "{errors:?}");
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
            ("ledger", "hold_ms = 2s", "found 2s, expected a whole number, such as 2000"),
            ("ledger", "late_ms = 3 h", "found 3 h, expected a whole number, such as 3600000"),
            (
                "batch",
                "batch_max = many",
                "found many, expected a whole number from 0 to 65535, such as 1024",
            ),
            (
                "journal",
                "snapshot_bytes = 2s",
                "found 2s, expected a whole number, such as 268435456",
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
    fn a_name_of_a_machine_is_refused_with_what_to_write() {
        let errors = read("[batch]\nlisten = \"localhost:7700\"\n", &[]).unwrap_err();
        let text = &errors[0].text;
        assert!(
            text.contains("found \"localhost:7700\"")
                && text.contains("for localhost write 127.0.0.1"),
            "{text}"
        );
        assert!(address("localhost:1").unwrap_err().contains("for localhost write 127.0.0.1"));
        assert_eq!(address("127.0.0.1:0").map(|address| address.port()), Ok(0));
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
}
