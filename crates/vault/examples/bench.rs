//! What sealing and opening serials costs: processor time per message of 32 bytes with 24 bytes of associated data, this crate beside
//! RustCrypto and `ring` one message after the other, all in the same run.
//!
//! ```sh
//! cargo run --release -p vault --example bench            # all; about a minute
//! cargo run --release -p vault --example bench -- 200000  # fewer messages
//! ```
//!
//! Rounds are interleaved, so that a busy machine disturbs all alike; the median and the least of them are printed. Buffers are touched
//! before. Batches of 1 to 100 run over the same 1,000 messages again and again, the long run over all.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints, and fails loudly")]

use aes::cipher::common::InnerIvInit;
use aes::{Aes256, Aes256Dec, Aes256Enc};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt};
use cmac::{Cmac, KeyInit, Mac};
use hmac::Hmac;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustix::time::{ClockId, clock_gettime};
use sha2::Sha256;
use vault::{Drbg, Item, Key, KeyType, SecretKey};

const PLAIN: usize = 32;
const AAD: usize = 24;
/// The longest sealed message of any contestant.
const SEALED: usize = 96;
const OPENED: usize = 48;
const ROUNDS: usize = 7;
/// Messages of one call in the long run.
const LONG: usize = 512;
/// Messages that the short batches run over.
const HOT: usize = 1000;

/// Memory of a run: rows without gaps, as long as the contestant needs them.
struct Rows {
    plain: Vec<[u8; PLAIN]>,
    aad: Vec<[u8; AAD]>,
    sealed: Vec<u8>,
    opened: Vec<u8>,
}

/// Returns row `at` of rows of `length` bytes.
fn row(rows: &mut [u8], at: usize, length: usize) -> &mut [u8] {
    &mut rows[at * length..][..length]
}

/// Who seals rows `first..first + count` in one call, and opens them.
trait Contestant {
    fn name(&self) -> String;
    fn seal(&mut self, rows: &mut Rows, first: usize, count: usize);
    fn open(&mut self, rows: &mut Rows, first: usize, count: usize);
}

struct Vault(Key, Drbg, usize);

impl Contestant for Vault {
    fn name(&self) -> String {
        let aad = if self.2 == 0 { ", no AAD" } else { "" };
        format!("vault {}{aad}", self.0.kind())
    }

    fn seal(&mut self, rows: &mut Rows, first: usize, count: usize) {
        let length = self.0.kind().sealed_len(PLAIN);
        let inputs = rows.plain[first..first + count].iter().zip(&rows.aad[first..]);
        let mut items = inputs
            .zip(rows.sealed[first * length..].chunks_mut(length))
            .map(|((plain, aad), sealed)| Item::new(plain, &aad[..self.2], sealed));
        if count == 1 {
            return self.0.seal(&mut [items.next().unwrap()], &mut self.1);
        }
        self.0.seal(&mut items.collect::<Vec<_>>(), &mut self.1);
    }

    fn open(&mut self, rows: &mut Rows, first: usize, count: usize) {
        let length = self.0.kind().sealed_len(PLAIN);
        let opened = self.0.kind().opened_max(length);
        let sealed = rows.sealed[first * length..].chunks(length).take(count);
        let mut items = sealed
            .zip(&rows.aad[first..])
            .zip(rows.opened[first * opened..].chunks_mut(opened))
            .map(|((sealed, aad), opened)| Item::new(sealed, &aad[..self.2], opened));
        if count == 1 {
            let mut items = [items.next().unwrap()];
            self.0.open(&mut items);
            assert_eq!(items[0].outcome, Ok(PLAIN));
            return;
        }
        let mut items = items.collect::<Vec<_>>();
        self.0.open(&mut items);
        assert!(items.iter().all(|item| item.outcome == Ok(PLAIN)));
    }
}

/// The crates `cbc` and a MAC, one message after the other, with the AAD and IV before the ciphertext in the MAC. Key schedules are kept.
struct OneByOne<M> {
    name: &'static str,
    encrypt: Aes256Enc,
    decrypt: Aes256Dec,
    mac: M,
    random: Drbg,
}

impl<M> OneByOne<M> {
    fn new(name: &'static str, mac: M) -> OneByOne<M> {
        let (encrypt, decrypt) = (Aes256Enc::new(&[5; 32].into()), Aes256Dec::new(&[5; 32].into()));
        OneByOne { name, encrypt, decrypt, mac, random: Drbg::new().unwrap() }
    }
}

impl<M: Mac + Clone> Contestant for OneByOne<M> {
    fn name(&self) -> String {
        format!("RustCrypto {}", self.name)
    }

    fn seal(&mut self, rows: &mut Rows, first: usize, count: usize) {
        for at in first..first + count {
            let mut iv = [0; 16];
            self.random.fill(&mut iv).unwrap();
            let sealed = row(&mut rows.sealed, at, 64 + M::output_size());
            sealed[..16].copy_from_slice(&iv);
            cbc::Encryptor::inner_iv_init(&self.encrypt, &iv.into())
                .encrypt_padded_b2b::<Pkcs7>(&rows.plain[at], &mut sealed[16..64])
                .unwrap();
            let mut mac = self.mac.clone();
            mac.update(&rows.aad[at]);
            mac.update(&sealed[..64]);
            let tag = mac.finalize().into_bytes();
            sealed[64..64 + tag.len()].copy_from_slice(&tag);
        }
    }

