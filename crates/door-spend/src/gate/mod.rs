//! The spend door in a node: what a worker does between a call and its answer.

pub mod counts;
mod desk;
mod grants;
mod returns;
mod rows;
mod terms;
mod waiting;

use std::sync::Arc;

use access::{KeySecret, Principal, Role};
use door_http::Session;
use door_transport::{ConnId, Out, Peer, Step};
use ledger::Resolution;
use weir_door::{
    Door, DoorOutbox, Entrance, Heard, Outcomes, RequestKind, WorkerCounters, are_same,
};
use weir_till::{Answer, BudgetStanding, DueQueue, Question, Reply, Till, stages::WorkerStage};
use wire::{BudgetName, Verdict};

use self::counts::{CallCounts, Happening, SeenCalls};
use self::desk::Desk;
use self::grants::Grants;
use self::returns::Returns;
pub use self::terms::SpendTerms;
use self::waiting::{EntryState, Fill, Job, WaitingCalls};
use crate::{AnswerRoom, Call, Denied, Fault, Form, Front, Gate, Outcome, Passed, Standing, Taken};

/// How long calls that are under way wait for their seal once the journal is known to fail, ms.
const SEAL_WAIT_MS: u64 = 2_000;
/// The same where the log is on other machines, which most changes of its leader leave silent for some seconds.
const SILENCE_WAIT_MS: u64 = 5_000;
/// From then on, how often it is looked for calls that came to wait meanwhile, ms.
const SEAL_LOOK_MS: u64 = 250;

/// What a call is told that is under way while nothing can be sealed.
const UNDER_WAY: &str = "the journal cannot seal records at the moment, and whether this call will be booked is not known yet; send it again with \
    the same token or the same Idempotency-Key, and it is booked once";

/// One worker's side of the door.
pub struct SpendDoor {
    door: crate::Door,
    /// What HTTP works in.
    room: door_http::Room,
    entrance: Entrance,
    desk: Desk,
    seen: Arc<SeenCalls>,
    /// While the journal fails: when calls that wait for it are told so next, by the steady clock.
    tells_ms: Option<u64>,
    /// The node is stopping: calls that came before and were not looked at yet are not begun any more.
    stopping: bool,
}

/// What is kept per connection.
#[derive(Default)]
pub struct SpendConn {
    http: Session,
    /// Whose token it showed last: most connections show one only.
    entered: Option<Entered>,
}

/// A token that was found good.
struct Entered {
    token: Box<[u8]>,
    principal: Option<Arc<Principal>>,
    /// Of the token file that it was found in.
    number: u32,
}

/// The door with the worker's till and a connection, as the protocol asks it.
struct SpendGate<'a> {
    desk: &'a mut Desk,
    entrance: &'a Entrance,
    entered: &'a mut Option<Entered>,
    till: &'a mut Till,
    stopping: bool,
}

impl SpendConn {
    /// May who showed the last token see this budget?
    fn may_see(&self, id: u64, handle: Option<&str>) -> bool {
        let principal = self.entered.as_ref().and_then(|entered| entered.principal.as_ref());
        Till::allows_named(principal, id, handle)
    }
}

impl SpendDoor {
    /// The door at this place of its set.
    pub fn new(number: u8, terms: Arc<SpendTerms>, counters: Arc<WorkerCounters>) -> SpendDoor {
        SpendDoor {
            door: crate::Door::new(terms.settings.clone()),
            room: door_http::Room::default(),
            entrance: Entrance::new(b"", terms.tokens.as_ref()),
            seen: counters.own(),
            desk: Desk {
                number,
                grants: Grants::default(),
                waiting: WaitingCalls::new(terms.waiting_max),
                fills: DueQueue::default(),
                returns: Returns::of(counters),
                counts: CallCounts::default(),
                asks: 0,
                places: Vec::new(),
                due: Vec::new(),
                abandoned: Vec::new(),
                terms,
            },
            tells_ms: None,
            stopping: false,
        }
    }

    /// While nothing can be sealed, no caller waits for that longer than a bound. Its calls stay with the bank: a repeat hears what
    /// became of them.
    fn tell_failure<S>(&mut self, till: &Till, outbox: &mut DoorOutbox<'_, '_, S, SpendConn>) {
        if !till.journal_fails() {
            self.tells_ms = None;
            return;
        }
        let now_ms = till.clock.steady_ms();
        let wait_ms = if till.has_lease() { SILENCE_WAIT_MS } else { SEAL_WAIT_MS };
        if now_ms < *self.tells_ms.get_or_insert(now_ms + wait_ms) {
            return;
        }
        self.tells_ms = Some(now_ms + SEAL_LOOK_MS);
        let under_way = Outcome::told(Verdict::Journal, UNDER_WAY);
        for (conn, form, outcomes) in self.desk.waiting.leave(&under_way) {
            self.desk.counts.add(Happening::UnderWay);
            self.answer(conn, form, &outcomes, outbox);
        }
    }

