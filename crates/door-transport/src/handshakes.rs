//! Places for TLS handshakes, of which a worker has so many at once, and who has to go when they are all taken.
//!
//! A good handshake waits milliseconds for its peer, one that somebody begins and leaves waits for good. So a new one comes in, and the
//! one goes that has waited longest: at the door that has the most places, and there of the peer that has the most, if that is clearly
//! more than its fair share, and else of all peers that have at least as many as the average: whoever has fewer loses none to a flood,
//! from however many addresses it comes. The addresses of one network of IPv6 (/64) are one peer, since one host can have them all. Where
//! all of those wait for us, as the processor is what is short, the newest of them goes: the others come to their turn. Who goes is
//! judged once per wake-up, when everything that came is looked at: an answer that is there keeps its place.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crate::service::Peer;

/// Of a crowd at the limit so many parts of all places are freed at once.
const AT_ONCE: usize = 16;

/// A peer has clearly more than its fair share when it is above it by more than one such part of all places.
const GRACE: usize = 16;

/// A handshake that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its connection.
    pub(crate) slot: u32,
    /// Where that came in; `usize::MAX` for those that we opened.
    pub(crate) door: usize,
    /// Who is at the other end.
    group: Group,
}

/// Those whom one host can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    /// All processes of this machine, over Unix sockets.
    Local,
    /// One address of IPv4, or the first address of a network (/64) of IPv6.
    Net(IpAddr),
}

impl Group {
    fn of(peer: Peer) -> Group {
        let Peer::Tcp(address) = peer else { return Group::Local };
        Group::Net(match address.ip().to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
            ip => ip,
        })
    }
}

impl Place {
    pub(crate) fn new(slot: u32, door: usize, peer: Peer) -> Place {
        Place { slot, door, group: Group::of(peer) }
    }
}

/// Whom a handshake waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Its peer is gone.
    Nobody,
    /// We said our part.
    Peer,
    /// What the peer said is not looked at yet.
    Us,
}

/// Those of some peers at one door.
#[derive(Clone, Debug, Default)]
struct Crowd {
    door: usize,
    groups: HashSet<Group>,
}

impl Crowd {
    fn has(&self, place: &Place) -> bool {
        self.door == place.door && self.groups.contains(&place.group)
    }
}

/// Every handshake that is not over, the oldest first.
#[derive(Debug)]
pub(crate) struct Handshakes {
    places: Vec<Place>,
    max: usize,
    /// The largest crowd, where all of it waited for us when it was last looked at, and how many handshakes are to be worked on before
    /// it is looked at again.
    awaits_us: Option<(Crowd, usize)>,
}

impl Handshakes {
    /// For so many at once, at least one.
    pub(crate) fn new(max: usize) -> Handshakes {
        Handshakes { places: Vec::new(), max: max.max(1), awaits_us: None }
    }

    /// A handshake was worked on: it waits for its peer now, or is over.
    pub(crate) fn worked(&mut self) {
        let of = self.awaits_us.take();
        self.awaits_us = of.and_then(|(crowd, left)| Some((crowd, left.checked_sub(1)?)));
    }

    /// Whether a newcomer is of a crowd that keeps us too busy: it would be sent away once it had said its first message.
    pub(crate) fn is_crowded(&self, door: usize, peer: Peer) -> bool {
        let newcomer = Place::new(0, door, peer);
        let is_of = |(of, _): &(Crowd, usize)| of.has(&newcomer);
        self.places.len() >= self.max && self.awaits_us.as_ref().is_some_and(is_of)
    }

    /// Gives a place to a handshake that has none, until [`end`](Self::end) judges who stays.
    pub(crate) fn take(&mut self, place: Place) {
        self.places.push(place);
    }

    /// Returns the connections that go, where there are more handshakes than places: some at once, so that a flood costs a look for many
    /// newcomers. They may be among these.
    pub(crate) fn end(&mut self, awaits: impl Fn(u32) -> Awaits) -> Vec<u32> {
        let mut gone = Vec::new();
        while self.places.len() > self.max {
            gone.append(&mut self.end_part(&awaits));
        }
        gone
    }

    fn end_part(&mut self, awaits: impl Fn(u32) -> Awaits) -> Vec<u32> {
        if self.awaits_us.is_none() {
            let crowd = self.largest_crowd();
            let gone = self.end_some(&crowd, awaits);
            if !gone.is_empty() {
                return gone;
            }
            self.awaits_us = Some((crowd, self.max / AT_ONCE));
        }
        let is_of = |place: &Place| self.awaits_us.as_ref().is_some_and(|(of, _)| of.has(place));
        let newest = self.places.iter().rposition(is_of).unwrap_or(self.places.len() - 1);
        vec![self.places.remove(newest).slot]
    }

    /// Frees the place of a connection, if it has one.
    pub(crate) fn leave(&mut self, slot: u32) {
        if let Some(at) = self.places.iter().position(|place| place.slot == slot) {
            self.places.remove(at);
        }
    }

