//! A client: it sends orders, replaces and cancels by seed, and knows of each what became of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use super::budgets::Budget;
use super::peer::{Message, Peer, now};
use super::venue::{shown, usual};
use crate::random::Random;

/// Open orders of a client: with more it cancels.
const OPEN_MAX: usize = 200;

/// An order that is open, as far as its client knows.
#[derive(Debug)]
struct Open {
    /// ClOrdID of the version in force, and of the last that was sent.
    id: String,
    last: String,
    account: String,
    symbol: String,
    side: char,
    is_market: bool,
    quantity: i64,
}

/// A message that has no answer yet.
#[derive(Debug)]
struct Unanswered {
    body: String,
    at: Instant,
    is_at_venue: bool,
}

/// What was sent, and what the node refused: by what it said, without the figures.
#[derive(Debug, Default)]
pub(super) struct TraderCounts {
    pub(super) orders: u64,
    pub(super) replaces: u64,
    pub(super) cancels: u64,
    pub(super) refused: BTreeMap<String, u64>,
}

/// A client with its end of a session.
#[derive(Debug)]
pub(super) struct Trader {
    pub(super) name: String,
    pub(super) peer: Peer,
    /// What ClOrdIDs begin with.
    ids: String,
    count: u64,
    random: Random,
    accounts: Vec<String>,
    symbols: Vec<String>,
    open: Vec<Open>,
    /// By ClOrdID.
    waiting: HashMap<String, Unanswered>,
    /// Reports of the venue that have not arrived.
    pub(super) expected: VecDeque<String>,
    pub(super) counts: TraderCounts,
}

impl Trader {
    pub(super) fn new(
        name: &str,
        peer: Peer,
        ids: String,
        budgets: &[Budget],
        (seed, number): (u64, usize),
    ) -> Trader {
        let all = |of: fn(&Budget) -> &String| {
            let mut found: Vec<String> =
                budgets.iter().map(of).filter(|text| !text.is_empty()).cloned().collect();
            found.sort();
            found.dedup();
            found
        };
        let or = |found: Vec<String>, other: &str| {
            if found.is_empty() { vec![other.to_owned()] } else { found }
        };
        Trader {
            name: name.to_owned(),
            peer,
            ids,
            count: 0,
            random: Random::new(seed, number as u64),
            accounts: or(all(|budget| &budget.account), "A1"),
            symbols: or(all(|budget| &budget.symbol), "ACME"),
            open: Vec::new(),
            waiting: HashMap::new(),
            expected: VecDeque::new(),
            counts: TraderCounts::default(),
        }
    }

    pub(super) fn may_send(&self, depth: usize) -> bool {
        self.peer.is_logged_on && self.waiting.len() < depth
    }

