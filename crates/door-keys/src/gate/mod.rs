//! The keys door in a node: Transit's interface over the named keys of the vault.
//!
//! ```text
//!  worker: token, rate ──▶ door_keys over a snapshot of the keys ──▶ the audit's line ──▶ the answer, at the end of the wake-up
//!                            │ a large body
//!                            ├──▶ pool: the same, and it may wait ──▶ the line ──▶ late answer ──▶ worker
//!                            │ a change of keys          ▼                            ▲
//!                            └──▶ keeper thread: the change, durable ──▶ the line ────┘
//! ```
//! A worker reads a snapshot and waits for nobody but, for a line, the system's memory of files (`audit` says when not even for that): what changes keys the keeper does, and what would hold the worker up the pool (`inline` says what
//! that is). The snapshot shares the counts of messages with the keeper's keys, and a block of messages is durable before any of them is sealed.

mod again;
mod audit;
pub mod counts;
pub mod desk;
mod inline;
mod keeper;
mod large;
mod late;
mod live;
mod open;
mod pool;
mod rates;
pub mod section;
mod stream;
mod transit;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use access::{HostGuard, LiveTokens, Role, TokenView};
use door_http::{App, Limits, Method, Methods, Next, Piece, PieceReply, Refusal, RefusedRequest};
use door_http::{Reply as HttpReply, Request, Response, Session, Then};
use door_transport::cores::Placement;
use door_transport::{CloseReason, ConnId, Out, Peer, Step, Then as After, Waker};
use vault::{Change, Keys};
use vault_store::Carrier;
use weir_config::config::Config;
use weir_config::doors::{hosts, keys_limits};
use weir_door::{
    CheckScopes, Door, DoorOutbox, Heard, WorkerCounters, are_same,
    thread::{SystemError, off_workers, spawn},
};
use weir_till::{Pending, Till};

use self::audit::{AuditDesk, AuditState, Auditor, Keep, Now, Told};
use self::counts::KeysCounts;
use self::desk::KeysDesk;
use self::keeper::{Asker, Job, Keeper, KeeperDesk, OwnedRequest};
use self::large::{Gathering, Leaving};
use self::late::{Arrivals, Late, LateAnswer, Owed};
use self::live::{KeysView, LiveKeys};
use self::open::{KeysPlace, Opened};
use self::pool::{PoolDesk, Spent, Tools};
use self::rates::{Rates, Used};
use self::stream::Stream;
use crate::{Gate, KeyScopes, NotChanged, NotUnsealed, Unsealing, token_of};

/// What begins the paths of calls about keys.
const TRANSIT_PATH: &str = "/v1/transit/";
const HEALTH_PATH: &str = "/v1/sys/health";
/// What seals and unseals all keys.
const SEAL_PATHS: [&str; 2] = ["/v1/sys/unseal", "/v1/sys/seal"];

const JSON: &str = "application/json";
const NO_STORE: &[u8] = b"Cache-Control: no-store\r\n";
const RETRY: &[u8] = b"Cache-Control: no-store\r\nRetry-After: 1\r\n";
const NOT_DONE: &[u8] = b"{\"errors\":[\"the node could not answer: whether the call was done is not known; ask again\"]}\n";
const NO_AUDIT: &[u8] = b"{\"errors\":[\"the audit cannot be written, so that calls about keys are refused: the node's log says why; ask again\"]}\n";
const BUSY: &[u8] = b"{\"errors\":[\"too many calls wait (keys.calls_waiting_max): ask again\"]}\n";
const STOPPING: &[u8] = b"{\"errors\":[\"the node is stopping and takes no calls any more\"]}\n";
const LIMITED: &[u8] = b"{\"errors\":[\"rate limit quota exceeded: this token has made its calls of this second (keys.rate_per_s)\"]}\n";
const OF_PAGE: &[u8] = b"{\"errors\":[\"pages in browsers may not call this door\"]}\n";
const WRONG_HOST: &[u8] = b"{\"errors\":[\"this door has another name: expected as Host localhost, 127.0.0.1, [::1], the address that it listens on, or one of keys.hosts\"]}\n";
const TWICE: &[u8] = b"{\"errors\":[\"a header that says who asks stands there twice: one of them would be ignored\"]}\n";
const TOO_LARGE: &[u8] =
    b"{\"errors\":[\"failed to decode JSON input: http: request body too large\"]}\n";
