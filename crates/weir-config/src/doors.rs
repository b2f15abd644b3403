//! What the configuration comes to for the doors: the options of the event loops, the limits of HTTP, and the names by which
//! the doors of HTTP may be called. The check of a configuration asks the same functions as the start of a node.

use std::net::SocketAddr;

use access::{BadHost, HostGuard, Role, without_port};
use door_transport::cores::CoreList;
use door_transport::tls::{ClientCertificates, Identity, ServerOptions};
use door_transport::{Limits as ConnectionLimits, Options as TransportOptions};

use crate::arrays::FixSession;
use crate::config::{Config, Home};
use crate::listen::Listen;
use crate::paths::told;
use crate::values::Value;

/// Bytes of a request's head; the body comes on top.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Messages of the largest size that a worker has room for while they arrive.
const LARGEST_AT_ONCE: usize = 4;
/// What a FIX message has beside the bytes that its BodyLength counts, at most: BeginString, BodyLength, CheckSum.
const FIX_FRAME_BYTES: usize = 64;

/// A door, as configuration and command line know it.
#[derive(Clone, Copy, Debug)]
pub struct DoorSpec {
    /// Its name: of its section in the configuration, of its flag, in `addresses.json`, of its line when a node starts.
    pub name: &'static str,
    /// What the door is called in help texts.
    pub title: &'static str,
    /// Where it listens, as it is configured.
    pub listen: fn(&Config) -> Listen,
    /// Sets where it listens.
    pub set_listen: fn(&mut Config, Listen),
    /// The worker that has the door; `None`: all have it.
    pub home: Option<fn(&Config) -> Home>,
    /// The node starts without the door where the address that it has by default is taken.
    pub may_be_missed: bool,
    /// Its file of access tokens; `None`: it has none.
    pub tokens: Option<TokensKey>,
    /// The keys without which it may listen on loopback only.
    pub guard: &'static str,
    /// Is as much of them set as it takes?
    pub is_guarded: fn(&Config) -> bool,
    /// Messages of one worker that may wait for the bank.
    pub waiting_max: fn(&Config) -> usize,
    /// The limits of its connections.
    pub limits: fn(&Config) -> ConnectionLimits,
    /// The files of its TLS.
    pub tls: fn(&Config) -> TlsFiles<'_>,
    /// The protocols that it offers by ALPN, the preferred one first; none = ALPN is not used.
    pub alpn: &'static [&'static [u8]],
}

/// The key of a door's file of access tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokensKey {
    /// The key: `SECTION.tokens_file`.
    pub key: &'static str,
    /// The path that is configured; empty: there is no file.
    pub path: fn(&Config) -> &str,
    /// The roles that the door lets in.
    pub roles: &'static [Role],
}

/// The paths of a door's certificates; an empty one is not set.
#[derive(Clone, Copy, Debug)]
pub struct TlsFiles<'a> {
    /// `tls_cert`: its own certificate, and those that signed it.
    pub cert: &'a str,
    /// `tls_key`: the key of its certificate.
    pub key: &'a str,
    /// `tls_clients`: who signs the certificates that clients must show.
    pub clients: &'a str,
}

/// What those files hold.
#[derive(Debug)]
pub struct TlsTexts {
    cert: Vec<u8>,
    key: Vec<u8>,
    clients: Option<Vec<u8>>,
    alpn: &'static [&'static [u8]],
}

impl TlsTexts {
    /// Must clients show a certificate?
    #[must_use]
    pub fn asks_clients(&self) -> bool {
        self.clients.is_some()
    }

    /// What the TLS of the door is made of.
    #[must_use]
    pub fn options(&self) -> ServerOptions<'_> {
        ServerOptions {
            identity: Identity { chain_pem: &self.cert, key_pem: &self.key },
            clients: self
                .clients
                .as_deref()
                .map_or(ClientCertificates::None, ClientCertificates::Required),
            alpn: self.alpn,
        }
    }
}

/// Bytes of a file of certificates or of a key at most: all roots of a system together have a quarter of it.
pub const PEM_BYTES_MAX: u64 = 1 << 20;

