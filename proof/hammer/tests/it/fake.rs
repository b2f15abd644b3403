//! A small node: one thread per connection, blocking sockets, one lock around the books. It speaks the batch protocol and
//! keeps correct books, unless told to misbehave in one way.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use wire::{Action, Message, Split, Verdict};
use wire::{books, decided, pong, refused, resolved, totals, welcome};

/// No run takes longer to show what it is to show.
const RUN_MAX: Duration = Duration::from_secs(120);

/// What the node does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sin {
    /// Nothing.
    #[default]
    None,
    /// Grants what the budget no longer has, and shows it.
    Overspend,
    /// Grants what the budget no longer has, and hides it from its books.
    OverspendHidden,
    /// Books a repeated settle again, and says so.
    BookTwice,
    /// Books every settle twice, and keeps quiet about it.
    BookTwiceQuietly,
    /// Books nothing for a settle it acknowledges, now and then.
    ForgetSettle,
    /// Never answers some frames of notices.
    LoseAck,
    /// Never answers some frames of asks.
    LoseAnswer,
    /// Counts more decisions than it made.
    ForgeTotals,
    /// Shows books that do not add up.
    BreakSum,
    /// Closes connections after some frames.
    Close,
    /// Answers one more time and closes every connection, for good, after some frames.
    Vanish,
    /// Answers the wrong number of asks.
    ShortAnswer,
    /// Calls a settle in time late.
    CallLate,
    /// Puts off the first settle of a hold with BUSY, frames and single ones in turn: rude but right.
    PutOff,
    /// Closes a connection on which nothing is asked for a while.
    CloseIdle,
    /// Is busy whenever its books are asked for while it is asked, but for some times at the end.
    BusyBooks,
    /// Is busy whenever its books are asked for, but for the first time.
    BusyForEver,
    /// Refuses Hello.
    RefuseHello,
    /// Answers Hello with something that is no frame.
    SpeakHttp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Live,
    Expired,
    Released,
    Settled(Verdict),
}

struct Hold {
    budget: u64,
    amount: i64,
    until_ms: u64,
    fate: Fate,
    confirmed: bool,
    put_off: bool,
}

#[derive(Clone, Default)]
struct Budget {
    limit: i64,
    free: i64,
    held: i64,
    settled: i64,
    over: i64,
    late: i64,
}

struct Node {
    sin: Sin,
    hold_ms: u64,
    start: Instant,
    budgets: Vec<Budget>,
    holds: HashMap<u64, Hold>,
    /// Unconfirmed holds by age.
    aging: VecDeque<u64>,
    next: u64,
    decisions: u64,
    granted: u64,
    resolves: u64,
    repeats: u64,
    seen: Seen,
    closed_idle: bool,
}

/// Frames of asks, frames of notices, readings of the books.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    asked: u64,
    notified: u64,
    audits: u64,
}

/// A running fake node; it stops when dropped.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    node: Arc<Mutex<Node>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

/// Starts a node with `count` budgets of `limit` each. No hold ends before it is settled, however busy the machine is.
pub(crate) fn start(sin: Sin, count: usize, limit: i64) -> Fake {
    start_with(sin, count, limit, 600_000)
}

/// The same with another hold time.
pub(crate) fn start_with(sin: Sin, count: usize, limit: i64, hold_ms: u64) -> Fake {
    let budget = Budget { limit, free: limit, ..Budget::default() };
    let node = Arc::new(Mutex::new(Node {
        sin,
        hold_ms,
        start: Instant::now(),
        budgets: vec![budget; count],
        holds: HashMap::new(),
        aging: VecDeque::new(),
        next: 1,
        decisions: 0,
        granted: 0,
        resolves: 0,
        repeats: 0,
        seen: Seen::default(),
        closed_idle: false,
    }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, served) = (Arc::clone(&stop), Arc::clone(&node));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if stopped.load(Ordering::Acquire) {
                return;
            }
            let (node, stream) = (Arc::clone(&served), stream.unwrap());
            std::thread::spawn(move || serve(&node, stream));
        }
    });
    Fake { address, node, stop }
}

impl Fake {
    pub(crate) fn seen(&self) -> Seen {
        self.node.lock().unwrap().seen
    }

