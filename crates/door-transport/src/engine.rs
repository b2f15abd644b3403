//! What both backends share: from received bytes to the service, from the service to bytes to send,
//! limits, time-outs, the way to the end of a connection.
//!
//! A backend turns kernel events into [`Engine::feed`], [`Engine::ended`], [`Engine::failed`] and
//! [`Engine::sent`]; the engine only changes memory and lists every connection that wants something
//! from the kernel as *dirty*. After the service's turn the backend visits each dirty connection
//! once and brings the kernel in line with it: that is where all answers of a wake-up become one
//! send.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::buffer::{Out, Output, Pool};
use crate::conns::{Connection, NEVER, Phase, Slab};
use crate::counters::{Counters, HandshakeFailure};
use crate::dial::{DialFailure, DialId, Dials, Due};
use crate::handshakes::{Awaits, Handshakes, Place};
use crate::listen::Listener;
use crate::options::{Limits, Options};
use crate::outbox::Outbox;
use crate::service::{CloseReason, ConnId, Peer, Service, Step, Then, Turn};
use crate::sys;
use crate::timers::{Timer, Timers};
use crate::tls::ServerTls;
use crate::tls_session::{Event, Session, is_client_hello};
use crate::totals::{self, GIVE_BACK_BYTES, Holder, Totals};
use crate::wake::Waker;

/// A whole scan of all connections for time-outs takes so long, in this many parts.
const SWEEP_MS: u64 = 250;
const SWEEP_PARTS: u32 = 5;
/// Handshakes that go on in one wake-up: each may cost as much as hundreds of messages of those who are through theirs.
const HANDSHAKES_PER_WAKEUP: u32 = 8;
/// For each place for a handshake so many peers may have connected and said nothing yet.
const SILENT_TIMES: usize = 4;
/// However many handshakes there may be: who leaves is looked for among them.
const SILENT_MAX: usize = 16_384;
/// How long a connection that we ended waits for the peer's end of stream.
const LINGER_MS_MAX: u64 = 1_000;
/// What peers get for taking their last answers when draining used up the whole grace.
const LAST_FLUSH_MS: u64 = 100;
/// What is received at once of what came before a stop.
const BEHIND_BYTES: usize = 16 * 1024;

/// What a connection gets from the listener that it came through.
struct Entrance {
    /// The number of the door, for the service.
    door: usize,
    limits: Limits,
    tls: Option<ServerTls>,
}

impl Entrance {
    fn of(place: usize, listener: &Listener, limits: Limits) -> Entrance {
        Entrance {
            door: listener.door().unwrap_or(place),
            limits: listener.limits().unwrap_or(limits),
            tls: listener.tls().cloned(),
        }
    }
}

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    Draining { until_ms: u64 },
    Closing { until_ms: u64 },
}

/// How one run of calls to the service ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It wants more bytes.
    Hungry,
    /// Its answers have no room left.
    Full,
    /// It waits for an answer of its own.
    Waiting,
    Closed {
        after_output: bool,
        /// What it closed on is the start of a TLS handshake.
        hello: bool,
    },
}

struct Delivered {
    consumed: usize,
    need: usize,
    end: End,
}

/// A worker's connections and their limits.
pub(crate) struct Engine<'o, C> {
    options: &'o Options,
    counters: &'o Counters,
    pub(crate) conns: Slab<C>,
    pool: Pool,
    dirty: Vec<u32>,
    /// Paused connections whose answers went out, and handshakes that have something to do.
    resumable: Vec<u32>,
    /// By listener.
    entrances: Vec<Entrance>,
    handshakes: Handshakes,
    /// Connections at doors with TLS whose peers have not said their first message: they cost a descriptor each.
    silent: Handshakes,
    totals: Totals,
    started: Instant,
    now: Instant,
    active: Instant,
    now_ms: u64,
    sweep_due_ms: u64,
    sweep_from: u32,
    /// When the next of all these is due: the sweep, a tick, a dial.
    due_ms: u64,
    timers: Timers,
    dials: Dials,
    stop: Stop,
    /// The next turn must not wait.
    again: bool,
}

