//! Playing clients and a venue at the FIX door: orders over real sockets, a venue as awkward as FIX allows, and its books compared with the
//! node's, order by order and budget by budget. See `proof/hammer/README.md`.
//!
//! Where to look: `peer` is one end of a session, `client` what is sent, `venue` what happens to it, `books` the comparison.

mod books;
mod budgets;
mod client;
mod peer;
mod venue;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use admin_client::Access;
use hdrhistogram::Histogram;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};

use crate::HammerError;
use crate::args::Args;
use crate::latency::{Quantiles, histogram};
use crate::pipe::Pipe;
use crate::report::grouped;
use crate::run::PROGRESS_EVERY;
use books::Node;
use budgets::{Budget, BudgetLines};
use client::Trader;
pub use peer::{Message, Peer};
use venue::Venue;

/// How long the sessions may take to log on, before the run begins: a node may wait half a minute between two dials.
const LOGON_WAIT: Duration = Duration::from_secs(40);
/// Between two dials of the clients, and the longest that one may take.
const DIAL_EVERY: Duration = Duration::from_millis(50);
/// The longest sleep of the loop.
const SLEEP: Duration = Duration::from_millis(1);
/// How long the node's books may differ at the end before they are wrong.
const SETTLE: Duration = Duration::from_secs(5);
/// Faults that are told.
const FAULTS_MAX: usize = 20;

/// What a run was, by names.
#[derive(Debug)]
pub struct FixReport(Value);

impl FixReport {
    /// 0 where nothing is lost and the books agree.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.0["audit"] != "ok")
    }

    /// Prints it, as one JSON object or for a person.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn print(&self, is_json: bool, out: &mut dyn Write) -> io::Result<()> {
        if is_json {
            return writeln!(out, "{}", self.0);
        }
        for (name, value) in self.0.as_object().into_iter().flatten() {
            for (key, value) in value.as_object().into_iter().flatten() {
                writeln!(out, "{name:18} {key}: {}", shown(value))?;
            }
        }
        writeln!(out, "{:18} {}", "open", self.0["open"])?;
        writeln!(out, "{:18} {}", "audit", shown(&self.0["audit"]))
    }
}

fn shown(value: &Value) -> String {
    value
        .as_u64()
        .map(grouped)
        .or(value.as_str().map(str::to_owned))
        .unwrap_or_else(|| value.to_string())
}

/// Plays clients and a venue as `args` say. Setting `stop` ends the load early; what is under way, and the audit, follow.
///
/// # Errors
/// The run could not be made. What goes wrong during the run is in the report.
pub fn run_fix(args: &Args, stop: &AtomicBool) -> Result<FixReport, HammerError> {
    args.check()?;
    let mut floor = TradingFloor::new(args)?;
    floor.wait_logons(args, stop)?;
    floor.load(args, stop);
    floor.drain(args);
    let audited = floor.audit(args);
    Ok(floor.report(args, audited))
}

/// The connection of a session that is there.
#[derive(Debug, Default)]
struct Link(Option<Pipe>);

impl Link {
    /// Takes what has come: messages, and what is wrong with them. Returns whether the connection was lost.
    fn hear(&mut self, peer: &mut Peer, heard: &mut Vec<Result<Message, String>>) -> bool {
        let Some(pipe) = &mut self.0 else { return false };
        let mut is_lost = false;
        loop {
            let read = pipe.read();
            let mut used = 0;
            while !is_lost {
                match peer.hear(&pipe.input[used..pipe.filled]) {
                    Ok(Some((len, message))) => {
                        used += len;
                        heard.extend(message.map(Ok));
                    }
                    Ok(None) => break,
                    Err(fault) => {
                        heard.push(Err(fault));
                        is_lost = true;
                    }
                }
            }
            pipe.consume(used);
            is_lost |= read.is_err();
            if is_lost || matches!(read, Ok(None)) {
                break;
            }
        }
        if is_lost {
            self.0 = None;
            peer.lose();
        }
        is_lost
    }