    /// Has there been enough since `before` for anything to show? A node that hangs up ends the run by itself.
    pub(crate) fn has_seen_enough(&self, before: Seen) -> bool {
        let Node { sin, seen, .. } = &*self.node.lock().unwrap();
        let (asked, notified) = (seen.asked - before.asked, seen.notified - before.notified);
        let ends_itself = matches!(sin, Sin::Close | Sin::Vanish);
        let some = asked >= 100 && seen.audits - before.audits >= 4;
        !ends_itself && some && (notified >= 50 || asked >= 2_000)
    }
}

#[derive(Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    args: hammer::Args,
}

/// The arguments of a run against the node, which is to be stopped.
pub(crate) fn args(fake: &Fake, more: &str) -> hammer::Args {
    let line = format!(
        "hammer --target {} --duration 1h --connections 4 --depth 4 --batch 10 --quiet --win 0.3 --repeat 0.3 \
         --settle-delay 5ms --audit-every 50ms --drain 90s --timeout 90s {more}",
        fake.address
    );
    Cli::try_parse_from(line.split_whitespace()).unwrap().args
}

/// Runs the hammer against the node until that has seen enough.
pub(crate) fn hammer(fake: &Fake, more: &str) -> hammer::Report {
    let before = fake.seen();
    run_until(|| fake.has_seen_enough(before), |stop| hammer::run(&args(fake, more), stop).unwrap())
}

/// Runs the hammer against the node until that has closed an idle connection.
pub(crate) fn hammer_until_closed(fake: &Fake, more: &str) -> hammer::Report {
    let is_enough = || fake.node.lock().unwrap().closed_idle;
    run_until(is_enough, |stop| hammer::run(&args(fake, more), stop).unwrap())
}

/// Stops a run once `is_enough`, however long that takes on a busy machine.
pub(crate) fn run_until<R: Send>(
    is_enough: impl Fn() -> bool,
    run: impl FnOnce(&AtomicBool) -> R + Send,
) -> R {
    let (stop, began) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run(&stop));
        while !run.is_finished() && !is_enough() && began.elapsed() < RUN_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        run.join().unwrap()
    })
}

fn serve(node: &Mutex<Node>, mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    if node.lock().unwrap().sin == Sin::CloseIdle {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }
    let (mut input, mut filled) = (vec![0; 1 << 16], 0);
    let (mut served, mut asked) = (0_u64, false);
    loop {
        let mut used = 0;
        let mut out = Vec::new();
        while let Ok(Split::Frame(frame)) = wire::frame::split(&input[used..filled], 1 << 20) {
            used += frame.len();
            served += 1;
            asked |= wire::frame::template_id(frame) == Some(wire::decide::TEMPLATE_ID);
            let mut node = node.lock().unwrap();
            if node.sin == Sin::Close && served > 5 {
                return;
            }
            node.answer(frame, &mut out);
            if node.sin == Sin::Vanish && node.seen.asked + node.seen.notified > 200 {
                // The last answer and the end of the stream arrive together.
                let _ = stream.write_all(&out);
                return;
            }
        }
        input.copy_within(used..filled, 0);
        filled -= used;
        if stream.write_all(&out).is_err() {
            return;
        }
        match stream.read(&mut input[filled..]) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                let mut node = node.lock().unwrap();
                // By then every connection of the load has asked.
                if !asked && node.seen.asked >= 200 {
                    node.closed_idle = true;
                    return;
                }
            }
            Ok(0) | Err(_) => return,
            Ok(n) => filled += n,
        }
    }
}

/// Room for any answer of the node.
fn put(out: &mut Vec<u8>, write: impl FnOnce(&mut [u8]) -> usize) {
    let mut buf = vec![0; 1 << 18];
    let len = write(&mut buf);
    out.extend_from_slice(&buf[..len]);
}

impl Node {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    fn answer(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        self.expire();
        match Message::decode(frame).unwrap() {
            Message::Hello(_) => self.hello(out),
            Message::Decide(decide) => self.decide(&decide, out),
            Message::Resolve(resolve) => self.resolve(&resolve, out),
            Message::BooksRequest(request) => self.books(&request, out),
            Message::TotalsRequest(request) => self.totals(request.frame(), out),
            Message::Ping(ping) => put(out, |buf| {
                pong::encode(buf, &pong::Block::new(ping.frame(), 0)).unwrap().finish()
            }),
            other => panic!("the hammer sent {}", other.name()),
        }
    }

