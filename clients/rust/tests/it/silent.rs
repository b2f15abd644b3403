//! A node that lets clients in and answers nothing further.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_client::{Action, Ask, Client, Options, Token, Verdict};

/// Its address, and how many connections it has let in.
fn silent_node() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let block = wire::welcome::Block::new(2, 1, 1, 100, 0, 1 << 20, 15_000, 60_000, 0);
                let mut frame = vec![0; wire::welcome::encoded_len()];
                wire::welcome::encode(&mut frame, &block).unwrap().finish();
                stream.write_all(&frame).unwrap();
                let mut sink = [0; 4096];
                while matches!(stream.read(&mut sink), Ok(1..)) {}
            });
        }
    });
    (address, count)
}

fn options(address: SocketAddr) -> Options {
    Options::new(&address.to_string())
        .connections(1)
        .linger(Duration::ZERO)
        .deadline(Duration::from_millis(10))
        .answer(Duration::from_millis(50))
}

fn until_another_connection(count: &AtomicUsize, mut again: impl FnMut()) {
    let end = Instant::now() + Duration::from_secs(40);
    while count.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < end, "the client keeps to a connection that is dead");
        again();
    }
}

#[test]
fn a_connection_full_of_asks_without_answers_is_left() {
    let (address, count) = silent_node();
    let client = Client::open(options(address)).unwrap();
    let ask = Ask::text(1, "1", "count").unwrap();
    until_another_connection(&count, || {
        let verdict = client.reserve(&ask).unwrap().verdict();
        assert!([Verdict::TIMEOUT, Verdict::UNREACHABLE].contains(&verdict), "{verdict}");
    });
}

#[test]
fn a_connection_full_of_settlements_without_answers_is_left() {
    let (address, count) = silent_node();
    let client = Client::open(options(address)).unwrap();
    until_another_connection(&count, || {
        client.resolve_all(&[(Token([7; 32]), Action::Settle, 1, 0)]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    });
    assert!(!client.close(Duration::ZERO), "nothing was answered");
}