impl<'o, C> Engine<'o, C> {
    pub(crate) fn new(
        options: &'o Options,
        counters: &'o Counters,
        listeners: &[Listener],
    ) -> Self {
        let now = Instant::now();
        Self {
            options,
            counters,
            conns: Slab::new(),
            pool: Pool::default(),
            dirty: Vec::new(),
            resumable: Vec::new(),
            entrances: (0..)
                .zip(listeners)
                .map(|(place, listener)| Entrance::of(place, listener, options.limits()))
                .collect(),
            handshakes: Handshakes::new(options.tls_handshakes_max),
            silent: Handshakes::new(silent_max(options.tls_handshakes_max)),
            totals: Totals::default(),
            started: now,
            now,
            active: now,
            now_ms: 0,
            sweep_due_ms: 0,
            sweep_from: 0,
            due_ms: 0,
            timers: Timers::default(),
            dials: Dials::new(seed()),
            stop: Stop::No,
            again: false,
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop != Stop::No
    }

    /// The loop came back from the kernel, with `events` things to do.
    pub(crate) fn woke(&mut self, events: usize) {
        self.now = Instant::now();
        let elapsed = self.now.duration_since(self.started).as_millis();
        self.now_ms = u64::try_from(elapsed).unwrap_or(NEVER);
        if events > 0 {
            self.active = self.now;
        }
        self.again = false;
        self.counters.wakeups.add(1);
    }

    /// Whether the last wake-up began so short a time ago that its clock still holds.
    pub(crate) fn woke_just_now(&self) -> bool {
        self.now.elapsed() < Duration::from_millis(1)
    }

    /// Whether there is nothing to do before something comes: no connection is to be visited, nor read on.
    pub(crate) fn is_quiet(&self) -> bool {
        self.dirty.is_empty() && self.resumable.is_empty() && !self.totals.choked
    }

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
    fn open<S: Service<Conn = C>>(&mut self, service: &mut S, id: ConnId, peer: Peer, door: usize) {
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

    fn tick_at(&mut self, due_ms: u64, timer: Timer) {
        let live = self.conns.len();
        let conns = &mut self.conns;
        self.timers.set(due_ms, timer, live, |id| conns.get(id).is_some());
        self.due_ms = self.due_ms.min(due_ms);
    }

    /// Asks the service for its own tick. Once, before the loop.
    pub(crate) fn begin<S: Service<Conn = C>>(&mut self, service: &S) {
        let period_ms = service.service_tick_ms();
        if period_ms > 0 {
            self.tick_at(period_ms, Timer::Service);
        }
    }

    /// Does what is due: time-outs, ticks, dials. One comparison where nothing is.
    #[inline]
    pub(crate) fn run_timers<S: Service<Conn = C>>(&mut self, service: &mut S) {
        if self.now_ms >= self.due_ms {
            self.run_due(service);
        }
    }

    #[inline(never)]
    fn run_due<S: Service<Conn = C>>(&mut self, service: &mut S) {
        let now_ms = self.now_ms;
        self.sweep();
        while let Some((due_ms, timer)) = self.timers.take(now_ms) {
            let period_ms = match timer {
                Timer::Connection(bits) => self.tick(service, ConnId::from_bits(bits)),
                Timer::Service => {
                    service.service_tick(now_ms, &mut self.outbox());
                    service.service_tick_ms()
                }
            };
            if period_ms > 0 {
                let next_ms = due_ms.saturating_add(period_ms);
                let missed = next_ms <= now_ms;
                self.tick_at(
                    if missed { now_ms.saturating_add(period_ms) } else { next_ms },
                    timer,
                );
            }
        }
        while let Some(due) = self.dials.take_due(now_ms) {
            match due {
                Due::Connect { dial, address } => self.connect(service, dial, address),
                Due::GiveUp { id } => self.give_up(id, DialFailure::TimedOut),
            }
        }
        self.due_ms = self.sweep_due_ms.min(self.asked_ms());
    }

    /// When the next tick or dial is due, or `NEVER`.
    fn asked_ms(&self) -> u64 {
        self.timers.due_ms().min(self.dials.due_ms())
    }

    /// One connection's tick; when its next one comes.
    fn tick<S: Service<Conn = C>>(&mut self, service: &mut S, id: ConnId) -> u64 {
        let Some(conn) = self.conns.get(id).filter(|conn| conn.phase == Phase::Open) else {
            return 0;
        };
        let Some(user) = &mut conn.user else { return 0 };
        let mut out = Out::new(&mut conn.output, &mut self.pool, self.options.output_bytes_max);
        let then = service.tick(id, user, self.now_ms, &mut out);
        let period_ms = service.tick_ms(user);
        self.obey(id.slot, then);
        period_ms
    }

    /// Does what the service said of a connection.
    fn obey(&mut self, slot: u32, then: Then) {
        let Some(conn) = self.conns.at(slot) else { return };
        match then {
            Then::Stay => {}
            Then::Resume => {
                conn.waiting = false;
                self.resumable.push(slot);
            }
            Then::Close { after_output } if conn.is_writable() => {
                let why = CloseReason::ServiceClosed;
                conn.phase = if after_output { Phase::Finishing(why) } else { Phase::Dead(why) };
            }
            Then::Close { .. } => {}
        }
        self.mark(slot);
    }

    /// Begins an attempt of a dial.
    fn connect<S: Service<Conn = C>>(
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
        conn.phase = Phase::Connecting;
        conn.dial = Some((dial, None));
        let id = self.conns.insert(conn);
        self.counters.connections.set(self.conns.len() as u64);
        self.dials.connecting(dial, id, self.now_ms);
        self.mark(id.slot);
    }

    /// Ends an attempt that has no connection yet.
    fn give_up(&mut self, id: ConnId, why: DialFailure) {
        let Some(conn) = self.conns.get(id).filter(|conn| conn.user.is_none()) else { return };
        conn.phase = Phase::Dead(CloseReason::PeerReset);
        if let Some((_, failure)) = &mut conn.dial {
            failure.get_or_insert(why);
        }
        self.mark(id.slot);
    }

    fn dial_failed<S: Service<Conn = C>>(
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
    fn take_place(&mut self, slot: u32) {
        let Some(tls) = self.conns.at(slot).and_then(|conn| conn.tls.as_mut()) else { return };
        if std::mem::replace(&mut tls.placed, true) {
            return;
        }
        self.handshakes.take(Place::new(slot, tls.door, tls.peer));
        self.silent.leave(slot);
    }

    /// Ends handshakes for which there is no place.
    fn end_handshakes(&mut self) {
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

    /// Puts a connection on the backend's list.
    pub(crate) fn mark(&mut self, slot: u32) {
        if let Some(conn) = self.conns.at(slot) {
            conn.mark(slot, &mut self.dirty);
        }
    }

    /// The connections to visit; give the list back with [`visited`](Self::visited).
    pub(crate) fn take_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dirty)
    }

    /// Gives an emptied list back for its memory, and publishes the levels of this wake-up.
    pub(crate) fn visited(&mut self, mut list: Vec<u32>) {
        list.clear();
        if self.dirty.is_empty() {
            self.dirty = list;
        }
        self.counters.output_bytes.set(self.totals.output as u64);
        self.counters.input_bytes.set(self.totals.input as u64);
        self.counters.memory_bytes.set(self.totals.memory() as u64);
    }

    /// Bytes arrived from the peer in `slot`.
    #[inline]
    pub(crate) fn feed<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32, chunk: &[u8]) {
        self.counters.receives.add(1);
        self.counters.bytes_in.add(chunk.len());
        let choked = self.totals.choked;
        let Some(conn) = self.conns.at(slot) else { return };
        if conn.phase != Phase::Open {
            return;
        }
        // One branch for all that is out of the ordinary.
        if choked | conn.paused | conn.tls.is_some() {
            self.feed_slowly(service, slot, chunk);
        } else {
            self.hand_over(service, slot, chunk);
        }
    }

    /// Takes bytes of a connection that has TLS or is perhaps not to be read.
    #[inline(never)]
    fn feed_slowly<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32, chunk: &[u8]) {
        let Some(conn) = self.conns.at(slot) else { return };
        let Some(tls) = &mut conn.tls else { return self.feed_plain(service, slot, chunk) };
        tls.append(chunk, &mut self.pool);
        if tls.is_established() {
            return self.read_records(service, slot);
        }
        // Whoever has not said its first message whole has nothing but a socket.
        if !tls.has_begun() {
            return;
        }
        if tls.is_over_full() {
            self.read_records(service, slot);
        } else if !tls.queued {
            // Its turn comes with those who read on, so that many at once do not hold up everybody else.
            tls.queued = true;
            self.resumable.push(slot);
        }
        self.take_place(slot);
    }

