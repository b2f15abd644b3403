//! Does the time of a refusal tell why? Welch's test over tags and padding, as `dudect` does it.
//!
//! Two classes of bulk messages that do not open, interleaved at random: a wrong tag over good padding, and a wrong tag over padding that
//! is wrong too. Of each class times above a percentile are left out, the same for both. |t| below 4.5 means that no difference was
//! seen. `cargo run --release -p vault --example timing [tries]` ends with 1 above that.

#![allow(clippy::print_stdout, reason = "a measurement tells its figures")]
#![allow(clippy::cast_precision_loss, reason = "figures of a report")]

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use vault::{Drbg, Item, Key, KeyType, SecretKey};

/// Above this the classes differ.
const LIMIT: f64 = 4.5;
/// Bytes of a plaintext: two blocks and padding.
const PLAIN: usize = 20;
/// Shares of the times that count, in percent.
const SHARES: [usize; 4] = [50, 80, 90, 99];

/// Returns a sealed message of one class, which does not open.
///
/// In CBC a flipped bit of one block flips the same bit of the next block's plaintext: so the last byte of the block before the last one
/// makes the padding wrong. A flipped bit of the first byte of that block leaves the padding and changes a byte of text.
fn refused(key: &Key, random: &mut Drbg, breaks_padding: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut sealed = vec![0; key.kind().sealed_len(PLAIN)];
    let mut items = [Item::new(&[7; PLAIN], b"row", &mut sealed)];
    key.seal(&mut items, random);
    items.iter().try_for_each(|item| item.outcome.map(|_| ()))?;
    // IV, block, last block, tag.
    let place = if breaks_padding { 31 } else { 16 };
    if let Some(byte) = sealed.get_mut(place) {
        *byte ^= 0x40;
    }
    Ok(sealed)
}

fn times(kind: KeyType, tries: usize) -> Result<[Vec<f64>; 2], Box<dyn Error>> {
    let mut random = Drbg::new()?;
    let key = Key::new(kind, &SecretKey::generate(&mut random)?);
    let mut times = [Vec::with_capacity(tries), Vec::with_capacity(tries)];
    let mut coins = vec![0; tries * 2];
    random.fill(&mut coins)?;
    let mut message = vec![0; key.kind().sealed_len(PLAIN)];
    for coin in coins {
        let class = usize::from(coin & 1);
        message.copy_from_slice(&refused(&key, &mut random, class == 1)?);
        let mut output = [0; 64];
        let mut items = [Item::new(black_box(&message), b"row", &mut output)];
        let before = Instant::now();
        key.open(black_box(&mut items));
        let spent = before.elapsed();
        if items.iter().any(|item| item.outcome.is_ok()) {
            return Err("a changed message opened".into());
        }
        if let Some(times) = times.get_mut(class) {
            times.push(spent.as_nanos() as f64);
        }
    }
    Ok(times)
}

/// Welch's t of the times below a limit.
fn welch([one, other]: &[Vec<f64>; 2], limit: f64) -> f64 {
    let figures = |times: &[f64]| {
        let kept: Vec<f64> = times.iter().copied().filter(|time| *time <= limit).collect();
        let count = kept.len() as f64;
        let mean = kept.iter().sum::<f64>() / count;
        let variance = kept.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    };
    let ((one, first), (other, second)) = (figures(one), figures(other));
    (one - other) / (first + second).sqrt().max(f64::MIN_POSITIVE)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let tries = std::env::args().nth(1).map_or(Ok(100_000), |tries| tries.parse::<usize>())?;
    let mut worst = 0.0_f64;
    println!("| refused for tag alone, or tag and padding | tries | |t| by share of the times |");
    println!("| --- | ---: | --- |");
    for kind in [KeyType::Aes256CbcCmac, KeyType::Aes256CbcHmacSha256] {
        let times = times(kind, tries)?;
        let mut all: Vec<f64> = times.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let mut cells = Vec::new();
        for share in SHARES {
            let limit = all.get(all.len() * share / 100).copied().unwrap_or(f64::MAX);
            let t = welch(&times, limit).abs();
            worst = worst.max(t);
            cells.push(format!("{share} %: {t:.2}"));
        }
        println!("| {kind} | {} | {} |", all.len(), cells.join(", "));
    }
    println!("worst |t| {worst:.2}, limit {LIMIT}");
    Ok(if worst < LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
