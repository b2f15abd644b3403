//! The loop of a sending thread: one readiness queue over its connections, for every protocol.
//!
//! A wake-up of a connection is one read, one pass over the answers, and one write of everything there is to send. Time is read once per
//! wake-up. A closed loop keeps each connection filled to its depth; an open loop sends by a [`Timetable`], over the connections in turn.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Registry, Token};

use crate::cpu::ThreadTimes;
use crate::latency::histogram;
use crate::pipe::Pipe;
use crate::schedule::Schedule;
use crate::timetable::{Lateness, Timetable, sleep_for_answers};

/// Messages in flight on one connection in open loop; beyond it sends wait, and their waiting counts.
pub(crate) const OPEN_IN_FLIGHT_MAX: usize = 4_096;
/// Wakes the loop for the timetable; connections, and what a protocol has beside them, count from 0.
const ALARM: Token = Token(usize::MAX);
/// Between two hand-overs of the latency histogram, in ns.
const HAND_OVER_NS: u64 = 200_000_000;
/// Fault texts kept per thread.
const ERRORS_KEPT_MAX: usize = 10;

/// The messages of one protocol over a thread's connections.
pub(crate) trait Protocol {
    /// The loop's state, which the protocol keeps.
    fn run(&mut self) -> &mut Run;
    /// The number of connections.
    fn connections(&self) -> usize;
    /// One of them.
    fn pipe(&mut self, at: usize) -> &mut Pipe;
    /// May another request be sent on a connection that has fewer than `depth` in flight?
    fn has_room(&self, at: usize, depth: usize) -> bool;
    /// Writes the next request behind what is to be sent. Its latency counts from `from_ns`.
    fn ask(&mut self, at: usize, from_ns: u64, now_ns: u64);
    /// Writes what else is due on a connection.
    fn write_due(&mut self, _at: usize, _now_ns: u64) {}
    /// Takes all whole messages of `input`; returns the bytes used.
    ///
    /// # Errors
    /// In words: the connection cannot go on.
    fn take(&mut self, at: usize, input: &[u8], now_ns: u64) -> Result<usize, String>;
    /// Gives up what a broken connection was to do; says what stays unanswered.
    fn give_up(&mut self, at: usize) -> String;
    /// Nothing is in flight and nothing waits to be sent.
    fn is_idle(&self) -> bool;
    /// Requests answered so far.
    fn answered(&self) -> u64;
    /// Counts bytes of the wire.
    fn moved(&mut self, sent: usize, received: usize);
    /// Shows the figures so far to the reader, and where the latencies are handed over.
    fn publish(&mut self);
    /// Offers the latencies since the last time.
    fn hand_over(&mut self);
    /// Sends on connections of the protocol's own, which have tokens from [`Protocol::connections`] on.
    fn send_beside(&mut self, _now_ns: u64, _registry: &Registry) {}
    /// Such a connection is ready.
    fn wake_beside(&mut self, _token: usize, _now_ns: u64) {}
    /// Gives up what takes too long beside the connections.
    fn sweep_beside(&mut self, _now_ns: u64) {}
}

/// How long a thread sends, and when.
#[derive(Debug)]
pub(crate) struct Term {
    /// Open loop: when sends are due. `None`: a closed loop.
    pub schedule: Option<Schedule>,
    /// Requests in flight per connection in a closed loop.
    pub depth: usize,
    /// How long requests are sent, in ns.
    pub load_ns: u64,
    /// How long answers may take after that, in ns.
    pub drain_ns: u64,
    /// The thread, and how many there are: for the numbers of connections in texts.
    pub thread: u64,
    /// See `thread`.
    pub threads: u64,
}

/// Everything that the loop knows at the end, whatever the protocol.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Faults of the peer or a connection, in words; the first few, each once.
    pub errors: Vec<String>,
    /// How long requests were sent, in ns.
    pub load_ns: u64,
    /// Requests answered within that time.
    pub answered_loaded: u64,
    /// CPU time of the thread within that time.
    pub cpu_ns: Option<u64>,
    /// Open loop: how late the thread was itself.
    pub lateness: Lateness,
}

/// The loop's state.
#[derive(Debug)]
pub(crate) struct Run {
    term: Term,
    /// The zero of the run's time, the same for all threads.
    start: Instant,
    /// No request is sent any more.
    pub draining: bool,
    /// From when a request was due or written to its answer.
    pub latency: Histogram<u64>,
    /// What is known so far.
    pub figures: Figures,
    /// Open loop; made by [`drive`], when there is something to wait with.
    timetable: Option<Timetable>,
    next: usize,
    /// Connections that got requests and want to be flushed; kept for its memory.
    touched: Vec<usize>,
    handed_over_ns: u64,
}

