//! What operators ask of the FIX door: over a queue to the worker that has the sessions, which it answers between two steps.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::{Act as DoorAct, Clock, NotDone, Route, SessionView};
pub use crate::{OrderView, Standing};
use door_transport::{ConnId, Waker};
use fix_session::Durability;
pub use gate_orders::{Leg, LegAmounts, Phase, Size};
use weir_budgets::prices::Prices;
use weir_config::config::Config;

use super::Sessions;
use super::adopting::FixSettings;
use super::kill::{KILLS_MAX, Kill, KillAsk, KillScope, KillView};
use super::latency::Latency;

/// How long the worker has to take what is asked; afterwards it is not done any more. Who acts has the audit to himself until then.
const TAKE_WAIT: Duration = Duration::from_secs(2);
/// How long the answer to what was taken is waited for. The worker may be waiting for a disk.
const WAIT: Duration = Duration::from_secs(2);
/// The same of another configuration: the stores of new sessions are opened.
const ADOPT_WAIT: Duration = Duration::from_secs(30);
/// The largest number that an operator may set: a peer that lacks messages asks for all of them, one by one.
pub const SEQUENCE_MAX: u64 = 999_999_999;
/// What a peer reads in the Logout of an operator; the reason stays in the audit.
const LOGGED_OUT: &str = "logged out by the operator";

/// How a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixSession {
    /// Its name.
    pub name: String,
    /// The gate connects to it.
    pub is_venue: bool,
    /// BeginString (8).
    pub begin_string: String,
    /// SenderCompID (49) of what the gate sends.
    pub sender_comp_id: String,
    /// TargetCompID (56) of what the gate sends.
    pub target_comp_id: String,
    /// Where it stands.
    pub state: Standing,
    /// MsgSeqNum (34) of the next message to send.
    pub next_out: u64,
    /// MsgSeqNum (34) that is expected.
    pub next_in: u64,
    /// Where the other end of its connection is.
    pub address: Option<SocketAddr>,
    /// When a message last came in this run, ms since 1970 UTC.
    pub last_in_ms: Option<u64>,
    /// When one last left in this run.
    pub last_out_ms: Option<u64>,
    /// Of a client: `echo`, or the name of its venue.
    pub route: Option<String>,
    /// What leaves is on the disk before.
    pub is_sealed: bool,
    /// Gaps in what came in this run.
    pub gaps: u64,
    /// Messages that came in this run.
    pub messages_in: u64,
    /// Messages that left in this run, also again.
    pub messages_out: u64,
    /// How long what came lately stayed in the gate: the median and the 99th percentile, microseconds; `None` before anything came.
    pub latency_p50_p99_us: Option<[u64; 2]>,
}

/// What an operator does to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixAct {
    /// Sets both numbers, 1 to [`SEQUENCE_MAX`].
    Sequence {
        /// MsgSeqNum of the next message to send.
        next_out: u64,
        /// MsgSeqNum that is expected.
        next_in: u64,
    },
    /// Both numbers begin again at 1.
    Reset,
    /// Asks the peer to send messages again.
    Resend {
        /// The first.
        from: u64,
        /// The last; 0 for all.
        to: u64,
    },
    /// Sends a Logout.
    LogOut,
}

