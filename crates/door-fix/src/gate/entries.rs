//! The sessions of the FIX door, as the configuration has them.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::net::SocketAddr;

use crate::exposure::Exposure;
use crate::{
    AddressRange, FixSessions, Limits, PasswordFile, PasswordFileError, Route, SessionKeys,
    SessionSpec, Unaddressed, VenueSpec,
};
use door_transport::Dial;
use door_transport::tls::{ClientOptions, ClientTls, Identity, TlsError};
use fix::Decimal;
use fix_session::Schedule;

use weir_config::arrays::{Entry, EntryPlaces, FixSession, FixVenue};
use weir_config::config::{Config, ConfigError};
use weir_config::doors::{PEM_BYTES_MAX, fix_connections};
use weir_config::paths;

use super::caps::Caps;
use super::credentials;
use super::prices;

/// Bytes of a file of passwords.
const PASSWORDS_BYTES_MAX: u64 = 4 << 20;

/// Returns the checked sessions of a configuration, clients' and venues'.
///
/// # Errors
/// What is wrong with any of them, all at once, each with the line of its key; of a key that is not set, the first line of its entry.
pub fn sessions(config: &Config) -> Result<FixSessions, Vec<ConfigError>> {
    let mut judged = Judged::default();
    for entry in &config.arrays.fix_session {
        let mut faults = EntryFaults::of(entry);
        let spec = client(config, entry, &mut faults);
        judged.client(spec, faults);
    }
    for entry in &config.arrays.fix_venue {
        let mut faults = EntryFaults::of(entry);
        let spec = venue(entry, &mut faults);
        addresses(entry, &mut faults);
        check_tls(entry, &mut faults);
        judged.venue(spec, faults);
    }
    judged.together().map(|sessions| sessions.with_orders_max(config.fix.orders_max))
}

/// Returns what is wrong with the sessions; the files that they name are judged by [`judge_files`].
#[must_use]
pub fn judge(config: &Config) -> Vec<ConfigError> {
    sessions(config).err().unwrap_or_default()
}

/// Returns what is wrong with the files that entries name.
#[must_use]
pub fn judge_files(config: &Config) -> Vec<ConfigError> {
    let passwords = passwords(config).err().into_iter().flatten();
    let dials = dials(config).err().into_iter().flatten();
    passwords.chain(dials).chain(prices::judge(config)).collect()
}

/// What is wrong with the keys of an entry.
struct EntryFaults<'e> {
    array: String,
    places: &'e EntryPlaces,
    /// Keys of which something was told: more of them would be a consequence.
    told: BTreeSet<String>,
    errors: Vec<ConfigError>,
}

impl<'e> EntryFaults<'e> {
    fn of<E: Entry>(entry: &'e E) -> EntryFaults<'e> {
        let array = format!("{}.{}", E::SECTION, E::ARRAY);
        let outside = entry.out_of_range();
        let is_outside = |key: &&str| {
            outside.iter().any(|error| error.text.starts_with(&format!("{array}.{key}:")))
        };
        let keys = E::KEYS.iter().map(|(key, _)| *key);
        let places = entry.places();
        let told = keys.filter(|key| places.is_wrong(key) || is_outside(key)).map(str::to_owned);
        EntryFaults { told: told.collect(), array, places, errors: Vec::new() }
    }

    fn has_told(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.told.contains(*key))
    }

    /// Tells what is wrong with a key, unless that was told when it was read.
    fn push(&mut self, key: &str, text: impl Display) {
        if !self.places.is_wrong(key) {
            self.told.insert(key.to_owned());
            let place = self.places.of(key).to_owned();
            self.errors.push(ConfigError { place, text: format!("{}.{key}: {text}", self.array) });
        }
    }

    /// Tells that a key is needed: that it is not set, or what it is set to.
    fn need(&mut self, key: &str, found: impl Debug, expected: impl Display) {
        match self.places.is_set(key) {
            true => self.push(key, format!("found {found:?}, expected {expected}")),
            false => self.push(key, format!("is not set, expected {expected}")),
        }
    }

    /// The key by which the entry is known.
    fn name_key(&self) -> &'static str {
        if self.places.is_set("name") { "name" } else { "target_comp_id" }
    }
}

/// Entries of both arrays that were judged one by one. What was wrong with one is mended, so that nothing else is hidden by it.
#[derive(Default)]
struct Judged<'e> {
    clients: Vec<SessionSpec>,
    venues: Vec<VenueSpec>,
    /// Of the clients, then of the venues.
    faults: Vec<EntryFaults<'e>>,
}

impl<'e> Judged<'e> {
    fn client(&mut self, mut spec: SessionSpec, mut faults: EntryFaults<'e>) {
        let number = self.faults.len();
        loop {
            let alone = SessionSpec { route: Route::Echo, ..spec.clone() };
            let found = FixSessions::new(vec![alone], Vec::new());
            let Some(key) = told_by_door(found, &mut faults) else { break };
            match key {
                "cl_ord_id_prefix" => spec.cl_ord_id_prefix.clear(),
                key => mend(&mut spec.keys, key, number),
            }
        }
        self.clients.push(spec);
        self.faults.push(faults);
    }

