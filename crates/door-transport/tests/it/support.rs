//! A framed service whose messages say what the test wants, and a client.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use door_transport::tls::Secured;
use door_transport::{
    CloseReason, ConnId, Handle, Listener, Listeners, Options, Out, Outbox, Peer, RunError,
    Service, Step, TaskRun, Transport, Turn, choose, run,
};
use table::SplitMix64;

/// Nothing in these tests takes longer on a healthy machine, however busy.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The largest frame the service itself accepts.
pub const FRAME_BYTES_MAX: usize = 1 << 21;

/// No time-out but those that a test is about: a busy machine keeps any thread off its core for seconds.
fn patient() -> Options {
    Options {
        receive_buffers: 64,
        idle_ms_max: 0,
        partial_ms_max: 0,
        stalled_ms_max: 0,
        stop_grace_ms_max: 60_000,
        ..Options::default()
    }
}

/// Runs one case over one backend, unless the kernel has it not.
pub fn over(backend: &str, case: fn(Options)) {
    let (transport, cooperative) = match backend {
        "epoll" => (Transport::Epoll, TaskRun::Defer),
        "io_uring-defer" => (Transport::IoUring, TaskRun::Defer),
        _ => (Transport::IoUring, TaskRun::Coop),
    };
    // The pool of rings is small memory, but many tests run side by side.
    let options = Options { transport, cooperative, ..patient() };
    match choose(&options) {
        Ok(_) => case(options),
        #[allow(clippy::print_stdout, reason = "the reason of a skipped test is its result")]
        Err(refusal) => println!("skipped: {refusal}"),
    }
}

/// What the service does and saw; shared with the test.
#[derive(Default)]
pub struct Shared {
    pub opened: Vec<(ConnId, Peer, usize)>,
    pub closed: Vec<(ConnId, CloseReason)>,
    /// What each TLS handshake agreed on.
    pub secured: Vec<Shown>,
    /// Payloads of `L` frames: to be answered in a turn, by the test's leave or at a stop.
    pub later: VecDeque<(ConnId, Vec<u8>)>,
    /// Answers from outside: written in the next turn.
    pub outside: VecDeque<(ConnId, Vec<u8>)>,
    /// For each outside answer: whether its connection was reached.
    pub reached: Vec<bool>,
    /// Whether `L` frames may be answered when a stop begins.
    pub answer_at_stop: bool,
    /// `L` frames are owed their answers also when their sender has finished sending.
    pub owes: bool,
    pub turns: u64,
    pub turn: Option<Turn>,
}

/// What a handshake showed the service.
#[derive(Debug)]
pub struct Shown {
    pub alpn: Option<Vec<u8>>,
    pub certificate: Option<Vec<u8>>,
    pub common_name: Option<String>,
    pub dns_names: Vec<String>,
}

/// Frames: a 4-byte length, a command byte, a payload.
/// `E` echo, `B` answer with as many bytes as the number in the payload, `L` answer later, `W` the same
/// and read no further before, `C` echo and close after output, `X` close at once, `P` panic.
pub struct Framed(pub Arc<Mutex<Shared>>);

impl Framed {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub fn frame(command: u8, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len() + 1).unwrap();
    let mut bytes = size.to_le_bytes().to_vec();
    bytes.push(command);
    bytes.extend_from_slice(payload);
    bytes
}

impl Service for Framed {
    type Conn = u64;

    fn opened(&mut self, id: ConnId, peer: Peer, door: usize) -> u64 {
        self.shared().opened.push((id, peer, door));
        0
    }

    fn secured(&mut self, _: ConnId, seen: &mut u64, secured: &Secured<'_>) {
        assert_eq!(*seen, 0, "before any bytes");
        self.shared().secured.push(Shown {
            alpn: secured.alpn().map(<[u8]>::to_vec),
            certificate: secured.certificate().map(<[u8]>::to_vec),
            common_name: secured.common_name(),
            dns_names: secured.dns_names(),
        });
    }

