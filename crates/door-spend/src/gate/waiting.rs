//! Calls that wait: for the first answer under their key, for their budget to be made, for money, for their seal.

use std::sync::Arc;

use access::Principal;
use door_transport::ConnId;
use ledger::{Amount, Hold, Owner, TimedFacts};
use weir_till::{FillWait, Pending, Reply};

use crate::{Call, Form, Outcome};

/// Calls of a worker that may wait for money at once: a whole batch, and others beside it.
pub(crate) const FILLS_MAX: usize = 16_384;
/// Entries of a batch that have their outcome and stay until the last one has, for each that may wait.
pub(crate) const ENTRIES_A_PLACE: usize = 64;

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing was done for it.
    Begin,
    /// Its budget, or the budget of its hold, is looked up.
    Find,
    /// It is judged.
    Judge,
    /// It can be judged as soon as all entries before it are.
    Turn,
    /// It is with the bank, whose answer is the call's.
    Seal,
    /// It was done before, and the bank is asked when its hold ends.
    Look,
    /// It has its answer, and that is being kept for repeats.
    Keep,
}

/// A call that waits, or did.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) next: Next,
    /// The budget.
    pub(crate) owner: Option<Owner>,
    /// The budgets of an ask that the bank judges alone, and the hold that it makes of them.
    pub(crate) legs: Vec<Owner>,
    pub(crate) row: Option<Hold>,
    /// What the token of a hold that ends by time does not say.
    pub(crate) timed: Option<TimedFacts>,
    /// The hold that was made, or that the token names.
    pub(crate) hold: Option<Hold>,
    /// What its last question to the bank came behind: [`super::returns::Returns`].
    pub(crate) asked: Option<u64>,
    /// How often it doubted the bank's word.
    pub(crate) doubts: u8,
    /// How long it waits for money, and how often the bank is asked for it. `None`: it did not need any yet.
    pub(crate) wait: Option<FillWait>,
    /// It has the claim on its key: that must be kept or given up.
    pub(crate) claimed: bool,
    /// What it is answered once it is sealed, where a repeat must get the same bytes: token keys, and what is known of a hold, may change meanwhile.
    pub(crate) kept: Option<Outcome>,
    /// What it books as spent.
    pub(crate) spent: Amount,
    /// It got the answer of the first request under its key.
    pub(crate) again: bool,
}

impl Job {
    pub(crate) fn new(call: Call) -> Job {
        let (next, owner, hold) = (Next::Begin, None, None);
        let (asked, doubts, wait) = (None, 0, None);
        let (claimed, kept, spent, again) = (false, None, Amount::ZERO, false);
        let (legs, row, timed) = (Vec::new(), None, None);
        Job {
            call,
            next,
            owner,
            legs,
            row,
            timed,
            hold,
            asked,
            doubts,
            wait,
            claimed,
            kept,
            spent,
            again,
        }
    }

    /// It can be judged but for those before it, which is none of its time for money. At its turn there may be more of that, so it may ask
    /// once more.
    pub(crate) fn wait_for_turn(&mut self, now_ms: u64) {
        self.next = Next::Turn;
        self.wait.iter_mut().for_each(|wait| wait.stop(now_ms));
    }

    /// The hold of a grant that is confirmed, and that nothing but this outcome names.
    fn confirmed_alone(&self, outcome: &Outcome) -> Option<Hold> {
        let alone = self.call.confirm && self.call.keyed.is_none();
        self.hold.filter(|_| alone && matches!(outcome, Outcome::Granted { .. }))
    }
}

/// An entry of a request.
#[derive(Debug)]
pub(crate) enum EntryState {
    Waits(Box<Job>),
    Done(Outcome),
}

impl EntryState {
    /// Has it its outcome, or has the bank been told what becomes of its money? What is judged behind it comes behind it at the bank.
    fn is_judged(&self) -> bool {
        match self {
            EntryState::Waits(job) => matches!(job.next, Next::Seal | Next::Look | Next::Keep),
            EntryState::Done(_) => true,
        }
    }
}

/// A request whose answer is owed.
#[derive(Debug)]
pub(crate) struct Request {
    /// Where its answer is owed; `None`: it was told that it is under way, and nobody waits for the rest.
    pub(crate) conn: Option<ConnId>,
    pub(crate) form: Form,
    /// Who sent it.
    pub(crate) principal: Option<Arc<Principal>>,
    entries: Vec<EntryState>,
    /// How many of the first entries are judged: they are judged in order.
    judged: usize,
    /// Entries that wait, and how many did when it was opened: it has as many places.
    left: usize,
    waited: usize,
    /// Holds that are confirmed, and that nothing but its answer names.
    alone: Vec<Hold>,
}