    /// Ends those whose peer is gone, and else the oldest of a crowd that wait for their peer.
    fn end_some(&mut self, crowd: &Crowd, awaits: impl Fn(u32) -> Awaits) -> Vec<u32> {
        let most = self.max / AT_ONCE + 1;
        let mut gone = Vec::new();
        self.places.retain(|place| {
            let goes = awaits(place.slot) == Awaits::Nobody;
            gone.extend(goes.then_some(place.slot));
            !goes
        });
        if !gone.is_empty() {
            return gone;
        }
        self.places.retain(|place| {
            let goes = gone.len() < most && crowd.has(place) && awaits(place.slot) == Awaits::Peer;
            gone.extend(goes.then_some(place.slot));
            !goes
        });
        gone
    }

    /// Finds the peer with the most places at the door with the most; where none has clearly more than its share, all at that door that
    /// have at least as many as the average.
    fn largest_crowd(&self) -> Crowd {
        let (doors, order) = count(self.places.iter().map(|place| place.door));
        let Some(door) = order.into_iter().rev().max_by_key(|door| doors[door]) else {
            return Crowd::default();
        };
        let of_door = self.places.iter().filter(|place| place.door == door);
        let (has, order) = count(of_door.map(|place| place.group));
        let average = doors[&door] / has.len();
        let largest = order.iter().rev().max_by_key(|group| has[group]);
        let above = |group: &&Group| has[group] > average + self.max / GRACE;
        let groups = match largest.filter(above) {
            Some(group) => HashSet::from([*group]),
            None => order.iter().filter(|group| has[group] >= average).copied().collect(),
        };
        Crowd { door, groups }
    }
}

