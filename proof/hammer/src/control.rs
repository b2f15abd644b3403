//! A blocking connection for what is not hot: the handshake, the books, the totals.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use wire::{Message, Split, books_request, hello, totals_request};

use crate::HammerError;
use crate::audit::Row;

/// Frames of the node may be this long before it has said what it sends, in bytes.
const FRAME_LEN_MAX: u32 = 16 << 20;
/// Pages of the books at most: a node that always says `more` must not keep us for ever.
const PAGES_MAX: usize = 1 << 20;

/// What the node said in Welcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Welcome {
    /// Entries a frame may hold.
    pub batch_max: u16,
    /// Life of an unconfirmed hold, in ms.
    pub hold_ms: u32,
}

/// The node's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// CPU time of all workers, in ns.
    pub worker_cpu_ns: u64,
    /// Asks answered.
    pub decisions: u64,
    /// Of them, granted.
    pub granted: u64,
    /// Resolves answered.
    pub resolves: u64,
    /// Of them, answered with their first answer.
    pub repeats: u64,
}

/// A connection with its handshake done.
#[derive(Debug)]
pub(crate) struct Control {
    stream: TcpStream,
    buf: Vec<u8>,
    filled: usize,
    frame: u64,
    /// What the node said.
    pub welcome: Welcome,
}

/// Who is calling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    /// HOST:PORT.
    pub target: &'a str,
    /// The door's auth token, or empty.
    pub auth: &'a str,
    /// Any number; the node may log it.
    pub client_id: u64,
    /// Longest wait for anything.
    pub timeout: Duration,
}

impl Control {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// Nothing accepts there, the node refuses, or what answers does not speak the protocol.
    pub(crate) fn connect(caller: Caller<'_>) -> Result<Self, HammerError> {
        let stream = dial(caller)?;
        let welcome = Welcome { batch_max: 0, hold_ms: 0 };
        let mut control = Self { stream, buf: Vec::new(), filled: 0, frame: 0, welcome };
        let mut out = vec![0; hello::encoded_len(caller.auth.len(), 6)];
        let block =
            hello::Block::new(wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION, caller.client_id);
        let len = hello::encode(&mut out, &block)
            .and_then(|e| e.auth(caller.auth.as_bytes()))
            .and_then(|e| e.name("hammer"))
            .map_err(|e| not_ours(caller.target, e.to_string()))?
            .finish();
        control.send(&out[..len], "sending Hello")?;
        control.welcome = control
            .receive("waiting for Welcome", |message| match message {
                Message::Welcome(w) => {
                    Ok(Welcome { batch_max: w.batch_max(), hold_ms: w.hold_ms() })
                }
                other => Err(format!("{} where Welcome was expected", other.name())),
            })
            .map_err(|fault| fault.into_error(caller.target))?;
        if control.welcome.batch_max == 0 || control.welcome.hold_ms == 0 {
            let found = format!("Welcome with batchMax 0 or holdMs 0: {:?}", control.welcome);
            return Err(not_ours(caller.target, found));
        }
        Ok(control)
    }

    /// Gives the socket away, for the readiness loop. Nothing may be unread: the node only answers.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Reads the books of all budgets, page by page.
    ///
    /// # Errors
    /// The connection broke, or the pages make no sense.
    pub(crate) fn books(&mut self) -> Result<Vec<Row>, HammerError> {
        let mut rows = Vec::new();
        let mut from = 0;
        for _ in 0..PAGES_MAX {
            let more = self.books_page(from, &mut rows)?;
            let Some(next) = rows.last().and_then(|row: &Row| row.id.checked_add(1)) else {
                return Ok(rows);
            };
            if !more {
                return Ok(rows);
            }
            if next <= from {
                return Err(not_ours(
                    "the node",
                    format!("books page from {from} does not advance"),
                ));
            }
            from = next;
        }
        Err(not_ours("the node", format!("more than {PAGES_MAX} pages of books")))
    }

    fn books_page(&mut self, from: u64, rows: &mut Vec<Row>) -> Result<bool, HammerError> {
        self.frame += 1;
        let frame = self.frame;
        let mut out = vec![0; books_request::encoded_len()];
        let block = books_request::Block::new(frame, from, self.welcome.batch_max);
        let len = books_request::encode(&mut out, &block)
            .map_err(|e| not_ours("BooksRequest", e.to_string()))?
            .finish();
        self.send(&out[..len], "asking for the books")?;
        self.receive("waiting for the books", |message| match message {
            Message::Books(books) if books.frame() == frame => {
                rows.extend(books.budgets().iter().map(|b| Row {
                    id: b.budget_id(),
                    limit: b.limit(),
                    free: b.free(),
                    purses: b.purses(),
                    held: b.held(),
                    settled: b.settled(),
                    over: b.over_settled(),
                    late: b.late(),
                    unit: b.unit(),
                }));
                Ok(books.more() != 0 && !books.budgets().is_empty())
            }
            other => Err(format!("{} where Books {frame} was expected", other.name())),
        })
        .map_err(|fault| fault.into_error("the node"))
    }

