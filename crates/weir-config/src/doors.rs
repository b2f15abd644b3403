//! What the configuration comes to for the doors: the options of the event loops, the limits of HTTP, and the names by which
//! the OpenRTB door may be called. The check of a configuration asks the same functions as the start of a node.

use std::net::SocketAddr;

use access::{BadHost, HostGuard, without_port};
use door_transport::Options as TransportOptions;

use crate::config::Config;

/// Bytes of a request's head; the body comes on top.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A door, as configuration and command line know it.
#[derive(Clone, Copy, Debug)]
pub struct DoorSpec {
    /// Its name: of its section in the configuration, of its flag, in `addresses.json`, of its line when a node starts.
    pub name: &'static str,
    /// What the door is called in help texts.
    pub title: &'static str,
    /// Where it listens.
    pub listen: fn(&mut Config) -> &mut SocketAddr,
    /// The keys without one of which it may listen on loopback only.
    pub guard: &'static str,
    /// Is one of them set?
    pub is_guarded: fn(&Config) -> bool,
}

impl DoorSpec {
    /// Where the door listens.
    #[must_use]
    pub fn address(&self, config: &Config) -> SocketAddr {
        *(self.listen)(&mut config.clone())
    }
}

/// The doors of a worker, in the order of their listeners. The set of the node (`weir_node::doors`) has the same names, or it does not
/// compile.
pub const DOORS: [DoorSpec; 2] = [
    DoorSpec {
        name: "batch",
        title: "batch door",
        listen: |config| &mut config.batch.listen,
        guard: "batch.auth_token or batch.tokens_file",
        is_guarded: |config| {
            !(config.batch.auth_token.is_empty() && config.batch.tokens_file.is_empty())
        },
    },
    DoorSpec {
        name: "openrtb",
        title: "OpenRTB door",
        listen: |config| &mut config.openrtb.listen,
        guard: "openrtb.path_token",
        is_guarded: |config| !config.openrtb.path_token.is_empty(),
    },
];

/// The door for people and tools; no worker serves it.
pub const ADMIN: DoorSpec = DoorSpec {
    name: "admin",
    title: "admin door",
    listen: |config| &mut config.admin.listen,
    guard: "admin.tokens_file",
    is_guarded: |config| !config.admin.tokens_file.is_empty(),
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
        input_bytes_max: input_bytes_max(config).max(config.batch.frame_bytes_max as usize),
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
    let bytes_max = config.openrtb.body_bytes_max;
    door_http::Limits {
        head_bytes_max: HEAD_BYTES_MAX,
        body_bytes_max: bytes_max,
        inflated_bytes_max: bytes_max,
        gzip_bytes_min: config.openrtb.gzip_bytes_min,
        ..door_http::Limits::default()
    }
}

/// Bytes of an unfinished request that a connection may hold.
fn input_bytes_max(config: &Config) -> usize {
    http_limits(config).request_bytes_max()
}

#[cfg(test)]
mod tests {
    use super::*;

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