    fn hello(&self, out: &mut Vec<u8>) {
        match self.sin {
            Sin::SpeakHttp => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            Sin::RefuseHello => refuse(out, 0, wire::Reason::Unauthorised),
            _ => put(out, |buf| {
                let hold_ms = u32::try_from(self.hold_ms).unwrap();
                let block = welcome::Block::new(1, 1, 1, 64, 0, 1 << 20, hold_ms, 3_600_000, 0);
                welcome::encode(buf, &block).unwrap().finish()
            }),
        }
    }

    fn decide(&mut self, decide: &wire::Decide<'_>, out: &mut Vec<u8>) {
        self.seen.asked += 1;
        if self.sin == Sin::LoseAnswer && self.seen.asked == 5 {
            return;
        }
        let mut answers: Vec<decided::Answer> = decide
            .asks()
            .iter()
            .map(|ask| {
                self.decisions += 1;
                match self.reserve(ask.budget_id(), ask.amount()) {
                    Ok(number) => {
                        self.granted += 1;
                        let mut token = [0; 32];
                        token[..8].copy_from_slice(&number.to_le_bytes());
                        decided::Answer::new(token, Verdict::Granted)
                    }
                    Err(verdict) => decided::Answer::new([0; 32], verdict),
                }
            })
            .collect();
        if self.sin == Sin::ShortAnswer && self.seen.asked == 5 {
            answers.pop();
        }
        put(out, |buf| {
            let block = decided::Block::new(decide.frame(), 1);
            decided::encode(buf, &block).unwrap().answers(&answers).unwrap().finish()
        });
    }

    fn reserve(&mut self, id: u64, amount: i64) -> Result<u64, Verdict> {
        let place = usize::try_from(id).unwrap().wrapping_sub(1);
        let sins = matches!(self.sin, Sin::Overspend | Sin::OverspendHidden);
        let budget = self.budgets.get_mut(place).ok_or(Verdict::UnknownBudget)?;
        if budget.free < amount && !sins {
            return Err(Verdict::Exhausted);
        }
        if budget.free >= amount || self.sin == Sin::Overspend {
            budget.free -= amount;
            budget.held += amount;
        }
        let number = self.next;
        self.next += 1;
        let until_ms = self.now_ms() + self.hold_ms;
        let hold = Hold {
            budget: id,
            amount,
            until_ms,
            fate: Fate::Live,
            confirmed: false,
            put_off: false,
        };
        self.holds.insert(number, hold);
        self.aging.push_back(number);
        Ok(number)
    }

    fn expire(&mut self) {
        let now = self.now_ms();
        while let Some(number) = self.aging.front() {
            let hold = self.holds.get_mut(number).unwrap();
            if hold.until_ms > now && !hold.confirmed {
                return;
            }
            if hold.fate == Fate::Live && !hold.confirmed {
                hold.fate = Fate::Expired;
                let budget = &mut self.budgets[usize::try_from(hold.budget).unwrap() - 1];
                let amount = hold.amount.min(budget.held);
                budget.held -= amount;
                budget.free += amount;
            }
            self.aging.pop_front();
        }
    }

    fn resolve(&mut self, resolve: &wire::Resolve<'_>, out: &mut Vec<u8>) {
        self.seen.notified += 1;
        if self.sin == Sin::LoseAck && self.seen.notified > 5 {
            return;
        }
        if self.sin == Sin::PutOff && self.seen.notified.is_multiple_of(3) {
            return refuse(out, resolve.frame(), wire::Reason::Busy);
        }
        let answers: Vec<resolved::Answer> = resolve
            .resolves()
            .iter()
            .map(|entry| {
                self.resolves += 1;
                let number = u64::from_le_bytes(*entry.token().first_chunk().unwrap());
                let (verdict, repeat) = match entry.action().unwrap() {
                    Action::Confirm => (self.confirm(number), false),
                    Action::Settle => self.settle(number, entry.amount()),
                    Action::Release => (self.release(number), false),
                };
                self.repeats += u64::from(repeat);
                let flags =
                    if repeat { wire::ResolvedFlags::REPEAT } else { wire::ResolvedFlags::NONE };
                resolved::Answer::new(verdict, flags)
            })
            .collect();
        put(out, |buf| {
            let block = resolved::Block::new(resolve.frame());
            resolved::encode(buf, &block).unwrap().answers(&answers).unwrap().finish()
        });
    }

    fn confirm(&mut self, number: u64) -> Verdict {
        let hold = self.holds.get_mut(&number).unwrap();
        if hold.fate != Fate::Live {
            return Verdict::Expired;
        }
        hold.confirmed = true;
        Verdict::Confirmed
    }