const NO_METHOD: &[u8] =
    b"{\"errors\":[\"1 error occurred:\\n\\t* unsupported operation\\n\\n\"]}\n";
const NO_HTTP: &[u8] = b"{\"errors\":[\"the request is no sound HTTP\"]}\n";
/// Headers that two readers would read differently where they stand there twice.
const ONCE: [&str; 4] = ["x-vault-token", "authorization", "x-vault-namespace", "x-vault-wrap-ttl"];

/// What the doors of all workers share.
pub struct KeysTerms {
    listen: SocketAddr,
    http: Limits,
    hosts: HostGuard,
    tokens: LiveTokens,
    live: LiveKeys,
    keeper: KeeperDesk,
    pool: PoolDesk,
    audit: Option<AuditDesk>,
    health: Arc<Health>,
    rates: Rates,
    waiting_max: usize,
    /// A body that does not come on for so long ends its connection; 0: never.
    partial_ms_max: u64,
    /// A work space for each worker, until it is taken.
    doors: Mutex<Vec<crate::Door>>,
}

/// What the threads behind the door count.
#[derive(Debug, Default)]
struct Health {
    changes_failed: Arc<AtomicU64>,
    audit: Arc<AuditState>,
}

impl std::fmt::Debug for KeysTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeysTerms")
    }
}

impl KeysTerms {
    /// Where others than callers look at the keys.
    pub fn desk(&self) -> KeysDesk {
        KeysDesk::new(self.live.clone(), self.listen)
    }
}

/// The threads behind the door; they end once no worker has the door any more.
#[derive(Debug, Default)]
pub struct KeysThreads(Vec<JoinHandle<()>>);

