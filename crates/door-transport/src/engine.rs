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
use crate::counters::Counters;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::service::{CloseReason, ConnId, Peer, Service, Step, Turn};
use crate::sys;
use crate::wake::Waker;

/// A whole scan of all connections for time-outs takes so long, in this many parts.
const SWEEP_MS: u64 = 250;
const SWEEP_PARTS: u32 = 5;
/// Memory of answers above which the allocator is asked to give back what is free again, once three quarters are. It would
/// keep it otherwise: it sees buffers of these sizes come and go.
const GIVE_BACK_BYTES: usize = 32 * 1024 * 1024;
/// How long a connection that we ended waits for the peer's end of stream.
const LINGER_MS_MAX: u64 = 1_000;
/// What peers get for taking their last answers when draining used up the whole grace.
const LAST_FLUSH_MS: u64 = 100;

/// Bytes held for all connections together. Limits are on the memory, which is more than the bytes that are in it.
#[derive(Default)]
struct Totals {
    output: usize,
    input: usize,
    output_memory: usize,
    input_memory: usize,
    /// The most memory of both since what was freed was last given back to the system.
    memory_peak: usize,
    /// Nobody is read until the output fell.
    choked: bool,
}

impl Totals {
    /// Brings the totals in line with one connection.
    fn count<C>(&mut self, conn: &mut Connection<C>, now_ms: u64, output_total_bytes_max: usize) {
        let output = conn.output.len();
        if conn.output_counted == 0 && output > 0 {
            conn.progress_ms = now_ms;
        }
        self.output = self.output - conn.output_counted + output;
        conn.output_counted = output;
        let input = conn.input.len();
        self.input = self.input - conn.input_counted + input;
        conn.input_counted = input;
        let memory = conn.output.memory();
        self.output_memory = self.output_memory - conn.output_memory_counted + memory;
        conn.output_memory_counted = memory;
        let memory = conn.input.memory();
        self.input_memory = self.input_memory - conn.input_memory_counted + memory;
        conn.input_memory_counted = memory;
        if self.output_memory > output_total_bytes_max {
            self.choked = true;
        }
    }

    fn memory(&self) -> usize {
        self.output_memory + self.input_memory
    }

