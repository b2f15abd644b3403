//! Peers that misbehave over TLS, or on the way to it.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use door_transport::{CloseReason, HandshakeFailure, Options};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::support::{Client, Dice, Server, frame, wait_for};
use crate::tls::{Secure, TlsClient, is_cut};

/// The first message of a TLS client.
fn hello(secure: &Secure) -> (ClientConnection, Vec<u8>) {
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::clone(&secure.config), name).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    (session, bytes)
}

fn ask_until_blocked(client: &mut TlsClient) {
    client.echo(b"the handshake is over");
    let ask = frame(b'B', b"20000");
    client.0.sock.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let ended = loop {
        if let Err(error) = client.0.write_all(&ask.repeat(100)) {
            break error.kind();
        }
    };
    let expected = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
    ];
    assert!(expected.contains(&ended), "{ended}");
}

pub fn a_peer_that_never_reads_costs_bounded_memory(options: Options) {
    let max = 50_000;
    let options = Options { output_bytes_max: max, receive_buffer_bytes: 4096, ..options };
    let secure = Secure::start(options);
    let mut client = secure.client();
    ask_until_blocked(&mut client);
    let counters = secure.server.handle.counters();
    wait_for(|| counters.paused_reads.get() >= 1, "a pause");
    wait_for(|| counters.output_bytes.get() > 0, "waiting answers");
    // Records and their heads come on top of what the service stops at.
    assert!(counters.output_bytes.get() <= max as u64 + 20_005 + 2_000, "{counters:?}");
    drop(client);
    wait_for(|| counters.output_bytes.get() == 0, "freed answers");
    wait_for(|| counters.memory_bytes.get() == 0, "freed memory");
    secure.stop();
}

pub fn a_peer_that_never_reads_is_closed(options: Options) {
    let secure = Secure::start(Options { stalled_ms_max: 1500, ..options });
    let mut client = secure.client();
    ask_until_blocked(&mut client);
    secure.server.wait_closed(CloseReason::Stalled, 1);
    let counters = secure.server.handle.counters();
    wait_for(|| counters.output_bytes.get() == 0, "freed answers");
    secure.client().echo(b"others are served");
    secure.stop();
}

pub fn silence_is_closed(options: Options) {
    let secure = Secure::start(Options { idle_ms_max: 400, ..options });
    let mut client = secure.client();
    client.echo(b"and then nothing");
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).unwrap_or_else(|error| {
        assert!(is_cut(&error), "{error}");
        0
    });
    secure.server.wait_closed(CloseReason::Idle, 1);
    secure.stop();
}

pub fn a_slow_message_is_closed(options: Options) {
    let secure = Secure::start(Options { partial_ms_max: 300, ..options });
    let mut client = secure.client();
    client.echo(b"fine");
    let bytes = frame(b'E', &[0; 1000]);
    for byte in &bytes[..1000] {
        // A record for each byte.
        if client.0.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        if secure.server.handle.counters().closed(CloseReason::SlowMessage) > 0 {
            break;
        }
    }
    secure.server.wait_closed(CloseReason::SlowMessage, 1);
    secure.stop();
}

/// Bytes of records one by one, in both directions of a whole conversation.
pub fn a_byte_at_a_time(options: Options) {
    let secure = Secure::start(options);
    let (mut session, hello) = hello(&secure);
    let mut socket = secure.server.client().0;
    let send = |socket: &mut std::net::TcpStream, bytes: &[u8]| {
        for byte in bytes {
            socket.write_all(&[*byte]).unwrap();
        }
    };
    send(&mut socket, &hello);
    let message = frame(b'E', b"one whole message");
    let mut answer = Vec::new();
    let mut asked = false;
    while answer.len() < message.len() {
        if session.wants_write() {
            let mut bytes = Vec::new();
            session.write_tls(&mut bytes).unwrap();
            send(&mut socket, &bytes);
        } else if !session.is_handshaking() && !asked {
            session.writer().write_all(&message).unwrap();
            asked = true;
        } else {
            let mut byte = [0; 1];
            socket.read_exact(&mut byte).unwrap();
            session.read_tls(&mut byte.as_slice()).unwrap();
            let state = session.process_new_packets().unwrap();
            let mut bytes = vec![0; state.plaintext_bytes_to_read()];
            session.reader().read_exact(&mut bytes).unwrap();
            answer.extend(bytes);
        }
    }
    assert_eq!(answer, message);
    drop(socket);
    secure.stop();
}

