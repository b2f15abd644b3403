//! The batch door of a worker: what happens between the bytes of a frame and the bytes of its answer.
//!
//! The walk of one batch: read the asks in place, look all their budgets up at once, let the plan and then the
//! purse judge each, make the tokens of those that were granted, all together.

mod answers;
pub mod counts;
mod parking;
mod resolving;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use access::{LiveTokens, Principal};
use door_transport::{ConnId, Out, Peer, Step};
use ledger::{
    Amount, Answer as Remembrance, Door as Origins, Handled, Hold, Origin, Recall, Remembered,
    Request, Resolution, TimedAnswer, TimedAsk, TimedRefusal,
};
use weir_config::config::Config;
use weir_door::{Door, DoorOutbox, Entrance, Heard, Outcomes, RequestKind, WorkerCounters};
use weir_till::{
    Ask, FillWait, Made, OPENINGS_MAX, Pending, Reply, Till, Waits,
    stages::{JudgePart, WorkerStage},
};
use wire::{
    BudgetName, Decide, Extend, Message, Reason, Resolve, Verdict, decide, decided, extend,
    resolve, welcome,
};

use self::answers::write_answer;
use self::counts::BatchCounts;
use self::parking::{Parked, Parking};
use self::resolving::Resolving;
use crate::{Budget, Client, Denied, Found, Gate, Limits, Passed, Question, Session};

/// What the door is set to; the same for all workers.
#[derive(Clone, Debug)]
pub struct BatchTerms {
    /// What clients must say in Hello.
    pub(crate) auth_token: Vec<u8>,
    /// Or a token of these principals.
    pub(crate) tokens: Option<LiveTokens>,
    /// Entries a frame may hold.
    pub(crate) batch_max: u16,
    /// Bytes a frame may have.
    pub(crate) frame_bytes_max: u32,
    /// Frames of resolves that may wait on one worker.
    pub(crate) waiting_max: usize,
    /// How long a frame with a single ask, or with the flag `awaitFill`, waits for the bank.
    pub(crate) wait_ms: u64,
    /// Answers remembered.
    pub(crate) remember_max: usize,
}

impl BatchTerms {
    /// Reads them from a configuration; `tokens` is the door's file.
    pub fn new(config: &Config, tokens: Option<LiveTokens>) -> BatchTerms {
        let b = &config.batch;
        BatchTerms {
            auth_token: b.auth_token.clone().into_bytes(),
            tokens,
            batch_max: b.batch_max,
            frame_bytes_max: b.frame_bytes_max,
            waiting_max: b.resolves_waiting_max,
            wait_ms: b.wait_ms,
            remember_max: config.ledger.remember_max,
        }
    }
}

/// The shortest time that a hold is given with `Extend`, ms.
const CONFIRM_MS_MIN: u32 = 1_000;

/// One worker's side of the door.
pub struct BatchDoor {
    /// Its place among the worker's doors.
    number: u8,
    counters: Arc<BatchCounts>,
    terms: Arc<BatchTerms>,
    entrance: Entrance,
    remembered: Option<Remembered>,
    /// Frames of resolves.
    resolving: Resolving,
    /// Frames that wait for the bank before they are judged.
    parking: Parking,
    frame: Frame,
    /// Clients that wait for a budget to be made: connection and frame number.
    finding: Pending<(u64, u64)>,
    /// Asks by verdict.
    verdicts: [u64; 256],
}

/// Work space for one frame, kept so that nothing is allocated a frame.
#[derive(Default)]
struct Frame {
    ids: Vec<u64>,
    slots: Vec<Option<u32>>,
    /// Answers that were granted: their tokens are written, and sealed all together.
    places: Vec<u16>,
    /// Asks of the pod that is being judged...
    pod: Vec<Result<Ask, Verdict>>,
    /// ...and their holds, with the slots of their budgets.
    holds: Vec<(u32, Hold)>,
    /// The client, where it may name some budgets only.
    limited: Option<Arc<Principal>>,
}

