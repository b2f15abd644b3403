//! Calls that wait: for the first answer under their key, for their budget to be made, for money, for their seal.

use std::sync::Arc;

use access::Principal;
use door_spend::{Call, Form, Outcome};
use door_transport::ConnId;
use ledger::{Amount, Hold, Owner};
use weir_till::{Pending, Reply};

/// Calls of a worker that may wait for money at once: a whole batch, and others beside it.
pub(crate) const FILLS_MAX: usize = 16_384;

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing was done for it.
    Begin,
    /// Its budget, or the budget of its hold, is looked up.
    Find,
    /// It is judged.
    Judge,
    /// It is with the bank, whose answer is the call's.
    Seal,
}

/// A call that waits, or did.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) next: Next,
    /// The budget.
    pub(crate) owner: Option<Owner>,
    /// The hold that was made, or that the token names.
    pub(crate) hold: Option<Hold>,
    /// How often it waited for money.
    pub(crate) fills: u8,
    /// Until when it does so, by the steady clock.
    pub(crate) until_ms: u64,
    /// It has the claim on its key: that must be kept or given up.
    pub(crate) claimed: bool,
    /// What it is answered once it is sealed, where a repeat must get the same bytes: token keys may change meanwhile.
    pub(crate) kept: Option<Outcome>,
    /// What it books as spent.
    pub(crate) spent: Amount,
    /// It got the answer of the first request under its key.
    pub(crate) again: bool,
}

impl Job {
    pub(crate) fn new(call: Call) -> Job {
        let (next, owner, hold) = (Next::Begin, None, None);
        let (fills, until_ms, claimed, kept) = (0, 0, false, None);
        let (spent, again) = (Amount::ZERO, false);
        Job { call, next, owner, hold, fills, until_ms, claimed, kept, spent, again }
    }

    /// The hold of a grant that is confirmed, and that nothing but this outcome names.
    fn confirmed_alone(&self, outcome: &Outcome) -> Option<Hold> {
        let alone = self.call.confirm && self.call.keyed.is_none();
        self.hold.filter(|_| alone && matches!(outcome, Outcome::Granted { .. }))
    }
}

/// An entry of a request.
#[derive(Debug)]
pub(crate) enum Entry {
    Waits(Box<Job>),
    Done(Outcome),
}

/// A request whose answer is owed.
#[derive(Debug)]
pub(crate) struct Request {
    /// Where its answer is owed; `None`: it was told that it is under way, and nobody waits for the rest.
    pub(crate) conn: Option<ConnId>,
    pub(crate) form: Form,
    /// Who sent it.
    pub(crate) principal: Option<Arc<Principal>>,
    entries: Vec<Entry>,
    left: usize,
    /// Holds that are confirmed, and that nothing but its answer names.
    alone: Vec<Hold>,
}

impl Request {
    /// Holds that are to be released where its answer reaches nobody: they would be set aside until the billing deadline.
    pub(crate) fn take_alone(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.alone)
    }

    /// The outcomes, in order; all of them are there.
    pub(crate) fn into_outcomes(self) -> impl Iterator<Item = Outcome> {
        self.entries.into_iter().map(|entry| match entry {
            Entry::Done(outcome) => outcome,
            Entry::Waits(_) => unreachable!("a request is answered when nothing of it waits"),
        })
    }
}

/// All requests of a worker that wait. The number of their entries is bounded.
#[derive(Debug)]
pub(crate) struct WaitingCalls {
    requests: Pending<Request>,
    /// Entries of all of them, and how many there may be.
    entries: usize,
    entries_max: usize,
}

impl WaitingCalls {
    pub(crate) fn new(entries_max: usize) -> WaitingCalls {
        // Each has an entry at least.
        WaitingCalls { requests: Pending::new(entries_max), entries: 0, entries_max }
    }

    /// Entries that are kept now.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Would a request with so many entries find a place?
    pub(crate) fn has_room(&self, entries: usize) -> bool {
        self.entries + entries <= self.entries_max
    }

