//! A worker: one event loop with its doors, its till, and the queues to the bank.
//!
//! No lock, no allocation, no system call, no clock on the way of a request: the time is read once per wake-up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::Thread;

use door_transport::tls::Secured;
use door_transport::{
    Boundary, CloseReason, ConnId, DialFailure, DialId, Out, Outbox, Peer, Service, Step, Then,
    Turn,
};
use ledger::{Owner, ToBank, ToWorker};
use table::ring::{Receiver, SendError, Sender};
use weir_door::{DoorSet, FailedDial, Heard, WorkerCounters};
use weir_till::{NamedRequest, Reply, Snapshot, Till};

use crate::memory::{self, Part};
use crate::messages::{BySlot, Down, Old, Piece, Up};
use crate::stages::WorkerStage;

/// The bank hears at least this often how far a worker's clock is.
const TICK_MS: u64 = 10;
/// A worker that nobody talks to wakes up this often.
const IDLE_MS: u64 = 20;
/// Purses that changed whose gauges are written in one millisecond: 50,000 within a fifth of a second.
const GAUGES_A_MS: usize = 256;
/// Messages of the bank taken in one wake-up.
const DOWN_MAX: usize = 4096;

/// One worker with a set of doors.
pub(crate) struct Worker<D> {
    till: Till,
    doors: D,
    up: Sender<Up>,
    down: Receiver<Down>,
    bank: Thread,
    counters: Arc<WorkerCounters>,
    next_tick_ms: u64,
    gauged_ms: u64,
    ticks: DoorTicks,
    /// The doors know that the node stops.
    stopping: bool,
}

/// When the doors of a worker tick next.
struct DoorTicks {
    /// By door; `u64::MAX` for one that does not tick.
    due_ms: Vec<u64>,
    /// When the last tick was served.
    now_ms: u64,
}

impl DoorTicks {
    fn new<D: DoorSet>(doors: &D) -> DoorTicks {
        let first_ms = |door| match doors.door_tick_ms(door) {
            0 => u64::MAX,
            period_ms => period_ms,
        };
        DoorTicks { due_ms: (0..D::FACTS.len()).map(first_ms).collect(), now_ms: 0 }
    }

    /// A door that is due; its next tick is a period after this one, and what was missed is not made up for.
    fn take<D: DoorSet>(&mut self, doors: &D, now_ms: u64) -> Option<usize> {
        self.now_ms = now_ms;
        let door = self.due_ms.iter().position(|due_ms| *due_ms <= now_ms)?;
        self.due_ms[door] = match doors.door_tick_ms(door) {
            0 => u64::MAX,
            period_ms => (self.due_ms[door] + period_ms).max(now_ms + 1),
        };
        Some(door)
    }

    /// How long until the next one, ms; 0 where no door ticks.
    fn wait_ms(&self) -> u64 {
        let due_ms = self.due_ms.iter().min().copied().unwrap_or(u64::MAX);
        if due_ms == u64::MAX { 0 } else { due_ms.saturating_sub(self.now_ms).max(1) }
    }
}

/// The queues of one worker.
pub(crate) struct Lines {
    pub(crate) up: Sender<Up>,
    pub(crate) down: Receiver<Down>,
    pub(crate) bank: Thread,
    pub(crate) counters: Arc<WorkerCounters>,
}

impl<D: DoorSet> Worker<D> {
    #[cfg(test)]
    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    /// As before the first configuration.
    #[cfg(test)]
    pub(crate) fn empty(&mut self) {
        self.till.snapshot = Snapshot::empty(table::Secret::new(self.till.facts.secret));
    }

    pub(crate) fn new(till: Till, doors: D, lines: Lines) -> Worker<D> {
        let Lines { up, down, bank, counters } = lines;
        let ticks = DoorTicks::new(&doors);
        Worker {
            till,
            doors,
            up,
            down,
            bank,
            counters,
            next_tick_ms: 0,
            gauged_ms: 0,
            ticks,
            stopping: false,
        }
    }

