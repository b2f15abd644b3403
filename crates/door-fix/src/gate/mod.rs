//! The FIX door of the worker that has it: connections to [`crate::Door`], whose stores are files of the data folder.
//!
//! What the steps of a wake-up did is flushed once, before any of their bytes leave, on this thread: what other doors of the worker have to
//! do waits for it.

pub mod adopting;
pub mod caps;
pub mod checkpoints;
mod comparing;
pub mod counts;
mod credentials;
pub mod desk;
pub mod entries;
pub mod kill;
mod latency;
pub mod limits;
mod passwords;
pub mod prices;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Clock, Line, Ready, Step as FixStep};
use door_transport::tls::Secured;
use door_transport::{CloseReason, ConnId, Dial, DialId, Out, Peer, Step, Then, Waker};
use fix_session::{Durability, MessageStores, Notice, SessionState};
use fix_store::{FileStores, NumbersFile, OpenError, Options};
use ledger::{MemoJudge, NamedRefusal};
use weir_config::config::{Config, ConfigError};
use weir_config::doors::fix_connections;

use checkpoints::{Checkpoints, Known};
use counts::{FixCounts, RefusalLog};
use desk::{Ask, Asks, FixDesk};
use kill::KillList;
use latency::Latency;
use passwords::Passwords;
use weir_door::{
    Door, DoorOutbox, FailedDial, Heard, NamedDoor, OnDoors, WorkerCounters,
    thread::on_thread_off_workers,
};
use weir_till::{Reply, Till};

/// How often old messages are looked for, in ticks of the door.
const TRIM_TICKS: u32 = 60;
const DOOR_TICK_MS: u64 = 1_000;
/// A connection looks at its timers at least this often: heartbeats are counted in seconds.
const TICK_MS_MAX: u64 = 250;
/// How many questions of operators are answered in a turn.
const ASKS_MAX: usize = 16;
/// A part of what is sent again, at most: the transport asks for the next one when half of `output_bytes_max` is left.
const RESENT_PART_BYTES: usize = 64 << 10;
/// What a client reads in the Logout of a node that stops.
const STOPPING: &str = "the gate is stopping";

type Sessions = crate::Door<FileStores<NumbersFile>, Passwords>;

/// What the door is set to: its sessions with their stores, and how venues are reached, until the worker that has the door takes them.
pub struct FixTerms {
    taken: Mutex<Option<Taken>>,
    desk: Option<FixDesk>,
}

/// What the worker that has the door takes.
struct Taken {
    sessions: Sessions,
    dials: Vec<Dial>,
    asks: Asks,
    known: Known,
    /// Sessions whose files were older than the journal.
    behind: usize,
}

impl std::fmt::Debug for FixTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FixTerms")
    }
}

impl FixTerms {
    /// Opens the stores of all sessions of a configuration, in the folder `fix` of the data folder. `known` is what the journal knows of them;
    /// `rest` are the cores that workers leave.
    ///
    /// # Errors
    /// Sessions that cannot be, or a store that cannot be opened.
    pub fn new(
        config: &Config,
        is_on: bool,
        now_ms: u64,
        (known, rest): (Known, &[usize]),
    ) -> Result<FixTerms, String> {
        if !is_on {
            return Ok(FixTerms { taken: Mutex::new(None), desk: None });
        }
        let dials = entries::dials(config).map_err(|errors| lines(&errors))?;
        let (sessions, behind) = open(config, now_ms, (&known, rest))?;
        let (desk, asks) = desk::open(fix_connections(config).input_bytes_max);
        let taken = Mutex::new(Some(Taken { sessions, dials, asks, known, behind }));
        Ok(FixTerms { taken, desk: Some(desk) })
    }

    /// Where the sessions are asked about and acted upon, once their worker is known; `None` where the door is off.
    pub fn desk(&self, waker: Waker) -> Option<FixDesk> {
        if let Some(taken) = &mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner) {
            taken.sessions.guard().wake(waker.clone());
            taken.asks.of_worker(waker.clone());
        }
        self.desk.clone().map(|desk| desk.of_worker(waker))
    }
}

fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The sessions, and how many of them had files that are older than the journal.
fn open(
    config: &Config,
    now_ms: u64,
    (known, rest): (&Known, &[usize]),
) -> Result<(Sessions, usize), String> {
    let sessions = entries::sessions(config).map_err(|errors| lines(&errors))?;
    let folder: PathBuf = config.node.data_dir.join("fix");
    let options = Options {
        keep_days: u32::try_from(config.fix.messages_keep_days).unwrap_or(u32::MAX),
        bytes_max: config.fix.messages_bytes_max,
        ..Options::default()
    };
    let told = |error: fix_store::OpenError| format!("fix: {error}");
    // The thread that makes the next file of numbers would take a worker's core for some milliseconds.
    let opened = on_thread_off_workers(rest, || FileStores::open(&folder, options));
    let mut stores = opened.map_err(told)?;
    let unix_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    stores.set_time(unix_ms.saturating_mul(1_000));
    let mut behind = Vec::new();
    for session in sessions.stores() {
        let (at, is_behind) = add(&mut stores, session, unix_ms, known).map_err(told)?;
        behind.extend(is_behind.then_some(at));
    }
    let files = entries::passwords(config).map_err(|errors| lines(&errors))?;
    let passwords = Passwords::new(files).map_err(|error| error.to_string())?;
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| format!("fix: the system gives no randomness: {error}"))?;
    let secret = table::Secret::new(u128::from_le_bytes(random));
    let mut door = crate::Door::new(sessions, stores, passwords, secret)
        .map_err(|error| format!("fix.session: {error}"))?;
    prices::begin(&mut door, config);
    door.doubt(&behind).map_err(|error| format!("fix: {error}"))?;
    Ok((door, behind.len()))
}

/// Adds a session to the stores, behind what the journal knows of it; its number, and whether its files were older.
fn add(
    stores: &mut FileStores<NumbersFile>,
    (name, durability): (&str, Durability),
    unix_ms: i64,
    known: &Known,
) -> Result<(usize, bool), OpenError> {
    let Some(known) = known.get(name) else {
        return Ok((stores.add(name, durability, unix_ms)?, false));
    };
    let (at, missing) = stores.add_behind(name, durability, known, unix_ms)?;
    if let Some(missing) = missing {
        tracing::error!(
            session = name,
            missing,
            next_out = known.memo.next_out,
            "FIX: the files of a session are older than the journal: it goes on behind the messages that are missing, and its peer gets a gap fill"
        );
    }
    Ok((at, missing.is_some()))
}

/// The door of one worker; empty on those that do not have it.
pub struct FixDoor {
    counters: Arc<FixCounts>,
    sessions: Option<Sessions>,
    /// What operators want.
    asks: Option<Asks>,
    checkpoints: Checkpoints,
    kills: KillList,
    /// All is told to the journal that is to be told in this second.
    are_told: bool,
    /// The node stops: when all connections have ended, the journal is told a last time.
    last: Last,
    venues: Vec<Venue>,
    /// Some venue is to be hung up or dialled otherwise.
    are_venues_changing: bool,
    /// Sessions that have logged on since the last turn.
    logged_on: Vec<usize>,
    /// By the numbers of the sessions.
    latencies: Vec<Latency>,
    /// When steps began whose bytes leave with the turn, in ticks of the processor, and of which sessions they were.
    begun: Vec<(usize, u64)>,
    /// Open connections, and where their other ends are.
    open: Vec<(ConnId, Option<SocketAddr>)>,
    /// Bytes for connections other than those that a step was about.
    ready: Vec<Ready>,
    /// Connections whose peers leave too much unread.
    slow: Vec<(ConnId, Unread)>,
    /// How often the worker woke.
    wakes: u64,
    /// Work space: the bytes of one step.
    bytes: Vec<u8>,
    ticks: u32,
    refusals: RefusalLog,
    /// The door's place among the worker's doors.
    place: u8,
    /// Connections that are read on when fewer of their messages wait for the ledger, or a configuration is in force.
    stopped: Vec<ConnId>,
}

