//! Real clients over the real loop, on both backends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use door_http::{Limits, Room, Session};
use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, RunError, Service, Step,
    Transport, Turn, run,
};

use crate::support::{LATE, Site, chunked, gzip, json, post};
use crate::workbench::PATIENCE;

struct Door {
    site: Site,
    room: Room,
}

impl Service for Door {
    type Conn = Session;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> Session {
        Session::default()
    }

    fn received(
        &mut self,
        id: ConnId,
        session: &mut Session,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        session.received(id, input, out, &mut self.room, &mut self.site)
    }

    fn closed(&mut self, id: ConnId, _: Session, _: CloseReason) {
        self.site.late.retain(|late| *late != id);
    }

    /// Gives the late answers a wake-up after they were asked for.
    fn turn(&mut self, outbox: &mut Outbox<'_, Session>) -> Turn {
        for id in std::mem::take(&mut self.site.late) {
            let after = outbox.with(id, |session, out| session.answer(out, &LATE)).flatten();
            if let Some(after) = after {
                assert!(after.settle(outbox, id));
            }
        }
        for (id, bytes) in std::mem::take(&mut self.site.late_pieces) {
            let after = outbox.with(id, |session, out| session.send_piece(out, &bytes)).flatten();
            if let Some(after) = after {
                after.settle(outbox, id);
            }
        }
        Turn::IDLE
    }
}

struct Server {
    address: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<Result<Door, RunError>>>,
}

impl Server {
    fn start(options: Options) -> Server {
        let listeners = Listeners::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let handle = Handle::new().unwrap();
        let remote = handle.clone();
        let thread = thread::spawn(move || {
            let door = Door { site: Site::new(Limits::default()), room: Room::default() };
            run(listeners, &options, door, &remote)
        });
        Server { address, handle, thread: Some(thread) }
    }

    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        if !thread::panicking() {
            assert!(matches!(ended, Ok(Ok(_))), "the door panicked or failed");
        }
    }
}

/// No time-out but those that a test is about: a busy machine keeps any thread off its core for seconds.
fn patient() -> Options {
    Options { idle_ms_max: 0, partial_ms_max: 0, stalled_ms_max: 0, ..Options::default() }
}

/// Runs a case over epoll and over the best that the kernel has.
fn over_transports(options: &Options, case: impl Fn(&Server)) {
    for transport in [Transport::Epoll, Transport::Auto] {
        case(&Server::start(Options { transport, receive_buffers: 64, ..options.clone() }));
    }
}

fn expect(client: &mut TcpStream, answer: &[u8]) {
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got.escape_ascii().to_string(), answer.escape_ascii().to_string());
}

/// Everything until the end of the stream, or a reset.
fn rest(client: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match client.read_to_end(&mut all) {
        Ok(_) => all,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => all,
        Err(error) => panic!("no end: {error}"),
    }
}

