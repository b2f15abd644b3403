//! The sending thread of an exchange: requests over pipelined connections, auctions on the answers, notices beside them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};

use crate::cpu::ThreadTimes;
use crate::latency::histogram;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::tally::count;
use crate::timetable::{Lateness, Timetable, sleep_for_answers};

use super::auction::{Billing, Cleared, Offer, Said, Shares, clear, is_beaten, judge};
use super::bids::{Answer, Bid, Seat};
use super::bodies::{Bodies, ID_LEN, id_text};
use super::books::Books;
use super::http::{Pipe, Response, UNSENT_LEN_MAX, response};
use super::macros::{Facts, expand};
use super::notices::{Kind, Notice, Notifier, path_of};
use super::price;

/// First size of a read buffer: all answers of a wake-up, usually, in one read.
const READ_LEN: usize = 128 << 10;
/// Open loop: requests in flight on one connection; beyond it requests wait, and their waiting counts.
const OPEN_IN_FLIGHT_MAX: usize = 4_096;
/// Between two hand-overs of the latency histogram, in ns.
const HAND_OVER_NS: u64 = 200_000_000;
/// Under which the timetable wakes; connections and notices count from 0.
const ALARM: Token = Token(usize::MAX);
/// Fault texts kept.
const ERRORS_KEPT_MAX: usize = 10;
/// What a slip of the unit makes of a price.
const SLIP: i64 = 1_000;

/// What does not change during a run.
pub(crate) struct Plan {
    /// The requests.
    pub bodies: Bodies,
    /// HOST:PORT, for the requests of notices.
    pub host: String,
    /// Requests in flight a connection (closed loop).
    pub depth: usize,
    /// Requests a second (open loop).
    pub rate: Option<u64>,
    /// Seed.
    pub seed: u64,
    /// Makes the request ids of this run different from those of others.
    pub id_salt: u64,
    /// How long requests are sent, in ns.
    pub load_ns: u64,
    /// How long answers and notices may take after that, in ns.
    pub drain_ns: u64,
    /// One minute of the guide's delays from auction to billing, in ns.
    pub minute_ns: u64,
    /// From the auction to a billing that is late on purpose, in ns.
    pub late_ns: u64,
    /// The shares of fates.
    pub shares: Shares,
    /// Index of a budget by its id; `None` where nothing is audited.
    pub budgets: Option<HashMap<u64, usize>>,
}

/// What the thread has to say at the end.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    /// Faults of the node or of connections, in words; the first few.
    pub errors: Vec<String>,
    /// How long requests were sent, in ns.
    pub load_ns: u64,
    /// Requests answered within that time.
    pub answered_loaded: u64,
    /// CPU time of the thread within that time.
    pub cpu_ns: Option<u64>,
    /// Open loop: how late the thread was itself.
    pub lateness: Lateness,
    /// Requests without an answer on connections that stayed up.
    pub lost_answers: u64,
    /// Requests sent.
    pub sent: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers with at least one bid.
    pub with_bids: u64,
    /// Answers that were no bid: 204, or 200 without bids.
    pub no_bids: u64,
    /// Answers with bids that came after `tmax`.
    pub timeouts: u64,
    /// Bids in test requests, which are not called back.
    pub test_bids: u64,
    /// Bids dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Prices of the bids that took part, added up, in micros a thousand.
    pub bid_sum: i128,
    /// Bids that took part.
    pub offers: u64,
    /// Wins let go because too many notices waited.
    pub let_go: u64,
    /// Wins whose billing is never told.
    pub unbilled: u64,
    /// Billings late on purpose.
    pub late: u64,
    /// Billings with the price macro not expanded.
    pub bad_macros: u64,
    /// Billings with a price that nobody can mean.
    pub absurd: u64,
    /// The notices.
    pub notifier: Notifier<'a>,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    body: usize,
    serial: u64,
    /// When it was due (open loop) or written (closed loop).
    from_ns: u64,
    sent_ns: u64,
}

