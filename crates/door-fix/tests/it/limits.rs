//! Orders that are held against budgets: a client A and a client B, their venue, and the ledger's bank.

mod doubts;
mod prices;

use std::collections::VecDeque;
use std::sync::Arc;

use door_fix::{
    Checks, Compared, FixSessions, Limits, Route, SessionSpec, ToLedger, VenueSpec, compare,
};
use fix_session::{MessageStore, MessageStores};
use fix_store::{FileStores, NumbersFile, Options};
use ledger::{Bank, Line, NamedAnswer, NamedRefusal, Out};
use weir_budgets::budgets;
use weir_budgets::orders::Bindings;

use crate::desk::{Desk, START_UNIX_MS};

const BUDGETS: &str = r#"{"id":1,"limit":"1000","orders":{"account":"A1"}}
{"id":2,"limit":"1500","orders":{"firm":"ACME"}}
{"id":3,"unit":"count","limit":"500","orders":{"symbol":"X","side":"sell"}}
{"id":4,"limit":"100","orders":{"session":"B","symbol":"EU"},"unit":"EUR"}
{"id":5,"limit":"300","orders":{"symbol":"P"}}
{"id":6,"limit":"1000","parent":5,"orders":{"account":"P1"}}
"#;
/// The sessions, by number.
const NAMES: [&str; 3] = ["A", "B", "VENUE"];
pub(crate) const VENUE: usize = 2;

pub(crate) struct Gate {
    root: tempfile::TempDir,
    pub(crate) desk: Desk<FileStores<NumbersFile>>,
    bank: Bank,
    /// Connections and next numbers of the sessions.
    pub(crate) lines: [usize; 3],
    seqs: [u64; 3],
    /// What the ledger has not answered.
    asked: VecDeque<ToLedger>,
    pub(crate) is_slow: bool,
    /// What it answers to all.
    refuses: Option<NamedRefusal>,
    /// What a start would say, doubt and leave unsaid: whether the files are older than the journal, which start of the machine it is, how many of each.
    doubts: Vec<(bool, u32, [usize; 3])>,
    /// What each session got.
    pub(crate) got: [String; 3],
}

fn sessions(version: &str) -> (Vec<SessionSpec>, Vec<VenueSpec>) {
    let clients = ["A", "B"].map(|name| {
        let mut client = SessionSpec::new(version, "GATE", name);
        (client.limits, client.firm) = (Some(Limits::Budgets), "ACME".into());
        (client.route, client.keys.validation) = (Route::Venue("VENUE".into()), Checks::Off);
        (client.unpriced, client.refuses_sales) = (vec!["AB".into()], name == "B");
        client.cancel_on_disconnect_s = if name == "A" { 10 } else { 0 };
        if name == "B" {
            let max = |number| fix::Decimal::new(number, 0);
            (client.caps.value_max, client.caps.quantity_max) = (max(1_000), max(600));
            client.caps.restricted = vec!["BAD".into()];
        }
        client
    });
    let mut venue = VenueSpec::new(version, "GATE", "VENUE");
    venue.keys.durability = fix_store::Durability::Written;
    (clients.into(), vec![venue])
}

fn desk(root: &std::path::Path, version: &'static str) -> Desk<FileStores<NumbersFile>> {
    let (clients, venues) = sessions(version);
    let config = FixSessions::new(clients.clone(), venues.clone()).unwrap();
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    let mut desk = Desk::passing(version, clients, venues, stores, ());
    let lines = budgets::file_of("b.jsonl".as_ref(), BUDGETS.as_bytes()).unwrap().lines;
    let all: Vec<_> = lines.into_iter().map(|line| line.budget).collect();
    let mut bindings = Bindings::default();
    let parent = |id| all.iter().find(|one| one.spec.id == id).and_then(|one| one.spec.parent);
    bindings.replace(&all, parent);
    desk.door.set_orders(Arc::clone(bindings.index()));
    desk.door.set_boot(1);
    desk
}

impl Gate {
    pub(crate) fn new(version: &'static str) -> Gate {
        let root = tempfile::tempdir().unwrap();
        let (mut bank, mut out) = (Bank::new(ledger::Options::default()), Out::default());
        let lines = budgets::file_of("b.jsonl".as_ref(), BUDGETS.as_bytes()).unwrap().lines;
        let specs: Vec<_> = lines.into_iter().map(|line| line.budget.spec).collect();
        bank.start_run(START_UNIX_MS.cast_unsigned(), &mut out);
        bank.configure(&specs, &mut out).unwrap();
        let desk = desk(root.path(), version);
        let (asked, got) = (VecDeque::new(), Default::default());
        let mut gate = Gate {
            root,
            desk,
            bank,
            lines: [0; 3],
            seqs: [1; 3],
            asked,
            is_slow: false,
            refuses: None,
            doubts: Vec::new(),
            got,
        };
        (0..3).for_each(|at| gate.log_on(at));
        gate.got = Default::default();
        gate
    }

    pub(crate) fn log_on(&mut self, at: usize) {
        self.lines[at] = if at == VENUE { self.desk.dial_to(VENUE).0 } else { self.desk.connect() };
        self.says(at, "35=A|98=0|108=30|");
    }

    /// A session says something under its next number, and the ledger answers what that asks.
    pub(crate) fn says(&mut self, at: usize, text: &str) {
        self.says_as(at, self.seqs[at], text);
        self.seqs[at] += 1;
    }

    fn says_as(&mut self, at: usize, seq: u64, text: &str) {
        let (kind, rest) = text.split_once('|').unwrap();
        let text = format!("{kind}|34={seq}|49={}|{rest}", NAMES[at]);
        let now = self.desk.gets_first(self.lines[at], &text);
        self.got[at] += &now;
        self.turn();
    }

    /// What steps did is flushed, what they have leaves, and the ledger answers.
    pub(crate) fn turn(&mut self) {
        loop {
            for (line, text) in self.desk.flush() {
                let at = self.lines.iter().position(|one| *one == line).unwrap();
                self.got[at] += &text;
            }
            self.asked.extend(self.desk.door.take_says());
            if self.is_slow || self.asked.is_empty() {
                return;
            }
            self.answer();
        }
    }

    /// The ledger answers the oldest message.
    fn answer(&mut self) {
        let Some((number, says)) = self.asked.pop_front() else { return };
        let mut out = Out::default();
        let answers: Vec<NamedAnswer> = says
            .into_iter()
            .map(|mut say| match self.refuses {
                Some(refusal) => Err(refusal),
                None => self.bank.take_named(ledger::Door::Fix, &mut say, &mut out),
            })
            .collect();
        self.desk.door.answered(number, &answers, self.desk.clock);
        self.bank.audit().unwrap();
    }

    /// Ends its connection.
    pub(crate) fn leaves(&mut self, at: usize) {
        self.desk.drop_line(self.lines[at]);
        self.turn();
    }

    /// What a session got since this was asked last, without the fields that change with time.
    pub(crate) fn took(&mut self, at: usize) -> String {
        let got = std::mem::take(&mut self.got[at]);
        let is_kept = |field: &&str| {
            !["34=", "17=GATE", "60=", "122="].iter().any(|tag| field.starts_with(tag))
        };
        got.split_terminator('|')
            .filter(is_kept)
            .fold(String::new(), |text, field| text + field + "|")
    }

    /// Its process is killed and started again: what nobody answered is lost, and what the ledger has is compared with the book.
    fn after_a_kill(self, version: &'static str) -> Gate {
        self.after_a_kill_with(version, |_| {})
    }

