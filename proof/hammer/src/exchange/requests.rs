//! What an exchange sends: bid requests over pipelined connections, auctions on the answers, notices beside them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Instant;

use mio::Registry;

use crate::drive::{Figures, Protocol, Run, Term};
use crate::pipe::Pipe;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::tally::count;

use super::auction::{Billing, Cleared, MarketShares, Offer, Said, clear, is_beaten, judge};
use super::bids::{Answer, Bid, Seat};
use super::bodies::{Bodies, ID_LEN, id_text};
use super::books::Books;
use super::http::{Response, response};
use super::macros::{Facts, expand};
use super::notices::{HttpNotice, NoticeKind, Notifier, path_of};
use super::price;

/// What a slip of the unit makes of a price.
const SLIP: i64 = 1_000;

/// What does not change during a run.
pub(crate) struct ExchangePlan {
    /// The requests.
    pub bodies: Bodies,
    /// HOST:PORT, for the requests of notices.
    pub host: String,
    /// Requests in flight a connection (closed loop).
    pub depth: usize,
    /// Requests per second (open loop).
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
    pub shares: MarketShares,
    /// Index of a budget by its id; `None` where nothing is audited.
    pub budgets: Option<HashMap<u64, usize>>,
}

/// What the thread has to say at the end.
#[derive(Debug)]
pub(crate) struct Traded<'a> {
    /// The state of the loop.
    pub run: Figures,
    /// The counts.
    pub counts: Counts,
    /// The notices.
    pub notifier: Notifier<'a>,
}

/// What a thread counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
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
    /// Prices of the bids that took part, added up, in micros per thousand.
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
    /// Billings with an impossible price.
    pub absurd: u64,
}

#[derive(Debug, Clone, Copy)]
struct RequestFlight {
    body: usize,
    serial: u64,
    /// When it was due (open loop) or written (closed loop).
    from_ns: u64,
    sent_ns: u64,
}

struct RequestConn {
    pipe: Pipe,
    flights: VecDeque<RequestFlight>,
}

/// HTTP requests of an exchange over one thread's connections.
pub(crate) struct Requests<'a> {
    plan: &'a ExchangePlan,
    books: &'a Books,
    run: Run,
    conns: Vec<RequestConn>,
    serial: u64,
    answered: u64,
    random: Random,
    scratch: Vec<u8>,
    counts: Counts,
    notifier: Notifier<'a>,
}

impl<'a> Requests<'a> {
    /// A thread with its connections; `start` is the run's zero of time.
    pub(crate) fn new(
        plan: &'a ExchangePlan,
        books: &'a Books,
        streams: Vec<mio::net::TcpStream>,
        notifier: Notifier<'a>,
        start: Instant,
    ) -> Self {
        let conn = |stream| RequestConn { pipe: Pipe::new(stream), flights: VecDeque::new() };
        let schedule = plan.rate.map(|rate| Schedule::new(rate, 1, 0, 1));
        let ExchangePlan { depth, load_ns, drain_ns, .. } = *plan;
        let term = Term { schedule, depth, load_ns, drain_ns, thread: 0, threads: 1 };
        Self {
            plan,
            books,
            run: Run::new(term, start),
            conns: streams.into_iter().map(conn).collect(),
            serial: 0,
            answered: 0,
            random: Random::new(plan.seed, 8_000),
            scratch: Vec::new(),
            counts: Counts::default(),
            notifier,
        }
    }

