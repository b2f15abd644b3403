//! Bytes in, bytes out.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use door_transport::{CloseReason, Listeners, Options, Peer};

use crate::support::{Client, Dice, Server, frame, wait_for};

/// Writes `bytes` in random pieces while reading the answer, which must be the same bytes.
fn echo_in_pieces(server: &Server, bytes: &[u8], piece_bytes_max: usize, seed: u64) {
    let mut client = server.client();
    let mut writer = client.0.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut dice = Dice::new(seed);
            let mut rest = bytes;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + dice.below(piece_bytes_max.min(rest.len())));
                writer.write_all(now).unwrap();
                rest = later;
            }
        });
        client.expect(bytes);
    });
}

fn random_frames(seed: u64, count: usize, bytes_max: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..count)
        .flat_map(|_| {
            let size = dice.below(bytes_max);
            frame(b'E', &dice.bytes(size))
        })
        .collect()
}

pub fn random_chunks_come_back(options: Options) {
    let server = Server::start(options);
    for seed in 0..4 {
        let (frame_bytes_max, piece_bytes_max) =
            [(50, 300), (40_000, 100_000), (3000, 7), (200, 50_000)][seed];
        let bytes = random_frames(seed as u64, 150, frame_bytes_max);
        let bytes = &bytes[..bytes.len().min(150_000 * piece_bytes_max)];
        echo_in_pieces(&server, bytes, piece_bytes_max, seed as u64);
    }
    server.stop();
}

pub fn tiny_receive_buffers_are_enough(options: Options) {
    let server = Server::start(Options { receive_buffers: 2, receive_buffer_bytes: 64, ..options });
    echo_in_pieces(&server, &random_frames(9, 300, 1000), 20_000, 9);
    server.stop();
}

pub fn pipelined_frames_are_answered_together(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    let bytes = frame(b'E', b"0123456789").repeat(1000);
    client.send(&bytes);
    client.expect(&bytes);
    let counters = server.handle.counters();
    wait_for(|| counters.bytes_out.get() == bytes.len() as u64, "the count of the last send");
    // 1,000 messages arrive in a handful of packets, and leave in no more sends than receives.
    assert!(counters.sends.get() <= counters.receives.get(), "{counters:?}");
    assert!(counters.receives.get() < 100, "{counters:?}");
    assert_eq!(counters.bytes_in.get(), bytes.len() as u64);
    drop(client);
    server.stop();
}

pub fn bytes_one_by_one(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    for byte in frame(b'E', b"half a frame is no frame").repeat(3) {
        client.send(&[byte]);
    }
    client.expect(&frame(b'E', b"half a frame is no frame").repeat(3));
    drop(client);
    server.stop();
}

pub fn a_large_message_arrives_whole(options: Options) {
    let server = Server::start(options);
    // The whole of what is allowed: 1 MiB with its head.
    let payload = Dice::new(1).bytes(1024 * 1024 - 5);
    server.client().echo(&payload);
    server.stop();
}

pub fn a_slow_reader_loses_nothing(options: Options) {
    let server = Server::start(Options { output_bytes_max: 10_000, ..options.clone() });
    let bytes = random_frames(3, 4000, 6000);
    let pauses = || server.handle.counters().paused_reads.get();
    // If only the timer ended pauses, 20 per second, each would take 50 ms, in every try. How many there are is up to the sockets
    // of the machine, so what the reading takes without a pause is known from a server that makes none.
    let unpaused = {
        let server = Server::start(Options { output_bytes_max: 2 * bytes.len(), ..options });
        let began = Instant::now();
        read_all(&server, &bytes, || ());
        server.stop();
        began.elapsed()
    };
    let is_fast = |_| {
        let (began, before) = (Instant::now(), pauses());
        read_slowly(&server, &bytes);
        let paused = u32::try_from(pauses() - before).unwrap();
        began.elapsed() < 2 * unpaused + Duration::from_millis(25) * paused
    };
    assert!((0..20).any(is_fast), "reading resumes when answers leave, not later");
    server.stop();
}