    /// The same, and its door is told something before anybody is let in.
    pub(crate) fn after_a_kill_with(
        mut self,
        version: &'static str,
        tell: impl FnOnce(&mut door_fix::Door<FileStores<NumbersFile>, ()>),
    ) -> Gate {
        // The folder is locked as long as the stores are there.
        drop(self.desk);
        self.desk = desk(self.root.path(), version);
        tell(&mut self.desk.door);
        let (clients, venues) = sessions(version);
        let config = FixSessions::new(clients, venues).unwrap();
        for (is_behind, boot, expected) in std::mem::take(&mut self.doubts) {
            let Compared { says, doubtful, unsaid } = self.compared(&config, is_behind, boot);
            assert_eq!([says.len(), doubtful.len(), unsaid.len()], expected, "{is_behind} {boot}");
        }
        let Compared { says, doubtful, unsaid } = self.compared(&config, false, 1);
        assert_eq!((doubtful.len(), unsaid.len()), (0, 0));
        let mut out = Out::default();
        for mut say in says {
            self.bank.take_named(ledger::Door::Fix, &mut say, &mut out).unwrap();
        }
        self.bank.audit().unwrap();
        self.asked.clear();
        (0..3).for_each(|at| self.log_on(at));
        self
    }

    fn compared(&mut self, config: &FixSessions, is_behind: bool, boot: u32) -> Compared {
        let (stores, holds) = (self.desk.door.stores(), self.bank.named_holds());
        compare(config, stores, |_, _| is_behind, holds, boot)
    }

    /// The lines of a budget's books that are not 0, in units; what lies in purses is free.
    pub(crate) fn books(&self, id: u64) -> String {
        let slot = self.bank.slot(id).unwrap();
        let (unit, books) = (self.bank.spec(slot).unit, self.bank.books(slot));
        let free = books.line(Line::Free).get() + books.line(Line::Purses).get();
        let mut text = format!("free {}", unit.format(ledger::Amount::new(free)));
        for line in std::iter::once(Line::Held).chain(Line::SPENT) {
            let amount = books.line(line);
            if amount.get() != 0 {
                text += &format!(", {} {}", line.name(), unit.format(amount));
            }
        }
        text
    }
}

/// An order of an account: its id, quantity and price.
pub(crate) fn order(account: &str, id: &str, quantity: u32, price: &str) -> String {
    format!("35=D|11={id}|1={account}|38={quantity}|40=2|44={price}|54=1|55=X|")
}

#[test]
fn a_limit_holds_over_all_sessions_and_each_leg_of_an_order_or_none() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 60, "10"));
    assert_eq!(gate.took(VENUE), order("A1", "a", 60, "10"));
    assert_eq!(
        [1, 2].map(|id| gate.books(id)),
        ["free 400.00, held 600.00", "free 900.00, held 600.00"]
    );
    gate.says(1, &order("B1", "b", 95, "10"));
    let refused = "35=8|6=0|11=b|14=0|37=NONE|38=95|39=8|44=10|54=1|55=X|58=budget 2: limit; 876.5625 USD left|103=3|150=8|151=0|";
    assert_eq!(gate.took(1), refused);
    // One of its budgets has room, the other has not.
    gate.says(0, &order("A1", "c", 41, "10"));
    assert!(gate.took(0).contains("|58=budget 1: limit; 384.375 USD left|103=3|"));
    assert_eq!(gate.books(2), "free 900.00, held 600.00");
    // A 64th of what was free is in a worker's purse, and comes back when an order needs it.
    // Two that ask at once.
    gate.is_slow = true;
    gate.says(0, &order("A2", "d", 50, "10"));
    gate.says(1, &order("B1", "e", 50, "10"));
    assert_eq!((gate.took(VENUE), gate.asked.len()), (String::new(), 2));
    gate.is_slow = false;
    gate.turn();
    assert_eq!(gate.took(VENUE), order("A2", "d", 50, "10"));
    assert!(gate.took(1).contains("|11=e|") && gate.took(0).is_empty());
    assert_eq!(gate.books(2), "free 400.00, held 1100.00");
}

/// A budget and its parent both bind the order.
#[test]
fn an_order_is_held_once_in_a_budget_above_its_own_and_keeps_its_limit() {
    let mut gate = Gate::new("FIX.4.4");
    let order = |id, quantity| order("P1", id, quantity, "10").replace("55=X", "55=P");
    gate.says(0, &order("a", 20));
    let held = [2, 5, 6].map(|id| gate.books(id));
    assert_eq!(
        held,
        ["free 1300.00", "free 100.00", "free 800.00"].map(|free| format!("{free}, held 200.00"))
    );
    gate.says(0, &order("b", 11));
    assert!(gate.took(0).contains("|11=b|14=0|37=NONE|38=11|39=8|"));
    assert_eq!([2, 5, 6].map(|id| gate.books(id)), held);
}

#[test]
fn later_messages_of_a_session_wait_behind_an_order_and_administrative_ones_do_not() {
    let mut gate = Gate::new("FIX.4.4");
    gate.is_slow = true;
    gate.says(0, &order("A1", "a", 5, "10"));
    gate.says(0, &order("A1", "b", 6, "10"));
    gate.says(0, "35=F|11=c|41=a|54=1|55=X|");
    gate.says(0, "35=1|112=here|");
    assert_eq!((gate.took(0).as_str(), gate.took(VENUE).as_str()), ("35=0|112=here|", ""));
    // Another session does not wait for it.
    gate.says(1, "35=F|11=x|41=y|54=1|55=X|");
    assert_eq!(gate.took(VENUE), "35=F|11=x|41=y|54=1|55=X|");
    // The second is answered first, and leaves behind the first.
    gate.asked.swap(0, 1);
    gate.answer();
    gate.turn();
    assert_eq!(gate.took(VENUE), "");
    gate.answer();
    gate.turn();
    let cancel = "35=F|11=c|41=a|54=1|55=X|";
    let all = [order("A1", "a", 5, "10"), order("A1", "b", 6, "10"), cancel.into()].concat();
    assert_eq!((gate.took(VENUE), gate.took(0)), (all, String::new()));
    assert_eq!(gate.books(1), "free 890.00, held 110.00");
}

#[test]
fn an_order_that_gets_no_answer_is_refused_and_a_late_grant_comes_back() {
    let mut gate = Gate::new("FIX.4.4");
    gate.is_slow = true;
    gate.says(0, &order("A1", "a", 5, "10"));
    gate.says(0, "35=F|11=c|41=x|54=1|55=X|");
    let line = gate.lines[0];
    assert_eq!(gate.desk.waits(line, 1_999), "");
    gate.got[0] = gate.desk.waits(line, 1);
    gate.turn();
    assert!(
        gate.took(0).contains("|58=the limits were not checked in time, or the order changed meanwhile; send it again|103=99|")
    );
    assert_eq!(gate.took(VENUE), "35=F|11=c|41=x|54=1|55=X|");
    gate.answer();
    assert_eq!(gate.books(1), "free 950.00, held 50.00");
    gate.is_slow = false;
    gate.turn();
    assert_eq!((gate.books(1), gate.took(VENUE)), ("free 1000.00".into(), String::new()));
    assert!(!gate.desk.door.has_sayings());
}