    /// Did so much go that the system should have it back?
    fn fell(&mut self) -> bool {
        self.memory_peak = self.memory_peak.max(self.memory());
        let fell = self.memory_peak > GIVE_BACK_BYTES && self.memory() < self.memory_peak / 4;
        if fell {
            self.memory_peak = self.memory();
        }
        fell
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
    /// Paused connections whose answers went out.
    resumable: Vec<u32>,
    totals: Totals,
    started: Instant,
    now: Instant,
    active: Instant,
    now_ms: u64,
    sweep_due_ms: u64,
    sweep_from: u32,
    stop: Stop,
    /// The next turn must not wait.
    again: bool,
}

impl<'o, C> Engine<'o, C> {
    pub(crate) fn new(options: &'o Options, counters: &'o Counters) -> Self {
        let now = Instant::now();
        Self {
            options,
            counters,
            conns: Slab::new(),
            pool: Pool::default(),
            dirty: Vec::new(),
            resumable: Vec::new(),
            totals: Totals::default(),
            started: now,
            now,
            active: now,
            now_ms: 0,
            sweep_due_ms: 0,
            sweep_from: 0,
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

    /// Takes in an accepted connection; `None` (and it is closed) when the worker is full.
    pub(crate) fn admit<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        fd: OwnedFd,
        peer: Peer,
        door: usize,
    ) -> Option<ConnId> {
        if self.conns.len() >= self.options.connections_max {
            self.counters.refused_full.add(1);
            return None;
        }
        let id = self.conns.insert(Connection::new(fd, self.now_ms));
        self.counters.accepted.add(1);
        self.counters.connections.set(self.conns.len());
        let user = service.opened(id, peer, door);
        if let Some(conn) = self.conns.get(id) {
            conn.user = Some(user);
        }
        self.mark(id.slot);
        Some(id)
    }

    /// Puts a connection on the backend's list.
    pub(crate) fn mark(&mut self, slot: u32) {
        if let Some(conn) = self.conns.at(slot)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(slot);
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
        self.counters.output_bytes.set(self.totals.output);
        self.counters.input_bytes.set(self.totals.input);
        self.counters.memory_bytes.set(self.totals.memory());
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
        if choked || conn.paused {
            self.hold(slot, chunk);
        } else {
            self.hand_over(service, slot, chunk);
        }
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

    /// Closes the connection whose unread bytes came last, if those of all connections are too many; true if so.
    fn bound_input(&mut self, slot: u32) -> bool {
        if self.totals.input_memory <= self.options.input_total_bytes_max {
            return false;
        }
        let last = self.conns.at(slot).filter(|conn| !conn.input.is_empty());
        let Some(conn) = last else { return false };
        conn.phase = Phase::Finishing(CloseReason::Overload);
        self.pool.recycle(&mut conn.input);
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        true
    }

    /// Gives the service what is unread, in place as far as possible.
    fn hand_over<S: Service<Conn = C>>(
        &mut self,
        service: &mut S,
        slot: u32,
        mut chunk: &[u8],
    ) -> Option<()> {
        let id = self.conns.id_at(slot);
        let (pool, limit) = (&mut self.pool, self.options.output_bytes_max);
        let conn = self.conns.at(slot)?;
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
            End::Closed { after_output: true } => {
                conn.phase = Phase::Finishing(CloseReason::ServiceClosed);
            }
            End::Closed { after_output: false } => {
                conn.phase = Phase::Dead(CloseReason::ServiceClosed);
            }
            End::Waiting => (conn.paused, conn.waiting) = (true, true),
            End::Full => {
                conn.paused = true;
                self.counters.paused_reads.add(1);
            }
            End::Hungry if message_bytes > self.options.input_bytes_max => {
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
        let waits = !conn.output.is_empty() || conn.paused || conn.phase != Phase::Open;
        self.totals.count(conn, self.now_ms, self.options.output_total_bytes_max);
        if self.bound_input(slot) || waits {
            self.mark(slot);
        }
    }

    /// The peer ended its stream: what it is owed still goes out.
    pub(crate) fn ended(&mut self, slot: u32) {
        let Some(conn) = self.conns.at(slot) else { return };
        match conn.phase {
            Phase::Open if conn.paused => conn.ended = true,
            Phase::Open => conn.phase = Phase::Finishing(CloseReason::PeerClosed),
            Phase::Lingering(why) => conn.phase = Phase::Dead(why),
            Phase::Finishing(_) | Phase::Dead(_) => {}
        }
        self.mark(slot);
    }

    /// The connection is broken.
    pub(crate) fn failed(&mut self, slot: u32) {
        let Some(conn) = self.conns.at(slot) else { return };
        match conn.phase {
            Phase::Open => conn.phase = Phase::Dead(CloseReason::PeerReset),
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
        if conn.paused && !conn.waiting && conn.output.len() <= half {
            self.resumable.push(slot);
        }
    }

    /// Reads on where answers went out. Once a wake-up, before the service's turn.
    pub(crate) fn resume<S: Service<Conn = C>>(&mut self, service: &mut S) {
        self.relieve();
        if self.resumable.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut self.resumable);
        for slot in list.drain(..) {
            let choked = self.totals.choked;
            let half = self.options.output_bytes_max / 2;
            let Some(conn) = self.conns.at(slot) else { continue };
            let held = choked || conn.waiting || conn.output.len() > half;
            if !conn.paused || held || conn.phase != Phase::Open {
                continue;
            }
            conn.paused = false;
            self.hand_over(service, slot, &[]);
            if let Some(conn) = self.conns.at(slot)
                && conn.ended
                && !conn.paused
            {
                self.ended(slot);
            }
            self.mark(slot);
        }
        if self.resumable.is_empty() {
            self.resumable = list;
        }
    }

    /// Ends the worker-wide pause once half of the allowed output is left.
    fn relieve(&mut self) {
        if !self.totals.choked
            || self.totals.output_memory > self.options.output_total_bytes_max / 2
        {
            return;
        }
        self.totals.choked = false;
        for slot in 0..self.conns.slots() {
            if self.conns.at(slot).is_some_and(|conn| conn.paused) {
                self.resumable.push(slot);
            }
        }
    }

    /// The service's turn.
    pub(crate) fn turn<S: Service<Conn = C>>(&mut self, service: &mut S) -> Turn {
        service.turn(&mut Outbox {
            conns: &mut self.conns,
            dirty: &mut self.dirty,
            resumable: &mut self.resumable,
            pool: &mut self.pool,
            output_bytes_max: self.options.output_bytes_max,
            stopping: self.stop != Stop::No,
        })
    }

    /// Moves a connection without unsent answers one phase on. Called by the backend after it sent.
    pub(crate) fn advance(&mut self, slot: u32) {
        let now_ms = self.now_ms;
        let Some(conn) = self.conns.at(slot) else { return };
        let empty = conn.output.is_empty();
        if empty {
            conn.output.release(&mut self.pool);
        }
        self.totals.count(conn, now_ms, self.options.output_total_bytes_max);
        if !empty {
            return;
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
        let (Phase::Dead(why), Some(user)) = (conn.phase, conn.user.take()) else { return };
        if matches!(why, CloseReason::Stalled | CloseReason::PeerReset) {
            sys::abort_on_close(conn.fd());
        }
        self.counters.count_closed(why);
        service.closed(id, user, why);
    }

    /// Frees a buried connection's slot, memory and descriptor. Nothing may be in flight on it.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(mut conn) = self.conns.remove(slot) else { return };
        conn.output.release(&mut self.pool);
        self.pool.recycle(&mut conn.input);
        self.totals.count(&mut conn, self.now_ms, self.options.output_total_bytes_max);
        self.counters.connections.set(self.conns.len());
    }

    /// Looks for time-outs in a part of the connections, when due, and for memory to give back.
    pub(crate) fn sweep(&mut self) {
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
            if let Some(why) = overdue(conn, self.now_ms, self.options) {
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
    pub(crate) fn stop_step(&mut self, asked: bool, turn: &Turn) -> bool {
        match self.stop {
            Stop::No if asked => {
                let until_ms = self.now_ms.saturating_add(self.options.stop_grace_ms_max);
                self.stop = Stop::Draining { until_ms };
                self.for_all(|_| {});
                // The service gets one turn that knows of the stop.
                self.again = true;
            }
            Stop::No => {}
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

    /// Ends every connection at once.
    pub(crate) fn kill_all(&mut self) {
        self.for_all(|conn| match conn.phase {
            Phase::Open => conn.phase = Phase::Dead(CloseReason::Shutdown),
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
        let wait_ms = turn.wait_ms_max.min(sweep_ms).min(stop_ms);
        if wait_ms == 0 || !bell.may_sleep() { 0 } else { wait_ms }
    }
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
                let end = End::Closed { after_output };
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
        Phase::Dead(_) => return None,
        Phase::Lingering(why) => return (now_ms >= conn.linger_until_ms).then_some(why),
        Phase::Open | Phase::Finishing(_) => {}
    }
    if !conn.output.is_empty() {
        return over(conn.progress_ms, options.stalled_ms_max).then_some(CloseReason::Stalled);
    }
    if conn.paused || conn.phase != Phase::Open {
        return None;
    }
    if conn.partial_ms != NEVER && over(conn.partial_ms, options.partial_ms_max) {
        return Some(CloseReason::SlowMessage);
    }
    over(conn.message_ms, options.idle_ms_max).then_some(CloseReason::Idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_once_most_of_much_is_free() {
        let mut totals = Totals { output_memory: 2 * GIVE_BACK_BYTES, ..Totals::default() };
        assert!(!totals.fell());
        totals.output_memory = GIVE_BACK_BYTES;
        assert!(!totals.fell(), "half of it is in use");
        totals.output_memory = 0;
        assert!(totals.fell());
        assert!(!totals.fell(), "once");
        totals.output_memory = GIVE_BACK_BYTES;
        assert!(!totals.fell());
        totals.output_memory = 0;
        assert!(!totals.fell(), "so little is kept");
    }
}
