//! Copies bytes between a client and the venue: what is between them costs at least that. One that writes them to a file before they leave
//! costs what whoever keeps them pays at least.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, poll};

/// Names of the threads of one that only copies, and of one that writes.
pub(super) const THREAD: &str = "byte-proxy";
pub(super) const WRITING_THREAD: &str = "write-proxy";

/// Serves one client, on a thread pinned to core 0 where that can be; it ends with the client's connection.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
}

impl Proxy {
    /// Starts one; with a file, it writes there first what it passes on.
    pub(super) fn start(venue: SocketAddr, file: Option<File>) -> Result<Proxy, String> {
        let failed = |e: std::io::Error| e.to_string();
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let name = if file.is_some() { WRITING_THREAD } else { THREAD };
        let serve = move || {
            // Where there is no core 0 for us, it runs on another.
            let _ = door_transport::cores::pin(0);
            // One of both has gone; the client finds out.
            let _ = listener.accept().and_then(|(client, _)| copy(client, venue, file));
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(serve);
        thread.map(|_| Proxy { address }).map_err(failed)
    }
}

fn copy(client: TcpStream, venue: SocketAddr, mut file: Option<File>) -> std::io::Result<()> {
    let mut ends = [client, TcpStream::connect(venue)?];
    for end in &ends {
        end.set_nodelay(true)?;
    }
    let mut room = vec![0; 1 << 16];
    loop {
        let mut waiting = [0, 1].map(|at| PollFd::new(&ends[at], PollFlags::IN));
        poll(&mut waiting, None)?;
        let ready = waiting.map(|one| !one.revents().is_empty());
        for from in [0, 1].into_iter().filter(|at| ready[*at]) {
            let len = ends[from].read(&mut room)?;
            if len == 0 {
                return Ok(());
            }
            if let Some(file) = &mut file {
                file.write_all(&room[..len])?;
            }
            ends[1 - from].write_all(&room[..len])?;
        }
    }
}
