//! Weir itself as a peer: the real node in a process of its own, asked through its batch door.
//!
//! What differs from the other peers. Weir speaks its own binary protocol over TCP: a batch is one frame. Its worker
//! reserves from purses in memory, and a reservation is not in its journal: after a crash the money of all purses is
//! suspended until no hold can be alive. Redis and PostgreSQL write every reservation to their disk. A settlement is
//! recorded by all of them before it is acknowledged, each as durably as its row says. A request is settled with the
//! token of its reservation, which the client keeps; the others find a reservation by its id. Every ask has the
//! remember flag, so a repeated reservation moves nothing, as with the others; no repeat is marked as one, but it
//! gives the same token. A remembered no stays a no: an ask that found a purse empty is sent again under another id.
//!
//! The configuration is the default one but for how long a hold lives and is remembered, and how many are.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wire::{
    Action, DecideFlags, EncodeError, Message, Split, Verdict, books_request, decide, frame, hello,
    resolve,
};

use crate::Size;
use crate::daemon::{Daemon, bound_to_us, folder_on_disk, free_port, weir_binary};
use crate::figures::{Case, Round};
use crate::settling::{Answer, Books, LIMIT_MICROS, Load, Pairs, Peer, Request, Settling};

/// How long a hold lives and its answer is remembered, ms: as long as Redis remembers one; a round takes a second.
const HOLD_MS: u64 = 60_000;
/// Answers remembered, because so many requests come within [`HOLD_MS`].
const REMEMBER_MAX: u64 = 4_194_304;
const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Budgets in one frame of books.
const BOOKS_MAX: u16 = 512;
/// How often an ask is sent before an empty purse counts as a no.
const TRIES_MAX: u32 = 20;
/// A purse asks the bank for more at most this often.
const RETRY_MS: u64 = 5;
/// A node that says nothing for so long is broken, ms.
const ANSWER_MS_MAX: u64 = 20_000;

type Token = [u8; 32];

/// A case that runs one round of settlements, to be interleaved with others; its node ends with it. `durability` is
/// a value of the key `journal.durability`.
pub fn settler(
    size: Size,
    durability: &str,
    connections: usize,
    depth: usize,
) -> Result<Case<'static, Round>, String> {
    let budgets = size.pick(50_000, 50);
    let (daemon, log) = daemon(durability, budgets)?;
    let mut node = Node::new(daemon, &log, connections, budgets)?;
    let load =
        Load { connections, depth, requests_max: size.pick(20_000, 20), reserve_ms_max: 500 };
    Ok(Box::new(move || node.round(load).map(|pairs| pairs.settles)))
}

/// A node of our own, with its connections. Fields drop in order: connections before the process.
struct Node {
    settling: Settling<Link>,
    _daemon: Daemon,
}

impl Node {
    /// A method, so that a closure that calls it owns the whole node and not the connections alone.
    fn round(&mut self, load: Load) -> Result<Pairs, String> {
        self.settling.round(load)
    }

    fn new(
        mut daemon: Daemon,
        log: &Path,
        connections: usize,
        budgets: usize,
    ) -> Result<Node, String> {
        // The door takes connections before the node has its budgets.
        let ready = |port| match std::fs::read_to_string(log) {
            Ok(text) if text.lines().any(|line| line == "ready") => Link::connect(port, 1),
            _ => Err("the node is not ready".to_owned()),
        };
        let mut links = vec![daemon.wait_for(ready)?];
        for client in 2..=connections {
            links.push(Link::connect(daemon.port, client as u64)?);
        }
        Ok(Node { settling: Settling::new(links, budgets)?, _daemon: daemon })
    }
}