impl Run {
    pub(crate) fn new(term: Term, start: Instant) -> Self {
        let figures = Figures {
            errors: Vec::new(),
            load_ns: 0,
            answered_loaded: 0,
            cpu_ns: None,
            lateness: Lateness::new(),
        };
        Self {
            term,
            start,
            draining: false,
            latency: histogram(),
            figures,
            timetable: None,
            next: 0,
            touched: Vec::new(),
            handed_over_ns: 0,
        }
    }

    /// Ns since the start of the run.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notes a fault of the peer.
    pub(crate) fn fault(&mut self, text: String) {
        let errors = &mut self.figures.errors;
        if errors.len() < ERRORS_KEPT_MAX && !errors.contains(&text) {
            errors.push(text);
        }
    }

    fn end_load(&mut self, now_ns: u64, answered: u64, begin: Option<ThreadTimes>) {
        self.draining = true;
        self.figures.load_ns = now_ns;
        self.figures.answered_loaded = answered;
        let times = ThreadTimes::now().zip(begin).map(|(end, begin)| end.since(begin));
        self.figures.cpu_ns = times.map(|times| times.cpu_ns);
        if let Some(timetable) = &mut self.timetable {
            timetable.end(now_ns, times);
        }
    }

    fn sleep(&mut self, poll: &mut Poll, events: &mut Events) -> io::Result<()> {
        let now_ns = self.now_ns();
        match &mut self.timetable {
            Some(timetable) if !self.draining => timetable.sleep(poll, events, now_ns),
            _ => sleep_for_answers(poll, events),
        }
    }
}

/// Sends until the time is over or `stop` is set, then waits for what is outstanding. `loaded` is set in between.
///
/// # Errors
/// The system refuses the readiness queue.
pub(crate) fn drive<P: Protocol>(
    mut protocol: P,
    stop: &AtomicBool,
    loaded: &AtomicBool,
) -> io::Result<P> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1_024);
    register(&mut protocol, &poll)?;
    let begin = ThreadTimes::now();
    let now_ns = protocol.run().now_ns();
    serve_all(&mut protocol, now_ns);
    let (mut end_ns, mut swept_ns) = (u64::MAX, 0);
    loop {
        let now_ns = protocol.run().now_ns();
        if !protocol.run().draining && is_load_over(&mut protocol, now_ns, stop) {
            let answered = protocol.answered();
            let run = protocol.run();
            run.end_load(now_ns, answered, begin);
            end_ns = now_ns.saturating_add(run.term.drain_ns);
            loaded.store(true, Ordering::Release);
        }
        if protocol.run().draining && (now_ns >= end_ns || protocol.is_idle()) {
            break;
        }
        send_due(&mut protocol, now_ns);
        protocol.send_beside(now_ns, poll.registry());
        match protocol.run().sleep(&mut poll, &mut events) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in events.iter().filter(|event| event.token() != ALARM) {
            wake(&mut protocol, event);
        }
        let now_ns = protocol.run().now_ns();
        if now_ns >= swept_ns {
            serve_all(&mut protocol, now_ns);
            protocol.sweep_beside(now_ns);
            publish(&mut protocol, now_ns);
            swept_ns = now_ns + 1_000_000 + protocol.connections() as u64 * 1_000;
        }
    }
    finish(&mut protocol);
    Ok(protocol)
}

fn register(protocol: &mut impl Protocol, poll: &Poll) -> io::Result<()> {
    for at in 0..protocol.connections() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut protocol.pipe(at).stream, Token(at), interest)?;
    }
    let run = protocol.run();
    if let Some(schedule) = run.term.schedule.take() {
        run.timetable = Some(Timetable::new(schedule, poll, ALARM)?);
    }
    Ok(())
}

fn is_load_over(protocol: &mut impl Protocol, now_ns: u64, stop: &AtomicBool) -> bool {
    now_ns >= protocol.run().term.load_ns
        || stop.load(Ordering::Relaxed)
        || (0..protocol.connections()).all(|at| !protocol.pipe(at).alive)
}

/// A connection is ready.
fn wake(protocol: &mut impl Protocol, event: &mio::event::Event) {
    let at = event.token().0;
    let now_ns = protocol.run().now_ns();
    if at >= protocol.connections() {
        return protocol.wake_beside(at, now_ns);
    }
    if !protocol.pipe(at).alive {
        return;
    }
    let closed = event.is_read_closed();
    if (event.is_readable() || closed)
        && let Err(e) = read(protocol, at, closed)
    {
        return lose(protocol, at, &e);
    }
    let now_ns = protocol.run().now_ns();
    serve(protocol, at, now_ns);
}

