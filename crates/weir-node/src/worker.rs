//! A worker: what happens between the bytes of a frame and the bytes of its answer.
//!
//! The walk of one batch: read the asks in place, look all their budgets up at once, let the plan and then the
//! purse judge each, make the tokens of those that were granted, all together. No lock, no allocation, no system
//! call, no clock: the time is read once a wake-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::Thread;

use door_batch::{Gate, Limits, Passed, Question};
use door_transport::{Boundary, CloseReason, ConnId, Out, Outbox, Peer, Service, Step, Turn};
use gate_pacing::{Decision, Pace};
use ledger::{
    Amount, Answer as Remembrance, At, Door, Hold, KeyRing, Origin, Purses, Recall, Remembered,
    Request, ToBank, ToWorker, TokenError,
};
use probe::NodeClock;
use table::ring::{Receiver, SendError, Sender};
use wire::decide::Ask;
use wire::{Decide, Reason, Resolve, Verdict, decided, resolve, welcome};

use crate::answers::write_answer;
use crate::counters::WorkerCounters;
use crate::messages::{Down, Facts, Old, Snapshot, Up};
use crate::openrtb::OpenRtb;
use crate::openrtb::waiting::Waitings;
use crate::parking::Parking;
use crate::pending::{Place, Waiting};
use crate::questions::Questions;
use crate::stages::{JudgePart, WorkerProbes, WorkerStage};

/// The bank hears at least this often how far a worker's clock is.
const TICK_MS: u64 = 10;
/// A worker that nobody talks to wakes up this often.
const IDLE_MS: u64 = 20;
/// Slots whose gauges are written in one millisecond: 50,000 within a fifth of a second.
const GAUGES_A_MS: usize = 256;
/// Messages of the bank taken in one wake-up.
const DOWN_MAX: usize = 4096;

/// One connection, by its door.
pub(crate) enum Session {
    /// Of the batch door.
    Batch(door_batch::Session),
    /// Of the OpenRTB door.
    OpenRtb(door_http::Session),
}

/// Which listener of a worker is which door.
pub(crate) const BATCH_DOOR: usize = 0;

/// One worker.
pub(crate) struct Worker {
    number: u16,
    pub(super) facts: Arc<Facts>,
    pub(super) keys: Arc<KeyRing>,
    counters: Arc<WorkerCounters>,
    pub(super) clock: NodeClock,
    pub(super) at: At,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) paces: Box<[Pace]>,
    pub(super) purses: Purses,
    pub(super) openrtb: OpenRtb,
    remembered: Option<Remembered>,
    up: Sender<Up>,
    down: Receiver<Down>,
    bank: Thread,
    waiting: Waiting,
    questions: Questions,
    /// Frames that wait for the bank before they are judged.
    parking: Parking,
    frame: Frame,
    verdicts: [u64; 256],
    next_tick_ms: u64,
    next_gauge: usize,
    gauged_ms: u64,
    /// A message went to the bank that it should not sleep over.
    pub(super) urgent: bool,
    /// The journal cannot seal: nothing is granted.
    pub(super) journal_fails: bool,
    pub(super) probes: WorkerProbes,
}

/// Work space for one frame, kept so that nothing is allocated a frame.
#[derive(Default)]
struct Frame {
    ids: Vec<u64>,
    slots: Vec<Option<u32>>,
    /// Answers that were granted: their tokens are written, and sealed all together.
    places: Vec<u16>,
    /// Holds of the pod that is being judged.
    pod: Vec<Hold>,
}

/// The queues of one worker.
pub(crate) struct Lines {
    pub(crate) up: Sender<Up>,
    pub(crate) down: Receiver<Down>,
    pub(crate) bank: Thread,
    /// The token keys of the start.
    pub(crate) keys: Arc<KeyRing>,
}

impl Worker {
    pub(crate) fn new(
        number: u16,
        facts: Arc<Facts>,
        counters: Arc<WorkerCounters>,
        mut purses: Purses,
        lines: Lines,
        openrtb: OpenRtb,
        probes: WorkerProbes,
    ) -> Worker {
        let mut clock = NodeClock::not_before(facts.earliest_ms);
        let at = purses.at(clock.now_ms());
        purses.steady(clock.steady_ms());
        let secret = table::Secret::new(facts.secret);
        Worker {
            number,
            keys: lines.keys,
            counters,
            clock,
            at,
            snapshot: Snapshot::empty(secret),
            paces: Box::default(),
            purses,
            openrtb,
            remembered: None,
            up: lines.up,
            down: lines.down,
            bank: lines.bank,
            waiting: Waiting::new(facts.waiting_max),
            questions: Questions::default(),
            parking: Parking::default(),
            frame: Frame::default(),
            verdicts: [0; 256],
            next_tick_ms: 0,
            next_gauge: 0,
            gauged_ms: 0,
            urgent: false,
            journal_fails: false,
            probes,
            facts,
        }
    }

