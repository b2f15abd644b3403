//! A client that only knows `spend` and keys: it posts over plain HTTP, and whatever is not answered it posts again, with the same
//! key, to the next life of the node, until it is. Then each key was booked once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Place, Rng, another_life, books, journal, number, setup, wait_acknowledgement};
use crate::openrtb::{Answer, Http};
use crate::spend::door;
use crate::support::{Node, wait_for};
use table::SplitMix64;

/// Connections, each with a thread of its own.
const CONNECTIONS: usize = 4;
/// Budgets that are asked: two that never run out, one that does, one with a parent.
const BUDGETS: [u64; 4] = [1, 2, 6, 21];
/// The parent of the last one.
const PARENT: u64 = 20;
/// Answered keys that are sent again after each start.
const SAMPLE: u64 = 40;

/// A request: always the same under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spend {
    key: u64,
    budget: u64,
    /// Micros.
    amount: i64,
}

impl Spend {
    fn bytes(&self, seed: u64) -> Vec<u8> {
        let Spend { key, budget, amount } = self;
        let body = format!("{{\"budget\":{budget},\"amount\":\"0.{amount:06}\"}}");
        let head = format!(
            "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: k-{seed}-{key}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// What became of a request on one connection.
enum Outcome {
    Booked(Vec<u8>),
    /// A no that books nothing and is not kept.
    Refused,
    /// Not now.
    Later,
    /// No answer: the node is gone, or the connection.
    Nothing,
}

fn outcome(answer: Option<Answer>) -> Outcome {
    let Some(answer) = answer else { return Outcome::Nothing };
    match answer.status {
        200 => {
            let body = answer.json();
            assert_eq!(body["verdict"], "settled", "{answer:?}");
            Outcome::Booked(answer.body)
        }
        402 => Outcome::Refused,
        429 | 503 => Outcome::Later,
        _ => panic!("{answer:?}"),
    }
}

/// Everything that the client knows, over all lives.
#[derive(Default)]
struct Memory {
    booked: BTreeMap<Spend, Vec<u8>>,
    /// Without an answer so far.
    open: Vec<Spend>,
    refused: u64,
    /// Unanswered at the end of a life, answered in a later one.
    repeated: u64,
    keys: u64,
}

impl Memory {
    fn booked(&mut self, spend: Spend, answer: Vec<u8>) {
        let first = self.booked.entry(spend).or_insert_with(|| answer.clone());
        assert_eq!(*first, answer, "{spend:?}: another answer than the first one");
    }

    /// Sends what is open until all of it is answered.
    fn answer_open(&mut self, node: &Node, seed: u64) {
        let mut http = Http::connect(door(node));
        wait_for("an answer to every key", || {
            for spend in std::mem::take(&mut self.open) {
                http.send(&spend.bytes(seed));
                match outcome(http.try_receive()) {
                    Outcome::Booked(answer) => {
                        self.repeated += 1;
                        self.booked(spend, answer);
                    }
                    Outcome::Refused => self.refused += 1,
                    Outcome::Later => self.open.push(spend),
                    Outcome::Nothing => panic!("no answer to {spend:?}: {}", node.log()),
                }
            }
            self.open.is_empty()
        });
    }

    /// Sends keys that were answered once more.
    fn hold_to_its_word(&self, node: &Node, seed: u64, spends: impl Iterator<Item = Spend>) {
        let mut http = Http::connect(door(node));
        for spend in spends {
            http.send(&spend.bytes(seed));
            let Outcome::Booked(again) = outcome(http.try_receive()) else {
                panic!("{spend:?} was answered, and is not any more")
            };
            assert_eq!(again, self.booked[&spend], "{spend:?}");
        }
    }

    /// The same key with another body is refused.
    fn check_conflict(&self, node: &Node, seed: u64) {
        let Some(spend) = self.booked.keys().next() else { return };
        let mut http = Http::connect(door(node));
        http.send(&Spend { amount: spend.amount + 1, ..*spend }.bytes(seed));
        assert_eq!(http.receive().status, 409);
    }
}

/// What one connection heard in one life.
#[derive(Default)]
struct Heard {
    booked: Vec<(Spend, Vec<u8>)>,
    open: Vec<Spend>,
    refused: u64,
}

/// One connection, until the node is gone: first what it is given, then new keys.
struct Work<'a> {
    http: Http,
    rng: Rng,
    seed: u64,
    given: Vec<Spend>,
    keys: &'a AtomicU64,
    heard_now: &'a AtomicU64,
}

impl Work<'_> {
    fn run(mut self) -> Heard {
        let mut heard = Heard::default();
        loop {
            let spend = self.given.pop().unwrap_or_else(|| self.new_key());
            let answer = match self.http.try_send(&spend.bytes(self.seed)) {
                true => self.http.try_receive(),
                false => None,
            };
            match outcome(answer) {
                Outcome::Booked(answer) => {
                    self.heard_now.fetch_add(1, Relaxed);
                    heard.booked.push((spend, answer));
                }
                Outcome::Refused => heard.refused += 1,
                Outcome::Later => {
                    self.given.push(spend);
                    std::thread::sleep(Duration::from_millis(1));
                }
                Outcome::Nothing => {
                    heard.open.push(spend);
                    heard.open.append(&mut self.given);
                    return heard;
                }
            }
        }
    }

    fn new_key(&mut self) -> Spend {
        let budget = BUDGETS[usize::try_from(self.rng.from(1, 4)).unwrap() - 1];
        let amount = i64::try_from(self.rng.from(100, 2_000)).unwrap();
        Spend { key: self.keys.fetch_add(1, Relaxed), budget, amount }
    }
}

/// Load until a kill; what all connections heard is merged.
fn live_and_die(mut node: Node, rng: &mut Rng, memory: &mut Memory, seed: u64) {
    let (heard_now, keys) = (AtomicU64::new(0), AtomicU64::new(memory.keys));
    let mut given: Vec<Vec<Spend>> = (0..CONNECTIONS).map(|_| Vec::new()).collect();
    for spend in std::mem::take(&mut memory.open) {
        let to = usize::try_from(rng.from(1, CONNECTIONS as u64)).unwrap() - 1;
        given[to].push(spend);
        // Impatient: on two connections at once.
        if rng.percent(40) {
            given[(to + 1) % CONNECTIONS].push(spend);
        }
    }
    let works: Vec<Work<'_>> = given
        .into_iter()
        .map(|given| Work {
            http: Http::connect(door(&node)),
            rng: Rng(SplitMix64::new(rng.0.draw())),
            seed,
            given,
            keys: &keys,
            heard_now: &heard_now,
        })
        .collect();
    let (until, at_once) = (Duration::from_millis(rng.from(20, 400)), rng.percent(60));
    let all: Vec<Heard> = std::thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(|| work.run())).collect();
        std::thread::sleep(until);
        if at_once {
            wait_acknowledgement(&heard_now);
        }
        node.child.kill().unwrap();
        node.child.wait().unwrap();
        assert!(!node.log().contains("panicked"), "{}", node.log());
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    memory.keys = keys.load(Relaxed);
    let mut open = Vec::new();
    for heard in all {
        open.extend(heard.open);
        memory.refused += heard.refused;
        heard.booked.into_iter().for_each(|(spend, answer)| memory.booked(spend, answer));
    }
    open.sort_unstable();
    open.dedup();
    // The other connection may have heard.
    open.retain(|spend| !memory.booked.contains_key(spend));
    memory.open = open;
}

