//! Connections that a door opens itself: dials, each a list of addresses and at most one connection.
//!
//! A dial tries its addresses in turn. After each failure it waits, longer each time, with a random part, so that
//! all nodes that lost the same server do not come back at one instant. After a connection that was good it begins
//! with the shortest wait again: one that lived for longer than the longest wait, or, where only the service knows,
//! one that lived for a second after the service had said so.

use std::fmt;
use std::net::SocketAddr;

use crate::conns::NEVER;
use crate::options::Limits;
use crate::service::ConnId;
use crate::tls::ClientTls;

/// Dials of one worker.
pub(crate) const DIALS_MAX: usize = 256;

/// How long a connection that the service called good has to live to be one.
const GOOD_MS: u64 = 1_000;

/// Where to, and how patiently.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Tried in turn, one after the other. At least one.
    pub addresses: Vec<SocketAddr>,
    /// TLS as a client; `None` = plain bytes.
    pub tls: Option<ClientTls>,
    /// How long one attempt may take, in ms, TLS handshake not counted. At least 1.
    pub connect_ms_max: u64,
    /// The wait after the first failure, in ms; it doubles with each further one. At least 1.
    pub backoff_ms_min: u64,
    /// The longest wait, in ms. Each wait is a random time from half of it to all of it.
    pub backoff_ms_max: u64,
    /// Limits of its connections; `None` = those of the worker's [`Options`](crate::Options).
    pub limits: Option<Limits>,
    /// Only the service knows whether a connection is good, and says so with
    /// [`Outbox::confirm`](crate::Outbox::confirm): a server may take connections and turn everybody away.
    pub is_confirmed: bool,
}

impl Dial {
    /// Plain bytes to `addresses`; an attempt takes 5 s, waits take from 100 ms to 30 s.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self {
            addresses,
            tls: None,
            connect_ms_max: 5_000,
            backoff_ms_min: 100,
            backoff_ms_max: 30_000,
            limits: None,
            is_confirmed: false,
        }
    }
}

/// A dial of one worker: it lives until it is hung up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DialId {
    index: u32,
    generation: u32,
}

/// Why an attempt of a dial ended without a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialFailure {
    /// The kernel's error number: refused, unreachable, out of descriptors.
    Refused(i32),
    /// No answer within `connect_ms_max`.
    TimedOut,
    /// The TLS handshake failed, was too slow, or was one too many: why, in words.
    Tls(Box<str>),
    /// The worker has as many connections as it may have.
    Full,
    /// It was connected, and the service has no use for it.
    Declined,
}

impl fmt::Display for DialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(errno) => std::io::Error::from_raw_os_error(*errno).fmt(f),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Tls(why) => write!(f, "the TLS handshake failed: {why}"),
            Self::Declined => f.write_str("the connection was made and not wanted"),
            Self::Full => f.write_str("the worker has no place for another connection"),
        }
    }
}

/// What a dial is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting { due_ms: u64 },
    Connecting { id: ConnId, until_ms: u64 },
    Open { id: ConnId, since_ms: u64 },
}

struct DialState {
    dial: Dial,
    state: State,
    /// The address of the present attempt, or of the next.
    next: usize,
    failures: u32,
    /// When the service said that the present connection is good.
    good_since_ms: Option<u64>,
}

impl DialState {
    /// Reports whether the connection that ends now was good.
    fn was_good(&self, since_ms: u64, now_ms: u64) -> bool {
        match self.dial.is_confirmed {
            true => self.good_since_ms.is_some_and(|good_ms| now_ms >= good_ms + GOOD_MS),
            false => now_ms.saturating_sub(since_ms) > self.dial.backoff_ms_max.max(1),
        }
    }
}

struct DialSlot {
    generation: u32,
    dial: Option<DialState>,
}

/// What a dial has to do now.
pub(crate) enum Due {
    Connect { dial: DialId, address: SocketAddr },
    GiveUp { id: ConnId },
}

/// All dials of a worker.
pub(crate) struct Dials {
    slots: Vec<DialSlot>,
    /// When the next one has something to do, or `NEVER`.
    due_ms: u64,
    random: u64,
}

impl Dials {
    pub(crate) fn new(seed: u64) -> Self {
        Self { slots: Vec::new(), due_ms: NEVER, random: seed }
    }

    pub(crate) fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Adds a dial that connects at once; `None` when there are too many, or it has no address.
    pub(crate) fn add(&mut self, dial: Dial, now_ms: u64) -> Option<DialId> {
        if dial.addresses.is_empty() {
            return None;
        }
        let state = State::Waiting { due_ms: now_ms };
        let dial = Some(DialState { dial, state, next: 0, failures: 0, good_since_ms: None });
        let index = match self.slots.iter().position(|slot| slot.dial.is_none()) {
            Some(free) => free,
            None if self.slots.len() < DIALS_MAX => {
                self.slots.push(DialSlot { generation: 0, dial: None });
                self.slots.len() - 1
            }
            None => return None,
        };
        self.slots[index].dial = dial;
        let generation = self.slots[index].generation;
        self.schedule();
        Some(DialId { index: u32::try_from(index).unwrap_or(u32::MAX), generation })
    }

