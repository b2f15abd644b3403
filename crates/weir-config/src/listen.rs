//! Where a door listens, or that it is off.

use std::fmt;
use std::net::SocketAddr;

/// Where a door listens: an address, or nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    address: Option<SocketAddr>,
    is_chosen: bool,
}

impl Listen {
    /// A door that is off.
    pub const OFF: Listen = Listen { address: None, is_chosen: true };

    /// A door that nobody needs: nothing is configured that stands behind it.
    pub const UNUSED: Listen = Listen { address: None, is_chosen: false };

    /// Returns the address of a door that nobody configured: this port of this machine.
    #[must_use]
    pub const fn by_default(port: u16) -> Listen {
        let ip = std::net::Ipv4Addr::LOCALHOST;
        let address = SocketAddr::V4(std::net::SocketAddrV4::new(ip, port));
        Listen { address: Some(address), is_chosen: false }
    }

    /// Returns the address; `None` for a door that is off.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        self.address
    }

    /// Tells whether this is [`Listen::UNUSED`].
    #[must_use]
    pub fn is_unused(self) -> bool {
        self.address.is_none() && !self.is_chosen
    }

    /// Tells whether somebody wrote this, in the file, the environment or a flag: an address that was chosen and cannot be had stops
    /// the start of a node.
    #[must_use]
    pub fn is_chosen(self) -> bool {
        self.is_chosen
    }
}

/// An address that somebody chose.
impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen { address: Some(address), is_chosen: true }
    }
}

/// As it is written: the address, or nothing.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.map_or(Ok(()), |address| address.fmt(f))
    }
}

/// The empty text, or an address in numbers.
impl std::str::FromStr for Listen {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Listen, Self::Err> {
        if text.is_empty() { Ok(Listen::OFF) } else { text.parse().map(SocketAddr::into) }
    }
}
