//! Doors that tests make: each listens on a port of its own and serves as many connections as it is told.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use admin_client::{Client, FetchError, Token};
use serde_json::Value;

/// Nothing here takes longer on a healthy machine, however busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// A token that must be seen nowhere but in a request's header.
pub(crate) const SECRET: &str = "0123456789abcdef";

pub(crate) fn token() -> Token {
    Token::new(SECRET, "the test").unwrap()
}

/// A client of a plain door, with a token.
pub(crate) fn client(address: &str) -> Client {
    Client::new(address.parse().unwrap(), Some(token()), None).with_wait(PATIENCE)
}

/// Serves this many connections, each by `serve` with the request's head; returns the heads.
pub(crate) fn server(
    connections: usize,
    serve: impl Fn(&mut TcpStream, &str) + Send + 'static,
) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            let head = read_head(&mut stream);
            serve(&mut stream, &head);
            heads.push(head);
        }
        heads
    });
    (address, thread)
}

pub(crate) fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// What the client makes of these bytes. It may look once more at what is no HTTP: that look gets the same bytes.
pub(crate) fn answer(bytes: &'static [u8]) -> Result<Value, FetchError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            read_head(&mut stream);
            let _ = stream.write_all(bytes);
        }
    });
    let found = client(&address).get("/v1/node?x=1");
    if let Err(error) = &found {
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
    }
    found
}