    fn venue(&mut self, mut spec: VenueSpec, mut faults: EntryFaults<'e>) {
        let number = self.faults.len();
        loop {
            let alone = VenueSpec { unaddressed: Unaddressed::All, ..spec.clone() };
            let found = FixSessions::new(Vec::new(), vec![alone]);
            let Some(key) = told_by_door(found, &mut faults) else { break };
            mend(&mut spec.keys, key, number);
        }
        self.venues.push(spec);
        self.faults.push(faults);
    }

    /// Judges what entries say of each other.
    fn together(self) -> Result<FixSessions, Vec<ConfigError>> {
        let Judged { clients, venues, mut faults } = self;
        let names = clients.iter().map(|one| &one.keys).chain(venues.iter().map(|one| &one.keys));
        let names: Vec<String> = names.map(|keys| keys.name.clone()).collect();
        let found = FixSessions::new(clients, venues);
        let told = found.as_ref().err().into_iter().flatten();
        let mut errors: Vec<ConfigError> =
            told.filter_map(|error| of_several(error, &names, &faults)).collect();
        errors.dedup_by(|one, other| one.place == other.place && one.text == other.text);
        errors.splice(0..0, faults.iter_mut().flat_map(|faults| faults.errors.drain(..)));
        let is_told = faults.iter().any(|faults| !faults.told.is_empty());
        match found {
            Ok(sessions) if errors.is_empty() => Ok(sessions),
            // Whatever the door refuses is refused: of an entry that was read without a fault it is told at least so.
            Err(why) if !is_told && errors.is_empty() => Err(why.into_iter().map(bare).collect()),
            _ => Err(errors),
        }
    }
}

fn bare(error: crate::ConfigError) -> ConfigError {
    ConfigError { place: "fix".into(), text: error.to_string() }
}

/// Tells the first value of an entry that the door does not take, and returns its key.
fn told_by_door(
    found: Result<FixSessions, Vec<crate::ConfigError>>,
    faults: &mut EntryFaults<'_>,
) -> Option<&'static str> {
    let value = found.err()?.into_iter().find_map(|error| match error {
        crate::ConfigError::Value { key, found, expected, .. } => Some((key, found, expected)),
        _ => None,
    });
    let (key, found, expected) = value?;
    let of = if key == "name" { faults.name_key() } else { key };
    if !faults.has_told(&[of]) {
        faults.push(of, format!("found {found:?}, expected {expected}"));
    }
    Some(key)
}

/// Gives a key, of which was told what is wrong with it, a value that is taken.
fn mend(keys: &mut SessionKeys, key: &str, number: usize) {
    let sound = VenueSpec::new("FIX.4.4", "-", "-").keys;
    match key {
        // No other entry has this name.
        "name" => keys.name = format!("entry {number} without a name of its own"),
        "begin_string" => keys.begin_string = sound.begin_string,
        "default_appl_ver_id" => keys.default_appl_ver_id = sound.default_appl_ver_id,
        "sender_comp_id" => keys.sender_comp_id = sound.sender_comp_id,
        "target_comp_id" => keys.target_comp_id = sound.target_comp_id,
        _ => keys.body_bytes_max = sound.body_bytes_max,
    }
}

/// Returns what is wrong between entries, with the lines of their keys; `None` where it only follows from what was told of one of them.
fn of_several(
    error: &crate::ConfigError,
    names: &[String],
    faults: &[EntryFaults<'_>],
) -> Option<ConfigError> {
    use crate::ConfigError as Door;
    let named = |wanted: &[&String], array: &str| {
        let is_it =
            |at: &usize| wanted.contains(&&names[*at]) && faults[*at].array.ends_with(array);
        (0..names.len()).filter(is_it).map(|at| &faults[at]).collect::<Vec<_>>()
    };
    let (entries, keys): (_, &[&str]) = match error {
        Door::Name { name } => (named(&[name], ""), &["name", "target_comp_id"]),
        Door::SameLogon { first, second } if first != second => (
            named(&[first, second], "session"),
            &["target_comp_id", "sender_comp_id", "begin_string"],
        ),
        Door::OtherVersion { session, venue, .. } => {
            let both = [named(&[session], "session"), named(&[venue], "venue")];
            (both.concat(), &["begin_string"])
        }
        Door::NoClient { venue, .. } => {
            let unknown = |of: &EntryFaults<'_>| of.has_told(&["name", "target_comp_id", "route"]);
            if faults.iter().any(unknown) {
                return None;
            }
            (named(&[venue], "venue"), &["unaddressed"])
        }
        // Clients with one name, of whom that is told; routes are judged with their clients.
        _ => return None,
    };
    if entries.is_empty() || entries.iter().any(|of| of.has_told(keys)) {
        return None;
    }
    let key_of = |of: &EntryFaults<'_>| match error {
        Door::Name { .. } => of.name_key(),
        _ => keys[0],
    };
    let places = entries.iter().map(|of| of.places.of(key_of(of)));
    let place = places.collect::<Vec<_>>().join(", ");
    Some(ConfigError { place, text: error.to_string() })
}