#[test]
fn a_session_of_which_1024_messages_wait_is_read_no_further_for_2_s_at_most() {
    let mut gate = Gate::new("FIX.4.4");
    gate.is_slow = true;
    let line = gate.lines[0];
    let is_full = |gate: &Gate| gate.desk.door.is_full(gate.desk.lines[line].as_ref().unwrap());
    for id in 0..1_024 {
        assert!(!is_full(&gate));
        gate.says(0, &order("A1", &id.to_string(), 1, "0.5"));
    }
    assert!(is_full(&gate));
    // The transport ticks who is not read as it ticks others.
    gate.got[0] = gate.desk.waits(line, 2_000);
    gate.turn();
    assert!(!is_full(&gate));
    assert_eq!(gate.took(0).matches("|58=the limits were not checked in time").count(), 1_024);
    gate.is_slow = false;
    gate.turn();
    assert_eq!((gate.took(VENUE), gate.books(1)), (String::new(), "free 1000.00".into()));
    assert!(!gate.desk.door.has_sayings());
}

/// The book of the venue has no room for more of this step.
fn fill_book(gate: &mut Gate) {
    fill(gate.desk.door.stores().book(VENUE).unwrap().unwrap(), 0);
}

/// A store that has no room for more of this step.
fn fill(store: &mut impl MessageStore, left: usize) {
    let _ = store.put(&vec![0; (256 << 20) + 1 - left]);
}

/// Nothing leaves of what one of the stores cannot keep, not even where only the row of an order finds no room, and what was granted comes back.
#[test]
fn an_order_that_cannot_be_kept_does_not_leave() {
    for fault in ["client", "client, while it waits", "venue", "book", "row"] {
        let mut gate = Gate::new("FIX.4.4");
        gate.is_slow = true;
        let first = gate.seqs[0];
        gate.says(0, &order("A1", "a", 5, "10"));
        gate.says(0, &order("A1", "b", 6, "10"));
        let stores = gate.desk.door.stores();
        match fault {
            "venue" => fill(stores.store(VENUE), 0),
            "book" => fill_book(&mut gate),
            "row" => fill(stores.book(VENUE).unwrap().unwrap(), 64),
            _ => fill(stores.store(0), 0),
        }
        if fault == "client, while it waits" {
            gate.says(0, "35=1|112=here|");
        }
        gate.is_slow = false;
        gate.turn();
        let logout = "35=5|58=Message store not available|";
        assert_eq!(gate.took(0), logout, "{fault}");
        let of_venue = if fault.starts_with("client,") { "" } else { logout };
        assert_eq!(gate.took(VENUE), of_venue, "{fault}");
        assert_eq!(gate.books(1), "free 1000.00", "{fault}");
        assert!(!gate.desk.door.has_sayings(), "{fault}");
        // The client sends both again once they can be kept.
        if !of_venue.is_empty() {
            gate.seqs[VENUE] = 2;
            gate.log_on(VENUE);
        }
        gate.seqs[0] = first + 2;
        gate.log_on(0);
        assert!(gate.took(0).ends_with(&format!("35=2|7={first}|16=0|")), "{fault}");
        let again = format!("43=Y|122={}|", gate.desk.time(0));
        gate.took(VENUE);
        gate.says_as(0, first, &(order("A1", "a", 5, "10") + &again));
        gate.says_as(0, first + 1, &(order("A1", "b", 6, "10") + &again));
        let both = [order("A1", "a", 5, "10"), order("A1", "b", 6, "10")].concat();
        assert_eq!(gate.took(VENUE).replace("97=Y|", ""), both, "{fault}");
        assert_eq!(gate.books(1), "free 890.00, held 110.00", "{fault}");
    }
}

/// The clock is as it was at the start before: no two orders have one key.
#[test]
fn orders_of_two_starts_have_holds_of_their_own() {
    let mut gate = Gate::new("FIX.4.4");
    for (id, books) in [("a", "free 990.00, held 10.00"), ("b", "free 980.00, held 20.00")] {
        gate.says(0, &order("A1", id, 1, "10"));
        assert_eq!(gate.books(1), books);
        gate = gate.after_a_kill("FIX.4.4");
        assert_eq!(gate.books(1), books);
    }
}

/// What waits when a connection ends, or its session begins anew, never leaves, and what it was granted comes back.
#[test]
fn what_waits_when_its_session_ends_is_sent_again_or_refused() {
    let mut gate = Gate::new("FIX.4.4");
    for ends in ["drop", "35=5|", "35=A|98=0|108=30|141=Y|"] {
        gate.is_slow = true;
        let first = gate.seqs[0];
        gate.says(0, &order("A1", "a", 5, "10"));
        gate.says(0, &order("A1", "b", 6, "10"));
        gate.asked.swap(0, 1);
        gate.answer();
        match ends {
            "drop" => gate.leaves(0),
            "35=5|" => {
                gate.says(0, ends);
                gate.desk.drop_line(gate.lines[0]);
            }
            _ => {
                gate.seqs[0] = 1;
                gate.says(0, ends);
            }
        }
        gate.is_slow = false;
        gate.turn();
        assert_eq!(
            (gate.took(VENUE), gate.books(1)),
            (String::new(), "free 1000.00".into()),
            "{ends}"
        );
        assert!(!gate.desk.door.has_sayings());
        if ends.starts_with("35=A") {
            let refused = gate.took(0).matches("|58=not sent: the session began anew|").count();
            assert_eq!(refused, 2);
            continue;
        }
        gate.got = Default::default();
        gate.log_on(0);
        assert!(gate.took(0).ends_with(&format!("35=2|7={first}|16=0|")), "{ends}");
        // The client does not want to send them any more.
        let fill = format!("35=4|43=Y|122={}|36={}|123=Y|", gate.desk.time(0), gate.seqs[0]);
        gate.says_as(0, first, &fill);
    }
}