impl DoorSpec {
    /// Reads the files of its TLS; `None` where none is configured.
    ///
    /// # Errors
    /// Which files cannot be read, each with its key.
    pub fn read_tls(&self, config: &Config) -> Result<Option<TlsTexts>, Vec<String>> {
        let TlsFiles { cert, key, clients } = (self.tls)(config);
        if cert.is_empty() || key.is_empty() {
            return Ok(None);
        }
        let mut errors = Vec::new();
        let mut read = |name: &str, path: &str| {
            let told = |error| format!("{}.{name} {}", self.name, told(path.as_ref(), &error));
            let read = access::file::read_regular(path.as_ref(), PEM_BYTES_MAX);
            read.map_err(|error| errors.push(told(error))).unwrap_or_default()
        };
        let (cert, key) = (read("tls_cert", cert), read("tls_key", key));
        let clients = Some(clients).filter(|path| !path.is_empty());
        let clients = clients.map(|path| read("tls_clients", path));
        match errors.is_empty() {
            true => Ok(Some(TlsTexts { cert, key, clients, alpn: self.alpn })),
            false => Err(errors),
        }
    }

    /// What is wrong with the worker that it is to have, where there are so many; `None` of a door that is off or has all.
    pub(crate) fn missing_home(&self, config: &Config, workers: usize) -> Option<String> {
        (self.listen)(config).address()?;
        let home = (self.home?)(config);
        let text = |last| {
            let (name, found) = (self.name, home.print());
            format!("{name}.worker: found {found}, expected 0 to {last} or \"last\"")
        };
        home.of(workers).is_none().then(|| text(workers.saturating_sub(1)))
    }

    /// The same, as far as the configuration alone tells it: where it names the workers' cores.
    pub(crate) fn check_home(&self, config: &Config) -> Option<String> {
        match &config.workers.cores {
            CoreList::Auto => None,
            CoreList::Cores(named) => self.missing_home(config, named.len()),
        }
    }

    /// What of its keys for TLS does not go together.
    pub(crate) fn check_tls(&self, config: &Config) -> Option<String> {
        let (TlsFiles { cert, key, clients }, name) = ((self.tls)(config), self.name);
        if cert.is_empty() != key.is_empty() {
            // The key that is set comes first: its line is told.
            let keys = ["tls_cert", "tls_key"];
            let [set, other] = if cert.is_empty() { [keys[1], keys[0]] } else { keys };
            return Some(format!(
                "{name}.{set} and {name}.{other}: one is set, expected both or none"
            ));
        }
        let alone = cert.is_empty() && !clients.is_empty();
        alone.then(|| {
            format!("{name}.tls_clients is set without {name}.tls_cert and {name}.tls_key, expected all three")
        })
    }
}

