//! The sessions of the FIX door, as the configuration has them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use door_fix::{
    AddressRange, FixSessions, Limits, PasswordFile, PasswordFileError, Route, SessionKeys,
    SessionSpec, Unaddressed, VenueSpec,
};
use door_transport::Dial;
use door_transport::tls::{ClientOptions, ClientTls, Identity};
use fix_session::Schedule;

use crate::arrays::{Entry, FixSession, FixVenue};
use crate::config::{Config, ConfigError};
use crate::doors::{PEM_BYTES_MAX, fix_connections};

/// Bytes of a file of passwords.
const PASSWORDS_BYTES_MAX: u64 = 4 << 20;

/// Returns the checked sessions of a configuration, clients' and venues'.
///
/// # Errors
/// What is wrong with any of them, with the line of its entry.
pub fn sessions(config: &Config) -> Result<FixSessions, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let arrays = &config.arrays;
    let clients =
        arrays.fix_session.iter().map(|entry| client(config, entry, &mut errors)).collect();
    let venues = arrays.fix_venue.iter().map(|entry| venue(entry, &mut errors)).collect();
    for entry in &arrays.fix_venue {
        addresses(entry, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let sessions = arrays.fix_session.iter().map(|entry| (entry.known_as(), &entry.place));
    let peers = arrays.fix_venue.iter().map(|entry| (entry.known_as(), &entry.place));
    let named: Vec<(String, &String)> =
        sessions.chain(peers).map(|(name, place)| (format!("{name:?}"), place)).collect();
    // Whom an error is about it names: two, where they have one name.
    let told = |error: door_fix::ConfigError| {
        let text = error.to_string();
        let of_it =
            named.iter().filter(|(name, _)| text.contains(name)).map(|(_, place)| &***place);
        let place = of_it.collect::<Vec<_>>().join(", ");
        ConfigError { place, text }
    };
    FixSessions::new(clients, venues).map_err(|errors| errors.into_iter().map(told).collect())
}

/// Returns who may log on with which password, by the number of the session; `None` for one without a file.
///
/// # Errors
/// What cannot be used, with its line; no hash is repeated.
pub fn passwords(config: &Config) -> Result<Vec<Option<PasswordFile>>, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let files = config.arrays.fix_session.iter().map(|entry| {
        let path = Some(entry.password_file.as_str()).filter(|path| !path.is_empty())?;
        let mut told = |text| errors.push(wrong(&entry.place, "session", "password_file", text));
        let read = access::file::read_regular(path.as_ref(), PASSWORDS_BYTES_MAX);
        let bytes = read.map_err(|error| told(format!("{path}: {error}"))).ok()?;
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
        let addresses = addresses(entry, &mut errors);
        let tls = entry.tls.then(|| client_tls(entry)).transpose();
        let tls = tls.map_err(|text| errors.push(wrong(&entry.place, "venue", "tls", text)));
        let limits = Some(fix_connections(config));
        // A venue may take connections and refuse every Logon.
        Dial { tls: tls.ok().flatten(), limits, is_confirmed: true, ..Dial::new(addresses) }
    });
    let dials = dials.collect();
    if errors.is_empty() { Ok(dials) } else { Err(errors) }
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

fn wrong(place: &str, array: &str, key: &str, text: impl Into<String>) -> ConfigError {
    ConfigError { place: place.to_owned(), text: format!("fix.{array}.{key}: {}", text.into()) }
}

/// Says which CompID is missing.
fn check_comp_ids(
    (place, array): (&str, &str),
    (sender, target): (&str, &str),
    errors: &mut Vec<ConfigError>,
) {
    for (key, value) in [("sender_comp_id", sender), ("target_comp_id", target)] {
        if value.is_empty() {
            let text = "is not set, expected a CompID, such as \"GATE\"";
            errors.push(wrong(place, array, key, text));
        }
    }
}

fn schedule_of(
    (place, array): (&str, &str),
    text: &str,
    errors: &mut Vec<ConfigError>,
) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| {
        errors.push(wrong(place, array, "schedule", error.to_string()));
        Schedule::default()
    })
}

/// The keys that both kinds of entries have.
macro_rules! keys {
    ($entry:ident, $array:literal, $errors:ident) => {{
        let at = ($entry.place.as_str(), $array);
        check_comp_ids(at, (&$entry.sender_comp_id, &$entry.target_comp_id), $errors);
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
            schedule: schedule_of(at, &$entry.schedule, $errors),
            throttle_per_s: $entry.throttle_per_s,
            durability: $entry.durability,
            max_latency_s: $entry.max_latency_s,
            validation: $entry.validation,
            body_bytes_max: $entry.body_bytes_max,
            outbound_bytes_max: $entry.outbound_bytes_max,
        }
    }};
}