impl KeysThreads {
    fn keep(&mut self, started: Result<JoinHandle<()>, SystemError>) -> Result<(), String> {
        self.0.push(started.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Has one of them ended? Only a bug ends one before its time.
    pub fn is_broken(&self) -> bool {
        self.0.iter().any(JoinHandle::is_finished)
    }

    /// Waits until they have written what they were given. True if all went well.
    pub fn join(self) -> bool {
        let ends: Vec<_> = self.0.into_iter().map(JoinHandle::join).collect();
        ends.iter().all(Result::is_ok)
    }
}

/// Opens the keys and starts the threads behind the door, on the cores that workers leave; `None` where the door is off. With a
/// `carrier` changes of keys are sent before they are made.
///
/// # Errors
/// What the door cannot have, and what to do; nothing of the vault was written where its key is the wrong one.
pub fn open(
    config: &Config,
    address: Option<SocketAddr>,
    tokens: Option<&LiveTokens>,
    cores: &Placement,
    carrier: Option<Carrier>,
) -> Result<(Option<Arc<KeysTerms>>, KeysThreads), String> {
    let Some(address) = address else {
        return Ok((None, KeysThreads::default()));
    };
    let rest = &cores.rest;
    let (keys, data) = (&config.keys, &config.node.data_dir);
    let place = KeysPlace::of(config, carrier);
    let Opened { store, again } = open::store(config, &place)?;
    let tokens = open::tokens(data, tokens)?;
    let cluster_id = open::cluster_id(data)?;
    let http = keys_limits(config);
    http.check().map_err(|error| format!("keys: {error}"))?;
    let hosts = hosts(&keys.hosts, "", address).map_err(|error| format!("keys.hosts: {error}"))?;
    let body_bytes_max = keys.body_bytes_max;
    let settings = crate::Settings { cluster_id, body_bytes_max, ..crate::Settings::default() };
    let door = || {
        let made = crate::Door::new(settings.clone());
        made.map_err(|error| format!("keys: {error}"))
    };
    let health = Arc::new(Health::default());
    let mut threads = KeysThreads::default();
    let audit = match keys.audit.as_str() {
        "off" => None,
        _ => Some(start_audit(config, &health, rest, &mut threads)?),
    };
    let live =
        LiveKeys::new(store.as_ref().map_or_else(|| Keys::new(0), |store| store.keys().clone()));
    let failed = Arc::clone(&health.changes_failed);
    let keeper = Keeper {
        store,
        sealed: Keys::new(0),
        place,
        live: live.clone(),
        door: door()?,
        audit: audit.clone(),
        failed,
        again,
    };
    let (keeper, run) = keeper.ready(body_bytes_max);
    threads.keep(spawn("vault-keeper", off_workers(rest, run)))?;
    let pool = PoolDesk::new(body_bytes_max);
    for number in 0..pool::threads(rest.len()) {
        let (keys, audit, keeper) = (live.view(), audit.clone(), keeper.clone());
        let hand = pool.hand(number, Tools { door: door()?, keys, keeper, audit });
        threads.keep(spawn(&format!("vault-pool-{number}"), off_workers(rest, || hand.run())))?;
    }
    let terms = KeysTerms {
        listen: address,
        http,
        hosts,
        tokens,
        live,
        keeper,
        pool,
        audit,
        health,
        rates: Rates::new(keys.rate_per_s),
        waiting_max: keys.calls_waiting_max,
        partial_ms_max: config.transport.partial_ms_max,
        doors: Mutex::new(cores.workers.iter().map(|_| door()).collect::<Result<_, _>>()?),
    };
    Ok((Some(Arc::new(terms)), threads))
}

fn start_audit(
    config: &Config,
    health: &Health,
    rest: &[usize],
    threads: &mut KeysThreads,
) -> Result<AuditDesk, String> {
    let keys = &config.keys;
    let keep = Keep { days: keys.audit_keep_days, bytes_max: keys.audit_bytes_max };
    let auditor = Auditor::open(&config.node.data_dir, keep, &health.audit);
    let (desk, run) = auditor?.ready();
    threads.keep(spawn("vault-audit", off_workers(rest, run)))?;
    Ok(desk)
}

/// One worker's part of the door.
pub struct KeysDoor {
    /// `None` where the door is off.
    side: Option<Side>,
    /// What HTTP works in, about 1 MiB; `None` where the door is off.
    room: Option<door_http::Room>,
}

struct Side {
    /// Which worker it is: the first tells what the threads behind the door count.
    worker: u16,
    counters: Arc<KeysCounts>,
    terms: Arc<KeysTerms>,
    door: crate::Door,
    tokens: TokenView,
    keys: KeysView,
    arrivals: Arc<Arrivals>,
    /// Lines of this wake-up, with their answers.
    told: Vec<Told>,
    /// Who waits for a call that is with another thread, or in `told`.
    waiting: Pending<ConnId>,
    /// Each stream holds one, too.
    streams: Arc<()>,
    /// Bytes of room for bodies that arrive in parts.
    arriving: usize,
    /// Bytes of answers that leave in parts.
    leaving: usize,
    stopping: bool,
}

/// What is kept per connection.
#[derive(Default)]
pub struct KeysConn {
    http: Session,
    /// Whose token it showed last: most connections show one only.
    entered: Option<Box<Entered>>,
    /// A bulk stream whose next piece has not come.
    stream: Option<Box<Stream>>,
    /// A body that arrives in parts.
    gathering: Option<Box<Gathering>>,
    /// A large answer that has not left as a whole.
    leaving: Option<Box<Leaving>>,
}

/// A token that was found good.
struct Entered {
    token: zeroize::Zeroizing<Box<[u8]>>,
    asker: Asker,
    used: Arc<Used>,
    /// Of the token file that it was found in.
    number: u32,
}

impl KeysDoor {
    /// The side of the worker with this number; who has answers for it wakes it.
    pub fn new(
        terms: Option<&Arc<KeysTerms>>,
        worker: u16,
        waker: Waker,
        counters: &WorkerCounters,
    ) -> KeysDoor {
        let side = terms.and_then(|terms| {
            let door = terms.doors.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            Some(Side {
                worker,
                counters: counters.own(),
                door,
                tokens: terms.tokens.view(),
                keys: terms.live.view(),
                arrivals: Arrivals::new(waker),
                told: Vec::new(),
                waiting: Pending::new(terms.waiting_max + stream::STREAMS_MAX),
                streams: Arc::default(),
                arriving: 0,
                leaving: 0,
                stopping: false,
                terms: Arc::clone(terms),
            })
        });
        let room = side.is_some().then(door_http::Room::default);
        KeysDoor { side, room }
    }
}

impl Door for KeysDoor {
    const NAME: &'static str = "keys";
    const SCOPES: Option<CheckScopes> = Some(|scopes| {
        let read = KeyScopes::parse(scopes);
        read.map(drop).map_err(|error| (error.place, error.to_string()))
    });
    type Conn = KeysConn;
    type Counts = KeysCounts;

    fn opened(&mut self, _: &mut Till, _: ConnId, _: Peer) -> KeysConn {
        KeysConn::default()
    }

    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut KeysConn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        // A door without a side has no listener.
        let (Some(side), Some(room)) = (&mut self.side, &mut self.room) else {
            return Step::Close { consumed: input.len(), after_output: true };
        };
        // Behind the part of an answer that is still to leave.
        if conn.leaving.is_some() {
            return Step::Pause { consumed: 0 };
        }
        let KeysConn { http, entered, stream, gathering, .. } = conn;
        let front = &mut Front { side, entered, stream, gathering, till };
        http.received(id, input, out, room, front)
    }

    fn closed(&mut self, _: &mut Till, _: ConnId, conn: KeysConn, _: CloseReason) {
        let Some(side) = &mut self.side else { return };
        if let Some(stream) = conn.stream {
            side.cut(&stream, stream::CLIENT_GONE);
        }
        if let Some(gathering) = conn.gathering {
            side.forget(*gathering);
        }
        if let Some(leaving) = conn.leaving {
            side.has_left(*leaving);
        }
    }

    fn owes(&self, _: &Till, _: ConnId, conn: &KeysConn) -> bool {
        conn.http.owes() || conn.leaving.is_some()
    }

    fn tick_ms(&self, _: &KeysConn) -> u64 {
        self.side.as_ref().map_or(0, |side| side.terms.partial_ms_max)
    }

    /// Ends a connection whose body does not come on.
    fn tick(
        &mut self,
        _: &mut Till,
        _: ConnId,
        conn: &mut KeysConn,
        _: u64,
        _: &mut Out<'_>,
    ) -> After {
        let comes_on = conn.gathering.as_mut().is_none_or(|gathering| gathering.comes_on());
        match &self.side {
            Some(side) if !comes_on => {
                side.counters.bodies_slow.add(1);
                After::Close { after_output: false }
            }
            _ => After::Stay,
        }
    }

    /// Writes the next part of a large answer.
    fn drained(
        &mut self,
        _: &mut Till,
        _: ConnId,
        conn: &mut KeysConn,
        out: &mut Out<'_>,
    ) -> After {
        match &mut self.side {
            Some(side) => side.go_on(conn, out),
            None => After::Stay,
        }
    }

    fn heard<S>(
        &mut self,
        _: &mut Till,
        heard: Heard<'_>,
        _: &mut DoorOutbox<'_, '_, S, KeysConn>,
    ) {
        if let (Heard::Stopping, Some(side)) = (heard, &mut self.side) {
            side.stopping = true;
        }
    }

    /// Writes the answers that have arrived.
    fn turn<S>(&mut self, _: &mut Till, outbox: &mut DoorOutbox<'_, '_, S, KeysConn>) {
        let Some(side) = &mut self.side else { return };
        if side.waiting.is_empty() {
            return;
        }
        for (place, answer) in side.arrivals.take() {
            let answer = answer.unwrap_or_else(|| Late::Answer(LateAnswer::unavailable(NOT_DONE)));
            side.deliver(place, answer, outbox);
        }
    }

    /// Writes the lines of this wake-up, all at once, and their answers.
    fn write<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, KeysConn>) {
        if let Some(side) = self.side.as_mut().filter(|side| !side.told.is_empty()) {
            side.write_lines(outbox);
        }
    }