/// A session whose connection we open.
struct Venue {
    session: usize,
    dial: Dial,
    /// Once it is dialled; the transport then opens it again whenever it ends.
    id: Option<DialId>,
    /// How it is reached from its next connection on, if otherwise.
    next: Option<Dial>,
    /// It is not configured any more.
    is_over: bool,
}

impl Venue {
    fn new(session: usize, dial: Dial) -> Venue {
        Venue { session, dial, id: None, next: None, is_over: false }
    }

    /// Reports whether there is something to be done once it has no connection. One that is not dialled yet is at the next tick.
    fn is_changing(&self) -> bool {
        self.next.is_some() || (self.is_over && self.id.is_some())
    }
}

/// Whether the journal was told how far the sessions came when the node stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    NotYet,
    Due,
    Told,
}

/// What is kept per connection.
#[derive(Default)]
pub struct FixConn {
    peer: crate::Peer,
    /// `None` before its first step, and of one too many.
    line: Option<Line>,
    added: Added,
    /// It was sent messages again, or more at once than may wait, and has not taken them yet.
    catches_up: bool,
}

/// What was written for a connection in one wake-up, and the kernel has not been offered.
#[derive(Default)]
struct Added {
    wake: u64,
    bytes: usize,
}

impl Added {
    fn in_wake(&self, wake: u64) -> usize {
        if self.wake == wake { self.bytes } else { 0 }
    }

    fn note(&mut self, wake: u64, bytes: usize) {
        *self = Added { wake, bytes: self.in_wake(wake) + bytes };
    }
}

fn clock(till: &Till) -> Clock {
    let unix_us = i64::try_from(till.clock.last_us()).unwrap_or(i64::MAX);
    Clock { ms: till.clock.steady_ms(), unix_us }
}

impl FixDoor {
    /// Makes the door of a worker: the sessions are there for the one that has it.
    pub fn new(on: OnDoors, number: u8, terms: &FixTerms, counters: &WorkerCounters) -> FixDoor {
        let counters: Arc<FixCounts> = counters.own();
        let taken = || terms.taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (mut sessions, mut asks, mut venues) = (None, None, Vec::new());
        let mut known = Known::default();
        if let Some(taken) = on.has(number.into()).then(taken).flatten() {
            counters.lost.add(taken.behind);
            counters.doubtful.add(comparing::take_doubtful());
            known = taken.known;
            let numbered = taken.sessions.venues().zip(taken.dials);
            venues.extend(numbered.map(|(session, dial)| Venue::new(session, dial)));
            let mut taken_sessions = taken.sessions;
            taken_sessions.set_boot(comparing::boot());
            taken_sessions.leave_unsaid(comparing::take_unsaid());
            (sessions, asks) = (Some(taken_sessions), Some(taken.asks));
        }
        let kills = KillList::new(std::mem::take(&mut known.kills), sessions.as_mut());
        FixDoor {
            counters,
            kills,
            checkpoints: Checkpoints::new(number, known),
            are_told: true,
            last: Last::NotYet,
            venues,
            are_venues_changing: false,
            logged_on: Vec::new(),
            latencies: Vec::new(),
            begun: Vec::new(),
            sessions,
            asks,
            open: Vec::new(),
            ready: Vec::new(),
            slow: Vec::new(),
            wakes: 0,
            bytes: Vec::new(),
            ticks: 0,
            refusals: RefusalLog::default(),
            place: number,
            stopped: Vec::new(),
        }
    }

