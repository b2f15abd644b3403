//! A hundred asks in one call, and their settlements: `cargo run -p weir-client --example batch -- 127.0.0.1:7700 1001`.

#![allow(clippy::print_stdout)] // reason: it is what an example is for

use std::time::Duration;

use weir_client::{Action, Ask, Client, Error, Options};

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let node = words.next().unwrap_or_else(|| "127.0.0.1:7700".to_string());
    let budget = words.next().and_then(|word| word.parse().ok()).unwrap_or(1001);

    let client = Client::open(Options::new(&node).deadline(Duration::from_millis(200)))?;
    let asks = vec![Ask::text(budget, "0.01", "USD")?; 100];
    // Both vectors can be used again for the next call: then nothing is allocated.
    let mut answers = Vec::new();
    client.reserve_all(&asks, &mut answers)?;

    let granted = answers.iter().filter(|answer| answer.verdict.is_granted());
    let settles: Vec<_> =
        granted.map(|answer| (answer.token, Action::Settle, 10_000, answer.request_id)).collect();
    println!("{} of {} granted", settles.len(), asks.len());
    client.resolve_all(&settles)?;
    let all = client.close(Duration::from_secs(10));
    println!("{}", if all { "all settled" } else { "not all are settled yet" });
    Ok(())
}
