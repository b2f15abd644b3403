//! As much of HTTP/1.1 as a client of the spend door needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A connection, made again where it broke.
#[derive(Debug)]
pub(crate) struct Http {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Http {
    pub(crate) fn new(address: &str) -> Http {
        Http { address: address.to_owned(), stream: None }
    }

    /// Posts until there is an answer: whatever was lost on the way is done once, because of the key.
    pub(crate) fn insist(&mut self, path: &str, key: &str, body: &Value) -> (u16, Value) {
        loop {
            match self.post(path, key, &body.to_string()) {
                Ok((429 | 503, body)) if body["verdict"] != "exhausted" => {}
                Ok(answer) => return answer,
                Err(_) => self.stream = None,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn post(&mut self, path: &str, key: &str, body: &str) -> Result<(u16, Value), String> {
        let text = |error: std::io::Error| error.to_string();
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address).map_err(text)?;
            stream.set_nodelay(true).map_err(text)?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(text)?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut().ok_or("connected just now")?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.get_mut().write_all(format!("{head}{body}").as_bytes()).map_err(text)?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).map_err(text)? == 0 {
                return Err("closed".into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|code| code.parse().ok()).ok_or("no status")?;
            } else if let Some(rest) = line.strip_prefix("content-length:") {
                length = rest.trim().parse().map_err(|_| "no length")?;
            } else if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).map_err(text)?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }
}