    /// Takes what the bank sent; returns how many messages that was.
    fn take_down(&mut self, outbox: &mut Outbox<'_, D::Session>) -> usize {
        for taken in 0..DOWN_MAX {
            let Some(message) = self.down.recv() else { return taken };
            let Worker { till, doors, .. } = self;
            match message {
                Down::Ledger(ToWorker::Resolved { reply, resolution }) => {
                    doors.resolved(till, Reply::from_bits(reply), resolution, outbox);
                }
                Down::Ledger(ToWorker::Owner { reply, of }) => {
                    self.tell(reply, |reply| Heard::Owner(reply, of, None), outbox);
                }
                Down::Ledger(ToWorker::TimedOwner { slot, id, unit, facts, reply }) => {
                    let of = Some(Owner { slot, id, unit, billing_ms: 0 });
                    self.tell(reply, |reply| Heard::Owner(reply, of, Some(facts)), outbox);
                }
                Down::Ledger(ToWorker::Echo { reply }) => {
                    self.tell(reply, Heard::Echo, outbox);
                }
                Down::Claimed { reply, claimed } => {
                    self.tell(reply, |reply| Heard::Claimed(reply, *claimed), outbox);
                }
                Down::Memo { reply, answer } => {
                    self.tell(reply, |reply| Heard::Recorded(reply, *answer), outbox);
                }
                Down::Timed { reply, answer } => {
                    self.tell(reply, |reply| Heard::Timed(reply, *answer), outbox);
                }
                Down::Named(request) => self.tell_named(request, outbox),
                Down::Ledger(message) => till.take(message),
                Down::Templates(templates) => till.opened.configure(templates),
                Down::Opened(handle, made) => {
                    if let Ok(made) = made {
                        till.meet(made);
                    }
                    for reply in till.opened.answered(&handle, made.ok()) {
                        let heard = Heard::Budget(reply, made.map(|made| made.slot));
                        doors.heard(reply.door.into(), till, heard, outbox);
                    }
                }
                Down::Ended(handle) => till.opened.ended(&handle),
                Down::Snapshot(snapshot, by_slot) => self.install(snapshot, by_slot, outbox),
                Down::Paces(piece) => self.exchange_paces(piece),
                Down::Keys(keys) => till.keys = keys,
                Down::JournalFails(fails) => till.set_journal_fails(fails),
                Down::Why { campaign, reply } => {
                    // The requester may already have timed out.
                    let _ = reply.send(doors.fates(till, campaign));
                }
                Down::Fates { campaigns, reply } => {
                    let fates = |id: &u64| Some((*id, doors.fates(till, *id)?));
                    let _ = reply.send(campaigns.iter().filter_map(fates).collect());
                }
                Down::Answer { conn, answer } => {
                    till.questions.answered(conn);
                    let id = ConnId::from_bits(conn);
                    // One that is gone hears nothing.
                    if let Some(door) = outbox.with(id, |session, _| D::place(session)) {
                        doors.heard(door, till, Heard::Answer(id, &answer), outbox);
                    }
                }
            }
        }
        DOWN_MAX
    }

    /// Tells a door what became of its named holds, unless some are asked for again.
    #[cold]
    fn tell_named(&mut self, request: Box<NamedRequest>, outbox: &mut Outbox<'_, D::Session>) {
        if let Some((reply, answers)) = self.till.named_answered(request) {
            let heard = Heard::Named(reply, answers);
            self.doors.heard(reply.door.into(), &mut self.till, heard, outbox);
        }
    }

