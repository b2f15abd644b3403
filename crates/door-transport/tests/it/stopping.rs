//! The end of a loop.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use door_transport::{CloseReason, Limits, Listeners, Options};

use crate::support::{Client, Server, frame, wait_for};

pub fn stop_answers_what_was_received(options: Options) {
    // An address of its own: no other test is given the port once it is free again.
    let listeners = Listeners::bind("127.0.0.2:0".parse().unwrap(), 1).unwrap();
    let server = Server::start_on(listeners, options);
    server.shared().answer_at_stop = true;
    let mut client = server.client();
    client.send(&frame(b'L', b"in flight"));
    let idle = server.client();
    wait_for(|| server.shared().later.len() == 1 && server.shared().opened.len() == 2, "both");
    let address = server.address;
    server.handle.stop();
    assert_eq!(client.read_to_end(), frame(b'L', b"in flight"));
    drop(client);
    drop(idle);
    let handle = server.handle.clone();
    server.stop();
    assert_eq!(handle.counters().closed(CloseReason::Shutdown), 2);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

/// Nothing of a connection is read while one of its requests waits; what came before the stop is read when that has its answer, whether
/// the loop had received it by then or it still lay in the socket.
pub fn a_stop_answers_what_came_behind_a_request_that_waits(options: Options) {
    let names = [(b'W', "first"), (b'E', "second"), (b'W', "third"), (b'E', "fourth")];
    let frames = names.map(|(command, name)| frame(command, name.as_bytes()));
    let answered = |command| if command == b'W' { b'L' } else { command };
    let answers = names.map(|(command, name)| frame(answered(command), name.as_bytes()));
    for at_once in [4, 2, 1] {
        let server = Server::start(options.clone());
        server.shared().answer_at_stop = true;
        let mut client = server.client();
        client.send(&frames[..at_once].concat());
        wait_for(|| server.shared().later.len() == 1, "the first");
        frames[at_once..].iter().for_each(|frame| client.send(frame));
        server.handle.stop();
        assert_eq!(client.read_to_end(), answers.concat(), "{at_once} at once");
        drop(client);
        server.stop();
    }
}

/// What comes after the stop cannot hold it up for longer than one message's worth of bytes.
pub fn who_never_stops_sending_does_not_hold_up_a_stop(options: Options) {
    let limits = 64 * 1024;
    let server = Server::start(Options { input_bytes_max: limits, ..options });
    server.shared().answer_at_stop = true;
    let socket = TcpStream::connect(server.address).unwrap();
    let mut sender = socket.try_clone().unwrap();
    let mut client = Client::over(socket);
    client.send(&frame(b'W', b"first"));
    wait_for(|| server.shared().later.len() == 1, "the first");
    let floods = std::thread::spawn(move || {
        let many = frame(b'E', &[7; 1_000]).repeat(100);
        while sender.write_all(&many).is_ok() {}
    });
    server.handle.stop();
    let answers = client.read_to_end();
    assert!(answers.starts_with(&frame(b'L', b"first")) && answers.len() <= 2 * limits);
    drop(client);
    server.stop();
    floods.join().unwrap();
}

pub fn whoever_may_speak_while_the_loop_stops_is_heard(options: Options) {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut listeners = Listeners::bind(any, 1).unwrap();
    let Options { input_bytes_max, idle_ms_max, .. } = options;
    let own = Limits { input_bytes_max, idle_ms_max, reads_while_stopping: true };
    let polite = Listeners::bind(any, 1).unwrap().remove(0).with_limits(own);
    let address = polite.local_addr().unwrap();
    listeners.push(polite);
    let server = Server::start_on(listeners, options);
    // What keeps the service from being drained.
    let mut other = server.client();
    other.send(&frame(b'L', b"last"));
    let mut client = Client::over(TcpStream::connect(address).unwrap());
    client.echo(b"before");
    wait_for(|| server.shared().later.len() == 1, "the message");
    let turns = server.shared().turns;
    server.handle.stop();
    wait_for(|| server.shared().turns > turns, "a turn that knows of the stop");
    other.send(&frame(b'E', b"too late"));
    client.echo(b"goodbye");
    let last = server.shared().later.pop_front().unwrap();
    server.shared().outside.push_back(last);
    server.handle.waker().wake();
    assert!(client.read_to_end().is_empty());
    assert_eq!(other.read_to_end(), frame(b'L', b"last"));
    drop((client, other));
    server.stop();
}

pub fn stop_is_bounded_by_the_grace(options: Options) {
    let server = Server::start(Options { stop_grace_ms_max: 300, ..options });
    // The service never gets rid of this one, and the client never ends its side.
    let mut client = server.client();
    client.send(&frame(b'L', b"never answered"));
    wait_for(|| server.shared().later.len() == 1, "the message");
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() >= Duration::from_millis(300), "the grace is given");
    drop(client);
}

pub fn a_stop_before_the_start_ends_at_once(options: Options) {
    let mut server = Server::start(options.clone());
    server.handle.stop();
    server.join();
    // The handle keeps its stop: the next loop with it ends as well.
    let service = crate::support::Framed(server.shared.clone());
    door_transport::run(Vec::new(), &options, service, &server.handle).unwrap();
}

pub fn a_panic_of_the_service_leaves_nothing_running(options: Options) {
    let mut server = Server::start(options);
    let (mut client, mut other) = (server.client(), server.client());
    other.echo(b"before");
    client.send(&frame(b'P', b""));
    assert!(server.thread.take().unwrap().join().is_err());
    assert!(other.read_to_end().is_empty() && client.read_to_end().is_empty());
}