/// The doors of a worker, in the order of their listeners. The set of the node (`weir_node::doors`) has as many, or it does not
/// compile, and a test of it compares their names.
pub const DOORS: [DoorSpec; 5] = [
    DoorSpec {
        name: "batch",
        title: "batch door",
        listen: |config| config.batch.listen,
        set_listen: |config, listen| config.batch.listen = listen,
        home: None,
        may_be_missed: false,
        tokens: Some(TokensKey {
            key: "batch.tokens_file",
            path: |config| &config.batch.tokens_file,
            roles: &[Role::Spend],
        }),
        guard: "batch.auth_token, batch.tokens_file or batch.tls_clients",
        is_guarded: |config| {
            let keys = [&config.batch.auth_token, &config.batch.tokens_file];
            keys.iter().any(|key| !key.is_empty()) || !config.batch.tls_clients.is_empty()
        },
        waiting_max: |config| config.batch.resolves_waiting_max,
        limits: |config| connection_limits(config, config.batch.frame_bytes_max as usize),
        tls: |config| TlsFiles {
            cert: &config.batch.tls_cert,
            key: &config.batch.tls_key,
            clients: &config.batch.tls_clients,
        },
        alpn: &[],
    },
    DoorSpec {
        name: "openrtb",
        title: "OpenRTB door",
        listen: |config| config.openrtb.listen,
        set_listen: |config, listen| config.openrtb.listen = listen,
        home: None,
        may_be_missed: false,
        tokens: None,
        guard: "openrtb.path_token or openrtb.tls_clients",
        is_guarded: |config| {
            !(config.openrtb.path_token.is_empty() && config.openrtb.tls_clients.is_empty())
        },
        waiting_max: |config| config.openrtb.notices_waiting_max,
        limits: |config| connection_limits(config, http_limits(config).request_bytes_max()),
        tls: |config| TlsFiles {
            cert: &config.openrtb.tls_cert,
            key: &config.openrtb.tls_key,
            clients: &config.openrtb.tls_clients,
        },
        alpn: &[b"http/1.1"],
    },
    DoorSpec {
        name: "spend",
        title: "spend door",
        listen: |config| config.spend.listen,
        set_listen: |config, listen| config.spend.listen = listen,
        home: None,
        may_be_missed: true,
        tokens: Some(TokensKey {
            key: "spend.tokens_file",
            path: |config| &config.spend.tokens_file,
            roles: &[Role::Spend, Role::Read],
        }),
        guard: "spend.tls_cert and spend.tls_key, and spend.tokens_file or spend.tls_clients",
        // A token that travels in clear text is anybody's.
        is_guarded: |config| {
            let knows = [&config.spend.tokens_file, &config.spend.tls_clients];
            !config.spend.tls_cert.is_empty() && knows.iter().any(|key| !key.is_empty())
        },
        waiting_max: |config| config.spend.calls_waiting_max,
        limits: |config| connection_limits(config, spend_limits(config).request_bytes_max()),
        tls: |config| TlsFiles {
            cert: &config.spend.tls_cert,
            key: &config.spend.tls_key,
            clients: &config.spend.tls_clients,
        },
        alpn: &[b"http/1.1"],
    },
    DoorSpec {
        name: "fix",
        title: "FIX door",
        listen: |config| {
            let arrays = &config.arrays;
            match arrays.fix_session.is_empty() && arrays.fix_venue.is_empty() {
                true => Listen::UNUSED,
                false => config.fix.listen,
            }
        },
        set_listen: |config, listen| config.fix.listen = listen,
        home: Some(|config| config.fix.worker),
        may_be_missed: false,
        tokens: None,
        guard: "fix.tls_cert and fix.tls_key, and fix.tls_clients or the password_file of every session",
        // Orders and passwords in clear text are anybody's.
        is_guarded: |config| {
            let has_passwords = |one: &FixSession| !one.password_file.is_empty();
            let knows = !config.fix.tls_clients.is_empty()
                || config.arrays.fix_session.iter().all(has_passwords);
            !config.fix.tls_cert.is_empty() && knows
        },
        waiting_max: |_| 0,
        limits: fix_connections,
        tls: |config| TlsFiles {
            cert: &config.fix.tls_cert,
            key: &config.fix.tls_key,
            clients: &config.fix.tls_clients,
        },
        alpn: &[],
    },
    DoorSpec {
        name: "keys",
        title: "keys door",
        listen: |config| config.keys.listen,
        set_listen: |config, listen| config.keys.listen = listen,
        home: None,
        may_be_missed: true,
        tokens: Some(TokensKey {
            key: "keys.tokens_file",
            path: |config| &config.keys.tokens_file,
            roles: &[Role::Keys],
        }),
        guard: "keys.tls_cert and keys.tls_key, and keys.tokens_file",
        // Plaintexts and tokens in clear text are anybody's.
        is_guarded: |config| {
            !(config.keys.tls_cert.is_empty() || config.keys.tokens_file.is_empty())
        },
        waiting_max: |config| config.keys.calls_waiting_max,
        limits: |config| connection_limits(config, keys_limits(config).request_bytes_max()),
        tls: |config| TlsFiles {
            cert: &config.keys.tls_cert,
            key: &config.keys.tls_key,
            clients: &config.keys.tls_clients,
        },
        alpn: &[b"http/1.1"],
    },
];

/// The door for people and tools; no worker serves it.
pub const ADMIN: DoorSpec = DoorSpec {
    name: "admin",
    title: "admin door",
    listen: |config| config.admin.listen,
    set_listen: |config, listen| config.admin.listen = listen,
    home: None,
    may_be_missed: false,
    tokens: Some(TokensKey {
        key: "admin.tokens_file",
        path: |config| &config.admin.tokens_file,
        roles: &[Role::Read, Role::Operate],
    }),
    guard: "admin.tokens_file",
    is_guarded: |config| !config.admin.tokens_file.is_empty(),
    waiting_max: |_| 0,
    limits: |config| connection_limits(config, HEAD_BYTES_MAX),
    tls: |config| TlsFiles {
        cert: &config.admin.tls_cert,
        key: &config.admin.tls_key,
        clients: "",
    },
    alpn: &[b"http/1.1"],
};