    /// Does one step of a connection and sends what it has for its peer. `None`: the connection is one too many.
    fn step(
        &mut self,
        till: &Till,
        (id, conn): (ConnId, &mut FixConn),
        out: &mut Out<'_>,
        step: impl FnOnce(&mut Sessions, &mut Line, Clock, &mut Vec<u8>) -> FixStep,
    ) -> Option<FixStep> {
        let (sessions, clock) = (self.sessions.as_mut()?, clock(till));
        sessions.stores().set_time(clock.unix_us);
        if conn.line.is_none() {
            conn.line = sessions.opened(id.to_bits(), conn.peer.clone(), clock);
        }
        let before = out.len();
        // What earlier steps had for it has lower numbers, and goes first.
        let is_over = write_ready(&mut self.ready, id, out);
        let done = conn.line.as_mut().map(|line| {
            self.bytes.clear();
            let mut done = step(sessions, line, clock, &mut self.bytes);
            out.write(&self.bytes);
            if sessions.is_resending(line) {
                out.ask_for_more();
            }
            done.close |= is_over;
            done
        });
        let added = out.len().saturating_sub(before);
        conn.added.note(self.wakes, added);
        conn.catches_up |= conn.line.as_ref().is_some_and(|line| {
            sessions.is_resending(line) || added > sessions.unsent_bytes_max(line)
        });
        self.take_rest();
        done
    }

    /// Flushes what the steps of this wake-up left. What they have for connections is ready then.
    fn flush(&mut self, till: &Till) {
        let Some(sessions) = &mut self.sessions else { return };
        sessions.flush(clock(till));
        let ended = probe::ticks();
        for (session, begun) in self.begun.drain(..) {
            if self.latencies.len() <= session {
                self.latencies.resize_with(session + 1, Latency::default);
            }
            self.latencies[session].note(ended.saturating_sub(begun));
        }
        self.take_rest();
    }

    /// Says to the ledger what steps have for it. What it cannot seal is answered at once.
    fn say(&mut self, till: &mut Till) {
        let (Some(sessions), clock) = (&mut self.sessions, clock(till)) else { return };
        let mut is_refused = false;
        for (number, says) in sessions.take_says() {
            let refused = vec![Err(NamedRefusal::Journal); says.len()];
            if till.named(Reply::numbered(self.place, number), says).is_err() {
                sessions.answered(number, &refused, clock);
                is_refused = true;
            }
        }
        if is_refused {
            self.flush(till);
        }
    }

    /// Reports whether orders are to be held against budgets and nobody knows yet which there are.
    fn is_early(&self, till: &Till) -> bool {
        let holds = || self.sessions.as_ref().is_some_and(Sessions::holds_orders);
        !till.snapshot.is_in_force() && holds()
    }

    /// Reads on where it may go on.
    fn read_on<S>(&mut self, till: &Till, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        if self.stopped.is_empty() {
            return;
        }
        let Some(sessions) = self.sessions.as_ref().filter(|_| !self.is_early(till)) else {
            return;
        };
        self.stopped.retain(|id| {
            let line =
                |conn: &mut FixConn| conn.line.as_ref().is_some_and(|line| sessions.is_full(line));
            let is_full = outbox.with(*id, |conn, _| line(conn)) == Some(true);
            if !is_full {
                outbox.all().resume(*id);
            }
            is_full
        });
    }

    /// Takes a step of a connection whose input it is not to read on.
    fn stop(&mut self, id: ConnId, consumed: usize) -> Step {
        self.stopped.push(id);
        Step::Pause { consumed }
    }

    /// Takes what a step left for other connections, and tells what happened.
    fn take_rest(&mut self) {
        let Some(sessions) = &mut self.sessions else { return };
        sessions.take_ready_into(&mut self.ready);
        for happening in sessions.take_happenings() {
            if let crate::Happening::Notice(session, Notice::LoggedOn { .. }) = happening {
                self.logged_on.push(session);
            }
            let session = of(&happening).and_then(|session| sessions.name(session));
            let session = session.unwrap_or("");
            self.counters.tell(session, &happening);
            if let crate::Happening::Refused(_, why, caller) = &happening {
                self.refusals.tell(session, *why, caller, std::time::Instant::now());
            }
        }
    }