    /// Judges one ask: is it sound, does its plan allow it, is the money there. With `PARTS` it is noted how long each
    /// of these takes; the answer is the same.
    #[inline(always)]
    fn judge<const PARTS: bool>(&mut self, ask: &Ask, slot: Option<u32>) -> Result<Hold, Verdict> {
        let slot = slot.ok_or(Verdict::UnknownBudget)?;
        let amount = Amount::new(ask.amount());
        if !amount.is_ask() {
            return Err(Verdict::BadAmount);
        }
        let (unit, expected) = (ask.unit(), self.snapshot.units[slot as usize]);
        if unit != expected && unit != [0; 4] {
            return Err(Verdict::UnitMismatch);
        }
        self.part::<PARTS>(JudgePart::Check);
        let pace = &mut self.paces[slot as usize];
        let decision = pace.decide(ask.request_id(), amount);
        self.part::<PARTS>(JudgePart::Pacing);
        if decision == Decision::Paced {
            return Err(Verdict::Paced);
        }
        let reserved = self.purses.reserve(slot, amount, self.at);
        let held = reserved.inspect_err(|_| self.paces[slot as usize].give_back(amount));
        self.part::<PARTS>(JudgePart::Purse);
        held
    }

    /// A part of judging ends here.
    #[inline(always)]
    fn part<const PARTS: bool>(&mut self, part: JudgePart) {
        if PARTS {
            self.probes.parts.lap(part, 1);
        }
    }

    fn judge_all<const PARTS: bool>(
        &mut self,
        batch: &Decide<'_>,
        answers: &mut [decided::Answer],
    ) {
        for (i, ask) in batch.asks().iter().enumerate() {
            let judged = self.judge::<PARTS>(ask, self.frame.slots[i]);
            self.answer(i, judged, answers);
            self.part::<PARTS>(JudgePart::Verdict);
        }
    }

    /// The same in a turn in which the parts of judging are told apart.
    #[cold]
    #[inline(never)]
    fn judge_all_in_parts(&mut self, batch: &Decide<'_>, answers: &mut [decided::Answer]) {
        self.probes.parts.skip();
        self.judge_all::<true>(batch, answers);
    }

    /// Neighbours with the same non-zero pod are granted all or none.
    fn judge_pods(&mut self, batch: &Decide<'_>, answers: &mut [decided::Answer]) {
        let asks = batch.asks();
        let mut from = 0;
        while let Some(first) = asks.get(from) {
            let pod = first.pod();
            let same = asks.iter().skip(from + 1).take_while(|ask| pod != 0 && ask.pod() == pod);
            let to = from + 1 + same.count();
            self.judge_pod(batch, from..to, answers);
            from = to;
        }
    }

    fn judge_pod(
        &mut self,
        batch: &Decide<'_>,
        members: std::ops::Range<usize>,
        answers: &mut [decided::Answer],
    ) {
        let granted_before = self.frame.places.len();
        self.frame.pod.clear();
        for i in members.clone() {
            let Some(ask) = batch.asks().get(i) else { return };
            let judged = self.judge::<false>(ask, self.frame.slots[i]);
            let why = match judged {
                Err(why) => why,
                Ok(hold) => {
                    self.frame.pod.push(hold);
                    self.answer(i, judged, answers);
                    continue;
                }
            };
            self.undo_pod(granted_before);
            for other in members.clone() {
                let verdict = if other == i { why } else { Verdict::PodRefused };
                self.correct(other, verdict, other < i, answers);
            }
            return;
        }
    }

    /// Takes back the holds of the pod so far, as if they had never been asked for.
    fn undo_pod(&mut self, granted_before: usize) {
        while let Some(hold) = self.frame.pod.pop() {
            let place = self.frame.places.pop().expect("a granted answer has a place");
            if let Some(slot) = self.frame.slots[usize::from(place)] {
                self.purses.undo(slot, &hold);
                self.paces[slot as usize].give_back(hold.amount);
            }
        }
        assert_eq!(self.frame.places.len(), granted_before, "a pod is undone whole");
    }

    fn correct(
        &mut self,
        i: usize,
        verdict: Verdict,
        counted: bool,
        answers: &mut [decided::Answer],
    ) {
        if counted {
            self.verdicts[usize::from(Verdict::Granted.as_raw())] -= 1;
        }
        self.answer(i, Err(verdict), answers);
    }

    /// Notes the answer to ask `i`; tokens are made later, all together.
    #[inline(always)]
    fn answer(&mut self, i: usize, judged: Result<Hold, Verdict>, answers: &mut [decided::Answer]) {
        let verdict = match judged {
            Ok(hold) => {
                self.keys.write(&hold, answers[i].token_mut());
                let place = u16::try_from(i).expect("a batch has at most 1,024 entries");
                self.frame.places.push(place);
                Verdict::Granted
            }
            Err(why) => {
                answers[i].set_token([0; 32]);
                self.tally(i, why);
                why
            }
        };
        answers[i].set_verdict(verdict);
        self.verdicts[usize::from(verdict.as_raw())] += 1;
    }

    /// Counts a refusal for the budget that ask `i` named, if there is one, and remembers it for a while.
    #[inline(always)]
    fn tally(&self, i: usize, why: Verdict) {
        let Some(Some(slot)) = self.frame.slots.get(i) else { return };
        if let Some(tally) = self.snapshot.cells.tallies.get(*slot as usize) {
            tally.refused(why);
            self.counters.refusals.note(*slot, why, self.at.now_ms);
        }
    }