    fn flush(&mut self, peer: &mut Peer) {
        peer.beat();
        if let Some(pipe) = &mut self.0 {
            pipe.out().append(&mut peer.out);
            // One that is gone is noticed where it is read.
            let _ = pipe.flush();
        }
    }
}

/// All that takes part in a run.
struct TradingFloor {
    node: Node,
    budgets: Arc<Vec<Budget>>,
    traders: Vec<Trader>,
    venue: Venue,
    /// Of the traders, and of the venue.
    lines: Vec<Link>,
    venue_line: Link,
    target: SocketAddr,
    listener: TcpListener,
    poll: Poll,
    dialled: Instant,
    start: Instant,
    /// What ClOrdIDs of this run begin with.
    run: String,
    latency: Histogram<u64>,
    reconnects: u64,
    looks: Receiver<Vec<BudgetLines>>,
    faults: Vec<String>,
}

fn system(what: &'static str) -> impl Fn(io::Error) -> HammerError {
    move |source| HammerError::System { what, source }
}

fn address(flag: &'static str, text: Option<&str>) -> Result<SocketAddr, HammerError> {
    let text = text.unwrap_or_default();
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| HammerError::Usage {
        flag,
        found: format!("{text:?} has no address"),
        expected: "HOST:PORT".into(),
    })
}

/// Reads a session of the node as its other side, which goes on where the node is.
fn peer(session: &Value, accepts: bool) -> Result<Peer, HammerError> {
    let text = |key: &str| session[key].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("begin_string"));
    if version == "FIX.4.2" {
        let what = format!("session {name} is of FIX.4.2; expected FIX.4.4 or FIXT.1.1");
        return Err(HammerError::Fix(what));
    }
    if !session["address"].is_null() {
        let what = format!("session {name} has a connection: end its peer, which the hammer plays");
        return Err(HammerError::Fix(what));
    }
    let number = |key: &str| session[key].as_u64().unwrap_or(1);
    let names = [version, text("target_comp_id"), text("sender_comp_id")];
    Ok(Peer::new(names, (number("next_in"), number("next_out")), accepts))
}

impl TradingFloor {
    fn new(args: &Args) -> Result<TradingFloor, HammerError> {
        let access =
            Access { target: args.admin.clone(), token_file: args.token_file.clone(), ca: None };
        let told = |error: admin_client::OpenError| HammerError::Fix(error.to_string());
        let node = Node(access.open(Path::new("weir-data")).map_err(told)?);
        let budgets = Arc::new(node.budgets()?);
        if budgets.is_empty() {
            return Err(HammerError::Fix(
                "no budget of the node binds orders: give one a key \"orders\"".into(),
            ));
        }
        // Before the venue listens: the numbers that the node dials with are these.
        let sessions = node.get("/v1/fix/sessions")?;
        let all = || sessions["sessions"].as_array().into_iter().flatten();
        let mut venues = all().filter(|session| session["kind"] == "venue");
        let (Some(of_venue), None) = (venues.next(), venues.next()) else {
            return Err(HammerError::Fix(
                "the hammer plays one venue: expected one [[fix.venue]]".into(),
            ));
        };
        let venue = Venue::new(peer(of_venue, true)?, budgets.len(), args.seed);
        let began = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let run = format!("h{}", began.as_millis());
        let mut traders = Vec::new();
        for session in all()
            .filter(|session| session["kind"] == "client" && session["route"] == of_venue["name"])
        {
            let (ids, at) = (format!("{run}-{}", traders.len()), (args.seed, traders.len()));
            let name = session["name"].as_str().unwrap_or_default();
            traders.push(Trader::new(name, peer(session, false)?, ids, &budgets, at));
        }
        if traders.is_empty() {
            let what = format!("no [[fix.session]] has route = {}", of_venue["name"]);
            return Err(HammerError::Fix(what));
        }
        let poll = Poll::new().map_err(system("a readiness queue"))?;
        let venue_address = address("venue", args.venue.as_deref())?;
        let mut listener =
            TcpListener::bind(venue_address).map_err(system("the address of --venue"))?;
        poll.registry()
            .register(&mut listener, Token(0), Interest::READABLE)
            .map_err(system("a socket"))?;
        Ok(TradingFloor {
            target: address("target", args.target.as_deref())?,
            lines: traders.iter().map(|_| Link::default()).collect(),
            looks: look(&node, &budgets, args.audit_every.unwrap_or(PROGRESS_EVERY)),
            node,
            budgets,
            traders,
            venue,
            venue_line: Link::default(),
            listener,
            poll,
            dialled: Instant::now(),
            start: Instant::now(),
            run,
            latency: histogram(),
            reconnects: 0,
            faults: Vec::new(),
        })
    }