    /// Ends a dial; `Some` when it was there, with the connection that it has.
    pub(crate) fn remove(&mut self, id: DialId) -> Option<Option<ConnId>> {
        self.dial(id)?;
        let slot = &mut self.slots[id.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let dial = slot.dial.take()?;
        self.schedule();
        match dial.state {
            State::Waiting { .. } => Some(None),
            State::Connecting { id, .. } | State::Open { id, .. } => Some(Some(id)),
        }
    }

    fn dial(&mut self, id: DialId) -> Option<&mut DialState> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.dial.as_mut() } else { None }
    }

    pub(crate) fn tls(&mut self, id: DialId) -> Option<ClientTls> {
        self.dial(id)?.dial.tls.clone()
    }

    /// The limits of its connections, where it has some of its own.
    pub(crate) fn limits(&mut self, id: DialId) -> Option<Limits> {
        self.dial(id)?.dial.limits
    }

    /// Something that is due, if anything is.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<Due> {
        if self.due_ms > now_ms {
            return None;
        }
        let found = self.slots.iter_mut().enumerate().find_map(|(index, slot)| {
            let dial = slot.dial.as_mut()?;
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            match dial.state {
                State::Waiting { due_ms } if due_ms <= now_ms => {
                    // Whoever takes it says at once what became of it.
                    dial.state = State::Waiting { due_ms: NEVER };
                    let address = dial.dial.addresses[dial.next % dial.dial.addresses.len()];
                    let dial = DialId { index, generation: slot.generation };
                    Some(Due::Connect { dial, address })
                }
                State::Connecting { id, until_ms } if until_ms <= now_ms => {
                    dial.state = State::Connecting { id, until_ms: NEVER };
                    Some(Due::GiveUp { id })
                }
                _ => None,
            }
        });
        self.schedule();
        found
    }

    pub(crate) fn connecting(&mut self, id: DialId, conn: ConnId, now_ms: u64) {
        if let Some(dial) = self.dial(id) {
            let until_ms = now_ms.saturating_add(dial.dial.connect_ms_max.max(1));
            dial.state = State::Connecting { id: conn, until_ms };
        }
        self.schedule();
    }

    /// TCP is connected: what follows has time limits of its own.
    pub(crate) fn connected(&mut self, id: DialId, conn: ConnId) {
        if let Some(dial) = self.dial(id) {
            dial.state = State::Connecting { id: conn, until_ms: NEVER };
        }
        self.schedule();
    }

    pub(crate) fn opened(&mut self, id: DialId, conn: ConnId, now_ms: u64) {
        if let Some(dial) = self.dial(id) {
            dial.state = State::Open { id: conn, since_ms: now_ms };
            dial.good_since_ms = None;
        }
        self.schedule();
    }

    /// The service says that the connection is good; false when there is none.
    pub(crate) fn confirm(&mut self, id: DialId, now_ms: u64) -> bool {
        let dial = self.dial(id).filter(|dial| matches!(dial.state, State::Open { .. }));
        dial.is_some_and(|dial| {
            dial.good_since_ms.get_or_insert(now_ms);
            true
        })
    }

    /// The attempt failed or the connection ended: the dial waits. The wait in ms, and which address it was;
    /// `None` when the dial was hung up.
    pub(crate) fn ended(&mut self, id: DialId, now_ms: u64) -> Option<(u64, SocketAddr)> {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut random = self.random;
        random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random ^= random >> 27;
        let dial = self.dial(id)?;
        let longest_ms = dial.dial.backoff_ms_max.max(1);
        if let State::Open { since_ms, .. } = dial.state
            && dial.was_good(since_ms, now_ms)
        {
            dial.failures = 0;
        }
        let doubled = 1u64.checked_shl(dial.failures).unwrap_or(u64::MAX);
        let wait_ms = dial.dial.backoff_ms_min.max(1).saturating_mul(doubled).min(longest_ms);
        let wait_ms = wait_ms - random % (wait_ms / 2 + 1);
        let address = dial.dial.addresses[dial.next % dial.dial.addresses.len()];
        dial.failures = dial.failures.saturating_add(1).min(63);
        dial.next = (dial.next + 1) % dial.dial.addresses.len();
        dial.state = State::Waiting { due_ms: now_ms.saturating_add(wait_ms) };
        self.schedule();
        Some((wait_ms, address))
    }

    /// No dial does anything any more.
    pub(crate) fn stop(&mut self) {
        self.slots.clear();
        self.due_ms = NEVER;
    }

    fn schedule(&mut self) {
        let dials = self.slots.iter().filter_map(|slot| slot.dial.as_ref());
        let due = dials.map(|dial| match dial.state {
            State::Waiting { due_ms } => due_ms,
            State::Connecting { until_ms, .. } => until_ms,
            State::Open { .. } => NEVER,
        });
        self.due_ms = due.min().unwrap_or(NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial(ports: &[u16]) -> Dial {
        let addresses = ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port)));
        Dial::new(addresses.collect())
    }

    fn due(dials: &mut Dials, now_ms: u64) -> Option<(DialId, u16)> {
        match dials.take_due(now_ms) {
            Some(Due::Connect { dial, address }) => Some((dial, address.port())),
            _ => None,
        }
    }

    #[test]
    fn waits_grow_to_their_cap_with_a_random_part_and_addresses_take_turns() {
        let mut dials = Dials::new(1);
        let id = dials.add(dial(&[1, 2, 3]), 0).unwrap();
        let mut now_ms = 0;
        let mut waits = Vec::new();
        for attempt in 0..30u32 {
            let port = u16::try_from(attempt % 3).unwrap() + 1;
            assert_eq!(due(&mut dials, now_ms), Some((id, port)));
            assert_eq!(due(&mut dials, now_ms), None, "one attempt at a time");
            let (wait_ms, address) = dials.ended(id, now_ms).unwrap();
            assert_eq!(address.port(), port);
            let most = (100u64 << attempt.min(40)).min(30_000);
            assert!((most / 2..=most).contains(&wait_ms), "{wait_ms} after {attempt}");
            assert_eq!(dials.due_ms(), now_ms + wait_ms);
            assert_eq!(due(&mut dials, now_ms + wait_ms - 1), None);
            waits.push(wait_ms);
            now_ms += wait_ms;
        }
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 20, "there is a random part");
    }

    #[test]
    fn a_connection_that_lived_long_makes_waits_short_again() {
        let mut dials = Dials::new(1);
        let id = dials.add(dial(&[1]), 0).unwrap();
        let conn = ConnId { slot: 1, generation: 0 };
        for _ in 0..10 {
            dials.ended(id, 0).unwrap();
        }
        dials.opened(id, conn, 0);
        assert_eq!(dials.due_ms(), NEVER);
        assert!(dials.ended(id, 10).unwrap().0 > 10_000, "it opened and closed at once");
        dials.opened(id, conn, 0);
        assert!(dials.ended(id, 31_000).unwrap().0 <= 100);
    }

    #[test]
    fn only_a_connection_that_the_service_called_good_begins_anew_where_it_has_to_say_so() {
        let mut dials = Dials::new(1);
        let id = dials.add(Dial { is_confirmed: true, ..dial(&[1]) }, 0).unwrap();
        let conn = ConnId { slot: 3, generation: 1 };
        assert!(!dials.confirm(id, 0), "there is no connection");
        for _ in 0..40 {
            dials.ended(id, 0).unwrap();
        }
        let mut ends = |good_ms: Option<u64>, end_ms| {
            dials.opened(id, conn, 0);
            good_ms.into_iter().for_each(|ms| assert!(dials.confirm(id, ms)));
            dials.ended(id, end_ms).unwrap().0
        };
        assert!(ends(None, 3_600_000) > 10_000, "however long it was open");
        assert!(ends(Some(5_000), 5_999) > 10_000, "it was turned away at once");
        assert!(ends(Some(5_000), 6_000) <= 100);
        assert!(ends(None, 9_000) <= 200, "the next connection has to be good itself");
    }

    #[test]
    fn an_attempt_is_given_up_once_and_lines_are_bounded() {
        let mut dials = Dials::new(1);
        let id = dials.add(dial(&[1]), 0).unwrap();
        let conn = ConnId { slot: 1, generation: 0 };
        assert!(due(&mut dials, 0).is_some());
        dials.connecting(id, conn, 0);
        assert!(dials.take_due(4_999).is_none());
        assert!(matches!(dials.take_due(5_000), Some(Due::GiveUp { id }) if id == conn));
        assert!(dials.take_due(5_000).is_none());
        assert_eq!(dials.remove(id), Some(Some(conn)));
        assert_eq!((dials.remove(id), dials.ended(id, 0)), (None, None));
        assert!(dials.add(dial(&[]), 0).is_none());
        for _ in 0..DIALS_MAX {
            assert_ne!(dials.add(dial(&[1]), 0), Some(id), "a dial of the past reaches none");
        }
        assert!(dials.add(dial(&[1]), 0).is_none());
    }
}