/// The door with the worker's till, as the protocol asks it.
struct BatchGate<'a> {
    door: &'a mut BatchDoor,
    till: &'a mut Till,
}

impl BatchDoor {
    /// The door at this place of its set.
    pub fn new(number: u8, terms: Arc<BatchTerms>, counters: &WorkerCounters) -> BatchDoor {
        BatchDoor {
            number,
            counters: counters.own(),
            entrance: Entrance::new(&terms.auth_token, terms.tokens.as_ref()),
            remembered: None,
            resolving: Resolving::new(terms.waiting_max),
            terms,
            parking: Parking::default(),
            frame: Frame::default(),
            // One more than the till lets wait, which says why one does not.
            finding: Pending::new(OPENINGS_MAX + 1),
            verdicts: [0; 256],
        }
    }

    /// The bank's answer to a later end.
    fn extended(&mut self, reply: Reply, answer: TimedAnswer) {
        let (verdict, end) = match answer {
            Ok(timed) => (Verdict::Extended, (timed.until_ms, timed.judged == Handled::Before)),
            Err(TimedRefusal::No(why)) => (why, (0, false)),
            // Of asks alone.
            Err(_) => (Verdict::TooOld, (0, false)),
        };
        self.resolving.answer_extend(reply, verdict, end);
    }

    /// Frames that came in this wake-up wait for the bank's word on what was wanted for them.
    #[inline]
    fn ask_echo(&mut self, till: &mut Till) {
        if let Some(number) = self.parking.frames.next_echo() {
            till.echo(Reply::numbered(self.number, number));
        }
    }
}

fn sum(counts: &[AtomicU64]) -> u64 {
    counts.iter().map(|count| count.load(Relaxed)).fold(0, u64::saturating_add)
}

