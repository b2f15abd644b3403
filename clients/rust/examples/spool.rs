//! A settlement that no node hears survives in a file. Stop the node when this says so, start it again, and run this once more:
//! `cargo run -p weir-client --example spool -- 127.0.0.1:7700 1001 /tmp/weir.spool`.

#![allow(clippy::print_stdout)] // reason: it is what an example is for

use std::time::Duration;

use weir_client::{Action, Ask, Client, Error, Options};

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let node = words.next().unwrap_or_else(|| "127.0.0.1:7700".to_string());
    let budget = words.next().and_then(|word| word.parse().ok()).unwrap_or(1001);
    let file = words.next().unwrap_or_else(|| "/tmp/weir.spool".to_string());

    let client = Client::open(Options::new(&node).spool(file))?;
    println!("{} settlements of before are under way", client.unanswered());
    let decision = client.reserve(&Ask::text(budget, "0.15", "USD")?)?;
    let verdict = decision.verdict();
    let Some(mut hold) = decision.granted() else {
        println!("not now: {verdict}");
        return Ok(());
    };
    println!("granted; stop the node now if you want to see its settlement wait");
    std::thread::sleep(Duration::from_secs(2));
    let amount = weir_client::Amount::new(42_000);
    let outcome = hold.resolve_within(Action::Settle, amount, Duration::from_secs(1))?;
    println!("{}", outcome.verdict);
    Ok(())
}
