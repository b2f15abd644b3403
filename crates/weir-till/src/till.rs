//! What every door needs of its worker: clock, keys, plans, purses, the configuration in force, and the tallies of refusals.

use std::collections::VecDeque;
use std::sync::Arc;

use access::Principal;
use door_transport::ConnId;
use gate_pacing::Pace;
use ledger::{
    Action, Amount, At, Hold, KeyRing, Keyed, MADE_SLOT, Memo, MemoMoney, MemoRefusal, MemoRequest,
    Origin, Purses, TimedAsk, TimedRequest, ToBank, ToWorker,
};
use probe::{Lease, NodeClock};
use wire::{BudgetName, Handle, Reason, Verdict};

use crate::apart::{Apart, ApartMessage};
use crate::cells::SlotCells;
use crate::named::NamedRequest;
use crate::opened::{Made, Opened};
use crate::questions::{Question, Questions};
use crate::refusals::LastRefusals;
use crate::reply::Reply;
use crate::snapshot::{Facts, Snapshot};
use crate::stages::{WorkerProbes, WorkerStage};

/// Purses of made budgets that are added at once.
const PURSES_A_STEP: usize = 256;

/// One worker's part that all of its doors share. A door gets it with each call and keeps nothing of it.
pub struct Till {
    /// Number of the worker.
    pub number: u16,
    /// What does not change in a run.
    pub facts: Arc<Facts>,
    /// Keys that tokens are sealed under.
    pub keys: Arc<KeyRing>,
    /// The last refused asks, for other threads to read.
    pub refusals: Arc<LastRefusals>,
    /// The clock that all of them go by.
    pub clock: NodeClock,
    /// The instant of this wake-up, and the deadline of the holds made in it.
    pub at: At,
    /// The configuration in force...
    pub snapshot: Arc<Snapshot>,
    /// ...what this worker says of its budgets, for the bank and for statements...
    pub cells: SlotCells,
    /// ...their plans, by slot...
    pub paces: Box<[Pace]>,
    /// ...and their purses, with what is to be said to the bank.
    pub purses: Purses,
    /// A message went to the bank that it should not sleep over.
    pub urgent: bool,
    /// Why nothing is granted at present.
    refuses: Option<Verdict>,
    /// The journal cannot seal.
    journal_fails: bool,
    /// Until when it may grant without news of a log on other machines; `None`: the log is on the node's own disk.
    lease: Option<Arc<Lease>>,
    /// Where its time goes.
    pub probes: WorkerProbes,
    /// Questions of clients that wait for the bank.
    pub questions: Questions,
    /// Budgets that were made on their first ask...
    pub opened: Opened,
    /// ...and their purses: slots from [`MADE_SLOT`] on, counted from 0 here.
    pub made: Purses,
    /// For the bank, beside what the purses say. Bounded by what doors let wait.
    pub apart: VecDeque<Apart>,
    /// Named holds that are asked for again, each at an instant of the steady clock.
    pub(crate) named_later: Vec<(u64, Box<NamedRequest>)>,
    /// Echoes that doors asked for in this wake-up, at most one each.
    echoes: Vec<Reply>,
}

impl Till {
    /// The till of the worker with this number. Nothing is in force yet.
    #[must_use]
    pub fn new(
        number: u16,
        facts: Arc<Facts>,
        refusals: Arc<LastRefusals>,
        mut purses: Purses,
        keys: Arc<KeyRing>,
        probes: WorkerProbes,
    ) -> Till {
        let mut clock = NodeClock::not_before(facts.earliest_ms);
        let at = purses.at(clock.now_ms());
        purses.steady(clock.steady_ms());
        let mut made = Purses::new(*purses.options(), 0);
        made.steady(clock.steady_ms());
        let snapshot = Snapshot::empty(table::Secret::new(facts.secret));
        Till {
            number,
            facts,
            keys,
            refusals,
            clock,
            at,
            snapshot,
            cells: SlotCells::new(0),
            paces: Box::default(),
            purses,
            urgent: false,
            refuses: None,
            journal_fails: false,
            lease: None,
            probes,
            questions: Questions::default(),
            opened: Opened::default(),
            made,
            apart: VecDeque::new(),
            named_later: Vec::new(),
            echoes: Vec::new(),
        }
    }

    /// Grants on this lease from the next wake-up on: an engine that does not answer is no reason to stop before its end.
    pub fn set_lease(&mut self, lease: Arc<Lease>) {
        (self.refuses, self.lease) = (Some(Verdict::CutOff), Some(lease));
    }

