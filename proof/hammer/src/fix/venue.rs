//! The venue: it executes orders by seed, as awkwardly as FIX allows, and keeps the books that the node's are compared with.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::budgets::{Budget, Keys, PRICE_UNITS};
use super::peer::{Message, Peer, now};
use crate::random::Random;

/// Between two steps of an order at most, in ms.
const STEP_MS_MAX: u64 = 60;

/// An execution, as it counts now.
#[derive(Debug)]
struct Execution {
    /// The ExecIDs that a correction may name: its own, and the last correction's.
    ids: [u64; 2],
    quantity: i64,
    price: i64,
    is_late: bool,
    /// When the last correction of it was sent, in ms of the run.
    amended_ms: u64,
}

/// An order as the venue knows it.
#[derive(Debug)]
pub(super) struct Order {
    /// The number of its client.
    pub(super) client: usize,
    /// ClOrdID of the version in force.
    pub(super) id: String,
    pub(super) keys: Keys,
    pub(super) is_market: bool,
    pub(super) price: i64,
    pub(super) quantity: i64,
    pub(super) is_open: bool,
    /// The budgets that it binds, by their place.
    pub(super) legs: Vec<usize>,
    executions: Vec<Execution>,
    /// Was something busted while it was open? Then it is not executed again: what it may cost was granted once.
    is_busted: bool,
    last: String,
}

impl Order {
    fn executed(&self, is_late: bool) -> (i64, i128) {
        let own = self.executions.iter().filter(|one| one.is_late == is_late);
        own.fold((0, 0), |(quantity, money), one| {
            (quantity + one.quantity, money + i128::from(one.quantity) * i128::from(one.price))
        })
    }

    fn cum(&self) -> i64 {
        self.executions.iter().map(|one| one.quantity).sum()
    }

    pub(super) fn leaves(&self) -> i64 {
        if self.is_open { self.quantity - self.cum() } else { 0 }
    }

    /// What was executed in time, what was executed after it was closed, and what may still be executed, as this budget counts.
    pub(super) fn amounts(&self, budget: &Budget) -> [i128; 3] {
        let open = (self.leaves(), i128::from(self.leaves()) * i128::from(self.price));
        [self.executed(false), self.executed(true), open].map(|sum| budget.amount(sum))
    }

    /// Is what it holds its price times what is open? Sales and market orders are held at a reference price.
    pub(super) fn has_exact_hold(&self) -> bool {
        self.keys.side == '1' && !self.is_market
    }
}

/// What happened, for the report.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct VenueCounts {
    pub(super) orders: u64,
    /// Orders, replaces and cancels.
    rejected: u64,
    pub(super) fills: u64,
    late_fills: u64,
    replaced: u64,
    cancelled: u64,
    /// Orders that nobody cancelled.
    ended: u64,
    busts: u64,
    corrections: u64,
    reports_twice: u64,
    /// Pairs of executions in the wrong order.
    swapped: u64,
}

/// The venue with its end of the session.
#[derive(Debug)]
pub(super) struct Venue {
    pub(super) peer: Peer,
    pub(super) orders: Vec<Order>,
    /// Every ClOrdID that arrived; without an order where it was rejected.
    ids: HashMap<String, Option<usize>>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    random: Random,
    executions: u64,
    /// Sent since they were taken the last time: the client, and the body.
    pub(super) reports: Vec<(usize, String)>,
    sent: u64,
    /// By how much each budget may be above its limit, for what the venue did on purpose.
    pub(super) beyond: Vec<i128>,
    /// No order is executed any more, and every cancel is taken.
    pub(super) is_closing: bool,
    pub(super) counts: VenueCounts,
}

impl Venue {
    pub(super) fn new(peer: Peer, budgets: usize, seed: u64) -> Venue {
        Venue {
            peer,
            orders: Vec::new(),
            ids: HashMap::new(),
            due: BinaryHeap::new(),
            random: Random::new(seed, u64::MAX),
            executions: 0,
            reports: Vec::new(),
            sent: 0,
            beyond: vec![0; budgets],
            is_closing: false,
            counts: VenueCounts::default(),
        }
    }

    /// Returns the order that a ClOrdID belongs to.
    pub(super) fn order_of(&self, id: &str) -> Option<usize> {
        self.ids.get(id).copied().flatten()
    }

