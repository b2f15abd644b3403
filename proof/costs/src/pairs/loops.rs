//! Event loops: io_uring against epoll, its two ways to complete, and pinned threads against free ones.
//!
//! The server is the node's own loop (`door-transport`) with a service that decides nothing: it answers each message of
//! `MESSAGE_BYTES` with its number; on FIX traffic it reads each order and sends it back with a header of its own. The client is a thread of this process with several connections over loopback. It
//! writes the messages of one connection after the other, then reads the answers in the same order, so a latency counts
//! from the write of a connection's messages to the last answer to them.

mod traffic;

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, Service, Step, TaskRun,
    Transport, Turn, cores,
};
use probe::Histogram;
use rustix::time::{ClockId, clock_gettime};

use self::traffic::{Answers, Traffic};
use super::{Meaning, Pair};
use crate::race::{Done, TimedWay, race_timed};
use crate::{Error, Size};

const ROUNDS: usize = 15;
const CONNECTIONS: usize = 4;
/// Messages in flight a connection: they are written at once.
const IN_FLIGHT: usize = 8;
/// Turns of the client in one round: in each, all connections have their messages answered.
const TURNS: u64 = 2_000;

/// Makes `loop/uring-epoll`, `loop/taskrun` and `loop/pinning`.
///
/// # Errors
/// The machine gives no sockets or no io_uring, or a message got lost.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let uring_epoll = Question {
        id: "loop/uring-epoll",
        setups: [URING, Setup { name: "epoll", transport: Transport::Epoll, ..URING }],
        timed: Timed::ServerCpu,
        meaning: Meaning {
            rival: None,
            faster: "io_uring carries the node where the kernel allows it",
            slower: "epoll would serve this load better",
            level: "io_uring makes no difference for this load",
        },
    };
    let deferred = Setup { name: "DEFER_TASKRUN", ..URING };
    let taskrun = Question {
        id: "loop/taskrun",
        setups: [deferred, Setup { name: "COOP_TASKRUN", taskrun: TaskRun::Coop, ..URING }],
        timed: Timed::ServerCpu,
        meaning: Meaning {
            rival: None,
            faster: "completions wait until the worker asks for them",
            slower: "completions at any entry into the kernel would cost less",
            level: "when completions run does not matter for this load",
        },
    };
    let pinned = Setup { name: "pinned", ..URING };
    let pinning = Question {
        id: "loop/pinning",
        setups: [pinned, Setup { name: "free", pinned: false, ..URING }],
        timed: Timed::Elapsed,
        meaning: Meaning {
            rival: None,
            faster: "a worker keeps its core",
            slower: "the scheduler places the two threads better than we do; see the tails",
            level: "pinning pays nothing here in the mean; see the tails",
        },
    };
    [uring_epoll, taskrun, pinning].into_iter().map(|question| question.answer(size)).collect()
}

/// Makes `fix/loop` and `fix/pinning`: the same on FIX traffic.
///
/// # Errors
/// As [`run`].
pub(super) fn run_fix(size: Size) -> Result<Vec<Pair>, Error> {
    let orders = Setup { traffic: Traffic::Orders, ..URING };
    let uring_epoll = Question {
        id: "fix/loop",
        setups: [
            Setup { name: "io_uring, DEFER_TASKRUN", ..orders },
            Setup { name: "epoll", transport: Transport::Epoll, ..orders },
        ],
        timed: Timed::ServerCpu,
        meaning: Meaning {
            rival: None,
            faster: "io_uring carries FIX sessions where the kernel allows it",
            slower: "epoll would serve FIX sessions better",
            level: "io_uring makes no difference for FIX sessions",
        },
    };
    let pinning = Question {
        id: "fix/pinning",
        setups: [
            Setup { name: "pinned", ..orders },
            Setup { name: "free", pinned: false, ..orders },
        ],
        timed: Timed::Elapsed,
        meaning: Meaning {
            rival: None,
            faster: "a worker with FIX sessions keeps its core",
            slower: "the scheduler places the two threads better than we do; see the tails",
            level: "pinning pays nothing here in the mean; see the tails",
        },
    };
    [uring_epoll, pinning].into_iter().map(|question| question.answer(size)).collect()
}

/// How the loop is set up.
#[derive(Clone, Copy, Debug)]
struct Setup {
    name: &'static str,
    transport: Transport,
    taskrun: TaskRun,
    pinned: bool,
    traffic: Traffic,
}