    /// Reads on where a password was checked.
    fn judged<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        let Some(sessions) = &mut self.sessions else { return };
        for (line, admitted) in sessions.guard().judged() {
            let id = ConnId::from_bits(line);
            let told = outbox.with(id, |conn, _| {
                if let Some(line) = &mut conn.line {
                    line.judged(admitted);
                }
            });
            if told.is_some() {
                outbox.all().resume(id);
            }
        }
    }

    /// Answers what operators ask.
    fn answer(&mut self, till: &mut Till) {
        let clock = clock(till);
        for _ in 0..ASKS_MAX {
            let Some(ask) = self.asks.as_ref().and_then(Asks::next) else { return };
            let Some(sessions) = &mut self.sessions else { return };
            sessions.stores().set_time(clock.unix_us);
            // Numbers that are set count at once.
            self.are_told &=
                matches!(ask, Ask::Views(_) | Ask::Orders(..) | Ask::Prices(..) | Ask::Kills(_));
            match ask {
                // Who asked may have gone.
                Ask::Views(reply) => {
                    let views = desk::views(sessions, (&self.open, &self.latencies), clock);
                    drop(reply.send(views));
                }
                Ask::Orders(from, max, reply) => drop(reply.send(sessions.orders(from, max))),
                Ask::Act(name, act, reply) => {
                    let done = desk::act(sessions, &name, &act, clock);
                    match (sessions.number(&name), &done) {
                        (Some(at), Ok(())) if act.sets_numbers() => {
                            self.checkpoints.wait(at, reply)
                        }
                        _ => drop(reply.send(done)),
                    }
                }
                Ask::Prices(Some(prices), reply) => {
                    drop(reply.send(Some(sessions.set_prices(prices))));
                }
                Ask::Prices(None, reply) => {
                    self.counters.price_failures.add(1);
                    drop(reply.send(None));
                }
                Ask::Kills(reply) => drop(reply.send(self.kills.views(sessions))),
                Ask::Kill(ask, reply) => self.take_kill(*ask, reply, till),
                Ask::Adopt(settings, reply) => drop(reply.send(self.adopt(*settings, clock))),
            }
            self.take_rest();
        }
        if let Some(asks) = &self.asks {
            asks.wake();
        }
    }

    /// Tells the journal how far the sessions are, where it is time.
    fn tell_checkpoints(&mut self, till: &mut Till) {
        if self.last == Last::Due && self.open.is_empty() {
            (self.last, self.are_told) = (Last::Told, false);
        }
        if let Some(sessions) = self.sessions.as_mut().filter(|_| !self.are_told) {
            self.are_told = true;
            self.checkpoints.tell(till, sessions);
        }
    }

    /// Venues are dialled while their schedules have them open, and hung up once they have not and are logged out.
    fn dial<S>(&mut self, clock: Clock, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        let Some(sessions) = &self.sessions else { return };
        for venue in self.venues.iter_mut().filter(|venue| !venue.is_over) {
            let is_open = sessions.is_in_schedule(venue.session, clock);
            let state = sessions.session(venue.session).map(fix_session::Session::state);
            match venue.id {
                None if is_open => venue.id = outbox.all().dial(venue.dial.clone()),
                Some(id) if !is_open && state == Some(SessionState::Disconnected) => {
                    outbox.all().hang_up(id);
                    venue.id = None;
                }
                _ => {}
            }
        }
    }

    /// Old messages go, and files that somebody removed are missed.
    fn tidy(&mut self) {
        let Some(sessions) = &mut self.sessions else { return };
        self.ticks += 1;
        if self.ticks.is_multiple_of(TRIM_TICKS) {
            sessions.stores().trim();
        }
        if let Err(error) = sessions.stores().look() {
            self.counters.tell_removed(&error);
        }
    }

    /// The connections of venues that have let us in are good.
    fn confirm<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        for session in self.logged_on.drain(..) {
            let venue = self.venues.iter().find(|venue| venue.session == session);
            if let Some(id) = venue.and_then(|venue| venue.id) {
                outbox.all().confirm(id);
            }
        }
    }

    fn tell_failed(&self, dial: DialId, failed: FailedDial) {
        let Some(venue) = self.venues.iter().find(|venue| venue.id == Some(dial)) else { return };
        let name = self.sessions.as_ref().and_then(|sessions| sessions.name(venue.session));
        let FailedDial { address, why, retry_ms } = failed;
        tracing::warn!(venue = name, %address, %why, retry_ms, "FIX: a venue cannot be reached");
    }

    /// Ends the connections of those that do not read.
    fn cut<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        for (id, Unread { session, bytes }) in self.slow.drain(..) {
            if outbox.all().cut(id) {
                let name = self.sessions.as_ref().and_then(|sessions| sessions.name(session));
                self.counters.tell_unread(name.unwrap_or(""), bytes);
            }
        }
    }

    /// Says to every session that the node stops. What has no session ends.
    fn log_out<S>(&mut self, till: &Till, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        for (id, _) in self.open.clone() {
            let done = outbox.with(id, |conn, out| {
                self.step(till, (id, conn), out, |sessions, line, clock, bytes| {
                    sessions.log_out(line, STOPPING, clock, bytes)
                })
            });
            if done.flatten().is_none_or(|step| step.close) {
                outbox.all().close(id);
            }
        }
    }
}