    /// Tells a door what the bank answers to it.
    fn tell<'a>(
        &mut self,
        reply: u64,
        heard: impl FnOnce(Reply) -> Heard<'a>,
        outbox: &mut Outbox<'_, D::Session>,
    ) {
        let reply = Reply::from_bits(reply);
        self.doors.heard(reply.door.into(), &mut self.till, heard(reply), outbox);
    }

    fn tell_all<'a>(&mut self, heard: impl Fn() -> Heard<'a>, outbox: &mut Outbox<'_, D::Session>) {
        (0..D::FACTS.len()).for_each(|door| {
            self.doors.heard(door, &mut self.till, heard(), outbox);
        });
    }

    /// Puts a configuration in force: between two batches, never in the middle of one.
    fn install(
        &mut self,
        mut snapshot: Arc<Snapshot>,
        mut by_slot: Box<BySlot>,
        outbox: &mut Outbox<'_, D::Session>,
    ) {
        let till = &mut self.till;
        memory::built(Part::Purses, || till.purses.grow(snapshot.units.len()));
        std::mem::swap(&mut till.snapshot, &mut snapshot);
        std::mem::swap(&mut till.cells, &mut by_slot.cells);
        if !Arc::ptr_eq(&till.cells.gauges, &by_slot.cells.gauges) {
            till.purses.note_all();
        }
        std::mem::swap(&mut till.paces, &mut by_slot.paces);
        self.tell_all(|| Heard::Configured, outbox);
        self.send(Up::Old(Old::Snapshot(snapshot, by_slot)));
    }

    /// Puts these parameters in force, and gives back those that were, in the same memory.
    fn exchange_paces(&mut self, mut piece: Piece) {
        let first = piece.first as usize;
        // A piece is never of more slots than the snapshot before it.
        if let Some(paces) = self.till.paces.get_mut(first..first + piece.paces.len()) {
            paces.swap_with_slice(&mut piece.paces);
        }
        self.send(Up::Old(Old::Piece(piece)));
    }

    /// For what may be lost if the queue is full: things to free, which are then freed here.
    fn send(&mut self, message: Up) {
        if let Err(SendError::Full(message)) = self.up.try_send(message) {
            drop(message);
        }
    }

    /// Hands to the bank what the purses and clients want from it, as far as the queue takes it; returns how many
    /// messages that was.
    fn push_up(&mut self) -> usize {
        let mut sent = self.push_questions() + self.push_openings();
        if !self.till.apart.is_empty() {
            sent += self.push_apart();
            if !self.till.apart.is_empty() {
                return sent;
            }
        }
        let till = &mut self.till;
        while let Some(message) = till.purses.next_message() {
            till.urgent |= !matches!(message, ToBank::Tick { .. } | ToBank::Lapse { .. });
            if let Err(refused) = self.up.try_send(Up::Ledger(message)) {
                if let SendError::Full(Up::Ledger(message)) = refused {
                    till.purses.unsend(message);
                }
                break;
            }
            sent += 1;
        }
        sent
    }

    /// Wakes the bank, if it should not sleep over what it was told.
    fn wake_bank(&mut self) {
        if std::mem::take(&mut self.till.urgent) {
            self.bank.unpark();
            self.till.lap(WorkerStage::WakeBank, 1);
        }
    }

    /// Before the purses' messages as well: budgets that are to be made.
    fn push_openings(&mut self) -> usize {
        let mut sent = 0;
        let opened = &mut self.till.opened;
        while let Some(handle) = opened.next_unsent() {
            if let Err(refused) = self.up.try_send(Up::Open(handle)) {
                if let SendError::Full(Up::Open(handle)) = refused {
                    opened.unsend(handle);
                }
                break;
            }
            sent += 1;
        }
        sent
    }

    /// Before the purses' messages: where the queue is full of these, a question has its place as well.
    fn push_questions(&mut self) -> usize {
        let mut sent = 0;
        let questions = &mut self.till.questions;
        while let Some((conn, question)) = questions.next_unsent() {
            if let Err(refused) = self.up.try_send(Up::Question { conn, question }) {
                if let SendError::Full(Up::Question { conn, question }) = refused {
                    questions.unsend(conn, question);
                }
                break;
            }
            sent += 1;
        }
        sent
    }

    /// What was said beside the purses' messages, with those of them that were said before it.
    #[cold]
    fn push_apart(&mut self) -> usize {
        let (mut sent, mut passed) = (0, 0);
        while let Some(apart) = self.till.apart.pop_front() {
            let pushed = if passed < apart.before
                && let Some(message) = self.till.purses.next_message()
            {
                self.till.apart.push_front(apart);
                passed += 1;
                self.up.try_send(Up::Ledger(message))
            } else {
                self.up.try_send(Up::Apart(Box::new(apart)))
            };
            match pushed {
                Ok(()) => sent += 1,
                Err(SendError::Full(Up::Ledger(message))) => {
                    passed -= 1;
                    self.till.purses.unsend(message);
                    break;
                }
                Err(SendError::Full(Up::Apart(apart))) => {
                    self.till.apart.push_front(*apart);
                    break;
                }
                Err(_) => break,
            }
        }
        let left = self.till.apart.iter_mut();
        left.for_each(|apart| apart.before -= passed.min(apart.before));
        sent
    }

    /// What is due. Deadlines are judged by the node's time; how often something is done, by a clock that never stands.
    fn run_timers(&mut self) {
        let till = &mut self.till;
        let (now_ms, steady_ms) = (till.at.now_ms, till.clock.steady_ms());
        till.purses.turn(now_ms);
        till.made.turn(now_ms);
        till.collect_made();
        till.send_echoes();
        if steady_ms >= self.next_tick_ms {
            till.purses.tick(now_ms);
            self.next_tick_ms = steady_ms + TICK_MS;
        }
    }

    /// Tells other threads how things stand. At most once per millisecond.
    fn publish(&mut self) {
        let till = &mut self.till;
        let steady_ms = till.clock.steady_ms();
        if steady_ms == self.gauged_ms {
            return;
        }
        self.gauged_ms = steady_ms;
        self.doors.publish();
        self.counters.waiting.set(self.doors.waiting() as u64);
        self.counters.clock_back.set(till.clock.state().stepped_back);
        let Till { purses, made, cells, .. } = till;
        for _ in 0..GAUGES_A_MS {
            let Some(slot) = purses.next_changed() else { break };
            if let Some(gauge) = cells.gauges.get(slot as usize) {
                gauge.set(purses.held(slot), purses.made(slot));
            }
        }
        for _ in 0..GAUGES_A_MS {
            let Some(slot) = made.next_changed() else { break };
            cells.made.set(slot as usize, made.held(slot));
        }
    }
}

