//! Where a node's admin door is: named on the command line, or read from the node's data folder.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;
use ureq::http::Uri;

use crate::OpenError;

/// The file of a data folder that says where its node is reached.
const ADDRESSES: &str = "addresses.json";
/// Bytes of it that are read; a node writes some hundred.
const ADDRESSES_BYTES_MAX: u64 = 64 << 10;

/// The admin door of a node: a scheme, a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    tls: bool,
    /// `HOST:PORT`; an IPv6 address in brackets.
    address: String,
    /// The host, without brackets.
    host: String,
}

/// What was given is not the address of an admin door.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?}: {what}; expected http://HOST:PORT, https://HOST:PORT or HOST:PORT, such as 127.0.0.1:7780"
)]
pub struct TargetError {
    /// What was given; of one with a password, nothing.
    pub found: String,
    /// The fault in it.
    pub what: &'static str,
}

/// `addresses.json`, as far as it matters here.
#[derive(Deserialize)]
struct Addresses {
    admin: SocketAddr,
    /// Nodes of earlier releases do not write it; they are asked over plain HTTP.
    #[serde(default)]
    admin_tls: bool,
    /// Nodes of earlier releases do not write it; their answers are believed.
    #[serde(default)]
    run_id: Option<String>,
    /// The other doors that are open, by their names.
    #[serde(flatten)]
    doors: serde_json::Map<String, serde_json::Value>,
}

impl Addresses {
    fn read(data: &Path) -> Result<Addresses, OpenError> {
        let path = data.join(ADDRESSES);
        let wrong = |text: String| OpenError::NoAddress { path: path.clone(), text };
        let mut text = String::new();
        let file = File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let read = file.take(ADDRESSES_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text)
            .map_err(|error| wrong(format!("no address of an admin door in it ({error})")))
    }
}

/// Whether an answer whose header says `run_id` is of the node that runs on a data folder. The folder is read anew, as the
/// node may have been started again meanwhile. One without a run, of an earlier release, says nothing against it.
pub(crate) fn is_of_data(data: &Path, run_id: Option<&[u8]>) -> bool {
    let Ok(addresses) = Addresses::read(data) else { return false };
    addresses.run_id.is_none_or(|id| Some(id.as_bytes()) == run_id)
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let text = text.trim();
        let wrong = |what| Err(TargetError { found: text.chars().take(200).collect(), what });
        if text.contains('@') {
            // Shown nowhere: it may hold a password.
            let what = "a user or a password does not belong there; give the token with --token-file or WEIR_TOKEN";
            return Err(TargetError { found: "...@...".to_owned(), what });
        }
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let Ok(uri) = whole.parse::<Uri>() else { return wrong("not an address") };
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return wrong("a scheme that is not spoken here"),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || whole.contains('#') {
            return wrong("a path does not belong there");
        }
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return wrong("not an address");
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host_is_sound = !bare.is_empty()
            && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
        if !host_is_sound {
            return wrong("no host");
        }
        let port = match (uri.port_u16(), authority.as_str() == host, text.contains("://")) {
            (Some(port), ..) => port,
            (None, true, true) => {
                if tls {
                    443
                } else {
                    80
                }
            }
            _ => return wrong("no port from 0 to 65535"),
        };
        Ok(Target { tls, address: format!("{host}:{port}"), host: bare.to_owned() })
    }
}

impl From<SocketAddr> for Target {
    /// Over plain HTTP.
    fn from(address: SocketAddr) -> Target {
        Target { tls: false, address: address.to_string(), host: address.ip().to_string() }
    }
}

impl Target {
    /// The admin door of the node that runs on a data folder, from the folder's `addresses.json`.
    ///
    /// # Errors
    /// [`OpenError::NoAddress`]: no node has written that file, or it cannot be read.
    pub fn of_data(data: &Path) -> Result<Target, OpenError> {
        let addresses = Addresses::read(data)?;
        Ok(Target { tls: addresses.admin_tls, ..Target::reachable(addresses.admin) })
    }