/// A node that starts, and the file that it prints `ready` into.
fn daemon(durability: &str, budgets: usize) -> Result<(Daemon, PathBuf), String> {
    let program = weir_binary();
    if !program.is_file() {
        let place = program.display();
        return Err(format!("no node at {place}: build the weir binary of the same profile first"));
    }
    let (folder, port) = (folder_on_disk()?, free_port()?);
    let file = folder.path().join("budgets.jsonl");
    std::fs::write(&file, budgets_text(budgets)).map_err(|e| e.to_string())?;
    let mut command = bound_to_us(&program, None);
    command.args(["run", "--admin", "127.0.0.1:0", "--openrtb", "127.0.0.1:0"]);
    command.args(["--spend", "127.0.0.1:0"]);
    command.args(["--batch", &format!("127.0.0.1:{port}")]);
    command.arg("--budgets").arg(&file).arg("--data").arg(folder.path().join("data"));
    command.env("WEIR_JOURNAL__DURABILITY", durability);
    command.env("WEIR_LEDGER__HOLD_MS", HOLD_MS.to_string());
    command.env("WEIR_LEDGER__REMEMBER_MAX", REMEMBER_MAX.to_string());
    let log = folder.path().join("log");
    Ok((Daemon::start(command, folder, port)?, log))
}

/// The daily limit is the whole limit, as with the other peers.
fn budgets_text(budgets: usize) -> String {
    let limit = LIMIT_MICROS / 1_000_000;
    let line = |id| {
        format!("{{\"id\":{id},\"limit\":\"{limit}\",\"daily\":\"{limit}\",\"plan\":\"asap\"}}\n")
    };
    (1..=budgets).map(line).collect()
}

/// A connection, and the tokens that it was given, by request id.
struct Link {
    stream: TcpStream,
    unread: Vec<u8>,
    frame: u64,
    tokens: HashMap<i64, Token>,
}

impl Link {
    fn connect(port: u16, client: u64) -> Result<Link, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
        let patience = Some(Duration::from_millis(ANSWER_MS_MAX));
        stream.set_read_timeout(patience).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let mut link = Link { stream, unread: Vec::new(), frame: 0, tokens: HashMap::new() };
        let name = "peers";
        let hello = encoded(hello::encoded_len(0, name.len()), |buf| {
            let block = hello::Block::new(wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION, client);
            Ok(hello::encode(buf, &block)?.auth(b"")?.name(name)?.finish())
        })?;
        link.ask(&hello, |message| match message {
            Message::Welcome(_) => Some(()),
            _ => None,
        })?;
        Ok(link)
    }

    /// Sends a frame and reads the next one, which `take` must know.
    fn ask<T>(
        &mut self,
        bytes: &[u8],
        take: impl FnOnce(&Message<'_>) -> Option<T>,
    ) -> Result<T, String> {
        self.stream.write_all(bytes).map_err(|e| e.to_string())?;
        loop {
            let split = frame::split(&self.unread, FRAME_BYTES_MAX).map_err(|e| e.to_string())?;
            if let Split::Frame(answer) = split {
                let message = Message::decode(answer).map_err(|e| e.to_string())?;
                let taken = take(&message).ok_or_else(|| format!("the node says {message:?}"));
                let len = answer.len();
                self.unread.drain(..len);
                return taken;
            }
            let mut chunk = [0; 65_536];
            match self.stream.read(&mut chunk).map_err(|e| e.to_string())? {
                0 => return Err("the node ended the connection".into()),
                count => self.unread.extend_from_slice(&chunk[..count]),
            }
        }
    }

    fn next_frame(&mut self) -> u64 {
        self.frame += 1;
        self.frame
    }

    fn decide(&mut self, asks: &[decide::Ask]) -> Result<Vec<(Verdict, Token)>, String> {
        let number = self.next_frame();
        let flags = DecideFlags::REMEMBER;
        let bytes = encoded(decide::encoded_len(asks.len()), |buf| {
            Ok(decide::encode(buf, &decide::Block::new(number, flags))?.asks(asks)?.finish())
        })?;
        self.ask(&bytes, |message| match message {
            Message::Decided(m) if m.frame() == number && m.answers().len() == asks.len() => {
                m.answers().iter().map(|a| Some((a.verdict()?, *a.token()))).collect()
            }
            _ => None,
        })
    }

    /// What a verdict on an ask means; `None` where it is worth another try.
    fn judge(
        &mut self,
        request: &Request,
        verdict: Verdict,
        token: Token,
    ) -> Result<Option<Answer>, String> {
        match verdict {
            Verdict::Granted => {
                let repeated = self.tokens.insert(request.id, token) == Some(token);
                Ok(Some(if repeated { Answer::Repeated } else { Answer::Done }))
            }
            Verdict::PurseEmpty => Ok(None),
            Verdict::Exhausted | Verdict::DayExhausted | Verdict::WindowExhausted => {
                Ok(Some(Answer::Refused))
            }
            other => Err(format!("a reservation is answered {other:?}")),
        }
    }
}