    /// With the remember flag: a request id seen before gets its first answer.
    fn judge_remembered(
        &mut self,
        client: u64,
        batch: &Decide<'_>,
        answers: &mut [decided::Answer],
    ) {
        let (secret, max, lifetime) =
            (self.facts.secret, self.facts.remember_max, self.facts.hold_ms);
        let mut table = self
            .remembered
            .take()
            .unwrap_or_else(|| Remembered::new(max, u64::from(lifetime), secret));
        let now_ms = self.at.now_ms;
        for (i, ask) in batch.asks().iter().enumerate() {
            let request = request_of(client, ask);
            let judged = match table.recall(&request, now_ms) {
                Recall::Answered(first) => {
                    let seen = &self.counters.remembered;
                    seen.store(seen.load(Relaxed) + 1, Relaxed);
                    first.hold.ok_or(first.verdict)
                }
                Recall::Different => Err(Verdict::IdReused),
                Recall::Full => Err(Verdict::Busy),
                // All or none cannot be promised for answers that are remembered one by one.
                Recall::New(_) if ask.pod() != 0 => Err(Verdict::PodRefused),
                Recall::New(place) => {
                    let judged = self.judge::<false>(ask, self.frame.slots[i]);
                    let verdict = judged.err().unwrap_or(Verdict::Granted);
                    let answer = Remembrance { verdict, hold: judged.ok() };
                    table.store(place, &request, answer, now_ms);
                    judged
                }
            };
            self.answer(i, judged, answers);
        }
        self.remembered = Some(table);
    }

    /// Seals the tokens of the frame, where they stand in its answer.
    fn seal(&mut self, answers: &mut [decided::Answer]) {
        self.keys.seal(answers, &self.frame.places, decided::Answer::token_mut);
        self.probes.lap(WorkerStage::Token, self.frame.places.len());
        self.frame.places.clear();
    }

    /// Takes what the bank sent; returns how many messages that was.
    fn take_down(&mut self, outbox: &mut Outbox<'_, Session>) -> usize {
        for taken in 0..DOWN_MAX {
            let Some(message) = self.down.recv() else { return taken };
            match message {
                Down::Ledger(ToWorker::Resolved { reply, verdict, repeat })
                    if Waitings::is_ours(reply) =>
                {
                    self.answer_notice(reply, verdict, repeat, outbox);
                }
                Down::Ledger(ToWorker::Resolved { reply, verdict, repeat }) => {
                    self.waiting.answer(Place::from_bits(reply), verdict, repeat);
                }
                Down::Ledger(ToWorker::Echo { reply }) => self.parking.echoed(reply),
                Down::Ledger(message) => self.purses.take(message, self.at.now_ms),
                Down::Snapshot(snapshot, paces) => {
                    self.install(snapshot);
                    self.replace_paces(paces);
                }
                Down::Paces(paces) => self.replace_paces(paces),
                Down::Keys(keys) => self.keys = keys,
                Down::JournalFails(fails) => self.journal_fails = fails,
                Down::Why { campaign, reply } => {
                    // Who asked may have given up.
                    let _ = reply.send(self.openrtb.fates(&self.snapshot.market, campaign));
                }
                Down::Fates { campaigns, reply } => {
                    let market = &self.snapshot.market;
                    let fates = |id: &u64| Some((*id, self.openrtb.fates(market, *id)?));
                    let _ = reply.send(campaigns.iter().filter_map(fates).collect());
                }
                Down::Answer { conn, answer } => {
                    self.questions.answered(conn);
                    outbox.with(ConnId::from_bits(conn), |_, out| write_answer(out, &answer));
                }
            }
        }
        DOWN_MAX
    }