pub fn a_slow_handshake_is_ended(options: Options) {
    let secure = Secure::start(Options { tls_handshake_ms_max: 300, ..options });
    let (_, bytes) = hello(&secure);
    let mut silent = secure.server.client();
    let mut slow = secure.server.client();
    for byte in &bytes[..bytes.len() - 1] {
        if slow.0.write_all(&[*byte]).is_err() || secure.failed(HandshakeFailure::TimedOut) > 1 {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    // One that takes our part and never sends its own.
    let mut half = secure.server.client();
    half.send(&bytes);
    secure.wait_failed(HandshakeFailure::TimedOut, 3);
    for client in [&mut silent, &mut slow, &mut half] {
        client.read_to_end();
    }
    assert!(secure.server.shared().opened.is_empty(), "the service never heard of them");
    secure.stop();
}

pub fn half_handshakes_are_bounded_and_the_oldest_goes(options: Options) {
    let secure = Secure::start(Options { tls_handshakes_max: 3, ..options });
    let mut established = secure.client();
    established.echo(b"through");
    let (_, bytes) = hello(&secure);
    let mut half: Vec<Client> = (0..5)
        .map(|_| {
            let mut client = secure.server.client();
            client.send(&bytes);
            // Its part was answered: it waits for ours.
            wait_for(|| client.0.peek(&mut [0]).is_ok_and(|count| count == 1), "an answer");
            client
        })
        .collect();
    secure.wait_failed(HandshakeFailure::TooMany, 2);
    for client in &mut half[..2] {
        client.read_to_end();
    }
    established.echo(b"those who are through go on");
    let mut new = secure.client();
    new.echo(b"whoever comes gets a place");
    secure.wait_failed(HandshakeFailure::TooMany, 3);
    drop(half);
    secure.wait_failed(HandshakeFailure::Abandoned, 2);
    drop((established, new));
    secure.stop();
}

/// Beginnings of a first message take nobody's place.
pub fn whoever_says_nothing_whole_takes_no_place(options: Options) {
    let secure = Secure::start(Options { tls_handshakes_max: 10, ..options });
    let (_, bytes) = hello(&secure);
    let crowd: Vec<Client> = (0..35)
        .map(|number| {
            let mut client = secure.server.client();
            client.send(&bytes[..number.min(bytes.len() - 1)]);
            client
        })
        .collect();
    for _ in 0..5 {
        let mut client = secure.client();
        client.echo(b"others come in");
        drop(client);
    }
    assert_eq!(secure.failed(HandshakeFailure::TooMany), 0);
    drop(crowd);
    secure.wait_failed(HandshakeFailure::Abandoned, 35);
    secure.stop();
}

/// Who says nothing has a descriptor, and there are so many at most: the oldest go.
pub fn those_who_say_nothing_are_bounded_and_others_come_in(options: Options) {
    let secure = Secure::start(Options { tls_handshakes_max: 1, ..options });
    let mut crowd: Vec<Client> = (0..12).map(|_| secure.server.client()).collect();
    secure.wait_failed(HandshakeFailure::TooMany, 8);
    for client in &mut crowd[..8] {
        client.read_to_end();
    }
    let mut client = secure.client();
    client.echo(b"others come in");
    drop((client, crowd));
    secure.stop();
}

/// Records that are in order, of a message that never ends.
pub fn endless_handshakes_are_ended(options: Options) {
    let secure = Secure::start(options);
    let mut client = secure.server.client();
    let mut record = vec![22, 3, 1, 0x40, 0];
    // A ClientHello of 16 MiB, if it were to come.
    record.extend([1, 0xff, 0xff, 0xff]);
    record.resize(5 + 0x4000, 0);
    for _ in 0..64 {
        if client.0.write_all(&record).is_err() {
            break;
        }
    }
    secure.wait_failed(HandshakeFailure::Refused, 1);
    drop(client);
    wait_for(|| secure.server.handle.counters().memory_bytes.get() == 0, "freed memory");
    secure.stop();
}

pub fn plain_bytes_on_a_tls_port_are_counted(options: Options) {
    let secure = Secure::start(options);
    let mut client = secure.server.client();
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    let answer = client.read_to_end();
    assert!(answer.is_empty() || answer[0] == 21, "at most an alert: {answer:?}");
    drop(client);
    secure.wait_failed(HandshakeFailure::PlainBytes, 1);
    secure.stop();
}

pub fn tls_on_a_plain_port_is_counted(options: Options) {
    let secure = Secure::start(options.clone());
    let (_, bytes) = hello(&secure);
    // As a message it is too long; then as one that is never whole.
    for options in [
        Options { input_bytes_max: 1000, ..options.clone() },
        Options { partial_ms_max: 200, ..options },
    ] {
        let server = Server::start(options);
        let mut client = server.client();
        client.send(&bytes);
        client.read_to_end();
        drop(client);
        wait_for(|| server.handle.counters().tls_on_plain.get() == 1, "the count");
        server.stop();
    }
    secure.stop();
}

pub fn random_bytes_instead_of_a_handshake(options: Options) {
    let secure = Secure::start(options);
    let (_, good) = hello(&secure);
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut bytes = good.clone();
        if seed % 2 == 0 {
            let count = 5 + dice.below(3000);
            bytes = dice.bytes(count);
        } else {
            for _ in 0..=dice.below(4) {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
        }
        let mut client = secure.server.client();
        let _ = client.0.write_all(&bytes);
        client.0.shutdown(std::net::Shutdown::Write).unwrap();
        client.read_to_end();
    }
    secure.client().echo(b"others are served");
    secure.stop();
}

pub fn a_damaged_record_ends_its_connection_only(options: Options) {
    let secure = Secure::start(options);
    let mut other = secure.client();
    other.echo(b"before");
    let mut client = secure.client();
    client.echo(b"fine");
    client.0.conn.writer().write_all(&frame(b'E', b"damaged on its way")).unwrap();
    let mut bytes = Vec::new();
    client.0.conn.write_tls(&mut bytes).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    client.0.sock.write_all(&bytes).unwrap();
    let error = client.0.read(&mut [0; 1]).unwrap_err();
    assert!(error.to_string().contains("BadRecordMac"), "{error}");
    drop(client);
    secure.server.wait_closed(CloseReason::TlsBroken, 1);
    other.echo(b"others are served");
    drop(other);
    secure.stop();
}

/// An end of stream that only TCP told: whole messages are answered, and the reason says what was missing.
pub fn a_cut_stream_is_told_from_its_end(options: Options) {
    let secure = Secure::start(options);
    let mut client = secure.client();
    let message = frame(b'E', b"whole");
    client.send(&message);
    client.send(&frame(b'E', b"and half of another")[..9]);
    client.0.sock.shutdown(std::net::Shutdown::Write).unwrap();
    client.expect(&message);
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    drop(client);
    secure.server.wait_closed(CloseReason::TlsBroken, 1);
    secure.stop();
}

pub fn a_reset_is_noticed(options: Options) {
    let secure = Secure::start(options);
    let mut client = secure.client();
    client.echo(b"the handshake is over");
    client.send(&frame(b'E', &[5; 1000]));
    // Closing with unread bytes resets the connection.
    wait_for(|| client.0.sock.peek(&mut [0]).is_ok_and(|count| count == 1), "the answer");
    drop(client);
    secure.server.wait_closed(CloseReason::PeerReset, 1);
    secure.client().echo(b"others are served");
    secure.stop();
}

pub fn garbage_hurts_only_its_sender(options: Options) {
    let secure = Secure::start(options);
    let mut good = secure.client();
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let size = 1 + dice.below(5000);
        let mut client = secure.client();
        let mut bytes = vec![0xff; 4];
        bytes.extend(dice.bytes(size));
        client.send(&bytes);
        let mut answer = Vec::new();
        client.0.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, frame(b'!', b"refused"));
        good.echo(b"others are served");
    }
    drop(good);
    secure.stop();
}