struct Conn {
    pipe: Pipe,
    alive: bool,
    flights: VecDeque<Flight>,
}

/// The sending thread.
pub(crate) struct Engine<'a> {
    plan: &'a Plan,
    books: &'a Books,
    conns: Vec<Conn>,
    next_conn: usize,
    /// Open loop; made by `run`, when there is something to wait with.
    timetable: Option<Timetable>,
    draining: bool,
    start: Instant,
    serial: u64,
    answered: u64,
    random: Random,
    latency: Histogram<u64>,
    handed_over_ns: u64,
    touched: Vec<usize>,
    scratch: Vec<u8>,
    out: Outcome<'a>,
}

impl<'a> Engine<'a> {
    /// A thread with its connections; `start` is the run's zero of time.
    pub(crate) fn new(
        plan: &'a Plan,
        books: &'a Books,
        streams: Vec<mio::net::TcpStream>,
        notifier: Notifier<'a>,
        start: Instant,
    ) -> Self {
        let conn = |stream| Conn {
            pipe: Pipe::new(stream, READ_LEN),
            alive: true,
            flights: VecDeque::new(),
        };
        Self {
            plan,
            books,
            conns: streams.into_iter().map(conn).collect(),
            next_conn: 0,
            timetable: None,
            draining: false,
            start,
            serial: 0,
            answered: 0,
            random: Random::new(plan.seed, 8_000),
            latency: histogram(),
            handed_over_ns: 0,
            touched: Vec::new(),
            scratch: Vec::new(),
            out: Outcome::new(notifier),
        }
    }

