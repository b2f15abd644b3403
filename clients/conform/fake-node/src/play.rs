//! One play: what came, what was answered, and what follows from the rules.

use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::{FrameError, Message, Verdict};

use crate::frames;
use crate::judge::{self, Seen};
use crate::ledger::Ledger;
use crate::scenario::{Act, Answer, NodeScript, On, Scenario, What};

/// Frames that a client may have in flight on a connection.
const IN_FLIGHT_MAX: usize = 32;

/// What a connection's thread does after a message, in order.
#[derive(Debug)]
pub(crate) enum Output {
    /// Sends bytes, in pieces of so many where that is given.
    Send(Vec<u8>, Option<usize>),
    Wait(Duration),
    Close,
    Reset,
}

/// A connection, as all threads see it.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) number: usize,
    pub(crate) node: usize,
    pub(crate) stream: TcpStream,
    /// Held while something is sent.
    pub(crate) sending: Mutex<()>,
}

/// What is kept of a connection.
#[derive(Debug, Default)]
struct Talk {
    greeted: bool,
    in_flight: HashSet<u64>,
}

/// An answer that waits until the driver wants it sent.
#[derive(Debug)]
struct Kept {
    conn: Arc<Conn>,
    number: u64,
    bytes: Vec<u8>,
}

/// What changes while a play runs.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) seen: Vec<Seen>,
    pub(crate) ledger: Ledger,
    /// What the client did that no client may do.
    pub(crate) faults: Vec<String>,
    talks: HashMap<usize, Talk>,
    /// By node and rule: fitting messages so far.
    fitted: HashMap<(usize, usize), usize>,
    kept: HashMap<String, Vec<Kept>>,
    /// Connection and flag of the first ask with a request id to a budget.
    asked: HashMap<(u64, u64), (usize, bool)>,
    pub(crate) conns: Vec<Arc<Conn>>,
    pub(crate) next_conn: usize,
}