    /// Between two batches, never in the middle of one.
    fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.purses.grow(snapshot.units.len());
        self.openrtb.campaigns_changed(snapshot.market.len());
        let old = std::mem::replace(&mut self.snapshot, snapshot);
        self.send(Up::Old(Old::Snapshot(old)));
    }

    fn replace_paces(&mut self, paces: Box<[Pace]>) {
        let old = std::mem::replace(&mut self.paces, paces);
        self.send(Up::Old(Old::Paces(old)));
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
        let mut sent = self.push_questions();
        while let Some(message) = self.purses.next_message() {
            self.urgent |= !matches!(message, ToBank::Tick { .. } | ToBank::Lapse { .. });
            if let Err(refused) = self.up.try_send(Up::Ledger(message)) {
                if let SendError::Full(Up::Ledger(message)) = refused {
                    self.purses.unsend(message);
                }
                break;
            }
            sent += 1;
        }
        if std::mem::take(&mut self.urgent) {
            self.bank.unpark();
        }
        sent
    }

    /// Before the purses' messages: where the queue is full of these, a question has its place as well.
    fn push_questions(&mut self) -> usize {
        let mut sent = 0;
        while let Some((conn, question)) = self.questions.next() {
            if let Err(refused) = self.up.try_send(Up::Question { conn, question }) {
                if let SendError::Full(_) = refused {
                    self.questions.unsend(conn, question);
                }
                break;
            }
            sent += 1;
        }
        sent
    }

    /// What is due. Deadlines are judged by the node's time; how often something is done, by a clock that never stands.
    fn run_timers(&mut self) {
        let (now_ms, steady_ms) = (self.at.now_ms, self.clock.steady_ms());
        self.purses.turn(now_ms);
        // Behind the wants.
        if let Some(reply) = self.parking.next_echo() {
            self.purses.send(ToBank::Echo { reply });
        }
        if steady_ms >= self.next_tick_ms {
            self.purses.tick(now_ms);
            self.next_tick_ms = steady_ms + TICK_MS;
        }
    }

    /// Judges the frames that need not wait any longer; those of connections that are gone are forgotten.
    fn answer_parked(&mut self, outbox: &mut Outbox<'_, Session>) {
        let steady_ms = self.clock.steady_ms();
        while let Some(parked) = self.parking.next_due(steady_ms) {
            outbox.with(ConnId::from_bits(parked.conn), |_, out| {
                door_batch::decide_frame(parked.client, &parked.frame, out, self);
            });
            self.parking.recycle(parked);
        }
    }

    /// Asks the bank for what the purses are short of for this batch; true if it was asked for anything.
    fn call_for(&mut self, batch: &Decide<'_>) -> bool {
        let mut asked = std::mem::take(&mut self.parking.asked);
        asked.clear();
        for ask in batch.asks().iter() {
            let Some(slot) = self.snapshot.slots.get(ask.budget_id()) else { continue };
            let unit = ask.unit();
            let same_unit = unit == [0; 4] || unit == self.snapshot.units[slot as usize];
            if same_unit && Amount::new(ask.amount()).is_ask() {
                asked.push((slot, ask.amount()));
            }
        }
        asked.sort_unstable();
        let mut called = false;
        for of_slot in asked.chunk_by(|(a, _), (b, _)| a == b) {
            // At most 1,024 asks of at most 10^15.
            let amount: i64 = of_slot.iter().map(|(_, amount)| amount).sum();
            called |= self.purses.call(of_slot[0].0, Amount::new(amount), self.at);
        }
        self.parking.asked = asked;
        called
    }

    fn write_resolved(&mut self, outbox: &mut Outbox<'_, Session>) {
        while let Some(batch) = self.waiting.next_complete() {
            outbox.with(ConnId::from_bits(batch.conn), |_, out| batch.write(out));
            self.waiting.recycle(batch);
        }
    }

    /// Tells other threads how things stand. At most once a millisecond.
    fn publish(&mut self) {
        let steady_ms = self.clock.steady_ms();
        if steady_ms == self.gauged_ms {
            return;
        }
        self.gauged_ms = steady_ms;
        let rows = [
            (&self.counters.verdicts, &self.verdicts),
            (&self.counters.resolved, &self.waiting.counts),
        ];
        for (shared, counts) in rows {
            for (shared, count) in shared.iter().zip(counts) {
                shared.store(*count, Relaxed);
            }
        }
        let waiting = self.waiting.len() + self.openrtb.waiting.len();
        self.counters.waiting.store(waiting as u64, Relaxed);
        self.openrtb.counts.publish(&self.counters.openrtb);
        self.counters.clock_back.store(self.clock.state().stepped_back, Relaxed);
        let gauges = &self.snapshot.cells.gauges;
        for _ in 0..GAUGES_A_MS.min(gauges.len()) {
            let slot = self.next_gauge % gauges.len();
            self.next_gauge = slot + 1;
            let index = u32::try_from(slot).expect("slots are counted in 32 bits");
            let purses = &self.purses;
            gauges[slot].set(purses.held(index), purses.free(index), purses.made(index));
        }
    }

    fn resolve_one(&mut self, place: Place, request: resolve::ItemView<'_>) {
        let opened = self.keys.open(request.token());
        let refused = match (opened, request.action()) {
            (Ok(hold), Some(action)) => {
                let amount = Amount::new(request.amount());
                let (at_ms, reply) = (self.at.now_ms, place.to_bits());
                // Clients of version 1 give no name.
                let request_id = request.request_id().unwrap_or(0);
                let origin = Origin { door: Door::Batch, request_id };
                self.purses.send(ToBank::Resolve { action, hold, amount, at_ms, origin, reply });
                return;
            }
            (Err(TokenError::Foreign(_)), _) => Verdict::Foreign,
            (Err(TokenError::TooOld(_)), _) => Verdict::TooOld,
            (Err(_), _) => Verdict::Forged,
            (Ok(_), None) => Verdict::BadAction,
        };
        self.waiting.answer(place, refused, false);
    }
}

/// What names a request, and the rest of it.
fn request_of(client: u64, ask: &Ask) -> Request {
    let unit = u64::from(u32::from_le_bytes(ask.unit())) << 16 | u64::from(ask.pod());
    let content = [ask.budget_id(), ask.amount().cast_unsigned(), ask.user_id(), unit];
    Request { client, id: ask.request_id(), content }
}

impl Gate for Worker {
    fn limits(&self) -> Limits {
        let Facts { batch_max, frame_bytes_max, .. } = *self.facts;
        Limits { batch_max: usize::from(batch_max), frame_bytes_max }
    }

