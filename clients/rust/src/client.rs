//! The client: what callers use.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use money::Unit;
use wire::{Action, DecideFlags, decide};

use crate::call::{Call, Part};
use crate::conn::{self, Conn, Ears};
use crate::flights::NoPlace;
use crate::lookup::{Found, Handles};
use crate::options::What;
use crate::outbox::{Order, Outbox, backoff};
use crate::pool::{Pool, Way};
use crate::spool::Spool;
use crate::{Answer, Ask, Error, Extended, Hold, Options, Token, Verdict};

/// How many calls are kept to be used again.
const CALLS_KEPT: usize = 256;

/// What came of an ask.
#[derive(Debug)]
pub enum Decision {
    /// The money is reserved.
    Granted(Hold),
    /// It is not, and why.
    Refused(Verdict),
}

impl Decision {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Decision::Granted(_) => Verdict::GRANTED,
            Decision::Refused(verdict) => *verdict,
        }
    }

    /// The hold, where there is one.
    #[must_use]
    pub fn granted(self) -> Option<Hold> {
        match self {
            Decision::Granted(hold) => Some(hold),
            Decision::Refused(_) => None,
        }
    }
}

/// A call and the room for its asks on the wire.
#[derive(Debug, Default)]
struct Desk {
    call: Arc<Call>,
    asks: Vec<decide::Ask>,
}

/// What the client's threads share with its callers.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) outbox: Outbox,
    pool: Pool,
    desks: Mutex<Vec<Desk>>,
    handles: Handles,
    /// Request ids begin anywhere, so that two clients seldom choose the same.
    next_id: AtomicU64,
    /// The log has named units that do not fit.
    units_logged: AtomicBool,
}