impl FixAct {
    /// Reports whether the sequence numbers are others afterwards, whatever was sent.
    pub(super) fn sets_numbers(self) -> bool {
        matches!(self, FixAct::Sequence { .. } | FixAct::Reset)
    }
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixError {
    /// There is no such session.
    #[error("there is no FIX session {name:?}{}", list(known))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Numbers are changed between two connections only.
    #[error("the session has a connection: log it out first, and do it before its peer comes back")]
    LoggedOn,
    /// There is nobody to be asked or logged out.
    #[error("the session is not logged on")]
    NotLoggedOn,
    /// A number that cannot be.
    #[error("{field}: found {found}, expected {expected}")]
    Number {
        /// Which one.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: String,
    },
    /// The disk does not take it.
    #[error("{0}; is the disk full, read-only or failing?")]
    Store(String),
    /// The numbers are set, and the journal does not know it.
    #[error(
        "both numbers are set, on the disk; the journal cannot seal at the moment, and a restart before it can may set them back"
    )]
    NotInJournal,
    /// The journal does not know of a kill.
    #[error(
        "the orders are stopped from now on, but the journal cannot seal that at the moment: it is tried each second, and a restart before it succeeds ends the kill"
    )]
    KillNotSealed,
    /// The journal does not know of the end of a kill.
    #[error("nothing was done: the journal cannot seal at the moment, so the orders stay stopped")]
    StillKilled,
    /// There is no such kill.
    #[error("orders of the {0} {1:?} are not stopped")]
    NotKilled(&'static str, String),
    /// Who killed may not end it.
    #[error("{0} has stopped these orders: another token has to enable them")]
    OwnKill(String),
    /// No room for one more.
    #[error(
        "nothing was done: there are {KILLS_MAX} kills, which is the most; enable some, or kill a firm"
    )]
    TooManyKills,
    /// The worker has not taken it in time, and will not.
    #[error("the worker of the FIX door is busy, or waits for the disk: nothing was done")]
    NotTaken,
    /// The worker does not answer.
    #[error("the worker of the FIX door does not answer; it may be waiting for the disk")]
    Silent,
}

fn list(names: &[String]) -> String {
    match names.is_empty() {
        true => "; the FIX door is off".into(),
        false => format!("; there are: {}", names.join(", ")),
    }
}

impl From<NotDone> for FixError {
    fn from(error: NotDone) -> FixError {
        match error {
            NotDone::Connected => FixError::LoggedOn,
            NotDone::NotLoggedOn => FixError::NotLoggedOn,
            NotDone::From { from: found, last } => {
                let expected = format!("1 to {last}: what has come so far");
                FixError::Number { field: "from", found, expected }
            }
            NotDone::To { from, to: found } => {
                let expected = format!("0 (all there are), or {from} or more");
                FixError::Number { field: "to", found, expected }
            }
            NotDone::Store(error) => FixError::Store(error.to_string()),
        }
    }
}

/// Some orders, and where the next page of them begins.
pub type OrderPage = (Vec<OrderView>, Option<u64>);

/// What is asked of the worker.
#[derive(Debug)]
pub(super) enum Ask {
    Views(Sender<Vec<FixSession>>),
    Orders(u64, usize, Sender<OrderPage>),
    Act(String, FixAct, Sender<Result<(), FixError>>),
    Kills(Sender<Vec<KillView>>),
    Kill(Box<KillAsk>, Sender<Result<(), FixError>>),
    Adopt(Box<FixSettings>, Sender<Result<(), Vec<String>>>),
    /// What symbols cost; `None`: the file does not say it any more. What they did before comes back, for who asks to free.
    Prices(Option<Arc<Prices>>, Sender<Option<Arc<Prices>>>),
}

/// Something on its way to the worker, which either takes it or who asked takes it back: whoever sets the mark first.
#[derive(Debug)]
struct Asked {
    ask: Ask,
    taken: Arc<AtomicBool>,
}

/// The worker's end.
#[derive(Debug)]
pub(super) struct Asks {
    asked: Receiver<Asked>,
    /// Of the worker itself: not everything is answered in one turn.
    waker: Option<Waker>,
}

impl Asks {
    pub(super) fn of_worker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    pub(super) fn next(&self) -> Option<Ask> {
        let mut asked = self.asked.try_iter();
        asked.find(|asked| !asked.taken.swap(true, Ordering::AcqRel)).map(|asked| asked.ask)
    }

    /// Lets the worker look again.
    pub(super) fn wake(&self) {
        self.waker.iter().for_each(Waker::wake);
    }
}

/// The end of those who ask. A cheap handle.
#[derive(Clone, Debug)]
pub struct FixDesk {
    asks: Sender<Asked>,
    waker: Option<Waker>,
    /// What a connection has room for.
    input_bytes_max: usize,
}

pub(super) fn open(input_bytes_max: usize) -> (FixDesk, Asks) {
    let (asks, asked) = channel();
    (FixDesk { asks, waker: None, input_bytes_max }, Asks { asked, waker: None })
}

impl FixDesk {
    pub(super) fn of_worker(self, waker: Waker) -> FixDesk {
        FixDesk { waker: Some(waker), ..self }
    }