#[test]
fn what_is_refused_says_why() {
    let mut gate = Gate::new("FIX.4.4");
    let sell = "35=D|11=s|1=A1|38=501|40=2|44=1|54=2|55=X|";
    for (at, says, told) in [
        (0, sell.to_owned(), "|58=budget 3: limit; 493 count left|103=3|"),
        (0, sell.replace("40=2", "40=1"), "|58=no reference price|103=99|"),
        (0, sell.replace("44=1|", ""), "|58=Price (44): expected a number|103=99|"),
        (0, sell.replace("44=1|", "44=0|"), "|58=price 0: expected more than 0"),
        (0, sell.replace("38=501|", "38=0|"), "|58=quantity 0: expected more than 0 in an order"),
        (0, sell.replace("38=501|", "38=1234567890123456789|"), "|58=OrderQty (38): expected a"),
        (0, sell.replace("38=501|", "38=1|38=501|"), "|58=a field of the order appears twice"),
        (
            0,
            sell.replace("38=501|", "152=5|"),
            "|58=budget 3 counts quantity: expected an order by",
        ),
        (0, sell.replace("54=2", "54=8"), "|58=Side (54): expected 1, 2, 5 or 6"),
        (0, sell.replace("44=1|", "44=1|423=1|"), "|58=PriceType (423): expected 2"),
        (0, sell.replace("44=1|", "44=1|15=EUR|"), "|58=budget 1 counts USD: expected an order in"),
        (1, sell.replace("A1", "B1"), "|58=no reference price|103=99|"),
        (0, sell.replace("|11=s", ""), "|58=ClOrdID (11): expected 1 to 255"),
        (1, "35=D|11=e|38=5|40=2|44=1|54=1|55=EU|".into(), "|58=budgets in USD and EUR: expected"),
        (
            0,
            "35=G|11=g|41=s|38=5|40=2|44=1|54=2|55=X|".into(),
            "35=9|11=g|37=NONE|39=8|41=s|58=no order of this session has this OrigClOrdID (41)|102=1|434=2|",
        ),
        (1, order("B1", "v", 100, "10.01"), "|58=order_value_max: 1000 of this session|103=3|"),
        (1, order("B1", "q", 601, "1"), "|58=order_quantity_max: 600 of this session|103=3|"),
        (1, order("B1", "r", 1, "1").replace("55=X", "55=BAD"), "|58=the instrument is restricted"),
        (1, order("B1", "r", 1, "1").replace("55=X", "55=X|48=BAD"), "|58=the instrument is r"),
        (1, order("B1", "r", 1, "1").replace("55=X|", ""), "|58=Symbol (55): expected one, "),
        (0, "35=E|66=l|".into(), "|58=Unsupported Message Type|372=E|380=3|"),
        (0, "35=U7|".into(), "|58=Unsupported Message Type|372=U7|380=3|"),
        (0, "35=DJ|".into(), "|58=Unsupported Message Type|372=DJ|380=3|"),
        (0, sell.replace("44=1|", "44=1|854=0|854=1|"), "|58=a field of the order appears twice"),
    ] {
        gate.says(at, &says);
        let got = gate.took(at);
        assert!(got.contains(told), "{says}: {got}");
        assert_eq!(
            (gate.took(VENUE).as_str(), gate.books(1).as_str()),
            ("", "free 1000.00"),
            "{says}"
        );
    }
    // A type that the configuration names.
    gate.says(0, "35=AB|11=m|555=0|");
    assert_eq!(gate.took(VENUE), "35=AB|11=m|555=0|");
    // One that is known: once more, and another with its id.
    gate.says(0, &order("A1", "a", 60, "10"));
    gate.took(VENUE);
    gate.says(0, &(order("A1", "a", 60, "10") + "97=Y|"));
    let status = "35=8|6=0|11=a|14=0|37=NONE|38=60|39=A|44=10|54=1|55=X|150=I|151=60|";
    assert_eq!(gate.took(0), status);
    gate.says(0, &order("A1", "a", 6, "10"));
    assert!(gate.took(0).contains("|58=Duplicate ClOrdID|103=6|"));
    assert_eq!(
        (gate.took(VENUE).as_str(), gate.books(1).as_str()),
        ("", "free 400.00, held 600.00")
    );
    // Too old to be sent when it comes after a gap.
    let old = format!("{}43=Y|122={}|", order("A1", "o", 1, "10"), gate.desk.time(-3));
    gate.says(0, &old);
    assert!(gate.took(0).contains("|58=sent again too late; send a new order|103=4|"));
}

/// The client hears of its order, not of a message of the gate.
#[test]
fn what_the_venue_rejects_by_its_number_is_refused() {
    for (version, other, option) in [("FIX.4.4", "99", "99"), ("FIX.4.2", "0", "2")] {
        let mut gate = Gate::new(version);
        gate.says(0, &order("A1", "a", 60, "10"));
        gate.says(VENUE, "35=3|45=2|58=no|372=D|");
        let refused = format!(
            "35=8|6=0|11=a|14=0|{}37=NONE|38=60|39=8|44=10|54=1|55=X|58=no|103={other}|150=8|151=0|",
            if version == "FIX.4.2" { "20=0|" } else { "" }
        );
        assert_eq!((gate.took(0), gate.books(1)), (refused, "free 1000.00".into()));
        gate.says(0, &order("A1", "b", 60, "10"));
        gate.says(VENUE, "35=8|11=b|37=O2|150=0|39=0|14=0|");
        gate.took(0);
        gate.says(0, "35=F|11=c|41=b|54=1|55=X|");
        gate.says(VENUE, "35=j|45=4|372=F|380=0|");
        let cancel =
            format!("35=9|11=c|37=O2|39=0|41=b|58=rejected by the venue|102={option}|434=1|");
        assert_eq!((gate.took(0), gate.books(1)), (cancel, "free 400.00, held 600.00".into()));
    }
}

/// What the venue and the client say of one order of 60 at 10, and the books of its account then; with each the process is killed, before and after
/// the ledger has heard of it.
fn play(name: &str, steps: &[(usize, &str, &str)]) {
    play_killed(&[(false, 0), (true, 0)], name, steps);
}