/// Returns who may log on with which password, by the number of the session; `None` for one without a file.
///
/// # Errors
/// What cannot be used, with its line; no hash is repeated.
pub fn passwords(config: &Config) -> Result<Vec<Option<PasswordFile>>, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let files = config.arrays.fix_session.iter().map(|entry| {
        let path = Some(entry.password_file.as_str()).filter(|path| !path.is_empty())?;
        let mut told = |text| errors.push(wrong(entry, "password_file", text));
        let read = access::file::read_regular(path.as_ref(), PASSWORDS_BYTES_MAX);
        let bytes = read.map_err(|error| told(paths::told(path.as_ref(), &error))).ok()?;
        let text = String::from_utf8(bytes).map_err(|_| told(format!("{path}: no UTF-8"))).ok()?;
        let parsed = PasswordFile::parse(&text);
        let told = |found: Vec<PasswordFileError>| {
            found.iter().for_each(|error| told(format!("{path}:{error}")));
        };
        parsed.map_err(told).ok()
    });
    let files = files.collect();
    if errors.is_empty() { Ok(files) } else { Err(errors) }
}

/// Returns how the venues are reached, in their order in the file; reads the certificates of those with TLS.
///
/// # Errors
/// What cannot be used.
pub fn dials(config: &Config) -> Result<Vec<Dial>, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let dials = config.arrays.fix_venue.iter().map(|entry| {
        let mut faults = EntryFaults::of(entry);
        let addresses = addresses(entry, &mut faults);
        check_tls(entry, &mut faults);
        let tls = entry.tls.then(|| client_tls(entry, &mut faults));
        errors.append(&mut faults.errors);
        // Without its certificates a venue with TLS is not dialled at all.
        let tls = tls.map_or(Some(None), |tls| tls.map(Some))?;
        let limits = Some(fix_connections(config));
        // A venue may take connections and refuse every Logon.
        Some(Dial { tls, limits, is_confirmed: true, ..Dial::new(addresses) })
    });
    // All of them are looked at, whatever is wrong with the first.
    let dials: Vec<Option<Dial>> = dials.collect();
    match dials.into_iter().collect() {
        Some(dials) if errors.is_empty() => Ok(dials),
        _ => Err(errors),
    }
}

/// Returns the names of the sessions and venues that have to log on anew although nothing of their FIX session is another: who may log on
/// is said by another file, or the venue is reached otherwise.
#[must_use]
pub fn to_log_on_anew(before: &Config, after: &Config) -> BTreeSet<String> {
    let (before, after) = (&before.arrays, &after.arrays);
    let sessions = after.fix_session.iter().filter(|one| {
        let mut of_before = before.fix_session.iter().filter(|other| other.name() == one.name());
        of_before.any(|other| other.password_file != one.password_file)
    });
    let venues = after.fix_venue.iter().filter(|one| {
        let mut of_before = before.fix_venue.iter().filter(|other| other.name() == one.name());
        of_before.any(|other| !other.is_reached_as(one))
    });
    sessions.map(FixSession::name).chain(venues.map(FixVenue::name)).map(str::to_owned).collect()
}

fn wrong<E: Entry>(entry: &E, key: &str, text: impl Display) -> ConfigError {
    let text = format!("{}.{}.{key}: {text}", E::SECTION, E::ARRAY);
    ConfigError { place: entry.places().of(key).to_owned(), text }
}

fn schedule_of(text: &str, faults: &mut EntryFaults<'_>) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| {
        faults.push("schedule", error);
        Schedule::default()
    })
}

/// The keys that both kinds of entries have.
macro_rules! keys {
    ($entry:ident, $faults:ident) => {{
        if $entry.sender_comp_id.is_empty() {
            $faults.need("sender_comp_id", "", "a CompID, such as \"GATE\"");
        }
        if $entry.target_comp_id.is_empty() {
            let name = if $entry.name.is_empty() { "; it is the name of the entry, too, as `name` is not set" } else { "" };
            $faults.need("target_comp_id", "", format!("a CompID, such as \"GATE\"{name}"));
        }
        if $entry.next_expected && $entry.begin_string == "FIX.4.2" {
            let text = "found true, expected false: FIX.4.2 has no NextExpectedMsgSeqNum (789), which is there from FIX.4.4 on";
            $faults.push("next_expected", text);
        }
        let name = if $entry.name.is_empty() { &$entry.target_comp_id } else { &$entry.name };
        SessionKeys {
            name: name.clone(),
            begin_string: $entry.begin_string.clone(),
            default_appl_ver_id: $entry.default_appl_ver_id.clone(),
            sender_comp_id: $entry.sender_comp_id.clone(),
            target_comp_id: $entry.target_comp_id.clone(),
            heart_bt_int_s: $entry.heart_bt_int_s,
            reset_on_logon: $entry.reset_on_logon,
            next_expected: $entry.next_expected,
            resend_chunk: $entry.resend_chunk,
            schedule: schedule_of(&$entry.schedule, $faults),
            throttle_per_s: $entry.throttle_per_s,
            durability: $entry.durability,
            max_latency_s: $entry.max_latency_s,
            validation: $entry.validation,
            body_bytes_max: $entry.body_bytes_max,
            outbound_bytes_max: $entry.outbound_bytes_max,
        }
    }};
}

