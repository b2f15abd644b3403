//! The process that calls the model: 64 streams, each one call after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use table::SplitMix64;

use crate::http::Http;
use crate::provider::Line;
use crate::redis::Redis;
use crate::scene::BUDGET;
use crate::store::{Asked, Store};

/// Calls at once.
pub(crate) const STREAMS: u64 = 64;
/// A stream ends when it was refused so often in a row.
const REFUSALS: u32 = 100;
/// And waits so long after each.
const PAUSE: Duration = Duration::from_millis(40);
/// How often what was spent goes to the gateway's database. LiteLLM's own pause is longer.
const FLUSH: Duration = Duration::from_secs(1);
/// Nanos of a token of input and of output: 0.15 and 0.60 dollars a million.
const INPUT: u64 = 150;
const OUTPUT: u64 = 600;
/// `max_tokens` of every call.
const OUTPUT_MAX: u64 = 800;

/// A call: what it costs, what it can cost at most, how long it takes.
struct Call {
    cost: u64,
    most: u64,
    takes: Duration,
}

impl Call {
    fn draw(numbers: &mut SplitMix64) -> Call {
        let input = 200 + numbers.below(1_800);
        let output = 1 + numbers.below(OUTPUT_MAX);
        let takes = Duration::from_millis(10 + output / 16);
        let price = |output| input * INPUT + output * OUTPUT;
        Call { cost: price(output), most: price(OUTPUT_MAX), takes }
    }
}

/// Calls until every stream is refused for long.
///
/// # Errors
/// The provider is gone.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [way, address, provider, seed] = words else {
        return Err("expected: caller WAY STORE PROVIDER SEED".into());
    };
    let seed: u64 = seed.parse().map_err(|_| "the seed is no number")?;
    let unflushed = Arc::new(AtomicU64::new(0));
    let streams: Vec<_> = (0..STREAMS)
        .map(|stream| {
            let name = format!("{seed}-{stream}");
            let store = match way.as_str() {
                "reserve-open" => Store::Reserve { redis: Redis::new(address), open: true },
                "reserve-closed" => Store::Reserve { redis: Redis::new(address), open: false },
                "check" => Store::Check { redis: Redis::new(address) },
                _ => Store::Weir { http: Http::new(address), name, calls: 0 },
            };
            let (provider, unflushed) = (provider.clone(), Arc::clone(&unflushed));
            let numbers = SplitMix64::new(seed * STREAMS + stream);
            std::thread::spawn(move || calls(store, &provider, numbers, &unflushed))
        })
        .collect();
    let mut line = Line::to(provider)?;
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(FLUSH);
            if line.say("flush", unflushed.swap(0, Relaxed)).is_err() {
                return;
            }
        }
    });
    for stream in streams {
        stream.join().map_err(|_| "a stream panicked")??;
    }
    Ok(())
}

/// One stream.
fn calls(
    mut store: Store,
    provider: &str,
    mut numbers: SplitMix64,
    unflushed: &AtomicU64,
) -> Result<(), String> {
    let mut line = Line::to(provider)?;
    let mut refusals = 0;
    while refusals < REFUSALS {
        let call = Call::draw(&mut numbers);
        match store.ask(call.most, &mut line) {
            Asked::Yes(pass) => {
                refusals = 0;
                let charged = line.say("charge", call.cost)?;
                std::thread::sleep(call.takes);
                store.settle(pass, call.cost);
                unflushed.fetch_add(call.cost, Relaxed);
                if charged > 4 * BUDGET {
                    return Ok(());
                }
            }
            Asked::No => {
                refusals += 1;
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}
