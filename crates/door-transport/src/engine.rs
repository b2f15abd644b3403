//! What both backends share: from received bytes to the service, from the service to bytes to send,
//! limits, time-outs, the way to the end of a connection.
//!
//! A backend turns kernel events into [`Engine::feed`], [`Engine::ended`], [`Engine::failed`] and
//! [`Engine::sent`]; the engine only changes memory and lists every connection that wants something
//! from the kernel as *dirty*. After the service's turn the backend visits each dirty connection
//! once and brings the kernel in line with it: that is where all answers of a wake-up become one
//! send.

mod accept;
mod feed;
mod stop;

use std::time::{Duration, Instant};

use crate::buffer::{Out, Pool};
use crate::conns::{Arrived, NEVER, Phase, Slab};
use crate::counters::Counters;
use crate::dial::{DialFailure, Dials, Due};
use crate::handshakes::Handshakes;
use crate::listen::Listener;
use crate::options::{Limits, Options};
use crate::outbox::Outbox;
use crate::service::{CloseReason, ConnId, Service, Then, Turn};
use crate::timers::{Timer, Timers};
use crate::tls::ServerTls;
use crate::totals::{GIVE_BACK_BYTES, Totals};
use crate::wake::Waker;

/// For each place for a handshake so many peers may have connected and said nothing yet.
const SILENT_TIMES: usize = 4;
/// However many handshakes there may be: who leaves is looked for among them.
const SILENT_MAX: usize = 16_384;
/// A wake-up that takes longer sends its answers before it goes on.
const SLICE: Duration = Duration::from_millis(1);
/// Between two looks at the clock in a wake-up.
const SLICE_EVENTS: usize = 16;
/// Whoever waited so long in the kernel had nothing to do there...
const SLEPT: Duration = Duration::from_micros(200);
/// ...and so much longer for each operation that was handed in with it: a send may take part of that.
const SLEPT_PER_OPERATION: Duration = Duration::from_micros(100);

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

/// Since when bytes may have waited that a wake-up receives.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// How often events were taken.
    round: u64,
    /// The events that were taken last are in their first wake-up.
    is_new: bool,
    /// Since when the loop waits in the kernel, and how long a wait means that there was nothing to do.
    sleeping: Option<(Instant, Duration)>,
    /// When the kernel last had no more events, ms of the loop.
    emptied_ms: u64,
    /// What is received now from a socket that was empty came after this, ms of the loop.
    since_ms: u64,
}

impl Arrivals {
    /// Of a connection that comes now.
    fn first(&self) -> Arrived {
        Arrived::new(self.since_ms, self.round)
    }
}

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    Draining { until_ms: u64 },
    Closing { until_ms: u64 },
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
    arrivals: Arrivals,
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
            arrivals: Arrivals::default(),
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

    /// The loop took events, and where `all`, none are left in the kernel.
    pub(crate) fn took(&mut self, all: bool) {
        let Arrivals { round, sleeping, emptied_ms, since_ms, is_new } = &mut self.arrivals;
        let slept = sleeping.take().is_some_and(|(from, wait)| self.now - from >= wait);
        *since_ms = if slept { self.now_ms } else { *emptied_ms };
        if all {
            *emptied_ms = self.now_ms;
        }
        *round += 1;
        *is_new = true;
    }

    /// The next wake-up must not wait: the loop has left events to it.
    pub(crate) fn go_on(&mut self) {
        self.again = true;
    }

    /// The loop hands in so many operations with its next call of the kernel.
    pub(crate) fn hands_in(&mut self, operations: usize) {
        if let Some((_, wait)) = &mut self.arrivals.sleeping {
            let operations = u32::try_from(operations).unwrap_or(u32::MAX);
            *wait = wait.saturating_add(SLEPT_PER_OPERATION.saturating_mul(operations));
        }
    }

    /// Whether answers are to be sent before more is read, after so many events.
    #[inline]
    pub(crate) fn is_slice_over(&self, events: usize) -> bool {
        let looks = events % SLICE_EVENTS == SLICE_EVENTS - 1;
        looks && self.now.elapsed() >= SLICE && !self.stopping()
    }

    /// The socket of the connection in `slot` has bytes that are not received yet.
    pub(crate) fn has_more(&mut self, slot: u32) {
        let Arrivals { since_ms, round, .. } = self.arrivals;
        if let Some(conn) = self.conns.at(slot) {
            conn.arrived.chunk(since_ms, round, true);
        }
    }

    /// The kernel begins to look for bytes of the connection in `slot`: some may be there.
    pub(crate) fn reads_on(&mut self, slot: u32) {
        let round = self.arrivals.round;
        if let Some(conn) = self.conns.at(slot) {
            conn.arrived.filled_round = round;
        }
    }

    /// Whether the last wake-up began so short a time ago that its clock still holds.
    pub(crate) fn woke_just_now(&self) -> bool {
        self.now.elapsed() < Duration::from_millis(1)
    }

    /// Whether there is nothing to do before something comes: no connection is to be visited, nor read on.
    pub(crate) fn is_quiet(&self) -> bool {
        self.dirty.is_empty() && self.resumable.is_empty() && !self.totals.choked
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
        let now = Instant::now();
        // What came meanwhile is to be told from what wakes a loop that sleeps.
        let was_busy = self.active == self.now && now - self.now >= SLICE;
        if wait_ms == 0 || was_busy || !bell.may_sleep() {
            return 0;
        }
        self.arrivals.sleeping = Some((now, SLEPT));
        wait_ms
    }
}

/// Numbers that differ between processes, for waits that are not to fall together.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// How many peers may have connected and said nothing yet, with so many places for handshakes.
fn silent_max(handshakes_max: usize) -> usize {
    handshakes_max.saturating_mul(SILENT_TIMES).min(SILENT_MAX)
}