impl<D: DoorSet> Service for Worker<D> {
    type Conn = D::Session;

    fn woke(&mut self) {
        self.till.wake();
        self.doors.woke();
    }

    #[inline(always)]
    fn passed(&mut self, boundary: Boundary) {
        match boundary {
            Boundary::ReceiveCall => self.till.lap(WorkerStage::Receive, 0),
            Boundary::SendCall => self.till.lap(WorkerStage::Send, 0),
            Boundary::CallReturned => self.till.probes.laps.skip(),
            Boundary::Sent => self.till.lap(WorkerStage::Send, 1),
        }
    }

    fn opened(&mut self, id: ConnId, peer: Peer, listener: usize) -> D::Session {
        self.doors.opened(&mut self.till, id, peer, listener)
    }

    fn secured(&mut self, id: ConnId, session: &mut D::Session, secured: &Secured<'_>) {
        self.doors.secured(id, session, secured);
    }

    fn dialled(&mut self, id: ConnId, dial: DialId, peer: Peer) -> Option<D::Session> {
        self.doors.dialled(&mut self.till, id, dial, peer)
    }

    fn dial_failed(
        &mut self,
        dial: DialId,
        address: SocketAddr,
        why: DialFailure,
        retry_ms: u64,
        outbox: &mut Outbox<'_, D::Session>,
    ) {
        let failed = FailedDial { address, why, retry_ms };
        self.tell_all(|| Heard::DialFailed(dial, failed.clone()), outbox);
    }

    fn tick_ms(&self, session: &D::Session) -> u64 {
        self.doors.tick_ms(session)
    }

    fn tick(
        &mut self,
        id: ConnId,
        session: &mut D::Session,
        now_ms: u64,
        out: &mut Out<'_>,
    ) -> Then {
        self.doors.tick(&mut self.till, id, session, now_ms, out)
    }

    fn service_tick_ms(&self) -> u64 {
        self.ticks.wait_ms()
    }

    fn service_tick(&mut self, now_ms: u64, outbox: &mut Outbox<'_, D::Session>) {
        while let Some(door) = self.ticks.take(&self.doors, now_ms) {
            self.doors.heard(door, &mut self.till, Heard::Tick, outbox);
        }
    }

    fn drained(&mut self, id: ConnId, session: &mut D::Session, out: &mut Out<'_>) -> Then {
        self.doors.drained(&mut self.till, id, session, out)
    }

    #[inline]
    fn received(
        &mut self,
        id: ConnId,
        session: &mut D::Session,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        self.till.lap(WorkerStage::Receive, 1);
        self.doors.received(&mut self.till, id, session, input, out)
    }

    fn owes(&self, id: ConnId, session: &D::Session) -> bool {
        self.doors.owes(&self.till, id, session)
    }

    fn closed(&mut self, id: ConnId, session: D::Session, why: CloseReason) {
        self.doors.closed(&mut self.till, id, session, why);
    }

    fn turn(&mut self, outbox: &mut Outbox<'_, D::Session>) -> Turn {
        self.till.lap(WorkerStage::Receive, 0);
        let taken = self.take_down(outbox);
        if outbox.stopping() && !std::mem::replace(&mut self.stopping, true) {
            self.tell_all(|| Heard::Stopping, outbox);
        }
        while let Some(request) = self.till.named_due() {
            self.tell_named(request, outbox);
        }
        self.doors.turn(&mut self.till, outbox);
        self.till.lap(WorkerStage::FromBank, taken);
        self.run_timers();
        self.till.lap(WorkerStage::Timers, 1);
        let sent = self.push_up();
        self.till.lap(WorkerStage::ToBank, sent);
        self.wake_bank();
        self.doors.write(outbox);
        self.till.lap(WorkerStage::FromBank, 0);
        self.publish();
        self.till.lap(WorkerStage::Gauges, 1);
        let waits_ms = self.doors.wait_ms(&mut self.till).unwrap_or(IDLE_MS);
        let again_ms = self.till.named_wait_ms().unwrap_or(IDLE_MS);
        let wait_ms_max = waits_ms.min(again_ms).clamp(1, IDLE_MS);
        let drained = self.till.questions.is_empty() && self.doors.is_drained();
        Turn { wait_ms_max, spin: false, drained }
    }
}