/// One play.
#[derive(Debug)]
pub(crate) struct Play {
    pub(crate) scenario: Scenario,
    pub(crate) scripts: Vec<NodeScript>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Play {
    pub(crate) fn new(scenario: Scenario) -> Play {
        let scripts = match scenario.nodes.is_empty() {
            true => vec![NodeScript::default()],
            false => scenario.nodes.clone(),
        };
        Play { scenario, scripts, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what came, and tells who waits for it.
    fn note(&self, state: &mut State, seen: Seen) {
        state.seen.push(seen);
        self.changed.notify_all();
    }

    /// Waits until something came at least so often; how often it came when it gave up.
    pub(crate) fn wait_for(&self, what: &What, count: usize, limit: Duration) -> Result<(), usize> {
        let end = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            let found = judge::count(&state.seen, what);
            if found >= count {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(found);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A connection was accepted.
    pub(crate) fn connected(&self, conn: &Arc<Conn>) -> Vec<Output> {
        let mut state = self.lock();
        state.talks.insert(conn.number, Talk::default());
        state.conns.push(Arc::clone(conn));
        self.note(&mut state, Seen::of("connection", conn));
        match self.acts(&mut state, conn.node, On::Connection, &Facts::default()) {
            Some(acts) => self.perform(&mut state, conn, &acts, 0, &mut |_, _, _| Vec::new()),
            None => Vec::new(),
        }
    }

    /// A connection ended.
    pub(crate) fn closed(&self, conn: &Conn) {
        let mut state = self.lock();
        state.conns.retain(|other| other.number != conn.number);
        self.note(&mut state, Seen::of("closed", conn));
    }

    /// The framing of a connection is broken.
    pub(crate) fn broken(&self, conn: &Conn, error: FrameError) {
        let fault = format!("connection {}: {error}", conn.number);
        self.lock().faults.push(fault);
    }

    /// A frame came.
    pub(crate) fn frame(&self, conn: &Arc<Conn>, frame: &[u8]) -> Vec<Output> {
        let mut state = self.lock();
        let message = match Message::decode(frame) {
            Ok(message) => message,
            Err(error) => {
                state.faults.push(format!("connection {}: {error}", conn.number));
                let number = wire::frame::frame_number_hint(frame);
                return vec![Output::Send(frames::refused(number, error.reason().as_raw()), None)];
            }
        };
        let greeted = state.talks.get(&conn.number).is_some_and(|talk| talk.greeted);
        if !greeted && !matches!(message, Message::Hello(_)) {
            let fault = format!("connection {}: its first message is no Hello", conn.number);
            state.faults.push(fault);
        }
        match message {
            Message::Hello(hello) => self.hello(&mut state, conn, &hello),
            Message::Decide(batch) => self.asks(&mut state, conn, &batch),
            Message::Resolve(batch) => {
                let entries = batch.resolves().iter().map(frames::Entry::from).collect();
                self.resolves(&mut state, conn, batch.frame(), entries)
            }
            Message::Extend(batch) => {
                if self.scripts[conn.node].version < 4 {
                    state
                        .faults
                        .push("Extend was sent to a node that is too old to know it".into());
                }
                let entries = batch.holds().iter().map(frames::Entry::from).collect();
                self.resolves(&mut state, conn, batch.frame(), entries)
            }
            Message::Find(find) => self.find(&mut state, conn, &find),
            Message::Ping(ping) => {
                self.note(&mut state, Seen::of("ping", conn));
                vec![Output::Send(frames::pong(ping.frame()), None)]
            }
            _ => {
                let fault =
                    format!("connection {}: not a message that a client sends", conn.number);
                state.faults.push(fault);
                Vec::new()
            }
        }
    }

    fn hello(&self, state: &mut State, conn: &Arc<Conn>, hello: &wire::Hello<'_>) -> Vec<Output> {
        let script = &self.scripts[conn.node];
        let auth = String::from_utf8_lossy(hello.auth()).into_owned();
        let good = auth == script.auth;
        self.note(state, Seen { auth: Some(auth), ..Seen::of("hello", conn) });
        if hello.version_min() == 0 || hello.version_min() > hello.version_max() {
            state.faults.push("Hello reads no version of the schema".to_string());
        }
        if let Some(talk) = state.talks.get_mut(&conn.number) {
            talk.greeted = true;
        }
        if let Some(acts) = self.acts(state, conn.node, On::Hello, &Facts::default()) {
            return self
                .perform(state, conn, &acts, 0, &mut |_, _, _| frames::welcome(script, conn.node));
        }
        if !good {
            let refusal = frames::refused(0, wire::Reason::Unauthorised.as_raw());
            return vec![Output::Send(refusal, None), Output::Close];
        }
        vec![Output::Send(frames::welcome(script, conn.node), None)]
    }

    fn asks(&self, state: &mut State, conn: &Arc<Conn>, batch: &wire::Decide<'_>) -> Vec<Output> {
        let remember = batch.flags().remember();
        let number = batch.frame();
        let asks: Vec<frames::Ask> = batch.asks().iter().map(frames::Ask::from).collect();
        self.opened(state, conn, number, asks.len());
        let frame =
            Seen { entries: Some(asks.len()), remember: Some(remember), ..Seen::of("asks", conn) };
        self.note(state, frame);
        for ask in &asks {
            self.check_ask(state, conn, ask, remember);
            let pod = Some(ask.pod != 0);
            let ask = Seen { pod, remember: Some(remember), ..Seen::of_ask(conn, ask) };
            self.note(state, ask);
        }
        let budgets = asks.iter().map(|ask| ask.budget).collect();
        let acts = self.acts(state, conn.node, On::Asks, &Facts { budgets, actions: Vec::new() });
        let acts = acts.unwrap_or_else(|| vec![Act::Answer(Answer::default())]);
        self.perform(state, conn, &acts, number, &mut |state, answer, number| {
            let answers = decide(&mut state.ledger, conn.node, &asks, remember, answer);
            frames::decided(number, &answers[..answers.len().saturating_sub(answer.short)])
        })
    }

    fn resolves(
        &self,
        state: &mut State,
        conn: &Arc<Conn>,
        number: u64,
        entries: Vec<frames::Entry>,
    ) -> Vec<Output> {
        self.opened(state, conn, number, entries.len());
        self.note(state, Seen { entries: Some(entries.len()), ..Seen::of("resolves", conn) });
        for entry in &entries {
            self.note(state, Seen::of_entry(conn, entry));
        }
        let actions = entries.iter().map(|entry| entry.name()).collect();
        let acts =
            self.acts(state, conn.node, On::Resolves, &Facts { budgets: Vec::new(), actions });
        let acts = acts.unwrap_or_else(|| vec![Act::Answer(Answer::default())]);
        let own = self.scripts[conn.node].knows_own_tokens_only.then_some(conn.node);
        self.perform(state, conn, &acts, number, &mut |state, answer, number| {
            let answers = resolve(&mut state.ledger, own, &entries, answer);
            let answers = &answers[..answers.len().saturating_sub(answer.short)];
            match entries.first().is_some_and(|entry| entry.action == frames::EXTEND) {
                true => frames::extended(number, &entries, answers),
                false => frames::resolved(number, answers),
            }
        })
    }

    fn find(&self, state: &mut State, conn: &Arc<Conn>, find: &wire::Find<'_>) -> Vec<Output> {
        let handle = find.handle().unwrap_or("").to_string();
        let script = &self.scripts[conn.node];
        self.opened(state, conn, find.frame(), 1);
        if script.version < 3 {
            state.faults.push("Find was sent to a node that is too old to know it".to_string());
        }
        self.note(state, Seen { handle: Some(handle.clone()), ..Seen::of("find", conn) });
        let known = script.handles.get(&handle).copied();
        let acts = self.acts(state, conn.node, On::Find, &Facts::default());
        let acts = acts.unwrap_or_else(|| vec![Act::Answer(Answer::default())]);
        self.perform(state, conn, &acts, find.frame(), &mut |_, answer, number| {
            let said = answer.verdicts.first().and_then(|code| code.verdict().ok());
            let (verdict, budget) = match (said, answer.budget.or(known)) {
                (None | Some(0), Some(budget)) => (Verdict::Granted.as_raw(), budget),
                (said, _) => (said.unwrap_or(Verdict::UnknownBudget.as_raw()), 0),
            };
            frames::found(number, verdict, budget)
        })
    }

    /// A numbered frame came: the rules for all frames.
    fn opened(&self, state: &mut State, conn: &Conn, number: u64, entries: usize) {
        let batch_max = usize::from(self.scripts[conn.node].batch_max);
        let Some(talk) = state.talks.get_mut(&conn.number) else { return };
        let fresh = talk.in_flight.insert(number);
        let in_flight = talk.in_flight.len();
        let mut fault =
            |what: String| state.faults.push(format!("connection {}: {what}", conn.number));
        if number == 0 {
            fault("a frame has the number 0".to_string());
        }
        if !fresh {
            fault(format!("the frame number {number} is in flight already"));
        }
        if in_flight > IN_FLIGHT_MAX {
            fault(format!("{in_flight} frames are in flight, at most {IN_FLIGHT_MAX} may be"));
        }
        if entries == 0 || entries > batch_max {
            fault(format!("a frame has {entries} entries, expected 1 to {batch_max}"));
        }
    }

    /// The rules for all asks.
    fn check_ask(&self, state: &mut State, conn: &Conn, ask: &frames::Ask, remember: bool) {
        if ask.reserved != 0 {
            state.faults.push(format!("`reserved` of an ask is {}, expected 0", ask.reserved));
        }
        match state.asked.get(&(ask.request_id, ask.budget)) {
            Some((first, remembered)) if *first != conn.number || !remember || !remembered => {
                let id = ask.request_id;
                state.faults.push(format!(
                    "request {id} was asked again: only on the same connection and with `remember` may that be"
                ));
            }
            Some(_) => {}
            None => {
                state.asked.insert((ask.request_id, ask.budget), (conn.number, remember));
            }
        }
    }

    /// What the first rule that fits says.
    fn acts(&self, state: &mut State, node: usize, on: On, facts: &Facts) -> Option<Vec<Act>> {
        for (at, rule) in self.scripts[node].rules.iter().enumerate() {
            let fits = rule.on == on
                && rule.budget.is_none_or(|budget| facts.budgets.contains(&budget))
                && rule
                    .action
                    .as_ref()
                    .is_none_or(|action| facts.actions.contains(&action.as_str()));
            if !fits {
                continue;
            }
            let fitted = state.fitted.entry((node, at)).or_default();
            *fitted += 1;
            if *fitted > rule.skip && *fitted - rule.skip <= rule.times {
                return Some(rule.acts.clone());
            }
        }
        None
    }

    /// Turns acts into what is to be sent. `make` books what an answer says, and writes its frame.
    fn perform(
        &self,
        state: &mut State,
        conn: &Arc<Conn>,
        acts: &[Act],
        number: u64,
        make: &mut dyn FnMut(&mut State, &Answer, u64) -> Vec<u8>,
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        let answered = |state: &mut State| {
            if let Some(talk) = state.talks.get_mut(&conn.number) {
                talk.in_flight.remove(&number);
            }
        };
        for act in acts {
            match act {
                Act::Answer(answer) => {
                    let bytes = make(state, answer, number ^ answer.frame_xor);
                    answered(state);
                    frames::deliver(bytes, answer, &mut outputs);
                }
                Act::Keep(label) => {
                    let bytes = make(state, &Answer::default(), number);
                    let kept = state.kept.entry(label.clone()).or_default();
                    kept.push(Kept { conn: Arc::clone(conn), number, bytes });
                }
                Act::Book => drop(make(state, &Answer::default(), number)),
                Act::Refuse(code) => {
                    answered(state);
                    let reason = code.reason().unwrap_or(u8::MAX);
                    outputs.push(Output::Send(frames::refused(number, reason), None));
                }
                Act::Bytes(digits) => outputs.push(Output::Send(frames::from_hex(digits), None)),
                Act::DelayMs(ms) => outputs.push(Output::Wait(Duration::from_millis(*ms))),
                Act::Close => outputs.push(Output::Close),
                Act::Reset => outputs.push(Output::Reset),
                Act::Ignore => {}
            }
        }
        outputs
    }

    /// Takes what was kept under a label.
    pub(crate) fn take_kept(&self, label: &str) -> Vec<(Arc<Conn>, Vec<u8>)> {
        let mut state = self.lock();
        let kept = state.kept.remove(label).unwrap_or_default();
        let mut answers = Vec::new();
        for Kept { conn, number, bytes } in kept {
            if let Some(talk) = state.talks.get_mut(&conn.number) {
                talk.in_flight.remove(&number);
            }
            answers.push((conn, bytes));
        }
        answers
    }
}

/// What rules look at.
#[derive(Debug, Default)]
struct Facts {
    budgets: Vec<u64>,
    actions: Vec<&'static str>,
}

/// The answers to asks, booked.
fn decide(
    ledger: &mut Ledger,
    node: usize,
    asks: &[frames::Ask],
    remember: bool,
    answer: &Answer,
) -> Vec<(u8, [u8; 32])> {
    let verdict_of = |at: usize| {
        let code = answer.verdicts.get(at).or(answer.verdicts.last());
        code.and_then(|code| code.verdict().ok()).unwrap_or(Verdict::Granted.as_raw())
    };
    let granted = Verdict::Granted.as_raw();
    // No budget has these numbers, so no node grants what names them.
    let is_nobody = |ask: &frames::Ask| [0, u64::MAX].contains(&ask.budget);
    let verdicts = asks.iter().enumerate().map(|(at, ask)| match verdict_of(at) {
        verdict if verdict == granted && is_nobody(ask) => Verdict::UnknownBudget.as_raw(),
        verdict => verdict,
    });
    let verdicts: Vec<u8> = verdicts.collect();
    let refused_pod = |pod: u16| {
        pod != 0
            && asks
                .iter()
                .zip(&verdicts)
                .any(|(ask, verdict)| ask.pod == pod && *verdict != granted)
    };
    let mut answers = Vec::with_capacity(asks.len());
    for (ask, verdict) in asks.iter().zip(&verdicts) {
        if let Some(first) = ledger.remembered(ask.request_id).filter(|_| remember) {
            answers.push(first);
            continue;
        }
        let (verdict, token) = match *verdict {
            0 if refused_pod(ask.pod) => (Verdict::PodRefused.as_raw(), [0; 32]),
            0 => (granted, ledger.grant(node, ask.amount)),
            other => (other, [0; 32]),
        };
        if remember {
            ledger.remember(ask.request_id, verdict, token);
        }
        answers.push((verdict, token));
    }
    answers
}

/// The answers to resolves, booked.
fn resolve(
    ledger: &mut Ledger,
    own: Option<usize>,
    entries: &[frames::Entry],
    answer: &Answer,
) -> Vec<(u8, bool)> {
    let mut answers = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let code = answer.verdicts.get(at).or(answer.verdicts.last());
        let said = code.and_then(|code| code.verdict().ok());
        answers.push(match said {
            Some(verdict) if !(32..40).contains(&verdict) => (verdict, false),
            _ => {
                let (verdict, repeat) =
                    ledger.resolve(&entry.token, entry.action, entry.amount, own);
                (said.unwrap_or(verdict.as_raw()), repeat)
            }
        });
    }
    answers
}
