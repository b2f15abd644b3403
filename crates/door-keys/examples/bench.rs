//! What an item costs through the door: JSON in, JSON out, batches of 1 to 100,000, beside the vault alone.
//!
//! Processor time of this thread; median and least of interleaved rounds.
//! `cargo run --release -p door-keys --example bench [rounds] [type] [items of a call]`;
//! with 0 rounds the work of one is done without a clock, for tools that count instructions and do not bear it.

#![allow(clippy::print_stdout, reason = "a benchmark tells its figures")]

use std::error::Error;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use door_keys::{Caller, Door, KeyScopes, Method, Request, Settings};
use vault::{KeyEncryptionKey, KeyStore, Keys, MemoryRecords, SecretKey};

const KINDS: [&str; 5] =
    ["aes256-gcm96", "aes128-gcm96", "aes256-gcm-siv", "aes256-cbc-cmac", "aes256-cbc-hmac-sha256"];
const BATCHES: [usize; 5] = [1, 10, 100, 1_000, 100_000];
/// Items of a round, so that small batches are not lost in the clock.
const ITEMS: usize = 100_000;
const PLAIN_BYTES: usize = 32;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(now.tv_sec)) + Duration::from_nanos(part(now.tv_nsec))
}

struct Bench {
    door: Door,
    store: KeyStore<MemoryRecords>,
    scopes: KeyScopes,
    clock: fn() -> Duration,
}

impl Bench {
    fn new(clock: fn() -> Duration) -> Outcome<Bench> {
        let mut store = KeyStore::new(Keys::new(10), MemoryRecords::default())?;
        store.unseal(KeyEncryptionKey::new(&SecretKey::from_bytes(&[7; 32])))?;
        let settings = Settings::default();
        Ok(Bench { door: Door::new(settings)?, store, scopes: KeyScopes::default(), clock })
    }

    fn post(&mut self, path: &str, body: &str) -> Outcome<&[u8]> {
        let request = Request {
            method: Method::Post,
            path,
            query: "",
            namespace: None,
            wrap_ttl: None,
            token: None,
            body: body.as_bytes(),
            now_s: 1,
        };
        let caller = Caller { name: "bench", scopes: &self.scopes };
        let answer = self.door.answer(&request, Some(&caller), &mut self.store);
        let answer = answer.ok_or("the gate never waits")?;
        if answer.status == 200 {
            Ok(answer.body)
        } else {
            Err(format!("status {}", answer.status).into())
        }
    }

    /// Returns processor time per item in ns.
    fn round(&mut self, path: &str, body: &str, batch: usize) -> Outcome<f64> {
        let calls = ITEMS / batch;
        let before = (self.clock)();
        for _ in 0..calls {
            std::hint::black_box(self.post(path, body)?);
        }
        let spent = u32::try_from(((self.clock)() - before).as_nanos())?;
        Ok(f64::from(spent) / f64::from(u32::try_from(calls * batch)?))
    }
}

fn of_plaintexts(batch: usize) -> String {
    let item = |at: usize| {
        let text = STANDARD.encode(format!("{at:0PLAIN_BYTES$}"));
        format!("{{\"plaintext\":\"{text}\"}}")
    };
    let items: Vec<String> = (0..batch).map(item).collect();
    if batch == 1 { items.concat() } else { format!("{{\"batch_input\":[{}]}}", items.join(",")) }
}

/// Makes the request that opens what an answer sealed.
fn of_answer(answer: &[u8], batch: usize) -> Outcome<String> {
    let answer: serde_json::Value = serde_json::from_slice(answer)?;
    let sealed = |item: &serde_json::Value| format!("{{\"ciphertext\":{}}}", item["ciphertext"]);
    if batch == 1 {
        return Ok(sealed(&answer["data"]));
    }
    let items = answer["data"]["batch_results"].as_array().ok_or("a batch")?;
    let items: Vec<String> = items.iter().map(sealed).collect();
    Ok(format!("{{\"batch_input\":[{}]}}", items.join(",")))
}

/// Returns the median and the least.
fn summary(figures: &mut [f64]) -> String {
    figures.sort_by(f64::total_cmp);
    let at = |place: usize| figures.get(place).copied().unwrap_or(f64::NAN);
    format!("{:.0} ({:.0})", at(figures.len() / 2), at(0))
}

fn main() -> Outcome<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |rounds| rounds.parse::<usize>())?;
    let clock = if rounds == 0 { || Duration::ZERO } else { cpu };
    let mut bench = Bench::new(clock)?;
    println!(
        "ns of processor time per item of {PLAIN_BYTES} bytes, to encrypt / to decrypt: median (least) of {rounds} rounds"
    );
    let only = std::env::args().nth(2);
    let batches = match std::env::args().nth(3) {
        Some(batch) => vec![batch.parse::<usize>()?],
        None => BATCHES.to_vec(),
    };
    println!("| | {} |", batches.iter().map(usize::to_string).collect::<Vec<_>>().join(" | "));
    println!("| --- |{}", " ---: |".repeat(batches.len()));
    for kind in KINDS.into_iter().filter(|kind| only.as_deref().is_none_or(|only| only == *kind)) {
        bench.post(&format!("/v1/transit/keys/{kind}"), &format!("{{\"type\":\"{kind}\"}}"))?;
        let (seal, open) =
            (format!("/v1/transit/encrypt/{kind}"), format!("/v1/transit/decrypt/{kind}"));
        let mut cells = Vec::new();
        for &batch in &batches {
            let plain = of_plaintexts(batch);
            let sealed = of_answer(bench.post(&seal, &plain)?, batch)?;
            let (mut to, mut from) = (Vec::new(), Vec::new());
            for _ in 0..rounds.max(1) {
                to.push(bench.round(&seal, &plain, batch)?);
                from.push(bench.round(&open, &sealed, batch)?);
            }
            cells.push(format!("{} / {}", summary(&mut to), summary(&mut from)));
        }
        println!("| {kind} | {} |", cells.join(" | "));
    }
    Ok(())
}