    /// Is the log on other machines?
    #[must_use]
    pub fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// The journal can seal nothing from now on, or it can again.
    pub fn set_journal_fails(&mut self, fails: bool) {
        self.journal_fails = fails;
        if self.lease.is_none() {
            self.refuses = fails.then_some(Verdict::Journal);
        }
    }

    /// Does the journal seal nothing at present? Then whatever waits for a seal waits, though asks may be granted on a lease.
    #[must_use]
    pub fn journal_fails(&self) -> bool {
        self.journal_fails
    }

    /// May anything be granted? While nothing can be sealed, or once the lease is over, the till grants nothing and asks the bank for no
    /// money, whatever a door asks; what a hold became is judged by the bank. A door asks this where it can say no to more than one thing at
    /// once.
    ///
    /// # Errors
    /// `Journal`, or `CutOff` where another node may be the bank by now.
    #[inline(always)]
    pub fn sealing(&self) -> Result<(), Verdict> {
        self.refuses.map_or(Ok(()), Err)
    }

    /// The loop came back from the kernel: the clock is read, and after it the lease, so that a hold made in this wake-up carries a deadline
    /// from within it.
    pub fn wake(&mut self) {
        self.probes.begin();
        self.at = self.purses.at(self.clock.now_ms());
        if let Some(lease) = &self.lease {
            self.refuses = lease.is_over().then_some(Verdict::CutOff);
        }
        let steady_ms = self.clock.steady_ms();
        self.purses.steady(steady_ms);
        self.made.steady(steady_ms);
    }

    /// The budget of this name, as far as this worker knows: one of the configuration in force, or one that was made on its first
    /// ask and that this worker met. [`Till::open`] asks the bank for the rest.
    pub fn find(&self, name: BudgetName<'_>) -> Option<Made> {
        let configured = match name {
            BudgetName::Id(id) => self.snapshot.slots.get(id).map(|slot| (slot, id)),
            BudgetName::Handle(handle) => self.snapshot.names.find(handle),
        };
        match (configured, name) {
            (Some((slot, id)), _) => {
                Some(Made { slot, id, unit: self.snapshot.units[slot as usize] })
            }
            (None, BudgetName::Id(id)) => self.opened.by_id(id),
            (None, BudgetName::Handle(handle)) => self.opened.by_handle(handle),
        }
    }

