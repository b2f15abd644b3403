//! The names by which a door that speaks HTTP may be called.

use std::net::IpAddr;

/// The names by which a door may be called. A page in a browser on this machine can reach a door on loopback by a name of
/// its own that leads here (DNS rebinding): then it reads the answers, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostGuard {
    /// All.
    Any,
    /// These, whatever the port; made by [`HostGuard::only`].
    Only(Vec<String>),
}

/// A text that is no name of a door.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{found:?}: expected names and addresses without scheme or port, as bid.example or [2001:db8::1]"
)]
pub struct BadHost {
    /// The value that was found.
    pub found: String,
}

impl HostGuard {
    /// These names: each a name, an IPv4 address, or an IPv6 address in brackets.
    ///
    /// # Errors
    /// The first that is none of these.
    pub fn only<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<HostGuard, BadHost> {
        checked(names).map(HostGuard::Only)
    }

    /// The names of this machine, the address that a door listens on, and the listed names.
    ///
    /// # Errors
    /// The first of the listed that is no name.
    pub fn of_machine<'n>(
        listens_on: IpAddr,
        listed: impl IntoIterator<Item = &'n str>,
    ) -> Result<HostGuard, BadHost> {
        let own = match listens_on {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let mut names = checked(listed)?;
        names.extend(["localhost", "127.0.0.1", "[::1]"].map(String::from));
        names.push(own);
        Ok(HostGuard::Only(names))
    }

    /// May a request come in that calls the door so? One that calls it nothing may: HTTP/1.0, which no browser speaks.
    #[must_use]
    pub fn allows(&self, host: Option<&[u8]>) -> bool {
        let (HostGuard::Only(names), Some(host)) = (self, host) else { return true };
        let name = without_port(host);
        name.is_some_and(|name| names.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name)))
    }
}

fn checked<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Vec<String>, BadHost> {
    let one = |name: &str| match is_name(name.as_bytes()) {
        true => Ok(name.to_string()),
        false => Err(BadHost { found: name.into() }),
    };
    names.into_iter().map(one).collect()
}

/// A name or an address, as it stands in an address.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    match name {
        [b'[', inner @ .., b']'] => {
            inner.iter().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte))
        }
        _ => !name.is_empty() && name.iter().all(plain),
    }
}

/// The name in what a `Host` says; `None` where it is not a name and perhaps a port.
#[must_use]
pub fn without_port(host: &[u8]) -> Option<&[u8]> {
    let end = match host.first()? {
        b'[' => host.iter().position(|byte| *byte == b']')? + 1,
        _ => host.iter().position(|byte| *byte == b':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(end);
    match port {
        [] => Some(name),
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_called_by_its_names_only() {
        let hosts = HostGuard::only(["localhost", "[::1]", "Bid.Example"]).unwrap();
        for host in
            ["localhost", "LocalHost:80", "localhost:", "[::1]", "[::1]:7701", "bid.example:1"]
        {
            assert!(hosts.allows(Some(host.as_bytes())), "{host}");
        }
        for host in [
            "",
            ":",
            ":80",
            "localhost:x",
            "localhost.",
            "a.localhost",
            "[::1",
            "[::1]x",
            "::1",
            "localhost:1:2",
            "x@localhost",
        ] {
            assert!(!hosts.allows(Some(host.as_bytes())), "{host}");
            assert!(HostGuard::Any.allows(Some(host.as_bytes())));
        }
        assert!(!hosts.allows(Some(b"localhost\xff")) && hosts.allows(None));
        for name in
            ["", "*", "*.example", "a b", "a:80", "http://a", "a/", "[::1", "[x]", "\u{fc}.example"]
        {
            assert_eq!(HostGuard::only([name]), Err(BadHost { found: name.into() }));
        }
    }

    #[test]
    fn a_door_has_the_names_of_its_machine_and_its_own_address() {
        let of = |ip: &str, listed: &[&str]| {
            HostGuard::of_machine(ip.parse().unwrap(), listed.iter().copied()).unwrap()
        };
        let allows = |guard: &HostGuard, host: &str| guard.allows(Some(host.as_bytes()));
        let own = of("127.0.0.2", &["ops.example"]);
        for host in ["localhost", "127.0.0.1:7780", "[::1]:1", "127.0.0.2", "ops.example:8443"] {
            assert!(allows(&own, host), "{host}");
        }
        assert!(!allows(&own, "127.0.0.3") && !allows(&own, "evil.example"));
        assert!(allows(&of("2001:db8::1", &[]), "[2001:db8::1]:443"));
        assert!(HostGuard::of_machine([127, 0, 0, 1].into(), ["http://a"]).is_err());
    }
}
