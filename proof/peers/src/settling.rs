//! The work that Weir's peers are given: reserve money for a bid, then settle what the win cost.
//!
//! A round has two phases, each timed: all connections reserve, in batches of `depth` requests whose answers they wait
//! for together; then all settle what they reserved. A request waits as long as its batch. After every round the
//! peer's books must hold exactly what it acknowledged. What differs between the peers is told in [`crate::weir_peer`].

use probe::compare::Random;
use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::Size;
use crate::figures::{Case, Figures, Round, interleave, rate};
use crate::redis::Fsync;

/// What each budget is funded with, micros; all budgets together stay exact in the doubles of Lua.
pub const LIMIT_MICROS: i64 = 10_000_000_000;
/// Most that a request reserves, micros.
const AMOUNT_MICROS_MAX: usize = 5_000;
/// The day that all requests belong to; the daily limit is the whole limit.
pub const DAY: i32 = 20_000;

/// One bid: what is reserved for it and what its win costs.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub id: i64,
    /// From 1.
    pub budget: i32,
    pub amount_micros: i64,
    pub price_micros: i64,
}

/// What a peer says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not enough money, or nothing is reserved under this id.
    Refused,
    /// Done by this request.
    Done,
    /// Was done by an earlier request of the same id; no money moved now.
    Repeated,
}

impl Answer {
    /// As the functions inside the peers write it.
    pub fn from_code(code: i64) -> Result<Answer, String> {
        match code {
            0 => Ok(Answer::Refused),
            1 => Ok(Answer::Done),
            2 => Ok(Answer::Repeated),
            other => Err(format!("the answers are 0, 1 and 2, not {other}")),
        }
    }
}

/// The sums over all budgets, micros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    pub left: i64,
    pub reserved: i64,
    pub spent: i64,
}

/// A connection to a peer.
pub trait Peer: Send {
    /// Reserves all of the batch; one answer each, in order.
    fn reserve(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String>;
    /// Settles all of the batch.
    fn settle(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String>;
    /// Sums up all budgets.
    fn books(&mut self) -> Result<Books, String>;
}

/// How a round is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub connections: usize,
    /// Requests sent before the answers are waited for.
    pub depth: usize,
    /// No more requests than this.
    pub requests_max: usize,
    /// No new batch is reserved after this.
    pub reserve_ms_max: u64,
}

/// What a round measured.
#[derive(Clone, Debug)]
pub struct Pairs {
    pub reserves: Round,
    pub settles: Round,
}

/// A peer with its connections, and what it has acknowledged so far.
pub struct Settling<P> {
    peers: Vec<P>,
    budgets: usize,
    next_id: i64,
    spent_micros: i64,
}

impl<P: Peer> Settling<P> {
    /// Takes fresh connections to an empty peer with `budgets` funded budgets, and proves that it counts money once:
    /// repeated requests move nothing, and more than is left is refused.
    pub fn new(peers: Vec<P>, budgets: usize) -> Result<Settling<P>, String> {
        let mut settling = Settling { peers, budgets, next_id: 1, spent_micros: 0 };
        settling.prove_counts_once()?;
        Ok(settling)
    }

    /// One round; `load` may not ask for more connections than there are.
    pub fn round(&mut self, load: Load) -> Result<Pairs, String> {
        let share = (load.requests_max / load.connections).max(load.depth);
        let plans: Vec<Vec<Request>> =
            (0..load.connections).map(|_| self.draw(share - share % load.depth)).collect();
        let peers = &mut self.peers[..load.connections];
        let enough = Duration::from_millis(load.reserve_ms_max);
        let reserves = phase(peers, &plans, load.depth, enough, P::reserve)?;
        let reserved = reserves.iter().zip(&plans);
        let won: Vec<Vec<Request>> =
            reserved.map(|(round, plan)| plan[..round.operations as usize].to_vec()).collect();
        let settles = phase(peers, &won, load.depth, Duration::MAX, P::settle)?;
        self.spent_micros += won.iter().flatten().map(|request| request.price_micros).sum::<i64>();
        self.check_books()?;
        let pairs = Pairs { reserves: joined(&reserves), settles: joined(&settles) };
        LAST_PAIRS.set(Some(pairs.clone()));
        Ok(pairs)
    }