fn wait_for(condition: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "still waiting for: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

const NONE: &[u8] = b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n";
const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const LATE_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate";

fn size_answer(size: usize) -> Vec<u8> {
    let text = size.to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

#[test]
fn a_client_talks_on_one_connection() {
    over_transports(&patient(), |server| {
        let mut client = server.client();
        for size in [0, 1700, 200_000] {
            client.write_all(&post("/size", "", &json(size))).unwrap();
            expect(&mut client, &size_answer(size));
            client.write_all(&chunked("/size", "", &json(size), 30_000)).unwrap();
            expect(&mut client, &size_answer(size));
            client
                .write_all(&post("/size", "Content-Encoding: gzip\r\n", &gzip(&json(size))))
                .unwrap();
            expect(&mut client, &size_answer(size));
        }
        client.write_all(NONE).unwrap();
        expect(&mut client, NO_CONTENT);
    });
}

#[test]
fn a_slow_client_is_understood_byte_by_byte() {
    over_transports(&patient(), |server| {
        let mut client = server.client();
        let requests =
            [NONE.to_vec(), chunked("/size", "", &json(30), 20), post("/size", "", &json(30))];
        for byte in requests.concat() {
            client.write_all(&[byte]).unwrap();
        }
        expect(&mut client, &[NO_CONTENT, &size_answer(30), &size_answer(30)].concat());
    });
}

#[test]
fn a_client_that_waits_for_leave_gets_it() {
    over_transports(&patient(), |server| {
        let mut client = server.client();
        let body = json(5000);
        let request = post("/size", "Expect: 100-continue\r\n", &body);
        client.write_all(&request[..request.len() - body.len()]).unwrap();
        expect(&mut client, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(&body).unwrap();
        expect(&mut client, &size_answer(5000));
    });
}

#[test]
fn late_answers_keep_their_place_and_a_half_closed_client_gets_all() {
    over_transports(&patient(), |server| {
        let mut client = server.client();
        let round = [b"GET /later HTTP/1.1\r\nHost: x\r\n\r\n", NONE].concat();
        client.write_all(&round.repeat(50)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let answers = [LATE_ANSWER, NO_CONTENT].concat().repeat(50);
        assert_eq!(rest(&mut client), answers);
    });
}

#[test]
fn a_late_answer_can_be_the_last() {
    over_transports(&patient(), |server| {
        let mut client = server.client();
        client.write_all(b"GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let last = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate";
        assert_eq!(rest(&mut client), last);
    });
}

#[test]
fn a_flood_of_tiny_requests_is_read_as_fast_as_its_answers_are_taken() {
    let options = Options { output_bytes_max: 10_000, ..patient() };
    over_transports(&options, |server| {
        // More than the sockets of both ends hold.
        const COUNT: usize = 300_000;
        let mut client = server.client();
        let mut writer = client.try_clone().unwrap();
        let flood = NONE.repeat(1000);
        thread::scope(|scope| {
            scope.spawn(move || (0..COUNT / 1000).for_each(|_| writer.write_all(&flood).unwrap()));
            wait_for(|| server.handle.counters().paused_reads.get() > 0, "a pause");
            assert!(server.handle.counters().output_bytes.get() < 10_000 + 1000);
            let some = NO_CONTENT.repeat(1000);
            let mut got = vec![0; some.len()];
            for _ in 0..COUNT / 1000 {
                client.read_exact(&mut got).unwrap();
                assert!(got == some);
            }
        });
    });
}

#[test]
fn a_body_too_large_is_answered_before_it_is_read() {
    over_transports(&patient(), |server| {
        let mut client = server.client();
        client
            .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
            .unwrap();
        let _ = client.write_all(&[b'x'; 100_000]);
        let answer =
            b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert_eq!(rest(&mut client), answer);
    });
}

#[test]
fn endless_heads_end() {
    over_transports(&patient(), |server| {
        let mut flood = server.client();
        let line = b"X-Flood: yes\r\n".repeat(1000);
        let _ = flood.write_all(b"GET / HTTP/1.1\r\n");
        while flood.write_all(&line).is_ok() && flood.peek(&mut [0]).is_err() {}
        assert!(rest(&mut flood).starts_with(b"HTTP/1.1 431 "));
    });
}

#[test]
fn half_requests_end() {
    over_transports(&Options { partial_ms_max: 300, ..patient() }, |server| {
        let mut half = server.client();
        half.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
        assert_eq!(rest(&mut half), b"");
        assert_eq!(server.handle.counters().closed(CloseReason::SlowMessage), 1);
    });
}

/// More than all buffers on the way together, so that both sides have to take turns.
const STREAM_BYTES: usize = 24 << 20;

/// What the data of an answer in chunks sums up to, read until its last chunk.
fn sum_of_chunks(client: &mut TcpStream) -> (usize, u64) {
    let mut reader = std::io::BufReader::new(client);
    let (mut line, mut count, mut sum) = (String::new(), 0, 0_u64);
    while line != "\r\n" {
        line.clear();
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    }
    loop {
        line.clear();
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        let size = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).unwrap();
        if size == 0 {
            return (count, sum);
        }
        count += size;
        sum = chunk[..size]
            .iter()
            .fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    }
}

/// Far more than may be in memory, both ways at once, over sockets; a client that has finished sending gets the rest.
#[test]
fn a_stream_larger_than_memory_may_be_goes_both_ways() {
    over_transports(&patient(), |server| {
        for (path, is_chunked) in [("/pieces", false), ("/pieces/later", true)] {
            let body = json(STREAM_BYTES);
            let upper = body.to_ascii_uppercase();
            let expected = upper
                .iter()
                .fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            let mut client = server.client();
            let mut writer = client.try_clone().unwrap();
            let sends = thread::spawn(move || {
                let request = if is_chunked {
                    chunked(path, "", &body, 50_000)
                } else {
                    post(path, "", &body)
                };
                writer.write_all(&request).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            assert_eq!(sum_of_chunks(&mut client), (STREAM_BYTES, expected), "{path}");
            sends.join().unwrap();
        }
    });
}

/// Whoever never reads its answer is not read any more, and goes after a while; another client is served meanwhile.
#[test]
fn a_client_that_never_reads_its_stream_is_held_back_and_goes() {
    let options = Options { stalled_ms_max: 300, ..patient() };
    over_transports(&options, |server| {
        let mut client = server.client();
        let body = json(STREAM_BYTES);
        let sent = client.write_all(&post("/pieces", "", &body));
        assert!(sent.is_err(), "nobody took the answer, and all of the request was read");
        wait_for(|| server.handle.counters().closed(CloseReason::Stalled) == 1, "the end of it");
        let mut other = server.client();
        other.write_all(NONE).unwrap();
        expect(&mut other, NO_CONTENT);
    });
}

/// A client that ends within its body gets what was done of it, and no end.
#[test]
fn a_stream_whose_client_ends_within_it_has_no_end() {
    over_transports(&patient(), |server| {
        for path in ["/pieces", "/pieces/later"] {
            let mut client = server.client();
            let request = post(path, "", &json(1_000));
            client.write_all(&request[..request.len() - 1]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let told = rest(&mut client);
            assert!(
                told.starts_with(b"HTTP/1.1 200 OK\r\n") && !told.ends_with(b"0\r\n\r\n"),
                "{path}"
            );
        }
        wait_for(|| server.handle.counters().closed(CloseReason::PeerClosed) == 2, "their ends");
    });
}