/// All doors of a node.
pub fn all_doors() -> impl Iterator<Item = &'static DoorSpec> {
    DOORS.iter().chain([&ADMIN])
}

/// The options of the event loops.
#[must_use]
pub fn transport_options(config: &Config) -> TransportOptions {
    let t = &config.transport;
    TransportOptions {
        transport: t.kind,
        cooperative: t.task_run,
        connections_max: t.connections_max,
        input_bytes_max: input_bytes_max(config),
        input_total_bytes_max: input_total_bytes_max(config),
        output_bytes_max: t.output_bytes_max,
        output_total_bytes_max: t.output_total_bytes_max,
        idle_ms_max: t.idle_ms_max,
        partial_ms_max: t.partial_ms_max,
        stalled_ms_max: t.stalled_ms_max,
        ..TransportOptions::default()
    }
}

/// The names by which the door may be called. Where none are configured, a door on loopback has those of this machine and of
/// its public address; beyond loopback it does not know what it is called, and the token in the path keeps strangers out.
///
/// # Errors
/// The first name that no door can have.
pub fn hosts(listed: &str, url: &str, address: SocketAddr) -> Result<HostGuard, BadHost> {
    let listed: Vec<&str> = names(listed).collect();
    if listed.is_empty() && !address.ip().is_loopback() {
        return Ok(HostGuard::Any);
    }
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let public = authority.and_then(|host| without_port(host.as_bytes()));
    let public = public.and_then(|host| std::str::from_utf8(host).ok());
    let public = public.filter(|host| HostGuard::only([*host]).is_ok());
    HostGuard::of_machine(address.ip(), listed.into_iter().chain(public))
}

/// The names in a list with commas.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Are these names that a door can have?
///
/// # Errors
/// The first that is none.
pub fn check_hosts(list: &str) -> Result<(), String> {
    HostGuard::only(names(list)).map(|_| ()).map_err(|error| format!("hosts: {error}"))
}

/// The bounds of a request at the OpenRTB door.
#[must_use]
pub fn http_limits(config: &Config) -> door_http::Limits {
    limits(config.openrtb.body_bytes_max, config.openrtb.gzip_bytes_min)
}

/// The bounds of a request at the spend door.
#[must_use]
pub fn spend_limits(config: &Config) -> door_http::Limits {
    limits(config.spend.body_bytes_max, config.spend.gzip_bytes_min)
}

/// The bounds of a request at the keys door. Its answers are never compressed: what is secret in them would show in their lengths.
#[must_use]
pub fn keys_limits(config: &Config) -> door_http::Limits {
    limits(config.keys.body_bytes_max, usize::MAX)
}

fn limits(bytes_max: usize, gzip_bytes_min: usize) -> door_http::Limits {
    door_http::Limits {
        head_bytes_max: HEAD_BYTES_MAX,
        body_bytes_max: bytes_max,
        inflated_bytes_max: bytes_max,
        gzip_bytes_min,
        ..door_http::Limits::default()
    }
}

/// Bytes of an unfinished request or message that a connection may hold at any door.
fn input_bytes_max(config: &Config) -> usize {
    DOORS.iter().map(|door| (door.limits)(config).input_bytes_max).max().unwrap_or_default()
}

/// Bytes of unfinished messages of all connections of a worker: room for a few of the largest.
fn input_total_bytes_max(config: &Config) -> usize {
    let default = TransportOptions::default().input_total_bytes_max;
    default.max(input_bytes_max(config).saturating_mul(LARGEST_AT_ONCE))
}

/// The limits of a connection that ends when it is idle for as long as `transport.idle_ms_max` says.
fn connection_limits(config: &Config, input_bytes_max: usize) -> ConnectionLimits {
    let idle_ms_max = config.transport.idle_ms_max;
    ConnectionLimits { input_bytes_max, idle_ms_max, reads_while_stopping: false }
}