impl Door for BatchDoor {
    const NAME: &'static str = "batch";
    const STAGES: &'static [WorkerStage] = &[
        WorkerStage::FrameDecode,
        WorkerStage::Encode,
        WorkerStage::Lookup,
        WorkerStage::Judge,
        WorkerStage::Token,
        WorkerStage::Resolve,
    ];
    const ANSWERED: WorkerStage = WorkerStage::Token;
    const REQUESTS: &'static [RequestKind] = &[
        RequestKind {
            name: "ask",
            decides: true,
            stage: WorkerStage::Lookup,
            count: |counters| sum(&counters.of::<BatchCounts>().verdicts),
        },
        RequestKind {
            name: "resolve",
            decides: false,
            stage: WorkerStage::Resolve,
            count: |counters| sum(&counters.of::<BatchCounts>().resolved),
        },
    ];
    type Conn = Session;
    type Counts = BatchCounts;

    fn outcomes(counters: &[Arc<WorkerCounters>]) -> Outcomes {
        let asks =
            Verdict::ALL.iter().filter(|verdict| verdict.as_raw() < Verdict::Confirmed.as_raw());
        let of_all = |verdict: &Verdict| {
            let counts = counters.iter().map(|all| all.of::<BatchCounts>().verdict(*verdict));
            (verdict.name(), counts.fold(0, u64::saturating_add))
        };
        asks.map(of_all).collect()
    }

    /// Takes over the token file in force: never in the middle of a batch.
    #[inline(always)]
    fn woke(&mut self) {
        self.entrance.refresh();
    }

    fn opened(&mut self, _: &mut Till, _: ConnId, _: Peer) -> Session {
        Session::default()
    }

    #[inline(always)]
    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut Session,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        conn.received(id, input, out, &mut BatchGate { door: self, till })
    }

    fn owes(&self, till: &Till, id: ConnId, _: &Self::Conn) -> bool {
        let conn = id.to_bits();
        let finds = || self.finding.iter().any(|(of, _)| *of == conn);
        self.resolving.has(conn) || self.parking.has(conn) || till.questions.has(conn) || finds()
    }

    #[inline(always)]
    fn resolved<S>(
        &mut self,
        _: &mut Till,
        reply: Reply,
        resolution: Resolution,
        _: &mut DoorOutbox<'_, '_, S, Session>,
    ) {
        self.resolving.answer(reply, resolution.verdict, resolution.is_repeat());
    }

    fn heard<S>(
        &mut self,
        till: &mut Till,
        heard: Heard<'_>,
        outbox: &mut DoorOutbox<'_, '_, S, Session>,
    ) {
        match heard {
            Heard::Echo(reply) => self.parking.frames.reached(reply.number()),
            Heard::Timed(reply, answer) => self.extended(reply, answer),
            Heard::Answer(id, answer) => _ = outbox.with(id, |_, out| write_answer(out, answer)),
            Heard::Budget(reply, opened) => {
                let Some((conn, frame)) = self.finding.close(reply.index) else { return };
                let known = |slot| till.opened.by_slot(slot).ok_or_else(|| till.unknown());
                let found = opened.and_then(known).map(budget_of);
                let id = ConnId::from_bits(conn);
                outbox.with(id, |_, out| crate::write_found(out, frame, found));
            }
            _ => {}
        }
    }

    /// Judges the frames that need not wait any longer; those of connections that are gone are forgotten.
    fn turn<S>(&mut self, till: &mut Till, outbox: &mut DoorOutbox<'_, '_, S, Session>) {
        let steady_ms = till.clock.steady_ms();
        while let Some(parked) = self.parking.next_due(steady_ms) {
            let mut gate = BatchGate { door: self, till };
            let Some(parked) = gate.asks_again(parked) else { continue };
            outbox.with(ConnId::from_bits(parked.conn), |_, out| {
                crate::decide_frame(&parked.client, &parked.frame, out, &mut gate);
            });
            self.parking.recycle(parked);
        }
        self.ask_echo(till);
    }

    fn write<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, Session>) {
        while let Some(batch) = self.resolving.frames.next_done() {
            outbox.with(ConnId::from_bits(batch.conn), |_, out| batch.write(out));
            self.resolving.recycle(batch);
        }
    }

    fn wait_ms(&self, till: &mut Till) -> Option<u64> {
        self.parking.frames.wait_ms(till.clock.steady_ms())
    }

    fn waiting(&self) -> usize {
        self.resolving.frames.len()
    }

    fn is_drained(&self) -> bool {
        let Resolving { frames, .. } = &self.resolving;
        frames.is_empty() && self.parking.frames.is_empty() && self.finding.is_empty()
    }

    fn publish(&mut self) {
        let counters = &self.counters;
        let rows =
            [(&counters.verdicts, &self.verdicts), (&counters.resolved, &self.resolving.counts)];
        for (shared, counts) in rows {
            for (shared, count) in shared.iter().zip(counts) {
                shared.store(*count, Relaxed);
            }
        }
    }
}