/// A client of one or more nodes. Share it by reference or in an `Arc`: all its methods take `&self`.
///
/// ```no_run
/// use weir_client::{Ask, Client, Decision, Options};
///
/// let client = Client::open(Options::new("127.0.0.1:7700"))?;
/// match client.reserve(&Ask::text(1001, "0.15", "USD")?)? {
///     Decision::Granted(mut hold) => {
///         let outcome = hold.settle_text("0.042")?; // what it really cost
///         assert!(outcome.verdict.is_booked());
///     }
///     Decision::Refused(why) => println!("not now: {why}"),
/// }
/// # Ok::<(), weir_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl Client {
    /// Opens a client. Nodes that cannot be reached now are tried again later; what the spool file holds is sent.
    ///
    /// # Errors
    /// The options cannot be used, no node lets this client in, or the spool file cannot be used.
    pub fn open(options: Options) -> Result<Client, Error> {
        options.check()?;
        let spool = options.spool.as_deref().map(Spool::open).transpose();
        let spool = spool.map_err(|error| Error::Spool(Arc::new(error)))?;
        let (spool, orders) = match spool {
            Some((spool, orders, unreadable)) => {
                if unreadable > 0 {
                    (options.log)(&format!("{unreadable} lines of the spool file cannot be read"));
                }
                (Some(spool), orders)
            }
            None => (None, Vec::new()),
        };
        let inner = Arc::new(Inner {
            pool: Pool::new(options.nodes.len(), options.connections),
            outbox: Outbox::new(spool),
            desks: Mutex::default(),
            handles: Handles::default(),
            next_id: AtomicU64::new(RandomState::new().hash_one(0)),
            units_logged: AtomicBool::new(false),
            options,
        });
        orders.into_iter().for_each(|order| inner.outbox.take(order, None));
        let mut client = Client { inner, threads: Vec::new() };
        client.start("weir-client-dial", |inner| {
            let dial = |node| conn::dial(node, &inner.options, Arc::clone(inner));
            inner.pool.keep(dial, || inner.outbox.unpark());
        })?;
        client.start("weir-client-send", |inner| inner.outbox.keep(&inner.pool, &inner.options))?;
        client.inner.pool.opened(Instant::now() + client.inner.options.connect)?;
        Ok(client)
    }

    fn start(
        &mut self,
        name: &str,
        run: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || run(&inner));
        self.threads.push(thread.map_err(|error| Error::Options(format!("a thread: {error}")))?);
        Ok(())
    }

    /// May I spend this, now? Waits for the answer until the ask's deadline.
    ///
    /// A grant that comes too late is released by the client. Nothing is asked again, but an ask with `retry`.
    ///
    /// # Errors
    /// Something is broken; a refusal is a [`Decision`].
    pub fn reserve(&self, ask: &Ask) -> Result<Decision, Error> {
        let (begun, until) = self.times(ask);
        let conn = self.inner.pool.pick(thread_number(), until)?;
        self.reserve_at(conn.as_deref(), ask, begun, until)
    }

    /// When a call begins, and until when it waits.
    fn times(&self, ask: &Ask) -> (Instant, Instant) {
        let begun = Instant::now();
        let time = ask.deadline.unwrap_or_else(|| self.inner.options.deadline_of(ask.confirm));
        (begun, begun + time)
    }

    fn reserve_at(
        &self,
        conn: Option<&Conn>,
        ask: &Ask,
        begun: Instant,
        until: Instant,
    ) -> Result<Decision, Error> {
        let request_id = self.inner.name(ask);
        let mut answers = Vec::new();
        if let Some(conn) = conn {
            self.inner.ask_one(conn, ask, request_id, until, &mut answers)?;
        }
        let answer = answers.first().copied().unwrap_or(Answer::refused(Verdict::UNREACHABLE));
        self.inner.told(begun, &[answer]);
        if !answer.verdict.is_granted() {
            return Ok(Decision::Refused(answer.verdict));
        }
        let issuer = conn.map(|conn| conn.node);
        let hold = Hold::new(&self.inner, ask, answer.token, request_id, issuer);
        if ask.confirm { hold.confirmed(until) } else { Ok(Decision::Granted(hold)) }
    }

    /// As [`Client::reserve`], from the budget with this handle, such as `team-42/gpt-5`, whatever number the ask has. The node is
    /// asked once which budget that is, and makes it where one of its templates fits the handle.
    ///
    /// # Errors
    /// As for [`Client::reserve`].
    pub fn reserve_from(&self, handle: &str, ask: &Ask) -> Result<Decision, Error> {
        let (begun, until) = self.times(ask);
        let inner = &self.inner;
        // The number is of one node: the ask goes to no other with it.
        let Some(conn) = inner.pool.pick(thread_number(), until)? else {
            return Ok(Decision::Refused(Verdict::UNREACHABLE));
        };
        let mut budget = match inner.find(&conn, handle, until) {
            Found::Budget(budget) => budget,
            Found::Refused(verdict) => return Ok(Decision::Refused(verdict)),
        };
        loop {
            let ask = Ask { budget: budget.id, ..*ask };
            let decision = self.reserve_at(Some(&conn), &ask, begun, until)?;
            if decision.verdict() == Verdict::UNIT_MISMATCH {
                inner.log_units(handle, ask.unit, budget.unit);
            }
            if decision.verdict() != Verdict::UNKNOWN_BUDGET {
                return Ok(decision);
            }
            // A budget of a template that was idle for long has ended: the handle may stand for a new one.
            inner.handles.forget(conn.node, handle);
            match inner.find(&conn, handle, until) {
                Found::Budget(other) if other.id != budget.id => budget = other,
                _ => return Ok(decision),
            }
        }
    }

    /// Which budget a handle stands for, within the deadline of the options. One that is not there yet is made, where a template of
    /// the node fits.
    ///
    /// # Errors
    /// Something is broken; a refusal is a [`Found`].
    pub fn find(&self, handle: &str) -> Result<Found, Error> {
        let until = Instant::now() + self.inner.options.deadline_of(false);
        Ok(match self.inner.pool.pick(thread_number(), until)? {
            Some(conn) => self.inner.find(&conn, handle, until),
            None => Found::Refused(Verdict::UNREACHABLE),
        })
    }

    /// Many asks in one call, in as few frames as they fit in; `answers` gets one for each, in order. The deadline is that of the
    /// options. Without allocation once its buffers are as large as they need to be.
    ///
    /// The answers are plain values: whoever calls this settles or releases what was granted, by [`Client::hold`] or
    /// [`Client::resolve_all`].
    ///
    /// # Errors
    /// Something is broken; `answers` says what was granted all the same, and what was not has its verdict.
    pub fn reserve_all(&self, asks: &[Ask], answers: &mut Vec<Answer>) -> Result<(), Error> {
        let begun = Instant::now();
        if asks.iter().any(|ask| ask.confirm) {
            let why = "`confirm` of an ask of `reserve_all`, which gives no holds: confirm each";
            return Err(Error::Options(why.to_string()));
        }
        let until = begun + self.inner.options.deadline_of(false);
        let result = self.inner.ask_all(asks, until, answers);
        self.inner.told(begun, answers);
        result
    }

    /// The hold of a granted answer.
    pub fn hold(&self, ask: &Ask, answer: &Answer) -> Hold {
        Hold::new(&self.inner, ask, answer.token, answer.request_id, None)
    }

    /// Takes confirms, settles and releases, and returns at once: they are repeated until a node answers each. Amounts are in base
    /// units, 0 but for a settle; the request id names a settlement in the books, 0 for no name.
    ///
    /// # Errors
    /// The client is closed, has too much unanswered, or the spool cannot be written; those before the failing one are taken.
    pub fn resolve_all(&self, resolves: &[(Token, Action, i64, u64)]) -> Result<(), Error> {
        for &(token, action, amount, request_id) in resolves {
            let order = Order { token, action, amount, request_id, issuer: None };
            self.inner.outbox.push(order, None, &self.inner.options)?;
        }
        Ok(())
    }

    /// Confirms, settles and releases that wait for their answers.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.inner.outbox.len()
    }

    /// Closes the client, once everything is answered or `wait` is over; true if everything was answered. What was not is in the
    /// spool file, where there is one. Dropping the client closes it after at most a second.
    pub fn close(mut self, wait: Duration) -> bool {
        self.shut(wait)
    }

    fn shut(&mut self, wait: Duration) -> bool {
        let is_empty = self.inner.outbox.wait_until_empty(wait);
        self.inner.outbox.close();
        self.inner.pool.close();
        for thread in self.threads.drain(..) {
            // A panic in it was printed where it happened.
            let _ = thread.join();
        }
        is_empty
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shut(Duration::from_secs(1));
    }
}