    fn draw(&mut self, count: usize) -> Vec<Request> {
        let mut random = Random::new(self.next_id as u64);
        let requests = (0..count).map(|at| {
            let amount_micros = 1 + random.below(AMOUNT_MICROS_MAX) as i64;
            Request {
                id: self.next_id + at as i64,
                budget: 1 + random.below(self.budgets) as i32,
                amount_micros,
                price_micros: random.below(amount_micros as usize + 1) as i64,
            }
        });
        let requests = requests.collect();
        self.next_id += count as i64;
        requests
    }

    fn prove_counts_once(&mut self) -> Result<(), String> {
        let request = self.draw(1)[0];
        let beyond = Request { id: self.next_id, amount_micros: LIMIT_MICROS + 1, ..request };
        let unknown = Request { id: self.next_id + 1, ..request };
        self.next_id += 2;
        self.spent_micros += request.price_micros;
        let peer = &mut self.peers[0];
        let answers = [
            ("a reservation", peer.reserve(&[request])?, Answer::Done),
            ("the same reservation", peer.reserve(&[request])?, Answer::Repeated),
            ("more than is left", peer.reserve(&[beyond])?, Answer::Refused),
            ("a settlement", peer.settle(&[request])?, Answer::Done),
            ("the same settlement", peer.settle(&[request])?, Answer::Repeated),
            ("the reservation after it is settled", peer.reserve(&[request])?, Answer::Repeated),
            ("a settlement of nothing", peer.settle(&[unknown])?, Answer::Refused),
        ];
        for (what, got, expected) in answers {
            if got != [expected] {
                return Err(format!("{what} is answered {got:?}, expected {expected:?}"));
            }
        }
        self.check_books()
    }