    fn waiting(&self) -> usize {
        self.side.as_ref().map_or(0, |side| side.waiting.len())
    }

    fn is_drained(&self) -> bool {
        self.waiting() == 0 && self.side.as_ref().is_none_or(|side| side.leaving == 0)
    }

    fn publish(&mut self) {
        let Some(side) = self.side.as_mut() else { return };
        // A worker that nobody asks lets go of keys that were sealed or deleted, too.
        side.keys.refresh();
        if side.worker != 0 {
            return;
        }
        let Health { changes_failed, audit } = &*side.terms.health;
        let counters = &side.counters;
        counters.changes_failed.set(changes_failed.load(Relaxed));
        counters.audit_failures.set(audit.failures.load(Relaxed));
        counters.audit_dropped.set(audit.dropped.load(Relaxed));
    }
}

fn response<'a>(status: u16, headers: &'a [u8], body: &'a [u8]) -> Response<'a> {
    // Of an answer without a body, too, as others do.
    Response { status, content_type: Some(JSON), headers, body }
}

/// The keys where a worker may look at them.
struct ReadGate<'a>(&'a Keys);

impl Gate for ReadGate<'_> {
    fn keys(&self) -> &Keys {
        self.0
    }

    fn change(&mut self, _: Change, _: u64) -> Result<bool, NotChanged> {
        Err(NotChanged::Elsewhere)
    }

    fn unseal(&mut self, _: Unsealing) -> Result<(), NotUnsealed> {
        Err(NotUnsealed::Elsewhere)
    }
}