/// As the node does it.
const URING: Setup = Setup {
    name: "io_uring",
    transport: Transport::IoUring,
    taskrun: TaskRun::Defer,
    pinned: true,
    traffic: Traffic::Numbers,
};

/// One pair.
struct Question {
    id: &'static str,
    setups: [Setup; 2],
    timed: Timed,
    meaning: Meaning,
}

/// What the figures of a pair are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// Processor time of the server's thread.
    ServerCpu,
    /// Time from the first message to the last answer.
    Elapsed,
}

impl Question {
    fn answer(self, size: Size) -> Result<Pair, Error> {
        let turns = size.pick(TURNS, 20);
        for setup in self.setups {
            exchange(setup, turns.min(100))?;
        }
        let latencies: [Mutex<Histogram>; 2] = Default::default();
        let ways: Vec<TimedWay<'_>> = self
            .setups
            .into_iter()
            .zip(&latencies)
            .map(|(setup, latency)| (setup.name, self.timed.round(setup, turns, latency)))
            .collect();
        let outcomes = race_timed(size.pick(ROUNDS, 1), ways)?;
        let what = format!(
            "{}: {}, {CONNECTIONS} connections over loopback with \
             {IN_FLIGHT} messages in flight each, client and server in one process.",
            match self.timed {
                Timed::ServerCpu => "Processor time of the server's thread",
                Timed::Elapsed => "Time from the first message to the last answer",
            },
            self.setups[0].traffic.name(),
        );
        let detail = tails(self.setups, &latencies);
        Ok(Pair::new(self.id, what, "message", outcomes, &self.meaning).with_detail(detail))
    }
}

impl Timed {
    fn round(
        self,
        setup: Setup,
        turns: u64,
        latency: &Mutex<Histogram>,
    ) -> Box<dyn FnMut() -> (Done, Duration) + '_> {
        Box::new(move || {
            // It worked before; what went wrong since then shows as unequal work.
            let Ok(round) = exchange(setup, turns) else {
                return (Done { operations: 1, result: 0 }, Duration::from_nanos(1));
            };
            lock(latency).merge(&round.latency);
            let took = match self {
                Timed::ServerCpu => round.server_cpu,
                Timed::Elapsed => round.elapsed,
            };
            (round.done, took)
        })
    }
}

fn tails(setups: [Setup; 2], latencies: &[Mutex<Histogram>; 2]) -> String {
    let mut text = String::from(
        "Latency at the client, from a write to the last answer to it, all rounds together:\n\n\
         | way | p50 us | p99 us | p99.9 us | longest us |\n| :--- | ---: | ---: | ---: | ---: |\n",
    );
    for (setup, latency) in setups.into_iter().zip(latencies) {
        let latency = lock(latency);
        let us = |ns: u64| ns as f64 / 1_000.0;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| us(latency.quantile(q)));
        let (name, longest) = (setup.name, us(latency.max()));
        let _ = writeln!(text, "| {name} | {p50:.0} | {p99:.0} | {p999:.0} | {longest:.0} |");
    }
    text
}

/// The result of a round.
struct Round {
    done: Done,
    server_cpu: Duration,
    elapsed: Duration,
    latency: Histogram,
}

/// Starts a server and a client, each on a thread of its own, and lets them talk.
fn exchange(setup: Setup, turns: u64) -> Result<Round, Error> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listeners = Listeners::bind(any, 1).map_err(|error| failed("listening", error))?;
    let address = listeners[0].local_addr().unwrap_or(any);
    let handle = Handle::new().map_err(|error| failed("making a handle", error))?;
    let options =
        Options { transport: setup.transport, cooperative: setup.taskrun, ..Options::default() };
    let (for_server, for_client) = places(setup.pinned);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            place(for_server);
            door_transport::run(listeners, &options, Echo::new(setup.traffic), &handle)
        });
        let client = scope.spawn(|| {
            place(for_client);
            talk(address, turns, setup.traffic)
        });
        let talked = join(client);
        handle.stop();
        let served = join(server)?.map_err(|error| failed("running the event loop", error))?;
        let Talk { answers, sum, elapsed, latency } =
            talked?.map_err(|error| failed("talking over loopback", error))?;
        let result = sum ^ served.messages.rotate_left(32);
        let done = Done { operations: answers, result };
        Ok(Round { done, server_cpu: served.cpu, elapsed, latency })
    })
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> Result<T, Error> {
    thread.join().map_err(|_| failed("running a thread", "it panicked"))
}

