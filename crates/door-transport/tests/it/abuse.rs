//! Peers that misbehave.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use door_transport::{CloseReason, Options};

use crate::support::{Client, Dice, PATIENCE, Server, frame, wait_for};

/// Asks for large answers until the sockets take no more asks, which is far more than the server may answer; or until it
/// closes the connection.
fn ask_until_blocked(client: &mut Client) {
    let ask = frame(b'B', b"20000");
    client.0.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
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
    let server =
        Server::start(Options { output_bytes_max: max, receive_buffer_bytes: 4096, ..options });
    let mut client = server.client();
    ask_until_blocked(&mut client);
    let counters = server.handle.counters();
    wait_for(|| counters.paused_reads.get() >= 1, "a pause");
    wait_for(|| counters.output_bytes.get() > 0, "waiting answers");
    // The service stops at the limit; one answer may go past it.
    assert!(counters.output_bytes.get() <= max as u64 + 20_005, "{counters:?}");
    drop(client);
    wait_for(|| counters.output_bytes.get() == 0, "freed answers");
    server.stop();
}

pub fn a_peer_that_never_reads_is_closed(options: Options) {
    let server = Server::start(Options { stalled_ms_max: 1500, ..options });
    let mut client = server.client();
    ask_until_blocked(&mut client);
    server.wait_closed(CloseReason::Stalled, 1);
    let counters = server.handle.counters();
    wait_for(|| counters.output_bytes.get() == 0, "freed answers");
    server.client().echo(b"others are served");
    server.stop();
}

pub fn the_total_of_waiting_answers_is_bounded_and_others_are_served(options: Options) {
    let (each, total) = (300_000, 500_000);
    let server = Server::start(Options {
        output_bytes_max: each,
        output_total_bytes_max: total,
        stalled_ms_max: 60_000,
        receive_buffer_bytes: 4096,
        ..options
    });
    let mut good = server.client();
    let mut deaf: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let counters = server.handle.counters();
    for (number, client) in deaf.iter_mut().enumerate() {
        ask_until_blocked(client);
        // Beside as many who do not read; a good client is neither held nor closed.
        for round in 0..100u8 {
            good.echo(&[round; 50]);
        }
        server.client().echo(&[7; 100]);
        let most = total + total / 4 + each;
        assert!(counters.output_bytes.get() <= most as u64, "{number}: {counters:?}");
    }
    assert!(counters.paused_reads.get() > 0, "{counters:?}");
    assert_eq!(counters.closed(CloseReason::Stalled), 0);
    drop(deaf);
    wait_for(|| counters.output_bytes.get() == 0, "freed answers");
    good.echo(b"and after them");
    drop(good);
    server.stop();
}

/// Many who have nothing unsent yet ask once more each: those who have the most go, nobody else.
pub fn of_many_who_never_read_those_with_the_most_go(options: Options) {
    let (each, total) = (300_000, 500_000);
    let server = Server::start(Options {
        output_bytes_max: each,
        output_total_bytes_max: total,
        stalled_ms_max: 60_000,
        receive_buffer_bytes: 4096,
        ..options
    });
    let mut good = server.client();
    let counters = server.handle.counters();
    let mut deaf = Vec::new();
    while counters.closed(CloseReason::Overload) == 0 {
        assert!(deaf.len() < 200, "nobody goes: {counters:?}");
        let mut client = server.client();
        ask_until_blocked(&mut client);
        deaf.push(client);
        good.echo(b"others are served");
    }
    assert_eq!(server.shared().closed.iter().filter(|(id, _)| id.to_bits() == 0).count(), 0);
    drop((deaf, good));
    server.stop();
}

