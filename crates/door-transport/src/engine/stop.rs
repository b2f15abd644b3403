//! The end of a connection: its own, by a time limit, or with the whole engine.

use crate::conns::{Connection, NEVER, Phase};
use crate::counters::HandshakeFailure;
use crate::dial::DialFailure;
use crate::options::Options;
use crate::service::{CloseReason, Service, Turn};
use crate::sys;
use crate::tls_session::is_client_hello;

use super::{Engine, Stop};

/// A whole scan of all connections for time-outs takes so long, in this many parts.
const SWEEP_MS: u64 = 250;
const SWEEP_PARTS: u32 = 5;
/// How long a connection that we ended waits for the peer's end of stream.
const LINGER_MS_MAX: u64 = 1_000;
/// What peers get for taking their last answers when draining used up the whole grace.
const LAST_FLUSH_MS: u64 = 100;
/// What is received at once of what came before a stop.
const BEHIND_BYTES: usize = 16 * 1024;

impl<C> Engine<'_, C> {
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
    pub(super) fn sweep(&mut self) {
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
                    self.feed(service, slot, (&chunk[..count], false));
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