    /// Counts what never came.
    pub(crate) fn finish(self) -> Traded<'a> {
        let Requests { run, conns, serial, mut counts, mut notifier, .. } = self;
        counts.sent = serial;
        let open = conns.iter().filter(|conn| conn.pipe.alive);
        counts.lost_answers = open.map(|conn| conn.flights.len() as u64).sum();
        notifier.finish();
        Traded { run: run.figures, counts, notifier }
    }

    fn fault(&mut self, text: String) {
        self.run.fault(text);
    }

    fn take_answer(&mut self, at: usize, answer: &Response<'_>, now: u64) -> Result<(), String> {
        if answer.status < 200 {
            return Ok(());
        }
        let flight = self.conns[at].flights.pop_front().ok_or("an answer to nothing")?;
        self.answered += 1;
        self.run.latency.saturating_record(now.saturating_sub(flight.from_ns));
        *self.counts.statuses.entry(answer.status).or_default() += 1;
        match answer.status {
            204 => self.counts.no_bids += 1,
            200 => self.take_bids(&flight, answer.body, now),
            500.. => self
                .fault(format!("a request was answered {}; a door never does that", answer.status)),
            _ => {}
        }
        if answer.closes { Err(format!("closed after a {} answer", answer.status)) } else { Ok(()) }
    }

    fn take_bids(&mut self, flight: &RequestFlight, body: &[u8], now: u64) {
        let answer = match Answer::read(body) {
            Ok(answer) => answer,
            Err(e) => return self.fault(format!("a 200 answer is no bid response: {e}")),
        };
        let bids = answer.bids().count() as u64;
        if bids == 0 {
            self.counts.no_bids += 1;
            return;
        }
        self.counts.with_bids += 1;
        count(&self.books.bids, bids);
        let id = id_text(self.plan.id_salt, flight.serial);
        if answer.id.as_bytes() != id {
            return self.fault(format!("an answer names request '{}', not its own", answer.id));
        }
        let plan = self.plan;
        let request = &plan.bodies.list[flight.body];
        if request.is_test {
            self.counts.test_bids += bids;
        } else if now.saturating_sub(flight.sent_ns) > request.tmax_ns {
            self.counts.timeouts += 1;
        } else {
            for seat in &answer.seatbid {
                self.take_seat(flight, &answer, seat, &id, now);
            }
        }
    }

    /// Holds the auctions of one seat's bids; a group wins or loses as one.
    fn take_seat(
        &mut self,
        flight: &RequestFlight,
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
                    *self.counts.dropped.entry(reason).or_default() += 1;
                    self.fault(format!(
                        "a bid was dropped: {reason} (bid {}, campaign {})",
                        bid.id, bid.cid
                    ));
                    continue;
                }
            };
            self.counts.offers += 1;
            self.counts.bid_sum += i128::from(offer.price_micros);
            let won = group_wins
                .unwrap_or_else(|| !is_beaten(answer, bid) && self.random.chance(plan.shares.win));
            let cleared = clear(&offer, won, &mut self.random);
            let caller = ClearedBid { id, answer, seat, bid, offer: &offer, cleared, budget, now };
            if won { self.win(&caller) } else { self.lose_auction(&caller) }
        }
    }

    /// The index of a bid's budget; `None` where nothing is audited.
    fn budget_of(&self, bid: &Bid<'_>) -> Result<Option<usize>, &'static str> {
        let Some(budgets) = &self.plan.budgets else { return Ok(None) };
        let id: u64 = bid.cid.parse().map_err(|_| "cid is no number")?;
        budgets.get(&id).copied().map(Some).ok_or("cid names no budget of the books")
    }

    fn win(&mut self, caller: &ClearedBid<'_>) {
        if !self.notifier.has_room() {
            self.counts.let_go += 1;
            return;
        }
        count(&self.books.wins, 1);
        let plan = self.plan;
        let offer = caller.offer;
        let billing = plan.shares.billing(&mut self.random);
        let price = price::text(caller.cleared.price_micros);
        if billing != Billing::Late {
            self.notify(caller, NoticeKind::Win, &caller.bid.nurl, Some(&price), caller.now);
        }
        if billing == Billing::Never {
            self.counts.unbilled += 1;
            return;
        }
        let said = plan.shares.said(&mut self.random);
        self.counts.late += u64::from(billing == Billing::Late);
        self.counts.bad_macros +=
            u64::from(matches!(said, Said::Literal | Said::Encoded | Said::Empty));
        self.counts.absurd += u64::from(matches!(said, Said::Nonsense(_) | Said::Slip));
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
        let Some(bill) =
            caller.notice(&plan.host, NoticeKind::Bill, &caller.bid.burl, text, due_ns)
        else {
            return self.fault(format!("burl '{}' is no URL", caller.bid.burl));
        };
        let amount = price::cost(booked, offer.multiplier_micros);
        let twin = (billing == Billing::TwiceAtOnce)
            .then(|| HttpNotice { kind: NoticeKind::Again, ..bill.clone() });
        let (again, late) = (billing == Billing::TwiceInTurn, billing == Billing::Late);
        self.notifier.push(HttpNotice { amount, again, late, ..bill });
        // Behind the first, whose money is then in the books already.
        if let Some(twin) = twin {
            self.notifier.push(twin);
        }
    }

    /// From auction to billing: half to one and a half of what the guide has for this kind of impression.
    fn delay_ns(&mut self, offer: &Offer) -> u64 {
        let usual_ns = self.plan.minute_ns.saturating_mul(u64::from(offer.delay_minutes));
        usual_ns / 2 + self.random.below(usual_ns)
    }

    fn lose_auction(&mut self, caller: &ClearedBid<'_>) {
        if caller.bid.lurl.is_empty() || !self.plan.shares.loss_is_told(&mut self.random) {
            return;
        }
        let price = price::text(caller.cleared.price_micros);
        if self.notifier.has_room() {
            self.notify(caller, NoticeKind::Loss, &caller.bid.lurl, Some(&price), caller.now);
        }
    }

    /// Queues a notice that moves no money.
    fn notify(
        &mut self,
        caller: &ClearedBid<'_>,
        kind: NoticeKind,
        url: &str,
        price: Option<&str>,
        due: u64,
    ) {
        if url.is_empty() {
            return;
        }
        match caller.notice(&self.plan.host, kind, url, price, due) {
            Some(notice) => self.notifier.push(notice),
            None => self.fault(format!("notice URL '{url}' is no URL")),
        }
    }
}

