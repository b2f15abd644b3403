//! What a call of the spend door costs its worker, beside a canned answer of the same size through the same HTTP session, and a later end at the
//! batch door beside a confirm: no sockets, one thread, rounds that alternate, the least of each.
//!
//! `cargo run --release -p weir-node --example spend`
#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use std::hint::black_box;
use std::time::Instant;

use door_http::{App, Limits, Refusal, Reply, Request, Response, Room, Session, Then};
use door_transport::{ConnId, Unconnected};
use weir_budgets::budgets;
use weir_config::config::Config;
use weir_node::bench::Bench;
use wire::{Action, DecideFlags, EncodeError, Message, decide, extend, hello, resolve};

const ROUNDS: usize = 60;
/// Requests of a round, and how many of them one wake-up finds.
const REQUESTS: usize = 4_000;
const WAKE_UP: usize = 32;
const BATCH: usize = 100;
const BUDGETS: usize = 1_000;

/// Answers everything with the same bytes.
struct Canned {
    limits: Limits,
    body: Vec<u8>,
}

impl App for Canned {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn request(&mut self, _: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        black_box(request.body.len());
        reply.send(&Response::json(&self.body))
    }

    fn refused(&mut self, why: Refusal) {
        panic!("{why}");
    }
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:7704\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// Nanoseconds a request of one round: `serve` takes one input.
fn round(inputs: usize, requests: usize, mut serve: impl FnMut(usize)) -> f64 {
    let began = Instant::now();
    (0..inputs).for_each(&mut serve);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let ns = began.elapsed().as_nanos() as f64 / (inputs * requests) as f64;
    ns
}

/// A worker with budgets from 1,001 on, each of which has money.
fn worker(folder: &std::path::Path) -> Result<Bench, Box<dyn std::error::Error>> {
    let lines: Vec<String> = (0..BUDGETS)
        .map(|id| format!(r#"{{"id":{},"unit":"USD","limit":"1000000"}}"#, 1_001 + id))
        .collect();
    let file = folder.join("budgets.jsonl");
    std::fs::write(&file, lines.join("\n"))?;
    let budgets = budgets::read(&file).map_err(|errors| format!("{errors:?}"))?;
    let mut bench = Bench::new(&Config::default(), &budgets, folder)?;
    bench.wake(1);
    Ok(bench)
}

/// Calls that are alone, the same in one piece, and batches.
fn requests() -> (Vec<Vec<u8>>, Vec<u8>, Vec<Vec<u8>>) {
    let body = |id| format!(r#"{{"budget":{},"amount":"0.000015","unit":"USD"}}"#, 1_001 + id);
    let one: Vec<Vec<u8>> = (0..BUDGETS).map(|id| post("/v1/reserve", &body(id))).collect();
    let entry = |id: usize| {
        format!(r#"{{"call":"reserve","budget":{},"amount":"0.000015"}}"#, 1_001 + id % BUDGETS)
    };
    let entries = |at: usize| (0..BATCH).map(move |place| entry(at * BATCH + place));
    let many = (0..40).map(|at| entries(at).collect::<Vec<_>>().join(","));
    let many = many.map(|entries| post("/v1/batch", &format!("[{entries}]"))).collect();
    let pipelined = one.iter().take(WAKE_UP).flatten().copied().collect();
    (one, pipelined, many)
}

/// What a grant's answer has for a body.
fn granted(bench: &mut Bench, request: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let (_, answer) = bench.spend(request, <[u8]>::to_vec);
    let at = answer.windows(4).position(|at| at == b"\r\n\r\n").ok_or("no answer")?;
    let body = answer[at + 4..].to_vec();
    if body.starts_with(b"{\"verdict\":\"granted\"") { Ok(body) } else { Err("not granted".into()) }
}

fn encoded(
    len: usize,
    encode: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Vec<u8>, String> {
    let mut frame = vec![0; len];
    encode(&mut frame).map_err(|error| error.to_string())?;
    Ok(frame)
}

/// Frames of so many confirms, and of as many later ends, of the same holds.
fn ends(bench: &mut Bench, count: usize) -> Result<[Vec<u8>; 2], String> {
    let block = hello::Block::new(wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION, 7);
    let greeting = encoded(hello::encoded_len(0, 0), |buf| {
        Ok(hello::encode(buf, &block)?.auth(b"")?.name("")?.finish())
    });
    bench.batch(&greeting?, <[u8]>::len);
    let asks: Vec<_> = (0..count as u64)
        .map(|id| decide::Ask::new(id, 1_001 + id % BUDGETS as u64, 15, 7, [0; 4], 0, 0))
        .collect();
    let frame = encoded(decide::encoded_len(count), |buf| {
        Ok(decide::encode(buf, &decide::Block::new(1, DecideFlags::NONE))?.asks(&asks)?.finish())
    });
    let (_, answer) = bench.batch(&frame?, <[u8]>::to_vec);
    let Ok(Message::Decided(decided)) = Message::decode(&answer) else {
        return Err("no answer".into());
    };
    let tokens: Vec<[u8; 32]> = decided.answers().iter().map(|answer| *answer.token()).collect();
    let confirms: Vec<_> =
        tokens.iter().map(|token| resolve::Item::new(*token, 0, Action::Confirm, 0)).collect();
    let extends: Vec<_> = tokens.iter().map(|token| extend::Hold::new(*token, 60_000)).collect();
    Ok([
        encoded(resolve::encoded_len(count), |buf| {
            Ok(resolve::encode(buf, &resolve::Block::new(2))?.resolves(&confirms)?.finish())
        })?,
        encoded(extend::encoded_len(count), |buf| {
            Ok(extend::encode(buf, &extend::Block::new(3))?.holds(&extends)?.finish())
        })?,
    ])
}

/// Nanoseconds of a confirm and of a later end, in frames of so many.
fn print_ends(bench: &mut Bench, count: usize) -> Result<(), String> {
    let frames = ends(bench, count)?;
    let mut least = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for (frame, least) in frames.iter().zip(&mut least) {
            let ns = round(REQUESTS / count, count, |_| {
                black_box(bench.batch(frame, <[u8]>::len));
                bench.turn();
                bench.wake(1);
                bench.turn();
            });
            *least = least.min(ns);
        }
    }
    let [confirm, extend] = least;
    println!("| a confirm, in frames of {count} | {confirm:.0} |");
    println!("| a later end, in frames of {count} | {extend:.0} |");
    Ok(())
}

fn print([canned, alone, canned_piped, piped, batched]: [f64; 5]) {
    println!("| what | ns |\n| --- | ---: |");
    println!("| canned answer | {canned:.0} |\n| reserve | {alone:.0} |");
    println!("| more than canned | {:.0} |", alone - canned);
    println!("| canned answer, {WAKE_UP} pipelined | {canned_piped:.0} |");
    println!("| reserve, {WAKE_UP} pipelined | {piped:.0} |");
    println!("| more than canned | {:.0} |", piped - canned_piped);
    println!("| an ask of a batch of {BATCH} | {batched:.0} |");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut bench = worker(folder.path())?;
    let (one, pipelined, many) = requests();
    let body = granted(&mut bench, &one[0])?;
    let mut canned = Canned { limits: Limits::default(), body };
    let (mut session, mut room) = (Session::default(), Room::default());
    let mut wire = Unconnected::<()>::default();
    let mut can = |input: &[u8]| {
        let out = &mut wire.out();
        black_box(session.received(ConnId::from_bits(1), input, out, &mut room, &mut canned));
        wire.sent(|bytes| black_box(bytes.len()));
    };
    let mut least = [f64::MAX; 5];
    for _ in 0..ROUNDS {
        let mut call = |input: &[u8], begins: bool| {
            if begins {
                bench.turn();
                bench.wake(1);
            }
            bench.spend(input, |bytes| black_box(bytes.len()));
        };
        let figures = [
            round(REQUESTS, 1, |at| can(&one[at % BUDGETS])),
            round(REQUESTS, 1, |at| call(&one[at % BUDGETS], at % WAKE_UP == 0)),
            round(REQUESTS / WAKE_UP, WAKE_UP, |_| can(&pipelined)),
            round(REQUESTS / WAKE_UP, WAKE_UP, |_| call(&pipelined, true)),
            round(many.len(), BATCH, |at| call(&many[at], true)),
        ];
        for (least, figure) in least.iter_mut().zip(figures) {
            *least = least.min(figure);
        }
    }
    print(least);
    print_ends(&mut bench, 1)?;
    print_ends(&mut bench, BATCH)?;
    Ok(())
}