/// Returns how often each occurs, and each once in the order of their first.
fn count<T: Copy + Eq + std::hash::Hash>(
    all: impl Iterator<Item = T>,
) -> (HashMap<T, usize>, Vec<T>) {
    let (mut counts, mut order) = (HashMap::<T, usize>::new(), Vec::new());
    for one in all {
        let count = counts.entry(one).or_default();
        *count += 1;
        if *count == 1 {
            order.push(one);
        }
    }
    (counts, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(slot: u32, door: usize, host: u8) -> Place {
        Place::new(slot, door, Peer::Tcp(([10, 0, 0, host], 4000).into()))
    }

    fn slots(handshakes: &Handshakes) -> Vec<u32> {
        handshakes.places.iter().map(|place| place.slot).collect()
    }

    fn take_in(
        handshakes: &mut Handshakes,
        place: Place,
        awaits: impl Fn(u32) -> Awaits,
    ) -> Vec<u32> {
        handshakes.take(place);
        handshakes.end(awaits)
    }

    fn take(handshakes: &mut Handshakes, place: Place) -> Option<u32> {
        let gone = take_in(handshakes, place, |_| Awaits::Peer);
        assert!(gone.len() <= 1);
        gone.first().copied()
    }

    #[test]
    fn the_newest_comes_in_and_the_oldest_goes() {
        let mut handshakes = Handshakes::new(3);
        for slot in 0..3 {
            assert_eq!(take(&mut handshakes, place(slot, 0, 1)), None);
        }
        assert_eq!(take(&mut handshakes, place(3, 0, 1)), Some(0));
        assert_eq!(take(&mut handshakes, place(4, 0, 1)), Some(1));
        handshakes.leave(3);
        handshakes.leave(99);
        assert_eq!(take(&mut handshakes, place(5, 0, 1)), None);
        assert_eq!(slots(&handshakes), [2, 4, 5]);
    }

    #[test]
    fn whoever_left_goes_first_and_whoever_waits_for_us_stays() {
        let mut handshakes = Handshakes::new(3);
        let awaits = |slot| match slot {
            2 => Awaits::Peer,
            9 => Awaits::Nobody,
            _ => Awaits::Us,
        };
        for slot in 0..3 {
            assert!(take_in(&mut handshakes, place(slot, 0, 1), awaits).is_empty());
        }
        assert_eq!(take_in(&mut handshakes, place(3, 0, 1), awaits), [2]);
        assert_eq!(take_in(&mut handshakes, place(4, 0, 1), awaits), [4], "all wait for us");
        assert_eq!(take_in(&mut handshakes, place(5, 0, 2), awaits), [3], "another peer comes in");
        let peer = |host| Peer::Tcp(([10, 0, 0, host], 4000).into());
        assert!(handshakes.is_crowded(0, peer(1)) && !handshakes.is_crowded(0, peer(2)));
        let stale = take_in(&mut handshakes, place(6, 0, 1), |_| Awaits::Peer);
        assert_eq!(stale, [6], "nothing was worked on since");
        handshakes.worked();
        assert!(!handshakes.is_crowded(0, peer(1)));
        assert_eq!(take_in(&mut handshakes, place(9, 0, 2), awaits), [9]);
        assert_eq!(slots(&handshakes), [0, 1, 5]);
    }

    #[test]
    fn a_crowd_goes_in_parts() {
        let mut handshakes = Handshakes::new(64);
        (0..64).for_each(|slot| assert_eq!(take(&mut handshakes, place(slot, 0, 1)), None));
        let gone = take_in(&mut handshakes, place(64, 0, 1), |_| Awaits::Peer);
        assert_eq!(gone, [0, 1, 2, 3, 4]);
        (65..69).for_each(|slot| assert_eq!(take(&mut handshakes, place(slot, 0, 1)), None));
    }

    #[test]
    fn a_crowded_door_takes_no_place_from_another() {
        let mut handshakes = Handshakes::new(4);
        assert_eq!(take(&mut handshakes, place(0, 1, 7)), None);
        for slot in 1..=20 {
            let gone = take(&mut handshakes, place(slot, 0, 1));
            assert_eq!(gone, (slot > 3).then(|| slot - 3), "of its own door");
        }
        // The other door gets its share of those that the crowd has.
        assert_eq!(take(&mut handshakes, place(21, 1, 7)), Some(18));
        assert_eq!(slots(&handshakes), [0, 19, 20, 21]);
    }

    #[test]
    fn a_crowd_from_one_address_takes_no_place_from_another() {
        let mut handshakes = Handshakes::new(4);
        take(&mut handshakes, place(0, 0, 7));
        take(&mut handshakes, place(1, 0, 8));
        for slot in 2..=20 {
            let gone = take(&mut handshakes, place(slot, 0, 1));
            assert_eq!(gone, (slot > 3).then(|| slot - 2), "of its own");
        }
        assert_eq!(slots(&handshakes), [0, 1, 19, 20]);
        // Addresses with one place each: the oldest goes.
        assert_eq!(take(&mut handshakes, place(21, 0, 9)), Some(19));
        assert_eq!(take(&mut handshakes, place(22, 0, 10)), Some(0));
    }

    #[test]
    fn among_many_crowds_of_one_a_crowd_of_two_loses_nothing() {
        let mut handshakes = Handshakes::new(64);
        let good = [62, 63];
        for slot in 0..62u8 {
            assert_eq!(take(&mut handshakes, place(slot.into(), 0, slot)), None);
        }
        for slot in good {
            assert_eq!(take(&mut handshakes, place(slot, 0, 200)), None);
        }
        let gone = take_in(&mut handshakes, place(64, 0, 64), |_| Awaits::Peer);
        assert_eq!(gone, [0, 1, 2, 3, 4], "the oldest of all, not those of the crowd of two");
    }

    /// Twenty hosts, each with its share: who has fewer loses no place to them, nor is it sent away.
    #[test]
    fn a_flood_from_many_addresses_takes_no_place_from_who_has_few() {
        let mut handshakes = Handshakes::new(64);
        let good = place(1_000, 0, 200);
        handshakes.take(good);
        (0..64u8).for_each(|n| handshakes.take(place(n.into(), 0, n % 20)));
        let gone = handshakes.end(|_| Awaits::Peer);
        assert_eq!((gone.len(), gone.contains(&good.slot)), (5, false));
        (64..128u8).for_each(|n| handshakes.take(place(n.into(), 0, n % 20)));
        let gone = handshakes.end(|_| Awaits::Us);
        assert!(handshakes.places.len() == 64 && !gone.contains(&good.slot), "{gone:?}");
        let peer = |host| Peer::Tcp(([10, 0, 0, host], 4000).into());
        assert!(handshakes.is_crowded(0, peer(1)) && !handshakes.is_crowded(0, peer(200)));
    }

    #[test]
    fn the_addresses_of_one_network_of_ipv6_are_one_crowd() {
        let at = |slot: u32, address: &str| {
            Place::new(slot, 0, Peer::Tcp((address.parse::<IpAddr>().unwrap(), 4000).into()))
        };
        let mut handshakes = Handshakes::new(4);
        assert_eq!(take(&mut handshakes, at(0, "2001:db8:0:1::1")), None);
        assert_eq!(take(&mut handshakes, at(1, "::ffff:10.0.0.1")), None);
        assert_eq!(take(&mut handshakes, at(2, "2001:db8:0:2::1")), None);
        assert_eq!(take(&mut handshakes, at(3, "2001:db8:0:2::2")), None);
        assert_eq!(take(&mut handshakes, at(4, "2001:db8:0:2:ffff::3")), Some(2));
        assert_eq!(take(&mut handshakes, at(5, "2001:db8:0:2:ffff::4")), Some(3));
        let other = at(6, "::ffff:10.0.0.2").group;
        assert_ne!(at(1, "::ffff:10.0.0.1").group, other, "IPv4 in IPv6 is no network");
    }

    #[test]
    fn one_place_goes_from_hand_to_hand() {
        let mut handshakes = Handshakes::new(1);
        assert_eq!(take(&mut handshakes, place(0, 0, 1)), None);
        assert_eq!(take(&mut handshakes, place(1, 1, 2)), Some(0));
        assert_eq!(take(&mut handshakes, place(2, 0, 1)), Some(1));
    }
}