/// What waits for the peer of a session, where it is more than may wait.
struct Unread {
    session: usize,
    bytes: usize,
}

/// What waits for a peer that leaves too much unread: of what the kernel was offered. What is sent again comes in parts as the peer takes them,
/// and is no reason to end it, however small its limit is.
fn unread_by(sessions: &Sessions, wake: u64, conn: &mut FixConn, out: &Out<'_>) -> Option<Unread> {
    let line = conn.line.as_ref()?;
    let session = sessions.session_of(line)?;
    let bytes = out.len().saturating_sub(conn.added.in_wake(wake));
    let max = sessions.unsent_bytes_max(line);
    conn.catches_up = sessions.is_resending(line) || (conn.catches_up && out.len() > max);
    let max = if conn.catches_up { max.max(out.bytes_max() + RESENT_PART_BYTES) } else { max };
    (bytes > max).then_some(Unread { session, bytes })
}

/// Writes what is ready for a connection. Reports whether the connection is to be closed.
fn write_ready(ready: &mut Vec<Ready>, id: ConnId, out: &mut Out<'_>) -> bool {
    let mut is_over = false;
    ready.retain(|one| {
        let is_its_own = one.line == id.to_bits();
        if is_its_own {
            out.write(&one.bytes);
            is_over |= one.close;
        }
        !is_its_own
    });
    is_over
}

fn address_of(peer: Peer) -> Option<SocketAddr> {
    match peer {
        Peer::Tcp(address) => Some(address),
        Peer::Local => None,
    }
}

/// The session that a happening is about.
fn of(happening: &crate::Happening) -> Option<usize> {
    use crate::Happening;
    match happening {
        Happening::Refused(session, ..) => *session,
        Happening::Notice(session, _)
        | Happening::Ends(session, _)
        | Happening::StoreFailed(session, _)
        | Happening::Unaddressed(session)
        | Happening::IdsFill(session, _)
        | Happening::IdsFull(session)
        | Happening::IdsLost(session, _)
        | Happening::NotSentAgain(session)
        | Happening::OrderAlarm(session, _)
        | Happening::OrderRefused(session, _)
        | Happening::Removed(session)
        | Happening::OtherFirm(session)
        | Happening::Away(session)
        | Happening::Cancelled(session)
        | Happening::CancelRefused(session, _)
        | Happening::InDoubt(session, ..)
        | Happening::NobodysOrder { venue: session, .. }
        | Happening::UnknownRejected(session) => Some(*session),
        Happening::NotBooked(_) => None,
    }
}