/// The same; whether the process is killed, and how many answers come from the ledger before.
fn play_killed(kills: &[(bool, usize)], name: &str, steps: &[(usize, &str, &str)]) {
    for (kills, answers) in kills.iter().copied() {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 60, "10"));
        for (at, says, books) in steps {
            // What the ledger has not granted is not sent.
            gate.is_slow = kills && *at == VENUE;
            gate.says(*at, &format!("{says}|"));
            if kills {
                (0..answers).for_each(|_| gate.answer());
                gate = gate.after_a_kill("FIX.4.4");
            }
            gate.is_slow = false;
            gate.turn();
            assert_eq!(gate.books(1), *books, "{name}, killed: {kills}, {says}");
            assert!(!gate.desk.door.has_sayings(), "{name}, {says}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn what_the_venue_reports_is_booked_once() {
    let fill = |id, quantity, price, sums| format!("35=8|11=a|37=O|150=F|39=1|17={id}|32={quantity}|31={price}|{sums}60=20261123-10:00:00");
    let [one, two, again] = [fill("1", 20, "9", "14=20|"), fill("2", 10, "10.5", ""), fill("1", 21, "9", "")];
    play("fills, a bust, cancelled, late", &[
        (2, "35=8|11=a|37=O|150=0|39=0|14=0", "free 400.00, held 600.00"),
        (2, &one, "free 420.00, held 400.00, settled 180.00"),
        (2, &one, "free 420.00, held 400.00, settled 180.00"),
        (2, &again, "free 420.00, held 400.00, settled 180.00"),
        (2, &two, "free 415.00, held 300.00, settled 285.00"),
        (2, "35=8|11=a|150=H|39=1|17=3|19=1|151=50|60=20261123-11:00:00", "free 395.00, held 500.00, settled 105.00"),
        (0, "35=F|11=c|41=a|54=1|55=X", "free 395.00, held 500.00, settled 105.00"),
        (2, "35=8|11=c|41=a|150=4|39=4|14=10|151=0", "free 895.00, settled 105.00"),
        (2, &fill("4", 1, "10", ""), "free 885.00, settled 105.00, late 10.00"),
    ]);
    let corrected = |id, price| format!("35=8|11=a|150=G|39=1|17={id}|19=1|32=20|31={price}|60=20261123-11:00:00");
    for [first, then] in [["6", "7"], ["7", "6"]] {
        play("two corrections in one millisecond: the later counts", &[
            (2, &fill("1", 20, "9", ""), "free 420.00, held 400.00, settled 180.00"),
            (2, &corrected(first, "8"), "free 440.00, held 400.00, settled 160.00"),
            (2, &corrected(then, "7"), "free 460.00, held 400.00, settled 140.00"),
        ]);
    }
    play("rejected", &[(2, "35=8|11=a|37=NONE|150=8|39=8|14=0|151=0", "free 1000.00")]);
    play("rejected by its number", &[(2, "35=3|45=2|58=no|372=D", "free 1000.00")]);
    play("expired", &[(2, "35=8|11=a|37=O|150=C|39=C|14=0|151=0", "free 1000.00")]);
    play("dearer than it was held for", &[
        (2, &fill("1", 60, "11", "14=60|").replace("39=1", "39=2"), "free 340.00, settled 600.00, over_settled 60.00"),
    ]);
    let undated = "35=8|11=a|37=O|150=F|39=1|17=1|32=20|31=9";
    play("sent again on another day, without its time", &[
        (2, &format!("{undated}|60=20261120-23:00:00"), "free 420.00, held 400.00, settled 180.00"),
        (2, &format!("{undated}|122=20261120-23:00:00"), "free 420.00, held 400.00, settled 180.00"),
        (2, &format!("{undated}|97=Y"), "free 420.00, held 400.00, settled 180.00"),
    ]);
    play("a correction that cannot be read, and its sums", &[
        (2, &one, "free 420.00, held 400.00, settled 180.00"),
        (2, "35=8|11=a|37=O|150=G|39=1|17=5|19=1|32=30|14=30|6=9", "free 430.00, held 300.00, settled 180.00, inferred 90.00"),
    ]);
    play("missed, and come later", &[
        (2, "35=8|11=a|37=O|150=I|39=1|14=20|6=9|151=40", "free 420.00, held 400.00, inferred 180.00"),
        (2, &one, "free 420.00, held 400.00, settled 180.00"),
    ]);
    let of_nobody = |says| format!("35=8|11=z|1=A1|54=1|55=X|37=P|39=1|17=9|19=8|32=2|31=5|14=2|60=20261123-10:00:00|150={says}");
    let [bust, correction, status] = ["H", "G", "I"].map(of_nobody);
    play("of nobody", &[
        (2, &bust, "free 400.00, held 600.00"),
        (2, &correction, "free 400.00, held 600.00"),
        (2, &status, "free 400.00, held 600.00"),
        (2, "35=8|11=z|1=A1|54=1|55=X|37=P|150=F|39=1|17=9|32=2|31=5|14=2|60=20261123-10:00:00", "free 390.00, held 600.00, unknown_order 10.00"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_the_venue_reports_without_a_known_clordid_is_booked_once() {
    for id in ["11=nOnE|", "11=NONE|", ""] {
        let of = |sums| format!("35=8|{id}37=O|{sums}|60=20261123-10:00:00");
        let [one, two] = [of("150=F|39=1|17=1|32=20|31=9|14=20"), of("150=F|39=1|17=2|32=10|31=10.5|14=30")];
        play("no ClOrdID, and a known OrderID", &[
            (2, "35=8|11=a|37=O|150=0|39=0|14=0", "free 400.00, held 600.00"),
            (2, &one, "free 420.00, held 400.00, settled 180.00"),
            (2, &one, "free 420.00, held 400.00, settled 180.00"),
            (2, &two, "free 415.00, held 300.00, settled 285.00"),
            (2, &of("55=Y|150=F|39=1|17=4|32=1|31=1"), "free 415.00, held 300.00, settled 285.00"),
            (2, &of("150=4|39=4|14=30|151=0"), "free 715.00, settled 285.00"),
        ]);
        let of = |more| format!("35=8|{id}1=A1|54=1|55=X|39=1|32=2|31=5|60=20261123-10:00:00|150=F{more}");
        play("no ClOrdID, and of nobody", &[
            (2, &of("|37=P|17=9"), "free 390.00, held 600.00, unknown_order 10.00"),
            (2, &of("|37=P|17=9"), "free 390.00, held 600.00, unknown_order 10.00"),
            (2, &of("|37=Q|17=9"), "free 380.00, held 600.00, unknown_order 20.00"),
            (2, &of("|37=P|17=10|14=4|6=5"), "free 370.00, held 600.00, unknown_order 30.00"),
            (2, &of("|37=none|17=11"), "free 360.00, held 600.00, unknown_order 40.00"),
            (2, &of("|17=11"), "free 360.00, held 600.00, unknown_order 40.00"),
            (2, &of("|37=Q|17=12").replace("39=1", "39=2"), "free 350.00, held 600.00, unknown_order 50.00"),
            (2, &of("|37=P"), "free 350.00, held 600.00, unknown_order 50.00"),
            (2, &of(""), "free 350.00, held 600.00, unknown_order 50.00"),
        ]);
    }
    play("a ClOrdID of the venue's own, and a known OrderID", &[
        (2, "35=8|11=a|37=O|150=0|39=0|14=0", "free 400.00, held 600.00"),
        (2, "35=8|11=z|37=O|150=F|39=1|17=1|32=20|31=9|14=20|60=20261123-10:00:00", "free 420.00, held 400.00, settled 180.00"),
        (2, "35=8|11=a|37=O|150=4|39=4|14=20|151=0", "free 820.00, settled 180.00"),
        (2, "35=8|11=z|37=O|150=F|39=1|17=1|32=20|31=9|14=20|60=20261123-10:00:00|97=Y", "free 820.00, settled 180.00"),
        (2, "35=8|11=z|37=O|150=H|39=4|17=2|19=1|14=0|151=0|60=20261123-11:00:00", "free 1000.00"),
    ]);
}

/// Executions that are booked for nobody, because no report has said the OrderID yet, are the order's once one says it.
#[test]
#[rustfmt::skip]
fn what_was_booked_before_an_orderid_was_known_is_booked_once() {
    let of = |id: &str, says: &str| format!("35=8|{id}1=A1|54=1|55=X|37=O|{says}|60=20261123-10:00:00");
    let [one, two] = ["150=F|39=1|17=1|32=20|31=9|14=20|151=40", "150=F|39=1|17=2|32=10|31=10.5|14=30|151=30"];
    let (new, a) = ("35=8|11=a|37=O|150=0|39=0|14=0|151=60", "11=a|");
    let (held, unknown) = ("free 400.00, held 600.00", "free 220.00, held 600.00, unknown_order 180.00");
    let [settled, both] = ["free 420.00, held 400.00, settled 180.00", "free 415.00, held 300.00, settled 285.00"];
    // Also between what the ledger hears of the two.
    let play = |name, steps: &[(usize, &str, &str)]| play_killed(&[(false, 0), (true, 0), (true, 1)], name, steps);
    for id in ["11=NONE|", "", "11=z|"] {
        play("a fill, the report of the order, a fill, and all again", &[
            (2, &of(id, one), unknown),
            (2, new, settled),
            (2, &of(a, two), both),
            (2, &of(id, &format!("{one}|97=Y")), both),
            (2, &of(a, &format!("{one}|97=Y")), both),
            (2, new, both),
            (2, &of(id, "150=F|39=2|17=3|32=30|31=10|14=60|151=0"), "free 415.00, settled 585.00"),
        ]);
        play("the report of the order has the sum, and a fill is the first", &[
            (2, &of(id, one), unknown),
            (2, &of(a, "150=I|39=1|14=20|6=9|151=40"), settled),
            (2, &of(a, two), both),
        ]);
        play("the same fill, with the ClOrdID", &[
            (2, &of(id, one), unknown),
            (2, &of(a, one), settled),
            (2, &of(a, two), both),
        ]);
    }
    let id = "11=NONE|";
    play("one that did not come", &[
        (2, &of(id, "150=F|39=1|17=2|32=10|31=10|14=30|6=10"), "free 100.00, held 600.00, inferred 200.00, unknown_order 100.00"),
        (2, new, "free 400.00, held 300.00, settled 100.00, inferred 200.00"),
        (2, &of(a, "150=F|39=1|17=1|32=20|31=9|14=20"), "free 420.00, held 300.00, settled 280.00"),
    ]);
    play("filled at once", &[
        (2, &of(id, "150=F|39=2|17=1|32=60|31=10|14=60|151=0"), "free -200.00, held 600.00, unknown_order 600.00"),
        (2, new, "free 400.00, settled 600.00"),
        (2, &of(id, "150=F|39=2|17=1|32=60|31=10|14=60|151=0|97=Y"), "free 400.00, settled 600.00"),
    ]);
    for (then, amended) in [("150=H|39=0|17=3|19=1|14=0|151=60", held), ("150=G|39=1|17=3|19=1|32=20|31=8|14=20|151=40", "free 440.00, held 400.00, settled 160.00")] {
        play("amended before the report of the order", &[
            (2, &of(id, one), unknown),
            (2, &of(id, then), if amended == held { held } else { "free 240.00, held 600.00, unknown_order 160.00" }),
            (2, new, amended),
            (2, &of(a, then), amended),
            (2, &of(id, one), amended),
        ]);
        play("amended after it", &[
            (2, &of(id, one), unknown),
            (2, new, settled),
            (2, &of(id, then), amended),
            (2, &of(a, then), amended),
        ]);
    }
    play("the order was cancelled before", &[
        (2, &of(id, one), unknown),
        (2, "35=8|11=a|150=4|39=4|14=0|151=0", "free 820.00, unknown_order 180.00"),
        (2, &of(a, "150=I|39=4|14=20|151=0"), "free 820.00, late 180.00"),
    ]);
    play("of another symbol, and of an order that was sent later", &[
        (2, &of(id, one).replace("55=X", "55=Y"), unknown),
        (2, new, unknown),
        (0, "35=D|11=b|1=A1|38=10|40=2|44=10|54=1|55=Y", "free 120.00, held 700.00, unknown_order 180.00"),
        (2, "35=8|11=b|37=O|150=0|39=0|14=0", "free 120.00, held 700.00, unknown_order 180.00"),
    ]);
}

/// What leaves the one order is booked of the other before, whatever is under way of that.
#[test]
fn an_order_has_its_executions_before_they_leave_nobodys() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 60, "10"));
    let fill = |id, price| {
        format!("1=A1|54=1|55=X|37=O|150=F|39=1|17={id}|32=20|31={price}|60=20261123-10:00:00|")
    };
    gate.says(VENUE, &format!("35=8|{}", fill(1, 9)));
    gate.is_slow = true;
    gate.says(VENUE, "35=8|11=a|150=D|39=0|38=59|44=10|14=0|151=59|");
    gate.says(VENUE, &format!("35=8|11=a|{}", fill(2, 9)));
    for (asked, books) in [
        (1, "free 220.00, held 600.00, unknown_order 180.00"),
        (1, "free 230.00, held 590.00, unknown_order 180.00"),
        (1, "free 270.00, held 190.00, settled 360.00, unknown_order 180.00"),
        (0, "free 450.00, held 190.00, settled 360.00"),
    ] {
        assert_eq!((gate.asked.len(), gate.books(1).as_str()), (asked, books));
        gate.answer();
        gate.asked.extend(gate.desk.door.take_says());
    }
    assert!(!gate.desk.door.has_sayings());
}

#[test]
#[rustfmt::skip]
fn what_only_has_the_id_of_an_order_frees_nothing_of_it() {
    let [b, d] = ["b", "d"].map(|id| order("A1", id, 10, "10").trim_end_matches('|').to_owned());
    let two = "35=8|11=a|37=O|150=F|39=1|17=2|32=10|31=10.5|60=20261123-10:00:00";
    for (kind, says) in [("H", "35=H|11=a|54=1|55=X"), ("F", "35=F|11=a|41=a|54=1|55=X"), ("AB", "35=AB|11=a|555=0")] {
        let rejected = format!("35=3|45=3|58=no|372={kind}");
        play("what only has its id is rejected", &[
            (0, says, "free 400.00, held 600.00"),
            (2, &rejected, "free 400.00, held 600.00"),
            (2, two, "free 395.00, held 500.00, settled 105.00"),
        ]);
    }
    let unknown = "35=9|11=c|41=a|37=NONE|39=8|434=1|102=1";
    play("a cancel of what the venue never had, and of what it has reported on", &[
        (0, "35=F|11=c|41=a|54=1|55=X", "free 400.00, held 600.00"),
        (2, unknown, "free 1000.00"),
        (0, &b, "free 900.00, held 100.00"),
        (2, "35=8|11=b|37=P|150=0|39=0|14=0", "free 900.00, held 100.00"),
        (0, "35=F|11=e|41=b|54=1|55=X", "free 900.00, held 100.00"),
        (2, &unknown.replace("11=c|41=a", "11=e|41=b"), "free 900.00, held 100.00"),
    ]);
    play("cancels that have its id", &[
        (0, "35=F|11=a|41=a|54=1|55=X", "free 400.00, held 600.00"),
        (2, "35=9|11=a|41=a|37=O|39=0|434=1|102=0", "free 400.00, held 600.00"),
        (0, &b, "free 300.00, held 700.00"),
        (0, "35=F|11=a|41=b|54=1|55=X", "free 300.00, held 700.00"),
        (2, "35=8|11=a|41=b|37=P|150=4|39=4|14=0|151=0", "free 400.00, held 600.00"),
        (2, "35=8|11=a|37=O|150=4|39=4|14=0|151=0", "free 1000.00"),
        (0, &d, "free 900.00, held 100.00"),
        (0, "35=F|11=a|41=d|54=1|55=X", "free 900.00, held 100.00"),
        (2, "35=8|11=a|37=O|150=F|39=1|17=4|32=1|31=10|60=20261123-10:00:00", "free 890.00, held 100.00, late 10.00"),
    ]);
    play("a duplicate of what the venue has", &[
        (2, "35=8|11=a|37=O|150=0|39=0|14=0", "free 400.00, held 600.00"),
        (2, "35=8|11=a|37=NONE|150=8|39=8|103=6|14=0|151=0", "free 400.00, held 600.00"),
        (2, two, "free 395.00, held 500.00, settled 105.00"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_replace_is_held_at_its_worst_until_the_venue_has_answered() {
    let replace = |id, of, quantity, price| format!("35=G|11={id}|41={of}|38={quantity}|40=2|44={price}|54=1|55=X");
    let [more, dearer, less] = [replace("b", "a", 80, "10"), replace("c", "b", 60, "15"), replace("d", "b", 10, "10")];
    play("accepted, refused, chained, with less than was executed", &[
        (2, "35=8|11=a|37=O|150=0|39=0|14=0", "free 400.00, held 600.00"),
        (0, &more, "free 200.00, held 800.00"),
        (0, &dearer, "free 100.00, held 900.00"),
        (2, "35=8|11=b|41=a|37=O|150=5|39=0|38=80|44=10|14=0|151=80", "free 100.00, held 900.00"),
        (2, "35=8|11=b|37=O|150=F|39=1|17=1|32=20|31=9|14=20|60=20261123-10:00:00", "free 220.00, held 600.00, settled 180.00"),
        (2, "35=9|11=c|41=b|37=O|39=1|434=2|102=0", "free 220.00, held 600.00, settled 180.00"),
        (0, &less, "free 220.00, held 600.00, settled 180.00"),
        (2, "35=8|11=d|41=b|37=O|150=5|39=2|38=10|44=10|14=20|151=0", "free 820.00, settled 180.00"),
    ]);
    let more = replace("b", "a", 90, "10");
    let filled = "35=8|11=a|37=O|150=F|39=2|17=1|32=60|31=10|14=60|60=20261123-10:00:00";
    play("a later one is accepted first, and what nobody asked for", &[
        (0, &replace("b", "a", 80, "10"), "free 200.00, held 800.00"),
        (0, &replace("c", "b", 20, "10"), "free 200.00, held 800.00"),
        (2, "35=8|11=c|41=a|37=O|150=5|39=0|38=20|44=10|14=0|151=20", "free 200.00, held 800.00"),
        (2, "35=8|11=b|41=c|37=O|150=5|39=0|38=80|44=10|14=0|151=80", "free 200.00, held 800.00"),
        (2, "35=8|11=c|41=a|37=O|150=5|39=0|38=20|44=10|14=0|151=20|97=Y", "free 200.00, held 800.00"),
        (2, "35=8|11=b|37=O|150=5|39=0|38=90|44=10|14=0|151=90", "free 100.00, held 900.00"),
    ]);
    play("filled while it waits, accepted", &[
        (0, &more, "free 100.00, held 900.00"),
        (2, filled, "free 100.00, held 300.00, settled 600.00"),
        (2, "35=8|11=b|41=a|37=O|150=5|39=1|38=90|44=10|14=60|151=30", "free 100.00, held 300.00, settled 600.00"),
        (2, "35=8|11=b|37=O|150=F|39=2|17=2|32=30|31=10|14=90|60=20261123-10:00:00", "free 100.00, settled 900.00"),
    ]);
    play("filled while it waits, refused", &[
        (0, &more, "free 100.00, held 900.00"),
        (2, filled, "free 100.00, held 300.00, settled 600.00"),
        (2, "35=9|11=b|41=a|37=O|39=2|434=2|102=0", "free 400.00, settled 600.00"),
    ]);
    play("rejected by its number, and cancelled while one waits", &[
        (0, &more, "free 100.00, held 900.00"),
        (2, "35=3|45=3|58=no|372=G", "free 400.00, held 600.00"),
        (0, &replace("c", "a", 70, "10"), "free 300.00, held 700.00"),
        (0, "35=F|11=d|41=a|54=1|55=X", "free 300.00, held 700.00"),
        (2, "35=8|11=d|41=a|37=O|150=4|39=4|14=0|151=0", "free 1000.00"),
    ]);
    let good = |tif| format!("{}|59={tif}", replace("b", "a", 60, "10"));
    for (sent, says, after) in [(good("1"), "", "free 400.00, held 600.00"), (good("6"), "", "free 400.00, held 600.00"),
        (good("0"), "", "free 1000.00"), (good("1"), "|59=0", "free 1000.00"), (good("0"), "|59=1", "free 400.00, held 600.00")] {
        play("done for the day, and good beyond it", &[
            (0, &sent, "free 400.00, held 600.00"),
            (2, &format!("35=8|11=b|41=a|37=O|150=5|39=0|38=60|44=10|14=0|151=60{says}"), "free 400.00, held 600.00"),
            (2, "35=8|11=b|37=O|150=3|39=3|14=0|151=0", after),
        ]);
    }
    play("after it was dearer than it was held for, and one that did not come", &[
        (2, "35=8|11=a|37=O|150=F|39=1|17=1|32=58|31=11|14=58|60=20261123-10:00:00", "free 342.00, held 20.00, settled 600.00, over_settled 38.00"),
        (0, &replace("b", "a", 70, "10"), "free 242.00, held 120.00, settled 638.00"),
        (2, "35=8|11=a|37=O|150=I|39=1|14=60|151=0", "free 242.00, held 100.00, settled 638.00, inferred 20.00"),
        (0, &replace("c", "b", 70, "12"), "free 218.00, held 120.00, settled 638.00, inferred 24.00"),
    ]);
}

/// 102, the order's own 37 and 39, and 58.
#[test]
fn a_replace_that_is_refused_says_why() {
    for (version, option) in [("FIX.4.4", "99"), ("FIX.4.2", "2")] {
        let mut gate = Gate::new(version);
        gate.says(1, &order("B1", "o", 80, "10"));
        gate.says(0, &order("A1", "a", 60, "10"));
        gate.says(VENUE, "35=8|11=a|37=O|150=0|39=0|14=0|");
        gate.got = Default::default();
        let of = |id: &str, rest: &str| format!("35=G|11={id}|41=a|{rest}40=2|54=1|55=X|");
        let known = |id, status, text, reason: &str| {
            format!("35=9|11={id}|37=O|39={status}|41=a|58={text}|102={reason}|434=2|")
        };
        let not_its = "Account (1), Side (54) or Symbol (55) is not the order's: cancel it";
        let unknown = "35=9|11=e|37=NONE|39=8|41=z|58=no order of this session has this OrigClOrdID (41)|102=1|434=2|";
        let used = if version == "FIX.4.2" { "2" } else { "6" };
        let others = format!("35=9|11=f|37=NONE|39=8|41=a|58=Duplicate ClOrdID|102={used}|434=2|");
        let short = "budget 1: limit; 384.375 USD left";
        for (at, says, told) in [
            (0, of("b", "38=60|44=17|"), known("b", 0, short, option)),
            (
                0,
                of("c", "38=75|44=10|"),
                known("c", 0, "budget 2: limit; 76.5625 USD left", option),
            ),
            (0, of("d", "38=60|44=10|1=A2|"), known("d", 0, not_its, option)),
            (0, of("d", "38=60|"), known("d", 0, "Price (44): expected a number", option)),
            (0, of("a", "38=60|44=10|"), known("a", 0, "Duplicate ClOrdID", used)),
            (0, of("e", "38=60|44=10|").replace("41=a", "41=z"), unknown.into()),
            (1, of("f", "38=60|44=10|"), others),
            (
                1,
                of("v", "38=1001|44=1|").replace("41=a", "41=o"),
                format!(
                    "35=9|11=v|37=NONE|39=A|41=o|58=order_quantity_max: 600 of this session|102={option}|434=2|"
                ),
            ),
        ] {
            gate.says(at, &says);
            assert_eq!(gate.took(at), told, "{says}");
            assert_eq!(
                (gate.took(VENUE).as_str(), gate.books(1).as_str()),
                ("", "free 400.00, held 600.00")
            );
        }
        gate.says(0, &of("g", "38=61|44=10|"));
        gate.says(0, &(of("g", "38=61|44=10|") + "97=Y|"));
        assert!(gate.took(0).contains("|11=g|14=0|"), "how it stands");
        gate.says(0, &of("h", "38=60|44=17|"));
        assert!(gate.took(0).contains("|37=O|39=E|41=a|58=budget 1: limit;"));
        gate.says(VENUE, "35=8|11=a|37=O|150=4|39=4|14=0|151=0|");
        gate.took(0);
        gate.says(0, &of("i", "38=60|44=10|"));
        assert_eq!(gate.took(0), known("i", 4, "the order is closed: send a new one", "0"));
    }
}

/// What its order hears meanwhile is told afterwards, so that it lowers nothing that is asked for; what is not sent lowers it again.
#[test]
fn a_replace_waits_for_its_budgets_as_an_order_does() {
    let (replace, fill) = (
        |price| format!("35=G|11=b|41=a|38=60|40=2|44={price}|54=1|55=X|"),
        "35=8|11=a|37=O|150=F|39=1|17=1|32=20|31=10|14=20|60=20261123-10:00:00|",
    );
    for (price, ends, books) in [
        ("15", "granted", "free 200.00, held 600.00, settled 200.00"),
        ("17", "refused", "free 400.00, held 400.00, settled 200.00"),
        ("15", "late", "free 400.00, held 400.00, settled 200.00"),
        ("15", "gone", "free 400.00, held 400.00, settled 200.00"),
        ("15", "full", "free 400.00, held 600.00"),
        ("15", "closed", "free 800.00, settled 200.00"),
    ] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 60, "10"));
        gate.got = Default::default();
        gate.is_slow = true;
        gate.says(0, &replace(price));
        if ends != "full" {
            gate.says(VENUE, fill);
        }
        assert_eq!((gate.asked.len(), gate.took(VENUE)), (1, String::new()), "{ends}");
        let line = gate.lines[0];
        match ends {
            "late" => gate.got[0] = gate.desk.waits(line, 2_000),
            "gone" => gate.leaves(0),
            "full" => fill_book(&mut gate),
            "closed" => gate.says(VENUE, "35=8|11=a|37=O|150=4|39=4|14=20|151=0|"),
            _ => {}
        }
        gate.is_slow = false;
        gate.turn();
        assert_eq!(gate.took(VENUE).contains("35=G|11=b|"), ends == "granted", "{ends}");
        assert_eq!(gate.books(1), books, "{ends}");
        assert!(!gate.desk.door.has_sayings(), "{ends}");
    }
    // It is asked for once what it replaces has left, and what came behind it waits.
    let mut gate = Gate::new("FIX.4.4");
    gate.is_slow = true;
    let cancel = "35=F|11=c|41=b|54=1|55=X|";
    let all = [order("A1", "a", 60, "10"), replace("15"), cancel.into()];
    all.iter().for_each(|one| gate.says(0, one));
    for (asks, leaves) in [(1, all[0].clone()), (1, all[1..].concat())] {
        assert_eq!(gate.asked.len(), asks);
        gate.answer();
        gate.turn();
        assert_eq!(gate.took(VENUE), leaves);
    }
}

/// Nothing can be sealed, or the ledger is busy: what may cost money is refused, and what only ends it passes.
#[test]
fn a_cancel_passes_where_nothing_can_be_recorded() {
    for refusal in [NamedRefusal::Journal, NamedRefusal::Busy] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 60, "10"));
        gate.got = Default::default();
        gate.refuses = Some(refusal);
        gate.says(0, &order("A1", "b", 1, "10"));
        gate.says(0, "35=G|11=c|41=a|38=61|40=2|44=10|54=1|55=X|");
        let refused = gate.took(0);
        let [one, two] = ["|11=b|", "35=9|11=c|"].map(|part| refused.contains(part));
        assert!(one && two && gate.took(VENUE).is_empty(), "{refused}");
        for passes in ["35=F|11=d|41=a|54=1|55=X|", "35=H|11=a|54=1|55=X|"] {
            gate.says(0, passes);
            assert_eq!(gate.took(VENUE), passes);
        }
        gate.says(VENUE, "35=8|11=d|41=a|37=O|150=4|39=4|14=0|151=0|");
        assert!(gate.took(0).contains("|150=4|"), "a report waits for nothing");
        assert_eq!(gate.books(1), "free 400.00, held 600.00");
        gate.refuses = None;
        gate.desk.door.say_again();
        gate.turn();
        assert_eq!(gate.books(1), "free 1000.00");
    }
}

