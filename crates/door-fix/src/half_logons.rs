//! Connections that have not logged on, and who has to go when there are too many.
//!
//! A good connection waits milliseconds for its Logon, one that somebody opens and leaves waits for 10 s. So a new one comes in, and the one
//! goes that has waited longest: of its own address, if that has its share, else of the address that has the most.

use core::net::IpAddr;
use std::collections::HashMap;

/// How many there may be.
const HALF_LOGONS_MAX: usize = 256;
/// How many of one address: some are always left to others.
const OF_ONE_MAX: usize = HALF_LOGONS_MAX / 2;

/// Every connection that has not logged on, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct HalfLogons(Vec<(u64, Crowd)>);

/// Who is at the other end: an address; of IPv6 the network of 2^64 addresses that one subscriber has; `None` for all processes of this
/// machine.
type Crowd = Option<IpAddr>;

impl HalfLogons {
    /// Takes a connection, and returns the one that goes for it.
    pub(crate) fn take(&mut self, line: u64, address: Option<IpAddr>) -> Option<u64> {
        let origin = address.map(origin);
        let own = self.0.iter().filter(|one| one.1 == origin).count();
        let goes = match (own, self.0.len()) {
            (OF_ONE_MAX.., _) => Some(origin),
            (_, HALF_LOGONS_MAX..) => self.largest(origin),
            _ => None,
        };
        let at = goes.and_then(|of| self.0.iter().position(|one| one.1 == of));
        let gone = at.map(|at| self.0.remove(at).0);
        self.0.push((line, origin));
        gone
    }

    /// Frees the place of a connection. Reports whether it had one.
    pub(crate) fn leave(&mut self, line: u64) -> bool {
        let at = self.0.iter().position(|one| one.0 == line);
        at.is_some_and(|at| self.0.remove(at).0 == line)
    }

    pub(crate) fn has(&self, line: u64) -> bool {
        self.0.iter().any(|one| one.0 == line)
    }

    /// Whoever has the most, with a newcomer counted; of several the one with the oldest connection.
    fn largest(&self, newcomer: Crowd) -> Option<Crowd> {
        let mut counts = HashMap::from([(newcomer, 1)]);
        for (_, origin) in &self.0 {
            *counts.entry(*origin).or_insert(0) += 1;
        }
        let most = self.0.iter().map(|one| counts[&one.1]).max()?;
        self.0.iter().map(|one| one.1).find(|origin| counts[origin] == most)
    }
}

fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> Option<IpAddr> {
        Some([10, 0, 0, host].into())
    }

    #[test]
    fn a_crowd_of_one_address_takes_its_own_places() {
        let mut halves = HalfLogons::default();
        assert_eq!(halves.take(0, address(7)), None);
        for line in 1..=128 {
            assert_eq!(halves.take(line, address(1)), None);
        }
        for line in 129..=9_999 {
            assert_eq!(halves.take(line, address(1)), Some(line - 128));
        }
        assert_eq!(halves.take(10_000, address(8)), None);
        assert!(halves.has(0) && halves.leave(0) && !halves.leave(0) && !halves.has(0));
    }

    #[test]
    fn many_addresses_take_the_oldest_of_whoever_has_the_most() {
        let mut halves = HalfLogons::default();
        (0..100).for_each(|line| assert_eq!(halves.take(line, address(1)), None));
        (100..200).for_each(|line| assert_eq!(halves.take(line, address(2)), None));
        (200..256).for_each(|line| assert_eq!(halves.take(line, address(3)), None));
        assert_eq!(halves.take(256, address(9)), Some(0));
        assert_eq!(halves.take(257, address(9)), Some(100));
        assert_eq!(halves.take(258, None), Some(1));
        // One of each: the oldest goes, the newest comes in.
        let mut halves = HalfLogons::default();
        let from = |line: u64| Some(IpAddr::V6((u128::from(line) << 64).into()));
        (0..256).for_each(|line| assert_eq!(halves.take(line, from(line)), None));
        assert_eq!(halves.take(256, from(256)), Some(0));
    }

    #[test]
    fn a_network_of_one_subscriber_is_one_address() {
        let mut halves = HalfLogons::default();
        let from = |line: u64| Some(IpAddr::V6((7 << 64 | u128::from(line)).into()));
        (0..128).for_each(|line| assert_eq!(halves.take(line, from(line)), None));
        assert_eq!(halves.take(128, from(128)), Some(0));
    }
}