fn client(config: &Config, entry: &FixSession, faults: &mut EntryFaults<'_>) -> SessionSpec {
    let keys = keys!(entry, faults);
    if entry.name() == "all" {
        let text = "found \"all\", expected another name: a venue's unaddressed = \"all\" does not mean one session";
        faults.push(faults.name_key(), text);
    }
    let limits = match entry.limits.as_str() {
        "budgets" => Limits::Budgets,
        _ => Limits::None,
    };
    if limits == Limits::Budgets && entry.route == "echo" {
        faults.push(
            "limits",
            "found \"budgets\", expected \"none\": a session with route = \"echo\" has no orders",
        );
    }
    if !matches!(entry.limits.as_str(), "none" | "budgets") {
        let expected =
            "\"budgets\" to hold orders against budgets, or \"none\", which has to be said";
        faults.need("limits", &entry.limits, expected);
    }
    let venues = &config.arrays.fix_venue;
    let known = venues.iter().map(FixVenue::name).filter(|name| !name.is_empty());
    let known: Vec<&str> = known.collect();
    let route = match entry.route.as_str() {
        "echo" => Route::Echo,
        route => Route::Venue(route.to_owned()),
    };
    // Where a venue's name cannot be read nobody knows whose the route is.
    let are_known = !venues.iter().any(|one| one.places.is_wrong("name") || one.name().is_empty());
    let is_set = !entry.route.is_empty();
    if route != Route::Echo && !known.contains(&&*entry.route) && (are_known || !is_set) {
        let known = [&known[..], &["echo"]].concat().join(", ");
        let expected = format!("the name of a venue or \"echo\"; known here: {known}");
        faults.need("route", &entry.route, expected);
    }
    let ranges: Vec<Result<AddressRange, _>> =
        entry.source_addresses.iter().map(|text| text.parse()).collect();
    for error in ranges.iter().filter_map(|range| range.as_ref().err()) {
        faults.push("source_addresses", error);
    }
    let certificate = Some(&entry.certificate_name).filter(|name| !name.is_empty());
    if certificate.is_some() && config.fix.tls_clients.is_empty() {
        faults.push("certificate_name", "no client shows a certificate; set fix.tls_clients");
    }
    if entry.firm.len() > 64 || !entry.firm.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        let expected = "at most 64 characters of ASCII, without control characters";
        faults.push("firm", format!("found {:?}, expected {expected}", entry.firm));
    }
    if entry.cancel_on_disconnect_s > 0 && entry.route == "echo" {
        let text = "is set, and route is \"echo\": the session has no orders; leave it out";
        faults.push("cancel_on_disconnect_s", text);
    }
    let refuses_sales = judge_unpriced(entry, faults);
    let mut spec = SessionSpec::new("", "", "");
    (spec.keys, spec.limits, spec.route) = (keys, Some(limits), route);
    (spec.unpriced, spec.refuses_sales) = (entry.unpriced.clone(), refuses_sales);
    spec.caps = judge_caps(entry, faults);
    spec.source_addresses = ranges.into_iter().flatten().collect();
    spec.certificate_name = certificate.cloned();
    spec.cl_ord_id_prefix.clone_from(&entry.cl_ord_id_prefix);
    spec.firm.clone_from(&entry.firm);
    spec.cancel_on_disconnect_s = entry.cancel_on_disconnect_s;
    spec.has_passwords = !entry.password_file.is_empty();
    spec
}

/// Judges what one order of a client may be at most.
fn judge_caps(entry: &FixSession, faults: &mut EntryFaults<'_>) -> Caps {
    for key in ["order_value_max", "order_quantity_max", "restricted"] {
        if entry.limits == "none" && faults.places.is_set(key) {
            let text = "is set, and limits is not \"budgets\": no order of the session is judged; set limits = \"budgets\", or leave it out";
            faults.push(key, text);
        }
    }
    let mut number = |key, text: &str| {
        let number = Decimal::parse(text.as_bytes()).ok().filter(|number| number.mantissa() > 0);
        if number.is_none() && !text.is_empty() {
            let expected = "a decimal number above 0 with at most 18 digits, such as \"250000.50\"";
            faults.push(key, format!("found {text:?}, expected {expected}"));
        }
        number
    };
    let value_max = number("order_value_max", &entry.order_value_max);
    let quantity_max = number("order_quantity_max", &entry.order_quantity_max);
    let is_symbol = |text: &&String| text.is_empty() || text.contains(char::is_control);
    if let Some(text) = entry.restricted.iter().find(is_symbol) {
        let expected = "values of Symbol (55) or SecurityID (48)";
        faults.push("restricted", format!("found {text:?}, expected {expected}"));
    }
    Caps { value_max, quantity_max, restricted: entry.restricted.clone() }
}