/// Nothing ends, and nothing is lowered, of which the book of a venue cannot say how it stands.
#[test]
fn what_no_book_can_say_stays_as_it_is() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 60, "10"));
    gate.is_slow = true;
    gate.says(VENUE, "35=8|11=a|37=O|150=F|39=1|17=1|32=20|31=9|14=20|60=20261123-10:00:00|");
    gate.asked.clear();
    gate.says(0, &order("A1", "b", 10, "10"));
    // It is granted, and is killed before it is kept.
    gate.answer();
    assert_eq!(gate.books(1), "free 300.00, held 700.00");
    // A fact for the one, a fact and an end for the other; of a written book the machine may have lost the other; an old one knows nothing.
    gate.doubts = vec![(false, 1, [3, 0, 0]), (false, 2, [1, 1, 0]), (true, 1, [0, 2, 0])];
    let gate = gate.after_a_kill("FIX.4.4");
    assert_eq!(gate.books(1), "free 420.00, held 400.00, settled 180.00");
}

/// The ledger ended the hold of an order as its book forgot it, and the book has lost that.
#[test]
fn what_the_ledger_may_have_ended_is_not_booked_again() {
    let fill = "35=8|11=a|37=O|150=F|39=1|17=1|32=20|31=9|14=20|60=20261123-10:00:00|";
    for (says, doubts) in [
        ("", [(false, 1, [1, 0, 0]), (false, 2, [1, 0, 0]), (true, 1, [0, 0, 1])]),
        ("|150=4|39=4|14=20", [(false, 1, [1, 0, 0]), (false, 2, [0, 0, 1]), (true, 1, [0, 0, 1])]),
    ] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 60, "10"));
        gate.says(VENUE, fill);
        if !says.is_empty() {
            gate.says(VENUE, &format!("35=8|11=a|37=O{says}|"));
        }
        let (mut hold, mut out) = (gate.bank.named_holds().next().unwrap(), Out::default());
        hold.legs.iter_mut().for_each(|leg| leg.amounts.hold = ledger::Amount::ZERO);
        let mut end = ledger::NamedSay::end(hold.key);
        gate.bank.state_named(hold, &mut out).unwrap();
        gate.bank.take_named(ledger::Door::Fix, &mut end, &mut out).unwrap();
        gate.doubts = doubts.into();
        gate.after_a_kill("FIX.4.4");
    }
}

