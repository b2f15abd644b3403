//! A door, a gate that only counts, and a client.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use access::{LiveTokens, Principal, TokenFile};
use door_batch::{Denied, Gate, Limits, Question, Session};
use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, RunError, Service, Step,
    Transport, Turn, choose, run,
};
use wire::{
    Decide, DecideFlags, EncodeError, Extend, Reason, Resolve, Split, Verdict, decide, decided,
    frame, hello, ping, resolve, welcome,
};

/// Nothing here takes longer on a healthy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// What the gate lets in.
pub(crate) const AUTH: &[u8] = b"secret";
/// Principals: one for all budgets, one for some.
pub(crate) const TOKENS: &str =
    "whole spend whole-0123456789\nsome spend some-01234567890 budget:1001\n";
pub(crate) const WHOLE: &[u8] = b"whole-0123456789";
pub(crate) const SOME: &[u8] = b"some-01234567890";
/// What the door takes.
pub(crate) const LIMITS: Limits = Limits { batch_max: 8, frame_bytes_max: 4_096 };

/// What the gate was asked.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asks: usize,
    pub(crate) clients: Vec<u64>,
    pub(crate) limited: Vec<bool>,
    pub(crate) resolves: usize,
    pub(crate) questions: Vec<Question>,
    pub(crate) refused: Vec<Reason>,
}

struct Counting(Arc<Mutex<Seen>>, LiveTokens);

impl Gate for Counting {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn enter(&self, token: &[u8]) -> Result<Option<Arc<Principal>>, Denied> {
        if token == AUTH {
            return Ok(None);
        }
        self.1.file().find(token).cloned().map(Some).ok_or(Denied::Unknown)
    }

    fn tokens_number(&self) -> u32 {
        self.1.view().number()
    }

    fn enter_again(&self, principal: &Principal) -> Result<Arc<Principal>, Denied> {
        self.1.file().find_again(principal).cloned().ok_or(Denied::Unknown)
    }

    fn welcome(&self) -> welcome::Block {
        welcome::Block::new(99, 7, 1, 8, 0, LIMITS.frame_bytes_max, 2_000, 3_600_000, 5)
    }

    fn now_ms(&self) -> u64 {
        5
    }

    fn snapshot(&self) -> u32 {
        3
    }

    fn decide(
        &mut self,
        client: &door_batch::Client,
        batch: &Decide<'_>,
        answers: &mut [decided::Answer],
    ) {
        let mut seen = self.0.lock().unwrap();
        seen.asks += answers.len();
        seen.clients.push(client.id);
        seen.limited.push(client.is_limited());
        for (answer, ask) in answers.iter_mut().zip(batch.asks()) {
            let first = ask.request_id().to_le_bytes()[0];
            *answer = decided::Answer::new([first; 32], Verdict::Granted);
        }
    }

    /// Takes none: the answers would come from elsewhere.
    fn resolve(&mut self, _: ConnId, batch: &Resolve<'_>) -> Result<(), Reason> {
        self.0.lock().unwrap().resolves += batch.resolves().len();
        Err(Reason::Busy)
    }

    fn extend(&mut self, _: ConnId, batch: &Extend<'_>) -> Result<(), Reason> {
        self.0.lock().unwrap().resolves += batch.holds().len();
        Err(Reason::Busy)
    }

    fn question(&mut self, _: ConnId, question: Question) -> Result<(), Reason> {
        self.0.lock().unwrap().questions.push(question);
        Err(Reason::ShuttingDown)
    }

    /// Knows one at once, and never answers for those that begin with `later`.
    fn find(
        &mut self,
        _: ConnId,
        client: &door_batch::Client,
        _: u64,
        handle: &str,
    ) -> Option<door_batch::Found> {
        let known = door_batch::Budget { id: 1_001, unit: *b"USD\0" };
        match handle {
            "known" if !client.is_limited() => Some(Ok(known)),
            later if later.starts_with("later") => None,
            _ => Some(Err(Verdict::UnknownBudget)),
        }
    }

    fn refused(&mut self, reason: Reason) {
        self.0.lock().unwrap().refused.push(reason);
    }
}

struct Door(Counting);

impl Service for Door {
    type Conn = Session;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> Session {
        Session::default()
    }

    fn received(&mut self, id: ConnId, s: &mut Session, input: &[u8], out: &mut Out<'_>) -> Step {
        s.received(id, input, out, &mut self.0)
    }

    fn closed(&mut self, _: ConnId, _: Session, _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, Session>) -> Turn {
        Turn::IDLE
    }
}

/// A running door; stopped, and its thread judged, when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    handle: Handle,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) tokens: LiveTokens,
    thread: Option<JoinHandle<Result<Door, RunError>>>,
}