    /// Decrypts what came and hands it over.
    fn read_records<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32) {
        // Taken out while the service is called; nothing else looks for it meanwhile.
        let Some(mut tls) = self.conns.at(slot).and_then(|conn| conn.tls.take()) else { return };
        let (peer, door) = (tls.peer, tls.door);
        let result = tls.read(&mut |event| match event {
            Event::Established(secured) => {
                self.handshakes.leave(slot);
                self.counters.handshakes.add(1);
                let id = self.conns.id_at(slot);
                self.open(service, id, peer, door);
                let now_ms = self.now_ms;
                if let Some(conn) = self.conns.at(slot)
                    && let Some(user) = &mut conn.user
                {
                    conn.message_ms = now_ms;
                    service.secured(id, user, &secured);
                }
            }
            Event::Bytes(bytes) => self.feed_plain(service, slot, bytes),
        });
        tls.release(&mut self.pool);
        self.totals.tls_memory += tls.memory();
        self.totals.tls_memory -= tls.memory_counted;
        tls.memory_counted = tls.memory();
        let (unsent, closed) = (tls.has_unsent(), tls.is_peer_closed());
        let endless = !tls.is_established() && tls.is_over_full();
        if endless {
            tls.failure = Some(HandshakeFailure::Refused);
        }
        let Some(conn) = self.conns.at(slot) else { return };
        conn.tls = Some(tls);
        if endless {
            conn.phase = Phase::Dead(CloseReason::TooLarge);
            self.mark(slot);
        } else if result.is_err() {
            if conn.phase == Phase::Open {
                conn.phase = Phase::Finishing(CloseReason::TlsBroken);
            }
            self.mark(slot);
        } else if closed {
            self.ended(service, slot);
        } else if unsent {
            self.mark(slot);
        }
    }

    /// Plain bytes arrived, or decrypted ones.
    fn feed_plain<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32, bytes: &[u8]) {
        let choked = self.totals.choked;
        let Some(conn) = self.conns.at(slot) else { return };
        if conn.phase != Phase::Open {
            return;
        }
        if conn.is_held(choked) {
            self.hold(slot, bytes);
        } else {
            self.hand_over(service, slot, bytes);
        }
    }

    /// The connection in `slot`, if it may be sent to, with what waits made ready.
    #[inline]
    pub(crate) fn sendable(&mut self, slot: u32) -> Option<&mut Connection<C>> {
        let conn = self.conns.at(slot)?;
        if !conn.is_writable() {
            return None;
        }
        conn.take_off(&mut self.pool);
        Some(conn)
    }

    /// Keeps bytes that came although the connection is not to be read.
    fn hold(&mut self, slot: u32, chunk: &[u8]) {
        let Some(conn) = self.conns.at(slot) else { return };
        if !conn.paused {
            conn.paused = true;
            conn.partial_ms = NEVER;
            self.counters.paused_reads.add(1);
        }
        self.pool.equip(&mut conn.input);
        conn.input.append(chunk);
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        self.bound_input(slot);
        self.mark(slot);
    }

    /// Where the unread bytes of all connections are too many, closes one that has more than its share of them: the one in `slot`, or
    /// else the one that has the most. Returns whether it was the one in `slot`.
    fn bound_input(&mut self, slot: u32) -> bool {
        let max = self.options.input_total_bytes_max;
        if self.totals.input_memory <= max {
            return false;
        }
        let share = max / self.conns.len().max(1);
        let holds =
            |conn: &Connection<C>| conn.input_memory_counted > share && !conn.input.is_empty();
        let victim = match self.conns.at(slot).is_some_and(|conn| holds(conn)) {
            true => Some(slot),
            false => {
                self.conns.largest(|conn| if holds(conn) { conn.input_memory_counted } else { 0 })
            }
        };
        let Some(victim) = victim else { return false };
        let Some(conn) = self.conns.at(victim) else { return false };
        conn.phase = Phase::Finishing(CloseReason::Overload);
        self.pool.recycle(&mut conn.input);
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        self.mark(victim);
        victim == slot
    }

    /// Where unsent answers are a quarter more than they may be, as many peers that have none yet ask and do not read, ends those that
    /// have the most of them until they fit: nobody within the share of one.
    fn bound_output(&mut self) {
        let max = self.options.output_total_bytes_max;
        if self.totals.output_memory <= max + max / 4 {
            return;
        }
        let share = max / self.conns.len().max(1);
        let holder = |slot| {
            let conn = self.conns.peek(slot)?;
            let (unsent, memory) = (conn.output_counted, conn.output_memory_counted);
            Some(Holder { unsent, memory, slot })
        };
        let holders = (0..self.conns.slots()).filter_map(holder).collect();
        for slot in totals::who_goes(holders, share, self.totals.output_memory - max) {
            if let Some(conn) = self.conns.at(slot) {
                conn.phase = Phase::Dead(CloseReason::Overload);
            }
            self.mark(slot);
        }
    }

    /// How much one connection's unsent answers may be now.
    fn output_max(&self) -> usize {
        let Options { output_bytes_max, output_total_bytes_max, .. } = *self.options;
        match self.totals.choked {
            false => output_bytes_max,
            true => output_bytes_max.min(output_total_bytes_max / self.conns.len().max(1)),
        }
    }

    /// Gives the service what is unread, in place as far as possible.
    fn hand_over<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        slot: u32,
        mut chunk: &[u8],
    ) -> Option<()> {
        let id = self.conns.id_at(slot);
        let limit = self.output_max();
        let (pool, conn) = (&mut self.pool, self.conns.at(slot)?);
        let user = conn.user.as_mut()?;
        let mut progress = false;
        let end = loop {
            if conn.input.is_empty() {
                let done = deliver(service, id, user, &mut conn.output, pool, limit, chunk);
                progress |= done.consumed > 0;
                conn.need = done.need;
                let rest = &chunk[done.consumed..];
                if !rest.is_empty() {
                    pool.equip(&mut conn.input);
                    conn.input.append(rest);
                }
                break done.end;
            }
            // Only what completes the message is copied; what follows it is read in place.
            let have = conn.input.len();
            let missing = if conn.need > have { conn.need - have } else { chunk.len() };
            let (now, later) = chunk.split_at(missing.min(chunk.len()));
            conn.input.append(now);
            chunk = later;
            if conn.input.len() < conn.need {
                break End::Hungry;
            }
            let whole = conn.input.as_slice();
            let done = deliver(service, id, user, &mut conn.output, pool, limit, whole);
            progress |= done.consumed > 0;
            conn.need = done.need;
            conn.input.consume(done.consumed);
            if done.end != End::Hungry || chunk.is_empty() {
                conn.input.append(chunk);
                break done.end;
            }
        };
        self.judge(slot, end, progress);
        Some(())
    }

    /// Draws the consequences of one hand-over.
    fn judge(&mut self, slot: u32, end: End, progress: bool) {
        let Some(conn) = self.conns.at(slot) else { return };
        let message_bytes = conn.input.len().max(conn.need);
        match end {
            End::Closed { after_output, hello } => {
                self.counters.tls_on_plain.add(usize::from(hello));
                let why = CloseReason::ServiceClosed;
                conn.phase = if after_output { Phase::Finishing(why) } else { Phase::Dead(why) };
            }
            End::Waiting => (conn.paused, conn.waiting) = (true, true),
            End::Full => {
                conn.paused = true;
                self.counters.paused_reads.add(1);
            }
            End::Hungry if message_bytes > conn.limits.input_bytes_max => {
                let hello = is_client_hello(conn.input.as_slice());
                self.counters.tls_on_plain.add(usize::from(hello));
                conn.phase = Phase::Finishing(CloseReason::TooLarge);
            }
            End::Hungry => {}
        }
        if conn.phase != Phase::Open || conn.input.is_empty() {
            self.pool.recycle(&mut conn.input);
        }
        if conn.output.is_empty() {
            // What was reserved and not written in counts, too.
            conn.output.release(&mut self.pool);
        }
        if progress {
            conn.message_ms = self.now_ms;
        }
        if conn.input.is_empty() || conn.paused {
            conn.partial_ms = NEVER;
        } else if progress || conn.partial_ms == NEVER {
            conn.partial_ms = self.now_ms;
        }
        let waits =
            !conn.output.is_empty() || conn.paused | conn.output.asks || conn.phase != Phase::Open;
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        if self.bound_input(slot) || waits {
            self.mark(slot);
        }
    }

    /// The peer ended its stream: what it is owed still goes out, also what is not known yet.
    pub(crate) fn ended<S: Service<Conn = C>>(&mut self, service: &S, slot: u32) {
        let id = self.conns.id_at(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        let torn = conn.tls.as_ref().is_some_and(|tls| !tls.is_peer_closed());
        let unread = conn.tls.as_ref().is_some_and(|tls| tls.queued);
        let owed = conn.user.as_ref().is_some_and(|user| service.owes(id, user));
        match conn.phase {
            // It is looked at again when something is written to it, and by the sweep; not in each wake-up.
            Phase::Open if conn.paused | conn.output.asks | unread | owed => {
                if std::mem::replace(&mut conn.ended, true) {
                    return;
                }
            }
            Phase::Open if conn.user.is_none() => conn.phase = Phase::Dead(CloseReason::PeerClosed),
            // What it asked for in whole messages is authentic, and is still answered.
            Phase::Open if torn => conn.phase = Phase::Finishing(CloseReason::TlsBroken),
            Phase::Open => {
                if is_client_hello(conn.input.as_slice()) {
                    self.counters.tls_on_plain.add(1);
                }
                conn.phase = Phase::Finishing(CloseReason::PeerClosed);
            }
            Phase::Lingering(why) => conn.phase = Phase::Dead(why),
            Phase::Connecting | Phase::Finishing(_) | Phase::Dead(_) => {}
        }
        self.mark(slot);
    }

    /// The connection is broken.
    pub(crate) fn failed(&mut self, slot: u32) {
        let Some(conn) = self.conns.at(slot) else { return };
        match conn.phase {
            Phase::Open | Phase::Connecting => conn.phase = Phase::Dead(CloseReason::PeerReset),
            Phase::Finishing(why) | Phase::Lingering(why) => conn.phase = Phase::Dead(why),
            Phase::Dead(_) => {}
        }
        self.mark(slot);
    }

    /// The kernel took `count` bytes of the connection's answers.
    #[inline]
    pub(crate) fn sent(&mut self, slot: u32, count: usize) {
        self.counters.sends.add(1);
        self.counters.bytes_out.add(count);
        let Some(conn) = self.conns.at(slot) else { return };
        conn.output.sent(count, &mut self.pool);
        if conn.output.is_empty() {
            conn.output.release(&mut self.pool);
        }
        conn.progress_ms = self.now_ms;
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        let half = self.options.output_bytes_max / 2;
        if ((conn.paused & !conn.waiting) | conn.output.asks) && conn.output.len() <= half {
            self.resumable.push(slot);
        }
    }

    /// Reads on where answers went out. Once per wake-up, before the service's turn.
    pub(crate) fn resume<S: Service<Conn = C>>(&mut self, service: &mut S) {
        self.bound_output();
        self.relieve();
        self.end_handshakes();
        if self.resumable.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut self.resumable);
        let mut handshakes_left = HANDSHAKES_PER_WAKEUP;
        for slot in list.drain(..) {
            if let Some(conn) = self.conns.at(slot)
                && let Some(tls) = &mut conn.tls
                && tls.queued
            {
                let ended = conn.ended;
                // Who said hello and left wants no answer: its handshake is not worth the work.
                let works = conn.phase == Phase::Open && !(ended && tls.is_unanswered());
                if works && handshakes_left == 0 {
                    self.resumable.push(slot);
                    continue;
                }
                tls.queued = false;
                if works {
                    handshakes_left -= 1;
                    self.handshakes.worked();
                    self.read_records(service, slot);
                }
                if ended && self.conns.at(slot).is_some_and(|conn| !conn.paused) {
                    self.ended(service, slot);
                }
            }
            self.ask_for_more(service, slot);
            self.resume_one(service, slot);
        }
        if self.resumable.is_empty() {
            self.resumable = list;
        }
    }

    /// Asks the service for more to send, where it wants to be asked and there is room.
    fn ask_for_more<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32) -> Option<()> {
        let (id, choked) = (self.conns.id_at(slot), self.totals.choked);
        let bytes_max = self.options.output_bytes_max;
        let conn = self.conns.at(slot)?;
        let held = (choked && !conn.output.is_empty()) || conn.output.len() > bytes_max / 2;
        if !conn.output.asks || held || !conn.is_writable() {
            return None;
        }
        conn.output.asks = false;
        // Somebody takes what is written: this is no idle connection.
        conn.message_ms = self.now_ms;
        let user = conn.user.as_mut()?;
        let then =
            service.drained(id, user, &mut Out::new(&mut conn.output, &mut self.pool, bytes_max));
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        let ended = conn.ended && !conn.paused && !conn.output.asks;
        self.obey(slot, then);
        if ended {
            self.ended(service, slot);
        }
        Some(())
    }

    /// Reads on in one connection, unless something still keeps it from that.
    fn resume_one<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32) -> Option<()> {
        let choked = self.totals.choked;
        let half = self.options.output_bytes_max / 2;
        let conn = self.conns.at(slot)?;
        let unsent = conn.output.len() > half || (choked && !conn.output.is_empty());
        let held = conn.waiting || unsent;
        if !conn.paused || held || conn.phase != Phase::Open {
            return None;
        }
        conn.paused = false;
        self.hand_over(service, slot, &[]);
        let conn = self.conns.at(slot)?;
        if conn.ended && !conn.paused {
            self.ended(service, slot);
        }
        self.mark(slot);
        Some(())
    }

    /// Ends the pause of those with unsent answers once half of the allowed output is left.
    fn relieve(&mut self) {
        if !self.totals.choked
            || self.totals.output_memory > self.options.output_total_bytes_max / 2
        {
            return;
        }
        self.totals.choked = false;
        for slot in 0..self.conns.slots() {
            if self.conns.at(slot).is_some_and(|conn| conn.paused | conn.output.asks) {
                self.resumable.push(slot);
            }
        }
    }

    fn outbox(&mut self) -> Outbox<'_, C> {
        let left = self.options.output_total_bytes_max.saturating_sub(self.totals.output_memory);
        Outbox {
            conns: &mut self.conns,
            dirty: &mut self.dirty,
            resumable: &mut self.resumable,
            pool: &mut self.pool,
            output_bytes_max: self.options.output_bytes_max,
            output_left: left,
            dials: &mut self.dials,
            now_ms: self.now_ms,
            stopping: self.stop != Stop::No,
        }
    }

    /// The service's turn.
    pub(crate) fn turn<S: Service<Conn = C>>(&mut self, service: &mut S) -> Turn {
        let turn = service.turn(&mut self.outbox());
        self.due_ms = self.due_ms.min(self.dials.due_ms());
        turn
    }

    /// Moves a connection without unsent answers one phase on. Called by the backend after it sent.
    pub(crate) fn advance<S: Service<Conn = C>>(&mut self, service: &S, slot: u32) {
        let now_ms = self.now_ms;
        if self.conns.at(slot).is_some_and(|conn| conn.ended && conn.phase == Phase::Open) {
            self.ended(service, slot);
        }
        let Some(conn) = self.conns.at(slot) else { return };
        let empty = conn.output.is_empty();
        if empty {
            conn.output.release(&mut self.pool);
        }
        self.totals.count(conn, now_ms, self.options.output_total_bytes_max);
        if conn.has_unsent() || ((conn.phase == Phase::Open) & !conn.output.asks) {
            return;
        }
        if conn.output.asks {
            self.resumable.push(slot);
        }
        if let Phase::Finishing(why) = conn.phase {
            if why == CloseReason::PeerClosed {
                conn.phase = Phase::Dead(why);
                return;
            }
            sys::finish_sending(conn.fd());
            conn.phase = Phase::Lingering(why);
            conn.linger_until_ms = now_ms.saturating_add(LINGER_MS_MAX);
        }
    }

    /// Tells the service that a dead connection is gone. Ids of it reach nothing from here on.
    pub(crate) fn bury<S: Service<Conn = C>>(&mut self, service: &mut S, slot: u32) {
        let id = self.conns.id_at(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        let Phase::Dead(why) = conn.phase else { return };
        let dial = conn.dial.take();
        let Some(user) = conn.user.take() else {
            let handshake = self.bury_handshake(slot, why);
            if let Some((dial, failure)) = dial {
                let guess = || handshake.map_or(DialFailure::Declined, DialFailure::Tls);
                self.dial_failed(service, dial, failure.unwrap_or_else(guess));
            }
            return;
        };
        if matches!(why, CloseReason::Stalled | CloseReason::PeerReset | CloseReason::Overload) {
            sys::abort_on_close(conn.fd());
        }
        self.counters.count_closed(why);
        service.closed(id, user, why);
        if let Some((dial, _)) = dial {
            self.dials.ended(dial, self.now_ms);
            self.due_ms = self.due_ms.min(self.dials.due_ms());
        }
    }

    /// Counts a handshake that failed, once; returns why it did, in words.
    fn bury_handshake(&mut self, slot: u32, why: CloseReason) -> Option<Box<str>> {
        let conn = self.conns.at(slot)?;
        // It has no TLS any more once it was counted; nothing is sent or read.
        let tls = conn.tls.take_if(|tls| !tls.is_established())?;
        self.handshakes.leave(slot);
        self.silent.leave(slot);
        self.totals.tls_memory -= tls.memory_counted;
        let late = why == CloseReason::SlowMessage;
        let guess = if late { HandshakeFailure::TimedOut } else { HandshakeFailure::Abandoned };
        let failure = tls.failure.unwrap_or(guess);
        self.counters.count_handshake_failed(failure);
        Some(tls.fault.unwrap_or_else(|| failure.text().into()))
    }

    /// Frees a buried connection's slot, memory and descriptor. Nothing may be in flight on it.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(mut conn) = self.conns.remove(slot) else { return };
        conn.output.release(&mut self.pool);
        self.pool.recycle(&mut conn.input);
        if let Some(tls) = conn.tls.take() {
            self.totals.tls_memory -= tls.memory_counted;
        }
        self.totals.count(&mut conn, self.now_ms, self.options.output_total_bytes_max);
        self.counters.connections.set(self.conns.len() as u64);
    }

    /// Looks for time-outs in a part of the connections, when due, and for memory to give back.
    fn sweep(&mut self) {
        if self.now_ms < self.sweep_due_ms {
            return;
        }
        if self.totals.fell() {
            sys::give_back_memory();
        }
        self.sweep_due_ms = self.now_ms + SWEEP_MS / u64::from(SWEEP_PARTS);
        let slots = self.conns.slots();
        let until = self.sweep_from.saturating_add(slots.div_ceil(SWEEP_PARTS)).min(slots);
        for slot in self.sweep_from..until {
            let Some(conn) = self.conns.at(slot) else { continue };
            if conn.ended {
                // Perhaps it is owed nothing any more.
                self.mark(slot);
            }
            let Some(conn) = self.conns.at(slot) else { continue };
            if let Some(why) = overdue(conn, self.now_ms, self.options) {
                if why == CloseReason::SlowMessage && is_client_hello(conn.input.as_slice()) {
                    self.counters.tls_on_plain.add(1);
                }
                if matches!(conn.phase, Phase::Lingering(_)) {
                    // It still sends, perhaps into a full window: only a reset tells it that nobody reads.
                    sys::abort_on_close(conn.fd());
                }
                conn.phase = Phase::Dead(why);
                self.mark(slot);
            }
        }
        self.sweep_from = if until >= slots { 0 } else { until };
    }

    /// Moves a stop on; true when everything is closed.
    pub(crate) fn stop_step<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        asked: bool,
        turn: &Turn,
    ) -> bool {
        let drains = matches!(self.stop, Stop::Draining { until_ms } if self.now_ms < until_ms);
        let ahead = drains && turn.drained && (self.has_read_ahead() || self.read_behind(service));
        match self.stop {
            Stop::No if asked => {
                let until_ms = self.now_ms.saturating_add(self.options.stop_grace_ms_max);
                self.stop = Stop::Draining { until_ms };
                self.dials.stop();
                self.for_all(|conn| match conn.phase {
                    Phase::Connecting => conn.phase = Phase::Dead(CloseReason::Shutdown),
                    _ if conn.paused => conn.behind = conn.limits.input_bytes_max,
                    _ => {}
                });
                // The service gets one turn that knows of the stop.
                self.again = true;
            }
            Stop::No => {}
            // What came behind a request that was answered just now is read first.
            Stop::Draining { .. } if ahead => self.again = true,
            Stop::Draining { until_ms } if turn.drained || self.now_ms >= until_ms => {
                let until_ms = until_ms.max(self.now_ms.saturating_add(LAST_FLUSH_MS));
                self.stop = Stop::Closing { until_ms };
                self.for_all(|conn| {
                    if conn.phase == Phase::Open {
                        conn.phase = Phase::Finishing(CloseReason::Shutdown);
                    }
                });
            }
            Stop::Draining { .. } => {}
            Stop::Closing { until_ms } => {
                if self.conns.len() == 0 {
                    return true;
                }
                if self.now_ms >= until_ms {
                    self.kill_all();
                }
            }
        }
        false
    }

    /// Has somebody perhaps sent more than was looked at, which is looked at as soon as the answers before it are out?
    fn has_read_ahead(&mut self) -> bool {
        let (choked, half) = (self.totals.choked, self.options.output_bytes_max / 2);
        (0..self.conns.slots()).any(|slot| {
            self.conns.at(slot).is_some_and(|conn| {
                let unsent = conn.output.len() > half || (choked && !conn.output.is_empty());
                let is_read_on = conn.paused && !conn.waiting && !unsent;
                let has_more = !conn.input.is_empty() || conn.behind > 0;
                conn.phase == Phase::Open && is_read_on && has_more
            })
        })
    }

    /// Reads what still lies in the sockets of connections that were paused when the stop came and have their answers now. True if there was
    /// some, or if that is not known yet.
    fn read_behind<S: Service<Conn = C>>(&mut self, service: &mut S) -> bool {
        let mut found = false;
        for slot in 0..self.conns.slots() {
            let Some(conn) = self.conns.at(slot) else { continue };
            if conn.behind == 0 || conn.paused || conn.phase != Phase::Open {
                continue;
            }
            found = true;
            if conn.reading {
                // io_uring: what its receive took has not come yet, and goes before the rest.
                self.mark(slot);
                continue;
            }
            let mut chunk = [0; BEHIND_BYTES];
            let len = chunk.len().min(conn.behind);
            match sys::receive(conn.fd(), &mut chunk[..len]) {
                Ok(0) => {
                    conn.behind = 0;
                    self.ended(service, slot);
                }
                Ok(count) => {
                    conn.behind -= count;
                    self.feed(service, slot, &chunk[..count]);
                }
                // Nothing more came. If it is broken, its last answers meet that.
                Err(_) => conn.behind = 0,
            }
        }
        found
    }

    /// Ends every connection at once.
    pub(crate) fn kill_all(&mut self) {
        self.for_all(|conn| match conn.phase {
            Phase::Open | Phase::Connecting => conn.phase = Phase::Dead(CloseReason::Shutdown),
            Phase::Finishing(why) | Phase::Lingering(why) => conn.phase = Phase::Dead(why),
            Phase::Dead(_) => {}
        });
    }

    fn for_all(&mut self, mut change: impl FnMut(&mut Connection<C>)) {
        for slot in 0..self.conns.slots() {
            if let Some(conn) = self.conns.at(slot) {
                change(conn);
                self.mark(slot);
            }
        }
    }

    /// How long the loop may sleep, in ms: 0 = not at all, `NEVER` = until something happens. A
    /// value above 0 means that the waker was told.
    pub(crate) fn sleep_ms(&mut self, turn: &Turn, bell: &Waker) -> u64 {
        self.relieve();
        let busy = Duration::from_micros(self.options.busy_poll_us);
        let polling = !busy.is_zero() && self.now.duration_since(self.active) < busy;
        let again = self.again || !self.resumable.is_empty();
        if turn.spin || polling || again || turn.wait_ms_max == 0 {
            return 0;
        }
        let idle = self.conns.len() == 0;
        let settled = idle && self.totals.memory_peak <= GIVE_BACK_BYTES;
        let sweep_ms = if settled { NEVER } else { self.sweep_due_ms.saturating_sub(self.now_ms) };
        let stop_ms = match self.stop {
            Stop::No => NEVER,
            Stop::Closing { .. } if idle => 0,
            Stop::Draining { until_ms } | Stop::Closing { until_ms } => {
                until_ms.saturating_sub(self.now_ms)
            }
        };
        let asked_ms = match self.asked_ms() {
            NEVER => NEVER,
            due_ms => due_ms.saturating_sub(self.now_ms),
        };
        let wait_ms = turn.wait_ms_max.min(sweep_ms).min(stop_ms).min(asked_ms);
        if wait_ms == 0 || !bell.may_sleep() { 0 } else { wait_ms }
    }
}

