//! A node that decides nothing: every ask is granted, every settle is booked, from one readiness loop. What the hammer
//! does against it is what the hammer itself can do.
//!
//! `cargo run --release -p hammer --example free_node -- 127.0.0.1:7799 50` serves 50 budgets until it is killed.

// An example may stop where something that cannot fail does, and it talks on standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use wire::{Action, DecideFlags, Message, Split, Verdict};
use wire::{books, decided, resolved, totals, welcome};

const LIMIT: i64 = 1_000_000_000_000_000;

#[derive(Default)]
struct Node {
    settled: Vec<i64>,
    seen: HashSet<u64>,
    next: u64,
    decisions: u64,
    repeats: u64,
}

struct Conn {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
    out_len: usize,
}

fn main() {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:7799".into());
    let count: usize = words.next().map_or(50, |word| word.parse().unwrap());
    let mut node = Node { settled: vec![0; count], next: 1, ..Node::default() };
    let mut poll = Poll::new().unwrap();
    let mut listener = TcpListener::bind(address.parse().unwrap()).unwrap();
    poll.registry().register(&mut listener, Token(usize::MAX), Interest::READABLE).unwrap();
    println!("batch {}", listener.local_addr().unwrap());
    let mut conns: Vec<Conn> = Vec::new();
    let mut events = Events::with_capacity(1_024);
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            if let Some(conn) = conns.get_mut(event.token().0) {
                node.serve(conn);
                continue;
            }
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut stream, Token(conns.len()), interest).unwrap();
                let (input, out) = (vec![0; 1 << 17], vec![0; 1 << 22]);
                conns.push(Conn { stream, input, filled: 0, out, out_len: 0 });
            }
        }
    }
}

impl Node {
    fn serve(&mut self, conn: &mut Conn) {
        loop {
            match conn.stream.read(&mut conn.input[conn.filled..]) {
                Ok(0) => return,
                Ok(n) => conn.filled += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
            let mut used = 0;
            while let Ok(Split::Frame(frame)) =
                wire::frame::split(&conn.input[used..conn.filled], 1 << 16)
            {
                used += frame.len();
                conn.out_len += self.answer(frame, &mut conn.out[conn.out_len..]);
            }
            conn.input.copy_within(used..conn.filled, 0);
            conn.filled -= used;
        }
        let mut sent = 0;
        while sent < conn.out_len {
            match conn.stream.write(&conn.out[sent..conn.out_len]) {
                Ok(n) => sent += n,
                Err(_) => break,
            }
        }
        conn.out.copy_within(sent..conn.out_len, 0);
        conn.out_len -= sent;
    }

    fn answer(&mut self, frame: &[u8], out: &mut [u8]) -> usize {
        match Message::decode(frame).unwrap() {
            Message::Decide(decide) => self.grant(&decide, out),
            Message::Resolve(resolve) => self.book(&resolve, out),
            Message::Hello(_) => {
                let block = welcome::Block::new(1, 1, 1, 1_024, 0, 1 << 16, 2_000, 3_600_000, 0);
                welcome::encode(out, &block).unwrap().finish()
            }
            Message::BooksRequest(request) => self.books(&request, out),
            Message::TotalsRequest(request) => {
                let (all, frame) = (self.decisions, request.frame());
                let cpu = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
                let cpu = cpu.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
                let block = totals::Block::new(frame, 0, cpu, all, all, 0, self.repeats);
                totals::encode(out, &block).unwrap().verdicts(&[]).unwrap().finish()
            }
            other => panic!("unexpected {}", other.name()),
        }
    }

    fn grant(&mut self, decide: &wire::Decide<'_>, out: &mut [u8]) -> usize {
        let asks = decide.asks();
        let block = decided::Block::new(decide.frame(), 1);
        let _ = DecideFlags::NONE;
        let (answers, encoder) =
            decided::encode(out, &block).unwrap().answers_mut(asks.len()).unwrap();
        for (answer, ask) in answers.iter_mut().zip(asks) {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&self.next.to_le_bytes());
            token[8..16].copy_from_slice(&ask.budget_id().to_le_bytes());
            self.next += 1;
            *answer = decided::Answer::new(token, Verdict::Granted);
        }
        self.decisions += asks.len() as u64;
        encoder.finish()
    }

    fn book(&mut self, resolve: &wire::Resolve<'_>, out: &mut [u8]) -> usize {
        let entries = resolve.resolves();
        let block = resolved::Block::new(resolve.frame());
        let (answers, encoder) =
            resolved::encode(out, &block).unwrap().answers_mut(entries.len()).unwrap();
        for (answer, entry) in answers.iter_mut().zip(entries) {
            let number = u64::from_le_bytes(*entry.token().first_chunk().unwrap());
            let budget = u64::from_le_bytes(entry.token()[8..16].try_into().unwrap());
            let mut flags = wire::ResolvedFlags::NONE;
            let verdict = match entry.action().unwrap() {
                Action::Confirm => Verdict::Confirmed,
                Action::Release => Verdict::Released,
                Action::Settle if self.seen.insert(number) => {
                    self.settled[usize::try_from(budget).unwrap() - 1] += entry.amount();
                    Verdict::Settled
                }
                Action::Settle => {
                    self.repeats += 1;
                    flags = wire::ResolvedFlags::REPEAT;
                    Verdict::Settled
                }
            };
            *answer = resolved::Answer::new(verdict, flags);
        }
        encoder.finish()
    }

    fn books(&self, request: &wire::BooksRequest<'_>, out: &mut [u8]) -> usize {
        let from = request.from_budget_id().max(1);
        let page: Vec<books::Budget> = (1_u64..)
            .zip(&self.settled)
            .filter(|(id, _)| *id >= from)
            .take(usize::from(request.max()))
            .map(|(id, &settled)| {
                books::Budget::new(id, LIMIT, LIMIT - settled, 0, 0, settled, 0, 0, *b"USD\0")
            })
            .collect();
        let more = from - 1 + (page.len() as u64) < self.settled.len() as u64;
        let block = books::Block::new(request.frame(), 0, u8::from(more));
        books::encode(out, &block).unwrap().budgets(&page).unwrap().finish()
    }
}