impl BatchGate<'_> {
    /// Budgets that a client may not name are none to it: it learns nothing of them, and nothing is counted for them.
    #[cold]
    fn hide_from(&mut self, client: &Client) {
        let mut hidden = 0;
        let Frame { ids, slots, .. } = &mut self.door.frame;
        for (id, slot) in ids.iter().zip(slots) {
            if !self.till.allows(client.principal.as_ref(), *id) {
                (*slot, hidden) = (None, hidden + 1);
            }
        }
        self.door.counters.out_of_scope.add(hidden);
    }

    /// What an ask comes to: its budget's slot, which a configuration names or a template made, and an amount in that budget's unit.
    #[inline(always)]
    fn understood(&self, ask: &decide::Ask, slot: Option<u32>) -> Result<Ask, Verdict> {
        let slot = slot.map_or_else(|| self.made_slot(ask.budget_id()), Ok)?;
        let amount = Amount::new(ask.amount());
        self.till.check(slot, ask.unit(), amount)?;
        Ok(Ask { slot, amount, coin: ask.request_id() })
    }

    /// The slot of a budget that no configuration names: it may have been made on its first ask.
    #[cold]
    fn made_slot(&self, id: u64) -> Result<u32, Verdict> {
        if !self.till.allows(self.door.frame.limited.as_ref(), id) {
            return Err(self.till.unknown());
        }
        self.till.opened.by_id(id).map(|made| made.slot).ok_or_else(|| self.till.unknown())
    }

    /// Judges one ask. With `PARTS` it is noted how long each part of that takes; the answer is the same.
    #[inline(always)]
    fn judge<const PARTS: bool>(
        &mut self,
        ask: &decide::Ask,
        slot: Option<u32>,
    ) -> Result<Hold, Verdict> {
        let ask = self.understood(ask, slot)?;
        self.part::<PARTS>(JudgePart::Check);
        if PARTS { self.till.reserve_in_parts(&ask) } else { self.till.reserve(&ask) }
    }

    /// A part of judging ends here.
    #[inline(always)]
    fn part<const PARTS: bool>(&mut self, part: JudgePart) {
        if PARTS {
            self.till.probes.parts.lap(part, 1);
        }
    }

    fn judge_all<const PARTS: bool>(
        &mut self,
        batch: &Decide<'_>,
        answers: &mut [decided::Answer],
    ) {
        for (i, ask) in batch.asks().iter().enumerate() {
            let judged = self.judge::<PARTS>(ask, self.door.frame.slots[i]);
            self.answer(i, judged, answers);
            self.part::<PARTS>(JudgePart::Verdict);
        }
    }

    /// The same in a turn in which the parts of judging are told apart.
    #[cold]
    #[inline(never)]
    fn judge_all_in_parts(&mut self, batch: &Decide<'_>, answers: &mut [decided::Answer]) {
        self.till.probes.parts.skip();
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
        let mut asks = std::mem::take(&mut self.door.frame.pod);
        let mut holds = std::mem::take(&mut self.door.frame.holds);
        asks.clear();
        holds.clear();
        let of_frame = batch.asks();
        let found =
            members.clone().filter_map(|i| Some((of_frame.get(i)?, self.door.frame.slots[i])));
        asks.extend(found.map(|(ask, slot)| self.understood(ask, slot)));
        let reserved = self.till.reserve_all(asks.iter().copied(), &mut holds);
        for (place, i) in members.enumerate() {
            let judged = match reserved {
                Ok(()) => Ok(holds[place].1),
                Err((refused, why)) if refused == place => Err(why),
                Err(_) => Err(Verdict::PodRefused),
            };
            self.answer(i, judged, answers);
        }
        (self.door.frame.pod, self.door.frame.holds) = (asks, holds);
    }

    /// Notes the answer to ask `i`; tokens are made later, all together.
    #[inline(always)]
    fn answer(&mut self, i: usize, judged: Result<Hold, Verdict>, answers: &mut [decided::Answer]) {
        let verdict = match judged {
            Ok(hold) => {
                self.till.keys.write(&hold, answers[i].token_mut());
                let place = u16::try_from(i).expect("a batch has at most 1,024 entries");
                self.door.frame.places.push(place);
                Verdict::Granted
            }
            Err(why) => {
                answers[i].set_token([0; 32]);
                self.tally(i, why);
                why
            }
        };
        answers[i].set_verdict(verdict);
        self.door.verdicts[usize::from(verdict.as_raw())] += 1;
    }

    /// Counts a refusal for the budget that ask `i` named, if there is one, and remembers it for a while.
    #[inline(always)]
    fn tally(&self, i: usize, why: Verdict) {
        if let Some(Some(slot)) = self.door.frame.slots.get(i) {
            self.till.refused(*slot, why);
        }
    }

    /// With the remember flag: a request id seen before gets its first answer.
    fn judge_remembered(
        &mut self,
        client: &Client,
        batch: &Decide<'_>,
        answers: &mut [decided::Answer],
    ) {
        // Such an answer is none to remember: the request is judged when it comes again.
        if !self.till.snapshot.is_in_force() {
            (0..answers.len()).for_each(|i| self.answer(i, Err(self.till.unknown()), answers));
            return;
        }
        let (secret, max, lifetime) =
            (self.till.facts.secret, self.door.terms.remember_max, self.till.facts.hold_ms);
        let mut table = self
            .door
            .remembered
            .take()
            .unwrap_or_else(|| Remembered::new(max, u64::from(lifetime), secret));
        let now_ms = self.till.at.now_ms;
        for (i, ask) in batch.asks().iter().enumerate() {
            // Before the table, which may have the answer to somebody else.
            if !self.till.allows(client.principal.as_ref(), ask.budget_id()) {
                self.answer(i, Err(self.till.unknown()), answers);
                continue;
            }
            let request = request_of(client.id, ask);
            let judged = match table.recall(&request, now_ms) {
                Recall::Answered(first) => {
                    self.door.counters.remembered.add(1);
                    first.hold.ok_or(first.verdict)
                }
                Recall::Different => Err(Verdict::IdReused),
                Recall::Full => Err(Verdict::Busy),
                // All or none cannot be promised for answers that are remembered one by one.
                Recall::New(_) if ask.pod() != 0 => Err(Verdict::PodRefused),
                Recall::New(place) => {
                    let judged = self.judge::<false>(ask, self.door.frame.slots[i]);
                    let verdict = judged.err().unwrap_or(Verdict::Granted);
                    let answer = Remembrance { verdict, hold: judged.ok() };
                    table.store(place, &request, answer, now_ms);
                    judged
                }
            };
            self.answer(i, judged, answers);
        }
        self.door.remembered = Some(table);
    }

    /// Seals the tokens of the frame, where they stand in its answer.
    fn seal(&mut self, answers: &mut [decided::Answer]) {
        self.till.keys.seal(answers, &self.door.frame.places, decided::Answer::token_mut);
        self.till.lap(WorkerStage::Token, self.door.frame.places.len());
        self.door.frame.places.clear();
    }

    /// Asks the bank for what the purses are short of for this batch; true if it was asked for anything.
    fn call_for(&mut self, client: &Client, batch: &Decide<'_>) -> bool {
        let mut asked = std::mem::take(&mut self.door.parking.asked);
        asked.clear();
        for ask in batch.asks().iter() {
            if !self.till.allows(client.principal.as_ref(), ask.budget_id()) {
                continue;
            }
            let Some(found) = self.till.find(BudgetName::Id(ask.budget_id())) else { continue };
            if self.till.check(found.slot, ask.unit(), Amount::new(ask.amount())).is_ok() {
                asked.push((found.slot, ask.amount()));
            }
        }
        asked.sort_unstable();
        let mut called = false;
        for of_slot in asked.chunk_by(|(a, _), (b, _)| a == b) {
            let amounts = of_slot.iter().map(|(_, amount)| Amount::new(*amount));
            called |= self.till.call(of_slot[0].0, amounts);
        }
        self.door.parking.asked = asked;
        called
    }

    /// Has a frame that waited wait on, where the purses are still short and the bank may still have money; else it is given back.
    fn asks_again(&mut self, mut parked: Parked) -> Option<Parked> {
        let Ok(Message::Decide(batch)) = Message::decode(&parked.frame) else {
            unreachable!("only frames that were read are kept")
        };
        let steady_ms = self.till.clock.steady_ms();
        let waits = parked.wait.ask(steady_ms, || self.call_for(&parked.client, &batch));
        self.till.urgent |= matches!(waits, Waits::ForBank(_));
        self.door.parking.park_again(parked, waits)
    }

    fn resolve_one(&mut self, place: Reply, request: resolve::ItemView<'_>) {
        let opened = self.till.open_token(request.token());
        let refused = match (opened, request.action()) {
            (Ok(hold), Some(action)) => {
                let amount = Amount::new(request.amount());
                // Clients of version 1 give no name.
                let request_id = request.request_id().unwrap_or(0);
                let origin = Origin { door: Origins::Batch, request_id };
                // Scopes do not limit what is done with the token of a hold.
                self.till.resolve(place, None, (action, hold, amount), origin);
                return;
            }
            (Err(refused), _) => refused,
            (Ok(_), None) => Verdict::BadAction,
        };
        self.door.resolving.answer(place, refused, false);
    }

    fn extend_one(&mut self, place: Reply, hold: &extend::Hold) -> Result<(), Verdict> {
        let (ms, most) = (hold.confirm_ms(), self.till.facts.billing_ms);
        if !(CONFIRM_MS_MIN.min(most)..=most).contains(&ms) {
            return Err(Verdict::BadAmount);
        }
        let hold = self.till.open_token(hold.token())?;
        let until_ms = self.till.at.now_ms + u64::from(ms);
        let ask = TimedAsk::Extend { hold, until_ms, confirms: false };
        let origin = Origin { door: Origins::Batch, request_id: 0 };
        // As for resolves: scopes do not limit it.
        self.till.timed(place, None, ask, origin, None);
        Ok(())
    }

    /// May holds become anything? Why all of a frame are refused: no frame is because another node may be the bank, so that each client goes
    /// there.
    fn taken(&self) -> Result<Option<Verdict>, Reason> {
        match self.till.sealing().err() {
            Some(Verdict::Journal) => Err(Reason::Journal),
            refused => Ok(refused),
        }
    }
}