/// Each has 2 s from when it came, so that a cancel behind all of them waits no longer.
#[test]
fn replaces_that_wait_delay_a_cancel_behind_them_together() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 60, "10"));
    gate.got = Default::default();
    gate.is_slow = true;
    let replace = |id| format!("35=G|11={id}|41=a|38=61|40=2|44=10|54=1|55=X|");
    ["b", "c", "d"].into_iter().for_each(|id| gate.says(0, &replace(id)));
    let cancel = "35=F|11=e|41=a|54=1|55=X|";
    gate.says(0, cancel);
    let line = gate.lines[0];
    gate.got[0] = gate.desk.waits(line, 2_000);
    gate.turn();
    assert_eq!(gate.took(VENUE), cancel);
    assert_eq!(gate.took(0).matches("|58=the limits were not checked in time").count(), 3);
    // One whose turn comes at last has had its time, too.
    gate.says(0, &replace("f"));
    gate.desk.advance(1_500);
    gate.says(0, &replace("g"));
    gate.says(0, cancel);
    gate.got[0] = gate.desk.waits(line, 500);
    gate.got[0] += &gate.desk.waits(line, 1_500);
    gate.turn();
    assert_eq!(gate.took(0).matches("|58=the limits were not checked in time").count(), 2);
    gate.is_slow = false;
    gate.turn();
    assert_eq!(
        (gate.books(1), gate.desk.door.has_sayings()),
        ("free 400.00, held 600.00".into(), false)
    );
}
