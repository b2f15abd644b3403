//! From received bytes to the service, and from the service to bytes to send.

use crate::buffer::{Out, Output, Pool};
use crate::conns::{Connection, NEVER, Phase};
use crate::counters::HandshakeFailure;
use crate::options::Options;
use crate::service::{CloseReason, ConnId, Service, Step};
use crate::tls_session::{Event, is_client_hello};
use crate::totals::{self, Holder};

use super::{Arrivals, Engine};

/// Handshakes that go on in one wake-up, of those that are the first of their events; else one: each may cost as much as hundreds of messages
/// of those who are through theirs.
const HANDSHAKES_PER_WAKEUP: u32 = 8;

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

impl<C> Engine<'_, C> {
    /// Bytes arrived from the peer in `slot`; whether the socket has more of them.
    #[inline]
    pub(crate) fn feed<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        slot: u32,
        (chunk, more): (&[u8], bool),
    ) {
        self.counters.receives.add(1);
        self.counters.bytes_in.add(chunk.len());
        let choked = self.totals.choked;
        let Arrivals { since_ms, round, .. } = self.arrivals;
        let Some(conn) = self.conns.at(slot) else { return };
        if conn.phase != Phase::Open {
            return;
        }
        conn.arrived.chunk(since_ms, round, more);
        if conn.input.is_empty() {
            conn.arrived.message_ms = conn.arrived.chunk_ms;
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
        let (limit, now_ms) = (self.output_max(), self.now_ms);
        let (pool, conn) = (&mut self.pool, self.conns.at(slot)?);
        let terms = (limit, now_ms.saturating_sub(conn.arrived.message_ms));
        let user = conn.user.as_mut()?;
        let mut progress = false;
        let end = loop {
            if conn.input.is_empty() {
                let done = deliver(service, id, user, &mut conn.output, pool, terms, chunk);
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
            let done = deliver(service, id, user, &mut conn.output, pool, terms, whole);
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
            conn.arrived.message_ms = conn.arrived.chunk_ms;
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
        let is_new = std::mem::take(&mut self.arrivals.is_new);
        let mut handshakes_left = if is_new { HANDSHAKES_PER_WAKEUP } else { 1 };
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
    pub(super) fn relieve(&mut self) {
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
}

/// Calls the service until it has no use for what is left, which may have waited for so many ms.
#[inline]
fn deliver<S: Service>(
    service: &mut S,
    id: ConnId,
    user: &mut S::Conn,
    output: &mut Output,
    pool: &mut Pool,
    (output_bytes_max, age_ms): (usize, u64),
    input: &[u8],
) -> Delivered {
    let mut at = 0;
    while at < input.len() {
        let rest = &input[at..];
        let mut out = Out::new(output, pool, output_bytes_max);
        out.age_ms = age_ms;
        let step = service.received(id, user, rest, &mut out);
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