    /// Asks how all sessions stand: clients first, then venues, as in the configuration.
    ///
    /// # Errors
    /// [`FixError::NotTaken`], [`FixError::Silent`].
    pub fn sessions(&self) -> Result<Vec<FixSession>, FixError> {
        self.ask(WAIT, Ask::Views)
    }

    /// Asks for orders from a place on, at most so many; a page may have fewer.
    ///
    /// # Errors
    /// [`FixError::NotTaken`], [`FixError::Silent`].
    pub fn orders(&self, from: u64, max: usize) -> Result<OrderPage, FixError> {
        self.ask(WAIT, |reply| Ask::Orders(from, max, reply))
    }

    /// Does something to a session. Numbers that were changed are kept on disk once this has returned.
    ///
    /// # Errors
    /// [`FixError`]; nothing was done then, but for [`FixError::Silent`].
    pub fn act(&self, session: &str, act: FixAct) -> Result<(), FixError> {
        check(act)?;
        self.ask(WAIT, |reply| Ask::Act(session.to_owned(), act, reply))?
    }

    /// Asks which orders are stopped.
    ///
    /// # Errors
    /// [`FixError::NotTaken`], [`FixError::Silent`].
    pub fn kills(&self) -> Result<Vec<KillView>, FixError> {
        self.ask(WAIT, Ask::Kills)
    }

    /// Stops orders and cancels the open ones. They are stopped at once; the journal has it when this returns.
    ///
    /// # Errors
    /// [`FixError::KillNotSealed`], [`FixError::Silent`]: they may be stopped; else they are not.
    pub fn kill(&self, kill: Kill) -> Result<(), FixError> {
        self.ask(WAIT, |reply| Ask::Kill(Box::new(KillAsk::Kill(kill)), reply))?
    }

    /// Lets orders pass again; `who` is the name of the token, or nothing.
    ///
    /// # Errors
    /// [`FixError`]: they stay stopped, but maybe for [`FixError::Silent`].
    pub fn enable(&self, scope: KillScope, name: String, who: String) -> Result<(), FixError> {
        let ask = KillAsk::Enable(scope, name, who);
        self.ask(WAIT, |reply| Ask::Kill(Box::new(ask), reply))?
    }

    /// Reads what another configuration says of the sessions, for [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// Everything that is wrong, or that only a start can change.
    pub fn read_again(&self, before: &Config, after: &Config) -> Result<FixSettings, Vec<String>> {
        FixSettings::read(before, after, self.input_bytes_max)
    }

    /// Puts another configuration of the sessions in force.
    ///
    /// # Errors
    /// Why it is not; nothing has changed then, unless the worker did not answer.
    pub fn adopt(&self, settings: FixSettings) -> Result<(), Vec<String>> {
        let adopted = self.ask(ADOPT_WAIT, |reply| Ask::Adopt(Box::new(settings), reply));
        adopted.map_err(|error| match error {
            FixError::Silent => {
                vec![format!("fix: {error}; its sessions may still change: reload again")]
            }
            error => vec![format!("fix: {error}")],
        })?
    }

    /// Puts what symbols cost in force; without it, counts that the file could not be taken.
    ///
    /// # Errors
    /// [`FixError::NotTaken`], [`FixError::Silent`].
    pub fn set_prices(&self, prices: Option<Arc<Prices>>) -> Result<(), FixError> {
        self.ask(WAIT, |reply| Ask::Prices(prices, reply)).map(drop)
    }

    fn ask<T>(&self, wait: Duration, ask: impl FnOnce(Sender<T>) -> Ask) -> Result<T, FixError> {
        let ((reply, answer), taken) = (channel(), Arc::new(AtomicBool::new(false)));
        let asked = Asked { ask: ask(reply), taken: Arc::clone(&taken) };
        self.asks.send(asked).map_err(|_| FixError::NotTaken)?;
        if let Some(waker) = &self.waker {
            waker.wake();
        }
        match answer.recv_timeout(TAKE_WAIT) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => return Err(FixError::Silent),
            Err(RecvTimeoutError::Timeout) => {}
        }
        match taken.swap(true, Ordering::AcqRel) {
            false => Err(FixError::NotTaken),
            true => answer.recv_timeout(wait).map_err(|_| FixError::Silent),
        }
    }
}

