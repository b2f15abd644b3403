//! One connection to a node: what is written by callers, and what its own thread reads.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wire::{DecideFlags, Message, Reason, Split, decide, extend, find, hello, resolve};

use crate::call::Part;
use crate::flights::{Flights, NoPlace};
use crate::lookup::{Budget, Found, Lookup, Said};
use crate::options::Options;
use crate::transport::Transport;
use crate::{Error, Extended, Token, Verdict};

/// The longest frame of a node that is read, in bytes.
const FRAME_BYTES_MAX: u32 = 4 << 20;
/// The first version of the schema that knows handles.
const FIND_VERSION: u16 = 3;
/// The first that knows later ends.
const EXTEND_VERSION: u16 = 4;
/// First size of what is read at once, in bytes.
const READ_LEN: usize = 64 << 10;

/// A connection after its Welcome.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) node: usize,
    /// Entries that a frame may hold: the node's limit, or the options' where that is lower.
    pub(crate) batch_max: usize,
    /// The schema version that both use.
    version: u16,
    /// How long a node may owe an answer while there is no room for further frames.
    answer: Duration,
    stream: Transport,
    out: Mutex<Vec<u8>>,
    pub(crate) flights: Flights,
    gathered: Mutex<Gathered>,
    enough: Condvar,
}

/// Asks that wait for others, to travel in one frame.
#[derive(Debug, Default)]
struct Gathered {
    asks: Vec<decide::Ask>,
    parts: Vec<Part>,
}

/// Who hears what a connection reads.
pub(crate) trait Ears: Send + Sync + 'static {
    /// Grants that nobody waits for.
    fn late(&self, conn: &Conn, tokens: &mut Vec<Token>);
    /// The answer to a resolve.
    fn resolved(&self, conn: &Conn, id: u64, verdict: Verdict, repeat: bool);
    /// Resolves that this connection will not answer.
    fn unanswered(&self, ids: &[u64]);
    /// The node wants to be left alone for a while.
    fn shuns(&self, conn: &Conn);
    /// The connection is no more. `faulty`: not ended in order while nothing was in flight.
    fn lost(&self, conn: &Arc<Conn>, faulty: bool);
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoConn {
    /// Nobody answers.
    Unreachable,
    /// The node will not have this client, whenever it asks.
    Refused(Error),
}

impl From<std::io::Error> for NoConn {
    fn from(_: std::io::Error) -> NoConn {
        NoConn::Unreachable
    }
}

/// What was read and not understood yet.
#[derive(Debug)]
struct Input {
    bytes: Vec<u8>,
    filled: usize,
}