/// Numbers that differ between processes, for waits that are not to fall together.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Calls the service until it has no use for what is left.
#[inline]
fn deliver<S: Service>(
    service: &mut S,
    id: ConnId,
    user: &mut S::Conn,
    output: &mut Output,
    pool: &mut Pool,
    output_bytes_max: usize,
    input: &[u8],
) -> Delivered {
    let mut at = 0;
    while at < input.len() {
        let rest = &input[at..];
        let step = service.received(id, user, rest, &mut Out::new(output, pool, output_bytes_max));
        let full = output.len() >= output_bytes_max;
        match step {
            Step::Read { consumed, need } => {
                debug_assert!(consumed <= rest.len(), "a service consumed more than there was");
                let consumed = consumed.min(rest.len());
                at += consumed;
                if full {
                    return Delivered { consumed: at, need: 0, end: End::Full };
                }
                if consumed == 0 || need > input.len() - at {
                    return Delivered { consumed: at, need, end: End::Hungry };
                }
            }
            Step::Pause { consumed } => {
                debug_assert!(consumed <= rest.len(), "a service consumed more than there was");
                at += consumed.min(rest.len());
                return Delivered { consumed: at, need: 0, end: End::Waiting };
            }
            Step::Close { after_output, .. } => {
                let end = End::Closed { after_output, hello: is_client_hello(rest) };
                return Delivered { consumed: input.len(), need: 0, end };
            }
        }
    }
    Delivered { consumed: at, need: 0, end: End::Hungry }
}