pub fn too_large_messages_are_refused_early(options: Options) {
    let secure = Secure::start(Options { input_bytes_max: 1000, ..options });
    let mut client = secure.client();
    let mut bytes = frame(b'E', b"small");
    bytes.extend_from_slice(&frame(b'E', &[0; 2000])[..10]);
    client.send(&bytes);
    let mut answer = Vec::new();
    client.0.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, frame(b'E', b"small"));
    drop(client);
    secure.server.wait_closed(CloseReason::TooLarge, 1);
    secure.stop();
}

pub fn a_full_worker_refuses(options: Options) {
    let secure = Secure::start(Options { connections_max: 2, ..options });
    let (mut first, mut second) = (secure.client(), secure.client());
    first.echo(b"first");
    second.echo(b"second");
    assert!(secure.server.client().read_to_end().is_empty());
    let counters = secure.server.handle.counters();
    assert_eq!((counters.refused_full.get(), counters.accepted.get()), (1, 2));
    drop(first);
    wait_for(|| counters.connections.get() == 1, "a free place");
    secure.client().echo(b"fourth");
    drop(second);
    secure.stop();
}

pub fn a_flood_of_handshakes_does_not_starve_others(options: Options) {
    let secure = Secure::start(options);
    let over = AtomicBool::new(false);
    let (_, bytes) = hello(&secure);
    thread::scope(|scope| {
        let (over, bytes, server) = (&over, &bytes, &secure.server);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // Both ends are descriptors of this process, and a backend accepts faster than it receives.
                while server.handle.counters().connections.get() > 2_000 {
                    thread::sleep(Duration::from_millis(1));
                }
                let mut crowd: Vec<Client> = (0..60).map(|_| server.client()).collect();
                for client in &mut crowd {
                    let _ = client.0.write_all(bytes);
                }
            }
        });
        let mut client = secure.client();
        for round in 0..100u8 {
            client.echo(&[round; 50]);
        }
        over.store(true, Ordering::Relaxed);
    });
    let failed = || HandshakeFailure::ALL.map(|why| secure.failed(why)).iter().sum::<u64>();
    wait_for(|| failed() >= 60, "the end of the flood");
    secure.stop();
}