    /// Reads the node's counters.
    ///
    /// # Errors
    /// The connection broke, or the answer makes no sense.
    pub(crate) fn totals(&mut self) -> Result<Totals, HammerError> {
        self.frame += 1;
        let frame = self.frame;
        let mut out = vec![0; totals_request::encoded_len()];
        let len = totals_request::encode(&mut out, &totals_request::Block::new(frame))
            .map_err(|e| not_ours("TotalsRequest", e.to_string()))?
            .finish();
        self.send(&out[..len], "asking for the totals")?;
        self.receive("waiting for the totals", |message| match message {
            Message::Totals(t) if t.frame() == frame => Ok(Totals {
                worker_cpu_ns: t.worker_cpu_ns(),
                decisions: t.decisions(),
                granted: t.granted(),
                resolves: t.resolves(),
                repeats: t.repeats(),
            }),
            other => Err(format!("{} where Totals {frame} was expected", other.name())),
        })
        .map_err(|fault| fault.into_error("the node"))
    }

    fn send(&mut self, bytes: &[u8], during: &'static str) -> Result<(), HammerError> {
        self.stream.write_all(bytes).map_err(|source| HammerError::Io { during, source })
    }

    /// Reads one frame and hands its message to `read`.
    fn receive<T>(
        &mut self,
        during: &'static str,
        read: impl FnOnce(Message<'_>) -> Result<T, String>,
    ) -> Result<T, Fault> {
        loop {
            let need = match wire::frame::split(&self.buf[..self.filled], FRAME_LEN_MAX) {
                Ok(Split::Frame(frame)) => {
                    let result = match Message::decode(frame) {
                        Ok(Message::Refused(refused)) => Err(Fault::refused(&refused)),
                        Ok(message) => read(message).map_err(Fault::NotOurs),
                        Err(e) => Err(Fault::NotOurs(e.to_string())),
                    };
                    let len = frame.len();
                    self.buf.copy_within(len..self.filled, 0);
                    self.filled -= len;
                    return result;
                }
                Ok(Split::Incomplete { need }) => need,
                Err(e) => return Err(Fault::NotOurs(e.to_string())),
            };
            self.buf.resize(need.max(self.buf.len()).max(4_096), 0);
            match self.stream.read(&mut self.buf[self.filled..]) {
                Ok(0) => return Err(Fault::Io(during, closed())),
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Fault::Io(during, timed_out(e))),
            }
        }
    }
}

/// Why no message could be taken.
enum Fault {
    Io(&'static str, std::io::Error),
    NotOurs(String),
    Refused(Option<wire::Reason>, String),
}

impl Fault {
    fn refused(refused: &wire::Refused<'_>) -> Self {
        let detail = String::from_utf8_lossy(refused.detail_bytes()).into_owned();
        Self::Refused(refused.reason(), detail)
    }

    fn into_error(self, target: &str) -> HammerError {
        match self {
            Self::Io(during, source) => HammerError::Io { during, source },
            Self::NotOurs(what) => not_ours(target, what),
            Self::Refused(reason, detail) => HammerError::HandshakeRefused {
                reason: reason.map_or("unknown reason", wire::Reason::name),
                detail,
                advice: advice(reason),
            },
        }
    }
}

fn advice(reason: Option<wire::Reason>) -> &'static str {
    match reason {
        Some(wire::Reason::Unauthorised) => "give the door's token with --auth",
        Some(wire::Reason::VersionUnsupported) => "use a hammer of the node's version",
        Some(wire::Reason::ShuttingDown) => "the node is stopping; try again when it runs",
        Some(wire::Reason::Busy) => "the node is at one of its limits; use fewer connections",
        _ => "check that target and hammer are of the same version",
    }
}

fn not_ours(target: &str, what: String) -> HammerError {
    HammerError::NotOurProtocol { target: target.to_owned(), what }
}

fn closed() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the node closed the connection")
}

/// A read timeout shows as "would block": say it in words.
fn timed_out(e: std::io::Error) -> std::io::Error {
    match e.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer within --timeout")
        }
        _ => e,
    }
}

/// Opens a connection, with the caller's patience for its answers.
///
/// # Errors
/// The name has no address, or nothing accepts there.
pub(crate) fn dial(caller: Caller<'_>) -> Result<TcpStream, HammerError> {
    let unreachable =
        |source| HammerError::Unreachable { target: caller.target.to_owned(), source };
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in caller.target.to_socket_addrs().map_err(unreachable)? {
        match TcpStream::connect_timeout(&address, caller.timeout) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(unreachable)?;
                stream.set_read_timeout(Some(caller.timeout)).map_err(unreachable)?;
                stream.set_write_timeout(Some(caller.timeout)).map_err(unreachable)?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(unreachable(last))
}
