//! An echo server over either backend, and the load that measures it.
//!
//! ```text
//! cargo run --release --example echo -- serve 127.0.0.1:7799 epoll       # until the input ends
//! cargo run --release --example echo -- bench                           # every cell of the table
//! cargo run --release --example echo -- bench io_uring-defer 8 8 10     # backend conns depth batch
//! ```
//! The environment may set `BUFFERS` and `BUFFER_BYTES`. A frame is a 4-byte length and `batch` requests of 64 bytes; its answer is a 4-byte length and 16
//! bytes per request. The server runs on core 0, the load on core 1. The load saturates first in most
//! cells, so read the server's CPU time a frame, not only the rate.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, Service, Step, TaskRun,
    Transport, Turn, cores, run,
};

const ASK_BYTES: usize = 64;
const ANSWER_BYTES: usize = 16;
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Answers every frame with the first 16 bytes of each of its requests.
#[derive(Default)]
struct Echo {
    frames: u64,
}

impl Service for Echo {
    type Conn = ();

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) {}

    #[inline]
    fn received(&mut self, _: ConnId, (): &mut (), input: &[u8], out: &mut Out<'_>) -> Step {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let Some(head) = rest.first_chunk::<4>() else {
                return Step::Read { consumed: at, need: 4 };
            };
            let size = 4 + u32::from_le_bytes(*head) as usize;
            if size > FRAME_BYTES_MAX {
                return Step::Close { consumed: at, after_output: true };
            }
            let Some(asks) = rest.get(4..size) else {
                return Step::Read { consumed: at, need: size };
            };
            if out.room() == 0 {
                return Step::Read { consumed: at, need: 0 };
            }
            answer(asks, out);
            self.frames += 1;
            at += size;
        }
    }

    fn closed(&mut self, _: ConnId, (): (), _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, ()>) -> Turn {
        Turn::IDLE
    }
}

fn answer(asks: &[u8], out: &mut Out<'_>) {
    let (asks, _) = asks.as_chunks::<ASK_BYTES>();
    let size = asks.len() * ANSWER_BYTES;
    let space = out.reserve(4 + size);
    let (head, body) = space.split_at_mut(4);
    head.copy_from_slice(&u32::try_from(size).unwrap_or(0).to_le_bytes());
    let (answers, _) = body.as_chunks_mut::<ANSWER_BYTES>();
    for (ask, answer) in asks.iter().zip(answers) {
        answer.copy_from_slice(&ask[..ANSWER_BYTES]);
    }
    out.commit(4 + size);
}

/// The part of this thread's time that it spent outside the kernel, from coarse ticks.
fn user_share() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let words: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| words.get(index).and_then(|word| word.parse::<f64>().ok());
    let (user, system) = (ticks(11).unwrap_or(0.0), ticks(12).unwrap_or(0.0));
    user / (user + system).max(1.0)
}

/// This thread's time on a core so far.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Duration::from_nanos(ns)
}

fn options(backend: &str) -> Result<Options, Box<dyn Error>> {
    let (name, cooperative) = match backend {
        "io_uring-coop" => ("io_uring", TaskRun::Coop),
        "io_uring-defer" => ("io_uring", TaskRun::Defer),
        other => (other, TaskRun::Defer),
    };
    let (transport, default) = (name.parse::<Transport>()?, Options::default());
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let receive_buffers = number("BUFFERS").and_then(|count| u16::try_from(count).ok());
    Ok(Options {
        transport,
        cooperative,
        receive_buffers: receive_buffers.unwrap_or(default.receive_buffers),
        receive_buffer_bytes: number("BUFFER_BYTES").unwrap_or(default.receive_buffer_bytes),
        ..default
    })
}