    /// Answers a request; false if its client is gone.
    fn answer<S>(
        &mut self,
        conn: ConnId,
        form: Form,
        outcomes: &[Outcome],
        outbox: &mut DoorOutbox<'_, '_, S, SpendConn>,
    ) -> bool {
        let response = match (form, outcomes) {
            (Form::One, [outcome]) => self.door.room().one(outcome),
            _ => self.door.room().batch(outcomes),
        };
        outbox.answer(conn, |conn, out| conn.http.answer(out, &response))
    }

    /// Takes a call on that the bank has answered.
    fn go_on(
        &mut self,
        till: &mut Till,
        reply: Reply,
        step: impl FnOnce(&mut Desk, &mut Till, Option<&Arc<Principal>>, &mut Job) -> Option<Outcome>,
    ) {
        let Some((mut job, principal)) = self.desk.waiting.take(reply) else { return };
        let outcome = step(&mut self.desk, till, principal.as_ref(), &mut job);
        self.desk.put_back(till, reply, job, outcome);
        self.desk.take_turns(till, reply.index);
    }
}

impl Door for SpendDoor {
    const NAME: &'static str = "spend";
    const STAGES: &'static [WorkerStage] = &[
        WorkerStage::SpendHttp,
        WorkerStage::SpendRead,
        WorkerStage::SpendJudge,
        WorkerStage::SpendWrite,
    ];
    const ANSWERED: WorkerStage = WorkerStage::SpendWrite;
    const REQUESTS: &'static [RequestKind] = &[
        RequestKind {
            name: "call",
            decides: true,
            stage: WorkerStage::SpendRead,
            count: |counters| counters.of::<SeenCalls>().calls(true),
        },
        RequestKind {
            name: "outcome",
            decides: false,
            stage: WorkerStage::SpendJudge,
            count: |counters| counters.of::<SeenCalls>().calls(false),
        },
    ];
    type Conn = SpendConn;
    type Counts = SeenCalls;

    fn outcomes(counters: &[Arc<WorkerCounters>]) -> Outcomes {
        counts::CallReasons::Asks.sums(counters.iter().map(|counters| counters.of()))
    }

    /// Takes over the token file in force.
    #[inline(always)]
    fn woke(&mut self) {
        self.entrance.refresh();
    }

    fn opened(&mut self, _: &mut Till, _: ConnId, _: Peer) -> SpendConn {
        SpendConn::default()
    }

    #[inline(always)]
    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut SpendConn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        let SpendDoor { door, room, entrance, desk, stopping, .. } = self;
        let SpendConn { http, entered } = conn;
        let gate = &mut SpendGate { desk, entrance, entered, till, stopping: *stopping };
        http.received(id, input, out, room, &mut Front { door, gate })
    }

    fn resolved<S>(
        &mut self,
        till: &mut Till,
        reply: Reply,
        resolution: Resolution,
        _: &mut DoorOutbox<'_, '_, S, SpendConn>,
    ) {
        self.go_on(till, reply, |desk, till, _, job| desk.resolved(till, reply, job, resolution));
    }

    fn heard<S>(
        &mut self,
        till: &mut Till,
        heard: Heard<'_>,
        outbox: &mut DoorOutbox<'_, '_, S, SpendConn>,
    ) {
        match heard {
            Heard::Claimed(reply, claimed) => {
                self.go_on(till, reply, |desk, till, principal, job| {
                    desk.claimed(job, claimed).or_else(|| desk.drive(till, reply, principal, job))
                });
            }
            Heard::Owner(reply, owner, timed) => {
                self.go_on(till, reply, |desk, till, principal, job| {
                    if job.next == waiting::Next::Look {
                        return desk.looked(till, reply, job, timed);
                    }
                    desk.owned(job, owner, timed)
                        .or_else(|| desk.drive(till, reply, principal, job))
                })
            }
            Heard::Timed(reply, answer) => self.go_on(till, reply, |desk, till, principal, job| {
                desk.timed(till, reply, principal, job, answer)
            }),
            Heard::Budget(reply, opened) => {
                self.go_on(till, reply, |desk, till, principal, job| {
                    desk.opened(job, opened).or_else(|| desk.drive(till, reply, principal, job))
                });
            }
            Heard::Echo(reply) => self.desk.fills.reached(reply.number()),
            Heard::Answer(id, Answer::Budget(found)) => stand(id, found.as_deref(), outbox),
            // What is known of grants is forgotten.
            Heard::Configured => self.desk.configured(till.clock.steady_ms()),
            Heard::Stopping => self.stopping = true,
            _ => {}
        }
    }

    /// Judges the calls that need not wait for money any longer.
    #[inline]
    fn turn<S>(&mut self, till: &mut Till, outbox: &mut DoorOutbox<'_, '_, S, SpendConn>) {
        self.desk.release_abandoned(till);
        self.tell_failure(till, outbox);
        if self.desk.fills.is_empty() {
            return;
        }
        let mut due = std::mem::take(&mut self.desk.due);
        let is_there =
            |fill: &Fill| fill.slot.is_some_and(|slot| till.is_at_hand(slot, fill.amount));
        let take = |fill: &Fill| due.push(fill.reply);
        self.desk.fills.take_due(till.clock.steady_ms(), is_there, take);
        for reply in due.drain(..) {
            self.go_on(till, reply, |desk, till, principal, job| {
                desk.drive(till, reply, principal, job)
            });
        }
        self.desk.due = due;
        if let Some(number) = self.desk.fills.next_echo() {
            till.echo(Reply::numbered(self.desk.number, number));
        }
    }

    /// Answers the requests nothing of which waits any more.
    #[inline]
    fn write<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, SpendConn>) {
        while let Some(mut request) = self.desk.waiting.next_complete() {
            let (conn, form, alone) = (request.conn, request.form, request.take_alone());
            let outcomes: Vec<Outcome> = request.into_outcomes().collect();
            let Some(conn) = conn else {
                self.desk.abandoned.extend(alone);
                continue;
            };
            if !self.answer(conn, form, &outcomes, outbox) {
                self.desk.counts.add(Happening::Gone);
                self.desk.abandoned.extend(alone);
            }
        }
    }

    fn wait_ms(&self, till: &mut Till) -> Option<u64> {
        let now_ms = till.clock.steady_ms();
        let tells = self.tells_ms.filter(|_| self.desk.waiting.len() > 0);
        let tells = tells.map(|at_ms| at_ms.saturating_sub(now_ms));
        self.desk.fills.wait_ms(now_ms).into_iter().chain(tells).min()
    }

    fn waiting(&self) -> usize {
        self.desk.waiting.len()
    }

    fn publish(&mut self) {
        self.desk.counts.publish(&self.seen);
    }
}

