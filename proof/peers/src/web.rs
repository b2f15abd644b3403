//! A node for callers of the spend door, and such a caller: connections that stay, and no more HTTP than that needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::daemon::{Daemon, bound_to_us, folder_on_disk, weir_binary};

/// No answer takes longer.
const ANSWER_S_MAX: u64 = 30;

/// A node with one worker, on core 0.
pub struct Node {
    daemon: Daemon,
    pub spend: SocketAddr,
}

impl Node {
    /// Starts one on this budgets file and data folder.
    pub fn start(budgets: &Path, data: &Path) -> Result<Node, String> {
        let weir = weir_binary();
        if !weir.is_file() {
            let place = weir.display();
            return Err(format!(
                "no node at {place}: build the weir binary of the same profile first"
            ));
        }
        let folder = folder_on_disk()?;
        let log = folder.path().join("log");
        let mut command = bound_to_us(&weir, None);
        command.arg("run");
        for door in ["--admin", "--batch", "--openrtb", "--spend"] {
            command.args([door, "127.0.0.1:0"]);
        }
        command.arg("--budgets").arg(budgets).arg("--data").arg(data);
        command.env("WEIR_WORKERS__CORES", "0").env("WEIR_LOG__LEVEL", "error");
        let mut daemon = Daemon::start(command, folder, 0)?;
        let spend = daemon.wait_for(|_| address(&log))?;
        Ok(Node { daemon, spend })
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.daemon.id()
    }
}

/// What a node that is ready has printed.
fn address(log: &Path) -> Result<SocketAddr, String> {
    let text = std::fs::read_to_string(log).map_err(|e| e.to_string())?;
    let spend = text.lines().find_map(|line| line.strip_prefix("spend ")?.parse().ok());
    let ready = text.lines().any(|line| line == "ready");
    spend.filter(|_| ready).ok_or_else(|| "the node is not ready".to_owned())
}

/// A request with this body.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A connection, and what was received on it.
pub struct Caller {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Caller {
    pub fn connect(to: SocketAddr) -> Result<Caller, String> {
        let socket = TcpStream::connect(to).map_err(|e| e.to_string())?;
        socket.set_nodelay(true).map_err(|e| e.to_string())?;
        let limit = Some(Duration::from_secs(ANSWER_S_MAX));
        socket.set_read_timeout(limit).map_err(|e| e.to_string())?;
        Ok(Caller { socket, input: Vec::new() })
    }

    pub fn send(&mut self, requests: &[u8]) -> Result<(), String> {
        self.socket.write_all(requests).map_err(|e| e.to_string())
    }

    /// Takes so many answers, each of which must have the status 200; hands out their bodies.
    pub fn answers(&mut self, count: usize, mut body: impl FnMut(&[u8])) -> Result<(), String> {
        for _ in 0..count {
            let (from, to) = loop {
                match place_of_body(&self.input)? {
                    Some(place) => break place,
                    None => self.receive()?,
                }
            };
            body(&self.input[from..to]);
            self.input.drain(..to);
        }
        Ok(())
    }

    /// One request and the body of its answer.
    pub fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let mut answer = Vec::new();
        self.send(request)?;
        self.answers(1, |body| answer.extend_from_slice(body))?;
        Ok(answer)
    }

    /// Takes so many answers of Redis that are integers; how many of them were not 1.
    pub fn integers(&mut self, count: usize) -> Result<usize, String> {
        let mut others = 0;
        for _ in 0..count {
            let end = loop {
                match self.input.windows(2).position(|two| two == b"\r\n") {
                    Some(end) => break end,
                    None => self.receive()?,
                }
            };
            if self.input[0] != b':' {
                return Err(String::from_utf8_lossy(&self.input[..end]).into_owned());
            }
            others += usize::from(&self.input[..end] != b":1");
            self.input.drain(..end + 2);
        }
        Ok(others)
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut room = [0; 65_536];
        let len = self.socket.read(&mut room).map_err(|e| e.to_string())?;
        if len == 0 {
            return Err("the connection is closed".into());
        }
        self.input.extend_from_slice(&room[..len]);
        Ok(())
    }
}

/// Where the body of the first answer stands, if all of it is there.
fn place_of_body(input: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&input[..end]);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.and_then(|text| text.parse().ok()).ok_or("no length")?;
    let (from, to) = (end + 4, end + 4 + length);
    if input.len() < to {
        return Ok(None);
    }
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("{head}\n{}", String::from_utf8_lossy(&input[from..to])));
    }
    Ok(Some((from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_once_it_is_whole() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP";
        assert_eq!(place_of_body(&answer[..20]), Ok(None));
        assert_eq!(place_of_body(&answer[..39]), Ok(None));
        let (from, to) = place_of_body(answer).unwrap().unwrap();
        assert_eq!(&answer[from..to], b"{}");
        assert!(place_of_body(b"HTTP/1.1 402 \r\nContent-Length: 0\r\n\r\n").is_err());
    }
}
