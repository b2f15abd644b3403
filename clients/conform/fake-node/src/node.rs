//! The sockets of one node of a play.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wire::Split;

use crate::frames::FRAME_BYTES_MAX;
use crate::play::{Conn, Output, Play};

/// How often a listener looks whether it is to end.
const LOOK: Duration = Duration::from_millis(2);
/// Between two pieces of a frame.
const PIECE: Duration = Duration::from_millis(1);

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    play: Arc<Play>,
    index: usize,
    pub(crate) address: SocketAddr,
    /// Tells the thread of the listener to end; `None` while nobody listens.
    listening: Mutex<Option<(Arc<AtomicBool>, std::thread::JoinHandle<()>)>>,
}

impl Node {
    /// A node on a free port, which listens unless its script says that it is down.
    pub(crate) fn new(play: &Arc<Play>, index: usize) -> std::io::Result<Node> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let node = Node { play: Arc::clone(play), index, address, listening: Mutex::new(None) };
        if !play.scripts[index].down {
            node.listen(listener)?;
        }
        Ok(node)
    }

    fn listen(&self, listener: TcpListener) -> std::io::Result<()> {
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (play, index, seen) = (Arc::clone(&self.play), self.index, Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((stream, _)) => accepted(&play, index, stream),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        *listening = Some((stop, thread));
        Ok(())
    }

    /// Listens again, on the same port.
    pub(crate) fn up(&self) -> std::io::Result<()> {
        self.listen(TcpListener::bind(self.address)?)
    }

    /// Listens no more, and ends all connections.
    pub(crate) fn down(&self) {
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = listening {
            stop.store(true, Ordering::Release);
            // It ends by itself; a panic in it is printed where it happens.
            let _ = thread.join();
        }
        self.end_connections(false);
    }

    /// Ends all connections.
    pub(crate) fn end_connections(&self, reset: bool) {
        let conns: Vec<Arc<Conn>> = {
            let state = self.play.lock();
            state.conns.iter().filter(|conn| conn.node == self.index).cloned().collect()
        };
        for conn in conns {
            end(&conn.stream, reset);
        }
    }
}

/// Closes a connection; errors mean that the other end was faster.
fn end(stream: &TcpStream, reset: bool) {
    if reset {
        let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        // A socket that lingers for no time is reset when its last descriptor is closed: its thread sees the end of what it reads.
        let _ = stream.shutdown(Shutdown::Read);
    } else {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn accepted(play: &Arc<Play>, node: usize, stream: TcpStream) {
    // A connection that cannot be set up so is a client's lost connection.
    if stream.set_nonblocking(false).is_err() || stream.set_nodelay(true).is_err() {
        return;
    }
    let number = {
        let mut state = play.lock();
        state.next_conn += 1;
        state.next_conn
    };
    let conn = Arc::new(Conn { number, node, stream, sending: Mutex::new(()) });
    let play = Arc::clone(play);
    std::thread::spawn(move || {
        if perform(&conn, play.connected(&conn)) {
            read(&play, &conn);
        }
        play.closed(&conn);
    });
}

fn read(play: &Play, conn: &Arc<Conn>) {
    let (mut input, mut filled) = (vec![0; 2 * FRAME_BYTES_MAX as usize], 0);
    loop {
        let received = match (&conn.stream).read(&mut input[filled..]) {
            Ok(0) => return,
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        filled += received;
        let mut used = 0;
        loop {
            match wire::frame::split(&input[used..filled], FRAME_BYTES_MAX) {
                Ok(Split::Frame(frame)) => {
                    let len = frame.len();
                    if !perform(conn, play.frame(conn, frame)) {
                        return;
                    }
                    used += len;
                }
                Ok(Split::Incomplete { .. }) => break,
                Err(error) => {
                    play.broken(conn, error);
                    end(&conn.stream, false);
                    return;
                }
            }
        }
        input.copy_within(used..filled, 0);
        filled -= used;
    }
}

/// Does what follows from a message; false where that ends the connection.
fn perform(conn: &Conn, outputs: Vec<Output>) -> bool {
    for output in outputs {
        match output {
            Output::Send(bytes, pieces) => {
                if send(conn, &bytes, pieces).is_err() {
                    return false;
                }
            }
            Output::Wait(time) => std::thread::sleep(time),
            Output::Close => {
                end(&conn.stream, false);
                return false;
            }
            Output::Reset => {
                end(&conn.stream, true);
                return false;
            }
        }
    }
    true
}

/// Sends bytes over a connection.
///
/// # Errors
/// The client closed it.
pub(crate) fn send(conn: &Conn, bytes: &[u8], pieces: Option<usize>) -> std::io::Result<()> {
    let _sending = conn.sending.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(len) = pieces else { return (&conn.stream).write_all(bytes) };
    for piece in bytes.chunks(len.max(1)) {
        (&conn.stream).write_all(piece)?;
        std::thread::sleep(PIECE);
    }
    Ok(())
}