impl Peer for Link {
    fn reserve(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
        let mut answers = vec![Answer::Refused; batch.len()];
        let mut open: Vec<usize> = (0..batch.len()).collect();
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(RETRY_MS));
            }
            let asks: Vec<_> = open.iter().map(|&at| ask(&batch[at], attempt)).collect();
            let mut empty = Vec::new();
            for (at, (verdict, token)) in open.into_iter().zip(self.decide(&asks)?) {
                match self.judge(&batch[at], verdict, token)? {
                    Some(answer) => answers[at] = answer,
                    None => empty.push(at),
                }
            }
            if empty.is_empty() {
                break;
            }
            open = empty;
        }
        Ok(answers)
    }

    /// What was never reserved is settled with a made-up token.
    fn settle(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
        let item = |request: &Request| {
            let token = self.tokens.get(&request.id).copied().unwrap_or_default();
            resolve::Item::new(token, request.price_micros, Action::Settle, request.id as u64)
        };
        let items: Vec<resolve::Item> = batch.iter().map(item).collect();
        let number = self.next_frame();
        let bytes = encoded(resolve::encoded_len(items.len()), |buf| {
            Ok(resolve::encode(buf, &resolve::Block::new(number))?.resolves(&items)?.finish())
        })?;
        let verdicts: Vec<(Verdict, bool)> = self.ask(&bytes, |message| match message {
            Message::Resolved(m) if m.frame() == number && m.answers().len() == items.len() => {
                m.answers().iter().map(|a| Some((a.verdict()?, a.flags().repeat()))).collect()
            }
            _ => None,
        })?;
        verdicts.into_iter().map(settled).collect()
    }

    fn books(&mut self) -> Result<Books, String> {
        let mut sums = Books { left: 0, reserved: 0, spent: 0 };
        let mut from = Some(1);
        while let Some(first) = from {
            let block = books_request::Block::new(self.next_frame(), first, BOOKS_MAX);
            let bytes = encoded(books_request::encoded_len(), |buf| {
                Ok(books_request::encode(buf, &block)?.finish())
            })?;
            from = self.ask(&bytes, |message| {
                let Message::Books(m) = message else { return None };
                let mut last = first;
                for line in m.budgets().iter() {
                    sums.left += line.free() + line.purses();
                    sums.reserved += line.held();
                    sums.spent += line.settled() + line.over_settled() + line.late();
                    last = line.budget_id();
                }
                Some((m.more() != 0).then_some(last + 1))
            })?;
        }
        Ok(sums)
    }
}

fn settled((verdict, repeat): (Verdict, bool)) -> Result<Answer, String> {
    match verdict {
        Verdict::Settled if repeat => Ok(Answer::Repeated),
        Verdict::Settled => Ok(Answer::Done),
        Verdict::Forged | Verdict::Foreign => Ok(Answer::Refused),
        other => Err(format!("a settlement is answered {other:?}")),
    }
}

/// The ask of an attempt has an id of its own, the same whenever the request is made again.
fn ask(request: &Request, attempt: u32) -> decide::Ask {
    let id = request.id as u64 | u64::from(attempt) << 48;
    decide::Ask::new(id, request.budget as u64, request.amount_micros, 0, [0; 4], 0, 0)
}

fn encoded(
    len: usize,
    encode: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<Vec<u8>, String> {
    let mut buf = vec![0; len];
    encode(&mut buf).map_err(|e| e.to_string())?;
    Ok(buf)
}
