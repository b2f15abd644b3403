//! The beginning of a connection: accepted or dialled, with or without a TLS handshake.

use std::os::fd::OwnedFd;

use crate::conns::{Connection, Phase};
use crate::counters::HandshakeFailure;
use crate::dial::{DialFailure, DialId};
use crate::handshakes::{Awaits, Place};
use crate::service::{CloseReason, ConnId, Peer, Service};
use crate::sys;
use crate::timers::Timer;
use crate::tls_session::Session;

use super::{Engine, Entrance};

impl<C> Engine<'_, C> {
    /// Takes in a connection that the listener at this place accepted; `None` (and it is closed) when the worker is full.
    pub(crate) fn admit<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        fd: OwnedFd,
        peer: Peer,
        listener: usize,
    ) -> Option<ConnId> {
        if self.conns.len() >= self.options.connections_max {
            self.counters.refused_full.add(1);
            return None;
        }
        let Entrance { door, limits, tls } = self.entrances.get(listener)?;
        let mut conn = Connection::new(fd, *limits, self.now_ms);
        conn.arrived = self.arrivals.first();
        let door = *door;
        if let Some(tls) = tls {
            if self.handshakes.is_crowded(door, peer) {
                self.counters.count_handshake_failed(HandshakeFailure::TooMany);
                return None;
            }
            conn.tls = Some(Box::new(self.session(Session::server(tls, peer, door))?));
        }
        let with_tls = conn.tls.is_some();
        let id = self.conns.insert(conn);
        self.counters.accepted.add(1);
        self.counters.connections.set(self.conns.len() as u64);
        match with_tls {
            true => self.silent.take(Place::new(id.slot, door, peer)),
            false => self.open(service, id, peer, door),
        }
        self.mark(id.slot);
        Some(id)
    }

    /// Tells the service of a connection.
    pub(super) fn open<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        id: ConnId,
        peer: Peer,
        door: usize,
    ) {
        let dial = self.conns.get(id).and_then(|conn| conn.dial.as_ref()).map(|dial| dial.0);
        let user = match dial {
            None => Some(service.opened(id, peer, door)),
            Some(dial) => {
                self.counters.dialled.add(1);
                self.dials.opened(dial, id, self.now_ms);
                service.dialled(id, dial, peer)
            }
        };
        let period_ms = user.as_ref().map_or(0, |user| service.tick_ms(user));
        if let Some(conn) = self.conns.get(id) {
            if user.is_none() {
                conn.phase = Phase::Dead(CloseReason::ServiceClosed);
            }
            conn.user = user;
        }
        if period_ms > 0 {
            self.tick_at(self.now_ms.saturating_add(period_ms), Timer::Connection(id.to_bits()));
        }
    }

    /// Begins an attempt of a dial.
    pub(super) fn connect<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        dial: DialId,
        address: std::net::SocketAddr,
    ) {
        if self.conns.len() >= self.options.connections_max {
            return self.dial_failed(service, dial, DialFailure::Full);
        }
        let fd = match sys::connect_tcp(address) {
            Ok(fd) => fd,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                return self.dial_failed(service, dial, DialFailure::Refused(errno));
            }
        };
        let limits = self.dials.limits(dial).unwrap_or_else(|| self.options.limits());
        let mut conn = Connection::new(fd, limits, self.now_ms);
        conn.arrived = self.arrivals.first();
        conn.phase = Phase::Connecting;
        conn.dial = Some((dial, None));
        let id = self.conns.insert(conn);
        self.counters.connections.set(self.conns.len() as u64);
        self.dials.connecting(dial, id, self.now_ms);
        self.mark(id.slot);
    }

    /// Ends an attempt that has no connection yet.
    pub(super) fn give_up(&mut self, id: ConnId, why: DialFailure) {
        let Some(conn) = self.conns.get(id).filter(|conn| conn.user.is_none()) else { return };
        conn.phase = Phase::Dead(CloseReason::PeerReset);
        if let Some((_, failure)) = &mut conn.dial {
            failure.get_or_insert(why);
        }
        self.mark(id.slot);
    }

    pub(super) fn dial_failed<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        dial: DialId,
        why: DialFailure,
    ) {
        if let Some((retry_ms, address)) = self.dials.ended(dial, self.now_ms) {
            self.counters.dials_failed.add(1);
            service.dial_failed(dial, address, why, retry_ms, &mut self.outbox());
        }
    }

    /// The attempt in `slot` is over: the backend saw its socket become writable.
    pub(crate) fn connected<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32) {
        let id = self.conns.id_at(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        let dial = conn.dial.as_ref().map(|dial| dial.0);
        let (Phase::Connecting, Some(dial)) = (conn.phase, dial) else { return };
        let peer = match sys::connect_result(conn.fd()) {
            Ok(peer) => peer,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                return self.give_up(id, DialFailure::Refused(errno));
            }
        };
        conn.phase = Phase::Open;
        conn.message_ms = self.now_ms;
        self.dials.connected(dial, id);
        if let Some(tls) = self.dials.tls(dial) {
            let session = self.session(Session::client(&tls, peer, usize::MAX));
            let Some(mut session) = session else {
                return self.give_up(id, DialFailure::Tls("it could not begin".into()));
            };
            session.queued = true;
            if let Some(conn) = self.conns.at(slot) {
                conn.tls = Some(Box::new(session));
            }
            self.take_place(slot);
            self.resumable.push(slot);
        } else {
            self.open(service, id, peer, usize::MAX);
        }
        self.mark(slot);
    }

    /// Returns a session that could be made; one that could not is counted.
    fn session(&self, session: Result<Session, rustls::Error>) -> Option<Session> {
        session
            .inspect_err(|_| self.counters.count_handshake_failed(HandshakeFailure::Refused))
            .ok()
    }

    /// Gives the handshake in `slot` one of the places, once. Another one may have to go for it when all that came is looked at.
    pub(super) fn take_place(&mut self, slot: u32) {
        let Some(tls) = self.conns.at(slot).and_then(|conn| conn.tls.as_mut()) else { return };
        if std::mem::replace(&mut tls.placed, true) {
            return;
        }
        self.handshakes.take(Place::new(slot, tls.door, tls.peer));
        self.silent.leave(slot);
    }

    /// Ends handshakes for which there is no place.
    pub(super) fn end_handshakes(&mut self) {
        let conns = &self.conns;
        let awaits = |slot| match conns.peek(slot) {
            Some(conn) if conn.ended => Awaits::Nobody,
            Some(conn) if conn.tls.as_ref().is_some_and(|tls| tls.queued) => Awaits::Us,
            _ => Awaits::Peer,
        };
        let silent = |slot| match conns.peek(slot) {
            Some(conn) if conn.ended => Awaits::Nobody,
            _ => Awaits::Peer,
        };
        let gone = self.handshakes.end(awaits).into_iter().chain(self.silent.end(silent));
        for gone in gone.collect::<Vec<_>>() {
            if let Some(conn) = self.conns.at(gone) {
                conn.phase = Phase::Dead(CloseReason::Overload);
                if let Some(tls) = &mut conn.tls {
                    tls.failure.get_or_insert(HandshakeFailure::TooMany);
                }
                self.mark(gone);
            }
        }
    }
}
