//! Sealing with `aes256-cbc-cmac`: messages of 32 bytes, as serials are.

use std::hint::black_box;
use std::thread;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes256Enc, Block};
use cmac::{Cmac, Mac};
use crossbeam_channel::{Receiver, Sender, bounded};
use vault::{Drbg, Item, Key, KeyType, SecretKey};

use super::super::{Meaning, Pair};
use crate::race::{Done, Way, race};
use crate::{Error, Size};

const KIND: KeyType = KeyType::Aes256CbcCmac;
const PLAIN: usize = 32;
/// Bytes of a sealed message: two blocks and one of padding, IV and tag.
const SEALED: usize = 80;
/// What the MAC is over: the first block, the IV and the ciphertext.
const MACED: usize = 80;
const LANES: usize = 64;
const BLOCK: usize = 16;
const MESSAGES: usize = 1_024;
const ROUNDS: usize = 15;
/// Times that the messages are sealed in a round.
const TIMES: usize = 40;

/// Makes the pairs about sealing.
///
/// # Errors
/// The ways did different work, or the machine gave no randomness or no thread.
pub(super) fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let mut pairs = vec![schedule(size)?, lanes(size)?, mac(size)?, nonces(size)?];
    for (id, messages) in
        [("vault/pool-100", 100), ("vault/pool-1000", 1_000), ("vault/pool-10000", 10_000)]
    {
        pairs.push(pool(size, id, messages)?);
    }
    Ok(pairs)
}

fn random() -> Result<Drbg, Error> {
    Drbg::new().map_err(|error| {
        let (action, source) = ("asking for randomness".to_owned(), std::io::Error::other(error));
        Error::Io { action, source }
    })
}

fn secret() -> SecretKey {
    SecretKey::from_bytes(&[7; 32])
}

/// Messages and the room for what they are sealed to.
struct Batch {
    plain: Vec<[u8; PLAIN]>,
    sealed: Vec<u8>,
}

impl Batch {
    fn new(messages: usize) -> Batch {
        let plain = (0..messages).map(|at| [at.to_le_bytes()[0]; PLAIN]).collect();
        Batch { plain, sealed: vec![0; messages * SEALED] }
    }

    /// Seals all messages, so many in a call, each time with the key that `key_of` gives. Returns how many were sealed.
    fn seal<K: AsRef<Key>>(
        &mut self,
        in_a_call: usize,
        key_of: impl Fn() -> K,
        random: &mut Drbg,
    ) -> u64 {
        let places = self.sealed.chunks_exact_mut(SEALED);
        let mut items: Vec<Item<'_>> =
            self.plain.iter().zip(places).map(|(plain, to)| Item::new(plain, &[], to)).collect();
        for call in items.chunks_mut(in_a_call) {
            key_of().as_ref().seal(black_box(call), random);
        }
        items.iter().filter(|item| item.outcome == Ok(SEALED)).count() as u64
    }
}

/// A key that is made for a call, or one that is kept.
enum Held<'k> {
    Made(Key),
    Kept(&'k Key),
}

impl AsRef<Key> for Held<'_> {
    fn as_ref(&self) -> &Key {
        match self {
            Held::Made(key) => key,
            Held::Kept(key) => key,
        }
    }
}

/// A way that seals [`MESSAGES`], so many in a call.
fn calls<'k>(
    in_a_call: usize,
    times: usize,
    key: impl Fn() -> Held<'k> + 'k,
) -> Result<Box<dyn FnMut() -> Done + 'k>, Error> {
    let (mut batch, mut random) = (Batch::new(MESSAGES), random()?);
    Ok(Box::new(move || {
        let mut result = 0;
        for _ in 0..times {
            result = batch.seal(in_a_call, &key, &mut random);
        }
        Done { operations: (times * MESSAGES) as u64, result }
    }))
}

