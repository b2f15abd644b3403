//! Where messages go.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::http::Uri;

use crate::secret::Secret;

/// Secrets of one endpoint at most: the one in use, and those that it replaces.
const SECRETS_MAX: usize = 4;
/// Characters of an address at most.
const URL_MAX: usize = 2_048;

/// Which addresses messages may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// HTTPS to addresses of the public internet only: what a customer writes down may not lead into the own network.
    Public,
    /// HTTP or HTTPS to any address: for receivers that the operator names.
    Any,
}

impl Reach {
    /// May a message go to this address? It is asked for what a name resolved to, at every attempt: a name can change.
    pub(crate) fn allows(self, ip: IpAddr) -> bool {
        self == Reach::Any
            || match ip {
                IpAddr::V4(ip) => is_public_v4(ip),
                IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                    Some(ip) => is_public_v4(ip),
                    None => is_public_v6(ip),
                },
            }
    }
}

/// By IANA's registry of special-purpose addresses.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    let is_special =
        ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_documentation();
    // From 224: multicast, reserved, broadcast.
    !(a == 0 || a >= 224 || is_shared || is_protocol || is_benchmark || is_special)
}

/// Of what is global unicast (2000::/3), not what stands for IPv4 addresses (Teredo, 6to4), benchmarks and documentation.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let is_special =
        matches!((a, b), (0x2001, 0..=0x1ff | 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff));
    (0x2000..0x4000).contains(&a) && !is_special
}

/// Where messages go, and how they are signed.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) name: String,
    pub(crate) url: Uri,
    pub(crate) secrets: Vec<Secret>,
}

/// Without the path, which may hold a key.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host().unwrap_or_default();
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("host", &host)
            .finish_non_exhaustive()
    }
}

/// An endpoint that cannot be used. Its address is not repeated: it may hold a key.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    /// The address.
    #[error(
        "the address of the endpoint: expected https://HOST/PATH of at most {URL_MAX} characters, without user and password"
    )]
    Url,
    /// The secrets.
    #[error("the secrets of the endpoint: expected 1 to {SECRETS_MAX}")]
    Secrets,
    /// HTTP, where only HTTPS may be.
    #[error("the address of the endpoint: found http, expected https")]
    Plain,
}

impl Endpoint {
    /// An endpoint: the name that reports have, its address, and its secrets, the newest first. While a secret is replaced
    /// both are in the list, and messages carry a signature of each.
    ///
    /// # Errors
    /// [`EndpointError`]: what of it cannot be used.
    pub fn new(name: &str, url: &str, secrets: Vec<Secret>) -> Result<Endpoint, EndpointError> {
        if !(1..=SECRETS_MAX).contains(&secrets.len()) {
            return Err(EndpointError::Secrets);
        }
        let url: Uri = match url.len() <= URL_MAX {
            true => url.parse().map_err(|_| EndpointError::Url)?,
            false => return Err(EndpointError::Url),
        };
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        let has_host = url.host().is_some_and(|host| !host.is_empty());
        let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if !is_http || !has_host || has_user {
            return Err(EndpointError::Url);
        }
        Ok(Endpoint { name: name.to_owned(), url, secrets })
    }

    pub(crate) fn check(&self, reach: Reach) -> Result<(), EndpointError> {
        let is_plain = self.url.scheme_str() != Some("https");
        if is_plain && reach == Reach::Public { Err(EndpointError::Plain) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_network_is_no_public_address() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:8.8.8.8",
        ] {
            assert!(Reach::Public.allows(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "100.64.0.1",
            "100.127.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "64:ff9b::a00:1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!Reach::Public.allows(ip.parse().unwrap()), "{ip}");
            assert!(Reach::Any.allows(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn an_endpoint_has_an_address_and_secrets() {
        let secret = || Secret::random().unwrap();
        let of = |url: &str| Endpoint::new("a", url, vec![secret()]);
        assert!(of("https://a.example/hooks?x=1").unwrap().check(Reach::Public).is_ok());
        let plain = of("http://a.example").unwrap();
        assert_eq!(plain.check(Reach::Public), Err(EndpointError::Plain));
        assert!(plain.check(Reach::Any).is_ok());
        for wrong in [
            "",
            "a.example",
            "/hooks",
            "ftp://a.example",
            "https://",
            "https://u:p@a.example",
            "https://a b",
        ] {
            assert_eq!(of(wrong).unwrap_err(), EndpointError::Url, "{wrong}");
        }
        assert_eq!(
            of(&format!("https://a.example/{}", "x".repeat(URL_MAX))).unwrap_err(),
            EndpointError::Url
        );
        for count in [0, SECRETS_MAX + 1] {
            let secrets = (0..count).map(|_| secret()).collect();
            assert_eq!(
                Endpoint::new("a", "https://a.example", secrets).unwrap_err(),
                EndpointError::Secrets
            );
        }
    }
}