/// A worker's side with a connection, as HTTP asks it.
struct Front<'a> {
    side: &'a mut Side,
    entered: &'a mut Option<Box<Entered>>,
    stream: &'a mut Option<Box<Stream>>,
    gathering: &'a mut Option<Box<Gathering>>,
    till: &'a mut Till,
}

impl Side {
    /// Opens a place for an answer that comes later; `None`: as many wait as may.
    fn owe(&mut self, conn: ConnId) -> Option<Owed> {
        self.waiting.open(conn).map(|place| Owed::new(place, &self.arrivals))
    }

    /// Finds whose token it is.
    fn enter<'e>(
        &mut self,
        entered: &'e mut Option<Box<Entered>>,
        token: &[u8],
    ) -> Option<&'e Entered> {
        self.tokens.refresh();
        let number = self.tokens.number();
        let is_known = entered
            .as_ref()
            .is_some_and(|known| known.number == number && are_same(&known.token, token));
        if !is_known {
            *entered = None;
            let principal = self.tokens.file().find(token)?;
            if principal.role() != Role::Keys {
                return None;
            }
            // A file whose scopes cannot be read does not come into force.
            let scopes = Arc::new(KeyScopes::parse(principal.scopes().of_keys()).ok()?);
            let asker = Asker { principal: Arc::clone(principal), scopes };
            let used = self.terms.rates.of(principal.name());
            let token = zeroize::Zeroizing::new(Box::from(token));
            *entered = Some(Box::new(Entered { token, asker, used, number }));
        }
        entered.as_deref()
    }
}

impl Front<'_> {
    /// Why a request is refused before anybody looks at what it asks.
    fn guard(&self, request: &Request<'_>) -> Option<Response<'static>> {
        let counts = &self.side.counters;
        if request.from_page {
            counts.of_pages.add(1);
            return Some(response(403, NO_STORE, OF_PAGE));
        }
        if !self.side.terms.hosts.allows(request.host) {
            counts.of_pages.add(1);
            return Some(response(421, NO_STORE, WRONG_HOST));
        }
        if ONCE.iter().any(|name| request.has_several(name)) {
            return Some(response(400, NO_STORE, TWICE));
        }
        self.side.unable(request.path)
    }

    /// Answers by what the door says, now or once its line is written.
    fn ask(&mut self, conn: ConnId, asked: &crate::Request<'_>, reply: HttpReply<'_, '_>) -> Then {
        let (side, entered) = (&mut *self.side, &mut *self.entered);
        let known = asked.token.and_then(|token| side.enter(entered, token));
        // A health check is nobody's call; 429 would say there that this node is a spare one.
        let is_health = asked.path == HEALTH_PATH;
        if known.is_some_and(|known| !is_health && !side.terms.rates.allows(&known.used)) {
            side.counters.limited.add(1);
            return reply.send(&response(429, RETRY, LIMITED));
        }
        side.ask_as(conn, asked, known.map(|known| &known.asker), reply)
    }
}