impl Request {
    /// The entry that is to be judged next.
    fn advance(&mut self) -> usize {
        while self.entries.get(self.judged).is_some_and(EntryState::is_judged) {
            self.judged += 1;
        }
        self.judged
    }

    /// Holds that are to be released where its answer reaches nobody: they would be set aside until the billing deadline.
    pub(crate) fn take_alone(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.alone)
    }

    /// The outcomes, in order; all of them are there.
    pub(crate) fn into_outcomes(self) -> impl Iterator<Item = Outcome> {
        self.entries.into_iter().map(|entry| match entry {
            EntryState::Done(outcome) => outcome,
            EntryState::Waits(_) => unreachable!("a request is answered when nothing of it waits"),
        })
    }
}

/// All requests of a worker that wait. The number of their entries is bounded.
#[derive(Debug)]
pub(crate) struct WaitingCalls {
    requests: Pending<Request>,
    /// Entries that wait or did, of all requests that are still here, and how many there may be.
    waited: usize,
    waited_max: usize,
    /// All their entries: those with an outcome stay until the last of their batch has one.
    entries: usize,
}

impl WaitingCalls {
    pub(crate) fn new(waited_max: usize) -> WaitingCalls {
        // Each has an entry that waits, but for the one that is being opened.
        let requests = Pending::new(waited_max + 1);
        WaitingCalls { requests, waited: 0, waited_max, entries: 0 }
    }

    /// Entries that wait, or whose answer is not written.
    pub(crate) fn len(&self) -> usize {
        self.waited
    }

    /// May another entry wait?
    pub(crate) fn has_room(&self) -> bool {
        self.waited < self.waited_max && self.entries / ENTRIES_A_PLACE < self.waited_max
    }

    /// Begins to keep a request whose first entries have these outcomes; the others follow with [`WaitingCalls::push`], and then
    /// [`WaitingCalls::opened`]. There must be room.
    pub(crate) fn open(
        &mut self,
        conn: ConnId,
        form: Form,
        principal: Option<Arc<Principal>>,
        outcomes: impl Iterator<Item = Outcome>,
    ) -> u32 {
        let entries: Vec<EntryState> = outcomes.map(EntryState::Done).collect();
        self.entries += entries.len();
        let (conn, judged, alone) = (Some(conn), entries.len(), Vec::new());
        let (left, waited) = (0, 0);
        let request = Request { conn, form, principal, entries, judged, left, waited, alone };
        self.requests.open(request).expect("it was asked whether there is room")
    }

    /// Adds an entry to a request that is being opened.
    pub(crate) fn push(&mut self, index: u32, entry: EntryState) {
        let Some(request) = self.requests.get_mut(index) else { return };
        let waits = usize::from(matches!(entry, EntryState::Waits(_)));
        request.entries.push(entry);
        request.left += waits;
        request.waited += waits;
        request.advance();
        self.waited += waits;
        self.entries += 1;
    }

    /// All entries of a request are there: the request, if nothing of it waits.
    pub(crate) fn opened(&mut self, index: u32) -> Option<Request> {
        let is_complete = self.requests.get_mut(index).is_some_and(|request| request.left == 0);
        let request = is_complete.then(|| self.requests.close(index)).flatten()?;
        Some(self.left(request))
    }

    /// Are all entries before this one judged?
    pub(crate) fn is_next(&mut self, reply: Reply) -> bool {
        let request = self.requests.get_mut(reply.index);
        request.is_some_and(|request| request.judged == reply.entry as usize)
    }

    /// The entry of a request that waited for its turn, if that has come.
    pub(crate) fn next_turn(&mut self, index: u32) -> Option<u32> {
        let request = self.requests.get_mut(index)?;
        let next = request.advance();
        let is_ready =
            matches!(&request.entries.get(next)?, EntryState::Waits(job) if job.next == Next::Turn);
        u32::try_from(next).ok().filter(|_| is_ready)
    }

    /// A job of a request, with who sent it. It is put back with [`WaitingCalls::put`] or [`WaitingCalls::close`].
    pub(crate) fn take(&mut self, reply: Reply) -> Option<(Box<Job>, Option<Arc<Principal>>)> {
        let request = self.requests.get_mut(reply.index)?;
        let entry = request.entries.get_mut(reply.entry as usize)?;
        let taken = EntryState::Done(Outcome::refused(wire::Verdict::Busy));
        match std::mem::replace(entry, taken) {
            EntryState::Waits(job) => Some((job, request.principal.clone())),
            EntryState::Done(outcome) => {
                *entry = EntryState::Done(outcome);
                None
            }
        }
    }

    fn place(&mut self, reply: Reply) -> (&mut Request, usize) {
        let request = self.requests.get_mut(reply.index);
        (request.expect("a job is taken and put back in one step"), reply.entry as usize)
    }