/// Begins to read when the server has stopped to.
fn read_slowly(server: &Server, bytes: &[u8]) {
    let counters = server.handle.counters();
    let before = counters.paused_reads.get();
    // More than the sockets of both ends hold, so reading must have paused before we begin.
    read_all(server, bytes, || wait_for(|| counters.paused_reads.get() > before, "a pause"));
}

/// Sends everything while it reads all the answers, from when `begin` has returned.
fn read_all(server: &Server, bytes: &[u8], begin: impl FnOnce()) {
    let mut client = server.client();
    let mut writer = client.0.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| writer.write_all(bytes).unwrap());
        begin();
        client.expect(bytes);
    });
}

pub fn a_client_that_finished_sending_gets_its_answers(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    let bytes = frame(b'E', &[1; 5000]).repeat(100);
    let mut writer = client.0.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        assert!(client.read_to_end() == bytes);
    });
    server.wait_closed(CloseReason::PeerClosed, 1);
    server.stop();
}

/// Its answers come later, from elsewhere, when its end of stream is long there.
pub fn a_client_that_finished_sending_gets_what_it_is_owed(options: Options) {
    let server = Server::start(options);
    server.shared().owes = true;
    let mut client = server.client();
    client.send(&[frame(b'E', b"at once"), frame(b'L', b"first"), frame(b'L', b"second")].concat());
    client.0.shutdown(Shutdown::Write).unwrap();
    client.expect(&frame(b'E', b"at once"));
    wait_for(|| server.shared().later.len() == 2, "what is owed");
    for payload in [b"first".as_slice(), b"second"] {
        assert!(server.shared().closed.is_empty());
        let mut shared = server.shared();
        let owed = shared.later.pop_front().unwrap();
        shared.outside.push_back(owed);
        drop(shared);
        server.handle.waker().wake();
        client.expect(&frame(b'L', payload));
    }
    assert!(client.read_to_end().is_empty());
    server.wait_closed(CloseReason::PeerClosed, 1);
    server.stop();
}

pub fn close_after_output_delivers_the_output(options: Options) {
    let server = Server::start(options);
    for _ in 0..20 {
        let mut client = server.client();
        // What follows the closing message is never read by the service; it must not turn the end
        // into a reset that takes the answer away.
        let mut bytes = frame(b'C', b"the last answer");
        bytes.extend_from_slice(&[0; 100_000]);
        // The server takes the rest for a second and no longer.
        let _ = client.0.write_all(&bytes);
        assert_eq!(client.read_to_end(), frame(b'C', b"the last answer"));
    }
    server.wait_closed(CloseReason::ServiceClosed, 20);
    server.stop();
}

pub fn close_at_once(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    client.send(&frame(b'X', b""));
    assert!(client.read_to_end().is_empty());
    server.wait_closed(CloseReason::ServiceClosed, 1);
    server.stop();
}

pub fn several_doors_are_told_apart(options: Options) {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut listeners = Listeners::bind(any, 1).unwrap();
    listeners.extend(
        Listeners::bind("[::1]:0".parse().unwrap(), 1)
            .or_else(|_| Listeners::bind(any, 1))
            .unwrap(),
    );
    // The second one says which door it is of, whatever its place.
    let last = listeners.pop().unwrap().with_door(7);
    let second = last.local_addr().unwrap();
    listeners.push(last);
    let server = Server::start_on(listeners, options);
    server.client().echo(b"first");
    let mut client = Client::over(std::net::TcpStream::connect(second).unwrap());
    client.echo(b"second");
    let local = client.0.local_addr().unwrap();
    let opened = server.shared().opened.clone();
    assert_eq!(opened[0].2, 0);
    assert_eq!((opened[1].1, opened[1].2), (Peer::Tcp(local), 7));
    drop(client);
    server.stop();
}

pub fn unix_sockets_work_too(options: Options) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    let server = Server::start_on(Listeners::bind_unix(&path, 1).unwrap(), options);
    let mut client = Client(UnixStream::connect(&path).unwrap());
    client.0.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    client.echo(b"same machine");
    assert_eq!(server.shared().opened[0].1, Peer::Local);
    drop(client);
    server.wait_closed(CloseReason::PeerClosed, 1);
    server.stop();
}
