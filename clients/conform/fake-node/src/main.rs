//! `fake-node`: prints its control address as one line of JSON, and lives until its standard input ends.

use std::io::{Read, Write};
use std::net::TcpListener;

fn main() -> std::io::Result<()> {
    let text = match std::env::args_os().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => fake_node::SCENARIOS.to_string(),
    };
    let suite: fake_node::Suite = serde_json::from_str(&text)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let line = serde_json::json!({ "control": listener.local_addr()?.to_string() });
    writeln!(std::io::stdout(), "{line}")?;
    std::io::stdout().flush()?;
    std::thread::spawn(move || fake_node::serve(&listener, &suite));
    // Whoever started this holds the other end: when it dies, however it dies, this ends too.
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}