fn then(step: Option<FixStep>) -> Then {
    match step {
        Some(FixStep { close: false, .. }) => Then::Stay,
        Some(_) => Then::Close { after_output: true },
        None => Then::Close { after_output: false },
    }
}

impl Door for FixDoor {
    const NAME: &'static str = "fix";
    const JUDGE: Option<(ledger::Door, MemoJudge)> = Some((checkpoints::OF, checkpoints::judge));
    const NAMED: Option<NamedDoor> =
        Some(NamedDoor { door: checkpoints::OF, compare: comparing::compare });
    type Conn = FixConn;
    type Counts = FixCounts;

    fn woke(&mut self) {
        self.wakes += 1;
    }

    fn opened(&mut self, _: &mut Till, id: ConnId, peer: Peer) -> FixConn {
        let address = address_of(peer);
        self.open.push((id, address));
        let address = address.map(|address| address.ip());
        let peer = crate::Peer { address, certificate_names: Vec::new() };
        FixConn { peer, ..FixConn::default() }
    }

    /// Our Logon leaves with the turn.
    fn dialled(
        &mut self,
        till: &mut Till,
        id: ConnId,
        dial: DialId,
        peer: Peer,
    ) -> Option<FixConn> {
        let venue = self.venues.iter().find(|venue| venue.id == Some(dial))?;
        let (sessions, clock) = (self.sessions.as_mut()?, clock(till));
        sessions.stores().set_time(clock.unix_us);
        let mut bytes = Vec::new();
        let line = sessions.dialled(id.to_bits(), venue.session, clock, &mut bytes);
        // What other steps had for their connections is flushed with it.
        self.take_rest();
        line.as_ref()?;
        self.open.push((id, address_of(peer)));
        self.ready.push(Ready { line: id.to_bits(), bytes, close: false });
        Some(FixConn { line, ..FixConn::default() })
    }