    fn check_books(&mut self) -> Result<(), String> {
        let funded = LIMIT_MICROS * self.budgets as i64;
        let spent = self.spent_micros;
        let expected = Books { left: funded - spent, reserved: 0, spent };
        let books = self.peers[0].books()?;
        if books != expected {
            return Err(format!("the books say {books:?}, acknowledged was {expected:?}"));
        }
        Ok(())
    }
}

/// Every connection sends its plan, batch by batch, and begins no batch after `enough`.
fn phase<P: Peer>(
    peers: &mut [P],
    plans: &[Vec<Request>],
    depth: usize,
    enough: Duration,
    send: fn(&mut P, &[Request]) -> Result<Vec<Answer>, String>,
) -> Result<Vec<Round>, String> {
    let started = Instant::now();
    std::thread::scope(|scope| {
        let pairs = peers.iter_mut().zip(plans);
        let threads: Vec<_> = pairs
            .map(|(peer, plan)| {
                scope.spawn(move || {
                    let mut round = Round::new();
                    for batch in plan.chunks(depth) {
                        let sent = Instant::now();
                        if sent.duration_since(started) > enough {
                            break;
                        }
                        let answers = send(peer, batch)?;
                        round.acknowledged(batch.len() as u64, sent.elapsed());
                        expect_done(&answers, batch.len())?;
                    }
                    round.elapsed = started.elapsed();
                    Ok(round)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|round| round.map_err(|_| "a connection's thread panicked")?).collect()
    })
}

fn expect_done(answers: &[Answer], count: usize) -> Result<(), String> {
    if answers.len() != count || answers.iter().any(|answer| *answer != Answer::Done) {
        return Err(format!("{count} requests of a round are answered {answers:?}"));
    }
    Ok(())
}

fn joined(rounds: &[Round]) -> Round {
    let mut all = Round::new();
    for round in rounds {
        all.join(round);
    }
    all
}

const ROUNDS: usize = 5;

/// Connections, and requests in each one's batch: the load at which `redis::settler` and `postgres::settler` run.
const CONNECTIONS: usize = 4;
const DEPTH: usize = 64;

thread_local! {
    /// The last round of this thread with both of its phases: a case hands out its settlements only.
    static LAST_PAIRS: Cell<Option<Pairs>> = const { Cell::new(None) };
}

/// Prints what Weir and its peers do beside each other, all at the same load and interleaved.
pub fn run(size: Size) {
    let weir = |durability| crate::weir_peer::settler(size, durability, CONNECTIONS, DEPTH);
    let peers = [
        (REFERENCE, crate::redis::settler(size, Fsync::Always)),
        ("Redis, appendfsync everysec", crate::redis::settler(size, Fsync::Everysec)),
        ("Weir, sealed", weir("sealed")),
        ("Weir, os", weir("os")),
        ("PostgreSQL, plpgsql function", crate::postgres::settler(size)),
    ];
    let (mut names, mut cases): (Vec<&str>, Vec<Case<'_, Pairs>>) = (Vec::new(), Vec::new());
    for (name, case) in peers {
        match case {
            Ok(case) => {
                names.push(name);
                cases.push(with_both_phases(case));
            }
            Err(error) => println!("\n{name}: NOT MEASURED: {error}"),
        }
    }
    match interleave(size.pick(ROUNDS, 1), &mut cases) {
        Ok(rounds) => print_ratios(&names, &rounds),
        Err(error) => println!("\nsettlements: NOT MEASURED: {error}"),
    }
}

/// What the others are compared with.
const REFERENCE: &str = "Redis, appendfsync always";

fn with_both_phases(mut case: Case<'_, Round>) -> Case<'_, Pairs> {
    Box::new(move || {
        case()?;
        LAST_PAIRS.take().ok_or_else(|| "a case ran no round of `Settling`".to_owned())
    })
}

fn print_ratios(names: &[&str], rounds: &[Vec<Pairs>]) {
    println!(
        "\n### reserve and settle, {CONNECTIONS} connections, batches of {DEPTH}, interleaved\n"
    );
    println!(
        "| | settles/s | pairs/s | settle p50 us | settle p99 us | settles, times {REFERENCE} | pairs, times {REFERENCE} |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let figures = |rounds: &Vec<Pairs>| {
        let both: Vec<Round> = rounds.iter().map(Pairs::both).collect();
        [Figures::of(rounds.iter().map(|pairs| &pairs.settles)), Figures::of(both.iter())]
    };
    let all: Vec<[Figures; 2]> = rounds.iter().map(figures).collect();
    let reference = names.iter().position(|name| *name == REFERENCE).map(|at| &all[at]);
    for (name, [settles, pairs]) in names.iter().zip(&all) {
        let times = |own: &Figures, which: usize| match reference {
            Some(reference) => format!("{:.2}", own.times(&reference[which])),
            None => "NOT MEASURED".to_owned(),
        };
        println!(
            "| {name} | {} | {} | {:.0} | {:.0} | {} | {} |",
            rate(settles.per_second()),
            rate(pairs.per_second()),
            settles.p50_us,
            settles.p99_us,
            times(settles, 0),
            times(pairs, 1),
        );
    }
}

/// Prints one row per case, `times` being ratios to the first row.
pub fn print_table(title: &str, names: &[String], rounds: &[Vec<Pairs>]) {
    println!("\n### {title}\n");
    println!(
        "| peer | pairs/s | reserves/s | settles/s | settle p50 us | settle p99 us | settles, times the first row |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let settles: Vec<Figures> = rounds
        .iter()
        .map(|rounds| Figures::of(rounds.iter().map(|pairs| &pairs.settles)))
        .collect();
    for ((name, rounds), own) in names.iter().zip(rounds).zip(&settles) {
        let reserves = Figures::of(rounds.iter().map(|pairs| &pairs.reserves));
        let both: Vec<Round> = rounds.iter().map(Pairs::both).collect();
        println!(
            "| {name} | {} | {} | {} | {:.0} | {:.0} | {:.2} |",
            rate(Figures::of(both.iter()).per_second()),
            rate(reserves.per_second()),
            rate(own.per_second()),
            own.p50_us,
            own.p99_us,
            own.times(&settles[0]),
        );
    }
}

impl Pairs {
    /// A pair takes its share of both phases; the waits are those of the settlements.
    fn both(&self) -> Round {
        let mut both = self.settles.clone();
        both.elapsed += self.reserves.elapsed;
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    /// The same money rules in memory, with a switch for a peer that books a repeated settlement again.
    #[derive(Clone)]
    struct Memory {
        state: Arc<Mutex<(HashMap<i64, bool>, Books)>>,
        books_twice: bool,
    }

    impl Memory {
        fn new(budgets: usize, books_twice: bool) -> Memory {
            let books = Books { left: LIMIT_MICROS * budgets as i64, reserved: 0, spent: 0 };
            Memory { state: Arc::new(Mutex::new((HashMap::new(), books))), books_twice }
        }
    }

    impl Peer for Memory {
        fn reserve(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
            let (holds, books) = &mut *self.state.lock().unwrap();
            let answer = |request: &Request| {
                if holds.contains_key(&request.id) {
                    return Answer::Repeated;
                }
                if request.amount_micros > LIMIT_MICROS {
                    return Answer::Refused;
                }
                holds.insert(request.id, false);
                books.left -= request.amount_micros;
                books.reserved += request.amount_micros;
                Answer::Done
            };
            Ok(batch.iter().map(answer).collect())
        }

        fn settle(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
            let (holds, books) = &mut *self.state.lock().unwrap();
            let answer = |request: &Request| {
                let Some(settled) = holds.get_mut(&request.id) else {
                    return Answer::Refused;
                };
                let repeated = *settled;
                if !repeated || self.books_twice {
                    *settled = true;
                    books.left += request.amount_micros - request.price_micros;
                    books.reserved -= request.amount_micros;
                    books.spent += request.price_micros;
                }
                if repeated { Answer::Repeated } else { Answer::Done }
            };
            Ok(batch.iter().map(answer).collect())
        }

        fn books(&mut self) -> Result<Books, String> {
            Ok(self.state.lock().unwrap().1)
        }
    }

    const LOAD: Load = Load { connections: 3, depth: 7, requests_max: 100, reserve_ms_max: 60_000 };
    const BUDGETS: usize = 5;

    #[test]
    fn a_round_settles_what_it_reserved() {
        let peer = Memory::new(BUDGETS, false);
        let mut settling = Settling::new(vec![peer; LOAD.connections], BUDGETS).unwrap();
        let pairs = settling.round(LOAD).unwrap();
        // 33 requests per connection, in whole batches of 7.
        assert_eq!(pairs.reserves.operations, 3 * 28);
        assert_eq!(pairs.settles.operations, 3 * 28);
        assert_eq!(pairs.both().elapsed, pairs.reserves.elapsed + pairs.settles.elapsed);
    }

    #[test]
    fn a_peer_that_books_twice_is_found() {
        let peer = Memory::new(BUDGETS, true);
        let error = Settling::new(vec![peer], BUDGETS).err().unwrap();
        assert!(error.contains("acknowledged was"), "{error}");
    }

    #[test]
    fn a_peer_that_forgets_is_found() {
        let peer = Memory::new(BUDGETS, false);
        let mut settling = Settling::new(vec![peer.clone(); 3], BUDGETS).unwrap();
        settling.round(LOAD).unwrap();
        peer.state.lock().unwrap().1.spent -= 1;
        assert!(settling.round(LOAD).is_err());
    }
}