    fn is_up(&self) -> bool {
        self.venue.peer.is_logged_on && self.traders.iter().all(|trader| trader.peer.is_logged_on)
    }

    fn wait_logons(&mut self, args: &Args, stop: &AtomicBool) -> Result<(), HammerError> {
        while !self.is_up() {
            if self.start.elapsed() > LOGON_WAIT || stop.load(Ordering::Relaxed) {
                let missing = self
                    .traders
                    .iter()
                    .filter(|one| !one.peer.is_logged_on)
                    .map(|one| one.name.as_str());
                let missing: Vec<&str> = missing.collect();
                let what = match self.venue.peer.is_logged_on {
                    true => format!(
                        "no Logon of {} was accepted at {}; the node's log says why",
                        missing.join(", "),
                        self.target
                    ),
                    false => format!(
                        "the node did not log on at {}: expected it in connect of its [[fix.venue]], which may not have reset_on_logon",
                        args.venue.as_deref().unwrap_or_default()
                    ),
                };
                return Err(HammerError::Fix(what));
            }
            self.turn();
        }
        Ok(())
    }

    fn load(&mut self, args: &Args, stop: &AtomicBool) {
        self.start = Instant::now();
        let (mut sent, mut shown) = (0_u128, PROGRESS_EVERY);
        let depth = usize::try_from(args.depth).unwrap_or(usize::MAX);
        while self.start.elapsed() < args.duration && !stop.load(Ordering::Relaxed) {
            let us = self.start.elapsed().as_micros();
            let due = args.rate.map_or(u128::MAX, |rate| us * u128::from(rate) / 1_000_000);
            for trader in &mut self.traders {
                while sent < due && trader.may_send(depth) {
                    trader.act();
                    sent += 1;
                }
            }
            self.turn();
            if self.start.elapsed() >= shown && !args.quiet {
                shown += PROGRESS_EVERY;
                self.show();
            }
        }
    }

    /// Lets everything that is under way arrive, and cancels what cannot be compared while it is open.
    fn drain(&mut self, args: &Args) {
        self.venue.is_closing = true;
        let end = Instant::now() + args.drain;
        while !(self.is_up() && self.traders.iter().all(Trader::is_idle)) && Instant::now() < end {
            self.traders
                .iter_mut()
                .filter(|trader| trader.peer.is_logged_on)
                .for_each(Trader::wind_up);
            self.turn();
        }
        let lost: Vec<String> = self.traders.iter().flat_map(Trader::lost).collect();
        lost.into_iter().for_each(|fault| self.fault(fault));
    }

