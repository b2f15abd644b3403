//! The end of a loop.

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

/// Nothing of a connection is read while one of its requests waits; what came before the stop is read when that has its answer.
pub fn a_stop_answers_what_came_behind_a_request_that_waits(options: Options) {
    let server = Server::start(options);
    server.shared().answer_at_stop = true;
    let mut client = server.client();
    let names = [(b'W', "first"), (b'E', "second"), (b'W', "third"), (b'E', "fourth")];
    client.send(&names.map(|(command, name)| frame(command, name.as_bytes())).concat());
    wait_for(|| server.shared().later.len() == 1, "the first");
    server.handle.stop();
    let answered = |command| if command == b'W' { b'L' } else { command };
    let answers = names.map(|(command, name)| frame(answered(command), name.as_bytes()));
    assert_eq!(client.read_to_end(), answers.concat());
    drop(client);
    server.stop();
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