    /// Another door of the same node, by its name, over plain HTTP.
    ///
    /// # Errors
    /// [`OpenError::NoAddress`]; the node may have this door off.
    pub fn of_door(data: &Path, door: &str) -> Result<Target, OpenError> {
        let addresses = Addresses::read(data)?;
        let address = addresses.doors.get(door).and_then(|address| address.as_str()?.parse().ok());
        let text = || format!("no address of a {door} door in it: the node has it off");
        let path = || data.join(ADDRESSES);
        address
            .map(Target::reachable)
            .ok_or_else(|| OpenError::NoAddress { path: path(), text: text() })
    }

    fn reachable(mut address: SocketAddr) -> Target {
        // A door that listens on all addresses is reached on the loopback; a request needs one that is an address.
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        Target::from(address)
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Host name or address, without brackets and port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether the door is asked over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether nothing that is sent there leaves this machine, as far as the name tells.
    pub(crate) fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        ip.map_or(self.host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
    }

    /// The URL of a path, which begins with `/`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{self}{path}")
    }
}

/// `http://HOST:PORT` or `https://HOST:PORT`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, TargetError> {
        text.parse::<Target>().map(|target| target.to_string())
    }

    #[test]
    fn urls_and_addresses_are_read() {
        for (text, expected) in [
            ("127.0.0.1:7780", "http://127.0.0.1:7780"),
            (" localhost:7780 ", "http://localhost:7780"),
            ("http://node:1/", "http://node:1"),
            ("HTTPS://weir.example:7780", "https://weir.example:7780"),
            ("https://weir.example", "https://weir.example:443"),
            ("http://weir.example/", "http://weir.example:80"),
            ("[::1]:80", "http://[::1]:80"),
            ("https://[::1]:7780/", "https://[::1]:7780"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for wrong in [
            "",
            "node",
            ":80",
            "node:",
            "node:70000",
            "a b:1",
            "ftp://a:1",
            "n:1/x",
            "n\r\n:1",
            "n:1?x=1",
            "http://",
            "https://n:x",
            "http://n:1#x",
            "::1:80",
            "n:-1",
            "unix:/run/weir.sock",
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("expected http://HOST:PORT"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        let error = read("https://ann:secret@node:7780").unwrap_err().to_string();
        assert!(error.contains("--token-file") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_data_folder_says_where_its_node_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ADDRESSES);
        let of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Target::of_data(folder.path())
                .map(|target| target.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(r#"{"admin":"127.0.0.1:1"}"#).unwrap(), "http://127.0.0.1:1");
        assert_eq!(of(r#"{"admin":"0.0.0.0:1","admin_tls":true}"#).unwrap(), "https://127.0.0.1:1");
        assert_eq!(of(r#"{"admin":"[::]:1","new":null}"#).unwrap(), "http://[::1]:1");
        for wrong in ["", "{}", r#"{"admin":"#, r#"{"admin":"nowhere"}"#, &" ".repeat(1 << 20)] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains("--target"), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
        let error = Target::of_data(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is a node running on this data folder"), "{error}");
    }

    #[test]
    fn another_door_of_the_folders_node_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"admin":"127.0.0.1:1","keys":"0.0.0.0:7703","admin_tls":true,"run_id":"1"}"#;
        std::fs::write(folder.path().join(ADDRESSES), text).unwrap();
        let keys = Target::of_door(folder.path(), "keys").unwrap();
        assert_eq!((keys.address(), keys.is_tls()), ("127.0.0.1:7703", false));
        for door in ["spend", "admin_tls", "run_id"] {
            let error = Target::of_door(folder.path(), door).unwrap_err().to_string();
            assert!(error.contains(&format!("no address of a {door} door in it")), "{error}");
        }
    }

    #[test]
    fn loopback_is_known() {
        for (text, expected) in
            [("127.9.9.9:1", true), ("[::1]:1", true), ("LOCALHOST:1", true), ("10.0.0.1:1", false)]
        {
            assert_eq!(text.parse::<Target>().unwrap().is_loopback(), expected, "{text}");
        }
    }
}