/// Who does a call that is none of a worker's.
#[derive(Clone, Copy)]
enum To {
    Keeper,
    Pool,
}

impl Side {
    /// Why no call of a path can be done at the moment.
    fn unable(&self, path: &str) -> Option<Response<'static>> {
        if self.stopping {
            return Some(response(503, RETRY, STOPPING));
        }
        let is_audited = path.starts_with(TRANSIT_PATH) || SEAL_PATHS.contains(&path);
        if is_audited && self.terms.audit.as_ref().is_some_and(AuditDesk::fails) {
            return Some(response(503, RETRY, NO_AUDIT));
        }
        if self.waiting.len() >= self.terms.waiting_max {
            self.counters.busy.add(1);
            return Some(response(503, RETRY, BUSY));
        }
        None
    }

    /// Writes the lines that came together, and then their answers; or hands both over.
    fn write_lines<S>(&mut self, outbox: &mut DoorOutbox<'_, '_, S, KeysConn>) {
        let told = std::mem::take(&mut self.told);
        let Some(audit) = &self.terms.audit else { return };
        let lines: String = told.iter().map(|told| told.line.as_str()).collect();
        let now = audit.write(&lines);
        if now == Now::Later {
            for told in audit.tell(told).err().into_iter().flatten() {
                if let Some((owed, _)) = told.answer {
                    LateAnswer::refuse(owed, BUSY);
                }
            }
            return;
        }
        for (owed, answer) in told.into_iter().filter_map(|told| told.answer) {
            let answer = if now == Now::Written { answer } else { audit::refusal() };
            self.deliver(owed.take_back(), answer, outbox);
        }
    }

    /// Writes an answer to the connection that waits for it.
    fn deliver<S>(
        &mut self,
        place: u32,
        answer: Late,
        outbox: &mut DoorOutbox<'_, '_, S, KeysConn>,
    ) {
        let Some(id) = self.waiting.close(place) else { return };
        let answer = match answer {
            Late::Piece(piece) => return self.piece_is_back(id, piece, outbox),
            Late::Answer(answer) => answer,
        };
        self.counters.tell(answer.status, answer.items);
        if self.leaves_in_parts(answer.body.len()) {
            return self.begin_answer(id, answer, outbox);
        }
        let response = Response {
            content_type: Some(answer.content_type),
            ..response(answer.status, answer.headers, &answer.body)
        };
        let answered = outbox.answer(id, |conn, out| {
            // A piece that is lost, or whose line cannot be written, ends its stream.
            conn.http.answer(out, &response).or_else(|| conn.http.fail_piece(out, &response))
        });
        if !answered {
            self.counters.clients_gone.add(1);
        }
        if large::is_large(answer.body.len()) {
            self.terms.pool.put_away(Spent::Answer { _wiped: answer.body });
        }
    }

    /// Answers a call of `asker`; of `None`, whose token nobody has, without a look at the body.
    fn ask_as(
        &mut self,
        conn: ConnId,
        asked: &crate::Request<'_>,
        asker: Option<&Asker>,
        reply: HttpReply<'_, '_>,
    ) -> Then {
        self.keys.refresh();
        let path = asked.path.strip_prefix(TRANSIT_PATH).unwrap_or_default();
        let is_large = !inline::is_small(path, asked.body.len(), self.keys.keys());
        if is_large && asker.is_some() {
            return self.leave_whole(To::Pool, conn, asked, asker, reply);
        }
        let caller = asker.map(Asker::caller);
        let answer = self.door.answer(asked, caller.as_ref(), &mut ReadGate(self.keys.keys()));
        let Some(answer) = answer else {
            return self.leave_whole(To::Keeper, conn, asked, asker, reply);
        };
        let line = asker
            .filter(|_| self.terms.audit.is_some())
            .and_then(|asker| audit::line(asker.principal.name(), answer.status, &answer.audit));
        let then = match line {
            None => {
                self.counters.tell(answer.status, late::items(&answer));
                let content_type = Some(answer.content_type);
                let said = response(answer.status, answer.headers, answer.body);
                reply.send(&Response { content_type, ..said })
            }
            Some(line) => {
                let owed = self.waiting.open(conn).map(|place| Owed::new(place, &self.arrivals));
                let owed = owed.expect("the guard found room");
                let late = Late::Answer(LateAnswer::of(&answer));
                self.told.push(Told { line, answer: Some((owed, late)) });
                reply.later()
            }
        };
        self.door.wipe();
        then
    }

    /// Leaves a call to another thread, whose place for the answer the guard found; gives it back where that thread has no room.
    fn leave(
        &mut self,
        to: To,
        conn: ConnId,
        request: OwnedRequest,
        asker: Option<&Asker>,
    ) -> Result<(), Box<OwnedRequest>> {
        let counts = &self.counters;
        let place = self.waiting.open(conn).expect("the guard found room");
        let owed = Owed::new(place, &self.arrivals);
        let job = Box::new(Job { request, asker: asker.cloned(), owed });
        let (left, count) = match to {
            To::Keeper => (self.terms.keeper.ask(job), &counts.by_keeper),
            To::Pool => (self.terms.pool.ask(job), &counts.by_pool),
        };
        match left {
            Ok(()) => {
                count.add(1);
                Ok(())
            }
            Err(job) => {
                counts.busy.add(1);
                let Job { request, owed, .. } = *job;
                owed.forget();
                self.waiting.close(place);
                Err(Box::new(request))
            }
        }
    }

    /// The same of a whole request.
    fn leave_whole(
        &mut self,
        to: To,
        conn: ConnId,
        asked: &crate::Request<'_>,
        asker: Option<&Asker>,
        reply: HttpReply<'_, '_>,
    ) -> Then {
        match self.leave(to, conn, OwnedRequest::of(asked), asker) {
            Ok(()) => reply.later(),
            Err(_) => reply.send(&response(503, RETRY, BUSY)),
        }
    }
}