impl Server {
    pub(crate) fn start(options: Options) -> Server {
        let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let (handle, seen) = (Handle::new().unwrap(), Arc::default());
        let tokens = LiveTokens::new(TokenFile::parse(TOKENS).unwrap());
        let (remote, door) = (handle.clone(), Door(Counting(Arc::clone(&seen), tokens.clone())));
        let thread = std::thread::spawn(move || run(listeners, &options, door, &remote));
        Server { address, handle, seen, tokens, thread: Some(thread) }
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            assert!(matches!(ended, Ok(Ok(_))), "the door panicked or failed");
        }
    }
}

/// Runs a case over each event loop; skips, with the reason, what the kernel refuses. Without time-outs: a busy machine
/// keeps any thread off its core for seconds.
pub(crate) fn over_transports(options: &Options, case: impl Fn(&Server)) {
    for transport in [Transport::Epoll, Transport::IoUring] {
        let options = Options {
            transport,
            receive_buffers: 64,
            idle_ms_max: 0,
            partial_ms_max: 0,
            stalled_ms_max: 0,
            ..options.clone()
        };
        match choose(&options) {
            Ok(_) => case(&Server::start(options)),
            Err(refusal) => println!("skipped: {refusal}"),
        }
    }
}

/// One connection.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Reads so many whole frames.
    pub(crate) fn receive_frames(&mut self, count: usize) {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4_096]);
        while whole_frames(&bytes) < count {
            let read = match self.0.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            assert!(read > 0, "the door closed the connection");
            bytes.extend_from_slice(&piece[..read]);
        }
    }

    /// Says all of it, in pieces, and reads what the door says until it ends the connection.
    pub(crate) fn exchange(mut self, bytes: &[u8], piece: usize) -> Vec<u8> {
        for piece in bytes.chunks(piece.max(1)) {
            // A door that had enough may reset the connection while we still talk.
            if self.0.write_all(piece).is_err() {
                break;
            }
        }
        let _ = self.0.shutdown(Shutdown::Write);
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("no end: {error}"),
        }
        all
    }
}

fn whole_frames(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(Split::Frame(frame)) = frame::split(bytes, 1 << 20) {
        bytes = &bytes[frame.len()..];
        count += 1;
    }
    count
}

/// Cuts the door's output into frames; all of it must be whole frames.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let Split::Frame(frame) = frame::split(bytes, 1 << 20).unwrap() else {
            panic!("{} bytes of half a frame", bytes.len());
        };
        frames.push(frame.to_vec());
        bytes = &bytes[frame.len()..];
    }
    frames
}

fn encoded(len: usize, encode: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; len];
    let written = encode(&mut buf).unwrap();
    buf.truncate(written);
    buf
}

pub(crate) fn hello_frame(client: u64, auth: &[u8]) -> Vec<u8> {
    hello_of_versions(1, 1, client, auth)
}

pub(crate) fn hello_of_versions(min: u16, max: u16, client: u64, auth: &[u8]) -> Vec<u8> {
    encoded(hello::encoded_len(auth.len(), 1), |buf| {
        let block = hello::Block::new(min, max, client);
        Ok(hello::encode(buf, &block)?.auth(auth)?.name("x")?.finish())
    })
}

pub(crate) fn decide_frame(number: u64, count: usize) -> Vec<u8> {
    let asks: Vec<_> =
        (0..count).map(|i| decide::Ask::new(i as u64, 1, 1, 1, [0; 4], 0, 0)).collect();
    encoded(decide::encoded_len(count), |buf| {
        let block = decide::Block::new(number, DecideFlags::default());
        Ok(decide::encode(buf, &block)?.asks(&asks)?.finish())
    })
}

pub(crate) fn resolve_frame(number: u64, count: usize) -> Vec<u8> {
    let items = vec![resolve::Item::new([1; 32], 1, wire::Action::Settle, 0); count];
    encoded(resolve::encoded_len(count), |buf| {
        Ok(resolve::encode(buf, &resolve::Block::new(number))?.resolves(&items)?.finish())
    })
}

pub(crate) fn ping_frame(number: u64) -> Vec<u8> {
    encoded(ping::encoded_len(), |buf| Ok(ping::encode(buf, &ping::Block::new(number))?.finish()))
}

pub(crate) fn books_frame(number: u64, max: u16) -> Vec<u8> {
    encoded(wire::books_request::encoded_len(), |buf| {
        let block = wire::books_request::Block::new(number, 0, max);
        Ok(wire::books_request::encode(buf, &block)?.finish())
    })
}

pub(crate) fn find_frame(frame: u64, handle: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; wire::find::encoded_len(handle.len())];
    let text = "x".repeat(handle.len());
    let encoder = wire::find::encode(&mut bytes, &wire::find::Block::new(frame)).unwrap();
    encoder.handle(&text).unwrap().finish();
    // Whatever the bytes are.
    let at = bytes.len() - handle.len();
    bytes[at..].copy_from_slice(handle);
    bytes
}
