//! Calling notices back: connections of their own, one notice in flight on each, and patience with refusals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::SocketAddr;

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::latency::histogram;

use super::books::Books;
use super::http::response;
use crate::pipe::Pipe;

/// Calls of one notice at most.
const ATTEMPTS_MAX: u8 = 7;
/// Before the second call, in ns; doubled before each further one: 6.3 s in all.
const BACKOFF_NS: u64 = 100_000_000;
/// Notices that may wait at most; beyond it wins are let go.
pub(crate) const WAITING_MAX: usize = 1 << 20;

/// What a notice reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoticeKind {
    /// Won: `nurl`.
    Win,
    /// Billed: `burl`.
    Bill,
    /// The same `burl` again.
    Again,
    /// Lost: `lurl`.
    Loss,
}

impl NoticeKind {
    /// Its name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Win => "win",
            Self::Bill => "bill",
            Self::Again => "bill again",
            Self::Loss => "loss",
        }
    }
}

/// One notice. The order is that of `due_ns`, then of `number`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HttpNotice {
    /// When to call, ns since the start of the run.
    pub due_ns: u64,
    /// Given by [`Notifier::push`].
    pub number: u64,
    /// What it reports.
    pub kind: NoticeKind,
    /// The request as it travels.
    pub request: Vec<u8>,
    /// What the node books for it, in micros; 0 for all but [`NoticeKind::Bill`].
    pub amount: i64,
    /// Whose money, as an index into the books.
    pub budget: Option<usize>,
    /// To be sent again after it was answered.
    pub again: bool,
    /// Sent after its hold expired, on purpose.
    pub late: bool,
    /// Calls so far.
    pub attempts: u8,
}

/// What became of the notices of one kind.
#[derive(Debug, Clone, Default, serde::Serialize, PartialEq, Eq)]
pub struct KindCounts {
    /// Different notices called at least once.
    pub sent: u64,
    /// Answered with 200 or 204.
    pub acknowledged: u64,
    /// Calls beyond the first.
    pub retried: u64,
    /// Given up after the last refusal, or not answered when the run ended.
    pub lost: u64,
    /// Never called before the run ended.
    pub unsent: u64,
    /// Answers by status code.
    pub answers: BTreeMap<u16, u64>,
}

#[derive(Debug)]
struct Line {
    pipe: Option<Pipe>,
    flight: Option<HttpNotice>,
    sent_ns: u64,
}

/// The notices of a run and their connections.
#[derive(Debug)]
pub(crate) struct Notifier<'a> {
    books: &'a Books,
    address: SocketAddr,
    first_token: usize,
    timeout_ns: u64,
    lines: Vec<Line>,
    idle: Vec<usize>,
    queue: BinaryHeap<Reverse<HttpNotice>>,
    numbered: u64,
    scratch: Vec<u8>,
    /// What became of them.
    pub counts: BTreeMap<NoticeKind, KindCounts>,
    /// From when a call was due to its answer: what waited for a free connection counts.
    pub latency: Histogram<u64>,
    /// Connections that broke with a notice in flight.
    pub broken: u64,
    /// Refusals that were final, in words.
    pub refusals: Vec<String>,
}

impl<'a> Notifier<'a> {
    /// `lines` connections to `address`, opened when first needed, with poll tokens from `first_token` on.
    pub(crate) fn new(
        books: &'a Books,
        address: SocketAddr,
        lines: usize,
        first_token: usize,
        timeout_ns: u64,
    ) -> Self {
        Self {
            books,
            address,
            first_token,
            timeout_ns,
            lines: (0..lines).map(|_| Line { pipe: None, flight: None, sent_ns: 0 }).collect(),
            idle: (0..lines).rev().collect(),
            queue: BinaryHeap::new(),
            numbered: 0,
            scratch: Vec::new(),
            counts: BTreeMap::new(),
            latency: histogram(),
            broken: 0,
            refusals: Vec::new(),
        }
    }

    /// Notices that were never answered for good.
    pub(crate) fn lost(&self) -> u64 {
        self.counts.values().map(|counts| counts.lost).sum()
    }