/// The time limit that a connection broke, if any.
fn overdue<C>(conn: &Connection<C>, now_ms: u64, options: &Options) -> Option<CloseReason> {
    let over = |since_ms: u64, ms_max: u64| ms_max > 0 && now_ms.saturating_sub(since_ms) > ms_max;
    match conn.phase {
        // An attempt to connect has a time limit of its own.
        Phase::Dead(_) | Phase::Connecting => return None,
        Phase::Lingering(why) => return (now_ms >= conn.linger_until_ms).then_some(why),
        Phase::Open | Phase::Finishing(_) => {}
    }
    if conn.user.is_none() {
        let late = over(conn.message_ms, options.tls_handshake_ms_max);
        return late.then_some(CloseReason::SlowMessage);
    }
    if !conn.output.is_empty() {
        // What was written in this wake-up, after a silence of whatever length, is counted at the wake-up's end: only from then on nothing moves.
        let stalls = conn.output_counted > 0 && over(conn.progress_ms, options.stalled_ms_max);
        return stalls.then_some(CloseReason::Stalled);
    }
    if conn.paused || conn.phase != Phase::Open {
        return None;
    }
    if conn.partial_ms != NEVER && over(conn.partial_ms, options.partial_ms_max) {
        return Some(CloseReason::SlowMessage);
    }
    over(conn.message_ms, conn.limits.idle_ms_max).then_some(CloseReason::Idle)
}

/// How many peers may have connected and said nothing yet, with so many places for handshakes.
fn silent_max(handshakes_max: usize) -> usize {
    handshakes_max.saturating_mul(SILENT_TIMES).min(SILENT_MAX)
}