/// The cores for server and client: two different ones, where there are two.
fn places(pinned: bool) -> (Option<usize>, Option<usize>) {
    let allowed = cores::allowed().unwrap_or_default();
    match allowed.as_slice() {
        [first, .., last] if pinned => (Some(*first), Some(*last)),
        _ => (None, None),
    }
}

fn place(core: Option<usize>) {
    if let Some(core) = core {
        // It is one of the allowed ones; should it fail all the same, the thread runs free.
        let _ = cores::pin(core);
    }
}

/// What the client saw.
struct Talk {
    answers: u64,
    /// Of the numbers in the answers, mixed with their order.
    sum: u64,
    elapsed: Duration,
    latency: Histogram,
}

fn talk(address: SocketAddr, turns: u64, traffic: Traffic) -> io::Result<Talk> {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        connections.push((stream, Instant::now()));
    }
    let mut messages = Vec::new();
    let mut answers = vec![0; traffic.answer_bytes() * IN_FLIGHT];
    let (mut number, mut count, mut sum, mut latency) = (0_u64, 0, 0_u64, Histogram::new());
    let began = Instant::now();
    for _ in 0..turns {
        for (stream, sent) in &mut connections {
            messages.clear();
            for _ in 0..IN_FLIGHT {
                number += 1;
                traffic.put(number, &mut messages);
            }
            *sent = Instant::now();
            stream.write_all(&messages)?;
        }
        for (stream, sent) in &mut connections {
            stream.read_exact(&mut answers)?;
            latency.record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
            for answer in answers.chunks_exact(traffic.answer_bytes()) {
                sum = sum.wrapping_mul(31).wrapping_add(traffic.number_of(answer));
                count += 1;
            }
        }
    }
    Ok(Talk { answers: count, sum, elapsed: began.elapsed(), latency })
}

/// Answers each message. Counts its thread's processor time from its first connection to the end of the
/// last one.
#[derive(Debug)]
struct Echo {
    answers: Answers,
    open: usize,
    began: Option<Duration>,
    cpu: Duration,
    messages: u64,
}

impl Echo {
    fn new(traffic: Traffic) -> Echo {
        let answers = Answers::new(traffic);
        Echo { answers, open: 0, began: None, cpu: Duration::ZERO, messages: 0 }
    }
}

impl Service for Echo {
    type Conn = ();

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) {
        self.open += 1;
        self.began.get_or_insert_with(cpu_time);
    }

    fn received(&mut self, _: ConnId, (): &mut (), input: &[u8], out: &mut Out<'_>) -> Step {
        let (consumed, messages) = self.answers.put(input, out);
        self.messages += messages;
        Step::Read { consumed, need: 0 }
    }

    fn closed(&mut self, _: ConnId, (): (), _: CloseReason) {
        self.open -= 1;
        if let (0, Some(began)) = (self.open, self.began) {
            self.cpu = cpu_time().saturating_sub(began);
        }
    }

    fn turn(&mut self, _: &mut Outbox<'_, ()>) -> Turn {
        Turn::IDLE
    }
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn failed(action: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Io { action: action.to_owned(), source: io::Error::other(error) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_answers_every_message_in_order() {
        let setups = [
            URING,
            Setup { taskrun: TaskRun::Coop, ..URING },
            Setup { transport: Transport::Epoll, ..URING },
            Setup { pinned: false, ..URING },
            Setup { traffic: Traffic::Orders, ..URING },
            Setup { traffic: Traffic::Orders, transport: Transport::Epoll, ..URING },
        ];
        let rounds = setups.map(|setup| exchange(setup, 5).unwrap());
        let messages = 5 * (CONNECTIONS * IN_FLIGHT) as u64;
        let sum = (1..=messages).fold(0_u64, |sum, at| sum.wrapping_mul(31).wrapping_add(at));
        for round in rounds {
            let expected = Done { operations: messages, result: sum ^ messages.rotate_left(32) };
            assert_eq!(round.done, expected);
            assert_eq!(round.latency.count(), 5 * CONNECTIONS as u64);
            assert!(round.server_cpu > Duration::ZERO && round.elapsed > Duration::ZERO);
        }
    }
}