fn budget_of(made: Made) -> Budget {
    Budget { id: made.id, unit: made.unit }
}

/// What names a request, and the rest of it.
fn request_of(client: u64, ask: &decide::Ask) -> Request {
    let unit = u64::from(u32::from_le_bytes(ask.unit())) << 16 | u64::from(ask.pod());
    let content = [ask.budget_id(), ask.amount().cast_unsigned(), ask.user_id(), unit];
    Request { client, id: ask.request_id(), content }
}

impl Gate for BatchGate<'_> {
    fn limits(&self) -> Limits {
        let BatchTerms { batch_max, frame_bytes_max, .. } = *self.door.terms;
        Limits { batch_max: batch_max.into(), frame_bytes_max }
    }

    fn enter(&self, token: &[u8]) -> Result<Option<Arc<Principal>>, Denied> {
        self.door.entrance.enter(token)
    }

    #[inline(always)]
    fn tokens_number(&self) -> u32 {
        self.door.entrance.number()
    }

    fn enter_again(&self, principal: &Principal) -> Result<Arc<Principal>, Denied> {
        self.door.entrance.enter_again(principal)
    }

    fn welcome(&self) -> welcome::Block {
        let (f, terms) = (&self.till.facts, &self.door.terms);
        welcome::Block::new(
            wire::SCHEMA_VERSION,
            f.node,
            f.run,
            terms.batch_max,
            self.till.number,
            terms.frame_bytes_max,
            f.hold_ms,
            f.billing_ms,
            self.till.at.now_ms,
        )
    }

    fn now_ms(&self) -> u64 {
        self.till.at.now_ms
    }

    fn snapshot(&self) -> u32 {
        self.till.snapshot.number
    }

    #[inline]
    fn decide(&mut self, client: &Client, batch: &Decide<'_>, answers: &mut [decided::Answer]) {
        self.till.lap(WorkerStage::Encode, batch.asks().len());
        let asks = batch.asks();
        let mut pods = 0;
        self.door.frame.ids.clear();
        for ask in asks.iter() {
            self.door.frame.ids.push(ask.budget_id());
            pods |= ask.pod();
        }
        self.door.frame.slots.resize(asks.len(), None);
        self.till.snapshot.slots.get_batch(&self.door.frame.ids, &mut self.door.frame.slots);
        self.door.frame.limited = client.limited();
        if self.door.frame.limited.is_some() {
            self.hide_from(client);
        }
        self.till.prefetch(self.door.frame.slots.iter().flatten().copied());
        self.till.lap(WorkerStage::Lookup, asks.len());
        if let Err(why) = self.till.sealing() {
            (0..answers.len()).for_each(|i| self.answer(i, Err(why), answers));
            return;
        }
        if batch.flags().remember() {
            self.judge_remembered(client, batch, answers);
        } else if pods != 0 {
            self.judge_pods(batch, answers);
        } else if self.till.probes.has_parts() {
            self.judge_all_in_parts(batch, answers);
        } else {
            self.judge_all::<false>(batch, answers);
        }
        self.till.lap(WorkerStage::Judge, asks.len());
        self.seal(answers);
    }

    fn postpone(
        &mut self,
        conn: ConnId,
        client: &Client,
        batch: &Decide<'_>,
        frame: &[u8],
    ) -> bool {
        if !self.door.parking.has_room(frame.len()) {
            return false;
        }
        let steady_ms = self.till.clock.steady_ms();
        let mut wait = FillWait::lasting(self.door.terms.wait_ms);
        let waits = wait.ask(steady_ms, || self.call_for(client, batch));
        let Waits::ForBank(until_ms) = waits else { return false };
        self.door.parking.park(conn.to_bits(), client.clone(), frame, (wait, until_ms));
        true
    }

    fn resolve(&mut self, conn: ConnId, batch: &Resolve<'_>) -> Result<(), Reason> {
        let refused = self.taken()?;
        let resolves = batch.resolves();
        let index = self
            .door
            .resolving
            .open(conn.to_bits(), batch.frame(), resolves.len())
            .ok_or(Reason::Busy)?;
        for (entry, resolve) in resolves.iter().enumerate() {
            let entry = u32::try_from(entry).expect("a batch has at most 1,024 entries");
            let reply = Reply { door: self.door.number, index, entry };
            match refused {
                None => self.resolve_one(reply, resolve),
                Some(why) => self.door.resolving.answer(reply, why, false),
            }
        }
        self.till.lap(WorkerStage::Resolve, resolves.len());
        Ok(())
    }

    #[cold]
    fn extend(&mut self, conn: ConnId, batch: &Extend<'_>) -> Result<(), Reason> {
        let refused = self.taken()?;
        let (holds, frame) = (batch.holds(), batch.frame());
        let index = self.door.resolving.open_extends(conn.to_bits(), frame, holds.len());
        let index = index.ok_or(Reason::Busy)?;
        for (entry, hold) in (0..).zip(holds.iter()) {
            let reply = Reply { door: self.door.number, index, entry };
            if let Err(why) = refused.map_or_else(|| self.extend_one(reply, hold), Err) {
                self.door.resolving.answer_extend(reply, why, (0, false));
            }
        }
        self.till.lap(WorkerStage::Resolve, holds.len());
        Ok(())
    }

    fn question(&mut self, conn: ConnId, question: Question) -> Result<(), Reason> {
        self.till.question(
            conn,
            match question {
                Question::Books { frame, from, max } => {
                    weir_till::Question::Books { frame, from, max }
                }
                Question::Totals { frame } => weir_till::Question::Totals { frame },
            },
        )
    }

    fn find(&mut self, conn: ConnId, client: &Client, frame: u64, handle: &str) -> Option<Found> {
        // Who may not name a budget does not learn whether it is there, and has none made.
        if let Some(found) = self.till.find(BudgetName::Handle(handle)) {
            let allowed = self.till.allows(client.principal.as_ref(), found.id);
            return Some(if allowed { Ok(budget_of(found)) } else { Err(self.till.unknown()) });
        }
        let Some(index) = self.door.finding.open((conn.to_bits(), frame)) else {
            return Some(Err(Verdict::Busy));
        };
        let reply = Reply { door: self.door.number, index, entry: 0 };
        let refused = self.till.open(client.principal.as_ref(), handle, reply).err()?;
        self.door.finding.close(index);
        Some(Err(refused))
    }

    fn refused(&mut self, reason: Reason) {
        // This thread alone writes it.
        let count = &self.door.counters.refused[usize::from(reason.as_raw())];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    #[inline(always)]
    fn passed(&mut self, boundary: Passed) {
        match boundary {
            Passed::Decoded => self.till.lap(WorkerStage::FrameDecode, 1),
            Passed::Encoded => self.till.lap(WorkerStage::Encode, 0),
        }
    }
}

#[cfg(test)]
mod tests;
