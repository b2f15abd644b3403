//! Named limits and their counters.

use std::io::Write;
use std::net::TcpStream;

use door_transport::{CloseReason, Limits, Listeners, Options, OptionsError, RunError, run};

use crate::support::{Client, Framed, Server, frame, wait_for};

pub fn a_full_worker_refuses(options: Options) {
    let server = Server::start(Options { connections_max: 2, ..options });
    let (mut first, mut second) = (server.client(), server.client());
    first.echo(b"first");
    second.echo(b"second");
    let mut third = server.client();
    assert!(third.read_to_end().is_empty());
    let counters = server.handle.counters();
    assert_eq!((counters.refused_full.get(), counters.accepted.get()), (1, 2));
    drop(first);
    wait_for(|| counters.connections.get() == 1, "a free place");
    server.client().echo(b"fourth");
    second.echo(b"still here");
    drop(second);
    server.stop();
}

pub fn too_large_messages_are_refused_early(options: Options) {
    let server = Server::start(Options { input_bytes_max: 1000, ..options });
    let mut client = server.client();
    // An earlier answer still arrives; the head of the large one is enough to refuse it.
    let mut bytes = frame(b'E', b"small");
    bytes.extend_from_slice(&frame(b'E', &[0; 2000])[..10]);
    client.send(&bytes);
    assert_eq!(client.read_to_end(), frame(b'E', b"small"));
    drop(client);
    server.wait_closed(CloseReason::TooLarge, 1);
    server.stop();
}

pub fn unfinished_messages_are_bounded_in_total(options: Options) {
    let server = Server::start(Options {
        input_bytes_max: 40_000,
        input_total_bytes_max: 100_000,
        ..options
    });
    let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    for client in &mut clients {
        // Those that are too many may be closed while they still send.
        let _ = client.0.write_all(&frame(b'E', &[0; 39_000])[..30_000]);
    }
    server.wait_closed(CloseReason::Overload, 2);
    let counters = server.handle.counters();
    wait_for(|| counters.input_bytes.get() <= 100_000, "a bounded total");
    assert_eq!(counters.closed(CloseReason::Overload), 2);
    drop(clients);
    server.stop();
}

pub fn a_listener_may_have_limits_of_its_own(options: Options) {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut listeners = Listeners::bind(any, 1).unwrap();
    let own = Limits { input_bytes_max: 100, idle_ms_max: 50, reads_while_stopping: false };
    let small = Listeners::bind(any, 1).unwrap().remove(0).with_limits(own);
    let address = small.local_addr().unwrap();
    listeners.push(small);
    let server = Server::start_on(listeners, Options { input_bytes_max: 10_000, ..options });
    let mut large = server.client();
    large.echo(&[0; 5_000]);
    let mut client = Client::over(TcpStream::connect(address).unwrap());
    client.send(&frame(b'E', &[0; 5_000])[..10]);
    assert!(client.read_to_end().is_empty());
    server.wait_closed(CloseReason::TooLarge, 1);
    let mut silent = Client::over(TcpStream::connect(address).unwrap());
    assert!(silent.read_to_end().is_empty());
    server.wait_closed(CloseReason::Idle, 1);
    large.echo(b"idle for longer, and still here");
    drop((large, client, silent));
    server.stop();
}

#[test]
fn wrong_options_do_not_start() {
    let service = Framed(std::sync::Arc::default());
    let options = Options { receive_buffers: 3, ..Options::default() };
    let handle = door_transport::Handle::new().unwrap();
    let Err(RunError::Options(OptionsError { name, .. })) =
        run(Vec::new(), &options, service, &handle)
    else {
        panic!("it started")
    };
    assert_eq!(name, "receive_buffers");
}