fn schedule(size: Size) -> Result<Pair, Error> {
    let (kept, secret, times) = (Key::new(KIND, &secret()), &secret(), size.pick(TIMES, 1));
    let made = || Held::Made(Key::new(KIND, secret));
    let ways: Vec<Way<'_>> = vec![
        ("key kept, calls of 10", calls(10, times, || Held::Kept(&kept))?),
        ("key made for each call", calls(10, times, made)?),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "keys stay expanded in memory",
        slower: "keys need not stay expanded",
        level: "keys need not stay expanded",
    };
    let what = "Messages of 32 bytes are sealed, ten in a call, with a key that is kept expanded, or is derived and expanded for the call.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/schedule", what, "message", outcomes, &meaning))
}

fn lanes(size: Size) -> Result<Pair, Error> {
    let (key, times) = (Key::new(KIND, &secret()), size.pick(TIMES, 1));
    let way = |in_a_call| calls(in_a_call, times, || Held::Kept(&key));
    let ways: Vec<Way<'_>> = vec![
        ("64 lanes", way(LANES)?),
        ("32 lanes", way(32)?),
        ("16 lanes", way(16)?),
        ("8 lanes", way(8)?),
        ("4 lanes", way(4)?),
        ("1 lane", way(1)?),
    ];
    let meaning = Meaning {
        rival: Some("8 lanes"),
        faster: "batches go through 64 lanes",
        slower: "eight lanes are enough, and 64 too many",
        level: "eight lanes are enough",
    };
    let what =
        "1,024 messages of 32 bytes are sealed in calls of as many messages as there are lanes.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/lanes", what, "message", outcomes, &meaning))
}

/// Returns the tags of messages of [`MACED`] bytes, 64 chains next to each other. The second sub-key is not needed: all blocks are whole.
fn tags_of_lanes(cipher: &Aes256Enc, texts: &[[u8; MACED]], tags: &mut Vec<Block>) {
    let mut zero = Block::default();
    cipher.encrypt_block(&mut zero);
    let number = u128::from_be_bytes(zero.0);
    let last = ((number << 1) ^ ((number >> 127).wrapping_neg() & 0x87)).to_be_bytes();
    tags.clear();
    for group in texts.chunks(LANES) {
        let mut chains = [Block::default(); LANES];
        for step in 0..MACED / BLOCK {
            for (chain, text) in chains.iter_mut().zip(group) {
                let block = &text[step * BLOCK..][..BLOCK];
                chain.iter_mut().zip(block).for_each(|(to, from)| *to ^= from);
                if (step + 1) * BLOCK == MACED {
                    chain.iter_mut().zip(last).for_each(|(to, from)| *to ^= from);
                }
            }
            cipher.encrypt_blocks(&mut chains);
        }
        tags.extend_from_slice(&chains[..group.len()]);
    }
}

fn sum(tags: impl Iterator<Item = [u8; BLOCK]>) -> u64 {
    let halves = |tag: [u8; BLOCK]| {
        tag.as_chunks().0.iter().fold(0, |sum, half| sum ^ u64::from_le_bytes(*half))
    };
    tags.fold(0, |sum: u64, tag| sum.wrapping_mul(31) ^ halves(tag))
}

fn mac(size: Size) -> Result<Pair, Error> {
    let texts: Vec<[u8; MACED]> = (0..MESSAGES).map(|at| [at.to_le_bytes()[0]; MACED]).collect();
    let (key, times) = ([9; 32], size.pick(TIMES, 1));
    let cipher = Aes256Enc::new(&key.into());
    let one: Cmac<aes::Aes256> = Cmac::new(&key.into());
    let mut tags = Vec::new();
    let done = |result| Done { operations: (times * MESSAGES) as u64, result };
    let ways: Vec<Way<'_>> = vec![
        (
            "across 64 lanes",
            Box::new(|| {
                let mut result = 0;
                for _ in 0..times {
                    tags_of_lanes(&cipher, black_box(&texts), &mut tags);
                    result = sum(tags.iter().map(|tag| tag.0));
                }
                done(result)
            }),
        ),
        (
            "message by message, crate cmac",
            Box::new(|| {
                let mut result = 0;
                for _ in 0..times {
                    let tag = |text: &[u8; MACED]| {
                        one.clone().chain_update(text).finalize().into_bytes().0
                    };
                    result = sum(black_box(&texts).iter().map(tag));
                }
                done(result)
            }),
        ),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "the MAC goes across lanes as the encryption does",
        slower: "the MAC is better made message by message",
        level: "the MAC could be made message by message",
    };
    let what = "AES-256-CMAC over 1,024 texts of 80 bytes, which are the blocks of a sealed message of 32 bytes.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/mac", what, "message", outcomes, &meaning))
}