    fn secured(&mut self, _: ConnId, conn: &mut FixConn, secured: &Secured<'_>) {
        conn.peer.certificate_names = secured.dns_names();
        conn.peer.certificate_names.extend(secured.common_name());
    }

    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut FixConn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        if self.is_early(till) {
            return self.stop(id, 0);
        }
        let begun = probe::ticks();
        let done = self.step(till, (id, conn), out, |sessions, line, clock, bytes| {
            sessions.received_and_held(line, input, clock, bytes)
        });
        let of = self.sessions.as_ref().zip(conn.line.as_ref());
        let session = of.and_then(|(sessions, line)| sessions.session_of(line));
        if done.is_some_and(|done| done.consumed > 0) {
            self.begun.extend(session.map(|session| (session, begun)));
        }
        let of = self.sessions.as_ref().zip(conn.line.as_ref());
        let is_full = of.is_some_and(|(sessions, line)| sessions.is_full(line));
        match done {
            Some(FixStep { consumed, close: false, .. }) if is_full => self.stop(id, consumed),
            Some(FixStep { consumed, close: false, .. })
                if conn.line.as_ref().is_some_and(Line::is_judged_later) =>
            {
                Step::Pause { consumed }
            }
            Some(FixStep { consumed, need, close: false }) => Step::Read { consumed, need },
            Some(FixStep { consumed, .. }) => Step::Close { consumed, after_output: true },
            None => Step::Close { consumed: input.len(), after_output: false },
        }
    }

    fn tick_ms(&self, _: &FixConn) -> u64 {
        TICK_MS_MAX
    }

    fn tick(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut FixConn,
        _: u64,
        out: &mut Out<'_>,
    ) -> Then {
        then(self.step(till, (id, conn), out, Sessions::tick))
    }

    fn drained(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut FixConn,
        out: &mut Out<'_>,
    ) -> Then {
        then(self.step(till, (id, conn), out, Sessions::resume))
    }

    /// Its last messages are answered with the turn.
    fn owes(&self, _: &Till, _: ConnId, conn: &FixConn) -> bool {
        let of = self.sessions.as_ref().zip(conn.line.as_ref());
        of.is_some_and(|(sessions, line)| sessions.owes(line))
    }

    fn closed(&mut self, _: &mut Till, id: ConnId, conn: FixConn, why: CloseReason) {
        self.open.retain(|open| open.0 != id);
        let (Some(sessions), Some(line)) = (&mut self.sessions, conn.line) else { return };
        let ours = matches!(why, CloseReason::ServiceClosed | CloseReason::Shutdown);
        if let Some((session, stood)) = sessions.closed(line).filter(|_| !ours) {
            let name = sessions.name(session).unwrap_or("");
            let is_venue = self.venues.iter().any(|venue| venue.session == session);
            self.counters.tell_gone(name, is_venue && stood == SessionState::LoggingOn, why);
        }
    }

    fn door_tick_ms(&self) -> u64 {
        if self.sessions.is_some() { DOOR_TICK_MS } else { 0 }
    }

    fn heard<S>(
        &mut self,
        till: &mut Till,
        heard: Heard<'_>,
        outbox: &mut DoorOutbox<'_, '_, S, FixConn>,
    ) {
        match heard {
            Heard::Tick => {
                self.are_told = false;
                if !self.is_early(till) {
                    self.dial(clock(till), outbox);
                    let now = clock(till);
                    self.sessions.iter_mut().for_each(|one| one.look_for_absent(now));
                    self.take_rest();
                }
                self.sessions.iter_mut().for_each(Sessions::say_again);
                self.tell_kills_again(till);
                self.tidy();
            }
            Heard::Recorded(reply, answer) if self.takes_recorded(reply, &answer) => {}
            Heard::Recorded(reply, answer) => {
                let sessions = self.sessions.as_ref();
                let name = sessions.and_then(|sessions| sessions.name(reply.index as usize));
                // Who set numbers meanwhile waits for a checkpoint behind that.
                self.are_told &= !self.checkpoints.recorded(reply, &answer, name.unwrap_or(""));
            }
            Heard::Named(reply, answers) => {
                let (clock, sessions) = (clock(till), self.sessions.iter_mut());
                sessions.for_each(|one| one.answered(reply.number(), &answers, clock));
            }
            Heard::Configured => {
                let orders = &till.snapshot.orders;
                self.sessions.iter_mut().for_each(|one| one.set_orders(Arc::clone(orders)));
            }
            Heard::Stopping => {
                self.last = Last::Due;
                self.log_out(till, outbox);
            }
            Heard::DialFailed(dial, failed) => self.tell_failed(dial, failed),
            _ => {}
        }
    }

    /// What steps left is flushed, and what they have for connections leaves.
    fn turn<S>(&mut self, till: &mut Till, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        self.cancel_stopped(till);
        self.flush(till);
        self.say(till);
        self.read_on(till, outbox);
        self.judged(outbox);
        self.answer(till);
        self.tell_checkpoints(till);
        self.redial(clock(till), outbox);
        self.confirm(outbox);
        for ready in self.ready.drain(..) {
            let id = ConnId::from_bits(ready.line);
            let sessions = self.sessions.as_ref();
            let wake = self.wakes;
            let unread = outbox.with(id, |conn: &mut FixConn, out| {
                let unread = sessions.and_then(|sessions| unread_by(sessions, wake, conn, out));
                out.write(&ready.bytes);
                conn.added.note(wake, ready.bytes.len());
                unread
            });
            self.slow.extend(unread.flatten().map(|unread| (id, unread)));
            if ready.close {
                outbox.all().close(id);
            }
        }
        self.cut(outbox);
    }

    /// Each session has the peer's Logout, or has waited for it as long as the protocol says, and the journal knows how far they came.
    fn is_drained(&self) -> bool {
        let is_told = self.last == Last::Told
            && !self.checkpoints.are_under_way()
            && !self.kills.are_under_way();
        self.open.is_empty() && (is_told || self.sessions.is_none())
    }
}