    fn open(&mut self, rows: &mut Rows, first: usize, count: usize) {
        for at in first..first + count {
            let sealed = row(&mut rows.sealed, at, 64 + M::output_size());
            let mut mac = self.mac.clone();
            mac.update(&rows.aad[at]);
            mac.update(&sealed[..64]);
            mac.verify_slice(&sealed[64..64 + M::output_size()]).unwrap();
            let iv: [u8; 16] = sealed[..16].try_into().unwrap();
            let opened = cbc::Decryptor::inner_iv_init(&self.decrypt, &iv.into())
                .decrypt_padded_b2b::<Pkcs7>(&sealed[16..64], row(&mut rows.opened, at, 48))
                .unwrap();
            assert_eq!(opened.len(), PLAIN);
        }
    }
}

struct Ring(LessSafeKey, Drbg);

impl Contestant for Ring {
    fn name(&self) -> String {
        "ring AES-256-GCM".to_string()
    }

    fn seal(&mut self, rows: &mut Rows, first: usize, count: usize) {
        for at in first..first + count {
            let mut nonce = [0; 12];
            self.1.fill(&mut nonce).unwrap();
            let sealed = row(&mut rows.sealed, at, 60);
            sealed[..12].copy_from_slice(&nonce);
            sealed[12..44].copy_from_slice(&rows.plain[at]);
            let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(&rows.aad[at]));
            let tag = self.0.seal_in_place_separate_tag(nonce, aad, &mut sealed[12..44]).unwrap();
            sealed[44..60].copy_from_slice(tag.as_ref());
        }
    }

    fn open(&mut self, rows: &mut Rows, first: usize, count: usize) {
        for at in first..first + count {
            let sealed = row(&mut rows.sealed, at, 60);
            let nonce = Nonce::try_assume_unique_for_key(&sealed[..12]).unwrap();
            let opened = row(&mut rows.opened, at, 48);
            opened.copy_from_slice(&sealed[12..]);
            let opened = self.0.open_in_place(nonce, Aad::from(&rows.aad[at]), opened).unwrap();
            assert_eq!(opened.len(), PLAIN);
        }
    }
}

/// Returns the processor time of this thread, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "a run lasts seconds")]
fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns nanoseconds per message of sealing and of opening `messages` in batches.
#[expect(clippy::cast_precision_loss, reason = "a few million messages")]
fn run(one: &mut dyn Contestant, rows: &mut Rows, messages: usize, batch: usize) -> [f64; 2] {
    let over = if batch == LONG { rows.plain.len() } else { HOT };
    let firsts =
        || (0..messages / batch).map(|call| call * batch % over).map(|at| at.min(over - batch));
    let start = processor_ns();
    firsts().for_each(|first| one.seal(rows, first, batch));
    let sealed = processor_ns();
    firsts().for_each(|first| one.open(rows, first, batch));
    let counted = (messages / batch * batch) as f64;
    [(sealed - start) / counted, (processor_ns() - sealed) / counted]
}

fn contestants() -> Vec<Box<dyn Contestant>> {
    let random = || Drbg::new().unwrap();
    let key = |kind| Key::new(kind, &SecretKey::generate(&mut random()).unwrap());
    let mut all: Vec<Box<dyn Contestant>> = vec![
        Box::new(Vault(key(KeyType::Aes256CbcCmac), random(), AAD)),
        Box::new(Vault(key(KeyType::Aes256CbcCmac), random(), 0)),
    ];
    for kind in [KeyType::Aes256Gcm96, KeyType::Aes256GcmSiv, KeyType::Aes256CbcHmacSha256] {
        all.push(Box::new(Vault(key(kind), random(), AAD)));
    }
    let cmac = <Cmac<Aes256> as KeyInit>::new(&[7; 32].into());
    all.push(Box::new(OneByOne::new("cbc + cmac", cmac)));
    let hmac = <Hmac<Sha256> as KeyInit>::new_from_slice(&[7; 32]).unwrap();
    all.push(Box::new(OneByOne::new("cbc + hmac", hmac)));
    let ring = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[5; 32]).unwrap());
    all.push(Box::new(Ring(ring, random())));
    all
}

fn median_and_least(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:7.1} ({:6.1})", values[values.len() / 2], values[0])
}

fn main() {
    let asked = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let messages: usize = asked.unwrap_or(1_000_000).max(HOT);
    let mut rows = Rows {
        plain: vec![[7; PLAIN]; messages],
        aad: vec![[9; AAD]; messages],
        sealed: vec![1; SEALED * messages],
        opened: vec![1; OPENED * messages],
    };
    println!("ns of processor time per message, median (least) of {ROUNDS} interleaved rounds");
    println!("AES instructions: {}", aes::hardware_accelerated());
    println!("{:32} {:>6} {:>16} {:>16}", "", "batch", "seal", "open");
    for batch in [1, 10, 100, LONG] {
        let mut all = contestants();
        let mut times = vec![[const { Vec::new() }; 2]; all.len()];
        for _ in 0..ROUNDS {
            for (one, times) in all.iter_mut().zip(&mut times) {
                let count = if batch == LONG { messages } else { messages / 5 };
                let [seal, open] = run(one.as_mut(), &mut rows, count, batch);
                times[0].push(seal);
                times[1].push(open);
            }
        }
        for (one, [seal, open]) in all.iter().zip(times) {
            let (seal, open) = (median_and_least(seal), median_and_least(open));
            let batch = if batch == LONG { "long".to_string() } else { batch.to_string() };
            println!("{:32} {batch:>6} {seal:>16} {open:>16}", one.name());
        }
    }
}
