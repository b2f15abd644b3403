//! Sessions without sockets in between: the test says what arrives in which piece, a worker's loop lends its
//! output. Only what was written there comes over a socket.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use door_http::{After, Limits, Refusal, Room, Session};
use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, RunError, Service, Step,
    Transport, Turn, run,
};

use crate::support::{LATE, REFUSED, Site};

/// Nothing here takes longer on a healthy machine, however busy.
pub const PATIENCE: Duration = Duration::from_secs(90);

type Job = Box<dyn FnOnce(ConnId, &mut Out<'_>, &mut Room) + Send>;

struct Worker {
    jobs: Receiver<Job>,
    room: Room,
    conn: Option<ConnId>,
}

impl Service for Worker {
    type Conn = ();

    fn opened(&mut self, id: ConnId, _: Peer, _: usize) {
        self.conn = Some(id);
    }

    fn received(&mut self, _: ConnId, (): &mut (), input: &[u8], _: &mut Out<'_>) -> Step {
        Step::Read { consumed: input.len(), need: 0 }
    }

    fn closed(&mut self, _: ConnId, (): (), _: CloseReason) {}

    fn turn(&mut self, outbox: &mut Outbox<'_, ()>) -> Turn {
        let Some(id) = self.conn else { return Turn::IDLE };
        let Some(((), mut out)) = outbox.to(id) else { return Turn::IDLE };
        while let Ok(job) = self.jobs.try_recv() {
            job(id, &mut out, &mut self.room);
        }
        Turn::IDLE
    }
}

/// A worker's loop that runs what it is given.
pub struct Workbench {
    jobs: Sender<Job>,
    handle: Handle,
    client: TcpStream,
    thread: Option<JoinHandle<Result<Worker, RunError>>>,
}

/// What came of a row of pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    pub output: Vec<u8>,
    pub refused: Vec<Refusal>,
    pub requests: usize,
    /// Bytes of the largest piece of a body that is taken in pieces.
    pub largest_piece: usize,
    pub closed: bool,
    /// Bytes that wait for more.
    pub left: usize,
    /// How often the session was called.
    pub calls: usize,
}

impl Workbench {
    pub fn start() -> Workbench {
        let options = Options {
            transport: Transport::Epoll,
            output_bytes_max: 1 << 30,
            output_total_bytes_max: 1 << 30,
            ..Options::default()
        };
        let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let (jobs, inbox) = channel();
        let handle = Handle::new().unwrap();
        let remote = handle.clone();
        let thread = thread::spawn(move || {
            let worker = Worker { jobs: inbox, room: Room::default(), conn: None };
            run(listeners, &options, worker, &remote)
        });
        let client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        Workbench { jobs, handle, client, thread: Some(thread) }
    }

    /// Runs `job` on the worker; gives what it wrote.
    pub fn run<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(ConnId, &mut Out<'_>, &mut Room) -> R + Send + 'static,
    ) -> (R, Vec<u8>) {
        let (sender, result) = channel();
        let boxed: Job = Box::new(move |id, out, room| {
            let before = out.len();
            let value = job(id, out, room);
            sender.send((value, out.len() - before)).unwrap();
        });
        self.jobs.send(boxed).unwrap();
        self.handle.waker().wake();
        let (value, count) = result.recv_timeout(PATIENCE).unwrap();
        let mut output = vec![0; count];
        self.client.read_exact(&mut output).unwrap();
        (value, output)
    }

    /// Gives a new session `bytes`, a piece at a time.
    pub fn play(&mut self, limits: Limits, pieces: Vec<Vec<u8>>) -> Played {
        let (mut played, output) =
            self.run(move |id, out, room| play(limits, &pieces, id, out, room));
        played.output = output;
        played
    }

    /// Gives a new session all of `bytes` at once.
    pub fn ask(&mut self, bytes: &[u8]) -> Played {
        self.play(Limits::default(), vec![bytes.to_vec()])
    }
}

impl Drop for Workbench {
    fn drop(&mut self) {
        // Else the loop waits for the client to end its stream too.
        let _ = self.client.shutdown(Shutdown::Both);
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        if !thread::panicking() {
            assert!(matches!(ended, Ok(Ok(_))), "the worker panicked or failed");
        }
    }
}

/// Does what the transport does: keeps what is unread, calls when as much is there as the session needs.
fn play(
    limits: Limits,
    pieces: &[Vec<u8>],
    id: ConnId,
    out: &mut Out<'_>,
    room: &mut Room,
) -> Played {
    let (mut session, mut site) = (Session::default(), Site::new(limits));
    let (mut input, mut need, mut calls, mut closed) = (Vec::new(), 0, 0, false);
    for piece in pieces {
        input.extend_from_slice(piece);
        while !closed && !input.is_empty() && input.len() >= need {
            calls += 1;
            match session.received(id, &input, out, room, &mut site) {
                Step::Read { consumed, need: wanted } => {
                    input.drain(..consumed);
                    need = wanted;
                    if consumed == 0 || need > input.len() {
                        break;
                    }
                }
                Step::Pause { consumed } => {
                    input.drain(..consumed);
                    need = 0;
                    let again = session.received(id, &input, out, room, &mut site);
                    assert_eq!(again, Step::Pause { consumed: 0 }, "it waits for the late answer");
                    if let Some((_, bytes)) = site.late_pieces.pop() {
                        let after = match bytes.contains(&b'!') {
                            true => session.fail_piece(out, &REFUSED),
                            false => session.send_piece(out, &bytes),
                        };
                        closed = after.unwrap() == After::Close;
                        assert!(session.send_piece(out, b"x").is_none(), "one answer is owed");
                        assert!(session.fail_piece(out, &REFUSED).is_none());
                        continue;
                    }
                    if let Some(bytes) = site.gathered.take() {
                        let begun = session.begin_answer(out, &LATE, bytes.len()).unwrap();
                        assert!(begun.has_body);
                        bytes.chunks(1_000).for_each(|part| out.write(part));
                        closed = begun.after == After::Close;
                        assert!(session.begin_answer(out, &LATE, 1).is_none(), "one is owed");
                        continue;
                    }
                    closed = session.answer(out, &LATE).unwrap() == After::Close;
                    assert_eq!(session.answer(out, &LATE), None, "one answer is owed");
                }
                Step::Close { consumed, after_output } => {
                    assert!(after_output && consumed <= input.len());
                    closed = true;
                }
            }
        }
    }
    let (refused, requests) = (site.refused, site.requests);
    let largest_piece = site.piece_bytes.1;
    let (output, left) = (Vec::new(), input.len());
    Played { output, refused, requests, largest_piece, closed, left, calls }
}
