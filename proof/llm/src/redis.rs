//! As much of Redis's protocol as a counter needs.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection, made again where it broke.
#[derive(Debug)]
pub(crate) struct Redis {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Redis {
    pub(crate) fn new(address: &str) -> Redis {
        Redis { address: address.to_owned(), stream: None }
    }

    /// One command: its answer as text; `None` for nil.
    ///
    /// # Errors
    /// The server is gone, or does not like it; whether it did it is not known then.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Option<String>, String> {
        let answer = self.try_ask(words);
        if answer.is_err() {
            self.stream = None;
        }
        answer
    }

    fn try_ask(&mut self, words: &[&str]) -> Result<Option<String>, String> {
        let text = |error: std::io::Error| error.to_string();
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address).map_err(text)?;
            stream.set_nodelay(true).map_err(text)?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(text)?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut().ok_or("connected just now")?;
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.get_mut().write_all(command.as_bytes()).map_err(text)?;
        let line = line(stream)?;
        match line.split_at_checked(1) {
            Some(("$", "-1")) => Ok(None),
            Some(("$", _)) => self.stream.as_mut().map(self::line).transpose(),
            Some((":" | "+", value)) => Ok(Some(value.to_owned())),
            _ => Err(format!("redis: {line}")),
        }
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> Result<String, String> {
    let mut line = String::new();
    let bytes = stream.read_line(&mut line).map_err(|error| error.to_string())?;
    if bytes == 0 { Err("closed".into()) } else { Ok(line.trim_end().to_owned()) }
}