/// Reads what is there. With `closed`, to the very end: it came together with the last bytes and wakes no second time.
fn read(protocol: &mut impl Protocol, at: usize, closed: bool) -> io::Result<()> {
    while let Some((received, more)) = protocol.pipe(at).read()? {
        protocol.moved(0, received);
        let now_ns = protocol.run().now_ns();
        let pipe = protocol.pipe(at);
        let (filled, input) = (pipe.filled, std::mem::take(&mut pipe.input));
        let result = protocol.take(at, &input[..filled], now_ns);
        protocol.pipe(at).input = input;
        let used = result.map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))?;
        protocol.pipe(at).consume(used);
        if !more && !closed {
            break;
        }
    }
    Ok(())
}

fn serve_all(protocol: &mut impl Protocol, now_ns: u64) {
    (0..protocol.connections()).for_each(|at| serve(protocol, at, now_ns));
}

/// Sends what there is to send on a connection: requests of a closed loop, what else is due, bytes that were left.
fn serve(protocol: &mut impl Protocol, at: usize, now_ns: u64) {
    if !protocol.pipe(at).alive {
        return;
    }
    let run = protocol.run();
    if run.timetable.is_none() && !run.draining {
        let depth = run.term.depth;
        while protocol.has_room(at, depth) {
            protocol.ask(at, now_ns, now_ns);
        }
    }
    protocol.write_due(at, now_ns);
    flush(protocol, at);
}

fn flush(protocol: &mut impl Protocol, at: usize) {
    match protocol.pipe(at).flush() {
        Ok(sent) => protocol.moved(sent, 0),
        Err(e) => lose(protocol, at, &e),
    }
}

/// Open loop: sends every request whose time has come, over the connections in turn; one write per connection, however many it got.
fn send_due(protocol: &mut impl Protocol, now_ns: u64) {
    let Some(mut timetable) = protocol.run().timetable.take() else { return };
    let mut touched = std::mem::take(&mut protocol.run().touched);
    while !protocol.run().draining && timetable.is_due(now_ns) {
        let Some(at) = next_with_room(protocol) else {
            timetable.full();
            break;
        };
        let Some(due_ns) = timetable.take(now_ns) else { break };
        // What the socket did not take before goes out when it is writable again.
        if protocol.pipe(at).unsent() == 0 {
            touched.push(at);
        }
        protocol.ask(at, due_ns, now_ns);
    }
    for at in touched.drain(..) {
        flush(protocol, at);
    }
    let run = protocol.run();
    run.touched = touched;
    run.timetable = Some(timetable);
}

fn next_with_room(protocol: &mut impl Protocol) -> Option<usize> {
    let connections = protocol.connections();
    for _ in 0..connections {
        let at = protocol.run().next;
        protocol.run().next = if at + 1 == connections { 0 } else { at + 1 };
        if protocol.has_room(at, OPEN_IN_FLIGHT_MAX) {
            return Some(at);
        }
    }
    None
}

/// A connection is gone.
pub(crate) fn lose(protocol: &mut impl Protocol, at: usize, e: &io::Error) {
    let pipe = protocol.pipe(at);
    if !pipe.alive {
        return;
    }
    pipe.alive = false;
    // The node must not wait for us; what this says of a socket that is gone does not matter.
    let _ = pipe.stream.shutdown(std::net::Shutdown::Both);
    let what = match e.kind() {
        io::ErrorKind::UnexpectedEof => "the node closed it".to_owned(),
        _ => e.to_string(),
    };
    let unanswered = protocol.give_up(at);
    let run = protocol.run();
    let seconds = run.start.elapsed().as_secs_f64();
    let number = at as u64 * run.term.threads + run.term.thread;
    run.fault(format!("connection {number} was lost after {seconds:.2} s: {what}; {unanswered}"));
}

fn publish(protocol: &mut impl Protocol, now_ns: u64) {
    protocol.publish();
    if now_ns >= protocol.run().handed_over_ns.saturating_add(HAND_OVER_NS) {
        protocol.run().handed_over_ns = now_ns;
        protocol.hand_over();
    }
}

/// Publishes for the last time.
fn finish(protocol: &mut impl Protocol) {
    let run = protocol.run();
    if let Some(timetable) = run.timetable.take() {
        run.figures.lateness = timetable.figures();
    }
    protocol.publish();
    // The reader may hold the shelf; retry until the last histogram is handed over.
    while !protocol.run().latency.is_empty() {
        protocol.hand_over();
        std::thread::yield_now();
    }
}