    /// Is the first configuration still to come, or its templates? A budget that is not known may be there all the same. So it stays where
    /// the budgets file was refused at the start, until a file is taken.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        !self.snapshot.is_in_force() || !self.opened.is_configured()
    }

    /// What is said of a budget that [`Till::find`] does not know: `UnknownBudget`, which is final, or `Busy` while no configuration is in
    /// force. Of a handle that is not known says [`Till::open`] what there is to say.
    #[cold]
    #[must_use]
    pub fn unknown(&self) -> Verdict {
        match self.snapshot.is_in_force() {
            true => Verdict::UnknownBudget,
            false => Verdict::Busy,
        }
    }

    /// The handle of a budget that this worker knows.
    fn handle(&self, id: u64) -> Option<&str> {
        match self.snapshot.slots.get(id) {
            Some(slot) => self.snapshot.names.handle(slot).map(Handle::as_str),
            None => self.opened.handle(id),
        }
    }

    /// May this principal name the budget with this id? `None`: the door asks nobody who it is. The budget's handle is looked up only where
    /// scopes are about handles.
    #[inline]
    pub fn allows(&self, principal: Option<&Arc<Principal>>, id: u64) -> bool {
        principal.is_none_or(|principal| {
            let scopes = principal.scopes();
            scopes.allows_budget(id) || scopes.knows_handles() && scopes.allows(id, self.handle(id))
        })
    }

    /// The same of a budget whose handle is at hand, as that of one that only the bank knows.
    #[must_use]
    pub fn allows_named(principal: Option<&Arc<Principal>>, id: u64, handle: Option<&str>) -> bool {
        principal.is_none_or(|principal| principal.scopes().allows(id, handle))
    }

    /// Asks the bank for the budget with this handle, which is to be made from a template if there is none yet: where
    /// neither the snapshot nor [`Till::opened`] knows it. The door that `reply` names hears of it with
    /// `Heard::Budget`, once the budget is sealed.
    ///
    /// # Errors
    /// At once: `UnknownBudget`, no template matches, or who asks may not name it; `Busy`, too many wait, or [`Till::is_starting`];
    /// `Journal`.
    pub fn open(
        &mut self,
        principal: Option<&Arc<Principal>>,
        handle: &str,
        reply: Reply,
    ) -> Result<(), Verdict> {
        // Which handles there are is not known yet, nor which of them a scope allows by their ids.
        if self.is_starting() {
            return Err(Verdict::Busy);
        }
        // A budget that is not made yet has no id that a scope could name.
        if principal.is_some_and(|principal| !principal.scopes().allows_handle(handle)) {
            return Err(Verdict::UnknownBudget);
        }
        self.sealing()?;
        self.opened.ask(handle, reply)?;
        self.urgent = true;
        Ok(())
    }

    /// Takes a message of the bank to a purse of any kind.
    pub fn take(&mut self, message: ToWorker) {
        let now_ms = self.at.now_ms;
        match message.made() {
            None => self.purses.take(message, now_ms),
            // Of a budget that this worker never met: it has no purse here.
            Some((slot, _)) if slot as usize >= self.made.slots() => {}
            Some((_, message)) => self.made.take(message, now_ms),
        }
    }

    /// A purse for a budget that was made on its first ask: empty, whoever had the slot before. One that this worker met already keeps
    /// its purse, which may have money: the bank tells of a budget when somebody asks for it, and again with the owner of a grant.
    pub fn meet(&mut self, budget: Made) {
        let Some(made) = budget.slot.checked_sub(MADE_SLOT) else { return };
        if self.opened.by_id(budget.id) == Some(budget) {
            return;
        }
        if made as usize >= self.made.slots() {
            // So many at once that a purse costs little, and so few that no ask waits for it.
            self.made.grow_to(made as usize + 1, PURSES_A_STEP);
        }
        self.made.forget(made);
    }

    /// Moves what made budgets' purses have to say to the other messages: behind their turn, before whatever must come after it.
    pub fn collect_made(&mut self) {
        while let Some(message) = self.made.next_message() {
            self.purses.send(message.of_made());
        }
    }

    /// A stage of the worker's turn ends.
    #[inline(always)]
    pub fn lap(&mut self, stage: WorkerStage, items: usize) {
        self.probes.lap(stage, items);
    }

    /// Asks the bank to confirm, settle or release a hold. The door that `reply` names hears what became of it once that is sealed.
    /// `principal`: whose scopes apply to the budget of the hold, which a token does not name. The bank judges them before it books, and
    /// answers `UnknownBudget` where it is outside of them. `None`: whoever has the token of a hold may resolve it.
    #[inline]
    pub fn resolve(
        &mut self,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        (action, hold, amount): (Action, Hold, Amount),
        origin: Origin,
    ) {
        let (at_ms, reply) = (self.at.now_ms, reply.to_bits());
        let resolve = ToBank::Resolve { action, hold, amount, at_ms, origin, reply };
        match limited(principal) {
            None => self.purses.send(resolve),
            limited => self.say_apart(limited, ApartMessage::Resolve(resolve)),
        }
    }

    /// Tells the bank of a click on what was bought with a hold: `Door::resolved`, with the verdict that the hold has by then, once that is
    /// sealed.
    pub fn click(&mut self, reply: Reply, hold: Hold, origin: Origin) {
        let (at_ms, reply) = (self.at.now_ms, reply.to_bits());
        self.purses.send(ToBank::Click { hold, at_ms, origin, reply });
        self.urgent = true;
    }

    /// Asks the bank whose budget a hold is of: `Heard::Owner`.
    pub fn owner(&mut self, hold: Hold, reply: Reply) {
        self.purses.send(ToBank::Owner { hold, reply: reply.to_bits() });
        self.urgent = true;
    }

    /// Asks the bank whether a request with a key may be done, or was done before: `Heard::Claimed`. Both hashes are
    /// made with [`Facts::answer_secret`]. Whoever hears [`ledger::Claimed::New`] ends the claim: with [`Till::resolve_keyed`]
    /// [`Till::keep`] or [`Till::answered`]. No door gives one up: a call is done although its client is gone.
    /// `has_token`: the call names one, so it is safe to repeat without a key, too.
    pub fn claim(&mut self, reply: Reply, key: u128, digest: u128, has_token: bool) {
        let (at_ms, reply) = (self.at.now_ms, reply.to_bits());
        self.say_keyed(Keyed::Claim { reply, key, digest, at_ms, has_token });
    }

    /// Has the answer of a claim kept that made a hold, or found that what it wants had become of its hold before, and does nothing else with that:
    /// `Door::resolved` with `Granted`, once that is sealed.
    pub fn keep(&mut self, reply: Reply, hold: Hold, origin: Origin, key: u128, answer: &[u8]) {
        let (at_ms, reply, answer) = (self.at.now_ms, reply.to_bits(), answer.into());
        self.say_keyed(Keyed::Keep { hold, at_ms, origin, reply, key, answer });
    }

    /// As [`Till::resolve`], for the request of a claim; `answer`, at most [`ledger::keyed::ANSWER_BYTES_MAX`] bytes, is what repeats
    /// get beside the verdict. Where something is booked the claim is over; else the door still ends it.
    pub fn resolve_keyed(
        &mut self,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        (action, hold, amount): (Action, Hold, Amount),
        origin: Origin,
        key: u128,
        answer: &[u8],
    ) {
        let (at_ms, reply, answer) = (self.at.now_ms, reply.to_bits(), answer.into());
        let resolve = Keyed::Resolve { action, hold, amount, at_ms, origin, reply, key, answer };
        self.say_apart(limited(principal), ApartMessage::Keyed(resolve));
    }

    /// The request of a claim came to an answer that booked nothing: who waits for it gets the same, and nothing is kept.
    pub fn answered(&mut self, key: u128, verdict: Verdict, answer: &[u8]) {
        self.say_keyed(Keyed::Answered { key, verdict, answer: answer.into() });
    }

    /// Asks the bank for a hold that ends by time, or for a later end of a hold: `Heard::Timed`, once that is sealed. `principal`: whose
    /// scopes apply to the budgets of the hold that is extended. `keyed`: as for [`Till::resolve_keyed`]; of a later end the bank adds its 8
    /// bytes behind the answer.
    pub fn timed(
        &mut self,
        reply: Reply,
        principal: Option<&Arc<Principal>>,
        ask: TimedAsk,
        origin: Origin,
        keyed: Option<(u128, Box<[u8]>)>,
    ) {
        let (at_ms, reply) = (self.at.now_ms, reply.to_bits());
        let request = TimedRequest { ask, at_ms, origin, reply, keyed };
        self.say_apart(limited(principal), ApartMessage::Timed(Box::new(request)));
    }

    /// Has a memo of the door recorded, alone or with its money: `Heard::Recorded`, once that is sealed. A hold that was
    /// made for it is the bank's from here on.
    ///
    /// # Errors
    /// At once, and nothing is said to the bank: it is too long, or the journal cannot seal.
    pub fn memo(&mut self, reply: Reply, memo: Memo, money: MemoMoney) -> Result<(), MemoRefusal> {
        MemoRefusal::check_len(memo.bytes.len())?;
        self.sealing().map_err(MemoRefusal::Unsealed)?;
        let (at_ms, reply) = (self.at.now_ms, reply.to_bits());
        self.say_keyed(Keyed::Memo(Box::new(MemoRequest { memo, money, at_ms, reply })));
        Ok(())
    }

    fn say_keyed(&mut self, message: Keyed) {
        self.say_apart(None, ApartMessage::Keyed(message));
    }

    pub(crate) fn say_apart(&mut self, limited: Option<Arc<Principal>>, message: ApartMessage) {
        self.apart.push_back(Apart { before: self.purses.unsent(), limited, message });
        self.urgent = true;
    }

    /// Asks the bank for a sign behind everything that is said to it in this wake-up, what purses want included:
    /// `Heard::Echo`.
    pub fn echo(&mut self, reply: Reply) {
        self.echoes.push(reply);
    }

    /// Says the echoes that were asked for, behind the wants.
    #[inline]
    pub fn send_echoes(&mut self) {
        for reply in self.echoes.drain(..) {
            self.purses.send(ToBank::Echo { reply: reply.to_bits() });
        }
    }

    /// Takes a question of a client about books or counters; its answer comes to the connection.
    ///
    /// # Errors
    /// `Busy`: too many wait.
    pub fn question(&mut self, conn: ConnId, question: Question) -> Result<(), Reason> {
        self.questions.take(conn.to_bits(), question)?;
        self.urgent = true;
        Ok(())
    }

    /// Counts a refused ask of a budget, and remembers it for a while.
    #[inline(always)]
    pub fn refused(&self, slot: u32, why: Verdict) {
        if let Some(tally) = self.cells.tallies.get(slot as usize) {
            tally.refused(why);
            self.refusals.note(slot, why, self.at.now_ms);
        }
    }
}

/// Whose scopes the bank has to judge: nobody's, where they limit nothing.
#[inline]
fn limited(principal: Option<&Arc<Principal>>) -> Option<Arc<Principal>> {
    principal.filter(|principal| principal.scopes().is_limited()).cloned()
}