    /// Has a ClOrdID come before?
    pub(super) fn knows(&self, id: &str) -> bool {
        self.ids.contains_key(id)
    }

    /// Answers an order, a replace or a cancel.
    pub(super) fn take(
        &mut self,
        message: &Message,
        (client, session): (usize, &str),
        budgets: &[Budget],
        at_ms: u64,
    ) {
        match message.get(35) {
            "D" => self.order(message, (client, session), budgets, at_ms),
            kind => self.change(message, client, kind == "G"),
        }
    }

    fn order(
        &mut self,
        message: &Message,
        (client, session): (usize, &str),
        budgets: &[Budget],
        at_ms: u64,
    ) {
        let text = |tag| message.get(tag).to_owned();
        let keys = Keys {
            account: text(1),
            session: session.to_owned(),
            symbol: text(55),
            side: message.get(54).chars().next().unwrap_or('1'),
        };
        let fits = |at: &usize| budgets[*at].binds(&keys);
        let order = Order {
            client,
            id: text(11),
            is_market: message.get(40) == "1",
            price: if message.get(40) == "1" {
                usual(&keys.symbol)
            } else {
                price(message.get(44))
            },
            quantity: message.get(38).parse().unwrap_or(0),
            is_open: true,
            legs: (0..budgets.len()).filter(fits).collect(),
            executions: Vec::new(),
            is_busted: false,
            last: String::new(),
            keys,
        };
        let at = self.orders.len();
        self.ids.insert(order.id.clone(), Some(at));
        self.orders.push(order);
        self.counts.orders += 1;
        match self.random.below(100) {
            0..6 => {
                self.counts.rejected += 1;
                self.orders[at].is_open = false;
                self.report(at, "150=8|39=8|103=0|58=not today|");
            }
            6..80 => {
                self.report(at, "150=0|39=0|");
                self.step_later(at, at_ms);
            }
            _ => {
                self.fill(at, false);
                self.step_later(at, at_ms);
            }
        }
    }

    fn change(&mut self, message: &Message, client: usize, is_replace: bool) {
        let (id, original) = (message.get(11).to_owned(), message.get(41).to_owned());
        let found = self.ids.get(&original).copied().flatten();
        let quantity: i64 = message.get(38).parse().unwrap_or(0);
        let takes = self.is_closing || self.random.below(100) < 85;
        let open = found.filter(|at| self.orders[*at].is_open && takes);
        let fits = |at: &usize| !is_replace || quantity > self.orders[*at].cum();
        let Some(at) = open.filter(fits) else {
            self.ids.insert(id.clone(), None);
            self.counts.rejected += 1;
            let (status, number) = match found {
                Some(at) if self.orders[at].is_open => ("1", format!("V{at}")),
                Some(at) => ("4", format!("V{at}")),
                None => ("8", "NONE".into()),
            };
            let (what, reason) =
                (if is_replace { 2 } else { 1 }, if found.is_some() { 0 } else { 1 });
            let body =
                format!("11={id}|37={number}|39={status}|41={original}|102={reason}|434={what}|");
            self.send("9", client, body);
            return;
        };
        let orig = format!("41={}|", self.orders[at].id);
        if self.random.below(10) == 0 {
            let (pending, status) = if is_replace { ("E", "E") } else { ("6", "6") };
            self.report_as(at, &id, &format!("{orig}150={pending}|39={status}|"));
        }
        self.ids.insert(id.clone(), Some(at));
        let order = &mut self.orders[at];
        order.id = id;
        if is_replace {
            self.counts.replaced += 1;
            (order.quantity, order.price) = (quantity, price(message.get(44)));
            let size = format!("38={quantity}|44={}|", message.get(44));
            self.report(at, &format!("{orig}150=5|39=1|{size}"));
        } else {
            self.counts.cancelled += 1;
            order.is_open = false;
            self.report(at, &format!("{orig}150=4|39=4|"));
            self.step_later(at, 0);
        }
    }

    fn step_later(&mut self, at: usize, at_ms: u64) {
        let wait = self.random.below(STEP_MS_MAX);
        self.due.push(Reverse((at_ms + wait, at)));
    }

    /// Takes the next step of each order whose time has come.
    pub(super) fn turn(&mut self, budgets: &[Budget], at_ms: u64) {
        while let Some(Reverse((_, at))) = self.due.peek().filter(|one| one.0.0 <= at_ms).copied() {
            self.due.pop();
            if !self.is_closing {
                self.step(at, budgets, at_ms);
            }
        }
    }