    fn authorised(&self, token: &[u8]) -> bool {
        let expected = &self.facts.auth_token;
        let differing = expected.iter().zip(token).fold(0, |bits, (a, b)| bits | (a ^ b));
        expected.is_empty() || (expected.len() == token.len() && differing == 0)
    }

    fn welcome(&self) -> welcome::Block {
        let f = &self.facts;
        welcome::Block::new(
            wire::SCHEMA_VERSION,
            f.node,
            f.run,
            f.batch_max,
            self.number,
            f.frame_bytes_max,
            f.hold_ms,
            f.billing_ms,
            self.at.now_ms,
        )
    }

    fn now_ms(&self) -> u64 {
        self.at.now_ms
    }

    fn snapshot(&self) -> u32 {
        self.snapshot.number
    }

    #[inline]
    fn decide(&mut self, client: u64, batch: &Decide<'_>, answers: &mut [decided::Answer]) {
        self.probes.lap(WorkerStage::Encode, batch.asks().len());
        let asks = batch.asks();
        let mut pods = 0;
        self.frame.ids.clear();
        for ask in asks.iter() {
            self.frame.ids.push(ask.budget_id());
            pods |= ask.pod();
        }
        self.frame.slots.resize(asks.len(), None);
        self.snapshot.slots.get_batch(&self.frame.ids, &mut self.frame.slots);
        for slot in self.frame.slots.iter().flatten() {
            table::prefetch(&self.paces[*slot as usize]);
            self.purses.prefetch(*slot);
        }
        self.probes.lap(WorkerStage::Lookup, asks.len());
        if self.journal_fails {
            (0..answers.len()).for_each(|i| self.answer(i, Err(Verdict::Journal), answers));
            return;
        }
        if batch.flags().remember() {
            self.judge_remembered(client, batch, answers);
        } else if pods != 0 {
            self.judge_pods(batch, answers);
        } else if self.probes.has_parts() {
            self.judge_all_in_parts(batch, answers);
        } else {
            self.judge_all::<false>(batch, answers);
        }
        self.probes.lap(WorkerStage::Judge, asks.len());
        self.seal(answers);
    }

    fn postpone(&mut self, conn: ConnId, client: u64, batch: &Decide<'_>, frame: &[u8]) -> bool {
        let may_wait = self.facts.wait_ms > 0 && !self.journal_fails;
        if !may_wait || !self.parking.has_room(frame.len()) || !self.call_for(batch) {
            return false;
        }
        let until_ms = self.clock.steady_ms() + self.facts.wait_ms;
        self.parking.park(conn.to_bits(), client, frame, until_ms);
        true
    }

    fn resolve(&mut self, conn: ConnId, batch: &Resolve<'_>) -> Result<(), Reason> {
        if self.journal_fails {
            return Err(Reason::Journal);
        }
        let resolves = batch.resolves();
        let index =
            self.waiting.open(conn.to_bits(), batch.frame(), resolves.len()).ok_or(Reason::Busy)?;
        for (entry, resolve) in resolves.iter().enumerate() {
            let place = Place::new(index, entry);
            self.resolve_one(place, resolve);
        }
        self.probes.lap(WorkerStage::Resolve, resolves.len());
        Ok(())
    }

    fn question(&mut self, conn: ConnId, question: Question) -> Result<(), Reason> {
        self.questions.take(conn.to_bits(), question)?;
        self.urgent = true;
        Ok(())
    }

    fn refused(&mut self, reason: Reason) {
        let count: &AtomicU64 = &self.counters.refused[usize::from(reason.as_raw())];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    #[inline(always)]
    fn passed(&mut self, boundary: Passed) {
        match boundary {
            Passed::Decoded => self.probes.lap(WorkerStage::FrameDecode, 1),
            Passed::Encoded => self.probes.lap(WorkerStage::Encode, 0),
        }
    }
}

impl Service for Worker {
    type Conn = Session;

    fn woke(&mut self) {
        self.probes.begin();
        self.at = self.purses.at(self.clock.now_ms());
        self.purses.steady(self.clock.steady_ms());
    }

    #[inline(always)]
    fn passed(&mut self, boundary: Boundary) {
        match boundary {
            Boundary::ReceiveCall => self.probes.lap(WorkerStage::Receive, 0),
            Boundary::SendCall => self.probes.lap(WorkerStage::Send, 0),
            Boundary::CallReturned => self.probes.laps.skip(),
            Boundary::Sent => self.probes.lap(WorkerStage::Send, 1),
        }
    }

    fn opened(&mut self, _: ConnId, _: Peer, door: usize) -> Session {
        match door {
            BATCH_DOOR => Session::Batch(door_batch::Session::default()),
            _ => Session::OpenRtb(door_http::Session::default()),
        }
    }

    #[inline]
    fn received(
        &mut self,
        id: ConnId,
        conn: &mut Session,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        self.probes.lap(WorkerStage::Receive, 1);
        match conn {
            Session::Batch(session) => session.received(id, input, out, self),
            Session::OpenRtb(session) => self.received_http(id, session, input, out),
        }
    }

