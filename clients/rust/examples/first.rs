//! Reserve, spend, settle: `cargo run -p weir-client --example first -- 127.0.0.1:7700 1001`.

#![allow(clippy::print_stdout)] // reason: it is what an example is for

use weir_client::{Ask, Client, Decision, Error, Options};

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let node = words.next().unwrap_or_else(|| "127.0.0.1:7700".to_string());
    let budget = words.next().and_then(|word| word.parse().ok()).unwrap_or(1001);

    let client = Client::open(Options::new(&node))?;
    match client.reserve(&Ask::text(budget, "0.15", "USD")?)? {
        Decision::Granted(mut hold) => {
            println!("granted: at most 0.15 USD may be spent");
            let cost = work();
            println!("{cost} USD: {}", hold.settle_text(cost)?.verdict);
        }
        Decision::Refused(why) => println!("not now: {why}"),
    }
    Ok(())
}

/// Stands for what costs money; says what it cost.
fn work() -> &'static str {
    "0.042"
}