impl Protocol for Requests<'_> {
    fn run(&mut self) -> &mut Run {
        &mut self.run
    }

    fn connections(&self) -> usize {
        self.conns.len()
    }

    fn pipe(&mut self, at: usize) -> &mut Pipe {
        &mut self.conns[at].pipe
    }

    fn has_room(&self, at: usize, depth: usize) -> bool {
        let conn = &self.conns[at];
        conn.flights.len() < depth && conn.pipe.has_room()
    }

    fn ask(&mut self, at: usize, from_ns: u64, sent_ns: u64) {
        let serial = self.serial;
        self.serial += 1;
        let count = self.plan.bodies.list.len() as u64;
        let body = usize::try_from(serial % count).unwrap_or(0);
        let id = id_text(self.plan.id_salt, serial);
        let conn = &mut self.conns[at];
        self.plan.bodies.send(body, &id, conn.pipe.out());
        conn.flights.push_back(RequestFlight { body, serial, from_ns, sent_ns });
    }

    fn take(&mut self, at: usize, input: &[u8], now_ns: u64) -> Result<usize, String> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut used = 0;
        while let Some(answer) = response(&input[used..], &mut scratch)? {
            used += answer.len;
            self.take_answer(at, &answer, now_ns)?;
        }
        self.scratch = scratch;
        Ok(used)
    }

    fn give_up(&mut self, at: usize) -> String {
        format!("unanswered: {} requests", self.conns[at].flights.len())
    }

    fn is_idle(&self) -> bool {
        self.notifier.is_idle()
            && self.conns.iter().all(|conn| !conn.pipe.alive || conn.flights.is_empty())
    }

    fn answered(&self) -> u64 {
        self.answered
    }

    fn moved(&mut self, sent: usize, received: usize) {
        count(&self.books.tally.bytes_sent, sent as u64);
        count(&self.books.tally.bytes_received, received as u64);
    }

    fn publish(&mut self) {
        self.books.tally.decisions.store(self.answered, Ordering::Release);
    }

    fn hand_over(&mut self) {
        self.books.tally.latency.offer(&mut self.run.latency);
    }

    fn send_beside(&mut self, now_ns: u64, registry: &Registry) {
        self.notifier.send_due(now_ns, registry);
    }

    fn wake_beside(&mut self, token: usize, now_ns: u64) {
        self.notifier.wake(token, now_ns);
    }

    fn sweep_beside(&mut self, now_ns: u64) {
        self.notifier.sweep(now_ns);
    }
}

/// One bid after its auction: all that its notices are made of.
struct ClearedBid<'a> {
    id: &'a [u8; ID_LEN],
    answer: &'a Answer<'a>,
    seat: &'a Seat<'a>,
    bid: &'a Bid<'a>,
    offer: &'a Offer,
    cleared: Cleared,
    budget: Option<usize>,
    now: u64,
}

impl ClearedBid<'_> {
    /// A notice with its macros expanded and no money in it; `None` where the URL is none.
    fn notice(
        &self,
        host: &str,
        kind: NoticeKind,
        url: &str,
        price: Option<&str>,
        due_ns: u64,
    ) -> Option<HttpNotice> {
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
            loss: if kind == NoticeKind::Loss { "102" } else { "" },
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
        Some(HttpNotice {
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