    /// Keeps a request. There must be room.
    pub(crate) fn open(
        &mut self,
        conn: ConnId,
        form: Form,
        principal: Option<Arc<Principal>>,
        entries: Vec<Entry>,
    ) -> u32 {
        self.entries += entries.len();
        let left = entries.iter().filter(|entry| matches!(entry, Entry::Waits(_))).count();
        let request =
            Request { conn: Some(conn), form, principal, entries, left, alone: Vec::new() };
        self.requests.open(request).expect("it was asked whether there is room")
    }

    /// A job of a request, with who sent it. It is put back with [`WaitingCalls::put`] or [`WaitingCalls::close`].
    pub(crate) fn take(&mut self, reply: Reply) -> Option<(Box<Job>, Option<Arc<Principal>>)> {
        let request = self.requests.get_mut(reply.index)?;
        let entry = request.entries.get_mut(reply.entry as usize)?;
        let taken = Entry::Done(Outcome::refused(wire::Verdict::Busy));
        match std::mem::replace(entry, taken) {
            Entry::Waits(job) => Some((job, request.principal.clone())),
            Entry::Done(outcome) => {
                *entry = Entry::Done(outcome);
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
        request.entries[entry] = Entry::Waits(job);
    }

    /// The end of a job that was taken.
    pub(crate) fn close(&mut self, reply: Reply, job: &Job, outcome: Outcome) {
        let (request, entry) = self.place(reply);
        request.alone.extend(job.confirmed_alone(&outcome));
        request.entries[entry] = Entry::Done(outcome);
        request.left -= 1;
        if request.left == 0 {
            self.requests.done(reply.index);
        }
    }

    /// This request, if nothing of it waits any more.
    pub(crate) fn take_if_complete(&mut self, index: u32) -> Option<Request> {
        let request = self.requests.take_if_done(index)?;
        Some(self.left(request))
    }

    /// Lets all callers go whose calls wait: the answer of each, with this outcome for what is under way. The calls go on.
    pub(crate) fn leave(&mut self, under_way: &Outcome) -> Vec<(ConnId, Form, Vec<Outcome>)> {
        let told = |entry: &Entry| match entry {
            Entry::Done(outcome) => outcome.clone(),
            Entry::Waits(_) => under_way.clone(),
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
        request
    }
}

/// A call that waits for so much of the budget in a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) reply: Reply,
    pub(crate) slot: u32,
    pub(crate) amount: Amount,
}

#[cfg(test)]
mod tests {
    use door_spend::{Budget, CallKind, Subject};
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
            keyed: None,
        }
    }

    fn job() -> Entry {
        Entry::Waits(Box::new(Job::new(call())))
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
            let index = waiting.open(ConnId::from_bits(1), Form::One, None, vec![job()]);
            let (mut job, _) = waiting.take(reply(index, 0)).unwrap();
            job.call = Call { confirm, keyed, ..call() };
            job.hold = Some(hold);
            waiting.close(reply(index, 0), &job, outcome);
            waiting.next_complete().unwrap().take_alone()
        };
        let key = door_spend::Keyed { key: 1, digest: 2 };
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
        let mut waiting = WaitingCalls::new(4);
        let done = Outcome::refused(Verdict::Paced);
        let entries = vec![job(), Entry::Done(done.clone()), job()];
        let first = waiting.open(ConnId::from_bits(1), Form::Batch, None, entries);
        assert!(waiting.has_room(1) && !waiting.has_room(2), "bounded");
        let second = waiting.open(ConnId::from_bits(2), Form::One, None, vec![job()]);
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
        assert_eq!(waiting.open(ConnId::from_bits(3), Form::One, None, vec![job()]), first);
    }

    #[test]
    fn who_is_told_that_its_calls_are_under_way_hears_nothing_more_of_them() {
        let mut waiting = WaitingCalls::new(4);
        let (done, under_way) =
            (Outcome::refused(Verdict::Paced), Outcome::refused(Verdict::Journal));
        let entries = vec![job(), Entry::Done(done.clone())];
        let index = waiting.open(ConnId::from_bits(1), Form::Batch, None, entries);
        let told = waiting.leave(&under_way);
        assert_eq!(told, [(ConnId::from_bits(1), Form::Batch, vec![under_way.clone(), done])]);
        assert_eq!(waiting.leave(&under_way), [], "once");
        assert_eq!(waiting.len(), 2, "its calls go on");
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