impl Input {
    /// Reads once; false at the end of the stream.
    fn fill(&mut self, stream: &Transport) -> std::io::Result<bool> {
        if self.filled == self.bytes.len() {
            self.bytes.resize(2 * self.filled, 0);
        }
        loop {
            match stream.read(&mut self.bytes[self.filled..]) {
                Ok(received) => {
                    self.filled += received;
                    return Ok(received > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn forget(&mut self, used: usize) {
        self.bytes.copy_within(used..self.filled, 0);
        self.filled -= used;
    }
}

/// Connects to a node, says Hello, and starts the thread that reads.
pub(crate) fn dial(
    node: usize,
    options: &Options,
    ears: Arc<impl Ears>,
) -> Result<Arc<Conn>, NoConn> {
    let address = options.nodes.get(node).ok_or(NoConn::Unreachable)?;
    let mut found = Err(NoConn::Unreachable);
    for socket in address.to_socket_addrs()? {
        found = TcpStream::connect_timeout(&socket, options.connect).map_err(NoConn::from);
        if found.is_ok() {
            break;
        }
    }
    let stream = found?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(options.connect))?;
    // A node that does not read for so long is gone: callers cannot wait for it.
    stream.set_write_timeout(Some(options.deadline_of(false).max(Duration::from_millis(100))))?;
    let stream = Transport::new(stream, address, options)?;
    greet(&stream, options)?;
    let mut input = Input { bytes: vec![0; READ_LEN], filled: 0 };
    let welcome = welcomed(&stream, &mut input, options.connect);
    if input.bytes[..input.filled].starts_with(b"HTTP/") {
        return Err(NoConn::Refused(Error::WrongDoor(address.clone())));
    }
    let (batch_max, version) = welcome?;
    stream.socket().set_read_timeout(None)?;
    let conn = Arc::new(Conn {
        node,
        batch_max: if options.batch_max == 0 {
            batch_max
        } else {
            batch_max.min(options.batch_max)
        },
        version,
        answer: options.answer,
        stream,
        out: Mutex::default(),
        flights: Flights::default(),
        gathered: Mutex::default(),
        enough: Condvar::new(),
    });
    let reading = Arc::clone(&conn);
    let name = "weir-client-read".to_string();
    std::thread::Builder::new().name(name).spawn(move || reading.read(input, ears.as_ref()))?;
    Ok(conn)
}

fn greet(stream: &Transport, options: &Options) -> Result<(), NoConn> {
    let block = hello::Block::new(wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION, 0);
    let mut frame = vec![0; hello::encoded_len(options.auth.len(), options.name.len())];
    let encoded = hello::encode(&mut frame, &block)
        .and_then(|encoder| encoder.auth(&options.auth)?.name(&options.name))
        .map(hello::Encoder::finish);
    let len = encoded.map_err(|error| NoConn::Refused(Error::Options(error.to_string())))?;
    stream.write_all(&frame[..len])?;
    Ok(())
}

/// Reads the answer to Hello; entries that a frame may hold, and the version that both use.
fn welcomed(
    stream: &Transport,
    input: &mut Input,
    limit: Duration,
) -> Result<(usize, u16), NoConn> {
    let until = Instant::now() + limit;
    loop {
        let split = wire::frame::split(&input.bytes[..input.filled], FRAME_BYTES_MAX);
        if let Split::Frame(frame) = split.map_err(|_| NoConn::Unreachable)? {
            let welcome = welcome(frame)?;
            let used = frame.len();
            input.forget(used);
            return Ok(welcome);
        }
        if Instant::now() > until || !input.fill(stream)? {
            return Err(NoConn::Unreachable);
        }
    }
}

fn welcome(frame: &[u8]) -> Result<(usize, u16), NoConn> {
    match Message::decode(frame) {
        Ok(Message::Welcome(welcome)) => {
            let found = welcome.version();
            let (min, max) = (wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION);
            if !(min..=max).contains(&found) {
                let text = format!("the node says {found}, this client reads {min} to {max}");
                return Err(NoConn::Refused(Error::Version(text)));
            }
            Ok((usize::from(welcome.batch_max()).max(1), found))
        }
        Ok(Message::Refused(refused)) => {
            let detail = refused.detail().unwrap_or("").to_string();
            Err(match refused.reason() {
                Some(Reason::Unauthorised) => NoConn::Refused(Error::Unauthorised(detail)),
                Some(Reason::VersionUnsupported) => NoConn::Refused(Error::Version(detail)),
                _ => NoConn::Unreachable,
            })
        }
        _ => Err(NoConn::Unreachable),
    }
}

impl Conn {
    /// Ends the connection; its thread finds out.
    pub(crate) fn end(&self) {
        self.stream.end();
    }

    /// Waits for room for a frame of asks.
    pub(crate) fn wait_for_room(&self, until: Instant) -> Result<(), NoPlace> {
        let waited = self.flights.wait_for_room(until);
        if waited == Err(NoPlace::Full) {
            self.end_if_silent();
        }
        waited
    }

    /// Ends a connection that is full of frames which its node does not answer: another one may do better.
    pub(crate) fn end_if_silent(&self) {
        if self.flights.oldest().is_some_and(|since| since.elapsed() > self.answer) {
            self.end();
        }
    }

    /// Sends frames of asks, as many as there is room for. `next` gives the asks of the next frame and notes whose they are; it says
    /// `None` when there are no more. True if all were sent.
    pub(crate) fn send_asks<'a>(
        &self,
        flags: DecideFlags,
        mut next: impl FnMut() -> Option<(&'a [decide::Ask], Part)>,
        pending: &mut Option<(&'a [decide::Ask], Part)>,
    ) -> Result<bool, NoPlace> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.clear();
        let mut ended = Ok(true);
        while let Some((asks, part)) = pending.take().or_else(&mut next) {
            match self.flights.ask(|parts| parts.push(part.clone())) {
                Ok(frame) => write_asks(&mut out, frame, flags, asks),
                Err(NoPlace::Full) => {
                    *pending = Some((asks, part));
                    ended = Ok(false);
                    break;
                }
                Err(NoPlace::Lost) => {
                    *pending = Some((asks, part));
                    ended = Err(NoPlace::Lost);
                    break;
                }
            }
        }
        self.flush(&out);
        ended
    }

    /// Sends one frame that several callers have asks in.
    fn send_gathered(
        &self,
        asks: &[decide::Ask],
        parts: &mut Vec<Part>,
        flags: DecideFlags,
        until: Instant,
    ) {
        let sent = self.wait_for_room(until).and_then(|()| {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            out.clear();
            let frame = self.flights.ask(|room| room.extend_from_slice(parts))?;
            write_asks(&mut out, frame, flags, asks);
            self.flush(&out);
            Ok(())
        });
        let verdict = match sent {
            Ok(()) => return,
            Err(NoPlace::Full) => Verdict::TIMEOUT,
            Err(NoPlace::Lost) => Verdict::UNREACHABLE,
        };
        parts.drain(..).for_each(|part| part.refuse(verdict, None));
    }

    /// Adds an ask to those that wait for a frame. The first of them waits for the others, and sends the frame.
    pub(crate) fn gather(
        &self,
        ask: decide::Ask,
        part: Part,
        flags: DecideFlags,
        linger: Duration,
        until: Instant,
    ) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.asks.push(ask);
        gathered.parts.push(part);
        if gathered.asks.len() >= self.batch_max {
            let (asks, mut parts) =
                (std::mem::take(&mut gathered.asks), std::mem::take(&mut gathered.parts));
            drop(gathered);
            self.enough.notify_all();
            self.send_gathered(&asks, &mut parts, flags, until);
            return;
        }
        if gathered.asks.len() > 1 {
            return;
        }
        let mine = gathered.parts.first().map(|part| (Arc::as_ptr(&part.call), part.round));
        let end = (Instant::now() + linger).min(until);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let first = gathered.parts.first().map(|part| (Arc::as_ptr(&part.call), part.round));
            if first != mine {
                return;
            }
            if left.is_zero() {
                break;
            }
            let waited = self.enough.wait_timeout(gathered, left);
            gathered = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (asks, mut parts) =
            (std::mem::take(&mut gathered.asks), std::mem::take(&mut gathered.parts));
        drop(gathered);
        self.send_gathered(&asks, &mut parts, flags, until);
    }

    /// Asks which budget a handle stands for.
    pub(crate) fn find(&self, handle: &str, until: Instant) -> Found {
        if self.version < FIND_VERSION {
            return Found::Refused(Verdict::UNSUPPORTED);
        }
        if handle.is_empty() || handle.len() > wire::HANDLE_BYTES_MAX {
            return Found::Refused(Verdict::UNKNOWN_BUDGET);
        }
        let said = self.question(until, |frame, out| {
            out.resize(find::encoded_len(handle.len()), 0);
            let encoder = find::encode(out, &find::Block::new(frame))?;
            Ok(encoder.handle(handle)?.finish())
        });
        match said {
            Said::Found(found) => found,
            Said::Nothing(why) => Found::Refused(why),
            Said::Extended(_) => Found::Refused(Verdict::UNREACHABLE),
        }
    }

    /// Asks for a later end of a hold.
    pub(crate) fn extend(&self, token: Token, confirm_ms: u32, until: Instant) -> Extended {
        if self.version < EXTEND_VERSION {
            return Extended::no(Verdict::UNSUPPORTED);
        }
        let said = self.question(until, |frame, out| {
            out.resize(extend::encoded_len(1), 0);
            let encoder = extend::encode(out, &extend::Block::new(frame))?;
            Ok(encoder.holds(&[extend::Hold::new(token.0, confirm_ms)])?.finish())
        });
        match said {
            Said::Extended(extended) => extended,
            Said::Nothing(why) => Extended::no(why),
            Said::Found(_) => Extended::no(Verdict::UNREACHABLE),
        }
    }

    /// Sends a question in a frame of its own, and waits for what the node says to it.
    fn question(
        &self,
        until: Instant,
        write: impl FnOnce(u64, &mut Vec<u8>) -> Result<usize, wire::EncodeError>,
    ) -> Said {
        let lookup = Arc::new(Lookup::default());
        let sent = self.wait_for_room(until).and_then(|()| {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            let frame = self.flights.question(&lookup)?;
            out.clear();
            let written = write(frame, &mut out);
            debug_assert!(written.is_ok(), "encoded_len is the length that encode needs");
            out.truncate(written.unwrap_or(0));
            self.flush(&out);
            Ok(())
        });
        match sent {
            Ok(()) => lookup.wait(until),
            Err(NoPlace::Full) => Said::Nothing(Verdict::TIMEOUT),
            Err(NoPlace::Lost) => Said::Nothing(Verdict::UNREACHABLE),
        }
    }

    /// Sends one frame of resolves, known to the outbox by their ids.
    pub(crate) fn send_resolves(
        &self,
        ids: &[u64],
        entries: &[resolve::Item],
    ) -> Result<(), NoPlace> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = self.flights.resolve(ids)?;
        out.clear();
        let len = resolve::encoded_len(entries.len());
        out.resize(len, 0);
        let block = resolve::Block::new(frame);
        let written =
            resolve::encode(&mut out, &block).and_then(|encoder| encoder.resolves(entries));
        debug_assert!(written.is_ok(), "encoded_len is the length that encode needs");
        let written = written.map_or(0, resolve::Encoder::finish);
        out.truncate(written);
        self.flush(&out);
        Ok(())
    }

    fn flush(&self, out: &[u8]) {
        if !out.is_empty() && self.stream.write_all(out).is_err() {
            self.end();
        }
    }

    /// Reads until the connection ends.
    fn read(self: Arc<Self>, mut input: Input, ears: &impl Ears) {
        let mut reader = Reader::default();
        let faulty = loop {
            match self.understand(&mut input, &mut reader, ears) {
                Ok(()) => {}
                Err(()) => break true,
            }
            match input.fill(&self.stream) {
                Ok(true) => {}
                Ok(false) => break !self.flights.is_idle(),
                Err(_) => break true,
            }
        };
        self.end();
        let (mut parts, mut ids, mut lookups) = (Vec::new(), Vec::new(), Vec::new());
        self.flights.lose(&mut parts, &mut ids, &mut lookups);
        // First it leaves the pool, so that whoever hears of this looks for another.
        ears.lost(&self, faulty);
        parts.iter().for_each(|part| part.refuse(Verdict::UNREACHABLE, None));
        lookups.iter().for_each(|lookup| lookup.tell(Said::Nothing(Verdict::UNREACHABLE)));
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.asks.clear();
        let waiting = std::mem::take(&mut gathered.parts);
        drop(gathered);
        self.enough.notify_all();
        waiting.iter().for_each(|part| part.refuse(Verdict::UNREACHABLE, None));
        ears.unanswered(&ids);
    }

    /// Reads all whole frames; an error means that the node does not speak the protocol.
    fn understand(
        &self,
        input: &mut Input,
        reader: &mut Reader,
        ears: &impl Ears,
    ) -> Result<(), ()> {
        let mut used = 0;
        loop {
            match wire::frame::split(&input.bytes[used..input.filled], FRAME_BYTES_MAX) {
                Ok(Split::Frame(frame)) => {
                    used += frame.len();
                    self.frame(frame, reader, ears)?;
                }
                Ok(Split::Incomplete { .. }) => break,
                Err(_) => return Err(()),
            }
        }
        input.forget(used);
        Ok(())
    }

    fn frame(&self, frame: &[u8], reader: &mut Reader, ears: &impl Ears) -> Result<(), ()> {
        match Message::decode(frame) {
            Ok(Message::Decided(decided)) => {
                // An answer to nothing may be a second answer: its tokens may be in use. They are left to their deadline.
                if !self.flights.take_asks(decided.frame(), &mut reader.parts) {
                    return Ok(());
                }
                let is_cut_off = |raw| Verdict::of_code(raw) == Verdict::CUT_OFF;
                if decided.answers().iter().any(|answer| is_cut_off(answer.verdict_raw())) {
                    ears.shuns(self);
                }
                let mut answers = decided.answers().iter();
                let asked: usize = reader.parts.iter().map(|part| part.count).sum();
                for part in &reader.parts {
                    part.answer(answers.by_ref().take(part.count), &mut reader.late);
                }
                if !reader.late.is_empty() {
                    ears.late(self, &mut reader.late);
                }
                if asked == decided.answers().len() { Ok(()) } else { Err(()) }
            }
            Ok(Message::Resolved(resolved)) => {
                if !self.flights.take_resolves(resolved.frame(), &mut reader.ids) {
                    return Ok(());
                }
                let answers = resolved.answers();
                for (id, answer) in reader.ids.iter().zip(answers.iter()) {
                    let verdict = Verdict::of_code(answer.verdict_raw());
                    if verdict == Verdict::CUT_OFF {
                        ears.shuns(self);
                    }
                    ears.resolved(self, *id, verdict, answer.flags().repeat());
                }
                let left = reader.ids.get(answers.len()..).unwrap_or(&[]);
                ears.unanswered(left);
                if reader.ids.len() == answers.len() { Ok(()) } else { Err(()) }
            }
            Ok(Message::Found(found)) => {
                if let Some(lookup) = self.flights.take_lookup(found.frame()) {
                    lookup.tell(Said::Found(budget_of(&found)));
                }
                Ok(())
            }
            Ok(Message::Extended(extended)) => {
                if let (Some(lookup), Some(answer)) =
                    (self.flights.take_lookup(extended.frame()), extended.answers().get(0))
                {
                    lookup.tell(Said::Extended(Extended {
                        verdict: Verdict::of_code(answer.verdict_raw()),
                        repeat: answer.flags().repeat(),
                        deadline_ms: answer.deadline_ms(),
                    }));
                }
                Ok(())
            }
            Ok(Message::Refused(refused)) => {
                self.refused(&refused, reader, ears);
                Ok(())
            }
            // Of a later version, or nothing that this client asked for.
            Ok(_) | Err(wire::FrameError::UnknownTemplate { .. }) => Ok(()),
            Err(_) => Err(()),
        }
    }

    fn refused(&self, refused: &wire::Refused<'_>, reader: &mut Reader, ears: &impl Ears) {
        let reason = refused.reason();
        // A reason of a later version is one to look for another node.
        if matches!(reason, None | Some(Reason::ShuttingDown)) {
            ears.shuns(self);
        }
        let frame = refused.frame();
        if self.flights.take_asks(frame, &mut reader.parts) {
            let (verdict, error) = match reason {
                Some(Reason::Busy) => (Verdict::BUSY, None),
                Some(Reason::Journal) => (Verdict::JOURNAL, None),
                None | Some(Reason::ShuttingDown) => (Verdict::UNREACHABLE, None),
                Some(reason) => {
                    let detail = refused.detail().unwrap_or("").to_string();
                    let error = Error::Refused { reason: reason.name().to_string(), detail };
                    (Verdict::UNREACHABLE, Some(error))
                }
            };
            reader.parts.iter().for_each(|part| part.refuse(verdict, error.clone()));
        } else if self.flights.take_resolves(frame, &mut reader.ids) {
            ears.unanswered(&reader.ids);
        } else if let Some(lookup) = self.flights.take_lookup(frame) {
            let verdict = match reason {
                Some(Reason::Busy) => Verdict::BUSY,
                Some(Reason::Journal) => Verdict::JOURNAL,
                _ => Verdict::UNREACHABLE,
            };
            lookup.tell(Said::Nothing(verdict));
        }
    }
}

fn budget_of(found: &wire::Found<'_>) -> Found {
    let verdict = Verdict::of_code(found.verdict_raw());
    if !verdict.is_granted() {
        return Found::Refused(verdict);
    }
    // A unit that this client is too old to know is left out.
    let unit = money::Unit::from_code(found.unit()).ok().flatten();
    Found::Budget(Budget { id: found.budget_id(), unit })
}

/// Room of the reading thread, used again for each frame.
#[derive(Debug, Default)]
struct Reader {
    parts: Vec<Part>,
    ids: Vec<u64>,
    late: Vec<Token>,
}

fn write_asks(out: &mut Vec<u8>, frame: u64, flags: DecideFlags, asks: &[decide::Ask]) {
    let begin = out.len();
    out.resize(begin + decide::encoded_len(asks.len()), 0);
    let block = decide::Block::new(frame, flags);
    let written = decide::encode(&mut out[begin..], &block).and_then(|encoder| encoder.asks(asks));
    debug_assert!(written.is_ok(), "encoded_len is the length that encode needs");
    let written = written.map_or(0, decide::Encoder::finish);
    out.truncate(begin + written);
}