/// Judges what a client may send that has no price here. Returns whether sales without a reference price are refused.
fn judge_unpriced(entry: &FixSession, faults: &mut EntryFaults<'_>) -> bool {
    for key in ["unpriced", "sell_without_reference"] {
        if entry.limits == "none" && faults.places.is_set(key) {
            faults.push(key, "is set, and limits is not \"budgets\": nothing is refused for want of a price; leave it out");
            return false;
        }
    }
    let is_priced = |name: &&String| Exposure::of(name.as_bytes()) != Exposure::Unpriced;
    if let Some(name) = entry.unpriced.iter().find(is_priced) {
        let expected = "message types that may cost money at no price that is known here, such as E, s, t, AB, AC, i, S, AJ, J, AE, n, or one beginning with U";
        faults.push("unpriced", format!("found {name:?}, expected {expected}"));
    }
    let refuses = entry.sell_without_reference == "refuse";
    if !refuses && entry.sell_without_reference != "limit" {
        let found = &entry.sell_without_reference;
        let text = format!("found {found:?}, expected \"limit\" or \"refuse\"");
        faults.push("sell_without_reference", text);
    }
    refuses
}

fn venue(entry: &FixVenue, faults: &mut EntryFaults<'_>) -> VenueSpec {
    let mut spec = VenueSpec::new("", "", "");
    spec.keys = keys!(entry, faults);
    if entry.name() == "echo" {
        let text = "found \"echo\", expected another name: a session with route = \"echo\" gets its messages back, and none could reach this venue";
        faults.push(faults.name_key(), text);
    }
    let (credentials, wrong) = credentials::read(&entry.username, &entry.password_file);
    wrong.into_iter().for_each(|(key, why)| faults.push(key, why));
    spec.credentials = credentials;
    spec.max_order_age_ms = entry.max_order_age_ms;
    spec.unaddressed = match entry.unaddressed.as_str() {
        "all" => Unaddressed::All,
        name => Unaddressed::Session(name.to_owned()),
    };
    spec
}

fn addresses(entry: &FixVenue, faults: &mut EntryFaults<'_>) -> Vec<SocketAddr> {
    if entry.connect.is_empty() {
        faults.need("connect", &entry.connect, "addresses, such as [\"127.0.0.1:7790\"]");
    }
    let mut found = Vec::new();
    for text in &entry.connect {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => found.push(address),
            _ => faults.push(
                "connect",
                format!(
                    "found {text:?}, expected an address in numbers and a port from 1 to 65535, such as \"127.0.0.1:7790\""
                ),
            ),
        }
    }
    found
}

/// Tells which of a venue's keys for TLS do not go together: who names a certificate believes that the connection is encrypted.
fn check_tls(entry: &FixVenue, faults: &mut EntryFaults<'_>) {
    let keys = [
        ("tls_ca", &entry.tls_ca),
        ("tls_name", &entry.tls_name),
        ("tls_cert", &entry.tls_cert),
        ("tls_key", &entry.tls_key),
    ];
    if !entry.tls {
        let set = keys.iter().filter(|(_, value)| !value.is_empty());
        for (key, _) in set.filter(|_| !faults.places.is_wrong("tls")) {
            faults.push(key, format!("is set, and tls is not true: the venue would be dialled in clear text; set tls = true, or leave {key} out"));
        }
        return;
    }
    if entry.tls_ca.is_empty() {
        faults.need(
            "tls_ca",
            &entry.tls_ca,
            "with tls = true a file of certificates in PEM: who signs the venue's",
        );
    }
    let (set, missing) = match (entry.tls_cert.is_empty(), entry.tls_key.is_empty()) {
        (false, true) => ("tls_cert", "tls_key"),
        (true, false) => ("tls_key", "tls_cert"),
        _ => return,
    };
    if !faults.has_told(&[missing]) {
        faults.push(set, format!("is set, and {missing} is not: set both, or none"));
    }
}

/// Reads the certificates of a venue. `None` where something is wrong with them, which is told of each.
fn client_tls(entry: &FixVenue, faults: &mut EntryFaults<'_>) -> Option<ClientTls> {
    let mut read = |key: &str, path: &str| {
        let path = Some(path).filter(|path| !path.is_empty())?;
        let read = access::file::read_regular(path.as_ref(), PEM_BYTES_MAX);
        read.map_err(|error| faults.push(key, paths::told(path.as_ref(), &error))).ok()
    };
    let roots = read("tls_ca", &entry.tls_ca);
    let own = (read("tls_cert", &entry.tls_cert), read("tls_key", &entry.tls_key));
    if faults.has_told(&["tls_ca", "tls_cert", "tls_key"]) {
        return None;
    }
    let identity = match &own {
        (Some(chain), Some(key)) => Some(Identity { chain_pem: chain, key_pem: key }),
        _ => None,
    };
    let options = ClientOptions { roots_pem: roots.as_ref()?, identity, alpn: &[] };
    let address = entry.connect.first().and_then(|text| text.parse::<SocketAddr>().ok());
    let address = address.map(|address| address.ip().to_string()).unwrap_or_default();
    let name = if entry.tls_name.is_empty() { &address } else { &entry.tls_name };
    if name.is_empty() {
        // There is no address, which was told.
        return None;
    }
    let made = ClientTls::new(name, &options);
    made.map_err(|error| faults.push(key_of(&error), error)).ok()
}