/// What is allocated counts, not what is in it; and nothing is left once they are gone.
pub fn the_memory_of_waiting_answers_is_bounded(options: Options) {
    const CLIENTS: usize = 12;
    const RECEIVE_BYTES: u32 = 1024;
    // The answer that passes the bound of each needs a buffer of more than the next power of two.
    let (each, total) = (1 << 20, 8 << 20);
    // What had arrived for a connection when its reading stopped is held: all receive buffers, and once more what the kernel fills
    // until it hears of it. Connections stop one after the other, so this is held for each.
    let unread = 2 * usize::from(options.receive_buffers) * RECEIVE_BYTES as usize;
    let server = Server::start(Options {
        output_bytes_max: each,
        output_total_bytes_max: total,
        stalled_ms_max: 5000,
        receive_buffer_bytes: RECEIVE_BYTES,
        ..options
    });
    let mut deaf: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let counters = server.handle.counters();
    let mut most = 0;
    for client in &mut deaf {
        ask_until_blocked(client);
        most = counters.memory_bytes.get().max(most);
    }
    assert!(counters.paused_reads.get() > 0 && most > 1 << 20, "{most}: {counters:?}");
    // One hand-over may add all that one connection may wait with; a quarter more than what is needed is allocated.
    let most_of_all = total + total / 4 + (each + CLIENTS * unread) * 5 / 4;
    assert!(most <= most_of_all as u64, "{most} bytes, {most_of_all} allowed: {counters:?}");
    let gone = || counters.closed(CloseReason::Stalled) + counters.closed(CloseReason::Overload);
    wait_for(|| gone() == CLIENTS as u64, "the end of all");
    wait_for(|| counters.memory_bytes.get() == 0, "freed memory");
    server.stop();
}

pub fn silence_is_closed(options: Options) {
    let server = Server::start(Options { idle_ms_max: 200, ..options });
    let mut client = server.client();
    assert!(client.read_to_end().is_empty());
    server.wait_closed(CloseReason::Idle, 1);
    server.stop();
}

pub fn a_slow_message_is_closed(options: Options) {
    let server = Server::start(Options { partial_ms_max: 300, ..options });
    let mut client = server.client();
    client.echo(b"fine");
    let bytes = frame(b'E', &[0; 1000]);
    for byte in &bytes[..1000] {
        // Each byte is activity, but no message, and the message never ends.
        if client.0.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        if server.handle.counters().closed(CloseReason::SlowMessage) > 0 {
            break;
        }
    }
    server.wait_closed(CloseReason::SlowMessage, 1);
    server.stop();
}

pub fn a_reset_is_noticed(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    client.send(&frame(b'E', &[5; 1000]));
    // Closing with unread bytes resets the connection.
    wait_for(|| client.0.peek(&mut [0]).is_ok_and(|count| count == 1), "the answer");
    drop(client);
    server.wait_closed(CloseReason::PeerReset, 1);
    server.client().echo(b"others are served");
    server.stop();
}

pub fn garbage_hurts_only_its_sender(options: Options) {
    let server = Server::start(options);
    let mut good = server.client();
    for seed in 0..30 {
        let mut dice = Dice::new(seed);
        let size = 1 + dice.below(5000);
        let mut client = server.client();
        // A length that is a lie, then noise.
        let mut bytes = vec![0xff; 4];
        bytes.extend(dice.bytes(size));
        client.send(&bytes);
        assert_eq!(client.read_to_end(), frame(b'!', b"refused"));
        good.echo(b"others are served");
    }
    drop(good);
    server.stop();
}

pub fn a_flood_does_not_starve_others(options: Options) {
    let server = Server::start(options);
    let over = AtomicBool::new(false);
    let flood = frame(b'E', &[9; 100]).repeat(2000);
    thread::scope(|scope| {
        let stream = server.client().0;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let (over, flood) = (&over, &flood);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                writer.write_all(flood).unwrap();
            }
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        scope.spawn(move || {
            let (mut stream, mut sink) = (stream, vec![0; 1 << 16]);
            while stream.read(&mut sink).unwrap() > 0 {}
        });
        let mut client = server.client();
        for round in 0..50u8 {
            client.echo(&[round; 50]);
        }
        over.store(true, Ordering::Relaxed);
    });
    server.stop();
}