/// Answers where a budget stands.
fn stand<S>(
    id: ConnId,
    found: Option<&BudgetStanding>,
    outbox: &mut DoorOutbox<'_, '_, S, SpendConn>,
) {
    outbox.answer(id, |conn, out| {
        let found = found.filter(|one| conn.may_see(one.id, one.handle.as_deref()));
        conn.http.answer(out, &AnswerRoom::default().standing(found.map(shown).as_ref()))
    });
}

fn shown(of: &BudgetStanding) -> Standing {
    let BudgetStanding { id, handle, name, unit, limit, available, held, settled, status } =
        of.clone();
    Standing { id, handle, name, unit, limit, available, held, settled, status }
}

impl SpendGate<'_> {
    fn principal(&self) -> Option<Arc<Principal>> {
        self.entered.as_ref().and_then(|entered| entered.principal.clone())
    }

    /// Seals the tokens of all that was granted, together.
    fn seal(&mut self, outcomes: &mut [Outcome]) {
        let places = &mut self.desk.places;
        places.clear();
        for (place, outcome) in (0..).zip(outcomes.iter()) {
            if matches!(outcome, Outcome::Granted { .. }) {
                places.push(place);
            }
        }
        self.till.keys.seal(outcomes, places, |outcome| match outcome {
            Outcome::Granted { token, .. } => token,
            _ => unreachable!("only what was granted has a place"),
        });
    }

    /// The outcome of an entry that need not wait, its token still to be sealed.
    #[inline]
    fn at_once(&mut self, entry: &crate::Entry) -> Option<Outcome> {
        match entry {
            Err(bad) => {
                self.desk.counts.fault(bad.fault());
                Some(Outcome::Bad(bad.clone()))
            }
            Ok(call) => {
                let principal =
                    self.entered.as_ref().and_then(|entered| entered.principal.as_ref());
                let outcome = self.desk.at_once(self.till, principal, call)?;
                self.desk.counts.outcome(call.kind, &outcome);
                Some(outcome)
            }
        }
    }

    /// What an entry is answered that would wait, and for which there is no place.
    fn full(&mut self, call: &Call) -> Outcome {
        let outcome = desk::full(&self.desk.terms.full.calls);
        self.desk.counts.outcome(call.kind, &outcome);
        self.desk.counts.add(Happening::Full);
        outcome
    }

    /// Keeps a request whose first entries have their outcomes, and the next of which must wait. The others are begun at once and judged in
    /// their order. If nothing waits in the end, their outcomes are the answer.
    fn keep(
        &mut self,
        conn: ConnId,
        calls: &[crate::Entry],
        form: Form,
        outcomes: &mut Vec<Outcome>,
    ) -> Taken {
        let (first, principal) = (outcomes.len(), self.principal());
        let index = self.desk.waiting.open(conn, form, principal.clone(), outcomes.drain(..));
        for (place, call) in (0..).zip(calls).skip(first) {
            let reply = Reply { door: self.desk.number, index, entry: place };
            // The first one was asked just now.
            let is_next = place as usize > first && self.desk.waiting.is_next(reply);
            let now = (call.is_err() || is_next).then(|| self.at_once(call)).flatten();
            let entry = match (now, call) {
                (None, Ok(call)) if self.desk.waiting.has_room() => {
                    self.desk.begin(self.till, reply, principal.as_ref(), call)
                }
                (None, Ok(call)) => EntryState::Done(self.full(call)),
                (now, _) => {
                    let mut now = now.unwrap_or_else(|| Outcome::refused(Verdict::Busy));
                    self.seal(std::slice::from_mut(&mut now));
                    EntryState::Done(now)
                }
            };
            self.desk.waiting.push(index, entry);
        }
        match self.desk.waiting.opened(index) {
            Some(request) => {
                outcomes.extend(request.into_outcomes());
                Taken::Now
            }
            None => Taken::Later,
        }
    }
}