    /// Puts a job back that waits on.
    pub(crate) fn put(&mut self, reply: Reply, job: Box<Job>) {
        let (request, entry) = self.place(reply);
        request.entries[entry] = EntryState::Waits(job);
    }

    /// The end of a job that was taken.
    pub(crate) fn close(&mut self, reply: Reply, job: &Job, outcome: Outcome) {
        let (request, entry) = self.place(reply);
        request.alone.extend(job.confirmed_alone(&outcome));
        request.entries[entry] = EntryState::Done(outcome);
        request.left -= 1;
        if request.left == 0 {
            self.requests.done(reply.index);
        }
    }

    /// Lets all callers go whose calls wait: the answer of each, with this outcome for what is under way. The calls go on.
    pub(crate) fn leave(&mut self, under_way: &Outcome) -> Vec<(ConnId, Form, Vec<Outcome>)> {
        let told = |entry: &EntryState| match entry {
            EntryState::Done(outcome) => outcome.clone(),
            EntryState::Waits(_) => under_way.clone(),
        };
        let waiting = self.requests.iter_mut().filter(|request| request.left > 0);
        let answers = waiting.filter_map(|request| {
            let conn = request.conn.take()?;
            // Their tokens are told now.
            request.alone.clear();
            Some((conn, request.form, request.entries.iter().map(told).collect()))
        });
        answers.collect()
    }

    /// The next request nothing of which waits.
    pub(crate) fn next_complete(&mut self) -> Option<Request> {
        let request = self.requests.next_done()?;
        Some(self.left(request))
    }

    /// Its entries have room for others.
    fn left(&mut self, request: Request) -> Request {
        self.entries -= request.entries.len();
        self.waited -= request.waited;
        request
    }
}

/// A call that waits for so much of the budget in a slot; `None`: for nothing but its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) reply: Reply,
    pub(crate) slot: Option<u32>,
    pub(crate) amount: Amount,
}

#[cfg(test)]
mod tests {
    use crate::{Budget, CallKind, Subject};
    use wire::Verdict;

    use super::*;

    fn call() -> Call {
        Call {
            kind: CallKind::Reserve,
            subject: Subject::Budget(Budget::Id(1)),
            amount: None,
            unit: None,
            hold_ms: None,
            wait_ms: None,
            confirm: false,
            confirm_ms: None,
            keyed: None,
        }
    }

    fn job() -> EntryState {
        EntryState::Waits(Box::new(Job::new(call())))
    }

    fn keep(waiting: &mut WaitingCalls, conn: u64, form: Form, entries: Vec<EntryState>) -> u32 {
        let index = waiting.open(ConnId::from_bits(conn), form, None, std::iter::empty());
        entries.into_iter().for_each(|entry| waiting.push(index, entry));
        assert!(waiting.opened(index).is_none(), "something of it waits");
        index
    }

    #[test]
    fn a_confirmed_grant_that_only_its_answer_names_is_known_until_it_is_written() {
        let hold = Hold { node: 1, grant: 7, seq: 1, amount: Amount::new(5), deadline_ms: 9 };
        let granted = || Outcome::Granted {
            token: [0; 32],
            amount: hold.amount,
            unit: money::Unit::Count,
            deadline_ms: 9,
        };
        let alone = |confirm, keyed, outcome| {
            let mut waiting = WaitingCalls::new(1);
            let index = keep(&mut waiting, 1, Form::One, vec![job()]);
            let (mut job, _) = waiting.take(reply(index, 0)).unwrap();
            job.call = Call { confirm, keyed, ..call() };
            job.hold = Some(hold);
            waiting.close(reply(index, 0), &job, outcome);
            waiting.next_complete().unwrap().take_alone()
        };
        let key = crate::Keyed { key: 1, digest: 2 };
        assert_eq!(alone(true, None, granted()), [hold]);
        assert_eq!(alone(false, None, granted()), [], "it lapses by itself");
        assert_eq!(alone(true, Some(key), granted()), [], "a repeat gets its token");
        assert_eq!(alone(true, None, Outcome::refused(Verdict::Busy)), []);
    }

    fn reply(index: u32, entry: u32) -> Reply {
        Reply { door: 0, index, entry }
    }