impl App for Front<'_> {
    const METHODS: Methods = Methods::Resources;

    fn limits(&self) -> &Limits {
        &self.side.terms.http
    }

    fn request(&mut self, conn: ConnId, request: Request<'_>, reply: HttpReply<'_, '_>) -> Then {
        if let Some(refused) = self.guard(&request) {
            return reply.send(&refused);
        }
        let method = match request.method {
            Method::Get | Method::Head => crate::Method::Get,
            Method::Post | Method::Put => crate::Method::Post,
            Method::Patch => crate::Method::Patch,
            Method::Delete => crate::Method::Delete,
            Method::List => crate::Method::List,
        };
        let asked = crate::Request {
            method,
            path: request.path,
            query: request.query,
            namespace: request.header("x-vault-namespace"),
            wrap_ttl: request.header("x-vault-wrap-ttl"),
            token: token_of(request.header("x-vault-token"), request.header("authorization")),
            body: request.body,
            now_s: self.till.clock.last_ms() / 1_000,
        };
        if !request.in_pieces {
            return self.ask(conn, &asked, reply);
        }
        if self.is_stream(request.path, request.size) {
            return self.begin_stream(conn, &asked, reply);
        }
        self.begin_gathering(conn, &asked, request.size, reply)
    }

    fn takes_pieces(&self, method: Method, path: &str, size: Option<usize>) -> bool {
        let sends = matches!(method, Method::Post | Method::Put);
        sends && (self.is_stream(path, size) || self.is_gathered(size))
    }

    fn piece(&mut self, conn: ConnId, piece: Piece<'_>, reply: PieceReply<'_, '_>) -> Next {
        if self.gathering.is_some() {
            return self.gather(conn, piece, reply);
        }
        self.take_piece(conn, piece, reply)
    }

    fn refused(&mut self, _: Refusal) {
        self.side.counters.refused_http.add(1);
    }

    fn refusal(&self, why: Refusal, _: &RefusedRequest<'_>) -> Response<'static> {
        let body = match why {
            Refusal::BodyTooLarge | Refusal::InflatedTooLarge => TOO_LARGE,
            Refusal::UnknownMethod => NO_METHOD,
            _ => NO_HTTP,
        };
        response(why.status(), b"", body)
    }
}