impl Gate for SpendGate<'_> {
    fn enter(&mut self, _: ConnId, token: Option<&[u8]>, looks: bool) -> Result<(), Denied> {
        if self.stopping {
            return Err(Denied::Stopping);
        }
        if self.entrance.is_open() {
            return Ok(());
        }
        let (token, number) = (token.ok_or(Denied::Unknown)?, self.entrance.number());
        let is_known = matches!(&*self.entered, Some(known) if known.number == number && are_same(&known.token, token));
        if !is_known {
            *self.entered = None;
            let principal = self.entrance.find(token).ok_or(Denied::Unknown)?;
            *self.entered = Some(Entered { token: token.into(), principal, number });
        }
        let role = self.entered.as_ref().and_then(|entered| entered.principal.as_ref());
        match role.map(|principal| principal.role()) {
            None | Some(Role::Spend) => Ok(()),
            Some(Role::Read) if looks => Ok(()),
            Some(Role::Read | Role::Operate | Role::Keys) => Err(Denied::Role),
        }
    }

    fn who(&self) -> &str {
        let principal = self.entered.as_ref().and_then(|entered| entered.principal.as_ref());
        principal.map_or("", |principal| principal.name())
    }

    fn secret(&self) -> &KeySecret {
        &self.till.facts.answer_secret
    }

    fn calls(
        &mut self,
        conn: ConnId,
        calls: &[crate::Entry],
        form: Form,
        outcomes: &mut Vec<Outcome>,
    ) -> Taken {
        if form == Form::Batch {
            self.desk.counts.add(Happening::Batches);
        }
        for entry in calls {
            match (self.at_once(entry), entry) {
                (Some(outcome), _) => outcomes.push(outcome),
                (None, Ok(call)) if !self.desk.waiting.has_room() => {
                    let full = self.full(call);
                    outcomes.push(full);
                }
                (None, _) => break,
            }
        }
        self.seal(outcomes);
        if outcomes.len() == calls.len() {
            return Taken::Now;
        }
        self.keep(conn, calls, form, outcomes)
    }

    fn standing(&mut self, conn: ConnId, name: BudgetName<'_>) -> Option<Outcome> {
        self.desk.counts.add(Happening::Looks);
        // The bank's books may be those of an earlier run, which knew other budgets.
        if !self.till.snapshot.is_in_force() {
            return Some(Outcome::Starting);
        }
        let question = match name {
            BudgetName::Id(id) => Question::Budget(id),
            BudgetName::Handle(handle) => Question::Handle(handle.into()),
        };
        // Whether the caller may see it is judged when the bank has said what its id and its handle are: this worker may not have
        // met the budget.
        let asked = self.till.question(conn, question);
        asked
            .err()
            .map(|_| desk::full("too many looks of this worker wait for the bank; ask again"))
    }

    fn is_starting(&self) -> bool {
        self.till.is_starting()
    }

    fn refused(&mut self, why: door_http::Refusal) {
        self.desk.counts.refusal(why);
    }

    fn fault(&mut self, fault: Fault) {
        self.desk.counts.fault(fault);
    }

    #[inline(always)]
    fn passed(&mut self, boundary: Passed) {
        match boundary {
            Passed::Arrived => self.till.lap(WorkerStage::SpendHttp, 1),
            Passed::Read(calls) => self.till.lap(WorkerStage::SpendRead, calls),
            Passed::Judged(calls) => self.till.lap(WorkerStage::SpendJudge, calls),
            Passed::Answered => self.till.lap(WorkerStage::SpendWrite, 1),
        }
    }
}