    /// Is nothing on its way any more?
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.expected.is_empty()
            && self.open.iter().all(Open::has_exact_hold)
    }

    /// Sends the next message.
    pub(super) fn act(&mut self) {
        let draw = self.random.below(100);
        let one = usize::try_from(self.random.below(self.open.len() as u64)).unwrap_or(0);
        match draw {
            _ if self.open.len() > OPEN_MAX => self.cancel(one),
            85.. if !self.open.is_empty() => self.cancel(one),
            68.. if self.open.get(one).is_some_and(|open| !open.is_market) => self.replace(one),
            _ => self.order(),
        }
    }

    /// Cancels what is held at a price that only the node knows, so that what is left can be compared.
    pub(super) fn wind_up(&mut self) {
        if self.waiting.is_empty()
            && let Some(one) = self.open.iter().position(|open| !open.has_exact_hold())
        {
            self.cancel(one);
        }
    }

    fn pick(&mut self, of: fn(&Trader) -> &Vec<String>) -> String {
        let at = usize::try_from(self.random.below(of(self).len() as u64)).unwrap_or(0);
        of(self)[at].clone()
    }

    fn next_id(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.ids, self.count)
    }

    fn order(&mut self) {
        self.counts.orders += 1;
        let (id, draw) = (self.next_id(), self.random.below(100));
        let (account, symbol) = (self.pick(|one| &one.accounts), self.pick(|one| &one.symbols));
        let side = ['1', '1', '1', '2', '5'][usize::try_from(draw % 5).unwrap_or(0)];
        let is_market = draw < 5;
        // One in a hundred is far too large.
        let lots = self.random.between(1, 10) * if draw == 99 { 100_000 } else { 1 };
        let (quantity, price) = (100 * lots, self.price(&symbol));
        let kind = if is_market { "40=1|".into() } else { format!("40=2|44={}|", shown(price)) };
        let open = Open { last: id.clone(), id, account, symbol, side, is_market, quantity };
        self.send("D", &open, &format!("{kind}38={quantity}|21=1|"), "");
        self.open.push(open);
    }

    /// A price within two percent of the usual one.
    fn price(&mut self, symbol: &str) -> i64 {
        let usual = usual(symbol);
        usual + self.random.between(-usual / 50, usual / 50)
    }

    fn replace(&mut self, one: usize) {
        self.counts.replaces += 1;
        let symbol = self.open[one].symbol.clone();
        let (price, id) = (self.price(&symbol), self.next_id());
        let quantity = match self.random.below(10) {
            0 => self.open[one].quantity * 1_000,
            _ => (self.open[one].quantity + 100 * self.random.between(-3, 6)).max(100),
        };
        let original = std::mem::replace(&mut self.open[one].last, id);
        let more = format!("40=2|44={}|38={quantity}|21=1|", shown(price));
        self.send_of(one, "G", &more, &original);
    }

    fn cancel(&mut self, one: usize) {
        self.counts.cancels += 1;
        let (original, id) = (self.open[one].last.clone(), self.next_id());
        let before = std::mem::replace(&mut self.open[one].last, id);
        let more = format!("38={}|", self.open[one].quantity);
        self.send_of(one, "F", &more, &original);
        // A replace that follows names the order, not its cancel.
        self.open[one].last = before;
    }

    fn send_of(&mut self, one: usize, kind: &'static str, more: &str, original: &str) {
        let open = self.open.swap_remove(one);
        self.send(kind, &open, more, &format!("41={original}|"));
        self.open.push(open);
        let last = self.open.len() - 1;
        self.open.swap(one, last);
    }

    fn send(&mut self, kind: &'static str, open: &Open, more: &str, original: &str) {
        let Open { last: id, account, symbol, side, .. } = open;
        let body =
            format!("11={id}|{original}1={account}|55={symbol}|54={side}|{more}60={}|", now());
        let body = body.replace('|', "\x01");
        let sent = Unanswered { body: body.clone(), at: Instant::now(), is_at_venue: false };
        self.waiting.insert(id.clone(), sent);
        self.peer.send(kind, body);
    }

    /// The venue has a message of this client. Returns how long that took.
    ///
    /// # Errors
    /// In words: it is not the one that was sent.
    pub(super) fn arrived(&mut self, message: &Message) -> Result<u64, String> {
        let shown = || message.shown();
        let Some(sent) = self.waiting.get_mut(message.get(11)) else {
            return Err(format!("the venue got what was refused, or never sent: {}", shown()));
        };
        if sent.body != message.body() {
            return Err(format!("sent {:?}, the venue got {:?}", sent.body, message.body()));
        }
        sent.is_at_venue = true;
        Ok(u64::try_from(sent.at.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Takes a message of the node.
    ///
    /// # Errors
    /// In words: it should not have come.
    pub(super) fn take(&mut self, message: &Message) -> Result<(), String> {
        let kind = message.get(35);
        if message.get(9_999).is_empty() {
            return self.refused(message);
        }
        let expected = self.expected.pop_front();
        if expected.as_deref() != Some(message.body()) {
            return Err(format!("{}: expected {expected:?}, got {}", self.name, message.shown()));
        }
        let (id, original) = (message.get(11), message.get(41));
        self.waiting.remove(id);
        let found = self.open.iter().position(|open| {
            [&open.id, &open.last].iter().any(|own| *own == id || *own == original)
        });
        let Some(one) = found else { return Ok(()) };
        let open = &mut self.open[one];
        match (kind, message.get(150), message.get(39)) {
            ("9", _, _) if open.last == id => open.last.clone_from(&open.id),
            ("8", "5", _) => {
                open.id = id.to_owned();
                open.quantity = message.get(38).parse().unwrap_or(0);
            }
            ("8", _, "2" | "3" | "4" | "8" | "C") => drop(self.open.swap_remove(one)),
            _ => {}
        }
        Ok(())
    }

    /// An answer of the node itself.
    fn refused(&mut self, message: &Message) -> Result<(), String> {
        // A j names the order in 379; 150=I says how an order stands that came again.
        let id = if message.get(35) == "j" { message.get(379) } else { message.get(11) };
        if message.get(150) == "I" {
            return Ok(());
        }
        match self.waiting.remove(id) {
            Some(sent) if !sent.is_at_venue => {}
            _ => return Err(format!("refused and passed on, or never sent: {}", message.shown())),
        }
        let text = message.get(58).split(|byte: char| byte.is_ascii_digit() || byte == '.');
        let text = text.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("N");
        *self.counts.refused.entry(text).or_default() += 1;
        self.open.retain(|open| open.id != id);
        if let Some(open) = self.open.iter_mut().find(|open| open.last == id) {
            open.last.clone_from(&open.id);
        }
        Ok(())
    }

    /// What has not been answered, and what has not arrived.
    pub(super) fn lost(&self) -> Vec<String> {
        let sent = self.waiting.iter().map(|(id, sent)| {
            let place =
                if sent.is_at_venue { "the venue has it" } else { "the venue does not have it" };
            format!("{}: {id} has no answer; {place}", self.name)
        });
        let bodies = self.expected.iter().map(|body| {
            format!("{}: a report did not arrive: {}", self.name, body.replace('\x01', "|"))
        });
        sent.chain(bodies).take(10).collect()
    }
}

impl Open {
    fn has_exact_hold(&self) -> bool {
        self.side == '1' && !self.is_market
    }
}