    /// Compares the books until they agree; `None` where they do not.
    fn audit(&mut self, args: &Args) -> Option<Vec<BudgetLines>> {
        let (begin, mut differs) = (Instant::now(), None);
        loop {
            let read = self.node.read(&self.budgets);
            let compared =
                read.map(|found| (found.compare(&self.budgets, &self.venue, &self.run), found));
            let (waits, why) = match compared {
                Ok((differences, found)) if differences.is_empty() => return Some(found.lines),
                Ok((differences, _)) => {
                    (differs.get_or_insert_with(Instant::now).elapsed() < SETTLE, differences)
                }
                Err(error) => (
                    begin.elapsed() < args.audit_patience,
                    vec![format!("the books could not be read: {error}")],
                ),
            };
            if !waits {
                why.into_iter().for_each(|fault| self.fault(fault));
                return None;
            }
            for _ in 0..100 {
                self.turn();
            }
        }
    }

    fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(text);
        }
    }

    /// One look at everything.
    fn turn(&mut self) {
        self.connect();
        self.hear_venue();
        self.venue.turn(
            &self.budgets,
            u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        for (client, report) in self.venue.reports.drain(..) {
            self.traders[client].expected.push_back(report);
        }
        let mut heard = Vec::new();
        for (line, trader) in self.lines.iter_mut().zip(&mut self.traders) {
            self.reconnects += u64::from(line.hear(&mut trader.peer, &mut heard));
            for message in heard.drain(..) {
                let fault = message.and_then(|message| trader.take(&message)).err();
                self.faults.extend(fault.filter(|_| self.faults.len() < FAULTS_MAX));
            }
            line.flush(&mut trader.peer);
        }
        self.venue_line.flush(&mut self.venue.peer);
        while let Ok(lines) = self.looks.try_recv() {
            self.judge_limits(&lines);
        }
        let _ = self.poll.poll(&mut Events::with_capacity(64), Some(SLEEP));
    }

    fn line(&self, stream: io::Result<TcpStream>) -> Option<Link> {
        let mut stream = stream.ok()?;
        stream.set_nodelay(true).ok()?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(1), both).ok()?;
        Some(Link(Some(Pipe::new(stream))))
    }

    /// Takes the node's connection to the venue, and connects the clients once the venue is there.
    fn connect(&mut self) {
        if let Some(line) = self.line(self.listener.accept().map(|one| one.0)) {
            self.venue.peer.lose();
            self.venue_line = line;
        }
        if !self.venue.peer.is_logged_on || self.dialled.elapsed() < DIAL_EVERY {
            return;
        }
        self.dialled = Instant::now();
        for at in 0..self.lines.len() {
            if self.lines[at].0.is_some() {
                continue;
            }
            let stream = std::net::TcpStream::connect_timeout(&self.target, DIAL_EVERY);
            let stream = stream.and_then(|stream| {
                stream.set_nonblocking(true).map(|()| TcpStream::from_std(stream))
            });
            if let Some(line) = self.line(stream) {
                self.lines[at] = line;
                self.traders[at].peer.log_on();
            }
        }
    }

    fn hear_venue(&mut self) {
        let mut heard = Vec::new();
        self.reconnects += u64::from(self.venue_line.hear(&mut self.venue.peer, &mut heard));
        for message in heard {
            if let Err(fault) = message.and_then(|message| self.at_venue(&message)) {
                self.fault(fault);
            }
        }
    }

    fn at_venue(&mut self, message: &Message) -> Result<(), String> {
        let id = message.get(11);
        let client = id
            .strip_prefix(&self.run)
            .and_then(|rest| rest.split('-').nth(1)?.parse::<usize>().ok());
        let Some(trader) = client.and_then(|client| self.traders.get_mut(client)) else {
            // What an earlier run left open may still be spoken of.
            return Ok(());
        };
        if self.venue.knows(id) {
            let is_said = message.get(97) == "Y" || message.get(43) == "Y";
            return if is_said {
                Ok(())
            } else {
                Err(format!("twice at the venue: {}", message.shown()))
            };
        }
        let took = trader.arrived(message)?;
        if message.get(97) != "Y" && message.get(43) != "Y" && message.get(35) == "D" {
            let _ = self.latency.record(took);
        }
        let at_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.venue.take(message, (client.unwrap_or(0), &trader.name), &self.budgets, at_ms);
        Ok(())
    }

    /// Nothing is above its limit but for what the venue did on purpose, and what was above it before.
    fn judge_limits(&mut self, lines: &[BudgetLines]) {
        for (at, found) in lines.iter().enumerate() {
            let budget = &self.budgets[at];
            let allowed = budget.before.over().max(0) + self.venue.beyond[at];
            if found.over() > allowed {
                let (over, allowed) = (budgets::shown(found.over()), budgets::shown(allowed));
                self.fault(format!(
                    "budget {} is {over} above its limit, allowed is {allowed}",
                    budget.id
                ));
            }
        }
    }

    fn show(&self) {
        let (venue, up) = (&self.venue.counts, if self.is_up() { "" } else { "  NOT CONNECTED" });
        let refused: u64 = self.traders.iter().flat_map(|one| one.counts.refused.values()).sum();
        let at = self.start.elapsed().as_secs();
        let (orders, fills) = (grouped(venue.orders), grouped(venue.fills));
        let _ = writeln!(
            io::stderr(),
            "{at:4} s  at the venue {orders}  refused {}  fills {fills}  p99 {} us{up}",
            grouped(refused),
            Quantiles::of(&self.latency).p99
        );
    }

    fn report(mut self, args: &Args, audited: Option<Vec<BudgetLines>>) -> FixReport {
        self.judge_limits(audited.as_deref().unwrap_or_default());
        if self.venue.counts.orders == 0 {
            self.fault("no order reached the venue: nothing was tried".into());
        }
        let (mut sent, mut refused) = ([0; 3], BTreeMap::<&str, u64>::new());
        for client::TraderCounts { orders, replaces, cancels, refused: own } in
            self.traders.iter().map(|one| &one.counts)
        {
            sent = [sent[0] + orders, sent[1] + replaces, sent[2] + cancels];
            own.iter().for_each(|(text, count)| *refused.entry(text).or_default() += count);
        }
        let line = |(lines, budget): (&BudgetLines, &Budget)| {
            let [limit, settled, late, held, left] =
                [lines.limit, lines.settled, lines.late, lines.held, -lines.over()]
                    .map(budgets::shown);
            let text =
                format!("limit {limit}, settled {settled}, late {late}, held {held}, left {left}");
            (budget.id.clone(), text.into())
        };
        let budgets = audited.iter().flatten().zip(self.budgets.iter()).map(line);
        let audit = if self.faults.is_empty() {
            "ok".to_owned()
        } else {
            format!("FAILED: {}", self.faults.join("; "))
        };
        FixReport(json!({
            "sent": {"clients": self.traders.len(), "seed": args.seed, "orders": sent[0], "replaces": sent[1], "cancels": sent[2],
                "connections_lost": self.reconnects},
            "refused": refused,
            "venue": &self.venue.counts,
            "open": self.venue.orders.iter().filter(|order| order.is_open).count(),
            "order_to_venue_us": Quantiles::of(&self.latency),
            "budgets": budgets.collect::<serde_json::Map<_, _>>(),
            "audit": audit,
        }))
    }
}

/// Reads the budgets now and then, until nobody takes them any more. While the node is gone there is nothing to see.
fn look(node: &Node, budgets: &Arc<Vec<Budget>>, every: Duration) -> Receiver<Vec<BudgetLines>> {
    let (looks, taken) = channel();
    let (node, budgets) = (node.clone(), Arc::clone(budgets));
    let mut go_on = !every.is_zero();
    std::thread::spawn(move || {
        while go_on {
            std::thread::sleep(every);
            let lines: Result<Vec<BudgetLines>, _> =
                budgets.iter().map(|budget| node.lines(budget)).collect();
            go_on = lines.map_or(true, |lines| looks.send(lines).is_ok());
        }
    });
    taken
}
