//! Who is at the other end of a connection, and whether that is who it says.

use core::net::IpAddr;
use std::str::FromStr;

use fix::Message;

/// What is known of the other end of a connection before it says anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address; `None` for a process of this machine over a Unix socket.
    pub address: Option<IpAddr>,
    /// The names of its certificate, where TLS asked for one.
    pub certificate_names: Vec<String>,
}

/// What a guard says of a Logon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may take the session.
    Yes,
    /// It may not: its connection is closed.
    No,
    /// That takes a while: [`crate::Line::judged`] says it.
    Later,
}

/// Judges passwords and whatever else a door asks of a Logon besides its session, address and certificate.
pub trait Guard {
    /// Says whether this Logon, of the connection `line`, may take a session, by the session's number.
    fn admits(&mut self, session: usize, line: u64, logon: &Message<'_>) -> Admission;
}

/// Admits everybody whom addresses and certificates admit.
impl Guard for () {
    fn admits(&mut self, _session: usize, _line: u64, _logon: &Message<'_>) -> Admission {
        Admission::Yes
    }
}

/// An address, or all that begin with the same bits: `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

/// Text that is no address and no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no address and no range of addresses; write it as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
)]
pub struct AddressRangeError {
    text: String,
}

impl AddressRange {
    /// Reports whether an address is in the range. An IPv4 address that came as IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let difference = u128::from(first.to_bits() ^ address.to_bits());
                difference >> (32 - self.bits.min(32)) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let difference = first.to_bits() ^ address.to_bits();
                difference.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<AddressRange, AddressRangeError> {
        let wrong = || AddressRangeError { text: text.to_owned() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits_max = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(bits_max);
        if bits > bits_max {
            return Err(wrong());
        }
        Ok(AddressRange { first, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_what_begins_with_their_bits() {
        let cases = [
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("192.0.2.0/24", "::ffff:192.0.2.9", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
            ("::/0", "192.0.2.1", false),
            ("::1", "::1", true),
        ];
        for (range, address, inside) in cases {
            let range: AddressRange = range.parse().unwrap();
            assert_eq!(range.contains(address.parse().unwrap()), inside, "{range:?} {address}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "host", "192.0.2.0/33", "2001:db8::/129", "192.0.2.0/", "192.0.2.0/-1"] {
            let error = text.parse::<AddressRange>().unwrap_err().to_string();
            assert!(error.contains("192.0.2.0/24"), "{error}");
        }
    }
}
