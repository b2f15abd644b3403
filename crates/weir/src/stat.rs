//! `weir stat`: the live counters of a running node.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// How long a node may take to answer.
const WAIT: Duration = Duration::from_secs(15);

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum StatError {
    /// Nobody said where the node is.
    #[error("{path}: {text}; is a node running on this data folder? Give --data or --target")]
    NoAddress {
        /// The file that should say it.
        path: String,
        /// What is wrong with it.
        text: String,
    },
    /// The node cannot be reached.
    #[error("node at {address}: {source}; is it running?")]
    Unreachable {
        /// Its admin address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// It answers, but not with figures.
    #[error("node at {address}: {text}")]
    Refused {
        /// Its admin address.
        address: SocketAddr,
        /// Its answer.
        text: String,
    },
}

/// The admin address of the node that runs on a data folder.
///
/// # Errors
/// There is none, or the file that says it cannot be read.
pub fn address_of(data: &Path) -> Result<SocketAddr, StatError> {
    let path = data.join("addresses.json");
    let wrong = |text: String| StatError::NoAddress { path: path.display().to_string(), text };
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let addresses: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let admin = addresses.get("admin").and_then(Value::as_str).and_then(|admin| admin.parse().ok());
    admin.ok_or_else(|| wrong("has no admin address".into()))
}

/// Asks a node for its counters, and for the books of one budget.
///
/// # Errors
/// [`StatError`].
pub fn fetch(address: SocketAddr, budget: Option<u64>) -> Result<Value, StatError> {
    get(address, &budget.map_or("/stat".to_string(), |id| format!("/stat?budget={id}")))
}

/// Asks a node's admin door for a path that answers with JSON.
///
/// # Errors
/// [`StatError`].
pub fn get(address: SocketAddr, path: &str) -> Result<Value, StatError> {
    let body = get_text(address, path, WAIT)?;
    serde_json::from_str(&body)
        .map_err(|error| StatError::Refused { address, text: error.to_string() })
}

/// Asks a node's admin door for a path that answers with text, and waits for at most so long.
///
/// # Errors
/// [`StatError`].
pub fn get_text(address: SocketAddr, path: &str, wait: Duration) -> Result<String, StatError> {
    let answer = request(address, path, wait)
        .map_err(|source| StatError::Unreachable { address, source })?;
    let refused = |text: String| StatError::Refused { address, text };
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| refused("no HTTP answer".into()))?;
    if head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200") {
        return Ok(body.to_string());
    }
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    Err(refused(problem.get("detail").and_then(Value::as_str).unwrap_or(head).to_string()))
}

/// One request of HTTP/1.0, which ends with the connection.
fn request(address: SocketAddr, path: &str, wait: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_read_timeout(Some(wait))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The figures for people.
pub fn print(stat: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    print_value("", stat, out)
}

fn print_value(name: &str, value: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            print_value(&name, value, out)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| print_value(name, item, out)),
        Value::String(text) => writeln!(out, "{name:<40} {text}"),
        other => writeln!(out, "{name:<40} {other}"),
    }
}
