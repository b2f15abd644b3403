//! Whoever is paid: charges each call in full when it begins, and cannot be talked out of it.
//!
//! Beside it stands the database that a gateway writes what was spent to, now and then. Both live in the process that kills others.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was charged, over all callers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Nanos.
    pub(crate) charged: AtomicU64,
    /// Calls.
    pub(crate) calls: AtomicU64,
    /// What the gateway's database knows of it, nanos.
    pub(crate) database: AtomicU64,
}

/// Takes callers for as long as the process lives.
///
/// # Errors
/// No port is free.
pub(crate) fn start(tally: Arc<Tally>) -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("a port: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tally = Arc::clone(&tally);
            std::thread::spawn(move || serve(&stream, &tally));
        }
    });
    Ok(address)
}

fn serve(stream: &TcpStream, tally: &Tally) {
    let mut writer = stream;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let (what, nanos) = line.split_once(' ').unwrap_or((&line, "0"));
        let nanos: u64 = nanos.parse().unwrap_or(0);
        let answer = match what {
            "charge" => {
                tally.calls.fetch_add(1, Relaxed);
                tally.charged.fetch_add(nanos, Relaxed) + nanos
            }
            "flush" => tally.database.fetch_add(nanos, Relaxed),
            _ => tally.database.load(Relaxed),
        };
        if writeln!(writer, "{answer}").is_err() {
            return;
        }
    }
}

/// A caller's line to it.
#[derive(Debug)]
pub(crate) struct Line {
    reader: BufReader<TcpStream>,
}

impl Line {
    /// # Errors
    /// Nobody listens.
    pub(crate) fn to(address: &str) -> Result<Line, String> {
        let stream =
            TcpStream::connect(address).map_err(|error| format!("the provider: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Line { reader: BufReader::new(stream) })
    }

    /// Says something, and returns the number that comes back.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn say(&mut self, what: &str, nanos: u64) -> Result<u64, String> {
        writeln!(self.reader.get_mut(), "{what} {nanos}").map_err(|error| error.to_string())?;
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(|error| error.to_string())?;
        line.trim().parse().map_err(|_| "the provider is gone".to_owned())
    }
}