    fn release(&mut self, number: u64) -> Verdict {
        let hold = self.holds.get_mut(&number).unwrap();
        if hold.fate != Fate::Live {
            return Verdict::Expired;
        }
        hold.fate = Fate::Released;
        let budget = &mut self.budgets[usize::try_from(hold.budget).unwrap() - 1];
        let amount = hold.amount.min(budget.held);
        budget.held -= amount;
        budget.free += amount;
        Verdict::Released
    }

    fn settle(&mut self, number: u64, price: i64) -> (Verdict, bool) {
        let sin = self.sin;
        let hold = self.holds.get_mut(&number).unwrap();
        if sin == Sin::PutOff && !hold.put_off {
            hold.put_off = true;
            return (Verdict::Busy, false);
        }
        let budget = &mut self.budgets[usize::try_from(hold.budget).unwrap() - 1];
        if let Fate::Settled(first) = hold.fate {
            if sin == Sin::BookTwice {
                budget.settled += price;
                budget.free -= price;
                return (first, false);
            }
            return (first, true);
        }
        if sin == Sin::ForgetSettle && number.is_multiple_of(7) {
            hold.fate = Fate::Settled(Verdict::Settled);
            return (Verdict::Settled, false);
        }
        let late = hold.fate != Fate::Live || (sin == Sin::CallLate && number.is_multiple_of(5));
        if hold.fate == Fate::Live {
            let held = hold.amount.min(budget.held);
            budget.held -= held;
            budget.free += held;
        }
        budget.free -= price;
        let verdict = match (late, price > hold.amount) {
            (true, _) => {
                budget.late += price;
                Verdict::SettledLate
            }
            (_, true) => {
                budget.settled += hold.amount;
                budget.over += price - hold.amount;
                Verdict::SettledOver
            }
            _ => {
                budget.settled += price;
                Verdict::Settled
            }
        };
        if sin == Sin::BookTwiceQuietly && number.is_multiple_of(10) {
            budget.settled += price;
            budget.free -= price;
        }
        hold.fate = Fate::Settled(verdict);
        (verdict, false)
    }

    fn books(&mut self, request: &wire::BooksRequest<'_>, out: &mut Vec<u8>) {
        self.seen.audits += u64::from(request.from_budget_id() <= 1);
        let is_first = self.seen.audits <= 1;
        let is_busy = match self.sin {
            // Three times of four, and never for the pages of one reading only.
            Sin::BusyBooks => request.from_budget_id() <= 1 && !self.seen.audits.is_multiple_of(4),
            Sin::BusyForEver => true,
            _ => false,
        };
        if is_busy && !is_first {
            return refuse(out, request.frame(), wire::Reason::Busy);
        }
        // Pages of three, so that paging is tried.
        let max = usize::from(request.max()).min(3);
        let from = request.from_budget_id().max(1);
        let page: Vec<books::Budget> = (1_u64..)
            .zip(&self.budgets)
            .filter(|(id, _)| *id >= from)
            .take(max)
            .map(|(id, b)| {
                let free = b.free - i64::from(self.sin == Sin::BreakSum);
                books::Budget::new(
                    id, b.limit, free, 0, b.held, b.settled, b.over, b.late, *b"USD\0",
                )
            })
            .collect();
        let more = from + page.len() as u64 <= self.budgets.len() as u64;
        put(out, |buf| {
            let block = books::Block::new(request.frame(), self.now_ms(), u8::from(more));
            books::encode(buf, &block).unwrap().budgets(&page).unwrap().finish()
        });
    }

    fn totals(&self, frame: u64, out: &mut Vec<u8>) {
        let forged = if self.sin == Sin::ForgeTotals { self.decisions / 10 } else { 0 };
        put(out, |buf| {
            let block = totals::Block::new(
                frame,
                self.now_ms(),
                self.decisions * 50,
                self.decisions + forged,
                self.granted,
                self.resolves,
                self.repeats,
            );
            totals::encode(buf, &block).unwrap().verdicts(&[]).unwrap().finish()
        });
    }
}

fn refuse(out: &mut Vec<u8>, frame: u64, reason: wire::Reason) {
    put(out, |buf| {
        let block = refused::Block::new(frame, reason);
        refused::encode(buf, &block).unwrap().detail("for the test").unwrap().finish()
    });
}