    fn step(&mut self, at: usize, budgets: &[Budget], at_ms: u64) {
        let (draw, order) = (self.random.below(100), &self.orders[at]);
        let may_fill = order.leaves() > 0 && !order.is_busted;
        match draw {
            0..8 if order.is_open => self.swap(at),
            0..60 if may_fill => self.fill(at, false),
            60..68 => self.amend(at, budgets, at_ms, true),
            68..76 => self.amend(at, budgets, at_ms, false),
            76..84 => self.repeat(at),
            84..90 if order.is_open => self.end(at),
            // A closed one is executed once more now and then: the report crossed with the cancel.
            0..20
                if !order.is_open
                    && order.quantity > order.cum()
                    && !order.executions.is_empty() =>
            {
                self.fill(at, true);
                let late = self.orders[at]
                    .executions
                    .last()
                    .map_or((0, 0), |one| (one.quantity, one.price));
                self.go_beyond(at, budgets, late);
            }
            _ => return,
        }
        if self.orders[at].is_open || draw % 2 == 0 {
            self.step_later(at, at_ms);
        }
    }

    /// What the budgets of an order may have more than their limits, because of this.
    fn go_beyond(&mut self, at: usize, budgets: &[Budget], (quantity, price): (i64, i64)) {
        let money = i128::from(quantity) * i128::from(price);
        for leg in &self.orders[at].legs {
            self.beyond[*leg] += budgets[*leg].amount((quantity, money));
        }
    }

    /// Executes some of an order, at its price or below.
    fn fill(&mut self, at: usize, is_late: bool) {
        let what = self.execute(at, is_late);
        self.report(at, &what);
    }

    fn execute(&mut self, at: usize, is_late: bool) -> String {
        self.executions += 1;
        self.counts.fills += 1;
        self.counts.late_fills += u64::from(is_late);
        let (id, order) = (self.executions, &mut self.orders[at]);
        let left = order.quantity - order.cum();
        let lots = (left / 100).max(1);
        let all = self.random.below(100) < 35;
        let quantity = if all { left } else { (100 * self.random.between(1, lots)).min(left) };
        let better = if order.keys.side == '1' { self.random.between(0, 40) } else { 0 };
        let price = order.price - better.min(order.price - 1);
        order.executions.push(Execution { ids: [id; 2], quantity, price, is_late, amended_ms: 0 });
        let status = match order.quantity - order.cum() {
            _ if is_late => '4',
            0 => '2',
            _ => '1',
        };
        order.is_open &= status == '1';
        format!("150=F|39={status}|32={quantity}|31={}|17=E{id}|", shown(price))
    }

    /// Executes an order twice, and reports the second execution first, where AvgPx (6) can say exactly what it all cost.
    fn swap(&mut self, at: usize) {
        let order = &self.orders[at];
        if order.leaves() < 200 || order.is_busted {
            return;
        }
        let what = self.execute(at, false);
        let first = self.body(at, None, &what);
        if !self.orders[at].is_open {
            return self.send("8", self.orders[at].client, first);
        }
        let what = self.execute(at, false);
        let second = self.body(at, None, &what);
        let order = &self.orders[at];
        let (client, (cum, money)) = (order.client, order.executed(false));
        if money * PRICE_UNITS % i128::from(cum) == 0 {
            self.counts.swapped += 1;
            self.send("8", client, second);
            self.send("8", client, first);
        } else {
            self.send("8", client, first);
            self.send("8", client, second);
        }
    }