    /// Sends until the time is over or `stop` is set, then waits for answers and notices. `loaded` is set in between.
    ///
    /// # Errors
    /// The system refuses the readiness queue.
    pub(crate) fn run(mut self, stop: &AtomicBool, loaded: &AtomicBool) -> io::Result<Outcome<'a>> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(1_024);
        for (at, conn) in self.conns.iter_mut().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut conn.pipe.stream, Token(at), interest)?;
        }
        if let Some(rate) = self.plan.rate {
            let schedule = Schedule::new(rate, 1, 0, 1);
            self.timetable = Some(Timetable::new(schedule, &poll, ALARM)?);
        }
        let times_begin = ThreadTimes::now();
        (0..self.conns.len()).for_each(|at| self.serve(at));
        let mut end_ns = u64::MAX;
        let mut swept_ns = 0;
        loop {
            let now = self.now_ns();
            if !self.draining && self.is_load_over(now, stop) {
                self.end_load(now, times_begin);
                loaded.store(true, Ordering::Release);
                end_ns = now.saturating_add(self.plan.drain_ns);
            }
            if self.draining && (now >= end_ns || self.is_idle()) {
                break;
            }
            self.send_due(now);
            self.out.notifier.send_due(now, poll.registry());
            match self.sleep(&mut poll, &mut events) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                if event.token() != ALARM {
                    self.wake(event.token().0, event.is_read_closed());
                }
            }
            let now = self.now_ns();
            if now >= swept_ns {
                (0..self.conns.len()).for_each(|at| self.serve(at));
                self.out.notifier.sweep(now);
                self.publish(now);
                swept_ns = now + 1_000_000 + self.conns.len() as u64 * 1_000;
            }
        }
        Ok(self.finish())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_load_over(&self, now: u64, stop: &AtomicBool) -> bool {
        now >= self.plan.load_ns
            || stop.load(Ordering::Relaxed)
            || self.conns.iter().all(|conn| !conn.alive)
    }

    fn is_idle(&self) -> bool {
        self.out.notifier.is_idle()
            && self.conns.iter().all(|conn| !conn.alive || conn.flights.is_empty())
    }

    fn end_load(&mut self, now: u64, begin: Option<ThreadTimes>) {
        self.draining = true;
        self.out.load_ns = now;
        self.out.answered_loaded = self.answered;
        let times = ThreadTimes::now().zip(begin).map(|(end, begin)| end.since(begin));
        self.out.cpu_ns = times.map(|times| times.cpu_ns);
        if let Some(timetable) = &mut self.timetable {
            timetable.end(now, times);
        }
    }

    fn sleep(&mut self, poll: &mut Poll, events: &mut Events) -> io::Result<()> {
        let now = self.now_ns();
        match &mut self.timetable {
            Some(timetable) if !self.draining => timetable.sleep(poll, events, now),
            _ => sleep_for_answers(poll, events),
        }
    }

    fn wake(&mut self, token: usize, closed: bool) {
        if token >= self.conns.len() {
            let now = self.now_ns();
            return self.out.notifier.wake(token, now);
        }
        if !self.conns[token].alive {
            return;
        }
        if let Err(e) = self.read(token, closed) {
            return self.lose(token, &e);
        }
        self.serve(token);
    }

    /// Reads what is there. With `closed`, to the very end: it came together with the last bytes and wakes no second time.
    fn read(&mut self, at: usize, closed: bool) -> io::Result<()> {
        while let Some((n, more)) = self.conns[at].pipe.read()? {
            count(&self.books.tally.bytes_received, n as u64);
            let now = self.now_ns();
            let filled = self.conns[at].pipe.filled;
            let input = std::mem::take(&mut self.conns[at].pipe.input);
            let result = self.take_answers(at, &input[..filled], now);
            self.conns[at].pipe.input = input;
            let used = result.map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))?;
            self.conns[at].pipe.consume(used);
            if !more && !closed {
                break;
            }
        }
        Ok(())
    }

    /// Takes all whole answers; returns the bytes used.
    fn take_answers(&mut self, at: usize, input: &[u8], now: u64) -> Result<usize, String> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut used = 0;
        while let Some(answer) = response(&input[used..], &mut scratch)? {
            used += answer.len;
            self.take_answer(at, &answer, now)?;
        }
        self.scratch = scratch;
        Ok(used)
    }

    fn take_answer(&mut self, at: usize, answer: &Response<'_>, now: u64) -> Result<(), String> {
        if answer.status < 200 {
            return Ok(());
        }
        let flight = self.conns[at].flights.pop_front().ok_or("an answer to nothing")?;
        self.answered += 1;
        self.latency.saturating_record(now.saturating_sub(flight.from_ns));
        *self.out.statuses.entry(answer.status).or_default() += 1;
        match answer.status {
            204 => self.out.no_bids += 1,
            200 => self.take_bids(&flight, answer.body, now),
            500.. => self
                .fault(format!("a request was answered {}; a door never does that", answer.status)),
            _ => {}
        }
        if answer.closes { Err(format!("closed after a {} answer", answer.status)) } else { Ok(()) }
    }

    fn take_bids(&mut self, flight: &Flight, body: &[u8], now: u64) {
        let answer = match Answer::read(body) {
            Ok(answer) => answer,
            Err(e) => return self.fault(format!("a 200 answer is no bid response: {e}")),
        };
        let bids = answer.bids().count() as u64;
        if bids == 0 {
            self.out.no_bids += 1;
            return;
        }
        self.out.with_bids += 1;
        count(&self.books.bids, bids);
        let id = id_text(self.plan.id_salt, flight.serial);
        if answer.id.as_bytes() != id {
            return self.fault(format!("an answer names request '{}', not its own", answer.id));
        }
        let plan = self.plan;
        let request = &plan.bodies.list[flight.body];
        if request.is_test {
            self.out.test_bids += bids;
        } else if now.saturating_sub(flight.sent_ns) > request.tmax_ns {
            self.out.timeouts += 1;
        } else {
            for seat in &answer.seatbid {
                self.take_seat(flight, &answer, seat, &id, now);
            }
        }
    }

    /// Holds the auctions of one seat's bids; a group wins or loses as one.
    fn take_seat(
        &mut self,
        flight: &Flight,
        answer: &Answer<'_>,
        seat: &Seat<'_>,
        id: &[u8; ID_LEN],
        now: u64,
    ) {
        let plan = self.plan;
        let request = &plan.bodies.list[flight.body];
        let group_wins = (seat.group == 1).then(|| self.random.chance(plan.shares.win));
        for bid in &seat.bid {
            let judged = judge(request, answer, bid).and_then(|o| Ok((o, self.budget_of(bid)?)));
            let (offer, budget) = match judged {
                Ok(judged) => judged,
                Err(reason) => {
                    *self.out.dropped.entry(reason).or_default() += 1;
                    self.fault(format!(
                        "a bid was dropped: {reason} (bid {}, campaign {})",
                        bid.id, bid.cid
                    ));
                    continue;
                }
            };
            self.out.offers += 1;
            self.out.bid_sum += i128::from(offer.price_micros);
            let won = group_wins
                .unwrap_or_else(|| !is_beaten(answer, bid) && self.random.chance(plan.shares.win));
            let cleared = clear(&offer, won, &mut self.random);
            let caller = Caller { id, answer, seat, bid, offer: &offer, cleared, budget, now };
            if won { self.win(&caller) } else { self.lose_auction(&caller) }
        }
    }

    /// The index of a bid's budget; `None` where nothing is audited.
    fn budget_of(&self, bid: &Bid<'_>) -> Result<Option<usize>, &'static str> {
        let Some(budgets) = &self.plan.budgets else { return Ok(None) };
        let id: u64 = bid.cid.parse().map_err(|_| "cid is no number")?;
        budgets.get(&id).copied().map(Some).ok_or("cid names no budget of the books")
    }

    fn win(&mut self, caller: &Caller<'_>) {
        if !self.out.notifier.has_room() {
            self.out.let_go += 1;
            return;
        }
        count(&self.books.wins, 1);
        let plan = self.plan;
        let offer = caller.offer;
        let billing = plan.shares.billing(&mut self.random);
        let price = price::text(caller.cleared.price_micros);
        if billing != Billing::Late {
            self.notify(caller, Kind::Win, &caller.bid.nurl, Some(&price), caller.now);
        }
        if billing == Billing::Never {
            self.out.unbilled += 1;
            return;
        }
        let said = plan.shares.said(&mut self.random);
        self.out.late += u64::from(billing == Billing::Late);
        self.out.bad_macros +=
            u64::from(matches!(said, Said::Literal | Said::Encoded | Said::Empty));
        self.out.absurd += u64::from(matches!(said, Said::Nonsense(_) | Said::Slip));
        let slip;
        let text = match said {
            Said::Price => Some(price.as_str()),
            Said::Literal => None,
            Said::Encoded => Some("${AUCTION_PRICE}"),
            Said::Empty => Some(""),
            Said::Nonsense(text) => Some(text),
            Said::Slip => {
                // Above the bid in any case, so that no clearing price can be meant.
                slip = price::text(offer.price_micros.saturating_mul(SLIP));
                Some(slip.as_str())
            }
        };
        let booked = if said.is_price() { caller.cleared.price_micros } else { offer.price_micros };
        let due_ns = caller.now.saturating_add(match billing {
            Billing::Late => plan.late_ns,
            _ => self.delay_ns(offer),
        });
        let Some(bill) = caller.notice(&plan.host, Kind::Bill, &caller.bid.burl, text, due_ns)
        else {
            return self.fault(format!("burl '{}' is no URL", caller.bid.burl));
        };
        let amount = price::cost(booked, offer.multiplier_micros);
        let twin =
            (billing == Billing::TwiceAtOnce).then(|| Notice { kind: Kind::Again, ..bill.clone() });
        let (again, late) = (billing == Billing::TwiceInTurn, billing == Billing::Late);
        self.out.notifier.push(Notice { amount, again, late, ..bill });
        // Behind the first, whose money is then in the books already.
        if let Some(twin) = twin {
            self.out.notifier.push(twin);
        }
    }

    /// From auction to billing: half to one and a half of what the guide has for this kind of impression.
    fn delay_ns(&mut self, offer: &Offer) -> u64 {
        let usual_ns = self.plan.minute_ns.saturating_mul(u64::from(offer.delay_minutes));
        usual_ns / 2 + self.random.below(usual_ns)
    }

    fn lose_auction(&mut self, caller: &Caller<'_>) {
        if caller.bid.lurl.is_empty() || !self.plan.shares.loss_is_told(&mut self.random) {
            return;
        }
        let price = price::text(caller.cleared.price_micros);
        if self.out.notifier.has_room() {
            self.notify(caller, Kind::Loss, &caller.bid.lurl, Some(&price), caller.now);
        }
    }

    /// Queues a notice that moves no money.
    fn notify(
        &mut self,
        caller: &Caller<'_>,
        kind: Kind,
        url: &str,
        price: Option<&str>,
        due: u64,
    ) {
        if url.is_empty() {
            return;
        }
        match caller.notice(&self.plan.host, kind, url, price, due) {
            Some(notice) => self.out.notifier.push(notice),
            None => self.fault(format!("notice URL '{url}' is no URL")),
        }
    }

    /// Closed loop: fills the connection up to its depth. Then writes what there is.
    fn serve(&mut self, at: usize) {
        if !self.conns[at].alive {
            return;
        }
        if self.timetable.is_none() && !self.draining {
            let now = self.now_ns();
            while self.has_room(at, self.plan.depth) {
                self.ask(at, now, now);
            }
        }
        self.flush(at);
    }

    fn has_room(&self, at: usize, depth: usize) -> bool {
        let conn = &self.conns[at];
        conn.alive && conn.flights.len() < depth && conn.pipe.unsent() < UNSENT_LEN_MAX
    }

    fn ask(&mut self, at: usize, from_ns: u64, sent_ns: u64) {
        let serial = self.serial;
        self.serial += 1;
        let count = self.plan.bodies.list.len() as u64;
        let body = usize::try_from(serial % count).unwrap_or(0);
        let id = id_text(self.plan.id_salt, serial);
        let conn = &mut self.conns[at];
        self.plan.bodies.send(body, &id, conn.pipe.out());
        conn.flights.push_back(Flight { body, serial, from_ns, sent_ns });
    }

    fn flush(&mut self, at: usize) {
        match self.conns[at].pipe.flush() {
            Ok(written) => count(&self.books.tally.bytes_sent, written as u64),
            Err(e) => self.lose(at, &e),
        }
    }

    /// Open loop: sends every request whose time has come, over the connections in turn.
    fn send_due(&mut self, now: u64) {
        let Some(mut timetable) = self.timetable.take() else { return };
        while !self.draining && timetable.is_due(now) {
            let Some(at) = self.next_with_room() else {
                timetable.full();
                break;
            };
            let Some(due_ns) = timetable.take(now) else { break };
            if self.conns[at].pipe.unsent() == 0 {
                self.touched.push(at);
            }
            self.ask(at, due_ns, now);
        }
        while let Some(at) = self.touched.pop() {
            self.flush(at);
        }
        self.timetable = Some(timetable);
    }

    fn next_with_room(&mut self) -> Option<usize> {
        let all = self.conns.len();
        let found = (0..all)
            .map(|step| (self.next_conn + step) % all)
            .find(|&at| self.has_room(at, OPEN_IN_FLIGHT_MAX))?;
        self.next_conn = (found + 1) % all;
        Some(found)
    }

    fn lose(&mut self, at: usize, e: &io::Error) {
        if !self.conns[at].alive {
            return;
        }
        self.conns[at].alive = false;
        let pending = self.conns[at].flights.len();
        self.fault(format!("connection {at} broke with {pending} requests unanswered: {e}"));
    }

    fn fault(&mut self, text: String) {
        if self.out.errors.len() < ERRORS_KEPT_MAX && !self.out.errors.contains(&text) {
            self.out.errors.push(text);
        }
    }

    fn publish(&mut self, now: u64) {
        let tally = &self.books.tally;
        tally.decisions.store(self.answered, Ordering::Release);
        if now >= self.handed_over_ns + HAND_OVER_NS {
            tally.latency.offer(&mut self.latency);
            self.handed_over_ns = now;
        }
    }

    fn finish(mut self) -> Outcome<'a> {
        self.out.sent = self.serial;
        if let Some(timetable) = self.timetable.take() {
            self.out.lateness = timetable.figures();
        }
        let open = self.conns.iter().filter(|conn| conn.alive);
        self.out.lost_answers = open.map(|conn| conn.flights.len() as u64).sum();
        self.out.notifier.finish();
        self.publish(u64::MAX);
        // The reader may just be at the shelf: the last figures must not be left behind.
        while !self.latency.is_empty() {
            self.books.tally.latency.offer(&mut self.latency);
            std::thread::yield_now();
        }
        self.out
    }
}