    /// Adds a notice to the queue.
    pub(crate) fn push(&mut self, notice: HttpNotice) {
        self.numbered += 1;
        self.queue.push(Reverse(HttpNotice { number: self.numbered, ..notice }));
    }

    /// Whether there is room for the notices of another win.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < WAITING_MAX
    }

    /// Nothing waits, nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.idle.len() == self.lines.len()
    }

    /// Calls what is due, as far as connections are free.
    pub(crate) fn send_due(&mut self, now: u64, registry: &Registry) {
        while self.queue.peek().is_some_and(|top| top.0.due_ns <= now) {
            let Some(at) = self.idle.pop() else { return };
            let Some(Reverse(notice)) = self.queue.pop() else { return };
            self.call(at, notice, now, registry);
        }
    }

    /// Gives up waiting for answers that take too long: those connections are opened anew.
    pub(crate) fn sweep(&mut self, now: u64) {
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            if line.flight.is_some() && now.saturating_sub(line.sent_ns) > self.timeout_ns {
                self.fail(at, now);
            }
        }
    }

    /// A connection is ready. `token` is one of ours.
    pub(crate) fn wake(&mut self, token: usize, now: u64) {
        let at = token - self.first_token;
        if let Err(_broken) = self.serve(at, now) {
            self.fail(at, now);
        }
    }

    /// Counts what was not answered, at the end of the run.
    pub(crate) fn finish(&mut self) {
        for line in &mut self.lines {
            if let Some(notice) = line.flight.take() {
                self.counts.entry(notice.kind).or_default().lost += 1;
            }
        }
        while let Some(Reverse(notice)) = self.queue.pop() {
            let counts = self.counts.entry(notice.kind).or_default();
            *(if notice.attempts > 0 { &mut counts.lost } else { &mut counts.unsent }) += 1;
        }
    }

    fn call(&mut self, at: usize, mut notice: HttpNotice, now: u64, registry: &Registry) {
        notice.attempts += 1;
        let counts = self.counts.entry(notice.kind).or_default();
        if notice.attempts == 1 {
            counts.sent += 1;
            self.books.sending(&notice);
        } else {
            counts.retried += 1;
        }
        let line = &mut self.lines[at];
        line.sent_ns = now;
        let opened = match line.pipe.take() {
            Some(pipe) => Ok(pipe),
            None => open(self.address, registry, Token(self.first_token + at)),
        };
        let written = opened.and_then(|mut pipe| {
            pipe.out().extend_from_slice(&notice.request);
            pipe.flush()?;
            line.pipe = Some(pipe);
            Ok(())
        });
        line.flight = Some(notice);
        if written.is_err() {
            self.fail(at, now);
        }
    }

    /// Writes what is left, reads what is there.
    fn serve(&mut self, at: usize, now: u64) -> io::Result<()> {
        let Some(pipe) = &mut self.lines[at].pipe else { return Ok(()) };
        pipe.flush()?;
        while let Some(_more) = self.read(at)? {
            let Some(pipe) = &mut self.lines[at].pipe else { return Ok(()) };
            let parsed = response(&pipe.input[..pipe.filled], &mut self.scratch);
            let wrong = |text| io::Error::new(io::ErrorKind::InvalidData, text);
            let Some(found) = parsed.map_err(wrong)? else { continue };
            let (status, len, closes) = (found.status, found.len, found.closes);
            pipe.consume(len);
            if closes {
                self.lines[at].pipe = None;
            }
            self.answered(at, status, now)?;
        }
        Ok(())
    }

    fn read(&mut self, at: usize) -> io::Result<Option<usize>> {
        let Some(pipe) = &mut self.lines[at].pipe else { return Ok(None) };
        Ok(pipe.read()?.map(|(n, _)| n))
    }

    fn answered(&mut self, at: usize, status: u16, now: u64) -> io::Result<()> {
        let line = &mut self.lines[at];
        let Some(notice) = line.flight.take() else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to nothing"));
        };
        self.latency.saturating_record(now.saturating_sub(notice.due_ns));
        self.idle.push(at);
        let counts = self.counts.entry(notice.kind).or_default();
        *counts.answers.entry(status).or_default() += 1;
        if matches!(status, 200 | 204) {
            counts.acknowledged += 1;
            self.books.acknowledged(&notice);
            if notice.again {
                let again = HttpNotice {
                    due_ns: now,
                    kind: NoticeKind::Again,
                    amount: 0,
                    again: false,
                    attempts: 0,
                    ..notice
                };
                self.push(again);
            }
        } else {
            self.put_off(notice, now, &format!("answered {status}"));
        }
        Ok(())
    }

    /// The connection broke: whatever was in flight may or may not have arrived, so it is called again.
    fn fail(&mut self, at: usize, now: u64) {
        let line = &mut self.lines[at];
        line.pipe = None;
        if let Some(notice) = line.flight.take() {
            self.idle.push(at);
            self.broken += 1;
            self.put_off(notice, now, "not answered: the connection broke");
        }
    }

    fn put_off(&mut self, mut notice: HttpNotice, now: u64, why: &str) {
        if notice.attempts < ATTEMPTS_MAX {
            notice.due_ns = now + (BACKOFF_NS << (notice.attempts - 1));
            return self.queue.push(Reverse(notice));
        }
        self.counts.entry(notice.kind).or_default().lost += 1;
        let name = notice.kind.name();
        let text = format!("a notice ({name}) was called {ATTEMPTS_MAX} times, the last was {why}");
        if self.refusals.len() < 5 && !self.refusals.contains(&text) {
            self.refusals.push(text);
        }
    }
}