fn nonces(size: Size) -> Result<Pair, Error> {
    let (times, mut own, mut counter) = (size.pick(TIMES, 1), random()?, 0_u128);
    let round = |fill: &mut dyn FnMut(&mut [u8; BLOCK]) -> bool| {
        let mut nonce = [0; BLOCK];
        let filled = (0..times * MESSAGES).filter(|_| fill(black_box(&mut nonce))).count() as u64;
        Done { operations: filled, result: filled }
    };
    let ways: Vec<Way<'_>> = vec![
        ("own DRBG", Box::new(|| round(&mut |nonce| own.fill(nonce).is_ok()))),
        ("the system, for each", Box::new(|| round(&mut |nonce| getrandom::fill(nonce).is_ok()))),
        (
            "a counter",
            Box::new(|| {
                round(&mut |nonce| {
                    counter += 1;
                    *nonce = counter.to_le_bytes();
                    true
                })
            }),
        ),
    ];
    let meaning = Meaning {
        rival: Some("the system, for each"),
        faster: "a generator stands between; a counter would be cheaper still, but CBC needs IVs that nobody foresees",
        slower: "the generator between is not worth its while",
        level: "the generator between is not worth its while",
    };
    let what = "16 bytes for a message's IV, one message after the other.";
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(Pair::new("vault/nonces", what, "nonce", outcomes, &meaning))
}

/// Half a call, on its way to the other thread or back.
type Half = (Batch, u64);

/// Seals what comes, until nobody sends any more.
fn serve(key: &Key, random: &mut Drbg, asked: &Receiver<Batch>, answers: &Sender<Half>) {
    for mut batch in asked {
        let sealed = batch.seal(usize::MAX, || Held::Kept(key), random);
        if answers.send((batch, sealed)).is_err() {
            return;
        }
    }
}

fn pool(size: Size, id: &'static str, messages: usize) -> Result<Pair, Error> {
    let (key, times) = (Key::new(KIND, &secret()), size.pick(40_000 / messages, 1));
    let (mut inline, mut here, mut there) = (random()?, random()?, random()?);
    let mut whole = Batch::new(messages);
    let (mut own, mut others) = (Batch::new(messages / 2), Some(Batch::new(messages / 2)));
    let (ask, asked) = bounded(1);
    let (answer, answers) = bounded(1);
    let done = |result| Done { operations: (times * messages) as u64, result };
    let held = || Held::Kept(&key);
    let outcomes = thread::scope(|scope| {
        scope.spawn(|| serve(&key, &mut there, &asked, &answer));
        let ways: Vec<Way<'_>> = vec![
            (
                "inline",
                Box::new(|| {
                    let mut result = 0;
                    (0..times).for_each(|_| result = whole.seal(usize::MAX, held, &mut inline));
                    done(result)
                }),
            ),
            (
                "half by another thread",
                // It owns the sender, so that the thread ends with it.
                Box::new(move || {
                    let mut result = 0;
                    for _ in 0..times {
                        let sent = others.take().is_some_and(|half| ask.send(half).is_ok());
                        result = own.seal(usize::MAX, held, &mut here);
                        if let Some((half, sealed)) = answers.recv().ok().filter(|_| sent) {
                            (others, result) = (Some(half), result + sealed);
                        }
                    }
                    done(result)
                }),
            ),
        ];
        race(size.pick(ROUNDS, 1), ways)
    })?;
    let meaning = Meaning {
        rival: None,
        faster: "a call of this size stays with its worker",
        slower: "a call of this size is worth a second thread, where a core is free",
        level: "a second thread gains nothing that could be told, so a call of this size stays with its worker",
    };
    let what = format!("{messages} messages of 32 bytes in one call, by time on the wall.");
    Ok(Pair::new(id, what, "message", outcomes, &meaning))
}