/// Judges what can be judged without the session.
fn check(act: FixAct) -> Result<(), FixError> {
    let FixAct::Sequence { next_out, next_in } = act else { return Ok(()) };
    for (field, found) in [("next_out", next_out), ("next_in", next_in)] {
        if !(1..=SEQUENCE_MAX).contains(&found) {
            let expected = format!("1 to {SEQUENCE_MAX}");
            return Err(FixError::Number { field, found, expected });
        }
    }
    Ok(())
}

pub(super) fn act(
    sessions: &mut Sessions,
    name: &str,
    act: &FixAct,
    clock: Clock,
) -> Result<(), FixError> {
    let Some(at) = sessions.number(name) else {
        let known = sessions.views(clock).into_iter().map(|view| view.name).collect();
        return Err(FixError::Unknown { name: name.to_owned(), known });
    };
    match *act {
        FixAct::Sequence { next_out, next_in } => {
            sessions.check_apart(at)?;
            let told = |error: fix_session::StoreError| FixError::Store(error.to_string());
            let set = sessions.keep(at, clock, |stores| stores.set_numbers(at, next_out, next_in));
            set.map_err(told)
        }
        FixAct::Reset => Ok(sessions.act(at, &DoorAct::Reset, clock)?),
        FixAct::Resend { from, to } => {
            Ok(sessions.act(at, &DoorAct::Resend { from, to }, clock)?)
        }
        FixAct::LogOut => {
            let text = LOGGED_OUT.to_owned();
            Ok(sessions.act(at, &DoorAct::LogOut { text }, clock)?)
        }
    }
}

pub(super) fn views(
    sessions: &mut Sessions,
    (open, latencies): (&[(ConnId, Option<SocketAddr>)], &[Latency]),
    clock: Clock,
) -> Vec<FixSession> {
    let address = |line: Option<u64>| {
        let found = open.iter().find(|open| Some(open.0.to_bits()) == line);
        found.and_then(|open| open.1)
    };
    let views = sessions.views(clock).into_iter();
    let latency = |number: usize| latencies.get(number).and_then(Latency::p50_p99_us);
    views.map(|view| shown(address(view.line), latency(view.number), view)).collect()
}

fn shown(
    address: Option<SocketAddr>,
    latency_p50_p99_us: Option<[u64; 2]>,
    view: SessionView,
) -> FixSession {
    let ms = |time: Option<i64>| time.map(|ms| u64::try_from(ms).unwrap_or(0));
    FixSession {
        name: view.name,
        is_venue: view.is_venue,
        begin_string: view.begin_string,
        sender_comp_id: view.sender_comp_id,
        target_comp_id: view.target_comp_id,
        state: view.standing,
        next_out: view.next_out,
        next_in: view.next_in,
        address,
        last_in_ms: ms(view.traffic.last_in_unix_ms),
        last_out_ms: ms(view.traffic.last_out_unix_ms),
        route: view.route.map(|route| match route {
            Route::Echo => "echo".into(),
            Route::Venue(name) => name,
        }),
        is_sealed: view.durability == Durability::Sealed,
        gaps: view.traffic.gaps,
        messages_in: view.traffic.messages_in,
        messages_out: view.traffic.messages_out,
        latency_p50_p99_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_worker_takes_is_not_done_later() {
        let (desk, asks) = open(0);
        assert_eq!(desk.act("A", FixAct::Reset), Err(FixError::NotTaken));
        assert!(asks.next().is_none(), "it was taken back");
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| desk.act("B", FixAct::LogOut));
            let Ask::Act(name, FixAct::LogOut, reply) = await_ask(&asks) else {
                panic!("another ask")
            };
            reply.send(Err(FixError::NotLoggedOn)).unwrap();
            assert_eq!((name.as_str(), asking.join().unwrap()), ("B", Err(FixError::NotLoggedOn)));
            // One that was taken, and whose worker ends.
            let asking = scope.spawn(|| desk.sessions());
            drop(await_ask(&asks));
            assert_eq!(asking.join().unwrap(), Err(FixError::Silent));
        });
        drop(asks);
        assert_eq!(desk.sessions(), Err(FixError::NotTaken));
    }

    fn await_ask(asks: &Asks) -> Ask {
        loop {
            match asks.next() {
                Some(ask) => return ask,
                None => std::thread::yield_now(),
            }
        }
    }
}