/// The limits of a connection of FIX. Its session says how long it may be silent, by the interval of its heartbeats, and who comes
/// without a session has ten seconds for its Logon; each side's Logout waits for the other's.
#[must_use]
pub fn fix_connections(config: &Config) -> ConnectionLimits {
    let arrays = &config.arrays;
    let clients = arrays.fix_session.iter().map(|session| session.body_bytes_max);
    let venues = arrays.fix_venue.iter().map(|venue| venue.body_bytes_max);
    let body_bytes_max = clients.chain(venues).max().unwrap_or_default();
    ConnectionLimits {
        input_bytes_max: body_bytes_max + FIX_FRAME_BYTES,
        idle_ms_max: 0,
        reads_while_stopping: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::FixSession;
    use crate::config;

    #[test]
    fn a_connection_may_hold_the_largest_message_of_any_session() {
        let mut config = Config::default();
        let session = FixSession { body_bytes_max: 16_777_216, ..FixSession::default() };
        config.arrays.fix_session.push(session);
        let [batch, openrtb, spend, fix, keys] = &DOORS;
        assert!((fix.limits)(&config).input_bytes_max > 16_777_216);
        assert!((fix.limits)(&Config::default()).input_bytes_max < 16_777_216);
        assert!((keys.limits)(&config).input_bytes_max > config.keys.body_bytes_max);
        assert!(transport_options(&config).input_bytes_max > config.keys.body_bytes_max);
        // The other doors' messages stay as small as they were.
        for door in [batch, openrtb, spend] {
            assert!((door.limits)(&config).input_bytes_max < 16_777_216, "{}", door.name);
        }
    }

    #[test]
    fn every_file_of_a_doors_tls_that_is_missing_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        let text =
            "[fix]\ntls_cert = \"/no/cert\"\ntls_key = \"/no/key\"\n\ntls_clients = \"/no/ca\"\n";
        std::fs::write(&file, text).unwrap();
        let config = config::load(Some(&file), std::iter::empty(), &[]).unwrap();
        let told = DOORS[3].read_tls(&config).unwrap_err();
        let told = config::placed(Some(&file), std::iter::empty(), told);
        let expected = [
            "2: fix.tls_cert /no/cert: ",
            "3: fix.tls_key /no/key: ",
            "5: fix.tls_clients /no/ca: ",
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.starts_with(&format!("{}:{expected}", file.display())), "{told}");
        }
        std::fs::write(&file, "[fix]\n\ntls_key = \"/no/key\"\n").unwrap();
        let half = config::load(Some(&file), std::iter::empty(), &[]).unwrap_err();
        assert!(
            half[0]
                .to_string()
                .ends_with(":3: fix.tls_key and fix.tls_cert: one is set, expected both or none"),
            "{half:?}"
        );
    }

    #[test]
    fn what_a_door_may_be_called() {
        let of = |listed: &str, url: &str, address: &str| {
            hosts(listed, url, address.parse().unwrap()).unwrap()
        };
        let allows = |hosts: &HostGuard, host: &str| hosts.allows(Some(host.as_bytes()));
        let local = of("", "http://127.0.0.9:7701", "127.0.0.9:7701");
        for host in ["localhost", "127.0.0.1:80", "[::1]", "127.0.0.9:7701"] {
            assert!(allows(&local, host), "{host}");
        }
        assert!(!allows(&local, "bid.example") && !allows(&local, "127.0.0.8"));
        let public = of("", "https://win.example:8443/rtb", "127.0.0.1:7701");
        assert!(allows(&public, "win.example") && !allows(&public, "bid.example"));
        // Beyond loopback nothing is known of names until some are named; then those count, and its own.
        assert_eq!(of("", "https://win.example", "10.0.0.7:7701"), HostGuard::Any);
        let named = of("bid.example", "https://win.example", "[2001:db8::7]:7701");
        for host in ["bid.example", "win.example", "[2001:db8::7]:7701", "localhost"] {
            assert!(allows(&named, host), "{host}");
        }
        assert!(!allows(&named, "evil.example"));
        assert!(check_hosts("a.example, [::1]").is_ok() && check_hosts("").is_ok());
        assert!(check_hosts("a.example,http://b").is_err());
    }
}