    fn closed(&mut self, _: ConnId, _: Session, _: CloseReason) {}

    fn turn(&mut self, outbox: &mut Outbox<'_, Session>) -> Turn {
        self.probes.lap(WorkerStage::Receive, 0);
        let taken = self.take_down(outbox);
        self.answer_parked(outbox);
        self.send_logged();
        self.probes.lap(WorkerStage::FromBank, taken);
        self.run_timers();
        self.probes.lap(WorkerStage::Timers, 1);
        let sent = self.push_up();
        self.probes.lap(WorkerStage::ToBank, sent);
        self.write_resolved(outbox);
        self.probes.lap(WorkerStage::FromBank, 0);
        self.publish();
        self.probes.lap(WorkerStage::Gauges, 1);
        let drained =
            self.waiting.is_empty() && self.openrtb.waiting.is_empty() && self.parking.is_empty();
        let waits_ms = self.parking.wait_ms(self.clock.steady_ms());
        let wait_ms_max = waits_ms.map_or(IDLE_MS, |waits_ms| waits_ms.clamp(1, IDLE_MS));
        Turn { wait_ms_max, spin: false, drained }
    }
}

#[cfg(test)]
mod tests {
    use gate_profile::Profiles;
    use probe::Laps;
    use proptest::prelude::*;
    use table::{Map, Secret, ring};
    use wire::{DecideFlags, Message, decide};

    use super::*;
    use crate::counters::SlotCells;
    use crate::openrtb;
    use weir_config::campaign_index::CampaignIndex;
    use weir_config::config::Config;

    const NOW_MS: u64 = 1_000_000;
    const BUDGETS: u32 = 8;
    /// What every purse has.
    const FILLED: i64 = 1_000;

    /// A worker at a fixed instant: every third plan is closed, every purse has the same money.
    fn worker(profiles: &Profiles, probes: WorkerProbes) -> Worker {
        let config = Config::default();
        let door = openrtb::Door::new(&config, config.openrtb.listen).unwrap();
        let openrtb = OpenRtb::new(Arc::new(door), profiles.clone());
        let (up, _) = ring::channel(64);
        let (_, down) = ring::channel(64);
        let keys = Arc::new(KeyRing::new(1, 1, [7; 16]));
        let lines = Lines { up, down, bank: std::thread::current(), keys };
        let options = ledger::PurseOptions { node: 1, hold_ms: 2_000 };
        let mut purses = Purses::new(options, BUDGETS as usize);
        let (valid_from_ms, valid_until_ms) = (0, u64::MAX);
        for slot in 0..BUDGETS {
            let (grant, amount) = (u64::from(slot) + 1, Amount::new(FILLED));
            let fill = ToWorker::Fill { slot, grant, amount, valid_from_ms, valid_until_ms };
            purses.take(fill, NOW_MS);
        }
        let counters = Arc::new(WorkerCounters::default());
        let mut worker =
            Worker::new(0, Arc::new(facts()), counters, purses, lines, openrtb, probes);
        worker.at = worker.purses.at(NOW_MS);
        let pace = |slot: u32| if slot.is_multiple_of(3) { Pace::CLOSED } else { Pace::OPEN };
        worker.paces = (0..BUDGETS).map(pace).collect();
        let ids = (0..BUDGETS).map(|slot| (u64::from(slot) + 1, slot));
        worker.snapshot = Arc::new(Snapshot {
            number: 1,
            slots: Map::build(Secret::new(5), ids).unwrap(),
            units: vec![*b"USD\0"; BUDGETS as usize],
            market: CampaignIndex::empty(),
            purses: Arc::new([]),
            cells: SlotCells::new(BUDGETS as usize),
        });
        worker
    }

    fn facts() -> Facts {
        Facts {
            node: 1,
            run: 1,
            hold_ms: 2_000,
            billing_ms: 3_600_000,
            auth_token: Vec::new(),
            batch_max: 1_024,
            frame_bytes_max: 65_536,
            waiting_max: 16,
            wait_ms: 10,
            earliest_ms: 0,
            secret: 9,
            remember_max: 1_024,
        }
    }

    /// What the worker answers to these frames, each in a turn of its own.
    fn answers(worker: &mut Worker, frames: &[(DecideFlags, Vec<decide::Ask>)]) -> Vec<u8> {
        let mut all = Vec::new();
        for (number, (flags, asks)) in (0..).zip(frames) {
            let mut frame = vec![0; decide::encoded_len(asks.len())];
            let block = decide::Block::new(number, *flags);
            decide::encode(&mut frame, &block).unwrap().asks(asks).unwrap().finish();
            let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
            let mut answer = vec![0; decided::encoded_len(asks.len())];
            let block = decided::Block::new(number, 1);
            let encoder = decided::encode(&mut answer, &block).unwrap();
            let (answers, encoder) = encoder.answers_mut(asks.len()).unwrap();
            worker.probes.begin();
            worker.decide(7, &batch, answers);
            encoder.finish();
            all.append(&mut answer);
        }
        all
    }

    fn probes(stages_every: u32, parts_every: u32) -> WorkerProbes {
        WorkerProbes::new(Laps::new(stages_every).0, Laps::new(parts_every).0)
    }