impl<'a> Outcome<'a> {
    fn new(notifier: Notifier<'a>) -> Self {
        Self {
            errors: Vec::new(),
            load_ns: 0,
            answered_loaded: 0,
            cpu_ns: None,
            lateness: Lateness::new(),
            lost_answers: 0,
            sent: 0,
            statuses: BTreeMap::new(),
            with_bids: 0,
            no_bids: 0,
            timeouts: 0,
            test_bids: 0,
            dropped: BTreeMap::new(),
            bid_sum: 0,
            offers: 0,
            let_go: 0,
            unbilled: 0,
            late: 0,
            bad_macros: 0,
            absurd: 0,
            notifier,
        }
    }
}

/// One bid after its auction: all that its notices are made of.
struct Caller<'a> {
    id: &'a [u8; ID_LEN],
    answer: &'a Answer<'a>,
    seat: &'a Seat<'a>,
    bid: &'a Bid<'a>,
    offer: &'a Offer,
    cleared: Cleared,
    budget: Option<usize>,
    now: u64,
}

impl Caller<'_> {
    /// A notice with its macros expanded and no money in it; `None` where the URL is none.
    fn notice(
        &self,
        host: &str,
        kind: Kind,
        url: &str,
        price: Option<&str>,
        due_ns: u64,
    ) -> Option<Notice> {
        let path = path_of(url)?;
        let min_to_win = price::text(self.cleared.min_to_win_micros);
        let multiplier = price::text(self.offer.multiplier_micros);
        let facts = Facts {
            auction_id: std::str::from_utf8(self.id).unwrap_or_default(),
            bid_id: &self.bid.id,
            imp_id: &self.bid.impid,
            seat_id: &self.seat.seat,
            ad_id: &self.bid.adid,
            price,
            currency: self.answer.currency(),
            loss: if kind == Kind::Loss { "102" } else { "" },
            min_to_win: &min_to_win,
            multiplier: &multiplier,
        };
        let mut request = Vec::with_capacity(path.len() + host.len() + 64);
        request.extend_from_slice(b"GET ");
        expand(path, &facts, &mut request);
        request.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        request.extend_from_slice(host.as_bytes());
        request.extend_from_slice(b"\r\n\r\n");
        let budget = self.budget;
        let (number, amount, attempts) = (0, 0, 0);
        Some(Notice {
            due_ns,
            number,
            kind,
            request,
            amount,
            budget,
            again: false,
            late: false,
            attempts,
        })
    }
}