    #[test]
    fn a_request_is_complete_when_nothing_of_it_waits() {
        let mut waiting = WaitingCalls::new(3);
        let done = Outcome::refused(Verdict::Paced);
        let entries = vec![job(), EntryState::Done(done.clone()), job()];
        let first = keep(&mut waiting, 1, Form::Batch, entries);
        assert!(waiting.has_room(), "what has its outcome takes no place");
        let second = keep(&mut waiting, 2, Form::One, vec![job()]);
        assert!(!waiting.has_room(), "bounded");
        let (again, _) = waiting.take(reply(first, 2)).unwrap();
        waiting.put(reply(first, 2), again);
        for (index, entry) in [(second, 0), (first, 2)] {
            assert!(waiting.take(reply(index, entry)).is_some());
            waiting.close(reply(index, entry), &Job::new(call()), Outcome::refused(Verdict::Ended));
        }
        assert!(waiting.take(reply(first, 2)).is_none(), "it does not wait any more");
        assert!(waiting.take(reply(9, 0)).is_none() && waiting.take(reply(first, 9)).is_none());
        assert_eq!(waiting.next_complete().unwrap().conn, Some(ConnId::from_bits(2)));
        assert!(waiting.next_complete().is_none());
        assert!(waiting.take(reply(first, 0)).is_some());
        waiting.close(reply(first, 0), &Job::new(call()), Outcome::refused(Verdict::Paused));
        let outcomes: Vec<_> = waiting.next_complete().unwrap().into_outcomes().collect();
        assert_eq!(outcomes[1], done);
        assert_eq!(waiting.len(), 0);
        assert_eq!(keep(&mut waiting, 3, Form::One, vec![job()]), first);
    }

    #[test]
    fn entries_come_to_their_turn_in_order() {
        let mut waiting = WaitingCalls::new(4);
        let done = || Outcome::refused(Verdict::Paced);
        let index =
            keep(&mut waiting, 1, Form::Batch, vec![job(), job(), EntryState::Done(done()), job()]);
        let mut goes_on = |entry, next| {
            let (mut job, _) = waiting.take(reply(index, entry)).unwrap();
            job.next = next;
            waiting.put(reply(index, entry), job);
            let turn = waiting.next_turn(index);
            (turn, [0, 1, 3].map(|entry| waiting.is_next(reply(index, entry))))
        };
        let first = [true, false, false];
        assert_eq!(goes_on(3, Next::Turn), (None, first), "two before it are not judged");
        assert_eq!(goes_on(0, Next::Judge), (None, first));
        assert_eq!(goes_on(0, Next::Seal), (None, [false, true, false]), "the next one waits");
        assert_eq!(goes_on(1, Next::Turn), (Some(1), [false, true, false]));
        assert_eq!(goes_on(1, Next::Seal), (Some(3), [false, false, true]));
        waiting.close(reply(index, 3), &Job::new(call()), done());
        assert_eq!(waiting.next_turn(index), None);
    }

    #[test]
    fn a_request_nothing_of_which_waits_in_the_end_takes_no_place() {
        let mut waiting = WaitingCalls::new(1);
        let outcome = || Outcome::refused(Verdict::Paced);
        for _ in 0..3 {
            let outcomes = std::iter::repeat_with(outcome).take(2);
            let index = waiting.open(ConnId::from_bits(1), Form::Batch, None, outcomes);
            assert!(waiting.is_next(reply(index, 2)));
            waiting.push(index, EntryState::Done(outcome()));
            let outcomes = waiting.opened(index).unwrap().into_outcomes();
            assert_eq!(outcomes.collect::<Vec<_>>(), [outcome(), outcome(), outcome()]);
            assert!(waiting.has_room());
        }
        let many = std::iter::repeat_with(outcome).take(ENTRIES_A_PLACE);
        let index = waiting.open(ConnId::from_bits(1), Form::Batch, None, many);
        assert!(!waiting.has_room(), "what has its outcome is bounded, too");
        assert!(waiting.opened(index).is_some() && waiting.has_room());
    }

    #[test]
    fn who_is_told_that_its_calls_are_under_way_hears_nothing_more_of_them() {
        let mut waiting = WaitingCalls::new(4);
        let (done, under_way) =
            (Outcome::refused(Verdict::Paced), Outcome::refused(Verdict::Journal));
        let entries = vec![job(), EntryState::Done(done.clone())];
        let index = keep(&mut waiting, 1, Form::Batch, entries);
        let told = waiting.leave(&under_way);
        assert_eq!(told, [(ConnId::from_bits(1), Form::Batch, vec![under_way.clone(), done])]);
        assert_eq!(waiting.leave(&under_way), [], "once");
        assert_eq!(waiting.len(), 1, "its call goes on");
        let (mut confirmed, _) = waiting.take(reply(index, 0)).unwrap();
        confirmed.call.confirm = true;
        let hold = Hold { node: 1, grant: 7, seq: 1, amount: Amount::new(5), deadline_ms: 9 };
        confirmed.hold = Some(hold);
        let (token, unit) = ([0; 32], money::Unit::Count);
        let granted = Outcome::Granted { token, amount: hold.amount, unit, deadline_ms: 9 };
        waiting.close(reply(index, 0), &confirmed, granted);
        let mut request = waiting.next_complete().unwrap();
        assert_eq!(
            (request.conn, request.take_alone()),
            (None, vec![hold]),
            "nobody has its token"
        );
    }
}