    fn ask() -> impl Strategy<Value = decide::Ask> {
        let unit = prop_oneof![8 => Just([0; 4]), 1 => Just(*b"USD\0"), 1 => Just(*b"EUR\0")];
        let (budgets, amounts) = (0..=u64::from(BUDGETS) + 1, -1..FILLED / 2);
        let pod = prop_oneof![9 => Just(0), 1 => 1..3_u16];
        (0..500_u64, budgets, amounts, unit, pod).prop_map(|(id, budget, amount, unit, pod)| {
            decide::Ask::new(id, budget, amount, 7, unit, pod, 0)
        })
    }

    fn frame() -> impl Strategy<Value = (DecideFlags, Vec<decide::Ask>)> {
        let flags =
            prop_oneof![4 => Just(DecideFlags::default()), 1 => Just(DecideFlags::REMEMBER)];
        let alone = prop::collection::vec(ask(), 1..12).prop_map(|mut asks| {
            asks.iter_mut().for_each(|ask| ask.set_pod(0));
            asks
        });
        (flags, prop_oneof![3 => alone, 1 => prop::collection::vec(ask(), 1..12)])
    }

    /// Asks take nothing from them.
    fn profiles() -> (tempfile::TempDir, Profiles) {
        let folder = tempfile::tempdir().unwrap();
        let profiles = Profiles::open(folder.path(), &gate_profile::Options::default()).unwrap();
        (folder, profiles)
    }

    #[test]
    fn measuring_changes_no_answer() {
        let (_folder, profiles) = profiles();
        let answers = |frames: &[_], (stages, parts)| {
            answers(&mut worker(&profiles, probes(stages, parts)), frames)
        };
        proptest!(|(frames in prop::collection::vec(frame(), 1..30))| {
            let plain = answers(&frames, (0, 0));
            for measured in [(1, 0), (0, 1), (2, 2)] {
                prop_assert_eq!(&answers(&frames, measured), &plain);
            }
        });
    }

    #[test]
    fn a_refusal_is_remembered_with_the_budget_that_was_named() {
        let (_folder, profiles) = profiles();
        let mut worker = worker(&profiles, probes(0, 0));
        let ask = |budget, amount| decide::Ask::new(1, budget, amount, 7, [0; 4], 0, 0);
        let frame = |asks| (DecideFlags::default(), asks);
        answers(&mut worker, &[frame(vec![ask(2, 10), ask(3, 0), ask(99, 10), ask(1, 10)])]);
        worker.journal_fails = true;
        answers(&mut worker, &[frame(vec![ask(6, 10)])]);
        let last = worker.counters.refusals.read(NOW_MS + 5);
        let last: Vec<_> = last.map(|one| (one.at_ms, one.slot, one.verdict)).collect();
        let refused = |slot, verdict| (NOW_MS, slot, verdict);
        let expected = [
            refused(5, Verdict::Journal),
            refused(0, Verdict::Paced),
            refused(2, Verdict::BadAmount),
        ];
        assert_eq!(last, expected);
        for (_, slot, verdict) in expected {
            let tally = &worker.snapshot.cells.tallies[slot as usize];
            assert_eq!(tally.count(verdict.as_raw().into()), 1, "{verdict:?}");
        }
    }

    /// The node's clock stands still for a day, as the system's time of day was a day ahead and was put right: purses want
    /// money, and what is counted is told.
    #[test]
    fn a_worker_goes_on_while_its_clock_stands() {
        let (_folder, profiles) = profiles();
        let mut worker = worker(&profiles, probes(0, 0));
        let hand = probe::HandClock::new(NOW_MS);
        worker.clock = NodeClock::by_hand(Arc::clone(&hand));
        hand.step(-86_400_000);
        for round in 1..=5 {
            hand.pass(6);
            worker.woke();
            assert_eq!(worker.at.now_ms, NOW_MS);
            let ask = decide::Ask::new(round, 2, FILLED + 1, 7, [0; 4], 0, 0);
            answers(&mut worker, &[(DecideFlags::default(), vec![ask])]);
            worker.run_timers();
            worker.publish();
            let said: Vec<ToBank> = std::iter::from_fn(|| worker.purses.next_message()).collect();
            assert!(said.iter().any(|message| matches!(message, ToBank::Want { .. })), "{said:?}");
            assert_eq!(worker.counters.verdict(Verdict::PurseEmpty), round, "published");
        }
    }

    /// Two requests whose ids lie so that they were once taken for one: two holds, of which each settles.
    #[test]
    fn requests_of_different_clients_have_holds_of_their_own() {
        let (_folder, profiles) = profiles();
        let mut worker = worker(&profiles, probes(0, 0));
        let mut token = |client, id| {
            let asks = [decide::Ask::new(id, 2, 10, 7, [0; 4], 0, 0)];
            let mut frame = vec![0; decide::encoded_len(1)];
            let block = decide::Block::new(1, DecideFlags::REMEMBER);
            decide::encode(&mut frame, &block).unwrap().asks(&asks).unwrap().finish();
            let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
            let mut answers = [decided::Answer::new([0; 32], Verdict::Busy)];
            worker.decide(client, &batch, &mut answers);
            assert_eq!(answers[0].verdict(), Some(Verdict::Granted));
            *answers[0].token()
        };
        let first = token(1, 1_000);
        assert_ne!(token(2, 1_000 ^ 0x6000_0000), first);
        assert_ne!(token(2, 1_000), first);
        assert_eq!(token(1, 1_000), first, "the same request");
    }