    fn received(&mut self, id: ConnId, seen: &mut u64, input: &[u8], out: &mut Out<'_>) -> Step {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let Some(head) = rest.first_chunk::<4>() else {
                return Step::Read { consumed: at, need: 0 };
            };
            let size = u32::from_le_bytes(*head) as usize;
            if size == 0 || size > FRAME_BYTES_MAX {
                out.write(&frame(b'!', b"refused"));
                return Step::Close { consumed: at, after_output: true };
            }
            let Some(message) = rest.get(4..4 + size) else {
                return Step::Read { consumed: at, need: 4 + size };
            };
            if out.room() == 0 {
                return Step::Read { consumed: at, need: 0 };
            }
            at += 4 + size;
            *seen += 1;
            let (command, payload) = message.split_at(1);
            match command[0] {
                b'E' => out.write(&rest[..4 + size]),
                b'B' => {
                    let count: usize = str::from_utf8(payload).unwrap().parse().unwrap();
                    out.write(&frame(b'B', &vec![b'b'; count]));
                }
                b'L' => self.shared().later.push_back((id, payload.to_vec())),
                b'W' => {
                    self.shared().later.push_back((id, payload.to_vec()));
                    return Step::Pause { consumed: at };
                }
                b'C' => {
                    out.write(&rest[..4 + size]);
                    return Step::Close { consumed: at, after_output: true };
                }
                b'X' => return Step::Close { consumed: at, after_output: false },
                b'P' => panic!("asked to"),
                _ => {
                    out.write(&frame(b'!', b"refused"));
                    return Step::Close { consumed: at, after_output: true };
                }
            }
        }
    }

    fn owes(&self, id: ConnId, _: &u64) -> bool {
        let shared = self.shared();
        shared.owes && shared.later.iter().chain(&shared.outside).any(|(of, _)| *of == id)
    }

    fn closed(&mut self, id: ConnId, _: u64, why: CloseReason) {
        self.shared().closed.push((id, why));
    }

    fn turn(&mut self, outbox: &mut Outbox<'_, u64>) -> Turn {
        let mut shared = self.shared();
        shared.turns += 1;
        if outbox.stopping() && shared.answer_at_stop {
            let later = std::mem::take(&mut shared.later);
            shared.outside.extend(later);
        }
        while let Some((id, payload)) = shared.outside.pop_front() {
            let reached = outbox.with(id, |_, out| out.write(&frame(b'L', &payload))).is_some();
            shared.reached.push(reached);
            outbox.resume(id);
        }
        let drained = shared.later.is_empty();
        Turn { drained, ..shared.turn.unwrap_or(Turn::IDLE) }
    }
}

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    pub handle: Handle,
    pub shared: Arc<Mutex<Shared>>,
    pub thread: Option<JoinHandle<Result<Framed, RunError>>>,
}

impl Server {
    pub fn start(options: Options) -> Self {
        let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        Self::start_on(listeners, options)
    }

    pub fn start_on(listeners: Vec<Listener>, options: Options) -> Self {
        let address = listeners.iter().find_map(Listener::local_addr);
        let handle = Handle::new().unwrap();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (service, remote) = (Framed(Arc::clone(&shared)), handle.clone());
        let thread = thread::spawn(move || run(listeners, &options, service, &remote));
        let address = address.unwrap_or_else(|| "0.0.0.0:0".parse().unwrap());
        Self { address, handle, shared, thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        Client::over(TcpStream::connect(self.address).unwrap())
    }

    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until `reason` was counted `count` times.
    pub fn wait_closed(&self, reason: CloseReason, count: u64) {
        wait_for(|| self.handle.counters().closed(reason) >= count, reason.name());
    }

    /// Stops and checks that nothing is left.
    pub fn stop(mut self) {
        self.handle.stop();
        self.join();
        let shared = self.shared();
        assert_eq!(shared.opened.len(), shared.closed.len(), "each end is told once");
        let counters = self.handle.counters();
        assert_eq!(counters.connections.get(), 0);
        assert_eq!((counters.output_bytes.get(), counters.input_bytes.get()), (0, 0));
    }

    pub fn join(&mut self) {
        let thread = self.thread.take().unwrap();
        let end = Instant::now() + PATIENCE;
        while !thread.is_finished() {
            assert!(Instant::now() < end, "the loop does not end");
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap().unwrap();
    }
}

/// Waits for a condition that other threads bring about.
pub fn wait_for(condition: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "still waiting for: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The other end of a connection; every call is bounded by [`PATIENCE`].
pub struct Client<T = TcpStream>(pub T);

impl Client {
    pub fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self(socket)
    }
}

impl<T: Read + Write> Client<T> {
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn expect(&mut self, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        self.0.read_exact(&mut got).unwrap();
        assert!(got == bytes, "the answer differs");
    }

    /// Reads until the end of the stream, or a reset.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Ok(_) => all,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => all,
            Err(error) => panic!("no end of the stream: {error}"),
        }
    }

    pub fn echo(&mut self, payload: &[u8]) {
        let bytes = frame(b'E', payload);
        self.send(&bytes);
        self.expect(&bytes);
    }
}

/// Numbers that only depend on the seed.
pub struct Dice(SplitMix64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(SplitMix64::new(seed))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).unwrap()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256).to_le_bytes()[0]).collect()
    }
}

/// A running service of a test's own.
pub struct Running {
    pub address: SocketAddr,
    pub handle: Handle,
    thread: JoinHandle<()>,
}

/// Runs `service` behind `listeners`.
pub fn start<S: Service + Send + 'static>(
    listeners: Vec<Listener>,
    options: Options,
    service: S,
) -> Running {
    let address = listeners.iter().find_map(Listener::local_addr);
    let address = address.unwrap_or_else(|| "0.0.0.0:0".parse().unwrap());
    let handle = Handle::new().unwrap();
    let remote = handle.clone();
    let thread = thread::spawn(move || drop(run(listeners, &options, service, &remote).unwrap()));
    Running { address, handle, thread }
}

/// One listener on a free port.
pub fn listener() -> Vec<Listener> {
    Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap()
}

impl Running {
    pub fn client(&self) -> Client {
        Client::over(TcpStream::connect(self.address).unwrap())
    }

    pub fn stop(self) {
        self.handle.stop();
        wait_for(|| self.thread.is_finished(), "the end of the loop");
        self.thread.join().unwrap();
        let counters = self.handle.counters();
        assert_eq!(counters.connections.get(), 0);
        assert_eq!((counters.output_bytes.get(), counters.input_bytes.get()), (0, 0));
    }
}