/// A number of the calling thread, so that it keeps to one connection.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

impl Inner {
    /// The name of an ask's request: its own, or the next that is not 0.
    fn name(&self, ask: &Ask) -> u64 {
        if ask.request_id != 0 {
            return ask.request_id;
        }
        self.next_id.fetch_add(1, Ordering::Relaxed).max(1)
    }

    fn told(&self, begun: Instant, answers: &[Answer]) {
        if self.options.hook.is_none() {
            return;
        }
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        answers.iter().for_each(|answer| self.options.tell(What::Reserve, answer.verdict, ns));
    }

    /// Logs, once, that an ask is in another unit than its budget.
    fn log_units(&self, handle: &str, found: Option<Unit>, expected: Option<Unit>) {
        if !self.units_logged.swap(true, Ordering::Relaxed) {
            let text =
                |unit: Option<Unit>| unit.map_or("another".to_string(), |unit| unit.to_string());
            (self.options.log)(&format!(
                "an ask of {handle} is in the unit {}, the budget in {}; further ones are not logged",
                text(found),
                text(expected)
            ));
        }
    }

    fn desk(&self) -> Desk {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn put_back(&self, desk: Desk) {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if desks.len() < CALLS_KEPT {
            desks.push(desk);
        }
    }

    fn flags(&self) -> DecideFlags {
        if self.options.await_fill { DecideFlags::AWAIT_FILL } else { DecideFlags::NONE }
    }

    /// What the node of the connection says, now or before.
    fn find(&self, conn: &Conn, handle: &str, until: Instant) -> Found {
        if let Some(budget) = self.handles.get(conn.node, handle) {
            return Found::Budget(budget);
        }
        let found = conn.find(handle, until);
        if let Found::Budget(budget) = found {
            self.handles.put(conn.node, handle, budget);
        }
        found
    }

    /// Asks for a later end of a hold until a node answers, or the time is over.
    pub(crate) fn extend(
        &self,
        token: Token,
        confirm_ms: u32,
        issuer: Option<usize>,
        until: Instant,
    ) -> Extended {
        let (begun, mut foreign, mut attempts) = (Instant::now(), 0_u64, 0);
        let extended = loop {
            let mut said = Extended::no(Verdict::UNREACHABLE);
            if let Way::Conn(conn) = self.pool.way(issuer, foreign) {
                said =
                    conn.extend(token, confirm_ms, until.min(Instant::now() + self.options.answer));
                if said.verdict == Verdict::CUT_OFF {
                    self.pool.exile(conn.node);
                }
                if said.verdict == Verdict::FOREIGN && issuer != Some(conn.node) {
                    foreign |= 1 << conn.node;
                    if foreign.count_ones() as usize != self.options.nodes.len() {
                        continue;
                    }
                }
            }
            let lost = matches!(said.verdict, Verdict::UNREACHABLE | Verdict::TIMEOUT);
            let wait = backoff(attempts, begun.elapsed().subsec_nanos().into());
            if !(lost || said.verdict.is_passing()) || Instant::now() + wait >= until {
                break said;
            }
            attempts += 1;
            std::thread::sleep(wait);
        };
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.options.tell(What::Extend, extended.verdict, ns);
        extended
    }

    /// One ask.
    fn ask_one(
        &self,
        conn: &Conn,
        ask: &Ask,
        request_id: u64,
        until: Instant,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Error> {
        let entry = ask.to_wire(request_id);
        if ask.retry {
            return self.ask_again_and_again(conn, entry, until, answers);
        }
        let desk = self.desk();
        let round = desk.call.begin(answers, 1, false);
        let part = Part { call: Arc::clone(&desk.call), round, first: 0, count: 1 };
        let (flags, linger) = (self.flags(), self.options.linger);
        match linger.is_zero() {
            true => self.send(conn, &[entry], flags, &part, until),
            false => conn.gather(entry, part, flags, linger, until),
        }
        desk.call.wait(until);
        let ended = desk.call.end(answers);
        self.put_back(desk);
        ended
    }

    /// Repeats an ask on its connection, by the same name, until it is answered.
    fn ask_again_and_again(
        &self,
        conn: &Conn,
        entry: decide::Ask,
        until: Instant,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Error> {
        let call = Arc::new(Call::default());
        let round = call.begin(answers, 1, true);
        let part = Part { call: Arc::clone(&call), round, first: 0, count: 1 };
        let flags = self.flags().with(DecideFlags::REMEMBER);
        let pause = until.saturating_duration_since(Instant::now()) / 4;
        let pause = pause.max(Duration::from_millis(1));
        loop {
            self.send(conn, &[entry], flags, &part, until);
            let now = Instant::now();
            if call.wait((now + pause).min(until)) || now + pause >= until {
                return call.end(answers);
            }
        }
    }

    /// Sends one frame as soon as there is room for it.
    fn send(
        &self,
        conn: &Conn,
        asks: &[decide::Ask],
        flags: DecideFlags,
        part: &Part,
        until: Instant,
    ) {
        let mut pending = Some((asks, part.clone()));
        loop {
            match conn.send_asks(flags, || None, &mut pending) {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) => return part.refuse(Verdict::UNREACHABLE, None),
            }
            match conn.wait_for_room(until) {
                Ok(()) => {}
                // It times out.
                Err(NoPlace::Full) => return,
                Err(NoPlace::Lost) => return part.refuse(Verdict::UNREACHABLE, None),
            }
        }
    }

    fn ask_all(
        &self,
        asks: &[Ask],
        until: Instant,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Error> {
        answers.clear();
        if asks.is_empty() {
            return Ok(());
        }
        let conn = self.pool.pick(thread_number(), until);
        let Some(conn) = conn? else {
            answers.resize(asks.len(), Answer::refused(Verdict::UNREACHABLE));
            return Ok(());
        };
        if let Some(found) = longest_pod(asks).filter(|found| *found > conn.batch_max) {
            return Err(Error::TooLarge { found, max: conn.batch_max });
        }
        let mut desk = self.desk();
        desk.asks.clear();
        desk.asks.extend(asks.iter().map(|ask| ask.to_wire(self.name(ask))));
        let round = desk.call.begin(answers, asks.len(), false);
        self.send_all(&conn, &desk, round, until);
        desk.call.wait(until);
        let ended = desk.call.end(answers);
        for (answer, ask) in answers.iter_mut().zip(&desk.asks) {
            answer.request_id = ask.request_id();
        }
        self.put_back(desk);
        ended
    }

    /// Sends all frames of a call, as there is room for them.
    fn send_all(&self, conn: &Conn, desk: &Desk, round: u64, until: Instant) {
        let (mut at, mut pending) = (0, None);
        let mut next = || {
            let rest = desk.asks.get(at..).filter(|rest| !rest.is_empty())?;
            let (first, count) = (at, frame_len(rest, conn.batch_max));
            at += count;
            let part = Part { call: Arc::clone(&desk.call), round, first, count };
            Some((&rest[..count], part))
        };
        let lost = loop {
            match conn.send_asks(self.flags(), &mut next, &mut pending) {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) => break true,
            }
            match conn.wait_for_room(until) {
                Ok(()) => {}
                Err(NoPlace::Full) => break false,
                Err(NoPlace::Lost) => break true,
            }
        };
        let verdict = if lost { Verdict::UNREACHABLE } else { Verdict::TIMEOUT };
        while let Some((_, part)) = pending.take().or_else(&mut next) {
            part.refuse(verdict, None);
        }
    }
}

/// The asks of the longest pod.
fn longest_pod(asks: &[Ask]) -> Option<usize> {
    let pods = asks.chunk_by(|one, next| one.pod == next.pod).filter(|pod| pod[0].pod != 0);
    pods.map(<[Ask]>::len).max()
}

/// How many asks the next frame takes: no pod is divided.
fn frame_len(rest: &[decide::Ask], max: usize) -> usize {
    let Some(beyond) = rest.get(max) else { return rest.len() };
    let pod = beyond.pod();
    if pod == 0 {
        return max;
    }
    let inside = rest[..max].iter().rev().take_while(|ask| ask.pod() == pod).count();
    if inside == max { max } else { max - inside }
}

impl Ears for Inner {
    fn late(&self, conn: &Conn, tokens: &mut Vec<Token>) {
        for token in tokens.drain(..) {
            let issuer = Some(conn.node);
            let order = Order { token, action: Action::Release, amount: 0, request_id: 0, issuer };
            if let Err(error) = self.outbox.push(order, None, &self.options) {
                (self.options.log)(&format!("a late grant ends with its deadline: {error}"));
            }
        }
    }

    fn resolved(&self, conn: &Conn, id: u64, verdict: Verdict, repeat: bool) {
        self.outbox.resolved(id, verdict, repeat, conn.node, &self.options);
    }

    fn unanswered(&self, ids: &[u64]) {
        self.outbox.unanswered(ids);
    }

    fn shuns(&self, conn: &Conn) {
        self.pool.exile(conn.node);
    }

    fn lost(&self, conn: &Arc<Conn>, faulty: bool) {
        self.pool.remove(conn, faulty);
        // What waited for this node may go elsewhere.
        self.outbox.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_do_not_divide_pods() {
        let asks = |pods: &[u16]| -> Vec<decide::Ask> {
            let ask = |pod: &u16| decide::Ask::new(1, 1, 1, 0, [0; 4], *pod, 0);
            pods.iter().map(ask).collect()
        };
        for (pods, max, expected) in [
            (&[0, 0, 0][..], 5, 3),
            (&[0, 0, 0], 2, 2),
            (&[0, 1, 1, 1], 3, 1),
            (&[0, 1, 1, 1], 2, 1),
            (&[1, 1, 2, 2], 3, 2),
            (&[1, 1, 2, 2], 2, 2),
            (&[1, 1, 1], 2, 2),
        ] {
            assert_eq!(frame_len(&asks(pods), max), expected, "{pods:?}, {max}");
        }
        let ask = |pod| Ask { pod, ..Ask::text(1, "1", "count").unwrap() };
        assert_eq!(longest_pod(&[ask(0), ask(0), ask(0)]), None);
        assert_eq!(longest_pod(&[ask(1), ask(0), ask(1), ask(1), ask(2)]), Some(2));
    }
}