    /// A frame with the flag `awaitFill` that asks `amount` of the second budget; true if it waits.
    fn postpone(worker: &mut Worker, amount: i64) -> bool {
        let asks = [decide::Ask::new(1, 2, amount, 7, [0; 4], 0, 0)];
        let mut frame = vec![0; decide::encoded_len(asks.len())];
        let block = decide::Block::new(1, DecideFlags::AWAIT_FILL);
        decide::encode(&mut frame, &block).unwrap().asks(&asks).unwrap().finish();
        let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
        worker.postpone(ConnId::from_bits(5), 7, &batch, &frame)
    }

    fn said(worker: &mut Worker) -> Vec<ToBank> {
        worker.run_timers();
        std::iter::from_fn(|| worker.purses.next_message()).collect()
    }

    #[test]
    fn a_frame_waits_until_the_bank_has_answered_or_its_time_is_up() {
        let (_folder, profiles) = profiles();
        let mut worker = worker(&profiles, probes(0, 0));
        let hand = probe::HandClock::new(NOW_MS);
        worker.clock = NodeClock::by_hand(Arc::clone(&hand));
        worker.woke();
        assert!(!postpone(&mut worker, FILLED), "the purse has it");
        assert!(postpone(&mut worker, 5 * FILLED));
        let said_now = said(&mut worker);
        let called = Amount::new(5 * FILLED);
        let wants =
            |of: &ToBank| matches!(of, ToBank::Want { slot: 1, called: c, .. } if *c == called);
        let want = said_now.iter().position(wants).expect("a want");
        let echo =
            said_now.iter().position(|of| *of == ToBank::Echo { reply: 1 }).expect("an echo");
        assert!(want < echo, "{said_now:?}");
        let due = |worker: &mut Worker| worker.parking.next_due(worker.clock.steady_ms()).is_some();
        assert!(!due(&mut worker));
        // The bank says no: the frame is judged at once, and the next one does not wait.
        worker.purses.take(ToWorker::Deny { slot: 1, why: Verdict::Exhausted }, NOW_MS);
        worker.parking.echoed(1);
        assert!(due(&mut worker));
        assert!(!postpone(&mut worker, 5 * FILLED));
        // The bank is silent: its time is up.
        let fill = ToWorker::Fill {
            slot: 1,
            grant: 2,
            amount: Amount::new(1),
            valid_from_ms: 0,
            valid_until_ms: u64::MAX,
        };
        worker.purses.take(fill, NOW_MS);
        assert!(postpone(&mut worker, 5 * FILLED));
        hand.pass(worker.facts.wait_ms - 1);
        worker.woke();
        assert!(!due(&mut worker) && worker.parking.wait_ms(worker.clock.steady_ms()) == Some(1));
        hand.pass(1);
        worker.woke();
        assert!(due(&mut worker) && worker.parking.is_empty());
    }

    #[test]
    fn a_frame_does_not_wait_for_what_no_bank_can_give() {
        let (_folder, profiles) = profiles();
        let mut worker = worker(&profiles, probes(0, 0));
        assert!(!postpone(&mut worker, 0), "no amount");
        assert!(!postpone(&mut worker, i64::MAX), "no amount that may be asked");
        worker.journal_fails = true;
        assert!(!postpone(&mut worker, 5 * FILLED), "nothing can be sealed");
        worker.journal_fails = false;
        let places = (0..10_000).take_while(|_| postpone(&mut worker, 5 * FILLED)).count();
        assert!((1..10_000).contains(&places), "bounded: {places}");
        let facts = Facts { wait_ms: 0, ..facts() };
        worker.facts = Arc::new(facts);
        worker.parking = Parking::default();
        assert!(!postpone(&mut worker, 5 * FILLED), "switched off");
    }

    #[test]
    fn all_verdicts_of_an_ask_come_up() {
        let (_folder, profiles) = profiles();
        let mut worker = worker(&profiles, probes(0, 1));
        let ask = |budget, amount, unit| decide::Ask::new(1, budget, amount, 7, unit, 0, 0);
        let asks = vec![
            ask(2, 10, [0; 4]),
            ask(1, 10, [0; 4]),
            ask(99, 10, [0; 4]),
            ask(2, 0, [0; 4]),
            ask(2, 10, *b"EUR\0"),
            ask(2, FILLED, [0; 4]),
        ];
        answers(&mut worker, &[(DecideFlags::default(), asks)]);
        for verdict in [
            Verdict::Granted,
            Verdict::Paced,
            Verdict::UnknownBudget,
            Verdict::BadAmount,
            Verdict::UnitMismatch,
            Verdict::PurseEmpty,
        ] {
            assert_eq!(worker.verdicts[usize::from(verdict.as_raw())], 1, "{verdict:?}");
        }
    }
}