#[test]
fn a_client_that_only_knows_spend_and_keys_is_charged_once_for_each() {
    let cycles = usize::try_from(number("CRASH_CYCLES", 12)).unwrap();
    let mut place = Place { seed: number("CRASH_SEED", 1), cycle: 0, cycles };
    let seed = place.seed;
    let (mut rng, setup, mut memory) = (Rng(SplitMix64::new(seed)), setup(), Memory::default());
    while place.cycle < cycles {
        place.cycle += 1;
        let node = another_life(&setup, &mut rng).start();
        books(&node);
        let count = memory.booked.len() as u64;
        let sample: Vec<Spend> = (0..SAMPLE.min(count))
            .filter_map(|_| {
                memory.booked.keys().nth(usize::try_from(rng.from(1, count)).unwrap() - 1)
            })
            .copied()
            .collect();
        memory.hold_to_its_word(&node, seed, sample.into_iter());
        if rng.percent(30) {
            memory.answer_open(&node, seed);
        }
        live_and_die(node, &mut rng, &mut memory, seed);
    }
    let node = setup.clone().start();
    memory.answer_open(&node, seed);
    memory.hold_to_its_word(&node, seed, memory.booked.keys().copied());
    memory.check_conflict(&node, seed);
    let mut spent: BTreeMap<u64, i64> = BTreeMap::new();
    for spend in memory.booked.keys() {
        let parent = (spend.budget == 21).then_some(PARENT);
        for budget in [spend.budget].into_iter().chain(parent) {
            *spent.entry(budget).or_default() += spend.amount;
        }
    }
    for row in books(&node) {
        let told = spent.get(&row.id).copied().unwrap_or_default();
        assert_eq!(row.spent, [told, 0, 0], "budget {}: the books, and what was answered", row.id);
    }
    drop(node);
    journal(&["verify"], &setup.data());
    journal(&["audit"], &setup.data());
    let Memory { booked, refused, repeated, .. } = memory;
    println!(
        "CRASH_SEED={seed} CRASH_CYCLES={cycles}: {} keys booked once, {repeated} of them answered in a later life, {refused} refused",
        booked.len()
    );
    assert!(!booked.is_empty());
}