fn open(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Pipe> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(Pipe::new(stream))
}

/// The path of a URL, with its query; `None` where there is none.
pub(crate) fn path_of(url: &str) -> Option<&str> {
    if url.starts_with('/') {
        return Some(url);
    }
    let (_, after) = url.split_once("://")?;
    after.find('/').map(|at| &after[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_what_follows_the_host() {
        assert_eq!(path_of("http://127.0.0.1:7701/n/win/x?y=/"), Some("/n/win/x?y=/"));
        assert_eq!(path_of("/n/win"), Some("/n/win"));
        assert_eq!(path_of("http://host"), None);
        assert_eq!(path_of("nonsense"), None);
    }

    fn notice(kind: NoticeKind, due_ns: u64) -> HttpNotice {
        let request = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        HttpNotice {
            due_ns,
            number: 0,
            kind,
            request,
            amount: 0,
            budget: None,
            again: false,
            late: false,
            attempts: 0,
        }
    }

    fn notifier(books: &Books) -> Notifier<'_> {
        Notifier::new(books, "127.0.0.1:9".parse().unwrap(), 1, 0, 1_000)
    }

    #[test]
    fn notices_leave_by_their_time_then_in_order() {
        let books = Books::new(1);
        let mut notifier = notifier(&books);
        for (kind, due) in [(NoticeKind::Bill, 5), (NoticeKind::Win, 1), (NoticeKind::Loss, 5)] {
            notifier.push(notice(kind, due));
        }
        let order: Vec<NoticeKind> =
            std::iter::from_fn(|| notifier.queue.pop().map(|Reverse(notice)| notice.kind))
                .collect();
        assert_eq!(order, [NoticeKind::Win, NoticeKind::Bill, NoticeKind::Loss]);
    }

    #[test]
    fn a_refused_notice_is_put_off_longer_each_time_and_lost_at_last() {
        let books = Books::new(1);
        let mut notifier = notifier(&books);
        let mut waits = Vec::new();
        let mut current = HttpNotice { attempts: 1, ..notice(NoticeKind::Bill, 0) };
        loop {
            notifier.put_off(current.clone(), 0, "answered 503");
            let Some(Reverse(next)) = notifier.queue.pop() else { break };
            waits.push(next.due_ns / BACKOFF_NS);
            current = HttpNotice { attempts: next.attempts + 1, ..next };
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32]);
        assert_eq!(notifier.counts[&NoticeKind::Bill].lost, 1);
        assert!(notifier.refusals[0].contains("answered 503"), "{:?}", notifier.refusals);
    }
}
