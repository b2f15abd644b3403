//! Who clicked how often of late: a table of fixed size, of networks.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use door_transport::Peer;

/// How long an address's clicks are counted, from the first one on.
const WINDOW_MS: u64 = 60_000;
const ROWS: usize = 1_024;
/// Networks of a row: where more click, who began first is forgotten.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    network: u64,
    began_ms: u64,
    clicks: u64,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Clickers {
    clicks_max: u64,
    /// None where all clicks count.
    rows: Vec<[Seen; WAYS]>,
    /// Strangers choose addresses, and must not choose rows.
    secret: RandomState,
}

impl Clickers {
    /// Where so many clicks of a network count; 0: all.
    pub(crate) fn new(clicks_max: u64) -> Clickers {
        let rows = if clicks_max == 0 { 0 } else { ROWS };
        Clickers { clicks_max, rows: vec![Default::default(); rows], secret: RandomState::new() }
    }

    /// Does a click of this network count now?
    pub(crate) fn take(&mut self, network: u64, now_ms: u64) -> bool {
        let Some(rows) = self.rows.len().checked_sub(1) else { return true };
        let hash = usize::try_from(self.secret.hash_one(network) >> 32).unwrap_or(0);
        let row = &mut self.rows[hash & rows];
        let is_on =
            |seen: &Seen| seen.clicks > 0 && now_ms < seen.began_ms.saturating_add(WINDOW_MS);
        let known = row.iter().position(|seen| seen.network == network && is_on(seen));
        let place = known.or_else(|| row.iter().position(|seen| !is_on(seen)));
        let oldest = || (0..WAYS).min_by_key(|at| row[*at].began_ms).unwrap_or(0);
        let at = place.unwrap_or_else(oldest);
        if known.is_none() {
            row[at] = Seen { network, began_ms: now_ms, clicks: 0 };
        }
        row[at].clicks = row[at].clicks.saturating_add(1);
        row[at].clicks <= self.clicks_max
    }
}

/// The network of who connects: an address of IPv4, or the /64 of one of IPv6. All processes of this machine that come over a Unix socket
/// are one.
pub(crate) fn network(peer: Peer) -> u64 {
    match peer {
        Peer::Tcp(address) => network_of(address.ip()),
        Peer::Local => u64::MAX,
    }
}

fn network_of(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => u64::try_from(ip.to_bits() >> 64).unwrap_or(u64::MAX),
    }
}

/// The network of the last address in a header such as `X-Forwarded-For`, with a port or without.
pub(crate) fn told(value: &[u8]) -> Option<u64> {
    let last = std::str::from_utf8(value).ok()?.rsplit(',').next()?.trim();
    let bare = last.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(last);
    let address = bare.parse().ok();
    address.or_else(|| Some(last.parse::<SocketAddr>().ok()?.ip())).map(network_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_clicks_of_a_network_count_within_a_minute() {
        let mut clickers = Clickers::new(2);
        let at = |text: &str| told(text.as_bytes());
        for (header, now_ms, counts) in [
            ("192.0.2.1", 0, true),
            ("192.0.2.1", 0, true),
            ("192.0.2.1:4000", 59_999, false),
            ("192.0.2.2, ::ffff:192.0.2.1", 59_999, false),
            ("192.0.2.1, 192.0.2.2", 59_999, true),
            ("192.0.2.1", 60_000, true),
            ("2001:db8::1", 60_000, true),
            ("[2001:db8::2]", 60_000, true),
            ("[2001:db8::3]:443", 60_000, false),
            ("2001:db8:0:1::3", 60_000, true),
        ] {
            let network = at(header).expect(header);
            assert_eq!(clickers.take(network, now_ms), counts, "{header} at {now_ms}");
        }
        assert_eq!(["", "unknown", "192.0.2.1, ", "192.0.2", "_hidden"].map(at), [None; 5]);
    }

    #[test]
    fn the_table_does_not_grow() {
        let mut clickers = Clickers::new(1);
        assert!((0..100_000).all(|network| clickers.take(network, network)));
        assert!(!clickers.take(99_999, 100_000), "the last one is known");
        assert_eq!(clickers.rows.len(), ROWS);
        let mut all = Clickers::new(0);
        assert!((0..9).all(|now_ms| all.take(7, now_ms)));
        assert!(all.rows.is_empty());
    }
}