    /// Takes an execution back, or gives it a lower price.
    fn amend(&mut self, at: usize, budgets: &[Budget], at_ms: u64, is_bust: bool) {
        let (order, draw) = (&self.orders[at], self.random.bits());
        let live: Vec<usize> =
            (0..order.executions.len()).filter(|one| order.executions[*one].quantity > 0).collect();
        if live.is_empty() || (order.is_open && !order.has_exact_hold()) {
            return;
        }
        let one = live[usize::try_from(draw % 64).unwrap_or(0) % live.len()];
        self.executions += 1;
        let (id, order) = (self.executions, &mut self.orders[at]);
        let execution = &mut order.executions[one];
        // Of two corrections that name the same execution the later counts, by TransactTime (60): within a millisecond one names the other.
        let is_apart = at_ms > execution.amended_ms + 1;
        let named = execution.ids[usize::from(draw & 64 > 0 || !is_apart)];
        (execution.ids[1], execution.amended_ms) = (id, at_ms);
        let (quantity, before) = (execution.quantity, execution.price);
        let price = if is_bust { before } else { (before - 1 - i64::from(draw & 128 > 0)).max(1) };
        execution.price = price;
        if is_bust {
            execution.quantity = 0;
            order.is_busted |= order.is_open;
            self.counts.busts += 1;
            // What it cost is free, and what it may cost is held again.
            let dearer = if order.is_open { order.price - before } else { 0 };
            self.go_beyond(at, budgets, (quantity, dearer));
        } else {
            self.counts.corrections += 1;
        }
        let order = &self.orders[at];
        let status = if order.is_open { '1' } else { '4' };
        let what = if is_bust { 'H' } else { 'G' };
        let price = shown(price);
        self.report(
            at,
            &format!("150={what}|39={status}|32={quantity}|31={price}|19=E{named}|17=E{id}|"),
        );
    }

    /// Ends an order that nobody cancelled.
    fn end(&mut self, at: usize) {
        self.counts.ended += 1;
        self.orders[at].is_open = false;
        let how = ["150=4|39=4|", "150=C|39=C|", "150=3|39=3|"];
        let how = how[usize::try_from(self.random.below(3)).unwrap_or(0)];
        self.report(at, how);
    }

    /// Sends the last report of an order again.
    fn repeat(&mut self, at: usize) {
        let body = self.orders[at].last.clone();
        if !body.is_empty() {
            self.counts.reports_twice += 1;
            self.reports.push((self.orders[at].client, body.clone()));
            self.peer.send("8", format!("97=Y\x01{body}"));
        }
    }

    fn report(&mut self, at: usize, what: &str) {
        let body = self.body(at, None, what);
        self.send("8", self.orders[at].client, body);
    }

    fn report_as(&mut self, at: usize, id: &str, what: &str) {
        let body = self.body(at, Some(id), what);
        self.send("8", self.orders[at].client, body);
    }

    fn body(&mut self, at: usize, id: Option<&str>, what: &str) -> String {
        let order = &self.orders[at];
        let money: i128 = [false, true].iter().map(|is_late| order.executed(*is_late).1).sum();
        let (cum, id) = (order.cum(), id.unwrap_or(&order.id));
        let average = (money * PRICE_UNITS).checked_div(i128::from(cum)).unwrap_or(0);
        let scale = PRICE_UNITS * PRICE_UNITS;
        let execution = if what.contains("17=") {
            String::new()
        } else {
            self.executions += 1;
            format!("17=E{}|", self.executions)
        };
        let Keys { symbol, side, .. } = &order.keys;
        let sums = format!(
            "14={cum}|151={}|6={}.{:08}|",
            order.leaves(),
            average / scale,
            average % scale
        );
        format!("11={id}|37=V{at}|{execution}{what}55={symbol}|54={side}|{sums}")
    }

    /// Sends a report that says with a number of its own that it is the venue's.
    fn send(&mut self, kind: &'static str, client: usize, body: String) {
        self.sent += 1;
        let body = format!("{body}60={}|9999={}|", now(), self.sent).replace('|', "\x01");
        if kind == "8"
            && let Some(Some(at)) = self.ids.get(body[3..].split('\x01').next().unwrap_or(""))
        {
            self.orders[*at].last.clone_from(&body);
        }
        self.peer.send(kind, body.clone());
        self.reports.push((client, body));
    }
}

/// Returns what one of a symbol usually costs: 10 to 109.
pub(super) fn usual(symbol: &str) -> i64 {
    10_000 * (10 + i64::from(symbol.bytes().map(u32::from).sum::<u32>() % 100))
}

/// Returns a price in parts; 0 of what is none.
fn price(text: &str) -> i64 {
    let (ones, parts) = text.split_once('.').unwrap_or((text, ""));
    let number = |text: &str| text.parse::<i64>().unwrap_or(0);
    number(ones) * 10_000 + number(&format!("{parts:0<4}")[..4])
}

/// Writes a price.
pub(super) fn shown(price: i64) -> String {
    format!("{}.{:04}", price / 10_000, price % 10_000)
}