/// The key of a venue that names what cannot be used.
fn key_of(error: &TlsError) -> &'static str {
    match error {
        TlsError::Name { .. } => "tls_name",
        TlsError::Roots(_) | TlsError::Root(_) => "tls_ca",
        TlsError::Pem { what: "roots", .. } | TlsError::Empty { what: "roots" } => "tls_ca",
        TlsError::Pem { what: "private key", .. } => "tls_key",
        TlsError::Pem { .. } | TlsError::Empty { .. } | TlsError::Pair(_) => "tls_cert",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::config;

    /// Returns what is told of a file, each with its lines in place of its name.
    fn told(text: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let name = format!("{}:", file.path().display());
        let found = config::load(Some(file.path()), std::iter::empty(), &[judge]);
        let found = found.err().unwrap_or_default();
        found.iter().map(|error| error.to_string().replace(&name, "")).collect()
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_with_the_line_of_its_key() {
        let text = [
            "[[fix.session]]", // 1
            "name = \"a\"",
            "begin_string = \"FIX44\"",
            "default_appl_ver_id = \"8\"",
            "sender_comp_id = \"\"", // 5
            "TargetCompId = \"C\"",
            "limits = \"some\"",
            "route = \"v\"",
            "route = \"echo\"",
            "body_bytes_max = 0", // 10
            "cl_ord_id_prefix = \"a\\tb\"",
            "schedule = \"sometimes\"",
            "[[fix.session]]",
            "sender_comp_id = \"G\"",
            "target_comp_id = \"C\"", // 15
            "[[fix.session]]",
            "sender_comp_id = \"G\"",
            "target_comp_id = \"D\"",
            "limits = \"none\"",
            "route = \"w\"", // 20
            "[[fix.venue]]",
            "name = \"w\"",
            "sender_comp_id = \"G\"",
            "target_comp_id = \"V\"",
            "begin_string = \"FIX.4.2\"", // 25
            "conect = [\"127.0.0.1:1\"]",
            "unaddressed = \"E\"",
            "[[fix.venue]]",
            "name = \"C\"",
            "sender_comp_id = 7", // 30
            "target_comp_id = \"V\"",
        ];
        let expected = [
            "3: fix.session.begin_string: found \"FIX44\", expected FIX.4.2, FIX.4.4 or FIXT.1.1",
            "4: fix.session.default_appl_ver_id: found \"8\", expected 9 or FIX.5.0SP2",
            "5: fix.session.sender_comp_id: found \"\", expected a CompID, such as \"GATE\"",
            "6: fix.session.TargetCompId: there is no such key; did you mean target_comp_id?",
            "7: fix.session.limits: found \"some\", expected \"budgets\" to hold orders against budgets, or \"none\", which has to be said",
            "8: fix.session.route: found \"v\", expected the name of a venue or \"echo\"; known here: w, C, echo",
            "9: route is set twice, expected one line of it",
            "10: fix.session.body_bytes_max: found 0, expected 64 to 16777216",
            "11: fix.session.cl_ord_id_prefix: found \"a\\tb\", expected at most 32 characters, none of them a control character",
            "12: fix.session.schedule: ",
            "13: fix.session.limits: is not set, expected \"budgets\" to hold orders against budgets, or \"none\", which has to be said",
            "13: fix.session.route: is not set, expected the name of a venue or \"echo\"; known here: w, C, echo",
            "26: fix.venue.conect: there is no such key; did you mean connect?",
            "28: fix.venue.connect: is not set, expected addresses, such as [\"127.0.0.1:7790\"]",
            "15, 29: two sessions are called \"C\"; give one of them another `name`",
            "30: fix.venue.sender_comp_id: found 7, expected text in quotes",
        ];
        let told = told(&text.join("\n"));
        let other = "session \"D\" speaks FIX.4.4 and venue \"w\" FIX.4.2";
        let (versions, told): (Vec<_>, Vec<_>) =
            told.into_iter().partition(|told| told.contains(other));
        assert_eq!(versions.len(), 1, "{versions:?}");
        assert!(versions[0].starts_with("16, 25: "), "{versions:?}");
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.starts_with(expected), "{told}\n{expected}");
        }
    }

    #[test]
    fn what_follows_from_another_error_is_not_told() {
        let venue = "[[fix.venue]]\nname = \"v\"\nsender_comp_id = \"G\"\ntarget_comp_id = \"V\"\nconnect = [\"127.0.0.1:1\"]\n";
        let client = "[[fix.session]]\nsender_comp_id = \"G\"\ntarget_comp_id = \"C\"\nlimits = \"none\"\nroute = \"v\"\n";
        assert_eq!(told(&format!("{venue}{client}")), [""; 0]);
        for (from, to, expected) in [
            ("name = \"v\"", "name = 1", "2: fix.venue.name: found 1, expected text in quotes"),
            ("target_comp_id = \"C\"", "target_comp_id = 1", "8: fix.session.target_comp_id: "),
            (
                "route = \"v\"",
                "route = \"v\"\nfirm = \"\u{e9}\"",
                "11: fix.session.firm: found \"\u{e9}\", expected at most 64",
            ),
            ("name = \"v\"\n", "nam = \"v\"\n", "2: fix.venue.nam: there is no such key; did"),
            (
                "limits = \"none\"\nroute = \"v\"",
                "limits = \"budgets\"\nroute = \"echo\"",
                "9: fix.session.limits: found \"budgets\", expected \"none\": a session",
            ),
            (
                "limits = \"none\"",
                "limits = \"budgets\"\nunpriced = [\"U1\", \"D\"]",
                "10: fix.session.unpriced: found \"D\", expected message types that may cost money",
            ),
            (
                "limits = \"none\"",
                "limits = \"budgets\"\nsell_without_reference = \"pass\"",
                "10: fix.session.sell_without_reference: found \"pass\", expected \"limit\" or",
            ),
            (
                "limits = \"none\"",
                "limits = \"none\"\nunpriced = [\"E\"]",
                "10: fix.session.unpriced: is set, and limits is not \"budgets\"",
            ),
            (
                "limits = \"none\"",
                "limits = \"none\"\norder_value_max = \"5\"",
                "10: fix.session.order_value_max: is set, and limits is not \"budgets\"",
            ),
            (
                "limits = \"none\"",
                "limits = \"budgets\"\norder_quantity_max = \"0\"",
                "10: fix.session.order_quantity_max: found \"0\", expected a decimal number above 0",
            ),
            (
                "limits = \"none\"",
                "limits = \"budgets\"\nrestricted = [\"X\", \"\"]",
                "10: fix.session.restricted: found \"\", expected values of Symbol",
            ),
            ("route", "rout", "10: fix.session.rout: there is no such key; did you mean route?"),
        ] {
            let found = told(&format!("{venue}{client}").replace(from, to));
            assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{found:#?}");
        }
        let twice = told(&format!("{venue}{client}{client}"));
        assert_eq!(
            twice,
            ["8, 13: two sessions are called \"C\"; give one of them another `name`"]
        );
        let nobody = venue.replace("name", "unaddressed = \"D\"\nname");
        let found = told(&format!("{nobody}{client}"));
        assert!(found[0].starts_with("2: venue \"v\": unaddressed is \"D\""), "{found:?}");
        let named = client.replace("sender", "name = \"D\"\nsender");
        let found = told(&format!("{venue}{client}{named}"));
        assert!(found[0].starts_with("8, 14: the sessions \"C\" and \"D\" have"), "{found:?}");
    }

    #[test]
    fn two_sessions_of_one_name_are_told_with_both_lines() {
        let venue = "[[fix.venue]]\nname = \"V\"\nsender_comp_id = \"G\"\ntarget_comp_id = \"T\"\nconnect = [\"127.0.0.1:1\"]\n";
        let found = told(&venue.repeat(2));
        let both = "2, 7: two sessions are called \"V\"";
        assert!(found.iter().any(|told| told.starts_with(both)), "{found:#?}");
    }

    /// A venue and its client; further lines of either.
    fn gate(venue: &str, client: &str) -> String {
        format!(
            "[[fix.venue]]\nname = \"v\"\nsender_comp_id = \"G\"\ntarget_comp_id = \"V\"\nconnect = [\"127.0.0.1:1\"]\n{venue}\
             [[fix.session]]\nsender_comp_id = \"G\"\ntarget_comp_id = \"C\"\nlimits = \"none\"\nroute = \"v\"\n{client}"
        )
    }

    #[test]
    fn how_long_a_client_may_be_away_is_judged() {
        for (route, seconds, expected) in [
            ("v", "86400", ""),
            ("v", "86401", "found 86401, expected"),
            ("v", "-1", "found -1, expected"),
            ("echo", "0", ""),
            ("echo", "5", "is set, and route is \"echo\""),
        ] {
            let key = format!("cancel_on_disconnect_s = {seconds}\n");
            let found =
                told(&gate("", &key).replace("route = \"v\"", &format!("route = {route:?}")));
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
            let expected = format!("11: fix.session.cancel_on_disconnect_s: {expected}");
            assert!(found.iter().all(|one| one.starts_with(&expected)), "{found:?}");
        }
    }

    #[test]
    fn keys_of_tls_that_would_leave_a_venue_in_clear_text_are_told() {
        for key in ["tls_ca", "tls_name", "tls_cert", "tls_key"] {
            let expected = format!(
                "6: fix.venue.{key}: is set, and tls is not true: the venue would be dialled in clear text; set tls = true, or leave {key} out"
            );
            for tls in ["", "tls = false\n"] {
                let found = told(&gate(&format!("{key} = \"x\"\n{tls}"), ""));
                assert_eq!(found, [expected.as_str()], "{tls}");
            }
        }
        let found = told(&gate("tls_ca = \"x\"\ntls = \"yes\"\n", ""));
        assert!(matches!(&found[..], [one] if one.starts_with("7: fix.venue.tls: ")), "{found:?}");
        assert_eq!(told(&gate("tls_ca = \"\"\ntls_name = \"\"\n", "")), [""; 0]);
        for (venue, expected) in [
            ("tls = true\n", "1: fix.venue.tls_ca: is not set, expected with tls = true a file"),
            (
                "tls = true\ntls_ca = \"x\"\ntls_cert = \"y\"\n",
                "8: fix.venue.tls_cert: is set, and tls_key is not: set both, or none",
            ),
            (
                "tls = true\ntls_ca = \"x\"\ntls_key = \"y\"\n",
                "8: fix.venue.tls_key: is set, and tls_cert is not: set both, or none",
            ),
            (
                "tls = true\ntls_ca = \"x\"\ntls_key = \"y\"\ntls_crt = \"z\"\n",
                "9: fix.venue.tls_crt: there is no such key; did you mean tls_cert?",
            ),
        ] {
            let found = told(&gate(venue, ""));
            assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{found:#?}");
        }
    }

    #[test]
    fn each_file_of_a_venues_tls_is_told_at_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        let told = |keys: &str| {
            let file = folder.path().join("weir.toml");
            std::fs::write(&file, gate(keys, "")).unwrap();
            let config = config::load(Some(&file), std::iter::empty(), &[judge]).unwrap();
            let told = dials(&config).unwrap_err().into_iter();
            let name = format!("{}:", file.display());
            told.map(|error| error.to_string().replace(&name, "")).collect::<Vec<_>>()
        };
        let missing = told(
            "tls_ca = \"/no/ca\"\ntls_cert = \"/no/cert\"\ntls_key = \"/no/key\"\ntls = true\n",
        );
        assert_eq!(missing.len(), 3, "{missing:#?}");
        for (told, expected) in missing.iter().zip([
            "6: fix.venue.tls_ca: /no/ca: ",
            "7: fix.venue.tls_cert: /no/cert: ",
            "8: fix.venue.tls_key: /no/key: ",
        ]) {
            assert!(told.starts_with(expected), "{told}");
        }
        let roots = told(&format!("tls = true\ntls_ca = {:?}\n", empty.to_str().unwrap()));
        assert_eq!(
            roots,
            ["7: fix.venue.tls_ca: roots: no certificate; expected at least one in PEM"]
        );
    }

    #[test]
    fn what_would_be_without_effect_is_told() {
        let venue =
            gate("", "").replace("name = \"v\"", "name = \"echo\"").replace("\"v\"", "\"echo\"");
        let found = told(&venue);
        assert!(
            matches!(&found[..], [one] if one.starts_with("2: fix.venue.name: found \"echo\", expected another name")),
            "{found:#?}"
        );
        let found = told(&gate("", "").replace("\"C\"", "\"all\""));
        assert!(
            matches!(&found[..], [one] if one.starts_with("8: fix.session.target_comp_id: found \"all\", expected another name")),
            "{found:#?}"
        );
        let old = "begin_string = \"FIX.4.2\"\n";
        let next = format!("{old}next_expected = true\n");
        let found = told(&gate(&next, &next));
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(
            found[0].starts_with(
                "7: fix.venue.next_expected: found true, expected false: FIX.4.2 has no"
            ),
            "{found:#?}"
        );
        assert!(found[1].starts_with("14: fix.session.next_expected: "), "{found:#?}");
        assert_eq!(told(&gate("next_expected = true\n", "")), [""; 0]);
        let found = told(&gate("", "").replace("127.0.0.1:1", "127.0.0.1:0"));
        assert_eq!(
            found,
            [
                "5: fix.venue.connect: found \"127.0.0.1:0\", expected an address in numbers and a port from 1 to 65535, such as \"127.0.0.1:7790\""
            ]
        );
    }

    #[test]
    fn a_mistyped_key_beside_the_right_one_hides_nothing_of_it() {
        let found = told(&gate("conect = [\"127.0.0.1:2\"]\n", ""));
        assert_eq!(
            found,
            [
                "6: fix.venue.conect: there is no such key; did you mean connect? It is set beside this one; leave this one out."
            ]
        );
        let both = gate("conect = [\"127.0.0.1:2\"]\n", "").replace("127.0.0.1:1", "venue:1");
        let found = told(&both);
        assert!(
            found.len() == 2 && found[0].starts_with("5: fix.venue.connect: found \"venue:1\""),
            "{found:#?}"
        );
    }

    #[test]
    fn a_venue_without_a_name_is_told_with_its_line_and_what_is_missing() {
        let nameless =
            gate("", "").replace("name = \"v\"\n", "").replace("target_comp_id = \"V\"\n", "");
        let expected = "1: fix.venue.target_comp_id: is not set, expected a CompID, such as \"GATE\"; it is the name of the entry, too, as `name` is not set";
        assert_eq!(told(&nameless), [expected]);
    }

    #[test]
    fn a_session_with_a_password_file_takes_user_and_password_of_any_version() {
        let config = Config::default();
        let of = |password_file: &str| {
            let entry = FixSession { password_file: password_file.into(), ..Default::default() };
            client(&config, &entry, &mut EntryFaults::of(&entry)).has_passwords
        };
        assert!(of("fix-passwords") && !of(""));
    }
}