/// One closed-loop connection set on the calling thread: answers come in, as many frames go out.
fn load(address: SocketAddr, conns: usize, depth: usize, batch: usize) -> io::Result<u64> {
    let mut frame = u32::try_from(batch * ASK_BYTES).unwrap_or(0).to_le_bytes().to_vec();
    frame.resize(4 + batch * ASK_BYTES, 7);
    let frames = frame.repeat(depth);
    let answer_bytes = 4 + batch * ANSWER_BYTES;
    let mut sockets = Vec::new();
    for _ in 0..conns {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        sockets.push((socket, 0usize));
    }
    for (socket, _) in &mut sockets {
        socket.write_all(&frames)?;
        // The load never sleeps: waking it would be the server's time.
        socket.set_nonblocking(true)?;
    }
    let mut buffer = vec![0; depth * answer_bytes];
    let (mut done, end) = (0u64, Instant::now() + Duration::from_secs(2));
    while Instant::now() < end {
        for (socket, partial) in &mut sockets {
            match socket.read(&mut buffer) {
                Ok(count) => *partial += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let whole = *partial / answer_bytes;
            *partial %= answer_bytes;
            done += whole as u64;
            socket.write_all(&frames[..whole * frame.len()])?;
        }
    }
    Ok(done)
}

fn measure(backend: &str, conns: usize, depth: usize, batch: usize) -> Result<(), Box<dyn Error>> {
    let mut listeners = Listeners::bind("127.0.0.1:0".parse()?, 1)?;
    let address = listeners[0].local_addr().ok_or("no address")?;
    let listener = listeners.remove(0);
    let (options, handle) = (options(backend)?, Handle::new()?);
    let remote = handle.clone();
    let server = thread::spawn(move || {
        cores::pin(0).ok();
        let result = run(vec![listener], &options, Echo::default(), &remote);
        result.map(|echo| (echo.frames, cpu_time(), user_share()))
    });
    let loader = thread::spawn(move || {
        cores::pin(1).ok();
        load(address, conns, depth, batch)
    });
    let done = loader.join().map_err(|_| "the load panicked")??;
    handle.stop();
    let (frames, cpu, user) = server.join().map_err(|_| "the server panicked")??;
    let per_frame = cpu.as_nanos() as f64 / frames.max(1) as f64;
    let rate = (done * batch as u64) as f64 / 2e6;
    let counters = handle.counters();
    let share = |count: u64| frames as f64 / count.max(1) as f64;
    writeln!(
        io::stdout(),
        "{backend:<15} {conns:>4} conns x {depth:>2} frames of {batch:>3}: {rate:>6.2} M/s  \
         {per_frame:>6.0} ns/frame ({:>4.0} outside the kernel) {:>6.1} ns/request  frames a wake-up {:>5.1} receive {:>4.1} send {:>4.1}",
        per_frame * user,
        per_frame / batch as f64,
        share(counters.wakeups.get()),
        share(counters.receives.get()),
        share(counters.sends.get()),
    )?;
    Ok(())
}

fn bench(words: &[String]) -> Result<(), Box<dyn Error>> {
    if let [backend, conns, depth, batch] = words {
        return measure(backend, conns.parse()?, depth.parse()?, batch.parse()?);
    }
    let cells =
        [(8, 8, 10), (64, 8, 10), (512, 8, 10), (8, 32, 10), (64, 32, 10), (8, 8, 1), (8, 8, 100)];
    for (conns, depth, batch) in cells {
        for _ in 0..3 {
            for backend in ["epoll", "io_uring-defer", "io_uring-coop"] {
                measure(backend, conns, depth, batch)?;
            }
        }
    }
    Ok(())
}

fn serve(address: &str, backend: &str) -> Result<(), Box<dyn Error>> {
    let listeners = Listeners::bind(address.parse()?, 1)?;
    for listener in &listeners {
        writeln!(io::stdout(), "echo on {:?} over {backend}", listener.local_addr())?;
    }
    let (options, handle) = (options(backend)?, Handle::new()?);
    let remote = handle.clone();
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        remote.stop();
    });
    let echo = run(listeners, &options, Echo::default(), &handle)?;
    writeln!(io::stdout(), "{} frames, {:#?}", echo.frames, handle.counters())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address, backend] => serve(address, backend),
        ["bench", ..] => bench(&words[1..]),
        _ => Err("expected: serve ADDRESS BACKEND, or bench [BACKEND CONNS DEPTH BATCH]".into()),
    }
}