fn client(config: &Config, entry: &FixSession, errors: &mut Vec<ConfigError>) -> SessionSpec {
    let keys = keys!(entry, "session", errors);
    let mut push = |key, text: String| errors.push(wrong(&entry.place, "session", key, text));
    if entry.limits != "none" {
        let text = "expected \"none\": the gate asks for no money yet, which has to be said";
        push("limits", format!("found {:?}, {text}", entry.limits));
    }
    let venues: Vec<&str> = config.arrays.fix_venue.iter().map(FixVenue::name).collect();
    let route = match entry.route.as_str() {
        "echo" => Route::Echo,
        route => Route::Venue(route.to_owned()),
    };
    if route != Route::Echo && !venues.contains(&entry.route.as_str()) {
        let known = [&venues[..], &["echo"]].concat().join(", ");
        push(
            "route",
            format!(
                "found {:?}, expected the name of a venue or \"echo\"; known here: {known}",
                entry.route
            ),
        );
    }
    let ranges: Vec<Result<AddressRange, _>> =
        entry.source_addresses.iter().map(|text| text.parse()).collect();
    for error in ranges.iter().filter_map(|range| range.as_ref().err()) {
        push("source_addresses", error.to_string());
    }
    let certificate = Some(&entry.certificate_name).filter(|name| !name.is_empty());
    if certificate.is_some() && config.fix.tls_clients.is_empty() {
        push("certificate_name", "no client shows a certificate; set fix.tls_clients".into());
    }
    let mut spec = SessionSpec::new("", "", "");
    (spec.keys, spec.limits, spec.route) = (keys, Some(Limits::None), route);
    spec.source_addresses = ranges.into_iter().flatten().collect();
    spec.certificate_name = certificate.cloned();
    spec.cl_ord_id_prefix.clone_from(&entry.cl_ord_id_prefix);
    spec
}

fn venue(entry: &FixVenue, errors: &mut Vec<ConfigError>) -> VenueSpec {
    let mut spec = VenueSpec::new("", "", "");
    spec.keys = keys!(entry, "venue", errors);
    spec.max_order_age_ms = entry.max_order_age_ms;
    spec.unaddressed = match entry.unaddressed.as_str() {
        "all" => Unaddressed::All,
        name => Unaddressed::Session(name.to_owned()),
    };
    spec
}

fn addresses(entry: &FixVenue, errors: &mut Vec<ConfigError>) -> Vec<SocketAddr> {
    if entry.connect.is_empty() {
        let text = "is not set, expected addresses, such as [\"127.0.0.1:7790\"]";
        errors.push(wrong(&entry.place, "venue", "connect", text));
    }
    let mut found = Vec::new();
    for text in &entry.connect {
        match text.parse() {
            Ok(address) => found.push(address),
            Err(_) => {
                let text = format!(
                    "found {text:?}, expected an address in numbers and a port, such as \"127.0.0.1:7790\""
                );
                errors.push(wrong(&entry.place, "venue", "connect", text));
            }
        }
    }
    found
}

fn client_tls(entry: &FixVenue) -> Result<ClientTls, String> {
    let read = |path: &str| {
        let read = access::file::read_regular(path.as_ref(), PEM_BYTES_MAX);
        read.map_err(|error| format!("{path}: {error}"))
    };
    if entry.tls_ca.is_empty() || entry.tls_cert.is_empty() != entry.tls_key.is_empty() {
        return Err("expected tls_ca with it, and tls_cert and tls_key both or none".into());
    }
    let roots = read(&entry.tls_ca)?;
    let own = match entry.tls_cert.is_empty() {
        true => None,
        false => Some((read(&entry.tls_cert)?, read(&entry.tls_key)?)),
    };
    let identity = own.as_ref().map(|(chain, key)| Identity { chain_pem: chain, key_pem: key });
    let options = ClientOptions { roots_pem: &roots, identity, alpn: &[] };
    let address = entry.connect.first().and_then(|text| text.parse::<SocketAddr>().ok());
    let address = address.map(|address| address.ip().to_string()).unwrap_or_default();
    let name = if entry.tls_name.is_empty() { &address } else { &entry.tls_name };
    ClientTls::new(name, &options).map_err(|error| error.to_string())
}
